"""One launch of an execution plan of MSCCL++ for any number: deletions in all samples, small plans.

The judge runs every *thread*: thread i of a thread block handles the i-th channel or semaphore of
an operation and its share of the data, and a ``nop`` joins the threads (execution_kernel.hpp).
Counters outlive a launch; a gpu starts the next one when its thread blocks are over. It shares
nothing with the adapter.
"""

from __future__ import annotations

import copy
import json
import random
from collections import Counter
from pathlib import Path

import pytest

import planguard

FOLDER = Path(__file__).resolve().parents[2] / "tests" / "samples" / "mscclpp"
HANGS = "signal-wait-fuse-2"
NAMES = sorted(path.stem for path in FOLDER.glob("*.json"))
THREADS = 3
COUNTED = ("signal", "rlxsignal", "wait", "rlxwait", "sem_acquire", "sem_release", "barrier")

REDUCES = {"re", "res", "rre", "rres", "glre", "glres", "repkt", "respkt", "recpkt", "recspkt"}


def verdict(program: dict) -> planguard.Verdict:
    """Return the verdict of an execution plan."""
    return planguard.check(planguard.load(program, planner="mscclpp"))


class Machine:
    """Runs threads in a random order; what is written is the history of what was read."""

    def __init__(self, program: dict, seed: int, launches: int) -> None:
        self.rng = random.Random(seed)
        self.launches = launches
        self.gpus = program["gpus"]
        self.count: Counter = Counter()
        for gpu in self.gpus:
            for number, one in enumerate(gpu.get("semaphores", [])):
                self.count["sem", gpu["id"], number] = one["init_value"]
        self.memory: dict = {}
        self.packets: set = set()
        self.arrived: Counter = Counter()
        self.rounds: Counter = Counter()
        self.wanted: dict = {}
        self.shifts: dict = {}
        self.blocks = {}
        for gpu in self.gpus:
            for block in gpu["threadblocks"]:
                ops = []
                for op in block["ops"]:
                    times = 2 if op["name"] == "pipeline" else 1
                    inner = op["ops"] if op["name"] == "pipeline" else [op]
                    ops += [(one, turn) for turn in range(times) for one in inner]
                self.blocks[gpu["id"], block["id"]] = (gpu, block, ops)
        self.at = {(key, thread): 0 for key in self.blocks for thread in range(THREADS)}

    def channel(self, gpu: dict, block: dict, op: dict, thread: int, *, incoming: bool) -> tuple:
        """Return the counter of the channel that a thread handles."""
        kind = op["channel_type"]
        peers = [p for c in gpu["channels"] if c["channel_type"] == kind
                 for p in c["connected_to"]]  # fmt: skip
        own = [i for c in block["channels"] if c["channel_type"] == kind for i in c["channel_ids"]]
        at = own[op["channel_ids"][thread]]
        ends = (peers[at], gpu["id"]) if incoming else (gpu["id"], peers[at])
        return (kind, *ends, peers[:at].count(peers[at]))

    def cells(self, gpu: dict, block: dict, op: dict, ref: dict, turn: int) -> list[tuple]:
        """Return the chunks that a reference means."""
        info = op.get("tbg_info", {"tb_id": 0, "tbg_size": 1})
        if "buffer_id" in ref:
            own = [i for c in block["remote_buffer_refs"]
                   if c["access_channel_type"] == op["channel_type"]
                   for i in c["remote_buffer_ids"]]  # fmt: skip
            remote = gpu["remote_buffers"][own[ref["buffer_id"]]]
            where = [(remote["rank"], remote["type"])]
        elif "switch_channel_id" in ref:
            switch = next(c for c in gpu["channels"] if c["channel_type"] == "switch")
            where = [(rank, switch["buffer_type"]) for rank in switch["rank_groups"][0]["ranks"]]
        else:
            where = [(gpu["id"], ref["type"])]
        chunks = range(ref["index"], ref["index"] + ref["size"])
        share = (info["tb_id"], info["tbg_size"])
        return [(*one, chunk, share, turn) for one in where for chunk in chunks]

    def step(self, key: tuple, thread: int) -> bool:
        """Let a thread do its next operation, if it can."""
        gpu, block, ops = self.blocks[key]
        launch, place = divmod(self.at[key, thread], len(ops))
        if not place and any(
            self.at[other, one] < launch * len(self.blocks[other][2])
            for other in self.blocks
            if other[0] == key[0]
            for one in range(THREADS)
        ):
            return False
        op, turn = ops[place]
        name = op["name"]
        if name in {"nop", "barrier"}:
            first = min(self.at[key, one] for one in range(THREADS))
            if first < self.at[key, thread]:
                return False
            if name == "barrier":
                bar = (key[0], op["barrier_id"])
                if thread == 0 and (key, self.at[key, 0]) not in self.wanted:
                    self.arrived[bar] += 1
                    number = self.arrived[bar] - 1
                    self.wanted[key, self.at[key, 0]] = (number // op["num_threadblocks"] + 1) * (
                        op["num_threadblocks"]
                    )
                if self.arrived[bar] < self.wanted.get((key, self.at[key, thread]), 1 << 30):
                    return False
        elif name in {"wait", "rlxwait", "sem_acquire"}:
            ids = op["semaphore_ids" if name == "sem_acquire" else "channel_ids"]
            if thread < len(ids):
                counter = (
                    ("sem", gpu["id"], ids[thread])
                    if name == "sem_acquire"
                    else self.channel(gpu, block, op, thread, incoming=True)
                )
                if not self.count[counter]:
                    return False
                self.count[counter] -= 1
        elif name == "sem_release":
            if thread < len(op["semaphore_ids"]):
                self.count["sem", gpu["id"], op["semaphore_ids"][thread]] += 1
        elif name in {"signal", "rlxsignal"}:
            if thread < len(op["channel_ids"]):
                self.count[self.channel(gpu, block, op, thread, incoming=False)] += 1
        else:
            port = op.get("channel_type") == "port"
            share = thread if port else self.share(key, self.at[key, thread], thread)
            if not self.move((gpu, block), op, turn, share, launch):
                return False
        self.at[key, thread] += 1
        return True

    def share(self, key: tuple, place: int, thread: int) -> int:
        """Return the share of the data that a thread moves: no two operations divide alike."""
        shift = self.shifts.setdefault((key, place), self.rng.randrange(THREADS))
        return (thread + shift) % THREADS

    def move(self, where: tuple, op: dict, turn: int, element: int, launch: int) -> bool:
        """Move a share of the data; False while packets are missing."""
        gpu, block = where
        name = op["name"]
        port = op.get("channel_type") == "port"
        sources = []
        first = {"upkt": 0, "rppkt": 0, "gstorepkt": 0}.get(name, 1)
        for number, ref in enumerate(op.get("src_buff", [])):
            values = []
            for cell in self.cells(gpu, block, op, ref, turn):
                if name.endswith("pkt") and name not in {"ppkt", "cpkt"} and number >= first:
                    if (launch, element, cell) not in self.packets:
                        return False
                    values.append(self.memory.get(("packet", launch, element, cell)))
                else:
                    values.append(self.memory.get((element, cell), (element, cell)))
            sources.append(values)
        if name in REDUCES:  # all the others copy
            sources = [[hash(tuple(map(str, one))) for one in zip(*sources, strict=True)]]
        first = 1 if name in {"respkt", "recspkt", "recpkt"} else 0
        for number, ref in enumerate(op.get("dst_buff", [])):
            values = sources[min(number, len(sources) - 1)]
            for at, cell in enumerate(self.cells(gpu, block, op, ref, turn)):
                value = values[at % len(values)]
                if name.endswith("pkt") and name != "upkt" and number >= first:
                    self.packets.add((launch, element, cell))
                    self.memory["packet", launch, element, cell] = value
                elif not port:
                    self.memory[element, cell] = value
                elif element == 0:  # one thread puts all of it
                    self.memory |= {(one, cell): value for one in range(THREADS)}
        if name in {"pws", "pwsf"} and element < len(op["channel_ids"]):
            self.count[self.channel(gpu, block, op, element, incoming=False)] += 1
        return True

    def run(self) -> tuple:
        """Run until nothing moves; return whether all ended, and what the gpus hold then."""
        places = list(self.at)
        while places:
            self.rng.shuffle(places)
            moved = False
            for key, thread in places:
                burst = self.rng.choice([1, 1, 2, 9])
                while burst and self.at[key, thread] < len(self.blocks[key][2]) * self.launches:
                    if not self.step(key, thread):
                        break
                    burst, moved = burst - 1, True
            if not moved:
                break
        over = all(
            at == len(self.blocks[key][2]) * self.launches for (key, _), at in self.at.items()
        )
        return over, frozenset(self.memory.items())


