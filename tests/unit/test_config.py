"""Settings: where they come from, which win, what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from planguard.catalog import CATALOG
from planguard.config import PlanIgnore, codes_of, load_settings, seconds
from planguard.errors import PlanError, UsageError

EVERYTHING = """
model = "gloo"
select = ["ALL"]
ignore = ["PG412", "sync-async-mix"]
fail-on = "warning"
budget = "200ms"
solver-memory = 512
solver-process = true

[severity]
PG610 = "error"

[rules]
PG610.threshold = 0.20

[per-plan-ignores]
"plans/legacy/*.plan.json" = [{ code = "PG301", reason = "drained at exit, see issue 12" }]
"""


def test_every_key_of_a_file_is_read(tmp_path: Path) -> None:
    """Each documented key reaches the settings, with the file as its origin."""
    (tmp_path / "planguard.toml").write_text(EVERYTHING, encoding="utf-8")
    found = load_settings(start=tmp_path)

    assert (found.model, found.fail_on, found.budget) == ("gloo", "warning", 0.2)
    assert (found.solver_memory, found.solver_process) == (512, True)
    assert found.ignore == ("PG412", "sync-async-mix")
    assert found.severity == {"PG610": "error"}
    assert found.rules == {"PG610": {"threshold": 0.2}}
    assert found.per_plan_ignores == (
        PlanIgnore("plans/legacy/*.plan.json", "PG301", "drained at exit, see issue 12"),
    )
    assert found.origin("model") == "planguard.toml"


def test_pyproject_needs_its_table(tmp_path: Path) -> None:
    """A pyproject.toml without [tool.planguard] is passed over on the way up; the nearest file
    that has settings holds, planguard.toml first.
    """
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    (tmp_path / "pyproject.toml").write_text('[tool.planguard]\nmodel = "gloo"\n', "utf-8")
    (inner / "pyproject.toml").write_text('[project]\nname = "x"\n', "utf-8")
    assert load_settings(start=inner).model == "gloo"
    (tmp_path / "planguard.toml").write_text('model = "mpi-pg"\n', "utf-8")
    assert load_settings(start=inner).model == "mpi-pg"
    assert load_settings(start=inner).folder == tmp_path


def test_command_line_wins_over_file_and_file_over_default(tmp_path: Path) -> None:
    """Precedence is command line, file, default, key by key."""
    (tmp_path / "planguard.toml").write_text('model = "gloo"\nfail-on = "note"\n', "utf-8")
    found = load_settings({"model": "nccl", "fail-on": None}, start=tmp_path)
    assert (found.model, found.origin("model")) == ("nccl", "--model")
    assert (found.fail_on, found.origin("fail-on")) == ("note", "planguard.toml")
    assert (found.budget, found.origin("budget")) == (None, "default")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('modle = "nccl"', "unknown key 'modle'"),
        ("[tool.planguard]\nmodel = 'nccl'", "unknown key 'tool'"),
        ('fail-on = "fatal"', "fail-on: severities are error, warning, note"),
        ('budget = "soon"', "budget: a duration"),
        ("budget = -1", "positive"),
        ("solver-memory = 0", "a whole number of MiB"),
        ("solver-memory = true", "a whole number of MiB"),
        ("solver-memory = 1.5", "a whole number of MiB"),
        ("solver-memory = 4294967296", "a whole number of MiB"),
        ('solver-process = "no"', "true or false"),
        ("budget = true", "a duration"),
        ('budget = "nan"', "positive"),
        ('select = ["PG7"]', "select: unknown finding code"),
        ("select = [3]", "select: not a value"),
        ('severity = {PG001 = "warning"}', "PG001 is a certain deadlock"),
        ('severity = {PG0 = "note"}', "is a certain deadlock"),
        ('severity = {ALL = "note"}', "is a certain deadlock"),
        ('severity = {p2p-deadlock = "note"}', "PG001 is a certain deadlock"),
        ('severity = {PG301 = "off"}', "severity: severities are"),
        ('[per-plan-ignores]\n"a" = [{code = "PG301"}]', "an entry has a code and a reason"),
        ('[per-plan-ignores]\n"a" = [{code = "PG301", reason = " "}]', "a code and a reason"),
        ('[per-plan-ignores]\n"a" = ["PG301"]', "per-plan-ignores"),
        ("rules = {PG999999 = {threshold = 1}}", "unknown finding code"),
        ("model = [", "is not TOML"),
    ],
)
def test_a_value_that_means_nothing_is_refused(text: str, said: str, tmp_path: Path) -> None:
    """A misspelt key or value is a usage error that names file and key; nothing is guessed."""
    (tmp_path / "planguard.toml").write_text(text, encoding="utf-8")
    with pytest.raises(UsageError) as caught:
        load_settings(start=tmp_path)
    assert "planguard.toml" in caught.value.message
    assert said in caught.value.message


def test_an_unknown_model_is_pg907(tmp_path: Path) -> None:
    """The model of a file and of the command line are held to the nine, and all."""
    (tmp_path / "planguard.toml").write_text('model = "ncll"', encoding="utf-8")
    for given in ({}, {"model": "mpi"}):
        with pytest.raises(PlanError) as caught:
            load_settings(given, start=tmp_path)
        assert caught.value.code == "PG907"
        assert "nccl-lazy" in caught.value.hint
    assert load_settings({"model": "all"}).model == "all"


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("PG001", {"PG001"}),
        ("pg001", {"PG001"}),
        ("p2p-deadlock", {"PG001"}),
        ("PG10", {f"PG10{digit}" for digit in range(1, 10)}),
        ("PG6", {number for number in CATALOG if number[2] == "6"}),
        ("all", set(CATALOG)),
    ],
)
def test_selectors_are_codes_names_and_prefixes(selector: str, expected: set[str]) -> None:
    """A selector names a code, a name, a family prefix or everything."""
    assert codes_of(selector) == expected


@pytest.mark.parametrize("selector", ["", "P", "PG7", "deadlock", "PG0011", "*"])
def test_other_selectors_are_refused(selector: str) -> None:
    """What names no code is refused instead of selecting nothing."""
    with pytest.raises(UsageError):
        codes_of(selector)


@pytest.mark.parametrize(
    ("text", "expected"), [("2", 2.0), (2, 2.0), ("200ms", 0.2), ("1.5s", 1.5), ("1m", 60.0)]
)
def test_durations(text: str, expected: float) -> None:
    """A duration is a number of seconds or has a unit."""
    assert seconds(text) == pytest.approx(expected)


def test_show_settings_prints_values_and_origins(check) -> None:
    """--show-settings needs no plan and says where each value came from."""
    Path("planguard.toml").write_text('fail-on = "warning"\n', encoding="utf-8")
    answer = check("", "--show-settings", "--model", "gloo", "--ignore", "PG412,PG214")
    assert answer.code == 0
    lines = {line.partition(" ")[0]: line for line in answer.out.splitlines()}
    assert lines["model"].startswith('model = "gloo"')
    assert lines["model"].endswith("# --model")
    assert lines["fail-on"].endswith("# planguard.toml")
    assert lines["ignore"].startswith('ignore = ["PG412", "PG214"]')
    assert lines["budget"].endswith("# default")


def test_settings_reach_the_check(check) -> None:
    """A file in the current folder decides model and gate; --no-config leaves it out."""
    Path("planguard.toml").write_text('model = "gloo"\nfail-on = "warning"\n', encoding="utf-8")
    answer = check("mixed", "--format", "json")
    assert answer.code == 1
    assert answer.document["model"] == "gloo"
    answer = check("mixed", "--format", "json", "--no-config")
    assert answer.code == 0
    assert answer.document["model"] == "nccl"
    Path("other.toml").write_text('model = "mpi-sync"\n', encoding="utf-8")
    answer = check("mixed", "--format", "json", "--config", "other.toml")
    assert answer.document["model"] == "mpi-sync"


def test_an_unknown_key_is_exit_code_2(check) -> None:
    """A misspelt key ends the run before any plan is read."""
    Path("planguard.toml").write_text("modle = 'gloo'\n", encoding="utf-8")
    answer = check("safe")
    assert answer.code == 2
    assert "did you mean model?" in answer.err
