from __future__ import annotations

import json

import pytest

import planguard
from planguard import registry
from planguard.errors import PlanError, UsageError

C = "_c10d_functional."
ALL_REDUCE, WAIT = C + "all_reduce.default", C + "wait_tensor.default"
F32 = {"shape": [4, 8], "dtype": "float32"}
X = {"name": "x", "op": "placeholder", "val": F32}


def ref(name):
    """Name another node as an argument."""
    return {"ref": name}


def call(name, target, *args, val=F32, **more):
    """Write one call_function node."""
    return {"name": name, "target": target, "args": list(args), "val": val, **more}


def reduced(name, source, group="0", **more):
    """Write an all_reduce and its wait."""
    issue = call(name, ALL_REDUCE, ref(source), "sum", group, **more)
    return [issue, call(f"wait_{name}", WAIT, ref(name))]


def result(*names):
    """Write the output node."""
    return {"name": "output", "op": "output", "args": [[ref(name) for name in names]]}


def dump(*programs, groups=None, **top):
    """Write a dump with one program per rank; a program is a list of nodes or of graphs."""
    world = top.pop("world_size", len(programs))
    table = {"0": list(range(world))} if groups is None else groups
    graphs = {}
    for rank, program in enumerate(programs):
        several = program if "nodes" in program[0] else [{"nodes": program}]
        graphs[f"p{rank}"] = several
    ranks = {str(r): {"program": f"p{r}", "groups": table} for r in range(len(programs))}
    ranks |= {str(r): {"like": 0} for r in range(len(programs), world)}
    return {
        "schema": "planguard.fx/1",
        "world_size": world,
        "programs": graphs,
        "ranks": ranks,
        **top,
    }


def plan_of(document, **options):
    """Read a dump as a plan."""
    return planguard.load(document, planner="fx", **options)


def actions(document, rank=0, **options):
    """Return the actions of one rank as plain dicts."""
    found = json.loads(plan_of(document, **options).source)["ranks"]
    return next(row["actions"] for key, row in found.items() if str(rank) in _selected(key))


def _selected(key):
    first, _, last = key.partition("-")
    return {str(rank) for rank in range(int(first), int(last or first) + 1)}


def alike(*nodes, world=2, **top):
    """Write a dump whose ranks all run the same nodes."""
    return dump(*[list(nodes)] * world, **top)


def test_what_lies_between_a_collective_and_its_wait_is_the_overlap_window():
    """The node issues, wait_tensor waits, and the nodes between are one compute action."""
    document = alike(
        X,
        call("a", ALL_REDUCE, ref("x"), "sum", "0"),
        call("mm", "aten.mm.default", ref("x"), ref("x")),
        call("w", WAIT, ref("a")),
        call("add", "aten.add.Tensor", ref("w"), ref("mm")),
        result("add"),
    )
    issue, between, wait, after = actions(document)
    assert (issue["op"], issue["async"], issue["work"]) == ("all_reduce", True, "a")
    assert (issue["count"], issue["dtype"], issue["reduce_op"]) == (32, "f32", "sum")
    assert (between["op"], between["op_name"]) == ("compute", "mm")
    assert (wait["op"], wait["work"]) == ("wait", "a")
    assert after["deps"] == ["mm", "w"]


VARIANTS = {
    "all_reduce_": (call("c", C + "all_reduce_.default", ref("x"), "max", "0"), "all_reduce", 32),
    "all_gather_into_tensor": (
        call("c", C + "all_gather_into_tensor.default", ref("x"), 2, "0"),
        "all_gather_into_tensor",
        32,
    ),
    "reduce_scatter_tensor": (
        call(
            "c",
            C + "reduce_scatter_tensor.default",
            ref("x"),
            "avg",
            2,
            "0",
            val={"shape": [2, 8], "dtype": "float32"},
        ),
        "reduce_scatter_tensor",
        16,
    ),
    "all_to_all_single": (
        call("c", C + "all_to_all_single.default", ref("x"), [2, 2], [2, 2], "0"),
        "all_to_all_single",
        32,
    ),
    "broadcast": (call("c", C + "broadcast.default", ref("x"), 1, "0"), "broadcast", 32),
    "broadcast_": (call("c", C + "broadcast_.default", ref("x"), 1, "0"), "broadcast", 32),
    "autograd": (
        call("c", "_c10d_functional_autograd.all_gather_into_tensor.default", ref("x"), 2, "0"),
        "all_gather_into_tensor",
        32,
    ),
}


