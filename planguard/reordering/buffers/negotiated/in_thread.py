"""A background that launches negotiated members, as a thread of its rank.

Where a rank submits all its members in a row, its background comes to one place: it waits until
all ranks have submitted, and launches, in the order that is agreed on, whatever the host does
meanwhile. So it is a thread that is forked there, beside all that follows: hosts of these threads
meet, and a wait for a member waits for the call of another thread. Between two submissions no host
can be held up, so every agreed order comes up after the meeting, and none of them is stuck where
another member could be launched. At the end of its program the rank waits for its background: that
holds nobody up who is not held up anyway, since all ranks submit, or are stuck in front of it.
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any

from planguard.execution.running.expand import expand
from planguard.plan.fixed import AT, FixedPlan, written
from planguard.plan.vocabulary import HANDLES
from planguard.reordering.branches.assignments import flat_tree, leaves
from planguard.reordering.buffers.members import handles_of
from planguard.reordering.buffers.merge import with_groups
from planguard.reordering.buffers.policies import own_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from planguard.execution.findings.reason import UndecidedError
    from planguard.plan.plan import Plan
    from planguard.reordering.buffers.members import Buffer
    from planguard.reordering.buffers.ranks import Ranks
    from planguard.semantics.model import ExecutionModel

MOST = 512
"""Most ways in which launches may fall between the calls of their hosts."""

Item = dict[str, Any]


def in_threads(
    ranks: Ranks,
    plan: Plan,
    rules: ExecutionModel,
    negotiated: Sequence[Buffer],
    refused: UndecidedError,
) -> Iterator[FixedPlan]:
    """Yield a plan without negotiated members for every order that may be agreed on.

    In each of them the hosts of the backgrounds meet where the first member stands.

    Args:
        ranks: Its ranks.
        plan: The plan; buffers that are not negotiated are left.
        rules: A model of devices.
        negotiated: Its negotiated buffers.
        refused: What is raised where ranks do not submit all their members in a row.

    Raises:
        UndecidedError: ``refused``.
    """
    flat = flat_tree(plan, expand(plan))
    groups = {one.group for one in negotiated}
    if len(groups) != 1:
        raise refused
    (group,) = groups
    homes = {name for one in negotiated for name in one.members}
    programs = [
        _Program(flat["ranks"][str(rank)]["actions"], group, homes, refused)
        for rank in range(plan.world_size)
    ]
    everyone = ranks.members[group]
    names = {frozenset(programs[rank].members) for rank in everyone}
    if len(names) > 1 or len(everyone) < 2 or frozenset() in names:
        raise refused  # what some rank never submits is launched by nobody
    (shared,) = names
    orders = list(itertools.islice(itertools.permutations(sorted(shared)), MOST))
    count = math.prod(programs[rank].places for rank in everyone)
    if count * len(orders) > MOST:
        raise refused
    met = f"submitted: {group}"
    own = {met: everyone, own_of(group): everyone}
    head = {**ranks.head, "groups": with_groups(ranks, [own])}
    left = [one for one in ranks.fusion if one.get("coordination", "none") != "negotiated"]
    head |= {"fusion": left} if left else {}
    for order in orders:
        yield written(
            head,
            {
                str(rank): one.launching(order, met, group, is_lazy=rules.lazy_init)
                if rank in everyone
                else one.items
                for rank, one in enumerate(programs)
            },
        )


class _Program:
    """A rank, taken apart where it submits its members.

    Attributes:
        items: Its actions and blocks.
        members: Its members, by name.
        places: In how many ways its launches may fall between the calls of its host, at most.
    """

    def __init__(
        self, items: list[Item], group: str, homes: set[str], refused: UndecidedError
    ) -> None:
        self.items = items

        def is_member(fields: Item) -> bool:
            return fields.get("group", "world") == group and fields.get("id") in homes

        mine = [at for at, item in enumerate(items) if any(map(is_member, leaves([item])))]
        self.first, self.end = (mine[0], mine[-1] + 1) if mine else (0, 0)
        inside = list(leaves(items[self.first : self.end]))
        self.members = {str(one.get("label", one["id"])): one for one in inside if is_member(one)}
        silent = [one["op"] == "compute" and not one.get("deps") for one in inside]
        ops = {item["op"] for item in items[self.first : self.end]}
        count = sum(map(is_member, inside))
        if (
            len(self.members) < count
            or count + sum(silent) < len(inside)
            or "threads" in ops
            or not all(one.get("async") for one in self.members.values())
        ):
            raise refused
        self._check_handles(refused)
        rest = list(leaves(items[self.end :]))
        works = {one.get("work") for one in self.members.values()}
        waits = [at for at, one in enumerate(rest) if not works.isdisjoint(handles_of(one))]
        last = max(waits, default=len(rest))
        self.places = math.comb(min(last, len(rest)) + count, count)

    def _check_handles(self, refused: UndecidedError) -> None:
        works = [one["work"] for one in self.members.values() if "work" in one]
        ids = {one["id"] for one in self.members.values()}
        for one in leaves(self.items):
            is_mine = one.get("id") in ids
            named = set(handles_of(one)) & set(works)
            if one["op"] in HANDLES:
                is_plain = one["op"] == "wait" and one.get("mode", "all") == "all"
                if named and not is_plain:
                    raise refused
            elif (named and not is_mine) or ids & {*one.get("deps", ()), *one.get("after", ())}:
                raise refused  # a handle that is bound again, or what comes after a member
        if len(set(works)) < len(works) or self._may_leave(set(works)):
            raise refused

    def _may_leave(self, works: set[str]) -> bool:
        """Whether the rank may be gone before a member is launched."""
        rest = list(leaves(self.items[self.end :]))
        exits = sum(1 for one in rest if one["op"] == "exit")
        if not exits or not self.members:
            return False
        waited = {name for one in rest for name in handles_of(one)}
        is_last = exits == 1 and self.items[-1]["op"] == "exit"
        return not is_last or len(works & waited) < len(self.members)

    def launching(self, order: Sequence[str], met: str, group: str, *, is_lazy: bool) -> list[Item]:
        """Return the program with its background as a thread."""
        at = self.members[order[0]][AT]
        made = {"op": "init", "group": own_of(group), AT: at}
        thread: list[Item] = [{"op": "init", "group": met, AT: at}]
        for name in order:
            fields = {key: value for key, value in self.members[name].items() if key != "after"}
            thread.append({**fields, "group": own_of(group), "label": name})
        rest = [item for item in self.items[self.end :] if item["op"] != "exit"]
        fork = {"op": "threads", "threads": [thread, rest] if rest else [thread], AT: at}
        return [*([made] if is_lazy else []), *self.items[: self.first], fork]
