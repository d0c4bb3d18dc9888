"""Plans of Alpa's own code: what is in them, which are safe, and what one edit does to them."""

from __future__ import annotations

import copy
import json
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest

import planguard
from planguard import registry
from planguard.errors import PlanError, UsageError
from planguard.options import MODEL_NAMES
from planguard.testing import check_adapter

TESTS = Path(__file__).resolve().parents[1]

from oracle.enumerator import Effort, enumerate_plan  # noqa: E402

registry.find("alpa")  # mounts planguard.planners where it is not installed

from planguard.planners.alpa import adapter, hook  # noqa: E402

FOLDER = TESTS.parent / "tests" / "samples" / "alpa"
GATHER = "all_gather_into_tensor"
COUNTS = {
    "gpipe-2x2": [{"all_reduce": 8, "send": 4, "recv": 4, GATHER: 4}] * 4,
    "broadcast-2x2": [{"all_reduce": 6, "broadcast": n} for n in (6, 3, 6, 3)],
    "reshard-2x2": [{"all_reduce": 6, "send": 12, "recv": 12}] * 4,
    "inference-3x2": [{"all_reduce": 5, "send": 5}] * 2
    + [{"all_reduce": 5, "send": 5, "recv": 5, GATHER: 5}] * 2
    + [{"all_reduce": 5, "recv": 5, GATHER: 5}] * 2,
    "1f1b-4x2": [{"all_reduce": 12, "send": 6, "recv": 6}] * 2
    + [{"all_reduce": 12, "send": 12, "recv": 12}] * 4
    + [{"all_reduce": 12, "send": 6, "recv": 6}] * 2,
    "1f1b-2x2x2": [{"all_reduce": 8, "send": 4, "recv": 4}] * 8,
    "overlap-3x1": [
        {"isend": 6, "irecv": 6, "wait": 12},
        {"isend": 12, "irecv": 12, "wait": 24},
        {"isend": 6, "irecv": 6, "wait": 12},
    ],
    "lazy-3x2": [{"all_reduce": 8, "send": 4, "recv": 4, "init": 3}] * 2
    + [{"all_reduce": 8, "send": 8, "recv": 8, "init": 6}] * 2
    + [{"all_reduce": 8, "send": 4, "recv": 4, "init": 3}] * 2,
}


def path_of(name: str) -> Path:
    """Return the file of a sample."""
    return FOLDER / f"{name}.alpa.json"


def dump(name: str):
    """Return a sample, parsed."""
    return json.loads(path_of(name).read_text())


def rows(plan):
    """Return the actions of all ranks without computations."""
    document = json.loads(plan.source)
    programs = [document["ranks"][str(rank)]["actions"] for rank in range(plan.world_size)]
    return [[a for a in program if a["op"] != "compute"] for program in programs]


@pytest.mark.parametrize("name", COUNTS)
def test_plans_of_alpa_are_safe_under_every_model(name):
    """What Alpa's emitters wrote is SAFE, whichever model is asked."""
    plan = planguard.load(path_of(name), local_stages=True)
    outcomes = {model: planguard.check(plan, model=model).outcome.value for model in MODEL_NAMES}
    assert outcomes == dict.fromkeys(MODEL_NAMES, "SAFE")


@pytest.mark.parametrize("name", COUNTS)
def test_every_rank_has_the_communications_of_its_plan(name):
    """The number of actions of every kind on every device, stages and gathers included."""
    plan = planguard.load(path_of(name), local_stages=True)
    assert [dict(Counter(a["op"] for a in row)) for row in rows(plan)] == COUNTS[name]


@pytest.mark.parametrize("name", ["gpipe-2x2", "1f1b-2x2x2", "overlap-3x1"])
def test_the_adapter_keeps_its_contract(name):
    """check_adapter accepts the adapter, damaged dumps included."""
    assert check_adapter(adapter, path_of(name), variants=25).refused > 0


def test_stages_without_a_text_leave_the_answer_open():
    """What a stage does inside its mesh is not guessed: UNKNOWN, unless told to be nothing."""
    data = dump("1f1b-2x2x2")
    for stage in data["stages"].values():
        del stage["hlo"]
    plan = planguard.load(data, planner="alpa")
    assert planguard.check(plan).outcome.value == "UNKNOWN"
    assert [entry.kind for entry in plan.approximations] == ["stage-without-text"]


def test_the_hook_writes_the_modules_that_alpa_sends_to_its_workers():
    """Each stage has the text of its partitioned module; texts that are given stand before it."""
    module = SimpleNamespace(to_string=lambda: "HloModule of.the.partitioner")
    config = SimpleNamespace(
        executable_uuids=[7],
        executable_configs={"m0h0": [SimpleNamespace(exec_uuid=7, hlo=module),
                                     SimpleNamespace(exec_uuid=8)]},
        schedule=SimpleNamespace(stage_placement=lambda _: {0}),
    )  # fmt: skip
    assert hook._stages(config, None) == {"7": {"mesh": 0, "hlo": "HloModule of.the.partitioner"}}
    assert hook._stages(config, ["HloModule given"])["7"]["hlo"] == "HloModule given"


