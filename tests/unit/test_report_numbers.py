"""The headline numbers, from plans whose numbers are worked out by hand."""

from __future__ import annotations

import json

import pytest

from planguard.plan.format import read
from planguard.report.page.headline import headline, length, union, without
from planguard.report.page.spans import devices, rows
from planguard.simulate.schedule import schedule
from planguard.simulate.traffic import traffic


def made(ranks, **more):
    """Return a plan of programs."""
    return read(json.dumps({"schema": "planguard.plan/1", "world_size": len(ranks),
                            "ranks": {str(r): {"actions": a} for r, a in enumerate(ranks)},
                            **more}).encode())  # fmt: skip


def told(plan):
    """Return the numbers of a plan by name."""
    run = schedule(plan)
    found = headline(rows(run), run, traffic(plan), plan)
    return {name: (value, what, panel) for name, value, what, panel, _ in found}


def test_intervals_are_covered_once():
    """Overlaps count once, gaps not at all, and what another takes is taken off."""
    assert union([(5, 6), (0, 2), (1, 3), (4, 4)]) == [(0, 3), (5, 6)]
    assert length(union([(0, 2), (1, 3)])) == 3
    assert without([(0, 10)], [(2, 4), (8, 12)]) == 6
    assert without([(0, 1)], []) == 1


def test_numbers_of_two_ranks_without_communication():
    """100 and 50 us: step time 100 us, imbalance 100 over 75."""
    compute = {"op": "compute"}
    found = told(made([[{**compute, "duration_us": 100}], [{**compute, "duration_us": 50}]]))
    assert found["step time"][0] == "100 us"
    assert found["imbalance"][0] == "1.33"
    assert found["exposed communication"][0] == "0.0%"
    assert "bytes moved" not in found
    assert "bubble" not in found


def test_the_largest_message_and_the_bytes_by_group_and_kind():
    """Of two calls the larger one is named with rank and action; a ring moves 2(n-1)/n a rank."""
    calls = [{"op": "all_reduce", "bytes": 4096}, {"op": "barrier"},
             {"op": "all_gather", "bytes": 1024}]  # fmt: skip
    found = told(made([calls, calls]))
    assert found["largest message"][:2] == ("4.00 KiB", "rank 0 #0 all_reduce")
    assert found["bytes moved"][0] == "10.00 KiB"
    assert "all_reduce on world 8.00 KiB" in found["bytes moved"][1]


def test_a_stuck_plan_has_no_step_time(root):
    """Some ranks wait for ever: no time of a step is claimed, and no share of one."""
    found = told(read((root / "examples" / "head-to-head.plan.json").read_bytes()))
    assert found["step time"][0] == "never ends"
    assert "bubble" not in found
    assert "exposed communication" not in found


def test_waiting_in_two_calls_at_once_is_waiting_once():
    """Two receives posted together wait for the same 100 us: a rank waits 100 us, not 200."""
    recv = {"op": "irecv", "peer": 0, "bytes": 8}
    send = {"op": "send", "peer": 1, "bytes": 8}
    plan = made([[{"op": "compute", "duration_us": 100}, send, {**send, "tag": 1}],
                 [{**recv, "work": "a"}, {**recv, "tag": 1, "work": "b"},
                  {"op": "wait", "work": ["a", "b"]}]])  # fmt: skip
    run = schedule(plan, "gloo")
    waiting = {d["rank"]: d["waiting"] for d in devices(plan, rows(run), run)}
    assert waiting[1] == pytest.approx(100, abs=15)


@pytest.mark.parametrize("name", ["mesh-3d.plan.json", "pipelining/interleaved1f1b-4x8.csv"])
def test_every_number_leads_to_a_panel(root, name):
    """Each number names the view that shows where it comes from."""
    import planguard

    found = told(planguard.load(root / "examples" / name))
    panels = {panel for *_, panel in found.values()}
    assert panels <= {"timeline", "overview", "tables", "matrices"}
    assert "step time" in found
    # A schedule of torch states no sizes: nothing is claimed of what it does not say.
    assert ("bytes moved" in found) is ("largest message" in found) is name.startswith("mesh")


def test_ranks_that_were_not_recorded_are_in_no_mean(root):
    """One trace of a job of 128 ranks: its rank is no 128 times the mean; without recorded calls
    no communication is exposed.
    """
    from planguard.audit.timeline import drawn_recording

    file = root / "tests" / "corpus" / "traces" / "gpu" / "sampled.json.gz"
    run = drawn_recording([str(file)]).schedule
    plan = run.plan
    found = {row[0]: row[1] for row in headline(rows(run), run, traffic(plan), plan)}
    assert plan.world_size == 128
    assert found["imbalance"] == "1.00"
    assert "exposed communication" not in found


def test_the_time_of_an_unsafe_plan_says_what_it_stands_for():
    """A plan that the verdict calls unsafe has no plain step time, though its model completes."""
    plan = made([[{"op": "compute", "duration_us": 5}]])
    run = schedule(plan)
    (time,) = (r for r in headline(rows(run), run, traffic(plan), plan, is_unsafe=True)
               if r[0] == "step time")  # fmt: skip
    assert time[1].endswith("if it ran")
    assert "the verdict denies" in time[2]
