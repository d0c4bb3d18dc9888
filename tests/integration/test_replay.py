"""Claims about replays, shown on real gloo processes, and that nothing of them stays behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

import planguard
from planguard.errors import ReplayError, UsageError
from planguard.plan.flatten import flatten
from planguard.replay import (
    launch,
    matching,
    play,
    playable_of,
    replay,
    transcript,
    write_script,
)
from planguard.verdict import Witness

pytestmark = [pytest.mark.processes, pytest.mark.wheel]
PATIENCE = 2.0


def plan(*programs, groups=None, **fields):
    """A flat plan with one program per rank."""
    ranks = {str(rank): {"actions": list(actions)} for rank, actions in enumerate(programs)}
    return {
        "schema": "planguard.plan/1",
        "world_size": len(programs),
        "groups": {name: {"ranks": members} for name, members in (groups or {}).items()},
        "ranks": ranks,
        **fields,
    }


def op(name, count=4, **fields):
    """A communication of f32 elements."""
    return {"op": name, "count": count, "dtype": "f32", **fields}


def wait(*names):
    """A wait for handles."""
    return {"op": "wait", "work": list(names)}


def predict(*blocked, actions=(), **fields):
    """A witness that predicts where the run is stuck; without actions it plays the whole plan."""
    return Witness("7f3a", "", minimal=True, blocked=blocked, actions=actions, **fields)


def places(result):
    """Where every rank ended."""
    return {s.rank: (s.state, s.action if s.state == "stuck" else None) for s in result.ranks}


HEAD_TO_HEAD = plan(
    [op("send", peer=1), op("recv", peer=1)], [op("send", peer=0), op("recv", peer=0)]
)


@pytest.fixture(autouse=True)
def nothing_stays_behind():
    """Every test of this file ends with as many child processes as it began with."""
    before = set(psutil.Process().children(recursive=True))
    yield
    assert set(psutil.Process().children(recursive=True)) - before == set()


def test_head_to_head_sends_are_stuck_where_predicted():
    """Two blocking sends that face each other hang, each rank in its send; stacks are shown."""
    result = replay(HEAD_TO_HEAD, predict((0, 0), (1, 0)), timeout=PATIENCE)
    assert places(result) == {0: ("stuck", 0), 1: ("stuck", 0)}
    assert result.reproduced
    assert result.reason == "reproduced: both ranks in the predicted actions (r0#0, r1#0)"
    assert all("replay.py" in state.where for state in result.ranks)
    assert all(any(" in send" in frame for frame in state.stack) for state in result.ranks)
    text = transcript(result)
    assert "rank 0  send -> 1 ......" in text
    assert text.endswith(result.reason)


def test_a_witness_of_a_large_plan_runs_alone():
    """Of 16 ranks only the two of the witness run, and are stuck at the plan's action numbers."""
    middle = [{"op": "compute"}] * 20
    big = plan(
        *[middle] * 5,
        [*middle, op("send", peer=6, label="act"), op("recv", peer=6)],
        [*middle, op("send", peer=5, label="grad"), op("recv", peer=5)],
        *[middle] * 9,
    )
    result = replay(big, predict((5, 20), (6, 20), actions=((5, 20), (6, 20))), timeout=PATIENCE)
    assert places(result) == {5: ("stuck", 20), 6: ("stuck", 20)}
    assert result.reproduced


def test_an_orphan_collective_is_stuck():
    """An all_reduce that one member never enters holds all others."""
    result = replay(
        plan([op("all_reduce")], [op("all_reduce")], []), predict((0, 0), (1, 0)), timeout=PATIENCE
    )
    assert places(result) == {0: ("stuck", 0), 1: ("stuck", 0), 2: ("done", None)}
    assert result.reproduced


def test_opposite_orders_on_two_groups_are_stuck():
    """Two groups entered in opposite orders hang when synchronous and pass when asynchronous."""
    groups = {"a": [0, 1], "b": [0, 1]}
    first, second = op("all_reduce", group="a"), op("all_reduce", group="b")
    inverted = plan([first, second], [second, first], groups=groups)
    assert places(replay(inverted, timeout=PATIENCE)) == {0: ("stuck", 0), 1: ("stuck", 0)}
    begun = [{**one, "async": True, "work": one["group"]} for one in (first, second)]
    overlapped = plan([*begun, wait("a", "b")], [*begun[::-1], wait("a", "b")], groups=groups)
    result = replay(overlapped, timeout=PATIENCE)
    assert result.completed, transcript(result)


