"""A planner's search loop: 1,600 candidates through `planguard.Guard` and `planguard.check`.

    python benchmarks/search_loop.py            # both tables and the comparison with the truth
    python benchmarks/search_loop.py --workers 2

A candidate is a pipeline of stages (1F1B, GPipe, interleaved) that are replicated and split:
blocking messages written one way or the other, then gradients that are reduced one by one,
asynchronously, or in buckets. The truth comes from the simulator below, which shares nothing with
the library: it plays the messages of a pipeline until nothing moves, and knows that buckets mix
rounds only where every rank launches them in an order of its own.
"""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
import time
from collections import Counter

MODEL = "gloo"
SIZES = ([1, 2, 4], [1, 2, 4], [1, 2])
SCHEDULES = ("gpipe", "1f1b", "interleaved")
GRADIENTS = ("sync", "async", "bucketed", "bucketed-free")
STYLES = ("naive", "parity", "batched")
MICROBATCHES = (2, 4, 6, 8)
LAYERS = (4, 6)


def candidates():
    """Every setting of the knobs that makes sense."""
    return [
        knobs
        for knobs in itertools.product(*SIZES, SCHEDULES, GRADIENTS, STYLES, MICROBATCHES, LAYERS)
        if knobs[0] > 1 or (knobs[1] > 1 and knobs[3] == "gpipe" and knobs[5] == "naive")
    ][:1600]


def steps(stage, stages, schedule, count):
    """The passes of one stage: ("F" or "B", microbatch, chunk)."""
    forward = [("F", m, 0) for m in range(count)]
    backward = [("B", m, 0) for m in range(count)]
    if schedule == "gpipe" or stages == 1:
        return forward + backward
    if schedule == "interleaved":
        return [(kind, m, c) for kind, order in (("F", (0, 1)), ("B", (1, 0)))
                  for c in order for m in range(count)]  # fmt: skip
    warm = min(stages - 1 - stage, count)
    found = forward[:warm]
    for at in range(count - warm):
        found += [forward[warm + at], backward[at]]
    return found + backward[count - warm :]


def messages(stage, stages, step, schedule):
    """What a pass receives first and sends then: pairs of (stage, name) or None."""
    kind, m, chunk = step
    last = 1 if schedule == "interleaved" and stages > 1 else 0
    at, end = chunk * stages + stage, (last + 1) * stages - 1
    before, behind = (at - 1, at + 1) if kind == "F" else (at + 1, at - 1)
    came = (before % stages, f"{kind}{m}.{at}") if 0 <= before <= end else None
    goes = (behind % stages, f"{kind}{m}.{behind}") if 0 <= behind <= end else None
    return came, goes


def calls(stage, knobs):
    """The launches of a stage in order: lists of ("send" or "recv", stage, name)."""
    stages, _, _, schedule, _, style, count, _ = knobs
    found = []
    plays = [
        messages(stage, stages, step, schedule) for step in steps(stage, stages, schedule, count)
    ]
    sent = None
    for came, goes in plays:
        receive = [("recv", *came)] if came and came[0] != stage else []
        give = [("send", *sent)] if sent else []
        if style == "batched" and give and receive:
            found.append(give + receive)
        elif style == "parity" and stage % 2:
            found += [[one] for one in (*receive, *give)]
        else:
            found += [[one] for one in (*give, *receive)]
        sent = goes if goes and goes[0] != stage else None
    return [*found, [("send", *sent)]] if sent else found


def gradients(knobs):
    """The reductions behind the pipeline, and the fused buffers they are in."""
    _, dp, _, _, how, _, _, layers = knobs
    if dp == 1:
        return [], []
    names = [f"g{n}" for n in range(layers)]
    made = [
        {"op": "all_reduce", "group": "dp", "bytes": 4096, "label": name, "id": name}
        for name in names
    ]
    if how == "sync":
        return made, []
    later = [{**one, "async": True, "work": one["id"]} for one in made]
    wait = {"op": "wait", "work": names}
    if how == "async":
        return [*later, wait], []
    policy = {"membership": "fixed", "launch": "ordered"}
    if how == "bucketed-free":
        policy["launch"] = "when-ready"
    buffer = {"id": "ddp", "group": "dp", "members": names, "cap_bytes": 8192, **policy}
    return [{"op": "unordered", "body": later}, wait], [buffer]


