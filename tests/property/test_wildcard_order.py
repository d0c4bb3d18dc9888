from __future__ import annotations

import random

import pytest
from oracle import opened
from oracle.enumerator import enumerate_plan
from oracle.shapes import shaped

import planguard
from planguard import kernels
from planguard.kernels import twin_meetings
from planguard.reordering.messages import states

MODELS = ("gloo", "mpi-sync", "gloo-detail")
EARLY = ("gloo", "mpi-eager", "mpi-pg", "mpi-sync")


def rendezvous(rng):
    """A plan of 3 to 5 ranks that send to each other and receive from anybody, in random order."""
    world = rng.randint(3, 5)
    programs = {rank: [] for rank in range(world)}
    for number in range(rng.randint(3, 7)):
        src, dst = rng.sample(range(world), 2)
        extra = {"bytes": rng.choice([4, 4, 4, 8]), "tag": rng.choice([0, 0, 1])}
        if rng.random() < 0.2:
            for rank in range(world):
                programs[rank].append({"op": "all_reduce", "bytes": 4, "label": f"b{number}"})
            continue
        one = {"op": rng.choice(["send", "isend"]), "peer": dst, **extra}
        peer = "any" if rng.random() < 0.7 else src
        other = {"op": rng.choice(["recv", "irecv"]), "peer": peer, **extra}
        programs[src].append(one)
        programs[dst].append(other)
    for actions in programs.values():
        if rng.random() < 0.5 and len(actions) > 1:
            at = rng.randrange(len(actions) - 1)
            actions[at], actions[at + 1] = actions[at + 1], actions[at]
        for number, action in enumerate(list(actions)):
            if action["op"] in {"isend", "irecv"} and rng.random() < 0.8:
                action["work"] = f"h{number}"
                actions.append({"op": "wait", "work": f"h{number}"})
    ranks = {str(rank): {"actions": actions} for rank, actions in programs.items()}
    return {"schema": "planguard.plan/1", "world_size": world, "ranks": ranks}


def masters(rng):
    """A plan of one or two masters with workers: rounds of messages that any may take, answers and
    collectives between, receives posted ahead, of another kind, or one message more or less.
    """
    masters, workers = rng.choice([1, 1, 2]), rng.randint(2, 4)
    world = masters + workers
    programs = {rank: [] for rank in range(world)}
    for turn in range(rng.randint(1, 2)):
        master, tag = rng.randrange(masters), rng.choice([0, 0, 1])
        chosen = rng.sample(range(masters, world), rng.randint(2, workers))
        answered = [worker for worker in chosen if give(rng, programs[worker], master, tag)]
        take(rng, programs[master], (turn, tag, chosen))
        programs[master] += [{"op": "send", "peer": to, "tag": 7, "bytes": 4} for to in answered]
        if rng.random() < 0.3:
            for program in programs.values():
                program.append({"op": "barrier"})
    for program in programs.values():
        for number, call in enumerate(list(program)):
            if call["op"] == "isend":
                call["work"] = f"s{number}"
                program.append({"op": "wait", "work": f"s{number}"})
    ranks = {str(rank): {"actions": actions} for rank, actions in programs.items()}
    return {"schema": "planguard.plan/1", "world_size": world, "ranks": ranks}


def give(rng, program, master, tag):
    """A worker sends; whether it then waits for an answer."""
    op, size = rng.choice(["send", "isend"]), rng.choice([4] * 9 + [8])
    program.append({"op": op, "peer": master, "tag": tag, "bytes": size})
    if rng.random() < 0.6:
        return False
    program.append({"op": "recv", "peer": master, "tag": 7, "bytes": 4})
    return True


