"""Patches of the user's source: proved on the same samples, and proved again from the file."""

from __future__ import annotations

import gc
import importlib.util
import itertools
import subprocess
import sys

import pytest

pytest.importorskip("torch")

from planguard.capture import precheck
from planguard.capture.batches.edited import edit
from planguard.errors import UsageError
from planguard.result.reading import verdict_from_json

pytestmark = [
    pytest.mark.processes,
    pytest.mark.wheel,
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.timeout(300),
]
HEAD = "import torch\nimport torch.distributed as dist\n\n\n"
_number = itertools.count()


def module_of(folder, text, name="job"):
    """Import a program from a file."""
    file = folder / f"{name}.py"
    file.write_text(text)
    spec = importlib.util.spec_from_file_location(f"{name}_{next(_number)}", file)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def fixed(step, samples, **options):
    """Check a step on two ranks, and ask for a patch."""
    check = precheck(2, samples=samples, model="gloo", on_unsafe="return", fix=True, **options)
    check.run(step)
    return check


def safe_from_file(check, tmp_path, samples):
    """Apply the diff with git, import the file and decide it again, without any patching."""
    folder = tmp_path / "again"
    folder.mkdir()
    (folder / "job.py").write_text(check.patch.before)
    diff = check.patch.diff.splitlines(keepends=True)
    plain = "".join(["--- a/job.py\n", "+++ b/job.py\n", *diff[2:]])
    subprocess.run(
        ["git", "apply", "-"], input=plain, text=True, cwd=folder, check=True, timeout=60
    )
    text = (folder / "job.py").read_text()
    assert text == check.patch.after
    step = module_of(folder, text).step
    again = precheck(2, samples=samples, model="gloo", on_unsafe="return").run(step)
    assert again.safe
    assert not again.errors


BRANCH = HEAD + (
    "def step(rows):\n"
    "    total = torch.ones(1)  # kept\n"
    "    if rows:\n"
    "        dist.all_reduce(total)\n"
    "    dist.barrier()\n"
    "    return total\n"
)


@pytest.mark.timeout(300)  # many plays; a busy machine is not a hang
def test_a_branch_gets_a_patch_that_is_proved(tmp_path, monkeypatch):
    """The finding has it as text, in JSON and as a diff; the program itself is left as it is."""
    monkeypatch.chdir(tmp_path)
    samples = [[], [1]]
    step = module_of(tmp_path, BRANCH).step
    code = step.__code__
    check = fixed(step, samples)
    assert check.verdict.unsafe  # of the program as it is
    (repair,) = check.verdict.findings[0].fixes
    assert repair.applicability == "verified"
    assert repair.kind == "source-agree-flag"
    assert repair.models == ("gloo",)
    assert "the same numbers for 2 assignments" in repair.text
    assert repair.patch.startswith("--- a/job.py\n+++ b/job.py\n@@")
    shown = str(check.verdict)
    assert "+    if any(said):" in shown
    assert "played again, with the same samples, and is SAFE" in " ".join(shown.split())
    said = check.verdict.to_json()
    assert said["findings"][0]["fixes"][0]["patch"] == repair.patch
    assert verdict_from_json(said).findings[0].fixes[0].patch == repair.patch
    assert step.__code__ is code
    assert (tmp_path / "job.py").read_text() == BRANCH
    safe_from_file(check, tmp_path, samples)


def test_a_patch_is_written_beside_and_over_nothing(tmp_path):
    """A new file with the diff; an existing one, the program above all, is refused."""
    check = fixed(module_of(tmp_path, BRANCH).step, [[], [1]])
    target = check.write_patch(tmp_path / "job.patch")
    assert target.read_text() == check.patch.diff
    for taken in ("job.patch", "job.py"):
        with pytest.raises(UsageError, match="not written over"):
            check.write_patch(tmp_path / taken)
    assert (tmp_path / "job.py").read_text() == BRANCH


def test_an_edit_with_the_same_numbers_is_preferred(tmp_path):
    """A sorted walk agrees and computes something else where the step worked: it comes last."""
    text = HEAD + (
        "def step(names):\n"
        "    seen = torch.zeros(2)\n"
        "    for place, name in enumerate(names):\n"
        "        pass\n"
        "    order = 0.0\n"
        "    for name in names:\n"
        "        dist.all_reduce(torch.ones(2 if name == 'a' else 3))\n"
        "        order = order * 10 + ord(name)\n"
        "    return torch.tensor(order)\n"
    )
    samples = [("a", "b"), ("b", "a")]
    check = fixed(module_of(tmp_path, text).step, samples, budget=250)
    assert check.patch is not None, str(check.verdict)
    assert "sorted(names)" not in check.patch.after
    assert "broadcast_object_list(said, src=0)" in check.patch.after
    assert "it returns the same numbers for " in check.patch.repair.text
    safe_from_file(check, tmp_path, samples)


