"""The checker of certificates over orders, rule by rule, and both commands."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from typing import Any

import pytest

import planguard
from planguard.certificate.agreement import OutsideError, RejectedError
from planguard.certificate.blocks import MAY_MOVE, Block, as_chains
from planguard.certificate.format import encode
from planguard.certificate.orders import Orders, check
from planguard.options import MODEL_NAMES, CheckOptions
from planguard.plan.flatten import flat_lines

GROUPS = {"a": [0, 1], "b": [0, 1]}


def reduce(group: str, label: str, **fields: Any) -> dict[str, Any]:
    """Give an all-reduce of four bytes."""
    return {"op": "all_reduce", "group": group, "bytes": 4, "label": label, **fields}


def block(*body: Any) -> dict[str, Any]:
    """Give a block of open order."""
    return {"op": "unordered", "body": list(body)}


def document(*programs: Any) -> dict[str, Any]:
    """Give a plan, one program per rank."""
    return {
        "schema": "planguard.plan/1",
        "world_size": len(programs),
        "groups": {name: {"ranks": ranks} for name, ranks in GROUPS.items()},
        "ranks": {str(rank): {"actions": list(use)} for rank, use in enumerate(programs)},
    }


def flat_text(plan: Any) -> bytes:
    """Give the text of the flat form."""
    return b"".join(flat_lines(planguard.load(plan)))


def proof_of(plan: Any, model: str = "gloo") -> Any:
    """Give the certificate of a plan."""
    options = CheckOptions(model=model, certificate=True)
    return planguard.check(planguard.load(plan), options=options).certificate


def said(plan: Any, order: list[Any], settled: list[Any], model: str = "gloo") -> str:
    """Give what the checker says of a proof."""
    flat = flat_text(plan)
    proof = {"kind": "orders", "model": model, "order": order, "settled": settled}
    proof |= {"plan_sha256": hashlib.sha256(flat).hexdigest()}
    text = json.dumps({**proof, "schema": "planguard.certificate/1"}).encode()
    try:
        return check(flat, text)
    except RejectedError as error:
        return str(error)


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a module of the package."""
    words = [sys.executable, "-m", *arguments]
    return subprocess.run(words, check=False, capture_output=True, text=True, timeout=60)


BAG = block(reduce("a", "x"), reduce("b", "y"))
TIED = block(reduce("a", "x", id="x"), reduce("b", "y", after=["x"]))
RUN, PEELED = [[0, 0], [1, 0], [0, 1], [1, 1]], [[0, 0], [1, 0], [0, 1], [1, 1]]


def test_two_calls_in_a_bag_on_both_ranks_have_no_certificate():
    """Each rank may stand at the call that the other starts last: no list of waits is accepted."""
    plan = document([BAG], [BAG])
    assert proof_of(plan) is None
    for first in ([0, 0], [0, 1], [1, 0], [1, 1]):
        assert "may never arrive" in said(plan, RUN, [first])
    assert "may stay at or after action 0" in said(plan, RUN, [])


def test_an_edge_in_the_block_makes_the_certificate_and_its_absence_breaks_it():
    """With `after` on both ranks the waits peel off; the same proof fails for the plan without."""
    plan = document([TIED], [TIED])
    assert said(plan, RUN, PEELED).endswith("complete under gloo in every order")
    assert "may never arrive" in said(document([TIED], [BAG]), RUN, [[1, 0], [0, 0], [0, 1]])
    assert proof_of(document([TIED], [BAG])) is None


def test_an_edge_on_one_rank_is_not_enough():
    """One rank in order, the other free: the free one may start with what comes last."""
    assert proof_of(document([TIED], [TIED])) is not None
    assert proof_of(document([BAG], [TIED])) is None


def test_calls_that_may_change_places_on_a_communicator_are_rejected():
    """Two calls of one communicator need an order; a chain or `after` gives it."""
    loose = block(reduce("a", "x"), reduce("a", "y"))
    assert "may change places" in said(document([loose], [loose]), RUN, PEELED)
    chain = block([reduce("a", "x"), reduce("a", "y")])
    assert proof_of(document([chain], [chain]))["kind"] == "orders"


