"""What a played rank writes is put back before the next play."""

from __future__ import annotations

import os
import socket
import traceback
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from planguard.capture.play.journal import Journal  # noqa: E402 - torch must be there


@pytest.fixture
def journal():
    """A journal without entries."""
    made = Journal()
    yield made
    made.close()


def as_rank(journal, program, *, communicates=True):
    """Run a program in a process of its own that the journal watches."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            journal.watch(lambda: communicates)
            program()
            code = 0
        except BaseException:  # noqa: BLE001 - whatever it is, the code says so
            traceback.print_exc()
        finally:
            os._exit(code)
    assert os.waitpid(pid, 0)[1] == 0


def test_files_are_as_they_were(journal, tmp_path, monkeypatch):
    """Made, changed, moved, removed: by Python and by torch.save."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "log").write_text("mine\n")
    (tmp_path / "old").write_text("old")
    (tmp_path / "gone").write_text("gone")

    def program():
        with Path("log").open("a") as file:
            file.write("its\n")
        Path("out/step-1").mkdir(parents=True)
        torch.save({"a": 1}, "out/step-1/model.pt")
        Path("out/step-1/model.pt").replace("out/best.pt")
        Path("old").rename("older")
        Path("gone").unlink()

    for _ in range(2):
        as_rank(journal, program)
        assert (tmp_path / "out" / "best.pt").exists()
        assert not (tmp_path / "gone").exists()
        journal.put_back()
        found = {one.name: one.read_text() for one in tmp_path.iterdir()}
        assert found == {"log": "mine\n", "old": "old", "gone": "gone"}


def test_what_two_ranks_write_is_kept_once(journal, tmp_path):
    """The second one finds what the first one wrote; what was there before both comes back."""
    file = tmp_path / "log"
    file.write_text("0")
    as_rank(journal, lambda: file.write_text("1"))
    as_rank(journal, lambda: file.write_text("2"))
    journal.put_back()
    assert file.read_text() == "0"


def test_data_and_downloads_stay(journal, tmp_path):
    """What is written before the rank communicates, or once it has asked the network."""
    as_rank(journal, lambda: (tmp_path / "cache").write_text("1"), communicates=False)

    def program():
        with socket.socket() as one:
            one.settimeout(0.1)
            one.connect_ex(("127.0.0.1", 9))
        (tmp_path / "download").write_text("1")

    as_rank(journal, program)
    journal.put_back()
    assert {one.name for one in tmp_path.iterdir()} == {"cache", "download"}
