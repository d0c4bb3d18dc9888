"""The tools around the enumerator: plans in one line, shapes of random plans, the shrinker."""

from __future__ import annotations

import json

import pytest
from oracle.enumerator import Effort, OracleBudget, enumerate_plan
from oracle.notation import outcomes, plan
from oracle.program import OracleUnsupported
from oracle.shapes import SHAPES, shaped
from oracle.shrink import shrink

SEEDS = range(60)
SAYS = {
    "parts": '"coalesced"',
    "exits": '"exit"',
    "names": '"choice"',
    "splits": "_splits",
    "batches": '"batch"',
    "modes": '"mode"',
    "probes": '"probe"',
    "drops": '"drop"',
    "destroys": '"destroy"',
    "creations": '"new_group"',
    "nested": '"threads"',
    "selves": '"op": "isend"',
    "registered": '"oracle_',
}
"""What a plan of a shape holds."""


def test_a_line_says_a_plan():
    """Groups, sizes, handles, splits and blocks of a line stand in the plan that it gives."""
    found = plan("A=02 :: ar@A:2#x=h w(h) | !c(s0.1^b / ) | 2*({[r1 ba] ba~y ga0+o1,2%y})")
    assert found["world_size"] == 3
    assert found["groups"] == {"A": {"ranks": [0, 2]}}
    first, second, third = (found["ranks"][str(rank)]["actions"] for rank in range(3))
    call = {"op": "all_reduce", "count": 2, "dtype": "f32", "async": True}
    assert first == [
        call | {"group": "A", "label": "x", "work": "h"},
        {"op": "wait", "work": "h"},
    ]
    send = {"op": "send", "peer": 0, "count": 1, "dtype": "f32", "tag": 1, "mode": "buffered"}
    assert second == [{"op": "choice", "name": "c", "branches": [[send], []], "uniform": True}]
    chain, _, gather = third[0]["body"][0]["body"]
    assert (third[0]["times"], [item["op"] for item in chain]) == (2, ["recv", "barrier"])
    assert (gather["out_splits"], gather["after"]) == ([1, 2], ["y"])


def test_a_later_word_about_a_model_wins():
    """`n:S nl:D` is SAFE for all of NCCL's models but the lazy one."""
    found = outcomes("n:S nl:D")
    assert (found["nccl"], found["nccl-lazy"], len(found)) == ("SAFE", "DEADLOCK", 4)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_shape_draws_what_it_is_named_after_and_draws_it_again(shape):
    """A seed always gives the same plan; half of the plans hold the construct of the shape."""
    texts = [json.dumps(shaped(shape, seed)) for seed in SEEDS]
    assert texts == [json.dumps(shaped(shape, seed)) for seed in SEEDS]
    assert len(set(texts)) > len(SEEDS) * 0.9
    if shape in SAYS:
        assert sum(SAYS[shape] in text for text in texts) > len(SEEDS) / 2


@pytest.mark.parametrize("shape", SHAPES)
def test_the_enumerator_judges_most_plans_of_a_shape(shape):
    """Neither one outcome only nor a refusal is what a shape mostly gives, under a model of its."""
    seen: dict[str, int] = {}
    for seed in SEEDS[:40]:
        model = "mpi-eager" if shape in {"probes", "modes", "selves"} else "gloo"
        try:
            found = enumerate_plan(shaped(shape, seed), model, Effort(500, 0, seed)).outcome
        except (OracleUnsupported, OracleBudget, KeyError):
            found = "not judged"
        seen[found] = seen.get(found, 0) + 1
    assert seen.get("not judged", 0) < 20
    assert len(seen.keys() - {"not judged", "UNKNOWN"}) > 1


def test_what_is_left_of_a_plan_is_what_matters():
    """Of two sends head to head among other calls only the sends are left; of a crossed pair of
    rounds, both members of both.
    """

    def stuck(document):
        return enumerate_plan(document, "gloo").outcome == "DEADLOCK"

    long = "ar#a s1:2#b r1 2*(ba) {ar#c} | ar#a s0#d r0:2 2*(ba) {ar#c} | ar#a 2*(ba) {ar#c}"
    small = shrink(plan(long), stuck)
    assert stuck(small)
    assert small["world_size"] == 2
    assert sum(len(body["actions"]) for body in small["ranks"].values()) == 1

    def crossed(document):
        return enumerate_plan(document, "gloo").outcome == "MISMATCH"

    small = shrink(plan("ba ar#a ar#b s1 | ba ar#b ar#a r0"), crossed)
    assert [len(body["actions"]) for body in small["ranks"].values()] == [1, 1]


def test_a_plan_on_which_the_question_raises_is_none_on_which_it_holds():
    """The shrinker goes on where the property cannot be asked of a smaller plan."""

    def fragile(document):
        return document["ranks"]["1"]["actions"][0]["op"] == "barrier"

    assert shrink(plan("ar ba | ba ar"), fragile)["ranks"]["1"]["actions"] == [{"op": "barrier"}]
