"""Every field that these adapters accept decides something, is refused, or is told as informative.

A field is changed in a sample that can show it. The plan changes (name and producer aside), or the
change is refused with the field's name; the fields that do neither are listed with their reason.
"""

from __future__ import annotations

import copy
import dataclasses
import json
from pathlib import Path

import pytest

import planguard
from planguard import registry
from planguard.errors import PlanError, UsageError

registry.find("ddp")  # mounts planguard.planners where it is not installed

from planguard.planners.ddp.options import DdpOptions  # noqa: E402
from planguard.planners.deepspeed import dump as deepspeed_dump  # noqa: E402
from planguard.planners.deepspeed.options import DeepSpeedOptions  # noqa: E402
from planguard.planners.fsdp.options import FsdpOptions  # noqa: E402
from planguard.planners.horovod.options import HorovodOptions  # noqa: E402

SAMPLES = Path(__file__).resolve().parents[1] / "samples"
OPTIONS = {
    "ddp": DdpOptions, "fsdp": FsdpOptions, "horovod": HorovodOptions,
    "deepspeed": DeepSpeedOptions,
}  # fmt: skip
BASE = {
    "ddp": "norms.ddp.json", "fsdp": "encoder.fsdp.json", "horovod": "mlp.horovod.json",
    "deepspeed": "pp2dp2-zero1.deepspeed.json",
}  # fmt: skip
INFORMATIVE = {
    ("ddp", "gradient_as_bucket_view"): "changes no communication",
    ("fsdp", "buffers"): "FSDP2 leaves buffers alone",
    ("ddp", "module"): "names the plan",
    ("fsdp", "module"): "names the plan",
    ("horovod", "module"): "names the plan",
    ("deepspeed", "modules"): "of ZeRO-3 alone; the hook writes them for every stage",
    ("deepspeed", "micro_batches"): "the commands say how many there are",
    ("deepspeed", "schedule"): "the class that made the commands",
    ("deepspeed", "deepspeed"): "the version, kept as the producer",
}
"""What is accepted and does not decide; the page of the adapter says so."""


def sample(name, file):
    """Return a sample as a document, of four ranks."""
    document = json.loads((SAMPLES / name / file).read_text())
    if "world_size" in document:
        document["world_size"] = 4
    return document


def essence(document, name, **options):
    """Return the plan without what only names it, and the ledger."""
    plan = planguard.load(copy.deepcopy(document), planner=name, **options)
    made = json.loads(plan.source)
    for key in ("name", "producer"):
        made.pop(key, None)
    return json.dumps(made, sort_keys=True)


def decides(document, name, change=None, **options):
    """Tell whether a change of the document or an option changes the plan, or is refused."""
    changed = copy.deepcopy(document)
    if change is not None:
        change(changed)
    base = {key: options.pop(key) for key in list(options) if key.startswith("base_")}
    first = {key.removeprefix("base_"): value for key, value in base.items()}
    plain = essence(document, name, **first)
    try:
        return essence(changed, name, **{**first, **options}) != plain
    except (PlanError, UsageError):
        return True


# --- options: (adapter, option) to a value, and what has to be set for it to matter --------------

