"""A step decided beyond its samples: with made-up batches like them, and the sides they leave open.

What a rank reads from its batch and decides on is a source like its clock: another rank may read
something else. So batches are made up that are like a sample but for one thing (``likes``), and
played on one rank, then on all. Which tests of the program went both ways is watched meanwhile
(``asked``), and what depends on the batch at all is read off the source (``depends``).

* Where the communication goes wrong with a made-up batch that all ranks can have without raising,
  that is a finding; it says that it assumes such a batch, and what was changed in it.
* A test that no batch sends the other way is sent there by force, on one rank and on all. Where
  that does not end well nothing is claimed: a batch may do it, or none. UNKNOWN, with the line.
* SAFE only where all tests that depend on the batch went both ways, loops had different numbers of
  turns, and each part of the sample was changed at least once.

Above 400 lines: one search, whose plays, open sides and claims rest on one another.
"""

from __future__ import annotations

import linecache
import tempfile
import time
from collections import deque
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from planguard.capture.batches.asked import Forced, Seen
from planguard.capture.batches.likes import Like, is_varied, keys_of, likes_of, parts_of
from planguard.capture.batches.sampled import (
    decide,
    left_open,
    play_one,
    says_nothing,
    with_notes,
)
from planguard.capture.batches.samples import choose
from planguard.capture.batches.steps import is_meant_by
from planguard.capture.batches.tried import Batch, Ended, joined_like, supply_of_batches
from planguard.capture.names.depends import HANDLER, LOOP
from planguard.capture.play.loaders import short
from planguard.errors import UsageError, shorten
from planguard.verdict import Approximation

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from planguard.capture.batches.asked import Followed, Place
    from planguard.capture.batches.sampled import Answer, Door
    from planguard.capture.batches.samples import Assignment
    from planguard.capture.batches.subjects import Subject
    from planguard.capture.names.depends import Test
    from planguard.capture.play.ranks import Play, PlayedRank

VARIED = "varied"
"""Kind of the ledger's entry that says which batches were made up."""
MOST_PLAYS = 120
_IDLE = 8  # batches in a row that send no test a new way
_MOST_KEPT = 3  # made-up batches that are played in every mix with the samples
_MOST_MIXED = 24  # plays of such mixes
_LISTED = 40
_MOST_ENDLESS = 3  # made-up batches that a step does not come to its end with
_SHORTEST, _TIMES = 5.0, 10  # seconds that a play may take: these, and so often the longest


_ENDLESS = "did not finish within"


