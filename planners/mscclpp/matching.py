"""Who lets whom go on: counters and packets to messages between thread blocks.

A counter that one thread block raises and one lowers is a queue of messages: the n-th lowering
needs the n-th raising. What several raise or lower has no such order; it gets one, and a doubt.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from msgspec import Struct

from .model import BlockId

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .model import Counter, Program, Span

Place = tuple[BlockId, int]
"""A thread block and one of its events."""
Use = tuple[BlockId, int, int]
"""The same, and which of the counters of the event."""


class Message(Struct, frozen=True):
    """What one thread block tells another; ``other`` is None where nobody ever does or listens.

    Attributes:
        other: The thread block at the other end.
        tag: Its tag.
        label: What it stands for.
    """

    other: BlockId | None
    tag: int
    label: str


@dataclass
class Messages:
    """All messages of a program.

    Attributes:
        incoming: Per event what it waits for.
        outgoing: Per event what it lets go on.
        doubts: Kind to the sentence of what is not known.
    """

    incoming: dict[Place, list[Message]] = field(default_factory=lambda: defaultdict(list))
    outgoing: dict[Place, list[Message]] = field(default_factory=lambda: defaultdict(list))
    doubts: dict[str, str] = field(default_factory=dict)
    tags: int = 0

    def new_tag(self) -> int:
        """Return a tag that no message has."""
        self.tags += 1
        return self.tags

    def join(self, teller: Place | None, waiter: Place | None, tag: int, label: str) -> None:
        """Add a message between two events; None where there is no such event."""
        if teller is not None:
            other = waiter[0] if waiter is not None else None
            self.outgoing[teller].append(Message(other, tag, label))
        if waiter is not None:
            other = teller[0] if teller is not None else None
            self.incoming[waiter].append(Message(other, tag, label))


def match(program: Program) -> Messages:
    """Find all messages of a program."""
    messages = Messages()
    raised: dict[Counter, list[Use]] = defaultdict(list)
    lowered: dict[Counter, list[Use]] = defaultdict(list)
    for block, found in program.blocks.items():
        for at, event in found.active:
            for nth, counter in enumerate(event.signals):
                raised[counter].append((block, at, nth))
            for nth, counter in enumerate(event.waits):
                lowered[counter].append((block, at, nth))
    for counter in raised | lowered:
        _count(counter, raised[counter], lowered[counter], messages)
        _balance(program, counter, raised[counter], lowered[counter], messages)
    packets = _packets(program, messages)
    _ahead(program, packets, messages)
    return messages


def _ahead(program: Program, packets: set[tuple[int, int]], messages: Messages) -> None:
    """Doubt packets that a later launch may overwrite before they are read.

    With two halves of the scratch buffer in turn, a writer must not be two launches ahead of its
    reader. It is not if it waits, in every launch, for something that the reader tells it.
    """
    if packets and not program.double_scratch:
        message = "the next launch may overwrite packets of this one: there is one scratch buffer"
        messages.doubts.setdefault("overwritten-packets", message)
    told = {
        (message.other[0], waiter[0][0])
        for waiter, found in messages.incoming.items()
        for message in found
        if message.other is not None
    }
    for writer, reader in sorted(packets):
        if (reader, writer) not in told:
            message = f"gpu {writer} waits for nothing of gpu {reader}, which reads its packets: a "
            message += "later launch may overwrite them"
            messages.doubts.setdefault("overwritten-packets", message)


def _count(counter: Counter, raised: list[Use], lowered: list[Use], messages: Messages) -> None:
    """Match the uses of a counter; both lists are in program order, block after block."""
    if len({use[0] for use in raised}) > 1 or len({use[0] for use in lowered}) > 1:
        messages.doubts.setdefault(
            "shared-counter",
            f"several thread blocks raise or lower {counter}: which one goes on first is open",
        )
    needed = lowered[counter.initial :]
    tag, named = messages.new_tag(), str(counter)
    for number in range(max(len(raised), len(needed))):
        teller = raised[number][:2] if number < len(raised) else None
        waiter = needed[number][:2] if number < len(needed) else None
        if waiter is None and counter.kind == "semaphore":
            continue  # nobody can be behind it; what it means for the next launch is a doubt
        if teller is not None and waiter is not None and teller[0] == waiter[0]:
            if teller[1] < waiter[1]:
                continue
            teller = None  # a thread block that waits for what it would do later
        messages.join(teller, waiter, tag, f"{named} no. {number}")


def _balance(
    program: Program, counter: Counter, raised: list[Use], lowered: list[Use], messages: Messages
) -> None:
    """Doubt a counter that a launch does not bring back to where it was.

    The executor makes semaphores once for many launches, so the next one starts with what this one
    leaves: a wait that passes too early, or one that gets stuck.
    """
    if len(raised) == len(lowered):
        return
    (gpu, number), at, _ = (raised if len(raised) > len(lowered) else lowered)[-1]
    messages.doubts.setdefault(
        "unbalanced",
        f"{counter} is raised {len(raised)} times and lowered {len(lowered)} times in a launch "
        f"(last in gpu {gpu} tb {number}, {program.blocks[gpu, number].place(at)}), so the next "
        "launch does not start as this one did",
    )


def _packets(program: Program, messages: Messages) -> set[tuple[int, int]]:
    """Join those who write packets and those who read them; return their gpus."""
    gpus: set[tuple[int, int]] = set()
    written: dict[int, list[tuple[Span, Place]]] = defaultdict(list)
    for block, found in program.blocks.items():
        for at, event in found.active:
            for span in event.writes:
                written[span.gpu].append((span, (block, at)))
    for block, found in program.blocks.items():
        for at, event in found.active:
            for span in event.reads:
                for teller in _writers(span, (block, at), written[span.gpu], messages):
                    tag = messages.new_tag()
                    messages.join(teller, (block, at), tag, f"packets {span}")
                    if teller is not None and teller[0][0] != block[0]:
                        gpus.add((teller[0][0], block[0]))
    return gpus


def _writers(
    span: Span, reader: Place, written: list[tuple[Span, Place]], messages: Messages
) -> Iterator[Place | None]:
    """Yield the events that write a stretch first; None if a part of it is never written."""
    first: dict[BlockId, tuple[Span, Place]] = {}
    overlapping = [(other, place) for other, place in written if other.meets(span)]
    if not _covers(span, [other for other, _ in overlapping]):
        yield None
        return
    for other, (block, at) in overlapping:
        if block == reader[0] and at < reader[1] and _covers(span, [other]):
            return  # its own thread block wrote it before
        if block != reader[0]:
            first.setdefault(block, (other, (block, at)))
    if not _covers(span, [other for other, _ in first.values()]):
        yield None  # only its own thread block, and later, writes some of it
        return
    if sum(other.high - other.low for other, _ in first.values()) > span.high - span.low and any(
        one.meets(other) for one, _ in first.values() for other, _ in first.values() if one != other
    ):
        messages.doubts.setdefault("packets-written-twice", f"several write {span}")
    yield from (place for _, place in first.values())


def _covers(span: Span, others: list[Span]) -> bool:
    low = span.low
    for other in sorted(others, key=lambda one: one.low):
        if other.low <= low:
            low = max(low, other.high)
    return low >= span.high
