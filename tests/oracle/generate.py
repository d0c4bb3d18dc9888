"""Seeded random plans: a program that matches by construction, then the edits of a careless hand.

About half of the plans complete under gloo. All are valid plan files, of 2 to 4 ranks with at most
a handful of actions each.
"""

from __future__ import annotations

import random
from typing import Any

from oracle.mutate import EXCHANGES, ROOTED, mutate, tidy

Item = dict[str, Any]
LONGEST = 6  # actions per rank, mutations aside
SIZES = (1, 4, 4, 256, 2048)  # elements; the largest is above every eager threshold in bytes
DTYPES = ("f32", "f32", "f32", "i32", "f64", "f16")
REDUCE_OPS = ("sum", "sum", "max", "min")


class _Plan:
    """A flat plan under construction: every communication reaches all its ranks at once."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.world_size = rng.choice([2, 2, 3, 3, 4])
        self.groups: dict[str, list[int]] = {}
        for name in "AB"[: rng.choice([0, 1, 1, 2])]:
            low = 1 if rng.random() < 0.1 else 2
            count = rng.randint(min(low, self.world_size), self.world_size)
            self.groups[name] = sorted(rng.sample(range(self.world_size), count))
        self.programs: list[list[Item]] = [[] for _ in range(self.world_size)]
        self.waiting: list[list[str]] = [[] for _ in range(self.world_size)]
        self.made = 0

    def members(self, group: str) -> list[int]:
        """Give the ranks of a group."""
        return self.groups.get(group, list(range(self.world_size)))

    def room(self, rank: int) -> int:
        """Count the actions that still fit, with a wait for everything open."""
        return LONGEST - len(self.programs[rank]) - len(self.waiting[rank])

    def add(self, rank: int, action: Item, *, later: bool) -> None:
        """Append an action; `later` binds its handle and leaves the wait for later."""
        if later:
            action["work"] = f"h{self.made}"
            self.waiting[rank].append(action["work"])
        self.programs[rank].append(action)

    def size(self) -> Item:
        """Draw a size in one of the spellings of the format."""
        rng = self.rng
        count, dtype = rng.choice(SIZES), rng.choice(DTYPES)
        spelling = rng.random()
        if spelling < 0.08:
            return {"bytes": count * 4}
        if spelling < 0.14:
            return {"shape": [count, 2], "dtype": dtype}
        return {"count": count, "dtype": dtype}

    def group_of(self, size: int = 1) -> tuple[str, list[int]]:
        """Draw a group with at least `size` members."""
        names = [n for n in ["world", *self.groups] if len(self.members(n)) >= size]
        name = self.rng.choice(names)
        return name, self.members(name)

    def settle(self, rank: int, *, everything: bool) -> None:
        """Wait for an open handle of a rank, or for all of them."""
        rng, open_handles = self.rng, self.waiting[rank]
        while open_handles:
            if len(open_handles) > 1 and rng.random() < 0.25:
                self.programs[rank].append({"op": "wait", "work": list(open_handles)})
                open_handles.clear()
                return
            name = open_handles.pop(rng.randrange(len(open_handles)))
            self.programs[rank].append({"op": "wait", "work": name})
            if not everything:
                return


def _collective(plan: _Plan) -> None:
    rng = plan.rng
    group, ranks = plan.group_of()
    kind = rng.choice([*EXCHANGES, *EXCHANGES, *ROOTED, "barrier", "reduce_scatter"])
    if rng.random() < 0.1:
        kind = "all_to_all_single"
    action: Item = {"op": kind}
    if group != "world":
        action["group"] = group
    if kind != "barrier":
        action |= plan.size()
    if kind in ROOTED:
        action["root"] = rng.choice(ranks)
    if kind in {"all_reduce", "reduce", "reduce_scatter_tensor"} and rng.random() < 0.3:
        action["reduce_op"] = rng.choice(REDUCE_OPS)
    if kind == "all_reduce" and rng.random() < 0.03:
        action |= {"count": 0, "dtype": "f32"}
        action.pop("bytes", None)
        action.pop("shape", None)
    if rng.random() < 0.3:
        action["label"] = f"t{plan.made}"
    table: list[list[int]] = []
    if kind == "all_to_all_single":
        # Equal parts for whatever group an edit may move the call to.
        action = {key: value for key, value in action.items() if key not in {"bytes", "shape"}}
        action |= {"count": 12 * rng.choice([1, 100]), "dtype": "f32"}
        table = _split_table(rng, len(ranks))
    mixed = rng.random() < 0.15
    later = rng.random() < 0.35
    for place, rank in enumerate(ranks):
        mine = dict(action)
        if table:
            _put_splits(mine, table, place)
        own = rng.random() < 0.5 if mixed else later
        if own:
            mine["async"] = True
        plan.add(rank, mine, later=own)


def _split_table(rng: random.Random, size: int) -> list[list[int]]:
    """Draw what each member sends to each, or nothing (equal parts)."""
    if rng.random() < 0.4:
        return []
    return [[rng.randint(0, 3) for _ in range(size)] for _ in range(size)]


def _put_splits(action: Item, table: list[list[int]], place: int) -> None:
    action["in_splits"] = list(table[place])
    action["out_splits"] = [row[place] for row in table]
    action |= {"count": sum(action["in_splits"]), "dtype": "f32"}


def _coalesced(plan: _Plan) -> None:
    rng = plan.rng
    group, ranks = plan.group_of()
    kind = rng.choice(["all_reduce", "all_reduce", *EXCHANGES[2:]])
    tensors = [{"count": rng.choice(SIZES), "dtype": "f32"} for _ in range(rng.randint(1, 2))]
    later = rng.random() < 0.4
    for rank in ranks:
        action: Item = {"op": "coalesced", "kind": kind, "ops": [dict(one) for one in tensors]}
        if group != "world":
            action["group"] = group
        if later:
            action["async"] = True
        plan.add(rank, action, later=later)


def _message(plan: _Plan) -> None:
    rng = plan.rng
    group, ranks = plan.group_of(2)
    src, dst = rng.sample(ranks, 2)
    shared: Item = plan.size()
    if group != "world":
        shared["group"] = group
    if rng.random() < 0.15:
        shared["tag"] = 1
    if rng.random() < 0.25:
        shared["label"] = f"m{plan.made}"
    for rank, peer, kind in ((src, dst, "send"), (dst, src, "recv")):
        later = rng.random() < 0.4
        plan.add(rank, {"op": ("i" if later else "") + kind, "peer": peer, **shared}, later=later)


def _exchange(plan: _Plan) -> None:
    """Two ranks swap messages in a batch each, or a ring of batches."""
    rng = plan.rng
    group, ranks = plan.group_of(2)
    ring = rng.sample(ranks, rng.randint(2, len(ranks)))
    size = plan.size()
    if group != "world":
        size["group"] = group
    later = rng.random() < 0.3
    for place, rank in enumerate(ring):
        after, before = ring[(place + 1) % len(ring)], ring[place - 1]
        pair = [
            {"op": "isend", "peer": after, **size},
            {"op": "irecv", "peer": before, **size},
        ]
        if rng.random() < 0.4:
            pair.reverse()
        plan.add(rank, {"op": "batch", "ops": pair}, later=later)


def _overlap(plan: _Plan) -> None:
    """Run calls on several groups at the same time, in an order that may differ by rank."""
    rng = plan.rng
    names = ["world", *plan.groups]
    calls = [(name, f"o{plan.made}{name}") for name in names]
    for rank in range(plan.world_size):
        mine = [call for call in calls if rank in plan.members(call[0])]
        if rng.random() < 0.4:
            rng.shuffle(mine)
        for name, label in mine:
            action: Item = {"op": "all_reduce", "count": 4, "dtype": "f32", "label": label}
            if name != "world":
                action["group"] = name
            plan.add(rank, {**action, "async": True}, later=True)


def _prelude(plan: _Plan) -> None:
    """Create groups, or their communicators, before the first communication."""
    rng = plan.rng
    if plan.groups and rng.random() < 0.06:
        for name in plan.groups:
            for program in plan.programs:
                program.append({"op": "new_group", "group": name})
    if rng.random() < 0.15:
        for name in ["world", *plan.groups]:
            for rank in plan.members(name):
                plan.programs[rank].append({"op": "init", "group": name})


def _decorate(plan: _Plan) -> None:
    """Add what concerns one rank alone: streams and events, host syncs, compute, polling."""
    rng = plan.rng
    for program in plan.programs:
        if rng.random() < 0.12:
            program.insert(rng.randint(0, len(program)), {"op": "host_sync"})
        if rng.random() < 0.06:
            program.insert(rng.randint(0, len(program)), {"op": "compute", "op_name": "matmul"})
        if rng.random() < 0.15:
            _use_streams(rng, program)


def _use_streams(rng: random.Random, program: list[Item]) -> None:
    for action in program:
        if action["op"] not in {"init", "new_group"} and rng.random() < 0.5:
            action["stream"] = "side"
    if rng.random() < 0.5:
        place = rng.randint(0, len(program))
        first, second = rng.sample(["main", "side"], 2)
        program.insert(place, {"op": "event_record", "event": "e", "stream": first})
        after = rng.randint(place + 1, len(program))
        program.insert(after, {"op": "event_wait", "event": "e", "stream": second})


def _drop_one(rng: random.Random, program: list[Item]) -> None:
    """Let a handle die as soon as the call is made, instead of waiting for it."""
    waits = [a for a in program if a["op"] == "wait" and isinstance(a["work"], str)]
    if not waits:
        return
    wait = rng.choice(waits)
    program.remove(wait)
    start = next(place for place, a in enumerate(program) if a.get("work") == wait["work"])
    program.insert(start + 1, {"op": "drop", "work": wait["work"]})


def _flat(rng: random.Random) -> Item:
    plan = _Plan(rng)
    _prelude(plan)
    makers = [_collective] * 5 + [_message] * 5 + [_exchange, _coalesced, _overlap]
    for _ in range(rng.randint(2, 8)):
        if min(plan.room(rank) for rank in range(plan.world_size)) < 2:
            break
        rng.choice(makers)(plan)
        plan.made += 1
        for rank in range(plan.world_size):
            if rng.random() < 0.4:
                plan.settle(rank, everything=False)
    for rank in range(plan.world_size):
        if rng.random() < 0.9:
            plan.settle(rank, everything=True)
    _decorate(plan)
    if rng.random() < 0.04:
        _drop_one(rng, rng.choice(plan.programs))
    return {
        "schema": "planguard.plan/1",
        "world_size": plan.world_size,
        "groups": {name: {"ranks": ranks} for name, ranks in plan.groups.items()},
        "templates": {},
        "ranks": {str(rank): {"actions": acts} for rank, acts in enumerate(plan.programs)},
    }


# -- plans on a mesh ------------------------------------------------------------------------------


def _mesh(rng: random.Random) -> Item:
    """A pipeline of two stages, or one program for all, over families of groups."""
    pipeline = rng.random() < 0.5
    names = ["pp" if pipeline else "dp"] + (["tp"] if rng.random() < 0.7 else [])
    dims = [[name, 2] for name in names]
    size = {"count": rng.choice(SIZES), "dtype": "f32"}
    inner: Item = {"op": "all_reduce", "group": names[-1], **size}
    if rng.random() < 0.4:
        inner["label"] = "layer{i}"
    times = rng.choice([1, 2, 2])
    if pipeline:
        templates, ranks = _stages(rng, inner, size, times)
    else:
        templates, ranks = _replicas(rng, inner, names[0], times), {"dp=0-1": {"template": "all"}}
    return {
        "schema": "planguard.plan/1",
        "world_size": 2 ** len(dims),
        "mesh": {"dims": dims},
        "groups": {name: {"mesh_dims": [name]} for name in names},
        "templates": templates,
        "ranks": ranks,
    }


def _stages(rng: random.Random, inner: Item, size: Item, times: int) -> tuple[Item, Item]:
    hop: Item = {"group": "pp", **size}
    down = {"op": "send", "peer": {"pp": 1}, **hop}
    up = {"op": "recv", "peer": {"pp": 1}, **hop}
    first, last = [down, up], [_opposite(down), _opposite(up)]
    if rng.random() < 0.3:
        first, last = [{"op": "batch", "ops": one} for one in (first, last)], []
        first, last = [first[0]], [{"op": "batch", "ops": [_opposite(down), _opposite(up)]}]
    elif rng.random() < 0.4:
        first = [{**down, "op": "isend", "work": "s"}, up, {"op": "wait", "work": "s"}]
    templates = {}
    for name, hops in (("first", first), ("last", last)):
        body = [*hops]
        if inner["group"] != "pp" or rng.random() < 0.3:
            body.insert(0, dict(inner))
        templates[name] = [{"op": "repeat", "times": times, "body": body}]
    ranks = {"pp=0": {"template": "first"}, "pp=1": {"template": "last"}}
    return templates, ranks


def _opposite(hop: Item) -> Item:
    return {**hop, "op": "recv" if hop["op"] == "send" else "send", "peer": {"pp": -1}}


def _replicas(rng: random.Random, inner: Item, outer: str, times: int) -> Item:
    sync: Item = {"op": rng.choice(EXCHANGES), "group": outer, "count": 4, "dtype": "f32"}
    body: list[Item] = [inner]
    if rng.random() < 0.5:
        body = [{**inner, "async": True, "work": "g"}, {"op": "wait", "work": "g"}]
    if rng.random() < 0.3:
        ring = {"group": outer, "count": 1, "dtype": "f32"}
        body.append(
            {
                "op": "batch",
                "ops": [
                    {"op": "isend", "peer": {outer: 1, "wrap": True}, **ring},
                    {"op": "irecv", "peer": {outer: -1, "wrap": True}, **ring},
                ],
            }
        )
    loop: Item = {"op": "repeat", "times": times, "body": body}
    return {"all": [loop, sync] if rng.random() < 0.5 else [sync, loop]}


def _single_out(rng: random.Random, plan: Item) -> Item:
    """Give one rank of a mesh plan its own program, so that an edit reaches it alone."""
    rank = rng.randrange(plan["world_size"])
    owners: dict[int, str] = {}
    for selector, body in plan["ranks"].items():
        dim, _, values = selector.partition("=")
        low, _, high = values.partition("-")
        place = [name for name, _ in plan["mesh"]["dims"]].index(dim)
        for other in range(plan["world_size"]):
            coordinate = other // 2 ** (len(plan["mesh"]["dims"]) - 1 - place) % 2
            if int(low) <= coordinate <= int(high or low):
                owners[other] = body["template"]
    ranks: Item = {}
    for other, template in sorted(owners.items()):
        ranks[str(other)] = {"template": template}
    ranks[str(rank)] = {"actions": [_copied(one) for one in plan["templates"][owners[rank]]]}
    return {**plan, "ranks": ranks}


def _copied(action: Item) -> Item:
    return (
        {**action, "body": [dict(one) for one in action["body"]]}
        if "body" in action
        else {**action}
    )


def generate(seed: int) -> Item:
    """Give the plan of a seed: the same seed always gives the same plan."""
    rng = random.Random(seed)
    if rng.random() < 0.2:
        plan = _mesh(rng)
        if rng.random() < 0.5:
            plan = _single_out(rng, plan)
    else:
        plan = _flat(rng)
    plan = tidy(plan)
    for _ in range(rng.choice([0, 0, 1, 1, 2, 3])):
        plan = mutate(plan, rng)
    return plan
