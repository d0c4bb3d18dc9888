"""The JSON Schema of the plan file."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import jsonschema
import pytest

from planguard.plan.reading.schema import plan_schema

if TYPE_CHECKING:
    from pathlib import Path


def test_the_schema_is_a_schema() -> None:
    """It is valid draft 2020-12."""
    jsonschema.Draft202012Validator.check_schema(plan_schema())


@pytest.mark.parametrize("name", ["head-to-head", "mesh-3d", "every-op", "later"])
def test_the_examples_satisfy_the_schema(root: Path, name: str) -> None:
    """Every example plan is valid under it."""
    plan = json.loads((root / "examples" / f"{name}.plan.json").read_text())
    jsonschema.Draft202012Validator(plan_schema()).validate(plan)


def test_the_schema_refuses_unknown_fields_and_allows_extensions() -> None:
    """asnyc is refused, x-asnyc is not."""
    validator = jsonschema.Draft202012Validator(plan_schema())
    action = {"op": "all_reduce", "bytes": 4}
    plan = {
        "schema": "planguard.plan/1",
        "world_size": 1,
        "ranks": {"0": {"actions": [action]}},
    }
    assert validator.is_valid(plan)
    action["x-asnyc"] = True
    assert validator.is_valid(plan)
    action["asnyc"] = True
    assert not validator.is_valid(plan)
