"""Algorithms to plans: a rank is a thread block, a flag is a message, slots are waits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .iteration import connections, races, tellers, unbalanced
from .model import LOCAL, RECEIVES, SENDS

if TYPE_CHECKING:
    from planguard.plan.building.builder import PlanBuilder
    from planguard.plan.plan import Plan

    from .iteration import Connection, Place
    from .model import Algorithm, Step
    from .options import MscclOptions


Row = dict[str, Any]
"""An action, its fields in the order in which a plan file has them."""
FLAG: Row = {"phase": "flag", "bytes": 1}


class Layout:
    """Which rank is which thread block.

    Connections with only one end get an empty rank for the other one, in front of which the first
    waits for ever, as the thread block does.

    Attributes:
        ranks: ``(gpu, thread block)`` to rank.
        senders: Connection to the rank that sends on it.
        receivers: Connection to the rank that receives on it.
        absent: What the ranks without a thread block stand for.
        tellers: Step that waits for a flag to the one that sets it, None if none does.
        ends: Connection to the steps at both ends of it.
        nobody: Rank in front of which a thread block waits that waits for itself; -1 if none does.
        world_size: Number of ranks.
        of_gpu: Ranks of every gpu.
    """

    def __init__(self, algorithm: Algorithm) -> None:
        self.ranks: dict[tuple[int, int], int] = {}
        self.senders: dict[Connection, int] = {}
        self.receivers: dict[Connection, int] = {}
        self.of_gpu: dict[int, list[int]] = {gpu: [] for gpu in range(algorithm.gpus)}
        for rank, block in enumerate(algorithm.blocks):
            self.ranks[block.gpu, block.number] = rank
            self.of_gpu[block.gpu].append(rank)
            if block.send >= 0:
                self.senders[block.gpu, block.send, block.channel] = rank
            if block.recv >= 0:
                self.receivers[block.recv, block.gpu, block.channel] = rank
        self.world_size = len(algorithm.blocks)
        self.absent: dict[int, str] = {}
        self.tellers = tellers(algorithm)
        self.ends = connections(algorithm)
        self.nobody = -1
        for connection in self.senders.keys() - self.receivers.keys():
            self._add(connection, "receiver", self.receivers, connection[1])
        for connection in self.receivers.keys() - self.senders.keys():
            self._add(connection, "sender", self.senders, connection[0])
        blocks = algorithm.blocks
        for own, at in (place for place, teller in self.tellers.items() if teller is None):
            waits = blocks[own].steps[at].waits
            if waits is not None and waits[0] == blocks[own].number:
                self.nobody = self.world_size
                self.of_gpu[blocks[own].gpu].append(self.nobody)
                self.absent[self.nobody] = "flags that a thread block waits for and never sets"
                self.world_size += 1
                break

    def _add(
        self, connection: Connection, role: str, ends: dict[Connection, int], gpu: int
    ) -> None:
        src, dst, channel = connection
        ends[connection] = self.world_size
        self.of_gpu[gpu].append(self.world_size)
        self.absent[self.world_size] = f"no {role} of gpu {src} -> {dst} on channel {channel}"
        self.world_size += 1


def emit(algorithm: Algorithm, options: MscclOptions, builder: type[PlanBuilder]) -> Plan:
    """Build the plan of one iteration of an algorithm.

    Raises:
        PlanError: The plan exceeds a limit of the plan format.
    """
    layout = Layout(algorithm)
    plan = builder(
        layout.world_size,
        name=options.name or algorithm.name,
        model=options.model or ("gloo" if options.slots else "mpi-eager"),
        producer="msccl",
    )
    for gpu, ranks in layout.of_gpu.items():
        if ranks:
            plan.group(f"gpu{gpu}", sorted(ranks))
    told = _told(layout)
    for rank in range(len(algorithm.blocks)):
        rows = _Program(algorithm, rank, layout, options, told.get(rank, {})).rows()
        plan.program(rank).extend(rows)
    for rank in layout.absent:
        plan.program(rank)
    _ledger(plan, algorithm, layout, options)
    return plan.build()


def _told(layout: Layout) -> dict[int, dict[int, list[Place]]]:
    """Return, per thread block and step, the steps of others that it lets go on."""
    told: dict[int, dict[int, list[Place]]] = {}
    for waiter, teller in layout.tellers.items():
        if teller is not None and teller[0] != waiter[0]:
            told.setdefault(teller[0], {}).setdefault(teller[1], []).append(waiter)
    return told


class _Program:
    """Writes the program of one thread block."""

    def __init__(
        self,
        algorithm: Algorithm,
        rank: int,
        layout: Layout,
        options: MscclOptions,
        told: dict[int, list[Place]],
    ) -> None:
        self.blocks = algorithm.blocks
        self.file = algorithm.file
        self.rank = rank
        self.block = block = algorithm.blocks[rank]
        self.layout = layout
        self.options = options
        self.told = told
        self.sends = sum([step.kind in SENDS for step in block.steps])
        self.sent = 0
        ends = layout.ends.get((block.gpu, block.send, block.channel))
        self.taken = len(ends.receives) if ends is not None else 0
        self.named = f"gpu {block.gpu} tb {block.number}"
        self.written: list[Row] = []
        self._add = self.written.append
        # The steps of a thread block take from one connection, and give to one.
        tag, here, there = max(block.channel, 0), layout.senders, layout.receivers
        source = here.get((block.recv, block.gpu, block.channel))
        target = there.get((block.gpu, block.send, block.channel))
        self.incoming: Row = {"peer": source, "tag": tag}
        self.outgoing: Row = {"peer": target, "tag": tag}

    def rows(self) -> list[Row]:
        """Return the actions, as a plan file has them."""
        told = self.told
        for at, step in enumerate(self.block.steps):
            src = self._src(at)
            if step.waits is not None:
                self._wait(at, step.waits[0], src)
            if step.kind in LOCAL:
                self._add({"op": "compute", "src": src, "op_name": step.kind})
            else:
                self._transfer(step, src)
            for waiter in told.get(at, ()) if told else ():
                self._tell(waiter, src)
        self._left_over()
        return self.written

    def _src(self, at: int, more: str = "") -> tuple[str, int, str]:
        return self.file, self.block.steps[at].line, f"{self.named} step {at}{more}"

    def _left_over(self) -> None:
        """Wait for the first send that no step of the iteration takes, if there is one.

        Each iteration leaves as many in the slots of the connection, so some iteration is stuck in
        it; in the one that the plan shows, it is the last thing that the thread block does.
        """
        slots = self.options.slots
        if self.sent <= self.taken or (slots is not None and self.taken + slots < self.sent):
            return  # none, or the thread block has waited for its slot before
        block = self.block
        at = [number for number, step in enumerate(block.steps) if step.kind in SENDS][self.taken]
        self._add({"op": "wait", "src": self._src(at, self._counts()), "work": f"s{self.taken}"})

    def _counts(self) -> str:
        block = self.block
        return (
            f": gpu {block.gpu} -> gpu {block.send} on channel {block.channel} has {self.sends} "
            f"sends and {self.taken} receives in an iteration"
        )

    def _wait(self, at: int, other: int, src: tuple[str, int, str]) -> None:
        teller = self.layout.tellers[self.rank, at]
        own = other == self.block.number
        if own and teller is not None:
            return
        rank = self.layout.nobody if own else self.layout.ranks[self.block.gpu, other]
        label = self._flag_label(other, self.block.number, at)
        self._add({"op": "recv", "src": src, "label": label, **FLAG, "peer": rank, "tag": at})

    def _tell(self, waiter: Place, src: tuple[str, int, str]) -> None:
        rank, at = waiter
        label = self._flag_label(self.block.number, self.blocks[rank].number, at)
        self._add({"op": "isend", "src": src, "label": label, **FLAG, "peer": rank, "tag": at})

    def _flag_label(self, teller: int, waiter: int, number: int) -> str:
        return f"gpu{self.block.gpu} tb{teller} lets tb{waiter} step {number} go"

    def _transfer(self, step: Step, src: tuple[str, int, str]) -> None:
        """Write a transfer: first the room to send, then what comes in, then what goes out.

        Waiting for room first keeps the slot of the incoming step taken until the outgoing one has
        its own, as in the kernel, which frees the one after it has written the other.
        """
        block, slots, kind = self.block, self.options.slots, step.kind
        size = step.count * self.options.chunk_bytes
        if kind in SENDS and slots is not None and self.sent >= slots:
            left_over = self.sent - slots >= self.taken
            room = (*src[:2], src[2] + self._counts()) if left_over else src
            self._add({"op": "wait", "src": room, "work": f"s{self.sent - slots}"})
        if kind in RECEIVES:
            label = f"gpu {block.gpu} {step.target}"
            self._add({"op": "recv", "src": src, "label": label, "bytes": size, **self.incoming})
        if kind in SENDS:
            # What a fused step passes on may go elsewhere than where its own copy went.
            row: Row = {"op": "isend", "src": src}
            if kind == "s":
                row["label"] = f"gpu {block.send} {step.target}"
            row |= {"bytes": size, **self.outgoing}
            if slots is None and self.sent < self.taken:
                row["op"] = "send"
            else:
                if self.sent == self.taken or (
                    slots is not None and self.sent + slots < self.sends
                ):
                    row["work"] = f"s{self.sent}"
                # What nobody takes is never over, whatever the model says of small messages.
                if self.sent >= self.taken:
                    row["mode"] = "synchronous"
            self._add(row)
            self.sent += 1


def _ledger(plan: PlanBuilder, algorithm: Algorithm, layout: Layout, options: MscclOptions) -> None:
    gpus = ", ".join(
        f"gpu {gpu} is ranks {ranks[0]}-{ranks[-1]}"
        for gpu, ranks in list(layout.of_gpu.items())[:8]
        if ranks
    )
    more = ", ..." if algorithm.gpus > 8 else ""
    notes = [
        ("thread-blocks", f"a rank is a thread block: {gpus}{more}"),
    ]
    left_over = unbalanced(algorithm, layout.ends)
    if left_over:
        more = f"; {len(left_over) - 1} more" if len(left_over) > 1 else ""
        notes.append(("unbalanced", f"{left_over[0]}{more}"))
    else:
        notes.append(("one-iteration", "one iteration stands for any number of them"))
    if options.slots is not None:
        notes.append(("slots", f"{options.slots} steps may be on their way on a connection"))
    if options.chunk_bytes == 1:
        notes.append(("chunks", "sizes are in chunks: a byte stands for a chunk"))
    passing = SENDS - {"s"}
    fused = sum([step.kind in passing for block in algorithm.blocks for step in block.steps])
    if fused:
        notes.append(("fused", f"{fused} fused steps do not say where the receiver puts the chunk"))
    notes += [("absent", f"rank {rank}: {what}") for rank, what in sorted(layout.absent.items())]
    for kind, message in notes:
        plan.approximate(kind, message, scope="plan")
    race = races(algorithm)
    if race is not None:
        plan.approximate("race", race, direction="under", scope="plan")
