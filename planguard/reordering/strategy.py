"""The cheapest exact route for plans with open order, and UNKNOWN where there is none yet.

``any-order`` (T2): rounds are chains and nothing in a block blocks, so the order plays no part and
one run decides. ``explorer``: every combination of linear extensions is decided as a fixed order;
each is exact by confluence, so together they are exhaustive.
"""

from __future__ import annotations

import itertools
import time
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from planguard.execution.decide import Decider, Decision
from planguard.execution.expand import expand
from planguard.plan.format import read
from planguard.reordering.blocks import Block, RankOrder, count_extensions, extensions, take_apart
from planguard.reordering.rounds import POINT_TO_POINT, movable, swappable
from planguard.semantics.model import Family
from planguard.verdict import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterator

    from planguard.options import CheckOptions
    from planguard.plan.plan import Plan
    from planguard.semantics.model import ExecutionModel

LIMIT = 2_000
"""Most combinations of orders that are explored when no budget is given."""


@dataclass(frozen=True)
class Ordered:
    """One combination of orders as a fixed plan.

    Attributes:
        plan: The plan with its blocks put in order.
        actions: Action index in the original plan of every action, per rank.
    """

    plan: Plan
    actions: tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Explored:
    """What all orders together say.

    Attributes:
        outcome: The outcome over all orders; UNKNOWN when not all were decided.
        shown: The order that shows it, and its decision.
        decider: The decider of that order.
        ordered: The fixed plan of that order.
        schedules: How many orders were decided.
        route: ``any-order`` or ``explorer``.
        reason: Why it is UNKNOWN.
    """

    outcome: Outcome
    shown: Decision | None = None
    decider: Decider | None = None
    ordered: Ordered | None = None
    schedules: int = 0
    route: str = "explorer"
    reason: str = ""


def explore(plan: Plan, columns: Any, model: ExecutionModel, options: CheckOptions) -> Explored:
    """Decide a plan over all orders that its ``unordered`` blocks admit.

    Args:
        plan: The plan; its only open construct is ``unordered``.
        columns: Its columns.
        model: The execution model.
        options: Options; ``budget`` bounds the exploration in seconds.
    """
    flat, orders = take_apart(plan, columns)
    problem = _label(plan, orders)
    if problem:
        return Explored(Outcome.UNKNOWN, reason=problem)
    if all(_is_free(order, model) for order in orders):
        return _decide_all(flat, orders, [_first(orders)], model, options, "any-order")
    total = 1
    for order in orders:
        for block in order.blocks:
            total *= count_extensions(block, LIMIT + 1)
            if total > LIMIT and options.budget is None:
                reason = f"more than {LIMIT:,} combinations of orders; no cheaper exact route yet"
                return Explored(Outcome.UNKNOWN, reason=reason)
    return _decide_all(flat, orders, _combinations(orders), model, options, "explorer")


def _label(plan: Plan, orders: list[RankOrder]) -> str:
    """Give communication that may change places its implicit identity; say why if there is none."""
    programs = plan.code.rank_program
    for order in orders:
        for number, block in enumerate(order.blocks):
            for at in movable(block):
                fields = block.leaves[at].fields
                if "label" in fields:
                    continue
                op = fields["op"]
                if op in POINT_TO_POINT or op == "batch":
                    return f"an unlabeled {op} that may change places with another of its channel"
                if not _same_program(plan, fields, order.rank):
                    return f"an unlabeled {op} that may move, on ranks with different programs"
                fields["label"] = f"~{programs[order.rank]}:{number}:{block.leaves[at].path}"
    return ""


def _same_program(plan: Plan, fields: dict[str, Any], rank: int) -> bool:
    name = fields.get("group", "world")
    programs = plan.code.rank_program
    members: Any = range(plan.world_size)
    if name != "world":
        members = next(
            (
                g.members(rank, plan.mesh)
                for g in plan.groups
                if plan.group_name(g.name, rank) == name
            ),
            range(plan.world_size),
        )
    return len({programs[member] for member in members}) == 1


