"""The recorder on real gloo processes: both witnesses, plans of runs, runs that end badly."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

import planguard
from planguard import Outcome
from planguard.capture.run_log import Kind

pytestmark = pytest.mark.processes
pytest.importorskip("torch")

from recorder_worker import record_jobs  # noqa: E402

from planguard.capture.dispatch import agreement  # noqa: E402
from planguard.capture.run_reading import read_run, recording_of_run  # noqa: E402

SCENARIOS = {
    "plain": {"barrier": 1, "all_reduce": 3, "broadcast": 1, "all_gather": 1,
              "all_gather_into_tensor": 1,
              "reduce_scatter_tensor": 1, "all_to_all_single": 1, "reduce": 1, "gather": 1,
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
OTHERS = ("crossed", "opposite", "killed", "skips")


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> Path:
    """Run every job once."""
    folder = tmp_path_factory.mktemp("runs")
    record_jobs(folder, [*SCENARIOS, *OTHERS])
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
