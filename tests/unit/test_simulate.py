from __future__ import annotations

import json

import numpy as np
import pytest

import planguard
from planguard.errors import UsageError
from planguard.simulate.costs import Rates
from planguard.simulate.edges import Call, chunk, outgoing
from planguard.simulate.matrix import by_node, matrix
from planguard.simulate.patterns import patterns
from planguard.simulate.schedule import schedule
from planguard.simulate.traffic import HOST, traffic

KIB = 1024
FREE = Rates(latency_us=0.0, bandwidth=1e30, node_bandwidth=1e30)


def every_rank(world_size, add):
    """Build a plan from one function per rank."""
    builder = planguard.PlanBuilder(world_size=world_size)
    for rank in range(world_size):
        add(builder.program(rank), rank)
    return builder.build()


RING = {
    "all_reduce": ({}, 256 * KIB, 480 * KIB, 16),
    "reduce_scatter_tensor": ({}, 16 * KIB, 240 * KIB, 16),
    "all_gather_into_tensor": ({}, 16 * KIB, 240 * KIB, 16),
    "broadcast": ({"root": 0}, 256 * KIB, 256 * KIB, 15),
    "reduce": ({"root": 0}, 256 * KIB, 256 * KIB, 15),
    "all_to_all_single": ({}, 256 * KIB, 16 * KIB, 240),
}


@pytest.mark.parametrize("op", RING)
def test_the_golden_matrices_of_sixteen_ranks(op):
    """One call on 256 KiB and 16 ranks, 25 iterations: ComScribe's edges and bytes, exactly."""
    fields, size, per_edge, edges = RING[op]
    plan = planguard.load(
        {
            "schema": "planguard.plan/1",
            "world_size": 16,
            "templates": {
                "t": [{"op": "repeat", "times": 25, "body": [{"op": op, "bytes": size, **fields}]}]
            },
            "ranks": {"0-15": {"template": "t"}},
        }
    )
    found = traffic(plan).total()
    assert len(found) == edges
    assert {moved for moved, _ in found.values()} == {25 * per_edge}


def test_an_incomplete_ring_lacks_the_edge_at_its_root():
    """Nobody sends to the root of a broadcast; the root of a reduction does not send."""
    for root in range(4):
        broadcast = every_rank(4, lambda p, _, root=root: p.broadcast(bytes=8, root=root))
        assert ((root - 1) % 4, root) not in traffic(broadcast).total()
        reduction = every_rank(4, lambda p, _, root=root: p.reduce(bytes=8, root=root))
        assert (root, (root + 1) % 4) not in traffic(reduction).total()


@pytest.mark.parametrize("size", [0, 1, 5, 17, 1000, 4096 + 3])
@pytest.mark.parametrize("n", [2, 3, 4, 7, 16])
def test_uneven_sizes_lose_no_byte(n, size):
    """Chunks of a tensor add up to it, and an all-reduce moves 2(n-1) times its tensor however
    it is taken apart on a ring or a tree.
    """
    assert sum(chunk(size, n, i) for i in range(n)) == size
    for algorithm in ("ring", "tree", "pairwise"):
        moved = sum(
            edge.bytes
            for place in range(n)
            for edge in outgoing(Call("all_reduce", n, place, size), algorithm)
        )
        assert moved == 2 * (n - 1) * size


def test_the_merged_matrix_is_the_sum_of_those_by_primitive():
    """Bytes and counts by primitive add up to the merged matrix, host row and diagonal included."""

    def add(program, rank):
        program.h2d(bytes=7)
        program.all_reduce(bytes=12)
        program.d2d(bytes=5)
        if rank % 2:
            program.recv(peer=rank - 1, bytes=3)
        else:
            program.send(peer=rank + 1, bytes=3)

    moved = traffic(every_rank(4, add))
    whole = matrix(moved)
    parts = [matrix(moved, primitive=name) for name in moved.primitives()]
    assert whole.labels[0] == "H"
    total = sum(part.bytes.sum() for part in parts)
    assert total == whole.total_bytes == 4 * 7 + 4 * 5 + 2 * 3 + 2 * 3 * 12
    assert whole.bytes[0, 1:].tolist() == [7] * 4
    assert np.diag(whole.bytes)[1:].tolist() == [5] * 4
    assert moved.total()[HOST, 0] == (7, 1)
    assert moved.total()[0, 0] == (5, 1)


def test_a_family_of_groups_moves_bytes_inside_its_instances_only(root):
    """The mesh plan's tensor-parallel reductions stay between neighbors; pipeline sends cross."""
    plan = planguard.load(root / "examples" / "mesh-3d.plan.json")
    moved = traffic(plan)
    assert set(moved.total(group="tp")) == {(rank, rank ^ 1) for rank in range(16)}
    assert set(moved.total(group="pp")) == {(rank, rank + 4) for rank in range(12)}


