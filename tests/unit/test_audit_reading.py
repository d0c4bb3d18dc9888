"""What an audit reads and what it makes of bad, odd and foreign files; whose part is whose."""

from __future__ import annotations

import gzip
import json
import pickle
import subprocess
import sys

import pytest
from audit_dumps import codes, entry, write

import planguard as pg
from planguard.audit.readers.files import collect
from planguard.cli import main
from planguard.errors import PlanError

SPY = """Process {pid}: python train.py
Python v3.11.7 (/usr/bin/python3.11)

Thread {pid} (idle): "MainThread"
{frames}    <module> (train.py:90)
"""
INSIDE = "    all_reduce (torch/distributed/distributed_c10d.py:3252)\n    step (train.py:30)\n"
LOADING = "    load (train.py:16)\n"


def spy(pid, frames):
    """The text of py-spy for one process."""
    return SPY.format(pid=pid, frames=frames)


def stuck(folder, ranks, world, rounds=3):
    """Dumps of ranks that wait in the last of some rounds."""
    for rank in ranks:
        calls = [entry(number=n, seq=n + 1) for n in range(rounds)]
        calls[-1]["state"] = "started"
        write(folder, rank, calls, world=world)


def first(folder, **options):
    """The first finding of an audit."""
    return pg.audit(folder, **options).findings[0]


@pytest.mark.parametrize(
    "bad",
    [
        b"\x80\x02}q\x00(X\x07\x00\x00\x00vers",
        b"\x80\x02cos\nsystem\n.",
        b'{"version": "2.10", "pg_config": {}, "entries": [',
        b'{"version": "7.1", "pg_config": {}, "entries": []}',
    ],
)
def test_one_bad_dump_does_not_take_the_others_with_it(bad, tmp_path):
    """Seven good dumps are judged; the eighth is missing, and why is told."""
    write(tmp_path, 0, [entry(number=n, seq=n + 1) for n in range(2)], world=8)
    stuck(tmp_path, range(1, 7), 8)
    (tmp_path / "rank_7").write_bytes(bad)
    verdict = pg.audit(tmp_path)
    assert (verdict.findings[0].code, verdict.findings[0].ranks) == ("PG007", (0,))
    told = [f for f in verdict.findings if f.code == "PG911"]
    assert {7} == {rank for f in told for rank in f.ranks}
    assert any("rank_7 is left out" in f.message for f in told)


def test_a_run_with_an_unreadable_dump_is_not_safe(tmp_path):
    """Finished dumps of all ranks and one that cannot be read are UNKNOWN, not SAFE."""
    for rank in (0, 1):
        write(tmp_path, rank, [entry(number=0, seq=1)])
    (tmp_path / "rank_1_again").write_bytes(b"\x80\x02}q\x00(X")
    assert pg.audit(tmp_path).unknown


def test_when_nothing_is_usable_the_first_error_is_the_answer(tmp_path, capsys):
    """A folder of bad dumps only is exit code 2 with the reason."""
    (tmp_path / "rank_0").write_bytes(b"\x80\x02}q\x00(X")
    with pytest.raises(PlanError):
        pg.audit(tmp_path)
    assert main(["audit", str(tmp_path)]) == 2
    told = capsys.readouterr()
    assert "not a readable pickle" in " ".join((told.out + told.err).split())


def test_numbers_that_are_text_are_numbers(tmp_path):
    """The JSON form may write its numbers as text: they mean the same."""
    for rank in (0, 1):
        rows = [entry(number=n, seq=n + 1) for n in range(3 if rank else 2)]
        rows[-1]["state"] = "started" if rank else "completed"
        names = ("record_id", "collective_seq_id", "p2p_seq_id", "op_id", "time_created_ns")
        rows = [{**row, **{name: str(row[name]) for name in names}} for row in rows]
        config = {"0": {"desc": "default_pg", "ranks": "[0, 1]"}}
        dump = {"version": "2.10", "pg_config": config, "entries": rows}
        (tmp_path / f"rank_{rank}.json").write_text(json.dumps(dump))
    finding = first(tmp_path)
    assert (finding.code, finding.ranks) == ("PG007", (0,))


def test_a_log_without_calls_beside_good_dumps_changes_nothing(tmp_path):
    """NCCL INFO lines without one call are told and limit nothing: the run stays SAFE."""
    for rank in (0, 1):
        write(tmp_path, rank, [entry(number=0, seq=1)])
    (tmp_path / "nccl.log").write_text("node:1:2 [0] NCCL INFO Bootstrap : Using eth0\n")
    verdict = pg.audit(tmp_path)
    assert verdict.safe
    assert any("nccl.log is left out" in str(one) for one in verdict.approximations)


