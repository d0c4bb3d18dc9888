"""The plan that the script plays; a generated script has its own values in this place."""

from __future__ import annotations

from typing import Any

Op = dict[str, Any]

TITLE: str = "head-to-head send"
# Backend of torch.distributed.
BACKEND: str = "gloo"
# TORCH_DISTRIBUTED_DEBUG: with DETAIL torch compares the calls of all ranks.
DEBUG: str = "OFF"
# Process p plays rank RANKS[p] of the plan.
RANKS: list[int] = [0, 1]
# Members of every process group, as process numbers in group order.
GROUPS: dict[str, list[int]] = {"world": [0, 1]}
# Groups that every process creates before the first action, in this order.
CREATED_FIRST: list[str] = []
# (rank, action) pairs in which PlanGuard expects the run to be stuck.
PREDICTED: list[tuple[int, int]] = [(0, 0), (1, 0)]
# Look at the data of what is still under way at the end of a program.
DRAIN: bool = False
# One list per process. at: index of the action in what is played; place: its index in the plan, if
# that is another; nbytes: size played here; serial: the number its data carry; expect: serial of
# the data that must arrive; after: what other processes finish first, if they can.
PROGRAMS: list[list[Op]] = [
    [
        {
            "at": 0,
            "op": "send",
            "text": "send -> 1",
            "peer": 1,
            "group": "world",
            "nbytes": 4,
            "serial": 1,
        },
        {
            "at": 1,
            "op": "recv",
            "text": "recv <- 1",
            "peer": 1,
            "group": "world",
            "nbytes": 4,
            "expect": 2,
        },
    ],
    [
        {
            "at": 0,
            "op": "send",
            "text": "send -> 0",
            "peer": 0,
            "group": "world",
            "nbytes": 4,
            "serial": 2,
        },
        {
            "at": 1,
            "op": "recv",
            "text": "recv <- 0",
            "peer": 0,
            "group": "world",
            "nbytes": 4,
            "expect": 1,
        },
    ],
]
