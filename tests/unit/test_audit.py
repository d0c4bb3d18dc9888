"""Audits of made-up recordings: every format, every kind of gap, every shape of a wait."""

from __future__ import annotations

import json
import os
import pickle
import threading
import time
from dataclasses import replace

import pytest
from audit_dumps import codes, entry, write

import planguard as pg
from planguard.audit.readers.chakra import read_chakra
from planguard.audit.watch import watch
from planguard.cli import main
from planguard.errors import UsageError


def test_a_finished_run_is_safe(tmp_path):
    """Complete NCCL dumps in which everything completed are SAFE and exit with 0."""
    for rank in (0, 1):
        write(tmp_path, rank, [entry(number=n, seq=n + 1) for n in range(3)])
    verdict = pg.audit(tmp_path)
    assert verdict.safe
    assert codes(verdict) == []
    assert main(["audit", str(tmp_path), "--quiet"]) == 0


def test_a_head_to_head_send_on_nccl_is_a_cycle(tmp_path):
    """Two ranks that wait in sends to each other, receives behind them, are PG001."""
    for rank in (0, 1):
        sends = entry(f"send {rank}->{1 - rank}", number=0, seq=1, state="started")
        write(tmp_path, rank, [sends])
    verdict = pg.audit(tmp_path)
    assert codes(verdict) == ["PG001"]
    assert [(edge.at.rank, edge.waits_for.rank) for edge in verdict.findings[0].cycle] == [
        (0, 1),
        (1, 0),
    ]


def test_a_send_that_nobody_receives_names_the_receiver(tmp_path):
    """A pending send whose receiver did something else is PG208 on the receiver."""
    write(tmp_path, 0, [entry("send 0->1", number=0, seq=1, state="started")])
    write(tmp_path, 1, [])
    finding = pg.audit(tmp_path).findings[0]
    assert (finding.code, finding.ranks) == ("PG208", (1,))


def test_started_against_scheduled_closes_a_cycle_through_two_groups(tmp_path):
    """Two groups whose kernels started in opposite orders are PG004, though all was issued."""
    groups = {"1": [0, 1], "2": [0, 1]}
    for rank in (0, 1):
        states = ("started", "scheduled") if rank == 0 else ("scheduled", "started")
        write(
            tmp_path,
            rank,
            [
                entry(number=n, seq=1, group=name, state=state)
                for n, (name, state) in enumerate(zip(("1", "2"), states, strict=True))
            ],
            groups,
        )
    finding = pg.audit(tmp_path).findings[0]
    assert finding.code == "PG004"
    assert {edge.why for edge in finding.cycle} == {"queue"}


def test_swapped_calls_of_one_shape_are_seen_by_their_call_sites(tmp_path):
    """Two all_reduces of one size in swapped order are PG212, though every round agrees."""
    for rank in range(3):
        lines = (10, 11) if rank != 1 else (11, 10)
        write(
            tmp_path,
            rank,
            [entry(number=n, seq=n + 1, line=line) for n, line in enumerate((*lines, 12))],
            world=3,
        )
    verdict = pg.audit(tmp_path)
    assert (verdict.outcome.value, codes(verdict)) == ("MISMATCH", ["PG212"])
    assert verdict.findings[0].ranks == (1,)


def test_the_deviating_rank_is_blamed_not_the_others(tmp_path):
    """When rank 0 alone differs, rank 0 is named and the seven others are not."""
    for rank in range(8):
        kind = "broadcast" if rank == 0 else "all_reduce"
        write(tmp_path, rank, [entry(kind, number=0, seq=1, state="started")], world=8)
    finding = pg.audit(tmp_path).findings[0]
    assert (finding.code, finding.ranks) == ("PG201", (0,))


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"input_sizes": [[5]], "output_sizes": [[5]]}, "PG202"),
        ({"input_dtypes": ["Half"]}, "PG203"),
    ],
)
def test_what_differs_gets_its_code(change, code, tmp_path):
    """Sizes and element types that differ in a round are PG202 and PG203."""
    for rank in range(3):
        more = change if rank == 2 else {}
        write(tmp_path, rank, [entry(number=0, seq=1, state="started", **more)], world=3)
    finding = pg.audit(tmp_path).findings[0]
    assert (finding.code, finding.ranks) == (code, (2,))


