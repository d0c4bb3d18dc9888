"""Hostile recordings: nothing in them runs, nothing is written, nothing grows."""

from __future__ import annotations

import gzip
import json
import os
import pickle
import pickletools
import resource
import struct
import subprocess
import sys
import zipfile
import zlib

import pytest

from planguard.audit.readers.files import Input
from planguard.audit.readers.reading import read_input
from planguard.capture.nccl.preload import read_logs
from planguard.capture.run.log import HEADER, Kind, RunLogWriter
from planguard.capture.run.reading import recording_of_run
from planguard.errors import PlanError

LIMIT = 1 << 30
"""Address space that one read may take beyond the interpreter's own, in the tests that measure."""


class Call:
    """Pickles to a call of a function."""

    def __init__(self, function, *arguments):
        self.call = (function, arguments)

    def __reduce__(self):
        return self.call


def dump(**more):
    """A healthy dump of one entry, with some fields replaced."""
    entry = {
        "record_id": 0,
        "pg_id": 0,
        "process_group": ("0", "default_pg"),
        "collective_seq_id": 1,
        "p2p_seq_id": 0,
        "op_id": 1,
        "profiling_name": "nccl:all_reduce",
        "time_created_ns": 1,
        "input_sizes": [[4]],
        "input_dtypes": ["Float"],
        "output_sizes": [[4]],
        "output_dtypes": ["Float"],
        "state": "completed",
        "retired": True,
        "is_p2p": False,
        "frames": [{"name": "f", "filename": "train.py", "line": 1}],
    }
    top = {key: more.pop(key) for key in ("version", "pg_config", "pg_status") if key in more}
    config = {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1]"}}
    return {"version": "2.10", "pg_config": config, "entries": [entry | more]} | top


def deep(depth, opened=b"[", closed=b"]"):
    """JSON nested so deep."""
    return opened * depth + closed * depth


def laughs():
    """A pickle of lists that hold each other ten times, thirty levels deep: 10^30 leaves."""
    value = "lol"
    for _ in range(30):
        value = [value] * 10
    return value


def towers(field):
    """Two entries whose values of a field are equal and would take 10^30 steps to compare."""
    if field == "frame":
        values = [[{"name": laughs(), "filename": "a.py", "line": 1}] for _ in range(2)]
        field = "frames"
    else:
        values = [laughs(), laughs()]
    rows = [dump(**{field: value}, record_id=n) for n, value in enumerate(values)]
    return pickle.dumps({**rows[0], "entries": [row["entries"][0] for row in rows]})


def xml():
    """The billion laughs in XML."""
    rows = "".join(
        f'<!ENTITY l{n} "{"&l" + str(n - 1) + ";" if n else "lol"}">' * 1 for n in range(10)
    )
    return f'<?xml version="1.0"?><!DOCTYPE l [{rows}]><l>&l9;</l>'.encode()


def marker(tmp_path):
    """A file that a payload would make."""
    return str(tmp_path / "EXECUTED")


