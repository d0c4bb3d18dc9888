"""Plans of DeepSpeed's schedules: what its engine really called, and what one edit does to them."""

from __future__ import annotations

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

registry.find("deepspeed")  # mounts planguard.planners where it is not installed

from planguard.planners.deepspeed import adapter  # noqa: E402

FOLDER = TESTS.parent / "tests" / "samples" / "deepspeed"
RECORDED = sorted(path.stem for path in (FOLDER / "recorded").glob("*.json"))
SAMPLES = sorted(path.name.removesuffix(".deepspeed.json") for path in FOLDER.glob("*.deepspeed.*"))
DTYPES = {"float32": "f32", "float64": "f64", "int32": "i32", "int64": "i64"}


def path_of(name):
    """Return the file of a sample."""
    return FOLDER / f"{name}.deepspeed.json"


def dump(name):
    """Return a sample, parsed."""
    return json.loads(path_of(name).read_text())


def rows(plan):
    """Return the actions of all ranks without computations."""
    document = json.loads(plan.source)
    programs = [document["ranks"][str(rank)]["actions"] for rank in range(plan.world_size)]
    return [[a for a in program if a["op"] != "compute"] for program in programs]


def planned(plan):
    """Return what every rank calls, in the words of a recording."""
    groups = {name: group["ranks"] for name, group in json.loads(plan.source)["groups"].items()}
    out = []
    for row in rows(plan):
        calls = []
        for action in row:
            call = (action["op"], action["count"], action["dtype"])
            peer = action.get("peer", action.get("root"))
            calls.append((*call, peer, tuple(groups.get(action.get("group"), ()))))
        out.append(calls)
    return out


def called(name):
    """Return what every rank of the real engine called, groups of one rank left out."""
    ranks = json.loads((FOLDER / "recorded" / f"{name}.json").read_text())
    return [
        [
            (c["op"], c["count"], DTYPES[c["dtype"]], c.get("src", c.get("dst")),
             tuple(c.get("group", ())))
            for c in calls
            if len(c.get("group", "xx")) > 1
        ]
        for calls in ranks
    ]  # fmt: skip


@pytest.mark.parametrize("name", [name for name in RECORDED if "zero3" not in name])
def test_the_plan_is_what_the_real_engine_called(name):
    """Call by call, rank by rank: operation, size, type, peer and group are those of a real run."""
    assert planned(planguard.load(path_of(name))) == called(name)


def test_zero3_fetches_and_scatters_as_the_real_engine_did():
    """ZeRO-3's plan is the real run without the check of its trace, two broadcasts of numbers."""
    real = [[c for c in calls if c[0] != "broadcast"] for calls in called("dp2-zero3")]
    assert [len(calls) - 2 for calls in called("dp2-zero3")] == [len(calls) for calls in real]
    assert planned(planguard.load(path_of("dp2-zero3"))) == real


GATHER = "all_gather_into_tensor"
COUNTS = {
    "pp2-train": [{"send": 4, "recv": 3, "broadcast": 1}, {"send": 3, "recv": 4, "broadcast": 1}],
    "pp4-train": [{"send": 7, "recv": 6, "broadcast": 1}]
    + [{"send": 13, "recv": 13, "broadcast": 1}] * 2
    + [{"send": 6, "recv": 7, "broadcast": 1}],
    "pp3-eval": [
        {"send": 5, "broadcast": 1},
        {"send": 5, "recv": 5, "broadcast": 1},
        {"recv": 5, "broadcast": 1},
    ],
    "pp2dp2-tied": [{"send": 4, "recv": 3, "all_reduce": 2, "broadcast": 1}] * 2
    + [{"send": 3, "recv": 4, "all_reduce": 3, "broadcast": 1}] * 2,
    "pp2dp2-zero1": [{"send": 3, "recv": 2, "all_reduce": 3, GATHER: 1, "broadcast": 1}] * 2
    + [{"send": 2, "recv": 3, "all_reduce": 4, GATHER: 1, "broadcast": 1}] * 2,
    "dp2-zero0": [{"all_reduce": 1}] * 2,
    "dp2-zero1": [{"all_reduce": 3, GATHER: 1}] * 2,
    "dp2-zero2": [{"all_reduce": 5, GATHER: 1}] * 2,
    "dp2-zero3": [{"all_reduce": 1, GATHER: 8, "reduce_scatter_tensor": 2}] * 2,
}


