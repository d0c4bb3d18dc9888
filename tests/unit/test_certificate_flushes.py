"""How the checker of certificates flushes fused buffers, policy by policy, and what it refuses."""

from __future__ import annotations

import json
from typing import Any

import pytest

from planguard.certificate import flushes
from planguard.certificate.agreement import OutsideError, RejectedError
from planguard.certificate.flushes import programs, without_fusion


def member(name: str, **fields: Any) -> dict[str, Any]:
    """Give an asynchronous member of four bytes with a handle and a label of its name."""
    named = {"id": name, "work": name, "label": name}
    return {"op": "all_reduce", "bytes": 4, "async": True, **named, **fields}


def bare(name: str, **fields: Any) -> dict[str, Any]:
    """Give a member without a label."""
    return {key: value for key, value in member(name, **fields).items() if key != "label"}


def blocking(name: str) -> dict[str, Any]:
    """Give a member for which its host waits."""
    return {"op": "all_reduce", "bytes": 4, "id": name, "label": name}


def block(*body: Any) -> dict[str, Any]:
    """Give a block of open order."""
    return {"op": "unordered", "body": list(body)}


def wait(*names: str, **fields: Any) -> dict[str, Any]:
    """Give a wait, for one handle without a list."""
    return {"op": "wait", "work": list(names) if len(names) > 1 else names[0], **fields}


def buffer(members: str, **policy: Any) -> dict[str, Any]:
    """Give a fused buffer of members of one letter."""
    return {"id": f"of {members}", "members": list(members), **policy}


def plan_of(fusion: Any, *bodies: list[Any], **groups: list[int]) -> dict[str, Any]:
    """Give a flat plan with one or several fused buffers, one program per rank."""
    ranks = {str(rank): {"actions": actions} for rank, actions in enumerate(bodies)}
    named = {name: {"ranks": members} for name, members in groups.items()}
    head = {"schema": "planguard.plan/1", "world_size": len(bodies), "groups": named}
    return {**head, "ranks": ranks, "fusion": fusion if isinstance(fusion, list) else [fusion]}


def said(program: list[dict[str, Any]]) -> str:
    """Give what a program issues: members that travel together, and ? with what is waited for."""
    out, handles = [], dict[str, str]()
    for action in program:
        if action["op"] == "wait":
            works = action["work"] if isinstance(action["work"], list) else [action["work"]]
            out.append("?" + ",".join(handles.get(work, work) for work in works))
            continue
        label = action.get("label", action["op"])
        label = "".join(name for name, _ in json.loads(label)) if label[0] == "[" else label
        if "work" in action:
            handles[action["work"]] = label
        out.append(label)
    return " ".join(out)


def ways(fusion: Any, *body: Any, rank: int = 0, world: int = 1) -> set[str]:
    """Give what a rank of some that do the same can issue."""
    return {said(program) for program in programs(plan_of(fusion, *[[*body]] * world))[rank]}


def outside(match: str, fusion: Any, *body: Any, world: int = 1) -> None:
    """Ask that a plan is refused for a reason."""
    with pytest.raises(OutsideError, match=match):
        ways(fusion, *body, world=world)


A, B, C, D = (member(name) for name in "abcd")
AB, ABC = wait("a", "b"), wait("a", "b", "c")
FIXED = {"membership": "fixed"}
RANK0, NEGOTIATED = {"coordination": "rank0-broadcast"}, {"coordination": "negotiated"}


# -- policies --------------------------------------------------------------------------------------


def test_a_flush_is_one_collective_of_its_members():
    """Sizes are added, labels joined with them; the wait is for the flush, once."""
    fields = {"group": "g", "dtype": "f32", "reduce_op": "max"}
    counted = [{**member(name, **fields), "count": n} for name, n in zip("ab", (2, 3), strict=True)]
    body = [{key: call[key] for key in call if key != "bytes"} for call in counted]
    actions = [{"op": "barrier"}, block(*body), AB, wait("b"), {"op": "barrier"}]
    flat = plan_of(buffer("ab", group="g"), actions, actions, g=[0, 1])
    merged = {"op": "all_reduce", **fields, "label": '[["a", 8], ["b", 12]]', "count": 5}
    expected = [
        {"op": "barrier"},
        {**merged, "async": True, "work": "flush 0"},
        {"op": "wait", "work": ["flush 0"]},
        {"op": "barrier"},
    ]
    assert programs(flat) == [[expected]] * 2
    alone = [{"op": "all_reduce", "label": "a", "bytes": 4, "async": True, "work": "flush 0"}]
    filled = plan_of(buffer("a", cap_bytes=4), [block(A), wait("a")])
    assert programs(filled) == [[[*alone, {"op": "wait", "work": ["flush 0"]}]]]


