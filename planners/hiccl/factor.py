"""Primitives to steps of messages: striping, a tree or a ring over the levels, pipelining."""

from __future__ import annotations

from itertools import zip_longest
from typing import TYPE_CHECKING

from .model import Transfer

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from .model import Composition, Primitive, Steps


def factor(composition: Composition) -> Steps:
    """Return the messages of a collective, step by step."""
    steps: Steps = []
    number = 0
    for stage in composition.stages:
        parts = []
        for primitive in stage:
            parts.append(_primitive(composition, primitive, f"{primitive.kind} {number}"))
            number += 1
        steps += _together(parts)
    return steps


def _primitive(composition: Composition, primitive: Primitive, name: str) -> Steps:
    """Return the steps of a primitive; every chunk is one step behind the one before."""
    parts: list[Steps] = []
    for chunk, size in enumerate(_split(primitive.bytes, composition.pipeline)):
        label = f"{name} chunk {chunk}" if composition.pipeline > 1 else name
        parts.append([[] for _ in range(chunk)] + _chunk(composition, primitive, size, label))
    return _together(parts)


def _chunk(composition: Composition, primitive: Primitive, size: int, label: str) -> Steps:
    steps = _multicast(composition, primitive, size, label)
    if primitive.kind == "multicast":
        return steps
    back = [[one.turned() for one in step] for step in reversed(steps)]
    while back and not back[0]:
        del back[0]
    return back


def _multicast(composition: Composition, primitive: Primitive, size: int, label: str) -> Steps:
    """Return the steps of a multicast: to the stripes of the root's group first, then outward."""
    inner = composition.levels[-1]
    base, own = primitive.root - primitive.root % inner, primitive.root % inner
    targets = set(primitive.others) | {primitive.root}
    stripes = min(composition.stripe, size) or 1
    heads = [base + (own + place) % inner for place in range(stripes)]
    parts = []
    scatter: list[Transfer] = []
    for place, (head, part) in enumerate(zip(heads, _split(size, stripes), strict=True)):
        name = f"{label} stripe {place}" if stripes > 1 else label
        sample = Transfer(primitive.root, head, part, name, primitive.place)
        if head != primitive.root:
            scatter.append(sample)
        parts.append(_tree(composition, head, targets - {primitive.root}, sample))
    return ([scatter] if scatter else []) + _together(parts)


def _tree(composition: Composition, root: int, targets: set[int], sample: Transfer) -> Steps:
    return _level(composition.levels, root, targets, sample, 0, ring=composition.ring)


def _level(
    levels: Sequence[int], root: int, targets: set[int], sample: Transfer, depth: int, *, ring: bool
) -> Steps:
    """Return the steps that bring data from a root to the targets among its groups of a level."""
    if depth == len(levels):
        return []
    width = 1
    for level in levels[depth + 1 :]:
        width *= level
    home = root // width
    groups: dict[int, set[int]] = {home: set()}
    for target in sorted(targets):
        groups.setdefault(target // width, set()).add(target)
    order = [home] + [one for one in sorted(groups, key=lambda g: (g < home, g)) if one != home]
    heads = {home: root}
    for group in order[1:]:
        twin = group * width + root % width
        heads[group] = twin if twin in groups[group] else min(groups[group])
    pairs = [(order[at if ring else 0], group) for at, group in enumerate(order[1:])]
    across = [sample.between(heads[one], heads[other]) for one, other in pairs]
    steps = [[one] for one in across] if ring else [across] if across else []
    inside = [
        _level(levels, heads[g], rest, sample, depth + 1, ring=False)
        for g in order
        if (rest := groups[g] - {heads[g]})
    ]
    return steps + _together(inside)


def _together(parts: Iterable[Steps]) -> Steps:
    """Return the steps of several parts that run at the same time."""
    return [
        [transfer for step in steps for transfer in step]
        for steps in zip_longest(*parts, fillvalue=[])
    ]


def _split(size: int, parts: int) -> list[int]:
    """Return a size in parts that differ by at most one."""
    return [size * (at + 1) // parts - size * at // parts for at in range(parts)]
