"""RQ3: fused reductions of Swin-T; the policies of dl2, DDP and Horovod, for 2 to 64 ranks.

The policy of dl2's table is that of ``table3.py``. DDP and Horovod are judged twice:
as a coordination of the same buffers, all 20 cells; and as their adapters write a whole job of
them, with the 173 parameters of Swin-T and the size of the buffers as their option. Each of these
jobs is broken once, on its last rank, in a way that is known to hang.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import table3

import planguard

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

RANKS = (2, 4, 8, 16, 32, 64)
COORDINATIONS = {"dl2": "none", "ddp": "rank0-broadcast", "horovod": "negotiated"}
PUBLISHED = {1: "Yes", 2: "Yes", 4: "Yes", 8: "Yes", 64: "No"}
"""What the paper's table says, by size in MB, for any number of buffers."""


def rows(
    ranks: Sequence[int] = RANKS, done: Collection[tuple[str, int]] = ()
) -> Iterator[dict[str, Any]]:
    """Yield one row per policy and number of ranks: outcomes by size, processor time per check.

    Args:
        ranks: Numbers of ranks.
        done: Policies and numbers of ranks to leave out.
    """
    for count in ranks:
        for policy, coordination in COORDINATIONS.items():
            if (name := (f"{policy}, 20 cells", count)) not in done:
                cells = {
                    (buffers, size): table3.plan(buffers, size, coordination, count)
                    for buffers in table3.BUFFERS
                    for size in table3.SIZES_MB
                }
                yield _row(*name, cells)
        for planner in ("ddp", "horovod"):
            for broken, said in enumerate(("its own job", "last rank differs")):
                if (name := (f"{planner}, {said}", count)) not in done:
                    jobs = {
                        (1, size): job(planner, size, count, broken=bool(broken))
                        for size in table3.SIZES_MB
                    }
                    yield _row(*name, jobs)


def job(planner: str, size_mb: int, ranks: int, *, broken: bool) -> Any:
    """Return the plan that an adapter makes of two steps with Swin-T.

    Broken: DDP's last rank has half the capacity while the first layout stays (unused parameters
    are looked for); Horovod's last rank never submits one tensor.
    """
    named = table3.tensors()
    document = {
        "schema": f"planguard.{planner}/1",
        "world_size": ranks,
        "module": "SwinForImageClassification",
        "parameters": [{"name": n, "shape": [size // 4], "dtype": "float32"} for n, size in named],
    }
    options: dict[str, Any] = {"steps": 2}
    if planner == "ddp":
        options |= {"bucket_cap_mb": float(size_mb)}
        if broken:
            options |= {"find_unused_parameters": True}
            options |= {"rank_options": {ranks - 1: {"bucket_cap_mb": size_mb / 2}}}
    else:
        options |= {"fusion_threshold": size_mb << 20}
        if broken:
            options |= {"rank_options": {ranks - 1: {"missing": [named[-1][0]]}}}
    return planguard.load(document, planner=planner, **options)


def _row(policy: str, ranks: int, plans: dict[tuple[int, int], Any]) -> dict[str, Any]:
    outcomes: dict[int, set[str]] = {size: set() for size in table3.SIZES_MB}
    elapsed = 0.0
    for (_, size), plan in plans.items():
        loaded = planguard.load(plan)
        started = time.process_time()
        verdict = planguard.check(loaded, model="gloo")
        elapsed += time.process_time() - started
        outcomes[size].add(verdict.outcome.value)
    return {
        "policy": policy,
        "ranks": ranks,
        "plans": len(plans),
        "outcomes": {str(size): "/".join(sorted(found)) for size, found in outcomes.items()},
        "ms": round(elapsed / len(plans) * 1e3, 1),
    }


def answer(outcome: str) -> str:
    """Return the word of the paper's table for an outcome."""
    return {"SAFE": "No"}.get(outcome, "Yes" if outcome in UNSAFE else outcome)


UNSAFE = ("MISMATCH", "DEADLOCK", "POTENTIAL_DEADLOCK")


def expected(row: dict[str, Any]) -> bool:
    """Whether a row is as published, or as the policy says: coordinated buffers are safe."""
    said = {int(size): answer(outcome) for size, outcome in row["outcomes"].items()}
    if row["policy"].startswith("dl2"):
        return said == PUBLISHED
    if "differs" in row["policy"]:
        return "UNKNOWN" not in said.values()
    return set(said.values()) == {"No"}


def table(found: list[dict[str, Any]]) -> str:
    """Return the rows as a Markdown table."""
    sizes = table3.SIZES_MB
    lines = ["| policy | ranks | plans |" + "".join(f" {s} MB |" for s in sizes) + " ms a check |"]
    lines.append("|---" * (len(sizes) + 4) + "|")
    for row in found:
        cells = "".join(f" {answer(row['outcomes'][str(size)])} |" for size in sizes)
        lines.append(f"| {row['policy']} | {row['ranks']} | {row['plans']} |{cells} {row['ms']} |")
    return "\n".join(lines)
