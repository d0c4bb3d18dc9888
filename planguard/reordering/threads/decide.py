"""Host threads: an interleaving is an order of issue where what was issued goes on in that order.

Under the NCCL models a thread issues and goes on; what it waits for waits on a stream. Threads are
then an `unordered` block whose chains are the threads: every interleaving is a linear extension and
every linear extension an interleaving. Where a call blocks its thread alone (`threads_host`, and
`threads_device` under the NCCL models) there is more to follow.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from planguard.plan.fixed import written
from planguard.plan.vocabulary import ORDER_BLOCKS
from planguard.reordering.branches.assignments import flat_tree, leaves
from planguard.reordering.cases.together import Part, combined
from planguard.reordering.threads.created import holds_up, threads_of
from planguard.reordering.threads.host import over_interleavings
from planguard.semantics.model import Family
from planguard.verdict import Outcome

if TYPE_CHECKING:
    from planguard.options import CheckOptions
    from planguard.plan.fixed import FixedPlan
    from planguard.plan.plan import Plan
    from planguard.reordering.cases.together import Decide
    from planguard.reordering.messages.decide import Fixed
    from planguard.semantics.model import ExecutionModel
    from planguard.verdict import Verdict

CODE = "PG102"


def over_threads(
    plan: Plan,
    columns: Any,
    model: ExecutionModel,
    options: CheckOptions,
    decide: Decide,
    fixed: Fixed,
) -> Verdict:
    """Decide a plan over all interleavings of its host threads.

    Args:
        plan: A plan with `threads`; ``decide`` takes care of everything else that is open.
        columns: Its columns.
        model: The execution model.
        options: Options of the check.
        decide: Decides a plan without `threads`.
        fixed: Decides a fixed plan under rules that are not those of a model by name.
    """
    flat = flat_tree(plan, columns)
    ordered = as_chains(flat)
    if model.family is Family.HOST or holds_up(flat, model):
        return over_interleavings(plan, flat, ordered, model, options, fixed)
    one_by_one = None
    if _stands_in_block(flat):
        # As chains of the block around them, threads would let the host go on between their calls.
        one_by_one = over_interleavings(plan, flat, ordered, model, options, fixed)
        if not one_by_one.unknown:
            return one_by_one
    part = Part(ordered, decide(ordered.plan, brief=False), differs=True)
    if one_by_one is not None and part.outcome not in {Outcome.SAFE, Outcome.DEADLOCK}:
        return one_by_one  # some order of chains goes wrong, which no order of the threads need be
    verdict = combined(plan, [part], part.verdict, part, CODE)
    return replace(verdict, evidence=part.verdict.evidence)


def are_chains(plan: Plan, columns: Any, model: ExecutionModel) -> bool:
    """Tell whether threads are chains of an open order, with members of fused buffers in them.

    They are where nothing in a thread holds its host up: a wait for a member does, since another
    thread may have to submit what leaves with it.

    Args:
        plan: A plan with `threads` and fused buffers.
        columns: Its columns.
        model: The execution model.
    """
    if model.family is Family.HOST:
        return False
    flat = flat_tree(plan, columns)
    if holds_up(flat, model) or _stands_in_block(flat):
        return False
    members = {name for spec in flat["fusion"] for name in spec["members"]}
    for body in flat["ranks"].values():
        mine = [one for one in leaves(body["actions"]) if one.get("id") in members]
        works = {one["work"] for one in mine if "work" in one}
        for item in body["actions"]:
            for threads in threads_of([item]):
                calls = [fields for thread in threads for fields in leaves(thread)]
                if any(_holds_up(fields, members, works) for fields in calls):
                    return False
    return True


def _holds_up(fields: dict[str, Any], members: set[str], works: set[str]) -> bool:
    """Tell whether an action is, or may be, a wait for a member."""
    if fields["op"] == "wait":
        work = fields["work"]
        return not works.isdisjoint([work] if isinstance(work, str) else work)
    return fields.get("id") in members and not fields.get("async")


def as_chains(flat: dict[str, Any]) -> FixedPlan:
    """Return an annotated flat plan with every `threads` as an `unordered` block of chains."""
    ranks = {
        rank: [_as_chains(item) for item in body["actions"]] for rank, body in flat["ranks"].items()
    }
    return written(flat, ranks)


def _stands_in_block(flat: dict[str, Any]) -> bool:
    """Tell whether threads are an item of a block of open order."""
    items = [item for body in flat["ranks"].values() for item in body["actions"]]
    while items:
        item = items.pop()
        inner = item.get(ORDER_BLOCKS.get(item["op"], ""), [])
        entries = [
            one for entry in inner for one in (entry if isinstance(entry, list) else [entry])
        ]
        if item["op"] == "unordered" and any(one["op"] == "threads" for one in entries):
            return True
        items += entries
    return False


def _as_chains(item: Any) -> Any:
    """Return an action with all `threads` in it, at any depth, as `unordered` blocks of chains."""
    if isinstance(item, list):
        return [_as_chains(one) for one in item]
    if item["op"] == "unordered":
        return {**item, "body": _as_chains(item["body"])}
    if item["op"] != "threads":
        return item
    chains = [_as_chains(thread) for thread in item["threads"] if thread]
    kept = {key: value for key, value in item.items() if key not in {"op", "threads"}}
    return {**kept, "op": "unordered", "body": chains}
