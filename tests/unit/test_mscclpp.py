"""MSCCL++'s own execution plans: what is in them, which are safe, what one edit does to them.

The judge is an interpreter of the JSON that shares nothing with the adapter: semaphores as numbers
and packets as sets, run until nothing moves. The enumerator judges the encoding once more.
"""

from __future__ import annotations

import copy
import json
import random
from collections import Counter, defaultdict
from pathlib import Path

import pytest

import planguard
from planguard import registry
from planguard.errors import PlanError, UsageError
from planguard.testing import check_adapter

TESTS = Path(__file__).resolve().parents[1]

from oracle.enumerator import Effort, enumerate_plan  # noqa: E402

adapter = registry.find("mscclpp")
FOLDER = TESTS.parent / "tests" / "samples" / "mscclpp"
HANGS = "signal-wait-fuse-2"
NAMES = sorted(path.stem for path in FOLDER.glob("*.json"))
SAFE = [name for name in NAMES if name != HANGS]
PARTS = 12


def program_of(name: str) -> dict:
    """Return a sample, parsed."""
    return json.loads((FOLDER / f"{name}.json").read_text())


def verdict(program, **options) -> planguard.Verdict:
    """Return the verdict of an execution plan."""
    return planguard.check(planguard.load(program, planner="mscclpp", **options))


def flat(block) -> list[dict]:
    """Return the operations of a thread block, two iterations of every pipeline."""
    return [
        inner
        for op in block["ops"]
        for inner in (op["ops"] * 2 if op["name"] == "pipeline" else [op])
    ]


class Interpreter:
    """Runs an execution plan."""

    def __init__(self, program: dict) -> None:
        self.gpus = program["gpus"]
        self.count: Counter = Counter()
        for gpu in self.gpus:
            for number, one in enumerate(gpu.get("semaphores", [])):
                self.count["sem", gpu["id"], number] = one["init_value"]
        self.packets: set = set()
        self.arrived: dict = defaultdict(set)

    def peers(self, gpu: dict, kind: str) -> list[int]:
        """Return the other ends of the channels of a kind."""
        found = [c for c in gpu["channels"] if c["channel_type"] == kind]
        return [peer for c in found for peer in c["connected_to"]]

    def keys(self, gpu: dict, block: dict, op: dict, *, incoming: bool) -> list[tuple]:
        """Return the counters of the channels of an operation."""
        kind, out = op["channel_type"], []
        own = [i for c in block["channels"] if c["channel_type"] == kind for i in c["channel_ids"]]
        for local in op["channel_ids"]:
            peers = self.peers(gpu, kind)
            peer = peers[own[local]]
            nth = peers[: own[local]].count(peer)
            ends = (peer, gpu["id"]) if incoming else (gpu["id"], peer)
            out.append((kind, *ends, nth))
        return out

    def cells(self, gpu: dict, block: dict, op: dict, refs: list[dict]) -> set:
        """Return the packets that references mean."""
        info = op.get("tbg_info", {"tb_id": 0, "tbg_size": 1})
        found = set()
        for ref in refs:
            where = [gpu["id"]] if ref.get("type") == "s" else []
            if "buffer_id" in ref:
                lists = [
                    i
                    for c in block["remote_buffer_refs"]
                    if c["access_channel_type"] == op["channel_type"]
                    for i in c["remote_buffer_ids"]
                ]
                remote = gpu["remote_buffers"][lists[ref["buffer_id"]]]
                where = [remote["rank"]] if remote["type"] == "s" else []
            if "switch_channel_id" in ref:
                switch = [c for c in gpu["channels"] if c["channel_type"] == "switch"]
                where = switch[0]["rank_groups"][0]["ranks"]
            size = ref["size"] * PARTS
            low = ref["index"] * PARTS + size * info["tb_id"] // info["tbg_size"]
            high = ref["index"] * PARTS + size * (info["tb_id"] + 1) // info["tbg_size"]
            found |= {(one, cell) for one in where for cell in range(low, high)}
        return found

    def attempt(self, gpu: dict, block: dict, op: dict, turn: int) -> bool:
        """Do an operation if it can go on."""
        name = op["name"]
        if name in {"wait", "rlxwait", "sem_acquire"}:
            keys = (
                [("sem", gpu["id"], number) for number in op["semaphore_ids"]]
                if name == "sem_acquire"
                else self.keys(gpu, block, op, incoming=True)
            )
            if any(self.count[key] < 1 for key in keys):
                return False
            self.count.subtract(keys)
        if name == "barrier":
            met = self.arrived[gpu["id"], op["barrier_id"]]
            met.add((block["id"], turn))
            rounds = Counter(tb for tb, _ in met)
            mine = rounds[block["id"]]
            if sum(count >= mine for count in rounds.values()) < op["num_threadblocks"]:
                return False
        first = {"upkt": 0, "rppkt": 0, "gstorepkt": 0}.get(name, 1)
        reads = name.endswith("pkt") and name not in {"ppkt", "cpkt"}
        if reads and not self.cells(gpu, block, op, op["src_buff"][first:]) <= self.packets:
            return False
        if name.endswith("pkt") and name != "upkt":
            first = 1 if name in {"respkt", "recspkt", "recpkt"} else 0
            self.packets |= self.cells(gpu, block, op, op["dst_buff"][first:])
        if name in {"signal", "rlxsignal", "pws", "pwsf"}:
            self.count.update(self.keys(gpu, block, op, incoming=False))
        if name == "sem_release":
            self.count.update(("sem", gpu["id"], number) for number in op["semaphore_ids"])
        return True

    def ends(self) -> bool:
        """Run until nothing moves; True if every thread block ends."""
        blocks = [(gpu, block, flat(block)) for gpu in self.gpus for block in gpu["threadblocks"]]
        at, moved = [0] * len(blocks), True
        while moved:
            moved = False
            for number, (gpu, block, ops) in enumerate(blocks):
                while at[number] < len(ops) and self.attempt(
                    gpu, block, ops[at[number]], at[number]
                ):
                    at[number] += 1
                    moved = True
        return all(at[number] == len(ops) for number, (_, _, ops) in enumerate(blocks))


