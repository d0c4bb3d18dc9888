"""Members of fused buffers in threads, and waits for them in threads and blocks: by hand."""

from __future__ import annotations

from typing import Any

import pytest
from oracle.flushes import outcome_of

import planguard

Item = dict[str, Any]
HOSTS = ("gloo", "gloo-detail", "mpi-eager", "mpi-sync")


def member(name: str, **more: Any) -> Item:
    """Return a reduction of eight bytes on the group of the buffer."""
    call = {"op": "all_reduce", "bytes": 8, "group": "g", "id": name, "label": name}
    return call | (more or {"async": True, "work": name})


def call(label: str, group: str = "side") -> Item:
    """Return a blocking call."""
    return {"op": "all_reduce", "bytes": 4, "group": group, "label": label}


def wait(*names: str) -> Item:
    """Return a wait."""
    return {"op": "wait", "work": list(names)}


def threads(*each: list[Any]) -> Item:
    """Return threads."""
    return {"op": "threads", "threads": list(each)}


def block(*items: Any) -> Item:
    """Return a block of open order."""
    return {"op": "unordered", "body": list(items)}


FIXED = {"membership": "fixed", "launch": "ordered"}


def plan_of(first: list[Any], second: list[Any] | None = None, **policy: Any) -> Item:
    """Return a plan of two ranks with a buffer of two members that fit into it."""
    spec = {"id": "f", "group": "g", "cap_bytes": 16, "members": ["x", "y"], **policy}
    return {"schema": "planguard.plan/1", "world_size": 2, "fusion": [spec],
            "groups": {"g": {"ranks": [0, 1]}, "side": {"ranks": [0, 1]}},
            "ranks": {"0": {"actions": first},
                      "1": {"actions": first if second is None else second}}}  # fmt: skip


def found(plan: Item, model: str) -> str:
    """Return the outcome, which is that of brute force."""
    verdict = planguard.check(plan, model=model)
    if not verdict.unknown:
        assert verdict.outcome.value == outcome_of(plan, model)
    return verdict.outcome.value


@pytest.mark.parametrize("model", HOSTS)
def test_members_in_one_thread_leave_in_it(model: str) -> None:
    """As a backward pass does it: one thread submits, another one makes calls of its own; whether a
    flush stands in front of a call of its thread is what the plan says.
    """
    submits = [block(member("x"), member("y")), call("a")]
    plan = plan_of([threads(submits, [call("b", "other")]), wait("x", "y")], **FIXED)
    plan["groups"]["other"] = {"ranks": [0, 1]}
    assert found(plan, model) == "SAFE"
    # A wait behind its flush is no matter; one in front of what leaves with its member has no end.
    behind = [member("x"), member("y"), wait("x", "y")]
    assert found(plan_of([threads(behind, [call("a")])], **FIXED), model) == "SAFE"
    early = [member("x"), wait("x"), member("y")]
    assert found(plan_of([threads(early, [call("a")])], **FIXED), model) == "DEADLOCK"


def test_what_stands_beside_a_thread_goes_on() -> None:
    """A thread of rank 0 is stuck in a wait; the other one still makes the call of rank 1."""
    early = [member("x"), wait("x"), member("y")]
    other = [member("x"), member("y"), call("a")]
    verdict = planguard.check(plan_of([threads(early, [call("a")])], other, **FIXED), model="gloo")
    assert verdict.outcome.value == "DEADLOCK"
    assert {finding.code for finding in verdict.errors} - {"PG301"} == {"PG209"}
    # Rank 1 gets through its call, for which the other thread of rank 0 is there.
    assert all(finding.ranks == (0,) for finding in verdict.errors if finding.code == "PG209")


@pytest.mark.parametrize("model", HOSTS)
def test_a_flush_and_a_call_of_two_threads_on_one_group(model: str) -> None:
    """The flush of one thread and the call of another take places on one group in any order."""
    submits = [member("x"), member("y")]
    plan = plan_of([threads(submits, [call("a", "g")]), wait("x", "y")], **FIXED)
    assert found(plan, model) == "MISMATCH"


