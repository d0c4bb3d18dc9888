"""Candidates of a search loop, changed at random: Guard says what a check of each alone says."""

from __future__ import annotations

import copy
import importlib.util
import random
from collections import Counter
from pathlib import Path

import planguard
from planguard.reordering.blocks import Leaf
from planguard.reordering.buffers.members import Buffer, home_of, homes_of

LOOP = Path(__file__).resolve().parents[2] / "benchmarks" / "search_loop.py"


def search_loop():
    """Return the benchmark as a module."""
    spec = importlib.util.spec_from_file_location("search_loop", LOOP)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def mutated(document, rng):
    """Return a candidate with up to three actions of its stages moved, doubled or left out."""
    found = copy.deepcopy(document)
    for _ in range(rng.randint(0, 3)):
        program = rng.choice([*found["templates"].values()])
        if len(program) < 2:
            continue
        at, to = rng.sample(range(len(program)), 2)
        what = rng.choice(["move", "swap", "drop"])
        if what == "move":
            program.insert(to, program.pop(at))
        elif what == "swap":
            program[at], program[to] = program[to], program[at]
        else:
            del program[at]
    for spec in found["fusion"]:
        spec["launch"] = rng.choice(["ordered", "when-ready"])
        spec["cap_bytes"] = rng.choice([4096, 8192, 12288])
    return found


def without_times(verdict):
    """Return a verdict as data, without what differs from run to run."""
    data = verdict.to_json(reproducible=True)
    for name in ("stats", "evidence"):
        data[name] = {key: v for key, v in data[name].items() if not key.endswith("ms")}
    return data


def test_a_guard_says_of_mutated_candidates_what_a_check_says():
    """Outcomes and findings of one guard, and of a check of each candidate read anew, are equal."""
    loop, rng = search_loop(), random.Random(17)
    every = [k for k in loop.candidates() if k[1] > 1 and k[4] != "sync"]
    guard, seen = planguard.Guard(model="gloo"), Counter()
    for knobs in rng.sample(every, 70):
        document = mutated(loop.document(knobs), rng)
        try:
            alone = planguard.check(document, model="gloo")
        except planguard.PlanError:
            seen["refused"] += 1
            continue
        verdict = guard.check(document)
        assert verdict.outcome is alone.outcome, knobs
        seen[alone.outcome.value] += 1
        # The findings of a cached answer are made of the asking plan: asked twice, the same.
        assert without_times(guard.check(document)) == without_times(alone), knobs
        for finding in alone.findings:
            at = finding.primary
            if at is not None:
                fresh = planguard.load(document)
                assert fresh.location(at.rank, at.action, at.member) == at
    assert seen["SAFE"]
    assert seen["DEADLOCK"]
    assert seen["MISMATCH"]


def test_the_home_of_a_member_is_every_buffer_that_lists_it_on_its_group():
    """One table gives what looking through all buffers gives, for random lists of members."""
    rng = random.Random(17)
    names = [f"m{n}" for n in range(6)]
    for _ in range(200):
        buffers = [
            Buffer(f"b{n}", rng.choice(["world", "dp0", "dp1"]), 8, None, "none", "fill", "ordered",
                   "free", tuple(rng.choices(names, k=rng.randint(0, 5))))
            for n in range(rng.randint(0, 4))
        ]  # fmt: skip
        homes = homes_of(buffers)
        for name in (*names, None, "other"):
            for group in ("world", "dp0", "dp1", None):
                fields = {"id": name, "group": group}
                leaf = Leaf({key: v for key, v in fields.items() if v is not None}, 0)
                where = group or "world"
                wanted = [
                    n for n, one in enumerate(buffers)
                    if one.group == where and name in one.members
                ]  # fmt: skip
                assert [*home_of(homes, leaf)] == wanted
