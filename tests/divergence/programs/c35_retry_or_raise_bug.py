"""A rank that takes an error for a passing one tries again, with its collective."""

import torch
import torch.distributed as dist

WORLD = 2
KIND = "C InternLM/xtuner#1852"
DIVERGES = True
BY = 28
SAMPLES = ["ok", "busy"]


class Busy(Exception):
    pass


def fetch(state, tries):
    dist.barrier()
    if state == "busy" and tries == 0:
        raise Busy(state)
    return state


def job(state):
    for tries in range(2):
        try:
            fetch(state, tries)
        except Busy:
            continue
        break
    out = torch.ones(1)
    dist.all_reduce(out)
    return out
