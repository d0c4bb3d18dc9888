"""The inside of a rank: nests, idle streams, launches, queues, sequences, memory, critical path."""

from __future__ import annotations

import gzip
import itertools
import json
import random
import sqlite3
from collections import Counter
from pathlib import Path

import pytest

from planguard.audit.readers.times import times_of
from planguard.report.page.columns import Columns, Names
from planguard.report.page.inside import inside
from planguard.simulate.inside.device import bandwidths, delays, gaps, queues
from planguard.simulate.inside.memory import floors
from planguard.simulate.inside.path import critical_path
from planguard.simulate.inside.sequences import sequences
from planguard.simulate.inside.tracks import Allocation, Lane, Slice, Tracks
from planguard.simulate.schedule import Schedule

TRACES = Path(__file__).resolve().parents[1] / "corpus" / "traces"
LANES = (Lane("main"), Lane("device 0 stream 7", 0, 7), Lane("device 0 stream 9", 0, 9))
HOST, FIRST, SECOND = range(3)


def host(name, start, end, number=None):
    """A call of the runtime where it has a number, else an operator."""
    kind = "operator" if number is None else "runtime"
    return Slice(HOST, name, kind, float(start), float(end), number)


def work(name, start, end, number, lane=FIRST, kind="kernel", **more):
    """Work of a device."""
    return Slice(lane, name, kind, float(start), float(end), number, **more)


def tracks(*slices):
    """What a trace of these says."""
    return Tracks(LANES, tuple(sorted(slices, key=lambda s: (s.start, -s.end))))


def events(*given):
    """A trace file of events."""
    return json.dumps({"traceEvents": list(given)}).encode()


def read(*given):
    """The inside that a trace file of events says."""
    return times_of("kineto", events(*given), "rank0.json").tracks


# --- nests ---------------------------------------------------------------------------------------


def test_a_slice_is_in_the_one_around_it():
    """A calls B, which launches; C comes after; what ends later than its neighbor is beside it."""
    own = tracks(
        host("A", 0, 10),
        host("B", 1, 5),
        host("launch", 2, 3, 1),
        host("C", 6, 12),
        host("D", 7, 8),
    )
    names = [None if at is None else own.slices[at].name for at in own.parents]
    assert names == [None, "A", "B", None, "C"]
    assert own.depths == (0, 1, 2, 0, 1)


def test_the_reader_takes_what_a_trace_has():
    """Threads by name, streams by number, works by that of their call, counters; no nonsense."""
    found = read(
        {"ph": "M", "name": "thread_name", "pid": 1, "tid": 2, "args": {"name": "main "}},
        {"ph": "X", "cat": "cpu_op", "name": "aten::add", "pid": 1, "tid": 2, "ts": 0, "dur": 5},
        {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 2, "ts": 1,
         "dur": 2, "args": {"correlation": 8}},
        {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 6, "dur": 2,
         "args": {"correlation": 8, "device": 0, "stream": 7}},
        {"ph": "X", "cat": "kernel", "name": "odd", "pid": 0, "tid": 7, "ts": 9, "dur": -1,
         "args": {"correlation": "8", "device": True, "stream": 1.5}},
        {"ph": "X", "cat": "what", "name": "other", "pid": 0, "tid": 7, "ts": 9, "dur": 1},
        {"ph": "C", "name": "power", "pid": 0, "tid": 0, "ts": 3, "args": {"watts": 250}},
        {"ph": "C", "name": "power", "pid": 0, "tid": 0, "ts": 4, "args": {"watts": "much"}},
        {"ph": "C", "name": "power", "pid": 0, "tid": 0, "ts": 5, "args": {"watts": True}},
        {"ph": "X", "cat": "cuda_profiler_range", "name": "k", "pid": 0, "tid": 0, "ts": 6,
         "dur": 2, "args": {"flops.sum": 12}},
    )  # fmt: skip
    assert [lane.name for lane in found.lanes] == ["main", "device 0 stream 7"]
    assert [one.kind for one in found.slices] == ["operator", "runtime", "kernel"]
    assert found.launches == {2: 1}
    assert {s.name: (s.times, s.values) for s in found.series} == {
        "power": ((3.0,), (250,)), "flops.sum": ((6.0, 8.0), (12, 0)),
    }  # fmt: skip


