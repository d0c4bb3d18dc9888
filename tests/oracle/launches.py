"""Random plans in which negotiated buffers stand beside other calls of devices."""

from __future__ import annotations

import random
from typing import Any

Item = dict[str, Any]


def piece(rng: random.Random, name: str, groups: dict[str, list[int]], home: str) -> list[Item]:
    """Return what one thing of a plan adds to each rank: a call, and maybe a wait for it."""
    if name.startswith("m"):
        call: Item = {"op": "all_reduce", "async": True, "bytes": 4, "group": home, "id": name}
        call |= {"work": name} | ({"label": name} if rng.random() < 0.97 else {})
        return [call, {"op": "wait", "work": name}]
    if rng.random() < 0.25:
        return [{"op": "send", "bytes": 8, "id": name}]
    call = {"op": "all_reduce", "bytes": 8, "group": rng.choice(list(groups)), "id": name}
    if rng.random() < 0.6:
        call["label"] = name
    if rng.random() < 0.5:
        return [call]
    call |= {"async": True, "work": name}
    return [call, {"op": "wait", "work": name}] if rng.random() < 0.8 else [call]


def blocks(rng: random.Random, actions: list[Item]) -> list[Any]:
    """Put calls in a row into a block, sometimes, and a wait behind its call in a chain there."""
    out: list[Any] = []
    left = list(actions)
    while left:
        size = rng.choice([1, 1, 1, 2, 2, 3])
        part, left = left[:size], left[size:]
        names = {one.get("id") for one in part}
        is_whole = all(one["op"] != "wait" or one["work"] in names for one in part)
        if len(part) < 2 or not is_whole or rng.random() < 0.55:
            out += part
            continue
        body: list[Any] = []
        waits = {one["work"]: one for one in part if one["op"] == "wait"}
        begun: list[str] = []
        for one in part:
            if one["op"] == "wait":
                continue
            if one["id"] in waits:
                body.append([one, waits[one["id"]]])
                continue
            after = [name for name in begun if rng.random() < 0.4]
            body.append(one | ({"after": after} if after else {}))
            begun.append(one["id"])
        out.append({"op": "unordered", "body": body})
    return out


def laid_out(rng: random.Random, pieces: dict[str, list[Item]], usual: list[str]) -> list[Item]:
    """Return calls in an order, and the wait for each somewhere behind it."""
    actions = [pieces[name][0] for name in usual]
    for name in usual:
        if len(pieces[name]) > 1 and rng.random() < 0.9:
            first = actions.index(pieces[name][0]) + 1
            actions.insert(rng.randint(first, len(actions)), pieces[name][1])
    return actions


def random_plan(seed: int) -> Item:
    """Return a plan of two or three ranks whose programs are the same or differ."""
    rng = random.Random(f"negotiated launches {seed}")
    world = rng.choice([2, 2, 2, 3])
    everyone = list(range(world))
    groups = {"world": everyone, "other": everyone}
    if world == 3:
        groups["pair"] = sorted(rng.sample(everyone, 2))
    home = rng.choice(list(groups)) if rng.random() < 0.5 else "world"
    members = [f"m{n}" for n in range(rng.choice([1, 1, 2, 2, 3]))]
    usual = members + [f"x{n}" for n in range(rng.choice([1, 1, 2, 2, 3]))]
    pieces = {name: piece(rng, name, groups, home) for name in usual}
    ends = {name: rng.sample(everyone, 2) for name in usual if pieces[name][0]["op"] == "send"}
    rng.shuffle(usual)
    first = laid_out(rng, pieces, usual)
    programs = []
    for rank in everyone:
        mine = list(first)
        if rng.random() < 0.25:
            order = list(usual)
            order.insert(rng.randrange(len(order)), order.pop(rng.randrange(len(order))))
            mine = laid_out(rng, pieces, order)
        for _ in range(rng.choice([0, 0, 0, 1, 2])):
            at = rng.randrange(max(1, len(mine) - 1))
            pair = mine[at : at + 2]
            if len(pair) > 1 and pair[1].get("work") != pair[0].get("work", ""):
                mine[at : at + 2] = pair[::-1]
        lost = rng.choice(members) if rng.random() < 0.04 else ""
        wide = rng.choice(members) if rng.random() < 0.02 else ""
        own: list[Item] = []
        for one in mine:
            name = one.get("id", one.get("work"))
            group = groups[one["group"]] if "group" in one else everyone
            call = pieces[name][0]
            if name == lost or rank not in (groups[call["group"]] if "group" in call else group):
                continue
            if name in ends and rank not in ends[name]:
                continue
            if name in ends:
                op = "send" if rank == ends[name][0] else "recv"
                one = one | {"op": op, "peer": ends[name][1 if op == "send" else 0]}  # noqa: PLW2901
            own.append(one | ({"bytes": 12} if name == wide and "bytes" in one else {}))
        programs.append(own)
    whole = blocks(rng, programs[0])
    done = []
    for rank, own in enumerate(programs):
        same = own == programs[0] and rng.random() < 0.6
        done.append(whole if rank == 0 or same else blocks(rng, own))
    return {
        "schema": "planguard.plan/1",
        "world_size": world,
        "groups": {name: {"ranks": who} for name, who in groups.items() if name != "world"},
        "fusion": [{"id": "f", "group": home, "members": members, "coordination": "negotiated"}],
        "ranks": {str(rank): {"actions": actions} for rank, actions in enumerate(done)},
    }


