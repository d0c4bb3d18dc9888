"""Reads a plan whose order is partly free in the order that a run chose."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from planguard.recording.observed import Observed
    from planguard.recording.planned import PlannedCall


def linearize(
    planned: Sequence[PlannedCall],
    recorded: Sequence[tuple[int, Observed]],
    same: Callable[[PlannedCall, tuple[int, Observed]], bool],
) -> list[PlannedCall]:
    """Return the planned calls in an admissible order that is nearest to the recorded one.

    Inside a block of free order, the next recorded call picks the first open item that it can be
    and whose predecessors were picked; what no recorded call picks follows in written order.

    Args:
        planned: Calls of one rank as written.
        recorded: Recorded calls of the rank, in order.
        same: Whether a recorded call can be a planned one.
    """
    if not any(one.block is not None for one in planned):
        return list(planned)
    order: list[PlannedCall] = []
    cursor = place = 0
    while place < len(planned):
        block = planned[place].block
        end = place
        while end < len(planned) and planned[end].block == block:
            end += 1
        if block is None:
            order += planned[place:end]
            cursor += end - place
        else:
            chosen = _block(
                planned, place, end, recorded[cursor : cursor + 2 * (end - place)], same
            )
            order += chosen
            cursor += end - place
        place = end
    return order


def _block(
    planned: Sequence[PlannedCall],
    place: int,
    end: int,
    recorded: Sequence[tuple[int, Observed]],
    same: Callable[[PlannedCall, tuple[int, Observed]], bool],
) -> list[PlannedCall]:
    left = list(range(place, end))
    done: set[int] = set()
    order = []
    for observed in recorded:
        for index in left:
            one = planned[index]
            if done.issuperset(one.after or ()) and same(one, observed):
                left.remove(index)
                done.add(index)
                order.append(one)
                break
        if not left:
            break
    return order + [planned[index] for index in left]
