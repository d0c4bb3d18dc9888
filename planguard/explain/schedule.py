"""A witness as a table: one row per step, one column per rank."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planguard.explain.lines import Line, flow, line
from planguard.words import cut, plural

if TYPE_CHECKING:
    from planguard.plan.plan import Plan
    from planguard.verdict import Finding, Witness, WitnessStep

NARROW = 28
"""Fewest columns in which an action is still readable."""
HEAD, TAIL = 12, 8
"""Steps shown of a long schedule, at its begin and at its end."""

ENDS = {
    "stuck": "ends stuck",
    "mismatch": "ends in a mismatch",
}


def schedule_lines(finding: Finding, plan: Plan | None, pad: str, width: int) -> list[Line]:
    """Return the schedule of a finding's witness.

    Args:
        finding: A finding with a witness.
        plan: For the texts of the actions; None takes those of the finding.
        pad: What stands left of the equals sign.
        width: Columns of the whole line.
    """
    witness = finding.witness
    assert witness is not None  # noqa: S101  callers look first
    if not witness.steps:
        return []
    texts = _Texts(finding, plan)
    steps = _told(finding, witness)
    minimal = f"minimal: {plural(len(steps), 'step')}" if witness.minimal else "not minimal"
    title = f"one execution that {ENDS[witness.end]} ({minimal})"
    out: list[Line] = [line(("gutter", f"{pad}= "), title)]
    ranks = sorted({step.rank for step in witness.steps})
    room = (width - len(pad) - 9) // max(1, len(ranks))
    rows = _columns(steps, ranks, texts, room) if room >= NARROW else _list(steps, texts, width)
    out += [line(f"{pad}  {row}") for row in rows]
    return out + flow(line(f"{pad}        "), _end(witness, texts), width=width)


class _Texts:
    """The text of an action, wherever it is known."""

    def __init__(self, finding: Finding, plan: Plan | None) -> None:
        self.plan = plan
        known = [finding.primary, *finding.related_actions]
        for edge in finding.cycle:
            known += [edge.at, edge.waits_for, edge.behind]
        self.known = {(at.rank, at.action): at.text or at.op for at in known if at is not None}

    def __call__(self, rank: int, action: int) -> str:
        if self.plan is not None:
            return self.plan.describe_action(rank, action)
        return self.known.get((rank, action), "")


def _told(finding: Finding, witness: Witness) -> list[WitnessStep]:
    """Return the steps; whether members that disagree complete is not predicted."""
    if witness.end == "stuck":
        return list(witness.steps)
    places = [finding.primary, *finding.related_actions]
    ends = {(at.rank, at.action) for at in places if at is not None}
    return [
        step
        for step in witness.steps
        if step.event != "complete" or (step.rank, step.action) not in ends
    ]


def _shown(steps: list[WitnessStep]) -> list[WitnessStep | None]:
    """Return the steps to show; None stands for those left out."""
    if len(steps) <= HEAD + TAIL + 1:
        return [*steps]
    return [*steps[:HEAD], None, *steps[-TAIL:]]


def _columns(steps: list[WitnessStep], ranks: list[int], texts: _Texts, room: int) -> list[str]:
    rows = ["step  " + "".join(f"rank {rank}".ljust(room) for rank in ranks)]
    for step in _shown(steps):
        if step is None:
            rows.append(f"      ... {len(steps) - HEAD - TAIL:,} more steps")
            continue
        text = f"{step.event} #{step.action} {texts(step.rank, step.action)}"
        if len(text) >= room:
            text = cut(text.partition("  ")[0], room - 1)
        rows.append(f"{step.step:>4}  " + " " * (room * ranks.index(step.rank)) + text)
    return rows


def _list(steps: list[WitnessStep], texts: _Texts, width: int) -> list[str]:
    rows = ["step  rank  event     action"]
    for step in _shown(steps):
        if step is None:
            rows.append(f"      ... {len(steps) - HEAD - TAIL:,} more steps")
            continue
        action = f"#{step.action} {texts(step.rank, step.action)}"
        rows.append(f"{step.step:>4}  {step.rank:<4}  {step.event:<8}  {cut(action, width - 30)}")
    return rows


def _end(witness: Witness, texts: _Texts) -> str:
    if witness.end == "mismatch":
        return "silent corruption, abort or hang"
    stuck = [
        f"r{rank}#{action} {texts(rank, action).partition('  ')[0]}"
        for rank, action in witness.blocked
    ]
    more = f" and {len(stuck) - 6} more" if len(stuck) > 6 else ""
    return f"stuck: {', '.join(stuck[:6])}{more}"
