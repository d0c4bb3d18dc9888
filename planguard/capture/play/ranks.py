"""Plays ranks of a whole job on one machine: control plane real, data and large computation not.

The one mechanism of ``precheck`` and of ``planguard dryrun --stub``. Ranks are forks of this
process that are played together, since they wait for each other's objects, shapes and values. Which
of them: one of each class and samples; or all, when the code reads its rank, names peers or uses
the store, and nobody said that a sample will do. Nothing is set up per play but its forks.

Above 400 lines: which ranks are played, and what each of them is, are told in one place.
"""

from __future__ import annotations

import contextlib
import os
import random
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self

from planguard.capture.groups.recorder import Stalled, call_site
from planguard.capture.play.called import CUT, note_interrupted, note_late
from planguard.capture.play.classes import first_ranks, rank_classes, settle
from planguard.capture.play.compute_stub import MOST, follow_values, stub_compute
from planguard.capture.play.devices import (
    ENDS,
    FAILS,
    GOES_ON,
    Devices,
    asked_in,
    note_told,
    wanted_in,
)
from planguard.capture.play.ends import (
    callbacks_at_exit,
    end_of,
    leaving_at_once,
    note_stuck,
    raised_at,
)
from planguard.capture.play.fake_compute import NotFakeError, fake_compute
from planguard.capture.play.fake_world import refuse_real_group
from planguard.capture.play.hidden import watch_hidden
from planguard.capture.play.imports import Begun, learn, warm_learnt
from planguard.capture.play.logs import (
    build_plan,
    doubt_races,
    log_of,
    read_log,
    relative_signature,
)
from planguard.capture.play.mailbox import SMALL_BYTES
from planguard.capture.play.mailroom import Mailroom
from planguard.capture.play.named_backends import model_of
from planguard.capture.play.processes import silence, start_autograd
from planguard.capture.play.quiet_ends import Said, listening
from planguard.capture.play.session import session
from planguard.capture.values.own_answers import before_of
from planguard.capture.values.values import doubt_end
from planguard.errors import PlanGuardError, UsageError, shorten

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from multiprocessing.connection import Connection

    from planguard.capture.play.fake_world import Mesh
    from planguard.capture.play.journal import Journal
    from planguard.capture.play.logs import RankLog
    from planguard.capture.play.mailbox import Mailbox, Wanted
    from planguard.capture.play.session import Session
    from planguard.capture.values.own_answers import Odd
    from planguard.capture.values.own_before import Before
    from planguard.plan.plan import Plan

SAMPLES = 1
_COMPUTE: dict[str, Any] = {"real": follow_values, "zeros": stub_compute, "fake": fake_compute}


