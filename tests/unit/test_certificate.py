"""The certificate checker rule by rule, the certificates of the corpus, and both commands."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from typing import Any

import pytest

import planguard
from planguard.certificate.agreement import OutsideError, RejectedError
from planguard.certificate.checker import Plan, check
from planguard.certificate.format import Certificate, digest, encode
from planguard.certificate.verify import verify
from planguard.errors import InternalError
from planguard.execution.certifying.certify import certify
from planguard.execution.running.expand import expand
from planguard.options import MODEL_NAMES, CheckOptions
from planguard.plan.flatten import flat_lines
from planguard.semantics.model import find_model

HOST = ("gloo", "gloo-detail", "mpi-eager", "mpi-sync")
DEVICE = ("nccl", "nccl-lazy", "nccl-eager", "nccl-serialized")
TINY = {"count": 1, "dtype": "f32"}


def text(*programs: Any, groups: Any = None, **more: Any) -> bytes:
    """Give a flat plan, one program per rank."""
    named = {name: {"ranks": ranks} for name, ranks in (groups or {}).items()}
    ranks = {str(rank): {"actions": list(actions)} for rank, actions in enumerate(programs)}
    plan = {"schema": "planguard.plan/1", "world_size": len(programs), "groups": named}
    return json.dumps({**plan, "ranks": ranks, **more}).encode()


def call(op: str, **fields: Any) -> dict[str, Any]:
    """Give a call that moves one f32 unless it says otherwise."""
    return {"op": op, **({} if "bytes" in fields or "count" in fields else TINY), **fields}


def send(peer: int, **fields: Any) -> dict[str, Any]:
    """Give a blocking send."""
    return call("send", peer=peer, **fields)


def recv(peer: int, **fields: Any) -> dict[str, Any]:
    """Give a blocking receive."""
    return call("recv", peer=peer, **fields)


def later(action: dict[str, Any], work: str) -> dict[str, Any]:
    """Make a call nonblocking."""
    if action["op"] in {"send", "recv"}:
        return {**action, "op": f"i{action['op']}", "work": work}
    return {**action, "work": work, **({} if action["op"] == "batch" else {"async": True})}


def wait(*work: str) -> dict[str, Any]:
    """Give a wait for all of some handles."""
    return {"op": "wait", "work": list(work) if len(work) > 1 else work[0]}


def batch(*ops: Any) -> dict[str, Any]:
    """Give a batch of messages."""
    return {"op": "batch", "ops": [{**one, "op": f"i{one['op']}"} for one in ops]}


SUM = call("all_reduce")
BARRIER = {"op": "barrier"}


def answer(flat: bytes, model: str, *order: Any) -> str:
    """Give what the checker says of an order: the sentence, or why not."""
    certificate = Certificate(model, digest(flat), tuple(order))
    try:
        return f"accepted: {check(flat, encode(certificate.to_json()))}"
    except OutsideError as error:
        return f"outside: {error}"
    except RejectedError as error:
        return f"rejected: {error}"


def is_safe(flat: bytes, model: str) -> bool:
    """Tell whether some order is accepted, by completing whatever can complete."""
    try:
        execution, order = Plan(json.loads(flat), model), []
    except OutsideError as error:
        if "two of its threads" in str(error):  # under mpi-pg
            return False
        raise
    except RejectedError:
        return "accepted" in answer(flat, model)
    fresh = True
    while fresh:
        fresh = []
        for key, op in list(execution.ops.items()):
            try:
                execution.complete(op)
            except OutsideError:
                raise
            except RejectedError:
                continue
            else:
                fresh.append([place for place in key if place is not None])
        order += fresh
    return "accepted" in answer(flat, model, *order)


def accepting(flat: bytes) -> set[str]:
    """Give the models under which some order is accepted."""
    return {model for model in MODEL_NAMES if is_safe(flat, model)}


# -- the order ------------------------------------------------------------------------------------

PING = text([send(1)], [recv(0)])
NCCL = "2 ranks, 2 operations complete under nccl"


def test_an_order_names_every_completion_once_and_nothing_else():
    """What is missing, named twice, or no communication is rejected with rank and action."""
    assert answer(PING, "nccl", (0, 0), (1, 0)) == f"accepted: {NCCL}"
    assert answer(PING, "gloo", (1, 0), (0, 0)).endswith("complete under gloo")
    assert "rank 1, action 0: the order ends" in answer(PING, "gloo", (0, 0))
    assert "rank 1, action 0 (recv) never completes" in answer(PING, "nccl", (0, 0))
    assert "rank 0, action 0 (send) completes twice" in answer(PING, "gloo", (0, 0), (0, 0))
    assert "[0, 1]: no communication" in answer(PING, "gloo", (0, 1))
    assert "[0, 0, 0]: no communication" in answer(PING, "gloo", (0, 0, 0))
    assert "no communication" in answer(text([{"op": "compute"}]), "gloo", (0, 0))


def test_nothing_completes_before_its_host_its_queue_and_its_partners_are_there():
    """An operation behind another one of its rank, or ahead of its partner, cannot complete."""
    flat = text([SUM, send(1)], [SUM, recv(0)])
    for model in MODEL_NAMES:
        assert "rejected" in answer(flat, model, (0, 1), (1, 1), (0, 0), (1, 0)), model
        assert "rejected" in answer(flat, model, (0, 0), (0, 1), (1, 0), (1, 1)), model
        assert "accepted" in answer(flat, model, (0, 0), (1, 0), (0, 1), (1, 1)), model
    behind = "rank 0, action 1 (send) completes before rank 0, action 1 (send) starts"
    assert behind in answer(flat, "nccl", (0, 1))
    ahead = "rank 0, action 1 (send) completes before rank 1, action 1 (recv) starts"
    assert ahead in answer(flat, "nccl", (0, 0), (0, 1))
    assert "not there yet" in answer(flat, "gloo", (0, 1))


@pytest.mark.parametrize("model", MODEL_NAMES)
def test_every_accepted_order_is_one_of_few(model):
    """Of the 24 orders of two rounds, exactly those with the first round first are accepted."""
    flat = text([SUM, SUM], [SUM, SUM])
    items = [(0, 0), (1, 0), (0, 1), (1, 1)]
    accepted = [o for o in itertools.permutations(items) if "accepted" in answer(flat, model, *o)]
    assert accepted == [o for o in itertools.permutations(items) if {*o[:2]} == {*items[:2]}]


def test_an_operation_that_nobody_waits_for_may_stay_open_where_no_queue_needs_it():
    """Left-over asynchronous calls: fine for hosts, not for a device."""
    flat = text([later(send(1), "h"), SUM], [SUM])
    assert accepting(flat) == {*HOST, "mpi-pg"} - {"gloo-detail"}  # which counts calls
    flat = text([SUM, later(send(1), "h")], [SUM])
    assert accepting(flat) == {*HOST, "mpi-pg"}


# -- matching -------------------------------------------------------------------------------------


def test_messages_meet_by_group_ends_tag_and_position():
    """Tags separate channels except on a device, groups do everywhere, order does in a channel."""
    crossed = text(
        [later(send(1, tag=1, bytes=4), "a"), later(send(1, tag=2, bytes=8), "b"), wait("a", "b")],
        [later(recv(0, tag=2, bytes=8), "a"), later(recv(0, tag=1, bytes=4), "b"), wait("a", "b")],
    )
    assert accepting(crossed) == {*HOST, "mpi-pg"}
    assert "bytes disagree" in answer(crossed, "nccl", (0, 0), (1, 0), (0, 1), (1, 1))
    groups = {"a": [0, 1], "b": [0, 1]}
    crossed = text(
        [later(send(1, group="a"), "a"), later(send(1, group="b"), "b"), wait("a", "b")],
        [later(recv(0, group="b"), "a"), later(recv(0, group="a"), "b"), wait("a", "b")],
        groups=groups,
    )
    assert accepting(crossed) == {*HOST, "mpi-pg"}
    swapped = text([send(1, bytes=4), send(1, bytes=8)], [recv(0, bytes=8), recv(0, bytes=4)])
    assert accepting(swapped) == set()
    assert accepting(text([send(1), recv(1)], [recv(0), send(0)])) == {*MODEL_NAMES}


def test_a_message_that_says_no_tag_has_tag_0():
    """It meets the call that says 0, and no other where tags count."""
    assert accepting(text([send(1)], [recv(0, tag=0)])) == {*MODEL_NAMES}
    assert accepting(text([send(1, tag=1)], [recv(0)])) == {*DEVICE}


def test_a_send_is_never_buffered():
    """Head-to-head sends are safe nowhere; nonblocking ones where nothing queues."""
    assert accepting(text([send(1), recv(1)], [send(0), recv(0)])) == set()
    ahead = [later(send(1), "h"), recv(1), wait("h")], [later(send(0), "h"), recv(0), wait("h")]
    assert accepting(text(*ahead)) == {*HOST, "mpi-pg"}
    both = text([batch(send(1), recv(1))], [batch(send(0), recv(0))])
    assert accepting(both) == {*MODEL_NAMES}
    assert "accepted" in answer(both, "nccl", (1, 0, 1), (0, 0, 1), (0, 0, 0), (1, 0, 0))
    queued = text([batch(send(1), recv(1))], [batch(recv(0), send(0))])
    assert accepting(queued) == {*MODEL_NAMES}
    assert "accepted" in answer(queued, "mpi-pg", (0, 0, 1), (1, 0, 1), (0, 0, 0), (1, 0, 0))


def test_mpi_counts_send_modes():
    """A buffered send needs nobody under mpi-eager and mpi-sync, and its data still has to fit."""
    both = [send(1, mode="buffered"), recv(1)], [send(0, mode="buffered"), recv(0)]
    assert accepting(text(*both)) == {"mpi-eager", "mpi-sync"}
    for mode in ("standard", "synchronous", "ready"):
        assert accepting(text([send(1, mode=mode), recv(1)], [send(0), recv(0)])) == set()
    alone = text([send(1, mode="buffered")], [])
    assert accepting(alone) == {"mpi-eager", "mpi-sync"}


def test_rounds_are_counted_per_communicator():
    """Opposite orders on two communicators of the same ranks: safe asynchronously on hosts."""
    groups = {"a": [0, 1], "b": [0, 1]}
    a, b = call("all_reduce", group="a"), call("all_reduce", group="b")
    assert accepting(text([a, b], [b, a], groups=groups)) == set()
    one = [later(a, "a"), later(b, "b"), wait("a", "b")]
    other = [later(b, "b"), later(a, "a"), wait("a", "b")]
    assert accepting(text(one, other, groups=groups)) == {"gloo", "mpi-eager", "mpi-sync"}
    assert accepting(text(one, one, groups=groups)) == {*MODEL_NAMES} - {"mpi-pg"}  # two workers
    assert accepting(text([a], [b], groups=groups)) == set()


def test_an_action_of_a_rank_outside_the_group_is_no_plan():
    """Groups, peers and roots are members; what is not is an error of reading, never accepted."""
    groups = {"a": [0, 1], "world": [1, 0, 2]}
    for action in (
        call("all_reduce", group="a"),
        send(0, group="a"),
        call("broadcast", root=9),
        call("gather", root=9),
        send(9),
    ):
        with pytest.raises(KeyError):
            answer(text([], [], [action], groups=groups), "gloo")
    assert "to itself" in answer(text([send(0)], []), "gloo")
    named = text([call("broadcast", root=0)], [call("broadcast", root=0)], [], groups=groups)
    assert accepting(named) == set()  # world is everybody, whatever a plan says


# -- who must be there ----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["gather", "scatter"])
def test_a_member_of_a_rooted_transfer_needs_the_root_only(kind):
    """Gather and scatter: others need the root, the root everybody; gloo-detail lets all meet, and
    MPI goes along trees.
    """
    one, rest = call(kind, root=2), [recv(0)]
    flat = text([one, send(1)], [*rest, one], [one])
    all_meet = {"gloo-detail", "nccl-lazy", "mpi-eager", "mpi-sync", "mpi-pg"}
    assert accepting(flat) == {*MODEL_NAMES} - all_meet
    late = "rank 2, action 0 (" + kind + ") completes before"
    assert late in answer(flat, "gloo", (0, 0), (2, 0))
    assert accepting(text([one, send(2)], [one], [recv(0), one])) == set()


@pytest.mark.parametrize("kind", ["all_reduce", "all_gather", "reduce", "barrier", "broadcast"])
def test_other_collectives_need_everybody(kind):
    """No member leaves while one is missing; a broadcast is different on gloo."""
    one = {"op": "barrier"} if kind == "barrier" else call(kind)
    one |= {"root": 0} if kind in {"reduce", "broadcast"} else {}
    flat = text([one], [one, send(2)], [recv(1), one])
    assert accepting(flat) == ({"gloo"} if kind == "broadcast" else set())


@pytest.mark.parametrize("root", [0, 3])
@pytest.mark.parametrize("size", [2, 3, 5, 8])
def test_a_broadcast_goes_down_gloo_s_tree(root, size):
    """A member needs the way up to the root and those right below it, counted from the root."""
    root %= size
    flat = text(*([call("broadcast", root=root)],) * size)
    for place in range(size):
        own = (place - root) % size
        above = {own & (1 << bit) - 1 for bit in range(own.bit_length())}
        below = {own + (1 << bit) for bit in range(own.bit_length(), 4)} & {*range(size)}
        near = {(one + root) % size for one in above | below}
        for missing in range(size):
            programs = [[call("broadcast", root=root)] for _ in range(size)]
            programs[missing] = [recv(place), call("broadcast", root=root)]
            programs[place].append(send(missing) if missing != place else SUM)
            if missing == place:
                continue
            assert is_safe(text(*programs), "gloo") == (missing not in near), (place, missing)
    assert is_safe(flat, "gloo")


def test_nothing_is_reduced_alone_on_gloo():
    """Calls of no bytes return at once and count for nobody else; others wait as for any size."""
    for kind in ("all_reduce", "reduce", "reduce_scatter", "reduce_scatter_tensor", "all_gather"):
        one = call(kind, count=0, dtype="f32", **({"root": 0} if kind == "reduce" else {}))
        flat = text([one, send(1)], [recv(0), one])
        assert accepting(flat) == {"gloo"}, kind
        assert "accepted" in answer(flat, "gloo", (0, 0), (0, 1), (1, 0), (1, 1)), kind
    for kind in ("all_to_all", "all_to_all_single", "barrier"):
        one = call(kind, bytes=0)
        assert accepting(text([one, send(1)], [recv(0), one])) == set(), kind
    unknown = {"op": "all_reduce", "dtype": "f32"}
    assert not is_safe(text([call("all_reduce", bytes=0)], [unknown]), "gloo")
    assert is_safe(text([call("all_reduce", bytes=8)], [unknown]), "gloo")


def test_a_barrier_of_gloo_comes_after_the_earlier_rounds_of_its_group():
    """It starts only when the rank's earlier collectives of the group are complete."""
    program = [later(SUM, "h"), BARRIER, wait("h")]
    flat = text(program, program)
    barrier_first = (0, 1), (1, 1), (0, 0), (1, 0)
    assert accepting(flat) == {*MODEL_NAMES}
    for model in ("gloo", "gloo-detail"):
        assert "rejected" in answer(flat, model, *barrier_first)
        assert "accepted" in answer(flat, model, (0, 0), (1, 0), (0, 1), (1, 1))
    assert "accepted" in answer(flat, "mpi-sync", *barrier_first)
    groups = {"a": [0, 1]}
    other = [later({**SUM, "group": "a"}, "h"), BARRIER, wait("h")]
    assert "accepted" in answer(text(other, other, groups=groups), "gloo", *barrier_first)
    twice = [later(SUM, "h"), BARRIER, BARRIER, wait("h")]
    assert accepting(text(twice, twice)) == {*MODEL_NAMES}


