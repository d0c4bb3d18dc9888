"""Which reading of a value is a decision: seen in the code around it."""

from __future__ import annotations

import sys

import pytest

from planguard.capture.values.value_reads import IN_LIBRARY, KIND, decides, folded

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


TAIL = "; the log holds the branch that this run took"


def test_decisions_inside_of_libraries_are_one_line():
    """Seven places in two installed packages, met on both ranks, are one entry that names the
    packages, the first place and how many more there are; the program's own stay as they are.
    """
    base = "the program decides on a tensor's value at"
    own = (KIND, f"{base} /p/train.py:3{TAIL}", "exact")
    inside = [
        (IN_LIBRARY, f"{base} /v/lib/site-packages/{name}/x.py:{line}{TAIL}", "exact")
        for name, lines in (("accelerate", range(4)), ("transformers", range(3)))
        for line in lines
    ]
    found = folded([own, *inside, *inside])
    assert found[0] == own
    assert len(found) == 2
    kind, message, direction = found[1]
    assert (kind, direction) == (KIND, "exact")
    assert "libraries (accelerate, transformers)" in message
    assert "accelerate/x.py:0 and 6 more places" in message
    assert folded([own]) == [own]