def ends(program: dict, launches: int, runs: int) -> set[tuple]:
    """Return how some random runs end."""
    return {Machine(program, seed, launches).run() for seed in range(runs)}


def deletions(program: dict):
    """Yield programs without one wait, signal, release, acquire, barrier or nop, and its name."""
    for g, gpu in enumerate(program["gpus"]):
        for b, block in enumerate(gpu["threadblocks"]):
            for o, op in enumerate(block["ops"]):
                inner = range(len(op["ops"])) if op["name"] == "pipeline" else [None]
                for i in inner:
                    name = op["name"] if i is None else op["ops"][i]["name"]
                    if name not in (*COUNTED, "nop"):
                        continue
                    edited = copy.deepcopy(program)
                    ops = edited["gpus"][g]["threadblocks"][b]["ops"]
                    del (ops if i is None else ops[o]["ops"])[o if i is None else i]
                    yield name, (g, b, o, i), edited


@pytest.mark.parametrize("name", [name for name in NAMES if name != HANGS])
def test_every_deletion_is_seen_or_changes_nothing(name):
    """Without one wait, signal or barrier a sample is not SAFE; without one nop, or it is as good.

    Where the verdict stays SAFE, random runs of the threads end, with what the sample ends with.
    """
    program = json.loads((FOLDER / f"{name}.json").read_text())
    original = ends(program, 1, 6)
    assert len(original) == 1, "the sample itself races"
    assert next(iter(original))[0]
    seen = Counter()
    for kind, place, edited in deletions(program):
        outcome = verdict(edited).outcome.value
        seen[kind, outcome] += 1
        if kind != "nop":
            assert outcome in {"DEADLOCK", "UNKNOWN"}, (kind, place)
        elif outcome == "SAFE":
            assert ends(edited, 1, 8) == original, place
            assert {over for over, _ in ends(edited, 3, 3)} == {True}, place
    if any(kind == "nop" for kind, _ in seen):
        assert seen["nop", "SAFE"], "a nop at the very end is not needed"


