"""The flat plan as a replay reads it: programs, groups, and what gloo can play."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planguard.errors import ReplayError
from planguard.plan.vocabulary import (
    DEVICE,
    HANDLES,
    LIFETIME,
    MESSAGES,
    MPI_ONLY,
    ORDER_BLOCKS,
    ROUNDS,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

Action = dict[str, Any]
_MPI_ONLY = {row.name for row in MPI_ONLY}
COLLECTIVES = (ROUNDS - _MPI_ONLY) | {"init"}
PLAYED = MESSAGES | COLLECTIVES | DEVICE | HANDLES | LIFETIME | {"batch", "exit"}
REASONS = {name: f"{name} exists only under MPI" for name in _MPI_ONLY} | {
    "choice": "a branch is taken at run time"
}


def flat_actions(body: list[Any]) -> Iterator[Action]:
    """Yield the actions of a program as they are counted: items of a block in order of writing."""
    for item in body:
        if isinstance(item, list):
            yield from flat_actions(item)
        elif item["op"] in ORDER_BLOCKS:
            yield from flat_actions(item[ORDER_BLOCKS[item["op"]]])
        else:
            yield item


def rank_programs(plan: Mapping[str, Any]) -> dict[int, list[Action]]:
    """Return the program of every rank of a flat plan.

    Raises:
        ReplayError: The plan is not flat.
    """
    programs: dict[int, list[Action]] = {}
    for selector, body in plan["ranks"].items():
        if not selector.isdecimal() or "actions" not in body:
            raise ReplayError(
                f"ranks.{selector}: a replay needs one explicit program per rank",
                hint="flatten the plan first: planguard convert --flat",
            )
        programs[int(selector)] = list(flat_actions(body["actions"]))
    return programs


def reorderable_ranks(plan: Mapping[str, Any]) -> set[int]:
    """Return the ranks whose program holds an unordered block."""
    return {
        int(rank)
        for rank, body in plan["ranks"].items()
        if any(item["op"] == "unordered" for item in body["actions"])
    }


def inner(action: Action) -> Iterator[Action]:
    """Yield the communications of an action: itself, or the members of a batch."""
    if action["op"] == "batch":
        yield from action["ops"]
    else:
        yield action


def obstacles(
    programs: Mapping[int, list[tuple[int, Action]]],
    plan: Mapping[str, Any],
    backend: str = "gloo",
) -> list[str]:
    """Say why these actions cannot be played on a backend; an empty list when they can."""
    found: dict[str, None] = {}
    if plan.get("fusion"):
        found["fused buffers are filled and flushed at run time"] = None
    for kept in programs.values():
        for _, action in kept:
            for op in (action, *inner(action)):
                reason = obstacle(op, backend)
                if reason:
                    found[reason] = None
    return list(found)


def obstacle(action: Action, backend: str = "gloo") -> str | None:
    """Say why one action cannot be played on a backend."""
    op = action["op"]
    if backend == "nccl" and op in MESSAGES and action.get("peer") == "any":
        return "NCCL cannot receive from any source"
    if op not in PLAYED:
        return REASONS.get(op, f"{op} has no counterpart in torch.distributed")
    if op in MESSAGES and action.get("tag") == "any":
        return "gloo cannot receive with any tag"
    return None


def members_of(plan: Mapping[str, Any], name: str) -> list[int]:
    """Return the global ranks of a group, in group order."""
    if name == "world" and name not in plan.get("groups", {}):
        return list(range(plan["world_size"]))
    group = plan.get("groups", {}).get(name)
    if group is None or "ranks" not in group:
        raise ReplayError(
            f"groups.{name}: a replay needs the list of its ranks",
            hint="flatten the plan first: planguard convert --flat",
        )
    return list(group["ranks"])


def creation_order(plan: Mapping[str, Any]) -> list[str]:
    """Return the groups other than ``world``: by their ``created`` position, then as listed."""
    groups = {name: group for name, group in plan.get("groups", {}).items() if name != "world"}
    return sorted(groups, key=lambda name: groups[name].get("created", len(groups)))


def collectives_on(action: Action, name: str) -> Iterator[Action]:
    """Yield the collectives of an action on a group, batch members included."""
    for op in inner(action):
        if op["op"] in COLLECTIVES and op.get("group", "world") == name:
            yield op


def started(program: Sequence[tuple[int, Action]], action: Action) -> set[int]:
    """Return the actions whose handles a wait names: stuck in wait is stuck for them."""
    if action["op"] != "wait":
        return set()
    work = action["work"]
    names = set(work) if isinstance(work, list) else {work}
    found: dict[str, int] = {}
    for at, other in program:
        if other is action:
            break
        if other["op"] not in HANDLES and other.get("work") in names:
            found[other["work"]] = at
    return set(found.values())
