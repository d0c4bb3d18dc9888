"""At which moments a program's clock has to be tried: read off its tests."""

from __future__ import annotations

import datetime as dt
import re
import time

import pytest

from planguard.capture.names import depends
from planguard.capture.play.further import Further
from planguard.capture.values.moments import MOST_NAMED, constants, moments, names
from planguard.capture.values.own_answers import PROCESS
from planguard.capture.values.own_clock import Moment
from planguard.capture.values.own_folders import FOLDER
from planguard.capture.values.own_host import HOST

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
    found = depends.tests_of({"program.py": text}, ("program.py", 1), [])
    assert time.process_time() - before < 5
    assert {one.text for one in found if one.line == 3_999} == {"'ä' < day()", "now().hour == 19"}


def test_what_a_function_gives_is_followed(tmp_path):
    """A helper that asks for the hour, and a test elsewhere."""
    text = "def hour():\n    return now().hour\n\nif hour() == 22: save()"
    assert (10, 22, 22, 22, 22) in [(10, *one.fields[1:]) for one in found(tmp_path, text, 2)]


def found_in(tmp_path, **texts):
    """The moments of a program of several files, the first line of the first asks for the time."""
    for name, text in texts.items():
        (tmp_path / f"{name}.py").write_text(text)
    files = [str(tmp_path / f"{name}.py") for name in texts]
    return moments(files, [f"{files[0]}:1"])


STRANGERS = {
    "names": "try:\n    load()\nexcept OSError as error:\n    if error.errno == 3: stop()",
    "hours": "def main(then):\n    if then.hour == 4 or then.minute % 7 == 2: stop()",
}
"""Files of the same process that nothing of the program reaches, such as other tests of a run."""


@pytest.mark.parametrize(
    "asking", ["now()", "t = now()", "def step():\n    t = now()\n    print(t)"]
)
def test_files_that_the_answer_does_not_reach_do_not_count(tmp_path, asking):
    """A handler or a test of another hour elsewhere in the process is no test of this clock."""
    assert found_in(tmp_path, asking=asking, **STRANGERS) == []


@pytest.mark.parametrize(
    "texts",
    [
        {"a": "def hour(): return now().hour", "b": "from a import hour\nif hour() == 9: save()"},
        {"a": "LAST = now()", "b": "import a\nif a.LAST.hour == 9: save()"},
        {"a": "self.begun = now()", "b": "if trainer.begun.hour == 9: save()"},
        {"a": "check(now())", "b": "def check(t):\n    if t.hour == 9: save()"},
        {"a": "Timer(now())", "b": "class Timer:\n    def __init__(self, t):\n"
         "        if t.hour == 9: save()"},
        {"a": "def pick(): return {9: 1}[now().hour]", "c": "from a import pick\n"
         "def load(): return pick()", "b": "from c import load\ntry:\n    load()\n"
         "except KeyError as error:\n    if error.args[0] == 9: save()"},
        {"a": "class T:\n  @property\n  def begun(self): return now().hour",
         "b": "if T().begun == 9: save()"},
    ],
)  # fmt: skip
def test_files_that_the_answer_reaches_count(tmp_path, texts):
    """By a result, a global, an attribute, an argument, a constructor, a property, an exception."""
    asked = next(n for n, line in enumerate(texts["a"].splitlines(), 1) if "now()" in line)
    for name, text in {**texts, **STRANGERS}.items():
        (tmp_path / f"{name}.py").write_text(text)
    files = [str(tmp_path / f"{name}.py") for name in (*texts, *STRANGERS)]
    these = moments(files, [f"{files[0]}:{asked}"])
    assert 9 in [one.fields[2] for one in these]
    assert 4 not in [one.fields[2] for one in these]


@pytest.mark.parametrize("weekday", range(7))
def test_a_day_of_the_week_is_met(weekday):
    """A year is taken in which the date falls on it, later than now."""
    now = dt.datetime(2026, 11, 23, 12).timestamp()  # noqa: DTZ001 - local, as programs ask
    met = dt.datetime.fromtimestamp(Moment((2, 3, 4, 5, 6), weekday).after(now))  # noqa: DTZ006
    assert met.weekday() == weekday
    assert (met.month, met.day, met.hour, met.minute, met.second) == (2, 3, 4, 5, 6)
    assert met.timestamp() > now


def test_the_nearest_tests_name_first(tmp_path):
    """Other tests of the file that may depend, by their names alone, do not push a number out."""
    file = tmp_path / "job.py"
    others = "".join(
        f"def at_{number}(value):\n    if value == {number}:\n        print(value)\n\n\n"
        for number in range(100, 120)
    )
    calls = "".join(f"    at_{number}(value)\n" for number in range(100, 120))
    own = "def job():\n    value = draw()\n    if value == 42:\n        print()\n"
    file.write_text(others + own + calls)
    asked = (others + own).splitlines().index("    value = draw()") + 1
    found = constants([str(file)], [f"{file}:{asked}"])
    assert found[0] == 42
    assert set(found) == {42, *range(100, 120)}


