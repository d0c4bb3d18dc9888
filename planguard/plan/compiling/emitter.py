"""Emitter: actions to instruction words, one method per kind of action.

Above 400 lines: every kind of action has its method here, and they share one state.
"""

from __future__ import annotations

from types import FunctionType
from typing import TYPE_CHECKING, Any, ClassVar

from msgspec import UNSET, Struct

from planguard.plan import nodes as n
from planguard.plan.actions import ASYNC, MEMBER, NONE, Kind, RefType, WaitMode
from planguard.plan.code import WORDS
from planguard.plan.compiling.names import ProgramNames
from planguard.plan.compiling.refs import Refs
from planguard.plan.compiling.signing import Signing
from planguard.plan.compiling.tables import Labels, Names, Pool
from planguard.plan.defects import Defect
from planguard.plan.limits import Limits
from planguard.plan.vocabulary import COALESCED_KIND, COLLECTIVE_KIND

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

SEND_KIND = {
    UNSET: Kind.SEND,
    "standard": Kind.SEND,
    "ready": Kind.SEND,
    "synchronous": Kind.SSEND,
    "buffered": Kind.BSEND,
}


class Tables(Struct, frozen=True):
    """The interning tables that all programs of a plan share."""

    refs: Refs
    signing: Signing
    labels: Labels
    streams: Names
    aux: Pool
    group_ids: dict[str, int]
    limits: Limits
    fused: frozenset[str]
    memo: dict[tuple[object, ...], tuple[int, int]]


# Numbers: an enum's member is looked up by its name each time, and this is asked of every action.
_WAIT, _WAIT_MANY, _COMPUTE = map(int, (Kind.WAIT, Kind.WAIT_MANY, Kind.COMPUTE))


