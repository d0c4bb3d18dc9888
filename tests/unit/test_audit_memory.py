"""Memory that ran out, by a line without a traceback: who failed, and never for certain."""

from __future__ import annotations

import pytest

import planguard as pg
from planguard.verdict import Outcome

WAITS = (
    "[rank0]:[E1003 18:37:01.832146912 ProcessGroupNCCL.cpp:632] [PG ID 0 PG GUID 0(default_pg) "
    "Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=42, OpType=ALLREDUCE, "
    "NumelIn=1024, NumelOut=1024, Timeout(ms)=600000) ran for 600011 milliseconds before timing "
    "out.\n"
)
WARN = "\nnode1:4001:4050 [1] include/alloc.h:228 NCCL WARN Cuda failure 2 'out of memory'\n"
BARE = "CUDA out of memory. Tried to allocate 2.00 GiB (GPU 1; 79.15 GiB total capacity)\n"
BEGUN = (
    "node1:4001:4050 [1] NCCL INFO ncclCommInitRank comm 0x55d0 rank 1 nranks 2 cudaDev 1 nvmlDev "
    "1 busId 2000 commId 0xabc - Init START\n"
)


def audited(folder, text):
    """Audit a rank that waits, and what the other one printed."""
    (folder / "rank0.log").write_text(WAITS)
    (folder / "rank1.log").write_text(text)
    return pg.audit(folder)


@pytest.mark.parametrize(
    "text", [WARN, BEGUN + WARN, BARE, "iteration 41/ 50 | loss: 2.1\n" + BARE]
)
def test_who_ran_out_of_memory_is_said_to_have_failed_and_not_for_certain(text, tmp_path):
    """A line of NCCL or of the allocator names the rank as the likely one: weak evidence."""
    verdict = audited(tmp_path, text)
    (found,) = [one for one in verdict.findings if one.code == "PG506"]
    assert found.ranks == (1,)
    assert "out of memory" in found.message
    assert any(note.startswith("evidence: weak") for note in found.notes)
    assert verdict.outcome is Outcome.UNKNOWN
    assert not verdict.errors


def test_an_error_behind_which_the_rank_went_on_ended_nobody(tmp_path):
    """A program may catch it, and try a smaller batch: progress behind it shows that."""
    verdict = audited(tmp_path, BARE + WAITS.replace("Rank 0", "Rank 1") + "iteration 7 loss: 2\n")
    assert "PG506" not in {one.code for one in verdict.findings}


def test_a_log_of_all_processes_names_the_one_that_said_it(tmp_path):
    """The process is known by its communicator; that it lacks a call is told beside it."""
    rows = [
        f"h:400{rank}:1 [{rank}] NCCL INFO ncclCommInitRank comm 0xa{rank} rank {rank} nranks 3 "
        f"cudaDev {rank} nvmlDev {rank} busId {rank}000 commId 0xabc - Init COMPLETE"
        for rank in range(3)
    ]
    for number in range(2):
        rows += [
            f"h:400{rank}:1 [{rank}] NCCL INFO AllReduce: opCount {number} sendbuff 0x1 recvbuff "
            f"0x1 count 8 datatype 7 op 0 root 0 comm 0xa{rank} [nranks=3] stream 0x9"
            for rank in range(3 - number)
        ]
    rows += ["", "h:4002:1 [2] include/alloc.h:228 NCCL WARN Cuda failure 2 'out of memory'"]
    (tmp_path / "all.log").write_text("\n".join(rows) + "\n")
    verdict = pg.audit(tmp_path)
    found = {one.code: one for one in verdict.findings}
    assert found["PG506"].ranks == found["PG007"].ranks == (2,)
    assert not verdict.errors


def test_a_word_of_memory_lends_no_certainty_to_what_dumps_show(tmp_path):
    """Dumps show who did not come; that its memory ran out is a hint beside that."""
    from audit_dumps import entry, write

    for rank in range(3):
        rows = [entry(number=n - 1, seq=n) for n in range(1, 4 - (rank == 2))]
        if rank != 2:
            rows[-1]["state"] = "started"
        write(tmp_path, rank, rows, world=3)
    (tmp_path / "rank2.log").write_text(BARE)
    verdict = pg.audit(tmp_path)
    assert [(one.code, one.ranks) for one in verdict.errors] == [("PG007", (2,))]
    (said,) = [one for one in verdict.findings if one.code == "PG506"]
    assert said.severity == "warning"
    assert said.ranks == (2,)
