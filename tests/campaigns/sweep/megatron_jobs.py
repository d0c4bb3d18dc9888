"""Jobs of four ranks that train a small GPT with Megatron-core; torch_sweep.py runs them.

Megatron-core's own layers, schedules, buffers and optimizers run on tensors of the CPU
(`examples/megatron/on_cpu.py`); everything that communicates is Megatron's. A job is three steps of
a GPT of four layers, eight wide, with the options that its name says.
"""

from __future__ import annotations

import itertools
import os
from typing import Any

os.environ["TORCHDYNAMO_DISABLE"] = "1"  # its fused functions would be compiled
os.environ.setdefault("CUDA_DEVICE_MAX_CONNECTIONS", "1")

import megatron.core  # type: ignore[import-not-found]
import torch
from megatron.core import parallel_state, tensor_parallel
from megatron.core.distributed import (  # type: ignore[import-not-found]
    DistributedDataParallel,
    DistributedDataParallelConfig,
    finalize_model_grads,
)
from megatron.core.models.gpt import GPTModel  # type: ignore[import-not-found]
from megatron.core.models.gpt.gpt_layer_specs import (  # type: ignore[import-not-found]
    get_gpt_layer_local_spec,
)
from megatron.core.optimizer import (  # type: ignore[import-not-found]
    OptimizerConfig,
    get_megatron_optimizer,
)
from megatron.core.pipeline_parallel import (  # type: ignore[import-not-found]
    get_forward_backward_func,
)
from megatron.core.transformer import TransformerConfig  # type: ignore[import-not-found]
from megatron.core.transformer.moe import (  # type: ignore[import-not-found]
    moe_utils,
    token_dispatcher,
)

from sweep import on_cpu

on_cpu.pretend()
on_cpu.pretend_megatron()

moe_utils.te_general_gemm = None  # it is asked for, and undefined without TransformerEngine
token_dispatcher.maybe_move_tensor_to_cpu = lambda tensor, as_numpy=False, **_: (
    tensor.numpy() if as_numpy and torch.is_tensor(tensor) else tensor
)  # it tells a tensor that is to be moved by its being on a GPU


SEQUENCE, BATCH, WIDTH, HEADS, VOCABULARY = 8, 2, 16, 4, 32
Options = dict[str, Any]


def version() -> str:
    """Name the planner and its version."""
    return f"megatron-core {megatron.core.__version__}"


def chunks_of(config: Any, ddp: Options, given: Options) -> list[Any]:
    """Build this rank's part of the model, wrapped in Megatron's DDP."""
    pipeline, virtual = config.pipeline_model_parallel_size, given.get("virtual") or 1
    stage = parallel_state.get_pipeline_model_parallel_rank()
    spec = get_gpt_layer_local_spec(num_experts=config.num_moe_experts)
    chunks = []
    for chunk in range(virtual):
        model = GPTModel(
            config, spec, VOCABULARY, SEQUENCE,
            pre_process=stage == 0 and chunk == 0,
            post_process=stage == pipeline - 1 and chunk == virtual - 1,
            share_embeddings_and_output_weights=given.get("tied", False),
            vp_stage=chunk if virtual > 1 else None,
        )  # fmt: skip
        chunks.append(model)
    wrapped = [
        DistributedDataParallel(
            config, DistributedDataParallelConfig(**{"bucket_size": 600} | ddp), model,
            disable_bucketing=number > 0 and given.get("disable_bucketing", False),
        )
        for number, model in enumerate(chunks)
    ]  # fmt: skip
    for model in wrapped:
        model.broadcast_params()
    return wrapped


def batches() -> Any:
    """Yield random tokens; ranks of one model replica draw the same."""
    source = torch.Generator().manual_seed(parallel_state.get_data_parallel_rank())
    while True:
        yield torch.randint(VOCABULARY, (BATCH, SEQUENCE), generator=source)


def forward(source: Any, model: Any) -> Any:
    """Run one microbatch; the schedule calls this."""
    tokens = next(source)
    mask = torch.ones(1, 1, SEQUENCE, SEQUENCE).triu(1).bool()
    positions = torch.arange(SEQUENCE).expand(BATCH, -1)
    output = model(tokens, positions, mask, labels=tokens)
    if model.config.calculate_per_token_loss:
        counted = torch.tensor(tokens.numel(), dtype=torch.int)
        return output, lambda loss: (loss.sum(), counted, {"loss": loss.sum().detach()})
    return output, lambda loss: (loss.mean(), {"loss": loss.mean().detach()})


