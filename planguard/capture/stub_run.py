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
from planguard.capture.fake_compute import fake_compute
from planguard.capture.fake_world import refuse_real_group
from planguard.capture.forks import silence
from planguard.capture.logs import build_plan, log_of, read_log, relative_signature
from planguard.capture.mailbox import Stalled
from planguard.capture.mailroom import Mailroom
from planguard.capture.processes import warm
from planguard.capture.session import session
from planguard.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from planguard.capture.fake_world import Mesh
    from planguard.capture.logs import RankLog
    from planguard.capture.mailbox import Mailbox
    from planguard.capture.recorder import Recorder
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
        compute: What is left of computation: ``fake`` tensors without storage, ``zeros`` with, or
            ``auto``: fake where the job allows it.
        computed: What was done, and why, in words.
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
    compute: str = "zeros"
    computed: str = ""
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
        if all(rank in self.logs for rank in ranks):
            return
        if self.compute != "zeros":
            reason = self._play_fake(job, ranks)
            self.computed = f"real storage, since fake tensors do not do: {reason}"
            if not reason:
                self.computed = "fake tensors"
                return
            self.compute = "zeros"
        self._play_as(job, ranks, is_fake=False)

    def _play_fake(self, job: Callable[[], object], ranks: range | list[int]) -> str:
        """Play on fake tensors; return why that does not do, or nothing.

        Raises:
            UsageError: If nothing but fake tensors is wanted, and they do not do.
        """
        try:
            self._play_as(job, ranks, is_fake=True)
        except UsageError as error:
            if self.compute == "fake":
                raise
            return str(error).splitlines()[0].partition("captured: ")[2] or "a rank failed"
        if self.compute == "fake":
            return ""
        # What got stuck, or decided on a value, may do better where values are real.
        notes = any(log.notes for log in self.logs.values())
        return "a value is needed" if self.stuck or notes else ""

    def _play_as(
        self, job: Callable[[], object], ranks: range | list[int], *, is_fake: bool
    ) -> None:
        shown = min(ranks)  # what the script prints is printed once
        place = {
            rank: number
            for number, members in enumerate(rank_classes(self.world_size, self.mesh))
            for rank in members
        }

        def task(rank: int, mailbox: Mailbox) -> bytes:
            if rank != shown:
                silence()
            return self._rank(job, rank, mailbox, is_fake=is_fake)

        limit = self.jobs or max(1, len(os.sched_getaffinity(0)))
        room = Mailroom(place, task, self.timeout, limit)
        answers = room.play(list(ranks))
        self.logs = {rank: read_log(answer) for rank, answer in sorted(answers.items())}
        self.stuck = sorted(room.stuck)

    def _rank(
        self, job: Callable[[], object], rank: int, mailbox: Mailbox, *, is_fake: bool
    ) -> bytes:
        import torch

        torch.set_num_threads(1)  # a forked child must not enter the parent's thread pool
        with session(rank, self.world_size, (), mailbox) as current:
            self._environment(rank)
            current.recorder.is_followed = True
            try:
                compute = fake_compute if is_fake else _stubbed
                with compute(current.recorder):
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


def _stubbed(recorder: Recorder) -> AbstractContextManager[object]:
    return stub_compute(recorder=recorder)


def _stuck(current: object) -> None:
    """Say that a rank waits for ever; the plan then shows why, or nothing is decided."""
    recorder = current.recorder  # type: ignore[attr-defined]
    message = f"rank {recorder.rank} waits for an object, a shape or a size that nobody sends"
    recorder.note("stuck", message, "under")
