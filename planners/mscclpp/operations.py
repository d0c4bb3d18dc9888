"""The operations of a thread block to events, pipelines unrolled."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from msgspec import Struct

from ..common.reading import At, keys_of
from .gpus import PAIRED
from .joins import SYNCS, Chunks, Joins
from .model import Block, Counter, Event, Span

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .gpus import Gpu

_SIGNALS = frozenset({"signal", "rlxsignal", "pws", "pwsf"})
_WAITS = frozenset({"wait", "rlxwait"})
_PACKET_READS = {"upkt": 0, "rppkt": 0, "gstorepkt": 0, "repkt": 1, "respkt": 1, "recpkt": 1,
                 "recspkt": 1}  # fmt: skip
"""Operations that wait for packets, and the first source that consists of packets."""
_PACKET_WRITES = {"ppkt": 0, "rppkt": 0, "cpkt": 0, "gstorepkt": 0, "respkt": 1, "recpkt": 1,
                  "recspkt": 1}  # fmt: skip
"""Operations that write packets, and the first destination that gets some."""
_MOVES = frozenset({
    "copy", "put", "pws", "pwsf", "get", "re", "res", "rre", "rres", "glre", "glres", "gstore",
    *_PACKET_READS, *_PACKET_WRITES,
})  # fmt: skip
_KNOWN = _MOVES | _SIGNALS | _WAITS | SYNCS | {"flush", "pipeline", "sem_acquire", "sem_release"}
_FIELDS = (
    "name", "channel_ids", "channel_type", "src_buff", "dst_buff", "tbg_info", "reduce_op",
    "barrier_id", "num_threadblocks", "semaphore_ids", "iter_context", "ops", "buffer_type",
    "buffer_offset", "dst_chunk", "size",
)  # fmt: skip
MAX_EVENTS = 1 << 20
MAX_CHUNKS = 1 << 31


class _Deed(Struct, frozen=True):
    """An operation, and what it does to the gpu's own buffers.

    Attributes:
        event: The operation.
        port: Whether it is one of a port channel.
        reads: Stretches that it reads without waiting for packets.
        writes: Those that it writes, without packets.
    """

    event: Event
    port: bool
    reads: list[Chunks]
    writes: list[Chunks]


class BlockReader:
    """Reads one thread block.

    Attributes:
        number: Its id.
        iterations: Most iterations of its pipelines.
        looped_packets: Whether one of them moves packets more than once.
        joins: What its threads do between two nops.
        missing: Where a join is missing.
        deeds: What operations do that were read before, as they are written.
    """

    def __init__(self, gpu: Gpu, gpus: list[Gpu], at: At, chunk_bytes: Callable[[], int]) -> None:
        found = at.fields("id", "ops", "channels", "remote_buffer_refs")
        for name in ("id", "ops"):
            if name not in found:
                at.fail(f"{name!r} is missing")
        self.gpu = gpu
        self.gpus = gpus
        self.chunk_bytes = chunk_bytes
        self.number = found["id"].integer(0, 1 << 16)
        self.operations = found["ops"]
        self.channels: dict[str, list[int]] = {"memory": [], "port": [], "switch": []}
        self.buffers: dict[str, list[int]] = {"memory": [], "port": [], "switch": []}
        if "channels" in found:
            self._lists(found["channels"], "channel_type", "channel_ids", self.channels)
        if "remote_buffer_refs" in found:
            at = found["remote_buffer_refs"]
            self._lists(at, "access_channel_type", "remote_buffer_ids", self.buffers)
        self.iterations = 0
        self.looped_packets = False
        self.joins = Joins()
        self.missing: list[str] = []
        self.deeds: dict[bytes | None, _Deed] = {}
        self.events: list[Event] = []
        self.steps: list[int | tuple[int, int, int]] = []

    def _lists(self, at: At, kind: str, ids: str, into: dict[str, list[int]]) -> None:
        for element in at.each():
            found = element.fields(kind, ids, "buff", "buffer_type")
            if not {kind, ids} <= found.keys() or found[kind].text(20) not in into:
                element.fail(f"{kind!r} and {ids!r} are needed")
            into[found[kind].value] += found[ids].integers(0, 1 << 20)

    def read(self) -> Block:
        """Return the thread block.

        Raises:
            PlanError: An operation is malformed.
        """
        self._list(self.operations)
        return Block(tuple(self.events), self.operations.path, tuple(self.steps))

    def _list(self, operations: At, outer: tuple[int, int] | None = None) -> None:
        """Read a list of operations: that of the block, or one iteration of a pipeline of it.

        Args:
            operations: The list.
            outer: The place of the pipeline, and the iteration.
        """
        file, deeds, events, steps = operations.file, self.deeds, self.events, self.steps
        is_late = self.joins.is_late
        values = operations.values()
        for step, key in enumerate(keys_of(operations)):
            deed = deeds.get(key)
            if deed is None:
                at = At(values[step], step, file, operations)
                deed = self._operation(at, nested=outer is not None)
                if deed is None:
                    self._pipeline(at, step)
                    continue
                if key is not None:
                    deeds[key] = deed
            event = deed.event
            if is_late(event, port=deed.port, reads=deed.reads, writes=deed.writes):
                where = f"gpu {self.gpu.number} tb {self.number} {event.name}"
                self.missing.append(f"{where} ({operations.path}[{step}])")
            events.append(event)
            steps.append(step if outer is None else (outer[0], step, outer[1]))
            if len(events) > MAX_EVENTS:
                at = At(values[step], step, file, operations)
                at.fail(f"more than {MAX_EVENTS} operations", hint="choose a smaller chunk_bytes")

    def _operation(self, at: At, *, nested: bool) -> _Deed | None:
        """Return what an operation does; None for a pipeline."""
        found = at.fields(*_FIELDS)
        name = found["name"].text(40) if "name" in found else ""
        if name not in _KNOWN:
            at.fail(f"unknown operation {name!r}", hint=f"known: {', '.join(sorted(_KNOWN))}")
        if name == "pipeline":
            if nested:
                at.fail("a pipeline inside a pipeline")
            return None
        return _Deed(
            self._event(name, at, found),
            port="channel_type" in found and found["channel_type"].value == "port",
            reads=self._local(found, "src_buff", _PACKET_READS.get(name)),
            writes=self._local(found, "dst_buff", _PACKET_WRITES.get(name)),
        )

    def _pipeline(self, at: At, step: int) -> None:
        found = at.fields(*_FIELDS)
        if not {"iter_context", "ops"} <= found.keys():
            at.fail("a pipeline needs 'iter_context' and 'ops'")
        context = found["iter_context"].fields("unit_size", "num_chunks")
        if len(context) != 2:
            found["iter_context"].fail("'unit_size' and 'num_chunks' are needed")
        unit = context["unit_size"].integer(1, 1 << 61)
        chunks = context["num_chunks"].integer(1, MAX_CHUNKS)
        times = -(-chunks * self.chunk_bytes() // unit)
        body = found["ops"]
        if times * max(len(body.values()), 1) > MAX_EVENTS:
            at.fail(f"a pipeline of {times} iterations", hint="choose a smaller chunk_bytes")
        before = len(self.events)
        for iteration in range(times):
            self._list(body, (step, iteration))
            self.looped_packets |= times > 1 and any(
                event.reads or event.writes for event in self.events[before:]
            )
            before = len(self.events)
        self.iterations = max(self.iterations, times)

    def _event(self, name: str, at: At, found: dict[str, At]) -> Event:
        moves = name in _MOVES
        if name in _SIGNALS or name in _WAITS:
            counters = tuple(self._channel_counters(at, found, incoming=name in _WAITS))
            return _counting(name, counters, moves=moves, incoming=name in _WAITS)
        if name in {"sem_acquire", "sem_release"}:
            counters = tuple(self._semaphores(at, found))
            return _counting(name, counters, moves=moves, incoming=name == "sem_acquire")
        if name == "barrier":
            if not {"barrier_id", "num_threadblocks"} <= found.keys():
                at.fail("a barrier needs 'barrier_id' and 'num_threadblocks'")
            number = found["barrier_id"].integer(0, 1 << 16)
            wanted = found["num_threadblocks"].integer(1, 1 << 16)
            return Event(name, moves=moves, barrier=(number, wanted))
        reads = tuple(self._packets(at, found, "src_buff", _PACKET_READS.get(name)))
        writes = tuple(self._packets(at, found, "dst_buff", _PACKET_WRITES.get(name)))
        return Event(name, moves=moves, reads=reads, writes=writes)

    def _channel_counters(
        self, at: At, found: dict[str, At], *, incoming: bool
    ) -> Iterator[Counter]:
        if not {"channel_ids", "channel_type"} <= found.keys():
            at.fail("'channel_ids' and 'channel_type' are needed")
        kind = found["channel_type"].text(20)
        if kind not in PAIRED:
            found["channel_type"].fail(f"expected one of {', '.join(PAIRED)}")
        for one in found["channel_ids"].each():
            own = self.channels[kind]
            local = one.integer(0, 1 << 20)
            if local >= len(own) or own[local] >= len(self.gpu.peers[kind]):
                one.fail(f"there is no such {kind} channel", hint="see 'channels'")
            peer, number = self.gpu.end(kind, own[local])
            ends = (peer, self.gpu.number) if incoming else (self.gpu.number, peer)
            yield Counter(kind, *ends, number)

    def _semaphores(self, at: At, found: dict[str, At]) -> Iterator[Counter]:
        if "semaphore_ids" not in found:
            at.fail("'semaphore_ids' is missing")
        for one in found["semaphore_ids"].each():
            number = one.integer(0, 1 << 20)
            if number >= len(self.gpu.semaphores):
                one.fail("the gpu has no such semaphore", hint="see 'semaphores'")
            initial = self.gpu.semaphores[number]
            yield Counter("semaphore", self.gpu.number, self.gpu.number, number, initial)

    def _packets(
        self, at: At, found: dict[str, At], name: str, first: int | None
    ) -> Iterator[Span]:
        if first is None:
            return
        if name not in found:
            at.fail(f"{name!r} is missing")
        kind = found["channel_type"].text(20) if "channel_type" in found else ""
        part, parts = self._part(found)
        for one in list(found[name].each())[first:]:
            fields = one.fields("type", "buffer_id", "switch_channel_id", "index", "size", "rank")
            if not {"index", "size"} <= fields.keys():
                one.fail("'index' and 'size' are needed")
            low, size = (fields[key].integer(0, MAX_CHUNKS) for key in ("index", "size"))
            for gpu in self._gpus(one, fields, kind):
                start = low + Fraction(size * part, parts)
                yield Span(gpu, start, start + Fraction(size, parts))

    def _local(self, found: dict[str, At], name: str, packets: int | None) -> list[Chunks]:
        """Return the stretches of the gpu's own buffers that an operation names, but no packets.

        Their places were checked before, or nobody needs them: what is malformed is left out.
        """
        value = found[name].value if name in found else None
        refs = value[:packets] if isinstance(value, list) else []
        return [
            (ref["type"], ref["index"], ref["index"] + ref["size"])
            for ref in refs
            if isinstance(ref, dict)
            and isinstance(ref.get("type"), str)
            and type(ref.get("index")) is int
            and type(ref.get("size")) is int
        ]

    def _part(self, found: dict[str, At]) -> tuple[int, int]:
        """Return which part of an operation this thread block does: its group shares the data."""
        if "tbg_info" not in found:
            return 0, 1
        info = found["tbg_info"].fields("tb_id", "tbg_size")
        if len(info) != 2:
            found["tbg_info"].fail("'tb_id' and 'tbg_size' are needed")
        parts = info["tbg_size"].integer(1, 1 << 16)
        return info["tb_id"].integer(0, parts - 1), parts

    def _gpus(self, one: At, fields: dict[str, At], kind: str) -> tuple[int, ...]:
        """Return the gpus whose scratch buffer a reference means; none if it is no scratch."""
        if "buffer_id" in fields:
            own = self.buffers.get(kind, [])
            number = fields["buffer_id"].integer(0, 1 << 20)
            if number >= len(own) or own[number] >= len(self.gpu.remotes):
                one.fail("there is no such remote buffer", hint="see 'remote_buffer_refs'")
            gpu, buffer = self.gpu.remotes[own[number]]
            return (gpu,) if buffer == "s" else ()
        if "switch_channel_id" in fields:
            own = self.channels["switch"]
            number = fields["switch_channel_id"].integer(0, 1 << 20)
            if number >= len(own) or own[number] >= len(self.gpu.switches):
                one.fail("there is no such switch channel", hint="see 'channels'")
            return self.gpu.switches[own[number]]
        if "type" not in fields:
            one.fail("a buffer has a 'type', a 'buffer_id' or a 'switch_channel_id'")
        return (self.gpu.number,) if fields["type"].text(10) == "s" else ()


def _counting(name: str, counters: tuple[Counter, ...], *, moves: bool, incoming: bool) -> Event:
    if incoming:
        return Event(name, moves=moves, waits=counters)
    return Event(name, moves=moves, signals=counters)
