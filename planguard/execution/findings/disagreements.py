"""Headlines of mismatches: who says what, where the others say something else."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planguard.execution.findings.locate import describe, group_name
from planguard.execution.findings.stuck import place_of
from planguard.plan.actions import DTYPE_NAME
from planguard.words import clean, cut, listed, name_ranks, plural, shown, size

if TYPE_CHECKING:
    from planguard.execution.findings.mismatch import Mismatch
    from planguard.execution.running.executor import Execution

TOLD = 3
"""Most groups of members that the headline tells apart."""
LISTED = 6
"""Most tensors of a coalesced collective that the headline lists."""

WHAT = {
    "bytes": "sizes",
    "dtype": "element types",
    "reduce_op": "reduce operations",
    "layout": "the lists of coalesced tensors",
    "label": "the data",
    "part label": "the data of a part",
    "root": "roots",
}


def mismatch_headline(execution: Execution, mismatch: Mismatch) -> str:
    """Return the headline of a mismatch: minority first, then what the others do."""
    what, values = mismatch.found.what, mismatch.found.values
    if what == "splits":
        return _splits(execution, mismatch)
    if what == "kind":
        (major, many), *rest = values
        told = [f"{name_ranks(few)} {_verb('call', few)} {_kind(minor)}" for minor, few in rest]
        return (
            f"{listed(told[:TOLD])} where {name_ranks(many)} {_verb('call', many)} {_kind(major)} "
            f"({_place(execution, mismatch)})"
        )
    if what == "messages":
        return _numbers(execution, mismatch)
    if mismatch.match.type == "pair":
        return _pair(execution, mismatch)
    has = "carry" if what.endswith("label") else "have"
    told = [
        f"{name_ranks(ranks)} {_verb(has, ranks)} {_value(execution, mismatch, value, ranks)}"
        for value, ranks in [*values[1:], values[0]]
    ]
    more = f" and {plural(len(told) - TOLD, 'other')}" if len(told) > TOLD else ""
    return (
        f"{WHAT.get(what, what)} disagree in {_call(execution, mismatch)} "
        f"({_place(execution, mismatch)}): {', '.join(told[:TOLD])}{more}"
    )


def _numbers(execution: Execution, mismatch: Mismatch) -> str:
    """Say who made how many calls on the group before."""
    before = mismatch.match.position
    told = [
        f"{name_ranks(ranks)} made {plural(int(value) + before, 'call')} on it before, "
        f"{value} of them point-to-point"
        for value, ranks in [*mismatch.found.values[1:], mismatch.found.values[0]]
    ]
    more = f" and {plural(len(told) - TOLD, 'other')}" if len(told) > TOLD else ""
    return (
        f"sequence numbers of the group disagree in {_call(execution, mismatch)} "
        f"({_place(execution, mismatch)}): {'; '.join(told[:TOLD])}{more}"
    )


def _pair(execution: Execution, mismatch: Mismatch) -> str:
    """Say what is sent and what is received."""
    what = mismatch.found.what
    told = {
        ranks[0]: _value(execution, mismatch, value, ranks)
        for value, ranks in mismatch.found.values
    }
    src, dst = mismatch.match.ranks
    return (
        f"{WHAT.get(what, what)} disagree in {_place(execution, mismatch)}: "
        f"rank {src} sends {told[src]}, rank {dst} receives {told[dst]}"
    )


def _verb(verb: str, ranks: tuple[int, ...]) -> str:
    if len(ranks) > 1:
        return verb
    return {"have": "has", "carry": "carries"}.get(verb, f"{verb}s")


def _kind(name: str) -> str:
    return name.replace("coalesced_", "coalesced ")


def _place(execution: Execution, mismatch: Mismatch) -> str:
    where = describe(execution, mismatch.match)
    if mismatch.match.type == "pair":
        return f"{where} on {shown(group_name(execution, mismatch.match.ginst))}"
    return where


def _call(execution: Execution, mismatch: Mismatch) -> str:
    """Name the collective whose members disagree."""
    member = mismatch.members[0]
    place = place_of(execution, member.rank, member.entry or 0)
    view = execution.plan.action_at(place.rank, place.action)
    return f"coalesced {view.fields['kind']}" if view.op == "coalesced" else view.op


def _value(execution: Execution, mismatch: Mismatch, value: str, ranks: tuple[int, ...]) -> str:
    what = mismatch.found.what
    if what == "bytes":
        return size(int(value))
    if what == "layout":
        return _layout(execution, mismatch, ranks[0])
    if what.endswith("label"):
        return f"{cut(clean(value))!r}"
    return f"root {value}" if what == "root" else value


def _layout(execution: Execution, mismatch: Mismatch, rank: int) -> str:
    """Write the tensors of a coalesced collective as one member lists them."""
    columns, code = execution.columns, execution.plan.code
    entry = next(member.entry or 0 for member in mismatch.members if member.rank == rank)
    layout = code.signatures[columns.sig[columns.rank_off[rank] + entry]].layout
    if layout is None:
        return "a single tensor"
    tensors = [f"{size(count)} {DTYPE_NAME[dtype]}".rstrip() for count, dtype in layout]
    more = f", ... {len(tensors) - LISTED} more" if len(tensors) > LISTED else ""
    return f"[{', '.join(tensors[:LISTED])}{more}]"


def _splits(execution: Execution, mismatch: Mismatch) -> str:
    (one, (rank,)), (two, (other,)) = mismatch.found.values
    where = f"({_call(execution, mismatch)}, {_place(execution, mismatch)})"
    verb, count, way, _, whom = one.split()
    again, expected = two.split()[:2]
    elements = plural(int(count), "element") if count.isdigit() else f"{count} elements"
    if verb == again:  # the third member does not say
        said = f"rank {rank} {verb} {elements} {way} rank {whom}"
        return f"{said}, rank {other} {again} {expected} {where}"
    name = "itself, and" if rank == other else f"rank {other}, which"
    return f"rank {rank} sends {elements} to {name} expects {expected} {where}"
