"""SARIF 2.1.0: valid, complete, within the limits of those who read it."""

from __future__ import annotations

import io
import json
import os
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest

import planguard
from planguard.report import ReportOptions, Result, sarif, sarifdoc
from planguard.verdict import Edit, Repair

HERE = Path(__file__).resolve().parent
CORPUS = HERE.parent / "corpus" / "litmus"
SCHEMAS = [HERE / "sarif-2.1.0-used.schema.json"]
if "PLANGUARD_SARIF_SCHEMA" in os.environ:
    # The official schema is no part of this repository; a copy of it can be named here.
    SCHEMAS.append(Path(os.environ["PLANGUARD_SARIF_SCHEMA"]))


def validators() -> list[jsonschema.protocols.Validator]:
    """Return a validator per schema."""
    made = []
    for path in SCHEMAS:
        schema = json.loads(path.read_text(encoding="utf-8"))
        kind = jsonschema.validators.validator_for(schema)
        made.append(kind(schema, format_checker=kind.FORMAT_CHECKER))
    return made


VALIDATORS = validators()


def problems(log: object) -> list[str]:
    """Return what is wrong with a log."""
    return [
        f"{list(error.absolute_path)}: {error.message}"
        for validator in VALIDATORS
        for error in validator.iter_errors(log)
    ]


def log_of(*results: Result) -> dict:
    """Return the log of some results."""
    out = io.StringIO()
    reporter = sarif.SarifReporter(out, ReportOptions(many=True))
    for result in results:
        reporter.add(result)
    reporter.close()
    log = json.loads(out.getvalue())
    assert problems(log) == []
    return log


def checked(path: Path, model: str) -> Result:
    """Return the result of a plan of the corpus."""
    try:
        plan = planguard.load(path)
        return Result(str(path), plan, planguard.check(plan, model=model))
    except planguard.PlanError as error:
        return Result(str(path), error=error)


@pytest.mark.parametrize("model", ["gloo", "nccl", "nccl-lazy", "mpi-eager"])
def test_every_log_of_the_corpus_is_valid(model: str) -> None:
    """One log with the findings of all litmus programs holds the schema, and each rule is used."""
    log = log_of(*(checked(path, model) for path in sorted(CORPUS.glob("*.plan.json"))))
    (run,) = log["runs"]
    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert len(run["results"]) > 50
    assert {found["ruleId"] for found in run["results"]} == set(rules)
    assert all(rules[found["ruleIndex"]] == found["ruleId"] for found in run["results"])
    assert all(len(r["properties"]["tags"]) <= 20 for r in run["tool"]["driver"]["rules"])


def test_a_deadlock_is_one_result_with_a_thread_flow_per_rank(check) -> None:
    """Location, logical location, cycle, schedule and fingerprint of a finding reach the log."""
    answer = check("deadlock", "--format", "sarif")
    assert problems(answer.document) == []
    (found,) = answer.document["runs"][0]["results"]
    (where,) = found["locations"]
    (flow,) = found["codeFlows"]

    assert (found["ruleId"], found["level"]) == ("PG001", "error")
    assert where["physicalLocation"]["artifactLocation"]["uri"] == "make.py"
    assert where["physicalLocation"]["region"] == {"startLine": 7}
    assert where["logicalLocations"][0]["fullyQualifiedName"] == "rank0/action0"
    assert [flow["id"] for flow in flow["threadFlows"]] == ["rank 0", "rank 1"]
    orders = [s["executionOrder"] for f in flow["threadFlows"] for s in f["locations"]]
    assert sorted(orders) == list(range(1, len(orders) + 1))
    related = [place["message"]["text"] for place in found["relatedLocations"]]
    assert "cannot complete before rank 1 starts the matching recv (its #1)" in related[0]
    assert found["partialFingerprints"]["planguard/v1"].startswith("pg1:")
    assert "cycle: r0#0 -[send]-> r1#0 -[send]-> r0#0" in found["message"]["text"]


def test_without_source_the_line_of_the_plan_file_is_named(tmp_path, monkeypatch) -> None:
    """An action without src points at its own line of the plan file."""
    monkeypatch.chdir(tmp_path)
    text = (CORPUS / "p2p_head_to_head_send_4B.plan.json").read_text(encoding="utf-8")
    Path("p.plan.json").write_text(text, encoding="utf-8")
    log = log_of(checked(Path("p.plan.json"), "nccl"))
    place = log["runs"][0]["results"][0]["locations"][0]["physicalLocation"]
    line = text.splitlines()[place["region"]["startLine"] - 1]
    assert place["artifactLocation"] == {"uri": "p.plan.json", "uriBaseId": "%SRCROOT%"}
    assert '"send"' in line


def test_unknown_and_unreadable_are_notifications(check) -> None:
    """UNKNOWN is a warning of a successful execution; an unreadable plan makes it unsuccessful."""
    (run,) = check("unknown", "--format", "sarif").document["runs"]
    (note,) = run["invocations"][0]["toolExecutionNotifications"]
    assert run["results"] == []
    assert run["invocations"][0]["executionSuccessful"] is True
    assert note["level"] == "warning"
    assert note["message"]["text"].startswith("UNKNOWN: ")
    (run,) = check("broken", "--format", "sarif").document["runs"]
    (note,) = run["invocations"][0]["toolExecutionNotifications"]
    assert run["invocations"][0]["executionSuccessful"] is False
    assert (note["level"], note["descriptor"]["id"]) == ("error", "PG906")


