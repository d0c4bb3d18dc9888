"""Which ways a program's decisions went: its functions run with their tests told, in one process.

A test is what Python takes a truth value of (``if``, ``while``, ``assert``'s excepted, a condition
of an expression, an operand of ``and`` and ``or``), a comparison anywhere, a ``for`` with the
number of its turns, an ``except`` and a ``case`` that may be entered. Functions get the code of
their own source with these told (``edited`` exchanges it), so that lines, columns, closures and
state stay what they are. What was compared is kept as well: it says which values would decide
otherwise.

One test of one rank can be made to go the other way, once: so a side is run that no batch at hand
takes.
"""

from __future__ import annotations

import ast
import builtins
import copy
import json
import linecache
import operator
import os
import sys
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from planguard.capture.batches.edited import alive, codes_of, paired
from planguard.capture.names.depends import HANDLER, LOOP, TEST, place_in_file
from planguard.sources import is_program

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from types import CodeType, FrameType, FunctionType

Place = tuple[str, int, int, int]
"""A test: file, line, column, and the column behind it."""
_TURN, _ENTERED = "turn", "entered"
_NAME = "__planguard_told__"
_OPERATORS: dict[type[ast.cmpop], Any] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le,
    ast.Gt: operator.gt, ast.GtE: operator.ge, ast.Is: operator.is_, ast.IsNot: operator.is_not,
    ast.In: lambda left, right: left in right, ast.NotIn: lambda left, right: left not in right,
}  # fmt: skip
_MOST_SEEN = 200  # operands that are kept
_LONG = 64  # letters of a text, or entries of a list, beyond which an operand is none to try


@dataclass(frozen=True)
class Forced:
    """A test that goes the other way, on some ranks, the first time that it is asked.

    Attributes:
        place: The test.
        outcome: How it goes: a truth value; of a handler, that its body raises.
        ranks: The ranks.
    """

    place: Place
    outcome: bool
    ranks: frozenset[int]


Counts = tuple[int, int]
"""How often a test went each way in one play, how often a loop was begun and turned."""


@dataclass
class Seen:
    """What was seen, of one play or of several.

    Attributes:
        outcomes: How each test went, by the rank that asked it: one entry for each play that
            differs.
        compared: Pairs of plain values that were compared.
        files: Files of the program that were entered.
        followed: Those whose tests are told.
        raised: What a thread raised, which nobody is told.
    """

    outcomes: dict[Place, dict[int, set[Counts]]] = field(default_factory=dict)
    compared: list[tuple[Any, Any]] = field(default_factory=list)
    files: set[str] = field(default_factory=set)
    followed: set[str] = field(default_factory=set)
    raised: str = ""

    def add(self, other: Seen) -> bool:
        """Take what another play saw; tell whether it asked, or decided, what none did before."""
        new = False
        for place, by_rank in other.outcomes.items():
            before = place in self.outcomes and self.sides(place), self.varies(place)
            for rank, counts in by_rank.items():
                self.outcomes.setdefault(place, {}).setdefault(rank, set()).update(counts)
            new = new or (self.sides(place), self.varies(place)) != before
        self.compared += [pair for pair in other.compared if pair not in self.compared]
        self.files |= other.files
        self.followed |= other.followed
        return new

    def sides(self, place: Place) -> tuple[bool, bool]:
        """Tell whether a test went each way on a rank that it went both ways on, else on any."""
        rows = [
            (any(one[0] for one in counts), any(one[1] for one in counts))
            for counts in self.outcomes.get(place, {}).values()
        ]
        return max(rows, key=sum, default=(False, False))

    def varies(self, place: Place) -> bool:
        """Tell whether one rank asked a test otherwise, or more often, in one play than another."""
        return any(len(counts) > 1 for counts in self.outcomes.get(place, {}).values())

    def write(self, file: Path) -> None:
        """Write it for the parent of a rank's process."""
        rows = [
            [*place, [[rank, *counts] for rank, found in by_rank.items() for counts in found]]
            for place, by_rank in self.outcomes.items()
        ]
        said = [rows, self.compared, sorted(self.files), sorted(self.followed), self.raised]
        file.write_text(json.dumps(said))

    @classmethod
    def read(cls, file: Path) -> Seen:
        """Read what a rank wrote; nothing where its process came to no end."""
        try:
            rows, compared, files, followed, raised = json.loads(file.read_text())
        except (OSError, ValueError):
            return cls()
        outcomes: dict[Place, dict[int, set[Counts]]] = {}
        for name, line, start, end, found in rows:
            by_rank = outcomes.setdefault((name, line, start, end), {})
            for rank, left, right in found:
                by_rank.setdefault(rank, set()).add((left, right))
        pairs = [(left, right) for left, right in compared]
        return cls(outcomes, pairs, set(files), set(followed), raised)


