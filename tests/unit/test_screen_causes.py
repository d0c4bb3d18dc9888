"""The summary finds planted causes, in samples and over continuous parameters, in little memory."""

from __future__ import annotations

import random
import tracemalloc
from dataclasses import dataclass, field

import pytest

from planguard.screen import summary
from planguard.screen.correlate import find_rule
from planguard.screen.rows import Row
from planguard.screen.summary import lines_of, summarize


@dataclass
class Rows:
    """Stands for a store: makes its rows when they are asked for."""

    count: int
    fails: object
    codes: tuple[str, ...] = ("PG004",)
    walks: list[int] = field(default_factory=list)

    def rows(self):
        """Yield rows with a learning rate of their own each."""
        dice = random.Random(7)
        self.walks.append(self.count)
        for number in range(self.count):
            params = {"lr": dice.random(), "pp": dice.choice([1, 2, 4]), "tp": dice.choice([1, 2]),
                      "seed": number}  # fmt: skip
            code = self.fails(params)
            outcome = "DEADLOCK" if code else "SAFE"
            codes = (code,) if code else ()
            yield Row(f"t{number}", outcome, code, codes, "s", "", "", params)

    def families(self, most):
        """Return none."""
        return []

    def kinds(self):
        """Return none."""
        return {}


def test_one_planted_cause_is_found_exactly():
    """A conjunction of a choice and a bound is the rule, with all trials counted."""
    found = summarize(Rows(4000, lambda p: "PG004" if p["pp"] == 4 and p["lr"] > 0.5 else ""))
    (culprit,) = found.culprits
    assert culprit.rule.is_exact
    assert {c.name for c in culprit.rule.conditions} == {"pp", "lr"}


def test_two_causes_of_one_code_are_two_rules():
    """What the first rule does not cover is asked again."""
    found = summarize(Rows(3000, lambda p: "PG004" if p["pp"] == 4 or p["tp"] == 2 else ""))
    (culprit,) = found.culprits
    told = {str(c) for rule in (culprit.rule, *culprit.more) for c in rule.conditions}
    assert {"pp=4", "tp=2"} <= told or {"pp>=4", "tp=2"} <= told or {"pp>=4", "tp>=2"} <= told
    covered = culprit.rule.covered + sum(rule.covered for rule in culprit.more)
    assert covered == culprit.trials


def test_rules_of_samples_are_counted_on_all_rows(monkeypatch):
    """With a sample of a tenth the rule is the same, and its numbers are those of all trials."""
    rows = Rows(5000, lambda p: "PG004" if p["pp"] == 4 else "")
    whole = summarize(rows).culprits[0]
    monkeypatch.setattr(summary, "SAMPLE", 500)
    rows = Rows(5000, rows.fails)
    sampled = summarize(rows).culprits[0]
    assert str(sampled.rule) == str(whole.rule)
    assert (sampled.rule.covered, sampled.rule.failing) == (whole.trials, whole.trials)
    assert len(rows.walks) == 2


def test_what_the_sample_missed_is_not_called_exact(monkeypatch):
    """A rule that no sampled trial contradicts and another one does says its precision."""
    monkeypatch.setattr(summary, "SAMPLE", 200)
    rows = Rows(20000, lambda p: "PG004" if p["pp"] == 4 and p["seed"] != 19999 else "")
    rule = summarize(rows).culprits[0].rule
    wrong = any(
        all(c.holds(row.params) for c in rule.conditions) != row.is_unsafe for row in rows.rows()
    )
    assert rule.is_exact is not wrong


@pytest.mark.parametrize("trials", [1000, 4000])
def test_memory_grows_with_the_trials_and_not_with_their_square(trials):
    """A continuous parameter costs a list, no set of trials for each of its values."""
    dice = random.Random(1)
    given = [{"lr": dice.random(), "wd": dice.random()} for _ in range(trials)]
    failing = [one for one in given if one["lr"] > 0.7 and one["wd"] > 0.2]
    others = [one for one in given if one not in failing]
    tracemalloc.start()
    rule = find_rule(failing, others)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert rule.is_exact
    assert peak < 1000 * trials


def test_where_no_parameter_tells_the_summary_says_so():
    """All trials fail, or fail by chance: a sentence says it, no line is left out."""
    said = "\n".join(lines_of(summarize(Rows(20, lambda _: "PG004"))))
    assert "PG004 in 20 trials: all that were decided, so there is none to tell them from" in said


def test_a_text_that_reads_like_a_number_has_quotes():
    """The text and the number of one parameter are told apart."""
    rule = find_rule([{"tp": "8"}, {"tp": "8"}], [{"tp": 8}, {"tp": 8}])
    assert str(rule.conditions[0]) == 'tp="8"'
