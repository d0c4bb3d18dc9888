"""``planguard audit`` and torch's analyzer of Flight Recorder dumps on what dumps leave out.

    python benchmarks/audit_analyzer.py             # a minute; prints the table
    python benchmarks/audit_analyzer.py --write     # and puts it into docs/peers.md
    python benchmarks/audit_analyzer.py --show NAME # what torch's analyzer prints

Dumps are written in the format of version 2.10 as NCCL makes them: launches of several messages,
messages on groups of two, rings that overflowed, ranks without a dump. The fault is known.
PlanGuard is right when a statement has the code, and nothing certain is wrong. Torch's analyzer is
right when its text has the words given here for the fault, and none of a fault where there is none;
an exception is told as such.
"""

from __future__ import annotations

import argparse
import json
import pickle
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

PAGE = Path(__file__).resolve().parents[1] / "docs" / "peers.md"
BEGIN, END = "<!-- begin: python benchmarks/audit_analyzer.py --write -->", "<!-- end: analyzer -->"
FAULT = re.compile(
    r"MISMATCH|[Nn]ot all ranks|[Mm]issing ranks|Collective .* error|UNDECIDED|cannot decide"
)
Entry = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """Dumps of one run, and the truth.

    Attributes:
        make: Writes nothing; returns the entries of each rank that left a dump.
        world: Ranks of the job.
        codes: Codes that are right; none where nothing is wrong.
        ranks: Ranks that may be named; empty where nobody can be.
        torch: What the analyzer's text must hold.
        groups: Members of groups beside the default one.
        damage: Ranks whose file is cut in the middle.
    """

    make: Callable[[], dict[int, list[Entry]]]
    world: int
    codes: tuple[str, ...] = ()
    ranks: tuple[int, ...] = ()
    torch: str = ""
    groups: dict[str, list[int]] = field(default_factory=dict)
    damage: tuple[int, ...] = ()


def entry(number: int, title: str, seq: int, state: str = "completed", **more: Any) -> Entry:
    """One entry of a dump."""
    is_pair = bool(re.match(r"(send|recv|coalesced)", title)) and more.pop("pair", True)
    group = more.pop("group", "0")
    size = more.pop("size", [1024])
    return {
        "frames": [{"filename": "train.py", "line": more.pop("line", 10), "name": "step"}],
        "record_id": number,
        "pg_id": 0,
        "process_group": (group, "default_pg" if group == "0" else group),
        "collective_seq_id": 0 if is_pair else seq,
        "p2p_seq_id": seq if is_pair else 0,
        "op_id": seq,
        "profiling_name": f"nccl:{title}",
        "time_created_ns": 1_700_000_000_000_000_000 + number * 1_000_000,
        "input_sizes": [size],
        "input_dtypes": ["Float"],
        "output_sizes": [size],
        "output_dtypes": ["Float"],
        "state": state,
        "time_discovered_started_ns": None,
        "time_discovered_completed_ns": None,
        "retired": state == "completed",
        "timeout_ms": 600_000,
        "is_p2p": is_pair,
        **more,
    }


def reduces(count: int, end: str = "completed", start: int = 0) -> list[Entry]:
    """all_reduce calls with numbers from ``start`` + 1, of which the last is in a state."""
    return [
        entry(n, "all_reduce", n + 1, end if n == start + count - 1 else "completed")
        for n in range(start, start + count)
    ]


def batch(rank: int, world: int, state: str = "completed", *, lacks: str = "") -> list[Entry]:
    """A launch of a send to the next and a receive from the previous rank."""
    after, before = (rank + 1) % world, (rank - 1) % world
    titles = [f"send {rank}->{after}", f"recv {rank}<-{before}"]
    rows = [
        entry(n, t, 1, "scheduled" if state != "completed" else state)
        for n, t in enumerate(t for t in titles if not lacks or not t.startswith(lacks))
    ]
    return [*rows, entry(len(rows), "coalesced", 1, state, size=[])]


def pair(rank: int, other: int, first: str, state: str) -> list[Entry]:
    """A message on a group of two; places in it are the order of ranks."""
    me = 0 if rank < other else 1
    arrow = "->" if first == "send" else "<-"
    name = f"{min(rank, other)}:{max(rank, other)}"
    return [entry(0, f"{first} {me}{arrow}{1 - me}", 1, state, group=name)]


