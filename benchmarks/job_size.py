"""Asynchronous and fused orders of many groups at the size of a job: which route, how long.

    python benchmarks/job_size.py [--ranks 64] [--calls 200] [--shape NAME ...] [--model NAME ...]
                                  [--init without|with|both] [--limit SECONDS] [--json FILE]

Every shape is a plan of RANKS ranks that make about CALLS calls each, on data-parallel and
tensor-parallel groups of a square mesh. Each is checked as it is and with ``init`` of its groups
first, under every model that has such a plan, in a process of its own with a time limit. A row
says the outcome, the route, the seconds of ``check`` on a loaded plan (witness included) and those
of its processor, and whether the solver or a search of orders was asked. ``--largest SECONDS``
looks for the largest size of every shape that is still decided within that time, doubling ranks and
calls by turns.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MODELS = ("gloo", "nccl", "nccl-lazy", "nccl-eager", "nccl-serialized")
TABLE = ("gloo", "nccl", "nccl-lazy", "nccl-serialized")
SIZE = {"bytes": 4096}
CHAIN = 25
"""Calls of a chain of one block: a layer or two of a model."""
FULL = 4
"""Members of a full buffer."""

Program = list[Any]
Document = dict[str, Any]


# --- pieces ------------------------------------------------------------------------------------


def call(group: str, label: str, op: str = "all_reduce", **more: Any) -> dict[str, Any]:
    """One collective of a group."""
    return {"op": op, "group": group, "label": label, **SIZE, **more}


def later(group: str, label: str, op: str = "all_reduce", **more: Any) -> dict[str, Any]:
    """One asynchronous collective; its label is its handle."""
    return call(group, label, op, **{"async": True, "work": label, **more})


def wait(*names: str) -> dict[str, Any]:
    """Wait for handles."""
    return {"op": "wait", "work": list(names)}


def open_block(*items: Any) -> dict[str, Any]:
    """Calls in any order; a list among them keeps its own."""
    return {"op": "unordered", "body": list(items)}


def mesh(ranks: int) -> tuple[int, int]:
    """Return rows and columns of a mesh as square as it gets."""
    rows = next(n for n in range(math.isqrt(ranks), 0, -1) if not ranks % n)
    return rows, ranks // rows


def on_mesh(ranks: int, program: Program, *, more: int = 0) -> Document:
    """Let every rank run one program on its group of each dimension, ``dp`` and ``tp``.

    Args:
        ranks: Number of ranks.
        program: The program.
        more: Further data-parallel communicators of the same ranks: ``dp-b``, ``dp-c``.
    """
    dp, tp = mesh(ranks)
    families = {"dp": {"mesh_dims": ["dp"]}, "tp": {"mesh_dims": ["tp"]}}
    families |= {f"dp-{'bc'[n]}": {"mesh_dims": ["dp"]} for n in range(more)}
    return {
        "schema": "planguard.plan/1",
        "world_size": ranks,
        "mesh": {"dims": [["dp", dp], ["tp", tp]]},
        "groups": families,
        "templates": {"step": program},
        "ranks": {f"0-{ranks - 1}": {"template": "step"}},
    }


def fused(
    ranks: int, program: Program, buffers: dict[str, list[str]], *, more: int = 0, **how: Any
) -> Document:
    """Add fused buffers, one for each group of ``buffers``, to a program of all ranks."""
    document = on_mesh(ranks, program, more=more)
    policy = {"coordination": "none", "membership": "fixed", "launch": "ordered", **how}
    document["fusion"] = [
        {"id": f"buffer-{group}", "group": group, "members": members, **policy}
        for group, members in buffers.items()
    ]
    return document


def gradient(name: str, group: str = "dp") -> dict[str, Any]:
    """One member of a fused buffer."""
    return later(group, name, id=name)


# --- open orders -------------------------------------------------------------------------------


def windows_of_four(ranks: int, calls: int) -> Document:
    """Windows of two data-parallel and two tensor-parallel calls: rounds may be mixed."""
    program = [
        open_block(*(call(g, f"{g}.{k}.{n}") for g in ("dp", "tp") for n in range(2)))
        for k in range(calls // 4)
    ]
    return on_mesh(ranks, program)


def windows_of_two(ranks: int, calls: int) -> Document:
    """Windows of one asynchronous call of each of two groups, then the wait for both."""
    program: Program = []
    for k in range(calls // 2):
        program += [open_block(later("dp", f"d{k}"), later("tp", f"t{k}")), wait(f"d{k}", f"t{k}")]
    return on_mesh(ranks, program)


def async_beside_sync(ranks: int, calls: int) -> Document:
    """A chain of asynchronous reductions beside a chain of blocking tensor-parallel calls."""
    program: Program = []
    for layer in range(max(1, calls // (2 * CHAIN))):
        names = [f"{layer}.{k}" for k in range(CHAIN)]
        program.append(
            open_block([later("dp", f"d{n}") for n in names], [call("tp", f"t{n}") for n in names])
        )
        program.append(wait(*(f"d{n}" for n in names)))
    return on_mesh(ranks, program)


def fsdp(ranks: int, calls: int) -> Document:
    """Gathers are prefetched on one communicator while gradients scatter on another."""
    program: Program = []
    for block in range(max(1, calls // (2 * CHAIN))):
        names = [f"{block}.{k}" for k in range(CHAIN)]
        gathers = [later("dp", f"g{n}", "all_gather_into_tensor") for n in names]
        scatters = [later("dp-b", f"s{n}", "reduce_scatter_tensor") for n in names]
        program.append(open_block(gathers, scatters))
        program.append(wait(*(f"{kind}{n}" for kind in "gs" for n in names)))
    return on_mesh(ranks, program, more=1)


def prefetch(ranks: int, calls: int) -> Document:
    """A gather is prefetched beside: wait, tensor-parallel call, free."""
    program: Program = []
    for block in range(max(1, calls // (2 * CHAIN))):
        names = [f"{block}.{k}" for k in range(CHAIN)]
        gathers = [later("dp", f"g{n}", "all_gather_into_tensor", id=f"g{n}") for n in names]
        used: Program = []
        for n in names:
            used += [wait(f"g{n}"), call("tp", f"t{n}"), {"op": "compute", "op_name": "free"}]
        program.append(open_block(gathers, used))
    return on_mesh(ranks, program)


def two_streams(ranks: int, calls: int) -> Document:
    """Two chains side by side, each issued on a stream of its own."""
    program: Program = []
    for block in range(max(1, calls // (2 * CHAIN))):
        names = [f"{block}.{k}" for k in range(CHAIN)]
        program.append(
            open_block(
                [later("dp", f"d{n}", stream="side") for n in names],
                [later("tp", f"t{n}") for n in names],
            )
        )
        program.append(wait(*(f"{kind}{n}" for kind in "dt" for n in names)))
    return on_mesh(ranks, program)


def coupled_chains(ranks: int, calls: int) -> Document:
    """Three chains on three groups, each call after its neighbor of the chain before: SAFE."""
    rows: list[Program] = [[], [], []]
    for k in range(calls // 3):
        for row, group in enumerate(("dp", "tp", "dp-b")):
            behind = f"c{k}.{row - 1}" if row else f"c{k - 1}.2"
            after: dict[str, Any] = {"after": [behind]} if k or row else {}
            rows[row].append(later(group, f"c{k}.{row}", id=f"c{k}.{row}", **after))
    program: Program = [open_block(*(one for row in rows for one in row))]
    program.append(wait(*(one["work"] for row in rows for one in row)))
    return on_mesh(ranks, program, more=1)


# --- fused buffers -----------------------------------------------------------------------------


def _buckets(ranks: int, calls: int, **how: Any) -> Document:
    names = [f"b{k}" for k in range(calls)]
    program = [open_block(*(gradient(name) for name in names)), wait(*names)]
    return fused(ranks, program, {"dp": names}, **how)


def buckets_when_ready(ranks: int, calls: int) -> Document:
    """Buckets launched when they are ready, each rank in its own order."""
    return _buckets(ranks, calls, launch="when-ready", cap_bytes=FULL * 4096)


def buckets_filled(ranks: int, calls: int) -> Document:
    """Buckets filled in the order of readiness."""
    return _buckets(ranks, calls, membership="fill", cap_bytes=FULL * 4096)


def buckets_ordered(ranks: int, calls: int) -> Document:
    """Buckets launched in one order, as DDP does."""
    return _buckets(ranks, calls, cap_bytes=FULL * 4096)


def buckets_negotiated(ranks: int, calls: int) -> Document:
    """Buckets that all ranks agree on, as Horovod does."""
    return _buckets(ranks, calls, coordination="negotiated", cap_bytes=FULL * 4096)


def buckets_of_rank0(ranks: int, calls: int) -> Document:
    """Buckets whose order rank 0 tells."""
    return _buckets(ranks, calls, coordination="rank0-broadcast", cap_bytes=FULL * 4096)


def _beside(ranks: int, calls: int, other: Callable[[str], dict[str, Any]], **how: Any) -> Document:
    names = [f"b{k}" for k in range(max(FULL, (calls - 8) // FULL * FULL))]
    each = -(-len(names) // (8 * FULL)) * FULL  # blocks end where buffers are full
    program: Program = []
    for k, at in enumerate(range(0, len(names), each)):
        members = names[at : at + each]
        program.append(open_block(*(gradient(name) for name in members), other(f"t{k}")))
        program.append(wait(*members))
    return fused(ranks, program, {"dp": names}, cap_bytes=FULL * 4096, **how)


def ddp_beside_async(ranks: int, calls: int) -> Document:
    """Buckets of DDP, and an asynchronous call of another group among them."""
    return _beside(ranks, calls, lambda name: later("tp", name))


def ddp_beside_sync(ranks: int, calls: int) -> Document:
    """Buckets of DDP, and a blocking call of another group among them: batch statistics."""
    return _beside(ranks, calls, lambda name: call("tp", name))


def negotiated_beside_sync(ranks: int, calls: int) -> Document:
    """Negotiated buckets, and a blocking call of another group among them."""
    return _beside(ranks, calls, lambda name: call("tp", name), coordination="negotiated")


def two_ddp(ranks: int, calls: int) -> Document:
    """Two modules of DDP on two groups, whose gradients become ready together."""
    one, two = ([f"{module}{k}" for k in range(calls // 2)] for module in "ab")
    program = [
        open_block(*(gradient(name) for name in one), *(gradient(name, "dp-b") for name in two)),
        wait(*one, *two),
    ]
    return fused(ranks, program, {"dp": one, "dp-b": two}, more=1, cap_bytes=FULL * 4096)


# --- threads, branches, messages from anybody --------------------------------------------------


def pipeline_thread(ranks: int, calls: int) -> Document:
    """A thread that passes activations down a pipeline beside one that reduces gradients.

    Every stage is a row of the mesh; both threads use communicators of their own.
    """
    stages, width = mesh(ranks)
    groups = {
        f"dp{stage}": {"ranks": [*range(stage * width, (stage + 1) * width)]}
        for stage in range(stages)
    }
    programs = {}
    for rank in range(ranks):
        stage = rank // width
        passes: Program = []
        for k in range(calls // 3):
            if stage:
                passes.append({"op": "recv", "peer": rank - width, "label": f"p{k}", **SIZE})
            if stage < stages - 1:
                passes.append({"op": "send", "peer": rank + width, "label": f"p{k}", **SIZE})
        reduces = [call(f"dp{stage}", f"d{k}") for k in range(calls // 3)]
        programs[str(rank)] = {"actions": [{"op": "threads", "threads": [passes, reduces]}]}
    return {
        "schema": "planguard.plan/1", "world_size": ranks, "groups": groups, "ranks": programs,
    }  # fmt: skip


def _branches(ranks: int, calls: int, count: int, *, uniform: bool) -> Document:
    each = max(1, calls // (2 * count))
    program: Program = []
    for n in range(count):
        branches = [
            [call(g, f"{g}{n}.{k}") for k in range(each) for g in order]
            for order in (("dp", "tp"), ("tp", "dp"))
        ]
        program.append({"op": "choice", "name": f"c{n}", "uniform": uniform, "branches": branches})
    return on_mesh(ranks, program)


def uniform_branches(ranks: int, calls: int) -> Document:
    """Fifty branches that all ranks take alike."""
    return _branches(ranks, calls, max(1, min(50, calls // 2)), uniform=True)


def free_branches(ranks: int, calls: int) -> Document:
    """Sixteen branches that every rank takes by itself, of calls of different kinds."""
    program: Program = []
    for n in range(16):
        branches = [
            [call("dp", f"c{n}.{k}", op) for k in range(max(1, calls // 16))]
            for op in ("all_reduce", "all_gather")
        ]
        program.append({"op": "choice", "name": f"c{n}", "branches": branches})
    return on_mesh(ranks, program)


def master(ranks: int, calls: int) -> Document:
    """One master receives from whoever comes; every worker sends its results."""
    each = max(1, calls // ranks)
    actions = [{"op": "recv", "peer": "any", **SIZE} for _ in range(each * (ranks - 1))]
    programs: dict[str, Any] = {"0": {"actions": actions}}
    for rank in range(1, ranks):
        programs[str(rank)] = {"actions": [{"op": "send", "peer": 0, **SIZE} for _ in range(each)]}
    return {
        "schema": "planguard.plan/1", "world_size": ranks, "groups": {}, "ranks": programs,
    }  # fmt: skip


SHAPES: dict[str, Callable[[int, int], Document]] = {
    "buckets-when-ready": buckets_when_ready,
    "buckets-filled": buckets_filled,
    "buckets-ordered": buckets_ordered,
    "buckets-negotiated": buckets_negotiated,
    "buckets-rank0": buckets_of_rank0,
    "windows-of-four": windows_of_four,
    "windows-of-two": windows_of_two,
    "async-beside-sync": async_beside_sync,
    "fsdp": fsdp,
    "prefetch": prefetch,
    "two-streams": two_streams,
    "coupled-chains": coupled_chains,
    "ddp-beside-async": ddp_beside_async,
    "ddp-beside-sync": ddp_beside_sync,
    "negotiated-beside-sync": negotiated_beside_sync,
    "two-ddp": two_ddp,
    "pipeline-thread": pipeline_thread,
    "branches-uniform": uniform_branches,
    "branches-free": free_branches,
    "master": master,
}
ONLY = {"master": ("gloo",)}
"""Shapes that some models do not have: no message from anybody under NCCL."""


def with_init(document: Document) -> Document:
    """Return a plan in which every rank first creates the communicators of its groups."""
    made = [{"op": "init", "group": name} for name in document["groups"]]
    if "templates" in document:
        body = [*made, *document["templates"]["step"]]
        return {**document, "templates": {"step": body}}
    ranks = {}
    for rank, one in document["ranks"].items():
        mine = [
            {"op": "init", "group": name}
            for name, group in document["groups"].items()
            if int(rank) in group["ranks"]
        ]
        ranks[rank] = {"actions": [*mine, *one["actions"]]}
    return {**document, "ranks": ranks}


# --- measuring ---------------------------------------------------------------------------------


def measure(shape: str, ranks: int, calls: int, model: str, *, init: bool) -> dict[str, Any]:
    """Check one plan in this process and return its row."""
    import planguard

    document = SHAPES[shape](ranks, calls)
    plan = planguard.load(with_init(document) if init else document)
    started, worked = time.perf_counter(), time.process_time()
    verdict = planguard.check(plan, model=model)
    seconds, work = time.perf_counter() - started, time.process_time() - worked
    evidence = verdict.evidence
    route = "+".join(evidence.route)
    return {
        "outcome": verdict.outcome.value,
        "route": route,
        "seconds": round(seconds, 3),
        "processor_seconds": round(work, 3),
        "actions": verdict.stats.actions,
        "solver": "smt" in evidence.route,
        "search": bool({"explorer", "search"} & {*evidence.route}),
        "orders": evidence.schedules,
        "reason": "; ".join(verdict.reasons)[:300] if verdict.unknown else "",
    }


def elsewhere(row: dict[str, Any], limit: float) -> dict[str, Any]:
    """Measure one row in a process of its own, ended at its time limit."""
    command = [sys.executable, __file__, "--one", json.dumps(row)]
    started = time.perf_counter()
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit, check=False)
    except subprocess.TimeoutExpired:
        return {**row, "outcome": "TIMEOUT", "route": "", "seconds": limit, "reason": ""}
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["?"])[-1]
        wall = round(time.perf_counter() - started, 3)
        return {**row, "outcome": "CRASH", "route": "", "seconds": wall, "reason": last}
    return {**row, **json.loads(done.stdout)}


def rows(given: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Yield what is to be measured."""
    inits = {"without": (False,), "with": (True,), "both": (False, True)}[given.init]
    for shape in given.shape or SHAPES:
        for model in given.model or TABLE:
            if model in ONLY.get(shape, (model,)):
                for init in inits:
                    yield {
                        "shape": shape, "model": model, "init": init,
                        "ranks": given.ranks, "calls": given.calls,
                    }  # fmt: skip


