"""Task and Answer: what goes to a worker and what comes back, as bytes.

Everything between processes is MessagePack: no pickle travels, so a worker needs nothing of the
caller but PlanGuard itself, and neither side can make the other run code.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from planguard.options import CheckOptions

LOST = "PG903"
"""Code of a plan whose check was ended: by its time, its memory, or the death of its worker."""
CRASHED = "PG999"
"""Code of a plan on which the check itself failed."""


SIGNATURE = 4
"""Number of what a skeleton says of a plan: rows are not answers to a question asked with another.

1: without the names of choices and the labels of coalesced parts, so unequal plans could share one.
3: the same, by rows.
"""


class Limits(msgspec.Struct, frozen=True, array_like=True):
    """What one plan may cost before its check is ended.

    Attributes:
        seconds: Wall-clock seconds, reading included; 0 means no limit.
        memory_mb: MiB that a worker may use beyond what it needs to start; 0 means no limit.
        attempts: Workers that may die on one plan before it is given up.
    """

    seconds: float = 60.0
    memory_mb: int = 4096
    attempts: int = 3


class Task(msgspec.Struct, frozen=True, array_like=True):
    """One plan to read, and what to do with it.

    Attributes:
        id: Number of the task within its batch.
        path: Where the plan is, or b"" if ``data`` holds it; names of files need be no UTF-8.
        data: The plan file's bytes, or b"".
        planner: Adapter to read it with, or "".
        options: ``CheckOptions`` as a mapping.
        sign: Whether to give the communication skeleton.
        decide: Whether to give the outcome.
        limits: What it may cost.
        folder: Working directory of the caller, where the task travels to another.
        files: Path, as the caller sees it, and bytes of each file that travels with it.
    """

    id: int
    path: bytes
    data: bytes
    planner: str
    options: dict[str, Any]
    sign: bool
    decide: bool
    limits: Limits
    folder: bytes = b""
    files: tuple[tuple[bytes, bytes], ...] = ()


class Answer(msgspec.Struct, frozen=True, array_like=True):
    """What is known of one plan.

    Attributes:
        id: Number of the task.
        outcome: SAFE, DEADLOCK, ...; "" if it was not to be decided and could be read.
        codes: Codes of the findings, sorted.
        code: Code of the deciding finding, "" if there is none.
        message: What that finding says, or why there is no answer.
        skeleton: Digest of the communication skeleton, or "".
        ranks: World size.
        actions: Actions of all ranks.
        end: "" as a rule; "refused" for an input that is no plan, "lost" where a limit or a
            death ended the check, "crashed" where the check failed.
        last: The worker ends after this answer.
    """

    id: int
    outcome: str = ""
    codes: tuple[str, ...] = ()
    code: str = ""
    message: str = ""
    skeleton: str = ""
    ranks: int = 0
    actions: int = 0
    end: str = ""
    last: bool = False


def lost(task: Task, reason: str) -> Answer:
    """Return the answer of a plan whose check was ended: UNKNOWN, and why."""
    return Answer(task.id, "UNKNOWN", (LOST,), LOST, f"not decided: {reason}", end="lost")


def options_of(task: Task) -> CheckOptions:
    """Return the options of a task's check."""
    from planguard.options import CheckOptions

    return CheckOptions(**task.options)


_encoder = msgspec.msgpack.Encoder()
_tasks = msgspec.msgpack.Decoder(list[Task])
_answers = msgspec.msgpack.Decoder(list[Answer])
encode = _encoder.encode
decode_tasks = _tasks.decode
decode_answers = _answers.decode
