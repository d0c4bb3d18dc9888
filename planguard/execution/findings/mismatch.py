"""Matches whose members disagree: the first per communicator or channel, and who is odd."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from planguard.execution.findings.classify import Cause, make_finding
from planguard.execution.findings.disagreements import mismatch_headline
from planguard.execution.findings.locate import locate
from planguard.execution.findings.members import NONE, Match, Member, describe_match, members_of
from planguard.execution.findings.sequence import messages_before
from planguard.execution.findings.stuck import WHY, Place, place_of
from planguard.plan.actions import KIND_MASK, Kind
from planguard.semantics.model import Family
from planguard.semantics.signature import Disagreement, Side, disagreement, labels_of

if TYPE_CHECKING:
    from planguard.execution.running.executor import Execution

ARRIVE = 1
HOST_LANE = 2
INIT = WHY.index("init")
_RELATED = 8


@dataclass(frozen=True)
class Mismatch:
    """One match whose members disagree.

    Attributes:
        match: The round or pair.
        found: What they disagree on.
        members: Those that issue it.
        later: Further mismatched matches of the same communicator or channel.
    """

    match: Match
    found: Disagreement
    members: tuple[Member, ...]
    later: int = 0


BLOCKING = {"PG201", "PG205"}
"""Disagreements that change who waits for whom; the others complete as if members agreed."""
FORCED_LIMIT = 2_000


def blocking_rounds(execution: Execution, numbers: list[int]) -> array[int]:
    """Return the rounds in which members wait for each other in vain because they disagree.

    Args:
        execution: A run with ``origins=True``.
        numbers: Candidate match numbers; beyond ``FORCED_LIMIT`` rounds all of them are returned.
    """
    rounds = [number for number in numbers if number < execution.lanes.p2p_base]
    if len(rounds) > FORCED_LIMIT:
        return array("I", rounds)
    found = array("I")
    for number in rounds:
        match = describe_match(execution, number)
        members = [m for m in members_of(execution, match) if m.entry is not None]
        sides = [_side(execution, m, match.ranks.index(m.rank)) for m in members]
        what = disagreement(sides, execution.model, pair=False) if len(sides) > 1 else None
        if what is not None and (what.code in BLOCKING or _some_leave_alone(execution, sides)):
            found.append(number)
    return found


def _some_leave_alone(execution: Execution, sides: list[Side]) -> bool:
    """Whether members that move nothing leave at once, so that the others wait in vain (gloo)."""
    return any(
        side.signature.bytes == 0 and side.signature.kind in execution.model.empty_alone
        for side in sides
    )


def candidates(execution: Execution) -> list[int]:
    """Return the matches that may disagree, in order."""
    lanes = execution.lanes
    return sorted({*lanes.mismatched, *lanes.split_rounds})


def find_mismatches(execution: Execution, numbers: list[int]) -> list[Mismatch]:
    """Return the first mismatch of every communicator and channel that an execution forms.

    A mismatch counts when at least two members that disagree are reached.

    Args:
        execution: A run with ``origins=True``.
        numbers: Candidate match numbers.
    """
    first: dict[int, Mismatch] = {}
    for number in numbers:
        home = home_of(execution, number)
        known = first.get(home)
        if known is not None:
            first[home] = replace(known, later=known.later + 1)
            continue
        found = _inspect(execution, describe_match(execution, number))
        if found is not None:
            first[home] = found
    return list(first.values())


def home_of(execution: Execution, number: int) -> int:
    """Return a number for the communicator or channel of a match."""
    lanes = execution.lanes
    if number < lanes.p2p_base:
        return bisect_right(lanes.comm_base, number) - 1
    return len(lanes.comm_base) + bisect_right(lanes.class_base, number) - 1


def _inspect(execution: Execution, match: Match) -> Mismatch | None:
    members = tuple(m for m in members_of(execution, match) if m.entry is not None)
    order = {rank: place for place, rank in enumerate(match.ranks)}
    reached = [m for m in members if is_reached(execution, m)]
    sides = [_side(execution, member, order[member.rank]) for member in reached]
    found = None
    if len(sides) > 1:
        found = disagreement(sides, execution.model, pair=match.type == "pair")
    return None if found is None else Mismatch(match, found, tuple(reached))


def _side(execution: Execution, member: Member, place: int) -> Side:
    columns, code = execution.columns, execution.plan.code
    at = columns.rank_off[member.rank] + (member.entry or 0)
    label, *parts = labels_of(code, columns.label[at] if len(columns.label) else 0)
    return Side(
        rank=member.rank,
        signature=code.signatures[columns.sig[at]],
        label=label,
        place=place,
        asynchronous=bool(columns.op[at] & 128),
        parts=tuple(parts),
        messages=messages_before(execution, at),
    )


def is_reached(execution: Execution, member: Member) -> bool:
    """Whether the run issued a member's action: a match is formed by issue, not by completion."""
    entry = NONE if member.entry is None else member.entry
    if execution.model.family is Family.DEVICE:
        return _is_issued(execution, member.rank, entry)
    return _has_arrived(execution, member.rank, entry)


