"""Claims about replays of what a plan leaves open, and of everything that is accepted as a plan."""

from __future__ import annotations

import json

import psutil
import pytest

import planguard as pg
from planguard.errors import ReplayError, UsageError
from planguard.recording import Call, Observed, RankRecord, RecordedGroup, Recording
from planguard.replay import concluded, decode_witness, playable_of, transcript, write_script
from planguard.replay.pool import Job, Pool

pytestmark = [pytest.mark.processes, pytest.mark.wheel]
PATIENCE = 1.5


@pytest.fixture(scope="module")
def pool():
    """A pool of replays, gone with all its processes at the end."""
    before = set(psutil.Process().children(recursive=True))
    with Pool(2) as pool:
        yield pool
    left = set(psutil.Process().children(recursive=True)) - before
    assert not [process for process in left if process.is_running()]


@pytest.fixture
def play(pool):
    """Play a plan, or a witness of it."""

    def play(plan, witness=None, seed=None, model="gloo"):
        way = playable_of(plan, witness, model, seed)
        script = write_script(way.flat, way.witness, places=way.places)
        [observed] = pool.run([Job(script.text, PATIENCE, seed)])
        return concluded(way, script, observed, model=model)

    return play


def plan(*programs, groups=None, **fields):
    """A plan with one program per rank."""
    ranks = {str(rank): {"actions": list(actions)} for rank, actions in enumerate(programs)}
    return {
        "schema": "planguard.plan/1",
        "world_size": len(programs),
        "groups": {name: {"ranks": members} for name, members in (groups or {}).items()},
        "ranks": ranks,
        **fields,
    }


def op(name, count=4, **fields):
    """A communication of f32 elements."""
    return {"op": name, "count": count, "dtype": "f32", **fields}


def stuck(result):
    """Where ranks are stuck, in the numbers of the plan."""
    return {s.rank: s.action for s in result.ranks if s.state == "stuck"}


A_AND_B = {"a": [0, 1], "b": [0, 1]}
FIRST, SECOND = op("all_reduce", group="a", label="x"), op("all_reduce", group="b", label="y")


def test_a_witness_of_an_open_order_is_played_in_its_order(play):
    """Two collectives that a block leaves unordered hang in the order of the witness."""
    block = {"op": "unordered", "body": [FIRST, SECOND]}
    both = plan([{"op": "compute"}, block], [{"op": "compute"}, block], groups=A_AND_B)
    verdict = pg.check(both, model="gloo")
    assert verdict.outcome is pg.Outcome.POTENTIAL_DEADLOCK
    result = play(both, verdict.witness)
    assert result.reproduced, transcript(result)
    assert stuck(result) == dict(verdict.witness.blocked)
    assert len({text.split()[3] for text in (s.text for s in result.ranks)}) == 2


def test_a_witness_takes_the_branches_that_it_shows(play):
    """Ranks that take different branches hang where the verdict says, as the plan numbers it."""
    choice = {"op": "choice", "name": "skip", "branches": [[], [op("all_reduce")]]}
    both = plan([choice, op("barrier")], [choice, op("barrier")])
    del both["ranks"]["0"]["actions"][1]["count"], both["ranks"]["0"]["actions"][1]["dtype"]
    both["ranks"]["1"]["actions"][1] = both["ranks"]["0"]["actions"][1]
    verdict = pg.check(both, model="gloo")
    assert verdict.unsafe
    assert "uniform-branch" in {condition.kind for condition in verdict.safe_iff}
    result = play(both, verdict.witness)
    assert result.reproduced, transcript(result)
    for seed in range(3):
        uniform = json.loads(json.dumps(both).replace('"skip"', '"skip", "uniform": true'))
        assert play(uniform, seed=seed).completed


def fused(members, order):
    """A rank whose gradients become ready in an order of its own and share a buffer."""
    ready = [
        op("all_reduce", 1, id=name, label=name, work=name, **{"async": True}) for name in order
    ]
    return [{"op": "unordered", "body": ready}, {"op": "wait", "work": list(members)}]