@pytest.mark.parametrize("name", VARIANTS)
def test_every_variant_becomes_its_collective_and_is_waited_for(name):
    """Functional, in-place and autograd variants issue one asynchronous collective each."""
    node, op, count = VARIANTS[name]
    issue, wait = actions(alike(X, node, call("w", WAIT, ref("c")), result("w")))
    assert (issue["op"], issue["count"], issue["async"]) == (op, count, True)
    assert (wait["op"], wait["work"]) == ("wait", "c")


def test_the_root_of_a_broadcast_is_a_rank_of_the_group():
    """The operator's src counts inside the group; the plan's root is the global rank."""
    node = call("c", C + "broadcast.default", ref("x"), 0, "g")
    document = dump(
        [X, result("x")],
        [X, node, call("w", WAIT, ref("c")), result("w")],
        [X, node, call("w", WAIT, ref("c")), result("w")],
        groups={"g": [1, 2]},
    )
    assert actions(document, 1)[0]["root"] == 1


def test_out_variants_write_the_given_buffer():
    """all_gather_into_tensor_out is waited for through the buffer it was given."""
    node = call("c", C + "all_gather_into_tensor_out.default", ref("x"), 2, "0")
    node["kwargs"] = {"out": ref("buffer")}
    document = alike(
        X,
        call(
            "buffer", "aten.empty.memory_format", [8, 8], val={"shape": [8, 8], "dtype": "float32"}
        ),
        node,
        call("w", WAIT, ref("buffer")),
        result("w"),
    )
    assert [a["op"] for a in actions(document)] == ["compute", "all_gather_into_tensor", "wait"]


def test_a_coalesced_collective_is_one_action_and_one_work():
    """The list goes out at once; waiting for one element waits for all, once."""
    document = alike(
        X,
        {"name": "y", "op": "placeholder", "val": {"shape": [3], "dtype": "bfloat16"}},
        call("c", C + "all_reduce_coalesced.default", [ref("x"), ref("y")], "sum", "0", val=None),
        call("e1", "_operator.getitem", ref("c"), 1),
        call("e0", "_operator.getitem", ref("c"), 0),
        call("w1", WAIT, ref("e1")),
        call("w0", WAIT, ref("e0")),
        result("w0", "w1"),
    )
    issue, wait = actions(document)
    assert (issue["op"], issue["kind"], issue["reduce_op"]) == ("coalesced", "all_reduce", "sum")
    assert issue["ops"] == [{"count": 32, "dtype": "f32"}, {"count": 3, "dtype": "bf16"}]
    assert (wait["op"], wait["work"]) == ("wait", "c")


def test_dtensors_shard_dim_exchange_blocks():
    """_dtensor.shard_dim_alltoall waits inside the operator, so it is a blocking all_to_all."""
    node = call("c", "_dtensor.shard_dim_alltoall.default", ref("x"), 0, 1, "0")
    (only,) = actions(alike(X, node, result("c")))
    assert only["op"] == "all_to_all_single"
    assert "async" not in only
    assert "work" not in only


def test_waits_follow_views_elements_and_aliases():
    """wait_tensor finds the collective through the storage of its argument."""
    document = alike(
        X,
        call("c", ALL_REDUCE, ref("x"), "sum", "0"),
        call("wrapped", C + "_wrap_tensor_autograd.default", ref("c")),
        call("v", "aten.view.default", ref("wrapped"), [32], view=True),
        call("parts", "aten.split.Tensor", ref("v"), 16, val=[F32, F32], view=True),
        call("part", "_operator.getitem", ref("parts"), 1),
        call("w", WAIT, ref("part")),
        result("w"),
    )
    assert [a["op"] for a in actions(document)] == ["all_reduce", "wait"]


def test_one_wait_ends_everything_pending_on_a_storage():
    """Two in-place collectives on one tensor are both ended by its wait (measured on gloo)."""
    document = alike(
        X,
        call("a", C + "all_reduce_.default", ref("x"), "sum", "0"),
        call("b", C + "all_reduce_.default", ref("a"), "sum", "0"),
        call("w", WAIT, ref("b")),
        result("w"),
    )
    assert actions(document)[-1]["work"] == ["a", "b"]


