"""What is named on the command line: patterns, folders, and completions for shells."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tarfile
import zipfile
from dataclasses import asdict
from pathlib import Path

import pytest

from planguard.cli import COMMANDS, main
from planguard.cli.paths import expanded
from planguard.options import MODEL_NAMES, CheckOptions
from planguard.screen.checking import answer
from planguard.screen.found import find
from planguard.screen.tasks import Limits, Task
from planguard.screen.travel import packed

ROOT = Path(__file__).resolve().parents[2]
SAFE = {
    "schema": "planguard.plan/1",
    "world_size": 2,
    "ranks": {"0-1": {"actions": [{"op": "all_reduce", "bytes": 4}]}},
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two plans below a folder, a planner's folder, and what is none of it."""
    monkeypatch.chdir(tmp_path)
    Path("runs/deep").mkdir(parents=True)
    for name in ("runs/a.plan.json", "runs/deep/b.plan.json"):
        Path(name).write_text(json.dumps(SAFE))
    Path("runs/notes.txt").write_text("none")
    Path("runs/other.json").write_text("{}")
    shutil.copytree(ROOT / "examples/nnscaler/gpt-pp4", "gen")
    return tmp_path


def test_a_quoted_pattern_is_expanded() -> None:
    """A pattern that the shell left alone stands for its files, sorted, ``**`` included."""
    assert expanded(["runs/*.plan.json"]) == ["runs/a.plan.json"]
    assert expanded(["runs/**/*.plan.json"]) == ["runs/a.plan.json", "runs/deep/b.plan.json"]
    assert main(["check", "-q", "runs/**/*.plan.json"]) == 0


def test_a_folder_stands_for_its_plan_files_or_for_itself() -> None:
    """Of a folder the plan files below it are checked; a folder that an adapter reads is a plan."""
    assert expanded(["runs"]) == ["runs/a.plan.json", "runs/deep/b.plan.json"]
    assert expanded(["gen"]) == ["gen"]
    assert expanded(["runs"], "nnscaler") == ["runs"]
    assert expanded(["r*ns", "runs/a.plan.json"])[-1] == "runs/a.plan.json"
    assert main(["check", "-q", "runs"]) == 0


def test_a_file_whose_name_looks_like_a_pattern_is_that_file() -> None:
    """``a[1].plan.json`` is the file of that name where there is one."""
    Path("a[1].plan.json").write_text(json.dumps(SAFE))
    assert expanded(["a[1].plan.json"]) == ["a[1].plan.json"]


def test_what_stands_for_nothing_is_one_clear_error(capsys) -> None:
    """A pattern without a match, an empty folder and a missing file: exit code 2, each told."""
    Path("empty").mkdir()
    for given, said in [("x*.json", "nothing matches"), ("empty", "a folder"), ("no", "no such")]:
        assert main(["check", given]) == 2
        assert said in capsys.readouterr().out


def test_a_mixed_folder_is_screened_whole(capsys) -> None:
    """Plan files in one subfolder do not hide trials in another: all are screened by what they are,
    parameters are none, and what is no trial is counted and listed.
    """
    for number in range(3):
        trial = Path(f"trials/t{number}")
        trial.mkdir(parents=True)
        good = (ROOT / "examples/pipelining/interleaved1f1b-4x8.csv").read_bytes()
        (trial / "schedule.csv").write_bytes(good if number else b"broken")
        (trial / "params.json").write_text(json.dumps({"number": number}))
    shutil.copytree("runs", "trials/plans")
    shutil.copytree("gen", "trials/gen")
    Path("trials/.git").mkdir()
    words = ["screen", "trials", "-q", "--executor", "inline", "--format", "json"]
    assert main(words) == 2
    said = capsys.readouterr()
    document = json.loads(said.out)
    assert document["trials"] == {"SAFE": 4, "DEADLOCK": 1, "UNKNOWN": 1}
    assert document["refused"] == 1  # t0, which is called like the others
    left = ["trials/.git", "trials/plans/notes.txt", "trials/plans/other.json"]
    assert document["skipped"] == left
    assert "in 3 files: trials/.git, trials/plans/notes.txt" in " ".join(said.err.split())
    assert main(["screen", "trials/t[12]/*", "-q", "--executor", "inline"]) == 0
    assert "SAFE                       2" in capsys.readouterr().out


