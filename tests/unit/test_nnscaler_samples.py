"""The nnscaler adapter on code that nnScaler 0.8 generated, and on what that code really did."""

from __future__ import annotations

import functools
import gzip
import importlib.util
import json
import re
import shutil
import sys
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest

import planguard
from planguard import registry
from planguard.cli import main
from planguard.errors import PlanError, UsageError
from planguard.options import MODEL_NAMES
from planguard.testing import check_adapter

registry.find("nnscaler")  # mounts planguard.planners where it is not installed

from planguard.planners.nnscaler import adapter  # noqa: E402

FOLDER = Path(__file__).resolve().parents[2] / "tests" / "samples" / "nnscaler"
ROWS = {"data": [4, 16], "target": [4, 16]}
TOKENS = {"ids": ([2, 8], "i64"), "labels": ([2, 8], "i64")}
INPUTS = {
    "mlp": ROWS, "mixture": ROWS, "wide": {"data": [64, 1024], "target": [64, 1024]},
    "gpt": TOKENS, "gpt1": TOKENS, "llama": TOKENS, "big": TOKENS,
    "vision": {"patches": [4, 8, 12], "labels": ([4], "i64")},
    "translator": {"source": ([4, 6], "i64"), "ids": ([4, 8], "i64"), "labels": ([4, 8], "i64")},
}  # fmt: skip
"""Shapes of the sample, by the first word of a name (models.py)."""
TP_MLP = {"all_to_all_single": 8, "reduce_scatter": 1, "all_gather": 2, "compute": 2}
STAGE = {"compute": 8, "broadcast": 4}
SAFE = {
    "mlp-tp4": [{**TP_MLP, "all_reduce": 5}] * 4,
    "mlp-tp2dp2": [{**TP_MLP, "all_reduce": 6, "new_group": 4}] * 4,
    "mlp-tp2dp2-async-reducer": [{**TP_MLP, "all_reduce": 7, "wait": 3, "new_group": 4}] * 4,
    "mlp-tp4-forward": [{**TP_MLP, "all_reduce": 5}] * 4,
    "mlp-dp4": [{"compute": 2, "all_reduce": 1}] * 4,
    "mlp-dp4-zero2": [
        {"compute": 2, "all_reduce": 1, "all_gather_into_tensor": 1, "new_group": 4}
    ] * 4,
    "mlp-dp4-zero-scatter": [
        {"compute": 2, "reduce_scatter": 2, "wait": 2, "all_gather_into_tensor": 2}
    ] * 4,
    "mlp-pp4-1f1b": [{**STAGE, "send": n, "recv": n} for n in (4, 8, 8, 4)],
    "mlp-pp4-gpipe": [{**STAGE, "send": n, "recv": n} for n in (4, 8, 8, 4)],
    "mlp-pp4-infer": [
        {"compute": 4, "broadcast": 4, "send": 4},
        {"compute": 4, "broadcast": 4, "send": 4, "recv": 4},
        {"compute": 4, "broadcast": 4, "send": 4, "recv": 4},
        {"compute": 4, "broadcast": 4, "recv": 4},
    ],
    "mlp-pp2v2dp2-interleaved": [
        {"compute": 16, "send": 12, "recv": 16, "all_reduce": 1, "new_group": 2},
        {"compute": 16, "send": 16, "recv": 12, "all_reduce": 1, "new_group": 2},
    ] * 2,
    "mlp-pp2dp2-async-reducer": [
        {"compute": 8, "send": 4, "recv": 8, "all_reduce": 3, "wait": 3, "new_group": 2},
        {"compute": 8, "send": 8, "recv": 4, "all_reduce": 2, "wait": 2, "new_group": 2},
    ] * 2,
    "mlp-pp2tp2dp2": (
        [{"compute": 8, "send": 4, "recv": 8, "all_gather": 8, "all_reduce": 1,
          "new_group": 10}] * 2
        + [{"compute": 8, "send": 8, "recv": 4, "all_gather": 12, "all_reduce": 1,
            "new_group": 10}] * 2
    ) * 2,
    "gpt1-tp2dp2": [
        {"compute": 2, "all_to_all_single": 40, "reduce_scatter": 6, "all_gather": 10,
         "all_reduce": 2, "new_group": 4}
    ] * 4,
    "gpt-data4": [{"compute": 2, "all_gather": 1, "all_reduce": 1}] * 4,
}  # fmt: skip
"""Sample -> actions of every rank by kind."""