def _is_issued(execution: Execution, rank: int, entry: int) -> bool:
    """The host of the nccl family runs ahead of its streams until something blocks it."""
    lanes, state = execution.lanes, execution.state
    first, last = bisect_right(lanes.lane_rank, rank - 1), bisect_right(lanes.lane_rank, rank)
    host = next((lane for lane in range(first, last) if lanes.lane_kind[lane] == HOST_LANE), None)
    if host is None:
        # One lane for host and stream: where it stands, the host may stand at a later barrier.
        at, end = state.pc[first], lanes.lane_off[first + 1]
        return at >= end or not _host_stops(execution, rank, lanes.origin[at], entry)
    if state.pc[host] >= lanes.lane_off[host + 1]:
        return True
    stands = lanes.origin[state.pc[host]]
    if lanes.why[state.pc[host]] == INIT:  # the call it stands at needs its communicator first
        return bool(stands == NONE or entry < stands)
    return bool(stands == NONE or entry <= stands)


def _host_stops(execution: Execution, rank: int, stands: int, entry: int) -> bool:
    """Whether something between where a stream stands and an entry blocks the host."""
    columns, begin = execution.columns, execution.columns.rank_off[rank]

    def blocks(at: int) -> bool:
        kind, arg = columns.op[at] & KIND_MASK, columns.arg[at]
        if kind == Kind.WAIT:
            return bool(columns.op[begin + arg] & KIND_MASK == Kind.BARRIER)
        if kind == Kind.WAIT_MANY:
            targets = columns.aux[arg + 1 : arg + 1 + columns.aux[arg]]
            return any(columns.op[begin + target] & KIND_MASK == Kind.BARRIER for target in targets)
        return bool(kind == Kind.HOST_SYNC or columns.op[at] & 191 == Kind.BARRIER)

    return any(blocks(at) for at in range(begin + stands, begin + entry))


def _has_arrived(execution: Execution, rank: int, entry: int) -> bool:
    lanes, state = execution.lanes, execution.state
    place = _batch_entry(execution, rank, entry)
    first, last = bisect_right(lanes.lane_rank, rank - 1), bisect_right(lanes.lane_rank, rank)
    present = False
    for lane in range(first, last):
        for at in range(lanes.lane_off[lane], lanes.lane_off[lane + 1]):
            if lanes.origin[at] == place and lanes.code[at] & ARRIVE:
                present = True
                if at <= state.pc[lane]:
                    return True
    return not present


def _batch_entry(execution: Execution, rank: int, entry: int) -> int:
    columns = execution.columns
    start = columns.rank_off[rank]
    while columns.op[start + entry] & 64:
        entry -= 1
    return entry


def explain_mismatch(execution: Execution, mismatch: Mismatch) -> Cause:
    """Return the finding of a mismatch; the minority of the members is to blame."""
    odd = mismatch.found.odd
    places = {m.rank: place_of(execution, m.rank, m.entry or 0) for m in mismatch.members}
    blamed = [places[rank] for rank in odd if rank in places]
    primary = locate(execution, blamed[0])
    others = _both_sides(mismatch, places, primary.rank)
    notes = []
    if mismatch.later:
        where = "messages of this pair" if mismatch.match.type == "pair" else "rounds of this group"
        notes.append(f"later {where} disagree as well: {mismatch.later:,}")
    finding = make_finding(
        mismatch.found.code,
        mismatch_headline(execution, mismatch),
        ranks=tuple(sorted(places)),
        primary=primary,
        related_actions=tuple(locate(execution, place) for place in others[:_RELATED]),
        notes=(*notes, f"what may happen: {execution.model.mismatch}"),
    )
    shape: list[object] = [mismatch.found.code]
    for rank, place in sorted(places.items()):
        shape.append((execution.plan.code.rank_program[rank], place.entry))
    return Cause(
        finding,
        tuple(places[rank] for rank in sorted(places)),
        (),
        (mismatch.found.code, *sorted(set(shape[1:]))),  # type: ignore[type-var]
        (mismatch.match.number,),
    )


def _both_sides(mismatch: Mismatch, places: dict[int, Place], rank: int) -> list[Place]:
    """Return the other members' places, one of every opinion first."""
    heads = [ranks[0] for _, ranks in mismatch.found.values if rank not in ranks]
    return [places[other] for other in dict.fromkeys([*heads, *sorted(places)]) if other != rank]
