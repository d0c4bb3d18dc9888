"""Flight precheck: do the collectives of all ranks match, before any device is used?

The answer to pytorch#137006. The body is ordinary PyTorch code. It runs once for every rank that
must be seen, each time in a process of its own, on a process group that communicates nothing and
records everything; then the recorded calls are checked as a plan.
"""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, Literal, Self

from planguard.capture.classes import first_ranks, rank_classes, settle
from planguard.capture.compute_stub import stub_compute
from planguard.capture.fake_world import Mesh, read_mesh, refuse_real_group
from planguard.capture.forks import Forks, silence
from planguard.capture.logs import RankLog, build_plan, log_of, read_log, signature
from planguard.capture.processes import run_ranks, warm
from planguard.capture.session import session
from planguard.errors import UnsafePlanError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import TracebackType

    from planguard.plan.plan import Plan
    from planguard.verdict import Verdict

_SAMPLES = 1
_FORKED = 64  # a larger world keeps only one rank of each class, and a sample, ready


class Precheck:
    """A check of ordinary distributed code; ``precheck`` makes it.

    Attributes:
        world_size: Number of ranks.
        mesh: Device mesh, used to tell which ranks are alike; also built for the body.
        played: Number of ranks that were played, once they were.
        classes: Number of classes of alike ranks; the number of ranks where none was alike.
        plan: The recorded plan, once it is there.
        verdict: The answer, once it is there.
    """

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
    ) -> None:
        if world_size < 1 or not 0 <= rank < world_size:
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
        self.played = 0
        self.classes = 0
        self.plan: Plan | None = None
        self.verdict: Verdict | None = None
        self._forks: Forks | None = None
        self._session: Any = None
        self._open: Any = None

    @property
    def device_mesh(self) -> Any:
        """The DeviceMesh of the rank being played, inside the block; None without ``mesh``."""
        return self._open.mesh if self._open is not None else None

    # --- the callable form -------------------------------------------------------------------

    def run(self, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Verdict:
        """Run ``fn(*args, **kwargs)`` once per rank, each in a process of its own, and check.

        Raises:
            UnsafePlanError: If the plan is not safe and ``on_unsafe`` is ``raise``.
            UsageError: If a rank raises, dies or does not finish.
        """
        refuse_real_group()
        warm("torch.testing._internal.distributed.fake_pg", "torch._dynamo")

        shown = self._first()[0]  # what the body prints is printed once

        def play(rank: int) -> bytes:
            import torch

            torch.set_num_threads(1)  # a forked child must not enter the parent's thread pool
            if rank != shown:
                silence()
            with session(rank, self.world_size, self.mesh) as current, self._computing():
                self._open = current
                fn(*args, **kwargs)
            return log_of(current).to_json()

        def trace(ranks: list[int]) -> dict[int, RankLog]:
            answers = run_ranks(ranks, play, timeout=self.timeout, jobs=self.jobs)
            return {rank: read_log(answer) for rank, answer in answers.items()}

        return self._finish(*self._traced(trace(self._first()[:1]), trace))

    def _computing(self) -> AbstractContextManager[Any]:
        return stub_compute() if self.compute == "stub" else nullcontext()

    # --- the block form ----------------------------------------------------------------------

    def __enter__(self) -> Self:
        refuse_real_group()
        warm("torch.testing._internal.distributed.fake_pg")
        self._forks = Forks([rank for rank in self._ready() if rank != self.rank])
        played = self._forks.fork()
        self._session = session(self.rank if played is None else played, self.world_size, self.mesh)
        self._open = self._session.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        forks, current = self._forks, self._open
        if forks is None:
            raise UsageError("the block was left without having been entered")
        if forks.child:
            forks.answer(error, lambda: self._leave(current))
        try:
            if error is not None:
                self._session.__exit__(kind, error, trace)
                return
            own = self._close(current)
            logs, like = self._traced({self.rank: own}, self._from_forks)
        finally:
            forks.close()
            self._open = None
        self._finish(logs, like)

    def _leave(self, current: Any) -> bytes:
        return self._close(current).to_json()

    def _close(self, current: Any) -> RankLog:
        self._session.__exit__(None, None, None)
        return log_of(current)

    def _from_forks(self, ranks: list[int]) -> dict[int, RankLog]:
        assert self._forks is not None  # noqa: S101 - __enter__ made it; for the type checker
        missing = [rank for rank in ranks if rank not in self._forks.waiting]
        if missing:
            raise UsageError(
                f"rank {missing[0]} must be played, too, but only {len(self._forks.waiting)} of "
                f"{self.world_size} ranks of the block were kept ready",
                hint="use precheck(...).run(fn), which plays any rank",
            )
        limit = self.jobs or max(1, len(os.sched_getaffinity(0)))
        answers = self._forks.play(ranks, timeout=self.timeout, jobs=limit)
        return {rank: read_log(answer) for rank, answer in answers.items()}

    # --- both --------------------------------------------------------------------------------

    def _first(self) -> list[int]:
        classes = rank_classes(self.world_size, self.mesh)
        return first_ranks(classes, _SAMPLES)

    def _ready(self) -> list[int]:
        return list(range(self.world_size)) if self.world_size <= _FORKED else self._first()

    def _traced(
        self, traced: dict[int, RankLog], trace: Callable[[list[int]], dict[int, RankLog]]
    ) -> tuple[dict[int, RankLog], dict[int, int]]:
        """Play one rank of each class and a sample; every rank where that does not do."""

        def sign(log: RankLog) -> str | None:
            return signature(log, self.world_size, self.mesh)

        alone = any(sign(log) is None for log in traced.values())
        if self.ranks == "all" or alone:
            traced.update(trace([r for r in range(self.world_size) if r not in traced]))
            return traced, {}
        traced.update(trace([rank for rank in self._first() if rank not in traced]))
        if any(sign(log) is None for log in traced.values()):
            traced.update(trace([r for r in range(self.world_size) if r not in traced]))
            return traced, {}
        classes = rank_classes(self.world_size, self.mesh)
        return traced, settle(classes, traced, trace, sign)

    def _finish(self, logs: dict[int, RankLog], like: dict[int, int]) -> Verdict:
        from planguard.engine import check_plan
        from planguard.options import CheckOptions

        self._open = None
        logs = dict(sorted(logs.items()))
        self.played = len(logs)
        self.classes = len(rank_classes(self.world_size, self.mesh)) if like else len(logs)
        self.plan = build_plan(
            logs, like, self.world_size, self.mesh, name=self.name, model=self.model
        )
        self.verdict = check_plan(self.plan, CheckOptions(model=self.model))
        bad = self.verdict.unsafe or (self.verdict.unknown and not self.allow_unknown)
        if bad and self.on_unsafe == "raise":
            raise UnsafePlanError(self.verdict)
        return self.verdict


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
            ``compute="stub"`` (the call form leaves large computation undone).
    """
    return Precheck(world_size, **options)
