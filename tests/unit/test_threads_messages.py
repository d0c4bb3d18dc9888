"""Threads beside messages that compete, creations and exits: hand-made plans."""

from __future__ import annotations

from typing import Any

import pytest
from oracle.enumerator import enumerate_plan

import planguard
from planguard.reordering.threads.lanes import Call, widened

Item = dict[str, Any]


def plan_of(*programs: list[Item], groups: Item | None = None) -> Item:
    """Return a plan, one program for each rank."""
    return {
        "schema": "planguard.plan/1",
        "world_size": len(programs),
        "groups": groups or {},
        "ranks": {str(rank): {"actions": actions} for rank, actions in enumerate(programs)},
    }


def threads(*bodies: list[Item]) -> Item:
    """Return a block of threads."""
    return {"op": "threads", "threads": list(bodies)}


def send(peer: int, label: str = "m", **more: Any) -> Item:
    """Return a labeled send of four bytes."""
    return {"op": "send", "peer": peer, "bytes": 4, "label": label} | more


def recv(peer: int | str, label: str = "m", **more: Any) -> Item:
    """Return a labeled receive of four bytes."""
    return {"op": "recv", "peer": peer, "bytes": 4, "label": label} | more


def reduce(group: str = "world", **more: Any) -> Item:
    """Return a reduction."""
    return {"op": "all_reduce", "bytes": 4, "group": group, "label": f"on {group}"} | more


def late(name: str, item: Item) -> Item:
    """Return a call that is waited for by name."""
    later = {"op": f"i{item['op']}"} if item["op"] in {"send", "recv"} else {"async": True}
    return item | later | {"work": name}


def wait(*names: str, **more: Any) -> Item:
    """Return a wait."""
    return {"op": "wait", "work": list(names) if len(names) > 1 else names[0]} | more


STARVES = plan_of([threads([recv("any")], [recv(1)])], [send(0)], [send(0)])
ANYBODY = plan_of([threads([recv("any")], [recv("any")])], [send(0)], [send(0)])
MIXES = plan_of([recv("any", "a"), recv("any", "b")], [threads([send(0, "a")], [send(0, "b")])])
IDLE: Item = {"op": "compute"}
LOOKS = plan_of([threads([{"op": "probe", "peer": 1}, recv("any")], [IDLE])], [send(0)])
ONE_OF = plan_of(
    [
        late("x", recv(1, tag=1)),
        late("y", recv(1, tag=2)),
        threads([wait("x", "y", mode="any"), send(1, tag=3)], [reduce()]),
        wait("x", "y"),
    ],
    [send(0, tag=1), recv(0, tag=3), reduce(), send(0, tag=2)],
)
HELD_UP = plan_of(
    # What rank 0 receives first decides whether its other thread is let go.
    [threads([recv("any"), reduce()], [recv(2, "late")])],
    [send(0), reduce()],
    [send(0, "late"), reduce()],
)
EARLY = plan_of(
    [threads([{"op": "broadcast", "root": 0, "bytes": 4}, send(1)], [recv("any")])],
    [recv(0), {"op": "broadcast", "root": 0, "bytes": 4}, send(0)],
)


@pytest.mark.parametrize(
    ("plan", "model", "outcome"),
    [
        (STARVES, "gloo", "POTENTIAL_DEADLOCK"),
        (STARVES, "mpi-sync", "POTENTIAL_DEADLOCK"),
        (ANYBODY, "gloo", "SAFE"),
        (ANYBODY, "mpi-eager", "SAFE"),
        (MIXES, "gloo", "MISMATCH"),
        (LOOKS, "mpi-sync", "SAFE"),
        (ONE_OF, "gloo", "SAFE"),
        (ONE_OF, "mpi-eager", "SAFE"),
        (HELD_UP, "gloo", "MISMATCH"),
        (EARLY, "mpi-eager", "POTENTIAL_DEADLOCK"),
        (EARLY, "mpi-sync", "DEADLOCK"),
    ],
)
def test_messages_of_threads_meet_in_every_way(plan: Item, model: str, outcome: str) -> None:
    """Each order of calls and each way to meet counts: what brute force says is what is said."""
    assert enumerate_plan(plan, model).outcome == outcome
    verdict = planguard.check(plan, model=model)
    assert verdict.outcome.value == outcome
    assert verdict.complete
    assert verdict.evidence.states > 0


def test_a_starved_thread_is_shown_with_the_message_that_was_taken() -> None:
    """The witness was executed, and says who took which message."""
    finding = planguard.check(STARVES, model="gloo").errors[0]
    assert finding.witness is not None
    assert finding.witness.matches
    assert any("takes the message of" in note for note in finding.notes)


def test_a_probe_beside_a_receive_of_another_thread_is_not_decided() -> None:
    """A receive that another thread calls may take what a probe looks for, or come too late."""
    plan = plan_of([threads([{"op": "probe", "peer": 1}], [recv(1)])], [send(0)])
    verdict = planguard.check(plan, model="mpi-sync")
    assert verdict.unknown
    assert "a probe beside receives of another thread" in verdict.reasons[0]


