"""Candidates that send a message to who waits for it, or receive it from who sends it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planguard.plan.vocabulary import RECEIVES, SENDS
from planguard.repair.document import named
from planguard.repair.patch import resolve
from planguard.repair.proposal import Proposal, put, remove

if TYPE_CHECKING:
    from collections.abc import Iterator

    from planguard.plan.pointers import Steps
    from planguard.repair.document import PlanText
    from planguard.verdict import Verdict

CODES = frozenset({"PG208", "PG209", "PG210", "PG006"})
SAME = ("group", "tag", "bytes", "count", "dtype", "tensor", "shape")
"""What two sides of a message agree in."""
MOST = 8
"""Candidates of one verdict."""

Side = tuple[int, "Steps", dict[str, Any]]
"""Rank, place and fields of a side of a message."""


def addresses(text: PlanText, verdict: Verdict) -> Iterator[Proposal]:
    """Yield changes of one peer after which a message without a partner would have one.

    A message may be received where it was sent by mistake: then that receive goes, too.
    """
    errors = [f for f in verdict.findings if f.severity == "error" and f.code in CODES]
    places = {(at.rank, at.action): at for f in errors for at in named(f) if at.member is None}
    sides = [side for rank, action in places if (side := _side(text, rank, action)) is not None]
    found: dict[tuple[tuple[Steps, ...], int], Proposal] = {}
    for sent in (side for side in sides if side[2]["op"] in SENDS):
        for got in (side for side in sides if side[2]["op"] in RECEIVES):
            if _alike(sent[2], got[2]):
                if got[2]["peer"] == sent[0] and sent[2]["peer"] != got[0]:
                    found.setdefault(((sent[1],), got[0]), _turned(sent, got[0]))
                if sent[2]["peer"] == got[0] and got[2]["peer"] != sent[0]:
                    found.setdefault(((got[1],), sent[0]), _turned(got, sent[0]))
    for got in (side for side in sides if side[2]["op"] in RECEIVES):
        for proposal in _received_elsewhere(text, got):
            found.setdefault((proposal.places, got[0]), proposal)
    yield from list(found.values())[:MOST]


def _side(text: PlanText, rank: int, action: int) -> Side | None:
    """Return a message of one rank alone, whose peer is a number."""
    place = text.place(rank, action)
    fields = resolve(text.document, place)
    if not isinstance(fields, dict) or fields.get("op") not in SENDS | RECEIVES:
        return None
    program = text.program_of(place)
    if program < 0 or text.ranks[program] != (rank,) or type(fields.get("peer")) is not int:
        return None
    return rank, place, fields


def _alike(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return all(one.get(name) == other.get(name) for name in SAME)


def _turned(side: Side, peer: int, *more: Steps) -> Proposal:
    _, place, fields = side
    edits = (put(*place, "peer", value=peer), *(remove(*other) for other in more))
    words = f"change the peer of {{0}} from {fields['peer']} to {peer}"
    words += ", and remove {1}" if more else ""
    return Proposal("peer", edits, frozenset((place, *more)), words, (place, *more))


def _received_elsewhere(text: PlanText, got: Side) -> Iterator[Proposal]:
    """Yield sends of the expected rank to another one, with the receive there that goes."""
    rank, _, fields = got
    for sent in _sides_of(text, fields["peer"]):
        if sent[2]["op"] not in SENDS or sent[2]["peer"] == rank or not _alike(sent[2], fields):
            continue
        for other in _sides_of(text, sent[2]["peer"]):
            is_there = other[2]["op"] in RECEIVES and other[2]["peer"] == fields["peer"]
            if is_there and _alike(other[2], fields) and "work" not in other[2]:
                yield _turned(sent, rank, other[1])


def _sides_of(text: PlanText, rank: int) -> Iterator[Side]:
    if not 0 <= rank < text.plan.world_size:
        return
    program = text.plan.code.programs[text.plan.code.rank_program[rank]]
    for action in range(min(program.length, REACH)):
        side = _side(text, rank, action)
        if side is not None:
            yield side


REACH = 200
"""Actions of a rank among which a message sent elsewhere is looked for."""
