"""What the adapter can be told about a schedule that the schedule itself does not say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from planguard.errors import UsageError

from ..common.options import is_integer, known_options, wrong

Sizes = int | Sequence[int]
"""Bytes of the tensors that cross a stage boundary: one number, or one per tensor."""

Lowering = Literal["mixed", "unbatched", "batched"]
SendWait = Literal["end", "at-once"]
Form = Literal["auto", "compute_only", "compute_comms"]
ReduceGrad = Literal["reduce_scatter", "all_reduce"]
ShardGroup = Literal["shared", "stage"]


@dataclass(frozen=True, kw_only=True)
class PipeliningOptions:
    """Options of the ``pipelining`` adapter.

    Attributes:
        lowering: How lists of sends and receives reach the backend. ``mixed`` is torch's
            ``_batch_p2p`` since 2.13: a list of one kind goes out one by one, a list with both as
            one batch. ``unbatched`` splits every list, ``batched`` batches every list, single
            messages too (``_batch_p2p`` before pytorch#175225).
        send_wait: ``end`` waits for sends at the end of the step, as torch does; ``at-once`` right
            after each, which makes every send a rendezvous in program order.
        form: ``compute_only`` or ``compute_comms`` to insist on one; ``auto`` goes by the cells.
        bytes: Bytes per microbatch that cross a boundary between stages: a number, a list with one
            number per tensor, or a map from boundary ``s`` (stages ``s`` and ``s + 1``) to either.
            None leaves the sizes unknown.
        grad_bytes: The same for gradients; None means that gradients are as large as activations.
        shards: FSDP ranks per pipeline rank. With more than 1 the plan gets that many replicas of
            the pipeline, UNSHARD becomes an all_gather and REDUCE_GRAD a reduction over each of
            the groups of replicas. With 1 they are local computations, as for a stage that is not
            wrapped with FSDP.
        shard_group: One process group for all stages of a rank, or one per ``stage``.
        reduce_grad: Collective behind REDUCE_GRAD.
        param_bytes: Bytes of one rank's shard of the parameters of a stage: a number or a map from
            stage to number.
        microbatches: Number of microbatches that every stage must run; None accepts any.
        defer_recv: Apply the pass behind ``defer_pp_recv=True`` to the order.
        first_step: Put the vote of torch's first step before the order. Its messages create the
            communicators of the rank pairs.
        forward_only: What ``eval()`` runs: no gradient is sent, received or reduced. None goes by
            the schedule object, which runs no backward without a loss function.
        name: Name of the plan; None takes the name of the input.
    """

    lowering: Lowering = "mixed"
    send_wait: SendWait = "end"
    form: Form = "auto"
    bytes: Sizes | Mapping[int, Sizes] | None = None
    grad_bytes: Sizes | Mapping[int, Sizes] | None = None
    shards: int = 1
    shard_group: ShardGroup = "shared"
    reduce_grad: ReduceGrad = "reduce_scatter"
    param_bytes: int | Mapping[int, int] | None = None
    microbatches: int | None = None
    defer_recv: bool = False
    first_step: bool = False
    forward_only: bool | None = None
    name: str | None = None

    def __post_init__(self) -> None:
        for field_name, choices in _CHOICES.items():
            value = getattr(self, field_name)
            if value not in choices:
                raise wrong("pipelining", field_name, value, f"one of {', '.join(choices)}")
        for field_name in ("shards", "microbatches"):
            value = getattr(self, field_name)
            left_out = value is None and field_name == "microbatches"
            if not (left_out or is_integer(value, 1)):
                raise wrong("pipelining", field_name, value, "a positive integer")
        for field_name in ("bytes", "grad_bytes", "param_bytes"):
            _check_sizes(field_name, getattr(self, field_name))

    def tensors(self, boundary: int, direction: str) -> tuple[int | None, ...]:
        """Give the bytes of every tensor that crosses one boundary; None where unknown.

        Raises:
            UsageError: Sizes are given per boundary, and this one is missing.
        """
        sizes = self.bytes if direction == "F" or self.grad_bytes is None else self.grad_bytes
        if isinstance(sizes, Mapping):
            if boundary not in sizes:
                raise UsageError(
                    f"no size for the boundary between stages {boundary} and {boundary + 1}",
                    hint=f"boundaries given: {', '.join(map(str, sizes))}",
                )
            sizes = sizes[boundary]
        if sizes is None or isinstance(sizes, int):
            return (sizes,)
        return tuple(sizes)

    def shard_bytes(self, stage: int) -> int | None:
        """Give the bytes of one rank's parameter shard of a stage, or None if unknown."""
        if isinstance(self.param_bytes, Mapping):
            return self.param_bytes.get(stage)
        return self.param_bytes


_CHOICES: dict[str, tuple[str, ...]] = {
    "lowering": get_args(Lowering),
    "send_wait": get_args(SendWait),
    "form": get_args(Form),
    "reduce_grad": get_args(ReduceGrad),
    "shard_group": get_args(ShardGroup),
}


def read_options(options: Mapping[str, object]) -> PipeliningOptions:
    """Make the options from keyword arguments.

    Raises:
        UsageError: An option does not exist, or its value is not possible.
    """
    return PipeliningOptions(**known_options("pipelining", options, PipeliningOptions))


def _check_sizes(name: str, value: object) -> None:
    if isinstance(value, Mapping):
        values = list(value.values())
        good = all(is_integer(key) for key in value)
    else:
        values = [value]
        good = True
    for entry in values:
        sizes = (
            list(entry) if isinstance(entry, Sequence) and not isinstance(entry, str) else [entry]
        )
        good &= bool(sizes) and all(
            size is None or is_integer(size, 0, (1 << 63) - 1) for size in sizes
        )
    if not good:
        hint = "bytes as a number, a list, or a map from boundary or stage to either"
        raise wrong("pipelining", name, value, hint)
