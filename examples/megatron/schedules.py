"""One step of a tiny GPT through a schedule of Megatron-core, without a GPU.

    planguard dryrun --stub -o run -- torchrun --nproc-per-node 4 schedules.py --virtual 2

Megatron-core's own layers, schedules and messages run; on_cpu.py stands in for CUDA. ``--pp`` is
the number of pipeline stages; what is left of the ranks are data-parallel copies. ``--virtual``
above 1 takes ``forward_backward_pipelining_with_interleaving``. Further arguments are fields of
``TransformerConfig``: ``overlap_p2p_comm=true batch_p2p_comm=false``.
"""

from __future__ import annotations

import argparse
import json
import os

import on_cpu

os.environ["TORCHDYNAMO_DISABLE"] = "1"  # its fused functions would be compiled
on_cpu.pretend()

import torch  # noqa: E402 - behind the stand-ins, as all that asks for CUDA
import torch.distributed as dist  # noqa: E402
from megatron.core import parallel_state, tensor_parallel  # noqa: E402
from megatron.core.models.gpt import GPTModel  # noqa: E402
from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec  # noqa: E402
from megatron.core.pipeline_parallel import get_forward_backward_func  # noqa: E402
from megatron.core.transformer import TransformerConfig  # noqa: E402

on_cpu.pretend_megatron()
SEQUENCE, BATCH, WIDTH, VOCABULARY = 8, 2, 16, 32


def chunks_of(config: TransformerConfig, virtual: int) -> list[torch.nn.Module]:
    """Build this rank's chunks of the model."""
    stage = parallel_state.get_pipeline_model_parallel_rank()
    last = config.pipeline_model_parallel_size - 1
    return [
        GPTModel(
            config,
            get_gpt_layer_local_spec(),
            VOCABULARY,
            SEQUENCE,
            pre_process=stage == 0 and chunk == 0,
            post_process=stage == last and chunk == virtual - 1,
            share_embeddings_and_output_weights=False,
            vp_stage=chunk if virtual > 1 else None,
        )
        for chunk in range(virtual)
    ]


def forward(source: object, model: torch.nn.Module) -> tuple[object, object]:
    """Run one microbatch; the schedule calls this."""
    tokens = next(source)
    positions = torch.arange(SEQUENCE).expand(BATCH, -1)
    mask = torch.ones(1, 1, SEQUENCE, SEQUENCE).triu(1).bool()
    output = model(tokens, positions, mask, labels=tokens)
    return output, lambda loss: (loss.mean(), {"loss": loss.mean().detach()})


def main() -> None:
    """Run one step."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--pp", type=int, default=0, help="stages; all ranks by default")
    parser.add_argument("--virtual", type=int, default=1)
    parser.add_argument("--microbatches", type=int, default=4)
    parser.add_argument("fields", nargs="*")
    given = parser.parse_args()
    dist.init_process_group("gloo")
    pp, virtual = given.pp or dist.get_world_size(), given.virtual if given.virtual > 1 else None
    parallel_state.initialize_model_parallel(
        pipeline_model_parallel_size=pp,
        virtual_pipeline_model_parallel_size=virtual,
        create_gloo_process_groups=False,
    )
    tensor_parallel.model_parallel_cuda_manual_seed(7)
    config = TransformerConfig(
        num_layers=pp * given.virtual,
        hidden_size=WIDTH,
        num_attention_heads=4,
        pipeline_model_parallel_size=pp,
        virtual_pipeline_model_parallel_size=virtual,
        pipeline_dtype=torch.float32,
        use_cpu_initialization=True,
        gradient_accumulation_fusion=False,
        masked_softmax_fusion=False,
        **{name: json.loads(value) for name, _, value in (f.partition("=") for f in given.fields)},
    )
    chunks = chunks_of(config, given.virtual)
    tokens = torch.zeros(BATCH, SEQUENCE, dtype=torch.int64)
    get_forward_backward_func()(
        forward_step_func=forward,
        data_iterator=[iter([tokens] * given.microbatches) for _ in chunks],
        model=chunks if virtual else chunks[0],
        num_microbatches=given.microbatches,
        seq_length=SEQUENCE,
        micro_batch_size=BATCH,
        forward_only=False,
    )


if __name__ == "__main__":
    main()
