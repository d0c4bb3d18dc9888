"""Who of a process is in MPI first: ProcessGroupMPI lets one thread at a time."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from oracle.enumerator import enumerate_plan

import planguard as pg
from planguard.options import CheckOptions

Item = dict[str, Any]
AR: Item = {"op": "all_reduce", "bytes": 4}
LARGE = 1 << 20


def later(group: str = "world", work: str = "h") -> Item:
    """An asynchronous reduction."""
    return {**AR, "group": group, "async": True, "work": work}


def wait(*works: str) -> Item:
    """A wait for handles."""
    return {"op": "wait", "work": list(works) if len(works) > 1 else works[0]}


def message(op: str, peer: int, work: str | None = None, size: int = 4) -> Item:
    """A message, with a handle if it has a name."""
    found: Item = {"op": op, "peer": peer, "bytes": size}
    return found | ({"work": work} if work else {})


def alike(op: str, peer: int, work: str | None = None) -> Item:
    """A message that has the label of others."""
    return message(op, peer, work) | {"label": "x"}


def plan(*programs: list[Item]) -> Item:
    """A plan of one program per rank, with two groups of all ranks."""
    members = list(range(len(programs)))
    return {
        "schema": "planguard.plan/1",
        "world_size": len(programs),
        "groups": {"A": {"ranks": members}, "B": {"ranks": members}},
        "ranks": {str(rank): {"actions": actions} for rank, actions in enumerate(programs)},
    }


def named(label: str, group: str = "world") -> Item:
    """A reduction with a label."""
    return {**AR, "group": group, "label": label}


def threads(*programs: list[Item]) -> Item:
    """Threads that begin together and are joined."""
    return {"op": "threads", "threads": list(programs)}


ROOT: Item = {"op": "broadcast", "root": 0}
CASES: dict[str, tuple[str, list[list[Item]]]] = {
    "the host waits for a message behind the reduction that its worker owes": (
        "POTENTIAL_DEADLOCK",
        [[later(), message("recv", 1), wait("h")], [AR, message("send", 0)]],
    ),
    "the message comes first on both sides": (
        "SAFE",
        [
            [later(), message("irecv", 1, "m", LARGE), wait("h"), wait("m")],
            [later(), message("isend", 0, "m", LARGE), wait("h"), wait("m")],
        ],
    ),
    "workers of two groups start in other orders": (
        "POTENTIAL_DEADLOCK",
        [[later("A", "a"), later("B", "b"), wait("a", "b")]] * 2,
    ),
    "workers of one group keep their order": (
        "SAFE",
        [[later("A", "a"), later("A", "b"), message("isend", 1, "m"), wait("a", "b"), wait("m")],
         [later("A", "a"), later("A", "b"), wait("a", "b"), message("recv", 0)]],
    ),
    "a small send need not be buffered": (
        "POTENTIAL_DEADLOCK",
        [[later(), message("send", 1), wait("h")], [later(), wait("h"), message("recv", 0)]],
    ),
    "a wait for all of several handles begins with any of them": (
        "POTENTIAL_DEADLOCK",
        [
            [later(), message("irecv", 1, "m"), wait("h", "m")],
            [AR, message("send", 0)],
        ],
    ),
    "a batch waits for its messages": (
        "POTENTIAL_DEADLOCK",
        [
            [later(), {"op": "batch", "ops": [message("irecv", 1), message("isend", 1)]},
             wait("h")],
            [AR, {"op": "batch", "ops": [message("irecv", 0), message("isend", 0)]}],
        ],
    ),
    "who leaves a rooted call early lets its host go on": (
        "SAFE",
        [[later("A") | ROOT, message("isend", 1, "m"), wait("h"), wait("m")],
         [later("A") | ROOT, wait("h"), message("recv", 0)]],
    ),
    "and its worker, which is then in another call before a partner comes": (
        "POTENTIAL_DEADLOCK",
        [[later("A", "a") | ROOT, wait("a"), later("B", "b"), wait("b")],
         [later("B", "b"), later("A", "a") | ROOT, wait("b", "a")]],
    ),
    "one thread waits for a message behind a reduction of another one": (
        "POTENTIAL_DEADLOCK",
        [[threads([AR], [message("recv", 1)])], [AR, message("send", 0)]],
    ),
    "both threads of both sides alike": (
        "POTENTIAL_DEADLOCK",
        [[threads([AR], [message("recv", 1)])], [threads([AR], [message("send", 0)])]],
    ),
    "threads that post messages which are waited for behind them": (
        "SAFE",
        [[threads([AR], [message("irecv", 1, "m")]), wait("m")],
         [threads([AR], [message("isend", 0, "m")]), wait("m")]],
    ),
    "a thread that comes behind a call of another one": (
        "SAFE",
        [[threads([{**AR, "id": "r"}], [message("isend", 1), message("isend", 1, "n")])],
         [AR, message("recv", 0), message("recv", 0)]],
    ),
    "threads that have one queue": (
        "POTENTIAL_DEADLOCK",
        [[threads([named("a"), named("b", "A")], [named("a", "B")])],
         [named("a", "B"), named("a"), named("b", "A")]],
    ),
    "a worker before either of two threads that have one channel": (
        "POTENTIAL_DEADLOCK",
        [[later(), threads([alike("isend", 1, "m")], [alike("isend", 1, "n")]), wait("h")],
         [alike("recv", 0), AR, alike("recv", 0)]],
    ),
    "a worker behind one of two threads that have one channel": (
        "SAFE",
        [[threads([alike("isend", 1, "m")], [alike("isend", 1, "n"), later()]), wait("h")],
         [alike("recv", 0), AR, alike("recv", 0)]],
    ),
    "an order that the host picks": (
        "POTENTIAL_DEADLOCK",
        [[{"op": "unordered", "body": [later(), message("irecv", 1, "m")]}, wait("m"), wait("h")],
         [AR, message("send", 0)]],
    ),
    "one that plays no part": (
        "SAFE",
        [[{"op": "unordered", "body": [later(), message("isend", 1, "m")]}, wait("h"), wait("m")],
         [later(), wait("h"), message("recv", 0)]],
    ),
    "what stands behind an exit": (
        "POTENTIAL_DEADLOCK",
        [[later(), message("recv", 1), wait("h"), {"op": "exit"}, message("recv", 1)],
         [AR, message("send", 0)]],
    ),
    "a wait for a message that is there, behind a reduction that never ends": (
        "POTENTIAL_DEADLOCK",
        [[message("irecv", 1, "m"), wait("m")],
         [message("isend", 0, "m"), later("A"), wait("m")]],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_who_is_in_mpi_first_is_decided(case: str) -> None:
    """Each outcome is as argued, as by the enumerator, and what hangs has a witness."""
    expected, programs = CASES[case]
    document = plan(*programs)
    verdict = pg.check(document, model="mpi-pg")
    assert verdict.outcome.value == expected
    assert enumerate_plan(document, "mpi-pg").outcome == expected
    assert verdict.evidence.kind == "exhaustive"
    assert verdict.evidence.states > 0
    if verdict.unsafe:
        witness = verdict.errors[0].witness
        assert witness is not None
        assert witness.end == "stuck"
        assert any("is in MPI for" in note for note in verdict.errors[0].notes)


ONE_RECEIVE = [
    case
    for case, (_, programs) in CASES.items()
    if len(programs) == 2 and str(programs).count("recv'") == 1 and "threads" not in str(programs)
]


@pytest.mark.parametrize("case", ONE_RECEIVE)
def test_a_receive_from_anybody_without_a_choice_is_one_with_a_name(case: str) -> None:
    """Where one message alone fits, turns are searched as if the receive named its sender."""
    expected, programs = CASES[case]
    asked = json.loads(
        re.sub(r'("op": "i?recv", "peer": )\d', r'\1"any"', json.dumps(plan(*programs)))
    )
    assert '"any"' in json.dumps(asked)
    verdict = pg.check(asked, model="mpi-pg")
    assert (verdict.outcome.value, verdict.complete) == (expected, True)
    assert enumerate_plan(asked, "mpi-pg").outcome == expected
    if verdict.unsafe:
        assert verdict.errors[0].witness.end == "stuck"


def test_a_branch_is_decided_with_its_turns() -> None:
    """Each combination of branches is decided alone; the plan says what they say together."""
    bad = CASES["the host waits for a message behind the reduction that its worker owes"][1]
    good = [[AR], [AR]]
    programs = [
        [{"op": "choice", "name": "c", "uniform": True, "branches": [one, other]}]
        for one, other in zip(good, bad, strict=True)
    ]
    assert pg.check(plan(*programs), model="mpi-pg").outcome.value == "POTENTIAL_DEADLOCK"


MIXED: dict[str, tuple[str, list[list[Item]]]] = {
    "its wait may begin with the message": (
        "POTENTIAL_DEADLOCK",
        [
            [{"op": "batch", "ops": [AR, message("irecv", 1)], "work": "h"}, wait("h")],
            [AR, message("send", 0)],
        ],
    ),
    "both sides alike": (
        "UNKNOWN",
        [
            [{"op": "batch", "ops": [AR, message("irecv", 1)], "work": "h"}, wait("h")],
            [{"op": "batch", "ops": [AR, message("isend", 0)], "work": "h"}, wait("h")],
        ],
    ),
}


@pytest.mark.parametrize("case", MIXED)
def test_a_batch_with_a_collective_is_decided_where_its_steps_play_no_part(case: str) -> None:
    """Its calls are one step or several: only what both say is an answer, in a branch as well."""
    expected, programs = MIXED[case]
    document = plan(*programs)
    verdict = pg.check(document, model="mpi-pg")
    assert verdict.outcome.value == expected
    if verdict.unknown:
        assert "a batch with a collective" in verdict.reasons[0]
    else:
        assert enumerate_plan(document, "mpi-pg").outcome == expected
    begin: Item = {"op": "choice", "name": "c", "uniform": True}
    chosen = [[{**begin, "branches": [one, one]}] for one in programs]
    assert pg.check(plan(*chosen), model="mpi-pg").outcome.value == expected


def test_what_is_not_followed_says_so() -> None:
    """A creation beside a call leaves it open, and a batch whose calls threads may come between; no
    certificate covers turns.
    """
    create: Item = {"op": "init", "group": "A"}
    small = message("isend", 1) | {"label": "x"}
    batch: Item = {"op": "batch", "label": "x", "ops": [small, small]}
    third = message("send", 1) | {"label": "x"}
    both = [message("recv", 0) | {"label": "x"}] * 3
    for programs, why in (
        ([[later(), create, wait("h")]] * 2, "a creation beside"),
        ([[later(), threads([batch], [third]), wait("h")], [AR, *both]], "a batch"),
    ):
        verdict = pg.check(plan(*programs), model="mpi-pg")
        assert verdict.unknown, why
        assert why in verdict.reasons[0]
    document = plan(*CASES["workers of one group keep their order"][1])
    safe = pg.check(document, options=CheckOptions(model="mpi-pg", certificate=True))
    assert safe.safe
    assert safe.certificate is None
    (reason,) = safe.to_json()["reasons"]
    assert reason.startswith("no certificate: rank 0: under mpi-pg two of its threads")
