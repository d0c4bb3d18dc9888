"""Where a rank's log ends, what is said of it names the line of the program."""

from __future__ import annotations

from planguard.capture.play.logs import RankLog, build_plan
from planguard.capture.play.ranks import Play

TRACE = '  File "train.py", line 7, in main\n    load()\nOSError: no file'


def log(rank, line, **more):
    """Give a log of one barrier."""
    call = {"op": "barrier", "group": "world", "src": ["train.py", line, "main"]}
    return RankLog(rank, [call], {"world": [0, 1]}, **more)


def test_a_log_that_ends_early_names_the_call_behind_which_it_ends():
    """Of each rank that is cut, ranks of one line together."""
    logs = {rank: log(rank, 3 + rank, is_cut=True) for rank in range(2)}
    plan = build_plan(logs, {}, 2, (), name="job", model=None, tool="test")
    (cut,) = [one for one in plan.approximations if one.kind == "cut-short"]
    assert "rank 0 behind barrier at train.py:3" in cut.message
    assert "rank 1 behind barrier at train.py:4" in cut.message


def test_a_rank_that_raised_names_the_line():
    """What it would issue behind that is open; where it raised is known."""
    play = Play(2)
    play.logs = {0: log(0, 3), 1: log(1, 3, end="OSError: no file", trace=TRACE)}
    play.note_failed()
    ((_, message, _),) = play.logs[1].notes
    assert "rank 1 ended by OSError: no file, raised at train.py:7;" in message