def test_names_with_node_and_gpu_are_ranks_of_a_grid_with_a_doubt(tmp_path):
    """Logs called node0-gpu1.err are read; that ranks count node by node is said."""
    text = "Traceback (most recent call last):\n{frames}RuntimeError: Timed out waiting 8000ms\n"
    c10d = '  File "/x/torch/distributed/distributed_c10d.py", line 1, in {call}\n'
    for node in (0, 1):
        for gpu in (0, 1):
            call = "barrier" if (node, gpu) == (1, 0) else "all_reduce"
            frames = '  File "train.py", line 5, in step\n' + c10d.format(call=call)
            (tmp_path / f"node{node}-gpu{gpu}.err").write_text(text.format(frames=frames))
    verdict = pg.audit(tmp_path)
    assert (verdict.findings[0].code, verdict.findings[0].ranks) == ("PG211", (2,))
    assert verdict.findings[0].certainty == "heuristic"
    assert "node and place on the node" in " ".join(str(verdict).split())


def test_a_log_that_says_its_ranks_needs_no_name(tmp_path):
    """Content comes first: dumps by name, and beside them a log whose name says no rank."""
    stuck(tmp_path, (0, 1), 3)
    (tmp_path / "host7-job4711.out").write_text(
        "[rank2]: Traceback (most recent call last):\n"
        '[rank2]:   File "train.py", line 7, in step\n'
        "[rank2]: KeyError: 'lr'\n"
    )
    finding = first(tmp_path)
    assert (finding.code, finding.ranks) == ("PG506", (2,))


def test_a_stack_alone_makes_a_record(tmp_path):
    """A rank of which there is only a stack outside of every call is the one that did not come."""
    stuck(tmp_path, (0, 1), 3)
    (tmp_path / "stack.rank2.txt").write_text(spy(7, LOADING))
    finding = first(tmp_path)
    assert (finding.code, finding.ranks) == ("PG007", (2,))
    assert any("rank 2 at train.py:16" in note for note in finding.notes)
    assert any("medium" in note for note in finding.notes)


def test_a_stack_inside_a_call_blames_nobody(tmp_path):
    """A rank whose stack stands in some all_reduce may stand in that very round."""
    stuck(tmp_path, (0, 1), 3)
    (tmp_path / "stack.rank2.txt").write_text(spy(7, INSIDE))
    finding = first(tmp_path)
    assert (finding.code, finding.certainty) == ("PG501", "heuristic")
    assert any("inside all_reduce" in note for note in finding.notes)


def threads(pid, names):
    """What ``py-spy dump --json`` prints for one process."""
    files = {"all_reduce": "torch/distributed/distributed_c10d.py"}
    frames = [{"name": n, "filename": files.get(n, "train.py"), "line": 9} for n in names]
    return [{"pid": pid, "thread_id": 1, "thread_name": "MainThread", "frames": frames}]


def test_py_spy_json_is_read(tmp_path):
    """The array that ``py-spy dump --json`` prints tells where the rank stands."""
    for rank in range(3):
        names = ["load"] if rank == 1 else ["all_reduce", "step"]
        (tmp_path / f"rank{rank}.json").write_text(json.dumps(threads(rank, [*names, "<module>"])))
    finding = first(tmp_path)
    assert (finding.code, finding.ranks, finding.severity) == ("PG007", (1,), "warning")


@pytest.mark.parametrize("noise", [100, 5_000, 2_000_000])
def test_a_stack_is_found_wherever_it_stands(noise, tmp_path):
    """Stacks behind much other output are recognized: the whole file is looked at."""
    for rank in range(3):
        text = "iteration 1 | loss 2.5\n" * (noise // 22) + spy(
            rank, LOADING if rank == 1 else INSIDE
        )
        (tmp_path / f"rank{rank}.log").write_text(text)
    assert first(tmp_path).ranks == (1,)


def test_one_file_with_the_stacks_of_all_ranks_is_a_part_a_process(tmp_path):
    """Sections of the debug server name their ranks."""
    text = "".join(
        f"=== Rank {rank}: http://node:1234 ===\n{spy(rank, LOADING if rank == 2 else INSIDE)}\n"
        for rank in range(4)
    )
    (tmp_path / "stacks.txt").write_text(text)
    assert first(tmp_path).ranks == (2,)


