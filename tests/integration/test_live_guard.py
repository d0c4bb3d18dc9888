"""The live guard beside real gloo jobs: right about those that hang, silent about the others."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from planguard import kernels
from planguard.errors import UsageError
from planguard.live.analysis import find_stuck
from planguard.live.hints import hints
from planguard.live.report import LiveReport, report_of
from planguard.live.state import Call, RankState

LITMUS = Path(__file__).parents[1] / "corpus" / "litmus"
WORKER = Path(__file__).with_name("live_worker.py")
USUAL = (
    "p2p_head_to_head_send_4B", "groups_cross_order_sync", "coll_allreduce_missing_rank",
    "p2p_send_no_recv_64KiB", "kind_broadcast__vs__barrier", "newgroup_diff_members_order",
    "sync_gather_nonroot_leaves_early", "p2p_send_ring3",
    "coll_allreduce_ok", "p2p_ordered_exchange", "batch_exchange", "p2p_groups_are_channels",
)  # fmt: skip
RAISES = {"batch_mixed_groups_rejected"}
"""torch refuses the program: it ends with an exception, and nobody is stuck."""


def measured(slow):
    """Give litmus programs and the ranks that were stuck on gloo; none in which a rank exits."""
    found = {}
    for file in sorted(LITMUS.glob("*.plan.json")):
        text = file.read_text()
        expected = json.loads(text).get("x-expect", {}).get("gloo", {})
        name = file.name.removesuffix(".plan.json")
        if "stuck" in expected and '"exit"' not in text and name not in RAISES:
            found[name] = sorted(map(int, expected["stuck"]))
    return found if slow else {name: found[name] for name in USUAL}


@pytest.mark.processes
@pytest.mark.wheel
@pytest.mark.timeout(400)
def test_the_guard_names_the_stuck_ranks_and_stays_silent_otherwise(request, tmp_path):
    """Every litmus program ends as it was measured: the very ranks that stood still are named and
    end with the exit code that was asked for; of those that complete, the guard says nothing.
    """
    programs = measured(request.config.getoption("--slow"))
    plans = [str(LITMUS / f"{name}.plan.json") for name in programs]
    command = [sys.executable, str(WORKER), str(tmp_path), "1.5", *plans]
    out = subprocess.run(command, capture_output=True, text=True, timeout=390, check=True).stdout
    wrong = {}
    for line in out.splitlines():
        result = json.loads(line)
        name = Path(result["plan"]).name.removesuffix(".plan.json")
        report = result["report"]
        named = [] if report is None else [one["rank"] for one in report["ranks"]]
        left = sorted(int(rank) for rank, code in result["codes"].items() if code == 42)
        if named != programs[name] or left != programs[name]:
            wrong[name] = (programs[name], named, result["codes"])
        if report is not None and kernels.IMPLEMENTATION == "native":
            # A rank that makes a group waits in the store, any other inside gloo.
            frames = [" ".join(one["native"]) for one in report["ranks"]]
            assert all("libtorch" in one for one in frames), frames
    assert not wrong
    assert len(out.splitlines()) == len(programs)


def state(rank, op=None, *, group="g", ranks=(0, 1, 2), peer=None, position=1, **more):
    """Make the state of a rank that has stood in a call for ten seconds."""
    current = None if op is None else Call(position - 1, op, group, ranks, peer, 0, position)
    counts = {} if op in {None, "send", "recv"} else {group: position}
    return RankState(rank, current=current, since_s=10.0, **{"counts": counts, **more})


def test_a_rank_that_computes_may_still_come():
    """Two ranks wait for a third that computes: nobody is stuck."""
    states = {0: state(0, "all_reduce"), 1: state(1, "all_reduce"), 2: state(2)}
    assert find_stuck(states, 5.0, 3) is None


def test_a_subset_is_stuck_although_others_compute():
    """Ranks 0 and 1 receive from each other while rank 2 computes: the two are reported."""
    states = {0: state(0, "recv", peer=1), 1: state(1, "recv", peer=0), 2: state(2)}
    found = find_stuck(states, 5.0, 3)
    assert found.ranks == (0, 1)
    assert found.cycle == (0, 1)
    assert not found.everybody


def test_who_waits_for_a_stuck_set_belongs_to_it():
    """Rank 2 waits in a collective for two ranks that are stuck in each other."""
    states = {
        0: state(0, "recv", peer=1), 1: state(1, "recv", peer=0), 2: state(2, "all_reduce"),
    }  # fmt: skip
    found = find_stuck(states, 5.0, 3)
    assert found.ranks == (0, 1, 2)
    assert found.everybody


def test_a_circle_is_found_beside_a_rank_that_waits_for_one_that_left():
    """Rank 0 waits for 1, whose sender left, and for 2, which waits for 0: 0 and 2 are a circle."""
    states = {
        0: state(0, "all_reduce"),
        1: state(1, "recv", group="h", ranks=(1, 3), peer=3),
        2: state(2, "recv", group="h", ranks=(0, 2), peer=0),
        3: RankState(3, has_ended=True),
    }
    found = find_stuck(states, 5.0, 4)
    assert found.ranks == (0, 1, 2)
    assert found.cycle == (0, 2)


def test_who_has_not_stood_long_enough_is_not_suspected():
    """Below the timeout nothing is said."""
    states = {0: state(0, "recv", peer=1), 1: state(1, "recv", peer=0)}
    assert find_stuck(states, 11.0, 2) is None


def test_hints_say_what_to_change():
    """Head-to-head sends, and a receive from a rank that receives itself."""
    sends = {0: state(0, "send", peer=1), 1: state(1, "send", peer=0)}
    assert "post the operations together" in hints(find_stuck(sends, 5.0, 2))[0]
    receives = {0: state(0, "recv", peer=1), 1: state(1, "recv", peer=0)}
    assert "meant for another rank" in " ".join(hints(find_stuck(receives, 5.0, 2)))


TORCH = ("/x/torch/autograd/graph.py:869 in _engine_run_backward", "/p/train.py:40 in step")


def test_the_partner_below_python_is_named_beside_a_wait_that_was_seen():
    """Rank 0 stands in a barrier, rank 1 in the reducer's C++ for another call of that round: both
    are stuck, and the report has the call, the line and the stack of each.
    """
    pair = {"ranks": (0, 1)}
    below = state(1, "all_reduce", is_certain=False, stack=TORCH, **pair)
    found = find_stuck({0: state(0, "barrier", **pair), 1: below}, 5.0, 2)
    assert found.ranks == (0, 1)
    assert found.everybody
    text = report_of(found, {0: state(0, "barrier", **pair), 1: below}, 5.0).text()
    assert "r1  all_reduce on g (round 0)" in text
    assert "concluded from its stack" in text
    assert "_engine_run_backward" in text


def test_a_partner_that_may_compute_is_shown_and_not_called_stuck():
    """A rank in the program's own code may be done with the call: its place is shown, no more."""
    pair = {"ranks": (0, 1)}
    stack = ("/p/train.py:41 in evaluate",)
    states = {
        0: state(0, "barrier", **pair),
        1: state(1, "broadcast", is_certain=False, stack=stack, **pair),
    }
    found = find_stuck(states, 5.0, 2)
    assert found.ranks == (0,)
    report = report_of(found, states, 5.0)
    assert "partner: r1, last call broadcast on g (round 0)" in report.text()
    assert "train.py:41 in evaluate" in report.text()
    assert LiveReport.from_json(report.json()) == report


