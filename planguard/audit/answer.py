"""From files to a verdict."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from planguard.audit.readers.files import collect
from planguard.audit.readers.helpers import HelperLostError
from planguard.audit.readers.reading import Reading
from planguard.garbage import no_collection

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from planguard.plan.plan import Plan
    from planguard.verdict import Verdict


@dataclass(frozen=True)
class AuditOptions:
    """What an audit is told beside its files.

    Attributes:
        plan: The intended plan.
        prefix: What stands in front of the rank in file names.
        world_size: Number of ranks, where the dumps do not say it.
        model: Execution model; that of the recorded backend if None.
        groups: Only these groups, by name or description; all if empty.
        allow_incomplete: Missing ranks are known not to exist: they limit nothing.
        name: What the result calls its input.
        repo: Folder of the source that the run was of.
        takes_plans: A plan among the files is what they are compared with. A picture of what was
            recorded has no place for what a plan says.
    """

    plan: Plan | None = None
    prefix: str | None = None
    world_size: int | None = None
    model: str | None = None
    groups: tuple[str, ...] = ()
    allow_incomplete: bool = False
    name: str | None = None
    repo: str | None = None
    takes_plans: bool = True


def audit_paths(
    paths: Sequence[str | os.PathLike[str]], options: AuditOptions, *, processes: int | None = None
) -> Verdict:
    """Read recordings and return what the run was stuck in.

    Args:
        paths: Files and folders.
        options: What is known beside them.
        processes: Processes that read; as many as there are processors if None.

    Raises:
        PlanError: No file can be read; nothing in them was executed.
        UsageError: Nothing to read, or no file says a rank.
    """
    names = [str(path) for path in paths]
    named = replace(options, name=options.name or ", ".join(names[:3]))
    with no_collection(), Reading(collect(names, options.prefix), processes) as reading:
        # Loaded here: copies of this process read meanwhile.
        from planguard.audit.judging import audit_parts, lost

        try:
            parts = reading.parts()
        except HelperLostError:
            return lost(named)
        return audit_parts(parts, named)
