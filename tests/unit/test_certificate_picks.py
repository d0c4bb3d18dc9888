"""The rules by which the checker of certificates follows what is picked, one by one."""

from __future__ import annotations

import json
from typing import Any

import pytest

from planguard.certificate import picks
from planguard.certificate.agreement import OutsideError, RejectedError
from planguard.certificate.format import Picks, digest, encode
from planguard.certificate.orders import Orders
from planguard.certificate.picks import explore
from planguard.certificate.verify import verify

HOST = ("gloo", "gloo-detail", "mpi-eager", "mpi-sync")
MODELS = (*HOST, "mpi-pg")


def plan_of(*programs: list[Any], **groups: list[int]) -> dict[str, Any]:
    """Give a flat plan, one program per rank."""
    ranks = {str(rank): {"actions": actions} for rank, actions in enumerate(programs)}
    named = {name: {"ranks": members} for name, members in groups.items()}
    head = {"schema": "planguard.plan/1", "world_size": len(programs), "groups": named}
    return {**head, "ranks": ranks}


def send(peer: int, **fields: Any) -> dict[str, Any]:
    """Give a blocking send of four bytes."""
    return {"op": "send", "peer": peer, "bytes": 4, **fields}


def recv(peer: Any, **fields: Any) -> dict[str, Any]:
    """Give a blocking receive of four bytes."""
    return {"op": "recv", "peer": peer, "bytes": 4, **fields}


def later(call: dict[str, Any], work: str) -> dict[str, Any]:
    """Make a call nonblocking."""
    kind = {"op": "i" + call["op"]} if call["op"] in {"send", "recv"} else {"async": True}
    return {**call, **kind, "work": work}


def wait(*work: str, **fields: Any) -> dict[str, Any]:
    """Give a wait."""
    return {"op": "wait", "work": list(work) if len(work) > 1 else work[0], **fields}


def reduce(label: str, **fields: Any) -> dict[str, Any]:
    """Give a labeled all_reduce."""
    return {"op": "all_reduce", "bytes": 4, "label": label, **fields}


def threads(*bodies: list[Any]) -> dict[str, Any]:
    """Give host threads."""
    return {"op": "threads", "threads": list(bodies)}


def answer(flat: dict[str, Any], model: str, eager: int = 4096) -> str:
    """Give `safe` with the number of ends, `unsafe`, or `outside`."""
    try:
        return f"safe {len(explore(flat, model, eager))}"
    except OutsideError:
        return "outside"
    except RejectedError:
        return "unsafe"


def safe_under(flat: dict[str, Any]) -> set[str]:
    """Give the models under which every end is complete."""
    return {model for model in MODELS if answer(flat, model).startswith("safe")}


# -- messages --------------------------------------------------------------------------------------


def test_a_receive_from_anybody_may_take_any_message():
    """Two receives from anybody take two messages; a later specific one may starve."""
    both = [[send(0)], [send(0)]]
    assert safe_under(plan_of([recv("any"), recv("any")], *both)) == {*MODELS}
    assert safe_under(plan_of([recv("any"), recv(1)], *both)) == set()
    assert safe_under(plan_of([recv(1), recv("any")], *both)) == {*MODELS}
    assert safe_under(plan_of([recv("any"), recv("any"), recv("any")], *both)) == set()


def test_tags_and_groups_narrow_what_fits():
    """A receive with a tag takes that tag only, one with any takes all, on its group."""
    tagged = [[send(0, tag=1)], [send(0, tag=2)]]
    assert safe_under(plan_of([recv("any", tag=2), recv("any", tag=1)], *tagged)) == {*MODELS}
    assert safe_under(plan_of([recv("any", tag="any"), recv(1, tag=1)], *tagged)) == set()
    assert safe_under(plan_of([recv("any", tag=3)], [send(0)])) == set()
    pair = plan_of([recv("any", group="g"), recv(1)], [send(0, group="g"), send(0)], g=[0, 1])
    assert safe_under(pair) == {*MODELS}
    wrong = plan_of([recv("any", group="g"), recv(1)], [send(0), send(0, group="g")], g=[0, 1])
    assert "gloo" not in safe_under(wrong)


def test_other_calls_meet_as_ever_beside_messages_that_compete():
    """Rounds and messages to others have their place; only what competes is picked."""
    flat = plan_of(
        [recv("any"), reduce("x"), send(1, label="y")], [send(0), reduce("x"), recv(0, label="y")]
    )
    assert safe_under(flat) == {*MODELS}
    assert explore(flat, "gloo", 0) == [[["take", [0, 0, None], [1, 0, None]]]]


