"""Findings about rounds and pairs whose members disagree, and calls left out, added or swapped."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planguard.audit.findings.evidence import wavefront_note
from planguard.audit.findings.ground import strongest, waiters
from planguard.audit.findings.wording import (
    MAX_SHOWN,
    at_words,
    call_words,
    finding,
    group_words,
    stack_note,
    waiting_words,
)
from planguard.audit.rounds.moments import TRACES
from planguard.recording import Progress
from planguard.words import listed, name_ranks, plural

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from planguard.audit.findings.triage import Scene
    from planguard.audit.rounds.disagree import Departure, Disagreement
    from planguard.audit.rounds.exchanges import Unequal
    from planguard.audit.rounds.waits import Wait
    from planguard.recording import Call, Fact
    from planguard.verdict import Finding, Location

FIELD_CODES = {
    "family": "PG201",
    "count": "PG202",
    "shape": "PG202",
    "dtype": "PG203",
    "root": "PG205",
    "reduce_op": "PG204",
}
FIELD_WORDS = {
    "PG202": "sizes differ",
    "PG203": "element types differ",
    "PG204": "reduce operations differ",
    "PG205": "roots differ",
}

WINDOWS = (
    "traces do not say at which call of the job they begin, and these differ from their first "
    "round on: their windows may begin at other calls"
)


def disagreement(
    scene: Scene, one: Disagreement, left: Departure | None, also: Sequence[Disagreement] = ()
) -> Finding:
    """Return the finding of a round whose members disagree.

    Args:
        scene: The recording.
        one: The round.
        left: Where a rank left the sequence of the others before that.
        also: Rounds of other groups that disagree for the same reason, or because of it.
    """
    code = FIELD_CODES[one.fields[0]] if one.fields else "PG201"
    lines = scene.rounds.lines[one.group]
    first = one.odd[0]
    places = [
        (rank, lines[rank].action(one.position)) for rank in (*one.odd, *one.rest[:MAX_SHOWN])
    ]
    odd: list[tuple[int, Fact]] = [(rank, lines[rank].action(one.position)) for rank in one.odd]
    rest: list[tuple[int, Fact]] = [(rank, lines[rank].action(one.position)) for rank in one.rest]
    # As many of the others as show that they are the most, or one where nobody is blamed.
    enough = strongest(scene.recording, rest)
    facts = [*odd, *(enough if one.is_tie or len(enough) > len(odd) else rest)]
    calls = [scene.recording.location(*place) for place in places]
    mine, theirs = calls[0], calls[len(one.odd)]
    own, other = _sized(scene, places[0], places[len(one.odd)])
    where = f"round {one.position} of group {group_words(scene, one.group)}"
    subject, verb = name_ranks(one.odd), "calls" if len(one.odd) == 1 else "call"
    others, plural_verb = name_ranks(one.rest), "calls" if len(one.rest) == 1 else "call"
    if code == "PG201":
        said = f"{subject} {verb} {mine.op} where {others} {plural_verb} {theirs.op} ({where})"
    else:
        said = f"{FIELD_WORDS[code]} in {mine.op}, {where}: {own} on {subject}, {other} on {others}"
    told = ((mine, own), (theirs, other))
    notes = [f"calls: {name_ranks([p.rank])}: {text}{at_words(p)}" for p, text in told]
    notes += [note for p in (mine, theirs) if p.source is None for note in _seen_in(scene, p)]
    if one.is_tie:
        notes.append("evidence: as many ranks say the one as the other; neither side is blamed")
    else:
        notes.append(f"evidence: {len(one.rest)} of {len(one.odd) + len(one.rest)} members agree")
    kinds = {scene.recording.ranks[rank].kind for rank in (*one.odd, *one.rest)}
    if kinds <= set(TRACES) and one.position == min(line.first for line in lines.values()):
        notes.append(f"evidence: weak; {WINDOWS}")
        scene.open.append(WINDOWS)
    if also:
        rounds = [f"round {d.position} of group {group_words(scene, d.group)}" for d in also]
        more = f" and {len(rounds) - 3} more" if len(rounds) > 3 else ""
        notes.append(f"also: the same cause shows in {listed(rounds[:3])}{more}")
        common = set.intersection(*({*d.odd, *d.rest} for d in (one, *also)))
        if one.is_tie and len(common) == 1:
            notes.append(f"evidence: {name_ranks(common)} alone belongs to all of these rounds")
    related: tuple[str, ...] = ()
    if left is not None:
        notes.insert(0, f"cause: {departure_words(scene, left)}")
        related = ("PG211",)
    notes += wavefront_note(scene, [*one.odd, *one.rest])
    stuck = any(
        lines[rank].state(one.position) != Progress.COMPLETED
        for rank in lines
        if lines[rank].has(one.position)
    )
    if stuck:
        related = (*related, "PG501")
    return finding(
        scene,
        code,
        said,
        [(first, lines[first].action(one.position)), *places[1:]],
        facts=facts,
        ranks=tuple(sorted({*one.odd, *one.rest} if one.is_tie else one.odd)),
        notes=tuple(notes),
        related=related,
        certainty="all-executions",
    )


def _sized(scene: Scene, *places: tuple[int, int]) -> list[str]:
    """Return calls in one line each, with their elements where their bytes do not tell them apart.

    A log may say numbers of elements and no type, or say two types of which as many bytes are sent.
    """
    tracks = scene.recording.ranks
    calls = [tracks[rank].track.call_at(action) for rank, action in places]
    texts = [scene.recording.location(*place).text for place in places]
    sizes = {call.bytes for call in calls}
    if len(sizes) > 1 and None not in sizes:
        return texts
    if len({call.count for call in calls}) > 1:
        said = ["" if call.count is None else f"{call.count:,} elements" for call in calls]
    elif len({call.shape for call in calls}) > 1 and all(map(_is_both, calls)):
        pairs = [call.shape or () for call in calls]
        said = [f"{into:,} elements in, {out:,} out" for into, out in pairs]
    else:
        return texts
    return [f"{text}  {more}".rstrip() for text, more in zip(texts, said, strict=True)]


def _is_both(call: Call) -> bool:
    """Tell whether the shape of a call is what it takes and what it gives, in elements."""
    return call.shape is not None and len(call.shape) == 2 and {*map(type, call.shape)} == {int}


def _seen_in(scene: Scene, place: Location) -> list[str]:
    """Return where a rank stood by its stack in a call whose place its log does not say."""
    inside = scene.recording.ranks[place.rank].inside
    return stack_note(scene, place.rank) if inside == place.op else []


def departure_words(scene: Scene, one: Departure) -> str:
    """Return where a rank left the sequence of the others, as a sentence."""
    lines = scene.rounds.lines[one.group]
    whose = one.rank if one.kind == "added" else one.reference
    calls = [
        scene.recording.location(whose, lines[whose].action(position))
        for position in range(one.position, one.position + one.calls)
        if one.kind != "swapped" and lines[whose].has(position)
    ]
    if one.kind == "swapped":
        pair = [
            scene.recording.location(one.reference, lines[one.reference].action(position))
            for position in (one.position, one.position + one.calls)
        ]
        said = " before ".join(f"{place.op}{at_words(place)}" for place in pair)
        return f"{name_ranks([one.reference])} calls {said}, rank {one.rank} the other way round"
    named = listed([f"{place.op}{at_words(place)}" for place in calls[:3]])
    if one.is_tie:
        without = one.reference if one.kind == "added" else one.rank
        return f"rank {whose} calls {named} (its #{one.position}), rank {without} does not"
    if one.kind == "added":
        return f"rank {one.rank} alone calls {named} (its #{one.position})"
    return f"rank {one.rank} left out {named} (#{one.position} of the others)"


def skip(scene: Scene, waits: list[Wait], one: Departure) -> Finding:
    """Return the finding of a call that a rank left out, so that a later one never completes."""
    lines = scene.rounds.lines[one.group]
    first = waits[0]
    what = call_words(scene, first.group, first.position, first.rank)
    before = lines[one.rank].action(one.position) if lines[one.rank].has(one.position) else None
    places = [(one.reference, lines[one.reference].action(one.position))]
    if before is not None:
        places.insert(0, (one.rank, before))
    waiting = sorted({wait.rank for wait in waits})
    return finding(
        scene,
        "PG007",
        f"{departure_words(scene, one)}; so {what} never completes",
        places,
        also=waiters(scene.recording, waits),
        ranks=(one.rank,),
        related=("PG211", "PG501"),
        notes=(
            f"waiting: {waiting_words(scene, waits)}",
            "evidence: the order of its calls over all groups; on this group alone they look alike",
            *wavefront_note(scene, [one.rank], skip=waiting),
        ),
        subkind="missing",
    )


def departure(scene: Scene, found: list[Departure]) -> Finding:
    """Return the finding of ranks whose calls shifted or swapped although every round agrees."""
    first = min(found, key=lambda one: (one.kind != "swapped", one.position))
    lines = scene.rounds.lines[first.group]
    same = [d for d in found if (d.kind, d.position) == (first.kind, first.position)]
    ranks = tuple(sorted({one.rank for one in same}))
    said = departure_words(scene, first)
    if len(ranks) > 1:
        said += f" (and {plural(len(ranks) - 1, 'rank')} more)"
    where = f"group {group_words(scene, first.group)}"
    places = [(first.rank, lines[first.rank].action(first.position))]
    if lines[first.reference].has(first.position):
        places.append((first.reference, lines[first.reference].action(first.position)))
    notes = [
        "evidence: call sites; the calls have the same kind and size, so the backend cannot notice"
    ]
    if first.is_tie:
        notes.append("evidence: as many ranks do the one as the other; neither side is blamed")
    if first.kind == "swapped":
        message = f"calls out of round on {where}: {said}"
        return finding(
            scene,
            "PG212",
            message,
            places,
            notes=tuple(notes),
            ranks=(tuple(sorted({first.rank, first.reference})) if first.is_tie else ranks),
        )
    waits = [w for ws in scene.graph.waits.values() for w in ws if w.group == first.group]
    if waits:
        where = call_words(scene, first.group, waits[0].position, waits[0].rank)
        notes.insert(0, f"waiting: {waiting_words(scene, waits)}")
    notes.append("missing participant: no cycle; every later call met an earlier one of the others")
    notes += wavefront_note(scene, ranks)
    blamed = ranks if not first.is_tie else tuple(sorted({first.rank, first.reference}))
    return finding(
        scene,
        "PG007",
        f"{said}; so {where} never completes",
        places,
        also=waiters(scene.recording, waits),
        ranks=blamed,
        related=("PG211", "PG212"),
        notes=tuple(notes),
        subkind="missing",
    )


def impossible(scene: Scene, explained: set[str]) -> Iterator[Finding]:
    """Yield all_reduce calls that take another number of elements than they give.

    Members that all say so agree with each other, and none of them can be right.
    """
    told: dict[str, list[tuple[int, int]]] = {}
    # By identity: ranks that make equal calls share them, mostly.
    uneven: dict[int, bool] = {}
    for rank, record in scene.recording.ranks.items():
        track = record.track
        for place, call in enumerate(track.calls):
            is_uneven = uneven.get(id(call))
            if is_uneven is None:
                is_reduced = call.family == "all_reduce" and call.shape
                is_uneven = uneven[id(call)] = bool(is_reduced) and len(set(call.shape or ())) > 1
            if not is_uneven or not call.group:
                continue
            if call.group not in explained and place in track.call:
                told.setdefault(call.group, []).append((rank, track.call.index(place)))
    for group, places in told.items():
        rank, action = places[0]
        into, out = scene.recording.ranks[rank].track.call_at(action).shape or (None, None)
        who = [rank for rank, _ in places]
        yield finding(
            scene,
            "PG202",
            f"an all_reduce of {name_ranks(who)} on group {group_words(scene, group)} takes "
            f"{into:,} elements and gives {out:,}",
            places,
            ranks=tuple(who),
        )


def unequal_exchange(scene: Scene, one: Unequal) -> Finding:
    """Return the finding of an all_to_all in which members take another amount than is given."""
    lines = scene.rounds.lines[one.group]
    places = [(rank, lines[rank].action(one.position)) for rank in one.ranks]
    op = scene.recording.location(*places[0]).op
    where = f"{op}, round {one.position} of group {group_words(scene, one.group)}"
    if one.is_pair:
        src, dst = one.ranks
        who = f"rank {src} gives {one.given:,} elements to rank {dst}, which takes {one.taken:,}"
    else:
        who = f"all members together give {one.given:,} elements and take {one.taken:,}"
    waits = [w for own in scene.graph.waits.values() for w in own if w.group == one.group]
    return finding(
        scene,
        "PG206",
        f"sizes of parts differ in {where}: {who}",
        places,
        notes=(
            "evidence: what one gives to another is what that one takes; nobody is blamed",
            *([f"waiting: {waiting_words(scene, waits)}"] if waits else []),
            *wavefront_note(scene, one.ranks),
        ),
        related=("PG501",),
    )


def pair_disagreements(scene: Scene) -> Iterator[Finding]:
    """Yield one finding for every direction whose sends and receives differ in size or type."""
    told: set[object] = set()
    tracks = scene.recording.ranks
    for key, send, recv in scene.channels.pairs():
        if key in told:
            continue
        group, src, dst = key
        one, other = tracks[src].track.call_at(send), tracks[dst].track.call_at(recv)
        code = None
        if None not in (one.bytes, other.bytes) and one.bytes != other.bytes:
            code = "PG202"
        elif None not in (one.dtype, other.dtype) and one.dtype != other.dtype:
            code = "PG203"
        if code is None:
            continue
        told.add(key)
        yield finding(
            scene,
            code,
            f"{FIELD_WORDS[code]} between rank {src} and rank {dst} on group "
            f"{group_words(scene, group)}: {one.text()} against {other.text()}",
            [(src, send), (dst, recv)],
        )
