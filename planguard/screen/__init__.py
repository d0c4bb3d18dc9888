"""Many plans: screened in isolation, each communication skeleton once, into a store.

The package is also the function of that name: ``planguard.screen(plans, jobs=8)``.
"""

from __future__ import annotations

import os
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

from planguard.arguments import CALLABLE, FLAG, LIMITS, NAME, PATH, PLANS, WHOLE, arguments

if TYPE_CHECKING:
    from collections.abc import Callable

    from planguard.options import CheckOptions
    from planguard.screen.screening import Progress, Screening
    from planguard.screen.tasks import Limits


@arguments(
    plans=PLANS,
    jobs=WHOLE,
    store=PATH,
    planner=NAME,
    limits=LIMITS,
    cache=FLAG,
    fresh=FLAG,
    progress=CALLABLE,
    params=PATH,
)
def screen(  # noqa: PLR0913  one keyword per setting
    plans: Any,
    *,
    jobs: int | None = None,
    executor: Any = None,
    store: str | os.PathLike[str] | None = None,
    model: str | None = None,
    budget: float | None = None,
    planner: str | None = None,
    options: CheckOptions | None = None,
    limits: Limits | None = None,
    cache: bool = True,
    only: str | None = None,
    fresh: bool = False,
    progress: Callable[[Progress], None] | None = None,
    params: str | os.PathLike[str] | None = None,
) -> Screening:
    """Screen plans; iterate over the result for ``(name, verdict)`` in input order.

    Each plan is answered in a process that is ended when the plan hangs, crashes or eats memory:
    that plan is UNKNOWN then, and all others finish. Plans that communicate alike are decided once.

    Args:
        plans: A path (file, folder, pattern, JSONL file), or an iterable of paths, plans,
            documents, planner objects, ``(name, plan)`` or ``(name, plan, params)``.
        jobs: Worker processes; as many as cores if None.
        executor: ``"processes"``, ``"inline"``, ``"ray"``, ``"dask"``, any
            ``concurrent.futures.Executor``, a Dask client, or an object with ``run`` and ``close``.
        store: SQLite file to keep rows in; rows that are in it already are not decided again.
        model: One of the nine models, or ``"all"``; the plan's own, else ``nccl``, if None.
        budget: Seconds for the parts of one check that are not linear.
        planner: Adapter to read the plans with.
        options: All options at once; ``model`` and ``budget`` override it.
        limits: Time and memory of one plan.
        cache: False decides every plan by itself.
        only: ``"unknown"`` takes up rows of the store that are UNKNOWN.
        fresh: Empty a store that exists; what is no store is never written over.
        progress: Called after every window of plans.
        params: Parameters that a tracker kept: an export of W&B, MLflow or Optuna.

    Raises:
        UsageError: Nothing to screen, no such executor, or a file that is no store.
    """
    from dataclasses import replace

    from planguard.errors import UsageError
    from planguard.options import chosen_options
    from planguard.screen.executors import make_executor
    from planguard.screen.screening import Screening, Settings
    from planguard.screen.store import Store
    from planguard.screen.tasks import Limits
    from planguard.screen.tracked import tracked
    from planguard.screen.trials import Trials

    if only not in (None, "unknown"):
        raise UsageError(f"only={only!r}", hint='"unknown", or nothing')
    if jobs is not None and jobs < 1:
        raise UsageError(f"jobs={jobs}: at least 1", hint="None takes as many as there are cores")
    chosen = chosen_options(options, model, budget)
    settings = Settings(
        replace(chosen, certificate=False),
        planner,
        limits or Limits(),
        cache,
        None if only is None else frozenset({"UNKNOWN"}),
    )
    rows = None if params is None else tracked([os.fspath(params)])
    trials = plans if isinstance(plans, Trials) else Trials(plans, planner, rows)
    workers = make_executor(executor, jobs)
    kept = Store(":memory:" if store is None else os.fspath(store), fresh=fresh)
    return Screening(trials, workers, kept, settings, progress)


class _CallableModule(ModuleType):
    """The package, called by its own name (docs/adr/0018-callable-modules.md)."""

    def __call__(
        self,
        plans: Any,
        *,
        jobs: int | None = None,
        executor: Any = None,
        store: str | os.PathLike[str] | None = None,
        **settings: Any,
    ) -> Screening:
        return screen(plans, jobs=jobs, executor=executor, store=store, **settings)


sys.modules[__name__].__class__ = _CallableModule