def test_messages_compete_in_batches_too():
    """A batch is a loop of its calls where hosts block."""
    two = [{**recv("any", tag=tag), "op": "irecv"} for tag in (0, 1)]
    batch = {"op": "batch", "ops": two, "work": "b"}
    sent = [send(0), send(0, tag=1)]
    assert safe_under(plan_of([batch, wait("b")], sent)) == {*MODELS}
    assert safe_under(plan_of([batch, wait("b")], sent[:1])) == set()


def test_a_receive_of_any_tag_takes_a_message_of_each():
    """A tag that is not stated is 0, on both sides."""
    anything = [recv("any", tag="any")]
    for sent in (send(0, tag=3), send(0)):
        assert safe_under(plan_of(anything, [sent])) == {*MODELS}
    assert safe_under(plan_of([recv("any", tag=0)], [send(0)])) == {*MODELS}
    assert safe_under(plan_of([recv("any")], [send(0, tag=0)])) == {*MODELS}


def test_a_message_to_itself_is_outside_where_messages_compete():
    """It would meet its own rank, which no pick is about."""
    own = [later(recv("any"), "a"), send(0), wait("a")]
    assert {answer(plan_of(own), model) for model in MODELS} == {"outside"}


def test_messages_of_one_sender_keep_their_order():
    """The first that fits is taken: sizes that agree in this order only."""
    sizes = [send(0), send(0, bytes=8)]
    assert safe_under(plan_of([recv("any"), recv("any", bytes=8)], sizes)) == {*MODELS}
    assert safe_under(plan_of([recv("any", bytes=8), recv("any")], sizes)) == set()


def test_receives_are_served_as_posted_but_not_under_gloo():
    """Under gloo the receive from one rank may take what the one from anybody was posted for."""
    posted = [later(recv("any"), "a"), later(recv(1), "b"), wait("a"), wait("b")]
    flat = plan_of(posted, [send(0), send(0, tag=0)], [])
    assert safe_under(flat) == {*MODELS}
    sized = [later(recv("any"), "a"), later(recv(1, bytes=8), "b"), wait("a"), wait("b")]
    flat = plan_of(sized, [send(0), send(0, bytes=8)])
    assert safe_under(flat) == {"mpi-eager", "mpi-sync", "mpi-pg"}


def test_receives_that_want_the_same_keep_their_order_under_gloo():
    """The tag 0 is the one that is not stated."""
    for tags in ({}, {"tag": 0}), ({"tag": 0}, {}), ({"tag": 7}, {"tag": 7}):
        posted = [later(recv("any", **tags[0]), "a"), later(recv("any", bytes=8, **tags[1]), "b")]
        sent = [send(0, **tags[0]), send(0, bytes=8, **tags[1])]
        assert safe_under(plan_of([*posted, wait("a"), wait("b")], sent)) == {*MODELS}


def test_buffered_sends_always_finish_early():
    """Under MPI alone: elsewhere nobody reads the mode. What was taken is part of the state."""
    flat = plan_of([send(1), recv("any")], [send(0, mode="buffered"), recv(0)])
    assert safe_under(flat) >= {"mpi-eager", "mpi-sync"}
    assert not {"gloo", "gloo-detail"} & safe_under(flat)
    both = [[send(0, mode="buffered")], [send(0, mode="buffered")]]
    for last in (1, 2):
        for model in ("mpi-eager", "mpi-sync"):
            assert answer(plan_of([recv("any"), recv(last)], *both), model) == "unsafe"


def test_every_one_of_several_sends_may_finish_early_alone():
    """One lets its rank overtake another, whose rank stays; both together leave nobody."""
    for first, other in (1, 2), (2, 1):
        programs: list[Any] = [[recv("any"), later(recv(first), "h")], [], []]
        programs[first] = [send(other), send(0, mode="synchronous")]
        programs[other] = [send(0), recv(first)]
        assert answer(plan_of(*programs), "mpi-sync").startswith("safe")
        assert answer(plan_of(*programs), "mpi-eager") == "unsafe"


def test_small_sends_finish_early_or_not():
    """A send that finishes early lets its rank send more, which a receive from anybody may take."""
    flat = plan_of(
        [recv(1), recv("any"), recv("any", bytes=8)],
        [send(2), send(0), send(0, bytes=8)],
        [recv(1), send(0)],
    )
    assert answer(flat, "mpi-sync") == answer(flat, "mpi-eager") == "unsafe"
    flat = plan_of(
        [recv("any"), recv("any", bytes=8), send(1)],
        [send(2, tag=5), recv(0), send(0, bytes=8)],
        [send(0), recv(1, tag=5)],
    )
    assert answer(flat, "mpi-eager") == "unsafe"
    rest = [send(0, mode="synchronous"), recv(1, bytes=16)]
    early = plan_of([recv("any"), recv(1)], [send(2, bytes=16), send(0)], rest)
    assert answer(early, "mpi-sync") == "safe 1"
    assert answer(early, "mpi-eager") == "unsafe"
    assert answer(early, "mpi-eager", 15) == "safe 1"
    empty = json.loads(json.dumps(early).replace('"bytes": 16', '"bytes": 0'))
    assert answer(empty, "mpi-eager", 0) == "unsafe"
    big = json.loads(json.dumps(early).replace('"bytes": 16', '"bytes": 5000'))
    assert answer(big, "mpi-eager") == "safe 1"
    assert answer(big, "mpi-eager", 5000) == "unsafe"


