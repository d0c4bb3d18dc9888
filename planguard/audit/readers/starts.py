"""The starts of a job in one log: what one of them says is no evidence of another.

A launcher says that it starts anew; the number of calls of a rank gets less; behind the words of an
end the steps of the training begin again, or lines that a launch prints are printed again; Slurm
names a later step of its job. With each start all of this begins anew.

Sources: torchrun (``run.py``, ``launcher/api.py`` and ``elastic/agent/server/api.py`` of
``torch.distributed``, 2.13), DeepSpeed's launcher, Lightning (``init_dist_connection``),
Megatron-LM, torch's store-based barrier (up to 2.0), scripts that print ``distributed init``, and
Slurm (``log_build_step_id_str`` in ``src/common/slurm_protocol_defs.c``).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

from planguard.audit.readers.watchdog import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planguard.audit.readers.text_log import Line

_STARTED_ANEW = re.compile(r"\b(?:will restart|[Rr]estarting) worker group\b")
"""torchrun's agent (torch/distributed/elastic/agent/server/api.py, `_invoke_run`)."""
_ENDS = (
    "entire process down",
    "Root Cause (first observed failure)",
    "Traceback (most recent call last)",
    "Watchdog caught collective operation timeout",
)
"""Words behind which a job does not go back to an earlier step, unless it was started again."""
_STEP = re.compile(r"\b(?:[Ii]ter(?:ation)?|[Ss]tep|[Ee]poch)s?\b[\s:=#\[]{0,4}(\d{1,12})")
_OVER = re.compile(
    r"Root Cause \(first observed failure\)|ChildFailedError:|"
    r"\*\*\* (?:STEP|JOB) \S{1,60} .{0,200}?CANCELLED|srun: Force Terminated|"
    r"Primary job +terminated normally|(?:mpirun|mpiexec|prterun) noticed that process|"
    r"worker group successfully finished"
)
"""Words of a launcher by which all of a job is over: whatever launches behind them is later."""
_LAUNCH = re.compile(
    r"Setting OMP_NUM_THREADS environment variable for each process|"
    r"Starting elastic_operator with launch configs|\] (?:Starting|Rendezvous'ing) worker group|"
    r"Rendezvous complete for workers|\[runner\.py:\d+:main\] cmd = |WORLD INFO DICT: |"
    r"Initializing distributed: GLOBAL_RANK: \d+|distributed_backend=\w+|"
    r"\| distributed init \(rank \d+\)|> initializing torch distributed|"
    r"using world size: \d+, data-parallel|Added key: store_based_barrier_key:1 to store for rank: "
    r"\d+|Initializing TorchBackend in DeepSpeed|"
    r"(?P<often>NCCL version \d+\.\d+|Bootstrap ?: Using |Init START\b|"
    r"(?i:call(?:ing|ed)|starting|running|done|finished) (?:\w{1,20}\.){0,3}"
    r"init_process_group\b)"
)
"""What a launch prints; ``often``: once for each process or communicator, at any time of a run."""
_WORDS = (
    "OMP_NUM", "elastic_op", "worker group", "for workers", "runner.py", "WORLD INFO",
    "nitializing", "distributed", "world size", "store_based", "NCCL", "init_process_group",
)  # fmt: skip
_SLURM_STEP = re.compile(
    r"(?:\bStepId=|\bSTEP |\bjob step )(\d{1,10})(?:[_+]\d{1,7})?\.(\d{1,6})\b"
)
"""How ``srun`` and ``slurmstepd`` name a step: of one script each ``srun`` is the next one."""
SEVERAL = 2
"""Ranks that speak on one node at least, where a log is of several nodes, one behind the other."""


