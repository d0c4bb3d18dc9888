"""Flight precheck: do the collectives of all ranks match, before any device is used?

The answer to pytorch#137006. The body is ordinary PyTorch code. It runs once for every rank that
must be seen, each time in a process of its own, on a process group that records everything and
really moves what programs decide on; then the recorded calls are checked as a plan.
"""

from __future__ import annotations

import inspect
import sys
import time
from typing import TYPE_CHECKING, Any, Literal, Self

from planguard.arguments import (
    BUDGET,
    CALLABLE,
    COUNT,
    DURATION,
    FLAG,
    MESH,
    NAME,
    PATH,
    WHOLE,
    arguments,
)
from planguard.capture.batches.loops import Loops
from planguard.capture.batches.patches import Patch, find_patch, with_patch, write_patch
from planguard.capture.batches.sampled import Door, decide, read_samples, supply_of
from planguard.capture.batches.samples import MOST, choose
from planguard.capture.batches.subjects import Function
from planguard.capture.batches.unlike import Beyond
from planguard.capture.play.fake_world import Mesh, read_mesh, refuse_real_group
from planguard.capture.play.imports import warm_learnt
from planguard.capture.play.mailbox import LARGE_BYTES, SMALL_BYTES
from planguard.capture.play.mailroom import perform
from planguard.capture.play.odd_data import OddData
from planguard.capture.play.odd_plays import OddPlays
from planguard.capture.play.ranks import Play, PlayedRank
from planguard.capture.play.stage import Stage, open_stage
from planguard.capture.values.own_answers import before_of
from planguard.errors import UnsafePlanError, UsageError
from planguard.execution.findings.ledger import is_empty

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path
    from types import TracebackType

    from planguard.capture.batches.sampled import Supply
    from planguard.capture.batches.samples import Assignment, Chosen
    from planguard.capture.groups.recorder import Recorder
    from planguard.capture.values.own_answers import Site
    from planguard.plan.plan import Plan
    from planguard.verdict import Verdict


