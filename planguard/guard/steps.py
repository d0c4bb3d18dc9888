"""The actions of one rank as steps: what it communicates, with whom, through which handle.

Read straight from the compiled plan, loops unrolled on the way, so that looking at a few ranks of a
large plan costs those ranks only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from planguard.plan.actions import (
    ASYNC,
    COMMUNICATIONS,
    KIND_MASK,
    MEMBER,
    Kind,
    PeerMode,
    RefType,
)
from planguard.plan.code import POOLED, REF_WORDS, WORDS
from planguard.semantics.signature import Side, labels_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from planguard.plan.code import Program, Signature
    from planguard.plan.plan import Plan


Key = tuple[Any, ...]
"""A communicator, ``("round", group, members)``, or a pair, ``("pair", group, src, dst)``."""


class Step(NamedTuple):
    """One action, or one member of a batch.

    Attributes:
        action: Index of the action, as in ``Location.action``.
        op: Kind and flags of the instruction.
        key: Where it meets others; None for what meets nobody, and for a whole batch.
        detail: What the steps of a pair or round are told apart by: tag and side, or the root.
        signature: What must agree with the others.
        labels: Logical identity of its data, then that of each part of a coalesced collective.
        handles: Slots of the handles that it starts or waits for.
    """

    action: int
    op: int
    key: Key | None
    detail: tuple[Any, ...] = ()
    signature: Signature | None = None
    labels: tuple[str | None, ...] = (None,)
    handles: tuple[int, ...] = ()

    @property
    def kind(self) -> int:
        """Kind of the action, without flags."""
        return self.op & KIND_MASK


class Steps:
    """The steps of the ranks of one plan."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._keys: dict[tuple[int, int], Key] = {}

    def of(self, rank: int) -> Iterator[Step]:
        """Yield the steps of a rank in program order."""
        program = self._plan.program(rank)
        action = -1
        for place, iteration in _instructions(program, 0, len(program), 0):
            op, a, b, sig, label = program.code[place * WORDS : place * WORDS + 5]
            kind = op & KIND_MASK
            if kind == Kind.BIND:
                continue
            action += not op & MEMBER
            if kind in COMMUNICATIONS:
                yield Step(
                    action,
                    op,
                    self._key(rank, a),
                    self._detail(a, sig),
                    self._plan.code.signatures[sig],
                    self._labels(label, iteration),
                    (b - 1,) if b else (),
                )
            else:
                yield Step(action, op, None, handles=self._handles(kind, a, b))

    def _handles(self, kind: int, a: int, b: int) -> tuple[int, ...]:
        if kind == Kind.WAIT:
            return (a,)
        if kind == Kind.WAIT_MANY:
            aux = self._plan.code.aux
            return tuple(aux[a + 1 : a + 1 + aux[a]])
        return (b - 1,) if kind == Kind.BATCH and b else ()

    def _labels(self, word: int, iteration: int) -> tuple[str | None, ...]:
        code = self._plan.code
        if word & POOLED:
            word = code.label_pool[(word & ~POOLED) + iteration]
        return labels_of(code, word)

    def _key(self, rank: int, ref: int) -> Key:
        found = self._keys.get((rank, ref))
        if found is None:
            found = self._keys[rank, ref] = self._make_key(rank, ref)
        return found

    def _make_key(self, rank: int, ref: int) -> Key:
        plan = self._plan
        kind, group, mode, a, b, _ = plan.code.refs[ref * REF_WORDS : (ref + 1) * REF_WORDS]
        spec = plan.groups[group]
        name = plan.group_name(spec.name, rank)
        if kind == RefType.GROUP:
            return ("round", name, tuple(spec.members(rank, plan.mesh)))
        peer: int | None = a
        if mode == PeerMode.ANY:
            peer = None
        elif mode == PeerMode.RELATIVE and plan.mesh is not None:
            peer = plan.mesh.shift(rank, a, b >> 1, wrap=bool(b & 1))
        return ("pair", name, *((rank, peer) if kind == RefType.SEND else (peer, rank)))

    def _detail(self, ref: int, sig: int) -> tuple[Any, ...]:
        words = self._plan.code.refs
        side = words[ref * REF_WORDS]
        if side == RefType.GROUP:
            signature = self._plan.code.signatures[sig]
            return (signature.root, signature.bytes == 0)
        return (side, words[ref * REF_WORDS + 5])


def _instructions(
    program: Program, start: int, end: int, iteration: int
) -> Iterator[tuple[int, int]]:
    """Yield every instruction with the iteration of its innermost loop."""
    words, place = program.code, start
    while place < end:
        op, a, b = words[place * WORDS : place * WORDS + 3]
        if op == Kind.REPEAT:
            for turn in range(a):
                yield from _instructions(program, place + 1, place + 1 + b, turn)
            place += b
        else:
            yield place, iteration
        place += 1


def side_of(step: Step, rank: int, place: int) -> Side:
    """Return one member of a match: the step with which a rank takes part in it.

    Args:
        step: A step that communicates.
        rank: Its rank.
        place: Place of the rank among the members.
    """
    assert step.signature is not None  # noqa: S101 - of a step that communicates
    own, *parts = step.labels
    return Side(rank, step.signature, own, place, bool(step.op & ASYNC), tuple(parts))
