"""Which ranks behave alike: one of each class is traced, samples check the guess.

Two ranks are taken to be alike when on every dimension of the mesh both are the first, both the
last, or both in between: schedules treat the ends differently. Stages of a pipeline all do
something else, so on a dimension called ``pp`` only equal places are alike. A sample that differs
from its class's representative dissolves the class, and every rank of it is traced.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from planguard.capture.play.fake_world import Mesh

T = TypeVar("T")
STAGES = ("pp", "pipe", "stage")
"""How the names of dimensions begin whose every place does something else."""


def rank_classes(world_size: int, mesh: Mesh) -> list[list[int]]:
    """Return the classes, each sorted, by their smallest rank; together they are the world."""
    dims = mesh or (("world", world_size),)
    found: dict[tuple[str, ...], list[int]] = {}
    for rank in range(world_size):
        rest, key = rank, []
        for name, size in reversed(dims):
            rest, place = divmod(rest, size)
            kind = "first" if place == 0 else "last" if place == size - 1 else "inner"
            key.append(str(place) if name.lower().startswith(STAGES) else kind)
        found.setdefault(tuple(key), []).append(rank)
    return sorted(found.values())


def first_ranks(classes: Sequence[Sequence[int]], samples: int) -> list[int]:
    """Return what to trace first: the smallest rank of each class and ``samples`` others of it."""
    chosen = set()
    for members in classes:
        chosen.add(members[0])
        step = max(1, (len(members) - 1) // samples) if samples else len(members)
        chosen.update(list(members[:0:-step])[:samples])
    return sorted(chosen)


def settle(
    classes: Sequence[Sequence[int]],
    traced: dict[int, T],
    trace: Callable[[list[int]], dict[int, T]],
    signature: Callable[[T], str | None],
) -> dict[int, int]:
    """Compare samples with their representative; trace whole classes where they differ.

    Args:
        classes: The classes.
        traced: What was traced, by rank; ranks traced here are added.
        trace: Traces further ranks.
        signature: What alike ranks share; None for a rank that cannot stand for another.

    Returns:
        The representative of every rank that was not traced.
    """
    like: dict[int, int] = {}
    for members in classes:
        known = [rank for rank in members if rank in traced]
        first = signature(traced[known[0]])
        missing = [rank for rank in members if rank not in traced]
        if first is None or any(signature(traced[rank]) != first for rank in known[1:]):
            traced.update(trace(missing))
        else:
            like.update(dict.fromkeys(missing, known[0]))
    return like