STAGES = {"gloo-detail": "MISMATCH"}
LOCK = {"mpi-pg": "UNKNOWN"}
OTHERWISE = {
    **dict.fromkeys(("mlp-pp4-1f1b", "mlp-pp4-gpipe", "mlp-pp4-infer"), STAGES),
    **dict.fromkeys(("mlp-pp2dp2-async-reducer", "mlp-tp2dp2-async-reducer"), LOCK),
}
"""Stages have made other numbers of messages before they broadcast (PG216); asynchronous reducers
beside other calls take turns at MPI (ADR 0031)."""
ASYNC = ("mlp-pp4-async-p2p", "mlp-pp2tp2-async-p2p")
UNNAMED = ("gpt-pp4", "llama-pp2-1f1b", "llama-pp2dp2-gpipe", "llama-pp2tp2-1f1b")
"""Stages that use a number which only another stage defines: NameError on a rank."""
LATER = sorted(
    path.name
    for path in FOLDER.iterdir()
    if (path / "gencode0.py").exists() and path.name not in {*SAFE, *ASYNC, *UNNAMED[:1]}
)
"""Samples of further models, five of them plans of autodist."""
RECORDED = sorted(
    path
    for path in (FOLDER / "recorded").glob("*.json")
    if not path.stem.startswith("mutation-") and path.stem not in UNNAMED
)
"""What real processes did; gpt-pp4 has a test of its own, because it does not end."""


def options_of(name):
    """Return the shapes of a sample, and the step to read."""
    inputs = INPUTS[name.partition("-")[0]]
    if name.endswith("-forward"):
        return {"inputs": {"data": inputs}}
    return {"inputs": inputs, "step": "infer" if name.endswith("-infer") else "train"}


@functools.cache
def plan_of(name):
    """Return the plan of a sample."""
    return adapter.adapt(FOLDER / name, planguard.PlanBuilder, **options_of(name))


def programs(plan):
    """Return the actions of every rank."""
    ranks = json.loads(plan.source)["ranks"]
    return [ranks[str(rank)]["actions"] for rank in range(plan.world_size)]


# --- correct plans -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(SAFE))
def test_a_generated_plan_has_its_actions_and_is_safe_under_every_model(name):
    """Code that nnScaler generated is SAFE under every model but for those in OTHERWISE."""
    plan = plan_of(name)
    kinds = [dict(Counter(action["op"] for action in program)) for program in programs(plan)]
    assert kinds == SAFE[name]
    verdict = planguard.check(plan, model="all")
    expected = dict.fromkeys(MODEL_NAMES, "SAFE") | OTHERWISE.get(name, {})
    assert {model: outcome.value for model, outcome in verdict.models.items()} == expected
    assert not verdict.findings
    for model, outcome in OTHERWISE.get(name, {}).items():
        code = "PG216" if outcome == "MISMATCH" else "PG902"
        assert code in {finding.code for finding in planguard.check(plan, model=model).findings}


@pytest.mark.parametrize("name", [*sorted(SAFE), *ASYNC, "gpt-pp4"])
def test_the_adapter_keeps_its_contract(name):
    """check_adapter accepts the adapter on every sample, damaged directories included."""
    seen = check_adapter(adapter, FOLDER / name, options=options_of(name), variants=12)
    assert seen.refused > 0


