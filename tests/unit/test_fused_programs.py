"""Ranks that run one program agree on their buffers once, and are decided as if each did alone."""

from __future__ import annotations

import pytest

import planguard
from planguard.reordering.buffers.ranks import Ranks

MODELS = ("gloo", "nccl", "mpi-sync")
SHAPES = {
    "all wait at the end": {"between": False, "noise": False},
    "an all_reduce of the group in between": {"between": True, "noise": False},
    "a barrier of the other group first": {"between": False, "noise": True},
}


def plan_of(coordination, group, shape, *, apart):
    """Two groups of two ranks whose members are fused; one program, or one for each rank."""
    made = planguard.PlanBuilder(4, mesh=[("dp", 2), ("tp", 2)], model="gloo")
    made.group("dp", mesh_dims=["dp"])
    made.group("tp", mesh_dims=["tp"])
    names = [f"g{number}" for number in range(6)]
    for ranks in range(4) if apart else ("0-3",):
        program = made.program(ranks)
        program.compute("forward" if not apart else f"forward {ranks}")
        if shape["noise"]:
            program.barrier("tp")
        with program.unordered():
            for number, name in enumerate(names):
                program.all_reduce(group, id=name, label=name, work=name, async_=True,
                                   bytes=4 * (number + 1))  # fmt: skip
        if shape["between"]:
            program.all_reduce(group, bytes=4, label="loss")
        program.wait(names)
    made.fusion("buffer", names, group=group, cap_bytes=32, coordination=coordination,
                membership="fill", launch="when-ready")  # fmt: skip
    return made.build()


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("group", ["world", "dp", "tp"])
@pytest.mark.parametrize("coordination", ["negotiated", "rank0-broadcast"])
def test_one_program_is_decided_as_one_for_each_rank(coordination, group, shape):
    """Outcome and findings are those of the same ranks with programs of their own."""
    together = plan_of(coordination, group, SHAPES[shape], apart=False)
    alone = plan_of(coordination, group, SHAPES[shape], apart=True)
    assert len(set(Ranks(together).first)) == 1
    assert len(set(Ranks(alone).first)) == 4
    for model in MODELS:
        found = [planguard.check(plan, model=model) for plan in (together, alone)]
        said = [(one.outcome, sorted((d.code, d.message) for d in one.errors)) for one in found]
        assert said[0] == said[1], model
