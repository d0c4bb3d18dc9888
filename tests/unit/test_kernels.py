"""What the kernels promise, over the native ones and their Python twin."""

from __future__ import annotations

import subprocess
import sys
from array import array
from itertools import pairwise
from typing import Any

import pytest

from planguard import kernels
from planguard.plan.code import WORDS
from planguard.plan.format import read
from planguard.semantics.model import Scenario, find_model, lenient, rules_for, strict

MANY = 100_000
SIZE = {"bytes": 1 << 20}
Action = dict[str, Any]


@pytest.fixture(params=["native", "python"])
def kernel(request: pytest.FixtureRequest) -> Any:
    """One implementation of the kernels."""
    if request.param == "native":
        pytest.importorskip("planguard._native", reason="the native kernels were not built")
    return kernels.use(request.param)


def plan(*programs: list[Action], **more: Any) -> Any:
    """Compile one program per rank."""
    ranks = {str(rank): {"actions": actions} for rank, actions in enumerate(programs)}
    document = {"schema": "planguard.plan/1", "world_size": len(programs), "ranks": ranks}
    return read({**document, **more}).code


def expand(kernel: Any, code: Any, limit: int = MANY) -> Any:
    """Expand a compiled plan."""
    return kernel.expand(
        code.world_size, code.mesh_sizes, code.group_kind, code.group_mask, code.group_off,
        code.group_members, code.refs, [program.code for program in code.programs],
        array("I", [program.n_slots for program in code.programs]), code.rank_program,
        code.sig_root, code.label_pool, code.aux, limit,
    )  # fmt: skip


def lower(kernel: Any, code: Any, model: str, scenario: Scenario | None = None, **more: Any) -> Any:
    """Lower a compiled plan under one end of a model, the strict one by default."""
    found = find_model(model)
    rules = rules_for(found, strict(found) if scenario is None else scenario)
    return kernel.lower(
        expand(kernel, code), code.sig_kind, code.sig_bytes, code.sig_dtype, code.sig_redop,
        code.sig_root, code.sig_layout, code.sig_splits, rules, more.get("origins", True),
        array("I"),
    )  # fmt: skip


def stuck(kernel: Any, code: Any, model: str, scenario: Scenario | None = None) -> set[int]:
    """Give the ranks that do not come to their end."""
    lanes = lower(kernel, code, model, scenario)
    state = kernel.run(lanes)
    ends = lanes.lane_soft if len(lanes.lane_soft) else list(lanes.lane_off)[1:]
    found = {
        rank for rank, at, end in zip(lanes.lane_rank, state.pc, ends, strict=True) if at < end
    }
    quick = kernel.run(lower(kernel, code, model, scenario, origins=False))
    assert bool(quick.stuck_lanes) == bool(found)
    return found


def loose(model: str) -> Scenario:
    """Give the end of a model that makes the most progress."""
    return lenient(find_model(model), 4096)


def send(peer: int, **more: Any) -> Action:
    """A send of one MiB."""
    return {"op": "send", "peer": peer, **SIZE, **more}


def recv(peer: Any, **more: Any) -> Action:
    """A receive of one MiB."""
    return {"op": "recv", "peer": peer, **SIZE, **more}


def isend(peer: int, work: str, **more: Any) -> Action:
    """A send that is waited for later."""
    return {"op": "isend", "peer": peer, "work": work, **SIZE, **more}


def irecv(peer: int, work: str, **more: Any) -> Action:
    """A receive that is waited for later."""
    return {"op": "irecv", "peer": peer, "work": work, **SIZE, **more}


def reduce(group: str = "world", **more: Any) -> Action:
    """An all_reduce of eight bytes."""
    return {"op": "all_reduce", "group": group, "bytes": 8, **more}


def wait(*works: str) -> Action:
    """Wait for handles."""
    return {"op": "wait", "work": works[0] if len(works) == 1 else list(works)}


# --- expand ----------------------------------------------------------------------------------


