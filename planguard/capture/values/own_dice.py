"""What one rank throws: the random states of Python, NumPy and torch.

Nobody seeded them alike, so one rank may throw anything. Some other numbers would agree by luck (a
coin does every second time), so a rank throws the lowest and the highest: its first numbers are the
ends of their range, and a test of a random number goes each way.

Sources that nobody can seed, or that the program makes without a seed (``Random()``,
``default_rng()``, ``RandomState()``, ``secrets``, ``uuid4``, ``os.urandom``), differ between
processes anyway, and may agree by luck: where an odd rank throws one end of the range, the others
throw the other one there.

The states are those of a Mersenne Twister (MT19937; Matsumoto and Nishimura 1998), which all three
use: what it gives is its words, tempered; of the words that temper to the lowest and the highest
number a state begins with 64.
"""

from __future__ import annotations

import os
import random
import secrets
import struct
import sys
import uuid
from contextlib import contextmanager
from enum import Enum
from time import time
from typing import TYPE_CHECKING, Any

from planguard.sources import file_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

_DRAWS = (
    "random", "uniform", "randint", "randrange", "choice", "choices", "sample", "shuffle", "gauss",
    "betavariate", "expovariate", "normalvariate", "triangular", "getrandbits", "rand", "randn",
    "permutation", "normal", "binomial", "poisson", "random_sample", "standard_normal",
)  # fmt: skip
"""Of ``random`` and ``numpy.random``."""
_TENSORS = ("rand", "randint", "randperm", "bernoulli", "multinomial")
"""Of torch; ``randn`` makes data and weights."""
_FEW = 4
"""Elements of a tensor up to which it may be a throw; larger ones are data."""
_CHOSEN_SEEDS = 1 << 32
"""Seeds below are somebody's choice; torch's own are random numbers of 53 bits and more."""
_WORDS, _ENDS = 624, 64
"""Words of a state, and how many of them are an end of the range: loops that reject end."""
_ALL = 0xFFFFFFFF
_CLOCKS = 3 * 86_400
"""Seconds around now that a clock may show in a play, in which it runs ahead by a day."""
_SHORT = 4
"""Bytes up to which all of them are an end; of more it is the outer ones, as they may be a name."""
_RANDOM = file_of(random)
_RANDOM_BYTES = frozenset(file_of(one) for one in (random, secrets, uuid))
"""Files through which a program asks for random bytes."""


class Throw(Enum):
    """What an odd rank throws: some other numbers, or first the ends of their range."""

    OTHER = "other numbers"
    LOWEST = "the lowest numbers"
    HIGHEST = "the highest numbers"

    @property
    def opposite(self) -> Throw:
        """The other end of the range."""
        ends = {Throw.LOWEST: Throw.HIGHEST, Throw.HIGHEST: Throw.LOWEST}
        return ends.get(self, Throw.OTHER)