def test_a_wait_on_nothing_is_nothing():
    """Waiting for a computed tensor, or twice, adds no action (measured on gloo)."""
    document = alike(
        X,
        *reduced("a", "x"),
        call("again", WAIT, ref("wait_a")),
        call("mm", "aten.mm.default", ref("x"), ref("x")),
        call("never", WAIT, ref("mm")),
        result("never"),
    )
    assert [a["op"] for a in actions(document)] == ["all_reduce", "wait", "compute"]


def test_a_wait_for_an_input_is_written_into_the_ledger():
    """A collective issued before the graph is not in the plan, so the plan is incomplete."""
    plan = plan_of(alike(X, call("w", WAIT, ref("x")), *reduced("a", "w"), result("wait_a")))
    assert [(a.kind, a.direction) for a in plan.approximations] == [("wait-on-input", "under")]


def test_collectives_cross_from_the_forward_to_the_backward_graph():
    """A saved tensor that is still in flight is waited for by the backward graph."""
    forward = {
        "phase": "forward",
        "nodes": [X, call("gather", C + "all_gather_into_tensor.default", ref("x"), 2, "0"),
                  call("mm", "aten.mm.default", ref("x"), ref("x")), result("mm", "gather")],
    }  # fmt: skip
    backward = {
        "phase": "backward",
        "nodes": [
            {"name": "gather", "op": "placeholder", "val": F32},
            call("wait_tensor", WAIT, ref("gather")),
            *reduced("grad", "wait_tensor"),
            result("wait_grad"),
        ],
    }
    found = actions(dump([forward, backward], [forward, backward]))
    assert [a["op"] for a in found] == [
        "all_gather_into_tensor",
        "compute",
        "wait",
        "all_reduce",
        "wait",
    ]
    assert found[2]["work"] == "gather"


def test_a_placeholder_called_wait_tensor_is_only_a_name():
    """Saved results of waits are placeholders named wait_tensor in the backward graph."""
    document = alike(
        {"name": "wait_tensor", "op": "placeholder", "val": F32},
        *reduced("a", "wait_tensor"),
        result("wait_a"),
    )
    assert [a["op"] for a in actions(document)] == ["all_reduce", "wait"]


def test_what_is_returned_in_flight_is_waited_for_by_the_caller():
    """The plan ends with that wait and says so; a dropped result is never waited for."""
    returned = alike(X, call("a", ALL_REDUCE, ref("x"), "sum", "0"), result("a"))
    dropped = alike(X, call("a", ALL_REDUCE, ref("x"), "sum", "0"), result("x"))
    assert [a["op"] for a in actions(returned)] == ["all_reduce", "wait"]
    assert [a.kind for a in plan_of(returned).approximations] == ["wait-by-caller"]
    assert [a["op"] for a in actions(dropped)] == ["all_reduce"]


@pytest.mark.parametrize(
    "node",
    [
        call("u", C + "all_shuffle.default", ref("x"), "0"),
        call("u", "torchcomms.barrier.default", ref("x"), "whatever"),
        call("u", "symm_mem.one_shot_all_reduce.default", ref("x"), "sum", "0"),
        call("u", "mylib.my_all_reduce.default", ref("x"), "0"),
        call("u", "torch.distributed._functional_collectives.all_reduce", ref("x")),
        call("u", "python:mypackage.layers.exchange", ref("x")),
    ],
)
def test_an_unknown_communication_is_never_ignored(node):
    """An operator of a communication library, one that is handed a group, or Python code that the
    graph cannot look into spoils SAFE.
    """
    document = alike(X, node, *reduced("a", "x"), result("wait_a"))
    verdict = planguard.check(plan_of(document))
    assert [(a.kind, a.direction) for a in plan_of(document).approximations] == [
        ("unsupported-op", "under")
    ]
    assert verdict.unknown


def test_plain_computation_with_a_string_argument_is_no_communication():
    """aten operators take strings, too; "0" is not always a group."""
    node = call("d", "aten.div.Tensor_mode", ref("x"), ref("x"), "0")
    assert not plan_of(alike(X, node, *reduced("a", "d"), result("wait_a"))).approximations


