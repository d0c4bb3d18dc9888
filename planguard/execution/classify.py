"""Root causes of a stuck state -> findings: the code, the ranks, the reasons."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from planguard.catalog import lookup
from planguard.execution.locate import describe, group_name, locate
from planguard.execution.members import members_of
from planguard.execution.stuck import place_of
from planguard.verdict import CycleEdge, Finding
from planguard.words import name_ranks

if TYPE_CHECKING:
    from planguard.execution.executor import Execution
    from planguard.execution.stuck import Cycle, Orphan, Place
    from planguard.verdict import Location

POINT_TO_POINT = {"send", "recv", "isend", "irecv", "probe", "batch"}


@dataclass(frozen=True)
class Cause:
    """One root cause: its finding, and what witness and folding need.

    Attributes:
        finding: The finding without witness.
        blocked: Places at which ranks stand.
        owed: Places that would free them.
        shape: What makes two causes the same bug on other ranks.
        matches: Rounds and pairs the cause waits for.
    """

    finding: Finding
    blocked: tuple[Place, ...]
    owed: tuple[Place, ...]
    shape: tuple[object, ...]
    matches: tuple[int, ...]


def make_finding(code: str, message: str, **fields: object) -> Finding:
    """Return a finding with the name, severity and evidence of its catalog entry."""
    entry = lookup(code)
    defaults: dict[str, object] = {
        "severity": entry.severity,
        "certainty": "all-executions",
        "evidence": "P",
    }
    return Finding(code=code, name=entry.name, message=message, **{**defaults, **fields})  # type: ignore[arg-type]


def explain_cycle(execution: Execution, cycle: Cycle) -> Cause:
    """Return the finding of a wait-for cycle."""
    edges = tuple(
        CycleEdge(locate(execution, s.at), locate(execution, s.owed), locate(execution, s.behind), s.why)
        for s in cycle.steps
    )
    code = _cycle_code(execution, cycle, edges)
    message, notes = _cycle_message(execution, code, cycle, edges)
    primary = min((edge.at for edge in edges), key=lambda at: at.rank)
    related = ("PG002",) if code == "PG004" else ("PG001",) if code == "PG012" else ()
    finding = make_finding(
        code,
        message,
        ranks=tuple(sorted({edge.at.rank for edge in edges})),
        primary=primary,
        related_actions=tuple(edge.at for edge in edges if edge.at != primary),
        cycle=edges,
        subkind="init-cycle" if code == "PG109" else "cycle",
        related=related,
        notes=notes,
    )
    return Cause(
        finding,
        tuple(step.at for step in cycle.steps),
        tuple(step.owed for step in cycle.steps),
        (code, *_rotate(tuple(_shape(execution, step.at) for step in cycle.steps))),
        tuple(step.match.number for step in cycle.steps),
    )


def _shape(execution: Execution, place: Place) -> tuple[int, int]:
    return execution.plan.code.rank_program[place.rank], place.entry


def _rotate(items: tuple[tuple[int, int], ...]) -> tuple[tuple[int, int], ...]:
    start = items.index(min(items))
    return items[start:] + items[:start]


def _cycle_code(execution: Execution, cycle: Cycle, edges: tuple[CycleEdge, ...]) -> str:
    whys = {edge.why for edge in edges}
    types = {step.match.type for step in cycle.steps}
    if types & {"init", "pair-init", "new_group"}:
        return "PG109"
    if "dependency" in whys:
        return "PG013"
    if whys & {"event", "stream-edge"} and execution.columns.has_stream:
        return "PG005"
    pairs, rounds = types & {"pair", "probe"}, types & {"round", "edge"}
    if pairs and rounds:
        return "PG003"
    if rounds:
        comms = {step.match.ginst for step in cycle.steps}
        return "PG004" if len(comms) > 1 else "PG002"
    ops = {edge.at.op for edge in edges}
    if ops == {"wait"}:
        return "PG008"
    if ops == {"batch"}:
        return "PG011"
    return "PG012" if _is_pipeline(execution, cycle) else "PG001"


def _is_pipeline(execution: Execution, cycle: Cycle) -> bool:
    views = [execution.plan.action_at(s.at.rank, s.at.action) for s in cycle.steps]
    return all("stage" in view.fields and "mb" in view.fields for view in views)


_KINDS = {
    "PG001": "point-to-point deadlock",
    "PG002": "collective deadlock",
    "PG003": "hybrid deadlock",
    "PG004": "cross-communicator deadlock",
    "PG005": "stream-order deadlock",
    "PG008": "wait cycle",
    "PG011": "batch deadlock",
    "PG012": "pipeline schedule deadlock",
    "PG013": "dependency deadlock",
    "PG109": "communicator creation deadlock",
}


def _cycle_message(
    execution: Execution, code: str, cycle: Cycle, edges: tuple[CycleEdge, ...]
) -> tuple[str, tuple[str, ...]]:
    ranks = sorted({edge.at.rank for edge in edges})
    kind = _KINDS[code]
    ops = {edge.at.op for edge in edges}
    if code in {"PG001", "PG012"} and len(ops) == 1 and len(ranks) > 1:
        (op,) = ops
        return f"{kind}: {name_ranks(ranks)} wait in {op}() for each other", ()
    parts = [
        f"rank {step.at.rank} waits in {edge.at.op} ({describe(execution, step.match)})"
        for step, edge in zip(cycle.steps, edges, strict=True)
    ]
    if len(parts) > 3:  # noqa: PLR2004
        return f"{kind}: {name_ranks(ranks)} wait for each other in a ring", ()
    if len(ranks) == 1:
        return f"{kind}: rank {ranks[0]} waits for an action of its own behind {edges[0].at.op}", ()
    order = ", ".join(parts)
    return f"{kind}: {order}; each is behind the other", ()


# --- orphans -------------------------------------------------------------------------------------


def explain_orphan(execution: Execution, orphan: Orphan) -> Cause:
    """Return the finding of a match that lacks a participant: never a cycle."""
    waiting = sorted(orphan.waiting, key=lambda place: place.rank)
    at = tuple(locate(execution, place) for place in waiting[:8])
    missing = _missing(execution, orphan)
    exited = tuple(rank for rank in missing if _exits(execution, rank))
    code = _orphan_code(execution, orphan, at[0], exited)
    finding = make_finding(
        code,
        _orphan_message(execution, orphan, at[0], missing, exited, code),
        ranks=tuple(sorted({place.rank for place in waiting})),
        primary=at[0],
        related_actions=at[1:],
        cycle=tuple(CycleEdge(here, None, None, _orphan_why(orphan, exited)) for here in at),
        subkind="orphan",
        related=("PG211",) if code in {"PG006", "PG007", "PG009"} else (),
        notes=(f"missing participant: {name_ranks(missing)}",) if missing else (),
    )
    shape = (code, *sorted({_shape(execution, place) for place in waiting}))
    return Cause(finding, tuple(waiting), (), shape, (orphan.match.number,))


def _orphan_why(orphan: Orphan, exited: tuple[int, ...]) -> str:
    return "exited" if exited else orphan.why


def _missing(execution: Execution, orphan: Orphan) -> tuple[int, ...]:
    """Ranks that never arrive: they never issue their side, ended before it, or withdrew it."""
    if orphan.match.type in {"token", "dead"}:
        return ()
    waiting = {place.rank for place in orphan.waiting}
    never = [m.rank for m in members_of(execution, orphan.match) if m.entry is None]
    others = [rank for rank in orphan.match.ranks if rank not in waiting]
    gone = [rank for rank in others if _exits(execution, rank)]
    found = sorted({*(rank for rank in never if rank not in waiting), *gone})
    return tuple(found or (others if orphan.match.type in {"pair", "edge"} else ()))


def _exits(execution: Execution, rank: int) -> bool:
    from planguard.plan.actions import Kind

    columns = execution.columns
    part = bytes(columns.op[columns.rank_off[rank] : columns.rank_off[rank + 1]])
    return int(Kind.EXIT) in part


def _orphan_code(
    execution: Execution, orphan: Orphan, at: Location, exited: tuple[int, ...]
) -> str:
    kind = orphan.match.type
    if kind == "dead":
        return "PG308"
    if exited:
        return "PG006"
    if kind in {"init", "pair-init", "new_group"}:
        return "PG406" if kind == "new_group" else "PG109"
    if kind in {"round", "edge"}:
        op = _round_op(execution, orphan)
        return "PG009" if op == "barrier" else "PG007"
    if at.op == "batch":
        return "PG011"
    src, _ = orphan.match.ranks
    sending = orphan.waiting[0].rank == src
    if _other_tag(execution, orphan):
        return "PG207"
    if at.op == "wait":
        return "PG210"
    return "PG208" if sending else "PG209"


def _round_op(execution: Execution, orphan: Orphan) -> str:
    for member in members_of(execution, orphan.match):
        if member.entry is not None:
            place = place_of(execution, member.rank, member.entry)
            return execution.plan.action_at(place.rank, place.action).op
    return "collective"


def _other_tag(execution: Execution, orphan: Orphan) -> bool:
    """Whether the other side has a surplus on the same pair under another tag."""
    columns = execution.columns
    if not execution.model.use_tags:
        return False
    src, dst = orphan.match.ranks
    surplus = {1: False, -1: False}
    for channel in range(len(columns.chan_src)):
        same = (columns.chan_src[channel], columns.chan_dst[channel]) == (src, dst)
        if same and columns.chan_ginst[channel] == orphan.match.ginst:
            balance = columns.send_count[channel] - columns.recv_count[channel]
            if balance:
                surplus[1 if balance > 0 else -1] = True
    return surplus[1] and surplus[-1]


def _orphan_message(  # noqa: PLR0913  one sentence needs all of it
    execution: Execution,
    orphan: Orphan,
    at: Location,
    missing: tuple[int, ...],
    exited: tuple[int, ...],
    code: str,
) -> str:
    who = name_ranks(place.rank for place in orphan.waiting)
    waits = "waits" if len({place.rank for place in orphan.waiting}) == 1 else "wait"
    if code == "PG308":
        return f"{who} {waits} behind a work handle that was dropped before its match"
    if orphan.match.type in {"round", "edge"}:
        op = _round_op(execution, orphan)
        where = f"{op} {describe(execution, orphan.match)}"
        if exited:
            return f"{name_ranks(exited)} leaves before {where}; {who} {waits} there"
        return f"{name_ranks(missing)} never reaches {where}; {who} {waits} there"
    if orphan.match.type == "pair":
        src, dst = orphan.match.ranks
        sending = orphan.waiting[0].rank == src
        other, action = (dst, "receives from") if sending else (src, "sends to")
        if exited:
            return f"rank {other} leaves while {who} {waits} in {at.op}"
        if code == "PG207":
            return f"{who} {waits} in {at.op}: rank {other} uses another tag for this message"
        return (
            f"{who} {waits} in {at.op}: rank {other} never {action} rank {orphan.waiting[0].rank} "
            f"for {describe(execution, orphan.match)} on {group_name(execution, orphan.match.ginst)}"
        )
    absent = name_ranks(missing) if missing else "a member"
    return f"{who} {waits} for the {describe(execution, orphan.match)}; {absent} never takes part"
