"""Compilation: the words that the kernels expand."""

from __future__ import annotations

from typing import Any

import pytest

from planguard.errors import PlanError
from planguard.plan.actions import ASYNC, MEMBER, NONE, UNKNOWN_BYTES, Kind
from planguard.plan.building.builder import PlanBuilder
from planguard.plan.code import POOLED, REF_WORDS, WORDS
from planguard.plan.format import read
from planguard.plan.limits import Limits


def _instructions(plan: Any, program: int = 0) -> list[tuple[int, ...]]:
    words = plan.code.programs[program].code
    return [tuple(words[place : place + WORDS]) for place in range(0, len(words), WORDS)]


def _refs(plan: Any) -> list[tuple[int, ...]]:
    words = plan.code.refs
    return [tuple(words[place : place + REF_WORDS]) for place in range(0, len(words), REF_WORDS)]


def _kinds(plan: Any, program: int = 0) -> list[Kind]:
    return [Kind(word[0] & (MEMBER - 1)) for word in _instructions(plan, program)]


def test_groups_families_and_ranks_become_tables() -> None:
    """Group 0 is world; explicit groups keep their order, families their mask of mesh dimensions;
    every rank has a program.
    """
    builder = PlanBuilder(8, mesh=[("pp", 2), ("dp", 2), ("tp", 2)])
    builder.group("mixed", [5, 0, 3])
    builder.group("dptp", mesh_dims=["tp", "dp"])
    builder.template("even")
    builder.use("tp=0", "even")
    builder.program("tp=1").barrier()
    code = builder.build().code
    assert code.group_names == ("world", "mixed", "dptp")
    assert list(code.group_kind) == [0, 0, 1]
    assert list(code.group_off) == [0, 8, 11, 11]
    assert list(code.group_members) == [*range(8), 5, 0, 3]
    assert list(code.group_mask) == [0, 0, 0b110]
    assert list(code.mesh_sizes) == [2, 2, 2]
    assert list(code.rank_program) == [0, 1] * 4


def test_references_are_interned_with_their_peer_mode() -> None:
    """Absolute, relative, wrapped and wildcard peers become the words of the contract."""
    builder = PlanBuilder(6, mesh=[("pp", 3), ("tp", 2)])
    program = builder.program("0-5")
    ring = {"pp": -1, "tp": 0, "wrap": True}
    program.send({"pp": 1, "wrap": True}, tag=3)
    program.recv(ring)
    program.recv("any", tag="any")
    program.send({"pp": 1, "wrap": True}, tag=3)
    plan = builder.build()
    assert _refs(plan) == [(1, 0, 1, 0, 3, 3), (2, 0, 1, 0, -1, 0), (2, 0, 2, 0, 0, -1)]
    assert [word[1] for word in _instructions(plan)] == [0, 1, 2, 0]


def test_modes_and_flags_of_sends() -> None:
    """Modes choose the kind; isend and irecv are asynchronous; ready is a plain send."""
    builder = PlanBuilder(2)
    program = builder.program(0)
    program.send(1)
    program.send(1, mode="synchronous")
    program.send(1, mode="buffered")
    program.isend(1, mode="ready", work="a")
    program.isend(1, mode="synchronous")
    program.irecv(1, work="b")
    builder.program(1)
    words = _instructions(builder.build())
    assert [(word[0], word[2]) for word in words] == [
        (Kind.SEND, 0),
        (Kind.SSEND, 0),
        (Kind.BSEND, 0),
        (Kind.SEND | ASYNC, 1),
        (Kind.SSEND | ASYNC, 0),
        (Kind.RECV | ASYNC, 2),
    ]


