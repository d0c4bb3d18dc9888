"""What the buffers of a recorded run hold, as the fused buffers of its plan.

Every gradient that went into a buffer becomes a member, placed where the gradient was ready; the
buffer leaves when the last of its members is ready, as it was seen to. Whether it would hold the
same gradients in another order of readiness is a second question: shown where the places in the
buffers were given before, else asked of the order itself (docs/explanation/fused-buffers.md).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import combinations
from typing import TYPE_CHECKING, Any

from planguard.capture.run.held import DEALT

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from planguard.capture.run.ranks import ReadRank

Action = dict[str, Any]
FUSED = ("all_reduce", "reduce_scatter")
"""Operations whose calls a plan may fuse."""


@dataclass(frozen=True)
class Member:
    """A gradient in a buffer: its name, module, elements, and how many were ready before it."""

    name: str
    operator: str
    count: int
    place: int
    came: int


@dataclass(frozen=True)
class Holding:
    """What a call sends.

    Attributes:
        backward: Number of the backward pass on its rank.
        arrived: Gradients of that pass that were ready when it was issued.
        members: Gradients in the order of memory.
    """

    backward: int
    arrived: int
    members: tuple[Member, ...]

    @classmethod
    def read(cls, row: Any) -> Holding:
        """Read what a log says.

        Raises:
            ValueError: It says something else.
        """
        backward, arrived, rows = row
        members = tuple(Member(str(a), str(b), int(c), int(d), int(e)) for a, b, c, d, e in rows)
        if not members or any(one.count < 0 or one.place < 0 for one in members):
            raise ValueError("a buffer that holds nothing")
        return cls(int(backward), int(arrived), members)

    @property
    def names(self) -> frozenset[str]:
        """Names of the gradients."""
        return frozenset(one.name for one in self.members)

    @property
    def last(self) -> Member:
        """The gradient that was ready last."""
        return max(self.members, key=lambda one: one.place)

    @property
    def leaves_when_ready(self) -> bool:
        """True when it was issued in the hook of its own last gradient."""
        return self.last.place == self.arrived - 1

    @property
    def was_dealt(self) -> bool:
        """True when its gradients had their places before they were ready: they are views of it.

        That others stand in another order than they came is no proof of it: a buffer that is filled
        from its end, or where another counts, may hold other gradients in another order.
        """
        return all(one.came == DEALT for one in self.members)


@dataclass
class Buffers:
    """What a plan says of the buffers of a run.

    Attributes:
        members: Identifiers of the members that stand for a call, by the identity of its action.
        fusion: Fused buffers: identifier, and identifiers of the members.
        labels: What identifies the data of a call that stays one, by the identity of its action.
    """

    members: dict[int, list[str]] = field(default_factory=dict)
    fusion: list[tuple[str, list[str]]] = field(default_factory=list)
    labels: dict[int, str] = field(default_factory=dict)


Calls = dict[int, list[tuple[Action, Holding, bool]]]
"""Calls of one group and one backward pass, by rank; True for those of hooks."""


def buffers_of(ranks: Sequence[ReadRank]) -> Buffers:
    """Return the buffers that all members of a group fill with the same gradients, and labels.

    Where ranks sent the same gradients in buffers of other contents, the contents are labels: which
    buffer met which is what the run did.
    """
    found = Buffers()
    calls: dict[tuple[str, int], Calls] = {}
    for one in ranks:
        for action in one.actions:
            held = one.marks.holds.get(id(action))
            if held is None or action["op"] not in FUSED or "group" not in action:
                continue
            place = one.marks.places.get(id(action))
            rows = calls.setdefault((action["group"], held.backward), {})
            row = action, held, place is not None and place.item > 0
            rows.setdefault(one.log.rank, []).append(row)
    groups = {key: members for one in ranks for key, members in one.groups.items()}
    for number, ((group, backward), rows) in enumerate(calls.items()):
        if set(rows) == set(groups[group]):
            _take(found, f"f{number}", backward, rows)
    return found


def _take(found: Buffers, key: str, backward: int, rows: Calls) -> None:
    """Take the calls of a group in one backward pass of all its members."""
    names = [Counter(m.name for _, h, _ in calls for m in h.members) for calls in rows.values()]
    if any(max(count.values()) > 1 for count in names) or not _is_one_vocabulary(names):
        return  # ranks name their gradients differently, or send one several times
    for calls in rows.values():
        for action, held, _ in calls:
            text = " + ".join(sorted(held.names))
            found.labels[id(action)] = f"{text}, backward {backward}"
    contents = [
        (Counter(h.names for _, h, inside in calls if inside), _shape(calls))
        for calls in rows.values()
    ]
    if any(one != contents[0] for one in contents):
        return
    first = next(iter(rows.values()))
    known: dict[frozenset[str], dict[str, str]] = {}
    is_fused = any(inside and len(held.members) > 1 for _, held, inside in first)
    for number, (_, held, inside) in enumerate(first):
        if (
            inside and is_fused
        ):  # one gradient alone is a bucket, too: the rules know what leaves when
            own = {one.name: f"{key}b{number}m{n}" for n, one in enumerate(held.members)}
            known[held.names] = own
            found.fusion.append((f"{key}b{number}", list(own.values())))
    for calls in rows.values():
        for action, held, inside in calls:
            if inside and held.names in known:
                own = known[held.names]
                found.members[id(action)] = [own[one.name] for one in held.members]


def _is_one_vocabulary(names: list[Counter[str]]) -> bool:
    """Tell whether ranks use the same names for their gradients, if not for all of them."""
    common = set(names[0]).intersection(*names[1:])
    return 2 * len(common) >= len(set().union(*names))


def _shape(calls: list[tuple[Action, Holding, bool]]) -> list[frozenset[str]]:
    return [held.names for _, held, inside in calls if not inside]


def is_known(chains: list[list[Action]], buffers: Buffers) -> bool:
    """Tell whether the contents of every call of a pass are known, here and on the other ranks."""
    return all(id(action) in buffers.labels for chain in chains for action in chain)


def opens(one: ReadRank, chains: list[list[Action]], buffers: Buffers) -> bool:
    """Tell whether what the hooks of a pass sent is known well enough to open its order.

    Every call is known by its gradients, and left in the hook of the last of them; a call that
    blocks its hook would hold up the gradients behind it.
    """
    for chain in chains:
        for action in chain:
            held = one.marks.holds.get(id(action))
            if held is None or not held.leaves_when_ready:
                return False
            if id(action) not in buffers.members or "count" not in action or "work" not in action:
                return False
    return True


def ready_chains(
    one: ReadRank, chains: list[list[Action]], buffers: Buffers, works: dict[str, list[str]]
) -> list[tuple[str, list[Action]]]:
    """Return the calls of a pass gradient by gradient, each with its operator.

    Args:
        one: The rank.
        chains: Calls of every hook.
        buffers: Buffers of the run.
        works: Takes the handles of members by that of the call that they stand for.
    """
    found: dict[int, tuple[str, list[Action]]] = {}
    for chain in chains:
        for action in chain:
            held = one.marks.holds[id(action)]
            names = buffers.members[id(action)]
            works[action["work"]] = names
            rest = action["count"] - sum(member.count for member in held.members)
            for name, member in zip(names, held.members, strict=True):
                extra = rest if member is held.members[-1] else 0
                fields = {
                    **action, "count": member.count + extra, "work": name, "id": name,
                    "label": f"{member.name}, backward {held.backward}", "ns": member.operator,
                }  # fmt: skip
                found.setdefault(member.place, (member.operator, []))[1].append(fields)
    return [found[place] for place in sorted(found)]


def may_hold_others(
    one: ReadRank, edges: Mapping[int, AbstractSet[tuple[str, str]]]
) -> Iterator[int]:
    """Yield the backward passes whose buffers may hold other gradients in another order.

    A buffer that is filled as gradients come holds them as they came. Two that may be ready in
    either order stand in other places then, or in other buffers.
    """
    passes: dict[int, list[Holding]] = {}
    for action in one.actions:
        held = one.marks.holds.get(id(action))
        if held is not None:
            passes.setdefault(held.backward, []).append(held)
    for backward, rows in passes.items():
        if all(len(held.members) == 1 or held.was_dealt for held in rows):
            continue
        if not _is_one_packing(rows, edges.get(backward, frozenset())):
            yield backward


def _is_one_packing(rows: list[Holding], edges: AbstractSet[tuple[str, str]]) -> bool:
    """Tell whether gradients are ready in one order only: then it fills the same buffers."""
    members = [member for held in rows for member in held.members]
    for a, b in combinations(members, 2):
        if (a.operator, b.operator) not in edges and (b.operator, a.operator) not in edges:
            return False
    return True
