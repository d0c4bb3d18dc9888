"""What a rank reads from its own tensors decides nothing unseen, though all went one way here.

Each pair is a program that hangs on real ranks with other data, and one that agrees first. With the
data of these ranks all of them end.
"""

# ruff: noqa: D103 - programs as people write them
from __future__ import annotations

import math
import os
from collections import Counter

import pytest

torch = pytest.importorskip("torch")
dist = pytest.importorskip("torch.distributed")

import torch.distributed._functional_collectives as functional  # noqa: E402 - torch must be there

from planguard.capture import precheck  # noqa: E402 - torch must be there
from planguard.capture.play.mailbox import LARGE_BYTES  # noqa: E402 - same
from planguard.capture.values.other_values import Read, other_value  # noqa: E402 - same

pytestmark = pytest.mark.wheel

END_OF_TEXT = 7


def decide(job, world=2, **options):
    """Play a job and give its verdict."""
    return precheck(world, model="gloo", on_unsafe="return", timeout=60.0, **options).run(job)


def loss():
    """Return a loss that each rank has of its own, far from any threshold here."""
    return torch.tensor([1.0, 2.0]).mul(dist.get_rank() + 1).mean()


def agreed(value, op=None):
    """Return a value after all ranks have agreed on it."""
    value = value.clone()
    dist.all_reduce(value, op=op or dist.ReduceOp.SUM)
    return value


def step():
    dist.all_reduce(torch.ones(3))


# --- decisions on a rank's own value -------------------------------------------------------------


def evaluates_if_better():
    best = float("inf")
    for _ in range(2):
        step()
        value = loss().item()
        if value < best:
            best = value + 1
            dist.barrier()


def evaluates_if_better_fixed():
    best = float("inf")
    for _ in range(2):
        step()
        value = agreed(loss()).item()
        if value < best:
            best = value + 1
            dist.barrier()


def skips_what_is_no_number():
    if math.isnan(loss().item()):
        return
    step()


def skips_what_is_no_number_fixed():
    if math.isnan(agreed(loss()).item()):
        return
    step()


def skips_by_tensor():
    if not torch.isfinite(loss()):
        return
    step()


def skips_by_tensor_fixed():
    if agreed((~torch.isfinite(loss())).float()) > 0:
        return
    step()


def stops_early():
    for _ in range(3):
        if float(loss()) < 0.01:
            break
        step()


def stops_early_fixed():
    for _ in range(3):
        flag = torch.tensor(float(float(loss()) < 0.01))
        dist.broadcast(flag, src=0)
        if flag:
            break
        step()


def without_tokens():
    mask = torch.arange(6) != dist.get_rank()  # as many here on every rank
    if mask.sum().item() == 0:
        return
    step()


def without_tokens_fixed():
    mask = torch.arange(6) != dist.get_rank()
    if agreed(mask.sum()).item() == 0:
        return
    step()


def until_the_end_of_text():
    for position in range(3):
        token = torch.tensor([position + 10 * (dist.get_rank() + 1)]).argmax() + dist.get_rank()
        step()
        if token.item() == END_OF_TEXT:
            break


def until_the_end_of_text_fixed():
    for position in range(3):
        token = torch.tensor([position + 10 * (dist.get_rank() + 1)]).argmax() + dist.get_rank()
        step()
        is_over = torch.tensor(float(token.item() == END_OF_TEXT))
        if agreed(is_over, dist.ReduceOp.MIN) > 0:
            break


def by_list():
    lengths = torch.tensor([3, 4 + dist.get_rank()])
    for _ in range(2):
        step()
    if max(lengths.tolist()) > 100:
        dist.barrier()


def by_list_fixed():
    lengths = torch.tensor([3, 4 + dist.get_rank()])
    for _ in range(2):
        step()
    found = [None, None]
    dist.all_gather_object(found, lengths.tolist())
    if max(map(max, found)) > 100:
        dist.barrier()


def by_array():
    if loss().numpy() > 1e4:
        dist.barrier()
    step()


def by_array_fixed():
    if agreed(loss()).numpy() > 1e4:
        dist.barrier()
    step()


def on_rank_0_alone():
    if dist.get_rank() == 0 and loss().item() > 100:
        dist.barrier()
    step()


def on_rank_0_alone_fixed():
    said = [dist.get_rank() == 0 and loss().item() > 100]
    dist.broadcast_object_list(said, src=0)
    if said[0]:
        dist.barrier()
    step()


