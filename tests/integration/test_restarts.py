"""A job that its launcher starts anew is played as the next start, too, where it asks which it is.

``torchrun --max-restarts``: TORCHELASTIC_RESTART_COUNT is 0 at the first start, 1 at the second.
"""

from __future__ import annotations

import os

import pytest

import planguard
from planguard.verdict import Outcome

torch = pytest.importorskip("torch")
dist = pytest.importorskip("torch.distributed")

from planguard.capture import precheck  # noqa: E402 - torch must be there
from planguard.capture.play.odd_data import with_odd_plays  # noqa: E402 - same
from planguard.capture.play.ranks import Play  # noqa: E402 - same
from planguard.capture.restarts import KIND, RESTARTS  # noqa: E402 - same


def decide(job):
    """Play a job on two ranks and give its verdict."""
    return precheck(2, model="gloo", on_unsafe="return", timeout=60.0, ranks="all").run(job)


def loads(ranks):
    """Return a job that loads a checkpoint on some ranks when it is started anew."""

    def job():
        dist.init_process_group("gloo")
        again = int(os.environ.get(RESTARTS, "0"))
        if again and dist.get_rank() in ranks:
            dist.broadcast(torch.zeros(4), 0)
        dist.all_reduce(torch.zeros(4))

    return job


def test_one_rank_that_does_not_load_after_a_restart_is_found():
    """The first start agrees, so that it alone would be a wrong SAFE."""
    verdict = decide(loads({0}))
    assert verdict.outcome is Outcome.MISMATCH


def test_a_broadcast_of_other_sizes_does_not_end_the_played_process():
    """What DDP would take for indices of its buckets is the length of an object: as indices its
    C++ ends the process (a segmentation fault), and the start that hangs was not told.
    """

    def job():
        dist.init_process_group("gloo")
        layers = torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4)
        model = torch.nn.parallel.DistributedDataParallel(torch.nn.Sequential(*layers))
        if dist.get_rank() == 0:
            dist.broadcast_object_list([False], src=0)
        for _ in range(2):
            model(torch.ones(2, 16)).sum().backward()

    verdict = decide(job)
    assert verdict.outcome is Outcome.MISMATCH
    assert "PG201" in {finding.code for finding in verdict.findings}


def test_a_restart_that_agrees_is_safe_and_said():
    """Both starts agree; that the second was played stands in the ledger."""
    play = Play(2, timeout=60.0, is_every=True)
    job = loads({0, 1})
    play.run(lambda _: job())
    decided = with_odd_plays(play, lambda one: planguard.check(one.plan(model="gloo")))
    assert decided is play
    verdict = planguard.check(play.plan(model="gloo"))
    assert verdict.outcome is Outcome.SAFE
    said = [note.message for note in verdict.approximations if note.kind == KIND]
    assert len(said) == 1
    assert "played as start 1" in said[0]
    assert "test_restarts.py" in said[0]


def test_a_start_that_cannot_be_played_leaves_the_job_open():
    """It raises when it is started anew (its file is not here): that is no answer."""

    def job():
        dist.init_process_group("gloo")
        if os.environ.get(RESTARTS) == "1":
            raise FileNotFoundError("model.pt")
        dist.all_reduce(torch.zeros(4))

    verdict = decide(job)
    assert verdict.outcome is Outcome.UNKNOWN
    assert any(RESTARTS in reason for reason in verdict.reasons)


def test_a_played_rank_finds_what_torchrun_tells(monkeypatch):
    """The count is there without a default, and one that the user set is kept."""
    told = []

    def job():
        dist.init_process_group("gloo")
        told.append(os.environ[RESTARTS])
        if os.environ[RESTARTS] == "0":
            dist.barrier()
            dist.all_reduce(torch.zeros(2 + dist.get_rank()))
        dist.barrier()

    assert decide(job).outcome is Outcome.MISMATCH
    monkeypatch.setenv(RESTARTS, "4")
    assert decide(job).outcome is Outcome.SAFE
    assert os.environ[RESTARTS] == "4"


def test_a_restart_that_leaves_an_object_waiting_is_shown():
    """Nobody sends what rank 1 waits for as the second start: never SAFE, and the line is there."""

    def job():
        dist.init_process_group("gloo")
        if os.environ.get(RESTARTS) == "1" and dist.get_rank() == 0:
            dist.broadcast_object_list([None], src=0)
        dist.all_reduce(torch.zeros(4))

    verdict = decide(job)
    assert verdict.outcome in (Outcome.UNKNOWN, Outcome.MISMATCH)
    assert any(finding.code == "PG201" for finding in verdict.findings)