def test_every_sample_has_its_counts_and_its_recording():
    """No sample is left out of what is asserted below."""
    assert sorted(COUNTS) == SAMPLES == RECORDED


@pytest.mark.parametrize("name", COUNTS)
def test_plans_of_deepspeed_are_safe_under_every_model(name):
    """What DeepSpeed schedules is SAFE, whichever model is asked, with so many actions per rank."""
    plan = planguard.load(path_of(name))
    assert [dict(Counter(a["op"] for a in row)) for row in rows(plan)] == COUNTS[name]
    outcomes = {model: planguard.check(plan, model=model).outcome.value for model in MODEL_NAMES}
    assert outcomes == dict.fromkeys(MODEL_NAMES, "SAFE")


@pytest.mark.parametrize("name", ["pp2-train", "pp2dp2-tied", "dp2-zero3"])
def test_the_adapter_keeps_its_contract(name):
    """check_adapter accepts the adapter, damaged dumps included."""
    assert check_adapter(adapter, path_of(name), variants=25).refused > 0


# --- one edit -------------------------------------------------------------------------------------


def spot(data, stage, name, count=0):
    """Return step and place of the n-th command of a kind of a stage."""
    return [
        (step, place)
        for step, commands in enumerate(data["commands"][stage])
        for place, command in enumerate(commands)
        if command.startswith(name + "(")
    ][count]


def swap(data):
    """Let the first stage wait for a gradient before it sends the activation it comes from."""
    step, place = spot(data, 0, "SendActivation")
    later, other = spot(data, 0, "RecvGrad")
    commands = data["commands"][0]
    commands[step].insert(place, commands[later].pop(other))


def swap_back(data):
    """Let the last stage send the gradient after it waits for the next activation."""
    step, place = spot(data, -1, "SendGrad")
    data["commands"][-1][step].append(data["commands"][-1][step].pop(place))


def drop_send(data):
    """Leave out an activation on the sending side."""
    step, place = spot(data, 0, "SendActivation", 1)
    del data["commands"][0][step][place]


def drop_recv(data):
    """Leave out a gradient on the receiving side."""
    step, place = spot(data, 0, "RecvGrad", 1)
    del data["commands"][0][step][place]


def duplicate(data):
    """Receive an activation twice."""
    step, place = spot(data, -1, "RecvActivation", 1)
    commands = data["commands"][-1][step]
    commands.insert(place, commands[place])


def resend(data):
    """Send a gradient whose buffer is empty already."""
    step, place = spot(data, -1, "SendGrad")
    commands = data["commands"][-1][step]
    commands.insert(place, commands[place])


def wrong_buffer(data):
    """Send the activation of another microbatch."""
    step, place = spot(data, 0, "SendActivation", 1)
    first = spot(data, 0, "SendActivation")
    data["commands"][0][step][place] = data["commands"][0][first[0]][first[1]]


def no_shapes(data):
    """Leave out the first activation on both sides but the shapes' receiver."""
    step, place = spot(data, 0, "SendActivation")
    del data["commands"][0][step][place]
    step, place = spot(data, 0, "RecvGrad")
    del data["commands"][0][step][place]


def untied(data):
    """Do not sum the tied gradients on one stage."""
    step, place = spot(data, 1, "ReduceTiedGrads")
    del data["commands"][1][step][place]


def tied_late(data):
    """Sum the tied gradients after those of the data ranks, on one stage."""
    step, place = spot(data, 0, "ReduceTiedGrads")
    commands = data["commands"][0][step]
    commands[place], commands[place + 1] = commands[place + 1], commands[place]