def in_a_meter():
    """The value goes through an attribute and a mean before it decides."""

    class Meter:
        total, count = 0.0, 0

    meter = Meter()
    for _ in range(2):
        meter.total += loss().item()
        meter.count += 1
        step()
    if meter.total / meter.count > 50:
        dist.barrier()


def in_a_meter_fixed():
    class Meter:
        total, count = 0.0, 0

    meter = Meter()
    for _ in range(2):
        meter.total += loss().item()
        meter.count += 1
        step()
    if agreed(torch.tensor(meter.total / meter.count)).item() > 50:
        dist.barrier()


def by_name():
    """The test has no call: a tensor is compared, and Python asks it for its truth."""
    norm = loss()
    if norm > 100.0:
        return
    step()


def by_name_fixed():
    norm = agreed(loss())
    if norm > 100.0:
        return
    step()


def by_truth():
    done = loss() > 100.0
    if done:
        return
    step()


def by_truth_fixed():
    done = agreed(loss()) > 100.0
    if done:
        return
    step()


def by_part():
    losses = torch.stack([loss(), loss() / 2])
    while losses[0] < 0.01:
        dist.barrier()
    step()


def by_part_fixed():
    losses = agreed(torch.stack([loss(), loss() / 2]))
    while losses[0] < 0.01:
        dist.barrier()
    step()


def by_closeness():
    """Torch gives a truth value of its own, the same on all ranks by luck."""
    if torch.allclose(input=loss(), other=torch.zeros(())):
        return
    step()


def by_closeness_fixed():
    if torch.allclose(agreed(loss()), torch.zeros(())):
        return
    step()


def scores():
    """Return numbers of each rank's own: as many digits, and as many different ones, on each."""
    return torch.tensor([1.5, 2.5, 2.5]) + dist.get_rank()


def as_long_as_its_text():
    """No test depends on it, and what is sent is as long as the text."""
    text = str(float(scores()[0]))
    dist.all_reduce(torch.ones(len(text)))


def as_long_as_its_text_fixed():
    text = str(float(agreed(scores())[0]))
    dist.all_reduce(torch.ones(len(text)))


def as_many_as_there_are():
    kinds = {int(one) for one in scores()}
    dist.all_reduce(torch.zeros(len(kinds)))


def as_many_as_there_are_fixed():
    most = agreed(torch.tensor(len({int(one) for one in scores()})), dist.ReduceOp.MAX)
    dist.all_reduce(torch.zeros(int(most)))


def counted_by_the_library():
    """The standard library reads for whoever called it."""
    kinds = Counter(map(int, scores()))
    dist.all_reduce(torch.arange(9.0)[: len(kinds)])


def counted_by_the_library_fixed():
    kinds = Counter(map(int, agreed(scores())))
    dist.all_reduce(torch.arange(9.0)[: len(kinds)])


def by_a_flag():
    """Another truth value is one or nothing, and no large number that is no size."""
    count = int(scores()[0] > 0) + 1
    dist.all_reduce(torch.ones(8).view(4, 2)[:count])


def by_a_flag_fixed():
    count = int(agreed(scores())[0] > 0) + 1
    dist.all_reduce(torch.ones(8).view(4, 2)[:count])


def by_and():
    """The statement gives its value to nobody, and decides who calls."""
    (loss() < 1e3) and dist.barrier()


def by_and_fixed():
    (agreed(loss()) < 1e3) and dist.barrier()


def by_kinds_in_a_list():
    """All of them larger are one kind, and all smaller one; some of either are two."""
    kinds = {one > 100 for one in scores().tolist()}
    for _ in kinds:
        step()


def by_kinds_in_a_list_fixed():
    for _ in {one > 100 for one in agreed(scores()).tolist()}:
        step()


def filtered():
    """Without any at all a rank raises; with some of them it goes on."""
    kept = [torch.ones(1) for one in scores().tolist() if one < 100]
    dist.all_reduce(torch.cat(kept))


def filtered_fixed():
    kept = [torch.ones(1) for one in agreed(scores()).tolist() if one < 100]
    dist.all_reduce(torch.cat(kept))


BUGS = [
    filtered, by_kinds_in_a_list, by_and, as_long_as_its_text, as_many_as_there_are,
    counted_by_the_library, by_a_flag,
    by_name, by_truth, by_part, by_closeness,
    evaluates_if_better, skips_what_is_no_number, skips_by_tensor, stops_early, without_tokens,
    until_the_end_of_text, by_list, by_array, on_rank_0_alone, in_a_meter,
]  # fmt: skip
FIXES = [globals()[f"{job.__name__}_fixed"] for job in BUGS]


