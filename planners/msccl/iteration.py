"""One iteration for any number of them: the conditions under which it stands for all.

``docs/planners/msccl.md`` proves it from two conditions, which are checked here:

* every connection is *balanced*: one iteration sends on it as often as it receives from it;
* every flag that is waited for in an iteration is set in the same one.

What breaks the second one is stuck in its last iteration, however many there are, and in the plan.
What breaks the first one is not stuck in one iteration where sends are left over, but fills the
slots of the connection in later ones; ``emit`` lets it wait for them. Flags also order what thread
blocks of one gpu do to a chunk; ``races`` finds what nothing orders.
"""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .model import RECEIVES, SENDS

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np

    from .model import Algorithm, Block

Connection = tuple[int, int, int]
"""Sending gpu, receiving gpu, channel."""
Place = tuple[int, int]
"""A thread block, by its place in the algorithm, and a step of it."""
Chunk = tuple[int, str, int]
"""A gpu, one of its buffers, and a chunk of that."""
MAX_CLOCKS = 1 << 24
"""Steps times thread blocks that races are looked for in."""


@dataclass(frozen=True)
class Ends:
    """The steps of one iteration at both ends of a connection.

    Attributes:
        sends: Steps that send on it, in order.
        receives: Steps that receive from it, in order.
    """

    sends: list[Place]
    receives: list[Place]


def connections(algorithm: Algorithm) -> dict[Connection, Ends]:
    """Return the steps at both ends of every connection that some step uses."""
    found: dict[Connection, Ends] = defaultdict(lambda: Ends([], []))
    for number, block in enumerate(algorithm.blocks):
        sends = [(number, at) for at, step in enumerate(block.steps) if step.kind in SENDS]
        receives = [(number, at) for at, step in enumerate(block.steps) if step.kind in RECEIVES]
        if sends:
            found[block.gpu, block.send, block.channel].sends.extend(sends)
        if receives:
            found[block.recv, block.gpu, block.channel].receives.extend(receives)
    return dict(found)


def tellers(algorithm: Algorithm) -> dict[Place, Place | None]:
    """Return, for every step that waits for a flag, the step that sets it; None if none does.

    A flag is the number of a step, and MSCCL's kernel waits until it is reached, so a later step
    with a flag stands for an earlier one without. A thread block that waits for its own flag is no
    exception: it must have set it before.
    """
    index = {(block.gpu, block.number): at for at, block in enumerate(algorithm.blocks)}
    flagged = [
        [at for at, step in enumerate(block.steps) if step.flags] for block in algorithm.blocks
    ]
    found: dict[Place, Place | None] = {}
    for own, block in enumerate(algorithm.blocks):
        for at, step in enumerate(block.steps):
            if step.waits is None:
                continue
            other = index[block.gpu, step.waits[0]]
            teller = next((one for one in flagged[other] if one >= step.waits[1]), None)
            if teller is None or (other == own and teller >= at):
                found[own, at] = None
            else:
                found[own, at] = other, teller
    return found


def unbalanced(algorithm: Algorithm, used: dict[Connection, Ends]) -> list[str]:
    """Return a sentence for every connection whose sends and receives differ in number."""
    sentences = []
    for (src, dst, channel), ends in sorted(used.items()):
        sent, taken = len(ends.sends), len(ends.receives)
        if sent == taken:
            continue
        extra, verb = (ends.sends[taken], "sends") if sent > taken else (ends.receives[sent], "")
        place = _place(algorithm.blocks[extra[0]], extra[1])
        what = f"{place} {verb or 'receives'} what the other end never {_other(verb)}"
        sentences.append(
            f"gpu {src} -> gpu {dst} on channel {channel} has {sent} sends and {taken} receives "
            f"in an iteration: {what}"
        )
    return sentences


def _other(verb: str) -> str:
    return "takes" if verb else "sends"


