"""What only one node has is told by where it lies and who wrote it; its twin has the same form."""

from __future__ import annotations

import gzip
import io
import json
import pickle

import pytest

from planguard.capture.values import own_places
from planguard.capture.values.other_files import Lengths, has_like, other_file
from planguard.capture.values.own_places import is_local, is_named
from planguard.capture.values.own_unseen import redirected


@pytest.fixture
def places(tmp_path, monkeypatch):
    """A home of a program, and a folder of the node's own beside it."""
    monkeypatch.setattr(own_places, "_PLACES", own_places.re.compile("/nowhere-else(?=/)"))
    monkeypatch.setattr(own_places.tempfile, "gettempdir", lambda: "/nowhere-else")
    monkeypatch.setenv("TMPDIR", str(tmp_path / "node"))
    for name in ("home", "node", "shared"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "steps.txt").write_text("3\n")
    return tmp_path


def test_a_file_in_the_temporary_folder_is_the_nodes_own_and_a_shared_one_is_not(places):
    """TMPDIR is a place of the node's own; other folders are not."""
    script = str(places / "home" / "train.py")
    assert is_local(str(places / "node" / "steps.txt"), script)
    assert not is_local(str(places / "shared" / "steps.txt"), script)


def test_what_lies_beside_a_program_is_where_it_was_put_for_all(places, monkeypatch):
    """A program in a temporary folder has its own folder on every rank, but no place below it."""
    script = str(places / "train.py")
    monkeypatch.setattr(own_places.tempfile, "gettempdir", lambda: str(places))
    assert not is_local(str(places / "home" / "steps.txt"), script)
    assert is_local(str(places / "node" / "steps.txt"), script)


def test_a_path_with_the_hosts_name_is_that_hosts(places, monkeypatch):
    """A shared folder that is named after the host is asked of that host."""
    monkeypatch.setattr(own_places, "_NAME", lambda: "node-17.cluster")
    (places / "shared" / "node-17").mkdir()
    path = places / "shared" / "node-17" / "steps.txt"
    path.write_text("3\n")
    assert is_local(str(path), str(places / "home" / "train.py"))


def test_what_this_process_wrote_is_its_own_answer_no_more(places, monkeypatch):
    """A file that changed since the process began is the program's; an older one is named."""
    path = str(places / "node" / "steps.txt")
    assert not is_named(path)
    monkeypatch.setattr(own_places, "BEGAN", own_places.BEGAN + 10**9)
    assert is_named(path)
    assert not is_named(json.__file__)


def other(text, *, is_more=True, named=None):
    """Return what another node's file of text holds."""
    with other_file(io.StringIO(text), is_more=is_more, named=named, held=b"") as file:
        return file.read()


def other_bytes(content, *, is_more=True, named=None):
    """Return what another node's file of bytes holds, as a file."""
    with other_file(io.BytesIO(content), is_more=is_more, named=named, held=b"") as file:
        return io.BytesIO(file.read())


def test_another_file_has_other_numbers_words_truths_and_lengths():
    """Whatever a program may count or compare in a file of text differs in its twin."""
    assert int(other("3\n")) != 3
    assert json.loads(other('{"steps": 3, "names": ["a"], "on": true}')) == {
        "steps": 7, "names": ["a", "a"], "on": False,
    }  # fmt: skip
    assert other("none\n", named="full") == "full\n"
    assert other("[a]\nmode = none\nfast = true\n", named="full") == (
        "[a]\nmode = full\nfast = false\n"
    )
    assert len(other("1 2\n3 4\n", is_more=False).splitlines()) == 1


def test_another_checkpoint_and_array_can_be_loaded_as_the_first_can():
    """What torch and numpy saved stays of that form, with other values."""
    torch = pytest.importorskip("torch")
    np = pytest.importorskip("numpy")
    saved, array = io.BytesIO(), io.BytesIO()
    torch.save({"step": 3, "weight": torch.ones(2)}, saved)
    np.save(array, np.array([3]))
    found = torch.load(other_bytes(saved.getvalue()))
    assert found["step"] == 7
    assert found["weight"].tolist() == [2.0, 2.0]
    assert np.load(other_bytes(array.getvalue())).tolist() == [4]


def test_packed_pickled_and_archived_files_have_a_like_and_raw_bytes_have_none():
    """Every form that is known is made anew; of bytes without a form nothing is."""
    np = pytest.importorskip("numpy")
    archive = io.BytesIO()
    np.savez(archive, steps=np.array([3]))
    assert int(gzip.decompress(other_bytes(gzip.compress(b"3\n")).read())) == 7
    assert pickle.load(other_bytes(pickle.dumps({"steps": 3}))) == {"steps": 7}  # noqa: S301 - of this test
    assert np.load(other_bytes(archive.getvalue()))["steps"].tolist() == [4]
    assert not has_like(np.array([3]).tobytes())
    assert not has_like(pickle.dumps(print))


def test_an_array_of_other_lengths_has_a_row_more_or_none():
    """Lengths of arrays are another answer than their numbers: weights must fit to be loaded."""
    np = pytest.importorskip("numpy")
    array = io.BytesIO()
    np.save(array, np.array([3, 4]))
    found = [
        np.load(other_bytes(array.getvalue(), is_more=is_more, named=Lengths.OTHER)).tolist()
        for is_more in (True, False)
    ]
    assert found == [[3, 4, 4], []]


def test_a_class_that_reads_is_given_another_path_and_stays_a_class():
    """It can be asked for by isinstance, inherited from, and its names are there."""

    class File:
        mode = "r"

        def __init__(self, path):
            self.path = path

    kind = redirected(File, lambda path, _: f"{path}.other")
    inherited = type("Inherited", kind.__mro_entries__(()), {})
    assert kind("a").path == "a.other"
    assert isinstance(kind("a"), kind)
    assert issubclass(inherited, kind)
    assert kind.mode == "r"
