"""What would follow if ranks got other answers from their own machine and process.

A play in which all ranks agreed says nothing yet where they asked something that each of them knows
for itself (``own_answers``). So it is played again with every second rank answered otherwise; then
with the other ones. What issues the same calls, or agrees all the same, needs no more. Else the
kinds of questions are played one by one, and where that helps the lines, to name what decides.

* The order of a set is another on every rank of every run: what goes wrong then is a finding.
* A clock, a folder, a file, a host, a random state may answer alike: there nothing is decided, and
  the line is named; nor where a rank raises because a file is said to be there that is not, for
  instance. A rank that raises when its time is over, or since it cannot open a file, ends the job,
  which is no divergence.

Above 400 lines: which play comes next hangs on how all before it ended.
"""

from __future__ import annotations

import linecache
import re
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from planguard.capture.play.further import Further, held_answers, is_led
from planguard.capture.play.odd_words import (
    blame,
    note,
    note_cut,
    note_few,
    note_untried,
    ranks_of,
    words_of,
)
from planguard.capture.restarts import next_start, note_start, part
from planguard.capture.values.own_answers import CERTAIN, CLOCK, OPENED, ORDER, SEED, Odd, Site
from planguard.capture.values.own_database import DATABASE
from planguard.capture.values.own_dice import own_seeds
from planguard.capture.values.own_events import MEMORY, NETWORK, SIGNAL, TIMER
from planguard.capture.values.own_files import CLAIM, FEW, MANY, Holding
from planguard.capture.values.own_host import FACT, TOLD
from planguard.capture.values.own_installed import INSTALLED
from planguard.capture.values.own_places import HELD
from planguard.capture.values.own_turns import TURN
from planguard.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    from planguard.capture.play.ranks import Play
    from planguard.verdict import Verdict

MOST_LINES = 12
"""Lines of one kind that are played one by one; beyond, the kind is named with its first lines."""
READ_WHOLE = 200_000
"""Characters of a program that is read whole for what its clocks may decide (about two seconds);
of more, the files whose code ran."""
_UNREAD = "unread"
"""How a play ended in which a rank raises and may have read in a file that is not here."""
LONGEST = 60.0
"""Seconds that a rank may take where it reads other values: a loop may end no more."""
_HELD_FOR, _TIMES = 20.0, 10.0
"""Seconds that all ranks may take where a file that is not here holds a large number, and how often
as long as the plays before."""
_TURNS = ((1, 2), (2, 0))
"""Where sets begin on odd ranks and on the others: with the other end, each quarter is compared."""
_ENDING = frozenset({SIGNAL, TIMER, MEMORY, NETWORK, TURN, INSTALLED, DATABASE})
"""What a program may be ready for by a handler that ends the process, or hands the error on; and
packages and rows without which it cannot go on."""
_ONE_BY_ONE = frozenset({CLOCK, OPENED, SIGNAL, TIMER, MEMORY, NETWORK, TURN})
"""Kinds of which one line at a time says what follows."""
_AGREEING = ("same", "safe", "raised", "cut")
_NOT_OPENED = ("FileNotFoundError", "FileExistsError", "BlockingIOError")
"""What stands in the frames of a rank that ends since it cannot open a file."""


@dataclass(frozen=True)
class Ended:
    """How a play with odd answers ended.

    Attributes:
        how: ``same``, ``safe``, ``unsafe``; ``raised`` where an odd rank ends the job; ``cut``
            where all ranks agreed to open a file that is not here; else ``open``.
        play: The play; None where it tells nothing.
        told: The first finding.
    """

    how: str
    play: Play | None = None
    told: str = ""