def test_a_batch_is_followed_by_its_members() -> None:
    """A batch states its member count and handle; members carry MEMBER and never ASYNC, and an id
    of a member is bound after the batch, because the launch completes as one.
    """
    builder = PlanBuilder(2)
    program = builder.program(0)
    with program.batch(work="w"):
        program.isend(1, id="s")
        program.irecv(1)
    program.wait("w")
    program.compute("use", deps=["s"])
    builder.program(1)
    plan = builder.build()
    assert [word[:3] for word in _instructions(plan)] == [
        (Kind.BATCH | ASYNC, 2, 1),
        (Kind.SEND | MEMBER, 0, 0),
        (Kind.RECV | MEMBER, 1, 0),
        (Kind.BIND, 1, 0),
        (Kind.WAIT, 0, 0),
        (Kind.COMPUTE, 0, 0),
    ]
    assert list(plan.code.aux) == [1, 1]
    assert plan.length(0) == 3


def test_loops_state_their_body_and_stay_symbolic() -> None:
    """A loop is one instruction and its body, however often it runs; nested loops nest."""
    builder = PlanBuilder(1)
    program = builder.program(0)
    with program.repeat(1000):
        program.compute("a")
        with program.repeat(7):
            program.compute("b")
    program.compute("c")
    plan = builder.build()
    assert [word[:3] for word in _instructions(plan)] == [
        (Kind.REPEAT, 1000, 3),
        (Kind.COMPUTE, NONE, 0),
        (Kind.REPEAT, 7, 1),
        (Kind.COMPUTE, NONE, 0),
        (Kind.COMPUTE, NONE, 0),
    ]
    assert plan.length(0) == 8001


def test_labels_are_interned_after_substitution() -> None:
    """``F0.{i}`` at iteration 3 is the literal ``F0.3``; outside loops braces are text."""
    builder = PlanBuilder(1)
    program = builder.program(0)
    program.compute("a", label="F0.3")
    program.compute("a", label="F0.{i}")
    with program.repeat(4):
        program.compute("a", label="F0.{i}")
        program.compute("a", label="same")
    plan = builder.build()
    words = [word[4] for word in _instructions(plan)]
    code = plan.code
    assert [code.label_names[word - 1] for word in words[:2]] == ["F0.3", "F0.{i}"]
    assert words[3] & POOLED
    pooled = [code.label_pool[(words[3] ^ POOLED) + i] for i in range(4)]
    assert [code.label_names[label - 1] for label in pooled] == ["F0.0", "F0.1", "F0.2", "F0.3"]
    assert pooled[3] == words[0]
    assert code.label_names[words[4] - 1] == "same"


def test_innermost_iteration_names_a_label() -> None:
    """In nested loops ``{i}`` is the iteration of the innermost one, for a known label too."""
    builder = PlanBuilder(1)
    program = builder.program(0)
    with program.repeat(2):
        program.compute("a", label="x{i}")
        with program.repeat(3):
            program.compute("a", label="x{i}")
    plan = builder.build()
    views = [plan.action_at(0, index).label for index in range(8)]
    assert views == ["x0", "x0", "x1", "x2", "x1", "x0", "x1", "x2"]
    pools = [word[4] for word in _instructions(plan) if word[4]]
    assert pools[0] != pools[1]


def test_sizes_in_every_spelling_give_one_signature() -> None:
    """bytes, count, shape and tensor of equal size and type share a signature; a send and its
    receive share it too.
    """
    builder = PlanBuilder(2)
    builder.tensor("w", [4, 8], "f16")
    program = builder.program(0)
    program.send(1, count=32, dtype="f16")
    program.send(1, shape=[4, 8], dtype="f16")
    program.send(1, tensor="w")
    program.send(1, bytes=64, dtype="f16")
    program.recv(1, count=32, dtype="f16")
    program.send(1, bytes=64)
    program.send(1)
    builder.program(1)
    plan = builder.build()
    sigs = [word[3] for word in _instructions(plan)]
    assert len(set(sigs[:5])) == 1
    assert len(set(sigs)) == 3
    code = plan.code
    assert [code.sig_bytes[sig] for sig in sigs[4:]] == [64, 64, UNKNOWN_BYTES]
    assert [code.signatures[sig].dtype for sig in sigs[4:]] == ["f16", None, None]
    assert code.sig_kind[sigs[0]] == 0


