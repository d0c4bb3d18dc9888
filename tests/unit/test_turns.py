"""Who of a process is in MPI first: ProcessGroupMPI lets one thread at a time."""

from __future__ import annotations

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


def plan(*programs: list[Item]) -> Item:
    """A plan of one program per rank, with two groups of all ranks."""
    members = list(range(len(programs)))
    return {
        "schema": "planguard.plan/1",
        "world_size": len(programs),
        "groups": {"A": {"ranks": members}, "B": {"ranks": members}},
        "ranks": {str(rank): {"actions": actions} for rank, actions in enumerate(programs)},
    }


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
    """A rooted collective that a rank may leave leaves it open; no certificate covers turns."""
    root: Item = {"op": "broadcast", "root": 0, "bytes": 4, "async": True, "work": "h"}
    rest = [message("isend", 1, "m"), wait("h"), wait("m")]
    verdict = pg.check(plan([root, *rest], [root, wait("h"), message("recv", 0)]), model="mpi-pg")
    assert verdict.unknown
    assert "may leave early" in verdict.reasons[0]
    document = plan(*CASES["workers of one group keep their order"][1])
    safe = pg.check(document, options=CheckOptions(model="mpi-pg", certificate=True))
    assert safe.safe
    assert safe.certificate is None
