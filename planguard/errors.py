"""Every exception PlanGuard raises: one base, a hint on each.

A bad plan is not an exception but a verdict; only an unreadable plan or a misuse raises.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from planguard.verdict import Finding, Verdict


class PlanGuardError(Exception):
    """Base of all PlanGuard errors.

    Attributes:
        message: What is wrong, where, and the offending value.
        hint: What to do next.
    """

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\nhint: {self.hint}" if self.hint else self.message


class PlanError(PlanGuardError):
    """An input that cannot be read as a plan, or that is refused at the door (exit code 2).

    Attributes:
        code: Finding code, for example ``PG901`` (schema), ``PG906`` (unknown field), ``PG403``.
        file: Name of the input as given, or None for objects in memory.
        path: Where in the input: a JSON path such as ``$.ranks.2.actions[18].peer``, a CSV cell.
        value: The offending value, shortened to at most 80 characters.
    """

    def __init__(
        self,
        message: str,
        *,
        code: str = "PG901",
        file: str | None = None,
        path: str = "$",
        value: object = None,
        hint: str = "",
    ) -> None:
        super().__init__(message, hint=hint)
        self.code = code
        self.file = file
        self.path = path
        self.value = shorten(value) if value is not None else None

    def __str__(self) -> str:
        inside = f": {self.path}" if self.path != "$" else ""
        where = f"{self.file}{inside}" if self.file else self.path
        got = f" (got {self.value})" if self.value is not None else ""
        text = f"[{self.code}] {where}: {self.message}{got}"
        return f"{text}\nhint: {self.hint}" if self.hint else text


class OrderError(PlanError):
    """Some admissible order of a well-formed plan is no valid program; a check answers UNKNOWN."""


class UsageError(PlanGuardError):
    """A wrong call of the command line or of the library (exit code 2)."""


class UnsafePlanError(PlanGuardError):
    """Raised by ``planguard.require`` for a plan that is not SAFE, by ``precheck`` for errors, too.

    Printed, it is the full diagnostic; ``message`` is the one-line summary.

    Attributes:
        verdict: The verdict that says why.
    """

    def __init__(self, verdict: Verdict) -> None:
        super().__init__(
            f"plan is {verdict.outcome.value}{', and has errors' if verdict.safe else ''}: "
            + "; ".join(f"{f.code} {f.message}" for f in verdict.findings[:3]),
            hint="print(planguard.explain(error.verdict)) shows the full diagnostic",
        )
        self.verdict = verdict

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The findings of the verdict."""
        return self.verdict.findings

    def __str__(self) -> str:
        return f"{self.message}\n{self.verdict}"


PACKAGES = {
    "torch": "pip install torch; a CPU build does: --index-url https://download.pytorch.org/whl/cpu",
    "zstandard": "pip install 'planguard[zstd]'",
    "PIL": "pip install 'planguard[pictures]', or write an SVG: -o matrix.svg",
    "pyarrow": "pip install 'planguard[parquet]'",
    "ray": "pip install 'planguard[ray]'",
    "ray.tune": "pip install 'ray[tune]'",
    "distributed": "pip install 'planguard[dask]'",
    "optuna": "pip install 'planguard[optuna]'",
    "ax": "pip install 'planguard[ax]'",
    "shtab": "pip install 'planguard[completion]'",
    "numpy": "pip install numpy; pip install planguard brings it",
    "networkx": "pip install networkx; pip install planguard brings it",
    "z3": "pip install z3-solver; pip install planguard brings it",
    "msgspec": "pip install msgspec; pip install planguard brings it",
    "rich": "pip install rich; pip install planguard brings it",
}
"""What may be missing, by the name it is imported by, and how to get it.

Without it a command is refused, not broken. Only optional packages and those of ``dependencies``.
"""


class MissingPackageError(UsageError):
    """A package that this work needs is not installed (exit code 2).

    The one text for it: who needs what, and how to install it.

    Args:
        package: A key of ``PACKAGES``.
        who: What needs it, as the subject of a sentence.

    Attributes:
        package: The name it is imported by; a key of ``PACKAGES``.
    """

    def __init__(self, package: str, who: str) -> None:
        super().__init__(f"{who} needs {package}, which is not installed", hint=PACKAGES[package])
        self.package = package


class ReplayError(PlanGuardError):
    """A replay that could not be started or whose schedule does not fit the plan."""


class InternalError(PlanGuardError):
    """A broken invariant inside PlanGuard (exit code 4); never a statement about the plan."""


def shorten(value: object, limit: int = 80) -> str:
    """Render any value as at most ``limit`` printable ASCII characters, cut in the middle."""
    text = value if isinstance(value, str) else repr(value)
    text = "".join(c if 32 <= ord(c) < 127 else f"\\x{ord(c):02x}" for c in text[: 4 * limit])
    if len(text) <= limit:
        return text
    half = (limit - 3) // 2
    return f"{text[:half]}...{text[-half:]}"