def test_a_filled_buffer_flushes_before_it_overflows():
    """And when one of its members is waited for, in declared order; what nobody waits for stays."""
    assert ways(buffer("abc"), block(A, B, C), ABC) == {"abc ?abc"}
    assert ways(buffer("cba"), block(A, B, C), ABC) == {"cba ?cba"}
    assert ways(buffer("abc", cap_bytes=12), block(A, B, C), ABC) == {"abc ?abc"}
    two = {"ab c ?ab,c", "ac b ?ac,b", "bc a ?a,bc"}
    assert ways(buffer("abc", cap_bytes=8), block(A, B, C), ABC) == two
    assert ways(buffer("abc", cap_bytes=11), block(A, B, C), ABC) == two
    assert ways(buffer("abc", cap_bytes=8), block([A, B, C]), ABC) == {"ab c ?ab,c"}
    assert ways(buffer("abc", cap_bytes=8), block([A, B, C])) == {"ab"}
    large = member("b", bytes=20)
    assert ways(buffer("abc", cap_bytes=8), block([A, large, C]), ABC) == {"a b c ?a,b,c"}
    assert ways(buffer("abcd", buffers=2), block(A, B, C, D), wait(*"abcd")) == {"ac bd ?ac,bd"}


def test_a_fixed_bucket_leaves_when_it_is_ready():
    """Packed as declared, whatever comes first; in order or at the end if the policy says so."""
    pack = {**FIXED, "cap_bytes": 8}
    assert ways(buffer("abc", **pack), block(A, B, C), ABC) == {"ab c ?ab,c", "c ab ?ab,c"}
    assert ways(buffer("abc", **pack, launch="ordered"), block(A, B, C), ABC) == {"ab c ?ab,c"}
    drained = {**pack, "drain": "ordered"}
    assert ways(buffer("abc", **drained), block(A, B, C), ABC) == {"ab c ?ab,c"}
    each = buffer("abc", **FIXED, cap_bytes=4, launch="ordered")
    assert ways(each, block([C, B, A]), ABC) == {"a b c ?a,b,c"}
    assert ways(each, block([A, C, B]), ABC) == {"a b c ?a,b,c"}
    dealt = buffer("abcd", **drained, buffers=2)
    assert ways(dealt, block(A, B, C, D), wait(*"abcd")) == {"ac bd ?ac,bd"}
    dealt = buffer("abcd", **FIXED, cap_bytes=4, drain="ordered", buffers=2)
    assert ways(dealt, block([C, D, B, A]), wait(*"abcd")) == {"b a c d ?a,b,c,d"}


def test_what_never_leaves_is_not_waited_for():
    """A bucket that is not complete, a member that was not issued: in no order that may happen."""
    pair = buffer("ab", **FIXED)
    for fusion, body in (
        (pair, [block(A), wait("a"), block(B)]),
        (pair, [block(A, B, wait("a"))]),
        (buffer("ab", **FIXED, cap_bytes=4, launch="ordered"), [block(B), wait("b"), block(A)]),
        (buffer("a"), [wait("a"), block(A)]),
        (pair, [block(blocking("a"), B)]),
    ):
        with pytest.raises(RejectedError, match="which never leaves") as error:
            ways(fusion, *body)
        assert not isinstance(error.value, OutsideError)


def test_waits_and_blocking_members_flush_what_is_there():
    """In a block too: of what is issued so far, the one that is waited for included."""
    assert ways(buffer("ab"), block(A), wait("a"), block(B), wait("b")) == {"a ?a b ?b"}
    assert ways(buffer("ab"), block(A, wait("a"), B), wait("b")) == {"a ?a b ?b", "ab ?ab"}
    assert ways(buffer("ab"), block([A, B, wait("a")]), wait("b")) == {"ab ?ab"}
    assert ways(buffer("ab"), block([A, blocking("b")]), wait("a")) == {"ab ?ab"}
    assert ways(buffer("ab"), block(A, blocking("b")), wait("a")) == {"ab ?ab", "b ?b a ?a"}
    assert ways(buffer("abc"), block([A, blocking("b"), C]), wait("a", "c")) == {"ab ?ab c ?c"}


