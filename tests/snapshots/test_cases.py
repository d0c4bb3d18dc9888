"""Diagnostics of plans that are larger, stranger or more than one."""

from __future__ import annotations

import io
import json
import re
import sys
from typing import Any

import pytest

from planguard.cli import main

SCHEMA = "planguard.plan/1"
HOSTILE = "g\x1b[31m\u202egrad\x07"
LONG = "decoder.layers." + "x" * 200 + ".weight"


def act(op: str, /, *, line: int | None = None, **fields: Any) -> dict[str, Any]:
    """One action; with a line, it comes from ``schedule.py``."""
    source = {} if line is None else {"src": ["schedule.py", line, "emit_1f1b"]}
    return {"op": op, **fields, **source}


def plan(ranks: dict[str, list[dict[str, Any]]], **fields: Any) -> dict[str, Any]:
    """A plan with one explicit program per selector."""
    programs = {selector: {"actions": actions} for selector, actions in ranks.items()}
    size = 1 + max(int(part) for key in ranks for part in key.replace("-", ",").split(","))
    return {"schema": SCHEMA, "world_size": size, "ranks": programs, **fields}


def exchange(peer: int, line: int) -> list[dict[str, Any]]:
    """A stage that sends before it receives."""
    going, coming = ("act_s1_s2", "grad_s2_s1") if peer else ("grad_s2_s1", "act_s1_s2")
    return [
        act("compute", op_name="fwd layer23", mb=3, line=line - 1),
        act("send", peer=peer, label=going, count=2097152, dtype="f16", line=line),
        act("recv", peer=peer, label=coming, count=2097152, dtype="f16", line=line + 1),
        act("compute", op_name="bwd layer23", mb=3, line=line + 2),
    ]


def folded() -> dict[str, Any]:
    """Four pairs of ranks with the same bug."""
    mesh = {"dims": [["pair", 4], ["side", 2]]}
    groups = {"pair": {"mesh_dims": ["side"]}}
    size = {"count": 16, "dtype": "f32", "group": "pair"}
    low = [act("send", peer={"side": 1}, **size), act("recv", peer={"side": 1}, **size)]
    high = [act("send", peer={"side": -1}, **size), act("recv", peer={"side": -1}, **size)]
    return {
        "schema": SCHEMA,
        "world_size": 8,
        "mesh": mesh,
        "groups": groups,
        "templates": {"low": low, "high": high},
        "ranks": {"side=0": {"template": "low"}, "side=1": {"template": "high"}},
    }


def ring(size: int) -> dict[str, Any]:
    """Every rank sends to the next before it receives from the one before."""
    steps = {
        str(rank): [
            act("send", peer=(rank + 1) % size, bytes=4),
            act("recv", peer=(rank - 1) % size, bytes=4),
        ]
        for rank in range(size)
    }
    return plan(steps)


def inversion() -> dict[str, Any]:
    """Ranks 0-3 use tp before dp, ranks 4-7 the other way round."""
    everyone = {"ranks": list(range(8))}
    reduce = act("all_reduce", group="tp", count=1024, dtype="bf16", line=10)
    gather = act("all_gather", group="dp", count=1024, dtype="bf16", line=20)
    ranks = {"0-3": [reduce, gather], "4-7": [gather, reduce]}
    return plan(ranks, groups={"tp": everyone, "dp": everyone})


def absent() -> dict[str, Any]:
    """Rank 7 of eight makes one call fewer than all others."""
    call = act("all_reduce", count=8388608, dtype="bf16", line=418)
    return plan({"0-6": [call, call, call], "7": [call, call]})


def odd() -> dict[str, Any]:
    """One of nine ranks calls another collective."""
    reduce = act("all_reduce", count=4, dtype="f32", line=7)
    gather = act("all_gather", count=4, dtype="f32", line=9)
    return plan({"0-5,7-8": [reduce], "6": [gather]})


def hostile() -> dict[str, Any]:
    """Names that a terminal would obey, and names that are too long."""
    ranks = {
        str(rank): [
            act("send", peer=1 - rank, bytes=4, group=HOSTILE, label=LONG),
            act("recv", peer=1 - rank, bytes=4, group=HOSTILE, label=LONG),
        ]
        for rank in (0, 1)
    }
    return plan(ranks, groups={HOSTILE: {"ranks": [0, 1]}}, name="\x1b]0;owned\x07")


def batches() -> dict[str, Any]:
    """Batches of many members whose halves wait for each other."""

    def one(op: str, peer: int) -> dict[str, Any]:
        members = [act(op, peer=peer, count=1, dtype="f32", label=f"t{i}") for i in range(6)]
        return act("batch", ops=members)

    return plan({"0": [one("isend", 1), one("irecv", 1)], "1": [one("isend", 0), one("irecv", 0)]})


def eager(size: int) -> dict[str, Any]:
    """Head-to-head sends of a size."""
    return plan(
        {
            str(rank): [
                act("send", peer=1 - rank, bytes=size),
                act("recv", peer=1 - rank, bytes=size),
            ]
            for rank in (0, 1)
        }
    )


def safe() -> dict[str, Any]:
    """One rank sends, the other receives; the ledger says what is left out."""
    ledger = [{"kind": "unsharded", "message": "stages are taken as unsharded"}]
    ranks = {"0": [act("send", peer=1, bytes=4)], "1": [act("recv", peer=0, bytes=4)]}
    return plan(ranks, approximations=ledger)


