"""Declares the option of the property tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare --exhaustive-differential."""
    parser.addoption(
        "--exhaustive-differential",
        action="store_true",
        help="compare 20,000 random plans with the enumerator instead of 1,000",
    )
