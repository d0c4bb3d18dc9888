"""Python stacks of ranks: the text of ``py-spy dump`` and of ``faulthandler``."""

from __future__ import annotations

import re
from typing import Any

from planguard.audit.names import program_frames
from planguard.audit.part import Part
from planguard.audit.safe import decode_json

MAX_LINES = 200_000
MAX_FRAMES = 500
_SPY_THREAD = re.compile(
    r"Thread (?:0x)?[0-9a-fA-F]+ \((?P<state>[^)]*)\)(?:: \"(?P<name>[^\"]*)\")?"
)
_SPY_FRAME = re.compile(r"    (?P<name>\S.*?) \((?P<file>[^()]+):(?P<line>\d{1,9})\)$")
_SPY_LOCAL = re.compile(r"\s{8,}(?P<name>[a-z_]+): (?P<value>-?\d{1,9})$")
_FAULT_THREAD = re.compile(r"(Current thread|Thread) 0x[0-9a-fA-F]+.*\(most recent call first\):")
_FAULT_FRAME = re.compile(r"  File \"(?P<file>[^\"]+)\", line (?P<line>\d{1,9}) in (?P<name>\S+)")
_LOCALS = frozenset({"dst", "src", "group_dst", "group_src", "tag"})

CALLS = frozenset(
    {
        "send",
        "recv",
        "isend",
        "irecv",
        "batch_isend_irecv",
        "all_reduce",
        "all_gather",
        "all_gather_single",
        "all_gather_into_tensor",
        "reduce_scatter",
        "reduce_scatter_single",
        "reduce_scatter_tensor",
        "broadcast",
        "reduce",
        "gather",
        "scatter",
        "all_to_all",
        "all_to_all_single",
        "barrier",
        "monitored_barrier",
    }
)
"""Functions of torch.distributed that a rank may stand in."""


def read_stacks(data: bytes, file: str) -> Part:
    """Return the main thread's stack of a stack file: where the rank stands, and in which call.

    Raises:
        PlanError: Not readable.
    """
    part = Part("stacks", file)
    if data.lstrip()[:1] in (b"[", b"{"):
        threads = _json_threads(decode_json(data, Any, file))
    else:
        threads = _text_threads(data.decode("utf-8", errors="replace"))
    main = max(threads, key=_is_main, default=None)
    if main is None:
        return part
    frames, values = main
    part.stack = program_frames([frame[:3] for frame in frames])
    for name, (source, _, function) in enumerate(frames):
        if "torch/distributed" in source and function in CALLS:
            part.inside = function
            part.arguments = values.get(name, {})
    return part


Frames = list[tuple[str, int, str]]
Thread = tuple[Frames, dict[int, dict[str, int]]]


def _is_main(thread: Thread) -> tuple[bool, int]:
    """Order threads: the main thread ends in ``<module>``; else the deepest."""
    frames = thread[0]
    return bool(frames) and frames[-1][2] == "<module>", len(frames)


def _text_threads(text: str) -> list[Thread]:
    threads: list[Thread] = []
    for line in text.splitlines()[:MAX_LINES]:
        if _SPY_THREAD.match(line) or _FAULT_THREAD.match(line):
            threads.append(([], {}))
            continue
        if not threads:
            continue
        frames, values = threads[-1]
        frame = _SPY_FRAME.match(line) or _FAULT_FRAME.match(line)
        if frame is not None and len(frames) < MAX_FRAMES:
            frames.append((frame["file"], int(frame["line"]), frame["name"]))
            continue
        local = _SPY_LOCAL.match(line)
        if local is not None and frames and local["name"] in _LOCALS:
            values.setdefault(len(frames) - 1, {})[local["name"]] = int(local["value"])
    return [thread for thread in threads if thread[0]]


def _json_threads(document: Any) -> list[Thread]:
    """Return the threads of ``py-spy dump --json``."""
    threads: list[Thread] = []
    for thread in document if isinstance(document, list) else []:
        frames: Frames = []
        values: dict[int, dict[str, int]] = {}
        rows = thread.get("frames", []) if isinstance(thread, dict) else []
        for row in rows[:MAX_FRAMES] if isinstance(rows, list) else []:
            if not isinstance(row, dict):
                continue
            line = row.get("line", 0)
            source = str(row.get("filename", ""))
            frames.append((source, line if type(line) is int else 0, str(row.get("name", ""))))
            for local in row.get("locals") or []:
                name, value = local.get("name"), str(local.get("repr", ""))
                if name in _LOCALS and re.fullmatch(r"-?\d{1,9}", value):
                    values.setdefault(len(frames) - 1, {})[name] = int(value)
        if frames:
            threads.append((frames, values))
    return threads
