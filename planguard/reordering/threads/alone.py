"""Blocks in which nothing is beside anything else: what they hold is a stretch of the program.

Of threads of which one makes calls, the host that forks them waits for that one: between fork and
join nothing else of the rank is called. Of an `unordered` block with one chain there is one order.
Written without these blocks a plan has the same executions, and its members of fused buffers stand
where their rules are stated. In a block of open order threads stay one item, between whose calls
nothing else comes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from planguard.errors import OrderError
from planguard.plan.fixed import written
from planguard.plan.vocabulary import ORDER_BLOCKS
from planguard.reordering.branches.assignments import flat_tree, leaves
from planguard.reordering.cases.together import Part, combined

if TYPE_CHECKING:
    from collections.abc import Callable

    from planguard.plan.plan import Plan
    from planguard.reordering.cases.together import Decide
    from planguard.verdict import Verdict

CODE = "PG102"
_ORDER = frozenset({"after", "x-after"})


def over_lone(plan: Plan, columns: Any, decide: Decide) -> Verdict | None:
    """Decide a plan without blocks that hold one stretch; None where it has none.

    Args:
        plan: A plan with `threads`, without branches.
        columns: Its columns.
        decide: Decides the plan without these blocks.
    """
    flat = flat_tree(plan, columns)
    ranks = {rank: in_a_row(body["actions"]) for rank, body in flat["ranks"].items()}
    if all(ranks[rank] == body["actions"] for rank, body in flat["ranks"].items()):
        return None
    try:
        ordered = written(flat, ranks)
    except OrderError:
        return None
    part = Part(ordered, decide(ordered.plan, brief=False))
    verdict = combined(plan, [part], part.verdict, part, CODE)
    return replace(verdict, evidence=part.verdict.evidence)


def in_a_row(items: list[Any]) -> list[Any]:
    """Return actions that follow each other, with what lone blocks hold in their places."""
    found: list[Any] = []
    for item in items:
        name = ORDER_BLOCKS.get(item["op"])
        if name is None:
            found.append(item)
            continue
        change: Callable[[Any], Any] = in_a_row if item["op"] == "threads" else _entry
        entries = [entry for entry in map(change, item[name]) if entry]
        if len(entries) > 1:
            found.append({**item, name: entries})
            continue
        for entry in entries:
            chain = entry if isinstance(entry, list) else [entry]
            inside = {fields["id"] for fields in leaves(chain) if "id" in fields}
            found += in_a_row([_bare(one, inside) for one in chain])
    return found


def _entry(entry: Any) -> Any:
    """Return an item of a block of open order; threads in it stay one item."""
    if isinstance(entry, list):
        return [_entry(one) for one in entry]
    name = ORDER_BLOCKS.get(entry["op"])
    if name is None:
        return entry
    change = in_a_row if entry["op"] == "threads" else _entry
    return {**entry, name: [change(inner) for inner in entry[name]]}


def _bare(item: dict[str, Any], inside: set[str]) -> dict[str, Any]:
    """Return an item of a chain without what it comes after in that chain anyway."""
    left = {key: [one for one in item[key] if one not in inside] for key in _ORDER & item.keys()}
    kept = {key: value for key, value in item.items() if key not in left}
    return kept | {key: names for key, names in left.items() if names}