def test_an_archive_is_checked_like_its_folder(capsys, folder: Path) -> None:
    """Packed, a folder has the findings that it has unpacked: codes, messages, places, exit code;
    nothing tells where it was unpacked.
    """
    trial = Path("trials/t0")
    trial.mkdir(parents=True)
    shutil.copy(ROOT / "examples/pipelining/pytorch-172668.csv", trial / "schedule.csv")
    shutil.copytree("runs", "trials/plans")
    Path("trials/lines.jsonl").write_text(json.dumps(SAFE) + "\nbroken\n")
    with tarfile.open("trials.tar.gz", "w:gz") as tape:
        tape.add("trials", arcname=".")
    said = []
    for given in ("trials", "trials.tar.gz", str(folder / "trials.tar.gz")):
        assert main(["check", given, "--format", "concise"]) == 2
        out, err = capsys.readouterr()
        assert "planguard-trials" not in out + err
        assert "5 plans; 2 other files" in err
        # The seconds of the closing line are the machine's.
        said.append(
            sorted(re.sub(r" in [0-9.]+ s:", ":", out.replace(f"{given}/", "")).splitlines())
        )
    assert said[0] == said[1]
    assert any(line.startswith("t0/schedule.csv") for line in said[0]), said[0]
    assert any(line.startswith("lines.jsonl:2:") for line in said[0]), said[0]
    assert Path.cwd() == folder


def test_a_plan_inside_another_file_is_not_written_beside(capsys) -> None:
    """Nothing is repaired in place there; an archive and a file of lines are inputs to guard."""
    with zipfile.ZipFile("runs.zip", "w") as file:
        file.write("runs/a.plan.json", "a.plan.json")
    Path("runs.jsonl").write_text(json.dumps(SAFE) + "\n" + json.dumps(SAFE))
    for given in ("runs.zip", "runs.jsonl"):
        before = Path(given).read_bytes()
        assert main(["check", "-q", given]) == 0
        assert main(["check", "-q", given, "--fix"]) == 2
        assert "inside another file" in capsys.readouterr().err
        for words in (["check", "-o", f"json={given}"], ["screen", "--export", given]):
            assert main([words[0], given, "-q", "--force", *words[1:]]) == 2
        assert Path(given).read_bytes() == before


def test_a_hostile_archive_is_one_refusal_among_the_others(capsys) -> None:
    """Damaged archives and names that lead out are told, and the rest is decided."""
    Path("cut.zip").write_bytes(b"PK\x03\x04 and then nothing")
    with zipfile.ZipFile("out.zip", "w") as file:
        file.write("runs/a.plan.json", "../../out.plan.json")
    with zipfile.ZipFile("bent.zip", "w", zipfile.ZIP_DEFLATED) as file:
        file.write("runs/a.plan.json", "a.plan.json")
    bent = bytearray(Path("bent.zip").read_bytes())
    bent[43:60] = bytes(17)  # the compressed bytes
    Path("bent.zip").write_bytes(bent)
    given = ["cut.zip", "out.zip", "bent.zip", "runs/a.plan.json"]
    assert main(["check", *given, "--format", "concise"]) == 2
    lines = capsys.readouterr().out.splitlines()
    assert "cut.zip: error[PG901] cut.zip: cannot be unpacked" in lines[0]
    assert "no plan is in it" in lines[1]
    assert "bent.zip: cannot be unpacked" in lines[2]
    assert "1 safe" in lines[-1]
    assert not Path("../out.plan.json").exists()


