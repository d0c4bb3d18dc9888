"""A plan cut down to some of its ranks and actions: what witnesses are re-executed on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET

from planguard.plan.format import read
from planguard.plan.vocabulary import LIFETIME, ROUNDS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from planguard.plan.plan import Plan


@dataclass(frozen=True)
class Projection:
    """A cut-down plan and where its ranks and actions come from.

    Attributes:
        plan: The cut-down plan, ranks renumbered in order.
        ranks: Original rank of every new rank.
        actions: Original action index of every new action, per new rank.
    """

    plan: Plan
    ranks: tuple[int, ...]
    actions: tuple[tuple[int, ...], ...]

    def original(self, rank: int, action: int) -> tuple[int, int]:
        """Return the original ``(rank, action)``."""
        return self.ranks[rank], self.actions[rank][action]


def project(plan: Plan, keep: Iterable[tuple[int, int]], ranks: Iterable[int] = ()) -> Projection:
    """Return the plan restricted to some actions; groups are restricted to the kept ranks.

    Args:
        plan: Any plan.
        keep: ``(rank, action)`` pairs to keep; their order within a rank is the plan's.
        ranks: Further ranks that stay as members of their groups, with no action.
    """
    by_rank: dict[int, list[int]] = {rank: [] for rank in ranks}
    for rank, action in sorted(set(keep)):
        by_rank.setdefault(rank, []).append(action)
    kept = tuple(sorted(by_rank))
    cutter = _Cutter(plan, kept)
    programs = {
        str(new): {"actions": [cutter.action(old, index) for index in by_rank[old]]}
        for new, old in enumerate(kept)
    }
    document: dict[str, Any] = {
        "schema": "planguard.plan/1",
        "world_size": len(kept),
        "groups": cutter.groups,
        "ranks": programs,
    }
    if plan.document.tensors is not UNSET:
        document["tensors"] = msgspec.to_builtins(plan.document.tensors)
    return Projection(read(document), kept, tuple(tuple(by_rank[old]) for old in kept))


class _Cutter:
    """Rewrites actions for the kept ranks."""

    def __init__(self, plan: Plan, kept: tuple[int, ...]) -> None:
        self.plan = plan
        self.new = {old: new for new, old in enumerate(kept)}
        self.groups: dict[str, Any] = {}

    def action(self, rank: int, index: int) -> dict[str, Any]:
        view = self.plan.action_at(rank, index)
        found = self._rewrite(rank, {"op": view.op, **view.fields}, view.action)
        if view.label is not None:
            found["label"] = view.label
        if view.id is not None:
            found["id"] = view.id
        return found

    def _rewrite(self, rank: int, fields: dict[str, Any], node: Any) -> dict[str, Any]:
        for dropped in ("after", "src", "ns", "reads", "writes"):
            fields.pop(dropped, None)
        if "ops" in fields and fields["op"] == "batch":
            fields["ops"] = [
                self._rewrite(rank, inner, member)
                for inner, member in zip(fields["ops"], node.ops, strict=True)
            ]
            return fields
        if "peer" in fields and fields["peer"] != "any":
            peer = self.plan.peer(rank, node)
            assert peer is not None  # noqa: S101  only "any" has none
            fields["peer"] = self.new[peer]
        if "root" in fields:
            fields["root"] = self.new[fields["root"]]
        if "group" in fields or fields["op"] in ROUNDS | LIFETIME:
            fields["group"] = self._group(fields.get("group", "world"), rank)
        return fields

    def _group(self, name: str, rank: int) -> str:
        """Return the restricted group; the world is restricted by itself."""
        if name == "world":
            return "world"
        group = self.plan.group(name)
        members = [self.new[r] for r in group.members(rank, self.plan.mesh) if r in self.new]
        instance = self.plan.group_name(name, rank)
        self.groups.setdefault(instance, {"ranks": members})
        return instance
