"""Several programs of one job with an order for each device: manifests planguard.mpmd/1."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import planguard
from planguard import registry
from planguard.errors import PlanError

TESTS = Path(__file__).resolve().parents[1]

from oracle.enumerator import Effort, enumerate_plan  # noqa: E402

registry.find("xla")  # mounts planguard.planners where it is not installed

FOLDER = TESTS / "samples" / "xla" / "mpmd"
MODELS = ("nccl", "nccl-lazy", "gloo", "mpi-sync")
EXPECTED = {
    "1f1b": ("SAFE", "SAFE", "SAFE", "SAFE"),
    "crossed": ("DEADLOCK", "DEADLOCK", "SAFE", "SAFE"),
    "crossed-directional": ("POTENTIAL_DEADLOCK", "POTENTIAL_DEADLOCK", "SAFE", "SAFE"),
    "forgotten": ("DEADLOCK",) * 4,
    "other-program": ("MISMATCH",) * 4,
    "swapped": ("MISMATCH",) * 4,
}
CODES = {"crossed": "PG001", "forgotten": "PG209", "other-program": "PG201", "swapped": "PG213"}


def loaded(name):
    """Return the plan of a manifest."""
    return planguard.load(FOLDER / f"{name}.mpmd.json")


def test_every_manifest_is_asserted():
    """No sample is left out of what is asserted below."""
    assert {path.name.partition(".")[0] for path in FOLDER.glob("*.mpmd.json")} == {*EXPECTED}


@pytest.mark.parametrize("name", EXPECTED)
def test_a_bundle_has_one_verdict(name):
    """The order that jax ran is SAFE; each twin is unsafe by the rule that it breaks."""
    plan = loaded(name)
    verdicts = [planguard.check(plan, model=model) for model in MODELS]
    assert tuple(verdict.outcome.value for verdict in verdicts) == EXPECTED[name]
    if name in CODES:
        assert CODES[name] in {finding.code for finding in verdicts[0].errors}


@pytest.mark.parametrize("name", EXPECTED)
def test_the_enumerator_says_the_same(name):
    """Searched independently, state by state, under a model of each kind."""
    plan = loaded(name)
    for model in ("gloo", "nccl-serialized"):
        truth = enumerate_plan(json.loads(plan.source), model, Effort(verify=0)).outcome
        assert planguard.check(plan, model=model).outcome.value == truth, model


def test_a_rank_does_what_its_list_says():
    """Runs by name, the collectives of each run under it, messages with peer, size and place."""
    actions = json.loads(loaded("1f1b").source)["ranks"]["3"]["actions"]
    found = [(a["op"], a.get("op_name") or a.get("label"), a.get("peer")) for a in actions]
    assert found[:4] == [
        ("recv", "activation.0", 1),
        ("compute", "FB1.0", None),
        ("all_gather_into_tensor", "all_gather.3 of FB1.0", None),
        ("reduce_scatter_tensor", "reduce_scatter.7 of FB1.0", None),
    ]
    assert [a["bytes"] for a in actions if a["op"] in {"send", "recv"}] == [128] * 4


def edited(tmp_path, change):
    """Return a manifest after a change, beside its programs."""
    for file in FOLDER.glob("*.hlo"):
        shutil.copy(file, tmp_path)
    manifest = json.loads((FOLDER / "1f1b.mpmd.json").read_text())
    change(manifest)
    path = tmp_path / "edited.mpmd.json"
    path.write_text(json.dumps(manifest))
    return path


def put(*path_and_value):
    """Return a change that sets one value deep inside."""
    *path, value = path_and_value

    def change(manifest):
        for key in path[:-1]:
            manifest = manifest[key]
        manifest[path[-1]] = value

    return change


WRONG = {
    "no mesh": (put("order", "first", 1, "to", "third"), "no such mesh"),
    "itself": (put("order", "first", 1, "to", "first"), "sends to itself"),
    "no program": (put("order", "first", 0, "run", "other"), "no such program"),
    "two things": (put("order", "first", 0, "send", "x"), "a line is one of"),
    "no end": (put("order", "first", 1, {"send": "x"}), "'to' is missing"),
    "a rank without a mesh": (put("meshes", "second", "3-4"), "every rank from 0 on"),
    "meshes of other sizes": (put("meshes", "second", "2-5"), "from 2 devices to 4"),
    "a mesh of another size": (put("order", "second", 0, {"run": "last"}), None),
    "a wait for nothing": (put("order", "first", 1, {"wait": "x"}), "nothing that is waited for"),
    "half a shape": (
        put("order", "first", 1, {"send": "x", "to": "second", "shape": [1]}),
        "both|together",
    ),
    "an unknown type": (put("order", "first", 1, "dtype", "f31"), "unknown element type"),
    "a field of a run": (put("order", "first", 0, "to", "second"), "run has no 'to'"),
    "communicators": (put("communicators", "many"), "unknown value"),
    "a file elsewhere": (put("programs", "last", "../last.hlo"), "beside the manifest"),
    "an own order of nobody": (put("order", "7", []), "does not exist"),
    "a bad run": (put("order", "first", 0, "as", "F{i}"), "expected a name"),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_malformed_manifest_is_refused(tmp_path, what):
    """With the place, never a plan; what is only wrong as a schedule is a verdict."""
    change, message = WRONG[what]
    path = edited(tmp_path, change)
    if message is None:
        assert planguard.check(path, model="nccl").unsafe
        return
    with pytest.raises(PlanError, match=message):
        planguard.load(path)


def test_a_program_for_other_devices_is_refused(tmp_path):
    """A program of two devices on a mesh of one."""

    def change(manifest):
        manifest["meshes"] = {"first": "0", "second": "1"}

    with pytest.raises(PlanError, match="the program has 2 devices, its mesh 1"):
        planguard.load(edited(tmp_path, change))


def test_unequal_sizes_of_one_array_are_a_mismatch(tmp_path):
    """The receiver says another shape than the sender."""
    path = edited(tmp_path, put("order", "second", 0, "shape", [2, 8]))
    verdict = planguard.check(path, model="nccl")
    assert verdict.outcome.value == "MISMATCH"


def test_without_shapes_the_ledger_says_so(tmp_path):
    """Arrays without a shape are told apart by their names only."""

    def change(manifest):
        for lines in manifest["order"].values():
            for line in lines:
                line.pop("shape", None)
                line.pop("dtype", None)

    verdict = planguard.check(edited(tmp_path, change), model="nccl")
    assert verdict.outcome.value == "SAFE"
    assert "no-sizes" in {entry.kind for entry in verdict.approximations}


# --- lists that JaxPP's compiler made ------------------------------------------------------------

JAXPP = FOLDER / "jaxpp"
LISTS = ["eager-1f1b", "interleaved-1f1b", "std-1f1b", "zero-bubble"]


def test_every_list_of_jaxpp_is_asserted():
    """No sample is left out of what is asserted below."""
    assert sorted(path.name.partition(".mpmd")[0] for path in JAXPP.glob("*.json")) == LISTS


@pytest.mark.parametrize("name", LISTS)
def test_lists_of_jaxpp_are_safe(name):
    """Four schedules on two stages of two devices, with the collectives inside their tasks."""
    plan = planguard.load(JAXPP / f"{name}.mpmd.json")
    assert {planguard.check(plan, model=model).outcome.value for model in MODELS} == {"SAFE"}
    ops = {action["op"] for rank in "0123" for action in
           json.loads(plan.source)["ranks"][rank]["actions"]}  # fmt: skip
    assert {"isend", "recv", "wait", "compute"} <= ops
    assert ops & {"all_reduce", "all_gather_into_tensor"}


def moved(lines, first, behind):
    """Return lines with those of one array moved behind those of another."""
    rest = [line for line in lines if not named(line, first)]
    place = max(at for at, line in enumerate(rest) if named(line, behind) and "wait" not in line)
    return rest[: place + 1] + [line for line in lines if named(line, first)] + rest[place + 1 :]


def named(line, array):
    """Tell whether a line is about an array of a transfer."""
    value = line.get("send") or line.get("recv") or line.get("wait") or ""
    return value.partition(".")[0] == array


OTHER = {"t2.0": "t3.0", "t3.0": "t2.0"}
TWINS = {
    "the second stage sends first": ("stage1", lambda lines: moved(lines, "t1", "t2"), "DEADLOCK"),
    "a gradient is not sent": (
        "stage1", lambda lines: [line for line in lines if not named(line, "t3")], "DEADLOCK",
    ),
    "two gradients change places": (
        "stage0",
        lambda lines: [{**line, "recv": {"t2.0": "t3.0", "t3.0": "t2.0"}.get(line["recv"],
                        line["recv"])} if "recv" in line else line for line in lines],
        "MISMATCH",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", TWINS)
def test_an_edited_list_of_jaxpp_is_not_safe(tmp_path, what):
    """One change of one stage's list."""
    stage, change, outcome = TWINS[what]
    for file in JAXPP.glob("std-1f1b.*.hlo"):
        shutil.copy(file, tmp_path)
    manifest = json.loads((JAXPP / "std-1f1b.mpmd.json").read_text())
    manifest["order"][stage] = change(manifest["order"][stage])
    path = tmp_path / "twin.mpmd.json"
    path.write_text(json.dumps(manifest))
    assert planguard.check(path, model="nccl").outcome.value == outcome


