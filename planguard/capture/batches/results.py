"""What a step returns, in plain numbers: written by the process of a rank, read by the caller."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

_MOST = 100_000  # elements of a tensor that are written one by one
_DEEP = 8


def write_result(file: Path, value: object) -> None:
    """Write the numbers of a value; nothing where it has none."""
    try:
        found = _plain(value, 0)
        file.write_text(json.dumps(found))
    except Exception:  # noqa: BLE001 - whatever a value of the program raises: it is not compared
        return


def read_result(file: Path) -> Any:
    """Read what ``write_result`` wrote; None where there is nothing to compare."""
    try:
        return json.loads(file.read_text())
    except (OSError, ValueError):
        return None


def _plain(value: object, deep: int) -> Any:
    import torch

    if deep > _DEEP:
        return None
    if isinstance(value, torch.Tensor):
        flat = value.detach().double().flatten()
        rows = flat.tolist() if flat.numel() <= _MOST else [float(flat.sum()), float(flat.norm())]
        return [list(value.shape), [_told(float(one)) for one in rows]]
    if isinstance(value, bool | int | str):
        return value if isinstance(value, str) else int(value)
    if isinstance(value, float):
        return _told(value)
    if isinstance(value, list | tuple):
        return [_plain(one, deep + 1) for one in value]
    if isinstance(value, dict):
        return {str(key): _plain(one, deep + 1) for key, one in value.items()}
    return None


def _told(number: float) -> str:
    """Write a number to six digits: sums of other orders differ behind them."""
    return "0" if number == 0 else f"{number:.6g}" if math.isfinite(number) else str(number)
