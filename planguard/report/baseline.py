"""Baselines: findings that are known and accepted, recognized by plan and fingerprint."""

from __future__ import annotations

import json
import os
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from planguard.catalog import CATALOG
from planguard.errors import UsageError, shorten
from planguard.files import refuse_special
from planguard.result import fingerprint

if TYPE_CHECKING:
    from planguard.plan.plan import Plan
    from planguard.verdict import Finding, Verdict

SCHEMA = "planguard.baseline/1"
Key = tuple[str, str, str]
"""Plan, code, fingerprint."""


@dataclass
class Baseline:
    """Accepted findings, with how often each may occur in its plan.

    Attributes:
        file: Where it is; plans are named relative to its folder.
        counts: Occurrences by plan, code and fingerprint.
        messages: Headline by the same key, for people who read the file.
    """

    file: Path
    counts: Counter[Key] = field(default_factory=Counter)
    messages: dict[Key, str] = field(default_factory=dict)

    def plan_key(self, path: str) -> str:
        """Return how a plan is called in this file: relative to its folder, with ``/``."""
        relative = os.path.relpath(Path(path).absolute(), self.file.absolute().parent)
        return Path(relative).as_posix()

    def add(self, path: str, finding: Finding) -> None:
        """Accept a finding of a plan."""
        key = (self.plan_key(path), finding.code, finding.fingerprint)
        self.counts[key] += 1
        self.messages.setdefault(key, finding.message)

    def of_plan(self, path: str) -> Counter[Key]:
        """Return what may occur in a plan."""
        name = self.plan_key(path)
        return Counter({key: number for key, number in self.counts.items() if key[0] == name})

    def text(self) -> str:
        """Return the file: one entry per line, sorted."""
        entries = [
            {
                "plan": plan,
                "code": code,
                "fingerprint": identity,
                "count": self.counts[plan, code, identity],
                "message": self.messages.get((plan, code, identity), ""),
            }
            for plan, code, identity in sorted(self.counts)
        ]
        lines = ",\n  ".join(json.dumps(entry) for entry in entries)
        inner = f"\n  {lines}\n " if entries else ""
        return f'{{"schema": "{SCHEMA}",\n "entries": [{inner}]}}\n'


def read_baseline(file: Path) -> Baseline:
    """Read a baseline.

    Raises:
        UsageError: It is not one.
        OSError: It cannot be read.
    """
    refuse_special(file)
    try:
        document = json.loads(file.read_text(encoding="utf-8"))
        if document["schema"] != SCHEMA:
            raise ValueError(f"schema {document['schema']!r}")
        found = Baseline(file)
        for entry in document["entries"]:
            key = (str(entry["plan"]), str(entry["code"]), str(entry["fingerprint"]))
            if key[1] not in CATALOG or int(entry["count"]) < 1:
                raise ValueError(f"entry {entry!r}")
            found.counts[key] += int(entry["count"])
            found.messages[key] = str(entry.get("message", ""))
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise UsageError(
            f"{shorten(str(file))} is not a baseline: {shorten(str(error))}",
            hint="write one with `planguard check PLAN --write-baseline FILE`",
        ) from None
    return found


def with_fingerprints(verdict: Verdict, plan: Plan | None) -> Verdict:
    """Give every finding a fingerprint; those of cycles and orphans have one."""
    findings = tuple(
        finding if finding.fingerprint else replace(finding, fingerprint=_identity(finding, plan))
        for finding in verdict.findings
    )
    return replace(verdict, findings=findings)


def _identity(finding: Finding, plan: Plan | None) -> str:
    """Hash code, programs and operations: no action numbers, no ranks."""
    places = [finding.primary, *finding.related_actions]
    ops = [place.op for place in places if place is not None]
    names: set[Any] = set()
    if plan is not None:
        names = {plan.program(rank).name for rank in finding.ranks if rank < plan.world_size}
    return fingerprint(finding.code, sorted(map(str, names)), ops)
