"""What all tests share: two switches, Hypothesis profiles, the place of the repository."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

ROOT = Path(__file__).resolve().parents[1]

# One run of the suite must give the same answer as the next; the search for new counterexamples
# has its own profile: HYPOTHESIS_PROFILE=search.
settings.register_profile(
    "repeatable",
    derandomize=True,
    deadline=None,  # a busy machine is not a failing test
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("search", deadline=None, max_examples=2000, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))


# A shell ignores SIGINT for what it starts in the background, and everything that this starts would
# inherit that: the tests that interrupt a command would wait for ever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare --slow."""
    parser.addoption("--slow", action="store_true", help="also run the tests marked slow")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip what is marked slow, unless asked for; and what is asked of an installed wheel."""
    if config.getoption("--slow"):
        return
    skip = pytest.mark.skip(reason="slow: run with --slow")
    elsewhere = pytest.mark.skip(reason="asked of an installed wheel: .ci/wheel-tests, or --slow")
    is_installed = "PLANGUARD_INSTALLED_WHEEL" in os.environ
    for item in items:
        if item.get_closest_marker("slow"):
            item.add_marker(skip)
        elif item.get_closest_marker("wheel") and not is_installed:
            item.add_marker(elsewhere)


@pytest.fixture(scope="session")
def root() -> Path:
    """The root of the repository."""
    return ROOT