def take(rng, program, turn):
    """A master receives from all, one by one or posted ahead, with something odd at times."""
    number, tag, chosen = turn
    receives = [{"peer": "any"} for _ in chosen]
    if rng.random() < 0.3:
        receives[rng.randrange(len(receives))] = {"peer": rng.choice(chosen)}
    if rng.random() < 0.2:
        receives[rng.randrange(len(receives))]["tag"] = "any"
    if rng.random() < 0.2:
        receives = receives[:-1] if rng.random() < 0.5 else [*receives, {"peer": "any"}]
    waits = []
    ahead = rng.random() < 0.4
    for at, one in enumerate(receives):
        call = {"op": "irecv" if ahead else "recv", "tag": tag, "bytes": 4, **one}
        if ahead:
            call["work"] = f"t{number}.{at}"
            waits.append({"op": "wait", "work": call["work"]})
        program.append(call)
        if rng.random() < 0.15:
            program.append({"op": "send", "peer": rng.choice(chosen), "tag": 7, "bytes": 4})
    if waits and rng.random() < 0.5:
        rng.shuffle(waits)
    if waits and rng.random() < 0.4:
        late = {"op": "recv", "tag": tag, "bytes": 4, "peer": rng.choice(["any", *chosen])}
        waits.insert(rng.randrange(len(waits)), late)
    program += waits


def columns_of(monkeypatch, plan, model):
    """The columns that are searched when a plan is checked; None where it is decided before."""
    kept = []
    original = states.endings

    def watched(machine, limit, late):
        kept.append(machine.columns())
        return original(machine, limit, late)

    with monkeypatch.context() as patch:
        patch.setattr("planguard.reordering.messages.decide.endings", watched)
        planguard.check(plan, model=model)
    return kept[0] if kept else None


def searched(kernels_in_use, columns, most=20_000):
    """The search over columns, come to its end; None where it has more states."""
    search = kernels_in_use.MeetingSearch(columns)
    return None if search.advance(most) else search


def kinds_of_ends(columns, search):
    """Where executions end: how far lanes came, who met anybody, and which pairs disagree."""
    ends, lanes = search.ends(), len(columns["lane_rank"])
    found = set()
    for number in range(len(ends.pair_off) - 1):
        places = range(2 * ends.pair_off[number], 2 * ends.pair_off[number + 1], 2)
        pairs = [(ends.pairs[at], ends.pairs[at + 1]) for at in places]
        said = columns["said"]
        odd = frozenset(pair for pair in pairs if said[pair[0]] != said[pair[1]])
        at = tuple(ends.at[lanes * number : lanes * (number + 1)])
        found.add((at, frozenset(one for pair in pairs for one in pair), odd))
    return found


def compare(monkeypatch, draw, models, seeds):
    """Search with and without the reductions; give what differs and the states of both."""
    differ, sums, count = [], [0, 0], 0
    for seed in seeds:
        rng = random.Random(seed)
        plan = planguard.load(draw(rng))
        columns = columns_of(monkeypatch, plan, rng.choice(models))
        small = columns and searched(kernels.current(), columns)
        with monkeypatch.context() as patch:
            patch.setattr(twin_meetings, "persistent", lambda *given: given[-1])
            patch.setattr(twin_meetings, "sure", lambda *_: None)
            full = columns and searched(kernels.use("python"), columns, 6_000)
        if not small or not full:
            continue
        count += 1
        sums[0] += small.states
        sums[1] += full.states
        same = kinds_of_ends(columns, small) == kinds_of_ends(columns, full)
        if not same or small.states > full.states:
            differ.append(seed)
    assert not differ
    assert sums[0] < sums[1]
    return count


def test_picks_that_go_first_alone_reach_every_ending(monkeypatch):
    """On random plans the reduced search ends in exactly the states in which the full one ends."""
    assert compare(monkeypatch, rendezvous, MODELS, range(120)) > 30


def test_a_sure_pick_loses_no_ending(monkeypatch):
    """The same for masters and workers, whose sends may finish early: where lanes stand in the end,
    and which pairs disagree.
    """
    assert compare(monkeypatch, masters, EARLY, range(150)) > 50


ENDS = (
    *("at", "pair_off", "pairs", "seen_off", "seen"),
    *("buffered_off", "buffered", "looked_off", "looked"),
)


def unlike(monkeypatch, seeds):
    """Seeds whose search by the native kernels is not that of the reference; how many had one."""
    found, count = [], 0
    for seed in seeds:
        rng = random.Random(seed)
        document = (opened.wild(seed, rng), shaped("probes", seed), shaped("modes", seed))[seed % 3]
        try:
            plan = planguard.load(document)
        except planguard.PlanError:
            continue
        for model in rng.sample(EARLY, 2):
            columns = columns_of(monkeypatch, plan, model)
            native = columns and searched(kernels.use("native"), columns, 3_000)
            reference = columns and searched(kernels.use("python"), columns, 3_000)
            if not columns or not native:
                continue
            count += 1
            rows = [[list(getattr(s.ends(), name)) for name in ENDS] for s in (native, reference)]
            if rows[0] != rows[1] or native.states != reference.states:
                found.append((seed, model))
    return found, count


