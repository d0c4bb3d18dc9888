"""What a run was seen doing. A recording is evidence, not a plan (docs/adr/0010)."""

from __future__ import annotations

from planguard.recording.compare import Comparison, RankComparison, Status, compare
from planguard.recording.observed import UNNAMED, UNRECORDED, Call, Observed, Progress
from planguard.recording.planned import recording_of
from planguard.recording.recording import (
    BARRIER,
    Absence,
    Gap,
    RankRecord,
    RecordedGroup,
    Recording,
)
from planguard.recording.track import Track

__all__ = [
    "BARRIER",
    "UNNAMED",
    "UNRECORDED",
    "Absence",
    "Call",
    "Comparison",
    "Gap",
    "Observed",
    "Progress",
    "RankComparison",
    "RankRecord",
    "RecordedGroup",
    "Recording",
    "Status",
    "Track",
    "compare",
    "recording_of",
]