def test_twins_are_kept_as_written_only_with_a_label():
    """Exchanging two calls that read the same changes nothing; without a label their data may."""
    twins = block(reduce("a", "x"), reduce("a", "x"))
    assert said(document([twins], [twins]), RUN, PEELED).startswith("2 ranks")
    call = {"op": "all_reduce", "group": "a", "bytes": 4}
    bare = block(call, call)
    assert "may change places" in said(document([bare], [bare]), RUN, PEELED)


def test_nested_blocks_are_fences_inside_their_chain():
    """What follows a block in a chain follows all of it, also where the block is empty."""
    chain = [reduce("a", "1"), block(reduce("b", "2")), block(), reduce("a", "3")]
    free = {"op": "compute", "op_name": "f"}
    plan = document([block(chain, free)], [block(chain, free)])
    orders = Orders(json.loads(flat_text(plan)), "gloo")
    assert orders.blocks[0][0].above == [0b110, 0b100, 0, 0]
    assert all(proof_of(plan, model) for model in MODEL_NAMES)


def test_what_is_started_without_waiting_needs_no_order():
    """Asynchronous calls in a bag, waited for behind it: the order plays no part."""
    later = [reduce(g, g, **{"async": True, "work": g}) for g in GROUPS]
    waits = [{"op": "wait", "work": name} for name in GROUPS]
    plan = document([block(*later), *waits], [block(*later[::-1]), *waits[::-1]])
    assert [bool(proof_of(plan, model)) for model in ("gloo", "mpi-sync")] == [True, True]
    assert not any(proof_of(plan, model) for model in ("nccl", "mpi-pg", "gloo-detail"))


def test_hosts_that_have_met_issue_their_call():
    """Under gloo-detail who waits for a collective has met its members: a bag of two is harmless
    where each partner has one of them only. Under nccl-lazy creations and launches make a circle
    that passes one rank twice: it is refuted.
    """
    plan = document(
        [block(reduce("a", "x"), reduce("c", "z"))], [reduce("a", "x")], [reduce("c", "z")]
    )
    plan["groups"] |= {"c": {"ranks": [0, 2]}}
    assert all(proof_of(plan, name) for name in MODEL_NAMES)
    refuted = [name for name in MODEL_NAMES if "refuted" in proof_of(plan, name)]
    assert refuted == ["nccl-lazy"]


@pytest.mark.parametrize("op", ["new_group", "destroy", "init"])
def test_what_has_a_fixed_place_is_outside(op):
    """What creates or ends a group means something else in another place."""
    plan = document([block({"op": op, "group": "a"}, reduce("b", "y"))], [reduce("b", "y")])
    assert "a block with something that has a fixed place" in said(plan, [], [])


def test_a_circle_and_a_name_from_elsewhere_are_outside():
    """The checker does not rely on the reader of plans for the edges that it follows."""
    first = reduce("a", "x", id="x", after=["y"])
    circle = block(first, reduce("b", "y", id="y", after=["x"]))
    flat = document([circle], [])
    with pytest.raises(OutsideError, match="circle"):
        Orders(flat, "gloo")
    with pytest.raises(OutsideError, match="elsewhere"):
        Orders(document([block(first)], []), "gloo")


@pytest.mark.parametrize("wrong", [[[0, 0]] * 2, [[5, 0]], [[0, 9]], [[-1, 0]]])
def test_a_wait_that_is_none_is_rejected(wrong):
    """A rank or action that does not exist, or waits no more, settles nothing."""
    assert "waits for nothing more" in said(document([TIED], [TIED]), RUN, [*PEELED, *wrong])