def test_signatures_of_collectives_hold_what_members_compare() -> None:
    """Kind, size, type, reduce operation, root, layout and splits each make a new signature."""
    builder = PlanBuilder(2)
    program = builder.program(0)
    program.all_reduce(count=2, dtype="f32")
    program.all_reduce(count=2, dtype="f32", reduce_op="sum")
    program.all_reduce(count=2, dtype="f32", reduce_op="max")
    program.all_gather(count=2, dtype="f32")
    program.broadcast(0, count=2, dtype="f32")
    program.broadcast(1, count=2, dtype="f32")
    program.all_to_all_single(count=2, dtype="f32", in_splits=[1, 1])
    program.all_to_all_single(count=2, dtype="f32", in_splits=[2, 0])
    with program.coalesced("all_reduce"):
        program.part(count=1, dtype="f32")
        program.part(bytes=4)
    with program.coalesced("all_reduce"):
        program.part(bytes=8)
    builder.program(1)
    plan = builder.build()
    sigs = [word[3] for word in _instructions(plan)]
    assert sigs[0] == sigs[1]
    assert len(set(sigs)) == len(sigs) - 1
    code = plan.code
    assert code.layouts[code.sig_layout[sigs[8]]] == ((4, 2), (4, 0))
    assert code.sig_bytes[sigs[8]] == code.sig_bytes[sigs[9]] == 8
    assert code.splits[code.sig_splits[sigs[7]]] == ((2, 0), None)
    assert [code.sig_root[sig] for sig in sigs[3:6]] == [NONE, 0, 1]


def test_parallel_arrays_and_signature_objects_agree() -> None:
    """The arrays have one entry per signature object, and entry 0 means "no signature"."""
    builder = PlanBuilder(2)
    builder.program("0-1").all_reduce(bytes=4)
    code = builder.build().code
    arrays = [code.sig_kind, code.sig_bytes, code.sig_dtype, code.sig_redop, code.sig_root]
    assert {len(column) for column in [*arrays, code.sig_layout, code.sig_splits]} == {2}
    assert (code.sig_kind[0], code.sig_bytes[0], code.sig_root[0]) == (0, UNKNOWN_BYTES, NONE)


def test_streams_are_interned_with_main_first() -> None:
    """A stream is a small integer, main is 0, and host_sync adds one because 0 means all."""
    builder = PlanBuilder(1)
    program = builder.program(0)
    program.compute("a")
    program.compute("a", stream="side")
    program.host_sync()
    program.host_sync("side")
    program.event_record("e", stream="side")
    program.event_wait("e")
    plan = builder.build()
    words = _instructions(plan)
    assert plan.code.streams == ("main", "side")
    assert [word[5] for word in words] == [0, 1, 0, 1, 1, 0]
    assert [word[1] for word in words[2:4]] == [0, 2]
    assert words[4][1] == words[5][1]


def test_blocks_of_undecided_order_become_markers() -> None:
    """unordered, threads and choice are delimited by markers, chains inside them too, a loop inside
    unordered is a chain, and after becomes a list of id slots.
    """
    builder = PlanBuilder(1)
    program = builder.program(0)
    with program.unordered():
        program.compute("a", id="a", after=["b"])
        with program.chain():
            program.compute("b", id="b")
        with program.repeat(2):
            program.compute("c")
    with program.threads():
        with program.thread():
            program.compute("d")
        with program.thread():
            pass
    with program.choice("overflow", uniform=True):
        with program.branch():
            program.compute("e")
        with program.branch():
            pass
    plan = builder.build()
    assert _kinds(plan) == [
        Kind.UNORDERED_BEGIN,
        Kind.AFTER,
        Kind.COMPUTE,
        Kind.CHAIN_BEGIN,
        Kind.COMPUTE,
        Kind.BIND,
        Kind.CHAIN_END,
        Kind.CHAIN_BEGIN,
        Kind.REPEAT,
        Kind.COMPUTE,
        Kind.CHAIN_END,
        Kind.UNORDERED_END,
        Kind.THREADS_BEGIN,
        Kind.CHAIN_BEGIN,
        Kind.COMPUTE,
        Kind.CHAIN_END,
        Kind.CHAIN_BEGIN,
        Kind.CHAIN_END,
        Kind.THREADS_END,
        Kind.CHOICE_BEGIN,
        Kind.BRANCH_BEGIN,
        Kind.COMPUTE,
        Kind.BRANCH_BEGIN,
        Kind.CHOICE_END,
    ]
    words, aux = _instructions(plan), plan.code.aux
    after, bind = words[1][1], words[5][1]
    assert list(aux[after : after + 2]) == [1, bind]
    threads, choice = words[12][1], words[19][1]
    assert list(aux[threads : threads + 2]) == [1, 2]
    assert list(aux[choice : choice + 3]) == [2, 1, 2]


