from __future__ import annotations

import copy
import itertools
import json
import random
from collections import Counter

import pytest
from oracle.answers import outcome_of
from oracle.enumerator import Effort, OracleBudget
from oracle.generate import generate
from oracle.models import MODELS
from oracle.mutate import blocks, programs

import planguard
from planguard.errors import PlanError
from planguard.options import CheckOptions
from planguard.plan.format import read
from planguard.repair import fix
from planguard.repair.patch import apply
from planguard.repair.search import Search

CHUNK = 10
USUAL, CAMPAIGN = 60, 1_000
BUDGET = 0.5
"""Seconds for one search: enough for every single edit of these plans, and for some pairs."""
TRANSFERS = {"send": "isend", "recv": "irecv"}
CALLS = {
    "all_reduce",
    "all_gather",
    "all_gather_into_tensor",
    "reduce_scatter",
    "reduce_scatter_tensor",
    "broadcast",
    "reduce",
    "gather",
    "scatter",
    "all_to_all_single",
    "barrier",
}


def loosen(document, rng):
    """Leave the order of some neighboring actions of labeled communication open."""
    for actions, _ in programs(document):
        if len(actions) < 2 or rng.random() < 0.3:
            continue
        start = rng.randrange(len(actions) - 1)
        body = actions[start : start + 2 + rng.randrange(2)]
        if all(item["op"] in CALLS | set(TRANSFERS) and "id" not in item for item in body):
            for place, item in enumerate(body):
                item.setdefault("label", f"b{start}.{place}")
            actions[start : start + len(body)] = [{"op": "unordered", "body": body}]
    return document


def bad_plans():
    """Yield ``(seed, document, model, plan, verdict)`` of unsafe random plans, one model each."""
    for seed in itertools.count():
        document = generate(seed)
        if seed % 4 == 3:
            document = loosen(document, random.Random(seed))
        model = sorted(MODELS)[seed % len(MODELS)]
        plan = planguard.load(document)
        verdict = planguard.check(plan, model=model, budget=2.0)
        if verdict.unsafe:
            yield seed, document, model, plan, verdict


@pytest.fixture(scope="module")
def plans(request):
    """The first unsafe plans, as many as are asked for."""
    count = CAMPAIGN if request.config.getoption("--slow") else USUAL
    return list(itertools.islice(bad_plans(), count))


def pytest_generate_tests(metafunc):
    """Cut the plans into chunks."""
    if "first" in metafunc.fixturenames:
        count = CAMPAIGN if metafunc.config.getoption("--slow") else USUAL
        metafunc.parametrize("first", range(0, count, CHUNK))


def judged(document, model, seed):
    """The outcome of the enumerator; None where it gives up, or is undecided about open order."""
    document = copy.deepcopy(document)
    is_open = False
    for actions, _ in programs(document):
        for item in actions:
            if item["op"] == "unordered":
                is_open = True
                item["body"] = in_order(item["body"])
    try:
        outcome = outcome_of(document, model, Effort(40_000, 0, seed))
    except OracleBudget:
        return None
    return None if is_open and outcome == "UNKNOWN" else outcome


def in_order(body):
    """The items of a block with every item behind those that it names in ``after``."""
    done, waiting = [], list(body)
    while waiting:
        said = {leaf.get("id") for item in done for leaf in leaves(item)}
        ready = next(
            item
            for item in waiting
            if {n for x in leaves(item) for n in x.get("after", ())} <= said
        )
        waiting.remove(ready)
        done.append(ready)
    return done


def leaves(item):
    """The actions of an item of a block."""
    return item if isinstance(item, list) else [item]


def test_every_repair_that_is_shown_is_safe_for_the_engine_and_for_the_enumerator(first, plans):
    """A repair, applied to the bytes of the plan and read again, is SAFE; the enumerator agrees."""
    for seed, document, model, plan, verdict in plans[first : first + CHUNK]:
        fixed = fix(plan, verdict, CheckOptions(model=model, budget=BUDGET))
        shown = [repair for finding in fixed.verdict.findings for repair in finding.fixes]
        assert (fixed.text is None) == (not shown)
        if fixed.text is None:
            continue
        (repair,) = shown
        repaired = json.loads(fixed.text)
        assert repaired == apply(json.loads(plan.text), repair.edits)
        assert model in repair.models
        assert planguard.check(read(fixed.text), model=model).safe, seed
        assert judged(repaired, model, seed) in {"SAFE", None}, seed
        # Repairs change when something is issued; only ``agree`` what is said of the data.
        assert "agree" in repair.kind or moved(document) == moved(repaired), (seed, repair)


