"""``gitlab``: a code-quality report, one entry per finding."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from pathlib import PurePath
from typing import IO, TYPE_CHECKING, Any

from planguard.report.places import Places, Spot
from planguard.report.text import shown_findings
from planguard.words import clean

if TYPE_CHECKING:
    from planguard.report import ReportOptions, Result

SEVERITIES = {"error": "critical", "warning": "major", "note": "info"}


class GitlabReporter:
    """One array of issues."""

    def __init__(self, out: IO[str], options: ReportOptions) -> None:
        self._out = out
        self._issues: list[dict[str, Any]] = []
        self._seen: Counter[str] = Counter()

    def add(self, result: Result) -> None:
        """Keep the issues of one input."""
        if result.verdict is None:
            code, message = result.refusal
            self._add(Spot(result.path), code, message, "critical", code)
            return
        places = Places(result.path, result.plan)
        for finding in shown_findings(result.verdict):
            severity = SEVERITIES[finding.severity]
            spot = places.spot(finding.primary)
            identity = f"{result.path} {finding.fingerprint or finding.message}"
            self._add(spot, finding.code, finding.message, severity, identity)

    def _add(self, spot: Spot, code: str, message: str, severity: str, identity: str) -> None:
        self._seen[identity] += 1
        # GitLab drops issues of equal fingerprints: the second of a kind gets its own.
        key = f"{identity} {self._seen[identity]}".encode(errors="surrogateescape")
        self._issues.append(
            {
                "check_name": code,
                "description": clean(f"{code}: {message}"),
                "fingerprint": hashlib.sha256(key).hexdigest()[:32],
                "severity": severity,
                # GitLab finds a file by its path in the repository, without ./ in front.
                "location": {
                    "path": clean(str(PurePath(spot.file))),
                    "lines": {"begin": spot.line or 1},
                },
            }
        )

    def close(self) -> None:
        """Write the array."""
        self._out.write(json.dumps(self._issues, sort_keys=True, indent=1) + "\n")