def test_garbage_of_the_checking_process_is_no_line_of_the_program(tmp_path):
    """A generator that was left half way before the check runs no line in the middle of a rank, and
    neither does who watches the collector.
    """
    text = HEAD.replace("import torch\n", "import gc\nimport torch\n") + (
        "def watch(phase, facts):\n"
        "    watched = phase\n\n\n"
        "def left():\n"
        "    try:\n"
        "        yield\n"
        "    finally:\n"
        "        other = 1\n\n\n"
        "def step(names):\n"
        "    for name in names:\n"
        "        dist.all_reduce(torch.ones(2 if gc.collect() < 0 or name == 'a' else 3))\n"
    )
    module = module_of(tmp_path, text)
    gc.disable()
    gc.callbacks.append(module.watch)
    try:
        generator = module.left()
        next(generator)
        circle = [generator]
        circle.append(circle)
        del generator, circle
        check = precheck(2, samples=["ab", "ba"], model="gloo", on_unsafe="return")
        verdict = check.run(module.step)
    finally:
        gc.callbacks.remove(module.watch)
        gc.enable()
    (decided,) = (note for note in verdict.findings[0].notes if "decided at" in note)
    assert "job.py:18 in step" in decided, decided
    gc.collect()


def test_a_step_that_returns_nothing_is_not_said_to_return_the_same(tmp_path):
    """What was not compared is not claimed."""
    text = BRANCH.replace("    return total\n", "")
    check = fixed(module_of(tmp_path, text).step, [[], [1]])
    assert "was not compared" in check.patch.repair.text


def test_methods_and_closures_are_exchanged_where_they_live(tmp_path):
    """The model that the step holds keeps its state, and runs the edited code."""
    text = HEAD + (
        "class Model:\n"
        "    def __init__(self):\n"
        "        self.weight = torch.ones(3)\n\n"
        "    def forward(self, rows):\n"
        "        if rows:\n"
        "            dist.all_reduce(self.weight)\n"
        "        return self.weight.sum()\n\n\n"
        "def make():\n"
        "    model = Model()\n\n"
        "    def step(rows):\n"
        "        out = model.forward(rows)\n"
        "        dist.barrier()\n"
        "        return out\n\n"
        "    return step\n\n\n"
        "step = make()\n"
    )
    samples = [[], [1]]
    check = fixed(module_of(tmp_path, text).step, samples)
    assert "        if any(said):\n            dist.all_reduce" in check.patch.after
    safe_from_file(check, tmp_path, samples)


def test_where_nothing_helps_that_is_said(tmp_path):
    """A rank that raises is not made to hide it; no unproved patch is shown."""
    text = HEAD + (
        "def step(rows):\n"
        "    if rows < 0:\n"
        "        raise ValueError('bad shard')\n"
        "    dist.barrier()\n"
    )
    check = fixed(module_of(tmp_path, text).step, [1, -1])
    assert check.patch is None
    assert not check.verdict.findings[0].fixes
    assert any("no patch of the source was proved" in n for n in check.verdict.findings[0].notes)
    assert check.write_patch(tmp_path / "none.patch") is None
    assert not (tmp_path / "none.patch").exists()


def test_what_cannot_be_exchanged_is_refused(tmp_path):
    """Code of the file itself has run, and a closure over something else needs another cell."""
    text = "SIZE = 2\n\n\ndef make(x, y):\n    def step():\n        return x\n    return step\n"
    module = module_of(tmp_path, text)
    step = module.make(1, 2)
    file = str(tmp_path / "job.py")
    assert edit(file, text, text.replace("return x\n", "return x + 1\n")) is not None
    assert edit(file, text, text.replace("SIZE = 2", "SIZE = 3")) is None
    assert edit(file, text, text.replace("return x\n", "return x + y\n")) is None
    assert edit(file, text, text + "\n\ndef more():\n    pass\n") is None
    assert edit(str(tmp_path / "other.py"), text, text.replace("x\n", "x + 1\n")) is None
    assert step() == 1


def test_a_patch_needs_samples():
    """Without samples there is nothing to prove it on."""
    with pytest.raises(UsageError, match="fix=True is for samples"):
        precheck(2, fix=True)