def test_a_test_or_drop_flushes_nothing():
    """Of one member or of several, and nothing of it stays in the program."""
    tests = {"op": "test", "work": "a"}, {"op": "test", "work": ["a", "b"]}
    for idle in (*tests, {"op": "drop", "work": "a"}):
        assert ways(buffer("ab", cap_bytes=4), block([A, B]), idle, AB) == {"a b ?a,b"}
        assert ways(buffer("ab"), block(A), idle, block(B), AB) == {"ab ?ab"}


def test_other_calls_keep_their_place():
    """In a block of members they are issued with them in every order, elsewhere as written."""
    other = {"op": "barrier", "label": "x"}
    assert ways(buffer("a"), block(A, other), wait("a")) == {"x a ?a"}
    assert ways(buffer("a", **FIXED), block(A, other), wait("a")) == {"x a ?a", "a x ?a"}
    chained = block({**A, "id": "a"}, {**other, "after": ["a"]})
    assert ways(buffer("a", **FIXED), chained, wait("a")) == {"a x ?a"}
    kept = programs(plan_of(buffer("a", **FIXED), [chained, wait("a")]))[0][0]
    assert kept[1] == other
    open_block = block(other, {"op": "h2d", "bytes": 4})
    race = {"op": "threads", "threads": [[other], [other]]}
    own = {**other, "async": True, "work": "x"}
    any_of = {"op": "wait", "work": ["x"], "mode": "any"}
    flat = plan_of(buffer("a"), [open_block, race, own, any_of, block(A), wait("a")])
    assert programs(flat)[0][0][:4] == [open_block, race, own, any_of]
    inside = block([own, A, wait("x")])
    assert programs(plan_of(buffer("a"), [inside, wait("a")]))[0][0][:2] == [own, wait("x")]
    both = programs(plan_of(buffer("a"), [block([own, A]), wait("x", "a")]))[0][0]
    assert both[2] == {"op": "wait", "work": ["x", "flush 0"]}


def test_ranks_without_members_issue_what_they_did():
    """A buffer of a group is one of its ranks; members there are those of the group."""
    flat = plan_of(
        buffer("ab", group="g", **RANK0),
        [{"op": "barrier"}],
        [block(member("a", group="g"), member("b", group="g")), wait("a", "b")],
        g=[1],
    )
    assert [[said(program) for program in found] for found in programs(flat)] == [
        ["barrier"],
        ["ab ?ab"],
    ]


def test_a_buffer_of_other_ranks_flushes_nothing_here():
    """Even where a member of a buffer of this rank has the name of one of its members."""
    bodies = [[block(member("b", group=name)), wait("b")] for name in "gh"]
    for policy in (RANK0, NEGOTIATED, FIXED):
        apart = [buffer("b", group="g", **policy), buffer("b", group="h", **policy)]
        found = programs(plan_of(apart, *bodies, g=[0], h=[1]))
        assert [[said(program) for program in mine] for mine in found] == [["b ?b"]] * 2


# -- agreed buffers --------------------------------------------------------------------------------


def test_an_agreed_buffer_has_one_program():
    """The layout of the first rank of the group, or every member by itself, in declared order."""
    assert ways(buffer("abc", **RANK0, cap_bytes=8), block(C, B, A), ABC) == {"ab c ?ab,c"}
    assert ways(buffer("abc", **NEGOTIATED), block(C, B, A), ABC) == {"a b c ?a,b,c"}
    assert ways(buffer("ab", **NEGOTIATED), block(A), block(B), AB) == {"a b ?a,b"}
    several = [buffer("ab", **NEGOTIATED), buffer("c", **NEGOTIATED)]
    assert ways(several, block(C, B, A), ABC) == {"a b c ?a,b,c"}
    large = [block(A, member("b", bytes=8)), AB]
    small = [block(A, B), AB]
    for ranks in ([0, 1, 2], [1, 0, 2], [2, 1, 0]):
        bodies = [[small, large][rank > 0] for rank in range(3)]
        grouped = [json.loads(json.dumps(body)) for body in bodies]
        for body in grouped:
            for call in body[0]["body"]:
                call["group"] = "g"
        flat = plan_of(buffer("ab", **RANK0, group="g", cap_bytes=8), *grouped, g=ranks)
        packed = {"ab ?ab"} if ranks[0] == 0 else {"a b ?a,b"}
        assert [{said(one) for one in found} for found in programs(flat)] == [packed] * 3
    flat = plan_of(buffer("ab", **RANK0, cap_bytes=8), large, small)
    assert [[said(one) for one in found] for found in programs(flat)] == [["a b ?a,b"]] * 2
    flat = plan_of(buffer("ab", **RANK0, cap_bytes=8), small, large)
    assert [[said(one) for one in found] for found in programs(flat)] == [["ab ?ab"]] * 2