def races(algorithm: Algorithm) -> str | None:
    """Return a sentence about two steps on one chunk that nothing orders, or None.

    Program order, flags and messages order steps; slots do not count, since their number may be
    another. Of algorithms that get stuck nothing is said: the plan says it.
    """
    if sum(len(block.steps) for block in algorithm.blocks) * len(algorithm.blocks) > MAX_CLOCKS:
        return "the algorithm is too large to look for chunks that two steps use in any order"
    shared = _shared(algorithm)
    if not shared:
        return None
    # Clocks are of the thread blocks that use such a chunk: the others order them, and no more.
    columns = {own: at for at, own in enumerate(sorted(set().union(*shared.values())))}
    wrote: dict[Chunk, dict[int, int]] = defaultdict(dict)
    read: dict[Chunk, dict[int, int]] = defaultdict(dict)
    for place, clock in _ordered(algorithm, columns):
        block = algorithm.blocks[place[0]]
        step = block.steps[place[1]]
        reads, writes = (
            [chunk for part in parts if (chunk := (block.gpu, *part)) in shared]
            for parts in (step.reads, step.writes)
        )
        for chunks, earlier in ((reads, (wrote,)), (writes, (wrote, read))):
            for chunk in chunks:
                for used in earlier:
                    for other, at in used[chunk].items():
                        if clock[columns[other]] < at:
                            first = _place(algorithm.blocks[other], at)
                            return (
                                f"{first} and tb {block.number} step {place[1]} use {chunk[1]}"
                                f"[{chunk[2]}] in any order: no flag or message orders them"
                            )
        for chunks, used in ((reads, read), (writes, wrote)):
            for chunk in chunks:
                used[chunk][place[0]] = place[1]
    return None


def _shared(algorithm: Algorithm) -> dict[Chunk, set[int]]:
    """Return the chunks that several thread blocks use and some step writes, and who uses them.

    What a single thread block does to a chunk is in program order.
    """
    first: dict[Chunk, int] = {}
    users: dict[Chunk, set[int]] = {}
    written: set[Chunk] = set()
    for own, block in enumerate(algorithm.blocks):
        writes = {part for step in block.steps for part in step.writes}
        for part in writes.union(*[step.reads for step in block.steps]):
            chunk = (block.gpu, *part)
            other = first.setdefault(chunk, own)
            if other != own:
                users.setdefault(chunk, {other}).add(own)
        written.update([(block.gpu, *part) for part in writes])
    return {chunk: blocks for chunk, blocks in users.items() if chunk in written}


def _ordered(algorithm: Algorithm, columns: dict[int, int]) -> Iterator[tuple[Place, np.ndarray]]:
    """Yield every step after those before it, with the last step of thread blocks before it."""
    import numpy as np

    clocks: dict[Place, np.ndarray] = {}
    needs: dict[Place, list[Place]] = defaultdict(list)
    for ends in connections(algorithm).values():
        for sent, taken in zip(ends.sends, ends.receives, strict=False):
            needs[taken].append(sent)
    for waiter, teller in tellers(algorithm).items():
        if teller is not None:
            needs[waiter].append(teller)
    then: dict[Place, list[Place]] = defaultdict(list)
    missing: dict[Place, int] = {}
    for number, block in enumerate(algorithm.blocks):
        for at in range(len(block.steps)):
            place = number, at
            if at:
                needs[place].append((number, at - 1))
            missing[place] = len(needs[place])
            for before in needs[place]:
                then[before].append(place)
    ready = deque(place for place, count in missing.items() if not count)
    while ready:
        place = ready.popleft()
        clock = np.full(len(columns), -1, dtype=np.int32)
        for before in needs[place]:
            np.maximum(clock, clocks[before], out=clock)
        if place[0] in columns:
            clock[columns[place[0]]] = place[1]
        clocks[place] = clock
        yield place, clock
        for after in then[place]:
            missing[after] -= 1
            if not missing[after]:
                ready.append(after)


def _place(block: Block, at: int) -> str:
    return f"gpu {block.gpu} tb {block.number} step {at}"
