"""JSON Schema of the plan file, made from the records that the reader decodes."""

from __future__ import annotations

from typing import Any

import msgspec

from planguard.plan.document import Document

SCHEMA_ID = "https://json-schema.org/draft/2020-12/schema"


def plan_schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of ``planguard.plan/1``.

    It states fields, types and ranges. What no schema can state (names that must exist, ranks that
    must be members, handles that must be waited for) is checked after decoding, and listed in
    docs/reference/plan-format.md.
    """
    schema = msgspec.json.schema(Document)
    for definition in schema["$defs"].values():
        if definition.get("additionalProperties") is False:
            definition["patternProperties"] = {"^x-": {}}
    return {"$schema": SCHEMA_ID, "title": "planguard.plan/1", **schema}
