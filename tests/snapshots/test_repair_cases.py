"""What repairs look like: text, JSON, SARIF."""

from __future__ import annotations

import json
from typing import Any

import pytest

SCHEMA = "planguard.plan/1"


def plan(*programs: list[dict[str, Any]], **fields: Any) -> dict[str, Any]:
    """A plan with one explicit program per rank."""
    ranks = {str(rank): {"actions": actions} for rank, actions in enumerate(programs)}
    return {"schema": SCHEMA, "world_size": len(programs), "ranks": ranks, **fields}


def call(op: str, **fields: Any) -> dict[str, Any]:
    """An action that moves 4 MiB."""
    return {"op": op, "count": 1048576, "dtype": "f32", **fields}


HEADS = plan(
    *(
        [call("send", peer=1 - r, label=f"x{r}"), call("recv", peer=1 - r, label=f"x{1 - r}")]
        for r in (0, 1)
    )
)
INVERTED = plan(
    [call("all_reduce", group="tp"), call("all_gather", group="dp")],
    [call("all_gather", group="dp"), call("all_reduce", group="tp")],
    groups={"tp": {"ranks": [0, 1]}, "dp": {"ranks": [0, 1]}},
)
OPEN = {
    "schema": SCHEMA,
    "world_size": 4,
    "templates": {
        "step": [
            {
                "op": "unordered",
                "body": [call("all_reduce", label=name) for name in ("w1", "w2", "w3")],
            }
        ]
    },
    "ranks": {"0-3": {"template": "step"}},
}
ROOTS = plan(*([call("broadcast", root=0 if r != 2 else 1)] for r in range(4)))
PAIRS = plan(*([call("send", peer=r ^ 1), call("recv", peer=r ^ 1)] for r in range(4)))
ABSENT = plan([call("all_reduce")], [call("all_reduce")], [])

CASES = {
    "batch": (HEADS, ()),
    "move": (INVERTED, ()),
    "order": (OPEN, ()),
    "agree": (ROOTS, ()),
    "two-edits": (PAIRS, ()),
    "all-models": (HEADS, ("--model", "all")),
    "none": (ABSENT, ()),
}


@pytest.mark.parametrize("name", list(CASES))
def test_text_of_a_repair(name: str, shell, snapshot) -> None:
    """Each repair prints its golden text."""
    document, arguments = CASES[name]
    text = shell({"step.plan.json": document}, "--repair", "--budget", "20", *arguments)
    snapshot(f"cases/repair-{name}.txt", text)


@pytest.mark.parametrize("form", ["json", "sarif"])
def test_machine_readable_repair(form: str, shell, snapshot) -> None:
    """The fixes of a result and of a SARIF log are the golden ones."""
    text = shell({"step.plan.json": HEADS}, "--repair", "--format", form)
    whole = json.JSONDecoder().raw_decode(text[text.index("{") :])[0]
    found = whole["findings"][0] if form == "json" else whole["runs"][0]["results"][0]
    snapshot(f"cases/repair.{form}", json.dumps(found["fixes"], indent=1) + "\n")
