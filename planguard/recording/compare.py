"""Planned against recorded, per rank and group: equal, reordered, extra, missing, different.

Both sides are aligned by a longest common subsequence on operation, group, size, element type,
peer and root. A field that one side does not know never makes a difference. Orders that the plan
leaves free are no difference: the plan is read in the order that the run chose.
"""

from __future__ import annotations

import enum
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from planguard.arguments import PLAN, RECORDING, arguments
from planguard.recording.linearize import linearize
from planguard.recording.observed import UNRECORDED, Call, Observed
from planguard.recording.planned import PlannedCall, plan_groups, planned_calls

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from planguard.plan.plan import Plan
    from planguard.recording.recording import Recording

One = TypeVar("One")
Other = TypeVar("Other")

ALIGNED = 4_000_000
"""Cells of the alignment table beyond which the middle part is not aligned but called different."""

SLACK = 64
"""Planned calls that an unfinished rank may have left out."""

PROLOGUE = (
    "_verify_param_shape_across_processes",
    "_sync_module_states",
    "_sync_params_and_buffers",
    "_verify_params_across_processes",
    "init_process_group",
    "init_device_mesh",
    "_initialize_p2p",
    "_warmup_p2p",
    "_initialize_stage",
    "_initialize_stages",
    "parallelize_module",
)
"""Functions whose calls belong to a framework's start and to no plan."""


class Status(enum.Enum):
    """How the recorded calls of one rank on one group relate to the planned ones."""

    EQUAL = "EQUAL"
    REORDERED = "REORDERED"
    EXTRA = "EXTRA"
    MISSING = "MISSING"
    DIFFERENT = "DIFFERENT"


@dataclass(frozen=True)
class Difference:
    """The first place where a rank left its plan.

    Attributes:
        group: Group of the calls.
        planned: The planned call, or None when the recorded one is extra.
        recorded: The recorded action, or None when the planned call never came.
        action: Index of the recorded action in the rank's record, or of the one it was expected
            before.
    """

    group: str
    planned: PlannedCall | None
    recorded: Observed | None
    action: int


@dataclass(frozen=True)
class RankComparison:
    """One rank against its plan.

    Attributes:
        rank: Global rank.
        groups: Status by group of the plan, or of the recording where the plan has none such.
        first: The first difference in the order of the run, or None.
        unreached: Planned calls behind the last recorded one of a rank that has not ended.
        prologue: Recorded calls at the start that belong to a framework.
    """

    rank: int
    groups: dict[str, Status]
    first: Difference | None = None
    unreached: int = 0
    prologue: int = 0


@dataclass(frozen=True)
class Comparison:
    """A recording against a plan.

    Attributes:
        ranks: One comparison for every recorded rank.
        is_limited: The recording has gaps: what is equal is equal as far as it was recorded.
    """

    ranks: tuple[RankComparison, ...]
    is_limited: bool

    @property
    def is_equal(self) -> bool:
        """True when no rank differs from its plan in what was recorded."""
        return all(rank.first is None for rank in self.ranks)


@arguments(recording=RECORDING, plan=PLAN)
def compare(recording: Recording, plan: Plan, *, prologue: Sequence[str] = PROLOGUE) -> Comparison:
    """Compare what was recorded with what was planned, rank by rank and group by group.

    Args:
        recording: What was seen.
        plan: What was intended.
        prologue: Functions whose calls at the start of a rank are left out.

    Raises:
        PlanError: The plan is too large to write out.
    """
    names = group_names(recording, plan)
    planned = planned_calls(plan)
    ranks = []
    for rank, record in sorted(recording.ranks.items()):
        if rank >= plan.world_size:
            continue
        calls = [(n, one) for n, one in enumerate(record.actions) if one.call.is_communication]
        start = _prologue(calls, prologue)
        if _plans(planned[rank], calls[:start], names):
            start = 0
        found = _rank(rank, planned[rank], calls[start:], names, ended=record.has_ended is True)
        ranks.append(
            RankComparison(rank, found.groups, found.first, found.unreached, prologue=start)
        )
    return Comparison(tuple(ranks), is_limited=bool(recording.gaps))


