"""Random manifests planguard.mpmd/1 have the outcome that the enumerator finds for their lists.

The lists begin as one global order, cut by mesh, and get up to two edits: lines that change places,
are left out or repeated, another shape, an order of its own for one device. What each rank does is
written down here from the page of the format, beside the adapter.
"""

from __future__ import annotations

import json
import random
from collections import Counter

import hlo_programs as hlo
import pytest
from oracle.enumerator import Effort, enumerate_plan

import planguard
from planguard.errors import PlanError

SIZES = (4, 8)


def program(rng, name, devices):
    """Return a program of collectives over all devices of a mesh, or over each alone."""
    calls = []
    for at in range(rng.randint(0, 2)):
        together, alone = (tuple(range(devices)),), tuple((one,) for one in range(devices))
        opcode = rng.choice(("all-reduce", "all-gather"))
        groups = together if rng.random() < 0.8 else alone
        calls.append(hlo.Call(f"{name}c{at}", opcode, rng.choice(hlo.ROWS), at + 1, True, groups))
    return hlo.Source(1, devices, tuple(calls))


def manifest(rng):
    """Return a manifest and its programs."""
    count, devices = rng.randint(2, 3), rng.choice((1, 2))
    meshes = {f"m{at}": list(range(at * devices, (at + 1) * devices)) for at in range(count)}
    programs = {f"p{at}": program(rng, f"p{at}", devices) for at in range(2)}
    order = {mesh: [] for mesh in meshes}
    late = {mesh: [] for mesh in meshes}
    for at in range(rng.randint(1, 5)):
        if rng.random() < 0.5:
            order[rng.choice(list(meshes))].append({"run": rng.choice(list(programs))})
            continue
        source, target = rng.sample(list(meshes), 2)
        name = f"t{at}" if rng.random() < 0.85 else "t0"
        size = {"shape": [rng.choice(SIZES)], "dtype": "f32"}
        for mesh, line in (
            (source, {"send": name, "to": target, **size}),
            (target, {"recv": name, "from": source, **size}),
        ):
            order[mesh].append(line)
            if rng.random() < 0.4:
                line["async"] = True
                (order if rng.random() < 0.5 else late)[mesh].append({"wait": name})
    order = {mesh: order[mesh] + late[mesh] for mesh in meshes}
    for _ in range(rng.choice((0, 0, 1, 1, 2))):
        edit(rng, order, meshes)
    made = {
        "schema": "planguard.mpmd/1",
        "meshes": {mesh: ",".join(map(str, ranks)) for mesh, ranks in meshes.items()},
        "programs": {name: f"{name}.hlo" for name in programs},
        "order": order,
    }
    if rng.random() < 0.3:
        made["communicators"] = "direction"
    return made, meshes, programs


def edit(rng, order, meshes):
    """Change one list, or give one device a list of its own."""
    mesh = rng.choice(list(meshes))
    lines = order[mesh]
    if not lines:
        return
    at, other, roll = rng.randrange(len(lines)), rng.randrange(len(lines)), rng.random()
    if len(meshes[mesh]) == 2 and roll < 0.2:
        lines = order[str(rng.choice(meshes[mesh]))] = list(lines)
    if roll < 0.5:
        lines[at], lines[other] = lines[other], lines[at]
    elif roll < 0.7:
        lines.pop(at)
    elif roll < 0.85:
        lines.insert(other, dict(lines[at]))
    elif "shape" in lines[at]:
        lines[at] = {**lines[at], "shape": [rng.choice(SIZES)]}


def lowered(made, meshes, programs):
    """Return the plan of a manifest, None where a wait has no start or a name is under way."""
    groups, ranks = {}, {}
    for mesh, members in meshes.items():
        for device, rank in enumerate(members):
            body, runs, started = [], Counter(), {}
            for line in made["order"].get(str(rank), made["order"][mesh]):
                if "run" in line:
                    name = line["run"]
                    body += ran(programs[name], device, members, f"{name} {runs[name]}", groups)
                    runs[name] += 1
                elif "wait" in line:
                    if line["wait"] not in started:
                        return None
                    body.append({"op": "wait", "work": started.pop(line["wait"])})
                else:
                    name = line.get("send") or line["recv"]
                    body.append(message(line, rank, meshes, device, made, groups))
                    if "async" in line:
                        if name in started:
                            return None
                        started[name] = body[-1]["work"] = f"w{len(body)}"
            ranks[str(rank)] = {"actions": body}
    world = sum(map(len, meshes.values()))
    return {"schema": "planguard.plan/1", "world_size": world, "groups": groups, "ranks": ranks}


def ran(source, device, members, run, groups):
    """Return what one device does in one run of a program."""
    found = []
    for call in source.items:
        group = [members[one] for one in next(one for one in call.groups if device in one)]
        if len(group) == 1:
            continue
        name = "-".join(map(str, group))
        groups[name] = {"ranks": group}
        action = {"op": hlo.PLAIN[call.opcode], "group": name, "count": call.rows, "dtype": "f32",
                  "label": f"{call.name} of {run}"}  # fmt: skip
        found.append(action | ({"reduce_op": "sum"} if call.opcode == "all-reduce" else {}))
    return found


def message(line, rank, meshes, device, made, groups):
    """Return a message of one device: both directions of a pair share a communicator, or not."""
    sends = "send" in line
    peer = meshes[line["to"] if sends else line["from"]][device]
    way = f"{rank}>{peer}" if sends else f"{peer}>{rank}"
    pair = sorted((rank, peer))
    name = f"messages {way if 'communicators' in made else pair}"
    groups[name] = {"ranks": pair}
    op = ("i" if "async" in line else "") + ("send" if sends else "recv")
    return {"op": op, "peer": peer, "group": name, "count": line["shape"][0], "dtype": "f32",
            "label": line["send"] if sends else line["recv"], "stream": way}  # fmt: skip


@pytest.mark.parametrize("seed", range(40))
def test_a_random_bundle_is_judged_as_its_lists_are(seed, tmp_path):
    """Outcome for outcome, under a model of each kind; a wait without a start is refused."""
    made, meshes, programs = manifest(random.Random(seed))
    for name, source in programs.items():
        (tmp_path / f"{name}.hlo").write_text(hlo.text(source))
    path = tmp_path / "random.mpmd.json"
    path.write_text(json.dumps(made))
    plan = lowered(made, meshes, programs)
    if plan is None:
        with pytest.raises(PlanError):
            planguard.load(path)
        return
    loaded = planguard.load(path)
    for model in ("gloo", "nccl-serialized"):
        truth = enumerate_plan(plan, model, Effort(verify=0)).outcome
        assert planguard.check(loaded, model=model).outcome.value == truth
