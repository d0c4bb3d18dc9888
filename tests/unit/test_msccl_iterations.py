"""One iteration of an algorithm of MSCCL for any number: deletions in all samples, small programs.

The judge runs the XML for several iterations on queues with contents, as MSCCL's kernel runs it:
no iteration waits for the one before, a flag is (iteration, step), a connection is a queue with a
number of slots that outlives the iteration. It shares nothing with the adapter.
"""

from __future__ import annotations

import itertools
import random
import sys
from collections import Counter, defaultdict, deque
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

import planguard

FOLDER = Path(__file__).resolve().parents[2] / "tests" / "samples" / "msccl"
PATHS = sorted([*FOLDER.glob("*.xml"), FOLDER / "found" / "alltonext-forward-2.xml"])
SENDS, RECEIVES = {"s", "rcs", "rrs", "rrcs"}, {"r", "rrc", "rcs", "rrs", "rrcs"}
sys.path.insert(0, str(FOLDER))

import play  # noqa: E402 - plays the XML on numbers


def judge(root: ET.Element, slots: int, iterations: int) -> str:
    """Return ``stuck``, ``mixed`` (a receive takes what is for another chunk) or ``ends``.

    What is left in a connection at the end is what the next call of the algorithm takes: mixed.
    """
    blocks = {
        (int(gpu.get("id")), int(tb.get("id"))): (tb, tb.findall("step"))
        for gpu in root.findall("gpu")
        for tb in gpu.findall("tb")
    }
    queues: dict[tuple, deque] = defaultdict(deque)
    at, flag = dict.fromkeys(blocks, 0), defaultdict(lambda: (-1, -1))
    mixed, moved = False, True
    while moved:
        moved = False
        for key, (tb, steps) in blocks.items():
            if at[key] >= len(steps) * iterations:
                continue
            turn, place = divmod(at[key], len(steps))
            step = steps[place]
            kind, gpu = step.get("type"), key[0]
            into = queues[int(tb.get("recv")), gpu, tb.get("chan")]
            out = queues[gpu, int(tb.get("send")), tb.get("chan")]
            if step.get("depid") != "-1":
                wanted = (turn, int(step.get("deps")))
                if flag[gpu, int(step.get("depid"))] < wanted:
                    continue
            if (kind in RECEIVES and not into) or (kind in SENDS and len(out) >= slots):
                continue
            mine = (step.get("dstbuf"), step.get("dstoff"))
            if kind in RECEIVES:
                sent_in, target, count = into.popleft()
                differs = target is not None and (sent_in, target) != (turn, mine)
                mixed |= differs or count != step.get("cnt")
            if kind in SENDS:
                out.append((turn, mine if kind == "s" else None, step.get("cnt")))
            if step.get("hasdep") == "1":
                flag[key] = (turn, place)
            at[key] += 1
            moved = True
    if any(at[key] < len(steps) * iterations for key, (_, steps) in blocks.items()):
        return "stuck"
    return "mixed" if mixed or any(queues.values()) else "ends"


def verdict(root: ET.Element, slots: int = 8) -> planguard.Verdict:
    """Return the verdict of an algorithm."""
    return planguard.check(planguard.load(ET.tostring(root), planner="msccl", slots=slots))


# --- deletions -----------------------------------------------------------------------------------


def deletions(root: ET.Element):
    """Yield what can be deleted, as ``(name, place, attributes)``; numbers of steps stay."""
    blocks = [(gpu, tb) for gpu in root.findall("gpu") for tb in gpu.findall("tb")]
    for gpu, tb in blocks:
        for number, step in enumerate(tb.findall("step")):
            place = (gpu.get("id"), tb.get("id"), number)
            kind = step.get("type")
            if kind in SENDS | RECEIVES:
                yield kind, place, {"type": "nop", "cnt": "0"}
            if kind == "nop":
                yield "nop", place, {"depid": "-1", "deps": "-1", "hasdep": "0"}
            if step.get("depid") != "-1":
                yield "depend", place, {"depid": "-1", "deps": "-1"}
            if step.get("hasdep") == "1":
                yield "signal", place, {"hasdep": "0"}


