"""Loops in loops: the plan format counts the iterations of the innermost loop only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from .steps import Choice, Loop, Plain, Step

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .steps import Origin

_BLOCKS = (Loop, Choice)
MAX_UNROLLED = 20_000
"""Steps that may be written for the iterations of outer loops, per device."""


def flat_loops(steps: Sequence[Step]) -> tuple[list[Step], bool]:
    """Unroll every loop that contains another; returns the steps and whether all have rounds.

    Where that would be too long, the loops stay and their steps lose their identity: a label that
    repeats would be taken for the same round.
    """
    has_blocks = not {step.__class__ for step in steps}.isdisjoint(_BLOCKS)
    if (_length(steps) if has_blocks else len(steps)) > MAX_UNROLLED:
        return [_renamed(step, _nameless) for step in steps], False
    if not has_blocks:
        return list(steps), True
    out: list[Step] = []
    for step in steps:
        out += _unrolled(step)
    return out, True


def _unrolled(step: Step) -> list[Step]:
    if isinstance(step, Choice):
        branches = tuple(tuple(flat_loops(branch)[0]) for branch in step.branches)
        return [replace(step, branches=branches)]
    if not isinstance(step, Loop):
        return [step]
    if step.times > 1 and not any(isinstance(inner, _BLOCKS) for inner in step.body):
        return [step]
    out: list[Step] = []
    for iteration in range(step.times):
        for inner in step.body:
            out += _unrolled(_renamed(inner, _numbered(iteration)))
    return out


def _length(steps: Sequence[Step]) -> int:
    total = 0
    for step in steps:
        if isinstance(step, Loop):
            nested = any(isinstance(inner, _BLOCKS) for inner in step.body)
            total += _length(step.body) * (step.times if nested else 1)
        elif isinstance(step, Choice):
            total += sum(_length(branch) for branch in step.branches)
        else:
            total += 1
    return total


def _numbered(iteration: int) -> Callable[[Origin], Origin]:
    number = f"[{iteration}]"
    return lambda origin: replace(origin, round=origin.round.replace("[{i}]", number, 1))


def _nameless(origin: Origin) -> Origin:
    return replace(origin, name="", round="")


def _renamed(step: Step, rename: Callable[[Origin], Origin]) -> Step:
    """Return a step with another origin, and its handle with it."""
    origin = rename(step.origin)
    if isinstance(step, Loop):
        return replace(step, origin=origin, body=tuple(_renamed(i, rename) for i in step.body))
    if isinstance(step, Choice):
        branches = tuple(tuple(_renamed(i, rename) for i in b) for b in step.branches)
        return replace(step, origin=origin, branches=branches)
    if isinstance(step, Plain) or step.handle is None or rename is _nameless:
        return replace(step, origin=origin)
    handle = step.handle.removesuffix(step.origin.round) + origin.round
    return replace(step, origin=origin, handle=handle)
