"""Negotiated members that are waited for where they are submitted: hosts meet there.

A host that submits a member and waits for it stands there until all ranks of the group have
submitted it, whatever its device does meanwhile. So hosts meet at it, as where they make a
communicator; then the background launches it, and nothing else of that thread comes between. The
launches of a rank stand in the order of its host, and no two ranks launch in different orders: one
of them would have left a meeting that the other one has not come to.

Written as a meeting and a call on the communicator of the background, a member is a call like
others, beside whatever the plan has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planguard.execution.running.expand import expand
from planguard.plan.fixed import AT, FixedPlan, written
from planguard.plan.vocabulary import ORDER_BLOCKS
from planguard.reordering.branches.assignments import flat_tree, leaves
from planguard.reordering.buffers.merge import with_groups
from planguard.reordering.buffers.policies import own_of
from planguard.semantics.model import Family

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from planguard.execution.findings.reason import UndecidedError
    from planguard.plan.plan import Plan
    from planguard.reordering.buffers.members import Buffer
    from planguard.reordering.buffers.ranks import Ranks
    from planguard.semantics.model import ExecutionModel

Standing = dict[tuple[int, int], str]
"""Rank and action where a host waits for a member, to what it waits for."""


def at_once(
    ranks: Ranks,
    plan: Plan,
    rules: ExecutionModel,
    negotiated: Sequence[Buffer],
    refused: UndecidedError,
) -> tuple[FixedPlan, Standing] | None:
    """Return a plan whose negotiated members are calls, and where hosts stand for one.

    None where some member is not waited for at once.

    Args:
        ranks: Its ranks.
        plan: The plan; buffers that are not negotiated are left.
        rules: A model of devices, or one in which a collective holds its host up until all ranks
            are at it, whatever else they have called.
        negotiated: Its negotiated buffers.
        refused: What is raised where members have no order on some rank.

    Raises:
        UndecidedError: ``refused``.
    """
    flat = flat_tree(plan, expand(plan))
    writer = _Writer(ranks, rules, negotiated, refused)
    programs: dict[str, list[Any]] = {}
    for rank in range(plan.world_size):
        actions = flat["ranks"][str(rank)]["actions"]
        if any(writer.is_member(one) and one.get("async") for one in leaves(actions)):
            return None
        programs[str(rank)] = list(writer.items(actions, rank))
    if rules.lazy_init:
        for text, actions in programs.items():
            programs[text] = [*writer.created(int(text)), *actions]
    groups = with_groups(ranks, [writer.groups])
    left = [one for one in ranks.fusion if one.get("coordination", "none") != "negotiated"]
    head = {**ranks.head, "groups": groups, **({"fusion": left} if left else {})}
    return written(head, programs), writer.standing


class _Writer:
    """Writes members as calls.

    Attributes:
        groups: The groups that these need.
        standing: Where hosts stand for a member.
    """

    def __init__(
        self,
        ranks: Ranks,
        rules: ExecutionModel,
        negotiated: Sequence[Buffer],
        refused: UndecidedError,
    ) -> None:
        self.members, self.refused = ranks.members, refused
        self.on_device = rules.family is Family.DEVICE
        self.homes = {(one.group, name) for one in negotiated for name in one.members}
        self.buffer = {(one.group, name): one.id for one in negotiated for name in one.members}
        self.groups: dict[str, list[int]] = {}
        self.standing: Standing = {}
        self.first: dict[tuple[str, int], int] = {}
        """Group and rank, to the first member that the rank submits there."""

    def is_member(self, fields: dict[str, Any]) -> bool:
        """Tell whether an action is a negotiated member."""
        return (fields.get("group", "world"), fields.get("id")) in self.homes

    def items(self, items: Sequence[dict[str, Any]], rank: int) -> Iterator[dict[str, Any]]:
        """Yield actions that follow each other, with members as calls.

        Raises:
            UndecidedError: ``refused``: members in a block, or in two threads.
        """
        for item in items:
            name = ORDER_BLOCKS.get(item["op"])
            if name is None:
                yield from self._call(item, rank) if self.is_member(item) else [item]
                continue
            mine = [entry for entry in item[name] if any(map(self.is_member, leaves([entry])))]
            if mine and (len(mine) > 1 or item["op"] != "threads"):
                raise self.refused
            yield {
                **item,
                name: [
                    list(self.items(entry, rank)) if entry in mine else entry
                    for entry in item[name]
                ],
            }

    def _call(self, fields: dict[str, Any], rank: int) -> Iterator[dict[str, Any]]:
        group, name = fields.get("group", "world"), str(fields.get("label", fields["id"]))
        if "work" in fields:
            raise self.refused
        own = f"submitted: {name} of {group}"
        self.groups[own] = self.members[group]
        self.standing[rank, fields[AT]] = f"{name} of {self.buffer[group, fields['id']]}"
        self.first.setdefault((group, rank), fields[AT])
        if not self.on_device:  # where all of them are at it, and whatever they have called before
            yield {**fields, "group": own, "label": name}
            return
        self.groups[own_of(group)] = self.members[group]
        yield {"op": "init", "group": own, AT: fields[AT]}
        yield {**fields, "group": own_of(group), "label": name}

    def created(self, rank: int) -> Iterator[dict[str, Any]]:
        """Yield what the background makes from the beginning: the communicators it launches on."""
        for group in dict.fromkeys(group for group, _ in self.first):
            everyone = self.members[group]
            if rank in everyone and all((group, one) in self.first for one in everyone):
                at = self.first[group, rank]
                yield {"op": "init", "group": own_of(group), AT: at}