def test_a_folder_above_is_recognized_and_found_without_naming_the_planner(tmp_path):
    """The directory given to parallelize works as well as the one of the module."""
    deep = tmp_path / "_parallel_modules" / "models" / "MLP" / "_"
    shutil.copytree(FOLDER / "mlp-dp4", deep)
    assert adapter.sniff(tmp_path)
    assert planguard.load(str(tmp_path)).world_size == 4


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
def test_the_plan_is_what_the_generated_code_did_on_gloo(path):
    """Every call of a real step, in order: operation, group, peer or root, size, asynchronous."""
    recorded = json.loads(path.read_text())
    for rank, (end, *calls) in recorded.items():
        assert end == "done"
        planned = [
            _as_recorded(action, len(recorded))
            for action in programs(plan_of(path.stem))[int(rank)]
            if action["op"] not in ("compute", "wait", "new_group", "drop")
        ]  # fmt: skip
        assert planned == calls


def _as_recorded(action, world):
    message = action["op"] in ("send", "recv")
    name = action.get("group", "world")
    ranks = None if message else _ranks(name, world)
    other = action["peer"] if message else action.get("root")
    return [action["op"], ranks, other, action["count"], bool(action.get("async"))]


def _ranks(name, world):
    return list(range(world)) if name == "world" else [int(rank) for rank in name[1:].split("_")]


def test_a_step_of_llama_ends_as_its_plan_says():
    """The second stage uses a number that only the first one has: NameError there, and the first
    waits, in the run on gloo as in the plan.
    """
    recorded = json.loads((FOLDER / "recorded" / "llama-pp2-1f1b.json").read_text())
    assert recorded["0"][0] == "stuck"
    plan = planguard.load(FOLDER / "llama-pp2-1f1b")
    assert programs(plan)[1][-1]["label"] == recorded["1"][0]
    (finding,) = planguard.check(plan, model="gloo").findings
    assert (finding.code, finding.ranks) == ("PG006", (0,))


# --- found in nnScaler ---------------------------------------------------------------------------


def test_a_value_that_one_rank_never_makes():
    """nnScaler cuts this GPT where a shape crosses a stage and sends only tensors, so the third
    stage uses a name that its rank never defines: it raises, the others wait, on gloo as well.
    """
    plan = plan_of("gpt-pp4")
    verdict = planguard.check(plan, model="gloo")
    assert verdict.outcome is planguard.Outcome.DEADLOCK
    assert {finding.code for finding in verdict.findings} == {"PG006"}
    leaving = [program[-1] for program in programs(plan)[2:]]
    assert [action["op"] for action in leaving] == ["exit", "exit"]
    assert leaving[0]["label"].startswith("NameError: name 'getattr_")
    line = (FOLDER / "gpt-pp4" / "gencode2.py").read_text().split("\n")[leaving[0]["src"][1] - 1]
    assert leaving[0]["label"].split("'")[1] in line
    recorded = json.loads((FOLDER / "recorded" / "gpt-pp4.json").read_text())
    assert recorded["2"][0] == leaving[0]["label"]
    assert [recorded[rank][0] for rank in "013"] == ["stuck"] * 3
    stuck = {rank for finding in verdict.findings for rank in finding.ranks} - {2}
    assert {1, 3} <= stuck <= {0, 1, 3}


def test_messages_in_flight_that_nobody_keeps():
    """With asynchronous messages, nnScaler drops the handles of sends: gloo may lose them. Where a
    received part is gathered at once, the gather reads memory that is still being written.
    """
    verdict = planguard.check(plan_of("mlp-pp4-async-p2p"), model="gloo")
    assert verdict.outcome is planguard.Outcome.POTENTIAL_DEADLOCK
    assert "PG308" in {finding.code for finding in verdict.findings}
    nccl = planguard.check(plan_of("mlp-pp2tp2-async-p2p"), model="nccl")
    assert {"PG301", "PG306"} <= {finding.code for finding in nccl.findings}


# --- mutations -----------------------------------------------------------------------------------


def _mutations():
    spec = importlib.util.spec_from_file_location("nnscaler_mutations", FOLDER / "mutations.py")
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.MUTATIONS


MUTATIONS = _mutations()