def test_only_referenced_ids_are_bound() -> None:
    """An id nobody names costs no instruction."""
    builder = PlanBuilder(1)
    program = builder.program(0)
    program.compute("a", id="a")
    program.compute("b", id="b", deps=["a"])
    assert _kinds(builder.build()) == [Kind.COMPUTE, Kind.BIND, Kind.COMPUTE]


def test_a_reference_into_one_iteration_unrolls_the_program() -> None:
    """deps on f.1 after a loop over f.{i}, or on f.{i} in another loop, bind the right iteration;
    paths and lines still name the action as written.
    """
    builder = PlanBuilder(1)
    program = builder.program(0)
    with program.repeat(3):
        program.compute("f", id="f.{i}", label="F{i}")
    with program.repeat(3):
        program.compute("b", deps=["f.{i}"])
    program.compute("end", deps=["f.1"])
    plan = builder.build()
    loops = [Kind.REPEAT, *[Kind.COMPUTE, Kind.BIND] * 3, Kind.REPEAT, *[Kind.COMPUTE] * 3]
    assert _kinds(plan) == [*loops, Kind.COMPUTE]
    assert [word[1] for word in _instructions(plan) if word[0] == Kind.REPEAT] == [1, 1]
    words, aux = _instructions(plan), plan.code.aux
    bound = [word[1] for word in words if word[0] == Kind.BIND]
    wanted = [aux[word[1] + 1] for word in words if word[0] == Kind.COMPUTE and word[1] != NONE]
    assert wanted == [*bound, bound[1]]
    assert plan.length(0) == 7
    assert plan.action_at(0, 1).pointer == "$.ranks.0.actions[0].body[0]"
    assert (plan.action_at(0, 1).id, plan.action_at(0, 1).label) == ("f.1", "F1")


def test_a_reference_into_the_same_iteration_stays_symbolic() -> None:
    """deps on f.{i} in the loop that defines it, and on a plain id of a loop from behind it, need
    no unrolling.
    """
    builder = PlanBuilder(1)
    program = builder.program(0)
    with program.repeat(1000):
        program.compute("f", id="f.{i}")
        program.compute("g", id="g", deps=["f.{i}"])
    program.compute("end", deps=["g"])
    plan = builder.build()
    assert len(plan.code.programs[0]) == 6


def test_unrolling_is_limited() -> None:
    """A loop too long to unroll is refused by name, not unrolled."""
    text = {
        "schema": "planguard.plan/1",
        "world_size": 1,
        "ranks": {
            "0": {
                "actions": [
                    {"op": "repeat", "times": 10**9, "body": [{"op": "compute", "id": "f.{i}"}]},
                    {"op": "compute", "deps": ["f.7"]},
                ]
            }
        },
    }
    with pytest.raises(PlanError, match="too long to unroll") as error:
        read(text, limits=Limits(actions=10**12))
    assert error.value.path == "$.ranks.0.actions[0]"
    assert error.value.code == "PG902"
