"""Golden files: what the command line prints, compared byte by byte.

``pytest tests/snapshots --update-snapshots`` writes them anew; read the difference before you
commit it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from planguard.cli import fix, job, main

if TYPE_CHECKING:
    from collections.abc import Callable

HERE = Path(__file__).resolve().parent


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare --update-snapshots."""
    parser.addoption("--update-snapshots", action="store_true", help="write the golden files anew")


@pytest.fixture
def snapshot(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """A function that compares a text with the golden file of a name."""
    update = request.config.getoption("--update-snapshots", default=False)

    def compare(name: str, text: str) -> None:
        golden = HERE / name
        if update:
            golden.parent.mkdir(exist_ok=True)
            golden.write_text(text, encoding="utf-8")
        assert golden.exists(), f"no {name}: pytest tests/snapshots --update-snapshots"
        assert text == golden.read_text(encoding="utf-8")

    return compare


@pytest.fixture
def shell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., str]:
    """A function that saves plans in an empty folder and returns a transcript of one command."""
    monkeypatch.chdir(tmp_path)
    for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    # Progress is told by the clock: on a machine that is slow today it is no part of a transcript.
    monkeypatch.setattr(job, "REPORT_EVERY", float("inf"))
    monkeypatch.setattr(fix, "SAY_EVERY", float("inf"))

    def run(plans: dict[str, dict[str, Any]], *arguments: str, files: bool = True) -> str:
        for name, plan in plans.items():
            Path(name).write_text(json.dumps(plan), encoding="utf-8")
        words = ["check", *(plans if files else ()), *arguments]
        code = main([*words, "--reproducible", "--no-config"])
        said = capsys.readouterr()
        return f"$ planguard {' '.join(words)}\n{said.out}{said.err}$ echo $?\n{code}\n"

    return run