# -- the host -------------------------------------------------------------------------------------


def test_a_wait_blocks_the_host_but_not_the_host_of_a_device():
    """Creation behind a wait: a worker's and a host's stand, a device's goes on."""
    groups = {"a": [0, 1]}
    init = {"op": "init", "group": "a"}
    flat = text([later(SUM, "h"), wait("h"), init], [init, SUM], groups=groups)
    assert accepting(flat) == {*DEVICE} - {"nccl-lazy"}
    synchronized = text([SUM, {"op": "host_sync"}, init], [init, SUM], groups=groups)
    assert accepting(synchronized) == set()
    assert accepting(text([SUM, init], [init, SUM], groups=groups)) == {*DEVICE} - {"nccl-lazy"}
    assert accepting(text([init, SUM], [init, SUM], groups=groups)) == {*MODEL_NAMES}
    assert accepting(text([SUM, {"op": "host_sync"}], [SUM])) == {*MODEL_NAMES}
    assert accepting(text([{"op": "host_sync"}, SUM], [SUM])) == {*MODEL_NAMES}


def test_a_barrier_blocks_the_host_of_a_device():
    """A barrier does, blocking or waited for; it need not be waited for to be passed."""
    init = {"op": "init", "group": "a"}
    groups = {"a": [0, 1]}
    assert accepting(text([BARRIER, init], [init, BARRIER], groups=groups)) == set()
    waited = [later(BARRIER, "h"), wait("h"), init], [init, BARRIER]
    assert accepting(text(*waited, groups=groups)) == set()
    passed = text([later(BARRIER, "h"), init, wait("h")], [init, BARRIER], groups=groups)
    assert accepting(passed) == {*MODEL_NAMES} - {
        "nccl-lazy",
        "gloo-detail",
        "mpi-eager",
        "mpi-sync",
        "mpi-pg",
    }


