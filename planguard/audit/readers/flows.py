"""Which operator made the data that another one read: what an ExecutionTrace says beside a trace.

torch's ``ExecutionTraceObserver`` writes, for every operator, its tensors as ``[tensor, storage,
offset, elements, bytes of one, device]``, going in and coming out, and the operator's schema, which
says what it changes in place and what it only looks at in another way. A trace of the profiler that
was made at the same time has the times; both number an operator alike (``rf_id`` here, ``Record
function id`` there), if the profiler was given the observer.

Data comes from whoever made this very tensor, as a view or anew, and from whoever wrote bytes of
its storage since. Numbers of tensors and storages stand for addresses, which are used again. So
the latest counts; memory that an operator hands out anew hides what was there; elements of another
width are another tensor's; a tensor without dimensions that no operator made is a number of C++;
and who made a tensor is asked only of those that an operator was handed, not of those it unpacked.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec import field as named

from planguard.audit.readers.names import element_type
from planguard.audit.readers.safe import decode_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

MOST = 1 << 48
"""Most bytes of a storage that are believed."""
MOST_PARTS = 4096
"""Most parts of one storage that are told apart, the latest; a bucket has one for each gradient."""
DEEPEST = 4
"""Lists inside lists that tensors are looked for in."""
_CHANGED = re.compile(r"\([a-z]\w*!")
_OVERWRITES = ("aten::copy_", "aten::zero_", "aten::fill_", "aten::resize_")
_LIKE = re.compile(r"aten::(\w+_like|new_\w+|resize_as_)$")
"""Operators that look at the shape of what they are given, not at its data."""


class _Values(Struct, gc=False):
    values: list[Any] = named(default_factory=list)
    shapes: list[Any] = named(default_factory=list)
    types: list[Any] = named(default_factory=list)
    strides: list[Any] = named(default_factory=list)


class _Attribute(Struct, gc=False):
    name: str = ""
    value: Any = None


class _Node(Struct, gc=False):
    id: int = 0
    name: str = ""
    parent: int = named(name="ctrl_deps", default=0)
    inputs: _Values = named(default_factory=_Values)
    outputs: _Values = named(default_factory=_Values)
    attrs: list[_Attribute] = named(default_factory=list)

    def about(self, name: str) -> Any:
        return next((one.value for one in self.attrs if one.name == name), None)

    @property
    def record(self) -> int:
        number = self.about("rf_id")
        return number if type(number) is int else -1


class _Trace(Struct, gc=False):
    nodes: list[_Node] = named(default_factory=list)


@dataclass(frozen=True)
class Value:
    """A tensor as an operator left it.

    Attributes:
        name: ``t`` and a number in order of first use; ``p`` for what was there before the trace.
        shape: Its shape.
        dtype: Its element type, or None.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str | None


@dataclass
class Flow:
    """What an operator read that others made, or that was there before, and made that others read.

    Both in order of their first use.
    """

    reads: dict[str, Value] = field(default_factory=dict)
    writes: dict[str, Value] = field(default_factory=dict)


@dataclass(frozen=True)
class _Tensor:
    number: int
    storage: int
    start: int
    end: int
    width: int
    shape: tuple[int, ...]
    dtype: str | None

    @property
    def key(self) -> tuple[int, int]:
        return self.number, self.storage


@dataclass(frozen=True)
class _Made:
    """That an operator made or wrote a tensor at a moment."""

    at: int
    owner: int
    tensor: _Tensor


