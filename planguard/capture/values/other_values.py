"""Values that are read in the place of others: larger, smaller, none, zero, another truth."""

from __future__ import annotations

import math
import re
from enum import Enum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

_FAR, _MANY = 1e6, 1001
"""How far away a number is, and a count: most thresholds are nearer; so long a loop is walked. The
count is odd, and none is not: a rank of two may be named by its remainder."""
_NUMBER = re.compile(r"(?<![\w.])\d[\d_]*(?:\.\d*)?(?:[eE][-+]?\d+)?")


class Read(Enum):
    """What is read in the place of a value."""

    MORE = "a larger one"
    LESS = "a smaller one"
    NONE = "no number"
    ZERO = "zero"
    NEXT = "the next one"


PAIRS = ((Read.MORE, Read.LESS), (Read.LESS, Read.MORE))
SPECIAL = ((Read.NONE, Read.ZERO), (Read.ZERO, Read.NONE))
"""What one side reads, and what the other."""
NEAR = ((Read.NEXT, Read.LESS), (Read.LESS, Read.NEXT))
"""The same where one far away makes a rank raise: an index, or a count of what there is."""
_MORE = (Read.MORE, Read.NONE, Read.NEXT)


def other_value(found: Any, how: Read, far: float = 0.0, *, is_counted: bool = False) -> Any:
    """Return another value of the same kind, beyond ``far`` where it is a larger or smaller one.

    A smaller one of what was counted, though it is a float, is no less than nothing.
    """
    if isinstance(found, list):
        return [other_value(one, how, far, is_counted=is_counted) for one in found]
    if is_array(found):
        # A copy: what the program writes into it does not come back to the tensor.
        changed = found.copy()
        for at, one in enumerate(changed.flat):
            changed.flat[at] = other_value(one.item(), how, far, is_counted=is_counted)
        return changed
    if isinstance(found, bool):
        return how in _MORE
    if isinstance(found, int):
        return _other_int(found, how, int(min(far, _FAR)))
    if isinstance(found, float):
        if is_counted and how is Read.LESS:
            return min(found, 0.0)
        size = (2 * abs(found) if math.isfinite(found) else 0.0) + 2 * far + _FAR
        far_off = {Read.MORE: size, Read.LESS: -size, Read.NONE: math.nan, Read.ZERO: 0.0}
        return far_off.get(how, found + 1)
    return found


def other_flag(found: Any, how: Read) -> Any:
    """Return another truth value, as the number or the list of them that was read."""
    if isinstance(found, list):
        return [other_flag(one, how) for one in found]
    if is_array(found):
        changed = found.copy()
        changed[...] = how in _MORE
        return changed
    return type(found)(how in _MORE)


def _other_int(found: int, how: Read, far: int) -> int:
    """Return another integer; counts stay counts. Without a number, equality is answered."""
    if how is Read.MORE:
        return 2 * abs(found) + 2 * far + _MANY
    if how is Read.NEXT:
        return found + 1
    if how is Read.NONE:
        return _Equal(found)
    return 0 if found > 0 or how is Read.ZERO else found


def largest_number(texts: Iterable[str]) -> float:
    """Return the largest number that some tests name; 0 for none."""
    return max((float(one) for text in texts for one in _NUMBER.findall(text)), default=0.0)


class _Equal(int):
    """An integer that equals what it is compared with: the end of a text, a class, a padding."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, int)

    def __ne__(self, other: object) -> bool:
        return not isinstance(other, int)

    __hash__ = int.__hash__


def is_array(found: Any) -> bool:
    """Tell whether something is an array of numpy."""
    return type(found).__module__ == "numpy" and hasattr(found, "flat")
