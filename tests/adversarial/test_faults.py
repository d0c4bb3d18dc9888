"""Injected faults: whatever breaks or is missing, the answer is never SAFE.

Undecided is exit code 3 with a code and its reason, ill-formed input 2 (docs/reference). Faults
that other tests inject:

* a worker of a screening that crashes, hangs or needs too much memory:
  ``test_screen.py::test_a_plan_that_hangs_crashes_or_eats_memory_costs_itself_only``, and killed
  from outside: ``test_twenty_random_deaths_lose_nothing``, ``test_a_killed_screening_is_resumed``;
* a recorded process killed while it writes:
  ``test_capture_log.py::test_kills_at_random_points_lose_nothing_and_prove_nothing``; flipped
  bytes of its log: ``test_damage_is_refused_or_read``; a torn record:
  ``test_a_record_that_was_begun_is_torn``;
* operators of a graph that are not known, one by one:
  ``test_fx_translate.py::test_an_unknown_communication_is_never_ignored``;
* dumps that are hostile or broken: ``test_audit_readers.py``;
* an exception of PlanGuard itself, exit code 4:
  ``test_cli_check.py::test_a_defect_of_planguard_is_4_and_never_0``.
"""

from __future__ import annotations

import json
import os
import pickle
import random
import subprocess
import threading
import time
from pathlib import Path

import pytest

from planguard.capture.run.log import HEADER_BYTES, Kind, RunLogWriter
from planguard.cli import main
from planguard.reordering import smt

ROOT = Path(__file__).resolve().parents[2]
from hard_family import formula, hard_plan  # noqa: E402

CALLS = 120
"""All-reduces of each rank in a recorded log."""


