"""Exchanges of tokens with splits that only the run knows, decided by how counts are exchanged."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import pytest

import planguard
from planguard import Outcome
from planguard.options import MODEL_NAMES

SAMPLE = Path(__file__).resolve().parents[1] / "samples" / "fx" / "routed-moe.fx.json"
WORLD = 8
SENT = [{"ref": f"_local_scalar_dense{'' if n == 0 else f'_{n}'}"} for n in range(WORLD)]
RECEIVED = [{"ref": f"_local_scalar_dense_{n}"} for n in range(WORLD, 2 * WORLD)]


def document(edit=None, ranks=()):
    """Return the sample; ``edit`` changes the nodes, by name, of the program of some ranks."""
    made = json.loads(SAMPLE.read_text())
    if edit is not None:
        made["programs"]["p1"] = copy.deepcopy(made["programs"]["p0"])
        graph = made["programs"]["p1"][0]
        edit({node["name"]: node for node in graph["nodes"]}, graph["nodes"])
        for rank in ranks:
            made["ranks"][str(rank)]["program"] = "p1"
    return made


def checked(edit=None, ranks=(3,), model="nccl"):
    """Return the verdict of the sample, changed on some ranks."""
    return planguard.check(
        planguard.load(document(edit, ranks), planner="fx"), model=model, budget=20.0
    )


def kinds(verdict):
    """Return the entries of the ledger."""
    return {entry.kind: entry for entry in verdict.approximations}


def insert(nodes, before, node):
    """Put a node in front of another one."""
    nodes.insert(next(at for at, one in enumerate(nodes) if one["name"] == before), node)


@pytest.mark.parametrize("model", MODEL_NAMES)
def test_a_routed_exchange_is_safe_and_the_ledger_says_why(model):
    """Four exchanges of tokens a rank are taken to agree, and nothing else is assumed."""
    verdict = checked(model=model)
    assert verdict.outcome is Outcome.SAFE
    assert set(kinds(verdict)) == {"equal-sizes"}
    entry = kinds(verdict)["equal-sizes"]
    assert entry.direction == "exact"
    assert len(entry.actions) == 4 * WORLD
    assert "counts that they exchange" in entry.message


def expects_what_it_sends(by_name, _):
    """Use the list of what is sent as that of what is expected, too."""
    by_name["all_to_all_single_1"]["args"][1] = SENT


def sums_the_other_axis(by_name, _):
    """Add up other counts than those of one rank."""
    by_name["view"]["args"][1] = [2, WORLD]
    by_name["view"]["val"]["shape"] = [2, WORLD]
    by_name["sum_1"]["args"][1] = [0]


def sends_in_another_order(by_name, _):
    """Turn the list of what is sent around."""
    by_name["all_to_all_single_1"]["args"][2] = SENT[::-1]


def tells_other_counts(by_name, nodes):
    """Tell the others counts of another node."""
    other = {**by_name["scatter_add"], "name": "other"}
    insert(nodes, "all_to_all_single", other)
    by_name["all_to_all_single"]["args"][0] = {"ref": "other"}


def counts_after_telling(by_name, nodes):
    """Write into the counts after the others were told."""
    changed = {
        "name": "add_", "target": "aten.add_.Tensor", "args": [{"ref": "scatter_add"}, 1],
        "val": by_name["scatter_add"]["val"], "view": True, "mutates": ["scatter_add"],
    }  # fmt: skip
    insert(nodes, "view", changed)


def sends_wider_rows(by_name, _):
    """Send rows twice as wide."""
    by_name["index"]["val"]["shape"] = [12, 32]


def sends_other_numbers(by_name, _):
    """Send another type."""
    by_name["index"]["val"]["dtype"] = "float64"


def sends_a_constant(by_name, _):
    """Send a fixed number of rows to rank 0."""
    by_name["all_to_all_single_1"]["args"][2] = [2, *SENT[1:]]


def exchanges_counts_unevenly(by_name, _):
    """Tell one rank one count and the next three."""
    by_name["all_to_all_single"]["args"][1:3] = [[1, 3, *[2] * 6], [1, 3, *[2] * 6]]


def leaves_one_rank_out(by_name, _):
    """Expect nothing from the last rank."""
    by_name["all_to_all_single_1"]["args"][1] = RECEIVED[:-1]


@pytest.mark.parametrize("ranks", [(3,), tuple(range(WORLD))], ids=["one rank", "all ranks"])
@pytest.mark.parametrize(
    "edit",
    [
        expects_what_it_sends, sums_the_other_axis, sends_in_another_order, tells_other_counts,
        counts_after_telling, sends_a_constant,
    ],
)  # fmt: skip
def test_other_expressions_are_not_taken_for_equal(edit, ranks):
    """A rank that computes its splits otherwise leaves the program undecided, never SAFE."""
    verdict = checked(edit, ranks)
    assert verdict.outcome is Outcome.UNKNOWN
    assert "unknown-size" in kinds(verdict)


@pytest.mark.parametrize(
    "edit", [sends_wider_rows, sends_other_numbers, exchanges_counts_unevenly, leaves_one_rank_out]
)
def test_rows_and_counts_of_one_rank_must_fit_those_of_the_others(edit):
    """Another width or type of a row on one rank, counts cut unevenly, a list that is too short."""
    verdict = checked(edit)
    assert verdict.outcome in (Outcome.UNKNOWN, Outcome.MISMATCH)
    assert verdict.unsafe or "unknown-size" in kinds(verdict)


@pytest.mark.parametrize("turned", [False, True])
def test_splits_that_agree_only_as_traced_are_not_safe(turned):
    """Each symbol has the value 2 on every rank: the next batch routes otherwise."""

    def hinted(by_name, nodes):
        for node in nodes:
            if node["name"].startswith("_local_scalar_dense"):
                node["val"]["hint"] = 2
        if turned:
            sends_in_another_order(by_name, nodes)

    verdict = checked(hinted, range(WORLD))
    assert verdict.outcome is (Outcome.UNKNOWN if turned else Outcome.SAFE)
    assert ("unknown-size" in kinds(verdict)) is turned


def test_lists_that_all_ranks_swap_agree_as_well():
    """What is sent is what was told, and expected what was counted: the way back of the tokens.

    That 12 rows are cut there into others than their own counts is an error of each rank alone.
    """

    def both(by_name, _):
        by_name["all_to_all_single_1"]["args"][1:3] = [SENT, RECEIVED]

    assert checked(both, range(WORLD)).outcome is Outcome.SAFE


def test_ranks_may_have_as_many_rows_as_they_like():
    """Splits that are not known are not taken for even ones: other rows on a rank are no error."""

    def more(by_name, _):
        for name in ("x_1", "index"):
            by_name[name]["val"]["shape"] = [14, 16]

    assert checked(more).outcome is Outcome.SAFE


def test_counts_may_be_gathered():
    """Each rank sums its own column of what all told, as Megatron's dispatcher does."""
    made = json.loads(SAMPLE.read_text())
    for rank in range(WORLD):
        program = copy.deepcopy(made["programs"]["p0"])
        nodes = program[0]["nodes"]
        by_name = {node["name"]: node for node in nodes}
        gathered = by_name["all_to_all_single"]
        gathered["target"] = "_c10d_functional.all_gather_into_tensor.default"
        gathered["args"] = [{"ref": "scatter_add"}, WORLD, gathered["args"][3]]
        for name in ("all_to_all_single", "wait_tensor", "wait_tensor_1"):
            by_name[name]["val"]["shape"] = [WORLD * WORLD * 2]
        shape = [WORLD, WORLD, 2]
        cube = {**by_name["view"], "name": "cube", "args": [{"ref": "wait_tensor_1"}, shape]}
        cube["val"] = {"shape": shape, "dtype": "int64"}
        insert(nodes, "view_1", cube)
        by_name["view_1"] |= {
            "target": "aten.select.int", "args": [{"ref": "cube"}, 1, rank],
            "val": {"shape": [WORLD, 2], "dtype": "int64"},
        }  # fmt: skip
        made["programs"][f"r{rank}"] = program
        made["ranks"][str(rank)]["program"] = f"r{rank}"
    del made["programs"]["p0"]
    assert planguard.check(planguard.load(made, planner="fx")).outcome is Outcome.SAFE
    made["programs"]["r5"][0]["nodes"] = json.loads(
        json.dumps(made["programs"]["r5"][0]["nodes"]).replace(
            '{"ref": "cube"}, 1, 5', '{"ref": "cube"}, 1, 4'
        )
    )
    assert planguard.check(planguard.load(made, planner="fx")).outcome is Outcome.UNKNOWN


