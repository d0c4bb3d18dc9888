"""A communicator that not everybody came to create: what the logs of NCCL say of that."""

from __future__ import annotations

import pytest

from planguard import audit
from planguard.verdict import Outcome
from planguard.words import name_ranks


def _line(rank, state, size=4, identity="0xfeed"):
    """A line of NCCL 2.2x, as ``ncclCommInitRankDev`` writes it."""
    return (
        f"h:10{rank}:10{rank} [{rank}] NCCL INFO ncclCommInitRankConfig comm 0xa{rank} rank {rank} "
        f"nranks {size} cudaDev {rank} nvmlDev {rank} busId 1b000 commId {identity} - Init {state}"
    )


STACK = """Process 99: python train.py
Thread 99 (idle): "MainThread"
    load (data.py:12)
    <module> (train.py:3)
"""


def _write(folder, logs):
    for name, lines in logs.items():
        (folder / name).write_text(lines if isinstance(lines, str) else "\n".join(lines) + "\n")
    return audit(str(folder))


def _codes(verdict):
    return {one.code: one for one in verdict.findings}


def test_a_rank_of_which_a_stack_is_here_did_not_come(tmp_path):
    """Three ranks began the creation; the stack of the fourth is elsewhere: it is named."""
    logs = {f"rank{r}.log": [_line(r, "START")] for r in range(3)}
    verdict = _write(tmp_path, {**logs, "rank_3.txt": STACK})
    found = _codes(verdict)["PG007"]
    assert found.ranks == (3,)
    assert "did not come to the creation of a communicator of 4 ranks" in found.message
    assert found.certainty == "heuristic"
    assert verdict.outcome is Outcome.UNKNOWN


@pytest.mark.parametrize("is_one_file", [True, False])
def test_of_a_rank_without_evidence_it_is_not_said_that_it_did_not_come(tmp_path, is_one_file):
    """A log that is not here is no rank that did not come: nobody is blamed."""
    lines = [_line(r, "START") for r in range(3)]
    logs = {"job.log": lines} if is_one_file else {f"rank{r}.log": [lines[r]] for r in range(3)}
    verdict = _write(tmp_path, logs)
    found = _codes(verdict)
    assert "PG007" not in found
    assert found["PG501"].ranks == ()
    assert "not everybody came" in found["PG501"].message
    assert verdict.outcome is Outcome.UNKNOWN


def test_where_all_came_nobody_is_missing(tmp_path):
    """Everybody began it and nobody ended it: the network, not a rank."""
    found = _codes(_write(tmp_path, {"job.log": [_line(r, "START") for r in range(4)]}))
    assert "everybody came" in found["PG502"].message
    assert "PG007" not in found


def test_a_creation_that_one_rank_ended_had_everybody(tmp_path):
    """One ``COMPLETE`` shows that all had come: whoever did not write his was cut off."""
    lines = [_line(0, "START"), _line(1, "START"), _line(0, "COMPLETE")]
    found = _codes(_write(tmp_path, {"job.log": [*lines, *[STACK]]}))
    assert not {"PG007", "PG501", "PG502"} & set(found)


def test_places_of_a_smaller_communicator_blame_nobody(tmp_path):
    """Of another communicator than the largest a place is no rank of the job."""
    world = [_line(r, state) for r in range(4) for state in ("START", "COMPLETE")]
    tp = [_line(0, "START", 2, "0xbeef")]
    found = _codes(_write(tmp_path, {"job.log": [*world, *tp]}))
    assert found["PG501"].ranks == ()
    assert "communicator of 2 ranks" in found["PG501"].message


def test_whoever_raised_an_error_is_the_cause_and_the_others_wait(tmp_path):
    """An error of a rank explains why the creation did not end."""
    error = (
        "[rank3]: Traceback (most recent call last):\n"
        '[rank3]:   File "/w/train.py", line 9, in main\n[rank3]:     load()\n'
        "[rank3]: ValueError: no such file\n"
    )
    logs = {f"rank{r}.log": [_line(r, "START")] for r in range(3)}
    found = _codes(_write(tmp_path, {**logs, "rank3.log": error}))
    assert found["PG506"].ranks == (3,)
    assert f"waiting: {name_ranks([0, 1, 2])} in communication" in found["PG506"].notes


def _split(rank, place, color, size=2):
    """The beginning of a split, as ``ncclCommInitRankFunc`` of NCCL 2.27 writes it."""
    return (
        f"h:10{rank}:10{rank} [{rank}] NCCL INFO ncclCommSplit comm 0xb{rank} rank {place} nranks "
        f"{size} cudaDev {rank} nvmlDev {rank} busId 1b000 parent 0xa{rank} splitCount 1 color "
        f"{color} key {rank}- Init START"
    )


def test_who_came_to_no_part_of_a_split_is_named(tmp_path):
    """Three of four ranks came to two parts of two: the place that is left is the fourth's."""
    lines = [_line(r, "COMPLETE") for r in range(4)]
    lines += [_split(0, 0, 7), _split(1, 1, 7), _split(2, 0, 8)]
    verdict = _write(tmp_path, {"nccl.log": lines})
    found = _codes(verdict)["PG007"]
    assert found.ranks == (3,)
    assert "rank 3 did not come to the creation of a communicator of 2 ranks" in found.message
    assert found.certainty == "heuristic"


@pytest.mark.parametrize(
    "rows",
    [
        pytest.param([_split(0, 0, 7), _split(2, 0, 8)], id="two parts lack somebody"),
        pytest.param([_split(0, 0, 7), _split(1, 1, 7)], id="a part of which nobody came"),
        pytest.param([_split(0, 0, 7, 3), _split(1, 1, 7, 3)], id="a part that leaves one out"),
    ],
)
def test_who_came_to_no_part_is_not_guessed(rows, tmp_path):
    """Which part a rank is due in follows only where one part alone lacks somebody."""
    verdict = _write(tmp_path, {"nccl.log": [_line(r, "COMPLETE") for r in range(4)] + rows})
    assert "PG007" not in _codes(verdict)
