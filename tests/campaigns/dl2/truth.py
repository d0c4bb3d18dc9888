"""What really happens: the communication of a plan on gloo processes, with a timeout."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from planguard.replay import playable_of, write_script
from planguard.replay.pool import Job, Pool
from planguard.replay.report import rank_states

if TYPE_CHECKING:
    from collections.abc import Sequence

PATIENCE = 2.0
"""Seconds without progress of any rank that count as a hang."""

ENOUGH = 8192
"""Elements of the smallest message of an enlarged plan."""


@dataclass(frozen=True)
class Truth:
    """How a run ended.

    Attributes:
        end: ``finished``, ``hung``, ``mismatch`` (wrong data, a failed call or a process that gloo
            aborted) or ``late`` (still moving at the limit: no truth).
        stuck: Ranks that were stuck.
        failed: Ranks whose call failed or whose process died.
        wrong: Ranks that received data the program does not mean.
    """

    end: str
    stuck: tuple[int, ...] = ()
    failed: tuple[int, ...] = ()
    wrong: tuple[int, ...] = ()


def run_all(
    documents: Sequence[dict[str, Any]],
    pool: Pool,
    *,
    delay_seed: int | None = None,
    patience: float = PATIENCE,
) -> list[Truth]:
    """Run plans of fixed order, several at a time; their sizes are scaled down together."""
    ways = [playable_of(document) for document in documents]
    scripts = [write_script(way.flat, None, places=way.places) for way in ways]
    jobs = [Job(script.text, patience, delay_seed) for script in scripts]
    return [_truth(observed) for observed in pool.run(jobs)]


def enlarged(document: dict[str, Any]) -> dict[str, Any]:
    """Return a plan with messages of many elements; equal ones stay equal, the order stays.

    gloo cuts a reduction into segments, one or more per rank, of at least some hundred bytes.
    Where a call has less, most ranks send nothing, and calls whose roots disagree get by.
    """
    larger = copy.deepcopy(document)
    actions = [a for body in larger["ranks"].values() for a in body["actions"] if "count" in a]
    if any("in_splits" in action or "out_splits" in action for action in actions):
        return larger
    places = {count: at for at, count in enumerate(sorted({a["count"] for a in actions}), 1)}
    for action in actions:
        action["count"] = ENOUGH * places[action["count"]]
    return larger


def _truth(observed: dict[str, Any]) -> Truth:
    states = rank_states(observed)
    stuck = tuple(s.rank for s in states if s.state == "stuck")
    failed = tuple(s.rank for s in states if s.state in ("error", "signal"))
    wrong = tuple(s.rank for s in states if s.mismatches)
    if any(s.state == "late" for s in states):
        return Truth("late", stuck, failed, wrong)
    end = "mismatch" if failed or wrong else "hung" if stuck else "finished"
    return Truth(end, stuck, failed, wrong)
