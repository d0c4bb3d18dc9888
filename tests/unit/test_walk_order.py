"""A set is walked in the order that it is given, by whatever walks it, inside the block only."""

from __future__ import annotations

import enum
import itertools
import sys
from fractions import Fraction
from typing import NamedTuple

import pytest

from planguard.capture.names import made_lists, walk_order
from planguard.capture.names.walk_order import has_own_order, walked

pytestmark = pytest.mark.skipif(
    sys.implementation.name != "cpython", reason="the slot is one of CPython's"
)


class Own(set):
    """A set of the program's own."""


class Names(list):
    """A list of the program's own."""


def taken(*names):
    """Return what a call is given."""
    return names


def extended(s):
    """Make a list longer by a set."""
    names = [0]
    names.extend(s)
    return names


def added(s):
    """Add a set to a list in place, under a ``try``."""
    names = [0]
    try:
        names += s
    finally:
        names.append(1)
    return names


def sliced(s):
    """Put a set into a list."""
    names = [0, 1, 2]
    names[1:2] = s
    return names


def resumed(s):
    """Give a star from a generator."""
    yield (0, *s)


WALKS = {
    "loop": lambda s: [one + "" for one in s],
    "tuple": tuple,
    "map": lambda s: tuple(map(str, s)),
    "next": lambda s: (next(iter(s)), *sorted(s)[1:]),
    "chain": lambda s: tuple(itertools.chain(s, ())),
    "enumerate": lambda s: tuple(one for _, one in enumerate(s)),
    "fromkeys": lambda s: tuple(dict.fromkeys(s)),
    "unpacked": lambda s: "{}{}{}".format(*s),
    "by name": lambda s: tuple(s.__iter__()),
    "pop": lambda s: tuple(set(s).pop() for _ in range(1)),
    "frozen": lambda s: tuple(frozenset(s)),
    "subclass": lambda s: tuple(Own(s)),
    "difference": lambda s: tuple(s - {"x"}),
    "filled dictionary": lambda s: tuple({one: one + "" for one in s}),
    "generator": lambda s: tuple(one for one in s),
    "max of equals": lambda s: (max(s, key=lambda _: 0),),
    "list": list,
    "map of lists": lambda s: next(map(list, [s])),
    "list of a class": lambda s: tuple(Names(s)),
    "starred": lambda s: ["first", *s],
    "starred behind": lambda s: [*s, *range(2)],
    "starred in a loop": lambda s: [(one, [one, (1, *s)]) for one in range(2)],
    "arguments": lambda s: taken("first", *s),
    "extended": extended,
    "added": added,
    "in a slice": sliced,
    "joined": lambda s: tuple("".join(s)),
    "joined bytes": lambda s: b"".join({one.encode() for one in s}),
    "sorted by nothing": lambda s: tuple(sorted(s, key=lambda _: 0)),
    "text": repr,
    "formatted": lambda s: f"{frozenset(s)}",
    "of a generator": lambda s: next(resumed(s)),
}


@pytest.mark.parametrize("walk", WALKS.values(), ids=WALKS)
def test_every_walk_takes_the_order_that_is_given(walk):
    """Sorted here and sorted there: two orders give two answers, whatever asks."""
    names = {"a", "b", "c"}
    before = walk(names)
    with walked(lambda found, _: sorted(found)) as is_hooked:
        first = walk(names)
    with walked(lambda found, _: sorted(found, reverse=True)):
        second = walk(names)
    assert is_hooked
    assert first != second
    assert walk(names) == before


def test_numbers_have_one_order_everywhere():
    """Sets of numbers, and of tuples of them, hash alike in every process: nobody is asked."""

    def refuse(found, _):
        raise AssertionError(found)

    with walked(refuse):
        assert sorted({3, 1, 2}) == [1, 2, 3]
        assert len([*{(1, 2), (3, 4)}]) == 2
        assert [*{"alone"}] == ["alone"]
    assert not has_own_order({1, 2.5, False})
    assert has_own_order({1, "a"})
    assert has_own_order({("a", 1), ("b", 2)})
    assert has_own_order({object(), object()})


class Pair(NamedTuple):
    """A tuple with names."""

    one: object
    other: object = 0


class Level(enum.IntEnum):
    """Numbers whose hash is that of a number."""

    LOW = 1
    HIGH = 2


class Named(enum.Enum):
    """Members that are hashed by their names."""

    LOW = 1
    HIGH = 2


class Odd(int):
    """A number whose hash is that of a text."""

    def __hash__(self):
        return hash("odd")


def test_numbers_of_any_class_hash_alike():
    """As plain numbers do, and tuples of them; not where a class has a hash of its own."""
    for alike in ({Pair(1), Pair(2)}, set(Level), {Fraction(1, 2), 3}):
        assert not has_own_order(alike)
    for own in (set(Named), {Odd(1), Odd(2)}, {Pair("a"), Pair("b")}):
        assert has_own_order(own)


def test_a_set_that_changes_while_it_is_walked_raises_as_ever():
    """The error of the interpreter is no error of the order."""
    names = {"a", "b", "c"}

    def grow():
        for one in names:
            names.add(one + "x")

    with walked(lambda found, _: found[::-1]), pytest.raises(RuntimeError, match="changed size"):
        grow()


def test_a_class_made_inside_is_left_as_it_would_be_outside():
    """A subclass of set that is made in the block keeps no trace of it."""
    with walked(lambda found, _: sorted(found)):
        kind = type("Inner", (set,), {})
        inside = tuple(kind({"b", "a", "c"}))
    assert inside == ("a", "b", "c")
    value = kind({"b", "a", "c"})
    assert type(iter(value)).__name__ == "set_iterator"
    assert type(iter(Own("ab"))).__name__ == "set_iterator"


def test_the_element_that_is_popped_is_gone():
    """``pop`` takes the first in the order that is given, and removes it."""
    names = {"a", "b", "c"}
    with walked(lambda found, _: sorted(found, reverse=True)):
        assert [names.pop() for _ in range(3)] == ["c", "b", "a"]
        with pytest.raises(KeyError):
            names.pop()


def test_the_block_leaves_nothing_behind():
    """Slots, methods and the interpreter's watch are those from before, errors those of a list."""
    kinds = (set, frozenset, list, str, bytes, dict)
    before = [dict(vars(kind)) for kind in kinds]
    with walked(lambda found, _: found[::-1]), pytest.raises(TypeError, match="not iterable"):
        list(5)
    with walked(lambda found, _: found[::-1]), pytest.raises(ZeroDivisionError):
        [*(1 // one for one in (1, 0))]
    assert [dict(vars(kind)) for kind in kinds] == before
    assert type(list.__init__) is type(set.__iter__) is type(object.__init__)
    if sys.version_info >= (3, 12):
        named = [sys.monitoring.get_tool(number) for number in range(6)]
        assert not any("planguard" in (name or "") for name in named)
    assert sorted([*{"a", "b"}]) == ["a", "b"]


def test_a_list_that_lets_no_stack_be_read_says_so(monkeypatch):
    """Where lists are made unseen and the stack is not found, the block says so."""
    monkeypatch.setattr(walk_order, "LISTS_ASK", False)
    monkeypatch.setattr(made_lists, "_header", lambda: None)
    with walked(lambda found, _: found[::-1]) as is_hooked:
        assert not is_hooked
