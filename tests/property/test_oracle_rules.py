"""The enumerator, and the product, on tiny plans whose outcome was argued by hand."""

from __future__ import annotations

import pytest
from oracle import rules_blame, rules_blocks, rules_calls
from oracle.enumerator import Effort, enumerate_plan
from oracle.flushes import outcome_of
from oracle.notation import outcomes, plan
from oracle.program import REGISTERED, OracleUnsupported

import planguard
from planguard.operations import OperationSpec, register

RULES = {
    f"{name.lower()}": rule
    for module in (rules_calls, rules_blocks, rules_blame)
    for name, rule in vars(module).items()
    if name.isupper()
}
FEWEST = 20


def judged(document, model):
    """The outcome by the enumerator, or `refused`."""
    try:
        if document.get("fusion"):
            return outcome_of(document, model)
        return enumerate_plan(document, model, Effort(verify=0)).outcome
    except OracleUnsupported:
        return "refused"


@pytest.mark.parametrize("name", RULES)
def test_the_enumerator_agrees_with_what_was_argued_by_hand(name):
    """Every row of a rule has the outcome that the specification gives it, under each model."""
    source, rows = RULES[name]
    assert source
    assert len(rows) >= FEWEST
    wrong = [
        (line, model, expected, found, why)
        for line, told, why in rows
        for model, expected in outcomes(told).items()
        if (found := judged(plan(line), model)) != expected
    ]
    assert wrong == []


def found_by_product(document, model):
    """The outcome by the product, or `refused`; of a hang that it does not call certain and that
    it says is not all there is, so much.
    """
    for name, spec in REGISTERED.items():
        more = {"spelling": spec.spelling} if spec.spelling else {"degree": spec.degree}
        more |= {} if spec.spelling else {"agree": tuple(sorted(spec.agree))}
        register(OperationSpec(name=name, **more))
    try:
        loaded = planguard.load(document)
    except planguard.PlanError:
        return "refused"
    verdict = planguard.check(loaded, model=model)
    is_partial = verdict.unsafe and not verdict.complete
    return verdict.outcome.value + ("*" if is_partial else "")


@pytest.mark.parametrize("name", list(RULES))
def test_the_product_agrees_with_what_was_argued_by_hand(name):
    """PlanGuard gives no row another outcome than the specification; it may leave it UNKNOWN, but
    calls nothing SAFE that cannot be told, and refuses no row that means something.
    """
    wrong = []
    for line, told, why in RULES[name][1]:
        for model, expected in outcomes(told).items():
            found = found_by_product(plan(line), model)
            allowed = {expected, "UNKNOWN"}
            if expected == "UNKNOWN":
                allowed.add("MISMATCH")
            if found.removesuffix("*") not in allowed:
                wrong.append((line, model, expected, found, why))
    assert wrong == []


@pytest.mark.parametrize("name", RULES)
def test_most_rows_of_a_rule_are_decided(name):
    """An answer that is UNKNOWN everywhere agrees with everything: half of the rows have another,
    but for threads and for messages to oneself.
    """
    if name in {"own", "nested"}:
        pytest.skip("what of it is decided is the product's own affair")
    asked = [
        (plan(line), model)
        for line, told, _ in RULES[name][1]
        for model, expected in list(outcomes(told).items())[:2]
        if expected not in {"UNKNOWN", "refused"}
    ]
    decided = sum(found_by_product(*one) not in {"UNKNOWN", "refused"} for one in asked)
    assert decided > len(asked) / 2
