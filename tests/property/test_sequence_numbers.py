"""Under `gloo-detail` every call of a group counts: random plans against the enumerator, forged
certificates, and real processes with ``TORCH_DISTRIBUTED_DEBUG=DETAIL``.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import socket
import subprocess
import sys
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from oracle.answers import outcome_of
from oracle.enumerator import Effort, OracleBudget

import planguard
from planguard.certificate.agreement import RejectedError
from planguard.certificate.verify import verify
from planguard.options import CheckOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from planguard.verdict import Verdict

PLANS, CHUNK = 400, 50
Item = dict[str, Any]


def plan_of(*ranks: list[Any], **more: Any) -> Item:
    """Return a plan of these programs."""
    programs = {str(rank): {"actions": actions} for rank, actions in enumerate(ranks)}
    return {"schema": "planguard.plan/1", "world_size": len(ranks), **more, "ranks": programs}


def outcome(plan: Item, **options: Any) -> str:
    """Return the outcome under gloo-detail."""
    return planguard.check(plan, model="gloo-detail", **options).outcome.name


def total(name: str, group: str = "world") -> Item:
    """Return an all_reduce."""
    return {"op": "all_reduce", "bytes": 4, "label": name, "group": group}


def message(op: str, peer: int | str, tag: int = 0, **more: Any) -> Item:
    """Return one end of a message in flight."""
    return {"op": op, "peer": peer, "tag": tag, "bytes": 4, "label": f"m{tag}", **more}


def end(work: str) -> Item:
    """Return a wait."""
    return {"op": "wait", "work": work}


def _opened(rng: random.Random, actions: list[Item]) -> list[Any]:
    """Return actions with a block, with threads or with a receive from anybody among them."""
    shape, found = rng.random(), list[Any](actions)
    if shape < 0.3 and len(actions) > 1:
        first = rng.randrange(len(actions))
        last = rng.randint(first + 1, len(actions))
        found[first:last] = [{"op": "unordered", "body": found[first:last]}]
    elif shape < 0.45 and len(actions) > 1:
        at = rng.randrange(len(actions) - 1)
        found[at : at + 2] = [{"op": "threads", "threads": [[one] for one in found[at : at + 2]]}]
    elif shape < 0.6 and actions:
        at = rng.randrange(len(actions))
        if found[at]["op"] == "irecv":
            found[at] = {**found[at], "peer": "any"}
    return found


def random_plan(seed: int) -> Item:
    """Return messages and collectives of two groups, two of which may change places on a rank."""
    rng = random.Random(seed)
    world = rng.choice([2, 2, 3])
    events = [
        (number, *(rng.sample(range(world), 2) if rng.random() < 0.5 else ()))
        for number in range(rng.randint(2, 5))
    ]
    ranks = []
    for rank in range(world):
        actions, waits = list[Item](), list[Item]()
        for number, *ends in events:
            if not ends:
                actions.append(total(f"c{number}", "g" if number == 3 else "world"))
            elif rank in ends:
                op, peer = ("isend", ends[1]) if rank == ends[0] else ("irecv", ends[0])
                actions.append(message(op, peer, number, work=f"w{number}"))
                waits.append(end(f"w{number}"))
        if rng.random() < 0.4 and len(actions) > 1:
            at = rng.randrange(len(actions) - 1)
            actions[at : at + 2] = reversed(actions[at : at + 2])
        ranks.append([*_opened(rng, actions), *waits])
    return plan_of(*ranks, groups={"g": {"ranks": list(range(world))}})


def compared(
    make: Callable[[int], Item], seeds: Iterable[int], limit: int
) -> Iterator[tuple[int, str, Verdict]]:
    """Yield seed, the enumerator's outcome and the verdict, where the enumerator ends."""
    for seed in seeds:
        plan = make(seed)
        try:
            expected = outcome_of(plan, "gloo-detail", Effort(limit=limit))
        except OracleBudget:
            continue
        yield seed, expected, planguard.check(plan, model="gloo-detail")