def train(given: Options) -> None:
    """Train three steps with the options of a job."""
    sizes = {"tensor_model_parallel_size": given.get("tp", 1),
             "pipeline_model_parallel_size": given.get("pp", 1),
             "context_parallel_size": given.get("cp", 1),
             "expert_model_parallel_size": given.get("ep", 1),
             "expert_tensor_parallel_size": given.get("etp", given.get("tp", 1))}  # fmt: skip
    ddp, virtual = given.get("ddp", {}), given.get("virtual")
    parallel_state.initialize_model_parallel(
        **sizes, virtual_pipeline_model_parallel_size=virtual, create_gloo_process_groups=False,
        num_distributed_optimizer_instances=ddp.get("num_distributed_optimizer_instances", 1),
        order=given.get("order", "tp-cp-ep-dp-pp"),
    )  # fmt: skip
    tensor_parallel.model_parallel_cuda_manual_seed(7)
    config = TransformerConfig(**{
        "num_layers": 4, "hidden_size": WIDTH, "num_attention_heads": HEADS,
        "use_cpu_initialization": True, "pipeline_dtype": torch.float32, "attention_dropout": 0.0,
        "hidden_dropout": 0.0, "gradient_accumulation_fusion": False,
        "masked_softmax_fusion": False, "virtual_pipeline_model_parallel_size": virtual,
        **sizes, **given.get("config", {}),
    })  # fmt: skip
    chunks = chunks_of(config, ddp, given)
    config.finalize_model_grads_func = finalize_model_grads
    hooked = [model.no_sync for model in chunks]
    if ddp.get("overlap_grad_reduce"):
        config.no_sync_func = hooked if virtual else hooked[0]
        if given.get("align"):
            starts = [model.start_grad_sync for model in chunks]
            config.grad_sync_func = starts if virtual else starts[0]
    if ddp.get("overlap_param_gather") and ddp.get("align_param_gather"):
        syncs = [model.start_param_sync for model in chunks]
        config.param_sync_func = syncs if virtual else syncs[0]
    told = {"optimizer": "adam", "lr": 0.1, "clip_grad": 1.0, **given.get("optimizer", {})}
    optimizer = get_megatron_optimizer(
        OptimizerConfig(
            use_distributed_optimizer=ddp.get("use_distributed_optimizer", False),
            overlap_param_gather=ddp.get("overlap_param_gather", False), **told),
        chunks, use_gloo_process_groups=False,
    )  # fmt: skip
    config.grad_scale_func = optimizer.scale_loss
    step(chunks, optimizer, given)


def step(chunks: list[Any], optimizer: Any, given: Options) -> None:
    """Run the schedule and the optimizer, three times."""
    run = get_forward_backward_func()
    for _ in range(given.get("steps", 3)):
        for model in chunks:
            model.zero_grad_buffer()
        optimizer.zero_grad()
        run(
            forward_step_func=forward, data_iterator=[batches() for _ in chunks],
            model=chunks if len(chunks) > 1 else chunks[0],
            num_microbatches=given.get("microbatches", 4), seq_length=SEQUENCE,
            micro_batch_size=BATCH, forward_only=given.get("forward_only", False),
        )  # fmt: skip
        if not given.get("forward_only"):
            optimizer.step()


def job(given: Options) -> Any:
    """Make a job of these options."""
    return lambda _rank, _world: train(given)


