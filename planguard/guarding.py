"""Options of ``planguard guard``: from the command line, the environment, or a settings file."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from planguard.errors import UsageError
from planguard.options import seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

EXIT_STUCK = 42
"""Code that ends stuck ranks, unless another is asked for."""
SWITCH = "PLANGUARD_GUARD"
"""Set to 1 in the ranks of a job that is guarded."""


@dataclass(frozen=True)
class GuardOptions:
    """The numbers of a guard; see ``planguard.live.guard``.

    Attributes:
        timeout: Seconds in one call after which a rank is suspected.
        warn_after: Mean seconds in the last call after which a warning is given; None for the
            guard's own.
        report: File that the report is written to; empty for none.
        exit_code: Code that ends stuck ranks; 0 leaves them.
        native: Native stacks are read, too.
    """

    timeout: float = 60.0
    warn_after: float | None = None
    report: str = ""
    exit_code: int = EXIT_STUCK
    native: bool = True

    def to_environment(self) -> dict[str, str]:
        """Return the variables that carry them."""
        found = {SWITCH: "1"}
        for one in fields(self):
            value = getattr(self, one.name)
            if value is not None:
                found[variable(one.name)] = str(int(value) if one.name == "native" else value)
        return found


def variable(name: str) -> str:
    """Return the environment variable of an option, ``PLANGUARD_GUARD_TIMEOUT`` for ``timeout``."""
    return f"{SWITCH}_{name.upper().replace('-', '_')}"


def read_options(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return options by the names of ``GuardOptions``, read from text or from a settings file.

    Args:
        values: By name, with ``-`` or ``_``.

    Raises:
        ValueError: An unknown name, or a value that means nothing; the message says which.
    """
    found = {}
    for name, value in values.items():
        key = name.replace("-", "_")
        read = _READERS.get(key)
        if read is None:
            raise ValueError(f"unknown key {name!r}; keys: {', '.join(_READERS).replace('_', '-')}")
        try:
            found[key] = read(value)
        except (ValueError, TypeError) as error:
            raise ValueError(f"{name}: {error}") from None
    return found


def from_environment(environment: Mapping[str, str]) -> dict[str, Any]:
    """Return the options that are in an environment.

    Raises:
        UsageError: One of them means nothing.
    """
    try:
        names = [name for name in _READERS if variable(name) in environment]
        return read_options({name: environment[variable(name)] for name in names})
    except ValueError as error:
        name, _, what = str(error).partition(": ")
        raise UsageError(f"{variable(name)}: {what}") from None


def _duration(value: Any) -> float:
    try:
        return seconds(value)
    except ValueError:
        said = f"a time above 0, such as 60 or 5m, is needed (got {value!r})"
        raise ValueError(said) from None


def _code(value: Any) -> int:
    if isinstance(value, bool) or not str(value).isdecimal() or int(value) > 255:
        raise ValueError(f"a code from 0 to 255 is needed, 0 to leave the ranks (got {value!r})")
    return int(value)


def _file(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"the name of a file is needed (got {value!r})")  # noqa: TRY004 - as text
    return value


def _switch(value: Any) -> bool:
    known = {"1": True, "0": False, "true": True, "false": False}
    if str(value).lower() not in known:
        raise ValueError(f"true or false is needed (got {value!r})")
    return known[str(value).lower()]


_READERS: dict[str, Callable[[Any], Any]] = {
    "timeout": _duration, "warn_after": _duration, "report": _file, "exit_code": _code,
    "native": _switch,
}  # fmt: skip
