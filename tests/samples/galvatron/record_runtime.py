"""Run Hetu-Galvatron's own runtime on small strategies and write what every rank asks for.

``python record_runtime.py CHECKOUT`` needs a checkout of PKU-DAIR/Hetu-Galvatron (Apache-2.0; the
commit stands in ``tests/corpus/traces/galvatron-runtime.json``), torch and einops, no GPU. Its real
functions run, once per rank in this process, over torch's ``fake`` backend:
``hp_config_whole_model``, ``gen_comm_groups``, ``Module_with_relocation``, the wrapping by FSDP and
the schedules of ``PipelineParallel``. In the place of the modules of a model stands one
multiplication each. ``tests/unit/test_galvatron.py`` compares plans with the result, call by call.
"""

from __future__ import annotations

import contextlib
import importlib.machinery
import io
import json
import subprocess
import sys
import types
from pathlib import Path
from unittest import mock

import torch
import torch.distributed as dist
from planguard.planners.megatron.recorder import _Op
from torch.testing._internal.distributed.fake_pg import FakeStore

HERE = Path(__file__).resolve().parent
SEQUENCE, HIDDEN = 16, 4
SCATTER = (
    "reduce_scatter_single" if hasattr(dist, "reduce_scatter_single") else "reduce_scatter_tensor"
)
CASES = {
    "one-stage": (4, {"pp_deg": 1, "tp_sizes_enc": "1,2,2,4", "global_bsz": 8, "chunks": 1}),
    "whole-shards": (
        4,
        {"pp_deg": 1, "tp_sizes_enc": "1,2,2,1", "dp_types_enc": "1,0,1,1", "global_bsz": 8,
         "chunks": 2, "default_dp_type": "ddp"},
    ),
    "1f1b": (
        8,
        {"pp_deg": 2, "tp_sizes_enc": "2,2,1,4,2", "pp_division": "2,3", "global_bsz": 16,
         "chunks": 4, "pipeline_type": "pipedream_flush", "vtp": 2},
    ),
    "gpipe": (
        8,
        {"pp_deg": 2, "tp_sizes_enc": "4,1,2,2", "global_bsz": 36, "chunks": 5,
         "pipeline_type": "gpipe", "vtp": 4},
    ),
    "four-stages": (
        8,
        {"pp_deg": 4, "tp_sizes_enc": "1,2,2,1,2,1", "dp_types_enc": "1,1,0,1,1,0",
         "pp_division": "1,2,2,1", "global_bsz": 12, "chunks": 6,
         "pipeline_type": "pipedream_flush"},
    ),
    "few-chunks": (
        4,
        {"pp_deg": 4, "tp_sizes_enc": "1,1,1,1", "global_bsz": 5, "chunks": 4,
         "pipeline_type": "pipedream_flush"},
    ),
    "ulysses": (
        8,
        {"pp_deg": 2, "tp_sizes_enc": "2,4,4,2", "use_sp": "1,1,0,0", "global_bsz": 8, "chunks": 2,
         "pipeline_type": "pipedream_flush", "vtp": 2, "vsp": 1},
    ),
    "context": (
        8,
        {"pp_deg": 1, "tp_sizes_enc": "2,1,2,2", "cp_sizes_enc": "1,2,2,1", "global_bsz": 8,
         "chunks": 2, "vtp": 1, "vcp": 2},
    ),
}  # fmt: skip


