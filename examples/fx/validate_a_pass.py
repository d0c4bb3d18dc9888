"""Validate a compiler pass: a good one, a careless one, and one that ranks run differently.

python examples/fx/validate_a_pass.py
"""

import copy

import torch
from torch import fx

from planguard.capture import validate_pass

C = torch.ops._c10d_functional  # noqa: SLF001 - the namespace has no other name
GROUPS = {"0": [0, 1]}


def graph() -> fx.GraphModule:
    """Two reductions, each waited for right behind its issue."""
    g = fx.Graph()
    outputs = []
    for name in ("a", "b"):
        x = g.placeholder(name)
        reduced = g.create_node(
            "call_function", C.all_reduce.default, (x, "sum", "0"), {}, f"reduce_{name}"
        )
        waited = g.create_node(
            "call_function", C.wait_tensor.default, (reduced,), {}, f"wait_{name}"
        )
        for node in (x, reduced, waited):
            node.meta["val"] = torch.empty(4, 8, device="meta")
        outputs.append(waited)
    g.output(tuple(outputs))
    return fx.GraphModule(torch.nn.Module(), g)


def find(module: fx.GraphModule, name: str) -> fx.Node:
    return next(node for node in module.graph.nodes if node.name == name)


before = graph()

overlapped = copy.deepcopy(before)  # sink the first wait: both reductions are in flight together
find(overlapped, "wait_b").append(find(overlapped, "wait_a"))
print(validate_pass(before, overlapped, groups=GROUPS, name="sink_waits"))

careless = copy.deepcopy(before)  # drop a wait whose result looks unused
find(careless, "output").args = ((find(careless, "a"), find(careless, "wait_b")),)
careless.graph.erase_node(find(careless, "wait_a"))
print(validate_pass(before, careless, groups=GROUPS, name="careless"))

swapped = copy.deepcopy(before)  # issue the second reduction first, on rank 1 only
find(swapped, "a").append(find(swapped, "b"))
find(swapped, "b").append(find(swapped, "reduce_b"))
verdict = validate_pass({0: before, 1: before}, {0: before, 1: swapped}, groups=GROUPS, name="swap")
print(verdict)
assert not verdict.valid
