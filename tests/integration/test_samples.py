"""A step decided for any samples on any ranks, against what real gloo processes did."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from planguard import Outcome, UnsafePlanError
from planguard.capture import assert_collectives_agree, precheck
from planguard.errors import UsageError

pytestmark = [
    pytest.mark.processes,
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.timeout(300),
]
ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = ROOT / "tests" / "divergence" / "programs"
FEW = [
    "a_fstring_key",  # hangs on the rank as well as on the sample
    "a_gathered_objects",  # decides on an object that travelled
    "a_max_then_range",
    "a_numpy_round_trip",
    "a_reduced_scatter",  # some samples fail on all ranks
    "c_early_return",
    "c_one_raises",
    "c_store_key",
]


def others():
    """Return the other programs; asked by a function at import, it is not asked again in plays."""
    return sorted({path.stem.rpartition("_")[0] for path in PROGRAMS.glob("*.py")} - set(FEW))


SLOW = others()


def measuring():
    """Return benchmarks/divergence.py, which is no package."""
    file = ROOT / "benchmarks" / "divergence.py"
    spec = importlib.util.spec_from_file_location("divergence_measure", file)
    module = importlib.util.module_from_spec(spec)
    sys.modules["divergence_measure"] = module
    spec.loader.exec_module(module)
    return module


MEASURE = measuring()


def judged(name):
    """Assert that a bug and its fix are told for any samples, and that the bug's line is named."""
    for end in ("bug", "fix"):
        row = MEASURE.by_any(PROGRAMS / f"{name}_{end}.py")
        if row.program == "a_max_then_range_bug":  # reduce promises nothing off the root
            assert row.said == "UNKNOWN"
            continue
        assert row.kind == "right", row
        assert end == "fix" or row.by == "decision", row


