"""A text of any kind, given to every reader of texts: each takes what it knows.

What ranks print, stacks and reports of NCCL stand in one file as often as in several.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from planguard.audit.readers.launchers import read_launchers
from planguard.audit.readers.nccl_comms import MEMORY
from planguard.audit.readers.nccl_log import read_nccl_log
from planguard.audit.readers.part import CAME_TO_END, LOCAL, NO_FAILURE
from planguard.audit.readers.ras import is_ras, read_ras
from planguard.audit.readers.stacks import read_stacks
from planguard.audit.readers.stalls import read_stalls
from planguard.audit.readers.stderr import read_stderr
from planguard.audit.readers.text_log import lines_of
from planguard.errors import PlanError

if TYPE_CHECKING:
    from planguard.audit.readers.part import Part
    from planguard.audit.readers.text_log import Log

READERS = (read_stderr, read_stalls, read_launchers)
"""Readers of what the speakers of one start of a job say."""
_CUT = re.compile(rb"[a-z0-9_]+\Z")
_FINISHED = "worker group successfully finished"
"""torchrun's agent (torch/distributed/elastic/agent/server/api.py, `_invoke_run`)."""
LONGEST_WORD = 100
FOLDED = "the log folds repeated lines: who prints nothing may have printed"


def read_text(data: bytes, file: str) -> list[Part]:
    """Return what a text says: logs of ranks, stacks, logs and reports of NCCL, in any mixture.

    Raises:
        PlanError: It says nothing that an audit can use.
    """
    parts: list[Part] = []
    problem: PlanError | None = None
    # Of the last word of a line without an end nobody knows how it goes on: 12 may be 1234.
    if (cut := _CUT.search(data, max(0, len(data) - LONGEST_WORD))) is not None:
        data = data[: cut.start()]
    if b"NCCL INFO" in data or MEMORY.search(data) is not None:
        try:
            parts += read_nccl_log(data, file)
        except PlanError as error:
            problem = error
    if is_ras(data):
        parts += read_ras(data, file)
    log = lines_of(data)
    parts += read_stacks(log, file)
    parts += _last_start(log, file)
    for part in parts:
        if part.rank in log.assumed and part.kind in ("stacks", "stderr"):
            part.doubt = part.doubt or LOCAL
    if not parts:
        raise problem or PlanError("it says nothing of a communication", code="PG910", file=file)
    if log.is_folded:
        parts[0].remarks.append(FOLDED)
    return parts


def _last_start(log: Log, file: str) -> list[Part]:
    """Return what the last start of the job that says anything of its calls says of them."""
    attempts = log.attempts()
    for number in range(len(attempts), 0, -1):
        parts = [part for reader in READERS for part in reader(attempts[number - 1], file)]
        if parts:
            if number < len(attempts):
                _mark_earlier(parts, number, attempts)
            if len(attempts) > 1:
                parts[0].remarks.append(
                    f"the log tells of {len(attempts)} starts of the job: number {number}, the "
                    "last that says something of its calls, is audited; cut the log to audit "
                    "another"
                )
            return parts
    return []


def _mark_earlier(parts: list[Part], number: int, attempts: list[Log]) -> None:
    """Say of parts that the job was started again behind them, and whether that came to its end."""
    is_over = any(_FINISHED in line.text for line in attempts[-1].lines)
    for part in parts:
        said = CAME_TO_END if is_over else NO_FAILURE
        part.start, part.is_over = said.format(number, len(attempts)), is_over