def test_suppressed_findings_carry_their_reason(check) -> None:
    """A suppressed finding stays a result, with its justification."""
    answer = check("deadlock", "--ignore", "PG001", "--format", "sarif")
    assert problems(answer.document) == []
    results = {found["ruleId"]: found for found in answer.document["runs"][0]["results"]}
    (kept,) = results["PG001"]["suppressions"]
    assert kept == {"kind": "external", "justification": "config: ignored by --ignore"}
    assert "suppressions" not in results["PG908"]


def test_the_log_stays_within_the_limits(monkeypatch) -> None:
    """Beyond the limits of consumers the most severe results are kept, and a notification says
    how many were left out.
    """
    monkeypatch.setattr(sarif, "MAX_RESULTS", 3)
    monkeypatch.setattr(sarifdoc, "MAX_FLOW", 2)
    monkeypatch.setattr(sarifdoc, "MAX_LOCATIONS", 1)
    result = checked(CORPUS / "p2p_send_ring3.plan.json", "nccl")
    finding = result.verdict.findings[0]
    notes = tuple(replace(finding, severity="note", witness=None) for _ in range(4))
    log = log_of(replace(result, verdict=replace(result.verdict, findings=(*notes, finding))))
    (run,) = log["runs"]
    said = [n["message"]["text"] for n in run["invocations"][0]["toolExecutionNotifications"]]

    assert len(run["results"]) == 3
    assert run["results"][0]["level"] == "error"
    assert "2 results left out" in said
    assert any("related places" in text for text in said)
    flows = run["results"][0]["codeFlows"][0]["threadFlows"]
    assert sum(len(flow["locations"]) for flow in flows) == 2
    assert any("steps of" in text for text in said)


def test_names_are_escaped(tmp_path, monkeypatch) -> None:
    """Control characters of a plan reach no message of the log."""
    monkeypatch.chdir(tmp_path)
    name = "g\x1b[31m\u202e"
    send = {"op": "send", "bytes": 4, "group": name, "label": name}
    recv = {**send, "op": "recv"}
    ranks = {
        str(rank): {"actions": [{**send, "peer": 1 - rank}, {**recv, "peer": 1 - rank}]}
        for rank in (0, 1)
    }
    plan = {"schema": "planguard.plan/1", "world_size": 2, "ranks": ranks}
    Path("n.plan.json").write_text(
        json.dumps({**plan, "groups": {name: {"ranks": [0, 1]}}}), encoding="utf-8"
    )
    text = json.dumps(log_of(checked(Path("n.plan.json"), "nccl")), ensure_ascii=False)
    assert "\\u001b" not in text
    assert "\u202e" not in text


EDITS = {
    "remove": Edit("/ranks/0/actions/0", "remove"),
    "add": Edit("/ranks/0/actions/0", "add", {"op": "barrier"}),
    "replace": Edit("/ranks/0/actions/1", "replace", {"op": "barrier"}),
}


@pytest.mark.parametrize("kind", list(EDITS))
def test_a_verified_repair_is_a_fix_that_applies(kind: str, check) -> None:
    """Applying the replacement to the text of the plan file gives the edited plan."""
    check("deadlock")
    path = Path("deadlock.plan.json")
    before = json.loads(path.read_text(encoding="utf-8"))
    result = checked(path, "nccl")
    repair = Repair("swap", "verified", (EDITS[kind],), "swap two actions")
    finding = replace(result.verdict.findings[0], fixes=(repair,))
    log = log_of(replace(result, verdict=replace(result.verdict, findings=(finding,))))
    (fix,) = log["runs"][0]["results"][0]["fixes"]
    (change,) = fix["artifactChanges"]
    (edit,) = change["replacements"]
    after = json.loads(applied(path.read_text(encoding="utf-8"), edit))

    actions = before["ranks"]["0"]["actions"]
    if kind == "remove":
        del actions[0]
    elif kind == "add":
        actions.insert(0, {"op": "barrier"})
    else:
        actions[1] = {"op": "barrier"}
    assert after == before


def applied(text: str, edit: dict) -> str:
    """Return a text with a SARIF replacement made."""
    region = edit["deletedRegion"]
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    begin = starts[region["startLine"] - 1] + region["startColumn"] - 1
    end = starts[region["endLine"] - 1] + region["endColumn"] - 1
    return text[:begin] + edit.get("insertedContent", {}).get("text", "") + text[end:]


def test_an_unverified_repair_is_no_fix(check) -> None:
    """Only what was proved is offered for application."""
    check("deadlock")
    result = checked(Path("deadlock.plan.json"), "nccl")
    repair = Repair("swap", "unverified", (EDITS["remove"],), "swap two actions")
    finding = replace(result.verdict.findings[0], fixes=(repair,))
    log = log_of(replace(result, verdict=replace(result.verdict, findings=(finding,))))
    assert "fixes" not in log["runs"][0]["results"][0]