def test_flushes_are_played_in_the_order_of_the_witness(play):
    """Fused buffers that are flushed differently join the wrong rounds; real sums are wrong."""
    buffer = {"id": "grads", "group": "world", "members": ["g0", "g1", "g2"], "cap_bytes": 8}
    buffer |= {"membership": "fill", "coordination": "none"}
    both = plan(*[fused(buffer["members"], buffer["members"])] * 2, fusion=[buffer])
    verdict = pg.check(both, model="gloo")
    assert verdict.outcome is pg.Outcome.MISMATCH
    result = play(both, verdict.witness)
    assert result.reproduced, transcript(result)
    agreed = plan(
        *[fused(buffer["members"], buffer["members"])] * 2,
        fusion=[{**buffer, "membership": "fixed", "launch": "ordered"}],
    )
    assert pg.check(agreed, model="gloo").safe
    for seed in range(3):
        result = play(agreed, seed=seed)
        assert result.completed, transcript(result)


def test_a_dropped_handle_hangs_its_pair(play):
    """A handle that dies before its match is played so: the partner comes later, and hangs."""
    drop = plan([op("isend", peer=1, work="w"), {"op": "drop", "work": "w"}], [op("recv", peer=0)])
    assert pg.check(drop, model="gloo").outcome is pg.Outcome.POTENTIAL_DEADLOCK
    assert stuck(play(drop)) == {1: 0}


def test_host_threads_run_side_by_side(play):
    """Two threads enter two groups in any order; one thread alone would hang."""
    straight = [FIRST, SECOND]
    threads = [{"op": "threads", "threads": [[SECOND], [FIRST]]}]
    result = play(plan(straight, threads, groups=A_AND_B), seed=1)
    assert result.completed, transcript(result)
    assert stuck(play(plan(straight, straight[::-1], groups=A_AND_B))) == {0: 0, 1: 0}
    alone = plan([FIRST], threads, groups=A_AND_B)
    result = play(alone)
    assert list(stuck(result)) == [1], transcript(result)
    assert result.ranks[1].inside


def test_a_wait_for_the_first_of_several_goes_on(play):
    """Waiting for any of two receives ends with the first; waiting for both would hang."""
    receives = [op("irecv", peer=1, work="a"), op("irecv", peer=1, tag=1, work="b")]
    later = [op("send", peer=1, tag=2), {"op": "wait", "work": ["a"]}]
    first = {"op": "wait", "work": ["a", "b"], "mode": "any"}
    other = [op("send", peer=0, tag=1), op("recv", peer=0, tag=2), op("send", peer=0)]
    result = play(plan([*receives, first, *later], other))
    assert result.completed, transcript(result)
    both = {"op": "wait", "work": ["a", "b"]}
    assert stuck(play(plan([*receives, both], other))) == {0: 2, 1: 1}


def test_receives_from_anyone_take_what_comes(play):
    """A receive from anyone is played as one, and every sender is served."""
    anyone = plan([op("recv", peer="any")] * 2, [op("send", peer=0)], [op("send", peer=0)])
    for seed in (1, 2):
        result = play(anyone, seed=seed)
        assert result.completed, transcript(result)


def test_a_computation_waits_for_what_it_depends_on(play):
    """A computation on the result of a receive blocks its rank until the message is there."""
    waits = [op("irecv", peer=1, id="in", work="w"), {"op": "compute", "deps": ["in"]}]
    met = plan([*waits, op("send", peer=1)], [op("send", peer=0), op("recv", peer=0)])
    assert play(met).completed
    crossed = plan([*waits, op("send", peer=1)], [op("recv", peer=0), op("send", peer=0)])
    assert stuck(play(crossed)) == {0: 1, 1: 0}