def test_which_of_two_threads_calls_first_decides_who_takes_what():
    """Both orders of receives are followed, and both orders of sends; alike ones need a label."""
    sizes = [send(0, bytes=8), send(0)]
    one, two = [recv("any", bytes=8)], [recv("any")]
    assert answer(plan_of([*one, *two], sizes), "mpi-sync") == "safe 1"
    assert answer(plan_of([threads(one, two)], sizes), "mpi-sync") == "unsafe"
    assert answer(plan_of([threads(two, one)], sizes), "mpi-sync") == "unsafe"
    same = [threads([recv("any")], [recv("any")])]
    assert answer(plan_of(same, [send(0)], [send(0)]), "mpi-sync").startswith("safe")
    # The thread that posts first takes the first message that fits, whatever the other asks for.
    narrow = [threads([recv(1)], [recv("any")])]
    assert answer(plan_of(narrow, [send(0)], [send(0)]), "mpi-sync") == "unsafe"
    assert answer(plan_of(narrow, [send(0)] * 2), "mpi-sync").startswith("safe")
    sends = [threads([send(0, bytes=8, label="a")], [send(0, tag=1, label="b")])]
    takes = [recv("any", tag="any", bytes=8), recv("any", tag="any")]
    assert answer(plan_of(takes, sends), "mpi-sync") == "unsafe"
    unnamed = [threads([send(0)], [send(0)])]
    assert answer(plan_of([recv("any")] * 2, unnamed), "mpi-sync") == "outside"
    apart = [threads([send(0)], [send(2)])]
    ends = [recv("any")], apart, [recv("any")]
    assert answer(plan_of(*ends), "mpi-sync").startswith("safe")


def test_a_probe_waits_for_a_message_and_takes_none():
    """After a probe the message is still there; without one the rank stays."""
    look = {"op": "probe", "peer": "any"}
    assert safe_under(plan_of([look, recv("any")], [send(0)])) == {"mpi-eager", "mpi-sync"}
    assert safe_under(plan_of([look, recv("any"), look], [send(0)])) == set()
    assert answer(plan_of([look, recv(1)], [send(0)]), "gloo") == "outside"


def test_a_wait_for_any_passes_with_the_first():
    """The other handle may never complete; one for all needs both, and none is none."""
    start = [later(recv(1), "a"), later(recv(1, tag=7), "b")]
    one = [send(0)]
    assert safe_under(plan_of([*start, wait("a", "b", mode="any")], one)) >= {*HOST}
    assert safe_under(plan_of([*start, wait("a", "b", mode="some")], one)) >= {*HOST}
    assert safe_under(plan_of([*start, wait("a", "b")], one)) == set()
    assert safe_under(plan_of([*start, wait("a", "b", mode="any")], [])) == set()
    again = [*start, wait("a", "b", mode="any"), wait("a", "b")]
    assert safe_under(plan_of(again, [send(0), send(0, tag=7)])) >= {*HOST}
    assert safe_under(plan_of(again, one)) == set()


# -- threads ---------------------------------------------------------------------------------------


def test_threads_block_alone():
    """What gets stuck one after the other passes in two threads; the end joins both."""
    cross = plan_of([threads([send(1)], [recv(1)])], [threads([send(0)], [recv(0)])])
    assert safe_under(cross) == {*HOST}
    assert safe_under(plan_of([threads([send(1)], [recv(1)])], [recv(0)])) == set()
    after = plan_of([threads([send(1)], []), reduce("x")], [recv(0), reduce("x")])
    assert safe_under(after) == {*HOST}
    assert answer(cross, "mpi-pg") == "outside"


def test_threads_that_race_take_every_order():
    """Two calls of one communicator in two threads come in either order, and labels tell."""
    both = [threads([reduce("a")], [reduce("b")])]
    assert safe_under(plan_of(both, [reduce("a"), reduce("b")])) == set()
    alike = [threads([reduce("a")], [reduce("a")])]
    # Under mpi-pg they have one worker, and nothing else wants MPI.
    assert safe_under(plan_of(alike, [reduce("a"), reduce("a")])) == {*HOST, "mpi-pg"}
    apart = [threads([reduce("a", group="g")], [reduce("b")])]
    flat = plan_of(apart, [reduce("b"), reduce("a", group="g")], g=[0, 1])
    assert safe_under(flat) == {*HOST}
    ends = explore(plan_of(alike, [reduce("a"), reduce("a")]), "gloo", 0)
    assert [pick[0] for end in ends for pick in end] == ["call"] * 4


