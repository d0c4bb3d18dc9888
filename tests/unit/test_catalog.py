"""The catalog of finding codes."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from planguard.catalog import (
    CATALOG,
    CERTAINTY,
    EVIDENCE,
    FAMILIES,
    OUTCOME_RULES,
    PRECEDENCE,
    REFINES,
    SEVERITIES,
    find,
    lookup,
    precedence,
    report_order,
)
from planguard.errors import UsageError


def test_rows_use_the_declared_words() -> None:
    """Every row has known words, a kebab-case name of its own and a one-line summary."""
    for number, code in CATALOG.items():
        assert number == code.number
        assert re.fullmatch(r"PG\d{3}", code.number)
        assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", code.name)
        assert code.severity in SEVERITIES
        assert set(code.certainty) <= set(CERTAINTY)
        assert set(code.evidence) <= set(EVIDENCE)
        assert code.outcome in OUTCOME_RULES
        assert code.family in FAMILIES.values()
        assert code.certainty
        assert code.evidence
        assert 10 <= len(code.summary) <= 95
        assert not code.summary.endswith(".")
    assert len({code.name for code in CATALOG.values()}) == len(CATALOG) == 103
    assert list(CATALOG) == sorted(CATALOG)


def test_numbers_and_names_are_stable() -> None:
    """Published pairs of number and name never change."""
    published = {
        "PG001": "p2p-deadlock",
        "PG012": "pipeline-schedule-deadlock",
        "PG101": "relies-on-send-buffering",
        "PG213": "semantic-pair-mismatch",
        "PG310": "destroy-with-pending",
        "PG406": "group-creation-order",
        "PG503": "plan-trace-divergence",
        "PG621": "large-unpartitioned-tensor",
        "PG910": "nothing-to-check",
        "PG999": "internal-error",
    }
    assert {number: lookup(number).name for number in published} == published


@pytest.mark.parametrize("key", ["PG001", "pg001", "p2p-deadlock", "P2P-Deadlock"])
def test_lookup(key: str) -> None:
    """A code is found by number and by name, in any case."""
    assert lookup(key).number == "PG001"


def test_lookup_of_an_unknown_code() -> None:
    """An unknown code is a usage error whose hint names the nearest ones."""
    assert find("p2p-dedlock") is None
    with pytest.raises(UsageError, match="p2p-dedlock") as caught:
        lookup("p2p-dedlock")
    assert "PG001 p2p-deadlock" in caught.value.hint
    with pytest.raises(UsageError) as caught:
        lookup("zzzzzz")
    assert "--list" in caught.value.hint


def test_outcomes_other_than_safe_and_unknown_come_with_an_error() -> None:
    """A code that decides DEADLOCK or MISMATCH is an error; one that means UNKNOWN is not.

    Exit code 3 (undecided) would otherwise be hidden by exit code 1.
    """
    for code in CATALOG.values():
        if code.outcome in ("stuck", "orphan", "mismatch", "witness", "by-model", "membership"):
            assert code.severity == "error", code.number
        if code.outcome in ("unknown", "limits"):
            assert code.severity == "warning", code.number


def test_heuristics_never_change_the_outcome() -> None:
    """A finding by threshold or pattern leaves the outcome alone and is no error."""
    heuristics = [code for code in CATALOG.values() if code.certainty == ("H",)]
    assert {code.family for code in heuristics} == {"groups", "runtime", "performance"}
    for code in heuristics:
        assert code.outcome == "unchanged"
        assert code.severity != "error"


def test_door() -> None:
    """The codes refused at the door are those that one plan file shows by itself."""
    door = {code.number for code in CATALOG.values() if code.door}
    assert door == {"PG302", "PG303", "PG901", "PG906", "PG907"} | {
        "PG401", "PG402", "PG403", "PG404", "PG407", "PG408", "PG409", "PG411",
    }  # fmt: skip


def test_precedence() -> None:
    """Refused input comes first, then groups, matching, progress, potential, handles, the rest."""
    order = ["PG901", "PG401", "PG201", "PG001", "PG101", "PG304", "PG610", "PG902"]
    assert [precedence(number) for number in order] == list(range(8))
    assert precedence("PG501") == precedence("PG001")
    assert set(PRECEDENCE) == set(FAMILIES.values()) - {"runtime"}


def test_report_order_puts_severity_first() -> None:
    """A note on a group of one rank does not stand before a deadlock."""
    found = [("note", "PG412"), ("error", "PG001"), ("warning", "PG214"), ("error", "PG202")]
    ordered = sorted(found, key=lambda item: report_order(*item))
    assert [number for _, number in ordered] == ["PG202", "PG001", "PG214", "PG412"]


def test_refinements() -> None:
    """A refinement and what it refines are codes of one family."""
    assert set(REFINES) == {"PG004", "PG012"}
    for number, general in REFINES.items():
        assert lookup(number).refines == general
        assert {lookup(other).family for other in general} == {lookup(number).family}


def test_import_is_cheap() -> None:
    """Importing the catalog loads no third-party module, and no regular expressions for it."""
    script = (
        "import sys; before = set(sys.modules); import planguard.catalog; "
        "print(' '.join({name.split('.')[0] for name in set(sys.modules) - before}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True
    )
    assert not set(done.stdout.split()) & {"numpy", "torch", "z3", "networkx", "msgspec", "rich"}
    assert "difflib" not in done.stdout
