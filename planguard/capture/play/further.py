"""Which answers are played beside the first other one: what a program's tests can tell apart.

A day later is the same hour, another state of dice falls alike by luck, a folder walked from the
other end holds the same. So clocks show moments, dice fall on both ends, hosts have the names that
tests state, and folders hold nothing, a half, or more.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from planguard.capture.values.moments import constants, moments, names
from planguard.capture.values.own_answers import CLOCK, DICE, PROCESS, SEED, Odd, Site
from planguard.capture.values.own_folders import FOLDER, Held
from planguard.capture.values.own_host import FACT, HOST
from planguard.capture.values.twister import Throw

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planguard.capture.values.own_clock import Moment

_READ = frozenset({CLOCK, HOST, FOLDER, DICE, PROCESS, FACT})
"""Kinds whose answers are led by the tests of the program, which are read."""
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
    """

    shown: list[Moment] = field(default_factory=list)
    called: list[str] = field(default_factory=list)
    sought: list[str] = field(default_factory=list)
    answers: list[Odd] = field(default_factory=list)

    @classmethod
    def of(cls, sites: Sequence[Site], files: Sequence[str]) -> Further:
        """Return the answers for what a program asks, as far as its files tell."""

        def places(kind: str) -> list[str]:
            return [place for one, place in sites if one == kind]

        def at(kind: str) -> frozenset[Site]:
            return frozenset(site for site in sites if site[0] == kind)

        clocks, hosts, folders = places(CLOCK), places(HOST), places(FOLDER)
        shown = moments(files, clocks) if clocks else []
        called = names(files, hosts) if hosts else []
        sought = names(files, folders) if folders else []
        nobody = frozenset[int]()
        answers = [Odd(nobody, at(CLOCK), is_uneven=True)] if clocks else []
        answers += [Odd(nobody, at(CLOCK), moment=one) for one in shown]
        dice = at(DICE) | at(SEED)
        answers += [Odd(nobody, dice, throw=one) for one in _THROWS if dice]
        for kind in (DICE, PROCESS):
            thrown = constants(files, places(kind)) if places(kind) else []
            answers += [Odd(nobody, at(kind), throw=Throw.NAMED, named=one) for one in thrown]
        numbers = constants(files, places(FACT)) if places(FACT) else []
        answers += [Odd(nobody, at(FACT), named=one) for one in _around(numbers)]
        answers += [Odd(nobody, at(HOST), name=one) for one in called]
        for held in _CONTENTS if folders else ():
            answers.append(Odd(nobody, at(FOLDER), held=held, texts=tuple(sought)))
        return cls(shown, called, sought, answers)

    @property
    def words(self) -> str:
        """What of it follows from the program's tests, to go on a sentence."""
        return f"{_shown([one.words for one in self.shown])}{_called(self.called)}"


def _around(named: list[str | int]) -> list[str | int]:
    """Return what tests name, and of a number what is next to it: a limit is passed either way."""
    near = [(one, one + 1, one - 1) if isinstance(one, int) else (one,) for one in named]
    return list(dict.fromkeys(one for some in near for one in some))


def _shown(shown: list[str]) -> str:
    """Name the moments that clocks showed, for tests of the hour or of a remainder."""
    if not shown:
        return ""
    return f"; clocks showed {', '.join(dict.fromkeys(shown))} of a later year, too"


def _called(called: list[str]) -> str:
    """Name what hosts were called, for tests of their names."""
    return f"; hosts were called {', '.join(map(repr, called))}, too" if called else ""
