"""Follows gradients through the dispatcher, to tell what a fused buffer holds when it is sent.

Memory is followed, not objects: every stretch of a storage is known by the gradient that lies
there. A hook of our own, registered in front of a user's first one, says where a gradient lies when
it is ready; ``copy_``, ``cat`` and the like carry that on, arithmetic on one gradient keeps it, and
any other operator that writes there makes the stretch unknown. Views need nothing: they share the
storage.
"""

from __future__ import annotations

import json
from bisect import insort
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from planguard.capture.groups.modes import infra_mode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planguard.capture.groups.operators import Operators

Stretch = tuple[int, int, int]
"""First byte, end, and the number of the gradient; ``UNKNOWN`` where something else was written."""
UNKNOWN = -1
LATER, DEALT, AT_ONCE, AFTER = range(4)
"""How a gradient came into its buffer: behind others that became ready, by lying there from the
beginning, in its own hook, or after the backward pass."""
_COPIES = frozenset({"copy_", "_foreach_copy_"})
_JOINS = frozenset({"cat", "stack", "concat", "_chunk_cat"})
_KEEPS = frozenset(
    {
        "clone", "_to_copy", "detach", "mul", "div", "neg", "mul_", "div_", "neg_", "clamp",
        "clamp_", "nan_to_num", "nan_to_num_", "_foreach_mul_", "_foreach_div_", "to", "contiguous",
    }
)  # fmt: skip
"""What makes of a gradient the same gradient, scaled, converted or cut off."""
_CLEARS = frozenset({"zero_", "_foreach_zero_"})
_COMMUNICATES = frozenset({"c10d", "_c10d_functional"})


@dataclass
class Gradient:
    """A gradient that became ready.

    Attributes:
        name: Name of its parameter.
        operator: Module that holds the parameter.
        count: Elements.
    """

    name: str
    operator: str
    count: int


