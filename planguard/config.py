"""Settings of a check: command line first, then a configuration file, then defaults."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from planguard.catalog import CATALOG, SEVERITIES, find, lookup
from planguard.errors import UsageError, shorten
from planguard.files import refuse_special
from planguard.guarding import read_options
from planguard.options import DEFAULT_MODEL, MODEL_NAMES, CheckOptions, seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

FILES = ("planguard.toml", "pyproject.toml")
ALL = "ALL"
DEFAULT = "default"


@dataclass(frozen=True)
class PlanIgnore:
    """Findings of some plans that are expected there.

    Attributes:
        pattern: Shell pattern of plan paths, relative to the configuration file.
        code: A selector: code, name or prefix.
        reason: Why; never empty.
    """

    pattern: str
    code: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What a check was told, and by whom.

    Attributes:
        model: Execution model, ``all``, or None for the plan's own, else ``nccl``.
        select: Selectors of the findings that count; ``ALL`` for every one.
        ignore: Selectors of findings that do not.
        fail_on: Lowest severity that fails the gate.
        budget: Seconds for the parts that are not linear.
        solver_memory: Memory budget of the solver, MiB.
        solver_process: Run the solver in a process of its own.
        severity: Severity by selector.
        per_plan_ignores: Findings expected in some plans.
        rules: Thresholds of rules by code.
        guard: Options of ``planguard guard`` by name.
        origins: Where each value came from: ``default``, a file, an option.
        folder: Folder of the configuration file.
    """

    model: str | None = None
    select: tuple[str, ...] = (ALL,)
    ignore: tuple[str, ...] = ()
    fail_on: str = "error"
    budget: float | None = None
    solver_memory: int = CheckOptions.solver_memory_mb
    solver_process: bool = False
    severity: Mapping[str, str] = field(default_factory=dict)
    per_plan_ignores: tuple[PlanIgnore, ...] = ()
    rules: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    guard: Mapping[str, Any] = field(default_factory=dict)
    origins: Mapping[str, str] = field(default_factory=dict)
    folder: Path | None = None

    def origin(self, key: str) -> str:
        """Return where the value of a key came from."""
        return self.origins.get(key, DEFAULT)

    def shown(self) -> str:
        """Return all values as TOML, each with its origin in a comment."""
        ignores = [f"{i.pattern}: {i.code} ({i.reason})" for i in self.per_plan_ignores]
        values = {
            "model": self.model or f"the plan's own, else {DEFAULT_MODEL}",
            "select": list(self.select),
            "ignore": list(self.ignore),
            "fail-on": self.fail_on,
            "budget": "none" if self.budget is None else f"{self.budget:g}s",
            "solver-memory": self.solver_memory,
            "solver-process": self.solver_process,
            "severity": dict(self.severity),
            "per-plan-ignores": ignores,
            "rules": {code: dict(values) for code, values in self.rules.items()},
            "guard": {name.replace("_", "-"): value for name, value in self.guard.items()},
        }
        lines = [f"{key} = {_toml(value)}" for key, value in values.items()]
        width = min(50, max(map(len, lines)))
        return "".join(
            f"{text:{width}}  # {self.origin(key)}\n"
            for key, text in zip(values, lines, strict=True)
        )


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        inner = ", ".join(f"{key} = {_toml(item)}" for key, item in value.items())
        return f"{{ {inner} }}" if inner else "{}"
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return str(value)
    return '"' + str(value).replace('"', "'") + '"'


def codes_of(selector: str) -> frozenset[str]:
    """Return the codes a selector names.

    Args:
        selector: ``PG001``, ``p2p-deadlock``, a prefix such as ``PG6`` or ``PG10``, or ``ALL``.

    Raises:
        UsageError: It names none; the hint names the nearest.
    """
    if selector.upper() == ALL:
        return frozenset(CATALOG)
    exact = find(selector)
    if exact is not None:
        return frozenset([exact.number])
    found = frozenset(number for number in CATALOG if number.startswith(selector.upper()))
    if not found or not selector.upper().startswith("PG"):
        lookup(selector)  # raises, with the nearest codes
    return found


# --- the file ------------------------------------------------------------------------------------


def find_file(start: Path) -> Path | None:
    """Return the configuration file of a folder or of the nearest folder above that has one."""
    for folder in (start, *start.parents):
        for name in FILES:
            file = folder / name
            if file.is_file() and (name != "pyproject.toml" or _table(file) is not None):
                return file
    return None


