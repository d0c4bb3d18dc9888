"""Symbolic 1F1B plans of any size: pipeline x data x tensor parallelism on one mesh.

Every rank receives synchronously, sends asynchronously and waits one step later, reduces
synchronously over its tensor group, and ends with eight asynchronous gradient buckets. The text has
one template per pipeline stage, so it does not grow with the number of ranks or of micro-batches.

    python benchmarks/pipeline_plan.py 16 128 8 32 > 16k.plan.json     # PP DP TP microbatches

Two forms leave the order of a step open: `free` starts the send and an asynchronous reduction in
either order, `bags` receives and reduces in either order, both synchronously. Both are safe.
"""

from __future__ import annotations

import json
import sys

ACTIVATION = 4 << 20
BUCKET = 64 << 20
REDUCTIONS = 4  # tensor-parallel all_reduces in a forward or backward step
BUCKETS = 8

# (pipeline, data, tensor) parallelism and micro-batches; actions per rank in the comment
SIZES = {
    "1e3": (2, 2, 2, 8),  # 104
    "7e3": (4, 4, 2, 16),  # 216: 32 ranks, 6,912 actions
    "1e5": (8, 16, 4, 16),  # 228: 512 ranks, 116,736 actions
    "1e6": (16, 16, 8, 32),  # 452: 2,048 ranks, 925,696 actions
    "7e6": (16, 128, 8, 32),  # 452: 16,384 ranks, 7,405,568 actions
    "1e7": (16, 128, 8, 48),  # 670: 16,384 ranks, 10,977,280 actions
    "3e7": (32, 512, 8, 16),  # 237: 131,072 ranks, 31,064,064 actions
}


def _reductions():
    reduce = {"op": "all_reduce", "group": "tp", "bytes": ACTIVATION}
    return [{"op": "repeat", "times": REDUCTIONS, "body": [reduce]}]


def transfer(op, delta, **more):
    """Give a message to or from the stage so far away."""
    return {"op": op, "group": "pp", "peer": {"pp": delta}, "bytes": ACTIVATION, **more}


def _step(receives, sends, work, form):
    """Receive, reduce and send, each where it is; `sends` and `receives` are distances or None."""
    receive = [] if receives is None else [transfer("recv", receives)]
    send = [] if sends is None else [transfer("isend", sends, work=work)]
    reduce = {"op": "all_reduce", "group": "tp", "bytes": ACTIVATION}
    if form == "bags":
        rest = {"op": "repeat", "times": REDUCTIONS - 1, "body": [reduce]}
        return [{"op": "unordered", "body": [*receive, reduce]}, rest, *send]
    if form == "free":
        later = {**reduce, "async": True, "work": f"reduced-{work}"}
        rest = {"op": "repeat", "times": REDUCTIONS - 1, "body": [reduce]}
        block = {"op": "unordered", "body": [*send, later]}
        return [*receive, rest, block, *_waits(later["work"])]
    return [*receive, *_reductions(), *send]


def _waits(*works):
    return [{"op": "wait", "work": work} for work in works]


def stage(index, pipeline, microbatches, form="fixed"):
    """Give the program of one pipeline stage."""
    first, last = index == 0, index == pipeline - 1
    warmup = min(pipeline - 1 - index, microbatches)
    sent_forward = [] if last else _waits("forward")
    sent_backward = [] if first else _waits("backward")
    forward = _step(None if first else -1, None if last else 1, "forward", form)
    backward = _step(None if last else 1, None if first else -1, "backward", form)
    phases = [
        (warmup, [*forward, *sent_forward]),
        (microbatches - warmup, [*forward, *backward, *sent_forward, *sent_backward]),
        (warmup, [*backward, *sent_backward]),
    ]
    actions = [{"op": "repeat", "times": times, "body": body} for times, body in phases if times]
    buckets = [
        {"op": "all_reduce", "group": "dp", "bytes": BUCKET, "async": True, "work": f"bucket{i}"}
        for i in range(BUCKETS)
    ]
    return [*actions, *buckets, *_waits(*(f"bucket{i}" for i in range(BUCKETS)))]


def make(pipeline, data, tensor, microbatches, form="fixed"):
    """Give the plan as a dict; `form` is `fixed`, `free` or `bags`."""
    return {
        "schema": "planguard.plan/1",
        "name": f"1f1b-pp{pipeline}-dp{data}-tp{tensor}-mb{microbatches}",
        "world_size": pipeline * data * tensor,
        "mesh": {"dims": [["pp", pipeline], ["dp", data], ["tp", tensor]]},
        "groups": {name: {"mesh_dims": [name]} for name in ("pp", "dp", "tp")},
        "templates": {
            f"stage{index}": stage(index, pipeline, microbatches, form) for index in range(pipeline)
        },
        "ranks": {f"pp={index}": {"template": f"stage{index}"} for index in range(pipeline)},
    }


if __name__ == "__main__":
    json.dump(make(*map(int, sys.argv[1:5])), sys.stdout)
