"""Messages of a rank to itself: left out where they cannot block, else told."""

from __future__ import annotations

from typing import Any

import pytest

from planguard.capture.mpi.own_messages import without_own


def call(op: str, **more: Any) -> dict[str, Any]:
    """A message of rank 0 to itself."""
    return {"op": op, "peer": 0, "tag": 1, "bytes": 8, **more}


SEND, RECV = call("isend", work="s"), call("irecv", work="r")
BOTH = {"op": "wait", "work": ["s", "r"]}
OTHER = {"op": "send", "peer": 1, "tag": 1, "bytes": 8}


@pytest.mark.parametrize(
    "program",
    [
        [SEND, RECV, BOTH],
        [RECV, call("send"), {"op": "wait", "work": "r"}],
        [SEND, call("recv"), {"op": "wait", "work": "s"}],
        [call("send", mode="buffered"), call("recv", tag="any")],
        [call("irecv", work="r", bytes=80), SEND, {"op": "test", "work": "r"}, BOTH],
    ],
)
def test_what_cannot_block_is_left_out(program: list[dict[str, Any]]) -> None:
    """Each side finds the other started."""
    assert without_own(0, [*program, OTHER]) == ([OTHER], True)


@pytest.mark.parametrize(
    "program",
    [
        [call("send"), call("recv")],
        [call("recv"), call("send")],
        [SEND, {"op": "wait", "work": "s"}, call("recv")],
        [SEND, call("recv", tag=2), call("send", tag=2)],
        [SEND, call("irecv", work="r", bytes=4), BOTH],
        [call("isend", work="s", dtype="i32"), call("irecv", work="r", dtype="f32"), BOTH],
        [SEND],
        [SEND, RECV, {**BOTH, "mode": "any"}],
        [SEND, RECV, BOTH, {"op": "recv", "peer": "any", "tag": 1, "bytes": 8}],
        [SEND, {"op": "probe", "peer": 0, "tag": 1}, call("recv"), {"op": "wait", "work": "s"}],
    ],
)
def test_what_may_block_or_differ_is_told(program: list[dict[str, Any]]) -> None:
    """A side that waits for one that comes later, another size or type, or a choice."""
    assert not without_own(0, program)[1]


def test_a_wait_for_others_stays() -> None:
    """Only the rank's own handles go."""
    wait = {"op": "wait", "work": ["s", "r", "x"]}
    assert without_own(0, [SEND, RECV, wait]) == ([{"op": "wait", "work": "x"}], True)
