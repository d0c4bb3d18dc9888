"""Who waits for whom: a graph over ranks, its cycles, its ends, and the wavefront behind them."""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from msgspec import Struct

from planguard.audit.readers.part import PARTIAL, UNSAID
from planguard.audit.rounds.moments import earlier
from planguard.execution.waits import circles, shortest_through
from planguard.recording import Progress

if TYPE_CHECKING:
    from collections.abc import Iterable

    from planguard.audit.rounds.channels import Channels
    from planguard.audit.rounds.moments import Earlier
    from planguard.audit.rounds.rounds import Rounds

STARTS = 64
"""Ranks of a part from which a shortest cycle is looked for: the searches cost a graph each."""


class Wait(Struct, frozen=True, gc=False):
    """One rank waits in one action for another rank.

    Attributes:
        rank: The rank that waits.
        action: Its action.
        group: Group of the action.
        position: Round of a collective; 0 for sends and receives.
        target: The rank that it waits for.
        why: ``collective-incomplete``, ``send-unmatched``, ``recv-unmatched``, or ``queue`` when
            the target has issued its side and not started it.
        owed: The target's action that would free it, where it was issued.
    """

    rank: int
    action: int
    group: str
    position: int
    target: int
    why: str
    owed: int | None = None


@dataclass
class Graph:
    """All waits of a recording.

    Attributes:
        waits: Waits by the rank that waits.
        standing: The actions that every rank was left in, oldest first.
        met: Sends and their receives, rank and action of each, that met and did not both end.
        unknown: Waits for ranks without a record.
        arrived: Group and position of collectives that every member has reached and none left.
        guessed: Groups whose members were not recorded, with the ranks one of which must belong to
            them and is waited for.
        earlier: Ranks whose recordings end at an earlier moment than those of others.
        passed: Waits of such ranks and for them: what was seen later has, or may have, ended them.
    """

    waits: dict[int, list[Wait]] = field(default_factory=lambda: defaultdict(list))
    standing: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    met: list[tuple[tuple[int, int], tuple[int, int]]] = field(default_factory=list)
    unknown: list[Wait] = field(default_factory=list)
    arrived: list[tuple[str, int]] = field(default_factory=list)
    guessed: dict[str, list[int]] = field(default_factory=dict)
    earlier: dict[int, Earlier] = field(default_factory=dict)
    passed: list[Wait] = field(default_factory=list)

    def targets(self, rank: int) -> Iterable[int]:
        """Return the ranks that a rank waits for."""
        return (wait.target for wait in self.waits.get(rank, ()))

    def ends(self) -> dict[int, list[Wait]]:
        """Return the ranks that others wait for and that wait for nobody, with those waits."""
        found: dict[int, list[Wait]] = defaultdict(list)
        elsewhere = {wait.rank for wait in (*self.unknown, *self.passed)}
        for waits in self.waits.values():
            for wait in waits:
                if not self.waits.get(wait.target) and wait.target not in elsewhere:
                    found[wait.target].append(wait)
        return dict(found)

    def behind(self, roots: Iterable[int]) -> list[tuple[str, list[int]]]:
        """Return the wavefront: the groups through which ranks wait for the roots, nearest first.

        Every group comes with the ranks that it blocks and that were not blocked before.
        """
        back: dict[int, list[Wait]] = defaultdict(list)
        for waits in self.waits.values():
            for wait in waits:
                back[wait.target].append(wait)
        reached, queue = set(roots), deque(roots)
        front: dict[str, list[int]] = {}
        while queue:
            for wait in sorted(back[queue.popleft()], key=lambda w: (w.group, w.rank)):
                if wait.rank not in reached:
                    reached.add(wait.rank)
                    queue.append(wait.rank)
                    front.setdefault(wait.group, []).append(wait.rank)
        return [(group, sorted(ranks)) for group, ranks in front.items()]

    def cycles(self) -> list[tuple[list[Wait], list[int]]]:
        """Return one shortest cycle of every strongly connected part, and the ranks of that part.

        A cycle is given as its waits in order.
        """
        targets = {rank: list(self.targets(rank)) for rank in self.waits}
        found = []
        for part in circles({rank: sorted({*targets[rank]}) for rank in sorted(targets)}):
            if len(part) < 2:
                continue
            ways = (shortest_through(rank, targets, set(part)) for rank in sorted(part)[:STARTS])
            ring = min(filter(None, ways), key=len)
            waits = [
                next(wait for wait in self.waits[rank] if wait.target == after)
                for rank, after in zip(ring, [*ring[1:], ring[0]], strict=True)
            ]
            found.append((waits, sorted(part)))
        return found