CHANGES = {
    ("ddp", "bucket_cap_mb"): ({"bucket_cap_mb": 0.001}, {}),
    ("ddp", "bucket_cap_mb_list"): ({"bucket_cap_mb_list": [0.001, 0.002]}, {}),
    ("ddp", "find_unused_parameters"): ({"find_unused_parameters": True}, {}),
    ("ddp", "static_graph"): ({"static_graph": True}, {}),
    ("ddp", "gradient_as_bucket_view"): ({"gradient_as_bucket_view": True}, {}),
    ("ddp", "broadcast_buffers"): ({"broadcast_buffers": False}, {}),
    ("ddp", "init_sync"): ({"init_sync": False}, {}),
    ("ddp", "init"): ({"init": False}, {}),
    ("ddp", "steps"): ({"steps": 5}, {}),
    ("ddp", "no_sync"): ({"no_sync": [0]}, {}),
    ("ddp", "unused"): ({"unused": ["FIRST"]}, {}),
    ("ddp", "ready_order"): ({"ready_order": "ALL"}, {"bucket_cap_mb": 0.001, "steps": 3}),
    ("ddp", "comm_hook"): ({"comm_hook": "fp16_compress"}, {}),
    ("ddp", "launch"): ({"launch": "any"}, {}),
    ("ddp", "branches"): ({"branches": {"b": ["FIRST"]}}, {}),
    ("ddp", "uniform"): ({"uniform": True}, {"branches": {"b": ["FIRST"]}}),
    ("ddp", "rank_options"): ({"rank_options": {1: {"steps": 5}}}, {}),
    ("ddp", "model"): ({"model": "gloo"}, {}),
    ("fsdp", "units"): ({"units": []}, {}),
    ("fsdp", "root"): ({"root": False}, {}),
    ("fsdp", "replicate"): ({"replicate": 2}, {}),
    ("fsdp", "reshard_after_forward"): ({"reshard_after_forward": False}, {}),
    ("fsdp", "reshard_units"): ({"reshard_units": {"layers.0": False}}, {}),
    ("fsdp", "param_dtype"): ({"param_dtype": "bfloat16"}, {}),
    ("fsdp", "reduce_dtype"): ({"reduce_dtype": "bfloat16"}, {}),
    ("fsdp", "forward_prefetch"): ({"forward_prefetch": 1}, {}),
    ("fsdp", "backward_prefetch"): ({"backward_prefetch": 0}, {}),
    ("fsdp", "order"): ({"order": "TURNED"}, {}),
    ("fsdp", "inputs_require_grad"): ({"inputs_require_grad": True}, {}),
    ("fsdp", "steps"): ({"steps": 3}, {}),
    ("fsdp", "no_sync"): ({"no_sync": [0]}, {"steps": 2}),
    ("fsdp", "rank_options"): ({"rank_options": {1: {"steps": 3}}}, {}),
    ("fsdp", "model"): ({"model": "gloo"}, {}),
    ("horovod", "fusion_threshold"): ({"fusion_threshold": 0}, {}),
    ("horovod", "compression"): ({"compression": "fp16"}, {}),
    ("horovod", "broadcast_parameters"): ({"broadcast_parameters": False}, {}),
    ("horovod", "steps"): ({"steps": 3}, {}),
    ("horovod", "missing"): ({"missing": ["FIRST"]}, {}),
    ("horovod", "rank_options"): ({"rank_options": {1: {"steps": 3}}}, {}),
    ("horovod", "model"): ({"model": "gloo"}, {}),
    ("deepspeed", "data_parallel"): ({"data_parallel": 3}, {}),
    ("deepspeed", "model_parallel"): ({"model_parallel": 2}, {}),
    ("deepspeed", "transport"): ({"transport": "broadcast"}, {}),
    ("deepspeed", "first_batch"): ({"first_batch": False}, {}),
    ("deepspeed", "dynamic_shape"): ({"dynamic_shape": True}, {}),
    ("deepspeed", "startup"): ({"startup": True}, {}),
    ("deepspeed", "loss"): ({"loss": False}, {}),
    ("deepspeed", "shape"): ({"shape": [4]}, {}),
    ("deepspeed", "dtype"): ({"dtype": "float16"}, {}),
    ("deepspeed", "model"): ({"model": "gloo"}, {}),
}  # fmt: skip


