"""Marks of values that all ranks share: what they reach, and how long they stay."""

from __future__ import annotations

from typing import Any

import torch

from planguard.capture.values import agreed


def test_a_mark_dies_with_its_storage() -> None:
    """While a marked value is there, what is made of it is marked; behind it nothing is asked."""
    put: list[tuple[Any, str, Any]] = []
    agreed.watch_agreed(lambda *place: put.append(place))
    try:
        value = torch.ones(2)
        agreed.agree([value])
        methods = {name: method for _, name, method in put}
        half = methods["__truediv__"](value, 2)
        assert agreed.is_agreed(value)
        assert agreed.is_agreed(half)
        value.add_(1)
        assert not agreed.is_agreed(value)
        del value, half
        assert not agreed._live
        other = torch.ones(2)
        assert not agreed.is_agreed(methods["__truediv__"](other, 2))
    finally:
        agreed._waiting.clear()


def test_what_is_given_by_name_counts() -> None:
    """A value that is computed with one of this rank alone, given by its name, is not agreed."""
    put: list[tuple[Any, str, Any]] = []
    agreed.watch_agreed(lambda *place: put.append(place))
    try:
        value, own = torch.ones(2), torch.zeros(2)
        agreed.agree([value])
        methods = {name: method for _, name, method in put}
        assert agreed.is_agreed(methods["max"](value, other=value))
        assert not agreed.is_agreed(methods["max"](value, other=own))
        assert not agreed.is_agreed(methods["div"](value, other=own))
    finally:
        agreed._waiting.clear()
