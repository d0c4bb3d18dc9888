"""Mutants of what planners emit: is every bug found, nothing else, and the right action named?

    python tests/campaigns/mutants.py                 # all samples of all adapters; resumes
    python tests/campaigns/mutants.py --quick         # about a hundred
    python tests/campaigns/mutants.py --report        # the table of what is recorded so far

A sample that is SAFE under a model gets one small edit of one rank's program: an action dropped,
swapped with the next or issued twice; another peer, root, dtype or size; another order of groups, a
wait left out, a boundary of buckets moved. The enumerator of the tests, which shares nothing with
the checker, says whether the mutant is equivalent (SAFE) or what it does. Results are appended to
`results/mutants.jsonl`, one line per mutant; a run does only what is not there.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "corpus")]

from oracle.enumerator import INFINITE, Effort, OracleBudget, enumerate_plan  # noqa: E402
from oracle.program import OracleUnsupported  # noqa: E402

import planguard  # noqa: E402
from planguard.plan.flatten import flatten  # noqa: E402

RESULTS = Path(__file__).parent / "results" / "mutants.jsonl"
SAMPLES = ROOT / "tests" / "samples"
NOT_SAMPLES = {"found", "objects", "recorded", "stalled.json", "timeline.json", "__pycache__"}
MODELS = ("nccl", "gloo", "nccl-lazy", "mpi-sync", "mpi-eager")
LARGEST = 340
"""Actions of the largest sample taken: the enumerator goes one state at a time."""
SENDS, RECEIVES = {"send", "isend"}, {"recv", "irecv"}
PAIR = SENDS | RECEIVES
ROOTED = {"broadcast", "reduce", "gather", "scatter"}
OUTSIDE = {"compute", "wait", "host_sync", "h2d", "d2h", "d2d", "test"}


def samples() -> list[Path]:
    """List the samples of all adapters."""
    found = sorted(path for path in SAMPLES.glob("*/*") if path.name not in NOT_SAMPLES)
    return [path for path in found if path.suffix != ".py"]


def base(path: Path) -> tuple[dict, str] | None:
    """Give the flat plan of a sample and a model under which it is SAFE, if there is one."""
    plan = planguard.load(path)
    if not 4 <= plan.actions <= LARGEST or plan.fusion:  # whose flushes it does not enumerate
        return None
    for model in MODELS:
        if planguard.check(plan, model=model).safe:
            return flatten(plan), model
    return None


# -- the edits: each changes a program in place and gives the places at fault, or None --


def is_call(action: dict) -> bool:
    return action["op"] in PAIR or "group" in action or action["op"] in {"batch", "coalesced"}


def pick(rng: random.Random, program: list[dict], wanted) -> int | None:
    places = [place for place, action in enumerate(program) if wanted(action)]
    return rng.choice(places) if places else None


def members(plan: dict, name: str) -> list[int]:
    return list(range(plan["world_size"])) if name == "world" else plan["groups"][name]["ranks"]


def communicates(action: dict) -> bool:
    return action["op"] not in OUTSIDE and is_call(action)


def without_waits(program: list[dict], gone: str | None) -> None:
    """Take out the waits for a handle that nobody starts any more."""
    for place in range(len(program) - 1, -1, -1):
        if program[place]["op"] == "wait" and gone is not None:
            work = program[place]["work"]
            works = [one for one in ([work] if isinstance(work, str) else work) if one != gone]
            if not works:
                del program[place]
            else:
                program[place]["work"] = works[0] if len(works) == 1 else works


def drop(rng, _plan, program):
    place = pick(rng, program, communicates)
    if place is not None:
        gone = program.pop(place)
        without_waits(program, gone.get("work"))
    return place


def swap(rng, _plan, program):
    """Swap a communication with the next one, over whatever stands between."""
    places = [place for place, action in enumerate(program) if communicates(action)]
    pairs = [
        (one, other)
        for one, other in pairwise(places)
        if not any(program[at]["op"] == "wait" for at in range(one, other))
        and program[one] != program[other]
    ]
    if not pairs:
        return None
    one, other = rng.choice(pairs)
    program[one], program[other] = program[other], program[one]
    return one, other


def duplicate(rng, _plan, program):
    place = pick(rng, program, communicates)
    if place is not None:
        twin = {key: value for key, value in program[place].items() if key not in {"id", "work"}}
        if "work" in program[place]:  # waited for at once, so that no handle is left over
            twin["work"] = "twin"
            program[place + 1 : place + 1] = [twin, {"op": "wait", "work": "twin"}]
        else:
            program.insert(place + 1, twin)
        return place, place + 1
    return None


def wrong_peer(rng, plan, program):
    rank = next(int(r) for r, body in plan["ranks"].items() if body["actions"] is program)
    group = None

    def movable(action):
        return action["op"] in PAIR and len(members(plan, action.get("group", "world"))) > 2

    place = pick(rng, program, movable)
    if place is None:
        return None
    group = members(plan, program[place].get("group", "world"))
    others = [peer for peer in group if peer not in {rank, program[place]["peer"]}]
    program[place]["peer"] = rng.choice(others)
    return place


def wrong_root(rng, plan, program):
    def movable(action):
        return "root" in action and len(members(plan, action.get("group", "world"))) > 1

    place = pick(rng, program, movable)
    if place is None:
        return None
    group = members(plan, program[place].get("group", "world"))
    program[place]["root"] = rng.choice([one for one in group if one != program[place]["root"]])
    return place


def wrong_dtype(rng, _plan, program):
    same = {"f32": "i32", "f16": "bf16", "bf16": "f16", "i64": "f64", "i32": "f32", "f64": "i64"}
    place = pick(rng, program, lambda action: action.get("dtype") in same)
    if place is not None:
        program[place]["dtype"] = same[program[place]["dtype"]]
    return place


def sizes(action: dict) -> str | None:
    if action["op"] in OUTSIDE or "in_splits" in action:
        return None
    return next((field for field in ("count", "bytes") if action.get(field)), None)


def wrong_numel(rng, _plan, program):
    place = pick(rng, program, sizes)
    if place is not None:
        program[place][sizes(program[place])] *= 2
    return place


def group_order(rng, plan, program):
    """Issue a call on another group of the same rank that a later call uses, and the other here."""
    calls = [p for p, a in enumerate(program) if "group" in a and a["op"] not in PAIR | OUTSIDE]
    pairs = [
        (one, other)
        for one, other in pairwise(calls)
        if program[one]["group"] != program[other]["group"]
    ]
    if not pairs:
        return None
    one, other = rng.choice(pairs)
    first, second = program[one]["group"], program[other]["group"]
    program[one]["group"], program[other]["group"] = second, first
    for place, group in ((one, second), (other, first)):
        if "root" in program[place] and program[place]["root"] not in members(plan, group):
            return None
    return one, other


def missing_wait(rng, _plan, program):
    """Take a wait out; the calls that start its handles are where somebody has to add it again."""
    place = pick(rng, program, lambda action: action["op"] == "wait")
    if place is None:
        return None
    works = program.pop(place)["work"]
    works = {works} if isinstance(works, str) else set(works)
    started = {one.get("work"): at for at, one in enumerate(program[:place]) if one["op"] != "wait"}
    return place, *sorted(at for work, at in started.items() if work in works)


def buffer_size(rng, _plan, program):
    """Move the boundary between two calls of one group, as another capacity of buckets would."""
    calls = [
        place
        for place, action in enumerate(program)
        if action.get("group") and action["op"] not in PAIR and (action.get("count") or 0) > 1
    ]
    pairs = [
        (one, other)
        for one, other in pairwise(calls)
        if (program[one]["op"], program[one]["group"])
        == (program[other]["op"], program[other]["group"])
        and "in_splits" not in program[one]
    ]
    if not pairs:
        return None
    one, other = rng.choice(pairs)
    program[one]["count"] += 1
    program[other]["count"] -= 1
    return one, other


WAIT = "missing wait"
EDITS = {
    "drop": drop, "swap": swap, "duplicate": duplicate, "peer": wrong_peer, "root": wrong_root,
    "dtype": wrong_dtype, "numel": wrong_numel, "group order": group_order,
    WAIT: missing_wait, "buffer size": buffer_size,
}  # fmt: skip


def mutant(flat: dict, edit: str, seed: str) -> tuple[dict, int, list[int]] | None:
    """Give a plan with one edit, the rank it is in, and the places of it."""
    rng = random.Random(seed)
    order, text = list(flat["ranks"]), json.dumps(flat)
    rng.shuffle(order)
    for rank in order:
        plan = json.loads(text)  # ranks of one template share their actions in `flat`
        program = plan["ranks"][rank]["actions"]
        places = EDITS[edit](rng, plan, program)
        if places is not None and program != flat["ranks"][rank]["actions"]:
            return plan, int(rank), [places] if isinstance(places, int) else list(places)
    return None


# -- the truth and the answer --


def truth(plan: dict, model: str) -> str:
    """Give what the enumerator says; of a device both ends of its number of kernels."""
    found = {
        enumerate_plan(plan, model, Effort(20_000, 0, kernels=kernels)).outcome
        for kernels in ((1, INFINITE) if model in {"nccl", "nccl-lazy", "nccl-eager"} else (None,))
    }
    if len(found) == 1:
        return found.pop()
    if "MISMATCH" in found:
        return "MISMATCH"
    return "POTENTIAL_DEADLOCK" if "DEADLOCK" in found else "UNKNOWN"


def group_of(action: dict, rank: int) -> object:
    """Give what an action is matched on: its group, or the ranks of its message."""
    if action["op"] in PAIR:
        return frozenset({rank, action["peer"]})
    if action["op"] == "batch":
        return None
    return action.get("group", "world")


def missing(finding) -> set[int]:
    """Give the ranks that a finding says are missing."""
    found: set[int] = set()
    for note in finding.notes:
        if note.startswith("missing participant: "):
            for low, high in re.findall(r"(\d+)(?:-(\d+))?", note):
                found |= set(range(int(low), int(high or low) + 1))
    return found


def answer(plan: dict, model: str, flat: dict, rank: int, places: list[int], edit: str) -> dict:
    """Give what PlanGuard says of a mutant, and whether it names the place."""
    from test_user_cases import named as named_by

    try:
        loaded = planguard.load(plan)
    except planguard.PlanError as error:
        named = f"$.ranks.{rank}." in f"{error.path}."
        return {"outcome": f"refused {error.code}", "exact": named, "right": named, "strict": named,
                "errors": 1, "code": error.code}  # fmt: skip
    verdict = planguard.check(loaded, model=model)
    errors = [finding for finding in verdict.errors if finding.code[2] != "3" or verdict.safe]
    if verdict.safe and errors:  # a handle that the sample itself leaves open is no answer
        old = {whose(sample, one) for sample in [planguard.load(flat)]
               for one in planguard.check(sample, model=model).errors}  # fmt: skip
        errors = [finding for finding in errors if whose(loaded, finding) not in old]
    found = {"outcome": verdict.outcome.value, "errors": len(errors), "exact": False,
             "right": False, "strict": False, "code": errors[0].code if errors else ""}  # fmt: skip
    if not errors:
        return found
    here = named_by(loaded, errors[0])
    # A wait that is gone is scored at the calls whose handles stay open; strictly, at its place.
    strict = names(errors[0], here, plan, flat, rank, places[:1] if edit == WAIT else places)
    scored = names(errors[0], here, plan, flat, rank, places[1:]) if edit == WAIT else strict
    found["exact"], found["right"] = scored
    found["strict"] = strict[1]
    if edit == "drop":  # the line itself is gone: its partner is the right one
        found["exact"] |= found["right"]
    return found


def whose(plan, finding) -> str:
    """Give a finding and its call by what they are, wherever they stand."""
    place = finding.primary
    view = plan.action_at(place.rank, place.action) if place is not None else None
    return json.dumps([finding.code, view and [place.rank, view.op, view.fields]], default=str)


def names(first, here, plan: dict, flat: dict, rank: int, places: list[int]) -> tuple[bool, bool]:
    """Tell whether a finding names the very places, and whether them or a partner of theirs.

    Args:
        first: the finding.
        here: the actions that it names, as (rank, action).
        plan: the mutant.
        flat: what it was made from.
        rank: the rank that was edited.
        places: the actions at fault.
    """
    exact = bool(here & {(rank, place) for place in places})
    # What is gone cannot be named: its partners are, or what stands at its place now. An extra or
    # a missing call without identity shows at the end of its group or pair: any call on it.
    before = flat["ranks"][str(rank)]["actions"]
    keys = {group_of(before[p], rank) for p in places if p < len(before)}
    keys |= {
        group_of(a, rank) for p in places for a in plan["ranks"][str(rank)]["actions"][p : p + 1]
    }
    touched = {
        group_of(plan["ranks"][str(r)]["actions"][a], r)
        for r, a in here
        if a < len(plan["ranks"][str(r)]["actions"])
    }
    involved = rank in first.ranks or any(r == rank for r, _ in here) or rank in missing(first)
    return exact, exact or (involved and (None in keys or bool(keys & touched)))


def judge(job: tuple[str, str, str, dict, str]) -> dict:
    """Judge one mutant."""
    sample, edit, seed, flat, model = job
    made = mutant(flat, edit, seed)
    line = {"sample": sample, "edit": edit, "seed": seed, "model": model}
    if made is None:
        return {**line, "truth": "none"}
    plan, rank, places = made
    line["open"] = edit == WAIT and is_open(plan["ranks"][str(rank)]["actions"], places[1:])
    started = time.perf_counter()
    said = answer(plan, model, flat, rank, places, edit)
    line |= {**said, "rank": rank, "places": places, "ms": (time.perf_counter() - started) * 1e3}
    try:
        line["truth"] = truth({"groups": {}, "templates": {}, **plan}, model)
    except (OracleUnsupported, OracleBudget) as reason:
        line["truth"] = f"undecided: {reason}"[:90]
    except (KeyError, IndexError, StopIteration, ValueError, TypeError) as error:
        # A plan that is refused at the door is none that the enumerator reads.
        line["truth"] = "invalid" if said["outcome"].startswith("refused") else f"error: {error!r}"
    return line


def is_open(program: list[dict], starts: list[int]) -> bool:
    """Tell whether one of these handles is never waited for, or loses its name before that."""

    def uses(at: int):
        for one in program[at + 1 :]:
            works = one.get("work") or ()
            if program[at]["work"] in ([works] if isinstance(works, str) else works):
                yield one["op"]

    return any(next(uses(at), None) != "wait" for at in starts)


def jobs(path: Path, each: int, only: str = "", largest: int = LARGEST):
    """Make the jobs of a sample: every edit, `each` times."""
    name = str(path.relative_to(SAMPLES))
    found = base(path) if only in name else None
    if found is None or sum(len(b["actions"]) for b in found[0]["ranks"].values()) > largest:
        return
    for edit in EDITS:
        for number in range(each):
            yield name, edit, f"{name}/{edit}/{number}", *found


# -- the table --


def is_detected(line: dict) -> bool:
    return line["outcome"].startswith("refused") or line["outcome"] not in {"SAFE", "UNKNOWN"} or (
        line["edit"] == WAIT and line["errors"] > 0
    )  # fmt: skip


def summary(lines: list[dict]) -> dict[str, dict]:
    """Count per edit: real bugs, found, wrongly alarmed, named."""
    table: dict[str, Counter] = {}
    for line in lines:
        if line["truth"] == "none":
            continue
        row = table.setdefault(line["edit"], Counter())
        row["mutants"] += 1
        if line["truth"].startswith("undecided") or line["truth"] == "UNKNOWN":
            row["undecided"] += 1
            continue
        alarm = is_detected(line)
        if line["truth"] == "SAFE" and not line["open"]:
            row["equivalent"] += 1
            row["false alarms"] += alarm
            continue
        row["bugs"] += 1
        row["found"] += alarm
        row["same outcome"] += line["outcome"] == line["truth"] or line["truth"] == "invalid"
        row["right"] += alarm and line["right"]
        row["strict"] += alarm and line["strict"]
        row["exact"] += alarm and line["exact"]
        row["findings"] += line["errors"] if alarm else 0
    return table


def report(lines: list[dict]) -> str:
    """Write the table."""
    table = summary(lines)
    total = Counter()
    for row in table.values():
        total.update(row)
    columns = ("mutants", "undecided", "equivalent", "false alarms", "bugs", "found",
               "same outcome", "right", "strict", "exact", "findings")  # fmt: skip
    out = ["| edit | " + " | ".join(columns) + " |", "|---" * (len(columns) + 1) + "|"]
    for name, row in [*table.items(), ("all", total)]:
        out.append(f"| {name} | " + " | ".join(f"{row[c]:,}" for c in columns) + " |")
    found, bugs = total["found"], total["bugs"]
    if found:
        precision = found / (found + total["false alarms"])
        rates = (
            f"detection {found / bugs:.2%}, precision {precision:.2%}, "
            f"right rank and action {total['right'] / found:.2%} "
            f"(strictly, at the place of the edit, {total['strict'] / found:.2%})"
        )
        extra = (total["findings"] - found) / found
        helps = (
            f"helpfulness (the very action edited) {total['exact'] / found:.2%}, "
            f"noise (findings beyond one) {extra:.2f} per bug"
        )
        out += ["", rates, helps]
    return "\n".join(out)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--each", type=int, default=3, help="mutants per sample and edit")
    parser.add_argument("--quick", action="store_true", help="about a hundred, of small samples")
    parser.add_argument("--report", action="store_true", help="only print the table")
    parser.add_argument("--only", default="", help="samples whose path holds this")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--results", type=Path, default=RESULTS)
    args = parser.parse_args()
    args.results.parent.mkdir(exist_ok=True)
    lines = []
    if args.results.exists():
        lines = [json.loads(line) for line in args.results.read_text().splitlines()]
    done = {line["seed"] for line in lines}
    if not args.report:
        each, largest = (1, 40) if args.quick else (args.each, LARGEST)
        with ProcessPoolExecutor(args.workers) as pool, args.results.open("a") as file:
            for path in samples():
                todo = [job for job in jobs(path, each, args.only, largest) if job[2] not in done]
                for line in pool.map(judge, todo, chunksize=4):
                    lines.append(line)
                    file.write(json.dumps(line) + "\n")
                    file.flush()
    print(report(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
