"""``planguard check``: exit codes, outputs, what goes to which stream."""

from __future__ import annotations

import json
import os
import shlex
from pathlib import Path

import pytest

from planguard.cli import main
from planguard.plan.building.builder import PlanBuilder
from planguard.report import FORMATS

CODES = {
    "safe": 0,
    "deadlock": 1,
    "mismatch": 1,
    "orphan": 1,
    "race": 1,
    "mixed": 0,
    "unknown": 3,
    "broken": 2,
    "safe unknown": 3,
    "unknown deadlock": 1,
    "deadlock broken unknown": 2,
}
"""Exit code by plans: 2 before 1 before 3 before 0."""


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("names", list(CODES))
def test_the_exit_code_is_the_same_for_every_format(names: str, form: str, check) -> None:
    """Exit codes depend on what was found, never on how it is written."""
    assert check(names, "--format", form).code == CODES[names]


@pytest.mark.parametrize("form", FORMATS)
def test_a_defect_of_planguard_is_4_and_never_0(form: str, check, monkeypatch) -> None:
    """An exception inside a check gives 4 after all other plans were reported, and both streams
    stay what they are.
    """
    import planguard.engine

    real = planguard.engine.check_plan

    def fail(plan, options=None):
        if plan.file.startswith("deadlock"):
            raise RuntimeError("broken inside")
        return real(plan, options)

    monkeypatch.setattr(planguard.engine, "check_plan", fail)
    answer = check("deadlock mismatch", "--format", form)
    assert answer.code == 4
    assert "internal error[PG999]: RuntimeError: broken inside" in answer.err
    assert "while checking deadlock.plan.json" in answer.err
    assert "deadlock" in answer.out
    assert "PG201" in answer.out


def test_exit_zero_affects_findings_only(check) -> None:
    """--exit-zero turns 1 into 0, and neither 2 nor 3."""
    assert check("deadlock", "--exit-zero").code == 0
    assert check("unknown", "--exit-zero").code == 3
    assert check("broken", "--exit-zero").code == 2


def test_allow_unknown_says_how_many_it_covers(check) -> None:
    """--allow-unknown turns 3 into 0 and prints the number of plans it covered."""
    answer = check("unknown safe", "--allow-unknown")
    assert answer.code == 0
    assert "--allow-unknown covered 1 undecided plan" in answer.err
    assert check("unknown deadlock", "--allow-unknown").code == 1


def test_fail_on_lowers_the_gate(check) -> None:
    """--fail-on warning fails on PG214; an undecided plan stays 3."""
    assert check("mixed", "--fail-on", "warning").code == 1
    assert check("unknown", "--fail-on", "note").code == 3
    assert check("safe", "--fail-on", "note").code == 0


@pytest.mark.parametrize(
    "arguments",
    [
        ["--select", "PG999999"],
        ["--ignore", "no-such-name"],
        ["--fail-on", "fatal"],
        ["-o", "json"],
        ["-o", "xml=out.xml"],
        ["--config", "broken.toml"],
        ["--planner", "nobody"],
        ["--model", "ncll"],
        ["--baseline", "safe.plan.json"],
        ["--baseline", "no-such-file.json"],
    ],
)
def test_a_wrong_call_is_2_with_a_hint_or_a_reason(arguments: list[str], check) -> None:
    """What cannot be is refused before any plan is checked, on stderr alone."""
    Path("broken.toml").write_text("[tool", encoding="utf-8")
    answer = check("safe", *arguments)
    assert answer.code == 2
    assert answer.out == ""
    assert answer.err.startswith("error: ")


def test_no_plan_is_a_wrong_call(capsys) -> None:
    """Without a path there is nothing to check."""
    assert main(["check", "--no-config"]) == 2
    assert "no plan given" in capsys.readouterr().err


