"""One program to instruction words."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any

from planguard.plan import nodes as n
from planguard.plan.actions import MEMBER, Kind
from planguard.plan.code import WORDS, Program
from planguard.plan.compiling.emitter import Emitter
from planguard.plan.compiling.unroll import NeedsUnrollingError, Unroller
from planguard.plan.defects import Defect
from planguard.plan.layout import lay_out
from planguard.plan.pointers import children

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planguard.plan.compiling.emitter import Tables
    from planguard.plan.pointers import Steps


def check_nesting(actions: Sequence[Any], limit: int) -> None:
    """Check the depth of blocks, before anything recursive looks at a program.

    Raises:
        Defect: Blocks nested deeper than the limit; it names the outermost one.
    """
    if not _BLOCKS & set(map(type, actions)):
        return
    for outermost in actions:
        if type(outermost) not in _BLOCKS:
            continue
        stack = [(outermost, 0)]
        while stack:
            node, depth = stack.pop()
            if depth > limit:
                hint = "raise Limits.nesting"
                raise Defect(outermost, "", f"blocks nested deeper than {limit}", hint=hint)
            for _, inner in children(node):
                for item in inner:
                    items = item if isinstance(item, list) else (item,)
                    stack += [(child, depth + 1) for child in items]


def emit_program(tables: Tables, name: str, steps: Steps, actions: list[n.Action]) -> Program:
    """Return the program of a list of actions.

    Raises:
        Defect: An action that breaks a rule.
    """
    try:
        return _emit(tables, name, steps, actions, actions, {})
    except NeedsUnrollingError:
        unrolled = Unroller(actions, tables.limits.unroll)
        try:
            return _emit(tables, name, steps, actions, unrolled.actions, unrolled.origins)
        except Defect as defect:
            defect.node = unrolled.origins.get(id(defect.node), defect.node)
            raise


def _emit(
    tables: Tables,
    name: str,
    steps: Steps,
    written: list[n.Action],
    actions: list[n.Action],
    origins: dict[int, n.Action],
) -> Program:
    check_nesting(actions, tables.limits.nesting)
    emitter = Emitter(tables, is_unrolled=actions is not written)
    emitter.names.survey(actions)
    emitter.block(actions)
    return Program(
        name=name,
        steps=steps,
        actions=written,
        code=array("I", emitter.words),
        nodes=emitter.nodes,
        length=_length(emitter.words),
        n_slots=len(emitter.names.slots),
        slot_names=tuple(emitter.names.slots),
        ids=emitter.names.ids,
        origins=origins,
    )


def _length(words: list[int]) -> int:
    """Return the number of actions, loops unrolled and batches counted once."""
    ops = words[::WORDS]
    kinds = set(ops)
    if Kind.REPEAT in kinds:
        return lay_out(words, 0, len(ops), {})[2]
    uncounted = sum(ops.count(op) for op in kinds if op & MEMBER or op == Kind.BIND)
    return len(ops) - uncounted


_BLOCKS: frozenset[type] = frozenset({n.Repeat, n.Unordered, n.Threads, n.Choice})
