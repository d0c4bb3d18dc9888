"""What must agree inside a match, and which code a disagreement gets.

The order of the checks is the order in which a person would look: kind, root, size, layout,
dtype, reduce operation, splits, label.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from planguard.plan.actions import Kind, kind_name

if TYPE_CHECKING:
    from planguard.plan.code import Signature
    from planguard.semantics.model import ExecutionModel


@dataclass(frozen=True)
class Side:
    """One member of a match: its rank, what it issues, and the label of its data."""

    rank: int
    signature: Signature
    label: str | None = None
    place: int = 0
    asynchronous: bool = False


@dataclass(frozen=True)
class Disagreement:
    """What members of one match disagree on.

    Attributes:
        code: PG201 .. PG206, PG212 or PG213.
        what: The field: kind, root, bytes, layout, dtype, reduce_op, splits, label.
        values: ``(value, ranks)`` per group of members that agree, largest group first.
    """

    code: str
    what: str
    values: tuple[tuple[str, tuple[int, ...]], ...]

    @property
    def odd(self) -> tuple[int, ...]:
        """Ranks outside the majority; all of them when no majority exists."""
        sizes = [len(ranks) for _, ranks in self.values]
        minority = self.values[1:] if sizes[0] > sizes[1] else self.values
        return tuple(sorted(rank for _, ranks in minority for rank in ranks))


def disagreement(sides: list[Side], model: ExecutionModel, *, pair: bool) -> Disagreement | None:
    """Return the first disagreement among the members of a match, or None.

    Args:
        sides: The members that take part.
        model: The execution model: which spellings are one operation, which sizes are accepted.
        pair: Point-to-point: the sender comes first, kinds play no part.
    """
    checks = [
        ("PG201", "kind", lambda s: _kind_name(s, model)),
        ("PG205", "root", lambda s: s.signature.root),
        ("PG202", "layout", lambda s: s.signature.layout),
        ("PG203", "dtype", lambda s: s.signature.dtype),
        ("PG202", "bytes", _size),
        ("PG204", "reduce_op", lambda s: s.signature.reduce_op),
        ("PG213" if pair else "PG212", "label", lambda s: s.label),
    ]
    optional = {"bytes", "dtype", "label", "reduce_op"}
    for code, what, value in checks:
        if pair and what in {"kind", "root", "layout", "reduce_op"}:
            continue
        if pair and model.short_ok and what == "bytes" and _is_short(sides):
            continue
        groups = _group(sides, value, skip_none=what in optional)
        if len(groups) > 1:
            return Disagreement(code, what, groups)
        if what == "dtype" and not pair:
            found = _split_disagreement(sides)
            if found:
                return found
    return None


def _size(side: Side) -> int | None:
    sign = side.signature
    return None if sign.splits or sign.any_size else sign.bytes


def _is_short(sides: list[Side]) -> bool:
    sent, received = (side.signature.bytes for side in sides)
    return sent is not None and received is not None and sent < received


def _kind_name(side: Side, model: ExecutionModel) -> str:
    kind = Kind(side.signature.kind)
    name = kind_name(model.spelling.get(kind, kind))
    if not model.sync_is_a_kind:
        return name
    return f"{'nonblocking' if side.asynchronous else 'blocking'} {name}"


def _group(
    sides: list[Side], value: object, *, skip_none: bool
) -> tuple[tuple[str, tuple[int, ...]], ...]:
    groups: dict[str, list[int]] = {}
    for side in sides:
        found = value(side)  # type: ignore[operator]
        if found is None and skip_none:
            continue
        groups.setdefault(str(found), []).append(side.rank)
    ordered = sorted(groups.items(), key=lambda item: (-len(item[1]), item[1]))
    return tuple((name, tuple(ranks)) for name, ranks in ordered)


def _split_disagreement(sides: list[Side]) -> Disagreement | None:
    """Compare what i sends to j with what j expects from i (uneven all-to-all)."""
    if not any(side.signature.splits for side in sides):
        return None
    for sender in sides:
        for receiver in sides:
            sent = _split(sender, receiver.place, len(sides), incoming=False)
            expected = _split(receiver, sender.place, len(sides), incoming=True)
            if sent is not None and expected is not None and sent != expected:
                values = (
                    (f"sends {sent} to rank {receiver.rank}", (sender.rank,)),
                    (f"expects {expected} from rank {sender.rank}", (receiver.rank,)),
                )
                return Disagreement("PG206", "splits", values)
    return None


def _split(side: Side, other: int, size: int, *, incoming: bool) -> int | None:
    """Elements exchanged with member ``other``; None when the plan does not say."""
    splits = side.signature.splits
    vector = None if splits is None else splits[1 if incoming else 0]
    if vector is not None:
        return vector[other] if other < len(vector) else None
    count = side.signature.count
    return None if count is None or count % size else count // size
