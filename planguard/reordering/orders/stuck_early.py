"""Stuck in every order: lanes that wait for each other before anything of open order plays a part.

In the lenient run of one order, take the largest set of stuck lanes such that each of them

* stands at a call of its rank's *fixed prefix*, what comes before its first block of open order,
* at a match in which no call of open order takes part,
* which is no round or message whose members disagree, nor stands behind one on its communicator or
  channel, nor behind one in which a call of open order takes part, and
* waits for an arrival that nobody makes, or that one of the set makes behind where it stands.

If the set is not empty, no lane of it gets further in any order. Suppose one did, and take the
first: the arrival it waited for was made by a lane of the set, which then got further before. The
prefixes, their matches and what their calls wait for are the same in every order: positions on a
communicator count from the begin of the program, and a lane takes calls as they were issued.
The lenient run makes the most progress of all executions of an order. So every execution of every
order gets stuck, for a reason that has nothing to do with its order.

The third line is about blame (docs/reference/result.md): what hangs behind a mismatch of its own
communicator is the consequence of that, and an order in which open calls mix such a round is a
MISMATCH, be it stuck. With it no lane of the set is excused in any order: none stands behind a
mismatch, and each waits for nobody or for one that is not excused either.

Operations that change what later calls mean by where they are issued (`weak_search.FRESH`) must
not be in a block: then positions would depend on the order.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from planguard.execution.findings.members import NONE, describe_match
from planguard.execution.findings.mismatch import candidates, find_mismatches, home_of
from planguard.execution.findings.stuck import StuckState
from planguard.execution.issued import issued
from planguard.plan.actions import KIND_MASK, MEMBER, is_collective, is_point_to_point
from planguard.reordering.blocks import Block

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planguard.execution.decide import Decision
    from planguard.execution.findings.classify import Cause
    from planguard.execution.running.executor import Execution
    from planguard.reordering.blocks import RankOrder


def stuck_ranks(run: Execution, orders: Sequence[RankOrder]) -> set[int]:
    """Return ranks that get stuck in every order, whatever the order is; none if that is open.

    Args:
        run: The lenient run of the plan in one order, with ``origins=True``.
        orders: Its rank programs taken apart.
    """
    if run.completes:
        return set()
    return stuck_before(run, [_first_open(run, order) for order in orders])


def stuck_before(run: Execution, first: Sequence[int]) -> set[int]:
    """Return ranks that get stuck in every order in front of what is open.

    Args:
        run: The lenient run of the plan in one order, with ``origins=True``.
        first: For every rank, its first entry whose place is open; ``NONE`` if there is none.
    """
    if run.completes:
        return set()
    state, lanes = StuckState(run), run.lanes
    in_play = _matches_of_open(run, first)
    standing = {
        lane: match
        for lane, match in state.match_of.items()
        if match not in in_play and lanes.origin[run.state.pc[lane]] < first[lanes.lane_rank[lane]]
    }
    excuses = _first_excuses(run, in_play, {_home(run, match) for match in standing.values()})
    stuck = {lane for lane, match in standing.items() if not _is_excusable(run, match, excuses)}
    left = True
    while left:
        out = {lane for lane in stuck if not _waits_inside(run, state, lane, stuck)}
        stuck, left = stuck - out, bool(out)
    return {lanes.lane_rank[lane] for lane in stuck}


def _waits_inside(run: Execution, state: StuckState, lane: int, stuck: set[int]) -> bool:
    """Tell whether a lane waits for an arrival that nobody but those in ``stuck`` could make.

    A lane whose own arrival is held up, by others of its rank, is stuck for their reason.
    """
    match, rank = state.match_of[lane], run.lanes.lane_rank
    owed = [other for other, _ in state.owed.get(match, [])]
    in_front = [other for other in owed if rank[other] == rank[lane]]
    if in_front:
        return any(other in stuck for other in in_front)
    return len(owed) < run.state.need[match] or any(other in stuck for other in owed)


def _home(run: Execution, match: int) -> int:
    """Return a number for the communicator or channel of a match, -1 where it has none."""
    number = describe_match(run, match).number
    return home_of(run, number) if number < run.lanes.ext_base else -1


def _first_excuses(run: Execution, in_play: set[int], homes: set[int]) -> dict[int, int]:
    """Return, by communicator or channel, the first match that may be mixed up in some order.

    Args:
        run: The run.
        in_play: The matches in which an open call takes part.
        homes: The communicators and channels that are asked for.
    """
    found: dict[int, int] = {}
    mixed = [one.match.number for one in find_mismatches(run, candidates(run))]
    there = [match for match in in_play if _home(run, match) in homes]
    different = _different(run) if there else set()
    for match in there:
        found_there = describe_match(run, match)
        where = (found_there.ginst, *(found_there.ranks if found_there.type == "pair" else ()))
        if run.columns.has_new_group or where in different:
            mixed.append(found_there.number)
    for number in mixed:
        if number < run.lanes.ext_base:
            home = home_of(run, number)
            found[home] = min(number, found.get(home, number))
    return found


def _different(run: Execution) -> set[tuple[int | None, ...]]:
    """Return the groups, and the pairs of ranks in a group, with calls that could disagree.

    Calls of equal signatures disagree in no order, unless two ranks have labels that differ.
    """
    columns = run.columns
    signatures: dict[tuple[int | None, ...], set[int]] = {}
    labels: dict[tuple[int | None, ...], set[tuple[int, int]]] = {}
    for rank in range(columns.world_size):
        for at in issued(columns, rank):
            kind, arg = columns.op[at] & KIND_MASK, columns.arg[at]
            where: tuple[int | None, ...]
            if is_collective(kind):
                where = (columns.slot_ginst[arg],)
            elif is_point_to_point(kind):
                where = (columns.chan_ginst[arg], columns.chan_src[arg], columns.chan_dst[arg])
            else:
                continue
            signatures.setdefault(where, set()).add(columns.sig[at])
            label = columns.label[at] if len(columns.label) else 0
            if label:
                labels.setdefault(where, set()).add((rank, label))
    found = {where for where, seen in signatures.items() if len(seen) > 1}
    for where, seen in labels.items():
        several = len({rank for rank, _ in seen}) > 1 and len({label for _, label in seen}) > 1
        found |= {where} if several else set()
    return found


def _is_excusable(run: Execution, match: int, excuses: dict[int, int]) -> bool:
    """Tell whether a match is, or stands behind, one that may be mixed up."""
    number = describe_match(run, match).number
    if number >= run.lanes.ext_base or not excuses:
        return False
    return excuses.get(home_of(run, number), number + 1) <= number


def _first_open(run: Execution, order: RankOrder) -> int:
    """Return the first entry of a rank, in the plan that was run, that is in an open block."""
    fixed = 0
    for part in order.parts:
        if isinstance(part, Block) and len(part.leaves) > 1:
            break
        fixed += len(part.leaves) if isinstance(part, Block) else 1
    else:
        return NONE
    return entry_of(run, order.rank, fixed)


def entry_of(run: Execution, rank: int, action: int) -> int:
    """Return the first entry of an action of a rank, in the plan that was run."""
    columns, seen = run.columns, -1
    start: int = columns.rank_off[rank]
    end: int = columns.rank_off[rank + 1]
    for at in range(start, end):
        seen += not columns.op[at] & MEMBER
        if seen == action:
            return at - start
    return NONE


def _matches_of_open(run: Execution, first: Sequence[int]) -> set[int]:
    """Return the matches in which a call takes part that is issued in or behind a block."""
    lanes, found = run.lanes, set[int]()
    for lane, rank in enumerate(lanes.lane_rank):
        for at in range(lanes.lane_off[lane], lanes.lane_off[lane + 1]):
            if lanes.origin[at] >= first[rank]:
                found.add(lanes.code[at] >> 2)
    return found


def in_every_order(decision: Decision, ranks: set[int]) -> Decision:
    """Return a decision whose causes hold in every order only where they are about such ranks."""

    def said(cause: Cause) -> Cause:
        blocked = {place.rank for place in (cause.stands or cause.blocked)}
        if blocked and blocked <= ranks:
            return cause
        return replace(cause, finding=replace(cause.finding, certainty="some-execution"))

    return replace(decision, causes=tuple(map(said, decision.causes)))
