"""All_to_all calls whose parts cannot fit: what all members give is not what all of them take.

The sizes of an ``all_to_all`` may differ from member to member. But what rank i gives to rank j is
what j takes from i, so the sums over all members are equal, and where recordings tell the parts,
each pair of them is. NCCL's Flight Recorder writes whole sizes and no parts (torch 2.13.0,
``ProcessGroupNCCL::alltoall_base``), and the watchdog those of ``all_to_all_single``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from planguard.audit.readers.part import CONCLUDED
from planguard.recording import Progress

if TYPE_CHECKING:
    from collections.abc import Iterator

    from planguard.audit.rounds.rounds import Line, Rounds
    from planguard.recording import Call

WHOLE = ("flight-recorder", "stderr")
"""Kinds that write the sizes of whole tensors."""


@dataclass(frozen=True)
class Unequal:
    """A round of all_to_all in which somebody takes what nobody gives, or the reverse.

    Attributes:
        group: The group.
        position: The round.
        ranks: The two that disagree, giver first; all members where only the sums show it.
        is_pair: It is known which two.
        given: Elements that the one gives to the other, or all to all.
        taken: Elements that the other one takes from it.
    """

    group: str
    position: int
    ranks: tuple[int, ...]
    is_pair: bool
    given: int
    taken: int


def unequal(rounds: Rounds) -> Iterator[Unequal]:
    """Yield the first such round of each group, of those that did not end on all members."""
    kinds = {number for number, sign in enumerate(rounds.signs) if sign[0] == "all_to_all"}
    if not kinds:
        return
    for group, lines in rounds.lines.items():
        members = _members(rounds, group)
        if not members or any(member not in lines for member in members):
            continue
        first = max(lines[member].first for member in members)
        last = min(lines[member].end for member in members)
        own = [lines[member] for member in members]
        for position in range(first, last + 1):
            if own[0].sign(position) not in kinds or any(not line.has(position) for line in own):
                continue
            if all(line.state(position) == Progress.COMPLETED for line in own):
                continue
            found = _unequal(rounds, group, own, position)
            if found is not None:
                yield found
                break


def _members(rounds: Rounds, group: str) -> tuple[int, ...]:
    """Return the members of a group in its order, where all of them are known for certain."""
    known = rounds.recording.groups.get(group)
    if known is None or known.ranks is None or known.is_inferred:
        return ()
    if group == "world" and any(CONCLUDED in note for note in rounds.recording.notes):
        return ()
    return known.ranks


def _unequal(rounds: Rounds, group: str, lines: list[Line], position: int) -> Unequal | None:
    ranks = rounds.recording.ranks
    calls = [ranks[line.rank].track.call_at(line.action(position)) for line in lines]
    is_one = all(rounds.is_one_call(line.sign(position)) for line in lines)
    if not is_one or any(call.family != "all_to_all" for call in calls):
        return None
    if len({call.dtype for call in calls}) > 1:
        return None
    who = tuple(line.rank for line in lines)
    into = [_parts(call.in_splits, call, 0, len(lines)) for call in calls]
    out = [_parts(call.out_splits, call, 1, len(lines)) for call in calls]
    for src, given in enumerate(into):
        for dst, taken in enumerate(out):
            if given is not None and taken is not None and given[dst] != taken[src]:
                pair = who[src], who[dst]
                return Unequal(group, position, pair, True, given[dst], taken[src])
    sizes = [
        (_whole(call, 0, ranks[rank].kind), _whole(call, 1, ranks[rank].kind))
        for call, rank in zip(calls, who, strict=True)
    ]
    if any(None in pair for pair in sizes):
        return None
    given, taken = (sum(side) for side in zip(*sizes, strict=True))
    return Unequal(group, position, who, False, given, taken) if given != taken else None


def _parts(splits: tuple[int, ...] | None, call: Call, side: int, size: int) -> list[int] | None:
    """Return the elements of each part; recorders count them in rows of the first dimension."""
    whole = call.shape[side] if call.shape is not None and len(call.shape) == 2 else None
    if splits is None or len(splits) != size or type(whole) is not int:
        return None
    rows = sum(splits)
    if not rows:
        return [0] * size if not whole else None
    return None if whole % rows else [part * (whole // rows) for part in splits]


def _whole(call: Call, side: int, kind: str) -> int | None:
    """Return the elements that a member gives, or takes.

    Of an ``all_to_all`` of many tensors old watchdogs write the first (torch 2.1, ``numelIn_``).
    """
    if kind not in WHOLE or (kind == "stderr" and call.op != "all_to_all_single"):
        return None
    whole = call.shape[side] if call.shape is not None and len(call.shape) == 2 else None
    return whole if type(whole) is int else None
