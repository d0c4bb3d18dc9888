"""Exchanges whose split sizes only the run knows: does each member expect what the others send?

Experts exchange as many tokens as the batch says. Ranks tell each other how many in a call of its
own, and both lists of splits are sums over what is told::

    rank 0: counts [a b]  -- all_to_all -->  [a c]     sends [a, b], expects [a, c]
    rank 1: counts [c d]  -- all_to_all -->  [b d]     sends [c, d], expects [b, d]

Small tensors of integers are followed element by element, through views, sums and communication, to
where one rank computes them. Rank ``i`` sends to rank ``j`` what ``j`` expects where both are one
expression of the same elements; then the sizes agree, whatever they are. Nothing is concluded from
expressions that differ.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .elements import EXCHANGE, Elements
from .model import Arg, FxNode, Ref, Sym, TensorMeta
from .operations import argument, find_operation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .groups import GroupKey


def exchanged(elements: Elements) -> dict[int, set[str]]:
    """Return the exchanges whose sizes all members of each round agree on, by rank and node."""
    drafts, origin = elements.drafts, elements.origin
    exchanges = _Exchanges(elements)
    # One captured rank may stand for several: what it does is settled where all of them agree.
    found: dict[int, set[str]] = {rank: set() for rank in drafts}
    open_: dict[int, set[str]] = {rank: set() for rank in drafts}
    for key, members in elements.calls.items():
        for rank, calls in members.items():
            for at, draft in enumerate(calls):
                if draft.fields["op"] != EXCHANGE:
                    continue
                agreed = exchanges.agree(key, at)
                (found if agreed else open_)[origin[rank]].add(draft.node)
    return {rank: found[rank] - open_[rank] for rank in drafts}


class _Exchanges:
    """The rounds of exchanges, each compared once."""

    def __init__(self, elements: Elements) -> None:
        self.elements = elements
        self.agreed: dict[tuple[GroupKey, int], bool] = {}

    def agree(self, key: GroupKey, at: int) -> bool:
        """Tell whether every member of a round expects what each other one sends to it."""
        if (key, at) not in self.agreed:
            self.agreed[key, at] = self._agree(key, at)
        return self.agreed[key, at]

    def _agree(self, key: GroupKey, at: int) -> bool:
        nodes = self.elements.meeting(key, at, EXCHANGE)
        if nodes is None:
            return False
        rows = {_row(self.elements.argument(rank, node, "input")) for rank, node in nodes}
        sent = [self._splits(rank, node, "input_split_sizes") for rank, node in nodes]
        expected = [self._splits(rank, node, "output_split_sizes") for rank, node in nodes]
        if len(rows) != 1 or None in rows:
            return False
        size = len(nodes)
        if any(splits is None or len(splits) != size for splits in (*sent, *expected)):
            return False
        return all(
            sent[i][j] == expected[j][i]  # type: ignore[index]
            for i in range(size)
            for j in range(size)
        )

    def _splits(self, rank: int, node: FxNode, name: str) -> list[int] | None:
        """Return one list of splits as expressions."""
        operation = find_operation(node)
        if operation is None or name not in operation.params:
            return None
        given = argument(node, operation, name)
        if not isinstance(given, tuple) or not given:
            return None
        found = [self._scalar(rank, node, one) for one in given]
        return None if None in found else [one for one in found if one is not None]

    def _scalar(self, rank: int, node: FxNode, value: Arg) -> int | None:
        if isinstance(value, int):
            return self.elements.term("constant", int(value))
        if isinstance(value, Sym):
            made = self.elements.drafts[self.elements.origin[rank]].symbols.get(
                (_graph(node.name), value.expr)
            )
            value = Ref(made) if made is not None else value
        if not isinstance(value, Ref):
            return None
        elements = self.elements.of(rank, value.node)
        return None if elements is None or elements.size != 1 else int(elements.reshape(())[()])


def _graph(name: str) -> str:
    """Return the part of a node's name that says which of its rank's graphs it is in."""
    return name.rpartition(".")[0]


def _row(node: FxNode | None) -> tuple[Sequence[int], str] | None:
    """Return the shape of one row of a tensor, and its type; None where they are not known."""
    value = None if node is None else node.val
    if not isinstance(value, TensorMeta) or not value.shape:
        return None
    row = tuple(dim for dim in value.shape[1:] if isinstance(dim, int))
    return (row, value.dtype) if len(row) == len(value.shape) - 1 else None
