"""What a pass over one rank's graph must keep, compared before and after.

Every collective is found again under its own name, or as a member of exactly one fused collective
that moves the same data. Waits stay behind their issue and in front of the first use. Nothing moves
across a send, a receive, a barrier or a communication nobody can look into.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from planguard.capture.passes.sides import Side, Talk


@dataclass(frozen=True)
class Violation:
    """Something a pass did not keep.

    Attributes:
        kind: ``lost-collective``, ``new-collective``, ``changed-collective``,
            ``moved-collective`` (to another group, where it is not sure that all ranks agree),
            ``order``, ``crossed-side-effect``, ``use-before-wait``, ``missing-wait`` or ``unsafe``.
        message: One sentence.
        rank: The rank whose graph it is, None when it concerns the job.
        node: Name of the node.
        source: ``(file, line, function)`` of the node, if known.
    """

    kind: str
    message: str
    rank: int | None = None
    node: str = ""
    source: tuple[str, int | None, str | None] | None = None

    def __str__(self) -> str:
        where = f" ({self.source[0]}:{self.source[1]})" if self.source else ""
        who = f"rank {self.rank}: " if self.rank is not None else ""
        return f"{self.kind}: {who}{self.message}{where}"


@dataclass(frozen=True)
class Move:
    """A change that is allowed if all ranks make it alike: one graph alone does not show that.

    Attributes:
        message: What was and what is.
        talk: What is; what was, if it is gone.
        key: Which one of its group it was, and what it is: what all members have to agree on.
        kind: What it is a violation of where the ranks do not agree.
    """

    message: str
    talk: Talk
    key: tuple[Any, ...]
    kind: str = "moved-collective"


@dataclass
class Comparison:
    """What comparing two versions of one rank gave.

    Attributes:
        violations: What was not kept.
        origin: For every communication after the pass: the ones before it that it stands for.
        fused: Fused collectives, with the names of their members.
        reordered: Groups whose collectives changed their order, with the first node out of order.
        split: Collectives that became several, with the names of these.
        moved: Communications that another group of the same ranks, or an equivalent operation,
            does now, that repeat another one, or that are gone because another does the same. All
            ranks have to agree on it, which one graph alone does not show.
        places: Place of every communication before the pass among those of its group.
    """

    violations: list[Violation] = field(default_factory=list)
    origin: dict[str, tuple[str, ...]] = field(default_factory=dict)
    fused: dict[str, tuple[str, ...]] = field(default_factory=dict)
    reordered: dict[str, str] = field(default_factory=dict)
    split: dict[str, tuple[str, ...]] = field(default_factory=dict)
    moved: dict[str, Move] = field(default_factory=dict)
    places: dict[str, int] = field(default_factory=dict)

    def note_move(self, old: Talk, new: Talk) -> None:
        """Note that a communication is done by another group or operation, if it is."""
        if (old.op, old.group) != (new.op, new.group):
            message = f"{_shown(old)} {old.node} is {_shown(new)} {new.node} after"
            place = (old.group, self.places.get(old.node, -1))
            self.moved.setdefault(new.node, Move(message, new, (place, new.op, new.group)))

    def note_repeat(self, old: Talk, new: Talk, *, gone: bool = False) -> None:
        """Note that a communication does again what another does, or did and is gone."""
        if gone:
            message = f"{_shown(new)} {new.node} is gone; {old.node} does the same"
        else:
            message = f"{_shown(new)} {new.node} repeats {old.node}"
        place = (old.group, self.places.get(old.node, -1))
        kind = "lost-collective" if gone else "new-collective"
        self.moved[new.node] = Move(message, new, (place, new.op, new.group, kind), kind)


def compare(before: Side, after: Side, rank: int | None) -> Comparison:
    """Compare two versions of one rank's program."""
    out = Comparison()
    counts: Counter[Any] = Counter()
    for talk in before.talks:
        out.places[talk.node] = counts[talk.group]
        counts[talk.group] += 1
    _match(before, after, rank, out)
    _crossings(before, after, rank, out)
    _orders(before, after, out)
    _waits(before, after, rank, out)
    return out


