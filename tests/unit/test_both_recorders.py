"""One reading of calls serves two recorders, so both offer all that it asks for."""

from __future__ import annotations

import inspect
import re
from types import SimpleNamespace

import pytest

from planguard.capture.groups.process_group import _Collectives
from planguard.capture.groups.recorder import Recorder
from planguard.capture.run.recorder import RunRecorder


@pytest.mark.parametrize(
    "made",
    [Recorder(0), RunRecorder(0, SimpleNamespace(), frames=0)],
    ids=lambda made: type(made).__name__,
)
def test_a_recorder_has_what_the_reading_of_calls_asks_for(made):
    """A method that only one of them has ends a job at its first all_reduce."""
    asked = set(re.findall(r"self\.recorder\.(\w+)", inspect.getsource(_Collectives)))
    assert {"issue", "data"} <= asked
    assert asked <= set(dir(made))
