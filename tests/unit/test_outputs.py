"""What is written: never over an input, whole or not at all, whatever the machine does."""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from planguard import files
from planguard.cli import COMMANDS, main
from planguard.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).resolve().parents[2]
DEADLOCK = {
    "schema": "planguard.plan/1",
    "world_size": 2,
    "ranks": {
        str(rank): {
            "actions": [{"op": op, "peer": 1 - rank, "bytes": 4} for op in ("send", "recv")]
        }
        for rank in (0, 1)
    },
}
SAFE = {
    "schema": "planguard.plan/1",
    "world_size": 2,
    "ranks": {"0-1": {"actions": [{"op": "all_reduce", "bytes": 4}]}},
}
WRITES: dict[tuple[str, str], list[str]] = {
    ("check", "--output"): ["check", "-q", "IN", "-o", "json=OUT"],
    ("check", "--fix"): ["check", "-q", "IN", "--fix", "-o", "plan=OUT"],
    ("check", "--certificate"): ["check", "-q", "IN", "--certificate", "OUT"],
    ("check", "--write-baseline"): ["check", "-q", "IN", "--write-baseline", "OUT"],
    ("convert", "--output"): ["convert", "IN", "-o", "OUT"],
    ("report", "--output"): ["report", "IN", "--format", "text", "-o", "OUT"],
    ("replay", "--script"): ["replay", "IN", "--script", "OUT"],
    ("audit", "--output"): ["audit", "-q", "IN", "-o", "json=OUT"],
    ("screen", "--export"): ["screen", "IN", "-q", "--executor", "inline", "--export", "OUT"],
    ("screen", "--blocked"): ["screen", "IN", "-q", "--executor", "inline", "--blocked", "OUT"],
    ("screen", "--store"): ["screen", "IN", "-q", "--executor", "inline", "--store", "OUT"],
}
"""A command line for every option that writes a file; it takes --force."""
FOLDERS = {("dryrun", "--output")}
"""Options that write into a folder, which must be empty or new."""
READS = {
    ("check", "--baseline"), ("check", "--config"), ("audit", "--plan"), ("audit", "--stacks"),
    ("audit", "--watch"), ("audit", "--repo"), ("dryrun", "--plan"),
    ("precheck", "--baseline"), ("precheck", "--config"), ("precheck", "--lengths"),
    ("precheck", "--steps-per-rank"), ("screen", "--params"),
}  # fmt: skip
AS_CHECK = {("precheck", "--output"), ("precheck", "--write-baseline")}
"""Options that ``check`` adds to another command (``cli.check.add_output``, ``add_gate``)."""
NEW = {("precheck", "--fix"), ("precheck", "--patch"), ("guard", "--report")}
"""A file that must be new, through the same door; asked with a script that is played or a job, in
``integration/test_precheck_command.py`` and ``test_guard_command.py``.
"""
CASES = pytest.mark.parametrize("words", WRITES.values(), ids=["-".join(key) for key in WRITES])


