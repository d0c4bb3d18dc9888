"""Words for plans of real failures: actions, pipeline schedules, and the pair of a case."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

Action = dict[str, Any]
Program = list[Action]
Expect = dict[str, dict[str, Any]]

SAFE, DEADLOCK, MISMATCH = ["SAFE"], ["DEADLOCK"], ["MISMATCH"]
POTENTIAL = ["POTENTIAL_DEADLOCK"]
NCCL = ("nccl", "nccl-lazy", "nccl-eager", "nccl-serialized")
GLOO = ("gloo", "gloo-detail")
MPI = ("mpi-eager", "mpi-sync", "mpi-pg")
ALL = (*GLOO, *NCCL, *MPI)
BLAME = "x-blame"
"""Marks the actions of a plan that are at fault; taken out before the plan is written."""


@dataclass(frozen=True)
class Case:
    """One row of the user cases: what happened, and the plans that say it.

    Attributes:
        number: the row.
        threads: the issues and pull requests, `owner/repo#number`.
        cause: the root cause, as the threads state it, in one sentence.
        catch: `yes`, `partly` or `no`: whether the plan says it before launch.
        pairs: the plans of the row.
        why: what is not caught and why, or what the plan assumes.
    """

    number: int
    threads: tuple[str, ...]
    cause: str
    catch: str
    pairs: tuple[Pair, ...] = ()
    why: str = ""


@dataclass(frozen=True)
class Pair:
    """The plan that failed and the one that does not.

    Attributes:
        thread: the thread that it is named after.
        bug: makes the failing plan; actions at fault carry `BLAME`.
        fix: makes the plan that works.
        outcomes: per model, the outcomes that may be given for the failing plan.
        codes: codes of which the deciding finding has one.
        safe: models under which the fixed plan is SAFE.
        check: options of the check beyond the model.
        safe_iff: kind of the condition that the verdict names, if any.
    """

    thread: str
    bug: Callable[[], dict[str, Any]]
    fix: Callable[[], dict[str, Any]]
    outcomes: dict[str, list[str]]
    codes: tuple[str, ...]
    safe: tuple[str, ...] = ALL
    check: dict[str, Any] = field(default_factory=dict)
    safe_iff: str | None = None

    @property
    def name(self) -> str:
        """The name of its files: `pytorch-172668`."""
        repository, number = self.thread.split("/", 1)[1].split("#")
        return f"{repository.lower()}-{number}"


def url(thread: str) -> str:
    """Give the address of a thread."""
    repository, number = thread.split("#")
    return f"https://github.com/{repository}/issues/{number}"


# -- plans --


def plan(world: int, ranks: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Make a plan; a program is a list of actions or the name of a template."""
    return {
        "schema": "planguard.plan/1",
        "world_size": world,
        **more,
        "ranks": {
            selector: {"template": body} if isinstance(body, str) else {"actions": body}
            for selector, body in ranks.items()
        },
    }


def outcomes(*groups: tuple[tuple[str, ...], list[str]]) -> dict[str, list[str]]:
    """Spread outcomes over models."""
    return {model: allowed for models, allowed in groups for model in models}


def blamed(action: Action) -> Action:
    """Mark an action as one at fault."""
    return {**action, BLAME: True}


# -- actions --


def sized(count: int, dtype: str = "bf16") -> Action:
    """Say how large a message is."""
    return {"count": count, "dtype": dtype}


def message(op: str, peer: int, size: Action, label: str | None = None, **more: Any) -> Action:
    """Make a `send`, `recv`, `isend` or `irecv`."""
    named = {} if label is None else {"label": label}
    return {"op": op, "peer": peer, **size, **named, **more}


def collective(op: str, group: str, size: Action | None = None, **more: Any) -> Action:
    """Make a collective; `work` makes it asynchronous."""
    started = {"async": True} if "work" in more else {}
    return {"op": op, "group": group, **(size or {}), **started, **more}


def wait(*work: str) -> Action:
    """Wait for handles."""
    return {"op": "wait", "work": work[0] if len(work) == 1 else list(work)}


def batch(ops: Iterable[Action], work: str | None = None) -> Action:
    """Launch messages together."""
    return {"op": "batch", "ops": list(ops), **({} if work is None else {"work": work})}


def compute(name: str, **more: Any) -> Action:
    """Compute."""
    return {"op": "compute", "op_name": name, **more}


# -- pipeline schedules, in the notation of torch.distributed.pipelining --

_CELL = re.compile(r"(\d+)(SEND_F|RECV_F|SEND_B|RECV_B|F|B)(\d+)$")


def pipeline(
    text: str, rank: int, home: Callable[[int], int], size: Action, blame: Iterable[str] = ()
) -> Program:
    """Read the schedule of one rank: sends and receives as torch's run time issues them.

    A receive is posted where it stands and waited for before its computation; sends are waited
    for at the end of the step. `home` gives the rank of a stage.
    """
    program: Program = []
    sends: list[str] = []
    at_fault = set(blame)
    for cell in text.replace(",", " ").split():
        match = _CELL.match(cell)
        if match is None:
            raise ValueError(f"{cell!r} is no cell of a schedule")
        stage, kind, mb = int(match[1]), match[2], int(match[3])
        if kind in {"F", "B"}:
            posted = f"{stage}RECV_{kind}{mb}"
            if any(action.get("work") == posted for action in program):
                program.append(wait(posted))
            program.append(compute(kind, stage=stage, mb=mb))
            continue
        source = stage if kind.startswith("SEND") else stage + (-1 if kind[-1] == "F" else 1)
        target = stage + (1 if kind[-1] == "F" else -1)
        peer = home(target if kind.startswith("SEND") else source)
        op = "isend" if kind.startswith("SEND") else "irecv"
        action = message(op, peer, size, f"{kind[-1]}{source}.{mb}", work=cell, group="pp")
        program.append(blamed(action) if cell in at_fault else action)
        if op == "isend":
            sends.append(cell)
    if sends:
        program.append(wait(*sends))
    if any(action.get("peer") == rank for action in program):
        raise ValueError("a stage sends to its own rank")
    return program
