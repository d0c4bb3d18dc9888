"""Values of parameters as files and tables spell them."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from planguard.errors import shorten

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

_NUMBER = re.compile(r"[+-]?\d{1,300}(\.\d*)?([eE][+-]?\d{1,2})?|[+-]?\.\d+([eE][+-]?\d{1,2})?")


def flat(params: Mapping[Any, Any], prefix: str = "") -> dict[str, Any]:
    """Return parameters with nested mappings as dotted names, and lists as their text."""
    found: dict[str, Any] = {}
    for name, value in params.items():
        if value is None or isinstance(value, (bool, int, float, str)):
            found[f"{prefix}{name}"] = value
        elif isinstance(value, Mapping):
            found.update(flat(value, f"{prefix}{name}."))
        else:
            found[f"{prefix}{name}"] = str(value)
    return found


def typed(value: Any) -> Any:
    """Return a cell of a table as the number or truth value that it spells."""
    if not isinstance(value, str):
        return value
    if value in {"True", "False", "true", "false"}:
        return value.lower() == "true"
    if not _NUMBER.fullmatch(value):  # nan and 1_000 stay what they are: texts
        return value
    return float(value) if set(value) & set(".eE") else int(value)


def plain(given: Any) -> Any:
    """Return a value of W&B's config, which may be wrapped with its description."""
    is_wrapped = isinstance(given, dict) and "value" in given and given.keys() <= {"value", "desc"}
    return given["value"] if is_wrapped else given


def is_bookkeeping(name: str) -> bool:
    """Whether a key of W&B's config is one that W&B writes itself: ``_wandb``, its version."""
    return name[:1] == "_" or name == "wandb_version"


def mlflow_params(run: Path) -> dict[str, Any]:
    """Return the parameters of a run in MLflow's file store: a file for each, ``params/NAME``."""
    params = run / "params"
    return {
        file.relative_to(params).as_posix(): typed(file.read_text(encoding="utf-8").strip())
        for file in sorted(params.rglob("*"))
        if file.is_file() and not file.is_symlink()
    }


def refuse_twice(names: Iterable[str], what: str) -> None:
    """Refuse a name that is there twice: one of the two values would be lost."""
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise ValueError(f"{what} {shorten(twice[0], 60)} is there twice")


def decoded(data: bytes) -> Any:
    """Read JSON; what is no JSON number (NaN, as Python writes it) or no float stays text."""
    return json.loads(data, object_pairs_hook=_object, parse_constant=str, parse_float=_real)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        refuse_twice((name for name, _ in pairs), "the key")
    return found


def _real(text: str) -> float | str:
    return number if math.isfinite(number := float(text)) else text
