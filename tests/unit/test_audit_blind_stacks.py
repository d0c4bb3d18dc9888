"""A rank that receives from someone it does not name may only be early."""

from __future__ import annotations

import subprocess
import sys

STACK = """Process {pid}: python train.py
Python v3.11.7 (/usr/bin/python3.11)

Thread {pid} (idle): "MainThread"
    {call}
    <module> (train.py:7)
"""


def test_one_stack_in_a_receive_is_no_deadlock(tmp_path):
    """While the other rank computes, a receive without a peer leaves the answer open."""
    calls = ["forward (model.py:3)", "recv (torch/distributed/distributed_c10d.py:2735)"]
    for rank, call in enumerate(calls):
        (tmp_path / f"rank{rank}.txt").write_text(STACK.format(pid=101 + rank, call=call))
    command = [sys.executable, "-m", "planguard", "audit", str(tmp_path)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 3
    assert "verdict: UNKNOWN" in ended.stdout
    assert "PG501" in ended.stdout
