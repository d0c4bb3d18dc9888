"""Hosts that stand for each other where members are negotiated: what each of them gets through.

A host that waits for a member stands there until all ranks have submitted it, and one that makes a
communicator until all of its members are at it. Neither asks for a device, so where no order is
open how far each host gets follows from the programs alone. If some host does not come to its end,
no execution does: all of them issue what is in front, and stand.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from planguard.plan.fixed import AT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planguard.reordering.buffers.negotiated.launched import Element, Program


@dataclass(frozen=True)
class Stall:
    """What hosts get through that stand for each other in the end.

    Attributes:
        programs: What each of them gets through; members that are not submitted everywhere are no
            members in them.
        ends: Per rank, what its host stands in then.
        groups: Groups of those, in each of which somebody does not come.
        waits: Rank and action that wait for a member, to the name of that.
    """

    programs: list[Program]
    ends: list[list[dict[str, Any]]]
    groups: dict[str, list[int]]
    waits: dict[tuple[int, int], str]


def stalled(programs: Sequence[Program], members: dict[str, list[int]]) -> Stall | None:
    """Return where hosts stand for ever; None where they do not, or an order plays a part.

    Args:
        programs: The programs, with the communicators that they make.
        members: The ranks of every group.
    """
    steps = [_steps(one) for one in programs]
    if any(one is None for one in steps):
        return None
    hosts = _Hosts(programs, [one or [] for one in steps], members)
    hosts.run()
    if all(at == len(one) for at, one in zip(hosts.at, hosts.steps, strict=True)):
        return None
    groups: dict[str, list[int]] = {}
    waits: dict[tuple[int, int], str] = {}
    ends: list[list[dict[str, Any]]] = [[] for _ in programs]
    late: list[tuple[int, dict[str, Any]]] = []
    for rank, at in enumerate(hosts.at):
        if at == len(hosts.steps[rank]):
            continue
        one = programs[rank].elements[hosts.steps[rank][at][0]]
        if not one.waits:
            ends[rank].append({**one.fields, AT: one.at})
            continue
        member, other = hosts.missing(rank, one)
        name = f"submitted to {rank}"
        groups[name] = sorted((rank, other))
        waits[rank, one.at] = str(member[1])
        ends[rank].append({"op": "init", "group": name, AT: one.at})
        if (behind := programs[other].members.get(member)) is not None:
            # Where it would come if it went on: that is what is waited for.
            came = {"op": "init", "group": name, AT: programs[other].elements[behind].at}
            late.append((other, came))
    for other, came in late:
        ends[other].append(came)
    return Stall([hosts.through(rank) for rank in range(len(programs))], ends, groups, waits)


def _steps(program: Program) -> list[list[int]] | None:
    """Return elements that follow each other, or may be issued in any order and hold nobody up."""
    standing = set(program.creations.values())
    found: list[list[int]] = []
    elements = program.elements
    for _, each in itertools.groupby(range(len(elements)), lambda at: elements[at].part):
        mine = list(each)
        if all(first in elements[then].below for first, then in itertools.pairwise(mine)):
            found += [[at] for at in mine]
        elif any(elements[at].waits or at in standing for at in mine):
            return None
        else:
            found.append(mine)
    return found


class _Hosts:
    """Hosts that go as far as they get; each step only enables more."""

    def __init__(
        self,
        programs: Sequence[Program],
        steps: list[list[list[int]]],
        members: dict[str, list[int]],
    ) -> None:
        self.programs, self.steps, self.members = programs, steps, members
        self.at = [0] * len(programs)
        self.place = [
            {at: number for number, step in enumerate(mine) for at in step} for mine in steps
        ]

    def run(self) -> None:
        """Let each host go on until none can."""
        moved = True
        while moved:
            moved = False
            for rank, steps in enumerate(self.steps):
                while self.at[rank] < len(steps) and self._goes_on(rank, steps[self.at[rank]]):
                    self.at[rank] += 1
                    moved = True

    def _goes_on(self, rank: int, step: list[int]) -> bool:
        program = self.programs[rank]
        made = [one for one, at in program.creations.items() if at in step]
        return all(self._is_made(one) for one in made) and all(
            not self._missing(program.elements[other].member)
            for at in step
            for other in program.elements[at].waits
        )

    def _is_made(self, one: tuple[Any, ...]) -> bool:
        group, *pair = one
        return all(
            (at := self.programs[rank].creations.get(one)) is not None
            and self.at[rank] >= self.place[rank][at]
            for rank in pair or self.members[group]
        )

    def _missing(self, member: Any) -> list[int]:
        """Return the ranks of its group that have not submitted a member."""
        found = []
        for rank in self.members[member[0]]:
            at = self.programs[rank].members.get(member)
            if at is None or self.place[rank][at] >= self.at[rank]:
                found.append(rank)
        return found

    def missing(self, rank: int, one: Element) -> tuple[Any, int]:
        """Return what an element waits for, and a rank that has not submitted it."""
        elements = self.programs[rank].elements
        return next(
            (elements[at].member, other)
            for at in one.waits
            for other in self._missing(elements[at].member)
            if other != rank
        )

    def through(self, rank: int) -> Program:
        """Return what a host gets through."""
        program = self.programs[rank]
        kept: list[Element] = []
        for at, one in enumerate(program.elements):
            if self.place[rank][at] >= self.at[rank]:
                break
            if one.member is not None and self._missing(one.member):
                silent = {"op": "compute", "op_name": "submit"}
                kept.append(replace(one, member=None, fields=silent))
            else:
                kept.append(one)
        made = {one: at for one, at in program.creations.items() if at < len(kept)}
        return replace(program, elements=kept, creations=made)
