"""A campaign: many jobs, each judged and really run, one line of JSON per job, resumable."""

from __future__ import annotations

import json
import sys
from collections import Counter
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from dl2.judge import events, judged, named
from dl2.truth import PATIENCE, Truth, enlarged, run_all
from planguard.replay.pool import Pool

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from dl2.mutate import Mutation

BATCH = 16
DELAYS = (1, 2)


@dataclass(frozen=True)
class Case:
    """One job.

    Attributes:
        subject: Model or collective.
        size: Ranks.
        instance: Number of the instance.
        config: What the job does.
        document: Its communication, a flat plan.
        original: The same before the change.
        mutation: The change, None for a job as written.
    """

    subject: str
    size: int
    instance: int
    config: str
    document: dict[str, Any]
    original: dict[str, Any]
    mutation: Mutation | None

    @property
    def key(self) -> str:
        """What identifies the job in the results."""
        return f"{self.subject}/{self.size}/{self.instance}"


def run(cases: Iterable[Case], results: Path, parallel: int = 3) -> list[dict[str, Any]]:
    """Run the jobs that the results lack, append theirs, and return all results."""
    done = {row["key"]: row for row in read(results)}
    left = [case for case in cases if case.key not in done]
    if left:
        results.parent.mkdir(parents=True, exist_ok=True)
        with Pool(parallel) as pool, results.open("a", encoding="utf-8") as file:
            for first in range(0, len(left), BATCH):
                for row in _rows(left[first : first + BATCH], pool):
                    text = json.dumps(row)
                    done[row["key"]] = json.loads(text)  # as it will be read again
                    file.write(text + "\n")
                file.flush()
                sys.stderr.write(f"  {min(first + BATCH, len(left))} of {len(left)} jobs\n")
    return list(done.values())


def read(results: Path) -> list[dict[str, Any]]:
    """Return the results so far; a line that was cut off is not one."""
    if not results.exists():
        return []
    lines = results.read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines if line.endswith("}")]


def _ends(
    documents: Sequence[dict[str, Any]],
    pool: Pool,
    patience: float = PATIENCE,
    delay_seed: int | None = None,
) -> list[Truth]:
    """Run plans; those that still move at the limit run again with more patience."""
    truths = run_all(documents, pool, delay_seed=delay_seed, patience=patience)
    late = [at for at, truth in enumerate(truths) if truth.end == "late"]
    if late:
        left = [documents[at] for at in late]
        again = run_all(left, pool, delay_seed=delay_seed, patience=4 * patience)
        for at, truth in zip(late, again, strict=True):
            truths[at] = truth
    return truths


def _rows(cases: Sequence[Case], pool: Pool) -> list[dict[str, Any]]:
    verdicts = [judged(case.document) for case in cases]
    truths = _ends([case.document for case in cases], pool)
    # One run that ends well proves little: plans judged SAFE run again, with random delays.
    calm = [at for at, (v, _) in enumerate(verdicts) if v.safe and truths[at].end == "finished"]
    for seed in DELAYS:
        again = _ends([cases[at].document for at in calm], pool, 2 * PATIENCE, seed)
        for at, truth in zip(calm, again, strict=True):
            truths[at] = truths[at] if truth.end == "finished" else truth
    quiet = [at for at, (v, _) in enumerate(verdicts) if v.unsafe and truths[at].end == "finished"]
    larger = run_all([enlarged(cases[at].document) for at in quiet], pool)
    latent = dict(zip(quiet, larger, strict=True))
    return [
        _row(case, verdict, ms, truth, latent.get(at))
        for at, (case, (verdict, ms), truth) in enumerate(zip(cases, verdicts, truths, strict=True))
    ]


def _row(case: Case, verdict: Any, ms: float, truth: Truth, latent: Truth | None) -> dict[str, Any]:
    row = {
        "key": case.key,
        "subject": case.subject,
        "size": case.size,
        "config": case.config,
        "mutation": case.mutation and asdict(case.mutation),
        "events": events(case.document),
        "outcome": verdict.outcome.value,
        "codes": [finding.code for finding in verdict.errors],
        "reasons": list(verdict.reasons),
        "ms": round(ms, 3),
        "truth": asdict(truth),
        "larger": latent and asdict(latent),
    }
    if case.mutation is not None and verdict.unsafe:
        row["named"] = named(verdict, case.mutation, case.original, case.document)
    return row


# --- tables --------------------------------------------------------------------------------------


def confusion(rows: Iterable[dict[str, Any]]) -> Counter[str]:
    """Count tp, fp, tn, fn and undecided; positive is a run that does not end as meant."""
    counts: Counter[str] = Counter()
    for row in rows:
        hidden = row.get("larger") is not None and row["larger"]["end"] != "finished"
        bad = row["truth"]["end"] != "finished" or hidden
        counts["hidden"] += hidden
        if row["outcome"] == "UNKNOWN" or row["truth"]["end"] == "late":
            counts["undecided"] += 1
        elif row["outcome"] == "SAFE":
            counts["fn" if bad else "tn"] += 1
        else:
            counts["tp" if bad else "fp"] += 1
        counts["total"] += 1
        counts["hung"] += row["truth"]["end"] == "hung"
        if row.get("named") and bad:
            counts["asked"] += 1
            for what in ("rank", "action", "call"):
                counts[what] += row["named"][what]
    return counts


def wrong(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the jobs on which verdict and run disagree, and those without an answer."""
    return [row for row in rows if not confusion([row]).keys() & {"tp", "tn"}]


def table(rows: Sequence[dict[str, Any]], subjects: Sequence[str]) -> str:
    """Return the confusion matrix per subject, in Markdown."""
    by = {name: confusion(r for r in rows if r["subject"] == name) for name in subjects}
    lines = [f"| | {' | '.join(subjects)} |", "|---" * (len(subjects) + 1) + "|"]

    def line(name: str, cell: Any) -> None:
        lines.append(f"| {name} | {' | '.join(str(cell(by[one])) for one in subjects)} |")

    line("jobs", lambda c: c["total"])
    for name, short in (("true positive", "tp"), ("true negative", "tn")):
        line(name, lambda c, short=short: c[short])
    for name, short in (("false positive", "fp"), ("false negative", "fn")):
        line(name, lambda c, short=short: c[short])
    line("not decided", lambda c: c["undecided"])
    line("precision", lambda c: _share(c["tp"], c["tp"] + c["fp"]))
    line("recall", lambda c: _share(c["tp"], c["tp"] + c["fn"]))
    line("of the positives, hangs", lambda c: c["hung"])
    line("of the positives, seen with larger messages only", lambda c: c["hidden"])
    line("changed rank named", lambda c: f"{c['rank']} of {c['asked']}")
    line("changed action shown", lambda c: f"{c['action']} of {c['asked']}")
    line("changed action or one like it shown", lambda c: f"{c['call']} of {c['asked']}")
    return "\n".join(lines)


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "-"
