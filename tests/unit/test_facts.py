"""Facts that decide: choices and parts in signatures, creations, unknown sizes, lost messages."""

from __future__ import annotations

import pytest

import planguard
from planguard import Guard
from planguard.screen import screening, store

SUM = {"op": "all_reduce", "bytes": 4}
MPI_EAGER = ("mpi-eager", "mpi-pg")


def plan(*programs, **more):
    """A plan of explicit programs."""
    ranks = {str(rank): {"actions": list(actions)} for rank, actions in enumerate(programs)}
    world = {"schema": "planguard.plan/1", "world_size": len(programs)}
    return {**world, "ranks": ranks, **more}


def choice(name):
    """A branch that every rank takes alike."""
    return {"op": "choice", "name": name, "uniform": True, "branches": [[SUM], []]}


def again(action):
    """A loop of two."""
    return {"op": "repeat", "times": 2, "body": [action]}


def looped(name):
    """A branch in a loop of two."""
    return again(choice(name))


def coalesced(*labels, **fields):
    """A coalesced all_reduce with labelled parts; None has no label."""
    parts = [{"bytes": 4, **({"label": label} if label else {})} for label in labels]
    return {"op": "coalesced", "kind": "all_reduce", "ops": parts, **fields}


ALIKE = {
    "choice": (plan([choice("c")], [choice("c")]), plan([choice("c")], [choice("d")])),
    "loop": (plan([looped("c")], [looped("c")]), plan([looped("c")], [looped("c{i}")])),
    "iteration": (
        plan([looped("c{i}")], [choice("c0"), choice("c1")]),
        plan([looped("c{i}")], [choice("d0"), choice("d1")]),
    ),
    "parts": (
        plan([coalesced("a", "b")], [coalesced("a", "b")]),
        plan([coalesced("a", "b")], [coalesced("b", "a")]),
    ),
    "own label": (
        plan([coalesced("a", label="x")], [coalesced(None, label="x")]),
        plan([coalesced("a", label="y")], [coalesced(None, label="x")]),
    ),
    "parts in a loop": (
        plan(
            [{"op": "repeat", "times": 2, "body": [coalesced("a{i}")]}],
            [coalesced("a0"), coalesced("a1")],
        ),
        plan(
            [{"op": "repeat", "times": 2, "body": [coalesced("a{i}")]}],
            [coalesced("a0"), coalesced("a0")],
        ),
    ),
}
"""Pairs of a safe and an unsafe plan that differ in names only."""


@pytest.mark.parametrize("name", ALIKE)
def test_names_that_decide_are_in_every_signature(name, tmp_path):
    """Guard, screening and a resumed store give each of two plans its own answer."""
    safe, unsafe = ALIKE[name]
    assert planguard.check(safe, model="gloo").safe
    assert planguard.check(unsafe, model="gloo").unsafe
    for order in ((safe, unsafe), (unsafe, safe)):
        guard = Guard(model="gloo")
        assert [guard.check(one).safe for one in order] == [one is safe for one in order]
        kept = tmp_path / f"{order[0] is safe}.db"
        for one in order:
            trial = [("safe" if one is safe else "unsafe", one)]
            ((_, verdict),) = planguard.screen(trial, model="gloo", executor="inline", store=kept)
            assert verdict.safe == (one is safe)


def test_new_names_of_choices_share_an_answer():
    """Two plans in which equal choices have other equal names are one plan."""
    guard = Guard(model="gloo")
    guard.check(plan([choice("c")], [choice("c")]))
    assert guard.check(plan([choice("d")], [choice("d")])).safe
    assert guard.stats.hits == 1


def test_a_store_of_the_old_signature_is_not_trusted(tmp_path, monkeypatch):
    """What was answered for a skeleton that said less is asked again."""
    kept, trial = tmp_path / "s.db", [("a", plan([SUM], [SUM]))]
    monkeypatch.setattr(store, "SIGNATURE", 1)
    list(planguard.screen(trial, model="gloo", executor="inline", store=kept))
    monkeypatch.undo()
    again = planguard.screen(trial, model="gloo", executor="inline", store=kept)
    assert again.store.count() == 0


def test_a_contradiction_is_a_row(monkeypatch):
    """Two outcomes under one key are UNKNOWN with both trials named, and the screening goes on."""
    trials = [("a", plan([SUM], [SUM])), ("b", plan([SUM], [])), ("c", plan([SUM], [SUM]))]
    read = screening.Screening._read

    def alike(self, window, places):
        found = read(self, window, places)
        return {place: _alike(said) for place, said in found.items()}

    monkeypatch.setattr(screening.Screening, "_read", alike)
    rows = list(planguard.screen(trials, model="gloo", executor="inline", cache=False).rows())
    assert [row.outcome for row in rows] == ["SAFE", "UNKNOWN", "SAFE"]
    assert "DEADLOCK" in rows[1].reason
    assert "trial a" in rows[1].reason
    assert rows[1].end == "crashed"