def test_threads_that_share_what_they_may_not_are_outside():
    """Races without labels, shared handles, and what only a host does."""
    bare = {"op": "barrier"}
    assert answer(plan_of([threads([bare], [bare])], [bare, bare]), "gloo") == "outside"
    shared = threads([later(send(1), "h")], [wait("h")])
    assert answer(plan_of([shared], [recv(0)]), "gloo") == "outside"
    for only in ({"op": "exit"}, {"op": "init"}, threads([bare])):
        assert answer(plan_of([threads([only], [])], []), "gloo") == "outside"
    batch = {"op": "batch", "ops": [{**send(1, label="a"), "op": "isend"}] * 2}
    raced = plan_of([threads([batch], [send(1, label="a")])], [recv(0)] * 3)
    assert answer(raced, "gloo") == "outside"


def test_threads_in_one_queue_are_chains_of_open_order():
    """The checker of open orders reads them; handles that are shared are refused."""
    flat = plan_of([threads([reduce("a", group="g")], [reduce("b")])], [], g=[0, 1])
    orders = Orders(flat, "nccl")
    assert len(orders.blocks[0][0].calls) == 2
    shared = plan_of([threads([later(send(1), "h")], [wait("h")])], [recv(0)])
    with pytest.raises(OutsideError, match="share a handle"):
        Orders(shared, "nccl")


# -- what is not followed --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "extra"),
    [
        ("gloo", [later({"op": "barrier"}, "b"), wait("b")]),
        ("gloo", [{"op": "exit"}]),
        ("gloo", [later(send(0, tag=9), "x"), {"op": "drop", "work": "x"}]),
        ("mpi-eager", [{"op": "broadcast", "root": 1, "bytes": 4, "group": "g"}]),
        ("mpi-eager", [{"op": "broadcast", "root": 1, "bytes": 4096, "group": "g"}]),
        ("mpi-pg", [{"op": "reduce", "root": 1, "group": "g"}]),
        ("mpi-sync", [{"op": "new_group", "group": "g"}]),
        ("mpi-sync", [threads([], []), {"op": "probe", "peer": 0}]),
        ("gloo", [{"op": "unordered", "body": []}]),
        ("nccl", []),
    ],
)
def test_what_makes_more_progress_than_is_followed_is_outside(model, extra):
    """Beside messages that compete: refused by name; the same plan without it is followed."""
    flat = plan_of([recv("any")], [send(0), *extra], g=[1])
    assert answer(flat, model) == "outside"
    assert answer(plan_of([recv("any")], [send(0)]), "gloo") == "safe 1"
    large = {"op": "broadcast", "root": 1, "bytes": 4097, "group": "g"}
    assert answer(plan_of([recv("any")], [send(0), large], g=[1]), "mpi-eager") == "safe 1"


@pytest.mark.parametrize(("name", "bound"), [("STATES", 50), ("WORK", 4_000)])
def test_the_search_is_bounded(monkeypatch, name, bound):
    """Beyond the bound there is no answer."""
    flat = plan_of([recv("any")] * 8, *([send(0)] * 2 for _ in range(4)))
    assert len(explore(flat, "gloo", 0)) == 1  # 81 states
    monkeypatch.setattr(picks, name, bound)
    with pytest.raises(OutsideError, match="states"):
        explore(flat, "gloo", 0)


# -- the certificate -------------------------------------------------------------------------------


def test_the_ends_are_those_of_the_checker():
    """Another list, another bound for sends, another form or model: rejected."""
    flat = plan_of([recv("any"), recv("any")], [send(0)], [send(0)])
    text = encode(flat)
    ends = tuple(explore(flat, "mpi-eager", 4096))
    proof = Picks("mpi-eager", digest(text), ends, 4096).to_json()
    said = verify(text, encode(proof))
    early = "sends of up to 4096 bytes early or not"
    assert said == f"3 ranks complete under mpi-eager in every end: 1, {early}"
    for other in (
        {"endings": []},
        {"endings": [*ends, *ends]},
        {"endings": [ends[0][::-1]]},
        {"eager_bytes": 4095},
        {"eager_bytes": True},
        {"eager_bytes": "4096"},
        {"model": "nccl"},
        {"model": "none"},
        {"schema": "planguard.certificate/2"},
        {"plan_sha256": digest(b"")},
    ):
        with pytest.raises(RejectedError):
            verify(text, encode({**proof, **other}))
    assert "early" not in verify(text, encode({**proof, "model": "gloo"}))
    assert "early" not in verify(text, encode({**proof, "model": "gloo", "eager_bytes": 0}))
