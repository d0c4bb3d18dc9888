"""The entry of the command line, and planguard doctor."""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import planguard
from planguard import cli
from planguard.cli import doctor
from planguard.errors import PACKAGES, InternalError, PlanError, UsageError

ROOT = Path(__file__).resolve().parents[2]


class Failing:
    """A command that fails as it is told."""

    def __init__(self, error):
        self.error = error

    def run(self, args):
        raise self.error

    def add_arguments(self, parser):
        parser.add_argument("words", nargs="*")

    help = "fail"


@pytest.fixture
def fail(monkeypatch):
    """Make `planguard check` raise a given exception."""

    def arrange(error):
        monkeypatch.setattr(cli.CommandEntry, "load", lambda _: Failing(error))

    return arrange


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (PlanError("unknown op"), 2),
        (UsageError("unknown model"), 2),
        (FileNotFoundError(2, "No such file or directory", "a.json"), 2),
        (InternalError("broken invariant"), 4),
        (ZeroDivisionError("division by zero"), 4),
        (RecursionError("too deep"), 4),
        (KeyboardInterrupt(), 130),
    ],
    ids=lambda value: type(value).__name__,
)
def test_every_exception_has_its_exit_code(fail, capsys, error, code):
    """main() alone turns an exception into an exit code, and prints nothing on stdout."""
    fail(error)
    assert cli.main(["check", "a.json"]) == code
    assert capsys.readouterr().out == ""


def test_an_internal_error_says_how_to_see_it_again(fail, capsys):
    """An internal error names its type, the command line and the versions, and decides nothing."""
    fail(ZeroDivisionError("division by zero"))
    cli.main(["check", "a plan.json"])
    text = capsys.readouterr().err
    assert "internal error[PG999]: ZeroDivisionError: division by zero" in text
    assert "planguard check 'a plan.json'" in text
    assert f"planguard {planguard.__version__}, Python" in text
    assert "nothing was decided" in text


def test_text_from_outside_cannot_control_the_terminal(fail, capsys):
    """A file name with an escape sequence is shown escaped."""
    fail(FileNotFoundError(2, "No such file or directory", "\x1b[2Jplan.json"))
    cli.main(["check", "x"])
    assert "\x1b" not in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["nonsense"], ["--nonsense"], []])
def test_a_wrong_command_line_is_exit_code_2(arguments, capsys):
    """An unknown command, an unknown option and no command at all are usage errors."""
    assert cli.main(arguments) == 2
    assert "planguard --help" in capsys.readouterr().err or not arguments


def test_help_has_examples(capsys):
    """--help exits with 0 and shows the commands, examples and the exit codes."""
    assert cli.main(["--help"]) == 0
    text = capsys.readouterr().out
    assert "planguard check plan.json" in text
    assert "3 undecided" in text
    assert all(f"    {entry.name} " in text for entry in cli.COMMANDS)


@pytest.mark.parametrize("entry", cli.COMMANDS, ids=lambda entry: entry.name)
def test_every_listed_command_exists(entry, capsys):
    """Each command of the list loads, has the name it is listed under, and explains itself."""
    assert entry.load().name == entry.name
    assert cli.main([entry.name, "--help"]) == 0
    text = capsys.readouterr().out
    assert f"usage: planguard {entry.name}" in text
    examples = text.partition("examples:\n")[2]
    assert f"planguard {entry.name} " in examples + " "


@pytest.mark.parametrize("entry", cli.COMMANDS, ids=lambda entry: entry.name)
def test_help_fits_a_terminal_of_80_columns(entry, capsys, monkeypatch):
    """No line of a command's help is broken by a terminal of 80 columns."""
    monkeypatch.setenv("COLUMNS", "80")
    assert cli.main([entry.name, "--help"]) == 0
    assert [line for line in capsys.readouterr().out.splitlines() if len(line) > 80] == []


@pytest.mark.parametrize("entry", cli.COMMANDS, ids=lambda entry: entry.name)
def test_the_examples_of_the_help_are_command_lines(entry, capsys, monkeypatch):
    """What a command's help shows as an example is accepted by its parser."""
    monkeypatch.setenv("COLUMNS", "200")
    assert cli.main([entry.name, "--help"]) == 0
    examples = capsys.readouterr().out.partition("examples:\n")[2].partition("\n\n")[0]
    lines = re.findall(rf"planguard {entry.name}\b.*", examples)
    assert lines
    for line in lines:
        words = shlex.split(re.split(r" {2,}|(?<= )> ", line)[0])[1:]
        own = words[: words.index("--")] if "--" in words else words
        parser, _, _ = cli._parser(entry.name)
        parser.parse_args(own)


