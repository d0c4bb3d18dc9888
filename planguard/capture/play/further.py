"""Which answers are played beside the first other one: what a program's tests can tell apart.

A day later is the same hour, another state of dice falls alike by luck, a folder walked from the
other end holds the same. So clocks show moments, dice fall on both ends, hosts have the names that
tests state, and folders hold nothing, a half, or more.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from planguard.capture.values.moments import MOST_NAMED, beside, constants, keys, moments, names
from planguard.capture.values.other_files import Lengths
from planguard.capture.values.own_answers import (
    CLOCK,
    DICE,
    FILE,
    OPENED,
    PROCESS,
    SEED,
    STATE,
    Odd,
    Site,
)
from planguard.capture.values.own_database import DATABASE
from planguard.capture.values.own_events import NETWORK
from planguard.capture.values.own_files import CLAIM, Holding
from planguard.capture.values.own_folders import FOLDER, Held
from planguard.capture.values.own_host import FACT, HOST, TOLD
from planguard.capture.values.own_installed import INSTALLED
from planguard.capture.values.own_places import HELD
from planguard.capture.values.own_turns import TURN
from planguard.capture.values.twister import Throw

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planguard.capture.values.own_clock import Moment

_READ = frozenset({CLOCK, HOST, FOLDER, DICE, PROCESS, FACT, TOLD, DATABASE, OPENED, HELD})
"""Kinds whose answers are led by the tests of the program, which are read."""
_FLIPPED = frozenset(
    {FILE, OPENED, CLAIM, STATE, INSTALLED, DATABASE, FACT, TOLD, HOST, TURN, NETWORK, HELD}
)
"""Kinds whose other answers may cancel each other."""
_MOST_BITS = 3
_MOST_PRINTED = 128
"""Numbers that another program is said to print."""
_MOST_BESIDE = 18
"""Values that are played beside the nearest ones, of tests that stand beside the question."""
_WORD = "other"
"""A text in a row that is not there."""
_THROWS = (Throw.LOWEST, Throw.HIGHEST, Throw.THIRD, Throw.TWO_THIRDS)
_CONTENTS = (Held.NOTHING, Held.FIRST, Held.SECOND, Held.MORE)


def is_led(sites: Sequence[Site]) -> bool:
    """Tell whether the program's files have to be read for what is asked there."""
    return any(kind in _READ for kind, _ in sites)