def test_allocations_are_paired_by_their_address():
    """Given and taken back at one address; what was there before or stays has an open end; the
    innermost operator asked for it.
    """

    def memory(time, size, address, total):
        return {"ph": "i", "name": "[memory]", "pid": 1, "tid": 2, "ts": time, "args": {
            "Bytes": size, "Addr": address, "Device Type": 0, "Device Id": -1,
            "Total Allocated": total}}  # fmt: skip

    found = read(
        {"ph": "X", "cat": "cpu_op", "name": "outer", "pid": 1, "tid": 2, "ts": 0, "dur": 9},
        {"ph": "X", "cat": "cpu_op", "name": "inner", "pid": 1, "tid": 2, "ts": 2, "dur": 2},
        memory(1, -64, 500, 0), memory(3, 100, 500, 100), memory(5, 40, 900, 140),
        memory(6, -100, 500, 40), memory(7, "x", 900, 0), memory(8, 8, None, 0),
    )  # fmt: skip
    assert found.allocations == (
        Allocation("the host", 64, None, 1.0, None),
        Allocation("the host", 100, 3.0, 6.0, 1),
        Allocation("the host", 40, 5.0, None, 0),
    )
    (held,) = found.series
    assert (held.name, held.unit) == ("allocated on the host", "B")
    assert held.values[:4] == (0, 100, 140, 40)


@pytest.mark.parametrize("seed", range(20))
def test_no_two_allocations_share_a_byte(seed):
    """What lives at the same time stands apart, and nothing lower was free."""
    lot = random.Random(seed)
    own = []
    for _ in range(60):
        start = lot.choice([None, *range(30)])
        end = lot.choice([None, *range(1 + (start or 0), 40)])
        own.append(Allocation("m", lot.randint(1, 9), start, end, None))
    own.sort(key=lambda one: (one.start is not None, one.start or 0.0))
    at = floors(own)
    until = [float("inf") if one.end is None else one.end for one in own]
    for i, one in enumerate(own):
        living = [
            j for j in range(i) if until[j] > (float("-inf") if one.start is None else one.start)
        ]
        for j in living:
            assert at[i] >= at[j] + own[j].size or at[j] >= at[i] + one.size
        if at[i]:
            assert any(at[j] + own[j].size == at[i] for j in living)


# --- the device ----------------------------------------------------------------------------------


def test_why_a_stream_is_idle():
    """Called for when the stream was empty: the host; a short gap: launching; a long one behind a
    call that came in time: something else.
    """
    own = tracks(
        host("launch", 0, 1, 1), host("launch", 2, 3, 2), host("launch", 4, 5, 3),
        host("launch", 500, 501, 4),
        work("a", 10, 20, 1), work("b", 25, 30, 2), work("c", 100, 110, 3), work("d", 510, 520, 4),
    )  # fmt: skip
    assert [(g.start, g.end, g.why) for g in gaps(own)] == [
        (20, 25, "launch"), (30, 100, "other"), (110, 510, "host"),
    ]  # fmt: skip
    assert [d.time for d in delays(own)] == [9, 22, 95, 9]


def test_the_queue_counts_what_was_called_for_and_has_not_begun():
    """Up when the host calls, down when the work begins, each stream by itself."""
    own = tracks(
        host("launch", 0, 1, 1), host("launch", 2, 3, 2), host("launch", 4, 5, 3),
        work("a", 1, 20, 1), work("b", 20, 30, 2), work("c", 6, 9, 3, SECOND),
    )  # fmt: skip
    first, second = queues(own)
    assert dict(zip(first.times, first.values, strict=True)) == {0: 1, 1: 0, 2: 1, 20: 0}
    assert dict(zip(second.times, second.values, strict=True)) == {4: 1, 6: 0}


def test_copies_that_overlap_add_up():
    """1 MB in 100 us is 10 GB/s; a copy of no time takes a microsecond."""
    own = tracks(
        work("Memcpy HtoD (Pinned -> Device)", 0, 100, 1, kind="copy", size=1_000_000),
        work("Memcpy HtoD (Pageable -> Device)", 50, 150, 2, SECOND, kind="copy", size=1_000_000),
        work("Memset (Device)", 5, 5, 3, kind="set", size=1000),
    )
    copies, sets = bandwidths(own)
    assert (copies.name, copies.unit) == ("bandwidth of Memcpy HtoD", "B/s")
    assert list(zip(copies.times, copies.values, strict=True)) == [
        (0, 1e10), (50, 2e10), (100, 1e10), (150, 0),
    ]  # fmt: skip
    assert list(zip(sets.times, sets.values, strict=True)) == [(5, 1e9), (6, 0)]


