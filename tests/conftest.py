"""What all tests share: two switches, Hypothesis profiles, the place of the repository."""

from __future__ import annotations

import gc
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from collections.abc import Generator

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


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, Any, Any]:
    """Collect without the garbage collector, which would take a quarter of the time, and keep what
    was collected out of its way: the tests and modules of the suite live to the end.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare --slow."""
    parser.addoption("--slow", action="store_true", help="also run the tests marked slow")


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell a process of pytest-xdist, which gets the paths as arguments, where they come from."""
    node.workerinput["is_named"] = _is_named(node.config)


def _is_named(config: pytest.Config) -> bool:
    """Whether the command line names files or folders."""
    if hasattr(config, "workerinput"):
        return bool(config.workerinput["is_named"])
    return config.args_source is pytest.Config.ArgsSource.ARGS


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip what is marked slow, unless asked for; and what is asked of an installed wheel, unless
    its file or folder is named.
    """
    if config.getoption("--slow"):
        return
    skip = pytest.mark.skip(reason="slow: run with --slow")
    elsewhere = pytest.mark.skip(
        reason="asked of an installed wheel: .ci/wheel-tests; beside the source: name the file"
    )
    is_asked = "PLANGUARD_INSTALLED_WHEEL" in os.environ or _is_named(config)
    for item in items:
        if item.get_closest_marker("slow"):
            item.add_marker(skip)
        elif item.get_closest_marker("wheel") and not is_asked:
            item.add_marker(elsewhere)


@pytest.fixture(scope="session")
def root() -> Path:
    """The root of the repository."""
    return ROOT


@pytest.fixture(scope="module", autouse=True)
def _autograd_first() -> None:
    """Start autograd before a module's tests trace: they share this process with tests that play.

    A program that compiles and computes a gradient before its first check is refused by a build of
    torch for CUDA that finds no device (``planguard.capture.play.processes.start_autograd``).
    """
    if "torch" in sys.modules:
        from planguard.capture.play.processes import start_autograd

        start_autograd()