OVERLAP = {"overlap_grad_reduce": True}
SHARDED = {"use_distributed_optimizer": True}
GATHER = {**OVERLAP, **SHARDED, "overlap_param_gather": True}
ALIGNED = {**GATHER, "align_param_gather": True}
BUFFERS: dict[str, Options] = {
    "all-reduce": {}, "all-reduce, overlapped": OVERLAP,
    "all-reduce, averaged in it": {"average_in_collective": True},
    "sharded": SHARDED, "sharded, gradients overlapped": {**SHARDED, **OVERLAP},
    "sharded, parameters overlapped": GATHER,
    "sharded, averaged, one bucket": {**SHARDED, "average_in_collective": True,
                                      "bucket_size": None},
    "sharded, fp32 accumulation": {**SHARDED, **OVERLAP,
                                   "reduce_scatter_with_fp32_accumulation": True},
    "sharded, padded": {**SHARDED, "pad_buckets_for_high_nccl_busbw": True},
    "sharded, checked": {**SHARDED, "check_for_nan_in_grad": True},
    "two instances": {**SHARDED, "num_distributed_optimizer_instances": 2},
    "two instances, gradients overlapped": {
        **SHARDED, **OVERLAP, "num_distributed_optimizer_instances": 2},
    "two instances, all overlapped": {**GATHER, "num_distributed_optimizer_instances": 2},
}  # fmt: skip
TENSOR: dict[str, Options] = {
    "": {}, "sequence": {"sequence_parallel": True},
    "no overlap of the backward": {"tp_comm_overlap": False},
    "recompute": {"recompute_granularity": "full", "recompute_method": "uniform",
                  "recompute_num_layers": 1},
    "recompute, distributed": {
        "recompute_granularity": "full", "recompute_method": "uniform",
        "recompute_num_layers": 1, "distribute_saved_activations": True},
    "sequence, recompute": {
        "sequence_parallel": True, "recompute_granularity": "full",
        "recompute_method": "block", "recompute_num_layers": 1},
    "sequence, selective recompute": {"sequence_parallel": True,
                                      "recompute_granularity": "selective"},
    "untied norms of queries": {"qk_layernorm": True},
}  # fmt: skip
DISPATCH: dict[str, Options] = {
    "allgather": {"moe_token_dispatcher_type": "allgather"},
    "alltoall": {"moe_token_dispatcher_type": "alltoall"},
}
ROUTE: dict[str, Options] = {
    "": {}, "auxiliary loss": {"moe_aux_loss_coeff": 0.1},
    "sequence loss": {"moe_aux_loss_coeff": 0.1, "moe_router_load_balancing_type": "seq_aux_loss"},
    "global loss": {"moe_aux_loss_coeff": 0.1,
                    "moe_router_load_balancing_type": "global_aux_loss"},
    "sinkhorn": {"moe_router_load_balancing_type": "sinkhorn", "moe_router_topk": 1},
    "z loss": {"moe_z_loss_coeff": 0.1},
    "capacity": {"moe_expert_capacity_factor": 1.0},
    "capacity, padded": {"moe_expert_capacity_factor": 1.0,
                         "moe_pad_expert_input_to_capacity": True},
    "bias": {"moe_router_enable_expert_bias": True, "moe_router_score_function": "sigmoid"},
    "shared expert": {"moe_shared_expert_intermediate_size": 16},
    "shared expert, overlapped": {"moe_shared_expert_intermediate_size": 16,
                                  "moe_shared_expert_overlap": True},
    "recompute": {"recompute_granularity": "selective", "recompute_modules": ["moe"]},
    "limited devices": {"moe_router_num_groups": 2, "moe_router_group_topk": 1,
                        "moe_router_topk": 2},
}  # fmt: skip


def data() -> dict[str, Options]:
    """Return jobs of replicas: Megatron's buffers, with four replicas and two x two."""
    found: dict[str, Options] = {}
    for name, ddp in BUFFERS.items():
        found[f"dp4, {name}"] = {"ddp": ddp}
        found[f"dp2 tp2, {name}"] = {"ddp": ddp, "tp": 2, "config": {"sequence_parallel": True}}
    found["dp4, sharded, zeros counted"] = {
        "ddp": SHARDED,
        "optimizer": {"log_num_zeros_in_grad": True},
    }
    found["dp4, per token"] = {"ddp": SHARDED, "config": {"calculate_per_token_loss": True}}
    return found  # fmt: skip


def tensors() -> dict[str, Options]:
    """Return jobs of tensor parallelism."""
    found: dict[str, Options] = {}
    for name, config in TENSOR.items():
        for tp in (2, 4):
            found[f"tp{tp}{', ' if name else ''}{name}"] = {"tp": tp, "config": config}
    found["tp2 dp2, tied"] = {"tp": 2, "tied": True}
    found["tp2 dp2, flex dispatcher"] = {
        "tp": 2,
        "ep": 2,
        "config": {
            "num_moe_experts": 4,
            "moe_token_dispatcher_type": "flex",
            "add_bias_linear": False,
            "sequence_parallel": True,
        },
    }
    found["pp2 tp2, delayed embedding"] = {
        "pp": 2,
        "tp": 2,
        "config": {"defer_embedding_wgrad_compute": True, "gradient_accumulation_fusion": True},
    }
    found["tp2 dp2, order dp first"] = {"tp": 2, "order": "dp-cp-ep-tp-pp"}
    found["cp2 dp2"] = {"cp": 2}
    return found


