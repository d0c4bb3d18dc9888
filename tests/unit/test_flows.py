"""Data between operators, from an ExecutionTrace: views, writes in place, addresses used again."""

from __future__ import annotations

import json

import pytest

from planguard.audit.readers.flows import Flows


def tensor(number, storage=None, offset=0, count=4, width=4):
    """A tensor as the trace writes it, on a storage of its own unless one is given."""
    return [number, 1000 + number if storage is None else storage, offset, count, width, "cpu"]


def traced(*operators):
    """Return the edges of operators ``(name, inputs, outputs, schema, parent)``, by place.

    Those with a parent run inside it; the others are drawn.
    """
    nodes, places = [], {}
    for at, (name, given, made, schema, *inside) in enumerate(operators):
        parent = inside[0] if inside else None
        nodes.append({
            "id": 10 + at, "name": name, "ctrl_deps": 10 + parent if inside else 1,
            "inputs": values(given), "outputs": values(made),
            "attrs": [{"name": "rf_id", "value": at}, {"name": "op_schema", "value": schema}],
        })  # fmt: skip
        places[at] = (at, 0) if parent is None else (places[parent][0], places[parent][1] + 1)
    found = Flows(json.dumps({"nodes": nodes}).encode(), "et.json").of(places)
    writer = {name: at for at, flow in found.items() for name in flow.writes}
    return {(writer.get(name, "before"), at) for at, flow in found.items() for name in flow.reads}


def values(tensors):
    """Inputs or outputs, contiguous and of one dimension."""
    return {
        "values": tensors,
        "shapes": [[one[3]] for one in tensors],
        "strides": [[1] for one in tensors],
        "types": ["Tensor(float)" for _ in tensors],
    }


NEW, VIEW = "op(Tensor self) -> Tensor", "op(Tensor(a) self) -> Tensor(a)"
IN_PLACE = "op(Tensor(a!) self, Tensor other) -> Tensor(a!)"
OUT = "op(Tensor self, *, Tensor(a!) out) -> Tensor(a!)"
A, B, C = tensor(1), tensor(2), tensor(3)
AS_B = tensor(2, 1001)
"""The storage of A under another number."""


def test_data_goes_from_its_maker_to_its_reader():
    """What was there before the step has no maker in it."""
    assert traced(("a", [A], [B], NEW), ("b", [B], [C], NEW)) == {("before", 0), (0, 1)}


def test_a_view_stands_between():
    """A view is made of its base and read as itself, until someone writes into the base."""
    view = [("make", [], [A], NEW), ("view", [A], [AS_B], VIEW)]
    assert traced(*view, ("read", [AS_B], [C], NEW)) == {(0, 1), (1, 2)}
    written = [*view, ("aten::add_", [A, C], [A], IN_PLACE), ("read", [AS_B], [], NEW)]
    assert traced(*written) == {(0, 1), (0, 2), ("before", 2), (2, 3)}


def test_old_content_that_is_written_over_is_not_read():
    """copy_, an argument ``out``, and the shape of what something is made like are no reading."""
    for name, schema in (("aten::copy_", IN_PLACE), ("aten::add_", IN_PLACE)):
        edges = traced(("make", [], [A], NEW), ("make", [], [B], NEW), (name, [A, B], [A], schema))
        assert ((0, 2) in edges) == (name == "aten::add_")
    out = [("make", [], [A], NEW), ("make", [], [B], NEW), ("aten::mul", [B, A], [A], OUT)]
    assert traced(*out, ("read", [A], [], NEW)) == {(1, 2), (2, 3)}
    assert traced(("make", [], [A], NEW), ("aten::zeros_like", [A], [B], NEW)) == set()


def test_a_buffer_comes_from_all_who_wrote_a_part():
    """A bucket of two gradients has two sources; a part of it that was written over, the later."""
    first, second = tensor(2, 1001, 0, 2), tensor(3, 1001, 2, 2)
    filled = [
        ("make", [], [A], NEW),
        ("aten::copy_", [first, tensor(8)], [first], IN_PLACE),
        ("aten::copy_", [second, tensor(9)], [second], IN_PLACE),
    ]
    send = ("send", [A], [], NEW)
    assert {source for source, to in traced(*filled, send) if to == 3} == {1, 2}
    again = ("aten::copy_", [first, tensor(7)], [first], IN_PLACE)
    assert {source for source, to in traced(*filled, again, send) if to == 4} == {2, 3}
    half = {source for source, to in traced(filled[0], filled[1], send) if to == 2}
    assert half == {0, 1}


def test_an_address_that_is_used_again_hides_what_was_there():
    """Memory handed out anew is its new owner's; other widths and bare numbers are nobody's."""
    used = [("make", [], [A], NEW), ("make", [], [tensor(5, 1001)], NEW)]
    assert traced(*used, ("read", [tensor(5, 1001)], [], NEW)) == {(1, 2)}
    wide = tensor(6, 1001, 0, 1, 8)
    assert traced(used[0], ("read", [wide], [], NEW)) == {("before", 1)}


def test_what_runs_inside_an_operator_is_its_own():
    """Inner reads of what the operator will return are no edges; autograd's records its inputs
    right inside, and a tensor that it unpacks deeper is known by its storage alone.
    """
    inside = [
        ("make", [], [A], NEW),
        ("mm", [A], [B], NEW),
        ("inner", [B], [B], VIEW, 1),
        ("read", [B], [], NEW),
    ]
    assert traced(*inside) == {(0, 1), (1, 3)}
    backward = [
        ("make", [], [A], NEW),
        ("view", [A], [AS_B], VIEW),
        ("evaluate", [], [], ""),
        ("Backward", [C], [], "", 2),
        ("mul", [AS_B, C], [tensor(4)], NEW, 3),
        ("next", [tensor(4)], [], NEW),
    ]
    assert traced(*backward) == {(0, 1), (0, 2), ("before", 2), (2, 5)}


@pytest.mark.parametrize(
    "broken",
    [
        {"values": [[1, 2]], "shapes": [], "strides": [], "types": []},
        {"values": [["x", 2, 0, 1, 4, "cpu"]], "shapes": [["y"]], "strides": [3], "types": [None]},
        {"values": [[1, 2, -1, 1 << 60, 4, "cpu"]], "shapes": [[]], "strides": [[]], "types": []},
        {"values": [[[[[1, 2, 0, 4, 4, "cpu"]]]]], "shapes": [1], "strides": [], "types": ["T("]},
    ],
)
def test_what_is_no_tensor_is_left_out(broken):
    """Values that no recorder writes make no edge and no error."""
    told = [{"name": "rf_id", "value": 5}, {"name": "op_schema", "value": 3}]
    nodes = [{"id": 1, "name": "op", "inputs": broken, "outputs": broken, "attrs": told}]
    found = Flows(json.dumps({"nodes": nodes}).encode(), "et.json").of({5: (5, 0)})
    assert all(flow.writes == {} for flow in found.values())
