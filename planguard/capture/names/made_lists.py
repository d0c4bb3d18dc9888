"""Lists that are made of a set by an instruction, which asks the set for no iterator.

From Python 3.13 on a list takes the elements of a set straight from its table (``list_extend_set``
of ``Objects/listobject.c``). Where a function does so (``walk_order``), the function is replaced;
``[*s]``, ``f(a, *s)``, ``names += s`` and ``names[:] = s`` are instructions. Each code object that
has one of them is watched by ``sys.monitoring``: in front of the instruction its operands are read
from the frame's stack, and behind it the list, an object as any other, gets its order.

Nothing is written to the stack. Where it lies in a frame is found by functions that have a known
object there; where they do not find it, the block says so.
"""

from __future__ import annotations

import ctypes
import dis
import os
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from planguard.sources import is_own

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import CodeType, FrameType

    Order = Callable[[Any, FrameType | None], list[Any] | None]

_FRAME = 24
"""Bytes of a frame object in front of the pointer to its frame: of all builds that have a lock."""
_HEADERS = range(7, 15)
"""Words of a frame among which its variables may begin: 9 in 3.13."""
_TAGS = 7
"""Bits of a word of the stack that are no part of an address, from 3.14 on: 1 if borrowed."""
_IN_PLACE = 13
"""``NB_INPLACE_ADD`` of ``opcode.h``."""
_EXTEND, _OPERATE, _SLICE, _CONSTANT = (
    dis.opmap.get(name, -1) for name in ("LIST_EXTEND", "BINARY_OP", "STORE_SLICE", "LOAD_CONST")
)
_ENDS = frozenset(
    dis.opmap[name]
    for name in ("RETURN_VALUE", "RETURN_CONST", "RAISE_VARARGS", "RERAISE", "JUMP_FORWARD",
                 "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT", "INTERPRETER_EXIT")
    if name in dis.opmap
)  # fmt: skip
"""Instructions behind which the next one does not come."""
_TORCH = f"{os.sep}torch{os.sep}"
_NAME = "planguard: lists of sets"


class Making(NamedTuple):
    """An instruction that makes or changes a list: where its operands are, in words.

    Attributes:
        given: What the elements come from.
        made: The list.
        bounds: The start and end of the slice that is replaced; None for the end of the list.
        behind: The offset of the next instruction.
    """

    given: int
    made: int
    bounds: tuple[int, int] | None
    behind: int


@dataclass(frozen=True)
class _Made:
    """A list that is being made of a set: its frame, and what belongs where behind ``behind``."""

    frame: FrameType
    behind: int
    made: list[Any]
    start: int
    ordered: list[Any]

    def order(self) -> None:
        end = self.start + len(self.ordered)
        if set(map(id, self.made[self.start : end])) == set(map(id, self.ordered)):
            self.made[self.start : end] = self.ordered


def makings(code: CodeType) -> dict[int, Making]:
    """Return the instructions of a code object that may make a list of a set, by their offset."""
    raw = code.co_code
    if (
        _EXTEND not in raw[::2]
        and _SLICE not in raw[::2]
        and bytes((_OPERATE, _IN_PLACE)) not in raw
    ):
        return {}
    steps = list(dis.get_instructions(code))
    found: dict[int, Making] = {}
    depths: dict[int, int] = {}
    variables = len({*code.co_varnames, *code.co_cellvars}) + len(code.co_freevars)
    for before, one, behind in zip([None, *steps], steps, [*steps[1:], None], strict=False):
        at = _operands(before, one)
        if at is None or behind is None:
            continue
        depths = depths or _depths(code, steps)
        if (depth := depths.get(one.offset)) is not None:
            given, made, *bounds = (variables + depth - below for below in at)
            slice_at = (bounds[0], bounds[1]) if bounds else None
            found[one.offset] = Making(given, made, slice_at, behind.offset)
    return found


def _operands(before: Any, one: Any) -> tuple[int, ...] | None:
    """Return how far below the top the operands are: what is given, the list, the bounds."""
    if one.opcode == _EXTEND and (before is None or before.opcode != _CONSTANT):
        return 1, 1 + one.arg
    if one.opcode == _OPERATE and one.arg == _IN_PLACE:
        return 1, 2
    return (4, 3, 2, 1) if one.opcode == _SLICE else None


def _depths(code: CodeType, steps: list[Any]) -> dict[int, int]:
    """Return how much is on the stack in front of each instruction, as the compiler counts it."""
    order = {one.offset: at for at, one in enumerate(steps)}
    found: dict[int, int] = {}
    table = dis._parse_exception_table(code)  # type: ignore[attr-defined]  # noqa: SLF001 - there is no public one
    work = [(0, 0), *((one.target, one.depth + 1 + one.lasti) for one in table)]
    while work:
        offset, depth = work.pop()
        if offset in found or offset not in order:
            continue
        found[offset] = depth
        at = order[offset]
        step = steps[at]
        if step.opcode in dis.hasjrel:
            work.append((step.argval, depth + dis.stack_effect(step.opcode, step.arg, jump=True)))
        if step.opcode not in _ENDS and at + 1 < len(steps):
            behind = depth + dis.stack_effect(step.opcode, step.arg, jump=False)
            work.append((steps[at + 1].offset, behind))
    return found


@contextmanager
def made(order: Order) -> Iterator[bool]:
    """Give lists that instructions make of sets another order, to the end of a block.

    Args:
        order: Called with what a list is made of, and the frame; returns the elements of a set in
            the order to take, None for anything else.

    Yields:
        False where this interpreter does not let its stack be read.
    """
    header = _header()
    if header is None:
        yield False
        return
    with _watching(_Watch(order, header)) as is_watched:
        yield is_watched


