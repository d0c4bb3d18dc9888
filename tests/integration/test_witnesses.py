"""Verdicts on random plans against gloo processes, as in ``tests/campaigns/witnesses.py``."""

from __future__ import annotations

import psutil
import pytest
import witnesses

from planguard.errors import ReplayError
from planguard.replay.pool import Job, Pool

pytestmark = pytest.mark.processes
PATIENCE = 1.5
USUAL = 30


def sizes(usual, full):
    """The usual number of cases, and the full one with --slow."""
    slow = pytest.param(full, marks=[pytest.mark.slow, pytest.mark.timeout(3600)], id="full")
    return [pytest.param(usual, id="sample"), slow]


@pytest.fixture(scope="module")
def pool():
    """A pool of replays, gone with all its processes at the end."""
    before = set(psutil.Process().children(recursive=True))
    with Pool(4) as pool:
        yield pool
    left = set(psutil.Process().children(recursive=True)) - before
    assert not [process for process in left if process.is_running()]


def unsafe(pool, shapes, count, repeat, *, only_some):
    """Play that many witnesses."""
    tally = witnesses.Tally()
    cases = witnesses.unsafe(shapes, count, only_some=only_some, tally=tally)
    return witnesses.play_all(cases, pool, tally, PATIENCE, repeat)


@pytest.mark.parametrize("count", sizes(USUAL, 300))
def test_reordered_witnesses_hang_or_mismatch_as_predicted(pool, count):
    """What only some orders, branches, flushes, picks or drops do happens when they are played."""
    tally = unsafe(pool, witnesses.REORDERING, count, 1, only_some=True)
    assert tally.runs == count
    assert not tally.failed, tally


@pytest.mark.parametrize("count", sizes(USUAL, 200))
def test_witnesses_of_all_kinds_are_reproduced(pool, count):
    """Witnesses of DEADLOCK, MISMATCH and POTENTIAL_DEADLOCK come true; three times of three."""
    tally = unsafe(pool, witnesses.SHAPES, count, 1 if count == USUAL else 3, only_some=False)
    assert tally.runs >= count
    assert len({said.split()[0] for said in tally.said}) == 3
    assert not tally.failed, tally


@pytest.mark.parametrize("count", sizes(USUAL, 300))
def test_safe_plans_finish_whatever_the_timing(pool, count):
    """SAFE plans end with the right data in random orders, branches, flushes, with delays."""
    tally = witnesses.Tally()
    cases = witnesses.safe(witnesses.SHAPES, count, tally)
    if count == USUAL:
        cases = (case for case in cases if case.delay_seed in witnesses.SEEDS[:2])
    witnesses.play_all(cases, pool, tally, PATIENCE)
    assert sum(tally.shapes.values()) == count
    assert not tally.failed, tally


def test_a_pool_reports_a_script_that_fails(pool):
    """A script that ends without a report is an error with its last words; the pool goes on."""
    with pytest.raises(ReplayError, match="boom"):
        pool.run([Job("raise RuntimeError('boom')", 1.0)])
    assert pool.run([]) == []
