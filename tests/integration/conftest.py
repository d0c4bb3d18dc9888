"""Makes the oracle and the gloo runner importable, and declares the option of their tests."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

sys.path[:0] = [str(Path(__file__).resolve().parents[1]), str(Path(__file__).resolve().parent)]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare --litmus-all."""
    parser.addoption(
        "--litmus-all",
        action="store_true",
        help="run all litmus programs and 500 random plans on real gloo processes",
    )