def test_traffic_by_node_keeps_the_total():
    """Rolled up by node the bytes are the same; inside a node they are the diagonal."""
    builder = planguard.PlanBuilder(world_size=4)
    builder.topology([{"rank": r, "node": r // 2, "device": r % 2} for r in range(4)])
    for rank in range(4):
        builder.program(rank).all_reduce(bytes=16)
    plan = builder.build()
    rolled = by_node(traffic(plan), plan)
    assert rolled.labels == ("node 0", "node 1")
    assert rolled.total_bytes == matrix(traffic(plan)).total_bytes
    assert rolled.bytes.tolist() == [[24, 24], [24, 24]]


def copies(links, nodes=(0, 0, 0), **fields):
    """Return what a copy of 8 bytes from device 0 to device 2 moves, and the notes."""
    builder = planguard.PlanBuilder(world_size=3)
    places = [{"rank": rank, "node": node} for rank, node in enumerate(nodes)]
    builder.topology(places, [{"src": a, "dst": b} for a, b in links])
    for rank in range(3):
        builder.program(rank).barrier()
    builder.program(0).d2d(peer=2, bytes=8, **fields)
    moved = traffic(builder.build())
    return moved.total(family="copy"), moved.notes


def test_a_copy_between_devices_without_a_link_goes_through_the_host():
    """Peer access follows the stated links: without one CUDA copies to the host and on (ComScribe,
    case 1.3), and a note says so; a stated path decides; other nodes and no links say nothing.
    """
    direct, staged = {(0, 2): (8, 1)}, {(-1, 2): (8, 1), (0, -1): (8, 1)}
    found, notes = copies([(0, 1), (1, 2)])
    assert found == staged
    assert any("through the host" in note for note in notes)
    assert copies([(0, 1), (2, 0)]) == (direct, ())
    assert copies([]) == (direct, ())
    assert copies([(0, 1)], nodes=(0, 0, 1)) == (direct, ())
    assert copies([(0, 1)], path="peer") == (direct, ())
    assert copies([(0, 2)], path="via_host") == (staged, ())


@pytest.mark.parametrize(("own", "told"), [(0, True), (1, True), (None, False)])
def test_the_copy_that_went_astray_is_told_on_either_side(own, told):
    """0 -> 1 and, in place of 1 -> 0, a copy of one device to itself: PG631, whichever end slipped;
    a copy one way alone is no slip, nor is an own copy of another size on the sender.
    """
    builder = planguard.PlanBuilder(world_size=2)
    for rank in range(2):
        builder.program(rank).barrier()
    builder.program(0).d2d(peer=1, bytes=8)
    if own is not None:
        builder.program(own).d2d(peer=own, bytes=8)
    elif not told:
        builder.program(0).d2d(peer=0, bytes=16)
    found = planguard.check(builder.build(), model="nccl", rules=True).findings
    assert ("PG631" in {one.code for one in found}) == told


def shape(name):
    """Build a plan of eight ranks with a known pattern."""

    def ring(p, _):
        p.all_reduce(bytes=160)

    def halo(p, r):
        with_next = [q for q in (r - 1, r + 1) if 0 <= q < 8]
        for peer in with_next:
            p.isend(peer=peer, bytes=8)
        for peer in with_next:
            p.recv(peer=peer, bytes=8)

    def circular(p, r):  # a Jacobi solver's: the last rank is the neighbor of the first
        peers = [(r - 1) % 8, (r + 1) % 8]
        for peer in peers:
            p.isend(peer=peer, bytes=8)
        for peer in peers:
            p.recv(peer=peer, bytes=8)

    def staircase(p, r):  # the Game of Life on 1, 2, ... 8 devices, one run after the other
        for devices in range(1, 9):
            peers = [q for q in (r - 1, r + 1) if 0 <= q < devices and r < devices]
            for peer in peers:
                p.isend(peer=peer, bytes=8)
            for peer in peers:
                p.recv(peer=peer, bytes=8)

    def master(p, r):
        if r == 0:
            for peer in range(1, 8):
                p.send(peer=peer, bytes=8)
        else:
            p.recv(peer=0, bytes=8)

    forms = {
        "closed ring": ring,
        "open ring": lambda p, _: p.broadcast(bytes=8, root=0),
        "dense": lambda p, _: p.all_to_all_single(bytes=64),
        "halo window": halo,
        "master-worker L": master,
        "scatter-gather L": lambda p, _: p.h2d(bytes=8),
        "local copies": lambda p, _: p.d2d(bytes=8),
        "circular halo window": circular,
        "staircase": staircase,
    }
    return every_rank(8, forms[name])


@pytest.mark.parametrize(
    "name",
    ["closed ring", "open ring", "dense", "halo window", "circular halo window", "staircase",
     "master-worker L", "scatter-gather L", "local copies"],
)  # fmt: skip
def test_a_pattern_is_named(name):
    """What ComScribe's authors read off a matrix by eye is computed."""
    assert [p.name for p in patterns(matrix(traffic(shape(name))))] == [name]


def one_forward_one_backward(stages, batches, forward=10.0, backward=20.0):
    """Build a 1F1B plan of one microbatch per pair of steps."""
    builder = planguard.PlanBuilder(world_size=stages)
    for stage in range(stages):
        program = builder.program(stage)
        warmup = min(stages - 1 - stage, batches)
        steps = [("F", i) for i in range(warmup)]
        for i in range(batches - warmup):
            steps += [("F", warmup + i), ("B", i)]
        steps += [("B", i) for i in range(batches - warmup, batches)]
        for kind, _ in steps:
            source, target = (stage - 1, stage + 1) if kind == "F" else (stage + 1, stage - 1)
            if 0 <= source < stages:
                program.recv(peer=source, bytes=8, tag=int(kind == "B"))
            program.compute("f", duration_us=forward if kind == "F" else backward)
            if 0 <= target < stages:
                program.isend(peer=target, bytes=8, tag=int(kind == "B"))
    return builder.build()


@pytest.mark.parametrize("batches", [4, 8])
@pytest.mark.parametrize("stages", [2, 4])
def test_a_pipeline_takes_its_theoretical_time(stages, batches):
    """With free links 1F1B takes (m + p - 1)(F + B), the textbook figure, and every stage idles
    for (p - 1)(F + B).
    """
    found = schedule(one_forward_one_backward(stages, batches), "gloo", FREE)
    assert found.complete
    assert found.makespan == pytest.approx((batches + stages - 1) * 30.0)
    for stage in range(stages):
        busy = sum(s.end - s.start for s in found.spans if s.rank == stage and s.kind == "compute")
        assert busy == pytest.approx(batches * 30.0)


def test_waiting_is_told_from_communicating():
    """A rank that comes early to a collective waits until the last one is there."""

    def add(program, rank):
        program.compute("f", duration_us=50.0 * (rank + 1))
        program.all_reduce(bytes=0)

    spans = [s for s in schedule(every_rank(3, add), rates=FREE).spans if s.kind == "collective"]
    assert [(s.start, s.ready, s.end) for s in spans] == [
        (50.0, 150.0, 150.0), (100.0, 150.0, 150.0), (150.0, 150.0, 150.0),
    ]  # fmt: skip
    assert len({s.match for s in spans}) == 1


def test_what_never_completes_never_ends(root):
    """A stuck action has a start and no end."""
    found = schedule(planguard.load(root / "examples" / "head-to-head.plan.json"))
    assert not found.complete
    assert [(s.rank, s.action, s.end) for s in found.spans] == [(0, 0, None), (1, 0, None)]


def test_open_orders_are_drawn_as_written():
    """What a plan leaves open is settled, noted, and keeps its action indices."""
    document = {
        "schema": "planguard.plan/1",
        "world_size": 2,
        "ranks": {
            "0-1": {
                "actions": [
                    {"op": "unordered", "body": [
                        {"op": "all_reduce", "bytes": 4, "label": "a"},
                        [{"op": "compute", "duration_us": 3}, {"op": "compute", "duration_us": 4}],
                    ]},
                    {"op": "barrier"},
                ]
            }
        },
    }  # fmt: skip
    plan = planguard.load(json.dumps(document).encode())
    found = schedule(plan, "gloo", FREE)
    assert found.notes == ("open orders are drawn as written",)
    shown = [plan.action_at(s.rank, s.action).op for s in found.spans if s.rank == 0]
    assert shown == ["all_reduce", "compute", "compute", "barrier"]


def test_links_of_the_topology_set_the_time():
    """A transfer takes latency plus bytes over bandwidth of the stated link."""
    builder = planguard.PlanBuilder(world_size=2)
    builder.topology(links=[{"src": 0, "dst": 1, "bandwidth": 1e9, "latency_us": 3}])
    builder.program(0).send(peer=1, bytes=1000)
    builder.program(1).recv(peer=0, bytes=1000)
    assert schedule(builder.build()).makespan == pytest.approx(4.0)


@pytest.mark.parametrize("model", ["nccl", "nccl-lazy", "nccl-serialized", "gloo", "mpi-sync"])
def test_a_queued_message_is_charged_once(model):
    """A second message behind a first takes one transfer after its sender is there, whatever
    places in queues and creations of communicators the model lets it pass.
    """
    builder = planguard.PlanBuilder(world_size=2)
    builder.topology(links=[{"src": 0, "dst": 1, "bandwidth": 1e9, "latency_us": 3}])
    sender, receiver = builder.program(0), builder.program(1)
    sender.isend(peer=1, bytes=1000, work="a")
    sender.compute("f", duration_us=100)
    sender.isend(peer=1, bytes=1000, work="b")
    receiver.irecv(peer=0, bytes=1000, work="a")
    receiver.irecv(peer=0, bytes=1000, work="b")
    for program in (sender, receiver):
        program.wait("a")
        program.wait("b")
    found = schedule(builder.build(), model)
    computed = next(s.end for s in found.spans if s.kind == "compute")
    assert [s.end for s in found.spans if s.kind == "send"][-1] == pytest.approx(computed + 4)
    pairs = [{s.match for s in found.spans if s.kind == kind} for kind in ("send", "recv")]
    assert pairs[0] == pairs[1]
    assert len(pairs[0]) == 2


def test_rounds_of_one_communicator_take_turns():
    """On a device three reductions of one group run one after the other, and none waits for a
    member meanwhile; gloo runs them side by side.
    """

    def add(program, _):
        for k in range(3):
            program.all_reduce(bytes=1000, async_=True, work=f"w{k}")
        for k in range(3):
            program.wait(f"w{k}")

    plan = every_rank(2, add)
    one = schedule(every_rank(2, lambda p, _: p.all_reduce(bytes=1000)), "nccl").makespan
    found = schedule(plan, "nccl")
    assert found.makespan == pytest.approx(3 * one)
    assert {s.ready - s.start for s in found.spans if s.kind == "collective"} == {0.0}
    assert schedule(plan, "gloo").makespan == pytest.approx(one)


def test_traffic_of_ranks_on_no_known_node_is_no_local_copy():
    """Without a topology every rank is on the node `?`; what moves inside it is named no pattern,
    and a ring of nodes still is one.
    """
    plan = every_rank(4, lambda p, _: p.all_reduce(bytes=16))
    rolled = by_node(traffic(plan), plan)
    assert rolled.labels == ("node ?",)
    assert patterns(rolled) == ()
    builder = planguard.PlanBuilder(world_size=8)
    builder.topology([{"rank": r, "node": r // 2, "device": r % 2} for r in range(8)])
    for rank in range(8):
        builder.program(rank).all_reduce(bytes=16)
    plan = builder.build()
    assert [p.name for p in patterns(by_node(traffic(plan), plan))] == ["closed ring"]


def test_a_verdict_gives_its_matrix_as_arrays_and_as_a_table(root):
    """verdict.matrix() is int64, senders as rows, for all traffic or one kind of it; pandas, where
    it is installed, gets the same with names on both axes.
    """
    verdict = planguard.check(root / "examples" / "mesh-3d.plan.json")
    whole = verdict.matrix()
    assert whole.bytes.dtype == np.int64
    assert whole.bytes.shape == (16, 16)
    assert verdict.matrix(primitive="send").bytes[0, 4] > 0
    assert verdict.matrix(by_node=True).total_bytes == whole.total_bytes
    assert verdict.matrix(algorithm="tree").algorithm == "tree"
    pytest.importorskip("pandas")
    table = whole.to_dataframe("counts")
    assert (table.to_numpy() == whole.counts).all()
    assert (table.index.name, table.columns.name) == ("sender", "receiver")
    with pytest.raises(UsageError, match="has no"):
        whole.to_dataframe("colour")


@pytest.mark.parametrize("model", ["nccl", "gloo", "mpi-sync"])
def test_the_messages_of_a_batch_are_drawn_one_by_one(model):
    """Every member of a batch is a span that meets its partner, batched or not, and takes as long
    as the largest message of the launch.
    """
    builder = planguard.PlanBuilder(world_size=2)
    builder.topology(links=[{"src": 0, "dst": 1, "bandwidth": 1e9, "latency_us": 0}])
    for rank in range(2):
        program = builder.program(rank)
        with program.batch():
            program.isend(peer=1 - rank, bytes=1000 * (1 + rank))
            program.irecv(peer=1 - rank, bytes=2000 - 1000 * rank)
        if rank:
            program.recv(peer=0, bytes=500)
        else:
            program.send(peer=1, bytes=500)
    found = schedule(builder.build(), model)
    batch = [s for s in found.spans if s.action == 0]
    assert [(s.rank, s.member, s.kind) for s in batch] == [
        (0, 0, "send"), (0, 1, "recv"), (1, 0, "send"), (1, 1, "recv"),
    ]  # fmt: skip
    assert {s.end for s in batch} == {2.0}
    assert batch[0].match == batch[3].match != batch[1].match == batch[2].match
    assert found.makespan == pytest.approx(2.5)
