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
from planguard.reordering.buffers.beside import Fork
from planguard.reordering.buffers.flushes import is_filled
from planguard.reordering.buffers.members import home_of
from planguard.reordering.strategy import label_movable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from planguard.execution.findings.reason import Reason
    from planguard.plan.plan import Plan
    from planguard.reordering.buffers.members import Buffer, Homes
    from planguard.reordering.buffers.rank import FusedRank
    from planguard.reordering.buffers.ranks import Ranks

Given = list[tuple[int, Leaf, str]]
"""Rank, call, and the label that it gets."""


def identify(ranks: Ranks, plan: Plan, *, use_tags: bool) -> Reason | None:
    """Label what may change places beside members; return why something has no identity.

    Args:
        ranks: The ranks, each looked at alone; the labels are kept there.
        plan: The plan.
        use_tags: Whether tags separate channels.
    """
    rows = [list(_parts(rank)) for rank in ranks]
    problem, given = identities(plan, rows, ranks.buffers, ranks.homes, use_tags=use_tags)
    for rank, leaf, label in given:
        leaf.fields["label"] = ranks.labels[rank][leaf.action] = label
    return problem


def _parts(rank: FusedRank) -> Iterator[Leaf | Block]:
    elements = {id(leaf) for leaf in rank.leaves}
    for part in rank.order.parts:
        if isinstance(part, Leaf):
            yield part
        elif isinstance(part, Block):
            if any(id(leaf) in elements for leaf in part.leaves):
                yield part
            else:
                yield from part.leaves  # identified with the plan that is played
        elif isinstance(part, Fork):
            yield from (Leaf(fields, -1) for fields in leaves([part.before[0], part.behind[0]]))


def identities(
    plan: Plan,
    rows: Sequence[Sequence[Leaf | Block]],
    buffers: Sequence[Buffer],
    homes: Homes,
    *,
    use_tags: bool,
) -> tuple[Reason | None, Given]:
    """Return why something that may change places has no identity, and the labels of the others.

    Args:
        plan: The plan.
        rows: Per rank, its calls; those of a block may change places.
        buffers: The fused buffers.
        homes: Where their members are.
        use_tags: Whether tags separate channels.
    """
    pairs: list[tuple[int, Leaf, Leaf]] = []
    orders: list[RankOrder] = []
    for rank, parts in enumerate(rows):
        calls = [
            leaf for part in parts for leaf in (part.leaves if isinstance(part, Block) else [part])
        ]
        groups = _launching(calls, buffers, homes)
        shown: list[Leaf | Block] = []
        for part in parts:
            if isinstance(part, Leaf):
                shown.append(_shown(part, groups, buffers, homes))
                continue
            stand = tuple(_shown(leaf, groups, buffers, homes) for leaf in part.leaves)
            pairs += [(rank, leaf, one) for leaf, one in zip(part.leaves, stand, strict=True)]
            shown.append(replace(part, leaves=stand))
        orders.append(RankOrder(rank, tuple(shown)))
    problem = label_movable(plan, orders, use_tags=use_tags)
    # Not a name that a plan which is made of this one gives to something else.
    given = [
        (rank, leaf, f"{one.fields['label']} beside members")
        for rank, leaf, one in pairs
        if "label" in one.fields and "label" not in leaf.fields and _STANDS not in one.fields
    ]
    return problem, given


_STANDS = "x-stands"
"""Field of a call that stands for a member, or for a wait that may launch one."""


def _launching(calls: Sequence[Leaf], buffers: Sequence[Buffer], homes: Homes) -> dict[str, str]:
    """Return the handles of members that a wait may launch, each with the group of its flush."""
    return {
        leaf.fields["work"]: buffers[number].group
        for leaf in calls
        for number in home_of(homes, leaf)
        if is_filled(buffers[number]) and isinstance(leaf.fields.get("work"), str)
    }


def _shown(leaf: Leaf, groups: dict[str, str], buffers: Sequence[Buffer], homes: Homes) -> Leaf:
    """Return what a call is to others: a member its flush, as a wait that may launch one."""
    fields = leaf.fields
    for number in home_of(homes, leaf):
        if buffers[number].coordination == "negotiated":  # launched where nobody else calls
            return replace(leaf, fields={"op": "compute", "op_name": "submit", _STANDS: True})
        return replace(leaf, fields={"label": fields["id"], **fields, _STANDS: True})
    work = fields.get("work", []) if fields["op"] == "wait" else []
    for name in [work] if isinstance(work, str) else work:
        if name in groups:
            flush: dict[str, Any] = {"op": "all_reduce", "group": groups[name], "label": name}
            return replace(leaf, fields={**flush, _STANDS: True})
    return replace(leaf, fields=dict(fields))
