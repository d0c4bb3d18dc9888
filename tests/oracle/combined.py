"""Random plans in which every construct of the format may stand in and beside every other.

Each starts as a plan of ``generate`` and gets receives from anybody, waits for one of several,
probes, fused buffers, exits, and stretches put into ``unordered``, ``threads``, ``choice`` and
``repeat``, one inside the other. What comes out need not be valid: the door has to say so.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

from oracle.generate import generate
from oracle.opened import programs, widen

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

Item = dict[str, Any]
_INNER = {"unordered": "body", "threads": "threads", "choice": "branches", "repeat": "body"}
_POLICIES: dict[str, tuple[Any, ...]] = {
    "coordination": ("none", "none", "rank0-broadcast", "negotiated"),
    "membership": ("fixed", "fill"),
    "launch": ("ordered", "when-ready"),
    "drain": ("ordered", "free"),
    "buffers": (1, 2),
    "cap_bytes": (8, 64),
}


def combined(seed: int) -> Item:
    """Give the plan of a seed: the same seed always gives the same plan."""
    rng = random.Random(f"combined {seed}")
    document = generate(rng.randrange(1_000_000))
    if rng.random() < 0.35:
        widen(document, rng)
    if rng.random() < 0.25:
        _fuse(document, rng)
    for program in programs(document):
        for _ in range(rng.choice([0, 1, 1, 2, 3])):
            _wrap(rng.choice(list(chains_of(program))), rng)
        if rng.random() < 0.05:
            program.insert(rng.randint(0, len(program)), {"op": "init", "group": "world"})
        if rng.random() < 0.1 and not any(item["op"] == "exit" for item in program):
            program.append({"op": "exit"})
    return document


def chains_of(items: list[Any]) -> Iterator[list[Any]]:
    """Yield a chain of actions and all chains inside it."""
    yield items
    for item in items:
        for inner in _chains(item):
            yield from chains_of(inner)


def _chains(item: Item) -> list[list[Any]]:
    inner = item.get(_INNER.get(item["op"], ""), [])
    if item["op"] == "repeat":
        return [inner]
    return [entry for entry in inner if isinstance(entry, list)]


def _wrap(chain: list[Any], rng: random.Random) -> None:
    """Put a stretch of a chain into a block."""
    if not chain:
        return
    first = rng.randrange(len(chain))
    place = slice(first, first + rng.choice([1, 2, 2, 3]))
    chain[place] = [rng.choice(_BLOCKS)(chain[place], rng)]


def block_of(chain: list[Any], rng: random.Random, kinds: Sequence[str]) -> None:
    """Put a stretch of a chain into a block of one of some kinds."""
    if not chain:
        return
    first = rng.randrange(len(chain))
    place = slice(first, first + rng.choice([1, 2, 2, 3]))
    chain[place] = [_BY_NAME[rng.choice(kinds)](chain[place], rng)]


def _unordered(body: list[Any], rng: random.Random) -> Item:
    """Make single items and chains, and order some by `after`."""
    out: list[Any] = []
    known: list[str] = []
    for number, item in enumerate(body):
        if out and isinstance(out[-1], list) and rng.random() < 0.5:
            out[-1].append(item)
        elif rng.random() < 0.3:
            out.append([item])
        else:
            if known and rng.random() < 0.4:
                item["after"] = [*item.get("after", []), rng.choice(known)]
            out.append(item)
        if rng.random() < 0.5:
            known.append(item.setdefault("id", f"u{rng.randrange(10**6)}-{number}"))
        if "count" in item and rng.random() < 0.8:
            item.setdefault("label", f"l{number}")
    return {"op": "unordered", "body": out}


def _threads(body: list[Any], rng: random.Random) -> Item:
    threads: list[list[Any]] = [[] for _ in range(rng.choice([1, 2, 2, 3]))]
    owner: dict[str, int] = {}
    for item in body:
        work = item.get("work", [])
        names = [work] if isinstance(work, str) else work
        mine = next((owner[name] for name in names if name in owner), rng.randrange(len(threads)))
        if rng.random() < 0.1:
            mine = rng.randrange(len(threads))
        owner |= dict.fromkeys(names, mine)
        threads[mine].append(item)
    return {"op": "threads", "threads": threads}


def _choice(body: list[Any], rng: random.Random) -> Item:
    other = [dict(item) for item in body if item["op"] not in _INNER and rng.random() < 0.5]
    branches = [body, other if rng.random() < 0.6 else []]
    rng.shuffle(branches)
    found: Item = {"op": "choice", "name": rng.choice(["a", "b", "c{i}"]), "branches": branches}
    return found | ({"uniform": True} if rng.random() < 0.4 else {})


def _repeat(body: list[Any], rng: random.Random) -> Item:
    for item in body:
        if "id" in item and rng.random() < 0.8:
            item["id"] += "{i}"
    return {"op": "repeat", "times": rng.choice([1, 2, 2]), "body": body}


_BLOCKS: tuple[Callable[[list[Any], random.Random], Item], ...] = (
    _unordered,
    _unordered,
    _threads,
    _threads,
    _choice,
    _choice,
    _repeat,
)

_BY_NAME = {"unordered": _unordered, "threads": _threads, "choice": _choice, "repeat": _repeat}


def _fuse(document: Item, rng: random.Random) -> None:
    """Add fused reductions to the program of every member of a group."""
    own = {name: rank["actions"] for name, rank in document["ranks"].items() if "actions" in rank}
    groups = {"world": list(range(document["world_size"]))}
    groups |= {name: spec["ranks"] for name, spec in document["groups"].items() if "ranks" in spec}
    group = rng.choice(list(groups))
    members = [f"g{number}" for number in range(rng.choice([2, 2, 3]))]
    spec = {key: rng.choice(values) for key, values in _POLICIES.items() if rng.random() < 0.7}
    document["fusion"] = [{"id": "f", "group": group, **spec, "members": members}]
    later = rng.random() < 0.7
    for rank in groups[group]:
        if str(rank) not in own:
            continue
        body: list[Item] = []
        for name in rng.sample(members, len(members)):
            one = {"op": "all_reduce", "group": group, "bytes": 4 * rng.choice([1, 2, 2])}
            one |= {"id": name, "label": name}
            body.append(one | ({"async": True, "work": name} if later else {}))
        program = own[str(rank)]
        at = rng.randint(0, len(program))
        program[at:at] = [{"op": "unordered", "body": body}]
        if later and rng.random() < 0.8:
            program.insert(rng.randint(at + 1, len(program)), {"op": "wait", "work": members})
