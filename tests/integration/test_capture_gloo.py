"""What the fx adapter takes for granted about torch, shown on real gloo processes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

import planguard
import planguard.capture
from planguard.plan.flatten import flatten
from planguard.replay import replay

pytestmark = [pytest.mark.wheel, pytest.mark.processes, pytest.mark.timeout(120)]
WORKER = Path(__file__).with_name("fx_gloo_worker.py")
FACTS = {
    "root_of_a_group": [0.0, 2.0, 2.0],
    "second_wait": [0.0, 3.0, 3.0],
    "wait_on_a_view": [0.0, 3.0, 3.0],
    "send_waits_for_its_receiver": [0.0, 1.0, 1.0],
}


@pytest.mark.parametrize("fact", FACTS)
def test_functional_collectives_behave_as_the_adapter_reads_them(fact, tmp_path):
    """Ranks of the operators count inside the group; a wait ends what is pending on a storage,
    through views too, once; a send is done when it is received.
    """
    command = [sys.executable, "-W", "ignore", str(WORKER), fact]
    ranks = [
        subprocess.Popen(
            [*command, str(rank), str(tmp_path / "store")],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        for rank in range(3)
    ]
    try:
        values = [float(rank.communicate(timeout=60)[0].split()[-1]) for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
            rank.wait()
    assert values == FACTS[fact]


def reduced(x):
    """Reduce twice over the world."""
    import torch.distributed as dist
    import torch.distributed._functional_collectives as funcol

    return funcol.all_reduce(
        funcol.all_reduce(x, "sum", dist.group.WORLD) * 2, "sum", dist.group.WORLD
    )


def skipped_on_rank_0(x):
    """Leave out the second reduction on one rank."""
    import torch.distributed as dist
    import torch.distributed._functional_collectives as funcol

    x = funcol.all_reduce(x, "sum", dist.group.WORLD)
    return x if dist.get_rank() == 0 else funcol.all_reduce(x, "sum", dist.group.WORLD)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("body", "safe"), [(reduced, True), (skipped_on_rank_0, False)])
def test_captured_graphs_do_on_gloo_what_the_verdict_says(body, safe):
    """A captured program that is safe runs to its end; one with a missing call hangs."""
    bundle = planguard.capture.fx(body, (torch.ones(4),), 2, ranks="all")
    plan = planguard.load(bundle)
    verdict = planguard.check(plan, model="gloo")
    assert verdict.safe is safe
    seen = replay(flatten(plan), verdict.witness, timeout=3.0, model="gloo")
    assert seen.reproduced is not safe, seen.reason
    assert all(rank.state == "done" for rank in seen.ranks) is safe