@pytest.mark.parametrize("job", BUGS, ids=lambda job: job.__name__)
def test_a_decision_on_an_own_value_is_no_safe(job):
    verdict = decide(job)
    said = " ".join(one.message for one in verdict.approximations)
    assert verdict.unknown, verdict
    assert f"{__file__}:" in said
    assert "each rank has its own" in said


@pytest.mark.parametrize("job", FIXES, ids=lambda job: job.__name__)
def test_what_is_agreed_on_first_is_safe(job):
    assert decide(job).safe


# --- values that are others' too -----------------------------------------------------------------


def experts():
    """Splits that peers were told of: another number would contradict them."""
    counts = torch.tensor([1 + dist.get_rank(), 2])
    theirs = torch.empty_like(counts)
    dist.all_to_all_single(theirs, counts)
    mine, given = counts.tolist(), theirs.tolist()
    out = torch.empty(sum(given))
    dist.all_to_all_single(out, torch.ones(sum(mine)), given, mine)
    if sum(given) > 100:
        print("much")


def experts_read_first():
    counts = torch.tensor([1 + dist.get_rank(), 2])
    mine = counts.tolist()
    theirs = torch.empty_like(counts)
    dist.all_to_all_single(theirs, counts)
    given = [int(one) for one in theirs]
    for _ in range(1 if sum(given) + sum(mine) > 100 else 2):
        out = torch.empty(sum(given))
        dist.all_to_all_single(out, torch.ones(sum(mine)), given, mine)


def padded():
    """Parts of unequal length: the longest one is agreed on, and each rank fills up to it."""
    rows = torch.ones(2 + dist.get_rank())
    length = torch.tensor([rows.numel()])
    lengths = [torch.empty_like(length) for _ in range(2)]
    dist.all_gather(lengths, length)
    most = int(max(one.item() for one in lengths))
    if length.item() < most:
        rows = torch.cat([rows, torch.zeros(most - length.item())])
    dist.all_gather([torch.empty(most) for _ in range(2)], rows)


def announced():
    """A message whose length comes first."""
    if dist.get_rank() == 0:
        size = torch.tensor([3])
        dist.send(size, 1)
        dist.send(torch.ones(int(size)), 1)
    else:
        size = torch.empty(1, dtype=torch.int64)
        dist.recv(size, 0)
        while size.item() > 100:
            size -= 1
        dist.recv(torch.empty(int(size.item())), 0)


def raises():
    """A rank that raises ends the job."""
    step()
    if not math.isfinite(loss().item()):
        raise FloatingPointError
    step()


def shown():
    step()
    print(f"loss {loss().item():.3f}")


def up_to_what_was_agreed():
    """A loop that is longer on one rank asks the agreed bound once more."""
    least = agreed(torch.tensor([2 + dist.get_rank()]), dist.ReduceOp.MIN)
    for number in range(2 + 2 * dist.get_rank()):
        if number >= least:
            break
        step()


def in_a_local_loop():
    """A loop that a value ends, and that would not end with another one."""
    value = loss()
    while value.item() > 1e-3:
        value = value / 2
    step()


@pytest.mark.parametrize(
    "job",
    [
        experts, experts_read_first, padded, announced, raises, shown, up_to_what_was_agreed,
        in_a_local_loop,
    ],
    ids=lambda job: job.__name__,
)  # fmt: skip
def test_what_contradicts_nobody_is_safe(job):
    assert decide(job).safe


