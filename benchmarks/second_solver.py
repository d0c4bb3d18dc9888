"""A second opinion on every answer of the solver: other seeds, other tactics, other solvers.

    python benchmarks/second_solver.py --instances 1000

Plans that need the solver are checked, and every question they put to it is kept as it was put: the
clauses, the assumptions and the answer. Each is asked again of Z3 with three seeds, of Z3's general
solver over SMT-LIB text, and, where they are installed, of CaDiCaL (``pip install python-sat``) and
cvc5 (``pip install cvc5``). A satisfying assignment is held against the clauses. The exit code is 1
if any two answers differ.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import random
import sys
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hard_family

import planguard
from planguard.reordering.smt import Answer, Solver

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

SEEDS = (1, 17, 4_711)


@dataclass(frozen=True)
class Question:
    """What the solver was asked, and what it said."""

    size: int
    clauses: tuple[tuple[int, ...], ...]
    assumptions: tuple[int, ...]
    answer: Answer
    true: frozenset[int]

    @property
    def smtlib(self) -> str:
        """The question as SMT-LIB text."""
        names = "".join(f"(declare-const v{n} Bool)\n" for n in range(1, self.size + 1))
        units = tuple((literal,) for literal in self.assumptions)
        lines = "".join(f"(assert {_disjunction(clause)})\n" for clause in self.clauses + units)
        return f"(set-logic QF_UF)\n{names}{lines}"


def _disjunction(clause: Sequence[int]) -> str:
    literals = [f"v{n}" if n > 0 else f"(not v{-n})" for n in clause]
    return (
        literals[0] if len(literals) == 1 else f"(or {' '.join(literals)})" if literals else "false"
    )


@contextlib.contextmanager
def overheard(kept: list[Question]) -> Iterator[None]:
    """Keep every question that is put to the solver."""
    original = Solver.solve

    def solve(self: Solver, *args: Any, **kwargs: Any) -> Any:
        found = original(self, *args, **kwargs)
        assumptions = kwargs.get("assumptions", args[1] if len(args) > 1 else ())
        if found.answer is not Answer.UNKNOWN:
            clauses = tuple(tuple(clause) for clause in self.clauses)
            kept.append(Question(self.size, clauses, tuple(assumptions), found.answer, found.true))
        return found

    Solver.solve = solve  # type: ignore[method-assign]
    try:
        yield
    finally:
        Solver.solve = original  # type: ignore[method-assign]


def plans() -> Iterator[tuple[Any, str]]:
    """Plans whose orders are decided by clauses, easy and hard, safe and not."""
    for seed in range(10**6):
        rng = random.Random(seed)
        variables = rng.choice([3, 4, 5, 6, 8, 10, 12])
        ratio = rng.choice([2.0, 3.5, 4.26, 5.0, 6.5, 8.0])
        clauses = hard_family.formula(variables, ratio, seed)
        yield hard_family.hard_plan(variables, clauses), "gloo"
        yield choices(rng), "gloo"


def choices(rng: random.Random) -> dict[str, Any]:
    """A plan with more named branches than are tried one by one."""
    names = [f"b{number}" for number in range(rng.randint(12, 18))]
    uniform = rng.random() < 0.6

    def call(name: str) -> dict[str, Any]:
        return {"op": "all_reduce", "bytes": 4, "label": name}

    actions = [
        {"op": "choice", "name": name, "uniform": uniform or rng.random() < 0.9,
         "branches": [[call(name)], [call(name), call(name + "+")] if rng.random() < 0.5 else []]}
        for name in names
    ]  # fmt: skip
    return {
        "schema": "planguard.plan/1",
        "world_size": 2,
        "ranks": {"0-1": {"actions": actions}},
    }


def collect(count: int) -> list[Question]:
    """Return the first questions, each once."""
    kept: list[Question] = []
    with overheard(kept):
        for plan, model in plans():
            planguard.check(plan, model=model, budget=20)
            if len(set(kept)) >= count:
                break
            print(f"\r{len(kept)} questions", end="", file=sys.stderr)
    return list(dict.fromkeys(kept))[:count]


def z3_again(seed: int) -> Callable[[Question], str]:
    """Z3's boolean core, with another seed."""

    def ask(question: Question) -> str:
        import z3

        solver = z3.SolverFor("QF_FD")
        solver.set("random_seed", seed)
        order = list(question.clauses)
        random.Random(seed).shuffle(order)
        other = Solver()
        other.size, other.clauses = question.size, list(order)
        other.extend((literal,) for literal in question.assumptions)
        solver.from_string(other.dimacs())
        return str(solver.check())

    return ask


def z3_general(question: Question) -> str:
    """Z3's general solver, over SMT-LIB text."""
    import z3

    solver = z3.SimpleSolver()
    solver.from_string(question.smtlib)
    return str(solver.check())


def cadical(question: Question) -> str:
    """CaDiCaL."""
    from pysat.solvers import Cadical153

    with Cadical153(bootstrap_with=[list(clause) for clause in question.clauses]) as solver:
        return "sat" if solver.solve(assumptions=list(question.assumptions)) else "unsat"


def cvc5(question: Question) -> str:
    """The solver cvc5, over SMT-LIB text."""
    import cvc5 as api

    solver = api.Solver(api.TermManager())
    parser = api.InputParser(solver)
    parser.setStringInput(api.InputLanguage.SMT_LIB_2_6, question.smtlib + "(check-sat)", "plan")
    symbols, said = parser.getSymbolManager(), ""
    while not (command := parser.nextCommand()).isNull():
        said += str(command.invoke(solver, symbols))
    return said.strip()


def holds(question: Question) -> bool:
    """Whether a satisfying assignment satisfies."""
    literals = question.clauses + tuple((literal,) for literal in question.assumptions)
    return all(any((n > 0) == (abs(n) in question.true) for n in clause) for clause in literals)


def main() -> None:
    """Ask everybody, and count."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--instances", type=int, default=1_000)
    given = parser.parse_args()
    solvers: dict[str, Callable[[Question], str]] = {
        f"z3, seed {seed}": z3_again(seed) for seed in SEEDS
    }
    solvers["z3, general"] = z3_general
    others = (("pysat", "CaDiCaL", cadical), ("cvc5", "cvc5", cvc5))
    solvers |= {name: ask for package, name, ask in others if importlib.util.find_spec(package)}
    questions = collect(given.instances)
    sizes = sorted(len(question.clauses) for question in questions)
    answers = Counter(question.answer.value for question in questions)
    print(f"\n{len(questions)} questions: {dict(answers)}, {sizes[0]} to {sizes[-1]} clauses")
    wrong = sum(not holds(q) for q in questions if q.answer is Answer.SAT)
    print(f"assignments that do not satisfy: {wrong}")
    differ = 0
    for name, ask in solvers.items():
        start = time.perf_counter()
        other = sum(ask(question) != question.answer.value for question in questions)
        differ += other
        print(f"{name:14} {other} disagreements  {time.perf_counter() - start:6.1f} s")
    sys.exit(int(differ + wrong > 0))


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    main()