@pytest.mark.parametrize("entry", cli.COMMANDS, ids=lambda entry: entry.name)
def test_every_command_takes_the_common_options(entry):
    """--verbose, -v and --no-color are options of every command."""
    _, verbs, _ = cli._parser(entry.name)
    words = {word for action in verbs[entry.name]._actions for word in action.option_strings}
    assert {"-v", "--verbose", "--no-color"} <= words


def test_verbose_says_what_ran_and_what_was_read(capsys, monkeypatch, tmp_path):
    """-v names the version, the plan that was read and the exit code, all on stderr; standard
    output is what it is without.
    """
    monkeypatch.chdir(tmp_path)
    plan = {"schema": "planguard.plan/1", "world_size": 1, "ranks": {"0": {"actions": []}}}
    (tmp_path / "p.plan.json").write_text(json.dumps(plan), encoding="utf-8")
    words = ["check", "p.plan.json", "--reproducible"]
    assert cli.main(words) == 0
    plain = capsys.readouterr()
    assert cli.main([*words, "-v"]) == 0
    verbose = capsys.readouterr()
    assert verbose.out == plain.out
    said = verbose.err.splitlines()
    assert all(line.startswith("verbose: ") for line in said)
    assert f"verbose: read {tmp_path / 'p.plan.json'}" in said
    assert said[0].startswith(f"verbose: planguard {planguard.__version__}")
    assert said[-1] == "verbose: exit code 0"


def test_no_color_is_no_color(capsys, monkeypatch, tmp_path):
    """--no-color prints no escape sequence where FORCE_COLOR asks for color."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.delenv("NO_COLOR", raising=False)
    plan = {"schema": "planguard.plan/1", "world_size": 1, "ranks": {"0": {"actions": []}}}
    path = tmp_path / "p.plan.json"
    path.write_text(json.dumps(plan), encoding="utf-8")
    assert cli.main(["check", str(path)]) == 0
    assert "\x1b[" in capsys.readouterr().out
    assert cli.main(["check", str(path), "--no-color"]) == 0
    assert "\x1b[" not in capsys.readouterr().out


def test_init_writes_settings_that_check_reads(capsys, monkeypatch, tmp_path):
    """planguard init writes a planguard.toml whose settings hold, and never over one that is there;
    each key that it shows commented out is accepted once it is not.
    """
    monkeypatch.chdir(tmp_path)
    assert cli.main(["init", "--model", "gloo"]) == 0
    assert cli.main(["check", "--show-settings"]) == 0
    assert re.search(r'model = "gloo" +# planguard.toml', capsys.readouterr().out)
    written = (tmp_path / "planguard.toml").read_text(encoding="utf-8")
    assert cli.main(["init"]) == 2
    assert "--force" in capsys.readouterr().err
    assert (tmp_path / "planguard.toml").read_text(encoding="utf-8") == written
    open_ = re.sub(r"^# (?=[a-z\"\[P][^ ]* ?(=|$|\]))", "", written, flags=re.MULTILINE)
    assert "\n[severity]\nPG214" in open_
    (tmp_path / "planguard.toml").write_text(open_, encoding="utf-8")
    assert cli.main(["check", "--show-settings"]) == 0
    assert capsys.readouterr().out.count("# planguard.toml") == 7


def test_init_refuses_an_unknown_model(capsys, monkeypatch, tmp_path):
    """planguard init with a model that does not exist writes nothing and names the nearest one."""
    monkeypatch.chdir(tmp_path)
    assert cli.main(["init", "--model", "glooo"]) == 2
    assert "gloo" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("missing", sorted(name for name in PACKAGES if "." not in name))
def test_a_missing_extra_is_refused_with_the_way_to_get_it(missing, capsys, monkeypatch):
    """A command that needs an optional package ends with 2 and says how to get it, where it is not
    installed; a missing module of PlanGuard itself stays an internal error.
    """

    def absent(*_):
        raise ModuleNotFoundError(f"No module named '{missing}'", name=f"{missing}.part")

    monkeypatch.setattr(cli, "_dispatch", absent)
    assert cli.main(["precheck", "train.py"]) == 2
    said = capsys.readouterr().err.splitlines()
    assert said[0] == f"error: planguard precheck needs {missing}, which is not installed"
    assert said[1].startswith("hint: pip install ")
    monkeypatch.setattr(cli, "PACKAGES", {})
    assert cli.main(["precheck", "train.py"]) == 4


def test_the_version_costs_no_import():
    """planguard --version prints the version and loads none of the dependencies."""
    script = (
        "import sys; from planguard.cli import main; code = main(['--version']); "
        "print(*sorted({'numpy', 'msgspec', 'networkx', 'z3', 'rich'} & set(sys.modules))); "
        "raise SystemExit(code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout) == (0, f"planguard {planguard.__version__}\n\n")


def test_one_version():
    """The package, its metadata and pyproject.toml name one version."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    installed = importlib.metadata.version("planguard")
    assert planguard.__version__ == installed == project["version"]


