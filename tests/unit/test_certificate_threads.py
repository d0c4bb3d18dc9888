"""How the checker of certificates follows host threads, and which of their orders it tries."""

from __future__ import annotations

from typing import Any

import pytest

from planguard.certificate import picks
from planguard.certificate.agreement import OutsideError, RejectedError
from planguard.certificate.picks import explore
from planguard.certificate.threads import THREADED


def plan_of(*programs: list[Any], **groups: list[int]) -> dict[str, Any]:
    """Give a flat plan, one program per rank."""
    ranks = {str(rank): {"actions": actions} for rank, actions in enumerate(programs)}
    named = {name: {"ranks": members} for name, members in groups.items()}
    head = {"schema": "planguard.plan/1", "world_size": len(programs), "groups": named}
    return {**head, "ranks": ranks}


def message(op: str, peer: int, **fields: Any) -> dict[str, Any]:
    """Give a message of four bytes."""
    return {"op": op, "peer": peer, "bytes": 4, **fields}


def reduce(label: str, **fields: Any) -> dict[str, Any]:
    """Give a labeled all_reduce."""
    return {"op": "all_reduce", "bytes": 4, "label": label, **fields}


def threads(*bodies: list[Any]) -> dict[str, Any]:
    """Give host threads."""
    return {"op": "threads", "threads": list(bodies)}


def wait(work: Any, **fields: Any) -> dict[str, Any]:
    """Give a wait."""
    return {"op": "wait", "work": work, **fields}


def answer(flat: dict[str, Any], model: str = "gloo") -> str:
    """Give `safe` with the number of ends, `unsafe`, or `outside`."""
    try:
        return f"safe {len(explore(flat, model, 0))}"
    except OutsideError:
        return "outside"
    except RejectedError:
        return "unsafe"


def test_what_follows_threads_is_told_from_them():
    """A call after a block is none of those in it, which may still be under way."""
    start = [threads([message("isend", 1, work="a")], []), reduce("x"), wait("a")]
    assert answer(plan_of(start, [reduce("x"), message("recv", 0)])) == "safe 1"
    twice = [threads([message("isend", 1, work="a")]), threads([message("isend", 1, work="b")])]
    flat = plan_of(
        [*twice, reduce("x"), wait(["a", "b"])], [reduce("x"), *[message("recv", 0)] * 2]
    )
    assert answer(flat) == "safe 1"


def test_a_thread_may_do_all_that_is_stated():
    """Every such action at once, in a thread of each of two ranks."""
    rounds = sorted(THREADED - {"send", "isend", "recv", "irecv", "batch", "wait", "test"})
    known = {"root": 0, "bytes": 4, "dtype": "f32", "label": "x", "stream": "s", "ops": []}
    bodies = []
    for rank in (0, 1):
        peer = 1 - rank
        pair = [message("isend", peer, work="s"), message("irecv", peer, work="r")]
        batch = {"op": "batch", "ops": [message("isend", peer), message("irecv", peer)]}
        calls = [message("send", peer), message("recv", peer)][:: 1 - 2 * rank]
        test = {"op": "test", "work": "r"}
        plain = [{"op": name, **known} for name in rounds]
        bodies.append([*pair, test, wait(["s", "r"]), batch, *calls, *plain])
    assert {call["op"] for call in bodies[0]} == THREADED
    assert answer(plan_of(*([threads(body)] for body in bodies)), "mpi-sync") == "safe 1"


def test_a_host_waits_for_its_threads():
    """What it does afterwards is not there before each of them came to its end."""
    for body in ([[message("recv", 1)]], [[message("recv", 1)], []], [[], [message("recv", 1)]]):
        flat = plan_of(
            [threads(*body), message("send", 1)], [message("recv", 0), message("send", 0)]
        )
        assert answer(flat) == "unsafe"
        assert answer(flat, "mpi-sync") == "unsafe"


def test_calls_are_named_by_their_place():
    """Those of threads by that of the thread, one after the other; what follows comes after."""
    body = threads(
        [reduce("a"), {"op": "h2d", "bytes": 4}], [{"op": "h2d", "bytes": 4}, reduce("a")]
    )
    flat = plan_of([{"op": "h2d", "bytes": 4}, body], [reduce("a"), reduce("a")])
    first, second = ["call", [0, 1]], ["call", [0, 4]]
    assert explore(flat, "gloo", 0) == [[first, second], [second, first]]


def test_names_belong_to_one_thread():
    """A handle or an id of its own is followed, one that two of them use is not."""
    own = [message("isend", 1, work="a"), wait("a")], [message("irecv", 1, work="b"), wait("b")]
    other = [message("recv", 0), message("send", 0)]
    assert answer(plan_of([threads(*own)], other)) == "safe 1"
    first, then = {"op": "compute", "id": "c"}, {"op": "compute", "deps": ["c"]}
    assert answer(plan_of([threads([first, then], [{**first, "id": "d"}])])) == "safe 1"
    assert answer(plan_of([threads([first], [then])])) == "outside"
    assert answer(plan_of([threads([first], [first])])) == "outside"


