"""A verdict in a notebook: one line, a table of findings, and the full text to unfold.

Everything from the plan is escaped twice over: as a terminal would need it, then as HTML.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from planguard.explain.answer import explain_text, sizes
from planguard.explain.reasons import name
from planguard.words import clean, name_ranks

if TYPE_CHECKING:
    from planguard.verdict import Finding, Verdict

SHOWN = 50
"""Most findings in the table."""
_COLORS = {"SAFE": "#1a7f37", "UNKNOWN": "#8250df"}
_UNSAFE = "#cf222e"
_HEADS = ("severity", "code", "finding", "ranks", "action", "what to change")


def verdict_html(verdict: Verdict) -> str:
    """Return a fragment of HTML without scripts and without links to anywhere."""
    color = _COLORS.get(verdict.outcome.value, _UNSAFE)
    title = (
        f'<p><b style="color:{color}">{verdict.outcome.value}</b> under model '
        f"{_text(verdict.model)} &middot; {_text(sizes(verdict.stats))}</p>"
    )
    full = f"<details><summary>full diagnostic</summary><pre>{_pre(verdict)}</pre></details>"
    return f"<div>{title}{_table(verdict)}{full}</div>"


def _table(verdict: Verdict) -> str:
    if not verdict.findings:
        return ""
    heads = "".join(f"<th>{head}</th>" for head in _HEADS)
    rows = "".join(map(_row, verdict.findings[:SHOWN]))
    more = len(verdict.findings) - SHOWN
    rest = f'<tr><td colspan="{len(_HEADS)}">and {more:,} more</td></tr>' if more > 0 else ""
    return f"<table><thead><tr>{heads}</tr></thead><tbody>{rows}{rest}</tbody></table>"


def _row(finding: Finding) -> str:
    cells = (
        finding.severity,
        f"{finding.code} {finding.name}",
        finding.message,
        name_ranks(finding.ranks) if finding.ranks else "",
        "" if finding.primary is None else name(finding.primary),
        finding.help,
    )
    return f"<tr>{''.join(f'<td>{_text(cell)}</td>' for cell in cells)}</tr>"


def _pre(verdict: Verdict) -> str:
    return escape(explain_text(verdict))


def _text(text: str) -> str:
    return escape(clean(text))