def filled(name, value):
    """Return a value with the names of the sample in it."""
    document = sample(name, BASE[name])
    names = [row["name"] for row in document.get("parameters", ()) if isinstance(row, dict)]
    if isinstance(value, dict):
        return {filled(name, key): filled(name, inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [filled(name, inner) for inner in value]
    return {
        "FIRST": names[:1] and names[0], "ALL": names, "TURNED": ["layers.1", "layers.0"],
    }.get(value, value) if isinstance(value, str) else value  # fmt: skip


def test_every_option_is_in_the_table():
    """No option of the four adapters is left out; ``name`` names the plan."""
    listed = {
        (name, field.name)
        for name, options in OPTIONS.items()
        for field in dataclasses.fields(options)
    }
    assert listed == set(CHANGES) | {(name, "name") for name in OPTIONS}


@pytest.mark.parametrize(("name", "option"), CHANGES)
def test_an_option_decides(name, option):
    """The plan is another one, or the option is refused, or the table says why neither."""
    value, given = (filled(name, one) for one in CHANGES[name, option])
    given = {f"base_{key}": one for key, one in given.items()}
    found = decides(sample(name, BASE[name]), name, **value, **given)
    assert found == ((name, option) not in INFORMATIVE)


# --- fields of files -----------------------------------------------------------------------------


def put(*path, value):
    """Return a change that sets one value deep inside a document."""

    def change(document):
        for key in path[:-1]:
            document = document[key]
        document[path[-1]] = value

    return change


ROW = {"name": "extra", "shape": [3], "dtype": "float32"}
MODULE = {
    "module": put("module", value="Another"),
    "world_size": put("world_size", value=8),
    "buffers": put("buffers", value=[ROW]),
    "sync_batchnorm": put("sync_batchnorm", value=True),
    "parameters.name": put("parameters", 0, "name", value="renamed.weight"),
    "parameters.shape": put("parameters", 0, "shape", value=[7, 4]),
    "parameters.dtype": put("parameters", 0, "dtype", value="float64"),
    "parameters.requires_grad": put("parameters", 0, "requires_grad", value=False),
    "parameters.sparse": put("parameters", 0, "sparse", value=True),
    "parameters.src": put("parameters", 0, "src", value=["elsewhere.py", 3]),
}


@pytest.mark.parametrize("name", ["ddp", "fsdp", "horovod"])
@pytest.mark.parametrize("field", MODULE)
def test_a_field_of_a_module_decides(name, field):
    """Sizes, types, what needs a gradient, and the calls that tensors do not show."""
    found = decides(sample(name, BASE[name]), name, MODULE[field])
    assert found == ((name, field) not in INFORMATIVE)


@pytest.mark.parametrize("name", ["ddp", "fsdp", "horovod"])
@pytest.mark.parametrize("field", ["sync_batchnorm", "parameters.sparse"])
def test_calls_that_tensors_do_not_show_leave_the_plan_open(name, field):
    """SyncBatchNorm communicates, and a sparse gradient has no size: UNKNOWN in each adapter."""
    document = sample(name, BASE[name])
    MODULE[field](document)
    verdict = planguard.check(planguard.load(document, planner=name), model="gloo")
    assert verdict.unknown


COMMAND = [["LoadMicroBatch(buffer_id=0)"]]
DEEPSPEED = {
    "deepspeed": put("deepspeed", value="0.1"),
    "schedule": put("schedule", value="Another"),
    "micro_batches": put("micro_batches", value=9),
    "stages": put("stages", value=3),
    "commands": put("commands", 0, value=COMMAND),
    "data_parallel": put("data_parallel", value=3),
    "model_parallel": put("model_parallel", value=2),
    "transport": put("transport", value="broadcast"),
    "first_batch": put("first_batch", value=False),
    "dynamic_shape": put("dynamic_shape", value=True),
    "startup": put("startup", value=True),
    "loss": put("loss", value=False),
    "boundaries": put("boundaries", 0, 0, "shape", value=[4, 8]),
    "parameters": put("parameters", 0, 0, "shape", value=[5, 5]),
    "tied": put("tied", value=[{"key": "t", "stages": [0, 1], "parameters": [ROW]}]),
    "zero": put("zero", "reduce_bucket_size", value=20),
    "modules": put("modules", value=[{"name": "m", "parameters": [ROW]}]),
    "orders": put("orders", value={"1": []}),
}


@pytest.mark.parametrize("field", DEEPSPEED)
def test_a_field_of_a_dump_decides(field):
    """Of a pipeline with ZeRO-1; a number of microbatches is checked and then the commands'."""
    found = decides(sample("deepspeed", BASE["deepspeed"]), "deepspeed", DEEPSPEED[field])
    assert found == (("deepspeed", field) not in INFORMATIVE)


def test_partitioned_decides_with_model_ranks():
    """Halves of activations and of gradients travel where model ranks hold them."""
    document = sample("deepspeed", BASE["deepspeed"]) | {"model_parallel": 2}
    for part in ("activations", "gradients"):
        assert decides(document, "deepspeed", put("partitioned", part, value=True))


def test_every_field_of_a_dump_is_in_the_table():
    """No field of ``planguard.deepspeed/1`` is left out but the schema and what is above."""
    fields = set(deepspeed_dump._FIELDS)
    assert fields == set(DEEPSPEED) | {"schema", "partitioned"}


@pytest.mark.parametrize(
    ("stage", "gone"), [(0, "parameters"), (1, "parameters"), (2, "parameters"), (3, "modules")]
)
def test_what_zero_needs_and_is_not_listed_leaves_the_plan_open(stage, gone):
    """Without what a stage of ZeRO reduces or fetches, its calls are left out: never SAFE."""
    document = sample("deepspeed", f"dp2-zero{stage}.deepspeed.json")
    assert planguard.check(document, planner="deepspeed", model="gloo").safe
    del document[gone]
    verdict = planguard.check(document, planner="deepspeed", model="gloo")
    assert verdict.unknown
    assert "unknown-parameters" in {entry.kind for entry in verdict.approximations}


def test_options_that_nothing_reads_are_refused():
    """``shape`` beside a dump, ``dtype`` without a shape, orders without ZeRO, a unit of nobody."""
    dump = sample("deepspeed", BASE["deepspeed"])
    with pytest.raises(UsageError, match="for schedules in memory"):
        planguard.load(dump, planner="deepspeed", shape=[4])
    with pytest.raises(UsageError, match="beside shape"):
        planguard.load(dump, planner="deepspeed", dtype="float16")
    dump["zero"]["stage"] = 0
    with pytest.raises(PlanError, match="decide nothing at ZeRO stage 0"):
        planguard.load({**dump, "orders": {"1": []}}, planner="deepspeed")
    with pytest.raises(PlanError, match="names a module that is no unit"):
        planguard.load(
            sample("fsdp", BASE["fsdp"]), planner="fsdp", reshard_units={"layers.*": False}
        )