def largest(row: dict[str, Any], seconds: float) -> dict[str, Any]:
    """Double ranks and calls by turns while a row is decided in time; return the last such row."""
    best = {**row, "outcome": "-", "route": "", "seconds": 0.0}
    tried, turn = dict(row), 0
    while True:
        found = elsewhere(tried, 6 * seconds + 20)
        decided = found["outcome"] not in {"UNKNOWN", "TIMEOUT", "CRASH"}
        if not decided or found["seconds"] > seconds:
            return best
        best = found
        tried["calls" if turn % 2 else "ranks"] *= 2
        turn += 1


def show(found: dict[str, Any]) -> str:
    """Return one line of the table."""
    asked = "Z3" if found.get("solver") else "search" if found.get("search") else "-"
    name = found["shape"] + (" +init" if found["init"] else "")
    return (
        f"{name:<28} {found['model']:<16} {found['ranks']:>4}x{found['calls']:<4} "
        f"{found['outcome']:<19} {found['route']:<22} {found['seconds']:>7.2f} s  "
        f"{found.get('processor_seconds', 0):>6.2f} s  {asked:<6} "
        f"{found.get('reason', '')[:90]}"
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, default=64)
    parser.add_argument("--calls", type=int, default=200)
    parser.add_argument("--shape", nargs="*", choices=[*SHAPES])
    parser.add_argument("--model", nargs="*", choices=MODELS)
    parser.add_argument("--init", choices=["without", "with", "both"], default="both")
    parser.add_argument("--limit", type=float, default=60, help="seconds of one row")
    parser.add_argument("--largest", type=float, metavar="SECONDS")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        row = json.loads(given.one)
        found = measure(row["shape"], row["ranks"], row["calls"], row["model"], init=row["init"])
        sys.stdout.write(json.dumps(found))
        return
    table = []
    for row in rows(given):
        found = largest(row, given.largest) if given.largest else elsewhere(row, given.limit)
        table.append(found)
        print(show(found), flush=True)
        if given.json:
            given.json.write_text(json.dumps(table, indent=1) + "\n", "utf-8")
    undecided = sum(one["outcome"] in {"UNKNOWN", "TIMEOUT", "CRASH"} for one in table)
    print(f"{len(table)} verdicts, {undecided} undecided")


if __name__ == "__main__":
    main()
