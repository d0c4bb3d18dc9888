"""Plans with fused buffers: one order of flushes on every rank, or ranks that can differ.

Where the exact rules of ``fusion_events`` leave every rank one program of flushes, that plan is
decided in place of the plan. Where a rank has two sequences of flushes on one communicator, one
execution in which two ranks differ is decided: that execution is the witness (PG103). Where only
the order of several communicators is open, the events of every rank are decided as a plan of open
order (``fusion_open``). In all other cases every combination of the programs that the ranks can
issue is decided, if they are few.

Above 400 lines: the rules are asked one after the other of one plan, and hand on what they found.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from planguard.errors import OrderError
from planguard.execution.findings.ledger import apply_ledger
from planguard.execution.findings.reason import UndecidedError
from planguard.options import running
from planguard.plan.actions import Kind
from planguard.plan.content import has_kind
from planguard.plan.nodes import op_name
from planguard.reordering.branches.assignments import leaves
from planguard.reordering.buffers.agreement import agreements
from planguard.reordering.buffers.beside import FORK, JOIN
from planguard.reordering.buffers.each_order import over_orders_of_blocks
from planguard.reordering.buffers.early import stuck_early
from planguard.reordering.buffers.events import conflict
from planguard.reordering.buffers.explore import combinations, programs
from planguard.reordering.buffers.findings import (
    arrives,
    describe,
    in_one_order,
    in_some_order,
    moved,
    never_flushed,
    never_submitted,
    out_of_round,
    settled_layouts,
    standing,
    unflushed,
    with_flushes,
)
from planguard.reordering.buffers.identity import identify
from planguard.reordering.buffers.largest_safe import largest_safe
from planguard.reordering.buffers.merge import EveryRankError, merge
from planguard.reordering.buffers.negotiated.background import beside
from planguard.reordering.buffers.open import opened, stands_of, ways
from planguard.reordering.buffers.play import play
from planguard.reordering.buffers.rank import PLAIN, blocks_in
from planguard.reordering.buffers.ranks import Ranks
from planguard.reordering.buffers.ways import over_ways
from planguard.reordering.cases.together import is_empty, open_verdict
from planguard.reordering.join import NAMELESS, case_of, join, left_open, mixes
from planguard.semantics.model import Family, find_model
from planguard.verdict import Outcome, SafeIff, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from planguard.options import CheckOptions
    from planguard.plan.plan import Plan
    from planguard.reordering.buffers.events import Conflict
    from planguard.reordering.buffers.merge import Merged
    from planguard.reordering.buffers.open import Relation
    from planguard.reordering.buffers.play import Played
    from planguard.reordering.buffers.policies import Agreed
    from planguard.reordering.buffers.rank import Extension
    from planguard.reordering.cases.together import Decide


def over_flushes(plan: Plan, model: str, options: CheckOptions, decide: Decide) -> Verdict:
    """Decide a plan over all orders in which its fused buffers may be flushed.

    Args:
        plan: A plan with ``fusion`` whose other open constructs are decided by ``decide``.
        model: Name of the execution model.
        options: Options; ``budget`` bounds the work in seconds.
        decide: Decides a plan without fused buffers.
    """
    try:
        try:
            return _over_agreements(Ranks(plan), plan, model, options, decide)
        except EveryRankError:
            return _over_agreements(Ranks(plan, apart=True), plan, model, options, decide)
    except UndecidedError as undecided:
        refused = undecided
    try:
        return over_orders_of_blocks(plan, model, options, decide, refused)
    except UndecidedError as undecided:
        return open_verdict(plan, model, undecided.reason)


def _over_agreements(
    ranks: Ranks, plan: Plan, model: str, options: CheckOptions, decide: Decide
) -> Verdict:
    """Decide a plan over all that its ranks may agree on."""
    _check_threads(plan, ranks)
    _check_identities(ranks)
    coordinated = [buffer for buffer in ranks.buffers if buffer.is_coordinated]
    if not coordinated:
        return _Decision(ranks, plan, model, options, decide, {}).verdict()
    deadline = running(options).deadline
    try:
        found = agreements(coordinated, ranks, ranks.members, find_model(model), deadline)
    except UndecidedError as undecided:
        refused = undecided
    else:
        return over_ways(plan, model, found, partial(_agreed, ranks, plan, model, options, decide),
                         deadline)  # fmt: skip
    rest = partial(_rest, model, options, decide)
    try:
        return beside(ranks, plan, find_model(model), rest, refused)
    except OrderError:  # what stands for members is no valid program
        raise refused from None


def _agreed(
    ranks: Ranks,
    plan: Plan,
    model: str,
    options: CheckOptions,
    decide: Decide,
    way: dict[str, Agreed],
) -> Verdict:
    """Decide a plan whose ranks agree in one way."""
    return _Decision(ranks, plan, model, options, decide, way).verdict()


def _rest(model: str, options: CheckOptions, decide: Decide, plan: Plan) -> Verdict:
    """Decide a plan that may have buffers left."""
    if plan.fusion:
        return over_flushes(plan, model, options, decide)
    return decide(plan, brief=decide.outline)


def _check_threads(plan: Plan, ranks: Ranks) -> None:
    """Refuse members in threads but in one that is played (``beside``)."""
    if not has_kind(plan, Kind.THREADS_BEGIN):
        return
    members = {name for buffer in ranks.buffers for name in buffer.members}
    for rank in ranks.alone.values():
        for item in rank.items:
            ids = {one.get("id") for one in leaves([item])}
            if ids & members and any(op == "threads" for op in blocks_in(item)):
                raise UndecidedError("a member of a fused buffer in a thread")


def _check_identities(ranks: Ranks) -> None:
    """Without labels a member is known by its id, which ranks share only in one buffer."""
    if all(h.ready.labeled <= {True} for rank in ranks.alone.values() for h in rank.held):
        return
    for buffer in ranks.buffers:
        sharing = [ranks[rank].held for rank in ranks.members[buffer.group]]
        mine = [h for held in sharing for h in held if h.buffer.group == buffer.group]
        labeled = frozenset[bool]().union(*(one.ready.labeled for one in mine))
        lists = {
            tuple(h.buffer.id for h in held if h.buffer.group == buffer.group) for held in sharing
        }
        if len(labeled) > 1 or (labeled == {False} and len(lists) > 1):
            what = f"unlabeled members of fused buffers of group {buffer.group}"
            raise UndecidedError(f"{what}: which of them belong together is not known")


class _Decision:
    """One plan and its fused buffers, once it is known what the ranks agree on."""

    def __init__(
        self,
        ranks: Ranks,
        plan: Plan,
        model: str,
        options: CheckOptions,
        decide: Decide,
        agreed: dict[str, Agreed],
    ) -> None:
        self.plan, self.decide, self.model, self.options = plan, decide, model, options
        self.deadline = running(options).deadline
        self.ranks, self.buffers, self.agreed = ranks, ranks.buffers, agreed
        rules = find_model(model)
        self.streams = rules.family is not Family.HOST
        self.shared = self.streams or rules.pre_barrier or rules.one_lock
        self.use_tags = rules.use_tags
        self.usual = self._usual()

    def _usual(self) -> list[Played]:
        usual: list[Played] = []
        for rank, first in enumerate(self.ranks.first):
            usual.append(
                self._play(rank, self.ranks[rank].usual) if rank == first else usual[first]
            )
        return usual

    def verdict(self) -> Verdict:
        """Return the verdict over all orders of flushes."""
        merged = merge(self.ranks, self.usual)
        conflicts = self._conflicts()
        if not conflicts:
            return self._settled(merged, self._shown_of(merged))
        unnamed = None
        if self.ranks.is_apart:  # else only what needs no labels is told: what disagrees anyway
            unnamed = identify(self.ranks, self.plan, use_tags=self.use_tags)
            if any(self.ranks.labels):
                self.usual = self._usual()
                merged = merge(self.ranks, self.usual)
        # One order of several: in most cases another one is shown, or all at once.
        fixed = self.decide(merged.ordered.plan, brief=True)
        early = self._stuck_early(merged, fixed)
        if early is not None:
            return early
        for rank, one in conflicts:
            verdict = self._clash(rank, self.ranks.conflict_of(rank, one), fixed)
            if verdict is not None:
                return verdict
        if not self.ranks.is_apart:
            raise EveryRankError
        found = self._over_events(merged, fixed, conflicts)
        if found is None:
            found = self._explore(fixed)
        if unnamed is not None and found.outcome not in NAMELESS:
            raise UndecidedError(unnamed)
        return found

    def _conflicts(self) -> list[tuple[int, Conflict]]:
        """Return the ranks that can issue different programs, with two orders of each.

        They are those of the rank that stands for it (``Ranks.conflict_of``).
        """
        found: dict[int, Conflict | None] = {}
        conflicts = []
        for rank, first in enumerate(self.ranks.first):
            if rank == first:
                found[rank] = conflict(
                    self.ranks[rank], self.agreed, shared=self.shared, alone=self.ranks.lonely(rank)
                )
            one = found[first]
            if one is not None:
                conflicts.append((rank, one))
        return conflicts

    def _play(self, rank: int, order: Extension) -> Played:
        return play(self.ranks[rank], order, self.agreed, self.ranks, streams=self.streams)

    def _shown_of(self, merged: Merged) -> Verdict:
        """Return the verdict on a plan that is shown."""
        return self.decide(merged.ordered.plan, brief=self.decide.outline)

    # --- one order ---------------------------------------------------------------------------

    def _settled(self, usual: Merged, fixed: Verdict) -> Verdict:
        """Every rank has one program of flushes: the verdict on them is the verdict."""
        if self.decide.outline and not self.plan.approximations:
            return self._assuming(fixed)
        verdict = moved(self.plan, usual.ordered, fixed)
        verdict = with_flushes(verdict, usual.flushes)
        verdict = settled_layouts(verdict, self.buffers)
        verdict = self._never_flushed(verdict, usual)
        verdict = standing(verdict, self._stands())
        verdict = unflushed(self.plan, verdict, usual.unflushed)
        proved = (*verdict.proved, "fusion-order") if verdict.safe else verdict.proved
        return apply_ledger(replace(self._assuming(verdict), proved=proved))

    def _never_flushed(self, verdict: Verdict, merged: Merged) -> Verdict:
        stuck = merged.stuck
        if not stuck:
            return verdict
        return never_flushed(verdict, stuck, never_submitted(self.ranks, self.ranks.members))

    def _stands(self) -> dict[tuple[int, int], str]:
        """Return where a host waits for the background, to what it waits for."""
        return {
            (rank.order.rank, leaf.action): f"{held.ready.name(at)} of {held.buffer.id}"
            for rank in (self.ranks if any(one.background for one in self.agreed.values()) else ())
            for held in rank.held
            if held.buffer.id in self.agreed and self.agreed[held.buffer.id].background
            for at, leaf in enumerate(held.ready.leaves)
        }

    def _assuming(self, verdict: Verdict) -> Verdict:
        if not self.agreed:
            return verdict
        return replace(verdict, assumptions=(*verdict.assumptions, "coordinated-fusion"))

    # --- two orders on one communicator ------------------------------------------------------

    def _clash(self, rank: int, one: Conflict, fixed: Verdict) -> Verdict | None:
        """Return what an execution says in which the rank differs from a member of the group."""
        if one.queue is None:
            return None
        others = [peer for peer in self.ranks.members_of(rank, one.queue) if peer != rank]
        partner = next(
            (peer for peer in others if self._sequence(peer, self.usual[peer], one.queue)), None
        )
        if partner is None:
            return None
        theirs = self._sequence(partner, self.usual[partner], one.queue)
        for order in one.orders:
            is_usual = order == self.ranks[rank].usual
            played = self.usual[rank] if is_usual else self._play(rank, order)
            mine = self._sequence(rank, played, one.queue)
            if mine != theirs:
                return self._both(rank, played, order, one, (mine, theirs), fixed)
        return None

    def _sequence(self, rank: int, played: Played, group: str) -> list[str]:
        """Return what a rank issues on a group, by name."""
        local, family = self.ranks.local(rank, group), self.ranks.family(rank, group)
        found: list[str] = []
        for action in played.actions:
            if action["op"] in {FORK, JOIN}:
                continue
            if action["op"] == PLAIN:
                found += _said(action["nodes"], family)
            elif action.get("group", "world") == local and action["op"] != "wait":
                found.append(str(action.get("label", action.get("id", action["op"]))))
        return found

    def _both(
        self,
        rank: int,
        played: Played,
        order: Extension,
        one: Conflict,
        pair: tuple[list[str], list[str]],
        fixed: Verdict,
    ) -> Verdict | None:
        """One rank has two sequences: what the usual one and the odd one say together."""
        odd = merge(self.ranks, [*self.usual[:rank], played, *self.usual[rank + 1 :]])
        shown = self.decide(odd.ordered.plan, brief=True)
        outcome = _together(fixed, shown)
        if outcome is None or one.held is None:
            return None
        if self.decide.outline and not self.plan.approximations:
            models = {shown.model: outcome}
            return replace(self._assuming(shown), outcome=outcome, models=models)
        shown = self._shown_of(odd)
        buffer = one.held.buffer
        notes = (*describe(rank, *pair), arrives(self.ranks[rank], order))
        schedules = fixed.evidence.schedules + shown.evidence.schedules
        return self._shown(odd, shown, outcome, schedules, fixed, (buffer.id, rank, notes))

    def _shown(
        self,
        merged: Merged,
        shown: Verdict,
        outcome: Outcome,
        schedules: int,
        fixed: Verdict,
        what: tuple[str, int, tuple[str, ...]],
    ) -> Verdict:
        name, rank, notes = what
        held = next(h for h in self.ranks[rank].held if h.buffer.id == name)
        mine = [self.ranks[r] for r in self.ranks.members[held.buffer.group]]
        same = [h.ready for r in mine for h in r.held if h.buffer.id == name]
        policy, cap = largest_safe(held.buffer, same)
        verdict = moved(self.plan, merged.ordered, shown)
        verdict = with_flushes(verdict, merged.flushes)
        verdict = self._never_flushed(verdict, merged)
        verdict = out_of_round(verdict, held.buffer, rank, notes, policy)
        condition = (SafeIff("fusion-order", bytes=cap, buffers=(name,)),) if fixed.safe else ()
        evidence = replace(verdict.evidence, schedules=schedules)
        return apply_ledger(
            replace(
                self._assuming(verdict),
                outcome=outcome,
                models={verdict.model: outcome},
                safe_iff=condition,
                evidence=evidence,
            )
        )

    def _stuck_early(self, usual: Merged, fixed: Verdict) -> Verdict | None:
        """Return DEADLOCK where ranks are stuck before a member plays a part."""
        if fixed.outcome is not Outcome.DEADLOCK:
            return None
        ranks = stuck_early(
            usual, self.ranks.alone.values(), self.usual, find_model(self.model), self.options
        )
        if not ranks:
            return None
        return in_some_order(self._settled(usual, self._shown_of(usual)), ranks)

    # --- one order on every communicator -----------------------------------------------------

    def _over_events(
        self, usual: Merged, fixed: Verdict, conflicts: Sequence[tuple[int, Conflict]]
    ) -> Verdict | None:
        """Decide a plan whose ranks differ only in the order of several communicators.

        What meets is the same in every order then, so a usual order that goes wrong only in some
        executions, or in what meets, speaks for all. None where the rules do not apply.
        """
        is_known = all(one.queue is None and one.events for _, one in conflicts)
        if not is_known or any(played.stuck for played in self.usual):
            return None
        # Beside a thread what meets need not be the same in all orders: what is said there is SAFE,
        # or DEADLOCK, of all that the blocks admit.
        is_beside = any(rank.threaded for rank in self.ranks)
        orders = [(rank, order) for rank, one in conflicts for order in one.orders]
        if is_beside and (orders or fixed.outcome not in {Outcome.SAFE, Outcome.DEADLOCK}):
            return None
        if fixed.outcome in {Outcome.MISMATCH, Outcome.POTENTIAL_DEADLOCK}:
            return self._settled(usual, self._shown_of(usual))
        if fixed.safe and orders:  # the rank waits for what only it could launch
            return self._reordered(orders[:1], fixed, fixed)
        known: Relation = {}
        rooms = {
            rank: opened(self.ranks[rank], self.usual[rank], one.events, known)
            for rank, one in conflicts
        }
        issued = [
            room.played if (room := rooms.get(rank)) else played
            for rank, played in enumerate(self.usual)
        ]
        merged = merge(self.ranks, issued)
        verdict = self.decide(merged.ordered.plan, brief=False)
        if verdict.unknown:
            return None
        if verdict.outcome is fixed.outcome:
            return self._settled(merged, verdict)
        if not fixed.safe or is_beside:
            return None
        stands = stands_of(merged, verdict, rooms)
        for chosen in ways(self.ranks, stands):
            shown = self._reordered(chosen, fixed, verdict)
            if shown is not None:
                return shown
        return None

    def _reordered(
        self, chosen: Sequence[tuple[int, Extension]], fixed: Verdict, all_orders: Verdict
    ) -> Verdict | None:
        """Execute orders of some ranks; return what they show if they get stuck, else None."""
        played = list(self.usual)
        for rank, order in chosen:
            played[rank] = self._play(rank, order)
        merged = merge(self.ranks, played)
        shown = self.decide(merged.ordered.plan, brief=False)
        outcome = join([case_of(fixed), case_of(shown)])
        if shown.safe or shown.unknown or outcome is Outcome.UNKNOWN:
            return None
        notes = tuple(arrives(self.ranks[rank], order) for rank, order in chosen)
        verdict = self._settled(merged, shown)
        route = (*verdict.evidence.route, *all_orders.evidence.route)
        route = tuple(dict.fromkeys(name for name in route if name != "deterministic"))
        return replace(
            in_one_order(verdict, [rank for rank, _ in chosen], notes),
            outcome=outcome,
            models={verdict.model: outcome},
            safe_iff=(),
            evidence=replace(verdict.evidence, route=route),
        )

    # --- all orders --------------------------------------------------------------------------

    def _explore(self, fixed: Verdict) -> Verdict:
        """Decide every combination of the programs that the ranks can issue."""
        choices = [
            programs(
                rank,
                lambda order, r=rank: self._play(r.order.rank, order),  # type: ignore[misc]
                self.deadline,
            )
            for rank in self.ranks
        ]
        seen: list[tuple[Verdict, Sequence[Played], Merged]] = []
        for combination in combinations(choices, self.deadline):
            plan = merge(self.ranks, combination)
            seen.append((self.decide(plan.ordered.plan, brief=False), combination, plan))
        outcome = join(case_of(verdict) for verdict, _, _ in seen)
        if outcome is Outcome.UNKNOWN:
            shown, _, open_plan = next(
                (one for one in seen if one[0].unknown and not is_empty(one[0])), seen[0]
            )
            return moved(self.plan, open_plan.ordered, shown)
        worst = max(seen, key=lambda one: one[0].outcome.severity)
        shows = [one for one in seen if one[0].outcome is outcome]
        if outcome is Outcome.MISMATCH and not shows:
            shows = [one for one in seen if mixes(one[0])]
        verdict, chosen, merged = shows[0] if shows else worst
        differs = next(
            (r for r, p in enumerate(chosen) if p.actions != self.usual[r].actions), None
        )
        held = [] if differs is None else self.ranks[differs].held
        if outcome is not Outcome.SAFE and held:
            assert differs is not None  # noqa: S101  only then is something held
            notes = (f"in one order of readiness of rank {differs}",)
            what = (held[0].buffer.id, differs, notes)
            found = self._shown(merged, verdict, outcome, len(seen), fixed, what)
        else:
            found = self._settled(merged, verdict)
            found = replace(found, outcome=outcome, models={found.model: outcome})
        route = tuple(dict.fromkeys((*found.evidence.route, "explorer")))
        undecided = any(one.unknown for one, _, _ in seen)
        kind = "execution" if undecided else "exhaustive"
        evidence = replace(
            found.evidence, kind=kind, route=route, engine="explorer", schedules=len(seen)
        )
        # What is open could still show a mismatch (``join``).
        is_open = outcome is Outcome.POTENTIAL_DEADLOCK and undecided
        if is_open:
            reasons = left_open([found, *(one for one, _, _ in seen)])
            found = replace(found, complete=False, reasons=reasons)
        return replace(found, evidence=evidence)


def _said(nodes: Sequence[Any], group: str) -> Iterator[str]:
    """Yield the names of what actions in a row issue on a group, as their program writes it."""
    for node in nodes:
        name = getattr(node, "group", UNSET)
        if ("world" if name is UNSET else name) == group:
            yield next((str(text) for text in (node.label, node.id) if text is not UNSET),
                       op_name(node))  # fmt: skip


def _together(usual: Verdict, odd: Verdict) -> Outcome | None:
    """Return the outcome of a plan with two executions among others, or None if it is not known.

    Only a disagreement settles it: no further execution can make that anything else.
    """
    both = join([case_of(usual), case_of(odd)])
    return both if both is Outcome.MISMATCH and mixes(odd) else None
