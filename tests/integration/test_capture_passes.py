from __future__ import annotations

import copy
from unittest import mock

import pytest
import torch
from torch import fx

import planguard.capture
from planguard import Outcome
from planguard.capture import inductor_guard, snapshot, validate_pass
from planguard.errors import PlanGuardError, UsageError

# torch warns about its own internals while it traces; that is not what is tested here.
pytestmark = [pytest.mark.wheel, pytest.mark.filterwarnings("ignore"), pytest.mark.timeout(300)]

C = torch.ops._c10d_functional
WAIT = C.wait_tensor.default
WORLD = {"0": [0, 1]}


class Graph:
    """Writes an fx graph by hand, with shapes."""

    def __init__(self, inputs=1):
        self.graph = fx.Graph()
        self.inputs = [self._valued(self.graph.placeholder(f"x{i}")) for i in range(inputs)]

    def _valued(self, node, shape=(4, 8)):
        node.meta["val"] = torch.empty(shape, device="meta")
        return node

    def call(self, target, *args, shape=(4, 8)):
        """Add a call, named after its operator as tracers do."""
        name = str(target).split(".")[1]
        return self._valued(self.graph.create_node("call_function", target, args, {}, name), shape)

    def reduce(self, value, group="0"):
        """Add an all_reduce, not waited for."""
        return self.call(C.all_reduce.default, value, "sum", group)

    def wait(self, value):
        """Add a wait."""
        return self.call(WAIT, value)

    def done(self, *values):
        """Add the output and make a module."""
        self.graph.output(tuple(values))
        return fx.GraphModule(torch.nn.Module(), self.graph)


def kinds(verdict):
    """Return the kinds of violation, in order."""
    return [violation.kind for violation in verdict.violations]


def overlapped():
    """Reduce, compute something else, then wait."""
    g = Graph()
    first = g.reduce(g.inputs[0])
    other = g.call(torch.ops.aten.mm.default, g.inputs[0], g.inputs[0])
    done = g.wait(first)
    return g.done(g.call(torch.ops.aten.add.Tensor, done, other))


def place(module, name):
    """Find a node by name."""
    return next(node for node in module.graph.nodes if node.name == name)


def test_a_pass_that_changes_nothing_is_valid():
    """The same graph before and after: nothing violated, all ranks safe."""
    verdict = validate_pass(overlapped(), overlapped(), groups=WORLD)
    assert verdict.valid
    assert verdict.complete
    assert verdict.verdict.safe
    with pytest.raises(TypeError, match="not a bool"):
        bool(verdict)


def test_moving_a_wait_in_front_of_the_use_is_valid():
    """raise_comms and sink_waits may move both ends within what data flow allows."""
    after = overlapped()
    place(after, "mm").append(place(after, "all_reduce"))
    assert validate_pass(overlapped(), after, groups=WORLD).valid


def test_a_use_in_front_of_the_wait_is_found():
    """A consumer that reads the collective itself reads it too early."""
    after = overlapped()
    place(after, "add").replace_input_with(place(after, "wait_tensor"), place(after, "all_reduce"))
    place(after, "wait_tensor").prepend(place(after, "add"))
    verdict = validate_pass(overlapped(), after, groups=WORLD)
    assert kinds(verdict) == ["use-before-wait"]
    assert verdict.violations[0].node == "add"


def test_a_lost_wait_is_found():
    """Nobody waits for the collective any more."""
    after = overlapped()
    add, wait = place(after, "add"), place(after, "wait_tensor")
    add.replace_input_with(wait, place(after, "mm"))
    after.graph.erase_node(wait)
    assert kinds(validate_pass(overlapped(), after, groups=WORLD)) == ["missing-wait"]


def returned(*, waited):
    """Reduce, and return the result."""
    g = Graph()
    work = g.reduce(g.inputs[0])
    return g.done(g.wait(work) if waited else work)


