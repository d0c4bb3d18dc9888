"""One change in the communication of one rank, as a programmer or a planner might make it.

A mutant of a flat plan; the place is known, so that one can ask whether a verdict names it.
"""

from __future__ import annotations

import copy
import random
from dataclasses import dataclass
from typing import Any

Item = dict[str, Any]

ROOTED = ("broadcast", "reduce", "gather", "scatter")
PAIRED = ("send", "recv", "isend", "irecv")
COLLECTIVE = (
    *ROOTED, "all_reduce", "all_gather", "all_gather_into_tensor", "reduce_scatter",
    "reduce_scatter_tensor", "all_to_all", "all_to_all_single", "barrier",
)  # fmt: skip
KINDS = (
    "drop", "duplicate", "swap", "group-order", "root", "peer", "dtype", "numel", "group",
    "creation",
)  # fmt: skip
OTHER_DTYPE = {"f32": "f16", "f16": "f32", "i64": "i32", "i32": "i64", "f64": "f32", "u8": "i16"}


@dataclass(frozen=True)
class Mutation:
    """What was changed.

    Attributes:
        kind: One of ``KINDS``.
        rank: The rank whose program was changed.
        action: Index of the changed action in the program before the change.
        text: The change in words.
    """

    kind: str
    rank: int
    action: int
    text: str


@dataclass(frozen=True)
class _Site:
    """A place in a plan that is being changed: the action ``at`` of one rank's program."""

    document: Item
    program: list[Item]
    rank: int
    at: int
    rng: random.Random


def mutant(document: Item, seed: int) -> tuple[Item, Mutation]:
    """Return a changed copy of a flat plan, and the change; the same for the same seed."""
    rng = random.Random(seed)
    kinds = list(KINDS)
    rng.shuffle(kinds)
    for kind in kinds:
        found = places(document, kind)
        if found:
            rank, at = rng.choice(found)
            changed = copy.deepcopy(document)
            program = changed["ranks"][str(rank)]["actions"]
            text = _CHANGES[kind](_Site(changed, program, rank, at, rng))
            return changed, Mutation(kind, rank, at, text)
    raise ValueError("nothing to change in this plan")


def places(document: Item, kind: str) -> list[tuple[int, int]]:
    """Return the actions, as rank and index, that a kind of change applies to."""
    return [
        (int(rank), at)
        for rank, body in document["ranks"].items()
        for at, action in enumerate(body["actions"])
        if _applies(document, body["actions"], int(rank), at, kind)
    ]


def calls(program: list[Item]) -> list[int]:
    """Return the indices of the communications of a program."""
    return [at for at, a in enumerate(program) if a["op"] in COLLECTIVE or a["op"] in PAIRED]


def signature(action: Item) -> tuple[Any, ...]:
    """Return what of a call its partners see."""
    names = ("op", "group", "count", "bytes", "dtype", "root", "peer", "tag", "reduce_op")
    return tuple(action.get(name) for name in names)


def _applies(document: Item, program: list[Item], rank: int, at: int, kind: str) -> bool:
    action = program[at]
    if kind == "creation":
        after = program[at + 1] if at + 1 < len(program) else {"op": ""}
        return action["op"] == after["op"] == "new_group" and action["group"] != after["group"]
    if action["op"] not in COLLECTIVE and action["op"] not in PAIRED:
        return False
    if kind == "root":
        return action["op"] in ROOTED and len(_members(document, action)) > 1
    if kind == "peer":
        return action["op"] in PAIRED and len(_members(document, action)) > 2
    if kind in ("dtype", "numel"):
        return action.get("count", 0) > 0 and action.get("dtype") in OTHER_DTYPE
    if kind == "group":
        return action["op"] not in ROOTED + PAIRED and bool(_others(document, rank, action))
    if kind in ("swap", "group-order"):
        after = _next(program, at)
        if after is None or signature(program[after]) == signature(action):
            return False
        return (program[after].get("group") != action.get("group")) == (kind == "group-order")
    return kind in ("drop", "duplicate")