@pytest.mark.parametrize("first", range(0, PLANS, CHUNK))
def test_random_plans_agree_with_the_enumerator(first: int) -> None:
    """Every plan is decided, blocks and threads too, as the enumerator says; both ends occur."""
    seen = Counter[str]()
    for seed, expected, found in compared(random_plan, range(first, first + CHUNK), 10_000):
        assert found.outcome.value == expected, seed
        assert found.complete, seed
        seen[expected] += 1
    assert min(seen["SAFE"], seen["MISMATCH"]) > 5


def _in_threads(seed: int) -> Item:
    """Return a plan whose ranks make messages and collectives of one group in two threads."""
    rng = random.Random(f"numbers in threads {seed}")
    ranks = []
    events = [(number, rng.random() < 0.5, rng.randrange(2)) for number in range(rng.randint(2, 3))]
    for rank in range(2):
        threads: list[list[Item]] = [[], []]
        for number, is_message, source in events:
            op = "isend" if rank == source else "irecv"
            one = message(op, 1 - rank, number, work=f"w{number}") if is_message else None
            threads[rng.random() < 0.3].append(one or total(f"c{number}"))
        if rng.random() < 0.2:
            threads[0].append({"op": "recv", "peer": 1 - rank, "tag": 9, "bytes": 4})
        waits = [end(f"w{number}") for number, is_message, _ in events if is_message]
        ranks.append([{"op": "threads", "threads": [one for one in threads if one]}, *waits])
    return plan_of(*ranks)


def test_numbers_of_calls_in_threads_agree_with_the_enumerator() -> None:
    """A message of one thread beside a collective of another: each order of the two is decided."""
    seen = Counter[str]()
    for seed, expected, found in compared(_in_threads, range(80), 2_000):
        assert (found.outcome.value, found.complete) == (expected, True), seed
        seen[expected] += 1
    assert min(seen[one] for one in ("SAFE", "MISMATCH", "DEADLOCK")) > 5, seen


def test_what_is_stuck_in_every_order_is_a_deadlock_whatever_the_numbers() -> None:
    """A receive that nobody sends for, beside threads whose order changes a number: DEADLOCK.

    Where the hang may be excused by the round whose numbers differ it is a MISMATCH.
    """
    send, recv = message("isend", 1, work="w"), message("irecv", 0, work="w")
    both = {"op": "threads", "threads": [[send], [total("c")]]}
    lost = {"op": "recv", "peer": 1, "tag": 9, "bytes": 4}
    stuck = plan_of([both, end("w"), lost], [recv, total("c"), end("w")])
    found = planguard.check(stuck, model="gloo-detail")
    assert (found.outcome.value, found.complete) == ("DEADLOCK", True)
    behind = plan_of([both, end("w"), total("d")], [recv, total("c"), end("w")])
    assert outcome(behind) == outcome_of(behind, "gloo-detail", Effort(limit=10_000)) == "MISMATCH"


def _beside_anybody(seed: int) -> Item:
    """Return a plan whose ranks race a collective with a receive from anybody, or with a send."""
    rng = random.Random(f"numbers beside anybody {seed}")
    call: Item = {"op": "all_reduce", "bytes": 4}
    ranks = []
    for rank in range(2):
        one = {"op": "recv", "peer": "any", "bytes": 4} if rank else {"op": "send", "peer": 1}
        one = {**one, "bytes": 4}
        mine = rng.choice([[call], [one], [], [call, one], [call, one]])
        if len(mine) > 1 and rng.random() < 0.7:
            mine = [{"op": "threads", "threads": [[call], [one]]}]
        ranks.append(mine)
    ranks.append([call] if rng.random() < 0.3 else [])
    return plan_of(*(ranks if rng.random() < 0.4 else ranks[:2]))


def test_numbers_beside_receives_from_anybody_are_compared_where_two_ranks_call() -> None:
    """What is complete is what the enumerator says; what is not is less, and names no number as
    one of every execution.
    """
    seen = Counter[Any]()
    for seed, expected, found in compared(_beside_anybody, range(120), 4_000):
        verdict = found.outcome.value
        if found.complete:
            stuck = {"DEADLOCK", "MISMATCH"}  # two causes in one execution: either may be the first
            assert verdict == expected or {verdict, expected} == stuck, seed
        elif found.unsafe:
            assert verdict == "POTENTIAL_DEADLOCK", seed
            assert expected in {"POTENTIAL_DEADLOCK", "MISMATCH", "DEADLOCK"}, seed
            numbers = [one for one in found.findings if one.code == "PG216"]
            assert all(one.certainty == "some-execution" for one in numbers), seed
        seen[verdict, found.complete] += 1
    assert seen["DEADLOCK", True] > 20, seen
    assert seen["SAFE", True] > 3, seen