def test_equal_elements_in_other_shapes_are_no_mismatch(tmp_path):
    """A [8] and a [2, 4] tensor hold the same elements and reduce together."""
    for rank, shape in ((0, [8]), (1, [2, 4])):
        write(tmp_path, rank, [entry(number=0, seq=1, input_sizes=[shape], output_sizes=[shape])])
    assert pg.audit(tmp_path).safe


def test_a_missing_dump_is_never_taken_for_fine(tmp_path):
    """A finished run without the dump of one rank is UNKNOWN with PG911."""
    write(tmp_path, 0, [entry(number=0, seq=1)], world=3)
    write(tmp_path, 1, [entry(number=0, seq=1)], world=3)
    verdict = pg.audit(tmp_path)
    assert verdict.unknown
    assert "PG911" in codes(verdict)
    assert main(["audit", str(tmp_path), "--quiet"]) == 3


def test_waiting_for_a_rank_without_a_dump_blames_nobody(tmp_path):
    """Ranks stuck behind one that left no dump are PG501, and its dump is asked for."""
    for rank in (0, 1):
        write(tmp_path, rank, [entry(number=0, seq=1, state="started")], world=3)
    finding = pg.audit(tmp_path).findings[0]
    assert (finding.code, finding.ranks) == ("PG501", (0, 1))
    assert any("dump or a stack of rank 2" in note for note in finding.notes)


def test_a_wrapped_ring_is_aligned_by_its_numbers(tmp_path):
    """Rings that begin at different places still show the missing rank; PG912 counts the rest."""
    write(
        tmp_path,
        0,
        [
            entry(number=n, seq=n + 1, state="completed" if n < 9 else "started")
            for n in range(5, 10)
        ],
    )
    write(tmp_path, 1, [entry(number=n, seq=n + 1) for n in range(3, 9)])
    verdict = pg.audit(tmp_path)
    assert (verdict.findings[0].code, verdict.findings[0].ranks) == ("PG007", (1,))
    assert "#10" in verdict.findings[0].message
    assert "PG912" in codes(verdict)


def test_skewed_clocks_change_nothing_but_a_note(tmp_path):
    """Two seconds between two clocks are PG508, a note, and the answer stays."""
    for rank in range(3):
        entries = [entry(number=n, seq=n + 1) for n in range(5)]
        entries += [entry(number=5, seq=6, state="started")] if rank else []
        for one in entries:
            one["time_created_ns"] += 2_000_000_000 * (rank == 2) + one["record_id"] * 1_000_000_000
        write(tmp_path, rank, entries, world=3)
    verdict = pg.audit(tmp_path)
    assert codes(verdict) == ["PG007", "PG508"]
    assert verdict.findings[0].ranks == (0,)
    assert verdict.findings[1].ranks == (2,)


def test_versions_that_differ_are_told(tmp_path):
    """A rank with another library version is PG507."""
    for rank in range(3):
        write(tmp_path, rank, [], world=3, comm_lib_version="2.27" if rank else "2.21")
    assert "PG507" in codes(pg.audit(tmp_path))


def test_a_batch_takes_the_state_of_its_launch(tmp_path):
    """Members of a coalesced launch, whose own state is never updated, completed with it."""
    for rank in (0, 1):
        pair = [
            entry(f"send {rank}->{1 - rank}", number=0, seq=1, state="scheduled"),
            entry(f"recv {rank}<-{1 - rank}", number=1, seq=1, state="scheduled"),
            entry("coalesced", number=2, seq=1, is_p2p=True, p2p_seq_id=1),
        ]
        write(tmp_path, rank, pair)
    assert pg.audit(tmp_path).safe


def test_the_host_name_in_a_file_name_is_not_the_rank(tmp_path):
    """Names with several numbers that differ ask for --prefix, and --prefix settles it."""
    for rank in (0, 1):
        write(tmp_path, rank, [entry(number=0, seq=1)])
        (tmp_path / f"rank_{rank}").rename(tmp_path / f"host{7 + rank}_trace_{rank}")
    with pytest.raises(UsageError, match="which number"):
        pg.audit(tmp_path)
    assert pg.audit(tmp_path, prefix="trace_").safe


