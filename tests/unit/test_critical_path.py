"""The critical path of a run across its ranks, by hand and of many plans."""

from __future__ import annotations

import itertools
import json
import random

import pytest

from planguard.plan.format import read
from planguard.simulate.critical import critical
from planguard.simulate.schedule import schedule


def run_of(ranks, model="gloo"):
    """The modeled run of programs."""
    plan = {"schema": "planguard.plan/1", "world_size": len(ranks),
            "ranks": {str(r): {"actions": a} for r, a in enumerate(ranks)}}  # fmt: skip
    return schedule(read(json.dumps(plan).encode()), model)


def compute(time):
    """A computation of some microseconds."""
    return {"op": "compute", "op_name": "F", "duration_us": time}


def said(path):
    """Rank and kind of every piece."""
    return [(one.rank, one.kind) for one in path]


def test_the_path_goes_to_the_rank_that_came_last():
    """Rank 1 computes longer before the all-reduce: the path is its, until both are there."""
    meet = {"op": "all_reduce", "bytes": 4096}
    path = critical(run_of([[compute(10), meet, compute(50)], [compute(30), meet, compute(5)]]))
    assert said(path) == [(1, "compute"), (0, "collective"), (0, "compute")]
    assert path[0].end == 30


def test_the_path_follows_a_message():
    """Rank 1 waits for what rank 0 sends, and rank 0 for its answer."""
    there, back = {"bytes": 4096, "tag": 1}, {"bytes": 4096, "tag": 2}
    first = [{"op": "send", "peer": 1, **there}, {"op": "recv", "peer": 1, **back}]
    second = [{"op": "recv", "peer": 0, **there}, compute(40), {"op": "send", "peer": 0, **back}]
    path = critical(run_of([[compute(20), *first, compute(4)], [compute(3), *second]]))
    assert [one for one in said(path) if one[1] == "compute"] == [
        (0, "compute"), (1, "compute"), (0, "compute"),
    ]  # fmt: skip


def test_work_beside_a_computation_is_on_the_path_only_where_it_is_awaited():
    """A reduction that ends before the computation beside it is off the path."""
    reduce = {"op": "all_reduce", "bytes": 64, "async": True, "work": "w"}
    program = [reduce, compute(5000), {"op": "wait", "work": "w"}, compute(1)]
    assert {kind for _, kind in said(critical(run_of([program, program])))} == {"compute"}


def test_a_run_that_does_not_end_has_no_path(root):
    """Nobody knows what an end waits for that never comes."""
    stuck = read((root / "examples" / "head-to-head.plan.json").read_bytes())
    assert critical(schedule(stuck)) == []
    assert critical(run_of([[], []])) == []


@pytest.mark.parametrize("seed", range(30))
def test_the_path_covers_the_run(seed):
    """Its pieces follow each other from the begin to the end, each inside its span."""
    lot = random.Random(seed)
    ranks = [[] for _ in range(4)]
    for at in range(lot.randint(5, 60)):
        what = lot.random()
        if what < 0.3:
            for own in ranks:
                own.append({"op": "all_reduce", "bytes": 8})
        elif what < 0.6:
            a, b = lot.sample(range(4), 2)
            ranks[a].append({"op": "send", "peer": b, "bytes": 64, "tag": at})
            ranks[b].append({"op": "recv", "peer": a, "bytes": 64, "tag": at})
        else:
            lot.choice(ranks).append(compute(lot.randint(1, 90)))
    run = run_of(ranks)
    path = critical(run)
    if not run.makespan:
        return
    assert path[0].start == pytest.approx(0, abs=1e-6)
    assert path[-1].end == pytest.approx(run.makespan)
    for one, then in itertools.pairwise(path):
        assert one.end == pytest.approx(then.start, abs=1e-6)
    for one in path:
        assert one.kind == one.span.kind
        assert one.start >= one.span.start - 1e-6
        assert one.end <= one.span.end + 1e-6