def test_both_commands_know_the_form(tmp_path):
    """`check --certificate` writes it and `python -m planguard.certificate` accepts it."""
    plan, proof = tmp_path / "tied.json", tmp_path / "proof.json"
    plan.write_text(json.dumps(document([TIED], [TIED])), encoding="utf-8")
    check_it = ["planguard", "check", str(plan), "--model", "gloo", "--certificate", str(proof)]
    verify_it = ["planguard.certificate", str(tmp_path / "proof.plan.json"), str(proof)]
    for arguments in (check_it, verify_it):
        done = command(*arguments)
        assert done.returncode == 0, done.stderr
    assert done.stdout == "accepted: 2 ranks, 4 operations complete under gloo in every order\n"
    broken = json.loads(proof.read_text("utf-8"))
    broken["settled"].pop()
    proof.write_text(json.dumps(broken), encoding="utf-8")
    done = command(*verify_it)
    assert done.returncode == 1
    assert done.stdout.startswith("rejected: rank ")


def test_what_options_pin_has_no_certificate():
    """A certificate knows models, not numbers of resident kernels: SAFE says so."""
    plan = document([reduce("a", "x")], [reduce("a", "x")])
    options = CheckOptions(model="nccl", certificate=True, max_resident_kernels=2)
    verdict = planguard.check(planguard.load(plan), options=options)
    assert verdict.safe
    assert verdict.certificate is None
    assert "options pin" in verdict.reasons[-1]


def test_a_circle_that_no_order_follows_is_refuted():
    """Two chains side by side, each a partner's program: the only cycle of waits would have one
    rank stand at two places. That is SAFE, and the certificate refutes the cycle.
    """
    chains = [[reduce("a", "1"), reduce("c", "2")], [reduce("b", "3"), reduce("d", "4")]]
    plan = document([block(*chains)], chains[1], chains[0])
    plan["groups"] = {"a": {"ranks": [0, 2]}, "c": {"ranks": [0, 2]}}
    plan["groups"] |= {"b": {"ranks": [0, 1]}, "d": {"ranks": [0, 1]}}
    options = CheckOptions(model="gloo", certificate=True)
    verdict = planguard.check(planguard.load(plan), options=options)
    assert verdict.safe
    assert verdict.evidence.route == ("cycle",)
    assert verdict.certificate is not None
    assert verdict.certificate["refuted"][-1] == []
    assert check(flat_text(plan), encode(verdict.certificate))


def test_a_certificate_is_about_one_plan():
    """The text of another plan, however alike, is not proved by it."""
    plan = document(*[[block(reduce("a", "x", id="x"), reduce("b", "y", after=["x"]))]] * 2)
    proof, flat = encode(proof_of(plan)), flat_text(plan)
    other = flat.replace(b'"label":"y"', b'"label":"z"')
    assert other != flat
    assert check(flat, proof)
    with pytest.raises(RejectedError, match="another plan"):
        check(other, proof)


def test_members_of_a_batch_are_told_apart():
    """A batch beside open order: each of its messages completes on its own."""
    programs = []
    for rank in range(2):
        ops = [{"op": op, "peer": 1 - rank, "bytes": 4} for op in ("isend", "irecv")]
        calls = [reduce(name, name, **{"async": True, "work": name}) for name in "ab"]
        batch = [{"op": "batch", "ops": ops, "work": "m"}, {"op": "wait", "work": "m"}]
        programs.append([*batch, block(*calls), {"op": "wait", "work": ["a", "b"]}])
    plan = document(*programs)
    for model in ("gloo", "mpi-sync"):
        proof = proof_of(plan, model)
        assert proof["kind"] == "orders"
        assert [0, 0, 1] in proof["order"]
        assert check(flat_text(plan), encode(proof))


FIRST = {"op": "compute", "op_name": "f"}


def test_the_written_order_is_followed_to_its_end_and_compared():
    """It names operations that were issued, ends everybody, and members that meet agree."""
    plan = document([TIED], [TIED])
    assert "its host is not there yet" in said(plan, [[0, 1]], [])
    assert "its host is not there yet" in said(plan, [*RUN, [0, 2]], PEELED)
    assert "the order ends before the host gets past this" in said(plan, RUN[:3], PEELED)
    other = block(reduce("a", "x", id="x"), reduce("b", "y", after=["x"]) | {"bytes": 8})
    assert "disagree" in said(document([TIED], [other]), RUN, PEELED)


