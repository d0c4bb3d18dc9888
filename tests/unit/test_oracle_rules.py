"""The enumerator, and the product, on tiny plans whose outcome was argued by hand."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TESTS))

from oracle import rules_blocks, rules_calls  # noqa: E402
from oracle.enumerator import Effort, enumerate_plan  # noqa: E402
from oracle.notation import outcomes, plan  # noqa: E402
from oracle.program import OracleUnsupported  # noqa: E402

RULES = {
    f"{name.lower()}": rule
    for module in (rules_calls, rules_blocks)
    for name, rule in vars(module).items()
    if name.isupper()
}
FEWEST = 20


def judged(document, model):
    """The outcome by the enumerator, or `refused`."""
    try:
        return enumerate_plan(document, model, Effort(verify=0)).outcome
    except OracleUnsupported:
        return "refused"


@pytest.mark.parametrize("name", RULES)
def test_the_enumerator_agrees_with_what_was_argued_by_hand(name):
    """Every row of a rule has the outcome that the specification gives it, under every model named."""
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
