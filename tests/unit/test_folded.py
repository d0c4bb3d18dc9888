"""Large symbolic plans run by representatives: the times of every rank are those of a full run."""

from __future__ import annotations

import json

import pytest

from planguard.plan.format import read
from planguard.simulate import folded as folding
from planguard.simulate.costs import Links, Rates
from planguard.simulate.edges import Call
from planguard.simulate.matrix import by_node
from planguard.simulate.schedule import _asked, schedule
from planguard.simulate.traffic import traffic

GROUPS = {"dp": {"mesh_dims": ["dp"]}, "tp": {"mesh_dims": ["tp"]},
          "both": {"mesh_dims": ["dp", "tp"]}}  # fmt: skip
STEP = [
    {"op": "all_gather", "group": "dp", "bytes": 1001},
    {"op": "compute", "duration_us": 50},
    {"op": "all_reduce", "group": "tp", "bytes": 777},
    {"op": "all_reduce", "bytes": 12345},
    {"op": "all_to_all", "group": "both", "bytes": 99991},
    {"op": "all_reduce", "group": "tp", "bytes": 778, "async": True, "work": "h"},
    {"op": "compute", "duration_us": 3},
    {"op": "wait", "work": "h"},
    {"op": "reduce_scatter", "group": "dp", "bytes": 1003},
]


def plan(dims, templates, ranks, groups=GROUPS, **more):
    """Return a plan over a mesh."""
    world = 1
    for _, size in dims:
        world *= size
    document = {"schema": "planguard.plan/1", "world_size": world, "mesh": {"dims": dims},
                "groups": groups, "templates": templates, "ranks": ranks, **more}  # fmt: skip
    return read(json.dumps(document).encode())


def uniform(step=None, **more):
    """Return 48 ranks that run one program."""
    return plan([["dp", 8], ["tp", 6]], {"s": step or STEP}, {"0-47": {"template": "s"}}, **more)


def staged():
    """Return three stages of a pipeline, each of five by four ranks."""
    stages = {}
    for stage in range(3):
        stages[f"s{stage}"] = [
            {"op": "compute", "duration_us": 10 * stage + 10},
            *([{"op": "recv", "peer": {"pp": -1}, "bytes": 100}] if stage else []),
            {"op": "all_reduce", "group": "tp", "bytes": 777 * stage + 1},
            *([{"op": "send", "peer": {"pp": 1}, "bytes": 100}] if stage < 2 else []),
            {"op": "all_gather", "group": "dp", "bytes": 11},
        ]
    ranks = {f"{20 * s}-{20 * s + 19}": {"template": f"s{s}"} for s in range(3)}
    return plan([["pp", 3], ["dp", 5], ["tp", 4]], stages, ranks)


def stuck():
    """Return ranks of which a whole half, along tp, enters two groups in the other order."""
    one = [{"op": "all_reduce", "group": "dp", "bytes": 8}, {"op": "all_reduce", "bytes": 8}]
    programs = {"a": one, "b": one[::-1]}
    ranks = {"tp=0": {"template": "a"}, "tp=1": {"template": "b"}}
    return plan([["dp", 9], ["tp", 2]], programs, ranks)


@pytest.mark.parametrize("make", [uniform, staged, stuck])
def test_every_rank_has_the_times_of_the_one_that_stands_for_it(make, monkeypatch):
    """Start, readiness and end of every action are those of a run of all ranks."""
    given = make()
    monkeypatch.setattr(folding, "LARGE", 10**9)
    whole = schedule(given)
    monkeypatch.setattr(folding, "LARGE", 4)
    small = schedule(given)
    assert small.stands
    assert len(small.stands) < given.world_size
    stands = {rank: one for one, ranks in small.stands.items() for rank in ranks}
    assert sorted(stands) == list(range(given.world_size))

    def times(found, rank):
        own = [(s.action, str(s.member), s.kind, s.start, s.ready, s.end is None, s.end or 0.0)
               for s in found.spans if s.rank == rank]  # fmt: skip
        return sorted(own)

    for rank in range(given.world_size):
        assert times(whole, rank) == times(small, stands[rank])
    assert (whole.makespan, whole.complete) == (small.makespan, small.complete)


@pytest.mark.parametrize(
    "given",
    [
        uniform([{"op": "broadcast", "root": 0, "bytes": 8}]),
        uniform([{"op": "all_reduce", "group": "few", "bytes": 8}],
                groups={"few": {"ranks": list(range(48))}}),
        uniform([{"op": "compute"}], topology={"ranks": [{"rank": 0, "node": 0}]}),
        plan([["dp", 24], ["tp", 2]], {"s": [{"op": "compute"}], "t": []},
             {"0": {"template": "t"}, "1-47": {"template": "s"}}),
        plan([["dp", 48]], {"s": [{"op": "send", "peer": {"dp": 1, "wrap": True}, "bytes": 8}]},
             {"0-47": {"template": "s"}}, {"dp": {"mesh_dims": ["dp"]}}),
    ],
    ids=["root", "explicit group", "topology", "one rank differs", "messages along it"],
)  # fmt: skip
def test_what_names_a_rank_is_not_folded(given, monkeypatch):
    """A root, a list of ranks, a topology, a program of one rank, a message: all ranks are run."""
    monkeypatch.setattr(folding, "LARGE", 4)
    assert folding.folded(given) is None


def test_a_matrix_of_many_ranks_is_rolled_up_along_the_mesh():
    """Without nodes, rows are coordinates of the mesh, and no byte is lost."""
    given = plan([["dp", 128], ["tp", 4]], {"s": STEP}, {"0-511": {"template": "s"}})
    moved = traffic(given)
    found = by_node(moved, given)
    assert found.labels == tuple(f"tp={at}" for at in range(4))
    assert found.total_bytes == sum(size for size, _ in moved.total().values())


@pytest.mark.parametrize("algorithm", ["ring", "direct"])
def test_the_members_that_are_asked_hold_the_slowest_share(algorithm):
    """Of a large group a few members are asked what a round costs: the slowest of all is there.

    Sizes below, at and beside multiples of the group, since the last chunks are short.
    """
    world = 257
    large = plan([["dp", world]], {"step": STEP[:1]}, {f"0-{world - 1}": {"template": "step"}},
                 {"dp": {"mesh_dims": ["dp"]}})  # fmt: skip
    links, members = Links(large, Rates(algorithm=algorithm)), range(world)
    assert len(_asked(world)) < world
    for primitive in ("all_reduce", "all_gather", "reduce_scatter", "all_to_all"):
        for size in (1, world - 1, world + 1, 4096 + 7):
            calls = [Call(primitive, world, place, size, 0, None) for place in members]
            shares = [links.collective_us(call, members) for call in calls]
            asked = max(shares[place] for place in _asked(world))
            assert asked == max(shares), (primitive, size)
