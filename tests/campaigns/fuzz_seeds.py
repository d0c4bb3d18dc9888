"""What the fuzzer of the readers starts from: samples, and inputs made where there is no sample."""

from __future__ import annotations

import gzip
import io
import json
import pickle
import re
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

ROOT = Path(__file__).resolve().parents[2]
TRACES = ROOT / "tests" / "corpus" / "traces"
IN_HAND = ROOT / "tests" / "corpus" / "in_hand"


def seeds_of(name: str, files: Sequence[str]) -> Iterator[bytes]:
    """The bytes that fuzzing a reader starts from."""
    for file in files:
        if file.endswith(".zip"):
            yield from _of_kind(name, Path(file))
        else:
            yield Path(file).read_bytes()
    if name in MADE:
        yield from MADE[name]()


def _of_kind(name: str, file: Path) -> Iterator[bytes]:
    """What a reader recognizes in an archive of recordings."""
    from planguard.audit.readers.files import kind_of

    with zipfile.ZipFile(io.BytesIO(file.read_bytes())) as packed:
        for entry in packed.namelist()[:8]:
            data = packed.read(entry)
            if kind_of(data) == name:
                yield data


def _tests() -> None:
    """Make the builders of recordings that the unit tests use importable."""
    sys.path.append(str(ROOT / "tests" / "unit"))


def flight_recorder() -> Iterator[bytes]:
    """The JSON form of a dump."""
    dump = {
        "version": "2.10", "comm_lib_version": "", "pg_status": {"0": {"last_enqueued_work": "1"}},
        "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1]"}},
        "entries": [{
            "frames": [{"name": "f", "filename": "a.py", "line": 1}], "record_id": 0, "pg_id": 0,
            "process_group": ["0", "default_pg"], "collective_seq_id": 1, "p2p_seq_id": 0,
            "op_id": 1, "profiling_name": "nccl:all_reduce", "time_created_ns": 1,
            "input_sizes": [[4]], "input_dtypes": ["Float"], "output_sizes": [[4]],
            "output_dtypes": ["Float"], "state": "completed", "retired": True, "is_p2p": False,
            "timeout_ms": 600000, "time_discovered_started_ns": 1, "duration_ms": 0.1,
        }],
    }  # fmt: skip
    yield json.dumps(dump).encode()


def kineto() -> Iterator[bytes]:
    """A trace of gloo, one of NCCL, and what a real one holds of communication."""
    _tests()
    import test_audit

    yield test_audit.kineto(0, test_audit.KINETO).encode()
    world = {"pg_name": "0", "pg_desc": "default_pg", "ranks": [0, 1]}
    args = {
        "Collective name": "allreduce", "Process Group Name": "0", "dtype": "Float",
        "In msg nelems": 8, "Out msg nelems": 8, "Group size": 2, "Src Rank": 0, "Dst Rank": 1,
    }  # fmt: skip
    events = [
        {"name": "record_param_comms", "ts": 1.0 + at, "args": args | {"Collective name": name}}
        for at, name in enumerate(("allreduce", "send", "recv", "_reduce_scatter_base"))
    ]
    info = {"backend": "nccl", "rank": 0, "world_size": 2, "pg_config": [world]}
    yield json.dumps({"distributedInfo": info, "traceEvents": events}).encode()
    for file in sorted(TRACES.rglob("*.json.gz")):
        trace = json.loads(gzip.decompress(file.read_bytes()))
        marks = ("c10d::", "record_param_comms", "nccl", "gloo")
        trace["traceEvents"] = [
            event
            for event in trace.get("traceEvents", ())  # some are of other kinds
            if str(event.get("name")).startswith(marks)
        ][:40]
        yield json.dumps(trace).encode()


def execution_trace() -> Iterator[bytes]:
    """A trace of gloo and one of NCCL."""
    _tests()
    import test_audit

    call = ("c10d::allreduce_", [[], "<Object>", "<Object>", "<None>", False, -1])
    send = ("c10d::send", [[], "<Object>", 1, 5])
    yield test_audit.execution_trace([call, send]).encode()
    trace = json.loads(test_audit.execution_trace([]))
    about = {
        "collective_name": "send", "pg_name": "0", "in_msg_nelems": 8, "out_msg_nelems": 8,
        "dst_rank": 1, "src_rank": 0, "dtype": "Float",
    }  # fmt: skip
    attrs = [{"name": name, "value": value} for name, value in about.items()]
    trace["nodes"].append({"id": 9, "name": "record_param_comms", "attrs": attrs})
    yield json.dumps(trace).encode()


