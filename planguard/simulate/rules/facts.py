"""What the rules look at: the actions of every program once, and the tensors they name."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from planguard.plan.actions import ITEM_BYTES, MEMBER, Kind
from planguard.plan.code import WORDS
from planguard.simulate.traffic import traffic

if TYPE_CHECKING:
    from collections.abc import Iterator

    from planguard.plan.code import Program
    from planguard.plan.plan import Plan
    from planguard.simulate.traffic import Traffic


@dataclass(frozen=True)
class Use:
    """One action of a program.

    Attributes:
        index: Action index of its first iteration.
        times: How often it is issued, loops multiplied.
        kind: Kind of instruction.
        node: The action as it stands in the plan.
        bytes: Its size, if the plan says so.
        group: Name of its group, or None.
    """

    index: int
    times: int
    kind: Kind
    node: Any
    bytes: int | None
    group: str | None

    def field(self, name: str) -> Any:
        """Return an optional field of the action, None where it is absent."""
        value = getattr(self.node, name, UNSET)
        return None if value is UNSET else value

    @property
    def op(self) -> str:
        """Operation name in torch spelling."""
        return str(self.node.__struct_config__.tag)


@dataclass(frozen=True)
class Tensor:
    """A declared tensor; ``cuts`` is the product of its strategy vector."""

    name: str
    shape: tuple[int, ...]
    bytes: int
    strategy: tuple[int, ...]

    @property
    def cuts(self) -> int:
        """Number of pieces."""
        return prod(self.strategy) if self.strategy else 1


class Facts:
    """The actions of every program, the ranks that run it, and the declared tensors."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.uses = [list(_walk(plan, program)) for program in plan.code.programs]
        self.ranks: dict[int, list[int]] = defaultdict(list)
        for rank, program in enumerate(plan.code.rank_program):
            self.ranks[program].append(rank)
        specs = {} if plan.document.tensors is UNSET else plan.document.tensors
        self.tensors = {
            name: Tensor(
                name,
                tuple(spec.shape),
                prod(spec.shape) * ITEM_BYTES[spec.dtype],
                () if spec.strategy is UNSET else tuple(spec.strategy),
            )
            for name, spec in specs.items()
        }

    @cached_property
    def moved(self) -> Traffic:
        """What the plan moves, collectives as rings."""
        return traffic(self.plan)

    def programs(self) -> Iterator[tuple[list[Use], list[int]]]:
        """Yield the actions of every program with the ranks that run it."""
        for index, uses in enumerate(self.uses):
            if self.ranks[index]:
                yield uses, self.ranks[index]

    def of_rank(self, rank: int) -> list[Use]:
        """Return the actions of a rank."""
        return self.uses[self.plan.code.rank_program[rank]]


def _walk(plan: Plan, program: Program) -> Iterator[Use]:
    """Yield the actions of a program; a loop is walked once."""
    names = [group.name for group in plan.groups]
    refs, signatures = plan.code.refs, plan.code.signatures
    ends: list[tuple[int, int, int, int]] = []  # end, times around it, first index, own times
    index, times = 0, 1
    for place, node in enumerate(program.nodes):
        while ends and place >= ends[-1][0]:
            _, times, first, own = ends.pop()
            index = first + (index - first) * own
        op, a, b, sig = program.code[place * WORDS : place * WORDS + 4]
        kind = Kind(op & (MEMBER - 1))
        if kind == Kind.REPEAT:
            ends.append((place + 1 + b, times, index, a))
            times *= a
            continue
        if kind == Kind.BIND:
            continue
        group = names[refs[a * 6 + 1]] if kind < Kind.WAIT and kind != Kind.NOP else None
        at = index - 1 if op & MEMBER else index
        yield Use(at, times, kind, node, signatures[sig].bytes, group)
        index += not op & MEMBER
