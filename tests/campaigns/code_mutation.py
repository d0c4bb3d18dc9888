"""Code mutation: change the checker itself, a token at a time, and see whether its tests notice.

    python tests/campaigns/code_mutation.py --list
    python tests/campaigns/code_mutation.py certificate --jobs 2   # all mutants of one target
    python tests/campaigns/code_mutation.py matcher --sample 300   # a fixed sample
    python tests/campaigns/code_mutation.py certificate --only 17  # one mutant and what kills it

A mutant is a module whose source differs in one place: a comparison, a boolean, a constant, an
arithmetic or set operator, a condition, or a statement that is left out. It is never written over
the source. The tests of the target are collected once; then every mutant has a process of its own,
a fork, which gives the function with the change its other code and runs the tests until one fails,
those first that killed most mutants a second so far. A change outside of any function needs a new
interpreter; that one, and every one that a test starts, imports the changed text in place of the
module.

What no test notices is a survivor, which has seen all tests of the target; those whose change means
nothing are listed with the reason in data/equivalent_mutants.json and do not count. Results are
kept in results/mutants-TARGET.jsonl, so that a run goes on where it was stopped; remove them, and
what the tests take, after a change of the code.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import copy
import importlib
import importlib.util
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from _pytest.runner import runtestprotocol

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]
RESULTS = Path(__file__).parent / "results"
EQUIVALENT = Path(__file__).parent / "data" / "equivalent_mutants.json"
SLACK, TIMES, WALL = 3.0, 5.0, 120.0
"""A test over a mutant may take this many seconds of processor time and this many times its own, or
as many seconds by the clock. One that takes longer has hung, which is noticed."""

TARGETS = {
    "certificate": (
        [f"planguard.certificate.{name}" for name in ("checker", "orders", "blocks", "refutation")],
        [
            "tests/unit/test_certificate.py",
            "tests/unit/test_certificate_orders.py",
            "tests/unit/test_certificate_refutation.py",
            "tests/property/test_certificates.py",
            "tests/property/test_certificates_orders.py",
            "tests/property/test_certificates_refuted.py",
        ],
    ),
    "proofs": (
        [
            f"planguard.certificate.{name}"
            for name in ("cases", "picks", "threads", "flushes", "buffers", "verify")
        ],
        [
            "tests/unit/test_certificate_cases.py",
            "tests/unit/test_certificate_picks.py",
            "tests/unit/test_certificate_threads.py",
            "tests/unit/test_certificate_flushes.py",
            "tests/property/test_certificates_picks.py",
            "tests/property/test_certificates_flushes.py",
        ],
    ),
    "encoder": (
        ["planguard.reordering.orders.encoding", "planguard.reordering.smt"],
        [
            "tests/unit/test_reordering_smt.py",
            "tests/unit/test_reordering_routes.py",
            "tests/unit/test_branches_solver.py",
        ],
    ),
    "matcher": (
        [f"planguard.kernels.{name}" for name in ("twin_meet", "twin_run", "twin_issue")],
        ["tests/unit/test_kernels.py", "tests/property/test_twin.py"],
    ),
    "mismatch": (
        [f"planguard.execution.{name}" for name in ("members", "mismatch")],
        ["tests/corpus", "tests/property/test_differential.py", "tests/unit/test_wait_for.py"],
    ),
}
COMPARE = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
ARITHMETIC = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.FloorDiv: ast.Mult,
    ast.BitOr: ast.BitAnd, ast.BitAnd: ast.BitOr, ast.LShift: ast.RShift, ast.Mod: ast.Mult,
}  # fmt: skip


@dataclass(frozen=True)
class Mutant:
    """One change of a module.

    Attributes:
        number: Its place among all of the target; -1 is no change at all.
        key: Module, text of the line and change: a name that survives edits elsewhere in the file.
        place: Which of the changes of the module, -1 for none.
        function: Outermost function that holds the change, as ``Class.name``; empty if none does.
    """

    number: int
    module: str
    line: int
    key: str
    place: int
    function: str

    @cached_property
    def source(self) -> str:
        """The whole module with the change, without its comments."""
        tree = ast.parse(source_of(self.module).read_text(encoding="utf-8"))
        if self.place >= 0:
            parent, name, index, _, _, other = _sites(tree)[self.place]
            value = getattr(parent, name)
            if index is None:
                setattr(parent, name, other or ast.Pass())
            else:
                value[index] = other or ast.Pass()
        return ast.unparse(ast.fix_missing_locations(tree))


def changes(node: ast.AST) -> list[tuple[str, ast.AST | None]]:
    """Return what may stand in the place of a node; None leaves a statement out."""
    found: list[tuple[str, ast.AST | None]] = []

    def put(text: str, **fields: object) -> None:
        other = copy.deepcopy(node)
        for name, value in fields.items():
            setattr(other, name, value)
        found.append((text, other))

    if isinstance(node, ast.Compare) and type(node.ops[0]) in COMPARE:
        put("other comparison", ops=[COMPARE[type(node.ops[0])](), *node.ops[1:]])
    elif isinstance(node, ast.BoolOp):
        put("and/or", op=ast.Or() if isinstance(node.op, ast.And) else ast.And())
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        found.append(("no not", copy.deepcopy(node.operand)))
    elif isinstance(node, ast.BinOp) and type(node.op) in ARITHMETIC:
        put("other operator", op=ARITHMETIC[type(node.op)]())
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        put("other truth", value=not node.value)
    elif isinstance(node, ast.Constant) and isinstance(node.value, int):
        put("one more", value=node.value + 1)
    elif isinstance(node, ast.IfExp | ast.If | ast.While) and not isinstance(node.test, ast.Name):
        test = ast.UnaryOp(ast.Not(), copy.deepcopy(node.test))
        put("other condition", test=test)
    elif isinstance(node, ast.Continue):
        found.append(("break", ast.Break()))
    elif isinstance(node, ast.Break):
        found.append(("continue", ast.Continue()))
    if isinstance(node, ast.Expr | ast.AugAssign | ast.Raise) and not _is_docstring(node):
        found.append(("left out", None))
    return found


def _is_docstring(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def source_of(module: str) -> Path:
    """Return the file of a module, without importing it: that of the installed package."""
    package, _, name = module.rpartition(".")
    folder = importlib.util.find_spec(package.partition(".")[0])
    assert folder is not None
    assert folder.origin is not None
    return Path(folder.origin).parent.joinpath(*package.split(".")[1:], name + ".py")


def mutants_of(target: str) -> list[Mutant]:
    """Return every mutant of a target, numbered from 0 in the order of the sources."""
    found, seen = list[Mutant](), Counter[str]()
    for module in TARGETS[target][0]:
        text = source_of(module).read_text(encoding="utf-8")
        tree, lines = ast.parse(text), text.splitlines()
        holders = _functions(tree)
        for place, (*_, child, change, _) in enumerate(_sites(tree)):
            line = child.lineno
            key = f"{module}: {lines[line - 1].strip()} [{ast.unparse(child)[:60]}]: {change}"
            seen[key] += 1
            key += f" #{seen[key]}" if seen[key] > 1 else ""
            found.append(Mutant(len(found), module, line, key, place, holders.get(id(child), "")))
    return found


def _sites(tree: ast.Module) -> list[tuple[Any, ...]]:
    """Return every change of a module: parent, field, index in it, node, what is done, result."""
    places = list(_places(tree))
    places.sort(key=lambda p: (getattr(p[3], "lineno", 0), getattr(p[3], "col_offset", 0)))
    return [(*place, change, other) for place in places for change, other in changes(place[3])]


def _functions(tree: ast.Module) -> dict[int, str]:
    """Return for every node in the body of a function the name of the outermost one."""
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    return {
        id(node): f"{prefix}{function.name}"
        for prefix, body in [("", tree.body), *((f"{one.name}.", one.body) for one in classes)]
        for function in body
        if isinstance(function, ast.FunctionDef)
        for statement in function.body
        for node in ast.walk(statement)
    }


def _places(parent):
    """Yield every node below one and where it stands, but for hints, which nothing evaluates.

    The text of an error is left alone too: no test need pin it down.
    """
    for name, value in ast.iter_fields(parent):
        if name not in {"annotation", "returns", "decorator_list"}:
            for index, child in enumerate(value) if isinstance(value, list) else [(None, value)]:
                if isinstance(child, ast.AST):
                    if not isinstance(parent, ast.JoinedStr | ast.FormattedValue):
                        yield parent, name, index, child
                    yield from _places(child)


def change_imports(mutant: Mutant, note: Path) -> None:
    """Let every interpreter that this process starts import the mutant in place of the module."""
    note.write_text(json.dumps([mutant.module, mutant.source, str(source_of(mutant.module))]))
    path = [str(Path(__file__).parent / "changed"), os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, path))
    os.environ["PLANGUARD_MUTANT"] = str(note)


def put_in_place(mutant: Mutant) -> bool:
    """Give the function that holds the change its other code; tell whether that was possible."""
    space: dict[str, object] = {"__name__": mutant.module}
    try:
        exec(compile(mutant.source, str(source_of(mutant.module)), "exec"), space)  # noqa: S102
        ours = _function(vars(importlib.import_module(mutant.module)), mutant.function)
        ours.__code__ = _function(space, mutant.function).__code__
    except (KeyError, AttributeError, ValueError):  # in no function, or its closure is another
        return False
    return True


def _function(space, name):
    first, _, rest = name.partition(".")
    found = vars(space[first])[rest] if rest else space[first]
    for wrapper in ("fget", "__func__", "__wrapped__"):
        found = getattr(found, wrapper, found)
    return found


@dataclass
class Tests:
    """The tests of a target as collected, what each takes, and how many mutants it killed."""

    items: list[pytest.Item]
    seconds: dict[str, float] = field(default_factory=dict)
    kills: Counter[str] = field(default_factory=Counter)

    def _gain(self, item: pytest.Item) -> float:
        """Return the mutants that a test killed a second; one that killed none counts a little."""
        return (self.kills[item.nodeid] + 0.1) / (self.seconds.get(item.nodeid, 1.0) + 0.02)

    def pass_all(self, log: Path) -> bool:
        """Run the tests until one fails; write down which began, and what it took."""
        items = sorted(self.items, key=self._gain, reverse=True)
        with log.open("w", buffering=1) as stream:
            for item, following in zip(items, [*items[1:], None], strict=True):
                stream.write(item.nodeid + "\n")
                limit = SLACK + TIMES * self.seconds.get(item.nodeid, WALL)
                signal.setitimer(signal.ITIMER_VIRTUAL, limit)
                signal.setitimer(signal.ITIMER_REAL, WALL + TIMES * limit)
                begin = sum(os.times()[:4])  # with processes that a test started
                reports = runtestprotocol(item, nextitem=following, log=False)
                if any(report.failed for report in reports):
                    return False
                stream.write(f"{sum(os.times()[:4]) - begin}\n")
        return True


class Child:
    """The tests over one mutant in a process of its own; mutant -1 is no mutant."""

    def __init__(self, target: str, mutant: Mutant, tests: Tests, folder: Path) -> None:
        self.mutant, self.log = mutant, folder / f"{mutant.number}.log"
        self.process = os.fork()
        if self.process == 0:
            os.setpgid(0, 0)
            for stream in (1, 2):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
            code = 1
            with contextlib.suppress(BaseException):  # a mutant may end in any way
                change_imports(mutant, self.log.with_suffix(".json"))
                if not put_in_place(mutant):
                    self.log.with_suffix(".order").write_text(
                        json.dumps([tests.seconds, tests.kills])
                    )
                    words = [sys.executable, __file__, target, "--log", str(self.log)]
                    os.execv(sys.executable, words)  # noqa: S606
                code = int(not tests.pass_all(self.log))
            os._exit(code)

    def result(self, status: int) -> tuple[str, str]:
        """Return ``killed``, ``hung`` or ``survived``, and by which test it ended."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process, signal.SIGKILL)  # what it started itself
        code = os.waitstatus_to_exitcode(status)
        begun = self.log.read_text().splitlines()[::2] if self.log.exists() else []
        if code == 0:
            return "survived", ""
        is_late = -code in {signal.SIGVTALRM, signal.SIGALRM}
        return "hung" if is_late else "killed", begun[-1] if begun else "import"


