"""Weak orders: blocks whose waiting actions lie in bags, and the bags in a row (T3).

There a closed walk of the may-wait graph always holds a cycle with distinct lanes, so the linear
cycle test alone is exact and no search is needed.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from planguard.kernels.twin_rules import ARRIVE, AWAIT

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def is_weak(above: Sequence[int], flags: Mapping[int, Sequence[int]]) -> bool:
    """Whether a block is a weak order as far as its waits are concerned.

    That is: the sets of waiting actions that may come before an arrival (the bags up to its own)
    contain each other, and every action is a single arrival that is awaited at once, or only
    arrives, or only waits. Two bags that are not in a row, or a batch that stands between two
    matches, make it a general order.

    Args:
        above: For every leaf, the bit set of the leaves that come after it.
        flags: For every leaf, the flags of its words.
    """
    waits = sum(1 << leaf for leaf, mine in flags.items() if any(f & AWAIT for f in mine))
    for mine in flags.values():
        if len(mine) > 1 and len({*mine}) > 1:
            return False
        if len(mine) > 1 and mine[0] == ARRIVE | AWAIT:
            return False
    before = sorted(
        {waits & ~above[leaf] for leaf, mine in flags.items() if any(f & ARRIVE for f in mine)},
        key=int.bit_count,
    )
    return all(small & ~large == 0 for small, large in itertools.pairwise(before))