def test_symbolic_sizes_are_in_the_ledger():
    """A traced size is used and noted; a size that only the run knows makes the plan undecided."""
    backed = {"shape": [{"sym": "s0", "hint": 4}, 8], "dtype": "float32"}
    unbacked = {"shape": [{"sym": "u0"}, 8], "dtype": "float32"}
    first = alike({**X, "val": backed}, *reduced("a", "x"), result("wait_a"))
    second = alike({**X, "val": unbacked}, *reduced("a", "x", val=None), result("wait_a"))
    assert {(a.kind, a.direction) for a in plan_of(first).approximations} == {
        ("dynamic-shape", "exact")
    }
    assert actions(first)[0]["count"] == 32
    assert {(a.kind, a.direction) for a in plan_of(second).approximations} == {
        ("unknown-size", "under")
    }
    assert "count" not in actions(second)[0]
    assert planguard.check(plan_of(second)).unknown


def test_split_sizes_are_counted_in_elements():
    """Splits come in rows of dimension 0; a plan counts elements."""
    node = call("c", C + "all_to_all_single.default", ref("x"), [1, 3], [3, 1], "0")
    (issue, _) = actions(alike(X, node, call("w", WAIT, ref("c")), result("w")))
    assert (issue["in_splits"], issue["out_splits"]) == ([24, 8], [8, 24])


def test_source_locations_come_from_the_nodes():
    """The plan's actions point at the user's line."""
    document = alike(X, *reduced("a", "x", src=["model.py", 12, "forward"]), result("wait_a"))
    assert actions(document)[0]["src"] == ["model.py", 12, "forward"]


def gathered(name, parameter):
    """Write a parameter and its all_gather."""
    return [
        {"name": name, "op": "placeholder", "fqn": parameter, "val": F32},
        call(f"ag_{name}", C + "all_gather_into_tensor.default", ref(name), 2, "0"),
        call(f"w_{name}", WAIT, ref(f"ag_{name}")),
    ]


def test_labels_are_parameters_and_their_gradients():
    """A gathered parameter is labeled by its qualified name, a reduced gradient with .grad."""
    document = alike(
        *gathered("p", "up.weight"),
        call("g", "aten.mm.default", ref("w_p"), ref("w_p")),
        *reduced("r", "g"),
        call("v", "aten.view.default", ref("wait_r"), [32], view=True),
        {**result("v"), "fqns": ["up.weight"]},
    )
    labels = [a.get("label") for a in actions(document) if a["op"] != "wait"]
    assert labels == ["up.weight", None, "up.weight.grad"]


def fused(*order):
    """Copy two parameters into one buffer in this order, and gather it in place."""
    size = {"shape": [64], "dtype": "float32"}
    return [
        {"name": "b", "op": "placeholder", "fqn": "b.weight", "val": F32},
        {"name": "a", "op": "placeholder", "fqn": "a.weight", "val": F32},
        call("empty", "aten.empty.memory_format", [128], val={"shape": [128], "dtype": "float32"}),
        call("slot", "aten.slice.Tensor", ref("empty"), 0, 0, 64, val=size, view=True),
        call("cat", "aten.cat.default", [ref(name) for name in order], val=size),
        call("copy", "aten.copy_.default", ref("slot"), ref("cat"), val=size, mutates=["slot"]),
        {**call("c", C + "all_gather_into_tensor_out.default", ref("copy"), 2, "0"),
         "kwargs": {"out": ref("empty")}},
        call("w", WAIT, ref("c")),
        result("w"),
    ]  # fmt: skip


def reduced_at_once(*order):
    """Reduce two gradients in one buffer, whose pieces come back in this order."""
    size = {"shape": [64], "dtype": "float32"}
    pieces = [call(f"piece_{n}", "_operator.getitem", ref("parts"), n) for n in range(2)]
    out = {**result("piece_0", "piece_1"), "fqns": list(order)}
    whole = [X, call("cat", "aten.cat.default", [ref("x"), ref("x")], val=size)]
    back = call("parts", "aten.split.Tensor", ref("wait_r"), 32, val=[F32, F32], view=True)
    return [*whole, *reduced("r", "cat"), back, *pieces, out]


def test_a_fused_buffer_is_labeled_by_its_members_in_order():
    """The label of a bucket names all parameters copied into it, as they lie there."""
    document = alike(*fused("b", "a"))
    issue = next(a for a in actions(document) if a["op"] == "all_gather_into_tensor")
    assert issue["label"] == "b.weight+a.weight"
    document = alike(*reduced_at_once("b.weight", "a.weight"))
    issue = next(a for a in actions(document) if a["op"] == "all_reduce")
    assert issue["label"] == "b.weight.grad+a.weight.grad"


