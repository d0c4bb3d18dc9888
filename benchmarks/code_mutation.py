"""Code mutation: change the checker itself, a token at a time, and see whether its tests notice.

    python benchmarks/code_mutation.py --list
    python benchmarks/code_mutation.py certificate            # all mutants of one target
    python benchmarks/code_mutation.py matcher --sample 200   # a fixed sample
    python benchmarks/code_mutation.py certificate --only 17  # show one mutant and what kills it

A mutant is a module whose source differs in one place: a comparison, a boolean, a constant, an
arithmetic or set operator, a condition, or a statement that is left out. It is never written over
the source: a process of its own imports the changed text in place of the module and runs the tests
of the target until one fails. What no test notices is a survivor; those whose change means nothing
are listed with the reason in data/equivalent_mutants.json and do not count. Results are kept in
results/mutants-TARGET.jsonl, so that a run goes on where it was stopped.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import copy
import importlib.abc
import importlib.util
import json
import os
import random
import signal
import sys
import time
import traceback
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RESULTS = Path(__file__).parent / "results"
EQUIVALENT = Path(__file__).parent / "data" / "equivalent_mutants.json"
LIMIT = 240
"""Seconds for one mutant; one that runs longer has hung, which is noticed."""

CERTIFICATE = (
    "tests/unit/test_certificate.py",
    "tests/unit/test_certificate_orders.py",
    "tests/property/test_certificates.py",
    "tests/property/test_certificates_orders.py",
)
ENCODER = (
    "tests/unit/test_reordering_smt.py",
    "tests/unit/test_reordering_routes.py",
    "tests/unit/test_branches_solver.py",
    "tests/adversarial/test_faults.py",
)
TARGETS = {
    "certificate": (
        ("planguard.certificate.checker", CERTIFICATE),
        ("planguard.certificate.orders", CERTIFICATE),
        ("planguard.certificate.blocks", CERTIFICATE),
        (
            "planguard.certificate.refutation",
            (
                "tests/property/test_certificates_refuted.py",
                "tests/property/test_certificates_orders.py",
            ),
        ),
    ),
    "encoder": tuple((f"planguard.reordering.{module}", ENCODER) for module in ("encoding", "smt")),
    "matcher": tuple(
        (
            f"planguard.{module}",
            (
                "tests/corpus",
                "tests/property/test_twin.py",
                "tests/property/test_differential.py",
                "tests/unit/test_wait_for.py",
            ),
        )
        for module in (
            "kernels.twin_meet",
            "kernels.twin_run",
            "kernels.twin_issue",
            "execution.members",
            "execution.mismatch",
            "execution.disagreements",
        )
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
    """One change: which module, which line, what."""

    number: int
    module: str
    line: int
    was: str
    change: str
    source: str

    @property
    def key(self) -> str:
        """Name of the change that survives edits elsewhere in the file."""
        return f"{self.module}: {self.was}: {self.change}"


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


def mutants_of(module: str) -> list[Mutant]:
    """Return every mutant of a module, numbered from 0 in the order of the source."""
    text = source_of(module).read_text(encoding="utf-8")
    tree = ast.parse(text)
    lines = text.splitlines()
    places = [
        (parent, field, index, child)
        for parent in ast.walk(tree)
        for field, value in ast.iter_fields(parent)
        for index, child in (enumerate(value) if isinstance(value, list) else [(None, value)])
        if isinstance(child, ast.AST) and not _is_hint(parent, field)
    ]
    places.sort(key=lambda p: (getattr(p[3], "lineno", 0), getattr(p[3], "col_offset", 0)))
    found: list[Mutant] = []
    for parent, field, index, child in places:
        for change, other in changes(child):
            replacement = other if other is not None else ast.Pass()
            with _placed(parent, field, index, replacement):
                source = ast.unparse(ast.fix_missing_locations(tree))
            line = child.lineno
            was = f"{lines[line - 1].strip()} [{ast.unparse(child)[:60]}]"
            found.append(Mutant(len(found), module, line, was, change, source))
    return found


def _is_hint(parent: ast.AST, field: str) -> bool:
    """Whether a place is an annotation or the text of an error, which no test need pin down."""
    return field in {"annotation", "returns", "decorator_list"} or isinstance(
        parent, ast.JoinedStr | ast.FormattedValue
    )


@contextlib.contextmanager
def _placed(parent, field, index, node):
    value = getattr(parent, field)
    if index is None:
        setattr(parent, field, node)
    else:
        kept, value[index] = value[index], node
    yield
    if index is None:
        setattr(parent, field, value)
    else:
        value[index] = kept


class Changed(importlib.abc.MetaPathFinder, importlib.abc.InspectLoader):
    """Imports one module from changed text."""

    def __init__(self, mutant: Mutant) -> None:
        self.mutant = mutant
        self.file = source_of(mutant.module)

    def find_spec(self, name, path=None, target=None):
        if name != self.mutant.module:
            return None
        return importlib.util.spec_from_loader(name, self, origin=str(self.file))

    def get_source(self, fullname):
        return self.mutant.source

    def exec_module(self, module):
        module.__file__ = str(self.file)
        exec(compile(self.mutant.source, str(self.file), "exec"), module.__dict__)  # noqa: S102


def run(mutant: Mutant, tests: tuple[str, ...], *, loud: bool = False) -> str:
    """Run the tests over a mutant in a process of its own; ``killed``, ``hung`` or ``survived``."""
    child = os.fork()
    if child == 0:
        os.setpgid(0, 0)
        _in_child(mutant, tests, loud=loud)
    end = time.monotonic() + LIMIT
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            code = os.waitstatus_to_exitcode(status)
            return {0: "survived", 2: "interrupted"}.get(code, "killed")
        time.sleep(0.05)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return "hung"


def _in_child(mutant: Mutant, tests: tuple[str, ...], *, loud: bool) -> None:
    import pytest

    if not loud:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(null, 2)
    sys.meta_path.insert(0, Changed(mutant))
    code = 1
    try:
        code = int(pytest.main(["-x", "-q", "-p", "no:cacheprovider", "-p", "no:randomly", *tests]))
    except BaseException:  # noqa: BLE001 - a mutant may end in any way
        traceback.print_exc()
    sys.stdout.flush()
    os._exit(code)


def main() -> None:
    """Run the mutants of a target and print how many were killed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("target", nargs="?", choices=sorted(TARGETS))
    parser.add_argument("--list", action="store_true", help="count the mutants of each target")
    parser.add_argument("--sample", type=int, help="this many, drawn with a fixed seed")
    parser.add_argument("--only", type=int, help="run one mutant, by number, and show the tests")
    parser.add_argument("--minutes", type=float, default=1e9, help="stop starting mutants then")
    args = parser.parse_args()
    os.chdir(ROOT)
    if args.list or args.target is None:
        for name, parts in TARGETS.items():
            print(f"{name:12} {sum(len(mutants_of(module)) for module, _ in parts):5} mutants")
        return
    work = [
        (mutant, tests) for module, tests in TARGETS[args.target] for mutant in mutants_of(module)
    ]
    if args.only is not None:
        mutant, tests = work[args.only]
        print(f"{mutant.module}:{mutant.line}  {mutant.change}\n  {mutant.was}")
        print(run(mutant, tests, loud=True))
        return
    if args.sample:
        work = random.Random(1).sample(work, min(args.sample, len(work)))
    campaign(args.target, work, args.minutes)