class Flows:
    """The operators of one rank with their tensors.

    Raises:
        PlanError: It cannot be decoded.
    """

    def __init__(self, data: bytes, file: str) -> None:
        nodes = decode_json(data, _Trace, file).nodes
        self._nodes = {node.id: node for node in sorted(nodes, key=lambda node: node.id)}

    def of(self, places: Mapping[int, tuple[int, int]]) -> dict[int, Flow]:
        """Return the data of the operators that are drawn, by the number that both traces give.

        Args:
            places: Of each operator, drawn or not: the innermost drawn one around it or itself,
                and how deep it is in that one. By the times of the profiler: of a call that ends in
                another thread the ExecutionTrace says that what comes later is inside it.
        """
        own = {at: places.get(node.record, (-1, 0)) for at, node in self._nodes.items()}
        ends = self._ends({at: owner for at, (owner, _) in own.items()})
        bare = {owner for at, (owner, deep) in own.items() if not (deep or self._has_tensors(at))}
        walk = _Walk()
        moments = [(at, 0, at) for at in self._nodes]
        moments += [(ends[at], 1, -at) for at in self._nodes]  # the inner one ends first
        for number, (_, is_end, at) in enumerate(sorted(moments)):
            node, (owner, deep) = self._nodes[abs(at)], own[abs(at)]
            if is_end:
                walk.write(number, owner, node)
            else:
                walk.read(owner, node, is_handed=deep <= (owner in bare))
        return walk.flows

    def _has_tensors(self, at: int) -> bool:
        return bool(self._nodes[at].inputs.values)

    def _ends(self, owners: dict[int, int]) -> dict[int, int]:
        """Return the last node that began inside each, as far as one operator has both."""
        ends = {at: at for at in self._nodes}
        for at in sorted(self._nodes, reverse=True):
            parent = self._nodes[at].parent
            if parent < at and owners.get(parent) == owners[at]:
                ends[parent] = max(ends[parent], ends[at])
        return ends


class _Walk:
    """What was made and written so far, while operators are gone through in their order."""

    def __init__(self) -> None:
        self.flows: dict[int, Flow] = defaultdict(Flow)
        self._made: dict[tuple[int, int], _Made] = {}
        self._written: dict[int, list[tuple[int, int, int, _Made]]] = defaultdict(list)
        self._handed: dict[int, set[tuple[int, int]]] = defaultdict(set)
        self._own: dict[int, set[tuple[int, int]]] = defaultdict(set)
        self._values: dict[str, dict[Any, Value]] = {"t": {}, "p": {}}

    def read(self, owner: int, node: _Node, *, is_handed: bool) -> None:
        """Note where the data comes from that an operator reads.

        Args:
            owner: The drawn operator, or -1.
            node: It, or one inside it.
            is_handed: Its inputs are those of the drawn operator; one of autograd has none in the
                trace, and those right inside it count.
        """
        if owner < 0:
            return
        hidden, arguments = _only_written(node), list(_by_argument(node.inputs))
        keys = {one.key for given in arguments for one in given}
        if is_handed:
            self._handed[owner] |= keys
        # What an operator returns is in use inside it before it has returned.
        made_here = {one.key for own in _by_argument(node.outputs) for one in own}
        self._own[owner] |= made_here - keys
        for place, given in enumerate(arguments):
            for one in given:
                is_own = one.key in self._own[owner] and one.key not in self._handed[owner]
                if place in hidden or is_own:
                    continue
                made = self._made.get(one.key)
                if made is not None and made.owner != owner and one.key not in self._handed[owner]:
                    made = None
                if made is not None or one.shape:
                    for source in self._sources(one, made):
                        self._edge(owner, one, source)

    def _edge(self, owner: int, one: _Tensor, source: _Made | None) -> None:
        if source is None:  # a parameter, an input: it was there before
            value = self._value("p", one.key, one)
            self.flows[owner].reads.setdefault(value.name, value)
        elif source.owner != owner:
            value = self._value("t", source, source.tensor)
            self.flows[owner].reads.setdefault(value.name, value)
            if source.owner >= 0:
                self.flows[source.owner].writes.setdefault(value.name, value)

    def _value(self, letter: str, key: Any, one: _Tensor) -> Value:
        known = self._values[letter]
        if key not in known:
            known[key] = Value(f"{letter}{len(known) + 1}", one.shape, one.dtype)
        return known[key]

    def _sources(self, one: _Tensor, made: _Made | None) -> list[_Made | None]:
        """Return who made the tensor, unless it was written over since, and who wrote into it."""
        found: list[_Made | None] = []
        covered = 0
        for start, end, width, source in self._written[one.storage]:
            is_later = made is None or source.at > made.at
            if start < one.end and one.start < end and is_later and width == one.width:
                covered += min(end, one.end) - max(start, one.start)
                found.append(source)
        return found if covered >= one.end - one.start else [*found, made]

    def write(self, at: int, owner: int, node: _Node) -> None:
        """Note what an operator made, and what it wrote in place."""
        stored = {one.storage for own in _by_argument(node.inputs) for one in own}
        is_view = _is_view(node)
        for own in _by_argument(node.outputs):
            for one in own:
                made = _Made(at, owner, one)
                self._made[one.key] = made
                if not (is_view and one.storage in stored):
                    self._cover(one, made)

    def _cover(self, one: _Tensor, made: _Made) -> None:
        """Put a write over what was written to these bytes before."""
        left = []
        for start, end, width, source in self._written[one.storage]:
            before, behind = (start, min(end, one.start)), (max(start, one.end), end)
            left += [(a, b, width, source) for a, b in (before, behind) if a < b]
        parts = [*left, (one.start, one.end, one.width, made)]
        self._written[one.storage] = parts[-MOST_PARTS:]


