"""Lower a compute-only order as torch does: UNSHARD/RESHARD, REDUCE_GRAD, then sends and receives.

The passes give what torch 2.13 gives action for action (``tests/integration`` compares them), with
two differences. They keep the cell that each inserted action serves. And where torch gives up
("Malformed compute schedule, can't schedule sends/recvs"), because the ranks wait for each other,
the rest is placed all the same, every receive right before its consumer, so that the deadlock
becomes a plan that can be judged and shown.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .actions import Action, Kind
from .order import Cell, Order
from .placement import Placement, input_of

if TYPE_CHECKING:
    from collections.abc import Iterable

PREFETCH = 3
"""How many stages torch keeps unsharded at a time (``max_active_stages``)."""


@dataclass(frozen=True)
class Lowered:
    """The result of placing sends and receives.

    Attributes:
        order: The order with communication.
        stuck_at: First cell of every rank that torch's pass cannot place; empty when it can.
    """

    order: Order
    stuck_at: tuple[Cell, ...] = ()


def add_unshard_reshard(row: tuple[Cell, ...]) -> tuple[Cell, ...]:
    """Fetch the next stages before they compute and drop those that are not among them."""
    upcoming = _Upcoming(row)
    # A set, as in torch: the order in which several stages are dropped is the set's own.
    active: set[int] = set()
    out: list[Cell] = []
    for place, cell in enumerate(row):
        soon = upcoming.after(place)
        for stage in [stage for stage in active if stage not in soon]:
            active.remove(stage)
            out.append(_inserted(Kind.RESHARD, stage, cell))
        for stage in [stage for stage in soon if stage not in active]:
            active.add(stage)
            out.append(_inserted(Kind.UNSHARD, stage, cell))
        out.append(cell)
    out.extend(_inserted(Kind.RESHARD, stage, row[-1]) for stage in list(active))
    return tuple(out)


def add_reduce_grad(row: tuple[Cell, ...]) -> tuple[Cell, ...]:
    """Reduce the gradients of a stage right after its last weight backward (B or W)."""
    left = Counter(
        leaf.stage for cell in row for leaf in cell.action.leaves if leaf.kind in (Kind.B, Kind.W)
    )
    out: list[Cell] = []
    for cell in row:
        out.append(cell)
        for leaf in cell.action.leaves:
            if leaf.kind in (Kind.B, Kind.W):
                left[leaf.stage] -= 1
                if not left[leaf.stage]:
                    out.append(_inserted(Kind.REDUCE_GRAD, leaf.stage, cell))
    return tuple(out)


def add_send_recv(order: Order, placement: Placement) -> Lowered:
    """Send every result as soon as it is there; the sender also places the receive of its peer.

    Ranks take turns, one action each, and a rank whose next computation lacks its input is passed
    over. Send and receive of a message are placed together, so all ranks agree on one order of
    messages.
    """
    state = _Placing(order, placement)
    while any(state.waiting(rank) for rank in state.ranks):
        moved = [state.step(rank) for rank in state.ranks]
        if not any(moved):
            stuck = tuple(state.next(rank) for rank in state.ranks if state.waiting(rank))
            for rank in state.ranks:
                state.finish(rank)
            return Lowered(state.result(), stuck)
    return Lowered(state.result())


def defer_recv(order: Order, placement: Placement) -> Order:
    """Move receives to their consumers, as ``defer_pp_recv=True`` does in torch 2.13.

    A receive is held back until its consumer runs or, on the lower of two ranks, until a send to
    the same peer. This is the pass of pytorch#178815; it does not keep the order in which the peer
    sends.
    """
    rows = tuple(_defer_row(row, rank, placement) for rank, row in enumerate(order.rows))
    return Order(order.source, rows)


def without_gradients(order: Order) -> Order:
    """Leave out what does nothing where ``has_backward`` is False, as in ``eval()``.

    The backward computations stay: torch runs through them, waits for the parameters of their
    stage, and returns.
    """
    gone = (Kind.SEND_B, Kind.RECV_B, Kind.REDUCE_GRAD)
    rows = (tuple(cell for cell in row if cell.action.kind not in gone) for row in order.rows)
    return Order(order.source, tuple(rows))


def peer_stage(action: Action) -> int:
    """Name the stage at the other end of a send or receive."""
    return action.stage + (1 if action.kind in (Kind.SEND_F, Kind.RECV_B) else -1)


def _defer_row(row: tuple[Cell, ...], rank: int, placement: Placement) -> tuple[Cell, ...]:
    out: list[Cell] = []
    held: dict[Action, Cell] = {}

    def release(actions: Iterable[Action]) -> None:
        out.extend(held.pop(action) for action in actions if action in held)

    for cell in row:
        if cell.action.kind in (Kind.RECV_F, Kind.RECV_B):
            release([cell.action])  # A repeated receive is a defect to show, not to lose.
            held[cell.action] = cell
            continue
        if cell.action.kind in (Kind.SEND_F, Kind.SEND_B):
            peer = placement.rank_of[peer_stage(cell.action)]
            if rank < peer:
                release([a for a in held if placement.rank_of[peer_stage(a)] == peer])
        for leaf in cell.action.leaves:
            release(input_of(leaf, placement))
        out.append(cell)
    # torch raises on leftovers; kept at the end, they stay visible as receives nobody waits for.
    out.extend(held.values())
    return tuple(out)


def _inserted(kind: Kind, stage: int, beside: Cell) -> Cell:
    return Cell(Action(kind, stage), beside.rank, beside.column, inserted=True)


class _Upcoming:
    """The next stages that a row computes on, from any position, in order of first use."""

    def __init__(self, row: tuple[Cell, ...]) -> None:
        self._uses: dict[int, list[tuple[int, int]]] = {}
        for place, cell in enumerate(row):
            for part, leaf in enumerate(cell.action.leaves):
                self._uses.setdefault(leaf.stage, []).append((place, part))
        for uses in self._uses.values():
            uses.reverse()

    def after(self, place: int) -> list[int]:
        """Name up to ``PREFETCH`` stages; the parts of one overlap come together."""
        for uses in self._uses.values():
            while uses and uses[-1][0] < place:
                uses.pop()
        nearest = sorted((uses[-1], stage) for stage, uses in self._uses.items() if uses)
        soon: list[int] = []
        last = -1
        for (position, _), stage in nearest:
            if len(soon) >= PREFETCH and position != last:
                break
            soon.append(stage)
            last = position
        return soon


@dataclass
class _Placing:
    """The progress of ``add_send_recv``: what every rank has left, has placed and has received."""

    order: Order
    placement: Placement
    placed: list[list[Cell]] = field(init=False)
    done: list[set[Action]] = field(init=False)
    _at: list[int] = field(init=False)
    _consumer: dict[Action, Cell] = field(init=False)

    def __post_init__(self) -> None:
        self.placed = [[] for _ in self.order.rows]
        self.done = [set() for _ in self.order.rows]
        self._at = [0] * len(self.order.rows)
        self._consumer = {
            wanted: cell
            for cell in self.order.cells()
            for leaf in cell.action.leaves
            for wanted in input_of(leaf, self.placement)
        }

    @property
    def ranks(self) -> range:
        """All pipeline ranks."""
        return range(len(self.order.rows))

    def waiting(self, rank: int) -> bool:
        """Tell whether a rank has actions left."""
        return self._at[rank] < len(self.order.rows[rank])

    def next(self, rank: int) -> Cell:
        """Give the next cell of a rank."""
        return self.order.rows[rank][self._at[rank]]

    def step(self, rank: int) -> bool:
        """Place the next action of a rank, if it has one and its inputs are there."""
        if not self.waiting(rank):
            return False
        cell = self.next(rank)
        if not all(self._ready(leaf, rank) for leaf in cell.action.leaves):
            return False
        self._place(cell)
        return True

    def finish(self, rank: int) -> None:
        """Place all that is left of a rank, receives right before their consumers."""
        while self.waiting(rank):
            cell = self.next(rank)
            for leaf in cell.action.leaves:
                for wanted in input_of(leaf, self.placement):
                    if wanted.kind in (Kind.RECV_F, Kind.RECV_B) and wanted not in self.done[rank]:
                        self._put(wanted, rank, cell)
            self._place(cell, announce=False)

    def result(self) -> Order:
        """Give the order placed so far."""
        return Order(self.order.source, tuple(tuple(row) for row in self.placed))

    def _ready(self, leaf: Action, rank: int) -> bool:
        wanted = input_of(leaf, self.placement)
        return not wanted or any(action in self.done[rank] for action in wanted)

    def _place(self, cell: Cell, *, announce: bool = True) -> None:
        """Place a cell and its sends; ``announce`` places the receives of the peers as well."""
        self._at[cell.rank] += 1
        self.placed[cell.rank].append(cell)
        for leaf in cell.action.leaves:
            self.done[cell.rank].add(leaf)
            pair = self._messages(leaf)
            if pair is not None:
                send, recv = pair
                self._put(send, cell.rank, cell)
                if announce:
                    peer = self.placement.rank_of[recv.stage]
                    self._put(recv, peer, self._consumer.get(recv, self.order.rows[peer][-1]))

    def _put(self, action: Action, rank: int, beside: Cell) -> None:
        self.done[rank].add(action)
        self.placed[rank].append(Cell(action, rank, beside.column, inserted=True))

    def _messages(self, leaf: Action) -> tuple[Action, Action] | None:
        if leaf.kind is Kind.F and self.placement.crosses(leaf.stage, leaf.stage + 1):
            pair = (Kind.SEND_F, Kind.RECV_F, 1)
        elif leaf.kind in (Kind.B, Kind.I) and self.placement.crosses(leaf.stage, leaf.stage - 1):
            pair = (Kind.SEND_B, Kind.RECV_B, -1)
        else:
            return None
        send, recv, step = pair
        return Action(send, leaf.stage, leaf.mb), Action(recv, leaf.stage + step, leaf.mb)
