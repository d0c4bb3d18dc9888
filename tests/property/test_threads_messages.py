"""Threads whose messages compete, against brute force over all states."""

from __future__ import annotations

import random
from typing import Any

import pytest
from oracle import opened
from oracle.combined import chains_of
from property.compared import compare

import planguard

Item = dict[str, Any]
CI, CAMPAIGN, STATES = 24, 1_500, 3_000
MODELS = ("gloo", "mpi-eager", "mpi-sync", "gloo-detail")


def random_plan(seed: int) -> Item:
    """Return a plan with threads in which receives take any message, or waits any handle."""
    rng = random.Random(f"threads and messages {seed}")
    while not opened.has_threads(plan := opened.raced(seed, rng)):
        pass
    for rank in plan["ranks"].values():
        for chain in chains_of(rank["actions"]):
            _widen(chain, rng)
        if rng.random() < 0.3:
            _wait_for_one(rank["actions"], rng)
    return plan


def _widen(chain: list[Any], rng: random.Random) -> None:
    for item in list(chain):
        if item["op"] not in {"recv", "irecv"}:
            continue
        if rng.random() < 0.7:
            item["peer"] = "any"
        if rng.random() < 0.2:
            item["tag"] = "any"
        if rng.random() < 0.1:
            look = {key: item[key] for key in ("peer", "tag", "group") if key in item}
            chain.insert(chain.index(item), {"op": "probe", **look})


def _wait_for_one(actions: list[Any], rng: random.Random) -> None:
    """Let waits of threads come behind them, after one of their handles was waited for."""
    late: list[str] = []
    for chain in chains_of(actions):
        for item in [one for one in chain if one["op"] == "wait"]:
            if rng.random() < 0.7:
                chain.remove(item)
                late.append(item["work"])
    if len(late) > 1:
        actions.append({"op": "wait", "work": late, "mode": rng.choice(["any", "some"])})
    if late:
        actions.append({"op": "wait", "work": late})


@pytest.mark.timeout(3_600)  # 1,500 plans with --slow
def test_messages_of_threads(request: pytest.FixtureRequest) -> None:
    """Where threads call and messages compete, or a wait is for one of several handles, what is
    decided is what brute force over all states says.
    """
    count = CAMPAIGN if request.config.getoption("--slow") else CI
    seen = compare(range(count), random_plan, MODELS, STATES)
    assert sum(count for (_, found), count in seen.items() if found != "UNKNOWN") > 0.6 * count


def unlabeled_plan(seed: int) -> Item:
    """Return two threads of a rank that receive, mostly from anybody, and ranks that send.

    Nothing has a label. Now and then a message is missing, has another tag or another size.
    """
    rng = random.Random(f"unlabeled receives of two threads {seed}")
    world, tags = rng.choice([2, 2, 3]), rng.choice([[0], [0, 1]])
    threads: list[list[Item]] = [[], []]
    senders: list[list[Item]] = [[] for _ in range(world - 1)]
    for number in range(rng.randint(2, 4)):
        peer: Any = "any" if rng.random() < 0.8 else rng.randrange(1, world)
        tag: Any = rng.choice(tags) if rng.random() < 0.9 else "any"
        call = {"op": "recv", "peer": peer, "tag": tag, "bytes": 4}
        mine = threads[number % 2 if number < 2 else rng.randrange(2)]
        if rng.random() < 0.3:
            mine += [{**call, "op": "irecv", "work": f"w{number}"}]
            mine += [{"op": "wait", "work": f"w{number}"}]
        else:
            mine.append(call)
        if rng.random() < 0.06:
            continue
        sent = rng.choice(tags) if tag == "any" or rng.random() < 0.08 else tag
        size = 4 if rng.random() < 0.93 else 8
        source = rng.randrange(1, world) if peer == "any" else peer
        senders[source - 1].append({"op": "send", "peer": 0, "tag": sent, "bytes": size})
    for sender in senders:
        rng.shuffle(sender)
    ranks = [[{"op": "threads", "threads": threads}], *senders]
    programs = {str(rank): {"actions": actions} for rank, actions in enumerate(ranks)}
    return {"schema": "planguard.plan/1", "world_size": world, "ranks": programs}


def test_unlabeled_receives_from_anybody(request: pytest.FixtureRequest) -> None:
    """Two threads may both receive from anybody without a label: whatever comes will do."""
    count = CAMPAIGN if request.config.getoption("--slow") else 2 * CI
    seen = compare(range(count), unlabeled_plan, MODELS, STATES)
    assert sum(count for (_, found), count in seen.items() if found == "UNKNOWN") < 0.05 * count
    assert min(seen[one, one] for one in ("SAFE", "DEADLOCK", "MISMATCH")) > 0, seen


def test_what_does_need_a_label() -> None:
    """Receives from one rank need one in two threads, and so do those of a block of open order."""
    sends = [{"op": "send", "peer": 0, "bytes": 4}, {"op": "send", "peer": 0, "bytes": 4}]

    def outcome(block: Item) -> str:
        ranks = {"0": {"actions": [block]}, "1": {"actions": sends}}
        plan = {"schema": "planguard.plan/1", "world_size": 2, "ranks": ranks}
        return planguard.check(plan, model="mpi-sync").outcome.value

    def receives(peer: int | str) -> list[Any]:
        return [{"op": "recv", "peer": peer, "bytes": 4} for _ in range(2)]

    def beside(peer: int | str) -> Item:
        return {"op": "threads", "threads": [[one] for one in receives(peer)]}

    assert outcome(beside("any")) == "SAFE"
    assert outcome(beside(1)) == "UNKNOWN"
    assert outcome({"op": "unordered", "body": receives("any")}) == "UNKNOWN"
    loose = {"op": "unordered", "body": receives("any")}
    assert outcome({"op": "threads", "threads": [[loose], [{"op": "compute"}]]}) == "UNKNOWN"
