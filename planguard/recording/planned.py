"""A plan as sequences of calls: to compare with a recording, or to stand for one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from planguard.arguments import PLAN, arguments
from planguard.plan.vocabulary import OPEN_BLOCKS
from planguard.recording.observed import Call, Observed, Progress
from planguard.recording.recording import RankRecord, RecordedGroup, Recording
from planguard.verdict import Source

if TYPE_CHECKING:
    from collections.abc import Iterator

    from planguard.plan.plan import Plan


_TYPES: dict[str, tuple[type, ...]] = {
    "op": (str,), "group": (str,), "peer": (int, str), "tag": (int, str), "root": (int,),
    "reduce_op": (str,), "count": (int,), "dtype": (str,), "bytes": (int,), "label": (str,),
    "in_splits": (list,), "out_splits": (list,), "kind": (str,), "ops": (list,), "src": (list,),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class PlannedCall:
    """One communication of a plan.

    Attributes:
        call: The call.
        action: Action index in the rank's program.
        after: Indices, in the rank's list of planned calls, of those that must come before it when
            it stands in a block of free order; None outside of such blocks.
        block: Number of the block of free order it stands in, or None.
    """

    call: Call
    action: int
    after: tuple[int, ...] | None = None
    block: int | None = None


def planned_calls(plan: Plan) -> list[list[PlannedCall]]:
    """Return the communications of every rank of a plan, in program order."""
    from planguard.plan.flatten import flatten

    flat = flatten(plan)
    return [_Walk().rank(flat["ranks"][str(rank)]["actions"]) for rank in range(plan.world_size)]


def plan_groups(plan: Plan) -> dict[str, tuple[int, ...]]:
    """Return the members of every group of a plan, families written out."""
    from planguard.plan.flatten import flatten

    specs = flatten(plan).get("groups", {})
    groups = {name: tuple(spec["ranks"]) for name, spec in specs.items()}
    groups.setdefault("world", tuple(range(plan.world_size)))
    return groups


@arguments(plan=PLAN)
def recording_of(plan: Plan) -> Recording:
    """Return a captured plan as the recording it was made from: nothing missing, all completed."""
    from planguard.plan.flatten import flatten

    flat = flatten(plan)
    groups = {
        name: RecordedGroup(name, tuple(spec["ranks"]), tuple(spec["ranks"]))
        for name, spec in flat.get("groups", {}).items()
    }
    world = tuple(range(plan.world_size))
    groups.setdefault("world", RecordedGroup("world", world, world))
    ranks = {}
    for rank in range(plan.world_size):
        calls = _Walk().rank(flat["ranks"][str(rank)]["actions"])
        actions = tuple(
            Observed(one.call, progress=Progress.COMPLETED, number=one.action) for one in calls
        )
        ranks[rank] = RankRecord(rank, actions, has_ended=True, file=plan.file)
    return Recording(plan.world_size, ranks, groups, kinds=("plan",))


class _Walk:
    """Walks one flat program and writes down its communications."""

    def __init__(self) -> None:
        self.calls: list[PlannedCall] = []
        self._action = 0
        self._blocks = 0

    def rank(self, actions: list[Any]) -> list[PlannedCall]:
        """Return the communications of a program."""
        for action in actions:
            self._one(action)
        return self.calls

    def _one(self, action: dict[str, Any]) -> None:
        op = action["op"]
        if op not in OPEN_BLOCKS:
            self._leaf(action, None, None)
            return
        # Action indices count the begin and end of a block, of a chain and of a thread, and the
        # begin of a branch.
        self._action += 1
        if op == "choice":
            self._choice(_branches(action))
        else:
            body = action[OPEN_BLOCKS[op]]
            self._free([item if isinstance(item, list) else [item] for item in body], body)
        self._action += 1

    def _choice(self, branches: list[list[Any]]) -> None:
        """Walk all branches and keep the calls of the first: which one ran is not in the plan."""
        for place, branch in enumerate(branches):
            self._action += 1
            known = len(self.calls)
            for inner in branch:
                self._one(inner)
            if place:
                del self.calls[known:]

    def _leaf(
        self, action: dict[str, Any], after: tuple[int, ...] | None, block: int | None
    ) -> tuple[int, ...]:
        """Write down an action and return the places of its calls."""
        first = len(self.calls)
        self.calls += [PlannedCall(call, self._action, after, block) for call in _calls(action)]
        self._action += 1
        return tuple(range(first, len(self.calls)))

    def _free(self, chains: list[list[Any]], body: list[Any]) -> None:
        """Walk chains whose order among each other is free."""
        self._blocks += 1
        block, by_id = self._blocks, dict[str, tuple[int, ...]]()
        for items, written in zip(chains, body, strict=True):
            is_chain = isinstance(written, list)
            self._action += is_chain
            before: tuple[int, ...] = ()
            for item in items:
                named = [place for name in item.get("after", ()) for place in by_id.get(name, ())]
                places = self._leaf(item, (*before, *named), block)
                before = places or (*before, *named)
                if "id" in item:
                    by_id[item["id"]] = places
            self._action += is_chain


def _branches(action: dict[str, Any]) -> list[list[Any]]:
    branches = action.get("branches", [])
    return list(branches.values()) if isinstance(branches, dict) else list(branches)


def _calls(action: dict[str, Any]) -> Iterator[Call]:
    """Yield the communications of one flat action: several of a batch, none of a wait."""
    op = action["op"]
    if op == "batch":
        for member in action["ops"]:
            yield from _calls(member)
    elif op == "coalesced":
        sizes = [_size(member) for member in action["ops"]]
        yield Call(
            action["kind"],
            action.get("group", "world"),
            nbytes=sum(sizes) if None not in sizes else None,  # type: ignore[arg-type]
            label=action.get("label"),
            stack=_source(action),
        )
    else:
        call = call_of(action)
        if call.is_communication:
            yield call


def _size(action: dict[str, Any]) -> int | None:
    return call_of({"op": "all_reduce", **action}).bytes


def _source(action: dict[str, Any]) -> tuple[Source, ...]:
    src = action.get("src")
    return (Source(*src),) if src else ()


def check_types(action: dict[str, Any]) -> None:
    """Look at the fields of an action that no reader of plans has looked at.

    Raises:
        TypeError: The value of a field is none that the plan format has.
    """
    for name, kinds in _TYPES.items():
        value = action.get(name)
        if value is not None and type(value) not in kinds:
            raise TypeError(f"{name} is {type(value).__name__}")
        if type(value) is int and not -(1 << 63) <= value < 1 << 63:
            raise TypeError(f"{name} has more than 64 bits")
    for name in ("in_splits", "out_splits"):
        if any(type(one) is not int for one in action.get(name) or ()):
            raise TypeError(f"{name} holds something else than numbers")
    for part in action.get("ops") or ():
        if type(part) is not dict:
            raise TypeError("ops holds something else than calls")
        check_types(part)
    source = action.get("src")
    if source and [type(one) for one in source] != [str, int, str]:
        raise TypeError("src is not a file, a line and a function")


def call_of(action: dict[str, Any]) -> Call:
    """Return one flat action of the plan format as a call; ``any`` peers become None."""
    peer = action.get("peer")
    splits = (action.get("in_splits"), action.get("out_splits"))
    return Call(
        action["op"],
        action.get("group", "world"),
        peer=peer if isinstance(peer, int) else None,
        tag=action.get("tag", 0) if isinstance(action.get("tag", 0), int) else 0,
        root=action.get("root"),
        reduce_op=action.get("reduce_op"),
        count=action.get("count"),
        dtype=action.get("dtype"),
        nbytes=action.get("bytes"),
        in_splits=None if splits[0] is None else tuple(splits[0]),
        out_splits=None if splits[1] is None else tuple(splits[1]),
        label=action.get("label"),
        stack=_source(action),
    )