def test_json_is_one_object_for_one_plan_and_an_array_for_several(check) -> None:
    """The shape follows the number of paths; unreadable plans stand in their place."""
    assert check("deadlock", "--format", "json").document["outcome"] == "DEADLOCK"
    answer = check("deadlock broken safe", "--format", "json")
    outcomes = [found["outcome"] for found in answer.document]
    assert outcomes == ["DEADLOCK", None, "SAFE"]
    assert answer.document[1]["error"]["code"] == "PG906"
    assert answer.document[1]["plan"]["file"] == "broken.plan.json"


def test_jsonl_is_one_line_per_plan_in_input_order(check) -> None:
    """Every line is a result, in the order of the paths."""
    answer = check("safe deadlock unknown", "--format", "jsonl")
    found = [json.loads(line)["outcome"] for line in answer.out.splitlines()]
    assert found == ["SAFE", "DEADLOCK", "UNKNOWN"]


def test_results_are_byte_reproducible(check) -> None:
    """With --reproducible two runs write the same bytes, in every format."""
    for form in FORMATS:
        first = check("deadlock unknown safe broken", "--format", form, "--reproducible")
        again = check("deadlock unknown safe broken", "--format", form, "--reproducible")
        assert first.out == again.out


def test_outputs_are_written_beside_the_terminal_and_announced(check) -> None:
    """Every -o writes its file, says so on stderr, and names a command that opens it."""
    wanted = {form: f"out.{form}" for form in FORMATS}
    options = [part for form, file in wanted.items() for part in ("-o", f"{form}={file}")]
    answer = check("deadlock", *options)
    assert answer.code == 1
    assert answer.out.startswith("error[PG001]")
    for form, file in wanted.items():
        assert Path(file).stat().st_size > 0
        (line,) = [text for text in answer.err.splitlines() if f"wrote {file} ({form})" in text]
        command = shlex.split(line.partition("see it with: ")[2])
        assert command[-1] == file
    assert main(["explain", "out.json"]) == 0
    assert not list(Path().glob("*.tmp"))


def test_an_existing_file_is_kept_unless_forced(check) -> None:
    """Without --force nothing is checked and nothing written; with it the file is replaced."""
    Path("out.json").write_text("mine", encoding="utf-8")
    answer = check("deadlock", "-o", "json=out.json")
    assert answer.code == 2
    assert "--force" in answer.err
    assert Path("out.json").read_text(encoding="utf-8") == "mine"
    assert check("deadlock", "-o", "json=out.json", "--force").code == 1
    assert json.loads(Path("out.json").read_text(encoding="utf-8"))["outcome"] == "DEADLOCK"


def test_a_file_that_cannot_be_written_leaves_nothing_behind(check) -> None:
    """An output folder that does not exist is refused, and no draft remains."""
    answer = check("deadlock", "-o", "json=nowhere/out.json")
    assert answer.code == 2
    assert not Path("nowhere").exists()
    assert not list(Path().glob("*.tmp"))


@pytest.mark.parametrize(
    ("environment", "arguments", "colored"),
    [
        ({}, [], False),
        ({}, ["--color", "always"], True),
        ({"FORCE_COLOR": "1"}, [], True),
        ({"FORCE_COLOR": "1"}, ["--color", "never"], False),
        ({"FORCE_COLOR": "0"}, [], False),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, [], False),
        ({"NO_COLOR": "1"}, ["--color", "always"], True),
    ],
)
def test_color_where_it_was_asked_for(environment, arguments, colored, check, monkeypatch) -> None:
    """--color decides, then NO_COLOR, then FORCE_COLOR, then whether it is a terminal."""
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert ("\x1b[" in check("deadlock", *arguments).out) is colored


def test_files_have_no_color(check) -> None:
    """Color is for the terminal: a text file never has any."""
    check("deadlock", "--color", "always", "-o", "text=out.txt")
    assert "\x1b[" not in Path("out.txt").read_text(encoding="utf-8")


def test_planner_output_is_named_as_given(check) -> None:
    """A plan that an adapter made carries the path of its input."""
    Path("s.csv").write_text("0F0,0SEND_F0\n1RECV_F0,1F0\n", encoding="utf-8")
    answer = check("", "s.csv", "--format", "json")
    assert answer.document["plan"]["file"] == "s.csv"