def other_order(data):
    """Let the gradients, or the modules, of one rank come in another order."""
    zero3 = data["zero"]["stage"] == 3
    listed = data["modules"] if zero3 else data["parameters"][0]
    names = [entry["name"] for entry in listed]
    data["orders"] = {"1": [names[-1], *names[:-1]]}


def missing_gradient(data):
    """Let one rank have no gradient of a parameter, or never run a module."""
    zero3 = data["zero"]["stage"] == 3
    listed = data["modules"] if zero3 else data["parameters"][0]
    names = [entry["name"] for entry in listed]
    data["orders"] = {"1": names[:-1]}


EDITS = {
    "pp2-train": [
        swap, swap_back, drop_send, drop_recv, duplicate, resend, wrong_buffer, no_shapes,
    ],
    "pp3-eval": [drop_send, duplicate, wrong_buffer],
    "pp2dp2-tied": [swap, untied],
    "dp2-zero1": [other_order, missing_gradient],
    "dp2-zero2": [other_order, missing_gradient],
    "dp2-zero3": [other_order, missing_gradient],
}  # fmt: skip
CASES = [(name, edit) for name, edits in EDITS.items() for edit in edits]


@pytest.mark.parametrize(
    ("name", "edit"), CASES, ids=lambda value: getattr(value, "__name__", value)
)
def test_edits_are_judged_as_the_enumerator_judges_them(name, edit):
    """One wrong command or order: never SAFE, and the enumerator's answer under two models."""
    data = dump(name)
    edit(data)
    assert data != dump(name)
    plan = planguard.load(data)
    for model in ("gloo", "nccl-serialized"):
        expected = enumerate_plan(json.loads(plan.source), model, Effort(verify=0)).outcome
        assert planguard.check(plan, model=model).outcome.value == expected, model
        assert expected in {"DEADLOCK", "MISMATCH"}, model


def test_a_stage_may_sum_tied_gradients_later_than_another():
    """Both ranks of a stage do it, so nobody waits in a circle: SAFE for the enumerator too."""
    data = dump("pp2dp2-tied")
    tied_late(data)
    plan = planguard.load(data)
    for model in ("gloo", "nccl-serialized"):
        assert enumerate_plan(json.loads(plan.source), model, Effort(verify=0)).outcome == "SAFE"
        assert planguard.check(plan, model=model).outcome.value == "SAFE"


# --- options and inputs ---------------------------------------------------------------------------


def split(shape, model=2):
    """Return a pipeline of two stages whose messages are split over model ranks."""
    data = dump("pp2-train")
    data |= {
        "model_parallel": model,
        "partitioned": {"activations": True, "gradients": True},
        "boundaries": [[{"shape": shape, "dtype": "float16"}]],
    }
    return data


def test_partitioned_messages_carry_their_meta_data():
    """A split tensor is two messages, 8 numbers and its part, and is put together by a gather."""
    plan = planguard.load(split([2, 8]))
    sends = [a for a in rows(plan)[0] if a["op"] == "send"]
    assert [(a["count"], a["dtype"]) for a in sends[:3]] == [(256, "i32"), (8, "i64"), (8, "f16")]
    assert Counter(a["op"] for a in rows(plan)[2])[GATHER] == 3
    assert planguard.check(plan).outcome.value == "SAFE"


@pytest.mark.parametrize("activations", [True, False])
def test_an_unevenly_split_tensor_is_refused_on_every_group_of_model_ranks(activations):
    """DeepSpeed gathers unequal parts as if they were equal; its ranks end, as measured on gloo."""
    document = split([3, 3])
    document["partitioned"]["activations"] = activations
    with pytest.raises(PlanError, match="as if its parts were equal") as error:
        planguard.load(document)
    assert error.value.path.startswith("$.commands[0]")