def document(knobs):
    """A candidate as a plan."""
    stages, dp, tp = knobs[:3]
    templates, ranks = {}, {}
    after, fusion = gradients(knobs)
    for stage in range(stages):
        program = []
        for launch in calls(stage, knobs):
            ops = [
                {
                    "op": op,
                    "peer": {"pp": peer - stage},
                    "group": "pp",
                    "bytes": 1024,
                    "label": name,
                }
                for op, peer, name in launch
            ]
            program += ops if len(ops) == 1 else [{"op": "batch", "ops": ops}]
            if tp > 1 and launch[0][0] == "recv":
                program.append({"op": "all_reduce", "group": "tp", "bytes": 512})
        templates[f"stage{stage}"] = [*program, *after]
        ranks[f"pp={stage}"] = {"template": f"stage{stage}"}
    return {
        "schema": "planguard.plan/1", "world_size": stages * dp * tp,
        "mesh": {"dims": [["pp", stages], ["dp", dp], ["tp", tp]]},
        "groups": {name: {"mesh_dims": [name]} for name in ("pp", "dp", "tp")},
        "templates": templates, "ranks": ranks, "fusion": fusion,
    }  # fmt: skip


def truth(knobs):
    """What happens, by playing one pipeline: every other replica is like it."""
    stages, dp, _, _, how, _, _, layers = knobs
    left = [calls(stage, knobs) for stage in range(stages)]
    done = [[set() for _ in program] for program in left]
    at = [0] * stages
    moved = True
    while moved:
        moved = False
        for one, two in itertools.permutations(range(stages), 2):
            if at[one] == len(left[one]) or at[two] == len(left[two]):
                continue
            mine, theirs = left[one][at[one]], left[two][at[two]]
            for op, peer, name in mine:
                met = ("recv", one, name)
                if op == "send" and peer == two and met in theirs:
                    done[one][at[one]].add((op, peer, name))
                    done[two][at[two]].add(met)
        for stage in range(stages):
            while at[stage] < len(left[stage]) and len(done[stage][at[stage]]) == len(
                left[stage][at[stage]]
            ):
                at[stage] += 1
                moved = True
    if any(at[stage] < len(left[stage]) for stage in range(stages)):
        return "DEADLOCK"
    mixed = how == "bucketed-free" and dp > 1 and layers > 2
    if mixed:
        return "MISMATCH"
    return "SAFE"


def asked(knobs_list, door):
    """Outcomes of some candidates in this process, and the seconds it took: clock, processor."""
    import planguard

    documents = [document(knobs) for knobs in knobs_list]
    planguard.check(documents[0], model=MODEL)
    ask = planguard.Guard(model=MODEL).check if door == "Guard" else _check
    started = time.perf_counter(), time.process_time()
    outcomes = [ask(one).outcome.value for one in documents]
    return outcomes, (time.perf_counter() - started[0], time.process_time() - started[1])


def _check(plan):
    import planguard

    return planguard.check(plan, model=MODEL)


def measure(door, workers):
    """Outcomes of all candidates, how many a second of all workers, and seconds of processor."""
    every = candidates()
    parts = [every[n::workers] for n in range(workers)]
    with multiprocessing.get_context("spawn").Pool(workers) as pool:
        found = pool.starmap(asked, [(part, door) for part in parts])
    outcomes = {}
    for part, (answers, _) in zip(parts, found, strict=True):
        outcomes |= dict(zip(part, answers, strict=True))
    clock, processor = zip(*(seconds for _, seconds in found), strict=True)
    return outcomes, len(every) / max(clock), sum(processor)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workers", type=int, default=2)
    workers = parser.parse_args().workers
    right = {knobs: truth(knobs) for knobs in candidates()}
    print(f"{len(right)} candidates, {workers} processes; truth: {dict(Counter(right.values()))}")
    for door in ("Guard", "check"):
        outcomes, rate, processor = measure(door, workers)
        wrong = [knobs for knobs, found in outcomes.items() if found != right[knobs]]
        unknown = sum(found == "UNKNOWN" for found in outcomes.values())
        print(
            f"{door:6s} {rate:8,.0f} a second, {unknown} UNKNOWN, {len(wrong)} differ from truth;"
        )
        # What the workers would do if each had a core to itself.
        alone = workers * len(right) / processor
        each = 1000 * processor / len(right)
        print(f"       {each:.2f} ms of processor time each: {alone:,.0f} a second on idle cores")
        for knobs in wrong[:5]:
            print("   ", knobs, "is", right[knobs], "said", outcomes[knobs])


if __name__ == "__main__":
    main()