def test_a_wait_for_any_of_one_is_a_wait_for_it():
    """However it is written; it ends the handle, so that an exit takes nothing back."""
    start, other = message("isend", 1, work="ab"), [message("recv", 0)]
    for work in ("ab", ["ab"]):
        for mode in ("any", "some", "all"):
            flat = plan_of([start, wait(work, mode=mode), {"op": "exit"}], other)
            assert answer(flat) == "safe 1"


def test_a_round_of_nothing_passes_alone_under_gloo():
    """Nobody else can count on it; the checker follows that where something is picked too."""
    flat = plan_of([reduce("x", bytes=0), message("recv", 1)], [message("send", 0)] * 1)
    flat["ranks"]["1"]["actions"].append(reduce("x", bytes=0))
    assert answer(flat) == "safe 1"
    assert answer(flat, "mpi-sync") == "unsafe"


def test_what_makes_more_progress_is_outside_beside_threads_that_race():
    """The same beside threads that do not race is followed."""
    end = {"op": "exit"}
    race = plan_of([threads([reduce("a")], [reduce("a")]), end], [reduce("a")] * 2)
    assert answer(race) == "outside"
    assert answer(race, "mpi-sync") == "safe 2"
    apart = [threads([reduce("a")], [reduce("a", group="g")]), end]
    assert answer(plan_of(apart, [reduce("a"), reduce("a", group="g")], g=[0, 1])) == "safe 1"


def test_messages_race_for_one_channel_whatever_says_its_tag():
    """A tag that is not stated is 0; messages to others, and of other tags, do not race."""
    one, two = [message("send", 1, label="a")], [message("send", 1, tag=0, label="b")]
    assert (
        answer(plan_of([threads(one, two)], [message("recv", 0), message("recv", 0)])) == "safe 2"
    )
    named = [message("recv", 0, label="a"), message("recv", 0, label="b")]
    assert answer(plan_of([threads(one, two)], named)) == "unsafe"
    assert answer(plan_of([threads(two, one)], named[::-1])) == "unsafe"
    other = [message("send", 1, tag=1, label="b")]
    apart = [message("recv", 0, label="a"), message("recv", 0, tag=1, label="b")]
    assert answer(plan_of([threads(one, other)], apart)) == "safe 1"
    cross = [threads([message("send", 1, label="a")], [message("recv", 1, label="b")])]
    assert answer(plan_of(cross, [message("recv", 0), message("send", 0)])) == "safe 1"


def test_a_batch_of_one_races_like_its_call():
    """With a label of its own it is known whose round it is."""
    batch = {"op": "batch", "ops": [message("isend", 1, label="a")]}
    flat = plan_of([threads([batch], [message("send", 1, label="b")])], [message("recv", 0)] * 2)
    assert answer(flat) == "safe 2"
    bare = {"op": "batch", "ops": [message("isend", 1)]}
    flat = plan_of([threads([bare], [message("send", 1, label="b")])], [message("recv", 0)] * 2)
    assert answer(flat) == "outside"


def test_a_thread_that_is_on_its_way_may_still_come_first():
    """One that stands at another gate has a call for this queue left: all orders are tried."""
    main = threads(
        [reduce("a"), reduce("b")],
        [reduce("x", group="g"), reduce("b")],
        [reduce("x", group="g")],
    )
    aside = [threads([reduce("x", group="g"), reduce("x", group="g")], body) for body in ([], [])]
    other = [threads([reduce("a"), reduce("b"), reduce("b")], aside[0]["threads"][0])]
    assert answer(plan_of([main], other, g=[0, 1])) == "unsafe"
    alike = [threads([reduce("b")] * 3, aside[0]["threads"][0])]
    main["threads"][0][0] = reduce("b")
    assert answer(plan_of([main], alike, g=[0, 1])) == "safe 6"


def test_races_that_have_nothing_to_do_with_each_other_are_not_multiplied(monkeypatch):
    """One queue after the other where all that race for it are there: as few states as that."""
    body = [[reduce("a")], [reduce("a")], [reduce("b", group="g")], [reduce("b", group="g")]]
    other = [reduce("a"), reduce("a"), reduce("b", group="g"), reduce("b", group="g")]
    flat = plan_of([threads(*body)], other, g=[0, 1])
    assert answer(flat) == "safe 4"
    states = 1 + 2 + 2 + 4 + 4  # none picked, then a call more: 2 orders of one queue, 4 of both
    monkeypatch.setattr(picks, "STATES", states - 1)  # of those before the last one
    assert answer(flat) == "safe 4"
    monkeypatch.setattr(picks, "STATES", states - 2)
    with pytest.raises(OutsideError, match="states"):
        explore(flat, "gloo", 0)
