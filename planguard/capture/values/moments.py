"""At which moments, and under which names of a host, a program may decide otherwise.

Where its tests depend on its clock, and it takes dates apart or computes remainders, a rank is
played at the first and the last moment of a year, where every such number is smallest and largest,
and at those that its tests name (``hour == 3``). A host is called what the tests name.
"""

from __future__ import annotations

import ast
import linecache
import re
from typing import TYPE_CHECKING, Any

from planguard.capture.names.bindings import Bindings
from planguard.capture.names.depends import place_in_file
from planguard.capture.names.reached import follow
from planguard.capture.names.source import tree_of
from planguard.capture.values.own_clock import Moment

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from planguard.capture.names.depends import Test
    from planguard.capture.names.reached import Asked

_PARTS = frozenset({
    "year", "month", "day", "hour", "minute", "second", "microsecond", "weekday", "isoweekday",
    "isocalendar", "toordinal", "timetuple", "utctimetuple", "date", "strftime", "isoformat",
    "ctime", "localtime", "gmtime", "asctime", "fmod", "divmod",
})  # fmt: skip
"""Names that take a time apart; ``tm_hour`` and its like besides."""
_COMPARING = frozenset({
    "startswith", "endswith", "removeprefix", "removesuffix", "match", "fullmatch", "search",
    "compile", "fnmatch", "fnmatchcase", "filter",
})  # fmt: skip
"""Methods and functions that compare a text with the one they are given."""
_FIELDS = ("month", "day", "hour", "minute", "second")
_SHORT = {"tm_min": "minute", "tm_sec": "second", "tm_mon": "month", "tm_mday": "day",
          "tm_wday": "weekday"}  # fmt: skip
_FIRST, _LAST = (1, 1, 0, 0, 0), (12, 31, 23, 59, 59)
_READING = re.compile(r"get|pop|has_")
"""How methods begin that are given a key."""
_MOST_KEYS = 200
MOST_NAMED = 6
"""Numbers and texts of tests that are played, those nearest to the question."""


def moments(files: Iterable[str], places: Sequence[str]) -> list[Moment]:
    """Return the moments at which a program may decide otherwise than a day later; none for most.

    Args:
        files: The program's.
        places: Lines that ask for the time, ``file:line``.
    """
    files = list(files)
    tests, program = _asked(files, places)
    trees = program.files
    if not tests or not any(_takes_apart(node) for one in trees.values() for node in ast.walk(one)):
        return []
    numbers: dict[int, None] = {}
    named: dict[str, int] = {}
    known = Bindings(files)
    for node, values, _ in _compared(tests, program, known, places):
        some = (int(v) for v in values if isinstance(v, int | float) and 0 <= v < 60)
        numbers.update(dict.fromkeys(some))
        if isinstance(node, ast.Compare):
            named.update(_named(node, known))
    found = [Moment(_FIRST), Moment(_LAST)]
    if named:
        fields = tuple(named.get(name, low) for name, low in zip(_FIELDS, _FIRST, strict=True))
        found.append(_moment(fields, named.get("weekday")))
    found += [_moment((one,) * 5, one) for one in list(numbers)[:MOST_NAMED]]
    return list(dict.fromkeys(found))


def constants(
    files: Iterable[str], places: Sequence[str], *, are_fractions: bool = False
) -> list[Any]:
    """Return the numbers and texts that a program compares with what it asks, nearest lines first.

    Args:
        files: The program's.
        places: Lines that ask, ``file:line``.
        are_fractions: Numbers that are not whole count, too.
    """
    files = list(files)
    tests, program = _asked(files, places)
    found: dict[Any, None] = {}
    others: dict[Any, None] = {}
    kinds = int | float | str if are_fractions else int | str
    for node, values, is_own in _compared(tests, program, Bindings(files), places):
        where = found if is_own and isinstance(node, ast.Compare | ast.MatchValue) else others
        where.update((one, None) for one in values if isinstance(one, kinds))
    return list(found | others)


def beside(files: Iterable[str], places: Sequence[str]) -> set[Any]:
    """Return what tests name in functions that ask, call one that does, or are handed the answer.

    Elsewhere a test may depend by its names alone.

    Args:
        files: The program's.
        places: Lines that ask, ``file:line``.
    """
    files = list(files)
    tests, program = _asked(files, places)
    own = program.around(_LEVELS)
    rows = _compared(tests, program, Bindings(files), places)
    return {one for node, values, _ in rows if program.scopes[node].key in own for one in values}


