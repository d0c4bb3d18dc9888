"""Findings that stand beside the outcome: handles, leftovers, mixed calls, group creation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planguard.execution.findings.classify import make_finding
from planguard.execution.findings.locate import describe
from planguard.execution.findings.members import describe_match, members_of
from planguard.execution.findings.stuck import place_of
from planguard.execution.issued import counts as counts_of
from planguard.execution.issued import issued
from planguard.plan.actions import KIND_MASK, SEND_KINDS, Kind
from planguard.semantics.hazards import find_hazards
from planguard.semantics.model import Family, find_model
from planguard.words import name_ranks, plural

if TYPE_CHECKING:
    from collections.abc import Iterable

    from planguard.execution.running.executor import Execution
    from planguard.plan.plan import Plan
    from planguard.verdict import Finding

LIMIT = 20


def hazard_findings(plan: Plan, model: str) -> list[Finding]:
    """Return the PG3xx findings of all programs, one per program and place."""
    found = []
    code, device = plan.code, find_model(model).family is Family.DEVICE
    ranks_of: dict[int, list[int]] = {}
    open_ended = _open_ended(plan)
    used = set(code.rank_program)  # a template that no rank runs is no finding
    hazards = [hazard for hazard in find_hazards(code, device=device) if hazard.program in used]
    for index in {hazard.program for hazard in hazards}:
        ranks_of[index] = [r for r, program in enumerate(code.rank_program) if program == index]
    for hazard in hazards[: 10 * LIMIT]:
        ranks = ranks_of[hazard.program]
        if hazard.code == "PG301":  # the wait may come behind what was recorded
            ranks = [rank for rank in ranks if rank not in open_ended]
        if not ranks:
            continue
        severity = hazard.severity
        if hazard.code == "PG308" and find_model(model).drops_kill:
            severity = "error"
        primary = plan.location(ranks[0], hazard.action)
        others = () if hazard.other is None else (plan.location(ranks[0], hazard.other),)
        found.append(
            make_finding(
                hazard.code,
                f"{hazard.message} ({name_ranks(ranks)})",
                severity=severity,
                ranks=tuple(ranks[:64]),
                primary=primary,
                related_actions=others,
            )
        )
    return found


def _open_ended(plan: Plan) -> set[int]:
    """Return the ranks that may do more than the plan says: its ledger leaves their end out."""
    return {
        rank
        for entry in plan.approximations
        if entry.direction == "under" and entry.scope == "onward"
        for rank, _ in entry.actions
    }


def leftover_findings(execution: Execution) -> list[Finding]:
    """Return PG210 for asynchronous actions of a completed run that never meet a partner."""
    columns = execution.columns
    found: list[Finding] = []
    for channel, (sent, received) in _traffic(execution).items():
        if sent == received or len(found) >= LIMIT:
            continue
        src, dst = columns.chan_src[channel], columns.chan_dst[channel]
        side, rank = ("send", src) if sent > received else ("recv", dst)
        calls = plural(abs(sent - received), side if side == "send" else "receive")
        whom = f"to rank {dst}" if side == "send" else f"from rank {src}"
        other = "recv" if side == "send" else "send"
        found.append(
            make_finding(
                "PG210",
                f"rank {rank} starts {calls} {whom} that no {other} matches; nobody waits for them",
                severity="warning",
                ranks=(rank,),
                primary=_last_call(execution, channel, rank, send=side == "send"),
            )
        )
    return found


def _traffic(execution: Execution) -> dict[int, tuple[int, int]]:
    """Return sends and receives by channel, summed over tags where the model ignores them."""
    columns = execution.columns
    sends, receives, _ = counts_of(columns)
    counts = list(zip(sends, receives, strict=True))
    if execution.model.use_tags:
        return dict(enumerate(counts))
    found: dict[int, tuple[int, int]] = {}
    for channels in execution.channels_between.values():
        sent = sum(counts[channel][0] for channel in channels)
        received = sum(counts[channel][1] for channel in channels)
        surplus = [c for c in channels if (counts[c][0] > counts[c][1]) == (sent > received)]
        found[(surplus or channels)[0]] = sent, received
    return found


def _last_call(execution: Execution, channel: int, rank: int, *, send: bool) -> Any:
    columns = execution.columns
    start = columns.rank_off[rank]
    kinds = SEND_KINDS if send else {Kind.RECV}
    for at in reversed(issued(columns, rank)):
        if columns.op[at] & KIND_MASK in kinds and columns.arg[at] == channel:
            place = place_of(execution, rank, at - start)
            return execution.plan.location(place.rank, place.action)
    return None


def mixed_findings(execution: Execution) -> list[Finding]:
    """Return PG214 for the first round of a communicator some members issue synchronously only."""
    seen: set[int] = set()
    found = []
    columns = execution.columns
    for number in sorted(execution.lanes.mixed_async):
        match = describe_match(execution, number)
        if match.ginst in seen or match.ginst is None:
            continue
        seen.add(match.ginst)
        members = [m for m in members_of(execution, match) if m.entry is not None]
        asynchronous = [
            m for m in members if columns.op[columns.rank_off[m.rank] + (m.entry or 0)] & 128
        ]
        places = [place_of(execution, m.rank, m.entry or 0) for m in asynchronous]
        if not places:
            continue
        found.append(
            make_finding(
                "PG214",
                f"{_issue(m.rank for m in asynchronous)} {describe(execution, match)} "
                "asynchronously, the other members synchronously",
                ranks=tuple(m.rank for m in asynchronous),
                primary=execution.plan.location(places[0].rank, places[0].action),
            )
        )
    return found


def _issue(ranks: Iterable[int]) -> str:
    """Return subject and verb of a sentence: ``rank 1 issues``, ``ranks 1 and 2 issue``."""
    named = name_ranks(ranks)
    return f"{named} issue" if named.startswith("ranks") else f"{named} issues"


def small_group_findings(plan: Plan, columns: Any) -> list[Finding]:
    """Return a PG412 note for every group of one rank that is used."""
    found = []
    _, _, calls = counts_of(columns)
    for ginst, group in enumerate(columns.ginst_group):
        start, end = columns.ginst_off[ginst], columns.ginst_off[ginst + 1]
        if end - start == 1 and calls[start] and plan.world_size > 1:
            rank = columns.slot_rank[start]
            name = plan.group_name(plan.groups[group].name, rank)
            found.append(
                make_finding("PG412", f"group {name} holds only rank {rank}", ranks=(rank,))
            )
        if len(found) >= LIMIT:
            break
    return found


def creation_findings(plan: Plan, columns: Any) -> list[Finding]:
    """Return PG406 when members of a group create it as a different one of their groups."""
    if not columns.has_new_group:
        return []
    counters: dict[int, dict[int, list[tuple[int, int]]]] = {}
    for rank in range(columns.world_size):
        counter = action = 0
        for at in issued(columns, rank):
            if columns.op[at] & KIND_MASK == Kind.NEW_GROUP:
                group = columns.arg[at]
                members = plan.groups[group].members(rank, plan.mesh)
                if rank in members:
                    counters.setdefault(group, {}).setdefault(counter, []).append((rank, action))
                counter += 1
            action += not columns.op[at] & 64
    found = []
    for group, by_counter in sorted(counters.items()):
        if len(by_counter) < 2:
            continue
        odd = min(by_counter.values(), key=len)
        rank, action = odd[0]
        ranks = sorted(rank for places in by_counter.values() for rank, _ in places)
        found.append(
            make_finding(
                "PG406",
                f"{name_ranks(ranks)} create group {plan.groups[group].name} at different places "
                "of their creation order, so they hold different communicators",
                ranks=tuple(ranks),
                primary=plan.location(rank, action),
                related_actions=tuple(
                    plan.location(*places[0]) for places in by_counter.values() if places is not odd
                ),
            )
        )
    return found