def test_sequences_are_operators_with_their_works():
    """Twice conv with three works, once in another order; a wrapper of one operator is left out."""
    slices, number = [], 0
    for at, names in enumerate((("im2col", "gemm", "bias"), ("im2col", "gemm", "bias"),
                                ("gemm", "im2col", "bias"))):  # fmt: skip
        begin = at * 100
        slices += [host("wrapper", begin, begin + 50), host("conv", begin + 1, begin + 49)]
        for place, name in enumerate(names):
            number += 1
            slices.append(host("launch", begin + 2 + place, begin + 3 + place, number))
            slices.append(work(name, begin + 60 + 5 * place, begin + 64 + 5 * place, number))
    found = sequences(tracks(*slices))
    assert [(s.operator, s.works, len(s.places), s.device) for s in found] == [
        ("conv", ("im2col", "gemm", "bias"), 2, 24.0),
        ("conv", ("gemm", "im2col", "bias"), 1, 12.0),
    ]  # fmt: skip
    assert {s.operator for s in sequences(tracks(*slices), "wrap")} == {"wrapper"}


# --- the path ------------------------------------------------------------------------------------


def pieces(own):
    """The path, each piece as why, name and length."""
    return [
        (one.why, "" if one.place is None else own.slices[one.place].name, one.end - one.start)
        for one in critical_path(own)
    ]


def test_the_path_goes_from_the_host_to_the_device_and_back():
    """An operator launches, the second kernel waits for the first, the host for both."""
    own = tracks(
        host("op", 0, 20), host("launch", 4, 6, 1), host("launch", 8, 10, 2),
        work("a", 12, 40, 1), work("b", 43, 60, 2), host("deviceSynchronize", 25, 62, 3),
        host("tail", 62, 70),
    )  # fmt: skip
    assert pieces(own) == [
        ("host", "op", 4.0), ("launch", "a", 8.0), ("kernel", "a", 28.0), ("gap", "b", 3.0),
        ("kernel", "b", 17.0), ("return", "deviceSynchronize", 2.0), ("host", "tail", 8.0),
    ]  # fmt: skip


def test_a_stream_that_waits_for_another_one_is_on_the_path():
    """The work behind a wait began when the recorded work of the other stream had ended."""
    own = tracks(
        host("launch", 0, 1, 1), host("cudaEventRecord", 2, 3, 2),
        host("cudaStreamWaitEvent", 4, 5, 3), host("launch", 6, 7, 4),
        work("producer", 2, 90, 1), work("consumer", 92, 100, 4, SECOND),
        work("Stream Wait Event", 5, 5, 3, SECOND, kind="sync", recorded=2, source=7),
    )  # fmt: skip
    assert [one[:2] for one in pieces(own)][-3:] == [
        ("kernel", "producer"), ("gap", "consumer"), ("kernel", "consumer"),
    ]  # fmt: skip


def test_a_copy_that_does_not_block_is_not_waited_for():
    """A call of a copy waits for its own copy at most, not for a kernel that happens to end."""
    own = tracks(
        host("launch", 0, 1, 1), work("a", 3, 51, 1), host("cudaMemcpyAsync", 50, 53, 2),
        work("Memcpy DtoH", 60, 61, 2, SECOND, kind="copy"), host("op", 53, 80),
    )  # fmt: skip
    assert "kernel" not in {why for why, *_ in pieces(own)}


def test_a_thread_that_waits_is_woken_by_the_one_that_ran():
    """Backward runs on another thread: the path goes through it."""
    lanes = (*LANES, Lane("autograd"))
    own = Tracks(lanes, tuple(sorted((
        host("forward", 0, 10), Slice(3, "backward", "operator", 12.0, 40.0),
        host("launch", 45, 46, 1), work("a", 47, 48, 1),
    ), key=lambda s: s.start)))  # fmt: skip
    assert [one[:2] for one in pieces(own)] == [
        ("host", "forward"), ("idle", ""), ("host", "backward"), ("idle", ""), ("launch", "a"),
        ("kernel", "a"),
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["alexnet", "streams", "sampled"])
def test_the_path_of_a_real_trace_has_no_hole(name):
    """Pieces follow each other and are no longer than the trace."""
    own = inside_of(name)
    path = critical_path(own)
    assert all(a.end == b.start for a, b in itertools.pairwise(path))
    assert path[-1].end == max(one.end for one in own.slices)
    assert path[0].start >= min(one.start for one in own.slices)