@pytest.fixture(scope="module")
def hard(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A plan that is a deadlock in some orders, which only the solver finds in time."""
    file = tmp_path_factory.mktemp("hard") / "hard.plan.json"
    file.write_text(json.dumps(hard_plan(10, formula(10, 4.26, 1))))
    return str(file)


@pytest.fixture
def says(capsys: pytest.CaptureFixture[str]):
    """Run the command: its exit code, its result file ({} without one), its errors."""

    def run(*arguments: object):
        code = main([*map(str, arguments), "--format", "json"])
        out, err = capsys.readouterr()
        return code, json.loads(out) if out.strip() else {}, err

    return run


def undecided(answer, code: str, reason: str) -> None:
    """Hold an answer to UNKNOWN with exit code 3, a code and a reason."""
    status, result, _ = answer
    assert (status, result["outcome"]) == (3, "UNKNOWN")
    assert not code or code in {finding["code"] for finding in result["findings"]}
    assert reason in json.dumps([result["approximations"], result["findings"]])


# --- the solver ----------------------------------------------------------------------------------

CHECK = ("--model", "gloo", "--budget", "2s")


def test_without_a_fault_the_hard_plan_is_decided(hard, says):
    """The solver is what decides it, here and in a process of its own."""
    for more in ((), ("--solver-process",), ("--solver-memory", 1024)):
        status, result, _ = says("check", hard, "--model", "gloo", "--budget", "60s", *more)
        assert (status, result["outcome"]) == (1, "POTENTIAL_DEADLOCK")
        assert "smt" in result["evidence"]["route"]


@pytest.mark.parametrize("budget", ["1ms", "20ms"])
def test_no_time(hard, says, budget):
    """A budget that is used up before or while the solver runs."""
    undecided(says("check", hard, "--model", "gloo", "--budget", budget), "PG903", "budget")


@pytest.mark.parametrize("more", [(), ("--solver-process",)])
def test_no_memory(hard, says, more):
    """A memory limit that the solver runs into; the next check is not affected."""
    answer = says("check", hard, *CHECK, "--solver-memory", 1, *more)
    undecided(answer, "PG903", "max. memory exceeded")
    assert says("check", hard, "--model", "gloo", "--budget", "60s")[0] == 1


def test_a_memory_limit_from_a_settings_file(hard, says, tmp_path):
    """The same through ``solver-memory`` and ``solver-process`` of a settings file."""
    file = tmp_path / "planguard.toml"
    file.write_text("solver-memory = 1\nsolver-process = true\n")
    undecided(says("check", hard, *CHECK, "--config", file), "PG903", "max. memory exceeded")


@pytest.mark.parametrize(
    ("call", "error"),
    [("from_string", "z3"), ("check", "z3"), ("model", "z3"), ("check", "memory")],
)
def test_an_exception_in_the_solver(hard, says, monkeypatch, call, error):
    """Calls of Z3 that raise: as clauses are read, as it searches, when the model is asked."""
    import z3

    def fail(*_: object):
        raise z3.Z3Exception(b"injected") if error == "z3" else MemoryError

    monkeypatch.setattr(z3.Solver, call, fail)
    reason = "solver: injected" if error == "z3" else "out of memory"
    undecided(says("check", hard, *CHECK), "PG903", reason)


def test_a_solver_that_gives_up(hard, says, monkeypatch):
    """An UNKNOWN of Z3 stays one, with Z3's reason."""
    import z3

    monkeypatch.setattr(z3.Solver, "check", lambda *_: z3.unknown)
    monkeypatch.setattr(z3.Solver, "reason_unknown", lambda _: "(incomplete injected)")
    undecided(says("check", hard, *CHECK), "PG903", "incomplete injected")


@pytest.mark.parametrize(("number", "name"), [(9, "SIGKILL"), (11, "SIGSEGV")])
def test_the_solver_process_dies_in_the_middle(hard, says, monkeypatch, number, name):
    """A process of the solver that is running, has read its clauses and is ended from outside."""
    real = subprocess.Popen
    started = []

    class Dying(real):
        def __init__(self, command, **options):
            # It reads all clauses and then works, as Z3 does on a harder formula.
            work = "import sys, time; sys.stdin.read(); time.sleep(60)"
            super().__init__([command[0], "-c", work], **options)
            started.append(command)
            threading.Timer(0.3, os.kill, (self.pid, number)).start()

    monkeypatch.setattr(smt.subprocess, "Popen", Dying)
    undecided(says("check", hard, *CHECK, "--solver-process"), "PG903", f"was ended by {name}")
    assert [command[1:] for command in started] == [["-m", "planguard.reordering.smt"]]


@pytest.mark.parametrize("prints", ["", '{"answer": "uns'])
def test_the_solver_process_says_nothing_that_is_an_answer(hard, says, monkeypatch, prints):
    """No answer, another text, an answer that is cut: nothing is taken for UNSAT."""
    real = subprocess.run
    program = f"import sys; sys.stdin.read(); print({prints!r}, end='')"
    monkeypatch.setattr(
        smt.subprocess, "run", lambda command, **o: real([command[0], "-c", program], **o)
    )
    undecided(says("check", hard, *CHECK, "--solver-process"), "PG903", "ended with code 0")


def test_the_solver_process_cannot_be_started(hard, says, monkeypatch):
    """No interpreter to start."""
    monkeypatch.setattr(smt.sys, "executable", "/nonexistent/python")
    undecided(says("check", hard, *CHECK, "--solver-process"), "PG903", "No such file")


def test_the_solver_process_does_not_end(hard, says, monkeypatch):
    """A process that never answers is ended when its budget and a grace are over."""
    real = subprocess.run
    monkeypatch.setattr(smt, "GRACE", 0.1)
    program = "import time; time.sleep(60)"
    monkeypatch.setattr(
        smt.subprocess, "run", lambda command, **o: real([command[0], "-c", program], **o)
    )
    begun = time.monotonic()
    answer = says("check", hard, "--model", "gloo", "--budget", "1s", "--solver-process")
    undecided(answer, "PG903", "budget exhausted")
    assert time.monotonic() - begun < 30


# --- recordings ----------------------------------------------------------------------------------


def logs(folder: Path, most: int = 1 << 20) -> list[Path]:
    """Write what two ranks of a finished run recorded; ``most`` bytes fit for the second one."""
    files = []
    for rank in (0, 1):
        log = RunLogWriter(folder, rank, 2, most_bytes=most if rank else 1 << 20)
        group = log.string('"0,1"')
        for number in range(1, CALLS + 1):
            fields = {"reduce_op": "sum", "count": number, "dtype": "f32"}
            log.call(
                Kind.CALL, "all_reduce", work=number, group=group, stack=0, batch=0, fields=fields
            )
            log.small(Kind.WAIT, number)
        log.end()
        files.append(log.path)
    return files


def test_whole_logs_are_safe(tmp_path, says):
    """Without a fault the recorded run is SAFE."""
    logs(tmp_path)
    assert says("check", tmp_path, "--model", "gloo")[0] == 0


@pytest.mark.parametrize("seed", range(12))
def test_a_log_that_is_cut(tmp_path, says, seed):
    """A log that ends anywhere before its last record: undecided, or refused; also by an audit."""
    file = logs(tmp_path)[1]
    data = file.read_bytes()
    used = len(data.rstrip(b"\0"))
    inside = range(HEADER_BYTES, used) if seed else range(HEADER_BYTES)
    cut = random.Random(seed).choice(inside)
    file.write_bytes(data[:cut])
    for command in ("check", "audit"):
        status, result, err = says(command, tmp_path, "--model", "gloo")
        assert status in (2, 3), (command, cut, status, result.get("outcome"))
        assert result["outcome"] == ("UNKNOWN" if status == 3 else None)
        assert "PG901" in json.dumps(result) + err or "INCOMPLETE" in json.dumps(result)


def test_records_that_did_not_fit(tmp_path, says):
    """A log that was full drops what came later, and counts it: the run is undecided."""
    logs(tmp_path, most=HEADER_BYTES * 2)
    for command in ("check", "audit"):
        undecided(says(command, tmp_path, "--model", "gloo"), "", "records of rank 1 did not fit")


def test_logs_that_are_all_cut_between_the_same_records(tmp_path, says):
    """What is left is a run without a fault, but not the whole one."""
    for file in logs(tmp_path):
        data = file.read_bytes()
        calls = [
            at
            for at in range(HEADER_BYTES, len(data.rstrip(b"\0")), 8)
            if data[at + 3] == 0x80 and data[at + 4] == Kind.CALL
        ]
        file.write_bytes(data[: calls[50]])
    for command in ("check", "audit"):
        undecided(says(command, tmp_path, "--model", "gloo"), "", "INCOMPLETE")


def test_a_log_of_a_rank_is_missing(tmp_path, says):
    """One of two processes left no log."""
    logs(tmp_path)[1].unlink()
    status, result, _ = says("check", tmp_path, "--model", "gloo")
    assert status in (2, 3)
    assert result["outcome"] == ("UNKNOWN" if status == 3 else None)


def dump(folder: Path, rank: int, world: int) -> None:
    """Write what NCCL's flight recorder says of one finished all_reduce."""
    entry = {
        "record_id": 0, "process_group": ("0", "default_pg"), "profiling_name": "nccl:all_reduce",
        "collective_seq_id": 1, "p2p_seq_id": 0, "op_id": 1, "time_created_ns": 1,
        "input_sizes": [[4]], "output_sizes": [[4]], "input_dtypes": ["Float"],
        "state": "completed", "is_p2p": False, "frames": [],
    }  # fmt: skip
    config = {"0": {"desc": "default_pg", "ranks": json.dumps(list(range(world)))}}
    whole = {"version": "2.10", "pg_config": config, "entries": [entry]}
    (folder / f"rank_{rank}").write_bytes(pickle.dumps(whole, 2))


@pytest.mark.parametrize("missing", [None, 0, 1, 2])
def test_a_dump_of_a_rank_is_missing(tmp_path, says, missing):
    """All dumps are a finished run; without one of them nothing is said of it."""
    for rank in range(3):
        if rank != missing:
            dump(tmp_path, rank, 3)
    if missing is None:
        assert says("audit", tmp_path)[0] == 0
    else:
        undecided(says("audit", tmp_path), "PG911", f"rank {missing}")


def test_a_dump_that_is_cut(tmp_path, says):
    """A dump that was not written to its end is refused."""
    for rank in range(2):
        dump(tmp_path, rank, 2)
    file = tmp_path / "rank_1"
    file.write_bytes(file.read_bytes()[:-40])
    status, result, _ = says("audit", tmp_path)
    assert status in (2, 3)
    assert result["outcome"] == ("UNKNOWN" if status == 3 else None)


# --- operators that are not known ----------------------------------------------------------------

HLO = """HloModule m, is_scheduled=true, num_partitions=2

%sum (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %add = f32[] add(%a, %b)
}

ENTRY %main (p: f32[4]) -> f32[4] {
  %p = f32[4] parameter(0)
  LINE
  ROOT %r = f32[4] all-reduce(%x), channel_id=1, replica_groups=GROUPS, to_apply=%sum
}
"""
GLOBAL = "{{0,1}}, use_global_device_ids=true"


@pytest.mark.parametrize(
    ("line", "status"),
    [
        ("%x = f32[4] negate(%p)", 0),
        ('%x = f32[4] custom-call(%p), custom_call_target="mpi_allreduce"', 3),
        ('%x = f32[4] custom-call(%p), custom_call_target="my.exchange"', 3),
        ("%x = f32[4] ragged-all-swap(%p), replica_groups={{0,1}}", 3),
    ],
)
def test_an_operation_of_a_compiler_that_is_not_known(tmp_path, says, line, status):
    """Operations that might communicate spoil SAFE; the same program without them is SAFE."""
    file = tmp_path / "m.hlo"
    file.write_text(HLO.replace("LINE", line).replace("GROUPS", GLOBAL))
    found, result, _ = says("check", file, "--planner", "xla", "--model", "nccl")
    assert found == status, result["findings"]


@pytest.mark.parametrize(
    ("target", "status"),
    [
        ("aten.neg.default", 0),
        ("mylib.my_all_reduce.default", 3),
        ("_c10d_functional.a_new_collective.default", 3),
    ],
)
def test_an_operator_of_a_graph_that_is_not_known(tmp_path, says, target, status):
    """An operator that is handed a group, or that a communication library will have one day."""
    value = {"shape": [4], "dtype": "float32"}
    group = [] if target.startswith("aten") else ["0"]
    nodes = [
        {"name": "x", "op": "placeholder", "val": value},
        {"name": "u", "target": target, "args": [{"ref": "x"}, *group], "val": value},
        {
            "name": "a",
            "target": "_c10d_functional.all_reduce.default",
            "args": [{"ref": "u"}, "sum", "0"],
            "val": value,
        },
        {
            "name": "w",
            "target": "_c10d_functional.wait_tensor.default",
            "args": [{"ref": "a"}],
            "val": value,
        },
        {"name": "output", "op": "output", "args": [[{"ref": "w"}]]},
    ]
    document = {
        "schema": "planguard.fx/1",
        "world_size": 2,
        "programs": {"p": [{"nodes": nodes}]},
        "ranks": {str(rank): {"program": "p", "groups": {"0": [0, 1]}} for rank in (0, 1)},
    }
    file = tmp_path / "graph.json"
    file.write_text(json.dumps(document))
    found, result, err = says("check", file, "--planner", "fx")
    assert found == status, (result, err)


@pytest.mark.parametrize("op", ["x-exchange", "all_reduce_v2", "x-", ""])
def test_an_operation_of_a_plan_that_is_not_known(tmp_path, says, op):
    """Only names of fields may begin with ``x-``; an operation that is not known is an error."""
    actions = [{"op": "all_reduce", "bytes": 4}, {"op": op, "bytes": 4}]
    document = {
        "schema": "planguard.plan/1",
        "world_size": 2,
        "ranks": {"0-1": {"actions": actions}},
    }
    file = tmp_path / "a.plan.json"
    file.write_text(json.dumps(document))
    status, result, err = says("check", file)
    assert status == 2
    assert result.get("outcome") != "SAFE"
    assert "$.ranks" in json.dumps(result) + err


@pytest.mark.parametrize("cut", [1, 20, 60, 100])
def test_a_plan_that_is_cut(tmp_path, says, cut):
    """A plan file that lacks its end."""
    text = json.dumps(
        {
            "schema": "planguard.plan/1",
            "world_size": 2,
            "ranks": {"0-1": {"actions": [{"op": "all_reduce", "bytes": 4}]}},
        }
    )
    file = tmp_path / "a.plan.json"
    file.write_text(text)
    assert says("check", file)[0] == 0
    file.write_text(text[:-cut])
    assert says("check", file)[0] == 2
