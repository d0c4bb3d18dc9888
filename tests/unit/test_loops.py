"""Declared loaders: what may be declared, and what stands for a loop that is not played whole."""

from __future__ import annotations

import pytest

from planguard.capture.batches.loops import Loops
from planguard.capture.groups.recorder import Recorder
from planguard.capture.play.loaders import Loader, read_lengths, shortened, told_ends, unrepeated
from planguard.capture.play.logs import RankLog
from planguard.capture.precheck import precheck
from planguard.errors import UsageError


def test_a_loader_begins_anew_each_time_and_copies_its_samples():
    """Like a DataLoader: a length, the same batches in every epoch, nothing shared between them."""
    recorder = Recorder(0)
    loader = Loader(3, ([1], [2]), recorder)
    seen = [[batch for batch in loader] for _ in range(2)]  # noqa: C416 - a walk, as in an epoch
    assert seen[0] == seen[1] == [[1], [2], [1]]
    assert seen[0][0] is not seen[0][2]
    assert len(loader) == 3
    assert [(one.given, one.ended) for one in recorder.passes] == [(3, True), (3, True)]
    assert __file__ in recorder.passes[0].at


def test_a_loop_that_is_left_has_not_ended_its_loader():
    """An early stop is no end of the data: it is not told as one."""
    recorder = Recorder(0)
    for _ in Loader(3, (), recorder):
        break
    assert [(one.given, one.ended) for one in recorder.passes] == [(1, False)]
    rows = [{"at": "a.py:1", "length": n, "declared": n, "given": 1, "ended": False, "marks": []}
            for n in (3, 2)]  # fmt: skip
    logs = {rank: RankLog(rank, [], {}, passes=[row]) for rank, row in enumerate(rows)}
    assert told_ends(logs, "") == []


@pytest.mark.parametrize("rounds", [1, 2, 3, 7, 12])
def test_shortened_lengths_keep_order_difference_and_remainder(rounds):
    """What a loop counts by a divisor of the bound ends in the same place, and nothing merges."""
    given = [0, 1, rounds, rounds + 1, 10, 99, 100, 101, 1000, 1012]
    found = shortened({"": tuple(given)}, rounds)
    wanted = sorted(set(given))
    assert [found[one] for one in wanted] == sorted({found[one] for one in wanted})
    for length, played in found.items():
        assert played <= length
        assert (length - played) % rounds == 0
        assert length <= rounds or played >= rounds
    assert shortened({"": (5, 900)}, None) == {5: 5, 900: 900}


def loop_log(rounds, *, declared=1000, ended=True):
    """A log whose rounds issue what the strings say, one call a letter."""
    actions = [{"op": letter} for one in rounds for letter in one]
    marks = [sum(map(len, rounds[:n])) for n in range(len(rounds) + 1)]
    row = {"at": "loop.py:3", "length": len(rounds), "declared": declared, "given": len(rounds),
           "ended": ended, "marks": marks}  # fmt: skip
    return RankLog(0, actions, {}, passes=[row])


@pytest.mark.parametrize(
    ("rounds", "bound", "repeats"),
    [
        (["a"] * 6, 6, True),
        (["x", *["a"] * 6], 6, True),  # the first round may differ
        (["a", "ab"] * 3, 6, True),
        (["a", "a", "ab"] * 3, 9, True),
        (["a", "a", "ab"] * 3, 10, False),  # 3 does not divide 10: the rest of the loop shifts
        (["a"] * 5 + ["b"], 6, False),
        (["a"] * 9 + ["ab"], 10, False),
        (["a", "b"], 2, False),
    ],
)
def test_rounds_stand_for_others_only_where_they_repeat(rounds, bound, repeats):
    """Three times the same at the end, with a period that divides the bound."""
    assert (unrepeated(loop_log(rounds), bound) is None) is repeats
    assert unrepeated(loop_log(rounds, declared=len(rounds)), bound) is None  # played whole
    # A loop that is left before the end may be left by its length: it is held to the same.
    assert (unrepeated(loop_log(rounds, ended=False), bound) is None) is repeats


def test_a_shortened_loader_that_is_not_walked_stands_for_nothing():
    """A loop over the numbers of a loader's length has no rounds that could repeat."""
    recorder = Recorder(0)
    assert len(Loader(12, (), recorder, 1000)) == 12
    rows = [vars(one) for one in recorder.passes]
    assert unrepeated(RankLog(0, [], {}, passes=rows), 12) == "a loader that is not walked"
    recorder = Recorder(0)
    list(Loader(12, (), recorder, 1000))
    rows = [vars(one) for one in recorder.passes]
    assert unrepeated(RankLog(0, [], {}, passes=rows), 12) is None


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"steps_per_rank": [10, 9, 8]}, "3 lengths for 2 ranks"),
        ({"steps_per_rank": 10}, "list of lengths"),
        ({"steps_per_rank": [1, -1]}, "list of lengths"),
        ({"steps_per_rank": [1, True]}, "list of lengths"),
        ({"lengths": []}, "list of lengths"),
        ({"lengths": {}}, "no loader"),
        ({"lengths": {3: [1]}}, "no loader"),
        ({"steps_per_rank": [1, 1], "lengths": [1]}, "exclude"),
        ({"rounds": 5}, "none is declared"),
        ({"lengths": [3], "rounds": 0}, "no number of them"),
    ],
)
def test_what_cannot_be_declared_is_refused(options, words):
    """One clear error, before anything is played."""
    with pytest.raises(UsageError, match=words):
        precheck(2, **options)


def test_lengths_and_samples_are_combined():
    """Any rank may have any length with batches of any sample, or of all in turn."""
    loops = Loops.of(2, ("a", "b"), None, {"train": [3, 2], "val": [1]}, None)
    chosen = loops.choose(64)
    assert chosen.samples == 6
    feeds = [loops.supply.give(number, 0) for number in range(6)]
    assert {(tuple(one.lengths.items()), one.samples) for one in feeds} == {
        ((("train", n), ("val", 1)), samples)
        for n in (3, 2)
        for samples in (("a",), ("b",), ("a", "b"))
    }
    by_rank = Loops.of(2, None, [10, 9], None, None)
    assert by_rank.choose(64).total == 1
    assert [by_rank.supply.say(0, rank) for rank in (0, 1)] == ["10 batches", "9 batches"]


def test_lengths_are_read_by_name():
    """A list is the only loader's; a dictionary names them."""
    assert read_lengths([1, 2], "lengths") == {"": (1, 2)}
    assert read_lengths({"train": [1]}, "lengths") == {"train": (1,)}