def experts() -> dict[str, Options]:
    """Return jobs of experts."""
    found: dict[str, Options] = {}
    for (how, sent), (name, routed) in itertools.product(DISPATCH.items(), ROUTE.items()):
        config = {"num_moe_experts": 4, "add_bias_linear": False, **sent, **routed}
        title = f"{how}{', ' if name else ''}{name}"
        found[f"ep4, {title}"] = {"ep": 4, "config": config}
        found[f"ep2 tp2, {title}"] = {
            "ep": 2,
            "tp": 2,
            "etp": 1,
            "config": {**config, "sequence_parallel": True},
        }
    for how, sent in DISPATCH.items():
        config = {"num_moe_experts": 4, "add_bias_linear": False, **sent}
        sequence = {**config, "sequence_parallel": True}
        found[f"ep2 etp2, {how}"] = {"ep": 2, "tp": 2, "etp": 2, "config": sequence}
        found[f"tp2 etp4, {how}"] = {"ep": 1, "tp": 2, "etp": 4, "config": sequence}
        for name, ddp in BUFFERS.items():
            if name in ("sharded, parameters overlapped", "two instances, all overlapped"):
                found[f"ep2, {how}, {name}"] = {"ep": 2, "ddp": ddp, "config": config}
        found[f"ep2 pp2, {how}"] = {
            "ep": 2,
            "pp": 2,
            "config": {**config, "variable_seq_lengths": how == "alltoall"},
        }
    return found  # fmt: skip


def pipelines() -> dict[str, Options]:
    """Return jobs of pipelines whose stages are replicated, tied, sharded, or laid out unevenly."""
    found: dict[str, Options] = {}
    overlap = {"overlap_p2p_comm": True, "batch_p2p_comm": False}
    for virtual, (name, ddp) in itertools.product((None, 2), BUFFERS.items()):
        config = overlap if virtual else {}
        kind = f"pp2{' x 2 chunks' if virtual else ''} dp2, {name}"
        if "checked" in name or "padded" in name:
            continue
        found[kind] = {"pp": 2, "virtual": virtual, "ddp": ddp, "config": config, "tied": True}
    for virtual in (None, 2):
        base = {"pp": 2, "virtual": virtual, "config": overlap if virtual else {}}
        kind = f"pp2{' x 2 chunks' if virtual else ''} dp2"
        found[f"{kind}, aligned"] = {**base, "ddp": ALIGNED, "align": True}
        found[f"{kind}, gradients aligned"] = {**base, "ddp": OVERLAP, "align": True}
        found[f"{kind}, one bucket a later chunk"] = {
            **base,
            "ddp": GATHER,
            "disable_bucketing": True,
        }
        found[f"{kind}, forward only"] = {**base, "forward_only": True}
    for layout in ("Et|ttt|L", "Ett|t|t|L", "E|tt|tt|L", "Et*3|t|L", "E|t|t|ttL"):
        for pp in (2, 4):
            chunks = layout.count("|") + 1
            if "*" not in layout and chunks % pp == 0:
                found[f"pp{pp}, layout {layout}"] = {
                    "pp": pp,
                    "virtual": chunks // pp if chunks > pp else None,
                    "config": {
                        "pipeline_model_parallel_layout": layout,
                        **(overlap if chunks > pp else {}),
                    },
                }
    found["pp4, tied"] = {"pp": 4, "tied": True}
    found["pp4, embedding and loss counted"] = {
        "pp": 4,
        "config": {
            "num_layers": 6,
            "account_for_embedding_in_pipeline_split": True,
            "account_for_loss_in_pipeline_split": True,
        },
    }
    found["pp2 tp2, sequence, tied"] = {
        "pp": 2,
        "tp": 2,
        "tied": True,
        "config": {"sequence_parallel": True},
    }
    found["pp2 dp2, first stage of one layer"] = {
        "pp": 2,
        "config": {"num_layers_in_first_pipeline_stage": 1},
    }
    return found  # fmt: skip


OPTIONS = tensors() | data() | experts() | pipelines()
JOBS = {f"megatron: {name}": job(given) for name, given in OPTIONS.items()}