def test_a_lost_wait_of_a_result_is_found():
    """A caller that got a finished result waits for nothing, so it must not get one in flight; a
    graph that returned it in flight before may go on to do so, or wait itself.
    """
    done, flying = returned(waited=True), returned(waited=False)
    verdict = validate_pass(done, flying, groups=WORLD)
    assert kinds(verdict) == ["missing-wait"]
    assert verdict.violations[0].node == "all_reduce"
    assert validate_pass(flying, flying, groups=WORLD).valid
    assert validate_pass(flying, done, groups=WORLD).valid


def test_a_lost_and_an_invented_collective_are_found():
    """Every collective must be found again, and no other may appear."""
    without = Graph()
    empty = without.done(without.inputs[0])
    assert kinds(validate_pass(overlapped(), empty, groups=WORLD)) == ["lost-collective"]
    assert kinds(validate_pass(empty, overlapped(), groups=WORLD)) == ["new-collective"]


def test_a_changed_collective_is_found():
    """Same node, other reduce operation."""
    after = overlapped()
    node = place(after, "all_reduce")
    node.args = (node.args[0], "max", "0")
    assert kinds(validate_pass(overlapped(), after, groups=WORLD)) == ["changed-collective"]


# --- moved, split, replaced ---------------------------------------------------------------------

TWINS = {"0": [0, 1], "1": [0, 1], "2": [1, 0]}


def reduced(*groups, kind=None):
    """Reduce two products, one after the other, each on its group."""
    g = Graph(2)
    out = []
    for value, group in zip(g.inputs, groups, strict=True):
        product = g.call(torch.ops.aten.mm.default, value, value)
        work = g.reduce(product, group)
        if kind is not None:
            work.args = (product, kind, group)
        out.append(g.wait(work))
    return g.done(*out)


def test_a_collective_on_a_group_of_equal_members_is_moved():
    """All ranks moved it, and together they are SAFE: allowed, and listed."""
    before = {rank: reduced("0", "0") for rank in range(2)}
    after = {rank: reduced("0", "1") for rank in range(2)}
    verdict = validate_pass(before, after, groups=TWINS, model="gloo")
    assert verdict.valid, verdict
    assert verdict.complete
    assert list(verdict.moved) == [0, 1]
    assert list(verdict.moved[0]) == ["all_reduce_1"]
    assert "group 0 [0,1]" in verdict.moved[0]["all_reduce_1"]
    renamed = {rank: reduced("1", "1") for rank in range(2)}
    assert len(validate_pass(before, renamed, groups=TWINS, model="gloo").moved[1]) == 2


def test_a_move_that_one_rank_did_not_make_is_invalid():
    """One rank moved it and the other did not, or they moved two that look alike."""
    before = {rank: reduced("0", "0") for rank in range(2)}
    for first, second in ((("0", "1"), ("0", "0")), (("0", "1"), ("1", "0"))):
        after = {0: reduced(*first), 1: reduced(*second)}
        verdict = validate_pass(before, after, groups=TWINS, model="gloo")
        assert "moved-collective" in kinds(verdict)
        assert "but not on rank" in str(verdict)
        assert not verdict.moved


def test_other_members_and_other_reductions_are_no_move():
    """Another order of members, or another reduction, changes the collective."""
    before = {rank: reduced("0", "0") for rank in range(2)}
    changed = {rank: reduced("0", "2") for rank in range(2)}
    assert "changed-collective" in kinds(validate_pass(before, changed, groups=TWINS))
    other = {rank: reduced("1", "1", kind="max") for rank in range(2)}
    assert "changed-collective" in kinds(validate_pass(before, other, groups=TWINS))


def test_a_move_is_undecided_where_the_ranks_were_not_checked_together():
    """With one graph whose peers still run the old one, a move is a violation with its reason."""
    verdict = validate_pass(
        reduced("0", "0"), reduced("0", "1"), groups=TWINS, rank=0, others="before", model="gloo",
        world_size=2,
    )  # fmt: skip
    assert "moved-collective" in kinds(verdict)
    assert "the ranks together are" in str(verdict) or "not checked together" in str(verdict)


