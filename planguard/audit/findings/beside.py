"""What stands beside the cause: missing ranks, wrapped rings, differing versions, skewed clocks."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from typing import TYPE_CHECKING

from planguard.execution.findings.cause import make_finding
from planguard.words import clean, name_ranks, rank_set

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from planguard.audit.joining.assemble import Assembled
    from planguard.recording import Recording, Track
    from planguard.verdict import Finding

SKEW_NS = 1_000_000_000
"""Offset of a clock, in every sampled round, from which it is told."""
SAMPLES = 16


def beside_findings(
    assembled: Assembled, recording: Recording, *, is_stuck: bool, allow_incomplete: bool
) -> Iterator[Finding]:
    """Yield the findings that limit or accompany the answer.

    Args:
        assembled: What the files say.
        recording: The recording, with what a plan fills.
        is_stuck: Some rank was left in a communication. Otherwise a group without members limits
            what is proved, which the answer says, and no finding.
        allow_incomplete: Missing ranks are known not to exist.
    """
    for gap in recording.gaps:
        if gap.code == "PG904" or (gap.kind == "missing-rank" and allow_incomplete):
            continue
        if gap.kind == "unresolved-group" and not is_stuck:
            continue
        yield make_finding(gap.code, gap.message, ranks=gap.ranks, evidence="T", help="")
    yield from _versions(assembled)
    yield from _zones(assembled)
    yield from _clocks(recording)


def _versions(assembled: Assembled) -> Iterator[Finding]:
    # Logs and stacks say no version.
    known_versions = {rank: v for rank, v in assembled.versions.items() if any(v)}
    counted = Counter(known_versions.values())
    if len(counted) < 2:
        return
    usual = counted.most_common(1)[0][0]
    odd = sorted(rank for rank, known in known_versions.items() if known != usual)
    named = sorted({" / ".join(clean(v) for v in known if v) or "none" for known in counted})
    yield make_finding(
        "PG507",
        f"versions differ between ranks: {', '.join(named[:4])}; {rank_set(odd)} unlike most",
        ranks=tuple(odd),
        evidence="T",
        help="",
    )


def _zones(assembled: Assembled) -> Iterator[Finding]:
    """Tell of clocks of other time zones; the times of their ranks are not in the recording."""
    if not assembled.clocks:
        return
    hours = " and ".join(f"{half / 2:+g}" for half in sorted(set(assembled.clocks.values()))[:3])
    yield make_finding(
        "PG508",
        f"the clocks of {name_ranks(sorted(assembled.clocks))} are off by {hours} h, as of another "
        "time zone; nothing here was concluded from their times",
        ranks=tuple(sorted(assembled.clocks)),
        evidence="T",
        help="",
    )


def _is_one_near(picked: Collection[tuple[Track, list[int]]]) -> bool:
    """Tell whether the first rounds of all ranks are one, and were called at nearly one time."""
    if not all(actions for _, actions in picked):
        return True  # they have no round in common
    firsts = [(track.position[actions[0]], track.created[actions[0]]) for track, actions in picked]
    begun = [created for _, created in firsts]
    is_one = len({position for position, _ in firsts}) == 1
    return is_one and min(begun) > 0 and max(begun) - min(begun) <= SKEW_NS


def _clocks(recording: Recording) -> Iterator[Finding]:
    """Compare when ranks issued the same rounds of the default group."""
    picked: dict[int, tuple[Track, list[int]]] = {}
    places: dict[tuple[bytes, tuple[int, ...]], list[int]] = {}
    for rank, record in recording.ranks.items():
        track = record.track
        mine = tuple(n for n, c in enumerate(track.calls) if c.group == "world" and c.is_collective)
        # Most ranks make the same calls in the same order.
        shape = bytes(track.call), mine
        if shape not in places:
            places[shape] = [n for n, call in enumerate(track.call) if call in mine]
        picked[rank] = track, places[shape]
    if _is_one_near(picked.values()):
        return
    times: dict[int, dict[int, int]] = {}
    for rank, (track, actions) in picked.items():
        timed = (n for n in actions if track.created[n] > 0)
        times[rank] = {track.position[n]: track.created[n] for n in islice(timed, SAMPLES)}
    shared = set.intersection(*map(set, times.values())) if times else set()
    if len(shared) < 3:
        return
    if any(
        max(row[position] for row in times.values()) - min(row[position] for row in times.values())
        <= SKEW_NS
        for position in shared
    ):
        return  # in that round nobody is off by as much
    offsets: dict[int, list[float]] = {rank: [] for rank in times}
    for position in shared:
        ordered = sorted(row[position] for row in times.values())
        middle = (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) // 2
        for rank, row in times.items():
            offsets[rank].append(row[position] - middle)
    # A late rank is late in some rounds; a skewed clock is off by the same in all of them.
    off = {
        rank: min(row, key=abs)
        for rank, row in offsets.items()
        if min(map(abs, row)) > SKEW_NS and (min(row) > 0) == (max(row) > 0)
    }
    if off:
        worst = max(off.values(), key=abs) / 1e9
        yield make_finding(
            "PG508",
            f"the clocks of {name_ranks(off)} are off by up to {worst:+.1f} s; "
            "nothing here was concluded from times",
            ranks=tuple(sorted(off)),
            evidence="T",
            help="",
        )
