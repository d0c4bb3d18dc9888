"""Any-source receives without a choice, and buffering that enables nothing."""

from __future__ import annotations

import random

import pytest
from oracle.enumerator import enumerate_plan

import planguard as pg


def plan(*programs):
    """A plan of one program per rank."""
    return {
        "schema": "planguard.plan/1",
        "world_size": len(programs),
        "ranks": {str(rank): {"actions": list(body)} for rank, body in enumerate(programs)},
    }


def tagged(count):
    """Receives from anybody with a tag each, for one message each."""
    receives = [{"op": "recv", "peer": "any", "tag": k, "bytes": 4} for k in range(count)]
    return plan(receives, [{"op": "send", "peer": 0, "tag": k, "bytes": 4} for k in range(count)])


@pytest.mark.parametrize("model", ["gloo", "mpi-eager", "mpi-sync", "mpi-pg"])
def test_a_receive_with_one_message_needs_no_search(model):
    """Forty receives, each with one message that it may take: decided as the fixed plan it is."""
    verdict = pg.check(tagged(40), model=model)
    assert verdict.safe, verdict
    assert verdict.evidence.states == 0


@pytest.mark.parametrize("model", ["gloo", "mpi-eager", "mpi-sync"])
def test_one_sender_does_not_overtake_itself(model):
    """Receives that ask alike take the messages of one sender in order, sizes included."""
    sends = [{"op": "send", "peer": 0, "bytes": size} for size in (4, 8)]
    same = [{"op": "recv", "peer": "any", "bytes": size} for size in (4, 8)]
    assert pg.check(plan(same, sends), model=model).safe
    crossed = plan(same[::-1], sends)
    assert pg.check(crossed, model=model).outcome.value == enumerate_plan(crossed, model).outcome


@pytest.mark.parametrize("workers", [4, 8])
def test_buffering_that_enables_nothing_is_no_choice(workers):
    """Workers that end behind their send: as many states with buffering as without."""
    receives = [{"op": "recv", "peer": "any", "bytes": 4}] * workers
    document = plan(receives, *([{"op": "send", "peer": 0, "bytes": 4}] for _ in range(workers)))
    found = {m: pg.check(document, model=m) for m in ("mpi-eager", "mpi-sync")}
    assert all(verdict.safe for verdict in found.values())
    assert len({verdict.evidence.states for verdict in found.values()}) == 1


@pytest.mark.parametrize("seed", range(60))
def test_random_messages_against_the_enumerator(seed):
    """Random sends and receives, some from anybody, some tagged: outcomes of the enumerator."""
    rng = random.Random(seed)
    programs = [[], [], []]
    for _ in range(rng.randint(2, 6)):
        src, dst = rng.sample(range(3), 2)
        tag, size = rng.choice([0, 0, 1]), rng.choice([4, 4, 8, 1 << 14])
        programs[src].append({"op": "send", "peer": dst, "tag": tag, "bytes": size})
        if rng.random() < 0.9:
            peer = rng.choice(["any", src])
            programs[dst].append(
                {"op": "recv", "peer": peer, "tag": rng.choice([tag, "any"]), "bytes": size}
            )
    if rng.random() < 0.3:
        rng.choice(programs).append({"op": "exit"})
    document = plan(*programs)
    for model in ("gloo", "mpi-eager", "mpi-sync"):
        verdict = pg.check(document, model=model)
        expected = enumerate_plan(document, model).outcome
        if "UNKNOWN" in {verdict.outcome.value, expected}:
            continue
        if {verdict.outcome.value, expected} == {"DEADLOCK", "MISMATCH"}:
            continue  # which of the two caused the other
        assert verdict.outcome.value == expected, (model, document)


def master(workers, rounds):
    """Rounds in which a master takes a message of each worker, whoever comes, and answers all."""
    bodies = [[] for _ in range(workers + 1)]
    for _ in range(rounds):
        bodies[0] += [{"op": "recv", "peer": "any", "bytes": 8}] * workers
        for worker in range(1, workers + 1):
            bodies[0].append({"op": "send", "peer": worker, "tag": 1, "bytes": 8})
            bodies[worker].append({"op": "send", "peer": 0, "bytes": 8})
            bodies[worker].append({"op": "recv", "peer": 0, "tag": 1, "bytes": 8})
    return plan(*bodies)


@pytest.mark.parametrize("model", ["gloo", "mpi-eager", "mpi-sync", "mpi-pg"])
@pytest.mark.parametrize(("workers", "rounds"), [(32, 1), (8, 5)])
def test_a_master_costs_a_step_for_each_message(model, workers, rounds):
    """One state for each message that is taken, and one to begin with; not one for each subset."""
    verdict = pg.check(master(workers, rounds), model=model)
    assert verdict.safe, verdict
    assert verdict.evidence.states == workers * rounds + 1


@pytest.mark.parametrize("model", ["gloo", "mpi-eager"])
def test_a_master_that_answers_in_between_is_searched(model):
    """Who is taken first matters where the master sends to one worker before it has heard all."""
    early = master(3, 1)
    actions = early["ranks"]["0"]["actions"]
    actions.insert(1, actions.pop(3))
    assert [one["op"] for one in actions[:4]] == ["recv", "send", "recv", "recv"]
    assert pg.check(early, model=model).outcome.value == "POTENTIAL_DEADLOCK"
    assert enumerate_plan(early, model).outcome == "POTENTIAL_DEADLOCK"


@pytest.mark.parametrize("model", ["gloo", "mpi-eager", "mpi-sync"])
def test_groups_that_are_made_beside_receives_from_anybody_are_decided(model):
    """Before or behind them, and the group is used: SAFE; not so where a rank leaves it out."""
    make, use = {"op": "new_group", "group": "g"}, {"op": "all_reduce", "group": "g", "bytes": 4}
    receive = [{"op": "recv", "peer": "any", "bytes": 4}] * 2
    send = [{"op": "send", "peer": 0, "bytes": 4}]

    def outcome(*bodies):
        document = plan(*bodies) | {"groups": {"g": {"ranks": [0, 1]}}}
        return pg.check(document, model=model).outcome.value

    before = [make, *receive, use], [make, *send, use], [make, *send]
    behind = [*receive, make, use], [*send, make, use], [*send, make]
    assert outcome(*before) == outcome(*behind) == "SAFE"
    assert outcome([*receive, use], *behind[1:]) != "SAFE"
