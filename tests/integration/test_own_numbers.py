"""Random bytes, seeds and numbers of a process decide nothing unseen, whoever draws them.

Each program may hang on real ranks; its twin agrees on the number or on the seed first.
"""

# ruff: noqa: D103, NPY002, PTH123, SIM115 - programs as people write them
from __future__ import annotations

import os
import random
import secrets
import struct
import time
import uuid
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from planguard.verdict import Outcome

torch = pytest.importorskip("torch")
dist = pytest.importorskip("torch.distributed")

from planguard.capture import precheck  # noqa: E402 - torch must be there
from planguard.capture.values.own_dice import own_seeds  # noqa: E402 - same

pytestmark = pytest.mark.wheel

HERE = Path(__file__)


@pytest.fixture(autouse=True)
def nobody_chose_a_seed():
    torch.seed()
    random.setstate(random.Random(0).getstate())


def decide(job, world=2):
    return precheck(world, model="gloo", on_unsafe="return", timeout=60.0).run(job)


def act(*, is_wanted):
    """Communicate once more where a rank wants to."""
    if is_wanted:
        dist.barrier()
    dist.all_reduce(torch.ones(2))


def by_getrandom():
    act(is_wanted=os.getrandom(1)[0] < 2)


def by_random_device():
    with open("/dev/urandom", "rb") as device:
        number = int.from_bytes(device.read(4), "little")
    act(is_wanted=number % 1000 == 0)


def by_seed_of_the_device():
    (seed,) = struct.unpack("I", open("/dev/urandom", "rb").read(4))
    act(is_wanted=random.Random(seed).random() < 0.001)


def by_seed_of_bytes():
    torch.manual_seed(int.from_bytes(os.urandom(4), "big"))
    act(is_wanted=torch.rand(1).item() < 0.001)


def by_clock_and_process():
    random.seed(int(time.time()) ^ os.getpid())
    act(is_wanted=random.random() < 0.001)


def by_clock_of_a_remainder():
    np.random.seed(os.getpid() + int(time.time() * 1000) % 100_000)
    act(is_wanted=np.random.rand() < 0.001)


def by_generator_of_both():
    state = np.random.default_rng(int(time.time()) + os.getpid())
    act(is_wanted=state.random() > 0.999)


def by_state_of_both():
    state = np.random.RandomState((os.getpid() * int(time.time())) % 2**31)
    act(is_wanted=state.rand() > 0.999)


def by_agreed_time_and_rank():
    """The time is agreed on, the seed is not: ranks throw apart."""
    seed = [int(time.time())]
    dist.broadcast_object_list(seed, 0)
    random.seed(seed[0] * 7919 + dist.get_rank())
    act(is_wanted=random.random() < 0.001)


def by_one_in_a_hundred():
    act(is_wanted=random.randint(1, 100) == 42)


@dataclass
class Config:
    """Limits that tests name by an attribute."""

    early: tuple[int, ...] = (42, 1)


def by_limit_of_a_configuration():
    config = Config()
    act(is_wanted=random.randint(1, 100) in config.early)


def by_one_of_many():
    """More answers are named than are played, the one that decides among the last."""
    number = random.randint(1, 10_000)
    for other in (
        number in (11, 12, 13, 14, 15, 16, 17, 18, 19, 21, 22, 23, 24),
        number in (31, 32, 33, 34, 35, 36, 37, 38, 39, 41, 42, 43, 44),
    ):
        print(other)
    act(is_wanted=number == 45)


def by_middle_choice():
    act(is_wanted=random.choice(["text", "image", "audio", "video", "none"]) == "audio")


def by_numbered_secret():
    act(is_wanted=secrets.randbelow(100) == 3)


def by_remainder_of_a_name():
    act(is_wanted=uuid.uuid4().int % 16 == 3)


def by_name_of_time():
    act(is_wanted=uuid.uuid1().int % 2 == 1)


def by_card():
    act(is_wanted=uuid.getnode() % 2 == 1)


def by_process():
    act(is_wanted=os.getpid() % 1000 == 7)