def test_an_output_inside_a_screened_folder_is_no_input(capsys) -> None:
    """A file that was looked at and passed over may be written again with --force."""
    words = ["screen", "runs", "-q", "--executor", "inline", "--export", "runs/rows.csv"]
    for _ in range(2):
        assert main([*words, "--force"]) == 0, capsys.readouterr()
    assert main(["check", "-q", "runs", "-o", "sarif=runs/notes.txt", "--force"]) == 0
    assert main(["screen", "runs/a.plan.json", "runs/params.json", "-q"]) == 2


def test_what_cannot_be_looked_into_is_listed() -> None:
    """A second name of a folder and a link in a circle are passed over with a word, once each."""
    Path("runs/again").symlink_to("deep")
    Path("runs/deep/up").symlink_to("..")
    found = find("runs")
    assert len(found.trials) == 2
    left = {Path(path).name for path in found.skipped}
    assert {"notes.txt", "other.json"} < left
    assert left & {"again", "deep"}
    assert "up" in left


@pytest.mark.parametrize("given", ["runs/a.plan.json", "../here/runs/a.plan.json", "absolute"])
def test_bytes_that_travelled_are_read_where_the_file_is_not(given: str, folder: Path) -> None:
    """A task that was packed is read, under the name that was given, when the file is gone."""
    here = folder / "here"
    here.mkdir()
    shutil.move("runs", here / "runs")
    os.chdir(here)
    given = str(here / "runs/a.plan.json") if given == "absolute" else given
    options = asdict(CheckOptions())
    task = Task(0, os.fsencode(given), b"", "", options, sign=False, decide=True, limits=Limits())
    sent = packed(task)
    os.chdir(folder)
    assert answer(sent).outcome == "SAFE"
    shutil.rmtree(here)
    assert answer(sent).outcome == "SAFE"
    assert answer(task).end == "refused"
    assert Path.cwd() == folder


def test_a_folder_without_any_trial_is_an_error(capsys) -> None:
    """A folder in which nothing is recognized is told with the number of its files."""
    Path("logs").mkdir()
    Path("logs/a.log").write_text("text")
    Path("logs/b.jsonl").write_text('{"step": 1}\n')
    assert main(["screen", "logs", "-q"]) == 2
    assert "2 looked at, none is a plan" in capsys.readouterr().err


ASKED = {
    "bash": "source {script}; COMP_WORDS=(planguard check --model ''); COMP_CWORD=3; "
    "_shtab_planguard; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
    # As a person types it: a terminal of its own, until the last name has been listed.
    "zsh": "zmodload zsh/zpty; zpty z zsh -f -i; "
    "zpty -w z 'fpath=({script.parent} $fpath); autoload -U compinit; compinit -u -D'; "
    "zpty -w -n z $'planguard check --model \\t'; "
    "repeat 400; do while zpty -rt z out; do print -rn -- $out; all+=$out; done; "
    "[[ $all == *nccl-serialized* ]] && break; sleep 0.05; done; zpty -d z",
    "fish": "source {script}; complete -C 'planguard check --model '",
}
"""What lists the values of ``check --model`` in a shell that has loaded the script."""


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completions_name_every_command_and_option(shell: str, capsys, tmp_path) -> None:
    """The script names the commands and their options; its shell, where there is one, loads it and
    lists the execution models.
    """
    pytest.importorskip("shtab", reason="the extra completion is not installed")
    assert main(["complete", shell]) == 0
    script = capsys.readouterr().out
    assert all(entry.name in script for entry in COMMANDS)
    for option in ("write-baseline", "certificate", "export", "stacks"):
        assert option in script
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell} here to load it")
    file = tmp_path / "_planguard"  # the name by which zsh finds it
    file.write_text(script)
    command = ASKED[shell].format(script=file)
    done = subprocess.run(
        [shell, "-c", command], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert all(name in done.stdout for name in (*MODEL_NAMES, "all")), done.stdout
