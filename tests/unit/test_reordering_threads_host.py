from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import pytest
from oracle.enumerator import enumerate_plan

import planguard
from planguard.reordering.threads.lanes import orders_of

Item = dict[str, Any]
SHAPES = (("x", "y"), ("xy", ""), ("x", "x"), ("xx", "y"))
"""Programs of two threads: letters are reductions of groups."""


def call(letter: str, number: int, *, later: bool = False) -> Item:
    """Return a labeled reduction."""
    found: Item = {"op": "all_reduce", "group": letter, "bytes": 4, "label": f"{letter}{number}"}
    return found | ({"async": True, "work": f"{letter}{number}"} if later else {})


def plan_of(*programs: list[Item]) -> Item:
    """Return a plan over two groups of all ranks."""
    members = list(range(len(programs)))
    return {
        "schema": "planguard.plan/1",
        "world_size": len(programs),
        "groups": {"x": {"ranks": members}, "y": {"ranks": members}},
        "ranks": {str(rank): {"actions": actions} for rank, actions in enumerate(programs)},
    }


def threads(shape: tuple[str, ...], *, later: bool = False, op: str = "threads") -> list[Item]:
    """Return a program of threads, or the same chains in a block of open order."""
    counts: Counter[str] = Counter()
    chains: list[list[Item]] = []
    for letters in shape:
        chains.append([])
        for letter in letters:
            chains[-1].append(call(letter, counts[letter], later=later))
            counts[letter] += 1
    chains = [chain for chain in chains if chain]
    waits = [{"op": "wait", "work": f"{x}{n}"} for x in "xy" for n in range(counts[x])]
    return [{"op": op, "threads" if op == "threads" else "body": chains}, *(waits if later else [])]


@pytest.mark.parametrize("model", ["gloo", "gloo-detail", "mpi-eager", "mpi-sync"])
def test_threads_that_share_nothing_take_one_run(model: str) -> None:
    """One thread may be stuck while the other goes on: opposite orders of two groups are safe."""
    plan = planguard.load(plan_of(threads(("x", "y")), threads(("y", "x"))))
    verdict = planguard.check(plan, model=model)
    assert verdict.outcome is planguard.Outcome.SAFE
    assert verdict.evidence.schedules == 1
    one_host = plan_of([call("x", 0), call("y", 0)], [call("y", 0), call("x", 0)])
    assert planguard.check(planguard.load(one_host), model=model).outcome.value == "DEADLOCK"


def test_threads_that_share_a_communicator_race_for_its_rounds() -> None:
    """Both calls on one group are out of round in some order, and the finding says in which."""
    plan = planguard.load(plan_of(threads(("x", "x")), threads(("x", "x"))))
    verdict = planguard.check(plan, model="gloo")
    assert verdict.outcome is planguard.Outcome.MISMATCH
    assert verdict.evidence.schedules == 4
    assert verdict.findings[0].code == "PG102"
    assert any("in different threads" in note for note in verdict.findings[0].notes)


def test_a_stuck_thread_is_shown_by_a_witness_that_was_executed() -> None:
    """Each thread of rank 0 waits for another message; the witness keeps both threads apart."""
    receive = {"op": "recv", "peer": 1, "bytes": 4}
    send = {"op": "send", "peer": 0, "bytes": 4}
    two = [{"op": "threads", "threads": [[receive | {"tag": 1}], [receive | {"tag": 2}]]}]
    plan = plan_of(two, [send | {"tag": 2}, send | {"tag": 3}])
    verdict = planguard.check(planguard.load(plan), model="gloo")
    assert verdict.outcome is planguard.Outcome.DEADLOCK
    witnesses = [finding.witness for finding in verdict.errors]
    assert all(witness is not None and witness.minimal for witness in witnesses)


