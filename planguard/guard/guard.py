"""Guard: a reusable check for search loops, with a cache by communication signature."""

from __future__ import annotations

import time
from collections import OrderedDict
from dataclasses import replace
from threading import Lock
from typing import TYPE_CHECKING, Any

import msgspec

from planguard import kernels
from planguard.arguments import VERDICT, arguments
from planguard.engine import check_plan, plan_info
from planguard.errors import UsageError, shorten
from planguard.guard.cache import Answer, AnswerCache, GuardStats
from planguard.guard.signature import communication_signature
from planguard.options import CheckOptions, chosen_options
from planguard.parametric.check import check_symbolic
from planguard.parametric.lazy import LazyVerdict
from planguard.plan.building.builder import PlanBuilder
from planguard.plan.plan import Plan
from planguard.semantics.model import find_model
from planguard.verdict import Stats, Verdict

if TYPE_CHECKING:
    from collections.abc import Callable

    from planguard.guard.incremental import Incremental
    from planguard.guard.nogood import Nogood
    from planguard.guard.signature import CommunicationSignature


DOCUMENT_BYTES = 1 << 16
"""Longest document that is kept as a key."""
SYMBOLIC = 4096
"""World size from which on plans with a mesh are decided on their smallest equivalent instance."""


class Guard:
    """Checks the candidates of a search; plans that communicate alike are decided once.

    One guard may be used from several threads. One that is pickled, for a pool of processes, takes
    its options along and starts without answers. Verdicts are those of ``planguard.check``; of a
    cached one the outcome is there at once, and the findings are made by a full check of the
    asking plan when they are first looked at.

    Example:
        >>> from planguard import Guard, PlanBuilder
        >>> builder = PlanBuilder(2)
        >>> for rank in range(2):
        ...     builder.program(rank).all_reduce(bytes=4)
        >>> guard = Guard(model="gloo")
        >>> guard.check(builder.build()).outcome.value
        'SAFE'

    Args:
        model: One of the nine models, or ``"all"``; the plan's own, else ``nccl``, if None.
        budget: Seconds for the parts of one check that are not linear, or text such as
            ``"50ms"``.
        max_entries: Answers that are kept; the least recently used go first. 0 keeps none.
        options: All options at once; ``model`` and ``budget`` override it.
        load: What turns a candidate that is not a ``Plan`` into one; without it, candidates have
            to be plans, files, bytes or documents of the plan format.

    Raises:
        PlanError: The model is unknown (PG907).
        UsageError: ``max_entries`` is no number of entries, ``load`` cannot be called, or an option
            cannot be.
    """

    def __init__(
        self,
        *,
        model: str | None = None,
        budget: float | str | None = None,
        max_entries: int = 10_000,
        options: CheckOptions | None = None,
        load: Callable[[Any], Plan] | None = None,
    ) -> None:
        if type(max_entries) is not int or max_entries < 0:
            raise UsageError(
                f"max_entries={shorten(max_entries)}: no number of entries",
                hint="0 switches the cache off",
            )
        if load is not None and not callable(load):
            raise UsageError(f"load={shorten(load)}: cannot be called", hint="load=planguard.load")
        self.options = chosen_options(options, model, budget)
        if self.options.model not in (None, "all"):
            find_model(str(self.options.model))
        self._load = load or _read
        self._cache = AnswerCache(max_entries) if max_entries else None
        self._documents: OrderedDict[bytes, CommunicationSignature] = OrderedDict()
        self._max_entries = max_entries
        self._decided = 0
        self._lock = Lock()

    def __getstate__(self) -> dict[str, Any]:
        """Return what makes a guard like this one; answers stay in the process that has them."""
        return {"options": self.options, "max_entries": self._max_entries, "load": self._load}

    def __setstate__(self, state: dict[str, Any]) -> None:
        Guard.__init__(self, **state)

    @property
    def stats(self) -> GuardStats:
        """Hits, misses and their rate so far."""
        if self._cache is None:
            return GuardStats(misses=self._decided)
        return self._cache.stats

    def clear(self) -> None:
        """Forget all answers; the statistics stay."""
        with self._lock:
            self._documents.clear()
        if self._cache is not None:
            self._cache.clear()

    def check(self, candidate: Any) -> Verdict:
        """Decide a candidate, or answer from the cache.

        Args:
            candidate: A ``Plan``, or what ``load`` takes.

        Raises:
            PlanError: The candidate cannot be read, or the model is unknown.
        """
        started = time.perf_counter()
        if self._cache is None:
            with self._lock:
                self._decided += 1
            return self._decide(self._plan(candidate))
        signature = self._signature(candidate)
        plan = signature.plan
        known = self._cache.find(signature)
        if known is None:
            verdict = self._decide(plan)
            self._cache.count("misses")
            self._cache.add(signature, verdict)
            return verdict
        self._cache.count("hits")
        return self._answer(plan, known, started)

    def _decide(self, plan: Plan) -> Verdict:
        if plan.world_size >= SYMBOLIC and plan.mesh is not None:
            return check_symbolic(plan, self.options)
        if plan.approximations:
            return check_plan(plan, self.options)
        # Explaining costs more than deciding: it waits until somebody looks.
        outline = check_plan(plan, self.options, outline=True)
        if outline.unknown or self.options.certificate:
            return check_plan(plan, self.options)
        return LazyVerdict.of(
            lambda: check_plan(plan, self.options),
            outcome=outline.outcome,
            model=outline.model,
            models=outline.models,
            complete=outline.complete,
        )

    def _answer(self, plan: Plan, known: Answer, started: float) -> Verdict:
        if known.text is not None and plan.source and plan.source == known.text[0]:
            verdict = known.text[1]
            if isinstance(verdict, LazyVerdict) and not verdict.is_complete:
                return verdict
            stats = replace(verdict.stats, ms=(time.perf_counter() - started) * 1e3)
            return replace(verdict, plan=plan_info(plan), stats=stats)
        if known.bare is not None:
            return replace(
                known.bare,
                plan=plan_info(plan),
                stats=_stats(plan, started),
                native=kernels.IMPLEMENTATION == "native",
            )
        return LazyVerdict.of(
            lambda: self._explain(plan),
            outcome=known.outcome,
            models=known.models,
            plan=plan_info(plan),
        )

    def _explain(self, plan: Plan) -> Verdict:
        if self._cache is not None:
            self._cache.count("explained")
        return check_plan(plan, self.options)

    def codes(self, candidate: Any) -> tuple[str, ...]:
        """Return the codes of the findings, most severe first, from the cache where it knows them.

        Args:
            candidate: A ``Plan``, or what ``load`` takes.

        Raises:
            PlanError: The candidate cannot be read, or the model is unknown.
        """
        if self._cache is None:
            return _codes(check_plan(self._plan(candidate), self.options))
        signature = self._signature(candidate)
        plan = signature.plan
        known = self._cache.find(signature)
        if known is not None and known.codes is not None:
            return known.codes
        verdict = check_plan(plan, self.options)
        self._cache.add(signature, verdict)
        return _codes(verdict)

    @arguments(verdict=VERDICT)
    def nogood(self, candidate: Any, verdict: Verdict | None = None) -> Nogood | None:
        """Return what is wrong with an unsafe candidate as a predicate on other plans.

        Args:
            candidate: A ``Plan``, or what ``load`` takes.
            verdict: Its verdict, if it is known.

        Returns:
            The predicate, or None where no part of the plan alone makes it unsafe (see
            ``planguard.guard.nogood``).
        """
        from planguard.guard.nogood import make_nogood

        plan = self._plan(candidate)
        return make_nogood(plan, self.check(plan) if verdict is None else verdict, self.options)

    def incremental(self, base: Any) -> Incremental:
        """Return a checker for small edits of one plan.

        Args:
            base: A ``Plan``, or what ``load`` takes.

        Raises:
            PlanError: The plan cannot be read, or the model is unknown.
        """
        from planguard.guard.incremental import Incremental

        return Incremental(self._plan(base), self.options)

    def _plan(self, candidate: Any) -> Plan:
        if isinstance(candidate, PlanBuilder):
            return candidate.build()
        return candidate if isinstance(candidate, Plan) else self._load(candidate)

    def _signature(self, candidate: Any) -> CommunicationSignature:
        """Return the signature of a candidate; a document that was seen before is not read again.

        Documents are compared as the bytes they are encoded to, so equal ones are one plan.
        """
        if self._load is not _read or not isinstance(candidate, dict):
            return communication_signature(self._plan(candidate), self.options)
        try:
            text = msgspec.json.encode(candidate)
        except (TypeError, ValueError, OverflowError, RecursionError):
            return communication_signature(
                self._plan(candidate), self.options
            )  # says what is wrong
        with self._lock:
            known = self._documents.get(text)
            if known is not None:
                self._documents.move_to_end(text)
                return known
        signature = communication_signature(self._plan(text), self.options)
        if len(text) <= DOCUMENT_BYTES:
            with self._lock:
                self._documents[text] = signature
                while len(self._documents) > self._max_entries:
                    self._documents.popitem(last=False)
        return signature


def _codes(verdict: Verdict) -> tuple[str, ...]:
    return tuple(dict.fromkeys(finding.code for finding in verdict.findings))


def _read(candidate: Any) -> Plan:
    from planguard.plan.format import read

    if isinstance(candidate, (str, bytes, dict)) or hasattr(candidate, "__fspath__"):
        return read(candidate)
    raise UsageError(
        f"a {type(candidate).__name__} is not a plan",
        hint="Guard(load=planguard.load) takes what an adapter reads",
    )


def _stats(plan: Plan, started: float) -> Stats:
    return Stats(
        ranks=plan.world_size,
        actions=plan.actions,
        groups=count_groups(plan),
        classes=len(plan.code.programs),
        ms=(time.perf_counter() - started) * 1e3,
    )


def count_groups(plan: Plan) -> int:
    """Return the number of groups, one for every setting of a family's other coordinates."""
    return sum(
        1 if not group.is_family else plan.world_size // group.size(plan.mesh)
        for group in plan.groups
    )
