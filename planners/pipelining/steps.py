"""What a rank does, step by step: the form that schedule orders and recorded runs have in common.

A ``Transfer`` is one call of torch's ``_batch_p2p`` with its list of messages; a ``Wait`` waits for
transfers; a ``Compute`` runs on the current stream; a ``Shard`` is UNSHARD, RESHARD or REDUCE_GRAD.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from .actions import COMPUTE, TRANSFER, Action, Kind
from .lowering import peer_stage
from .placement import Placement, forward_of, input_of

if TYPE_CHECKING:
    from .order import Cell, Order


class Where(msgspec.Struct, frozen=True):
    """A location: row and cell, counted from 1, and the text found there."""

    row: int
    note: str


class Message(msgspec.Struct, frozen=True):
    """One end of one message between neighboring stages, all its tensors.

    Attributes:
        name: Identity inside the rank, the action's text.
        send: True for the sending end.
        direction: ``F`` for activations, ``B`` for gradients, ``vote`` for the vote of step one.
        stage: Stage that runs the action.
        neighbor: Stage at the other end.
        peer: Pipeline rank at the other end.
        mb: Microbatch, None for the vote.
    """

    name: str
    send: bool
    direction: str
    stage: int
    neighbor: int
    peer: int
    mb: int | None

    @property
    def boundary(self) -> int:
        """The boundary it crosses: ``s`` lies between the stages ``s`` and ``s + 1``."""
        return min(self.stage, self.neighbor)

    @property
    def label(self) -> str:
        """The identity of the data, equal on both ends: direction, producing stage, microbatch."""
        producer = self.stage if self.send else self.neighbor
        if self.mb is None:
            return f"vote.{'F' if producer == self.boundary else 'B'}{producer}"
        return f"{self.direction}{producer}.{self.mb}"


class Transfer(msgspec.Struct, frozen=True):
    """Messages issued in one call.

    Attributes:
        handle: Name under which ``Wait`` refers to all of them.
        messages: At least one.
        where: Location in the input, row and text.
    """

    handle: str
    messages: tuple[Message, ...]
    where: Where


class Wait(msgspec.Struct, frozen=True):
    """Wait for earlier transfers or unshards, in the order named."""

    handles: tuple[str, ...]
    where: Where


class Compute(msgspec.Struct, frozen=True):
    """A computation.

    Attributes:
        name: Identity inside the rank, such as ``0F3``.
        kind: F, B, I or W.
        stage: Pipeline stage.
        mb: Microbatch.
        deps: Names of the computations and messages of this rank whose results it uses.
        where: Location in the input.
    """

    name: str
    kind: str
    stage: int
    mb: int
    deps: tuple[str, ...]
    where: Where


class Shard(msgspec.Struct, frozen=True):
    """UNSHARD, RESHARD or REDUCE_GRAD of a stage; ``name`` is also the handle of an UNSHARD."""

    name: str
    kind: Kind
    stage: int
    where: Where


Step = Transfer | Wait | Compute | Shard


def order_steps(
    order: Order, placement: Placement, *, send_wait: str, sharded: bool
) -> tuple[tuple[Step, ...], ...]:
    """Turn an order with communication into steps, as ``_PipelineScheduleRuntime`` runs it.

    A receive is posted where its cell stands and waited for by its consumer. A send is waited for
    at the end of the step, the latest first, or at once with ``send_wait="at-once"``. With
    ``sharded``, UNSHARD is waited for by the first computation of the stage.

    Raises:
        PlanError: With ``sharded``, a stage is used, fetched or dropped while it is not in the
            state for it.
    """
    return tuple(
        _Row(order, placement, row, at_once=send_wait == "at-once", sharded=sharded).steps()
        for row in order.rows
    )


class _Row:
    """One rank of an order on its way to steps."""

    def __init__(
        self,
        order: Order,
        placement: Placement,
        row: tuple[Cell, ...],
        *,
        at_once: bool,
        sharded: bool,
    ) -> None:
        self._order = order
        self._placement = placement
        self._row = row
        self._at_once = at_once
        self._sharded = sharded
        self._out: list[Step] = []
        self._count: dict[Action, int] = {}
        self._posted: dict[Action, str] = {}
        self._sends: list[str] = []
        self._names: dict[Action, str] = {}
        self._shards: dict[int, tuple[str, Cell]] = {}
        self._ready: set[int] = set()

    def steps(self) -> tuple[Step, ...]:
        """Give the steps of the rank."""
        for cell in self._row:
            where = _at(cell)
            for leaf in cell.action.leaves:
                if leaf.kind in COMPUTE:
                    self._compute(leaf, cell, where)
                elif leaf.kind in TRANSFER:
                    self._transfer(leaf, cell, where)
                else:
                    self._shard(leaf, cell, where)
        for stage, (_, cell) in self._shards.items():
            raise self._order.error(
                cell,
                f"no computation waits for the unshard of stage {stage}",
                "torch raises 'Unused unshard operations' at the end of the step",
            )
        if self._sends:
            # torch pops the handles from the end of its list.
            end = Where(self._row[-1].rank + 1, "end of the step")
            self._emit(Wait(tuple(reversed(self._sends)), end))
        return tuple(self._out)

    def _emit(self, step: Step) -> None:
        self._out.append(step)

    def _name(self, leaf: Action) -> str:
        again = self._count[leaf] = self._count.get(leaf, 0) + 1
        name = str(leaf) if again == 1 else f"{leaf}.{again}"
        self._names[leaf] = name
        return name

    def _compute(self, leaf: Action, cell: Cell, where: Where) -> None:
        self._use_stage(leaf, cell, where)
        wanted = input_of(leaf, self._placement)
        inputs = tuple(self._names[action] for action in wanted if action in self._names)
        for action in wanted:
            handle = self._posted.pop(action, None)
            if handle is not None:
                self._emit(Wait((handle,), where))
        deps = tuple(self._names[action] for action in forward_of(leaf) if action in self._names)
        name = self._name(leaf)
        mb = leaf.mb if leaf.mb is not None else 0
        self._emit(Compute(name, leaf.kind.value, leaf.stage, mb, deps + inputs, where))

    def _transfer(self, leaf: Action, cell: Cell, where: Where) -> None:
        if leaf in self._posted:
            raise self._order.error(
                cell,
                f"{leaf} is received twice before anything uses it",
                "torch raises 'Recv twice ... without executing forward' at this action",
            )
        name = self._name(leaf)
        message = message_of(leaf, name, self._placement)
        self._emit(Transfer(name, (message,), where))
        if not message.send:
            self._posted[leaf] = name
        elif self._at_once:
            self._emit(Wait((name,), where))
        else:
            self._sends.append(name)

    def _shard(self, leaf: Action, cell: Cell, where: Where) -> None:
        name = self._name(leaf)
        if self._sharded and leaf.kind is Kind.UNSHARD:
            if leaf.stage in self._shards or leaf.stage in self._ready:
                raise self._order.error(cell, f"stage {leaf.stage} is unsharded twice")
            self._shards[leaf.stage] = (name, cell)
        elif self._sharded and leaf.kind is Kind.RESHARD:
            if leaf.stage not in self._ready:
                raise self._order.error(
                    cell,
                    f"stage {leaf.stage} is resharded while no computation has used it unsharded",
                    "torch raises 'Resharding ... before finishing unshard'",
                )
            self._ready.remove(leaf.stage)
        self._emit(Shard(name, leaf.kind, leaf.stage, where))

    def _use_stage(self, leaf: Action, cell: Cell, where: Where) -> None:
        if not self._sharded or leaf.kind is Kind.W:
            # torch lets W run on whatever is there: it neither waits for UNSHARD nor asks for it.
            return
        pending = self._shards.pop(leaf.stage, None)
        if pending is not None:
            self._emit(Wait((pending[0],), where))
            self._ready.add(leaf.stage)
        elif leaf.stage not in self._ready:
            raise self._order.error(
                cell,
                f"{leaf} runs while stage {leaf.stage} is sharded",
                "torch raises 'Attempted to compute on sharded stage'; put UNSHARD before it",
            )


def message_of(leaf: Action, name: str, placement: Placement) -> Message:
    """Describe a SEND or RECV action as one end of a message."""
    send = leaf.kind in (Kind.SEND_F, Kind.SEND_B)
    neighbor = peer_stage(leaf)
    return Message(
        name=name,
        send=send,
        direction="F" if leaf.kind in (Kind.SEND_F, Kind.RECV_F) else "B",
        stage=leaf.stage,
        neighbor=neighbor,
        peer=placement.rank_of[neighbor],
        mb=leaf.mb,
    )


def vote_steps(placement: Placement, ranks: int) -> tuple[tuple[Step, ...], ...]:
    """Give what torch does before the first microbatch: a vote up the stages, its result down.

    Each hop is a blocking ``dist.send`` and ``dist.recv`` of one int32, stage after stage
    (``_warmup_p2p``). The metadata that torch exchanges when the votes differ is left out.
    """
    return tuple(_vote_row(placement, rank) for rank in range(ranks))


def _vote_row(placement: Placement, rank: int) -> tuple[Step, ...]:
    stages = sorted(stage for stage, owner in placement.rank_of.items() if owner == rank)
    hops = [(stage, -1, 1) for stage in stages] + [(stage, 1, -1) for stage in reversed(stages)]
    steps: list[Step] = []
    for stage, source, target in hops:
        for neighbor, send in ((stage + source, False), (stage + target, True)):
            if placement.crosses(stage, neighbor):
                word = "to" if send else "from"
                name = f"vote.{stage}.{word}.{neighbor}"
                peer = placement.rank_of[neighbor]
                message = Message(name, send, "vote", stage, neighbor, peer, None)
                where = Where(rank + 1, f"vote of the first step, stage {stage} {word} {neighbor}")
                steps += [Transfer(name, (message,), where), Wait((name,), where)]
    return tuple(steps)


def _at(cell: Cell) -> Where:
    note = f"cell {cell.column + 1}: {cell.action}"
    return Where(cell.rank + 1, note + " (inserted)" if cell.inserted else note)
