"""Where no rank can tell what the others were given, few plays decide for every assignment."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from planguard.capture import precheck

WORLD, SAMPLES = 4, [1, 2, 3]  # 81 assignments: more than are all played
ENOUGH = 3


@pytest.fixture(autouse=True)
def nobody_chose_a_seed():
    """Whoever ran before in this process may have: then dice are the same on every rank."""
    torch.seed()


def check(step, *, world=WORLD, samples=SAMPLES, **options):
    """Check a step for any of the samples."""
    options = {"most_assignments": 8, **options}
    one = precheck(world, samples=samples, on_unsafe="return", **options)
    one.run(step)
    return one


def said(one):
    """Return what the ledger says of the assignments."""
    return next(a.message for a in one.verdict.approximations if a.kind == "samples")


def same_calls(sample):
    """Issue the same, and send the same, for every sample."""
    torch.manual_seed(0)
    flag = torch.tensor(1)
    dist.all_reduce(flag)
    dist.all_reduce(torch.rand(4096) * sample)


def sends_its_sample(sample):
    """Issue the same, and send its sample: another rank might act on it."""
    dist.all_reduce(torch.tensor(sample))


def three_at_once(sample):
    """Go wrong only where one rank has 1, one 2 and another 3, by what they hear."""
    total = torch.tensor([sample == 1, sample == 2, sample == 3], dtype=torch.int64)
    dist.all_reduce(total)
    if (total > 0).all() and dist.get_rank() == 0:
        dist.barrier()


def other_calls(sample):
    """Issue as many calls as the sample says."""
    for _ in range(sample):
        dist.all_reduce(torch.ones(4096))


def by_a_file(sample, folder):
    """Tell others by a file: rank 0 writes what it has, and they act on it."""
    path = Path(folder) / "first"
    if dist.get_rank() == 0:
        path.write_text(str(sample))
    dist.barrier()
    found = int(path.read_text())
    if found == 1 and sample == 3:
        dist.all_reduce(torch.ones(1))


def with_a_clock(sample):
    """Look at the clock and say nothing of it."""
    time.time()
    same_calls(sample)


def unseeded(sample):
    """Draw numbers that no seed makes the same."""
    dist.all_reduce(torch.rand(4096) * sample)


def test_ranks_that_say_the_same_need_every_sample_once():
    """Three plays decide 81 assignments, and the ledger says which and why they are enough."""
    one = check(same_calls)
    assert one.verdict.safe
    assert len(one.assignments) == ENOUGH
    assert set(one.assignments) == {(0, 0, 0, 0), (1, 1, 1, 2), (2, 2, 2, 1)}
    assert "no rank can tell what the others have" in said(one)
    assert "3 of 81 assignments" in said(one)


@pytest.mark.parametrize("step", [sends_its_sample, three_at_once, unseeded])
def test_what_ranks_may_hear_or_draw_is_played(step):
    """A value that depends on the sample and travels, or chance, leaves the cover to be played."""
    one = check(step)
    assert len(one.assignments) > ENOUGH
    assert one.verdict.unsafe or "no rank can tell" not in said(one)


def test_other_calls_for_another_sample_are_found():
    """Ranks that say nothing but issue other calls go wrong as soon as samples are mixed."""
    assert check(other_calls).verdict.unsafe


def test_a_file_between_ranks_is_no_argument():
    """Ranks that tell each other by a file are played in every assignment of the cover."""
    with tempfile.TemporaryDirectory() as folder:
        one = check(lambda sample: by_a_file(sample, folder))
        assert len(one.assignments) > ENOUGH
        assert one.verdict.unsafe


def test_a_question_to_the_clock_that_decides_nothing_is_no_obstacle():
    """What was asked of the clock was answered otherwise, and the ranks did the same."""
    one = check(with_a_clock)
    assert one.verdict.safe
    assert len(one.assignments) == ENOUGH


def test_few_assignments_are_all_played():
    """Up to the limit nothing is argued: every assignment is played."""
    one = check(same_calls, world=2, most_assignments=64)
    assert len(one.assignments) == len(SAMPLES) ** 2
