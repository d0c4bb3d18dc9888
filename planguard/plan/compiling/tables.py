"""Interning tables of a compilation: sizes, signatures, labels, streams, lists."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any

from msgspec import UNSET, UnsetType, structs

from planguard.plan.actions import DTYPE_CODE, ITEM_BYTES, NONE, UNKNOWN_BYTES, ReduceOp
from planguard.plan.code import POOLED, CompiledPlan, Signature
from planguard.plan.defects import Defect, nearest
from planguard.plan.nodes import MAX_INT

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from planguard.plan.document import TensorSpec
    from planguard.plan.nodes import Coalesced, Node, Part, Sized

Extent = tuple[int | None, int | None, str | None]
"""Bytes, elements and element type; None where the plan does not say."""


class Sizes:
    """Turns the ways to write a size into bytes, elements and element type."""

    def __init__(self, tensors: Mapping[str, TensorSpec]) -> None:
        self._tensors = tensors
        self._memo: dict[tuple[object, ...], Extent] = {}

    def of(self, node: Sized, part: Part | None = None) -> Extent:
        """Return the size of an action, or of one part of a coalesced action.

        Raises:
            Defect: Contradicting or incomplete size, unknown tensor, more than 2**63-1 bytes.
        """
        item = node if part is None else part
        if item.shape is not UNSET:
            return self._measure(node, item)
        key = (item.bytes, item.count, item.dtype, item.tensor)
        extent = self._memo.get(key)
        if extent is None:
            extent = self._memo[key] = self._measure(node, item)
        return extent

    def _measure(self, node: Sized, item: Sized | Part) -> Extent:
        count, dtype = self._elements(node, item)
        if count is None or dtype is None:
            return _from_bytes(None if item.bytes is UNSET else item.bytes, dtype)
        size = count * ITEM_BYTES[dtype]
        if size > MAX_INT:
            raise Defect(node, "", "size above 2^63-1 bytes", value=size, hint="check the shape")
        if item.bytes is not UNSET and item.bytes != size:
            message = f"bytes contradicts the other size fields, which give {size}"
            raise Defect(node, "bytes", message, value=item.bytes, hint="give the size once")
        return size, count, dtype

    def _elements(self, node: Sized, item: Sized | Part) -> tuple[int | None, str | None]:
        given = [name for name in ("count", "tensor", "shape") if getattr(item, name) is not UNSET]
        if len(given) > 1:
            message = f"{' and '.join(given)} both give a size"
            raise Defect(node, given[1], message, hint="keep one of them")
        if item.tensor is not UNSET:
            return self._tensor(node, item.tensor, item.dtype)
        dtype = None if item.dtype is UNSET else item.dtype
        if not given:
            return None, dtype
        if dtype is None:
            message = f"{given[0]} needs a dtype"
            raise Defect(node, given[0], message, hint='add "dtype": "f32", or give "bytes"')
        if item.count is not UNSET:
            return item.count, dtype
        return _product(node, item.shape), dtype

    def _tensor(self, node: Sized, name: str, dtype: str | UnsetType) -> tuple[int, str]:
        spec = self._tensors.get(name)
        if spec is None:
            hint = nearest(name, self._tensors) or 'declare it under "tensors"'
            raise Defect(node, "tensor", "unknown tensor", value=name, hint=hint)
        if dtype is not UNSET and dtype != spec.dtype:
            message = f"dtype contradicts the tensor, which has {spec.dtype}"
            raise Defect(node, "dtype", message, value=dtype, hint="leave dtype out")
        return _product(node, spec.shape), spec.dtype


def _from_bytes(size: int | None, dtype: str | None) -> Extent:
    """Return an extent given in bytes; the elements follow where they divide it."""
    if size is None or dtype is None or size % ITEM_BYTES[dtype]:
        return size, None, dtype
    return size, size // ITEM_BYTES[dtype], dtype


def _product(node: Sized, shape: list[int] | UnsetType) -> int:
    count = 1
    for length in () if shape is UNSET else shape:
        count *= length
        if count > MAX_INT:
            raise Defect(node, "", "more than 2^63-1 elements", hint="check the shape")
    return count


class Signatures:
    """Interned signatures; id 0 means "no signature"."""

    def __init__(self) -> None:
        self.objects: list[Signature] = [Signature()]
        self.layouts: list[tuple[tuple[int, int], ...]] = [()]
        self.splits: list[tuple[tuple[int, ...] | None, tuple[int, ...] | None]] = [(None, None)]
        self._ids: dict[tuple[object, ...], int] = {}
        self._lists: dict[tuple[str, object], int] = {}
        self.kind = array("B", [0])
        self.bytes = array("Q", [UNKNOWN_BYTES])
        self.dtype = array("B", [0])
        self.redop = array("B", [0])
        self.root = array("I", [NONE])
        self.layout = array("I", [0])
        self.split = array("I", [0])

    @staticmethod
    def of(code: CompiledPlan) -> Signatures:
        """Return the signatures of a compiled plan, with the same ids, to add to them."""
        found = Signatures()
        for signature in code.signatures[1:]:
            found.intern(signature)
        return found

    def within(self, code: CompiledPlan) -> CompiledPlan:
        """Return a compiled plan with these signatures; later ones are not part of it."""
        return structs.replace(
            code,
            sig_kind=self.kind[:],
            sig_bytes=self.bytes[:],
            sig_dtype=self.dtype[:],
            sig_redop=self.redop[:],
            sig_root=self.root[:],
            sig_layout=self.layout[:],
            sig_splits=self.split[:],
            signatures=tuple(self.objects),
            layouts=tuple(self.layouts),
            splits=tuple(self.splits),
        )

    def intern(self, signature: Signature) -> int:
        """Return the id of a signature; equal in every compared field means equal id.

        ``count`` is kept for messages and not compared: the same bytes may be given either way.
        """
        s = signature
        key = (s.kind, s.bytes, s.dtype, s.reduce_op, s.root, s.layout, s.splits)
        found = self._ids.get(key)
        if found is None:
            found = self._ids[key] = len(self.objects)
            self._append(signature)
        return found

    def _append(self, s: Signature) -> None:
        self.objects.append(s)
        self.kind.append(s.kind)
        self.bytes.append(UNKNOWN_BYTES if s.bytes is None or s.any_size else s.bytes)
        self.dtype.append(DTYPE_CODE.get(s.dtype or "", 0))
        self.redop.append(ReduceOp[s.reduce_op or "none"])
        self.root.append(NONE if s.root is None else s.root)
        layouts, splits = self.layouts, self.splits
        self.layout.append(0 if s.layout is None else self._list("layout", s.layout, layouts))
        self.split.append(0 if s.splits is None else self._list("splits", s.splits, splits))

    def _list(self, what: str, value: object, pool: list[Any]) -> int:
        found = self._lists.get((what, value))
        if found is None:
            found = self._lists[what, value] = len(pool)
            pool.append(value)
        return found


def coalesced_signature(
    node: Coalesced, kind: int, sizes: Sizes, reduce_op: str | None
) -> Signature:
    """Return the signature of a coalesced collective: total size and the layout of its list."""
    extents = [sizes.of(node, part) for part in node.ops]  # type: ignore[arg-type]
    dtypes = {dtype for _, _, dtype in extents}
    layout = tuple(
        (UNKNOWN_BYTES if size is None else size, DTYPE_CODE.get(dtype or "", 0))
        for size, _, dtype in extents
    )
    total = sum(size for size, _ in layout)
    if total > MAX_INT and all(size is not None for size, _, _ in extents):
        hint = "check the sizes of the parts"
        raise Defect(node, "ops", "size above 2^63-1 bytes", value=total, hint=hint)
    return Signature(
        kind=kind,
        bytes=total if total <= MAX_INT else None,
        dtype=dtypes.pop() if len(dtypes) == 1 else None,
        reduce_op=reduce_op,
        layout=layout,
    )


LabelList = tuple[str | None, ...]
"""The label of a coalesced collective and those of its parts; None where there is none."""


class Labels:
    """Interned labels; ``{i}`` inside ``repeat`` is substituted before interning.

    A coalesced collective whose parts have labels has one label word for all of them together, so
    that equal words are equal lists; ``lists`` keeps what stands behind such a word.
    """

    def __init__(self, limit: int) -> None:
        self.names: list[str] = []
        self.lists: dict[int, LabelList] = {}
        self.pool = array("I")
        self.ids: dict[str, int] = {}
        self._list_ids: dict[LabelList, int] = {}
        self._pooled: dict[tuple[str | LabelList, int], int] = {}
        self._limit = limit

    def word(self, node: Node, text: str | LabelList, times: int) -> int:
        """Return the label word of ``text`` inside a repeat of ``times`` (0: in no repeat).

        Raises:
            Defect: The labels of this loop would exceed the action limit.
        """
        if not times or not _is_counted(text):
            return self._id(text)
        word = self._pooled.get((text, times))
        if word is None:
            if len(self.pool) + times > self._limit:
                hint = "raise Limits.actions"
                message = "more labels than actions are allowed"
                raise Defect(node, "label", message, value=str(text), hint=hint)
            word = self._pooled[text, times] = POOLED | len(self.pool)
            self.pool.extend(self._id(_in_iteration(text, str(i))) for i in range(times))
        return word

    def new(self, text: str) -> int:
        """Return the id of a label that has none yet, outside of loops."""
        self.names.append(text)
        found = self.ids[text] = len(self.names)
        return found

    def _id(self, text: str | LabelList) -> int:
        if isinstance(text, tuple):
            found = self._list_ids.get(text)
            if found is None:
                self.names.append(list_name(text))
                found = self._list_ids[text] = len(self.names)
                self.lists[found] = text
            return found
        return self.ids.get(text) or self.new(text)


def _is_counted(text: str | LabelList) -> bool:
    """Tell whether a label depends on the iteration of a loop."""
    parts = (text,) if isinstance(text, str) else text
    return any(part is not None and "{i}" in part for part in parts)


def _in_iteration(text: str | LabelList, number: str) -> str | LabelList:
    if isinstance(text, str):
        return text.replace("{i}", number)
    return tuple(None if part is None else part.replace("{i}", number) for part in text)


def list_name(labels: LabelList) -> str:
    """Return the labels of a coalesced collective as messages show them: ``step [a, b]``."""
    own, *parts = labels
    listed = f"[{', '.join('-' if part is None else part for part in parts)}]"
    return listed if own is None else f"{own} {listed}"


class Names:
    """Interned names with small ids in order of appearance."""

    def __init__(self, *first: str) -> None:
        self.ids = {name: place for place, name in enumerate(first)}

    def id(self, name: str) -> int:
        """Return the id of a name, new names get the next one."""
        return self.ids.setdefault(name, len(self.ids))


class Pool:
    """Variable-length lists ``[n, x1 .. xn]`` in one array, behind those that are there."""

    def __init__(self, words: Sequence[int] = ()) -> None:
        self.words = array("I", words)
        self._offsets: dict[tuple[int, ...], int] = {}

    def add(self, values: list[int]) -> int:
        """Append a list, or find an equal one, and return its offset."""
        key = tuple(values)
        offset = self._offsets.get(key)
        if offset is None:
            offset = self._offsets[key] = len(self.words)
            self.words.append(len(values))
            self.words.extend(values)
        return offset