def test_two_inferred_waits_are_no_verdict():
    """Without any wait that was seen, ranks whose stacks stand still may both compute."""
    pair = {"ranks": (0, 1)}
    states = {
        rank: state(rank, op, is_certain=False, stack=TORCH, **pair)
        for rank, op in enumerate(("barrier", "all_reduce"))
    }
    assert find_stuck(states, 5.0, 2) is None


def test_a_report_survives_its_json():
    """What rank 0 writes is what the other ranks read."""
    states = {0: state(0, "recv", peer=1, stack=("a.py:1 in f",)), 1: state(1, "recv", peer=0)}
    report = report_of(find_stuck(states, 5.0, 2), states, 5.0)
    assert LiveReport.from_json(report.json()) == report
    assert "cycle: r0 -> r1 -> r0" in report.text()


def test_a_state_that_is_damaged_is_refused():
    """Bytes from a store are not trusted."""
    with pytest.raises(ValueError, match="not the state"):
        RankState.from_bytes(b'{"rank": 0}')


def test_without_a_process_group_there_is_nothing_to_guard():
    """A wrong call is one clear error."""
    from planguard import live

    with pytest.raises(UsageError, match="no process group"):
        live.guard()


POLLING = """
import sys, time, torch, torch.distributed as dist
from planguard import live
rank = int(sys.argv[1])
dist.init_process_group("gloo", init_method=f"file://{sys.argv[2]}/store", rank=rank, world_size=2)
live.guard(timeout=2, exit_code=42, report=sys.argv[2] + f"/stuck{rank}.txt")
if rank:
    dist.barrier()
work = dist.irecv(torch.empty(4), 1)
while not work.is_completed():
    time.sleep(0.01)
"""


@pytest.mark.processes
def test_who_polls_for_what_cannot_come_is_named(tmp_path):
    """Rank 0 asks again and again whether a message has come, as with MPI_Test; rank 1, which would
    have to send it, waits in a barrier: both are named, and end with the code that was asked for.
    """
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", POLLING, str(rank), str(tmp_path)],
            env={**os.environ, "GLOO_SOCKET_IFNAME": "lo"}, stderr=subprocess.DEVNULL,
        )
        for rank in range(2)
    ]  # fmt: skip
    try:
        assert [rank.wait(timeout=100) for rank in ranks] == [42, 42]
    finally:
        for rank in ranks:
            rank.kill()
    said = "".join(file.read_text() for file in tmp_path.glob("stuck*.txt"))
    assert "PG501" in said
    assert "ranks 0, 1" in said
