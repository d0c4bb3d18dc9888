"""Places in columns -> places in the plan that a person can read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planguard.plan.vocabulary import CREATIONS

if TYPE_CHECKING:
    from planguard.execution.findings.members import Match
    from planguard.execution.findings.stuck import Place
    from planguard.execution.running.executor import Execution
    from planguard.verdict import Location


def locate(execution: Execution, place: Place) -> Location:
    """Return the action at ``place`` with its text, id, source and JSON path."""
    return execution.plan.location(place.rank, place.action)


def group_name(execution: Execution, ginst: int | None) -> str:
    """Return the name of a group instance: the group's own, numbered within a mesh family."""
    if ginst is None:
        return "its own rank"
    columns = execution.columns
    group = columns.ginst_group[ginst]
    name = execution.plan.groups[group].name
    first = list(columns.ginst_group).index(group)
    family = sum(1 for other in columns.ginst_group if other == group) > 1
    return f"{name}{ginst - first}" if family else name


def describe(execution: Execution, match: Match) -> str:
    """Name a match for a sentence: ``round 3 of tp0``, ``message 2 from rank 0 to rank 1``."""
    if match.type in {"round", "edge"}:
        return f"round {match.position} of {group_name(execution, match.ginst)}"
    if match.type == "pair":
        src, dst = match.ranks
        return f"message {match.position} from rank {src} to rank {dst}"
    if match.type == "pair-init":
        return f"creation of the communicator of ranks {match.ranks[0]} and {match.ranks[1]}"
    if match.type in CREATIONS:
        return f"creation of the communicator of {group_name(execution, match.ginst)}"
    return "an earlier action of the same rank"