PAIRS = {"0:1": [0, 1], "1:2": [1, 2], "0:2": [0, 2]}
CASES: dict[str, Case] = {
    "coalesced messages, all end": Case(lambda: {r: batch(r, 3) for r in range(3)}, 3),
    "coalesced messages, one receive never posted": Case(
        lambda: {r: batch(r, 3, "started", lacks="recv" if r == 1 else "") for r in range(3)},
        3, ("PG208", "PG209", "PG501"), (0, 1), r"MISMATCH|0->1|recv",
    ),
    "coalesced messages, one rank never comes": Case(
        lambda: {r: batch(r, 3, "started") if r != 1 else [] for r in range(3)},
        3, ("PG208", "PG209", "PG007", "PG004"), (1,), r"[Mm]issing|MISMATCH|UNDECIDED",
    ),
    "pairwise communicators, all end": Case(
        lambda: {0: pair(0, 1, "send", "completed"), 1: pair(1, 0, "recv", "completed"), 2: []},
        3, groups=PAIRS,
    ),
    "pairwise communicators, head to head": Case(
        lambda: {r: pair(r, 1 - r, "send", "started") for r in range(2)} | {2: []},
        3, ("PG001",), (0, 1), r"MISMATCH|send", groups=PAIRS,
    ),
    "pairwise communicators, a ring of sends": Case(
        lambda: {r: pair(r, (r + 1) % 3, "send", "started") for r in range(3)},
        3, ("PG001",), (0, 1, 2), r"cycle|deadlock", groups=PAIRS,
    ),
    "rings overflowed, all end": Case(
        lambda: {r: reduces(8 - 2 * r, start=10 + 2 * r) for r in range(3)}, 3
    ),
    "rings overflowed, one rank never comes": Case(
        lambda: {r: reduces(6 if r == 2 else 7, "completed" if r == 2 else "started", 10)
                 for r in range(3)},
        3, ("PG007",), (2,), r"[Mm]issing ranks.*\b2\b|[Nn]ot all ranks",
    ),
    "the culprit left no dump": Case(
        lambda: {r: reduces(3, "started") for r in (0, 1)},
        3, ("PG501",), (0, 1), r"missed FR dumps from ranks \(\{2\}\)",
    ),
    "a bystander left no dump": Case(
        lambda: {r: reduces(2 if r == 2 else 3, "completed" if r == 2 else "started")
                 for r in (0, 2, 3)},
        4, ("PG007",), (2,), r"[Mm]issing ranks.*\b2\b",
    ),
    "a bystander's dump is cut": Case(
        lambda: {r: reduces(2 if r == 2 else 3, "completed" if r == 2 else "started")
                 for r in range(4)},
        4, ("PG007",), (2,), r"[Mm]issing ranks.*\b2\b", damage=(1,),
    ),
    "the lowest rank has another size": Case(
        lambda: {r: [*reduces(1), entry(1, "all_reduce", 2, "started",
                                        size=[512 if r == 0 else 1024])] for r in range(3)},
        3, ("PG202",), (0,), r"MISMATCH",
    ),
    "equal calls swapped on one rank": Case(
        lambda: {r: [entry(n, "all_reduce", n + 1, line=line)
                     for n, line in enumerate((20, 10) if r == 1 else (10, 20))]
                 for r in range(3)},
        3, ("PG212",), (0, 1, 2), r"MISMATCH",
    ),
    "two groups in opposite orders": Case(
        lambda: {r: [entry(0, "all_reduce", 1, "started", group=name)]
                 for r, name in enumerate(("0:1", "1:2", "0:2"))},
        3, ("PG004",), (0, 1, 2), r"cycle|deadlock", groups=PAIRS,
    ),
}  # fmt: skip


def write(folder: Path, case: Case) -> None:
    """Write the dumps of a case."""
    groups = {"0": list(range(case.world)), **case.groups}
    for rank, entries in case.make().items():
        config = {
            name: {
                "name": name,
                "desc": "default_pg" if name == "0" else name,
                "ranks": json.dumps(members),
            }
            for name, members in groups.items()
            if rank in members
        }
        dump = {
            "version": "2.10",
            "pg_config": config,
            "pg_status": {},
            "comm_lib_version": "2.27.5",
            "entries": entries,
        }
        data = pickle.dumps(dump, 2)
        if rank in case.damage:
            data = data[: len(data) // 2]
        (folder / f"trace_rank_{rank}").write_bytes(data)


def ours(folder: Path, case: Case) -> str:
    """Return how right the audit is."""
    import planguard as pg

    verdict: Any = pg.audit(folder, prefix="trace_rank_", world_size=case.world)
    errors = [f for f in verdict.errors if f.certainty != "heuristic"]
    if not case.codes:
        return f"**alarm** {errors[0].code}" if errors else "right"
    if any(f.code not in case.codes or not set(f.ranks) <= set(case.ranks) for f in errors):
        return f"**wrong** {errors[0].code} {list(errors[0].ranks)}"
    told = [f for f in verdict.findings if f.code in case.codes]
    return f"right ({told[0].code})" if told else "**missed**"


def theirs(folder: Path, case: Case) -> tuple[str, str]:
    """Return how right torch's analyzer is, and its text."""
    module = "torch.distributed.flight_recorder.fr_trace"
    command = [sys.executable, "-m", module, str(folder), "-p", "trace_rank_"]
    done = subprocess.run(
        [*command, "--allow-incomplete-ranks"],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    text = done.stdout + done.stderr
    if done.returncode:
        error = text.strip().splitlines()[-1].partition(":")[0]
        return f"fails ({error[:40]})", text
    is_fault = FAULT.search(text) is not None
    if not case.codes:
        return ("**alarm**" if is_fault else "right"), text
    if not re.search(case.torch, text) and "We cannot decide" in text:
        return "undecided", text
    return ("right" if re.search(case.torch, text) and is_fault else "**missed**"), text


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--write", action="store_true", help="put the table into docs/peers.md")
    parser.add_argument("--show", metavar="NAME", help="only this case, with torch's text")
    args = parser.parse_args()
    rows = ["| dumps | PlanGuard | torch's analyzer |", "|---|---|---|"]
    is_wrong = False
    for name, case in CASES.items():
        if args.show not in (None, name):
            continue
        with tempfile.TemporaryDirectory(prefix="analyzer-") as scratch:
            write(Path(scratch), case)
            mine, (other, text) = ours(Path(scratch), case), theirs(Path(scratch), case)
        is_wrong = is_wrong or "**" in mine
        rows.append(f"| {name} | {mine} | {other} |")
        print(rows[-1], flush=True)
        if args.show:
            print(text)
    if args.write:
        text = PAGE.read_text("utf-8")
        start, end = text.index(BEGIN) + len(BEGIN), text.index(END, text.index(BEGIN))
        PAGE.write_text(text[:start] + "\n" + "\n".join(rows) + "\n" + text[end:], "utf-8")
    return int(is_wrong)


if __name__ == "__main__":
    sys.exit(main())