def _is_free(order: RankOrder, model: ExecutionModel) -> bool:
    """Whether the order inside this rank's blocks plays no part: T1 holds and nothing blocks."""
    if model.family is not Family.HOST or model.pre_barrier:
        return not any(len(block.leaves) > 1 for block in order.blocks)
    if swappable(order, use_tags=model.use_tags) is not None:
        return False
    return all(_never_blocks(leaf.fields) for block in order.blocks for leaf in block.leaves)


def _never_blocks(fields: dict[str, Any]) -> bool:
    op = fields["op"]
    if op in {"isend", "irecv"}:
        return True
    if op == "compute":
        return not fields.get("deps")
    return bool(fields.get("async")) and op not in {"barrier", "broadcast"}


def _first(orders: list[RankOrder]) -> tuple[tuple[tuple[int, ...], ...], ...]:
    return tuple(tuple(next(extensions(b)) for b in order.blocks) for order in orders)


def _combinations(orders: list[RankOrder]) -> Iterator[tuple[tuple[tuple[int, ...], ...], ...]]:
    """Yield every choice of one linear extension per block, none of them held in advance."""
    blocks = [block for order in orders for block in order.blocks]
    sizes = [sum(1 for _ in order.blocks) for order in orders]
    for flat in _choices(blocks):
        rest = iter(flat)
        yield tuple(tuple(itertools.islice(rest, size)) for size in sizes)


def _choices(blocks: list[Block]) -> Iterator[tuple[tuple[int, ...], ...]]:
    if not blocks:
        yield ()
        return
    for first in extensions(blocks[0]):
        for others in _choices(blocks[1:]):
            yield (first, *others)


def put_in_order(
    flat: dict[str, Any], orders: list[RankOrder], chosen: tuple[tuple[tuple[int, ...], ...], ...]
) -> Ordered:
    """Return the fixed plan of one combination of linear extensions."""
    ranks, places = {}, []
    for order, choice in zip(orders, chosen, strict=True):
        actions: list[dict[str, Any]] = []
        indices: list[int] = []
        blocks = iter(choice)
        for part in order.parts:
            leaves = [part.leaves[at] for at in next(blocks)] if isinstance(part, Block) else [part]
            actions += [leaf.fields for leaf in leaves]
            indices += [leaf.action for leaf in leaves]
        ranks[str(order.rank)] = {"actions": actions}
        places.append(tuple(indices))
    document = {key: value for key, value in flat.items() if key not in {"ranks", "approximations"}}
    return Ordered(read({**document, "ranks": ranks}), tuple(places))


def _decide_all(
    flat: dict[str, Any],
    orders: list[RankOrder],
    combinations: Any,
    model: ExecutionModel,
    options: CheckOptions,
    route: str,
) -> Explored:
    deadline = None if options.budget is None else time.perf_counter() + options.budget
    seen: Counter[Outcome] = Counter()
    kept: dict[Outcome, tuple[Decision, Decider, Ordered]] = {}
    mixing: tuple[Decision, Decider, Ordered] | None = None
    for chosen in combinations:
        if deadline is not None and time.perf_counter() > deadline:
            reason = f"budget exhausted after {sum(seen.values()):,} combinations of orders (PG903)"
            return Explored(Outcome.UNKNOWN, schedules=sum(seen.values()), reason=reason)
        ordered = put_in_order(flat, orders, chosen)
        decider = Decider(ordered.plan, expand(ordered.plan), model, options)
        decision = decider.decide()
        seen[decision.outcome] += 1
        kept.setdefault(decision.outcome, (decision, decider, ordered))
        if mixing is None and any(cause.finding.subkind is None for cause in decision.causes):
            mixing = decision, decider, ordered
    outcome = _together(seen, mixes=mixing is not None)
    shown = kept.get(outcome) or kept[max(kept, key=lambda found: found.severity)]
    if outcome is Outcome.MISMATCH and mixing is not None:
        shown = kept.get(outcome, mixing)
    return Explored(outcome, *shown, schedules=sum(seen.values()), route=route)


def _together(seen: Counter[Outcome], *, mixes: bool) -> Outcome:
    """One outcome for all orders: certain only if every order says so.

    Args:
        seen: Outcomes of the orders.
        mixes: Whether some order forms a match whose members disagree, stuck or not.
    """
    if len(seen) == 1:
        return next(iter(seen))
    if mixes:
        return Outcome.MISMATCH
    return Outcome.POTENTIAL_DEADLOCK
