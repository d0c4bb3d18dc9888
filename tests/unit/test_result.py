"""The result file: what is written validates against its schema and reads back as it was."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planguard.errors import PlanError, UsageError
from planguard.result import (
    dumps,
    error_to_json,
    fingerprint,
    result_schema,
    verdict_from_json,
    verdict_to_json,
)
from planguard.verdict import (
    Approximation,
    CycleEdge,
    Edit,
    Evidence,
    Finding,
    Location,
    Outcome,
    PlanInfo,
    Repair,
    SafeIff,
    Source,
    Stats,
    Verdict,
    Witness,
    WitnessStep,
)

VALIDATOR = jsonschema.Draft202012Validator(result_schema())

ranks = st.integers(0, 40)
actions = st.integers(0, 10**6)
places = st.tuples(ranks, actions)
names = st.text(max_size=8)
maybe_name = st.none() | names


def tuples(values: st.SearchStrategy[Any], size: int = 3) -> st.SearchStrategy[tuple[Any, ...]]:
    """Draw tuples of values."""
    return st.lists(values, max_size=size).map(tuple)


sources = st.builds(Source, names, st.none() | st.integers(1, 999), maybe_name)
locations = st.builds(
    Location,
    rank=ranks,
    action=actions,
    id=maybe_name,
    source=st.none() | sources,
    text=names,
    pointer=maybe_name,
    op=st.sampled_from(["", "send", "all_reduce"]),
    member=st.none() | ranks,
)
WHY = ["send-unmatched", "collective-incomplete", "exited", "dependency"]


@st.composite
def cycles(draw: st.DrawFn) -> tuple[CycleEdge, ...]:
    """Draw a cycle as the engine makes it: what a rank is stuck behind is the next edge's place."""
    unique = st.lists(locations, max_size=4, unique_by=lambda at: (at.rank, at.action))
    stuck = draw(unique)
    edges = []
    for place, at in enumerate(stuck):
        behind = stuck[(place + 1) % len(stuck)]
        goal = Location(behind.rank, draw(actions), op="recv")
        ended = draw(st.booleans())
        edges.append(
            CycleEdge(at, goal, None if ended else behind, draw(st.sampled_from(WHY)))
            if draw(st.booleans())
            else CycleEdge(at, None, None, "exited")
        )
    return tuple(edges)


witnesses = st.builds(
    Witness,
    id=names,
    encoded=names,
    minimal=st.booleans(),
    steps=tuples(
        st.builds(WitnessStep, actions, ranks, actions, st.sampled_from(["issue", "flush", "wait"]))
    ),
    blocked=tuples(places),
    actions=tuples(places),
    end=st.sampled_from(["stuck", "mismatch"]),
)
edits = st.builds(
    Edit, names, st.sampled_from(["add", "remove", "replace"]), st.none() | st.integers(), names
)
repairs = st.builds(
    Repair, names, st.sampled_from(["verified", "unverified"]), tuples(edits), names
)
measures = st.fixed_dictionaries(
    {
        "value": st.floats(0, 9),
        "threshold": st.floats(0, 9),
        "unit": names,
        "basis": st.sampled_from(["measured", "modeled"]),
    }
)
suppressions = st.fixed_dictionaries({"by": st.just("baseline"), "reason": names})


@st.composite
def findings(draw: st.DrawFn) -> Finding:
    """Draw a finding whose locations agree: one action has one source and one text."""
    cycle = draw(cycles())
    known = [edge.at for edge in cycle]
    places = st.sampled_from(known) if known else locations
    return Finding(
        code=draw(st.sampled_from(["PG001", "PG202", "PG610"])),
        name=draw(names),
        severity=draw(st.sampled_from(["error", "warning", "note"])),
        certainty=draw(st.sampled_from(["all-executions", "some-execution", "heuristic"])),
        evidence=draw(st.sampled_from(["P", "P~"])),
        message=draw(names),
        ranks=draw(tuples(ranks)),
        primary=draw(st.none() | places),
        related_actions=draw(tuples(places)),
        cycle=cycle,
        subkind=draw(maybe_name),
        witness=draw(st.none() | witnesses),
        equivalent=draw(tuples(tuples(ranks))),
        consequences=draw(tuples(names)),
        related=draw(tuples(st.sampled_from(["PG001", "PG101"]))),
        fixes=draw(tuples(repairs)),
        notes=draw(tuples(names)),
        help=draw(names),
        measured=draw(st.none() | measures),
        suppressed=draw(st.none() | suppressions),
        fingerprint=draw(names),
    )


