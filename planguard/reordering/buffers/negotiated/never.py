"""Negotiated members that some rank of their group never submits, and that a host waits for.

Nobody launches such a member, so the wait for it ends in no execution, and neither does the program
of that rank, whatever else the plan holds and the model says: DEADLOCK. To show it all members are
left out, and the wait is a meeting of hosts that nobody else comes to.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from planguard.execution.running.expand import expand
from planguard.plan.fixed import AT, FixedPlan, written
from planguard.plan.vocabulary import HANDLES, ORDER_BLOCKS
from planguard.reordering.branches.assignments import flat_tree, leaves
from planguard.reordering.buffers.members import handles_of
from planguard.reordering.buffers.merge import with_groups

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planguard.plan.plan import Plan
    from planguard.reordering.buffers.members import Buffer
    from planguard.reordering.buffers.ranks import Ranks

Item = dict[str, Any]


def waits_for_ever(
    ranks: Ranks, plan: Plan, negotiated: Sequence[Buffer]
) -> tuple[FixedPlan, dict[tuple[int, int], str]] | None:
    """Return a plan in which a host stands for ever, and where; None where none has to.

    Args:
        ranks: Its ranks.
        plan: The plan; buffers that are not negotiated are left.
        negotiated: Its negotiated buffers.
    """
    flat = flat_tree(plan, expand(plan))
    homes = {(one.group, name) for one in negotiated for name in one.members}
    writers = [
        _Writer(flat["ranks"][str(rank)]["actions"], homes) for rank in range(plan.world_size)
    ]
    for writer in writers:
        writer.lost = {
            name
            for name in writer.members
            if any(name not in writers[other].members for other in ranks.members[name[0]])
        }
    if any(one.is_open for one in writers) or not any(one.lost for one in writers):
        return None
    groups: dict[str, list[int]] = {}
    programs: dict[str, list[Any]] = {}
    waits: dict[tuple[int, int], str] = {}
    for rank, writer in enumerate(writers):
        group = next((name[0] for name in writer.lost), "")
        others = [other for other in ranks.members.get(group, ()) if other != rank]
        writer.own = f"submitted to {rank}"
        programs[str(rank)] = writer.items(writer.actions)
        if writer.waits:
            groups[writer.own] = sorted((rank, others[0]))
            waits |= {(rank, at): name for at, name in writer.waits.items()}
    if not waits:
        return None
    left = [one for one in ranks.fusion if one.get("coordination", "none") != "negotiated"]
    head = {**ranks.head, "groups": with_groups(ranks, [groups])}
    return written({**head, **({"fusion": left} if left else {})}, programs), waits


class _Writer:
    """Writes a program without its members.

    Attributes:
        actions: The program.
        members: Group and name of its members.
        lost: Those that nobody launches.
        waits: Where it waits for one of them, to the names of these.
        own: The group of the meeting that stands for such a wait.
    """

    def __init__(self, actions: list[Any], homes: set[tuple[str, str]]) -> None:
        self.actions, self.homes = actions, homes
        self.lost: set[tuple[str, str]] = set()
        self.waits: dict[int, str] = {}
        self.own = ""
        self.works: dict[str, tuple[str, str]] = {}
        self.members: set[tuple[str, str]] = set()
        started = Counter[str]()
        for one in leaves(actions):
            name = self._name(one)
            work = one.get("work")
            if one["op"] not in HANDLES and isinstance(work, str):
                started[work] += 1
            if name is not None:
                self.members.add(name)
                if isinstance(work, str):
                    self.works[work] = name
        exits = sum(one["op"] == "exit" for one in leaves(actions))
        is_cut = exits > int(bool(actions) and actions[-1]["op"] == "exit")
        odd = (
            one["op"] in HANDLES and not self.works.keys().isdisjoint(handles_of(one))
            for one in leaves(actions)
            if one["op"] != "wait" or one.get("mode", "all") != "all"
        )
        self.is_open = any(started[work] > 1 for work in self.works) or any(odd) or is_cut
        """Whether it is open here which wait is for what, or whether the rank comes to it."""

    def _name(self, fields: Item) -> tuple[str, str] | None:
        group = fields.get("group", "world")
        if (group, fields.get("id")) not in self.homes:
            return None
        return group, str(fields.get("label", fields["id"]))

    def items(self, items: Sequence[Any]) -> list[Any]:
        """Return some actions and blocks without members."""
        out: list[Any] = []
        for item in items:
            name = None if isinstance(item, list) else ORDER_BLOCKS.get(item["op"])
            if isinstance(item, list):
                out.append(self.items(item))
            elif name is not None:
                out.append({**item, name: self.items(item[name])})
            else:
                out.append(self._call(item))
        return out

    def _call(self, item: Item) -> Item:
        kept = {key: item[key] for key in ("id", "after", AT) if key in item}
        silent = {"op": "compute", "op_name": "submit", **kept}
        name = self._name(item)
        if name is not None:
            return (
                silent if item.get("async") or name not in self.lost else self._stand(item, [name])
            )
        mine = [work for work in handles_of(item) if work in self.works]
        if item["op"] not in HANDLES or not mine:
            return item
        if lost := [self.works[work] for work in mine if self.works[work] in self.lost]:
            return self._stand(item, lost)
        left = [work for work in handles_of(item) if work not in self.works]
        return {**item, "work": left} if left else silent

    def _stand(self, item: Item, lost: Sequence[tuple[str, str]]) -> Item:
        kept = {key: item[key] for key in ("id", "after", AT) if key in item}
        self.waits[item[AT]] = ", ".join(name for _, name in lost)
        return {"op": "init", "group": self.own, **kept}
