"""From match numbers to actions: calls are looked at once, however many are asked for."""

from __future__ import annotations

import pytest

import planguard
from planguard import Outcome
from planguard.execution.findings import members

ROUNDS = 60


def exchange(mine: list[int], received: list[int], **fields: object) -> dict[str, object]:
    """Return an all_to_all of four elements with uneven sizes."""
    sizes = {"count": sum(mine), "dtype": "f32", "in_splits": mine, "out_splits": received}
    return {"op": "all_to_all_single", **sizes, **fields}


@pytest.mark.parametrize("made", [False, True], ids=["the world", "a created group"])
@pytest.mark.parametrize("wrong", [False, True], ids=["agreed", "last one wrong"])
def test_uneven_exchanges_are_looked_up_in_one_pass(monkeypatch, made, wrong):
    """Every round of uneven sizes is inspected by itself; the calls are walked through once for
    each rank, and the round that is wrong is still found.
    """
    seen = []
    calls = members._calls

    def counted(*given):
        for entry in calls(*given):
            seen.append(entry)
            yield entry

    monkeypatch.setattr(members, "_calls", counted)
    where = {"group": "pair"} if made else {}
    programs = {
        "0": [exchange([1, 3], [1, 2], **where) for _ in range(ROUNDS)],
        "1": [exchange([2, 2], [3, 2], **where) for _ in range(ROUNDS)],
    }
    if wrong:
        programs["1"][-1] = exchange([2, 2], [2, 2], **where)
    if made:
        for program in programs.values():
            program.insert(0, {"op": "new_group", "group": "pair"})
    document = {
        "schema": "planguard.plan/1", "name": "uneven", "world_size": 2,
        "ranks": {rank: {"actions": program} for rank, program in programs.items()},
        **({"groups": {"pair": {"ranks": [0, 1]}}} if made else {}),
    }  # fmt: skip
    verdict = planguard.check(planguard.load(document), model="gloo")
    assert verdict.outcome is (Outcome.MISMATCH if wrong else Outcome.SAFE)
    assert ROUNDS <= len(seen) <= 8 * ROUNDS