def test_a_short_message_is_a_mismatch():
    """gloo delivers a message into a larger receive without a word; the replay reports it."""
    result = replay(
        plan([op("send", 2, peer=1)], [op("recv", 4, peer=0)]),
        predict(end="mismatch"),
        timeout=PATIENCE,
    )
    assert [s.state for s in result.ranks] == ["done", "done"]
    assert result.ranks[1].mismatches[0][0] == 0
    assert "nbytes 8 there, 16 here" in result.ranks[1].mismatches[0][1]
    assert result.reproduced
    assert not result.completed


def test_a_long_message_aborts_the_receiver():
    """A message larger than the receive kills the receiver; the replay says by which signal."""
    result = replay(plan([op("send", 4, peer=1)], [op("recv", 2, peer=0)]), timeout=PATIENCE)
    assert (result.ranks[1].state, result.ranks[1].signal) == ("signal", signal.SIGABRT)
    assert "killed by SIGABRT" in transcript(result)


def test_swapped_collectives_of_equal_size_are_a_mismatch():
    """Two all_reduces in opposite orders pass on gloo with the wrong sums; both ranks report it."""
    one, two = op("all_reduce", label="a"), op("all_reduce", label="b")
    result = replay(plan([one, two], [two, one]), timeout=PATIENCE)
    assert [s.state for s in result.ranks] == ["done", "done"]
    assert [len(s.mismatches) for s in result.ranks] == [2, 2]


def test_a_witness_that_never_waits_shows_its_mismatch():
    """A mismatch witness of asynchronous collectives without waits still looks at their data."""
    begun = op("all_reduce", work="w", **{"async": True})
    swapped = plan([{**begun, "label": "a"}], [{**begun, "label": "b"}])
    result = replay(swapped, predict(actions=((0, 0), (1, 0)), end="mismatch"), timeout=PATIENCE)
    assert result.reproduced, transcript(result)
    assert [len(s.mismatches) for s in result.ranks] == [1, 1]


def test_group_creation_in_different_orders_is_played_whole():
    """A witness stuck in new_group plays the creation calls of all ranks, which count them all."""
    a, b = {"op": "new_group", "group": "a"}, {"op": "new_group", "group": "b"}
    three = plan([a, b], [b, a], [a, b], groups={"a": [0, 1], "b": [1, 2]})
    prediction = predict((0, 0), actions=((0, 0),))
    result = replay(three, prediction, timeout=PATIENCE)
    assert result.reproduced, transcript(result)
    assert places(result)[1] == ("stuck", 0)


@pytest.mark.parametrize("seed", [None, 1])
def test_a_safe_ring_of_batches_ends(seed):
    """A ring in which all ranks send and receive in one batch ends with the right data."""
    size = 4
    ring = [
        [
            {
                "op": "batch",
                "ops": [
                    op("isend", peer=(rank + 1) % size, label=f"{step}:{rank}"),
                    op("irecv", peer=(rank - 1) % size, label=f"{step}:{(rank - 1) % size}"),
                ],
            }
            for step in range(5)
        ]
        for rank in range(size)
    ]
    result = replay(plan(*ring), timeout=PATIENCE * 5, delay_seed=seed)
    assert result.completed, transcript(result)
    assert not result.reproduced


def test_a_pipeline_of_four_stages_ends():
    """A 1F1B pipeline of 4 ranks with a final all_reduce ends with the right data."""
    stages, microbatches = 4, 4
    result = replay(
        plan(*[one_f_one_b(s, stages, microbatches) for s in range(stages)]), timeout=10
    )
    assert result.completed, transcript(result)


def one_f_one_b(stage, stages, microbatches):
    """The program of one stage of a 1F1B schedule; steady-state exchanges are batched."""
    program = []

    def forward(mb):
        if stage > 0:
            program.append(op("recv", peer=stage - 1, label=f"a{stage - 1}.{mb}"))
        program.append({"op": "compute"})

    def act(mb):
        return op("isend", peer=stage + 1, label=f"a{stage}.{mb}")

    def grad(mb):
        return op("irecv", peer=stage + 1, label=f"g{stage + 1}.{mb}")

    def backward(mb):
        program.append({"op": "compute"})
        if stage > 0:
            program.append(op("isend", peer=stage - 1, label=f"g{stage}.{mb}", work=f"g{mb}"))

    warmup = min(stages - stage - 1, microbatches)
    for mb in range(warmup):
        forward(mb)
        program.append({**act(mb), "work": f"a{mb}"})
    for mb in range(microbatches - warmup):
        forward(mb + warmup)
        if stage < stages - 1:
            program.append({"op": "batch", "ops": [act(mb + warmup), grad(mb)]})
        backward(mb)
    for mb in range(microbatches - warmup, microbatches):
        if stage < stages - 1:
            program.append({**grad(mb), "op": "recv"})
        backward(mb)
    works = [a["work"] for a in program if "work" in a]
    return [*program, wait(*works), op("all_reduce")] if works else [*program, op("all_reduce")]


