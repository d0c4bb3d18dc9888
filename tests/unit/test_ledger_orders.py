"""Entries of the ledger that admit further orders of the same actions, and what they leave open."""

from __future__ import annotations

import planguard
from planguard import Outcome
from planguard.plan.building.builder import PlanBuilder

SAID = "threads of rank 0 wait for each other otherwise than by join (save.py:1)"


def decided(fill, *entries):
    """Return the verdict of two ranks under nccl with such entries in the ledger."""
    builder = PlanBuilder(2)
    builder.group("saves", (0, 1))
    for rank in range(2):
        fill(rank, builder.program(rank))
    for kind, direction in entries:
        builder.approximate(kind, SAID, direction, scope="plan")
    return planguard.check(builder.build(), model="nccl")


def one_saves(rank, program):
    """Rank 0 gathers in a thread beside a barrier; rank 1 makes the barrier alone."""
    if rank:
        program.barrier()
        return
    with program.threads():
        with program.thread():
            program.all_gather(group="saves", count=2, dtype="i64")
        with program.thread():
            program.barrier()


def crossed(rank, program):
    """Two threads of rank 0 issue what rank 1 issues in order: one of the two orders fits."""
    if rank:
        program.all_reduce(count=4, dtype="f32", reduce_op="sum")
        program.barrier(group="saves")
        return
    with program.threads():
        with program.thread():
            program.all_reduce(count=4, dtype="f32", reduce_op="sum")
        with program.thread():
            program.barrier(group="saves")


def test_what_no_order_avoids_is_told_although_not_every_order_exists():
    """A round that a member never enters stays one in whatever orders are left out."""
    assert decided(one_saves).unsafe
    verdict = decided(one_saves, ("host-threads", "over"))
    assert verdict.unsafe
    assert not any(a.used for a in verdict.approximations)


def test_what_one_order_avoids_is_open():
    """The order that mismatches may be one that the threads never take."""
    assert decided(crossed).unsafe
    verdict = decided(crossed, ("host-threads", "over"))
    assert verdict.outcome is Outcome.UNKNOWN
    assert any(SAID in reason for reason in verdict.reasons)


def test_an_entry_that_may_admit_other_actions_leaves_both_open():
    """Another kind, or threads whose orders are left out as well: nothing is proved of the rest."""
    assert decided(one_saves, ("dynamic-shape", "over")).outcome is Outcome.UNKNOWN
    both = ("host-threads", "over"), ("host-threads", "under")
    assert decided(one_saves, *both).outcome is Outcome.UNKNOWN
