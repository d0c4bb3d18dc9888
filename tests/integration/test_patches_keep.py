"""A patch never takes away what worked: calls, branches and numbers, told by hand-made programs."""

from __future__ import annotations

import importlib.util
import itertools
import sys

import pytest

pytest.importorskip("torch")

from planguard.capture import precheck
from planguard.capture.batches.kept import Lines

pytestmark = [
    pytest.mark.processes,
    pytest.mark.wheel,
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.timeout(300),
]
HEAD = "import torch\nimport torch.distributed as dist\n\n\n"
_number = itertools.count()


def fixed(folder, text, samples):
    """Check a step on two ranks, and ask for a patch."""
    file = folder / "job.py"
    file.write_text(HEAD + text)
    name = f"kept_{next(_number)}"
    spec = importlib.util.spec_from_file_location(name, file)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    check = precheck(2, samples=samples, model="gloo", on_unsafe="return", fix=True, budget=120)
    check.run(module.step)
    assert check.verdict.unsafe
    return check


def notes(check):
    """Return the notes of the first finding as one text."""
    return "\n".join(check.verdict.findings[0].notes)


def only(monkeypatch, *texts):
    """Let these edited texts be all that is proposed, in this order."""
    from planguard.capture.batches import patches
    from planguard.repair.source import SourceProposal

    def proposed(_, __):
        for text in texts:
            yield SourceProposal("agree-flag", HEAD + text, "an edit of this test")

    monkeypatch.setattr(patches, "proposals", proposed)


BRANCH = (
    "def step(rows):\n"
    "    total = torch.ones(1)\n"
    "    if rows:\n"
    "        dist.all_reduce(total)\n"
    "    dist.barrier()\n"
    "    return total\n"
)


def test_an_edit_that_takes_a_call_from_who_was_safe_is_refused(tmp_path, monkeypatch):
    """All ranks with rows worked and reduced: no edit may be SAFE by not reducing any more.

    Three such edits, in one search: what was played of the step as it is is compared with each.
    """
    edits = [
        BRANCH.replace("if rows:", "if False:"),
        BRANCH.replace("if rows:", "if rows is None:"),
        BRANCH.replace("        dist.all_reduce(total)\n", "        pass\n"),
    ]
    only(monkeypatch, *edits)
    check = fixed(tmp_path, BRANCH, [[], [1]])
    assert check.patch is None
    assert not check.verdict.findings[0].fixes
    # What is said of the first two is the same, and told once; no other reason is.
    told = [line for line in notes(check).splitlines() if line.startswith("tried to edit")]
    assert len(told) == len(edits) - 1, told
    assert all("it takes the all_reduce" in line for line in told), told
    assert all("where it was SAFE" in line for line in told), told


def test_an_edit_that_keeps_the_calls_comes_before_nothing_else(tmp_path, monkeypatch):
    """The edit that disables is tried first, refused, and the one that agrees is shown."""
    agreed = BRANCH.replace(
        "    if rows:\n",
        "    said = [None, None]\n"
        "    dist.all_gather_object(said, bool(rows))\n"
        "    if any(said):\n",
    )
    only(monkeypatch, BRANCH.replace("if rows:", "if False:"), agreed)
    check = fixed(tmp_path, BRANCH, [[], [1]])
    assert check.patch is not None, notes(check)
    assert check.patch.after == HEAD + agreed


def test_a_call_that_only_unsafe_assignments_issued_is_not_switched_off(tmp_path, monkeypatch):
    """No assignment was SAFE: rank 0 alone evaluates. An edit by which nobody does is no mend."""
    text = (
        "def step(rows):\n"
        "    if dist.get_rank() == 0:\n"
        "        dist.all_reduce(torch.ones(1))\n"
        "    dist.barrier()\n"
    )
    only(monkeypatch, text.replace("== 0", "== 7"))
    check = fixed(tmp_path, text, [1])
    assert check.patch is None
    assert "no rank issues the all_reduce at job.py:7 any more" in notes(check), notes(check)
    monkeypatch.undo()
    check = fixed(tmp_path, text, [1])  # of the proposals that PlanGuard itself makes
    assert check.patch is not None, notes(check)
    assert "any(said)" in check.patch.after


@pytest.mark.slow
def test_other_numbers_come_behind_the_same_numbers(tmp_path, monkeypatch):
    """Two SAFE edits: the one that returns something else where it worked is not preferred."""
    agreed = BRANCH.replace(
        "    if rows:\n",
        "    said = [None, None]\n"
        "    dist.all_gather_object(said, bool(rows))\n"
        "    if any(said):\n",
    )
    other = agreed.replace("return total", "return total + 1")
    only(monkeypatch, other, agreed)
    check = fixed(tmp_path, BRANCH, [[], [1]])
    assert check.patch.after == HEAD + agreed
    only(monkeypatch, other)
    check = fixed(tmp_path, BRANCH, [[], [1]])
    assert check.patch.after == HEAD + other
    assert "OTHER NUMBERS for 2 of 2" in check.patch.repair.text


def test_a_branch_that_never_runs_again_comes_last_and_is_said(tmp_path, monkeypatch):
    """What a branch computes without a call counts, too, where a sample took it."""
    text = (
        "SEEN = []\n\n\n"
        "def step(rows):\n"
        "    if rows:\n"
        "        SEEN.append(rows)\n"
        "        dist.all_reduce(torch.ones(1))\n"
        "    dist.barrier()\n"
    )
    said = (
        "    said = [None, None]\n    dist.all_gather_object(said, bool(rows))\n    if any(said):\n"
    )
    good = text.replace("    if rows:\n", said)
    never = good.replace("        SEEN", "        if dist.get_rank() > 7:\n            SEEN")
    only(monkeypatch, never, good)
    check = fixed(tmp_path, text, [[], [1]])
    assert check.patch.after == HEAD + good, check.patch.repair.text
    assert "NEVER" not in check.patch.repair.text
    only(monkeypatch, never)
    check = fixed(tmp_path, text, [[], [1]])
    assert "line 10, which ran before, NEVER RUNS now" in check.patch.repair.text


def test_lines_are_those_of_the_former_text():
    """Unchanged lines keep their number, changed ones stand together, moved ones for themselves."""
    lines = Lines.of("a\nb\nc\nd\n", "new\na\nB\nd\nc\n")
    assert lines.edited[2] == lines.former[1] == ("line", 1)
    assert lines.edited[4] == lines.former[4]
    assert lines.edited[5] == lines.former[3]
    assert lines.edited[3] == lines.former[2]
    assert lines.edited[1] not in lines.former.values()
