"""The recipe of docs/how-to/megatron-schedules.md: Megatron-core's schedules, without a GPU."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.processes, pytest.mark.wheel, pytest.mark.timeout(600)]
pytest.importorskip("torch")

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "megatron"
CASES = {
    "bridge_broadcasts": ("DEADLOCK", "PG406"),
    "bridge_broadcasts --eager": ("DEADLOCK", "PG007"),
    "bridge_broadcasts --eager --always": ("SAFE", None),
    "world_collectives": ("MISMATCH", "PG201"),
    "world_collectives --fixed": ("SAFE", None),
}
WITH_MEGATRON = {
    "optimizer_groups": ("DEADLOCK", "PG004"),
    "optimizer_groups --fixed": ("SAFE", None),
}
SCHEDULES = {
    "2 --microbatches 2": "SAFE",
    "3 batch_p2p_comm=false": "SAFE",
    "2 --virtual 2": "SAFE",
    "4 --virtual 2 overlap_p2p_comm=true batch_p2p_comm=false": "SAFE",
    '4 --virtual 2 variable_seq_lengths=true moe_token_dispatcher_type="alltoall"': "DEADLOCK",
}


def played(tmp_path, ranks, script, *arguments):
    """Play a script under ``dryrun --stub``; return the outcome and the codes that were found."""
    command = [
        sys.executable, "-m", "planguard", "dryrun", "--stub", "-o", str(tmp_path / "run"), "--",
        "torchrun", "--nproc-per-node", str(ranks), str(FOLDER / f"{script}.py"), *arguments,
    ]  # fmt: skip
    result = subprocess.run(
        command,
        check=False,
        capture_output=True,
        text=True,
        timeout=500,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        cwd=tmp_path,
    )
    said = re.search(r"^verdict: (\w+)", result.stdout, re.MULTILINE)
    assert said, result.stdout + result.stderr
    return said[1], set(re.findall(r"^error\[(PG\d+)\]", result.stdout, re.MULTILINE))


@pytest.mark.parametrize("case", CASES)
def test_a_reported_case_and_its_twin(tmp_path, case):
    """The bug is found by its rule, the twin that the pull request makes of it is SAFE."""
    outcome, code = CASES[case]
    script, *flags = case.split()
    said, codes = played(tmp_path, 4, script, *flags)
    assert said == outcome
    assert code is None or code in codes


@pytest.mark.parametrize("case", WITH_MEGATRON)
def test_megatrons_own_order_of_groups(tmp_path, case):
    """The same with the function of Megatron-core that orders the groups."""
    pytest.importorskip("megatron.core")
    outcome, code = WITH_MEGATRON[case]
    script, *flags = case.split()
    said, codes = played(tmp_path, 4, script, *flags)
    assert said == outcome
    assert code is None or code in codes


@pytest.mark.parametrize("case", SCHEDULES)
def test_a_schedule_of_megatron_is_played(tmp_path, case):
    """Both schedules on two to four stages; the one that hangs is known (bugs found, 10)."""
    pytest.importorskip("megatron.core")
    ranks, *flags = case.split()
    assert played(tmp_path, ranks, "schedules", *flags)[0] == SCHEDULES[case]