NAMED = [
    ("END: int = 43", "x == END"),
    ("ROW = (1, 43)", "x in ROW"),
    ("ROW = frozenset({1, 43})", "x in ROW"),
    ("ROW = (43, 1)", "x == ROW[0]"),
    ("ROW = (43, 1)", "any(x == one for one in ROW)"),
    ("ROW = {43: 'a'}", "x in ROW"),
    ("ROW = {43: True}", "ROW.get(x)"),
    ("ROW = [0] * 90; ROW[43] = 1", "ROW[x]"),
    ("START, END = 1, 43", "x == END"),
    ("BASE = 40; END = BASE + 3", "x == END"),
    ("class Config:\n    end = 43", "x == Config.end"),
    ("class Config:\n    end: int\nconfig = Config(43)", "x == config.end"),
    ("config = SimpleNamespace(end=43)", "x == config.end"),
    ("config = {'end': 43}", "x == config['end']"),
    ("config = dict(end=43)", "x == config.get('end')"),
    ("END = int(os.environ.get('END', '43'))", "x == END"),
    ("parser.add_argument('--the-end', type=int, default=43)", "x == args.the_end"),
    ("from other import END", "x == END"),
    ("from other import END as LAST", "x == LAST"),
    ("import other", "x == other.config.end"),
    ("def is_end(x, end=43): return x == end", "is_end(x)"),
    ("def is_end(x, end): return x == end", "is_end(x, 43)"),
    ("def is_at(end): return lambda x: x == end", "is_at(43)(x)"),
    ("class T:\n  def __init__(self, z): self.z = z\nt = T(43)", "x == t.z"),
    ("", "x in range(43, 45)"),
    ("", "42 < x < 44"),
    ("", "x - 43 == 0"),
    ("", "not x - 43"),
    ("", "math.isclose(x, 43)"),
]  # fmt: skip


TEXTS = [
    tuple(re.sub(r"'?\b43\b'?", "'node'", one) for one in row)
    for row in NAMED
    if re.search(r"x (==|in) [A-Zaco]", row[1]) and "+" not in row[0]
]
"""Those that may be names of a host."""


def asking(folder, given, test, asked):
    """The files of a program that tests what it asks, and the line."""
    text = f"{given}\nx = {asked}\nif {test}: save()"
    end = "'node'" if "gethostname" in asked else "43" if asked == "draw()" else "13"
    for name, its in (("job", text), ("other", f"END = {end}\nclass config:\n    end = {end}\n")):
        (folder / f"{name}.py").write_text(its)
    files = [str(folder / "job.py"), str(folder / "other.py")]
    return files, [f"{files[0]}:{len((given or '-').splitlines()) + 1}"]


@pytest.mark.parametrize(("given", "test"), NAMED)
def test_what_a_test_names_elsewhere_is_read(tmp_path, given, test):
    """Rows, attributes, entries, parameters, options, other modules: the value is tried, of dice
    as of clocks.
    """
    assert 43 in constants(*asking(tmp_path, given, test, "draw()"))[:MOST_NAMED]
    given, test = (re.sub(r"\b4([0-5])\b", r"1\1", one) for one in (given, test))
    (tmp_path / "hours").mkdir()
    these = moments(*asking(tmp_path / "hours", given, test, "now().hour"))
    assert 13 in [one.fields[2] for one in these]


@pytest.mark.parametrize(("given", "test"), TEXTS)
def test_names_that_a_test_names_elsewhere_are_read(tmp_path, given, test):
    """The same for what a host is called."""
    assert "node" in names(*asking(tmp_path, given, test, "gethostname()"))


MANY = [f"file_{at}" for at in range(30)]


def test_a_name_that_decides_is_found_whatever_else_the_process_holds(tmp_path):
    """Other loaded files name functions of it, so that more of its tests may depend."""
    one, other = tmp_path / "one.py", tmp_path / "other.py"
    one.write_text(
        "\n".join(f"def of_{at}(x):\n    return x == '{name}'" for at, name in enumerate(MANY))
        + "\ndef resume():\n    for name in listdir():\n        if name.startswith('epoch_'):\n"
        "            save(name)\n"
    )
    other.write_text("\n".join(f"def save(y):\n    of_{at}(y)" for at in range(len(MANY))))
    place = [f"{one}:{2 * len(MANY) + 2}"]
    assert names([str(one)], place) == ["epoch_"]
    found = names([str(one), str(other)], place)
    assert {"epoch_", *MANY} == {*found}
    of_folders = Further.of([(FOLDER, place[0])], [str(one), str(other)])
    assert {"epoch_", *MANY} == {*of_folders.sought}
    assert not of_folders.rest


@pytest.mark.parametrize(
    ("kind", "asked", "values", "find"),
    [(HOST, "host()", MANY, names), (PROCESS, "getpid()", [*range(30)], constants)],
)
def test_more_values_than_are_played_are_told(tmp_path, kind, asked, values, find):
    """Each is a play of its own. Values beside the question are played up to two dozen, and what
    is not played then is no proof; elsewhere a test may depend by its names alone.
    """
    file = tmp_path / "program.py"
    file.write_text(f"x = {asked}\n" + "\n".join(f"if x == {one!r}: save()" for one in values))
    place = f"{file}:1"
    assert find([str(file)], [place]) == values
    more = Further.of([(kind, place)], [str(file)])
    assert more.rest == more.untried == [repr(one) for one in values[24:]]
    tests = "\n".join(f"    if x == {one!r}: save()" for one in values)
    for name, handed, left in (("handed", f"at({asked})", 6), ("aside", f"x = {asked}", 0)):
        other = file.with_name(f"{name}.py")
        other.write_text(f"def at(x):\n{tests}\ndef step():\n    global x; {handed}")
        more = Further.of([(kind, f"{other}:{len(values) + 3}")], [str(other)])
        assert len(more.untried) == left, name
    file.with_name("few.py").write_text(f"x = {asked}\nif x == {values[0]!r}: save()")
    few = str(file.with_name("few.py"))
    assert not Further.of([(kind, f"{few}:1")], [few]).rest
