"""What one rank's machine says, and what nobody seeded, decides nothing unseen.

The programs were run on real gloo first, the answers of one rank forced where luck or a second
machine is needed: those told unsafe or undecided here hung or failed there, the others ended.
"""

# ruff: noqa: D103, PTH - programs as people write them
from __future__ import annotations

import os
import random
import resource
import secrets
import socket
import subprocess
import uuid

import numpy as np
import pytest

from planguard.verdict import Outcome

torch = pytest.importorskip("torch")
dist = pytest.importorskip("torch.distributed")

from planguard.capture import precheck  # noqa: E402 - torch must be there

pytestmark = pytest.mark.wheel


def decide(job):
    """Play a job on two ranks and give its verdict."""
    return precheck(2, model="gloo", on_unsafe="return", timeout=60.0).run(job)


def only_if(flag):
    if flag:
        dist.barrier()
    dist.all_reduce(torch.ones(1))


def by_uuid():
    only_if(uuid.uuid4().int % 2)


def by_secret():
    only_if(secrets.randbelow(2))


def by_own_random():
    only_if(random.Random().random() < 0.5)


def by_own_generator():
    only_if(np.random.default_rng().integers(0, 2) == 0)


THROWN = [by_uuid, by_secret, by_own_random, by_own_generator]


@pytest.mark.parametrize("job", THROWN, ids=lambda job: job.__name__)
def test_what_nobody_seeded_does_not_agree_by_luck(job):
    """Two ranks that throw one coin each agree every second time: that is never SAFE."""
    assert not decide(job).safe


def by_named_host():
    only_if(socket.gethostname() == "login-1")


def by_part_of_a_name():
    host = socket.gethostname()
    only_if(host.startswith("gpu"))


@pytest.mark.parametrize("job", [by_named_host, by_part_of_a_name], ids=lambda job: job.__name__)
def test_a_host_may_have_the_name_that_a_test_names(job):
    """Another name is not enough where one is asked for: one rank has that name."""
    assert decide(job).outcome is Outcome.UNKNOWN


def by_this_machine():
    for part in torch.ones(64).chunk(os.cpu_count() or 1):
        dist.all_reduce(part.clone())
    for _ in range(len(os.sched_getaffinity(0))):
        dist.all_reduce(torch.ones(1))
    only_if(resource.getrlimit(resource.RLIMIT_NOFILE)[0] < 0)
    for _ in range(int(subprocess.check_output(["echo", "2"], text=True))):
        dist.all_reduce(torch.ones(1))
    only_if(subprocess.run(["true"], check=False).returncode == 0)


def test_what_one_machine_says_of_itself_is_not_decided():
    """Another node has more processors, or another program says another thing there: each line."""
    verdict = decide(by_this_machine)
    assert verdict.outcome is Outcome.UNKNOWN
    said = " ".join(note.message for note in verdict.approximations)
    first = by_this_machine.__code__.co_firstlineno
    assert all(f"test_second_eyes.py:{first + line}" in said for line in (1, 3, 6, 8)), said


def all_agreed():
    said = subprocess.check_output(["echo", "2"], text=True)
    box = [uuid.uuid4(), os.cpu_count(), socket.gethostname(), said, secrets.randbelow(4)]
    dist.broadcast_object_list(box)
    only_if(box[0].int % 2 and box[2] != "login-1")
    for _ in range(box[1] + int(box[3]) + box[4]):
        dist.all_reduce(torch.ones(1))


def seeded_or_shown():
    rolls = random.Random(3), np.random.default_rng(3)
    only_if(rolls[0].random() < rolls[1].random())
    print(uuid.uuid4(), os.cpu_count(), os.getloadavg(), random.Random().random())


def test_what_is_agreed_seeded_or_only_shown_is_right():
    """One rank decides and broadcasts it, a seed is set, or it is only printed: SAFE."""
    assert decide(all_agreed).safe
    assert decide(seeded_or_shown).safe