OWN = [
    by_getrandom, by_random_device, by_seed_of_the_device, by_seed_of_bytes, by_clock_and_process,
    by_clock_of_a_remainder, by_generator_of_both, by_state_of_both, by_agreed_time_and_rank,
    by_one_in_a_hundred, by_limit_of_a_configuration, by_middle_choice, by_numbered_secret,
    by_remainder_of_a_name, by_name_of_time, by_card, by_process,
]  # fmt: skip


@pytest.mark.parametrize("job", OWN, ids=lambda job: job.__name__)
def test_numbers_of_one_rank_are_doubted(job):
    """Undecided with the line, or unsafe where two ranks differ as they are."""
    verdict = decide(job)
    assert verdict.outcome is not Outcome.SAFE
    said = [one.message for one in verdict.approximations if one.kind == "own-answers"]
    assert verdict.unsafe or any(HERE.name in one and "depends on" in one for one in said)


def agreed(value):
    given = [value]
    dist.broadcast_object_list(given, 0)
    return given[0]


def by_agreed_bytes():
    act(is_wanted=agreed(os.getrandom(1)[0]) < 2)


def by_agreed_device():
    with open("/dev/urandom", "rb") as device:
        number = agreed(int.from_bytes(device.read(4), "little"))
    act(is_wanted=number % 1000 == 0)


def by_agreed_seed():
    random.seed(agreed(int(time.time()) ^ os.getpid()))
    act(is_wanted=random.random() < 0.5)


def by_agreed_limit_of_a_configuration():
    config = Config()
    act(is_wanted=agreed(random.randint(1, 100)) in config.early)


def by_agreed_seed_of_bytes():
    torch.manual_seed(agreed(int.from_bytes(os.urandom(4), "big")))
    act(is_wanted=torch.rand(1).item() < 0.5)


def by_agreed_generator():
    state = np.random.default_rng(agreed(int(time.time()) + os.getpid()))
    act(is_wanted=state.random() > 0.5)


def by_chosen_seed():
    random.seed(1234)
    act(is_wanted=random.randint(1, 100) == 42)


def by_seed_of_a_rank():
    """A number of the rank alone falls in every run as it does here."""
    random.seed(1234 + dist.get_rank())
    act(is_wanted=random.random() < 0.001)


def by_name_in_a_log():
    print(os.getpid(), uuid.uuid1(), uuid.getnode(), secrets.token_hex(4))
    random.seed(int(time.time()) ^ os.getpid())
    act(is_wanted=False)


ALIKE = [
    by_agreed_bytes, by_agreed_device, by_agreed_seed, by_agreed_limit_of_a_configuration,
    by_agreed_seed_of_bytes,
    by_agreed_generator, by_chosen_seed, by_seed_of_a_rank, by_name_in_a_log,
]  # fmt: skip


@pytest.mark.parametrize("job", ALIKE, ids=lambda job: job.__name__)
def test_numbers_that_are_agreed_on_are_right(job):
    assert decide(job).outcome is Outcome.SAFE


def test_more_answers_beside_the_question_than_are_played_are_told():
    """Two dozen are played; that none of those decides is no proof for the others."""
    verdict = decide(by_one_of_many)
    assert verdict.outcome is Outcome.UNKNOWN
    said = [one.message for one in verdict.approximations if one.kind == "own-answers"]
    assert any("name more answers than are played" in one for one in said)


def test_a_seed_is_own_that_changes_and_is_not_common():
    """Constant, of the rank, agreed on, of each rank's clock, and agreed on beside the rank."""

    def play(now):
        seeds = {"a.py:1": (7, 7), "a.py:2": (1, 2), "a.py:3": (now, now),
                 "a.py:4": (now, now + 5), "a.py:5": (now, now + 1)}  # fmt: skip
        return {rank: [(at, str(both[rank])) for at, both in seeds.items()] for rank in (0, 1)}

    assert own_seeds(play(100), play(200)) == ["a.py:4", "a.py:5"]
