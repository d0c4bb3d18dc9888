"""Execution plans to plans: a rank is a thread block, and what it is told is a message."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from .matching import match

if TYPE_CHECKING:
    from collections.abc import Iterator

    from planguard.plan.building.builder import PlanBuilder
    from planguard.plan.plan import Plan

    from .matching import Message, Messages
    from .model import Block, BlockId, Program
    from .options import MscclppOptions

Source = tuple[str, int, str]


class _Emitter:
    def __init__(self, program: Program, plan: PlanBuilder, messages: Messages) -> None:
        self.program = program
        self.plan = plan
        self.messages = messages
        self.ranks = {block: rank for rank, block in enumerate(program.blocks)}
        self.nobody = len(self.ranks)
        self.groups: dict[tuple[int, int], str] = {}

    def barriers(self) -> None:
        """Declare a group for every barrier; one that wants more thread blocks gets nobody too."""
        members: dict[tuple[int, int], list[int]] = defaultdict(list)
        wanted: dict[tuple[int, int], set[int]] = defaultdict(set)
        for block, found in self.program.blocks.items():
            for event in found.different:
                if event.barrier is not None:
                    key = block[0], event.barrier[0]
                    if self.ranks[block] not in members[key]:
                        members[key].append(self.ranks[block])
                    wanted[key].add(event.barrier[1])
        for key, ranks in members.items():
            name = f"gpu{key[0]}.barrier{key[1]}"
            if max(wanted[key]) > len(ranks):
                ranks.append(self.nobody)
            elif wanted[key] != {len(ranks)}:
                message = f"{name} lets thread blocks go before all that use it are there"
                self.messages.doubts.setdefault("small-barrier", message)
            if len(ranks) > 1:
                self.groups[key] = self.plan.group(name, ranks)

    def rows(self, block: BlockId, found: Block) -> Iterator[dict[str, Any]]:
        """Yield the actions of a thread block, as a plan file has them."""
        incoming, outgoing = self.messages.incoming, self.messages.outgoing
        quiet = [event for event in found.different if event.is_alone]
        alone = {id(event) for event in quiet}
        silent = {id(one) for one in quiet if not one.moves and one.barrier is None}
        file, own = self.program.file, f"gpu {block[0]} tb {block[1]} "
        for at, event in enumerate(found.events):
            if id(event) in silent:
                continue
            src = (file, at + 1, f"{own}{event.name}, {found.place(at)}")
            is_alone = id(event) in alone
            for message in () if is_alone else incoming.get((block, at), ()):
                yield self._row("recv", message, src)
            if event.barrier is not None and (block[0], event.barrier[0]) in self.groups:
                group = self.groups[block[0], event.barrier[0]]
                yield {"op": "barrier", "group": group, "src": src}
            if event.moves:
                yield {"op": "compute", "op_name": event.name, "src": src}
            for message in () if is_alone else outgoing.get((block, at), ()):
                yield self._row("isend", message, src)

    def _row(self, op: str, message: Message, src: Source) -> dict[str, Any]:
        peer = self.ranks[message.other] if message.other is not None else self.nobody
        tag, label = message.tag, message.label
        return {"op": op, "peer": peer, "tag": tag, "bytes": 1, "label": label, "src": src}


def emit(program: Program, options: MscclppOptions, builder: type[PlanBuilder]) -> Plan:
    """Build the plan of an execution plan.

    Raises:
        PlanError: The plan exceeds a limit of the plan format.
    """
    messages = match(program)
    plan = builder(
        len(program.blocks) + 1,
        name=options.name or program.name,
        model=options.model or "gloo",
        producer="mscclpp",
    )
    emitter = _Emitter(program, plan, messages)
    emitter.barriers()
    for block, rank in emitter.ranks.items():
        plan.program(rank).extend(emitter.rows(block, program.blocks[block]))
    plan.program(emitter.nobody)
    of_gpu: dict[int, list[int]] = defaultdict(list)
    for block, rank in emitter.ranks.items():
        of_gpu[block[0]].append(rank)
    for gpu, ranks in of_gpu.items():
        plan.group(f"gpu{gpu}", ranks)
    _ledger(plan, program, emitter, of_gpu)
    return plan.build()


def _ledger(
    plan: PlanBuilder, program: Program, emitter: _Emitter, of_gpu: dict[int, list[int]]
) -> None:
    gpus = ", ".join(f"gpu {gpu} is ranks {r[0]}-{r[-1]}" for gpu, r in list(of_gpu.items())[:8])
    more = ", ..." if len(of_gpu) > 8 else ""
    message = f"a rank is a thread block: {gpus}{more}; rank {emitter.nobody} is nobody"
    plan.approximate("thread-blocks", message, scope="plan")
    if program.pipelines:
        message = f"pipelines go around {program.pipelines} times at most, as chunk_bytes says"
        plan.approximate("pipelines", message, scope="plan")
    doubts = dict(emitter.messages.doubts)
    if program.unsynchronized:
        first = program.unsynchronized[0]
        others = len(program.unsynchronized) - 1
        message = (
            f"{first} may start before other threads of its thread block have done what is before"
        )
        doubts["unsynchronized"] = message + (f"; so may {others} more" if others else "")
    if not {"unbalanced", "overwritten-packets"} & doubts.keys():
        plan.approximate("one-launch", "one launch stands for any number of them", scope="plan")
    if program.looped_packets:
        message = "a pipeline moves packets more than once: which of them is told apart by nothing"
        doubts["looped-packets"] = message
    for kind, message in doubts.items():
        plan.approximate(kind, message, direction="under", scope="plan")
        if kind not in {"unbalanced", "overwritten-packets"}:
            # The order that the plan takes may be none of those that exist, so it proves nothing.
            plan.approximate(kind, message, direction="over", scope="plan")
