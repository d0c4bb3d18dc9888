"""Files as people find them: UTF-16 of Windows, a quoted issue, nothing but torchrun's summary."""

import codecs

import pytest

import planguard as pg
from planguard import Outcome

SAID = (
    "[rank{rank}]:[E1119 10:04:11.1 ProcessGroupNCCL.cpp:629] [Rank {rank}] Watchdog caught "
    "collective operation timeout: WorkNCCL(SeqNum=19, OpType=ALLREDUCE, NumelIn={size}, "
    "NumelOut={size}, Timeout(ms)=600000) ran for 600050 milliseconds before timing out."
)
LINES = [SAID.format(rank=rank, size=1024 if rank == 3 else 2048) for rank in range(4)]
SUMMARY = """\
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
train.py FAILED
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-11-19_10:05:12
  host      : node-a
  rank      : 1 (local_rank: 1)
  exitcode  : {code} (pid: 4001)
  error_file: {kept}
  traceback : {said}
============================================================
"""
TRACE = """Traceback (most recent call last):
    File "train.py", line 77, in main
      y = batch["labels"]
  {error}
"""


def found(verdict):
    """Statements about the job, without what is missing."""
    return [(one.code, one.ranks, one.severity) for one in verdict.findings if one.code < "PG9"]


@pytest.mark.parametrize("order", ["utf-16-le", "utf-16-be", "utf-8"])
def test_a_byte_order_mark_says_how_a_text_is_read(order, tmp_path):
    """A log that PowerShell wrote says what the same log in UTF-8 says."""
    mark = {"utf-16-le": codecs.BOM_UTF16_LE, "utf-16-be": codecs.BOM_UTF16_BE}
    head = mark.get(order, codecs.BOM_UTF8)
    (tmp_path / "log.txt").write_bytes(head + ("\r\n".join(LINES) + "\r\n").encode(order))
    assert found(pg.audit(tmp_path)) == [("PG202", (3,), "warning")]


def test_half_a_character_at_the_end_is_no_error(tmp_path):
    """A log in UTF-16 that was cut within a character."""
    cut = codecs.BOM_UTF16_LE + ("\n".join(LINES) + "\n").encode("utf-16-le") + b"\n"
    (tmp_path / "log.txt").write_bytes(cut)
    assert found(pg.audit(tmp_path)) == [("PG202", (3,), "warning")]


def test_notes_are_read_where_nothing_else_is(tmp_path):
    """An issue as Markdown is evidence by itself; beside a log it may quote another incident."""
    (tmp_path / "issue.md").write_text("It hangs:\n\n" + "".join(f"> {one}\n" for one in LINES))
    assert found(pg.audit(tmp_path)) == [("PG202", (3,), "warning")]
    (tmp_path / "run.log").write_text("".join(f"{one}\n" for one in LINES[:1]))
    assert [code for code, *_ in found(pg.audit(tmp_path))] == ["PG502"]


@pytest.mark.parametrize(
    ("code", "kept", "said", "answer"),
    [
        (1, "/job/error.json", TRACE.format(error="KeyError: 'labels'"), "KeyError: 'labels'"),
        (1, "/job/error.json", TRACE.format(error="RuntimeError: NCCL timeout"), None),
        (1, "<N/A>", "To enable traceback see: https://pytorch.org/docs", None),
        (-6, "<N/A>", "Signal 6 (SIGABRT) received by PID 4001", None),
        (-9, "<N/A>", "Signal 9 (SIGKILL) received by PID 4001", "ended by SIGKILL"),
    ],
)
def test_the_summary_of_torchrun_alone(code, kept, said, answer, tmp_path):
    """It names the first failure: an error of its own is a hint; a victim's end says nothing."""
    (tmp_path / "torchrun.log").write_text(SUMMARY.format(code=code, kept=kept, said=said))
    verdict = pg.audit(tmp_path)
    assert verdict.outcome is Outcome.UNKNOWN
    assert found(verdict) == ([("PG506", (1,), "warning")] if answer else [])
    assert answer is None or answer in verdict.findings[0].message


def test_an_error_that_was_caught_is_no_crash(tmp_path):
    """Behind the traceback the rank went on."""
    trace = TRACE.format(error="").replace("    File", "  File") + "ValueError: bad sample\n"
    rows = "".join(f"[rank0]:{row}\n" for row in trace.splitlines() if row.strip())
    (tmp_path / "train.log").write_text(rows)
    assert found(pg.audit(tmp_path)) == [("PG506", (0,), "error")]
    (tmp_path / "train.log").write_text(rows + "[rank0]:step 122/5000 | loss: 7.93\n")
    assert found(pg.audit(tmp_path)) == []
