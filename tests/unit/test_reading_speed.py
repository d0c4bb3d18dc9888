"""What makes loads cheap changes nothing that anybody sees."""

from __future__ import annotations

import gc
import sys

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