def test_one_graph_may_stand_for_all_ranks():
    """Ranks without a graph of their own tell and expect by their own place in the group."""
    made = json.loads(SAMPLE.read_text())
    made["ranks"] = {"0": made["ranks"]["0"], "1-7": {"like": 0}}
    verdict = planguard.check(planguard.load(made, planner="fx"))
    assert verdict.outcome is Outcome.SAFE
    assert set(kinds(verdict)) == {"equal-sizes", "spmd-substitution"}


def test_values_cross_from_the_forward_to_the_backward_graph_by_name():
    """Splits that a backward graph gets as inputs are those of the forward graph."""
    made = json.loads(SAMPLE.read_text())
    nodes = made["programs"]["p0"][0]["nodes"]
    cut = next(at for at, node in enumerate(nodes) if node["name"] == "all_to_all_single_3")
    later = {ref for node in nodes[cut:] for ref in _refs(node.get("args", []))}
    crossing = [node for node in nodes[:cut] if node["name"] in later]
    end = {"name": "output", "op": "output",
           "args": [[{"ref": node["name"]} for node in crossing]]}  # fmt: skip
    inputs = [
        {
            "name": node["name"],
            "op": "placeholder",
            **({"val": node["val"]} if "val" in node else {}),
        }
        for node in crossing
    ]
    made["programs"]["p0"] = [
        {"phase": "forward", "nodes": [*nodes[:cut], end]},
        {"phase": "backward", "nodes": [*inputs, *nodes[cut:]]},
    ]
    verdict = planguard.check(planguard.load(made, planner="fx"))
    assert verdict.outcome is Outcome.SAFE
    assert "unknown-size" not in kinds(verdict)


def _refs(value):
    if isinstance(value, dict):
        return {value["ref"]} if "ref" in value else set()
    return {ref for one in value for ref in _refs(one)} if isinstance(value, list) else set()
