"""Audits of real gloo jobs that were made to hang, and of the same jobs healed."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from audit_cases import DUMPS, audit, load, marked, unpack

programs = load("programs")
NAMES = sorted(programs.PROGRAMS)
LIVE = ("skipped_in_the_middle", "head_to_head_send")
"""Programs that are run here and now as well."""


def judge(name, verdict):
    """Check code, ranks and words of an audit against what the program says of itself."""
    one, text = programs.PROGRAMS[name], " ".join(str(verdict).split())
    errors = [f for f in verdict.findings if f.severity == "error"]
    assert errors, text
    assert errors[0].code == one.code, text
    assert set(errors[0].ranks) == set(one.ranks), text
    for said in one.says:
        if said.startswith("@"):
            assert any(line in text for line in marked(said[1:])), (said, text)
        else:
            assert any(part in text for part in said.split("|")), (said, text)
    assert verdict.unsafe


@pytest.mark.parametrize("name", NAMES)
def test_an_audit_names_the_rank_and_the_action(name, tmp_path):
    """The first finding of a hung job's dumps has the right code, ranks and call."""
    folder = unpack(name, "stuck", tmp_path)
    judge(name, audit(programs.PROGRAMS[name], folder))


@pytest.mark.parametrize("name", NAMES)
def test_the_healed_job_is_clean(name, tmp_path):
    """The dumps of the same job without its fault give no error and no warning but open groups."""
    verdict = audit(programs.PROGRAMS[name], unpack(name, "healthy", tmp_path), "healthy")
    told = [f.code for f in verdict.findings if f.severity != "note"]
    assert set(told) <= {"PG904"}, str(verdict)
    assert not verdict.unsafe


def test_there_are_thirty_of_them():
    """At least thirty programs were recorded, each as it hung and healed."""
    assert len(NAMES) >= 30
    assert {path.stem for path in DUMPS.glob("*.zip")} == set(NAMES)


@pytest.mark.processes
@pytest.mark.wheel
@pytest.mark.timeout(400)
def test_jobs_that_hang_now_are_understood(tmp_path):
    """Programs that are run here and now give the same answers as their recorded dumps."""
    subprocess.run(
        [sys.executable, "-W", "ignore", DUMPS / "record.py", *LIVE, "--folder", tmp_path],
        check=True,
        timeout=300,
        capture_output=True,
        env={**os.environ, "GLOO_SOCKET_IFNAME": "lo"},
    )
    for name in LIVE:
        judge(name, audit(programs.PROGRAMS[name], tmp_path / name))
