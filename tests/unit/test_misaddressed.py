"""A message to the wrong rank is one finding, with a proved repair."""

from __future__ import annotations

import pytest

import planguard
from planguard.options import CheckOptions
from planguard.plan.format import read
from planguard.repair import fix


def plan(*ranks):
    """Return a plan of messages: (operation, peer, bytes) by rank."""
    return planguard.load(
        {
            "schema": "planguard.plan/1",
            "world_size": len(ranks),
            "ranks": {
                str(rank): {"actions": [{"op": o, "peer": p, "bytes": b} for o, p, b in rows]}
                for rank, rows in enumerate(ranks)
            },
        }
    )


def errors(found, model="gloo"):
    """Return the errors of a plan."""
    return planguard.check(found, model=model).errors


WRONG_PEER = plan([("send", 2, 4)], [("recv", 0, 4)], [])
WRONG_SOURCE = plan([("send", 1, 4)], [("recv", 2, 4)], [])
ALSO_RECEIVED = plan([("send", 2, 4)], [("recv", 0, 4)], [("recv", 0, 4)])


@pytest.mark.parametrize("found", [WRONG_PEER, WRONG_SOURCE])
def test_a_send_and_a_receive_that_fit_but_for_the_peer_are_one_finding(found):
    """Both ranks are named by one error, which says the peer that would let them meet."""
    (error,) = errors(found)
    assert error.ranks == (0, 1)
    assert any("the two would meet" in note for note in error.notes)
    assert {at.rank for at in (error.primary, *error.related_actions)} >= {0, 1}


@pytest.mark.parametrize(
    "found",
    [
        plan([("send", 2, 4)], [("recv", 0, 8)], []),  # another size
        plan([("send", 2, 4)], [("recv", 3, 4)], [], []),  # two peers are off
        plan([("send", 3, 4)], [("recv", 0, 4)], [("recv", 0, 4)], []),  # two would fit
    ],
)
def test_messages_that_do_not_fit_alone_stay_apart(found):
    """Other sizes, two wrong peers or two candidates: no error says that they would meet."""
    assert not any("would meet" in note for one in errors(found) for note in one.notes)


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (WRONG_PEER, "from 2 to 1"),
        (WRONG_SOURCE, "from 2 to 0"),
        (ALSO_RECEIVED, "from 2 to 1, and remove r2"),
    ],
)
def test_the_repair_is_the_other_peer_and_is_proved(found, words):
    """The proved repair changes the peer, and takes away the receive at the wrong rank."""
    found = fix(found, planguard.check(found, model="gloo"), CheckOptions(model="gloo"))
    (best,) = found.verdict.errors[0].fixes
    assert words in best.text
    assert planguard.check(read(found.text), model="gloo").safe
