"""The inside of ranks on the page: slices, counters and memory as columns, what follows as rows."""

from __future__ import annotations

from collections import Counter, defaultdict
from statistics import fmean, median
from typing import TYPE_CHECKING, Any

from planguard.report.page.columns import ABSENT
from planguard.simulate.inside.device import WHYS, bandwidths, delays, gaps, queues
from planguard.simulate.inside.memory import floors
from planguard.simulate.inside.path import WHYS as ON_PATH
from planguard.simulate.inside.path import critical_path
from planguard.simulate.inside.sequences import sequences
from planguard.simulate.inside.tracks import KINDS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from planguard.report.page.columns import Columns, Names
    from planguard.simulate.inside.path import Segment
    from planguard.simulate.inside.tracks import Series, Tracks
    from planguard.simulate.schedule import Schedule

SLICES = 100_000
"""Most slices on the page; the longest are kept, so that what is around one is kept with it."""
POINTS = 4_000
"""Most points of a counter; of more, the most of each of as many parts is kept."""
BLOCKS = 20_000
"""Most allocations of a rank; the largest are kept."""
ROWS = 200
"""Most rows of a rank in a table."""


def inside(found: Schedule, columns: Columns, names: Names) -> dict[str, Any] | None:
    """Add the columns of all ranks that a trace shows from inside; None where none does.

    Args:
        found: A measured run.
        columns: Where the columns go, one rank after the other.
        names: Where names go.
    """
    if not found.tracks:
        return None
    shortest = _shortest(found.tracks.values())
    # What the host does may last much longer than the run that the timeline shows.
    far = max((abs(t) for own in found.tracks.values() for t in _moments(own)), default=0.0)
    tick = max(far / 2**30, 1e-3)
    writer = _Writer(tick, names)
    ranks = [writer.rank(rank, tracks, shortest) for rank, tracks in sorted(found.tracks.items())]
    writer.put(columns)
    return {"ranks": ranks, "tick": tick, "kinds": list(KINDS), "path": list(ON_PATH)}


def _moments(tracks: Tracks) -> Iterator[float]:
    for one in tracks.slices:
        yield from (one.start, one.end)
    for series in tracks.series:
        yield from (series.times[0], series.times[-1])
    for block in tracks.allocations:
        yield from (t for t in (block.start, block.end) if t is not None)


def _shortest(every: Iterable[Tracks]) -> float:
    """Return how long a slice is at least that is drawn."""
    lengths = sorted((s.end - s.start for own in every for s in own.slices), reverse=True)
    return lengths[SLICES] if len(lengths) > SLICES else -1.0


class _Writer:
    def __init__(self, tick: float, names: Names) -> None:
        self.tick, self.names = tick, names
        self.values: dict[str, list[float]] = defaultdict(list)

    def put(self, columns: Columns) -> None:
        for name in (
            "in.gap", "in.dur", "in.name", "in.lane", "in.depth", "in.mate", "path.gap", "path.dur",
            "path.place", "series.gap", "alloc.gap", "alloc.dur", "alloc.by",
        ):  # fmt: skip
            columns.put(name, self.values[name])
        for name in ("in.kind", "path.why"):
            columns.put(name, self.values[name], "u8")
        for name in ("series.value", "alloc.floor", "alloc.size"):
            columns.put(name, self.values[name], "f64")

    def _gaps(self, name: str, times: Iterable[float]) -> None:
        before = 0
        for time in times:
            now = round(time / self.tick)
            self.values[name].append((now - before) % 2**32)
            before = now

    def rank(self, rank: int, tracks: Tracks, shortest: float) -> dict[str, Any]:
        """Add the columns of a rank and return its head."""
        kept = [at for at, s in enumerate(tracks.slices) if s.end - s.start > shortest]
        place = {at: number for number, at in enumerate(kept)}
        depth: Counter[int] = Counter()
        for at in kept:
            depth[tracks.slices[at].lane] = max(
                depth[tracks.slices[at].lane], tracks.depths[at] + 1
            )
        self._slices(tracks, kept, place)
        path = critical_path(tracks)
        self._path(path, place)
        series = [*tracks.series, *bandwidths(tracks), *queues(tracks)]
        thinned = [self._series(one) for one in series]
        return {
            "rank": rank,
            "n": len(kept),
            "left": len(tracks.slices) - len(kept),
            "lanes": [
                [lane.name, lane.device is not None, depth[at]]
                for at, lane in enumerate(tracks.lanes)
            ],
            "series": [
                [one.name, one.unit, n, max(one.values)]
                for one, n in zip(series, thinned, strict=True)
            ],
            "path": len(path),
            "idle": _idle(tracks),
            "launches": _launches(tracks),
            "sequences": _sequences(tracks),
            "onPath": _on_path(tracks, path),
            "blocks": self._blocks(tracks, place),
        }

    def _slices(self, tracks: Tracks, kept: list[int], place: dict[int, int]) -> None:
        own = [tracks.slices[at] for at in kept]
        self._gaps("in.gap", (one.start for one in own))
        for at, one in zip(kept, own, strict=True):
            starts = round(one.start / self.tick)
            self.values["in.dur"].append(max(0, round(one.end / self.tick) - starts))
            self.values["in.name"].append(self.names.number(one.name))
            self.values["in.lane"].append(one.lane)
            self.values["in.depth"].append(tracks.depths[at])
            self.values["in.kind"].append(KINDS.index(one.kind))
            self.values["in.mate"].append(place.get(tracks.launches.get(at, -1), ABSENT))

    def _path(self, path: Sequence[Segment], place: dict[int, int]) -> None:
        self._gaps("path.gap", (one.start for one in path))
        for one in path:
            starts = round(one.start / self.tick)
            self.values["path.dur"].append(max(0, round(one.end / self.tick) - starts))
            self.values["path.why"].append(ON_PATH.index(one.why))
            at = -1 if one.place is None else one.place
            self.values["path.place"].append(place.get(at, ABSENT))

    def _series(self, one: Series) -> int:
        points = _thinned(one)
        self._gaps("series.gap", (time for time, _ in points))
        self.values["series.value"] += [value for _, value in points]
        return len(points)

    def _blocks(self, tracks: Tracks, place: dict[int, int]) -> list[list[Any]]:
        """Add the allocations of every memory; return its name, their number and what is left."""
        out: list[list[Any]] = []
        by_device: dict[str, list[Any]] = defaultdict(list)
        for one in tracks.allocations:
            by_device[one.device].append(one)
        for device, every in sorted(by_device.items()):
            largest = sorted(range(len(every)), key=lambda at: -every[at].size)[:BLOCKS]
            own = [every[at] for at in sorted(largest)]
            begins = [max(0.0, one.start or 0.0) for one in own]
            self._gaps("alloc.gap", begins)
            for one, begin, floor in zip(own, begins, floors(own), strict=True):
                ends = ABSENT if one.end is None else round((one.end - begin) / self.tick)
                self.values["alloc.dur"].append(ends if one.end is None else max(0, ends))
                self.values["alloc.floor"].append(floor)
                self.values["alloc.size"].append(one.size)
                self.values["alloc.by"].append(place.get(-1 if one.by is None else one.by, ABSENT))
            out.append([device, len(own), len(every) - len(own)])
        return out


