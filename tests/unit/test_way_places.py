"""The statements around a line, of the file as it is now."""

from __future__ import annotations

import os

from planguard.capture.batches import way_places


def test_a_file_that_was_edited_is_read_anew(tmp_path):
    """What this process knew of the former text does not decide where two ranks part."""
    file = tmp_path / "job.py"
    file.write_text("def step():\n    a = 1\n    b = 2\n")
    before = way_places._blocks(str(file), 3)
    file.write_text("def step(x):\n    if x:\n        b = 2\n    return 1\n")
    os.utime(file, (1, 1))  # another time, whatever the clock of the file system
    assert way_places._blocks(str(file), 3) == before
    way_places.read_anew()
    assert (2, 3) in way_places._blocks(str(file), 3)