def crossed(seed: int) -> Item:
    """Return a plan of two ranks in which one member may be waited for before another one is
    submitted, in a block whose chains may change places, or in programs that differ.
    """
    rng = random.Random(f"crossed {seed}")
    members = ["m0", "m1"]
    groups = {"world": [0, 1], "other": [0, 1]}
    extra = [f"x{n}" for n in range(rng.choice([1, 1, 2]))]
    calls = {name: piece(rng, name, groups, "world")[0] for name in members}
    for name in extra:
        calls[name] = {"op": "all_reduce", "bytes": 8, "id": name, "label": name}
        calls[name]["group"] = rng.choice(list(groups))
    programs: list[list[Any]] = []
    for rank in (0, 1):
        if rank and rng.random() < 0.4:
            programs.append(programs[0])
            continue
        chains: list[list[Item]] = []
        late = []
        for name in members:
            wait = {"op": "wait", "work": name}
            if rng.random() < 0.3:
                late.append(wait)
            chains.append([calls[name]] if wait in late else [calls[name], wait])
        for name in extra:
            into = rng.choice([*chains, chains[0], []])
            if into:
                into.insert(rng.randint(0, len(into)), calls[name])
            else:
                chains.append([calls[name]])
        rng.shuffle(chains)
        joined = [{"op": "wait", "work": [one["work"] for one in late]}]
        tail = joined if len(late) > 1 and rng.random() < 0.5 else late
        front = [one for chain in chains for one in chain]
        if rng.random() < 0.7:
            front = [{"op": "unordered", "body": chains}]
        programs.append([*front, *tail])
    return {
        "schema": "planguard.plan/1",
        "world_size": 2,
        "groups": {"other": {"ranks": [0, 1]}},
        "fusion": [{"id": "f", "group": "world", "members": members,
                    "coordination": "negotiated"}],
        "ranks": {str(rank): {"actions": actions} for rank, actions in enumerate(programs)},
    }  # fmt: skip


def apart(seed: int) -> Item:
    """Return a plan of three ranks of which two negotiate, and few calls join the others.

    Most are safe wherever a launch comes; some have a cycle through all three.
    """
    rng = random.Random(f"apart {seed}")
    pairs = {"p01": [0, 1], "p12": [1, 2], "p02": [0, 2]}
    members = [f"m{n}" for n in range(rng.choice([1, 1, 2]))]
    calls = {name: (pairs["p01"], piece(rng, name, {}, "p01")) for name in members}
    for name in [f"x{n}" for n in range(rng.choice([1, 2, 2, 3]))]:
        group = rng.choice(["p12", "p12", "p02", "p01"])
        call: Item = {"op": "all_reduce", "bytes": 8, "id": name, "label": name, "group": group}
        wait = {"op": "wait", "work": name}
        late = call | {"async": True, "work": name}
        mine = [call] if rng.random() < 0.5 else [late, wait]
        if len(mine) == 1 and rng.random() < 0.4:
            mine = [{"op": "send", "bytes": 8, "id": name}]
        calls[name] = (pairs[group], mine)
    usual = list(calls)
    rng.shuffle(usual)
    programs = []
    for rank in range(3):
        here = [name for name in usual if rank in calls[name][0]]
        if rng.random() < 0.2:
            rng.shuffle(here)
        own = []
        for one in laid_out(rng, {name: calls[name][1] for name in here}, here):
            if one["op"] == "send":
                low, high = calls[one["id"]][0]
                op, peer = ("send", high) if rank == low else ("recv", low)
                own.append(one | {"op": op, "peer": peer})
            else:
                own.append(one)
        programs.append(blocks(rng, own) if rng.random() < 0.5 else own)
    return {
        "schema": "planguard.plan/1",
        "world_size": 3,
        "groups": {name: {"ranks": who} for name, who in pairs.items()},
        "fusion": [{"id": "f", "group": "p01", "members": members, "coordination": "negotiated"}],
        "ranks": {str(rank): {"actions": actions} for rank, actions in enumerate(programs)},
    }


