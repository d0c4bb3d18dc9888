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
    options: CheckOptions | None, model: str | None, budget: float | str | None
) -> CheckOptions:
    """Return the options of a call that names a model and a budget beside them.

    Raises:
        UsageError: The options are something else, or one of them cannot be.
    """
    chosen = CheckOptions() if options is None else options
    if not isinstance(chosen, CheckOptions):
        raise UsageError(f"options={shorten(chosen)}: no CheckOptions", hint="CheckOptions(...)")
    if model is not None:
        chosen = replace(chosen, model=model)
    if budget is not None:
        chosen = replace(chosen, budget=_budget(budget))
    _check(chosen)
    return chosen


_UNITS = {"ms": 1e-3, "s": 1.0, "m": 60.0}


def seconds(value: str | float) -> float:
    """Return a duration in seconds: a number, or text with a unit ``ms``, ``s`` or ``m``.

    The command line, the configuration and the library read durations with it.

    Raises:
        ValueError: It is neither, or not positive.
    """
    text, factor = str(value), 1.0
    for unit, scale in _UNITS.items():
        number = text.removesuffix(unit)
        if number != text:
            text, factor = number, scale
            break
    try:
        found = float(text) * factor  # float("True") is no number either
    except ValueError:
        raise ValueError("a duration is a number of seconds, or text such as 200ms") from None
    if not 0 < found < float("inf"):
        raise ValueError("a duration is positive and finite")
    return found


def _budget(value: float | str) -> float:
    """Return a budget; 0, which is no duration, is one that allows nothing.

    Raises:
        UsageError: It is none.
    """
    if isinstance(value, Real) and not isinstance(value, bool) and float(value) in (0.0, _INF):
        return float(value)
    try:
        return seconds(value)
    except ValueError as error:
        message = f"budget={shorten(value)}: no number of seconds: {error}"
        raise UsageError(message, hint='budget=0.2, or budget="200ms"') from None


_INF = float("inf")
_LOWEST = {"eager_bytes": 0, "max_resident_kernels": 1, "explain_limit": 0, "solver_memory_mb": 1}
_SWITCHES = ("strict_start_order", "certificate", "solver_process")


def _check(options: CheckOptions) -> None:
    """Refuse what no check could be told.

    The model is looked up where it is known: by the engine, and by ``Guard`` when it is made.
    """
    if options.model is not None and not isinstance(options.model, str):
        raise UsageError(f"model={shorten(options.model)}: no name", hint='model="gloo"')
    if options.budget is not None:
        _budget(options.budget)
    for name, lowest in _LOWEST.items():
        value = getattr(options, name)
        if value is None and name == "max_resident_kernels":
            continue
        if isinstance(value, bool) or not isinstance(value, int) or value < lowest:
            raise UsageError(
                f"{name}={shorten(value)}: not a whole number from {lowest} on",
                hint=f"CheckOptions({name}={CheckOptions.__dataclass_fields__[name].default!r})",
            )
    for name in _SWITCHES:
        if not isinstance(getattr(options, name), bool):
            value = shorten(getattr(options, name))
            raise UsageError(f"{name}={value}: neither True nor False", hint=f"{name}=True")
