"""What must agree inside a match, and which code a disagreement gets.

The order of the checks is the order in which a person would look: kind, root, layout, dtype,
splits, size, reduce operation, calls made before, label, labels of the parts. The kernels compare
the same facts by number and report every match that could disagree; this module is the judge of
those that they report.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import TYPE_CHECKING

from planguard.plan.actions import DTYPE_CODE, ITEM_BYTES, UNKNOWN_BYTES, Kind, kind_name
from planguard.plan.vocabulary import SPLIT_FIELDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from planguard.plan.code import CompiledPlan, Signature
    from planguard.semantics.model import ExecutionModel

Groups = tuple[tuple[str, tuple[int, ...]], ...]
"""``(value, ranks)`` per group of members that agree, largest group first."""

GATHERS = {kind for kind, fields in SPLIT_FIELDS.items() if fields == ("out_splits",)}
SCATTERS = {kind for kind, fields in SPLIT_FIELDS.items() if fields == ("in_splits",)}


@dataclass(frozen=True)
class Side:
    """One member of a match.

    Attributes:
        rank: Global rank.
        signature: What it issues.
        label: Label of its data.
        place: Its place in the group.
        asynchronous: Whether it is a nonblocking call.
        parts: Labels of the parts of a coalesced collective; empty where no part has one.
        messages: Messages that it made before on the group, where the model counts them.
    """

    rank: int
    signature: Signature
    label: str | None = None
    place: int = 0
    asynchronous: bool = False
    parts: tuple[str | None, ...] = ()
    messages: int = 0


@dataclass(frozen=True)
class Disagreement:
    """What members of one match disagree on.

    Attributes:
        code: PG201 .. PG206, PG212, PG213 or PG216.
        what: The field: kind, root, bytes, layout, dtype, reduce_op, splits, messages, label, part
            label.
        values: ``(value, ranks)`` per group of members that agree, largest group first.
    """

    code: str
    what: str
    values: Groups

    @property
    def odd(self) -> tuple[int, ...]:
        """Ranks outside the majority; all of them when no majority exists."""
        sizes = [len(ranks) for _, ranks in self.values]
        minority = self.values[1:] if sizes[0] > sizes[1] else self.values
        return tuple(sorted(rank for _, ranks in minority for rank in ranks))


def labels_of(code: CompiledPlan, label: int) -> tuple[str | None, ...]:
    """Return what a label id says: the label of an action, then those of its parts, if any."""
    if not label:
        return (None,)
    return code.label_lists.get(label) or (code.label_names[label - 1],)


def disagreement(sides: list[Side], model: ExecutionModel, *, pair: bool) -> Disagreement | None:
    """Return the first disagreement among the members of a match, or None.

    Args:
        sides: The members that take part.
        model: The execution model: which spellings are one operation, which sizes are accepted.
        pair: Point-to-point: the sender comes first, kinds play no part.
    """
    checks: list[tuple[str, str, Callable[[Side], object]]] = [
        ("PG201", "kind", lambda s: _kind_name(s, model)),
        ("PG205", "root", lambda s: s.signature.root),
        ("PG202", "layout", lambda s: len(s.signature.layout or (None,))),
        ("PG203", "dtype", lambda s: s.signature.dtype),
        ("PG202", "bytes", _size),
        ("PG204", "reduce_op", lambda s: s.signature.reduce_op),
        ("PG216", "messages", lambda s: s.messages),
        ("PG213" if pair else "PG212", "label", lambda s: s.label),
    ]
    optional = {"bytes", "dtype", "label", "reduce_op"}
    is_uneven = not pair and any(side.signature.splits for side in sides)
    for code, what, value in checks:
        if pair and what in {"kind", "root", "layout", "reduce_op"}:
            continue
        if is_uneven and what == "bytes":
            continue  # the parts were compared one by one
        if pair and model.short_ok and what == "bytes" and _is_short(sides):
            continue
        groups = _group(sides, value, skip_none=what in optional)
        if len(groups) > 1:
            return Disagreement(code, what, groups)
        found = None
        if what == "layout":
            found = _part_sizes(sides)
        elif what == "dtype" and is_uneven:
            found = _uneven(sides)
        if found is not None:
            return found
    return _part_labels(sides)


def _size(side: Side) -> int | None:
    return None if side.signature.any_size else side.signature.bytes


def _is_short(sides: list[Side]) -> bool:
    sent, received = (side.signature.bytes for side in sides)
    return sent is not None and received is not None and sent < received


def _kind_name(side: Side, model: ExecutionModel) -> str:
    kind = Kind(side.signature.kind)
    name = kind_name(model.spelling.get(kind, kind))
    if not model.sync_is_a_kind:
        return name
    return f"{'nonblocking' if side.asynchronous else 'blocking'} {name}"


def _group(sides: list[Side], value: Callable[[Side], object], *, skip_none: bool) -> Groups:
    groups: dict[str, list[int]] = {}
    for side in sides:
        found = value(side)
        if found is None and skip_none:
            continue
        groups.setdefault(str(found), []).append(side.rank)
    ordered = sorted(groups.items(), key=lambda item: (-len(item[1]), item[1]))
    return tuple((name, tuple(ranks)) for name, ranks in ordered)


# --- coalesced collectives -----------------------------------------------------------------------


def _part_sizes(sides: list[Side]) -> Disagreement | None:
    """Compare the tensors of a coalesced collective one by one, where members say what they are.

    A plain call moves one tensor.
    """
    layouts = [side.signature.layout for side in sides if side.signature.layout is not None]
    layouts += [
        (_as_part(side.signature),) for side in sides if layouts and side.signature.layout is None
    ]
    for column in zip(*layouts, strict=True):
        sizes = {size for size, _ in column} - {UNKNOWN_BYTES}
        codes = {code for _, code in column} - {0}
        if len(sizes) > 1 or len(codes) > 1:
            groups = _group(sides, lambda side: side.signature.layout, skip_none=False)
            return Disagreement("PG202", "layout", groups)
    return None


def _as_part(signature: Signature) -> tuple[int, int]:
    """Return what a plain call says of its tensor, as a coalesced one does of each of its own."""
    size = UNKNOWN_BYTES if signature.bytes is None else signature.bytes
    return size, DTYPE_CODE.get(signature.dtype or "", 0)


def _part_labels(sides: list[Side]) -> Disagreement | None:
    """Compare the labels of the tensors of a coalesced collective one by one."""
    for part in range(max((len(side.parts) for side in sides), default=0)):
        groups = _group(
            sides,
            lambda side: _part_label(side, part),  # noqa: B023 - used at once
            skip_none=True,
        )
        if len(groups) > 1:
            return Disagreement("PG212", "part label", groups)
    return None


def _part_label(side: Side, part: int) -> str | None:
    """Return the label of a part; a plain call is its own only part."""
    if side.parts:
        return side.parts[part]
    return side.label if side.signature.layout is None else None


# --- uneven parts --------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Statement:
    """How many elements go from one member to another, as one of the two says."""

    side: Side
    other: Side
    is_sent: bool
    count: int | Fraction

    def __str__(self) -> str:
        word, way = ("sends", "to") if self.is_sent else ("expects", "from")
        return f"{word} {self.count} {way} rank {self.other.rank}"


def _uneven(sides: list[Side]) -> Disagreement | None:
    """Compare what i sends to j with what j expects from i, in elements (MPI's v-forms).

    The size of a call says one side of it: what a member gives to a gather, or gets from a scatter.
    Without splits the other side is even: as much for every member as the own size says. Of a
    gather or scatter with a root only the root says what the others give or get.
    """
    vectors = [part for side in sides for part in side.signature.splits or () if part is not None]
    size = len(vectors[0])
    dtypes = [side.signature.dtype for side in sides if side.signature.dtype]
    width = ITEM_BYTES[dtypes[0]] if dtypes else 0
    parcels: dict[tuple[int, int], list[_Statement]] = {}
    for source, target in product(sides, repeat=2):
        for said in _said(source, target, size, width):
            place = _parcel(source, target)
            first = parcels.setdefault(place, [said])[0]
            if first.count != said.count:
                pair = sorted((first, said), key=lambda one: not one.is_sent)
                values = tuple((str(one), (one.side.rank,)) for one in pair)
                return Disagreement("PG206", "splits", values)
    return None


def _parcel(source: Side, target: Side) -> tuple[int, int]:
    """Return what data goes from one to the other: of a gather the same to everybody."""
    kind = source.signature.kind
    if kind in GATHERS:
        return source.place, -1
    return (-1, target.place) if kind in SCATTERS else (source.place, target.place)


def _said(source: Side, target: Side, size: int, width: int) -> Iterator[_Statement]:
    kind, root = source.signature.kind, source.signature.root
    sent, expected = _vector(source, 0), _vector(target, 1)
    own, theirs = _elements(source, width), _elements(target, width)
    if kind in GATHERS:
        if own is not None:
            yield _Statement(source, target, True, own)
        count = theirs if expected is None else expected[source.place]
        if count is not None and root in {None, target.rank}:
            yield _Statement(target, source, False, count)
    elif kind in SCATTERS:
        count = own if sent is None else sent[target.place]
        if count is not None and root in {None, source.rank}:
            yield _Statement(source, target, True, count)
        if theirs is not None:
            yield _Statement(target, source, False, theirs)
    else:
        even = None if own is None else Fraction(own, size)
        count = even if sent is None else sent[target.place]
        if count is not None:
            yield _Statement(source, target, True, count)
        even = None if theirs is None else Fraction(theirs, size)
        count = even if expected is None else expected[source.place]
        if count is not None:
            yield _Statement(target, source, False, count)


def _vector(side: Side, which: int) -> tuple[int, ...] | None:
    return None if side.signature.splits is None else side.signature.splits[which]


def _elements(side: Side, width: int) -> int | Fraction | None:
    """Return the elements of a member's own tensor; None where the plan does not say."""
    sign = side.signature
    if sign.count is not None or sign.bytes is None or not width:
        return sign.count
    return Fraction(sign.bytes, width)