def test_ranks_that_share_a_value_stay_together():
    """Two ranks of one tensor-parallel group hold one loss; another group has its own."""

    def job():
        groups = [dist.new_group([0, 1]), dist.new_group([2, 3])]
        own = groups[dist.get_rank() // 2]
        value = torch.tensor(float(1 + dist.get_rank() // 2))
        if value.item() > 100:
            dist.all_reduce(torch.ones(2), group=own)
        step()

    assert decide(job, 4).safe


def by_broadcast(count, group):
    dist.broadcast(count, group=group, group_src=0)
    return count


def by_gather(count, group):
    found = [torch.zeros_like(count) for _ in range(group.size())]
    dist.all_gather(found, count, group=group)
    return found[0]


def by_functional(count, group):
    return functional.broadcast(count, 0, group=group)


@pytest.mark.parametrize("tell", [by_broadcast, by_gather, by_functional])
@pytest.mark.parametrize("members", [[[0, 1], [2]], [[0], [1], [2]]], ids=["uneven", "alone"])
def test_who_is_alone_in_its_group_has_told_nobody(tell, members):
    """A count that a rank of a group of one broadcasts there stays its own, and may be another."""

    def job():
        groups = [dist.new_group(one) for one in members]
        own = next(n for n, one in enumerate(members) if dist.get_rank() in one)
        count = tell(torch.tensor([1 + own]), groups[own])
        if count.item() > 100:
            dist.barrier()
        step()

    assert decide(job, 3).unknown


def test_an_own_seed_decides():
    """The same job as in a real run: each rank draws its own data from a generator."""

    def job():
        own = torch.Generator().manual_seed(dist.get_rank())
        if torch.rand(8, generator=own).mean().item() > 0.99:
            step()

    assert decide(job).unknown


# --- the losses of a small model are real --------------------------------------------------------


def trained(width, *, is_agreed):
    def job():
        torch.manual_seed(0)
        model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(width, 8))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        own = torch.Generator().manual_seed(dist.get_rank())
        best = float("inf")
        for _ in range(4):
            value = model(torch.randn(4, width, generator=own)).pow(2).mean()
            value.backward()
            optimizer.step()
            optimizer.zero_grad()
            told = agreed(value.detach()) if is_agreed else value
            if told.item() < best:
                best = told.item()
                step()

    return job


def test_a_small_model_is_decided():
    """Its gradients travel, so that its losses are those of a real run, in which gloo aborts."""
    assert decide(trained(64, is_agreed=False)).unsafe
    assert decide(trained(64, is_agreed=True)).safe


def test_a_large_model_is_not():
    assert LARGE_BYTES < 4 * 8 * 16_384
    assert decide(trained(16_384, is_agreed=False)).unknown


def test_samples_say_which_data_there_are():
    """With samples nothing else is asked of their values."""

    def job(sample):
        step()
        if torch.tensor(sample).item() > 100:
            step()

    assert precheck(2, samples=[1.0, 2.0], on_unsafe="return").run(job).safe
    assert precheck(2, samples=[1.0, 200.0], on_unsafe="return").run(job).unsafe


@pytest.mark.parametrize("value", [True, 3, 0, 2.5, math.inf, [1, 2.0]])
def test_other_values_are_of_the_same_kind(value):
    for how in Read:
        found = other_value(value, how)
        assert isinstance(found, type(value))
    assert other_value(value, Read.MORE) != other_value(value, Read.LESS)


def test_a_norm_of_reduced_gradients_is_common():
    """Gradients come from labels of each rank, and are the same behind the reduction."""

    def job():
        torch.manual_seed(0)
        model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(12, 3))
        own = torch.Generator().manual_seed(dist.get_rank())
        labels = torch.randint(0, 3, (8,), generator=own)
        found = model(torch.randn(8, 12, generator=own))
        torch.nn.functional.cross_entropy(found, labels).backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        if torch.isfinite(norm) and norm < 100:
            step()

    assert decide(job).safe


def the_only_call():
    if loss().item() < 0.01:
        step()


def leaves():
    os._exit(0)


def the_only_call_fixed():
    if agreed(loss()).item() < 0.01:
        step()


def test_where_nobody_communicates_the_line_that_keeps_them_from_it_is_named():
    """Nothing to check is no reason to look no further."""
    verdict = decide(the_only_call)
    assert verdict.unknown
    assert [one.code for one in verdict.findings] == ["PG910"]
    assert any("test_own_values.py:" in one and "its own" in one for one in verdict.reasons)
    assert decide(the_only_call_fixed).safe


def test_where_nothing_is_guarded_nothing_is_told():
    """A job of one rank's work each says nothing but that there is nothing, and how it ended."""
    job = lambda: loss().item()  # noqa: E731 - its own line is what is told
    verdict = decide(job)
    how = f"came to its end (<lambda> at {__file__}:{job.__code__.co_firstlineno})"
    assert verdict.reasons == (
        "nothing to check: the plan has no action (2 ranks, 0 actions)",
        f"the program ended by itself before any communication: on ranks 0 and 1 it {how}",
    )


def test_what_leaves_its_process_before_it_communicates_says_where():
    """``os._exit(0)`` is no end of the body: its line is told."""
    verdict = decide(leaves)
    line = leaves.__code__.co_firstlineno + 1
    assert any(f"left by os._exit(0) at {__file__}:{line} in leaves" in r for r in verdict.reasons)
