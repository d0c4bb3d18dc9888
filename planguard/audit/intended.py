"""The recorded run beside the intended plan: what was not recorded, what differs, what was next."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import msgspec

from planguard.execution.findings.cause import make_finding
from planguard.options import CheckOptions
from planguard.recording import UNRECORDED, Track
from planguard.recording.compare import alike, compare, group_names
from planguard.recording.linearize import linearize
from planguard.recording.planned import planned_calls
from planguard.result.fingerprint import fingerprint
from planguard.words import clean, name_ranks, shown

if TYPE_CHECKING:
    from planguard.plan.plan import Plan
    from planguard.recording import Call, Gap, Observed, RankRecord, Recording
    from planguard.recording.compare import Difference
    from planguard.recording.planned import PlannedCall
    from planguard.verdict import Finding, Location, Verdict

MAX_TOLD = 8


@dataclass(frozen=True)
class Beside:
    """A recording laid beside a plan.

    Attributes:
        recording: The recording, with what the plan tells of calls that were counted only.
        plan: The plan.
        next: Planned calls behind what each rank was seen doing, where it followed the plan.
        low: Index of the last planned action that each rank was seen to have finished.
    """

    recording: Recording
    plan: Plan
    next: dict[int, list[PlannedCall]]
    low: dict[int, int]

    def predicted(self, model: str) -> list[Finding]:
        """Return what the plan itself hangs in, if every rank was seen standing just there.

        A recorder that writes no messages down shows nothing of a rank that stands in one.
        The plan says where it would; the record says that the rank came this far and no further.
        """
        from planguard.engine import check_plan

        verdict = check_plan(self.plan, CheckOptions(model=model, budget=5.0))
        note = "plan: the intended plan hangs here, and the recorded ranks stand just there"
        return [
            replace(
                finding,
                evidence="T",
                notes=(*finding.notes, note),
                witness=None,
                related=tuple(dict.fromkeys((*finding.related, "PG501"))),
            )
            for finding in hangs_here(self, verdict)
        ]

    def told_next(self, finding: Finding) -> Finding:
        """Return a finding about missing ranks with what the plan has them do next."""
        notes = []
        for rank in finding.ranks[:3]:
            calls = self.next.get(rank)
            if calls:
                place = self.plan.location(rank, calls[0].action)
                source = place.source
                where = "" if source is None else f" at {clean(source.file)}:{source.line}"
                notes.append(
                    f"plan: next for rank {rank}: {place.text}, action {place.action}{where}"
                )
        return replace(finding, notes=(*finding.notes, *notes)) if notes else finding


def lay_beside(recording: Recording, plan: Plan) -> Beside:
    """Return the recording with its placeholders read as the plan's calls, where they fit."""
    names = group_names(recording, plan)
    back = {planned: recorded for recorded, planned in names.items()}
    everything = planned_calls(plan)
    ranks: dict[int, RankRecord] = {}
    following: dict[int, list[PlannedCall]] = {}
    low: dict[int, int] = {}
    for rank, record in recording.ranks.items():
        ranks[rank] = record
        if rank >= plan.world_size or record.dropped:
            continue
        seen = [(n, one) for n, one in enumerate(record.actions) if one.call.is_communication]

        def same(one: PlannedCall, two: tuple[int, Observed]) -> bool:
            return alike(one.call, two[1].call, names)

        planned = linearize(everything[rank], seen, same)
        ahead = planned[: len(seen)]
        if len(ahead) < len(seen) or not all(map(same, ahead, seen)):
            continue
        ranks[rank] = _filled(record, seen, ahead, back)
        following[rank] = planned[len(seen) :]
        done = [p.action for p, (_, one) in zip(ahead, seen, strict=True) if not one.is_pending]
        low[rank] = max(done, default=-1)
    filled = replace(recording, ranks=ranks)
    return Beside(replace(filled, gaps=_gaps(filled, following)), plan, following, low)


def _filled(
    record: RankRecord,
    seen: list[tuple[int, Observed]],
    planned: list[PlannedCall],
    back: dict[str, str],
) -> RankRecord:
    """Return a record whose calls of unknown kind or peer are those of the plan."""
    changed = {}
    for (place, one), plan in zip(seen, planned, strict=True):
        open_peer = one.call.is_point_to_point and one.call.peer is None
        if one.call.op == UNRECORDED or open_peer:
            changed[place] = _told(plan.call, one.call, back)
    if not changed:
        return record
    actions = [
        replace_call(one, changed[place]) if place in changed else one
        for place, one in enumerate(record.actions)
    ]
    return replace(record, actions=Track.of(actions))


