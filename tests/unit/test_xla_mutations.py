"""One edit of the program that half of the devices run, judged by the independent enumerator."""

# ruff: noqa: E501 - instructions of HLO are long lines

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import planguard

TESTS = Path(__file__).resolve().parents[1]

from oracle.enumerator import Effort, enumerate_plan  # noqa: E402

FOLDER = TESTS.parent / "tests" / "samples" / "xla"


def swapped(text, one, other):
    """Swap two lines of an entry computation."""
    lines = text.splitlines(keepends=True)
    a, b = (
        next(n for n, line in enumerate(lines) if f"%{name} = " in line) for name in (one, other)
    )
    lines[a], lines[b] = lines[b], lines[a]
    return "".join(lines)


def without(text, name, stand_in):
    """Drop an instruction; its users take a value of the same shape."""
    text = re.sub(rf"\n  %{re.escape(name)} = [^\n]*", "", text)
    return text.replace(f"%{name})", f"%{stand_in})").replace(f"%{name},", f"%{stand_in},")


def doubled(text, name):
    """Run an instruction twice."""
    line = re.search(rf"\n  %{re.escape(name)} = [^\n]*", text)[0]
    return text.replace(line, line + line.replace(f"%{name} =", f"%{name}.again ="))


def changed(text, name, old, new):
    """Change the line of an instruction."""
    line = re.search(rf"\n  %{re.escape(name)} = [^\n]*", text)[0]
    assert old in line
    return text.replace(line, line.replace(old, new))


EDITS = {
    "swap of two equal gathers": ("fsdp.hlo", lambda t: swapped(t, "all-gather", "all-gather.2")),
    "swap of two groups": ("collectives.hlo", lambda t: swapped(t, "pmax.7", "psum.7")),
    "swap of two kinds": ("collectives.hlo", lambda t: swapped(t, "psum.7", "reduce_scatter.7")),
    "dropped sum": ("moe.hlo", lambda t: without(t, "psum.7", "param.1")),
    "doubled gather": ("collectives.hlo", lambda t: doubled(t, "all_gather.7")),
    "other group": (
        "collectives.hlo",
        lambda t: changed(t, "psum.7", "{{0,1,2,3},{4,5,6,7}}", "{{0,1,4,5},{2,3,6,7}}"),
    ),
    "group in another spelling": (
        "collectives.hlo",
        lambda t: changed(t, "psum.7", "{{0,1,2,3},{4,5,6,7}}", "[2,4]<=[8]"),
    ),
    "other peers": (
        "collectives.hlo",
        lambda t: changed(t, "ppermute.3", "{0,1},{1,2},{2,3},{3,0}", "{0,2},{2,1},{1,3},{3,0}"),
    ),
    "reversed ring": (
        "collectives.hlo",
        lambda t: changed(t, "ppermute.3", "{4,5},{5,6},{6,7},{7,4}", "{5,4},{6,5},{7,6},{4,7}"),
    ),
    "other kind": (
        "collectives.hlo",
        lambda t: changed(t, "psum.7", "to_apply=%region_0.0", "to_apply=%region_7.0"),
    ),
    "other size": (
        "collectives.hlo",
        lambda t: changed(
            t.replace("bitcast = f32[1,8,4]", "bitcast = f32[1,8,2]"), "all_gather.7", "f32[2,8,4]", "f32[2,8,2]"
        ),
    ),
    "pass less": ("ring.hlo", lambda t: t.replace('"known_trip_count":{"n":"4"}', '"known_trip_count":{"n":"3"}')),
}  # fmt: skip


@pytest.mark.parametrize("edit", EDITS)
def test_edits_are_judged_as_the_enumerator_judges_them(edit, tmp_path):
    """Hosts 0-3 run the program, hosts 4-7 an edited one: the answer is the enumerator's."""
    name, change = EDITS[edit]
    text = (FOLDER / name).read_text()
    edited = change(text)
    assert edited != text
    (tmp_path / "edited.hlo").write_text(edited)
    both = {"0-3": FOLDER / name, "4-7": tmp_path / "edited.hlo"}
    plan = planguard.load(both, planner="xla")
    document = json.loads(plan.source)
    for model in ("gloo", "nccl-serialized"):
        expected = enumerate_plan(document, model, Effort(verify=0)).outcome
        assert planguard.check(plan, model=model).outcome.value == expected, model
