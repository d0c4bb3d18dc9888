"""Ranks played with large computation left undone issue what they issue when it is done."""

from __future__ import annotations

import importlib
import json

import pytest

pytestmark = [pytest.mark.processes, pytest.mark.wheel]
torch = pytest.importorskip("torch")

import torch.distributed as dist  # noqa: E402
from torch import nn  # noqa: E402

from planguard.capture import precheck  # noqa: E402
from planguard.capture.play.compute_stub import stub_compute  # noqa: E402


def model():
    """Return layers large enough to be stubbed."""
    layer = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True, dropout=0.0)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)


def ddp():
    """Two steps of DDP with an optimizer."""
    wrapped = nn.parallel.DistributedDataParallel(model(), bucket_cap_mb=0.1)
    optimizer = torch.optim.Adam(wrapped.parameters())
    for _ in range(2):
        wrapped(torch.ones(4, 32, 64)).sum().backward()
        optimizer.step()


def fsdp():
    """One step of fully_shard."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    module = model()
    for layer in module.layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(module, mesh=mesh)
    module(torch.ones(4, 32, 64)).sum().backward()


@pytest.mark.parametrize("body", [ddp, fsdp], ids=lambda f: f.__name__)
def test_the_plan_does_not_depend_on_the_computation(body):
    """The plan of a stubbed play is that of a real one, byte for byte."""
    # A real play of DDP imports it, and tells of the sets that sympy walks meanwhile.
    importlib.import_module("torch._dynamo")
    plans = []
    for compute in ("real", "stub"):
        check = precheck(4, compute=compute, on_unsafe="return")
        assert check.run(body).safe
        assert check.plan is not None
        plans.append(check.plan.source)
    assert plans[0] == plans[1]


def test_large_results_are_not_computed():
    """Most operators of a step are stubbed; shapes, types and small tensors are the real ones."""
    real = model()
    x = torch.ones(4, 32, 64)
    expected = real(x)
    with stub_compute() as mode:
        y = real(x)
        y.sum().backward()
        small = torch.ones(3) + 1
    assert (y.shape, y.dtype, y.stride()) == (expected.shape, expected.dtype, expected.stride())
    assert not y.any()
    assert expected.any()
    assert mode.stubbed > 30
    assert small.tolist() == [2.0, 2.0, 2.0]
    assert all(p.grad.shape == p.shape for p in real.parameters())


def branches():
    """Issue a barrier when a loss that nobody computed is large."""
    decides(256)


def decides(width):
    """Issue a barrier when a loss is large, of which all ranks have the same."""
    x = torch.ones(width, width)
    dist.all_reduce(x)
    assert x[0, 0].item() == dist.get_world_size()  # it travels
    if (x @ x).sum().item() > 100:
        dist.barrier()


def test_a_decision_on_a_stubbed_value_is_never_silent():
    """The branch was taken by accident, so the plan is undecided, and the place is named."""
    check = precheck(2, compute="stub", on_unsafe="return")
    assert check.run(branches).unknown
    notes = [note for note in check.plan.approximations if note.kind == "data-dependent-value"]
    assert notes
    assert "test_dryrun_stub.py" in notes[0].message


def test_a_loss_of_middle_size_is_computed():
    """What is cheap to compute is no guess: the same branch as in a real run, on both ranks."""
    check = precheck(2, compute="stub", on_unsafe="return")
    assert check.run(lambda: decides(128)).safe
    assert json.loads(check.plan.source)["ranks"]["0"]["actions"][-1]["op"] == "barrier"