@pytest.mark.parametrize(
    ("make", "names"), [(fused, ("a", "b")), (reduced_at_once, ("a.weight", "b.weight"))]
)
def test_members_that_fill_a_buffer_in_different_orders_mix_their_data(make, names):
    """Sizes agree and the pieces do, and still one rank's first piece meets another's second."""
    good, bad = dump(make(*names), make(*names)), dump(make(*names), make(*names[::-1]))
    assert planguard.check(plan_of(good)).safe
    verdict = planguard.check(plan_of(bad))
    assert verdict.outcome is planguard.Outcome.MISMATCH
    assert verdict.errors[0].code == "PG212"


def test_swapped_collectives_of_one_shape_are_told_apart():
    """Two gathers in swapped order on one rank are out of round, although their shapes agree."""
    a, b = gathered("a", "a.weight"), gathered("b", "b.weight")
    good = dump([*a, *b, result("w_a", "w_b")], [*a, *b, result("w_a", "w_b")])
    bad = dump([*a, *b, result("w_a", "w_b")], [*b, *a, result("w_a", "w_b")])
    assert planguard.check(plan_of(good)).safe
    assert planguard.check(plan_of(bad)).outcome is planguard.Outcome.MISMATCH


def test_labels_that_members_do_not_share_are_dropped():
    """Ranks may call one collective's data differently; that alone is no mismatch."""
    document = dump(
        [*gathered("a", "embedding.weight"), result("w_a")],
        [*gathered("a", "head.weight"), result("w_a")],
    )
    assert all("label" not in action for action in actions(document))
    assert planguard.check(plan_of(document)).safe
    assert "no-labels" in [a.kind for a in plan_of(document).approximations]


def test_repeated_labels_are_numbered():
    """The same parameter gathered twice gets two labels."""
    first = gathered("a", "a.weight")
    again = [
        call("ag2", C + "all_gather_into_tensor.default", ref("a"), 2, "0"),
        call("w2", WAIT, ref("ag2")),
    ]
    found = actions(alike(*first, *again, result("w_a", "w2")))
    assert [a["label"] for a in found if a["op"] != "wait"] == ["a.weight", "a.weight#2"]


def test_members_that_disagree_on_the_name_of_a_group_never_meet():
    """The name is part of the key under which torch's ranks find each other."""
    nodes = [X, *reduced("a", "x", "g"), result("wait_a")]
    document = dump(nodes, nodes)
    document["ranks"]["0"]["groups"] = {"g": {"ranks": [0, 1], "name": "1"}}
    document["ranks"]["1"]["groups"] = {"g": {"ranks": [0, 1], "name": "2"}}
    assert planguard.check(plan_of(document)).outcome is planguard.Outcome.DEADLOCK


def spmd(world, mesh, group, **more):
    """Write a dump where rank 0 alone was captured."""
    nodes = [X, *reduced("a", "x", "g"), result("wait_a")]
    return dump(
        nodes,
        world_size=world,
        mesh={"dims": mesh},
        groups={"g": {"ranks": group, "desc": "mesh_tp"}},
        **more,
    )


def test_one_graph_stands_for_all_ranks_by_the_mesh():
    """The group keeps its place in the mesh, the plan has one program, the ledger says so."""
    plan = plan_of(spmd(8, [["dp", 2], ["tp", 4]], [0, 1, 2, 3]))
    document = json.loads(plan.source)
    assert list(document["ranks"]) == ["0-7"]
    assert document["groups"] == {"tp": {"mesh_dims": ["tp"]}}
    assert [a.kind for a in plan.approximations][-1] == "spmd-substitution"
    assert "1 of 8 ranks were captured" in plan.approximations[-1].message
    assert planguard.check(plan).safe


def test_large_worlds_stay_small():
    """SPMD substitution writes one program, whatever the number of ranks."""
    plan = plan_of(spmd(4096, [["dp", 512], ["tp", 8]], list(range(8))))
    assert len(plan.source) < 2_000
    assert planguard.check(plan).safe


def test_a_group_that_is_no_mesh_group_cannot_be_substituted():
    """Without a mesh that makes the group, its counterpart on other ranks is unknown."""
    with pytest.raises(PlanError, match="is no group of the mesh"):
        plan_of(spmd(8, [["dp", 2], ["tp", 4]], [0, 3]))


