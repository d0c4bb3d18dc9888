"""The cells of the third table on real processes: what an order of readiness of each rank does.

A cell's verdict comes with a witness: an order of buckets on each of two ranks. It is played twice.

* ``plain``: a bucket is one all_reduce. Ranks that are at different buckets hand gloo calls of
  different sizes, which it fails or mixes up; on NCCL they may hang.
* ``checked``: a bucket is reduced by messages that carry its number, one bucket after the other,
  as on one stream. The paper: out-of-round communication "can lead to deadlocks or data
  corruption, depending on whether processes validate incoming messages". This is the former.

Cells without a witness are played in orders that are drawn for each rank.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import table3

import planguard
from dl2.truth import run_all
from planguard.replay import playable_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from planguard.replay.pool import Pool

CELLS = tuple((count, size) for count in table3.BUFFERS for size in table3.SIZES_MB)
DRAWN = 3
"""Orders of a cell that has no witness."""
PATIENCE = 3.0

Document = dict[str, Any]


def orders(document: Document) -> tuple[str, list[Document]]:
    """Return the verdict on a cell and the flat plans of the orders to play."""
    plan = planguard.load(document)
    verdict = planguard.check(plan, model="gloo")
    if verdict.unsafe:
        return verdict.outcome.value, [_plain(playable_of(plan, verdict.witness).flat)]
    return verdict.outcome.value, [
        _plain(playable_of(plan, None, seed=seed).flat) for seed in range(1, DRAWN + 1)
    ]


def _plain(flat: Document) -> Document:
    """Return a flat plan that has the calls of its buckets only, and waits for each."""
    programs: Document = {}
    for rank, body in flat["ranks"].items():
        actions = []
        for number, action in enumerate(a for a in body["actions"] if a["op"] == "all_reduce"):
            kept = {k: v for k, v in action.items() if k in ("op", "bytes", "label", "group")}
            actions.append({**kept, "async": True, "work": f"bucket{number}"})
        works = [action["work"] for action in actions]
        programs[rank] = {"actions": [*actions, {"op": "wait", "work": works}]}
    return {"schema": "planguard.plan/1", "world_size": len(programs), "ranks": programs}


def checked(document: Document) -> Document:
    """Return the same order with messages that carry the number of their bucket."""
    first = document["ranks"]["0"]["actions"]
    numbers = {a["label"]: tag for tag, a in enumerate(first) if a["op"] == "all_reduce"}
    programs: Document = {}
    for rank, body in document["ranks"].items():
        actions: list[Document] = []
        for action in body["actions"]:
            if action["op"] == "wait":
                continue
            tag = numbers.setdefault(action["label"], len(numbers))
            said = {"peer": 1 - int(rank), "tag": tag, "bytes": action["bytes"]}
            work = f"sent{len(actions)}"
            actions += [
                {"op": "isend", **said, "work": work},
                {"op": "recv", **said},
                {"op": "wait", "work": work},
            ]
        programs[rank] = {"actions": actions}
    return {**document, "ranks": programs}


def rows(pool: Pool, cells: Sequence[tuple[int, int]] = CELLS) -> Iterator[dict[str, Any]]:
    """Yield what happens in each cell."""
    for count, size in cells:
        said, plain = orders(table3.plan(count, size))
        messages = [checked(one) for one in plain]
        told = [planguard.check(one, model="gloo") for one in messages]
        ends = {
            name: run_all(documents, pool, patience=PATIENCE)
            for name, documents in (("plain", plain), ("checked", messages))
        }
        yield {
            "buffers": count, "mb": size, "said": said, "orders": len(plain),
            "buckets": sum(a["op"] == "all_reduce" for a in plain[0]["ranks"]["0"]["actions"]),
            "plain": sorted({truth.end for truth in ends["plain"]}),
            "checked said": sorted({one.outcome.value for one in told}),
            "checked": sorted({truth.end for truth in ends["checked"]}),
            "stuck": sorted({rank for truth in ends["checked"] for rank in truth.stuck}),
        }  # fmt: skip


def expected(row: dict[str, Any]) -> bool:
    """Whether a cell ends as it was judged: hung where it is Yes, well where it is No."""
    if row["said"] == "SAFE":
        return bool(
            row["plain"] == row["checked"] == ["finished"] and row["checked said"] == ["SAFE"]
        )
    hangs = row["checked said"] == ["DEADLOCK"] and row["checked"] == ["hung"]
    return hangs and "finished" not in row["plain"]


def table(found: Sequence[dict[str, Any]]) -> str:
    """Return the rows in Markdown."""
    lines = [
        "| buffers | MB | verdict | one all_reduce a bucket | messages that say their bucket |"
    ]
    lines.append("|---" * 5 + "|")
    for row in found:
        plain, checked_ = "/".join(row["plain"]), "/".join(row["checked"])
        lines.append(
            f"| {row['buffers']} | {row['mb']} | {row['said']} | {plain} | "
            f"{'/'.join(row['checked said'])}, {checked_} |"
        )
    return "\n".join(lines)
