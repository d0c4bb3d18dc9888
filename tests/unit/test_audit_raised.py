"""Recorded runs in which a rank raised: such a run did not come to its end."""

from __future__ import annotations

import planguard as pg
from planguard.capture.run.log import Kind, RunLogWriter


def run(folder, *ranks):
    """Write a log for each rank: its calls, and how it ended. The last call may not return."""
    for rank, (ops, returned, failed) in enumerate(ranks):
        log = RunLogWriter(folder, rank, len(ranks))
        members = log.string(f'"{",".join(map(str, range(len(ranks))))}"')
        for number, op in enumerate(ops):
            fields = {"root": 0, "count": 4, "dtype": "f32"} if op == "broadcast" else {}
            log.call(Kind.CALL, op, work=0, group=members, stack=0, batch=0, fields=fields)
            if returned or number + 1 < len(ops):
                log.small(Kind.DONE, 0)
        log.end(failed=failed)
    return pg.audit(folder)


def said(verdict):
    """All that a verdict says."""
    return " ".join(f.message + " ".join(f.notes) for f in verdict.findings)


def test_a_call_that_raised_was_not_completed(tmp_path):
    """Rank 0 raised inside a broadcast that rank 1 never made: rank 1 left without it."""
    verdict = run(tmp_path, (["barrier", "broadcast"], False, True), (["barrier"], True, False))
    assert [(f.code, f.ranks) for f in verdict.errors] == [("PG006", (1,))]
    assert "came to its end" not in said(verdict)


def test_a_run_that_raised_elsewhere_did_not_end_well(tmp_path):
    """Rank 0 raised behind its last call: the run is undecided, it did not come to its end."""
    verdict = run(tmp_path, (["barrier"], True, True), (["barrier"], True, False))
    assert verdict.unknown
    assert (verdict.findings[0].code, verdict.findings[0].ranks) == ("PG506", (0,))
    assert "other execution" not in said(verdict)


def test_a_run_that_came_to_its_end_is_decided(tmp_path):
    """The same calls without an exception are SAFE."""
    assert run(tmp_path, (["barrier"], True, False), (["barrier"], True, False)).safe


def test_what_native_code_waits_for_as_a_rank_raises_was_not_completed(tmp_path):
    """The reducer of DDP waits for two buckets that rank 1 never reduces, and raises: rank 1 left
    without them. It raised as gloo saw the connection closed, and not since a call was done.
    """
    for rank, buckets in enumerate((4, 2)):
        log = RunLogWriter(tmp_path, rank, 2)
        group, library = log.string('"0,1"'), log.string('[["torch/reducer.py", 1, "f", true]]')
        for bucket in range(1, buckets + 1):
            more = {"batch": 0, "fields": {"count": 4, "dtype": "f32"}}
            log.call(Kind.CALL, "all_reduce", work=bucket, group=group, stack=library, **more)
            log.small(Kind.UNSEEN, bucket)
            if bucket == 2:
                log.small(Kind.BACKWARD, 0)
        log.end(failed=not rank)
    verdict = pg.audit(tmp_path)
    assert [(f.code, f.ranks) for f in verdict.errors] == [("PG006", (1,))]
    assert "completed" not in said(verdict)


def test_a_handle_that_nobody_came_to_wait_for_is_no_place_to_stand_in(tmp_path):
    """Rank 1 issued an all_reduce that it would have waited for, and raised before that. Rank 0
    completed it, and stands in a barrier that rank 1 never makes: no recording ends too early.
    """
    for rank in range(2):
        log = RunLogWriter(tmp_path, rank, 2)
        group, library = log.string('"0,1"'), log.string('[["torch/reducer.py", 1, "f", true]]')
        more = {"batch": 0, "stack": library, "fields": {"count": 4, "dtype": "f32"}}
        log.call(Kind.CALL, "all_reduce", work=1, group=group, **more)
        if rank == 0:
            log.small(Kind.WAIT, 1)
            log.small(Kind.DONE, 1)
            log.call(Kind.CALL, "barrier", work=2, group=group, batch=0, stack=library, fields={})
            log.small(Kind.WAIT, 2)
        log.end(failed=True)
    verdict = pg.audit(tmp_path)
    assert [(f.code, f.ranks) for f in verdict.errors] == [("PG009", (1,))]
    assert "different moments" not in " ".join([said(verdict), *verdict.reasons])
