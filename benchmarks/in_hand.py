"""Measures ``planguard audit`` on a folder of incidents with their truth.

    python benchmarks/in_hand.py FOLDER [--verbose]

FOLDER holds one folder per incident and ``labels.json``: for each its ``id``, the arguments ``run``
of ``planguard audit`` as seen from the incident's folder, whether class and ranks are
``determinable`` from what is there, and the answers that count as right in ``accept``: a class and
sets of ranks (``any``, or a subset of a set is right, too).

Four numbers come out. *Accepted*: the audit read it and gave a verdict (exit code 0, 1 or 3).
*Class* and *rank*: of the determinable ones, how many first findings name them, certain or not.
*Wrong certainties*: errors that are no heuristic and whose class, or ranks, are none of those
accepted, and SAFE where the run was stuck.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CLASSES = {
    "missing": ("PG007", "PG009", "PG501"),
    "drift": ("PG211", "PG212", "PG007", "PG006"),
    "kind": ("PG201", "PG204", "PG205", "PG009"),
    "size": ("PG202", "PG203", "PG206"),
    "cross": ("PG002", "PG004", "PG008"),
    "p2p": ("PG001", "PG003", "PG208", "PG209", "PG010", "PG011", "PG012"),
    "crash": ("PG506", "PG006"),
    "threads": (),
}
"""Codes that state each class."""
HEALTHY = ("none", "slow")
TIMEOUT_S = 120


@dataclass
class Row:
    """How one incident came out.

    Attributes:
        name: Incident.
        accepted: The audit gave a verdict.
        is_class, is_rank: Its first finding names an accepted class, and ranks of it.
        wrong: Statements of certainty that are wrong.
        said: First finding and verdict.
    """

    name: str
    determinable: bool
    accepted: bool
    is_class: bool
    is_rank: bool
    wrong: list[str]
    said: str


def measure(folder: Path) -> list[Row]:
    """Audit every incident of a folder and compare with its label."""
    labels = json.loads((folder / "labels.json").read_text("utf-8"))
    return [_row(folder / label["id"], label) for label in labels]


def _row(folder: Path, label: dict[str, Any]) -> Row:
    command = [sys.executable, "-m", "planguard", "audit", *label["run"], "--format", "json"]
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
        )
        code, out = done.returncode, done.stdout
    except subprocess.TimeoutExpired:
        code, out = -1, ""
    try:
        result = json.loads(out) if code in (0, 1, 3) else None
    except ValueError:
        result = None
    if result is None:
        return Row(label["id"], label["determinable"], False, False, False, [], f"exit {code}")
    return judged(label, result)


def judged(label: dict[str, Any], result: dict[str, Any]) -> Row:
    """Return how a result, as ``--format json`` prints it, compares with a label."""
    outcome, findings = _read(result)
    told = [f for f in findings if f["code"].startswith(("PG0", "PG2", "PG50"))]
    told = [f for f in told if f["code"] not in ("PG502", "PG507", "PG508")]
    first = told[0] if told else None
    absent = [r for f in findings if f["code"] == "PG911" for r in f["ranks"]]
    is_class = first is not None and any(_has_class(first, a) for a in label["accept"])
    is_rank = first is not None and any(
        _has_class(first, a) and _has_ranks(first, absent, a) for a in label["accept"]
    )
    said = f"{outcome} " + (
        f"{first['code']} {first['ranks']} {first['severity']}/{first['certainty']}"
        if first
        else "-"
    )
    wrong = _wrong(label, outcome, told, absent)
    return Row(label["id"], label["determinable"], True, is_class, is_rank, wrong, said)


def _read(result: dict[str, Any]) -> tuple[str, list[dict[str, Any]]]:
    """Return outcome and findings of the JSON that ``audit`` prints."""
    (one,) = result.get("results", (result,))
    verdict = one.get("verdict", one)
    outcome = verdict["outcome"] if isinstance(verdict, dict) else str(verdict)
    body = verdict if isinstance(verdict, dict) and "findings" in verdict else one
    return outcome, body["findings"]


def _has_class(finding: dict[str, Any], accept: dict[str, Any]) -> bool:
    return finding["code"] in CLASSES.get(accept["class"], ())


def _has_ranks(finding: dict[str, Any], absent: list[int], accept: dict[str, Any]) -> bool:
    if accept["ranks"] == "any":
        return True
    ranks = set(absent if finding["code"] == "PG501" else finding["ranks"])
    return bool(ranks) and any(ranks <= set(known) for known in accept["ranks"])


def _wrong(
    label: dict[str, Any], outcome: str, told: list[dict[str, Any]], absent: list[int]
) -> list[str]:
    wrong = ["SAFE"] if outcome == "SAFE" and label["cause"] not in HEALTHY else []
    for one in told:
        if one["severity"] != "error" or one["certainty"] == "heuristic":
            continue
        if not any(_has_class(one, a) and _has_ranks(one, absent, a) for a in label["accept"]):
            wrong.append(f"{one['code']} {one['ranks']}")
    return wrong


def main() -> int:
    """Print a row per incident and the four numbers; exit with 1 when a certainty is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--verbose", action="store_true", help="rows that are right, too")
    args = parser.parse_args()
    rows = measure(args.folder)
    known = [row for row in rows if row.determinable]
    for row in rows:
        is_right = row.accepted and not row.wrong and (row.is_rank or not row.determinable)
        if args.verbose or not is_right:
            mark = "ok " if is_right else "BAD"
            wrong = f"  wrong: {'; '.join(row.wrong)}" if row.wrong else ""
            print(f"{mark} {row.name:32} {row.said}{wrong}")
    print(f"accepted           {sum(r.accepted for r in rows)} of {len(rows)}")
    print(f"class              {sum(r.is_class for r in known)} of {len(known)} determinable")
    print(f"class and rank     {sum(r.is_rank for r in known)} of {len(known)} determinable")
    print(f"wrong certainties  {sum(bool(r.wrong) for r in rows)}")
    return int(any(row.wrong for row in rows))


if __name__ == "__main__":
    sys.exit(main())
