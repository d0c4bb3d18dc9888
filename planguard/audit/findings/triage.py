"""What a recorded run was stuck in, and which rank is the first that did not come."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from planguard.audit.findings import came, groups, say, say_rounds, standing
from planguard.audit.readers.part import MOMENT
from planguard.audit.rounds.channels import Channels
from planguard.audit.rounds.disagree import causes, departures, disagreements
from planguard.audit.rounds.exchanges import unequal
from planguard.audit.rounds.moments import doubtful, told
from planguard.audit.rounds.rounds import Rounds
from planguard.audit.rounds.waits import Graph, wait_graph
from planguard.recording import Gap
from planguard.words import name_ranks, shown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from planguard.audit.rounds.disagree import Departure, Disagreement
    from planguard.audit.rounds.waits import Wait
    from planguard.recording import Recording
    from planguard.verdict import Finding


RETIRED = (
    "the recorder of {} writes the same of calls that ended with an error as of those that "
    "completed: its last call did either, and then the other recordings end earlier"
)


@dataclass(frozen=True)
class Triage:
    """What was found in a recording.

    Attributes:
        recording: The recording.
        findings: Causes first; nothing about gaps, which stand beside.
        graph: Who waits for whom.
        rounds: The collectives by group and rank.
        open: Questions that the recording leaves open, one sentence each.
        doubts: What makes that a rank did not come less than certain, with the ranks.
    """

    recording: Recording
    findings: tuple[Finding, ...]
    graph: Graph
    rounds: Rounds
    open: tuple[str, ...] = ()
    doubts: tuple[Gap, ...] = ()

    @property
    def is_stuck(self) -> bool:
        """True when some rank was left in a communication."""
        return bool(self.graph.standing)


def triage(recording: Recording) -> Triage:
    """Return where every rank stopped, why, and what follows from it."""
    rounds, channels = Rounds(recording), Channels(recording)
    graph = wait_graph(rounds, channels)
    scene = Scene(recording, rounds, channels, graph)
    findings = list(scene.findings())
    scene.open += told(graph.earlier.values())
    waits = [wait for own in graph.waits.values() for wait in own]
    doubts = [Gap(MOMENT, said, "PG904", (rank,)) for rank, said in doubtful(rounds, waits)]
    for group, last in rounds.behind.items():
        said = f"the numbers of group {shown(group)} began anew on {name_ranks(last)} only"
        more = "whether the others did not come so far, or their recorders did not, is not known"
        doubts.append(Gap(MOMENT, f"{said}: {more}", "PG904", tuple(last)))
    if rounds.failed:
        ranks = tuple(sorted({rank for rank, _ in rounds.failed}))
        doubts.append(Gap(MOMENT, RETIRED.format(name_ranks(ranks)), "PG904", ranks))
    return Triage(recording, tuple(findings), graph, rounds, tuple(scene.open), tuple(doubts))


class Scene:
    """One recording under examination.

    Attributes:
        recording: The recording.
        rounds: Its collectives.
        channels: Its sends and receives.
        graph: Who waits for whom.
        open: Questions left open.
    """

    def __init__(
        self, recording: Recording, rounds: Rounds, channels: Channels, graph: Graph
    ) -> None:
        self.recording, self.rounds = recording, rounds
        self.channels, self.graph = channels, graph
        self.open: list[str] = []

    def findings(self) -> Iterator[Finding]:
        """Yield the causes, the nearest to the root first."""
        # Who may have gone on behind an error is missing as others are, beside what is said of it.
        ranks = self.recording.ranks.items()
        crashed = {rank for rank, one in ranks if one.crash and not one.crash_doubt}
        yield from standing.crashes(self)
        left = departures(self.rounds)
        explained: set[str] = set()
        for group, found in groups.disputed(self):
            explained.add(group)
            yield found
        for one, also in causes(self.rounds, self._disagreements(explained)):
            explained |= {one.group, *(d.group for d in also)}
            yield say_rounds.disagreement(self, one, self._departure_of(one, left), also)
        for group in dict.fromkeys(one.group for one in left):
            if group not in explained and self._matters(group, left):
                explained.add(group)
                yield say_rounds.departure(self, [one for one in left if one.group == group])
        yield from say_rounds.impossible(self, explained)
        for uneven in unequal(self.rounds):
            if uneven.group not in explained:
                explained.add(uneven.group)
                yield say_rounds.unequal_exchange(self, uneven)
        yield from say_rounds.pair_disagreements(self)
        yield from self._stuck(explained, crashed)

    def _disagreements(self, explained: set[str]) -> list[Disagreement]:
        """Return rounds that disagree, but not of groups whose members disagree themselves."""
        return [one for one in disagreements(self.rounds) if one.group not in explained]

    def _departure_of(self, one: Disagreement, left: list[Departure]) -> Departure | None:
        near = [d for d in left if d.group == one.group and d.position <= one.position]
        return min(near, key=lambda d: (d.rank not in one.odd, d.position), default=None)

    def _matters(self, group: str, left: list[Departure]) -> bool:
        """Tell whether a departure is a fault: a swap, or a shift that leaves ranks waiting."""
        if any(one.kind == "swapped" for one in left if one.group == group):
            return True
        lines = self.rounds.lines[group]
        is_left = any(
            group == place for places in self.rounds.waiting.values() for place, _ in places
        )
        return is_left and len({line.end for line in lines.values()}) > 1

    def _stuck(self, explained: set[str], crashed: set[int]) -> Iterator[Finding]:
        """Yield cycles, then missing participants, then what is stuck for reasons not recorded."""
        told: set[int] = set(crashed)
        for cycle, part in self.graph.cycles():
            # What touches a group whose rounds are wrong follows from that.
            if explained & {wait.group for wait in cycle}:
                continue
            told |= {wait.rank for wait in cycle}
            yield say.cycle(self, cycle, part)
        halted = self._halted()
        for root in self._roots():
            # Who stands in a round to which all came is not the one that everybody waits for.
            waits = [wait for wait in root if wait.target not in halted]
            if not waits:
                continue
            groups = {wait.group for wait in waits}
            absent = {wait.target for wait in waits}
            # So does what waits for a rank that is held in such a group, or that has crashed.
            if explained & groups or all(self._is_held(r, explained) for r in absent - crashed):
                told |= absent
                continue
            told |= absent
            never = [wait for wait in waits if wait.owed is None]
            yield say.missing(self, never) if never else came.unstarted(self, waits)
        if not told and not explained:
            yield from self._unexplained()

    def _halted(self) -> set[int]:
        """Return the ranks that stand in a round, or message, that all have reached and none left.

        Of a group whose members are all known: else one of them may be who has not come. And only
        where it is the first open call of each: another one in front of it may hold it up, and then
        who has not come to that one is missing.
        """
        found = set()
        for group, position in self.graph.arrived:
            known, lines = self.recording.groups.get(group), self.rounds.lines[group]
            here = [rank for rank, line in lines.items() if line.has(position)]
            is_known = known is not None and known.ranks is not None
            is_first = all(
                min(self.graph.standing.get(rank, [0])) == lines[rank].action(position)
                for rank in here
            )
            if is_known and is_first and not came.may_be_more(self, here):
                found |= set(here)
        for pair in self.graph.met:
            if all(min(self.graph.standing[rank]) == action for rank, action in pair):
                found |= {rank for rank, _ in pair}
        return found

    def _is_held(self, rank: int, explained: set[str]) -> bool:
        """Tell whether a rank was left in a round of a group that is explained."""
        track = self.recording.ranks[rank].track
        groups = {track.call_at(action).group for action in self.graph.standing.get(rank, ())}
        return not explained.isdisjoint(groups)

    def _roots(self) -> list[list[Wait]]:
        """Return the waits for each rank or set of ranks that everybody else waits for.

        Ranks that are missing from the same round are one cause.
        """
        causes: dict[tuple[str, int, str], list[Wait]] = {}
        for rank, waits in sorted(self.graph.ends().items()):
            first = min(waits, key=self.since)
            same = [w for w in waits if (w.group, w.position) == (first.group, first.position)]
            kind = "" if first.position else f"{rank}{first.why}"
            causes.setdefault((first.group, first.position, kind), []).extend(same)
        return sorted(causes.values(), key=lambda ws: (-len(ws), ws[0].group, ws[0].target))

    def since(self, wait: Wait) -> tuple[int, int, str]:
        """Order waits by when they began; without times, by their numbers."""
        began = self.recording.ranks[wait.rank].track.created[wait.action]
        return began, wait.position, wait.group

    def _unexplained(self) -> Iterator[Finding]:
        complaints = [*standing.raised(self), *standing.complaints(self)]
        yield from complaints
        if self.graph.unknown:
            yield say.unknown_partner(self)
        elif self.graph.arrived:
            yield from came.arrived(self)
        elif self.channels.blind:
            yield say.blind(self)
        elif self.graph.met:
            yield from came.met(self)
        elif not complaints:
            yield from standing.roll_call(self)