def test_a_semaphore_that_does_not_return_to_its_start_is_not_decided():
    """An acquire that only the initial value lets pass is stuck in the second launch."""
    program = json.loads((FOLDER / "port-put-2.json").read_text())
    program["gpus"][0]["semaphores"] = [{"init_value": 1}]
    take = {"name": "sem_acquire", "semaphore_ids": [0]}
    program["gpus"][0]["threadblocks"][0]["ops"].append(take)
    assert {over for over, _ in ends(program, 1, 3)} == {True}
    assert {over for over, _ in ends(program, 2, 3)} == {False}
    found = verdict(program)
    assert found.outcome.value == "UNKNOWN"
    ledger = {one.kind: one.message for one in found.approximations}
    assert "gpu 0 semaphore 0 is raised 0 times and lowered 1 times" in ledger["unbalanced"]
    program["gpus"][0]["threadblocks"][0]["ops"] += [{"name": "nop"}]
    give = {"name": "sem_release", "semaphore_ids": [0]}
    program["gpus"][0]["threadblocks"][0]["ops"].append(give)
    assert {over for over, _ in ends(program, 3, 3)} == {True}
    assert verdict(program).outcome.value == "SAFE"


def test_packets_that_the_next_launch_may_overwrite_are_not_decided():
    """One half of the scratch buffer, or a writer that waits for no reader: UNKNOWN, not SAFE."""
    program = json.loads((FOLDER / "allgather-packets-4.json").read_text())
    assert verdict(program).outcome.value == "SAFE"
    program["use_double_scratch_buffer"] = False
    found = verdict(program)
    assert found.outcome.value == "UNKNOWN"
    assert "overwritten-packets" in {one.kind for one in found.approximations}
    program["use_double_scratch_buffer"] = True
    for block in program["gpus"][0]["threadblocks"]:  # gpu 0 writes and reads nothing
        block["ops"] = [op for op in block["ops"] if op["name"] == "cpkt"] + [
            op | {"name": "ppkt"} for op in block["ops"] if op["name"] == "rppkt"
        ]
    found = verdict(program)
    assert found.outcome.value == "UNKNOWN"
    ledger = {one.kind: one.message for one in found.approximations}
    assert "gpu 0 waits for nothing of gpu" in ledger["overwritten-packets"]