def test_json_and_pickle_say_the_same(tmp_path):
    """The JSON form of a dump, tuples as lists, gives the same verdict."""
    for rank in (0, 1):
        write(tmp_path, rank, [entry(number=0, seq=1, state="started")] if rank else [])
    first = pg.audit(tmp_path)
    for path in list(tmp_path.iterdir()):
        written = path.stat().st_mtime_ns
        path.write_text(json.dumps(pickle.loads(path.read_bytes())))  # noqa: S301  our own
        os.utime(path, ns=(written, written))
    assert codes(pg.audit(tmp_path)) == codes(first) == ["PG007"]


def test_a_stack_with_locals_names_the_peer(tmp_path):
    """A py-spy dump with locals turns a gloo send that was not recorded into one with its peer."""
    for rank in (0, 1):
        write(tmp_path, rank, [entry(number=0, seq=1, profiling_name="gloo:barrier", retired=True)])
        (tmp_path / f"stack_rank_{rank}.txt").write_text(
            "Process 1: python train.py\n"
            'Thread 1 (idle): "MainThread"\n'
            "    send (torch/distributed/distributed_c10d.py:2753)\n"
            "        Arguments:\n"
            f"            dst: {1 - rank}\n"
            "            tag: 0\n"
            f"    step (train.py:{40 + rank})\n"
            "    <module> (train.py:90)\n"
        )
    finding = pg.audit(tmp_path).findings[0]
    assert finding.code == "PG001"
    assert finding.primary.source.line == 40


KINETO = [
    ("c10d::allreduce_", ["", "", "", "", "False", "-1"], [[[4]], [], [], [], [], []]),
    ("c10d::broadcast_", ["", "", "1", "0", "False", "-1"], [[[4]], [], [], [], [], []]),
    ("c10d::send", ["", "", "1", "5"], [[[4]], [], [], []]),
]


def kineto(rank, calls):
    """A Kineto trace of gloo."""
    events = [
        {
            "name": name,
            "ts": 10.0 + number,
            "args": {"Concrete Inputs": values, "Input Dims": dims, "Input type": [""] * len(dims)},
        }
        for number, (name, values, dims) in enumerate(calls)
    ]
    world = {"pg_name": "0", "pg_desc": "default_pg", "ranks": [0, 1]}
    info = {"backend": "gloo", "rank": rank, "world_size": 2, "pg_config": [world]}
    return json.dumps({"distributedInfo": info, "traceEvents": events})


def test_a_kineto_trace_has_roots_peers_and_tags(tmp_path):
    """Kineto traces of two ranks match, and a send without a receive is found."""
    receive = ("c10d::recv_", ["", "", "0", "5"], [[[4]], [], [], []])
    (tmp_path / "a.json").write_text(kineto(0, KINETO))
    (tmp_path / "b.json").write_text(kineto(1, [*KINETO[:2], receive]))
    assert not pg.audit(tmp_path).unsafe
    (tmp_path / "b.json").write_text(kineto(1, KINETO[:2]))
    verdict = pg.audit(tmp_path)  # the profiler of rank 1 may have stopped earlier
    assert (codes(verdict), verdict.errors) == (["PG208", "PG904"], ())
    roots = json.loads(
        kineto(
            1,
            [
                KINETO[0],
                (
                    "c10d::broadcast_",
                    ["", "", "0", "0", "False", "-1"],
                    [[[4]], [], [], [], [], []],
                ),
            ],
        )
    )
    (tmp_path / "a.json").write_text(kineto(0, KINETO[:2]))
    (tmp_path / "b.json").write_text(json.dumps(roots))
    assert codes(pg.audit(tmp_path)) == ["PG205"]


def execution_trace(calls):
    """An ExecutionTrace of one rank, its groups as text in a node."""
    groups = json.dumps([{"pg_name": "0", "pg_desc": "default_pg", "ranks": [], "group_size": 2}])
    nodes = [{"id": 1, "name": "## process_group:init ##", "inputs": {"values": [groups]}}]
    nodes += [
        {"id": 2 + number, "name": name, "inputs": {"values": values, "shapes": [[4]], "types": []}}
        for number, (name, values) in enumerate(calls)
    ]
    return json.dumps({"schema": "1.1.1-chakra.0.0.4", "nodes": nodes})


