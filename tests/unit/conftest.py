"""Small plans by what a check says of them, and the command line in an empty folder."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from planguard.cli import main
from planguard.plan.format import read, write

if TYPE_CHECKING:
    from collections.abc import Callable


def two(first: list[dict[str, Any]], second: list[dict[str, Any]]) -> dict[str, Any]:
    """Return a plan of two ranks."""
    ranks = {"0": {"actions": first}, "1": {"actions": second}}
    return {"schema": "planguard.plan/1", "world_size": 2, "ranks": ranks}


def call(op: str, **fields: Any) -> dict[str, Any]:
    """Return an action of four bytes that comes from line 7 of ``make.py``."""
    return {"op": op, "bytes": 4, "src": ["make.py", 7], **fields}


BEGUN = call("all_reduce", work="w", **{"async": True})
PLANS: dict[str, dict[str, Any]] = {
    "safe": two([call("send", peer=1)], [call("recv", peer=0)]),
    "deadlock": two(
        [call("send", peer=1), call("recv", peer=1)],
        [call("send", peer=0), call("recv", peer=0)],
    ),
    "mismatch": two([call("all_reduce")], [call("all_gather")]),
    "orphan": two([call("all_reduce"), call("all_reduce")], [call("all_reduce")]),
    "unknown": two([call("recv", peer="any")] * 2, [call("send", peer=0)] * 2),
    "mixed": two([call("all_reduce")], [BEGUN, {"op": "wait", "work": "w"}]),
    "race": two([BEGUN], [BEGUN]),
    "broken": two([call("send", peer=1, asnyc=True)], [call("recv", peer=0)]),
}
"""SAFE; PG001; PG201; PG007; UNKNOWN (PG904); SAFE with a warning (PG214); SAFE with an error
(PG301); refused (PG906)."""


@dataclass(frozen=True)
class Answer:
    """What the command line said."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """Standard output as JSON."""
        return json.loads(self.out)


@pytest.fixture
def plan_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """A function that writes plans, one action per line, in the empty folder one then stands in."""
    monkeypatch.chdir(tmp_path)

    def write_all(*names: str) -> list[str]:
        for name in names:
            text = json.dumps(PLANS[name]).encode()
            data = text if name == "broken" else write(read(text))
            Path(f"{name}.plan.json").write_bytes(data)
        return [f"{name}.plan.json" for name in names]

    return write_all


@pytest.fixture
def check(
    plan_files: Callable[..., list[str]],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Callable[..., Answer]:
    """A function that runs ``planguard check`` on named plans with further arguments."""
    for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)

    def run(names: str, *arguments: str) -> Answer:
        files = plan_files(*names.split())
        code = main(["check", *files, *arguments])
        said = capsys.readouterr()
        return Answer(code, said.out, said.err)

    return run
