"""Dumps of two backends of one rank, gloo's and NCCL's, are joined: both tell of that rank."""

from __future__ import annotations

import pytest
from audit_dumps import codes, entry, write

import planguard as pg

GLOO = {"profiling_name": "gloo:all_reduce", "state": "scheduled", "retired": True}
WAITS = {**GLOO, "retired": False}


def gloo(folder, rank, rows, group="1"):
    """Write the dump of gloo's recorder, which names no members."""
    calls = [
        entry(number=n, seq=n + 1, group=group, time_created_ns=time, **row)
        for n, (time, row) in enumerate(rows)
    ]
    config = {"": {"name": "", "desc": "", "ranks": "[]"}}
    sub = folder / "gloo"
    sub.mkdir(parents=True, exist_ok=True)
    write(sub, rank, calls, pg_config=config)


def nccl(folder, rank, rows, **more):
    """Write the dump of NCCL's recorder."""
    calls = [
        entry(number=n, seq=n + 1, time_created_ns=time, **row)
        for n, (time, row) in enumerate(rows)
    ]
    sub = folder / "nccl"
    sub.mkdir(parents=True, exist_ok=True)
    write(sub, rank, calls, **more)


DONE, OPEN = {"state": "completed"}, {"state": "started"}
T = 1_700_000_000_000_000_000
S = 1_000_000_000


@pytest.mark.parametrize("is_gloo", [True, False], ids=["gloo", "nccl"])
@pytest.mark.parametrize("group", ["1", "0"], ids=["two groups", "one group of two backends"])
def test_a_hang_in_the_group_of_either_backend_is_found(is_gloo, group, tmp_path):
    """Rank 1 did not come to a round of the one backend; of the other one all calls ended."""
    for rank in (0, 1):
        late = [(T + 9 * S, {})] if rank == 0 else []
        first = [(T + n * S, {}) for n in range(3)]
        mine = [(time, {**GLOO, **row}) for time, row in first]
        mine += [(time, WAITS) for time, _ in late] if is_gloo else []
        other = [(time + 1, DONE) for time, _ in first]
        other += [(time, OPEN) for time, _ in late] if not is_gloo else []
        gloo(tmp_path, rank, mine, group)
        nccl(tmp_path, rank, other)
    verdict = pg.audit(tmp_path)
    assert verdict.outcome.name == "DEADLOCK"
    assert (codes(verdict)[0], verdict.findings[0].ranks) == ("PG007", (1,))
    assert "all_reduce #4" in verdict.findings[0].message
    assert "evidence: medium" in str(verdict.findings[0].notes)


def test_ranks_that_wait_for_each_other_on_two_backends(tmp_path):
    """Rank 0 stands in a call of gloo, rank 1 in one of NCCL: only both dumps show the cycle."""
    for rank in (0, 1):
        gloo(tmp_path, rank, [(T, GLOO), *([(T + S, WAITS)] if rank == 0 else [])])
        nccl(tmp_path, rank, [(T, DONE), *([(T + S, OPEN)] if rank == 1 else [])])
    verdict = pg.audit(tmp_path)
    assert codes(verdict)[0] == "PG004"


def test_rounds_of_two_backends_of_one_group_are_two_rows(tmp_path):
    """The first round of gloo is an all_reduce, that of NCCL a broadcast: no mismatch, although
    the ranks issue them in another order.
    """
    for rank in (0, 1):
        gloo(tmp_path, rank, [(T + rank * S, GLOO)], "0")
        broadcast = {**DONE, "profiling_name": "nccl:broadcast"}
        nccl(tmp_path, rank, [(T + (1 - rank) * S, broadcast)])
    assert not {code for code in codes(pg.audit(tmp_path)) if code.startswith("PG2")}


def test_an_early_dump_of_one_backend_is_no_earlier_run(tmp_path):
    """Gloo was used at the start only, for rounds of the numbers that NCCL's have later."""
    for rank in (0, 1):
        gloo(tmp_path, rank, [(T + n, GLOO) for n in range(5)], "0")
        nccl(tmp_path, rank, [(T + (60 + n) * S, DONE) for n in range(4)])
    verdict = pg.audit(tmp_path)
    assert verdict.model == "nccl"
    assert verdict.stats.actions == 18
    assert not any("earlier run" in note.message for note in verdict.approximations)


def test_two_dumps_of_each_backend_are_one_of_each(tmp_path):
    """Of each backend the later dump counts, and a rank of which one is missing is not lost."""
    for rank in (0, 1):
        for last in (3, 4):
            rows = [(T + n * S, DONE) for n in range(last)]
            nccl(tmp_path / str(last), rank, rows)
            if rank == 0:
                gloo(tmp_path / str(last), rank, [(T + n * S + 1, GLOO) for n in range(last)])
    verdict = pg.audit(tmp_path)
    assert verdict.stats.actions == 12
    assert sum("several dumps of one run" in n.message for n in verdict.approximations) == 1
