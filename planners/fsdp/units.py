"""The modules that are sharded as one: which parameters each has, and when each runs."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from planguard.errors import PlanError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ..common.module import ModuleInfo
    from .options import FsdpOptions


@dataclass(frozen=True)
class Unit:
    """One call of ``fully_shard``.

    Attributes:
        name: Name of the module; empty for the root.
        own: Its parameters without those of units inside it, as places in the module's list.
        first: Place of the first parameter under it.
    """

    name: str
    own: tuple[int, ...]
    first: int

    def is_around(self, other: Unit) -> bool:
        """Whether another unit lies inside this one."""
        return self is not other and (not self.name or other.name.startswith(self.name + "."))


Event = tuple[str, Unit]
"""``enter`` or ``exit`` of a unit in forward."""


def find_units(module: ModuleInfo, options: FsdpOptions) -> dict[str, Unit]:
    """Return the units by name, in the order of the modules, the root first.

    Raises:
        PlanError: A pattern matches no module, or a parameter cannot be sharded.
    """
    names = _matching(module, options.units)
    if options.root:
        names.insert(0, "")
    places: dict[str, list[int]] = {name: [] for name in names}
    first: dict[str, int] = {}
    of_module: dict[str, list[str]] = {}  # its parameters are in the same units
    for at, parameter in enumerate(module.parameters):
        owner = parameter.name.rpartition(".")[0]
        inside = of_module.get(owner) if parameter.name else []
        if inside is None:
            inside = [name for name in around(parameter.name) if name in places]
            of_module[owner] = inside
            for name in inside:
                first.setdefault(name, at)
        if not inside:
            continue
        if not parameter.shape:
            raise PlanError(
                "a parameter without dimensions cannot be sharded",
                file=module.file,
                path=f"parameter {parameter.name}",
                hint="fully_shard refuses it as well; give it one dimension",
            )
        places[inside[0]].append(at)
    return {name: Unit(name, tuple(own), first.get(name, 0)) for name, own in places.items()}


def around(name: str) -> Iterator[str]:
    """Yield the names of the modules that one is in, innermost first; the root's, "", last."""
    while name:
        name = name.rpartition(".")[0]
        yield name


def _matching(module: ModuleInfo, patterns: Sequence[str]) -> list[str]:
    """Return the modules that patterns name, each once, in the order of registration."""
    modules: dict[str, None] = {}
    for parameter in module.parameters:
        owner = parameter.name.rpartition(".")[0]
        if owner in modules:  # and what it is in
            continue
        parts = owner.split(".") if owner or "." in parameter.name else []
        for depth in range(1, len(parts) + 1):
            modules[".".join(parts[:depth])] = None
    found: dict[str, None] = {}
    for pattern in patterns:
        hits = _hits(modules, pattern)
        if not hits:
            raise PlanError(
                "no module with parameters has that name",
                file=module.file,
                path="$.options.units",
                value=pattern,
                hint=f"modules: {', '.join(list(modules)[:12])}",
            )
        found |= dict.fromkeys(hits)
    return [name for name in modules if name in found]


def _hits(modules: dict[str, None], pattern: str) -> list[str]:
    if not any(character in pattern for character in "*?["):
        return [pattern] if pattern in modules else []
    wanted = pattern.split(".")
    return [name for name in modules if _matches(name.split("."), wanted)]


def _matches(parts: Sequence[str], wanted: Sequence[str]) -> bool:
    return len(parts) == len(wanted) and all(map(fnmatchcase, parts, wanted))


def refuse_unknown(units: dict[str, Unit], names: Iterable[str], what: str, option: str) -> None:
    """Refuse names that an option gives and that are no units, so that no option is ignored.

    Raises:
        PlanError: One is none.
    """
    for name in names:
        if name not in units:
            raise PlanError(
                f"{what} names a module that is no unit",
                path=f"$.options.{option}",
                value=name,
                hint=f"units: {', '.join(filter(None, units))}",
            )


def forward_events(units: dict[str, Unit], order: tuple[str, ...] | None) -> list[Event]:
    """Return the units as they are entered and left in forward.

    Raises:
        PlanError: The order names something that is no unit.
    """
    names = [name for name in units if name] if order is None else list(order)
    stack: list[Unit] = [units[""]] if "" in units else []
    events: list[Event] = [("enter", unit) for unit in stack]
    refuse_unknown(units, names, "the order", "order")
    for name in names:
        while stack and not stack[-1].is_around(units[name]):
            events.append(("exit", stack.pop()))
        stack.append(units[name])
        events.append(("enter", units[name]))
    return events + [("exit", unit) for unit in reversed(stack)]


def units_with_grad(module: ModuleInfo, events: Sequence[Event], *, inputs: bool) -> set[str]:
    """Return the units whose inputs require a gradient when they are first entered.

    They do if a trainable parameter was used before: one of a unit that was left, or one of an
    enclosing unit that is registered before this one.
    """
    found: set[str] = set()
    seen: set[str] = set()
    inside: list[tuple[Unit, int]] = []  # with the place of the first trainable parameter
    is_left = False
    for what, unit in events:
        if what == "exit":
            is_left |= inside.pop()[1] < len(module.parameters)
            continue
        is_enclosed = any(least < unit.first for _, least in inside)
        if unit.name not in seen and (inputs or is_left or is_enclosed):
            found.add(unit.name)
        seen.add(unit.name)
        own = (place for place in unit.own if module.parameters[place].requires_grad)
        inside.append((unit, min(own, default=len(module.parameters))))
    return found


def trainable_units(module: ModuleInfo, units: dict[str, Unit]) -> set[str]:
    """Return the units with a trainable parameter of their own, or of a unit inside."""
    found: set[str] = set()
    for unit in units.values():
        if any(module.parameters[place].requires_grad for place in unit.own):
            found.add(unit.name)
            found.update(around(unit.name))
    return found


def backward_events(events: Sequence[Event]) -> list[Event]:
    """Return the events of forward in the order of backward.

    Hooks on one output run in the order in which they were made: a unit that ends together with the
    one around it comes first.
    """
    found = list(reversed(events))
    at = 0
    while at < len(found):
        end = at
        while end + 1 < len(found) and _end_together(found[end], found[end + 1]):
            end += 1
        found[at : end + 1] = reversed(found[at : end + 1])
        at = end + 1
    return found


def _end_together(outer: Event, inner: Event) -> bool:
    if outer[0] != "exit" or inner[0] != "exit" or not outer[1].is_around(inner[1]):
        return False
    last = max(inner[1].own, default=inner[1].first)
    return all(place < last for place in outer[1].own)
