"""Stretches of a plan: what lies between two points that every rank passes at a `choice`.

Two plans that are safe and closed are safe one after the other. Closed means that every message and
every round begins and ends inside, so the second starts with all counters level. By confluence all
runs end alike, and the run that takes the first plan to its end before the second begins completes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planguard.plan.vocabulary import LASTING
from planguard.reordering.branches.assignments import VARIABLE, Variables, choices

if TYPE_CHECKING:
    from collections.abc import Iterator

_OPEN = (LASTING | {"probe"}) - {"init"}
"""Actions whose effect reaches beyond the stretch in which they stand.

That of `init` only ever enables more: a stretch is decided as if no communicator had been made
before, so first uses in it may wait for more than they do.
"""

Programs = dict[str, list[Any]]


def stretches(flat: dict[str, Any]) -> list[Programs] | None:
    """Return the plan in stretches, each the programs of all ranks; None if it has no such points.

    Args:
        flat: The annotated flat plan.
    """
    ranks = {rank: body["actions"] for rank, body in flat["ranks"].items()}
    if flat.get("fusion") or any(_reaches(actions) for actions in ranks.values()):
        return None
    pieces = {rank: _pieces(actions) for rank, actions in ranks.items()}
    if len({len(found) for found in pieces.values()}) != 1:
        return None
    count = len(next(iter(pieces.values())))
    return [{rank: found[at] for rank, found in pieces.items()} for at in range(count)]


def joined(several: list[Programs]) -> Programs:
    """Return stretches one after the other."""
    return {rank: [a for programs in several for a in programs[rank]] for rank in several[0]}


def restricted(flat: dict[str, Any], programs: Programs) -> dict[str, Any]:
    """Return the plan with other programs."""
    return {**flat, "ranks": {rank: {"actions": actions} for rank, actions in programs.items()}}


def variables_in(programs: Programs, variables: Variables) -> Variables:
    """Return the variables that occur in a stretch."""
    names = {c[VARIABLE] for actions in programs.values() for c in choices(actions)}
    sizes = {key: size for key, size in variables.sizes.items() if key[0] in names}
    return Variables(sizes, tuple(name for name in variables.names if name in names))


def _pieces(actions: list[Any]) -> list[list[Any]]:
    found: list[list[Any]] = [[]]
    for item in actions:
        if item["op"] == "choice":
            found += [[item], []]
        else:
            found[-1].append(item)
    return found


def _reaches(actions: list[Any]) -> bool:
    return any(item["op"] in _OPEN for item in _every(actions))


def _every(actions: list[Any]) -> Iterator[Any]:
    for item in actions:
        if isinstance(item, list):
            yield from _every(item)
            continue
        yield item
        for inner in ("body", "threads", "branches"):
            if inner in item:
                yield from _every(item[inner])