# --- Shardy's dialect -----------------------------------------------------------------------------

SHARDY = {
    "shardy-manual": "SAFE",
    "shardy-one-reduces": "DEADLOCK",
    "shardy-rfc-export": "SAFE",  # additions of arrays that lie alike
    "shardy-fragment-calls": "UNKNOWN",  # meshes of 8 and 3 devices: nothing is known to be sent
}


def shardy(name):
    """Return the text of a module of the dialect."""
    return (FOLDER / f"{name}.mlir").read_text()


def test_every_module_of_shardy_is_asserted():
    """No sample is left out of what is asserted below."""
    assert {path.name.removesuffix(".mlir") for path in FOLDER.glob("*.mlir")} == {*SHARDY}


@pytest.mark.parametrize("name", SHARDY)
def test_a_module_of_shardy_is_one_plan(name):
    """Recognized by its text; fragments run where the topology says; what is not there is open."""
    path = FOLDER / f"{name}.mlir"
    assert registry.recognize(str(path)).name == "xla"
    for model in ("nccl", "gloo"):
        assert planguard.check(planguard.load(path), model=model).outcome.value == SHARDY[name]


def test_the_exported_module_of_the_rfc():
    """Each mesh has its part of the list: runs and messages in the order of the text, in bytes."""
    document = json.loads(planguard.load(FOLDER / "shardy-rfc-export.mlir").source)

    def words(rank):
        found = document["ranks"][rank]["actions"]
        return [(a.get("op_name") or a["op"], a.get("peer"), a.get("bytes")) for a in found]

    forward, backward = "p0_stage1_fwd_calls0to1.main", "p2_stage1_bwd_calls0to1.main"
    both = "p1_stage2_fwd_bwd_calls0to1.main"
    assert words("1") == [
        (f"{forward}.0", None, None), ("send", 3, 8), ("recv", 3, 8),
        (f"{forward}.1", None, None), ("send", 3, 8), ("recv", 3, 8),
        (f"{backward}.0", None, None), (f"{backward}.1", None, None),
    ]  # fmt: skip
    assert words("2") == [
        ("recv", 0, 8), (f"{both}.0", None, None), ("send", 0, 8),
        ("recv", 0, 8), (f"{both}.1", None, None), ("send", 0, 8),
    ]  # fmt: skip


