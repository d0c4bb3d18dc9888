"""Batches like one that is at hand, but for one thing: what another rank's loader may give.

A change keeps types: a list stays a list, a tensor keeps its kind and its number of dimensions.
What is tried first is what the program compared something with: the other side of a comparison
decides otherwise. Whether a loader could ever give such a batch nobody knows here; who plays one
says so.
"""

from __future__ import annotations

import copy
import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from planguard.errors import shorten

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

Path = tuple[Any, ...]
"""Keys, numbers and names of attributes (as ``Named``) that lead to a part of a sample."""
_OF_LENGTH = 4  # changes of what has a length that come first: its order, an entry, and its length
_PARTS = 6  # entries of a list that are changed one by one: the first ones, and the last


@dataclass(frozen=True)
class Named:
    """An attribute on the way to a part of a sample."""

    name: str


@dataclass(frozen=True)
class Like:
    """A batch like another one.

    Attributes:
        value: The batch.
        words: What is changed in it.
        parts: The parts that are changed.
        is_first: One of the changes that each part is given before anything is claimed.
    """

    value: Any
    words: str
    parts: tuple[Path, ...]
    is_first: bool = False


def likes_of(
    sample: Any, compared: Sequence[tuple[Any, Any]], taken: frozenset[str] = frozenset()
) -> Iterator[Like]:
    """Return batches like a sample, most promising first, each different from it.

    Args:
        sample: The sample.
        compared: Pairs of values that the program compared.
        taken: Keys that real samples have: nothing of another kind is put under one again.
    """
    parts = list(parts_of(sample))
    rows = [_rows(sample, path, value, compared, taken) for path, value in parts]
    groups = [row for row, (_, value) in zip(rows, parts, strict=True) if _has_length(value)]
    first = [row for row in rows if row not in groups]
    firsts = [next(row, None) for row in first]
    firsts += [next(row, None) for row in groups for _ in range(_OF_LENGTH)]
    together = list(_together(sample))
    rest = (row for turn in itertools.zip_longest(*rows) for row in turn)
    for number, made in enumerate((*firsts, *together, *rest)):
        if made is None:
            continue
        try:
            value = _put(sample, made[0])
        except Exception:  # noqa: BLE001, S112 - a class of the program that is not to be set
            continue
        is_first = number < len(firsts) + len(together)
        yield Like(value, made[1], tuple(path for path, _ in made[0]), is_first)


def _has_length(value: Any) -> bool:
    return isinstance(value, dict) or _is_row(value) or _is_tensor(value)


_Row = tuple[list[tuple[Path, Any]], str]


def _rows(
    sample: Any, path: Path, value: Any, compared: Sequence[tuple[Any, Any]], taken: frozenset[str]
) -> Iterator[_Row]:
    seen: list[Any] = [value]
    for made in _changes(value, sample, compared, taken):
        if any(_is_same(made, one) for one in seen):
            continue
        seen.append(made)
        yield [(path, made)], f"{_at(path)} is {_said(made)}"