def test_a_computation_waits_for_what_it_depends_on():
    """Dependencies block a host, of any earlier call or batch, and never the host of a device."""
    init = {"op": "init", "group": "a"}
    for first, rest in (
        ({**later(SUM, "h"), "id": "x"}, [SUM]),
        ({**later(batch(send(1)), "h"), "id": "x"}, [batch(recv(0))]),
        (later({"op": "batch", "ops": [{**send(1), "op": "isend", "id": "x"}]}, "h"), [recv(0)]),
    ):
        compute = {"op": "compute", "deps": ["x"]}
        one, other = [first, compute, init, wait("h")], [init, *rest]
        found = accepting(text(one, other, groups={"a": [0, 1]}))
        assert found & {*HOST, "mpi-pg"} == set()
        assert found >= {"nccl", "nccl-eager", "nccl-serialized"}
    idle = [{"op": "compute", "id": "x"}, {"op": "compute", "deps": ["x"]}]
    assert accepting(text(idle, [])) == {*MODEL_NAMES}


def test_group_creation_waits_for_members_or_for_the_world():
    """new_group: hosts wait for the members, nccl-eager for all ranks, nccl for nobody; under
    mpi-pg members wait for a creation of every rank.
    """
    made = {"op": "new_group", "group": "a"}
    free = {"nccl", "nccl-lazy", "nccl-serialized"}
    groups = {"a": [0, 1]}
    most = {*MODEL_NAMES} - {"nccl-eager", "mpi-pg"}
    assert accepting(text([made], [made], [], groups=groups)) == most
    assert accepting(text([made], [], [made], groups=groups)) == free
    assert accepting(text([made], [made], [made], groups=groups)) == {*most, "nccl-eager"}
    assert accepting(text([made], [made], groups=groups)) == {*MODEL_NAMES}
    assert accepting(text([made], [], groups={"a": [0]})) == most
    other = {"op": "new_group", "group": "b"}
    apart = text([made], [made], [other], [other], groups={"a": [0, 1], "b": [2, 3]})
    assert accepting(apart) == {"mpi-eager", "mpi-sync", "mpi-pg"}
    crossed = text([made], [other], groups={"a": [0, 1], "b": [1, 0]})
    assert "mpi-pg" not in accepting(crossed)


