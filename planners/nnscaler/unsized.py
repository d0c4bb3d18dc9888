"""Collectives without a size whose members all compute it alike.

A size that is not in the code is a function of the inputs. Where all members of a round have one
expression for it, the round has one size, whatever it is, provided that the inputs have one shape
on all ranks and are cut evenly. That is said in the ledger; nothing else is concluded.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from .model import Comm, Window

if TYPE_CHECKING:
    from .model import Program, Ranks

Place = tuple[int, int]
"""A rank, and a step of it."""


def is_unsized(comm: Comm) -> bool:
    """Tell whether a communication has no size in the plan."""
    return comm.op != "barrier" and (comm.shape is None or comm.dtype is None)


def compared(programs: tuple[Program, ...]) -> frozenset[Place]:
    """Return the collectives without a size whose round has one expression for it.

    The n-th collectives of the members of a group are a round. Where the order on a group is open,
    or members differ in how many there are, no rounds are known and nothing is returned.
    """
    calls: dict[Ranks, dict[int, list[tuple[int, Comm]]]] = defaultdict(lambda: defaultdict(list))
    world = tuple(program.rank for program in programs)
    is_open: set[Ranks] = set()
    for program in programs:
        for at, step in enumerate(program.steps):
            if isinstance(step, Window):
                is_open |= {comm.ranks or world for comm in (*step.chain, *step.comms)}
            elif isinstance(step, Comm) and step.peer is None:
                calls[step.ranks or world][program.rank].append((at, step))
    found: set[Place] = set()
    for ranks, members in calls.items():
        rounds = [members[rank] for rank in ranks]
        if ranks in is_open or len({len(one) for one in rounds}) != 1:
            continue
        for meeting in zip(*rounds, strict=True):
            comms = [comm for _, comm in meeting]
            alike = {(comm.op, comm.root, comm.reduce_op, comm.expression) for comm in comms}
            if all(map(is_unsized, comms)) and len(alike) == 1 and comms[0].expression:
                found |= {(rank, at) for rank, (at, _) in zip(ranks, meeting, strict=True)}
    return frozenset(found)
