"""MSCCL's own algorithms: what is in their plans, which are safe, and what one edit does to them.

The judge is an interpreter of the XML that shares nothing with the adapter: thread blocks, slots
and flags, run until nothing moves. The enumerator of plans judges the encoding once more.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

import planguard
from planguard import registry
from planguard.errors import PlanError, UsageError
from planguard.testing import check_adapter

TESTS = Path(__file__).resolve().parents[1]

from oracle.enumerator import Effort, enumerate_plan  # noqa: E402

adapter = registry.find("msccl")
FOLDER = TESTS.parent / "tests" / "samples" / "msccl"
NAMES = sorted(path.stem for path in FOLDER.glob("*.xml"))
sys.path.insert(0, str(FOLDER))

import play  # noqa: E402 - plays the XML on numbers

SENDS, RECEIVES = {"s", "rcs", "rrs", "rrcs"}, {"r", "rrc", "rcs", "rrs", "rrcs"}


def tree_of(name: str) -> ET.Element:
    """Return a sample, parsed by another parser."""
    return ET.fromstring((FOLDER / f"{name}.xml").read_text())  # noqa: S314 - our own file


def verdict(root: ET.Element, **options) -> planguard.Verdict:
    """Return the verdict of an algorithm."""
    return planguard.check(planguard.load(ET.tostring(root), planner="msccl", **options))


def interpret(root: ET.Element, slots: int, iterations: int | None = None) -> bool:
    """Run an algorithm on queues of bounded length; True if every thread block ends.

    No iteration waits for the one before it: a flag is the iteration and the step. One iteration
    more than there are slots fills every connection on which something is left over.
    """
    iterations = slots + 1 if iterations is None else iterations
    blocks = {}
    for gpu in root.findall("gpu"):
        for tb in gpu.findall("tb"):
            blocks[int(gpu.get("id")), int(tb.get("id"))] = tb
    queues, at, flag = defaultdict(int), dict.fromkeys(blocks, 0), defaultdict(lambda: (-1, -1))
    moved = True
    while moved:
        moved = False
        for (gpu, number), tb in blocks.items():
            steps = tb.findall("step")
            while at[gpu, number] < len(steps) * iterations:
                turn, place = divmod(at[gpu, number], len(steps))
                step = steps[place]
                incoming = (int(tb.get("recv")), gpu, tb.get("chan"))
                outgoing = (gpu, int(tb.get("send")), tb.get("chan"))
                other, needed = int(step.get("depid")), int(step.get("deps"))
                told = other == -1 or flag[gpu, other] >= (turn, needed)
                there = step.get("type") not in RECEIVES or queues[incoming] > 0
                room = step.get("type") not in SENDS or queues[outgoing] < slots
                if not (told and there and room):
                    break
                queues[incoming] -= step.get("type") in RECEIVES
                queues[outgoing] += step.get("type") in SENDS
                if step.get("hasdep") == "1":
                    flag[gpu, number] = (turn, place)
                at[gpu, number] += 1
                moved = True
    return all(at[key] == len(tb.findall("step")) * iterations for key, tb in blocks.items())


def kinds_of_gpu(name: str, slots: int = 8) -> list[Counter]:
    """Return the number of actions of every kind, per gpu, without those that carry flags."""
    plan = json.loads(planguard.load(FOLDER / f"{name}.xml", slots=slots).source)
    counts = []
    for gpu in sorted(plan["groups"], key=lambda text: int(text[3:])):
        actions = [
            a for r in plan["groups"][gpu]["ranks"] for a in plan["ranks"][str(r)]["actions"]
        ]
        counts.append(Counter(a["op"] for a in actions if a.get("phase") != "flag"))
    return counts


# --- correct algorithms --------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_an_algorithm_of_the_compiler_is_safe_with_eight_slots(name):
    """What msccl-tools prints is SAFE with the 8 slots of NCCL, as the interpreter finds."""
    assert interpret(tree_of(name), 8)
    assert verdict(tree_of(name)).outcome.value == "SAFE"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("allreduce-ring-4", {"isend": 6, "recv": 6}),
        ("allgather-ring-4", {"isend": 3, "recv": 3}),
        ("allgather-doubling-4", {"isend": 2, "recv": 2}),
        ("allreduce-halving-4", {"isend": 4, "recv": 4}),
        ("alltoall-two-step-2x2", {"isend": 3, "recv": 3, "compute": 3}),
        ("hierarchical-2x2", {"isend": 6, "recv": 6}),
        ("hierarchical-8x2", {"isend": 30, "recv": 30}),
    ],
)
def test_every_gpu_has_the_expected_transfers(name, expected):
    """Each gpu sends and receives as often as its collective needs."""
    counts = kinds_of_gpu(name)
    for count in counts:
        assert {kind: count[kind] for kind in expected} == expected


def test_the_thread_blocks_of_a_ring_have_the_expected_actions():
    """A rank is a thread block; the sends that must wait for a slot are preceded by a wait."""
    plan = json.loads(planguard.load(FOLDER / "allreduce-ring-4.xml", slots=2).source)
    for rank in range(4):
        ops = [action["op"] for action in plan["ranks"][str(rank)]["actions"]]
        assert Counter(ops) == {"isend": 6, "recv": 6, "wait": 4}
        assert ops[:7] == ["isend", "recv", "isend", "wait", "recv", "isend", "wait"]


@pytest.mark.parametrize("name", NAMES)
def test_the_adapter_keeps_its_contract(name):
    """Sources, labels, repeatability, damage: what every adapter owes."""
    check_adapter(adapter, FOLDER / f"{name}.xml", strangers=(b"<plan/>", b"<?xml version='1.0'?>"))


# --- the found case ------------------------------------------------------------------------------


def test_the_hierarchical_all_reduce_is_stuck_with_one_slot():
    """MSCCL's hierarchical all-reduce, manual schedule, 8 x 2: stuck with 1 slot, safe with 8."""
    root = tree_of("hierarchical-8x2")
    assert not interpret(root, 1)
    found = verdict(root, slots=1)
    assert found.outcome.value == "DEADLOCK"
    assert "wait for each other in a ring" in found.errors[0].message
    assert interpret(root, 8)
    assert verdict(root, slots=8).outcome.value == "SAFE"