@pytest.mark.parametrize("name", sorted(MUTATIONS))
def test_a_mistake_on_one_rank_is_judged_as_real_processes_judge_it(name, tmp_path):
    """What leaves processes stuck or failing is DEADLOCK or MISMATCH; what only MISMATCH says may
    also finish, with wrong numbers, as gloo does where one rank names another root.
    """
    mutation = MUTATIONS[name]
    shutil.copytree(FOLDER / mutation.sample, tmp_path / "plan")
    mutation.apply(tmp_path / "plan")
    recorded = json.loads((FOLDER / "recorded" / f"mutation-{name}.json").read_text())
    finished = all(calls[0] == "done" for calls in recorded.values())
    plan = adapter.adapt(tmp_path / "plan", planguard.PlanBuilder, **options_of(mutation.sample))
    outcome = planguard.check(plan, model="gloo").outcome
    mismatch = planguard.Outcome.MISMATCH
    assert outcome in ({mismatch} if finished else {planguard.Outcome.DEADLOCK, mismatch})
    raised = {
        (rank, calls[0]) for rank, calls in recorded.items()
        if calls[0].split(":")[0] in ("NameError", "AssertionError", "AttributeError", "TypeError")
    }  # fmt: skip
    left = {
        (str(rank), program[-1]["label"]) for rank, program in enumerate(programs(plan))
        if program[-1]["op"] == "exit"
    }  # fmt: skip
    assert raised <= left


# --- damaged directories -------------------------------------------------------------------------


def damaged(tmp_path, name="mlp-tp2dp2"):
    """Copy a sample to damage it."""
    shutil.copytree(FOLDER / name, tmp_path / "plan")
    return tmp_path / "plan"


def edit(path, old, new, count=1):
    """Replace text of a file that is there."""
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, count))


@pytest.mark.parametrize(
    ("rank", "old", "new", "words", "line"),
    [
        (1, "class GenModel(", "class GenModel((", "not Python", True),
        (2, "rank = 2", "rank = 1", "generated for another rank", True),
        (0, "class GenModel", "class Model", "no class GenModel", False),
        (0, "def _train_step", "def _training_step", "neither a _train_step", False),
        (3, "ranks=[0, 1]", "ranks=[0, 9]", "outside of the world of 4", True),
        (3, "odim=0, ranks=[2, 3])", "odim=0, ranks=[0, 1])", "no member", True),
        (0, "idim=1, odim=0, ranks=[0, 1]", "idim=1, odim=0, ranks=[0, 7]", "outside", True),
        (0, "self.wreducer170.add_param(self.layers_1", "self.wreducer170.add_param(self.lay",
         "not registered", True),
        (0, "model.zero_grad()", "__import__('os').system('true')", "does not generate", True),
        (0, "model.zero_grad()", "model.reset()", "does not generate", True),
        (0, "model.zero_grad()", "for i in range(3): pass", "does not generate", True),
        (0, " = torch.sigmoid(", " = torch.distributed.recv(", "does not generate", True),
        (0, "max_bucket_size_bytes=None", "max_bucket_size_bytes=open('x')", "literal", True),
        (0, "zero_ngroups=1", "zero_ngroups=3", "zero_ngroups", True),
        (0, "runtime_version = '0.8'", "runtime_version = '0.7'", "differs", False),
        (0, "nmicros_per_scheduler_step = 1", "nmicros_per_scheduler_step = -1", "number of", True),
    ],
)  # fmt: skip
def test_damage_is_refused_with_file_and_line(tmp_path, rank, old, new, words, line):
    """Syntax errors, foreign statements, wrong ranks and groups name the place and give a hint."""
    plan = damaged(tmp_path)
    edit(plan / f"gencode{rank}.py", old, new)
    with pytest.raises(PlanError, match=words) as caught:
        adapter.adapt(plan, planguard.PlanBuilder)
    assert caught.value.file.startswith("gencode")
    assert caught.value.path.startswith("line ") == line
    assert caught.value.hint


