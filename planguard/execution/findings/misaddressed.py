"""A message to the wrong rank: an unmatched send and receive that fit but for the peer.

The Intel Trace Collector's hint for a send and a receive that wait for other ranks is that the
message was meant for one who waits. Here the two are one finding, and the repair is proved.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from planguard.plan.vocabulary import RECEIVES, SENDS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planguard.plan.plan import Plan
    from planguard.verdict import Finding

CODES = frozenset({"PG208", "PG209", "PG210"})
SAME = ("group", "tag", "bytes", "count", "dtype", "tensor", "shape")
"""What two sides of a message agree in."""


@dataclass(frozen=True)
class _Side:
    """An unmatched side of a message: who, with whom, and what it says of the message."""

    number: int
    rank: int
    peer: int
    is_send: bool
    message: tuple[Any, ...]


def joined_addresses(plan: Plan, findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Return findings with those joined that fit but for the peer, where only one pair does."""
    sides = [side for n, one in enumerate(findings) if (side := _side(plan, n, one)) is not None]
    pairs = [
        (a, b)
        for a in sides
        for b in sides
        if a.is_send and not b.is_send and a.message == b.message and _fit_but_for_a_peer(a, b)
    ]
    result = list(findings)
    dropped: set[int] = set()
    for a, b in pairs:
        if sum(a in pair or b in pair for pair in pairs) > 1:
            continue  # several fit: which one was meant is not known
        result[a.number] = _joined(findings[a.number], findings[b.number], _told(a, b))
        dropped.add(b.number)
    return tuple(one for n, one in enumerate(result) if n not in dropped)


def _side(plan: Plan, number: int, finding: Finding) -> _Side | None:
    at = finding.primary
    if finding.code not in CODES or finding.severity != "error" or finding.equivalent:
        return None
    if at is None or at.member is not None or len(finding.ranks) != 1:
        return None
    node: Any = plan.action_at(at.rank, at.action).action
    op = str(node.__struct_config__.tag)
    peer = plan.peer(at.rank, node) if op in SENDS | RECEIVES else None
    if peer is None:
        return None
    message = tuple(getattr(node, name, None) for name in SAME)
    return _Side(number, at.rank, peer, op in SENDS, message)


def _fit_but_for_a_peer(sent: _Side, got: _Side) -> bool:
    return (got.peer == sent.rank) != (sent.peer == got.rank)


def _told(sent: _Side, got: _Side) -> str:
    if got.peer == sent.rank:
        return (
            f"rank {sent.rank} sends to rank {sent.peer} what rank {got.rank} waits for: with peer "
            f"{got.rank} in place of {sent.peer} the two would meet"
        )
    return (
        f"rank {got.rank} waits for rank {got.peer}, and rank {sent.rank} sends it such a message: "
        f"with peer {sent.rank} in place of {got.peer} the two would meet"
    )


def _joined(finding: Finding, partner: Finding, said: str) -> Finding:
    at = () if partner.primary is None else (partner.primary,)
    return replace(
        finding,
        message=f"{finding.message}; {partner.message}",
        ranks=tuple(sorted({*finding.ranks, *partner.ranks})),
        related_actions=(*finding.related_actions, *at, *partner.related_actions),
        cycle=(*finding.cycle, *partner.cycle),
        related=tuple(dict.fromkeys((*finding.related, partner.code))),
        notes=(said, *finding.notes, *partner.notes),
        help="was the message meant for the rank that waits? Change the one peer",
    )
