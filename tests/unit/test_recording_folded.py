"""Steps that a rank repeats are a loop of the plan that is decided, and nothing else changes."""

from __future__ import annotations

import random
from array import array

import planguard
from planguard.recording import (
    Call,
    Observed,
    Progress,
    RankRecord,
    RecordedGroup,
    Recording,
    Track,
)
from planguard.recording.promote import steps


def _steps(*calls: int) -> tuple[int, int]:
    column = array("I", calls)
    return steps(column.tobytes(), column.itemsize)


def test_the_step_is_the_period_that_covers_most() -> None:
    """A prologue, a step that stops in the middle and steps of one call are found as they are."""
    assert _steps(0, 1, 2, 1, 2, 1, 2) == (2, 3)
    assert _steps(9, 0, 0, 0, 0) == (1, 4)
    assert _steps(0, 1, 2, 0, 1, 2, 0) == (3, 2)
    assert _steps(0, 1, 2) == _steps(7) == _steps() == (0, 1)
    assert _steps(256, 1, 256, 1) == (2, 2)


def _recording(programs: dict[int, list[Call]]) -> Recording:
    ranks = tuple(programs)
    return Recording(
        len(ranks),
        {
            rank: RankRecord(
                rank,
                Track.of(Observed(call, n + 1, Progress.COMPLETED) for n, call in enumerate(calls)),
                has_ended=True,
            )
            for rank, calls in programs.items()
        },
        {"world": RecordedGroup("world", ranks, ranks)},
        backend="nccl",
    )


def test_a_loop_is_decided_like_what_it_unrolls_to() -> None:
    """Random programs of two ranks, alike and not: the folded plan has the outcome of the whole."""
    rng = random.Random(5)
    pool = [Call("all_reduce", "world", count=n, dtype="f32") for n in (1, 2)]
    pool += [Call("send", "world", peer=1, count=1, dtype="f32")]
    outcomes = set()
    for _ in range(60):
        body = rng.choices(pool[:2], k=rng.randrange(1, 4))
        calls = [rng.choice(pool[:2]), *body * rng.randrange(1, 5)]
        other = list(calls)
        if rng.random() < 0.5:
            other[rng.randrange(len(other))] = rng.choice(pool[:2])
        if rng.random() < 0.3:
            other.pop()
        if rng.random() < 0.3:
            calls.append(pool[2])
        recording = _recording({0: calls, 1: other})
        whole = planguard.check(recording.to_plan())
        folded = planguard.check(recording.to_plan(folded=True))
        assert (whole.outcome, whole.safe) == (folded.outcome, folded.safe)
        assert whole.stats.actions == folded.stats.actions
        outcomes.add(whole.outcome)
    assert len(outcomes) > 1


def test_a_label_that_asks_for_the_iteration_stays_outside_of_loops() -> None:
    """A label of the recording is a text: in a loop its braces would be a number."""
    calls = [Call("all_reduce", "world", count=1, dtype="f32", label="x{i}")] * 6
    plan = _recording({0: calls, 1: calls}).to_plan(folded=True)
    assert b"repeat" not in plan.text
    plain = [Call("all_reduce", "world", count=1, dtype="f32", label="x")] * 6
    assert b"repeat" in _recording({0: plain, 1: plain}).to_plan(folded=True).text
