"""Plans with fused buffers: one order of flushes on every rank, or two ranks that can differ.

Where the exact rules of ``planguard.semantics.fusion`` leave a rank one sequence of flushes, the
plan in which every flush is one collective is decided in place of the plan. Where a rank has two,
one execution in which two ranks differ is decided: that execution is the witness (PG103).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from planguard.execution.cause import make_finding
from planguard.execution.ledger import apply_ledger
from planguard.reordering.blocks import take_apart
from planguard.reordering.buffers import UndecidedError, buffers_of, ready_of
from planguard.reordering.flushes import conflict, flushes
from planguard.reordering.fusion_findings import (
    arrives,
    describe,
    moved,
    out_of_round,
    settled_layouts,
    unflushed,
)
from planguard.reordering.largest_safe import largest_safe
from planguard.reordering.merge import RankFlushes, merge
from planguard.verdict import Evidence, Outcome, SafeIff, Verdict

if TYPE_CHECKING:
    from collections.abc import Callable

    from planguard.plan.plan import Plan
    from planguard.reordering.blocks import RankOrder
    from planguard.reordering.buffers import Buffer, Ready
    from planguard.reordering.merge import Merged
    from planguard.semantics.fusion import Order

    Decide = Callable[[Plan], Verdict]
    Held = list[list[tuple[Buffer, Ready]]]
    Clash = tuple[int, int, Order]


def over_flushes(plan: Plan, columns: Any, model: str, decide: Decide) -> Verdict:
    """Decide a plan over all orders in which its fused buffers may be flushed.

    Args:
        plan: A plan with ``fusion`` whose other open constructs are decided by ``decide``.
        columns: Its columns.
        model: Name of the execution model.
        decide: Decides a plan without fused buffers.
    """
    try:
        return _Decision(plan, columns, decide).verdict()
    except UndecidedError as reason:
        message = f"not decided: {reason}"
        finding = make_finding("PG902", message, severity="warning", certainty="some-execution")
        return Verdict(
            Outcome.UNKNOWN,
            model,
            (finding,),
            complete=False,
            models={model: Outcome.UNKNOWN},
            evidence=Evidence(schedules=0),
            approximations=plan.approximations,
            reasons=(message,),
        )


class _Decision:
    """One plan and its fused buffers."""

    def __init__(self, plan: Plan, columns: Any, decide: Decide) -> None:
        self.plan, self.decide = plan, decide
        self.flat, self.orders = take_apart(plan, columns)
        self.buffers = buffers_of(self.flat)
        self.held: Held = [[*_held(self.buffers, order)] for order in self.orders]
        self._check_identities()
        self._check_agreement()

    def verdict(self) -> Verdict:
        """Return the verdict over all orders of flushes."""
        usual = self._merged()
        fixed = self.decide(usual.ordered.plan)
        clash = self._clash()
        if clash is None:
            return self._settled(usual, fixed)
        odd = self._merged(clash)
        return self._both(fixed, odd, self.decide(odd.ordered.plan), clash)

    def _group(self, name: str) -> list[int]:
        groups = self.flat.get("groups", {})
        return list(groups[name]["ranks"] if name in groups else range(self.plan.world_size))

    def _check_identities(self) -> None:
        """Without labels a member is known by its id, which ranks share only in one buffer."""
        for buffer in self.buffers:
            sharing = [self.held[rank] for rank in self._group(buffer.group)]
            mine = [(b, r) for held in sharing for b, r in held if b.group == buffer.group]
            labeled = {"label" in leaf.fields for _, ready in mine for leaf in ready.leaves}
            lists = {tuple(b.id for b, _ in held if b.group == buffer.group) for held in sharing}
            if len(labeled) > 1 or (labeled == {False} and len(lists) > 1):
                what = f"unlabeled members of fused buffers of group {buffer.group}"
                raise UndecidedError(f"{what}: which of them belong together is not known")

    def _check_agreement(self) -> None:
        """Ranks agree on an order only of what all of them have."""
        for buffer in self.buffers:
            if not buffer.is_coordinated:
                continue
            lists = set()
            for rank in self._group(buffer.group):
                ready = next((r for b, r in self.held[rank] if b.id == buffer.id), None)
                names = () if ready is None else tuple(ready.name(e) for e in ready.declared)
                lists.add(names)
            if len(lists) > 1:
                what = f"coordinated fused buffer {buffer.id}"
                raise UndecidedError(f"{what} has other members on other ranks")

    def _merged(self, clash: Clash | None = None) -> Merged:
        """Merge every flush: the usual order of readiness, or on one rank another."""
        of_rank = []
        for order, held in zip(self.orders, self.held, strict=True):
            found = []
            for number, (buffer, ready) in enumerate(held):
                arrival: Order = tuple(range(len(ready.leaves)))
                if clash is not None and (order.rank, number) == clash[:2]:
                    arrival = clash[2]
                done = tuple(flushes(buffer, ready, _cap(buffer, ready), arrival))
                found.append(RankFlushes(buffer, ready, done))
            of_rank.append(found)
        return merge(self.flat, self.orders, of_rank)

    def _clash(self) -> Clash | None:
        """Return a rank, one of its buffers and an order in which another rank differs from it."""
        for rank, held in enumerate(self.held):
            for number, (buffer, ready) in enumerate(held):
                pair = conflict(buffer, ready, _cap(buffer, ready))
                other = None if pair is None else self._partner(rank, buffer)
                if pair is None or other is None:
                    continue
                theirs = self._sequence(*other, range(len(other[1].leaves)))
                for arrival in pair:
                    if self._sequence(buffer, ready, arrival) != theirs:
                        return rank, number, arrival
        return None

    def _partner(self, rank: int, buffer: Buffer) -> tuple[Buffer, Ready] | None:
        """Return the buffer of another member of the group; None if the rank is alone in it."""
        others = [r for r in self._group(buffer.group) if r != rank]
        if not others:
            return None
        found = [pair for r in others for pair in self.held[r] if pair[0].group == buffer.group]
        if not found:
            raise UndecidedError(f"fused buffer {buffer.id} has members on one rank only")
        return min(found, key=lambda pair: pair[0].id != buffer.id)

    @staticmethod
    def _sequence(buffer: Buffer, ready: Ready, arrival: Any) -> list[tuple[str, ...]]:
        done = flushes(buffer, ready, _cap(buffer, ready), arrival)
        return [tuple(ready.name(e) for e in flush.elements) for flush in done]

    def _settled(self, usual: Merged, fixed: Verdict) -> Verdict:
        """Every rank has one sequence of flushes: the verdict on them is the verdict."""
        verdict = moved(self.plan, usual.ordered, fixed)
        verdict = settled_layouts(verdict, self.buffers)
        verdict = unflushed(self.plan, verdict, usual.unflushed)
        assumptions = verdict.assumptions
        if any(buffer.is_coordinated for buffer in self.buffers):
            assumptions = (*assumptions, "coordinated-fusion")
        proved = (*verdict.proved, "fusion-order") if verdict.safe else verdict.proved
        return apply_ledger(replace(verdict, assumptions=assumptions, proved=proved))

    def _both(self, fixed: Verdict, odd: Merged, shown: Verdict, clash: Clash) -> Verdict:
        """One rank has two sequences: what the usual one and the odd one say together."""
        outcome = _together(fixed.outcome, shown.outcome)
        buffer, ready = self.held[clash[0]][clash[1]]
        if outcome is None:
            what = f"fused buffer {buffer.id} can be flushed in two ways on rank {clash[0]}"
            raise UndecidedError(f"{what}, and what follows from it is not known")
        other = self._partner(clash[0], buffer)
        assert other is not None  # noqa: S101  a clash has a partner
        theirs = self._sequence(*other, range(len(other[1].leaves)))
        pair = describe(clash[0], self._sequence(buffer, ready, clash[2]), theirs)
        same = [r for held in self.held for b, r in held if b.id == buffer.id]
        policy = largest_safe(buffer, same)
        verdict = moved(self.plan, odd.ordered, shown)
        notes = (*pair, arrives(ready, clash[2]))
        verdict = out_of_round(verdict, buffer, clash[0], notes, policy)
        condition = (SafeIff("fusion-order", buffers=(buffer.id,)),) if fixed.safe else ()
        return apply_ledger(
            replace(
                verdict,
                outcome=outcome,
                models={verdict.model: outcome},
                safe_iff=condition,
                evidence=replace(
                    verdict.evidence, schedules=fixed.evidence.schedules + shown.evidence.schedules
                ),
            )
        )


def _held(buffers: list[Buffer], order: RankOrder) -> list[tuple[Buffer, Ready]]:
    pairs = ((buffer, ready_of(buffer, order)) for buffer in buffers)
    return [(buffer, ready) for buffer, ready in pairs if ready is not None]


def _cap(buffer: Buffer, ready: Ready) -> int:
    return ready.total if buffer.cap is None else buffer.cap


def _together(usual: Outcome, odd: Outcome) -> Outcome | None:
    """Return the outcome of a plan with two executions, or None when it is not known."""
    if Outcome.MISMATCH in {usual, odd}:
        return Outcome.MISMATCH if odd is Outcome.MISMATCH else None
    if usual in {Outcome.SAFE, Outcome.POTENTIAL_DEADLOCK} and odd.severity > 1:
        return Outcome.POTENTIAL_DEADLOCK
    return None
