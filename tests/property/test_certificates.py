"""Certificates of random plans: ours are accepted, no other is unless it is true.

Whether an order is true is decided by the enumerator's transition system, which shares nothing with
the checker: every completion of the order must be enabled when its turn comes, with everything
issued and started that can be, and in the end nobody may be stuck and no match may disagree.
"""

from __future__ import annotations

import copy
import json
import random
from typing import Any

import pytest
from oracle.blame import stuck_actions
from oracle.expand import expand as expand_again
from oracle.generate import generate
from oracle.lowering import lower
from oracle.models import MODELS, Queue
from oracle.program import OracleUnsupported
from oracle.signature import disagreement
from oracle.state import Choice, Event, System

import planguard
from planguard.certificate.agreement import OutsideError, RejectedError
from planguard.certificate.checker import Plan, check
from planguard.certificate.format import Certificate, digest, encode
from planguard.errors import PlanError
from planguard.options import CheckOptions
from planguard.plan.flatten import flat_lines

COVERED = {
    "dropped although its partner exists",
    "takes back what nobody waited for",
    "not every member says both of its splits",
    "two of its threads may want MPI at one time",
}
ABSENT = (0, 99)


def flat_text(plan: Any) -> bytes:
    """Give the text of the flat form."""
    return b"".join(flat_lines(plan))


def judge(document: dict[str, Any], model: str, order: list[Any]) -> bool:
    """Tell whether an order of completion is one of the model's strictest execution."""
    rules = MODELS[model]
    lowered = lower(expand_again(document), rules)
    system = System(lowered, rules, Choice(residency=1) if rules.residency else Choice())
    names: dict[tuple[int, ...], int] = {}
    for steps in lowered.steps:
        for step in steps:
            for member, one in enumerate(step.operations):
                place = (member,) if step.action.kind == "batch" else ()
                names[one.rank, one.index, *place] = one.id
    state = settle(system, system.initial())
    for item in order:
        operation = names.get(tuple(item))
        if operation is None or not system.can_complete(state, lowered.operations[operation]):
            return False
        state = settle(system, system.apply(state, Event("complete", operation)))
    if stuck_actions(system, state):
        return False
    issued = [one for one in lowered.operations if system.view(state, one.rank).issued & one.bit]
    if rules.numbers_calls and any(
        len({system.view(state, mate.rank).before[mate.id] for mate in system.match(state, one)})
        > 1
        for one in issued
        if one.is_collective
    ):
        return False
    return not any(
        disagreement(system.match(state, one), system.members(state, one), rules) for one in issued
    )


def settle(system: System, state: Any) -> Any:
    """Issue and start everything that can be, complete nothing."""
    while events := [e for e in system.enabled(state) if e.name in {"issue", "start"}]:
        for event in events:
            if event in system.enabled(state):
                state = system.apply(state, event)
    return state


def is_read_more_strictly(document: dict[str, Any], model: str) -> bool:
    """Tell whether the checker blocks a host that the model does not (it may lose certificates)."""
    actions = [action for use in document["ranks"].values() for action in use["actions"]]
    if MODELS[model].queue is Queue.COMMUNICATOR or MODELS[model].queue is Queue.DEVICE:
        return any(a["op"] == "host_sync" and "stream" in a for a in actions)
    return MODELS[model].barrier_last and any(
        a["op"] == "barrier" and a.get("async") for a in actions
    )


def verdict_of(flat: bytes, model: str, order: list[Any]) -> str:
    """Give `accepted`, `rejected` or `outside` of an order, under a correct hash."""
    certificate = {**Certificate(model, digest(flat), ()).to_json(), "order": order}
    try:
        check(flat, encode(certificate))
    except OutsideError:
        return "outside"
    except (RejectedError, KeyError):
        return "rejected"
    return "accepted"


def certified(document: dict[str, Any], model: str) -> Any:
    """Give plan, flat text and verdict with certificate."""
    plan = planguard.load(document)
    options = CheckOptions(model=model, certificate=True)
    return plan, flat_text(plan), planguard.check(plan, options=options)


def any_order(flat: bytes, model: str, rng: random.Random) -> list[list[int]]:
    """Complete whatever the checker lets complete, in random order, to the end."""
    order: list[list[int]] = []
    try:
        execution = Plan(json.loads(flat), model)
    except OutsideError:
        return order
    todo = True
    while todo:
        todo = False
        keys = list(execution.ops)
        rng.shuffle(keys)
        for key in keys:
            try:
                execution.complete(execution.ops[key])
            except OutsideError:
                return order
            except RejectedError:
                continue
            order.append([place for place in key if place is not None])
            todo = True
    return order


def seeds(config: pytest.Config, few: int, many: int) -> range:
    """Give few seeds, or many with --slow."""
    return range(many if config.getoption("--slow") else few)