@pytest.mark.parametrize("front", [0, 1, 2, 3])
def test_what_waits_for_nobody_is_passed_one_by_one(front):
    """Before a block may come what never blocks, however much of it: the block still holds."""
    run = [[rank, action + front] for rank, action in RUN]
    plan = document([FIRST] * front + [TIED], [FIRST] * front + [TIED])
    assert said(plan, run, run).endswith("complete under gloo in every order")
    free = document([FIRST] * front + [reduce("a", "x"), reduce("b", "y")], [FIRST] * front + [BAG])
    for settled in (run[::-1], [run[3], run[1], run[0], run[2]], run):
        assert "may never arrive" in said(free, run, settled)


def test_a_chain_that_is_not_at_the_start_keeps_its_order():
    """Two calls of one communicator in a chain, behind other blocks and other actions of it."""
    chain = block([reduce("a", "x"), reduce("a", "y")], FIRST)
    plan = document([FIRST, FIRST, FIRST, chain], [FIRST, FIRST, FIRST, chain])
    run = [[0, 3], [1, 3], [0, 4], [1, 4]]
    assert said(plan, run, run).startswith("2 ranks")


def test_a_worker_s_queue_holds_up_what_comes_later():
    """Under mpi-pg each call is a stage of its own: waits alone settle nothing."""
    later = [reduce(g, g, **{"async": True, "work": g}) for g in GROUPS]
    waits = [{"op": "wait", "work": name} for name in GROUPS]
    plan = document([block(*later), *waits], [block(*later), *waits])
    settled = [[rank, action] for action in (2, 3) for rank in (0, 1)]
    assert said(plan, RUN, settled).startswith("2 ranks")
    assert "may" in said(plan, RUN, settled, "mpi-pg")


@pytest.mark.parametrize(
    "wrong",
    [
        {"schema": "planguard.certificate/2"},
        {"kind": "order"},
        {"model": "unknown"},
        {"model": "unknown", "kind": "order"},
    ],
)
def test_only_a_known_form_and_model_are_read(wrong):
    """A proof of another version or kind, or under a model that nobody defines, proves nothing."""
    plan = document([TIED], [TIED])
    flat, proof = flat_text(plan), proof_of(plan)
    assert check(flat, encode(proof))
    with pytest.raises(RejectedError, match="not a proof about orders under a known model"):
        check(flat, encode(proof | wrong))


def test_a_group_may_be_made_between_blocks():
    """What has a fixed place is a block alone; what may move may all be in one block."""
    make = {"op": "new_group", "group": "a"}
    assert proof_of(document([make, TIED], [make, TIED]))["kind"] == "orders"
    every = Block(0, block(*({"op": name} for name in sorted(MAY_MOVE))))
    assert len(every.calls) == len(MAY_MOVE)


def test_a_handle_orders_its_start_its_waits_and_its_next_start():
    """In a block without chains, the use of one name makes four actions a chain."""
    start = reduce("a", "x", **{"async": True, "work": "h"})
    waits = {"op": "wait", "work": "h"}, {"op": "wait", "work": ["h"]}
    both = Block(0, block(start, waits[0], start, waits[1]))
    assert both.above == [0b1110, 0b1100, 0b1000, 0]
    other = Block(0, block(waits[0], reduce("b", "y"), start))
    assert other.above == [0b100, 0, 0]
    tests = Block(0, block(start, {"op": "test", "work": "h"}))
    assert tests.above == [0b10, 0]
    assert Block(0, block(start, *waits)).above == [0b110, 0, 0]


def test_which_open_wait_holds_a_rank_up_is_named():
    """The first of those that may come before; none once they are settled."""
    pair = block(reduce("a", "x"), reduce("b", "y"))
    alone = [FIRST, reduce("b", "y")]
    orders = Orders(json.loads(flat_text(document([FIRST, pair, FIRST], [*alone, FIRST]))), "gloo")
    orders.open, orders.front = [[0, 0b11, 0], [0, 1, 0]], [1, 1]
    assert orders.blocker(0, 3, 0) == (0, 1)
    assert orders.blocker(0, 1, 0) == (0, 2)
    assert orders.blocker(0, 2, 0) == (0, 1)
    orders.open[0] = [0, 0b10, 0]
    assert orders.blocker(0, 3, 0) == (0, 2)
    assert orders.blocker(0, 2, 0) is None
    assert orders.blocker(0, 2, 1) == (0, 2)