def chakra() -> Iterator[bytes]:
    """A trace of three nodes, with dependencies and attributes of every width."""
    _tests()
    from test_audit import chakra as packed
    from test_audit import node

    yield packed(
        node(1, 7, 3, comm_type=0, comm_size=64, pg_name=b"0"),
        node(2, 4),
        node(3, 5, 2, comm_dst=1, comm_size=16, comm_tag=3),
        node(4, 6, 2, comm_src=1, comm_size=1 << 40, comm_tag=3),
    )


def nccl_log() -> Iterator[bytes]:
    """Two processes, with every call that the log names; two runs of three in one log."""
    _tests()
    from test_audit import nccl_log as text
    from test_audit_nccl_runs import Run

    from planguard.plan.vocabulary import NCCL

    calls = [(name, 4, 0, 1) for name in NCCL]
    yield (text(0, calls) + text(1, calls)).encode()
    two = Run("0xbeef", 200, heap="b", boots=True).rows((3, 2, 3))
    yield "\n".join(Run("0xfeed", 100).rows((3, 3, 3)) + two).encode()


def own_log() -> Iterator[bytes]:
    """A captured rank: calls, messages, a batch, handles."""
    sent = {"op": "isend", "peer": 1, "tag": 2, "bytes": 4, "group": "0", "work": "a"}
    actions = [
        sent,
        {"op": "wait", "work": "a"},
        {"op": "all_reduce", "count": 4, "dtype": "f32", "reduce_op": "sum", "async_": True},
        {"op": "batch", "ops": [sent, {**sent, "op": "irecv"}], "work": "b"},
        {"op": "broadcast", "root": 0, "bytes": 8, "group": "0", "src": ["a.py", 1, "f"]},
    ]
    yield json.dumps({"rank": 0, "groups": {"0": [0, 1]}, "actions": actions}).encode()


def run_log() -> Iterator[bytes]:
    """A log as the recorder writes it."""
    _tests()
    from test_capture_log import write

    from planguard.capture.run.log import Kind, RunLogWriter

    with tempfile.TemporaryDirectory() as folder:
        writer = RunLogWriter(folder, 0, 2)
        for number in range(3):
            write(writer, number)
        group, stack = writer.string('"0,1"'), writer.string('[["a.py", 3, "main", 0]]')
        fields = {"peer": 1, "tag": 7, "count": 1 << 40, "dtype": "bf16"}
        writer.call(Kind.CALL, "isend", work=5, group=group, stack=stack, batch=2, fields=fields)
        for kind in (Kind.WAIT, Kind.DONE, Kind.BACKWARD, Kind.DROP, Kind.THREAD, Kind.MET):
            writer.small(kind, 1)
        writer.small(Kind.CREATED, group)
        writer.end()
        yield writer.path.read_bytes().rstrip(b"\0") + bytes(64)


def shim_log() -> Iterator[bytes]:
    """A log as the interposer writes it: calls that returned, and one that did not."""
    _tests()
    from test_measured import preload_log

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "made"
        calls = [(op, 8, 1000 + op, 3000 + op) for op in range(1, 20)]
        preload_log(file, 0, [*calls, (1, 16, 9000, None)])
        yield file.read_bytes()


def mpi_logs() -> Iterator[bytes]:
    """Logs of the two ranks of an MPI program, with calls of every kind that is read."""
    _tests()
    from mpi_logs import every_kind

    with tempfile.TemporaryDirectory() as folder:
        for file in every_kind(Path(folder)):
            yield file.read_bytes()


def certificates() -> Iterator[bytes]:
    """Small plans with certificates, a few of every kind that holds the same kinds inside."""
    sys.path.append(str(ROOT / "tests"))
    from oracle.combined import combined

    import planguard
    from planguard.certificate.format import encode
    from planguard.errors import PlanError
    from planguard.options import CheckOptions
    from planguard.plan.flatten import flatten

    found: dict[str, list[bytes]] = {}
    for seed in range(240):
        options = CheckOptions(model=("gloo", "nccl", "mpi-eager")[seed % 3], certificate=True)
        try:
            plan = planguard.load(combined(seed))
        except PlanError:
            continue
        proof = planguard.check(plan, options=options, budget=1).certificate
        if proof is not None:
            both = {"plan": flatten(plan), "proof": json.loads(encode(proof))}
            kinds = " ".join(sorted(set(re.findall(r'"kind": ?"\w+"', json.dumps(both["proof"])))))
            found.setdefault(kinds, []).append(json.dumps(both).encode())
    for proofs in found.values():
        yield from sorted(proofs, key=len)[:4]


