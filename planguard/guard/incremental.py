"""Incremental: what a small edit of a large plan does to its verdict."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from planguard.engine import check_plan
from planguard.execution.findings.mismatch import candidates
from planguard.execution.findings.undecided import has_own_messages
from planguard.execution.running.executor import execute
from planguard.execution.running.expand import expand
from planguard.guard.edits import Change, changes_of
from planguard.guard.items import Item, Numbering, covers
from planguard.guard.order import Answer, Order, order_of
from planguard.guard.patch import Patcher
from planguard.options import DEFAULT_MODEL, CheckOptions
from planguard.parametric.lazy import LazyVerdict
from planguard.plan.actions import KIND_MASK, Kind, is_collective
from planguard.plan.code import WORDS
from planguard.plan.format import read
from planguard.plan.vocabulary import MPI_ONLY
from planguard.semantics.hazards import find_hazards
from planguard.semantics.model import find_model, strict
from planguard.verdict import PlanInfo, Stats, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from planguard.plan.code import Program
    from planguard.plan.plan import Plan

__all__ = ["Change", "Incremental"]

PLAIN = frozenset(
    kind
    for kind in range(64)
    if kind <= Kind.BSEND or is_collective(kind)
) - {row.kind for row in MPI_ONLY} | {
    Kind.WAIT, Kind.WAIT_MANY, Kind.TEST, Kind.BATCH, Kind.COMPUTE, Kind.HOST_SYNC, Kind.COPY,
    Kind.EVENT_RECORD, Kind.EVENT_WAIT, Kind.REPEAT, Kind.BIND,
}  # fmt: skip
"""Kinds that leave one order of actions, and no finding of their own beside hazards."""


class Incremental:
    """Checks small edits of one base plan; made by ``Guard.incremental``.

    Three ways, each exact, the cheapest that applies. If the base is SAFE without any finding and
    one rank is edited, the order in which the base completes often decides the edit. Otherwise the
    edited program alone is compiled and the strictest execution of the model is run. What is not
    SAFE after that, and whatever the two do not cover, is decided by the full check; an unsafe
    verdict runs it when its outcome or findings are looked at.

    Attributes:
        base: The plan that is edited.
        verdict: Its verdict.
        counts: How often each way answered: ``order``, ``run``, ``full``.
    """

    def __init__(self, base: Plan, options: CheckOptions | None = None) -> None:
        self.base = base
        self.verdict = check_plan(base, options)
        self.counts = {"order": 0, "run": 0, "full": 0}
        self._options = options or CheckOptions()
        self._patcher = Patcher(base)
        self._order: Order | None = None
        self._bare: Verdict | None = None
        is_one_run = self.verdict.evidence.route == ("deterministic",)
        # An entry of the ledger that only notes something, of the whole plan, stays as it is.
        ledger = [a for a in base.approximations if a.actions or a.direction != "exact"]
        self._is_special = bool(base.fusion or ledger)
        says = (self.verdict.findings, self.verdict.reasons)
        is_bare = self.verdict.safe and is_one_run and not any(says) and not self._is_special
        if is_bare and self._options.model != "all":
            self._model = find_model(self._options.model or base.model or DEFAULT_MODEL)
            self._bare = self.verdict if not self._options.certificate else None
            self._order = order_of(base, self._model)

    def check(self, edit: Change | Iterable[Change]) -> Verdict:
        """Decide the base with an edit.

        Args:
            edit: One change, or several, applied in order; the base itself stays as it is.

        Raises:
            PlanError: The edited plan is one that the reader refuses.
            UsageError: The edit is outside the program of its rank.
        """
        started = time.perf_counter()
        changes = changes_of(edit)
        if self._bare is not None and self._order is not None and len(changes) == 1:
            answer = self._by_order(changes[0], started)
            if answer is not None:
                self.counts["order"] += 1
                return answer
        if self._is_special:
            self.counts["full"] += 1
            return check_plan(self.edited(changes), self._options)
        plan, fresh = self._patcher.patch(changes)
        if self._bare is not None and _is_plain(plan, fresh):
            answer = self._by_run(plan, started)
            if answer is not None:
                self.counts["run"] += 1
                return answer
        self.counts["full"] += 1
        return check_plan(plan, self._options)

    def edited(self, edit: Change | Iterable[Change]) -> Plan:
        """Return the edited plan as one of its own, read again from its flat form.

        Raises:
            PlanError: The edited plan is one that the reader refuses.
            UsageError: The edit is outside the program of its rank.
        """
        changes = changes_of(edit)
        return read(self._patcher.document(changes), limits=self.base.limits)

    def actions(self, rank: int) -> list[Any]:
        """Return the actions of a rank of the base in the words of the plan format.

        Loops are unrolled, so that a place in the list is the place of a change.

        Raises:
            UsageError: The plan has no such rank.
        """
        self.base.length(rank)
        return list(self._patcher.actions(rank))

    def accept(self, edit: Change | Iterable[Change]) -> Incremental:
        """Return a checker for edits of the edited plan, the next step of a local search.

        Raises:
            PlanError: The edited plan is one that the reader refuses.
            UsageError: The edit is outside the program of its rank.
        """
        return Incremental(self.edited(edit), self._options)

    # --- three ways ------------------------------------------------------------------------------

    def _by_order(self, change: Change, started: float) -> Verdict | None:
        if self._order is None or not 0 <= change.rank < self.base.world_size:
            return None
        fresh = self._fresh(change)
        if fresh is None:
            return None
        answer = self._order.judge(change, fresh)
        if answer is Answer.OPEN:
            return None
        if answer is Answer.UNSAFE:
            return self._unsafe((change,))
        grown = len(change.actions) - (change.stop - change.start)
        return self._safe(self.verdict.stats.actions + grown, started)

    def _fresh(self, change: Change) -> list[Item] | None:
        """Return the items of the new actions of a change; None if they need their program."""
        new = [action for action in change.actions if isinstance(action, dict)]
        if not new:
            return []
        known = self._same_handle(change)
        if known is not None:
            new = [{name: value for name, value in new[0].items() if name != "work"}]
        plan = self._patcher.fresh(change.rank, new)
        if plan is None or not covers(plan, self._model):
            return None
        fresh = Numbering(plan, self._model).rank(change.rank)
        if known is not None:
            fresh[0].handles = known
        return fresh

    def _same_handle(self, change: Change) -> tuple[int, ...] | None:
        """Return the handle of an action that is replaced by one with a handle of that name."""
        only = change.actions[0]
        if change.stop - change.start != 1 or len(change.actions) != 1 or isinstance(only, int):
            return None
        before = self._patcher.actions(change.rank)
        if self._order is None or not 0 <= change.start < len(before) or "work" not in only:
            return None
        if before[change.start].get("work") != only["work"] or only["op"] == "wait":
            return None
        return self._order.items[change.rank][change.start].handles

    def _by_run(self, plan: Plan, started: float) -> Verdict | None:
        """Run the strictest execution; None if more than that is needed."""
        if self._model.one_lock:
            return None  # who of two threads comes first is asked by the full check
        columns = expand(plan)
        unclear = columns.has_any_source or columns.has_any_tag or columns.has_wait_choice
        if unclear or columns.has_markers or has_own_messages(columns):
            return None
        run = execute(plan, columns, self._model, strict(self._model))
        if not run.completes:
            return LazyVerdict.of(lambda: check_plan(plan, self._options), is_unsafe=True)
        if candidates(run) or len(run.lanes.mixed_async) or _says_more(plan, columns):
            return None
        return self._safe(len(columns.op), started)

    def _safe(self, actions: int, started: float) -> Verdict:
        assert self._bare is not None  # noqa: S101  both callers saw it
        stats = Stats(
            ranks=self.base.world_size,
            actions=actions,
            groups=self.verdict.stats.groups,
            classes=self.verdict.stats.classes + 1,
            ms=(time.perf_counter() - started) * 1e3,
        )
        info = PlanInfo(name=self.base.name, planner=self.base.planner)
        return replace(self._bare, plan=info, stats=stats)

    def _unsafe(self, changes: Sequence[Change]) -> Verdict:
        return LazyVerdict.of(
            lambda: check_plan(self._patcher.patch(changes)[0], self._options), is_unsafe=True
        )


def _is_plain(plan: Plan, fresh: tuple[Program, ...]) -> bool:
    """Whether the programs of an edit hold nothing but plain actions without hazards."""
    for program in fresh:
        if not {op & KIND_MASK for op in set(program.code[::WORDS])} <= PLAIN:
            return False
    alone: Any = _Alone(fresh, plan.code.aux)
    return not find_hazards(alone)


class _Alone:
    """Some programs of a plan, for the search for hazards, which looks at one after the other."""

    def __init__(self, programs: tuple[Program, ...], aux: Any) -> None:
        self.programs = programs
        self.aux = aux


def _says_more(plan: Plan, columns: Any) -> bool:
    """Whether a completed run has leftovers, groups of one rank, or nothing that meets."""
    import numpy as np

    sent, received = np.asarray(columns.send_count), np.asarray(columns.recv_count)
    if (sent != received).any():
        return True
    offsets, counts = np.asarray(columns.ginst_off), np.asarray(columns.slot_count)
    small = np.flatnonzero(np.diff(offsets) == 1)
    if counts[offsets[small]].any() and plan.world_size > 1:
        return True
    return not (sent.any() or counts.any())