def test_a_collective_of_one_rank_alone_has_no_number_to_differ() -> None:
    """Nobody else comes to it: stuck in every order. With another rank the number may differ."""
    both = {"op": "threads", "threads": [
        [{"op": "all_reduce", "bytes": 4}], [{"op": "recv", "peer": "any", "bytes": 4}],
    ]}  # fmt: skip
    alone = planguard.check(plan_of([both], [], []), model="gloo-detail")
    assert (alone.outcome.value, alone.complete) == ("DEADLOCK", True)
    other = plan_of([both], [], [{"op": "all_reduce", "bytes": 4}])
    open_one = planguard.check(other, model="gloo-detail")
    assert (open_one.outcome.value, open_one.complete) == ("POTENTIAL_DEADLOCK", False)
    certain = {one.code: one.certainty for one in open_one.findings}
    assert certain["PG216"] == "some-execution"


CROSSED = plan_of(
    [total("c"), message("irecv", 1, work="w"), end("w")],
    [message("isend", 0, work="w"), total("c"), end("w")],
)
LEVEL = plan_of(
    [total("c"), message("irecv", 1, work="w"), end("w")],
    [total("c"), message("isend", 0, work="w"), end("w")],
)


def test_the_message_says_who_made_how_many_calls() -> None:
    """PG216 names both ranks and their numbers; every other model calls the plan what it was."""
    (finding,) = planguard.check(CROSSED, model="gloo-detail").errors
    assert finding.code == "PG216"
    assert "rank 1 made 1 call" in finding.message
    assert "rank 0 made 0 calls" in finding.message
    for model in ("gloo", "mpi-sync", "nccl-eager"):
        found = planguard.check(CROSSED, model=model)
        assert "PG216" not in {one.code for one in found.findings}
    assert planguard.check(CROSSED, model="gloo").safe
    assert outcome(LEVEL) == "SAFE"


def test_a_created_group_counts_from_its_creation() -> None:
    """Messages on another group do not count; those on a created one do."""
    groups = {"g": {"ranks": [0, 1]}}
    apart = json.loads(json.dumps(CROSSED).replace('"m0"', '"m0", "group": "g"'))
    assert outcome({**apart, "groups": groups}) == "SAFE"
    make = {"op": "new_group", "group": "g"}
    ends = [message("irecv", 1, group="g", work="w"), message("isend", 0, group="g", work="w")]
    fresh = [[make, one, end("w"), total("c", "g")] for one in ends]
    assert outcome(plan_of(*fresh, groups=groups)) == "SAFE"
    late = [make, total("c", "g"), ends[0], end("w")]
    early = [make, ends[1], total("c", "g"), end("w")]
    assert outcome(plan_of(late, early, groups=groups)) == "MISMATCH"


def test_many_ranks_of_one_program_are_compared() -> None:
    """A pipeline counts once at its ends and twice inside: the all_reduce behind it is refused."""
    size = 6
    ranks = []
    for rank in range(size):
        both = [{"op": "recv", "peer": rank - 1, "bytes": 4}] if rank else []
        both += [{"op": "send", "peer": rank + 1, "bytes": 4}] if rank < size - 1 else []
        ranks.append([*both, total("c")])
    assert outcome(plan_of(*ranks)) == "MISMATCH"
    ring = [
        [
            {
                "op": "batch",
                "ops": [
                    {"op": "isend", "peer": (rank + 1) % size, "bytes": 4},
                    {"op": "irecv", "peer": (rank - 1) % size, "bytes": 4},
                ],
                "work": "w",
            },
            total("c"),
            end("w"),
        ]
        for rank in range(size)
    ]
    assert outcome(plan_of(*ring)) == "SAFE"