class Told(ast.NodeTransformer):
    """Puts a call around every test of a file; positions stay."""

    def _call(self, node: ast.AST, what: str, *args: ast.expr) -> ast.Call:
        given = [ast.Constant(one) for one in (what, *place_in_file(node))]
        made = ast.Call(ast.Name(_NAME, ast.Load()), [*given, *args], [])
        return ast.fix_missing_locations(ast.copy_location(made, node))

    def _said(self, node: ast.AST, what: str) -> ast.stmt:
        return ast.copy_location(ast.Expr(self._call(node, what)), node)

    def _test(self, node: ast.expr) -> ast.expr:
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and not self._is_told(node):
            return self.visit_Compare(node)
        visited = self.visit(node)
        is_told = isinstance(visited, ast.BoolOp) or self._is_told(visited)  # by its operands
        return (
            visited
            if is_told or isinstance(visited, ast.Constant)
            else self._call(node, TEST, visited)
        )

    @staticmethod
    def _is_told(node: ast.AST) -> bool:
        return isinstance(node, ast.Call) and getattr(node.func, "id", "") == _NAME

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        """Tell a comparison, and what is compared."""
        self.generic_visit(node)
        if len(node.ops) != 1 or type(node.ops[0]) not in _OPERATORS:
            return self._call(node, TEST, node)
        name = type(node.ops[0]).__name__
        return self._call(node, name, node.left, node.comparators[0])

    def visit_If(self, node: ast.If) -> ast.stmt:
        """Tell the test of a branch."""
        node.test = self._test(node.test)
        node.body = [self.visit(one) for one in node.body]
        node.orelse = [self.visit(one) for one in node.orelse]
        return node

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        """Tell the test of an expression."""
        node.test = self._test(node.test)
        node.body, node.orelse = self.visit(node.body), self.visit(node.orelse)
        return node

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        """Tell every operand."""
        node.values = [self._test(one) for one in node.values]
        return node

    def visit_comprehension(self, node: ast.comprehension) -> ast.comprehension:
        """Tell the conditions of a comprehension."""
        node.iter = self.visit(node.iter)
        node.ifs = [self._test(one) for one in node.ifs]
        return node

    def visit_While(self, node: ast.While) -> ast.stmt:
        """Tell the test of a loop."""
        node.test = self._test(node.test)
        node.body = [self.visit(one) for one in node.body]
        node.orelse = [self.visit(one) for one in node.orelse]
        return node

    def _loop(self, node: Any) -> list[ast.stmt]:
        self.generic_visit(node)
        node.body = [self._said(node, _TURN), *node.body]
        return [self._said(node, LOOP), node]

    visit_For = visit_AsyncFor = _loop  # noqa: N815 - ast's own names

    def visit_Try(self, node: ast.Try) -> ast.stmt:
        """Tell every handler that may be entered."""
        self.generic_visit(node)
        for one in reversed(node.handlers):
            one.body = [self._said(one, _ENTERED), *one.body]
            kind = one.type if one.type is not None else ast.Name("Exception", ast.Load())
            told = self._call(one, HANDLER, ast.copy_location(copy.deepcopy(kind), one))
            node.body = [ast.copy_location(ast.Expr(told), node.body[0]), *node.body]
        return node

    def visit_Match(self, node: ast.Match) -> list[ast.stmt]:
        """Tell every case that may be entered."""
        self.generic_visit(node)
        return [*(self._said(one.pattern, LOOP) for one in node.cases), node]

    def visit_match_case(self, node: ast.match_case) -> ast.match_case:
        """Tell that a case is entered."""
        self.generic_visit(node)
        node.body = [self._said(node.pattern, _ENTERED), *node.body]
        return node


