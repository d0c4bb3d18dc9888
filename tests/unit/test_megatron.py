"""Plans of Megatron-core's schedules: what they call, the found case, and what one edit does."""

from __future__ import annotations

import copy
import json
from collections import Counter
from pathlib import Path

import pytest

import planguard
from planguard import registry
from planguard.errors import PlanError, UsageError
from planguard.options import MODEL_NAMES
from planguard.testing import check_adapter

TESTS = Path(__file__).resolve().parents[1]

from oracle.enumerator import Effort, enumerate_plan  # noqa: E402

registry.find("megatron")  # mounts planguard.planners where it is not installed

from planguard.planners.megatron import adapter  # noqa: E402

FOLDER = TESTS.parent / "tests" / "samples" / "megatron"
BATCHED_1F1B = [(9, 6, 6), (17, 12, 12), (15, 12, 12), (7, 6, 6)]
ENDS = {"isend": 6, "irecv": 6, "wait": 12}
MIDDLE = {"isend": 12, "irecv": 12, "wait": 24}


def batched(*, waits=True, factor=1):
    """Return the counts of four stages of 1F1B in batches, each with a device synchronization."""
    return [
        {"batch": b, "isend": s, "irecv": r, "host_sync": b, **({"wait": b} if waits else {})}
        for b, s, r in ((factor * n for n in row) for row in BATCHED_1F1B)
    ]


COUNTS = {
    "1f1b-pp4-batched": batched(),
    "1f1b-pp4-ring": batched(waits=False),
    "1f1b-pp4-variable-batched": batched(factor=2),
    "1f1b-pp4-even-odd": [ENDS, MIDDLE, MIDDLE, ENDS],
    "1f1b-pp4-variable": [
        {"batch": b, "isend": 2 * s, "irecv": 2 * r, "host_sync": b, "wait": b + s + r}
        for b, s, r in BATCHED_1F1B
    ],
    "1f1b-pp2-world-group": [{"isend": 4, "irecv": 4, "wait": 8}] * 2,
    "1f1b-pp2dp2": [{"isend": 3, "irecv": 3, "wait": 6, "all_reduce": 1}] * 4,
    "forward-pp3": [
        {"batch": 4, "isend": 4, "wait": 4, "host_sync": 4},
        {"batch": 8, "isend": 4, "irecv": 4, "wait": 8, "host_sync": 8},
        {"batch": 4, "irecv": 4, "wait": 4, "host_sync": 4},
    ],
    "interleaved-pp4-batched": [
        {"batch": 25, "isend": 24, "irecv": 24, "wait": 25, "host_sync": 26},
        {"batch": 25, "isend": 32, "irecv": 32, "wait": 25, "host_sync": 25},
        {"batch": 23, "isend": 32, "irecv": 32, "wait": 23, "host_sync": 23},
        {"batch": 21, "isend": 24, "irecv": 24, "wait": 21, "host_sync": 21},
    ],
    "interleaved-pp4-overlap": [
        {"isend": 24, "irecv": 24, "wait": 47},
        {"isend": 32, "irecv": 32, "wait": 63},
        {"isend": 32, "irecv": 32, "wait": 63},
        {"isend": 24, "irecv": 24, "wait": 48},
    ],
    "interleaved-pp2-overlap": [
        {"isend": 12, "irecv": 12, "wait": 23},
        {"isend": 12, "irecv": 12, "wait": 24},
    ],
    "no-pipelining": [{"all_reduce": 1}] * 2,
}
ONE_PEER = ["interleaved-pp2-batched", "interleaved-pp2-variable"]
TORCH_MODELS = [model for model in MODEL_NAMES if not model.startswith("mpi")]


def path_of(name):
    """Return the file of a sample."""
    return FOLDER / f"{name}.megatron.json"


def recording(name):
    """Return a sample, parsed."""
    return json.loads(path_of(name).read_text())


def counts(plan):
    """Return the number of actions of every kind on every rank, inside batches too."""
    document = json.loads(plan.source)
    found = []
    for rank in range(plan.world_size):
        actions = document["ranks"][str(rank)]["actions"]
        inner = [part for action in actions for part in action.get("ops", ())]
        found.append(Counter(a["op"] for a in [*actions, *inner] if a["op"] != "compute"))
    return found


def test_every_sample_is_asserted():
    """No sample is left out of what is asserted below."""
    names = {path.name.removesuffix(".megatron.json") for path in FOLDER.glob("*.json")}
    assert names == {*COUNTS, *ONE_PEER}


