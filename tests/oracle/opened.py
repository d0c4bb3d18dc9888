"""Random plans whose executions differ: branches, wildcards, waits for one of several, threads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oracle.generate import generate

if TYPE_CHECKING:
    import random

Item = dict[str, Any]
_ALONE = frozenset({"repeat", "exit", "new_group", "destroy", "init", "drop"})
_ORDERED = frozenset({"event_wait", "event_record", "host_sync", "compute"})


def programs(document: Item) -> list[list[Any]]:
    """Give the action lists of a plan, to be changed in place."""
    return [*document["templates"].values()] + [
        rank["actions"] for rank in document["ranks"].values() if "actions" in rank
    ]


def branched(seed: int, rng: random.Random) -> Item:
    """Give the plan of a seed with some stretches of it in data-dependent branches."""
    document = generate(seed)
    uniform = {name: rng.random() < 0.4 for name in "ab"}
    for program in programs(document):
        for _ in range(rng.choice([0, 1, 1, 2])):
            name = rng.choice("ab")
            place = _stretch(program, rng, rng.choice([0, 1, 1, 2, 2]))
            if place is None:
                continue
            body = program[place]
            other = _variant(body, rng)
            branches = [body, other] if rng.random() < 0.5 else [other, body]
            choice = {"op": "choice", "name": name, "branches": branches}
            if uniform[name]:
                choice["uniform"] = True
            program[place] = [choice]
    return document


def _stretch(program: list[Any], rng: random.Random, length: int) -> slice | None:
    """Draw a stretch that starts and waits for its own handles only."""
    if len(program) < length:
        return None
    first = rng.randint(0, len(program) - length)
    place = slice(first, first + length)
    body = program[place]
    if any(item["op"] in _ALONE | {"choice", "threads"} or "id" in item for item in body):
        return None
    started = {item["work"] for item in body if "work" in item and item["op"] != "wait"}
    waited: set[str] = set()
    for item in body:
        if item["op"] in {"wait", "test"}:
            waited |= {item["work"]} if isinstance(item["work"], str) else set(item["work"])
    return place if started == waited else None


def _variant(body: list[Any], rng: random.Random) -> list[Any]:
    """Draw what the other branch does: nothing, less, the same, or the same on other data."""
    plain = [item for item in body if "work" not in item]
    pick = rng.random()
    if pick < 0.35 or not plain:
        return []
    if pick < 0.6:
        return [dict(item) for item in plain[:-1]]
    copies = [dict(item) for item in plain]
    if pick < 0.8:
        for item in copies:
            if "count" in item and "in_splits" not in item:
                item["count"] = item["count"] * 2 + 1
    return copies


def wild(seed: int, rng: random.Random) -> Item:
    """Give the plan of a seed with receives from any source and waits for one of several."""
    return widen(generate(seed), rng)


def widen(document: Item, rng: random.Random) -> Item:
    """Let receives of a plan take any message, waits pass with one handle, and look first."""
    for program in programs(document):
        for item in list(program):
            inner = item.get("body", item.get("ops", [item]))
            for part in inner:
                if part.get("op") in {"recv", "irecv"} and rng.random() < 0.6:
                    part["peer"] = "any"
                    if rng.random() < 0.15:
                        part["tag"] = "any"
        _wait_for_one(program, rng)
        if rng.random() < 0.15:
            _look_first(program, rng)
    return document


def created(seed: int, rng: random.Random) -> Item:
    """Give a wild plan that creates its groups: mostly by all ranks, in one order, before use."""
    document = wild(seed, rng)
    size = document["world_size"]
    members = sorted(rng.sample(range(size), min(size, rng.choice([2, 2, 3]))))
    groups = document.setdefault("groups", {"g": {"ranks": members}})
    is_made = any(item["op"] == "new_group" for one in programs(document) for item in one)
    if is_made or any("ranks" not in group for group in groups.values()):
        return document
    how = rng.random()
    for program in programs(document):
        names = rng.sample(list(groups), len(groups)) if how < 0.1 else list(groups)
        first = 0
        for name in names:
            if how < 0.05 and rng.random() < 0.2:
                continue
            uses = [at for at, one in enumerate(program) if at >= first and _uses(one, groups)]
            at = rng.randint(first, min(uses, default=len(program)))
            program.insert(at, {"op": "new_group", "group": name})
            first = at + 1
    return document


def _uses(item: Item, groups: Item) -> bool:
    inner = [*item.get("ops", []), *item.get("body", [])]
    return item.get("group") in groups or any(_uses(one, groups) for one in inner)


def _wait_for_one(program: list[Any], rng: random.Random) -> None:
    waits = [item for item in program if item["op"] == "wait"]
    for item in waits:
        if isinstance(item["work"], list) and len(item["work"]) > 1 and rng.random() < 0.7:
            again = dict(item)
            item["mode"] = rng.choice(["any", "some"])
            if rng.random() < 0.5:
                program.insert(rng.randint(program.index(item) + 1, len(program)), again)


def _look_first(program: list[Any], rng: random.Random) -> None:
    """Put a probe in front of a receive."""
    places = [at for at, item in enumerate(program) if item["op"] in {"recv", "irecv"}]
    if places:
        at = rng.choice(places)
        look = {key: program[at][key] for key in ("peer", "tag", "group") if key in program[at]}
        if rng.random() < 0.3:
            look["peer"] = "any"
        program.insert(at, {"op": "probe", **look})


def threaded(seed: int, rng: random.Random) -> Item:
    """Give the plan of a seed with some stretches of it in two host threads."""
    document = generate(seed)
    for program in programs(document):
        place = _stretch(program, rng, rng.choice([2, 2, 3]))
        if place is None or rng.random() < 0.3:
            continue
        threads: list[list[Any]] = [[], []]
        owner: dict[str, int] = {}
        for item in program[place]:
            mine = rng.randrange(2)
            if "work" in item and item["op"] in {"wait", "test"}:
                names = [item["work"]] if isinstance(item["work"], str) else item["work"]
                mine = owner[names[0]]
            elif "work" in item:
                owner[item["work"]] = mine
            threads[mine].append(item)
        program[place] = [{"op": "threads", "threads": threads}]
    return document


def raced(seed: int, rng: random.Random) -> Item:
    """Give a plan whose ranks make most of their calls from two or three threads.

    All calls are labeled, so every race for a place on a communicator or channel can be judged.
    """
    del seed
    world = rng.choice([2, 2, 3])
    groups = {name: sorted(rng.sample(range(world), 2)) for name in "AB"[: rng.choice([0, 1, 2])]}
    own: list[list[list[Item]]] = [[] for _ in range(world)]
    for number in range(rng.randint(2, 4)):
        for rank, items in _labeled_call(number, world, groups, rng).items():
            own[rank].append(items)
    ranks = {str(rank): {"actions": _in_threads(calls, rng)} for rank, calls in enumerate(own)}
    return {
        "schema": "planguard.plan/1",
        "world_size": world,
        "groups": {name: {"ranks": members} for name, members in groups.items()},
        "templates": {},
        "ranks": ranks,
    }


def has_threads(document: Item) -> bool:
    """Tell whether some rank of a raced plan has threads."""
    return any(item["op"] == "threads" for program in programs(document) for item in program)


def _labeled_call(
    number: int, world: int, groups: dict[str, list[int]], rng: random.Random
) -> dict[int, list[Item]]:
    """Give what every member does: one call, and the wait for it where it is asynchronous."""
    name = rng.choice(["world", *groups])
    members = groups.get(name, list(range(world)))
    size: Item = {"count": rng.choice([1, 1, 4, 2048]), "dtype": "f32", "label": f"t{number}"}
    if name != "world":
        size["group"] = name
    found: dict[int, list[Item]] = {}
    if rng.random() < 0.5:
        op = rng.choice(["all_reduce", "all_reduce", "all_gather", "barrier", "broadcast"])
        item: Item = {"op": op, **size}
        if op == "barrier":
            item = {key: value for key, value in item.items() if key not in {"count", "dtype"}}
        if op == "broadcast":
            item["root"] = rng.choice(members)
        later = rng.random() < 0.3
        for rank in members:
            found[rank] = _later(item, number) if later else [dict(item)]
    else:
        src, dst = rng.sample(members, 2)
        if rng.random() < 0.2:
            size["tag"] = 1
        for rank, peer, op in ((src, dst, "send"), (dst, src, "recv")):
            item = {"op": op, "peer": peer, **size}
            found[rank] = _later({**item, "op": f"i{op}"}, number) if rng.random() < 0.3 else [item]
    if rng.random() < 0.12:
        del found[rng.choice(list(found))]
    return found


def _later(item: Item, number: int) -> list[Item]:
    work = f"h{number}"
    started = {**item, "work": work}
    if not item["op"].startswith("i"):
        started["async"] = True
    return [started, {"op": "wait", "work": work}]


def _in_threads(calls: list[list[Item]], rng: random.Random) -> list[Item]:
    """Put all calls but some at both ends into threads, in an order of the rank's own."""
    if rng.random() < 0.3:
        rng.shuffle(calls)
    first = rng.choice([0, 0, 1])
    last = len(calls) - rng.choice([0, 0, 1])
    if last - first < 2:
        return [item for items in calls for item in items]
    threads: list[list[Item]] = [[] for _ in range(rng.choice([2, 2, 3]))]
    for items in calls[first:last]:
        thread = rng.choice(threads)
        thread.extend(items)
    before = [item for items in calls[:first] for item in items]
    after = [item for items in calls[last:] for item in items]
    return [*before, {"op": "threads", "threads": threads}, *after]