def every_collective(rank):
    """All collectives of the plan format, synchronous and asynchronous, on an odd group order."""
    g = {"group": "g"}
    calls = [
        op("all_reduce", **g),
        op("all_reduce", reduce_op="max", **{**g, "dtype": "bf16"}),
        op("all_gather", **g),
        op("all_gather_into_tensor", **g),
        op("reduce_scatter", **g),
        op("reduce_scatter_tensor", **g),
        op("broadcast", root=2, **g),
        op("reduce", root=1, **g),
        op("gather", root=2, **g),
        op("scatter", root=0, **g),
        op("all_to_all", 6, **g),
        op("all_to_all_single", 6, **g),
        op("all_to_all_single", 6, in_splits=[1, 2, 3], out_splits=[seat(rank) + 1] * 3, **g),
        {"op": "coalesced", "kind": "all_reduce", "ops": [count(4), count(2)], **g},
        {"op": "coalesced", "kind": "all_gather_into_tensor", "ops": [count(4), count(2)], **g},
        {"op": "coalesced", "kind": "reduce_scatter_tensor", "ops": [count(4), count(2)], **g},
        {"op": "init", **g},
        {"op": "barrier", **g},
    ]
    later = [
        {**call, "async": True, "work": f"w{k}"}
        for k, call in enumerate(calls)
        if call["op"] != "init"
    ]
    return [*calls, *later, wait(*[call["work"] for call in later])]


def seat(rank):
    """Place of a rank in the group of every_collective."""
    return [2, 0, 1].index(rank)


def count(n):
    """A tensor of a coalesced collective."""
    return {"count": n, "dtype": "f32"}


def test_every_collective_moves_the_data_it_should():
    """Every collective plays on gloo and delivers, member by member, what the plan means."""
    result = replay(
        plan(*[every_collective(rank) for rank in range(3)], groups={"g": [2, 0, 1]}), timeout=10
    )
    assert result.completed, transcript(result)


def test_every_collective_looks_at_its_data(monkeypatch):
    """Were other data meant than those that arrive, every kind of collective would complain."""
    partner = matching._partner
    monkeypatch.setattr(matching, "_partner", lambda *args: (partner(*args) or -1) + 1)
    programs = [every_collective(rank)[:16] for rank in range(3)]
    result = replay(plan(*programs, groups={"g": [2, 0, 1]}), timeout=10)
    complained = {action for state in result.ranks for action, _ in state.mismatches}
    assert complained == set(range(16)), transcript(result)


def test_handles_groups_and_exits_are_played():
    """new_group, test, drop, destroy, exit and receives from anyone play as torch has them."""
    groups = {"late": [0, 1]}
    create = {"op": "new_group", "group": "late"}
    begun = op("all_reduce", group="late", work="w", **{"async": True})
    result = replay(
        plan(
            [create, begun, {"op": "test", "work": "w"}, wait("w"), op("recv", peer="any")],
            [
                create,
                begun,
                {"op": "drop", "work": "w"},
                op("send", peer=0),
                {"op": "destroy", "group": "late"},
            ],
            [create, {"op": "exit"}],
            groups=groups,
        ),
        timeout=PATIENCE,
    )
    assert result.completed, transcript(result)
    assert [s.state for s in result.ranks] == ["done", "done", "exited"]


def test_large_messages_fit():
    """Sixteen messages of 4 GiB under way at once are played small enough for any machine."""
    size = {"bytes": 1 << 32}
    sends = [{"op": "isend", "peer": 1, "work": f"w{k}", **size} for k in range(16)]
    works = wait(*[one["work"] for one in sends])
    recvs = [{"op": "recv", "peer": 0, **size}] * 16
    result = replay(plan([*sends, works], recvs), timeout=10)
    assert result.completed, transcript(result)
    assert any("times smaller" in note for note in result.notes)


