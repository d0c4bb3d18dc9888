"""From flat actions to steps, operations and launches: what the transition system moves."""

from __future__ import annotations

from dataclasses import dataclass, replace

from oracle.created import created_first
from oracle.models import Model, Queue
from oracle.movable import moving
from oracle.program import (
    ANY,
    COLLECTIVES,
    POINT_TO_POINT,
    PREFIXES,
    REGISTERED,
    SENDS,
    Action,
    OracleUnsupported,
    Program,
)


@dataclass(frozen=True)
class Operation:
    """One collective call, send or receive; an inner operation of a batch is one too."""

    id: int
    rank: int
    index: int
    action: Action
    launch: int

    @property
    def bit(self) -> int:
        """Give the operation as a set of one, in the bit sets of the states."""
        return 1 << self.id

    @property
    def is_collective(self) -> bool:
        """Tell a collective from point-to-point."""
        return self.action.kind in COLLECTIVES or self.action.kind in REGISTERED

    @property
    def is_send(self) -> bool:
        """Tell a send from everything else."""
        return self.action.kind in SENDS


@dataclass(frozen=True)
class Step:
    """One action of a rank's host program, with the operations it issues."""

    action: Action
    operations: tuple[Operation, ...] = ()

    @property
    def bits(self) -> int:
        """Give the operations of the step as a set."""
        result = 0
        for operation in self.operations:
            result |= operation.bit
        return result


@dataclass(frozen=True)
class Lowered:
    """The steps of every rank and the operations in them, numbered through."""

    program: Program
    steps: tuple[tuple[Step, ...], ...]
    operations: tuple[Operation, ...]
    launches: tuple[tuple[Operation, ...], ...]
    wildcards: bool
    threads: bool = False


def _parts(action: Action) -> list[Action]:
    if action.kind == "batch":
        place = action.place
        return [
            replace(part, place=place and (*place, number))
            for number, part in enumerate(action.parts)
        ]
    known = COLLECTIVES | POINT_TO_POINT | REGISTERED.keys()
    return [action] if action.kind in known else []


def lower(program: Program, model: Model) -> Lowered:
    """Number the operations and group those that one launch starts together.

    A batch is one launch for each communicator where the model fuses it, and a loop of single calls
    elsewhere.

    Raises:
        OracleUnsupported: a wildcard receive where the backend has none, or a wait for any.
    """
    program = created_first(program, model)
    operations: list[Operation] = []
    launches: list[tuple[Operation, ...]] = []
    all_steps = []
    for rank, written in enumerate(program.ranks):
        actions = moving(written, model)
        steps = []
        for action in actions:
            for part in (action, *action.parts):
                _refuse(part, rank, model, batched=action.kind == "batch")
            fused = action.kind == "batch" and model.fused_batch
            mine: list[Operation] = []
            together: dict[object, list[Operation]] = {}
            for place, part in enumerate(_parts(action)):
                mates = together.setdefault(part.group if fused else place, [])
                launch = len(launches) + list(together.values()).index(mates)
                operation = Operation(len(operations), rank, action.index, part, launch)
                operations.append(operation)
                mine.append(operation)
                mates.append(operation)
            launches += map(tuple, together.values())
            steps.append(Step(action, tuple(mine)))
        all_steps.append(tuple(steps))
    kinds = {action.kind for actions in program.ranks for action in actions}
    open_ended = any(ANY in (one.action.peer, one.action.tag) for one in operations)
    threads = any(action.thread for actions in program.ranks for action in actions)
    return Lowered(
        program,
        tuple(all_steps),
        tuple(operations),
        tuple(launches),
        model.tags and (open_ended or "probe" in kinds),
        threads,
    )


def _refuse(action: Action, rank: int, model: Model, *, batched: bool) -> None:
    """Raise for what a model does not have.

    Raises:
        OracleUnsupported: a wildcard receive where the backend has none, a wait for any, a message
            to oneself where torch refuses it, or an operation that only MPI has.
    """
    has = {"probe": model.modes} | dict.fromkeys(PREFIXES, model.own_messages)
    if not has.get(action.kind, True):
        raise OracleUnsupported(f"{action.kind} outside MPI")
    alone = model.host_waits or not batched
    own = model.own_messages and (model.modes or not action.sync)
    if action.kind in POINT_TO_POINT and action.peer == rank and alone and not own:
        raise OracleUnsupported("a message to oneself where torch or NCCL has none")
    if model.queue not in {Queue.COMMUNICATOR, Queue.DEVICE}:
        return
    if action.kind == "wait" and action.wait_mode != "all" and len(action.targets) > 1:
        raise OracleUnsupported(f"wait for {action.wait_mode}")
    if action.peer == ANY:
        raise OracleUnsupported("a receive from any source")
