"""The encoded schedule: ``RANK.ACTION`` items joined by ``/``, for example ``5.1284/6.1283``."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, Any

from planguard.errors import ReplayError, shorten
from planguard.replay.flat import rank_programs, reorderable_ranks
from planguard.verdict import Witness, WitnessStep

if TYPE_CHECKING:
    from collections.abc import Mapping

ITEM = re.compile(r"(\d{1,9})\.(\d{1,9})")


def parse_schedule(text: str) -> tuple[tuple[int, int], ...]:
    """Return the ``(rank, action)`` items of an encoded schedule, in schedule order.

    An item that comes again (an action that is issued, then completed) counts once.

    Raises:
        ReplayError: An item is not ``RANK.ACTION``; the message names it.
    """
    items: dict[tuple[int, int], None] = {}
    for number, item in enumerate(text.split("/"), 1):
        match = ITEM.fullmatch(item.strip())
        if match is None:
            raise ReplayError(
                f"item {number} of the schedule is not RANK.ACTION: {shorten(item) or '(empty)'}",
                hint="a schedule looks like 5.1284/6.1283",
            )
        items[int(match[1]), int(match[2])] = None
    return tuple(items)


def encode_schedule(items: tuple[tuple[int, int], ...]) -> str:
    """Return the encoded form of ``(rank, action)`` items."""
    return "/".join(f"{rank}.{action}" for rank, action in items)


def decode_witness(text: str, plan: Mapping[str, Any] | None) -> Witness:
    """Turn an encoded schedule into a witness without a prediction.

    Args:
        text: Encoded schedule.
        plan: The flat plan it belongs to; None for a plan that leaves orders or branches open, in
            which every order of actions may be a schedule.

    Raises:
        ReplayError: The text is no schedule, or an item is no action of the plan; the message lists
            the actions that could come at that step.
    """
    items = parse_schedule(text)
    if plan is not None:
        _check(items, plan)
    encoded = encode_schedule(items)
    return Witness(
        id=hashlib.sha256(encoded.encode()).hexdigest()[:4],
        encoded=encoded,
        minimal=False,
        steps=tuple(WitnessStep(k, r, a, "issue") for k, (r, a) in enumerate(items, 1)),
        actions=tuple(sorted(items)),
    )


def _check(items: tuple[tuple[int, int], ...], plan: Mapping[str, Any]) -> None:
    programs = rank_programs(plan)
    reached = dict.fromkeys(programs, -1)
    reordered = reorderable_ranks(plan)
    for step, (rank, action) in enumerate(items, 1):
        last = -1 if rank in reordered else reached.get(rank, -1)
        if rank not in programs or not last < action < len(programs[rank]):
            raise ReplayError(
                f"step {step} of the schedule, {rank}.{action}, {_why(rank, action, programs)}",
                hint=f"available at step {step}: {_available(reached, programs, rank)}",
            )
        reached[rank] = max(reached[rank], action)


def _why(rank: int, action: int, programs: Mapping[int, list[Any]]) -> str:
    if rank not in programs:
        return f"names a rank that the plan does not have (ranks 0 to {max(programs)})"
    if action >= len(programs[rank]):
        return f"does not exist: rank {rank} has {len(programs[rank])} actions"
    return "comes after a later action of the same rank"


def _available(reached: Mapping[int, int], programs: Mapping[int, list[Any]], rank: int) -> str:
    """List the next actions of every rank, the one asked for first."""
    ranks = sorted(programs, key=lambda other: (other != rank, other))
    found = [
        f"{other}.{reached[other] + 1} ({programs[other][reached[other] + 1]['op']})"
        for other in ranks
        if reached[other] + 1 < len(programs[other])
    ]
    more = f" and {len(found) - 8} more" if len(found) > 8 else ""
    return (", ".join(found[:8]) + more) or "none, every rank is at its end"