class Emitter:
    """Emits one program; ``emit_program`` is the way in."""

    def __init__(self, tables: Tables, *, is_unrolled: bool) -> None:
        self.tables = tables
        self.words: list[int] = []
        self.nodes: list[Any] = []
        self.names = ProgramNames(tables.fused, is_unrolled=is_unrolled)
        self.times = 0
        self.in_batch = 0
        # Outside loops a label word is the label's id, which all programs share.
        self._labels = tables.labels.ids
        self._memo = tables.memo
        self._handles = self.names.handles
        self._streams: dict[str, int] = {}

    def block(self, actions: Sequence[n.Action]) -> None:
        """Emit a list of actions in order."""
        table = self.HANDLERS
        if self.names.is_unreferenced:
            self.names.define_all(actions)
            for node in actions:
                handler, kind = table[node.__class__]
                handler(self, node, kind)
            return
        for node in actions:
            handler, kind = table[node.__class__]
            if node.after is not UNSET:
                self._after(node)
            handler(self, node, kind)
            if node.id is not UNSET:
                self._bind(node)

    def _word(self, node: n.Node, op: int, a: int = 0, b: int = 0, *, sig: int = 0) -> None:
        text, on = node.label, node.stream
        label = 0 if text is UNSET else self._labels.get(text) or self._label(node, text)
        stream = 0 if on is UNSET else self._streams.get(on, -1)
        if stream < 0:
            stream = self._stream(node)
        self.words += (op, a, b, sig, label, stream)
        self.nodes.append(node)

    def _label(self, node: n.Node, text: str) -> int:
        labels = self.tables.labels
        word = labels.word(node, text, self.times) if self.times else labels.new(text)
        self._labels[text] = word
        return word

    def _stream(self, node: n.Node) -> int:
        name: str = node.stream  # type: ignore[assignment]
        stream = self.tables.streams.id(name)
        if stream > 255:
            hint = "name streams by role, not by iteration"
            message = "more than 256 streams in one plan"
            raise Defect(node, "stream", message, value=name, hint=hint)
        self._streams[name] = stream
        return stream

    def _bind(self, node: Any) -> None:
        slot = self.names.define(node, node.id)
        if slot is not None and not self.in_batch:
            self.words += (Kind.BIND, slot, 0, 0, 0, 0)
            self.nodes.append(node)

    # --- communication -----------------------------------------------------------------------
    #
    # Explicit plans hold one of these per action, so both look up one memo by the compared fields
    # and leave everything else to the slower path behind it.

    def _point_to_point(self, node: Any, kind: int) -> None:
        if kind in _SENDING and node.mode is not UNSET:
            kind = kind & ASYNC | SEND_KIND[node.mode]
        peer = node.peer
        if peer.__class__ is dict:  # with its types: a step that is true is none, and equals 1
            peer = (*peer.items(), *map(type, peer.values()))
        key = (
            kind, peer, node.group, node.tag, node.bytes, node.count, node.dtype, node.tensor,
        )  # fmt: skip
        found = self._memo.get(key)
        if found is None or node.shape is not UNSET:
            found = self._transfer(node, kind)
            if node.shape is UNSET:
                self._memo[key] = found
        ref, sig = found
        work, handle = node.work, 0
        if work is not UNSET:
            slot = self._handles.get(work) if kind & ASYNC else None
            handle = self._handle(node, kind & ASYNC) if slot is None else slot + 1
        if self.in_batch:
            kind = kind & ~ASYNC | MEMBER
        text, on = node.label, node.stream
        label = 0 if text is UNSET else self._labels.get(text) or self._label(node, text)
        stream = 0 if on is UNSET else self._streams.get(on, -1)
        if stream < 0:
            stream = self._stream(node)
        self.words += (kind, ref, handle, sig, label, stream)
        self.nodes.append(node)

    def _transfer(self, node: Any, kind: int) -> tuple[int, int]:
        side = RefType.RECV if kind & (MEMBER - 1) in _RECEIVING else RefType.SEND
        refs, signing = self.tables.refs, self.tables.signing
        return refs.point_to_point(node, side), signing.point_to_point(node)

    def _probe(self, node: n.Probe, kind: int) -> None:
        ref, sig = self._transfer(node, kind)
        self._word(node, kind, ref)
        self.words[-3] = sig

    def collective(self, node: Any, kind: int) -> None:
        """Emit a collective that is not coalesced."""
        key = (
            kind, node.group, node.bytes, node.count, node.dtype, node.tensor, node.root,
            node.reduce_op,
        )  # fmt: skip
        found = self._memo.get(key)
        if found is None or not _is_plain(node):
            found = self.tables.refs.group(node), self.tables.signing.collective(node, kind)
            if _is_plain(node):
                self._memo[key] = found
        self._launch(node, kind, *found)

    def operation(self, node: Any, kind: int) -> None:
        """Emit an operation that another package registered."""
        ref, sig = self.tables.refs.group(node), self.tables.signing.operation(node, kind)
        self._launch(node, kind, ref, sig)

    def _launch(self, node: Any, kind: int, ref: int, sig: int) -> None:
        handle = 0 if node.work is UNSET else self._handle(node, node.async_ is True)
        if self.in_batch:
            kind |= MEMBER
        elif node.async_ is True:
            kind |= ASYNC
        text, on = node.label, node.stream
        label = 0 if text is UNSET else self._labels.get(text) or self._label(node, text)
        stream = 0 if on is UNSET else self._streams.get(on, -1)
        if stream < 0:
            stream = self._stream(node)
        self.words += (kind, ref, handle, sig, label, stream)
        self.nodes.append(node)

    def _handle(self, node: Any, nonblocking: int) -> int:
        if not nonblocking:
            hint = 'use isend or irecv, or add "async": true to a collective'
            raise Defect(
                node, "work", "a blocking action has no handle", value=node.work, hint=hint
            )
        return self.names.handle(node.work) + 1

    def _coalesced(self, node: n.Coalesced, _: int) -> None:
        if not node.ops:
            message = "a coalesced collective needs a tensor"
            raise Defect(node, "ops", message, hint="leave the action out")
        for part in node.ops:
            if part.op is not UNSET and part.op != node.kind:
                message = f"every part of this coalesced collective is {node.kind}"
                raise Defect(node, "ops", message, value=part.op, hint="leave op out")
        kind = COALESCED_KIND[node.kind]
        ref, sig = self.tables.refs.group(node), self.tables.signing.coalesced(node, kind)
        self._launch(node, kind, ref, sig)
        said = [node.label, *(part.label for part in node.ops)]
        labels = [None if label is UNSET else label for label in said]
        if any(label is not None for label in labels[1:]):
            self.words[-2] = self.tables.labels.word(node, tuple(labels), self.times)

    def _batch(self, node: n.Batch, _: int) -> None:
        if not node.ops:
            hint = "leave the action out"
            raise Defect(node, "ops", "a batch needs an operation", hint=hint)
        for index, member in enumerate(node.ops):
            # Asked here, since hardly a member has one of them and batches may have many members.
            plain = member.work is member.stream is member.after is UNSET
            if not plain or getattr(member, "async_", UNSET) is not UNSET:
                _check_member(node, member, index)
        handle = 0 if node.work is UNSET else self.names.handle(node.work) + 1
        self._word(node, Kind.BATCH | (ASYNC if handle else 0), len(node.ops), handle)
        self.in_batch += 1
        self.block(node.ops)
        self.in_batch -= 1
        for member in node.ops:
            if member.id is not UNSET:
                self._bind_to_batch(member)

    def _bind_to_batch(self, member: n.Node) -> None:
        """Bind a member's id after the whole batch: its members complete as one launch."""
        slot = self.names.slot(str(member.id))
        if slot is not None:
            self.words += (Kind.BIND, slot, 0, 0, 0, 0)
            self.nodes.append(member)

    # --- handles, computation, streams -------------------------------------------------------

    def _wait(self, node: n.Wait, _: int) -> None:
        works = node.work
        if works.__class__ is str:  # most waits: one handle, for which all modes are the same
            slot = self._handles.get(works)
            self._word(node, _WAIT, self.names.handle(works) if slot is None else slot)
            return
        mode = WaitMode.all if node.mode is UNSET else WaitMode[node.mode]
        if not works:
            raise Defect(node, "work", "a wait needs a handle", hint="leave the action out")
        if len(set(works)) < len(works):
            hint = "wait for every handle once"
            raise Defect(node, "work", "handle listed twice", code="PG303", value=works, hint=hint)
        slots = [self.names.handle(work) for work in works]
        if len(slots) == 1:
            self._word(node, _WAIT, slots[0])
        else:
            self._word(node, _WAIT_MANY, self.tables.aux.add(slots), mode)

    def _on_handle(self, node: n.Test | n.Drop, kind: int) -> None:
        self._word(node, kind, self.names.handle(node.work))

    def _compute(self, node: n.Compute, _: int) -> None:
        deps = NONE
        if node.deps is not UNSET and node.deps:
            slots = [self.names.reference(node, text) for text in node.deps]
            deps = self.tables.aux.add(slots)
        self._word(node, _COMPUTE, deps)

    def _host_sync(self, node: n.HostSync, _: int) -> None:
        self._word(node, Kind.HOST_SYNC, 0 if node.stream is UNSET else self._stream(node) + 1)

    def _event(self, node: n.EventRecord | n.EventWait, kind: int) -> None:
        slot = self.names.events.get(node.event)
        self._word(node, kind, self.names.event(node.event) if slot is None else slot)

    def _copy(self, node: n.Copy, kind: int) -> None:
        # Copies match nothing; their signature is their size, for pictures.
        sig = self.tables.signing.point_to_point(node)
        if isinstance(node, n.DeviceToDevice) and node.peer is not UNSET:
            self.tables.refs.check_rank(node, "peer", node.peer, "PG402")
        self._word(node, kind, sig=sig)

    def _plain(self, node: n.Node, kind: int) -> None:
        self._word(node, kind)

    def _init(self, node: n.Init, kind: int) -> None:
        self._word(node, kind, self.tables.refs.group(node))

    def _group(self, node: n.NewGroup | n.Destroy, kind: int) -> None:
        self._word(node, kind, self.tables.refs.group_index(node))

    # --- blocks ------------------------------------------------------------------------------

    def _repeat(self, node: n.Repeat, _: int) -> None:
        if node.times >= NONE:
            message = f"more than {NONE - 1} iterations"
            raise Defect(node, "times", message, value=node.times, hint="raise Limits.actions")
        start = len(self.words)
        self._word(node, Kind.REPEAT, node.times)
        outer = self.times, self._labels, self.names.enter_loop(node)
        self.times, self._labels = node.times, {}
        self.block(node.body)
        self.times, self._labels, loop = outer
        self.names.leave_loop(loop)
        self.words[start + 2] = (len(self.words) - start) // WORDS - 1

    def _unordered(self, node: n.Unordered, _: int) -> None:
        items = [item if isinstance(item, list) else [item] for item in node.body]
        outer = self.names.open_block(items)
        self._word(node, Kind.UNORDERED_BEGIN, NONE)
        for item, actions in zip(node.body, items, strict=True):
            # A loop is one item whose iterations keep their order: a chain, once unrolled.
            if isinstance(item, list | n.Repeat):
                self._chain(node, actions)
            else:
                self.block(actions)
        self._word(node, Kind.UNORDERED_END, NONE)
        self.names.close_block(outer)

    def _chain(self, node: n.Node, actions: Sequence[n.Action]) -> None:
        self.words += (Kind.CHAIN_BEGIN, NONE, 0, 0, 0, 0)
        self.nodes.append(node)
        self.block(actions)
        self.words += (Kind.CHAIN_END, NONE, 0, 0, 0, 0)
        self.nodes.append(node)

    def _threads(self, node: n.Threads, _: int) -> None:
        outer = self.names.open_block(node.threads)
        self._word(node, Kind.THREADS_BEGIN, self.tables.aux.add([len(node.threads)]))
        for thread in node.threads:
            self._chain(node, thread)
        self._word(node, Kind.THREADS_END, NONE)
        self.names.close_block(outer)

    def _choice(self, node: n.Choice, _: int) -> None:
        details = [int(node.uniform is True), len(node.branches)]
        self._word(node, Kind.CHOICE_BEGIN, self.tables.aux.add(details))
        block = self.names.enter_ordered()
        for branch in node.branches:
            self.words += (Kind.BRANCH_BEGIN, NONE, 0, 0, 0, 0)
            self.nodes.append(node)
            self.block(branch)
        self.names.close_block(block)
        self._word(node, Kind.CHOICE_END, NONE)

    def _after(self, node: n.Node) -> None:
        """Emit the order edges of an item of an undecided block.

        In an ordered list they say nothing that the list does not, and are only checked.
        """
        slots = self.names.order(node)
        if slots:
            self.words += (Kind.AFTER, self.tables.aux.add(slots), 0, 0, 0, 0)
            self.nodes.append(node)

    HANDLERS: ClassVar[dict[type, tuple[Callable[[Emitter, Any, int], None], int]]] = {
        n.Send: (_point_to_point, int(Kind.SEND)),
        n.Isend: (_point_to_point, int(Kind.SEND | ASYNC)),
        n.Recv: (_point_to_point, int(Kind.RECV)),
        n.Irecv: (_point_to_point, int(Kind.RECV | ASYNC)),
        n.Probe: (_probe, int(Kind.PROBE)),
        n.Coalesced: (_coalesced, 0),
        n.Wait: (_wait, 0),
        n.Test: (_on_handle, int(Kind.TEST)),
        n.Drop: (_on_handle, int(Kind.DROP)),
        n.Batch: (_batch, 0),
        n.Compute: (_compute, 0),
        n.HostSync: (_host_sync, 0),
        n.EventRecord: (_event, int(Kind.EVENT_RECORD)),
        n.EventWait: (_event, int(Kind.EVENT_WAIT)),
        n.Init: (_init, int(Kind.INIT)),
        n.NewGroup: (_group, int(Kind.NEW_GROUP)),
        n.Destroy: (_group, int(Kind.DESTROY)),
        n.Unordered: (_unordered, 0),
        n.Threads: (_threads, 0),
        n.Choice: (_choice, 0),
        n.Repeat: (_repeat, 0),
        n.HostToDevice: (_copy, int(Kind.COPY)),
        n.DeviceToHost: (_copy, int(Kind.COPY)),
        n.DeviceToDevice: (_copy, int(Kind.COPY)),
        n.Exit: (_plain, int(Kind.EXIT)),
    }


