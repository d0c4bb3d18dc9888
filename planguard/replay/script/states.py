"""What the watcher knows of the ranks, and how it is shown."""

# ruff: noqa: T201

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from pathlib import Path

from planguard.replay.script.data import BACKEND, PREDICTED, PROGRAMS


@dataclass
class State:
    """What the watcher knows of one rank.

    ``state`` is setup, ready, running, done, exited, error or signal, and in the end stuck (inside
    an action, no progress anywhere for the whole timeout) or late (the run took too long).
    ``inside`` are the actions begun and not ended, more than one with host threads; ``played``
    counts those that ended; ``held`` is what the next action waits for, as (process, played).
    """

    rank: int
    process: int
    state: str = "setup"
    action: int | None = None
    op: str = ""
    text: str = ""
    seconds: float = 0.0
    error: str = ""
    signal: int | None = None
    mismatches: list[tuple[int, str]] = field(default_factory=list)
    tests: list[tuple[int, bool]] = field(default_factory=list)
    inside: list[tuple[int, str, str]] = field(default_factory=list)
    played: int = 0
    held: list[list[int]] = field(default_factory=list)
    stack: list[str] = field(default_factory=list)


def is_busy(pid: int) -> bool:
    """Say whether a process runs or waits for a processor: it is slow, not stuck.

    Only its main thread counts: after a dropped receive gloo's own thread spins for ever.
    """
    if BACKEND == "nccl":
        return False  # a host that polls for a GPU is always busy
    with contextlib.suppress(OSError):
        status = Path(f"/proc/{pid}/stat").read_text()
        return status.rpartition(")")[2].split()[0] == "R"
    return False


def place_at(state: State) -> int | None:
    """Return the index in the plan of the action that a rank began last."""
    played = [op for op in PROGRAMS[state.process] if op["at"] == state.action]
    return played[0].get("place", state.action) if played else state.action


def show(states: list[State]) -> None:
    """Print one line per rank and whatever was wrong."""
    for state in states:
        where = f"{state.text} " if state.state not in ("done", "exited") else "finished "
        print(f"rank {state.rank:<5} {where}{'.' * max(3, 40 - len(where))} {state.state}")
        for line in state.stack[:6]:
            print(f"             {line}")
        for _, complaint in state.mismatches:
            print(f"             MISMATCH {complaint}")
        if state.error:
            print(f"             {state.error.splitlines()[-1]}")
    stuck = [f"r{s.rank}#{place_at(s)}" for s in states if s.state == "stuck"]
    print("stuck:    ", ", ".join(stuck) or "none")
    print("predicted:", ", ".join(f"r{rank}#{action}" for rank, action in PREDICTED) or "none")
