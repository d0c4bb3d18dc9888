"""Write the schedule CSVs of this folder and of ``examples/pipelining`` with torch itself.

    python tests/samples/pipelining/regenerate.py [--check] [--large DIRECTORY]

The classes of ``torch.distributed.pipelining.schedules`` only compute with stage numbers when they
make an order, so plain objects stand in for the stages and no process group is needed. ``--check``
compares instead of writing; ``--large`` writes the 8x16 orders, which are not kept in the
repository. The files come from torch 2.13.
"""

from __future__ import annotations

import argparse
import copy
import csv
import io
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = Path(__file__).resolve().parent
EXAMPLES = HERE.parents[2] / "examples" / "pipelining"
SIZES = ((2, 4), (4, 8))
LARGE = (8, 16)
CLASSES = {
    "gpipe": ("ScheduleGPipe", 1, "loop"),
    "loopedbfs": ("ScheduleLoopedBFS", 2, "loop"),
    "interleaved1f1b": ("ScheduleInterleaved1F1B", 2, "loop"),
    "interleavedzb": ("ScheduleInterleavedZeroBubble", 2, "loop"),
    "zbv": ("ScheduleZBVZeroBubble", 2, "v"),
    "dualpipev": ("ScheduleDualPipeV", 2, "v"),
}
"""File name -> class, stages per rank, and how stages are laid out over the ranks."""

Rows = dict[int, list[Any]]


@dataclass
class Stage:
    """What the schedule classes read of a pipeline stage."""

    stage_index: int
    num_stages: int
    group_size: int
    group_rank: int = 0
    submod: None = None
    group: None = None
    stage_index_to_group_rank: dict[int, int] | None = None
    has_backward: bool = True

    @property
    def is_first(self) -> bool:
        """True for stage 0."""
        return self.stage_index == 0

    @property
    def is_last(self) -> bool:
        """True for the last stage."""
        return self.stage_index == self.num_stages - 1


def make_schedule(
    short: str, ranks: int, microbatches: int, *, defer: bool = False, per_rank: int | None = None
) -> Any:
    """Construct a torch schedule by its short name; ``per_rank`` overrides the stages per rank."""
    from torch.distributed.pipelining import schedules
    from torch.distributed.pipelining._utils import generate_stage_to_rank_mapping

    class_name, usual, style = CLASSES.get(short, (short, 1, "loop"))
    count = ranks * (per_rank or usual)
    rank_of = generate_stage_to_rank_mapping(ranks, count, style)
    stages = [Stage(index, count, ranks) for index in range(count) if rank_of[index] == 0]
    make = getattr(schedules, class_name)

    def loss(*_: object) -> int:
        return 0

    if not issubclass(make, schedules.PipelineScheduleMulti):
        return make(stages[0], microbatches, loss_fn=loss)
    options = {"defer_pp_recv": True} if defer else {}  # torch 2.11 and 2.12 have no such option
    return make(stages, microbatches, loss_fn=loss, **options)


def compute_only(schedule: Any) -> Rows:
    """Give the computations of a schedule, bubbles as None."""
    order = getattr(schedule, "pipeline_order", None) or schedule._get_pipeline_order()
    return {rank: [a for a in row if a is None or a.is_compute_op] for rank, row in order.items()}


def with_comms(schedule: Any, microbatches: int, *, defer: bool = False) -> Rows:
    """Give the order with communication; GPipe has none of its own, so torch's passes make it."""
    from torch.distributed.pipelining import schedules

    order = getattr(schedule, "pipeline_order_with_comms", None)
    if order:
        return dict(order)
    rows = {
        rank: schedules._add_reduce_grad(schedules._add_unshard_reshard(row), microbatches)
        for rank, row in compute_only(schedule).items()
    }
    lowered = schedules._add_send_recv(copy.deepcopy(rows), lambda stage: stage, len(rows))
    return schedules._defer_recv_ops(lowered, lambda stage: stage) if defer else lowered


def receives_at_consumers(rows: Rows) -> Rows:
    """Move every receive right before its consumer: the order that hung in pytorch#172668."""
    return {rank: _late_receives(row) for rank, row in rows.items()}


def _late_receives(row: list[Any]) -> list[Any]:
    receives = {str(a): a for a in row if a.computation_type.value in ("RECV_F", "RECV_B")}
    out = []
    for action in row:
        if str(action) in receives:
            continue
        letter = {"F": "RECV_F", "B": "RECV_B", "I": "RECV_B"}.get(action.computation_type.value)
        wanted = f"{action.stage_index}{letter}{action.microbatch_index}"
        out += [receives[wanted], action] if wanted in receives else [action]
    return out


def dump(rows: Rows) -> str:
    """Write rows as torch's ``_dump_csv`` does."""
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    for rank in sorted(rows):
        writer.writerow("" if action is None else str(action) for action in rows[rank])
    return text.getvalue()


def orders(ranks: int, microbatches: int) -> Iterator[tuple[str, str]]:
    """Yield name and text of all CSV files of one size."""
    size = f"{ranks}x{microbatches}"
    for short in CLASSES:
        schedule = make_schedule(short, ranks, microbatches)
        deferred = make_schedule(short, ranks, microbatches, defer=True)
        yield f"{short}-compute-only-{size}.csv", dump(compute_only(schedule))
        yield f"{short}-{size}.csv", dump(with_comms(schedule, microbatches))
        late = with_comms(deferred, microbatches, defer=True)
        yield f"{short}-deferred-{size}.csv", dump(late)


def files() -> Iterator[tuple[Path, str]]:
    """Yield path and text of every file that the repository keeps."""
    kept = {}
    for ranks, microbatches in SIZES:
        for name, text in orders(ranks, microbatches):
            kept[name] = text
            yield HERE / name, text
    for name in (
        "interleaved1f1b-4x8.csv",
        "interleaved1f1b-deferred-4x8.csv",
        "zbv-deferred-2x4.csv",
    ):
        yield EXAMPLES / name, kept[name]
    hung = receives_at_consumers(with_comms(make_schedule("interleaved1f1b", 2, 4), 4))
    yield EXAMPLES / "pytorch-172668.csv", dump(hung)


def main() -> int:
    """Write or compare the files; the exit code is 1 when a comparison fails."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--check", action="store_true", help="compare with the files, write none")
    parser.add_argument("--large", type=Path, help="also write the 8x16 orders into this directory")
    arguments = parser.parse_args()
    wanted = list(files())
    if arguments.large is not None:
        wanted += [(arguments.large / name, text) for name, text in orders(*LARGE)]
    stale = [path for path, text in wanted if _differs(path, text)]
    for path, text in wanted:
        if path in stale and not arguments.check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, newline="")
    for path in stale:
        print(("stale: " if arguments.check else "wrote ") + str(path))
    return 1 if stale and arguments.check else 0


def _differs(path: Path, text: str) -> bool:
    return not path.exists() or path.read_bytes() != text.encode()


if __name__ == "__main__":
    sys.exit(main())