def group_names(recording: Recording, plan: Plan) -> dict[str, str]:
    """Return the plan's name of every group of the recording: same name, else same members.

    Among the plan's groups with the same members, those that it uses come first: a mesh that spans
    all ranks is the default group in one run and a group of its own in the next.
    """
    groups = plan_groups(plan)
    used = {one.call.group or "world" for calls in planned_calls(plan) for one in calls}
    by_members: dict[tuple[int, ...], list[str]] = {}
    for name, ranks in sorted(groups.items(), key=lambda one: one[0] not in used):
        by_members.setdefault(tuple(sorted(ranks)), []).append(name)
    names = {}
    places: Counter[tuple[int, ...]] = Counter()
    for name, group in recording.groups.items():
        members = tuple(sorted(group.members))
        same = by_members.get(members, [])
        known = [one for one in same if one in used] or same
        described = [one for one in known if one in (name, group.description)]
        # Groups of the same members are told apart by the order in which they were made.
        place = min(places[members], len(known) - 1)
        places[members] += 1
        names[name] = described[0] if described else known[place] if known else name
    if "world" not in names:
        names["world"] = "world"
    return names


def alike(planned: Call, recorded: Call, names: dict[str, str]) -> bool:
    """Tell whether a recorded call can be the planned one; unknown fields are no difference."""
    if planned.group != names.get(recorded.group or "world", recorded.group):
        return False
    if recorded.op == UNRECORDED:
        return planned.is_point_to_point
    if planned.family != recorded.family:
        return False
    pairs = [
        (planned.bytes, recorded.bytes),
        (planned.dtype, recorded.dtype),
        (planned.root, recorded.root),
        (planned.label, recorded.label),
    ]
    if planned.is_point_to_point:
        pairs.append((planned.peer, recorded.peer))
    else:
        pairs.append((planned.reduce_op, recorded.reduce_op))
    return all(a is None or b is None or a == b for a, b in pairs)


def _plans(
    planned: list[PlannedCall], prologue: list[tuple[int, Observed]], names: dict[str, str]
) -> bool:
    """Tell whether a plan holds a framework's start itself: it begins with the same calls."""
    if len(planned) < len(prologue):
        return False
    pairs = zip(planned, prologue, strict=False)
    return all(alike(one.call, seen.call, names) for one, (_, seen) in pairs)


def _prologue(calls: list[tuple[int, Observed]], functions: Sequence[str]) -> int:
    """Return how many calls at the start were made by functions of a framework's start."""
    names = set(functions)
    for place, (_, one) in enumerate(calls):
        if not any(frame.function in names for frame in one.call.stack):
            return place
    return len(calls)


def _rank(
    rank: int,
    planned: list[PlannedCall],
    recorded: list[tuple[int, Observed]],
    names: dict[str, str],
    *,
    ended: bool,
) -> RankComparison:
    def same(one: PlannedCall, two: tuple[int, Observed]) -> bool:
        return alike(one.call, two[1].call, names)

    planned = linearize(planned, recorded, same)
    want: dict[str, list[int]] = {}
    got: dict[str, list[tuple[int, Observed]]] = {}
    for place, one in enumerate(planned):
        want.setdefault(one.call.group or "world", []).append(place)
    for number, observed in recorded:
        group = observed.call.group or "world"
        got.setdefault(names.get(group, group), []).append((number, observed))
    pairs = {
        group: align(
            [planned[place] for place in want.get(group, ())], got.get(group, []), same, ended=ended
        )
        for group in [*want, *(group for group in got if group not in want)]
    }
    matched = [
        want[group][i]
        for group, row in pairs.items()
        for i, j in row
        if i is not None and j is not None
    ]
    reach = len(planned) if ended else max(matched, default=-1)
    groups: dict[str, Status] = {}
    firsts: list[Difference] = []
    unreached = 0
    for group, row in pairs.items():
        mine = want.get(group, [])
        # Behind the last recorded call of the rank, what is missing was not reached.
        kept = [(i, j) for i, j in row if j is not None or mine[i or 0] <= reach]
        unreached += len(row) - len(kept)
        calls = [planned[place] for place in mine]
        groups[group], first = _group(group, kept, calls, got.get(group, []))
        if first is not None:
            firsts.append(first)
    first = min(firsts, key=lambda one: one.action, default=None)
    return RankComparison(rank, groups, first, unreached)


