"""What would follow if ranks read other values from their own tensors: from other data.

A play that is safe says nothing yet where a rank decides on a loss, a count or a flag of its own
that went one way on all ranks here (``own_values``). So it is played again with other values, those
of all lines together and, where that goes wrong, those of each line. Whether any data give such a
value is not known: nothing is decided then, and the line is named.
"""

from __future__ import annotations

import linecache
import re
from dataclasses import replace
from typing import TYPE_CHECKING

from planguard.capture.names.reached import SIZE, tests_on
from planguard.capture.play.odd_plays import (
    MOST_LINES,
    READ_WHOLE,
    Ended,
    OddPlays,
    files_of,
    size_of,
)
from planguard.capture.play.odd_words import KIND, ranks_of, words_of
from planguard.capture.values.other_values import NEAR, PAIRS, SPECIAL, Read, largest_number
from planguard.capture.values.own_answers import Odd
from planguard.capture.values.own_sizes import SIZING
from planguard.capture.values.own_values import VALUE, Sides, sides_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from planguard.capture.play.ranks import Play
    from planguard.capture.values.own_answers import Site
    from planguard.verdict import Verdict

_TESTING = re.compile(
    r"\b(?:if|elif|while|and|or|not|assert|in|return|any|all|bool|filter|match|exec|eval)\b|[<>]|[=!]="
)
"""What may test a value on its line."""
_SIZING = re.compile(rf"\b(?:{'|'.join((*SIZING, 'where'))})\(")
"""What makes a tensor of a size that follows from data: sent, it needs no test to differ."""
_KEPT = re.compile(r"\.(?:step|update|unscale_)\(")
"""What keeps what it decides where a test may find it: a scaler's scale, a scheduler's rate."""
_LISTS = re.compile(r"\b(?:tolist|numpy|array|asarray)\(")
"""What reads several values at once."""

_MOST_READINGS = 6
"""Readings that are asked alone where all together make a rank raise."""


class OddData(OddPlays):
    """Decides what follows from other answers of the machine, and then from other data."""

    def ask(self, play: Play) -> Play:
        """Return the play that decides, as ``OddPlays.ask`` does."""
        found = super().ask(play)
        if found is play and not play.is_doubted:
            self._of_tensors(play)
        return found

    def _of_tensors(self, play: Play) -> None:
        """Play with other values where ranks read different ones, and note what follows."""
        seen = {rank: log.readings for rank, log in play.logs.items()}
        sides = sides_of(seen)
        places = [place for place in sides.of if (VALUE, place) not in self.known]
        tests, is_special = _tests(play, places)
        if not tests:
            return
        sides = replace(sides, far=largest_number(tests))
        sites: list[Site] = [(VALUE, place) for place in places]
        doubts: dict[tuple[str, str], None] = {}
        raised: dict[str, None] = {}
        every = sides
        plays = [(pair, every) for pair in (*PAIRS, *(SPECIAL if is_special else ()))]
        if _is_parted(every, places):
            plays.append((PAIRS[0], replace(every, is_partly=True)))
        if every.readings():
            plays.append((PAIRS[0], replace(every, turned=frozenset(places[1::2]))))
        plays += [(PAIRS[0], replace(one, far=every.far)) for one in _of_groups(play, seen)]
        for how, which in plays:
            pair, sides = how, which
            ended = self._read_as(play, sides, places, pair)
            if ended.how in ("same", "safe"):
                continue
            lines = places[:MOST_LINES] if len(places) > 1 else []
            alone = {one: self._read_as(play, sides, [one], pair) for one in lines}
            bad = [one for one, end in alone.items() if end.how in ("unsafe", "open")]
            if ended.how == "raised" and not bad:
                milder = self._milder(play, sides, places, pair)
                if milder is None:
                    raised[words_of(sites)] = None
                    continue
                sides, ended = milder
                pair = sides.pair
            guilty: list[Site] = [(VALUE, one) for one in bad or places if one in sides.of]
            doubts[words_of(guilty), _sided(sides, guilty, pair, ended.told)] = None
            break
        self.known.update(sites)
        _note_values(play, sites, doubts, raised)

    def _milder(
        self, play: Play, sides: Sides, places: list[str], pair: tuple[Read, Read]
    ) -> tuple[Sides, Ended] | None:
        """Play again what raised with less that differs; return what goes wrong, None for nothing.

        Who walks over more than there is raises, where one who walks over less goes on; and without
        any rows at all there may be nothing to compute, where without those of one class there is.
        """
        milder = [sides.of_one(pair.index(Read.LESS))] if Read.LESS in pair else []
        milder += [sides.of_reading(place, at) for place, at in sides.readings()[:_MOST_READINGS]]
        tried = [(one, pair) for one in milder]
        tried += [(sides, near) for near in NEAR if Read.LESS in pair]
        for one, how in tried:
            ended = self._read_as(play, one, [place for place in places if place in one.of], how)
            if ended.how in ("unsafe", "open"):
                return replace(one, pair=how), ended
        return None

    def _read_as(
        self, play: Play, sides: Sides, places: list[str], pair: tuple[Read, Read]
    ) -> Ended:
        rows = {place: sides.of[place] for place in places if place in sides.of}
        chosen = replace(sides, of=rows, pair=pair)
        return self.ended(play, Odd(chosen.ranks, frozenset(), sides=chosen))