@pytest.mark.parametrize(
    ("queues", "count"),
    [
        ([["x"], ["y"]], 1),
        ([["x"], ["x"]], 2),
        ([["x", "x"], ["x", "x"]], 6),
        ([["x", "y"], ["x", "y"]], 4),
        ([["x", "y"], ["y", "x"]], 3),
        ([["x"], ["x"], ["x"]], 6),
        ([["x", "y"], ["x"], ["y"]], 4),
    ],
)
def test_each_order_of_calls_that_share_a_queue_is_explored_once(
    queues: list[list[str]], count: int
) -> None:
    """The counts are those of Mazurkiewicz traces, and no trace comes twice."""
    calls = [(t, at) for t, thread in enumerate(queues) for at in range(len(thread))]
    before = [{place - 1} if at else set() for place, (_, at) in enumerate(calls)]
    found = list(orders_of(before, [{queues[t][at]} for t, at in calls]))
    assert len(found) == count
    relative = set()
    for order in found:
        pairs = itertools.combinations([calls[place] for place in order], 2)
        shared = [(a, b) for a, b in pairs if queues[a[0]][a[1]] == queues[b[0]][b[1]]]
        relative.add(frozenset(shared))
    assert len(relative) == count


@pytest.mark.parametrize("model", ["gloo", "mpi-sync"])
def test_a_complete_scope_of_threads_keeps_its_counts(model: str) -> None:
    """All pairs of four thread programs over two groups: outcomes and runs, frozen by count.

    Two reductions of one group in two threads race: two orders of a rank, four of two ranks.
    """
    outcomes: Counter[str] = Counter()
    runs = 0
    for one, other in itertools.combinations_with_replacement(SHAPES, 2):
        plan = planguard.load(plan_of(threads(one), threads(other)))
        verdict = planguard.check(plan, model=model)
        outcomes[verdict.outcome.value] += 1
        runs += verdict.evidence.schedules
    assert dict(outcomes) == {"SAFE": 4, "DEADLOCK": 5, "MISMATCH": 1}
    assert runs == 6 * 1 + 3 * 2 + 1 * 4


@pytest.mark.parametrize("model", ["gloo", "mpi-sync", "mpi-eager"])
def test_threads_in_which_nothing_blocks_are_chains_of_an_open_order(model: str) -> None:
    """Two routes decide the same plans: threads as lanes, and an `unordered` block of chains."""
    for one, other in itertools.combinations_with_replacement(SHAPES, 2):
        found = [
            planguard.check(
                planguard.load(
                    plan_of(threads(one, later=True, op=op), threads(other, later=True, op=op))
                ),
                model=model,
            ).outcome
            for op in ("threads", "unordered")
        ]
        assert found[0] is found[1]


def fused(*, inside: bool) -> Item:
    """Return a plan with a fused buffer, and threads beside it or around its members."""
    members = [
        {
            "op": "all_reduce",
            "group": "x",
            "bytes": 4,
            "async": True,
            "work": n,
            "id": n,
            "label": n,
        }
        for n in ("a", "b")
    ]
    block: Item = {"op": "unordered", "body": members}
    both: list[Item] = [{"op": "threads", "threads": [[block], [call("y", 0)]]}]
    program = both if inside else [block, *threads(("y", "y"))]
    document = plan_of(*([*program, {"op": "wait", "work": ["a", "b"]}] for _ in range(2)))
    return document | {
        "fusion": [
            {"id": "f", "group": "x", "members": ["a", "b"], "coordination": "rank0-broadcast"}
            | {"membership": "fixed", "launch": "ordered"}
        ]
    }


def test_fused_buffers_stand_beside_threads() -> None:
    """Threads beside a buffer are a step of the program, and members in one of them leave there;
    members in two threads that block are not decided, which is said.
    """
    outcome = planguard.check(planguard.load(fused(inside=False)), model="gloo")
    assert outcome.outcome is planguard.Outcome.MISMATCH
    assert "PG102" in {finding.code for finding in outcome.errors}
    plan = fused(inside=True)
    assert planguard.check(planguard.load(plan), model="gloo").safe
    both = plan["ranks"]["0"]["actions"][0]["threads"]  # of all ranks
    both[1].append(both[0][0]["body"].pop())
    verdict = planguard.check(planguard.load(plan), model="gloo")
    assert verdict.unknown
    assert "a member of a fused buffer in a thread" in verdict.reasons[0]
    assert not planguard.check(planguard.load(fused(inside=True)), model="nccl").unknown


