"""Root causes of a stuck state -> findings: the code, the ranks, the reasons."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planguard.catalog import REFINES
from planguard.execution.findings.cause import Cause, make_finding, shape_of
from planguard.execution.findings.edges import links_of
from planguard.execution.findings.orphans import explain_orphan
from planguard.execution.findings.sentences import headline, is_serialized, notes, slot_fields
from planguard.plan.vocabulary import CREATIONS
from planguard.semantics.model import Family

if TYPE_CHECKING:
    from planguard.execution.findings.edges import Link
    from planguard.execution.findings.stuck import Cycle
    from planguard.execution.running.executor import Execution

__all__ = ["Cause", "explain_cycle", "explain_orphan", "make_finding"]

CREATION = CREATIONS | {"pair-init"}


def explain_cycle(execution: Execution, cycle: Cycle) -> Cause:
    """Return the finding of a wait-for cycle."""
    links = links_of(execution, cycle)
    code = _code(execution, links)
    primary = min((link.at for link in links), key=lambda at: at.rank)
    finding = make_finding(
        code,
        headline(execution, code, links),
        ranks=tuple(sorted({link.at.rank for link in links})),
        primary=primary,
        related_actions=tuple(link.at for link in links if link.at != primary),
        cycle=tuple(link.edge for link in links),
        subkind="init-cycle" if code == "PG109" else "cycle",
        related=_related(code, links),
        notes=notes(execution, code, links),
    )
    return Cause(
        finding,
        tuple(link.step.at for link in links),
        tuple(link.step.owed for link in links),
        (code, *_rotate(tuple(shape_of(execution, link.step.at) for link in links))),
        tuple(link.step.match.number for link in links),
    )


def _rotate(items: tuple[tuple[int, int], ...]) -> tuple[tuple[int, int], ...]:
    start = items.index(min(items))
    return items[start:] + items[:start]


def _code(execution: Execution, links: tuple[Link, ...]) -> str:
    whys = {link.edge.why for link in links}
    types = {link.step.match.type for link in links}
    if types & CREATION:
        return "PG109"
    if "dependency" in whys:
        return "PG013"
    if _crosses_streams(execution, links, whys):
        return "PG005"
    if all(set(link.step.match.ranks) == {link.at.rank} for link in links) and types == {"pair"}:
        return "PG010"
    pairs, rounds = "pair" in types, bool(types & {"round", "edge"})
    if rounds and not pairs:
        # An inversion of two groups has a name of its own; a ring over more of them has not.
        comms = {link.step.match.ginst for link in links}
        return "PG004" if len(comms) == 2 else "PG002"
    if _is_pipeline(links):
        return "PG012"
    if rounds:
        return "PG003"
    ops = {link.at.op for link in links}
    return {frozenset({"wait"}): "PG008", frozenset({"batch"}): "PG011"}.get(
        frozenset(ops), "PG001"
    )


def _crosses_streams(execution: Execution, links: tuple[Link, ...], whys: set[str]) -> bool:
    """Tell whether an edge leads from one stream of a device to another."""
    columns = execution.columns
    if execution.model.family is not Family.DEVICE or not columns.has_stream:
        return False
    return bool(whys & {"event", "stream-edge"}) or any(
        _stream(execution, link, link.at.action) != _stream(execution, link, link.own.index)
        for link in links
        if link.edge.why == "wait-handle" and link.own is not None
    )


def _stream(execution: Execution, link: Link, action: int) -> str:
    stream = execution.plan.action_at(link.at.rank, action).fields.get("stream", "main")
    return str(stream)


def _is_pipeline(links: tuple[Link, ...]) -> bool:
    """Tell whether every stuck action belongs to a slot of a pipeline schedule.

    Waits and batches have codes that say more about the repair (PG008, PG011).
    """
    if {link.at.op for link in links} & {"wait", "batch"}:
        return False
    return all({"stage", "mb"} <= slot_fields(link).keys() for link in links)


def _related(code: str, links: tuple[Link, ...]) -> tuple[str, ...]:
    """Return the codes a refinement replaces, and PG108 where only the queue makes the cycle."""
    related = set()
    if code == "PG012":
        related.add("PG001" if {link.step.match.type for link in links} == {"pair"} else "PG003")
    elif code in REFINES:
        related |= set(REFINES[code])
    point_to_point = code in {"PG001", "PG012"}
    if point_to_point and any(is_serialized(link) for link in links):
        related.add("PG108")
    return tuple(sorted(related))
