"""Random plans of a job in small: several groups, creations and first uses anywhere, windows."""

from __future__ import annotations

import random
from typing import Any

Call = dict[str, Any]

COMMUNICATORS = {"A": [0, 1, 2], "B": [0, 1, 2], "C": [0, 1], "D": [1, 2]}


def job_plan(seed: int, calls: int = 8) -> dict[str, Any]:
    """Return a plan of three ranks of which each makes about so many calls.

    One sequence of rounds and messages is dealt to the ranks in its order, so most written orders
    are safe. Then each rank puts stretches of its program into blocks of open order: bags, chains
    and windows by ``after``; most of them as its neighbors do, some in its own way.
    """
    rng = random.Random(seed)
    programs: list[list[list[Call]]] = [[] for _ in range(3)]
    for number in range(calls):
        for rank, one in _step(rng, number).items():
            programs[rank].append(one)
    for name in rng.sample([*COMMUNICATORS], rng.choice([0, 0, 1, 2])):
        _create(rng, programs, name)
    shape = rng.randrange(1 << 30)
    ranks = {}
    for rank, program in enumerate(programs):
        own = random.Random(shape if rng.random() < 0.7 else rng.randrange(1 << 30))
        left = [3]
        ranks[str(rank)] = {"actions": _loosened(own, program, left)}
    return {
        "schema": "planguard.plan/1",
        "world_size": 3,
        "groups": {name: {"ranks": ranks} for name, ranks in COMMUNICATORS.items()},
        "ranks": ranks,
    }


def _step(rng: random.Random, number: int) -> dict[int, list[Call]]:
    """Return what every rank that takes part in one round or message issues for it."""
    label = f"c{number}"
    what = rng.random()
    later = rng.random() < 0.4
    if what < 0.2:
        src, dst = rng.sample(range(3), 2)
        ends = {src: ("send", dst), dst: ("recv", src)}
        found = {}
        for rank, (op, peer) in ends.items():
            one = {"op": op, "peer": peer, "bytes": 4, "label": label}
            if rng.random() < 0.2:
                one = {"op": "batch", "ops": [one]} if later else one
            if later:
                op_name = one["op"] if one["op"] == "batch" else f"i{op}"
                one = {**one, "op": op_name, "work": label}
            found[rank] = [one]
        if (
            all("work" in one[0] for one in found.values())
            and len({one[0]["op"] == "batch" for one in found.values()}) > 1
        ):  # one end in a batch and one not meet on different communicators
            for rank, (op, peer) in ends.items():
                found[rank] = [{"op": op, "peer": peer, "bytes": 4, "label": label}]
    elif what < 0.27:
        return {rank: [{"op": "barrier", "group": "A", "label": label}] for rank in range(3)}
    elif what < 0.32:
        return {rng.randrange(3): [{"op": "host_sync"}]}
    else:
        name = rng.choice([*COMMUNICATORS])
        one = {"op": "all_reduce", "group": name, "bytes": 4, "label": label}
        if later:
            one |= {"async": True, "work": label}
        found = {rank: [dict(one)] for rank in COMMUNICATORS[name]}
    for mine in found.values():
        if "work" in mine[0] and rng.random() < 0.6:
            mine.append({"op": "wait", "work": label})
    return found


def _create(rng: random.Random, programs: list[list[list[Call]]], name: str) -> None:
    """Put the creation of a communicator somewhere into the programs, mostly in the same place."""
    op = "new_group" if rng.random() < 0.25 else "init"
    place = rng.choice([0, 0, rng.randrange(6)])
    members = range(3) if op == "new_group" else COMMUNICATORS[name]
    for rank in members:
        at = place if rng.random() < 0.85 else rng.randrange(6)
        programs[rank].insert(min(at, len(programs[rank])), [{"op": op, "group": name}])


def _loosened(rng: random.Random, program: list[list[Call]], left: list[int]) -> list[Any]:
    """Return a program with stretches of it in blocks of open order."""
    actions: list[Any] = []
    at = 0
    while at < len(program):
        size = rng.choice([1, 2, 3, 3])
        chunk = program[at : at + size]
        at += size
        kinds = {call["op"] for item in chunk for call in item}
        if len(chunk) < 2 or not left[0] or "new_group" in kinds or rng.random() < 0.3:
            actions += [call for item in chunk for call in item]
            continue
        left[0] -= len(chunk) - 1
        actions.append({"op": "unordered", "body": _body(rng, chunk)})
    return actions


def _body(rng: random.Random, chunk: list[list[Call]]) -> list[Any]:
    """Return items of a block: calls of one queue keep their order, others may."""
    chains: list[list[Call]] = []
    home: dict[str, int] = {}
    for item in chunk:
        first = item[0]
        inner = first["ops"][0] if first["op"] == "batch" else first
        key = f"{inner.get('peer', '')}{inner.get('group', 'world')}"
        if inner["op"] in {"host_sync", "init"}:
            key = f"{inner['op']}{key}" if rng.random() < 0.6 else key
        elif "peer" in inner and rng.random() < 0.4:
            key += inner["op"].lstrip("i")  # the two directions of a pair go on by themselves
        if key in home:
            chains[home[key]] += item
        else:
            home[key] = len(chains)
            chains.append([*item])
    if len(chains) > 1 and rng.random() < 0.3 and all(len(chain) == 1 for chain in chains):
        first = chains[0][0]
        first["id"] = f"id-{first.get('label', first.get('group', ''))}"
        chains[-1][0]["after"] = [first["id"]]
    return [chain if len(chain) > 1 else chain[0] for chain in chains]