def test_members_of_an_uneven_all_to_all_get_their_chunks(play):
    """An all-to-all whose members send different totals delivers every chunk."""
    rows = [[3, 2, 2], [3, 1, 1], [0, 2, 2]]
    programs = [
        [op("all_to_all_single", sum(rows[r]), in_splits=rows[r], out_splits=[q[r] for q in rows])]
        for r in range(3)
    ]
    result = play(plan(*programs))
    assert result.completed, transcript(result)


def test_a_schedule_by_hand_chooses_orders_and_branches(play):
    """Items of an open plan are played in the order of the schedule, in the branch they are in."""
    choice = {"op": "choice", "name": "c", "branches": [[op("barrier")], [FIRST, SECOND]]}
    choice["branches"][0] = [{"op": "barrier"}]
    block = {"op": "unordered", "body": [FIRST, SECOND]}
    both = plan([choice], [block], groups=A_AND_B)
    same = play(both, decode_witness("0.4/0.5/1.1/1.2", None))
    assert [state.state for state in same.ranks] == ["done", "done"]
    crossed = play(both, decode_witness("0.4/1.2/0.5/1.1", None))
    assert stuck(crossed) == {0: 4, 1: 2}
    with pytest.raises(ReplayError, match="does not issue"):
        play(both, decode_witness("0.9", None))


SAFE = plan([op("send", peer=1), op("recv", peer=1)], [op("recv", peer=0), op("send", peer=0)])
HANGS = plan([op("send", peer=1)], [op("send", peer=0)])


def test_the_package_is_the_function(tmp_path):
    """planguard.replay plays a path, a Plan, a Verdict on a file, and a recording of a run."""
    path = tmp_path / "hangs.plan.json"
    path.write_text(json.dumps(HANGS), encoding="utf-8")
    verdict = pg.check(str(path), model="gloo")
    assert pg.replay(verdict, timeout=PATIENCE).reproduced
    assert pg.replay(pg.load(path), verdict.witness, timeout=PATIENCE).reproduced
    calls = [[Call("send", "world", peer=1, count=1, dtype="f32")]]
    calls += [[Call("recv", "world", peer=0, count=1, dtype="f32")]]
    ranks = {
        r: RankRecord(r, tuple(map(Observed, row)), has_ended=True) for r, row in enumerate(calls)
    }
    run = Recording(2, ranks, {"world": RecordedGroup("world", (0, 1), (0, 1))})
    assert pg.replay(run, timeout=PATIENCE * 4).completed
    with pytest.raises(ReplayError, match="not read from a file"):
        pg.replay(pg.check(HANGS))


def test_nccl_needs_a_gpu_for_every_rank(monkeypatch):
    """Where GPUs are missing, nccl is refused with their number; its script can be written."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")  # as on a machine without any
    with pytest.raises(UsageError, match="needs one GPU for each of the 2 ranks"):
        pg.replay(SAFE, backend="nccl")
    text = write_script(SAFE, backend="nccl").text
    assert "BACKEND: str = 'nccl'" in text
    compile(text, "replay.py", "exec")
    anyone = plan([op("recv", peer="any")], [op("send", peer=0)])
    assert "any source" in pg.replay(anyone, backend="nccl").reason


def test_a_receive_from_anyone_takes_what_the_witness_says(play, pool):
    """The message that the witness has a receive from anyone take comes first, whoever is ready."""
    receives = [op("recv", 4, peer="any"), op("recv", 2, peer="any")]
    mixed = plan(receives, [op("send", 4, peer=0)], [op("send", 2, peer=0)])
    verdict = pg.check(mixed, model="gloo")
    assert verdict.outcome is pg.Outcome.MISMATCH
    result = play(mixed, verdict.witness)
    assert result.reproduced, transcript(result)
    way = playable_of(mixed, verdict.witness, "gloo")
    whole = write_script(way.flat, None, places=way.places)
    assert "'peer': None" in whole.text
    for observed in pool.run([Job(whole.text, PATIENCE, seed) for seed in (None, 1, 2)]):
        assert concluded(way, whole, observed).bad