def test_families_list_members_row_major(kernel: Any) -> None:
    """Members of a mesh family come row-major over its dimensions, one instance per setting."""
    code = plan(
        *[[]] * 12,
        mesh={"dims": [["pp", 2], ["dp", 3], ["tp", 2]]},
        groups={"dp": {"mesh_dims": ["dp"]}, "ends": {"mesh_dims": ["pp", "tp"]}},
    )
    columns = expand(kernel, code)
    offsets, ranks = list(columns.ginst_off), list(columns.slot_rank)
    instances = [ranks[a:b] for a, b in pairwise(offsets)]
    assert instances[1:5] == [[0, 2, 4], [1, 3, 5], [6, 8, 10], [7, 9, 11]]
    assert instances[5:] == [[0, 1, 6, 7], [2, 3, 8, 9], [4, 5, 10, 11]]


def test_relative_peers_follow_the_mesh(kernel: Any) -> None:
    """A step along a mesh dimension is the neighbor there; ``wrap`` closes the ring."""
    ring = [isend(0, "a") | {"peer": {"tp": 1, "wrap": True}}, wait("a")]
    code = plan(*[ring] * 6, mesh={"dims": [["pp", 2], ["tp", 3]]})
    columns = expand(kernel, code)
    pairs = set(zip(columns.chan_src, columns.chan_dst, strict=True))
    assert pairs == {(0, 1), (1, 2), (2, 0), (3, 4), (4, 5), (5, 3)}


def test_loops_are_unrolled_with_their_labels(kernel: Any) -> None:
    """``{i}`` in a label is the iteration; equal texts are one label wherever they stand."""
    body = [reduce(label="g{i}")]
    code = plan([{"op": "repeat", "times": 3, "body": body}, reduce(label="g1")])
    columns = expand(kernel, code)
    names = [code.label_names[label - 1] for label in columns.label]
    assert names == ["g0", "g1", "g2", "g1"]


def test_waits_name_the_entry_they_wait_for(kernel: Any) -> None:
    """A handle that a loop binds again is the entry of its own iteration."""
    body = [reduce(**{"async": True, "work": "h"}), wait("h")]
    columns = expand(kernel, plan([{"op": "repeat", "times": 3, "body": body}]))
    assert list(columns.arg)[1::2] == [0, 2, 4]


def test_after_may_name_a_later_item(kernel: Any) -> None:
    """``after`` is resolved inside its block, also to an item written later, loop by loop."""
    items = [reduce(after=["y"]), reduce(id="y")]
    block = {"op": "unordered", "body": items}
    columns = expand(kernel, plan([{"op": "repeat", "times": 2, "body": [block]}]))
    assert columns.failure[0] == 0
    assert list(columns.aux) == [1, 3, 1, 8]


def test_failures_name_rank_and_instruction(kernel: Any) -> None:
    """A peer beyond the mesh is refused for the first rank that has it."""
    ring = [reduce(), isend(0, "h") | {"peer": {"pp": 1, "wrap": True}}]
    code = plan(*[ring] * 3, mesh={"dims": [["pp", 3]]})
    code.refs[-2] = 1 * 2  # the same step without the ring; the reader would refuse the text
    kind, rank, program, instruction, value = expand(kernel, code).failure
    assert (kind, rank, program, instruction, value) == (1, 2, 2, 1, 1)


def test_too_long_loops_are_refused_before_they_are_unrolled(kernel: Any) -> None:
    """The limit of entries is checked by multiplication."""
    loop = {"op": "repeat", "times": 2, "body": [reduce()]}
    code = plan([{"op": "repeat", "times": 3, "body": [loop]}])
    words = code.programs[0].code
    words[1] = words[WORDS + 1] = 10**9  # the reader would refuse the text
    kind, rank, *_ = expand(kernel, code, limit=2**32 - 16).failure
    assert (kind, rank) == (5, 0)