@dataclass
class Following:
    """The tests of one rank, told.

    Attributes:
        rank: The rank.
        seen: What was seen.
        forced: A test that goes the other way on this rank.
    """

    rank: int
    seen: Seen
    forced: Forced | None = None
    _counts: dict[Place, list[int]] = field(default_factory=dict)

    def told(self, what: str, line: int, column: int, end: int, *given: Any) -> Any:
        """Take one test; returns its value."""
        frame = sys._getframe(1)  # noqa: SLF001 - the interpreter has no public way
        place = frame.f_code.co_filename, line, column, end
        counts = self._counts.setdefault(place, [0, 0])
        if what in (LOOP, HANDLER):
            counts[0] += 1
            if what == HANDLER:
                self._raise(place, given[0])
            return None
        if what in (_TURN, _ENTERED):
            counts[1] += 1
            return None
        value = given[0]
        if what != TEST:
            self._compare(*given)
            value = _OPERATORS[getattr(ast, what)](*given)
        return self._decided(place, value, counts)

    def ended(self) -> None:
        """Take the counts of the play."""
        for place, (left, right) in self._counts.items():
            self.seen.outcomes[place] = {self.rank: {(left, right)}}

    def _decided(self, place: Place, value: Any, counts: list[int]) -> Any:
        if self._is_forced(place) and self.forced is not None:
            value, self.forced = self.forced.outcome, None
        try:
            counts[0 if bool(value) else 1] += 1
        except Exception:  # noqa: BLE001 - a tensor of many values has no truth value: no test
            counts[0], counts[1] = counts[0] + 1, counts[1] + 1
        return value

    def _is_forced(self, place: Place) -> bool:
        return self.forced is not None and self.forced.place == place

    def _raise(self, place: Place, kind: Any) -> None:
        if self._is_forced(place):
            self.forced = None
            first = kind[0] if isinstance(kind, tuple) else kind
            raise first("made to happen, to see what follows")

    def _compare(self, left: Any, right: Any) -> None:
        if isinstance(right, dict):
            right = list(right)  # a key that may be there
        if len(self.seen.compared) < _MOST_SEEN and is_plain(left) and is_plain(right):
            pair = left, right
            if pair not in self.seen.compared:
                self.seen.compared.append(pair)


def is_plain(value: Any) -> bool:
    """Tell whether a value that was compared can be put into a sample."""
    if isinstance(value, list | tuple):
        return len(value) <= _LONG and all(type(one) in (int, float, str, bool) for one in value)
    return type(value) in (int, float, bool) or (type(value) is str and len(value) <= _LONG)


@dataclass(frozen=True)
class Followed:
    """The functions of a file, with the code that tells their tests."""

    file: str
    codes: tuple[tuple[FunctionType, CodeType], ...]


def followed(file: str) -> Followed | None:
    """Return how a file is run with its tests told; None where it has no source to read."""
    text = "".join(linecache.getlines(file))
    try:
        old = codes_of(compile(text, file, "exec", dont_inherit=True))
        tree = ast.fix_missing_locations(Told().visit(ast.parse(text)))
        new = codes_of(compile(tree, file, "exec", dont_inherit=True))
    except (SyntaxError, ValueError, RecursionError):
        return None
    pairs = paired(alive(file), old, new)
    return Followed(file, tuple(pairs)) if pairs else None


@contextmanager
def following(
    those: tuple[Followed, ...], file: Path, forced: Forced | None, rank: int
) -> Iterator[None]:
    """Tell the tests of a rank to the end of the block, and write them to a file.

    The process ends behind the block: nothing is put back.
    """
    mine = forced if forced is not None and rank in forced.ranks else None
    told = Following(rank, Seen(followed={one.file for one in those}), mine)
    setattr(builtins, _NAME, told.told)
    for one in those:
        for function, code in one.codes:
            function.__code__ = code
    before = sys.gettrace()
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # what it warns of it says of no real batch

    def lost(hook: Any) -> None:
        told.seen.raised = f"{hook.exc_type.__name__}: {hook.exc_value}"

    threading.excepthook = lost

    def entered(frame: FrameType, _: str, __: Any) -> None:
        name = frame.f_code.co_filename
        if name not in told.seen.files and is_program(name):
            told.seen.files.add(name)

    sys.settrace(entered)
    try:
        yield
    finally:
        sys.settrace(before)
        told.ended()
        told.seen.write(file)
