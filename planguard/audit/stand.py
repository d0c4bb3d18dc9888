"""Where stacks show a rank inside a call that its recorder did not write down."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from planguard.recording import Call, Observed, Progress, Track

if TYPE_CHECKING:
    from collections.abc import Mapping

    from planguard.recording import RankRecord, Recording

PAIRS = {"send": "dst", "isend": "dst", "recv": "src", "irecv": "src"}
"""Functions whose peer a local variable names."""


def stand_in(recording: Recording, arguments: Mapping[int, dict[str, int]]) -> Recording:
    """Return the recording with the sends and receives that ranks were seen standing in.

    Args:
        recording: A recording whose records may carry stacks.
        arguments: Local variables of the calls that the stacks stand in, by rank.
    """
    ranks = {
        rank: _stand(record, arguments.get(rank, {}), recording.world_size)
        for rank, record in recording.ranks.items()
    }
    return replace(recording, ranks=ranks)


def _stand(record: RankRecord, values: Mapping[str, int], world_size: int) -> RankRecord:
    function = record.inside
    if function not in PAIRS or any(
        record.track.call_at(n).is_point_to_point for n in record.pending
    ):
        return record
    peer = values.get(PAIRS[function])
    if peer is not None and not 0 <= peer < world_size:
        peer = None
    if peer is None and world_size == 2:
        peer = 1 - record.rank  # there is nobody else
    call = Call(
        function,
        "world",
        peer=peer,
        tag=max(0, values.get("tag", 0)),
        stack=record.stack,
    )
    actions = [*record.actions, Observed(call, progress=Progress.ISSUED, is_async=False)]
    return replace(record, actions=Track.of(actions))