def test_a_closed_pipe_is_no_internal_error():
    """planguard --help into a reader that has gone prints no traceback."""
    done = subprocess.run(
        ["bash", "-c", f"{sys.executable} -m planguard doctor | true"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "Traceback" not in done.stderr
    assert "internal error" not in done.stderr


def test_doctor_names_the_kernels_in_use(capsys):
    """Doctor says which kernels are loaded, and that every required package is there."""
    from planguard import kernels

    assert cli.main(["doctor"]) == 0
    text = capsys.readouterr().out
    assert f"\n   {kernels.IMPLEMENTATION} " in text or f"\n - {kernels.IMPLEMENTATION} " in text
    assert importlib.metadata.version("numpy") in text
    assert text.endswith("0 problems\n")


def test_doctor_reports_the_twin_and_how_to_replace_it(monkeypatch, capsys):
    """With the Python twin in use, doctor says so, says how to get native kernels, and exits 0."""
    from planguard import kernels

    monkeypatch.setattr(kernels, "IMPLEMENTATION", "python")
    assert cli.main(["doctor"]) == 0
    text = capsys.readouterr().out
    assert "the Python twin is in use" in text
    assert "install a C++17 compiler" in text


def test_doctor_reports_a_missing_package(monkeypatch, capsys):
    """A required package that is missing is a problem with its remedy, and exit code 1."""
    monkeypatch.setattr(doctor, "_REQUIRED", ("numpy", "no-such-package"))
    assert cli.main(["doctor"]) == 1
    text = capsys.readouterr().out
    assert "! no-such-package" in text
    assert "pip install no-such-package" in text


@pytest.mark.parametrize("group", ["planguard.planners", "planguard.reporters"])
def test_doctor_reports_a_plug_in_that_fails_to_import(monkeypatch, capsys, group):
    """An entry point whose module does not import is a problem, and doctor goes on."""
    broken = importlib.metadata.EntryPoint("broken", "no_such_module:it", group)
    whole = importlib.metadata.entry_points

    def with_broken(*, group):
        return (*whole(group=group), *([broken] if group == broken.group else []))

    monkeypatch.setattr(importlib.metadata, "entry_points", with_broken)
    assert cli.main(["doctor", "--format", "json"]) == 1
    lines = {line["subject"]: line for line in json.loads(capsys.readouterr().out)}
    line = lines[f"{group.rpartition('.')[2]}: broken"]
    assert line["level"] == "problem"
    assert "ModuleNotFoundError" in line["text"]
    assert lines["planners: pipelining"]["level"] == "ok"


def test_doctor_imports_no_solver_and_no_torch():
    """Doctor reads versions from metadata: it loads neither torch nor z3."""
    script = (
        "import sys; from planguard.cli import main; main(['doctor']); "
        "print('loaded:', *sorted({'torch', 'z3'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout.splitlines()[-1] == "loaded:"


@pytest.mark.skipif(
    not os.environ.get("PLANGUARD_REQUIRE_NATIVE"),
    reason="the pure fallback is allowed unless PLANGUARD_REQUIRE_NATIVE is set",
)
def test_the_native_kernels_are_built():
    """Where native kernels are required, the build produced them and they are in use."""
    from planguard import kernels

    assert kernels.IMPLEMENTATION == "native"