def deleted(path: Path, place: tuple[str, str, int], attributes: dict[str, str]) -> ET.Element:
    """Return a sample without one thing."""
    root = ET.fromstring(path.read_text())  # noqa: S314 - our own file
    tb = root.find(f"gpu[@id='{place[0]}']/tb[@id='{place[1]}']")
    tb.findall("step")[place[2]].attrib.update(attributes)
    return root


def memories(path: Path, runs: int) -> set[tuple]:
    """Return what the gpus hold at the end of some random runs, and whether all of it was done."""
    found = set()
    for seed in range(runs):
        machine = play.play(path, seed)
        over = all(block.done == len(block.steps) for block in machine.blocks.values())
        found.add((over, tuple(sorted(machine.memory.items()))))
    return found


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_every_deletion_is_seen_or_changes_nothing(path, tmp_path):
    """Without one send, receive, wait, flag or nop a sample is not SAFE, or does the same.

    Of the largest sample every ninth deletion is made, and played four times in place of twelve:
    its sixteen gpus do the same.
    """
    original = memories(path, 1)
    seen = Counter()
    root = ET.fromstring(path.read_text())  # noqa: S314 - our own file
    every, plays = (9, 4) if path.stem == "hierarchical-8x2" else (1, 12)
    for name, place, attributes in itertools.islice(deletions(root), 0, None, every):
        edited = deleted(path, place, attributes)
        outcome = verdict(edited).outcome.value
        seen[name, outcome] += 1
        if name in SENDS | RECEIVES:
            assert outcome in {"DEADLOCK", "MISMATCH"}, (name, place)
        elif outcome == "SAFE":
            other = tmp_path / "edited.xml"
            other.write_bytes(ET.tostring(edited))
            assert judge(edited, 8, 10) == "ends"
            assert memories(other, plays) == original, (name, place)
    assert seen


def test_a_lost_wait_that_lets_two_steps_race_is_not_decided():
    """A chunk that one thread block may read before another writes it is named."""
    path = FOLDER / "hierarchical-2x2.xml"
    found = verdict(deleted(path, ("0", "2", 2), {"depid": "-1", "deps": "-1"}))
    assert found.outcome.value == "UNKNOWN"
    ledger = {one.kind: one.message for one in found.approximations}
    assert "gpu 0 tb" in ledger["race"]
    assert "use i[0] in any order" in ledger["race"]


# --- leftovers -----------------------------------------------------------------------------------


def program(gpus: list[list[tuple[int, int, list[dict]]]]) -> ET.Element:
    """Make an algorithm of one channel from thread blocks ``(send, recv, steps)``."""
    top = {"name": "x", "proto": "Simple", "nchannels": "1", "nchunksperloop": "1"}
    root = ET.Element("algo", top | {"ngpus": str(len(gpus)), "coll": "custom", "inplace": "1"})
    for number, blocks in enumerate(gpus):
        chunks = {"i_chunks": "9", "o_chunks": "9", "s_chunks": "9"}
        gpu = ET.SubElement(root, "gpu", {"id": str(number)} | chunks)
        for at, (send, recv, steps) in enumerate(blocks):
            ends = {"id": str(at), "send": str(send), "recv": str(recv), "chan": "0"}
            tb = ET.SubElement(gpu, "tb", ends)
            for place, step in enumerate(steps):
                given = {"s": place, "type": "nop", "srcbuf": "i", "srcoff": 0, "dstbuf": "o"}
                given |= {"dstoff": 0, "cnt": 1, "depid": -1, "deps": -1, "hasdep": 0} | step
                ET.SubElement(tb, "step", {name: str(value) for name, value in given.items()})
    return root


@pytest.mark.parametrize("slots", [1, 2, 8, None])
def test_a_send_that_is_left_over_in_every_iteration_is_stuck(slots):
    """Two sends and one receive: the finding names connection, gpu, thread block and step."""
    send = [{"type": "s"}, {"type": "s", "dstoff": 1}]
    found = verdict(program([[(1, -1, send)], [(-1, 0, [{"type": "r"}])]]), slots)
    assert found.outcome.value == "DEADLOCK"
    place = found.errors[0].primary.source.function
    assert "gpu 0 tb 0 step 1: gpu 0 -> gpu 1 on channel 0 has 2 sends and 1 receives" in place
    assert "one-iteration" not in {one.kind for one in found.approximations}
    assert judge(program([[(1, -1, send)], [(-1, 0, [{"type": "r"}])]]), slots or 8, 9) == "stuck"


