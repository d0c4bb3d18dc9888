"""The hard family: plans whose deadlock is a satisfying assignment of a random 3-SAT formula.

That a general order can deadlock is NP-complete. The reduction, in ranks of two parallel chains of
two synchronous reductions each ("2+2", two unordered branches of an operator): a literal of a
clause is a rank with the chains ``ax by`` and ``bx ay``. It can be late for ``ax`` while it stands
at ``ay``, or late for ``bx`` while it stands at ``by``, but not both. A deadlock is a cycle through
one literal of every clause by its ``a`` side and, for every variable, through the ``b`` sides of
all literals that one value of it makes false. Time over size is the curve; past the budget the
answer is UNKNOWN, and a verdict never contradicts what a SAT solver says of the formula.

Run ``python benchmarks/hard_family.py --variables 10 20 40 --budget 10``.
"""

from __future__ import annotations

import argparse
import random
import time
from typing import Any

import planguard
from planguard.reordering.smt import Answer, Solver

Clause = tuple[int, int, int]


def formula(variables: int, ratio: float, seed: int) -> list[Clause]:
    """Return random clauses of three distinct variables."""
    rng = random.Random(seed)
    picks = [rng.sample(range(1, variables + 1), 3) for _ in range(round(variables * ratio))]
    return [tuple(rng.choice((1, -1)) * v for v in three) for three in picks]


def satisfiable(variables: int, clauses: list[Clause]) -> bool:
    """Decide the formula itself."""
    solver = Solver()
    solver.variables(variables)
    solver.extend(clauses)
    return solver.solve().answer is Answer.SAT


class Builder:
    """Collects ranks of chains of synchronous reductions; every reduction has its own group."""

    def __init__(self) -> None:
        self.members: dict[str, list[int]] = {}
        self.programs: list[list[list[str]]] = []

    def rank(self, *chains: list[str]) -> None:
        """Add a rank with chains that are unordered among each other."""
        for chain in chains:
            for match in chain:
                self.members.setdefault(match, []).append(len(self.programs))
        self.programs.append(list(chains))

    def link(self, stands_at: str, late_for: str) -> None:
        """Lead a cycle on: who waits for ``late_for`` waits for whoever ``stands_at`` waits for."""
        self.rank([stands_at, late_for])

    def plan(self) -> dict[str, Any]:
        """Return the plan."""
        ranks = {}
        for number, chains in enumerate(self.programs):
            body = [
                [{"op": "all_reduce", "group": m, "bytes": 4, "label": m} for m in chain]
                for chain in chains
            ]
            actions: list[Any] = [{"op": "unordered", "body": body}] if len(body) > 1 else body[0]
            ranks[str(number)] = {"actions": actions}
        return {
            "schema": "planguard.plan/1",
            "world_size": len(self.programs),
            "groups": {name: {"ranks": ranks} for name, ranks in self.members.items()},
            "ranks": ranks,
        }


def hard_plan(variables: int, clauses: list[Clause]) -> dict[str, Any]:
    """Return a plan that can deadlock iff the formula is satisfiable."""
    built = Builder()
    hubs = variables + len(clauses)
    for hub in range(hubs):
        built.link(f"out{hub}", f"in{hub}")
    false_by: dict[int, list[str]] = {}
    for number, clause in enumerate(clauses):
        for literal in clause:
            name = f"c{number}.{literal}"
            built.rank([f"ax{name}", f"by{name}"], [f"bx{name}", f"ay{name}"])
            hub = variables + number
            built.link(f"ax{name}", f"out{hub}")
            built.link(f"in{(hub + 1) % hubs}", f"ay{name}")
            false_by.setdefault(-literal, []).append(name)
    for variable in range(1, variables + 1):
        for value in (variable, -variable):
            last = f"out{variable - 1}"
            for name in false_by.get(value, []):
                built.link(f"bx{name}", last)
                last = f"by{name}"
            built.link(f"in{variable % hubs}", last)
    return built.plan()


def main() -> None:
    """Print one row per formula."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--variables", type=int, nargs="*", default=[5, 10, 20, 40])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--ratio", type=float, default=4.26)
    parser.add_argument("--budget", type=float, default=10.0)
    given = parser.parse_args()
    print(
        f"{'variables':>9} {'seed':>5} {'actions':>8} {'formula':>8} {'check s':>8}  outcome, route"
    )
    for variables in given.variables:
        for seed in range(given.seeds):
            clauses = formula(variables, given.ratio, seed)
            loaded = planguard.load(hard_plan(variables, clauses))
            start = time.perf_counter()
            verdict = planguard.check(loaded, model="gloo", budget=given.budget)
            seconds = time.perf_counter() - start
            truth = "sat" if satisfiable(variables, clauses) else "unsat"
            route = "+".join(verdict.evidence.route)
            print(
                f"{variables:>9} {seed:>5} {verdict.stats.actions:>8} {truth:>8} {seconds:>8.2f}  "
                f"{verdict.outcome.value}, {route}, z3 {verdict.evidence.z3_ms:.0f} ms"
            )
            if not verdict.unknown and verdict.safe == (truth == "sat"):
                raise SystemExit("the verdict contradicts the formula")


if __name__ == "__main__":
    main()