def _match(before: Side, after: Side, rank: int | None, out: Comparison) -> None:
    """Find every communication again: by name, else as member of one fused collective."""
    old = {talk.node: talk for talk in before.talks}
    new = {talk.node: talk for talk in after.talks}
    for name in [name for name in new if name in old]:
        if _differs(old[name], new[name]):
            if _took_name(old[name], new[name]):
                continue
            if _is_move(old[name], new[name]):
                out.note_move(old[name], new[name])
            else:
                message = f"{name} is {_shown(old[name])} before and {_shown(new[name])} after"
                out.violations.append(_violation("changed-collective", message, rank, new[name]))
        out.origin[name] = (name,)
    lost = [talk for name, talk in old.items() if name not in out.origin]
    added = [talk for name, talk in new.items() if name not in out.origin]
    lost = [talk for talk in lost if not _is_shared(talk, before, after, out)]
    added = [talk for talk in added if not _is_repeat(talk, after, old, out)]
    _partition(lost, added, rank, out)


def _is_shared(talk: Talk, before: Side, after: Side, out: Comparison) -> bool:
    """Tell whether a collective is gone because another one that stays does the same; note it."""
    first = before.equals.get(talk.node, talk.node)
    alike = [one for one in before.talks if before.equals.get(one.node, one.node) == first]
    stays = next((one for one in alike if out.origin.get(one.node) == (one.node,)), None)
    if stays is None or not _is_replaced(talk.node, before, after):
        return False
    out.note_repeat(stays, talk, gone=True)
    return True


def _is_replaced(node: str, before: Side, after: Side) -> bool:
    """Tell whether what used a node that is gone, and is still there, uses an equal value now."""
    users: dict[str, list[str]] = {}
    for name, user in before.flow.nodes.items():
        for used in dict.fromkeys(user.inputs()):
            users.setdefault(used, []).append(name)
    todo, done = [node], set()
    while todo:
        gone = todo.pop()
        for user in users.get(gone, ()):
            if user not in after.flow.nodes:
                todo += [] if user in done else [user]
                done.add(user)
                continue
            now = list(after.flow.nodes[user].inputs())
            # what only the new graph has is not known to be unequal
            if gone not in now and not any(
                before.values.get(name, before.values[gone]) == before.values[gone] for name in now
            ):
                return False
    return True


def _is_repeat(talk: Talk, after: Side, old: Mapping[str, Talk], out: Comparison) -> bool:
    """Tell whether a new collective does what one that was there does; note it."""
    first = after.equals.get(talk.node)
    if first is None or out.origin.get(first) != (first,):
        return False
    out.note_repeat(old[first], talk)
    out.origin[talk.node] = ()
    return True


def _differs(old: Talk, new: Talk) -> bool:
    same = (old.op, old.group, old.signature) == (new.op, new.group, new.signature)
    return not same or (None not in (old.bytes, new.bytes) and old.bytes != new.bytes)


def _is_move(old: Talk, new: Talk) -> bool:
    """Tell whether the same ranks move the same data, on another group or by an equal operation."""
    sized = None not in (old.bytes, new.bytes) and old.bytes == new.bytes
    return old.is_collective and new.is_collective and old.family == new.family and sized


def _took_name(old: Talk, new: Talk) -> bool:
    """Tell whether a fused collective was given the name of one of its members."""
    return old.family == new.family and set(old.atoms) < set(new.atoms)


def _partition(lost: list[Talk], added: list[Talk], rank: int | None, out: Comparison) -> None:
    left = list(lost)
    left, added = _splits(left, added, rank, out)
    for talk in added:
        members = _members(talk, left)
        if not members:
            message = f"{_shown(talk)} {talk.node} moves data that no collective moved before"
            out.violations.append(_violation("new-collective", message, rank, talk))
            continue
        left = [item for item in left if item not in members]
        names = tuple(item.node for item in members)
        out.origin[talk.node] = names
        for item in members:
            out.note_move(item, talk)
        if len(members) > 1:
            out.fused[talk.node] = names
        total = sum(item.bytes or 0 for item in members)
        known = talk.bytes is not None and all(item.bytes is not None for item in members)
        if known and (talk.bytes or 0) < total:
            parts = ", ".join(names)
            message = f"{talk.node} moves {talk.bytes} bytes; its members {parts} moved {total}"
            out.violations.append(_violation("changed-collective", message, rank, talk))
    for talk in left:
        message = f"{_shown(talk)} {talk.node} is gone"
        out.violations.append(_violation("lost-collective", message, rank, talk))


