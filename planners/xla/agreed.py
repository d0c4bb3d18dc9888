"""Loops whose number of passes depends on data that all devices share.

A condition is *agreed* if every device computes it from values that are the same everywhere, in
every state that the loop can be in. Then all devices make the same number of passes k. If a pass is
*closed*, that is, what it starts it waits for, and every pass starts in the same state of the
communication, a program with k passes is its beginning, k closed passes and its end, one after the
other. What a device has started in a pass and not met there would show in the plans of one and of
two passes, whose actions the rest of the program would have to match as often as in that of none.
So the plans of no pass, of one and of two stand for every k (docs/planners/xla.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from .scope import loop_part, loop_state, next_state
from .steps import Choice, Collective, Exchange, Loop, Wait
from .values import Value

if TYPE_CHECKING:
    from collections.abc import Callable

    from .model import Instruction
    from .scope import Path, Ref, Scope
    from .steps import Step


@dataclass(frozen=True)
class Agreed:
    """A loop whose passes all devices count alike.

    Attributes:
        before: Steps of the condition, once before the first pass.
        again: Steps of a pass and of the condition after it.
        state: What is known of the state in which the loop ends.
    """

    before: list[Step]
    again: list[Step]
    state: Callable[[Path], Value]


def agreed(
    scope: Scope, instruction: Instruction, apart: Callable[[Scope], list[Step]]
) -> Agreed | None:
    """Return the loop if all devices are sure to agree on its condition and a pass is closed.

    Which values differ between devices is found as a fixed point: what the loop begins with, then
    what a pass makes of it, until no further value may differ.

    Args:
        scope: Where the loop stands.
        instruction: The loop.
        apart: Walks a computation and returns its steps.
    """
    begin = loop_state(scope, instruction)
    is_tuple = len(begin) == 1 and "flat" not in instruction.attrs
    if is_tuple:
        parts = scope.find(instruction.operands[0]).shape.parts
        # What lies deeper in a tuple is not followed: it may differ.
        varies = [
            part.dtype == "tuple" or begin[0]((number,)).varies for number, part in enumerate(parts)
        ]
    else:
        varies = [one(()).varies for one in begin]
    while True:
        state = _state(varies, is_tuple=is_tuple)
        condition = scope.inside(loop_part(instruction, "condition"), state)
        before = apart(condition)
        body = scope.inside(loop_part(instruction, "body"), state)
        steps = apart(body)
        after = next_state(body, state)
        now = [
            old or _element(after, number, is_tuple=is_tuple).varies
            for number, old in enumerate(varies)
        ]
        if now == varies:
            break
        varies = now
    again = [*steps, *before]
    if condition.result(()).varies or not again or not (_is_closed(before) and _is_closed(again)):
        return None
    return Agreed(before, again, lambda path: _known(varies, path, is_tuple=is_tuple))


def _state(varies: list[bool], *, is_tuple: bool) -> list[Ref]:
    if is_tuple:
        return [lambda path: _known(varies, path, is_tuple=True)]
    return [partial(_flat, one) for one in varies]


def _flat(varies: bool, _: Path) -> Value:  # noqa: FBT001 - the first of a partial
    return Value(None, varies)


def _known(varies: list[bool], path: Path, *, is_tuple: bool) -> Value:
    if len(varies) == 1 and not is_tuple:
        return Value(None, varies[0])
    if not path or path[0] >= len(varies) or len(path) > 1:
        return Value()
    return Value(None, varies[path[0]])


def _element(state: list[Ref], number: int, *, is_tuple: bool) -> Value:
    return state[0]((number,)) if is_tuple else state[number](())


def _is_closed(steps: list[Step]) -> bool:
    """Tell whether steps wait for all that they start, and for nothing else."""
    started: set[str] = set()
    for step in steps:
        if isinstance(step, Collective | Exchange):
            if step.handle is not None:
                started.add(step.handle)
        elif isinstance(step, Wait):
            if step.handle not in started:
                return False
            started.discard(step.handle)
        elif isinstance(step, Loop):
            if not _is_closed(list(step.body)):
                return False
        elif isinstance(step, Choice):
            if not all(_is_closed(list(branch)) for branch in step.branches):
                return False
        else:
            return False
    return not started
