"""The elements of small integer tensors on all ranks, followed to where one rank computes them.

Each element is the number of an expression, and equal expressions have one number: an element of
what some node makes on some rank, or what views, sums and communication made of such. Whatever is
not known to keep, move or add elements makes new ones, which equal no others.
"""

from __future__ import annotations

import contextlib
import math
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from .model import Arg, FxNode, Ref, Sym, TensorMeta
from .operations import argument, base_name, find_operation, is_wait
from .storage import GETITEM, leaves, mutated

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import numpy as np

    from .groups import GroupKey
    from .translate import Draft, RankDraft

_MOST = 1 << 16
"""Elements of a tensor that is followed."""
EXCHANGE = "all_to_all_single"
_PAIRWISE = frozenset({"isend", "irecv", "send", "recv", "batch"})
_INTEGERS = frozenset({"int64", "int32", "int16", "int8", "uint8", "bool"})
_SHAPED = frozenset({
    "aten.view", "aten.reshape", "aten._unsafe_view", "aten.unsqueeze", "aten.squeeze",
    "aten.flatten", "aten.contiguous", "aten.clone", "aten.alias", "aten.detach",
    "aten.lift_fresh_copy", "aten._to_copy", "prims.convert_element_type",
    "aten._local_scalar_dense", "aten.item",
})  # fmt: skip
"""Operators that keep the elements in their order, in another shape or of another type."""
_TURNED = frozenset({"aten.permute", "aten.transpose", "aten.t"})
_CUT = frozenset({"aten.select", "aten.slice"})
_LISTS = frozenset({"aten.unbind", "aten.split", "aten.split_with_sizes", "aten.chunk"})
_ARITHMETIC = frozenset({
    "aten.add", "aten.sub", "aten.mul", "_operator.add", "_operator.sub", "_operator.mul",
})  # fmt: skip


