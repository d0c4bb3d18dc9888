"""The flushes that the checker of certificates follows are those that brute force plays."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest
from campaign import test_fused_orders
from oracle.flushes import every_execution

import planguard
from planguard.certificate.agreement import OutsideError, RejectedError
from planguard.certificate.flushes import programs
from planguard.certificate.format import digest, encode
from planguard.certificate.verify import verify
from planguard.errors import InternalError, PlanError
from planguard.execution.certifying.certify import certify
from planguard.execution.running.expand import expand
from planguard.options import CheckOptions
from planguard.plan.flatten import flat_lines
from planguard.semantics.model import find_model


def said(program: list[dict[str, Any]]) -> tuple[Any, ...]:
    """Give what a program issues, with its handles by number and its flushes by their members."""
    out, handles = [], {}
    for action in program:
        if action["op"] == "wait":
            works = action["work"] if isinstance(action["work"], list) else [action["work"]]
            out.append(("wait", *sorted(str(handles.get(work, work)) for work in works)))
            continue
        if "work" in action:
            handles[action["work"]] = len(handles)
        label = str(action.get("label"))
        # Sizes of members stand beside their names: here in all, there where ranks disagree.
        names = [name for name, _ in json.loads(label)] if label[0] == "[" else label.split(" ")
        names = [name.partition(":")[0] for name in names]
        out.append((action["op"], action.get("group", "world"), *names, action.get("bytes")))
    return tuple(out)


@pytest.mark.timeout(1200)
def test_every_rank_can_issue_what_brute_force_plays(pytestconfig):
    """Uncoordinated buffers: the same programs on every rank, and no other."""
    found, seed = Counter(), 0
    wanted = 1_500 if pytestconfig.getoption("--slow") else 80
    while found["same"] < wanted:
        seed += 1
        document = test_fused_orders.random_plan(seed)
        kinds = {spec.get("coordination", "none") for spec in document["fusion"]}
        try:
            flat = json.loads(b"".join(flat_lines(planguard.load(document))))
            plans = every_execution(document)
        except (PlanError, KeyError, StopIteration, TypeError):
            continue
        if kinds != {"none"} or len(plans) > 200:
            continue
        theirs = [
            {said(plan["ranks"][str(rank)]["actions"]) for plan in plans}
            for rank in range(document["world_size"])
        ]
        waits_for_nobody = "nobody" in json.dumps(plans)
        try:
            mine = [{said(program) for program in ways} for ways in programs(flat)]
        except OutsideError:
            found["outside"] += 1
            continue
        except RejectedError:
            assert waits_for_nobody, seed
            found["never leaves"] += 1
            continue
        assert not waits_for_nobody, seed
        assert mine == theirs, seed
        found["same"] += 1
        found["several"] += any(len(ways) > 1 for ways in mine)
    assert found["several"] > wanted // 10
    assert found["never leaves"]
    assert found["outside"] < wanted // 4


@pytest.mark.timeout(1200)
def test_fused_plans_are_certified_if_and_only_if_they_are_safe(pytestconfig):
    """Most safe ones have a certificate, and no other has one; a case too few is rejected."""
    found = Counter()
    for seed in range(1_000 if pytestconfig.getoption("--slow") else 60):
        document = test_fused_orders.random_plan(seed)
        model = test_fused_orders.model_of(document, seed)
        try:
            plan = planguard.load(document)
        except PlanError:
            continue
        verdict = planguard.check(plan, options=CheckOptions(model=model, certificate=True))
        if verdict.certificate is None:
            found["safe, without"] += verdict.safe
            try:
                made = certify(plan, expand(plan), find_model(model)).certificate
            except InternalError:
                made = None
            assert made is None, (seed, model)
            continue
        assert verdict.safe
        found["certified"] += 1
        flat = b"".join(flat_lines(plan))
        text = encode(verdict.certificate)
        assert verify(flat, text).count("in every case: ") == 1
        for several in (verdict.certificate["cases"][1:], verdict.certificate["cases"] * 2):
            with pytest.raises(RejectedError):
                verify(flat, encode({**verdict.certificate, "cases": several}))
        with pytest.raises(RejectedError, match="another plan"):
            verify(flat + b" ", text)
        assert verdict.certificate["plan_sha256"] == digest(flat)
    assert found["certified"] > 4 * found["safe, without"]
