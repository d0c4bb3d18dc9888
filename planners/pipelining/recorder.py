"""Record what torch's own run loop does, rank by rank, without tensors and without processes.

Schedules of a single stage per rank (GPipe, 1F1B and user classes) do not follow an order that one
could read: their loop fuses sends and receives into lists. So the loop itself is run, once per
rank, on a stand-in for the stage that writes down what it is asked for. torch is imported here and
nowhere else in this folder.
"""

# ruff: noqa: SLF001 - the run loop and its parts are private in torch

from __future__ import annotations

import copy
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from planguard.errors import PlanError

from .actions import Kind
from .steps import Compute, Message, Shard, Step, Transfer, Wait, Where

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_PATCHING = threading.Lock()
_SILENCED = (
    "_initialize_stage",
    "_initialize_stages",
    "_maybe_compute_loss",
    "_maybe_get_loss",
    "_update_losses",
)
_WRITTEN = (
    "fwd_recv_ops",
    "bwd_recv_ops",
    "unshard_ops",
    "unsharded_stages",
    "backward_counter",
    "_internal_losses",
)
"""What the loop writes to; the copy that runs gets its own."""


@dataclass(frozen=True)
class RunLog:
    """What every pipeline rank was seen doing in one step.

    Attributes:
        source: Class of the schedule.
        rows: The steps of every pipeline rank.
    """

    source: str
    rows: tuple[tuple[Step, ...], ...]


def record_run(schedule: Any, *, forward_only: bool | None = None) -> RunLog:
    """Run the loop of a torch schedule once per rank and record it.

    ``forward_only`` records what ``eval()`` runs; None is what ``step()`` runs, which has no
    backward either where the schedule was made without a loss function.

    The schedule object is left as it was: a shallow copy runs, with stand-ins for its stages and
    without initialization, losses or checks of inputs. No process group is used.

    Raises:
        PlanError: The loop raised; its message is passed on.
    """
    ranks, rank_of = _layout(schedule)
    name = type(schedule).__name__
    backward = (
        getattr(schedule, "_has_backward", True) if forward_only is None else not forward_only
    )
    rows = []
    for rank in range(ranks):
        stages = [
            _StageStandIn(stage, rank, len(rank_of), rank_of, backward=backward)
            for stage in _local(rank_of, rank)
        ]
        try:
            rows.append(_run(schedule, rank, stages))
        except Exception as error:
            raise PlanError(
                f"the run loop of {name} failed on rank {rank}: {error}",
                file=name,
                path=f"rank {rank}",
                hint="the schedule cannot run; torch raises the same error in training",
            ) from error
    return RunLog(name, tuple(rows))


@dataclass
class _Tape:
    """The steps recorded so far for one rank."""

    rank: int
    steps: list[Step] = field(default_factory=list)
    handles: int = 0
    received: dict[tuple[str, int, int], str] = field(default_factory=dict)

    def where(self, text: str) -> Where:
        return Where(self.rank + 1, f"call {len(self.steps) + 1}: {text}")

    def issue(self, messages: list[Message]) -> list[str]:
        """Record one ``_batch_p2p``; returns its handle, the list of works of the real one."""
        if not messages:
            return []
        self.handles += 1
        handle = f"p2p{self.handles}"
        text = " ".join(message.name for message in messages)
        self.steps.append(Transfer(handle, tuple(messages), self.where(text)))
        for message in messages:
            if not message.send:
                self.received[message.direction, message.stage, message.mb or 0] = message.name
        return [handle]

    def wait(self, handles: list[str]) -> None:
        if handles:
            self.steps.append(Wait(tuple(handles), self.where("wait")))

    def compute(self, kind: str, stage: int, mb: int) -> None:
        text = f"{stage}{kind}{mb}"
        direction = "F" if kind == "F" else "B"
        before = {"F": (), "W": (f"{stage}I{mb}",)}.get(kind, (f"{stage}F{mb}",))
        message = self.received.get((direction, stage, mb)) if kind != "W" else None
        deps = (*before, message) if message else before
        self.steps.append(Compute(text, kind, stage, mb, deps, self.where(text)))