def gathered(*shapes, group="0"):
    """Gather the parts of one tensor, cut into pieces of the given rows."""
    g = Graph(0)
    pieces = [g._valued(g.graph.placeholder(f"w{n}"), (rows, 8)) for n, rows in enumerate(shapes)]
    works = [
        g.call(C.all_gather_into_tensor.default, piece, 2, group, shape=(2 * rows, 8))
        for piece, rows in zip(pieces, shapes, strict=True)
    ]
    return g, pieces, works


def test_a_bucket_that_is_taken_apart_is_split():
    """One collective of two tensors becomes one for each: listed, and nothing is lost or new."""
    g = Graph(0)
    pieces = [g._valued(g.graph.placeholder(f"w{n}"), (4, 8)) for n in range(2)]
    flat = g.call(torch.ops.aten.cat.default, pieces, shape=(8, 8))
    work = g.call(C.all_gather_into_tensor.default, flat, 2, "0", shape=(16, 8))
    work.name = "bucket"
    before = g.done(g.call(WAIT, work, shape=(16, 8)))
    h, _, works = gathered(4, 4)
    after = h.done(*(h.call(WAIT, one, shape=(8, 8)) for one in works))
    verdict = validate_pass(before, after, groups=WORLD, model="gloo")
    assert verdict.valid, verdict
    assert [len(parts) for parts in verdict.split[0].values()] == [2]


# --- pytorch#150074 -----------------------------------------------------------------------------


def waits_in_order(*order):
    """Reduce two products, then wait in the given order, as eager code may."""
    g = Graph(2)
    products = [g.call(torch.ops.aten.mm.default, x, x) for x in g.inputs]
    works = [g.reduce(product) for product in products]
    done = {}
    for index in order:
        done[index] = g.call(torch.ops.aten.neg.default, g.wait(works[index]))
    return g.done(*done.values())


def before_the_fix():
    """Let torch's own reorder_for_locality run as it did before it stopped at waits."""
    return mock.patch("torch.distributed.is_available", return_value=False)


def test_moving_a_wait_moves_its_collective():
    """pytorch#150074: ranks that wait in different orders end with different issue orders. The
    pass runs from torch's own source; each rank alone looks fine, the ranks together are not.
    """
    from torch._inductor.fx_passes.post_grad import reorder_for_locality

    before = {0: waits_in_order(0, 1), 1: waits_in_order(1, 0)}
    after = {rank: copy.deepcopy(module) for rank, module in before.items()}
    with before_the_fix():
        for module in after.values():
            reorder_for_locality(module.graph)
    verdict = validate_pass(before, after, groups=WORLD, name="reorder_for_locality")
    assert verdict.before.safe
    assert verdict.verdict.outcome is Outcome.MISMATCH
    assert kinds(verdict) == ["unsafe"]
    assert list(verdict.reordered) == [1]


def test_a_changed_order_needs_the_other_ranks():
    """With one graph alone, the change is a violation if the others still run the old one."""
    from torch._inductor.fx_passes.post_grad import reorder_for_locality

    before = waits_in_order(1, 0)
    after = copy.deepcopy(before)
    with before_the_fix():
        reorder_for_locality(after.graph)
    alone = validate_pass(before, after, groups=WORLD, rank=0, others="before")
    assert kinds(alone) == ["order", "unsafe"]
    together = validate_pass(before, after, groups=WORLD, rank=0, others="same")
    assert together.valid
    assert "every rank is taken to do the same" in together.notes[0]


def test_the_fixed_pass_is_valid():
    """torch 2.13 leaves waits where they are."""
    from torch._inductor.fx_passes.post_grad import reorder_for_locality

    before = {0: waits_in_order(0, 1), 1: waits_in_order(1, 0)}
    after = {rank: copy.deepcopy(module) for rank, module in before.items()}
    for module in after.values():
        reorder_for_locality(module.graph)
    verdict = validate_pass(before, after, groups=WORLD)
    assert verdict.valid
    assert not verdict.reordered