def _of_groups(play: Play, seen: dict[int, dict[str, list[int]]]) -> Iterator[Sides]:
    """Return who else may be on one side where groups of a part of the ranks communicate.

    What one rank of each group decides and tells the others of it: with every second rank on the
    other side, the deciding ones of all groups may be on one. Of any two ranks some bit differs.
    """
    groups = (ranks for log in play.logs.values() for ranks in log.groups.values())
    if not any(1 < len(ranks) < play.world_size for ranks in groups):
        return
    for bit in range(1, (len(seen) - 1).bit_length()):
        found = sides_of(seen, bit)
        if found.of:
            yield found


def with_odd_plays(play: Play, decide: Callable[[Play], Verdict]) -> Play:
    """Return the play that decides, of one that was played once: see ``OddData.ask``."""
    asked = any(log.sites or log.readings for log in play.logs.values())
    if not asked or play.failure() is not None:
        return play
    return OddData(decide, set()).ask(play) if decide(play).safe else play


def _note_values(
    play: Play, sites: list[Site], doubts: dict[tuple[str, str], None], raised: dict[str, None]
) -> None:
    """Note what follows if ranks read other values from their tensors."""
    _, log = min(play.logs.items())
    for words, how in doubts:
        message = (
            f"the communication depends on {words}, of which each rank has its own: it differs "
            f"where {how}. Reduce it, or let one rank decide and broadcast it, before the ranks "
            "act on it; --samples, or samples=, tells which data differ"
        )
        log.notes.extend([(KIND, message, "under"), (KIND, message, "over")])
    for words in raised:
        message = f"where {words} is another one, a rank raises; that the job then ends is taken"
        log.notes.append((KIND, message, "exact"))
    if not doubts:
        message = (
            f"played again with {_others(sites)}, which differs between the ranks here: "
            "where some read a larger one and the others a smaller one, the communication agrees "
            "all the same"
        )
        log.notes.append((KIND, message, "exact"))


def _others(sites: list[Site]) -> str:
    """Name other values."""
    return words_of(sites).replace("a value", "other values", 1)


def _sided(sides: Sides, sites: list[Site], pair: tuple[Read, Read], told: str) -> str:
    """Say who reads what: ``rank 0 reads a larger one and rank 1 a smaller one``, and then."""
    rows = [two for _, place in sites for two in sides.of[place]]
    said = []
    for side, how in enumerate(pair):
        ranks = frozenset(rank for two in rows for rank in two[side])
        if ranks:
            said.append(f"{ranks_of(ranks)} {'read' if len(ranks) > 1 else 'reads'} {how.value}")
    return " and ".join(said) + (f" ({told})" if told else "")


def _tests(play: Play, places: list[str]) -> tuple[list[str], bool]:
    """Return the tests that may depend on what some lines read; of a large program any.

    And whether one may ask for a value that is neither large nor small: for equality, or for a
    size, which how many different values there are may tell.

    A line that reads without a call is a test itself (``if norm > 1``, ``while not done``).
    """
    files = files_of(play) if places else []
    if size_of(files) > READ_WHOLE:
        return ["== nan"], True
    texts = {file: "".join(linecache.getlines(file)) for file in files}
    lines = [_line(place) for place in places]
    alone = (_TESTING, _SIZING, _KEPT)
    itself = [o for o in lines if any(one.search(o) for one in alone) or "(" not in o]
    if not places:
        return [], False
    found = tests_on(texts, places, are_sizes=True)[0]
    said = [*itself, *(one.text for one in found)]
    return said, any(one.kind == SIZE for one in found) or any(map(_is_special, said))


def _is_parted(sides: Sides, places: list[str]) -> bool:
    """Tell whether some line reads several values, one by one or as a list."""
    rows = (sides.of.get(place, ()) for place in places)
    return any(len(row) > 1 for row in rows) or any(_LISTS.search(_line(p)) for p in places)


def _line(place: str) -> str:
    file, _, line = place.rpartition(":")
    return linecache.getline(file, int(line)).strip()


def _is_special(text: str) -> bool:
    """Tell whether a test may ask for a value that is neither large nor small.

    A test without a comparison asks whether it is zero.
    """
    text = text.lower()
    words = ("==", "!=", "nan", "inf", "finite", " in ", "is ", "not ")
    is_truth = _TESTING.search(text) is not None and not re.search("[<>]", text)
    return is_truth or any(word in text for word in words)
