"""Every schedule, size and option of torch's pipelining, decided under every model.

    python tests/campaigns/planner_sweep.py                                 # the installed torch
    python tests/campaigns/planner_sweep.py --quick
    python tests/campaigns/planner_sweep.py --append sweep.jsonl  # goes on where it stopped
    python tests/campaigns/planner_sweep.py --sum sweep.jsonl     # the tables of all versions

Builds the schedules of ``torch.distributed.pipelining`` itself, of 2 to 8 ranks, 1 to 3 stages a
rank and even and uneven numbers of microbatches, with deferred receives where the class has them,
and the part of them that ``eval()`` runs. The adapter reads each in the three ways in which lists
of messages can reach a backend, waiting for sends at once or at the end, alone and with two FSDP
ranks a stage. Classes with a loop of their own are recorded from that loop. What is not SAFE in the
way torch sends itself (``mixed``, ``end``) is listed; docs/planner-sweep.md has the last result.

A file of rows serves several versions of torch: where two versions make the same order, action for
action, the verdicts of the first are taken for the second.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import itertools
import json
import sys
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import planguard

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

ROOT = Path(__file__).resolve().parents[2]
MODELS = ("gloo", "nccl", "nccl-lazy", "nccl-serialized", "mpi-eager", "mpi-sync", "mpi-pg")
LOOPS = {"1f1b": "Schedule1F1B", "gpipe": "ScheduleGPipe"}
"""Classes whose own loop is recorded."""
CLASSES = (
    "1f1b", "gpipe", "gpipe-order", "1f1b-order", "loopedbfs", "interleaved1f1b",
    "interleavedzb", "zbv", "dualpipev",
)  # fmt: skip
ORDERS = {"gpipe-order": "gpipe", "1f1b-order": "Schedule1F1B"}
"""The orders that the same classes give to the visualizer, lowered by torch's passes."""
LOWERINGS = ("mixed", "unbatched", "batched")
SENDS = ("end", "at-once")
DEFERRED = {"loopedbfs", "interleaved1f1b", "interleavedzb", "zbv", "dualpipev"}
STAGES = {"zbv": (2,), "dualpipev": (2,), "1f1b": (1,), "gpipe": (1,), "gpipe-order": (1,),
          "1f1b-order": (1,)}  # fmt: skip

Row = dict[str, Any]
Setting = tuple[str, str, int]


