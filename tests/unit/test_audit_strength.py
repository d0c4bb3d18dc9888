"""Every statement of an audit says how strong it is and what it rests on; what is weak is none."""

from __future__ import annotations

import pytest
from audit_dumps import entry, write
from test_audit_logs import behind, caught, status
from test_audit_reading import LOADING, spy

import planguard as pg


def told(verdict):
    """The evidence note of the first finding."""
    classes = ("evidence: strong", "evidence: medium", "evidence: weak")
    (note,) = [n for n in verdict.findings[0].notes if n.startswith(classes)]
    return note


def dumps(tmp_path, ranks=(0, 1)):
    """Dumps of ranks that wait in the second round, of a job of three."""
    for rank in ranks:
        rows = [entry(number=0, seq=1), entry(number=1, seq=2, state="started")]
        write(tmp_path, rank, rows, world=3)


def test_dumps_of_everybody_are_medium(tmp_path):
    """All who could contradict agree; by the times of the files they wait for ten minutes."""
    dumps(tmp_path)
    write(tmp_path, 2, [entry(number=0, seq=1)], world=3)
    verdict = pg.audit(tmp_path)
    assert verdict.errors
    assert told(verdict).startswith("evidence: medium, since it was made 600 s before")
    assert "rests on dumps of ranks [0-2]" in told(verdict)


def test_words_of_ranks_are_medium(tmp_path):
    """What watchdogs counted themselves is medium, and may be certain."""
    (tmp_path / "a.log").write_text("\n".join(behind()) + "\n")
    verdict = pg.audit(tmp_path)
    assert verdict.errors
    assert told(verdict).startswith("evidence: medium")
    assert "rests on logs of ranks" in told(verdict)


def test_a_stack_beside_dumps_is_medium(tmp_path):
    """Those who wait left dumps; where the missing rank is, only a stack says."""
    dumps(tmp_path)
    (tmp_path / "stack.rank2.txt").write_text(spy(7, LOADING))
    verdict = pg.audit(tmp_path)
    assert told(verdict).startswith("evidence: medium")
    assert "stacks of rank 2 and dumps of ranks 0 and 1" in told(verdict)


def test_stacks_alone_are_weak_and_state_nothing(tmp_path):
    """From one moment nothing follows with certainty."""
    inside = LOADING.replace("train.py:16", "train.py:30")
    for rank in range(3):
        (tmp_path / f"stack.rank{rank}.txt").write_text(spy(7 + rank, inside))
    verdict = pg.audit(tmp_path)
    assert verdict.unknown
    assert not verdict.errors


def test_an_assumption_makes_a_statement_weak(tmp_path):
    """A log that does not print its group is read by an assumption, which the evidence names."""
    lines = [caught(rank, 11, version="2.1") for rank in (0, 1)]
    (tmp_path / "a.log").write_text("\n".join(lines) + "\n")
    verdict = pg.audit(tmp_path)
    assert not verdict.errors
    assert "strong" not in told(verdict)


@pytest.mark.parametrize("group", ["0(default_pg)", "5(mesh_tp)"])
def test_one_line_of_a_watchdog_says_what_to_collect(group, tmp_path):
    """Group, operation, round, who is behind, and the command that shows more."""
    lines = [caught(3, 11), status(3, 11, 12, 10, group)]
    (tmp_path / "a.log").write_text("\n".join(lines) + "\n")
    finding = pg.audit(tmp_path).findings[0]
    assert finding.code == "PG501"
    assert "rank 3 is stuck in all_reduce #11 on group " in finding.message
    assert "waiting for ranks [0-2] without a dump" in finding.message
    assert any("py-spy dump --pid PID > rank_0.txt" in note for note in finding.notes)


def test_every_statement_has_a_class(tmp_path):
    """No finding about a hang goes without its class, and none that is weak is an error."""
    dumps(tmp_path)
    (tmp_path / "a.log").write_text("\n".join(behind(late=1)) + "\n")
    verdict = pg.audit(tmp_path)
    for one in verdict.findings:
        if one.code.startswith(("PG0", "PG2", "PG501")):
            classes = [n.split()[1] for n in one.notes if n.startswith("evidence: ")]
            assert any(c.rstrip(";,") in ("strong", "medium", "weak") for c in classes)
            assert "weak" not in classes or one.severity != "error"


@pytest.mark.parametrize("world", [None, 2])
def test_of_two_ranks_each_is_the_other_ones_peer(world, tmp_path):
    """Two stacks in send: head to head; certain never, and a guess where more ranks may exist."""
    sending = [("/opt/site-packages/torch/distributed/distributed_c10d.py", 2400, "send")]
    for rank in range(2):
        rows = [f'  File "{f}", line {n} in {name}' for f, n, name in sending]
        text = ["Current thread 0x0001 (most recent call first):", *rows]
        text.append('  File "/w/train.py", line 9 in step')
        (tmp_path / f"stack.rank{rank}.txt").write_text("\n".join(text) + "\n")
    verdict = pg.audit(tmp_path, world_size=world)
    assert (verdict.findings[0].code, verdict.findings[0].ranks) == ("PG001", (0, 1))
    assert verdict.unknown
    assert not verdict.errors
    assert told(verdict).startswith("evidence: weak")
    assert ("taken for the other's peer" in told(verdict)) is (world is None)


def test_the_lost_end_of_a_rank_lowers_who_waits_for_a_message(tmp_path):
    """PG208 rests on what a rank did not do: with the end of its record lost nothing is certain."""
    from planguard.audit.findings.strength import graded
    from planguard.audit.readers.part import DOUBT, LOST_END
    from planguard.execution.findings.cause import make_finding
    from planguard.recording import Gap, Recording

    dumps(tmp_path)
    made = [make_finding(code, "x", evidence="T", help="") for code in ("PG208", "PG201", "PG503")]
    for kind, certain in ((LOST_END, [False, True, True]), (DOUBT, [False] * 3)):
        recording = Recording(2, {}, gaps=(Gap(kind, "why", "PG912"),))
        assert [f.severity == "error" for f in graded(made, recording)] == certain


def test_what_a_log_says_of_others_counts_beside_a_dump_of_its_rank(tmp_path):
    """Rank 0 left a dump of a finished round, and its log says who did not come afterwards."""
    from test_audit_stalls import HOROVOD

    for rank in (0, 1):
        write(tmp_path, rank, [entry(number=0, seq=1)], world=2)
    (tmp_path / "log.rank0.err").write_text(f"{HOROVOD}\nMissing ranks:\n1: [grad.3]\n")
    verdict = pg.audit(tmp_path)
    assert verdict.unknown
    assert ("PG007", (1,)) in [(f.code, f.ranks) for f in verdict.findings]
