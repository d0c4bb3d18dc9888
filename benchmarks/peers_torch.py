"""What torch's own tools say of a plan: the Flight Recorder analyzer and the simulator."""

from __future__ import annotations

import contextlib
import io
import json
import logging
import sys
from argparse import Namespace

from peers_rules import COLLECTIVES, PAIR, NotApplicable, members, programs

NAMES = {
    "all_gather_into_tensor": "_all_gather_base", "reduce_scatter_tensor": "_reduce_scatter_base",
    "all_to_all_single": "all_to_all",
}  # fmt: skip
TYPES = {"f32": "Float", "f16": "Half", "bf16": "BFloat16", "f64": "Double", "i64": "Long",
         "i32": "Int", "u8": "Byte", "i8": "Char", "bool": "Bool"}  # fmt: skip


def dumps(flat: dict, stands: dict[int, int]) -> dict[str, dict]:
    """Give what NCCL's recorder would hold: every rank's calls up to where it stands.

    Args:
        flat: a flat plan.
        stands: the action at which each stuck rank stands.
    """
    groups = ["world", *flat.get("groups", {})]
    found = {}
    for rank, program in programs(flat).items():
        own = [name for name in groups if rank in members(flat, name)]
        config = {
            str(groups.index(name)): {
                "name": str(groups.index(name)),
                "desc": "default_pg" if name == "world" else name,
                "ranks": json.dumps(members(flat, name)),
            }
            for name in own
        }
        entries: list[dict] = []
        seq: dict[str, int] = {}
        for index, action in enumerate(program):
            if index > stands.get(rank, len(program)):
                break
            if action["op"] in PAIR | {"batch"}:
                raise NotApplicable("messages: how a job writes them to its dump is not known here")
            if action["op"] in COLLECTIVES:
                entries.append(_entry(flat, groups, action, rank, seq, len(entries), index, stands))
        found[f"rank{rank}"] = {
            "version": "2.10", "pg_config": config, "entries": entries, "rank": rank,
            "pg_status": {}, "comm_lib_version": "2.27.5",
        }  # fmt: skip
    return found


def _entry(flat, groups, part, rank, seq, number, index, stands) -> dict:
    group = part.get("group", "world")
    seq[group] = seq.get(group, 0) + 1
    name, count = NAMES.get(part["op"], part["op"]), part.get("count") or part.get("bytes") or 1
    size = len(members(flat, group))
    into, out = [[count]], [[count]]
    if name in {"_all_gather_base", "all_gather"}:
        out = [[count * size]]
    elif name in {"_reduce_scatter_base", "reduce_scatter"}:
        into = [[count * size]]
    done = rank not in stands or index < stands[rank]
    kind = TYPES.get(part.get("dtype", "f32"), "Float")
    return {
        "frames": [{"name": "step", "filename": "train.py", "line": index + 1}],
        "record_id": number, "pg_id": groups.index(group), "thread_id": "1",
        "process_group": (str(groups.index(group)), "default_pg" if group == "world" else group),
        "collective_seq_id": seq[group], "p2p_seq_id": 0,
        "op_id": seq[group], "profiling_name": f"nccl:{name}", "time_created_ns": 10**18 + number,
        "input_sizes": into, "input_dtypes": [kind], "output_sizes": out, "output_dtypes": [kind],
        "state": "completed" if done else "started", "time_discovered_started_ns": None,
        "time_discovered_completed_ns": None, "retired": done, "timeout_ms": 600_000,
        "is_p2p": False,
    }  # fmt: skip


def flight_recorder(found: dict[str, dict]) -> bool:
    """Tell whether torch's analyzer complains about the dumps."""
    from torch.distributed.flight_recorder.components.builder import build_db

    args = Namespace(
        verbose=False, just_print_entries=False, allow_incomplete_ranks=True, mismatch_cap=10,
        pg_filters=None, selected_ranks=None, print_stack_trace=False, transform_ft=False,
    )  # fmt: skip
    heard = io.StringIO()
    handler = logging.StreamHandler(heard)
    loggers = [logging.getLogger(), *map(logging.getLogger, list(logging.root.manager.loggerDict))]
    for logger in loggers:
        logger.addHandler(handler)
    try:
        with contextlib.redirect_stdout(heard), contextlib.redirect_stderr(heard):
            build_db(json.loads(json.dumps(found), object_hook=_tuples), args, "2.10")
    except (AssertionError, LookupError, NameError, RuntimeError, TypeError, ValueError) as error:
        raise NotApplicable(f"its analyzer ends with {type(error).__name__}") from error
    finally:
        for logger in loggers:
            logger.removeHandler(handler)
    text = heard.getvalue().lower()
    return any(word in text for word in ("mismatch", "not all ranks", "culprit", "missing ranks"))


def _tuples(item: dict) -> dict:
    if "process_group" in item:
        item["process_group"] = tuple(item["process_group"])
    return item


def simulator(rows: dict[int, list[str]]) -> bool:
    """Tell whether torch's pipelining simulator refuses a schedule."""
    from torch.distributed.pipelining import schedules

    actions = {
        rank: [schedules._Action.from_str(cell) for cell in row]  # noqa: SLF001  # its only form
        for rank, row in rows.items()
    }
    kept = {r: [a for a in row if "SHARD" not in str(a) and "REDUCE" not in str(a)]
            for r, row in actions.items()}  # fmt: skip
    home = {a.stage_index: r for r, row in kept.items() for a in row}
    try:
        schedules._simulate_comms_compute(kept, home.__getitem__, len(home))  # noqa: SLF001
    except ValueError:
        return True
    except (AssertionError, KeyError, NotImplementedError) as error:
        raise NotApplicable(f"it ends with {type(error).__name__}") from error
    return False


if __name__ == "__main__":
    sys.exit("run peers.py")
