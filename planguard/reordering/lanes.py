"""Lowered lanes that are written anew: taken apart, or with other waits.

The kernels lower a plan to one lane per host and queue. What is open inside of that (threads of a
host, workers beside it, calls that are left early) is written as lanes in their place, over the
same matches and some of their own, and run like any others.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from planguard.execution.findings.reason import UndecidedError
from planguard.kernels.python import blockers, run
from planguard.kernels.twin_layout import TOKEN
from planguard.kernels.twin_rules import ARRIVE, AWAIT
from planguard.plan.actions import MEMBER, NONE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

GATE = 9
"""Why a lane waits for a token; beyond the reasons of the kernels."""


class OwnKernels:
    """What kernels of lanes written anew have in common: those are run in Python."""

    @staticmethod
    def run(lanes: Any) -> Any:
        """Run every lane until it waits."""
        return run(lanes)

    @staticmethod
    def blockers(lanes: Any, state: Any) -> Any:
        """Return the stuck lanes and what they owe."""
        return blockers(lanes, state)


@dataclass
class Last:
    """The last lowering of a search, which is asked for more than once.

    First whether an execution ends like it, then what it says, then how to show that. It is kept by
    the kernels that made it: those belong to one plan, whose calls they know.
    """

    _made: tuple[Any, Any, bytes, Any] | None = None

    def lowered(self, kernels: Any, rules: Any, forced: Any, make: Callable[[], Any]) -> Any:
        """Return the lanes that kernels make of their plan under some rules.

        Args:
            kernels: The kernels.
            rules: The rules.
            forced: The rounds that are forced.
            make: Makes the lanes.
        """
        asked = bytes(forced)
        if self._made is not None:
            by, under, with_forced, lanes = self._made
            if by is kernels and under == rules and with_forced == asked:
                return lanes
        lanes = make()
        self._made = kernels, rules, asked, lanes
        return lanes


@dataclass
class OwnLanes:
    """Lanes written anew; the attributes of lowered lanes, native or not."""

    base: Any
    code: array[int] = field(default_factory=lambda: array("I"))
    lane_off: array[int] = field(default_factory=lambda: array("Q"))
    lane_rank: array[int] = field(default_factory=lambda: array("I"))
    lane_kind: array[int] = field(default_factory=lambda: array("B"))
    lane_soft: array[int] = field(default_factory=lambda: array("Q"))
    need: array[int] = field(default_factory=lambda: array("I"))
    origin: array[int] = field(default_factory=lambda: array("I"))
    why: array[int] = field(default_factory=lambda: array("B"))
    gates: set[int] = field(default_factory=set)
    hosts: dict[int, dict[Any, int]] = field(default_factory=dict)
    """Per rank with threads, the lane of each and that of its main program."""
    heads: dict[int, int] = field(default_factory=dict)
    """Place of an instruction that holds up or lets go another thread, to its call."""
    tokens: list[tuple[int, int, int, int]] = field(default_factory=list)

    def __getattr__(self, name: str) -> Any:
        """Return what taking lanes apart leaves alone."""
        return getattr(self.base, name)

    def ext(self, match: int) -> Any:
        """Return the name of an extra match; forks, joins and gates are tokens of their rank."""
        own = match - len(self.base.need)
        return self.tokens[own] if own >= 0 else self.base.ext(match)

    def token(self, rank: int, needs: int) -> int:
        """Return a new match of one rank."""
        return self.beside((TOKEN, rank, 0, 0), needs)

    def beside(self, name: tuple[int, int, int, int], needs: int) -> int:
        """Return a new match, named as the kernels name those beside rounds and pairs."""
        self.need.append(needs)
        self.tokens.append(name)
        return len(self.need) - 1

    def put(self, match: int, flags: int, entry: int = NONE, why: int = GATE) -> None:
        """Append an instruction to the lane that is being written."""
        self.code.append(match << 2 | flags)
        self.origin.append(entry)
        self.why.append(why)

    def arrive_only(self, words: Iterable[int]) -> None:
        """Append what a call does, as they were lowered, but no wait.

        Raises:
            UndecidedError: Some of it is done only after a wait.
        """
        has_waited = False
        for at in words:
            match, flags = self.base.code[at] >> 2, self.base.code[at] & 3
            if flags & ARRIVE:
                if has_waited:
                    raise UndecidedError("a call with several steps in which an exit cuts it off")
                self.put(match, ARRIVE, self.base.origin[at], self.base.why[at])
            has_waited |= bool(flags & AWAIT)

    def copy(self, at: int) -> None:
        """Append an instruction of the lanes as they were lowered."""
        self.code.append(self.base.code[at])
        self.origin.append(self.base.origin[at])
        self.why.append(self.base.why[at])

    def copy_all(self, words: Iterable[int]) -> None:
        """Append instructions of the lanes as they were lowered."""
        for at in words:
            self.copy(at)

    def open(self, rank: int, kind: int) -> None:
        """Begin a lane."""
        self.lane_off.append(len(self.code))
        self.lane_rank.append(rank)
        self.lane_kind.append(kind)


def over_lanes(base: Any) -> OwnLanes:
    """Return lanes to be written in place of others, lane by lane: threads stay what they are."""
    found = OwnLanes(base)
    found.need.extend(base.need)
    if isinstance(base, OwnLanes):
        found.gates, found.hosts = base.gates, base.hosts
    return found


def actions_of(columns: Any, rank: int) -> list[int]:
    """Return the action of every entry of a rank; members belong to their batch."""
    found, index = [], -1
    for at in range(columns.rank_off[rank], columns.rank_off[rank + 1]):
        index += not columns.op[at] & MEMBER
        found.append(index)
    return found