def test_what_the_order_decides_whether_to_wait_for_is_outside():
    """A computation that needs a message of a batch in its block may come before the batch."""
    programs = []
    for rank in range(2):
        ops = [{"op": op, "peer": 1 - rank, "bytes": 4, "id": op} for op in ("isend", "irecv")]
        work = {"op": "batch", "ops": ops, "work": "m"}
        programs.append([block(work, {"op": "compute", "deps": ["irecv"]})])
    orders = Orders(document(*programs), "gloo")
    with pytest.raises(OutsideError, match="whether it is waited for depends on the order"):
        orders.follow([[0, 0, 0], [1, 0, 1], [1, 0, 0], [0, 0, 1]])


def test_an_empty_refutation_refutes_nothing():
    """Waits that are left are accepted with clauses that follow only."""
    plan = document([BAG], [BAG])
    flat = flat_text(plan)
    proof = {"schema": "planguard.certificate/1", "kind": "orders", "model": "gloo"}
    proof |= {"plan_sha256": hashlib.sha256(flat).hexdigest(), "order": RUN, "settled": []}
    for lemmas, said_of_it in (([], "does not end"), ([[]], "does not follow")):
        with pytest.raises(RejectedError, match=said_of_it):
            check(flat, json.dumps({**proof, "refuted": lemmas}).encode())


def test_twins_come_after_the_same_and_before_the_same():
    """Two calls alike of which one comes after something else are no twins."""
    twin, other = reduce("a", "x"), reduce("b", "y", id="y")
    assert Block(0, block(FIRST, other, twin, twin)).above == [0, 0, 0b1000, 0]
    after = twin | {"after": ["y"]}
    assert Block(0, block(FIRST, other, after, twin)).above == [0, 0b100, 0, 0]
    assert Block(0, block(other, after, twin)).above == [0b10, 0, 0]
    chain = [reduce("b", "z"), other, after]
    assert Block(0, block(chain, [reduce("b", "w"), twin])).above == [0b110, 0b100, 0, 0b10000, 0]
    before = twin | {"id": "x"}, reduce("b", "y", after=["x"])
    assert Block(0, block(*before, twin)).above == [0b10, 0, 0]


def test_a_launch_over_two_groups_is_left_out():
    """A batch of two groups is refused where the order of its communicators is open."""

    def batch(*ends: tuple[str, int, str]) -> dict[str, Any]:
        ops = [{"op": op, "peer": peer, "group": group, "bytes": 4} for op, peer, group in ends]
        return {"op": "batch", "ops": ops}

    both = batch(("isend", 1, "a"), ("isend", 2, "c"))
    plan = document([both], [batch(("irecv", 0, "a"))], [batch(("irecv", 0, "c"))])
    plan["groups"] |= {"c": {"ranks": [0, 2]}}
    order = [[0, 0, 0], [1, 0, 0], [0, 0, 1], [2, 0, 0]]
    created = [[0, 0], [1, 0], [0, 0], [2, 0], [1, 0], [2, 0], [0, 0]]
    assert "a batch over several communicators" in said(plan, order, created, "nccl-lazy")


def test_threads_are_read_as_chains_unless_they_share_a_name():
    """Each thread is a chain of one block, which keeps its other fields."""
    start, end = reduce("a", "x", **{"async": True, "work": "h"}), {"op": "wait", "work": "h"}
    threads = {"op": "threads", "threads": [[start, end], [reduce("b", "y")]], "id": "t"}
    chains = {"op": "unordered", "body": [[start, end], [reduce("b", "y")]], "id": "t"}
    assert as_chains([FIRST, threads]) == [FIRST, chains]
    with pytest.raises(OutsideError, match="threads that share"):
        as_chains({"op": "threads", "threads": [[start], [end]]})
