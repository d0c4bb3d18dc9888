"""The campaigns after dl2: what they change, what they count, and the extended third table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from dl2 import campaign, mutate, rq3
from dl2.judge import judged, named

import planguard
from planguard.plan.flatten import flatten

if TYPE_CHECKING:
    from pathlib import Path


def step(rank: int) -> list[dict[str, Any]]:
    """Return one step of a 2 x 2 job: broadcast, tensor and data reductions, a loss to rank 0."""
    tensor, data = f"tp{rank // 2}", f"dp{rank % 2}"
    size = {"count": 64, "dtype": "f32"}
    program = [
        {"op": "new_group", "group": "tp0"},
        {"op": "new_group", "group": "tp1"},
        {"op": "broadcast", "group": tensor, "root": rank // 2 * 2, **size},
        {"op": "all_reduce", "group": data, "async": True, "work": "bucket", **size},
        {"op": "all_reduce", "group": tensor, "count": 8, "dtype": "f32"},
        {"op": "wait", "work": "bucket"},
    ]
    sends = [{"op": "recv", "peer": peer, **size} for peer in (1, 2, 3)]
    return [*program, *(sends if rank == 0 else [{"op": "send", "peer": 0, **size}])]


def job() -> dict[str, Any]:
    """Return the flat plan of that job."""
    groups = {"tp0": [0, 1], "tp1": [2, 3], "dp0": [0, 2], "dp1": [1, 3]}
    return flatten(
        planguard.load(
            {
                "schema": "planguard.plan/1",
                "world_size": 4,
                "groups": {name: {"ranks": ranks} for name, ranks in groups.items()},
                "ranks": {str(rank): {"actions": step(rank)} for rank in range(4)},
            }
        )
    )


@pytest.mark.parametrize("kind", mutate.KINDS)
def test_every_kind_of_change_has_a_place(kind: str) -> None:
    """All ten kinds apply to a job with groups, roots, messages and an asynchronous bucket."""
    found = mutate.places(job(), kind)
    assert found
    for rank, at in found:
        assert job()["ranks"][str(rank)]["actions"][at]["op"] != "wait"


@pytest.mark.parametrize("seed", range(60))
def test_a_mutant_is_one_change_of_one_rank_and_still_a_plan(seed: int) -> None:
    """A mutant is the same for the same seed, differs on one rank only, and can be judged."""
    before = job()
    after, mutation = mutate.mutant(before, seed)
    assert (after, mutation) == mutate.mutant(before, seed)
    assert before == job()
    differing = [rank for rank in before["ranks"] if before["ranks"][rank] != after["ranks"][rank]]
    assert differing == [str(mutation.rank)]
    verdict, _ = judged(after)
    assert not verdict.unknown
    if verdict.unsafe:
        assert named(verdict, mutation, before, after)["rank"]


def test_a_job_counts_where_verdict_and_run_put_it() -> None:
    """SAFE that hangs is a false negative, unsafe that ends a false positive, UNKNOWN neither."""

    def row(outcome: str, end: str, larger: str | None = None) -> dict[str, Any]:
        return {
            "outcome": outcome,
            "truth": {"end": end},
            "larger": larger and {"end": larger},
        }

    rows = [
        row("SAFE", "finished"),
        row("SAFE", "hung"),
        row("DEADLOCK", "hung"),
        row("MISMATCH", "finished", "finished"),
        row("MISMATCH", "finished", "mismatch"),
        row("UNKNOWN", "hung"),
    ]
    counts = campaign.confusion(rows)
    assert {name: counts[name] for name in ("tn", "fn", "tp", "fp", "undecided")} == {
        "tn": 1,
        "fn": 1,
        "tp": 2,
        "fp": 1,
        "undecided": 1,
    }
    assert campaign.wrong(rows) == [rows[1], rows[3], rows[5]]


def test_results_are_taken_up_again(tmp_path: Path) -> None:
    """A line that was cut off when a campaign was stopped is left out, and its job runs again."""
    file = tmp_path / "rq1.jsonl"
    file.write_text('{"key": "mlp/2/0"}\n{"key": "mlp/2', encoding="utf-8")
    assert campaign.read(file) == [{"key": "mlp/2/0"}]


@pytest.mark.parametrize("planner", ["ddp", "horovod"])
def test_the_jobs_of_swin_are_safe_until_a_rank_differs(planner: str) -> None:
    """DDP's and Horovod's own jobs are SAFE on four ranks; broken on the last one they are not."""
    for broken in (False, True):
        plan = rq3.job(planner, 8, 4, broken=broken)
        verdict = planguard.check(plan, model="gloo")
        assert verdict.unsafe if broken else verdict.safe


def test_a_row_of_the_table_has_the_published_answers() -> None:
    """With four ranks the uncoordinated policy gives the paper's five answers, too."""
    row = next(rq3.rows([4]))
    assert row["plans"] == 20
    assert rq3.expected(row)
    assert {int(n): rq3.answer(said) for n, said in row["outcomes"].items()} == rq3.PUBLISHED


@pytest.mark.parametrize(
    ("groups", "programs", "outcome"),
    [
        ({"a": [0], "b": [1]}, ["ab", "ba"], "SAFE"),
        ({"a": [0, 1], "b": [2, 3]}, ["ab", "ab", "ab", "ab", "ba"], "SAFE"),
        ({"a": [0, 1], "b": [2, 3]}, ["ab", "ab", "ba", "ba"], "MISMATCH"),
    ],
    ids=["groups of one rank", "not a member", "two pairs"],
)
def test_only_creations_that_make_something_can_cross(groups, programs, outcome) -> None:
    """Found by mutants that finished on gloo: two orders of creation are PG406 only among members
    of groups that have others to meet.
    """
    actions = [
        [
            *({"op": "new_group", "group": name} for name in program),
            {"op": "all_reduce", "count": 4, "dtype": "f32"},
        ]
        for program in programs
    ]
    document = {
        "schema": "planguard.plan/1",
        "world_size": len(programs),
        "groups": {name: {"ranks": ranks} for name, ranks in groups.items()},
        "ranks": {str(rank): {"actions": program} for rank, program in enumerate(actions)},
    }
    for model in ("gloo", "nccl", "nccl-eager"):
        assert planguard.check(document, model=model).outcome.value == outcome
