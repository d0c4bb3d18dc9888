"""Replica groups: the spellings, what their ids mean, and what is refused."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import planguard
from planguard import registry
from planguard.errors import PlanError

registry.find("xla")  # mounts planguard.planners where it is not installed

from planguard.planners.xla.groups import read_groups, read_pairs  # noqa: E402

PROGRAM = """HloModule m, is_scheduled=true, replica_count={replicas}, num_partitions={partitions}

%sum (a: f32[], b: f32[]) -> f32[] {{
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %add = f32[] add(%a, %b)
}}

ENTRY %main (p: f32[4]) -> f32[4] {{
  %p = f32[4] parameter(0)
  ROOT %ar = f32[4] all-reduce(%p), {attributes}, to_apply=%sum
}}
"""


def groups_of(attributes: str, replicas: int = 2, partitions: int = 3) -> list[list[int]]:
    """Return the distinct groups of the one all-reduce of a program."""
    text = PROGRAM.format(attributes=attributes, replicas=replicas, partitions=partitions)
    plan = planguard.load(text.encode(), planner="xla")
    ranks = {"world": list(range(plan.world_size))}
    document = json.loads(plan.source)
    ranks |= {name: group["ranks"] for name, group in document.get("groups", {}).items()}
    used = {document["ranks"][str(r)]["actions"][0].get("group", "world") for r in ranks["world"]}
    return sorted(ranks[name] for name in used)


def test_all_three_spellings_are_read():
    """Lists, iotas with a transposition, and axes of a mesh give the same kind of groups."""
    assert read_groups("{{0,1},{2,3}}") == ((0, 1), (2, 3))
    assert read_groups("[4,2]<=[2,4]T(1,0)") == ((0, 4), (1, 5), (2, 6), (3, 7))
    assert read_groups("mesh['x'=2,'y'=4] {'x'}") == ((0, 4), (1, 5), (2, 6), (3, 7))
    assert read_groups("mesh['x'=2,'y'=2], device_ids=(3,2,1,0) {'y'}") == ((3, 2), (1, 0))
    assert read_groups("{}") == ()


@given(st.lists(st.integers(1, 4), min_size=1, max_size=4), st.randoms())
def test_an_iota_is_a_transposed_array(dims: list[int], rng) -> None:
    """``[g,n]<=[dims]T(order)`` is numpy's arange, reshaped, transposed and cut into rows."""
    order = list(range(len(dims)))
    rng.shuffle(order)
    array = np.arange(int(np.prod(dims))).reshape(dims).transpose(order).reshape(-1)
    width = rng.choice([n for n in range(1, array.size + 1) if array.size % n == 0])
    sizes, turned = (",".join(map(str, numbers)) for numbers in (dims, order))
    text = f"[{array.size // width},{width}]<=[{sizes}]T({turned})"
    assert read_groups(text) == tuple(map(tuple, array.reshape(-1, width).tolist()))


@given(st.lists(st.integers(1, 4), min_size=1, max_size=4), st.randoms())
def test_mesh_axes_group_what_differs_along_them(dims: list[int], rng) -> None:
    """``mesh[..] {axes}`` groups the devices with equal coordinates on all other axes."""
    axes = sorted(rng.sample(range(len(dims)), rng.randint(1, len(dims))))
    others = [a for a in range(len(dims)) if a not in axes]
    array = np.arange(int(np.prod(dims))).reshape(dims).transpose(others + axes)
    width = int(np.prod([dims[a] for a in axes]))
    mesh = ",".join(f"'a{n}'={size}" for n, size in enumerate(dims))
    named = ",".join(f"'a{axis}'" for axis in axes)
    text = f"mesh[{mesh}] {{{named}}}"
    assert read_groups(text) == tuple(map(tuple, array.reshape(-1, width).tolist()))


def test_a_part_of_an_axis_groups_that_part():
    """``'x':(2)2`` is the second factor of an axis of four."""
    assert read_groups("mesh['x'=4] {'x':(2)2}") == ((0, 1), (2, 3))
    assert read_groups("mesh['x'=4] {'x':(1)2}") == ((0, 2), (1, 3))


def test_what_an_id_means_depends_on_channel_and_flag():
    """Cross-replica, cross-partition and flattened ids, as XLA's group modes define them."""
    pairs = "replica_groups={{0,1}}"
    assert groups_of(pairs) == [[0, 3], [1, 4], [2, 5]]
    assert groups_of(f"channel_id=1, {pairs}") == [[0, 1, 2, 3, 4, 5]]
    flat = "channel_id=1, replica_groups={{0,5},{1,4},{2,3}}, use_global_device_ids=true"
    assert groups_of(flat) == [[0, 5], [1, 4], [2, 3]]
    assert groups_of("channel_id=1, replica_groups={}, use_global_device_ids=true") == [
        [0, 1, 2, 3, 4, 5]
    ]


@pytest.mark.parametrize(
    "attributes",
    [
        "replica_groups={{0},{0}}",
        "replica_groups={{0}}",
        "replica_groups={{0,7}}",
        "replica_groups=[2,9]<=[3]",
        "replica_groups=[99999999,99999999]<=[99999999,99999999]",
        "replica_groups=mesh['x'=2] {'y'}",
        "replica_groups={{0,1}}, use_global_device_ids=true",
        "channel_id=1, replica_groups={{0,1,2}}, use_global_device_ids=true",
    ],
)
def test_groups_that_xla_would_not_verify_are_refused(attributes):
    """Every id once, and global ids only with a channel; the error names the line."""
    with pytest.raises(PlanError) as error:
        groups_of(attributes)
    assert error.value.path == "line 11"


def test_pairs_are_pairs():
    """Sources and targets come in twos."""
    assert read_pairs("{{0,1},{1,0}}") == ((0, 1), (1, 0))
    with pytest.raises(ValueError, match="pairs"):
        read_pairs("{{0,1,2}}")


@pytest.mark.parametrize("devices", [8, 64])
def test_what_all_devices_share_is_read_once(devices, monkeypatch):
    """Pairs and groups are read as often for 64 devices as for 8: reading is linear."""
    from planguard.planners.xla import groups

    pairs = ",".join(f"{{{one},{(one + 1) % devices}}}" for one in range(devices))
    given = {"replicas": 1, "partitions": devices, "attributes": "replica_groups={}, channel_id=1"}
    permute = f"%cp = f32[4] collective-permute(%p), channel_id=2, source_target_pairs={{{pairs}}}"
    text = PROGRAM.format(**given).replace("  ROOT %ar", f"  {permute}\n  ROOT %ar")
    counts = {"read_pairs": 0, "read_groups": 0}
    for name in counts:
        own = getattr(groups, name)

        def counted(spelling, own=own, name=name):
            counts[name] += 1
            return own(spelling)

        monkeypatch.setattr(groups, name, counted)
    plan = planguard.load(text.encode(), planner="xla")
    assert plan.world_size == devices
    assert counts == {"read_pairs": 1, "read_groups": 2}  # the groups for sizes, too
    first = json.loads(plan.source)["ranks"]["5"]["actions"][0]
    assert [op["peer"] for op in first["ops"]] == [6, 4]
