"""A step that was given one sample: what its batch decides is found, or left open; never SAFE."""

from __future__ import annotations

import importlib.util
import itertools
import sys

import pytest

pytest.importorskip("torch")

from planguard.capture import precheck

pytestmark = [
    pytest.mark.processes,
    pytest.mark.wheel,
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.timeout(300),
]
HEAD = "import torch\nimport torch.distributed as dist\n\n\n"
_number = itertools.count()


def decided(folder, text, sample, *, vary=True, **options):
    """Check a step on two ranks with one sample, and batches like it."""
    file = folder / f"job_{next(_number)}.py"
    file.write_text(HEAD + text)
    spec = importlib.util.spec_from_file_location(file.stem, file)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    check = precheck(2, samples=[sample], model="gloo", on_unsafe="return", vary=vary, **options)
    return check.run(module.step)


IMAGE = (
    "def step(batch):\n"
    "    if 'image' in batch:\n"
    "        dist.all_reduce(torch.ones(2))\n"
    "    dist.all_reduce(torch.ones(3))\n"
)


def test_a_word_that_the_program_asks_for_is_put_into_the_batch(tmp_path):
    """The finding names the line, and says that the batch was made up."""
    verdict = decided(tmp_path, IMAGE, ["text"])
    assert verdict.unsafe
    notes = " ".join(verdict.findings[0].notes)
    assert "decided at" in notes
    assert "job_" in notes
    assert "assumes that a rank can get a batch that was made up" in notes


def test_only_the_sample_is_played_unless_asked(tmp_path):
    """Without vary=True the sample is decided, and the ledger says that other data is not."""
    verdict = decided(tmp_path, IMAGE, ["text"], vary=False)
    assert verdict.safe
    assert any("data unlike" in one.message for one in verdict.approximations)


def test_a_flag_that_all_agree_on_is_safe_and_says_what_was_made_up(tmp_path):
    """Both sides are played; the ledger lists the batches."""
    text = (
        "def step(batch):\n"
        "    found = torch.tensor(float('image' in batch))\n"
        "    dist.all_reduce(found, dist.ReduceOp.MAX)\n"
        "    if found.item() > 0:\n"
        "        dist.all_reduce(torch.ones(2))\n"
        "    dist.all_reduce(torch.ones(3))\n"
    )
    verdict = decided(tmp_path, text, ["text"])
    assert verdict.safe
    assert any(one.kind == "varied" and "image" in one.message for one in verdict.approximations)


def test_a_side_that_no_batch_takes_is_left_open_with_its_line(tmp_path):
    """A content that cannot be guessed decides: UNKNOWN, and the line that read it."""
    text = (
        "import zlib\n\n\n"
        "def step(batch):\n"
        "    if zlib.crc32(batch.encode()) == zlib.crc32(b'unlikely word'):\n"
        "        dist.all_reduce(torch.ones(2))\n"
        "    dist.all_reduce(torch.ones(3))\n"
    )
    verdict = decided(tmp_path, text, "text")
    assert verdict.unknown
    assert ".py:9" in verdict.reasons[0]


def test_a_side_that_does_nothing_else_is_run_by_force(tmp_path):
    """What only prints there is SAFE."""
    text = (
        "import zlib\n\n\n"
        "def step(batch):\n"
        "    if zlib.crc32(batch.encode()) == zlib.crc32(b'unlikely word'):\n"
        "        print('found')\n"
        "    dist.all_reduce(torch.ones(3))\n"
    )
    assert decided(tmp_path, text, "text").safe


@pytest.mark.parametrize(
    "body",
    [
        "    while rows:\n        rows.pop()\n        dist.all_reduce(torch.ones(1))\n",
        "    if rows:\n        dist.all_reduce(torch.ones(1))\n        step(rows[1:])\n",
        "    [dist.all_reduce(torch.ones(1)) for row in rows]\n",
        "    dist.all_reduce(torch.ones(len(rows)))\n",
        "    try: rows[2]\n    except IndexError: return\n    dist.all_reduce(torch.ones(1))\n",
        "    match len(rows):\n        case 3:\n            dist.all_reduce(torch.ones(1))\n",
    ],
)
def test_a_length_that_decides_is_found(tmp_path, body):
    """A loop, a recursion, a shape, an exception, a case."""
    verdict = decided(tmp_path, f"def step(rows):\n{body}", [1, 2, 3])
    assert verdict.unsafe


@pytest.mark.timeout(300)  # many plays; a busy machine is not a hang
def test_every_length_of_a_large_batch_is_changed_before_anything_is_claimed(tmp_path):
    """A loop that no test counts is found behind many parts that decide nothing."""
    text = "def step(batch):\n    [dist.all_reduce(torch.ones(1)) for row in batch['a']]\n"
    sample = {"a": [1, 2, 3, 4, 5, 6, 7], "b": 3, "c": "x", "d": 1.0}
    assert decided(tmp_path, text, sample).unsafe


def test_a_time_that_is_over_claims_nothing(tmp_path):
    """What was not varied in the time is left open."""
    text = "def step(batch):\n    dist.all_reduce(torch.ones(3))\n"
    verdict = decided(tmp_path, text, ["text"], budget=0.01)
    assert verdict.unknown
    assert "budget" in verdict.reasons[0]


def test_a_batch_that_every_rank_raises_on_is_no_finding(tmp_path):
    """A made-up batch that is none of this program's is left out."""
    text = (
        "TABLE = {'a': 2, 'b': 2}\n\n\n"
        "def step(name):\n"
        "    dist.all_reduce(torch.ones(TABLE[name]))\n"
    )
    verdict = decided(tmp_path, text, "a")
    assert not verdict.unsafe
    assert verdict.unknown  # no other word was taken, so nothing was varied
    assert "never varied" in verdict.reasons[0]


def test_what_the_program_refuses_ends_the_job(tmp_path):
    """A raise statement for a bad batch is no divergence, and does not leave the step open."""
    text = (
        "def step(rows):\n"
        "    if rows > 64:\n"
        "        raise ValueError('too many')\n"
        "    dist.all_reduce(torch.ones(1))\n"
    )
    assert decided(tmp_path, text, 4).safe


def test_a_thread_of_the_batch_that_dies_is_no_finding(tmp_path):
    """What a made-up batch makes a thread raise is the batch's fault."""
    text = (
        "import threading\n\n\n"
        "def save(name):\n"
        "    {'a': 1}[name]\n\n\n"
        "def step(name):\n"
        "    thread = threading.Thread(target=save, args=(name,))\n"
        "    thread.start()\n"
        "    thread.join()\n"
        "    dist.all_reduce(torch.ones(1))\n"
    )
    assert not decided(tmp_path, text, "a").unsafe
