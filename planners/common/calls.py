"""Calls of a rank as data, and how they are written into a program."""

from __future__ import annotations

from importlib import metadata
from typing import TYPE_CHECKING, Any

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planguard.plan.building.program import ProgramBuilder
    from planguard.plan.nodes import Node


class Call(Struct):
    """One action to be written: the operation and its fields, or a block of branches."""

    op: str
    fields: dict[str, Any] = {}
    branches: list[list[Call]] = []


def write(program: ProgramBuilder, calls: Sequence[Call]) -> None:
    """Write calls into a program."""
    plain: list[Node] = []
    for call in calls:
        if call.op not in _BLOCKS:
            plain.append(program.action(call.op, **call.fields))
            continue
        program.extend(plain)
        plain = []
        if call.op == "unordered":
            with program.unordered():
                for branch in call.branches:
                    write(program, branch)
        else:
            with program.choice(**call.fields):
                for branch in call.branches:
                    with program.branch():
                        write(program, branch)
    program.extend(plain)


_BLOCKS = frozenset({"unordered", "choice"})


def producer(tool: str, package: str = "torch") -> str | tuple[str, str]:
    """Return a tool and the version of its package, where that is installed."""
    try:
        return tool, metadata.version(package)
    except metadata.PackageNotFoundError:
        return tool
