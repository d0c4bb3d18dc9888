"""What a rank's host has done after issuing a sequence of steps."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING

from oracle.models import Creation, Model, Queue
from oracle.program import POINT_TO_POINT

if TYPE_CHECKING:
    from oracle.lowering import Lowered, Operation, Step
    from oracle.program import Action

Key = tuple[object, ...]
MAIN = "main"


@dataclass(frozen=True)
class Meeting:
    """A blocking meeting of hosts; it ends when all members have arrived at an equal meeting."""

    name: Key
    members: tuple[int, ...]


@dataclass(frozen=True)
class Block:
    """What a step waits for before its host, or its thread, goes on.

    Attributes:
        on: operations, all of them.
        meets: meetings, all of them.
        one_of: operations of several handles, one handle of which is enough.
        look: the probe that waits for a message.
    """

    on: int = 0
    meets: tuple[Meeting, ...] = ()
    one_of: tuple[int, ...] = ()
    look: Action | None = None


@dataclass
class HostView:
    """Everything that follows from the order in which one rank issued its steps.

    Sets of operations are bit sets. A view is never changed once it is handed out.

    Attributes:
        issued: operations issued.
        keys: what identifies the match of an operation: its round, or its place on a channel.
        by_key: the operation of this rank that plays a role in a match.
        members: ranks of the communicator an operation really uses.
        queues: operations issued so far, per queue.
        after: operations that must be complete before a launch may start.
        meets: meetings that must be over before a launch may start.
        kernels: launches in host issue order.
        arrived: meetings at which this rank has arrived.
        behind: meetings of one step that come before a meeting, where there are any.
        block_on: operations for which the last step blocks the host.
        block_meets: meetings for which the last step blocks the host.
        one_of: operations of each handle of which the last step waits for one.
        look: the last step, if it is a probe.
        blocks: what every issued step waits for.
        frontier: per stream, operations that everything issued to it from now on comes after.
        events: per event, the frontier at its latest record.
        marks: per compute action, the frontier it leaves.
        messages: point-to-point calls so far on a communicator.
        before: of a collective, the point-to-point calls on its communicator before it.
        created: per group, the place of its `new_group` among those of this rank.
        dropped: operations whose handle the last step dropped.
        ended: the rank has left (`exit`).
    """

    issued: int = 0
    keys: dict[int, Key] = field(default_factory=dict)
    by_key: dict[tuple[str, Key], Operation] = field(default_factory=dict)
    members: dict[int, tuple[int, ...]] = field(default_factory=dict)
    queues: dict[object, int] = field(default_factory=dict)
    after: dict[int, int] = field(default_factory=dict)
    meets: dict[int, tuple[Meeting, ...]] = field(default_factory=dict)
    kernels: tuple[int, ...] = ()
    arrived: frozenset[Meeting] = frozenset()
    behind: dict[Meeting, tuple[Meeting, ...]] = field(default_factory=dict)
    block_on: int = 0
    block_meets: tuple[Meeting, ...] = ()
    one_of: tuple[int, ...] = ()
    look: Action | None = None
    blocks: dict[int, Block] = field(default_factory=dict)
    frontier: dict[str, int] = field(default_factory=dict)
    events: dict[str | None, int] = field(default_factory=dict)
    marks: dict[int, int] = field(default_factory=dict)
    messages: dict[str, int] = field(default_factory=dict)
    before: dict[int, int] = field(default_factory=dict)
    created: dict[str, int] = field(default_factory=dict)
    counts: dict[Key, int] = field(default_factory=dict)
    creations: int = 0
    dropped: int = 0
    ended: bool = False

    def clone(self) -> HostView:
        """Copy the view so that the copy can take one more step."""
        other = copy(self)
        for each in fields(self):
            value = getattr(self, each.name)
            if isinstance(value, dict):
                setattr(other, each.name, dict(value))
        other.block_on, other.block_meets, other.dropped = 0, (), 0
        other.one_of, other.look = (), None
        return other

    def name_of(self, group: str) -> str:
        """Give the name that this rank's communicator of a group has now.

        torch names a group by a counter of the process, so the order of creation decides.
        """
        return f"#{self.created[group]}" if group in self.created else group


def position(key: Key) -> int:
    """Give the round number, or the place on its channel, that a key ends with."""
    place = key[-1]
    assert isinstance(place, int)
    return place


def role(operation: Operation) -> str:
    """Name the part an operation plays in its match."""
    if operation.is_collective:
        return "collective"
    return "send" if operation.is_send else "recv"


class HostRules:
    """Extends views step by step by the host rules of a model."""

    def __init__(self, lowered: Lowered, model: Model) -> None:
        self.lowered = lowered
        self.model = model
        self.groups = lowered.program.groups

    def extend(self, view: HostView, rank: int, step: Step) -> HostView:
        """Give the view after one more step of the rank."""
        view = view.clone()
        if step.operations:
            self._communicate(view, step)
        else:
            self._other(view, rank, step)
        block = Block(view.block_on, view.block_meets, view.one_of, view.look)
        view.blocks[step.action.index] = block
        return view

    def _communicate(self, view: HostView, step: Step) -> None:
        stream = step.action.stream or MAIN
        barrier = step.action.kind == "barrier"
        for operation in step.operations:
            self._identify(view, operation, batched=step.action.kind == "batch")
        for operation in step.operations:
            self._queue(view, operation, view.frontier.get(stream, 0))
        if step.action.sync:
            self._wait(view, step.bits, stream, barriers=step.bits if barrier else 0)

    def _identify(self, view: HostView, operation: Operation, *, batched: bool) -> None:
        """Place the operation on its communicator: k-th call of k-th calls, by issue order."""
        action = operation.action
        name, members = self._communicator(view, operation, batched=batched)
        if operation.is_collective:
            slot: Key = ("round", name)
            view.before[operation.id] = view.messages.get(name, 0)
        else:
            ends = (
                (operation.rank, action.peer)
                if operation.is_send
                else (
                    action.peer,
                    operation.rank,
                )
            )
            view.messages[name] = view.messages.get(name, 0) + 1
            slot = ("channel", name, *ends, action.tag if self.model.tags else None)
        counter = (*slot, role(operation))
        ahead = view.counts.get(counter, 0)
        view.counts[counter] = ahead + 1
        key = (*slot, ahead)
        view.keys[operation.id] = key
        view.by_key[role(operation), key] = operation
        view.members[operation.id] = members
        view.issued |= operation.bit
        meetings = []
        if self.model.lazy:
            meetings.append(Meeting(("init", name), members))
        if self.model.checked and operation.is_collective:
            meetings.append(Meeting(("checked", *key), members))
        for meeting in meetings:
            self._meet(view, meeting)
        # What a batch issues one by one comes after the meetings of what was issued before.
        view.meets[operation.launch] = view.block_meets

    def _communicator(
        self, view: HostView, operation: Operation, *, batched: bool
    ) -> tuple[str, tuple[int, ...]]:
        action = operation.action
        name = view.name_of(action.group)
        members = self.groups[action.group]
        if self.model.pairs and not batched and action.kind in POINT_TO_POINT:
            low, high = sorted((operation.rank, int(action.peer or 0)))
            return f"{name}/{low}:{high}", (low, high)
        return name, members

    def _queue(self, view: HostView, operation: Operation, edges: int) -> None:
        """Find what must be complete before the operation's launch may start."""
        key = view.keys[operation.id]
        queue = self.model.queue
        lane: object = None
        if queue is Queue.COMMUNICATOR or (queue is Queue.WORKER and operation.is_collective):
            lane = key[1]
        elif queue in {Queue.OWN, Queue.WORKER}:
            lane = operation.id
        launch = operation.launch
        mine = 0
        for other in self.lowered.launches[launch]:
            mine |= other.bit
        ahead = view.queues.get(lane, 0) & ~mine
        if self.model.barrier_last and operation.action.kind == "barrier":
            for other_id, other_key in view.keys.items():
                if other_key[:2] == key[:2] and other_id != operation.id:
                    ahead |= 1 << other_id
        view.queues[lane] = view.queues.get(lane, 0) | mine
        # A stream edge exists only where there are streams; elsewhere the frontier stays empty.
        # What a batch calls later on a communicator of which it has a launch goes with that one.
        if launch not in view.kernels:
            view.kernels = (*view.kernels, launch)
            view.after[launch] = ahead | edges

    def _wait(self, view: HostView, bits: int, stream: str, barriers: int) -> None:
        if self.model.host_waits:
            view.block_on |= bits
            return
        view.frontier[stream] = view.frontier.get(stream, 0) | bits
        if self.model.barrier_blocks:
            view.block_on |= barriers

    def _meet(self, view: HostView, meeting: Meeting) -> None:
        if meeting not in view.arrived and view.block_meets:
            view.behind[meeting] = view.block_meets
        view.arrived |= {meeting}
        view.block_meets = (*view.block_meets, meeting)

    def _other(self, view: HostView, rank: int, step: Step) -> None:
        action = step.action
        stream = action.stream or MAIN
        targets = [self.lowered.steps[rank][index] for index in action.targets]
        bits = sum(target.bits for target in targets)
        if action.kind == "wait" and action.wait_mode != "all" and len(targets) > 1:
            view.one_of = tuple(target.bits for target in targets)
        elif action.kind == "probe":
            view.look = action
        elif action.kind == "wait":
            barriers = sum(t.bits for t in targets if t.action.kind == "barrier")
            self._wait(view, bits, stream, barriers)
        elif action.kind == "drop":
            view.dropped = bits
        elif action.kind == "compute":
            self._compute(view, rank, step, stream)
        elif action.kind == "host_sync" and not self.model.host_waits:
            everything = view.issued if action.stream is None else view.frontier.get(stream, 0)
            view.block_on |= everything
        elif action.kind == "event_record":
            view.events[action.event] = view.frontier.get(stream, 0)
        elif action.kind == "event_wait":
            recorded = view.events.get(action.event, 0)
            view.frontier[stream] = view.frontier.get(stream, 0) | recorded
        elif action.kind == "init":
            name = view.name_of(action.group)
            members = self.groups[action.group]
            if action.peer is not None:
                low, high = members = (*sorted((rank, int(action.peer))),)
                name = f"{name}/{low}:{high}"
            self._meet(view, Meeting(("init", name), members))
        elif action.kind == "new_group":
            self._create(view, rank, action.group)
        elif action.kind == "exit":
            view.ended = True

    def _compute(self, view: HostView, rank: int, step: Step, stream: str) -> None:
        bits = 0
        for index in step.action.deps:
            bits |= self.lowered.steps[rank][index].bits | view.marks.get(index, 0)
        if self.model.host_waits:
            view.block_on |= bits
            return
        view.frontier[stream] = view.frontier.get(stream, 0) | bits
        view.marks[step.action.index] = view.frontier[stream]

    def _create(self, view: HostView, rank: int, group: str) -> None:
        members = self.groups[group]
        everyone = tuple(range(self.lowered.program.world_size))
        entered = self.model.creation is Creation.ENTERED
        if entered and rank not in members:
            return
        place = view.creations
        view.creations += 1
        view.created[group] = place
        if entered or self.model.creation is Creation.WORLD:
            self._meet(view, Meeting(("new_group", place), everyone))
        elif self.model.creation is Creation.MEMBERS and rank in members:
            self._meet(view, Meeting(("new_group", place, members), members))
