"""Values that functional collectives bring are as real as those of the others, once waited for."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
dist = pytest.importorskip("torch.distributed")

from planguard.capture import precheck  # noqa: E402 - torch must be there


def decide(side):
    """Multiply two sharded matrices, bring the product to all ranks, and decide on its sum."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    def job():
        mesh = init_device_mesh("cpu", (2,))
        left = distribute_tensor(torch.ones(side, side), mesh, [Shard(0)])
        right = distribute_tensor(torch.ones(side, side), mesh, [Shard(1)])
        whole = (left @ right).redistribute(mesh, [Replicate()])
        total = whole.to_local().sum().item()
        if total > 1e12:
            dist.barrier()
        assert side > 8 or total == side**3

    return precheck(2, model="gloo", on_unsafe="return", timeout=60.0).run(job)


def test_a_small_dtensor_is_real_after_it_was_redistributed():
    """256 bytes travel: the sum is the one of a real run, and the plan is decided."""
    verdict = decide(8)
    assert verdict.safe, verdict.reasons


def test_a_large_dtensor_is_made_up_and_said_to_be():
    """One MiB does not travel: a decision on it leaves the plan undecided."""
    verdict = decide(512)
    assert verdict.unknown
    assert "decides on a tensor's value" in " ".join(verdict.reasons)


def test_a_functional_reduction_is_real_where_its_parts_are():
    """A small sum is known behind its wait; one of large parts is not."""
    from torch.distributed._functional_collectives import all_reduce

    def small():
        assert all_reduce(torch.ones(4), "sum", dist.group.WORLD).sum().item() == 8
        dist.all_reduce(torch.ones(2))

    def large():
        if all_reduce(torch.ones(1 << 17), "sum", dist.group.WORLD).sum().item() != 1 << 18:
            dist.barrier()
        dist.all_reduce(torch.ones(2))

    assert precheck(2, model="gloo", on_unsafe="return").run(small).safe
    assert precheck(2, model="gloo", on_unsafe="return").run(large).unknown
