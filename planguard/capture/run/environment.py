"""What the ranks of a recorded job find in their environment, and what they learn from theirs."""

from __future__ import annotations

import os
import uuid
from typing import TYPE_CHECKING, Any

from planguard.capture.run.recorder import FRAMES
from planguard.sources import package_folder

if TYPE_CHECKING:
    from pathlib import Path

FOLDER = "PLANGUARD_RECORD"
WITNESS = "PLANGUARD_RECORD_WITNESS"
FRAMES_KEPT = "PLANGUARD_RECORD_FRAMES"
VALUES = "PLANGUARD_RECORD_VALUES"
BYTES = "PLANGUARD_RECORD_BYTES"
INJECT, HOME = "PLANGUARD_RECORD_INJECT", "PLANGUARD_RECORD_HOME"


def environment_of(
    folder: Path, *, frames: int = FRAMES, witness: bool = False, values: bool = False
) -> dict[str, str]:
    """Return the environment in which a job's ranks record themselves, over this process's own."""
    return {
        **injected(),
        FOLDER: str(folder.resolve()),
        FRAMES_KEPT: str(frames),
        **({WITNESS: "1"} if witness else {}),
        **({VALUES: "1"} if values else {}),
    }


def injected() -> dict[str, str]:
    """Return the environment in which PlanGuard looks into every Python process, over this one's.

    The folder of its ``sitecustomize`` comes first on the path of Python, and holds nothing else;
    where PlanGuard itself lies is told apart, since all that is installed beside it would hide what
    the job brings.
    """
    inject = package_folder() / "capture" / "inject"
    paths = [str(inject), os.environ.get("PYTHONPATH", "")]
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(path for path in paths if path),
        INJECT: str(inject.resolve()),
        HOME: str(package_folder().resolve().parent),
    }


def shared_name(store: Any) -> str:
    """Return a name that the ranks of this start agree on: that of the first one to give one.

    It tells the logs of one start from those of another in the same folder.
    """
    try:
        agreed: bytes = store.compare_set("planguard/run", "", uuid.uuid4().hex[:16])
    except (RuntimeError, NotImplementedError, ValueError):  # not every store can compare
        return ""
    return agreed.decode("ascii", "replace")
