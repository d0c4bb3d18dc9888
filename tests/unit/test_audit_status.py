"""What a dump's ``pg_status`` counts, against the entries that it holds."""

from __future__ import annotations

import json

import pytest
from audit_dumps import codes, entry, write

import planguard as pg


def status(enqueued, completed, own="0"):
    """The status of one process group."""
    return {
        own: {
            "last_enqueued_collective": enqueued,
            "last_started_collective": -1,
            "last_completed_collective": completed,
        }
    }


def calls(count, **more):
    """Entries of the default group, all completed, in the form of torch 2.13."""
    return [
        entry(number=n, seq=n + 1, pg_id=0, output_dtypes=["Float"], retired=True, **more)
        for n in range(count)
    ]


def said(verdict):
    """The text of a verdict, without its line breaks."""
    return " ".join(str(verdict).split())


def ended(tmp_path, mine, rows=None, others=(4, 4)):
    """Two ranks whose entries all ended, and the status of rank 1."""
    write(tmp_path, 0, calls(4), pg_status=status(*others))
    write(tmp_path, 1, calls(4) if rows is None else rows, pg_status=mine)
    return pg.audit(tmp_path)


def test_a_status_that_fits_its_entries_is_safe(tmp_path):
    """Nothing was enqueued beyond what the entries show, also where it counts nothing at all."""
    for mine in (status(4, 4), status(-1, -1), {}, {"0": "odd"}, {"0": {}}, [1]):
        assert ended(tmp_path, mine).safe, mine


@pytest.mark.parametrize("done", [4, 5])
def test_a_call_that_only_the_status_counts_is_never_safe(done, tmp_path):
    """Rank 1 enqueued #5, whose entry was lost: it is not known what it was, or how it ended."""
    verdict = ended(tmp_path, status(5, done))
    assert verdict.unknown
    at_end = "#5 was enqueued on group world, and its entries of that group end at #4"
    assert at_end in said(verdict)
    assert "PG912" in codes(verdict)


def test_what_only_the_status_counts_has_been_reached(tmp_path):
    """Rank 0 stands in #5, which rank 1 enqueued by its status: nobody says that it never came."""
    open_call = entry(number=4, seq=5, pg_id=0, state="started", output_dtypes=["Float"])
    write(tmp_path, 0, [*calls(4), open_call], pg_status=status(5, 4))
    write(tmp_path, 1, calls(4), pg_status=status(5, 4))
    verdict = pg.audit(tmp_path)
    assert verdict.unknown
    assert "never reached" not in said(verdict)
    assert "PG502" in codes(verdict)


def test_a_call_that_the_status_has_not_seen_end_is_never_safe(tmp_path):
    """All entries ended, and the watchdog counted #4 as enqueued and #3 as the last to complete."""
    verdict = ended(tmp_path, status(4, 3))
    assert verdict.unknown
    assert not verdict.errors
    assert "#3 was the last to complete on group world, and #4 was enqueued" in said(verdict)


def test_a_group_of_which_only_the_status_tells_is_never_safe(tmp_path):
    """The entries of its second process group were lost."""
    verdict = ended(tmp_path, status(4, 4) | status(7, 7, "1"))
    assert verdict.unknown
    assert "process group 1 enqueued #7, and it has no entry of that group" in said(verdict)


def test_messages_and_collectives_share_the_status_of_their_group(tmp_path):
    """The last call was a message, whose number is its own; the status is of whichever was last."""
    rows = [
        [*calls(4), entry(op, number=4, seq=1, pg_id=0, collective_seq_id=4)]
        for op in ("send 0->1", "recv 1<-0")
    ]
    for rank, (enqueued, completed) in enumerate([(1, 1), (1, 4)]):
        write(tmp_path, rank, rows[rank], pg_status=status(enqueued, completed))
    assert pg.audit(tmp_path).safe


def test_process_groups_are_known_by_their_numbers(tmp_path):
    """``pg_status`` names no groups: entries say which process group theirs is."""
    for rank in range(2):
        rows = [
            entry(number=n, seq=n + 1, pg_id=3, group="tp", output_dtypes=["Float"])
            for n in range(2)
        ]
        top = {"pg_status": status(2, 2, "3")}
        write(tmp_path, rank, [*rows, *calls(0)], {"tp": [0, 1]}, **top)
    assert pg.audit(tmp_path).safe
    write(tmp_path, 1, rows, {"tp": [0, 1]}, pg_status=status(3, 2, "3"))
    assert "#3 was enqueued on group tp" in said(pg.audit(tmp_path))


def test_the_status_of_gloo_counts_messages_that_have_no_entries(tmp_path):
    """Between two collectives a message went: the number of the last is no lost entry."""
    rows = [
        entry(number=n, seq=n + 1, pg_id=0, profiling_name="gloo:all_reduce", retired=True)
        for n in range(2)
    ]
    for rank in range(2):
        write(tmp_path, rank, rows, pg_status=status(3, 3))
    assert "was enqueued" not in said(pg.audit(tmp_path))


def test_the_status_of_json_counts_as_well(tmp_path):
    """JSON writes the numbers as text."""
    ended(tmp_path, {})
    rows = [one | {"process_group": list(one["process_group"])} for one in calls(4)]
    told = {"0": {name: str(value) for name, value in status(5, 4)["0"].items()}}
    config = {"0": {"desc": "default_pg", "ranks": "[0, 1]"}}
    dump = {"version": "2.10", "pg_config": config, "pg_status": told, "entries": rows}
    (tmp_path / "rank_1").write_text(json.dumps(dump))
    assert "#5 was enqueued" in said(pg.audit(tmp_path))