conditions = (
    st.builds(SafeIff, st.just("send-buffering"), bytes=st.integers(1, 2**40))
    | st.builds(SafeIff, st.just("launch-order"), groups=tuples(names))
    | st.builds(SafeIff, st.just("fusion-order"), buffers=tuples(names))
    | st.builds(SafeIff, st.just("batching"), actions=tuples(places))
)
verdicts = st.builds(
    Verdict,
    outcome=st.sampled_from(Outcome),
    model=names,
    findings=tuples(findings()),
    complete=st.booleans(),
    models=st.dictionaries(names, st.sampled_from(Outcome), max_size=3),
    model_codes=st.dictionaries(names, tuples(names), max_size=2),
    safe_iff=tuples(conditions),
    evidence=st.builds(
        Evidence,
        st.sampled_from(["execution", "proof"]),
        st.sampled_from([("deterministic",), ("rounds", "smt")]),
        st.sampled_from(["fast", "smt"]),
        actions,
        actions,
        st.floats(0, 9),
        maybe_name,
    ),
    proved=tuples(names),
    assumptions=tuples(names),
    approximations=tuples(
        st.builds(
            Approximation,
            names,
            names,
            st.sampled_from(["over", "under", "exact"]),
            tuples(places),
            names,
            st.booleans(),
        )
    ),
    reasons=tuples(names),
    core=tuples(places),
    plan=st.builds(PlanInfo, maybe_name, maybe_name, maybe_name, maybe_name, maybe_name),
    stats=st.builds(Stats, ranks, actions, ranks, ranks, st.floats(0, 9)),
    native=st.booleans(),
)


@settings(max_examples=150, deadline=None)
@given(verdicts)
def test_round_trip(verdict: Verdict) -> None:
    """A verdict written as JSON text reads back equal."""
    assert verdict_from_json(json.loads(dumps(verdict_to_json(verdict)))) == verdict


@settings(max_examples=40, deadline=None)
@given(verdicts)
def test_what_is_written_satisfies_the_schema(verdict: Verdict) -> None:
    """A verdict written as JSON text validates against the schema; validation is the slow part."""
    VALIDATOR.validate(json.loads(dumps(verdict_to_json(verdict))))


def deadlock() -> Verdict:
    """Return the head-to-head send of the reference page."""
    first = Location(5, 1284, id="a1284", source=Source("schedule.py", 212, "emit_1f1b"))
    second = Location(6, 1283)
    finding = Finding(
        code="PG001",
        name="p2p-deadlock",
        severity="error",
        certainty="all-executions",
        evidence="P",
        message="point-to-point deadlock: ranks 5 and 6 wait in send() for each other",
        ranks=(5, 6),
        primary=first,
        related_actions=(second,),
        cycle=(
            CycleEdge(first, Location(6, 1284), second, "send-unmatched"),
            CycleEdge(second, Location(5, 1285), first, "send-unmatched"),
        ),
        equivalent=((1, 2),),
    )
    return Verdict(
        Outcome.DEADLOCK,
        "nccl",
        findings=(finding,),
        safe_iff=(SafeIff("send-buffering", bytes=4194304),),
        stats=Stats(16, 80000, 34, 3, 412.0),
    )


def test_shape() -> None:
    """A deadlock has the documented fields: numbers raw, the cycle as waits_for and behind."""
    document = verdict_to_json(deadlock())
    finding = document["findings"][0]

    assert document["schema"] == "planguard.result/1"
    assert document["outcome"] == "DEADLOCK"
    assert document["evidence"]["route"] == "deterministic"
    assert document["safe_iff"] == [{"kind": "send-buffering", "bytes": 4194304}]
    assert finding["primary"] == {
        "rank": 5,
        "action": 1284,
        "id": "a1284",
        "source": {"file": "schedule.py", "line": 212, "function": "emit_1f1b"},
    }
    assert finding["related_actions"] == [{"rank": 6, "action": 1283}]
    assert finding["cycle"][1] == {
        "rank": 6,
        "action": 1283,
        "waits_for": {"rank": 5, "action": 1285, "behind": 1284},
        "why": "send-unmatched",
    }
    assert finding["witness"] is None
    assert finding["suppressed"] is None
    assert finding["equivalent"] == [[1, 2]]
    assert set(document["tool"]) == {"name", "version", "native"}


def test_keys_are_sorted() -> None:
    """Every object is written with sorted keys, without asking the JSON writer to sort."""

    def check(value: object) -> None:
        if isinstance(value, dict):
            assert list(value) == sorted(value)
            for item in value.values():
                check(item)
        elif isinstance(value, list):
            for item in value:
                check(item)

    check(verdict_to_json(deadlock()))


