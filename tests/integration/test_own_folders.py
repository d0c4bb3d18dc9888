"""What the folders of one node hold decides nothing unseen: a resume, a cache, a list of shards.

Each program hangs on real ranks whose nodes hold other files, or, fixed, lets them agree first.
"""

# ruff: noqa: D103, PTH107, PTH123, SIM115, PTH118, PTH207, PTH208 - programs as people write them
from __future__ import annotations

import fnmatch
import glob
import os
import pkgutil
import re
import sys
import time
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
dist = pytest.importorskip("torch.distributed")

from planguard.capture import precheck  # noqa: E402 - torch must be there
from planguard.capture.values.own_folders import _fitting, _missing  # noqa: E402 - same
from planguard.verdict import Outcome  # noqa: E402 - same

pytestmark = pytest.mark.wheel

HERE = Path(__file__)
EPOCHS = 4


@pytest.fixture(autouse=True)
def run(tmp_path, monkeypatch):
    """A folder of a run: two checkpoints, three shards, nothing in ``fresh``."""
    for name in ("saved/epoch_0.pt", "saved/epoch_1.pt", "data/a.bin", "data/b.bin", "data/c.bin"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        torch.save({"epoch": 1}, tmp_path / name)
    (tmp_path / "fresh").mkdir()
    monkeypatch.chdir(tmp_path)
    torch.seed()


def decide(job, world=2):
    return precheck(world, model="gloo", on_unsafe="return", timeout=60.0).run(job)


def step():
    dist.all_reduce(torch.ones(3))


def train(first, last=EPOCHS):
    for _ in range(first, last):
        step()


def resume_if_glob():
    if glob.glob("saved/*.pt"):
        dist.broadcast(torch.zeros(4), 0)
    step()


def resume_if_fresh_glob():
    """A run that starts: the pattern matches nothing here."""
    if sorted(Path("fresh").glob("step_[0-9]*.pt")):
        dist.broadcast(torch.zeros(4), 0)
    step()


def resume_if_no_folder():
    if glob.glob(os.path.join("nowhere", "**", "*.pt"), recursive=True):
        dist.broadcast(torch.zeros(4), 0)
    step()


def resume_if_named():
    if "last.pt" in os.listdir("saved"):
        dist.barrier()
    step()


def resume_from_latest():
    best = -1
    for name in os.listdir("saved"):
        if name.startswith("epoch_") and name.endswith(".pt"):
            best = max(best, int(name[6:-3]))
    train(best + 1)


def resume_from_latest_of_none():
    best = -1
    for name in os.listdir("fresh"):
        if name.startswith("epoch_") and name.endswith(".pt"):
            best = max(best, int(name[6:-3]))
    train(best + 1)


def resume_behind_many_names():
    """Of the names that tests look for, the one that decides stands behind seven others."""
    best = -1
    for name in os.listdir("fresh"):
        if name in ("a.txt", "b.txt", "c.txt", "d.txt", "e.txt", "f.txt", "g.txt"):
            continue
        if name.startswith("round_"):
            best = max(best, int(name.partition("_")[2]))
    train(best + 1)


HEAD = "turn_"


def resume_by_named_head():
    """What a name starts with stands in a constant."""
    train(max((int(name[5:]) for name in os.listdir("fresh") if name.startswith(HEAD)), default=0))


def resume_by_filter():
    """A lambda compares the names that a filter gives it."""
    found = [*filter(lambda name: name.startswith("lap_"), os.listdir("fresh"))]
    train(max((int(name[4:]) for name in found), default=0))


CHECKPOINT = re.compile(r"^checkpoint-(\d+)$")


def resume_by_pattern():
    found = [CHECKPOINT.match(name) for name in os.listdir("fresh")]
    train(max((int(one.group(1)) for one in found if one), default=0))


def resume_by_walk():
    found = []
    for base, _, names in os.walk("."):
        found += [os.path.join(base, name) for name in names if name.endswith(".pt")]
    if found:
        torch.load(max(found))
        dist.broadcast(torch.zeros(4), 0)
    step()


def resume_by_scan():
    with os.scandir("saved") as entries:
        count = sum(1 for one in entries if one.is_file() and one.name.endswith(".pt"))
    if count > 0:
        dist.barrier()
    step()


def resume_by_rglob():
    if max(Path().rglob("*.pt"), default=None) is not None:
        dist.barrier()
    step()


class Store:
    """Checkpoints as a trainer keeps them."""

    def __init__(self, folder):
        self.folder = Path(folder)

    @property
    def names(self):
        return [p for p in self.folder.iterdir() if fnmatch.fnmatch(p.name, "*.pt")]


def resume_by_store():
    train(len(Store("saved").names))


def plug_ins_of_a_folder():
    """The interpreter looks for modules there, and drops every other name."""
    for _ in pkgutil.iter_modules(["fresh"]):
        step()
    step()


def enough_checkpoints():
    """Three are not there; a node that keeps more has them."""
    if len(glob.glob("saved/*.pt")) >= 3:
        dist.barrier()
    step()


def each_shard():
    for _ in sorted(glob.glob("data/*.bin")):
        step()


def leave_without_data():
    if not os.listdir("data"):
        sys.exit(0)
    step()


def second_of_two():
    """Without shards the first line raises, and hides what the second folder decides."""
    first = min(glob.glob("data/*.bin"))
    assert first
    if os.listdir("saved"):
        dist.barrier()
    step()


OWN = [
    resume_if_glob, resume_if_fresh_glob, resume_if_no_folder, resume_if_named, resume_from_latest,
    resume_from_latest_of_none, resume_by_pattern, resume_by_walk, resume_by_scan, resume_by_rglob,
    resume_behind_many_names, resume_by_named_head, resume_by_filter,
    resume_by_store, plug_ins_of_a_folder,
    enough_checkpoints, each_shard, leave_without_data, second_of_two,
]  # fmt: skip


@pytest.mark.parametrize("job", OWN, ids=lambda job: job.__name__)
def test_what_a_folder_holds_is_every_nodes_own(job):
    """Undecided, with the line that lists the folder."""
    verdict = decide(job)
    assert verdict.outcome is Outcome.UNKNOWN
    (said,) = {one.message for one in verdict.approximations if one.direction == "under"}
    assert "the content of a folder" in said
    lines = HERE.read_text().splitlines()
    at = [int(line) for line in re.findall(rf"{HERE.name}:(\d+)", said)]
    asks = ("glob", "listdir", "scandir", "walk", "iterdir", "iter_modules")
    assert any(one in lines[line - 1] for line in at for one in asks)


def agreed(value):
    given = [value]
    dist.broadcast_object_list(given, 0)
    return given[0]


def resume_if_agreed():
    if agreed(bool(glob.glob("saved/*.pt"))):
        dist.broadcast(torch.zeros(4), 0)
    step()


def resume_from_agreed_latest():
    found = [int(p.stem.split("_")[1]) for p in Path("saved").glob("epoch_*.pt")]
    train(agreed(max(found, default=-1)) + 1)


def shards_of_all():
    count = torch.tensor(len(os.listdir("data")))
    dist.all_reduce(count, op=dist.ReduceOp.MIN)
    train(0, int(count))


def load_all():
    for path in sorted(glob.glob("saved/*.pt")):
        print(path, torch.load(path))
    step()


def load_latest():
    latest = max(glob.glob("saved/*.pt"))
    torch.load(latest)
    step()


def refuse_without_data():
    if not glob.glob("data/*.bin"):
        raise FileNotFoundError("no data")
    step()


def print_all():
    for base, folders, names in os.walk("."):
        print(base, len(folders), sorted(names))
    step()


ALIKE = [
    resume_if_agreed, resume_from_agreed_latest, shards_of_all, load_all, load_latest,
    refuse_without_data, print_all,
]  # fmt: skip


@pytest.mark.parametrize("job", ALIKE, ids=lambda job: job.__name__)
def test_a_folder_that_is_agreed_on_or_only_read_decides_nothing(job):
    """SAFE, and the ledger says what the folders held."""
    verdict = decide(job)
    assert verdict.outcome is Outcome.SAFE
    assert any("folders held nothing" in one.message for one in verdict.approximations)


def resume_agreed_file():
    """Here is no file: all ranks go where rank 0 finds one, and cannot open it."""
    first = 0
    if agreed(Path("fresh/last.pt").exists()):
        first = torch.load("fresh/last.pt")["epoch"]
    train(first)


def resume_own_file():
    first = 0
    if Path("fresh/last.pt").exists():
        first = torch.load("fresh/last.pt")["epoch"]
    train(first)


def resume_agreed_file_and_own_best():
    """The play that cannot open the first file never comes to the second."""
    resume_agreed_file()
    if Path("fresh/best.pt").exists():
        dist.barrier()
    step()


def resume_agreed_file_and_own_clock():
    began = time.time()
    resume_agreed_file()
    if time.time() - began > 3600:
        dist.barrier()
    step()


def test_a_file_that_ranks_agree_to_open_and_is_not_here():
    """SAFE with what was not played; what hides behind it is played by itself."""
    verdict = decide(resume_agreed_file)
    assert verdict.outcome is Outcome.SAFE
    assert any("it is not here, so that what follows" in a.message for a in verdict.approximations)
    for job in (resume_own_file, resume_agreed_file_and_own_best, resume_agreed_file_and_own_clock):
        assert decide(job).outcome is Outcome.UNKNOWN


def miss_a_file_alone():
    if dist.get_rank() == 1:
        open("fresh/last.pt").read()
    step()


def test_a_rank_that_cannot_open_its_file_is_an_end_and_others_wait():
    """An error that passes through what answers for files is the program's."""
    assert decide(miss_a_file_alone).unsafe


def keep_three():
    for old in sorted(glob.glob("data/*.bin"))[:-3]:
        os.remove(old)
    step()


def test_a_folder_that_is_shown_with_more_loses_nothing():
    """Who keeps the last three of its files removes none of three, whatever it is shown."""
    assert decide(keep_three).safe
    assert len(os.listdir("data")) == 3


@pytest.mark.parametrize(
    ("names", "texts", "missing"),
    [
        ([], [], ["2"]),
        (["a.pt"], [".pt"], []),
        (["a.txt"], [".pt"], ["2.pt"]),
        ([], ["epoch_", ".pt"], ["epoch_2.pt"]),
        (["x"], ["last.pt"], ["last.pt"]),
        ([], [r"^checkpoint-(\d+)$"], ["checkpoint-2"]),
        (["checkpoint-7"], [r"^checkpoint-(\d+)$"], []),
        ([], ["*.pt"], ["2.pt"]),
    ],
)
def test_names_that_are_looked_for_and_not_there(names, texts, missing):
    assert _missing(names, None, texts) == missing


@pytest.mark.parametrize(
    ("pattern", "path"),
    [("a/*.pt", "a/2.pt"), ("**/*.pt", "2.pt"), ("step_[0-9]*", "step_02"), ("x?", "x2")],
)
def test_a_path_that_a_pattern_stands_for(pattern, path):
    assert _fitting(pattern) == path
