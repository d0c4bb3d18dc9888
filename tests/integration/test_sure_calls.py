"""What is wrong in front of the first made-up value is wrong in every run; behind it nothing is."""

from __future__ import annotations

import pytest

pytestmark = [pytest.mark.processes]
torch = pytest.importorskip("torch")

import torch.distributed as dist  # noqa: E402 - torch must be there

from planguard.capture import precheck  # noqa: E402 - same
from planguard.capture.play.logs import RankLog  # noqa: E402 - same
from planguard.capture.play.mailbox import LARGE_BYTES  # noqa: E402 - same
from planguard.capture.play.sure import doubtful_from  # noqa: E402 - same


def decide(job, ranks=2):
    """Play a job, all of its ranks."""
    return precheck(ranks, model="gloo", ranks="all", on_unsafe="return").run(job)


def made_up():
    """Return a number that no play knows: of what is too large to travel."""
    large = torch.ones(LARGE_BYTES // 4 + 1)
    dist.all_reduce(large)
    return large.sum()


def parted(rank):
    """Issue calls that disagree."""
    dist.all_reduce(torch.ones(2)) if rank else dist.barrier()


def test_what_disagrees_in_front_of_a_guess_is_certain():
    """Ranks disagree, and only then one of them decides on a value that is made up."""

    def job():
        parted(dist.get_rank())
        if made_up().item() > 3:
            dist.barrier()

    verdict = decide(job)
    assert verdict.unsafe
    assert next(one.code for one in verdict.findings if one.severity == "error") == "PG201"


def test_what_disagrees_behind_a_guess_is_not():
    """A rank may leave before that."""

    def job():
        if made_up().item() > 1e9:
            return
        parted(dist.get_rank())

    assert decide(job).unknown


def test_a_guess_of_another_rank_travels_with_its_flag():
    """Rank 0 guesses, and says so by a whole number; rank 1 reads no made-up value at all."""

    def job():
        flag = torch.zeros(1, dtype=torch.int64)
        value = made_up()
        if dist.get_rank() == 0:
            flag.fill_(1 if value.item() > 1e9 else 0)
        dist.broadcast(flag, 0)
        if flag.item() == 0:
            parted(dist.get_rank())

    assert decide(job).unknown


@pytest.mark.parametrize("is_message", [False, True])
def test_a_guess_reaches_a_third_rank(is_message):
    """Rank 0's flag comes to rank 1, and from it to rank 2, whose calls disagree with rank 1's."""

    def tell(flag, src, dst, group):
        if not is_message:
            dist.broadcast(flag, src, group=group)
        elif dist.get_rank() == src:
            dist.send(flag, dst)
        else:
            dist.recv(flag, src)

    def job():
        rank = dist.get_rank()
        first, last = dist.new_group([0, 1]), dist.new_group([1, 2])
        flag = torch.zeros(1, dtype=torch.int64)
        value = made_up()
        if rank == 0:
            flag.fill_(1 if value.item() > 1e9 else 0)
        if rank < 2:
            tell(flag, 0, 1, first)
        if rank > 0:
            tell(flag, 1, 2, last)
            if flag.item() == 0:
                dist.all_reduce(torch.ones(rank), group=last)

    assert decide(job, 3).unknown


def test_a_rank_that_may_come_yet_is_not_missing():
    """Whether rank 1 issues the barrier for which rank 0 waits, a guess decides."""

    def job():
        rank = dist.get_rank()
        value = made_up()
        if rank == 0 or value.item() > 1e9:
            dist.barrier()

    assert decide(job).unknown


def log(rank, ops, sure=None, **more):
    """Return the log of a rank that issued these calls."""
    actions = [
        {"op": op, "group": group, **fields} for op, group, fields in ops
    ]  # as the recorder writes them
    groups = {group: [int(one) for one in group.split(",")] for _, group, _ in ops}
    return RankLog(rank, actions, groups, sure=sure, **more)


ROUND = ("all_reduce", "0,1", {})
SENT = ("isend", "0,1", {"peer": 1})


@pytest.mark.parametrize(
    ("mine", "theirs", "first", "expected"),
    [
        ([ROUND] * 4, [ROUND] * 4, 0, [(0, 0), (1, 1)]),
        ([ROUND] * 4, [ROUND] * 4, 2, [(0, 2), (1, 3)]),
        ([ROUND] * 2, [ROUND] * 4, 2, [(0, 1), (1, 3)]),  # it may issue a third one
        ([ROUND] * 4, [ROUND] * 2, 3, [(0, 3)]),
        ([SENT] * 2, [("irecv", "0,1", {"peer": 0})] * 3, 1, [(0, 1), (1, 2)]),
        ([SENT], [("irecv", "0,1", {"peer": "any"})], 1, []),
        ([ROUND], [("barrier", "0,1", {}), ("threads", "0,1", {})], 0, []),
    ],
)  # fmt: skip
def test_how_far_calls_are_sure(mine, theirs, first, expected):
    """Rank 0 reads a made-up value: rank 1 may do otherwise behind the call that brings it."""
    logs = {0: log(0, mine, first), 1: log(1, theirs)}
    assert doubtful_from(logs, {rank: one.actions for rank, one in logs.items()}, 2) == expected


@pytest.mark.parametrize(
    "more",
    [
        {"store_reads": {"x": ["job.py:1", "key"]}},
        {"notes": [("unseen-communication", "by rpc", "under")]},
    ],
)
def test_values_that_move_otherwise_leave_all_open(more):
    """Stores and remote calls are no calls of the plan; of ranks not played nothing is known."""
    logs = {0: log(0, [ROUND] * 2, 1), 1: log(1, [ROUND] * 2, **more)}
    assert doubtful_from(logs, {rank: one.actions for rank, one in logs.items()}, 2) == []
    assert doubtful_from({0: logs[0]}, {0: logs[0].actions}, 2) == []