def test_missing_and_superfluous_files_are_refused(tmp_path):
    """A gap, the last file gone, a wrong world size, no plan and two plans at once."""
    plan = damaged(tmp_path)
    (plan / "gencode1.py").rename(tmp_path / "kept.py")
    with pytest.raises(PlanError, match=r"missing: gencode1\.py"):
        adapter.adapt(plan, planguard.PlanBuilder)
    (tmp_path / "kept.py").rename(plan / "gencode1.py")
    with pytest.raises(PlanError, match=r"missing: gencode4\.py"):
        adapter.adapt(plan, planguard.PlanBuilder, world_size=5)
    with pytest.raises(PlanError, match=r"beyond the world size: gencode3\.py"):
        adapter.adapt(plan, planguard.PlanBuilder, world_size=3)
    (plan / "gencode3.py").unlink()
    with pytest.raises(PlanError, match="outside of the world of 3"):
        adapter.adapt(plan, planguard.PlanBuilder)
    shutil.copytree(plan, tmp_path / "other")
    with pytest.raises(PlanError, match="2 folders"):
        adapter.adapt(tmp_path, planguard.PlanBuilder)
    with pytest.raises(PlanError, match="not a directory"):
        adapter.adapt(tmp_path / "none", planguard.PlanBuilder)


def test_options_are_checked():
    """An option that does not exist, or an impossible value, is a UsageError with a hint."""
    for wrong in (
        {"input": {}}, {"inputs": {"data": "4x16"}}, {"inputs": [4, -1]}, {"samples": 0},
        {"step": "test"}, {"reducer_order": "none"}, {"optimizer": 1}, {"world_size": True},
    ):  # fmt: skip
        with pytest.raises(UsageError) as caught:
            adapter.adapt(FOLDER / "mlp-dp4", planguard.PlanBuilder, **wrong)
        assert caught.value.hint


@pytest.mark.parametrize("name", [*sorted(SAFE), *ASYNC, "gpt-pp4"])
def test_without_shapes_equal_expressions_are_equal_sizes(name):
    """Without `inputs` every plan gets the outcome it has with them; the ledger says the claim."""
    plan = planguard.load(FOLDER / name, planner="nnscaler")
    assert planguard.check(plan).outcome is planguard.check(plan_of(name)).outcome
    kinds = {entry.kind: entry for entry in planguard.check(plan).approximations}
    assert "unknown-size" not in kinds
    if "equal-sizes" in kinds:
        assert kinds["equal-sizes"].direction == "exact"
        assert "one shape on all ranks and to be cut evenly" in kinds["equal-sizes"].message


def test_there_are_twenty_later_samples():
    """Of five more models, and of autodist."""
    assert len(LATER) == 20
    assert sum("autodist" in name for name in LATER) == 5


@pytest.mark.parametrize("name", LATER)
def test_later_samples_are_decided_without_shapes_and_with_them(name):
    """The outcome is the same, SAFE but for stages that lack a name, and every size is known or an
    equal expression; what autodist found is no other code than that of a policy.
    """
    plain = planguard.load(FOLDER / name)
    wanted = "DEADLOCK" if name in UNNAMED else "SAFE"
    for plan in (plain, plan_of(name)):
        assert "unknown-size" not in {entry.kind for entry in plan.approximations}
        for model in ("gloo", "nccl"):
            assert planguard.check(plan, model=model).outcome.value == wanted
    assert plain.actions == plan_of(name).actions or name.endswith("-infer")


@pytest.mark.parametrize(
    ("old", "new", "is_safe"),
    [
        ("start=0, stop=16", "start=16, stop=32", True),
        ("self.tok_weight_594, padding_idx", "self.norm_weight_710, padding_idx", False),
    ],
    ids=["another part of the vocabulary", "another table"],
)
def test_the_part_of_a_vocabulary_makes_no_shape(old, new, is_safe, tmp_path):
    """Each rank embeds with a part of the table of one width; a table of another width differs."""
    plan = damaged(tmp_path, "llama-tp4")
    text = (plan / "gencode0.py").read_text()
    if not is_safe:
        new = new.replace("norm_weight_710", _parameter(text, "norm.weight"))
    assert old in text
    (plan / "gencode0.py").write_text(text.replace(old, new))
    outcome = planguard.check(planguard.load(plan)).outcome
    assert (outcome is planguard.Outcome.SAFE) is is_safe


