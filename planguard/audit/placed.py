"""The verdict of an audit, whose places are recorded calls, as places of the drawn plan."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from planguard.audit.timeline import Places
    from planguard.verdict import CycleEdge, Finding, Location, Verdict, Witness


def placed(verdict: Verdict, places: Places) -> Verdict:
    """Return a verdict with its places moved; what has no place in the drawing keeps its own."""
    return replace(verdict, findings=tuple(_finding(one, places) for one in verdict.findings))


def _finding(one: Finding, places: Places) -> Finding:
    return replace(
        one,
        primary=_location(one.primary, places),
        related_actions=tuple(
            moved for at in one.related_actions if (moved := _location(at, places)) is not None
        ),
        cycle=tuple(_edge(edge, places) for edge in one.cycle),
        witness=_witness(one.witness, places),
    )


def _location(at: Location | None, places: Places) -> Location | None:
    if at is None:
        return None
    action, member = places.get((at.rank, at.action), (at.action, at.member))
    return replace(at, action=action, member=member)


def _edge(edge: CycleEdge, places: Places) -> CycleEdge:
    at = _location(edge.at, places) or edge.at
    waits_for, behind = _location(edge.waits_for, places), _location(edge.behind, places)
    return replace(edge, at=at, waits_for=waits_for, behind=behind)


def _witness(one: Witness | None, places: Places) -> Witness | None:
    if one is None:
        return None

    def move(rank: int, action: int) -> tuple[int, int]:
        return rank, places.get((rank, action), (action, None))[0]

    return replace(
        one,
        steps=tuple(replace(s, action=move(s.rank, s.action)[1]) for s in one.steps),
        blocked=tuple(move(*pair) for pair in one.blocked),
        actions=tuple(dict.fromkeys(move(*pair) for pair in one.actions)),
    )