def random_program(rng: random.Random) -> dict:
    """Make a plan of two gpus whose thread blocks signal, wait, release and acquire."""
    gpus = []
    width = rng.randint(1, 2)
    for number in range(2):
        ops: list[list[dict]] = [[] for _ in range(width)]
        for block in range(width):
            for _ in range(rng.randint(0, 2)):
                ops[block].append({"name": "signal", "channel_ids": [0], "channel_type": "memory"})
        gpus.append(
            {
                "id": number, "input_chunks": 1, "output_chunks": 1, "scratch_chunks": 0,
                "semaphores": [{"init_value": rng.randint(0, 1)}], "remote_buffers": [],
                "channels": [{"channel_type": "memory", "connected_to": [1 - number] * width}],
                "threadblocks": ops,
            }
        )  # fmt: skip
    for number, gpu in enumerate(gpus):
        for block in range(width):
            mine = gpu["threadblocks"][block]
            told = sum(op["name"] == "signal" for op in gpus[1 - number]["threadblocks"][block])
            told = max(0, told + rng.choice([0, 0, 0, 0, 0, 1, -1]))
            wait = {"name": "wait", "channel_ids": [0], "channel_type": "memory"}
            mine += [dict(wait) for _ in range(told)]
        if rng.random() < 0.6:
            gpu["threadblocks"][0].append({"name": "sem_release", "semaphore_ids": [0]})
        if rng.random() < 0.6:
            gpu["threadblocks"][-1].append({"name": "sem_acquire", "semaphore_ids": [0]})
    for gpu in gpus:
        for block, ops in enumerate(gpu["threadblocks"]):
            rng.shuffle(ops)
            joined = [one for op in ops for one in (op, {"name": "nop"})]
            channels = [{"channel_type": "memory", "channel_ids": [block]}]
            gpu["threadblocks"][block] = {
                "id": block, "ops": joined, "channels": channels, "remote_buffer_refs": [],
            }  # fmt: skip
    return {"name": "random", "collective": "x", "protocol": "Simple", "inplace": True,
            "gpus": gpus}  # fmt: skip


def test_random_plans_are_judged_as_several_launches_of_them():
    """SAFE: five launches end and the counters return; DEADLOCK: one is stuck; else a doubt."""
    rng, seen = random.Random(4), Counter()
    for _ in range(300):
        program = random_program(rng)
        found = verdict(program)
        outcome = found.outcome.value
        runs = {}
        for launches in (1, 2, 5):
            machine = Machine(program, 0, launches)
            before = +machine.count
            runs[launches] = machine.run()[0], +machine.count == before
        seen[outcome] += 1
        if outcome == "SAFE":
            assert set(runs.values()) == {(True, True)}, json.dumps(program)
        elif outcome == "DEADLOCK":
            assert not runs[1][0], json.dumps(program)
        else:
            local = "PG910" in {one.code for one in found.findings}  # nobody tells another one
            assert runs[1][0], json.dumps(program)
            assert local or not runs[1][1], json.dumps(program)
            assert local or "unbalanced" in {one.kind for one in found.approximations}
    assert min(seen["SAFE"], seen["DEADLOCK"], seen["UNKNOWN"]) > 20, seen
