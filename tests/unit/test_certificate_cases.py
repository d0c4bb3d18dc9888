"""Certificates over branches: the cases are those of the plan, and each has a proof."""

from __future__ import annotations

import json
from typing import Any

import pytest

import planguard
from planguard.certificate import cases as module
from planguard.certificate.agreement import OutsideError, RejectedError
from planguard.certificate.cases import LIMIT, cases
from planguard.certificate.format import digest, encode
from planguard.certificate.verify import verify
from planguard.options import CheckOptions
from planguard.plan.flatten import flat_lines

SUM = {"op": "all_reduce", "bytes": 4}


def plan_of(*programs: Any, **more: Any) -> dict[str, Any]:
    """Give a plan, one program per rank."""
    ranks = {str(rank): {"actions": list(actions)} for rank, actions in enumerate(programs)}
    head = {"schema": "planguard.plan/1", "world_size": len(programs)}
    return {**head, "ranks": ranks, **more}


def choice(*branches: list[Any], **fields: Any) -> dict[str, Any]:
    """Give a choice."""
    return {"op": "choice", "branches": list(branches), **fields}


def certified(document: dict[str, Any], model: str = "gloo") -> tuple[bytes, Any]:
    """Give the flat text and the verdict with its certificate."""
    plan = planguard.load(document)
    verdict = planguard.check(plan, options=CheckOptions(model=model, certificate=True))
    return b"".join(flat_lines(plan)), verdict


def says(flat: bytes, proof: dict[str, Any]) -> str:
    """Give what the checker says of a certificate, under a correct hash."""
    try:
        return "accepted: " + verify(flat, encode(proof | {"plan_sha256": digest(flat)}))
    except RejectedError as error:
        return str(error)


ROUTED = choice([SUM, SUM], [], name="routed", uniform=True)
FREE = choice([{"op": "h2d", "bytes": 4}], [], name="copy")


def test_a_case_for_every_combination():
    """Uniform choices of one name are one variable, others one for each rank."""
    program = [ROUTED, FREE, SUM, ROUTED]
    flat, verdict = certified(plan_of(program, program))
    assert verdict.certificate["kind"] == "cases"
    assert len(verdict.certificate["cases"]) == 2 * 2 * 2
    said = "accepted: 2 ranks complete under gloo in every case: 8"
    assert says(flat, verdict.certificate) == said
    assert verdict.evidence.certificate == digest(encode(verdict.certificate))


def test_a_missing_extra_or_exchanged_case_is_rejected():
    """One proof for each combination, in the order of the checker."""
    program = [ROUTED, FREE, SUM]
    flat, verdict = certified(plan_of(program, program))
    proof = verdict.certificate
    several = proof["cases"]
    assert says(flat, {**proof, "cases": several[:-1]}).startswith("no proof of the case routed=1")
    assert "that the plan does not have" in says(flat, {**proof, "cases": [*several, several[0]]})
    assert says(flat, {**proof, "cases": several[::-1]}).startswith("where routed=0")
    assert "by cases again" in says(flat, {**proof, "cases": [proof, *several[1:]]})
    assert "not a proof" in says(flat, {**proof, "schema": "planguard.certificate/2"})
    with pytest.raises(RejectedError, match="another plan"):
        verify(flat + b" ", encode(proof))
    with pytest.raises(KeyError):
        verify(flat, encode({**proof, "cases": [{}]}))


def test_an_unsafe_combination_has_no_proof():
    """A choice that is not uniform may be taken by one rank alone."""
    free = choice([SUM, SUM], [], name="routed")
    flat, verdict = certified(plan_of([free, SUM], [free, SUM]))
    assert verdict.unsafe
    assert verdict.certificate is None
    _, safe = certified(plan_of([ROUTED, SUM], [ROUTED, SUM]))
    once, twice = safe.certificate["cases"]
    for several in ([once, twice], [once, once, twice, twice], [once] * 4, [twice] * 4):
        assert not says(flat, {**safe.certificate, "cases": several}).startswith("accepted")


def test_a_uniform_choice_needs_every_rank_to_say_so():
    """If one rank does not call it uniform it is not."""
    free = {key: value for key, value in ROUTED.items() if key != "uniform"}
    flat = json.loads(certified(plan_of([ROUTED, SUM], [free, SUM]))[0])
    assert len(list(cases(flat, "gloo"))) == 4


def test_choices_without_a_name_are_tied_only_where_the_plan_ties_them():
    """On ranks of one program a uniform one is one variable; the flat plan has a name for it."""
    bare = choice([SUM], [], uniform=True)
    head = {"schema": "planguard.plan/1", "world_size": 2, "ranks": {"0-1": {"template": "t"}}}
    flat, verdict = certified({**head, "templates": {"t": [bare, SUM, bare]}})
    assert verdict.safe
    assert len(verdict.certificate["cases"]) == 4
    assert says(flat, verdict.certificate).startswith("accepted")
    again = planguard.check(planguard.load(json.loads(flat)), model="gloo")
    assert again.safe
    untied = plan_of([bare, SUM], [bare, SUM])
    assert len(list(cases(untied, "gloo"))) == 4


def test_choices_without_a_name_are_each_a_variable_of_their_own():
    """Two of them on one rank are taken apart, in whatever construct they are."""
    bare, block = choice([SUM], []), {"op": "unordered", "body": [choice([SUM], [])]}
    found = [case["ranks"]["0"]["actions"] for _, case in cases(plan_of([bare, bare]), "gloo")]
    assert found == [[SUM, SUM], [SUM], [SUM], []]
    found = [case["ranks"]["0"]["actions"] for _, case in cases(plan_of([bare, block]), "gloo")]
    chains = [[{"op": "unordered", "body": [chain]}] for chain in ([SUM], [])]
    bodies = [[{"op": "unordered", "body": chain}] for chain in chains]
    assert found == [[SUM, *body] if first else body for first in (1, 0) for body in bodies]


