"""Small random edits of plans that leave them valid: what a bug in a planner looks like."""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

Item = dict[str, Any]
POINT_TO_POINT = frozenset({"send", "recv", "isend", "irecv"})
EXCHANGES = ("all_reduce", "all_gather", "all_gather_into_tensor", "reduce_scatter_tensor")
ROOTED = ("broadcast", "reduce", "gather", "scatter")
PLAIN = frozenset({*EXCHANGES, *ROOTED, "reduce_scatter", "all_to_all_single", "barrier"})
# Where an action ends the program or names a group for the whole plan, edits would break it.
FIXED = frozenset({"new_group", "exit", "destroy"})
STARTS = POINT_TO_POINT | PLAIN | {"batch", "coalesced"}


def members(plan: Item, name: str) -> list[int]:
    """Give the ranks of a declared group; a family has none of its own."""
    if name == "world":
        return list(range(plan["world_size"]))
    return list(plan["groups"][name].get("ranks", []))


def programs(plan: Item) -> list[tuple[list[Item], int | None]]:
    """List the action lists of a plan, each with its rank if it belongs to exactly one."""
    lists: list[tuple[list[Item], int | None]] = [
        (actions, None) for actions in plan.get("templates", {}).values()
    ]
    for selector, body in plan["ranks"].items():
        if "actions" in body:
            lists.append((body["actions"], int(selector) if selector.isdigit() else None))
    return lists


def blocks(actions: list[Item]) -> list[list[Item]]:
    """List an action list and the bodies of the loops in it."""
    found = [actions]
    for action in actions:
        if action["op"] == "repeat":
            found += blocks(action["body"])
    return found


# -- single edits: each changes a block in place, or returns False if it does not apply --


def _swap(rng: random.Random, block: list[Item], _plan: Item, _rank: int | None) -> bool:
    places = [
        place
        for place in range(len(block) - 1)
        if not {block[place]["op"], block[place + 1]["op"]} & FIXED
        and block[place] != block[place + 1]
    ]
    if not places:
        return False
    place = rng.choice(places)
    block[place], block[place + 1] = block[place + 1], block[place]
    return True


def _delete(rng: random.Random, block: list[Item], _plan: Item, _rank: int | None) -> bool:
    places = [place for place, action in enumerate(block) if action["op"] not in FIXED]
    if not places:
        return False
    del block[rng.choice(places)]
    return True


def _duplicate(rng: random.Random, block: list[Item], _plan: Item, _rank: int | None) -> bool:
    places = [place for place, action in enumerate(block) if action["op"] in STARTS]
    if not places:
        return False
    place = rng.choice(places)
    twin = copy.deepcopy(block[place])
    twin.pop("id", None)
    block.insert(place, twin)
    return True


def _pick(rng: random.Random, block: list[Item], wanted: Callable[[Item], bool]) -> Item | None:
    found = [action for action in block if wanted(action)]
    return rng.choice(found) if found else None


def _root(rng: random.Random, block: list[Item], plan: Item, _rank: int | None) -> bool:
    action = _pick(rng, block, lambda item: "root" in item)
    if action is None:
        return False
    others = [r for r in members(plan, action.get("group", "world")) if r != action["root"]]
    if not others:
        return False
    action["root"] = rng.choice(others)
    return True


def _size(rng: random.Random, block: list[Item], _plan: Item, _rank: int | None) -> bool:
    action = _pick(rng, block, lambda item: "count" in item or "bytes" in item)
    if action is None:
        return False
    field = "count" if "count" in action else "bytes"
    action[field] = action[field] * 2 or 4
    return True


def _dtype(rng: random.Random, block: list[Item], _plan: Item, _rank: int | None) -> bool:
    action = _pick(rng, block, lambda item: item.get("dtype") in {"f32", "i32"})
    if action is None:
        return False
    action["dtype"] = "i32" if action["dtype"] == "f32" else "f32"
    return True


