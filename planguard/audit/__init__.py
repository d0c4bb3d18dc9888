"""Recordings made by other tools: hardened readers, and what the run was stuck in.

The package is also the function of that name: ``planguard.audit("dumps/")``.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

from planguard.arguments import COUNT, FLAG, LIST, NAME, PATH, arguments

if TYPE_CHECKING:
    import os

    from planguard.verdict import Verdict


@arguments(
    paths=PATH,
    prefix=NAME,
    world_size=COUNT,
    model=NAME,
    groups=LIST,
    allow_incomplete=FLAG,
    repo=PATH,
)
def audit(
    *paths: str | os.PathLike[str],
    plan: Any = None,
    prefix: str | None = None,
    world_size: int | None = None,
    model: str | None = None,
    groups: tuple[str, ...] = (),
    allow_incomplete: bool = False,
    repo: str | os.PathLike[str] | None = None,
) -> Verdict:
    """Read recordings of a run and return what it was stuck in, and whose fault that is.

    Args:
        paths: Files and folders: Flight Recorder dumps, Kineto and execution traces, Chakra files,
            logs of NCCL and of ranks, runs of ``planguard dryrun``, stacks. One file per rank or
            one of all, kinds mixed as they come. A plan among them is the intended one.
        plan: The intended plan, or anything ``load`` accepts.
        prefix: What stands in front of the rank in file names.
        world_size: Number of ranks, where the recordings do not say it.
        model: Execution model for other executions; that of the recorded backend if None.
        groups: Only these groups, by name or description.
        allow_incomplete: Missing ranks are known not to exist: no warning about them.
        repo: Folder of the source: call sites are shown from it, and its plans are asked.

    Raises:
        PlanError: No file can be read, or there are plans only; nothing in them was executed. One
            that is damaged, of several, is a finding.
        UsageError: Nothing to read, or no file says a rank.
    """
    from planguard.audit.answer import AuditOptions, audit_paths

    options = AuditOptions(
        plan=None if plan is None else _load(plan),
        prefix=prefix,
        world_size=world_size,
        model=model,
        groups=tuple(groups),
        allow_incomplete=allow_incomplete,
        repo=None if repo is None else str(repo),
    )
    return audit_paths(paths, options)


def _load(plan: Any) -> Any:
    from planguard.loading import load

    return load(plan)


class _CallableModule(ModuleType):
    """A module that is called like the function of its name (docs/adr/0018-callable-modules.md)."""

    def __call__(self, *paths: str | os.PathLike[str], **options: Any) -> Verdict:
        return audit(*paths, **options)


sys.modules[__name__].__class__ = _CallableModule
