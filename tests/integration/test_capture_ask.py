from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.wheel, pytest.mark.processes, pytest.mark.timeout(400)]
WORKER = Path(__file__).with_name("ask_worker.py")


def said(*rows):
    """Return what the ranks of the worker said, for batches of so many rows."""
    done = subprocess.run(
        [sys.executable, WORKER, *map(str, rows)],
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    return done.stdout.splitlines()


def test_ranks_whose_compilers_chose_other_orders_are_stopped_before_they_run():
    """A batch of five rows beside one of six: Inductor's recommended passes gather the layers in
    another order there. Sizes agree, so nothing else would say so (bug 22).
    """
    first, second = said(6, 5)
    assert first.startswith("rank 0: order: rank 0: call 0 on the group of ranks [0,1] is ")
    assert "all_gather_into_tensor_3 of 256 elements here" in first
    assert "all_gather_into_tensor_3 of 256 elements on rank 0" in second


@pytest.mark.slow
def test_ranks_that_agree_go_on():
    """Equal batches: forward and backward graphs are compared, and the step is taken."""
    for line in said(6, 6):
        watched = int(line.split("ended, ")[1].split()[0])
        assert watched > 2
        assert line.endswith("skipped []")
