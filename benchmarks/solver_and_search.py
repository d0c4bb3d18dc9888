"""Z3 and the searches on the same questions: where each of them is faster.

    python benchmarks/solver_and_search.py                   # the two tables
    python benchmarks/solver_and_search.py --limit 20        # seconds that a search may take

*Orders*: can some order of a component of the may-wait graph get stuck? ``exhaust`` tries every
cycle with distinct lanes, ``solve`` asks Z3 for one. The components are those of the hard family,
of shapes of ``job_size.py`` and of random chains; each is asked both ways, and the answers must
agree. *Branches*: does some assignment go wrong? ``_every`` decides them one by one,
``_by_clauses`` asks Z3 which to look at. A row is a size; times are the least of two, in
milliseconds of processor time, the solver in the process of the check.
"""

# ruff: noqa: SLF001  each way is asked alone, which no door of the library does

from __future__ import annotations

import argparse
import random
import time
from collections import defaultdict
from functools import partial
from typing import TYPE_CHECKING, Any

import hard_family
import job_size

import planguard
from planguard.options import CheckOptions, running
from planguard.reordering.branches import decide as branches
from planguard.reordering.orders import weak_search
from planguard.reordering.orders.cycles import Component, exhaust
from planguard.reordering.orders.encoding import solve
from planguard.reordering.smt import Answer, Limits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

EDGES = (8, 32, 128, 512, 2_048)
"""Sizes of components, in stands, from which a row begins."""
ENOUGH = 10**7
"""Steps of the search: without an end of its own, but for the time."""


def least(work: Callable[[], Any], times: int = 2) -> tuple[float, Any]:
    """Return the least processor time of several turns in milliseconds, and the result."""
    best, found = float("inf"), None
    for _ in range(times):
        start = time.process_time()
        found = work()
        best = min(best, (time.process_time() - start) * 1e3)
        if best > 1e3:
            break
    return best, found


# --- orders --------------------------------------------------------------------------------------


def plans() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield plans whose order is open, with the name of their family."""
    for variables in (3, 4, 5, 6, 8, 10, 20, 40):
        for seed in range(4):
            clauses = hard_family.formula(variables, 4.26, seed)
            yield "hard", hard_family.hard_plan(variables, clauses)
    for name in ("windows-of-four", "two-ddp", "coupled-chains", "fsdp"):
        for ranks, calls in ((4, 12), (16, 40)):
            yield name, job_size.SHAPES[name](ranks, calls)
    for seed in range(40):
        yield "random", chains(random.Random(seed))


def chains(rng: random.Random) -> dict[str, Any]:
    """Return a plan of ranks of two parallel chains of reductions, each with some of the others."""
    built = hard_family.Builder()
    names = [f"m{n}" for n in range(rng.choice([6, 12, 24]))]
    for _ in range(rng.choice([4, 8, 16])):
        mine = rng.sample(names, 4)
        built.rank(sorted(mine[:2]), sorted(mine[2:]))
    return built.plan()


def components() -> list[tuple[str, Component]]:
    """Return the components that the checks of these plans ask about."""
    kept: list[tuple[str, Component]] = []
    ask, family = weak_search._one, ""

    def asked(task: Any, part: Component, route: list[str]) -> Any:
        kept.append((family, part))
        return ask(task, part, route)

    weak_search._one = asked
    try:
        for name, document in plans():
            family = name
            for model in ("gloo", "nccl"):
                planguard.check(document, model=model, budget=30)
    finally:
        weak_search._one = ask
    return kept


def search(part: Component, limit: float) -> tuple[float, Any]:
    """Return the time of the search, with more steps until it has an answer or time is up."""
    steps = 20_000
    while True:
        took, found = least(partial(exhaust, part, steps))
        if found[1] or found[0] is not None or took > limit * 1e3 or steps > ENOUGH:
            return took, found
        steps *= 8


def orders(limit: float) -> None:
    """Print the table of orders."""
    rows: dict[tuple[int, str], list[tuple[float, float, bool]]] = defaultdict(list)
    for _, part in components():
        size = max((edge for edge in EDGES if edge <= len(part.stands)), default=0)
        asked, (stuck, answer) = least(lambda part=part: solve(part, Limits(process=False)))
        tried, (cycle, final) = search(part, limit)
        done = final or cycle is not None
        if done and answer.answer is not Answer.UNKNOWN and (cycle is None) != (stuck is None):
            raise SystemExit(f"the search and the solver differ on {len(part.stands)} stands")
        rows[size, "stuck" if stuck is not None else "none"].append((tried, asked, done))
    print("| stands | answer | questions | search, ms | without an answer | Z3, ms | search wins |")
    print("|---|---|---|---|---|---|---|")
    for (size, said), found in sorted(rows.items()):
        tried = sorted(one for one, _, _ in found)
        asked = sorted(one for _, one, _ in found)
        open_ = sum(not done for _, _, done in found)
        wins = sum(done and one < other for one, other, done in found)
        middle = len(found) // 2
        print(
            f"| {size}+ | {said} | {len(found)} | {tried[middle]:.1f} ({tried[-1]:.0f}) | {open_} "
            f"| {asked[middle]:.1f} ({asked[-1]:.0f}) | {wins} |"
        )


# --- branches ------------------------------------------------------------------------------------


def branched(count: int, *, is_safe: bool) -> dict[str, Any]:
    """Return a plan with branches: that both ranks take alike, or each by itself."""
    kinds = ("all_reduce", "all_gather")
    program = [
        {
            "op": "choice",
            "name": f"c{n}",
            "uniform": is_safe,
            "branches": [[{"op": kind, "bytes": 8, "label": f"c{n}"}] for kind in kinds],
        }
        for n in range(count)
    ]
    return {
        "schema": "planguard.plan/1", "world_size": 2, "groups": {},
        "templates": {"t": program}, "ranks": {"0-1": {"template": "t"}},
    }  # fmt: skip


def by_assignments(limit: float) -> None:
    """Print the table of branches."""
    print("| assignments | outcome | one by one, ms | Z3, ms |")
    print("|---|---|---|---|")
    for is_safe in (True, False):
        for count in (2, 4, 6, 8, 10) if is_safe else (1, 2, 3, 4, 5):
            plan = planguard.load(branched(count, is_safe=is_safe))
            took = {}
            for name, few in (("each", 10**9), ("clauses", 0)):
                if name == "each" and count > 8 and limit < 5:
                    continue
                took[name] = _forced(plan, few)
            each, clauses = took.get("each"), took["clauses"]
            if each is not None and each[1] != clauses[1]:
                raise SystemExit(f"{count} branches: {each[1]} and {clauses[1]}")
            said = "-" if each is None else f"{each[0]:.0f}"
            number = (2 if is_safe else 4) ** count
            print(f"| {number:,} | {clauses[1]} | {said} | {clauses[0]:.0f} |")


def _forced(plan: Any, few: int) -> tuple[float, str]:
    """Check a plan with one of the two ways; stretches, which need neither, are off."""
    before = branches.FEW, branches._Branches._by_few_stretches
    branches.FEW = few
    branches._Branches._by_few_stretches = lambda *_: None
    try:
        took, verdict = least(lambda: planguard.check(plan, model="gloo"))
    finally:
        branches.FEW, branches._Branches._by_few_stretches = before
    return took, verdict.outcome.value


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--limit", type=float, default=1.0)
    given = parser.parse_args()
    running(CheckOptions())
    by_assignments(given.limit)
    print()
    orders(given.limit)


if __name__ == "__main__":
    main()
