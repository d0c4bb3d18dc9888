"""What is said of other answers: that they decide, that they do not, that a rank then raises."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planguard.capture.values.own_files import FEW

if TYPE_CHECKING:
    from collections.abc import Iterable

    from planguard.capture.play.ranks import Play
    from planguard.capture.values.own_answers import Site

KIND = "own-answers"
"""Of the ledger's entries: what only one rank knows, and what was made of it."""


def blame(play: Play, sites: list[Site], odd: frozenset[int]) -> None:
    """Say in an unsafe play what makes the ranks differ."""
    _, log = min(play.logs.items())
    message = (
        f"the communication depends on {words_of(sites)}, which each rank has of its own: text is "
        "hashed with a seed of the process (PYTHONHASHSEED), objects by their address; played with "
        f"another one on {ranks_of(odd)}. sorted() gives one order, as does a list that one rank "
        "broadcasts"
    )
    log.notes.append((KIND, message, "exact"))


def note(
    play: Play,
    sites: list[Site],
    doubts: dict[tuple[str, str], None],
    raised: dict[str, None],
    more: str,
) -> None:
    """Note in a play what decides, where a rank raises, and what decides nothing."""
    _, log = min(play.logs.items())
    for words, ranks in doubts:
        gets = "get" if ranks.startswith("ranks ") else "gets"
        message = (
            f"the communication depends on {words}, which each rank asks for itself: it differs "
            f"where {ranks} {gets} another answer than the others. Let one rank decide and "
            "broadcast it, or reduce it, before the ranks act on it"
        )
        log.notes.extend([(KIND, message, "under"), (KIND, message, "over")])
    for words in raised:
        message = (
            f"where {words} says otherwise (a time that is over, a file that is not there), a rank "
            "raises; that the job then ends is taken"
        )
        log.notes.append((KIND, message, "exact"))
    if not doubts:
        message = (
            "played again with every second rank answered otherwise by its own machine and process "
            f"({words_of(sites)}): the communication agrees all the same. Sets and folders were "
            "walked from both ends, sets from each quarter, too, folders held nothing, either half "
            "or more, clocks ran ahead by a day, files were there or not, or of another size and "
            "time, hosts, processes, addresses and random states differed; dice fell on both "
            "ends of their range and between, signals arrived, memory ran out and waits were over "
            "where the program is ready for it, packages were installed or not, databases held "
            f"more or nothing, files of one node alone held other numbers and words, and the "
            f"first threads of a line began last{more}"
        )
        log.notes.append((KIND, message, "exact"))


def note_untried(play: Play, sites: list[Site], untried: list[str]) -> None:
    """Say that tests beside the questions name more answers than were played."""
    _, log = min(play.logs.items())
    some = ", ".join(untried[:_SOME]) + (", ..." if len(untried) > _SOME else "")
    message = (
        f"tests beside what a rank asks for itself ({words_of(sites)}) name more answers than are "
        f"played ({some}): what they decide is not known. Let one rank ask and broadcast the "
        "answer, and test it in a function that does not ask"
    )
    log.notes.append((KIND, message, "under"))


_SOME = 6
"""Answers that are named."""


def note_cut(play: Play, cut: Iterable[str]) -> None:
    """Say what the ranks agreed on and nobody played to its end."""
    _, log = min(play.logs.items())
    for words in cut:
        message = (
            f"where {words} says otherwise, all ranks go on alike to one line that opens a file; "
            "it is not here, so that what follows was not played: play it with that file there"
        )
        log.notes.append((KIND, message, "exact"))


def note_few(play: Play, few: Iterable[str]) -> None:
    """Say where a small number stood for a large one, of which all ranks made too many rounds."""
    _, log = min(play.logs.items())
    for words in few:
        message = (
            f"where {words or 'a file'} gives a large number, the ranks were not through with it "
            f"in time; {FEW} was played instead: what only a large number brings is not decided"
        )
        log.notes.append((KIND, message, "exact"))


def words_of(sites: list[Site]) -> str:
    """Name questions by kind, with their first lines."""
    said = []
    for kind in dict.fromkeys(kind for kind, _ in sites):
        places = [place for one, place in sites if one == kind]
        more = f" and {len(places) - 3} more lines" if len(places) > 3 else ""
        said.append(f"{kind} ({', '.join(places[:3])}{more})")
    return ", ".join(said)


def ranks_of(ranks: frozenset[int]) -> str:
    """Name ranks."""
    named = sorted(ranks)
    more = ", ..." if len(named) > 8 else ""
    return f"rank{'s' if len(named) > 1 else ''} {', '.join(map(str, named[:8]))}{more}"
