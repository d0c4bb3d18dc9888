"""The page of memory snapshots: what was in use over time, and what was alive at the peak."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple

from planguard.recording.memory import ALLOCATED, GROWS, INACTIVE, PARTS, SHRINKS, pools, use_of
from planguard.recording.sites import BEFORE, shown
from planguard.report.page import CAP, Page
from planguard.report.page.columns import ABSENT, Columns, Names
from planguard.report.page.html import MEMORY_SCRIPTS, assemble
from planguard.words import clean, listed, plural, size

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planguard.recording.memory import Device, Segment

SITES = 8
"""Call sites with a color of their own: the largest at the peaks."""
SEGMENTS = 400
"""Most segments of a device that are drawn; all are in the table."""
FRAMES = 40
"""Most frames of a stack on the page, the innermost."""


class Told(NamedTuple):
    """What is said first of some devices.

    Attributes:
        sentence: The cause, in one sentence.
        facts: What it consists of: a term and a text each.
        is_out: Memory was out.
    """

    sentence: str
    facts: tuple[tuple[str, str], ...]
    is_out: bool


def memory_page(title: str, found: Sequence[Device]) -> Page:
    """Draw snapshots as one HTML file; equal snapshots give equal bytes.

    Args:
        title: What they are called together.
        found: Devices of all snapshots. Above 5 MB first stacks are left out, then the histories
            of all devices but the one that used most, and the page says so.
    """
    data = b""
    for has_stacks, drawn in (
        (True, found),
        (False, found),
        (False, [_highest(found)]),
        (False, []),
    ):
        data = assemble(_packed(title, found, drawn, has_stacks=has_stacks), MEMORY_SCRIPTS)
        if len(data) <= CAP:
            break
    return Page(data)


def _highest(found: Sequence[Device]) -> Device:
    return max(found, key=lambda one: max(one.used))


def told(found: Sequence[Device]) -> Told:
    """Say what matters first: who was out of memory and who took it, or who used most."""
    out = next((one for one in found if one.ooms), None)
    one = out or _highest(found)
    at = one.ooms[0] if out is not None else one.peak
    rows, used, use = one.by_site(at), one.used[at + 1], use_of(one.segments)
    most = rows[0] if rows else ("nothing", 0, 0)
    share = f"{100 * most[1] / used:.0f}% of it is from {clean(most[0])}" if used else "nothing"
    facts = []
    if out is not None:
        entry = one.entries[at]
        asked = f"{size(entry.size)} were asked for and the device had {size(entry.address)} left"
        sentence = f"{clean(one.name)}: {asked}, with {size(used)} in use: {share}."
        facts.append(("asked by", clean(one.sites[entry.stack])))
        others = [clean(o.name) for o in found if o.ooms and o is not one]
        facts += [("out of memory too", listed(others))] if others else []
        spare = one.reserved[at + 1] - used
        parts = ", in parts that are too small or of another stream or pool"
        text = f"{size(spare)} at that moment{parts if spare >= entry.size else ''}"
        facts.append(("reserved, not asked for", text))
    else:
        moment = (
            f"after entry {at + 1:,} of {len(one.entries):,}"
            if at >= 0
            else "as the history begins"
        )
        when = (
            f"at most {size(used)} in use, {moment}"
            if one.entries
            else f"{size(used)} in use at the end"
        )
        sentence = f"{clean(one.name)}: {when}: {share}."
    named = [f"{size(b)} from {clean(site)} ({plural(n, 'block')})" for site, b, n in rows[:3]]
    facts.append(("alive then", listed(named) if named else "nothing"))
    if len(found) > 1:
        low = min(found, key=lambda o: max(o.used))
        text = (
            f"from {size(max(low.used))} ({clean(low.name)}) to {size(max(_highest(found).used))}"
        )
        facts.append(("most in use by device", f"{text} ({clean(_highest(found).name)})"))
    if len(found) == 2 and (text := _moved(*found)):
        facts.append(("segments", text))
    parts = f"{size(use.idle)} in idle segments, {size(use.holes)} in holes"
    free = f"{size(use.free)} of {size(use.reserved)}: {parts}; the largest {size(use.largest)}"
    facts.append(("free at the end", free))
    return Told(sentence, tuple(facts), out is not None)


def _moved(one: Device, other: Device) -> str:
    """Say which segments are in one of two snapshots of a process only; else nothing.

    Two processes may have equal addresses, so the histories have to share an entry with its time.
    """
    kept, more = ({e[:4] for e in each.entries if e.time} for each in (one, other))
    if one.device != other.device or not kept & more:
        return ""
    a, b = ({(s.address, s.size) for s in each.segments} for each in (one, other))
    only = []
    for each, own in ((one, a - b), (other, b - a)):
        total = size(sum(length for _, length in own))
        only.append(f"{plural(len(own), 'segment')} ({total}) only in {clean(each.name)}")
    return f"{len(a & b):,} in both, {listed(only)}"


def _packed(
    title: str, found: Sequence[Device], drawn: Sequence[Device], *, has_stacks: bool
) -> str:
    from planguard import __version__

    columns, names, sites = Columns(), Names(), Names()
    first = told(found)
    tables: dict[int, int] = {}
    stacks: list[list[int]] = []
    stack_sites: list[int] = []
    for one in found:  # devices of one snapshot share its stacks
        if id(one.stacks) in tables:
            continue
        tables[id(one.stacks)] = len(stack_sites)
        stack_sites += [sites.number(clean(site)) for site in one.sites]
        stacks += [[names.number(clean(str(frame))) for frame in shown(stack)[:FRAMES]]
                   for stack in (one.stacks if has_stacks else ())]  # fmt: skip
    unknown = sites.number(BEFORE)
    rows = [_device(one, at, tables[id(one.stacks)], columns, is_drawn=one in drawn)
            for at, one in enumerate(found)]  # fmt: skip
    asked = [one.used[at + 1] + one.entries[at].size for one in found for at in one.ooms]
    most = max(max(*one.used, *one.reserved) for one in found)
    head = {
        "memory": True,
        "title": clean(title),
        "version": __version__,
        "sentence": first.sentence,
        "facts": first.facts,
        "isOut": first.is_out,
        "devices": rows,
        "highest": found.index(_highest(found)),
        "most": max(1, most, *(min(one, 2 * most) for one in asked)),
        "sites": sites.texts,
        "unknown": unknown,
        "top": _top(found, sites),
        "stackSites": stack_sites,
        "stacks": stacks,
        "names": names.texts,
    }
    return columns.packed(head)


def _top(found: Sequence[Device], sites: Names) -> list[int]:
    """Return the sites that take most at the peaks and where memory was out."""
    total: dict[int, int] = {}
    for one in found:
        for at in {one.peak, *one.ooms[:1]}:
            for site, used, _ in one.by_site(at):
                number = sites.number(clean(site))
                total[number] = max(total.get(number, 0), used)
    return sorted(total, key=lambda number: (-total[number], number))[:SITES]


def _device(
    one: Device, at: int, stack: int, columns: Columns, *, is_drawn: bool
) -> dict[str, Any]:
    """Return the head of a device; write its columns. A state is one more than an entry."""
    entries = one.entries if is_drawn else ()
    # Without its history only the peak is left: what was alive then.
    lives = one.lives if is_drawn else [x._replace(begin=-1, end=1) for x in one.alive(one.peak)]
    columns.put(f"{at}.begin", [life.begin + 1 for life in lives])
    columns.put(
        f"{at}.end",
        [life.end + 1 if life.end < len(entries) or not is_drawn else ABSENT for life in lives],
    )
    columns.put(f"{at}.size", [life.size for life in lives], "f64")
    columns.put(f"{at}.stack", [ABSENT if life.stack < 0 else life.stack + stack for life in lives])
    columns.put(f"{at}.address", [life.address for life in lives], "f64")
    columns.put(f"{at}.time", _times(one) if is_drawn else [], "f64")
    grown = [(state, e.size if e.action in GROWS else -e.size, e) for state, e
             in enumerate(entries, 1) if e.action in GROWS or e.action in SHRINKS]  # fmt: skip
    columns.put(f"{at}.grown.at", [state for state, _, _ in grown])
    columns.put(f"{at}.grown.by", [by for _, by, _ in grown], "f64")
    columns.put(f"{at}.grown.address", [e.address for _, _, e in grown], "f64")
    columns.put(f"{at}.grown.part", [e.action in PARTS for _, _, e in grown], "u8")
    segments = sorted(one.segments, key=lambda s: (-s.size, s.address))
    notes = list(one.notes)
    if not is_drawn:
        notes.append("the page would pass 5 MB: of its history only the peak is left")
    ooms = one.ooms if is_drawn else []
    return {
        "name": clean(one.name),
        "entries": len(entries),
        "before": one.reserved[0] if is_drawn else one.reserved[one.peak + 1],
        "peak": one.peak + 1 if is_drawn else 0,
        "ooms": [entry + 1 for entry in ooms],
        "asked": [one.entries[entry].size for entry in ooms],
        "notes": notes,
        "use": use_of(one.segments).__dict__,
        "pools": [[*row[:3], row[3].__dict__] for row in pools(one.segments)],
        "segments": [_segment(s, stack) for s in segments[:SEGMENTS]],
        "more": max(0, len(segments) - SEGMENTS),
    }


def _segment(segment: Segment, stack: int) -> list[Any]:
    states = {INACTIVE: 0, ALLOCATED: 1}
    blocks = [[b.size, states.get(b.state, 2), b.stack + stack] for b in segment.blocks]
    return [segment.size, segment.stream, segment.kind, blocks, segment.address]


def _times(one: Device) -> list[int]:
    """Return microseconds of every state from the first entry; nothing where some have none."""
    times = [entry.time for entry in one.entries]
    if not times or any(time is None for time in times):
        return []
    first = times[0] or 0
    return [0, *accumulate((max(0, (time or 0) - first) for time in times), max)]
