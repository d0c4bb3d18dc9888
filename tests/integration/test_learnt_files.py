"""Files that ranks parse are parsed once for all plays, and anew where they were changed."""

from __future__ import annotations

import ast
import importlib.util
import subprocess
import sys

import pytest

pytest.importorskip("torch")

from planguard.capture import precheck
from planguard.capture.names import source
from planguard.capture.play.imports import Begun

pytestmark = [pytest.mark.processes, pytest.mark.filterwarnings("ignore")]

STEP = """\
import torch
import torch.distributed as dist


def step():
    sizes = {{"weight": 1, "bias": 2, "scale": 3}}
    for name in {names}:
        dist.all_reduce(torch.ones(sizes[name]))
"""


def decided(file, text):
    """Write a program, import it under its name, and check its step on two ranks."""
    file.write_text(text)
    spec = importlib.util.spec_from_file_location("learnt_job", file)
    module = importlib.util.module_from_spec(spec)
    sys.modules["learnt_job"] = module
    spec.loader.exec_module(module)
    return precheck(2, model="gloo", on_unsafe="return").run(module.step)


def test_a_file_that_was_changed_is_parsed_anew(tmp_path):
    """The same lines walk a list, then a set: an order that each process has for itself."""
    file = tmp_path / "job.py"
    in_order = STEP.format(names="sorted(sizes)")
    assert decided(file, in_order).safe
    assert decided(file, in_order).safe  # this process has parsed it by now
    assert not decided(file, STEP.format(names="set(sizes) or 1")).safe
    source.parse([str(file)])
    written = [ast.unparse(node) for node in source.tree_of(str(file)).expressions]
    assert "set(sizes)" in written
    assert "sorted(sizes)" not in written
    assert decided(file, in_order).safe


def test_what_ranks_parse_is_parsed_here_before_the_next_play(tmp_path):
    """The first play tells this process, which parses the file once for all that follow."""
    file = tmp_path / "job.py"
    began = Begun()
    text = STEP.format(names="sorted(sizes)")
    assert decided(file, text).safe
    assert str(file) not in began.parsed()
    assert decided(file, text).safe
    assert str(file) in began.parsed()
    known = source.tree_of(str(file))
    assert source.tree_of(str(file)) is known


BLOCK = """\
import os, sys, time
import torch
import torch.distributed as dist
from planguard.capture import precheck

with precheck(2, model="gloo", on_unsafe="return") as check:
    # Not by print: of all ranks one prints.
    os.write(2, b"known\\n" if "torch._dynamo" in sys.modules else b"new\\n")
    import torch._dynamo

    if time.time() > 1.0:  # a question, for which all is played again
        dist.all_reduce(torch.ones(1))
"""


def test_what_a_block_imports_is_imported_once_for_the_plays_behind_the_first(tmp_path):
    """A block is played again from its head, where the forks begin with the modules in place."""
    file = tmp_path / "job.py"
    file.write_text(BLOCK)
    done = subprocess.run(
        [sys.executable, str(file)], capture_output=True, text=True, timeout=110, check=True
    )
    said = [line for line in done.stderr.splitlines() if line in ("known", "new")]
    assert said.count("new") == 2, done.stderr
    assert said.count("known") >= 2, done.stderr
