"""Makes the oracle importable for the property tests, and declares their option."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare --exhaustive-differential."""
    parser.addoption(
        "--exhaustive-differential",
        action="store_true",
        help="compare 20,000 random plans with the enumerator instead of 1,000",
    )
