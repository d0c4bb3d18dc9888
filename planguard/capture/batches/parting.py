"""Where the ways of two ranks part so that their communication does: the line of the decision.

Two ranks may take different branches and agree all the same (one reduces its loss, the other a
zero). So the ways are walked together. Where they part, both are followed to the end of the
statement that parted them (of its block, its function, its caller, until both stand on one line
again), and what they issued meanwhile is compared: equal calls, and the walk goes on; else this is
the decision. Sizes of messages and of uneven exchanges differ between ranks by right and are not
compared. Where all lines are common, the values differ: then the line counts that last set what
the call was given, or the call's own line where it is computed there. A function in which they part
and that issues nothing has decided only how it ends: the line that called it decides by what comes
back, or the ``except`` that catches what it raises.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from planguard.capture.batches.way_places import (
    back_in,
    caller_of,
    catches,
    origin_of,
    out_of,
    rejoin,
)
from planguard.capture.names.thread_orders import JOINED, STARTED, THREAD
from planguard.plan.vocabulary import MESSAGES, OPERATIONS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from planguard.capture.batches.ways import Step
    from planguard.capture.play.logs import RankLog
    from planguard.verdict import Location

Action = dict[str, Any]
_MESSAGES = MESSAGES | {"batch"}
_NO_CALL = frozenset({"wait", "drop", STARTED, JOINED})
_PARTINGS = 10_000  # partings without consequence that are walked over
_PAIRS = 200  # pairs of ranks that are compared


@dataclass(frozen=True)
class Way:
    """What one rank did: its lines, and what it issued.

    Attributes:
        rank: The rank.
        steps: Its lines.
        log: What it issued.
        peer: The rank that it is compared with: only calls count that both take part in.
        messages: Messages count as well; in a pipeline, ranks differ in them by right.
    """

    rank: int
    steps: Sequence[Step]
    log: RankLog
    peer: int | None = None
    messages: bool = False

    def calls(self, first: int, last: int | None) -> list[Action]:
        """Return what was issued between two counts of actions, as far as it counts."""
        return [one for one in self.log.actions[first:last] if self._counts(one)]

    def _counts(self, action: Action) -> bool:
        if action["op"] in _NO_CALL or THREAD in action:  # a thread has a way of its own
            return False
        if action["op"] in _MESSAGES:
            return self.messages
        if action["op"] == "new_group" or self.peer is None:
            return True
        return self.peer in self.log.groups.get(action.get("group", ""), ())

    def issued(self, at: int) -> int | None:
        """Return how many actions there were before a step; None behind the last."""
        return self.steps[at].issued if at < len(self.steps) else None


@dataclass(frozen=True)
class Parting:
    """Two ranks that part.

    Attributes:
        ranks: The two.
        decided: The line that decides.
        why: What happens there: ``lines`` part, a ``value`` is set, or a ``thread`` starts.
        branches: The lines on which the ranks go on; None for one that ends.
        raised: The line that raised, where the decision is to catch it.
        issued: What each issues until both stand on one line again.
        calls: The first calls that differ; None for a rank that issues none any more.
    """

    ranks: tuple[int, int]
    decided: Step
    why: str
    calls: tuple[Action | None, Action | None]
    branches: tuple[Step | None, Step | None] = (None, None)
    raised: Step | None = None
    issued: tuple[Sequence[Action], Sequence[Action]] = ((), ())

    def notes(self) -> list[str]:
        """Say it in sentences."""
        (a, b), (left, right) = self.ranks, self.calls
        said = f"decided at {self.decided} in {self.decided.function}"
        if self.why == "value":
            said += f", where its value was set: no line parts ranks {a} and {b} before the call"
        elif self.why == "thread":
            said += ", where a thread starts: its calls and those of the others come in any order"
        else:
            ways = [
                f"rank {rank} {f'goes on at {step}' if step is not None else 'ends there'}"
                for rank, step in zip(self.ranks, self.branches, strict=True)
            ]
            said += f": {', '.join(ways)}"
            if self.raised is not None:
                said += f", having caught what {self.raised} raises"
        first = f"first call that differs: rank {a} {_told(left)}, rank {b} {_told(right)}"
        return [said, first]


def find_parting(
    ways: Mapping[int, Way], assignment: Sequence[int], places: Sequence[Location]
) -> Parting | None:
    """Find two ranks that part, those with different samples first.

    Args:
        ways: Ways by rank.
        assignment: Samples by rank.
        places: The calls that the finding names, for ranks whose lines never part.
    """
    pairs = list(itertools.islice(itertools.combinations(sorted(ways), 2), _PAIRS))
    pairs.sort(key=lambda pair: assignment[pair[0]] == assignment[pair[1]])
    for messages in (False, True):
        for a, b in pairs:
            found = _part(
                replace(ways[a], peer=b, messages=messages),
                replace(ways[b], peer=a, messages=messages),
            )
            if found is not None:
                return found
    return _at_places(ways, places)


def _part(one: Way, other: Way) -> Parting | None:
    """Walk two ways until they part with a consequence; None where they never do."""
    p = q = 0
    for _ in range(_PARTINGS):
        p, q, differing = _common(one, other, p, q)
        if differing is not None:
            return _of_values(one, other, p - 1, differing)
        if p >= len(one.steps) and q >= len(other.steps):
            return None
        if not p or not q:
            return None
        beyond = rejoin(one.steps, other.steps, p, q)
        first = (one.steps[p - 1].issued, other.steps[q - 1].issued)
        calls = (
            one.calls(first[0], one.issued(beyond[0])),
            other.calls(first[1], other.issued(beyond[1])),
        )
        if not _agree(one, other, calls):
            return _decision(one, other, (p, q), first, calls)
        p, q = beyond
    return None


def _common(
    one: Way, other: Way, p: int, q: int
) -> tuple[int, int, tuple[Action | None, Action | None] | None]:
    """Go on while both stand on the same line; stop where a line issued other calls."""
    left, right = one.steps, other.steps
    last = min(len(left) - p, len(right) - q)
    start = True
    for _ in range(last):
        if left[p].at != right[q].at:
            break
        if not start:
            found = _differing(one, other, p, q)
            if found is not None:
                return p, q, found
        start = False
        p, q = p + 1, q + 1
    is_end = p == len(left) and q == len(right) and p > 0
    return p, q, _differing(one, other, p, q) if is_end else None


def _differing(one: Way, other: Way, p: int, q: int) -> tuple[Action | None, Action | None] | None:
    """Compare what the line before two steps issued."""
    mine = one.calls(one.steps[p - 1].issued, one.issued(p))
    theirs = other.calls(other.steps[q - 1].issued, other.issued(q))
    if _agree(one, other, (mine, theirs)):
        return None
    return _first(one, other, (mine, theirs))


def _agree(one: Way, other: Way, calls: tuple[list[Action], list[Action]]) -> bool:
    left, right = calls
    shapes = [_shape(a, one) for a in left], [_shape(b, other) for b in right]
    return shapes[0] == shapes[1]


def _shape(action: Action, way: Way) -> tuple[Any, ...]:
    """Return what two ranks share where their calls meet."""
    op = action["op"]
    if op in _MESSAGES:
        return ("message",)
    size = (action.get("count"), action.get("dtype"), action.get("bytes"))
    is_uneven = op in OPERATIONS and bool(OPERATIONS[op].splits)
    members = tuple(way.log.groups.get(action.get("group", ""), ()))
    return op, members, None if is_uneven else size, action.get("root")


def _first(
    one: Way, other: Way, calls: tuple[list[Action], list[Action]]
) -> tuple[Action | None, Action | None]:
    left, right = calls
    for mine, theirs in zip(left, right, strict=False):
        if _shape(mine, one) != _shape(theirs, other):
            return mine, theirs
    at = min(len(left), len(right))
    return left[at] if at < len(left) else None, right[at] if at < len(right) else None


def _decision(
    one: Way,
    other: Way,
    at: tuple[int, int],
    issued: tuple[int, int],
    calls: tuple[list[Action], list[Action]],
) -> Parting:
    """Tell a parting; where one branch issues nothing more, its rank's next call is meant."""
    whole = one.calls(issued[0], None), other.calls(issued[1], None)
    same = 0
    for mine, theirs in zip(*calls, strict=False):
        if _shape(mine, one) != _shape(theirs, other):
            break
        same += 1
    first = tuple(rows[same] if same < len(rows) else None for rows in whole)
    p, q = at
    left = _left(one, other, at)
    if left is not None:
        apart = first[0], first[1]
        ranks = one.rank, other.rank
        return Parting(ranks, left.line, "lines", apart, left.branches, left.raised, calls)
    line = one.steps[p - 1]
    branches = (
        one.steps[p] if p < len(one.steps) else None,
        other.steps[q] if q < len(other.steps) else None,
    )
    return Parting(
        (one.rank, other.rank),
        line,
        "lines",
        (first[0], first[1]),
        branches,
        issued=calls,
    )


