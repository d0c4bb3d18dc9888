"""States of a dump that say less than the calls behind them."""

from __future__ import annotations

import pytest
from audit_dumps import entry, write

import planguard as pg


def errors(verdict):
    """Codes and ranks of the errors."""
    return [(f.code, f.ranks) for f in verdict.errors]


@pytest.mark.parametrize("state", ["scheduled", "started"])
def test_a_state_is_stale_where_a_later_call_of_its_group_completed(state, tmp_path):
    """All went through #1, which a CUDA graph had captured: only the last call is open."""
    for rank in range(3):
        rows = [entry(number=0, seq=1, state=state if rank else "completed")]
        rows += [entry(number=n, seq=n + 1) for n in range(1, 4)]
        write(tmp_path, rank, rows, world=3)
    assert pg.audit(tmp_path).safe
    for rank in range(2):
        rows = [entry(number=0, seq=1, state=state)]
        rows += [entry(number=n, seq=n + 1) for n in range(1, 4)]
        write(tmp_path, rank, [*rows, entry(number=4, seq=5, state="started")], world=3)
    verdict = pg.audit(tmp_path)
    assert errors(verdict) == [("PG007", (2,))]
    assert "#5" in verdict.findings[0].message


def test_another_group_says_nothing_of_a_state(tmp_path):
    """Rank 1 stands in #1 of group 1, whatever it completed on group 2: communicators have no
    common order.
    """
    groups = {"1": [0, 1], "2": [1, 2]}
    for rank in range(3):
        rows = [entry(number=0, seq=1, group="1", state="started")] if rank == 1 else []
        rows += [entry(number=1, seq=1, group="2")] if rank else []
        write(tmp_path, rank, rows, groups, world=3)
    assert errors(pg.audit(tmp_path)) == [("PG007", (0,))]


def test_numbers_that_begin_anew_leave_the_open_call_of_the_life_before(tmp_path):
    """A communicator that was made again is another one: #3 of the first may still be open."""
    from planguard.audit.readers.flight_recorder import read_flight_recorder

    rows = [entry(number=0, seq=3, state="started"), entry(number=1, seq=1)]
    write(tmp_path, 0, rows)
    track = read_flight_recorder((tmp_path / "rank_0").read_bytes(), "a dump").track
    assert list(track.progress) == [2, 3]


def test_messages_to_one_peer_keep_their_order(tmp_path):
    """The first send has completed, as the second did; one to another peer says nothing of it."""
    for peer, is_safe in ((1, True), (2, False)):
        sent = [
            entry("send 0->1", number=0, seq=1, state="scheduled"),
            entry(f"send 0->{peer}", number=1, seq=2),
        ]
        write(tmp_path, 0, sent, world=3)
        for rank, count in ((1, 2 if peer == 1 else 0), (2, peer - 1)):
            rows = [entry(f"recv {rank}<-0", number=n, seq=n + 1) for n in range(count)]
            write(tmp_path, rank, rows, world=3)
        assert pg.audit(tmp_path).safe is is_safe, peer