def _thinned(one: Series) -> list[tuple[float, float]]:
    points = list(zip(one.times, one.values, strict=True))
    if len(points) <= POINTS:
        return points
    first, last = points[0][0], points[-1][0]
    wide = (last - first) / POINTS or 1.0
    best: dict[int, tuple[float, float]] = {}
    for time, value in points:
        part = int((time - first) / wide)
        if part not in best or value > best[part][1]:
            best[part] = (first + part * wide, value)
    return [best[part] for part in sorted(best)]


def _idle(tracks: Tracks) -> list[list[Any]]:
    """Return, for each stream, microseconds and gaps for each reason, and the sum."""
    time: Counter[tuple[int, str]] = Counter()
    count: Counter[tuple[int, str]] = Counter()
    for gap in gaps(tracks):
        time[gap.lane, gap.why] += gap.end - gap.start  # type: ignore[assignment]
        count[gap.lane, gap.why] += 1
    return [
        [tracks.lanes[lane].name,
         *(value for why in WHYS for value in (round(time[lane, why], 3), count[lane, why])),
         round(sum(time[lane, why] for why in WHYS), 3)]
        for lane in sorted({lane for lane, _ in count})
    ]  # fmt: skip


def _launches(tracks: Tracks) -> list[list[Any]]:
    """Return, for each work by name: number, microseconds of call, delay (three) and work."""
    by_name: dict[str, list[Any]] = defaultdict(list)
    for one in delays(tracks):
        by_name[tracks.slices[one.work].name].append(one)
    rows: list[list[Any]] = []
    for name, own in by_name.items():
        late = [one.time for one in own]
        calls = [tracks.slices[one.call] for one in own]
        works = [tracks.slices[one.work] for one in own]
        rows.append(
            [name, len(own), *(round(value, 3) for value in (
                fmean(c.end - c.start for c in calls), fmean(late), median(late), max(late),
                fmean(w.end - w.start for w in works), sum(w.end - w.start for w in works)))]
        )  # fmt: skip
    rows.sort(key=lambda row: -row[-1])
    return rows[:ROWS]


def _sequences(tracks: Tracks) -> list[list[Any]]:
    found = [one for one in sequences(tracks) if len(one.places) > 1]
    return [
        [one.operator, len(one.places), len(one.works), round(one.device, 3), round(one.host, 3),
         " | ".join(_short(name) for name in one.works[:12]) + (" | ..." if len(one.works) > 12
                                                               else "")]
        for one in found[:ROWS]
    ]  # fmt: skip


def _short(name: str) -> str:
    """Return a kernel's name without its types and arguments."""
    out, deep = [], 0
    for letter in name.replace("(anonymous namespace)::", ""):
        deep += letter in "<("
        if not deep:
            out.append(letter)
        deep -= letter in ">)" and deep > 0
    return "".join(out).removeprefix("void ").strip() or name


def _on_path(tracks: Tracks, path: Sequence[Segment]) -> list[list[Any]]:
    """Return what the critical path is made of: why, name, segments, microseconds, share."""
    time: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
    for one in path:
        named = one.place is not None and one.why not in {"idle", "gap", "launch"}
        name = tracks.slices[one.place].name if named and one.place is not None else ""
        time[one.why, name].append(one.end - one.start)
    sums = {key: sum(own) for key, own in time.items()}
    whole = sum(sums.values()) or 1.0
    return [
        [*key, len(time[key]), round(sums[key], 3), f"{sums[key] / whole:.1%}"]
        for key in sorted(sums, key=lambda key: -sums[key])[:ROWS]
    ]
