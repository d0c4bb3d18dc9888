"""Where stacks show a rank inside a call that its recorder did not write down."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from planguard.audit.readers.part import CONCLUDED, DOUBT, PARTIAL
from planguard.plan.vocabulary import MESSAGES, SENDS
from planguard.recording import STACK, Call, Gap, Observed, Progress, Track

if TYPE_CHECKING:
    from collections.abc import Mapping

    from planguard.recording import RankRecord, Recording

PAIRS = {name: "dst" if name in SENDS else "src" for name in MESSAGES}
"""Functions whose peer a local variable names."""
ONLY_TWO = "nothing is known of more than two ranks, so each is taken for the other's peer"


def stand_in(recording: Recording, arguments: Mapping[int, dict[str, int]]) -> Recording:
    """Return the recording with the sends and receives that ranks were seen standing in.

    Args:
        recording: A recording whose records may carry stacks.
        arguments: Local variables of the calls that the stacks stand in, by rank.
    """
    # Beside a dump the ranks are known to wait, whoever the peers are: nothing is guessed.
    is_pair = recording.world_size == 2 and all(
        record.inside in PAIRS and record.kind in PARTIAL for record in recording.ranks.values()
    )
    ranks = {}
    has_guessed = False
    for rank, record in recording.ranks.items():
        values = arguments.get(rank, {})
        if is_pair and PAIRS.get(record.inside or "", "") not in values:
            values, has_guessed = {PAIRS[record.inside or ""]: 1 - rank}, True
        ranks[rank] = _stand(record, values, recording.world_size)
    gaps = recording.gaps
    if has_guessed and any(CONCLUDED in note for note in recording.notes):
        gaps = (*gaps, Gap(DOUBT, ONLY_TWO, "PG904", tuple(ranks)))
    return replace(recording, ranks=ranks, gaps=gaps)


def _stand(record: RankRecord, values: Mapping[str, int], world_size: int) -> RankRecord:
    function = record.inside
    if function not in PAIRS or any(
        record.track.call_at(n).is_point_to_point for n in record.pending
    ):
        return record
    peer = values.get(PAIRS[function])
    if peer is not None and not 0 <= peer < world_size:
        peer = None
    call = Call(
        function,
        "world",
        peer=peer,
        tag=max(0, values.get("tag", 0)),
        stack=record.stack,
    )
    actions = [*record.actions, Observed(call, progress=Progress.ISSUED, is_async=False)]
    lent = {**record.lent, len(record.actions): record.told_by(STACK)}
    return replace(record, actions=Track.of(actions), lent=lent)
