"""Which fixed plan a witness belongs to: the order, the branches and the flushes that it shows.

A witness names actions of the plan as written. To run it one needs the program that was decided in
its place: blocks put in order, branches taken, members of buffers joined into flushes. Whoever asks
gets it by checking again inside ``recorded``: a check is deterministic.
"""

from __future__ import annotations

import contextlib
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from planguard.plan.plan import Plan
    from planguard.reordering.explorer import Ordered
    from planguard.verdict import Witness


@dataclass(frozen=True)
class Settled:
    """A plan of fixed orders that stands for one way to run an open plan.

    Attributes:
        plan: The fixed plan.
        actions: Per rank, the action index in the open plan of every action.
        witness: The witness in the numbers of the fixed plan; None when no witness was asked for.
    """

    plan: Plan
    actions: Sequence[Sequence[int]]
    witness: Witness | None = None


@dataclass
class Record:
    """What was translated while a check ran, in the order in which it happened."""

    moves: list[tuple[Witness, Witness, Ordered]] = field(default_factory=list)

    def settled(self, witness: Witness) -> Settled | None:
        """Return the fixed plan of a witness of the verdict, None if the plan itself is fixed."""
        by_result = {id(after): (before, ordered) for before, after, ordered in self.moves}
        if id(witness) not in by_result:
            return None
        witness, ordered = by_result[id(witness)]
        plan, actions = ordered.plan, ordered.actions
        while id(witness) in by_result:
            witness, ordered = by_result[id(witness)]
            plan = ordered.plan
            actions = tuple(
                tuple(outer[at] for at in inner)
                for outer, inner in zip(actions, ordered.actions, strict=True)
            )
        return Settled(plan, actions, witness)


_RECORD: ContextVar[Record | None] = ContextVar("record", default=None)


@contextlib.contextmanager
def recorded() -> Iterator[Record]:
    """Record the fixed plans behind the witnesses of every check made inside."""
    record = Record()
    token = _RECORD.set(record)
    try:
        yield record
    finally:
        _RECORD.reset(token)


def note(before: Witness, after: Witness, ordered: Ordered) -> None:
    """Note that a witness of a fixed plan became one of the plan it was made from."""
    record = _RECORD.get()
    if record is not None:
        record.moves.append((before, after, ordered))


def annotated(before: Witness, after: Witness) -> Witness:
    """Note that a witness got more fields, and return it: the plan behind it is the same."""
    record = _RECORD.get()
    if record is not None:
        record.moves += [(inner, after, made) for inner, at, made in record.moves if at is before]
    return after