def test_alpa_sends_every_slice_once_for_each_slice_of_its_tile():
    """A tile that comes from two slices is sent twice: four messages where two would do."""
    task = dump("reshard-2x2")["tasks"]["0"]
    pairs = Counter((m["src"], m["dst"]) for listed in task["send"].values() for m in listed)
    assert pairs == {(0, 2): 2, (0, 3): 2, (1, 2): 2, (1, 3): 2}


def test_a_host_that_creates_a_communicator_holds_up_all_of_its_devices():
    """With lazy communicators the devices of a host wait together, in the order of the host."""
    data = dump("lazy-3x2")
    plan = planguard.load(data, planner="alpa", local_stages=True)
    inits = [[a["group"] for a in row if a["op"] == "init"] for row in rows(plan)]
    assert [g for g in inits[0] if g.startswith("m0h0")] == ["m0h0#1", "m0h0#2"]
    # The other side meets its peers in the opposite order: each creation waits for the other.
    for listed in data["tasks"]["0"]["recv"].values():
        listed.reverse()
    eager = planguard.load(data, planner="alpa", local_stages=True, communicators="eager")
    assert planguard.check(eager, model="nccl").outcome.value == "SAFE"
    lazy = planguard.load(data, planner="alpa", local_stages=True)
    assert planguard.check(lazy, model="nccl").outcome.value == "DEADLOCK"


def test_a_buffer_that_is_gone_ends_the_worker():
    """A worker that uses a freed buffer raises; the others wait for it for ever."""
    data = dump("gpipe-2x2")
    listed = data["instructions"]["m0h0"]
    place = next(n for n, i in enumerate(listed) if i["op"] == "SEND")
    listed.insert(place, {"op": "FREE", "in": listed[place]["in"]})
    plan = planguard.load(data, planner="alpa")
    assert planguard.check(plan).outcome.value == "DEADLOCK"
    assert "missing-buffer" in {entry.kind for entry in plan.approximations}


def test_gradient_sums_are_left_out_where_alpa_skips_them():
    """Collectives on a channel of the gradient sum run in the last microbatch only."""
    data = dump("gpipe-2x2")
    forward = data["instructions"]["m0h0"][1]["task"]
    data["stages"][str(forward)]["grad_sync_channels"] = [1]
    counts = [Counter(a["op"] for a in row) for row in rows(planguard.load(data, planner="alpa"))]
    assert [count["all_reduce"] for count in counts] == [5, 5, 8, 8]


# --- one edit -----------------------------------------------------------------------------------


def nth(listed, op, count=0):
    """Return the place of the n-th instruction of a kind."""
    return [n for n, instruction in enumerate(listed) if instruction["op"] == op][count]


def swap(data):
    """Swap the first send and the first receive of a worker."""
    listed = data["instructions"]["m1h0"]
    a, b = nth(listed, "RECV"), nth(listed, "SEND")
    listed[a], listed[b] = listed[b], listed[a]


def swap_back(data):
    """Let a worker wait for a gradient before it sends the activation that it comes from."""
    listed = data["instructions"]["m0h0"]
    listed.insert(nth(listed, "SEND"), listed.pop(nth(listed, "RECV")))


def drop(data):
    """Leave out a receive."""
    listed = data["instructions"]["m1h0"]
    del listed[nth(listed, "RECV", 1)]


def duplicate(data):
    """Send an activation twice."""
    listed = data["instructions"]["m0h0"]
    place = nth(listed, "SEND", 1)
    listed.insert(place, copy.deepcopy(listed[place]))


def wrong_peer(data):
    """Receive from the other device of the sending mesh."""
    for message in data["tasks"]["0"]["recv"]["m1h0"]:
        message["src"] ^= 1


def wrong_size(data):
    """Receive half of what is sent."""
    for message in data["tasks"]["0"]["recv"]["m1h0"]:
        message["slice"][1][1] //= 2


def wrong_group(data):
    """Gather over all ranks on one side of a mesh only."""
    data["tasks"]["0"]["allgather"]["groups"] = [[2], [3]]
    data["instructions"]["m1h0"] = data["instructions"]["m1h0"][:-2]


EDITS = {
    "gpipe-2x2": [swap, swap_back, drop, duplicate, wrong_peer, wrong_size, wrong_group],
    "reshard-2x2": [swap, swap_back, drop, duplicate, wrong_peer, wrong_size],
}
CASES = [(name, edit) for name, edits in EDITS.items() for edit in edits]


@pytest.mark.parametrize(
    ("name", "edit"), CASES, ids=lambda value: getattr(value, "__name__", value)
)
def test_edits_are_judged_as_the_enumerator_judges_them(name, edit):
    """One wrong instruction or task: the answer is the enumerator's, under two models."""
    data = dump(name)
    data.pop("inputs")
    edit(data)
    assert data != {key: value for key, value in dump(name).items() if key != "inputs"}
    plan = planguard.load(data, planner="alpa")
    document = json.loads(plan.source)
    for model in ("gloo", "nccl-serialized"):
        expected = enumerate_plan(document, model, Effort(verify=0)).outcome
        assert planguard.check(plan, model=model).outcome.value == expected, model


