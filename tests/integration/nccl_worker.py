"""Makes groups on a stand-in for ProcessGroupNCCL; prints what torch asked of it, as JSON.

The stand-in communicates by gloo and writes down its options and the calls that make or split a
communicator. ``nccl_worker.py`` is torch alone, ``nccl_worker.py FOLDER`` torch under the recorder.
"""

from __future__ import annotations

import json
import os
import sys
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

SAID = []
KEPT = []


class Options:
    """Stands for ProcessGroupNCCL.Options, with its defaults."""

    def __init__(self):
        self._timeout = timedelta(minutes=30)
        self.is_high_priority_stream = False
        self.split_from = None
        self.split_color = None
        self.global_ranks_in_group = []
        self.group_name = ""


class StandIn(dist.ProcessGroupGloo):
    """Stands for ProcessGroupNCCL."""

    Options = Options
    supports_splitting = True

    def __init__(self, store, rank, size, options):
        super().__init__(store, rank, size, timeout=options._timeout)
        KEPT.append(self)
        self.number = len(KEPT)
        source = options.split_from
        SAID.append([
            "made", self.number, rank, size, str(options._timeout),
            options.is_high_priority_stream, options.group_name, options.global_ranks_in_group,
            None if source is None else source.number, options.split_color,
        ])  # fmt: skip

    def eager_connect_single_device(self, device):
        SAID.append(["connected", self.number, str(device), str(self.bound())])

    def perform_nocolor_split(self, device):
        SAID.append(["split of others", self.number, str(device)])

    def bound(self):
        return getattr(self, "bound_device_id", None)


def met(world, devices):
    """Meet the other rank; a barrier would ask for the device."""
    if "cpu" in devices:
        dist.all_reduce(torch.ones(2))
    else:  # no tensor of the CPU gets to a group of NCCL alone
        world._get_backend(torch.device("cuda")).allreduce([torch.ones(2)]).wait()


def main():
    """Make groups as programs do."""
    dist.ProcessGroupNCCL = c10d.ProcessGroupNCCL = StandIn
    c10d._NCCL_AVAILABLE = True
    c10d.default_pg_nccl_timeout = timedelta(minutes=10)  # a build without NCCL has none
    torch.accelerator.current_accelerator = lambda *_, **__: torch.device("cuda")
    torch.accelerator.device_count = lambda: 1
    if len(sys.argv) > 1:
        from planguard.capture import start

        start(sys.argv[1])
    asked = json.loads(os.environ["ASKED"])
    device = torch.device("cuda", 0) if asked["bound"] else None
    dist.init_process_group(asked["backend"], device_id=device)
    world = dist.group.WORLD
    devices = sorted(map(str, world._device_types))
    SAID.append(["world", str(world.bound_device_id), dist.get_backend(), devices])
    SAID.append(["config", dist.get_backend_config()])
    every = dist.new_group(group_desc="a second one")
    own = dist.new_group([0], timeout=timedelta(seconds=77))
    options = Options()
    options.is_high_priority_stream = True
    other = dist.new_group([0, 1], backend="nccl", pg_options=options)
    for group in (world, every, own, other):
        if isinstance(group, dist.ProcessGroup):
            SAID.append(["group", str(group.bound_device_id), group.group_name, group.group_desc])
            where = "cuda" if group is other or "cpu" not in devices else "cpu"
            inner = group._get_backend(torch.device(where))
            SAID.append(["names", inner.options.group_name, inner.options.global_ranks_in_group])
    met(world, devices)
    SAID.append(["sequence", world._get_sequence_number_for_group()])
    print(json.dumps(SAID), flush=True)
    met(world, devices)
    if len(sys.argv) > 1:
        from planguard.capture import stop

        stop()
    os._exit(0)


main()
