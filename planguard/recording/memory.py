"""Memory of devices: what a snapshot of torch's allocator holds, and what was alive when.

A snapshot has the allocator's state at its end (segments that were reserved, blocks in them) and
the history of what it did, entry by entry, as far as it was recorded. The two are joined: a block
that is alive at the end, or is freed, without an entry that says when it was given is older than
the history. So what is in use is known at every entry, and the peak of the recorded part exactly.

Bytes in use are those that were asked for; what the allocator rounds up is told apart. A block is
in use from ``alloc`` to ``free_completed``: between ``free_requested`` and that, a stream may still
use it. These are the rules of torch's own viewer (``torch.cuda._memory_viz``).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

from planguard.recording.sites import BEFORE, Frame, site_of
from planguard.words import plural, size

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

ALLOCATED, PENDING, INACTIVE = "active_allocated", "active_pending_free", "inactive"
GROWS = frozenset({"segment_alloc", "segment_map"})
SHRINKS = frozenset({"segment_free", "segment_unmap"})
PARTS = frozenset({"segment_map", "segment_unmap"})
"""What changes a part of an expandable segment, not a whole one."""
ENDS = frozenset({"free_completed", "free"})
ACTIONS = ("alloc", "free_completed", "free_requested", "segment_alloc", "segment_free",
           "segment_map", "segment_unmap", "snapshot", "oom", "free")  # fmt: skip


class Block(NamedTuple):
    """A part of a segment.

    Attributes:
        address: Where it begins.
        size: Its bytes.
        requested: Bytes that were asked for; at most ``size``.
        state: ``active_allocated``, ``active_pending_free`` or ``inactive``.
        stack: Number of the stack that asked for it.
    """

    address: int
    size: int
    requested: int
    state: str
    stack: int


class Segment(NamedTuple):
    """Memory that the allocator took from the device.

    Attributes:
        device: Number of the device.
        address: Where it begins.
        size: Its bytes.
        stream: The stream that it is kept for.
        kind: ``small`` or ``large``; "" where the snapshot does not say.
        pool: The private pool that it belongs to; "" for the allocator's own.
        blocks: Its parts, in order of address.
    """

    device: int
    address: int
    size: int
    stream: int
    kind: str
    pool: str
    blocks: tuple[Block, ...]


class Entry(NamedTuple):
    """One entry of the history.

    Attributes:
        action: One of ``ACTIONS``.
        address: What it is about; of ``oom`` the bytes that the device still had.
        size: Its bytes.
        time: Microseconds; None where the snapshot has no times.
        stack: Number of the stack.
    """

    action: str
    address: int
    size: int
    time: int | None
    stack: int


@dataclass(frozen=True)
class Snapshot:
    """A snapshot as it was read.

    Attributes:
        name: What it is called.
        segments: Segments of all devices.
        traces: The history of every device.
        stacks: Every stack once, innermost frame first; number 0 is the empty one.
    """

    name: str
    segments: tuple[Segment, ...]
    traces: tuple[tuple[Entry, ...], ...]
    stacks: tuple[tuple[Frame, ...], ...]


class Life(NamedTuple):
    """A block from when it was given until it was taken back.

    Attributes:
        address: Where it is.
        size: Bytes that were asked for.
        begin: The entry that gave it; -1: it is older than the history.
        end: The entry that took it back; the number of entries where it is alive at the end.
        stack: Number of the stack that asked for it; -1: not known.
    """

    address: int
    size: int
    begin: int
    end: int
    stack: int


@dataclass(frozen=True)
class Use:
    """What part of the memory some segments use, in bytes.

    Attributes:
        segments: Number of segments.
        reserved: All of them.
        requested: What tensors asked for.
        rounding: What they were given beyond that.
        pending: Freed, but still in use by a stream.
        idle: In segments that nothing is in: ``empty_cache()`` would give them back.
        holes: Free parts of segments that something is in.
        largest: The largest free part.
    """

    segments: int = 0
    reserved: int = 0
    requested: int = 0
    rounding: int = 0
    pending: int = 0
    idle: int = 0
    holes: int = 0
    largest: int = 0

    @property
    def free(self) -> int:
        """Bytes that are free for a tensor that fits."""
        return self.idle + self.holes


@dataclass(frozen=True)
class Device:
    """Memory of one device of one snapshot.

    Attributes:
        name: What the snapshot is called.
        device: Number of the device.
        segments: Its segments.
        entries: Its history.
        lives: Every block that the history or the end tells of, those older than the history first.
        used: Bytes in use, before the history and after each entry: one more than entries.
        reserved: Bytes of segments, likewise.
        stacks: Stacks by number.
        sites: Call sites by number of the stack.
        notes: What does not fit together, and what was not recorded.
    """

    name: str
    device: int
    segments: tuple[Segment, ...]
    entries: tuple[Entry, ...]
    lives: tuple[Life, ...]
    used: tuple[int, ...]
    reserved: tuple[int, ...]
    stacks: tuple[tuple[Frame, ...], ...] = field(repr=False)
    sites: tuple[str, ...] = field(repr=False)
    notes: tuple[str, ...] = ()

    @property
    def peak(self) -> int:
        """The entry after which most is in use, the first of them; -1: before the history."""
        return self.used.index(max(self.used)) - 1

    @property
    def ooms(self) -> list[int]:
        """The entries where memory was out."""
        return [at for at, entry in enumerate(self.entries) if entry.action == "oom"]

    def alive(self, at: int) -> list[Life]:
        """Return the blocks in use after an entry; -1: before the history."""
        return [life for life in self.lives if life.begin <= at < life.end]

    def site(self, life: Life) -> str:
        """Return where a block was asked for."""
        return BEFORE if life.stack < 0 else self.sites[life.stack]

    def by_site(self, at: int) -> list[tuple[str, int, int]]:
        """Return site, bytes and number of the blocks in use after an entry, the most first."""
        found: dict[str, list[int]] = defaultdict(lambda: [0, 0])
        for life in self.alive(at):
            row = found[self.site(life)]
            row[0] += life.size
            row[1] += 1
        return sorted(((s, b, n) for s, (b, n) in found.items()), key=lambda row: (-row[1], row[0]))


def devices(snapshot: Snapshot) -> list[Device]:
    """Return the devices that a snapshot tells something of, in order."""
    numbers = {segment.device for segment in snapshot.segments}
    numbers |= {number for number, trace in enumerate(snapshot.traces) if trace}
    sites = tuple(site_of(stack) for stack in snapshot.stacks)
    return [_device(snapshot, number, sites) for number in sorted(numbers)]


def _device(snapshot: Snapshot, number: int, sites: tuple[str, ...]) -> Device:
    segments = tuple(s for s in snapshot.segments if s.device == number)
    entries = snapshot.traces[number] if number < len(snapshot.traces) else ()
    lives, notes = _lives(entries, segments)
    change = [0] * (len(entries) + 1)
    for life in lives:
        change[life.begin + 1] += life.size
        if life.end < len(entries):
            change[life.end + 1] -= life.size
    used = tuple(accumulate(change))
    reserved = _reserved(entries, segments)
    if min(reserved) < 0:
        notes.append("the segments at the end do not fit the history: what was reserved is unsure")
    return Device(snapshot.name, number, segments, entries, lives, used, reserved,
                  snapshot.stacks, sites, tuple(notes))  # fmt: skip


def _lives(
    entries: Sequence[Entry], segments: Iterable[Segment]
) -> tuple[tuple[Life, ...], list[str]]:
    """Join history and end: see the module."""
    older: list[Life] = []
    found: list[Life] = []
    live: dict[int, int] = {}
    unseen = 0
    for at, entry in enumerate(entries):
        if entry.action == "alloc":
            if entry.address in live:
                unseen += 1
                found[live[entry.address]] = found[live[entry.address]]._replace(end=at)
            live[entry.address] = len(found)
            found.append(Life(entry.address, entry.size, at, len(entries), entry.stack))
        elif entry.action in ENDS:
            if entry.address in live:
                index = live.pop(entry.address)
                found[index] = found[index]._replace(end=at)
            else:  # the stack of a free is that of the free
                older.append(Life(entry.address, entry.size, -1, at, -1))
    kept = {b.address: b for s in segments for b in s.blocks if b.state != INACTIVE}
    older += [Life(block.address, block.requested, -1, len(entries), block.stack)
              for block in kept.values() if block.address not in live]  # fmt: skip
    lost = [found[index] for address, index in live.items() if address not in kept]
    return (*older, *found), _doubts(entries, older, unseen, lost)


def _doubts(
    entries: Sequence[Entry], older: Sequence[Life], unseen: int, lost: Sequence[Life]
) -> list[str]:
    if not entries:
        hint = "Before the run: torch.cuda.memory._record_memory_history()"
        return [f"no history was recorded: only the end is known. {hint}"]
    notes = []
    if older:
        total = size(sum(life.size for life in older))
        notes.append(f"{plural(len(older), 'block')} ({total}) allocated before the history begins")
    if unseen:
        notes.append(f"the end of {plural(unseen, 'block')} was not recorded: it is taken to be "
                     "where its address was given again")  # fmt: skip
    if lost:
        total = size(sum(life.size for life in lost))
        notes.append(f"{plural(len(lost), 'block')} ({total}) without a recorded end in none of "
                     "the segments: counted as in use")  # fmt: skip
    return notes


def _reserved(entries: Sequence[Entry], segments: Iterable[Segment]) -> tuple[int, ...]:
    """Return bytes of segments before the history and after each entry, counted from the end."""
    changes = [e.size if e.action in GROWS else -e.size if e.action in SHRINKS else 0
               for e in entries]  # fmt: skip
    before = sum(segment.size for segment in segments) - sum(changes)
    return tuple(accumulate(changes, initial=before))


def use_of(segments: Iterable[Segment]) -> Use:
    """Return how segments are used at the end."""
    total: Counter[str] = Counter()
    largest = 0
    for segment in segments:
        total["segments"] += 1
        total["reserved"] += segment.size
        is_idle = all(block.state == INACTIVE for block in segment.blocks)
        for block in segment.blocks:
            if block.state == ALLOCATED:
                total["requested"] += block.requested
                total["rounding"] += block.size - block.requested
            elif block.state == INACTIVE:
                total["idle" if is_idle else "holes"] += block.size
                largest = max(largest, block.size)
            else:
                total["pending"] += block.size
    return Use(**total, largest=largest)


def pools(segments: Iterable[Segment]) -> list[tuple[str, int, str, Use]]:
    """Return pool, stream, kind and use of the segments that serve the same requests."""
    found: dict[tuple[str, int, str], list[Segment]] = defaultdict(list)
    for segment in segments:
        found[segment.pool, segment.stream, segment.kind].append(segment)
    rows = [(*key, use_of(some)) for key, some in found.items()]
    return sorted(rows, key=lambda row: (-row[3].reserved, *row[:3]))
