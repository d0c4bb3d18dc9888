"""The store of answers: by word form first, by rank form second, least recently used out first."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, replace
from threading import Lock
from typing import TYPE_CHECKING

from planguard.guard.signature import is_reordered
from planguard.parametric.lazy import LazyVerdict
from planguard.verdict import PlanInfo, Stats, Verdict

if TYPE_CHECKING:
    from planguard.guard.signature import CommunicationSignature, Key, Named
    from planguard.verdict import Outcome

TIMED = frozenset({"PG903"})
"""Codes that tell of a budget: another try may decide the plan, so nothing is kept."""


@dataclass(frozen=True)
class GuardStats:
    """What a guard did so far.

    Attributes:
        hits: Checks that were answered from the cache.
        misses: Checks that were decided.
        renamed: Hits of plans whose ranks or names differ from those of the plan decided.
        explained: Full checks of cached plans whose findings somebody looked at.
        entries: Answers in the cache.
    """

    hits: int = 0
    misses: int = 0
    renamed: int = 0
    explained: int = 0
    entries: int = 0

    @property
    def checks(self) -> int:
        """Number of checks."""
        return self.hits + self.misses

    @property
    def rate(self) -> float:
        """Share of the checks that were hits, 0 to 1."""
        return self.hits / self.checks if self.checks else 0.0


@dataclass(frozen=True)
class Answer:
    """What is kept of a decided plan.

    Attributes:
        names: Names of data of the plan that was decided, by place.
        outcome: Its outcome.
        models: Its outcome under every model that was asked.
        codes: Codes of its findings, most severe first; None where they were not seen.
        bare: The verdict, if it names no rank, label or action, so that it holds as it is.
        text: The bytes of the plan that was decided, and its verdict, if the plan has a text.
    """

    names: Named
    outcome: Outcome
    models: dict[str, Outcome]
    codes: tuple[str, ...] | None = None
    bare: Verdict | None = None
    text: tuple[bytes, Verdict] | None = None


def answer_of(names: Named, verdict: Verdict, text: bytes) -> Answer:
    """Return what to keep of a verdict; of one that is not explained yet only its outcome.

    Args:
        names: Names of data of the plan.
        verdict: Its verdict, from a full check.
        text: The bytes the plan was read from.
    """
    if isinstance(verdict, LazyVerdict) and not verdict.is_complete:
        return Answer(names, verdict.outcome, verdict.models, text=(text, verdict))
    says = (
        verdict.findings,
        verdict.safe_iff,
        verdict.reasons,
        tuple(entry for entry in verdict.approximations if entry.actions),
        verdict.core,
        verdict.certificate,
    )
    bare = None if any(says) else replace(verdict, plan=PlanInfo(), stats=Stats())
    codes = tuple(dict.fromkeys(finding.code for finding in verdict.findings))
    return Answer(names, verdict.outcome, verdict.models, codes, bare, (text, verdict))


class AnswerCache:
    """Answers by signature; every method may be called from any thread."""

    def __init__(self, max_entries: int) -> None:
        self._max = max_entries
        self._lock = Lock()
        self._words: OrderedDict[Key, list[Answer]] = OrderedDict()
        self._ranks: OrderedDict[Key, list[Answer]] = OrderedDict()
        # The first plan of an outline waits here: its rank form is not made before another plan
        # comes that may have the same. None: more than one came, and all are in ``_ranks``.
        self._first: OrderedDict[Key, tuple[CommunicationSignature, Answer] | None] = OrderedDict()
        self._counts = {"hits": 0, "misses": 0, "renamed": 0, "explained": 0}

    @property
    def stats(self) -> GuardStats:
        """What happened so far."""
        with self._lock:
            return GuardStats(**self._counts, entries=sum(map(len, self._words.values())))

    def count(self, what: str) -> None:
        """Add one to a counter of ``GuardStats``."""
        with self._lock:
            self._counts[what] += 1

    def clear(self) -> None:
        """Forget all answers; the counters stay."""
        with self._lock:
            self._words.clear()
            self._ranks.clear()
            self._first.clear()

    def find(self, signature: CommunicationSignature) -> Answer | None:
        """Return the answer for a signature, or None.

        A plan with the ranks of another one permuted is found by its rank form, and is then known
        by its words as well.
        """
        with self._lock:
            known = _fitting(self._words, signature.by_words, signature.names)
            outline = signature.outline
            if known is not None or outline is None or outline not in self._first:
                return known
            waiting = self._first[outline]
            self._first[outline] = None
        if waiting is not None:
            self._keep_ranks(*waiting)
        if signature.ranks is None or signature.by_ranks is None:
            return None
        with self._lock:
            known = _fitting(self._ranks, signature.by_ranks, signature.ranks.names)
        if known is None:
            return None
        own = replace(known, names=signature.names, codes=None, text=None)
        self._keep(self._words, signature.by_words, own)
        self.count("renamed")
        return own

    def add(self, signature: CommunicationSignature, verdict: Verdict) -> None:
        """Keep a verdict, unless it tells of a budget, or another try may say more."""
        if not verdict.complete:  # unsafe, and some of its cases are not decided
            return
        if verdict.unknown and any(finding.code in TIMED for finding in verdict.findings):
            return
        answer = answer_of(signature.names, verdict, signature.plan.source)
        self._keep(self._words, signature.by_words, answer)
        outline = signature.outline
        if outline is None:
            return
        with self._lock:
            is_first = outline not in self._first
            if is_first:
                self._first[outline] = signature, answer
                while len(self._first) > self._max:
                    self._first.popitem(last=False)
        if not is_first:
            self._keep_ranks(signature, answer)

    def _keep_ranks(self, signature: CommunicationSignature, answer: Answer) -> None:
        if signature.ranks is not None and signature.by_ranks is not None:
            alike = replace(answer, names=signature.ranks.names, text=None)
            self._keep(self._ranks, signature.by_ranks, alike)

    def _keep(self, table: OrderedDict[Key, list[Answer]], key: Key, answer: Answer) -> None:
        with self._lock:
            same = [kept for kept in table.pop(key, []) if kept.names != answer.names]
            table[key] = [*same, answer][-8:]
            while len(table) > self._max:
                table.popitem(last=False)


def _fitting(table: OrderedDict[Key, list[Answer]], key: Key, names: Named) -> Answer | None:
    """Return the answer of a plan that differs by new names only."""
    answers = table.get(key)
    if answers is None:
        return None
    table.move_to_end(key)
    same = next((answer for answer in answers if answer.names == names), None)
    if same is not None:
        return same
    return next((answer for answer in answers if not is_reordered(answer.names, names)), None)