def test_a_branch_of_nothing_comes_after_nothing():
    """Where a branch is not empty it comes after what its choice comes after."""
    item = choice([SUM], [], name="c", after=["a"])
    found = [case for _, case in cases(plan_of([{"op": "unordered", "body": [item]}]), "gloo")]
    bodies = [case["ranks"]["0"]["actions"][0]["body"] for case in found]
    assert bodies == [
        [{"op": "unordered", "body": [[SUM]], "after": ["a"]}],
        [{"op": "unordered", "body": [[]]}],
    ]


def test_branches_in_branches_blocks_and_threads():
    """A branch in a block of open order is a chain of it, after what the choice comes after."""
    inner = choice([SUM], [choice([], [SUM, SUM], name="inner")], name="outer", uniform=True)
    block = {"op": "unordered", "body": [{**SUM, "id": "a"}, {**inner, "after": ["a"]}, [inner]]}
    flat = plan_of([block, {"op": "threads", "threads": [[inner]]}])
    found = [case for _, case in cases(flat, "gloo")]
    assert len(found) == 4
    first = found[0]["ranks"]["0"]["actions"]
    chain = {"op": "unordered", "body": [[SUM]], "after": ["a"]}
    assert first[0]["body"] == [{**SUM, "id": "a"}, chain, [SUM]]
    assert first[1]["threads"] == [[SUM]]
    assert found[2]["ranks"]["0"]["actions"][1]["threads"] == [[]]
    assert found[3]["ranks"]["0"]["actions"][0]["body"][1]["body"] == [[SUM, SUM]]


def test_too_many_or_unclear_combinations_are_outside():
    """The bound is stated, and different numbers of branches under one name are refused."""
    many = [choice([], [], name=f"c{number}", uniform=True) for number in range(11)]
    with pytest.raises(OutsideError, match=f"more than {LIMIT:,} combinations"):
        list(cases(plan_of(many), "gloo"))
    assert len(list(cases(plan_of(many[:10]), "gloo"))) == 1024
    unclear = plan_of([choice([], [], name="c")], [choice([], [], [], name="c")])
    with pytest.raises(OutsideError, match="different numbers"):
        list(cases(unclear, "gloo"))


def fused(*names: str) -> dict[str, Any]:
    """Give a plan of one rank whose members can leave in every order, each alone."""
    body = [{**SUM, "async": True, "id": name, "work": name, "label": name} for name in names]
    block = [{"op": "unordered", "body": body}, {"op": "wait", "work": list(names)}]
    spec = {"id": "f", "group": "world", "members": list(names), "cap_bytes": 4}
    return plan_of(block, fusion=[{**spec, "membership": "fixed"}])


def test_the_bound_is_the_last_that_is_covered(monkeypatch):
    """As many combinations as the bound are covered, one more is not: branches and flushes."""
    many = plan_of([choice([], [], name="a"), choice([], [], [], name="b")])
    flushed = fused("a", "b", "c")
    for flat, what in (many, "branches"), (flushed, "flushes"):
        monkeypatch.setattr(module, "LIMIT", 6)
        assert len(list(cases(flat, "gloo"))) == 6
        monkeypatch.setattr(module, "LIMIT", 5)
        with pytest.raises(OutsideError, match=f"more than 5 combinations of {what}"):
            list(cases(flat, "gloo"))
    monkeypatch.setattr(module, "LIMIT", 6)
    found = list(cases(flushed, "gloo"))
    assert [where for where, _ in found] == [f"flushes={number}" for number in range(6)]
    bare = {key: flushed[key] for key in ("schema", "world_size")}
    assert all({**case, "ranks": 0} == {**bare, "ranks": 0} for _, case in found)


def test_a_case_that_its_checker_does_not_cover_is_not_proved():
    """What the proof of a case leaves outside is outside for the whole, and the case is named."""
    flat = json.dumps(plan_of([choice([], [SUM], name="c")])).encode()
    proof = {"schema": "planguard.certificate/1", "kind": "cases", "model": "nccl"}
    picks = {"kind": "picks", "eager_bytes": 0, "endings": [[]]}
    order = {"kind": "order", "order": []}
    for several, where in ([picks, picks], 0), ([order, picks], 1):
        whole = {**proof, "cases": several, "plan_sha256": digest(flat)}
        with pytest.raises(OutsideError, match=rf"^where c/?0?={where}: picks under nccl"):
            verify(flat, encode(whole))


def test_no_certificate_says_why():
    """What stands in the way is named, with the case."""
    program = [choice([], [], name=f"c{number}", uniform=True) for number in range(11)]
    _, verdict = certified(plan_of([*program, SUM], [*program, SUM]))
    assert verdict.safe
    assert verdict.certificate is None
    assert verdict.reasons[-1].startswith("no certificate: more than 2,000 combinations of branch")


def test_a_choice_of_nothing_is_refused_and_proves_nothing():
    """Without a branch there is no case, and no case at all would be accepted by every proof."""
    empty = plan_of([choice(name="a")], [SUM])
    with pytest.raises(planguard.PlanError, match="length >= 1"):
        planguard.load(empty)
    flat = json.dumps(empty).encode()
    proof = {"schema": "planguard.certificate/1", "kind": "cases", "model": "gloo", "cases": []}
    assert "no case at all" in says(flat, proof)