def test_a_communicator_is_named_by_members_and_counter():
    """Creation in another order makes other communicators, whatever the plan calls them."""
    a, b = {"op": "new_group", "group": "a"}, {"op": "new_group", "group": "b"}
    use = call("all_reduce", group="a")
    groups = {"a": [0, 1], "b": [0, 1]}
    assert accepting(text([a, b, use], [a, b, use], groups=groups)) == {*MODEL_NAMES}
    assert accepting(text([a, b, use], [b, a, use], groups=groups)) == set()
    renamed = text([a, b, use], [b, a, call("all_reduce", group="b")], groups=groups)
    assert accepting(renamed) == {*MODEL_NAMES}
    message = text([a, b, send(1, group="a")], [b, a, recv(0, group="a")], groups=groups)
    assert accepting(message) == set()
    other = {"a": [0, 1], "b": [0, 1, 2]}
    assert accepting(text([b, use], [b, a, use], [b], groups=other)) == set()
    apart = {"a": [0, 1], "b": [2, 3]}
    one, two = [a, use], [b, call("all_reduce", group="b")]
    # One number, two groups: torch gives both the same name. MPI names no communicator.
    assert accepting(text(one, one, two, two, groups=apart)) == {"mpi-eager", "mpi-sync", "mpi-pg"}


def test_creations_that_make_nothing_or_meet_nobody_may_differ():
    """Who is no member of two groups may make them in any order, and so may groups of one rank."""
    a, b = {"op": "new_group", "group": "a"}, {"op": "new_group", "group": "b"}
    use = call("all_reduce", group="a")
    pair = {"a": [0, 1], "b": [3]}
    found = accepting(text([a, use, b], [a, use, b], [b, a], [a, b], groups=pair))
    assert found == {*MODEL_NAMES} - {"mpi-pg"}  # rank 2 enters no creation
    alone = {"a": [0], "b": [1]}
    assert accepting(text([a, b], [b, a], groups=alone)) == {*MODEL_NAMES}