def _alike(said):
    import msgspec

    return msgspec.structs.replace(said, skeleton="0" * 64)


@pytest.mark.parametrize("model", MPI_EAGER)
def test_a_size_that_is_not_said_may_be_small(model):
    """Head to head without sizes: some execution gets stuck, and buffering is what it takes."""
    send, recv = {"op": "send"}, {"op": "recv"}
    programs = [[{**send, "peer": 1 - rank}, {**recv, "peer": 1 - rank}] for rank in range(2)]
    verdict = planguard.check(plan(*programs), model=model)
    assert verdict.outcome.value == "POTENTIAL_DEADLOCK"
    assert [(one.kind, one.bytes) for one in verdict.safe_iff] == [("send-buffering", None)]
    large = [[{**action, "bytes": 1 << 20} for action in program] for program in programs]
    assert planguard.check(plan(*large), model=model).outcome.value == "DEADLOCK"


def test_new_group_under_process_group_mpi_is_a_call_of_the_world():
    """Only members make it: a subset hangs, disjoint groups of everybody do not."""
    groups = {"g": {"ranks": [0, 1]}, "h": {"ranks": [2, 3]}, "all": {"ranks": [0, 1, 2, 3]}}

    def made(*names):
        program = [{"op": "new_group", "group": name} for name in names]
        return planguard.check(plan(*[program] * 4, groups=groups), model="mpi-pg")

    assert made("g").outcome.value == "DEADLOCK"
    assert {finding.code for finding in made("g").findings} == {"PG406"}
    assert made("g", "h").safe
    assert made("all").safe
    crossed = {"g": {"ranks": [0, 1]}, "h": {"ranks": [1, 0]}}
    mine = [[{"op": "new_group", "group": name}] for name in crossed]
    assert planguard.check(plan(*mine, groups=crossed), model="mpi-pg").outcome.value == "MISMATCH"


@pytest.mark.parametrize("model", ["gloo", "nccl", "nccl-lazy", "mpi-eager"])
def test_creating_communicators_is_communication(model):
    """A plan that only creates communicators was checked: it is SAFE, or says what hangs."""
    init, group = {"op": "init"}, {"g": {"ranks": [0, 1]}}
    assert planguard.check(plan([init], [init]), model=model).safe
    made = [{"op": "new_group", "group": "g"}]
    assert planguard.check(plan(made, made, groups=group), model=model).safe
    assert planguard.check(plan([init], []), model=model).outcome.value == "DEADLOCK"


@pytest.mark.parametrize("model", ["gloo", "mpi-eager"])
def test_a_lost_message_is_named_before_nothing_to_check(model):
    """A message that nobody takes is told first, whatever else there is not."""
    lost = plan([{"op": "isend", "peer": 1, "bytes": 4}], [])
    verdict = planguard.check(lost, model=model)
    assert verdict.unknown
    assert [finding.code for finding in verdict.findings] == ["PG210", "PG910"]


@pytest.mark.parametrize("dead", [[SUM], [{"op": "send", "peer": 1, "bytes": 4}]])
def test_what_stands_behind_an_exit_is_nothing_to_check(dead):
    """A call that is never issued matches nothing."""
    other = [SUM] if dead == [SUM] else [{"op": "irecv", "peer": 0, "bytes": 4}]
    last = [{"op": "exit"}, *other] if dead == [SUM] else other
    verdict = planguard.check(plan([{"op": "exit"}, *dead], last), model="mpi-sync")
    assert "PG910" in {finding.code for finding in verdict.findings}


def test_a_third_member_disagrees_through_one_that_says_less():
    """f32 of no size, four bytes of no type, i32 of no size: no two neighbors differ."""
    calls = [{"dtype": "f32"}, {"bytes": 4}, {"dtype": "i32"}]
    for order in (calls, calls[::-1], [calls[1], calls[0], calls[2]]):
        programs = [[{"op": "all_reduce", **call}] for call in order]
        verdict = planguard.check(plan(*programs), model="gloo")
        assert [finding.code for finding in verdict.findings] == ["PG203"]


def test_buffers_of_parts_and_members_are_those_of_the_launch():
    """A tensor in a coalesced part or in a member of a batch is in flight until the wait."""
    wait, read = {"op": "wait", "work": "w"}, {"op": "compute", "reads": ["t"]}
    part = coalesced("a", **{"async": True, "work": "w"})
    part["ops"][0]["writes"] = ["t"]
    taken = {"op": "recv", "peer": 1, "bytes": 4, "writes": ["t"]}
    batch = {"op": "batch", "work": "w", "ops": [taken]}
    send = {"op": "send", "peer": 0, "bytes": 4}
    for launch, other in ((part, coalesced("a")), (batch, send)):
        early = planguard.check(plan([launch, read, wait], [other]), model="gloo")
        late = planguard.check(plan([launch, wait, read], [other]), model="gloo")
        assert "PG304" in {finding.code for finding in early.findings}
        assert "PG304" not in {finding.code for finding in late.findings}
