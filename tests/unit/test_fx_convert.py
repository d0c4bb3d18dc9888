from __future__ import annotations

import pytest
import torch
from torch import fx, nn
from torch.fx.experimental.proxy_tensor import make_fx

import planguard
from planguard import registry
from planguard.errors import PlanError

registry.find("fx")  # mounts planguard.planners where it is not installed

from planguard.planners.fx import FxProgram, adapter  # noqa: E402
from planguard.planners.fx.convert import convert_graph  # noqa: E402
from planguard.planners.fx.model import Sym, TensorMeta  # noqa: E402

# torch warns about its own internals while it traces; that is not what is tested here.
pytestmark = pytest.mark.filterwarnings("ignore")

C = torch.ops._c10d_functional
GROUPS = {"0": [0, 1]}


def reduce_all(x):
    """Reduce over the group 0; operators trace without a process group."""
    return C.wait_tensor(C.all_reduce(x, "sum", "0"))


def named(graph, name):
    """Find a node."""
    return next(node for node in graph.nodes if node.name == name)


def both(module, **options):
    """Make the plan of two ranks that run one module."""
    program = FxProgram(module, groups=GROUPS)
    return planguard.load({0: program, 1: program}, planner="fx", **options)


def test_shapes_dtypes_and_arguments_are_read():
    """A converted node has the operator, its arguments and the value torch recorded."""
    module = make_fx(reduce_all, tracing_mode="fake")(torch.ones(3, 5, dtype=torch.bfloat16))
    node = named(convert_graph(module), "all_reduce")
    assert node.target == "_c10d_functional.all_reduce.default"
    assert node.args[1:] == ("sum", "0")
    assert node.val == TensorMeta((3, 5), "bfloat16")


def test_views_and_writes_come_from_the_schema():
    """Whether an operator returns a view or writes an argument is what its schema says."""

    def body(x):
        y = torch.ops.aten.view.default(x, [-1])
        torch.ops.aten.copy_.default(y, y * 2)
        return y + 1

    graph = convert_graph(make_fx(body)(torch.ones(4)))
    assert named(graph, "view").view
    assert named(graph, "copy_").mutates == ("view",)
    assert not named(graph, "add").view


def test_backed_symbols_keep_their_traced_value():
    """Symbolic tracing gives s0 with a hint; the plan uses it and notes it."""
    module = make_fx(reduce_all, tracing_mode="symbolic")(torch.ones(6, 4))
    shape = named(convert_graph(module), "all_reduce").val.shape
    assert [dim.hint if isinstance(dim, Sym) else dim for dim in shape] == [6, 4]
    plan = both(module)
    assert {(a.kind, a.direction) for a in plan.approximations} == {("dynamic-shape", "exact")}
    assert planguard.check(plan).safe


def test_data_dependent_sizes_stay_unknown():
    """The number of nonzero elements is known to the run only; torch's guess is not used."""

    def body(x):
        return reduce_all(torch.nonzero(x).to(torch.float32))

    module = make_fx(body, tracing_mode="symbolic")(torch.ones(6))
    plan = both(module)
    assert "unknown-size" in {a.kind for a in plan.approximations}
    assert planguard.check(plan).unknown


def test_data_dependent_splits_stay_unknown():
    """Split sizes read from a tensor, as in a mixture of experts, leave the plan undecided."""

    def body(x, counts):
        splits = counts.tolist()
        for split in splits:
            torch._check_is_size(split)
        return C.wait_tensor(C.all_to_all_single(x, splits, splits, "0"))

    module = make_fx(body, tracing_mode="symbolic")(torch.ones(4, 2), torch.tensor([2, 2]))
    plan = both(module)
    assert "in_splits" not in plan.source.decode()
    assert planguard.check(plan).unknown


def test_modules_and_functions_a_graph_cannot_show_are_unknown():
    """symbolic_trace keeps modules as leaves: torch's own compute, others may communicate."""

    class Exchange(nn.Module):
        def forward(self, x):
            return x

    class Model(nn.Module):
        def __init__(self, inner):
            super().__init__()
            self.inner = inner

        def forward(self, x):
            return reduce_all(self.inner(x))

    class Leaves(fx.Tracer):
        def is_leaf_module(self, module, _):
            return isinstance(module, (nn.Linear, Exchange))

    def plan_of(inner):
        module = Model(inner)
        return both(fx.GraphModule(module, Leaves().trace(module)))

    linear, exchange = (plan_of(inner) for inner in (nn.Linear(2, 2), Exchange()))
    assert "unsupported-op" not in {a.kind for a in linear.approximations}
    assert "unsupported-op" in {a.kind for a in exchange.approximations}


def test_exported_programs_name_their_parameters():
    """torch.export says which placeholder is which parameter; its gather is labeled by it."""

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(4, 4))

        def forward(self, x):
            return x @ C.wait_tensor(C.all_gather_into_tensor(self.weight, 2, "0"))[:4]

    program = torch.export.export(Model(), (torch.ones(2, 4),))
    assert adapter.sniff(program)
    assert '"label":"weight"' in both(program).source.decode()


def test_an_unsorted_graph_is_refused_by_name():
    """A pass that leaves a use in front of its definition has to sort; the message says how."""
    module = make_fx(reduce_all, tracing_mode="fake")(torch.ones(4))
    wait = next(node for node in module.graph.nodes if node.name == "wait_tensor")
    issue = next(node for node in module.graph.nodes if node.name == "all_reduce")
    wait.append(issue)
    with pytest.raises(PlanError, match="node 'wait_tensor' uses 'all_reduce'") as caught:
        both(module)
    assert "stable_topological_sort" in caught.value.hint
    order = [node.name for node in convert_graph(module, sort=True).nodes]
    assert order.index("all_reduce") < order.index("wait_tensor")


@pytest.mark.parametrize("thing", [3, "graph", nn.Linear(2, 2), None])
def test_what_is_no_graph_is_refused(thing):
    """Anything without a graph is a PlanError that names its type."""
    assert not adapter.sniff({0: thing})
    with pytest.raises(PlanError, match="cannot read a graph from"):
        planguard.load({0: FxProgram(thing, groups={"0": [0]})}, planner="fx")
