"""What the command line refuses: in two lines, and with what was meant."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from planguard.cli import main

PLAN = {"schema": "planguard.plan/1", "world_size": 2, "ranks": {"0-1": {"actions": []}}}


@pytest.mark.parametrize(
    ("line", "wrong", "hint"),
    [
        ("chexk plan.json", "there is no 'chexk'", "did you mean 'check'?"),
        ("check --modle nccl p", "planguard check has no option --modle", "mean '--model'?"),
        ("check p --bugdet=3s", "planguard check has no option --bugdet", "mean '--budget'?"),
        ("check --format jsn p", "--format: there is no 'jsn'", "did you mean 'json'?"),
        ("check --color no p", "--color: there is no 'no'", "one of auto, always, never"),
        ("check --budget soon p", "--budget: a duration is", "planguard check --help"),
        ("check --model ncll p", "unknown execution model", "did you mean 'nccl'?"),
        ("check --select PG0001 p", "unknown finding code", "nearest: PG001"),
        ("doctor now", "planguard doctor takes no further argument: 'now'", "doctor --help"),
        ("report", "required: PLAN", "planguard report --help"),
        ("--versoin", "has no option --versoin", "did you mean '--version'?"),
        ("report p --only color=red -o p.svg", "--only 'color=red'", "fields: family"),
        ("report p --only group=g", "--only is of the matrix, not of text", "-o matrix.svg"),
    ],
)
def test_a_wrong_word_is_named_with_what_was_meant(line, wrong, hint, capsys):
    """A typo gives exit code 2 and two lines: what is wrong, and what was meant."""
    assert main(line.split()) == 2
    said = capsys.readouterr()
    first, second = said.err.splitlines()
    assert said.out == ""
    assert first.startswith("error: ")
    assert wrong in first
    assert second.startswith("hint: ")
    assert hint in second


@pytest.mark.parametrize("path", ["nowhere/file.json", "."])
def test_an_output_that_cannot_be_written_is_named_as_given(path, capsys, tmp_path, monkeypatch):
    """The message names the file that was asked for, never a draft beside it; nothing is left."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.json").write_text(json.dumps(PLAN))
    assert main(["check", "p.json", "-o", f"json={path}"]) == 2
    said = capsys.readouterr().err
    assert "tmp" not in said.replace(str(tmp_path), "")
    assert [one.name for one in tmp_path.iterdir()] == ["p.json"]


def test_a_plan_can_be_piped_in():
    """`planguard check -` decides what stands on standard input, and says so when it is empty."""
    ends = [[{"op": op, "peer": peer, "bytes": 4} for op in ("send", "recv")] for peer in (1, 0)]
    ranks = {str(rank): {"actions": actions} for rank, actions in enumerate(ends)}
    found = piped(json.dumps({**PLAN, "ranks": ranks}))
    assert found.returncode == 1, found.stderr
    assert found.stdout.startswith("-:rank0:0: error[PG001]")
    empty = piped(" \n")
    assert empty.returncode == 2
    assert "standard input is empty" in empty.stdout


def piped(text: str) -> subprocess.CompletedProcess[str]:
    """Check what is piped in, in a process of its own."""
    command = [sys.executable, "-m", "planguard", "check", "-", "--format", "concise"]
    return subprocess.run(
        command, input=text, capture_output=True, text=True, timeout=60, check=False
    )


def test_an_early_interrupt_is_one_line():
    """Ctrl-C while the command line is still imported gives 130 and one word, no traceback."""
    script = (
        "import os, signal, sys\n"
        "class Finder:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'planguard.cli':\n"
        "            os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Finder())\n"
        "from planguard.__main__ import main\n"
        "sys.exit(main())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, "--version"], capture_output=True, text=True, timeout=60,
        check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (130, "interrupted\n")


def test_an_interrupt_is_not_lost_in_an_import():
    """Ctrl-C while datetime is imported ends a command with 130; msgspec, which needs datetime,
    would lose it and crash in its first decoder.
    """
    script = (
        "import sys\n"
        "from planguard.cli import main\n"
        "class Finder:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'datetime':\n"
        "            sys.meta_path.remove(self)\n"
        "            raise KeyboardInterrupt\n"
        "assert not {'datetime', 'msgspec'} & set(sys.modules)\n"
        "sys.meta_path.insert(0, Finder())\n"
        "sys.exit(main(['check', '-']))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        input=json.dumps(PLAN), capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (130, "interrupted\n")