class Precheck:
    """A check of ordinary distributed code; ``precheck`` makes it.

    Attributes:
        world_size: Number of ranks.
        mesh: Device mesh, used to tell which ranks are alike; also built for the body.
        loops: The declared loaders; None without.
        assignments: With ``samples``, the samples by rank that were played, in order.
        played: Number of ranks that were played, once they were.
        classes: Number of classes of alike ranks; the number of ranks where none was alike.
        plan: The recorded plan, once it is there.
        verdict: The answer, once it is there.
        patch: With ``fix``, the proved edit of the source, if there is one.
    """

    @arguments(
        world_size=COUNT, mesh=MESH, rank=WHOLE, model=NAME, allow_unknown=FLAG, timeout=DURATION,
        jobs=COUNT, name=NAME, rounds=COUNT, most_assignments=COUNT, budget=BUDGET, fix=FLAG,
        vary=FLAG,
    )  # fmt: skip
    def __init__(  # noqa: PLR0913 - the options of precheck, spelled out once
        self,
        world_size: int,
        *,
        mesh: Mapping[str, int] | Sequence[tuple[str, int]] | None = None,
        ranks: Literal["all"] | None = None,
        rank: int = 0,
        model: str | None = None,
        on_unsafe: Literal["raise", "return"] = "raise",
        allow_unknown: bool = False,
        timeout: float = 300.0,
        jobs: int | None = None,
        name: str | None = None,
        compute: Literal["real", "stub"] = "real",
        samples: Sequence[Any] | None = None,
        steps_per_rank: Sequence[int] | Mapping[str, Sequence[int]] | None = None,
        lengths: Sequence[int] | Mapping[str, Sequence[int]] | None = None,
        rounds: int | None = None,
        most_assignments: int = MOST,
        budget: float = 60.0,
        fix: bool = False,
        vary: bool = False,
    ) -> None:
        if rank >= world_size:
            raise UsageError(f"rank {rank} of a world of {world_size} does not exist")
        if ranks not in (None, "all") or on_unsafe not in ("raise", "return"):
            raise UsageError('ranks is None or "all"; on_unsafe is "raise" or "return"')
        self.world_size = world_size
        self.mesh: Mesh = read_mesh(mesh, world_size)
        self.ranks = ranks
        self.rank = rank
        self.model = model
        self.on_unsafe = on_unsafe
        self.allow_unknown = allow_unknown
        self.timeout = timeout
        self.jobs = jobs
        self.name = name
        self.compute = compute
        self.samples = None if samples is None else read_samples(samples)
        self.loops = Loops.of(world_size, self.samples, steps_per_rank, lengths, rounds)
        self.most_assignments = most_assignments
        self.budget = budget
        if fix and samples is None:
            raise UsageError("fix=True is for samples", hint="precheck(n, samples=[...], fix=True)")
        self.fix = fix
        if vary and samples is None:
            raise UsageError("vary=True is for samples", hint="precheck(n, samples=[batch])")
        self.vary = vary
        self.patch: Patch | None = None
        self.played = 0
        self.classes = 0
        self.assignments: tuple[Assignment, ...] = ()
        self.plan: Plan | None = None
        self.verdict: Verdict | None = None
        self._stage: Stage | None = None
        self._body = ""
        self._open: PlayedRank | None = None
        self._known: set[Site] = set()  # asked of a machine, and of no consequence

    @property
    def device_mesh(self) -> Any:
        """The DeviceMesh of the rank being played, inside the block; None without ``mesh``."""
        return self._open.session.mesh if self._open is not None else None

    # --- the callable form -------------------------------------------------------------------

    @arguments(fn=CALLABLE)
    def run(self, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Verdict:
        """Run ``fn(*args, **kwargs)`` once per rank, each in a process of its own, and check.

        With ``samples`` it is ``fn(sample, *args, **kwargs)``, run for assignments of samples to
        ranks; SAFE says that every one of them ends with agreeing communication. With
        ``steps_per_rank`` or ``lengths`` it is ``fn(loader, *args, **kwargs)``, or, where loaders
        have names, ``fn(*args, **kwargs, train=..., val=...)``.

        Raises:
            UnsafePlanError: If the plan is not safe and ``on_unsafe`` is ``raise``.
            UsageError: If a rank cannot be played, or raises and nobody waits for it.
        """
        self._body = _where(fn)
        loops = self.loops
        if loops is not None:
            return self._run_any(
                fn,
                lambda feed, recorder: feed.call(fn, recorder, args, kwargs),
                loops.choose(self.most_assignments),
                loops.supply,
            )
        if self.samples is not None:
            return self._run_any(
                fn,
                lambda sample, _: fn(sample, *args, **kwargs),
                choose(len(self.samples), self.world_size, self.most_assignments),
                supply_of(self.samples),
            )
        play = self._play()

        def job(played: PlayedRank) -> None:
            self._open = played
            fn(*args, **kwargs)

        play.run(job)
        return self._finish(play)

    def _run_any(
        self,
        fn: Callable[..., Any],
        step: Callable[[Any, Recorder], object],
        chosen: Chosen,
        supply: Supply,
    ) -> Verdict:
        def job(played: PlayedRank, given: Any) -> object:
            self._open = played
            return step(given, played.session.recorder)

        door = Door(self._play, self._judge, job)
        began = time.monotonic()
        answer = decide(supply, chosen, door, self.budget)
        if self.vary and self.samples is not None and not answer.verdict.unsafe:
            end = began + self.budget
            subject = Function(fn)
            answer = Beyond(subject, self.samples, self.world_size, door, end).decide(answer)
        if self.fix and answer.verdict.unsafe:
            found = find_patch(answer, supply, chosen, door, self.budget)
            self.patch = found if isinstance(found, Patch) else None
            answer = with_patch(answer, found)
        self._open = None
        self.assignments, self.plan = answer.played, answer.plan
        self.played = self.classes = self.world_size
        verdict = answer.verdict if self.loops is None else self.loops.told(answer.verdict)
        return self._answer(verdict)

    def _play(self) -> Play:
        return Play(
            self.world_size,
            self.mesh,
            is_every=self.ranks == "all" or self._is_any,
            timeout=self.timeout,
            jobs=self.jobs,
            compute="real" if self.compute == "real" else "zeros",
            makes_mesh=True,
            small=SMALL_BYTES if self._is_any else LARGE_BYTES,
            body=self._body,
        )

    @property
    def _is_any(self) -> bool:
        """Ranks get something of their own, so that none stands for another."""
        return self.samples is not None or self.loops is not None

    @arguments(path=PATH)
    def write_patch(self, path: str | Path) -> Path | None:
        """Write the proved edit as a unified diff to a new file; None where there is none.

        The program itself is never written: ``git apply FILE`` does that.

        Raises:
            UsageError: The file exists.
        """
        return None if self.patch is None else write_patch(self.patch, path)

    # --- the block form ----------------------------------------------------------------------

    def __enter__(self) -> Self:
        if self._is_any:
            raise UsageError(
                "a block runs once and takes no sample and no loader",
                hint="precheck(world_size, samples=samples).run(step), step takes one sample",
            )
        refuse_real_group()
        warm_learnt()
        caller = sys._getframe(1)  # noqa: SLF001 - the interpreter has no public way
        self._body = f"the block at {caller.f_code.co_filename}:{caller.f_lineno}"
        self._whole = self._play()
        self._whole.before = before_of(
            sys.modules.get(caller.f_globals.get("__name__", "")), *caller.f_locals.values()
        )
        self._stage = stage = open_stage(
            self._whole, self.rank, lambda play: _decided(play, self.name, self.model)[1]
        )
        self._whole.odd = stage.odd
        self._open = PlayedRank(self._whole, stage.rank, stage.mailbox, is_fork=stage.is_fork)
        try:
            self._open.__enter__()
        except BaseException:
            stage.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        stage, played = self._stage, self._open
        if stage is None or played is None:
            raise UsageError("the block was left without having been entered")
        if stage.is_fork:
            perform(lambda: self._end_of_fork(played, error), stage.mailbox)
        self._open = None
        try:
            if not played.__exit__(kind, error, trace):
                return False
            stage.finish(played.log, self._whole)
        finally:
            stage.close()
        try:
            self._finish(self._whole)  # other answers were played where the block can be repeated
        finally:
            self._stage = None
        return True

    @staticmethod
    def _end_of_fork(played: PlayedRank, error: BaseException | None) -> bytes:
        played.__exit__(type(error), error, None)
        return played.log

    # --- both --------------------------------------------------------------------------------

    def _finish(self, play: Play) -> Verdict:
        self._open = None
        self.played = len(play.logs)
        self.classes = play.classes
        self.plan, verdict = self._judge(play)
        return self._answer(verdict)

    def _judge(self, play: Play) -> tuple[Plan, Verdict]:
        # A block is decided before its ranks end; what else could be answered is played behind it.
        known = self._known if self._stage is None else None
        plan, verdict = judge(
            play, name=self.name, model=self.model, known=known, data=not self._is_any
        )
        return plan, verdict if self.loops is None else self.loops.judged(play.logs, verdict)

    def _answer(self, verdict: Verdict) -> Verdict:
        self.verdict = verdict
        # A hazard is no deadlock: the outcome stays, and so does what is wrong.
        bad = verdict.unsafe or (verdict.unknown and not self.allow_unknown)
        if (bad or verdict.errors) and self.on_unsafe == "raise":
            raise UnsafePlanError(verdict)
        return verdict


def judge(
    play: Play, *, name: str | None, model: str | None, known: set[Site] | None, data: bool = False
) -> tuple[Plan, Verdict]:
    """Decide one play, and what follows if ranks get other answers from their own machines.

    Args:
        play: The play.
        name: Name of its plan.
        model: The execution model.
        known: Questions that are known to decide nothing, to be added to; None where none is asked.
        data: Nobody stated which data ranks may have: what they read from tensors is asked, too.

    Raises:
        UsageError: If a rank raised and nobody waits for it.
    """
    plan, verdict = _decided(play, name, model)
    # Where nobody communicated, other answers and other data show the line that guards the calls.
    if known is not None and (verdict.safe or is_empty(verdict)) and play.failure() is None:
        told = _notes(play)
        kind = OddData if data else OddPlays
        asked = kind(lambda one: _decided(one, name, model)[1], known).ask(play)
        if asked is not play or _notes(play) != told:  # notes stand in the plan's ledger
            play = asked
            plan, verdict = _decided(play, name, model)
    failure = play.failure()
    if failure is not None and (verdict.safe or not (verdict.unsafe or play.is_doubted)):
        raise failure  # nobody waits for that rank, and yet the job does not end well
    return plan, verdict


def _where(fn: Callable[..., Any]) -> str:
    """Say where a function stands; empty for what has no source, such as a bound C function."""
    code = getattr(inspect.unwrap(getattr(fn, "func", fn)), "__code__", None)
    if code is None:
        return ""
    return f"{code.co_name} at {code.co_filename}:{code.co_firstlineno}"


def _notes(play: Play) -> int:
    return sum(len(log.notes) for log in play.logs.values())


def _decided(play: Play, name: str | None, model: str | None) -> tuple[Plan, Verdict]:
    from planguard.engine import check_plan
    from planguard.options import CheckOptions

    plan = play.plan(name=name, model=model, tool="planguard.precheck")
    return plan, check_plan(plan, CheckOptions(model=model))


def precheck(world_size: int, **options: Any) -> Precheck:
    """Check ordinary PyTorch code before it runs on devices, as a block or as a call.

    Example::

        with planguard.capture.precheck(world_size=8):
            train_step(model, batch)

        verdict = planguard.capture.precheck(world_size=8, on_unsafe="return").run(main)

    Args:
        world_size: Number of ranks to play.
        options: ``mesh`` (which ranks are alike), ``ranks="all"`` (play every rank), ``rank`` (the
            rank this process plays in the block form), ``model``, ``on_unsafe`` (``raise`` or
            ``return``), ``allow_unknown``, ``timeout`` (seconds per rank), ``jobs``, ``name``,
            ``compute="stub"`` (the call form leaves large computation undone). ``samples`` (a
            list; the call form then decides a step that takes one sample for any of them on any
            rank), with ``most_assignments`` (that are all played; else a cover is) and ``budget``
            (seconds after which no further assignment is played). ``steps_per_rank`` (how many
            batches the loader of each rank has; the call form then decides a loop that takes a
            loader), or ``lengths`` (any of which any rank's loader may have), with ``rounds``
            (batches that stand for all further ones of a loader; without it all are played).
            ``fix=True`` (with ``samples``) searches an edit of the source that makes the step
            SAFE, proves it, and shows it as a patch.
            ``vary=True`` (with ``samples``) makes batches up that are like the samples, and leaves
            the step undecided where none of them decides otherwise.
    """
    return Precheck(world_size, **options)