def stacks() -> Iterator[bytes]:
    """Stacks of py-spy as JSON, and the first process of others as text."""
    for file in sorted(IN_HAND.rglob("*")):
        if file.suffix == ".json" and file.name != "labels.json":
            yield file.read_bytes()


def texts() -> Iterator[bytes]:
    """What ranks printed, stacks, and what launchers and watchers of a job say."""
    _tests()
    import in_hand_cases
    import test_audit_logs
    import test_audit_models
    import test_audit_stalls

    for case in in_hand_cases.CASES.values():
        if case.files is not in_hand_cases.zstd_28:
            yield from (data.encode() for data in case.files().values() if isinstance(data, str))
    for file in sorted((*IN_HAND.rglob("*.err"), *IN_HAND.rglob("*.txt"))):
        yield file.read_bytes()
    yield "\n".join(test_audit_logs.behind()).encode()
    for put in test_audit_logs.PREFIXES.values():
        yield "\n".join(put(0, line) for line in test_audit_logs.behind()[:4]).encode()
    yield f"{test_audit_stalls.HOROVOD}\nMissing ranks:\n2: [a, b]".encode()
    yield f"{test_audit_stalls.HOROVOD}Stalled ops: a [ready ranks: 0, 1]".encode()
    yield test_audit_stalls.HCCL.format(remote=24, group="hccl_world_group", own=25).encode()
    yield "\n".join(test_audit_stalls.XLA.format(n=n) for n in (0, 1)).encode()
    for rows in test_audit_stalls.ENDS.values():
        yield "\n".join(rows).encode()
    yield "\n".join(test_audit_stalls.barrier((6, 0))).encode()
    yield "\n".join(test_audit_stalls.silent(3, 5)).encode()
    yield "\n".join(test_audit_models.rows(test_audit_models.differs((9, 9, 8)))).encode()
    yield "\n".join(test_audit_models.rows([(1, test_audit_models.sizes(1, 3))])).encode()


def ras() -> Iterator[bytes]:
    """Reports of RAS, as JSON."""
    rank = {"rank": 0, "host": "a", "pid": 1, "collective_counts": {"AllReduce": 3}}
    yield json.dumps({"communicators": [{"hash": "a", "size": 1, "ranks": [rank]}]}).encode()


def snapshots() -> Iterator[bytes]:
    """Small snapshots of an allocator, with and without their trace."""
    _tests()
    from memory_cases import played

    for seed in range(3):
        document = played(seed, 12).snapshot()
        yield pickle.dumps(document, 2)
        yield pickle.dumps(document["segments"], 4)


def clog() -> Iterator[bytes]:
    """A log of torchcomms."""
    _tests()
    import test_audit_clog

    begun = test_audit_clog.begun(2, 2)
    yield test_audit_clog.log(0, *test_audit_clog.done(1, 1), *begun).encode()
    yield test_audit_clog.log(
        1, "G1|C1|Q|work_id=1|+1", extra=["split|parent=a|child=b|ranks=0,1"]
    ).encode()


def packed() -> Iterator[bytes]:
    """Archives that blocks are read from."""
    import zstandard

    for data in texts():
        yield gzip.compress(data[:500])
        yield zstandard.ZstdCompressor().compress(data[:500])


MADE: dict[str, Callable[[], Iterator[bytes]]] = {
    "flight-recorder": flight_recorder,
    "kineto": kineto,
    "execution-trace": execution_trace,
    "chakra-trace": chakra,
    "nccl-log": nccl_log,
    "own-log": own_log,
    "run-log": run_log,
    "shim-log": shim_log,
    "mpi-log": mpi_logs,
    "stacks": stacks,
    "text": texts,
    "ras": ras,
    "clog": clog,
    "packed": packed,
    "sieve": texts,
    "snapshot": snapshots,
    "certificate": certificates,
}
