"""Plays ranks of a whole job on one machine: control plane real, data and large computation not.

Ranks are played together, since they wait for each other's objects and shapes. Which of them: one
of each class and samples; or all, when the script reads its rank or names peers and nobody said
that a sample will do.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from planguard.capture.classes import first_ranks, rank_classes, settle
from planguard.capture.compute_stub import stub_compute
from planguard.capture.fake_world import refuse_real_group
from planguard.capture.forks import silence
from planguard.capture.logs import build_plan, log_of, read_log, relative_signature
from planguard.capture.mailbox import Stalled
from planguard.capture.mailroom import Mailroom
from planguard.capture.processes import warm
from planguard.capture.session import session

if TYPE_CHECKING:
    from collections.abc import Callable

    from planguard.capture.fake_world import Mesh
    from planguard.capture.logs import RankLog
    from planguard.capture.mailbox import Mailbox
    from planguard.plan.plan import Plan

SAMPLES = 1
WARM = (
    "torch.testing._internal.distributed.fake_pg",
    "torch._dynamo",
    "torch.distributed.pipelining",
    "torch.distributed.fsdp",
    "torch.distributed.tensor.parallel",
)
"""What most jobs import, imported once before the forks."""


@dataclass
class StubRun:
    """One dry run of a job.

    Attributes:
        world_size: Number of ranks.
        mesh: Dimensions that tell which ranks are alike.
        samples: Further ranks of each class that are played; with None, ranks that read their rank
            or name peers do not stand for others, and all are played.
        local_size: Ranks of one node, as ``LOCAL_RANK`` and ``LOCAL_WORLD_SIZE`` tell them.
        timeout: Seconds a rank may take.
        jobs: Ranks that compute at a time; by default one per CPU.
        logs: Logs of the ranks that were played.
        like: Representative of every other rank.
        stuck: Ranks that waited for what nobody sends.
        reads: Places where the script asks for its rank.
    """

    world_size: int
    mesh: Mesh = ()
    samples: int | None = None
    local_size: int | None = None
    timeout: float = 300.0
    jobs: int | None = None
    logs: dict[int, RankLog] = field(default_factory=dict)
    like: dict[int, int] = field(default_factory=dict)
    stuck: list[int] = field(default_factory=list)
    reads: list[str] = field(default_factory=list)

    def run(self, job: Callable[[], object]) -> None:
        """Play the ranks that are needed.

        Raises:
            UsageError: If a rank raises, dies or does not finish.
        """
        refuse_real_group()
        warm(*WARM)
        classes = rank_classes(self.world_size, self.mesh)
        first = first_ranks(classes, SAMPLES if self.samples is None else self.samples)
        self._play(job, first)
        self.reads = sorted({place for log in self.logs.values() for place in log.reads})
        alone = self.reads or any(log.problems for log in self.logs.values())
        if self.samples is None and alone:
            self._play(job, range(self.world_size))
            return

        def trace(ranks: list[int]) -> dict[int, RankLog]:
            if ranks:
                self._play(job, sorted({*self.logs, *ranks}))
            return self.logs

        self.like = settle(classes, self.logs, trace, self.sign)

    def sign(self, log: RankLog) -> str | None:
        """Return what the equivalence class of a rank shares."""
        return relative_signature(log, self.world_size, self.mesh)

    @property
    def classes(self) -> int:
        """Number of equivalence classes among the ranks that were played."""
        signs = [self.sign(log) or f"rank {log.rank}" for log in self.logs.values()]
        return len(set(signs))

    @property
    def coverage(self) -> str:
        """What was played, in words."""
        classes = f"{self.classes} class" + ("es" if self.classes > 1 else "")
        return f"{len(self.logs)} of {self.world_size} ranks, {classes}"

    def plan(self, *, name: str | None = None, model: str | None = None) -> Plan:
        """Build the plan of the whole job.

        Raises:
            PlanError: If the logs do not make a plan.
        """
        logs = dict(sorted(self.logs.items()))
        return build_plan(
            logs,
            self.like,
            self.world_size,
            self.mesh,
            name=name,
            model=model,
            tool="planguard.stub",
        )

    # --- one play ----------------------------------------------------------------------------

    def _play(self, job: Callable[[], object], ranks: range | list[int]) -> None:
        missing = [rank for rank in ranks if rank not in self.logs]
        if not missing:
            return
        shown = min(ranks)  # what the script prints is printed once
        place = {
            rank: number
            for number, members in enumerate(rank_classes(self.world_size, self.mesh))
            for rank in members
        }

        def task(rank: int, mailbox: Mailbox) -> bytes:
            if rank != shown:
                silence()
            return self._rank(job, rank, mailbox)

        limit = self.jobs or max(1, len(os.sched_getaffinity(0)))
        room = Mailroom(place, task, self.timeout, limit)
        answers = room.play(list(ranks))
        self.logs = {rank: read_log(answer) for rank, answer in sorted(answers.items())}
        self.stuck = sorted(room.stuck)

    def _rank(self, job: Callable[[], object], rank: int, mailbox: Mailbox) -> bytes:
        import torch

        torch.set_num_threads(1)  # a forked child must not enter the parent's thread pool
        with session(rank, self.world_size, (), mailbox) as current:
            self._environment(rank)
            current.recorder.is_followed = True
            try:
                with stub_compute(recorder=current.recorder):
                    job()
            except Stalled:
                _stuck(current)
        return log_of(current).to_json()

    def _environment(self, rank: int) -> None:
        """Set what torchrun sets, for good: this process plays one rank and ends."""
        node = self.local_size or self.world_size
        os.environ.update(
            LOCAL_RANK=str(rank % node),
            LOCAL_WORLD_SIZE=str(node),
            GROUP_RANK=str(rank // node),
            GROUP_WORLD_SIZE=str(-(-self.world_size // node)),
            MASTER_ADDR="localhost",
            MASTER_PORT="29500",
            TORCHELASTIC_RUN_ID="planguard-stub",
        )


def _stuck(current: object) -> None:
    """Say that a rank waits for ever; the plan then shows why, or nothing is decided."""
    recorder = current.recorder  # type: ignore[attr-defined]
    message = f"rank {recorder.rank} waits for an object, a shape or a size that nobody sends"
    recorder.note("stuck", message, "under")