Emitter.HANDLERS.update(
    {
        cls: (Emitter.collective, int(COLLECTIVE_KIND[op]))
        for op, cls in n.OP_CLASSES.items()
        if op in COLLECTIVE_KIND
    }
)


def _of_one_class(method: Any) -> Any:
    """Return a copy of a method for one class of records.

    Where code reads a field, CPython keeps how it found it in the class that was there before; of
    a method for several classes most fields are looked for anew (an eighth of a send's time).
    """
    return FunctionType(method.__code__.replace(), method.__globals__, method.__name__)


Emitter.HANDLERS.update(
    {cls: (_of_one_class(method), kind) for cls, (method, kind) in Emitter.HANDLERS.items()}
)


def _check_member(batch: n.Batch, member: Any, index: int) -> None:
    for field, attribute in (("work", "work"), ("async", "async_"), ("stream", "stream")):
        if getattr(member, attribute, UNSET) is not UNSET:
            message = f"an operation inside a batch carries no {field}"
            hint = "put work and stream on the batch itself"
            raise Defect(batch, f"ops[{index}].{field}", message, hint=hint)
    if member.after is not UNSET:
        message, hint = "a batch is one launch: its order is fixed", "put after on the batch"
        raise Defect(batch, f"ops[{index}].after", message, hint=hint)


def _is_plain(node: Any) -> bool:
    """Return whether the memo key of a collective says everything about it."""
    return node.shape is UNSET and node.in_splits is UNSET and node.out_splits is UNSET


_SENDING = frozenset({int(Kind.SEND), int(Kind.SEND | ASYNC)})
_RECEIVING = frozenset({Kind.RECV, Kind.PROBE})