@dataclass
class OddPlays:
    """Decides what follows from other answers, for one job played once or for many samples.

    Attributes:
        decide: Checks the plan of a play.
        cut: Questions that ranks agreed on, up to a file that is not here.
        known: Questions that were played with another assignment of samples, and decided nothing.
    """

    decide: Callable[[Play], Verdict]
    known: set[Site]
    cut: dict[str, None] = field(default_factory=dict)
    few: dict[str, None] = field(default_factory=dict)
    _took: float = 0.0

    def ask(self, play: Play) -> Play:
        """Return the play that decides, with entries for the ledger in its logs.

        Args:
            play: A play that is safe.

        Returns:
            The same, with what was found out noted; or one with odd ranks that is unsafe.
        """
        sites = [one for one in _sites(play) if one[0] in CERTAIN or one not in self.known]
        starts, new = part(sites)
        if starts:
            with next_start():
                ended = self.ended(play, Odd(frozenset()))
            anew = note_start(play, ended.play, ended.how, starts)
            if anew is not play:
                return anew
            self.known.update(starts)
        if not new:
            return play
        doubts: dict[tuple[str, str], None] = {}
        raised: dict[str, None] = {}
        files = files_of(play)
        seeds: dict[Site, None] = {}
        follows = is_led(new) and size_of(files) > READ_WHOLE
        for odd in _halves(play):
            ended = self.ended(play, Odd(odd, frozenset(new), follows=follows))
            if ended.play is not None:
                own = own_seeds(_seeds(play), _seeds(ended.play))
                seeds.update(dict.fromkeys((SEED, place) for place in own))
            if follows and ended.play is not None:
                files, follows = files_of(ended.play), False
            if ended.how in ("same", "safe"):
                continue
            ending: set[str] = set()
            found = self._by_kind(play, odd, new, ended, doubts, raised, ending)
            if found is not None:
                return found
            if ended.how not in ("raised", "cut") and not doubts:
                self._together(play, odd, [one for one in new if one[0] not in ending], new, doubts)
            if doubts and not any(kind in CERTAIN for kind, _ in new):
                break  # undecided it is; a finding could come of no other half
        found = None if doubts else self._from_quarters(play, new, doubts)
        if found is not None:
            return found
        more = Further() if doubts else Further.of([*new, *seeds], files)
        for answer in more.answers:
            if not doubts:
                self._further(play, answer, doubts, raised)
        self.known.update(new)
        note(play, [*new, *seeds], doubts, raised, more.words)
        if more.untried and not doubts:
            note_untried(play, [*new, *seeds], more.untried)
        note_cut(play, self.cut)
        note_few(play, self.few)
        return play

    def _together(
        self,
        play: Play,
        odd: frozenset[int],
        rest: list[Site],
        sites: list[Site],
        doubts: dict[tuple[str, str], None],
    ) -> None:
        """Play the kinds together that do not end the job: what ends it hides what they do."""
        is_new = len(rest) < len(sites)
        alone = self.ended(play, Odd(odd, frozenset(rest))) if rest and is_new else None
        if rest and (alone is None or alone.how not in _AGREEING):
            doubts[words_of(rest), ranks_of(odd)] = None

    def _from_quarters(
        self, play: Play, sites: list[Site], doubts: dict[tuple[str, str], None]
    ) -> Play | None:
        """Play with sets that begin elsewhere; return a play that is a finding.

        The first and the last element may lead alike where another one does not.
        """
        sets = [one for one in sites if one[0] == ORDER]
        odd = next(_halves(play), frozenset[int]())
        for turns in _TURNS if sets and odd else ():
            ended = self.ended(play, Odd(odd, frozenset(sets), turns=turns))
            if ended.how == "unsafe" and ended.play is not None:
                blame(ended.play, sets, odd)
                return ended.play
            if ended.how not in ("same", "safe"):
                doubts[words_of(sets), ranks_of(odd)] = None
                break
        return None

    def _further(
        self,
        play: Play,
        answer: Odd,
        doubts: dict[tuple[str, str], None],
        raised: dict[str, None],
    ) -> None:
        """Play one more answer to questions of one kind, then line by line where that decides."""
        asked = list(answer.sites or ())
        for odd in _halves(play):
            ended = self.ended(play, replace(answer, ranks=odd))
            if ended.how in ("same", "safe"):
                continue
            guilty = self._lines(play, replace(answer, ranks=odd), asked, ended)
            if guilty or ended.how != "raised" or len(asked) > MOST_LINES:
                doubts[words_of(guilty or asked), ranks_of(odd)] = None
                return
            raised[words_of(asked)] = None

    def _by_kind(
        self,
        play: Play,
        odd: frozenset[int],
        sites: list[Site],
        whole: Ended,
        doubts: dict[tuple[str, str], None],
        raised: dict[str, None],
        ending: set[str],
    ) -> Play | None:
        """Play kind by kind, then line by line; return a play that is a finding.

        Sets keep one order in a process: what goes wrong there is told with all of them.
        """
        for kind in dict.fromkeys(kind for kind, _ in sites):
            its = [one for one in sites if one[0] == kind]
            ended = whole
            if len(its) < len(sites):
                ended = self.ended(play, Odd(odd, frozenset(its)))
            if ended.how in ("same", "safe"):
                continue
            if kind in CERTAIN and ended.how == "unsafe" and ended.play is not None:
                guilty = self._lines(play, Odd(odd), its, ended, {"unsafe"})
                blame(ended.play, guilty or its, odd)
                return ended.play
            lines = its if kind in CERTAIN else self._lines(play, Odd(odd), its, ended)
            if lines:
                doubts[words_of(lines), ranks_of(odd)] = None
            elif ended.how == "cut" and len(its) <= MOST_LINES:
                self.cut[words_of(its)] = None
                ending.add(kind)
            elif self._is_ending(kind, its, ended):
                raised[words_of(its)] = None  # no line by itself does anything but that
                ending.add(kind)
            else:
                doubts[words_of(its), ranks_of(odd)] = None
        return None

    @staticmethod
    def _is_ending(kind: str, its: list[Site], ended: Ended) -> bool:
        """Tell whether a rank that raises ends the job there, and no line does anything else."""
        if len(its) > MOST_LINES:
            return False
        return kind in _ONE_BY_ONE or (kind in (CLAIM, *_ENDING) and ended.how == "raised")

    def _lines(
        self,
        play: Play,
        answer: Odd,
        sites: list[Site],
        whole: Ended,
        bad: Collection[str] = ("unsafe", "open"),
    ) -> list[Site]:
        """Return the questions that decide each by itself; what is too much is not played."""
        if len(sites) == 1:
            return sites if whole.how in bad else []
        if len(sites) > MOST_LINES:
            return []
        alone = ((one, replace(answer, sites=frozenset([one]))) for one in sites)
        guilty = [one for one, odd in alone if self.ended(play, odd).how in bad]
        # A clock stays ahead, so that every question up to the one that decides has that effect.
        is_later = sites[0][0] == CLOCK and answer.moment is None
        return guilty[-1:] if is_later else guilty

    def ended(self, play: Play, odd: Odd) -> Ended:
        """Play with odd ranks; tell how that ended.

        Where a rank raises on what it reads in a file that is not here, that file holds something
        else, as far as anything is known that the program takes.
        """
        found = self._ended(play, odd)
        if found.how != _UNREAD:
            return found
        if odd.holding is not Holding.NOTHING:
            return Ended("raised")
        for answer in held_answers(odd.sites or frozenset(), files_of(play)):
            held = self._ended(play, replace(odd, holding=answer.holding, keys=answer.keys))
            if held.how != _UNREAD:
                return held
        return Ended("open")

    def _ended(self, play: Play, odd: Odd) -> Ended:
        most = None if odd.sides is None else LONGEST
        is_far = odd.holding is not Holding.NOTHING and odd.number == MANY
        whole = max(_HELD_FOR, _TIMES * self._took) if is_far else None
        began = time.monotonic()
        try:
            again = play.again(odd, most, whole)
        except UsageError:  # a rank that does not finish, for example
            if not is_far:
                return Ended("open")
            # All ranks may walk as far together as the file says, each call in its time.
            self.few[words_of(sorted(odd.sites or ()))] = None
            return self._ended(play, replace(odd, number=FEW))
        if not is_far:
            self._took = max(self._took, time.monotonic() - began)
        if _content(again) == _content(play):
            return Ended("same", again)
        failed = {rank for rank, log in again.logs.items() if log.end}
        if (
            failed
            and (failed <= odd.ranks or odd.is_uneven)  # then all clocks are other ones
            and _ends_job(odd, [again.logs[one].trace for one in failed])
        ):
            return Ended("raised")
        if (
            failed
            and failed <= odd.ranks
            and any(kind in (OPENED, HELD) for kind, _ in odd.sites or ())
        ):
            return Ended(_UNREAD)
        verdict = self.decide(again)
        if verdict.safe and _is_cut(again):
            return Ended("cut", again)
        traces = [log.trace for log in again.logs.values()]
        if verdict.safe and failed == again.logs.keys() and _ends_job(odd, traces):
            return Ended("raised")  # all agreed on it, and none of them can take it
        if verdict.unsafe:
            return Ended("unsafe", again, verdict.findings[0].message)
        if failed:
            return Ended("open")
        return Ended("safe" if verdict.safe else "open", again)