@pytest.mark.timeout(1200)
def test_every_safe_plan_gets_a_certificate_and_no_unsafe_one_does(pytestconfig):
    """A random plan is safe exactly if the checker accepts an order: that of the certificate if it
    is safe, and if it is not, none that completes whatever can complete.
    """
    made = refused = 0
    for seed in seeds(pytestconfig, 60, 2000):
        document = generate(seed)
        for model in MODELS:
            plan, flat, verdict = certified(document, model)
            if verdict.certificate is not None:
                assert verdict.safe, (seed, model)
                text = encode(verdict.certificate)
                assert check(flat, text).startswith(f"{plan.world_size} ranks"), (seed, model)
                assert verdict.evidence.certificate == digest(text)
                made += 1
            elif verdict.safe:
                reason = verdict.reasons[-1]
                assert any(known in reason for known in COVERED), (seed, model, reason)
            elif verdict.unsafe:
                order = any_order(flat, model, random.Random(seed))
                assert verdict_of(flat, model, order) != "accepted", (seed, model)
                refused += 1
    assert made > 200
    assert refused > 100


# -- corruption -----------------------------------------------------------------------------------


def corrupt_order(order: list[Any], rng: random.Random) -> list[Any]:
    """Edit an order in one of the ways in which orders are wrong."""
    order = [list(item) for item in order]
    first, second = rng.randrange(len(order)), rng.randrange(len(order))
    kind = rng.choice(["swap", "swap", "move", "drop", "twice", "name", "cut", "reverse", "end"])
    if kind == "swap":
        order[first], order[second] = order[second], order[first]
    elif kind == "move":
        order.insert(second, order.pop(first))
    elif kind == "drop":
        del order[first]
    elif kind == "twice":
        order.insert(second, order[first])
    elif kind == "name":
        place = rng.randrange(len(order[first]))
        order[first][place] = rng.choice([*range(6), *ABSENT])
    elif kind == "cut":
        del order[first:]
    elif kind == "reverse":
        order.reverse()
    else:
        order.append(rng.choice([[0, 99], [99, 0], [0, 0, 0], [0, 0, 99]]))
    return order


def corrupt_plan(document: dict[str, Any], rng: random.Random) -> dict[str, Any]:
    """Edit one action of a flat plan, the way a plan differs from the one that was certified."""
    document = copy.deepcopy(document)
    programs = [use["actions"] for use in document["ranks"].values() if use["actions"]]
    program = rng.choice(programs)
    place = rng.randrange(len(program))
    if rng.random() < 0.2:
        del program[place]
        return document
    if rng.random() < 0.15:
        other = rng.randrange(len(program))
        program[place], program[other] = program[other], program[place]
        return document
    action = program[place]
    if action["op"] in {"batch", "coalesced"}:
        action = rng.choice(action["ops"])
    size, groups = document["world_size"], ["world", *document.get("groups", {})]
    values = {
        "bytes": [4, 8, 4096],
        "count": [1, 2, 256],
        "dtype": ["f32", "i32", "f64"],
        "root": range(size),
        "peer": range(size),
        "reduce_op": ["max", "min"],
        "label": ["x", "y"],
        "tag": [0, 1, 2],
        "group": groups,
        "async": [True, False],
        "op": ["all_reduce", "all_gather", "broadcast", "reduce", "send", "recv", "barrier"],
    }
    fields = [name for name in values if name in action] or ["label"]
    field = rng.choice([*fields, rng.choice(list(values))])
    action[field] = rng.choice(list(values[field]))
    return document


def compare(document: dict[str, Any], flat: bytes, model: str, order: list[Any], what: Any) -> bool:
    """Check that checker and enumerator agree on an order; tell whether it is false."""
    found = verdict_of(flat, model, order)
    if found == "outside":
        return False
    is_true = judge(document, model, order)
    if is_true and found == "rejected":
        assert is_read_more_strictly(document, model), what
    else:
        assert (found == "accepted") == is_true, what
    return not is_true


@pytest.mark.timeout(3000)
def test_a_corrupted_certificate_is_rejected_unless_it_is_true_by_chance(pytestconfig):
    """An order with one edit, or under another model, or of a plan with one edit, is accepted
    exactly if the enumerator's transitions can follow it to an end without mismatch.
    """
    wanted, false, seed = (10_000 if pytestconfig.getoption("--slow") else 500), 0, 0
    while false < wanted:
        seed += 1
        rng = random.Random(seed)
        model = rng.choice(list(MODELS))
        _, flat, verdict = certified(generate(seed), model)
        if verdict.certificate is None or not verdict.certificate["order"]:
            continue
        document, order = json.loads(flat), verdict.certificate["order"]
        assert not compare(document, flat, model, order, seed)
        for _ in range(4):
            false += compare(document, flat, model, corrupt_order(order, rng), seed)
        false += compare(document, flat, rng.choice(list(MODELS)), order, seed)
        for _ in range(4):
            other = corrupt_plan(document, rng)
            try:
                text = flat_text(planguard.load(other))
                false += compare(json.loads(text), text, model, order, (seed, other))
            except (PlanError, OracleUnsupported):
                continue  # no plan any more


def test_a_certificate_is_about_one_text():
    """Any change of a byte of the flat plan makes its certificate one about another plan."""
    found = (certified(generate(seed), "gloo") for seed in range(100))
    _, flat, verdict = next(one for one in found if one[2].certificate is not None)
    rng, text = random.Random(0), encode(verdict.certificate)
    for _ in range(50):
        place = rng.randrange(len(flat))
        changed = flat[:place] + bytes([flat[place] ^ 1 << rng.randrange(7)]) + flat[place + 1 :]
        with pytest.raises(RejectedError, match="another plan"):
            check(changed, text)