@dataclass(frozen=True)
class _Left:
    """A function that both ranks leave, before it issues anything, on ways of their own.

    Attributes:
        line: The line that decides: the caller's, or its ``except`` where one rank raises.
        raised: The line that raised, if one did.
        branches: Where both ranks go on.
    """

    line: Step
    raised: Step | None
    branches: tuple[Step | None, Step | None]


def _left(one: Way, other: Way, at: tuple[int, int]) -> _Left | None:
    """Tell a parting in a function that decides nothing but how it ends: its caller decides.

    What it returns, yields or raises is what its caller goes on with. None where the parting stands
    in no such function.
    """
    ways, parted, found = (one, other), (at[0] - 1, at[1] - 1), None
    calls = caller_of(one.steps, parted[0]), caller_of(other.steps, parted[1])
    while calls[0] is not None and calls[1] is not None:
        lines = one.steps[calls[0]], other.steps[calls[1]]
        back = tuple(
            back_in(way.steps, place, line)
            for way, place, line in zip(ways, parted, lines, strict=True)
        )
        for way, place, line in zip(ways, parted, lines, strict=True):
            behind = out_of(way.steps, place, line)
            issued = None if behind is None else way.issued(behind)
            if way.calls(way.steps[place].issued, issued):
                return found  # the function itself communicates on one of the two ways
        steps = tuple(
            None if there is None else way.steps[there]
            for way, there in zip(ways, back, strict=True)
        )
        mine, theirs = steps
        if mine is not None and theirs is not None and mine.line == theirs.line:
            return found  # back on one line, each with a value of its own
        for number, (step, there) in enumerate(zip(steps, back, strict=True)):
            if step is None or there is None or not catches(step, lines[number]):
                continue
            own = ways[number].steps
            after = own[there + 1] if there + 1 < len(own) else None
            on = (after, theirs) if number == 0 else (mine, after)
            return _Left(step, own[there - 1], on)
        found = _Left(lines[0], None, (mine, theirs))
        calls = caller_of(one.steps, calls[0]), caller_of(other.steps, calls[1])
    return found