def payloads(target):
    """Pickles that would run something: each leaves a file, ends the process or opens a socket."""
    import functools
    import operator
    import shutil
    import webbrowser

    command = f"touch {target}"
    yield "os-system", pickle.dumps(Call(os.system, command))
    yield "subprocess", pickle.dumps(Call(subprocess.check_output, ["touch", target]))
    yield "eval", pickle.dumps(Call(eval, f"open({target!r}, 'w').close()"))
    yield "exec", pickle.dumps(Call(exec, f"open({target!r}, 'w').close()"))
    yield "open", pickle.dumps(Call(open, target, "w"))
    yield "exit", pickle.dumps(Call(os._exit, 7))
    yield "import", pickle.dumps(Call(__import__, "antigravity"))
    yield "getattr", pickle.dumps(Call(getattr, "x", "upper"))
    yield "partial", pickle.dumps(Call(functools.partial, os.system, command))
    yield "rmtree", pickle.dumps(Call(shutil.rmtree, target, True))
    yield "browser", pickle.dumps(Call(webbrowser.open, "file:///"))
    yield "attrgetter", pickle.dumps(operator.attrgetter("system"))
    yield "global-only", b"\x80\x02cos\nsystem\n."
    yield "protocol-0", f"cos\nsystem\n(S'{command}'\ntR.".encode()
    yield "protocol-0-marked", f"\x80\x02cos\nsystem\n(S'{command}'\ntR.".encode("latin1")
    yield "inst", f"\x80\x02(S'{command}'\nios\nsystem\n.".encode("latin1")
    yield "obj", f"\x80\x02(cos\nsystem\nS'{command}'\no.".encode("latin1")
    yield "stack-global", b"\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\x02id\x85R."
    yield "persistent", b"\x80\x02Pid\n."
    yield "binpersid", b"\x80\x02K\x01Q."
    yield "extension", b"\x80\x02\x82\x01."
    yield "in-a-frame", pickle.dumps(dump(frames=[Call(os.system, command)]))
    yield "in-a-key", pickle.dumps({"version": "2.10", "entries": [{Call(os.getpid): 1}]})
    yield "behind-a-dump", pickle.dumps([dump(), Call(os.system, command)])
    yield "as-version", pickle.dumps(dump(version=Call(os.system, command)))


def zeros(count):
    """A gzip file of so many zeros, made a piece at a time."""
    engine = zlib.compressobj(9, zlib.DEFLATED, 31)
    pieces = [engine.compress(bytes(1 << 20)) for _ in range(count >> 20)]
    return b"".join([*pieces, engine.flush()])


BOMBS = {
    "memo-index": lambda: b"\x80\x02]r\xff\xff\xff\xff.",
    "memo-index-text": lambda: b"\x80\x02]p4294967295\n.",
    "long-string": lambda: b"\x80\x02X" + struct.pack("<I", 0x7FFFFFFF) + b"abc.",
    "long-string-8": lambda: b"\x80\x04\x8d" + struct.pack("<Q", 1 << 40) + b"abc.",
    "long-bytes-8": lambda: b"\x80\x04\x8e" + struct.pack("<Q", 1 << 62) + b"abc.",
    "long-array-8": lambda: b"\x80\x05\x96" + struct.pack("<Q", 1 << 40) + b"abc.",
    "frame-8": lambda: b"\x80\x04\x95" + struct.pack("<Q", 1 << 50) + b"}.",
    "laughs": lambda: pickle.dumps({"version": "2.10", "entries": laughs()}),
    "laughs-in-sizes": lambda: pickle.dumps(dump(input_sizes=laughs())),
    "laughs-in-frames": lambda: pickle.dumps(dump(frames=laughs())),
    "two-towers-in-sizes": lambda: towers("input_sizes"),
    "two-towers-in-frames": lambda: towers("frames"),
    "two-towers-in-frame-values": lambda: towers("frame"),
    "two-towers-in-groups": lambda: towers("process_group"),
    "two-towers-in-dtypes": lambda: towers("input_dtypes"),
    "tower-as-name": lambda: pickle.dumps(dump(profiling_name=laughs())),
    "tower-as-description": lambda: pickle.dumps(
        dump(pg_config={"0": {"desc": laughs(), "ranks": "[0, 1]"}})
    ),
    "deep-pickle": lambda: b"\x80\x02" + b"](" * 100_000 + b"e" * 100_000 + b".",
    "deep-tuples": lambda: b"\x80\x02)" + b"\x85" * 100_000 + b".",
    "long-integer": lambda: b"\x80\x02\x8b" + struct.pack("<i", 500_000) + b"\x7f" * 500_000 + b".",
    "decimal-integer": lambda: b"\x80\x02I" + b"9" * 1_000_000 + b"\n.",
    "gzip-bomb": lambda: zeros(600 << 20),
    "gzip-of-gzip": lambda: gzip.compress(gzip.compress(b"{" * 1000)),
    "gzip-cut": lambda: gzip.compress(json.dumps(dump()).encode())[:-20],
    "json-deep": lambda: b'{"version": "2.10", "pg_config": ' + deep(100_000) + b"}",
    "json-deep-entries": lambda: (
        b'{"pg_config": {}, "version": "2.10", "entries": ' + deep(100_000) + b"}"
    ),
    "json-deep-kineto": lambda: (
        b'{"traceEvents": [{"args": ' + deep(100_000, b'{"a":', b"}") + b"}]}"
    ),
    "json-integer": lambda: (
        b'{"pg_config": {}, "version": "2.10", "entries": [{"op_id": ' + b"9" * 1_000_000 + b"}]}"
    ),
    "json-cut": lambda: json.dumps(dump()).encode()[:-30],
    "ten-million-ranks": lambda: pickle.dumps(
        dump(pg_config={"0": {"desc": "default_pg", "ranks": "[" + "0, " * 10_000_000 + "1]"}})
    ),
    "rank-of-a-billion": lambda: pickle.dumps(
        dump(pg_config={"0": {"desc": "default_pg", "ranks": "[0, 999999999]"}})
    ),
    "operation-leap": lambda: pickle.dumps(dump(profiling_name="gloo:all_reduce", op_id=1 << 60)),
    "chakra-huge-message": lambda: b"\xff\xff\xff\xff\x0f" + b"\0" * 10,
    "chakra-endless-varint": lambda: b"\x02\x08\x01" + b"\xff" * 100,
    "chakra-fixed-dependency": lambda: b"\x02\x08\x01\x09\x21" + b"\1" * 8,
    "chakra-zeros": lambda: b"\0" * 100_000,
    "nccl-log-without-calls": lambda: b"h:1:1 [0] NCCL INFO " * 50_000,
    "stack-of-a-million": lambda: (
        b'Thread 1 (active): "MainThread"\n' + b"    f (a.py:1)\n" * 1_000_000
    ),
}
"""Inputs that would take all memory or all time, made when they are needed."""