def checked_out(checkout: Path) -> None:
    """Make the packages importable without what their ``__init__`` loads: kernels, datasets."""
    for name in ("galvatron", "galvatron.core", "galvatron.core.runtime", "galvatron.utils",
                 "galvatron.core.runtime.utils"):  # fmt: skip
        package = types.ModuleType(name)
        package.__path__ = [str(checkout / name.replace(".", "/"))]
        package.__spec__ = importlib.machinery.ModuleSpec(name, None, is_package=True)
        sys.modules[name] = package
    state = types.ModuleType("galvatron.core.runtime.parallel_state")
    state.get_args = lambda: state.args
    sys.modules[state.__name__] = state
    schema = types.ModuleType("galvatron.core.runtime.args_schema")
    for name in ("GalvatronRuntimeArgs", "GalvatronParallelArgs", "GalvatronModelArgs"):
        setattr(schema, name, object)
    sys.modules[schema.__name__] = schema
    helpers = types.ModuleType("galvatron.core.runtime.utils.utils")
    helpers.is_torch_min_version = bool
    helpers.rgetattr = helpers.rhasattr = None
    buffer = types.SimpleNamespace(
        get_tensor=lambda shape, dtype, _: torch.empty(shape, dtype=dtype)
    )
    state.get_global_memory_buffer = lambda: buffer
    sys.modules[helpers.__name__] = helpers
    optimize = types.ModuleType("scipy.optimize")
    optimize.curve_fit = None
    sys.modules |= {"scipy": types.ModuleType("scipy"), "scipy.optimize": optimize}
    utils = sys.modules["galvatron.utils"]
    from galvatron.utils import config_utils  # type: ignore[import-not-found]

    for name in ("config2strategy", "read_json_config", "str2array"):
        setattr(utils, name, getattr(config_utils, name))


class Log:
    """What one rank asks torch.distributed for, as words."""

    def __init__(self) -> None:
        self.words: list[str] = []
        self.unit = ""

    def batch(self, ops: list[_Op]) -> list[Log]:
        parts = [f"{op.op}{op.peer} {list(op.tensor.shape)}" for op in ops]
        self.words.append("batch " + ", ".join(parts))
        return [self]

    def wait(self) -> None:
        self.words.append("wait")

    def gather(self, output: torch.Tensor, tensor: torch.Tensor, group: object = None) -> None:
        ranks = dist.get_process_group_ranks(group)
        assert output.shape[0] == tensor.shape[0] * len(ranks)
        self.words.append(f"all_gather {ranks} {list(tensor.shape)}")
        output.copy_(torch.cat([tensor] * len(ranks)))

    def parameters(self, outputs: object, tensor: torch.Tensor, group: object = None) -> None:
        """Note a gather of FSDP, which makes a list of parts on a CPU."""
        self.words.append(f"parameters {self.unit} {dist.get_process_group_ranks(group)}")

    def scattered(
        self, output: object, tensor: object, op: object = None, group: object = None
    ) -> None:
        self.words.append(f"reduce_scatter {self.unit} {dist.get_process_group_ranks(group)}")

    def reduced(self, tensor: torch.Tensor, op: object = None, group: object = None) -> None:
        what = self.unit if tensor.numel() > 1 else "norms"
        self.words.append(f"all_reduce {what} {dist.get_process_group_ranks(group)}")