def _table(file: Path) -> dict[str, Any] | None:
    """Return PlanGuard's table of a file; None if a ``pyproject.toml`` has none.

    Raises:
        UsageError: The file is not TOML.
    """
    import tomllib

    refuse_special(file)
    try:
        whole = tomllib.loads(file.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{file.name} is not TOML: {shorten(str(error))}") from None
    if file.name != "pyproject.toml":
        return whole
    table = whole.get("tool", {}).get("planguard")
    return table if isinstance(table, dict) else None


def load_settings(
    given: Mapping[str, Any] | None = None, *, file: Path | None = None, start: Path | None = None
) -> Settings:
    """Return the settings that hold.

    Args:
        given: Values of the command line by key (``fail-on``); None stands for not given.
        file: The configuration file; searched for from ``start`` upward if None.
        start: Where to search; without both, only ``given`` and defaults hold.

    Raises:
        UsageError: An unknown key or a value that means nothing; the message names file and key.
        PlanError: PG907, an unknown model.
    """
    found = file or (find_file(start) if start is not None else None)
    table = (_table(found) or {}) if found is not None else {}
    name = DEFAULT if found is None else found.name
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for key, value in table.items():
        values[key], origins[key] = _read(key, value, name), name
    for key, value in (given or {}).items():
        if value is not None:
            values[key], origins[key] = _read(key, value, f"--{key}"), f"--{key}"
    fields = {key.replace("-", "_"): value for key, value in values.items()}
    return Settings(**fields, origins=origins, folder=None if found is None else found.parent)


def settings_of(text: str, name: str) -> Settings:
    """Return the settings that the text of a ``planguard.toml`` makes.

    Raises:
        UsageError: As ``load_settings``.
        PlanError: As ``load_settings``.
    """
    import tomllib

    values = {key: _read(key, value, name) for key, value in tomllib.loads(text).items()}
    fields = {key.replace("-", "_"): value for key, value in values.items()}
    return Settings(**fields, origins=dict.fromkeys(values, name))


def _read(key: str, value: Any, origin: str) -> Any:
    """Return a value in the form ``Settings`` keeps it."""
    reader = _READERS.get(key)
    if reader is None:
        import difflib

        near = difflib.get_close_matches(key, _READERS, 1, 0.6)
        hint = f"did you mean {near[0]}?" if near else "keys: " + ", ".join(_READERS)
        raise UsageError(f"{origin}: unknown key {shorten(key, 40)!r}", hint=hint)
    place = origin if origin == f"--{key}" else f"{origin}: {key}"  # an option names the key
    try:
        return reader(value)
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        said = str(error) if isinstance(error, ValueError) else f"not a value of {key}"
        raise UsageError(f"{place}: {said} (got {shorten(value)})") from None
    except UsageError as error:
        raise UsageError(f"{place}: {error.message}", hint=error.hint) from None


# --- values --------------------------------------------------------------------------------------


def mebibytes(value: str | int) -> int:
    """Return an amount of memory in MiB.

    Raises:
        ValueError: It is no positive number that Z3 can be given.
    """
    if isinstance(value, bool) or not str(value).isdecimal() or not 0 < int(value) < 1 << 32:
        raise ValueError("a memory budget is a whole number of MiB")
    return int(value)


def _switch(value: object) -> bool:
    if value is True or value is False:
        return value
    raise ValueError("true or false")


def _model(value: str) -> str:
    if value != "all" and value not in MODEL_NAMES:
        from planguard.plan.defects import unknown_model

        raise unknown_model(value, "model", None, "all")
    return value


def _selectors(value: Iterable[str]) -> tuple[str, ...]:
    if isinstance(value, str):
        value = value.split(",")
    selectors = tuple(text.strip() for item in value for text in item.split(","))
    for selector in selectors:
        codes_of(selector)
    return selectors


def _level(value: str) -> str:
    if value not in SEVERITIES:
        raise ValueError(f"severities are {', '.join(SEVERITIES)}")
    return value


def _severities(value: dict[str, str]) -> dict[str, str]:
    read = {selector: _level(level) for selector, level in value.items()}
    for selector, level in read.items():
        deadlocks = sorted(code for code in codes_of(selector) if code.startswith("PG0"))
        if deadlocks and level != "error":
            raise ValueError(f"{deadlocks[0]} is a certain deadlock: its severity stays error")
    return read


def _plan_ignores(value: dict[str, list[dict[str, str]]]) -> tuple[PlanIgnore, ...]:
    ignores = []
    for pattern, entries in value.items():
        for entry in entries:
            if set(entry) - {"code", "reason"} or not str(entry.get("reason", "")).strip():
                raise ValueError(f"{pattern}: an entry has a code and a reason")
            codes_of(entry["code"])
            ignores.append(PlanIgnore(pattern, entry["code"], str(entry["reason"]).strip()))
    return tuple(ignores)


def _rules(value: dict[str, dict[str, float]]) -> dict[str, dict[str, float]]:
    rules = {}
    for code, thresholds in value.items():
        rules[lookup(code).number] = {name: float(number) for name, number in thresholds.items()}
    return rules


def _guard(value: dict[str, Any]) -> dict[str, Any]:
    return read_options(value)


_READERS: dict[str, Callable[[Any], Any]] = {
    "model": _model,
    "select": _selectors,
    "ignore": _selectors,
    "fail-on": _level,
    "budget": seconds,
    "solver-memory": mebibytes,
    "solver-process": _switch,
    "severity": _severities,
    "per-plan-ignores": _plan_ignores,
    "rules": _rules,
    "guard": _guard,
}
