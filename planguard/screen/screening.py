"""Screening: trials in, rows and verdicts out, in input order, whatever the workers do.

A window of trials is read and signed by the workers; skeletons that were not seen before are then
decided once each, on the first trial that has them. So neither the number of workers nor the order
in which they answer can show in the result.
"""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from planguard.options import DEFAULT_MODEL, CheckOptions
from planguard.screen.rows import Row, Skeleton
from planguard.screen.tasks import CRASHED, Answer, Limits, Task

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Sequence

    from planguard.screen.executors import Executor
    from planguard.screen.store import Store
    from planguard.screen.trials import Trial, Trials
    from planguard.verdict import Verdict

SMALLEST, LARGEST = 32, 2048
"""Trials of a window; it grows while windows take less than ``WINDOW_SECONDS``."""
REMEMBERED = 100_000
"""Inputs whose answer is kept in memory, so that equal ones are read once; skeletons, too."""
WINDOW_BYTES = 64 << 20
"""Bytes of plans in memory that a window holds, roughly."""
WINDOW_SECONDS = 1.0
"""What a killed screening loses at most, roughly."""


@dataclass(frozen=True)
class Progress:
    """How far a screening is.

    Attributes:
        done: Trials with a row, those of an earlier run included.
        total: Trials of the input; None if it is not known.
        seconds: Since the start.
        skipped: Trials that an earlier run finished.
    """

    done: int
    total: int | None
    seconds: float
    skipped: int

    @property
    def rate(self) -> float:
        """Trials a second, without those that were finished before."""
        return (self.done - self.skipped) / self.seconds if self.seconds else 0.0

    @property
    def eta(self) -> float | None:
        """Seconds to go, None if that is not known."""
        return (self.total - self.done) / self.rate if self.total and self.rate else None


@dataclass(frozen=True)
class Settings:
    """How trials are screened.

    Attributes:
        options: Options of every check.
        planner: Adapter that reads the plans; found by sniffing if None.
        limits: What one plan may cost.
        cache: Whether skeletons are decided once; else every trial is.
        only: Outcomes of an earlier run to take up again; None: what it did not finish.
    """

    options: CheckOptions
    planner: str | None = None
    limits: Limits = field(default_factory=Limits)
    cache: bool = True
    only: frozenset[str] | None = None