# --- pytorch#189454 -----------------------------------------------------------------------------


def ring(rank, barrier):
    """Exchange on two ranks: barrier, then the even rank sends first and the odd one receives."""
    g = Graph(2)
    data, buffer = g.inputs
    if barrier is not None:
        g.call(barrier, data, "0")
    peer = 1 - rank

    def send():
        work = g.call(C.isend.default, data, peer, 0, "0")
        return g.call(WAIT, work)

    def receive():
        work = g.call(C.irecv.default, buffer, peer, 0, "0")
        return g.call(WAIT, work)

    values = [send(), receive()] if rank % 2 == 0 else [receive(), send()]
    return g.done(*values)


def simple_overlap(graph, visible):
    """Move every visible communication earlier by adjacent swaps, and its wait along with it.

    The pass of pytorch#189454 stops only at data dependencies and at communications it can see;
    ``visible`` says which those are.
    """
    for node in [n for n in graph.nodes if n.op == "call_function" and visible(n)]:
        previous = node.prev
        while (
            previous.op == "call_function"
            and previous not in node.all_input_nodes
            and not visible(previous)
        ):
            previous = previous.prev
        previous.append(node)
        wait = next((user for user in node.users if user.target is WAIT), None)
        if wait is not None:
            node.append(wait)


def sees_only_receives(node):
    """Stand for lowering: a receive has an output and is a collective kernel, a send has none."""
    return node.target is C.irecv.default


def test_a_receive_hoisted_above_a_send_deadlocks_the_ranks():
    """pytorch#189454: both ranks end up receiving first; the pass and the hang are both found."""
    before = {rank: ring(rank, None) for rank in range(2)}
    after = {rank: copy.deepcopy(module) for rank, module in before.items()}
    for module in after.values():
        simple_overlap(module.graph, sees_only_receives)
    verdict = validate_pass(before, after, groups=WORLD, name="simple_overlap", model="gloo")
    assert verdict.before.safe
    assert verdict.verdict.outcome is Outcome.DEADLOCK
    assert kinds(verdict) == ["crossed-side-effect", "unsafe"]
    first = verdict.violations[0]
    assert (first.rank, first.node) == (0, "irecv")
    assert "moved in front of isend" in first.message


@pytest.fixture
def barrier():
    """Register a communication operator that no table knows, as third-party libraries do."""
    library = torch.library.Library("planguard_test_comms", "DEF")
    library.define("barrier(Tensor x, str group_name) -> Tensor")
    yield torch.ops.planguard_test_comms.barrier.default
    library._destroy()


def test_a_fence_nobody_can_look_into_is_still_a_fence(barrier):
    """A receive moved above an unknown barrier is a violation, and the rest stays undecided."""
    before = {rank: ring(rank, barrier) for rank in range(2)}
    after = {rank: copy.deepcopy(module) for rank, module in before.items()}
    simple_overlap(after[1].graph, sees_only_receives)
    verdict = validate_pass(before, after, groups=WORLD)
    assert kinds(verdict) == ["crossed-side-effect"]
    assert verdict.violations[0].rank == 1
    assert "planguard_test_comms.barrier" in verdict.violations[0].message
    assert not verdict.complete


# --- bucketing ----------------------------------------------------------------------------------


