"""Memory snapshots: what is said of them against torch's own functions and against the truth."""

from __future__ import annotations

import ast
import copy
import gzip
import pickle
import re
from collections import Counter

import pytest
from memory_cases import MIB, SITES, Allocator, frames, played

from planguard.audit.readers.snapshot import is_snapshot, read_snapshot
from planguard.cli import main
from planguard.recording.memory import devices, pools, use_of
from planguard.recording.sites import NO_STACK, Frame, site_of
from planguard.report.page.memory import memory_page, told

viz = pytest.importorskip("torch.cuda._memory_viz")


def read(document):
    """Read a snapshot from its pickle."""
    return read_snapshot(pickle.dumps(document), "s.pickle", "s")


def one_of(document):
    """Return the only device of a snapshot."""
    (found,) = devices(read(document))
    return found


def site(text):
    """Return a site of the cases as it is reported."""
    file, line, name = text.split(":")
    return f"job/{file}:{line} {name}"


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("kept", [None, 0.6])
def test_every_byte_of_every_entry_is_what_the_allocator_booked(seed, kept):
    """Bytes in use, bytes reserved and the peak, entry by entry, also where the history was cut."""
    made = played(seed)
    last = None if kept is None else int(kept * len(made.trace))
    found = one_of(made.snapshot(last))
    count = len(made.trace) if last is None else last
    assert list(found.used[1:]) == made.used[-count:]
    assert list(found.reserved[1:]) == made.reserved[-count:]
    assert found.peak == found.used.index(max([found.used[0], *made.used[-count:]])) - 1
    for at in {0, count // 2, found.peak, count - 1} - {-1}:
        truth = Counter(size for size, _ in made.states[len(made.trace) - count + at].values())
        assert Counter(life.size for life in found.alive(at)) == truth
    assert found.ooms == [a for a, e in enumerate(made.trace[-count:]) if e["action"] == "oom"]


@pytest.mark.parametrize("seed", range(6))
def test_the_end_is_what_torch_sums(seed):
    """Segments, reserved, allocated and free bytes are those of torch's ``segsum``."""
    snapshot = played(seed).snapshot()
    use = use_of(one_of(snapshot).segments)
    free = use.idle + use.holes + use.pending + use.rounding
    said = viz.segsum(snapshot).splitlines()
    assert f"segments: {use.segments}" in said
    assert f"total_reserved: {viz.Bytes(use.reserved)}" in said
    assert f"total_allocated: {viz.Bytes(use.requested)}" in said
    assert f"total_free: {viz._report_free(free - use.rounding, use.rounding)}" in said
    assert use.requested + free == use.reserved
    rows = pools(one_of(snapshot).segments)
    assert sum(row[3].reserved for row in rows) == use.reserved
    assert {row[1] for row in rows} == {segment["stream"] for segment in snapshot["segments"]}


@pytest.mark.parametrize("seed", range(6))
def test_what_is_alive_at_the_end_is_torchs_flame_graph(seed):
    """Bytes by call site at the end as ``torch.cuda._memory_viz.memory`` writes them."""
    snapshot = played(seed).snapshot()
    found = one_of(snapshot)
    theirs: Counter[str] = Counter()
    for line in viz.memory(snapshot, format_flamegraph=str.splitlines):
        stack, _, size = line.rpartition(" ")
        parts = stack.split(";")
        if parts[1] != "inactive" and parts[2] != "<gaps>":
            theirs[site(next(part for part in reversed(parts) if part in SITES))] += int(size)
    assert Counter({name: b for name, b, _ in found.by_site(len(found.entries) - 1)}) == theirs


def test_memory_that_is_out_is_what_torch_prints():
    """What was asked and what the device had, as ``torch.cuda._memory_viz.trace`` says it."""
    made = played(3, 200, capacity=40 * MIB)
    found = one_of(made.snapshot())
    said = [line for line in viz.trace(made.snapshot()).splitlines() if "OutOfMemory" in line]
    ours = [found.entries[at] for at in found.ooms]
    assert ours
    assert said == [f"raise OutOfMemoryError # {viz.Bytes(e.size)} requested, "
                    f"{viz.Bytes(e.address)} free in CUDA" for e in ours]  # fmt: skip
    first = told([found])
    assert first.is_out
    assert first.sentence.startswith("s: ")
    assert dict(first.facts)["asked by"] in {site(text) for text in SITES}


def test_two_snapshots_of_a_process_are_compared(capsys):
    """Segments in one of two only, as ``torch.cuda._memory_viz.compare`` prints them."""
    made = played(8, 120)
    before = copy.deepcopy(made.snapshot())
    made.play(120)
    made.empty_cache()
    after = made.snapshot()
    viz.compare(before["segments"], after["segments"], format_flamegraph=str.splitlines)
    said = capsys.readouterr().out
    gone, come = (len(ast.literal_eval(line.partition(" = ")[2])) for line in said.splitlines())
    text = dict(told([one_of(before), one_of(after)]).facts)["segments"]
    assert gone + come > 0
    counts = [int(part) for part in re.findall(r"(\d+) segments? \(", text)]
    assert counts == [gone, come]
    assert int(text.split()[0]) == len(after["segments"]) - come
    other = played(9, 50)
    assert other.segments[0]["address"] == before["segments"][0]["address"]
    for entry in other.trace:
        entry["time_us"] += 7_000_000_000
    assert "segments" not in dict(told([one_of(before), one_of(other.snapshot())]).facts)


def test_what_was_not_recorded_is_said():
    """No history, a cut one, and frees that nobody saw: each with its own note, nothing made up."""
    made = Allocator(0)
    old = made.alloc(5 * MIB, SITES[1])
    kept = made.alloc(3 * MIB, SITES[2])
    before = len(made.trace)
    made.free(old)
    again = made.alloc(5 * MIB, SITES[3])
    assert again == old
    cut = one_of(made.snapshot(len(made.trace) - before))
    assert cut.used[0] == 8 * MIB
    assert cut.notes == ("2 blocks (8.00 MiB) allocated before the history begins",)
    assert [cut.site(life) for life in cut.alive(-1)] == [
        "allocated before the history begins", site(SITES[2])]  # fmt: skip
    silent = one_of({**made.snapshot(), "device_traces": []})
    assert "no history was recorded" in silent.notes[0]
    assert silent.used == (8 * MIB,)
    unseen = [e for e in made.trace if not e["action"].startswith("free")]
    found = one_of({**made.snapshot(), "device_traces": [unseen]})
    assert found.used[-1] == 8 * MIB
    assert "the end of 1 block was not recorded" in found.notes[0]
    assert made.live[kept]


def test_a_call_site_is_the_line_of_the_program():
    """The program's innermost line, else a library's, else autograd's node, else the operator."""

    def stack(*rows):
        return [Frame(*row) for row in rows]

    torch = ("/x/site-packages/torch/nn/functional.py", 5, "linear")
    zoo = ("/x/site-packages/transformers/modeling.py", 7, "forward")
    cpp = ("", 0, "at::_ops::mm::call(at::Tensor const&)")
    node = ("Functions.cpp", 0, "torch::autograd::generated::MmBackward0::apply(variable_list&&)")
    own = ("/job/a/train.py", 9, "main")
    assert site_of(stack(cpp, torch, zoo, own)) == "a/train.py:9 main"
    assert site_of(stack(cpp, torch, zoo)) == "transformers/modeling.py:7 forward"
    assert site_of(stack(cpp, torch)) == "nn/functional.py:5 linear"
    assert site_of(stack(cpp, node)) == "MmBackward0, of the backward pass"
    assert site_of(stack(cpp)) == "operator mm"
    assert site_of([]) == NO_STACK
    assert site_of(stack(("??", 0, "_start"))) == NO_STACK


def test_older_formats_and_lists_are_read():
    """A list of segments alone, blocks with a ``history``, and blocks without an address."""
    made = played(1, 80)
    new = use_of(one_of(made.snapshot()).segments)
    assert use_of(one_of(made.segments).segments) == new
    old = [{**s, "blocks": [
        {"size": b["size"], "state": b["state"],
         "history": [{"real_size": b["requested_size"], "frames": b["frames"]}]}
        for b in s["blocks"]]} for s in made.segments]  # fmt: skip
    assert use_of(one_of(old).segments) == new
    assert one_of(old).by_site(-1) == one_of(made.segments).by_site(-1)


class Evil:
    """What would run a command."""

    def __reduce__(self):
        return print, ("this must not be printed",)


def bad(**change):
    """Return a snapshot with one block, changed."""
    block = {"address": 4096, "size": 512, "requested_size": 500, "state": "active_allocated",
             "frames": frames(SITES[0]), **change}  # fmt: skip
    return {"segments": [{"device": 0, "address": 4096, "total_size": 512, "stream": 0,
                          "blocks": [block]}], "device_traces": [[]]}  # fmt: skip


def loop():
    """Return a snapshot whose stack holds itself."""
    stack = []
    stack.append(stack)
    return bad(frames=stack)


def repeated():
    """Return a snapshot that is small as a file and has billions of blocks."""
    block = bad()["segments"][0]["blocks"][0]
    blocks = [block] * 50_000
    row = {**bad()["segments"][0], "total_size": 512 * 50_000, "blocks": blocks}
    return {"segments": [row] * 50_000, "device_traces": []}


HOSTILE = {
    "code": ({**bad(), "x": Evil()}, "PG905"),
    "code in a block": (bad(requested_size=Evil()), "PG905"),
    "a stack that holds itself": (loop(), "not an object"),
    "more items than bytes": (repeated(), "PG905"),
    "a state": (bad(state="stolen"), "got stolen"),
    "negative": (bad(size=-512), "$.segments[0].blocks[0].size"),
    "too large": (bad(size=1 << 60), "not a whole number from 0 to 1,125,899,906,842,624"),
    "an endless number": (bad(size=1 << 100_000), "got int"),
    "a word": (bad(size="512"), "got 512"),
    "a truth": (bad(size=True), "got bool"),
    "more than the block": (bad(requested_size=513), "more than its 512 bytes"),
    "a sum": (bad(size=256, requested_size=1), "its blocks have 256 bytes, not 512"),
    "an action": ({**bad(), "device_traces": [[{"action": "rob"}]]}, "device_traces[0][0].action"),
    "no list": ({"segments": 7, "device_traces": []}, "$.segments: not a"),
    "a pool": ({"segments": [{**bad()["segments"][0], "segment_pool_id": "x"}]}, "segment_pool_id"),
    "nothing": ({"segments": [], "device_traces": [[]]}, "an empty snapshot"),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_snapshot_is_refused_and_nothing_is_written(name, tmp_path, capsys):
    """One error that says where, exit code 2, no code runs, no file."""
    document, said = HOSTILE[name]
    file, out = tmp_path / "s.pickle", tmp_path / "out.html"
    file.write_bytes(pickle.dumps(document))
    assert main(["report", str(file), "-o", str(out)]) == 2
    told_of = capsys.readouterr()
    assert said in told_of.err.replace("\n    ", " ")
    assert "hint:" in told_of.err
    assert told_of.out == ""
    assert not out.exists()


@pytest.mark.parametrize("cut", [1, 3, 40, 300, 2000])
def test_a_damaged_snapshot_is_refused(cut, tmp_path, capsys):
    """Of a pickle that was cut nothing is drawn."""
    data = pickle.dumps(played(2, 60).snapshot())
    file, out = tmp_path / "s.pickle", tmp_path / "out.html"
    file.write_bytes(data[:-cut] if cut < 100 else data[:cut])
    assert main(["report", str(file), "-o", str(out)]) == 2
    assert "hint:" in capsys.readouterr().err
    assert not out.exists()


def test_random_damage_never_ends_in_a_traceback():
    """A byte that is another one: read, or refused with a PlanError."""
    import random

    from planguard.errors import PlanError

    data = pickle.dumps(played(4, 12).snapshot())
    dice = random.Random(7)
    refused = 0
    for _ in range(400):
        torn = bytearray(data)
        torn[dice.randrange(len(torn))] = dice.randrange(256)
        try:
            memory_page("x", devices(read_snapshot(bytes(torn), "x", "x")))
        except PlanError:
            refused += 1
    assert refused > 20


def test_one_line_shows_who_has_the_memory(tmp_path, capsys):
    """The text of two ranks, one of them packed: the cause first, then numbers and call sites."""
    out = played(3, 200, capacity=40 * MIB).snapshot()
    (tmp_path / "rank0.pickle").write_bytes(pickle.dumps(played(5, 50).snapshot()))
    (tmp_path / "rank1.pickle.gz").write_bytes(gzip.compress(pickle.dumps(out)))
    assert main(["report", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert said.startswith("rank1: ")
    assert "were asked for" in said.splitlines()[0]
    assert "rank0, peak after entry" in said
    assert "rank1, out of memory at entry" in said
    assert max(map(len, said.splitlines())) <= 110


def test_equal_snapshots_give_equal_bytes():
    """The page of one snapshot, drawn twice."""
    made = played(6).snapshot()
    assert memory_page("x", [one_of(made)]).data == memory_page("x", [one_of(made)]).data


def test_a_page_that_would_be_too_large_says_what_is_left_out(monkeypatch):
    """Above the cap stacks go first, then histories; peaks stay."""
    found = [one_of(played(seed, 900).snapshot()) for seed in (1, 2)]
    whole = memory_page("x", found).data
    monkeypatch.setattr("planguard.report.page.memory.CAP", len(whole) - 1)
    assert len(memory_page("x", found).data) < len(whole)
    monkeypatch.setattr("planguard.report.page.memory.CAP", 1)
    assert len(memory_page("x", found).data) < len(whole)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["s.pickle", "p.json"], "p.json is no memory snapshot, but s.pickle is"),
        (["s.pickle", "--format", "svg"], "a memory snapshot has no svg picture"),
        (["s.pickle", "--model", "nccl"], "--model is of plans"),
        (["p.json", "p.json", "p.json"], "3 plans, and two at most are compared"),
    ],
)
def test_what_does_not_belong_together_is_refused(given, said, tmp_path, capsys, monkeypatch):
    """Snapshots beside plans, pictures of plans, options of plans, three plans."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.pickle").write_bytes(pickle.dumps(played(5, 50).snapshot()))
    plan = b'{"schema": "planguard.plan/1", "world_size": 1, "ranks": {"0": {"actions": []}}}'
    (tmp_path / "p.json").write_bytes(plan)
    assert main(["report", *given]) == 2
    assert said in capsys.readouterr().err


def test_a_flight_recorder_dump_is_no_snapshot():
    """Both are pickles of dictionaries."""
    assert is_snapshot(pickle.dumps(played(0, 5).snapshot()))
    assert is_snapshot(pickle.dumps(played(0, 5).snapshot(), protocol=2))
    assert is_snapshot(pickle.dumps(played(0, 5).segments))
    assert not is_snapshot(pickle.dumps({"version": "2.10", "entries": [], "pg_config": {}}))
    assert not is_snapshot(b"")
    assert not is_snapshot(b"cos\nsystem\n(S'x'\ntR.")


def test_a_snapshot_that_is_too_large_names_the_options_of_torch(tmp_path, monkeypatch, capsys):
    """What makes it smaller is said of torch's own recording, not of steps of a training."""
    path = tmp_path / "rank0.pickle"
    path.write_bytes(pickle.dumps({"segments": [], "device_traces": []}) + bytes(100))
    monkeypatch.setattr("planguard.audit.readers.files.MAX_BYTES", 60)
    assert main(["report", str(path), "-o", str(tmp_path / "page.html")]) == 2
    said = capsys.readouterr().err
    assert "larger than 60 bytes" in said
    assert "max_entries" in said
    assert not (tmp_path / "page.html").exists()
