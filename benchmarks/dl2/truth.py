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
    """Return a plan whose every message has 64 times the elements.

    gloo cuts a collective into one part per rank. Where a call has fewer elements than ranks, some
    parts are empty and nothing is sent for them, so that calls which disagree can get by.
    """
    larger = copy.deepcopy(document)
    for body in larger["ranks"].values():
        for action in body["actions"]:
            for size in ("count", "bytes"):
                if size in action:
                    action[size] *= 64
            for splits in ("in_splits", "out_splits"):
                if splits in action:
                    action[splits] = [64 * one for one in action[splits]]
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