_LEVELS = 2
"""Calls between a test and the function that asks."""


def _compared(
    tests: Sequence[Test], program: Asked, known: Bindings, places: Sequence[str]
) -> Iterator[tuple[ast.AST, list[Any], bool]]:
    """Return comparisons, and tests that may be such, with what they name, nearest lines first.

    What is compared with is named by what does not depend. Where all may, by its names alone, each
    counts: the last entry tells the two apart.
    """
    lines = {(one.file, one.line) for one in tests}
    tested = {one.place for one in tests}  # isclose(x, 7), table.get(x)
    for file, tree in program.files.items():
        for node in _by_nearness(tree, file, places):
            if (file, getattr(node, "lineno", 0)) not in lines:
                continue
            is_comparing = isinstance(node, ast.Compare | ast.MatchValue)
            if not is_comparing and (file, *place_in_file(node)) not in tested:
                continue
            own, asked = _sides(node, program)
            values = [one for side in own or asked for one in known.values(side)]
            if isinstance(node, ast.Compare) and len(node.ops) > 1:  # between two numbers
                ends = [one for one in values if isinstance(one, int)]
                values += [end + by for end in ends for by in (1, -1)]
            yield node, list(dict.fromkeys(values)), bool(own)


def _sides(node: ast.AST, program: Asked) -> tuple[list[ast.expr], list[ast.expr]]:
    """Return the largest expressions in a test that do not depend, and the names that do."""
    own: list[ast.expr] = []
    asked: list[ast.expr] = []
    for one in ast.iter_child_nodes(node):
        if not isinstance(one, ast.expr) or program.is_question(one):
            continue
        if not program.depends(one):
            if not isinstance(node, ast.BoolOp):  # x or 1: what stands in for nothing
                own.append(one)
            continue
        if isinstance(one, ast.Name | ast.Attribute):
            asked.append(one)
        inner = _sides(one, program)
        own += inner[0]
        asked += inner[1]
    return own, asked


def keys(files: Iterable[str]) -> list[str]:
    """Return the texts by which a program reads entries: ``state["step"]``, ``get("step")``."""
    found: dict[str, None] = {}
    for file in files:
        tree = tree_of(file)
        for node in tree.parents if tree is not None else ():
            given: list[ast.expr] = []
            if isinstance(node, ast.Subscript):
                given = [node.slice]
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                # Of settings a section and a key: has_option("train", "eval").
                given = node.args[:2] if _READING.match(node.func.attr) else []
            elif isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.In | ast.NotIn):
                given = [node.left]
            for one in given:
                if isinstance(one, ast.Constant) and isinstance(one.value, str):
                    found.setdefault(one.value)
    return list(found)[:_MOST_KEYS]


def names(files: Iterable[str], places: Sequence[str]) -> list[str]:
    """Return the texts that a program compares a name with: of a host, or of a file of a folder.

    Args:
        files: The program's.
        places: Lines that ask for the name, ``file:line``.
    """
    files = list(files)
    tests, program = _asked(files, places)
    lines = {(one.file, one.line) for one in tests}
    known = _named_texts(program.files.values())
    found: dict[str, None] = {}
    others: dict[str, None] = {}
    for file, tree in program.files.items():
        for node in _by_nearness(tree, file, places):
            if not isinstance(node, ast.Compare | ast.Call):
                continue
            # Of a call the result may be tested anywhere: its name says that it compares.
            is_comparing = _is_part_of_text(node)
            if (file, node.lineno) in lines or (is_comparing and _is_given(node, program)):
                found.update(dict.fromkeys(_texts(node, known)))
            elif is_comparing:
                others.update(dict.fromkeys(_texts(node, {})))
    for _, values, is_own in _compared(tests, program, Bindings(files), places):
        where = found if is_own else others
        where.update((one, None) for one in values if one and isinstance(one, str))
    # Which files a process has loaded decides what else compares: what depends comes first.
    more = [one for one in others if one not in found]
    return [*found, *more[: max(0, MOST_NAMED - len(found))]]