def _of_values(
    one: Way, other: Way, at: int, calls: tuple[Action | None, Action | None]
) -> Parting:
    line = origin_of(one.steps, at)
    return Parting((one.rank, other.rank), line, "value", calls)


def _at_places(ways: Mapping[int, Way], places: Sequence[Location]) -> Parting | None:
    """Tell two ranks whose lines never part by the calls that the finding names."""
    named = [
        (way, action)
        for place in places
        if (way := ways.get(place.rank)) is not None
        and (action := _action_at(way, place)) is not None
    ]
    for way, action in named:
        found = _of_thread(way, action, named) if action.get(THREAD) else None
        if found is not None:
            return found
    # The one that comes second, on its rank, is taken for the one that does not fit.
    for way, action in reversed(named):
        at = next((n for n, step in enumerate(way.steps) if _issues(way, n, action, step)), None)
        if at is None:
            continue
        peers = [(other, call) for other, call in named if other.rank != way.rank]
        other, call = peers[0] if peers else (None, None)
        if other is None:
            continue
        line = origin_of(way.steps, at)
        return Parting((way.rank, other.rank), line, "value", (action, call))
    return None


def _of_thread(way: Way, action: Action, named: Sequence[tuple[Way, Action]]) -> Parting | None:
    """Tell a call of a thread by the line that starts it: behind it the clock decides."""
    mark = STARTED, action[THREAD]
    starts = ((one["op"], one.get(THREAD)) for one in way.log.actions)
    started = next((at for at, one in enumerate(starts) if one == mark), None)
    lines = [s for s in way.steps if started is not None and s.issued <= started]
    other, call = next(((o, c) for o, c in named if o.rank != way.rank), (None, None))
    if not lines or other is None:
        return None
    return Parting((way.rank, other.rank), lines[-1], "thread", calls=(action, call))


def _action_at(way: Way, place: Location) -> Action | None:
    """Return the action of a log that a location of the plan stands for."""
    if place.source is None:
        return None
    wanted = [place.source.file, place.source.line]
    found = way.log.actions[place.action : place.action + 1] + way.log.actions
    return next((one for one in found if one.get("src", [])[:2] == wanted), None)


def _issues(way: Way, at: int, action: Action, step: Step) -> bool:
    src = action.get("src", ("", 0))
    if (step.file, step.line) != (src[0], src[1]):
        return False
    return any(one is action for one in way.log.actions[step.issued : way.issued(at + 1)])


# --- words ---------------------------------------------------------------------------------------


def _told(action: Mapping[str, Any] | None) -> str:
    if action is None:
        return "issues no further one"
    place = action.get("src")
    if place is None and action["op"] == "batch":
        place = next((one["src"] for one in action["ops"] if "src" in one), None)
    where = f" at {place[0]}:{place[1]}" if place else ""
    size = f" of {action['count']} {action['dtype']}" if "count" in action else ""
    return f"{action['op']}{size}{where}"
