"""No pickle makes a reader hash what takes forever: both followers agree, and miss nothing."""

from __future__ import annotations

import io
import pickle
import random
from typing import Any

import pytest

from planguard.audit.readers.safe import load_pickle
from planguard.errors import PlanError
from planguard.kernels import use

HOT = b"()]}tludsea012N\x85\x86\x87hqgp\x94K\x8c\x8f\x90\x91.\x88I\n123UX\x00"
VALUES: tuple[Any, ...] = (
    {"a": [1, 2, ("x", None)], "b": {"c": 1.5, "d": 2**70}}, [{"k": i, "s": "t"} for i in range(9)],
    ("a",) * 5, {"x" * 140_000: 1}, {1: 2}, {("a",): 1}, {"a": {1, 2}}, frozenset([1]), [True],
)  # fmt: skip
SAMPLES = [pickle.dumps(value, protocol) for value in VALUES for protocol in range(6)]


class Watched(pickle._Unpickler):  # the only one whose dictionaries can be watched
    """The unpickler in Python, which stops at a key that is no short text, and at a set."""

    dispatch = dict(pickle._Unpickler.dispatch)  # type: ignore[attr-defined]  # noqa: RUF012

    def find_class(self, module: str, name: str) -> Any:
        """Refuse every global."""
        raise pickle.UnpicklingError(f"{module}.{name}")

    def watch(self, keys: list[Any]) -> None:
        """Stop at the first key of another kind."""
        assert all(isinstance(key, str) and len(key) <= 1 << 17 for key in keys)

    def load_setitem(self) -> None:
        """One key."""
        self.watch(self.stack[-2:-1])
        super().load_setitem()  # type: ignore[misc]

    def load_setitems(self) -> None:
        """Those above the mark."""
        self.watch(self.stack[::2])
        super().load_setitems()  # type: ignore[misc]

    def load_dict(self) -> None:
        """Those above the mark."""
        self.watch(self.stack[::2])
        super().load_dict()  # type: ignore[misc]

    def load_empty_set(self) -> None:
        """A set."""
        raise AssertionError

    dispatch[pickle.SETITEM[0]] = load_setitem
    dispatch[pickle.SETITEMS[0]] = load_setitems
    dispatch[pickle.DICT[0]] = load_dict
    dispatch[pickle.EMPTY_SET[0]] = load_empty_set
    dispatch[pickle.FROZENSET[0]] = load_empty_set


def drawn(rng: random.Random) -> bytes:
    """Opcodes at random, or a pickle with a few bytes changed."""
    data = bytearray(rng.choice(SAMPLES) if rng.random() < 0.5 else rng.choices(HOT, k=30))
    for _ in range(rng.randrange(4)):
        at = rng.randrange(len(data) + 1)
        other = HOT if rng.random() < 0.7 else range(256)
        data[at : at + rng.randrange(2)] = bytes(rng.choices(other, k=rng.randrange(3)))
    return bytes(data)


def test_native_and_python_refuse_the_same_opcode() -> None:
    """Whole, changed and random pickles of every protocol."""
    native, twin, rng = use("native").refused_opcode, use("python").refused_opcode, random.Random(1)
    found = [(data, native(data)) for data in [*SAMPLES, *(drawn(rng) for _ in range(6_000))]]
    assert all(twin(data) == place for data, place in found)
    places = [place for _, place in found]
    assert min(places.count(-1), sum(place > 4 for place in places)) > 1_000


def test_what_is_not_refused_has_no_other_key() -> None:
    """The unpickler itself, watched, meets no key but short text, and no set."""
    refused, rng, ended = use("native").refused_opcode, random.Random(2), 0
    for data in [*SAMPLES, *(drawn(rng) for _ in range(6_000))]:
        if refused(data) == -1:
            try:
                Watched(io.BytesIO(data)).load()  # it knows no global
                ended += 1
            except AssertionError:
                pytest.fail(f"{data!r}")
            except Exception:  # noqa: BLE001, S110  the unpickler raises nearly every exception
                pass
    assert ended > 100


def tower(levels: int) -> bytes:
    """A tuple of two of a tuple of two ..., as a key; each level doubles the time to hash it."""
    steps = (b"h%ch%c\x86q%c0" % (level, level, level + 1) for level in range(levels))
    return b"\x80\x02})q\x000" + b"".join(steps) + b"h%cNs." % levels


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (tower(64), "a dictionary key that is no short text, at byte 522"),
        (pickle.dumps({i * (2**61 - 1): 0 for i in range(9)}), "a dictionary key that is no short"),
        (pickle.dumps({"a": {1}}, 4), "a set, at byte"),
        (b"}(h\x07Nu.", "malformed at byte 2"),
    ],
)
def test_a_key_that_takes_forever_is_refused(data: bytes, words: str) -> None:
    """Towers of tuples, integers that collide, sets; what the stack has nothing for."""
    with pytest.raises(PlanError, match=words) as error:
        load_pickle(data, "dump")
    assert error.value.hint
