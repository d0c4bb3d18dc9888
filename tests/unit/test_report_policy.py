"""Suppressions, severities and baselines: what passes the gate, and what is always told."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import planguard


def findings(answer) -> dict[str, dict]:
    """Findings of one result by code."""
    return {found["code"]: found for found in answer.document["findings"]}


def test_an_ignored_finding_passes_and_is_counted(check) -> None:
    """--ignore takes a finding out of the gate; it stays in the result with its reason, the
    outcome stays what it is, and PG908 counts it.
    """
    answer = check("deadlock", "--ignore", "PG001", "--format", "json")
    found = findings(answer)
    assert answer.code == 0
    assert answer.document["outcome"] == "DEADLOCK"
    assert found["PG001"]["suppressed"] == {"by": "config", "reason": "ignored by --ignore"}
    assert found["PG908"]["message"] == "1 finding suppressed: 1 by config"
    text = check("deadlock", "--ignore", "p2p-deadlock")
    assert "PG001" not in text.out
    assert "note[PG908]: 1 finding suppressed" in text.out
    assert "verdict: DEADLOCK" in text.out


def test_select_counts_only_what_it_names(check) -> None:
    """What is not selected does not fail the gate, and is counted."""
    assert check("deadlock", "--select", "PG0").code == 1
    answer = check("deadlock", "--select", "PG2,PG3", "--format", "json")
    assert answer.code == 0
    assert findings(answer)["PG001"]["suppressed"]["reason"] == "not selected by --select"


def test_an_undecided_plan_cannot_be_silenced(check) -> None:
    """Ignoring the reasons of UNKNOWN does not make it pass."""
    for selector in ("PG904", "PG9", "ALL"):
        answer = check("unknown", "--ignore", selector)
        assert answer.code == 3
        assert "PG904" in answer.out


def test_severity_overrides(check) -> None:
    """A severity can be raised into the gate, and lowered out of it, except for PG0xx."""
    Path("planguard.toml").write_text('[severity]\nPG214 = "error"\n', encoding="utf-8")
    assert check("mixed").code == 1
    Path("planguard.toml").write_text('[severity]\nPG301 = "warning"\n', encoding="utf-8")
    answer = check("race", "--format", "json")
    assert answer.code == 0
    assert findings(answer)["PG301"]["severity"] == "warning"
    Path("planguard.toml").write_text('[severity]\nPG001 = "warning"\n', encoding="utf-8")
    assert check("deadlock").code == 2


def test_per_plan_ignores_match_paths(check) -> None:
    """An expected finding is suppressed in the plans of its pattern, with its reason."""
    entry = '[{ code = "PG301", reason = "drained at exit" }]'
    Path("planguard.toml").write_text(
        f'[per-plan-ignores]\n"race*.plan.json" = {entry}\n', encoding="utf-8"
    )
    answer = check("race", "--format", "json")
    assert answer.code == 0
    assert findings(answer)["PG301"]["suppressed"]["reason"] == "drained at exit"
    Path("planguard.toml").write_text(
        f'[per-plan-ignores]\n"other/*" = {entry}\n', encoding="utf-8"
    )
    assert check("race").code == 1


def test_a_baseline_accepts_what_is_there_and_nothing_new(check) -> None:
    """Findings of the baseline pass with their reason; another plan's equal bug does not."""
    written = check("deadlock race", "--write-baseline", "known.json")
    assert written.code == 0
    assert "wrote known.json (3 findings accepted)" in written.err
    answer = check("deadlock race", "--baseline", "known.json", "--format", "json")
    assert answer.code == 0
    first = answer.document[0]["findings"][0]
    assert first["suppressed"] == {"by": "baseline", "reason": "accepted in known.json"}
    Path("copy.plan.json").write_bytes(Path("deadlock.plan.json").read_bytes())
    assert check("", "copy.plan.json", "--baseline", "known.json").code == 1
    assert check("mismatch", "--baseline", "known.json").code == 1


def test_a_baseline_survives_changed_action_numbers(check) -> None:
    """An unrelated action in front does not make a known finding new."""
    check("deadlock", "--write-baseline", "known.json")
    document = json.loads(Path("deadlock.plan.json").read_text(encoding="utf-8"))
    for rank in document["ranks"].values():
        rank["actions"].insert(0, {"op": "compute", "op_name": "embed"})
    Path("deadlock.plan.json").write_text(json.dumps(document), encoding="utf-8")
    assert check("", "deadlock.plan.json", "--baseline", "known.json").code == 0


def test_the_last_line_says_why_an_unsafe_plan_passes(check):
    """With every finding accepted it says so, in the one line that ``--quiet`` leaves."""
    assert "passed" not in check("deadlock", "--quiet").out
    check("deadlock", "--write-baseline", "accepted.json")
    said = check("deadlock", "--baseline", "accepted.json", "--quiet")
    assert said.code == 0
    assert said.out == "verdict: DEADLOCK   model nccl   passed: 1 finding suppressed\n"


