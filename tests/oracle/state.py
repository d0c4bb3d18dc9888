"""States of the transition system and its events: issue, start, complete.

Above 400 lines: one transition system, whose guards and moves read each other.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from oracle.host import Block, HostRules, HostView, Key, Meeting
from oracle.models import INFINITE, Model, Queue
from oracle.needs import Needs
from oracle.program import ANY

if TYPE_CHECKING:
    from oracle.lowering import Lowered, Operation
    from oracle.program import Action


@dataclass(frozen=True)
class Choice:
    """One admissible setting of what a model leaves open.

    Attributes:
        residency: K, the kernels that may be started and not complete on one device.
        buffer: B, unmatched sends per channel that may be complete (sends up to the eager size).
        free: kernels start in any order, not only in the order of issue.
    """

    residency: int = INFINITE
    buffer: int = 0
    free: bool = False


class State(NamedTuple):
    """A state: what each rank issued, in order, and what started and completed since.

    The last five are for executions that are not confluent: operations whose handle died before
    its match, operations taken away by an exit, the picks of wildcard receives, the ranks whose
    host keeps the one lock of its process at a creation, and the probes of threads that saw a
    message, or the waits for one that got that lock.
    """

    order: tuple[tuple[int, ...], ...]
    started: int = 0
    completed: int = 0
    poisoned: int = 0
    withdrawn: int = 0
    bound: frozenset[tuple[int, int]] = frozenset()
    held: int = 0
    seen: frozenset[tuple[int, int]] = frozenset()


class Event(NamedTuple):
    """`issue` (rank, step), `start` (launch), `complete` (operation) or `bind` (recv, send).

    `see` (rank, step) is a probe of one of several threads that sees a message; what was seen may
    be taken before that thread goes on.

    `hold` (rank, step) is a wait for a message that takes the lock of its process, and without a
    step the host that takes it for a creation.

    `linger` (rank, step) issues a drop whose handle dies only when it does not matter any more.
    """

    name: str
    first: int
    second: int = -1


def in_line(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    """Tell whether two threads are one, or one of them, or what forks it, has to join the other."""
    for at in range(0, min(len(one), len(other)), 2):
        if one[at] != other[at]:  # two blocks of one thread, which joins one before the other
            return True
        if one[at + 1] != other[at + 1]:
            return False
    return True


def takes_turns(lowered: Lowered) -> bool:
    """Tell whether some rank may want the library from two threads at once: it makes a collective
    that is not waited for at once, or has threads, and anything else that is another thread's.
    """
    for steps in lowered.steps:
        calls = [one for step in steps for one in step.operations]
        behind = any(
            one.is_collective and (not step.action.sync or step.action.kind == "batch")
            for step in steps
            for one in step.operations
        )
        groups = {one.action.group for one in calls if one.is_collective}
        others = any(not one.is_collective for one in calls)
        others |= any(step.action.kind in {"init", "new_group"} for step in steps)
        if (behind or lowered.threads) and (others or len(groups) > 1):
            return True
    return False


class System:
    """The transition system of one plan under one model and one choice.

    Args:
        agree: let members of a mismatched round complete as if they agreed (the counterfactual
            that tells a hang of its own from the consequence of a mismatch).
    """

    def __init__(
        self, lowered: Lowered, model: Model, choice: Choice, *, agree: bool = False
    ) -> None:
        self.lowered = lowered
        self.model = model
        self.choice = choice
        self.rules = HostRules(lowered, model)
        self.needs = Needs(self, agree=agree)
        self._views: dict[tuple[int, tuple[int, ...]], HostView] = {}
        self._queued = model.queue is not Queue.OWN
        self.lock = model.one_lock and takes_turns(lowered)
        # Buffering is a favor, not a duty: what completes without it is decided by this one.
        bare = choice.buffer == 0
        self.strict = (
            self if bare else System(lowered, model, replace(choice, buffer=0), agree=agree)
        )

    # -- reading a state ----------------------------------------------------------------------

    def initial(self) -> State:
        """Give the state before anything is issued."""
        return State(tuple(() for _ in self.lowered.steps))

    def view(self, state: State, rank: int) -> HostView:
        """Give what follows from the rank's issue order."""
        order = state.order[rank]
        view = self._views.get((rank, order))
        if view is None:
            if order:
                shorter = state._replace(
                    order=(*state.order[:rank], order[:-1], *state.order[rank + 1 :])
                )
                step = self.lowered.steps[rank][order[-1]]
                view = self.rules.extend(self.view(shorter, rank), rank, step)
            else:
                view = HostView()
            self._views[rank, order] = view
        return view

    def met(self, state: State, meetings: tuple[Meeting, ...]) -> bool:
        """Tell whether every member of every meeting has arrived."""
        return all(
            self.has_arrived(state, rank, meeting)
            for meeting in meetings
            for rank in meeting.members
        )

    def has_arrived(
        self, state: State, rank: int, meeting: Meeting, asked: frozenset[Meeting] = frozenset()
    ) -> bool:
        """Tell whether a rank is at a meeting, those before it in its step being over."""
        view = self.view(state, rank)
        asked |= {meeting}
        return meeting in view.arrived and all(
            earlier not in asked and self.has_arrived(state, other, earlier, asked)
            for earlier in view.behind.get(meeting, ())
            for other in earlier.members
        )

    def is_started(self, state: State, operation: Operation) -> bool:
        """Tell whether the operation can take part in its match."""
        if state.withdrawn & operation.bit:
            return False
        if self._is_queued(operation):
            return bool(state.started & operation.bit)
        # An operation with a queue of its own starts as soon as it is issued and may.
        view = self.view(state, operation.rank)
        return bool(view.issued & operation.bit) and self._may_start(state, view, operation.launch)

    def _is_queued(self, operation: Operation) -> bool:
        """Tell whether an operation stands in a queue; where workers do, messages do not."""
        return self._queued and (operation.is_collective or self.model.queue is not Queue.WORKER)

    def partner(self, state: State, operation: Operation) -> Operation | None:
        """Give the issued other end of a send or receive."""
        ends = ("send", "recv")
        wanted = ends[operation.is_send]
        if self.lowered.wildcards:
            for recv, send in state.bound:
                if operation.id in (recv, send):
                    return self.lowered.operations[recv if operation.is_send else send]
            return None
        view = self.view(state, operation.rank)
        key = view.keys[operation.id]
        peer = int(operation.action.peer or 0)
        return self.view(state, peer).by_key.get((wanted, key))

    def key(self, state: State, operation: Operation) -> Key:
        """Give what identifies the match of an issued operation."""
        return self.view(state, operation.rank).keys[operation.id]

    def members(self, state: State, operation: Operation) -> tuple[int, ...]:
        """Give the ranks of the communicator that an issued operation uses."""
        return self.view(state, operation.rank).members[operation.id]

    def in_round(self, state: State, operation: Operation, rank: int) -> Operation | None:
        """Give a rank's issued member of the round of a collective."""
        return self.view(state, rank).by_key.get(("collective", self.key(state, operation)))

    def issued_after(self, state: State, one: Operation, other: Operation) -> bool:
        """Tell whether a rank issued one of its operations after another."""
        kernels = self.view(state, one.rank).kernels
        return kernels.index(one.launch) > kernels.index(other.launch)

    def match(self, state: State, operation: Operation) -> list[Operation]:
        """List the issued operations in one match with an issued operation, itself included."""
        if not operation.is_collective:
            partner = self.partner(state, operation)
            return [operation] if partner is None else [operation, partner]
        found = [self.in_round(state, operation, rank) for rank in self.members(state, operation)]
        return [member for member in found if member is not None]

    def blocked(self, state: State, rank: int, index: int) -> bool:
        """Tell whether an issued step still blocks its host, or its thread."""
        block = self.view(state, rank).blocks[index]
        if block.on & ~state.completed or not self.met(state, block.meets):
            return True
        if self.lock and self._messages(block) and (rank, index) not in state.seen:
            return True
        if block.one_of and not any(not bits & ~state.completed for bits in block.one_of):
            return True
        if block.look is None or (rank, index) in state.seen:
            return False
        return self.lowered.threads or not self._in_sight(state, rank, block.look)

    def standing(self, state: State, rank: int) -> list[int]:
        """List the issued steps at which a rank stands: at most one for each of its threads."""
        order = state.order[rank]
        if not self.lowered.threads:
            order = order[-1:]
        return [index for index in order if self.blocked(state, rank, index)]

    def host_done(self, state: State, rank: int) -> bool:
        """Tell whether the rank's host program has ended."""
        view = self.view(state, rank)
        if view.ended:
            return True
        finished = len(state.order[rank]) == len(self.lowered.steps[rank])
        return finished and not self.standing(state, rank)

    def _in_sight(self, state: State, rank: int, look: Action) -> bool:
        """Tell whether a probe sees a message: one that no receive posted before it takes."""
        free = self._free(state)
        receives = [one for one in free if not one.is_send and one.rank == rank]
        return any(
            self._suits(state, rank, look, send)
            and not any(self._accepts(state, receive, send) for receive in receives)
            for send in free
            if send.is_send
        )

    def _suits(self, state: State, rank: int, look: Action, send: Operation) -> bool:
        to_me = send.action.peer == rank and look.peer in (send.rank, ANY)
        group = self.view(state, send.rank).keys[send.id][1]
        mine = self.view(state, rank).name_of(look.group)
        return to_me and group == mine and look.tag in (send.action.tag, ANY)

    # -- one lock -------------------------------------------------------------------------------

    def _is_locked(self, state: State, rank: int) -> bool:
        """Tell whether a thread of a rank is in the library and keeps the others out."""
        blocks = self.view(state, rank).blocks
        standing = self.standing(state, rank)
        inside = (index for index in standing if (rank, index) in state.seen)
        if any(self._messages(blocks[index]) & ~state.completed for index in inside):
            return True
        if state.held & 1 << rank and not all(self.met(state, blocks[i].meets) for i in standing):
            return True
        return any(
            one.rank == rank and one.is_collective and state.started & ~state.completed & one.bit
            for one in self.lowered.operations
        )

    def _messages(self, block: Block) -> int:
        """Give the messages that a step waits for, there or not.

        Their handles are asked of the library under the lock, also where nothing is left to come:
        `ProcessGroupMPI::AsyncWork::wait` (torch 2.13, ProcessGroupMPI.cpp).
        """
        on = block.on
        for bits in block.one_of:
            on |= bits
        return on & sum(one.bit for one in self.lowered.operations if not one.is_collective)

    def _holds(self, state: State) -> list[Event]:
        """List the hosts and waits that may take the lock of their process now."""
        events = []
        for rank in range(len(state.order)):
            if self._is_locked(state, rank):
                continue
            blocks = self.view(state, rank).blocks
            standing = self.standing(state, rank)
            events += [
                Event("hold", rank, index)
                for index in standing
                if self._messages(blocks[index]) and (rank, index) not in state.seen
            ]
            creates = not all(self.met(state, blocks[index].meets) for index in standing)
            if creates and not state.held & 1 << rank:
                events.append(Event("hold", rank))
        return events

    def _enters(self, rank: int, index: int) -> bool:
        """Tell whether issuing a step calls the library from the host."""
        step = self.lowered.steps[rank][index]
        creates = step.action.kind in {"init", "new_group"}
        return creates or any(not one.is_collective for one in step.operations)

    # -- guards ---------------------------------------------------------------------------------

    def ready(self, state: State, rank: int) -> list[int]:
        """List the steps that the rank may issue next; a chain has at most one."""
        if self.view(state, rank).ended:
            return []
        issued = set(state.order[rank])
        standing = self.standing(state, rank)
        if standing and not self.lowered.threads:
            return []
        steps = self.lowered.steps[rank]
        held = [steps[index].action.thread for index in standing]
        return [
            index
            for index, step in enumerate(steps)
            if index not in issued
            and step.action.before <= issued
            and not any(in_line(step.action.thread, thread) for thread in held)
            and not self._between_threads(rank, step.action.thread, issued)
        ]

    def _between_threads(self, rank: int, thread: tuple[int, ...], issued: set[int]) -> bool:
        """Tell whether a thread, or one that forks it, has another block to join first."""
        if not self.lowered.threads:
            return False
        begun, missing = set[tuple[int, ...]](), set[tuple[int, ...]]()
        for index, step in enumerate(self.lowered.steps[rank]):
            inner = step.action.thread
            for depth in range(0, min(len(inner) - 1, len(thread) + 1), 2):
                if inner[:depth] != thread[:depth] or inner[: depth + 1] == thread[: depth + 1]:
                    continue
                (begun if index in issued else missing).add(inner[: depth + 1])
        return bool(begun & missing)

    def _may_start(self, state: State, view: HostView, launch: int) -> bool:
        if view.after[launch] & ~state.completed:
            return False
        return not view.meets[launch] or self.met(state, view.meets[launch])

    def _resident(self, state: State, view: HostView, launch: int) -> bool:
        """Check the start order and the co-residency bound of a device."""
        if self.choice.residency == INFINITE:
            return True
        if self.choice.free:
            launches = (self.lowered.launches[other] for other in view.kernels)
            started = [one for one in launches if state.started & one[0].bit]
            incomplete = [one for one in started if any(not state.completed & m.bit for m in one)]
            return len(incomplete) < self.choice.residency
        resident = 0
        for other in view.kernels:
            if other == launch:
                return resident < self.choice.residency
            members = self.lowered.launches[other]
            if not state.started & members[0].bit:
                return False
            resident += any(not state.completed & member.bit for member in members)
        raise AssertionError("a launch that was not issued")

    def can_start(self, state: State, launch: int) -> bool:
        """START: the queue predecessors and stream edges are complete, the device has room."""
        first = self.lowered.launches[launch][0]
        view = self.view(state, first.rank)
        if not view.issued & first.bit or state.started & first.bit:
            return False
        if not self._is_queued(first):
            return False
        if self.lock and first.is_collective and self._is_locked(state, first.rank):
            return False
        return self._may_start(state, view, launch) and self._resident(state, view, launch)

    def must_complete(self, state: State, operation: Operation) -> bool:
        """Tell whether an operation that can complete does so even with no buffer to lend."""
        return self.strict.needs.met(state, operation)

    def can_complete(self, state: State, operation: Operation) -> bool:
        """COMPLETE: everything the operation needs has started."""
        if state.completed & operation.bit or not self.is_started(state, operation):
            return False
        return self.needs.met(state, operation)

    # -- moves ----------------------------------------------------------------------------------

    def enabled(self, state: State) -> list[Event]:
        """List every event that may happen next."""
        events = [
            Event("issue", rank, step)
            for rank in range(len(state.order))
            for step in self.ready(state, rank)
            if not (self.lock and self._enters(rank, step) and self._is_locked(state, rank))
        ]
        if self.lock:
            events += self._holds(state)
        if self.model.fragile_handles:
            events += [
                Event("linger", event.first, event.second)
                for event in events
                if self.lowered.steps[event.first][event.second].action.kind == "drop"
            ]
        if self._queued:
            events += [
                Event("start", launch)
                for launch in range(len(self.lowered.launches))
                if self.can_start(state, launch)
            ]
        if self.lowered.wildcards:
            events += self._binds(state)
            events += self._sightings(state)
        events += [
            Event("complete", operation.id)
            for operation in self.lowered.operations
            if self.can_complete(state, operation)
        ]
        return events

    def apply(self, state: State, event: Event) -> State:
        """Give the state after an enabled event."""
        if event.name == "issue":
            return self._issue(state, event.first, event.second)
        if event.name == "linger":
            return self._issue(state, event.first, event.second, dies=False)
        if event.name == "start":
            bits = sum(member.bit for member in self.lowered.launches[event.first])
            return state._replace(started=state.started | bits)
        if event.name == "see" or (event.name == "hold" and event.second >= 0):
            return state._replace(seen=state.seen | {(event.first, event.second)})
        if event.name == "hold":
            return state._replace(held=state.held | 1 << event.first)
        if event.name == "bind":
            return state._replace(bound=state.bound | {(event.first, event.second)})
        return state._replace(completed=state.completed | 1 << event.first)

    def _issue(self, state: State, rank: int, index: int, *, dies: bool = True) -> State:
        order = list(state.order)
        order[rank] = (*order[rank], index)
        state = state._replace(order=tuple(order), held=state.held & ~(1 << rank))
        view = self.view(state, rank)
        if dies and view.dropped and self.model.fragile_handles:
            state = state._replace(poisoned=state.poisoned | self._fragile(state, view.dropped))
        if view.ended and self.model.exit_withdraws:
            lost = view.issued & ~state.completed
            state = state._replace(withdrawn=state.withdrawn | lost)
        return state

    def _sightings(self, state: State) -> list[Event]:
        """List the probes of threads that see a message now."""
        if not self.lowered.threads:
            return []
        standing = (
            (rank, i) for rank in range(len(state.order)) for i in self.standing(state, rank)
        )
        looks = ((rank, i, self.view(state, rank).blocks[i].look) for rank, i in standing)
        return [
            Event("see", rank, index)
            for rank, index, look in looks
            if look is not None and self._in_sight(state, rank, look)
        ]

    def _binds(self, state: State) -> list[Event]:
        """List the picks of receives: each may take the first free message it accepts of a rank."""
        free = self._free(state)
        sends = [operation for operation in free if operation.is_send]
        recvs = [operation for operation in free if not operation.is_send]
        return [
            Event("bind", recv.id, send.id)
            for recv in recvs
            for send in sends
            if self._accepts(state, recv, send)
            and not any(
                other.rank == send.rank
                and self.issued_after(state, send, other)
                and self._accepts(state, recv, other)
                for other in sends
            )
            and not any(
                other.rank == recv.rank
                and self.issued_after(state, recv, other)
                and self._accepts(state, other, send)
                and self._goes_first(other, recv)
                for other in recvs
            )
        ]

    def _free(self, state: State) -> list[Operation]:
        """List the messages and receives that are there and met nobody."""
        taken = {operation for pair in state.bound for operation in pair}
        return [
            operation
            for operation in self.lowered.operations
            if not operation.is_collective
            and operation.id not in taken
            and self.is_started(state, operation)
        ]

    def _accepts(self, state: State, recv: Operation, send: Operation) -> bool:
        same = self.key(state, recv)[1] == self.key(state, send)[1]
        to_me = send.action.peer == recv.rank and recv.action.peer in (send.rank, ANY)
        return same and to_me and recv.action.tag in (send.action.tag, ANY)

    def _goes_first(self, earlier: Operation, later: Operation) -> bool:
        """Tell whether an earlier receive is served before a later one that takes the same."""
        equal = (earlier.action.peer, earlier.action.tag) == (later.action.peer, later.action.tag)
        return self.model.posted_order or equal

    def _fragile(self, state: State, dropped: int) -> int:
        """Give the dropped point-to-point operations that are not complete yet.

        That the partner is posted is no guarantee: the news of it may still be on its way.
        """
        return sum(
            operation.bit
            for operation in self.lowered.operations
            if dropped & ~state.completed & operation.bit and not operation.is_collective
        )
