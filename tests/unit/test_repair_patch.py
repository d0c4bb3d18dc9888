"""Edits of plan files: JSON Patch on the object and on its text."""

from __future__ import annotations

import json
import random

import pytest

from planguard.errors import PlanError
from planguard.repair.patch import Hunk, apply, apply_text, hunks, pointer, resolve, steps_of
from planguard.verdict import Edit

TEXT = b"""{"schema": "planguard.plan/1", "x-note": "kept \\u00e4",
 "world_size": 2,
 "ranks": {
  "0": {"actions": [
   {"op": "send", "peer": 1, "bytes": 4},
   {"op": "recv", "peer": 1, "bytes": 4}]},
  "pp=0/1~": {"actions": [   ]}}}
"""
BARRIER = {"op": "barrier"}


def test_only_the_edited_lines_change() -> None:
    """What no edit names stays byte by byte: key order, spaces, x- names, escapes."""
    edits = (
        Edit("/ranks/0/actions/1", "remove"),
        Edit("/ranks/0/actions/0", "add", {"op": "recv", "peer": 1, "bytes": 4}),
    )
    changed = apply_text(TEXT, edits).decode().split("\n")
    before = TEXT.decode().split("\n")
    assert changed[4] == '   {"op": "recv", "peer": 1, "bytes": 4},'
    assert changed[5] == '   {"op": "send", "peer": 1, "bytes": 4}]},'
    assert changed[:4] + changed[6:] == before[:4] + before[6:]


def test_pointers_escape_what_selectors_contain() -> None:
    """A slash and a tilde in a key survive the way to a pointer and back (RFC 6901)."""
    steps = ("ranks", "pp=0/1~", "actions")
    assert pointer(steps) == "/ranks/pp=0~11~0/actions"
    assert steps_of(json.loads(TEXT), pointer(steps)) == steps
    changed = json.loads(apply_text(TEXT, (Edit(pointer((*steps, 0)), "add", BARRIER),)))
    assert resolve(changed, steps) == [BARRIER]


def test_a_block_is_written_with_one_action_per_line() -> None:
    """A new block of actions takes the lines and the indentation of its neighbors."""
    block = {"op": "unordered", "body": [BARRIER, [BARRIER, BARRIER]]}
    text = apply_text(TEXT, (Edit("/ranks/0/actions/-", "add", block),)).decode()
    rows = [row for row in text.split("\n") if "barrier" in row]
    assert len(rows) == 3
    assert json.loads(text)["ranks"]["0"]["actions"][2] == block


@pytest.mark.parametrize(
    "bad",
    [
        "/nowhere/0",
        "/ranks/0/actions/7",
        "/ranks/0/actions/2",
        "/name",
        "/ranks/0/actions/x",
        "/world_size/3",
        "/ranks/9/a",
    ],
)
def test_an_edit_of_another_file_is_refused(bad: str) -> None:
    """A pointer that leads nowhere is an error with the pointer and a hint, and changes nothing."""
    with pytest.raises(PlanError):
        apply(json.loads(TEXT), (Edit(bad, "replace", 1),))
    with pytest.raises(PlanError) as caught:
        apply_text(TEXT, (Edit(bad, "remove"),))
    assert caught.value.value == repr(bad) or bad in str(caught.value)
    assert caught.value.hint


def walk(node, steps=()):
    """Yield every place of a document."""
    entries = node.items() if isinstance(node, dict) else enumerate(node)
    for key, value in entries if isinstance(node, (dict, list)) else ():
        yield (*steps, key), isinstance(node, list)
        if isinstance(value, (dict, list)):
            yield from walk(value, (*steps, key))


@pytest.mark.parametrize("seed", range(60))
@pytest.mark.parametrize("indent", [None, 1, "\t"])
def test_text_and_object_agree(seed: int, indent: int | str | None) -> None:
    """Random edits give the same document on the text as on the object, in any layout."""
    rng = random.Random(seed)
    document = json.loads(TEXT)
    text = json.dumps(document, indent=indent).encode()
    edits = []
    changed = document
    for _ in range(6):
        steps, in_list = rng.choice(list(walk(changed)))
        op = rng.choice(["add", "remove", "replace"])
        if op == "add" and not in_list:
            steps = (*steps[:-1], rng.choice(["new", "x~/y", steps[-1]]))
        value = rng.choice([3, "a,b]", BARRIER, [BARRIER], {"op": "repeat", "body": [BARRIER]}])
        edit = Edit(pointer(steps), op, value)
        edits.append(edit)
        changed = apply(changed, (edit,))
        if not any(True for _ in walk(changed)):
            break
    assert json.loads(apply_text(text, edits)) == changed
    assert document == json.loads(TEXT)


@pytest.mark.parametrize("seed", range(40))
def test_hunks_turn_one_text_into_the_other(seed: int) -> None:
    """Replacing the lines of every hunk, the last one first, gives the changed lines."""
    rng = random.Random(seed)
    before = [rng.choice("abcd") for _ in range(rng.randrange(12))]
    after = [line for line in before if rng.random() < 0.7]
    for _ in range(rng.randrange(3)):
        after.insert(rng.randrange(len(after) + 1), "new")
    rebuilt = list(before)
    for hunk in reversed(hunks(before, after)):
        rebuilt[hunk.first : hunk.last] = hunk.lines
    assert rebuilt == after


def test_many_changed_lines_are_one_hunk() -> None:
    """A change of very many lines is not searched for what it shares."""
    before, after = [f"a{n}" for n in range(3000)], [f"b{n}" for n in range(3000)]
    assert hunks(["x", *before, "y"], ["x", *after, "y"]) == [Hunk(1, 3001, tuple(after))]
