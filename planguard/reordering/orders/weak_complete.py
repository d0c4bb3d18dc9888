"""Does some order complete? A run in which every rank may take its open actions as they come.

An action is taken when it can complete at once, and taking it never hurts: it only makes its
successors available and completes others. So if this run ends early, no order gets further. That
is exact where every action of a block waits for at most one match; a batch of several may have to
be started before it can complete, and there an early end proves nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from planguard.kernels.twin_rules import ARRIVE, AWAIT
from planguard.reordering.blocks import Block

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planguard.execution.running.executor import Execution
    from planguard.reordering.blocks import RankOrder
    from planguard.reordering.explorer import Choice
    from planguard.reordering.orders.weak_words import Word


@dataclass
class _Lane:
    """One lane on its way.

    Attributes:
        parts: Its parts: words of every leaf; a part without a block has one leaf, -1.
        before: For the leaves of the current part, what must be taken first.
        taken: Leaves of every finished or current part, in the order taken.
    """

    parts: list[tuple[Block | None, dict[int, list[Word]]]]
    at: int = 0
    word: int = 0
    arrived: bool = False
    taken: list[list[int]] = field(default_factory=list)

    def open_leaves(self) -> list[int]:
        """Return the leaves that may be taken now."""
        block, words = self.parts[self.at]
        assert block is not None  # noqa: S101  asked of open parts only
        done = set(self.taken[-1])
        return [leaf for leaf in words if leaf not in done and block.before[leaf] <= done]


class Completing:
    """A run of the lanes of a plan in which the order of open actions is left to the run."""

    def __init__(
        self, run: Execution, orders: Sequence[RankOrder], lanes: Sequence[Sequence[Word]]
    ) -> None:
        self.need = list(run.lanes.need)
        self.orders = orders
        self.exact = True
        self.main: dict[int, _Lane] = {}
        self.lanes: list[_Lane] = []
        for rank, words in zip(run.lanes.lane_rank, lanes, strict=True):
            is_main = rank not in self.main
            lane = self._lane(orders[rank], words, is_main=is_main)
            self.lanes.append(lane)
            if is_main:
                self.main[rank] = lane

    def _lane(self, order: RankOrder, words: Sequence[Word], *, is_main: bool) -> _Lane:
        if not is_main:
            return _Lane([(None, {-1: list(words)})], taken=[[]])
        parts: list[tuple[Block | None, dict[int, list[Word]]]] = []
        by_part: dict[int, dict[int, list[Word]]] = {}
        for word in words:
            by_part.setdefault(word.place.part, {}).setdefault(word.place.leaf, []).append(word)
        for number, part in enumerate(order.parts):
            if isinstance(part, Block):
                mine = {
                    leaf: by_part.get(number, {}).get(leaf, []) for leaf in range(len(part.leaves))
                }
                self.exact &= all(_is_simple(one) for one in mine.values())
                parts.append((part, mine))
            elif number in by_part:
                parts.append((None, by_part[number]))
        return _Lane(parts, taken=[[]])

    def complete(self) -> bool:
        """Run as far as any order gets; return whether every lane ended."""
        while self._advance() or self._meet():
            pass
        return all(lane.at == len(lane.parts) for lane in self.lanes)

    def chosen(self) -> tuple[Choice, ...]:
        """Return the order of every rank in which the run took its actions."""
        found = []
        for order in self.orders:
            lane = self.main.get(order.rank)
            taken = [] if lane is None else lane.taken
            blocks = [
                tuple(mine)
                for (block, _), mine in zip(lane.parts if lane else [], taken, strict=False)
                if block is not None
            ]
            found.append(tuple(blocks))
        return tuple(found)

    # --- one lane ----------------------------------------------------------------------------

    def _advance(self) -> bool:
        """Let every lane go as far as it can without anybody else."""
        moved = False
        for lane in self.lanes:
            while lane.at < len(lane.parts):
                block, words = lane.parts[lane.at]
                step = self._fixed(lane, words[-1]) if block is None else self._free(lane)
                moved |= step
                if not step:
                    break
        return moved

    def _fixed(self, lane: _Lane, words: list[Word]) -> bool:
        moved = False
        while lane.word < len(words):
            word = words[lane.word]
            if word.flags & ARRIVE and not lane.arrived:
                self.need[word.match] -= 1
                lane.arrived = moved = True
            if word.flags & AWAIT and self.need[word.match]:
                return moved
            lane.word, lane.arrived, moved = lane.word + 1, False, True
        self._next_part(lane)
        return True

    def _free(self, lane: _Lane) -> bool:
        words = lane.parts[lane.at][1]
        moved = False
        for leaf in lane.open_leaves():
            if self._passes(words[leaf], {}):
                self._take(lane, leaf)
                moved = True
        if len(lane.taken[-1]) == len(words):
            self._next_part(lane)
            return True
        return moved

    @staticmethod
    def _next_part(lane: _Lane) -> None:
        lane.at, lane.word, lane.arrived = lane.at + 1, 0, False
        lane.taken.append([])

    def _passes(self, words: list[Word], offered: dict[int, int]) -> bool:
        """Whether a leaf completes at once, given arrivals that others make with it."""
        mine = dict(offered)
        for word in words:
            mine[word.match] = mine.get(word.match, 0) + (word.flags & ARRIVE)
            if word.flags & AWAIT and self.need[word.match] > mine[word.match]:
                return False
        return True

    def _take(self, lane: _Lane, leaf: int) -> None:
        for word in lane.parts[lane.at][1][leaf]:
            self.need[word.match] -= word.flags & ARRIVE
        lane.taken[-1].append(leaf)

    # --- several lanes -----------------------------------------------------------------------

    def _meet(self) -> bool:
        """Take open actions of several ranks that complete each other."""
        offers: dict[int, list[tuple[_Lane, int]]] = {}
        for lane in self.lanes:
            if lane.at < len(lane.parts) and lane.parts[lane.at][0] is not None:
                for leaf in lane.open_leaves():
                    for word in lane.parts[lane.at][1][leaf]:
                        if word.flags & ARRIVE:
                            offers.setdefault(word.match, []).append((lane, leaf))
        for match, found in offers.items():
            group = self._group(match, found, offers)
            if group is not None:
                for lane, leaf in group:
                    self._take(lane, leaf)
                return True
        return False

    def _group(
        self,
        match: int,
        found: list[tuple[_Lane, int]],
        offers: dict[int, list[tuple[_Lane, int]]],
    ) -> list[tuple[_Lane, int]] | None:
        """Return actions, one per rank, that complete together, or None."""
        group: list[tuple[_Lane, int]] = []
        todo, seen = [match], {match}
        while todo:
            number = todo.pop()
            found = offers.get(number, [])
            if self.need[number] > len(found):
                return None
            for lane, leaf in found:
                other = next((one for one in group if one[0] is lane), None)
                if other is None:
                    group.append((lane, leaf))
                    for word in lane.parts[lane.at][1][leaf]:
                        if word.flags & AWAIT and word.match not in seen:
                            seen.add(word.match)
                            todo.append(word.match)
                elif other[1] != leaf:
                    return None
        return group


def _is_simple(words: list[Word]) -> bool:
    return len(words) <= 1 or any(all(w.flags == only for w in words) for only in (ARRIVE, AWAIT))
