"""Plans among the files of an audit: what was meant to happen, and no evidence that anything did.

A plan beside evidence is what the evidence is compared with, as one named by ``--plan`` is. Read as
a recording it would say that every rank came to the end of its program, which nobody saw.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from planguard.audit.readers.blocks import STDIN
from planguard.audit.readers.part import PLAN, SILENT
from planguard.errors import PlanError, UsageError
from planguard.words import clean, plural

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planguard.audit.readers.part import Part
    from planguard.plan.plan import Plan

MAX_LISTED = 4
BOTH_PLANS = (
    "two plans were compared, of branches the first: what a run did was not seen; planguard check "
    "decides a plan"
)


@dataclass(frozen=True)
class Told:
    """What is evidence among the files, and what is not.

    Attributes:
        parts: What the evidence says.
        plan: The plan that it is compared with, or None.
        captured: A plan that stands where evidence should, beside a plan that was named.
        remarks: Which plans were taken, and which left out.
    """

    parts: list[Part]
    plan: Plan | None
    captured: Plan | None = None
    remarks: list[str] = field(default_factory=list)


def told_apart(parts: Sequence[Part], plan: Plan | None, world_size: int | None) -> Told:
    """Return the evidence, and the plan that it is compared with.

    Args:
        parts: What every file says.
        plan: The plan that was named as the intended one.
        world_size: Number of ranks, where the caller says it.

    Raises:
        PlanError: There are plans and no evidence, or the only one cannot be read.
    """
    files = list(dict.fromkeys(part.file for part in parts if part.kind == PLAN))
    kept = [part for part in parts if part.kind != PLAN]
    if not files:
        return Told(kept, plan)
    if not any(part.kind != SILENT for part in kept):
        if plan is None or len(files) > 1:
            raise _no_evidence(files)
        return Told([], plan, _load(files[0]))
    if plan is not None:
        said = f"{_named(files)} no evidence: left out, since --plan names another"
        return Told(kept, plan, remarks=[said])
    sizes = _sizes(kept) if world_size is None else {world_size}
    least = max((part.rank for part in kept if part.rank is not None), default=-1) + 1
    found: list[tuple[str, Plan]] = []
    remarks = []
    for file in files:
        try:
            one = _load(file)
        except (PlanError, UsageError) as error:
            remarks.append(f"{clean(file)} is a plan that is left out: {clean(error.message)}")
            continue
        if one.world_size < least or (sizes and one.world_size not in sizes):
            sized = plural(one.world_size, "rank")
            had = max([least, *sizes])
            remarks.append(f"{clean(file)} is a plan of {sized}, the job had {had}: left out")
            continue
        found.append((file, one))
    if len(found) > 1:
        remarks.append(f"{_named([file for file, _ in found])} left out: name one with --plan")
    if len(found) != 1:
        return Told(kept, None, remarks=remarks)
    file, one = found[0]
    return Told(kept, one, remarks=[*remarks, f"{clean(file)} is the plan that is compared with"])


def _load(file: str) -> Plan:
    if file == STDIN:
        raise UsageError("it came through standard input", hint="--plan FILE")
    from planguard.loading import load  # where a plan lies among the files

    return load(file)


def _sizes(parts: Sequence[Part]) -> set[int]:
    """Return what the evidence says of the number of ranks."""
    said = {part.world_size for part in parts if part.world_size}
    for part in parts:
        world = part.groups.get("world")
        if world is not None:
            said |= {n for n in (world.size, len(world.ranks or ())) if n}
    return said


def _no_evidence(files: list[str]) -> PlanError:
    """Return the refusal; ``--watch`` tells it and looks again."""
    more = f", as {plural(len(files) - 1, 'other file')}" if len(files) > 1 else ""
    return PlanError(
        f"is a plan{more}, and no evidence of a run",
        file=files[0],
        hint=f"planguard check {clean(files[0])} decides the plan; what the job left behind, given "
        "beside it, is compared with it",
    )


def _named(files: list[str]) -> str:
    shown = ", ".join(clean(file) for file in files[:MAX_LISTED])
    more = f" and {len(files) - MAX_LISTED} more" if len(files) > MAX_LISTED else ""
    return f"{shown}{more} {'is a plan and' if len(files) == 1 else 'are plans and'}"