def undecided() -> dict[str, Any]:
    """A receive from any source."""
    return plan(
        {
            "0": [act("recv", peer="any", bytes=4), act("recv", peer="any", bytes=4)],
            "1": [act("send", peer=0, bytes=4)],
            "2": [act("send", peer=0, bytes=4)],
        }
    )


CASES: dict[str, tuple[dict[str, dict[str, Any]], tuple[str, ...]]] = {
    "source": ({"gpt2.plan.json": plan({"0": exchange(1, 212), "1": exchange(0, 340)})}, ()),
    "source-gloo": (
        {"gpt2.plan.json": plan({"0": exchange(1, 212), "1": exchange(0, 340)})},
        ("--model", "gloo"),
    ),
    "folded": ({"pairs.plan.json": folded()}, ()),
    "ring-4": ({"ring.plan.json": ring(4)}, ()),
    "ring-9": ({"ring.plan.json": ring(9)}, ()),
    "inversion": ({"mesh.plan.json": inversion()}, ()),
    "absent": ({"step.plan.json": absent()}, ()),
    "odd-one": ({"odd.plan.json": odd()}, ()),
    "hostile-names": ({"names.plan.json": hostile()}, ()),
    "batches": ({"batches.plan.json": batches()}, ()),
    "eager-small": ({"small.plan.json": eager(4096)}, ("--model", "mpi-eager")),
    "eager-large": ({"large.plan.json": eager(1 << 22)}, ("--model", "mpi-eager")),
    "all-models": ({"pair.plan.json": eager(4096)}, ("--model", "all")),
    "safe": ({"safe.plan.json": safe()}, ()),
    "unknown": ({"any.plan.json": undecided()}, ("--model", "nccl")),
    "several": (
        {
            "safe.plan.json": safe(),
            "ring.plan.json": ring(3),
            "any.plan.json": undecided(),
            "broken.plan.json": {"schema": SCHEMA, "world_size": 2, "rank": {}},
        },
        (),
    ),
    "concise": (
        {
            "safe.plan.json": safe(),
            "source.plan.json": plan({"0": exchange(1, 212), "1": exchange(0, 340)}),
            "any.plan.json": undecided(),
            "broken.plan.json": {"schema": SCHEMA, "world_size": 2, "rank": {}},
        },
        ("--format", "concise"),
    ),
    "quiet": ({"ring.plan.json": ring(3)}, ("--quiet",)),
    "missing-file": ({}, ("nowhere.plan.json",)),
}


@pytest.mark.parametrize("name", list(CASES))
def test_text_of_case(name: str, shell, snapshot) -> None:
    """Each case prints its golden text."""
    plans, arguments = CASES[name]
    snapshot(f"cases/{name}.txt", shell(plans, *arguments))


def test_text_of_suppressed_and_stale_findings(shell, snapshot) -> None:
    """PG908 counts what a baseline accepts, PG909 names what it accepts in vain."""
    known = {"pair.plan.json": eager(4)}
    shell(known, "--write-baseline", "known.json")
    snapshot("cases/suppressed.txt", shell(known, "--baseline", "known.json"))
    repaired = {"pair.plan.json": safe()}
    snapshot("cases/stale.txt", shell(repaired, "--baseline", "known.json"))


def test_color_changes_nothing_but_color(shell) -> None:
    """Colored text without its escape sequences is the plain text."""
    plans, arguments = CASES["several"]
    plain = shell(plans, *arguments)
    colored = shell(plans, *arguments, "--color", "always")

    assert "\x1b[" in colored
    assert "\x1b[" not in plain
    stripped = re.sub(r"\x1b\[[0-9;]*m", "", colored).replace(" --color always", "")
    assert stripped == plain


def words_of(text: str) -> str:
    """A text without line breaks, bars, the backslashes of broken commands, and the verdict line,
    which leaves out what has no room.
    """
    kept = [line for line in text.splitlines() if not line.startswith("verdict:")]
    return "".join("\n".join(kept).translate({ord(c): " " for c in "|\\"}).split())


@pytest.mark.parametrize("width", [40, 60, 80, 100, 120])
def test_text_adapts_to_the_width(width: int, shell, monkeypatch) -> None:
    """At any width the words are the same; only single words may be longer than a line."""
    plans, arguments = CASES["source"]
    monkeypatch.setenv("COLUMNS", str(width))
    text = shell(plans, *arguments)
    monkeypatch.setenv("COLUMNS", "80")
    usual = shell(plans, *arguments)

    assert words_of(text) == words_of(usual)
    for word in ("PG001", "rank 0, action 1", "schedule.py:212", "r0#1", "r1#1"):
        assert word in text
    assert all(len(line) <= width or len(line.split()) <= 4 for line in text.splitlines()[1:])


def test_quiet_prints_one_line(shell) -> None:
    """--quiet prints the verdict line and nothing else."""
    plans, arguments = CASES["quiet"]
    _, *lines, _, code = shell(plans, *arguments).splitlines()
    assert lines == ["verdict: DEADLOCK   model nccl   evidence 5 deterministic runs"]
    assert code == "1"


def test_ascii_terminals_get_ascii(monkeypatch, tmp_path) -> None:
    """Where the terminal is not UTF-8, names beyond ASCII are escaped instead of refused."""
    named = plan({"0": [act("send", peer=1, bytes=4)], "1": []}, name="plan")
    path = tmp_path / "pl\u00e4ne.plan.json"
    path.write_text(json.dumps(named), encoding="utf-8")
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="ascii"))
    assert main(["check", str(path), "--no-config"]) == 1
    sys.stdout.flush()
    assert b"pl\\xe4ne.plan.json" in raw.getvalue()
