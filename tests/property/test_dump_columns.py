"""A dump whose columns the native kernel reads says what it says when it is unpickled."""

from __future__ import annotations

import pickle
import random
from typing import Any

import pytest

from planguard import kernels
from planguard.audit.readers import flight_recorder
from planguard.audit.readers.flight_recorder import read_flight_recorder
from planguard.errors import PlanError

pytestmark = pytest.mark.skipif(
    kernels.describe()["implementation"] != "native", reason="the kernel is native"
)

COLUMNS = ("call", "position", "progress", "created", "number", "batch", "calls")
FRAMES = [
    [
        {"name": "all_reduce", "filename": "/x/torch/distributed/distributed_c10d.py", "line": 3},
        {"name": "step", "filename": "train.py", "line": line},
    ]
    for line in (10, 20)
]
NCCL = ("nccl:all_reduce", "nccl:_all_gather_base", "nccl:send 0->1", "nccl:recv 0<-1")
GLOO = ("gloo:all_reduce", "gloo:all_gather", "gloo:barrier")


def _dump(rng: random.Random, titles: tuple[str, ...]) -> dict[str, Any]:
    """A dump as recorders write it, with calls, states and numbers drawn at random."""
    entries: list[dict[str, Any]] = []
    record, is_numbered = rng.randrange(3), rng.random() < 0.8
    for number in range(rng.randrange(1, 30)):
        title = rng.choice(titles)
        is_pair = " " in title or (title.endswith("coalesced") and rng.random() < 0.5)
        record += rng.choice([1, 1, 1, 1, 0])
        entries.append(
            {
                "frames": rng.choice(FRAMES),
                "record_id": record,
                "process_group": ("0", "default_pg") if rng.random() < 0.7 else ("1", "tp\u00e9"),
                "collective_seq_id": number // 2,
                "p2p_seq_id": number // 3,
                "op_id": number,
                "profiling_name": title,
                "time_created_ns": 1_700_000_000_000_000_000 + number,
                "input_sizes": [[rng.choice([4, 8])]],
                "output_sizes": [[8, rng.choice([2, 300, 70000])]],
                "input_dtypes": ["Float"],
                "output_dtypes": ["Float"],
                "state": rng.choice(["completed", "started", "scheduled", "odd"]),
                "retired": rng.random() < 0.5,
                "is_p2p": is_pair,
            }
        )
        if is_numbered:
            entries[-1]["pg_id"] = rng.randrange(2)
    if rng.random() < 0.2:
        rng.shuffle(entries)
    config = {
        "0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1]"},
        "1": {"name": "1", "desc": "tp\u00e9", "ranks": [0, 1]},
    }
    last = rng.randrange(-1, 20)
    status = {
        "last_enqueued_collective": last,
        "last_started_collective": -1,
        "last_completed_collective": last - rng.randrange(2),
    }
    dump = {
        "pg_config": config,
        "pg_status": {rng.choice("013"): status},
        "version": "2.10",
        "entries": entries,
        "comm_lib_version": "2.27",
        "rank": rng.choice([0, 1, "1", None]),
    }
    if rng.random() < 0.2:
        del dump[rng.choice(sorted(dump))]
    return dump


def _said(data: bytes) -> object:
    """What a dump says, or that it is refused; what the refusal is about may differ."""
    try:
        part = read_flight_recorder(data, "a dump")
    except PlanError as error:
        return error.code
    track = {name: list(getattr(part.track, name)) for name in COLUMNS}
    return track, {**part.__dict__, "track": None}


def _both(data: bytes, patch: pytest.MonkeyPatch) -> tuple[object, object, bool]:
    """What is said with the kernel and without, and whether the kernel took the dump."""
    took = kernels.use("native").dump_columns(data, {}) is not None
    native = _said(data)
    with patch.context() as without:
        without.setattr(flight_recorder, "dump_columns", lambda *_: None)
        return native, _said(data), took


@pytest.mark.parametrize("titles", [NCCL, GLOO, (*NCCL, "nccl:coalesced")])
def test_columns_say_what_the_objects_say(
    titles: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In every protocol, with shared and with repeated parts, the two readers say the same."""
    rng, taken = random.Random(19), 0
    for _ in range(300):
        dump = _dump(rng, titles)
        for protocol in (2, 3, 4, 5):
            native, general, took = _both(pickle.dumps(dump, protocol), monkeypatch)
            assert native == general, dump
            taken += took
    assert taken > 900


def test_a_damaged_dump_is_read_alike_or_not_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes are changed, cut out and doubled: the kernel never finds what unpickling does not."""
    rng, taken = random.Random(20), 0
    for _ in range(4000):
        dump = _dump(rng, (*NCCL, *GLOO, "nccl:coalesced"))
        data = bytearray(pickle.dumps(dump, rng.choice([2, 4])))
        for _ in range(rng.randrange(1, 4)):
            place = rng.randrange(len(data))
            match rng.randrange(4):
                case 0:
                    data[place] = rng.randrange(256)
                case 1:
                    del data[place : place + rng.randrange(1, 9)]
                case 2:
                    data[place:place] = data[place : place + rng.randrange(1, 9)]
                case _:
                    data[place] ^= 1 << rng.randrange(8)
            if len(data) < 3:
                break
        native, general, took = _both(bytes(data), monkeypatch)
        # A damaged number asks for gigabytes or not, by what the process has free: PG905 or PG901.
        both = ["PG901" if said == "PG905" else said for said in (native, general)]
        assert both[0] == both[1], bytes(data)
        taken += took
    assert taken > 200


def test_what_grows_without_end_is_left_to_the_general_reader() -> None:
    """Lists that hold themselves, or each other ten times thirty levels deep, cost no time."""
    read = kernels.use("native").dump_columns
    entry = dict(_dump(random.Random(1), NCCL)["entries"][0])
    deep: list[Any] = [1]
    for _ in range(30):
        deep = [deep] * 10
    self_made: list[Any] = []
    self_made.append(self_made)
    for frames in (deep, self_made):
        dump = {"version": "2.10", "entries": [entry | {"frames": frames}]}
        assert read(pickle.dumps(dump, 2), {}) is None
    for odd in (True, 1.5, {1: 2}, b"x"):
        dump = {"version": "2.10", "entries": [entry | {"input_sizes": [[odd]]}]}
        assert read(pickle.dumps(dump, 4), {}) is None


def test_nothing_is_read_behind_the_end() -> None:
    """A pickle that ends anywhere, or asks for more than there is, is none for the kernel."""
    data = pickle.dumps(_dump(random.Random(2), NCCL), 4)
    read = kernels.use("native").dump_columns
    assert read(data, {}) is not None
    assert all(read(data[:end], {}) is None for end in range(len(data)))
    assert read(b"\x80\x02r\xff\xff\xff\xff.", {}) is None
    assert read(b"\x80\x02X\xff\xff\xff\xff.", {}) is None
