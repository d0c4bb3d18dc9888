"""A thin layer over Z3: booleans and clauses in bulk, three answers, budgets in time and memory.

Clauses are collected as integers and handed over as one DIMACS text: building a Python object per
clause costs more than solving. Variable ``n`` is the n-th that was made, ``-n`` its negation.
"""

from __future__ import annotations

import enum
import itertools
import json
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from planguard.execution.findings.reason import Kind, Reason, out_of_time

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

PAIRWISE = 6
"""Largest at-most-one that is written as pairs; larger ones get a chain of helper variables."""
GRACE = 5.0
"""Seconds beyond its budget after which a solver process is ended."""


class Answer(enum.Enum):
    """What a solver says."""

    SAT = "sat"
    UNSAT = "unsat"
    UNKNOWN = "unknown"


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What one call may cost.

    Attributes:
        seconds: Wall-clock budget; None means no limit.
        memory_mb: Memory budget in MiB; beyond it the answer is UNKNOWN.
        process: Solve in a process of its own, so that not even a crash of the solver reaches us.
    """

    seconds: float | None = None
    memory_mb: int = 4096
    process: bool = False


@dataclass(frozen=True)
class Result:
    """An answer with what belongs to it.

    Attributes:
        answer: SAT, UNSAT or UNKNOWN.
        true: The variables that are true, if SAT.
        core: The assumptions that contradict each other, if UNSAT under assumptions.
        reason: Why it is UNKNOWN.
        ms: Milliseconds spent in the solver, text included.
    """

    answer: Answer
    true: frozenset[int] = frozenset()
    core: frozenset[int] = frozenset()
    reason: Reason | None = None
    ms: float = 0.0


class Solver:
    """A growing set of clauses; ``solve`` may be called again after more were added."""

    def __init__(self) -> None:
        self.clauses: list[Sequence[int]] = []
        self.size = 0
        self._backend: Any = None
        self._handed = 0

    def variable(self) -> int:
        """Return a new variable."""
        self.size += 1
        return self.size

    def variables(self, count: int) -> range:
        """Return ``count`` new variables."""
        self.size += count
        return range(self.size - count + 1, self.size + 1)

    def add(self, *literals: int) -> None:
        """Add one clause: at least one of the literals holds."""
        self.clauses.append(literals)

    def extend(self, clauses: Iterable[Sequence[int]]) -> None:
        """Add many clauses."""
        self.clauses.extend(clauses)

    def at_most_one(self, literals: Sequence[int]) -> None:
        """Let no two of the literals hold (sequential counter; Sinz, CP 2005)."""
        if len(literals) <= PAIRWISE:
            self.extend((-a, -b) for a, b in itertools.combinations(literals, 2))
            return
        seen = self.variables(len(literals) - 1)
        self.add(-literals[0], seen[0])
        for place in range(1, len(literals)):
            self.add(-literals[place], -seen[place - 1])
            if place < len(seen):
                self.add(-literals[place], seen[place])
                self.add(-seen[place - 1], seen[place])

    def exactly_one(self, literals: Sequence[int]) -> None:
        """Let exactly one of the literals hold."""
        self.add(*literals)
        self.at_most_one(literals)

    def dimacs(self, since: int = 0) -> str:
        """Return the clauses from number ``since`` on as DIMACS text."""
        added = self.clauses[since:]
        lines = [" ".join(map(str, clause)) + " 0" for clause in added]
        return f"p cnf {self.size} {len(added)}\n" + "\n".join(lines) + "\n"

    def solve(self, limits: Limits = Limits(), assumptions: Sequence[int] = ()) -> Result:
        """Decide the clauses added so far, under assumptions.

        Args:
            limits: What it may cost.
            assumptions: Literals that hold in this call only.

        Returns:
            The answer. Exhausted budgets, crashes and a dead process are UNKNOWN with the reason.
        """
        started = time.perf_counter()
        if limits.seconds is not None and limits.seconds <= 0:
            return Result(Answer.UNKNOWN, reason=out_of_time(" before the solver was called"))
        call = self._elsewhere if limits.process else self._here
        found = call(limits, assumptions)
        return replace(found, ms=(time.perf_counter() - started) * 1e3)

    def _here(self, limits: Limits, assumptions: Sequence[int]) -> Result:
        import z3

        try:
            if self._backend is None:
                # Pure booleans: the incremental SAT core, without the theories of the default.
                self._backend = z3.SolverFor("QF_FD")
            # The next clauses by number: a variable of DIMACS is the symbol of that number.
            self._backend.from_string(self.dimacs(self._handed))
            self._handed = len(self.clauses)
            return _ask(z3, self._backend, limits, assumptions)
        except (z3.Z3Exception, MemoryError) as error:
            self._backend, self._handed = None, 0
            return Result(Answer.UNKNOWN, reason=_failed(error))

    def _elsewhere(self, limits: Limits, assumptions: Sequence[int]) -> Result:
        head = {
            "seconds": limits.seconds,
            "memory_mb": limits.memory_mb,
            "assumptions": list(assumptions),
        }
        patience = None if limits.seconds is None else limits.seconds + GRACE
        try:
            done = subprocess.run(
                [sys.executable, "-m", "planguard.reordering.smt"],
                input=json.dumps(head) + "\n" + self.dimacs(),
                capture_output=True,
                text=True,
                timeout=patience,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return Result(Answer.UNKNOWN, reason=out_of_time(" (timeout)").about("solver process"))
        except OSError as error:
            return Result(Answer.UNKNOWN, reason=_process(f": {error.strerror}"))
        try:
            found = json.loads(done.stdout)
        except ValueError:
            return Result(Answer.UNKNOWN, reason=_process(f" {_ended(done.returncode)}"))
        return Result(
            Answer(found["answer"]),
            frozenset(found["true"]),
            frozenset(found["core"]),
            Reason(Kind(found["kind"]), found["reason"]) if found["reason"] else None,
        )


def _ask(z3: Any, backend: Any, limits: Limits, assumptions: Sequence[int]) -> Result:
    # Z3 reads 2**32 - 1 as no limit.
    ms = (1 << 32) - 1 if limits.seconds is None else max(1, int(limits.seconds * 1e3))
    backend.set("timeout", ms)
    backend.set("max_memory", limits.memory_mb)
    literals = [z3.Bool(a) if a > 0 else z3.Not(z3.Bool(-a)) for a in assumptions]
    answer = backend.check(*literals)
    if answer == z3.sat:
        model = backend.model()
        return Result(Answer.SAT, frozenset(_number(d) for d in model if z3.is_true(model[d])))
    if answer == z3.unsat:
        core = {str(literal) for literal in backend.unsat_core()}
        pairs = zip(assumptions, literals, strict=True)
        return Result(Answer.UNSAT, core=frozenset(a for a, text in pairs if str(text) in core))
    return Result(Answer.UNKNOWN, reason=_words(backend.reason_unknown()))


def _failed(error: BaseException) -> Reason:
    said = error.args[0] if error.args else ""  # z3 leaves its text undecoded
    text = said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said)
    return _words(text or "out of memory")


def _ended(code: int) -> str:
    if code >= 0:
        return f"ended with code {code}"
    try:
        return f"was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"was ended by signal {-code}"


def _number(declaration: Any) -> int:
    return int(declaration.name().partition("!")[2])


def _process(what: str) -> Reason:
    return Reason(Kind.SOLVER, f"solver process{what}")


def _words(said: str) -> Reason:
    """Return what Z3 says of an answer it did not find; it tells the limit in words alone."""
    if "memory" in said:
        return Reason(Kind.MEMORY, f"memory exhausted (solver: {said})")
    if "timeout" in said or "canceled" in said:
        return out_of_time(f" (solver: {said})")
    return Reason(Kind.TIME, f"solver: {said}")


def main() -> int:
    """Solve what stands on standard input, as a process with a memory limit of its own."""
    head = json.loads(sys.stdin.readline())
    limits = Limits(seconds=head["seconds"], memory_mb=head["memory_mb"])
    try:
        import resource

        soft = (limits.memory_mb + 512) << 20  # the interpreter and the library come on top
        resource.setrlimit(resource.RLIMIT_AS, (soft, soft))
    except (ImportError, ValueError, OSError):
        pass  # the limit of the solver itself remains
    import z3

    try:
        backend = z3.SolverFor("QF_FD")
        backend.from_string(sys.stdin.read())
        found = _ask(z3, backend, limits, head["assumptions"])
    except (z3.Z3Exception, MemoryError) as error:
        found = Result(Answer.UNKNOWN, reason=_failed(error))
    fields = {"answer": found.answer.value, "true": sorted(found.true), "core": sorted(found.core)}
    reason = {} if found.reason is None else {"kind": found.reason.kind.value}
    detail = "" if found.reason is None else found.reason.detail
    sys.stdout.write(json.dumps({**fields, **reason, "reason": detail}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
