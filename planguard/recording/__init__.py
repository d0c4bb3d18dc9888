"""What a run was seen doing. A recording is evidence, not a plan (docs/adr/0010)."""

from __future__ import annotations

from planguard.recording.compare import Comparison, RankComparison, Status, compare
from planguard.recording.observed import UNNAMED, UNRECORDED, Call, Observed, Progress
from planguard.recording.planned import recording_of
from planguard.recording.recording import (
    BARRIER,
    CALLS,
    CRASH,
    STACK,
    TIMED,
    WORDS,
    Absence,
    Fact,
    Gap,
    RankRecord,
    RecordedGroup,
    Recording,
)
from planguard.recording.track import Track

__all__ = [
    "BARRIER",
    "CALLS",
    "CRASH",
    "STACK",
    "TIMED",
    "UNNAMED",
    "UNRECORDED",
    "WORDS",
    "Absence",
    "Call",
    "Comparison",
    "Fact",
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
