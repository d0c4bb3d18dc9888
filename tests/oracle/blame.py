"""Which stuck actions are the consequence of a mismatched match, and which hang by themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oracle.host import position
from oracle.models import INFINITE, Queue
from oracle.program import ANY
from oracle.state import in_line

if TYPE_CHECKING:
    from oracle.host import HostView, Key, Meeting
    from oracle.lowering import Operation
    from oracle.program import Action
    from oracle.state import State, System

Node = tuple[str, int]
# A step of a rank as one number.
STEPS = 1 << 16
# Waiting for a rank that has ended or left: nothing that could still happen would help.
ORPHAN: Node = ("orphan", -1)
# Waiting, before a round begins, in a sequence that a mismatch has thrown out of step.
EXCUSED: Node = ("excused", -1)


class Blame:
    """The waits of a stuck state of the counterfactual run, where mismatched rounds complete.

    Args:
        mismatched: the matches whose issued members disagree.
    """

    def __init__(self, system: System, state: State, mismatched: set[Key]) -> None:
        self.system = system
        self.state = state
        self.mismatched = mismatched
        # Nodes that any one of those they wait for would free.
        self.one_of: set[Node] = set()

    def has_own_cause(self) -> bool:
        """Tell whether something is stuck that does not depend on a mismatched match."""
        nodes = self._stuck()
        waits: dict[Node, set[Node]] = {}
        todo = list(nodes)
        while todo:
            node = todo.pop()
            if node not in waits and node not in (ORPHAN, EXCUSED):
                waits[node] = self._waits(node)
                todo += waits[node]
        excused = {node for node in waits if self._follows(node)} | {EXCUSED}
        while True:
            # Least fixed point: a cycle excuses nobody, waiting only for the excused does.
            more = {
                n
                for n, on in waits.items()
                if n not in excused and (on & excused if n in self.one_of else on and on <= excused)
            }
            if not more:
                return any(node not in excused for node in nodes)
            excused |= more

    def _stuck(self) -> list[Node]:
        system, state = self.system, self.state
        stuck = [rank for rank in range(len(state.order)) if not system.host_done(state, rank)]
        nodes: list[Node] = [("host", rank) for rank in stuck]
        if system.lowered.threads:
            nodes = [
                ("thread", rank * STEPS + index)
                for rank in stuck
                for index in system.standing(state, rank)
            ]
        if not system.model.host_waits:
            nodes += [("operation", one.id) for one in pending(system, state)]
        return nodes

    def _follows(self, node: Node) -> bool:
        """Tell whether an operation waits in a sequence that a mismatch threw out of step.

        One that has not started waits for something else; that has to be the excuse.
        """
        if node[0] != "operation":
            return False
        operation = self.system.lowered.operations[node[1]]
        if not self.system.is_started(self.state, operation):
            return False
        if operation.is_collective or not self.system.lowered.wildcards:
            return self._is_late(self.system.key(self.state, operation))
        return self._is_behind(operation)

    def _is_behind(self, operation: Operation) -> bool:
        """Tell whether a message of a channel that an operation may use met what disagrees.

        A place on a channel follows from the picks here, so a pair stands for its channel: who
        sends, who receives, and by which tag. A receive from anybody may use several.
        """
        for _, number in self.state.bound:
            sent = self.system.lowered.operations[number]
            mixed = self.system.key(self.state, sent) in self.mismatched
            if not mixed or sent.action.group != operation.action.group:
                continue
            src, dst, said = sent.rank, sent.action.peer, operation.action
            own = (operation.rank, said.peer) if operation.is_send else (said.peer, operation.rank)
            if own[0] in (src, ANY) and own[1] == dst and said.tag in (sent.action.tag, ANY):
                return True
        return False

    def _is_late(self, key: Key) -> bool:
        return any(
            other[:-1] == key[:-1] and position(other) < position(key) for other in self.mismatched
        )

    def _waits(self, node: Node) -> set[Node]:
        if node[0] == "host":
            standing = self.system.standing(self.state, node[1])
            return {w for index in standing for w in self._block(node[1], index)}
        if node[0] == "thread":
            return self._block(*divmod(node[1], STEPS))
        operation = self.system.lowered.operations[node[1]]
        if not self.system.is_started(self.state, operation):
            return self._before_start(operation) | self._nobody_to_meet(operation)
        if operation.is_collective:
            return {
                node
                for rank in self.system.needs.missing(self.state, operation)
                for node in self._member(operation, rank)
            } or {ORPHAN}
        partner = self.system.partner(self.state, operation)
        if partner is not None:
            return {("operation", partner.id)}
        if self.system.lowered.wildcards:
            return self._hosts_to_come(operation)
        peer = int(operation.action.peer or 0)
        wanted = ("recv" if operation.is_send else "send", self.system.key(self.state, operation))
        return self._calls(peer, self._to_come(peer).by_key.get(wanted))

    def _hosts_to_come(self, operation: Operation) -> set[Node]:
        """Give the hosts, any of which may still issue what an operation could meet."""
        hosts = {
            node
            for other in self.system.lowered.operations
            if not other.is_collective
            and other.is_send != operation.is_send
            and not self.system.view(self.state, other.rank).issued & other.bit
            and self._could_meet(operation, other)
            for node in self._calls(other.rank, other)
        }
        if hosts:
            self.one_of.add(("operation", operation.id))
        return hosts or {ORPHAN}

    def _could_meet(self, operation: Operation, other: Operation) -> bool:
        send, recv = (operation, other) if operation.is_send else (other, operation)
        return (
            send.action.group == recv.action.group
            and send.action.peer == recv.rank
            and recv.action.peer in (send.rank, ANY)
            and recv.action.tag in (send.action.tag, ANY)
        )

    def _block(self, rank: int, index: int) -> set[Node]:
        """Give what a step waits for; of several handles the first stands for all."""
        block = self.system.view(self.state, rank).blocks[index]
        on = block.on | (block.one_of[0] if block.one_of else 0)
        waits = self._operations(on) | self._meetings(block.meets)
        return waits | (self._in_sight(rank, block.look) if block.look is not None else set())

    def _in_sight(self, rank: int, look: Action) -> set[Node]:
        """Give the first host that may still send what a probe looks for."""
        for other in self.system.lowered.operations:
            issued = self.system.view(self.state, other.rank).issued & other.bit
            fits = other.action.peer == rank and look.peer in (other.rank, ANY)
            tags = look.tag in (other.action.tag, ANY) and look.group == other.action.group
            if other.is_send and not issued and fits and tags:
                return {self._host(other.rank, comes=True)}
        return {ORPHAN}

    def _before_start(self, operation: Operation) -> set[Node]:
        if self.state.withdrawn & operation.bit:
            return {ORPHAN}
        view = self.system.view(self.state, operation.rank)
        if operation.launch not in view.after:
            # Not issued yet, where the order is open: its host is what stands in the way.
            return {self._host(operation.rank, comes=True)}
        waits = self._operations(view.after[operation.launch])
        waits |= self._meetings(view.meets[operation.launch])
        if self.system.choice.residency != INFINITE:
            ahead = view.kernels[: view.kernels.index(operation.launch)]
            for launch in ahead:
                for other in self.system.lowered.launches[launch]:
                    waits |= self._operations(other.bit)
        return waits

    def _nobody_to_meet(self, operation: Operation) -> set[Node]:
        """Give an orphan if a call in a queue of its communicator lacks a member for good.

        It stands there whatever became of those before it, unless their mismatch threw it out of
        step. Where queues are shared, what is in front of it is all that can be said.
        """
        system, view = self.system, self.system.view(self.state, operation.rank)
        key = view.keys.get(operation.id)
        if system.model.queue is not Queue.COMMUNICATOR or key is None or self._is_late(key):
            return set()
        if not operation.is_collective or system.needs.needs_nobody(operation):
            return set()
        return {
            ORPHAN
            for rank in view.members[operation.id]
            if ("collective", key) not in self._to_come(rank).by_key
        }

    def _member(self, operation: Operation, rank: int) -> set[Node]:
        other = self.system.in_round(self.state, operation, rank)
        if other is not None:
            return {("operation", other.id)}
        wanted = ("collective", self.system.key(self.state, operation))
        return self._calls(rank, self._to_come(rank).by_key.get(wanted))

    def _calls(self, rank: int, wanted: Operation | None) -> set[Node]:
        """Give what stands in front of a call that is to come: of threads, those it comes behind.

        Another thread of its rank may stand where it does for good; the call comes all the same.
        """
        if wanted is None:
            return {ORPHAN}
        steps = self.system.lowered.steps[rank]
        thread = next(step.action.thread for step in steps if wanted in step.operations)
        ahead: set[Node] = {
            ("thread", rank * STEPS + index)
            for index in self.system.standing(self.state, rank)
            if self.system.lowered.threads and in_line(thread, steps[index].action.thread)
        }
        return ahead or {self._host(rank, comes=True)}

    def _to_come(self, rank: int) -> HostView:
        """Give what the rank will have issued if it ever gets to the end of its program."""
        system, order = self.system, self.state.order
        view = system.view(self.state, rank)
        for index, step in enumerate(system.lowered.steps[rank]):
            if index not in order[rank] and not view.ended:
                view = system.rules.extend(view, rank, step)
        return view

    def _host(self, rank: int, comes: bool) -> Node:
        return ("host", rank) if comes else ORPHAN

    def _operations(self, bits: int) -> set[Node]:
        return {
            ("operation", one.id)
            for one in self.system.lowered.operations
            if bits & ~self.state.completed & one.bit
        }

    def _meetings(self, meetings: tuple[Meeting, ...]) -> set[Node]:
        return {
            EXCUSED
            if meeting.name[0] == "checked" and self._is_late(meeting.name[1:])
            else self._host(rank, meeting in self._to_come(rank).arrived)
            for meeting in meetings
            for rank in meeting.members
            if not self.system.has_arrived(self.state, rank, meeting)
        }


def pending(system: System, state: State) -> list[Operation]:
    """List the operations that were issued and never completed."""
    return [
        one
        for one in system.lowered.operations
        if system.view(state, one.rank).issued & ~state.completed & one.bit
    ]


def stuck_actions(system: System, state: State) -> dict[int, int]:
    """Give the first stuck action of every stuck rank.

    Where a wait blocks the host it is the action the host stands at; where streams wait it is the
    first action of the rank, on the host or in a queue, that never ends.
    """
    stuck: dict[int, int] = {}
    for rank in range(len(state.order)):
        if not system.host_done(state, rank):
            stuck[rank] = min(system.standing(state, rank), default=len(state.order[rank]))
    if not system.model.host_waits:
        for one in pending(system, state):
            stuck[one.rank] = min(stuck.get(one.rank, one.index), one.index)
    return stuck
