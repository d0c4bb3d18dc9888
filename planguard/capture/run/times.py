"""When the ranks of a recorded run issued what, and when they saw it done.

The clock is the host's. A call starts where it was issued and ends where a wait for it came back,
so what ran meanwhile on a device or in a worker counts to it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planguard.capture.run.reading import ReadRank, plan_of_run, read_run
from planguard.simulate.measured import Mark, kind_of, measured
from planguard.simulate.settle import settle

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from planguard.plan.plan import Plan
    from planguard.simulate.schedule import Schedule
    from planguard.simulate.settle import Settled

HOST = (
    "times are the host's, from a call until a wait for it came back; what lies between calls, "
    "computation, was not recorded"
)
UNSEEN = "the end of {count:,} calls was not seen; they are drawn where they were issued"


def schedule_of_run(path: str | Path, plan: Plan | None = None) -> Schedule | None:
    """Return the measured times of a recorded run.

    Args:
        path: Folder of the logs, or one log.
        plan: The plan of the run; read from the logs if None.

    Returns:
        The schedule, or None where the plan has the calls in another order than they were
        recorded in: those of several host threads.

    Raises:
        UsageError: There is no log.
        PlanError: The logs are damaged.
    """
    ranks = read_run(path)
    plan = plan or plan_of_run(path)
    settled = settle(plan)
    lost: list[int] = []
    marks: list[Mark] = []
    for one in ranks:
        if not _is_same_order(settled.plan, one):
            return None
        marks += _marks(one, settled, lost)
    notes = [HOST] + ([UNSEEN.format(count=len(lost))] if lost else [])
    return measured(plan, marks, notes=notes)


def _is_same_order(plan: Plan, one: ReadRank) -> bool:
    rank = one.log.rank
    if plan.length(rank) != len(one.actions):
        return False
    written = (plan.action_at(rank, at).op for at in range(len(one.actions)))
    return all(op == action["op"] for op, action in zip(written, one.actions, strict=True))


def _marks(one: ReadRank, settled: Settled, lost: list[int]) -> Iterator[Mark]:
    rank, has_ended = one.log.rank, one.log.has_ended
    for at, action in enumerate(one.actions):
        start, end = one.times[id(action)]
        for member, place in _members(action):
            own = one.times.get(id(place), [start])[0]
            begin = (start if own is None else own) or 0
            stop = end
            if end is None and has_ended:  # it came to its end, so this was done at some time
                stop = begin
                lost += [at] if kind_of(action["op"]) not in (None, "wait") else []
            done = None if stop is None else stop / 1e3
            yield Mark(rank, settled.original(rank, at), member, begin / 1e3, done)


def _members(action: dict[str, Any]) -> Iterator[tuple[int | None, dict[str, Any]]]:
    if action["op"] != "batch":
        yield None, action
        return
    yield from enumerate(action["ops"])