NCCL_LOG = (
    b"h:1:1 [0] NCCL INFO comm 0xa rank 0 nranks 1 commId 0xb - Init COMPLETE\n"
    b"h:1:1 [0] NCCL INFO AllReduce: opCount ffffffffffffffff sendbuff 0x1 recvbuff 0x2 count 4 "
    b"datatype 7 op 0 root 0 comm 0xa [nranks=1] stream 0x3\n"
)


def strange():
    """Inputs whose values are of wrong types, or lie."""
    for name, value in (
        ("entries-no-list", {"version": "2.10", "entries": 5}),
        ("entry-no-table", {"version": "2.10", "entries": [5]}),
        ("top-no-table", [1, 2]),
        ("group-no-pair", dump(process_group=5)),
        ("group-empty", dump(process_group=[])),
        ("name-no-text", dump(profiling_name=5)),
        ("number-negative", dump(collective_seq_id=-5)),
        ("number-text", dump(collective_seq_id="x")),
        ("number-huge", dump(collective_seq_id=1 << 100)),
        ("number-nan", dump(time_created_ns=float("nan"))),
        ("sizes-negative", dump(input_sizes=[[-4]])),
        ("sizes-huge", dump(input_sizes=[[1 << 47, 1 << 47]])),
        ("frames-no-list", dump(frames=5)),
        ("frames-no-table", dump(frames=[5])),
        ("version-99", dump(version="99.0")),
        ("version-none", dump(version=None)),
        ("ranks-code", dump(pg_config={"0": {"desc": "d", "ranks": "__import__('os').getpid()"}})),
        ("ranks-nested", dump(pg_config={"0": {"desc": "d", "ranks": "[" * 100_000}})),
    ):
        yield name, pickle.dumps(value)
    call = {"id": 1 << 63, "name": "c10d::barrier", "inputs": {"values": [], "shapes": []}}
    trace = {"schema": "1.1.1-chakra.0.0.4", "nodes": [call, call | {"id": -(1 << 70)}]}
    yield "node-of-64-bits", json.dumps(trace).encode()
    args = {"Concrete Inputs": [], "Input Dims": [], "Ev Idx": 1 << 64}
    trace = {"traceEvents": [{"name": "c10d::barrier", "ts": 1.0, "args": args}]}
    yield "event-of-65-bits", json.dumps(trace).encode()
    yield "nccl-count-of-64-bits", NCCL_LOG
    node = b"\x08" + b"\xff" * 9 + b"\x01" + b"\x18\x07"
    yield "chakra-node-of-64-bits", b"\x02\x08\x01" + bytes([len(node)]) + node
    yield "empty", b""
    yield "xml", xml()
    yield "yaml", b"a: &a [*a, *a]\n"
    yield "random", bytes(range(256)) * 40
    yield "only-protocol", b"\x80\x02"
    yield "truncated", pickle.dumps(dump())[:-40]
    yield "trailing", pickle.dumps(dump()) + b"garbage" * 10


