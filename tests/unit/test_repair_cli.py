"""``planguard check --repair`` and ``--fix``."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from planguard.cli import main


def pair(**fields: Any) -> dict[str, Any]:
    """Head-to-head sends."""
    ranks = {
        str(rank): {
            "actions": [
                {"op": "send", "peer": 1 - rank, "bytes": 4},
                {"op": "recv", "peer": 1 - rank, "bytes": 4},
            ]
        }
        for rank in (0, 1)
    }
    return {"schema": "planguard.plan/1", "world_size": 2, "ranks": ranks, **fields}


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """A function that runs ``planguard check`` in an empty folder."""
    monkeypatch.chdir(tmp_path)
    Path("pair.plan.json").write_text(json.dumps(pair(), indent=1), encoding="utf-8")

    def call(*words: str) -> tuple[int, str, str]:
        code = main(["check", *words, "--no-config"])
        said = capsys.readouterr()
        return code, said.out, said.err

    return call


def test_repair_shows_and_writes_nothing(run) -> None:
    """--repair prints the verified change and how to write it; the folder stays as it was."""
    code, out, err = run("pair.plan.json", "--repair")
    assert code == 1
    assert "verified" in out
    assert "(not verified)" not in out
    assert "planguard check --fix pair.plan.json" in err
    assert [path.name for path in Path().iterdir()] == ["pair.plan.json"]


def test_fix_writes_a_safe_plan_beside_the_other(run) -> None:
    """--fix writes PLAN.fixed.plan.json, which passes; the plan itself and the verdict stay."""
    before = Path("pair.plan.json").read_bytes()
    code, out, err = run("pair.plan.json", "--fix")
    assert code == 1
    assert "verdict: DEADLOCK" in out
    assert "wrote pair.fixed.plan.json" in err
    assert Path("pair.plan.json").read_bytes() == before
    assert run("pair.fixed.plan.json")[0] == 0


def test_nothing_is_written_over_without_force(run) -> None:
    """An existing file is an error before anything is checked, with --force it is replaced."""
    Path("pair.fixed.plan.json").write_text("mine", encoding="utf-8")
    code, out, err = run("pair.plan.json", "--fix")
    assert (code, out) == (2, "")
    assert "--force" in err
    assert Path("pair.fixed.plan.json").read_text(encoding="utf-8") == "mine"
    assert run("pair.plan.json", "--fix", "--force")[0] == 1
    assert run("pair.fixed.plan.json")[0] == 0


def test_the_plan_itself_is_never_replaced(run) -> None:
    """-o plan=FILE does not change the plan in place, with or without --force."""
    before = Path("pair.plan.json").read_bytes()
    for force in ((), ("--force",)):
        assert run("pair.plan.json", "--fix", "-o", "plan=pair.plan.json", *force)[0] == 2
    assert Path("pair.plan.json").read_bytes() == before


@pytest.mark.parametrize(
    "words",
    [
        ("pair.plan.json", "-o", "plan=x.json"),
        ("pair.plan.json", "--repair", "-o", "plan=x.json"),
        ("pair.plan.json", "pair.plan.json", "--fix", "-o", "plan=x.json"),
    ],
)
def test_a_plan_output_without_one_plan_to_fix_is_refused(run, words) -> None:
    """-o plan=FILE needs --fix and one plan."""
    code, _, err = run(*words)
    assert code == 2
    assert "one plan and --fix" in err
    assert not Path("x.json").exists()


def test_all_sizes_at_once_are_not_repaired(run) -> None:
    """--for-all decides a stand-in of the plan; a repair of that one would not be of the file."""
    code, _, err = run("pair.plan.json", "--repair", "--for-all", "dp")
    assert code == 2
    assert "--for-all" in err


def test_a_compressed_plan_gives_a_compressed_repair(run) -> None:
    """PLAN.plan.json.gz becomes PLAN.fixed.plan.json.gz."""
    text = json.dumps(pair()).encode()
    Path("z.plan.json.gz").write_bytes(gzip.compress(text))
    assert run("z.plan.json.gz", "--fix")[0] == 1
    assert Path("z.fixed.plan.json.gz").read_bytes()[:2] == b"\x1f\x8b"
    assert run("z.fixed.plan.json.gz")[0] == 0


def test_a_safe_plan_and_a_hopeless_one_write_nothing(run) -> None:
    """Without a repair no file appears, and the finding says what was tried."""
    lonely = pair()
    lonely["ranks"]["1"]["actions"] = []
    Path("lonely.plan.json").write_text(json.dumps(lonely), encoding="utf-8")
    code, out, _ = run("lonely.plan.json", "--fix")
    assert code == 1
    assert "no single edit" in " ".join(out.split())
    run("pair.plan.json", "--fix")
    assert run("pair.fixed.plan.json", "--fix")[0] == 0
    assert {path.name for path in Path().iterdir()} == {
        "pair.plan.json",
        "pair.fixed.plan.json",
        "lonely.plan.json",
    }


def test_json_and_library_agree(run) -> None:
    """``check(..., fix=True)`` fills the same fixes as --repair writes into the result."""
    import planguard

    _, out, _ = run("pair.plan.json", "--repair", "--format", "json")
    (fix,) = json.loads(out)["findings"][0]["fixes"]
    (repair,) = planguard.check("pair.plan.json", fix=True).findings[0].fixes
    assert fix["text"] == repair.text
    assert fix["models"] == ["nccl"]
    assert [edit["pointer"] for edit in fix["edits"]] == [edit.pointer for edit in repair.edits]


def test_a_foreign_file_is_repaired_into_a_plan_file(run) -> None:
    """What an adapter read is written as a plan file; the repair is said in words."""
    rows = ["0F0,0F1,0B0,0B1", "1F0,1F1,1B1,1B0"]
    Path("bad.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    code, out, err = run("bad.csv", "--fix", "--planner", "pipelining", "--model", "gloo")
    assert code in {0, 1}, err
    if code == 1 and "verified" in out:
        assert run("bad.fixed.plan.json", "--model", "gloo")[0] == 0
