"""What a run was seen doing. A recording is evidence, not a plan (docs/adr/0010)."""

from __future__ import annotations

from planguard.recording.observed import UNNAMED, UNRECORDED, Call, Observed, Progress
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
    "Fact",
    "Gap",
    "Observed",
    "Progress",
    "RankRecord",
    "RecordedGroup",
    "Recording",
    "Track",
]
