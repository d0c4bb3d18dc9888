"""Decide every sample of every planner adapter as a user would, and count what is UNKNOWN.

    python tests/campaigns/planner_samples.py              # all of them, and the page
    python tests/campaigns/planner_samples.py --only fx    # the samples of an adapter
    python tests/campaigns/planner_samples.py --write      # the page alone, from the stored rows
    python tests/campaigns/planner_samples.py --check      # is the page what --write would give?

A sample is what an adapter recognizes in tests/samples and examples: a file, or a folder that is
one plan; programs that a manifest beside them runs are parts of it. Each is loaded by its path
alone, without a planner's name and without an option (a strategy of Galvatron with the number of
ranks that its name has, which it does not hold), and checked under every model. Two equal samples
count once. What each gave is stored in data/planner_samples.json with a digest of its bytes;
docs/planners/samples.md is written from that. Ends with 1 where more than 2 % of the samples are
UNKNOWN under the model that the command line takes by default.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import planguard
from planguard import registry
from planguard.options import MODEL_NAMES

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("tests/samples", "examples")
ROWS = Path(__file__).parent / "data" / "planner_samples.json"
PAGE = ROOT / "docs" / "planners" / "samples.md"
DEFAULT = "nccl"
"""The model that ``planguard check`` takes where nobody names one."""
MOST_UNKNOWN = 0.02
BUDGET = 20.0
"""Seconds for one verdict."""

Row = dict[str, Any]


# --- finding -------------------------------------------------------------------------------------


def samples() -> Iterator[tuple[str, str, str]]:
    """Yield path, adapter and digest of every sample; of equal ones, the first.

    Raises:
        UsageError: Two adapters recognize one.
    """
    seen = set()
    for folder in FOLDERS:
        for path, planner in _recognized(ROOT / folder):
            mark = (planner, digest(path))
            if mark not in seen:
                seen.add(mark)
                yield path.relative_to(ROOT).as_posix(), *mark


def _recognized(folder: Path) -> Iterator[tuple[Path, str]]:
    """Yield what is a sample below a folder. A folder without folders may be one."""
    inside = sorted(path for path in folder.iterdir() if path.name != "__pycache__")
    if not any(path.is_dir() for path in inside):
        found = registry.recognize(folder)
        if found is not None:
            yield folder, found.name
            return
    parts = _parts(inside)
    for path in inside:
        if path.is_dir():
            yield from _recognized(path)
        elif path.suffix == ".py" or path.name in parts:
            continue
        elif (found := registry.recognize(path)) is not None:
            yield path, found.name


def _parts(inside: list[Path]) -> set[str]:
    """Return the names of programs that a manifest beside them runs: the sample is the manifest."""
    documents = [json.loads(path.read_text()) for path in inside if path.match("*.mpmd.json")]
    return {program for document in documents for program in document["programs"].values()}


def digest(path: Path) -> str:
    """Name the bytes of a sample: of a folder, those of its files with their names."""
    mark = hashlib.sha256()
    if path.is_file():
        mark.update(path.read_bytes())
    else:
        for file in sorted(path.iterdir()):
            if file.is_file():
                mark.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
    return mark.hexdigest()[:16]


# --- deciding ------------------------------------------------------------------------------------


def decide(path: str, models: tuple[str, ...] = MODEL_NAMES) -> dict[str, Any]:
    """Return size, outcome under each model, and why what is UNKNOWN is not decided."""
    plan = planguard.load(ROOT / path, **options_of(path))
    verdicts = {one: planguard.check(plan, model=one, budget=BUDGET) for one in models}
    reasons = {one: why(verdict) for one, verdict in verdicts.items() if verdict.unknown}
    return {
        "ranks": plan.world_size,
        "actions": plan.actions,
        "outcomes": {one: verdict.outcome.value for one, verdict in verdicts.items()},
        "reasons": reasons,
    }


def options_of(path: str) -> dict[str, int]:
    """Return what the name of a sample says and its content does not."""
    named = re.search(r"galvatron/.*_(\d+)nodes_(\d+)gpus_per_node", path)
    return {"world_size": int(named[1]) * int(named[2])} if named else {}


def why(verdict: planguard.Verdict) -> str:
    """Return why a verdict is UNKNOWN: what the ledger says was not seen, else its first reason."""
    unseen = [entry for entry in verdict.approximations if entry.direction == "under"]
    if unseen:
        return f"`{unseen[0].kind}`: {unseen[0].message}"
    return verdict.reasons[0] if verdict.reasons else "no reason given"


def _run(rows: dict[str, Row], only: str | None) -> dict[str, Row]:
    """Decide the samples, or those of an adapter; the rows of samples that are gone go too."""
    every = list(samples())
    made = {path: rows[path] for path, _, _ in every if path in rows}
    for path, planner, mark in every:
        if only in (None, planner):
            made[path] = {"planner": planner, "digest": mark, **decide(path)}
            print(f"{planner:11} {path:64} {_short(made[path])}", flush=True)
    return {path: made[path] for path, _, _ in every if path in made}


def _short(row: Row) -> str:
    counts = Counter(row["outcomes"].values())
    return ", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items()))


# --- the page ------------------------------------------------------------------------------------

HEAD = """# The samples of all adapters