def kinds(plan: planguard.Plan) -> list[dict]:
    """Return the number of actions of every kind, per rank."""
    ranks = json.loads(plan.source)["ranks"]
    return [
        dict(Counter(action["op"] for action in ranks[str(rank)]["actions"]))
        for rank in range(len(ranks))
    ]


# --- correct programs ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", SAFE)
def test_a_program_of_the_language_is_safe(name):
    """What MSCCL++'s language prints is SAFE, as the interpreter finds."""
    program = program_of(name)
    assert Interpreter(program).ends()
    assert verdict(program).outcome.value == "SAFE"


@pytest.mark.parametrize(
    ("name", "ranks", "expected"),
    [
        ("allgather-packets-4", 5, {"compute": 5, "isend": 3, "recv": 3}),
        ("allgather-switch-4", 17, {"compute": 3, "isend": 3}),
        ("allgather-groups-2", 9, {"isend": 2, "recv": 2, "barrier": 2, "compute": 1}),
        ("allreduce-2", 17, {"isend": 2, "recv": 2, "compute": 1}),
        ("port-put-2", 3, {"isend": 2, "recv": 2, "compute": 1}),
    ],
)
def test_the_first_thread_block_has_the_expected_actions(name, ranks, expected):
    """A rank is a thread block, the last one nobody; signals, waits and packets are messages."""
    plan = planguard.load(FOLDER / f"{name}.json", planner="mscclpp")
    assert plan.world_size == ranks
    counts = kinds(plan)
    assert counts[0] == expected
    assert counts[-1] == {}


def test_an_all_reduce_by_packets_has_the_expected_messages():
    """Every gpu reduces 4 chunks of 3 others and unpacks 4 chunks from each of 3 others."""
    counts = kinds(planguard.load(FOLDER / "allreduce-packets-4.json", planner="mscclpp"))
    for gpu in range(4):
        total = sum((Counter(count) for count in counts[4 * gpu : 4 * gpu + 4]), Counter())
        assert total == {"recv": 24, "isend": 24, "compute": 10}


@pytest.mark.parametrize("name", NAMES)
def test_the_adapter_keeps_its_contract(name):
    """Sources, labels, repeatability, damage: what every adapter owes."""
    check_adapter(adapter, FOLDER / f"{name}.json", strangers=({"gpus": []}, b'{"gpus": []}'))


