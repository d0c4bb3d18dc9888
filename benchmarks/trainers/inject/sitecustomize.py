"""Comes into every rank of a job: an independent count of its calls, or the live guard.

TRAINERS_WATCH=count: torch.profiler's own records of the operators of c10d, without PlanGuard.
TRAINERS_WATCH=dump: torch's Flight Recorder, without PlanGuard: what gloo's own C++ wrote down,
whichever thread called it.
TRAINERS_WATCH=guard: ``planguard.live.guard`` once there is a process group.
"""

import atexit
import json
import os
import sys
from collections import Counter
from pathlib import Path


def count(dist):
    """Profile this process from init_process_group on, and write what was counted at its end."""
    from torch._C._profiler import _ExperimentalConfig
    from torch.profiler import ProfilerActivity, profile

    profiler = profile(
        activities=[ProfilerActivity.CPU],
        experimental_config=_ExperimentalConfig(profile_all_threads=True),
    )
    profiler.start()
    rank = dist.get_rank()
    done = []

    def finish(*_):
        if done:
            return
        done.append(True)
        profiler.stop()
        found = Counter(
            event.name
            for event in profiler.events()
            # An argument that wants a gradient, or wraps a tensor, sends a call through the
            # dispatcher twice, the second time within the first.
            if event.name.startswith("c10d::") and not within_itself(event)
        )
        place = Path(os.environ["TRAINERS_COUNTS"])
        (place / f"rank{rank}-{os.getpid()}.json").write_text(json.dumps(found))

    at_the_end(dist, finish)


def within_itself(event):
    """Tell whether a call is a part of a call of the same name."""
    outer = event.cpu_parent
    while outer is not None and outer.name != event.name:
        outer = outer.cpu_parent
    return outer is not None


def dump(dist):
    """Write what torch's Flight Recorder holds of this process at its end."""
    import pickle

    from torch._C._distributed_c10d import _dump_fr_trace

    rank = dist.get_rank()
    done = []

    def finish(*_):
        if not done:
            done.append(True)
            entries = pickle.loads(_dump_fr_trace(True, False, False))["entries"]  # noqa: S301  our own
            found = Counter(entry["profiling_name"] for entry in entries)
            place = Path(os.environ["TRAINERS_COUNTS"])
            (place / f"rank{rank}-{os.getpid()}.json").write_text(json.dumps(found))

    at_the_end(dist, finish)


def at_the_end(dist, finish):
    """Call a function once, before the last group is destroyed or the process ends."""
    atexit.register(finish)
    destroy = dist.destroy_process_group

    def destroy_process_group(group=None):
        if group is None or group is dist.group.WORLD:
            finish()
        return destroy(group)

    replace(dist, "destroy_process_group", destroy_process_group)


def guard(_):
    """Guard this process."""
    from planguard import live

    live.guard(
        float(os.environ.get("TRAINERS_GUARD_S", "6")),
        exit_code=42,
        report=os.environ["TRAINERS_REPORT"],
    )


def replace(dist, name, value):
    """Put a function in the places from which torch and the programs take it."""
    setattr(dist, name, value)
    setattr(sys.modules["torch.distributed.distributed_c10d"], name, value)


def begin():
    """Watch whoever makes a process group."""
    import torch.distributed as dist

    what = {"count": count, "dump": dump, "guard": guard}[os.environ["TRAINERS_WATCH"]]
    original = dist.init_process_group
    begun = []

    def init_process_group(*args, **options):
        answer = original(*args, **options)
        if not begun:
            begun.append(True)
            what(dist)
        return answer

    replace(dist, "init_process_group", init_process_group)


# A launcher is no rank; what spawns ranks is none either, but does no harm.
if os.environ.get("TRAINERS_WATCH") and "torch.distributed.run" not in sys.orig_argv:
    begin()
