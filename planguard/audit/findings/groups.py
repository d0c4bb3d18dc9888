"""Findings about process groups whose members name other members."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from typing import TYPE_CHECKING

from planguard.audit.findings.evidence import wavefront_note
from planguard.audit.findings.wording import finding, group_words, waiting_words
from planguard.recording import CALLS
from planguard.words import listed, name_ranks, plural

if TYPE_CHECKING:
    from collections.abc import Iterator

    from planguard.audit.findings.triage import Scene
    from planguard.verdict import Finding

MAX_LISTS = 4
MAX_LISTED = 16
"""Members that are listed one by one, where ranks name the same ones in another order."""


def disputed(scene: Scene) -> Iterator[tuple[str, Finding]]:
    """Yield groups that were used and whose members are not the same in all recordings."""
    for name, group in scene.recording.groups.items():
        if len(group.readings) > 1 and name in scene.rounds.lines:
            yield name, _disputed(scene, name)


def _disputed(scene: Scene, name: str) -> Finding:
    readings = scene.recording.groups[name].readings
    is_order = len({frozenset(members) for members, _ in readings}) == 1
    told = [
        f"{name_ranks(who)} {'names' if len(who) == 1 else 'name'} "
        f"{_members(members, is_order=is_order)}"
        for members, who in readings
    ]
    more = f" and {plural(len(told) - MAX_LISTS, 'other list')}" if len(told) > MAX_LISTS else ""
    votes = Counter({n: len(who) for n, (_, who) in enumerate(readings)}).most_common()
    is_tie = votes[0][1] == votes[1][1]
    usual = None if is_tie else votes[0][0]
    odd = sorted(rank for n, (_, who) in enumerate(readings) if n != usual for rank in who)
    everyone = [rank for _, who in readings for rank in who]
    lines = scene.rounds.lines[name]
    firsts = ((who[0], lines[who[0]].actions[0]) for _, who in readings if who[0] in lines)
    waits = [w for own in scene.graph.waits.values() for w in own if w.group == name]
    blame = "as many say the one as the other" if is_tie else f"{name_ranks(odd)} unlike most"
    return finding(
        scene,
        "PG405",
        f"ranks disagree about {'the order of ' if is_order else ''}the members of group "
        f"{group_words(scene, name)}: {listed(told[:MAX_LISTS])}{more}",
        list(islice(firsts, MAX_LISTS)),
        facts=[(rank, CALLS) for rank in everyone],
        ranks=tuple(odd),
        notes=(
            f"members: {blame}",
            *([f"waiting: {waiting_words(scene, waits)}"] if waits else []),
            *wavefront_note(scene, everyone),
        ),
        related=("PG501",),
    )


def _members(members: tuple[int, ...], *, is_order: bool) -> str:
    if not is_order:
        return name_ranks(members)
    return f"[{', '.join(map(str, members[:MAX_LISTED]))}{', ...' * (len(members) > MAX_LISTED)}]"
