"""What to change: one sentence for a finding, with ranks and actions where they are known."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from planguard.words import name_ranks

if TYPE_CHECKING:
    from planguard.verdict import CycleEdge, Finding, Location

HELP = {
    "PG001": "post both directions as one batch, or let one side receive first",
    "PG002": "let all ranks enter the collectives in one order",
    "PG003": "put the point-to-point action on the same side of the collective on all ranks",
    "PG004": "use the groups in the same order on every rank they share",
    "PG005": "remove one of the stream edges, or record the event before it is waited for",
    "PG006": "let every rank take part until the last action that needs it, then leave",
    "PG007": "add the missing call, or leave the rank out of the group",
    "PG008": "move the wait behind the action that its partner needs",
    "PG009": "give every rank the same number of barriers",
    "PG010": "copy locally, or post the receive before the rank waits for its send",
    "PG011": "put sends and receives that wait for each other into one batch",
    "PG012": "post receive and send of neighboring stages as one batch, or swap them on one stage",
    "PG013": "issue the communication that the others need before the action that waits for data",
    "PG101": "do not rely on buffering: post both directions as one batch, or let one side receive "
    "first",
    "PG106": "name the sender, or give the messages different tags or groups",
    "PG107": "use the groups in one order on all ranks, or wait for one before the other starts",
    "PG109": "create communicators eagerly, or first use them in one order on all ranks",
    "PG110": "branch on a condition that is reduced over the group first, or communicate in both "
    "branches",
    "PG201": "let all members of the group issue the same collective in this round",
    "PG202": "give all sides of this call the same size",
    "PG203": "give all sides of this call the same element type",
    "PG204": "use one reduce operation on all members",
    "PG205": "use one root on all members",
    "PG206": "make what each rank sends equal to what its peer expects",
    "PG207": "use one tag on both sides",
    "PG208": "add the matching receive, or remove the send",
    "PG209": "add the matching send, or remove the receive",
    "PG210": "add the partner of the asynchronous action, or remove it",
    "PG212": "issue the collectives of this group in the same order on all members",
    "PG213": "send and receive the tensors of this pair in the same order on both sides",
    "PG214": "let all members issue this round in the same way",
    "PG216": "put the point-to-point action on the same side of the collective on all ranks, or "
    "give messages a group of their own",
    "PG301": "wait for the work handle before its buffer is used again and before the program ends",
    "PG304": "wait for the action that fills the buffer before it is read",
    "PG305": "wait for the action that uses the buffer before it is written",
    "PG306": "wait for the first action before the second one starts, or give it its own buffer",
    "PG308": "keep the work handle and wait for it",
    "PG309": "record the event before a stream waits for it",
    "PG310": "wait for the pending action before the group is destroyed",
    "PG406": "create the groups in the same order on every rank",
    "PG902": "the page of this code says what is decided, and under which models",
    "PG903": "give the check more time: --budget 10s",
    "PG904": "name the sender and the tag in the plan",
    "PG910": "see whether the adapter found the communication: planguard convert PLAN --flat",
}
"""The advice of a code when nothing more specific is known."""

WHEN = {
    "PG102": "the order is open, and in one order ",
    "PG106": "in one order of arrival, ",
    "PG110": "in one combination of branches, ",
}
"""How the sentence of a finding begins that holds in some executions only: what is open."""

MISSING = {
    "PG007": "add the call on {absent}, or remove it on {present}",
    "PG009": "add the barrier on {absent}, or remove it on {present}",
    "PG208": "add the matching recv on {absent}, or remove the send on {present}",
    "PG209": "add the matching send on {absent}, or remove the recv on {present}",
    "PG210": "add its partner on {absent}, or remove the call on {present}",
}
APART = "issue both sides in a batch, or both outside of one"


def with_advice(finding: Finding, absent: tuple[int, ...] = (), *, apart: bool = False) -> Finding:
    """Return the finding with the most specific advice there is.

    Args:
        finding: The finding.
        absent: Ranks that owe a call.
        apart: One side of the pair is in a batch, the other is not.
    """
    general = HELP.get(finding.code, "")
    return replace(finding, help=_swap(finding) or _add(finding, absent, apart=apart) or general)


def _swap(finding: Finding) -> str:
    """Say which action of the primary rank to issue earlier; it breaks the cycle there."""
    edge = _into_primary(finding)
    if edge is None or edge.waits_for is None or edge.behind is None:
        return ""
    rank = edge.waits_for.rank
    early, late = _named(edge.waits_for), _named(edge.behind)
    many = bool(finding.equivalent) or finding.code in {"PG002", "PG004"}
    alike = " and every rank like it" if many else ""
    swap = f"on rank {rank}{alike}, issue {early} before {late}"
    if finding.code in {"PG001", "PG012", "PG101"}:
        return f"{swap}, or post both as one batch on all ranks of the cycle"
    if finding.code == "PG011":
        return f"on rank {rank}{alike}, put {early} and {late} into one batch"
    return swap if finding.code in {"PG002", "PG003", "PG004", "PG008"} else ""


def _into_primary(finding: Finding) -> CycleEdge | None:
    """Return the edge of the cycle that waits for something behind the primary action."""
    primary = finding.primary
    for edge in finding.cycle:
        behind, owed = edge.behind, edge.waits_for
        if behind is None or owed is None or primary is None:
            continue
        place = (primary.rank, primary.action)
        if (behind.rank, behind.action) == place and owed.action > behind.action:
            return edge
    return None


def _named(place: Location) -> str:
    return f"#{place.action} {place.op}"


def _add(finding: Finding, absent: tuple[int, ...], *, apart: bool) -> str:
    """Say on which rank something is missing."""
    template = MISSING.get(finding.code)
    if finding.code == "PG011" and finding.subkind == "orphan":
        template = APART if apart else MISSING["PG210"]
    if template is None or not absent:
        return ""
    return template.format(absent=name_ranks(absent), present=name_ranks(finding.ranks))