@pytest.mark.parametrize("name", COUNTS)
def test_schedules_of_megatron_are_safe_with_torch(name):
    """What the schedules call is SAFE under every model of torch, with so many actions per rank."""
    plan = planguard.load(path_of(name))
    assert counts(plan) == COUNTS[name]
    outcomes = {model: planguard.check(plan, model=model).outcome.value for model in TORCH_MODELS}
    assert outcomes == dict.fromkeys(TORCH_MODELS, "SAFE")


@pytest.mark.parametrize("name", ["1f1b-pp4-batched", "1f1b-pp2-world-group", "no-pipelining"])
def test_the_adapter_keeps_its_contract(name):
    """check_adapter accepts the adapter, damaged recordings included."""
    assert check_adapter(adapter, path_of(name), variants=25).refused > 0


@pytest.mark.parametrize("name", ONE_PEER)
def test_with_two_stages_a_gradient_meets_an_activation(name):
    """NVIDIA/Megatron-LM#1450: prev and next are one peer, so one batch pairs F with B."""
    plan = planguard.load(path_of(name))
    for model in ("gloo", "nccl", "nccl-lazy"):
        verdict = planguard.check(plan, model=model)
        assert verdict.outcome.value == "MISMATCH"
    for model in ("gloo", "nccl-serialized"):
        outcome = enumerate_plan(json.loads(plan.source), model, Effort(verify=0)).outcome
        assert outcome == "MISMATCH"
    finding = planguard.check(plan, model="nccl").errors[0]
    assert "F" in finding.message
    assert "B" in finding.message


def test_the_second_direction_of_two_stages_goes_over_the_world_group():
    """Even ranks send on the pipeline's group, odd ranks on the world's: two independent queues."""
    document = json.loads(planguard.load(path_of("1f1b-pp2-world-group")).source)
    sends = [
        {
            action["group"]
            for action in document["ranks"][rank]["actions"]
            if action["op"] == "isend"
        }
        for rank in ("0", "1")
    ]
    assert sends == [{"pp0"}, {"world"}]


def test_labels_are_those_of_the_steps_that_use_the_tensors():
    """Both ends of every message have one label, which names a stage and a microbatch."""
    for name in COUNTS:
        ranks = recording(name)["ranks"]
        sent, received = Counter(), Counter()
        for events in ranks:
            for event in events:
                for message in event.get("ops", [event]):
                    if message["op"] == "isend":
                        sent[message["label"]] += 1
                    elif message["op"] == "irecv":
                        received[message["label"]] += 1
        assert sent == received, name


# --- one edit -------------------------------------------------------------------------------------


def calls(events, kinds=("isend", "irecv", "batch")):
    """Return the places of the calls that communicate."""
    return [place for place, event in enumerate(events) if event["op"] in kinds]


def close(events, place):
    """Return the place of the wait for the handle of a call."""
    work = events[place]["work"]
    return next(n for n, e in enumerate(events) if e["op"] == "wait" and e["work"] == work)


def cut(events, place):
    """Take a call and its wait out."""
    end = close(events, place)
    return [event for n, event in enumerate(events) if n not in {place, end}]


def drop(data):
    """Leave out a call of the second stage."""
    events = data["ranks"][1]
    data["ranks"][1] = cut(events, calls(events)[2])


def duplicate(data):
    """Call twice."""
    events = data["ranks"][0]
    place = calls(events)[1]
    again = copy.deepcopy([events[place], {"op": "wait", "work": 0}])
    again[0]["work"] = again[1]["work"] = 999
    events[place:place] = again


def swap(data):
    """Exchange what the first two calls of the last stage carry."""
    events = data["ranks"][-1]
    a, b = calls(events)[0], calls(events)[-1]
    for name in ("op", "ops", "peer", "group", "label"):
        one, other = events[a].pop(name, None), events[b].pop(name, None)
        events[a] |= {name: other} if other is not None else {}
        events[b] |= {name: one} if one is not None else {}


def message_of(data, rank, number=0):
    """Return a message of a rank."""
    event = data["ranks"][rank][calls(data["ranks"][rank])[number]]
    return event.get("ops", [event])[0]


def wrong_peer(data):
    """Send to another stage than the next."""
    message = message_of(data, 0)
    message["peer"] = (message["peer"] + 1) % len(data["ranks"]) or 2


def wrong_group(data):
    """Send on another group than the one on which the next stage receives."""
    message = message_of(data, 0)
    message["group"] = "world" if message["group"] != "world" else "pp0"


def wrong_size(data):
    """Send half of what the next stage expects."""
    message_of(data, 0)["shape"][0] //= 2


def wrong_type(data):
    """Send another type than the next stage expects."""
    message_of(data, 0)["dtype"] = "float64"


