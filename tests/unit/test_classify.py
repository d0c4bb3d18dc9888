"""Which code a stuck state or a mismatch gets, and what its headline says."""

from __future__ import annotations

from typing import Any

import pytest

import planguard

QUEUED = ["nccl", "nccl-eager", "nccl-serialized"]
"""Models with one queue for a pair whose communicator exists."""


def act(op: str, **fields: Any) -> dict[str, Any]:
    """An action of four bytes."""
    return {"op": op, "bytes": 4, **fields}


def verdict(ranks: list[list[dict[str, Any]]], model: str, **fields: Any) -> planguard.Verdict:
    """The verdict of explicit rank programs."""
    programs = {str(rank): {"actions": actions} for rank, actions in enumerate(ranks)}
    plan = {"schema": "planguard.plan/1", "world_size": len(ranks), "ranks": programs, **fields}
    return planguard.check(plan, model=model)


def first(ranks: list[list[dict[str, Any]]], model: str, **fields: Any) -> planguard.Finding:
    """The most important finding."""
    return verdict(ranks, model, **fields).findings[0]


def groups(**members: list[int]) -> dict[str, Any]:
    """Explicit groups."""
    return {"groups": {name: {"ranks": ranks} for name, ranks in members.items()}}


# --- collectives ---------------------------------------------------------------------------------


def test_two_groups_in_opposite_orders_are_an_inversion() -> None:
    """PG004 names both groups and all ranks of either order; PG002 stays under related."""
    a, b = act("all_reduce", group="tp"), act("all_gather", group="dp")
    everyone = groups(tp=[0, 1, 2, 3], dp=[0, 1, 2, 3])
    found = first([[a, b], [a, b], [b, a], [b, a]], "nccl", **everyone)
    assert (found.code, found.related) == ("PG004", ("PG002",))
    assert found.message == (
        "cross-communicator deadlock: ranks 0 and 1 enter all_reduce on tp before all_gather on "
        "dp, ranks 2 and 3 the other way round"
    )


def test_three_groups_are_a_ring() -> None:
    """A ring over three groups is PG002, and its notes say which rank uses which group first."""
    found = first(
        [
            [act("all_reduce", group="ab"), act("all_reduce", group="ca")],
            [act("all_reduce", group="bc"), act("all_reduce", group="ab")],
            [act("all_reduce", group="ca"), act("all_reduce", group="bc")],
        ],
        "nccl",
        **groups(ab=[0, 1], bc=[1, 2], ca=[2, 0]),
    )
    assert (found.code, found.related) == ("PG002", ())
    assert "groups ab, bc and ca in a ring (0 -> 1 -> 2 -> 0)" in found.message
    assert found.notes[0] == "rank 0 enters all_reduce on ab before all_reduce on ca"


# --- streams -------------------------------------------------------------------------------------


def test_a_cycle_through_events_is_a_stream_order_deadlock() -> None:
    """PG005 where an event orders two streams; under gloo a wait blocks the host: PG008."""

    def rank(peer: int, coming: str, going: str) -> list[dict[str, Any]]:
        return [
            act("irecv", peer=peer, group=coming, work="r", stream="in"),
            {"op": "wait", "work": "r", "stream": "in"},
            {"op": "event_record", "event": "e", "stream": "in"},
            {"op": "event_wait", "event": "e", "stream": "out"},
            act("isend", peer=peer, group=going, work="s", stream="out"),
            {"op": "wait", "work": "s", "stream": "out"},
        ]

    ranks = [rank(1, "b", "a"), rank(0, "a", "b")]
    found = first(ranks, "nccl", **groups(a=[0, 1], b=[0, 1]))
    assert found.code == "PG005"
    assert {edge.why for edge in found.cycle} == {"event"}
    assert first(ranks, "gloo", **groups(a=[0, 1], b=[0, 1])).code == "PG008"


def test_a_wait_on_another_stream_is_a_stream_order_deadlock() -> None:
    """A wait that leads from one stream to another crosses streams as an event does."""

    def rank(peer: int, coming: str, going: str) -> list[dict[str, Any]]:
        return [
            act("irecv", peer=peer, group=coming, work="r", stream="in"),
            {"op": "wait", "work": "r", "stream": "out"},
            act("send", peer=peer, group=going, stream="out"),
        ]

    ranks = [rank(1, "b", "a"), rank(0, "a", "b")]
    assert first(ranks, "nccl", **groups(a=[0, 1], b=[0, 1])).code == "PG005"


