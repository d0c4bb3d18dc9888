"""Instruction lists of hosts to the steps of each device.

A host issues what its devices do, one instruction after the other. A SEND is one message for each
pair of devices and slice of its task, a RECV the other ends of it, a RUN the collectives inside the
stage.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from msgspec.structs import replace

from ..xla.emit import group_name
from ..xla.steps import (
    Choice,
    Collective,
    Loop,
    Message,
    Origin,
    Part,
    Plain,
    Step,
    Trace,
    Wait,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .model import Dump, Gather, Host, Instruction, Task
    from .options import AlpaOptions
    from .stages import StageSteps

_Piece = tuple[tuple[int, ...], Part, str]
"""Ranks of a message or broadcast, what moves, and what tells it from others of its task."""
_UTILITIES = ("allocate zero", "concat")


class HostExpander:
    """Expands the instructions of one host for all of its devices."""

    def __init__(self, dump: Dump, host: Host, stages: StageSteps, options: AlpaOptions) -> None:
        self._dump = dump
        self._host = host
        self._stages = stages
        self._options = options
        self._lazy = (options.communicators or ("lazy" if dump.lazy else "eager")) == "lazy"
        self._async = (options.p2p or ("async" if dump.overlapping else "blocking")) == "async"
        self._rounds: Counter[tuple[str, str]] = Counter()
        self._live = set(dump.inputs[host.worker]) if self._tracks() else None  # type: ignore[index]
        self._pending: dict[int, dict[int, list[str]]] = defaultdict(lambda: defaultdict(list))
        self._created: set[tuple[int, ...]] = set()
        self._sent: dict[int, list[str]] = defaultdict(list)
        self.waits: dict[str, tuple[int, ...]] = {}
        self.bare: dict[str, None] = {}
        self.traces = {device: Trace() for device in host.devices}
        self._of_task: dict[tuple[str, str], list[_Piece]] = {}

    def _tracks(self) -> bool:
        return self._dump.inputs is not None and self._host.worker in self._dump.inputs

    def run(self) -> dict[int, Trace]:
        """Expand all instructions, up to one that uses a buffer that is not there."""
        tasks = self._dump.tasks
        for instruction in self._dump.programs[self._host.worker]:
            missing = self._missing(instruction)
            if missing is not None:
                self._stop(instruction, missing)
                break
            if instruction.op == "RUN":
                self._run(instruction)
            elif instruction.op != "FREE":
                self._reshard(instruction, tasks[instruction.task])
        else:
            self._drain()
        return self.traces

    def _drain(self) -> None:
        """Wait for what was sent: the streams are empty when the worker is done."""
        origin = Origin(0, "end", "", len(self._dump.programs[self._host.worker]))
        for rank, handles in self._sent.items():
            self.traces[rank].steps += [Wait(origin, handle) for handle in handles]

    def _missing(self, instruction: Instruction) -> int | None:
        """Return a buffer that an instruction uses and nothing made, and keep track of buffers."""
        if self._live is None:
            return None
        live, inputs, missing = self._live, instruction.inputs, None
        if instruction.op == "FREE":
            live.difference_update(inputs)
        elif not live.issuperset(inputs):
            missing = next(uuid for uuid in inputs if uuid not in live)
        live.update(instruction.outputs)
        return missing

    def _stop(self, instruction: Instruction, uuid: int) -> None:
        message = (
            f"{self._host.worker} uses buffer {uuid} at {instruction.place}, which is not there"
        )
        for trace in self.traces.values():
            trace.doubt("missing-buffer", f"{message}: the worker ends with an error", "exact")
            trace.steps.append(Plain(self._origin(instruction, instruction.op), "exit"))

    def _origin(self, instruction: Instruction, name: str) -> Origin:
        return Origin(0, name, "", instruction.number, self._host.worker)

    # --- resharding --------------------------------------------------------------------------

    def _reshard(self, instruction: Instruction, task: Task) -> None:
        count = self._rounds[instruction.op, task.name]
        self._rounds[instruction.op, task.name] += 1
        if instruction.op == "SEND":
            self._settle(instruction, instruction.inputs)
        text = f"task {task.name} #{count}"
        write = self._broadcast if instruction.op == "BROADCAST" else self._message
        for ranks, part, named in self._pieces(instruction.op, task):
            write(instruction, ranks, part, text + named)
        if instruction.op == "RECV" and instruction.gathers:
            self._settle(instruction, instruction.outputs)
            self._gather(instruction, task, f"gather of task {task.name} #{count}")

    def _pieces(self, op: str, task: Task) -> list[_Piece]:
        """Return the pieces of a task that devices of this host take part in."""
        found = self._of_task.get((op, task.name))
        if found is None:
            found = self._of_task[op, task.name] = []
            seen: Counter[tuple[int, ...]] = Counter()
            for piece in task.received if op == "RECV" else task.sent:
                own = piece.ranks if op == "BROADCAST" else (piece.ranks[op == "RECV"],)
                if not self.traces.keys().isdisjoint(own):
                    part = Part(None if self._dump.signals else piece.bytes, task.dtype)
                    named = f" {'>'.join(map(str, piece.ranks))}.{seen[piece.ranks]}"
                    found.append((piece.ranks, part, named))
                seen[piece.ranks] += 1
        return found

    def _message(
        self, instruction: Instruction, ranks: tuple[int, ...], part: Part, text: str
    ) -> None:
        sends = instruction.op == "SEND"
        own, peer = ranks if sends else ranks[::-1]
        pair = (own, peer) if own < peer else (peer, own)
        if self._lazy:
            self._create(instruction, ("sendrecv", pair), [own])
        origin = Origin(0, text, "", instruction.number, self._host.worker)
        step = Message(origin, pair, "", part, peer, sends, text, not self._async)
        self.traces[own].steps.append(step)
        if not self._async:
            return
        if sends:
            self._sent[own].append(text)
        else:
            for uuid in instruction.outputs:
                self._pending[own][uuid].append(text)

    def _broadcast(
        self, instruction: Instruction, ranks: tuple[int, ...], part: Part, text: str
    ) -> None:
        own = [rank for rank in ranks if rank in self.traces]
        if not own or len(ranks) == 1:
            return
        self._create(instruction, ("", ranks), own)
        origin, handle = self._origin(instruction, text), text if self._async else None
        step = Collective("broadcast", origin, ranks, (part,), root=ranks[0], handle=handle)
        for rank in own:
            self.traces[rank].steps.append(step)
            if self._async and rank != ranks[0]:
                for uuid in instruction.outputs:
                    self._pending[rank][uuid].append(text)
            elif self._async:
                self._sent[rank].append(text)

    def _gather(self, instruction: Instruction, task: Task, text: str) -> None:
        gather: Gather | None = task.gather
        if gather is None:
            for trace in self.traces.values():
                message = f"task {task.name} ends in a gather that the dump does not describe"
                trace.doubt("unknown-gather", message)
            return
        for group in gather.groups:
            for rank in group:
                if rank in self.traces and len(group) > 1:
                    part = Part(gather.bytes, task.dtype)
                    origin = self._origin(instruction, text)
                    step = Collective("all_gather_into_tensor", origin, group, (part,))
                    self.traces[rank].steps.append(step)

    def _create(
        self, instruction: Instruction, key: tuple[str, tuple[int, ...]], own: Sequence[int]
    ) -> None:
        """Create a communicator at its first use; the host waits, and with it all its devices."""
        if not self._lazy or key[1] in self._created:
            return
        self._created.add(key[1])
        origin = self._origin(instruction, f"communicator of {list(key[1])}")
        for rank in own:
            group = ("group", group_name(key))
            self.traces[rank].steps.append(Plain(origin, "init", (group,)))
        if len(self._host.devices) > 1:
            name = f"{self._host.worker}#{len(self._created)}"
            self.waits[name] = self._host.devices
            for trace in self.traces.values():
                trace.steps.append(Plain(origin, "init", (("group", name),)))

    def _settle(self, instruction: Instruction, uuids: Sequence[int]) -> None:
        """Wait for the messages that bring buffers."""
        if not self._pending:
            return
        for rank, trace in self.traces.items():
            for uuid in uuids:
                for handle in self._pending[rank].pop(uuid, []):
                    trace.steps.append(Wait(self._origin(instruction, handle), handle))

    # --- stages ------------------------------------------------------------------------------

    def _run(self, instruction: Instruction) -> None:
        self._settle(instruction, instruction.inputs)
        count = self._rounds["RUN", instruction.task]
        self._rounds["RUN", instruction.task] += 1
        known = self._dump.stages
        stage = (known or {}).get(instruction.task)
        shown = instruction.info or f"task {instruction.task}"
        origin = self._origin(instruction, f"{shown} #{count}")
        has_text = stage is not None and bool(stage.hlo)
        if self.traces and not has_text and not self._is_utility(instruction):
            self.bare[shown] = None
        done = Plain(origin, "compute", (("op_name", shown),))
        made: dict[int, list[Step]] = {}
        for rank, trace in self.traces.items():
            if stage is not None and has_text:
                inside = self._stages.of(instruction.task, stage, self._host, rank)
                if inside.doubts:
                    trace.doubts |= inside.doubts
                if id(inside) not in made:
                    skipped = stage.sync_channels if instruction.skips_sync else frozenset()
                    made[id(inside)] = _embedded(inside.steps, origin, skipped)
                trace.steps += made[id(inside)]
            trace.steps.append(done)

    def _is_utility(self, instruction: Instruction) -> bool:
        """Tell whether a RUN cannot communicate: one device, an allocation, a concatenation."""
        if len(self._dump.meshes[self._host.mesh]) == 1:
            return True
        listed = self._dump.stages is not None and instruction.task not in self._dump.stages
        return listed or instruction.info.startswith(_UTILITIES)


def _embedded(steps: Sequence[Step], outer: Origin, skipped: frozenset[str]) -> list[Step]:
    """Return the steps of a stage as steps of a RUN: named after it, without skipped channels."""
    out: list[Step] = []
    for step in steps:
        if isinstance(step, Collective) and step.origin.channel in skipped:
            continue
        own = step.origin
        where = f"{own.place or f'line {own.line} of its text'}, {outer.place}"
        name = f"{outer.name}/{own.name}"
        origin = Origin(outer.program, name, own.round, outer.line, where)
        if isinstance(step, Loop):
            inner = tuple(_embedded(step.body, outer, skipped))
            out.append(replace(step, origin=origin, body=inner))
        elif isinstance(step, Choice):
            branches = tuple(tuple(_embedded(b, outer, skipped)) for b in step.branches)
            out.append(replace(step, origin=origin, branches=branches))
        elif isinstance(step, Plain) or step.handle is None:
            out.append(replace(step, origin=origin))
        else:
            out.append(replace(step, origin=origin, handle=f"{outer.name}/{step.handle}"))
    return out
