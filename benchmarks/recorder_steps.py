"""What the recorder adds to a whole step of training, on a machine that is never quiet.

    python benchmarks/recorder_steps.py [--rounds 150] [--restarts 1] [--models resnet50 gpt]

For each model three processes run at a time, each of one rank on gloo in a group of one, under
DistributedDataParallel: one bare, one recorded, one bare again. Step by step they take turns, so
that only one runs at a time and what else the machine does meets all alike. Counted is the
processor time of a step, all threads of the process. A round gives one ratio, of the recorded step
to the mean of the two bare ones; printed is the median of the rounds with its interval of 95 %,
from the order of the ratios alone (no shape of their distribution is assumed), and the same of one
bare process against the other, which says what two equal processes look like. A claim about the
ratio is decided where the whole interval is on one side of it.

A group of one sends nothing: a call costs less than among several ranks, so that what the recorder
adds weighs more here than there.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from math import comb
from pathlib import Path
from typing import TYPE_CHECKING

import torch
import torch.distributed as dist
from torch import nn

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).resolve().parents[1]
WAYS = ("bare", "recorded", "bare again")
WARM = 4


def resnet50() -> tuple[nn.Module, Callable[[nn.Module], torch.Tensor]]:
    """Return ResNet-50 and its loss on two images."""
    sys.path.insert(0, str(ROOT / "tests" / "campaigns"))
    import resnet50_trace

    images, classes = torch.randn(2, 3, 32, 32), torch.zeros(2, dtype=torch.long)
    return resnet50_trace.resnet50(), lambda net: nn.functional.cross_entropy(net(images), classes)


def gpt() -> tuple[nn.Module, Callable[[nn.Module], torch.Tensor]]:
    """Return a causal transformer of six layers of width 256, and its loss on 2 x 64 tokens."""
    layer = nn.TransformerEncoderLayer(256, 8, 1024, batch_first=True, dropout=0.0)
    blocks = nn.TransformerEncoder(layer, 6, enable_nested_tensor=False)
    net = nn.Sequential(nn.Embedding(512, 256), blocks, nn.Linear(256, 512))
    tokens = torch.randint(0, 512, (2, 64))

    def loss(net: nn.Module) -> torch.Tensor:
        return nn.functional.cross_entropy(net(tokens).flatten(0, 1), tokens.flatten())

    return net, loss


MODELS = {"resnet50": resnet50, "gpt": gpt}


def work(model: str, way: str, folder: str) -> None:
    """Be one process: a step for each line that comes in, its seconds and calls for an answer."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    if way == "recorded":
        from planguard.capture import start

        start(Path(folder) / "run")
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    net, loss = MODELS[model]()
    # A small first bucket and small others: as many calls as a job of several nodes may have.
    net = nn.parallel.DistributedDataParallel(net, bucket_cap_mb=5)
    optimizer = torch.optim.AdamW(net.parameters())
    for _ in sys.stdin:
        begin = time.process_time()
        value = loss(net)
        value.backward()
        optimizer.step()
        optimizer.zero_grad()
        shown = value.detach()
        dist.all_reduce(shown)  # the loss that is printed
        print(time.process_time() - begin, flush=True)


def once(model: str, rounds: int) -> dict[str, list[float]]:
    """Start three processes and return the seconds of their steps."""
    with tempfile.TemporaryDirectory() as folder:
        own = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
        ranks = {
            way: subprocess.Popen(
                [sys.executable, __file__, "--work", model, way, folder],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=own,
            )
            for way in WAYS
        }  # fmt: skip
        took: dict[str, list[float]] = {way: [] for way in WAYS}
        try:
            for number in range(rounds + WARM):
                at = number % len(WAYS)
                for way in WAYS[at:] + WAYS[:at]:
                    ranks[way].stdin.write("\n")
                    ranks[way].stdin.flush()
                    took[way].append(float(ranks[way].stdout.readline()))
        finally:
            for rank in ranks.values():
                rank.stdin.close()
                rank.wait(timeout=60)
                rank.stdout.close()
        return {way: own[WARM:] for way, own in took.items()}


def middle(ratios: list[float]) -> tuple[float, float, float]:
    """Return the median of ratios, and the bounds that hold it 95 times of 100."""
    ordered, count = sorted(ratios), len(ratios)
    chance = [comb(count, k) / 2**count for k in range(count + 1)]
    first = max(0, next(k for k in range(count) if sum(chance[: k + 1]) > 0.025) - 1)
    return statistics.median(ordered), ordered[first], ordered[count - 1 - first]


def shown(ratios: list[float]) -> str:
    """Return the median and its interval."""
    return "{:.3f} ({:.3f} to {:.3f})".format(*middle(ratios))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=150)
    parser.add_argument("--restarts", type=int, default=1)
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--work", nargs=3, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.work:
        work(*asked.work)
        return
    print(
        f"{'model':<10} {'bare step':>9} {'rounds':>6}  {'recorded':<24} {'bare against bare':<24}"
    )
    for model in asked.models:
        for _ in range(asked.restarts):
            took = once(model, asked.rounds)
            rows = list(zip(*(took[way] for way in WAYS), strict=True))
            ratios = [2 * recorded / (bare + again) for bare, recorded, again in rows]
            control = [again / bare for bare, _, again in rows]
            print(
                f"{model:<10} {statistics.median(took['bare']) * 1e3:6.0f} ms {len(rows):>6}  "
                f"{shown(ratios):<24} {shown(control):<24}", flush=True,
            )  # fmt: skip


if __name__ == "__main__":
    main()