# --- the models ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "ranks"),
    [("gloo", {0, 1}), ("nccl", {0, 1}), ("mpi-sync", {0, 1}), ("mpi-eager", {0, 1})],
)
def test_head_to_head_sends_hang(kernel: Any, model: str, ranks: set[int]) -> None:
    """Two ranks that send before they receive hang where nothing is buffered."""
    code = plan([send(1), recv(1)], [send(0), recv(0)])
    assert stuck(kernel, code, model) == ranks


def test_small_sends_are_buffered_under_mpi_eager(kernel: Any) -> None:
    """The same with small messages passes at the lenient end of mpi-eager only."""
    small = {"bytes": 64}
    code = plan([send(1) | small, recv(1) | small], [send(0) | small, recv(0) | small])
    assert stuck(kernel, code, "mpi-eager", loose("mpi-eager")) == set()
    assert stuck(kernel, code, "mpi-eager") == {0, 1}


def test_one_queue_holds_send_and_receive_under_nccl(kernel: Any) -> None:
    """isend and recv on both sides pass under gloo, hang under nccl, and pass there as a batch."""
    apart = plan([isend(1, "h"), recv(1), wait("h")], [isend(0, "h"), recv(0), wait("h")])
    assert stuck(kernel, apart, "gloo") == set()
    assert stuck(kernel, apart, "nccl") == {0, 1}
    ops = [[{"op": "isend", "peer": p, **SIZE}, {"op": "irecv", "peer": p, **SIZE}] for p in (1, 0)]
    fused = plan([{"op": "batch", "ops": ops[0]}], [{"op": "batch", "ops": ops[1]}])
    assert stuck(kernel, fused, "nccl") == set()
    assert stuck(kernel, fused, "mpi-pg") == set()  # posted at the call (ADR 0031)


def test_opposite_orders_on_two_groups(kernel: Any) -> None:
    """Opposite asynchronous orders pass with free queues and hang with one queue per device."""
    first = [
        reduce("a", **{"async": True, "work": "x"}),
        reduce("b", **{"async": True, "work": "y"}),
    ]
    second = [{**first[1]}, {**first[0]}]
    groups = {"a": {"ranks": [0, 1]}, "b": {"ranks": [0, 1]}}
    code = plan([*first, wait("x", "y")], [*second, wait("x", "y")], groups=groups)
    assert stuck(kernel, code, "nccl", loose("nccl")) == set()
    assert stuck(kernel, code, "nccl") == {0, 1}
    assert stuck(kernel, code, "gloo") == set()
    assert stuck(kernel, code, "gloo-detail") == {0, 1}


def test_broadcast_needs_parent_and_children(kernel: Any) -> None:
    """gloo broadcasts down a binomial tree: without rank 3 only its parent, rank 1, hangs."""
    call = {"op": "broadcast", "root": 0, "bytes": 8}
    assert stuck(kernel, plan([call], [call], [call], []), "gloo") == {1}
    assert stuck(kernel, plan([call], [call], [call], []), "mpi-sync") == {0, 1, 2}


def test_a_broadcast_that_nobody_waits_for_hangs_nobody(kernel: Any) -> None:
    """An asynchronous action without wait never makes a host of gloo stuck."""
    call = {"op": "broadcast", "root": 0, "bytes": 8, "async": True}
    assert stuck(kernel, plan([], [call]), "gloo") == set()


def test_an_orphan_needs_no_cycle(kernel: Any) -> None:
    """A rank that ended leaves the others stuck."""
    assert stuck(kernel, plan([reduce(), reduce()], [reduce()]), "gloo") == {0}
    assert stuck(kernel, plan([reduce(), reduce()], [reduce()]), "nccl") == {0}


def test_first_use_blocks_the_host_under_nccl_lazy(kernel: Any) -> None:
    """A ring of first isends is a ring of communicator creations."""
    ring = [
        [isend((rank + 1) % 3, "h"), irecv((rank - 1) % 3, "g"), wait("h", "g")]
        for rank in range(3)
    ]
    assert stuck(kernel, plan(*ring), "nccl-lazy", loose("nccl-lazy")) == {0, 1, 2}
    assert stuck(kernel, plan(*ring), "gloo") == set()