class Unshrunk:
    """A pytest plugin: the first counterexample of Hypothesis will do."""

    def pytest_collection(self) -> None:
        """Change the profile once conftest.py has chosen it and before tests are imported."""
        from hypothesis import Phase, settings  # pytest rewrites it first

        phases = (Phase.explicit, Phase.generate)
        settings.register_profile("unshrunk", settings.default, phases=phases)
        settings.load_profile("unshrunk")


class Campaign(Unshrunk):
    """A pytest plugin: runs the mutants where pytest would run the tests."""

    def __init__(self, work: list[Mutant], args: argparse.Namespace) -> None:
        self.work, self.args, self.known = work, args, dict[str, str]()

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Run what has no result yet, and keep each result."""
        if session.testsfailed:
            sys.exit("the tests cannot be collected")
        RESULTS.mkdir(exist_ok=True)
        kept = RESULTS / f"mutants-{self.args.target}.jsonl"
        rows = [json.loads(line) for line in kept.read_text().splitlines()] if kept.exists() else []
        self.known = {row["key"]: row["result"] for row in rows}
        tests = Tests(session.items, kills=Counter(row["test"] for row in rows))
        with tempfile.TemporaryDirectory() as folder, kept.open("a", buffering=1) as stream:
            self._measure(tests, kept.with_suffix(".seconds.json"), Path(folder))
            quick = {name for name, taken in tests.seconds.items() if taken <= self.args.quick}
            tests.items = [item for item in tests.items if item.nodeid in quick]
            for mutant, outcome, test in self._outcomes(tests, Path(folder)):
                if outcome == "survived" and len(quick) < len(tests.seconds):
                    print(f"  survives quick tests: {mutant.number} {mutant.key}")
                    continue
                self.known[mutant.key] = outcome
                tests.kills[test] += 1
                row = {"key": mutant.key, "line": mutant.line, "result": outcome, "test": test}
                stream.write(json.dumps(row) + "\n")
        return True

    def _measure(self, tests: Tests, kept: Path, folder: Path) -> None:
        """Run the tests over unchanged text, the slow way; stop if one fails: so would each."""
        tests.seconds = json.loads(kept.read_text()) if kept.exists() else {}
        if tests.seconds.keys() == {item.nodeid for item in tests.items}:
            return
        nothing = Mutant(-1, self.work[0].module, 0, "", -1, "")
        child = Child(self.args.target, nothing, tests, folder)
        outcome, test = child.result(os.waitpid(child.process, 0)[1])
        if outcome != "survived":
            sys.exit(f"{test} fails without any change")
        lines = child.log.read_text().splitlines()
        tests.seconds = dict(zip(lines[::2], map(float, lines[1::2]), strict=True))
        kept.write_text(json.dumps(tests.seconds))
        print(f"{len(tests.items)} tests take {sum(tests.seconds.values()):.0f} s without a change")

    def _outcomes(self, tests: Tests, folder: Path) -> Iterator[tuple[Mutant, str, str]]:
        again = {"survived"} if self.args.again else set()
        todo = [one for one in self.work if self.known.get(one.key) in {None, *again}]
        end, running = time.monotonic() + 60 * self.args.minutes, dict[int, Child]()
        for left in range(len(todo), 0, -1):
            while todo and len(running) < self.args.jobs and time.monotonic() < end:
                child = Child(self.args.target, todo.pop(0), tests, folder)
                running[child.process] = child
            if not running:
                return
            process, status = os.wait()
            child = running.pop(process)
            print(f"\r{left} left ", end="", file=sys.stderr)
            yield child.mutant, *child.result(status)


class Alone(Unshrunk):
    """A pytest plugin for a new interpreter: runs the tests over a module changed at its import."""

    def __init__(self, log: Path) -> None:
        self.log = log
        self.seconds, self.kills = json.loads(log.with_suffix(".order").read_text())

    def pytest_runtestloop(self, session: pytest.Session) -> None:
        """End the process with 0 if no test fails."""
        tests = Tests(session.items, self.seconds, Counter(self.kills))
        os._exit(int(not (tests.pass_all(self.log) and not session.testsfailed)))


def main() -> None:
    """Run the mutants of a target and print how many were killed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("target", nargs="?", choices=sorted(TARGETS))
    parser.add_argument("--list", action="store_true", help="count the mutants of each target")
    parser.add_argument("--sample", type=int, help="this many, drawn with a fixed seed")
    parser.add_argument("--jobs", type=int, default=1, help="this many mutants at a time")
    parser.add_argument("--again", action="store_true", help="run survivors once more")
    parser.add_argument(
        "--quick",
        type=float,
        default=1e9,
        help="only tests that take so long; keep kills",
    )
    parser.add_argument("--minutes", type=float, default=1e9, help="stop starting mutants then")
    parser.add_argument("--only", type=int, help="run one mutant, by number, and show the tests")
    parser.add_argument("--log", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    os.chdir(ROOT)
    if args.list or args.target is None:
        for name in TARGETS:
            print(f"{name:12} {len(mutants_of(name)):5} mutants")
        return
    options = ["-x", "-q", "-p", "no:cacheprovider", *TARGETS[args.target][1]]
    if args.log:
        sys.exit(pytest.main(options, plugins=[Alone(args.log)]))
    work = mutants_of(args.target)
    if args.only is not None:
        one = work[args.only]
        print(f"{one.key}, line {one.line}")
        with tempfile.NamedTemporaryFile() as note:
            change_imports(one, Path(note.name))
            sys.exit(subprocess.call([sys.executable, "-m", "pytest", *options]))
    if args.sample:
        work = random.Random(1).sample(work, min(args.sample, len(work)))
    campaign = Campaign(work, args)
    pytest.main(options, plugins=[campaign])
    say(args.target, work, campaign.known)


def say(target: str, work: list[Mutant], known: dict[str, str]) -> None:
    """Print the counts, and every survivor that is not known to mean nothing."""
    equivalent = json.loads(EQUIVALENT.read_text())
    done = [mutant for mutant in work if mutant.key in known]
    alive = [mutant for mutant in done if known[mutant.key] == "survived"]
    same = [mutant for mutant in alive if mutant.key in equivalent]
    killed, counted = len(done) - len(alive), len(done) - len(same)
    print(
        f"\n{target}: {len(done)} of {len(work)} mutants run, {len(same)} mean nothing, "
        f"{killed} of {counted} killed ({100 * killed / max(counted, 1):.1f} %)"
    )
    for mutant in alive:
        if mutant.key not in equivalent:
            print(f"  survives: {mutant.number} {mutant.key} (line {mutant.line})")


if __name__ == "__main__":
    main()