@pytest.mark.skipif(kernels.IMPLEMENTATION != "native", reason="there are no native kernels")
def test_the_native_search_is_that_of_the_reference(monkeypatch):
    """Same states, same ends, met in the same way, array by array: early sends, probes, waits for
    one of several handles, modes.
    """
    found, count = unlike(monkeypatch, range(300))
    assert not found
    assert count > 100


@pytest.mark.slow
@pytest.mark.skipif(kernels.IMPLEMENTATION != "native", reason="there are no native kernels")
def test_the_native_search_is_that_of_the_reference_on_many_plans(monkeypatch):
    """The same on 10,000 plans."""
    found, count = unlike(monkeypatch, range(1_000, 11_000))
    assert not found
    assert count > 5_000


@pytest.mark.slow
def test_picks_that_go_first_alone_reach_every_ending_of_many_plans(monkeypatch):
    """The same on 5,000 plans, and on 20,000 of masters."""
    assert compare(monkeypatch, rendezvous, MODELS, range(1_000, 6_000)) > 1_000
    assert compare(monkeypatch, masters, EARLY, range(1_000, 21_000)) > 5_000


def pools(count, workers):
    """Pools of a master that takes a result from any of its workers and then answers each."""
    ranks = {}
    for pool in range(count):
        base = pool * (workers + 1)
        mine = range(base + 1, base + workers + 1)
        takes = [{"op": "recv", "peer": "any", "bytes": 4}] * workers
        answers = [{"op": "send", "peer": worker, "tag": 1, "bytes": 4} for worker in mine]
        ranks[str(base)] = {"actions": takes + answers}
        for worker in mine:
            give = {"op": "send", "peer": base, "bytes": 4}
            take = {"op": "recv", "peer": base, "tag": 1, "bytes": 4}
            ranks[str(worker)] = {"actions": [give, take]}
    return {"schema": "planguard.plan/1", "world_size": count * (workers + 1), "ranks": ranks}


@pytest.mark.parametrize(
    ("count", "workers", "states_seen"), [(1, 4, 5), (2, 4, 9), (3, 4, 13), (1, 6, 7)]
)
def test_pools_cost_a_sum_of_subsets(count, workers, states_seen):
    """Pools are searched one after the other, each by which workers were served: exact counts."""
    verdict = planguard.check(planguard.load(pools(count, workers)), model="gloo")
    assert verdict.safe
    assert verdict.evidence.states == states_seen
    assert verdict.evidence.schedules == 1


def test_a_message_behind_one_that_nobody_receives_is_posted():
    """torch posts messages where they are called (ADR 0031): an unmatched send that nobody waits
    for holds none of those behind it up, however large.
    """
    sends = [
        {"op": "isend", "peer": 1, "count": 4, "dtype": "f32", "work": "h"},
        {"op": "isend", "peer": 1, "count": 4, "dtype": "f32"},
        {"op": "isend", "peer": 1, "count": 4, "dtype": "i32", "group": "A"},
        {"op": "wait", "work": "h"},
    ]
    receives = [
        {"op": "recv", "peer": "any", "count": 4, "dtype": "f32"},
        {"op": "recv", "peer": "any", "count": 4, "dtype": "i32", "group": "A"},
    ]
    plan = {
        "schema": "planguard.plan/1",
        "world_size": 2,
        "groups": {"A": {"ranks": [0, 1]}},
        "ranks": {"0": {"actions": sends}, "1": {"actions": receives}},
    }
    assert planguard.check(plan, model="mpi-pg").outcome.value == "SAFE"
    assert enumerate_plan(plan, "mpi-pg").outcome == "SAFE"
    large = [item | ({"count": 4096} if "count" in item else {}) for item in sends]
    ranks = {
        "0": {"actions": large},
        "1": {"actions": [item | {"count": 4096} for item in receives]},
    }
    assert planguard.check(plan | {"ranks": ranks}, model="mpi-pg").outcome.value == "SAFE"
