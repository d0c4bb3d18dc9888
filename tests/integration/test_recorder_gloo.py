"""The recorder on real gloo processes: both witnesses, plans of runs, runs that end badly."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

import planguard
from planguard import Outcome
from planguard.capture.run.log import Kind
from planguard.errors import UsageError

pytestmark = [pytest.mark.processes, pytest.mark.wheel, pytest.mark.timeout(600)]
torch = pytest.importorskip("torch")

from recorder_worker import record_jobs  # noqa: E402

from planguard.capture.run.dispatch import agreement  # noqa: E402
from planguard.capture.run.reading import read_run, recording_of_run  # noqa: E402

SCENARIOS = {
    "plain": {"barrier": 1, "all_reduce": 3, "broadcast": 1, "all_gather": 1,
              "all_gather_into_tensor": 1,
              "reduce_scatter_tensor": 1, "all_to_all_single": 2, "reduce": 1, "gather": 1,
              "scatter": 1},
    "ddp": {"all_gather": 1, "broadcast": 4, "all_reduce": 7},
    "fsdp2": {"all_gather_into_tensor": 9, "reduce_scatter_tensor": 5},
    "tensor_parallel": {"scatter": 3, "broadcast": 1, "all_reduce": 2},
    "functional": {"all_reduce": 1, "all_gather_into_tensor": 1, "reduce_scatter_tensor": 1,
                   "all_to_all_single": 1},
    "batch": {"isend": 1, "irecv": 1},
    "pipeline": {"isend": 7, "irecv": 7},
    "objects": {"all_gather": 2, "broadcast": 2},
    "zero1": {"broadcast": 8},
    "compiled": {"all_reduce": 1, "all_gather_into_tensor": 1},
}  # fmt: skip
"""What every rank issues. In ``plain`` one side sends and the other receives."""
OTHERS = ("crossed", "opposite", "killed", "hangs", "skips")
OPEN = (
    "ready", "ready_chain", "ready_blocking", "ready_overlapped", "ready_buffers",
    "ready_apart", "ready_sends", "ready_twice",
    "threads", "threads_between", "threads_shared", "decides", "agrees",
)  # fmt: skip


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> Path:
    """Run every job once."""
    folder = tmp_path_factory.mktemp("runs")
    record_jobs(folder, [*SCENARIOS, *OTHERS, *OPEN])
    return folder


@pytest.mark.parametrize("name", SCENARIOS)
def test_both_witnesses_see_the_same(runs, name):
    """Process group and dispatcher write down the same operations, groups and sizes, and the
    counts are those that the library issues.
    """
    for one in read_run(runs / name):
        assert agreement(one.log).is_full, agreement(one.log)
        calls = Counter(e.fields["op"] for e in one.log.entries if e.kind is Kind.CALL)
        expected = dict(SCENARIOS[name])
        if name == "plain":
            expected |= {"isend": 1} if one.log.rank == 0 else {"irecv": 1}
        if name == "pipeline" and torch.__version__.startswith("2.11."):
            # shapes go forward only; later versions send those of the gradients back, too
            expected |= {"irecv": 5} if one.log.rank == 0 else {"isend": 5}
        assert calls == expected


@pytest.mark.parametrize("name", list(SCENARIOS))
def test_a_run_that_ended_in_the_only_order_it_has_is_safe(runs, name):
    """The other executions of these runs end, too, under the model of the backend they ran on."""
    plan = planguard.load(runs / name)
    assert plan.model == "gloo"
    assert planguard.check(plan).safe
    assert recording_of_run(runs / name).is_complete


def test_call_sites_are_the_programs_own(runs):
    """Every call has the line of the program, also where C++ made it."""
    for name in ("ddp", "fsdp2", "pipeline"):
        for one in read_run(runs / name):
            files = {action["src"][0] for action in one.actions if action["op"] != "drop"}
            assert all(Path(file).name.endswith("_worker.py") for file in files), files


def test_a_lucky_run_is_found_out(runs):
    """Two groups in opposite order ended on gloo; where launches are serial they hang."""
    plan = planguard.load(runs / "opposite")
    assert planguard.check(plan, model="gloo").safe
    verdict = planguard.check(plan, model="nccl-serialized")
    assert verdict.unsafe, verdict.outcome


def test_groups_that_only_their_members_make_are_told_from_numbered_ones(tmp_path):
    """Pairs made with `use_local_synchronization` are named by their members: they share no number
    with each other, the next group has the same one on all ranks, and who is no member makes none.
    """
    record_jobs(tmp_path, ["members_alone"], world=4)
    plan = planguard.load(tmp_path / "members_alone")
    for rank, one in enumerate(read_run(tmp_path / "members_alone")):
        made = [
            (action["op"], action["group"])
            for action in one.actions
            if "new" in action["op"] or action["op"] == "init"
        ]
        assert made == [("init", ["0,1", "2,3"][rank // 2]), ("new_group", "0,1,2,3#1")]
    for model in ("gloo", "nccl", "nccl-eager"):
        verdict = planguard.check(plan, model=model)
        assert verdict.safe, verdict.findings


@pytest.mark.parametrize("name", ["killed", "skips"])
def test_a_run_that_ended_badly_is_never_safe(runs, name):
    """What a dead rank wrote is read to its last record, and the rest is not guessed."""
    ranks = read_run(runs / name)
    assert all(one.actions for one in ranks)
    assert not any(one.log.has_ended for one in ranks)
    for model in ("gloo", "nccl"):
        assert planguard.check(planguard.load(runs / name), model=model).outcome is Outcome.UNKNOWN
    assert {gap.code for gap in recording_of_run(runs / name).gaps} == {"PG912"}


def test_the_log_of_a_rank_that_is_gone_is_missed(runs, tmp_path):
    """Without the log of a rank nothing is decided."""
    (first, _) = sorted((runs / "plain").iterdir())
    (tmp_path / first.name).write_bytes(first.read_bytes())
    assert planguard.check(planguard.load(tmp_path)).unknown
    assert "PG911" in {gap.code for gap in recording_of_run(tmp_path).gaps}


# --- the other admissible executions -------------------------------------------------------------


def block(plan: planguard.Plan, rank: int) -> list[dict]:
    """Return the body of the one `unordered` block of a rank."""
    from planguard.plan.flatten import flatten

    actions = flatten(plan)["ranks"][str(rank)]["actions"]
    (found,) = [action for action in actions if action["op"] == "unordered"]
    return found["body"]


def test_calls_carry_their_operator(runs):
    """A call knows the module it stands in, or whose gradient it sends, and the pass."""
    ready = read_run(runs / "ready")[0].actions
    sent = [(one["ns"], one["phase"]) for one in ready if one["op"] == "all_reduce"]
    assert Counter(sent) == {(name, "backward"): 2 for name in ("top", "left", "right")}
    tensor = [one for one in read_run(runs / "tensor_parallel")[0].actions if "ns" in one]
    assert {one["phase"] for one in tensor} == {"forward"}
    assert {one["ns"] for one in tensor} == {"1"}


def test_hooks_on_gradients_are_open_and_the_data_flow_orders_operators(runs):
    """Gradients of one operator are unordered, two towers too; both come after the layer on top."""
    for rank in range(2):
        body = block(planguard.load(runs / "ready"), rank)
        top = {one["id"] for one in body if one["ns"] == "top"}
        assert len(body) == 6
        for one in body:
            assert set(one.get("after", ())) == (set() if one["ns"] == "top" else top)
        assert body[0]["label"].startswith("top.")


@pytest.mark.parametrize(
    ("job", "model", "outcome", "code"),
    [
        ("ready", "gloo", Outcome.MISMATCH, "PG102"),
        ("ready_chain", "gloo", Outcome.SAFE, None),
        ("ready_chain", "nccl", Outcome.SAFE, None),
        ("ready_blocking", "gloo", Outcome.POTENTIAL_DEADLOCK, "PG004"),
        ("ready_overlapped", "gloo", Outcome.SAFE, None),
        ("ready_overlapped", "nccl", Outcome.POTENTIAL_DEADLOCK, "PG004"),
        ("ready_buffers", "gloo", Outcome.UNKNOWN, None),
        ("ready_apart", "gloo", Outcome.UNKNOWN, None),
        ("ready_twice", "gloo", Outcome.MISMATCH, "PG102"),
    ],
)
def test_a_run_that_finished_is_decided_in_its_other_orders(runs, job, model, outcome, code):
    """What a finished run would do in another order of its gradients is found out, or left open;
    in the order that it had, it is safe.
    """
    verdict = planguard.check(planguard.load(runs / job), model=model)
    assert verdict.outcome is outcome
    if code is not None:
        assert code in {finding.code for finding in verdict.errors}
        assert {finding.certainty for finding in verdict.errors} == {"some-execution"}
    if model == "gloo":
        assert planguard.check(planguard.load(runs / job, order="recorded")).safe


def test_hooks_may_exchange_messages_in_launches(runs):
    """A launch has no group of its own; one that follows a pass stands outside of it."""
    plan = planguard.load(runs / "ready_sends")
    assert [action["op"] for action in json.loads(plan.source)["ranks"]["0"]["actions"]][-1] == (
        "batch")  # fmt: skip
    assert not planguard.check(plan).errors


def test_the_other_order_of_a_finished_run_hangs_on_real_processes(runs):
    """The witness of a run that ended, played on gloo, gets stuck where it is predicted."""
    plan = planguard.load(runs / "ready_blocking")
    verdict = planguard.check(plan)
    result = planguard.replay(plan, verdict.witness, timeout=2.0, model="gloo")
    assert result.reproduced, result.reason


@pytest.mark.parametrize("job", ["threads", "threads_shared"])
def test_the_order_among_threads_is_not_taken_for_granted(runs, job):
    """Calls of several threads are interleaved freely, or undecided; never taken as recorded. Two
    threads with a group each are safe where a call blocks its thread alone, and not on one queue;
    on one group, with an order that start and join do not tell, nothing is decided.
    """
    (plan, ranks) = planguard.load(runs / job), read_run(runs / job)
    assert all(len({n for n in one.marks.threads.values() if n}) > 1 for one in ranks)
    assert planguard.check(plan, model="gloo").safe is (job == "threads")
    assert not planguard.check(plan, model="nccl").safe
    assert "host-threads" in {one.kind for one in plan.approximations}


def test_threads_are_side_by_side_between_their_start_and_their_end_only(runs):
    """A thread and a task of a pool with a group of their own, as an asynchronous checkpoint has:
    calls before the start and behind the join, or the result, stay outside, also those on the same
    group; the run is safe on gloo. A second join changes nothing.
    """
    plan = planguard.load(runs / "threads_between")
    for rank in ("0", "1"):
        actions = json.loads(plan.source)["ranks"][rank]["actions"]
        kinds = [action["op"] for action in actions]
        assert kinds == ["new_group", "all_reduce", "threads", "all_reduce", "threads", "barrier"]
        for block in (actions[2], actions[4]):
            assert sorted(len(thread) for thread in block["threads"]) == [1, 2]
    assert planguard.check(plan).safe


def test_a_decision_on_a_value_is_a_finding_with_its_place(runs):
    """What is compared or tested is PG110 at its line, what is printed is not; both ranks say it
    once, and the values of the run are real, so that its outcome stands.
    """
    verdict = planguard.check(planguard.load(runs / "decides"))
    assert verdict.outcome is Outcome.SAFE
    found = [finding for finding in verdict.findings if finding.code == "PG110"]
    assert [finding.severity for finding in found] == ["warning", "warning"]
    source = (Path(__file__).parent / "recorder_worker.py").read_text().splitlines()
    lines = sorted(int(one.message.split("recorder_worker.py:")[1].split(";")[0]) for one in found)
    assert source[lines[0] - 1].strip() == "total = x.item()"
    assert source[lines[1] - 1].strip() == "if total > 1 and (x > 0).all():"


def test_what_all_ranks_share_is_no_decision_of_one(runs):
    """Results of collectives of all ranks, views of them and what is computed from them lead all
    ranks alike: the ledger says so, and nothing warns. Results on another group, and a value that
    was changed afterwards, are warned of as before.
    """
    plan = planguard.load(runs / "agrees")
    verdict = planguard.check(plan)
    assert verdict.safe
    source = (Path(__file__).parent / "recorder_worker.py").read_text().splitlines()

    def lines(texts):
        found = {int(text.split("recorder_worker.py:")[1].split(";")[0]) for text in texts}
        return [source[line - 1].strip() for line in sorted(found)]

    warned = lines(one.message for one in verdict.findings if one.code == "PG110")
    assert [line.partition(":")[0] for line in warned] == ["if pair.item() > 0", "if x > 0"]
    shared = lines(one.message for one in plan.approximations if one.kind == "agreed-branch")
    assert len(shared) == 2
    assert shared[1] == "if kept:"


def test_a_launch_is_one_for_a_log_with_two_witnesses(runs):
    """The second account does not cut a launch into pieces: 1F1B is safe on one queue, too."""
    assert planguard.check(planguard.load(runs / "pipeline"), model="nccl").safe


def test_an_order_that_does_not_exist_is_refused(runs):
    """A misspelt option is one clear error."""
    with pytest.raises(UsageError, match="no order 'random'"):
        planguard.load(runs / "ready", order="random")


# --- the same logs in an audit -------------------------------------------------------------------


def test_an_audit_reads_the_logs_of_a_run_by_their_content(runs, capsys):
    """A run that hung and was killed: the round in which the ranks stood, with both call sites."""
    from planguard.cli import main

    assert main(["audit", str(runs / "hangs")]) == 1
    said = capsys.readouterr().out
    assert "rank 1 calls barrier where rank 0 calls all_reduce (round 3" in " ".join(said.split())
    assert said.count("recorder_worker.py:") >= 2
    assert main(["audit", str(runs / "plain")]) == 0


@pytest.mark.parametrize("job", ["ready", "threads_shared", "killed", "skips"])
def test_an_audit_of_a_run_with_open_orders_or_a_bad_end_is_never_safe(runs, job):
    """Only the order that was recorded is judged, and the answer says so."""
    assert not planguard.audit(str(runs / job)).safe