def wait_graph(rounds: Rounds, channels: Channels) -> Graph:
    """Return who waits for whom in a recording."""
    graph = Graph()
    for rank, places in rounds.waiting.items():
        for group, position in places:
            _collective(graph, rounds, rank, group, position)
    for wait in channels.waits():
        graph.standing[wait.rank].append(wait.action)
        if wait.target in rounds.recording.ranks:
            graph.waits[wait.rank].append(wait)
        else:
            graph.unknown.append(wait)
    for rank in channels.blind:
        graph.standing[rank].append(channels.blind[rank])
    for (_, source, target), send, recv in channels.met():
        graph.met.append(((source, send), (target, recv)))
        graph.standing[source].append(send)
        graph.standing[target].append(recv)
    _guess(graph, rounds)
    _pass(graph, rounds, channels)
    for actions in graph.standing.values():
        actions.sort()
    graph.arrived = _arrived(graph, rounds)
    return graph


def _collective(graph: Graph, rounds: Rounds, rank: int, group: str, position: int) -> None:
    lines = rounds.lines[group]
    action = lines[rank].action(position)
    graph.standing[rank].append(action)
    absent, unknown = rounds.absent(group, position)
    why = "collective-incomplete"
    waits = [Wait(rank, action, group, position, member, why) for member in absent]
    graph.unknown += [Wait(rank, action, group, position, member, why) for member in unknown]
    if lines[rank].state(position) == Progress.STARTED:
        waits += [
            Wait(rank, action, group, position, member, "queue", owed)
            for member, owed in rounds.queued(group, position)
        ]
    if waits:
        graph.waits[rank] += waits


def _guess(graph: Graph, rounds: Rounds) -> None:
    """Add waits on groups whose members were not recorded.

    Those who were seen in the group all wait, so one more rank belongs to it. Where every rank that
    can be the one stands in a communication itself, each of them is waited for as far as is known.
    A log tells of what failed only: two groups that it knows by their time-outs may both be whole.
    """
    ranks = rounds.recording.ranks
    for places in list(rounds.waiting.values()):
        for group, position in places:
            known = rounds.recording.groups.get(group)
            if known is None or known.ranks is not None or group.startswith(UNSAID):
                continue
            lines = rounds.lines[group]
            others = [rank for rank in ranks if rank not in lines]
            if any(ranks[rank].kind in PARTIAL for rank in (*lines, *others)):
                continue
            is_here = all(line.end >= position for line in lines.values())
            if not others or not is_here or any(not graph.standing.get(rank) for rank in others):
                continue
            graph.guessed[group] = others
            for rank, line in lines.items():
                action = line.action(position)
                mine = {(w.group, w.target) for w in graph.waits.get(rank, ())}
                graph.waits[rank] += [
                    Wait(rank, action, group, position, other, "collective-incomplete")
                    for other in others
                    if (group, other) not in mine
                ]


def _pass(graph: Graph, rounds: Rounds, channels: Channels) -> None:
    """Take out what recordings show that end earlier than others: their ranks went on."""
    graph.earlier = earlier(rounds, channels)
    if not graph.earlier:
        return
    for rank in list(graph.waits):
        own = graph.waits[rank]
        kept = [w for w in own if not {w.rank, w.target} & graph.earlier.keys()]
        graph.passed += [wait for wait in own if wait not in kept]
        if kept:
            graph.waits[rank] = kept
        else:
            del graph.waits[rank]
    graph.passed += [wait for wait in graph.unknown if wait.rank in graph.earlier]
    graph.unknown = [wait for wait in graph.unknown if wait.rank not in graph.earlier]
    for rank, one in graph.earlier.items():
        if not one.has_come:
            graph.standing.pop(rank, None)


def _arrived(graph: Graph, rounds: Rounds) -> list[tuple[str, int]]:
    """Return rounds that somebody is left in although nobody is missing."""
    held = {(w.group, w.position) for waits in graph.waits.values() for w in waits}
    held |= {(w.group, w.position) for w in (*graph.unknown, *graph.passed)}
    left = {
        place
        for rank, places in rounds.waiting.items()
        for place in places
        if rank not in graph.earlier or graph.earlier[rank].has_come
    }
    return sorted(left - held)
