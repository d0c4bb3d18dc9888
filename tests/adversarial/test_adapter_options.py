"""Hostile values for every option of every adapter: a plan, or one clear error, and soon.

The options are those that an adapter itself names when it is given one that does not exist.
"""

from __future__ import annotations

import contextlib
import re
import time
from pathlib import Path
from typing import Any

import pytest

import planguard
from planguard.errors import PlanError, UsageError

SAMPLES = Path(__file__).resolve().parents[2] / "tests" / "samples"
INPUTS = {
    "alpa": "*.alpa.json", "chakra": "hybrid", "ddp": "*.ddp.json", "deepspeed": "*.deepspeed.json",
    "fsdp": "*.fsdp.json", "fx": "*.fx.json", "galvatron": "*.galvatron.json",
    "hiccl": "*.hiccl.json", "horovod": "*.horovod.json",
    "megatron": "*.megatron.json", "msccl": "*.xml", "mscclpp": "*.json", "nnscaler": "mlp-dp4",
    "pipelining": "*.csv", "xla": "*.hlo",
}  # fmt: skip
VALUES: tuple[Any, ...] = (
    None, -1, 2**31, 10**30, 1.5, "x", b"x", [[]], [None], [[1, 2, 3]], {1: 2}, {"a": {}},
)  # fmt: skip


def smallest(planner: str) -> Path:
    """Give the smallest sample of an adapter, which loads fastest."""
    found = (SAMPLES / planner).glob(INPUTS[planner])
    return min(found, key=lambda path: (path.stat().st_size, path.name))


@pytest.mark.parametrize("planner", sorted(INPUTS))
def test_a_hostile_option_is_taken_or_refused(planner: str) -> None:
    """No other exception, no ranks without end, and no plan that has something else for a name."""
    sample = smallest(planner)
    with pytest.raises((PlanError, UsageError)) as error:
        planguard.load(sample, planner=planner, zzzz=1)
    _, _, names = str(error.value.hint).partition(":")
    options = re.findall(r"\w+", names)
    assert "name" in options
    for option in options:
        for value in VALUES:
            start = time.process_time()
            with contextlib.suppress(PlanError, UsageError):
                plan = planguard.load(sample, planner=planner, **{option: value})
                assert isinstance(plan.name, str), (option, value)
            assert time.process_time() - start < 10, (option, value)