def test_what_needs_one_queue_is_not_reproducible():
    """isend + recv on both sides hangs in NCCL's queue, not on gloo; the replay says so."""
    sides = [
        [op("isend", peer=peer, work="w"), op("recv", peer=peer), wait("w")] for peer in (1, 0)
    ]
    result = replay(plan(*sides), predict((0, 0), (1, 0)), timeout=PATIENCE, model="nccl")
    assert [s.state for s in result.ranks] == ["done", "done"]
    assert not result.reproduced
    assert result.reason.startswith("not reproducible on this backend: under nccl")


def test_what_gloo_cannot_play_starts_nothing():
    """A plan with an operation that gloo lacks gives the reason and starts no process."""
    result = replay(plan([op("scan")], [op("scan")]))
    assert result.ranks == ()
    assert "scan exists only under MPI" in result.reason
    with pytest.raises(UsageError, match="nccl"):
        replay(HEAD_TO_HEAD, backend="nccl")


def test_a_script_runs_on_its_own(tmp_path):
    """The script, run by itself, shows the hang, exits with 1 and leaves nothing behind."""
    path = tmp_path / "mailed.py"
    path.write_text(write_script(HEAD_TO_HEAD, predict((0, 0), (1, 0))).text, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-I", str(path), "--timeout", "1"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 1, done.stderr
    assert "stuck:     r0#0, r1#0" in done.stdout
    assert "predicted: r0#0, r1#0" in done.stdout


def test_a_script_that_fails_is_an_error():
    """A script that ends without a report raises ReplayError with its last words."""
    with pytest.raises(ReplayError, match="boom"):
        launch.run_script("raise SystemExit('boom')", timeout=1.0)


LITMUS = Path(__file__).parents[1] / "corpus" / "litmus"
# Programs whose measured run is not repeatable, or that hold something a plan cannot say.
UNLIKE = {
    "anysource_posted_order_rep0": "the pick of a receive from anyone depends on timing",
    "anysource_posted_order_rep2": "the pick of a receive from anyone depends on timing",
    "anysource_after_arrival_rep1": "the pick of a receive from anyone depends on timing",
    "p2p_anysource_steals": "the pick of a receive from anyone depends on timing",
    "isend_then_exit_immediately": "whether the message leaves before the process is a race",
    "size_agit_mismatch": "whether the other rank sees the abort is a race",
    "size_a2a_split_mismatch_over": "whether the other rank sees the abort is a race",
    "batch_mixed_groups_rejected": "torch refuses the call; the plan is refused at the door",
    "zero_len_batch": "torch refuses the call; the plan is refused at the door",
    "groups_nonmember_call": "torch ignores the call; the plan is refused at the door",
    "monitored_barrier_missing": "a plan has no monitored barrier",
    "monitored_barrier_vs_allreduce": "a plan has no monitored barrier",
    "wait_timeout_arg": "a plan has no timeouts",
}
QUICK = {
    "p2p_isend_never_waited_no_recv",
    "coll_missing_rank_exits",
    "order_swap_ar_bc_same_group_async",
    "groups_cross_order_sync",
}


REFUSED = {"p2p_self_send"}


def litmus_programs(but=()):
    """Names of the measured programs; only the long run plays all of them."""
    names = {path.name.removesuffix(".plan.json") for path in LITMUS.glob("*.plan.json")}
    return [
        name if name in QUICK else pytest.param(name, marks=pytest.mark.slow)
        for name in sorted(names - set(UNLIKE) - set(but))
    ]


@pytest.mark.parametrize("name", litmus_programs())
def test_litmus_programs_replay_as_measured(name):
    """Every measured program ends on replay as measured, stuck ranks at the same actions."""
    program = json.loads((LITMUS / f"{name}.plan.json").read_text(encoding="utf-8"))
    observed = program["x-observed"]["gloo"]
    measured = {}
    for rank in observed["ranks"]:
        state = {"exit 0": "exited", "signal 6": "signal"}.get(rank["state"], rank["state"])
        at, name = rank.get("stuck_at", (None, None))
        # A rank in its long sleep takes no part any more; a plan says so by its end.
        measured[rank["rank"]] = ("done", None) if name == "sleep" else (state, at)
    result = replay(program, timeout=PATIENCE)
    assert places(result) == measured, transcript(result)
    mismatches = any(state.mismatches for state in result.ranks)
    assert mismatches or observed["verdict"] != "corrupt"
    assert not mismatches or observed["verdict"] != "ok"


@pytest.mark.parametrize("name", litmus_programs(but=REFUSED))
def test_verdicts_on_litmus_programs_hold_on_processes(name):
    """Under model gloo every witness is reproduced, and what is SAFE finishes with delays too."""
    read = planguard.load(LITMUS / f"{name}.plan.json")
    verdict, program = planguard.check(read, model="gloo"), flatten(read)
    if verdict.safe:
        for seed in (None, 1):
            result = replay(program, timeout=10, delay_seed=seed)
            assert result.completed, transcript(result)
    for finding in verdict.findings:
        if finding.witness is not None:
            result = replay(program, finding.witness, timeout=PATIENCE, model="gloo")
            assert result.reproduced, transcript(result)


DRIVER = """
import json, sys
from planguard.replay import replay
replay(json.loads(sys.argv[1]), timeout=60)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_the_ranks_die_with_the_caller(number, tmp_path):
    """Whatever ends the calling process, Ctrl-C or a kill, every rank is gone soon after."""
    caller = start_caller(tmp_path)
    try:
        started = descendants(caller.pid, 3)
        caller.send_signal(number)
        caller.wait(timeout=20)
        assert gone(started, 20) == []
    finally:
        caller.kill()
        caller.wait()


def test_the_ranks_die_with_the_watcher(tmp_path):
    """When the script's own process is killed, its ranks end by themselves."""
    caller = start_caller(tmp_path)
    try:
        started = descendants(caller.pid, 3)
        watcher = next(p for p in started if p.ppid() == caller.pid)
        watcher.kill()
        assert gone(started, 20) == []
    finally:
        caller.kill()
        caller.wait()


def start_caller(folder):
    """Start a process that replays a hang; temporary files go to ``folder``."""
    return subprocess.Popen(
        [sys.executable, "-c", DRIVER, json.dumps(HEAD_TO_HEAD)],
        stderr=subprocess.DEVNULL,
        env={**os.environ, "TMPDIR": str(folder)},
    )


def descendants(pid, number):
    """Wait until a process has this many descendants and return them."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        found = psutil.Process(pid).children(recursive=True)
        if len(found) >= number:
            return found
        time.sleep(0.05)
    raise AssertionError(f"process {pid} did not start {number} processes")


def gone(processes, seconds):
    """Return those that still run after so many seconds; the unreaped dead do not count."""
    _, alive = psutil.wait_procs(processes, timeout=seconds)
    return [p for p in alive if p.is_running() and p.status() != psutil.STATUS_ZOMBIE]


@pytest.fixture
def command(tmp_path):
    """Run the command line on a plan; returns the finished process."""

    def command(plan, *options):
        path = tmp_path / "some.plan.json"
        path.write_text(json.dumps(plan), encoding="utf-8")
        line = [sys.executable, "-m", "planguard", "replay", str(path), "--model", "gloo", *options]
        return subprocess.run(line, capture_output=True, text=True, timeout=90, check=False)

    return command


SAFE = plan([op("send", peer=1), op("recv", peer=1)], [op("recv", peer=0), op("send", peer=0)])


def test_the_command_reproduces_a_deadlock(command):
    """`planguard replay` judges the plan, plays its witness, and exits with 1 for a hang seen."""
    done = command(HEAD_TO_HEAD, "--timeout", "2")
    assert done.returncode == 1, done.stderr
    last = "reproduced: both ranks in the predicted actions (r0#0, r1#0)"
    assert done.stdout.splitlines()[-1] == last
    assert "verdict DEADLOCK under model gloo" in done.stderr


def test_the_command_lets_a_safe_plan_finish(command):
    """A safe plan finishes with exit code 0, with random delays too, as JSON on request."""
    done = command(SAFE, "--delay-seed", "3", "--format", "json")
    assert done.returncode == 0, done.stderr
    assert [rank["state"] for rank in json.loads(done.stdout)["ranks"]] == ["done", "done"]


def test_the_command_reports_a_silent_mismatch(command):
    """A size mismatch that gloo swallows is shown with exit code 1."""
    done = command(plan([op("send", 2, peer=1)], [op("recv", 4, peer=0)]), "--timeout", "2")
    assert done.returncode == 1, done.stderr
    assert "MISMATCH r1#0" in done.stdout


def test_the_command_says_what_the_backend_cannot_show(command):
    """A deadlock of NCCL's queue that gloo completes gives exit code 3, with the reason."""
    sides = [
        [op("isend", peer=peer, work="w"), op("recv", peer=peer), wait("w")] for peer in (1, 0)
    ]
    done = command(plan(*sides), "--model", "nccl", "--timeout", "2")
    assert done.returncode == 3, done.stdout + done.stderr
    assert "not reproducible on this backend" in done.stdout.splitlines()[-1]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--schedule", "0.0/1.7"], "1.7, does not exist"),
        (["--schedule", "zzzz"], "no witness zzzz"),
        (["--timeout", "0"], "--timeout"),
    ],
)
def test_the_command_refuses_what_does_not_fit(command, options, words):
    """A schedule that does not fit, or a wrong option, ends with exit code 2 and starts nothing."""
    done = command(HEAD_TO_HEAD, *options)
    assert done.returncode == 2
    assert words in done.stderr