def created(seed: int, plan: Item) -> Item:
    """Return a plan in which the ranks create some groups by `init`: mostly at the beginning, else
    between other actions; sometimes one rank in another order, or one rank does not.
    """
    rng = random.Random(f"created {seed}")
    groups = {"world": list(range(plan["world_size"]))}
    groups |= {name: group["ranks"] for name, group in plan["groups"].items()}
    chosen = rng.sample(list(groups), rng.choice([1, len(groups), rng.randint(1, len(groups))]))
    turned = rng.randrange(plan["world_size"]) if rng.random() < 0.25 else -1
    lost = rng.randrange(plan["world_size"]) if rng.random() < 0.05 else -1
    longest = max(len(program["actions"]) for program in plan["ranks"].values())
    places = {name: 0 if rng.random() < 0.6 else rng.randint(0, longest) for name in chosen}
    if rng.random() < 0.3:
        places = dict.fromkeys(chosen, 0)
    ranks: dict[str, Item] = {}
    for text, program in plan["ranks"].items():
        rank = int(text)
        mine = [name for name in chosen if rank in groups[name]]
        if rank == turned:
            rng.shuffle(mine)
        behind: dict[int, list[Item]] = {}
        for name in mine[1 if rank == lost else 0 :]:
            place = places[name]
            if place and rng.random() < 0.3:
                place += rng.choice([-1, 1])
            place = min(place, len(program["actions"]))
            behind.setdefault(place, []).append({"op": "init", "group": name})
        actions: list[Item] = []
        for place, action in enumerate([*program["actions"], None]):
            actions += behind.get(place, [])
            actions += [action] if action is not None else []
        ranks[text] = {"actions": actions}
    return plan | {"ranks": ranks}


def standing(seed: int) -> Item:
    """Return a plan in which hosts submit, create and wait in much the same order, before calls
    that are behind every member: whether hosts get through is nearly all that is open.
    """
    rng = random.Random(f"standing {seed}")
    world = rng.choice([2, 2, 3])
    everyone = list(range(world))
    groups = {"world": everyone, "a": everyone, "b": everyone}
    if world > 2:
        groups |= {"p12": [1, 2], "p02": [0, 2]}
    home = rng.choice(["world", "a", *(["p12"] if world > 2 else [])])
    members = [f"m{n}" for n in range(rng.choice([1, 1, 2]))]
    call: Item = {"op": "all_reduce", "async": True, "bytes": 4, "group": home}
    made = rng.sample(list(groups), rng.randint(1, min(3, len(groups))))
    steps: list[tuple[list[int], Item]] = [
        (groups[home], call | {"id": name, "work": name, "label": name}) for name in members
    ]
    for name in made:
        create: Item = {"op": "init", "group": name}
        if rng.random() < 0.2:
            create = {"op": "all_reduce", "async": True, "bytes": 8, "group": name, "label": name}
        steps.insert(rng.randint(0, len(steps)), (groups[name], create))
    for name in members:
        first = next(at for at, (_, one) in enumerate(steps) if one.get("id") == name)
        wait = (groups[home], {"op": "wait", "work": name})
        steps.insert(rng.randint(first + 1, len(steps)), wait)
    used = [name for name in (*made, "b") if rng.random() < 0.7]
    programs = []
    for rank in everyone:
        mine = list(steps)
        for _ in range(rng.choice([0, 0, 1, 1, 2])):
            moved = mine.pop(rng.randrange(len(mine)))
            low, high = 0, len(mine)
            for at, (_, one) in enumerate(mine):
                if one.get("work") == moved[1].get("work", ""):
                    low, high = (at + 1, high) if moved[1]["op"] == "wait" else (low, at)
            mine.insert(rng.randint(low, high), moved)
        tail = [
            {"op": "all_reduce", "bytes": 8, "group": name, "label": f"x{name}"}
            for name in used
            if rank in groups[name]
        ]
        programs.append([one for who, one in mine if rank in who] + tail)
    return {
        "schema": "planguard.plan/1",
        "world_size": world,
        "groups": {name: {"ranks": who} for name, who in groups.items() if name != "world"},
        "fusion": [{"id": "f", "group": home, "members": members, "coordination": "negotiated"}],
        "ranks": {str(rank): {"actions": actions} for rank, actions in enumerate(programs)},
    }


def draw(seed: int) -> Item:
    """Return any plan, one of four with crossed waits, or one of four of three ranks."""
    return {1: apart, 3: crossed}.get(seed % 4, random_plan)(seed)