class _Watch:
    """What is done at the instructions that make lists.

    Args:
        order: Gives the order.
        header: Words of a frame in front of its variables.
    """

    def __init__(self, order: Order, header: int) -> None:
        self.order, self.header, self.tool = order, header, -1
        self.codes: dict[int, tuple[CodeType, dict[int, Making]]] = {}
        self._made: dict[int, _Made] = {}

    def begins(self, code: CodeType, _: int) -> Any:
        """Look at a code object that runs for the first time in the block."""
        monitoring = _monitoring()
        file = code.co_filename
        if id(code) not in self.codes and not is_own(file) and _TORCH not in file:
            found = makings(code)
            if found:
                self.codes[id(code)] = code, found
                monitoring.set_local_events(self.tool, code, monitoring.events.INSTRUCTION)
        return monitoring.DISABLE

    def steps(self, code: CodeType, offset: int) -> Any:
        """Look at an instruction that comes next in a watched code object."""
        found = self.codes.get(id(code), (code, {}))[1]
        frame = sys._getframe(1)  # noqa: SLF001 - the interpreter has no public way
        before = self._made.pop(id(frame), None)
        if before is not None and before.frame is frame and before.behind == offset:
            before.order()
        if offset in found:
            self._make(found[offset], frame)
        elif all(offset != one.behind for one in found.values()):
            return _monitoring().DISABLE
        return None

    def _make(self, making: Making, frame: FrameType) -> None:
        given = _on_stack(frame, self.header + making.given)
        ordered = self.order(given, frame) if type(given) in (set, frozenset) else None
        made = None if ordered is None else _on_stack(frame, self.header + making.made)
        if ordered is None or type(made) is not list:
            return
        start = len(made)
        if making.bounds is not None:
            ends = (_on_stack(frame, self.header + at) for at in making.bounds)
            start = slice(*ends).indices(len(made))[0]
        self._made[id(frame)] = _Made(frame, making.behind, made, start, ordered)


@contextmanager
def _watching(watch: Any) -> Iterator[bool]:
    """Let ``sys.monitoring`` call a watch; False where no number of a tool is free."""
    monitoring = _monitoring()
    # 0 to 2 and 5 are those of debuggers, coverage, profilers and optimizers, 3 and 4 of nobody.
    free = [number for number in (4, 3, 5, 1, 2, 0) if monitoring.get_tool(number) is None]
    if not free:
        yield False
        return
    watch.tool = tool = free[0]
    events = monitoring.events
    monitoring.use_tool_id(tool, _NAME)
    try:
        monitoring.register_callback(tool, events.PY_START, watch.begins)
        monitoring.register_callback(tool, events.PY_RESUME, watch.begins)
        monitoring.register_callback(tool, events.INSTRUCTION, watch.steps)
        monitoring.set_events(tool, events.PY_START | events.PY_RESUME)
        monitoring.restart_events()  # what an earlier block has seen enough of
        yield True
    finally:
        monitoring.set_events(tool, 0)
        for code, _ in watch.codes.values():
            monitoring.set_local_events(tool, code, 0)
        for event in (events.PY_START, events.PY_RESUME, events.INSTRUCTION):
            monitoring.register_callback(tool, event, None)
        monitoring.free_tool_id(tool)


def _monitoring() -> Any:
    return sys.monitoring  # type: ignore[attr-defined]  # from 3.12 on


# --- where the stack lies ----------------------------------------------------------------------


def _word(address: int) -> int:
    return int(ctypes.c_size_t.from_address(address).value)


def _at(frame: FrameType, at: int) -> int:
    """Return a word of a frame: an address, or 0 where it is a number of the interpreter's."""
    word = _word(_word(id(frame) + _FRAME) + 8 * at)
    return 0 if word & _TAGS > 1 else word & ~_TAGS


def _on_stack(frame: FrameType, at: int) -> Any:
    address = _at(frame, at)
    return ctypes.cast(address, ctypes.py_object).value if address else None


class _Probe(_Watch):
    """Notes at which headers a known object is where an instruction has it."""

    def __init__(self, known: Any) -> None:
        super().__init__(lambda *_: None, 0)
        self.known = known
        self.headers: list[set[int]] = []

    def begins(self, code: CodeType, _: int) -> Any:
        if code in (_short.__code__, _long.__code__):
            self.codes[id(code)] = code, makings(code)
            events = _monitoring().events
            _monitoring().set_local_events(self.tool, code, events.INSTRUCTION)
        return None

    def _make(self, making: Making, frame: FrameType) -> None:
        wanted = id(self.known)
        self.headers.append({at for at in _HEADERS if _at(frame, at + making.given) == wanted})


def _short(known: Any) -> list[Any]:
    return [0, *known]


def _long(known: Any, one: Any = 0, more: Any = 1) -> Any:
    for given in ([known],):
        one, more = [(more, [one, (one, *given[0])]) for _ in range(1)], one
    return one, more


@cache
def _header() -> int | None:
    """Return how many words of a frame come before its variables; None where that is not seen."""
    is_plain = sys.implementation.name == "cpython" and getattr(sys, "_is_gil_enabled", bool)()
    if sys.version_info < (3, 13) or not is_plain:
        return None
    known = {object(), object()}
    probe = _Probe(known)
    with _watching(probe) as is_watched:
        if is_watched:
            _short(known)
            _long(known)
    both = set.intersection(*probe.headers) if len(probe.headers) == 2 else set()
    return both.pop() if len(both) == 1 else None