def test_first_use_creates_a_communicator_under_nccl_lazy():
    """Everybody of the group has to use it: the pair for a message, the group for a batch."""
    alone = text([batch(send(1))], [batch(recv(0))], [])
    assert accepting(alone) == {*MODEL_NAMES} - {"nccl-lazy"}
    init = {"op": "init"}
    assert accepting(text([init, batch(send(1))], [init, batch(recv(0))], [init])) == {*MODEL_NAMES}
    assert accepting(text([init, init], [init])) == {*MODEL_NAMES}
    assert accepting(text([send(1)], [recv(0)], [])) == {*MODEL_NAMES}
    mixed = text([batch(send(1))], [recv(0)])
    assert accepting(mixed) == {*MODEL_NAMES} - {"nccl-lazy"}
    # The third message of a pair needs no further creation, in either direction.
    more = [send(1), recv(1), send(1)], [recv(0), send(0), recv(0)]
    assert accepting(text(*more)) == {*MODEL_NAMES}
    # Both use the pair first in a batch of the group, then alone.
    twice = [batch(send(1)), send(1)], [batch(recv(0)), recv(0)]
    assert accepting(text(*twice)) == {*MODEL_NAMES}


def test_hosts_meet_before_a_collective_of_gloo_detail():
    """Asynchronous collectives in opposite order pass on gloo and are stuck under gloo-detail."""
    groups = {"a": [0, 1]}
    one, two = later(SUM, "x"), later({**SUM, "group": "a"}, "y")
    flat = text([one, two, wait("x", "y")], [two, one, wait("x", "y")], groups=groups)
    assert is_safe(flat, "gloo")
    assert not is_safe(flat, "gloo-detail")


# -- agreement ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("what", "left", "right"),
    [
        ("kind", call("all_reduce"), call("all_gather")),
        ("kind", call("all_reduce"), call("reduce_scatter_tensor")),
        ("root", call("broadcast", root=0), call("broadcast", root=1)),
        ("root", call("reduce", root=0), call("reduce", root=1)),
        ("bytes", call("all_reduce", bytes=4), call("all_reduce", bytes=8)),
        ("bytes", call("all_reduce", bytes=4), call("all_reduce", count=2, dtype="f32")),
        ("dtype", call("all_reduce"), call("all_reduce", count=1, dtype="i32")),
        (
            "dtype",
            call("all_reduce", bytes=4, dtype="f32"),
            call("all_reduce", count=1, dtype="i32"),
        ),
        ("reduce_op", call("all_reduce", reduce_op="max"), call("all_reduce", reduce_op="min")),
        ("reduce_op", call("all_reduce", reduce_op="max"), call("all_reduce")),
        ("label", call("all_reduce", label="x"), call("all_reduce", label="y")),
        (
            "number of parts",
            {"op": "coalesced", "kind": "all_reduce", "ops": [TINY, TINY]},
            call("all_reduce"),
        ),
        (
            "label of part 0",
            {"op": "coalesced", "kind": "all_reduce", "ops": [{"label": "x"}]},
            call("all_reduce", label="y"),
        ),
        ("label", send(1, label="x"), recv(0, label="y")),
        ("bytes", send(1, bytes=8), recv(0, bytes=4)),
        ("dtype", send(1), recv(0, count=1, dtype="i32")),
    ],
)
def test_members_of_a_match_agree(what, left, right):
    """What one match disagrees on is named, with both members."""
    flat = text([left], [right])
    if left["op"] not in {"broadcast", "reduce"}:
        said = answer(flat, "nccl", (0, 0), (1, 0))
        assert f"rejected: {what} disagree" in said
        assert "rank 0, action 0" in said
        assert "rank 1, action 0" in said
    assert accepting(flat) == set()


@pytest.mark.parametrize(
    ("field", "left", "right"),
    [
        ("bytes of part 0", [{"bytes": 4}, {"bytes": 8}], [{"bytes": 8}, {"bytes": 4}]),
        ("dtype of part 0", [TINY], [{"count": 1, "dtype": "i32"}]),
        ("number of parts", [TINY], [TINY, TINY]),
        ("label of part 1", [TINY, {**TINY, "label": "x"}], [TINY, {**TINY, "label": "y"}]),
        ("kind", "all_reduce", "reduce_scatter_tensor"),
        ("reduce_op", "max", "min"),
    ],
)
def test_coalesced_calls_agree_on_their_list(field, left, right):
    """The list of tensors agrees in length, sizes, types and labels, and so does the kind."""
    same = {"op": "coalesced", "kind": "all_reduce", "ops": [TINY, TINY]}
    assert accepting(text([same], [same])) == {*MODEL_NAMES}
    name = {"kind": "kind", "reduce_op": "reduce_op"}.get(field, "ops")
    flat = text([{**same, name: left}], [{**same, name: right}])
    assert f"{field} disagree" in answer(flat, "nccl", (0, 0), (1, 0))