def test_reproducible_leaves_out_times() -> None:
    """Two verdicts that differ only in time are written alike when reproducible."""
    document = verdict_to_json(deadlock(), reproducible=True)

    assert "ms" not in document["stats"]
    assert "z3_ms" not in document["evidence"]
    VALIDATOR.validate(document)
    assert verdict_from_json(document).stats.ranks == 16


def test_unread_plan() -> None:
    """A plan that could not be read is an object with outcome null, and reads back as its error."""
    error = PlanError("peer 9 is not a rank", code="PG402", file="a.json", path="$.x", hint="0..3")
    document = error_to_json(error)

    VALIDATOR.validate(document)
    assert document["outcome"] is None
    assert document["error"] == {
        "code": "PG402",
        "hint": "0..3",
        "message": "peer 9 is not a rank",
        "path": "$.x",
    }
    with pytest.raises(PlanError, match="peer 9 is not a rank") as caught:
        verdict_from_json(document)
    assert (caught.value.code, caught.value.file, caught.value.hint) == ("PG402", "a.json", "0..3")


def test_unknown_fields_are_ignored() -> None:
    """A reader of version 1 accepts fields that were added later."""
    document = verdict_to_json(deadlock()) | {"added_later": [1]}
    document["findings"][0]["color"] = "red"

    VALIDATOR.validate(document)
    assert verdict_from_json(document) == deadlock()


@pytest.mark.parametrize(
    ("field", "value", "path"),
    [
        ("outcome", "FINE", r"\$\.outcome"),
        ("schema", "planguard.result/2", r"\$\.schema"),
        ("findings", [{"code": "PG001"}], r"\$\.findings\[0\]"),
        ("models", {"nccl": 3}, r"\$\.models"),
    ],
)
def test_malformed_result(field: str, value: object, path: str) -> None:
    """An object that breaks the schema is a usage error that names the path of the field."""
    document = verdict_to_json(deadlock()) | {field: value}

    with pytest.raises(UsageError, match=path):
        verdict_from_json(document)
    assert not VALIDATOR.is_valid(document)


def test_not_an_object() -> None:
    """A list or a string is not a result."""
    for document in ([], "SAFE", None, 3):
        with pytest.raises(UsageError, match=r"planguard\.result/1"):
            verdict_from_json(document)


def test_fingerprint_ignores_the_start_of_the_cycle() -> None:
    """A cycle has one fingerprint wherever it is entered, and another in the other direction."""
    cycle = [("a", "send"), ("b", "recv"), ("a", "send"), ("c", "reduce"), ("b", "send")]
    turned = {
        fingerprint("PG003", [c for c, _ in turn], [o for _, o in turn])
        for turn in (cycle[k:] + cycle[:k] for k in range(5))
    }
    back = cycle[::-1]

    assert len(turned) == 1
    assert next(iter(turned)).startswith("pg1:")
    assert len(next(iter(turned))) == len("pg1:") + 16
    assert fingerprint("PG003", [c for c, _ in back], [o for _, o in back]) not in turned


def test_fingerprint_tells_findings_apart() -> None:
    """Code, classes and operation names each change the fingerprint."""
    prints = {
        fingerprint("PG001", [0, 1], ["send", "send"]),
        fingerprint("PG002", [0, 1], ["send", "send"]),
        fingerprint("PG001", [0, 2], ["send", "send"]),
        fingerprint("PG001", [0, 1], ["send", "recv"]),
        fingerprint("PG001", [], []),
        fingerprint("PG001", [0, 1, 2], ["send"]),
    }
    assert len(prints) == 6


@given(st.lists(st.sampled_from("abc"), max_size=9))
def test_fingerprint_of_every_rotation(classes: list[str]) -> None:
    """Every rotation of any cycle of classes has the same fingerprint, repeated classes too."""
    ops = ["send"] * len(classes)
    prints = {fingerprint("PG001", classes[k:] + classes[:k], ops) for k in range(len(classes) + 1)}
    assert len(prints) == 1


def test_reference_page_example() -> None:
    """The example of the reference page validates and reads back."""
    page = Path(__file__).parents[2] / "docs" / "reference" / "result.md"
    text = page.read_text(encoding="utf-8").partition("```json\n")[2].partition("\n```")[0]
    document = json.loads(text)

    VALIDATOR.validate(document)
    assert verdict_to_json(verdict_from_json(document)).keys() == document.keys()


def test_reference_page_names_every_field() -> None:
    """Every property of the schema is named on the reference page."""
    page = Path(__file__).parents[2] / "docs" / "reference" / "result.md"
    text = page.read_text(encoding="utf-8")
    names = {name for shape in result_schema()["$defs"].values() for name in shape["properties"]}
    assert {name for name in names if f"`{name}`" not in text} == set()
