"""Whole training loops with declared loaders: what ends alike is SAFE, what does not is told."""

from __future__ import annotations

import itertools

import pytest
import torch
import torch.distributed as dist
from torch.distributed.algorithms.join import Join
from torch.nn.parallel import DistributedDataParallel

from planguard import Outcome
from planguard.capture import assert_collectives_agree, precheck

pytestmark = [
    pytest.mark.processes,
    pytest.mark.wheel,
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.timeout(300),
]


def decided(loop, *args, world_size=2, **options):
    """Return the verdict of a loop, whatever it is."""
    return precheck(world_size, on_unsafe="return", **options).run(loop, *args)


def once():
    """Communicate."""
    dist.all_reduce(torch.ones(1))


def train(loader):
    """Train as long as there are batches."""
    model = DistributedDataParallel(torch.nn.Linear(4, 4))
    for batch in loader:
        model(torch.ones(2, 4) * float(batch)).sum().backward()


def train_joined(loader):
    """Train, and go along when through."""
    model = DistributedDataParallel(torch.nn.Linear(4, 4))
    with Join([model]):
        for batch in loader:
            model(torch.ones(2, 4) * float(batch)).sum().backward()


def test_a_shorter_loader_is_told_with_its_line():
    """The rank whose data ends first, after how many batches, and the line of its loop."""
    verdict = decided(train, steps_per_rank=[4, 3])
    assert verdict.outcome is Outcome.DEADLOCK
    line = train.__code__.co_firstlineno + 3
    notes = verdict.findings[0].notes
    assert f"rank 1's loader ends after 3 batches, {__file__}:{line}; rank 0's goes on" in notes
    assert any(one.startswith(f"decided at {__file__}:{line} in train") for one in notes)
    assert decided(train, steps_per_rank=[3, 3]).safe


def test_join_is_a_fix():
    """DDP's Join lets a rank that is through go along: uneven loaders end well."""
    verdict = decided(train_joined, steps_per_rank=[4, 3])
    assert verdict.safe, verdict


def test_lengths_are_any_rank_s():
    """Every rank may have each of them; agreeing on the least is a fix."""

    def bug(loader):
        for _ in loader:
            once()

    def fix(loader):
        least = torch.tensor(len(loader))
        dist.all_reduce(least, dist.ReduceOp.MIN)
        for _ in itertools.islice(loader, int(least)):
            once()

    assert decided(bug, lengths=[3, 2]).unsafe
    assert decided(bug, lengths=[3]).safe
    assert decided(fix, lengths=[3, 2, 0]).safe
    assert_collectives_agree(fix, [1.0], 2, lengths=[2, 1])


def test_named_loaders_come_by_name():
    """Epochs of a training and a validation loader: the one that is uneven is told."""

    def epochs(times, train, val):
        for _ in range(times):
            for _ in train:
                once()
            for _ in val:
                once()

    bad = decided(epochs, 2, steps_per_rank={"train": [3, 3], "val": [2, 1]})
    assert bad.unsafe
    line = epochs.__code__.co_firstlineno + 4
    assert any(f"ends after 1 batch, {__file__}:{line}" in one for one in bad.findings[0].notes)
    assert decided(epochs, 2, steps_per_rank={"train": [3, 3], "val": [2, 2]}).safe


def test_samples_come_alone_and_in_turn():
    """A step that goes wrong only when a batch follows one of another kind is met."""

    def on_change(loader):
        last = None
        for batch in loader:
            if last is not None and batch != last:
                once()
            last = batch
        once()

    assert decided(on_change, steps_per_rank=[3, 3], samples=["text"]).safe
    assert decided(on_change, steps_per_rank=[3, 3], samples=["text", "image"]).unsafe


def test_early_stopping_by_its_own_loss_is_told_and_an_agreed_one_is_safe():
    """A rank that leaves its loop alone leaves the others waiting."""

    def stop(loader, agree):
        for loss in loader:
            once()
            flag = torch.tensor(float(loss > 2))
            if agree:
                dist.all_reduce(flag, dist.ReduceOp.MAX)
            if flag.item():
                break

    options = {"steps_per_rank": [4, 4], "samples": [1.0, 3.0]}
    assert decided(stop, False, **options).unsafe
    assert decided(stop, True, **options).safe


def test_a_bound_is_declared_and_doubted_where_rounds_do_not_repeat():
    """Ten rounds of a thousand stand for all where they repeat; else the answer stays open."""

    def every(loader, number):
        for step, _ in enumerate(loader):
            once()
            if step % number == number - 1:
                dist.barrier()

    even = {"steps_per_rank": [1000, 1000]}
    assert decided(every, 3, rounds=12, **even).safe
    for number, rounds in ((5, 12), (12, 12)):  # no divisor of the bound; less than three times
        verdict = decided(every, number, rounds=rounds, **even)
        assert verdict.outcome is Outcome.UNKNOWN
        assert f"rounds={rounds}" in verdict.reasons[0]
    uneven = decided(every, 3, rounds=12, steps_per_rank=[1000, 999])
    assert any("rank 1's loader ends after 999 batches" in n for n in uneven.findings[0].notes)


@pytest.mark.slow
def test_accumulation_counts_the_declared_length():
    """1000 and 999 batches are 250 and 249 steps of four: a bound does not hide that."""

    def accumulate(loader):
        for _ in range(len(loader) // 4):
            once()

    for rounds in (None, 12):
        uneven = {"steps_per_rank": [1000, 999], "rounds": rounds}
        assert decided(accumulate, **uneven).unsafe