class Screening:
    """An iterator of ``(name, verdict)`` in input order; ``rows`` gives the bare rows instead.

    Args:
        trials: What is screened.
        executor: Who does it; closed at the end.
        store: Where rows are kept.
        settings: How.
        progress: Called after every window.
    """

    def __init__(
        self,
        trials: Trials,
        executor: Executor,
        store: Store,
        settings: Settings,
        progress: Callable[[Progress], None] | None = None,
    ) -> None:
        self._trials, self._executor, self.store = trials, executor, store
        self._settings, self._progress = settings, progress
        store.ask(settings.options, settings.planner)
        self._known: dict[str, Skeleton] = {}
        self._inputs: dict[Any, Answer] = {}
        self._options = asdict(settings.options)
        self._decided_now: set[str] = set()
        self._size = SMALLEST
        self._mostly_new = self._has_rows = self._may_know = False
        self._verdicts: Iterator[tuple[str, Verdict]] | None = None
        self.is_done = False

    def __iter__(self) -> Iterator[tuple[str, Verdict]]:
        return self

    def __next__(self) -> tuple[str, Verdict]:
        if self._verdicts is None:
            self._verdicts = (
                (row.name, verdict_of(row, trial, self._settings)) for trial, row in self._pairs()
            )
        return next(self._verdicts)

    def rows(self) -> Generator[Row, None, None]:
        """Yield the rows in input order, those of an earlier run included."""
        for _, row in self._pairs():
            yield row

    def _pairs(self) -> Iterator[tuple[Trial, Row]]:
        started, done, skipped = time.monotonic(), 0, 0
        self._has_rows = self.store.count() > 0
        self._may_know = self.store.has_skeletons()
        try:
            for window in self._windows():
                began = time.monotonic()
                rows, old = self._screen(window)
                done, skipped = done + len(rows), skipped + old
                now = time.monotonic()
                if now - began < WINDOW_SECONDS:
                    self._size = min(2 * self._size, LARGEST)
                elif now - began > 2 * WINDOW_SECONDS:
                    self._size = max(SMALLEST, self._size // 2)
                if self._progress is not None:
                    self._progress(Progress(done, self._trials.total, now - started, skipped))
                yield from rows
            self.is_done = True
        finally:
            self._executor.close()

    def _windows(self) -> Iterator[list[Trial]]:
        """Yield the trials in windows; of files, the next one is read while one is screened.

        What a caller iterates over is asked in the caller's thread.
        """
        source = iter(self._trials)
        if not self._trials.is_of_paths:
            while window := _window(source, self._size):
                yield window
            return
        with ThreadPoolExecutor(1) as ahead:
            future = ahead.submit(_window, source, self._size)
            while window := future.result():
                future = ahead.submit(_window, source, self._size)
                yield window

    def _screen(self, window: Sequence[Trial]) -> tuple[list[tuple[Trial, Row]], int]:
        """Return the rows of a window, and how many of them were there before."""
        rows: dict[int, Row] = {}
        shas: dict[int, str] = {}
        known = self.store.known([trial.name for trial in window]) if self._has_rows else {}
        for place, trial in enumerate(window):
            sha = shas[place] = trial.sha
            row = known.get(trial.name)
            if row is None or row.input_sha != sha:
                continue
            if self._settings.only is not None and row.outcome in self._settings.only:
                continue
            rows[place] = row
        old = len(rows)
        renamed = [
            place for place, row in rows.items() if dict(row.params) != dict(window[place].params)
        ]
        for place in renamed:  # the plan is the same, what is known of its parameters is not
            rows[place] = replace(rows[place], params=window[place].params)
        new, skeletons = self._decide(window, [p for p in shas if p not in rows])
        rows.update(new)
        self.store.add((rows[place] for place in (*renamed, *new)), skeletons)
        return [(trial, rows[place]) for place, trial in enumerate(window)], old

    def _decide(
        self, window: Sequence[Trial], places: Sequence[int]
    ) -> tuple[dict[int, Row], list[Skeleton]]:
        cache = self._settings.cache
        read = self._read(window, places)
        self._look_up({read[place].skeleton for place in places} - {""})
        first: dict[str, int] = {}
        for place in places:
            digest = read[place].skeleton
            if digest and not self._is_known(digest):
                first.setdefault(digest, place)
        decided = read
        if cache:
            new = [p for p in first.values() if not read[p].outcome]
            again = [self._task(p, window[p], decide=True) for p in new]
            decided = {**read, **_by_id(self._executor.run(again))}
            self._mostly_new = 2 * len(first) > len(places)
        made = [
            _skeleton(digest, decided[place], read[place], window[place].name)
            for digest, place in first.items()
        ]
        self._known.update((one.digest, one) for one in made)
        if self._settings.only is not None:
            self._decided_now.update(first)
        rows = {place: self._row(window[place], read[place]) for place in places}
        while len(self._known) > REMEMBERED:
            self._may_know = True
            del self._known[next(iter(self._known))]
        return rows, made

    def _look_up(self, digests: set[str]) -> None:
        """Take from the store what it knows of skeletons that are not in memory."""
        if self._may_know and (missing := sorted(digests - self._known.keys())):
            self._known.update(self.store.skeletons(missing))

    def _read(self, window: Sequence[Trial], places: Sequence[int]) -> dict[int, Answer]:
        """Return what the workers say of trials; with the cache, equal inputs are read once."""
        cache = self._settings.cache
        keys = {place: window[place].content for place in places}
        if not cache:
            asked = [self._task(place, window[place], decide=True) for place in places]
            return _by_id(self._executor.run(asked))
        first: dict[Any, int] = {}
        for place in places:
            if keys[place] not in self._inputs:
                first.setdefault(keys[place], place)
        # Reading costs more than deciding: where most plans are new, they are decided at once.
        asked = [self._task(p, window[p], decide=self._mostly_new) for p in first.values()]
        answers = _by_id(self._executor.run(asked))
        new = {key: answers[place] for key, place in first.items()}
        found = {p: new[keys[p]] if keys[p] in new else self._inputs[keys[p]] for p in places}
        # Where a plan is refused, what is said counts its bytes: each is asked by itself.
        alone = [
            p
            for p in places
            if found[p].end
            and first.get(keys[p], p) != p
            and window[p].sha != window[first[keys[p]]].sha
        ]
        found.update(
            _by_id(self._executor.run([self._task(p, window[p], decide=False) for p in alone]))
        )
        # What is known by its own path, too, does not come again.
        self._inputs.update((k, said) for k, said in new.items() if not (k[-1] or said.end))
        while len(self._inputs) > REMEMBERED:
            del self._inputs[next(iter(self._inputs))]
        return found

    def _is_known(self, digest: str) -> bool:
        known = self._known.get(digest)
        if known is None:
            return False
        if digest in self._decided_now:
            return True
        return self._settings.only is None or known.outcome not in self._settings.only

    def _row(self, trial: Trial, said: Answer) -> Row:
        known = self._known.get(said.skeleton)
        outcome, code, codes, message, end = (
            "UNKNOWN",
            said.code,
            said.codes,
            said.message,
            said.end,
        )
        if known is not None and not said.end:
            both = {said.outcome, known.outcome} - {""}
            end = known.end
            if len(both) > 1 and "UNKNOWN" not in both:
                code, codes, message, end = _contradiction(said, known)
            elif said.outcome:
                outcome = said.outcome
            else:
                outcome, code, codes, message = (
                    known.outcome,
                    known.code,
                    known.codes,
                    known.message,
                )
        reason = message if outcome == "UNKNOWN" else ""
        return Row(
            trial.name, outcome, code, codes, said.skeleton, reason, end, trial.params, trial.sha
        )

    def _task(self, place: int, trial: Trial, *, decide: bool) -> Task:
        settings = self._settings
        return Task(
            place,
            os.fsencode(trial.path),
            trial.data,
            trial.planner,
            self._options,
            sign=True,
            decide=decide,
            limits=settings.limits,
        )


def _window(source: Iterator[Trial], size: int) -> list[Trial]:
    """Return the next trials: so many, or fewer if they are large."""
    window: list[Trial] = []
    held = 0
    for trial in source:
        window.append(trial)
        trial.sha  # noqa: B018  the look at its file, here and not where the others wait
        held += len(trial.data)
        if len(window) >= size or held >= WINDOW_BYTES:
            break
    return window


def _by_id(answers: Iterator[Answer]) -> dict[int, Answer]:
    return {said.id: said for said in answers}


def _contradiction(said: Answer, known: Skeleton) -> tuple[str, tuple[str, ...], str, str]:
    """Return code, codes, reason and end of a plan whose answer is not that of its signature.

    One of the two is wrong, and nothing says which, so neither is given.
    """
    reason = (
        f"{said.outcome}, though trial {known.first}, which communicates alike, is "
        f"{known.outcome}: a defect of PlanGuard, please report both plans "
        f"(skeleton {said.skeleton[:12]})"
    )
    return CRASHED, (CRASHED,), reason, "crashed"


def _skeleton(digest: str, decided: Answer, read: Answer, name: str) -> Skeleton:
    said = (decided.outcome, decided.code, decided.codes, decided.message)
    return Skeleton(digest, *said, name, read.ranks, read.actions, decided.end)


def verdict_of(row: Row, trial: Trial, settings: Settings) -> Verdict:
    """Return the verdict of a row: the outcome at once, the explanation when it is looked at.

    Args:
        row: The row.
        trial: Its trial, which is read again for the explanation.
        settings: How it was screened.
    """
    from planguard.execution.findings.cause import make_finding
    from planguard.parametric.lazy import LazyVerdict
    from planguard.verdict import Outcome, Verdict

    asked = settings.options.model
    model = DEFAULT_MODEL if asked in (None, "all") else str(asked)
    outcome = Outcome(row.outcome)
    if outcome is Outcome.UNKNOWN:
        severity = "error" if row.end in {"refused", "crashed"} else "warning"
        finding = make_finding(row.code or "PG904", row.reason, severity=severity)
        return Verdict(
            outcome,
            model,
            (finding,),
            complete=False,
            models={model: outcome},
            reasons=(row.reason,),
        )

    def complete() -> Verdict:
        from planguard.loading import load
        from planguard.screen.checking import decide

        plan = load(trial.path or trial.data, planner=trial.planner or None)
        return decide(plan, settings.options)

    return LazyVerdict.of(complete, outcome=outcome, model=model)