def test_an_execution_trace_is_read(tmp_path):
    """ExecutionTraces take their rank from the name and their groups from the init node."""
    call = ("c10d::allreduce_", [[], "<Object>", "<Object>", "<None>", False, -1])
    for rank in (0, 1):
        (tmp_path / f"et_rank_{rank}.json").write_text(execution_trace([call] * (2 - rank)))
    finding = pg.audit(tmp_path).findings[0]
    assert (finding.code, finding.ranks) == ("PG007", (1,))


def varint(number):
    """A protobuf varint."""
    out = b""
    while number > 127:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])


def message(*fields):
    """A protobuf message of numbers and bytes."""
    out = b""
    for number, value in fields:
        if isinstance(value, int):
            out += varint(number << 3) + varint(value)
        else:
            out += varint(number << 3 | 2) + varint(len(value)) + value
    return out


def chakra(*nodes):
    """A Chakra file: metadata, then nodes, each with its length in front."""
    messages = [message((1, b"0.0.4")), *nodes]
    return b"".join(varint(len(one)) + one for one in messages)


def node(number, kind, *deps, **attributes):
    """A Chakra node."""
    about = [
        (10, message((1, name.encode()), (9, value) if isinstance(value, int) else (29, value)))
        for name, value in attributes.items()
    ]
    return message((1, number), (2, b"x"), (3, kind), *[(5, dep) for dep in deps], *about)


def test_a_chakra_trace_is_read_in_the_order_of_its_dependencies():
    """Communications of a Chakra file come in an order that its dependencies allow."""
    data = chakra(
        node(1, 7, 3, comm_type=0, comm_size=64),
        node(2, 4),
        node(3, 5, 2, comm_dst=1, comm_size=16, comm_tag=3),
    )
    part = read_chakra(data, "x")
    assert [one.call.text() for one in part.track] == ["send -> 1  16 B", "all_reduce  64 B"]
    assert part.track[0].call.tag == 3


def nccl_log(rank, calls, size=2):
    """An NCCL log of one process."""
    head = f"host:{100 + rank}:{200 + rank} [{rank}] NCCL INFO "
    made = (
        f"comm 0xa{rank} rank {rank} nranks {size} cudaDev 0 busId 1 commId 0xfeed - Init COMPLETE"
    )
    rows = [f"{head}ncclCommInitRank {made}"]
    rows += [
        f"{head}{op}: opCount {number:x} sendbuff 0x1 recvbuff 0x2 count {count} datatype 7 "
        f"op {reduce} root {root} comm 0xa{rank} [nranks={size}] stream 0x3"
        for number, (op, count, reduce, root) in enumerate(calls)
    ]
    return "\n".join(rows) + "\n"


@pytest.mark.parametrize(
    ("last", "code"),
    [
        (("AllReduce", 8, 0, 0), "PG904"),  # it says of no call that it ended
        (("AllGather", 8, 0, 0), "PG201"),
        (("AllReduce", 9, 0, 0), "PG202"),
        (("AllReduce", 8, 2, 0), "PG204"),
        (None, "PG007"),
    ],
)
def test_nccl_logs_are_joined_by_their_communicators(last, code, tmp_path):
    """Logs of several processes, in one file or several, show kind, size and reduce operation."""
    calls = [("Broadcast", 4, 0, 1), ("AllReduce", 8, 0, 0)]
    other = [calls[0]] + ([last] if last else [])
    (tmp_path / "nccl.log").write_text(nccl_log(0, calls) + nccl_log(1, other))
    verdict = pg.audit(tmp_path)
    # A call that rank 1's log lacks may still come: it does not say which calls ended.
    assert codes(verdict) == [code] + ["PG904"] * (code == "PG007")
    assert verdict.unknown is (code in ("PG007", "PG904"))


def test_two_kinds_of_recording_complete_each_other(tmp_path):
    """A Flight Recorder dump of one rank and a Kineto trace of the other are one recording."""
    write(tmp_path, 0, [entry(number=0, seq=1), entry(number=1, seq=2, state="started")])
    (tmp_path / "kineto_rank_1.json").write_text(kineto(1, KINETO[:1]))
    finding = pg.audit(tmp_path).findings[0]
    assert (finding.code, finding.ranks) == ("PG007", (1,))


