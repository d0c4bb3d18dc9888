"""What a file of one node holds decides nothing unseen; a shared one is named, an own one not."""

# ruff: noqa: D103, PTH123, SIM115 - steps as people write them
from __future__ import annotations

import bz2
import contextlib
import io
import json
import linecache
import mmap
import os
import runpy
import sqlite3
from pathlib import Path

import pytest

from planguard.verdict import Outcome

torch = pytest.importorskip("torch")
dist = pytest.importorskip("torch.distributed")
np = pytest.importorskip("numpy")

from planguard.capture import precheck  # noqa: E402 - torch must be there
from planguard.capture.values import own_places  # noqa: E402 - same
from planguard.capture.values.own_database import DATABASE  # noqa: E402 - same
from planguard.capture.values.own_unseen import UNSEEN as UNANSWERED  # noqa: E402 - same

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
    (folder / "steps.bz2").write_bytes(bz2.compress(b"3\n"))
    (folder / "settings.py").write_text("STEPS = 3\n")
    torch.save({"steps": 3}, folder / "steps.pt")
    np.save(folder / "steps.npy", np.array([3]))
    np.array([3]).tofile(folder / "steps.bin")
    # Closed, not only committed: Python 3.13 warns of one that is left to the garbage collector.
    with contextlib.closing(sqlite3.connect(folder / "steps.db")) as base:
        base.execute("create table steps (count int)")
        base.execute("insert into steps values (3)")
        base.commit()


def mapped(folder):
    with open(folder / "steps.txt", "rb") as file:
        return int(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)[:1])


def selected(folder):
    with contextlib.closing(sqlite3.connect(folder / "steps.db")) as base:
        return base.execute("select count from steps").fetchone()[0]


READ = {
    "text": lambda folder: int((folder / "steps.txt").read_text()),
    "os": lambda folder: int(os.read(os.open(folder / "steps.txt", os.O_RDONLY), 9)),
    "json": lambda folder: json.loads((folder / "steps.json").read_text())["steps"],
    "torch": lambda folder: torch.load(folder / "steps.pt")["steps"],
    "numpy": lambda folder: len(np.loadtxt(folder / "rows.txt")),
    "linecache": lambda folder: int(linecache.getline(str(folder / "steps.txt"), 1)),
    "bz2": lambda folder: int(bz2.open(folder / "steps.bz2").read()),
    "mapped": mapped,
    "memory of numpy": lambda folder: np.load(folder / "steps.npy", mmap_mode="r")[0],
    "rows of an array": lambda folder: 2 + len(np.load(folder / "steps.npy")),
}
UNSEEN = {
    "FileIO": lambda folder: int(io.FileIO(folder / "steps.txt").read()),
    "a module": lambda folder: runpy.run_path(str(folder / "settings.py"))["STEPS"],
    "bytes": lambda folder: int(np.fromfile(folder / "steps.bin", dtype=np.int64)[0]),
    "torch": lambda folder: int(
        torch.from_file(str(folder / "steps.bin"), size=1, dtype=torch.int64)[0]
    ),
}


@pytest.fixture
def node(tmp_path, monkeypatch):
    """A temporary folder with files that were there before this process."""
    write(tmp_path)
    monkeypatch.setattr(own_places, "BEGAN", own_places.BEGAN + 10**9)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("way", [*READ, "database"])
def test_a_count_from_a_file_of_the_node_is_the_nodes_own(node, way):
    """A loop that turns as often as a temporary file says is undecided, and the line is named."""
    verdict = decide(lambda: rounds({**READ, "database": selected}[way](node)))
    assert verdict.outcome is Outcome.UNKNOWN
    kinds = (own_places.HELD, DATABASE)
    assert any(one.startswith("the communication depends on ") for one in said_of(verdict))
    assert any(kind in one and HERE.name in one for one in said_of(verdict) for kind in kinds)


@pytest.mark.parametrize("way", UNSEEN)
def test_what_cannot_be_answered_otherwise_is_never_safe(node, way):
    """A file that is read in C, or of bytes of no known form, is UNKNOWN, and its line is named."""
    verdict = decide(lambda: rounds(UNSEEN[way](node)))
    assert verdict.outcome is Outcome.UNKNOWN
    assert any(one.startswith(UNANSWERED) and HERE.name in one for one in said_of(verdict))


@pytest.mark.parametrize("is_deciding", [True, False])
def test_a_reader_in_rust_is_given_the_file_of_another_node(node, is_deciding):
    """What safetensors reads of the node is played: undecided where it decides, else SAFE."""
    safetensors = pytest.importorskip("safetensors.torch")
    path = node / "steps.safetensors"
    safetensors.save_file({"steps": torch.tensor([3])}, path)

    def job():
        with safetensors.safe_open(path, "pt") as file:
            steps = int(file.get_tensor("steps")[0])
        rounds(steps if is_deciding else 2)

    assert decide(job).outcome is (Outcome.UNKNOWN if is_deciding else Outcome.SAFE)


@pytest.mark.parametrize("is_own", [True, False])
def test_what_rank_0_alone_wrote_on_its_node_is_not_there_on_another(tmp_path, is_own):
    """A file that each rank wrote for itself is its own; one of rank 0 alone is of its node."""

    def job():
        rank = dist.get_rank()
        path = tmp_path / (f"steps{rank}.txt" if is_own else "steps.txt")
        if is_own or rank == 0:
            path.write_text("3\n")
        dist.barrier()
        rounds(int(path.read_text()))

    verdict = decide(job)
    assert verdict.outcome is (Outcome.SAFE if is_own else Outcome.UNKNOWN)
    assert is_own or any(own_places.HELD in one for one in said_of(verdict))


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