def test_only_the_first_of_several_actions_holds_up_and_is_held_up() -> None:
    """Where two actions stand for a call, others come after its first one."""
    home = ((0, 0),)
    calls = [Call(home), Call(home, behind=(0,)), Call(home, after=(1,))]
    assert widened(calls, [2, 1, 2]) == [
        Call(home),
        Call(home),
        Call(home, behind=(0,)),
        Call(home, after=(2,)),
        Call(home),
    ]


GROUPS = {"a": {"ranks": [0, 1]}, "b": {"ranks": [0, 1]}}


def make(op: str, name: str) -> Item:
    """Return the creation of a group, or of its communicator."""
    return {"op": op, "group": name}


@pytest.mark.parametrize("model", ["gloo", "mpi-sync", "nccl", "nccl-lazy"])
def test_a_thread_that_creates_holds_up_itself_alone(model: str) -> None:
    """Two communicators, created in opposite orders: safe by threads, stuck one by one."""
    both = [make("init", "a"), make("init", "b")]
    calls = [reduce("a"), reduce("b")]
    apart = plan_of([threads(both[:1], both[1:]), *calls], [*both[::-1], *calls], groups=GROUPS)
    alone = plan_of([*both, *calls], [*both[::-1], *calls], groups=GROUPS)
    for plan, outcome in ((apart, "SAFE"), (alone, "DEADLOCK")):
        assert enumerate_plan(plan, model).outcome == outcome
        assert planguard.check(plan, model=model).outcome.value == outcome


@pytest.mark.parametrize("model", ["gloo", "mpi-eager", "mpi-sync"])
def test_a_thread_makes_a_group_and_uses_it(model: str) -> None:
    """The creation is a call of one thread, which goes on in the group; another one is free."""
    mine = [threads([make("new_group", "a"), reduce("a")], [reduce("world")])]
    for other, outcome in (
        ([make("new_group", "a"), reduce("a"), reduce("world")], "SAFE"),
        ([reduce("a"), make("new_group", "b"), reduce("world")], "DEADLOCK"),
    ):
        plan = plan_of(mine, other, groups=GROUPS)
        assert enumerate_plan(plan, model).outcome == outcome
        assert planguard.check(plan, model=model).outcome.value == outcome


@pytest.mark.parametrize(
    ("bodies", "reason"),
    [
        ([[make("new_group", "a")], [reduce("a")]], "uses groups, too"),
        ([[make("new_group", "a")], [make("new_group", "b")]], "creates or uses groups, too"),
        ([[make("init", "a")], [make("init", "a")]], "which two threads may be the first to use"),
    ],
)
@pytest.mark.parametrize("model", ["gloo", "nccl-eager"])
def test_creations_whose_order_says_what_is_used_are_not_decided(
    model: str, bodies: list[list[Item]], reason: str
) -> None:
    """What a group is called follows from the order of creations of a process."""
    program = [reduce("a"), threads(*bodies)]
    if bodies[0][0]["op"] == "new_group":
        program = program[1:]
    verdict = planguard.check(plan_of(program, program, groups=GROUPS), model=model)
    assert verdict.unknown
    assert reason in verdict.reasons[0]


@pytest.mark.parametrize("model", ["nccl", "nccl-eager", "nccl-serialized", "gloo"])
def test_two_threads_create_one_communicator_that_was_used_before(model: str) -> None:
    """A call before makes nothing where nothing is made at first use: both threads wait for the
    other rank, which waits for what the second thread does behind. This was SAFE.
    """
    mine = [reduce("a"), threads([make("init", "a")], [make("init", "a"), make("init", "b")])]
    plan = plan_of(mine, [reduce("a"), make("init", "b"), make("init", "a")], groups=GROUPS)
    assert enumerate_plan(plan, model).outcome == "DEADLOCK"
    verdict = planguard.check(plan, model=model)
    assert verdict.unknown
    assert "which two threads may be the first to use" in verdict.reasons[0]


@pytest.mark.parametrize("waited", [True, False])
def test_an_exit_takes_along_only_what_its_rank_did_not_wait_for(waited: bool) -> None:
    """Beside threads: what was waited for has met, so an exit behind it loses nothing."""
    started = [late("h", send(1)), *([wait("h")] if waited else []), {"op": "exit"}]
    plan = plan_of(started, [threads([recv(0)], [IDLE])])
    verdict = planguard.check(plan, model="gloo")
    assert verdict.outcome.value == ("SAFE" if waited else "UNKNOWN")
    assert not waited or enumerate_plan(plan, "gloo").outcome == "SAFE"


def test_what_is_not_complete_says_why() -> None:
    """That some order may mix the numbers of calls instead is said of the whole plan, too."""
    meets, sends = {"op": "barrier"}, {"op": "send", "peer": 2, "bytes": 8}
    takes = {"op": "recv", "peer": "any", "bytes": 8}
    plan = plan_of(
        [meets, sends], [threads([], [meets, sends])], [threads([takes, meets], [takes])]
    )
    verdict = planguard.check(plan, model="gloo-detail")
    assert verdict.unsafe
    assert not verdict.complete
    assert "mismatch of these numbers" in verdict.reasons[0]