def campaign(target: str, work: list[tuple[Mutant, tuple[str, ...]]], minutes: float) -> None:
    """Run what has no result yet, keep each result, and say what survives."""
    # Imported once, before the processes part; nothing of PlanGuard, which each imports changed.
    import msgspec  # noqa: F401
    import networkx as nx  # noqa: F401
    import numpy as np  # noqa: F401
    import pytest  # noqa: F401
    import z3  # noqa: F401

    unchanged(work)
    RESULTS.mkdir(exist_ok=True)
    log = RESULTS / f"mutants-{target}.jsonl"
    known = {}
    if log.exists():
        rows = [json.loads(line) for line in log.read_text().splitlines()]
        known = {row["key"]: row["result"] for row in rows}
    end = time.monotonic() + 60 * minutes
    with log.open("a") as stream:
        for at, (mutant, tests) in enumerate(work):
            if time.monotonic() > end:
                break
            if mutant.key in known:
                continue
            known[mutant.key] = run(mutant, tests)
            row = {"key": mutant.key, "line": mutant.line, "result": known[mutant.key]}
            stream.write(json.dumps(row) + "\n")
            stream.flush()
            print(f"\r{at + 1}/{len(work)}", end="", file=sys.stderr)
    say(target, work, known)


def unchanged(work: list[tuple[Mutant, tuple[str, ...]]]) -> None:
    """Stop unless the tests pass over every module as it is: else each mutant would be killed."""
    for module, tests in sorted({(mutant.module, tests) for mutant, tests in work}):
        text = source_of(module).read_text(encoding="utf-8")
        same = ast.unparse(ast.parse(text))
        if run(Mutant(-1, module, 0, "", "nothing", same), tests) != "survived":
            sys.exit(f"the tests fail without any change to {module}")


def say(target: str, work: list[tuple[Mutant, tuple[str, ...]]], known: dict[str, str]) -> None:
    """Print the counts, and every survivor that is not known to mean nothing."""
    equivalent = json.loads(EQUIVALENT.read_text()) if EQUIVALENT.exists() else {}
    done = [mutant for mutant, _ in work if mutant.key in known]
    alive = [mutant for mutant in done if known[mutant.key] == "survived"]
    same = [mutant for mutant in alive if mutant.key in equivalent]
    counted = len(done) - len(same)
    killed = len(done) - len(alive)
    print(
        f"\n{target}: {len(done)} of {len(work)} mutants run, {len(same)} mean nothing, "
        f"{killed} of {counted} killed ({100 * killed / max(counted, 1):.1f} %)"
    )
    for mutant in alive:
        if mutant.key not in equivalent:
            print(f"  survives: {mutant.module}:{mutant.line}  {mutant.change}: {mutant.was}")


if __name__ == "__main__":
    main()
