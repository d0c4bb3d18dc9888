"""One cause is one finding: consequences are folded, groups are named by their members."""

from __future__ import annotations

from audit_dumps import codes, entry, write

import planguard as pg


def errors(verdict):
    """Codes and ranks of the errors."""
    return [(f.code, f.ranks) for f in verdict.errors]


def test_a_skip_that_only_all_groups_together_show_is_the_cause(tmp_path):
    """Every group calls from one line of a loop: that rank 1 left out a call of group 2 shows
    between its calls on group 1. It is said so, and not that it never reached the last one.
    """
    groups = {"1": [0, 1, 2, 3], "2": [0, 1, 2, 3]}
    for rank in range(4):
        rows, seq = [], {"1": 0, "2": 0}
        for step in range(6):
            for name in ("1", "2"):
                if (rank, step, name) == (1, 2, "2"):
                    continue
                seq[name] += 1
                rows.append(entry(number=len(rows), seq=seq[name], group=name, line=10 + int(name)))
        rows[-1]["state"] = "completed" if rank == 1 else "started"
        write(tmp_path, rank, rows, groups, world=4)
    verdict = pg.audit(tmp_path)
    assert errors(verdict) == [("PG007", (1,))]
    assert "rank 1 left out all_reduce at train.py:12 (#3 of the others)" in (
        verdict.findings[0].message
    )


def test_a_rank_that_just_stops_left_nothing_out(tmp_path):
    """Without calls behind the gap nothing says that a call was left out: it never came."""
    groups = {"1": [0, 1, 2, 3], "2": [0, 1, 2, 3]}
    for rank in range(4):
        rows = [
            entry(number=2 * step + n, seq=step + 1, group=name, line=10 + n)
            for step in range(3)
            for n, name in enumerate(("1", "2"))
        ]
        rows = rows[:5] if rank == 1 else rows
        rows[-1]["state"] = "completed" if rank == 1 else "started"
        write(tmp_path, rank, rows, groups, world=4)
    verdict = pg.audit(tmp_path)
    assert errors(verdict) == [("PG007", (1,))]
    assert "never reached" in verdict.findings[0].message


def test_one_wrong_size_in_four_groups_is_one_error(tmp_path):
    """Ranks 4 to 7 have another size in each of four groups: one finding names them."""
    groups = {str(1 + n): [n, n + 4] for n in range(4)}
    for rank in range(8):
        size = [[8 if rank >= 4 else 4]]
        row = entry(
            number=0,
            seq=1,
            group=str(1 + rank % 4),
            state="started",
            input_sizes=size,
            output_sizes=size,
        )
        write(tmp_path, rank, [row], groups, world=8)
    verdict = pg.audit(tmp_path)
    assert [code for code, _ in errors(verdict)] == ["PG202"]
    assert any("round 1 of group 2" in note for note in verdict.findings[0].notes)


def test_what_waits_behind_a_mismatch_is_no_cause_of_its_own(tmp_path):
    """Ranks 0 and 1 disagree; rank 2 waits for rank 1, rank 3 for rank 2: one error."""
    groups = {"1": [0, 1], "2": [1, 2], "3": [2, 3]}
    calls = {
        0: [("1", "broadcast")],
        1: [("1", "all_reduce")],
        2: [("2", "all_reduce")],
        3: [("3", "all_reduce")],
    }
    for rank, rows in calls.items():
        made = [
            entry(op, number=n, seq=1, group=name, state="started")
            for n, (name, op) in enumerate(rows)
        ]
        write(tmp_path, rank, made, groups, world=4)
    assert [code for code, _ in errors(pg.audit(tmp_path))] == ["PG201"]


def test_stuck_ranks_are_named_with_their_own_groups(tmp_path):
    """Ranks 0 to 3 wait in four groups of two, each for its own partner without a dump."""
    groups = {str(1 + n): [n, n + 4] for n in range(4)}
    for rank in range(4):
        row = entry(number=0, seq=1, group=str(1 + rank), state="started")
        write(tmp_path, rank, [row], groups, world=8)
    message = pg.audit(tmp_path).findings[0].message
    assert "rank 0 is stuck in all_reduce #1 on group 1, waiting for rank 4" in message
    assert "rank 1 is stuck in all_reduce #1 on group 2, waiting for rank 5" in message
    assert "ranks [0-3] are stuck in" not in message


def test_the_first_open_call_is_blamed_and_not_what_is_queued_behind(tmp_path):
    """With three calls open, ranks wait for the missing dump's rank in the first of them."""
    for rank in range(3):
        rows = [entry(number=n, seq=n + 1, state="started" if n else "completed") for n in range(4)]
        write(tmp_path, rank, rows, world=4)
    verdict = pg.audit(tmp_path)
    assert "all_reduce #2" in verdict.findings[0].message
    assert "PG911" in codes(verdict)


def test_two_causes_are_two_findings(tmp_path):
    """A wrong kind on rank 1 and a wrong size on rank 7, in groups apart, are both told."""
    groups = {"1": [0, 1, 2], "2": [5, 6, 7]}
    for rank in range(8):
        size = [[8 if rank == 7 else 4]]
        row = entry(
            "broadcast" if rank == 1 else "all_reduce",
            number=0,
            seq=1,
            group="1" if rank < 3 else "2",
            state="started",
            line=3 if rank < 3 else 9,
            input_sizes=size,
            output_sizes=size,
        )
        write(tmp_path, rank, [row] if rank in (0, 1, 2, 5, 6, 7) else [], groups, world=8)
    assert errors(pg.audit(tmp_path)) == [("PG201", (1,)), ("PG202", (7,))]
