"""What one rank throws: the random states of Python, NumPy and torch.

Nobody seeded them alike, so one rank may throw anything. Some other numbers would agree by luck (a
coin does every second time), so a rank throws the lowest and the highest, and a third from each:
its first numbers are the ends of their range, each of four, or what a test names, and a test of a
random number goes each way.

Sources that nobody can seed, or that the program makes without a seed (``Random()``,
``default_rng()``, ``RandomState()``, ``secrets``, ``uuid4``, ``os.urandom``), differ between
processes anyway, and may agree by luck: where an odd rank throws one end of the range, the others
throw the other one there. So does what has a seed that each start and each rank has of its own,
computed from a clock, a process or such bytes: ``own_seeds`` tells by two plays.

The states are ``twister``'s.
"""

from __future__ import annotations

import io
import os
import random
import secrets
import sys
import tempfile
import uuid
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from planguard.capture.values.own_tensors import Tensors
from planguard.capture.values.twister import (
    BITS,
    Throw,
    set_state,
    words_of,
)
from planguard.sources import file_of, is_own

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from types import FrameType

_DRAWS = (
    "random", "uniform", "randint", "randrange", "choice", "choices", "sample", "shuffle", "gauss",
    "betavariate", "expovariate", "normalvariate", "triangular", "getrandbits", "rand", "randn",
    "permutation", "normal", "binomial", "poisson", "random_sample", "standard_normal",
)  # fmt: skip
"""Of ``random`` and ``numpy.random``."""
_CHOSEN_SEEDS = 1 << 32
"""Seeds below are somebody's choice; torch's own are random numbers of 53 bits and more."""
_SHORT = 4
"""Bytes up to which all of them are an end; of more it is the outer ones, as they may be a name."""
_FREE = 3
"""Letters of a temporary name that stay as they are: a name may be taken."""
_NODE = 6
"""Bytes of the address of a network card, which ``uuid.getnode`` gives."""
_RANDOM, _TEMPORARY = file_of(random), file_of(tempfile)
_RANDOM_BYTES = frozenset(file_of(one) for one in (random, secrets, uuid))
"""Files through which a program asks for random bytes."""