@pytest.mark.parametrize("policy", [RANK0, NEGOTIATED])
def test_an_agreed_buffer_is_settled_before_anything_else(policy):
    """Waited for when all is issued, and nothing communicates between: else it is outside."""
    other, copy = {"op": "barrier", "label": "x"}, {"op": "h2d", "bytes": 4}
    pair = buffer("ab", **policy)
    look = {"op": "test", "work": "a"}
    for fine in (
        [other, block(A, B), AB, other],
        [block(A, copy), look, block(B), copy, wait("a"), wait("b"), other],
        [block(A, B), AB, AB],
    ):
        assert ways(pair, *fine)
    for early in (
        [block(A), wait("a"), block(B), wait("b")],
        [block(A, B, wait("a")), wait("b")],
        [block(A, blocking("b")), wait("a")],
        [block(blocking("a"))],
    ):
        outside("waited for early", buffer("ab", **policy), *early)
    for beside in (
        [block(A, B, other), AB],
        [block(A), other, block(B), AB],
        [block(A, B), other, AB],
        [block(A, B), wait("a"), other, wait("b")],
        [block(A, B), {"op": "send", "peer": 0, "bytes": 4}, AB],
        [block(A, B), {"op": "batch", "ops": []}, AB],
        [block(A, B), {"op": "init"}, AB],
        [block(A, B), {"op": "new_group", "group": "g"}, AB],
    ):
        outside("communication beside", pair, *beside)


def test_several_agreed_buffers_are_negotiated_on_one_group():
    """One coordinator orders those of a group; anything else is outside."""
    body = [block(A, B), AB]
    for one, two in (
        (RANK0, RANK0),
        (RANK0, NEGOTIATED),
        (NEGOTIATED, RANK0),
        (NEGOTIATED, {}),
        ({}, NEGOTIATED),
    ):
        outside("beside one of another kind", [buffer("a", **one), buffer("b", **two)], *body)
    group = [buffer("a", **NEGOTIATED), buffer("b", **NEGOTIATED, group="g")]
    flat = plan_of(group, [block(A, member("b", group="g")), AB], g=[0])
    with pytest.raises(OutsideError, match="of another kind"):
        programs(flat)
    elsewhere = [buffer("a", **RANK0), buffer("b", **NEGOTIATED, group="g")]
    flat = plan_of(elsewhere, [block(A), wait("a")], [block(A), wait("a")], g=[1])
    assert [len(found) for found in programs(flat)] == [1, 1]


def test_an_agreed_buffer_has_the_same_members_on_all_ranks():
    """Others are negotiated forever; a buffer that nobody agrees on may differ."""
    bodies = [block(A), wait("a")], [block(A, B), AB]
    for policy in (RANK0, NEGOTIATED):
        with pytest.raises(OutsideError, match="other members on other ranks"):
            programs(plan_of(buffer("ab", **policy), *bodies))
    found = programs(plan_of(buffer("ab"), *bodies))
    assert [[said(program) for program in mine] for mine in found] == [["a ?a"], ["ab ?ab"]]


def groups_of(flat: dict[str, Any], model: str) -> list[list[str]]:
    """Give the groups of what every rank issues, waits left out."""
    _, found = without_fusion(flat, model)
    return [[one["group"] for one in mine[0] if "group" in one] for mine in found]