class Module(torch.nn.Module):
    """One module of a model: a multiplication."""

    def __init__(self, log: Log, name: str, parts: int) -> None:
        super().__init__()
        self.log, self.name, self.parts = log, name, parts
        self.scale = torch.nn.Parameter(torch.ones(HIDDEN))

    def forward(self, tensor: torch.Tensor) -> torch.Tensor:
        self.log.words.append(f"forward {self.name}")
        if tensor.dtype == torch.int64:
            tensor = torch.ones(SEQUENCE // self.parts, tensor.shape[0], HIDDEN)
        assert tensor.shape[0] * self.parts == SEQUENCE, (self.name, tensor.shape)
        return _Noted.apply(tensor * self.scale, self.log, self.name)


class _Noted(torch.autograd.Function):
    @staticmethod
    def forward(ctx, tensor, log, name):
        ctx.log, ctx.name = log, name
        return tensor.clone()

    @staticmethod
    def backward(ctx, gradient):
        ctx.log.words.append(f"backward {ctx.name}")
        return gradient, None, None


def run(log: Log, strategy: dict) -> dict:
    """Run one rank of a strategy; return its groups and its calls."""
    from galvatron.core.runtime import parallel_state
    from galvatron.core.runtime.comm_groups import gen_comm_groups  # type: ignore[import-not-found]
    from galvatron.core.runtime.hybrid_parallel_config import (  # type: ignore[import-not-found]
        check_hp_config,
        get_hybrid_parallel_configs_api,
        hp_config_whole_model,
        layer_shapes_dtypes_whole_model,
    )
    from galvatron.core.runtime.parallel import (  # type: ignore[import-not-found]
        wrap_modules_relocation,
    )
    from galvatron.core.runtime.pipeline import pipeline  # type: ignore[import-not-found]

    layers = strategy["tp_sizes_enc"].count(",") + 1
    space = types.SimpleNamespace
    args = parallel_state.args = space(
        local_rank=1,
        parallel=space(galvatron_config_path=strategy, pipeline_type="gpipe", default_dp_type="ddp",
                       vocab_sdp=0, vocab_tp=1, vocab_sp=0, vocab_cp=1, pp_deg=1,
                       reduce_in_fp32=False, async_grad_reduce=True),
        model=space(num_layers=layers, is_moe_model=False, shape_order="SBH",
                    initialize_on_meta=False),
        train=space(chunks=1, global_batch_size=1, sequence_parallel=True),
        ckpt=space(distributed_checkpoint=False),
    )  # fmt: skip
    kinds = ["embed", *["dec"] * layers, "norm", "cls"]
    configs = get_hybrid_parallel_configs_api(args)
    check_hp_config(configs, [layers])
    whole = hp_config_whole_model(
        kinds, configs, vocab_sdp=args.parallel.vocab_sdp, vocab_tp=args.parallel.vocab_tp,
        vocab_sp=args.parallel.vocab_sp, vocab_cp=args.parallel.vocab_cp,
    )  # fmt: skip
    shapes, dtypes = layer_shapes_dtypes_whole_model(
        kinds, [layers], [[[SEQUENCE, -1, HIDDEN]]], [[torch.float32]]
    )
    sizes = (whole["tp_sizes_whole"], whole["sp_sizes_whole"], whole["cp_sizes_whole"])
    made = gen_comm_groups(
        *sizes, whole["ep_sizes_whole"], whole["tp_of_ep_sizes_whole"], whole["pp_deg"]
    )
    (pp, tp, sp, cp, dp, sdp, *_, ag_cp, split_cp, ag, split, fused_ag, fused_split, embedding) = (
        made
    )
    parts = [t * s * c for t, s, c in zip(*sizes, strict=True)]
    modules = torch.nn.Sequential(
        *(Module(log, f"{kind}{at}", parts[at]) for at, kind in enumerate(kinds))
    )
    modules = wrap_modules_relocation(modules, ag_cp, ag, split_cp, split, fused_ag, fused_split)
    model = pipeline.PipelineParallel(
        modules, whole["pp_ranks_whole"], shapes, dtypes, whole["dp_sizes_whole"], *sizes,
        chunks=args.train.chunks, process_group=pp, embedding_group=embedding, nproc_per_node=8,
    )  # fmt: skip
    model.wrap_pipeline_modules_data_parallel(
        whole["dp_types_whole"], sdp, kinds, mixed_precision=torch.float32,
        wrap_block_name=[Module], wrap_other_block_name=[Module], tp_groups=tp,
        all_block_name=[Module],
    )  # fmt: skip
    norms = [[0] if kind in {"dec", "norm"} else [] for kind in kinds]
    model.gen_sp_layernorm_info(kinds, tp, norms, [[1] * len(some) for some in norms], [Module])
    batch = args.train.global_batch_size // whole["dp_sizes_whole"][0]
    tokens = torch.zeros(batch, SEQUENCE, dtype=torch.int64)
    loss = lambda _, outputs: (outputs[0].sum(), outputs[0].sum())  # noqa: E731
    given = ([tokens], [tokens])
    if whole["pp_deg"] == 1:
        model.no_pipeline_forward_backward(given, loss)
    elif args.parallel.pipeline_type == "gpipe":
        model.gpipe_forward(given, loss)
        model.gpipe_backward()
    else:
        model.pipedream_flush_forward_backward(given, loss)
    kept = {"pp": [pp], "tp": tp, "sp": sp, "cp": cp, "dp": dp, "sdp": sdp, "gather": ag,
            "split": split, "fused gather": fused_ag, "fused split": fused_split,
            "embedding": [embedding]}  # fmt: skip
    groups = {kind: [group and group.ranks for group in some] for kind, some in kept.items()}
    return {"groups": groups, "calls": log.words}


def played(rank: int, world: int, strategy: dict) -> dict:
    """Run one rank with what needs a GPU or a network replaced."""
    dist.init_process_group("fake", rank=rank, world_size=world, store=FakeStore())
    log = Log()
    from galvatron.core.runtime import parallel  # type: ignore[import-not-found]
    from galvatron.core.runtime.pipeline import (  # type: ignore[import-not-found]
        grad_reduce,
        sp_grad_reduce,
    )
    from torch.distributed.fsdp import FullyShardedDataParallel, _flat_param, _runtime_utils

    class OnCpu(FullyShardedDataParallel):
        def __init__(self, module, **given):
            super().__init__(module, **{**given, "device_id": torch.device("cpu")})

    def named(call, unit):
        def noted(first, *rest):
            log.unit = unit(first)
            return call(first, *rest)

        return noted

    gather = named(_flat_param.FlatParamHandle._all_gather_flat_param,
                   lambda handle: handle._fully_sharded_module.name)  # fmt: skip
    reduces = [
        (sp_grad_reduce, name,
         named(getattr(sp_grad_reduce, name), lambda state: state._fsdp_wrapped_module.name))
        for name in ("_reduce_grad", "_reduce_grad_no_shard")
    ]  # fmt: skip
    cpu = lambda make: lambda *a, **k: make(*a, **{**k, "device": "cpu"})  # noqa: E731
    changes = [
        (dist, "P2POp", _Op),
        (dist, "isend", "isend>"), (dist, "irecv", "irecv<"),
        (dist, "batch_isend_irecv", log.batch),
        (dist, "all_gather_into_tensor", log.gather),
        (torch.cuda, "current_device", lambda: "cpu"), (torch.cuda, "device_count", lambda: 8),
        (torch.cuda, "synchronize", lambda: log.words.append("sync")),
        (torch, "empty", cpu(torch.empty)),
        (parallel, "FSDP", OnCpu), (_flat_param.FlatParamHandle, "_all_gather_flat_param", gather),
        *reduces, (dist, SCATTER, log.scattered),
        (dist, "all_gather", log.parameters),
        (dist, "all_reduce", log.reduced),
        # what construct_hybrid_parallel_model_api does for bf16, the default
        (_runtime_utils, "_register_post_backward_hook",
         grad_reduce._register_post_backward_hook_bf16),
        (_runtime_utils, "_finalize_params", grad_reduce._finalize_params_bf16),
    ]  # fmt: skip
    try:
        with contextlib.ExitStack() as replaced:
            for owner, name, value in changes:
                replaced.enter_context(mock.patch.object(owner, name, value))
            replaced.enter_context(contextlib.redirect_stdout(io.StringIO()))
            return run(log, strategy)
    finally:
        dist.destroy_process_group()


def filled(strategy: dict) -> dict:
    """Return a whole strategy."""
    layers = strategy["tp_sizes_enc"].count(",") + 1
    rest = {"tp_consecutive_flags": ",".join("1" * layers), "dp_types_enc": ",".join("0" * layers),
            "default_dp_type": "zero2"}  # fmt: skip
    return {**rest, **strategy}


def main() -> None:
    """Record all cases."""
    checkout = Path(sys.argv[1])
    checked_out(checkout)
    commit = (
        sys.argv[2]
        if len(sys.argv) > 2
        else subprocess.run(
            ["git", "-C", checkout, "rev-parse", "HEAD"], text=True, stdout=-1, check=True
        ).stdout.strip()
    )
    cases = {}
    for name, (world, given) in CASES.items():
        strategy = filled(given)
        ranks = [played(rank, world, strategy) for rank in range(world)]
        cases[name] = {"world_size": world, "strategy": strategy, "ranks": ranks}
    head = {"source": "PKU-DAIR/Hetu-Galvatron", "commit": commit, "torch": torch.__version__,
            "seq_length": SEQUENCE, "hidden_size": HIDDEN}  # fmt: skip
    lines = [f"  {json.dumps(name)}: {json.dumps(case)}" for name, case in cases.items()]
    text = json.dumps(head)[:-1] + ',\n "cases": {\n' + ",\n".join(lines) + "\n}}\n"
    (HERE.parents[1] / "corpus" / "traces" / "galvatron-runtime.json").write_text(text)


if __name__ == "__main__":
    main()