@dataclass
class Play:
    """One play of a job.

    Attributes:
        world_size: Number of ranks.
        mesh: Dimensions that tell which ranks are alike.
        samples: Further ranks of each class that are played; with None, ranks that read their rank
            or name peers do not stand for others, and all are played.
        is_every: Every rank is played, whatever it does.
        local_size: Ranks of one node, as ``LOCAL_RANK`` and ``LOCAL_WORLD_SIZE`` tell them.
        timeout: Seconds a rank may take, from one exchange to the next.
        whole: Seconds that the play may take: one that communicates for ever ends by that.
        jobs: Ranks that compute at a time; by default one per CPU.
        compute: What is computed: all (``real``); of what is large ``zeros`` alone, or ``fake``
            tensors without storage; or ``auto``: fake where the job allows it.
        makes_mesh: The body gets a DeviceMesh of ``mesh``.
        is_quiet: Nothing that the job prints is shown.
        odd: Ranks whose own machine and process answer otherwise.
        journal: What its ranks write is put back before it is played again; None leaves it.
        before: What modules of the job asked when they were imported.
        small: Size up to which any value travels, bytes (``mailbox``).
        model: Execution model that the job is decided under, if that is chosen.
        devices_at: Where the program asked for a device: it is told that every rank has one.
        devices_why: Why, in words; where ``devices_at`` is empty, why it is told of none.
        computed: What was done, and why, in words; ``logs``: of the ranks that were played.
        like: Representative of every other rank.
        stuck: What the ranks waited for that waited for what nobody sends.
        reads: Places where the code asks for its rank.
        body: Where what the ranks run stands, in words.
    """

    world_size: int
    mesh: Mesh = ()
    samples: int | None = None
    is_every: bool = False
    local_size: int | None = None
    timeout: float = 300.0
    whole: float | None = None
    jobs: int | None = None
    compute: str = "zeros"
    makes_mesh: bool = False
    is_quiet: bool = False
    odd: Odd | None = None
    journal: Journal | None = None
    before: Before | None = None
    small: int = SMALL_BYTES
    model: str | None = None
    devices_at: str = ""
    devices_why: str = ""
    computed: str = ""
    logs: dict[int, RankLog] = field(default_factory=dict)
    like: dict[int, int] = field(default_factory=dict)
    stuck: dict[int, Wanted] = field(default_factory=dict)
    reads: list[str] = field(default_factory=list)
    body: str = ""
    _admitted: tuple[int, Connection] | None = None
    _room: Mailroom | None = None
    _has_shown: bool = False
    _restart: Callable[[Play], None] | None = None
    _dice: Any = field(default_factory=random.getstate)

    def run(
        self, job: Callable[[PlayedRank], object], prepare: Callable[[int], object] | None = None
    ) -> None:
        """Play the ranks that are needed, each as a fork that runs the job.

        ``prepare`` comes first in its process, before anything is recorded or left undone.

        Raises:
            UsageError: If a rank cannot be captured, dies or does not finish.
        """
        refuse_real_group()
        warm_learnt()
        start_autograd()
        if self.journal is not None:
            self.journal.put_back()
        if self.before is None:
            self.before = before_of(job)

        def task(rank: int, mailbox: Mailbox) -> bytes:
            if prepare is not None:
                _leave_thread_pool()
                prepare(rank)
            return self._rank(job, rank, mailbox)

        self.stage(task, restart=lambda play: play.run(job, prepare))
        note_told(self.logs, self.devices_at, self.devices_why)

    def again(self, odd: Odd, most: float | None = None, whole: float | None = None) -> Play:
        """Play the same job once more, with some of its ranks answered otherwise.

        All are played, unless a few stand for the others; a rank may take ``most`` seconds
        from one exchange to the next, and all together ``whole``.

        Raises:
            UsageError: If a rank cannot be captured, dies or none was played before.
        """
        play = replace(
            self, odd=odd, is_every=not self.like, is_quiet=True, computed="", logs={}, like={},
            stuck={}, reads=[], _admitted=None, _room=None, _has_shown=False,
            timeout=min(self.timeout, most or self.timeout), whole=whole or self.whole,
        )  # fmt: skip
        if self._restart is None:
            raise UsageError("a job that was not played cannot be played again")
        self._restart(play)
        return play

    def stage(
        self,
        task: Callable[[int, Mailbox], bytes],
        admitted: tuple[int, Connection] | None = None,
        restart: Callable[[Play], None] | None = None,
    ) -> None:
        """Play the ranks that are needed with a task that plays one and returns its log.

        Args:
            task: What a fork does; it may leave by raising ``Standing``.
            admitted: A rank that another process plays at first, and the pipe to it.
            restart: Plays the same job again as another play.
        """
        self._restart = restart or self._restart
        self._admitted = admitted
        # Where the caller's own process plays a rank, that is the one that prints.
        self._has_shown = self.is_quiet or admitted is not None
        classes = rank_classes(self.world_size, self.mesh)
        first = first_ranks(classes, SAMPLES if self.samples is None else self.samples)
        self._play(task, range(self.world_size) if self.is_every else first)
        self.reads = sorted({place for log in self.logs.values() for place in log.reads})
        alone = self.reads or any(log.problems for log in self.logs.values())
        if self.samples is None and alone:
            self._play(task, range(self.world_size))
            return

        def trace(ranks: list[int]) -> dict[int, RankLog]:
            if ranks:
                self._play(task, sorted({*self.logs, *ranks}))
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

    def plan(
        self, *, name: str | None = None, model: str | None = None, tool: str = "planguard.stub"
    ) -> Plan:
        """Build the plan of the whole job.

        Raises:
            PlanError: If the logs do not make a plan.
        """
        logs = dict(sorted(self.logs.items()))
        return build_plan(
            logs, self.like, self.world_size, self.mesh, name=name, model=model, tool=tool
        )

    def failure(self) -> UsageError | None:
        """Return what to raise if a rank ended by an exception; None where all came to their end.

        It is an answer only where no peer waits for the rank in vain: that is the verdict then.
        """
        for log in self.logs.values():
            if log.end:
                message = f"rank {log.rank} could not be captured: {log.end}"
                printed = f"\nthe last line that it printed: {log.printed}" if log.printed else ""
                hint = f"{log.trace}{printed}".strip() or "run the body on its own first"
                return UsageError(message, hint=hint)
        return None

    def note_interrupted(self) -> None:
        """Say that the job was not played to its end, unless its logs say so already."""
        if not any(note[0] == CUT for log in self.logs.values() for note in log.notes):
            note_interrupted(self.logs, ())

    def note_failed(self) -> None:
        """Say of ranks that ended by an exception that they did not come to their end."""
        for log in self.logs.values():
            if log.end:
                said = (
                    f"rank {log.rank} ended by {shorten(log.end.splitlines()[0], 120)}"
                    f"{raised_at(log.trace)}"
                )
                message = f"{said}; what it would issue behind that is not known"
                log.notes.append((CUT, message, "under"))

    @property
    def is_doubted(self) -> bool:
        """True where a rank's log says that another run may differ: then its end may, too."""
        return any(note[2] != "exact" for log in self.logs.values() for note in log.notes)

    # --- one play ----------------------------------------------------------------------------

    def _play(self, task: Callable[[int, Mailbox], bytes], ranks: Iterable[int]) -> None:
        wanted = list(ranks)
        if all(rank in self.logs for rank in wanted):
            return
        if self.compute in ("auto", "fake"):
            reason = self._play_fake(task, wanted)
            self.computed = f"real storage, since fake tensors do not do: {reason}"
            if not reason:
                self.computed = "fake tensors"
                return
            self.compute = "zeros"
            self._room, self.devices_at, self.devices_why = None, "", ""
        self._play_as(task, wanted)

    def _play_fake(self, task: Callable[[int, Mailbox], bytes], ranks: Sequence[int]) -> str:
        """Play on fake tensors; return why that does not do, or nothing.

        Raises:
            UsageError: If nothing but fake tensors is wanted, and they do not do.
        """
        wanted, self.compute = self.compute, "fake"
        try:
            self._play_as(task, ranks)
        except UsageError as error:
            if wanted == "fake":
                raise
            return str(error).splitlines()[0].partition("captured: ")[2] or "a rank failed"
        finally:
            self.compute = wanted
        if wanted == "fake":
            return ""
        # What got stuck, raised, or decided on a value, may do better where values are real.
        notes = any(log.notes or log.end for log in self.logs.values())
        return "a value is needed" if self.stuck or notes else ""

    def _play_as(self, task: Callable[[int, Mailbox], bytes], ranks: Sequence[int]) -> None:
        self._play_once(task, ranks)
        if self.devices_at or self.devices_why or self.stuck:
            return
        wanted = wanted_in(self.logs)
        asked = wanted or ("" if self._is_of_host() else asked_in(self.logs))
        if not asked:
            return
        kept, self.devices_at, self._room = self.logs, asked, None
        self.devices_why = ENDS if wanted else GOES_ON
        if wanted:
            self._has_shown = self.is_quiet  # what it prints now is what the job says
        if self.journal is not None:
            self.journal.put_back()
        failed = ""
        try:
            self._play_once(task, ranks)
        except UsageError as error:
            if wanted:
                raise
            failed = str(error)
        logs = self.logs.values()
        if wanted and not any(log.actions or log.left_at for log in logs):
            self.devices_why = ""  # it was not for the device
        elif not wanted and (failed or any(log.end for log in logs)):
            said = failed or next(log.end for log in logs if log.end)
            self.devices_why = FAILS.format(shorten(said.splitlines()[0], 120))
        else:
            return
        self.logs, self.devices_at, self._room, self.stuck = kept, "", None, {}

    def _is_of_host(self) -> bool:
        """Tell whether the job runs without GPUs wherever it runs, as far as that is said."""
        named = model_of(self)
        model = self.model or (named[0] if named is not None else "")
        return model.startswith(("gloo", "mpi"))

    def _play_once(self, task: Callable[[int, Mailbox], bytes], ranks: Sequence[int]) -> None:
        place = {
            rank: number
            for number, members in enumerate(rank_classes(self.world_size, self.mesh))
            for rank in members
        }
        shown = None if self._has_shown else min(ranks)  # what the job prints is printed once

        def quiet(rank: int, mailbox: Mailbox) -> bytes:
            if rank != shown:
                silence()
            return task(rank, mailbox)

        warm_learnt()  # this process forks the ranks, whichever door they came by
        limit = self.jobs or max(1, len(os.sched_getaffinity(0)))
        room = self._room
        if room is None or room.is_lent:  # what a rank got from a stand-in may now be another's
            room = Mailroom(place, quiet, self.timeout, limit, self.whole)
            if self._admitted is not None:
                room.admit(*self._admitted)
                self._admitted = None
        room.task, self._room, self._has_shown = quiet, room, True
        try:
            room.play(ranks)
        except KeyboardInterrupt:
            if room.answers.keys() >= set(ranks):
                self.logs = _logs_in(room)
                note_interrupted(self.logs, room.called)
            raise
        self.logs = _logs_in(room)
        note_late(self.logs, self.timeout)
        doubt_races(self.logs)
        self.stuck = dict(sorted(room.stuck.items()))
        for log in self.logs.values():
            learn(log.imported, log.parsed)

    def _rank(self, job: Callable[[PlayedRank], object], rank: int, mailbox: Mailbox) -> bytes:
        with PlayedRank(self, rank, mailbox) as played:
            job(played)
        return played.log


