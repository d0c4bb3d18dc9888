"""The ends of the range that a rank throws, in Python's, NumPy's and torch's random numbers."""

# ruff: noqa: NPY002 - the old functions are those that have one state
from __future__ import annotations

import random

import numpy as np
import pytest

from planguard.capture.values.twister import Throw, kept_dice, set_state, untempered

torch = pytest.importorskip("torch")

LOW, HIGH = 0.0, 1 - 1e-7


@pytest.mark.parametrize("number", [0, 1, 0xFFFFFFFF, 0x12345678])
def test_a_word_gives_its_number(number):
    """Tempering is undone for any number."""
    random.seed(1)
    words = [untempered(number)] * 624
    with kept_dice():
        random.setstate((3, (*words, 0), None))
        assert random.getrandbits(32) == number


@pytest.mark.parametrize(
    ("home", "draw"),
    [
        ("random", random.random),
        ("numpy", np.random.random_sample),
        ("torch", lambda: torch.rand(1).item()),
        ("torch", lambda: torch.rand(1, dtype=torch.float64).item()),
    ],
)
def test_the_first_numbers_are_the_ends(home, draw):
    """Lowest, highest, and then others; the caller's states stay as they are."""
    before = random.getstate(), torch.get_rng_state().tolist()
    with kept_dice():
        set_state(home, 1, Throw.LOWEST)
        assert [draw() for _ in range(20)] == [LOW] * 20
        set_state(home, 1, Throw.HIGHEST)
        assert all(draw() > HIGH for _ in range(20))
        assert len({draw() for _ in range(200)}) > 100
    assert before == (random.getstate(), torch.get_rng_state().tolist())


@pytest.mark.parametrize("throw", [Throw.LOWEST, Throw.HIGHEST])
def test_what_rejects_numbers_comes_to_an_end(throw):
    """Normal, gamma and bounded numbers, which draw again and again."""
    with kept_dice():
        for home in ("random", "numpy", "torch"):
            set_state(home, 2, throw)
        assert random.gauss(0, 1) is not None
        assert random.gammavariate(2, 1) > 0
        assert random.randrange(1000) < 1000
        assert np.random.normal() is not None
        assert np.random.gamma(2.0) > 0
        assert torch.randn(4).isfinite().all()
        assert torch.randint(0, 1000, (1,)).item() < 1000