def inside_of(name):
    """The inside of a trace of the corpus."""
    data = gzip.decompress((TRACES / "gpu" / f"{name}.json.gz").read_bytes())
    return times_of("kineto", data, name).tracks


# --- out of the page -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def run():
    """The measured run of a real trace of a GPU."""
    from planguard.audit.timeline import drawn_recording

    return drawn_recording([str(TRACES / "gpu" / "alexnet.json.gz")], prefix="alexnet").schedule


def test_a_trace_for_perfetto_has_threads_and_counters(run):
    """Every slice of the trace and every point of a counter, in the process of its rank."""
    from planguard.report.pictures.perfetto import INSIDE, perfetto

    found = json.loads(gzip.decompress(perfetto(run)))["traceEvents"]
    own = run.tracks[0]
    assert sum(e["ph"] == "X" and e["tid"] >= INSIDE for e in found) == len(own.slices)
    names = {e["name"] for e in found if e["ph"] == "C"}
    assert names == {s.name for s in (*bandwidths(own), *queues(own))}
    threads = {e["args"]["name"] for e in found if e["name"] == "thread_name"}
    assert {lane.name for lane in own.lanes} <= threads


def test_tables_answer_questions_in_sql(run, tmp_path):
    """The same bytes each time; kernels join their calls and the operators around them."""
    from planguard.report.pictures.tables import sqlite

    data = sqlite(run)
    assert data == sqlite(run)
    (tmp_path / "times.sqlite").write_bytes(data)
    base = sqlite3.connect(tmp_path / "times.sqlite")
    own = run.tracks[0]
    assert base.execute("SELECT count(*) FROM slice").fetchone() == (len(own.slices),)
    assert base.execute("SELECT count(*) FROM span").fetchone() == (len(run.spans),)
    asked = (
        "SELECT o.name, sum(k.end - k.start) FROM slice k JOIN slice c ON c.id = k.launched_by "
        "JOIN slice o ON o.id = c.parent WHERE k.kind = 'kernel' GROUP BY 1 ORDER BY 2 DESC"
    )
    found = base.execute(asked).fetchall()
    times = Counter()
    for at, call in own.launches.items():
        if own.slices[at].kind == "kernel":
            around = own.slices[own.parents[call]].name
            times[around] += own.slices[at].end - own.slices[at].start
    assert dict(found) == dict(times)
    base.close()


ODD = [0, 1, 2, 7, -1, 3.5, 1e18, True, None, "x", [], {}, 1 << 70]
FIELDS = ("correlation", "stream", "device", "bytes", "wait_on_stream", "Bytes", "Addr",
          "wait_on_cuda_event_record_corr_id", "Total Allocated", "memory bandwidth (GB/s)",
          "Device Type", "Device Id")  # fmt: skip
CATEGORIES = ("cpu_op", "user_annotation", "cuda_runtime", "kernel", "gpu_memcpy", "gpu_memset",
              "cuda_sync", "python_function", "cuda_profiler_range", "")  # fmt: skip
NAMES = ("a", "nccl:x", "[memory]", "cudaMemcpyAsync", "cudaDeviceSynchronize", "thread_name")


def odd_event(lot):
    """An event as no profiler writes it, or nearly as one does."""
    args = {name: lot.choice(ODD) for name in lot.sample(FIELDS, lot.randint(0, 8))}
    if lot.random() < 0.5:
        args |= {"correlation": lot.randint(0, 4), "stream": lot.choice([7, 9]), "device": 0}
    return {"ph": lot.choice("XXXXCiM"), "cat": lot.choice(CATEGORIES), "name": lot.choice(NAMES),
            "ts": lot.randint(0, 40), "dur": lot.choice([0, 1, 5, 20, -3, 1e300]),
            "pid": lot.choice([0, 1]), "tid": lot.choice([0, 7]), "args": args}  # fmt: skip