def test_what_a_plan_does_not_say_agrees_with_anything():
    """A size, type or label that one member leaves out is not compared; the others are."""
    bare, sized = {"op": "all_reduce"}, call("all_reduce", label="x")
    assert accepting(text([bare], [sized])) == {*MODEL_NAMES}
    assert accepting(text([sized], [bare], [call("all_reduce", label="y")])) == set()
    assert accepting(text([BARRIER], [{**BARRIER, "bytes": 4}])) == {*MODEL_NAMES}
    assert accepting(text([call("all_reduce", reduce_op="sum")], [SUM])) == {*MODEL_NAMES}
    sizes = [f"{kind}{bits}" for kind in "fi" for bits in (8, 16, 32, 64)] + ["bf16", "u8", "bool"]
    for dtype in sizes:
        width = 1 if dtype == "bool" else int(dtype.lstrip("bfiu")) // 8
        flat = text(
            [call("all_reduce", count=3, dtype=dtype)], [call("all_reduce", bytes=3 * width)]
        )
        assert accepting(flat) == {*MODEL_NAMES}, dtype


def test_spellings_of_one_operation_meet():
    """List and tensor forms meet, of reduce_scatter on a device only."""
    for one, other in (
        ("all_gather", "all_gather_into_tensor"),
        ("all_to_all", "all_to_all_single"),
    ):
        assert accepting(text([call(one)], [call(other)])) == {*MODEL_NAMES}
    flat = text([call("reduce_scatter")], [call("reduce_scatter_tensor")])
    assert accepting(flat) == {*DEVICE}


def test_mpi_tells_blocking_from_nonblocking_and_takes_short_messages():
    """Under mpi-eager and mpi-sync only; a longer message is an error there too."""
    strict = {"mpi-eager", "mpi-sync"}
    mixed = text([SUM], [later(SUM, "h"), wait("h")])
    assert accepting(mixed) == {*MODEL_NAMES} - strict
    assert "kind disagree" in answer(mixed, "mpi-sync", (0, 0), (1, 0))
    assert accepting(text([send(1, bytes=4)], [recv(0, bytes=8)])) == strict
    assert accepting(text([recv(1, bytes=8)], [send(0, bytes=4)])) == strict
    assert accepting(text([recv(1, bytes=4)], [send(0, bytes=8)])) == set()
    assert accepting(text([call("all_gather", bytes=4)], [call("all_gather", bytes=8)])) == set()
    messages = [later(send(1), "h"), wait("h")], [recv(0)]
    assert accepting(text(*messages)) == {*MODEL_NAMES}


def test_splits_agree_pair_by_pair():
    """What one member sends to another is what the other expects, also of itself."""

    def exchange(sent: Any, expected: Any) -> dict[str, Any]:
        fields = {"in_splits": sent, "out_splits": expected}
        return call("all_to_all_single", count=sum(sent), dtype="f32", **fields)

    assert accepting(text([exchange([1, 2], [1, 3])], [exchange([3, 0], [2, 0])])) == {*MODEL_NAMES}
    assert accepting(text([exchange([1, 2], [1, 3])], [exchange([4, 0], [2, 0])])) == set()
    assert accepting(text([exchange([1, 2], [2, 3])], [exchange([3, 0], [2, 0])])) == set()
    assert accepting(text([exchange([1, 2], [1, 3])], [exchange([3, 1], [2, 0])])) == set()
    half = call("all_to_all_single", count=2, dtype="f32", in_splits=[1, 1])
    both = exchange([1, 1], [1, 1])
    for other in (half, call("all_to_all_single", count=2, dtype="f32")):
        assert accepting(text([both], [other])) == {*MODEL_NAMES}
    assert accepting(text([both], [call("all_to_all_single", count=4, dtype="f32")])) == set()


@pytest.mark.parametrize(
    ("op", "splits", "extra"),
    [
        ("all_gather", "out_splits", {}),
        ("all_gather_into_tensor", "out_splits", {}),
        ("gather", "out_splits", {"root": 0}),
        ("reduce_scatter", "in_splits", {}),
        ("reduce_scatter_tensor", "in_splits", {}),
        ("scatter", "in_splits", {"root": 0}),
    ],
)
def test_uneven_collectives_agree_part_by_part(op, splits, extra):
    """What rank 0 says that rank 1 gives or gets is the size of rank 1's own call."""

    def member(count: int, shares: Any = None) -> dict[str, Any]:
        said = {} if shares is None else {splits: shares}
        return call(op, count=count, dtype="i32", **extra, **said)

    def judged(*members: Any) -> bool:
        flat = text(*([one] for one in members))
        found = accepting(flat)
        for model in MODEL_NAMES:
            safe = planguard.check(json.loads(flat), model=model).safe
            assert safe == (model in found), model
        return found == {*MODEL_NAMES}

    shares = [2, 3]
    second = None if extra else shares
    assert judged(member(2, shares), member(3, second))
    assert not judged(member(2, shares), member(4, second))
    assert not judged(member(2, [2, 9]), member(3, second))
    assert not judged(member(2, [9, 3]), member(3, second))
    assert not judged(member(2), member(3))


# -- outside --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("action", "why"),
    [
        ({"op": "unordered", "body": []}, "covers `unordered`"),
        ({"op": "threads", "threads": []}, "covers `threads`"),
        ({"op": "choice", "branches": []}, "covers `choice`"),
        ({"op": "repeat", "times": 1, "body": []}, "covers `repeat`"),
        ({"op": "probe", "peer": 1}, "covers `probe`"),
        ({"op": "batch", "ops": [{"op": "wait"}]}, "covers `wait` here"),
        (recv("any"), "a message from anybody"),  # type: ignore[arg-type]
        ({"op": "no_such_thing"}, "covers `no_such_thing`"),
    ],
)
@pytest.mark.parametrize("model", MODEL_NAMES)
def test_what_no_order_covers_is_never_accepted(action, why, model):
    """Open orders, wildcards, probes and anything unknown are refused by name."""
    said = answer(text([action], []), model)
    assert said.startswith("outside: rank 0, action 0")
    assert why in said


