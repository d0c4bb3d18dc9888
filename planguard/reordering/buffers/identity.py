"""Whose calls beside members are: the implicit identity of those that may change places.

What is played is a fixed order, in which calls without labels meet by position and nothing tells
that they are out of round. So what may change places with another call of its queue, or with a
flush, gets the identity that the plan format gives it, or it is said that it has none.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from planguard.reordering.blocks import Block, Leaf, RankOrder
from planguard.reordering.branches.assignments import leaves
from planguard.reordering.buffers.beside import Fork, Join
from planguard.reordering.buffers.flushes import is_filled
from planguard.reordering.strategy import label_movable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from planguard.execution.findings.reason import Reason
    from planguard.plan.plan import Plan
    from planguard.reordering.buffers.rank import FusedRank
    from planguard.reordering.buffers.ranks import Ranks

_NOBODY = {"op": "compute", "op_name": "submit"}
"""Stands for a negotiated member: it is launched where nobody else calls."""


def identify(ranks: Ranks, plan: Plan, *, use_tags: bool) -> Reason | None:
    """Label what may change places beside members; return why something has no identity.

    Args:
        ranks: The ranks, each looked at alone; the labels are kept there.
        plan: The plan.
        use_tags: Whether tags separate channels.
    """
    pairs: list[tuple[int, Leaf, Leaf]] = []
    """Rank, call, and what stands for it."""
    orders = [
        RankOrder(number, tuple(_parts(rank, number, pairs))) for number, rank in enumerate(ranks)
    ]
    problem = label_movable(plan, orders, use_tags=use_tags)
    for number, leaf, shown in pairs:
        if "label" in shown.fields and "label" not in leaf.fields:
            # Not a name that a plan which is made of this one gives to something else.
            leaf.fields["label"] = f"{shown.fields['label']} beside members"
            ranks.labels[number][leaf.action] = leaf.fields["label"]
    return problem


def _parts(
    rank: FusedRank, number: int, pairs: list[tuple[int, Leaf, Leaf]]
) -> Iterator[Leaf | Block]:
    """Yield a rank as what its calls, and flushes of its members, are to others."""
    elements = {id(leaf): element for element, leaf in enumerate(rank.leaves)}
    waited = {
        leaf.fields["work"]: held.buffer.group
        for held in rank.held
        if is_filled(held.buffer)
        for leaf in held.ready.leaves
        if "work" in leaf.fields
    }
    for part in rank.order.parts:
        if isinstance(part, Block) and any(id(leaf) in elements for leaf in part.leaves):
            shown = [_shown(rank, leaf, elements[id(leaf)], waited) for leaf in part.leaves]
            pairs += [
                (number, leaf, one)
                for leaf, one in zip(part.leaves, shown, strict=True)
                if one.fields["op"] == leaf.fields["op"] and elements[id(leaf)] not in rank.owner
            ]
            yield replace(part, leaves=tuple(shown))
        elif isinstance(part, Leaf):
            element = elements.get(id(part))
            yield part if element is None else _shown(rank, part, element, waited)
        elif isinstance(part, Block):
            yield from part.leaves  # identified with the plan that is played
        elif isinstance(part, Fork):
            yield from (Leaf(fields, -1) for fields in leaves([part.before[0], part.behind[0]]))
        elif not isinstance(part, Join):
            raise AssertionError(part)  # ranks that are looked at alone have no other


def _shown(rank: FusedRank, leaf: Leaf, element: int, waited: dict[str, str]) -> Leaf:
    """Return what stands for an element: a member for its flush, as a wait that may launch one."""
    fields = leaf.fields
    if element in rank.owner:
        held = rank.held[rank.owner[element][0]]
        if held.buffer.coordination == "negotiated":
            return replace(leaf, fields=dict(_NOBODY))
        return replace(leaf, fields={"label": fields["id"], **fields})
    work = fields.get("work", []) if fields["op"] == "wait" else []
    for name in [work] if isinstance(work, str) else work:
        if name in waited:
            flush: dict[str, Any] = {"op": "all_reduce", "group": waited[name], "label": name}
            return replace(leaf, fields=flush)
    return replace(leaf, fields=dict(fields))
