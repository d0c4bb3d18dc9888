"""Logs of MPI programs that are damaged: one clear error, or a plan that says what was not read."""

from __future__ import annotations

import pytest
from mpi_logs import both, every_kind, named, record, write

import planguard as pg
from planguard.capture.mpi.reading import MAX_RANKS, read_mpi
from planguard.capture.mpi.records import COUNTS, FINALIZE, INFO

END = both(FINALIZE)


def alone(tmp_path, *rows, peer=0, count=1):
    """Read the log of one rank."""
    begin = record(INFO, count=count, peer=peer)
    return read_mpi([write(tmp_path / "mpi-0.pglog", [begin, *rows, END])])


def test_a_log_of_every_kind_of_call_is_read_whole(tmp_path):
    """The samples that fuzzing begins with reach every kind of record, and make a plan."""
    run = read_mpi(every_kind(tmp_path))
    ops = {action["op"] for action in run.document["ranks"]["0"]["actions"]}
    assert {"send", "recv", "isend", "irecv", "probe", "wait", "scan", "all_to_all"} <= ops
    assert run.cut == ()
    pg.load(run.document)


@pytest.mark.parametrize(
    ("peer", "count"), [(0, 1 << 62), (0, MAX_RANKS + 1), (0, 0), (3, 2), (-1, 2)]
)
def test_a_size_or_a_rank_that_no_program_has_is_refused(peer, count, tmp_path):
    """Ranks without end took memory without end; a rank outside of its program has no place."""
    with pytest.raises(pg.PlanError, match="is none of a program"):
        alone(tmp_path, peer=peer, count=count)


def test_a_name_that_is_no_text_is_shown_as_far_as_it_is(tmp_path):
    """Names of functions are bytes of the log: those that are no text were a traceback."""
    run = alone(tmp_path, named(b"MPI_\xff\x1b[1mx"))
    (said,) = {one["message"] for one in run.document["approximations"]}
    assert said.startswith("MPI_")
    assert "\x1b" not in said
    assert "not followed" in said


def test_counts_of_no_side_are_told(tmp_path):
    """A call has counts of what it sends and of what it receives, and no third ones."""
    run = alone(tmp_path, record(COUNTS, comm=4, redop=7, peer=1))
    assert {one["kind"] for one in run.document["approximations"]} == {"not-followed"}


def test_a_barrier_with_a_second_type_is_told(tmp_path):
    """A call without a type on its own side has none to compare with the other one."""
    run = alone(tmp_path, both(125, redop=3))
    (said,) = {one["message"] for one in run.document["approximations"]}
    assert "barrier of rank 0 has no type on one side" in said