@pytest.mark.parametrize("model", HOSTS)
def test_a_wait_in_a_thread_is_one_for_the_flush(model: str) -> None:
    """What left before the threads begin is waited for in one of them; a second wait, behind it or
    behind the threads, is none. Two at once are not decided.
    """
    begin = [member("x"), member("y")]
    for inside, behind in (([wait("x")], [wait("y")]), ([wait("x"), wait("y")], [])):
        plan = plan_of([*begin, threads(inside, [call("a")]), *behind], **FIXED)
        assert found(plan, model) == "SAFE"
    plan = plan_of([*begin, threads([wait("x")], [wait("y")])], **FIXED)
    verdict = planguard.check(plan, model=model)
    assert verdict.unknown
    assert "one flush in two threads" in verdict.reasons[0]


@pytest.mark.parametrize("model", HOSTS)
def test_a_wait_in_a_thread_may_launch_a_filled_buffer_or_never_end(model: str) -> None:
    """A filled buffer that nobody emptied leaves where the wait stands: behind a call on rank 0,
    which rank 1 makes in front of it too; on one group the other order disagrees.
    """
    begin = [member("x"), member("y")]
    plan = plan_of([*begin, threads([call("a"), wait("x")], [call("b", "other")])],
                   [*begin, call("b", "other"), call("a"), wait("y")])  # fmt: skip
    plan["groups"]["other"] = {"ranks": [0, 1]}
    assert found(plan, model) == "SAFE"
    plan["ranks"]["1"]["actions"] = [*begin, call("b", "other"), wait("y"), call("a")]
    assert found(plan, model) == "DEADLOCK"  # one waits in the flush, the other in the call
    never = plan_of([member("x"), threads([wait("x")], [call("a")]), member("y")], **FIXED)
    assert found(never, model) == "DEADLOCK"
    beside = plan_of([member("x"), threads([wait("x")], [member("y")])], **FIXED)
    assert planguard.check(beside, model=model).unknown


@pytest.mark.parametrize("model", [*HOSTS, "nccl", "nccl-serialized"])
def test_waits_in_a_block_without_members(model: str) -> None:
    """A filled buffer leaves before or behind the call beside the wait: on the group of the buffer
    that mixes rounds, on another group it is stuck on hosts where two ranks differ.
    """
    begin = [block(member("x"), member("y"))]
    same = plan_of([*begin, block(wait("x"), call("a", "g"))])
    assert found(same, model) == "MISMATCH"
    fixed = plan_of([*begin, block(wait("x"), call("a", "g"))], **FIXED)
    assert found(fixed, model) == "SAFE"
    other = plan_of([*begin, block(wait("x"), call("a"))])
    assert found(other, model) == "POTENTIAL_DEADLOCK"


def test_members_that_are_waited_for_at_once_leave_alone() -> None:
    """In a filled buffer without an asynchronous member every one is a call of its own."""
    now = [block(member("x", src=["a.py", 1]), member("y", src=["a.py", 2]))]
    for actions, outcome in ((now, "MISMATCH"), (now[0]["body"], "SAFE")):
        plan = plan_of(list(actions))
        verdict = planguard.check(plan, model="gloo")
        assert verdict.outcome.value == outcome


def test_under_models_of_devices_a_host_in_a_thread_is_held_up() -> None:
    """A wait for its device, or for a member that another thread submits, is no chain of an open
    order: buffers are not left out, and no order is stuck that a second thread ends.
    """
    held = threads([{"op": "host_sync"}], [{"op": "compute", "op_name": "f"}])
    plan = plan_of([member("x"), member("y"), wait("x", "y"), held],
                   [member("y"), member("x"), wait("x", "y")], **FIXED)  # fmt: skip
    assert planguard.check(plan, model="nccl").safe
    both = plan_of([threads([member("x"), wait("x")], [member("y")])], **FIXED)
    assert planguard.check(both, model="nccl").unknown
    one = plan_of([threads([member("x"), member("y"), wait("x")], [call("a")])], **FIXED)
    assert found(one, "nccl-serialized") == "POTENTIAL_DEADLOCK"


def test_a_loop_of_threads_is_read_as_written() -> None:
    """Threads in a loop, with handles that are bound again, on ranks that share a program."""
    step = [threads([member("x{i}", **{"async": True, "work": "x"}), wait("x")], [call("a{i}")])]
    plan = plan_of([{"op": "repeat", "times": 2, "body": step}], members=["x{i}"], **FIXED)
    plan["fusion"][0]["cap_bytes"] = 8
    assert planguard.check(plan, model="gloo").safe