def test_rank_dependent_nodes_cannot_be_substituted():
    """Peers and uneven splits of one rank say nothing about another rank's."""
    send = call("s", C + "isend.default", ref("x"), 1, 0, "0")
    uneven = call("s", C + "all_to_all_single.default", ref("x"), [1, 3], [3, 1], "0")
    for node in (send, uneven):
        document = dump([X, node, call("w", WAIT, ref("s")), result("w")], world_size=2)
        with pytest.raises(PlanError, match="cannot stand for rank 1"):
            plan_of(document)


def test_missing_ranks_are_an_error_unless_spmd_is_declared():
    """One graph of a larger world is not taken for all ranks in silence."""
    from planguard.planners.fx import FxProgram, read_bundle

    bundle = read_bundle(alike(X, *reduced("a", "x"), result("wait_a")))
    program = FxProgram(bundle.programs[0].graphs[0], groups={"0": [0, 1]})
    with pytest.raises(PlanError, match="1 of 2 ranks have no graph: 1"):
        planguard.load({0: program}, planner="fx")
    assert planguard.check(planguard.load({0: program}, planner="fx", spmd=True)).safe


def test_sends_and_receives_become_point_to_point():
    """isend and irecv carry ranks of the group; an exchange in one batch is safe."""
    batch = call(
        "b", C + "batch_p2p_ops.default", ["irecv", "isend"], [0, 0], [0, 0],
        [ref("x"), ref("y")], "g", val=[F32, F32],
    )  # fmt: skip
    y = {"name": "y", "op": "placeholder", "val": F32}
    done = [call("e", "_operator.getitem", ref("b"), 0), call("w", WAIT, ref("e")), result("w")]
    other = {**batch, "args": [["irecv", "isend"], [1, 1], [0, 0], [ref("x"), ref("y")], "g"]}
    document = dump(
        [X, y, result("x")], [X, y, other, *done], [X, y, batch, *done], groups={"g": [1, 2]}
    )
    issue, wait = actions(document, 1)
    assert [(op["op"], op["peer"]) for op in issue["ops"]] == [("irecv", 2), ("isend", 2)]
    assert wait["work"] == "b"
    assert planguard.check(plan_of(document)).safe


def test_a_global_rank_in_a_sub_group_is_refused():
    """torch's isend passes a global rank on where the operator wants a rank of the group."""
    node = call("s", C + "isend.default", ref("x"), 2, 0, "g")
    nodes = [X, node, call("w", WAIT, ref("s")), result("w")]
    with pytest.raises(PlanError, match="node 's' has peer 2 in a group of 2") as caught:
        plan_of(dump([X, result("x")], nodes, [X, result("x")], groups={"g": [1, 2]}))
    assert caught.value.code == "PG403"


def test_head_to_head_sends_deadlock():
    """Two ranks that send before they receive are stuck under every model without buffering."""

    def rank(peer):
        return [
            X,
            call("s", C + "isend.default", ref("x"), peer, 0, "0"),
            call("ws", WAIT, ref("s")),
            call("y", "aten.empty.memory_format", [4, 8]),
            call("r", C + "irecv.default", ref("y"), peer, 0, "0"),
            call("wr", WAIT, ref("r")),
            result("wr"),
        ]

    assert planguard.check(plan_of(dump(rank(1), rank(0)))).outcome is planguard.Outcome.DEADLOCK


def region(name, nodes):
    """Write a node that is a subgraph, and the subgraph."""
    return {"name": name, "op": "get_attr", "target": name}, {name: {"nodes": nodes}}


def inner(name="a", op=ALL_REDUCE):
    """Write a subgraph that reduces its input."""
    node = call(name, op, ref("i"), "sum", "0")
    return [{"name": "i", "op": "placeholder", "val": F32}, node,
            {"name": "o", "op": "output", "args": [ref(name)]}]  # fmt: skip


def test_wrapped_nodes_are_issued_in_line():
    """control_deps, which overlap scheduling leaves around nodes, hides no communication."""
    attribute, subgraphs = region("sub", inner("wrapped"))
    nodes = [
        X,
        attribute,
        call("a", "control_deps", [ref("x")], ref("sub"), ref("x")),
        call("w", WAIT, ref("a")),
        result("w"),
    ]
    graph = {"nodes": nodes, "subgraphs": subgraphs}
    issue, wait = actions(dump([graph], [graph]))
    assert (issue["op"], issue["id"], wait["work"]) == ("all_reduce", "a", "a")