def _reduce_op(rng: random.Random, block: list[Item], _plan: Item, _rank: int | None) -> bool:
    action = _pick(rng, block, lambda item: "reduce_op" in item)
    if action is None:
        return False
    action["reduce_op"] = "max" if action["reduce_op"] != "max" else "sum"
    return True


def _label(rng: random.Random, block: list[Item], _plan: Item, _rank: int | None) -> bool:
    action = _pick(rng, block, lambda item: "label" in item)
    if action is None:
        return False
    action["label"] += "x"
    return True


def _splits(rng: random.Random, block: list[Item], _plan: Item, _rank: int | None) -> bool:
    action = _pick(rng, block, lambda item: "in_splits" in item)
    if action is None:
        return False
    splits = action[rng.choice(["in_splits", "out_splits"])]
    splits[rng.randrange(len(splits))] += 1
    action["count"] = sum(action["in_splits"])
    return True


def _tag(rng: random.Random, block: list[Item], _plan: Item, _rank: int | None) -> bool:
    action = _pick(rng, block, lambda item: item["op"] in POINT_TO_POINT)
    if action is None:
        return False
    action["tag"] = 1 - action.get("tag", 0)
    return True


def _peer(rng: random.Random, block: list[Item], plan: Item, rank: int | None) -> bool:
    action = _pick(rng, block, lambda item: isinstance(item.get("peer"), int))
    if action is None or rank is None:
        return False
    group = members(plan, action.get("group", "world"))
    others = [r for r in group if r not in (rank, action["peer"])]
    if not others:
        return False
    action["peer"] = rng.choice(others)
    return True


def _group(rng: random.Random, block: list[Item], plan: Item, rank: int | None) -> bool:
    """Move a call to another group of which its rank is a member."""
    action = _pick(rng, block, lambda item: item["op"] in {*EXCHANGES, "barrier"} | POINT_TO_POINT)
    if action is None or rank is None or isinstance(action.get("peer"), dict):
        return False
    now = action.get("group", "world")
    allowed = [
        name
        for name in ["world", *plan["groups"]]
        if name != now
        and rank in members(plan, name)
        and action.get("peer", rank) in members(plan, name)
    ]
    if not allowed:
        return False
    action["group"] = rng.choice(allowed)
    return True


def _kind(rng: random.Random, block: list[Item], _plan: Item, rank: int | None) -> bool:
    action = _pick(rng, block, lambda item: item["op"] in {*EXCHANGES, *ROOTED})
    if action is None:
        return False
    rooted = action["op"] in ROOTED
    action["op"] = rng.choice([k for k in (ROOTED if rooted else EXCHANGES) if k != action["op"]])
    if action["op"] not in {"all_reduce", "reduce", "reduce_scatter_tensor"}:
        action.pop("reduce_op", None)
    return rank is None or True


def _synchronous(rng: random.Random, block: list[Item], _plan: Item, _rank: int | None) -> bool:
    """Make an asynchronous call wait at once; its later wait goes away."""
    action = _pick(rng, block, lambda item: item["op"] in {"isend", "irecv"} or "async" in item)
    if action is None:
        return False
    if action["op"] in {"isend", "irecv"}:
        action["op"] = action["op"][1:]
    action.pop("async", None)
    action.pop("work", None)
    return True


def _asynchronous(rng: random.Random, block: list[Item], _plan: Item, _rank: int | None) -> bool:
    """Let a call return at once and wait for it at the end of the block."""
    plain = [a for a in block if a["op"] in PLAIN | {"send", "recv"} and "async" not in a]
    if not plain:
        return False
    action = rng.choice(plain)
    if action["op"] in {"send", "recv"}:
        action["op"] = "i" + action["op"]
    else:
        action["async"] = True
    action["work"] = f"late{rng.randrange(1000)}"
    end = len(block) - (block[-1]["op"] == "exit")
    block.insert(end, {"op": "wait", "work": action["work"]})
    return True


