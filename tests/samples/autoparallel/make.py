"""Joint graphs that AutoParallel makes on a CPU, every rank for itself.

    git clone https://github.com/meta-pytorch/autoparallel
    pip install filecheck pulp
    PYTHONPATH=autoparallel python tests/samples/autoparallel/make.py          # writes it
    PYTHONPATH=autoparallel python tests/samples/autoparallel/make.py --alone  # other limits

Every rank is a process on torch's fake process group: it solves for the placements of a small
network on a mesh of 2 x 2, applies them, and gives its joint graph. AutoParallel asks the device
for its name, to know its speed; it is told that it has an H100. With ``--alone`` one rank gives the
solver a limit of its own, as a rank would that asks its device for free memory; the placements that
differ, and what PlanGuard says of the graphs, are printed.
"""

from __future__ import annotations

import argparse
import functools
import json
from pathlib import Path
from typing import Any

import torch
from autoparallel.api import AutoParallel
from planguard.planners.fx import FxBundle, FxProgram, read_bundle, write_bundle
from planguard.planners.fx.convert import convert_program
from planguard.planners.fx.dump import dump_text
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.placement_types import Replicate, Shard

import planguard
from planguard.capture import fx
from planguard.capture.passes.asked import unlike
from planguard.capture.play.fake_world import fake_world
from planguard.capture.play.processes import run_ranks

HERE = Path(__file__).resolve().parent
WORLD, WIDTH, ROWS = 4, 256, 32


class Mlp(nn.Module):
    """Two linear layers with a residual."""

    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(WIDTH, 4 * WIDTH, bias=False)
        self.down = nn.Linear(4 * WIDTH, WIDTH, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Apply both."""
        return x + self.down(torch.relu(self.up(x)))


def solve(rank: int, alone: bool) -> bytes:
    """Solve and apply on one rank; return its placements and its graph."""
    torch.set_num_threads(1)
    torch.cpu.get_device_name = lambda *_: "NVIDIA H100 80GB HBM3"
    with fake_world(rank, WORLD):
        mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
        with torch.device("meta"):
            model = Mlp()
        with AutoParallel(model, lambda: torch.rand(ROWS, WIDTH), mesh) as planner:
            high = 1.0 if alone and rank == WORLD - 1 else None  # times what a rank has in ZeRO-3
            planner.add_parameter_memory_constraint(low=None if high is None else 0.0, high=high)
            planner.add_input_constraints([(Shard(0), Replicate())])
            planner.add_output_constraints([(Shard(0), Replicate())])
            placements = planner.optimize_placement()
            planner.apply_placement(placements)
            program = FxProgram(planner.parallel_gm, groups=fx.group_table())
            others = {r: rank for r in range(WORLD) if r != rank}
            text = dump_text(FxBundle(WORLD, {rank: convert_program(program)}, like=others))
    chosen = {str(name): str(value) for name, value in placements.items()}
    text = text.replace(f"{HERE.parents[2]}/", "")  # sources by their place in the checkout
    return json.dumps({"placements": chosen, "graph": text}).encode()


def main() -> None:
    """Solve on all ranks, compare, decide, and keep the graphs."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--alone", action="store_true", help="one rank has a limit of its own")
    given = parser.parse_args()
    task = functools.partial(solve, alone=given.alone)
    ranks = {r: json.loads(text) for r, text in run_ranks(range(WORLD), task, timeout=900).items()}
    last = ranks[WORLD - 1]["placements"]
    for line in list(unlike(ranks[0]["placements"], last, 0, WORLD - 1))[:8]:
        print(line)
    programs: dict[int, Any] = {
        rank: read_bundle(json.loads(one["graph"])).programs[rank] for rank, one in ranks.items()
    }
    mesh = (("dp", 2), ("tp", 2))
    bundle = FxBundle(WORLD, programs, mesh=mesh, producer=("torch", str(torch.__version__)))
    print(planguard.check(bundle))
    if not given.alone:
        write_bundle(bundle, HERE / "mlp.fx.json")


if __name__ == "__main__":
    main()