def sharded(layers=8, width=128, world=8):
    """Write the forward graph of a fully sharded model: gather, wait, multiply, layer by layer."""
    g = Graph(0)
    value = g._valued(g.graph.placeholder("x"), (4, width))
    weights = [
        g._valued(g.graph.placeholder(f"w{i}"), (width // world, width)) for i in range(layers)
    ]
    for weight in weights:
        work = g.call(C.all_gather_into_tensor.default, weight, world, "0", shape=(width, width))
        whole = g.call(WAIT, work, shape=(width, width))
        value = g.call(torch.ops.aten.mm.default, value, whole, shape=(4, width))
    return g.done(value)


@pytest.fixture(scope="module")
def real():
    """Capture a fully sharded model of 8 ranks once: forward and backward GraphModules of rank 0.

    Bucketing needs FakeTensors, so the process plays rank 0 of a fake world while it is used.
    """
    import torch.distributed as dist
    from functorch.compile import make_boxed_func
    from torch import nn
    from torch._dynamo.backends.common import aot_autograd
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Partial, Replicate, Shard, distribute_tensor
    from torch.testing._internal.distributed.fake_pg import FakeStore

    dist.init_process_group("fake", rank=0, world_size=8, store=FakeStore())
    mesh = init_device_mesh("cpu", (8,), mesh_dim_names=("dp",))

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(distribute_tensor(torch.randn(128, 128), mesh, [Shard(0)]))

        def forward(self, x):
            whole = self.weight.redistribute(placements=[Replicate()])
            return (x @ whole.to_local(grad_placements=[Partial("avg")])).relu()

    found = {}

    def keep(name):
        def compiler(graph, _):
            found[name] = copy.deepcopy(graph)
            return make_boxed_func(graph.forward)

        return compiler

    backend = aot_autograd(fw_compiler=keep("forward"), bw_compiler=keep("backward"))
    model = torch.compile(nn.Sequential(*[Layer() for _ in range(8)]), backend=backend)
    model(torch.randn(4, 128, requires_grad=True)).sum().backward()
    yield found, planguard.capture.fx.group_table()
    dist.destroy_process_group()


def bucketed(real, cap):
    """Let torch bucket gathers forward and scatters backward under a cap in MB."""
    from torch._inductor.fx_passes import bucketing
    from torch._inductor.pattern_matcher import stable_topological_sort

    forward, backward = (copy.deepcopy(real[0][name]) for name in ("forward", "backward"))
    gathers = bucketing.bucket_all_gather_by_mb(forward, lambda _: cap)
    bucketing.merge_all_gather(forward, gathers, "default")
    scatters = bucketing.bucket_reduce_scatter_by_mb(backward, lambda _: cap)
    bucketing.merge_reduce_scatter(backward, scatters, "default")
    for graph in (forward.graph, backward.graph):
        stable_topological_sort(graph)
        graph.lint()
    return forward, backward


def program(real, graphs):
    """Make a rank's program of a forward and a backward graph."""
    from planguard.planners.fx import FxProgram

    return FxProgram(*graphs, groups=real[1])


def test_buckets_are_a_partition_of_what_they_fuse(real):
    """torch's bucketing keeps every collective as a member of exactly one bucket, and its wait."""
    old = program(real, (real[0]["forward"], real[0]["backward"]))
    verdict = validate_pass(old, program(real, bucketed(real, 1.0)), name="bucketing")
    assert verdict.valid
    assert verdict.verdict.safe
    assert sorted(len(members) for members in verdict.fused[0].values()) == [8, 8]
    smaller = validate_pass(old, program(real, bucketed(real, 0.13)))
    assert smaller.valid
    assert sum(len(members) for members in smaller.fused[0].values()) > 2


def test_mixed_bucket_caps_between_ranks_are_found(real):
    """Caps of 1.0 and 0.13 MB give different counts and sizes: each rank is fine, all are not."""
    old = program(real, (real[0]["forward"], real[0]["backward"]))
    large, small = (program(real, bucketed(real, cap)) for cap in (1.0, 0.13))
    before = dict.fromkeys(range(8), old)
    after = {rank: small if rank == 3 else large for rank in range(8)}
    verdict = validate_pass(before, after, name="bucketing")
    assert verdict.before.safe
    assert verdict.verdict.outcome is Outcome.MISMATCH
    assert kinds(verdict) == ["unsafe"]
    assert "rank 3" in verdict.violations[0].message


def test_a_member_left_out_of_its_bucket_is_found(real):
    """A bucket that forgets a member loses a collective."""
    forward, _ = bucketed(real, 1.0)
    cat = place(forward, "cat")
    cat.args = (cat.args[0][:-1],)
    verdict = validate_pass(real[0]["forward"], forward)
    assert "lost-collective" in kinds(verdict)


def test_hand_written_graphs_are_bucketed_like_captured_ones():
    """Validation needs no metadata beyond shapes: two gathers fused by hand are a partition."""
    before = sharded(layers=2, width=16, world=2)
    g = Graph(0)
    value = g._valued(g.graph.placeholder("x"), (4, 16))
    weights = [g._valued(g.graph.placeholder(f"w{i}"), (8, 16)) for i in range(2)]
    flat = g.call(torch.ops.aten.cat.default, weights, shape=(16, 16))
    work = g.call(C.all_gather_into_tensor.default, flat, 2, "0", shape=(32, 16))
    whole = g.call(WAIT, work, shape=(32, 16))
    for index in range(2):
        part = g.call(
            torch.ops.aten.slice.Tensor, whole, 0, index * 16, index * 16 + 16, shape=(16, 16)
        )
        value = g.call(torch.ops.aten.mm.default, value, part)
    verdict = validate_pass(before, g.done(value), groups=WORLD)
    assert verdict.valid
    assert [len(members) for members in verdict.fused[0].values()] == [2]


# --- Inductor -----------------------------------------------------------------------------------


def post_grad(module, **config):
    """Run Inductor's post-grad passes on a copy of a captured graph."""
    from torch._guards import detect_fake_mode
    from torch._inductor import config as inductor
    from torch._inductor.fx_passes.post_grad import post_grad_passes
    from torch._inductor.virtualized import V

    module = copy.deepcopy(module)
    values = [node.meta["val"] for node in module.graph.nodes if "val" in node.meta]
    with inductor.patch(config), V.set_fake_mode(detect_fake_mode(values)):
        post_grad_passes(module, is_inference=False)
    return module


def test_the_guard_checks_inductors_own_bucketing(real):
    """The pass that buckets gathers is seen, validated and named; others changed nothing."""
    with inductor_guard() as report:
        post_grad(real[0]["forward"], bucket_all_gathers_fx="all")
    assert [verdict.name for verdict in report.passes] == ["bucket_all_gathers"]
    assert report.passes[0].valid
    assert report.passes[0].verdict.safe
    assert report.watched > 5
    assert not report.skipped


@pytest.mark.parametrize("name", ["forward", "backward"])
def test_the_guard_follows_overlap_scheduling(real, name):
    """Overlap scheduling buckets, moves, and wraps nodes in control_deps; nothing is lost."""
    # The scheduler asks the GPU for its speed; any number will do for an order.
    speeds = {"get_gpu_dram_gbps": lambda *_: 2000.0, "get_device_tflops": lambda *_: 100.0}
    options = {
        "aten_distributed_optimizations.enable_overlap_scheduling": True,
        "aten_distributed_optimizations.collective_bucketing": True,
        # Measuring would need the GPU itself.
        "aten_distributed_optimizations.compute_estimator": "analytical",
        "aten_distributed_optimizations.collective_estimator": "analytical",
    }
    with (
        mock.patch.multiple("torch.utils._runtime_estimation", **speeds),
        inductor_guard() as report,
        mock.patch.multiple("torch._inductor.utils", **speeds),
    ):
        post_grad(real[0][name], **options)
    assert "overlap_scheduling" in [verdict.name for verdict in report.passes]
    assert all(verdict.valid for verdict in report.passes)
    assert not report.skipped


def drop_a_wait(graph):
    """Break a graph the way a careless custom pass does."""
    wait = next(node for node in graph.nodes if node.target is WAIT)
    wait.replace_all_uses_with(wait.args[0])
    graph.erase_node(wait)


def test_a_broken_custom_pass_is_stopped(real):
    """The guard raises at the end of the block and names the pass, the rank and the node."""
    with pytest.raises(PlanGuardError, match="post_grad_custom_post_pass"), inductor_guard():
        post_grad(real[0]["forward"], post_grad_custom_post_pass=drop_a_wait)
    with inductor_guard(on_violation="record") as report:
        post_grad(real[0]["forward"], post_grad_custom_post_pass=drop_a_wait)
    assert [verdict.name for verdict in report.broken] == ["post_grad_custom_post_pass"]
    assert kinds(report.broken[0]) == ["use-before-wait", "missing-wait"]


def test_the_guard_leaves_inductor_as_it_was():
    """Nothing stays patched, and an error inside the block passes through."""
    from torch._inductor.scheduler import Scheduler
    from torch.fx.passes.graph_transform_observer import GraphTransformObserver as Observer

    before = Observer.apply_graph_pass, Observer.apply_gm_pass, Scheduler.codegen
    with pytest.raises(KeyError), inductor_guard():
        raise KeyError
    assert before == (Observer.apply_graph_pass, Observer.apply_gm_pass, Scheduler.codegen)


@pytest.mark.slow
@pytest.mark.usefixtures("real")
def test_the_scheduler_of_a_real_compilation_is_watched():
    """Compiling on the CPU runs Inductor's scheduler; a hoist across a barrier there is found."""
    import torch.distributed as dist
    import torch.distributed._functional_collectives as funcol
    from torch._inductor import config

    def step(x, y):
        first = funcol.all_reduce(x * 2, "sum", dist.group.WORLD)
        second = funcol.all_reduce(y * 3, "sum", dist.group.WORLD)
        return first + 1, second + 1

    def swapped(nodes):
        """Put the last collective, with the node that makes its input, in front of the rest."""
        kernels = [n for n in nodes if "all_reduce" in str(getattr(n.node, "op_overload", ""))]
        place = nodes.index(kernels[-1])
        return [*nodes[place - 1 : place + 1], *nodes[: place - 1], *nodes[place + 1 :]]

    with inductor_guard() as report:
        torch.compile(step)(torch.ones(4), torch.ones(4))
    assert report.watched > 0
    assert not report.broken
    with config.patch(
        reorder_for_compute_comm_overlap=True, reorder_for_compute_comm_overlap_passes=[swapped]
    ):
        torch._dynamo.reset()
        with inductor_guard(on_violation="record") as report:
            torch.compile(step)(torch.ones(4), torch.ones(4))
    notes = [note for verdict in report.passes for note in verdict.notes]
    assert any("changed its place among the collectives" in note for note in notes)


# --- misuse -------------------------------------------------------------------------------------


def test_snapshots_do_not_follow_the_graph():
    """A pass works in place; a snapshot is what the graph was."""
    module = overlapped()
    before = snapshot(module)
    node = place(module, "all_reduce")
    node.args = (node.args[0], "max", "0")
    assert kinds(validate_pass(before, module, groups=WORLD)) == ["changed-collective"]


def test_misuse_is_a_usage_error():
    """Different ranks, no group table, an unknown choice."""
    module = overlapped()
    with pytest.raises(UsageError, match=r"before covers ranks \[0, 1\], after covers \[0\]"):
        validate_pass({0: module, 1: module}, {0: module}, groups=WORLD)
    with pytest.raises(UsageError, match="others is 'none'"):
        validate_pass(module, module, groups=WORLD, others="none")
    with (
        pytest.raises(UsageError, match="on_violation is 'warn'"),
        inductor_guard(on_violation="warn"),
    ):
        pass


def test_ranks_that_cannot_be_known_are_said_to_be_unknown():
    """One rank of a pair exchange says nothing of its peer: rules are checked, the rest is not."""
    verdict = validate_pass(ring(0, None), ring(0, None), groups=WORLD, rank=0)
    assert verdict.valid
    assert not verdict.complete
    assert "not checked together" in verdict.notes[0]