# --- the found case ------------------------------------------------------------------------------


def test_a_test_of_the_library_waits_on_channels_that_nobody_signals():
    """MSCCL++'s own test of fused signals hangs: it counts signals, but not per channel."""
    program = program_of(HANGS)
    assert not Interpreter(program).ends()
    found = verdict(program)
    assert found.outcome.value == "DEADLOCK"
    assert {finding.code for finding in found.errors} == {"PG209"}


# --- mutations -----------------------------------------------------------------------------------


def block_with(program, name, gpu=0):
    """Return the first thread block of a gpu that has an operation, and where it is."""
    for block in program["gpus"][gpu]["threadblocks"]:
        for at, op in enumerate(block["ops"]):
            if op["name"] == name:
                return block, at
    raise AssertionError(name)


def swapped(program):
    """Wait before the signal, on every gpu."""
    for gpu in range(len(program["gpus"])):
        for one, other in (("rlxsignal", "rlxwait"),):
            block, first = block_with(program, one, gpu)
            _, second = block_with(program, other, gpu)
            ops = block["ops"]
            ops[first], ops[second] = ops[second], ops[first]


def dropped(program):
    """Leave out a signal."""
    block, at = block_with(program, "signal")
    del block["ops"][at]


def duplicated(program):
    """Wait twice."""
    block, at = block_with(program, "wait")
    block["ops"].insert(at, copy.deepcopy(block["ops"][at]))


def wrong_channel(program):
    """Signal on the channel of another thread block."""
    program["gpus"][0]["threadblocks"][0]["channels"][0]["channel_ids"] = [1]


def wrong_peer(program):
    """Lead a channel elsewhere."""
    program["gpus"][0]["channels"][0]["connected_to"][0] = 2


@pytest.mark.parametrize(
    ("name", "edit"),
    [
        ("allreduce-2", swapped),
        ("allreduce-2", dropped),
        ("allreduce-2", duplicated),
        ("allreduce-2", wrong_channel),
        ("alltoall-pipeline-3", wrong_peer),
    ],
)
def test_a_mistake_gets_stuck_as_it_does_in_the_interpreter(name, edit):
    """One edit of a program stops it, and is found."""
    program = program_of(name)
    edit(program)
    assert not Interpreter(program).ends()
    assert verdict(program).outcome.value in {"DEADLOCK", "UNKNOWN"}
    if edit is not wrong_channel:  # there two thread blocks share a channel: not decided
        assert verdict(program).outcome.value == "DEADLOCK"


def test_a_packet_that_is_never_written_is_waited_for_for_ever():
    """Packets written elsewhere than they are read, or fewer of them, are found."""
    for change in ({"index": 3}, {"size": 0}):
        program = program_of("allreduce-packets-4")
        block, at = block_with(program, "ppkt")
        block["ops"][at]["dst_buff"][0] |= change
        assert not Interpreter(program).ends()
        assert verdict(program).outcome.value in {"DEADLOCK", "UNKNOWN"}


def test_a_barrier_that_wants_too_many_is_never_left():
    """A barrier of one thread block more than use it is stuck."""
    program = program_of("allgather-groups-2")
    for block in program["gpus"][0]["threadblocks"]:
        for op in block["ops"]:
            if op["name"] == "barrier" and op["barrier_id"] == 0:
                op["num_threadblocks"] += 1
    assert not Interpreter(program).ends()
    assert verdict(program).outcome.value == "DEADLOCK"


def test_a_semaphore_without_its_release_is_stuck():
    """An acquire needs a release before it."""
    program = program_of("alltoall-pipeline-3")
    for block in program["gpus"][1]["threadblocks"]:
        for op in block["ops"]:
            inner = op.get("ops", [])
            op["ops"] = [one for one in inner if one["name"] != "sem_release"]
            if not op["ops"]:
                del op["ops"]
    assert not Interpreter(program).ends()
    assert verdict(program).outcome.value == "DEADLOCK"


