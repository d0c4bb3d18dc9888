"""One edit of a source file, before anybody knows whether it helps."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from planguard.repair.source.text import SourceText

_HOST = {"time", "datetime", "random", "os", "socket", "platform", "tempfile", "glob", "shutil"}
_HOST_CALLS = {"exists", "is_file", "is_dir", "stat", "getenv", "hostname", "rand", "randint"}


@dataclass(frozen=True)
class Decision:
    """Where two ranks part.

    Attributes:
        line: The line that decides.
        why: ``lines``, ``value`` or ``thread``, as of ``capture.parting.Parting``.
        goes_on: The lines on which the two go on; None for one that ends.
        issues: How many calls each issues until they stand on one line again.
        neutral: Calls that stand in for those and add nothing, as text with ``{dist}`` for the name
            of torch.distributed; None where there are none for them.
    """

    line: int
    why: str = "lines"
    goes_on: tuple[int | None, int | None] = (None, None)
    issues: tuple[int, int] = (0, 0)
    neutral: tuple[tuple[str, ...] | None, tuple[str, ...] | None] = (None, None)


@dataclass(frozen=True)
class SourceProposal:
    """An edited file.

    Attributes:
        kind: The pattern: ``agree-flag``, ``agree-count``, ``dummy``, ``broadcast``, ``sort``,
            ``group`` or ``new-group``.
        text: The whole file, edited.
        sentence: What the edit does.
        effect: What it changes in what the program computes; empty where nothing.
    """

    kind: str
    text: str
    sentence: str
    effect: str = ""


def gathered(source: SourceText, name: str, value: str, group: str = "") -> tuple[str, str]:
    """Return the lines that bring the value of every rank to all ranks.

    Objects travel on every backend; a tensor would have to lie on the device of the group.
    """
    more = f", group={group}" if group else ""
    return (
        f"{name} = [None] * {source.dist}.get_world_size({group})",
        f"{source.dist}.all_gather_object({name}, {value}{more})",
    )


def from_first(source: SourceText, name: str, value: str, group: str = "") -> tuple[str, str]:
    """Return the lines that bring the value of rank 0 to all ranks."""
    more = f", group={group}" if group else ""
    return (
        f"{name} = [{value}]",
        f"{source.dist}.broadcast_object_list({name}, src=0{more})",
    )


def as_flag(source: SourceText, test: ast.expr) -> str:
    """Return a condition as the text of a plain truth value."""
    is_plain = isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)
    if isinstance(test, ast.Compare):
        is_plain = all(isinstance(one, ast.Is | ast.IsNot | ast.In | ast.NotIn) for one in test.ops)
    return source.of(test) if is_plain else f"bool({source.of(test)})"


def as_count(source: SourceText, count: ast.expr) -> str:
    """Return a number as the text of a plain one."""
    called = getattr(getattr(count, "func", None), "id", "")
    return source.of(count) if called in ("int", "len") else f"int({source.of(count)})"


def group_of(source: SourceText, nodes: list[ast.stmt]) -> str:
    """Return the group that the calls of some statements name, if all of them name one."""
    found = set()
    for call in (one for node in nodes for one in ast.walk(node) if isinstance(one, ast.Call)):
        if is_communication(source, call):
            key = next((k.value for k in call.keywords if k.arg == "group"), None)
            found.add("" if key is None else source.of(key))
    return found.pop() if len(found) == 1 else ""


def is_communication(source: SourceText, call: ast.Call) -> bool:
    """Tell whether a call is one of torch.distributed that takes a group."""
    function = call.func
    return (
        isinstance(function, ast.Attribute)
        and source.of(function.value) == source.dist
        and function.attr not in ("get_rank", "get_world_size", "new_group", "get_backend")
    )


def is_of_host(source: SourceText, value: ast.expr, line: int) -> bool:
    """Tell whether a value comes from the clock, files, the environment or chance.

    The assignments of its names in the same function are followed.
    """
    function = source.function(value)
    wanted, seen = [value], set[str]()
    while wanted:
        for node in ast.walk(wanted.pop()):
            if isinstance(node, ast.Attribute) and node.attr in _HOST_CALLS:
                return True
            if not isinstance(node, ast.Name) or node.id in seen:
                continue
            seen.add(node.id)
            if node.id in _HOST:
                return True
            wanted += [
                one.value
                for one in (ast.walk(function) if function is not None else ())
                if isinstance(one, ast.Assign)
                and one.lineno < line
                and any(isinstance(t, ast.Name) and t.id == node.id for t in one.targets)
            ]
    return False