def _group(
    group: str,
    pairs: list[tuple[int | None, int | None]],
    want: list[PlannedCall],
    got: list[tuple[int, Observed]],
) -> tuple[Status, Difference | None]:
    extra = [j for i, j in pairs if i is None and j is not None]
    missing = [i for i, j in pairs if j is None and i is not None]
    if not extra and not missing:
        return Status.EQUAL, None
    if not missing:
        status = Status.EXTRA
    elif not extra:
        status = Status.MISSING
    else:
        status = Status.DIFFERENT
        key = Counter(_key(want[i].call) for i in missing)
        if key == Counter(_key(got[j][1].call) for j in extra):
            status = Status.REORDERED
    return status, _first(group, pairs, want, got)


def _key(call: Call) -> tuple[object, ...]:
    return (call.family, call.bytes, call.dtype, call.root, call.peer)


def _first(
    group: str,
    pairs: list[tuple[int | None, int | None]],
    want: list[PlannedCall],
    got: list[tuple[int, Observed]],
) -> Difference:
    place = next(n for n, (i, j) in enumerate(pairs) if i is None or j is None)
    i = next((i for i, _ in pairs[place:] if i is not None), None)
    j = next((j for _, j in pairs[place:] if j is not None), None)
    # A planned call that is only missing has the next recorded one beside it, and the other way
    # round: both call sites are wanted.
    planned = None if i is None else want[i]
    recorded = None if j is None else got[j][1]
    action = got[j][0] if j is not None else got[-1][0] + 1 if got else 0
    return Difference(group, planned, recorded, action)


def align(
    want: Sequence[One],
    got: Sequence[Other],
    same: Callable[[One, Other], bool],
    *,
    ended: bool = True,
    most: int = ALIGNED,
) -> list[tuple[int | None, int | None]]:
    """Return a longest common subsequence as pairs of places; None where one side has nothing.

    Args:
        want: Planned calls, or those of one plan.
        got: Recorded calls, or those of another plan.
        same: Whether a recorded call can be a planned one.
        ended: The rank came to its end. Otherwise its calls are aligned with the first planned ones
            that they can be, since the rest of the plan may not have been reached.
        most: Cells of the table beyond which the part between equal ends is called different.
    """
    low = 0
    while low < len(want) and low < len(got) and same(want[low], got[low]):
        low += 1
    ends = [len(want), len(got)]
    if not ended:
        ends[0] = min(ends[0], low + 2 * (ends[1] - low) + SLACK)
    while ended and ends[0] > low and ends[1] > low and same(want[ends[0] - 1], got[ends[1] - 1]):
        ends = [ends[0] - 1, ends[1] - 1]
    head: list[tuple[int | None, int | None]] = [(n, n) for n in range(low)]
    tail: list[tuple[int | None, int | None]] = [
        (ends[0] + n, ends[1] + n if ended else None) for n in range(len(want) - ends[0])
    ]
    return [*head, *_middle(want, got, same, low, ends, most), *tail]


def _middle(
    want: Sequence[One],
    got: Sequence[Other],
    same: Callable[[One, Other], bool],
    low: int,
    ends: list[int],
    most: int,
) -> list[tuple[int | None, int | None]]:
    rows, columns = ends[0] - low, ends[1] - low
    if rows * columns > most:
        both: list[tuple[int | None, int | None]] = [(low + n, None) for n in range(rows)]
        return both + [(None, low + n) for n in range(columns)]
    table = [[0] * (columns + 1) for _ in range(rows + 1)]
    for i in range(rows - 1, -1, -1):
        below, row = table[i + 1], table[i]
        for j in range(columns - 1, -1, -1):
            if same(want[low + i], got[low + j]):
                row[j] = below[j + 1] + 1
            else:
                row[j] = max(below[j], row[j + 1])
    pairs: list[tuple[int | None, int | None]] = []
    i = j = 0
    while i < rows or j < columns:
        if i < rows and j < columns and same(want[low + i], got[low + j]):
            pairs.append((low + i, low + j))
            i, j = i + 1, j + 1
        elif j >= columns or (i < rows and table[i + 1][j] >= table[i][j + 1]):
            pairs.append((low + i, None))
            i += 1
        else:
            pairs.append((None, low + j))
            j += 1
    return pairs
