"""What makes loads cheap changes nothing that anybody sees."""

from __future__ import annotations

import copy
import gc
import json
import sys
from pathlib import Path

import pytest
from planguard.planners.common.reading import At

import planguard as pg
from planguard.reordering.blocks import bits


class Watching(pg.PlanBuilder):
    """A builder that notes whether garbage is collected while it builds."""

    def build(self, *args, **kwargs):
        self.collects = gc.isenabled()
        return super().build(*args, **kwargs)


def test_load_does_not_collect_garbage_and_collects_afterwards():
    """A load makes no garbage, so nobody looks for it; the caller's setting comes back."""
    assert gc.isenabled()
    builder = Watching(1)
    builder.program(0).barrier()
    assert pg.load(builder).actions == 1
    assert (builder.collects, gc.isenabled()) == (False, True)


def test_a_failed_load_collects_again():
    """The setting comes back from a load that raises."""
    with pytest.raises(pg.PlanError):
        pg.load({"schema": "planguard.plan/1", "world_size": 0, "ranks": {}})
    assert gc.isenabled()


def test_what_an_adapter_extends_is_refused_with_its_place():
    """An adapter's actions are checked by build, which names the one that is wrong."""
    builder = pg.PlanBuilder(2)
    rows = [{"op": "send", "peer": 1, "bytes": 4}, {"op": "send", "peer": 1, "bytes": -4}]
    here = {"__name__": "planguard.planners.x", "program": builder.program(0), "rows": rows}
    exec("program.extend(rows)", here)  # noqa: S102 - a call as an adapter makes it
    with pytest.raises(pg.PlanError) as caught:
        builder.build()
    assert caught.value.path.startswith("$.ranks.0.actions[1]")


def test_paths_are_the_same_however_often_and_in_what_order_they_are_asked():
    """A path that was written out is that of what is below it, too."""
    top = At({"a": [{"b": 1}, {"c": [2, 3]}]})
    first, second = top.fields("a")["a"].each()
    leaves = list(second.fields("c")["c"].each())
    assert [leaf.path for leaf in leaves] == ["$.a[1].c[0]", "$.a[1].c[1]"]
    assert (second.path, first.fields("b")["b"].path, leaves[0].path) == (
        "$.a[1]", "$.a[0].b", "$.a[1].c[0]",
    )  # fmt: skip


@pytest.mark.parametrize("members", [set(), {0}, {255}, {256}, {0, 63, 64, 300, 8191}])
def test_wide_sets_of_bits_have_their_members_in_order(members):
    """A set that is read as text has the members of one that is read bit by bit."""
    assert list(bits(sum(1 << member for member in members))) == sorted(members)


def test_units_of_fsdp_cost_the_same_each():
    """Eight times the units take eight times the calls: no unit looks at all the others."""

    def calls(layers):
        names = [f"layers.{layer}.{kind}" for layer in range(layers) for kind in ("weight", "bias")]
        job = {
            "schema": "planguard.fsdp/1",
            "world_size": 2,
            "module": "Layers",
            "parameters": [{"name": n, "shape": [8], "dtype": "float32"} for n in names],
            "options": {"units": [f"layers.{layer}" for layer in range(layers)]},
        }
        made = 0

        def count(_frame, event, _arg):
            nonlocal made
            made += event in ("call", "c_call")

        pg.load(job)
        sys.setprofile(count)
        try:
            pg.load(job)
        finally:
            sys.setprofile(None)
        return made

    assert calls(256) < 9 * calls(32)


SAMPLES = Path(__file__).resolve().parents[1] / "samples"
WRONG = {
    "megatron": ("1f1b-pp4-variable-batched", "ranks", [
        {"op": "isend"}, {"op": "sends"}, {"work": -1}, {"work": 0}, {"work": "0"}, {"peer": 4},
        {"peer": True}, {"group": "none"}, {"group": "g" * 201}, {"shape": [-1]}, {"shape": 4},
        {"shape": [1 << 40, 1 << 40]}, {"dtype": "float"}, {"name": "F0.0"}, {"ops": []},
        {"label": None}, {"at": ["a.py", 1]}, {"at": ["a.py", 1.0, "f"]}, {"x-mine": [1]},
        {"mine": 1}, {"op": None},
    ]),
    "alpa": ("1f1b-2x2x2", "instructions", [
        {"op": "SENDS"}, {"op": "BROADCAST"}, {"task": None}, {"task": "none"}, {"task": 1.5},
        {"in": [[1], [2]]}, {"in": [-1]}, {"out": [True]}, {"info": "i" * 201}, {"info": 1},
        {"allgather_uuid": None}, {"allgather_uuid": "1"}, {"skip_grad_sync": 0}, {"x-mine": 1},
        {"mine": 1}, {"set_empty_buffer": "yes"}, {"op": None},
    ]),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_rows_of_a_file_are_read_like_those_in_memory(name, tmp_path):
    """Rows of a file are records made at once; each is taken or refused as if read by itself."""
    sample, field, wrong = WRONG[name]
    document = json.loads((SAMPLES / name / f"{sample}.{name}.json").read_text())
    assert _said(document, name, tmp_path) == _said(document, name, None)
    refused = 0
    for at, change in enumerate(wrong):
        broken = copy.deepcopy(document)
        rows = broken[field]
        rows = (list(rows.values()) if isinstance(rows, dict) else rows)[at % len(rows)]
        found = [row for row in rows if row["op"] not in ("wait", "sync", "compute", "FREE")]
        found[at % len(found)].update(change)
        for key in [key for key, value in change.items() if key == "op" and value is None]:
            del found[at % len(found)][key]
        in_memory = _said(broken, name, None)
        assert _said(broken, name, tmp_path) == in_memory, change
        refused += isinstance(in_memory, tuple)
    assert refused > len(wrong) / 3


def _said(document, name, folder):
    """Return the plan of a document, as it is or from a file, or what refuses it."""
    source = document
    if folder is not None:
        source = folder / f"one.{name}.json"
        source.write_text(json.dumps(document))
    try:
        plan = pg.load(source, name="one")
    except pg.PlanError as error:
        return error.code, error.path, error.message, error.hint
    said = json.dumps(plan.to_json())
    return said.replace(json.dumps(str(source)), json.dumps(f"{name}.json"))