def test_one_more_of_a_known_kind_is_new(check) -> None:
    """The baseline accepts as many findings of a fingerprint as it saw."""
    check("race", "--write-baseline", "known.json")
    document = json.loads(Path("race.plan.json").read_text(encoding="utf-8"))
    for rank in document["ranks"].values():
        rank["actions"].append({**rank["actions"][0], "work": "again"})
    Path("race.plan.json").write_text(json.dumps(document), encoding="utf-8")
    answer = check("", "race.plan.json", "--baseline", "known.json", "--format", "json")
    suppressed = [found["suppressed"] is not None for found in answer.document["findings"]]
    assert answer.code == 1
    assert sorted(suppressed[:2]) == [False, True]


def test_entries_that_no_longer_occur_are_told(check) -> None:
    """A stale entry of a checked plan is PG909; entries of plans not checked are left alone."""
    check("deadlock race", "--write-baseline", "known.json")
    Path("deadlock.plan.json").write_bytes(Path("race.plan.json").read_bytes())
    answer = check("", "deadlock.plan.json", "--baseline", "known.json", "--format", "json")
    stale = [found for found in answer.document["findings"] if found["code"] == "PG909"]
    assert len(stale) == 1
    assert "PG001 (p2p-deadlock) in deadlock.plan.json" in stale[0]["message"]
    assert stale[0]["severity"] == "note"


def test_a_written_baseline_is_sorted_and_reproducible(check) -> None:
    """Two baselines of the same findings have the same bytes, whatever the order of the plans."""
    check("deadlock race", "--write-baseline", "a.json")
    check("race deadlock", "--write-baseline", "b.json")
    assert Path("a.json").read_bytes() == Path("b.json").read_bytes()
    assert json.loads(Path("a.json").read_text("utf-8"))["schema"] == "planguard.baseline/1"


def test_an_existing_baseline_is_kept_unless_forced(check) -> None:
    """--write-baseline does not replace a file without --force."""
    Path("known.json").write_text("mine", encoding="utf-8")
    assert check("deadlock", "--write-baseline", "known.json").code == 2
    assert Path("known.json").read_text("utf-8") == "mine"
    assert check("deadlock", "--write-baseline", "known.json", "--force").code == 0


def test_every_finding_has_a_fingerprint(check) -> None:
    """Warnings and notes can be baselined too: no finding is without a fingerprint."""
    for name in ("deadlock", "mismatch", "orphan", "mixed", "race"):
        answer = check(name, "--format", "json")
        assert all(f["fingerprint"].startswith("pg1:") for f in answer.document["findings"])


def test_a_plan_cannot_suppress_its_own_findings(check) -> None:
    """Extension fields and names that look like suppressions change no finding, no severity and
    no exit code: an untrusted input must not silence its own deadlock.
    """
    silence = {"by": "config", "reason": "trust me"}
    words = {
        "x-planguard": {"ignore": ["PG001"], "select": []},
        "x-suppressed": silence,
        "x-severity": {"PG001": "note"},
        "x-per-plan-ignores": {"*": [{"code": "PG001", "reason": "noqa"}]},
    }
    check("deadlock")
    document = json.loads(Path("deadlock.plan.json").read_text(encoding="utf-8"))
    for rank in document["ranks"].values():
        for action in rank["actions"]:
            action |= {
                "label": "planguard: ignore[PG001]",
                "id": f"noqa-PG001-{id(action)}",
                "x-noqa": "PG001",
                "x-suppressed": silence,
            }
    document |= words | {
        "name": "# planguard: ignore[PG001] # noqa",
        "producer": {"tool": "planguard.toml ignore = ['PG001']", "version": "suppressed"},
        "approximations": [{"kind": "suppressed", "message": "ignore PG001", "direction": "exact"}],
    }
    Path("deadlock.plan.json").write_text(json.dumps(document), encoding="utf-8")
    answer = check("", "deadlock.plan.json", "--format", "json")
    (found,) = answer.document["findings"]
    assert answer.code == 1
    assert (found["code"], found["severity"], found["suppressed"]) == ("PG001", "error", None)


def test_more_findings_than_are_explained_do_not_pass(check) -> None:
    """A plan of which only the first findings were explained does not pass because these are
    suppressed.
    """
    ranks = {}
    for pair in range(30):
        low, high = 2 * pair, 2 * pair + 1
        for rank, peer in ((low, high), (high, low)):
            size = 4 + pair
            ranks[str(rank)] = {
                "actions": [
                    {"op": "compute", "op_name": f"p{pair}"},
                    {"op": "send", "peer": peer, "bytes": size},
                    {"op": "recv", "peer": peer, "bytes": size},
                ]
            }
    plan = {"schema": "planguard.plan/1", "world_size": 60, "ranks": ranks}
    Path("many.plan.json").write_text(json.dumps(plan), encoding="utf-8")
    verdict = planguard.check("many.plan.json")
    assert len(verdict.findings) == planguard.CheckOptions().explain_limit
    assert check("", "many.plan.json", "--ignore", "PG001").code == 1


@pytest.mark.parametrize("text", ["[]", "{}", '{"schema": "other"}', "null", "not json"])
def test_a_file_that_is_no_baseline_is_refused(text: str, check) -> None:
    """A baseline is read strictly: anything else is a usage error."""
    Path("known.json").write_text(text, encoding="utf-8")
    answer = check("deadlock", "--baseline", "known.json")
    assert answer.code == 2
    assert "is not a baseline" in answer.err
