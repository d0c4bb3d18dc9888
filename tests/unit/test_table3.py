"""dl2's Table 3: gradient fusion of Swin-T, by number and size of buffers."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

import planguard
from planguard.verdict import Outcome

SCRIPT = Path(__file__).resolve().parents[1] / "campaigns" / "table3.py"
SPEC = importlib.util.spec_from_file_location("table3", SCRIPT)
assert SPEC is not None
assert SPEC.loader is not None
table3: Any = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(table3)

CELLS = [(buffers, size) for buffers in table3.BUFFERS for size in table3.SIZES_MB]
PUBLISHED = {cell: cell[1] != 64 for cell in CELLS}
"""The answers of the table: a deadlock is possible for 1, 2, 4 and 8 MB, and not for 64 MB."""


def test_parameters_are_those_of_the_model() -> None:
    """Swin-T has 173 tensors and 28,288,354 parameters."""
    named = table3.tensors()
    assert len(named) == len({name for name, _ in named}) == 173
    assert sum(size for _, size in named) == 4 * 28_288_354


def test_all_answers_and_the_counts_of_one_buffer() -> None:
    """The stated policy gives 20 of 20 answers, and the counts 64, 55, 28, 19, 2 of one buffer."""
    cells = table3.table()
    assert {cell: unsafe for cell, (unsafe, _) in cells.items()} == PUBLISHED
    assert [cells[1, size][1] for size in table3.SIZES_MB] == [64, 55, 28, 19, 2]


@pytest.mark.parametrize("dealing", table3.DEALINGS)
@pytest.mark.parametrize("order", table3.ORDERS)
def test_the_answers_do_not_depend_on_how_tensors_are_dealt(order: str, dealing: str) -> None:
    """Each of the four ways to deal tensors to buffers gives the 20 answers of the paper."""
    cells = table3.table(order, dealing)
    assert {cell: unsafe for cell, (unsafe, _) in cells.items()} == PUBLISHED


def test_the_pages_say_how_many_counts_are_the_papers() -> None:
    """Dealt in turn 9 of 20 counts are as printed, 35 off; the nearest dealing has 12, 21 off."""
    found = {
        (order, dealing): table3.distance(table3.table(order, dealing))
        for order in table3.ORDERS
        for dealing in table3.DEALINGS
    }
    assert found["registration", "in turn"] == (9, 35)
    assert max(found.values()) == found["readiness", "least loaded"] == (12, 21)


@pytest.mark.parametrize(("buffers", "size"), CELLS)
def test_the_checker_gives_the_answers(buffers: int, size: int) -> None:
    """A check of the plan says MISMATCH with PG103 where the table says Yes, else SAFE."""
    verdict = planguard.check(table3.plan(buffers, size))
    if PUBLISHED[buffers, size]:
        assert verdict.outcome is Outcome.MISMATCH
        assert {f.code for f in verdict.errors} == {"PG103"}
        assert "largest safe policy" in "\n".join(verdict.findings[0].notes)
    else:
        assert verdict.outcome is Outcome.SAFE
        assert "fusion-order" in verdict.proved


@pytest.mark.parametrize("coordination", ["rank0-broadcast", "negotiated"])
@pytest.mark.parametrize(("buffers", "size"), CELLS)
def test_coordinated_buffers_are_safe(buffers: int, size: int, coordination: str) -> None:
    """As DDP and Horovod flush, every cell is SAFE, because the ranks agree on one order."""
    verdict = planguard.check(table3.plan(buffers, size, coordination))
    assert verdict.outcome is Outcome.SAFE
    assert "coordinated-fusion" in verdict.assumptions
    assert "fusion-order" in verdict.proved
    assert verdict.evidence.schedules == 1


def test_the_rule_takes_milliseconds() -> None:
    """The exact rule decides all 20 cells in 5 ms; here with room for a busy machine."""
    assert min(table3.rule_times(10)) < 0.025