def test_processes_without_ranks_are_numbered_and_that_is_said(tmp_path):
    """Stacks of one file that say no ranks are numbered in their order, as a doubt."""
    text = "\n".join(spy(40 + n, LOADING if n == 2 else INSIDE) for n in range(4))
    (tmp_path / "all.txt").write_text(text)
    verdict = pg.audit(tmp_path)
    assert verdict.findings[0].ranks == (2,)
    assert verdict.unknown
    assert "numbered in its order" in " ".join(str(verdict).split())


def test_a_compressed_log_is_read(tmp_path):
    """Logs may be gzip files."""
    for rank in range(3):
        text = spy(rank, LOADING if rank == 1 else INSIDE)
        (tmp_path / f"rank{rank}.log.gz").write_bytes(gzip.compress(text.encode()))
    assert first(tmp_path).ranks == (1,)


def test_weak_evidence_is_never_a_certainty(tmp_path, capsys):
    """PG501 behind a rank without a dump is a heuristic warning in text and JSON, and UNKNOWN."""
    stuck(tmp_path, (0, 1), 3)
    verdict = pg.audit(tmp_path)
    finding = verdict.findings[0]
    assert (finding.code, finding.severity, finding.certainty) == ("PG501", "warning", "heuristic")
    assert verdict.unknown
    main(["audit", str(tmp_path), "--format", "json"])
    assert "DEADLOCK" not in capsys.readouterr().out


def test_an_empty_log_says_that_its_rank_exists(tmp_path):
    """A rank whose log is empty printed nothing; it is missing, and not no rank at all."""
    for rank in range(3):
        (tmp_path / f"rank{rank}.txt").write_text("" if rank == 2 else spy(rank, INSIDE))
    verdict = pg.audit(tmp_path)
    assert verdict.unknown
    assert [f.ranks for f in verdict.findings if f.code == "PG911"] == [(2,)]


def test_a_pid_in_a_name_is_no_rank(tmp_path):
    """Numbers far beyond the number of files are not read as ranks; there is nothing to go on."""
    for pid in (48211, 48212):
        write(tmp_path, 0, [entry(number=0, seq=1)])
        (tmp_path / "rank_0").rename(tmp_path / f"dump.{pid}")
    with pytest.raises(pg.UsageError):
        pg.audit(tmp_path)


def test_what_a_pickle_names_is_still_refused(tmp_path):
    """A dump that needs code is refused as before; the note names the code."""
    stuck(tmp_path, (0, 1), 3)
    (tmp_path / "rank_2").write_bytes(pickle.dumps(print))
    verdict = pg.audit(tmp_path)
    assert any("PG905" in f.message for f in verdict.findings)
    assert "PG911" in codes(verdict)


def test_finished_dumps_beside_a_log_of_a_timeout_are_not_safe(tmp_path):
    """Dumps in which all completed, and a log that names a call that timed out, contradict."""
    for rank in (0, 1):
        write(tmp_path, rank, [entry(number=0, seq=1)])
    (tmp_path / "train.log").write_text(
        "[rank1]:[E1119 10:04:11.5 ProcessGroupNCCL.cpp:632] [Rank 1] Watchdog caught collective "
        "operation timeout: WorkNCCL(SeqNum=2, OpType=ALLREDUCE, NumelIn=4, NumelOut=4, "
        "Timeout(ms)=600000) ran for 600010 milliseconds before timing out.\n"
    )
    assert pg.audit(tmp_path).unknown


def test_a_dump_without_a_rank_beside_others_is_not_passed_over(tmp_path):
    """A dump whose rank nobody knows holds calls that were not looked at: never SAFE."""
    for rank in (0, 1):
        write(tmp_path, rank, [entry(number=0, seq=1)])
    (tmp_path / "dump.48211").write_bytes((tmp_path / "rank_0").read_bytes())
    verdict = pg.audit(tmp_path)
    assert verdict.unknown
    assert any("dump.48211 is left out" in f.message for f in verdict.findings)


def test_a_named_pipe_does_not_block(tmp_path):
    """A pipe that the user names is told and left out; nobody waits for a writer."""
    import os

    stuck(tmp_path, (0, 1), 2)
    os.mkfifo(tmp_path / "pipe")
    verdict = pg.audit(tmp_path / "rank_0", tmp_path / "rank_1", tmp_path / "pipe")
    assert any("not a regular file" in f.message for f in verdict.findings)