def broadcasts_swapped(data):
    """Run two broadcasts of one worker in the other order."""
    listed = data["instructions"]["m1h0"]
    a, b = nth(listed, "BROADCAST", 2), nth(listed, "BROADCAST", 3)
    listed[a], listed[b] = listed[b], listed[a]


def test_swapped_broadcasts_are_judged_as_the_enumerator_judges_them():
    """The order of broadcasts between two meshes must agree."""
    data = dump("broadcast-2x2")
    data.pop("inputs")
    broadcasts_swapped(data)
    plan = planguard.load(data, planner="alpa")
    for model in ("gloo", "nccl-serialized"):
        expected = enumerate_plan(json.loads(plan.source), model, Effort(verify=0)).outcome
        assert planguard.check(plan, model=model).outcome.value == expected


# --- refused --------------------------------------------------------------------------------------


def put(data, value, *path):
    """Set a value deep inside a dump."""
    for key in path[:-1]:
        data = data[key]
    data[path[-1]] = value


@pytest.mark.parametrize(
    ("value", "path", "place"),
    [
        ("JUMP", ("instructions", "m0h0", 0, "op"), "$.instructions.m0h0[0].op"),
        (99, ("instructions", "m0h0", 2, "task"), "$.instructions.m0h0[2].task"),
        (True, ("instructions", "m0h0", 0, "asnyc"), "$.instructions.m0h0[0].asnyc"),
        ([[0]], ("tasks", "0", "send"), "$.tasks.0.send"),
        (9, ("tasks", "0", "send", "m0h0", 0, "dst"), "$.tasks.0.send.m0h0[0].dst"),
        (2, ("tasks", "0", "send", "m0h0", 0, "src"), "$.tasks.0.send.m0h0[0]"),
        ("float31", ("tasks", "0", "dtype"), "$.tasks.0.dtype"),
        ([[4, 2]], ("tasks", "0", "send", "m0h0", 0, "slice"), "$.tasks.0.send.m0h0[0].slice[0]"),
        ([0, 0], ("meshes", 0, "hosts", 0, "devices"), "$.meshes"),
        ("m1h0", ("meshes", 0, "hosts", 0, "worker"), "$.meshes"),
        ([[2, 3], [3]], ("tasks", "0", "allgather", "groups"), "$.tasks.0.allgather.groups"),
    ],
)
def test_malformed_dumps_are_refused_with_their_path(value, path, place):
    """Every defect is a PlanError that names its JSON path."""
    data = dump("gpipe-2x2")
    put(data, value, *path)
    with pytest.raises(PlanError) as error:
        planguard.load(data, planner="alpa")
    assert error.value.path == place


def test_a_stage_compiled_for_another_mesh_is_refused():
    """The text of a stage must have as many devices as its mesh."""
    data = dump("gpipe-2x2")
    stage = data["stages"][str(data["instructions"]["m0h0"][1]["task"])]
    stage["hlo"] = stage["hlo"].replace("num_partitions=2", "num_partitions=4")
    with pytest.raises(PlanError, match="4 devices"):
        planguard.load(data, planner="alpa")


@pytest.mark.parametrize(
    "options", [{"communicator": "lazy"}, {"communicators": "later"}, {"p2p": "x"}]
)
def test_impossible_options_are_refused(options):
    """An option that does not exist, or a value that is not possible, is a UsageError."""
    with pytest.raises(UsageError):
        planguard.load(path_of("gpipe-2x2"), **options)


def test_the_dump_of_the_documentation_is_read():
    """One list of messages for both sides, nested uuids and a task order are accepted."""
    plan = planguard.load(
        {
            "alpa": "0.2.3",
            "meshes": [
                {"id": 0, "hosts": [{"worker": "m0h0", "devices": [0]}]},
                {"id": 1, "hosts": [{"worker": "m1h0", "devices": [1]}]},
            ],
            "instructions": {
                "m0h0": [
                    {"op": "RUN", "task": 11, "in": [[1]], "out": [[5]], "info": "stage 0 mb 0"},
                    {"op": "SEND", "task": 21, "in": [5]},
                    {"op": "FREE", "in": [[5]]},
                ],
                "m1h0": [{"op": "RECV", "task": 21, "out": [7]}],
            },
            "tasks": {
                "21": {
                    "mode": "sendrecv", "src_mesh": 0, "dst_mesh": 1, "shape": [8, 1024],
                    "dtype": "float32", "p2p": [{"src": 0, "dst": 1, "slice": [[0, 8], [0, 1024]]}],
                    "order": [[0, 0]], "allgather": None,
                }
            },
        },
        planner="alpa",
    )  # fmt: skip
    assert [[(a["op"], a["bytes"]) for a in row] for row in rows(plan)] == [
        [("send", 32768)], [("recv", 32768)],
    ]  # fmt: skip
    assert planguard.check(plan).outcome.value == "SAFE"