# --- queues --------------------------------------------------------------------------------------


def crossed(peer: int) -> list[dict[str, Any]]:
    """Isend, then irecv, then both waits."""
    return [
        act("isend", peer=peer, work="s"),
        act("irecv", peer=peer, work="r"),
        {"op": "wait", "work": ["s", "r"]},
    ]


@pytest.mark.parametrize("model", QUEUED)
def test_asynchronous_calls_in_one_queue_are_an_unordered_pair(model: str) -> None:
    """Where a queue serializes the pair, PG001 carries PG108, and the action in front is named."""
    found = first([crossed(1), crossed(0)], model)
    assert found.code == "PG001"
    assert "PG108" in found.related
    assert {edge.why for edge in found.cycle} == {"queue"}
    assert [edge.at.op for edge in found.cycle] == ["isend", "isend"]
    assert any(f"under {model}" in note for note in found.notes)


def test_blocking_calls_are_not_an_unordered_pair() -> None:
    """Head-to-head sends are stuck with or without a queue: no PG108."""
    found = first([[act("send", peer=1)], [act("send", peer=0)]], "nccl")
    assert "PG108" not in found.related
    sends = [[act("send", peer=p), act("recv", peer=p)] for p in (1, 0)]
    assert first(sends, "nccl").related == ()


def test_independent_progress_has_no_queue() -> None:
    """Under gloo the same calls pass."""
    assert verdict([crossed(1), crossed(0)], "gloo").safe


# --- lazily created communicators ----------------------------------------------------------------

ORPHANS = {
    "PG208": [[act("send", peer=1)], [{"op": "compute"}]],
    "PG209": [[{"op": "compute"}], [act("recv", peer=0)]],
    "PG007": [[act("all_reduce"), act("all_reduce")], [act("all_reduce")]],
    "PG009": [[{"op": "barrier"}, {"op": "barrier"}], [{"op": "barrier"}]],
}


@pytest.mark.parametrize("code", list(ORPHANS))
def test_a_missing_peer_is_no_creation_deadlock(code: str) -> None:
    """A call whose peer never comes has the same code with and without lazy creation."""
    assert first(ORPHANS[code], "nccl").code == code
    found = first(ORPHANS[code], "nccl-lazy")
    assert found.code == code
    assert "never" in found.message
    assert "deadlock:" not in found.message


def test_a_first_use_that_nobody_joins_is_missing_a_participant() -> None:
    """PG007 and PG009 also where the very first call creates the communicator."""
    for op, code in (("all_reduce", "PG007"), ("barrier", "PG009")):
        found = first([[{"op": op}], [{"op": op}], [{"op": "compute"}]], "nccl-lazy")
        assert found.code == code
        assert found.message.startswith("rank 2 never uses group world")


def test_a_cycle_of_first_uses_is_a_creation_deadlock() -> None:
    """PG109 for a cycle through creations, with the rule of the model in a note."""
    ring = [
        [act("isend", peer=(r + 1) % 3, work="s"), act("irecv", peer=(r - 1) % 3, work="r"),
         {"op": "wait", "work": ["s", "r"]}]
        for r in range(3)
    ]  # fmt: skip
    found = first(ring, "nccl-lazy")
    assert (found.code, found.subkind) == ("PG109", "init-cycle")
    assert "first use of a communicator" in found.notes[0]


def test_batched_and_single_sides_never_meet_under_lazy_creation() -> None:
    """A batch uses the communicator of its group, a single call that of its pair: PG011."""
    ranks = [[{"op": "batch", "ops": [act("isend", peer=1)]}], [act("recv", peer=0)]]
    found = verdict(ranks, "nccl-lazy").findings
    assert {finding.code for finding in found} == {"PG011"}
    assert "issues its side alone" in found[0].message
    assert verdict(ranks, "nccl").safe


# --- missing participants ------------------------------------------------------------------------


def test_only_those_who_never_come_are_missing() -> None:
    """A rank that is stuck elsewhere would come: it is not called missing."""
    ranks = [
        [act("all_reduce")],
        [act("recv", peer=2), act("all_reduce")],
        [{"op": "compute"}],
    ]
    found = {finding.code: finding for finding in verdict(ranks, "gloo").findings}
    assert found["PG007"].notes[0] == "missing participant: rank 2"
    assert found["PG209"].notes[0] == "missing participant: rank 2"


