"""One way to run a plan: what a witness shows, or one that a seed picks.

A plan may leave orders, branches and the flushes of fused buffers open; processes can only run one
way at a time. That way is a fixed plan, and its actions remember which action of the plan they are.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from planguard.engine import check_plan
from planguard.errors import ReplayError
from planguard.execution.findings.reason import UndecidedError
from planguard.execution.running.expand import expand
from planguard.options import CheckOptions, Deadline
from planguard.plan.actions import Kind
from planguard.plan.content import has_kind
from planguard.plan.fixed import AT
from planguard.plan.flatten import flatten
from planguard.plan.taking import Taking
from planguard.plan.vocabulary import BLOCKS, MESSAGES
from planguard.reordering.blocks import Block, take_apart
from planguard.reordering.branches.assignments import flat_tree, leaves
from planguard.reordering.branches.sites import Open
from planguard.reordering.buffers.agreement import agreements
from planguard.reordering.buffers.merge import merge
from planguard.reordering.buffers.play import play
from planguard.reordering.buffers.ranks import Ranks
from planguard.reordering.explorer import put_in_order
from planguard.reordering.strategy import label_movable
from planguard.semantics.model import find_model

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from planguard.plan.fixed import FixedPlan, Shown
    from planguard.plan.plan import Plan
    from planguard.verdict import Witness


@dataclass(frozen=True)
class Playable:
    """A fixed plan to be played.

    Attributes:
        flat: The flat plan.
        witness: What to play of it and what to expect, in its own action numbers.
        places: Per rank, the action of the plan as written for every action; None when equal.
        notes: What was picked, in sentences.
    """

    flat: Mapping[str, Any]
    witness: Witness | None = None
    places: Sequence[Sequence[int]] | None = None
    notes: tuple[str, ...] = ()

    def place(self, rank: int, action: int) -> int:
        """Return the action of the plan as written."""
        return action if self.places is None else self.places[rank][action]


def is_fixed(plan: Mapping[str, Any]) -> bool:
    """Say whether a mapping is a flat plan that can run in one way only."""
    bodies = [body.get("actions") for body in plan.get("ranks", {}).values()]
    if plan.get("fusion") or plan.get("mesh") or not all(map(str.isdecimal, plan["ranks"])):
        return False
    return all(
        body is not None and not any(isinstance(a, list) or a["op"] in BLOCKS for a in body)
        for body in bodies
    )


def is_contested(plan: Mapping[str, Any]) -> bool:
    """Say whether a flat plan leaves it to the run who meets whom."""
    actions = [action for body in plan["ranks"].values() for action in body["actions"]]
    parts = [part for action in actions for part in (action, *_ops(action))]
    return any(
        "any" in (part.get("peer"), part.get("tag")) or part.get("mode") in ("any", "some")
        for part in parts
    )


def is_open(plan: Plan) -> bool:
    """Say whether a plan can run in several ways: orders, branches, flushes, or who meets whom."""
    columns = expand(plan)
    contested = columns.has_any_source or columns.has_any_tag or columns.has_wait_choice
    return bool(columns.has_markers or contested or plan.fusion)


def settle(
    plan: Plan, witness: Witness | None, model: str | None = None, seed: int | None = None
) -> Playable:
    """Return what a witness shows of a plan; without one, what a seed picks.

    Args:
        plan: The plan, with whatever it leaves open.
        witness: A witness of a verdict on it, or a schedule.
        model: Execution model of the verdict.
        seed: Seed of the picks; None takes first branches and written orders.

    Raises:
        ReplayError: The witness does not fit the plan, or the plan cannot be put in one order.
    """
    if witness is None:
        return _picked(plan, seed)
    if not is_open(plan):
        return Playable(flatten(plan), witness)
    if witness.fixed is not None and witness.fixed.plan.document == plan.document:
        return playable(plan, witness)
    # A witness that was read from a file does not hold the run behind it: a check makes it again.
    verdict = check_plan(plan, CheckOptions(model=model or plan.model or "nccl"))
    for finding in verdict.findings:
        known = finding.witness
        if known is not None and known.encoded == witness.encoded and known.end == witness.end:
            return playable(plan, known)
    return _scheduled(plan, expand(plan), witness)


def playable(plan: Plan, witness: Witness) -> Playable:
    """Return the run behind a witness of a verdict on a plan as the replay plays it."""
    shown: Shown | None = witness.fixed
    if shown is None:
        return Playable(flatten(plan), witness)
    flat = flatten(shown.fixed.plan)
    if expand(plan).has_any_source:
        flat = _from_anyone(flat, shown.fixed, plan)
    return Playable(flat, shown.witness, shown.fixed.origin)


def _from_anyone(flat: dict[str, Any], fixed: FixedPlan, plan: Plan) -> dict[str, Any]:
    """Mark the receives that the plan leaves to any source, and the tags as the plan has them.

    In the fixed plan they name whom the witness has them take from; played, they take from anyone,
    and the other senders are held back. A receive with any tag is left fixed: gloo has none.
    """
    written = flat_tree(plan, expand(plan))
    ranks = {}
    for rank, body in flat["ranks"].items():
        known = {leaf[AT]: leaf for leaf in leaves(written["ranks"][rank]["actions"])}
        places = fixed.origin[int(rank)]
        actions = [
            _marked(action, known.get(places[at], {})) for at, action in enumerate(body["actions"])
        ]
        ranks[rank] = {"actions": actions}
    parts = [part for body in ranks.values() for a in body["actions"] for part in (a, *_ops(a))]
    if any(part.get("x-tag") == "any" for part in parts):
        return flat
    return {**flat, "ranks": ranks}


def _ops(action: Mapping[str, Any]) -> list[dict[str, Any]]:
    return list(action["ops"]) if action["op"] == "batch" else []


def _marked(action: dict[str, Any], written: dict[str, Any]) -> dict[str, Any]:
    """Return an action with ``x-tag`` and ``x-anyone`` from the one it stands for."""
    if written.get("op") != action["op"]:
        return action
    if action["op"] == "batch":
        pairs = zip(action["ops"], written["ops"], strict=True)
        return {**action, "ops": [_marked(part, other) for part, other in pairs]}
    if action["op"] not in MESSAGES:
        return action
    anyone = {"x-anyone": True} if written.get("peer") == "any" else {}
    return {**action, "x-tag": written.get("tag", 0), **anyone}


def _scheduled(plan: Plan, columns: Any, witness: Witness) -> Playable:
    """Play the actions that a schedule names, in its order: branches and orders follow from it."""
    if plan.fusion:
        raise ReplayError(
            "a schedule does not say which members of a fused buffer travel together",
            hint="replay a witness of the verdict: planguard replay PLAN --schedule ID",
        )
    flat = flat_tree(plan, columns)
    known = {
        (rank, leaf[AT]): leaf
        for rank in range(plan.world_size)
        for leaf in leaves(flat["ranks"][str(rank)]["actions"])
    }
    named = [(step.rank, step.action) for step in witness.steps] + list(witness.actions)
    order: dict[int, list[int]] = {rank: [] for rank in range(plan.world_size)}
    for rank, action in dict.fromkeys(named):
        if (rank, action) not in known:
            raise ReplayError(
                f"the witness names action {action} of rank {rank}, which the plan does not issue",
                hint="is it a witness of this plan?",
            )
        order[rank].append(action)
    ranks = {
        str(rank): {"actions": [_plain(known[rank, at]) for at in places]}
        for rank, places in order.items()
    }
    places = tuple(tuple(order[rank]) for rank in range(plan.world_size))
    back = {(r, at): (r, n) for r, found in enumerate(places) for n, at in enumerate(found)}
    moved = replace(
        witness,
        actions=tuple(back.values()),
        blocked=tuple(back[pair] for pair in witness.blocked),
        steps=tuple(replace(s, action=back[s.rank, s.action][1]) for s in witness.steps),
    )
    return Playable({**flat, "ranks": ranks}, moved, places)


def _plain(action: dict[str, Any]) -> dict[str, Any]:
    """Return an action without what only the rewriting needs."""
    return {key: value for key, value in action.items() if key not in {AT, "x-after", "after"}}


# --- one execution out of many -------------------------------------------------------------------


def _picked(plan: Plan, seed: int | None) -> Playable:
    """Return one execution of a plan: branches, then orders of readiness, then orders."""
    rng = None if seed is None else random.Random(seed)  # noqa: S311  picks, not secrets
    places: list[tuple[int, ...]] | None = None
    notes: list[str] = []
    for kind, pick, said in (
        (Kind.CHOICE_BEGIN, _branches, "One combination of branches is played."),
        (None, _flushes, "One order of readiness is played: it decides how buffers are flushed."),
        (Kind.UNORDERED_BEGIN, _orders, "One order of the open blocks is played."),
    ):
        if not (plan.fusion if kind is None else has_kind(plan, kind)):
            continue
        if pick is not _branches and has_kind(plan, Kind.THREADS_BEGIN):
            raise ReplayError("host threads beside open orders or fused buffers are not played")
        ordered = pick(plan, rng)
        plan, inner = ordered.plan, ordered.origin
        if places is None:
            places = [tuple(found) for found in inner]
        else:
            places = [
                tuple(outer[at] for at in found) for outer, found in zip(places, inner, strict=True)
            ]
        notes.append(said)
    if has_kind(plan, Kind.THREADS_BEGIN):
        return _threaded(plan, places, tuple(notes))
    return Playable(flatten(plan), None, places, tuple(notes))


def _threaded(plan: Plan, places: list[tuple[int, ...]] | None, notes: tuple[str, ...]) -> Playable:
    """Number the actions of threads one after the other, as they are written."""
    flat = flat_tree(plan, expand(plan))
    found = []
    for rank in range(plan.world_size):
        mine = [leaf[AT] for leaf in leaves(flat["ranks"][str(rank)]["actions"])]
        found.append(tuple(mine if places is None else [places[rank][at] for at in mine]))
    return Playable(flatten(plan), None, found, notes)


def _branches(plan: Plan, rng: random.Random | None) -> FixedPlan:
    branched = Open(plan, expand(plan))
    variables = branched.variables()
    picks = {
        key: rng.randrange(size) if rng else 0 for key, size in sorted(variables.sizes.items())
    }
    return branched.assigned(picks)


def _flushes(plan: Plan, rng: random.Random | None) -> FixedPlan:
    """Let members become ready in one order per rank and join what is flushed together."""
    try:
        room = Ranks(plan, apart=True)
        coordinated = [buffer for buffer in room.buffers if buffer.is_coordinated]
        deadline = Deadline()
        found = agreements(coordinated, room, room.members, find_model("gloo"), deadline)
        agreed = rng.choice(found.ways) if rng else found.ways[0]
        played = [
            play(rank, _extension(rank.below, rng) if rng else rank.usual, agreed, room)
            for rank in room
        ]
    except UndecidedError as reason:
        raise ReplayError(f"the flushes of the fused buffers are not known: {reason}") from reason
    return merge(room, played).ordered


def _orders(plan: Plan, rng: random.Random | None) -> FixedPlan:
    _, orders = take_apart(plan, expand(plan))
    label_movable(plan, orders)
    chosen = [tuple(_extension(_masks(block), rng) for block in order.blocks) for order in orders]
    return put_in_order(Taking(plan), orders, chosen)


def _masks(block: Block) -> tuple[int, ...]:
    return tuple(sum(1 << leaf for leaf in before) for before in block.before)


def _extension(below: Sequence[int], rng: random.Random | None) -> tuple[int, ...]:
    """Return a linear extension: a random one, or the one closest to the numbering."""
    order: list[int] = []
    done = 0
    while len(order) < len(below):
        ready = [e for e, mask in enumerate(below) if not done >> e & 1 and not mask & ~done]
        order.append(rng.choice(ready) if rng else ready[0])
        done |= 1 << order[-1]
    return tuple(order)
