"""What a file of one node holds decides nothing unseen; a shared one is named, an own one not."""

# ruff: noqa: D103 - steps as people write them
from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from planguard.verdict import Outcome

torch = pytest.importorskip("torch")
dist = pytest.importorskip("torch.distributed")
np = pytest.importorskip("numpy")

from planguard.capture import precheck  # noqa: E402 - torch must be there
from planguard.capture.values import own_places  # noqa: E402 - same

pytestmark = pytest.mark.wheel

HERE = Path(__file__)


def decide(job):
    return precheck(2, model="gloo", on_unsafe="return", timeout=60.0).run(job)


def said_of(verdict):
    return [one.message for one in verdict.approximations if one.kind == "own-answers"]


def rounds(count):
    for _ in range(count):
        dist.all_reduce(torch.ones(2))


def write(folder):
    (folder / "steps.txt").write_text("3\n")
    (folder / "steps.json").write_text(json.dumps({"steps": 3}))
    (folder / "rows.txt").write_text("1 2\n3 4\n")
    torch.save({"steps": 3}, folder / "steps.pt")


READ = {
    "text": lambda folder: int((folder / "steps.txt").read_text()),
    "os": lambda folder: int(os.read(os.open(folder / "steps.txt", os.O_RDONLY), 9)),
    "json": lambda folder: json.loads((folder / "steps.json").read_text())["steps"],
    "torch": lambda folder: torch.load(folder / "steps.pt")["steps"],
    "numpy": lambda folder: len(np.loadtxt(folder / "rows.txt")),
}


@pytest.fixture
def node(tmp_path, monkeypatch):
    """A temporary folder with files that were there before this process."""
    write(tmp_path)
    monkeypatch.setattr(own_places, "BEGAN", own_places.BEGAN + 10**9)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("way", READ)
def test_a_count_from_a_file_of_the_node_is_the_nodes_own(node, way):
    """A loop that turns as often as a temporary file says is undecided, and the line is named."""
    verdict = decide(lambda: rounds(READ[way](node)))
    assert verdict.outcome is Outcome.UNKNOWN
    assert any(own_places.HELD in one and HERE.name in one for one in said_of(verdict))


@pytest.mark.parametrize("way", READ)
def test_a_file_of_the_node_that_decides_nothing_is_no_doubt(node, way):
    """What is read there may differ where the communication does not follow from it."""
    verdict = decide(lambda: rounds(2 + 0 * READ[way](node)))
    assert verdict.outcome is Outcome.SAFE


@pytest.mark.parametrize("way", READ)
def test_a_file_that_the_program_wrote_is_no_question(tmp_path, way):
    """A temporary file that this process wrote holds what it wrote, and is not named."""
    write(tmp_path)
    verdict = decide(lambda: rounds(READ[way](tmp_path)))
    assert verdict.outcome is Outcome.SAFE
    assert not any(str(tmp_path) in one for one in said_of(verdict))


def test_a_file_that_may_be_shared_is_named(monkeypatch):
    """What lies beside the program is taken for the same on every rank; the ledger says so."""
    monkeypatch.setattr(own_places, "BEGAN", own_places.BEGAN + 10**9)
    verdict = decide(lambda: rounds(1 + len(HERE.read_text()) % 2))
    assert verdict.outcome is Outcome.SAFE
    assert any("what files hold" in one and str(HERE) in one for one in said_of(verdict))
