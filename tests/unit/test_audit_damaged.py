"""Evidence that is cut, damaged, or says less than it seems to: nothing is concluded from it."""

from __future__ import annotations

import gzip

import pytest
from test_audit_logs import caught, signal, status

import planguard as pg

WAIT = "".join(f"{caught(r, 1234)}\n{status(r, 1234, 1240, 1233)}\n" for r in (0, 1))
TRACE = (
    "Traceback (most recent call last):\n"
    '  File "/w/data.py", line 3, in get\n'
    '    raise ValueError("bad sample")\n'
    "ValueError: bad sample\n"
)
GOES_ON = "[2026-11-19 09:51:12] iteration 7/ 5000 | elapsed |\n"


def clog(rank, calls=1):
    """A log of ClogHook without states."""
    sig = "C0|sig|all_reduce|in_count=4|out_count=4|dtype=float32|red_op=SUM|async_op=0|comm=main"
    made = f"new_comm|comm=main|rank={rank}|world_size=2"
    queued = [f"C0|Q|work_id={number}|+1.{number}" for number in range(calls)]
    return "\n".join(["V|1|base_timestamp=1.0", made, sig, *queued]) + "\n"


def test_calls_without_states_are_not_said_to_have_ended(tmp_path):
    """Both ranks enqueued the same call: that it ended is not in the log."""
    for rank in (0, 1):
        (tmp_path / f"rank{rank}.log").write_text(clog(rank))
    verdict = pg.audit(tmp_path)
    assert verdict.unknown
    assert "not that any came to its end" in verdict.findings[0].message


@pytest.mark.parametrize("cut", ["C0|Q|work_id=1", "C1|sig|all_reduce|in_count=4|comm=mai", "C1"])
def test_what_a_cut_log_of_calls_lacks_is_not_missing(cut, tmp_path):
    """Rank 1 may have made the second call behind where its log was cut."""
    (tmp_path / "rank0.log").write_text(clog(0, 2))
    (tmp_path / "rank1.log").write_text(clog(1) + cut)
    verdict = pg.audit(tmp_path)
    assert not verdict.errors
    assert "PG912" in {f.code for f in verdict.findings}


@pytest.mark.parametrize("name", ["last enqueued work: ", "last completed work: "])
def test_a_number_that_the_end_of_a_file_cuts_is_not_taken(name, tmp_path):
    """12 is how 1233 and 1240 begin: nothing is said of a call 12 or 13."""
    text = f"{caught(0, 1234)}\n{status(0, 1234, 1240, 1233)}"
    (tmp_path / "rank0.log").write_text(text[: text.index(name) + len(name) + 2])
    said = " ".join(f.message for f in pg.audit(tmp_path).findings)
    assert "#12 " not in said
    assert "#13 " not in said


@pytest.mark.parametrize("harm", ["cut", "checksum"])
def test_of_a_damaged_archive_the_beginning_is_read(harm, tmp_path):
    """What stands before the damage is used, and who came behind it is not known."""
    data = gzip.compress((WAIT + signal(2, 1233, 1233) + "\n").encode())
    data = data[:-9] if harm == "cut" else data[:-8] + b"\0" * 8
    (tmp_path / "a.log.gz").write_bytes(data)
    verdict = pg.audit(tmp_path)
    assert not verdict.errors
    assert any("1234" in f.message for f in verdict.findings)
    assert "PG912" in {f.code for f in verdict.findings}


@pytest.mark.parametrize("goes_on", [True, False])
def test_an_error_behind_which_a_rank_went_on_did_not_end_it(goes_on, tmp_path):
    """Rank 2 caught the error of a sample and trained on; without that line it ended."""
    (tmp_path / "a.log").write_text(WAIT)
    later = GOES_ON.replace("9:51:12] iteration 7", "9:51:14] iteration 8")
    (tmp_path / "rank2.log").write_text(GOES_ON + TRACE + (later if goes_on else ""))
    said = "PG506" in {f.code for f in pg.audit(tmp_path).findings}
    assert said is not goes_on
