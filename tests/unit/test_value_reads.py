"""Which reading of a value is a decision: seen in the code around it."""

from __future__ import annotations

import sys

import pytest

from planguard.capture.value_reads import decides

SAID: list[bool] = []


def read() -> int:
    """Give a value, and tell what becomes of it at the caller's."""
    frame = sys._getframe(1)
    SAID.append(decides(frame.f_code, frame.f_lasti))
    return 3


def _compared():
    if read() > 2:
        pass


def _stored_and_compared():
    value = read()
    str(value)
    if value:
        pass


def _looped():
    while read() != 3:
        pass


def _chosen():
    return 1 if read() else 2


def _printed():
    str(read())


def _stored_and_printed():
    value = read()
    return str(value)


def _handed_on():
    return read()


@pytest.mark.parametrize("function", [_compared, _stored_and_compared, _looped, _chosen])
def test_a_value_that_is_compared_or_tested_is_a_decision(function):
    """Where it is read, or where the variable that holds it is used."""
    SAID.clear()
    function()
    assert SAID == [True]


@pytest.mark.parametrize("function", [_printed, _stored_and_printed, _handed_on])
def test_a_value_that_is_printed_or_handed_on_is_none(function):
    """A loss that is logged says nothing about branches."""
    SAID.clear()
    function()
    assert SAID == [False]
