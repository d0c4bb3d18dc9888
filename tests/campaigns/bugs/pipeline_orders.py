"""Three orders that torch's pipelining makes wrongly, as they are and with a proposed patch.

    python tests/campaigns/bugs/pipeline_orders.py            # all three
    python tests/campaigns/bugs/pipeline_orders.py deferred   # or: first-forward, rows

No GPU, no processes: orders are made by torch and decided by PlanGuard. Bugs 1, 2 and 8 of
docs/bugs-found.md; the patches stand in docs/upstream/.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from patches import patched
from planguard.planners.pipelining import adapter
from torch.distributed.pipelining import _schedule_visualizer, schedules

import planguard
from planguard.plan.building.builder import PlanBuilder

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "samples" / "pipelining"))
import regenerate

if TYPE_CHECKING:
    from collections.abc import Callable

SIZES = [(2, 4), (4, 8)]
MODELS = ("gloo", "nccl", "nccl-lazy")
DEFERRED = ["interleaved1f1b", "interleavedzb", "zbv", "dualpipev", "loopedbfs"]
SENT = """\
            if action.computation_type in (SEND_F, SEND_B):
"""
FLUSHED = (
    SENT
    + """\
                new_actions.extend(deferred.values())
                deferred.clear()
"""
)
CONSUMED = """\
                    key = (sub.stage_index, RECV_{letter}, sub.microbatch_index)
                    if key in deferred:
                        new_actions.append(deferred.pop(key))
"""
EARLIER = """\
                    key = (sub.stage_index, RECV_{letter}, sub.microbatch_index)
                    while key in deferred:
                        new_actions.append(deferred.pop(next(iter(deferred))))
"""
IN_ORDER = (
    (SENT, FLUSHED),
    *((CONSUMED.format(letter=one), EARLIER.format(letter=one)) for one in "FB"),
)
"""Defer receives past computations only, and keep their order: communication is as it was."""
FIRST_FORWARD = (("        forward_mb = 0\n", "        forward_mb = -1\n"),)
ALL_ROWS = (
    ("    while rank_ops:\n", "    while any(rank_ops):\n"),
    ("        rank_ops = [op_queue for op_queue in rank_ops if op_queue]\n", ""),
)


def deferred() -> None:
    """Bug 1: outcomes of deferred orders under three readings of point-to-point."""
    for short in DEFERRED:
        for ranks, microbatches in SIZES:
            schedule = regenerate.make_schedule(short, ranks, microbatches, defer=True)
            plan = adapter.adapt(schedule, PlanBuilder)
            said = [planguard.check(plan, model=model).outcome.value for model in MODELS]
            print(f"  {short} {ranks}x{microbatches}: {', '.join(said)}")


def first_forward() -> None:
    """Bug 2: torch's own check of the order of 1F1B."""
    for ranks, microbatches in SIZES:
        schedule = regenerate.make_schedule("Schedule1F1B", ranks, microbatches)
        order = schedule._get_pipeline_order()
        last = re.findall(r"\b\d+F(\d+)\b", " ".join(map(str, order[ranks - 1])))
        try:
            schedules._validate_schedule(order, ranks, ranks, microbatches)
            verdict = "valid"
        except AssertionError as error:
            verdict = f"AssertionError: {error}"
        print(
            f"  {ranks}x{microbatches}: forwards of the last stage {' '.join(last)}; {verdict[:90]}"
        )


def rows() -> None:
    """Bug 8: actions that the visualizer puts into the row of another rank."""
    for ranks, microbatches in SIZES:
        order = regenerate.compute_only(regenerate.make_schedule("zbv", ranks, microbatches))
        given = [list(order[rank]) for rank in range(ranks)]
        with contextlib.redirect_stdout(io.StringIO()):  # it prints every step
            spaced = _schedule_visualizer.add_schedule_op_spacing(given)
        wrong = sum(_names(spaced[rank]) != _names(given[rank]) for rank in range(ranks))
        print(f"  {ranks}x{microbatches}: {wrong} of {ranks} rows hold other actions than the rank")


def _names(actions: list[Any]) -> list[str]:
    return [str(action) for action in actions if action is not None]


CASES: dict[str, tuple[Callable[[], None], Any, Any]] = {
    "deferred": (deferred, schedules._defer_recv_ops, IN_ORDER),
    "first-forward": (first_forward, schedules.Schedule1F1B._get_pipeline_order, FIRST_FORWARD),
    "rows": (rows, _schedule_visualizer.add_schedule_op_spacing, ALL_ROWS),
}


def main() -> None:
    """Show every case as it is, then patched."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("cases", nargs="*", choices=[[], *CASES], default=[])
    given = parser.parse_args()
    for name in given.cases or CASES:
        show, function, edits = CASES[name]
        print(f"torch {torch.__version__}, {name}")
        show()
        print(f"torch {torch.__version__}, {name}, patched")
        with patched(function, *edits):
            show()


if __name__ == "__main__":
    main()
