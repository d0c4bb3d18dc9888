"""What the wheel holds, and that its tests are there."""

from __future__ import annotations

import os
import zipfile
from importlib import metadata
from pathlib import Path

import pytest

import planguard

TESTS = Path(__file__).resolve().parents[1]


def test_every_line_of_the_list_names_tests():
    """Each name of tests/wheel.txt matches files: a test that is renamed is not lost unseen."""
    lines = (TESTS / "wheel.txt").read_text(encoding="utf-8").splitlines()
    names = [line for line in lines if not line.startswith("#")]
    assert len(names) > 10
    assert [name for name in names if not list(TESTS.glob(name))] == []


def test_what_is_asked_of_a_wheel_alone_is_asked_there():
    """A file that is skipped beside the source, for it is asked of the wheel, is in the list."""
    lines = (TESTS / "wheel.txt").read_text(encoding="utf-8").splitlines()
    listed = {file for line in lines if not line.startswith("#") for file in TESTS.glob(line)}
    files = [file for file in TESTS.rglob("test_*.py") if file != Path(__file__)]
    marked = {file for file in files if "mark.wheel" in file.read_text(encoding="utf-8")}
    assert marked
    assert marked <= listed


_COMPILED_BY_USERS = ("abi.h", "log.cpp", "log.h", "mpi.cpp", "mpi_records.h", "mpi_rounds.h")


@pytest.mark.skipif("PLANGUARD_INSTALLED_WHEEL" not in os.environ, reason="no wheel is tested")
def test_the_wheel_is_the_program_and_nothing_else():
    """The wheel has the package, its planners, its pages and its metadata: no samples, no tests, no
    benchmarks, nothing that runs when Python starts; and it is what is imported here.
    """
    with zipfile.ZipFile(os.environ["PLANGUARD_INSTALLED_WHEEL"]) as wheel:
        names = [name for name in wheel.namelist() if not name.endswith("/")]
    tops = {name.split("/")[0] for name in names}
    assert tops == {"planguard", f"planguard-{planguard.__version__}.dist-info"}
    for part in ("samples", "tests", "benchmarks", "__pycache__"):
        assert [name for name in names if part in name.split("/")] == []
    assert not [name for name in names if name.endswith((".pth", ".pyc"))]
    # The user's mpicxx compiles these: no binary fits every MPI library (`dryrun --mpi`).
    compiled = {f"planguard/preload_sources/{name}" for name in _COMPILED_BY_USERS}
    assert {name for name in names if name.endswith((".cpp", ".h"))} == compiled
    inside = (
        "py.typed",
        "docs/codes/PG001.md",
        "planners/ddp/steps.py",
        "capture/inject/sitecustomize.py",
    )
    assert {f"planguard/{name}" for name in inside} <= set(names)
    assert Path(planguard.__file__).parent == Path(
        str(metadata.distribution("planguard").locate_file("planguard"))
    )
    assert not (TESTS.parent / "planguard").exists()
