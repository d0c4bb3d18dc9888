"""What finalizers issue while the garbage collector runs has no place among the other calls."""

from __future__ import annotations

import gc
import weakref

import torch
import torch.distributed as dist

from planguard.capture import precheck


class _Closing:
    def __del__(self) -> None:
        dist.all_reduce(torch.ones(1))


def _cycle() -> None:
    held = _Closing()
    held.itself = held
    del held
    dist.broadcast(torch.ones(1), 0)


def _at_once() -> None:
    held = _Closing()
    del held
    dist.broadcast(torch.ones(1), 0)


class _Held:
    pass


def _by_weakref() -> None:
    held = _Held()
    held.itself = held
    weakref.finalize(held, dist.barrier)
    del held
    gc.collect()
    dist.broadcast(torch.ones(1), 0)


def _said(job: object) -> tuple[str, str]:
    verdict = precheck(2, model="gloo", on_unsafe="return").run(job)
    return verdict.outcome.value, " ".join(one.message for one in verdict.approximations)


def test_a_call_of_the_collector_is_undecided_and_named() -> None:
    """Objects that hold each other, with and without a collection that the program asks for."""
    for job, named in ((_cycle, _Closing.__del__), (_by_weakref, None)):
        outcome, said = _said(job)
        assert outcome == "UNKNOWN", job
        assert "from a finalizer while the garbage collector runs" in said
        line = f":{named.__code__.co_firstlineno + 1}" if named else ""
        assert f"test_play_collected.py{line}" in said


def test_an_object_that_nobody_holds_goes_at_once() -> None:
    """Its call stands where it went."""
    assert _said(_at_once)[0] == "SAFE"
