"""Two plans beside each other: what differs in numbers, bytes and order, as data and as a page."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from math import isclose
from typing import TYPE_CHECKING

from planguard.report.page import CAP, Page
from planguard.report.page.headline import Number, numbers, time_text
from planguard.report.page.order import Order, order
from planguard.report.page.spans import Row, rows
from planguard.verdict import Outcome
from planguard.words import clean, size

if TYPE_CHECKING:
    from collections.abc import Iterator

    from planguard.plan.plan import Plan
    from planguard.simulate.schedule import Schedule
    from planguard.simulate.traffic import Traffic
    from planguard.verdict import Verdict

ROWS = 32
"""Ranks of each plan whose timeline is drawn."""
SETS = 100
"""Most sets of ranks whose differences are on the page."""
PAIRS = 200
"""Pairs of ranks whose bytes differ that are told, those that differ most first."""
DIFFERENT, EQUAL = "different", "equal"


@dataclass(frozen=True)
class Side:
    """One of the two plans, with what is known of it.

    Attributes:
        plan: The plan.
        name: What it is called.
        verdict: What a check says of it.
        run: Its modeled times, or None where it is too long to run.
        moved: What it moves.
        numbers: Its headline numbers.
    """

    plan: Plan
    name: str
    verdict: Verdict
    run: Schedule | None
    moved: Traffic
    numbers: tuple[Number, ...]


@dataclass(frozen=True)
class Beside:
    """What differs between two plans.

    Attributes:
        a: The first plan.
        b: The second plan.
        numbers: Name, text of A, text of B, change from A to B, where the numbers come from.
        bytes: Primitive, group, element type, phase, bytes and messages of A, those of B.
        pairs: Sender, receiver, bytes of A, bytes of B, where they differ.
        more_pairs: Pairs that differ and are not in ``pairs``.
        order: What the ranks do in another order.
        sentence: All of it in one sentence.
    """

    a: Side
    b: Side
    numbers: tuple[tuple[str, str, str, str, str], ...]
    bytes: tuple[tuple[str, str, str, str, int, int, int, int], ...]
    pairs: tuple[tuple[int, int, int, int], ...]
    more_pairs: int
    order: Order
    sentence: str


def side(plan: Plan, verdict: Verdict, name: str, model: str | None, algorithm: str) -> Side:
    """Return what the comparison asks of one plan.

    Args:
        plan: The plan.
        verdict: What a check says of it.
        name: What it is called.
        model: Execution model of its times; the plan's own if None.
        algorithm: How collectives are taken apart.
    """
    from planguard.report.page import run_of
    from planguard.simulate.traffic import traffic

    run = run_of(plan, model, verdict)
    moved = traffic(plan, algorithm)
    drawn = [] if run is None else rows(run)
    found = numbers(drawn, run, moved, plan, is_unsafe=verdict.unsafe)
    return Side(plan, name, verdict, run, moved, tuple(found))


def beside(a: Side, b: Side) -> Beside:
    """Return what differs between two plans."""
    told = tuple(_numbers(a, b))
    moved = tuple(_bytes(a.moved, b.moved))
    every = sorted(_pairs(a.moved, b.moved), key=lambda p: (-abs(p[3] - p[2]), p[0], p[1]))
    found = order(a.plan, b.plan)
    said = _sentence(a, b, any(row[4:6] != row[6:] for row in moved), bool(every), found)
    return Beside(
        a, b, told, moved, tuple(every[:PAIRS]), max(0, len(every) - PAIRS), found, said
    )  # fmt: skip


def _numbers(a: Side, b: Side) -> Iterator[tuple[str, str, str, str, str]]:
    outcome = a.verdict.outcome.value, b.verdict.outcome.value
    yield ("verdict", *outcome, EQUAL if outcome[0] == outcome[1] else DIFFERENT, "planguard check")
    for word, count, other in (
        ("ranks", a.plan.world_size, b.plan.world_size),
        ("actions", a.plan.actions, b.plan.actions),
    ):
        by = EQUAL if count == other else f"{other - count:+,}"
        yield word, f"{count:,}", f"{other:,}", by, "the plan"
    first, second = ({one.name: one for one in s.numbers} for s in (a, b))
    for name in {**first, **second}:
        one, two = first.get(name), second.get(name)
        texts = ["" if found is None else found.text for found in (one, two)]
        yield name, texts[0], texts[1], _change(one, two), _basis(one, two)


def _basis(one: Number | None, two: Number | None) -> str:
    """Return where two numbers come from: once where both say the same."""
    said = {side: found.what for side, found in (("A", one), ("B", two)) if found is not None}
    if len(set(said.values())) == 1:
        return next(iter(said.values()))
    return "; ".join(f"{side}: {what}" for side, what in said.items())


def _change(one: Number | None, two: Number | None) -> str:
    """Return the change from A to B: absolute, and relative where that means something."""
    if one is None or two is None:
        return f"only in {'B' if one is None else 'A'}"
    if one.amount is None or two.amount is None:
        return EQUAL if one.amount == two.amount else DIFFERENT
    if isclose(one.amount, two.amount):  # sums of the same times in another order
        return EQUAL
    by = two.amount - one.amount
    sign = "+" if by > 0 else "-"
    if one.unit == "share":
        return f"{by * 100:+.1f} points"
    if one.unit == "times":
        return f"{by:+.2f}"
    text = time_text(abs(by)) if one.unit == "us" else size(round(abs(by)))
    share = f" ({by / one.amount:+.1%})" if one.amount else ""
    return f"{sign}{text}{share}"


def _bytes(a: Traffic, b: Traffic) -> Iterator[tuple[str, str, str, str, int, int, int, int]]:
    """Yield what each kind of traffic moves, those that differ most first."""
    found: list[tuple[str, str, str, str, int, int, int, int]] = []
    for key in {*a.edges, *b.edges}:
        one, two = ([*moved.edges.get(key, {}).values()] for moved in (a, b))
        found.append(
            (clean(key.primitive), clean(key.group), clean(key.dtype), clean(key.phase),
             sum(number for number, _ in one), sum(count for _, count in one),
             sum(number for number, _ in two), sum(count for _, count in two))
        )  # fmt: skip
    found.sort(key=lambda row: (-abs(row[6] - row[4]), row))
    yield from found


def _pairs(a: Traffic, b: Traffic) -> Iterator[tuple[int, int, int, int]]:
    one, two = a.total(), b.total()
    for src, dst in {*one, *two}:
        first = one.get((src, dst), (0, 0))[0]
        second = two.get((src, dst), (0, 0))[0]
        if first != second:
            yield src, dst, first, second


def _sentence(a: Side, b: Side, moves: bool, pairs: bool, found: Order) -> str:  # noqa: FBT001
    """Say in one sentence what differs: in answer, time, bytes and order."""
    parts = []
    if a.verdict.outcome is not b.verdict.outcome:
        parts.append(f"A is {a.verdict.outcome.value} and B is {b.verdict.outcome.value}")
    elif a.verdict.outcome is not Outcome.SAFE:
        parts.append(f"both are {a.verdict.outcome.value}")
    first, second = ({one.name: one for one in s.numbers} for s in (a, b))
    one, two = first.get("step time"), second.get("step time")
    if one is None or two is None or one.amount is None or two.amount is None:
        parts.append("the times of the steps cannot be compared")
    else:
        change = _change(one, two)
        is_equal = change == EQUAL
        parts.append("the modeled step times are equal" if is_equal else f"step time {change} in B")
    totals = first.get("bytes moved"), second.get("bytes moved")
    if not moves:
        parts.append("the same bytes move")
    elif _change(*totals) == EQUAL:
        kinds = "between other ranks or by other calls" if pairs else "by other calls"
        parts.append(f"as many bytes move, {kinds}")
    else:
        parts.append(f"bytes moved {_change(*totals)} in B")
    count = sum(len(one.ranks) for one in found.differs)
    if count:
        parts.append(f"{count:,} rank{'s' * (count > 1)} with other programs")
    elif found.note:
        parts.append("the programs that were compared are equal")
    else:
        parts.append("every rank that both have runs the same program")
    if found.only:
        more = "B" if b.plan.world_size > a.plan.world_size else "A"
        parts.append(f"{len(found.only):,} rank{'s' * (len(found.only) > 1)} only in {more}")
    text = "; ".join(parts)
    return f"{text[0].upper()}{text[1:]}."


def beside_page(found: Beside) -> Page:
    """Draw two plans beside each other as one HTML file; equal inputs give equal bytes."""
    from planguard.report.page.html import BESIDE_SCRIPTS, assemble

    data = b""
    for count in (ROWS, 4, 0):
        data = assemble(_packed(found, count), BESIDE_SCRIPTS)
        if len(data) <= CAP:
            break
    return Page(data)


def _packed(found: Beside, count: int) -> str:
    from planguard import __version__
    from planguard.report.page import timed
    from planguard.report.page.columns import Columns, Names
    from planguard.report.page.spans import SpanTable

    columns, names = Columns(), Names()
    sides = []
    for one, prefix in ((found.a, "a."), (found.b, "b.")):
        kept: list[Row] = [] if one.run is None else rows(one.run)[:count]
        table = SpanTable(one.plan, names)
        time = timed(one.run if kept else None, kept, table, columns, prefix)
        findings = [[f.code, clean(f.message)] for f in one.verdict.findings[:3]]
        sides.append({"name": clean(one.name), "outcome": one.verdict.outcome.value,
                      "findings": findings, "time": time,
                      "left": one.plan.world_size - len(kept)})  # fmt: skip
    head = {
        "beside": True,
        "title": f"{clean(found.a.name)} and {clean(found.b.name)}",
        "version": __version__,
        "sentence": found.sentence,
        "sides": sides,
        "numbers": found.numbers,
        "bytes": found.bytes,
        "pairs": found.pairs,
        "more_pairs": found.more_pairs,
        "basis": f"{found.a.moved.algorithm}, {found.a.moved.basis}",
        "notes": sorted({*found.a.moved.notes, *found.b.moved.notes}),
        "order": asdict(replace(found.order, differs=found.order.differs[:SETS])),
        "more_sets": max(0, len(found.order.differs) - SETS),
        "differ": sum(len(one.ranks) for one in found.order.differs),
        "names": names.texts,
    }
    return columns.packed(head)