def _logs_in(room: Mailroom) -> dict[int, RankLog]:
    return {rank: read_log(answer) for rank, answer in sorted(room.answers.items())}


def play_ranks(programs: Sequence[Callable[[], object]], **options: Any) -> Play:
    """Play every rank once, each with a program of its own; ``plan()`` of the answer is the job's.

    Args:
        programs: What each rank runs.
        options: Fields of ``Play``; all is computed unless ``compute`` says otherwise.

    Raises:
        UsageError: If a rank cannot be captured, dies or does not finish.
    """
    play = Play(len(programs), is_every=True, **{"compute": "real", **options})
    play.run(lambda played: programs[played.rank]())
    return play


class PlayedRank:
    """One rank in its own process: a session, the computation, and how it ends.

    Attributes:
        rank: The rank.
        session: The session, inside the block.
        devices: What its program is told of devices.
        log: The log, behind it.
    """

    session: Session

    def __init__(self, play: Play, rank: int, mailbox: Mailbox, *, is_fork: bool = True) -> None:
        self._play = play
        self.rank = rank
        self._mailbox = mailbox
        self._is_fork = is_fork
        self._stack = ExitStack()
        self._at_exit: Callable[[], None] = lambda: None  # nothing was registered
        self._said = Said()
        self.devices = Devices(are_told=bool(play.devices_at))
        self.log = b""

    def __enter__(self) -> Self:
        if self._is_fork:
            _leave_thread_pool()
            random.setstate(self._play._dice)  # noqa: SLF001 - Python seeds it anew in a fork
        play = self._play
        self._mailbox.small = play.small
        self._before = Begun()
        with ExitStack() as stack:
            self.session = stack.enter_context(
                session(
                    self.rank,
                    play.world_size,
                    play.mesh if play.makes_mesh else (),
                    self._mailbox,
                    local_size=play.local_size,
                    odd=play.odd,
                    before=play.before,
                )
            )
            recorder = self.session.recorder
            more = {"most": MOST} if play.compute == "zeros" and play.small > SMALL_BYTES else {}
            stack.enter_context(_COMPUTE[play.compute](recorder=recorder, **more))
            if play.journal is not None and self._is_fork:
                play.journal.watch(lambda: bool(recorder.actions))
            watch_hidden(recorder, is_followed=self._is_fork and play.compute != "fake")
            if self._is_fork:
                self._said = stack.enter_context(listening())
                self._at_exit = stack.enter_context(callbacks_at_exit(recorder))
                stack.enter_context(leaving_at_once(self._leave))
            self._stack = stack.pop_all()
        return self

    def _leave(self, code: int) -> None:
        """Hand in the log where ``os._exit`` ends the process: nothing more is run."""
        self._at_exit = lambda: None  # nothing was registered
        with contextlib.suppress(OSError):
            if code:
                self._mailbox.fail(f"it ends its process by os._exit({code})", "")
            else:
                site = call_site()
                where = f"{site[0]}:{site[1]} in {site[2]}" if site else ""
                self._said.at = f"left by os._exit(0) at {where}" if where else ""
                if self.__exit__(None, None, None):
                    self._mailbox.end(self.log)
        self._mailbox.close()

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        """Take the end of the body as data, whatever it is, unless it tells nothing of the job."""
        recorder = self.session.recorder
        try:
            if not isinstance(error, (Stalled, PlanGuardError, NotFakeError, KeyboardInterrupt)):
                self._at_exit()
        except Stalled as stalled:
            error = stalled
        try:
            is_of_job = not recorder.is_stalled or isinstance(error, (PlanGuardError, NotFakeError))
            self._said.ended(error, self._play.body)
            end, frames = end_of(error if is_of_job else None)  # without values it tells nothing
            if end and recorder.doubted:
                doubt_end(recorder, end)
        finally:
            self._stack.close()  # what the session records last is in the log
        if not recorder.left_at and (isinstance(error, Stalled) or recorder.is_stalled):
            note_stuck(self.session.recorder, error)
        if not self._is_fork and not isinstance(error, (Stalled, type(None))):
            return False  # in the caller's own process it is the caller's
        self.log = log_of(
            self.session,
            self._said,
            end=end,
            trace=frames,
            imported=self._before.imported(),
            parsed=self._before.parsed(),
            devices=self.devices.asked,
        ).to_json()
        return True


def _leave_thread_pool() -> None:
    """Compute in one thread: a forked child that enters the parent's thread pool hangs."""
    import torch

    torch.set_num_threads(1)