@dataclass
class Followed:
    """What is known of memory.

    Attributes:
        operators: Names parameters.
        gradients: Gradients of the pass that became ready, in that order.
        backward: Number of the backward pass, from 1.
        is_inside: True during a backward pass.
        came: How gradients came where they lie, where it was not ``LATER``.
        lost: Why nothing is known any more; empty while memory is followed.
    """

    operators: Operators
    gradients: list[Gradient] = field(default_factory=list)
    backward: int = 0
    is_inside: bool = False
    came: dict[int, int] = field(default_factory=dict)
    lost: str = ""
    _stored: dict[int, tuple[Any, list[Stretch]]] = field(default_factory=dict)
    _kinds: dict[Any, str] = field(default_factory=dict)

    def begin(self) -> None:
        """Forget the gradients of the pass before: their memory is used again."""
        self.backward += 1
        self.is_inside = True
        self.gradients.clear()
        self._stored.clear()
        self.came.clear()

    def end(self) -> None:
        """Say that the pass returned; what is sent now is sent at a place of the program."""
        self.is_inside = False

    def ready(self, parameter: Any, gradient: Any) -> None:
        """Take a gradient that is ready, before a user's hook sees it."""
        if not self.is_inside or gradient is None or self.lost:
            return
        try:
            self._ready(parameter, gradient)
        except Exception as error:  # noqa: BLE001 - the job must not end by what watches it
            self.lost = f"a gradient of {_named(parameter)}: {_told(error)}"

    def _ready(self, parameter: Any, gradient: Any) -> None:
        name, operator = self.operators.arrived(parameter)
        number = len(self.gradients)
        self.gradients.append(Gradient(name, operator, gradient.numel()))
        span = _span(gradient)
        if span is None:
            return
        if _is_part(gradient, span):
            self.came[number] = DEALT
        self._write(gradient, [(*span, number)])

    def holds(self, tensors: Sequence[Any]) -> str | None:
        """Return what lies in tensors that are sent, as JSON; None if it is not known.

        ``[pass, gradients ready, [[name, operator, elements, readiness, how it came], ...]]`` in
        the order of memory.
        """
        if self.lost:
            return None
        numbers: list[int] = []
        for tensor in tensors:
            span = _span(tensor)
            parts = [] if span is None else self._within(tensor, *span)
            if span is None or any(number == UNKNOWN for _, _, number in parts):
                return None
            numbers += [number for _, _, number in parts]
        rows = [
            [one.name, one.operator, one.count, number, self.came.get(number, LATER)]
            for one, number in ((self.gradients[number], number) for number in numbers)
        ]
        # Two models may have parameters of one name, and a buffer may hold one gradient twice.
        if not rows or len({row[0] for row in rows}) < len(rows) or not all(r[0] for r in rows):
            return None
        return json.dumps([self.backward, len(self.gradients), rows])

    def saw(self, func: Any, args: Any, given: Any, result: Any) -> None:
        """Take an operator that has run; whatever it is, the job goes on."""
        if self.lost:
            return
        try:
            self._saw(func, args, given, result)
        except Exception as error:  # noqa: BLE001 - the job must not end by what watches it
            self.lost = f"{func}: {_told(error)}"

    def _saw(self, func: Any, args: Any, given: Any, result: Any) -> None:
        kind = self._kinds.get(func)
        if kind is None:
            kind = self._kinds[func] = _kind(func)
        if kind == "none" or not self._stored:
            return
        if kind == "copy":
            into, sources = args[0], args[1]
            if not isinstance(into, (list, tuple)):
                into, sources = [into], [sources]
            for target, source in zip(into, sources, strict=True):
                self._carry(target, source)
        elif kind == "join":
            self._join(result, args[0], args[1] if len(args) > 1 else given.get("dim", 0))
        elif kind == "keep":
            self._keep(args, result)
        elif kind == "clear":
            for one in _tensors(args[:1]):
                span = _span(one)
                if span is not None:
                    self._write(one, [], span)
        elif kind == "add" and self._known(args[1]) and not self._known(args[0]):
            self._carry(args[0], args[1])
        else:
            for one in _written(func, args, given):
                self._overwrite(one)

    def _overwrite(self, tensor: Any) -> None:
        """Say that something else was written to a tensor."""
        span = _span(tensor)
        if span is None:
            self._spoil(tensor)
        elif self._within(tensor, *span) or _is_part(tensor, span):
            self._write(tensor, [(*span, UNKNOWN)])

    def _keep(self, args: Any, result: Any) -> None:
        """Carry a gradient through arithmetic with numbers; with another tensor it is unknown."""
        first, others = args[0], [one for one in _tensors(args[1:]) if one.dim()]
        if isinstance(first, (list, tuple)):
            if others:
                for one in first:
                    self._spoil(one)
            return
        if others and self._known(first):
            self._spoil(result)
        elif not others and result is not first:
            self._carry(result, first)

    def _known(self, tensor: Any) -> list[Stretch]:
        """Return the gradients in an operand; a plain number holds none."""
        span = _span(tensor) if hasattr(tensor, "untyped_storage") else None
        return [] if span is None else self._within(tensor, *span)

    def _carry(self, target: Any, source: Any) -> None:
        """Say that one tensor now holds what another holds, element for element."""
        span, other = _span(target), _span(source)
        if span is None:
            self._spoil(target)
            return
        parts = [] if other is None else self._within(source, *other)
        if not parts or other is None or target.numel() != source.numel():
            self._overwrite(target)
            return
        here, there = target.element_size(), source.element_size()
        moved = [
            (span[0] + (a - other[0]) * here // there, span[0] + (b - other[0]) * here // there, n)
            for a, b, n in parts
        ]
        self._write(target, _gaps_unknown(moved, span))
        for _, _, number in parts:
            self._note_arrival(number)

    def _note_arrival(self, number: int) -> None:
        """Note when a gradient was put where it lies, the last time that it was."""
        if self.came.get(number) == DEALT:
            return
        at_once = self.is_inside and number == len(self.gradients) - 1
        self.came[number] = AFTER if not self.is_inside else AT_ONCE if at_once else LATER

    def _join(self, result: Any, parts: Any, dim: int) -> None:
        span = _span(result)
        if span is None or not any(self._known(part) for part in parts):
            return
        if dim != 0:
            self._write(result, [(*span, UNKNOWN)])
            return
        at, found = span[0], []
        for part in parts:
            other, size = _span(part), part.numel() * part.element_size()
            if other is None:
                found.append((at, at + size, UNKNOWN))
            else:
                moved = [(at + a - other[0], at + b - other[0], n) for a, b, n in self._known(part)]
                found += _gaps_unknown(moved, (at, at + size))
            at += size
        self._write(result, found)
        for _, _, number in found:
            if number != UNKNOWN:
                self._note_arrival(number)

    def _within(self, tensor: Any, begin: int, end: int) -> list[Stretch]:
        """Return the stretches of a tensor; one that reaches beyond it is unknown."""
        _, stored = self._stored.get(tensor.untyped_storage()._cdata, (None, []))  # noqa: SLF001
        return [
            (max(a, begin), min(b, end), n if begin <= a and b <= end else UNKNOWN)
            for a, b, n in stored
            if a < end and begin < b
        ]

    def _write(
        self, tensor: Any, rows: Sequence[Stretch], span: tuple[int, int] | None = None
    ) -> None:
        """Put stretches into the memory of a tensor, over what was there."""
        from torch.multiprocessing.reductions import StorageWeakRef

        storage = tensor.untyped_storage()
        key = storage._cdata  # noqa: SLF001 - the reference below keeps its address from being used again
        if key not in self._stored:
            self._stored[key] = StorageWeakRef(storage), []
        stored = self._stored[key][1]
        begin, end = span or (rows[0][0], rows[-1][1])
        kept: list[Stretch] = []
        for a, b, n in stored:
            if b <= begin or end <= a:
                kept.append((a, b, n))
            elif a < begin or end < b:  # a part of it is left, and a part is no gradient
                kept += [(a, begin, UNKNOWN)] * (a < begin) + [(end, b, UNKNOWN)] * (end < b)
        stored[:] = sorted(kept)
        for row in rows:
            insort(stored, row)

    def _spoil(self, tensor: Any) -> None:
        """Say that nothing is known any more of all that shares a tensor's memory."""
        key = tensor.untyped_storage()._cdata  # noqa: SLF001 - torch has no public name of a storage
        if key in self._stored:
            ref, stored = self._stored[key]
            self._stored[key] = ref, [(a, b, UNKNOWN) for a, b, _ in stored]


def _told(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def _named(tensor: Any) -> str:
    return f"a tensor of shape {tuple(tensor.shape)}"


def _gaps_unknown(rows: Sequence[Stretch], span: tuple[int, int]) -> list[Stretch]:
    """Fill what lies between stretches: it was written, and is none of the gradients."""
    found: list[Stretch] = []
    at = span[0]
    for a, b, n in rows:
        found += [(at, a, UNKNOWN)] * (at < a)
        found.append((a, b, n))
        at = b
    return found + [(at, span[1], UNKNOWN)] * (at < span[1])


def _is_part(tensor: Any, span: tuple[int, int]) -> bool:
    """Tell whether a tensor is a part of its storage, as the parts of a buffer are."""
    return bool(span[1] - span[0] < tensor.untyped_storage().nbytes())


def _span(tensor: Any) -> tuple[int, int] | None:
    """Return the bytes of a tensor in its storage; None when they are not in one piece."""
    import torch

    if tensor.layout is not torch.strided or not tensor.is_contiguous():
        return None
    size = tensor.element_size()
    begin = tensor.storage_offset() * size
    return (begin, begin + tensor.numel() * size) if tensor.numel() else None


def _kind(func: Any) -> str:
    """Return how an operator of torch moves gradients."""
    schema = func._schema  # noqa: SLF001 - torch has no public way
    name = schema.name.partition("::")[2]
    if func.namespace in _COMMUNICATES:
        return "none"  # a reduced gradient is the same gradient, reduced
    if name in _COPIES:
        return "copy"
    if name in _JOINS and not schema.is_mutable:
        return "join"
    if name in _KEEPS:
        return "keep"
    if name in _CLEARS:
        return "clear"
    if name == "add_":
        return "add"
    return "writes" if schema.is_mutable else "none"


def _written(func: Any, args: Any, given: Any) -> list[Any]:
    """Return the tensors that an operator writes to."""
    found: list[Any] = []
    for place, one in enumerate(func._schema.arguments):  # noqa: SLF001 - torch has no public way
        if one.alias_info is not None and one.alias_info.is_write:
            value = args[place] if place < len(args) else given.get(one.name)
            found += _tensors([value])
    return found


def _tensors(values: Any) -> list[Any]:
    import torch

    found: list[Any] = []
    for value in values:
        if isinstance(value, torch.Tensor):
            found.append(value)
        elif isinstance(value, (list, tuple)):
            found += _tensors(value)
    return found


def following_mode(followed: Followed) -> Any:
    """Return the mode that shows every operator to what follows gradients."""

    class Following(infra_mode()):  # type: ignore[misc]  # torch is Any here
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            result = func(*args, **(kwargs or {}))
            # Wrappers such as DTensor have no memory of their own; what they hold comes here, too.
            if all(kind.__module__.startswith("torch.nn.parameter") for kind in types):
                followed.saw(func, args, kwargs or {}, result)
            return result

    return Following()