def moved(document):
    """What is communicated by whom, whatever its order and handles."""
    found = Counter()
    for actions, rank in programs(document):
        for item in everything(actions):
            fields = {
                key: value
                for key, value in item.items()
                if key
                not in {"work", "async", "op", "body", "ops", "id", "after", "group", "stream"}
            }
            op = item["op"].removeprefix("i") if item["op"] in TRANSFERS.values() else item["op"]
            if op not in {"wait", "batch", "unordered", "repeat", "drop"}:
                found[rank, op, json.dumps(fields, sort_keys=True)] += 1
    return found


def everything(actions):
    """Every action, inside of blocks as well."""
    for item in actions:
        if isinstance(item, list):
            yield from everything(item)
            continue
        yield item
        for field in ("body", "ops"):
            if item["op"] != "coalesced":
                yield from everything(item.get(field, []))


# --- brute force ---------------------------------------------------------------------------------


def variants(document):
    """Yield every plan that one edit of the plainest kinds makes: neighbors exchanged, two
    transfers in one batch, a call that waits at the end of its list, a call that waits at once.
    """
    lists = [block for actions, _ in programs(document) for block in blocks(actions)]
    for number, block in enumerate(lists):
        for at in range(len(block)):
            for change in (exchange, batch, later, at_once):
                changed = copy.deepcopy(document)
                copied = [b for actions, _ in programs(changed) for b in blocks(actions)][number]
                if change(copied, at):
                    yield changed


def handles(item):
    """The handles of an action."""
    work = item.get("work", [])
    return {work} if isinstance(work, str) else set(work)


def is_free(first, second):
    """Whether two neighbors are communication, or a wait for something else, of different data."""
    ops = {first["op"], second["op"]}
    plain = CALLS | {"send", "recv", "isend", "irecv", "wait", "batch", "coalesced"}
    return (
        ops <= plain
        and not handles(first) & handles(second)
        and "wait" not in ops
        and (first.get("label") is None or first.get("label") != second.get("label"))
    )


def exchange(block, at):
    """Exchange an action and the next."""
    if at + 1 == len(block) or block[at] == block[at + 1]:
        return False
    if not is_free(block[at], block[at + 1]):
        return False
    block[at : at + 2] = block[at + 1], block[at]
    return True


def batch(block, at):
    """Post two neighboring transfers as one batch."""
    pair = block[at : at + 2]
    if len(pair) < 2 or not all(item["op"] in TRANSFERS for item in pair):
        return False
    if len({item.get("group") for item in pair}) > 1 or not is_free(*pair):
        return False
    if len({item.get("stream") for item in pair}) > 1:
        return False
    members = [{k: v for k, v in item.items() if k != "stream"} for item in pair]
    members = [{**item, "op": TRANSFERS[item["op"]]} for item in members]
    stream = {"stream": pair[0]["stream"]} if "stream" in pair[0] else {}
    block[at : at + 2] = [{"op": "batch", "ops": members, **stream}]
    return True


def later(block, at):
    """Let a call return at once and wait at the end of its list."""
    item = block[at]
    if item["op"] not in CALLS | set(TRANSFERS) or item.get("async"):
        return False
    if at + 1 == len(block) or not all(is_free(item, other) for other in block[at + 1 :]):
        return False
    block[at] = {**item, "work": "brute"}
    if item["op"] in TRANSFERS:
        block[at]["op"] = TRANSFERS[item["op"]]
    else:
        block[at]["async"] = True
    block.append({"op": "wait", "work": "brute"})
    return True


def at_once(block, at):
    """Wait for a call where it is made."""
    item = block[at]
    waits = [
        other for other in block[at:] if other["op"] == "wait" and other["work"] == item.get("work")
    ]
    if not (item.get("async") or item["op"] in TRANSFERS.values()) or len(waits) != 1:
        return False
    block.remove(waits[0])
    plain = {k: v for k, v in item.items() if k not in {"async", "work"}}
    block[at] = {
        **plain,
        "op": plain["op"][1:] if plain["op"] in TRANSFERS.values() else plain["op"],
    }
    return True


def brute_force(document, model, known):
    """Return a plan that one edit makes safe, or None."""
    for changed in variants(document):
        try:
            verdict = planguard.check(changed, model=model, budget=1.0)
        except PlanError:
            continue
        news = {f.code for f in verdict.findings if f.severity == "error"} - known
        if verdict.safe and not news:
            return changed
    return None


def test_where_brute_force_over_single_edits_finds_a_repair_one_is_found(first, plans):
    """The search is no weaker than trying every single edit blindly."""
    for seed, document, model, plan, verdict in plans[first : first + CHUNK]:
        known = {f.code for f in verdict.findings if f.severity == "error"}
        if brute_force(document, model, known) is None:
            continue
        found = Search(plan, verdict, CheckOptions(model=model), 60.0, edits=1).run()
        assert len(found.changes) == 1, seed