def test_any_tag_is_a_tag_where_tags_play_no_part():
    """Under the NCCL models a receive with any tag takes the next message of its sender."""
    flat = text([send(1, tag=3)], [recv(0, tag="any")])
    for model in MODEL_NAMES:
        said = answer(flat, model, (0, 0), (1, 0))
        assert said.startswith("accepted" if model in DEVICE else "outside"), (model, said)


def test_a_wait_for_any_is_not_covered_and_one_for_all_is():
    """Several handles are waited for all together; one handle alone may say any."""
    start = [later(send(1), "a"), later(send(1), "b")]
    rest = [recv(0), recv(0)]
    assert accepting(text([*start, wait("a", "b")], rest)) == {*MODEL_NAMES}
    for mode in ("any", "some"):
        said = answer(text([*start, {**wait("a", "b"), "mode": mode}], rest), "gloo")
        assert "outside: rank 0, action 2: a wait for any or some" in said
    assert accepting(text([start[0], {**wait("a"), "mode": "any"}], [recv(0)])) == {*MODEL_NAMES}
    assert accepting(text([*start, {**wait("a", "b"), "mode": "all"}], rest)) == {*MODEL_NAMES}


def test_scans_are_operations_of_mpi():
    """scan and exscan are collectives under the mpi models and nothing elsewhere."""
    for kind in ("scan", "exscan"):
        flat = text([call(kind)], [call(kind)])
        for model in MODEL_NAMES:
            said = answer(flat, model, (0, 0), (1, 0))
            assert said.startswith("accepted" if model.startswith("mpi") else "outside"), model


def test_a_dropped_handle_is_not_covered_on_gloo_if_somebody_could_meet_it():
    """Without a partner it breaks nothing; elsewhere, and for collectives, it is harmless."""
    drop = {"op": "drop", "work": "h"}
    met = text([later(send(1), "h"), drop], [recv(0)])
    for model in ("gloo", "gloo-detail"):
        said = answer(met, model, (0, 0), (1, 0))
        assert "outside: rank 0, action 0 (isend): its handle is dropped" in said
    for model in {*MODEL_NAMES} - {"gloo", "gloo-detail"}:
        assert "accepted" in answer(met, model, (0, 0), (1, 0))
    assert is_safe(text([later(send(1), "h"), drop], []), "gloo")
    assert is_safe(text([later(SUM, "h"), drop], [SUM]), "gloo")


def test_an_exit_ends_a_rank_and_must_not_take_anything_back_on_gloo():
    """What follows is never issued; what nobody waited for may be lost with the process."""
    leave = {"op": "exit"}
    assert accepting(text([leave, SUM], [])) == {*MODEL_NAMES}
    assert accepting(text([leave, SUM], [SUM])) == set()
    assert accepting(text([SUM, leave], [SUM])) == {*MODEL_NAMES}
    open_ = [later(SUM, "h"), leave]
    dropped = [later(SUM, "h"), {"op": "drop", "work": "h"}, leave]
    nameless = [{**SUM, "async": True}, leave]
    for program in (open_, dropped, nameless):
        for model in ("gloo", "gloo-detail"):
            said = answer(text(program, [SUM]), model, (0, 0), (1, 0))
            assert "takes back what nobody waited for" in said
        assert "accepted" in answer(text(program, [SUM]), "nccl", (0, 0), (1, 0))
    waited = text([later(SUM, "h"), wait("h"), leave], [SUM])
    assert accepting(waited) == {*MODEL_NAMES} - {"mpi-eager", "mpi-sync"}


@pytest.mark.parametrize(
    "more",
    [
        {"templates": {"t": []}},
        {"fusion": [{"id": "f", "members": ["x"]}]},
        {"ranks": {"0": {"actions": []}, "1": {"actions": []}, "2": {"actions": []}}},
    ],
)
def test_only_a_flat_plan_without_fused_buffers_is_covered(more):
    """Templates, fused buffers and programs of ranks that are not there are refused."""
    assert "not flat, or has fused buffers" in answer(text([], [], **more), "gloo")


def test_actions_without_progress_are_passed():
    """Polling, copies, events and the end of a group let the host go on."""
    for op in ("h2d", "d2h", "d2d", "event_record", "event_wait", "test", "destroy", "compute"):
        assert accepting(text([{"op": op}, SUM], [SUM])) == {*MODEL_NAMES}, op


# -- the file -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("schema", "planguard.certificate/2"),
        ("kind", "table"),
        ("model", "smoke-signals"),
        ("plan_sha256", digest(b"")),
    ],
)
def test_every_field_of_a_certificate_counts(field, value):
    """Another schema, kind, model or plan is rejected."""
    certificate = Certificate("gloo", digest(PING), ((0, 0), (1, 0))).to_json()
    assert check(PING, encode(certificate)).endswith("under gloo")
    with pytest.raises(RejectedError):
        check(PING, encode({**certificate, field: value}))
    other = PING.replace(b"planguard.plan/1", b"planguard.plan/9")
    with pytest.raises(RejectedError):
        check(other, encode({**certificate, "plan_sha256": digest(other)}))