def random_edit(program, rng):
    """Drop, move, repeat or redirect an operation."""
    blocks = [b for gpu in program["gpus"] for b in gpu["threadblocks"] if b["ops"]]
    ops = rng.choice(blocks)["ops"]
    at = rng.randrange(len(ops))
    how = rng.randrange(4)
    if how == 0:
        del ops[at]
    elif how == 1:
        ops.insert(rng.randrange(len(ops)), ops.pop(at))
    elif how == 2:
        ops.insert(rng.randrange(len(ops)), copy.deepcopy(ops[at]))
    else:
        for ref in ops[at].get("dst_buff", ops[at].get("src_buff", []))[-1:]:
            ref["index"] = rng.randrange(6)


def test_random_edits_are_judged_as_the_interpreter_judges_them():
    """Of some hundred damaged programs, what is decided is stuck exactly where they are."""
    rng, judged = random.Random(3), Counter()
    for _ in range(120):
        program = program_of(rng.choice(SAFE))
        for _ in range(rng.randint(1, 2)):
            random_edit(program, rng)
        found = verdict(program).outcome.value
        stuck = not Interpreter(program).ends()
        judged[found, stuck] += 1
        assert found == "UNKNOWN" or (found == "DEADLOCK") == stuck, json.dumps(program)
    assert judged["DEADLOCK", True] > 12, judged
    assert judged["SAFE", False] > 12, judged


@pytest.mark.parametrize("edit", [None, swapped, dropped, duplicated])
def test_the_plan_is_judged_as_the_enumerator_judges_it(edit):
    """The enumerator of executions agrees on the plan."""
    program = program_of("port-put-2") if edit is None else program_of("allreduce-2")
    for gpu in program["gpus"]:
        gpu["threadblocks"] = gpu["threadblocks"][:1]
    if edit is not None:
        edit(program)
    plan = planguard.load(program, planner="mscclpp")
    expected = enumerate_plan(json.loads(plan.source), "gloo", Effort(verify=0)).outcome
    assert planguard.check(plan).outcome.value == expected


# --- refused -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "where"),
    [
        (lambda p: p.pop("gpus"), "'gpus' is missing"),
        (lambda p: p.update(gpus=[]), "expected 1 to"),
        (lambda p: p.update(colective="x"), "unknown field"),
        (lambda p: p["gpus"].reverse(), "not numbered"),
        (lambda p: p["gpus"][0].update(inputChunks=2), "the first format of MSCCL"),
        (lambda p: p["gpus"][0]["channels"][0].update(channel_type="wire"), "not a channel"),
        (lambda p: p["gpus"][0]["channels"][0].update(connected_to=[0]), "its own gpu"),
        (lambda p: p["gpus"][0]["threadblocks"][0]["ops"].append({"name": "x"}), "unknown oper"),
        (lambda p: p["gpus"][0]["threadblocks"][0]["ops"].append({"name": "wait"}), "are needed"),
        (
            lambda p: p["gpus"][0]["threadblocks"][0]["ops"].append(
                {"name": "wait", "channel_type": "memory", "channel_ids": [99]}
            ),
            "no such memory channel",
        ),
        (lambda p: p["gpus"][0]["threadblocks"][1].update(id=0), "there twice"),
    ],
)
def test_malformed_json_is_refused_with_its_path(change, where):
    """Every defect is a PlanError with its JSON path."""
    program = program_of("allreduce-2")
    change(program)
    with pytest.raises(PlanError, match=where) as caught:
        planguard.load(program, planner="mscclpp")
    assert caught.value.path.startswith("$")


@pytest.mark.parametrize("options", [{"chunk_bytes": 0}, {"chunk_bytes": 1.5}, {"chunks": 1}])
def test_impossible_options_are_refused(options):
    """Options are checked, and a misspelt one is answered with the right name."""
    with pytest.raises(UsageError):
        planguard.load(FOLDER / "allreduce-2.json", planner="mscclpp", **options)


def test_a_plan_of_the_first_format_is_told_by_its_name(tmp_path):
    """It is known for what it is: not a plan of this program with an unknown field."""
    program = program_of("allreduce-2")
    for gpu in program["gpus"]:
        gpu["inputChunks"], gpu["outputChunks"] = gpu.pop("input_chunks"), 2
    path = tmp_path / "old.json"
    path.write_text(json.dumps(program))
    with pytest.raises(PlanError, match="the first format of MSCCL") as caught:
        planguard.load(path)
    assert caught.value.path == "$.gpus[0].inputChunks"