ABORTED = """terminate called after throwing an instance of 'gloo::EnforceNotMet'
  what():  [enforce fail at gloo/transport/tcp/pair.cc:456] op.preamble.length <= op.nbytes. {}
Fatal Python error: Aborted

Thread 0x00007ff75f27db80 (most recent call first):
  File "/lib/torch/distributed/distributed_c10d.py", line 3252 in all_reduce
  File "/job/sync.py", line 17 in log_loss
  File "/job/train.py", line 34 in <module>
"""


def test_the_folders_of_torchruns_logs_say_the_local_ranks(tmp_path):
    """What a process printed names no rank, and is of two kinds: an error and a stack. The last
    start of the job counts; the number is one of a node, so nothing is certain.
    """
    for attempt, sizes in ((0, "64 vs 4"), (1, "32 vs 4")):
        for rank in range(2):
            folder = tmp_path / f"none_x/attempt_{attempt}/{rank}"
            folder.mkdir(parents=True)
            (folder / "stdout.log").write_text("")
            (folder / "stderr.log").write_text(ABORTED.format(sizes) if rank else "")
    verdict = pg.audit(tmp_path)
    (found,) = [f for f in verdict.findings if f.code == "PG202"]
    assert found.message == "gloo ended rank 1: 32 bytes came where 4 fit"
    assert found.severity == "warning"
    assert "rank 1 in all_reduce at /job/sync.py:17" in str(found.notes)
    assert "a process on its node" in str(found.notes)


def test_the_folders_of_several_nodes_say_no_ranks(tmp_path):
    """Local ranks of two agents would be two processes of one rank."""
    for node in "ab":
        folder = tmp_path / f"none_{node}/attempt_0/1"
        folder.mkdir(parents=True)
        (folder / "stderr.log").write_text(ABORTED.format("32 vs 4"))
    verdict = pg.audit(tmp_path)
    assert verdict.unknown
    assert "neither its name nor its content says a rank" in verdict.findings[0].message


def test_files_of_a_folder_come_in_order_and_links_are_not_followed(tmp_path):
    """Those of a folder stand before those of its inner folders; hidden files are left out."""
    for name in ("b.err", "a.err", "z/1.err", "c/2.err", "c/d/3.err", ".hidden", "c/x.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    (tmp_path / "link.err").symlink_to(tmp_path / "a.err")
    (tmp_path / "loop").symlink_to(tmp_path)
    found = [str(one.path.relative_to(tmp_path)) for one in collect([str(tmp_path)], None)]
    assert found == ["a.err", "b.err", "c/2.err", "c/d/3.err", "z/1.err"]


def test_an_audit_of_dumps_loads_no_readers_of_other_kinds(tmp_path):
    """What it does not need takes more of its time than the dumps of a hundred ranks."""
    stuck(tmp_path, (0,), 2)
    code = (
        "import sys; from planguard.cli import main; main(['audit', sys.argv[1]]); "
        "print([n for n in ('importlib.metadata', 'planguard.audit.readers.text_log', "
        "'planguard.audit.readers.snapshot', 'planguard.audit.readers.ras', "
        "'planguard.audit.repo', 'planguard.plan.nodes', 'planguard.semantics.model', 'gzip', "
        "'planguard.audit.intended', 'planguard.result.document', 'shutil', '_hashlib') "
        "if n in sys.modules])"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert "PG501" in done.stdout
    assert done.stdout.splitlines()[-1] == "[]"


def test_a_part_comes_out_of_another_process_as_it_went_in(tmp_path):
    """Processes that help write what they read without the names of its fields: none is lost."""
    from planguard.audit.readers.flight_recorder import read_flight_recorder

    write(tmp_path, 0, [entry(number=0, seq=1), entry(number=1, seq=2)], world=2)
    (file,) = tmp_path.iterdir()
    part = read_flight_recorder(file.read_bytes(), str(file))
    part.rank, part.has_ended, part.crash, part.written_ns = 0, False, "an error", 7
    part.track.set_batch(1, 3)
    part.track.more[0] = (True, "work")
    again = pickle.loads(pickle.dumps(part, 5))  # noqa: S301  written here
    assert again == part
    assert vars(again).keys() == vars(part).keys()
    assert list(again.track) == list(part.track)
    assert again.groups["world"].ranks == (0, 1)