def test_the_missing_rank_is_shown_where_it_was_last_seen() -> None:
    """Behind the waiting places stands the last such call of the missing rank, or its exit."""
    found = first([[act("all_reduce")] * 3, [act("all_reduce")] * 2], "nccl")
    assert (found.related_actions[-1].rank, found.related_actions[-1].action) == (1, 1)
    found = first([[act("all_reduce")] * 2, [act("all_reduce"), {"op": "exit"}]], "nccl")
    assert found.code == "PG006"
    assert found.related_actions[-1].op == "exit"


def test_the_other_group_is_named() -> None:
    """A message sent on one group and received on another: the note says where the peer is."""
    ranks = [[act("send", peer=1, group="a")], [act("recv", peer=0, group="b")]]
    found = first(ranks, "gloo", **groups(a=[0, 1], b=[0, 1]))
    assert found.code == "PG208"
    assert "rank 1 receives on b instead" in found.notes


# --- mismatches and buffering --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "other", "text"),
    [
        ({"bytes": 8}, {"bytes": 4}, "rank 2 has 4 B, ranks 0 and 1 have 8 B"),
        ({"reduce_op": "sum"}, {"reduce_op": "max"}, "rank 2 has max, ranks 0 and 1 have sum"),
        ({"label": "a"}, {"label": "b"}, "rank 2 carries 'b', ranks 0 and 1 carry 'a'"),
    ],
)
def test_a_mismatch_says_what_each_side_has(one, other, text: str) -> None:
    """The minority comes first, each with its value, and both sides are among the places."""
    ranks = [[act("all_reduce", **one)]] * 2 + [[act("all_reduce", **other)]]
    found = first(ranks, "gloo")
    assert found.message.endswith(f"in all_reduce (round 0 of world): {text}")
    assert found.primary.rank == 2
    assert {place.rank for place in found.related_actions} == {0, 1}


def test_a_pair_says_what_is_sent_and_what_is_received() -> None:
    """Sender first, then receiver, with sizes."""
    found = first([[act("send", peer=1)], [{"op": "recv", "peer": 0, "bytes": 2048}]], "gloo")
    assert found.message == (
        "sizes disagree in message 0 from rank 0 to rank 1 on world: rank 0 sends 4 B, rank 1 "
        "receives 2.00 KiB"
    )


def test_relying_on_buffers_names_their_size() -> None:
    """PG101 says how many bytes a send must be able to leave behind."""
    ranks = [[act("send", peer=p, bytes=2048), act("recv", peer=p, bytes=2048)] for p in (1, 0)]
    found = first(ranks, "mpi-eager")
    assert found.code == "PG101"
    assert "(2.00 KiB each)" in found.message


def test_every_error_says_what_to_change() -> None:
    """The advice names rank and action where one move breaks the cycle."""
    found = first([[act("send", peer=p), act("recv", peer=p)] for p in (1, 0)], "nccl")
    assert found.help.startswith("on rank 0, issue #1 recv before #0 send")
    found = first(ORPHANS["PG007"], "nccl")
    assert found.help == "add the call on rank 1, or remove it on rank 0"


def test_tags_that_a_model_ignores_leave_nobody_alone():
    """Under nccl a send and a receive with different tags meet: neither is a leftover."""
    builder = planguard.PlanBuilder(world_size=2)
    builder.program(0).isend(peer=1, bytes=4, tag=1, work="a")
    builder.program(0).wait("a")
    builder.program(1).irecv(peer=0, bytes=4, tag=2, work="b")
    builder.program(1).wait("b")
    assert planguard.check(builder.build(), model="nccl").findings == ()


def test_the_message_without_partner_is_named_and_not_what_stands_behind_it():
    """Of a queue that is held up, the finding names its head, though the host stands later."""
    ranks = [[act("isend", peer=1), act("recv", peer=2)], [], [act("send", peer=0)]]
    finding = first(ranks, "nccl")
    assert (finding.code, finding.primary.rank, finding.primary.action) == ("PG210", 0, 0)
    assert finding.message == "rank 0 waits in isend to rank 1, which never receives it"