def parts_of(sample: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Return the parts of a sample, the whole first; of long lists some entries."""
    yield path, sample
    if isinstance(sample, dict):
        inner = [(key, one) for key, one in sample.items()]
    elif _is_row(sample):
        some = (
            range(len(sample)) if len(sample) <= _PARTS else [*range(_PARTS - 1), len(sample) - 1]
        )
        inner = [(at, sample[at]) for at in some]
    elif _is_object(sample):
        inner = [(Named(name), one) for name, one in vars(sample).items()]
    else:
        return
    for key, one in inner:
        yield from parts_of(one, (*path, key))


def is_varied(value: Any) -> bool:
    """Tell whether a part of a sample is of a kind that is changed here."""
    kinds = (dict, list, tuple, bool, int, float, str, bytes, set, frozenset, type(None))
    return isinstance(value, kinds) or _is_tensor(value) or _is_object(value)


def _is_row(value: Any) -> bool:
    return isinstance(value, list | tuple)


def _is_object(value: Any) -> bool:
    """Tell whether a value is a plain record: its attributes are what it is."""
    if isinstance(value, type) or callable(value) or _is_tensor(value):
        return False
    return bool(getattr(value, "__dict__", None)) and type(value).__module__ != "builtins"


def _is_tensor(value: Any) -> bool:
    import torch

    return isinstance(value, torch.Tensor)


# --- what is changed -----------------------------------------------------------------------------


def keys_of(sample: Any) -> frozenset[str]:
    """Return the words that are keys anywhere in a sample."""
    dicts = (one for _, one in parts_of(sample) if isinstance(one, dict))
    return frozenset(key for one in dicts for key in one if isinstance(key, str))


def _changes(
    value: Any, sample: Any, compared: Sequence[tuple[Any, Any]], taken: frozenset[str]
) -> Iterable[Any]:
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int | float):
        return _numbers(value, compared)
    if isinstance(value, str):
        others = [one for _, one in parts_of(sample) if isinstance(one, str)]
        return [*_partners(value, compared, str), "", *others, value + value[-1:] or "x"]
    if isinstance(value, bytes):
        return [b"", value + value[-1:]]
    if value is None:
        known = [one for _, one in parts_of(sample) if one is not None and one is not sample]
        return [0, 1.0, "x", [], *known[:4]]
    if isinstance(value, set | frozenset):
        kind = type(value)
        return [kind(), kind(list(value)[:-1])]
    if isinstance(value, dict):
        backwards = dict(reversed(list(value.items())))
        without = [_without(value, key) for key in value]
        more = [
            {**value, key: one}
            for key in _partners(None, compared, str)[:4]
            if key not in value and key not in taken
            for one in (*list(value.values())[:2], 1)
        ]
        return [*more, *[_Ordered(backwards)] * (len(value) > 1), *without]
    if _is_tensor(value):
        return _tensors(value, compared)
    return _lists(value, compared) if _is_row(value) else []


class _Ordered(dict[Any, Any]):
    """A dict in another order: equal to what it was made from, and not the same."""


def _without(value: dict[Any, Any], key: Any) -> dict[Any, Any]:
    return {one: value[one] for one in value if one != key}


def _partners(value: Any, compared: Sequence[tuple[Any, Any]], kind: type) -> list[Any]:
    """Return what a value was compared with; then what anything of its type was."""
    own = [right for left, right in compared if left == value]
    own += [left for left, right in compared if right == value]
    every = [one for pair in compared for one in pair]
    return [one for one in (*own, *every) if type(one) is kind]


def _numbers(value: Any, compared: Sequence[tuple[Any, Any]]) -> list[Any]:
    kind, step = (int, 1) if isinstance(value, int) else (float, 0.5)
    near = _partners(value, compared, int) + [
        one for one in _partners(value, compared, float) if kind is float or one.is_integer()
    ]
    tried = [kind(one) + more for one in near[:12] for more in (step, 0, -step)]
    plain = [value + step, kind(0), value - step, 2 * value + step]
    ordered = [*tried[:3], *plain[:2], *tried[3:], *plain[2:]]
    return [one for one in ordered if value < 0 or not one < 0]


def _lists(value: Any, compared: Sequence[tuple[Any, Any]]) -> list[Any]:
    def like(entries: Iterable[Any]) -> Any:
        made = list(entries)
        if hasattr(value, "_fields"):  # a named tuple has as many as it has
            return type(value)(*made) if len(made) == len(value) else value
        return type(value)(made)

    kinds = {type(one) for one in value}
    hints = [one for pair in compared for one in pair if type(one) in kinds and one not in value]
    found = [like(value[::-1])]  # an order is less than a length, which a loader may keep
    found += [like([*value[:-1], one]) for one in hints[:1]]
    found += [like(value[:-1])] if value else []
    found += [like([*value[:-1], one]) for one in hints[1:4]]
    if kinds <= {int, float} and len(value) > 1:
        found += [like([one + 1 for one in value]), like([value[0]] * len(value)),
                  like(value[1:] + value[:1])]  # fmt: skip
    found += [like([*value, value[-1]]), like([])] if value else []
    lengths = _partners(len(value), compared, int)[:4]
    for length in (one + more for one in lengths for more in (1, 0)):
        if value and 0 <= length <= 4 * len(value) + 64:
            found.append(like(itertools.islice(itertools.cycle(value), length)))
    if not value:
        found += [like([one]) for one in (0, 1, "x", 1.0)]
    return found


def _tensors(value: Any, compared: Sequence[tuple[Any, Any]]) -> list[Any]:
    import torch

    value = value.detach()
    found = []
    if value.dim() and value.shape[0]:
        found += [
            value[:-1].clone(),
            torch.cat([value, value[-1:]]),
            value.flip(0),
            value[:0].clone(),
        ]
    if value.dim() > 1 and value.shape[-1] > 1:
        found.append(value[..., :-1].clone())
    if value.dtype == torch.bool:
        found += [~value, torch.zeros_like(value), torch.ones_like(value)]
    elif not value.is_complex():
        found += [torch.zeros_like(value), value + 1]
        first = value.flatten()[0].item() if value.numel() else 0
        near = _partners(first, compared, type(first))[:4]
        found += [torch.full_like(value, one + more) for one in near for more in (0, 1)]
        if value.is_floating_point():
            found.append(torch.full_like(value, float("nan")))
            found.append(-value)
    return found


def _together(sample: Any) -> Iterator[_Row]:
    """Change what has one length together: a sequence, its labels and its mask are one text."""
    parts = [(path, one) for path, one in parts_of(sample) if _is_tensor(one) and one.dim()]
    parts += [(path, one) for path, one in parts_of(sample) if _is_row(one) and path]
    for dim in (0, -1):
        lengths: dict[int, list[tuple[Path, Any]]] = {}
        for path, one in parts:
            if _is_tensor(one):
                lengths.setdefault(one.shape[dim], []).append((path, one))
            elif dim == 0 and not hasattr(one, "_fields"):
                lengths.setdefault(len(one), []).append((path, one))
        for length, those in lengths.items():
            if length < 2 or len(those) < 2:
                continue
            for what, change in _cuts(dim):
                where = " and ".join(_at(path) for path, _ in those[:3])
                yield [(path, change(one)) for path, one in those], f"{where} have {what}"


def _cuts(dim: int) -> list[tuple[str, Callable[[Any], Any]]]:
    import torch

    def more(one: Any) -> Any:
        if not _is_tensor(one):
            return type(one)([*one, one[-1]])
        return torch.cat([one, one.narrow(dim, one.shape[dim] - 1, 1)], dim)

    def less(one: Any) -> Any:
        if not _is_tensor(one):
            return type(one)(one[:-1])
        return one.narrow(dim, 0, one.shape[dim] - 1).clone()

    return [("one entry less", less), ("one entry more", more)]


# --- putting it together -------------------------------------------------------------------------


def _put(sample: Any, changes: list[tuple[Path, Any]]) -> Any:
    """Return a copy of a sample with some parts changed."""
    made = copy.deepcopy(sample)
    for path, value in changes:
        made = _replaced(made, path, value)
    return made


def _replaced(value: Any, path: Path, new: Any) -> Any:
    if not path:
        return dict(new) if type(new) is _Ordered else new
    key, rest = path[0], path[1:]
    if isinstance(key, Named):
        object.__setattr__(value, key.name, _replaced(getattr(value, key.name), rest, new))
        return value
    inner = _replaced(value[key], rest, new)
    if isinstance(value, tuple):
        made = [*value[:key], inner, *value[key + 1 :]]
        return type(value)(*made) if hasattr(value, "_fields") else type(value)(made)
    value[key] = inner
    return value


def _is_same(left: Any, right: Any) -> bool:
    if type(left) is not type(right):
        return False
    if _is_tensor(left):
        return bool(left.shape == right.shape and left.equal(right))
    try:
        return bool(left == right)
    except Exception:  # noqa: BLE001 - tensors in a list, or a class of the program
        return False


def _at(path: Path) -> str:
    """Name a part as the program would."""
    said = "".join(f".{one.name}" if isinstance(one, Named) else f"[{one!r}]" for one in path)
    return f"its {said}" if said else "it"


def _said(value: Any) -> str:
    if _is_tensor(value):
        kind = str(value.dtype).removeprefix("torch.")
        values = f" {value.tolist()}" if value.numel() <= 4 else ""
        return f"a tensor {list(value.shape)} of {kind}{values}"
    return shorten(value, 60) if not isinstance(value, str) else repr(shorten(value, 60))
