"""What the logs of a recorded run do not hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planguard.recording import Gap

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planguard.capture.run.ranks import ReadRank


def gaps_of(ranks: Sequence[ReadRank]) -> list[Gap]:
    """Return what the logs of a run do not hold."""
    world = ranks[0].log.world_size
    found = []
    missing = tuple(sorted(set(range(world)) - {one.log.rank for one in ranks}))
    if missing:
        named = ", ".join(map(str, missing[:8])) + (", ..." if len(missing) > 8 else "")
        message = f"no log of {len(missing)} of {world} ranks ({named})"
        found.append(Gap("missing-rank", message, "PG911", missing, len(missing)))
    for one in ranks:
        rank, log = one.log.rank, one.log
        lost = log.dropped + log.torn
        if log.dropped or log.torn:
            message = f"{lost:,} records of rank {rank} did not fit: its log is INCOMPLETE"
            if not log.dropped:
                message = f"the last record of rank {rank} was not finished: its log is INCOMPLETE"
            found.append(Gap("unrecorded-calls", message, "PG912", (rank,), lost))
        if log.has_failed or not log.has_ended:
            how = "by an exception" if log.has_failed else "without coming to its end"
            message = f"rank {rank} ended {how}: its log is INCOMPLETE"
            found.append(Gap("unrecorded-calls", message, "PG912", (rank,)))
    return found
