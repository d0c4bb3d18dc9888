"""The variables of choices: which branch each takes, and whose variable it is."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from oracle.program import OracleUnsupported


@dataclass
class Branches:
    """Which branch every choice takes; what is met for the first time takes its first branch.

    Attributes:
        taken: Branch of every variable: name with iterations, then rank (-1: all ranks).
        sizes: How many branches each variable has that was met so far.
        loose: Names that some choice does not call uniform: a variable of each rank.
    """

    taken: dict[tuple[object, ...], int] = field(default_factory=dict)
    sizes: dict[tuple[object, ...], int] = field(default_factory=dict)
    loose: set[tuple[object, ...]] = field(default_factory=set)

    def take(self, name: tuple[object, ...], rank: int, size: int) -> int:
        """Give the branch of a variable."""
        key = (*name, rank if name in self.loose else -1)
        self.sizes[key] = size
        return self.taken.setdefault(key, 0)

    def following(self) -> Branches | None:
        """Give the next combination of branches, or None after the last."""
        taken = dict(self.taken)
        for key in sorted(self.sizes, key=str):
            taken[key] += 1
            if taken[key] < self.sizes[key]:
                # What this run did not meet keeps its place: others meet it again.
                return Branches(taken, dict(self.sizes), self.loose)
            taken[key] = 0
        return None


def variable(item: dict[str, Any], iterations: list[int]) -> tuple[object, ...]:
    """Name the variable of a choice: its name, and the iterations in which it stands."""
    name = item.get("name")
    if name is None:
        raise OracleUnsupported("a choice without a name")
    inner = "{i}" in name
    around = iterations[:-1] if inner else iterations
    here = name.replace("{i}", str(iterations[-1])) if inner and iterations else name
    return (here, *around)


def loose(items: list[Any], iterations: list[int]) -> set[tuple[object, ...]]:
    """Give the names that some choice, taken or not, does not call uniform."""
    found: set[tuple[object, ...]] = set()
    for item in items:
        if isinstance(item, list):
            found |= loose(item, iterations)
            continue
        if item["op"] == "choice" and not item.get("uniform", False):
            found.add(variable(item, iterations))
        for inner in ("branches", "threads"):
            found |= loose(item.get(inner, []), iterations)
        for iteration in range(item["times"]) if item["op"] == "repeat" else ():
            found |= loose(item["body"], [*iterations, iteration])
        if item["op"] == "unordered":
            found |= loose(item["body"], iterations)
    return found