def test_a_forged_certificate_is_rejected() -> None:
    """The order in which gloo completes the crossed plan proves nothing under gloo-detail."""
    found = planguard.check(CROSSED, options=CheckOptions(model="gloo", certificate=True))
    proof = found.certificate
    assert proof is not None
    flat = json.dumps(CROSSED).encode()
    forged = {**proof, "model": "gloo-detail", "plan_sha256": hashlib.sha256(flat).hexdigest()}
    honest = {**forged, "model": "gloo"}
    assert verify(flat, json.dumps(honest).encode())
    with pytest.raises(RejectedError, match="messages made before disagree"):
        verify(flat, json.dumps(forged).encode())


def test_branches_and_blocks_are_never_safe_where_numbers_are_open() -> None:
    """A message on either side of a collective is a mismatch, in a block and in a branch."""
    recv, send = message("irecv", 1, work="w"), message("isend", 0, work="w")
    block = plan_of(
        [{"op": "unordered", "body": [total("c"), recv]}, end("w")],
        [{"op": "unordered", "body": [total("c"), send]}, end("w")],
    )
    assert outcome(block) == "MISMATCH"
    choice = {"op": "choice", "name": "c", "branches": [[total("c"), recv], [recv, total("c")]]}
    assert outcome(plan_of([choice, end("w")], [total("c"), send, end("w")])) == "MISMATCH"


def test_an_order_in_which_messages_compete_has_its_numbers() -> None:
    """Receives from anybody in a block: each order is decided with the numbers that it has."""
    takes = message("irecv", "any", work="w")
    sends = [message("isend", 0, work="w"), total("c"), end("w")]
    open_block = plan_of([{"op": "unordered", "body": [total("c"), takes]}, end("w")], sends)
    assert outcome(open_block) == "MISMATCH"
    assert outcome_of(open_block, "gloo-detail", Effort(limit=10_000)) == "MISMATCH"
    first = plan_of([{"op": "unordered", "body": [takes, total("c", "g")]}, end("w")], sends)
    second = [message("isend", 0, work="w"), total("c", "g"), end("w")]
    first["groups"] = {"g": {"ranks": [0, 1]}}
    first["ranks"]["1"]["actions"] = second
    assert outcome(first) == outcome_of(first, "gloo-detail", Effort(limit=10_000)) == "SAFE"
    lost = {"op": "recv", "peer": 1, "tag": 9, "bytes": 4}
    stuck = plan_of([{"op": "unordered", "body": [total("c"), takes]}, end("w"), lost], sends)
    found = planguard.check(stuck, model="gloo-detail")
    assert (found.outcome.value, found.complete) == ("DEADLOCK", True)


JOB = """
import datetime, sys, torch, torch.distributed as dist
port, rank, case = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2,
                        timeout=datetime.timedelta(seconds=20))
def reduce(): dist.all_reduce(torch.ones(1))
def start():
    return dist.irecv(torch.ones(1), 1) if rank == 0 else dist.isend(torch.ones(1), 0)
if case == "crossed" and rank == 1:
    work = start(); reduce()
else:
    reduce(); work = start()
work.wait()
print("ended")
"""


@pytest.mark.processes
@pytest.mark.parametrize("case", ["crossed", "level"])
def test_real_processes_say_the_same(case: str, tmp_path: Any) -> None:
    """Two gloo processes under DETAIL: the crossed program raises on its number, the other ends."""
    (tmp_path / "job.py").write_text(JOB)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    environment = {**os.environ, "TORCH_DISTRIBUTED_DEBUG": "DETAIL"}
    jobs = [
        subprocess.Popen(
            [sys.executable, str(tmp_path / "job.py"), port, str(rank), case],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment,
        )
        for rank in range(2)
    ]  # fmt: skip
    try:
        said = [job.communicate(timeout=80)[0] for job in jobs]
    finally:
        for job in jobs:
            job.kill()
    if case == "level":
        assert all("ended" in one for one in said), said
    else:
        assert any("Sequence number" in one for one in said), said
    assert outcome(CROSSED if case == "crossed" else LEVEL) == (
        "MISMATCH" if case == "crossed" else "SAFE"
    )