def test_the_verdict_line_is_last(check) -> None:
    """Text and concise end with the verdict, for one plan, several, and refused ones."""
    for names in CODES:
        for form in ("text", "concise"):
            *_, last = check(names, "--format", form).out.splitlines()
            assert last.startswith("verdict: ")


def test_a_safe_plan_that_does_not_pass_says_why(tmp_path, capsys) -> None:
    """SAFE with exit code 1 names, in the verdict line, what fails it: alone and among others."""
    builder = PlanBuilder(2, model="gloo")
    for rank in range(2):
        builder.program(rank).add(op="all_reduce", group="world", work="w", async_=True)
    file = tmp_path / "dropped.plan.json"
    file.write_bytes(builder.build().source)
    for words, said in (
        ([str(file)], "verdict: SAFE   model gloo   not passed: 2 errors (PG301)"),
        ([str(file), str(file)], "verdict: SAFE   of 2 plans: 2 safe but not passed"),
        ([str(file), "--format", "github"], "not passed: 2 errors (PG301)"),
    ):
        assert main(["check", *words]) == 1
        out = capsys.readouterr()
        assert (out.err or out.out).splitlines()[-1].endswith(said)
    assert main(["check", str(file), "--fail-on", "note", "--quiet", "--exit-zero"]) == 0


ALGORITHM = Path(__file__).parents[2] / "tests/samples/msccl/hierarchical-8x2.xml"


@pytest.mark.parametrize(("slots", "code"), [("1", 1), ("8", 0)])
def test_an_option_of_the_adapter_decides(slots: str, code: int) -> None:
    """``--option`` reaches the adapter: the two-level all-reduce hangs with one slot only."""
    assert main(["check", str(ALGORITHM), "--option", f"slots={slots}", "--quiet"]) == code


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (["slot=8"], 2, "did you mean 'slots'?"),
        (["slots=many"], 2, "option slots of the msccl adapter is 'many'"),
        (["slots=1", "slots=2"], 2, "--option slots is given twice"),
        (["builder=1"], 2, "the msccl adapter has no option 'builder'"),
        (["self=1"], 2, "the msccl adapter has no option 'self'"),
    ],
)
def test_an_option_that_cannot_be_is_refused(options, code, words, capsys) -> None:
    """An unknown option, an impossible value and one given twice are bad input."""
    given = [part for option in options for part in ("--option", option)]
    assert main(["check", str(ALGORITHM), *given]) == code
    said = capsys.readouterr()
    assert words in said.out + said.err


def test_an_option_named_as_the_input_is_refused(capsys) -> None:
    """``--option obj=...`` is wrong usage: that name is the input's."""
    assert main(["check", str(ALGORITHM), "--option", "obj=1"]) == 2
    assert "'obj=1' is no NAME=VALUE" in capsys.readouterr().err


@pytest.mark.parametrize("form", FORMATS)
def test_a_plan_that_is_not_there_is_a_result_in_every_format(form: str, capsys) -> None:
    """Whose results go to a file or to a program finds there every plan that was not read; stderr
    has no word of its own about it.
    """
    assert main(["check", "no-such.plan.json", "--format", form]) == 2
    said = capsys.readouterr()
    assert "no-such.plan.json" in said.out
    assert "PG901" in said.out
    assert "error" not in said.err


def test_a_plan_file_takes_no_option_of_an_adapter(check) -> None:
    """An option that nothing reads is an error, not silence."""
    answer = check("safe", "--option", "slots=1")
    assert answer.code == 2
    assert "option slots is for adapters" in answer.out


@pytest.mark.parametrize("form", FORMATS)
def test_a_file_name_need_not_be_utf_8(form: str, plan_files, capsysbinary) -> None:
    """A file name in another encoding is read, and written in every format."""
    name = os.fsdecode(b"h\xe4ngt.plan.json")
    Path(*plan_files("deadlock")).rename(name)
    assert main(["check", name, "--format", form]) == 1
    capsysbinary.readouterr().out.decode("utf-8")
