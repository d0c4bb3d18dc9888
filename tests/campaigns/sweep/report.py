"""The tables of a sweep, and its rows as lines of JSON."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from .cases import Row


def append(path: Path, row: Row) -> None:
    """Write a row as one more line of JSON."""
    with path.open("a", encoding="utf-8") as lines:
        lines.write(f"{json.dumps(asdict(row))}\n")


def table(rows: list[Row]) -> str:
    """Count safe plans by kind and model: ``safe/all``, as a table in Markdown."""
    models = list(dict.fromkeys(model for row in rows for model in row.outcomes))
    lines = [f"| kind | plans | {' | '.join(models)} |", "|---|--:|" + "--:|" * len(models)]
    for kind in dict.fromkeys(row.kind for row in rows if row.outcomes):
        own = [row for row in rows if row.kind == kind and row.outcomes]
        cells = [_cell(own, model) for model in models]
        lines.append(f"| {kind} | {len(own)} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(rows: list[Row], model: str) -> str:
    """Say ``safe`` where all are, else how many have which outcome."""
    found = Counter(row.outcomes[model] for row in rows if model in row.outcomes)
    if set(found) <= {"SAFE"}:
        return "safe" if found else ""
    return ", ".join(f"{count} {outcome}" for outcome, count in sorted(found.items()))


def unsafe(rows: list[Row]) -> str:
    """List what is not SAFE: outcome and code, models, how often, and the smallest setting."""
    seen: dict[tuple[str, str], list[Row]] = {}
    models: dict[tuple[str, str], dict[str, None]] = {}
    for row in rows:
        for model, outcome in row.outcomes.items():
            if outcome != "SAFE":
                key = (row.kind, f"{outcome} {row.codes.get(model, '').partition(' ')[0]}")
                if not seen.setdefault(key, []) or seen[key][-1] is not row:
                    seen[key].append(row)
                models.setdefault(key, {})[model] = None
    lines = []
    for (kind, outcome), found in seen.items():
        least = min(found, key=lambda row: (row.ranks, row.actions))
        under = models[kind, outcome]
        said = next(least.codes[model] for model in under if model in least.codes)
        lines.append(
            f"{len(found):5} {kind}: {outcome} under {', '.join(under)}\n"
            f"      {least.options}\n      {said[:200]}"
        )
    return "\n".join(lines) or "none"


def refused(rows: list[Row]) -> str:
    """List why there was no plan, and how often."""
    found = Counter((row.by, row.kind, row.refused) for row in rows if row.refused)
    return "\n".join(
        f"{count:5} {by:8} {kind}: {why}" for (by, kind, why), count in sorted(found.items())
    ) or "none"  # fmt: skip


def totals(rows: list[Row]) -> str:
    """Say in one line what the sweep counted."""
    plans = [row for row in rows if row.outcomes]
    outcomes = Counter(outcome for row in plans for outcome in row.outcomes.values())
    counted = ", ".join(f"{count:,} {name}" for name, count in outcomes.most_common())
    return (
        f"{len(plans):,} plans, {sum(row.actions for row in plans):,} actions, "
        f"{sum(outcomes.values()):,} verdicts: {counted}; "
        f"{sum(row.by == 'planner' for row in rows):,} refused by the planner, "
        f"{sum(row.by == 'adapter' for row in rows):,} by the adapter"
    )