class Dice:
    """The random states of one rank.

    Attributes:
        seeded: Libraries whose state the program seeded: there the ranks are alike.
        throw: What this rank throws where it is odd.
        is_asked: Tells whether odd ranks are answered otherwise at a line.
    """

    def __init__(
        self, rank: int, is_odd: Callable[[str], bool], place: Callable[[FrameType], str | None]
    ) -> None:
        self._rank = rank
        self._is_odd = is_odd
        self._place = place
        self.throw = Throw.OTHER
        self.is_asked: Callable[[str], bool] = lambda _: False
        self.seeded: set[str] = set()
        self._done: set[str] = set()

    def begin(self) -> None:
        """Give the rank a state of torch's of its own, unless somebody set a seed."""
        import torch

        if torch.initial_seed() < _CHOSEN_SEEDS:  # whoever seeds torch is taken to seed them all
            self.seeded.update(("random", "numpy", "torch"))
        else:
            torch.default_generator.manual_seed(_CHOSEN_SEEDS + self._rank)

    def questions(self) -> Iterator[tuple[Any, str, Callable[[Any], Any]]]:
        """Return every function that throws or seeds: owner, name, what makes the other one."""
        import torch

        for name in _DRAWS:
            yield random, name, lambda original: self._draw(original, "random")
        yield random, "seed", lambda original: self._seeding(original, "random")
        numbers = getattr(sys.modules.get("numpy"), "random", None)
        for name in _DRAWS if numbers is not None else ():
            yield numbers, name, lambda original: self._draw(original, "numpy")
        yield numbers, "seed", lambda original: self._seeding(original, "numpy")
        yield random.Random, "seed", self._own
        for owner in (os, random):
            yield owner, "urandom" if owner is os else "_urandom", self._bytes
        yield numbers, "default_rng", self._generator
        yield numbers, "RandomState", self._state
        for name in _TENSORS:
            yield torch, name, self._tensor
        for owner in (torch, torch.random):
            for name in ("manual_seed", "seed"):
                yield owner, name, lambda original: self._seeding(original, "torch")

    def _draw(self, original: Any, home: str) -> Any:
        def draw(*args: Any, **options: Any) -> Any:
            self._thrown(sys._getframe(1), home)  # noqa: SLF001 - the interpreter has no public way
            return original(*args, **options)

        return draw

    def _tensor(self, original: Any) -> Any:
        def draw(*args: Any, **options: Any) -> Any:
            if options.get("generator") is None and "torch" not in self.seeded:
                state = _torch_state()
                found = original(*args, **options)
                is_cpu = getattr(found, "device", None) is not None and found.device.type == "cpu"
                if not is_cpu or found.numel() > _FEW:
                    return found
                _set_torch_state(state)
                self._thrown(sys._getframe(1), "torch")  # noqa: SLF001 - same
            return original(*args, **options)

        return draw

    def _thrown(self, frame: FrameType, home: str) -> None:
        place = self._place(frame)
        if place is not None and home not in self.seeded and self._is_odd(place):
            self.seeded.add(home)  # once: from here on it has a state
            _set_state(home, self._rank + 1, self.throw)

    def _end(self, place: str | None) -> Throw:
        """Note that a source without a seed is asked; return what this rank throws there."""
        if place is None:
            return Throw.OTHER
        is_odd = self._is_odd(place)
        return self.throw if is_odd or not self.is_asked(place) else self.throw.opposite

    def _own(self, original: Any) -> Any:
        def seed(state: random.Random, a: Any = None, *args: Any, **options: Any) -> None:
            original(state, a, *args, **options)
            frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - same
            while frame is not None and frame.f_code.co_filename == _RANDOM:
                frame = frame.f_back  # __init__
            if a is not None or frame is None or isinstance(state, random.SystemRandom):
                return
            throw = self._end(self._place(frame))
            if throw is not Throw.OTHER:
                state.setstate((3, (*_words(self._rank + 1, throw), 0), None))

        return seed

    def _generator(self, original: Any) -> Any:
        def default_rng(seed: Any = None) -> Any:
            throw = Throw.OTHER
            if seed is None:
                throw = self._end(self._place(sys._getframe(1)))  # noqa: SLF001 - same
            if throw is Throw.OTHER:
                return original(seed)
            import numpy as np

            twister = np.random.MT19937()
            words = np.array(_words(self._rank + 1, throw), dtype=np.uint32)
            twister.state = {"bit_generator": "MT19937", "state": {"key": words, "pos": 0}}
            return np.random.Generator(twister)

        return default_rng

    def _state(self, original: Any) -> Any:
        dice = self

        class _Kind(type):
            def __instancecheck__(cls, one: object) -> bool:
                return isinstance(one, original)  # those made before the play, too

        class RandomState(original, metaclass=_Kind):  # type: ignore[misc]  # a class of NumPy's
            def __init__(self, seed: Any = None) -> None:
                super().__init__(seed)
                if seed is None:
                    throw = dice._end(dice._place(sys._getframe(1)))  # noqa: SLF001 - same
                    if throw is not Throw.OTHER:
                        self.set_state(("MT19937", _words(dice._rank + 1, throw), 0, 0, 0.0))

        return RandomState

    def _bytes(self, original: Any) -> Any:
        def urandom(size: int, /) -> bytes:
            found: bytes = original(size)
            frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - same
            is_bits = frame is not None and frame.f_code.co_name == "getrandbits"
            while frame is not None and frame.f_code.co_filename in _RANDOM_BYTES:
                frame = frame.f_back
            place = None if frame is None else self._place(frame)
            throw = self._end(place)
            if place is None or throw is Throw.OTHER or place in self._done:
                return found
            if is_bits:  # a number below a bound is drawn again while it is none: once is an end
                self._done.add(place)
            # Of a number below 2**k the k + 1 highest bits are asked: 01...1 is the highest one.
            high = b"\x7f" if is_bits else b"\xff"
            first, last = (b"\0", b"\0") if throw is Throw.LOWEST else (high, b"\xff")
            if size > _SHORT:
                return first + found[1:-1] + last
            return (first + last * size)[:size]

        return urandom

    def _seeding(self, original: Any, home: str) -> Any:
        def seed(*args: Any, **options: Any) -> Any:
            chosen = (*args, *(value for name, value in options.items() if name != "version"))
            if chosen and chosen[0] is not None and not _is_own(chosen[0]):
                self.seeded.add(home)
            else:  # of this process alone: another one on every rank, whatever was set before
                self.seeded.discard(home)
            return original(*args, **options)

        return seed


def _words(number: int, throw: Throw) -> list[int]:
    """Return the words of a state of its own, whose first numbers are an end of the range."""
    words = list(random.Random(number).getstate()[1][:_WORDS])  # noqa: S311 - no secret
    if throw is not Throw.OTHER:
        words[:_ENDS] = [_untempered(0 if throw is Throw.LOWEST else _ALL)] * _ENDS
    return words


def _is_own(seed: object) -> bool:
    """Tell whether a seed is the number of this process, or what its clock says."""
    if not isinstance(seed, int | float):
        return False
    return seed == os.getpid() or any(
        abs(seed - unit * time()) <= unit * _CLOCKS for unit in (1, 1_000, 1_000_000, 1_000_000_000)
    )


def _set_state(home: str, number: int, throw: Throw) -> None:
    """Set the state of a library to one of its own."""
    words = _words(number, throw)
    if home == "random":
        random.setstate((3, (*words, 0), None))
    elif home == "numpy":
        import numpy as np

        np.random.set_state(("MT19937", np.array(words, dtype=np.uint32), 0, 0, 0.0))  # noqa: NPY002 - it is the state that is asked
    else:
        import torch

        # at::CPUGeneratorImpl's state, aten/src/ATen/CPUGeneratorImpl.cpp: seed, left, seeded,
        # next, 624 words, and numbers kept for the next normal one, of which there are none.
        head = struct.pack("<QiiQ", number, _WORDS, 1, 1)
        size = len(_torch_state())
        data = (head + struct.pack(f"<{_WORDS}Q", *words)).ljust(size, b"\0")
        torch.set_rng_state(torch.frombuffer(bytearray(data), dtype=torch.uint8))


def _torch_state() -> Any:
    import torch

    return torch.get_rng_state()


def _set_torch_state(state: Any) -> None:
    import torch

    torch.set_rng_state(state)


def _untempered(number: int) -> int:
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