def run(*arguments: Any) -> tuple[int, str, str]:
    """Run a module; give exit code, output and errors."""
    done = subprocess.run(
        [sys.executable, "-m", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.returncode, done.stdout.strip(), done.stderr.strip()


def test_the_command_accepts_rejects_or_cannot_read(tmp_path):
    """python -m planguard.certificate: 0 accepted, 1 rejected with the place, 2 unreadable."""
    plan, good, bad = (tmp_path / name for name in ("plan.json", "good.json", "bad.json"))
    plan.write_bytes(PING)
    good.write_bytes(encode(Certificate("gloo", digest(PING), ((0, 0), (1, 0))).to_json()))
    bad.write_bytes(encode(Certificate("gloo", digest(PING), ((0, 0),)).to_json()))
    command = "planguard.certificate"
    accepted = "accepted: 2 ranks, 2 operations complete under gloo"
    assert run(command, plan, good) == (0, accepted, "")
    code, out, _ = run(command, plan, bad)
    assert (code, out.partition(":")[0]) == (1, "rejected")
    assert "rank 1, action 0" in out
    for arguments in ([plan], [plan, tmp_path / "none"], [plan, plan], [good, tmp_path]):
        code, out, error = run(command, *arguments)
        assert (code, out) == (2, ""), arguments
        assert error, arguments


# -- the engine and check --certificate -----------------------------------------------------------


def test_the_corpus_is_certified(root):
    """Every plan of the corpus and the examples that is safe under a model has its certificate."""
    made, missing = 0, {}
    corpus = (root / "tests" / "corpus" / "litmus").glob("*.plan.json")
    for path in sorted([*corpus, *(root / "examples").rglob("*.plan.json")]):
        try:
            plan = planguard.load(path)
            flat = b"".join(flat_lines(plan))
        except planguard.PlanError:
            continue  # refused at the door, or by the flat form
        for model in MODEL_NAMES:
            verdict = planguard.check(plan, options=CheckOptions(model=model, certificate=True))
            if verdict.certificate is not None:
                assert "complete under" in verify(flat, encode(verdict.certificate))
                assert verdict.evidence.certificate == digest(encode(verdict.certificate))
                made += 1
            elif verdict.safe:
                missing[path.name, model] = verdict.reasons[-1]
    assert made > 300
    known = ("not fixed", "dropped", "takes back", "covers `probe`", "a message from anybody")
    assert {k: why for k, why in missing.items() if not any(one in why for one in known)} == {}


def test_a_certificate_is_made_on_request_only_and_of_safe_plans_only():
    """Without the option there is none, and an unsafe plan has none."""
    safe = {"schema": "planguard.plan/1", "world_size": 2, "ranks": {"0-1": {"actions": [SUM]}}}
    assert planguard.check(safe).certificate is None
    assert planguard.check(safe).evidence.certificate is None
    stuck = {**safe, "ranks": {"0": {"actions": [SUM]}, "1": {"actions": []}}}
    verdict = planguard.check(stuck, options=CheckOptions(certificate=True))
    assert (verdict.safe, verdict.certificate, verdict.evidence.certificate) == (False, None, None)


def test_a_large_plan_has_no_certificate_and_says_so():
    """Above a million actions none is made."""
    loop = {"op": "repeat", "times": 300_000, "body": [SUM, SUM]}
    plan = {"schema": "planguard.plan/1", "world_size": 2, "ranks": {"0-1": {"actions": [loop]}}}
    verdict = planguard.check(plan, options=CheckOptions(certificate=True))
    assert verdict.safe
    assert verdict.certificate is None
    assert verdict.reasons == ("no certificate: the plan has 1200000 actions, more than 1000000",)


def test_a_certificate_that_the_checker_rejects_is_an_internal_error():
    """If an unsafe plan were called safe, the checker would stop it, and say where."""
    plan = planguard.load(text([SUM], [call("all_gather")]))
    with pytest.raises(InternalError, match="rank 0, action 0"):
        certify(plan, expand(plan), find_model("nccl"))


def test_check_writes_certificate_and_flat_plan(tmp_path, root):
    """planguard check --certificate writes both, and the checker accepts them."""
    plan, target = root / "examples" / "mesh-3d.plan.json", tmp_path / "mesh.json"
    code, _, said = run("planguard", "check", "--quiet", plan, "--certificate", target)
    flat = tmp_path / "mesh.plan.json"
    assert code == 0
    assert f"python -m planguard.certificate {flat} {target}" in said
    code, out, _ = run("planguard.certificate", flat, target)
    assert (code, out.partition(":")[0]) == (0, "accepted")
    before = target.read_bytes(), flat.read_bytes()
    code, _, error = run("planguard", "check", "--quiet", plan, "--certificate", target)
    assert code == 2
    assert "exists" in error
    flat.write_bytes(b"")
    code, _, _ = run("planguard", "check", "--quiet", plan, "--certificate", target, "--force")
    assert code == 0
    assert (target.read_bytes(), flat.read_bytes()) == before


def test_check_writes_certificates_of_several_plans_into_a_folder(tmp_path, root):
    """One per safe plan, by its name; of the others it says why there is none."""
    plans = [root / "examples" / f"{name}.plan.json" for name in ("mesh-3d", "head-to-head")]
    code, _, said = run("planguard", "check", "--quiet", *plans, "--certificate", tmp_path)
    assert code == 1
    assert {file.name for file in tmp_path.iterdir()} == {
        "mesh-3d.certificate.json",
        "mesh-3d.certificate.plan.json",
    }
    assert f"no certificate of {plans[1]}: the outcome is DEADLOCK" in said
    code, _, error = run("planguard", "check", *plans, "--certificate", tmp_path / "none")
    assert code == 2
    assert "folder" in error
    code, _, error = run("planguard", "check", plans[0], plans[0], "--certificate", tmp_path)
    assert code == 2