def test_a_negotiated_member_meets_no_other_call():
    """It is launched on a communicator that nobody else uses: all of them where they are settled
    at once, one for each where a call stands between. Models whose communicators hold each other up
    keep the group, and ask that all ranks have called it equally often in front.
    """
    pair, call = buffer("ab", **NEGOTIATED), {"op": "all_reduce", "bytes": 4, "group": "g"}
    settled = [call, A, B, AB]
    flat = plan_of(pair, settled, settled, g=[0, 1])
    assert groups_of(flat, "gloo") == [["g", *["world, negotiated"] * 2]] * 2
    assert groups_of(flat, "nccl") == [["g"]] * 2
    between = [A, call, B, wait("b"), call, wait("a")]
    flat = plan_of(pair, between, between, g=[0, 1], **{"world, negotiated": [0]})
    mine = ["world, negotiated' a", "g", "world, negotiated' b", "g"]
    assert groups_of(flat, "gloo") == groups_of(flat, "mpi-sync") == [mine] * 2
    for model in ("nccl", "gloo-detail", "mpi-pg"):
        with pytest.raises(OutsideError, match=r"waited for early|beside an agreed"):
            without_fusion(flat, model)


@pytest.mark.parametrize("call", [{"op": "all_reduce", "bytes": 4}, block({"op": "barrier"})])
def test_a_call_in_front_on_one_rank_takes_no_place_of_a_member(call):
    """Where a rank calls the group once more in front of the members, a certificate by position
    would let it meet one of them.
    """
    flat = plan_of(buffer("a", **NEGOTIATED), [call, A, wait("a")], [A, wait("a"), call])
    with pytest.raises(OutsideError, match=r"is called in front|hosts may stand"):
        without_fusion(flat, "nccl")
    assert groups_of(flat, "gloo") == [["world, negotiated"]] * 2


@pytest.mark.parametrize("model", ["nccl", "nccl-eager", "nccl-lazy", "nccl-serialized"])
@pytest.mark.parametrize("op", ["init", "new_group", "barrier", "host_sync"])
def test_hosts_that_may_stand_elsewhere_are_outside(op, model):
    """Rank 0 stands in the call until rank 1 comes to it, which waits for the member of rank 0."""
    call = {"op": op} | ({} if op == "host_sync" else {"group": "g"})
    bodies = [call, A, wait("a")], [A, wait("a"), call]
    with pytest.raises(OutsideError, match="hosts may stand elsewhere"):
        without_fusion(plan_of(buffer("a", **NEGOTIATED), *bodies, g=[0, 1]), model)


def test_a_first_use_and_another_group_that_negotiates_are_outside():
    """Both let a host stand: where a communicator is made, and at a member of the other group."""
    bodies = [A, wait("a")], [A, wait("a")]
    with pytest.raises(OutsideError, match="hosts may stand elsewhere"):
        without_fusion(plan_of(buffer("a", **NEGOTIATED), *bodies), "nccl-lazy")
    other = [buffer("a", **NEGOTIATED), buffer("b", **NEGOTIATED, group="g")]
    mine = [A, wait("a"), member("b", group="g"), wait("b")]
    flat = plan_of(other, mine, [*mine[2:], *mine[:2]], g=[0, 1])
    with pytest.raises(OutsideError, match="hosts may stand elsewhere"):
        without_fusion(flat, "nccl")


def test_a_member_that_some_rank_lacks_is_outside_by_its_name():
    """It is known by its label, and never launched: no order completes it."""
    call = {"op": "barrier", "group": "g"}
    early = [A, call, wait("a")]
    for lacking in ([call], [member("a", label="b"), call, wait("a")]):
        flat = plan_of(buffer("a", **NEGOTIATED), early, lacking, g=[0, 1])
        with pytest.raises(OutsideError, match="other members on other ranks"):
            without_fusion(flat, "gloo")


# -- what is outside -------------------------------------------------------------------------------


def test_what_cannot_travel_as_one_is_outside():
    """Other types, operations, units or streams; and labels that some have and others lack."""
    for fields in ({"dtype": "f16"}, {"reduce_op": "max"}, {"op": "reduce_scatter"}):
        outside("travel as one", buffer("ab"), block(A, member("b", **fields)), AB)
    for name in "ab":
        calls = [member(one, **({"stream": "s"} if one == name else {})) for one in "ab"]
        outside("travel as one", buffer("ab"), block(*calls), AB)
        calls = [member(one, dtype="f32") for one in "ab"]
        calls["ab".index(name)].pop("bytes")
        calls["ab".index(name)]["count"] = 1
        outside("travel as one", buffer("ab"), block(*calls), AB)
    outside("travel as one", buffer("a"), block(member("a", stream="s")), wait("a"))
    outside("belong together", buffer("ab"), block(A, bare("b")), AB)
    outside("belong together", buffer("ab", cap_bytes=4), block(A, bare("b")), AB)
    two = [buffer("a"), buffer("b")]
    outside("belong together", two, block(bare("a"), bare("b")), AB)
    assert ways(buffer("ab"), block(bare("a"), bare("b")), AB) == {"ab ?ab"}
    assert ways(two, block([A, B]), AB) == {"a b ?a,b"}
    outside("without a size", buffer("a"), block({**A, "bytes": None}), wait("a"))