def test_created_groups_meet_by_creation(kernel: Any) -> None:
    """A communicator is its members and the place of its creation, not its name in the plan.

    Rank 0 uses the first created group five times, rank 1 once: one call meets, four do not. The
    numbers of the two communicators must not run into each other.
    """
    groups = {"a": {"ranks": [0, 1]}, "b": {"ranks": [0, 1]}}
    create = [{"op": "new_group", "group": name} for name in "ab"]
    code = plan(
        [*create, *[reduce("a")] * 5], [*create[::-1], reduce("b"), reduce("a")], groups=groups
    )
    assert stuck(kernel, code, "gloo") == {0, 1}
    fair = plan([*create, *[reduce("a")] * 5], [*create[::-1], *[reduce("b")] * 5], groups=groups)
    assert stuck(kernel, fair, "gloo") == set()


# --- shortcuts of lowering, one plan for each argument in docs/adr/0017 ----------------------


def test_a_mixed_batch_waits_for_its_turn(kernel: Any) -> None:
    """A send fused with a collective starts behind the collective that is in flight before it."""
    ops = [{"op": "isend", "peer": 1, **SIZE}, reduce()]
    code = plan(
        [reduce(**{"async": True, "work": "h"}), {"op": "batch", "ops": ops}, wait("h")],
        [recv(0), reduce(), reduce()],
    )
    assert stuck(kernel, code, "nccl", loose("nccl")) == {0, 1}


def test_queues_part_again_after_a_batch_over_two_groups(kernel: Any) -> None:
    """What follows a batch on one communicator does not wait for what follows it on the other."""
    groups = {"a": {"ranks": [0, 1]}, "b": {"ranks": [0, 1]}}
    later = {"async": True}
    ops = [reduce("a"), reduce("b")]
    code = plan(
        [reduce("a", **later, work="p"), {"op": "batch", "ops": ops, "work": "q"},
         reduce("a", **later, work="r"), reduce("b", **later, work="s"), wait("p", "q", "r", "s")],
        [reduce("a", **later, work="p"), {"op": "batch", "ops": ops, "work": "q"},
         reduce("b", **later, work="s"), wait("s"), reduce("a", **later, work="r"),
         wait("p", "q", "r")],
        groups=groups,
    )  # fmt: skip
    assert stuck(kernel, code, "nccl", loose("nccl")) == set()


def test_a_send_of_torchs_mpi_is_not_queued_behind_a_receive(kernel: Any) -> None:
    """Messages are posted at the call (ADR 0031): the send may be buffered, creation goes on."""
    small = {"bytes": 8}
    code = plan(
        [irecv(1, "h") | small, send(1, tag=1) | small, {"op": "init"}, wait("h")],
        [{"op": "init"}, send(0) | small, recv(0, tag=1) | small],
    )
    assert stuck(kernel, code, "mpi-pg", loose("mpi-pg")) == set()
    assert stuck(kernel, code, "mpi-pg") == {0, 1}


def test_one_queue_keeps_streams_apart_for_the_host(kernel: Any) -> None:
    """With one queue per device, synchronizing one stream waits for that stream's launches."""
    code = plan(
        [reduce(stream="s"), {"op": "host_sync", "stream": "s"}, {"op": "init"}],
        [{"op": "init"}, reduce()],
    )
    assert stuck(kernel, code, "nccl-serialized") == {0, 1}
    other = plan(
        [reduce(), {"op": "host_sync", "stream": "s"}, {"op": "init"}, reduce(stream="s")],
        [{"op": "init"}, reduce(), reduce()],
    )
    assert stuck(kernel, other, "nccl-serialized") == set()