@pytest.mark.parametrize("seed", range(5))
def test_no_trace_breaks_the_inside(seed):
    """Whatever stands in a trace: everything is computed, and the path has no hole."""
    lot = random.Random(seed)
    for _ in range(60):
        own = read(*(odd_event(lot) for _ in range(lot.randint(0, 25))))
        path = critical_path(own)
        assert all(a.end == b.start for a, b in itertools.pairwise(path))
        run = Schedule(None, "", (), 0.0, complete=True, basis="measured", tracks={0: own})
        columns = Columns()
        head = inside(run, columns, Names())
        assert head["ranks"][0]["n"] == len(own.slices)
        columns.packed(head)


# --- HolisticTraceAnalysis -----------------------------------------------------------------------

HTA_IDLE = {
    "alexnet": {7: (12855007, 104, 0), 20: (12011718, 3, 0)},
    "sampled": {23: (1214793, 160, 34), 84: (794901, 6, 3142), 25: (560120, 35, 100413),
                7: (397917, 3765, 598335), 203: (558073, 0, 0)},
    "streams": {20: (32, 0, 0), 28: (0, 15, 0), 24: (0, 15, 0)},
}  # fmt: skip
"""``get_idle_time_breakdown``: microseconds of host_wait, kernel_wait and other, by stream."""
HTA_LAUNCHES = {
    "alexnet": (98, 3113616, 66203, 39283), "sampled": (1204, 11050, 607844, 20539698),
    "streams": (6, 97, 372, 18),
}  # fmt: skip
"""``get_cuda_kernel_launch_stats``: number, sums of cpu_duration, gpu_duration, launch_delay."""
HTA_QUEUES = {"alexnet": {7: 18, 20: 2}, "sampled": {7: 80, 23: 4, 25: 8, 84: 2, 203: 1}}
"""``get_queue_length_time_series``: most of each stream."""
HTA_RATES = {
    "alexnet": {"HtoD": 11.1467}, "sampled": {"DtoD": 960.2344, "DtoH": 1.4007, "HtoD": 6.8305},
}  # fmt: skip
"""``get_memory_bw_time_series``: most of each kind, GB/s."""
HTA_SEQUENCES = {
    ("alexnet", "aten::linear"): [(3, 2, 208, 10652)],
    ("alexnet", "aten::addmm"): [(3, 2, 208, 10636)],
    ("sampled", "aten::repeat_interleave"): [(4, 4, 460, 462)],
}
"""``get_frequent_cuda_kernel_sequences``: kernels, times, and microseconds of both sides."""


@pytest.mark.parametrize("name", HTA_IDLE)
def test_numbers_are_those_of_holistic_trace_analysis(name):
    """HTA 0.5.0 with pandas 2 says the same of these traces, its last step included; it counts a
    launch that returned after its work had begun as no delay.
    """
    own = inside_of(name)
    idle = {}
    for gap in gaps(own):
        time = idle.setdefault(own.lanes[gap.lane].stream, Counter())
        time[gap.why] += gap.end - gap.start
    assert {
        stream: tuple(time[why] for why in ("host", "launch", "other"))
        for stream, time in idle.items()
    } == HTA_IDLE[name]
    every = delays(own)
    long = [sum(own.slices[at].end - own.slices[at].start for at in places)
            for places in zip(*((d.call, d.work) for d in every), strict=True)]  # fmt: skip
    late = sum(max(0.0, one.time) for one in every)
    assert (len(every), *long, late) == HTA_LAUNCHES[name]
    for stream, most in HTA_QUEUES.get(name, {}).items():
        (series,) = (s for s in queues(own) if s.name.endswith(f"stream {stream}"))
        assert max(series.values) == most
    for kind, most in HTA_RATES.get(name, {}).items():
        (series,) = (s for s in bandwidths(own) if s.name.endswith(kind))
        assert max(series.values) / 1e9 == pytest.approx(most, rel=1e-4)


@pytest.mark.parametrize(("name", "operator"), HTA_SEQUENCES)
def test_sequences_are_those_of_holistic_trace_analysis(name, operator):
    """The same operators with as many kernels as often, and the same times."""
    found = sequences(inside_of(name), operator)
    assert [
        (len(one.works), len(one.places), one.device, one.host) for one in found
    ] == HTA_SEQUENCES[name, operator]  # fmt: skip