How many of the samples of each adapter are decided, and why the others are not. A sample is what
an adapter recognizes in `tests/samples` and `examples`, a manifest with its programs as one;
planners wrote them, and some were then damaged to be unsafe. Each is loaded by its path alone,
without an option, and checked under each model; strategies of Galvatron, which do not say for how
many ranks they are, with the number in their name. Equal samples count once.

<!-- not run: minutes, and it writes this page -->
```sh
python tests/campaigns/planner_samples.py
```

Where a model does not have an operation of a plan, its answer is UNKNOWN and counts like any other.
"""


def page(rows: dict[str, Row]) -> str:
    """Return the page's text."""
    planners = sorted({row["planner"] for row in rows.values()})
    lines = [HEAD, *_table(rows, planners), "", *_undecided(rows)]
    return "\n".join(lines) + "\n"


def _table(rows: dict[str, Row], planners: list[str]) -> Iterator[str]:
    yield (
        f"| adapter | samples | ranks | actions | SAFE, `{DEFAULT}` | unsafe | UNKNOWN | "
        f"answers under {len(MODEL_NAMES)} models | UNKNOWN of them |"
    )
    yield "|---|---|---|---|---|---|---|---|---|"
    for planner in planners:
        own = [row for row in rows.values() if row["planner"] == planner]
        yield _line(f"[{planner}]({planner}.md)", own)
    yield _line("all", list(rows.values()))


def _line(name: str, own: list[Row]) -> str:
    counts = Counter(row["outcomes"][DEFAULT] for row in own)
    unsafe = len(own) - counts["SAFE"] - counts["UNKNOWN"]
    answers = [outcome for row in own for outcome in row["outcomes"].values()]
    ranks, actions = (_range([row[key] for row in own]) for key in ("ranks", "actions"))
    return (
        f"| {name} | {len(own)} | {ranks} | {actions} | {counts['SAFE']} | {unsafe} | "
        f"{_share(counts['UNKNOWN'], len(own))} | {len(answers)} | "
        f"{_share(answers.count('UNKNOWN'), len(answers))} |"
    )


def _range(numbers: list[int]) -> str:
    least, most = min(numbers), max(numbers)
    return f"{least:,}" if least == most else f"{least:,} to {most:,}"


def _share(count: int, of: int) -> str:
    return f"{count} ({100 * count / of:.1f} %)" if count else "0"


def _undecided(rows: dict[str, Row]) -> Iterator[str]:
    undecided = {path: row["reasons"] for path, row in rows.items() if row["reasons"]}
    if not undecided:
        yield "No sample is UNKNOWN under any model."
        return
    yield "## What is not decided\n"
    yield "| sample | UNKNOWN under | why |"
    yield "|---|---|---|"
    for path, reasons in sorted(undecided.items()):
        for reason in dict.fromkeys(reasons.values()):
            models = [one for one, said in reasons.items() if said == reason]
            where = "all models" if len(models) == len(MODEL_NAMES) else ", ".join(models)
            yield f"| `{path}` | {where} | {_cell(reason)} |"


def _cell(text: str) -> str:
    return re.sub(r"\s+", " ", text).replace("|", "\\|")


def undecided_share(rows: dict[str, Row]) -> float:
    """Return the share of samples that are UNKNOWN under the default model."""
    return sum(row["outcomes"][DEFAULT] == "UNKNOWN" for row in rows.values()) / max(len(rows), 1)


# --- the command ---------------------------------------------------------------------------------


def stored() -> dict[str, Row]:
    """Return what each sample gave when it was last decided, by path."""
    return dict(json.loads(ROWS.read_text(encoding="utf-8"))) if ROWS.exists() else {}


def main(arguments: list[str] | None = None) -> int:
    """Decide, store, write; or write, or check alone."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--only", metavar="ADAPTER", help="decide the samples of this one")
    parser.add_argument("--write", action="store_true", help="write the page, decide nothing")
    parser.add_argument("--check", action="store_true", help="compare the page, decide nothing")
    asked = parser.parse_args(arguments)
    rows = stored()
    if asked.check:
        is_same = PAGE.read_text(encoding="utf-8") == page(rows)
        name = PAGE.relative_to(ROOT)
        print(f"{name} is as it would be written" if is_same else f"{name} differs: --write")
        return 0 if is_same else 1
    if not asked.write:
        rows = _run(rows, asked.only)
        ROWS.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    PAGE.write_text(page(rows), encoding="utf-8")
    share = undecided_share(rows)
    print(f"{len(rows)} samples, {100 * share:.1f} % UNKNOWN; wrote {PAGE.relative_to(ROOT)}")
    return 1 if share > MOST_UNKNOWN else 0


if __name__ == "__main__":
    sys.exit(main())