def test_a_conditional_with_communication_is_a_choice():
    """Branches are kept; since ranks may choose differently, the plan is not safe."""
    taken = [*inner()[:2], call("w", WAIT, ref("a")), result("w")]
    yes, yes_graph = region("yes", taken)
    no, no_graph = region("no", [{"name": "i", "op": "placeholder", "val": F32}, result("i")])
    nodes = [X, yes, no, call("c", "cond", ref("x"), ref("yes"), ref("no"), [ref("x")]),
             call("e", "_operator.getitem", ref("c"), 0), result("e")]  # fmt: skip
    graph = {"nodes": nodes, "subgraphs": {**yes_graph, **no_graph}}
    (only,) = actions(dump([graph], [graph]))
    assert (only["op"], [len(branch) for branch in only["branches"]]) == ("choice", [2, 0])
    assert not planguard.check(plan_of(dump([graph], [graph]))).safe


def test_a_loop_with_communication_is_undecided():
    """How often a while_loop runs is not in the graph."""
    body, graphs = region("body", inner())
    nodes = [X, body, call("l", "while_loop", ref("body"), [ref("x")]), result("l")]
    graph = {"nodes": nodes, "subgraphs": graphs}
    plan = plan_of(dump([graph], [graph]))
    assert ("unsupported-op", "under") in [(a.kind, a.direction) for a in plan.approximations]
    assert planguard.check(plan).unknown


def test_plain_c10d_nodes_are_read_with_their_blocking():
    """make_fx keeps c10d operators; async_op=False blocks, a hidden wait is in the ledger."""
    blocking = call("c", "c10d.allreduce_.default", [ref("x")], "0", {"text": "op"}, None, False,
                    mutates=["x"], val=None)  # fmt: skip
    hidden = call("c", "c10d._allgather_base_.default", ref("y"), ref("x"), "0",
                  mutates=["y"], val=None)  # fmt: skip
    y = {"name": "y", "op": "placeholder", "val": {"shape": [8, 8], "dtype": "float32"}}
    (first,) = actions(alike(X, blocking, result("x")))
    assert (first["op"], "async" in first) == ("all_reduce", False)
    plan = plan_of(alike(X, y, hidden, result("y")))
    assert {(a.kind, a.direction) for a in plan.approximations} == {("wait-not-traced", "over")}


def test_reading_a_result_before_its_wait_is_seen():
    """The compute action reads what the collective is still writing."""
    document = alike(
        X,
        call("a", ALL_REDUCE, ref("x"), "sum", "0"),
        call("mm", "aten.mm.default", ref("a"), ref("x")),
        call("w", WAIT, ref("a")),
        result("w", "mm"),
    )
    issue, early, _ = actions(document)
    assert issue["writes"] == ["a"]
    assert early["reads"] == ["a"]


@pytest.mark.parametrize("compute", ["fold", "all", "none"])
def test_computation_can_be_folded_kept_or_left_out(compute):
    """The communication of a plan does not depend on how computation is shown."""
    document = alike(
        X,
        call("m1", "aten.mm.default", ref("x"), ref("x")),
        call("m2", "aten.mm.default", ref("m1"), ref("x")),
        *reduced("a", "m2"),
        result("wait_a"),
    )
    found = [a["op"] for a in actions(document, compute=compute)]
    computes = {"fold": 1, "all": 2, "none": 0}[compute]
    assert found == ["compute"] * computes + ["all_reduce", "wait"]


def test_unknown_options_are_named():
    """A misspelt option is a usage error that lists the known ones."""
    with pytest.raises(UsageError, match="no option 'spdm'"):
        plan_of(alike(X, *reduced("a", "x"), result("wait_a")), spdm=True)