@dataclass(frozen=True)
class Further:
    """What is played beside the first other answer.

    Attributes:
        shown: Moments that clocks show.
        called: Names of hosts.
        sought: Names, or parts of them, that are looked for in folders.
        answers: All of it, for ranks that are still to be chosen.
        rest: What tests name beyond the nearest ones, and was not answered.
        untried: Those of it that stand beside the question, so that they may be its answer.
    """

    shown: list[Moment] = field(default_factory=list)
    called: list[str] = field(default_factory=list)
    sought: list[str] = field(default_factory=list)
    answers: list[Odd] = field(default_factory=list)
    rest: list[str] = field(default_factory=list)
    untried: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, sites: Sequence[Site], files: Sequence[str]) -> Further:
        """Return the answers for what a program asks, as far as its files tell."""

        def places(kind: str) -> list[str]:
            return [place for one, place in sites if one == kind]

        def at(kind: str) -> frozenset[Site]:
            return frozenset(site for site in sites if site[0] == kind)

        clocks, hosts, folders = places(CLOCK), places(HOST), places(FOLDER)
        shown = moments(files, clocks) if clocks else []
        rest: list[Any] = []  # what tests name beyond
        untried: list[Any] = []  # the same, beside the question

        def near(kind: str, named: list[Any]) -> list[Any]:
            """Return what is answered of what tests name, nearest first."""
            most = _MOST_PRINTED if kind in (TOLD, HELD) else None  # a loop may turn as often
            fit = [one for one in named if most is None or isinstance(one, str) or one <= most]
            if len(fit) == len(named) <= MOST_NAMED:
                return named
            own = beside(files, places(kind))
            more = [one for one in fit[MOST_NAMED:] if one in own]
            tried = fit[:MOST_NAMED] + more[:_MOST_BESIDE]
            left = [one for one in named if one not in tried]
            rest.extend(left)
            untried.extend(one for one in left if one in own)
            return tried

        called = near(HOST, names(files, hosts)) if hosts else []
        sought = names(files, folders) if folders else []  # one play has all of them
        nobody = frozenset[int]()
        answers = [Odd(nobody, one) for one in _parts(sites)]
        answers += [Odd(nobody, at(CLOCK), is_uneven=True)] if clocks else []
        answers += [Odd(nobody, at(CLOCK), moment=one) for one in shown]
        dice = at(DICE) | at(SEED)
        answers += [Odd(nobody, dice, throw=one) for one in _THROWS if dice]
        for kind in (DICE, PROCESS):
            thrown = near(kind, constants(files, places(kind))) if places(kind) else []
            answers += [Odd(nobody, at(kind), throw=Throw.NAMED, named=one) for one in thrown]
        for kind in (FACT, TOLD, DATABASE, HELD):
            asked = places(kind)
            every = constants(files, asked, are_fractions=True) if asked else []
            numbers = near(kind, every)
            numbers += near(kind, names(files, asked)) if kind in (TOLD, HELD) and asked else []
            numbers += [_WORD] if kind == DATABASE and asked else []
            answers += [Odd(nobody, at(kind), named=one) for one in _around(numbers)]
        answers += [Odd(nobody, at(HELD), named=Lengths.OTHER)] if places(HELD) else []
        answers += held_answers(at(OPENED), files)
        answers += [Odd(nobody, at(HOST), name=one) for one in called]
        for held in _CONTENTS if folders else ():
            answers.append(Odd(nobody, at(FOLDER), held=held, texts=tuple(sought)))
        left = (list(dict.fromkeys(map(repr, some))) for some in (rest, untried))
        return cls(shown, called, sought, answers, *left)

    @property
    def words(self) -> str:
        """What of it follows from the program's tests, to go on a sentence."""
        return (
            f"{_shown([one.words for one in self.shown])}{_called(self.called)}{_left(self.rest)}"
        )


def _parts(sites: Sequence[Site]) -> list[frozenset[Site]]:
    """Return sets of questions of which every two are apart in one: two other answers may cancel.

    That two files are both there is what it is where both are not.
    """
    flipped = [one for one in sites if one[0] in _FLIPPED]
    bits = range(min((len(flipped) - 1).bit_length(), _MOST_BITS)) if len(flipped) > 1 else ()
    every = [[one for at, one in enumerate(flipped) if at >> bit & 1] for bit in bits]
    return [frozenset(some) for some in every if some]


def held_answers(sites: frozenset[Site], files: Sequence[str]) -> list[Odd]:
    """Return what files hold that are not here; see ``Holding``."""
    named = tuple(keys(files)) if sites else ()
    kinds = [one for one in Holding if one is not Holding.NOTHING]
    return [Odd(frozenset(), sites, holding=one, keys=named) for one in kinds if sites]


def _around(named: list[Any]) -> list[Any]:
    """Return what tests name, and of a number what is next to it: a limit is passed either way."""
    near: list[tuple[Any, ...]]
    near = [(one,) if isinstance(one, str) else (one, one + 1, one - 1) for one in named]
    return list(dict.fromkeys(one for some in near for one in some))


def _left(rest: list[str]) -> str:
    """Say what tests name that was not answered."""
    some = ", ".join(rest[:MOST_NAMED]) + (", ..." if len(rest) > MOST_NAMED else "")
    return (
        f"; what other tests name may be another answer, too ({some}), and was not" if rest else ""
    )


def _shown(shown: list[str]) -> str:
    """Name the moments that clocks showed, for tests of the hour or of a remainder."""
    if not shown:
        return ""
    return f"; clocks showed {', '.join(dict.fromkeys(shown))} of a later year, too"


def _called(called: list[str]) -> str:
    """Name what hosts were called, for tests of their names."""
    return f"; hosts were called {', '.join(map(repr, called))}, too" if called else ""