def wait_first(data):
    """Receive the first gradient before the first activation is sent."""
    events = data["ranks"][0]
    place = next(
        n for n, e in enumerate(events) if any(m["op"] == "irecv" for m in e.get("ops", [e]))
    )
    pair = [events[place], events[close(events, place)]]
    data["ranks"][0] = pair + cut(events, place)


EDITS = {
    "1f1b-pp2-world-group": [
        drop, duplicate, swap, wrong_group, wrong_size, wrong_type, wait_first,
    ],
    "forward-pp3": [drop, duplicate, wrong_peer, wrong_group, wrong_size],
    "1f1b-pp4-even-odd": [drop, wrong_peer, wait_first],
    "1f1b-pp4-batched": [drop, duplicate, wrong_size, wait_first],
}  # fmt: skip
CASES = [(name, edit) for name, edits in EDITS.items() for edit in edits]


@pytest.mark.parametrize(
    ("name", "edit"), CASES, ids=lambda value: getattr(value, "__name__", value)
)
def test_edits_are_judged_as_the_enumerator_judges_them(name, edit):
    """One wrong call: never SAFE, and the enumerator's answer under two models."""
    data = recording(name)
    edit(data)
    assert data != recording(name)
    plan = planguard.load(data)
    for model in ("gloo", "nccl-serialized"):
        expected = enumerate_plan(json.loads(plan.source), model, Effort(verify=0)).outcome
        assert planguard.check(plan, model=model).outcome.value == expected, model
        assert expected in {"DEADLOCK", "MISMATCH"}, model


# --- refused --------------------------------------------------------------------------------------


def put(data, value, *path):
    """Set a value deep inside a recording."""
    for key in path[:-1]:
        data = data[key]
    data[path[-1]] = value


@pytest.mark.parametrize(
    ("value", "path", "place"),
    [
        ("jump", ("ranks", 0, 1, "op"), "$.ranks[0][1].op"),
        (9, ("ranks", 0, 1, "peer"), "$.ranks[0][1].peer"),
        ("pp7", ("ranks", 0, 1, "group"), "$.ranks[0][1].group"),
        ("float31", ("ranks", 0, 1, "dtype"), "$.ranks[0][1].dtype"),
        ([4, -2, 8], ("ranks", 0, 1, "shape"), "$.ranks[0][1].shape[1]"),
        (77, ("ranks", 0, 2, "work"), "$.ranks[0][2]"),
        (0, ("ranks", 0, 1, "asnyc"), "$.ranks[0][1].asnyc"),
        ([0, 0], ("groups", "pp0"), "$.groups.pp0"),
        ([], ("ranks",), "$.ranks"),
        ("planguard.megatron/2", ("schema",), "$.schema"),
        ({"op": "batch", "ops": [{"op": "wait"}]}, ("ranks", 0, 0), "$.ranks[0][0].ops[0].op"),
    ],
)  # fmt: skip
def test_malformed_recordings_are_refused_with_their_path(value, path, place):
    """Every defect is a PlanError that names its JSON path."""
    data = recording("1f1b-pp2-world-group")
    put(data, value, *path)
    with pytest.raises(PlanError) as error:
        planguard.load(data, planner="megatron")
    assert error.value.path == place


@pytest.mark.parametrize("options", [{"device_synk": True}, {"device_sync": "x"}])
def test_impossible_options_are_refused(options):
    """An option that does not exist, or a value that is not possible, is a UsageError."""
    with pytest.raises(UsageError):
        planguard.load(path_of("forward-pp3"), **options)


def test_device_synchronizations_can_be_left_out():
    """``device_sync=False`` is the plan of ``batch_p2p_sync`` turned off."""
    plan = planguard.load(path_of("forward-pp3"), device_sync=False)
    assert all("host_sync" not in count for count in counts(plan))


@pytest.mark.parametrize("model", ["gloo", "gloo-detail"])
@pytest.mark.parametrize("overlap", sorted(FOLDER.glob("*overlap*.json")), ids=lambda p: p.name)
def test_an_overlap_drops_no_handle(overlap, model):
    """The recorder has no `drop`, and no two calls of a rank share the name of a handle, so a
    handle that the schedule never waits for is PG301, and never PG308.
    """
    plan = planguard.load(overlap)
    actions = [
        action for body in json.loads(plan.source)["ranks"].values() for action in body["actions"]
    ]
    assert not any(action["op"] == "drop" for action in actions)
    for body in json.loads(plan.source)["ranks"].values():
        names = [
            action["work"]
            for action in body["actions"]
            if action["op"] != "wait" and "work" in action
        ]
        assert len(names) == len(set(names))
    verdict = planguard.check(plan, model=model)
    assert verdict.safe
    assert "PG308" not in {f.code for f in verdict.findings}
