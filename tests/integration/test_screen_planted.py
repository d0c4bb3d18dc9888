"""An experiment with planted faults, made by the adapters: exactly those are found."""

from __future__ import annotations

import importlib.util
from collections import Counter
from pathlib import Path

import planguard as pg
from planguard.screen.export import export
from planguard.screen.summary import summarize

BENCHMARK = Path(__file__).resolve().parents[2] / "benchmarks" / "screen_plans.py"
TRIALS = 400


def experiment():
    """The module that makes the trials; benchmarks/screen.py screens 10,000 of them."""
    spec = importlib.util.spec_from_file_location("screen_plans", BENCHMARK)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_exactly_the_planted_faults_are_found(tmp_path):
    """Of 400 trials of six adapters the planted ones are blocked and all others are SAFE; the
    cache changes no byte of the rows, and the parameters of a fault are named exactly.
    """
    lines = tmp_path / "trials.jsonl"
    planted = experiment().write_lines(lines, TRIALS)
    texts = []
    for cache in (True, False):
        screening = pg.screen([lines], jobs=2, cache=cache)
        rows = list(screening.rows())
        assert {row.name for row in rows if row.is_unsafe} == planted
        assert Counter(row.outcome for row in rows)["SAFE"] == TRIALS - len(planted)
        export(screening.store, str(tmp_path / f"{cache}.csv"))
        texts.append((tmp_path / f"{cache}.csv").read_bytes())
    assert texts[0] == texts[1]
    assert len(planted) > 15
    summary = summarize(screening.store)
    rules = {culprit.code: str(culprit.rule) for culprit in summary.culprits}
    assert rules["PG209"] == "all with freeze=rank-local, and no other trial has that"
    assert rules["PG006"] == "all with plan=gpt-pp4, and no other trial has that"
    assert summary.skeletons["SAFE"] < TRIALS / 2
