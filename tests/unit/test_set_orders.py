# ruff: noqa: B007, D103, PERF401, PLC0208, C416, C420, SIM118 - the loops are what is looked at
"""Loops over sets are found while they run, and their calls become blocks in any order."""

from __future__ import annotations

import sys

import pytest

import planguard
from planguard.capture.names.set_orders import TURN, open_turns, turn_of


def here():
    """Give the turns of the loop that the caller stands in, without the identity of its frame."""
    found = turn_of(sys._getframe(1))
    return None if found is None else found[1]


class Holder:
    """An object of the program with sets in it."""

    def __init__(self):
        self.names = {"w", "b"}
        self.sizes = {3, 4}


def walk_literal():
    return [here() for n in {"w", "b"}]


def walk_name():
    names = set("wb")
    found = []
    for n in names:
        found.append(here())
    return found


def walk_attribute():
    holder = Holder()
    return [here() for n in holder.names]


def walk_difference():
    names = {"w", "b", "x"}
    return [here() for n in list(names - {"x"})]


def walk_method():
    return [here() for n in frozenset("wx").union("b").difference("x")]


def walk_outer():
    def inner():
        for _ in range(1):
            return here()
        return None

    return [inner() for n in {"w", "b"}]


def walk_list():
    names = {"w", "b"}
    names = list(names)
    return [here() for n in names]


def walk_star():
    return [here() for n in [*{"w", "b"}]]


def walk_made_list():
    names = [n for n in {"w", "b"}]
    return [here() for n in names]


def walk_dictionary():
    table = {n: 1 for n in {"w", "b"}}
    return [here() for n in table.keys()]


def walk_keys():
    old, new = {"w": 1, "b": 2, "x": 3}, {"x": 4}
    return [here() for n in old.keys() - new.keys()]


@pytest.mark.parametrize(
    "walk",
    [
        walk_literal,
        walk_name,
        walk_attribute,
        walk_difference,
        walk_method,
        walk_outer,
        walk_list,
        walk_star,
        walk_made_list,
        walk_dictionary,
        walk_keys,
    ],
    ids=lambda walk: walk.__name__[5:],
)
def test_a_loop_over_a_set_of_strings_is_free(walk):
    """The turns are told apart by the string that the loop gives."""
    assert sorted(walk()) == ["'b'", "'w'"]


def test_other_loops_are_not():
    """Sorted sets, dictionaries, lists and sets of numbers have one order in every process."""
    holder, table = Holder(), {"w": 1, "b": 2}
    assert [here() for n in sorted({"w", "b"})] == [None, None]
    assert [here() for n in table] == [None, None]
    assert [here() for n in ["w", "b"]] == [None, None]
    assert [here() for n in holder.sizes] == [None, None]
    assert [here() for n in {1, 2}] == [None, None]
    assert [here() for n in range(len({"w", "b"}))] == [None, None]
    made = list({len(n) for n in ("w", "bb")})
    assert [here() for n in made] == [None, None]
    assert [here() for n in {*made, 3} - {3}] == [None, None]
    assert [here() for n in [*made, *{*made}]] == [None] * 4
    assert [here() for k, n in enumerate(set(map(len, ("w", "bb"))))] == [None, None]


def test_numbers_made_of_a_set_of_strings_are_free():
    """The order is that of the strings, whatever was made of them."""
    sizes = [len(n) for n in {"w", "bb"}]
    assert len({here() for n in sizes}) == 2
    assert len({here() for n in {n: len(n) for n in {"w", "bb"}}.values()}) == 2
    assert len({here() for n in map(len, {"w", "bb"})}) == 2


def test_a_list_that_every_rank_has_in_one_order_is_not_free():
    """What was sorted, in place or not, or broadcast, has one order, whatever it was made of."""
    names = list({"w", "b"})
    names.sort()
    assert [here() for n in names] == [None, None]
    again = list({"w", "b"})
    again = sorted(again)
    assert [here() for n in again] == [None, None]

    def broadcast_object_list(given, _):
        given.sort()

    sent = list({"w", "b"})
    broadcast_object_list(sent, 0)
    assert [here() for n in sent] == [None, None]


def test_a_turn_is_told_by_all_that_the_loop_binds():
    """Behind enumerate, items and pairs the turns are apart as well."""
    assert len({here() for k, n in enumerate({"w", "b"})}) == 2
    assert len({here() for n, k in {("w", 1), ("b", 1)}}) == 2
    table = {n: 1 for n in {"w", "b"}}
    assert len({here() for n, k in table.items()}) == 2


def mark(op, turn, **fields):
    return {"op": op, "group": "world", "bytes": 4, TURN: ["1", turn, "for n in {...}"], **fields}


def program(actions):
    return {
        "schema": "planguard.plan/1",
        "world_size": 2,
        "ranks": {"0-1": {"actions": actions}},
    }


def test_turns_become_items_of_a_block():
    """Each turn is a chain; calls before and after stay; the marks are gone."""
    before = {"op": "barrier", "group": "world"}
    found, loops = open_turns([
        before, mark("all_reduce", "'w'"), mark("broadcast", "'w'", root=0),
        mark("all_reduce", "'b'"), mark("broadcast", "'b'", root=0), before,
    ])  # fmt: skip
    assert [one["op"] for one in found] == ["barrier", "unordered", "barrier"]
    assert [[a["op"] for a in chain] for chain in found[1]["body"]] == [
        ["all_reduce", "broadcast"],
        ["all_reduce", "broadcast"],
    ]
    assert loops == ["for n in {...}"]
    assert TURN not in str(found)


def test_one_turn_is_in_order():
    """A loop in which one turn communicates leaves nothing open."""
    found, loops = open_turns([mark("all_reduce", "'w'"), mark("all_reduce", "'w'")])
    assert [one["op"] for one in found] == ["all_reduce", "all_reduce"]
    assert not loops


def test_the_next_run_of_a_loop_is_a_block_of_its_own():
    """An element that comes again begins the next run: all of the first come before it."""
    once = [mark("all_reduce", "'w'"), mark("all_reduce", "'b'")]
    found, _ = open_turns(once * 2)
    assert [len(one["body"]) for one in found] == [2, 2]


def test_the_orders_are_decided():
    """Two all_reduces of other sizes in a loop over a set do not match in every order."""
    body, _ = open_turns([mark("all_reduce", "'w'"), mark("all_reduce", "'b'", bytes=8)])
    assert planguard.check(program(body), model="gloo").unsafe