@pytest.mark.parametrize("name", FEW)
def test_a_program_is_decided_for_any_samples(name):
    """Unsafe if and only if some assignment does not end, from job and samples alone."""
    judged(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", SLOW)
def test_every_program_is_decided_for_any_samples(name):
    """The same for the rest."""
    judged(name)


def uneven(rows):
    """Communicate once a row."""
    total = torch.zeros(1)
    for row in rows:
        total += row
        dist.all_reduce(total)


def agreed(rows):
    """Agree on the number of rows first."""
    count = torch.tensor(len(rows))
    dist.all_reduce(count, dist.ReduceOp.MAX)
    if len(rows) == count.item():
        loss = torch.ones(1) * 2
        dist.all_reduce(loss)
    else:
        idle = torch.zeros(1)
        dist.all_reduce(idle)


def told(step, samples, world_size, **options):
    """Return the check of a step, decided."""
    check = precheck(world_size, samples=samples, on_unsafe="return", model="gloo", **options)
    check.run(step)
    return check


def line_of(function, text):
    """Return the number of a line of a function, by its words."""
    lines = Path(__file__).read_text().splitlines()
    first = function.__code__.co_firstlineno
    return next(n for n, line in enumerate(lines[first:], first + 1) if text in line)


def test_a_finding_names_samples_calls_and_the_deciding_line():
    """Text and JSON have the assignment, the two calls that differ, the line, and both branches."""
    verdict = told(uneven, [[1.0], [1.0, 2.0]], 2).verdict
    assert verdict.unsafe
    notes = verdict.to_json()["findings"][0]["notes"]
    decided = line_of(uneven, "for row in rows")
    assert "samples: rank 0 with sample 0 ([1.0]); rank 1 with sample 1 ([1.0, 2.0])" in notes
    (line,) = (note for note in notes if note.startswith("decided at "))
    assert f"{__file__}:{decided} in uneven: rank 0 ends there, rank 1 goes on at" in line
    (first,) = (note for note in notes if note.startswith("first call that differs"))
    assert "rank 0 issues no further one, rank 1 all_reduce of 1 f32 at" in first
    assert f":{decided + 2}" in first
    assert "decided at" in str(verdict)


def test_ranks_that_take_other_branches_and_agree_are_safe():
    """A stand-in on the other branch is no difference; all assignments are said to be played."""
    check = told(agreed, [[1.0], [1.0, 2.0], []], 2)
    assert check.verdict.safe
    assert len(check.assignments) == 9
    (entry,) = (a for a in check.verdict.approximations if a.kind == "samples")
    assert entry.message.startswith("all 9 assignments of 3 samples to 2 ranks")


def stands_in_then_parts(rows):
    """Take other branches by right, and later by mistake."""
    loss = torch.ones(1)
    if len(rows) > 1:
        dist.all_reduce(loss)
    else:
        idle = torch.zeros(1)
        dist.all_reduce(idle)
    dist.barrier()
    if rows:
        dist.all_reduce(loss)
    dist.all_reduce(torch.ones(1))


def test_a_parting_without_consequence_is_walked_over():
    """The line told is the one behind which the calls differ, not the first that differs."""
    verdict = told(stands_in_then_parts, [[1.0, 2.0], []], 2).verdict
    (line,) = (n for n in verdict.findings[0].notes if n.startswith("decided at "))
    assert f":{line_of(stands_in_then_parts, 'if rows:')} in" in line


def checked(row):
    """Refuse a row, two calls below the handler."""
    if row < 0:
        raise ValueError("bad row")
    return torch.ones(1) * row


def catches_alone(rows):
    """Skip a row that only this rank refuses."""
    for row in rows:
        try:
            loss = torch.stack([checked(one) for one in [row]])
        except ValueError:
            continue
        dist.all_reduce(loss)


def test_who_catches_an_exception_decides():
    """The line told is the ``except``; the line that raised is named beside it."""
    verdict = told(catches_alone, [[1.0, 2.0], [1.0, -2.0]], 2).verdict
    (line,) = (n for n in verdict.findings[0].notes if n.startswith("decided at "))
    assert f":{line_of(catches_alone, 'except ValueError')} in catches_alone" in line
    assert f":{line_of(catches_alone, 'continue')}" in line
    assert f"caught what {__file__}:{line_of(checked, 'raise ValueError')} raises" in line


def issues_then_raises(row):
    """Communicate, and refuse the row in between."""
    dist.all_reduce(torch.ones(1))
    if row < 0:
        raise ValueError("bad row")
    dist.all_reduce(torch.ones(2))


def catches_behind_a_call(rows):
    """Catch what left a function in the middle of its calls."""
    for row in rows:
        try:
            issues_then_raises(row)
        except ValueError:
            continue


def test_an_exception_between_calls_is_decided_where_it_is_raised():
    """Calls of the function itself differ: the branch in it is the decision, not the handler."""
    verdict = told(catches_behind_a_call, [[1.0], [-2.0]], 2).verdict
    (line,) = (n for n in verdict.findings[0].notes if n.startswith("decided at "))
    assert f":{line_of(issues_then_raises, 'if row < 0')} in issues_then_raises" in line


class Launcher:
    """Knows the rank, as the environments of trainers do: each of them only asks the next one."""

    def __init__(self, inner=None):
        self.inner = inner

    @property
    def rank(self):
        return self.asked()

    def asked(self):
        return dist.get_rank() if self.inner is None else self.inner.rank


def asks_a_launcher(rows):
    """Reduce on rank 0 alone."""
    for _ in rows:
        if Launcher(Launcher()).rank == 0 and len(rows) > 1:
            dist.all_reduce(torch.ones(1))
        dist.all_reduce(torch.ones(2))


def test_who_asks_for_the_rank_decides():
    """Not the last of the functions that hand the answer on, none of which has a further line."""
    verdict = told(asks_a_launcher, [[1, 2]], 2).verdict
    assert verdict.unsafe
    (line,) = (n for n in verdict.findings[0].notes if n.startswith("decided at "))
    number = line_of(asks_a_launcher, "Launcher(Launcher())")
    assert f"test_samples.py:{number} in asks_a_launcher: rank 0 goes on at" in line


def guesses_splits(counts):
    """Expect from each rank what is sent to it."""
    send = torch.tensor(counts)
    box = torch.empty(int(send.sum()))
    dist.all_to_all_single(
        box,
        torch.ones(sum(counts)),
        send.tolist(),
        counts,
    )


def test_splits_that_are_computed_in_the_call_are_decided_there():
    """Not the buffer beside them, which was set before. In a process of its own, as users have it:
    behind a thousand other tests the second play of the step now and then tells no line.
    """
    script = (
        "import importlib.util, sys\n"
        f"spec = importlib.util.spec_from_file_location('own_samples', {__file__!r})\n"
        "own = sys.modules['own_samples'] = importlib.util.module_from_spec(spec)\n"
        "spec.loader.exec_module(own)\n"
        "found = own.told(own.guesses_splits, [[1, 2], [2, 1], [1, 1]], 2).verdict.findings[0]\n"
        "print(*found.notes, sep='\\n')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=100, check=True
    )
    (line,) = (note for note in done.stdout.splitlines() if note.startswith("decided at "))
    first = line_of(guesses_splits, "dist.all_to_all_single(")
    assert any(f":{first + more} in guesses_splits" in line for more in range(5)), line


def test_an_undecided_assignment_leaves_the_step_undecided_unless_one_is_unsafe():
    """UNKNOWN names its assignment; an unsafe one behind it is found all the same."""

    def step(sample):
        value = torch.tensor(2)
        dist.reduce(value, dst=0)  # promises nothing to rank 1
        if sample == "reads" and value.item() == 7:
            dist.barrier()
        if sample == "odd":
            dist.all_reduce(torch.ones(1))
        dist.barrier()

    verdict = told(step, ["plain", "reads"], 2).verdict
    assert verdict.unknown
    assert "with sample 1 ('reads')" in verdict.reasons[0]
    with pytest.raises(UnsafePlanError):
        precheck(2, samples=["plain", "reads"], model="gloo").run(step)
    allowed = precheck(2, samples=["plain", "reads"], model="gloo", allow_unknown=True)
    assert allowed.run(step).unknown
    assert told(step, ["reads", "plain", "odd"], 2).verdict.unsafe


def test_a_cover_says_what_was_played_and_an_early_end_is_undecided():
    """SAFE with the cover in the ledger; UNKNOWN where the time ends before its base."""

    def step(sample):
        dist.all_reduce(torch.tensor(sample))  # so that ranks could tell what others have

    samples = [1, 2]
    check = told(step, samples, 4, most_assignments=10)
    assert check.verdict.safe
    (entry,) = (a for a in check.verdict.approximations if a.kind == "samples")
    assert entry.message.startswith(f"{len(check.assignments)} of 16 assignments")
    assert "every two samples on every two ranks" in entry.message
    late = told(step, samples, 4, most_assignments=10, budget=0.0)
    assert late.verdict.outcome is Outcome.UNKNOWN
    assert len(late.assignments) == 1
    assert "budget" in late.verdict.reasons[0]


def test_every_assignment_starts_with_samples_nobody_has_touched():
    """A step that changes its sample, or memory shared by processes, changes only its own copy."""
    shared = torch.zeros(1).share_memory_()

    def step(sample):
        rows, counter = sample
        counter += 1
        rows.append(0)
        assert counter.item() == 1
        assert len(rows) == 1
        dist.all_reduce(torch.ones(1))

    assert told(step, [([], shared), ([], shared)], 2).verdict.safe
    assert shared.item() == 0


@pytest.mark.parametrize("compute", ["real", "stub"])
def test_large_samples_keep_their_values(compute):
    """They are copied before anything is left undone, and without the threads of the caller."""

    def step(sample):
        if int((sample > 0).sum().item()):
            dist.barrier()

    samples = [torch.zeros(300_000), torch.ones(300_000)]
    assert samples[1].sum() > 0  # the caller's thread pool is there
    assert told(step, samples, 2, compute=compute, timeout=60.0).verdict.unsafe


def test_an_assignment_in_which_nobody_communicates_agrees():
    """Where all ranks have nothing to do, nothing can disagree; the ledger says so."""

    def step(work):
        if work is not None:
            dist.barrier()

    assert told(step, [None], 2).verdict.unknown  # nothing to check at all

    def by_rank(seconds):
        if seconds is not None and dist.get_rank() >= 0:
            dist.barrier()

    assert told(by_rank, [None, 1], 2).verdict.unsafe

    def by_store(work):
        store = dist.distributed_c10d._get_default_store()
        store.set(f"work/{dist.get_rank()}", str(work))
        if all(store.get(f"work/{rank}") == b"1" for rank in range(2)):
            dist.barrier()

    verdict = told(by_store, [0, 1], 2).verdict
    assert verdict.safe
    (entry,) = (a for a in verdict.approximations if a.kind == "samples")
    assert "where all ranks have sample 0" in entry.message
    assert "none communicates" in entry.message


def test_a_rank_that_raises_is_told_with_its_sample_and_its_line():
    """Nobody waits for it, so it is an error of the step; else it is the verdict."""

    def step(sample):
        dist.barrier()
        if sample < 0:
            raise ValueError("bad shard")

    with pytest.raises(UsageError, match=r"bad shard.*raised at .*rank 1 with sample 1 \(-3\)"):
        told(step, [4, -3], 2)


def test_the_assertion_has_the_diagnostic():
    """An AssertionError with the text for a test runner; the verdict where all is well."""
    assert assert_collectives_agree(agreed, [[1.0], []], 2, model="gloo").safe
    with pytest.raises(AssertionError, match=r"(?s)do not agree.*decided at"):
        assert_collectives_agree(uneven, [[1.0], []], 2, model="gloo")


def test_bad_samples_are_refused():
    """An empty list, something that is no list, and the block form are errors of usage."""
    for samples in ([], "ab", torch.ones(3)):
        with pytest.raises(UsageError, match="samples is a list"):
            precheck(2, samples=samples)
    with pytest.raises(UsageError, match="takes no sample"), precheck(2, samples=[1]):
        pass


def test_sixteen_assignments_take_seconds(tmp_path, monkeypatch):
    """All assignments of 4 samples on 2 ranks; the goal is 3 s on a quiet machine. Processor time
    is bounded here, of this process and its forks: a wall clock measures the neighbors. The step
    has a module of its own: what this one asks at its import is played in every assignment.
    """
    head = "import torch\nimport torch.distributed as dist\n\n"
    (tmp_path / "step_of_seconds.py").write_text(head + inspect.getsource(agreed))
    monkeypatch.syspath_prepend(tmp_path)
    step = importlib.import_module("step_of_seconds").agreed
    start = sum(os.times()[:4])
    check = told(step, [[1.0] * n for n in range(4)], 2)
    assert len(check.assignments) == 16
    assert json.dumps(check.verdict.to_json())
    assert sum(os.times()[:4]) - start < 20
