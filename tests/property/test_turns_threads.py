"""Who of a process is in MPI first, beside threads and blocks, against brute force."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest
from oracle.answers import outcome_of
from oracle.enumerator import Effort, OracleBudget
from oracle.program import OracleUnsupported

import planguard

Item = dict[str, Any]
CI, CAMPAIGN, STATES = 16, 3_000, 4_000


def piece(rng: random.Random, number: int, world: int) -> list[list[Item]]:
    """Return what one call of all ranks, or one message, adds to each program."""
    name = f"c{number}"
    if rng.random() < 0.45:
        src, dst = rng.sample(range(world), 2)
        said: Item = {"bytes": rng.choice([4, 4, 1 << 20]), "label": name, "tag": number % 2}
        later = [rng.random() < 0.5 for _ in range(2)]
        programs: list[list[Item]] = [[] for _ in range(world)]
        for rank, peer, op, is_late in ((src, dst, "send", later[0]), (dst, src, "recv", later[1])):
            call = {"op": f"i{op}" if is_late else op, "peer": peer, **said}
            programs[rank] = [call | ({"work": name} if is_late else {})]
            programs[rank] += [{"op": "wait", "work": name}] if is_late else []
        return programs
    call = {"op": "all_reduce", "bytes": 4, "label": name, "group": rng.choice(["g", "g", "h"])}
    if rng.random() < 0.2:
        call |= {"op": rng.choice(["broadcast", "reduce"]), "root": rng.randrange(world)}
    programs = []
    for _ in range(world):
        is_late = rng.random() < 0.4
        mine = {**call, "async": True, "work": name} if is_late else call
        programs.append([mine, *([{"op": "wait", "work": name}] if is_late else [])])
    return programs


def random_plan(seed: int) -> Item:
    """Return a plan in which a rank or two have threads or a block of open order."""
    rng = random.Random(f"turns {seed}")
    world = rng.choice([2, 2, 3])
    pieces = [piece(rng, number, world) for number in range(rng.choice([2, 2, 3, 3, 4]))]
    programs = []
    for rank in range(world):
        mine = [one[rank] for one in pieces if one[rank]]
        if len(mine) > 1 and rng.random() < 0.15:
            mine.insert(rng.randrange(len(mine)), mine.pop(rng.randrange(len(mine))))
        programs.append(opened(rng, mine, is_open=rank == 0 or rng.random() < 0.4))
    members = list(range(world))
    return {
        "schema": "planguard.plan/1",
        "world_size": world,
        "groups": {"g": {"ranks": members}, "h": {"ranks": members}},
        "ranks": {str(rank): {"actions": actions} for rank, actions in enumerate(programs)},
    }


def opened(rng: random.Random, pieces: list[list[Item]], *, is_open: bool) -> list[Item]:
    """Return pieces one after the other, or those from some place on side by side."""
    first = rng.randint(0, max(0, len(pieces) - 2))
    head = [item for one in pieces[:first] for item in one]
    rest = pieces[first:]
    if not is_open or len(rest) < 2:
        return head + [item for one in rest for item in one]
    last: list[Item] = []
    if rng.random() < 0.4:  # what is started side by side is waited for behind it
        last = [one.pop() for one in rest if len(one) > 1]
    if len(rest) < 4 and rng.random() < 0.3:
        return [*head, {"op": "unordered", "body": rest}, *last]
    threads: list[list[Item]] = [[], []]
    for number, one in enumerate(rest):
        threads[number % 2] += one
    return [*head, {"op": "threads", "threads": threads}, *last]


def compare(seeds: range) -> Counter[tuple[str, str]]:
    """Check random plans under torch's MPI; return how often which outcome met which."""
    seen: Counter[tuple[str, str]] = Counter()
    for seed in seeds:
        plan = random_plan(seed)
        found = planguard.check(plan, model="mpi-pg").outcome.value
        if found == "UNKNOWN":
            seen["not asked", found] += 1
            continue
        try:
            expected = outcome_of(plan, "mpi-pg", Effort(STATES, 0, seed))
        except (OracleBudget, OracleUnsupported):
            seen["not judged", found] += 1
            continue
        seen[expected, found] += 1
        assert found == expected, (seed, expected, found)
    return seen


@pytest.mark.timeout(3_600)  # 3,000 plans with --slow
def test_turns_of_threads(request: pytest.FixtureRequest) -> None:
    """Where threads, or calls whose order the host picks, want the one lock of ProcessGroupMPI,
    what is decided is what brute force over all states says.
    """
    count = CAMPAIGN if request.config.getoption("--slow") else CI
    seen = compare(range(count))
    assert sum(count for (_, found), count in seen.items() if found != "UNKNOWN") > 0.8 * count