def _early_wait(rng: random.Random, block: list[Item], _plan: Item, _rank: int | None) -> bool:
    waits = [place for place, action in enumerate(block) if action["op"] == "wait" and place]
    if not waits:
        return False
    place = rng.choice(waits)
    action = block.pop(place)
    block.insert(rng.randrange(place), action)
    return True


def _stop(rng: random.Random, block: list[Item], _plan: Item, rank: int | None) -> bool:
    """End the rank's program early."""
    if rank is None or len(block) < 2:
        return False
    del block[rng.randrange(1, len(block)) :]
    if rng.random() < 0.6:
        block.append({"op": "exit"})
    return True


EDITS = (
    [_swap] * 6
    + [_delete] * 3
    + [_duplicate] * 2
    + [_asynchronous] * 2
    + [_synchronous] * 2
    + [_early_wait] * 2
    + [_group] * 2
    + [_stop] * 2
    + [_root, _size, _dtype, _reduce_op, _label, _splits, _tag, _peer, _kind]
)


def _tidy(actions: list[Item], bound: dict[str, bool], *, ends: bool) -> None:
    """Remove what an edit left invalid: waits without a call, handles bound twice, dead code."""
    place = 0
    while place < len(actions):
        action = actions[place]
        if action["op"] == "repeat":
            _tidy(action["body"], bound, ends=False)
            if not action["body"]:
                del actions[place]
                continue
        elif action["op"] in {"wait", "test", "drop"}:
            if not _tidy_wait(action, bound):
                del actions[place]
                continue
        elif "work" in action:
            if bound.get(action["work"]):
                del action["work"]
            else:
                bound[action["work"]] = True
        elif action["op"] == "exit":
            del actions[place + 1 :]
            if not ends or any(bound.values()) or _has_loose_call(actions):
                del actions[place]
            return
        place += 1


def _tidy_wait(action: Item, bound: dict[str, bool]) -> bool:
    names = [action["work"]] if isinstance(action["work"], str) else action["work"]
    alive = [name for name in dict.fromkeys(names) if bound.get(name)]
    if not alive:
        return False
    if action["op"] != "test":
        for name in alive:
            bound[name] = False
    action["work"] = alive[0] if len(alive) == 1 else alive
    return True


def _has_loose_call(actions: list[Item]) -> bool:
    """Tell whether something asynchronous is never waited: an exit would race with it."""
    return any(
        "work" not in action and (action.get("async") or action["op"] in {"isend", "irecv"})
        for block in blocks(actions)
        for action in block
    )


def tidy(plan: Item) -> Item:
    """Make a plan valid again after an edit, in place; give the plan."""
    for actions, _ in programs(plan):
        _close_loops(actions)
        _tidy(actions, {}, ends=True)
        _close_loops(actions)  # a wait that stood before its call is gone by now
    return plan


def _close_loops(actions: list[Item]) -> None:
    """Wait inside a loop for what the loop starts, so that the next pass may bind it again."""
    for action in actions:
        if action["op"] == "repeat":
            body = action["body"]
            started = {one["work"] for one in body if "work" in one and one["op"] in STARTS}
            waited = json.dumps([one for one in body if one["op"] in {"wait", "drop"}])
            for name in sorted(started):
                if f'"{name}"' not in waited:
                    body.append({"op": "wait", "work": name})
            outside = [one for one in body if one["op"] in {"wait", "drop"}]
            for one in outside:
                names = [one["work"]] if isinstance(one["work"], str) else one["work"]
                if not started.intersection(names):
                    body.remove(one)


def mutate(plan: Item, rng: random.Random) -> Item:
    """Give a copy of a plan with one random edit; the copy is valid.

    Args:
        plan: a valid plan with at least one action.
        rng: picks the edit and its place.
    """
    for _ in range(20):
        edited = copy.deepcopy(plan)
        actions, rank = rng.choice(programs(edited))
        edit = rng.choice(EDITS)
        if edit(rng, rng.choice(blocks(actions)), edited, rank):
            return tidy(edited)
    return copy.deepcopy(plan)
