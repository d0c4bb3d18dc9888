"""Answer one task in this process: read, sign, decide; every failure is an answer."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from planguard.errors import PlanError, UsageError, shorten
from planguard.screen.tasks import CRASHED, Answer, Task, lost, options_of
from planguard.screen.travel import at_home, readable
from planguard.words import encodable

if TYPE_CHECKING:
    from planguard.options import CheckOptions
    from planguard.plan.plan import Plan
    from planguard.verdict import Verdict

SYMBOLIC = 4096
"""World size from which on plans with a mesh are decided on their smallest equivalent instance."""


def answer(task: Task) -> Answer:
    """Return the answer of a task; raises nothing but what ends a process.

    A plan that takes more memory than there is, or on which the check fails, is UNKNOWN.
    """
    said = _any_answer(task)
    return said if said.message.isascii() else _with(said, message=encodable(said.message))


def _any_answer(task: Task) -> Answer:
    try:
        return _answer(task)
    except PlanError as error:
        return _refused(task, error)
    except UsageError as error:  # no adapter takes it
        return _refused(task, PlanError(error.message, hint=error.hint))
    except OSError as error:
        reason = error.strerror or type(error).__name__
        return _refused(task, PlanError(f"cannot be read: {reason}", path="file"))
    except MemoryError:
        ended = lost(task, f"it needs more than {task.limits.memory_mb} MiB of memory")
        return _with(ended, last=True)
    except RecursionError:
        return lost(task, "it is nested too deeply for this interpreter")
    except Exception as error:  # noqa: BLE001  one plan's failure is that plan's answer
        what = f"{type(error).__name__}: {shorten(str(error), 200)}"
        return Answer(
            task.id, "UNKNOWN", (CRASHED,), CRASHED, f"the check failed: {what}", end="crashed"
        )


def _answer(task: Task) -> Answer:
    from planguard.loading import load

    options = options_of(task)
    with at_home(task):
        plan = load(readable(task) or task.data, planner=task.planner or None)
    skeleton = skeleton_of(plan, options) if task.sign else ""
    said = Answer(task.id, skeleton=skeleton, ranks=plan.world_size, actions=plan.actions)
    if not task.decide:
        return said
    verdict = decide(plan, options)
    first = verdict.findings[0] if verdict.findings else None
    return _with(
        said,
        outcome=verdict.outcome.value,
        codes=tuple(sorted({finding.code for finding in verdict.findings})),
        code=first.code if first else "",
        message=first.message if first else "",
    )


def skeleton_of(plan: Plan, options: CheckOptions) -> str:
    """Return the digest of what a plan communicates, under the rules that it is asked about.

    What bounds a check does not change what the plan is, so it does not enter.
    """
    from planguard.guard.signature import communication_signature

    return communication_signature(plan, rules_of(options)).digest


def rules_of(options: CheckOptions) -> CheckOptions:
    """Return options without budgets: those that say which question is asked."""
    from planguard.options import CheckOptions

    bare = CheckOptions()
    return replace(
        options,
        budget=bare.budget,
        solver_memory_mb=bare.solver_memory_mb,
        solver_process=bare.solver_process,
        explain_limit=bare.explain_limit,
        certificate=bare.certificate,
    )


def decide(plan: Plan, options: CheckOptions) -> Verdict:
    """Decide a plan; a very large one with a mesh on its smallest equivalent instance."""
    if plan.world_size >= SYMBOLIC and plan.mesh is not None:
        from planguard.parametric.check import check_symbolic

        return check_symbolic(plan, options)
    from planguard.engine import check_plan

    return check_plan(plan, options)


def _refused(task: Task, error: PlanError) -> Answer:
    got = f" (got {error.value})" if error.value is not None else ""
    message = f"{error.path}: {error.message}{got}"
    return Answer(task.id, "UNKNOWN", (error.code,), error.code, message, end="refused")


def _with(said: Answer, **changes: Any) -> Answer:
    import msgspec

    return msgspec.structs.replace(said, **changes)