def _asked(files: Iterable[str], places: Sequence[str]) -> tuple[list[Test], Asked]:
    """Return the tests that what is asked at some places may decide, and the files it may reach."""
    texts = {file: "".join(linecache.getlines(file)) for file in dict.fromkeys(files)}
    program = follow(texts, places)
    return [one for one in program.tests() if one.depends], program


def _by_nearness(tree: ast.Module, file: str, places: Sequence[str]) -> list[Any]:
    """Return the nodes of a file, those nearest to a line that asks first.

    In a large program many tests may depend, by their names alone: the first numbers are those of
    the tests beside the question.
    """
    asked = [int(one.rpartition(":")[2]) for one in places if one.rpartition(":")[0] == file]

    def distance(node: Any) -> tuple[int, bool]:
        # Behind a question first: a test in front of it decides on what was asked before.
        return min((abs(node.lineno - at), node.lineno < at) for at in asked)

    nodes = [one for one in ast.walk(tree) if hasattr(one, "lineno")]
    return sorted(nodes, key=distance) if asked else nodes


def _is_part_of_text(node: ast.AST) -> bool:
    """Tell whether a call compares a text, or hands on what does: ``map(pattern.match, found)``."""
    named = [node.func, *node.args] if isinstance(node, ast.Call) else []
    return any(isinstance(one, ast.Attribute) and one.attr in _COMPARING for one in named)


def _is_given(call: ast.AST, program: Asked) -> bool:
    """Tell whether something that depends is given to a call, or has the method."""
    return any(program.depends(one) for one in ast.iter_child_nodes(call))


def _texts(node: ast.AST, known: Mapping[str, list[str]]) -> Iterator[str]:
    """Return the texts that stand in a node, and those that its names are given somewhere."""
    for one in ast.walk(node):
        if isinstance(one, ast.Constant) and isinstance(one.value, str) and one.value:
            yield one.value
        elif isinstance(one, ast.Name | ast.Attribute):
            yield from known.get(getattr(one, "id", getattr(one, "attr", "")), ())


def _named_texts(trees: Iterable[ast.Module]) -> dict[str, list[str]]:
    """Return the texts that names are given, alone, in a row or as a pattern: ``END = ".pt"``."""
    found: dict[str, list[str]] = {}
    for node in (one for tree in trees for one in ast.walk(tree)):
        if not isinstance(node, ast.Assign | ast.AnnAssign) or node.value is None:
            continue
        value = node.value
        if isinstance(value, ast.Call) and not _is_part_of_text(value):
            continue
        if isinstance(value, ast.Constant | ast.Tuple | ast.List | ast.Set | ast.Call):
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                name = getattr(target, "id", getattr(target, "attr", ""))
                found.setdefault(name, []).extend(_texts(value, {}))
    return found


def _moment(fields: Sequence[int], weekday: int | None) -> Moment:
    most = (12, 28, 23, 59, 59)  # every month has a 28th
    parts = [min(max(one, low), high) for one, low, high in zip(fields, _FIRST, most, strict=True)]
    month, day, hour, minute, second = parts
    return Moment((month, day, hour, minute, second), None if weekday is None else weekday % 7)


def _takes_apart(node: ast.AST) -> bool:
    """Tell whether a node may ask for a part of a time: a field of a date, a remainder."""
    if isinstance(node, ast.Attribute):
        return node.attr in _PARTS or node.attr.startswith("tm_")
    if isinstance(node, ast.Name):
        return node.id in _PARTS
    if isinstance(node, ast.BinOp | ast.AugAssign) and isinstance(node.op, ast.Mod | ast.FloorDiv):
        left = node.left if isinstance(node, ast.BinOp) else node.target
        is_text = isinstance(left, ast.JoinedStr) or (
            isinstance(left, ast.Constant) and isinstance(left.value, str)
        )
        return not is_text
    return False


def _named(node: ast.Compare, known: Bindings) -> Iterator[tuple[str, int]]:
    """Return the fields that a comparison names, with their numbers: ``now.hour == 3``."""
    left = node.left.func if isinstance(node.left, ast.Call) else node.left
    numbers = [one for one in known.values(node.comparators[0]) if type(one) is int]
    if isinstance(left, ast.Attribute) and numbers:
        name = _SHORT.get(left.attr, left.attr.removeprefix("tm_"))
        if name in _FIELDS or name == "weekday":
            yield name, numbers[0]
