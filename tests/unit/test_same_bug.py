"""One two-rank bug, told by five inputs and by every output format."""

from __future__ import annotations

import gzip
import json

import pytest

import planguard
from planguard.cli import main


def document():
    """A plan in which both ranks send before they receive, after one good exchange."""

    def program(peer, *, first):
        good = [
            {"op": "send", "peer": peer, "bytes": 64},
            {"op": "recv", "peer": peer, "bytes": 64},
        ]
        bad = [{"op": "send", "peer": peer, "bytes": 64}, {"op": "recv", "peer": peer, "bytes": 64}]
        return {"actions": [*(good if first else good[::-1]), *bad]}

    return {
        "schema": "planguard.plan/1",
        "world_size": 2,
        "ranks": {"0": program(1, first=True), "1": program(0, first=False)},
    }


def as_file(tmp_path):
    """A plan file."""
    path = tmp_path / "bug.plan.json"
    path.write_text(json.dumps(document()), encoding="utf-8")
    return path


def as_gzip(tmp_path):
    """A gzipped plan file."""
    path = tmp_path / "bug.plan.json.gz"
    path.write_bytes(gzip.compress(json.dumps(document()).encode()))
    return path


def as_dict(_tmp_path):
    """The decoded document."""
    return document()


def as_templates(tmp_path):
    """The bad half as a template that both ranks of a mesh run with relative peers."""
    plan = document()
    plan["mesh"] = {"dims": [["pp", 2]]}
    hop = {"op": "send", "peer": {"pp": 1, "wrap": True}, "bytes": 64}
    back = {"op": "recv", "peer": {"pp": 1, "wrap": True}, "bytes": 64}
    plan["templates"] = {"first": [hop, back, hop, back], "second": [back, hop, hop, back]}
    plan["ranks"] = {"pp=0": {"template": "first"}, "pp=1": {"template": "second"}}
    path = tmp_path / "mesh.plan.json"
    path.write_text(json.dumps(plan), encoding="utf-8")
    return path


def as_builder(_tmp_path):
    """A plan made in memory."""
    builder = planguard.PlanBuilder(2)
    for rank, order in enumerate(("send recv send recv", "recv send send recv")):
        program = builder.program([rank])
        for op in order.split():
            program.add(op, peer=1 - rank, bytes=64)
    return builder.build()


INPUTS = [as_file, as_gzip, as_dict, as_templates, as_builder]


@pytest.mark.parametrize("make", INPUTS)
def test_five_inputs_name_the_same_action_and_code(make, tmp_path):
    """A plan file, a gzipped one, a dict, mesh templates and the builder find one bug."""
    verdict = planguard.check(make(tmp_path), model="nccl")
    (finding,) = verdict.errors
    assert (finding.code, finding.ranks) == ("PG001", (0, 1))
    places = {(edge.at.rank, edge.at.action, edge.at.op) for edge in finding.cycle}
    assert places == {(0, 2, "send"), (1, 2, "send")}


@pytest.mark.parametrize(
    "format_", ["text", "concise", "json", "jsonl", "sarif", "github", "gitlab", "junit"]
)
def test_every_output_names_the_code_and_both_ranks(format_, tmp_path, capsys):
    """Whatever the format: the code, the two ranks and exit code 1."""
    assert main(["check", str(as_file(tmp_path)), "--format", format_]) == 1
    printed = capsys.readouterr().out
    assert "PG001" in printed
    assert "ranks 0 and 1 wait in send()" in " ".join(printed.split())
