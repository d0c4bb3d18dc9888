"""planguard convert and planguard schema."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING

import pytest

from planguard.cli import main
from planguard.plan.format import read

if TYPE_CHECKING:
    from pathlib import Path


def test_convert_writes_a_plan_and_says_so(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The file reads back equal; stdout stays empty and stderr names the file and the next step."""
    source, target = root / "examples" / "mesh-3d.plan.json", tmp_path / "out.plan.json"
    assert main(["convert", str(source), "-o", str(target)]) == 0
    assert read(target).document == read(source).document
    out, err = capsys.readouterr()
    assert out == ""
    assert str(target) in err
    assert "planguard check" in err


def test_convert_prints_without_an_output(
    root: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    """Without -o the plan goes to standard output."""
    source = root / "examples" / "head-to-head.plan.json"
    assert main(["convert", str(source)]) == 0
    assert read(capfdbinary.readouterr().out).document == read(source).document


def test_convert_flat_leaves_nothing_to_expand(root: Path, tmp_path: Path) -> None:
    """--flat writes one explicit program per rank and no symbolic construct."""
    target = tmp_path / "flat.plan.json"
    source = root / "examples" / "mesh-3d.plan.json"
    assert main(["convert", str(source), "-o", str(target), "--flat"]) == 0
    plan = json.loads(target.read_text())
    assert "templates" not in plan
    assert all("ranks" in group for group in plan["groups"].values())
    assert sorted(plan["ranks"], key=int) == [str(rank) for rank in range(16)]
    actions = [action for use in plan["ranks"].values() for action in use["actions"]]
    assert len(actions) == 336
    assert not any(action["op"] == "repeat" for action in actions)
    assert all(isinstance(action.get("peer", 0), int) for action in actions)


def test_compressed_output_is_reproducible(root: Path, tmp_path: Path) -> None:
    """A .gz output is gzip, and equal plans give equal bytes."""
    source = root / "examples" / "mesh-3d.plan.json"
    targets = [tmp_path / "a.plan.json.gz", tmp_path / "b.plan.json.gz"]
    for target in targets:
        assert main(["convert", str(source), "-o", str(target)]) == 0
    first, second = (target.read_bytes() for target in targets)
    assert first == second
    assert json.loads(gzip.decompress(first))["world_size"] == 16


def test_existing_files_are_kept_without_force(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An existing file, or a dangling link, is left alone (exit 2); --force replaces it."""
    source, target = root / "examples" / "head-to-head.plan.json", tmp_path / "out.plan.json"
    target.write_text("mine")
    assert main(["convert", str(source), "-o", str(target)]) == 2
    assert target.read_text() == "mine"
    assert "--force" in capsys.readouterr().err
    link = tmp_path / "link.plan.json"
    link.symlink_to(tmp_path / "nowhere")
    assert main(["convert", str(source), "-o", str(link)]) == 2
    assert not (tmp_path / "nowhere").exists()
    assert main(["convert", str(source), "-o", str(target), "--force"]) == 0
    assert read(target).world_size == 2


def test_a_refused_plan_leaves_no_file(tmp_path: Path) -> None:
    """A bad plan is exit code 2 and writes nothing, not even a temporary file."""
    bad = tmp_path / "bad.plan.json"
    bad.write_text("{")
    target = tmp_path / "out.plan.json"
    assert main(["convert", str(bad), "-o", str(target)]) == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bad.plan.json"]


def test_a_place_that_cannot_be_written_is_a_usage_error(root: Path, tmp_path: Path) -> None:
    """A missing output folder is exit code 2."""
    source = root / "examples" / "head-to-head.plan.json"
    assert main(["convert", str(source), "-o", str(tmp_path / "no" / "out.json")]) == 2


@pytest.mark.parametrize("what", ["plan", "result"])
def test_schema_prints_a_json_schema(what: str, capsys: pytest.CaptureFixture[str]) -> None:
    """planguard schema prints draft 2020-12 for plans and results."""
    assert main(["schema", what]) == 0
    schema = json.loads(capsys.readouterr().out)
    assert schema["$schema"].endswith("2020-12/schema")
    assert schema["title"] == f"planguard.{what}/1"
