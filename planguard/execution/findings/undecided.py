"""Constructs that this route does not decide: each becomes UNKNOWN with its reason."""

from __future__ import annotations

import itertools
from operator import eq
from typing import TYPE_CHECKING, Any

from planguard.execution.findings.cause import make_finding, open_finding
from planguard.execution.findings.reason import construct
from planguard.execution.issued import counts, issued
from planguard.plan.actions import ASYNC, KIND_MASK, MEMBER, Kind, is_point_to_point
from planguard.plan.vocabulary import MPI_ONLY
from planguard.semantics.model import OwnMessages, find_model

if TYPE_CHECKING:
    from planguard.options import CheckOptions
    from planguard.plan.plan import Plan
    from planguard.semantics.model import ExecutionModel
    from planguard.verdict import Finding


def undecided(plan: Plan, options: CheckOptions) -> list[Finding]:
    """Return a finding for every construct that makes one execution inexact.

    Args:
        plan: The plan.
        options: Options of the check.
    """
    if find_model(str(options.model)).is_mpi:
        return []
    present = plan.kinds
    return [
        open_finding(construct(f"`{row.name}`, which only the mpi models define"))
        for row in MPI_ONLY
        if row.kind in present
    ]


def has_own_messages(columns: Any) -> bool:
    """Tell whether a rank names itself as the peer of a message."""
    return any(map(eq, columns.chan_src, columns.chan_dst))


def refused_messages(columns: Any, model: ExecutionModel) -> Finding | None:
    """Return PG010 for a message to oneself where the backend refuses it.

    MPI has such messages (MPI 4.0, 3.2.4), torch's ProcessGroupMPI in its asynchronous calls
    alone: ``send`` and ``recv`` raise ValueError for the own rank. NCCL has them within one group
    call. gloo has none: ``send`` raises ValueError, ``isend`` RuntimeError (measured).
    """
    if not has_own_messages(columns) or model.own_messages is OwnMessages.ALL:
        return None
    # What a backend has: a message with this flag.
    flags = {OwnMessages.BATCHED: MEMBER, OwnMessages.ASYNCHRONOUS: MEMBER | ASYNC}
    allowed = flags.get(model.own_messages, 0)
    own = [src == dst for src, dst in zip(columns.chan_src, columns.chan_dst, strict=True)]
    for rank, (start, end) in enumerate(itertools.pairwise(columns.rank_off)):
        for op, arg in zip(columns.op[start:end], columns.arg[start:end], strict=True):
            if is_point_to_point(op & KIND_MASK) and own[arg] and not op & allowed:
                return _refused(rank, model)
    return None


def _refused(rank: int, model: ExecutionModel) -> Finding:
    return make_finding(
        "PG010",
        f"rank {rank} exchanges a message with itself, which {model.name} "
        f"{model.own_messages.value}",
        severity="warning",
        ranks=(rank,),
    )


def nothing_to_check(plan: Plan, columns: Any, model: ExecutionModel) -> Finding | None:
    """Return PG910 when nothing of a plan of several ranks could ever match anything."""
    if plan.world_size == 1 or _matches_something(columns, use_tags=model.use_tags):
        return None
    if _only_small_groups(columns) or _creates_together(columns):
        return None
    kinds = {one.kind for one in plan.approximations}
    advice = next((text for kind, text in _ADVICE.items() if kind in kinds), "")
    more = {"help": advice} if advice else {}
    actions = len(columns.op)
    what = "the plan has no action" if not actions else "no action matches any other"
    return make_finding(
        "PG910",
        f"nothing to check: {what} ({plan.world_size} ranks, {actions} actions)",
        severity="warning",
        **more,
    )


ENDED_EARLY = "ended-early"
"""Of the ledger's entries: the program that was played ended before it communicated."""
UNSEEN = "unseen-communication"
"""Of the ledger's entries: the ranks communicate by what no process group sees."""
_ADVICE = {
    UNSEEN: "check the parts that use process groups; remote calls, stores and other libraries are "
    "not decided here",
    ENDED_EARLY: "let the program go on where it ended: with other arguments or settings, on the "
    "devices that this machine has (a missing GPU is the CPU in a play)",
}
"""What to do next where nothing can match, by what the ledger says; the first that holds."""


def _matches_something(columns: Any, *, use_tags: bool) -> bool:
    sends, receives, calls = counts(columns)
    pairs: dict[tuple[int, ...], list[int]] = {}
    channels = zip(
        columns.chan_ginst, columns.chan_src, columns.chan_dst, columns.chan_tag, strict=True
    )
    both = zip(channels, sends, receives, strict=True)
    for (ginst, src, dst, tag), sent, received in both:
        known = pairs.setdefault((ginst, src, dst, tag if use_tags else 0), [0, 0])
        known[0] += sent
        known[1] += received
        if known[0] and known[1]:
            return True
    if (columns.has_any_source or columns.has_any_tag) and any(sends):
        return True
    return any(
        sum(1 for count in calls[start:end] if count) > 1
        for start, end in itertools.pairwise(columns.ginst_off)
        if end - start > 1
    )


def _creates_together(columns: Any) -> bool:
    """Whether several ranks create communicators: under some model these calls meet."""
    creating = {int(Kind.INIT), int(Kind.NEW_GROUP)}
    ranks = (issued(columns, rank) for rank in range(columns.world_size))
    found = (not creating.isdisjoint(columns.op[own.start : own.stop]) for own in ranks)
    return sum(itertools.islice(filter(None, found), 2)) > 1


def _only_small_groups(columns: Any) -> bool:
    """Whether the plan communicates, but only in groups of one rank (they are exempt)."""
    sends, receives, calls = counts(columns)
    offsets = columns.ginst_off
    used = [end - start for start, end in itertools.pairwise(offsets) if any(calls[start:end])]
    return bool(used) and all(size == 1 for size in used) and not any(sends) | any(receives)
