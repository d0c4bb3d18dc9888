"""What a check may be told: execution model, budget, limits. Keyword-only and frozen."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from numbers import Real

from planguard.errors import UsageError, shorten

MODEL_NAMES = (
    "gloo",
    "gloo-detail",
    "nccl",
    "nccl-lazy",
    "nccl-eager",
    "nccl-serialized",
    "mpi-eager",
    "mpi-sync",
    "mpi-pg",
)
DEFAULT_MODEL = "nccl"


EAGER_BYTES = 4096
"""Message threshold of the eager models where nothing else is asked for, bytes."""


@dataclass(frozen=True)
class Deadline:
    """When a check has to end: made once, where it begins, and handed down to every route.

    Attributes:
        at: On the clock of ``time.perf_counter``; None means no limit.
    """

    at: float | None = None

    @classmethod
    def after(cls, seconds: float | None) -> Deadline:
        """Return the end of a budget that begins now."""
        return cls(None if seconds is None else time.perf_counter() + seconds)

    @property
    def is_bounded(self) -> bool:
        """Whether there is a limit."""
        return self.at is not None

    def expired(self) -> bool:
        """Tell whether the time is used up."""
        return self.at is not None and time.perf_counter() > self.at

    def left(self) -> float | None:
        """Return the seconds left, or None without a limit."""
        return None if self.at is None else self.at - time.perf_counter()


FOREVER = Deadline()
"""No limit."""


@dataclass(frozen=True, kw_only=True)
class CheckOptions:
    """Options of one check.

    Attributes:
        model: One of ``MODEL_NAMES``, or ``"all"``. None: the plan's own ``model``, else ``nccl``.
        budget: Wall-clock seconds for the parts that are not linear; None means no limit.
        eager_bytes: Message threshold k of ``mpi-eager`` and ``mpi-pg``, bytes.
        max_resident_kernels: Pin K, the number of co-resident kernels; None: K in 1..inf.
        strict_start_order: False also lets a device start kernels in any order (opt-in).
        certificate: Make a certificate; None means only below 10**6 actions on request.
        explain_limit: How many findings to explain in full.
        solver_memory_mb: Memory budget of the solver, MiB; beyond it the answer is UNKNOWN.
        solver_process: Run the solver in a process of its own.
    """

    model: str | None = None
    budget: float | None = None
    eager_bytes: int = EAGER_BYTES
    max_resident_kernels: int | None = None
    strict_start_order: bool = True
    certificate: bool = False
    explain_limit: int = 20
    solver_memory_mb: int = 4096
    solver_process: bool = False


@dataclass(frozen=True, kw_only=True)
class Running(CheckOptions):
    """The options of a check that has begun.

    Attributes:
        deadline: The end of its budget.
    """

    deadline: Deadline = FOREVER


def running(options: CheckOptions) -> Running:
    """Return options with the end of their budget; those of a check that has begun as they are."""
    if isinstance(options, Running):
        return options
    return Running(**vars(options), deadline=Deadline.after(options.budget))


def chosen_options(
    options: CheckOptions | None, model: str | None, budget: float | None
) -> CheckOptions:
    """Return the options of a call that names a model and a budget beside them.

    Raises:
        UsageError: The options are something else, or the budget is no number of seconds.
    """
    chosen = CheckOptions() if options is None else options
    if not isinstance(chosen, CheckOptions):
        raise UsageError(f"options={shorten(chosen)}: no CheckOptions", hint="CheckOptions(...)")
    if model is not None:
        chosen = replace(chosen, model=model)
    if budget is not None:
        if not isinstance(budget, Real) or not float(budget) >= 0:
            raise UsageError(f"budget={shorten(budget)}: no number of seconds", hint="budget=0.2")
        chosen = replace(chosen, budget=float(budget))
    return chosen