@dataclass
class Beyond:
    """Decides a step beyond its samples.

    Attributes:
        subject: The step, or the script.
        samples: Its samples.
        world_size: Number of ranks.
        door: What one play is made with.
        end: When no further play is begun.
    """

    subject: Subject
    samples: Sequence[Any]
    world_size: int
    door: Door
    end: float
    seen: Seen = field(default_factory=Seen)
    plays: int = 0
    _followed: dict[str, Followed | None] = field(default_factory=dict)
    _reached: dict[Place, Batch] = field(default_factory=dict)
    _ended: dict[tuple[Any, ...], bool] = field(default_factory=dict)
    _longest: float = 0.0
    _endless: int = 0
    _tests: tuple[int, list[Test]] | None = None
    _raised: dict[tuple[Any, ...], str] = field(default_factory=dict)
    _open: dict[str, None] = field(default_factory=dict)
    _made: list[str] = field(default_factory=list)

    def decide(self, base: Answer) -> Answer:
        """Decide further than the samples did.

        Args:
            base: What was decided for the samples; not unsafe.
        """
        own = [
            Batch(value, f"sample {number} ({short(value)})", is_made_up=False)
            for number, value in enumerate(self.samples)
        ]
        if self.world_size < 2:
            return base
        self._follow_all(own)
        kept: list[Batch] = []
        queue: deque[tuple[Batch, Iterator[Like]]] = deque((one, self._likes(one)) for one in own)
        known = {repr(one.value) for one in own}
        idle = 0
        while queue and not self._is_over():
            origin, likes = queue.popleft()
            like = next((one for one in likes if repr(one.value) not in known), None)
            if like is None:
                continue
            queue.append((origin, likes))
            known.add(repr(like.value))
            batch, compared = joined_like(origin, like), len(self.seen.compared)
            found, is_new = self._tried(origin, batch)
            if found is not None:
                return found
            idle = 0 if is_new else idle + 1
            if not like.is_first and idle >= (_IDLE if not self._one_sided() else 3 * _IDLE):
                break
            if is_new:
                kept.append(batch)
                queue.append((batch, self._likes(batch)))
            if len(self.seen.compared) > compared:  # what it was compared with decides otherwise
                queue.extendleft((one, self._likes(one)) for one in own)
        if self._is_over():
            self._open.setdefault(
                f"no more was played after {len(self._made)} made-up batches: give precheck a "
                "larger budget=, more samples, or no vary=True"
            )
        return self._joined(base, own, kept)

    def _likes(self, batch: Batch) -> Iterator[Like]:
        taken = frozenset(key for one in self.samples for key in keys_of(one))
        return likes_of(batch.value, self.seen.compared, taken)

    def _is_over(self) -> bool:
        return (
            max(self.plays / MOST_PLAYS, self._endless / _MOST_ENDLESS) >= 1
            or time.monotonic() >= self.end
        )

    # --- one batch ---------------------------------------------------------------------------

    def _tried(self, origin: Batch, batch: Batch) -> tuple[Answer | None, bool]:
        """Play a batch on one rank; return a finding, and whether it made a test go a new way."""
        odd = (0,) * (self.world_size - 1) + (1,)
        equal = (1,) * self.world_size
        pair = [origin, batch]
        said = self._played(pair, odd)
        is_wrong = said.raised or said.is_unsafe
        if not is_wrong:
            self._valid(batch, said)
            if not said.is_new:
                return None, False
        if _ENDLESS in said.raised:
            self._endless += 1
            for path in batch.parts:
                self._raised.setdefault(path, said.raised)
            return None, False
        alike = self._played(pair, equal)
        if alike.is_meant:
            self._made.append(f"{batch.words} (the program raises)")
            self._ended.update(dict.fromkeys(batch.parts, True))
            return None, False  # no batch to be mixed with others: it ends the job
        if alike.raised and is_wrong:  # every rank raises: no batch of this program
            for path in batch.parts:
                self._raised.setdefault(path, alike.raised)
            return None, False
        if alike.raised:
            self._open.setdefault(f"with {batch.words} on all ranks, {alike.raised}")
        self._valid(batch, alike)
        found = None
        if is_wrong or alike.is_unsafe:
            found = self._confirmed(pair, (equal, odd))
        return found, said.is_new or alike.is_new

    def _valid(self, batch: Batch, said: Ended) -> None:
        if said.is_open and said.verdict is not None:
            self._open.setdefault(f"{next(iter(said.verdict.reasons), '')} ({batch.words})")
        if batch.words not in self._made:
            self._made.append(batch.words)
        for path in batch.parts:
            self._ended[path] = True

    def _confirmed(self, pair: list[Batch], those: tuple[Assignment, ...]) -> Answer | None:
        """Play as the step is, without anything told, until it is unsafe."""
        chosen = replace(
            choose(2, self.world_size, 1), assignments=those, base=len(those), enough=frozenset()
        )
        batch = pair[1].words
        try:
            door = replace(self.door, new_play=self._play)
            answer = decide(supply_of_batches(pair), chosen, door, max(1.0, self._left()))
        except UsageError as error:
            self._open.setdefault(f"a rank raises, with {batch} on one: {error.message}")
            return None
        self.plays += len(answer.played)
        if not answer.verdict.unsafe:
            self._open.setdefault(f"with {batch} on one rank it was unsafe only once")
            return None
        note = (
            f"assumes that a rank can get a batch that was made up: {batch}. Where none can, "
            "give precheck the samples that can be, without vary=True"
        )
        return replace(answer, verdict=with_notes(answer.verdict, [note]))

    def _left(self) -> float:
        return self.end - time.monotonic()

    def _played(
        self, batches: list[Batch], assignment: Assignment, forced: Forced | None = None
    ) -> Ended:
        """Play with the tests told."""
        self.plays += 1
        those = tuple(one for one in self._followed.values() if one is not None)
        with tempfile.TemporaryDirectory() as folder:

            def job(played: PlayedRank, given: Any) -> object:
                with self.subject.telling(
                    those, Path(folder) / str(played.rank), forced, played.rank
                ):
                    return self.door.job(played, given)

            play = self._play()
            began = time.monotonic()
            verdict, raised, is_meant, is_silent, new = None, "", False, False, False
            try:
                play_one(play, replace(self.door, job=job), supply_of_batches(batches), assignment)
                plan, verdict = self.door.judge(play)
                is_silent = says_nothing(plan, play)
            except UsageError as error:
                raised = error.message.splitlines()[0]
                is_meant = is_meant_by(error.hint)
            if not raised:
                self._longest = max(self._longest, time.monotonic() - began)
            every = [Seen.read(Path(folder) / str(rank)) for rank in range(self.world_size)]
            raised = raised or next((one.raised for one in every if one.raised), "")
            for rank, rows in enumerate(every):
                if is_meant or (not raised and verdict is not None and not verdict.unsafe):
                    # Else what follows behind a test was not seen to its end.
                    for place in rows.outcomes:
                        self._reached.setdefault(place, batches[assignment[rank]])
                    new = self.seen.add(rows) or new
                else:
                    self.seen.add(replace(rows, outcomes={}))
        return Ended(verdict, raised, is_meant, is_silent, new)

    def _play(self) -> Play:
        """Return a play that ends: no made-up batch is known to."""
        play = self.door.new_play()
        play.is_quiet = True
        if self._longest:  # the samples come first, and are known to end
            play.whole = min(play.timeout, _SHORTEST + _TIMES * self._longest)
        return play

    def _follow_all(self, own: list[Batch]) -> None:
        """Play the samples until every file of the program that is entered is told."""
        for file in self.subject.first():
            self._followed[file] = self.subject.follow(file)
        for _ in range(3):
            for number, _ in enumerate(own):
                self._played(own, (number,) * self.world_size)
            missing = self.seen.files - set(self._followed)
            if not missing:
                return
            self._followed.update((file, self.subject.follow(file)) for file in sorted(missing))

    # --- what is left ------------------------------------------------------------------------

    def _joined(self, base: Answer, own: list[Batch], kept: list[Batch]) -> Answer:
        """Play what is left open by force, and the mixes; say what follows."""
        if kept and self._left() > 0:
            some = [*own, *kept[:_MOST_KEPT]]
            chosen = choose(len(some), self.world_size, _MOST_MIXED)
            try:
                door = replace(self.door, new_play=self._play)
                mixed = decide(supply_of_batches(some), chosen, door, self._left())
                if mixed.verdict.unsafe:
                    note = "assumes that ranks can get the batches above, of which some are made up"
                    return replace(mixed, verdict=with_notes(mixed.verdict, [note]))
                if mixed.verdict.unknown and not base.verdict.unknown:
                    self._open.update(dict.fromkeys(mixed.verdict.reasons))
            except UsageError as error:
                self._open.setdefault(f"a rank raises with made-up batches: {error.message}")
        for test in self._one_sided():
            self._force(test)
        self._open_parts(own)
        for file in sorted(self.seen.files):
            if self._followed.get(file) is None:
                self._open.setdefault(f"what {file} decides could not be watched: no source of it")
        verdict = base.verdict
        if not verdict.safe:
            return base
        entry = Approximation(VARIED, self._said(), "exact", scope="plan")
        verdict = replace(verdict, approximations=(*verdict.approximations, entry))
        if self._open:
            verdict = left_open(verdict, "; ".join(list(self._open)[:8]))
        return replace(base, verdict=verdict)

    def _known_tests(self) -> list[Test]:
        """Return the tests of the files that are followed."""
        if self._tests is None or self._tests[0] != len(self._followed):
            self._tests = len(self._followed), self._read_tests()
        return self._tests[1]

    def _read_tests(self) -> list[Test]:
        sources = {file: "".join(linecache.getlines(file)) for file in self._followed}
        return self.subject.tests(sources)

    def _one_sided(self) -> list[Test]:
        """Return the tests that depend on the batch, were asked, and went one way only."""
        if self.subject.unread:
            self._open.setdefault(self.subject.unread)
        found = {
            test.place: test  # a comparison that is a branch's test is one test
            for test in self._known_tests()
            if test.depends and test.place in self.seen.outcomes and not self._is_both(test)
        }
        return list(found.values())

    def _is_both(self, test: Test) -> bool:
        """Tell whether a test that depends on the batch did so in what was played.

        What goes both ways in each play, the end of a ``while`` or of a recursion, must have gone
        so another number of times; and so must loops.
        """
        varies, sides = self.seen.varies(test.place), self.seen.sides(test.place)
        return varies if test.kind == LOOP else varies and all(sides)

    def _force(self, test: Test) -> None:
        """Send a test the way that no batch sent it, on one rank and on all."""
        sides = self.seen.sides(test.place)
        where = f"{test.file}:{test.line}"
        if test.kind == LOOP or all(sides):
            what = "loop over" if test.kind == LOOP else "test"
            self._open.setdefault(
                f"the {what} `{test.text}` at {where} depends on the batch, and was run as often "
                "with every batch that was tried: give precheck samples of several lengths"
            )
            return
        outcome = test.kind == HANDLER or not sides[0]
        way = "raises into" if test.kind == HANDLER else "true" if outcome else "false"
        batch = self._reached.get(test.place)
        ended = ""
        for ranks in ({self.world_size - 1}, set(range(self.world_size))):
            if batch is None or self._left() <= 0:
                ended = "the time was over"
                break
            forced = Forced(test.place, outcome, frozenset(ranks))
            said = self._played([batch], (0,) * self.world_size, forced)
            if said.raised and not said.is_meant:
                ended = f"made to be, {shorten(said.raised, 160)}"
            elif said.is_unsafe:
                ended = "made to be, the ranks do not agree"
            elif said.is_open:
                ended = "made to be, it stays undecided"
            if ended:
                break
        if not ended:
            return
        what = (
            f"whether `except {test.text}` at {where} is entered"
            if test.kind == HANDLER
            else f"whether `{test.text}` at {where} is {way}"
        )
        self._open.setdefault(
            f"{what} depends on the batch, and no batch that was tried does it; {ended}: give "
            "precheck a sample that does"
        )

    def _open_parts(self, own: list[Batch]) -> None:
        """Say which parts of a sample were never changed in a way that the program takes."""
        for batch in own:
            for path, value in parts_of(batch.value):
                if not is_varied(value):
                    what = f"a {type(value).__name__}, which is not varied here"
                elif path in self._raised and not self._is_ended(path):
                    what = (
                        f"never varied: with every other value a rank raises ({self._raised[path]})"
                    )
                else:
                    continue
                at = "".join(f"[{getattr(one, 'name', one)!r}]" for one in path)
                self._open.setdefault(f"{at or 'the batch'} of {batch.words} is {what}")

    def _is_ended(self, path: tuple[Any, ...]) -> bool:
        """Tell whether a change of a part, of what is around it or in it was played."""
        return any(path[: len(one)] == one or one[: len(path)] == path for one in self._ended)

    def _said(self) -> str:
        made = "; ".join(self._made[:_LISTED])
        more = f"; and {len(self._made) - _LISTED} more" if len(self._made) > _LISTED else ""
        return (
            f"{len(self._made)} batches were made up and played on one rank beside the sample, "
            f"those that send a test another way on all ranks too: {made}{more}. Tests of the "
            "program's own files that depend on its batch went both ways, by a batch or by force; "
            "what installed packages decide on a batch, and values that no such batch has, are "
            "not decided"
        )
