"""Rank selectors and mesh arithmetic."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planguard.plan.groups import Mesh, ProcessGroup
from planguard.plan.selectors import SelectorError, parse

MESH = Mesh.of([("pp", 4), ("dp", 2), ("tp", 2)])


def _ranks_of(selector: str, world_size: int = 16, mesh: Mesh | None = MESH) -> list[int]:
    return sorted(rank for ranks in parse(selector, world_size, mesh) for rank in ranks)


@pytest.mark.parametrize(
    ("selector", "ranks"),
    [
        ("3", [3]),
        ("0-3", [0, 1, 2, 3]),
        ("0-15:4", [0, 4, 8, 12]),
        ("0,4,8", [0, 4, 8]),
        ("0-1, 8-9", [0, 1, 8, 9]),
        ("pp=0", [0, 1, 2, 3]),
        ("pp=1-2,tp=0", [4, 6, 8, 10]),
        ("tp=1", [1, 3, 5, 7, 9, 11, 13, 15]),
        ("pp=0-2:2", [0, 1, 2, 3, 8, 9, 10, 11]),
    ],
)
def test_selectors_mean_what_the_format_says(selector: str, ranks: list[int]) -> None:
    """Numbers, intervals, steps, lists and mesh coordinates select exactly these ranks."""
    assert _ranks_of(selector) == ranks


@pytest.mark.parametrize(
    ("selector", "code"),
    [
        ("16", "PG402"),
        ("0-16", "PG402"),
        ("pp=4", "PG411"),
        ("qq=0", "PG411"),
        ("pp=0,pp=1", "PG901"),
        ("3-1", "PG901"),
        ("0-4:0", "PG901"),
        ("", "PG901"),
        ("0,", "PG901"),
        ("-1", "PG901"),
        ("1.5", "PG901"),
        ("pp=", "PG901"),
        ("٣", "PG901"),
        ("9" * 40, "PG901"),
    ],
)
def test_a_bad_selector_is_refused_with_its_code(selector: str, code: str) -> None:
    """A rank outside the world is PG402, a coordinate off the mesh PG411, no selector PG901."""
    with pytest.raises(SelectorError) as error:
        parse(selector, 16, MESH)
    assert error.value.code == code


def test_coordinates_need_a_mesh() -> None:
    """A selector by coordinates in a plan without a mesh is PG411."""
    with pytest.raises(SelectorError) as error:
        parse("pp=0", 16, None)
    assert error.value.code == "PG411"


@st.composite
def _boxes(draw: st.DrawFn) -> tuple[Mesh, dict[str, range]]:
    sizes = draw(st.lists(st.integers(1, 5), min_size=1, max_size=4))
    mesh = Mesh.of([(f"d{place}", size) for place, size in enumerate(sizes)])
    box = {}
    for name, size in zip(mesh.names, sizes, strict=True):
        if draw(st.booleans()):
            first = draw(st.integers(0, size - 1))
            last = draw(st.integers(first, size - 1))
            box[name] = range(first, last + 1, draw(st.integers(1, 3)))
    return mesh, box or {"d0": range(sizes[0])}


@given(_boxes())
def test_a_box_of_the_mesh_selects_the_ranks_with_these_coordinates(
    case: tuple[Mesh, dict[str, range]],
) -> None:
    """The ranges of a coordinate selector are exactly the ranks whose coordinates lie in the box,
    each once.
    """
    mesh, box = case
    world = 1
    for size in mesh.sizes:
        world *= size
    text = ",".join(f"{name}={r.start}-{r.stop - 1}:{r.step}" for name, r in box.items())
    selected = _ranks_of(text, world, mesh)
    expected = [
        rank
        for rank in range(world)
        if all(mesh.coordinates(rank)[name] in places for name, places in box.items())
    ]
    assert selected == expected


def test_a_selector_costs_ranges_and_not_ranks() -> None:
    """Every selector over one mesh dimension is one range, or one per outer coordinate, on a mesh
    of 16,384 ranks.
    """
    mesh = Mesh.of([("pp", 64), ("dp", 32), ("tp", 8)])
    counts = {s: len(parse(s, 16384, mesh)) for s in ("pp=1-62", "tp=0", "dp=3,tp=1", "dp=3")}
    assert counts == {"pp=1-62": 1, "tp=0": 1, "dp=3,tp=1": 1, "dp=3": 64}


def test_families_partition_the_world_in_mesh_order() -> None:
    """Instances of a family are disjoint, cover the world, and order their members row-major."""
    family = ProcessGroup("x", mesh_dims=(0, 2))
    instances = {tuple(family.members(rank, MESH)) for rank in range(16)}
    assert instances == {
        (0, 1, 4, 5, 8, 9, 12, 13),
        (2, 3, 6, 7, 10, 11, 14, 15),
    }
    assert [MESH.family_instance(rank, (0, 2)) for rank in (0, 2, 13, 15)] == [0, 1, 0, 1]


def test_a_step_wraps_only_on_request() -> None:
    """+1 at the last coordinate leaves the mesh, and comes back to the first with wrap."""
    assert MESH.shift(12, 0, 1, wrap=False) is None
    assert MESH.shift(12, 0, 1, wrap=True) == 0
    assert MESH.shift(5, 0, -1, wrap=False) == 1


def test_instances_of_two_families_have_two_names() -> None:
    """Instance 10 of dp and instance 0 of dp1 are two communicators in the flat plan, too."""
    import planguard

    plan = planguard.load(
        {
            "schema": "planguard.plan/1",
            "world_size": 24,
            "mesh": {"dims": [["dp", 2], ["tp", 12]]},
            "groups": {"dp": {"mesh_dims": ["dp"]}, "dp1": {"mesh_dims": ["dp"]}},
            "ranks": {"0-23": {"actions": [{"op": "barrier", "group": "dp"}]}},
        }
    )
    names = {plan.group_name(name, rank) for name in ("dp", "dp1") for rank in range(24)}
    assert len(names) == 24
