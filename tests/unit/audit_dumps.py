"""Flight Recorder dumps made for tests of the audit, written ten minutes behind the last call."""

from __future__ import annotations

import json
import os
import pickle

START = 1_700_000_000_000_000_000
STOOD_NS = 600_000_000_000


def entry(op="all_reduce", *, number, seq, state="completed", group="0", line=1, **more):
    """One Flight Recorder entry of NCCL."""
    return {
        "record_id": number,
        "process_group": (group, "default_pg" if group == "0" else group),
        "profiling_name": f"nccl:{op}",
        "collective_seq_id": seq,
        "p2p_seq_id": seq if op.startswith(("send", "recv")) else 0,
        "op_id": seq,
        "time_created_ns": START + number * 1_000_000,
        "input_sizes": [[4]],
        "output_sizes": [[4]],
        "input_dtypes": ["Float"],
        "state": state,
        "is_p2p": op.startswith(("send", "recv")),
        "frames": [{"filename": "train.py", "line": line, "name": "step"}],
        **more,
    }


def write(folder, rank, entries, groups=None, world=2, **top):
    """Write a dump of one rank."""
    config = {"0": {"desc": "default_pg", "ranks": json.dumps(list(range(world)))}}
    config |= {
        name: {"desc": name, "ranks": json.dumps(ranks)} for name, ranks in (groups or {}).items()
    }
    dump = {"version": "2.10", "pg_config": config, "entries": entries, **top}
    path = folder / f"rank_{rank}"
    path.write_bytes(pickle.dumps(dump, 2))
    written = max((one.get("time_created_ns") or 0 for one in entries), default=0) or START
    os.utime(path, ns=(written + STOOD_NS,) * 2)


def codes(verdict):
    """The codes of a verdict."""
    return [f.code for f in verdict.findings]
