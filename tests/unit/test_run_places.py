"""Logs of processes that communicate without a process group, and words of a program that ends."""

from __future__ import annotations

import json

import pytest

from planguard import audit
from planguard.capture.play.quiet_ends import Said
from planguard.capture.run.log import BACKEND_NOTE, Kind, RunLogWriter
from planguard.capture.run.ranks import read_run
from planguard.capture.run.reading import plan_of_run
from planguard.cli.stub import read_torchrun
from planguard.engine import check_plan
from planguard.errors import UsageError
from planguard.execution.findings.undecided import UNSEEN


def write(folder, rank, world, line, *, has_group=False):
    """Write the log of a process that came to its end, with one entry of the ledger."""
    log = RunLogWriter(folder, rank, world, has_group=has_group)
    notes = [[UNSEEN, f"remote calls at {line}", "under"]]
    for note in [*notes, *([[BACKEND_NOTE, "gloo", "exact"]] if has_group else [])]:
        log.small(Kind.NOTE, log.string(json.dumps(note)))
    if has_group:
        more = {"group": log.string(json.dumps(",".join(map(str, range(world))))), "fields": {}}
        log.call(Kind.CALL, "barrier", work=0, stack=0, batch=0, **more)
        log.small(Kind.DONE, 0)
    log.end()
    log.path.rename(folder / f"{log.path.stem}-{line}.pgrun")  # as of another process


def test_places_without_a_group_are_the_ranks_where_nobody_made_one(tmp_path):
    """Of workers that join as they come the largest number of ranks counts, and two backends that
    both count from 0 share a rank: UNKNOWN with every line, and what to do.
    """
    for rank, world, line in ((0, 1, "a"), (1, 2, "b"), (0, 2, "c")):
        write(tmp_path, rank, world, line)
    assert [one.log.world_size for one in read_run(tmp_path)] == [2, 2]
    verdict = check_plan(plan_of_run(tmp_path))
    assert verdict.unknown
    assert [line for line in "abc" if f"remote calls at {line}" in verdict.reasons] == [*"abc"]
    assert "not decided here" in verdict.findings[0].help


def test_places_beside_a_group_are_no_ranks_of_it(tmp_path):
    """The job is that of the group, whatever numbers the others have; what they said leaves it
    open.
    """
    write(tmp_path, 0, 1, "a", has_group=True)
    write(tmp_path, 0, 4, "b")
    write(tmp_path, 3, 4, "c")
    (one,) = read_run(tmp_path)
    assert one.log.world_size == 1
    assert {text for kind, text, _ in one.notes if kind == UNSEEN} == {
        f"remote calls at {line}" for line in "abc"
    }
    assert check_plan(plan_of_run(tmp_path)).unknown
    verdict = audit(tmp_path)
    assert verdict.unknown
    assert not verdict.errors
    assert verdict.stats.ranks == 1


def test_an_audit_of_what_was_not_seen_is_not_safe(tmp_path):
    """All ranks came to their end and their calls agree: the line of the remote calls is why that
    is not SAFE.
    """
    for rank in range(2):
        write(tmp_path, rank, 2, "a", has_group=True)
    verdict = audit(tmp_path)
    assert verdict.unknown
    assert any("remote calls at a" in reason.message for reason in verdict.findings)


def test_a_warning_is_not_what_a_program_said_last():
    """Python writes a warning and its line of source at once; what stood before it is kept."""
    said = Said()
    said.hear("too few GPUs\n")
    said.hear("/lib/torch/x.py:97: DeprecationWarning: old\n  optim = _Script(cls,\n")
    assert said.line == "too few GPUs"
    said.hear("train.py:3: the Warning: light is on\n")
    assert said.line == "train.py:3: the Warning: light is on"


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("python", "mp_spawn.py", "2 1"), "torchrun --nproc-per-node N mp_spawn.py '2 1', also"),
        (("mpirun", "a.out"), "torchrun --nproc-per-node 8 x.py"),
    ],
)
def test_a_command_that_is_no_torchrun_is_shown_as_one(words, hint):
    """With the script and its arguments, where it has one."""
    with pytest.raises(UsageError) as caught:
        read_torchrun(words)
    assert caught.value.hint.startswith(hint)