def test_a_captured_plan_is_compared_with_the_intended_one(tmp_path):
    """`planguard audit CAPTURED --plan INTENDED` reports the first differing call as PG503.

    Both are plans, and no run was seen: nothing is decided of one.
    """

    def plan(*ops):
        return {
            "schema": "planguard.plan/1",
            "world_size": 2,
            "ranks": {
                "0-1": {
                    "actions": [
                        {"op": op, "bytes": 4} if op != "barrier" else {"op": op} for op in ops
                    ]
                }
            },
        }

    (tmp_path / "captured.plan.json").write_text(json.dumps(plan("barrier", "all_reduce")))
    (tmp_path / "intended.plan.json").write_text(json.dumps(plan("all_reduce", "barrier")))
    files = [str(tmp_path / "captured.plan.json"), "--plan", str(tmp_path / "intended.plan.json")]
    assert main(["audit", *files, "--quiet"]) == 1
    verdict = pg.audit(files[0], plan=files[2])
    assert codes(verdict) == ["PG503", "PG904"]
    assert verdict.unknown
    assert verdict.findings[0].ranks == (0, 1)


def test_a_log_of_a_captured_rank_is_read(tmp_path):
    """Logs that capture writes, actions as in plan files, are recordings of one rank each."""
    for rank in (0, 1):
        actions = [{"op": "all_reduce", "group": "0,1", "count": 4, "dtype": "f32"}]
        log = {"rank": rank, "actions": actions, "groups": {"0,1": [0, 1]}, "notes": []}
        (tmp_path / f"{rank}.json").write_text(json.dumps(log))
    assert pg.audit(tmp_path).safe


def test_another_execution_of_a_finished_run_is_reported(tmp_path):
    """A run that passed with two groups used in opposite orders may hang in another execution."""
    groups = {"1": [0, 1], "2": [0, 1]}
    for rank in (0, 1):
        order = ("1", "2") if rank == 0 else ("2", "1")
        write(
            tmp_path, rank, [entry(number=n, seq=1, group=g) for n, g in enumerate(order)], groups
        )
    verdict = pg.audit(tmp_path)
    assert verdict.outcome.value == "POTENTIAL_DEADLOCK"
    assert verdict.findings[0].certainty == "some-execution"


def test_watch_waits_for_a_second_look(tmp_path):
    """A live job is called stuck when two looks find the same ranks in the same calls."""

    def fill():
        time.sleep(0.3)
        for rank in (0, 1):
            write(tmp_path, rank, [entry(number=0, seq=1, state="started")] if rank else [])

    writer = threading.Thread(target=fill)
    writer.start()
    from planguard.report import Result

    looks = list(
        watch(str(tmp_path), lambda: Result("x", verdict=pg.audit(tmp_path)), interval=0.2, looks=8)
    )
    writer.join()
    assert looks[0].message.endswith("no dump yet")
    final = [look for look in looks if look.is_final]
    assert final
    assert codes(final[0].result.verdict) == ["PG007"]


@pytest.mark.parametrize(
    "output", ["json", "jsonl", "sarif", "github", "gitlab", "junit", "concise"]
)
def test_every_format_carries_an_audit(output, tmp_path, capsys):
    """The machine formats of check write audits as well, with the exit code of findings."""
    for rank in (0, 1):
        write(tmp_path, rank, [entry(number=0, seq=1, state="started")] if rank else [])
    assert main(["audit", str(tmp_path), "--format", output]) == 1
    assert "PG007" in capsys.readouterr().out


def test_many_ranks_are_read_in_processes(tmp_path):
    """A recording of 256 ranks, read by several processes, names the one that is missing."""
    for rank in range(256):
        count = 3 if rank != 77 else 2
        state = [*["completed"] * 2, "started"]
        write(
            tmp_path,
            rank,
            [entry(number=n, seq=n + 1, state=state[n]) for n in range(count)],
            world=256,
        )
    finding = pg.audit(tmp_path).findings[0]
    assert (finding.code, finding.ranks) == ("PG007", (77,))
    assert any("255 of 255" in note for note in finding.notes)


def test_what_stands_behind_a_cycle_on_a_device_never_starts(tmp_path):
    """On NCCL the host goes on and issues it, on gloo it is never reached: the model says which."""
    for rank in range(2):
        write(tmp_path, rank, [entry(f"send {rank}->{1 - rank}", number=0, seq=1, state="started")])
    verdict = pg.audit(tmp_path)
    assert "never starts" in str(verdict)
    assert "never reached" not in str(verdict)
    assert "never reached" in str(replace(verdict, model="gloo"))
