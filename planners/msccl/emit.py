"""Algorithms to plans: a rank is a thread block, a flag is a message, slots are waits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .model import LOCAL, RECEIVES, SENDS

if TYPE_CHECKING:
    from planguard.plan.builder import PlanBuilder
    from planguard.plan.plan import Plan
    from planguard.plan.program import ProgramBuilder

    from .model import Algorithm, Block, Step
    from .options import MscclOptions

Connection = tuple[int, int, int]
"""Sending gpu, receiving gpu, channel."""


class Layout:
    """Which rank is which thread block.

    Connections with only one end get an empty rank for the other one, in front of which the first
    waits for ever, as the thread block does.

    Attributes:
        ranks: ``(gpu, thread block)`` to rank.
        senders: Connection to the rank that sends on it.
        receivers: Connection to the rank that receives on it.
        absent: What the ranks without a thread block stand for.
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
        for connection in self.senders.keys() - self.receivers.keys():
            self._add(connection, "receiver", self.receivers, connection[1])
        for connection in self.receivers.keys() - self.senders.keys():
            self._add(connection, "sender", self.senders, connection[0])

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
    told = _flags(algorithm)
    for rank, block in enumerate(algorithm.blocks):
        flags = told.get((block.gpu, block.number), {})
        _Program(algorithm, block, layout, options, flags).write(plan.program(rank))
    for rank in layout.absent:
        plan.program(rank)
    _ledger(plan, algorithm, layout, options)
    return plan.build()


def _flags(algorithm: Algorithm) -> dict[tuple[int, int], dict[int, list[tuple[int, int]]]]:
    """Return, per thread block and step, the steps ``(block, step)`` that it lets go on.

    A flag counts steps, so a later step with a flag stands for an earlier one without; where none
    follows, nobody is told.
    """
    told: dict[tuple[int, int], dict[int, list[tuple[int, int]]]] = {}
    flagged = {
        (block.gpu, block.number): [at for at, step in enumerate(block.steps) if step.flags]
        for block in algorithm.blocks
    }
    for block in algorithm.blocks:
        for at, step in enumerate(block.steps):
            if step.waits is None or step.waits[0] == block.number:
                continue
            other, number = step.waits
            teller = next((s for s in flagged[block.gpu, other] if s >= number), None)
            if teller is not None:
                by_step = told.setdefault((block.gpu, other), {})
                by_step.setdefault(teller, []).append((block.number, at))
    return told


class _Program:
    """Writes the program of one thread block."""

    def __init__(
        self,
        algorithm: Algorithm,
        block: Block,
        layout: Layout,
        options: MscclOptions,
        told: dict[int, list[tuple[int, int]]],
    ) -> None:
        self.file = algorithm.file
        self.block = block
        self.layout = layout
        self.options = options
        self.told = told
        self.sends = sum(step.kind in SENDS for step in block.steps)
        self.sent = 0

    def write(self, program: ProgramBuilder) -> None:
        for at, step in enumerate(self.block.steps):
            src = (self.file, step.line, f"gpu {self.block.gpu} tb {self.block.number} step {at}")
            self._wait(program, at, step, src)
            if step.kind in LOCAL:
                program.compute(step.kind, src=src)
            else:
                self._transfer(program, step, src)
            for block, number in self.told.get(at, ()):
                self._tell(program, at, block, number, src)

    def _wait(
        self, program: ProgramBuilder, at: int, step: Step, src: tuple[str, int, str]
    ) -> None:
        if step.waits is None or step.waits[0] == self.block.number:
            return
        teller = self.layout.ranks[self.block.gpu, step.waits[0]]
        label = self._flag_label(step.waits[0], self.block.number, at)
        program.recv(teller, tag=at, bytes=1, label=label, src=src, phase="flag")

    def _tell(
        self, program: ProgramBuilder, at: int, block: int, number: int, src: tuple[str, int, str]
    ) -> None:
        waiter = self.layout.ranks[self.block.gpu, block]
        label = self._flag_label(self.block.number, block, number)
        program.isend(waiter, tag=number, bytes=1, label=label, src=src, phase="flag")

    def _flag_label(self, teller: int, waiter: int, number: int) -> str:
        return f"gpu{self.block.gpu} tb{teller} lets tb{waiter} step {number} go"

    def _transfer(self, program: ProgramBuilder, step: Step, src: tuple[str, int, str]) -> None:
        """Write a transfer: first the room to send, then what comes in, then what goes out.

        Waiting for room first keeps the slot of the incoming step taken until the outgoing one has
        its own, as in the kernel, which frees the one after it has written the other.
        """
        block, slots = self.block, self.options.slots
        size = step.count * self.options.chunk_bytes
        if step.kind in SENDS and slots is not None and self.sent >= slots:
            program.wait(f"s{self.sent - slots}", src=src)
        if step.kind in RECEIVES:
            peer = self.layout.senders[block.recv, block.gpu, block.channel]
            label = f"gpu {block.gpu} {step.target}"
            program.recv(peer, tag=max(block.channel, 0), bytes=size, label=label, src=src)
        if step.kind in SENDS:
            peer = self.layout.receivers[block.gpu, block.send, block.channel]
            fields = {"tag": max(block.channel, 0), "bytes": size, "src": src}
            # What a fused step passes on may go elsewhere than where its own copy went.
            goes_to = f"gpu {block.send} {step.target}" if step.kind == "s" else None
            if slots is None:
                program.send(peer, label=goes_to, **fields)
            else:
                work = f"s{self.sent}" if self.sent + slots < self.sends else None
                program.isend(peer, work=work, label=goes_to, **fields)
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
        ("one-iteration", "one iteration stands for any number of them"),
    ]
    if options.slots is not None:
        notes.append(("slots", f"{options.slots} steps may be on their way on a connection"))
    if options.chunk_bytes == 1:
        notes.append(("chunks", "sizes are in chunks: a byte stands for a chunk"))
    fused = sum(step.kind in SENDS - {"s"} for block in algorithm.blocks for step in block.steps)
    if fused:
        notes.append(("fused", f"{fused} fused steps do not say where the receiver puts the chunk"))
    notes += [("absent", f"rank {rank}: {what}") for rank, what in sorted(layout.absent.items())]
    for kind, message in notes:
        plan.approximate(kind, message, scope="plan")