def names_of(makers):
    """The names that a generator gives its inputs."""
    return [name for name, _ in makers]


HOSTILE = [*names_of(payloads("x")), *BOMBS, *names_of(strange())]


def read(data, path):
    """Read bytes as an audit reads a file that was named."""
    path.write_bytes(data)
    parts = read_input(Input(path, was_named=True))
    for part in parts:
        if part.error is not None:
            raise part.error
    return parts


def test_there_are_sixty_of_them():
    """The hostile inputs are at least sixty, under different names."""
    assert len(set(HOSTILE)) == len(HOSTILE) >= 60


@pytest.mark.parametrize("name", names_of(payloads("x")))
def test_a_payload_is_refused_and_not_run(name, tmp_path):
    """A pickle that asks for code is refused, and what it would do has not happened."""
    target = tmp_path / "EXECUTED"
    data = dict(payloads(str(target)))[name]
    with pytest.raises(PlanError) as caught:
        read(data, tmp_path / "rank_0.pickle")
    assert not target.exists()
    if data[:1] == b"\x80" and name != "extension":
        assert caught.value.code == "PG905", caught.value


@pytest.mark.parametrize("name", list(BOMBS))
def test_a_bomb_does_not_go_off(name, tmp_path):
    """An input made to exhaust memory or time is refused or read cheaply, within 1 GiB."""
    path = tmp_path / "rank_0.bin"
    path.write_bytes(BOMBS[name]())
    script = (
        "import sys\n"
        "from pathlib import Path\n"
        "import planguard.audit\n"
        "from planguard.errors import PlanGuardError\n"
        "try:\n"
        "    planguard.audit(Path(sys.argv[1]), world_size=None)\n"
        "except PlanGuardError as error:\n"
        "    print(type(error).__name__, str(error)[:300])\n"
        "rows = Path('/proc/self/status').read_text().splitlines()\n"
        "print(next(row for row in rows if row.startswith('VmHWM')).split()[1])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, path],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert int(done.stdout.split()[-1]) * 1024 < LIMIT, done.stdout


@pytest.mark.parametrize("name", names_of(strange()))
def test_a_strange_input_is_refused_or_read(name, tmp_path):
    """Values of wrong types give one clear error, or a recording; never another exception."""
    refusal = None
    try:
        parts = read(dict(strange())[name], tmp_path / "rank_0.bin")
    except PlanError as error:
        parts, refusal = [], error
    assert bool(parts) != bool(refusal)
    assert refusal is None or refusal.file is not None
    assert len(str(refusal)) < 1000


def test_reading_writes_nothing(tmp_path):
    """After all hostile inputs were read, the folder holds the inputs and nothing else."""
    inputs = {**dict(payloads(str(tmp_path / "EXECUTED"))), **dict(strange())}
    for name, data in inputs.items():
        try:
            read(data, tmp_path / f"{name}_0")
        except PlanError:
            continue
    assert {path.name for path in tmp_path.iterdir()} == {f"{name}_0" for name in inputs}


NAMES = [
    "../../../tmp/EXECUTED",
    "/etc/passwd",
    "<script>alert(1)</script>",
    "</script><img src=x onerror=alert(1)>",
    "javascript:alert(1)",
    "\x1b[2J\x1b[31mred",
    "\x1b]0;title\x07",
    "\u202etxt.exe",
    "a\nverdict: SAFE",
    "\0\r\b",
    "%s%n{0.__class__}",
    "x" * 100_000,
]


@pytest.mark.parametrize("name", NAMES, ids=range(len(NAMES)))
@pytest.mark.parametrize("place", ["profiling_name", "process_group", "filename"])
def test_markup_and_paths_in_names_are_only_text(name, place, tmp_path):
    """Names from a dump reach the terminal, SARIF and JSON escaped, and no path is opened."""
    import planguard.audit

    for rank in (0, 1):
        more = {"state": "started", "retired": False} if rank else {}
        if place == "profiling_name":
            more["profiling_name"] = f"nccl:{name}"
        elif place == "process_group":
            more["process_group"] = (name, name)
            more["pg_config"] = {name: {"name": name, "desc": name, "ranks": "[0, 1]"}}
        else:
            more["frames"] = [{"name": name, "filename": name, "line": 1}]
        (tmp_path / f"rank_{rank}").write_bytes(pickle.dumps(dump(**more)))
    verdict = planguard.audit(tmp_path)
    text = str(verdict)
    assert not any(ord(c) < 32 and c != "\n" for c in text)
    assert "\u202e" not in text
    assert text.splitlines()[-1].startswith("verdict: ")
    assert sum(line.startswith("verdict: ") for line in text.splitlines()) == 1
    assert len(text) < 20_000
    assert {path.name for path in tmp_path.iterdir()} == {"rank_0", "rank_1"}


def test_links_pipes_and_archives_are_left_alone(tmp_path):
    """A folder's links, pipes and zip archives are not followed, opened or unpacked."""
    import planguard.audit

    (tmp_path / "dumps").mkdir()
    for rank in (0, 1):
        (tmp_path / "dumps" / f"rank_{rank}").write_bytes(pickle.dumps(dump()))
    os.mkfifo(tmp_path / "dumps" / "rank_2")
    (tmp_path / "dumps" / "rank_3").symlink_to("/dev/zero")
    (tmp_path / "dumps" / "rank_4").symlink_to("/etc/passwd")
    with zipfile.ZipFile(tmp_path / "dumps" / "rank_5.zip", "w") as archive:
        archive.writestr("../../EXECUTED", "x")
    assert not planguard.audit(tmp_path / "dumps").unsafe
    assert not (tmp_path / "EXECUTED").exists()


def test_a_real_dump_needs_no_global():
    """The opcodes of a dump are data only, so refusing every global loses nothing."""
    opcodes = {opcode.name for opcode, _, _ in pickletools.genops(pickle.dumps(dump(), 2))}
    assert not opcodes & {"GLOBAL", "STACK_GLOBAL", "REDUCE", "INST", "OBJ", "NEWOBJ", "BUILD"}


def test_two_dumps_of_one_rank_are_no_silent_choice(tmp_path):
    """Two files that claim one rank and are the same: it is said which of them is used."""
    import planguard.audit

    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "rank_0").write_bytes(pickle.dumps(dump()))
    verdict = planguard.audit(tmp_path)
    assert any("there several times" in one.message for one in verdict.approximations)