@pytest.mark.parametrize(
    "options",
    [{"transport": "broadcast"}, {"dynamic_shape": True}, {"first_batch": False},
     {"startup": True}, {"data_parallel": 2}],
    ids=lambda value: next(iter(value)),
)  # fmt: skip
def test_other_ways_of_the_engine_are_safe(options):
    """Groups of two, shapes with every message or none, the engine's start, copies of a stage."""
    assert planguard.check(planguard.load(path_of("pp2-train"), **options)).outcome.value == "SAFE"


class Instruction:
    """A command with the fields of DeepSpeed's ``PipeInstruction``."""

    def __init__(self, **kwargs):
        self.name, self.kwargs = type(self).__name__, kwargs


def instruction(text):
    """Return a command object for the text of a dump."""
    name, _, rest = text.partition("(")
    buffer = rest.strip(")").removeprefix("buffer_id=")
    return type(name, (Instruction,), {})(**({"buffer_id": int(buffer)} if buffer else {}))


def test_commands_in_memory_give_the_plan_of_their_dump():
    """Lists of command objects are read by their fields; sizes come from an option."""
    stages = [
        [[instruction(command) for command in step] for step in stage]
        for stage in dump("pp2-train")["commands"]
    ]
    plan = planguard.load(stages, shape=[2, 8])
    assert planned(plan) == called("pp2-train")
    unknown = planguard.load(stages)
    assert [entry.kind for entry in unknown.approximations] == ["unknown-boundaries"]
    assert planguard.check(unknown).outcome.value == "UNKNOWN"


def put(data, value, *path):
    """Set a value deep inside a dump."""
    for key in path[:-1]:
        data = data[key]
    data[path[-1]] = value


@pytest.mark.parametrize(
    ("value", "path", "place"),
    [
        ("Jump(buffer_id=0)", ("commands", 0, 0, 0), "$.commands[0][0][0]"),
        ("ForwardPass()", ("commands", 0, 0, 0), "$.commands[0][0][0]"),
        ("ReduceGrads(buffer_id=0)", ("commands", 0, 0, 0), "$.commands[0][0][0]"),
        ("ForwardPass(0); x", ("commands", 0, 0, 0), "$.commands[0][0][0]"),
        (3, ("stages",), "$.commands"),
        ("float31", ("boundaries", 0, 0, "dtype"), "$.boundaries[0][0].dtype"),
        (-1, ("boundaries", 0, 0, "shape", 0), "$.boundaries[0][0].shape[0]"),
        (2, ("zero", "stage"), "$.zero.stage"),
        ({"7": []}, ("orders",), "$.orders.7"),
        (True, ("zero", "overlap_com"), "$.zero.overlap_com"),
        ("rdma", ("transport",), "$.transport"),
    ],
)
def test_malformed_dumps_are_refused_with_their_path(value, path, place):
    """Every defect is a PlanError that names its JSON path."""
    data = dump("pp2-train")
    put(data, value, *path)
    with pytest.raises(PlanError) as error:
        planguard.load(data, planner="deepspeed")
    assert error.value.path == place


@pytest.mark.parametrize(
    "options",
    [{"transprt": "broadcast"}, {"transport": "x"}, {"data_parallel": 0}, {"loss": 3},
     {"shape": "big"}],
)  # fmt: skip
def test_impossible_options_are_refused(options):
    """An option that does not exist, or a value that is not possible, is a UsageError."""
    with pytest.raises(UsageError):
        planguard.load(path_of("pp2-train"), **options)


@pytest.mark.parametrize("axis", ["data_parallel", "model_parallel"])
@pytest.mark.parametrize("name", SAMPLES)
def test_groups_are_made_once_however_many_ranks_ask(name, axis, monkeypatch):
    """Four times the ranks take four times the ranks looked up, not sixteen times."""
    from planguard.planners.deepspeed.emit import Grid

    found, asked = [], Grid.rank
    counted = []
    monkeypatch.setattr(Grid, "rank", lambda *at: counted.append(1) or asked(*at))
    for size in (16, 64):
        counted.clear()
        planguard.load(path_of(name), planner="deepspeed", **{axis: size})
        found.append(len(counted))
    assert found[1] <= 4 * found[0]