BROKEN = {
    "an undefined value": (
        lambda d: d["programs"]["p0"][0]["nodes"][1]["args"].__setitem__(0, ref("nowhere")),
        r"node 'a' uses 'nowhere'",
    ),
    "a node twice": (
        lambda d: d["programs"]["p0"][0]["nodes"].append({"name": "x", "op": "placeholder"}),
        "node 'x' is defined twice",
    ),
    "an unknown field": (
        lambda d: d["programs"]["p0"][0]["nodes"][0].update(form=[1]),
        "unknown field 'form'",
    ),
    "an unknown kind of node": (
        lambda d: d["programs"]["p0"][0]["nodes"][0].update(op="call_home"),
        "node 'x': expected one of",
    ),
    "a group that is not in the table": (
        lambda d: d["ranks"]["0"].update(groups={}),
        "node 'a' names process group '0', which is not in the group table",
    ),
    "a rank outside of its group": (
        lambda d: d["ranks"]["0"].update(groups={"0": [1]}),
        "of which it is no member",
    ),
    "a group with a rank twice": (
        lambda d: d["ranks"]["0"].update(groups={"0": [0, 0]}),
        "none twice",
    ),
    "a missing rank": (lambda d: d["ranks"].pop("1"), "rank 1 has no program"),
    "a rank selected twice": (lambda d: d["ranks"].update({"0-1": {"like": 0}}), "selected twice"),
    "an endless selector": (
        lambda d: d["ranks"].update({"2-99999999999": {"like": 0}}),
        "outside the world",
    ),
    "a world too large": (lambda d: d.update(world_size=2**40), "expected an integer"),
    "another schema": (lambda d: d.update(schema="planguard.fx/2"), "expected 'planguard.fx/1'"),
    "no group argument": (
        lambda d: d["programs"]["p0"][0]["nodes"][1]["args"].pop(),
        "node 'a' has no process group",
    ),
    "a mesh that does not tile": (
        lambda d: d.update(mesh={"dims": [["tp", 1]]}),
        "the mesh has 1 ranks, the world 2",
    ),
}


@pytest.mark.parametrize("case", BROKEN)
def test_malformed_dumps_are_refused_by_name(case):
    """Every defect is a PlanError that names the node or the field."""
    document = json.loads(json.dumps(alike(X, *reduced("a", "x"), result("wait_a"))))
    spoil, message = BROKEN[case]
    spoil(document)
    with pytest.raises(PlanError, match=message):
        plan_of(document)


def test_deep_graphs_do_not_exhaust_the_stack():
    """Five thousand views in a row, and concatenations of themselves, are read in no time."""
    nodes = [X]
    for place in range(5000):
        source = nodes[-1]["name"]
        nodes.append(call(f"v{place}", "aten.view.default", ref(source), [4, 8], view=True))
    for place in range(200):
        source = ref(nodes[-1]["name"])
        nodes.append(call(f"c{place}", "aten.cat.default", [source, source]))
    document = alike(*nodes, *reduced("a", nodes[-1]["name"]), result("wait_a"))
    assert actions(document)[-2]["label"] == "x"


def test_computing_into_a_buffer_is_not_moving_data():
    """A buffer that was added to holds something new, whatever was copied into it before."""
    parameter = {"name": "p", "op": "placeholder", "fqn": "p.weight", "val": F32}
    document = alike(
        parameter,
        call("b", "aten.empty.memory_format", [4, 8]),
        call("copy", "aten.copy_.default", ref("b"), ref("p"), mutates=["b"]),
        call("add", "aten.add_.Tensor", ref("b"), ref("p"), mutates=["b"]),
        *reduced("a", "b"),
        result("wait_a"),
    )
    assert actions(document)[-2]["label"] == "add+p"


def test_ranks_with_the_same_graphs_are_translated_once(monkeypatch):
    """One program on two groups of two ranks is translated once, and each calls its own group."""
    registry.find("fx")
    from planguard.planners.fx import translate as module

    done = []
    plain = module.translate
    monkeypatch.setattr(module, "translate", lambda *a, **k: done.append(1) or plain(*a, **k))
    program = [{"nodes": [X, *reduced("a", "x"), result("wait_a")]}]
    ranks = {
        str(rank): {"program": "p", "groups": {"0": [rank - rank % 2, rank - rank % 2 + 1]}}
        for rank in range(4)
    }
    document = {"schema": "planguard.fx/1", "world_size": 4, "programs": {"p": program}}
    plan = plan_of({**document, "ranks": ranks})
    assert len(done) == 1
    assert planguard.check(plan, model="gloo").safe
    shared = {**document, "ranks": ranks}
    groups = [a["group"] for rank in range(4) for a in actions(shared, rank) if "group" in a]
    assert groups == ["group [0,1]", "group [0,1]", "group [2,3]", "group [2,3]"]