def test_a_thread_block_that_waits_for_its_own_flag_needs_it():
    """MSCCL's kernel waits for the flag of its own thread block as for any other."""
    for flag, outcome in ((0, "DEADLOCK"), (1, "SAFE")):
        steps = [{"type": "s", "hasdep": flag}, {"type": "nop", "cnt": 0, "depid": 0, "deps": 0}]
        root = program([[(1, -1, steps)], [(-1, 0, [{"type": "r"}])]])
        assert verdict(root).outcome.value == outcome
        assert (judge(root, 8, 10) == "ends") == (outcome == "SAFE")


def random_program(rng: random.Random) -> ET.Element:
    """Make a small algorithm: mostly balanced, with fused steps and flags."""
    count = rng.randint(2, 3)
    connections = [(a, b) for a in range(count) for b in range(count) if a != b]
    chosen = rng.sample(connections, rng.randint(1, len(connections)))
    gpus: list[list] = [[] for _ in range(count)]
    free_in = list(chosen)
    for src, dst in chosen:
        into = [one for one in free_in if one[1] == src]
        if into and rng.random() < 0.5:  # one thread block receives and sends
            free_in.remove(into[0])
            gpus[src].append((dst, into[0][0], []))
        else:
            gpus[src].append((dst, -1, []))
    for src, dst in free_in:
        gpus[dst].append((-1, src, []))
    sends = {one: rng.randint(1, 3) for one in chosen}
    for gpu, blocks in enumerate(gpus):
        for send, recv, steps in blocks:
            out = sends.get((gpu, send), 0) if send >= 0 else 0
            into = sends.get((recv, gpu), 0) if recv >= 0 else 0
            fused = rng.randint(0, min(out, into)) if rng.random() < 0.4 else 0
            kinds = [rng.choice(["rcs", "rrs", "rrcs"])] * fused
            kinds += ["s"] * (out - fused) + ["r"] * (into - fused)
            kinds += ["nop"] * rng.randint(0, 1)
            rng.shuffle(kinds)
            if rng.random() < 0.12 and kinds:
                kinds.remove(rng.choice(kinds))
            steps += [{"type": kind, "hasdep": int(rng.random() < 0.5)} for kind in kinds]
        for own, (_, _, steps) in enumerate(blocks):
            for at, step in enumerate(steps):
                step |= {"srcoff": rng.randrange(9), "dstbuf": "s"}
                step |= {"dstoff": int(rng.random() < 0.03)}
                other = rng.randrange(len(blocks))
                length = len(blocks[other][2])
                if rng.random() < 0.25 and length and (other != own or at):
                    step |= {"depid": other, "deps": rng.randrange(at if other == own else length)}
    return program(gpus)


def test_random_programs_are_judged_as_several_iterations_of_them():
    """For 1, 2 and 8 slots: no wrong SAFE, no wrong alarm; UNKNOWN only where chunks race."""
    rng, seen = random.Random(11), Counter()
    for _ in range(260):
        root, slots = random_program(rng), rng.choice([1, 2, 8])
        found = verdict(root, slots)
        runs = {judge(root, slots, times) for times in range(1, slots + 3)}
        outcome = found.outcome.value
        seen[outcome] += 1
        if outcome == "SAFE":
            assert runs == {"ends"}, ET.tostring(root)
        elif outcome == "DEADLOCK":
            assert "stuck" in runs, ET.tostring(root)
        elif outcome == "MISMATCH":
            assert runs & {"mixed", "stuck"}, ET.tostring(root)
        else:
            assert "race" in {one.kind for one in found.approximations}, ET.tostring(root)
            assert runs == {"ends"}, ET.tostring(root)
    assert min(seen["SAFE"], seen["DEADLOCK"], seen["UNKNOWN"], seen["MISMATCH"]) >= 4, seen
