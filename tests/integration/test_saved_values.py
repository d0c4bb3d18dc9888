"""A value that is made up is still made up when it was saved and read back."""

# ruff: noqa: D103 - programs as people write them
from __future__ import annotations

import io

import pytest

torch = pytest.importorskip("torch")
dist = pytest.importorskip("torch.distributed")

from planguard.capture import precheck  # noqa: E402 - torch must be there

LARGE = 1 << 17
"""Elements of a tensor that is not carried."""


def decide(job):
    """Play a job on two ranks and give its verdict."""
    return precheck(2, model="gloo", on_unsafe="return").run(job)


def reread(found):
    """Write to memory, as a checkpoint, and read it again."""
    buffer = io.BytesIO()
    torch.save(found, buffer)
    return torch.load(io.BytesIO(buffer.getvalue()))


def large():
    """Return what a broadcast brings that is too large to be carried."""
    found = torch.ones(LARGE) * (dist.get_rank() + 1)
    dist.broadcast(found, src=1)
    return found


def by_value():
    if reread(large())[0] == 2 and dist.get_rank() == 0:
        dist.barrier()
    dist.all_reduce(torch.ones(2))


def by_state():
    if reread({"model": {"weight": large()}})["model"]["weight"].sum() > 1 and not dist.get_rank():
        dist.barrier()
    dist.all_reduce(torch.ones(2))


def by_step():
    state = reread({"weight": large(), "step": torch.tensor(3)})
    for _ in range(int(state["step"])):
        dist.all_reduce(torch.ones(2))


@pytest.mark.parametrize("job", [by_value, by_state], ids=lambda job: job.__name__)
def test_a_decision_on_what_was_read_back_is_no_safe(job):
    """Real ranks hang here: what the broadcast brought is not known in a play."""
    assert decide(job).unknown


def test_a_number_beside_it_is_known():
    """A step count that was saved with made-up weights is as real as before."""
    assert decide(by_step).safe
