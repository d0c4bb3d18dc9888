"""Chakra workloads: what is in their plans, which are safe, and what one edit does to them.

The judge runs the graphs as a simulator does: a node starts when what it depends on is done, a
collective or a message when all its members are there.
"""

from __future__ import annotations

import json
import random
from collections import Counter, defaultdict
from pathlib import Path

import pytest

import planguard
from planguard import registry
from planguard.errors import PlanError, UsageError
from planguard.testing import check_adapter

TESTS = Path(__file__).resolve().parents[1]

from oracle.enumerator import Effort, enumerate_plan  # noqa: E402

adapter = registry.find("chakra")

from planguard.planners.chakra.reading import read_workload  # noqa: E402

FOLDER = TESTS.parent / "tests" / "samples" / "chakra"
NAMES = sorted(path.name for path in FOLDER.iterdir() if path.is_dir())
SAFE = [name for name in NAMES if name != "unordered"]
SEND, RECV, COLLECTIVE = 5, 6, 7
OPS = (
    "all_reduce", "reduce", "all_gather", "gather", "scatter", "broadcast", "all_to_all",
    "reduce_scatter", "reduce_scatter_tensor", "barrier",
)  # fmt: skip


def graphs_of(name: str) -> tuple[list[list[dict]], dict]:
    """Return the nodes of a sample in the JSON of Chakra's feeder, and its groups."""
    workload = read_workload(FOLDER / name)
    ranks = []
    for rank, nodes in enumerate(workload.nodes):
        graph = []
        for node in nodes:
            about = {"Id": node.number, "Name": node.name, "NodeType": node.kind}
            about["data_deps"] = list(node.deps)
            if node.kind == COLLECTIVE:
                about |= {"comm_type": OPS.index(node.op), "comm_size": node.size}
                about |= {"pg_name": node.group}
            elif node.kind in (SEND, RECV):
                ends = (rank, node.peer) if node.kind == SEND else (node.peer, rank)
                about |= {"comm_src": ends[0], "comm_dst": ends[1], "comm_tag": node.tag}
                about |= {"comm_size": node.size}
            graph.append(about)
        ranks.append(graph)
    return ranks, dict(workload.groups)


def written(folder: Path, ranks: list[list[dict]], groups: dict) -> Path:
    """Write a workload as JSON and return its folder."""
    for rank, graph in enumerate(ranks):
        (folder / f"work.{rank}.json").write_text(json.dumps({"workload_graph": graph}))
    if groups:
        (folder / "comm_groups.json").write_text(json.dumps(groups))
    return folder


def verdict(folder: Path, ranks, groups, **options) -> planguard.Verdict:
    """Return the verdict of a workload, in the order of ids where dependencies leave it open."""
    return planguard.check(planguard.load(written(folder, ranks, groups), order="ids", **options))


def simulate(ranks: list[list[dict]], groups: dict) -> str:
    """Run a workload in rounds, every queue in the order of ids; ``ends``, ``stuck`` or ``bad``."""
    done: list[set] = [set() for _ in ranks]
    queues = defaultdict(list)
    for rank, graph in enumerate(ranks):
        for node in _sorted(graph):
            if node["NodeType"] == COLLECTIVE:
                queues[rank, "g", node["pg_name"]].append(node)
            elif node["NodeType"] in (SEND, RECV):
                ends = (node["comm_src"], node["comm_dst"], node["comm_tag"])
                queues[rank, node["NodeType"], ends].append(node)
    bad, moved = False, True
    while moved:
        moved = False
        for rank, graph in enumerate(ranks):
            for node in graph:
                free = node["NodeType"] not in (SEND, RECV, COLLECTIVE)
                if free and node["Id"] not in done[rank] and set(node["data_deps"]) <= done[rank]:
                    done[rank].add(node["Id"])
                    moved = True
        for key in list(queues):
            rank, kind, what = key
            if kind == "g":
                members = groups.get(what, range(len(ranks)))
                heads = [(one, queues[one, "g", what]) for one in members]
            elif kind == SEND:
                heads = [
                    (what[0], queues[what[0], SEND, what]),
                    (what[1], queues[what[1], RECV, what]),
                ]
            else:
                continue
            while all(q and set(q[0]["data_deps"]) <= done[one] for one, q in heads):
                met = [(one, q.pop(0)) for one, q in heads]
                facts = {(n.get("comm_type"), n["comm_size"]) for _, n in met}
                names = {n["Name"] for _, n in met} if kind == "g" else set()
                bad |= len(facts) > 1 or len(names) > 1
                for one, node in met:
                    done[one].add(node["Id"])
                moved = True
    if bad:
        return "bad"
    return "ends" if all(len(d) == len(g) for d, g in zip(done, ranks, strict=True)) else "stuck"