def maker() -> Any:
    """The script that makes the samples, which knows how torch's classes are made."""
    path = ROOT / "tests" / "samples" / "pipelining" / "regenerate.py"
    spec = importlib.util.spec_from_file_location("regenerate", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["regenerate"] = module
    spec.loader.exec_module(module)
    return module


def sizes(short: str, *, quick: bool) -> list[tuple[int, int, int]]:
    """Ranks, microbatches and stages a rank to try with a class; torch refuses some."""
    per_rank = STAGES.get(short, (1, 2, 3))
    found = []
    for n, per in itertools.product((2, 4) if quick else (2, 3, 4, 8), per_rank):
        counts = {n, n + 1, 2 * n, 4 * n} if n < 8 else {n, 2 * n}
        found += [(n, count, per) for count in sorted(counts | {1}) if not quick or per < 3]
    return found


def variants(short: str) -> Iterator[tuple[str, bool, bool]]:
    """Name, deferred receives, and whether ``eval()`` runs it."""
    for late in (False, True) if short in DEFERRED else (False,):
        for forward in (False,) if short in ORDERS or late else (False, True):
            yield short + " deferred" * late + " eval" * forward, late, forward


def made(make: Any, short: str, size: tuple[int, int, int], *, defer: bool, forward: bool) -> Any:
    """The order of a schedule with its communication, its loop, or why torch refuses the size."""
    from planguard.planners.pipelining import record_run

    ranks, microbatches, per_rank = size
    name = LOOPS.get(short, ORDERS.get(short, short))
    try:
        schedule = make.make_schedule(name, ranks, microbatches, defer=defer, per_rank=per_rank)
        if short in LOOPS:
            return record_run(schedule, forward_only=forward)
        order = make.with_comms(schedule, microbatches, defer=defer)
    except (ValueError, RuntimeError, AssertionError, TypeError) as error:
        return f"{type(error).__name__}: {error}"
    return order


def digest(order: Any) -> str:
    """Name what was made: equal orders have equal names."""
    if not isinstance(order, dict):
        text = repr(order.rows)
    else:
        text = "\n".join(f"{rank}:" + ",".join(map(str, row)) for rank, row in order.items())
    return hashlib.sha256(text.encode()).hexdigest()[:20]


def settings(order: Any, *, quick: bool) -> list[Setting]:
    """The ways in which an order is read.

    A recorded loop waits where it waits. In an order every list holds messages of one kind, so that
    ``unbatched`` is ``mixed``, and only the small sizes are read in all twelve ways.
    """
    if not isinstance(order, dict):
        return [(lowering, "end", 1) for lowering in LOWERINGS]
    if quick:
        return list(itertools.product(LOWERINGS, SENDS, (1, 2)))
    return [
        ("mixed", "end", 1),
        ("mixed", "end", 2),
        ("mixed", "at-once", 1),
        ("batched", "end", 1),
    ]


def decide(order: Any, setting: Setting, *, forward: bool) -> dict[str, str]:
    """The outcome under every model."""
    lowering, wait, shards = setting
    options: dict[str, Any] = {"lowering": lowering}
    if isinstance(order, dict):
        options |= {"send_wait": wait, "shards": shards, "forward_only": forward}
    plan = planguard.load(order, planner="pipelining", **options)
    return {model: planguard.check(plan, model=model).outcome.value for model in MODELS}


def sweep(classes: Iterable[str], known: list[Row], *, quick: bool) -> Iterator[Row]:
    """Decide what is not among the known rows, one row each."""
    import torch

    version, make = torch.__version__, maker()
    done = {key_of(row) for row in known if row["torch"] == version}
    verdicts = {(row["digest"], row["lists"], row["sends"], row["shards"]): row["outcomes"]
                for row in known if "outcomes" in row}  # fmt: skip
    for short in classes:
        tried = itertools.product(variants(short), sizes(short, quick=quick))
        for (name, late, forward), size in tried:
            order = made(make, short, size, defer=late, forward=forward)
            head = {"torch": version, "class": name, "size": list(size)}
            if isinstance(order, str):
                row = head | {"refused": order[:120]}
                if key_of(row) not in done:
                    yield row
                continue
            mark = digest(order) + (" eval" if forward else "")
            for setting in settings(order, quick=quick):
                row = head | dict(zip(("lists", "sends", "shards"), setting, strict=True))
                row["digest"] = mark
                if key_of(row) in done:
                    continue
                at = (mark, *setting)
                row["taken"] = at in verdicts
                row["outcomes"] = verdicts[at] = verdicts.get(at) or decide(
                    order, setting, forward=forward
                )
                yield row


def key_of(row: Row) -> tuple[Any, ...]:
    """What one row is about."""
    return (row["torch"], row["class"], tuple(row["size"]), row.get("lists"), row.get("sends"),
            row.get("shards"))  # fmt: skip


def read(path: Path | None) -> list[Row]:
    """The rows of a file; an unfinished last line is left out."""
    if path is None or not path.exists():
        return []
    lines = path.read_text().splitlines()
    return [json.loads(line) for line in lines if line.endswith("}")]


def main() -> None:
    """Decide all of them and print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="fewer sizes")
    parser.add_argument("--classes", default=",".join(CLASSES), help="of these alone")
    parser.add_argument("--append", type=Path, help="keep the rows here, and go on from there")
    parser.add_argument("--sum", type=Path, help="decide nothing; print what a file holds")
    given = parser.parse_args()
    rows = read(given.sum or given.append)
    if given.sum is None:
        rows += run(given, rows)
    for version in sorted({row["torch"] for row in rows}):
        print_version(version, [row for row in rows if row["torch"] == version])


def run(given: argparse.Namespace, known: list[Row]) -> list[Row]:
    """Decide and write down, with a line of progress for every hundred rows."""
    rows, start = [], time.perf_counter()
    for row in sweep(given.classes.split(","), known, quick=given.quick):
        rows.append(row)
        if given.append is not None:
            with given.append.open("a") as file:
                file.write(json.dumps(row) + "\n")
        if len(rows) % 100 == 0:
            spent = time.perf_counter() - start
            print(f"{row['class']}: {len(rows):,} rows, {spent:.0f} s", file=sys.stderr)
    return rows


def print_version(version: str, rows: list[Row]) -> None:
    """Print the tables of one version."""
    decided = [row for row in rows if "outcomes" in row]
    fresh = sum(not row["taken"] for row in decided)
    orders = {(row["class"], *row["size"]) for row in decided}
    print(f"\ntorch {version}: {len(orders):,} schedules, {len(decided):,} plans "
          f"({len(decided) - fresh:,} with orders decided before), "
          f"{len(decided) * len(MODELS):,} verdicts")  # fmt: skip
    print_table(decided)
    print("\nnot SAFE as torch itself sends (mixed, end):")
    found = Counter(
        f"{row['class']} under {model}: {outcome}"
        for row in decided if (row["lists"], row["sends"]) == ("mixed", "end")
        for model, outcome in row["outcomes"].items() if outcome != "SAFE"
    )  # fmt: skip
    print("\n".join(f"  {line} ({count})" for line, count in sorted(found.items())) or "  none")
    print("\nrefused by torch:")
    refused = Counter(f"{row['class']}: {row['refused'][:90]}" for row in rows if "refused" in row)
    print("\n".join(f"  {count:4} times {line}" for line, count in sorted(refused.items())))


def print_table(rows: list[Row]) -> None:
    """Print how many of the plans are safe, by class and by how messages are sent."""
    cells: dict[tuple[str, str, str], Counter[str]] = defaultdict(Counter)
    for row in rows:
        cell = cells[row["class"], row["lists"], row["sends"]]
        cell["plans"] += 1
        cell.update(model for model, outcome in row["outcomes"].items() if outcome == "SAFE")
    print(f"\n{'class':26}{'lists':11}{'sends':9}" + "".join(f"{model:>17}" for model in MODELS))
    for kind, cell in sorted(cells.items()):
        shown = "".join(f"{cell[model]}/{cell['plans']}".rjust(17) for model in MODELS)
        print(f"{kind[0]:26}{kind[1]:11}{kind[2]:9}{shown}")


if __name__ == "__main__":
    main()