def _parameter(text, original):
    """Return the attribute that holds a parameter of the model."""
    return re.search(rf"'(\w+)', \d+, True, '{re.escape(original)}'", text)[1]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("getitem_49 = _operator.getitem(data_74, 'data')",
         "getitem_49 = _operator.getitem(data_74, 'target')"),
        (
            "getitem_49 = _operator.getitem(data_74, 'data')",
            (
                "getitem_49 = _operator.getitem(data_74, 'data')\n"
                "        getitem_49 = torch.transpose(getitem_49, 0, 1)"
            ),
        ),
        ("getitem_49 = _operator.getitem(data_74, 'data')",
         "getitem_49 = torch.unfold(data_74, 'data')"),
        ("(16, 16), dtype=torch.float32)))\n        self.add_full_map('layers_5_weight_60'",
         "(8, 16), dtype=torch.float32)))\n        self.add_full_map('layers_5_weight_60'"),
    ],
    ids=["another-input", "another-operator", "operator-without-a-rule", "another-weight"],
)  # fmt: skip
def test_another_expression_on_one_rank_is_no_equal_size(tmp_path, old, new):
    """One rank that computes a size otherwise than the others leaves it unknown, or is unsafe."""
    plan = damaged(tmp_path, "mlp-tp4")
    edit(plan / "gencode2.py", old, new)
    found = planguard.check(planguard.load(plan, planner="nnscaler"))
    assert found.outcome is not planguard.Outcome.SAFE
    if found.unknown:
        assert "unknown-size" in {entry.kind for entry in found.approximations}


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("torch.where", ["cut"]),
        ("_operator.getitem", ["cut", "mask"]),
        ("torch.Tensor.view", ["cut", "data"]),
        ("torch.nonzero", ["cut"]),
        ("torch.Tensor.item", ["cut"]),
        ("torch.arange", ["data"]),
    ],
)
def test_a_shape_that_depends_on_data_has_no_expression(name, args):
    """Equal inputs give equal shapes only where shapes alone decide: no mask, no value."""
    from planguard.planners.nnscaler.shapes import infer
    from planguard.planners.nnscaler.values import Tensor

    values = {
        "cut": Tensor(expression="x"),
        "mask": Tensor((4,), "bool"),
        "data": Tensor((), "i64"),
    }
    assert infer(name, [values[one] for one in args], {}).expression == ""
    size = infer("torch.Tensor.size", [values["cut"], 0], {})
    half = infer("_operator.floordiv", [size, 2], {})
    assert infer("torch.Tensor.view", [values["cut"], (half, -1)], {}).expression


def test_shapes_may_stand_beside_the_code(tmp_path, capsys):
    """planguard.json in the directory describes the sample, for the command line as well."""
    plan = damaged(tmp_path)
    (plan / "planguard.json").write_text(json.dumps({"inputs": INPUTS["mlp"]}))
    assert planguard.check(plan).safe
    assert main(["check", str(plan), "--model", "gloo"]) == 0
    assert "SAFE" in capsys.readouterr().out
    for wrong in ('{"inputs": {"data": "4x16"}}', '{"input": {}}', "[]", "{", "\udcff"):
        (plan / "planguard.json").write_text(wrong, errors="surrogateescape")
        with pytest.raises(PlanError, match="description of the sample") as caught:
            planguard.load(plan)
        assert caught.value.file == "planguard.json"


# --- objects in memory ---------------------------------------------------------------------------


def kind(names):
    """Make the class of that name and its bases."""
    cls = SimpleNamespace
    for name in reversed(names):
        cls = type(name, (cls,), {"__hash__": object.__hash__, "__eq__": object.__eq__})
    return cls