def open_of(text):
    """Return what a module of the dialect leaves to a partitioner."""
    plan = planguard.load(text.encode())
    return [entry.message for entry in plan.approximations if entry.kind == "not-partitioned"]


def test_a_fragment_is_read_with_the_layout_of_its_call():
    """Additions of what is cut alike move nothing; a call that cuts otherwise is a program more."""
    text = shardy("shardy-rfc-export")
    assert open_of(text) == []
    assert any("stablehlo.add" in one for one in open_of(text.replace('[{"x"}]', "[{?}]")))
    last = text.rindex("mpmd.fragment_call")
    whole = text[:last] + text[last:].replace(
        "(!m1_t_batch) -> !m1_t_batch",
        '(!m1_t_batch) -> !mpmd.mesh_tensor<"m1", !t, sharding=<@mesh, [{}]>>',
        1,
    )
    assert any("a result is sharded otherwise" in one for one in open_of(whole))


def test_a_collective_in_a_fragment_has_its_line():
    """The fragment is read on the lines that it stands on."""
    document = json.loads(planguard.load(FOLDER / "shardy-one-reduces.mlir").source)
    found = [a for a in document["ranks"]["2"]["actions"] if a["op"] == "all_reduce"]
    lines = shardy("shardy-one-reduces").split("\n")
    assert [("stablehlo.all_reduce" in lines[a["src"][1] - 1]) for a in found] == [True, True]


