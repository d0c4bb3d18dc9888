"""What an audit says of artifacts whose truth is known: nothing certain is wrong."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import in_hand_cases as cases
import pytest

import planguard as pg
from planguard.audit.readers.text_log import lines_of
from planguard.audit.readers.watchdog import Status, Words
from planguard.cli import main

BENCHMARK = Path(__file__).resolve().parents[2] / "benchmarks" / "in_hand.py"


@pytest.fixture(scope="module")
def judged():
    """How a result compares with a label, as the benchmark of artifacts judges it."""
    if not BENCHMARK.is_file():
        pytest.skip("the benchmark is not there")
    spec = importlib.util.spec_from_file_location("in_hand", BENCHMARK)
    module = importlib.util.module_from_spec(spec)
    import sys

    sys.modules["in_hand"] = module
    spec.loader.exec_module(module)
    return module.judged


@pytest.mark.parametrize("name", cases.CASES)
def test_what_is_said_is_what_happened(name, judged, tmp_path, monkeypatch, capsys):
    """Class and ranks are right where they can be known; where not, nothing is stated."""
    case = cases.CASES[name]
    if "zstd" in name:
        pytest.importorskip("zstandard")
    case.write(tmp_path)
    monkeypatch.chdir(tmp_path)
    code = main(["audit", ".", "--format", "json"])
    row = judged(case.label, json.loads(capsys.readouterr().out))
    assert code in (1, 3)
    assert not row.wrong
    if row.determinable:
        assert (row.is_class, row.is_rank) == (True, True), row.said


@pytest.mark.parametrize(
    "started", ["", ", last started work: 10", ", last started work: 10 (ALLREDUCE)"]
)
def test_a_status_line_is_read_in_the_form_of_every_version(started):
    """From torch 2.14 on the last started work stands between the other two numbers."""
    words = Words()
    words.hear(
        "[PG ID 1 PG GUID 7(mesh_tp) Rank 1]  failure detected by watchdog at work sequence id: 10 "
        f"PG status: last enqueued work: 11{started}, last completed work: 9"
    )
    assert words.status == {"7": Status(11, 9, is_told=True)}
    assert words.failed == {(1, 10): "7"}


def test_two_whole_groups_of_a_log_are_two(tmp_path):
    """Two groups of which all wait: of neither is a member of the other said to be missing."""
    cases.CASES["torch 2.7, numbers of two groups"].write(tmp_path)
    verdict = pg.audit(tmp_path)
    assert verdict.unknown
    assert not verdict.errors


def test_what_a_rank_printed_of_another_group_is_weak(tmp_path):
    """Rank 10 said how far it came in the default group: of the group that waits, nothing."""
    cases.CASES["torch 2.5, places of a subgroup"].write(tmp_path)
    verdict = pg.audit(tmp_path)
    (found,) = [f for f in verdict.findings if f.code == "PG007"]
    assert found.certainty == "heuristic"
    assert any("what rank 10 printed says nothing of this group" in note for note in found.notes)


def test_one_rank_of_a_folded_log_is_not_every_member(tmp_path):
    """Ray printed one of seven equal lines: it is not said that no member is missing."""
    cases.CASES["Ray, folded lines"].write(tmp_path)
    verdict = pg.audit(tmp_path)
    said = " ".join(f.message + " ".join(f.notes) for f in verdict.findings)
    assert "every member" not in said
    assert "no member is missing" not in said


@pytest.mark.parametrize("width", range(70, 140, 7))
def test_a_log_copied_from_a_terminal_of_any_width(width, tmp_path):
    """Lines are put together again: rank 0 says itself that it came to work 9 of 10."""
    (text,) = cases.CASES["torch 2.7, broken by a paste"].files().values()
    whole = text.replace("\n[rank", "\0[rank").replace("\n", "").split("\0")
    rows = [row[i : i + width] for row in whole for i in range(0, len(row), width)]
    (tmp_path / "pasted.txt").write_text("\n".join(rows) + "\n")
    verdict = pg.audit(tmp_path)
    assert [(f.code, f.ranks) for f in verdict.errors] == [("PG007", (0,))]


def test_a_bar_in_the_middle_of_a_line_is_no_container():
    """Only what stands at the start of a line is a prefix of docker compose."""
    rows = b"sglang-1  | Process 3: python\nloss of node-1 | 3.5\nstep worker-2 | [rank1]: x\n"
    texts = [line.text for line in lines_of(rows).lines]
    assert texts == ["Process 3: python", "loss of node-1 | 3.5", "x"]


def test_the_fuzzer_of_texts_starts_from_them():
    """The inputs that fuzzing starts from are made of these and of other tests, and can be."""
    path = Path(__file__).resolve().parents[1] / "campaigns" / "fuzz_seeds.py"
    if not path.is_file():
        pytest.skip("the campaigns are not there")
    spec = importlib.util.spec_from_file_location("fuzz_seeds", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert len(list(module.seeds_of("text", ()))) > len(cases.CASES)
    assert list(module.seeds_of("stacks", ()))
    assert list(module.seeds_of("ras", ()))
    assert list(module.seeds_of("clog", ()))
