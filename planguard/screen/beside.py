"""Parameters that lie beside a trial: in a file of its own, or where a tool keeps them.

* ``NAME.params.json`` beside NAME's plan, else ``params.json`` in its folder (Ray Tune writes it);
* ``.hydra/config.yaml`` in its folder (https://hydra.cc/docs/tutorials/basic/running_your_app/);
* ``config.yaml`` of a folder ``run-*/files`` of Weights & Biases, where each value may have a
  description beside it;
* ``params/NAME`` of the MLflow run whose ``artifacts`` hold the plan.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from planguard.errors import shorten
from planguard.files import is_special
from planguard.screen.found import (
    HYDRA,
    PARAMS_FILE,
    is_wandb_config,
    own_params,
)
from planguard.screen.values import decoded, flat, is_bookkeeping, mlflow_params, plain

if TYPE_CHECKING:
    from pathlib import Path

Params = Mapping[str, Any]
MOST_BYTES = 16 << 20
"""Largest file of parameters that is read."""


class Beside:
    """Reads what lies beside trials.

    Attributes:
        unread: Why a file of parameters was not read, by its path.
    """

    def __init__(self) -> None:
        self.unread: dict[str, str] = {}

    def of(self, path: Path) -> Params:
        """Return the parameters beside a trial; nothing where there are none."""
        folder = path if path.is_dir() else path.parent
        for candidate in (own_params(str(path)), os.path.join(folder, PARAMS_FILE)):  # noqa: PTH118
            found = self._json(candidate)
            if found is not None:
                return flat(found)
        config = folder / "config.yaml"
        if is_wandb_config(str(config)) and (found := self._yaml(config)) is not None:
            return flat({key: plain(one) for key, one in found.items() if not is_bookkeeping(key)})
        if (found := self._yaml(folder / HYDRA / "config.yaml")) is not None:
            return flat(found)
        above = next((one.parent for one in path.parents if one.name == "artifacts"), None)
        if above is not None and (above / "meta.yaml").is_file():
            return mlflow_params(above)
        return {}

    def _yaml(self, path: Path) -> dict[str, Any] | None:
        if not path.is_file():
            return None
        try:
            import yaml
        except ImportError:
            self.unread[str(path)] = "PyYAML is not installed"
            return None
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        try:
            text = path.read_bytes()
            # A few lines of aliases may stand for gigabytes.
            if len(text) > MOST_BYTES or any(
                isinstance(event, yaml.AliasEvent) for event in yaml.parse(text, loader)
            ):
                self.unread[str(path)] = "it is too large, or has aliases"
                return None
            found = yaml.load(text, loader)  # noqa: S506  a safe loader
        except (OSError, ValueError, yaml.YAMLError, RecursionError) as error:
            self.unread[str(path)] = shorten(str(error), 100)
            return None
        return {str(key): one for key, one in found.items()} if isinstance(found, dict) else None

    def _json(self, path: str) -> dict[str, Any] | None:
        if is_special(path):
            return None
        try:
            with open(path, "rb") as file:  # noqa: PTH123  asked of every trial
                data = file.read()
        except OSError as error:
            if not isinstance(error, (FileNotFoundError, NotADirectoryError)):
                self.unread[path] = error.strerror or str(error)
            return None
        try:
            found = _fast_or_tolerant(data)
        except (ValueError, RecursionError) as error:
            self.unread[path] = f"it is no JSON: {shorten(str(error), 100)}"
            return None
        if not isinstance(found, dict):
            self.unread[path] = "it is no JSON object"
            return None
        return found


def _fast_or_tolerant(data: bytes) -> Any:
    """Decode JSON, with NaN and Infinity as Python writes them: those stay text."""
    try:
        return msgspec.json.decode(data)
    except ValueError:  # not only DecodeError: bytes that are no UTF-8 are a UnicodeDecodeError
        found = decoded(data)
        msgspec.json.encode(found)  # half a surrogate pair cannot be kept
        return found