def replace_call(one: Observed, call: Call) -> Observed:
    """Return an observed action with another call."""
    return msgspec.structs.replace(one, call=call)


def _told(planned: Call, recorded: Call, back: dict[str, str]) -> Call:
    group = back.get(planned.group or "world", planned.group)
    stack = recorded.stack or planned.stack
    return msgspec.structs.replace(planned, group=group, stack=stack)


def _gaps(recording: Recording, following: dict[int, list[PlannedCall]]) -> tuple[Gap, ...]:
    """Return the gaps that are left: calls that the plan tells are none."""
    told = recording.hidden == 0 and set(following) == set(recording.ranks)
    silent = any(
        call.call.is_point_to_point for calls in following.values() for call in _until_shown(calls)
    )
    if not told or silent:
        return recording.gaps
    return tuple(gap for gap in recording.gaps if gap.kind != "unrecorded-calls")


def _until_shown(calls: list[PlannedCall]) -> list[PlannedCall]:
    """Return the planned calls up to the next one that the recorder would have written down."""
    kept = []
    for call in calls:
        if not call.call.is_point_to_point:
            break
        kept.append(call)
    return kept


# --- findings ------------------------------------------------------------------------------------


def differences(recording: Recording, plan: Plan) -> list[Finding]:
    """Return one finding for every way in which ranks left the plan."""
    result = compare(recording, plan)
    alike_ranks: dict[tuple[str, str, str], list[tuple[int, Difference]]] = {}
    for one in result.ranks:
        if one.first is not None:
            status = one.groups[one.first.group].value
            key = (status, _call_text(one.first.planned), _seen_text(one.first.recorded))
            alike_ranks.setdefault(key, []).append((one.rank, one.first))
    found = []
    for (status, planned, recorded), ranks in list(alike_ranks.items())[:MAX_TOLD]:
        rank, first = ranks[0]
        at = _recorded_place(recording, rank, first)
        related = () if first.planned is None else (plan.location(rank, first.planned.action),)
        who = name_ranks(rank for rank, _ in ranks)
        verb = "departs" if len(ranks) == 1 else "depart"
        found.append(
            make_finding(
                "PG503",
                f"{who} {verb} from the plan on group {shown(first.group)} ({status}): "
                f"planned {planned}, recorded {recorded}",
                ranks=tuple(rank for rank, _ in ranks),
                primary=at,
                notes=_sites(at, related, plan.file),
                evidence="T",
                help="",
                fingerprint=fingerprint("PG503", [rank], [status]),
            )
        )
    return found


def _call_text(planned: PlannedCall | None) -> str:
    return "nothing" if planned is None else clean(" ".join(planned.call.text().split()))


def _seen_text(recorded: Observed | None) -> str:
    return "nothing" if recorded is None else clean(" ".join(recorded.call.text().split()))


def _recorded_place(recording: Recording, rank: int, first: Difference) -> Location | None:
    count = len(recording.ranks[rank].track)
    if not count:
        return None
    return recording.location(rank, min(first.action, count - 1))


def _sites(at: Location | None, planned: tuple[Location, ...], file: str | None) -> tuple[str, ...]:
    """Return what was planned where, and where it was recorded."""
    # Which plan was meant is not plain where it was found among the evidence.
    notes = [f"plan: {clean(file)}"] if file is not None and not planned else []
    for place in planned:
        source = place.source
        where = "" if source is None else f" at {clean(source.file)}:{source.line}"
        notes.append(f"plan: rank {place.rank}, action {place.action}{where}: {place.text}")
    if at is not None and at.source is not None:
        notes.append(f"calls: recorded at {clean(at.source.file)}:{at.source.line}")
    return tuple(notes)


def hangs_here(beside: Beside, verdict: Verdict) -> list[Finding]:
    """Return the hangs of a plan in which every rank that waits was seen standing just there."""
    if not verdict.unsafe:
        return []
    return [
        finding
        for finding in verdict.findings
        if finding.severity == "error"
        and finding.witness is not None
        and finding.witness.blocked
        and all(_stands(beside, rank, action) for rank, action in finding.witness.blocked)
    ]


def _stands(beside: Beside, rank: int, action: int) -> bool:
    """Tell whether a rank may stand in a planned action, from what it was seen to have done."""
    if rank not in beside.next:
        return False
    shown_next = [call for call in beside.next[rank] if not call.call.is_point_to_point]
    high = shown_next[0].action if shown_next else beside.plan.length(rank)
    return beside.low[rank] < action <= high