def _ends_job(odd: Odd, traces: list[str]) -> bool:
    """Tell whether a rank that raises at these answers ends the job, which is no divergence."""
    kinds = {kind for kind, _ in odd.sites or ()}
    if odd.sides is not None or odd.held.is_less or (CLOCK in kinds and not kinds & CERTAIN):
        return True
    if kinds and kinds <= _ENDING:
        return True
    if kinds in ({TOLD}, {HELD}) and odd.named is not None:
        return True  # no output, or no file, that this program reads
    if kinds == {FACT} and isinstance(odd.named, str):
        return True  # no file of a machine that this program reads
    is_unopened = all(any(name in one for name in _NOT_OPENED) for one in traces)
    return bool(kinds) and kinds <= {OPENED, CLAIM} and is_unopened


def files_of(play: Play) -> list[str]:
    """Return the program's files that a play tells of."""
    return list(dict.fromkeys(file for log in play.logs.values() for file in log.files))


def _is_cut(play: Play) -> bool:
    """Tell whether all ranks came to one line that opens a file which is not here, and ended."""
    ends = {log.end for log in play.logs.values()}
    lines = {
        tuple(re.findall(r'File "(.+?)", line (\d+)', log.trace)) for log in play.logs.values()
    }
    return len(ends) == len(lines) == 1 and ends.pop().startswith(_NOT_OPENED)