class Elements:
    """The elements of integer tensors on all ranks: arrays of numbers, one number an expression."""

    def __init__(
        self,
        drafts: Mapping[int, RankDraft],
        keys: Mapping[int, Mapping[str, GroupKey]],
        origin: Mapping[int, int],
    ) -> None:
        self.drafts = drafts
        self.origin = origin
        self.terms: dict[tuple[Any, ...], int] = {}
        self.known: dict[tuple[int, str], np.ndarray | None] = {}
        self.calls: dict[GroupKey, dict[int, list[Draft]]] = defaultdict(dict)
        self.places: dict[tuple[int, str], tuple[GroupKey, int]] = {}
        self.messages: dict[GroupKey, list[tuple[int, Draft]]] = defaultdict(list)
        self.written = {rank: _written(draft) for rank, draft in drafts.items()}
        self._rounds(keys)

    def _rounds(self, keys: Mapping[int, Mapping[str, GroupKey]]) -> None:
        """The n-th collectives of the members of a group meet; not where a branch has some."""
        branched: set[GroupKey] = set()
        for rank, origin in self.origin.items():
            for draft in self.drafts[origin].drafts:
                branched |= {keys[rank][name] for name in _inside(draft)}
                talk = draft.communication
                if talk is None:
                    continue
                key = keys[rank][talk.group]
                if draft.fields["op"] in _PAIRWISE:
                    self.messages[key].append((rank, draft))
                    continue
                own = self.calls[key].setdefault(rank, [])
                self.places[rank, draft.node] = key, len(own)
                own.append(draft)
        for key in branched:
            self.calls.pop(key, None)

    def meeting(self, key: GroupKey, at: int, op: str) -> list[tuple[int, FxNode]] | None:
        """Return the members of a round with their nodes, None where they do not make one."""
        members = self.calls.get(key, {})
        rows = [members.get(rank, []) for rank in key.ranks]
        if any(len(row) <= at or row[at].fields["op"] != op for row in rows):
            return None
        return [
            (rank, self.node(rank, row[at].node)) for rank, row in zip(key.ranks, rows, strict=True)
        ]

    # --- elements --------------------------------------------------------------------------------

    def of(self, rank: int, name: str) -> np.ndarray | None:
        """Return the elements of a node on a rank, None where nothing can be said of them."""
        if (rank, name) not in self.known:
            self.known[rank, name] = None  # for programs that wait for each other in a circle
            # Arguments may not fit their operator: a dump is what somebody wrote.
            with contextlib.suppress(ValueError, IndexError, TypeError, RecursionError):
                self.known[rank, name] = self._of(rank, name)
        return self.known[rank, name]

    def _of(self, rank: int, name: str) -> np.ndarray | None:
        origin = self.origin[rank]
        draft, node = self.drafts[origin], self.node(rank, name)
        if name in draft.origins:
            return self.of(rank, draft.origins[name])
        if self.written[origin] & set(leaves(draft.roots.get(name, name))):
            return None  # it has several values over time
        if find_operation(node) is not None:
            return self._communicated(rank, node)
        computed = self._computed(rank, node)
        return self._leaf(rank, node) if computed is None else computed

    def _leaf(self, rank: int, node: FxNode) -> np.ndarray | None:
        """Return elements of which nothing is known but where they come from."""
        import numpy as np

        shape = _shape(node)
        if shape is None or math.prod(shape) > _MOST:
            return None
        numbers = [self.term("of", rank, node.name, place) for place in range(math.prod(shape))]
        return np.array(numbers, dtype=np.int64).reshape(shape)

    def _computed(self, rank: int, node: FxNode) -> np.ndarray | None:
        """Return what an operator makes of the elements of its arguments, None for most."""
        base, shape = base_name(node.target), _shape(node)
        if shape is None or node.op != "call_function":
            return None
        if base in _SHAPED or is_wait(node):
            return self._shaped(rank, node, shape)
        if base in _TURNED or base in _CUT:
            return _fitting(self._viewed(rank, node, base), shape)
        if base == GETITEM:
            return _fitting(self._element(rank, node), shape)
        if base == "aten.sum":
            return self._sum(rank, node, shape)
        if base in ("aten.cat", "aten.stack"):
            return _fitting(self._joined(rank, node, base), shape)
        if base in _ARITHMETIC:
            return self._arithmetic(rank, node, base, shape)
        return None

    def _first(self, rank: int, node: FxNode) -> np.ndarray | None:
        source = node.args[0] if node.args else None
        return self.of(rank, source.node) if isinstance(source, Ref) else None

    def _dtype(self, rank: int, arg: Arg) -> str:
        value = self.node(rank, arg.node).val if isinstance(arg, Ref) else None
        return value.dtype if isinstance(value, TensorMeta) else "int64"

    def _shaped(self, rank: int, node: FxNode, shape: tuple[int, ...]) -> np.ndarray | None:
        elements = self._first(rank, node)
        if elements is None or elements.size != math.prod(shape) or node.target.endswith(".dtype"):
            return None
        elements = elements.reshape(shape)
        to = node.val.dtype if isinstance(node.val, TensorMeta) else "int64"
        if to == self._dtype(rank, node.args[0]):
            return elements
        return self._each(elements, lambda one: ("as", to, one))

    def _viewed(self, rank: int, node: FxNode, base: str) -> np.ndarray | None:
        elements = self._first(rank, node)
        given = list(node.args[1:])
        if elements is None or node.kwargs:
            return None
        if base == "aten.t":
            return elements.T
        if base == "aten.transpose":
            return elements.swapaxes(*given)  # type: ignore[arg-type]
        if base == "aten.permute":
            return elements.transpose(given[0])  # type: ignore[arg-type]
        axis = given[0] if given else 0
        if base == "aten.select":
            place: Any = given[1]
        else:
            place = slice(*(given[1:] or [None]))
        return elements[(slice(None),) * (int(axis) % elements.ndim) + (place,)]  # type: ignore[arg-type]

    def _element(self, rank: int, node: FxNode) -> np.ndarray | None:
        """Return one part of a tensor that was cut."""
        import numpy as np

        source = self.node(rank, node.args[0].node) if isinstance(node.args[0], Ref) else None
        place = node.args[1]
        if source is None or base_name(source.target) not in _LISTS or not isinstance(place, int):
            return None
        whole = self._first(rank, source)
        parts = source.val
        if whole is None or source.kwargs or not isinstance(parts, tuple):
            return None
        is_single = base_name(source.target) == "aten.unbind"
        at = 1 if is_single else 2
        axis = source.args[at] if len(source.args) > at else 0
        axis = int(axis) % whole.ndim  # type: ignore[arg-type]
        if is_single:
            one: np.ndarray = np.take(whole, place, axis=axis)
            return one
        widths = [_dims(part)[axis] for part in parts]
        ends = np.cumsum(widths)
        if ends[-1] != whole.shape[axis]:
            return None
        part: np.ndarray = np.split(whole, ends[:-1], axis=axis)[place]
        return part

    def _sum(self, rank: int, node: FxNode, shape: tuple[int, ...]) -> np.ndarray | None:
        """Sums of integers do not depend on their order, as those of floats do."""
        import numpy as np

        elements = self._first(rank, node)
        to = node.val.dtype if isinstance(node.val, TensorMeta) else ""
        if elements is None or not {self._dtype(rank, node.args[0]), to} <= _INTEGERS:
            return None
        dims: Any = (node.args[1] if len(node.args) > 1 else None) or range(elements.ndim)
        axes = [int(axis) % elements.ndim for axis in dims]
        kept = [axis for axis in range(elements.ndim) if axis not in axes]
        rows = elements.transpose([*kept, *axes]).reshape(math.prod(shape), -1)
        sums = [self.term("sum", to, *sorted(row)) for row in rows.tolist()]
        return np.array(sums, dtype=np.int64).reshape(shape)

    def _joined(self, rank: int, node: FxNode, base: str) -> np.ndarray | None:
        import numpy as np

        given = node.args[0]
        if not isinstance(given, tuple) or node.kwargs:
            return None
        parts = [self.of(rank, one.node) if isinstance(one, Ref) else None for one in given]
        if any(part is None for part in parts):
            return None
        axis: Any = node.args[1] if len(node.args) > 1 else 0
        known = [part for part in parts if part is not None]
        return np.concatenate(known, axis) if base == "aten.cat" else np.stack(known, axis)

    def _arithmetic(
        self, rank: int, node: FxNode, base: str, shape: tuple[int, ...]
    ) -> np.ndarray | None:
        import numpy as np

        if node.kwargs or len(node.args) != 2:
            return None
        both = []
        for arg in node.args:
            if isinstance(arg, Ref):
                both.append(self.of(rank, arg.node))
            elif isinstance(arg, int):
                both.append(np.array(self.term("constant", int(arg))))
            else:
                return None
        if both[0] is None or both[1] is None or self._dtype(rank, Ref(node.name)) not in _INTEGERS:
            return None
        left, right = (np.broadcast_to(one, shape) for one in both if one is not None)
        to = self._dtype(rank, Ref(node.name))
        rows = zip(left.ravel().tolist(), right.ravel().tolist(), strict=True)
        name = base.rpartition(".")[2]
        numbers = [self.term(name, to, one, other) for one, other in rows]
        return np.array(numbers, dtype=np.int64).reshape(shape)

    # --- what comes from other ranks -------------------------------------------------------------

    def _communicated(self, rank: int, node: FxNode) -> np.ndarray | None:
        import numpy as np

        shape = _shape(node)
        place = self.places.get((rank, node.name))
        operation = find_operation(node)
        if place is None or operation is None or shape is None or operation.into is not None:
            return None
        key, at = place
        meeting = self.meeting(key, at, operation.op)
        if meeting is None or operation.coalesced:
            return None
        if operation.op not in (EXCHANGE, "all_gather_into_tensor"):
            return self._leaf(rank, node)
        sent = [self._argument_elements(one, its) for one, its in meeting]
        if any(part is None or part.ndim == 0 for part in sent):
            return None
        parts = [part for part in sent if part is not None]
        if len({part.shape for part in parts}) != 1:
            return None
        if operation.op == EXCHANGE:
            if not all(self._is_even(its, len(parts[0]), len(parts)) for _, its in meeting):
                return None
            width, own = len(parts[0]) // len(parts), key.ranks.index(rank)
            parts = [part[own * width : (own + 1) * width] for part in parts]
        return _fitting(np.concatenate(parts), shape)

    def _is_even(self, node: FxNode, rows: int, size: int) -> bool:
        """Tell whether an exchange gives each member as many rows."""
        operation = find_operation(node)
        if operation is None or "input_split_sizes" not in operation.params or rows % size:
            return False
        lists = (
            argument(node, operation, name) for name in ("input_split_sizes", "output_split_sizes")
        )
        return all(given in (None, (), (rows // size,) * size) for given in lists)

    def argument(self, rank: int, node: FxNode, name: str) -> FxNode | None:
        """Return the node behind an argument of a communication, None where it is no node."""
        operation = find_operation(node)
        given = None if operation is None else argument(node, operation, name)
        return self.node(rank, given.node) if isinstance(given, Ref) else None

    def _argument_elements(self, rank: int, node: FxNode) -> np.ndarray | None:
        given = self.argument(rank, node, "input")
        return None if given is None else self.of(rank, given.name)

    def node(self, rank: int, name: str) -> FxNode:
        """Return a node of what a rank runs."""
        return self.drafts[self.origin[rank]].nodes[name]

    # --- terms -----------------------------------------------------------------------------------

    def term(self, *key: Any) -> int:
        """Return the number of an expression; equal ones have one number."""
        return self.terms.setdefault(key, len(self.terms))

    def _each(self, elements: np.ndarray, made: Any) -> np.ndarray:
        import numpy as np

        numbers = [self.term(*made(one)) for one in elements.ravel().tolist()]
        return np.array(numbers, dtype=np.int64).reshape(elements.shape)


def _inside(draft: Draft) -> Iterator[str]:
    """Yield the names of the groups that the branches of a choice communicate on."""
    for branch in draft.branches:
        for inner in branch:
            if inner.communication is not None:
                yield inner.communication.group
            yield from _inside(inner)


def _written(draft: RankDraft) -> set[str]:
    """Return the storages that some operator of a rank writes in place."""
    found: set[str] = set()
    for node in draft.nodes.values():
        names = [] if is_wait(node) else list(mutated(node))
        operation = find_operation(node)
        if operation is not None and operation.into is not None:
            names += [ref.node for ref in _refs(argument(node, operation, operation.into))]
        for name in names:
            found |= set(leaves(draft.roots.get(name, name)))
    return found


def _refs(arg: Arg) -> list[Ref]:
    if isinstance(arg, tuple):
        return [ref for one in arg for ref in _refs(one)]
    return [arg] if isinstance(arg, Ref) else []


def _dims(value: Any) -> tuple[int, ...]:
    """Return the dimensions of a tensor.

    Raises:
        ValueError: It is none, or one is not a number.
    """
    if not isinstance(value, TensorMeta) or not all(isinstance(dim, int) for dim in value.shape):
        raise ValueError(value)
    return tuple(dim for dim in value.shape if isinstance(dim, int))


def _shape(node: FxNode) -> tuple[int, ...] | None:
    """Return the shape of what a node makes, () for a number; None where it is not known."""
    if isinstance(node.val, (Sym, int)):
        return ()
    try:
        return _dims(node.val)
    except ValueError:
        return None


def _fitting(elements: np.ndarray | None, shape: tuple[int, ...]) -> np.ndarray | None:
    """Return elements that have the shape the graph says, else None."""
    return elements if elements is not None and elements.shape == shape else None