def _splits(
    lost: list[Talk], added: list[Talk], rank: int | None, out: Comparison
) -> tuple[list[Talk], list[Talk]]:
    """Take out the collectives that became several; return what is left of both sides."""
    left: list[Talk] = []
    for talk in lost:
        parts = _members(talk, added)
        if len(parts) < 2:
            left.append(talk)
            continue
        added = [item for item in added if item not in parts]
        names = tuple(item.node for item in parts)
        out.split[talk.node] = names
        for item in parts:
            out.origin[item.node] = (talk.node,)
            out.note_move(talk, item)
        known = talk.bytes is not None and all(item.bytes is not None for item in parts)
        total = sum(item.bytes or 0 for item in parts)
        if known and total < (talk.bytes or 0):
            message = f"{talk.node} moved {talk.bytes} bytes; its parts {', '.join(names)} {total}"
            out.violations.append(_violation("changed-collective", message, rank, parts[0]))
    return left, added


def _members(talk: Talk, candidates: Sequence[Talk]) -> list[Talk]:
    """Return the collectives whose data ``talk`` moves; empty unless they make up all of it."""
    room = Counter(talk.atoms)
    members = []
    for item in candidates:
        need = Counter(item.atoms)
        if item.family == talk.family and need and all(room[a] >= n for a, n in need.items()):
            room -= need
            members.append(item)
    return [] if +room else members


def _crossings(before: Side, after: Side, rank: int | None, out: Comparison) -> None:
    """Nothing may change its place relative to an ordered communication."""
    places = {talk.node: place for place, talk in enumerate(before.talks)}
    moved: dict[str, int] = {}
    for place, talk in enumerate(after.talks):
        for name in out.origin.get(talk.node, ()):
            moved[name] = place
    for fence in [talk for talk in before.talks if talk.ordered and talk.node in moved]:
        for talk in before.talks:
            if talk.node not in moved or talk.node == fence.node:
                continue
            was = places[talk.node] < places[fence.node]
            if was != (moved[talk.node] < moved[fence.node]) and not (
                talk.ordered and places[talk.node] < places[fence.node]
            ):
                side = "behind" if was else "in front of"
                message = f"{_shown(talk)} {talk.node} moved {side} {_shown(fence)} {fence.node}"
                out.violations.append(_violation("crossed-side-effect", message, rank, talk))


def _orders(before: Side, after: Side, out: Comparison) -> None:
    """Note the groups on which collectives follow each other in another order than before."""
    place = {talk.node: index for index, talk in enumerate(before.talks)}
    last: dict[tuple[tuple[int, ...], str], int] = {}
    for talk in after.talks:
        origins = [place[name] for name in out.origin.get(talk.node, ())]
        if not origins or talk.ordered:
            continue
        if min(origins) < last.get(talk.group, -1):
            out.reordered.setdefault(_group_text(talk.group), talk.node)
        last[talk.group] = max(last.get(talk.group, -1), *origins)


def _waits(before: Side, after: Side, rank: int | None, out: Comparison) -> None:
    known = {(h.node, h.work) for h in before.flow.hazards}
    for hazard in after.flow.hazards:
        if (hazard.node, hazard.work) not in known:
            node = after.flow.nodes[hazard.node]
            message = f"{hazard.node} uses the result of {hazard.work} before its wait"
            out.violations.append(
                Violation("use-before-wait", message, rank, hazard.node, node.source)
            )
    old = set(before.flow.unwaited)
    for work in after.flow.unwaited:
        if not old.intersection(out.origin.get(work, (work,))):
            node = after.flow.nodes[work]
            message = f"nothing waits for {work} any more"
            out.violations.append(Violation("missing-wait", message, rank, work, node.source))
    for work in after.flow.returned:  # a caller that got a finished result waits for nothing
        if before.flow.waits.keys() & out.origin.get(work, ()):
            node = after.flow.nodes[work]
            message = f"{work} is returned in flight, and was waited for before"
            out.violations.append(Violation("missing-wait", message, rank, work, node.source))


def _violation(kind: str, message: str, rank: int | None, talk: Talk) -> Violation:
    return Violation(kind, message, rank, talk.node, talk.source)


def _shown(talk: Talk) -> str:
    if talk.op == "unknown":
        return talk.group[1]
    size = "" if talk.bytes is None else f" of {talk.bytes} bytes"
    return f"{talk.op}{size} on {_group_text(talk.group)}"


def _group_text(group: tuple[tuple[int, ...], str]) -> str:
    ranks, name = group
    return f"group {name} {_shortened(ranks)}" if ranks else name


def _shortened(ranks: Iterable[int]) -> str:
    found = list(ranks)
    text = ",".join(map(str, found[:8]))
    return f"[{text}{',...' if len(found) > 8 else ''}]"
