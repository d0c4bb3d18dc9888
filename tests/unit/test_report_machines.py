"""GitHub annotations, GitLab code quality, JUnit: what other programs read."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from planguard.report.github import escape_data, escape_property

# --- GitHub --------------------------------------------------------------------------------------


def test_an_annotation_names_file_line_and_code(check) -> None:
    """One command per finding, on the planner's own line; the cycle follows the headline."""
    answer = check("deadlock", "--format", "github")
    (line,) = answer.out.splitlines()
    assert line.startswith(
        "::error file=make.py,line=7,title=PG001 p2p-deadlock::"
        "point-to-point deadlock: ranks 0 and 1 wait in send() for each other"
        "%0Acycle: r0#0 -[send]-> r1#0 -[send]-> r0#0%0A"
    )
    assert answer.err.startswith("verdict: DEADLOCK")


def test_annotations_of_other_severities(check) -> None:
    """Warnings are warnings, undecided plans a warning titled UNKNOWN, refused ones errors."""
    assert check("mixed", "--format", "github").out.startswith("::warning file=make.py,line=7,")
    unknown = check("unknown", "--format", "github").out
    assert unknown.startswith("::warning file=unknown.plan.json,title=UNKNOWN::")
    broken = check("broken", "--format", "github").out
    assert broken.startswith("::error file=broken.plan.json,title=PG906::")
    assert check("safe", "--format", "github").out == ""
    note = check("deadlock", "--format", "github", "--ignore", "PG001").out
    assert note.startswith("::notice ")


def test_commands_cannot_be_injected() -> None:
    """Newlines, percent signs, and in properties colons and commas, are encoded."""
    assert escape_data("a%\r\nb") == "a%25%0D%0Ab"
    assert escape_property("a:b,c%d") == "a%3Ab%2Cc%25d"
    assert "\n" not in escape_property("x\n::error::y")


def test_a_plan_cannot_write_commands(plan_files, capsys) -> None:
    """A name that looks like a workflow command stays inside its own line."""
    from planguard.cli import main

    plan_files()
    name = "x\n::error::forged"
    send = {"op": "send", "peer": 1, "bytes": 4, "group": name}
    plan = {
        "schema": "planguard.plan/1",
        "world_size": 2,
        "groups": {name: {"ranks": [0, 1]}},
        "ranks": {"0": {"actions": [send]}, "1": {"actions": [{"op": "barrier", "group": name}]}},
    }
    Path("p.plan.json").write_text(json.dumps(plan), encoding="utf-8")
    main(["check", "p.plan.json", "--no-config", "--format", "github"])
    lines = capsys.readouterr().out.splitlines()
    assert lines
    assert all(line.startswith("::error file=p.plan.json,") for line in lines)


# --- GitLab --------------------------------------------------------------------------------------


def test_code_quality_has_unique_fingerprints(check) -> None:
    """Every issue has place, severity and a fingerprint of its own, the same in every run."""
    first = check("deadlock orphan mixed unknown broken race", "--format", "gitlab").document
    again = check("deadlock orphan mixed unknown broken race", "--format", "gitlab").document
    assert first == again
    assert len({issue["fingerprint"] for issue in first}) == len(first) > 5
    severities = {issue["check_name"]: issue["severity"] for issue in first}
    assert severities["PG001"] == "critical"
    assert severities["PG214"] == "major"
    assert severities["PG906"] == "critical"
    assert {issue["location"]["path"] for issue in first} >= {"make.py", "broken.plan.json"}
    assert all(issue["location"]["lines"]["begin"] >= 1 for issue in first)


def test_code_quality_names_files_as_the_repository_does(capsys, tmp_path, monkeypatch) -> None:
    """A plan found in the working folder has its path in the repository, without ``./``."""
    from planguard.cli import main

    monkeypatch.chdir(tmp_path)
    Path("p.plan.json").write_text('{"schema": "planguard.plan/1"}', encoding="utf-8")
    main(["check", ".", "--no-config", "--format", "gitlab"])
    assert [one["location"]["path"] for one in json.loads(capsys.readouterr().out)] == [
        "p.plan.json"
    ]


# --- JUnit ---------------------------------------------------------------------------------------


def suite(text: str) -> ET.Element:
    """Parse a test suite of our own."""
    return ET.fromstring(text)  # noqa: S314 - written a line above


def test_junit_has_a_case_per_plan(check) -> None:
    """Failure, error, skip and success follow the outcome; the text is the full diagnostic."""
    names = "safe deadlock unknown broken mixed"
    root = suite(check(names, "--format", "junit").out)
    cases = {case.get("name"): case for case in root}
    assert root.attrib["name"] == "planguard"
    assert (root.get("tests"), root.get("failures"), root.get("errors")) == ("5", "1", "2")
    assert len(cases["safe.plan.json"]) == 0
    failure = cases["deadlock.plan.json"].find("failure")
    assert failure.get("type") == "PG001"
    assert failure.get("message").startswith("point-to-point deadlock")
    assert "^^^^ cannot complete before rank 1" in failure.text
    assert cases["unknown.plan.json"].find("error").get("type") == "UNKNOWN"
    assert cases["broken.plan.json"].find("error").get("type") == "PG906"
    assert "PG214" in cases["mixed.plan.json"].find("system-out").text
    assert cases["deadlock.plan.json"].get("classname") == "nccl"


def test_junit_follows_the_gate(check) -> None:
    """--allow-unknown skips, --fail-on and suppressions decide what a failure is."""
    root = suite(check("unknown", "--format", "junit", "--allow-unknown").out)
    assert root[0].find("skipped") is not None
    root = suite(check("mixed", "--format", "junit", "--fail-on", "warning").out)
    assert root[0].find("failure").get("type") == "PG214"
    root = suite(check("deadlock", "--format", "junit", "--ignore", "PG001").out)
    assert root[0].find("failure") is None


def test_junit_has_a_case_per_model(check) -> None:
    """--model all gives nine cases; only the selected model can fail."""
    root = suite(check("deadlock", "--format", "junit", "--model", "all").out)
    assert len(root) == 9
    failed = [case.get("classname") for case in root if case.find("failure") is not None]
    assert failed == ["nccl"]
    others = {case.get("classname"): case.findtext("system-out") for case in root}
    assert others["mpi-eager"] == "POTENTIAL_DEADLOCK PG101"


@pytest.mark.parametrize("character", ["\x00", "\x0b", "\x1b", "\ufffe", "\ud800", "]]>", "<&\"'"])
def test_junit_is_well_formed_whatever_the_names_hold(character: str) -> None:
    """What XML 1.0 cannot hold is shown as an escape."""
    import io

    from planguard.errors import PlanError
    from planguard.report import ReportOptions, Result, make_reporter

    out = io.StringIO()
    reporter = make_reporter("junit", out, ReportOptions())
    name = f"a{character}b.plan.json"
    reporter.add(Result(name, error=PlanError(f"bad {character} value", hint=character)))
    reporter.close()
    root = suite(out.getvalue().encode("utf-8", "strict").decode())
    assert root[0].get("name")
