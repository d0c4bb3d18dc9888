"""Waits for members of fused buffers in a thread beside the one that submits them."""

from __future__ import annotations

from typing import Any

import pytest

import planguard

Item = dict[str, Any]
MODELS = ("gloo", "gloo-detail", "nccl", "nccl-lazy", "mpi-sync", "mpi-pg")


def member(name: str, size: int = 8) -> Item:
    """Return a member."""
    named = {"id": name, "label": name, "work": name}
    return {"op": "all_reduce", "bytes": size, "async": True, **named}


def wait(*names: str) -> Item:
    """Return a wait."""
    return {"op": "wait", "work": list(names)}


def call(name: str) -> Item:
    """Return a call of another group."""
    return {"op": "all_reduce", "bytes": 4, "group": "side", "label": name}


def plan(first: list[Any], second: list[Any], **policy: Any) -> Item:
    """Return a plan of two ranks."""
    return {
        "schema": "planguard.plan/1",
        "world_size": 2,
        "groups": {"side": {"ranks": [0, 1]}},
        "fusion": [{"id": "f", "members": ["a", "b"], **policy}],
        "ranks": {"0": {"actions": first}, "1": {"actions": second}},
    }


def said(given: Item, model: str) -> str:
    """Return the outcome."""
    return planguard.check(given, model=model).outcome.value


PLAIN = [member("a"), member("b"), wait("a", "b")]
BESIDE = [{"op": "threads", "threads": [[member("a"), member("b")], [wait("a", "b")]]}]


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("policy", [{}, {"membership": "fixed"}, {"cap_bytes": 8}], ids=str)
def test_a_wait_that_names_the_last_member_comes_behind_all(model: str, policy: Item) -> None:
    """What it finds in the buffer then leaves in its thread."""
    # Two threads use the communicator, and which of them creates it is not looked into.
    is_open = model == "nccl-lazy" and "cap_bytes" in policy
    assert said(plan(PLAIN, BESIDE, **policy), model) == ("UNKNOWN" if is_open else "SAFE")


def test_a_wait_that_may_come_before_the_last_member_is_left_open() -> None:
    """It may launch the buffer with one member in it, or with both."""
    early = [{"op": "threads", "threads": [[member("a"), member("b")], [wait("a"), wait("b")]]}]
    assert said(plan(PLAIN, early), "gloo") == "UNKNOWN"


def test_what_stands_in_front_of_the_wait_holds_it_up() -> None:
    """A call that the other rank makes behind its own wait for the buffer."""
    crossed = [
        {"op": "threads", "threads": [[member("a"), member("b")], [call("x"), wait("a", "b")]]}
    ]
    late = [*PLAIN, call("x")]
    assert said(plan(late, crossed), "gloo") == "DEADLOCK"
    # A fixed bucket leaves where it is complete, whoever waits.
    assert said(plan(late, crossed, membership="fixed"), "gloo") == "SAFE"


def test_a_handle_is_there_once_its_communicator_is() -> None:
    """A thread that waits for a call of another one waits for what that makes first, too."""
    threads = [
        [{"op": "all_reduce", "bytes": 8, "async": True, "work": "h", "label": "w"}],
        [{"op": "wait", "work": "h"}, call("x")],
    ]
    given = {
        "schema": "planguard.plan/1",
        "world_size": 2,
        "groups": {"side": {"ranks": [0, 1]}},
        "ranks": {
            "0": {"actions": [call("x"), {"op": "all_reduce", "bytes": 8, "label": "w"}]},
            "1": {"actions": [{"op": "threads", "threads": threads}]},
        },
    }
    assert said(given, "nccl-lazy") == "DEADLOCK"


@pytest.mark.parametrize("model", ["gloo", "gloo-detail", "mpi-sync", "mpi-pg", "nccl"])
@pytest.mark.parametrize("names", [["h"], ["g", "h"]])
def test_a_wait_in_another_thread_stands_until_the_call_is_done(
    model: str, names: list[str]
) -> None:
    """Also where the call itself is checked first, so that a wait behind it says no more."""
    calls = [
        {"op": "all_reduce", "bytes": 8, "async": True, "work": name, "label": name}
        for name in names
    ]
    stands: Item = {"op": "wait", "work": names}
    threads = [[[*calls[:-1], call("x"), calls[-1]], [stands]], [calls, [stands, call("x")]]]
    given = {
        "schema": "planguard.plan/1",
        "world_size": 2,
        "groups": {"side": {"ranks": [0, 1]}},
        "ranks": {
            str(rank): {"actions": [{"op": "threads", "threads": mine}]}
            for rank, mine in enumerate(threads)
        },
    }
    assert said(given, model) == "DEADLOCK"
