"""Two ranks that send to each other before either receives, with a guard beside them.

torchrun --nproc-per-node 2 examples/live/head_to_head.py
"""

import torch
import torch.distributed as dist

from planguard import live

dist.init_process_group("gloo")
live.guard(timeout=3, exit_code=42)
other = 1 - dist.get_rank()
dist.send(torch.ones(1), other)
dist.recv(torch.empty(1), other)