def test_what_is_not_decided_beside_threads_says_so() -> None:
    """Handles of another thread in a block, and the handle of a message that dies in a thread."""
    isend = {"op": "isend", "peer": 1, "bytes": 4, "work": "h"}
    body = [{"op": "wait", "work": "h"}, {"op": "compute"}]
    shared = [[isend], [{"op": "unordered", "body": body}]]
    dropped = [[isend, {"op": "drop", "work": "h"}], [call("x", 0)]]
    reasons = []
    for body in (shared, dropped):
        plan = plan_of(
            [{"op": "threads", "threads": body}], [{"op": "recv", "peer": 0, "bytes": 4}]
        )
        verdict = planguard.check(planguard.load(plan), model="gloo")
        assert verdict.unknown
        reasons.append(verdict.reasons[0])
    assert "two threads in a given order" in reasons[0]
    assert "a dropped handle" in reasons[1]


def test_numbers_of_calls_make_no_certain_deadlock_weaker():
    """Under gloo-detail orders of threads have other numbers: what hangs in each is a DEADLOCK."""
    reduce = {"op": "all_reduce", "bytes": 4, "group": "a"}
    send = {"op": "send", "peer": 0, "bytes": 4, "group": "a"}
    plan = {
        "schema": "planguard.plan/1",
        "world_size": 2,
        "groups": {"a": {"ranks": [0, 1]}},
        "ranks": {
            "0": {"actions": []},
            "1": {"actions": [{"op": "threads", "threads": [[reduce], [send]]}]},
        },
    }
    for model in ("gloo-detail", "gloo"):
        verdict = planguard.check(plan, model=model)
        assert (verdict.outcome, verdict.complete) == (planguard.Outcome.DEADLOCK, True)
        assert enumerate_plan(plan, model).outcome == "DEADLOCK"


def threaded(*bodies: list[Item]) -> Item:
    """Return a block of threads."""
    return {"op": "threads", "threads": list(bodies)}


IN_TURN: dict[str, tuple[list[Item], list[Item]]] = {
    "a call behind one that another thread cannot make": (
        [
            threaded(
                [call("x", 0), {"op": "compute", "id": "c"}], [{**call("y", 0), "after": ["c"]}]
            )
        ],
        [call("y", 0), call("x", 0)],
    ),
    "a call behind one that another thread makes": (
        [threaded([{**call("x", 0), "id": "c"}], [{**call("y", 0), "after": ["c"]}])],
        [call("y", 0), call("x", 0)],
    ),
    "a wait in another thread than the start": (
        [threaded([call("x", 0), call("y", 0, later=True)], [{"op": "wait", "work": "y0"}])],
        [call("y", 0), call("x", 0)],
    ),
}
NESTED: dict[str, tuple[list[Item], list[Item]]] = {
    "threads in threads": (
        [threaded([threaded([call("x", 0)], [call("y", 0)])], [])],
        [call("y", 0), call("x", 0)],
    ),
    "a chain with threads in it": (
        [threaded([call("x", 0), threaded([call("y", 0)], [])], [])],
        [call("y", 0), call("x", 0)],
    ),
    "behind threads in threads": (
        [threaded([threaded([call("x", 0)], []), call("y", 0)], [])],
        [call("y", 0), call("x", 0)],
    ),
    "threads in a block": (
        [{"op": "unordered", "body": [threaded([call("x", 0)], [call("y", 0)]), call("x", 1)]}],
        [call("x", 0), call("x", 1), call("y", 0)],
    ),
    "a block around threads and what comes after them": (
        [
            {
                "op": "unordered",
                "body": [
                    {**threaded([call("x", 0)], [call("y", 0)]), "id": "t"},
                    {**call("x", 1), "after": ["t"]},
                ],
            }
        ],
        [call("y", 0), call("x", 0), call("x", 1)],
    ),
}


@pytest.mark.parametrize("model", ["gloo", "gloo-detail", "mpi-sync", "nccl-serialized"])
@pytest.mark.parametrize("case", [*IN_TURN, *NESTED])
def test_threads_in_blocks_and_in_threads_are_decided_exactly(case: str, model: str) -> None:
    """Each is decided, as by the enumerator; `after` and handles hold up a thread for others."""
    document = plan_of(*(IN_TURN | NESTED)[case])
    verdict = planguard.check(planguard.load(document), model=model)
    assert verdict.outcome.value == enumerate_plan(document, model).outcome
    if case == "a call behind one that another thread cannot make" and model == "gloo":
        assert verdict.outcome.value == "DEADLOCK"