class Dice:
    """The random states of one rank.

    Attributes:
        rank: The rank.
        is_odd: Notes that dice are thrown at a line; tells whether this rank is odd there.
        line: Returns the line of a frame of the program, None for another frame.
        tensors: What is drawn with torch.
        seeded: Libraries whose state the program seeded: there the ranks are alike.
        throw: What this rank throws where it is odd.
        named: What a test names, where it throws that.
        seeds: The seeds that the program gave, with the line of each.
        seed_at: Tells whether a seed is each rank's own, and whether this rank is odd there.
        is_asked: Tells whether odd ranks are answered otherwise at a line.
    """

    def __init__(
        self, rank: int, is_odd: Callable[[str], bool], place: Callable[[FrameType], str | None]
    ) -> None:
        self.rank = rank
        self.is_odd = is_odd
        self.line = place
        self.throw = Throw.OTHER
        self.named: object = None
        self.seeds: list[tuple[str, str]] = []
        self.seed_at: Callable[[str], bool | None] = lambda _: None
        self.is_asked: Callable[[str], bool] = lambda _: False
        self.seeded: set[str] = set()
        self.tensors = Tensors(self)
        self._done: set[str] = set()

    def begin(self) -> None:
        """Give the rank a state of torch's of its own, unless somebody set a seed."""
        import torch

        if torch.initial_seed() < _CHOSEN_SEEDS:  # whoever seeds torch is taken to seed them all
            self.seeded.update(("random", "numpy", "torch"))
        else:
            torch.default_generator.manual_seed(_CHOSEN_SEEDS + self.rank)

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
        for owner, name in ((os, "urandom"), (random, "_urandom"), (os, "getrandom")):
            yield owner, name, self._bytes
        yield secrets, "randbelow", self._below
        yield uuid, "uuid1", self._number
        yield uuid, "getnode", self._node
        yield tempfile._RandomNameSequence, "__next__", self._name  # type: ignore[attr-defined]  # noqa: SLF001 - names of temporary files come from nowhere else
        yield numbers, "default_rng", self._generator
        yield numbers, "RandomState", self._state
        yield from self.tensors.questions()
        for owner in (torch, torch.random):
            for name in ("manual_seed", "seed"):
                yield owner, name, lambda original: self._seeding(original, "torch")

    def _draw(self, original: Any, home: str) -> Any:
        def draw(*args: Any, **options: Any) -> Any:
            frame = sys._getframe(1)  # noqa: SLF001 - the interpreter has no public way
            is_free = self.throw is Throw.NAMED and home not in self.seeded
            if not is_free:
                self._thrown(frame, home)
            found = original(*args, **options)
            place = self.line(frame) if is_free else None
            if place is None or not self.is_odd(place):
                return found
            return _named(self.named, original.__name__, args, found)

        return draw

    def _below(self, original: Any) -> Any:
        def randbelow(bound: int) -> int:
            found: int = original(bound)
            place = self.line(sys._getframe(1))  # noqa: SLF001 - same
            if place is None or self._end(place) is not Throw.NAMED:
                return found
            named = self.named if isinstance(self.named, int) else -1
            return named if 0 <= named < bound else found

        return randbelow

    def _number(self, original: Any) -> Any:
        def uuid1(*args: Any, **options: Any) -> uuid.UUID:
            found = original(*args, **options)
            place = self.line(sys._getframe(1))  # noqa: SLF001 - same
            return uuid.UUID(bytes=self._given(found.bytes, place))

        return uuid1

    def _node(self, original: Any) -> Any:
        def getnode() -> int:
            found = int(original()).to_bytes(_NODE, "big")
            place = self.line(sys._getframe(1))  # noqa: SLF001 - same
            return int.from_bytes(self._given(found, place), "big")

        return getnode

    def file_of_bytes(self, place: str) -> Any:
        """Return ``/dev/urandom``, opened at a line: what it gives is asked there."""
        return io.BufferedReader(_Bytes(lambda size: self._given(os.urandom(size), place)), 1)

    def _thrown(self, frame: FrameType, home: str) -> None:
        place = self.line(frame)
        if place is not None and home not in self.seeded and self.is_odd(place):
            self._begin(home)

    def begin_torch(self) -> None:
        """Give torch the state of an odd rank."""
        self._begin("torch")

    def _begin(self, home: str) -> None:
        self.seeded.add(home)  # once: from here on it has a state
        set_state(home, self.rank + 1, self.throw)

    def _end(self, place: str | None) -> Throw:
        """Note that a source without a seed is asked; return what this rank throws there."""
        if place is None:
            return Throw.OTHER
        is_odd = self.is_odd(place)
        return self.throw if is_odd or not self.is_asked(place) else self.throw.opposite

    def _own(self, original: Any) -> Any:
        def seed(state: random.Random, a: Any = None, *args: Any, **options: Any) -> None:
            original(state, a, *args, **options)
            frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - same
            while frame is not None and frame.f_code.co_filename == _RANDOM:
                frame = frame.f_back  # __init__
            if frame is None or isinstance(state, random.SystemRandom):
                return
            throw = self.state_of(a, frame)
            if throw in BITS:
                state.setstate((3, (*words_of(self.rank + 1, throw), 0), None))

        return seed

    def _name(self, original: Any) -> Any:
        letters = "0123456789_abcdefghijklmnopqrstuvwxyz"

        def following(names: Any) -> str:
            found: str = original(names)
            frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - same
            while frame is not None and _makes_files(frame.f_code.co_filename):
                frame = frame.f_back
            throw = self._end(None if frame is None else self.line(frame))
            if throw not in BITS:
                return found
            letter = letters[(len(letters) - 1) * BITS[throw] // 0xFFFFFFFF]
            return letter * (len(found) - _FREE) + found[-_FREE:]

        return following

    def _generator(self, original: Any) -> Any:
        def default_rng(seed: Any = None) -> Any:
            throw = self.state_of(seed, sys._getframe(1))  # noqa: SLF001 - same
            if throw not in BITS:
                return original(seed)
            import numpy as np

            twister = np.random.MT19937()
            words = np.array(words_of(self.rank + 1, throw), dtype=np.uint32)
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
                throw = dice.state_of(seed, sys._getframe(1))  # noqa: SLF001 - same
                if throw in BITS:
                    self.set_state(("MT19937", words_of(dice.rank + 1, throw), 0, 0, 0.0))

        return RandomState

    def state_of(self, seed: Any, frame: FrameType) -> Throw:
        """Return what a state of its own throws that is made with a seed, or without one."""
        place = self.line(frame)
        return self._end(place) if seed is None else self._seeded_at(place, seed)

    def _seeded_at(self, place: str | None, seed: Any) -> Throw:
        """Note a seed that is given; return what this rank throws, if it is each rank's own."""
        if place is None:
            return Throw.OTHER
        self.seeds.append((place, str(seed)))
        is_odd = self.seed_at(place)
        if is_odd is None:
            return Throw.OTHER
        return self.throw if is_odd else self.throw.opposite

    def _bytes(self, original: Any) -> Any:
        def urandom(size: int, /, *flags: int) -> bytes:
            found: bytes = original(size, *flags)
            frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - same
            is_bits = frame is not None and frame.f_code.co_name == "getrandbits"
            while frame is not None and frame.f_code.co_filename in _RANDOM_BYTES:
                frame = frame.f_back
            place = None if frame is None else self.line(frame)
            return self._given(found, place, is_bits=is_bits)

        return urandom

    def _given(self, found: bytes, place: str | None, *, is_bits: bool = False) -> bytes:
        """Return the random bytes that this rank gets at a line."""
        throw, size = self._end(place), len(found)
        if place is None or throw is Throw.OTHER or place in self._done:
            return found
        if throw is Throw.NAMED:
            return _bytes_of(self.named, found)
        if is_bits:  # a number below a bound is drawn again while it is none: once is an end
            self._done.add(place)
        bits = bytes([BITS[throw] & 0xFF])
        # Of a number below 2**k the k + 1 highest bits are asked: 01...1 is the highest one.
        first = b"\x7f" if is_bits and throw is Throw.HIGHEST else bits
        if size > _SHORT:
            return first + found[1:-1] + bits
        return (first + bits * size)[:size]

    def _seeding(self, original: Any, home: str) -> Any:
        def seed(*args: Any, **options: Any) -> Any:
            chosen = (*args, *(value for name, value in options.items() if name != "version"))
            if not chosen or chosen[0] is None:
                # Of this process alone: another one on every rank, whatever was set before.
                self.seeded.discard(home)
                if (place := self.caller(sys._getframe(1))) is not None:  # noqa: SLF001 - same
                    self.is_odd(place)  # what it gives may be a seed
                return original(*args, **options)
            self.seeded.add(home)
            throw = self._seeded_at(self.caller(sys._getframe(1)), chosen[0])  # noqa: SLF001 - same
            found = original(*args, **options)
            if throw in BITS:
                set_state(home, self.rank + 1, throw)
            return found

        return seed

    def caller(self, frame: FrameType | None) -> str | None:
        """Return the program's line that seeds, itself or through a library."""
        while frame is not None and (place := self.line(frame)) is None:
            frame = frame.f_back
        return None if frame is None else place


class _Bytes(io.RawIOBase):
    """A file of random bytes."""

    def __init__(self, give: Callable[[int], bytes]) -> None:
        super().__init__()
        self._give = give

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        buffer[:] = self._give(len(buffer))
        return len(buffer)


def own_seeds(
    before: Mapping[int, Iterable[tuple[str, str]]], after: Mapping[int, Iterable[tuple[str, str]]]
) -> list[str]:
    """Return the lines whose seeds are each rank's own, and another one at each start.

    A seed that all ranks agreed on is another one in another play, and the same on all of them; one
    that is computed from a rank alone is the same in every play.

    Args:
        before: The seeds of a play, by rank, each with its line.
        after: Those of a play in which some ranks were answered otherwise.
    """
    places = dict.fromkeys(place for rows in after.values() for place, _ in rows)
    found = []
    for place in places:
        first, second = ([[v for p, v in rows if p == place] for _, rows in sorted(one.items())]
                         for one in (before, after))  # fmt: skip
        is_common = all(one == second[0] for one in second)
        if first != second and not is_common:
            found.append(place)
    return found


def _makes_files(file: str) -> bool:
    return file == _TEMPORARY or is_own(file)  # open is watched, too


def _named(named: object, name: str, args: tuple[Any, ...], found: Any) -> Any:
    """Return what a test names, where a draw could give it; else what it gave."""
    if name == "choice" and args and isinstance(args[0], Sequence):
        return next((one for one in args[0] if one == named), found)
    if not isinstance(named, int) or not all(isinstance(one, int) for one in args[:2]):
        return found
    if name == "randint" and len(args) == 2:
        return type(found)(named) if args[0] <= named <= args[1] else found
    if name == "randrange" or (name == "randint" and len(args) == 1):
        return type(found)(named) if args and named in range(*args) else found
    return found


def _bytes_of(named: object, found: bytes) -> bytes:
    """Return random bytes that are a number, or end with it."""
    if not isinstance(named, int):
        return found
    if len(found) > _SHORT:
        return found[:-1] + bytes([named & 0xFF])
    return (named & (1 << 8 * len(found)) - 1).to_bytes(len(found), "big")