def _is_view(node: _Node) -> bool:
    """Whether an operator returns what it was given without writing, also if it has no schema."""
    schema = node.about("op_schema")
    if not isinstance(schema, str) or not schema:
        return True
    returned = schema.rpartition("->")[2]
    return "(" in returned and "!" not in returned and "Tensor(" in returned


def _only_written(node: _Node) -> set[int]:
    """Return the places of arguments whose content an operator does not read."""
    if _LIKE.match(node.name):
        return set(range(len(node.inputs.values)))
    schema = node.about("op_schema")
    if not isinstance(schema, str) or "!" not in schema:
        return set()
    positional, _, named_only = schema.partition("(")[2].rpartition("->")[0].partition("*, ")
    first = _arguments(positional)
    both = [*first, *_arguments(named_only)]
    hidden = {at for at in range(len(first), len(both)) if _CHANGED.search(both[at])}  # out=
    return hidden | ({0} if node.name in _OVERWRITES else set())


def _arguments(text: str) -> list[str]:
    """Return the arguments of a schema; a comma in brackets parts none."""
    return [one for one in re.split(r",\s*(?![^\[]*\])", text.strip(" ,)")) if one]


def _by_argument(values: _Values) -> Iterator[list[_Tensor]]:
    """Yield the tensors of each argument, those of lists included."""
    for at, value in enumerate(values.values):
        rows = [own[at] if at < len(own) else None for own in (values.shapes, values.strides)]
        kind = values.types[at] if at < len(values.types) else ""
        yield list(_tensors(value, rows[0], rows[1], str(kind)))


def _tensors(value: Any, shape: Any, stride: Any, kind: str, deep: int = 0) -> Iterator[_Tensor]:
    if not isinstance(value, list) or deep > DEEPEST:
        return
    if len(value) == 6 and isinstance(value[5], str):
        one = _tensor(value, shape, stride, kind)
        if one is not None:
            yield one
        return
    inner = re.findall(r"Tensor\([^)]*\)", kind)
    for at, part in enumerate(value):
        yield from _tensors(
            part,
            shape[at] if isinstance(shape, list) and at < len(shape) else None,
            stride[at] if isinstance(stride, list) and at < len(stride) else None,
            inner[at] if at < len(inner) else "",
            deep + 1,
        )


def _tensor(value: list[Any], shape: Any, stride: Any, kind: str) -> _Tensor | None:
    number, storage, offset, count, width, _ = value
    if not all(type(one) is int and 0 <= one <= MOST for one in (storage, offset, count, width)):
        return None
    if type(number) is not int or not count or not width:
        return None
    sizes = tuple(shape) if _is_sizes(shape) else (count,)
    spans = zip(sizes, stride, strict=True) if _is_sizes(stride, len(sizes)) else ()
    reach = 1 + sum((size - 1) * step for size, step in spans) if stride else count
    start = offset * width
    found = re.match(r"Tensor\((.*)\)", kind)
    dtype = element_type(found[1]) if found else None
    return _Tensor(number, storage, start, start + max(reach, 1) * width, width, sizes, dtype)


def _is_sizes(given: Any, count: int | None = None) -> bool:
    return (
        isinstance(given, list)
        and len(given) <= 16
        and (count is None or len(given) == count)
        and all(type(one) is int and 0 <= one <= MOST for one in given)
    )
