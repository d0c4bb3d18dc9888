"""The random states of Python, NumPy and torch, and what they throw first.

All three are a Mersenne Twister (MT19937; Matsumoto and Nishimura 1998): what it gives is its
words, tempered; of the words that temper to the lowest and the highest number a state begins with
64.
"""

from __future__ import annotations

import random
import struct
import sys
from contextlib import contextmanager
from enum import Enum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

_WORDS, _ENDS = 624, 64
"""Words of a state, and how many of them are an end of the range: loops that reject end."""
_ALL = 0xFFFFFFFF


class Throw(Enum):
    """What an odd rank throws: some other numbers, or first the ends of their range."""

    OTHER = "other numbers"
    LOWEST = "the lowest numbers"
    HIGHEST = "the highest numbers"
    THIRD = "a third of the range"
    TWO_THIRDS = "two thirds of the range"
    NAMED = "what a test names"

    @property
    def opposite(self) -> Throw:
        """What the others throw, where nobody has a seed."""
        if self not in BITS:
            return Throw.OTHER
        return Throw.LOWEST if self is Throw.HIGHEST else Throw.HIGHEST


BITS = {
    Throw.LOWEST: 0, Throw.THIRD: 0x55555555, Throw.TWO_THIRDS: 0xAAAAAAAA,
    Throw.HIGHEST: 0xFFFFFFFF,
}  # fmt: skip
"""32 random bits: of a third any two neighbors are alike, the highest and the lowest."""


def words_of(number: int, throw: Throw) -> list[int]:
    """Return the words of a state of its own, whose first numbers are an end of the range."""
    words = list(random.Random(number).getstate()[1][:_WORDS])  # noqa: S311 - no secret
    if throw in BITS:
        words[:_ENDS] = [untempered(BITS[throw])] * _ENDS
    return words


def set_state(home: str, number: int, throw: Throw) -> None:
    """Set the state of a library to one of its own."""
    words = words_of(number, throw)
    if home == "random":
        random.setstate((3, (*words, 0), None))
    elif home == "numpy":
        import numpy as np

        np.random.set_state(("MT19937", np.array(words, dtype=np.uint32), 0, 0, 0.0))  # noqa: NPY002 - it is the state that is asked
    else:
        set_torch_state(state_of_torch(number, throw))


def state_of_torch(number: int, throw: Throw) -> Any:
    """Return a state of a generator of torch's.

    It is at::CPUGeneratorImpl's, aten/src/ATen/CPUGeneratorImpl.cpp: seed, left, seeded, next, 624
    words, and numbers kept for the next normal one, of which there are none.
    """
    import torch

    words = words_of(number, throw)
    head = struct.pack("<QiiQ", number, _WORDS, 1, 1)
    data = (head + struct.pack(f"<{_WORDS}Q", *words)).ljust(len(torch_state()), b"\0")
    return torch.frombuffer(bytearray(data), dtype=torch.uint8)


def torch_state() -> Any:
    """Return the state of torch's default generator."""
    import torch

    return torch.get_rng_state()


def set_torch_state(state: Any) -> None:
    """Set the state of torch's default generator."""
    import torch

    torch.set_rng_state(state)


def untempered(number: int) -> int:
    """Return the word of a Mersenne Twister that gives a number of 32 bits."""
    number ^= number >> 18
    number ^= number << 15 & 0xEFC60000
    found = number
    for _ in range(4):
        found = number ^ (found << 7 & 0x9D2C5680)
    number, found = found & _ALL, found & _ALL
    for _ in range(2):
        found = number ^ found >> 11
    return found & _ALL


@contextmanager
def kept_dice() -> Iterator[None]:
    """Leave the caller's random states as they were: a block runs in the caller's own process."""
    import torch

    states = torch.get_rng_state(), random.getstate()
    numpy = sys.modules.get("numpy")
    other = numpy.random.get_state() if numpy is not None else None
    try:
        yield
    finally:
        torch.set_rng_state(states[0])
        random.setstate(states[1])
        if numpy is not None:
            numpy.random.set_state(other)
