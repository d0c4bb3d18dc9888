"""What a group of a part of the ranks agreed on is agreed on by them alone.

The jobs hang on real ranks where one group has it otherwise than another; with the data of these
ranks they all end.
"""

# ruff: noqa: ARG001, D103 - programs as people write them
from __future__ import annotations

import warnings

import pytest

torch = pytest.importorskip("torch")
dist = pytest.importorskip("torch.distributed")

from torch import nn  # noqa: E402 - torch must be there
from torch.distributed.fsdp import fully_shard  # noqa: E402 - same
from torch.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler  # noqa: E402 - same
from torch.distributed.tensor import (  # noqa: E402 - same
    DTensor,
    Replicate,
    Shard,
    init_device_mesh,
)

from planguard.capture import precheck  # noqa: E402 - same

EVERY, PART = Replicate(), Shard(0)


def decide(job, world):
    """Play a job and give its verdict."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return precheck(world, model="gloo", on_unsafe="return", timeout=60.0).run(job)


def own():
    """Return data of each rank's own."""
    return torch.randn(4, generator=torch.Generator().manual_seed(dist.get_rank()))


def step():
    dist.all_reduce(torch.ones(2))


# --- gradient scalers ----------------------------------------------------------------------------


class Talking(torch.optim.SGD):
    """An optimizer whose step is missed."""

    def step(self, closure=None):
        step()


def scaled_step(parameters, scaler=None):
    scaler = scaler or torch.amp.GradScaler("cpu")
    scaler.scale(torch.zeros(1))
    optimizer = Talking(parameters, lr=0.1)
    scaler.step(optimizer)
    scaler.update()


def mesh(*shape):
    return init_device_mesh("cpu", shape, mesh_dim_names=("a", "b")[: len(shape)])


def with_gradient(tensor):
    found = nn.Parameter(tensor)
    found.grad = tensor.detach().clone()
    return found


def dtensors(place, *placements):
    return [
        with_gradient(
            DTensor.from_local(
                torch.ones(4) if set(row) == {EVERY} else own(), place, row, run_check=False
            )
        )
        for row in placements
    ]


def replicated_first():
    scaled_step(dtensors(mesh(dist.get_world_size()), [EVERY], [PART]))


def sharded_first():
    scaled_step(dtensors(mesh(dist.get_world_size()), [PART], [EVERY]))


def all_replicated():
    scaled_step(dtensors(mesh(dist.get_world_size()), [EVERY], [EVERY]))


def meshes_of_two():
    scaled_step(dtensors(mesh(2, 2)["b"], [PART]))


def norm_first():
    scaled_step(dtensors(mesh(2, 2), [PART, EVERY], [PART, PART]))


def norm_last():
    scaled_step(dtensors(mesh(2, 2), [PART, PART], [PART, EVERY]))


def replicas_of_shards():
    model = nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4))
    fully_shard(model, mesh=mesh(2, 2))
    model(own()).sum().backward()
    scaled_step(model.parameters())


def one_scaler_for_all():
    scaled_step([with_gradient(own())], ShardedGradScaler("cpu"))


def a_scaler_for_rows():
    group = mesh(2, 2)["b"].get_group()
    scaled_step([with_gradient(own())], ShardedGradScaler("cpu", process_group=group))


def a_scaler_for_columns():
    group = mesh(2, 2)["a"].get_group()
    scaled_step([with_gradient(own())], ShardedGradScaler("cpu", process_group=group))


SCALERS = {
    replicated_first: (2, "UNKNOWN"), sharded_first: (2, "SAFE"), all_replicated: (2, "SAFE"),
    meshes_of_two: (4, "UNKNOWN"), norm_first: (4, "UNKNOWN"), norm_last: (4, "SAFE"),
    replicas_of_shards: (4, "SAFE"), one_scaler_for_all: (2, "SAFE"),
    a_scaler_for_rows: (4, "UNKNOWN"), a_scaler_for_columns: (4, "UNKNOWN"),
}  # fmt: skip


@pytest.mark.parametrize("job", SCALERS, ids=lambda job: job.__name__)
def test_found_inf_is_agreed_on_where_the_first_gradient_is_in_parts(job):
    """torch reduces it over those dimensions of the mesh alone, and a scaler over its group."""
    world, outcome = SCALERS[job]
    assert decide(job, world).outcome.name == outcome


# --- flags ---------------------------------------------------------------------------------------


def groups():
    """Return this rank's row and column of two by two ranks."""
    rows = [dist.new_group([0, 1]), dist.new_group([2, 3])]
    columns = [dist.new_group([0, 2]), dist.new_group([1, 3])]
    return rows[dist.get_rank() // 2], columns[dist.get_rank() % 2]


def flag(kind=torch.float):
    return (own() > 7).any().to(kind)


def reduced(row, column):
    found = flag()
    dist.all_reduce(found, group=row)
    if not found.item():
        step()


def reduced_over_columns(row, column):
    found = flag()
    dist.all_reduce(found, group=column)
    if not found.item():
        step()


def a_truth(row, column):
    found = flag()
    dist.all_reduce(found, group=row)
    if found.item():
        step()
    dist.barrier()


def gathered(row, column):
    found = [torch.zeros(1), torch.zeros(1)]
    dist.all_gather(found, flag().reshape(1), group=row)
    if not any(one.item() for one in found):
        step()


def broadcast_as_integer(row, column):
    found = flag(torch.int32)
    dist.broadcast(found, group=row, group_src=0)
    if not found.item():
        step()


def told_by_the_first_of_each(row, column):
    found = [bool(flag().item())]
    dist.broadcast_object_list(found, group=row, group_src=0)
    if not found[0]:
        step()


def reduced_over_both(row, column):
    found = flag()
    dist.all_reduce(found, group=row)
    dist.all_reduce(found, group=column)
    if not found.item():
        step()


def used_in_the_group(row, column):
    found = flag()
    dist.all_reduce(found, group=row)
    if not found.item():
        dist.all_reduce(torch.ones(2), group=row)
    dist.barrier()


FLAGS = {
    reduced: "UNKNOWN", reduced_over_columns: "UNKNOWN", a_truth: "UNKNOWN", gathered: "UNKNOWN",
    broadcast_as_integer: "UNKNOWN", told_by_the_first_of_each: "UNKNOWN",
    reduced_over_both: "SAFE", used_in_the_group: "SAFE",
}  # fmt: skip


@pytest.mark.parametrize("job", FLAGS, ids=lambda job: job.__name__)
def test_a_flag_that_each_pair_agrees_on_may_differ_between_pairs(job):
    """Raised nowhere here, it was the same by luck. Reduced along both sides it is the same."""
    verdict = decide(lambda: job(*groups()), 4)
    assert verdict.outcome.name == FLAGS[job]
    if not verdict.safe:
        assert any("test_group_agreements.py:" in one.message for one in verdict.approximations)
