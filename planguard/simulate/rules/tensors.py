"""Rules on declared tensors and their strategies: too small, not cut, moved and moved back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planguard.execution.findings.cause import make_finding
from planguard.plan.vocabulary import BUILT_IN
from planguard.simulate.costs import Rates
from planguard.words import shown, size

if TYPE_CHECKING:
    from collections.abc import Iterator

    from planguard.simulate.rules.facts import Facts, Tensor, Use
    from planguard.verdict import Finding

Limits = dict[str, float]

_INVERSE = {row.name: row.inverse for row in BUILT_IN if row.inverse}
"""Redistribution to those that undo it."""


def shard_too_small(facts: Facts, limits: Limits) -> Iterator[Finding]:
    """PG620: the pieces of a tensor are tiny (Visual Diagnostics: [64, 8] cut [4, 1])."""
    for tensor in facts.tensors.values():
        local = tensor.bytes / tensor.cuts
        if tensor.cuts > 1 and local < limits["bytes"]:
            yield make_finding(
                "PG620",
                f"tensor {shown(tensor.name)} {list(tensor.shape)} cut {list(tensor.strategy)} "
                f"leaves {size(int(local))} a piece",
            )


def large_unpartitioned(facts: Facts, limits: Limits) -> Iterator[Finding]:
    """PG621: a large tensor is whole on every device while its consumer is cut (PanGu-alpha)."""
    told: set[str] = set()
    for uses, ranks in facts.programs():
        for use in uses:
            names = {*(use.field("reads") or ()), *(use.field("writes") or ())}
            tensors = [facts.tensors[name] for name in names if name in facts.tensors]
            if not any(tensor.cuts > 1 for tensor in tensors):
                continue
            for tensor in sorted(tensors, key=lambda t: t.name):
                whole = tensor.cuts == 1 and tensor.name in (use.field("reads") or ())
                if whole and tensor.bytes > limits["bytes"] and tensor.name not in told:
                    told.add(tensor.name)
                    yield _whole(facts, use, ranks, tensor)


def _whole(facts: Facts, use: Use, ranks: list[int], tensor: Tensor) -> Finding:
    where = use.field("ns")
    what = use.field("op_name") or use.op
    return make_finding(
        "PG621",
        f"tensor {shown(tensor.name)} {list(tensor.shape)}, {size(tensor.bytes)}, is not "
        f"partitioned, but {shown(what)}{f' in {shown(where)}' if where else ''} that reads it is",
        ranks=tuple(ranks),
        primary=facts.plan.location(ranks[0], use.index),
    )


def redundant_reshard(facts: Facts, _: Limits) -> Iterator[Finding]:
    """PG622: a redistribution is followed by its inverse with no use in between."""
    for uses, ranks in facts.programs():
        last: dict[tuple[str, str], Use] = {}
        for use in uses:
            names = _data(use)
            for name in names:
                before = last.pop((name, use.group or ""), None)
                if before is not None and use.op in _INVERSE.get(before.op, ()):
                    yield make_finding(
                        "PG622",
                        f"{before.op} of {shown(name)} is undone by {use.op} with no use between",
                        ranks=tuple(ranks),
                        primary=facts.plan.location(ranks[0], before.index),
                        related_actions=(facts.plan.location(ranks[0], use.index),),
                    )
            for key in [key for key in last if key[0] in names]:
                del last[key]
            if use.op in _INVERSE and use.group is not None:
                last |= {(name, use.group): use for name in names}


def _data(use: Use) -> set[str]:
    """Return the names of the data an action touches."""
    names = {*(use.field("reads") or ()), *(use.field("writes") or ())}
    if use.field("tensor") is not None:
        names.add(use.node.tensor)
    return names


def small_operand(facts: Facts, limits: Limits) -> Iterator[Finding]:
    """PG623: merging a small operand costs more than computing it on one device."""
    rates = Rates()
    for uses, ranks in facts.programs():
        cost = {
            name: (use.node.flops, use)
            for use in uses
            if use.op == "compute" and use.field("flops") is not None
            for name in _data(use)
        }
        for use in uses:
            name = use.field("tensor")
            tensor = facts.tensors.get(name or "")
            if tensor is None or use.group is None or name not in cost or tensor.cuts < 2:
                continue
            flops, compute = cost[name]
            alone = flops * tensor.cuts / rates.flops * 1e6
            merge = (tensor.cuts - 1) * rates.latency_us + tensor.bytes / rates.bandwidth * 1e6
            if merge > limits["threshold"] * alone:
                yield make_finding(
                    "PG623",
                    f"merging {shown(name or '')} takes {merge:.3g} us, computing it on one device "
                    f"{alone:.3g} us (modeled)",
                    ranks=tuple(ranks),
                    primary=facts.plan.location(ranks[0], use.index),
                    related_actions=(facts.plan.location(ranks[0], compute.index),),
                )