def test_limits_are_restored(tmp_path):
    """The limit of the address space holds while a pickle is read, and not after."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    read(pickle.dumps(dump()), tmp_path / "rank_0")
    assert resource.getrlimit(resource.RLIMIT_AS) == before


@pytest.mark.parametrize(
    "wrong",
    [
        {"bytes": [[[]]]}, {"count": "8"}, {"root": {}}, {"label": 5}, {"dtype": []},
        {"src": [[], 1]},
        {"in_splits": [[1]]}, {"in_splits": 5}, {"tag": []}, {"count": 1 << 64},
        {"op": "batch", "ops": [5]}, {"op": "batch", "ops": [{"op": "send", "bytes": {}}]},
    ],
)  # fmt: skip
def test_a_captured_rank_has_fields_of_the_plan_format(wrong, tmp_path):
    """The log of a captured rank is not a plan that passed the door: its fields are looked at."""
    good = {"op": "all_reduce", "count": 4, "dtype": "f32", "group": "0"}
    log = {"rank": 0, "groups": {"0": [0, 1]}, "actions": [good]}
    assert read(json.dumps(log).encode(), tmp_path / "rank_0.json")
    log["actions"].append(good | wrong)
    with pytest.raises(PlanError, match="fields of a wrong type"):
        read(json.dumps(log).encode(), tmp_path / "rank_0.json")


def header_of_run(path, at, value):
    """Change a number in the header of a log of a recorded run."""
    data = bytearray(path.read_bytes())
    fields = list(HEADER.unpack_from(data))
    fields[at] = value
    HEADER.pack_into(data, 0, *fields)
    path.write_bytes(data)


def test_a_recorded_run_of_two_billion_ranks_is_refused(tmp_path):
    """The number of ranks in the header of a log makes no list of that length."""
    log = RunLogWriter(tmp_path, 0, 2)
    log.end()
    assert recording_of_run(log.path).world_size == 2
    header_of_run(log.path, 9, 2_000_000_000)
    with pytest.raises(PlanError, match="no such rank of 2,000,000,000"):
        recording_of_run(log.path)


@pytest.mark.parametrize("text", [b'"kind"', b'["ops"]', b'{"kind":{}}', b'{"ops":[5]}', b"["])
def test_what_a_run_writes_as_text_has_the_fields_of_a_call(text, tmp_path):
    """Splits and parts of a call stand in a log as JSON, which may be any JSON."""
    log = RunLogWriter(tmp_path, 0, 2)
    fields = {"count": 4, "dtype": "f32", "in_splits": [1, 3], "out_splits": [2, 2]}
    group = log.string('"0,1"')
    log.call(Kind.CALL, "all_to_all_single", work=1, group=group, stack=0, batch=0, fields=fields)
    log.end()
    assert recording_of_run(log.path).ranks[0].actions[0].call.in_splits == (1, 3)
    data = log.path.read_bytes()
    known = json.dumps({"in_splits": [1, 3], "out_splits": [2, 2]}).encode()
    assert data.count(known) == 1
    log.path.write_bytes(data.replace(known, text.ljust(len(known))))
    with pytest.raises(PlanError, match="damaged"):
        recording_of_run(log.path)


def preload_log(path, rank, world, *records):
    """A log of the NCCL interposer: operation, time, communicator, count, peer."""
    head = struct.pack(
        "<8sIIQQQQQiiI", b"PGNCCL1\0", 1, 64, len(records), len(records), 9, 0, 0, rank, world, 0
    )
    rows = b"".join(
        struct.pack("<IHBBQQQQiIiIQ", 64 | 0x80000000, op, 0, 0, at, comm, count, 0, peer, *[0] * 4)
        for op, at, comm, count, peer in records
    )
    path.write_bytes(head.ljust(4096, b"\0") + rows)


@pytest.mark.parametrize(
    ("rank", "world", "place", "size"),
    [
        (0, 2, 0, 1 << 50),
        (0, 2, 5, 2),
        (0, 2_000_000_000, 0, 2),
        (2_000_000_000, -1, 0, 2),
        (3, 2, 0, 2),
    ],
)
def test_a_place_in_a_communicator_is_one_that_can_be(rank, world, place, size, tmp_path):
    """Ranks and sizes in a log of the interposer make no loop of that length; times may be odd."""
    path = tmp_path / "nccl-1.pglog"
    preload_log(path, 0, 2, (50, 1, 7, 2, 0), (1, 1 << 63, 7, 4, -1))
    assert len(read_logs([path]).ranks[0].actions) == 1
    preload_log(path, rank, world, (50, 1, 7, size, place), (1, 1 << 63, 7, 4, -1))
    with pytest.raises(PlanError, match="at most 1,000,000 ranks"):
        read_logs([path])