class _StageStandIn:
    """Stands in for a pipeline stage: answers what the run loop asks and writes it down."""

    submod = None

    def __init__(
        self, stage: int, rank: int, stages: int, rank_of: Mapping[int, int], *, backward: bool
    ) -> None:
        self.has_backward = backward
        self.stage_index = stage
        self.num_stages = stages
        self.group_rank = rank
        self.group_size = len(set(rank_of.values()))
        self.is_first = stage == 0
        self.is_last = stage == stages - 1
        self.stage_index_to_group_rank = rank_of
        self.tape = _Tape(rank)

    def get_fwd_recv_ops(self, mb: int) -> list[Message]:
        return self._message(Kind.RECV_F, mb, self.stage_index - 1)

    def get_fwd_send_ops(self, mb: int) -> list[Message]:
        return self._message(Kind.SEND_F, mb, self.stage_index + 1)

    def get_bwd_recv_ops(self, mb: int) -> list[Message]:
        return self._message(Kind.RECV_B, mb, self.stage_index + 1) if self.has_backward else []

    def get_bwd_send_ops(self, mb: int) -> list[Message]:
        return self._message(Kind.SEND_B, mb, self.stage_index - 1) if self.has_backward else []

    def forward_one_chunk(self, mb: int, *_: object, **__: object) -> None:
        self.tape.compute("F", self.stage_index, mb)

    def backward_one_chunk(
        self, mb: int, *_: object, full_backward: bool = True, **__: object
    ) -> None:
        if self.has_backward:
            self.tape.compute("B" if full_backward else "I", self.stage_index, mb)

    def backward_weight_one_chunk(self, mb: int, *_: object, **__: object) -> None:
        if self.has_backward:
            self.tape.compute("W", self.stage_index, mb)

    def perform_reduce_grad(self, _: int) -> None:
        if not self.has_backward:
            return  # no gradients: FSDP has nothing to reduce
        text = f"{self.stage_index}REDUCE_GRAD"
        self.tape.steps.append(
            Shard(text, Kind.REDUCE_GRAD, self.stage_index, self.tape.where(text))
        )

    def scale_grads(self, _: int) -> None:
        """Do nothing: scaling is local."""

    def set_local_fwd_input(self, *_: object) -> None:
        """Do nothing: neighbors on one rank pass tensors locally."""

    def get_local_bwd_output(self, _: int) -> None:
        """Do nothing, likewise."""

    def set_local_bwd_input(self, *_: object) -> None:
        """Do nothing, likewise."""

    def _message(self, kind: Kind, mb: int, neighbor: int) -> list[Message]:
        if not 0 <= neighbor < self.num_stages:
            return []
        send = kind in (Kind.SEND_F, Kind.SEND_B)
        name = f"{self.stage_index}{kind.value}{mb}"
        direction = kind.value[-1]
        peer = self.stage_index_to_group_rank[neighbor]
        return [Message(name, send, direction, self.stage_index, neighbor, peer, mb)]


def _layout(schedule: Any) -> tuple[int, Mapping[int, int]]:
    if hasattr(schedule, "_stages"):
        rank_of = dict(schedule.stage_index_to_group_rank)
        return schedule.pp_group_size, rank_of
    stages = schedule._num_stages
    return stages, {stage: stage for stage in range(stages)}


def _local(rank_of: Mapping[int, int], rank: int) -> list[int]:
    return [stage for stage, owner in sorted(rank_of.items()) if owner == rank]


def _run(schedule: Any, rank: int, stages: list[_StageStandIn]) -> tuple[Step, ...]:
    tape = stages[0].tape
    for stage in stages:
        stage.tape = tape
    twin = copy.copy(schedule)
    twin._stage, twin._stages, twin.rank = stages[0], stages, rank
    for name in _SILENCED:
        setattr(twin, name, lambda *_, **__: None)
    count = schedule._n_microbatches
    twin._check_inputs = lambda *_, **__: ([()] * count, [{}] * count)
    for name in _WRITTEN:
        if hasattr(twin, name):
            setattr(twin, name, copy.copy(getattr(twin, name)))
    # Functions of the user stay out: they would run on stand-ins.
    twin._comp_type_to_function_map = {}
    with _recording(tape):
        twin._step_microbatches()
    return tuple(tape.steps)


@contextmanager
def _recording(tape: _Tape) -> Iterator[None]:
    """Put the tape behind torch's two functions that issue and wait for point-to-point lists."""
    from torch.distributed.pipelining import schedules

    with _PATCHING:
        kept = schedules._batch_p2p, schedules._wait_batch_p2p
        schedules._batch_p2p = lambda ops, *_, **__: tape.issue(ops)
        schedules._wait_batch_p2p = tape.wait
        try:
            yield
        finally:
            schedules._batch_p2p, schedules._wait_batch_p2p = kept
