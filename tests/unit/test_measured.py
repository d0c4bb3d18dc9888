from __future__ import annotations

import json
import struct
from dataclasses import replace
from pathlib import Path

import pytest

import planguard
from planguard.audit.timeline import drawn_recording
from planguard.capture.nccl.preload_log import HEADER_BYTES
from planguard.cli import main
from planguard.simulate.measured import AS_RECORDED, Mark, measured
from planguard.simulate.schedule import Step, schedule

TRACES = Path(__file__).resolve().parents[1] / "corpus" / "traces" / "ddp-2-steps"


def stages():
    """Two stages of two ranks: a message from each rank of the first to one of the second, then an
    all-reduce in each stage.
    """
    builder = planguard.PlanBuilder(world_size=4)
    for number in range(2):
        builder.group(f"stage{number}", [2 * number, 2 * number + 1])
    for rank in range(4):
        program = builder.program(rank)
        program.compute("f", duration_us=100 + 10 * rank)
        if rank < 2:
            program.send(peer=rank + 2, bytes=1000)
        else:
            program.recv(peer=rank - 2, bytes=1000)
        program.all_reduce(group=f"stage{rank // 2}", bytes=4000)
    return builder.build()


def marks(found, offsets):
    """Return a schedule as it would be recorded by clocks that differ."""
    return [
        Mark(s.rank, s.action, s.member, s.start + offsets[s.rank], s.end + offsets[s.rank])
        for s in found.spans
    ]


@pytest.mark.parametrize("offsets", [(0, 0, 0, 0), (5e6, -3e6, 77.5, 1e3), (0, 1e8, -1e8, 4e8)])
def test_clocks_that_differ_are_brought_together(offsets):
    """Whatever the offsets of the clocks, aligned times are those of the run: by the first
    all-reduce inside a stage, by the first message between stages.
    """
    plan = stages()
    true = schedule(plan)
    found = measured(plan, marks(true, offsets))
    assert found.basis == "measured"
    assert found.makespan == pytest.approx(true.makespan, abs=1e-3)
    known = {(s.rank, s.action): s for s in true.spans}
    assert len(found.spans) == len(known)
    for span in found.spans:
        one = known[span.rank, span.action]
        assert (span.start, span.end) == pytest.approx((one.start, one.end), abs=1e-3)
        assert span.kind == one.kind


def test_members_of_a_match_are_found_by_position():
    """Waiting ends when the last member is there, in measured times as in modeled ones."""
    plan = stages()
    true = schedule(plan)
    found = measured(plan, marks(true, (0, 9e5, 0, 3)))
    rounds = [s for s in found.spans if s.kind == "collective"]
    assert len({s.match for s in rounds}) == 2
    for span in rounds:
        members = [s.start for s in rounds if s.match == span.match]
        assert span.ready == pytest.approx(max(members), abs=1e-3)
    pairs = {s.match for s in found.spans if s.kind in {"send", "recv"}}
    assert len(pairs) == 2


def test_a_late_rank_stays_late():
    """Alignment is by the end of the first all-reduce: who came to it late is still seen."""
    builder = planguard.PlanBuilder(world_size=2)
    for rank in range(2):
        builder.program(rank).compute("f", duration_us=1)
        builder.program(rank).all_reduce(bytes=4)
    plan = builder.build()
    seen = [Mark(0, 0, None, 0, 100), Mark(0, 1, None, 100, 1010),
            Mark(1, 0, None, 7000, 8000), Mark(1, 1, None, 8000, 8010)]  # fmt: skip
    found = {(s.rank, s.action): s for s in measured(plan, seen).spans}
    assert found[1, 1].start - found[0, 1].start == pytest.approx(900)
    assert found[0, 1].ready == pytest.approx(1000)


def test_what_did_not_end_never_ends_and_unaligned_clocks_are_told():
    """A call without an end has none in the schedule; without a common moment nothing is moved."""
    builder = planguard.PlanBuilder(world_size=2)
    for rank in range(2):
        builder.program(rank).all_reduce(bytes=4)
    plan = builder.build()
    found = measured(plan, [Mark(0, 0, None, 50, None), Mark(1, 0, None, 80, None)])
    assert [(s.start, s.end) for s in found.spans] == [(0, None), (30, None)]
    assert not found.complete
    assert AS_RECORDED in found.notes
    far = measured(plan, [Mark(0, 0, None, 50, None), Mark(1, 0, None, 5e12, None)])
    assert [s.start for s in far.spans] == [0, 0]
    assert any("another zero" in note for note in far.notes)