NOT_READ = {
    "a fragment with a body": ("mpmd.fragment_call<", "mpmd.fragment<", "is not read"),
    "a missing function": ("func.func @last", "func.func @lost", "there is no function @last"),
    "a mesh of nobody": (
        'fragment_call<mesh="m2"',
        'fragment_call<mesh="m3"',
        "not in the topology",
    ),
    "no topology": ("topology = #topology", "other = 1", "a topology"),
    "no array": (", tensor<4xf32>, sharding", ", memref<4xf32>, sharding", "not the type"),
    "a call in the generic form": (
        "= mpmd.fragment_call<",
        '= "mpmd.fragment_call"<',
        "is not read",
    ),
    "a transfer in the generic form": ("%8 = mpmd.transfer", '%8 = "mpmd.transfer"', "is not read"),
    "a transfer of nothing": ("%8 = mpmd.transfer", "mpmd.unheard_of", "is not read"),
    "two meshes of one name": ('<"m2": ', '<"m1": ', "two meshes"),
    "two functions of one name": ("@forward(%arg0: tensor", "@last(%arg0: tensor", "two functions"),
    "cut short": (
        "    return %6, %9 : !m1_batch, !m1_batch\n  }\n",
        "",
        "is not read",
    ),
}


@pytest.mark.parametrize("what", NOT_READ)
def test_what_is_no_exported_module_is_refused(what):
    """With the line, never a plan."""
    old, new, message = NOT_READ[what]
    text = shardy("shardy-manual")
    assert old in text
    with pytest.raises(PlanError, match=message):
        planguard.load(text.replace(old, new).encode())


MESH_2 = '!m2_batch = !mpmd.mesh_tensor<"m2", tensor<4xf32>'
OPEN = {
    "another layout": (MESH_2 + ', sharding=<@mesh, [{"x"}]>>', MESH_2 + ">"),
    "a layout left to the compiler": ('[{"x"}]>>', '[{"x", ?}]>>'),
    "another number of devices": ('<"m2": <["x"=2]>>', '<"m2": <["x"=1]>>'),
}  # fmt: skip


@pytest.mark.parametrize("what", OPEN)
def test_an_array_whose_parts_are_not_known_is_open(what):
    """Which device sends what is up to the runtime then: UNKNOWN, or refused, never SAFE."""
    old, new = OPEN[what]
    text = shardy("shardy-manual")
    assert old in text
    try:
        verdict = planguard.check(text.replace(old, new).encode(), model="nccl")
    except PlanError:
        return
    assert verdict.outcome.value != "SAFE"
    if not verdict.unsafe:
        assert "transfer-layout" in {entry.kind for entry in verdict.approximations}


def test_a_module_of_several_programs_is_not_read_as_one():
    """Named as the program of some ranks, it is refused; its messages would be lost in silence."""
    path = FOLDER / "shardy-manual.mlir"
    with pytest.raises(PlanError, match="where one is expected"):
        planguard.load({"0-3": path}, planner="xla")
    far = shardy("shardy-manual").replace("module @pipeline {", "module @pipeline {" + " " * 9000)
    plain = far[far.index("module") :].replace("#topology", '#mpmd.topology<<"m1": <["x"=2]>>>')
    with pytest.raises(PlanError):
        planguard.load(plain.encode(), planner="xla")