def test_what_stands_between_the_calls_of_threads_in_a_block_does_not_come_there() -> None:
    """The host joins its threads before it goes on, under the NCCL models too."""
    send = {"op": "send", "peer": 1, "bytes": 4}
    first = {"op": "broadcast", "root": 1, "group": "x", "bytes": 4, "label": "b"}
    recv = {"op": "recv", "peer": 0, "bytes": 4}
    document = plan_of(
        [
            {**send, "op": "isend", "label": "m", "work": "h"},
            threaded([first, {"op": "wait", "work": "h"}]),
            {**send, "group": "x", "label": "n"},
        ],
        [
            {
                "op": "unordered",
                "body": [
                    first,
                    threaded([{**recv, "label": "m"}, {**recv, "group": "x", "label": "n"}]),
                ],
            }
        ],
    )
    verdict = planguard.check(planguard.load(document), model="nccl-serialized")
    expected = enumerate_plan(document, "nccl-serialized").outcome
    assert verdict.outcome.value == expected == "DEADLOCK"


LEAVE: Item = {"op": "exit"}
NEVER: Item = {"op": "recv", "peer": 1, "tag": 7, "bytes": 4}
"""A receive that nobody sends to."""


def beside(*chains: list[Item]) -> Item:
    """Return threads."""
    return {"op": "threads", "threads": list(chains)}


@pytest.mark.parametrize("model", ["gloo", "mpi-eager", "mpi-sync"])
@pytest.mark.parametrize(
    ("chains", "partner", "expected"),
    [
        # It leaves before the other thread calls, while that thread stands in its call, or after.
        ([[LEAVE], [call("x", 0)]], [call("x", 0)], "POTENTIAL_DEADLOCK"),
        ([[LEAVE], [NEVER]], [], "SAFE"),
        ([[call("x", 0), LEAVE], []], [call("x", 0)], "SAFE"),
        # It gets there only behind what the partner does for both threads.
        ([[call("x", 0), LEAVE], [call("y", 0)]], [call("y", 0), call("x", 0)], "SAFE"),
        ([[call("x", 0), LEAVE], [call("y", 0)]], [call("x", 0), call("y", 0)],
         "POTENTIAL_DEADLOCK"),
        # It is kept from it, whatever the other thread calls.
        ([[NEVER, LEAVE], [call("x", 0)]], [call("x", 0)], "DEADLOCK"),
        ([[NEVER, LEAVE], [NEVER, LEAVE]], [], "DEADLOCK"),
        ([[NEVER, LEAVE], [LEAVE]], [], "SAFE"),
    ],
)  # fmt: skip
def test_a_thread_that_leaves_cuts_the_others_off_anywhere(
    model: str, chains: list[list[Item]], partner: list[Item], expected: str
) -> None:
    """Every place of an exit in a thread among the calls of the other threads is an order."""
    partner = [*partner, {"op": "send", "peer": 0, "tag": 8, "bytes": 40_000}]
    taken: Item = {"op": "recv", "peer": 1, "tag": 8, "bytes": 40_000}
    document = plan_of([taken, beside(*chains)], [partner[-1], *partner[:-1]])
    verdict = planguard.check(planguard.load(document), model=model)
    assert verdict.outcome.value == expected == enumerate_plan(document, model).outcome


@pytest.mark.parametrize("started", ["isend", "irecv"])
def test_a_message_in_flight_may_be_lost_with_its_rank(started: str) -> None:
    """On gloo an exit takes along what was started and has not met: who wins is not decided."""
    mine: Item = {"op": started, "peer": 1, "bytes": 4, "work": "h"}
    its: Item = {"op": "recv" if started == "isend" else "send", "peer": 0, "bytes": 4}
    document = plan_of([mine, beside([LEAVE], [call("x", 0)])], [its])
    assert planguard.check(planguard.load(document), model="gloo").outcome.value == "UNKNOWN"


def test_a_stuck_order_that_disagrees_is_seen_by_who_asks_further() -> None:
    """Of two orders that are stuck the one whose members disagree is shown: beside a branch that is
    not stuck it makes a MISMATCH.
    """
    gather: Item = {"op": "all_gather", "group": "x", "bytes": 4, "label": "g"}
    branch: Item = {"op": "choice", "name": "c", "branches": [[call("x", 0)], []]}
    document = plan_of([branch], [], [beside([LEAVE], [gather])])
    assert planguard.check(planguard.load(document), model="mpi-sync").outcome.value == "MISMATCH"