@pytest.mark.parametrize(("nodes", "outcome"), [(2, "SAFE"), (3, "MISMATCH")])
def test_a_copy_that_the_compiler_puts_in_the_wrong_place_is_a_mismatch(nodes, outcome):
    """MSCCL's all-to-next of three nodes is a MISMATCH: some orders of it end with other data."""
    path = FOLDER / "found" / f"alltonext-forward-{nodes}.xml"
    found = planguard.check(planguard.load(path))
    chunks = play.load(path)[1]
    bad = sum(bool(play.wrong(play.play(path, seed), chunks)) for seed in range(20))
    assert found.outcome.value == outcome
    assert bool(bad) == (outcome != "SAFE")
    assert {finding.code for finding in found.errors} <= {"PG213"}


def test_without_a_number_of_slots_it_depends_on_buffering():
    """With `slots=None` the verdict is POTENTIAL_DEADLOCK and names the buffering it needs."""
    found = verdict(tree_of("hierarchical-8x2"), slots=None)
    assert found.outcome.value == "POTENTIAL_DEADLOCK"
    assert "send buffering" in found.errors[0].message


@pytest.mark.processes
@pytest.mark.parametrize(("slots", "code"), [(1, 1), (2, 0)])
def test_real_processes_hang_with_one_slot_and_end_with_two(slots, code, tmp_path):
    """Four gloo processes, one per thread block of the ring, end as the verdict says."""
    plan = planguard.load(FOLDER / "allreduce-ring-4.xml", slots=slots)
    path = tmp_path / "ring.plan.json"
    path.write_text(json.dumps(json.loads(plan.source)))
    done = subprocess.run(
        [sys.executable, "-m", "planguard", "replay", str(path), "--timeout", "4"],
        capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip
    assert done.returncode == code, done.stdout + done.stderr
    assert ("reproduced: all 4 ranks" in done.stdout) == (slots == 1)


# --- mutations -----------------------------------------------------------------------------------


def step(root, gpu, tb, number):
    """Return one step."""
    return root.findall("gpu")[gpu].findall("tb")[tb].findall("step")[number]


def renumber(block):
    """Number the steps of a thread block again."""
    for at, one in enumerate(block.findall("step")):
        one.set("s", str(at))


def swapped(root):
    """Exchange two steps."""
    block = root.findall("gpu")[1].findall("tb")[0]
    first = block[0]
    block.remove(first)
    block.insert(1, first)
    renumber(block)


def dropped(root):
    """Leave out a step."""
    block = root.findall("gpu")[2].findall("tb")[0]
    block.remove(block[0])
    renumber(block)


def duplicated(root):
    """Repeat the last step."""
    block = root.findall("gpu")[0].findall("tb")[0]
    block.append(ET.Element("step", dict(block[-1].attrib)))
    renumber(block)


def wrong_peer(root):
    """Send to the wrong gpu."""
    root.findall("gpu")[3].findall("tb")[0].set("send", "1")


def wrong_channel(root):
    """Use another channel."""
    root.findall("gpu")[0].findall("tb")[0].set("chan", "1")


@pytest.mark.parametrize("edit", [dropped, duplicated, wrong_peer, wrong_channel, swapped])
def test_a_mistake_is_judged_as_the_interpreter_judges_it(edit):
    """One edit of the ring all-reduce ends it where the interpreter is stuck, with every slots."""
    root = tree_of("allreduce-ring-4")
    edit(root)
    for slots in (1, 2, 8):
        outcome = verdict(root, slots=slots).outcome.value
        assert (outcome == "DEADLOCK") == (not interpret(root, slots)), (edit.__name__, slots)
    assert verdict(root).outcome.value != "SAFE"


def test_a_changed_size_is_a_mismatch():
    """A step with another count than its counterpart is a mismatch of sizes."""
    root = tree_of("allgather-doubling-4")
    step(root, 0, 1, 0).set("cnt", "1")
    found = verdict(root)
    assert found.outcome.value == "MISMATCH"
    assert found.errors[0].code == "PG202"


def test_swapped_chunks_are_out_of_round():
    """A sender that swaps two chunks of equal size is found by where they belong."""
    root = tree_of("hierarchical-8x2")
    for block in root.iter("tb"):
        sends = [one for one in block if one.get("type") == "s" and one.get("cnt") == "1"]
        if len({one.get("dstoff") for one in sends}) > 1:
            one, other = sends[0].attrib, sends[-1].attrib
            one["dstoff"], other["dstoff"] = other["dstoff"], one["dstoff"]
            break
    assert verdict(root).outcome.value == "MISMATCH"


def test_a_flag_that_nobody_sets_is_waited_for_for_ever():
    """A step whose `hasdep` is lost leaves who depends on it waiting."""
    root = tree_of("hierarchical-2x2")
    cleared = next(
        one for one in root.iter("step") if one.get("hasdep") == "1" and one.get("type") != "nop"
    )
    for one in root.findall("gpu")[0].iter("step"):
        one.set("hasdep", "0")
    del cleared
    assert not interpret(root, 8)
    assert verdict(root).outcome.value == "DEADLOCK"


def random_edit(root, rng):
    """Swap, drop, duplicate or rewire something, somewhere."""
    block = rng.choice([tb for tb in root.iter("tb") if len(tb)])
    how = rng.randrange(6)
    if how == 0:
        block.remove(rng.choice(list(block)))
    elif how == 1:
        one = rng.choice(list(block))
        block.remove(one)
        block.insert(rng.randrange(len(block) + 1), one)
    elif how == 2:
        block.append(ET.Element("step", dict(rng.choice(list(block)).attrib)))
    elif how == 3:
        rng.choice(list(block)).set("hasdep", "0")
    elif how == 4:
        block.set("chan", str(rng.randrange(3)))
    else:
        one, other = rng.sample(list(root.iter("step")), 2)
        one.set("type", other.get("type"))
    renumber(block)


def test_random_edits_are_judged_as_the_interpreter_judges_them():
    """Of several hundred damaged algorithms the plan is stuck exactly where the XML is."""
    rng, judged = random.Random(5), Counter()
    names = [name for name in NAMES if name != "hierarchical-8x2"]
    for _ in range(120):
        root = tree_of(rng.choice(names))
        for _ in range(rng.randint(1, 2)):
            random_edit(root, rng)
        slots = rng.choice([1, 1, 2, 3, 8])
        try:
            found = verdict(root, slots=slots)
        except PlanError:
            judged["refused"] += 1
            continue
        stuck = not interpret(root, slots)
        # A mismatch hides what is stuck behind it; SAFE and DEADLOCK must agree with the judge.
        if found.outcome.value in {"MISMATCH", "UNKNOWN"}:
            judged[found.outcome.value] += 1
            assert found.outcome.value == "MISMATCH" or not stuck
            continue
        assert (found.outcome.value == "DEADLOCK") == stuck, ET.tostring(root)
        judged["stuck" if stuck else "ends"] += 1
    assert judged["stuck"] > 12, judged
    assert judged["ends"] > 12, judged


@pytest.mark.parametrize("edit", [None, dropped, duplicated, wrong_peer, swapped])
def test_the_plan_of_a_ring_is_judged_as_the_enumerator_judges_it(edit):
    """The enumerator of executions agrees on the plan, with one slot and with two."""
    root = tree_of("allreduce-ring-4")
    if edit is not None:
        edit(root)
    for slots in (1, 2):
        plan = planguard.load(ET.tostring(root), planner="msccl", slots=slots)
        document = json.loads(plan.source)
        for program in document["ranks"].values():
            for action in program["actions"]:
                action.pop("mode", None)  # every send of gloo is synchronous
        expected = enumerate_plan(document, "gloo", Effort(verify=0)).outcome
        assert planguard.check(plan).outcome.value == expected


# --- refused -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "where"),
    [
        ('type="s"', 'type="sss"', "unknown type of step"),
        ('cnt="1"', 'cnt="-1"', "attribute cnt"),
        ('cnt="1"', 'cnt="many"', "no integer"),
        ('<step s="1"', '<step s="7"', "expected s 1"),
        ('send="1"', 'send="9"', "attribute send"),
        ('send="1"', 'send="0"', "names the gpu itself"),
        ('hasdep="0"', 'hasdep="2"', "attribute hasdep"),
        ('depid="-1"', 'depid="5"', "depid without deps"),
        ('ngpus="4"', 'ngpus="5"', "gpu 4 is missing"),
        ("<gpu ", "<cpu ", "not well-formed"),
        ("chan=", "canal=", "unknown attribute"),
        ('srcbuf="i"', 'srcbuf="x"', "none of i, o, s"),
        ("<algo ", '<!DOCTYPE a SYSTEM "file:///etc/passwd"><algo ', "a document type"),
        ("<algo ", '<!DOCTYPE a [<!ENTITY b "c">]><algo ', "a document type"),
        ("<algo ", '<?xml-stylesheet href="a"?><algo ', "processing instruction"),
        ("</algo>", "text</algo>", "text between elements"),
        ("<step ", "<step><step/></step><step ", "nested too deeply"),
    ],
)
def test_malformed_xml_is_refused_with_its_line(old, new, where):
    """Every defect is a PlanError with line and hint; nothing is loaded or expanded."""
    text = (FOLDER / "allreduce-ring-4.xml").read_text()
    assert old in text
    with pytest.raises(PlanError, match=where) as caught:
        planguard.load(text.replace(old, new, 1).encode(), planner="msccl")
    assert caught.value.hint


def test_an_algorithm_without_thread_blocks_is_refused():
    """An empty algorithm is a mistake, not a safe plan."""
    with pytest.raises(PlanError, match="no thread block"):
        planguard.load(b'<algo name="x" ngpus="1"><gpu id="0"/></algo>', planner="msccl")


def test_two_thread_blocks_cannot_share_an_end_of_a_connection():
    """One connection has one sender and one receiver."""
    root = tree_of("allgather-ring-4")
    for block in root.findall("gpu")[0].findall("tb"):
        block.set("chan", "0")
    with pytest.raises(PlanError, match="two thread blocks of gpu 0"):
        verdict(root)


@pytest.mark.parametrize(
    "options", [{"slots": 0}, {"slots": True}, {"chunk_bytes": -1}, {"slot": 1}]
)
def test_impossible_options_are_refused(options):
    """Options are checked, and a misspelt one is answered with the right name."""
    with pytest.raises(UsageError):
        planguard.load(FOLDER / "allreduce-ring-4.xml", **options)