def _seeds(play: Play) -> dict[int, list[tuple[str, str]]]:
    return {rank: [(row[0], row[1]) for row in log.seeds] for rank, log in play.logs.items()}


def size_of(files: list[str]) -> int:
    """Return how many characters some files have together."""
    return sum(len(line) for file in files for line in linecache.getlines(file))


def _sites(play: Play) -> Iterable[Site]:
    rows = (site for _, log in sorted(play.logs.items()) for site in log.sites)
    return dict.fromkeys((kind, place) for kind, place in rows)


def _content(play: Play) -> dict[int, tuple[Any, ...]]:
    """Return what the ranks did, without what they asked."""
    return {rank: (log.actions, log.groups, log.notes, log.end) for rank, log in play.logs.items()}


def _halves(play: Play) -> Iterator[frozenset[int]]:
    """Return ranks to answer otherwise: every group has some of them, and some others.

    Groups of a mesh have ranks whose numbers differ in one bit: one has an odd number of bits. For
    other groups, single bits follow.
    """
    if play.world_size < 2:
        return
    world = range(play.world_size)
    first = frozenset(rank for rank in world if rank.bit_count() % 2)
    if play.like:  # a few stand for all: every second of those
        first = frozenset(sorted(play.logs)[1::2])
    yield first
    yield frozenset(world) - first
    groups = {tuple(one) for log in play.logs.values() for one in log.groups.values()}
    left = [set(one) for one in groups if len(one) > 1 and _is_alike(set(one), first)]
    for bit in range((play.world_size - 1).bit_length()):
        those = frozenset(rank for rank in world if rank >> bit & 1)
        if any(not _is_alike(one, those) for one in left):
            left = [one for one in left if _is_alike(one, those)]
            yield those


def _is_alike(group: set[int], odd: frozenset[int]) -> bool:
    return group <= odd or not group & odd
