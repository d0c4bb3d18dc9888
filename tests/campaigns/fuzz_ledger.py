"""What the runs of fuzz_readers.py gave so far: one line of JSON a run, and their sums."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results" / "fuzz"
LEDGER = RESULTS / "runs.jsonl"
FORMATS = {
    "JSON": ("alpa", "ddp", "deepspeed", "fsdp", "galvatron", "hiccl", "horovod", "megatron",
             "mscclpp", "plan", "certificate"),
    "XML": ("msccl",),
    "FX graphs": ("fx",),
    "pickles": ("flight-recorder", "snapshot"),
    "traces and logs": ("kineto", "execution-trace", "nccl-log", "own-log", "stacks", "run-log",
                        "shim-log", "mpi-log", "chakra", "chakra-trace", "text", "ras", "clog",
                        "packed", "sieve"),
    "CSV": ("pipelining",),
    "HLO and MLIR": ("xla", "mlir"),
    "Python": ("nnscaler",),
}  # fmt: skip
"""What the readers read; there is none of YAML."""


def line(row: dict[str, Any]) -> str:
    """Return the line about one run, or about all of one reader."""
    return (
        f"{row['reader']:16} {row['seconds']:>6} s {row['inputs']:>10,} inputs "
        f"{row['branches']:>6} branches {row['MiB']:>5} MiB {row['slowest']:>3} s  "
        + ("FOUND SOMETHING" if row["found"] else "nothing found")
    )


def runs() -> list[dict[str, Any]]:
    """Return what every run so far gave, oldest first."""
    return [json.loads(row) for row in LEDGER.read_text().splitlines()] if LEDGER.exists() else []


def total(rows: list[dict[str, Any]]) -> str:
    """Return lines for each reader, and for each format: sums, largest values, the last finding."""
    lines = []
    for title, names in FORMATS.items():
        each = [summed(name, [row for row in rows if row["reader"] == name]) for name in names]
        lines += [line(row) for row in each]
        whole = summed(title, each)
        lines.append(line(whole | {"found": any(row["found"] for row in each)}) + "\n")
    return "\n".join(lines)


def summed(title: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return rows as one: times and inputs added, the largest of the rest, the last finding."""
    sums = {key: sum(row[key] for row in rows) for key in ("seconds", "inputs")}
    most = {
        key: max((row[key] for row in rows), default=0) for key in ("branches", "MiB", "slowest")
    }
    return {"reader": title, **sums, **most, "found": bool(rows) and rows[-1]["found"]}