def test_names_that_are_not_clear_are_outside():
    """Two buffers of one member, or a handle that two calls bind."""
    outside("two fused buffers", [buffer("a"), buffer("ab")], block(A, B), AB)
    outside("bound twice", buffer("ab"), block(A, {**B, "work": "a"}), wait("a"))
    other = {"op": "all_reduce", "bytes": 4, "async": True, "work": "a", "label": "x"}
    outside("bound twice", buffer("a"), block(A), wait("a"), other, wait("a"))
    idle = {"op": "test", "work": "a"}, wait("a"), {"op": "drop", "work": "a"}
    assert ways(buffer("a"), block(A), *idle) == {"a ?a"}
    twice = [{**other, "work": "x"}, wait("x")] * 2
    assert ways(buffer("a"), *twice, block(A), wait("a")) == {"x ?x x ?x a ?a"}


def test_a_member_of_another_group_is_outside():
    """Its call has to be one of the group of its buffer."""
    for fusion, call in (
        (buffer("ab"), member("b", group="g")),
        (buffer("ab", group="g"), B),
    ):
        first = A if "group" not in fusion else member("a", group="g")
        flat = plan_of(fusion, [block(first, call), AB], g=[0])
        with pytest.raises(OutsideError, match="member of another group"):
            programs(flat)


@pytest.mark.parametrize("coordination", ["none", "negotiated"])
@pytest.mark.parametrize("group", ["h", "world"])
def test_a_rank_beside_the_group_of_a_buffer_has_none_of_its_members(coordination, group):
    """Its call with the name of a member would be accounted for by no buffer."""
    fusion = buffer("a", group="g", coordination=coordination)
    flat = plan_of(fusion, [], [member("a", group="g"), wait("a")], g=[1], h=[0])
    assert without_fusion(flat, "gloo")
    flat["ranks"]["0"]["actions"] = [member("a", group=group), wait("a")]
    with pytest.raises(OutsideError, match="rank 0: a member of another group"):
        without_fusion(flat, "gloo")


def test_members_in_other_constructs_are_outside():
    """Threads and branches, computations on a member, and waits for one of several."""
    for kind in ("threads", "branches"):
        op = "threads" if kind == "threads" else "choice"
        outside("in a thread", buffer("a"), {"op": op, kind: [[A]]})
        outside("in a thread", buffer("a"), block(A), {"op": op, kind: [[wait("a")]]})
    compute = {"op": "compute", "deps": ["a"]}
    outside("depends on a member", buffer("a"), block(A, compute), wait("a"))
    outside("depends on a member", buffer("a"), block(A), compute)
    outside("in a thread", buffer("a"), block(A), {"op": "threads", "threads": [[compute]]})
    for mode in ("any", "some"):
        outside("one of several", buffer("ab"), block(A, B), wait("a", "b", mode=mode))
        assert ways(buffer("a"), block(A), wait("a", mode=mode)) == {"a ?a"}
    assert ways(buffer("ab"), block(A, B), wait("a", "b", mode="all")) == {"ab ?ab"}
    other = {"op": "all_reduce", "bytes": 4, "async": True, "work": "x", "label": "x"}
    mixed = {"op": "test", "work": ["a", "x"]}
    outside("members and others", buffer("a"), block(A), other, mixed)


def test_the_ways_are_bounded(monkeypatch):
    """States of one block, and programs of a rank."""
    each = {**FIXED, "cap_bytes": 4}
    blocks = buffer("abcdef", **each), block(A, B), block(C, D), block(member("e"), member("f"))
    one = buffer("abc", **each), block(A, B, C)
    for (fusion, *body), states, found in (blocks, 8, 8), (one, 16, 6):
        monkeypatch.setattr(flushes, "LIMIT", states)
        assert len(ways(fusion, *body)) == found
        monkeypatch.setattr(flushes, "LIMIT", states - 1)
        outside(f"more than {states - 1} ways to flush on rank 0", fusion, *body)
