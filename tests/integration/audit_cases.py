"""The recorded programs of tests/corpus/dumps, and what an audit of each says."""

from __future__ import annotations

import importlib.util
import os
import pickle
import sys
import zipfile
from pathlib import Path

import planguard as pg

DUMPS = Path(__file__).parents[1] / "corpus" / "dumps"


def load(name):
    """Import a module of the corpus by its file."""
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, DUMPS / f"{name}.py")
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def unpack(name, state, folder):
    """Write the recorded dumps of a program, as it hung or as it was healed, into a folder.

    Archives keep no times of files: each has that of its recording, once patience was over.
    """
    patience = load("record").PATIENCE[state == "stuck"]
    with zipfile.ZipFile(DUMPS / f"{name}.zip") as archive:
        for entry in archive.namelist():
            if entry.startswith(f"{state}/"):
                (folder / Path(entry).name).write_bytes(archive.read(entry))
    dumps = list(folder.glob("*.pickle"))
    made = [pickle.loads(path.read_bytes())["entries"] for path in dumps]  # noqa: S301  our own
    last = max((one["time_created_ns"] for own in made for one in own), default=0)
    for path in dumps:
        os.utime(path, ns=(last + int(patience * 1e9),) * 2)
    return folder


def plan_of(one, state):
    """The intended plan of a program, if its audit needs one; the healed one has its own."""
    plan = one.plan if state == "stuck" or one.healed is None else one.healed
    if plan is None:
        return None
    return {
        "schema": "planguard.plan/1",
        "world_size": one.world,
        "groups": {name: {"ranks": ranks} for name, ranks in one.groups.items()},
        "ranks": {str(rank): {"actions": actions} for rank, actions in plan.items()},
    }


def audit(one, folder, state="stuck"):
    """Audit the dumps of a folder as the program asks: with its plan, its stacks, or neither."""
    if not one.stacks:
        for path in folder.glob("stack_*"):
            path.unlink()
    return pg.audit(folder, plan=plan_of(one, state))


def marked(mark):
    """The line of a program that carries a mark, as diagnostics name it."""
    lines = (DUMPS / "programs.py").read_text("utf-8").splitlines()
    found = [n for n, line in enumerate(lines, 1) if line.endswith(f"# <- {mark}")]
    return {f"programs.py:{number}" for number in found}
