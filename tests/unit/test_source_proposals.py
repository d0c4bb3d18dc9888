"""Edits of a program's source: what they change, what they leave alone, and what they refuse."""

from __future__ import annotations

import ast
import subprocess
import textwrap

import pytest

from planguard.repair.source import Decision, SourceText, proposals, unified


def edits(text, line, **more):
    """Return the proposals at a line of a program."""
    source = SourceText(textwrap.dedent(text))
    found = list(proposals(source, Decision(line, **more)))
    for one in found:
        ast.parse(one.text)
    return found


HEAD = "import torch.distributed as dist\n\n\ndef step(x, flag, rows):\n"


def test_a_flag_is_agreed_and_the_rest_of_the_file_stays():
    """Comments, quotes and spaces around the line are kept byte by byte."""
    text = (
        HEAD + "    y  =  'ä'  # odd\n    if flag :  # why\n        dist.barrier()\n    return y\n"
    )
    (first, *_) = edits(text, 6, goes_on=(7, 8), issues=(1, 0))
    assert first.kind == "agree-flag"
    assert "    y  =  'ä'  # odd\n" in first.text
    assert "    if any(said) :  # why\n        dist.barrier()\n" in first.text
    assert "    said = [None] * dist.get_world_size()\n" in first.text
    assert "    dist.all_gather_object(said, bool(flag))\n" in first.text


def test_the_branch_that_communicates_is_the_one_that_all_take():
    """Where the other branch issues the calls, the flag is only true where it is for all."""
    text = HEAD + "    if flag:\n        return x\n    dist.barrier()\n"
    (first, *_) = edits(text, 5, goes_on=(6, 7), issues=(0, 1))
    assert "if all(said):" in first.text
    assert "leaves the branch out" in first.effect


def test_an_exception_is_never_hidden():
    """A branch that raises or exits is taken by all if by any, and no other edit is made."""
    for ends in ("raise ValueError(x)", "sys.exit(1)"):
        text = HEAD + f"    if flag:\n        {ends}\n    dist.barrier()\n"
        found = edits(text, 5, goes_on=(6, 7), issues=(0, 1))
        assert [one.kind for one in found if one.kind == "agree-flag"] == ["agree-flag"]
        assert not [one for one in found if "all(said)" in one.text]
        assert len(found) == 1


def test_what_the_clock_decides_is_decided_by_rank_0_first():
    """Also where the clock was read some lines before."""
    text = HEAD + "    late = time.time() > x\n    if not late:\n        dist.barrier()\n"
    first = edits(text, 6, goes_on=(7, None), issues=(1, 0))[0]
    assert first.kind == "broadcast"
    assert "said = [not late]" in first.text


def test_the_group_of_the_calls_is_the_group_of_the_agreement():
    """A flag is agreed among those that communicate, and rank 0 may be none of them."""
    text = HEAD + "    if flag:\n        dist.barrier(group=x.dp)\n"
    found = edits(text, 5, goes_on=(6, None), issues=(1, 0))
    assert "dist.all_gather_object(said, bool(flag), group=x.dp)" in found[0].text
    assert "dist.get_world_size(x.dp)" in found[0].text
    assert not [one for one in found if "src=0" in one.text and "said[0]:" in one.text]


def test_a_dummy_restores_what_the_branch_set():
    """Only names that are surely bound before the branch."""
    text = (
        HEAD + "    if flag:\n        x = x + dist.all_reduce(x)\n        new = 1\n    return x\n"
    )
    first = edits(text, 5, goes_on=(6, 8), issues=(1, 0))[0]
    assert first.kind == "dummy"
    assert "before = x\n" in first.text
    assert "        if not mine:\n            x = before\n" in first.text


def test_a_stand_in_gives_zeros():
    """The calls of the branch, with zeros, where the program imports torch."""
    text = "import torch\n" + HEAD + "    if flag:\n        tower(x)\n    return x\n"
    calls = (("{dist}.all_reduce(torch.zeros(4))",), None)
    found = edits(text, 6, goes_on=(7, 8), issues=(1, 0), neutral=calls)
    (one,) = (f for f in found if "zeros" in f.text)
    assert "        tower(x)\n    else:\n        dist.all_reduce(torch.zeros(4))\n" in one.text


