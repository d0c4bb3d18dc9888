"""The trainers of this suite: how each is started, and the slip that each is asked to make."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Trainer:
    """One trainer.

    Attributes:
        name: As the table names it.
        job: Script in ``jobs``.
        slip: The slip that it is asked to make.
        needs: Modules without which it is skipped.
        ranks: Number of ranks.
        arguments: Arguments of the script.
        launcher: ``torchrun``, or ``own`` for a job that starts its ranks by itself.
        run: More words for torchrun where it really runs.
        environment: More words of its environment where it really runs.
    """

    name: str
    job: str
    slip: str
    needs: tuple[str, ...] = ()
    ranks: int = 2
    arguments: tuple[str, ...] = ()
    launcher: str = "torchrun"
    run: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)


TRAINERS = (
    Trainer("torch DDP", "ddp", "one batch fewer"),
    Trainer("torch mp.spawn", "spawn", "a log of one rank reduces", launcher="own"),
    Trainer("torch FSDP2", "fsdp2", "a step without backward on one rank"),
    Trainer("by hand, ZeRO optimizer", "by_hand", "another order of the parameters"),
    Trainer("DDP, DataLoader workers", "workers", "an exception is swallowed"),
    Trainer("DDP, Join", "join", "Join is forgotten"),
    Trainer("DDP, communication hooks", "comm_hook", "another start of compression"),
    Trainer("DDP, rpc", "rpc", "one batch fewer"),
    Trainer(
        "pipeline with tensor parallelism", "pipeline_tensor", "fewer micro-batches on one rank",
        ranks=4,
    ),
    Trainer("FSDP2, DCP async_save", "async_save", "no checkpoint on one rank"),
    Trainer(
        "DDP, elastic restart", "elastic", "one rank does not load",
        run=("--max-restarts", "1"),
        # torchrun's store keeps the addresses of the first attempt, and gloo may take them.
        environment={"TRAINERS_FAILS": "1", "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"},
    ),
    Trainer("accelerate DDP", "accelerate_ddp", "metrics on rank 0 only", ("accelerate",)),
    Trainer(
        "transformers.Trainer", "transformers_trainer", "a callback reduces on rank 0 only",
        ("transformers", "accelerate"),
    ),
    Trainer(
        "lightning DDP", "lightning_ddp", "a logged value is reduced on rank 0 only",
        ("lightning",), launcher="own",
    ),
    *(
        Trainer(
            f"deepspeed ZeRO {stage}", "deepspeed_zero", "checkpoint on rank 0 only",
            ("deepspeed",), arguments=(str(stage),),
        )
        for stage in range(3)
    ),
)  # fmt: skip