def _sorted(graph):
    """Return nodes after their dependencies, else by id."""
    out, left = [], sorted(graph, key=lambda node: node["Id"])
    while left:
        ready = next(n for n in left if set(n["data_deps"]) <= {m["Id"] for m in out})
        left.remove(ready)
        out.append(ready)
    return out


# --- correct workloads ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", SAFE)
def test_a_workload_is_safe(name, tmp_path):
    """What Chakra's writer wrote is SAFE, as protobuf and as JSON, and as the simulation finds."""
    assert planguard.check(FOLDER / name).outcome.value == "SAFE"
    ranks, groups = graphs_of(name)
    assert simulate(ranks, groups) == "ends"
    assert verdict(tmp_path, ranks, groups).outcome.value == "SAFE"


@pytest.mark.parametrize(
    ("name", "queues", "expected"),
    [
        ("data-parallel", 4, {"all_reduce": 16}),
        ("sharded", 2, {"all_gather": 6, "reduce_scatter": 6}),
        ("experts", 3, {"all_to_all": 12, "barrier": 3}),
        ("hybrid", 8, {"all_reduce": 4 * (6 + 3)}),
        ("pipeline", 12, {"send": 18, "recv": 18}),
    ],
)
def test_a_workload_has_the_expected_communications(name, queues, expected):
    """A rank is a queue; every communication is there once, besides the dependencies."""
    plan = planguard.load(FOLDER / name)
    assert plan.world_size == queues
    actions = [a for use in json.loads(plan.source)["ranks"].values() for a in use["actions"]]
    flags = [a for a in actions if " before node " in a.get("label", "")]
    counts = Counter(a["op"] for a in actions if a not in flags)
    assert counts == expected
    assert Counter(a["op"] for a in flags)["recv"] == Counter(a["op"] for a in flags)["isend"]


@pytest.mark.parametrize("name", NAMES)
def test_the_adapter_keeps_its_contract(name, tmp_path):
    """Sources, labels, repeatability, damage: what every adapter owes."""
    check_adapter(adapter, FOLDER / name, strangers=(tmp_path, TESTS))


def test_one_file_stands_for_its_workload():
    """The file of any rank is as good as the folder."""
    one, whole = (planguard.load(FOLDER / "pipeline" / "pipeline.2.et"), FOLDER / "pipeline")
    assert one.document == planguard.load(whole).document


def test_an_order_that_dependencies_leave_open_is_not_decided():
    """Two independent all-reduces of one group may start either way: UNKNOWN, unless ids rule."""
    found = planguard.check(FOLDER / "unordered")
    assert found.outcome.value == "UNKNOWN"
    assert "nodes 1 and 3 of rank 0" in str(found.approximations)
    by_ids = planguard.load(FOLDER / "unordered", order="ids")
    assert planguard.check(by_ids).outcome.value == "SAFE"


# --- mutations -----------------------------------------------------------------------------------


