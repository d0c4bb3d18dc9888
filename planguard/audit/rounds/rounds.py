"""Rounds: which call of which rank meets which on a group, by the recorders' own numbers."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from functools import cached_property
from operator import itemgetter
from typing import TYPE_CHECKING

from planguard.audit.readers.part import PARTIAL, UNSAID
from planguard.plan.vocabulary import EVERYONE
from planguard.recording import UNNAMED, Call, Progress
from planguard.words import shown

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from planguard.recording import Recording, Track

HOLE = -1
_OPEN = (Progress.ISSUED, Progress.STARTED, Progress.FAILED)
_COMPLETED = Progress.COMPLETED
_DONE = bytes([_COMPLETED])

Sign = tuple[str | None, int | None, str | None, tuple[object, ...] | None, int | None, str | None]
"""Family, size, element type, shape, root, reduce operation: what members of a round agree on."""


@dataclass
class Line:
    """The collectives of one rank on one group.

    Attributes:
        rank: The rank.
        first: Position of the first one.
        signs: Signature number by position, from ``first``; ``HOLE`` where nothing was recorded.
        sites: Call-site number by position.
        actions: Action index by position.
        progress: Progress by position.
    """

    rank: int
    first: int = 1
    signs: list[int] = field(default_factory=list)
    sites: list[int] = field(default_factory=list)
    actions: list[int] = field(default_factory=list)
    progress: bytearray = field(default_factory=bytearray)

    @property
    def end(self) -> int:
        """Position of the last collective; ``first - 1`` when there is none."""
        return self.first + len(self.signs) - 1

    def has(self, position: int) -> bool:
        """Tell whether this rank was seen calling its collective of that number."""
        place = position - self.first
        return 0 <= place < len(self.signs) and self.signs[place] != HOLE

    def sign(self, position: int) -> int:
        """Return the signature number at a position, or ``HOLE``."""
        return self.signs[position - self.first] if self.has(position) else HOLE

    def action(self, position: int) -> int:
        """Return the action index at a position."""
        return self.actions[position - self.first]

    def state(self, position: int) -> Progress:
        """Return how far the collective at a position came."""
        return Progress(self.progress[position - self.first])


class Rounds:
    """All collectives of a recording, by group and rank.

    Attributes:
        recording: The recording.
        lines: Lines by group and rank.
        signs: Signatures by number.
        unsaid: Ranks whose calls do not say their groups.
        failed: Ranks and groups whose last call may have ended with an error.
        anew: How often a rank's numbers of a group began anew: only the last of them are kept.
        behind: Groups of which some ranks have not begun anew as often as others, and the others:
            what those ranks called before is none of the last rounds.
    """

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        self.lines: dict[str, dict[int, Line]] = defaultdict(dict)
        self.signs: list[Sign] = []
        self._numbers: dict[object, int] = {}
        self._site_numbers: dict[object, int] = {}
        self._of_call: dict[int, tuple[str | None, int, int]] = {}
        self._queued: dict[tuple[str, int], list[tuple[int, int]]] = {}
        self._absent: dict[tuple[str, int], tuple[list[int], list[int]]] = {}
        self._compatible: dict[tuple[int, int], bool] = {}
        self._shapes: dict[object, dict[int, tuple[list[int], list[int]]]] = {}
        self._columns: dict[object, tuple[list[int], list[int]]] = {}
        self._lacks_stacks = _lacks_stacks(recording)
        self.unsaid = unsaid(recording)
        self.failed: list[tuple[int, str]] = []
        self.anew: dict[tuple[str, int], int] = {}
        for rank, record in recording.ranks.items():
            self._add(rank, record.track)
        self.behind = self._put_behind()
        self._mark_failed()

    def _add(self, rank: int, track: Track) -> None:
        calls = [self._numbered(call) for call in track.calls]
        groups, signs, sites = tuple(zip(*calls, strict=True)) if calls else ((), (), ())
        numbers = signs, sites
        for group, actions, places in self._by_group(track, groups):
            line = self._line(rank, track, actions)
            if line is None:
                line = Line(rank, track.position[actions[0]] or 1)
                can_be_anew = self.recording.ranks[rank].kind == "flight-recorder"
                for action, place in zip(actions, places, strict=True):
                    # A ring keeps what is last, so that of two lives the second is whole. Calls of
                    # two threads may have been written in the other order, a few numbers apart.
                    if can_be_anew and track.position[action] == 1 and line.end > 1:
                        line = Line(rank, track.position[action])
                        self.anew[group, rank] = self.anew.get((group, rank), 0) + 1
                    self._append(line, track, action, signs[place], sites[place])
            else:
                key = id(places), numbers
                columns = self._columns.get(key)
                if columns is None:
                    columns = self._columns[key] = _pick(signs, places), _pick(sites, places)
                line.signs, line.sites = columns
            self.lines[group][rank] = line

    def _numbered(self, call: Call) -> tuple[str | None, int, int]:
        """Return the group of a collective, None of other calls, and numbers of sign and site."""
        # By identity: ranks that make equal calls share them, mostly.
        found = self._of_call.get(id(call))
        if found is None:
            group = call.group or "world" if call.is_collective else None
            site = self._site_numbers.setdefault(call.stack, len(self._site_numbers))
            found = self._of_call[id(call)] = group, self._sign(call), site
        return found

    def _by_group(
        self, track: Track, groups: tuple[str | None, ...]
    ) -> Iterator[tuple[str, list[int], list[int]]]:
        """Yield every group with a track's actions on it and the places of their calls.

        Ranks that make the same calls in the same order share these lists.
        """
        names = list(dict.fromkeys(group for group in groups if group is not None))
        numbers = {name: number for number, name in enumerate(names)}
        shape = bytes(track.call), tuple(numbers.get(g, HOLE) if g else HOLE for g in groups)
        found = self._shapes.get(shape)
        if found is None:
            found = self._shapes[shape] = {}
            for action, call in enumerate(track.call):
                if shape[1][call] != HOLE:
                    actions, places = found.setdefault(shape[1][call], ([], []))
                    actions.append(action)
                    places.append(call)
        for number, columns in found.items():
            yield names[number], *columns

    @staticmethod
    def _line(rank: int, track: Track, actions: list[int]) -> Line | None:
        """Return a line without signs and sites; None when its positions do not follow in a row."""
        positions = _pick(track.position, actions)
        first = positions[0]
        if first < 1 or positions != list(range(first, first + len(positions))):
            return None
        progress = bytearray(_pick(track.progress, actions))
        return Line(rank, first, actions=actions, progress=progress)

    def _append(self, line: Line, track: Track, action: int, sign: int, site: int) -> None:
        position = track.position[action]
        ahead = position - line.first - len(line.signs) if position else 0
        if ahead and not self._leap(line, ahead, sign):
            return
        line.signs.append(sign)
        line.sites.append(site)
        line.actions.append(action)
        line.progress.append(track.progress[action])

    def _leap(self, line: Line, ahead: int, sign: int) -> bool:
        """Fit a collective whose number is not the next one; False when it belongs to the last."""
        if ahead < 0:
            if ahead == -1 and line.signs:  # several calls of one launch share a number
                line.signs[-1] = self._number(("launch", line.signs[-1], sign), self.signs[sign])
            return False
        holes = min(ahead, 1_000_000)
        line.signs += [HOLE] * holes
        line.sites += [HOLE] * holes
        line.actions += [HOLE] * holes
        line.progress += bytes(holes)
        return True

    def _sign(self, call: Call) -> int:
        family = call.family
        if family == "reduce_scatter" and self._lacks_stacks:
            is_gloo = self.recording.backend_of(call.group or "world") == "gloo"
            family = "all_reduce" if is_gloo else family
        vector = family == "all_to_all"
        sign: Sign = (
            None if call.op == UNNAMED else family,
            None if vector or call.count is None else call.count,
            call.dtype,
            None if vector else call.shape,
            call.root,
            call.reduce_op,
        )
        return self._number(sign, sign)

    def _number(self, key: object, sign: Sign) -> int:
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self.signs)
            self.signs.append(sign)
        return number

    def is_told(self, sign: int) -> bool:
        """Tell whether a signature says at least which operation was called."""
        return sign != HOLE and self.signs[sign][0] is not None

    def is_one_call(self, sign: int) -> bool:
        """Tell whether a signature is of one call, and not of a launch of several."""
        return sign != HOLE and self._numbers.get(self.signs[sign]) == sign

    def agree(self, one: int, other: int) -> bool:
        """Tell whether two signatures can be of one round; what is not recorded agrees."""
        if one == other or HOLE in (one, other):
            return True
        known = self._compatible.get((one, other))
        if known is None:
            pairs = zip(self.signs[one], self.signs[other], strict=True)
            known = all(a is None or b is None or a == b for a, b in pairs)
            known = known and (one < 0 or other < 0 or not self._is_launch(one, other))
            self._compatible[one, other] = known
        return known

    def _is_launch(self, one: int, other: int) -> bool:
        """Tell whether two launches of several calls differ although their first calls agree."""
        return self.signs[one] == self.signs[other]

    def _mark_failed(self) -> None:
        """Find operations that count as completed on a rank although a member never called them.

        Recorders that retire what ended with an error make them look completed. Such a call is the
        last one of its rank: who goes on behind it has completed it. Whether it is one, or the
        recording of the member ends earlier, is not recorded.
        """
        for group, lines in self.lines.items():
            members = self.recording.members(group)
            if not any(self._retires_failures(rank, group) for rank in lines):
                continue
            if not all(self._is_whole(rank) for rank in members):
                continue
            least = min((lines[rank].end if rank in lines else 0 for rank in members), default=0)
            for rank, line in lines.items():
                is_next = self._retires_failures(rank, group) and line.end == least + 1
                if not is_next or not line.has(line.end) or line.state(line.end) != _COMPLETED:
                    continue
                is_last = line.action(line.end) == len(self.recording.ranks[rank].track) - 1
                if is_last and self.signs[line.sign(line.end)][0] in EVERYONE:
                    line.progress[-1] = Progress.FAILED
                    self.failed.append((rank, group))

    def _retires_failures(self, rank: int, group: str) -> bool:
        """Tell whether a recorder writes the same of a call that failed as of one that completed.

        Gloo retires both (torch 2.13, seen on calls that came to their time limit), and ClogHook
        writes ``E`` for both (``TorchWork.hpp`` of torchcomms 0.3.0). NCCL asks its events.
        """
        kind = self.recording.ranks[rank].kind
        is_gloo = self.recording.backend_of(group) in (None, "gloo")
        return kind == "clog" or (kind == "flight-recorder" and is_gloo)

    def _is_whole(self, rank: int) -> bool:
        """Tell whether the record of a rank would hold a call that the rank made."""
        record = self.recording.ranks.get(rank)
        return record is not None and record.kind not in PARTIAL

    @cached_property
    def waiting(self) -> dict[int, list[tuple[str, int]]]:
        """Group and position of every collective that a rank was left waiting in, one per group.

        Rounds of a group end in order: who has not come to a later one may be held by the first,
        in which it stands itself.
        """
        found: dict[int, list[tuple[str, int]]] = defaultdict(list)
        for group, lines in self.lines.items():
            members = self.members(group)
            known = min((lines[r].end if r in lines else 0 for r in members), default=0)
            if not self.unsaid.isdisjoint(members):
                known = max(line.end for line in lines.values())
            for rank, line in lines.items():
                rest = line.progress.lstrip(_DONE)
                for place, state in enumerate(rest, len(line.progress) - len(rest)):
                    position = line.first + place
                    is_open = state in _OPEN or (state == Progress.UNKNOWN and position > known)
                    if is_open and line.signs[place] != HOLE:
                        found[rank].append((group, position))
                        break
        return dict(found)

    def begun_late(self) -> Iterator[str]:
        """Yield a sentence for each group of which recordings begin at other rounds, or anew.

        A recorder that was switched on later holds no earlier calls, and says nothing of that.
        """
        for group, lines in self.lines.items():
            firsts = {line.first: rank for rank, line in reversed(lines.items())}
            starts = {self.anew.get((group, rank), 0): rank for rank in lines}
            if len(starts) == 1 and len(firsts) > 1:
                told = ", ".join(f"#{at} on rank {firsts[at]}" for at in sorted(firsts)[:3])
                yield f"the recordings of group {shown(group)} begin at other rounds ({told})"

    def _put_behind(self) -> dict[str, list[int]]:
        """Take out the lines of ranks whose numbers of a group began anew less often than most."""
        found = {}
        for group in dict.fromkeys(group for group, _ in self.anew):
            lines = self.lines[group]
            counts = {rank: self.anew.get((group, rank), 0) for rank in lines}
            last = [rank for rank, count in counts.items() if count == max(counts.values())]
            if len(last) < len(lines):
                found[group] = last
                lines.update({rank: Line(rank) for rank in lines if rank not in last})
        return found

    def absent(self, group: str, position: int) -> tuple[list[int], list[int]]:
        """Return the members that never called a round, and those of which that is not known.

        Of a rank without a record nothing is known, nor of one whose stack stands in some call.
        """
        known = self._absent.get((group, position))
        if known is None:
            lines, ranks = self.lines[group], self.recording.ranks
            members = self.recording.members(group)
            late = [m for m in members if m not in lines or lines[m].end < position]
            known = self._absent[group, position] = (
                [m for m in late if m in ranks and not ranks[m].stands_unseen],
                [m for m in late if m not in ranks or ranks[m].stands_unseen],
            )
        return known

    def queued(self, group: str, position: int) -> list[tuple[int, int]]:
        """Return rank and action of the members that issued a round and have not started it."""
        known = self._queued.get((group, position))
        if known is None:
            known = self._queued[group, position] = [
                (rank, line.action(position))
                for rank, line in self.lines[group].items()
                if line.has(position) and line.state(position) == Progress.ISSUED
            ]
        return known

    def members(self, group: str) -> tuple[int, ...]:
        """Return the members of a group that left a record."""
        return tuple(rank for rank in self.recording.members(group) if rank in self.recording.ranks)


def _pick(column: Sequence[int], places: Sequence[int]) -> list[int]:
    """Return the elements of a column at some places."""
    return list(itemgetter(*places)(column)) if len(places) > 1 else [column[places[0]]]


def unsaid(recording: Recording) -> set[int]:
    """Return the ranks whose calls do not say their groups: nothing follows from their absence."""
    if not any(name.startswith(UNSAID) for name in recording.groups):
        return set()
    return {
        rank
        for rank, record in recording.ranks.items()
        if any((call.group or "").startswith(UNSAID) for call in record.track.calls)
    }


def _lacks_stacks(recording: Recording) -> bool:
    # By identity: ranks that make equal calls share them, mostly.
    tracks = (record.track for record in recording.ranks.values())
    calls = {id(call): call for track in tracks for call in track.calls}
    return any(call.family == "all_reduce" and not call.stack for call in calls.values())