def _next(program: list[Item], at: int) -> int | None:
    """Return the next call, unless the program waits for this one before it."""
    for after in range(at + 1, len(program)):
        if program[after]["op"] == "wait" and program[at].get("work") in _works(program[after]):
            return None
        if program[after]["op"] in COLLECTIVE or program[after]["op"] in PAIRED:
            return after
    return None


def _members(document: Item, action: Item) -> list[int]:
    name = action.get("group", "world")
    everyone = list(range(document["world_size"]))
    return document.get("groups", {}).get(name, {"ranks": everyone})["ranks"]


def _others(document: Item, rank: int, action: Item) -> list[str]:
    """Return other groups of a rank, with other members."""
    own = set(_members(document, action))
    named = {"world": {"ranks": list(range(document["world_size"]))}, **document["groups"]}
    return [
        name
        for name, group in named.items()
        if rank in group["ranks"] and set(group["ranks"]) != own and len(group["ranks"]) > 1
    ]


def _works(wait: Item) -> list[str]:
    return [wait["work"]] if isinstance(wait["work"], str) else list(wait["work"])


def _say(action: Item) -> str:
    return f"{action['op']} on {action.get('group', 'world')}"


def _drop(site: _Site) -> str:
    action = site.program.pop(site.at)
    if "work" in action:
        for wait in [a for a in site.program if a["op"] == "wait" and action["work"] in _works(a)]:
            wait["work"] = [work for work in _works(wait) if work != action["work"]]
            if not wait["work"]:
                site.program.remove(wait)
    return f"left out {_say(action)}"


def _duplicate(site: _Site) -> str:
    again = copy.deepcopy(site.program[site.at])
    if "work" in again:
        again["work"] += "-again"
        for wait in site.program:
            if wait["op"] == "wait" and site.program[site.at]["work"] in _works(wait):
                wait["work"] = [*_works(wait), again["work"]]
    site.program.insert(site.at + 1, again)
    return f"issued {_say(again)} twice"


def _swap(site: _Site) -> str:
    after = _next(site.program, site.at)
    assert after is not None
    site.program[site.at], site.program[after] = site.program[after], site.program[site.at]
    return f"{_say(site.program[after])} and {_say(site.program[site.at])} changed places"


def _root(site: _Site) -> str:
    action = site.program[site.at]
    before = action.get("root", 0)
    action["root"] = site.rng.choice(
        [one for one in _members(site.document, action) if one != before]
    )
    return f"root of {_say(action)}: {action['root']} for {before}"


def _peer(site: _Site) -> str:
    action = site.program[site.at]
    before = action["peer"]
    left = [one for one in _members(site.document, action) if one not in (before, site.rank)]
    action["peer"] = site.rng.choice(left)
    return f"peer of {action['op']}: {action['peer']} for {before}"


def _dtype(site: _Site) -> str:
    action = site.program[site.at]
    before = action["dtype"]
    action["dtype"] = OTHER_DTYPE[before]
    return f"dtype of {_say(action)}: {action['dtype']} for {before}"


def _numel(site: _Site) -> str:
    action = site.program[site.at]
    before = action["count"]
    action["count"] = site.rng.choice([2 * before, before + 1, max(1, before // 2)])
    if action["count"] == before:
        action["count"] += 1
    return f"elements of {_say(action)}: {action['count']} for {before}"


def _group(site: _Site) -> str:
    action = site.program[site.at]
    before = _say(action)
    action["group"] = site.rng.choice(_others(site.document, site.rank, action))
    return f"{before} went to {action['group']}"


def _creation(site: _Site) -> str:
    first, second = site.program[site.at], site.program[site.at + 1]
    site.program[site.at : site.at + 2] = [second, first]
    return f"groups {first['group']} and {second['group']} made in other order"


_CHANGES = {
    "drop": _drop,
    "duplicate": _duplicate,
    "swap": _swap,
    "group-order": _swap,
    "root": _root,
    "peer": _peer,
    "dtype": _dtype,
    "numel": _numel,
    "group": _group,
    "creation": _creation,
}