def swapped(ranks):
    """Exchange two all-reduces on one rank."""
    one, other = (n for n in ranks[1] if n["Name"] in {"grad 3", "grad 2"})
    one["Name"], other["Name"] = other["Name"], one["Name"]


def dropped(ranks):
    """Leave out a receive and what depends on it alone."""
    lost = next(n for n in ranks[2] if n["NodeType"] == RECV)
    ranks[2].remove(lost)
    for node in ranks[2]:
        node["data_deps"] = [dep for dep in node["data_deps"] if dep != lost["Id"]]


def duplicated(ranks):
    """Repeat a collective at the end of one rank."""
    last = max(n["Id"] for n in ranks[0])
    again = dict(ranks[0][-1], Id=last + 1, data_deps=[last])
    ranks[0].append(again)


def wrong_peer(ranks):
    """Send to the wrong stage."""
    next(n for n in ranks[0] if n["NodeType"] == SEND)["comm_dst"] = 3


def wrong_group(ranks):
    """Reduce over the group of another rank."""
    next(n for n in ranks[3] if n.get("pg_name") == "tp1")["pg_name"] = "dp1"


def changed_size(ranks):
    """Exchange fewer bytes on one rank."""
    next(n for n in ranks[1] if n["NodeType"] == COLLECTIVE)["comm_size"] //= 2


def crossed(ranks):
    """Let the first forward of a stage wait for a gradient that needs it."""
    late = next(n for n in ranks[1] if n["NodeType"] == RECV and n["comm_src"] == 2)
    next(n for n in ranks[1] if n["NodeType"] == SEND)["data_deps"].append(late["Id"])


@pytest.mark.parametrize(
    ("name", "edit", "outcome"),
    [
        ("data-parallel", swapped, "MISMATCH"),
        ("pipeline", dropped, "DEADLOCK"),
        ("sharded", duplicated, "DEADLOCK"),
        ("pipeline", wrong_peer, "DEADLOCK"),
        ("hybrid", wrong_group, "MISMATCH"),
        ("experts", changed_size, "MISMATCH"),
        ("pipeline", crossed, "DEADLOCK"),
    ],
)
def test_a_mistake_is_judged_as_the_simulation_and_the_enumerator_judge_it(
    name, edit, outcome, tmp_path
):
    """One edit is found, and both judges agree."""
    ranks, groups = graphs_of(name)
    edit(ranks)
    assert simulate(ranks, groups) == {"MISMATCH": "bad", "DEADLOCK": "stuck"}[outcome]
    folder = written(tmp_path, ranks, groups)
    plan = planguard.load(folder, order="ids")
    assert planguard.check(plan).outcome.value == outcome
    oracle = enumerate_plan(json.loads(plan.source), "gloo", Effort(verify=0)).outcome
    assert oracle == outcome


def test_random_edits_are_judged_as_the_simulation_judges_them(tmp_path):
    """Of some hundred damaged graphs, verdict and simulation agree."""
    rng, judged = random.Random(2), Counter()
    for number in range(100):
        ranks, groups = graphs_of(rng.choice(SAFE))
        graph = rng.choice(ranks)
        node = rng.choice([n for n in graph if n["NodeType"] in (SEND, RECV, COLLECTIVE)])
        how = rng.randrange(3)
        if how == 0:
            for one in graph:
                one["data_deps"] = [dep for dep in one["data_deps"] if dep != node["Id"]]
            graph.remove(node)
        elif how == 1:
            node["data_deps"] = [dep for dep in node["data_deps"] if rng.random() < 0.3]
        else:
            earlier = [n["Id"] for n in graph if n["Id"] < node["Id"]]
            node["data_deps"] += rng.sample(earlier, min(len(earlier), 2))
            node["data_deps"] = list(dict.fromkeys(node["data_deps"]))
        folder = tmp_path / str(number)
        folder.mkdir()
        found = verdict(folder, ranks, groups).outcome.value
        expected = simulate(ranks, groups)
        judged[found] += 1
        if expected == "bad":
            assert found in {"MISMATCH", "DEADLOCK"}
        else:
            assert (found == "DEADLOCK") == (expected == "stuck"), (number, found, expected)
    assert judged["DEADLOCK"] > 10, judged
    assert judged["SAFE"] > 10, judged