def test_a_trace_of_the_profiler_is_drawn_as_it_ran():
    """Two recorded steps of DDP: sixteen calls of which each meets its partner, computations with
    their phases between them, in the order in which the host issued them, and two steps.
    """
    drawn = drawn_recording([TRACES])
    found = drawn.schedule
    assert (found.basis, found.complete) == ("measured", True)
    assert [step.name for step in found.steps] == ["ProfilerStep#1", "ProfilerStep#2"]
    rounds = [s for s in found.spans if s.kind == "collective"]
    assert len(rounds) == 16
    assert {len([s for s in rounds if s.match == m]) for m in {s.match for s in rounds}} == {2}
    for rank in range(2):
        own = [s for s in found.spans if s.rank == rank]
        assert [s.action for s in own] == sorted(s.action for s in own)
    plan = found.plan
    phases = {plan.action_at(s.rank, s.action).fields.get("phase") for s in found.spans
              if s.kind == "compute"}  # fmt: skip
    assert phases == {"forward", "backward", "optimizer"}
    assert planguard.check(plan).outcome.value == "UNKNOWN"  # a picture is never decided SAFE
    reduced = [s.end for s in rounds if plan.action_at(s.rank, s.action).op == "all_reduce"]
    assert reduced[0] == pytest.approx(reduced[len(reduced) // 2])  # the ends that were aligned


def test_a_kernel_of_a_gpu_trace_gives_the_time_of_its_call(tmp_path):
    """Where a trace has kernels, a call lasts as long as its kernel, computations are kernels, and
    a step is the profiler's.
    """

    def event(name, cat, ts, dur, **args):
        return {"ph": "X", "name": name, "cat": cat, "ts": ts, "dur": dur, "pid": 0, "tid": 1,
                "args": args}  # fmt: skip

    about = {"Collective name": "allreduce", "In msg nelems": 1024, "dtype": "Float",
             "Process Group Name": "0"}  # fmt: skip
    for rank in range(2):
        late = 40.0 * rank
        events = [
            event("ProfilerStep#5", "user_annotation", 10.0, 900.0),
            event("aten::mm", "cpu_op", 20.0, 5.0, **{"External id": 7}),
            event("record_param_comms", "cpu_op", 30.0, 4.0, **about, **{"External id": 8}),
            event("gemm", "kernel", 100.0 + late, 50.0, **{"External id": 7}),
            event("ncclDevKernel_AllReduce", "kernel", 160.0 + late, 200.0 - late,
                  **{"External id": 8}),
        ]  # fmt: skip
        info = {"backend": "nccl", "rank": rank, "world_size": 2}
        text = json.dumps({"traceEvents": events, "distributedInfo": info})
        (tmp_path / f"rank{rank}.json").write_text(text)
    found = drawn_recording([tmp_path]).schedule
    spans = {(s.rank, s.kind): s for s in found.spans}
    assert spans[0, "collective"].end - spans[0, "collective"].start == pytest.approx(200)
    assert spans[0, "compute"].end - spans[0, "compute"].start == pytest.approx(50)
    late = spans[1, "collective"].start - spans[0, "collective"].start
    assert late == pytest.approx(40)
    assert spans[0, "collective"].ready == pytest.approx(spans[1, "collective"].start)
    assert found.steps[0].name == "ProfilerStep#5"
    assert planguard.load(found.plan.source).action_at(0, 0).op in {"compute", "all_reduce"}


def test_findings_of_an_audit_point_into_the_drawing(root):
    """A hung job's dumps are drawn with the audit's verdict, and its places are those of the plan
    that is drawn; what is stuck never ends.
    """
    from planguard.audit.placed import placed

    folder = root / "examples" / "audit" / "skipped"
    drawn = drawn_recording([folder])
    verdict = placed(planguard.audit(folder), drawn.places)
    first = verdict.findings[0].primary
    view = drawn.schedule.plan.action_at(first.rank, first.action)
    assert view.op == first.op
    stuck = {(s.rank, s.action) for s in drawn.schedule.spans if s.end is None}
    assert {rank for rank, _ in stuck} == {0, 2}


def preload_log(file, rank, calls):
    """Write a log of the NCCL interposer as its native code lays it out."""
    header = struct.pack("<8sIIQQQQQiiI", b"PGNCCL1\0", 1, 64, 64, 0, 9, 0, 0, rank, 2, 0)
    rows = [(50, 1, 0, 10, 0xAB, 2, 0, rank)]
    rows += [row for op, count, begin, end in calls
             for row in ((op, 0, 7, begin, 0xAB, count, 0, -1), (op, 1, 7, end, 0xAB, count, 0, -1))
             if row[3] is not None]  # fmt: skip
    records = b"".join(
        struct.pack("<IHBBQQQQiIiIQ", 64 | 0x80000000, op, phase, dtype, time, comm, count,
                    stream, peer, 1, 0, 0, 0)
        for op, phase, dtype, time, comm, count, stream, peer in rows
    )  # fmt: skip
    header = header[:24] + struct.pack("<Q", len(rows)) + header[32:]
    file.write_bytes(header.ljust(HEADER_BYTES, b"\0") + records.ljust(64 * 64, b"\0"))


def test_a_log_of_the_interposer_is_drawn_with_the_hosts_times(tmp_path, capsys):
    """A call lasts from its record before to its record after; one that never came back never
    ends.
    """
    from planguard.capture.nccl.preload_times import schedule_of_logs

    for rank in range(2):
        last = (1, 16, 9000 + rank, None if rank else 9500)
        preload_log(tmp_path / f"nccl-{rank}.pglog", rank, [(1, 8, 1000, 3000), last])
    found = schedule_of_logs([tmp_path])
    rounds = [s for s in found.spans if s.kind == "collective"]
    assert [(s.rank, s.start, s.end) for s in rounds] == [
        (0, 0.0, 2.0), (0, 8.0, 8.5), (1, 0.0, 2.0), (1, 8.001, None),
    ]  # fmt: skip
    assert main(["report", str(tmp_path)]) == 0
    assert "measured" in capsys.readouterr().out


def test_the_command_draws_logs_and_traces(tmp_path, capsys, root):
    """A folder of traces, a folder of dumps: text and a page, measured."""
    for folder in (TRACES, root / "examples" / "audit" / "triangle"):
        assert main(["report", str(folder)]) == 0
        assert "us, measured" in capsys.readouterr().out
        out = tmp_path / f"{folder.name}.html"
        assert main(["report", str(folder), "-o", str(out)]) == 0
        assert out.read_bytes().startswith(b"<!doctype html>")
    assert main(["report", str(TRACES / "rank0.json.gz"), "-o", str(tmp_path / "t.json.gz")]) == 0


def test_what_steps_move_adds_up_to_the_whole():
    """The traffic of the steps and the rest are the traffic of the run, cell by cell."""
    from planguard.report.page.steps import step_traffic
    from planguard.simulate.traffic import traffic

    plan = stages()
    true = schedule(plan)
    half = 115.0
    ranges = [dict.fromkeys(range(4), span) for span in ((0.0, half), (half, 1e6))]
    steps = tuple(Step(f"step {n}", own) for n, own in enumerate(ranges))
    parts = step_traffic(replace(true, steps=steps), "ring")
    whole = traffic(plan).total()
    added: dict[tuple[int, int], int] = {}
    for part in parts:
        for pair, (size, _) in part.total().items():
            added[pair] = added.get(pair, 0) + size
    assert added == {pair: size for pair, (size, _) in whole.items()}
    assert all(part.total() for part in parts)


def gpu_trace(rank, events):
    """Return a trace made by hand from Kineto's documented format, of one rank of two."""
    rows = [
        {
            "ph": "X",
            "name": name,
            "cat": cat,
            "ts": ts,
            "dur": dur,
            "pid": 0,
            "tid": 7,
            "args": args,
        }
        for name, cat, ts, dur, args in events
    ]
    info = {"backend": "nccl", "rank": rank, "world_size": 2}
    return json.dumps({"traceEvents": rows, "distributedInfo": info})


COPIES = [
    ("Memcpy HtoD (Pinned -> Device)", 100.0, 10.0, {"bytes": 4096, "device": 0}),
    ("Memcpy DtoH (Device -> Pageable)", 120.0, 5.0, {"bytes": 512, "device": 0}),
    ("Memcpy DtoD (Device -> Device)", 130.0, 1.0, {"bytes": 64, "device": 0}),
    ("Memcpy PtoP (Device -> Device)", 140.0, 4.0,
     {"bytes": 8192, "device": 0, "fromDevice": 0, "inDevice": 0, "toDevice": 1}),
    ("Unified Memory Memcpy HtoD", 150.0, 2.0, {"bytes": 65536, "device": 0}),
    ("Memcpy HtoA (Host -> Array)", 160.0, 2.0, {"bytes": 9, "device": 0}),
]  # fmt: skip


def test_copies_of_a_gpu_trace_are_moved_bytes_with_times(tmp_path):
    """Copies to and from the host are the row H, inside a device the diagonal, to a peer a cell of
    two ranks; Unified Memory stands apart; each is drawn when it ran.
    """
    from planguard.simulate.traffic import HOST, traffic

    events = [(name, "gpu_memcpy", ts, dur, args) for name, ts, dur, args in COPIES]
    (tmp_path / "rank0.json").write_text(gpu_trace(0, events))
    (tmp_path / "rank1.json").write_text(gpu_trace(1, []))
    found = drawn_recording([tmp_path]).schedule
    moved = {
        (key.primitive, pair): size
        for key, pairs in traffic(found.plan).edges.items()
        for pair, (size, _) in pairs.items()
    }
    assert moved == {
        ("h2d", (HOST, 0)): 4096, ("d2h", (0, HOST)): 512, ("d2d", (0, 0)): 64,
        ("d2d", (0, 1)): 8192, ("h2d (unified)", (HOST, 0)): 65536,
    }  # fmt: skip
    drawn = [s for s in found.spans if s.kind == "copy"]
    assert [round(s.end - s.start, 3) for s in drawn] == [10, 5, 1, 4, 2]
    assert any("order of the devices" in note for note in found.notes)
    assert planguard.check(found.plan).outcome.value == "UNKNOWN"


def test_kernels_of_nccl_that_describe_themselves_are_calls(tmp_path):
    """A trace without ``record_param_comms`` shows the collectives that its kernels describe, with
    the times of the kernels.
    """
    about = {"Collective name": "allreduce", "In msg nelems": 1024, "Out msg nelems": 1024,
             "Group size": 2, "dtype": "Float", "Process Group Name": "0"}  # fmt: skip
    for rank in range(2):
        events = [("ncclDevKernel_AllReduce_Sum_f32_RING_LL", "kernel", 50.0, 20.0, about),
                  ("gemm", "kernel", 80.0, 5.0, {})]  # fmt: skip
        (tmp_path / f"rank{rank}.json").write_text(gpu_trace(rank, events))
    found = drawn_recording([tmp_path]).schedule
    rounds = [s for s in found.spans if s.kind == "collective"]
    assert [s.end - s.start for s in rounds] == pytest.approx([20, 20])
    assert found.plan.action_at(0, rounds[0].action).action.count == 1024
    assert len({s.match for s in rounds}) == 1


def exchanged(us):
    """Return a measured run of six ranks in three pairs that each send 1 MB twice, in ``us``."""
    builder = planguard.PlanBuilder(world_size=6)
    for rank in range(6):
        program = builder.program(rank)
        program.all_reduce(bytes=4)
        for _ in range(2):
            (program.recv if rank % 2 else program.send)(peer=rank ^ 1, bytes=1_000_000)
    plan = builder.build()
    found = []
    for rank in range(6):
        clock = 1e5 * rank
        found.append(Mark(rank, 0, None, clock, clock + 10))
        for call in range(2):
            begin = clock + 20 + 10_000 * call
            # Receivers come 5 us late: that is nobody's bandwidth.
            found.append(
                Mark(rank, 1 + call, None, begin + 5 * (rank % 2), begin + 5 + us[rank // 2])
            )
    return plan, found


def test_links_have_measured_durations_and_bandwidth():
    """A link's duration is from when both ends are there to when the later one leaves; its
    bandwidth is the bytes in it. A plan alone, and calls whose ends are unknown, have neither.
    """
    from planguard.report.page.links import topology

    plan, seen = exchanged([100, 200, 100])
    links = {tuple(one["pair"]): one for one in topology(plan, run=measured(plan, seen))["links"]}
    assert links[0, 1]["measured"]["times"][2:] == pytest.approx([100] * 3)
    assert links[2, 3]["measured"]["time"] == pytest.approx(2 * 200 + 10)  # and the all-reduce
    assert links[2, 3]["measured"]["bandwidths"][-1] == pytest.approx(5e9)
    assert links[2, 3]["measured"]["rounds"] == 1
    for run in (None, schedule(plan), measured(plan, seen, aligned=False)):
        assert all(one["measured"] is None for one in topology(plan, run=run)["links"])
    issued = [replace(mark, end=mark.start) for mark in seen]
    assert not topology(plan, run=measured(plan, issued))["measured"]


def test_a_slow_link_is_found_by_its_measured_bandwidth():
    """PG605: a link at a quarter of the median of links that carried the same; at exactly the
    threshold, without peers, or from a modeled run it is silent.
    """
    from planguard.simulate.rules import advise

    def told(us, **given):
        plan, seen = exchanged(us)
        run = measured(plan, seen, **given)
        return [f for f in advise(plan, run=run) if f.code == "PG605"]

    (one,) = told([100, 400, 100])
    assert one.ranks == (2, 3)
    assert "0.25 times the median" in one.message
    assert "types are unknown" in one.message
    assert not told([100, 200, 100])
    assert not told([100, 400, 100], aligned=False)
    plan, _ = exchanged([1, 1, 1])
    assert not [f for f in advise(plan, run=schedule(plan)) if f.code in {"PG605", "PG611"}]


@pytest.mark.parametrize(("us", "slow"), [((100, 100, 100), ()), ((100, 100, 200), (2,)),
                                          ((100, 100, 130), ())])  # fmt: skip
def test_a_slow_device_is_found_by_its_measured_flops(us, slow):
    """PG611: below 0.80 times the mean of devices that ran the same operators. A device whose
    operators are larger takes longer, and is not slow.
    """
    from planguard.simulate.rules import advise

    builder = planguard.PlanBuilder(world_size=4)
    for rank in range(4):
        builder.program(rank).compute("mm", flops=10**9 * (1 + 9 * (rank == 3)))
        builder.program(rank).all_reduce(bytes=4)
    plan = builder.build()
    seen = [Mark(r, 0, None, 0, took) for r, took in enumerate((*us, 10_000))]
    seen += [Mark(r, 1, None, 20_000, 20_010) for r in range(4)]
    found = [f for f in advise(plan, run=measured(plan, seen)) if f.code == "PG611"]
    assert tuple(rank for f in found for rank in f.ranks) == slow


def profiled(folder, torch):
    """Write the trace of a step of a small network, profiled on the CPU with FLOPs and memory."""
    network = torch.nn.Sequential(
        torch.nn.Conv2d(4, 8, 3, stride=2, padding=1, groups=2), torch.nn.Flatten(),
        torch.nn.Linear(8 * 16, 5),
    )  # fmt: skip
    data = torch.randn(2, 4, 8, 8)
    tool = torch.profiler
    cpu = [tool.ProfilerActivity.CPU]
    with tool.profile(activities=cpu, with_flops=True, profile_memory=True) as seen:
        network(data).sum().backward()
    seen.export_chrome_trace(str(folder / "rank0.json"))
    return seen


def test_flops_and_memory_of_the_profiler_are_read(tmp_path):
    """FLOPs counted from the shapes in an exported trace are those that torch counts, and the
    backward pass of the convolution, which torch leaves out; memory is the allocator's.
    """
    torch = pytest.importorskip("torch")
    from planguard.report.page.spans import devices, rows

    seen = profiled(tmp_path, torch)
    file = tmp_path / "rank0.json"
    trace = json.loads(file.read_text())
    trace["distributedInfo"] = {"backend": "gloo", "rank": 0, "world_size": 1}
    file.write_text(json.dumps(trace))
    found = drawn_recording([tmp_path]).schedule
    (device,) = devices(found.plan, rows(found), found)
    backward = 2 * (2 * 8 * 4 * 4) * (2 * 3 * 3)  # the gradient of the weight alone
    assert device["flops"] == sum(one.flops for one in seen.key_averages()) + backward
    held = [e["args"]["Total Allocated"] for e in trace["traceEvents"] if e["name"] == "[memory]"]
    assert 0 < device["memory"] <= max(held)
    assert device["rate"] > 0


@pytest.mark.parametrize(
    "dims",
    [None, 3, [[1]], [["a", 2], [2, 3]], [[-1, 2], [2, 3]], [[2, 3], [2, 3]], [[2**60, 2], [2, 3]]],
)
def test_shapes_that_are_none_count_nothing(dims):
    """FLOPs of a product whose shapes are broken, or do not fit, are not known."""
    from planguard.audit.readers.profiled import flops_of

    assert flops_of("aten::mm", {"Input Dims": dims}) == 0
