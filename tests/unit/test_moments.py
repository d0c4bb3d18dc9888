"""At which moments a program's clock has to be tried: read off its tests."""

from __future__ import annotations

import datetime as dt
import time

import pytest

from planguard.capture.names import depends
from planguard.capture.values.moments import moments
from planguard.capture.values.own_clock import Moment

FIRST, LAST = Moment((1, 1, 0, 0, 0)), Moment((12, 31, 23, 59, 59))


def found(tmp_path, text, asked=1):
    """The moments of a program that asks for the time at a line."""
    file = tmp_path / "program.py"
    file.write_text(text)
    return moments([str(file)], [f"{file}:{asked}"])


@pytest.mark.parametrize(
    "text",
    [
        "t = time.time()\nif t - start > 3600: save()",
        "t = now()\nprint(t.hour, t.minute % 2)",
        "name = now().strftime('%H')\nif rank == 3: save()",
    ],
)
def test_what_takes_long_or_is_only_shown_needs_none(tmp_path, text):
    """A difference of times, a printed hour, a name of a folder: a day later is enough."""
    assert found(tmp_path, text) == []


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("t = now()\nif t.hour == 3: save()", (1, 1, 3, 0, 0)),
        ("t = now()\nif t.hour == 3 and t.minute == 30: save()", (1, 1, 3, 30, 0)),
        ("t = localtime()\nif t.tm_min in (5, 40): save()", (12, 28, 23, 40, 40)),
        ("t = time()\nif int(t) % 60 == 7: save()", (7, 7, 7, 7, 7)),
    ],
)
def test_the_numbers_of_a_test_are_moments(tmp_path, text, wanted):
    """Where it takes the time apart; the ends of the year are always among them."""
    these = found(tmp_path, text)
    assert these[:2] == [FIRST, LAST]
    assert wanted in [one.fields for one in these]


def test_a_large_program_is_read_in_a_moment():
    """The text of a test is cut out of its lines; once the whole file was cut for each of them."""
    lines = [f"if 'ä' < day() and now().hour == {at % 60}:\n    save()" for at in range(2_000)]
    text = "\n".join(lines)
    before = time.process_time()
    found = depends.tests_on({"program.py": text}, ["program.py:1"])
    assert time.process_time() - before < 5
    assert {one.text for one in found if one.line == 3_999} == {"'ä' < day()", "now().hour == 19"}


def test_what_a_function_gives_is_followed(tmp_path):
    """A helper that asks for the hour, and a test elsewhere."""
    text = "def hour():\n    return now().hour\n\nif hour() == 22: save()"
    assert (10, 22, 22, 22, 22) in [(10, *one.fields[1:]) for one in found(tmp_path, text, 2)]


@pytest.mark.parametrize("weekday", range(7))
def test_a_day_of_the_week_is_met(weekday):
    """A year is taken in which the date falls on it, later than now."""
    now = dt.datetime(2026, 11, 23, 12).timestamp()  # noqa: DTZ001 - local, as programs ask
    met = dt.datetime.fromtimestamp(Moment((2, 3, 4, 5, 6), weekday).after(now))  # noqa: DTZ006
    assert met.weekday() == weekday
    assert (met.month, met.day, met.hour, met.minute, met.second) == (2, 3, 4, 5, 6)
    assert met.timestamp() > now
