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