def test_buffered_sends_are_an_option(tmp_path):
    """Two ranks that send before they receive pass only with buffered sends."""
    ranks = []
    for rank in range(2):
        to = {"Id": 0, "Name": "s", "NodeType": SEND, "comm_src": rank, "comm_dst": 1 - rank}
        fro = {"Id": 1, "Name": "r", "NodeType": RECV, "comm_src": 1 - rank, "comm_dst": rank}
        ranks.append([to | {"comm_size": 4}, fro | {"comm_size": 4, "data_deps": [0]}])
    assert verdict(tmp_path, ranks, {}).outcome.value == "DEADLOCK"
    assert verdict(tmp_path, ranks, {}, sends="buffered").outcome.value == "SAFE"


def test_members_that_nothing_lists_are_an_approximation(tmp_path):
    """A group without a list of members may have more of them than use it: not decided."""
    ranks, groups = graphs_of("hybrid")
    groups.pop("tp0")
    assert verdict(tmp_path, ranks, groups).outcome.value == "UNKNOWN"
    known = planguard.load(tmp_path, groups={"tp0": (0, 1)})
    assert planguard.check(known).outcome.value == "SAFE"


# --- refused -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "where"),
    [
        (lambda n: n.update(data_deps=[99]), "depends on node 99"),
        (lambda n: n.update(data_deps=[n["Id"]]), "form a cycle"),
        (lambda n: n.update(Id=0), "two nodes have this id"),
        (lambda n: n.pop("Id"), "'Id' and 'NodeType' are needed"),
        (lambda n: n.update(comm_type=12), "comm_type is 12"),
        (lambda n: n.update(comm_size=-4), "comm_size is -4"),
        (lambda n: n.update(comm_size="4"), "comm_size is '4'"),
        (lambda n: n.pop("comm_type"), "comm_type is missing"),
        (lambda n: n.update(pg_name=3), "pg_name is no string"),
        (lambda n: n.update(NodeType=SEND, comm_dst=0), "the rank itself"),
        (lambda n: n.update(NodeType=SEND, comm_dst=9), "comm_dst is 9"),
    ],
)
def test_a_malformed_node_is_refused_with_its_id(change, where, tmp_path):
    """Every defect is a PlanError that names the node."""
    ranks, groups = graphs_of("data-parallel")
    change(next(n for n in ranks[0] if n["NodeType"] == COLLECTIVE))
    with pytest.raises(PlanError, match=where):
        planguard.load(written(tmp_path, ranks, groups))


def test_a_missing_rank_is_refused(tmp_path):
    """Every rank has a file."""
    ranks, groups = graphs_of("sharded")
    written(tmp_path, ranks, groups)
    (tmp_path / "work.0.json").unlink()
    with pytest.raises(PlanError, match="the file of rank 0 is missing"):
        planguard.load(tmp_path)


def test_a_workload_that_only_computes_is_nothing_to_check(tmp_path):
    """Without a communication the verdict is UNKNOWN with PG910, not SAFE."""
    found = verdict(tmp_path, [[{"Id": 0, "Name": "a", "NodeType": 4}]] * 2, {})
    assert found.outcome.value == "UNKNOWN"
    assert [finding.code for finding in found.findings] == ["PG910"]


@pytest.mark.parametrize(
    "options", [{"order": "x"}, {"sends": 1}, {"labels": ""}, {"groups": 3}, {"group": {}}]
)
def test_impossible_options_are_refused(options):
    """Options are checked, and a misspelt one is answered with the right name."""
    with pytest.raises(UsageError):
        planguard.load(FOLDER / "sharded", **options)