def test_loops_are_agreed_on_by_count_or_turn_by_turn():
    """A range by its largest number, a list by its smallest, what has no length by turns."""
    text = HEAD + "    for n in range(rows):\n        dist.barrier()\n"
    first = edits(text, 5, goes_on=(6, None), issues=(1, 0))[0]
    assert "for n in range(max(said)):" in first.text
    assert "all_gather_object(said, int(rows))" in first.text
    text = HEAD + "    for a, b in load(rows):\n        dist.barrier()\n"
    sized, turns, *_ = edits(text, 5, goes_on=(6, None), issues=(1, 0))
    assert "    items = load(rows)\n" in sized.text
    assert "for turn, (a, b) in zip(range(min(said)), items):" in sized.text
    assert "left out" in sized.effect
    assert "    while True:\n        got = next(items, end)\n" in turns.text
    assert "        a, b = got\n" in turns.text
    text = HEAD + "    while x.more():\n        dist.barrier()\n"
    first = edits(text, 5, goes_on=(6, None), issues=(1, 0))[0]
    assert "    while True:\n        said = [None]" in first.text
    assert "        if not any(said):\n            break\n" in first.text


def test_equal_lengths_are_sorted_first():
    """Where the values differ and no line does."""
    text = HEAD + "    for name in rows:\n        dist.all_reduce(x[name])\n"
    first = edits(text, 5, why="value")[0]
    assert first.kind == "sort"
    assert "for name in sorted(rows):" in first.text


def test_a_handler_is_done_by_all():
    """The decision is the ``except``, or the line that fails in the ``try``."""
    text = HEAD + (
        "    for row in rows:\n        try:\n            x = load(row)\n"
        "        except OSError:\n            continue\n        dist.all_reduce(x)\n"
    )
    for line, on in ((8, (9, 10)), (7, (8, 10))):
        first = edits(text, line, goes_on=on, issues=(0, 1))[0]
        assert "        failed = False\n        try:\n" in first.text
        assert "        except OSError:\n            failed = True\n        said = " in first.text
        assert "        if any(said):\n            continue\n" in first.text


def test_groups_are_created_before_the_branch():
    """``new_group`` is a call of every rank."""
    text = HEAD + (
        "    if flag:\n        group = dist.new_group([0, 1])\n        dist.barrier(group)\n"
    )
    first = edits(text, 5, goes_on=(6, None), issues=(1, 0))[0]
    assert first.kind == "new-group"
    assert (
        "    group = dist.new_group([0, 1])\n    if flag:\n        dist.barrier(group)"
        in first.text
    )


def test_a_thread_gets_a_group_of_its_own():
    """Made before it starts, handed to its function, and used by its calls."""
    text = (
        "import threading\nimport torch.distributed as dist\n\n\n"
        "def save(x):\n    dist.barrier()\n\n\n"
        "def step(x):\n    t = threading.Thread(target=save, args=(x,))\n    t.start()\n"
    )
    (one,) = edits(text, 11, why="thread")
    assert "def save(x, group=None):\n    dist.barrier(group=group)\n" in one.text
    assert "    own = dist.new_group()\n    t = threading.Thread(" in one.text
    assert 'args=(x,), kwargs={"group": own})' in one.text


def test_names_that_the_program_uses_are_not_taken():
    """``said`` may be a name of the program."""
    text = HEAD + "    said = rows\n    if flag:\n        dist.barrier()\n    return said\n"
    first = edits(text, 6, goes_on=(7, 8), issues=(1, 0))[0]
    assert "any(said_)" in first.text


def test_the_import_is_added_where_it_lacks():
    """A program that communicates through a library names torch.distributed nowhere."""
    text = '"""Doc."""\nimport lib\n\n\ndef step(flag):\n    if flag:\n        lib.go()\n'
    first = edits(text, 6, goes_on=(7, None), issues=(1, 0))[0]
    assert "import lib\nimport torch.distributed\n" in first.text
    assert "torch.distributed.all_gather_object(" in first.text


@pytest.mark.parametrize(
    "body",
    [
        "    if x:\n        pass\n    elif flag:\n        dist.barrier()\n",  # not evaluated first
        "    x = 1; y = 2\n",
        "    for n in rows: dist.barrier()\n",
        "    for n in rows:\n        dist.barrier()\n    else:\n        pass\n",
    ],
)
def test_what_cannot_be_edited_line_by_line_is_left(body):
    """No edit of an ``elif``, of one line with two statements, of a loop with ``else``."""
    found = edits(HEAD + body, 7 if "elif" in body else 5, goes_on=(8, None), issues=(1, 0))
    assert not [one for one in found if one.kind in ("agree-flag", "agree-count", "sort")]


def test_a_difference_applies(tmp_path):
    """``patch -p1`` turns the old file into the new one, also without a last line break."""
    before, after = "a\nb", "a\nc\nb"
    (tmp_path / "f.py").write_text(before)
    diff = unified("f.py", before, after)
    subprocess.run(
        ["git", "apply", "-"], input=diff, text=True, cwd=tmp_path, check=True, timeout=30
    )
    assert (tmp_path / "f.py").read_text() == after
