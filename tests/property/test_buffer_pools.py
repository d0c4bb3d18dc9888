from __future__ import annotations

import random
from collections import Counter

import pytest

import planguard


def messages(rng):
    """A plan of three ranks with blocking sends and receives in random order."""
    programs = {rank: [] for rank in range(3)}
    for _ in range(rng.randint(2, 5)):
        src, dst = rng.sample(range(3), 2)
        tag = rng.choice([0, 1])
        places = ((src, "send", dst), (dst, "recv", src))
        for rank, op, peer in places:
            at = rng.randint(max(0, len(programs[rank]) - 1), len(programs[rank]))
            programs[rank].insert(at, {"op": op, "peer": peer, "tag": tag, "bytes": 4})
    ranks = {str(rank): {"actions": actions} for rank, actions in programs.items()}
    return {"schema": "planguard.plan/1", "world_size": 3, "ranks": ranks}


def ends_of(document, size, *, per_rank):
    """Whether executions with a pool of some buffers complete: the set of all answers.

    A message is its channel and its number there. A state says how far each rank is and which
    messages lie in a buffer.
    """
    programs = [document["ranks"][str(rank)]["actions"] for rank in range(3)]

    def channel(rank, action):
        ends = (rank, action["peer"]) if action["op"] == "send" else (action["peer"], rank)
        return (*ends, action["tag"])

    def pool(held, key):
        return sum(1 for other in held if (other[0][0] == key[0] if per_rank else other[0] == key))

    start = ((0, 0, 0), frozenset())
    todo, known, answers = [start], {start}, set()
    while todo:
        at, held = todo.pop()
        following = []
        heads = {r: programs[r][at[r]] for r in range(3) if at[r] < len(programs[r])}

        def step(*ranks, at=at):
            return tuple(a + (r in ranks) for r, a in enumerate(at))

        for rank, action in heads.items():
            key, peer = channel(rank, action), action["peer"]
            lying = sorted(number for where, number in held if where == key)
            if action["op"] == "recv":
                if lying:
                    following.append((step(rank), held - {(key, lying[0])}))
                continue
            number = sum(channel(rank, a) == key for a in programs[rank][: at[rank]])
            other = heads.get(peer)
            if other and other["op"] == "recv" and channel(peer, other) == key and not lying:
                following.append((step(rank, peer), held))
            if pool(held, key) < size:
                following.append((step(rank), held | {(key, number)}))
        if not following:
            answers.add(all(at[r] == len(programs[r]) for r in range(3)))
        for state in following:
            if state not in known:
                known.add(state)
                todo.append(state)
    return answers


@pytest.mark.parametrize("per_rank", [True, False])
def test_what_is_safe_completes_with_every_pool_of_buffers(per_rank):
    """SAFE without buffering: every execution completes whatever pool sends draw on."""
    found = Counter()
    for seed in range(150):
        document = messages(random.Random(seed))
        safe = planguard.check(planguard.load(document), model="mpi-sync").safe
        assert (ends_of(document, 0, per_rank=per_rank) == {True}) == safe, seed
        for size in (1, 2, 3):
            ends = ends_of(document, size, per_rank=per_rank)
            assert not safe or ends == {True}, (seed, size)
            found[safe, frozenset(ends)] += 1
    assert found[True, frozenset({True})] > 50
    assert found[False, frozenset({True})] > 5  # a pool may help where there is no promise


@pytest.mark.parametrize("size", ["4*h", {"dim": "hidden"}, None, 1.5])
def test_a_size_that_is_no_number_is_refused(size):
    """Symbolic sizes never reach a verdict: the door refuses them."""
    one = {"op": "all_reduce", "bytes": size}
    document = {"schema": "planguard.plan/1", "world_size": 2, "ranks": {"0-1": {"actions": [one]}}}
    with pytest.raises(planguard.PlanError):
        planguard.load(document)