def test_the_command_plays_an_encoded_schedule(command):
    """A schedule given in full is played, and its ranks are seen stuck in it."""
    done = command(HEAD_TO_HEAD, "--schedule", "0.0/1.0", "--timeout", "2")
    assert done.returncode == 1, done.stderr
    assert "stuck" in done.stdout


def test_the_command_plays_an_open_order_as_the_witness_has_it(command):
    """What a block leaves open is issued in the order of the witness, named as the plan counts."""
    groups = {"a": [0, 1], "b": [0, 1]}
    body = [op("all_reduce", group=name, label=name) for name in groups]
    done = command(
        plan(*[[{"op": "unordered", "body": body}]] * 2, groups=groups), "--timeout", "2"
    )
    assert done.returncode == 1, done.stderr
    assert "verdict POTENTIAL_DEADLOCK under model gloo" in done.stderr
    assert done.stdout.splitlines()[-1].startswith(
        "reproduced: both ranks in the predicted actions"
    )


def test_torch_itself_counts_the_calls_of_a_witness_under_gloo_detail():
    """The stages of a pipeline make other numbers of messages before a broadcast of all: torch says
    so with DETAIL, with the numbers of the finding, and nothing happens without.
    """
    sample = Path(__file__).parents[1] / "samples" / "nnscaler" / "mlp-pp4-infer"
    found = planguard.check(sample, model="gloo-detail").findings[0]
    assert found.code == "PG216"
    assert found.witness.minimal
    way = playable_of(sample, found.witness, "gloo-detail")
    seen = play(way, timeout=PATIENCE, model="gloo-detail")
    assert seen.reproduced
    assert all("Collectives differ" in state.error for state in seen.ranks)
    assert not play(way, timeout=PATIENCE, model="gloo").reproduced