@pytest.fixture(autouse=True)
def plans(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty folder with three inputs."""
    monkeypatch.chdir(tmp_path)
    Path("bad.plan.json").write_text(json.dumps(DEADLOCK))
    Path("good.plan.json").write_text(json.dumps(SAFE))
    with zipfile.ZipFile(ROOT / "tests/corpus/dumps/head_to_head_send.zip") as packed:
        name = next(name for name in packed.namelist() if name.endswith("rank_0.pickle"))
        Path("rank_0.pickle").write_bytes(packed.read(name))


def line(words: list[str], out: str, *more: str) -> list[str]:
    """Return a command line on the input that makes the option write."""
    given = "good.plan.json" if "--certificate" in words else "bad.plan.json"
    given = "rank_0.pickle" if words[0] == "audit" else given
    if "--export" in words and not out.endswith(".csv"):
        words = [*words[:-2], "--export", "OUT"]
    filled = [word.replace("IN", given, 1) if word == "IN" else word for word in words]
    return [word.replace("OUT", out) for word in filled] + list(more)


def source(words: list[str]) -> Path:
    """Return the input of a command line."""
    return Path(
        next(word for word in line(words, "x") if word.endswith((".plan.json", "rank_0.pickle")))
    )


def parsers() -> Iterator[tuple[str, argparse.Action]]:
    """Yield every option of every command."""
    for entry in COMMANDS:
        parser = argparse.ArgumentParser()
        entry.load().add_arguments(parser)
        for action in parser._actions:
            if action.option_strings:
                yield entry.name, action


def test_every_option_that_names_a_file_is_known_here() -> None:
    """Whoever adds an option that names a file must say here whether it writes, and is asked."""
    named = re.compile(r"FILE|DIR|OUT|PLAN|PATH")
    found = {
        (name, next(word for word in action.option_strings if word.startswith("--")))
        for name, action in parsers()
        if named.search(str(action.metavar)) or action.dest == "fix"
    }
    assert found == {*WRITES, *FOLDERS, *READS, *AS_CHECK, *NEW}


def test_nothing_else_opens_a_file_for_writing() -> None:
    """Outputs go through planguard.files; whatever else opens files is listed, with its reason."""
    known = {
        "planguard/replay/launch.py": "scratch files of a run, in a folder of its own",
        "planguard/replay/pool.py": "the same",
        "planguard/replay/script/watch.py": "a standalone script",
        "planguard/screen/travel.py": "scratch files of a worker, in a folder of its own",
        "planguard/screen/tracked.py": "a copy of a study's store, in a folder of its own",
        "planguard/screen/archives.py": "what an archive holds, in a folder of its own",
        "planguard/testing.py": "writes into a folder that it made",
        "planguard/capture/run/log.py": "a log that grows while the job runs; O_EXCL",
        "planguard/capture/play/processes.py": "os.devnull",
        "planguard/capture/play/journal.py": "claims of what a play writes, in a folder of its own",
        "planguard/capture/batches/asked.py": "scratch files of a play, in a folder of its own",
        "planguard/capture/batches/kept.py": "scratch files of a play, in a folder of its own",
        "planguard/capture/batches/results.py": "scratch files of a play, in a folder of its own",
        "planguard/cli/precheck.py": "os.devnull",
        "planguard/capture/play/script.py": "scratch files of a play, in a folder of its own",
        "planguard/capture/values/own_files.py": "opens nothing so; asks whether the program does",
        "planguard/capture/values/own_unseen.py": "opens nothing so; hears of the program",
        "planguard/capture/values/other_files.py": "an archive in memory",
        "planguard/capture/batches/ways.py": "scratch files of a play, in a folder of its own",
        "planguard/audit/readers/helpers.py": "a pipe",
        "planguard/cli/__init__.py": "the standard streams",
        "planguard/files/__init__.py": "the one place",
        "planners/alpa/hook.py": "standalone: copied beside a script",
        "planners/deepspeed/hook.py": "the same",
        "planners/megatron/recorder.py": "the same",
    }
    writing = re.compile(
        r"\.write_(text|bytes)\(|open\([^)\n]*[\"'][wax]b?\+?[\"']|O_CREAT|O_WRONLY|"
        r"copyfile\(|copytree\(|fdopen\([^)\n]*w"
    )
    found = {
        str(path.relative_to(ROOT))
        for folder in ("planguard", "planners")
        for path in (ROOT / folder).rglob("*.py")
        if writing.search(path.read_text(encoding="utf-8"))
    }
    assert found - {"planguard/screen/worker.py", "planguard/files/inputs.py"} == set(known)


def aliases(original: Path) -> dict[str, str]:
    """Return other names of a file."""
    Path("sub").mkdir()
    Path("sub/link").symlink_to(original.absolute())
    Path("again").symlink_to("sub/link")
    Path("hard").hardlink_to(original)
    Path("here").symlink_to(".")
    return {
        "itself": str(original),
        "absolute": str(original.absolute()),
        "relative": f"sub/../{original}",
        "link": "sub/link",
        "link to a link": "again",
        "hard link": "hard",
        "linked folder": f"here/{original}",
    }


@CASES
def test_no_option_writes_over_its_input(words: list[str], capsys) -> None:
    """--force or not, under any name of the input: exit code 2, and the input keeps its bytes."""
    original = source(words)
    before = original.read_bytes()
    for title, name in aliases(original).items():
        out = name
        if "--export" in words:  # its suffix says what it writes
            out = f"{Path(name).name}.csv"
            Path(out).unlink(missing_ok=True)
            Path(out).hardlink_to(original)
        for force in ((), ("--force",)):
            code = main(line(words, out, *force))
            assert code == 2, (title, force, capsys.readouterr())
            assert original.read_bytes() == before, title
    assert not list(Path().rglob(".planguard-*"))


@CASES
@pytest.mark.parametrize("kind", ["folder", "dangling", "fifo", "device", "no folder", "long"])
def test_what_is_no_file_is_refused_before_any_work(words: list[str], kind: str, capsys) -> None:
    """A folder, a link to nowhere, a pipe, a device, a missing folder, a name that is too long: one
    error with a hint, exit code 2, nothing blocks and nothing is left behind.
    """
    end = ".csv" if "--export" in words else ""
    out = f"out{end}"
    if kind == "folder":
        Path(out).mkdir()
        if "--certificate" in words:
            pytest.skip("a folder is a place for certificates")
    elif kind == "dangling":
        Path(out).symlink_to("nowhere")
    elif kind == "fifo":
        os.mkfifo(out)
    elif kind == "device":
        Path(out).symlink_to("/dev/full")
    elif kind == "no folder":
        out = f"nodir/{out}"
    else:
        out = "x" * 300 + end
    listed = sorted(Path().iterdir())
    assert main(line(words, out, "--force")) == 2
    said = capsys.readouterr()
    assert said.err.startswith("error: ")
    assert "PG999" not in said.err
    assert sorted(Path().iterdir()) == listed


@CASES
def test_an_output_that_exists_is_kept_without_force(words: list[str], capsys) -> None:
    """Without --force what is there stays; with it, it is replaced, and keeps its mode."""
    out = Path("out.csv" if "--export" in words else "out")
    out.write_text("mine")
    out.chmod(0o640)
    assert main(line(words, str(out))) == 2
    assert "--force" in capsys.readouterr().err
    assert out.read_text() == "mine"
    if "--store" in words:  # what is no store is not even replaced with --force
        assert main(line(words, str(out), "--force")) == 2
        assert out.read_text() == "mine"
        return
    assert main(line(words, str(out), "--force")) in (0, 1, 3), capsys.readouterr()
    assert out.read_bytes() != b"mine"
    assert out.stat().st_mode & 0o777 == 0o640


def test_a_link_to_another_file_is_followed() -> None:
    """--force through a link replaces the file at its end, and the link stays a link."""
    Path("real").write_text("old")
    Path("link").symlink_to("real")
    assert main(["convert", "bad.plan.json", "-o", "link", "--force"]) == 0
    assert Path("link").is_symlink()
    assert "planguard.plan/1" in Path("real").read_text()


def test_what_an_adapter_read_beside_its_input_is_an_input(monkeypatch) -> None:
    """The files of other ranks, which only the adapter knows, are not written over either."""
    import planguard.api

    Path("other").write_text("of rank 1")
    real = planguard.api.load

    def load(*given, **options):
        Path("other").read_text()
        return real(*given, **options)

    monkeypatch.setattr(planguard.api, "load", load)
    assert main(["convert", "bad.plan.json", "-o", "other", "--force"]) == 2
    assert Path("other").read_text() == "of rank 1"


def test_two_outputs_are_not_one_file(capsys) -> None:
    """Two options that name one file, by whatever spelling, are refused before any work."""
    assert main(["check", "bad.plan.json", "-q", "-o", "json=x", "-o", "sarif=./x"]) == 2
    assert "named twice" in capsys.readouterr().err
    assert main(["check", "bad.plan.json", "-q", "-o", "json=x", "--write-baseline", "x"]) == 2
    assert not Path("x").exists()


# --- a full disk, a read-only one ----------------------------------------------------------------


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """A function that mounts a tmpfs of 64 KiB with options; skips where mounting is refused."""
    place = tmp_path / "disk"
    place.mkdir()

    def mount(options: str) -> Path:
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", options, "none", str(place)],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            pytest.skip(f"mount is refused: {done.stderr.strip()}")
        return place

    try:
        yield mount
    finally:
        subprocess.run(["umount", "-l", str(place)], capture_output=True, check=False)


def fill(path: Path) -> None:
    """Write until the disk is full."""
    with path.open("wb", 0) as rest:
        while True:
            try:
                rest.write(b"\0" * 1024)
            except OSError:
                return


@CASES
def test_a_full_disk_ends_in_one_line_and_loses_nothing(words: list[str], disk, capsys) -> None:
    """No room for the new file: exit code 2 and one line that names it; the old one is whole."""
    place = disk("size=64k")
    out = place / ("out.csv" if "--export" in words else "out")
    if "--store" not in words:
        out.write_text("mine")
    fill(place / "rest")
    before = sorted(path.name for path in place.iterdir())
    assert main(line(words, str(out), "--force")) == 2
    said = capsys.readouterr()
    errors = [text for text in said.err.splitlines() if text.startswith(("error", "internal"))]
    assert len(errors) == 1
    assert str(out) in errors[0]
    assert re.search("No space|disk is full|database", errors[0])
    if "--store" not in words:
        assert out.read_text() == "mine"
        assert sorted(path.name for path in place.iterdir()) == before


@CASES
def test_a_read_only_disk_is_told_before_any_work(words: list[str], disk, capsys) -> None:
    """A read-only folder: exit code 2 and one error, before a plan is checked."""
    place = disk("size=64k,ro")
    out = place / ("out.csv" if "--export" in words else "out")
    assert main(line(words, str(out), "--force")) == 2
    said = capsys.readouterr()
    assert "read-only" in said.err.lower()
    assert said.out == ""


def test_a_draft_that_fails_leaves_no_trace() -> None:
    """An exception while a file is written: what was there is there, and the draft is gone."""
    Path("out").write_text("mine")

    def fail() -> None:
        with files.Draft(files.target("out")) as draft:
            draft.binary.write(b"half")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert Path("out").read_text() == "mine"
    assert not list(Path().glob(".planguard-*"))
    files.write("new", "whole")
    with pytest.raises(UsageError):
        files.target("new", force=False)


# --- the standard streams ------------------------------------------------------------------------


def shell(text: str, timeout: float = 60.0) -> subprocess.CompletedProcess[str]:
    """Run a shell line in which ``planguard`` is this installation."""
    program = f'planguard() {{ "{sys.executable}" -m planguard "$@"; }}\n'
    return subprocess.run(
        ["bash", "-c", program + text], capture_output=True, text=True, timeout=timeout, check=False
    )


@pytest.mark.parametrize(
    "words",
    [
        "check --format json bad.plan.json",
        "check bad.plan.json",
        "convert bad.plan.json",
        "report bad.plan.json",
        "screen bad.plan.json -q --executor inline --format json",
        "explain --list",
        "schema plan",
        "--help",
        "--version",
    ],
)
def test_a_full_or_closed_stdout_is_2_and_one_line(words: str) -> None:
    """A result that did not arrive is no success: > /dev/full and >&- exit with 2, one line."""
    for where, reason in (("> /dev/full", "No space"), (">&-", "Bad file descriptor")):
        done = shell(f"planguard {words} {where}")
        assert done.returncode == 2, (where, done)
        told = [text for text in done.stderr.splitlines() if not text.startswith("screened")]
        assert len(told) == 1, done
        assert told[0].startswith("error: standard output: ")
        assert reason in told[0]


def test_a_closed_stderr_does_not_spoil_stdout() -> None:
    """Messages for a closed or full standard error are lost, and never end on standard output."""
    done = shell("planguard check --format json bad.plan.json -o sarif=out 2>&-")
    assert done.returncode == 1
    json.loads(done.stdout)
    assert shell("planguard check nothing.plan.json 2>&-").returncode == 2


def test_a_reader_that_leaves_ends_the_command_quietly() -> None:
    """``| head -1`` sees its line and nobody sees a traceback; the code is that of SIGPIPE."""
    done = shell("planguard explain --list | head -1; echo ${PIPESTATUS[0]}")
    assert done.stderr == ""
    assert done.stdout.splitlines()[-1] in {"0", "141"}
    gone = shell("planguard explain --list | true; echo ${PIPESTATUS[0]}")
    assert gone.stderr == ""


def test_a_format_goes_to_stdout_by_a_dash(capsys) -> None:
    """``-o sarif=-`` prints that format, makes no file ``-``, and goes with no other format."""
    assert main(["check", "bad.plan.json", "-o", "sarif=-"]) == 1
    assert json.loads(capsys.readouterr().out)["version"] == "2.1.0"
    assert main(["check", "bad.plan.json", "-o", "sarif=-", "--format", "json"]) == 2
    assert main(["check", "bad.plan.json", "--certificate", "-"]) == 2
    assert main(["check", "bad.plan.json", "-q", "--fix", "-o", "plan=-"]) == 2
    assert main(["convert", "bad.plan.json", "-o", "-"]) == 0
    assert not Path("-").exists()


@pytest.mark.parametrize("kind", ["fifo", "socket", "device", "dangling"])
@pytest.mark.parametrize(
    "words",
    ["check", "convert", "report", "screen -q --executor inline", "replay", "explain", "audit"],
)
def test_an_input_that_is_no_file_is_refused_at_once(words: str, kind: str, capsys) -> None:
    """A pipe, a socket, a device or a link to nowhere does not block: exit code 2 in seconds."""
    import socket

    name = Path("odd.plan.json")
    with socket.socket(socket.AF_UNIX) as held:
        if kind == "fifo":
            os.mkfifo(name)
        elif kind == "socket":
            held.bind(str(name))
        else:
            name.symlink_to("/dev/zero" if kind == "device" else "nowhere")
        started = time.monotonic()
        assert main([*words.split(), str(name)]) == 2
    assert time.monotonic() - started < 20
    said = capsys.readouterr()
    assert "PG999" not in said.err + said.out


def test_defects_of_the_machine_are_not_defects_of_planguard(monkeypatch, capsys) -> None:
    """An OSError, also one without a file, and a lack of memory are told as what they are."""
    import errno

    import planguard.cli.schema as command

    class Fails:
        def __init__(self, error: BaseException) -> None:
            self.error = error

        def __call__(self, *_: object) -> int:
            raise self.error

    for error, code in [
        (OSError(errno.EMFILE, "Too many open files"), 2),
        (OSError(errno.ENOSPC, "No space left on device", "x"), 2),
        (PermissionError(errno.EACCES, "Permission denied", "y"), 2),
        (MemoryError(), 2),
        (KeyboardInterrupt(), 130),
        (BrokenPipeError(), 141),
        (ZeroDivisionError("ours"), 4),
    ]:
        monkeypatch.setattr(command.Schema, "run", Fails(error))
        assert main(["schema", "plan"]) == code, error
        said = capsys.readouterr().err
        assert ("PG999" in said) == (code == 4)


@pytest.mark.parametrize("damage", ["tail", "middle", "rows", "zeros"])
def test_a_corrupt_store_is_told_and_kept(damage: str, capsys) -> None:
    """A store that is damaged, wherever, is exit code 2 with its name, by every way to read it."""
    import sqlite3

    store = Path("s.db")
    assert main(["screen", "bad.plan.json", "-q", "--executor", "inline", "--store", "s.db"]) == 1
    data = bytearray(store.read_bytes())
    if damage == "rows":
        with sqlite3.connect(store) as db:
            db.execute("UPDATE trials SET params = '{', codes = NULL")
        db.close()
    elif damage == "zeros":
        store.write_bytes(data[:100] + bytes(len(data) - 100))
    elif damage == "tail":
        store.write_bytes(data[: len(data) // 2])
    else:
        store.write_bytes(data[:4096] + b"\xff" * (len(data) - 4096))
    before = store.read_bytes()
    for words in (
        ["screen", "--store", "s.db"],
        ["screen", "--store", "s.db", "--query", "outcome = 'SAFE'"],
        ["report", "s.db"],
        ["report", "s.db", "-o", "page.html"],
        ["screen", "bad.plan.json", "-q", "--executor", "inline", "--store", "s.db", "--resume"],
    ):
        capsys.readouterr()
        code = main(words)
        said = capsys.readouterr().err
        assert "PG999" not in said, (words, said)
        assert code == 2 or (damage == "rows" and "--query" in words), (words, code, said)
    if damage != "rows":
        assert store.read_bytes()[:4096] == before[:4096]


def test_starting_a_store_anew_is_one_transaction() -> None:
    """--force empties a store only when all else is settled: a missing input keeps its rows."""
    words = ["-q", "--executor", "inline", "--store", "s.db"]
    assert main(["screen", "bad.plan.json", *words]) == 1
    before = Path("s.db").read_bytes()
    assert main(["screen", "nothing.plan.json", *words, "--force"]) == 2
    assert Path("s.db").read_bytes() == before
    assert main(["screen", "good.plan.json", *words, "--force"]) == 0


@pytest.mark.skipif(signal.getsignal(signal.SIGINT) is signal.SIG_IGN, reason="SIGINT is ignored")
def test_ctrl_c_is_130() -> None:
    """Ctrl-C while a command waits for its input ends it with 130 and one line."""
    process = subprocess.Popen(
        [sys.executable, "-m", "planguard", "check", "-"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    time.sleep(3)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (130, "interrupted\n")
