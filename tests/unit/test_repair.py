"""Repairs: every kind on a plan that needs it, and what is never proposed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import planguard
from planguard.options import MODEL_NAMES, CheckOptions
from planguard.plan.format import read
from planguard.repair import Fixed, fix
from planguard.repair.dependence import may_swap, post_may_pass, wait_may_pass, with_starts

if TYPE_CHECKING:
    from planguard.plan.plan import Plan
    from planguard.verdict import Repair

F32 = {"count": 4, "dtype": "f32"}


def act(op: str, **fields: Any) -> dict[str, Any]:
    """An action with a size where it needs one."""
    return {"op": op, **({} if op in {"wait", "barrier", "compute"} else F32), **fields}


def document(*programs: list[dict[str, Any]], **fields: Any) -> dict[str, Any]:
    """A plan with one explicit program per rank."""
    return {
        "schema": "planguard.plan/1",
        "world_size": len(programs),
        "ranks": {str(rank): {"actions": actions} for rank, actions in enumerate(programs)},
        **fields,
    }


def fixed(plan: dict[str, Any] | Plan, model: str = "nccl", budget: float = 10.0) -> Fixed:
    """The verdict of a plan with its repair."""
    loaded = planguard.load(plan)
    options = CheckOptions(model=model, budget=budget)
    return fix(loaded, planguard.check(loaded, options=options), options)


def repair_of(answer: Fixed) -> Repair:
    """The one repair of a verdict; applied to the plan it is SAFE."""
    (repair,) = [repair for finding in answer.verdict.findings for repair in finding.fixes]
    assert answer.text is not None
    model = answer.verdict.model
    assert planguard.check(read(answer.text), model=model).safe
    assert repair.applicability == "verified"
    return repair


AB = {"A": {"ranks": [0, 1]}, "B": {"ranks": [0, 1]}}
HEAD_TO_HEAD = document(
    [act("send", peer=1), act("recv", peer=1)], [act("send", peer=0), act("recv", peer=0)]
)
INVERSION = document(
    [act("all_reduce", group="A"), act("all_gather", group="B")],
    [act("all_gather", group="B"), act("all_reduce", group="A")],
    groups=AB,
)
FORWARDING = document(
    [act("recv", peer=1, label="x"), act("send", peer=1, label="x")],
    [act("recv", peer=0, label="x"), act("send", peer=0, label="x")],
)
COMPUTED = document(
    [act("send", peer=1), act("compute"), act("recv", peer=1)],
    [act("send", peer=0), act("compute"), act("recv", peer=0)],
)
OPEN = [act("all_reduce", label="a", count=8), act("all_reduce", label="b")]
ODD_ROOT = document(*([act("broadcast", root=1 if rank == 2 else 0)] for rank in range(4)))
RING = {
    "schema": "planguard.plan/1",
    "world_size": 16,
    "mesh": {"dims": [["x", 16]]},
    "templates": {
        "all": [
            {
                "op": "repeat",
                "times": 3,
                "body": [
                    act("send", peer={"x": 1, "wrap": True}),
                    act("recv", peer={"x": -1, "wrap": True}),
                ],
            }
        ]
    },
    "ranks": {"x=0-15": {"template": "all"}},
}


def fused(**policy: str) -> dict[str, Any]:
    """Two ranks whose gradients become ready in any order and are flushed as they come."""
    grads = [
        act("all_reduce", label=f"g{n}", id=f"g{n}", **{"async": True, "work": f"w{n}"})
        for n in range(3)
    ]
    program = [
        {"op": "unordered", "body": grads},
        {"op": "wait", "work": [f"w{n}" for n in range(3)]},
    ]
    buffer = {"id": "ddp", "cap_bytes": 16, "members": ["g0", "g1", "g2"], "coordination": "none"}
    return document(program, program, fusion=[{**buffer, **policy}])


@pytest.mark.parametrize(
    ("plan", "model", "kind", "words"),
    [
        (HEAD_TO_HEAD, "nccl", "batch", "on rank 0, post #0 send -> 1 and #1 recv <- 1 as one"),
        (
            INVERSION,
            "nccl",
            "move",
            "on rank 0, issue #1 all_gather on B before #0 all_reduce on A",
        ),
        (COMPUTED, "gloo", "async", "on rank 0, let #0 send -> 1 return at once"),
        (
            ODD_ROOT,
            "nccl",
            "agree",
            "on rank 2, give #0 broadcast on world the root of the other 3",
        ),
        (RING, "nccl", "batch", "on ranks [0-15], post send -> x+1 and recv <- x-1 as one batch"),
    ],
)
def test_each_bug_gets_its_repair(plan: dict, model: str, kind: str, words: str) -> None:
    """The gentlest change of one place that makes the plan safe is found and said in words."""
    repair = repair_of(fixed(plan, model))
    assert repair.kind == kind
    assert repair.text.startswith(words)
    assert repair.models == (model,)
    assert repair.smallest


def test_a_template_is_repaired_once_for_all_its_ranks() -> None:
    """Sixteen ranks and three rounds of a ring need one edit of the template."""
    answer = fixed(RING)
    repair = repair_of(answer)
    assert {edit.pointer.split("/")[1] for edit in repair.edits} == {"templates"}
    (loop,) = json.loads(answer.text)["templates"]["all"]
    assert [action["op"] for action in loop["body"]] == ["batch"]


def test_open_order_on_one_group_gets_an_edge_or_a_chain() -> None:
    """Two reductions that may be issued in any order are put in order, in the template."""
    plan = {
        "schema": "planguard.plan/1",
        "world_size": 2,
        "templates": {"all": [{"op": "unordered", "body": OPEN}]},
        "ranks": {"0-1": {"template": "all"}},
    }
    answer = fixed(plan)
    repair = repair_of(answer)
    assert repair.kind == "order"
    body = json.loads(answer.text)["templates"]["all"][0]["body"]
    assert body[1]["after"] == [body[0]["id"]]


def test_a_fused_buffer_gets_its_launch_order() -> None:
    """Buckets that each rank launches in its own order are launched in one order, or agreed on."""
    repair = repair_of(fixed(fused(membership="fixed", launch="when-ready", drain="ordered")))
    assert repair.kind in {"launch", "bucket"}
    assert all(edit.pointer.startswith("/fusion/0/") for edit in repair.edits)


def test_two_bugs_get_two_edits_and_no_more() -> None:
    """Where no single edit helps, two do; that two are the fewest is then proved."""
    pairs = [[act("send", peer=rank ^ 1), act("recv", peer=rank ^ 1)] for rank in range(4)]
    repair = repair_of(fixed(document(*pairs)))
    assert repair.text.count("; then ") == 1
    assert repair.smallest


def test_all_models_are_said_that_the_repair_holds_under() -> None:
    """With model ``all`` the models under which the changed plan is SAFE are listed."""
    loaded = planguard.load(HEAD_TO_HEAD)
    verdict = planguard.check(loaded, model="all", fix=True)
    (repair,) = verdict.findings[0].fixes
    assert repair.models == MODEL_NAMES


def test_what_is_received_is_not_sent_before() -> None:
    """A message that is forwarded is neither moved nor batched with its receipt."""
    answer = fixed(FORWARDING)
    assert answer.text is None
    assert any("no single edit" in note for note in answer.verdict.findings[0].notes)


def test_computation_is_a_wall_unless_it_says_what_it_touches() -> None:
    """Nothing received is waited for later than a computation that may use it."""
    received, computed = act("irecv", peer=1, work="w"), act("compute")
    wait = act("wait", work="w")
    assert not may_swap(computed, act("send", peer=1))
    assert not wait_may_pass(received, computed)
    assert wait_may_pass(act("isend", peer=1, work="w"), computed)
    assert post_may_pass(computed, act("recv", peer=1))
    _, known = with_starts([{**received, "label": "x"}, wait])
    assert not may_swap(known, act("send", peer=1, label="x"))
    assert may_swap(known, act("send", peer=1, label="y"))
    told = act("compute", reads=["a"])
    assert may_swap(told, act("send", peer=1, reads=["b"]))
    assert not may_swap(told, act("recv", peer=1, writes=["a"]))


def test_a_missing_call_is_not_repaired() -> None:
    """Repairs keep the calls there are; of a missing one they say so and do not guess."""
    answer = fixed(document([act("all_reduce")], [act("all_reduce")], []))
    assert answer.text is None
    (finding, *_) = answer.verdict.findings
    assert finding.fixes == ()
    assert "add none that is missing" in finding.notes[-1]


@pytest.mark.parametrize("sides", [(0, 1), (0, 0, 1, 1)])
def test_without_a_majority_no_side_is_called_wrong(sides: tuple[int, ...]) -> None:
    """Where as many ranks say one root as another, none is proposed."""
    answer = fixed(document(*([act("broadcast", root=root)] for root in sides)))
    assert answer.text is None


def test_a_safe_plan_and_an_undecided_one_are_left_alone() -> None:
    """Only an unsafe plan is searched for a repair."""
    safe = document([act("send", peer=1)], [act("recv", peer=0)])
    answer = fixed(safe)
    assert answer.text is None
    assert answer.repaired.tried == 0
    assert answer.verdict.safe


def test_an_exhausted_budget_claims_nothing() -> None:
    """Without time, nothing is said of what was not tried."""
    answer = fixed(HEAD_TO_HEAD, budget=1e-9)
    assert answer.text is None
    assert "within the budget" in answer.verdict.findings[0].notes[-1]


def test_plans_of_an_adapter_get_words_only() -> None:
    """Where there is no plan file, edits of one would mislead: the repair is a sentence."""
    builder = planguard.PlanBuilder(2, producer="planner")
    for rank in range(2):
        program = builder.program(rank)
        program.send(1 - rank, bytes=4)
        program.recv(1 - rank, bytes=4)
    repair = repair_of(fixed(builder.build()))
    assert repair.edits == ()
    assert "as one batch" in repair.text


def test_the_search_reports_its_progress() -> None:
    """The caller hears how many changed plans were decided."""
    heard: list[int] = []
    loaded = planguard.load(INVERSION)
    fix(loaded, planguard.check(loaded), progress=heard.append)
    assert heard == list(range(1, len(heard) + 1))
    assert heard
