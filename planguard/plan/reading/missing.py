"""Inputs that are no file to read: what is there instead."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from planguard.plan.defects import nearest, refusal
from planguard.words import plural

if TYPE_CHECKING:
    from planguard.errors import PlanError

LOOKED_AT = 10_000
"""Names of a folder that a misspelt one is compared with."""
PLANS = "*.plan.json*"


def no_such_file(name: str) -> PlanError:
    """Return the refusal of a path that leads nowhere, with the name that was meant."""
    path = Path(name)
    if "*" in name:
        return refusal("nothing matches this pattern", file=name)
    if not path.parent.exists():
        return refusal(f"there is no folder {path.parent}", file=name, hint="is the path right?")
    known = (one.name for one in islice(path.parent.iterdir(), LOOKED_AT))
    hint = nearest(path.name, known) or "give the path of a plan file, or of a planner's output"
    return refusal("no such file", file=name, hint=hint)


def not_one_plan(name: str) -> PlanError | None:
    """Return the refusal of a folder that no adapter reads, or of an empty file; else None.

    A folder can be the output of a planner, so the adapters are asked first.
    """
    path = Path(name)
    if not name:
        return refusal("the path is empty")
    if path.is_file() and not path.stat().st_size:
        return refusal("the file is empty", file=name, hint="write it again")
    if not path.is_dir():
        return None
    count = sum(1 for _ in islice(path.rglob(PLANS), LOOKED_AT))
    if count:
        several = f"planguard screen {name} decides all plans of a folder"
        return refusal(f"a folder with {plural(count, 'plan file')}", file=name, hint=several)
    hint = "name a plan file in it, or the adapter that reads the folder (--planner)"
    return refusal("a folder in which nothing is recognized", file=name, hint=hint)
