"""The reader and the writer of plan files."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING, Any

import pytest

from planguard.errors import PlanError
from planguard.plan.format import read, write
from planguard.plan.limits import Limits

if TYPE_CHECKING:
    from pathlib import Path

SEND = {"op": "send", "peer": 1, "count": 1, "dtype": "f32"}
RECV = {"op": "recv", "peer": 0, "count": 1, "dtype": "f32"}


def plan(*actions: dict[str, Any], **top: Any) -> dict[str, Any]:
    """A plan of two ranks: rank 0 runs the actions, rank 1 nothing."""
    return {
        "schema": "planguard.plan/1",
        "world_size": 2,
        "ranks": {"0": {"actions": list(actions)}, "1": {"actions": []}},
        **top,
    }


def _refusal(source: Any, **options: Any) -> PlanError:
    with pytest.raises(PlanError) as error:
        read(source, **options)
    return error.value


def test_the_two_examples_of_the_format_are_read(root: Path) -> None:
    """Both example plans are read, with the sizes their text says."""
    head = read(root / "examples" / "head-to-head.plan.json")
    assert (head.world_size, head.actions) == (2, 4)
    mesh = read(root / "examples" / "mesh-3d.plan.json")
    assert (mesh.world_size, mesh.actions) == (16, 336)
    assert [mesh.length(rank) for rank in (0, 4, 15)] == [17, 25, 17]


@pytest.mark.parametrize("name", ["head-to-head", "mesh-3d", "every-op", "later"])
def test_a_written_plan_reads_back_equal(root: Path, name: str) -> None:
    """Writing and reading again changes nothing, for every operation and every top-level field."""
    before = read(root / "examples" / f"{name}.plan.json")
    text = write(before)
    after = read(text)
    assert after.document == before.document
    assert write(after) == text


def test_every_operation_of_the_format_stands_in_an_example(root: Path) -> None:
    """No operation is left out of the round trip above."""
    from planguard.plan.nodes import OP_CLASSES

    text = "".join(
        (root / "examples" / f"{name}.plan.json").read_text() for name in ("every-op", "later")
    )
    missing = [
        op for op in OP_CLASSES if f'"op": "{op}"' not in text and f'"op":"{op}"' not in text
    ]
    assert missing == []


def test_one_action_stands_on_one_line(root: Path) -> None:
    """The line of an action in a written file holds that action and no other; a batch is one."""
    source = read(root / "examples" / "mesh-3d.plan.json")
    text = write(source)
    again = read(text, file="out.plan.json")
    lines = text.decode().splitlines()
    for rank, action in ((0, 0), (0, 1), (0, 16), (5, 2), (15, 16)):
        line = lines[again.line_of(rank, action) - 1]
        assert line.count('"op":') == 1
        assert f'"op":"{again.action_at(rank, action).op}"' in line


def test_gzip_is_recognized_by_its_content(tmp_path: Path) -> None:
    """A compressed plan is read under any name, also when it has several members."""
    text = json.dumps(plan(SEND)).encode()
    path = tmp_path / "x.json"
    path.write_bytes(gzip.compress(text[:20]) + gzip.compress(text[20:]))
    assert read(path).length(0) == 1


def test_extension_fields_are_ignored_everywhere() -> None:
    """Fields that start with x- change nothing, in the top level, in actions, in nested records."""
    plain = plan({**SEND, "src": ["a.py", 1, "f"]}, producer={"tool": "t"})
    marked = json.loads(json.dumps(plain))
    marked["x-expect"] = {"outcome": "DEADLOCK", "deep": [[{"x-y": 1}]]}
    marked["producer"]["x-a"] = None
    marked["ranks"]["0"]["x-note"] = 1
    marked["ranks"]["0"]["actions"][0]["x-b"] = {"k": 2**70}
    assert read(marked).document == read(plain).document


def test_names_of_the_plan_may_start_with_x() -> None:
    """Only fields are extensions: a group, template or tensor called x-... is kept."""
    text = plan({"op": "all_reduce", "group": "x-g", "tensor": "x-t"}, **{"x-z": 0})
    text["groups"] = {"x-g": {"ranks": [0]}}
    text["tensors"] = {"x-t": {"shape": [2], "dtype": "f32"}}
    text["templates"] = {"x-p": []}
    text["ranks"]["1"] = {"template": "x-p"}
    assert [group.name for group in read(text).groups] == ["world", "x-g"]


@pytest.mark.parametrize(
    ("change", "code", "path", "hint"),
    [
        ({"asnyc": True}, "PG906", "$.ranks.0.actions[0].asnyc", ""),
        ({"pear": 1}, "PG906", "$.ranks.0.actions[0].pear", "peer"),
        ({"op": "sned"}, "PG901", "$.ranks.0.actions[0].op", "send"),
        ({"op": None}, "PG901", "$.ranks.0.actions[0].op", ""),
        ({"peer": "one"}, "PG901", "$.ranks.0.actions[0].peer", ""),
        ({"peer": "any"}, "PG901", "$.ranks.0.actions[0].peer", "any source"),
        ({"peer": True}, "PG901", "$.ranks.0.actions[0].peer", ""),
        ({"peer": 1.5}, "PG901", "$.ranks.0.actions[0].peer", ""),
        ({"peer": -1}, "PG901", "$.ranks.0.actions[0].peer", ""),
        ({"peer": 2}, "PG402", "$.ranks.0.actions[0].peer", "global rank"),
        ({"peer": {"pp": 1}}, "PG411", "$.ranks.0.actions[0].peer", "mesh"),
        ({"tag": "any"}, "PG901", "$.ranks.0.actions[0].tag", "any tag"),
        ({"tag": 2**31}, "PG901", "$.ranks.0.actions[0].tag", ""),
        ({"group": "worldx"}, "PG901", "$.ranks.0.actions[0].group", "world"),
        ({"dtype": "fp32"}, "PG901", "$.ranks.0.actions[0].dtype", ""),
        ({"count": -1}, "PG901", "$.ranks.0.actions[0].count", ""),
        ({"count": 2**63}, "PG901", "$.ranks.0.actions[0].count", ""),
        ({"count": 2**62}, "PG901", "$.ranks.0.actions[0]", ""),
        ({"bytes": 5}, "PG901", "$.ranks.0.actions[0].bytes", "once"),
        ({"shape": [1]}, "PG901", "$.ranks.0.actions[0].shape", ""),
        ({"tensor": "w"}, "PG901", "$.ranks.0.actions[0].tensor", ""),
        ({"work": "w"}, "PG901", "$.ranks.0.actions[0].work", "isend"),
        ({"mode": "eager"}, "PG901", "$.ranks.0.actions[0].mode", ""),
        ({"src": ["a.py", "12"]}, "PG901", "$.ranks.0.actions[0].src[1]", ""),
        ({"id": ""}, "PG901", "$.ranks.0.actions[0].id", ""),
        ({"after": ["x"]}, "PG901", "$.ranks.0.actions[0].after", ""),
    ],
)
def test_a_defect_of_a_field_is_named_with_code_place_and_hint(
    change: dict[str, Any], code: str, path: str, hint: str
) -> None:
    """One defect in one field gives one error: its code, the JSON path, and a hint."""
    error = _refusal(plan({**SEND, **change}), file="f.plan.json")
    assert (error.code, error.path) == (code, path)
    assert error.file == "f.plan.json"
    assert error.hint
    assert hint in error.hint


@pytest.mark.parametrize(
    ("change", "code", "path"),
    [
        ({"schema": "planguard.plan/2"}, "PG901", "$.schema"),
        ({"world_size": 0}, "PG901", "$.world_size"),
        ({"world_size": 1}, "PG402", "$.ranks.1"),
        ({"world_size": 3}, "PG901", "$.ranks"),
        ({"world_size": 10**7}, "PG901", "$.world_size"),
        ({"world_sice": 2}, "PG906", "$.world_sice"),
        ({"model": "nvlink"}, "PG907", "$.model"),
        ({"mesh": {"dims": [["pp", 3]]}}, "PG411", "$.mesh.dims"),
        ({"mesh": {"dims": []}}, "PG411", "$.mesh.dims"),
        ({"mesh": {"dims": [["pp", 2], ["pp", 1]]}}, "PG411", "$.mesh.dims"),
        ({"mesh": {"dims": [["pp", 0], ["tp", 2]]}}, "PG901", "$.mesh.dims[0][1]"),
        ({"groups": {"g": {}}}, "PG901", "$.groups.g"),
        ({"groups": {"g": {"ranks": []}}}, "PG409", "$.groups.g.ranks"),
        ({"groups": {"g": {"ranks": [0, 0]}}}, "PG409", "$.groups.g.ranks"),
        ({"groups": {"g": {"ranks": [2]}}}, "PG402", "$.groups.g.ranks"),
        ({"groups": {"g": {"mesh_dims": ["tp"]}}}, "PG411", "$.groups.g.mesh_dims"),
        ({"groups": {"world": {"ranks": [1, 0]}}}, "PG409", "$.groups.world"),
        ({"groups": {"g": {"rank": [0]}}}, "PG906", "$.groups.g.rank"),
        (
            {"groups": {"g": {"ranks": [0], "created": 1}, "h": {"ranks": [1], "created": 1}}},
            "PG406",
            "$.groups.h.created",
        ),
        ({"ranks": {"0-1": {"template": "t"}}}, "PG901", "$.ranks.0-1.template"),
        ({"ranks": {"0-1": {}}}, "PG901", "$.ranks.0-1"),
        ({"ranks": {"0-1": {"actions": []}, "1": {"actions": []}}}, "PG901", "$.ranks.1"),
        ({"ranks": {"pp=0": {"actions": []}}}, "PG411", '$.ranks["pp=0"]'),
        ({"ranks": []}, "PG901", "$.ranks"),
        ({"tensors": {"w": {"shape": [-1], "dtype": "f32"}}}, "PG901", "$.tensors.w.shape[0]"),
        ({"fusion": [{"id": "f", "members": ["g"]}]}, "PG901", "$.fusion[0].members[0]"),
        ({"fusion": [{"id": "f", "members": [], "group": "g"}]}, "PG901", "$.fusion[0].group"),
        ({"fusion": [{"id": "f", "members": [], "cap": 1}]}, "PG906", "$.fusion[0].cap"),
        ({"topology": {"ranks": [{"rank": 2}]}}, "PG901", "$.topology.ranks[0].rank"),
        ({"topology": {"links": [{"src": 0, "dst": 5}]}}, "PG901", "$.topology.links[0]"),
        (
            {"approximations": [{"kind": "k", "message": "m", "actions": [[0, 5]]}]},
            "PG901",
            "$.approximations[0].actions[0]",
        ),
    ],
)
def test_a_defect_of_the_whole_is_named_with_code_and_place(
    change: dict[str, Any], code: str, path: str
) -> None:
    """Defects of the top level, groups, selectors and tables give their code and JSON path."""
    error = _refusal({**plan(), **change})
    assert (error.code, error.path) == (code, path)


def test_a_missing_field_is_named() -> None:
    """A plan without ranks, and an action without its peer, say which field is missing."""
    assert "`peer`" in _refusal(plan({"op": "send"})).message
    bare = plan()
    del bare["ranks"]
    assert "`ranks`" in _refusal(bare).message


def test_a_key_given_twice_is_refused_wherever_it_is() -> None:
    """Duplicate keys are found in records, in maps, in extensions and behind escapes."""
    text = json.dumps(plan(SEND))
    places = {
        text.replace('"peer": 1', '"peer": 1, "peer": 0'): "$.ranks.0.actions[0].peer",
        text.replace('"op": "send"', '"op": "send", "op": "send"'): "$.ranks.0.actions[0].op",
        text.replace('"1": {', '"0": {"actions": []}, "1": {'): "$.ranks.0",
        text.replace('"peer": 1', '"x-a": {"b": 1, "b": 1}, "peer": 1'): (
            "$.ranks.0.actions[0].x-a.b"
        ),
        text.replace('"peer": 1', '"peer": 1, "\\u0070eer": 0'): "$.ranks.0.actions[0].peer",
        text.replace('"peer": 1', '"label": "\\u003a", "peer": 1, "peer": 1'): (
            "$.ranks.0.actions[0].peer"
        ),
    }
    for changed, path in places.items():
        assert _refusal(changed.encode()).path == path


def test_colons_in_strings_are_no_keys() -> None:
    """Labels with colons, escaped colons and escaped backslashes before u003a are no duplicates."""
    for label in (r"a:b::c", r"\u003a", r"\u003A:", r"\\u003a", r"\"op\": 1"):
        text = json.dumps(plan(SEND)).replace('"peer": 1', f'"peer": 1, "label": "{label}"')
        assert read(text.encode()).action_at(0, 0).label == json.loads(f'"{label}"')


def test_limits_are_configurable() -> None:
    """World size, file size, nesting and actions are refused beyond the limit and not below."""
    nested: dict[str, Any] = {"op": "compute"}
    for _ in range(3):
        nested = {"op": "repeat", "times": 10, "body": [nested]}
    text = plan(nested)
    assert read(text, limits=Limits(nesting=3, actions=1000, world_size=2)).length(0) == 1000
    assert "nested" in _refusal(text, limits=Limits(nesting=2)).message
    assert "actions" in _refusal(text, limits=Limits(actions=999)).message
    assert "ranks" in _refusal(text, limits=Limits(world_size=1)).message
    size = len(json.dumps(text).encode())
    assert (
        "bytes" in _refusal(json.dumps(text).encode(), limits=Limits(file_bytes=size - 1)).message
    )


def test_a_file_that_cannot_be_read_is_a_plan_error(tmp_path: Path) -> None:
    """A missing file, a directory and an impossible name give PlanError with the name."""
    for source in (tmp_path / "missing.json", tmp_path, "a\0b"):
        assert _refusal(source).file == str(source)


def test_objects_in_memory_are_read_as_strictly_as_text() -> None:
    """NaN, foreign objects, cycles and sizes beyond 2^63 in a dict are refused."""
    cyclic = plan()
    cyclic["x-self"] = cyclic
    for bad in (
        cyclic,
        plan({"op": "compute", "duration_us": float("nan")}),
        plan({"op": "compute", "duration_us": float("inf")}),
        plan({**SEND, "count": 10**30}),
        plan({**SEND, "label": object()}),
    ):
        _refusal(bad)


def test_the_ledger_of_a_producer_survives() -> None:
    """Approximations in the file become approximations of the plan."""
    entry = {"kind": "dynamic-shape", "message": "m", "direction": "over", "actions": [[0, 0]]}
    source = read(plan(SEND, approximations=[entry]))
    (approximation,) = source.approximations
    assert (approximation.kind, approximation.direction) == ("dynamic-shape", "over")
    assert approximation.actions == ((0, 0),)
    assert read(write(source)).approximations == source.approximations