def test_exit_takes_back_what_nobody_waited_for(kernel: Any) -> None:
    """A process that leaves takes its asynchronous send along, unless it was delivered by then."""
    leave = {"op": "exit"}
    assert stuck(kernel, plan([isend(1, "h"), leave], [recv(0)]), "gloo") == {1}
    assert stuck(kernel, plan([send(1), leave], [recv(0)]), "gloo") == set()
    # The reply proves that the message arrived.
    reply = plan([isend(1, "h"), recv(1), leave], [recv(0), send(0)])
    assert stuck(kernel, reply, "gloo") == set()
    # This one only proves that it was asked for.
    early = plan([isend(1, "h"), recv(1), leave], [irecv(0, "h"), send(0), wait("h")])
    assert stuck(kernel, early, "gloo") == {1}


def test_chained_rounds_end_where_exact_ones_do(kernel: Any) -> None:
    """A lane that arrives at the next round at once passes it only when the exact lane does.

    The empty all_reduce of rank 1 returns alone, so the first round never completes although the
    second could: rank 0 must hang.
    """
    code = plan([reduce() | {"op": "all_reduce"}, reduce()], [reduce(bytes=0), reduce()])
    assert stuck(kernel, code, "gloo") == {0, 1}
    assert stuck(kernel, plan([reduce()] * 4, [reduce()] * 3), "gloo") == {0}


def test_members_that_disagree_are_reported_once_per_member(kernel: Any) -> None:
    """The lanes carry every match whose members differ in size, and run on."""
    odd = {**reduce(), "bytes": 16}
    lanes = lower(kernel, plan([reduce()], [odd], [reduce()]), "nccl")
    assert list(lanes.mismatched) == [0]
    assert kernel.run(lanes).stuck_lanes == 0


def test_blockers_name_who_owes_what(kernel: Any) -> None:
    """Each rank of a head-to-head stands at its send and owes the receive the other waits for."""
    lanes = lower(kernel, plan([send(1), recv(1)], [send(0), recv(0)]), "gloo")
    ends = kernel.blockers(lanes, kernel.run(lanes))
    assert list(ends.lane) == [0, 1]
    owed = dict(zip(ends.owed_match, ends.owed_lane, strict=True))
    assert owed == {ends.match[0]: 1, ends.match[1]: 0}


def test_rounds_that_mix_blocking_and_nonblocking_calls_are_sampled(kernel):
    """Seventy of them leave the first 64."""
    later = [{"op": "all_reduce", "async": True, "work": f"h{n}", **SIZE} for n in range(70)]
    waits = [{"op": "wait", "work": f"h{n}"} for n in range(70)]
    code = plan([*later, *waits], [{"op": "all_reduce", **SIZE}] * 70)
    assert len(lower(kernel, code, "gloo").mixed_async) == 64


def test_a_round_without_splits_is_no_split_round(kernel):
    """An all-to-all in equal parts is compared like any other call."""
    whole = {"op": "all_to_all_single", **SIZE}
    parts = whole | {"in_splits": [1, 1], "out_splits": [1, 1]}
    assert len(lower(kernel, plan([whole], [whole]), "gloo").split_rounds) == 0
    assert len(lower(kernel, plan([parts], [parts]), "gloo").split_rounds) == 1


def test_what_still_holds_a_kernel_at_the_end_says_nothing_in_a_users_program() -> None:
    """A reference that outlives Python, as a kept traceback has one, prints nothing at the exit."""
    pytest.importorskip("planguard._native", reason="the native kernels were not built")
    code = (
        "import ctypes, planguard._native as native, planguard\n"
        "expand = native.expand\n"
        "def kept(*args):\n"
        "    found = expand(*args)\n"
        "    ctypes.pythonapi.Py_IncRef(ctypes.py_object(found))\n"
        "    return found\n"
        "native.expand = kept\n"
        "ranks = {'0': {'actions': [{'op': 'barrier'}]}}\n"
        "planguard.check({'schema': 'planguard.plan/1', 'world_size': 1, 'ranks': ranks})\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "")
