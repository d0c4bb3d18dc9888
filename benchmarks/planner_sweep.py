"""Every schedule, size and option of torch's pipelining, decided under every model.

    python benchmarks/planner_sweep.py                # the installed torch
    python benchmarks/planner_sweep.py --quick

Builds the schedules of ``torch.distributed.pipelining`` itself, of 2 to 8 ranks, 1 to 3 stages a
rank and several numbers of microbatches, with deferred receives where the class has them. The
adapter reads each in the three ways in which lists of messages can reach a backend, waiting for
sends at once or at the end, alone and with two FSDP ranks a stage. What is not SAFE under the
setting that torch uses itself (``mixed``, ``end``) is listed; docs/bugs-found.md says which of it
is known.
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import planguard

ROOT = Path(__file__).resolve().parents[1]
MODELS = ("gloo", "nccl", "nccl-lazy", "nccl-serialized", "mpi-eager", "mpi-sync", "mpi-pg")
CLASSES = ("Schedule1F1B", "gpipe", "loopedbfs", "interleaved1f1b", "interleavedzb", "zbv",
           "dualpipev")  # fmt: skip
LOWERINGS = ("mixed", "unbatched", "batched")
SENDS = ("end", "at-once")
DEFERRED = {"loopedbfs", "interleaved1f1b", "interleavedzb", "zbv", "dualpipev"}


def maker() -> Any:
    """The script that makes the samples, which knows how torch's classes are made."""
    path = ROOT / "planners" / "samples" / "pipelining" / "regenerate.py"
    spec = importlib.util.spec_from_file_location("regenerate", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["regenerate"] = module
    spec.loader.exec_module(module)
    return module


def sizes(short: str, *, quick: bool) -> list[tuple[int, int, int]]:
    """Ranks, microbatches and stages a rank that a class admits."""
    ranks = (2, 4) if quick else (2, 3, 4, 6, 8)
    stages = {"zbv": (2,), "dualpipev": (2,), "Schedule1F1B": (1,), "gpipe": (1,)}
    found = itertools.product(
        ranks, (1, 2, 4), stages.get(short, (1, 2) if quick else (1, 2, 3, 4))
    )
    return [(n, n * times, per) for n, times, per in found]


def made(make: Any, short: str, size: tuple[int, int, int], *, defer: bool) -> Any:
    """The order of a schedule with its communication; None where torch refuses the size."""
    ranks, microbatches, per_rank = size
    try:
        schedule = make.make_schedule(short, ranks, microbatches, defer=defer, per_rank=per_rank)
        order = make.with_comms(schedule, microbatches, defer=defer)
    except (ValueError, RuntimeError, AssertionError, TypeError) as error:
        return f"{type(error).__name__}: {error}"
    return {rank: list(row) for rank, row in order.items()}


def main() -> None:
    """Decide all of them and print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="fewer sizes")
    given = parser.parse_args()
    import torch

    make, table = maker(), Counter[tuple[str, str, str, str]]()
    refused, listed, plans = Counter[str](), set[str](), 0
    start = time.perf_counter()
    for short in CLASSES:
        for defer in (False, True) if short in DEFERRED else (False,):
            for size in sizes(short, quick=given.quick):
                order = made(make, short, size, defer=defer)
                if isinstance(order, str):
                    refused[f"{short}{' deferred' if defer else ''}: {order[:90]}"] += 1
                    continue
                for lowering, wait, shards in itertools.product(LOWERINGS, SENDS, (1, 2)):
                    plan = planguard.load(
                        order, planner="pipelining", lowering=lowering, send_wait=wait,
                        shards=shards,
                    )  # fmt: skip
                    plans += 1
                    for model in MODELS:
                        outcome = planguard.check(plan, model=model).outcome.value
                        name = f"{short}{' deferred' if defer else ''}"
                        table[name, lowering, wait, f"{model} {outcome}"] += 1
                        if outcome != "SAFE" and (lowering, wait) == ("mixed", "end"):
                            listed.add(f"{name} under {model}: {outcome}")
            print(f"\r{short}: {plans:,} plans", end="", file=sys.stderr)
    print(f"\ntorch {torch.__version__}: {plans:,} plans, {plans * len(MODELS):,} verdicts, "
          f"{time.perf_counter() - start:.0f} s")  # fmt: skip
    print_table(table)
    print("\nnot SAFE as torch itself sends (mixed, end):")
    print("\n".join(f"  {line}" for line in sorted(listed)) or "  none")
    print("\nrefused by torch:")
    print("\n".join(f"  {count:4} times {line}" for line, count in sorted(refused.items())))


def print_table(table: Counter[tuple[str, str, str, str]]) -> None:
    """Print how many of the sizes are safe, by class and by how messages are sent."""
    kinds = sorted({key[:3] for key in table})
    print(f"\n{'class':24}{'lists':11}{'sends':9}" + "".join(f"{model:>17}" for model in MODELS))
    for kind in kinds:
        cells = []
        for model in MODELS:
            found = {key[3].split()[1]: n for key, n in table.items()
                     if key[:3] == kind and key[3].split()[0] == model}  # fmt: skip
            cells.append(f"{found.get('SAFE', 0)}/{sum(found.values())}")
        print(f"{kind[0]:24}{kind[1]:11}{kind[2]:9}" + "".join(f"{cell:>17}" for cell in cells))


if __name__ == "__main__":
    main()
