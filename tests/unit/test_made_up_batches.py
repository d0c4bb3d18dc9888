"""Batches like one, what depends on a batch, and tests that are told."""

from __future__ import annotations

import dataclasses
import itertools
import textwrap

import pytest

from planguard.capture.batches.likes import likes_of
from planguard.capture.names.depends import tests_of as read_tests

torch = pytest.importorskip("torch")


def values(sample, compared=(), most=400):
    """Return what is made up beside a sample."""
    return [like.value for like in itertools.islice(likes_of(sample, list(compared)), most)]


def test_the_other_side_of_a_comparison_is_tried():
    """What a value was compared with is put in its place, and what is next to it."""
    assert "video" in values("text", [("video", ["text", "text"])])
    found = values({"rows": 4}, [(4, 64)])
    assert {"rows": 64} in found
    assert {"rows": 65} in found


def test_a_change_keeps_types_and_leaves_the_sample_alone():
    """A list stays a list, a tensor keeps its kind; the sample is not written."""
    sample = {"ids": [1, 2], "x": torch.ones(2, 3), "flag": True}
    for value in values(sample):
        assert type(value) is dict
        assert type(value.get("ids", [])) is list
        assert isinstance(value.get("x", sample["x"]), torch.Tensor)
    assert sample["ids"] == [1, 2]
    assert torch.equal(sample["x"], torch.ones(2, 3))


def test_lengths_orders_and_missing_keys_are_tried():
    """A list is tried shorter, longer, empty and backwards; a dict without and with a key."""
    found = values([1, 2])
    assert [1] in found
    assert [] in found
    assert [2, 1] in found
    assert any(len(value) == 3 for value in found)
    dicts = values({"a": 1}, [("image", ["a"])])
    assert {} in dicts
    assert any("image" in value for value in dicts)


def test_what_has_one_length_changes_together():
    """A sequence, its labels and its mask are one text."""
    sample = {"ids": torch.ones(2, 5), "labels": torch.ones(2, 5)}
    shapes = {(tuple(one["ids"].shape), tuple(one["labels"].shape)) for one in values(sample)
              if len(one) == 2}  # fmt: skip
    assert ((1, 5), (1, 5)) in shapes
    assert ((2, 4), (2, 4)) in shapes


@dataclasses.dataclass
class Batch:
    """A record."""

    rows: int


def test_the_attributes_of_a_record_are_parts():
    """A batch class is changed in a copy."""
    sample = Batch(3)
    assert {value.rows for value in values(sample)} >= {0, 2, 4}
    assert sample.rows == 3


def depending(text, step="step", parameter="batch"):
    """Return the source of the tests that depend on a parameter."""
    text = textwrap.dedent(text)
    line = next(n for n, one in enumerate(text.splitlines(), 1) if f"def {step}" in one)
    found = read_tests({"job.py": text}, ("job.py", line), [parameter])
    return {test.text for test in found if test.depends}


@pytest.mark.parametrize(
    "body",
    [
        "flag = 'video' in batch\n    needed = flag\n    if needed: go()",
        "needed = False\n    if batch: needed = True\n    if needed: go()",
        "found = []\n    found.append(batch)\n    needed = len(found[0])\n    if needed: go()",
        "box.rows = batch\n    needed = box.rows\n    if needed: go()",
        "needed = helper(batch)\n    if needed: go()",
        "needed = torch.zeros(1)\n    recv(needed, batch)\n    if needed: go()",
        "for row in batch:\n        needed = row\n    if needed: go()",
        "needed = {}\n    needed['x'] = batch\n    if needed: go()",
        "def inner():\n        return batch\n    needed = inner()\n    if needed: go()",
        "needed, other = 1, batch\n    if needed: go()",
    ],
)
def test_what_depends_on_the_batch_is_followed(body):
    """Through names, lists, attributes, results, buffers, loops, closures, and under a test."""
    text = f"def helper(x):\n    return x + 1\n\ndef step(batch):\n    {body}\n"
    assert "needed" in depending(text)


def test_what_does_not_depend_is_left_out():
    """The rank, a setting and a constant are no batch."""
    text = """
        def step(batch):
            rank = get_rank()
            if rank == 0: go()
            if DEBUG: go()
            for layer in range(3): go()
    """
    assert depending(text) == set()


def test_a_model_that_is_called_hands_the_batch_to_forward():
    """``model(batch)`` runs ``forward`` with it."""
    text = """
        class Model:
            def forward(self, pixels):
                if len(pixels): go()

        def step(batch):
            model = Model()
            model(batch)
    """
    assert depending(text) == {"len(pixels)"}