def starts_of(lines: Sequence[Line]) -> list[list[Line]]:
    """Return the lines of each start, in order."""
    found: list[list[Line]] = [[]]
    counts: dict[tuple[int | str, str], int] = {}
    launched: set[int] = set()
    steps = _Steps()
    cuts = _behind_slurm_steps(lines)
    for number, line in enumerate(lines):
        is_new = "worker group" in line.text and _STARTED_ANEW.search(line.text) is not None
        is_launch = not is_new and steps.launches_again(line.text)
        is_launch = is_launch or number in cuts
        is_new = steps.begin_again(line.text) or is_new
        said = counted(line.text) if line.who is not None else None
        if said is not None and line.who is not None:
            key = line.who, said[0]
            is_new = is_new or said[1] < counts.get(key, 0)
            if is_new:
                counts.clear()
            counts[key] = said[1]
        if is_new or is_launch:
            steps = steps.anew(line.text)
            counts = {} if said is None else counts
            if not is_new:
                launched.add(len(found))
            found.append([])
        found[-1].append(line)
    return _of_nodes_joined(found, launched)


def _behind_slurm_steps(lines: Sequence[Line]) -> set[int]:
    """Return the lines behind the last word of a step of Slurm, where a later step is named, too.

    ``srun`` ends behind all that its tasks printed, and what is said of its step comes last.
    Steps that are named in turn ran beside each other.
    """
    said = []
    for number, line in enumerate(lines):
        if "tep" in line.text or "STEP " in line.text:  # most lines are none of these
            named = _SLURM_STEP.search(line.text)
            if named is not None:
                said.append((number, (int(named[1]), int(named[2]))))
    steps = [step for _, step in said]
    if steps != sorted(steps):
        return set()
    return {one + 1 for (one, step), (_, other) in pairwise(said) if step < other}


def _of_nodes_joined(starts: list[list[Line]], launched: set[int]) -> list[list[Line]]:
    """Return the starts, those joined that only a launch tells apart and that are of two nodes."""
    found: list[list[Line]] = []
    for number, lines in enumerate(starts):
        if number in launched and _are_nodes(found[-1], lines):
            found[-1] = [*found[-1], *lines]
        else:
            found.append(lines)
    return found


def _are_nodes(first: Sequence[Line], other: Sequence[Line]) -> bool:
    """Tell whether lines are of ranks of one node each: a log may hold those of several in turn.

    Of the first node one rank may have spoken alone, where those of the next are none of its own.
    """
    one, two = ({line.who for line in own if isinstance(line.who, int)} for own in (first, other))
    if not one or len(two) < SEVERAL:
        return False
    if max(two) < min(one):
        return len(one) >= SEVERAL
    return max(one) < min(two) and len(two) <= min(two)


@dataclass
class _Steps:
    """What one start of a job printed: numbers of steps, lines of its launch, words of its end.

    Attributes:
        first: Its first step.
        most: Its last step.
        has_ended: Words of an end followed.
        is_over: Words followed by which all of it has ended.
        launched: Lines of its launch.
    """

    first: int = -1
    most: int = -1
    has_ended: bool = False
    is_over: bool = False
    launched: set[str] = field(default_factory=set)

    def begin_again(self, text: str) -> bool:
        """Take a line; tell whether it has a step that only a later start of the job prints."""
        self.has_ended = self.has_ended or any(words in text for words in _ENDS)
        is_likely = "tep" in text or "poch" in text or "ter" in text  # most lines are none of these
        said = _STEP.search(text) if is_likely else None
        if said is None:
            return False
        step = int(said[1])
        if self.has_ended and (step <= self.first or step < self.most):
            return True
        self.first = step if self.first < 0 else self.first
        self.most = max(self.most, step)
        return False

    def launches_again(self, text: str) -> bool:
        """Take a line; tell whether it is of a launch, behind the end of what was launched before.

        Behind the end of one rank others may still launch: then the line has to be there before.
        """
        if _OVER.search(text):
            self.is_over = self.has_ended = True
        if text[:1].isspace() or not any(words in text for words in _WORDS):
            return False
        said = _LAUNCH.search(text)
        if said is None or self.is_over:
            return said is not None
        if said["often"]:
            return False
        again = self.has_ended and said[0] in self.launched
        self.launched.add(said[0])
        return again

    def anew(self, text: str) -> _Steps:
        """Return the steps of the start that a line begins."""
        found = _Steps()
        found.begin_again(text)
        found.launches_again(text)
        return found
