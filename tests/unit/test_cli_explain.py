"""``planguard explain``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from planguard.catalog import CATALOG
from planguard.cli import main
from planguard.errors import PlanError
from planguard.explain.codes import headings
from planguard.result import dumps, error_to_json, verdict_to_json
from planguard.verdict import CycleEdge, Finding, Location, Outcome, Source, Verdict

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("key", ["PG001", "pg001", "p2p-deadlock"])
def test_page_of_a_code(key: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A number or a name prints the page of the code."""
    assert main(["explain", key]) == 0
    text = capsys.readouterr().out
    assert text.startswith("# PG001 p2p-deadlock\n")
    assert "## How to fix" in text
    assert text.endswith("\n")


def test_page_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    """The JSON form has code, name, severity, certainty, evidence and the sections in order."""
    assert main(["explain", "PG004", "--format", "json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["code"] == "PG004"
    assert shown["name"] == "cross-communicator-inversion"
    assert shown["severity"] == "error"
    assert shown["certainty"] == ["all-executions", "some-execution"]
    assert shown["evidence"] == ["P"]
    assert tuple(shown["sections"]) == headings(CATALOG["PG004"])


def test_list(capsys: pytest.CaptureFixture[str]) -> None:
    """The list has one line per code, and the same codes as JSON."""
    assert main(["explain", "--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(CATALOG)

    assert main(["explain", "--list", "--format", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["code"] for row in rows] == list(CATALOG)


def test_unknown_code(capsys: pytest.CaptureFixture[str]) -> None:
    """An unknown code is a usage error that names the nearest ones."""
    assert main(["explain", "p2p-dedlock"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "PG001 p2p-deadlock" in captured.err


def test_nothing_to_explain(capsys: pytest.CaptureFixture[str]) -> None:
    """Without a code the command says what it needs."""
    assert main(["explain"]) == 2
    assert "--list" in capsys.readouterr().err


def stuck() -> Verdict:
    """Return a deadlock of two ranks, with a hostile source name."""
    at = Location(5, 1284, source=Source("schedule\x1b[31m.py", 212, "emit"))
    behind = Location(6, 1283)
    finding = Finding(
        code="PG001",
        name="p2p-deadlock",
        severity="error",
        certainty="all-executions",
        evidence="P",
        message="ranks 5 and 6 wait in send() for each other",
        ranks=(5, 6),
        primary=at,
        cycle=(CycleEdge(at, Location(6, 1284), behind, "send-unmatched"),),
        help="post both directions as one batch",
    )
    return Verdict(Outcome.DEADLOCK, "nccl", findings=(finding,))


def test_saved_result(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A saved result is explained: outcome, headline, place, reason, page; names are escaped."""
    file = tmp_path / "result.json"
    file.write_text(dumps(verdict_to_json(stuck())), encoding="utf-8")

    assert main(["explain", str(file)]) == 0
    text = capsys.readouterr().out
    assert "DEADLOCK under model nccl" in text
    assert "error[PG001]: ranks 5 and 6 wait in send() for each other" in text
    assert "--> rank 5, action 1284 (schedule\\x1b[31m.py:212)" in text
    assert "rank 5 action 1284 waits for rank 6 action 1284: send-unmatched" in text
    assert "page: planguard explain PG001 (p2p-deadlock)" in text
    assert text.splitlines()[-1] == "verdict: DEADLOCK   model nccl"
    assert "\x1b" not in text


@pytest.mark.parametrize("lines", [True, False])
def test_several_saved_results(
    lines: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An array and one object per line are read; a plan that was not read says why."""
    unread = error_to_json(PlanError("peer 9 is not a rank", code="PG402", file="bad.json"))
    documents = [verdict_to_json(stuck()), unread]
    file = tmp_path / ("results.jsonl" if lines else "results.json")
    text = "\n".join(map(dumps, documents)) if lines else dumps(documents)
    file.write_text(text, encoding="utf-8")

    assert main(["explain", str(file)]) == 0
    shown = capsys.readouterr().out
    assert "error[PG001]" in shown
    assert "not read: [PG402] bad.json: peer 9 is not a rank" in shown
    assert "page: planguard explain PG402 (peer-out-of-range)" in shown


@pytest.mark.parametrize("content", ["{", "[1, 2]", '{"schema": "planguard.result/9"}', ""])
def test_bad_result_file(content: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file that is not a result is a usage error with a hint."""
    file = tmp_path / "result.json"
    file.write_text(content, encoding="utf-8")
    assert main(["explain", str(file)]) == 2
    assert "hint:" in capsys.readouterr().err


def test_missing_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file that does not exist is a usage error."""
    assert main(["explain", str(tmp_path / "gone.json")]) == 2
    assert "gone.json" in capsys.readouterr().err
