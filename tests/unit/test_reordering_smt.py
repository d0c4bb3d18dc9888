from __future__ import annotations

import itertools
import random
import time

import pytest

from planguard.execution.findings.reason import Kind
from planguard.reordering.smt import Answer, Limits, Solver


def holds(clauses, true):
    """Whether an assignment satisfies every clause."""
    return all(any((abs(x) in true) == (x > 0) for x in clause) for clause in clauses)


def satisfiable(size, clauses):
    """Decide by trying every assignment."""
    variables = range(1, size + 1)
    subsets = itertools.chain.from_iterable(
        itertools.combinations(variables, n) for n in range(size + 1)
    )
    return any(holds(clauses, set(true)) for true in subsets)


def pigeons(count):
    """One pigeon too many: unsatisfiable, and exponential for resolution."""
    solver = Solver()
    inside = [[solver.variable() for _ in range(count)] for _ in range(count + 1)]
    for row in inside:
        solver.add(*row)
    for hole in range(count):
        solver.extend((-a[hole], -b[hole]) for a, b in itertools.combinations(inside, 2))
    return solver


def test_answers_are_those_of_all_assignments():
    """On random clauses SAT and UNSAT are right, and a SAT answer satisfies every clause."""
    rng, answers = random.Random(1), set()
    for _ in range(60):
        solver = Solver()
        size = len(solver.variables(7))
        for _ in range(rng.randrange(15, 40)):
            solver.add(*(rng.choice((1, -1)) * v for v in rng.sample(range(1, size + 1), 3)))
        found = solver.solve()
        answers.add(found.answer)
        assert (found.answer is Answer.SAT) == satisfiable(size, solver.clauses)
        if found.answer is Answer.SAT:
            assert holds(solver.clauses, found.true)
    assert answers == {Answer.SAT, Answer.UNSAT}


@pytest.mark.parametrize("count", [1, 2, 6, 7, 12])
def test_at_most_one_forbids_every_pair_and_nothing_else(count):
    """Each literal alone is possible, none is possible, and no two are."""
    solver = Solver()
    literals = solver.variables(count)
    solver.at_most_one(literals)
    for alone in literals:
        assert solver.solve(assumptions=[alone]).answer is Answer.SAT
    assert solver.solve(assumptions=[-x for x in literals]).answer is Answer.SAT
    for pair in itertools.combinations(literals, 2):
        assert solver.solve(assumptions=pair).answer is Answer.UNSAT


def test_clauses_may_be_added_between_calls():
    """A solver goes on from what it has: blocking each answer enumerates all of them."""
    solver = Solver()
    literals = list(solver.variables(4))
    solver.exactly_one(literals)
    seen = set()
    while (found := solver.solve()).answer is Answer.SAT:
        (one,) = found.true & set(literals)
        seen.add(one)
        solver.add(-one)
    assert seen == set(literals)


def test_contradicting_assumptions_are_named():
    """UNSAT under assumptions names some that contradict the clauses together."""
    solver = Solver()
    a, b, c = solver.variables(3)
    solver.add(-a, -b)
    found = solver.solve(assumptions=[a, b, c])
    assert found.answer is Answer.UNSAT
    assert found.core == {a, b}


@pytest.mark.parametrize("process", [False, True])
def test_a_budget_that_runs_out_is_unknown(process):
    """Ten pigeonholes within 50 ms: UNKNOWN with the reason, in this process and in another."""
    found = pigeons(10).solve(Limits(seconds=0.05, process=process))
    assert found.answer is Answer.UNKNOWN
    assert found.reason.kind is Kind.TIME


def test_another_process_gives_the_same_answers():
    """Four pigeonholes are UNSAT and one pigeon is SAT in a process of its own too."""
    assert pigeons(4).solve(Limits(process=True)).answer is Answer.UNSAT
    solver = Solver()
    a, b = solver.variables(2)
    solver.add(a, b)
    found = solver.solve(Limits(process=True), assumptions=[-a])
    assert (found.answer, found.true) == (Answer.SAT, {b})


def test_a_process_without_memory_is_unknown():
    """A solver process that cannot even start its solver gives UNKNOWN, not an exception."""
    found = pigeons(10).solve(Limits(seconds=20, memory_mb=-470, process=True))
    assert found.answer is Answer.UNKNOWN
    assert found.reason


def test_exactly_one_is_at_least_and_at_most_one():
    """No two hold, and not none."""
    solver = Solver()
    literals = solver.variables(3)
    solver.exactly_one(literals)
    assert solver.solve(assumptions=[-x for x in literals]).answer is Answer.UNSAT
    for pair in itertools.combinations(literals, 2):
        assert solver.solve(assumptions=pair).answer is Answer.UNSAT


def test_no_time_at_all_is_unknown_and_a_second_is_enough():
    """The solver is not asked with nothing left, and says how long it took otherwise."""
    solver = Solver()
    solver.add(solver.variable())
    for seconds in (0, -1):
        found = solver.solve(Limits(seconds=seconds))
        assert (found.answer, found.ms) == (Answer.UNKNOWN, 0.0)
        assert str(found.reason) == "budget exhausted before the solver was called"
    started = time.perf_counter()
    found = solver.solve(Limits(seconds=1))
    assert found.reason is None
    assert 0 < found.ms <= (time.perf_counter() - started) * 1e3


def test_after_an_exception_all_clauses_are_handed_over_again(monkeypatch):
    """A call that fails leaves nothing behind that a later one would build on."""
    import z3

    def fail(*_):
        raise z3.Z3Exception(b"injected")

    solver = Solver()
    one = solver.variable()
    solver.extend([(one,), (-one,)])
    with monkeypatch.context() as patch:
        patch.setattr(z3.Solver, "check", fail)
        assert solver.solve().answer is Answer.UNKNOWN
    assert solver.solve().answer is Answer.UNSAT


def test_a_process_has_more_time_than_its_solver():
    """Starting it does not count: a solver that needs nothing of its seconds answers."""
    assert pigeons(4).solve(Limits(seconds=4.9, process=True)).answer is Answer.UNSAT
