"""An all_to_all may be uneven; what is given and what is taken must still be the same."""

from __future__ import annotations

import pytest
from audit_dumps import codes, entry, write
from test_audit_logs import caught, status

import planguard as pg
from planguard.audit.rounds.exchanges import unequal
from planguard.audit.rounds.rounds import Rounds
from planguard.recording import Call, Observed, Progress, RankRecord, RecordedGroup, Recording

FITS = [(100, 137), (137, 100), (174, 155), (211, 230)]
WRONG = [*FITS[:3], (211, 229)]


def dumps(folder, sizes, *, open_on=(0, 1, 2, 3), op="all_to_all", ranks=None):
    """Dumps of ranks that stand in the second of two all_to_alls."""
    for rank, (into, out) in enumerate(sizes):
        if ranks is not None and rank not in ranks:
            continue
        rows = [
            entry(op, number=n, seq=n + 1, input_sizes=[[a, 64]], output_sizes=[[b, 64]])
            for n, (a, b) in enumerate([FITS[rank], (into, out)])
        ]
        rows[-1]["state"] = "started" if rank in open_on else "completed"
        write(folder, rank, rows, world=len(sizes))


def test_sums_that_differ_are_a_mismatch_of_which_nobody_is_blamed(tmp_path):
    """Somebody takes what nobody gives: the hang is explained, and all members are named."""
    dumps(tmp_path, WRONG)
    verdict = pg.audit(tmp_path)
    assert verdict.outcome.name == "MISMATCH"
    first = verdict.findings[0]
    assert (first.code, first.ranks) == ("PG206", (0, 1, 2, 3))
    assert "round 2 of group" in first.message
    assert "give 39,808 elements and take 39,744" in first.message
    assert any("nobody is blamed" in note for note in first.notes)
    assert "PG502" not in codes(verdict)


@pytest.mark.parametrize(
    "case", ["sums fit", "one is not there", "all ended", "another operation", "no sizes"]
)
def test_nothing_is_claimed_where_it_does_not_follow(case, tmp_path):
    """Sums that fit, a member that is not known, a round that ended: no mismatch."""
    if case == "sums fit":
        dumps(tmp_path, FITS)
    elif case == "one is not there":
        dumps(tmp_path, WRONG, ranks=(0, 1, 3))
    elif case == "all ended":
        dumps(tmp_path, WRONG, open_on=())
    elif case == "another operation":
        same = [(8, 8)] * 4
        dumps(tmp_path, same, op="all_reduce")
    else:
        for rank in range(4):
            row = entry("all_to_all", number=0, seq=1, state="started")
            row["input_sizes"] = [] if rank else [[5]]
            write(tmp_path, rank, [row], world=4)
    assert not {code for code in codes(pg.audit(tmp_path)) if code.startswith("PG20")} - {"PG202"}


def test_logs_that_name_whole_tensors_are_compared_too(tmp_path):
    """ALLTOALL_BASE has one tensor on each side; of ALLTOALL old watchdogs count the first."""
    for op, found in (("ALLTOALL_BASE", True), ("ALLTOALL", False)):
        lines = []
        for rank in range(4):
            lines += [caught(rank, 9, op, 100 + rank, 104 - rank), status(rank, 9, 9, 8)]
        (tmp_path / "a.log").write_text("\n".join(lines) + "\n")
        verdict = pg.audit(tmp_path, world_size=4)
        assert ("PG206" in codes(verdict)) is found
        if found:
            assert any(n.startswith("evidence: medium; rests on logs") for n in notes(verdict))


def notes(verdict):
    """The notes of the first finding."""
    return verdict.findings[0].notes


@pytest.mark.parametrize(("taken", "found"), [(3, None), (2, ((2, 0), 3, 2))])
def test_where_parts_are_told_the_pair_is_named(taken, found):
    """Rank 2 gives three rows to rank 0; the group has its members in another order."""
    gives = {0: (1, 1, 1), 1: (1, 1, 1), 2: (1, 1, 3)}
    takes = {0: (1, taken, 1), 1: (1, 1, 1), 2: (1, 1, 1)}
    order = (1, 2, 0)
    ranks = {}
    for rank in order:
        call = Call(
            "all_to_all_single",
            "ep",
            shape=(2 * sum(gives[rank]), 2 * sum(takes[rank])),
            in_splits=gives[rank],
            out_splits=takes[rank],
        )
        ranks[rank] = RankRecord(rank, [Observed(call, 1, Progress.STARTED)], kind="clog")
    group = RecordedGroup("ep", order, order)
    told = list(unequal(Rounds(Recording(3, ranks, {"ep": group}))))
    assert [(one.ranks, one.given // 2, one.taken // 2) for one in told] == (
        [] if found is None else [found]
    )
