"""Sizes that are expressions of the inputs' sizes: do all members of a round have the same one?

A graph that was traced with dynamic shapes runs for any batch, and the sizes seen while tracing say
nothing of the next one. Where every member of a round has one expression, of the same inputs of its
graph, the round has one size whenever these inputs have one shape on all ranks::

    rank 0: all_reduce [s0, 4]  of x [s0, 4]       the same expression: said in the ledger
    rank 1: all_reduce [s0, 4]  of x [s0, 4]

    rank 0: all_reduce [s0, 4]  of x [s0, 4]       6 rows on both ranks while tracing, and another
    rank 1: all_reduce [s1, 4]  of y [s1, 4]       number for the next batch: not decided
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from .model import Sym, TensorMeta

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from .communication import Note
    from .elements import Elements
    from .model import FxNode
    from .translate import Draft, RankDraft

KIND = "dynamic-shape"
_SYMBOL = re.compile(r"\b[A-Za-z_]\w*\b(?!\s*\()")
Described = tuple[object, ...]


def settled(elements: Elements) -> dict[int, set[str]]:
    """Return the nodes whose symbolic sizes all members share, by captured rank.

    Messages have no rounds: on their group, all that is symbolic has to be one expression.
    """
    rounds: list[Sequence[tuple[int, Draft]]] = []
    for key, members in elements.calls.items():
        rows = [members.get(rank, []) for rank in key.ranks]
        for at in range(max(map(len, rows), default=0)):
            calls = [(rank, row[at]) for rank, row in zip(key.ranks, rows, strict=True)
                       if at < len(row)]  # fmt: skip
            if len(calls) == len(rows):
                rounds.append(calls)
    rounds += elements.messages.values()
    sources = {rank: _sources(draft.nodes) for rank, draft in elements.drafts.items()}
    shared: dict[int, set[str]] = {rank: set() for rank in elements.drafts}
    open_: dict[int, set[str]] = {rank: set() for rank in elements.drafts}
    for meeting in rounds:
        origins = [(elements.origin[rank], draft) for rank, draft in meeting]
        found = {_described(draft, sources[rank]) for rank, draft in origins}
        agreed = len(found) == 1 and None not in found
        for rank, draft in origins:
            (shared if agreed else open_)[rank].add(draft.node)
    return {rank: shared[rank] - open_[rank] for rank in elements.drafts}


def settle(drafts: Mapping[int, RankDraft], shared: Mapping[int, set[str]]) -> None:
    """Say in the notes which symbolic sizes are shared; the others leave the plan undecided."""
    for rank, draft in drafts.items():
        draft.notes = [
            _settled(note, note.node in shared[rank]) if note.kind == KIND else note
            for note in draft.notes
        ]


def _settled(note: Note, is_shared: bool) -> Note:  # noqa: FBT001
    if is_shared:
        message = (
            "all members have one expression of the same inputs, which are taken to have one shape "
            "on all ranks"
        )
        return replace(note, message=f"{note.message}; {message}", direction="exact")
    message = (
        "the members of its group do not have one expression of the same inputs, so another batch "
        "may have other sizes on some of them"
    )
    return replace(note, message=f"{note.message}; {message}")


def _sources(nodes: Mapping[str, FxNode]) -> dict[tuple[str, str], Described]:
    """Return the first input, and its dimension, that has each symbol, by graph and symbol."""
    found: dict[tuple[str, str], Described] = {}
    for node in nodes.values():
        if node.op != "placeholder":
            continue
        graph, _, name = node.name.rpartition(".")
        dims: Iterable[object] = (node.val,)
        if isinstance(node.val, TensorMeta):
            dims = node.val.shape
        for place, dim in enumerate(dims):
            if isinstance(dim, Sym):
                found.setdefault((graph, dim.expr), (node.fqn or name, place))
    return found


def _described(
    draft: Draft, sources: Mapping[tuple[str, str], Described]
) -> tuple[Described, ...] | None:
    """Return the sizes of a call as expressions of inputs, None where of something else."""
    talk = draft.communication
    if talk is None:
        return None
    graph = draft.node.rpartition(".")[0]
    found: list[Described] = []
    for size in talk.sizes:
        places = []
        for expression in size.symbols:
            for symbol in _SYMBOL.findall(expression):
                if (graph, symbol) not in sources:
                    return None
                places.append((symbol, sources[graph, symbol]))
        found.append((size.constant, size.parts, sorted(size.symbols), sorted(set(places))))
    return tuple(map(_frozen, found))


def _frozen(parts: Described) -> Described:
    return tuple(tuple(part) if isinstance(part, list) else part for part in parts)