def execution_plan(name):
    """Rebuild the ExecutionPlan that nnScaler made, from the fields kept of it."""
    path = FOLDER / "objects" / f"{name}.json.gz"
    dump = json.loads(gzip.decompress(path.read_bytes()))
    classes = functools.cache(kind)
    objects = []
    for entry in dump["objects"]:
        fields = {"name": entry["name"], "tid": entry["tid"], "device": tuple(entry["device"])}
        fields["is_attr"] = lambda entry=entry: entry["attr"]
        if "shape" in entry:
            parent = entry["parent"]
            fields |= {
                "shape": entry["shape"] or [1], "origin_shape": tuple(entry["shape"]),
                "dtype": entry["dtype"], "requires_grad": entry["requires_grad"],
                "grad": object() if entry["grad"] else None,
                "is_param": lambda entry=entry: entry["param"],
                "is_loss": lambda entry=entry: entry["loss"],
                "parent": SimpleNamespace(name=parent["name"], shape=parent["shape"] or [1]),
            }  # fmt: skip
        objects.append(classes(tuple(entry["kinds"]))(**fields))

    def value(found):
        if isinstance(found, list):
            return [value(part) for part in found]
        if isinstance(found, dict):
            ref = found.keys() == {"ref"}
            return objects[found["ref"]] if ref else {k: value(v) for k, v in found.items()}
        return found

    cells = [classes(tuple(entry["kinds"]))() for entry in dump["cells"]]
    for cell, entry in zip(cells, dump["cells"], strict=True):
        cell.cid, cell.device = entry["cid"], tuple(entry["device"])
        cell.isfw = lambda entry=entry: entry["fw"]
        cell.inputs = lambda entry=entry: value(entry["inputs"])
        cell.outputs = lambda entry=entry: value(entry["outputs"])
        cell.mirror = None if entry["mirror"] is None else cells[entry["mirror"]]
        if "cell" in entry:
            cell.cell = cells[entry["cell"]]
        cell.nodes = lambda entry=entry: [cells[node] for node in entry.get("nodes", ())]
        cell.prims = [
            SimpleNamespace(
                signature=prim["signature"], device=prim["device"], kwargs=prim["kwargs"],
                inputs=lambda prim=prim: value(prim["inputs"]),
                outputs=lambda prim=prim: value(prim["outputs"]),
            )
            for prim in entry.get("prims", ())
        ]  # fmt: skip
    schedule = SimpleNamespace(nmicros=dump["nmicros"]) if dump["nmicros"] else None
    graph = SimpleNamespace(sched=schedule, inputs=lambda: value(dump["inputs"]))
    plan = kind(["ExecutionPlan"])()
    plan.graph = graph
    plan.outputs = lambda: value(dump["outputs"])
    plan.devices = lambda: [int(device) for device in dump["devices"]]
    plan.seq = lambda device: [cells[cell] for cell in dump["devices"][str(device)]]
    return plan


CONFIGS = {
    "mlp-tp2dp2": {"runtime_ngpus": 4},
    "mlp-dp4-zero2": {"runtime_ngpus": 4, "use_zero": True, "zero_ngroups": 2},
    "mlp-pp2tp2dp2": {"runtime_ngpus": 8},
    "gpt-pp4": {},
    "gpt1-tp2dp2": {"runtime_ngpus": 4},
}


@pytest.mark.parametrize("name", sorted(CONFIGS))
def test_the_plan_in_memory_is_the_plan_of_its_code(name):
    """An ExecutionPlan gives, before code generation, the actions of the code made from it."""
    plan = execution_plan(name)
    assert adapter.sniff(plan)
    in_memory = adapter.adapt(plan, planguard.PlanBuilder, config=CONFIGS[name])
    assert [_bare(p) for p in programs(in_memory)] == [_bare(p) for p in programs(plan_of(name))]


def _bare(program):
    """Drop what names a place in the code, and what only the code does."""
    return [
        {k: v for k, v in action.items() if k not in ("src", "id", "deps", "op_name")}
        for action in program
        if action["op"] != "new_group"
    ]


def test_an_execution_plan_without_its_passes_is_refused():
    """A cell that nnScaler would not execute is named, with the pass that is missing."""
    plan = execution_plan("mlp-tp2dp2")
    stranger = kind(["IRDimops", "IRFwOperation", "IRCell"])(
        device=(0,), isfw=lambda: True, inputs=list, outputs=list, cid=1
    )
    plan.seq = lambda _device: [stranger]
    with pytest.raises(PlanError, match="cell 1 of device 0 is a IRDimops") as caught:
        adapter.adapt(plan, planguard.PlanBuilder)
    assert "Grouping" in caught.value.hint