def test_the_command_refuses_nccl_without_gpus(command, monkeypatch):
    """Too few GPUs for nccl end with exit code 2, and the number that there is."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")  # as on a machine without any
    done = command(HEAD_TO_HEAD, "--backend", "nccl")
    assert done.returncode == 2
    assert "needs one GPU for each of the 2 ranks" in done.stderr


def test_the_command_writes_the_script_only(command, tmp_path):
    """--script writes the script, runs nothing, and does not overwrite without --force."""
    path = tmp_path / "hang.py"
    done = command(HEAD_TO_HEAD, "--script", str(path))
    assert done.returncode == 0, done.stderr
    assert f"{Path(sys.executable).name} {path}" in done.stdout
    assert path.read_text(encoding="utf-8").startswith("#!/usr/bin/env python3")
    assert command(HEAD_TO_HEAD, "--script", str(path)).returncode == 2
    assert command(HEAD_TO_HEAD, "--script", str(path), "--force").returncode == 0


def test_an_interrupted_command_leaves_nothing(tmp_path):
    """Ctrl-C during a replay ends the command with 130 and every process and file it made."""
    path = tmp_path / "some.plan.json"
    path.write_text(json.dumps(HEAD_TO_HEAD), encoding="utf-8")
    folder = tmp_path / "temporary"
    folder.mkdir()
    running = subprocess.Popen(
        [sys.executable, "-m", "planguard", "replay", str(path), "--timeout", "60"],
        env={**os.environ, "TMPDIR": str(folder)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        started = descendants(running.pid, 3)
        running.send_signal(signal.SIGINT)
        assert running.wait(timeout=20) == 130
        assert gone(started, 5) == []
        assert list(folder.iterdir()) == []
    finally:
        running.kill()
        running.wait()
