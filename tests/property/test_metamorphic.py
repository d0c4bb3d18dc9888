"""Relations between plans whose verdicts must not depend on what changed."""

from __future__ import annotations

import copy
import random
from collections import Counter, defaultdict

import pytest
from oracle.generate import generate

import planguard
from planguard.plan.flatten import flatten

CI, CAMPAIGN = 240, 1_000
CHUNK = 40


def seeds(quick, chunk=1):
    """The first seeds of every chunk; those past the quick ones run in the campaign only."""
    slow = (pytest.mark.slow,)
    firsts = range(0, CAMPAIGN, chunk)
    return [pytest.param(first, marks=slow if first >= quick else ()) for first in firsts]


MODELS = ("gloo", "nccl", "nccl-lazy", "mpi-eager")
GROUPED = {
    "all_reduce", "all_gather", "all_gather_into_tensor", "reduce_scatter",
    "reduce_scatter_tensor", "broadcast", "reduce", "gather", "scatter", "all_to_all",
    "all_to_all_single", "barrier", "coalesced", "init", "send", "recv", "isend", "irecv",
}  # fmt: skip


def flat(seed):
    """A random plan without templates, its world spelled out as a group that can be permuted."""
    document = flatten(planguard.load(generate(seed)))
    size = document["world_size"]
    document["groups"] = {**document.get("groups", {}), "W": {"ranks": list(range(size))}}
    document.pop("mesh", None)
    for action in everything(document):
        if action["op"] in GROUPED and action.get("group", "world") == "world":
            action["group"] = "W"
    return document


def everything(document):
    """All actions, members of batches included."""
    for program in document["ranks"].values():
        for action in program["actions"]:
            yield action
            if action["op"] == "batch":
                yield from action["ops"]


def outcome(document, model):
    """The outcome of a plan under a model."""
    return planguard.check(document, model=model).outcome.value


def moved(document, new):
    """Rename ranks."""
    document = copy.deepcopy(document)
    for group in document["groups"].values():
        group["ranks"] = [new[rank] for rank in group["ranks"]]
    for action in everything(document):
        for name in ("peer", "root"):
            if isinstance(action.get(name), int):
                action[name] = new[action[name]]
    ranks = {int(rank): program for rank, program in document["ranks"].items()}
    document["ranks"] = {str(new[rank]): program for rank, program in sorted(ranks.items())}
    return document


def shifted(document, offset, prefix):
    """The same plan on higher ranks, with group names of its own."""
    new = {rank: rank + offset for rank in range(document["world_size"])}
    document = moved(document, new)
    document["groups"] = {prefix + name: group for name, group in document["groups"].items()}
    for action in everything(document):
        if "group" in action:
            action["group"] = prefix + action["group"]
    return document


def joined(left, right):
    """Two plans side by side."""
    other = shifted(right, left["world_size"], "second_")
    return {
        "schema": "planguard.plan/1",
        "world_size": left["world_size"] + right["world_size"],
        "groups": {**left["groups"], **other["groups"]},
        "ranks": {**left["ranks"], **other["ranks"]},
    }


def creates(document):
    """Whether communicators are made while the plan runs."""
    return any(action["op"] in {"new_group", "init"} for action in everything(document))


def renames_or_leaves(document):
    """Whether a group is made or ends on the way, or a rank ends before its program does."""
    return any(action["op"] in {"new_group", "destroy", "exit"} for action in everything(document))


def matches(document):
    """What meets, as sets of places: by position on a group, and on a channel with and without tag.

    Which of the channels counts depends on the model; what is closed under both is closed.
    """
    found = defaultdict(set)
    for rank, program in document["ranks"].items():
        counts = Counter()
        for place, action in enumerate(program["actions"]):
            for part in action["ops"] if action["op"] == "batch" else [action]:
                group = part.get("group", action.get("group"))
                side, keys = "", []
                if part["op"] in {"send", "isend", "recv", "irecv"}:
                    side = part["op"].removeprefix("i")
                    ends = (
                        (int(rank), part["peer"]) if side == "send" else (part["peer"], int(rank))
                    )
                    keys = [(group, *ends, part.get("tag", 0)), (group, *ends)]
                elif part["op"] in GROUPED:
                    keys = [(group, part["op"] == "init")]
                for key in keys:
                    found[key, counts[key, side]].add((rank, place))
                    counts[key, side] += 1
    return list(found.values())


def consistent_cut(document, seed):
    """A random place in a random program, and in the others what it needs to get there."""
    rng = random.Random(seed)
    cut = dict.fromkeys(document["ranks"], 0)
    one = rng.choice(list(cut))
    cut[one] = rng.randint(0, len(document["ranks"][one]["actions"]))
    met = matches(document)
    grown = True
    while grown:
        grown = False
        for places in met:
            if any(place < cut[rank] for rank, place in places):
                for rank, place in places:
                    grown |= cut[rank] <= place
                    cut[rank] = max(cut[rank], place + 1)
    return cut


def leaves_open(program):
    """Whether a handle is started that no wait names, be it that something else ends it."""
    started, waited = set(), set()
    for action in program["actions"]:
        names = action.get("work", [])
        names = {names} if isinstance(names, str) else set(names)
        (waited if action["op"] == "wait" else started).update(names)
    return bool(started - waited)


@pytest.mark.parametrize("first", seeds(CI, CHUNK))
@pytest.mark.parametrize("model", MODELS)
class TestRelations:
    """Each relation holds on every random plan."""

    def test_ranks_may_be_permuted(self, model, first):
        """Renaming ranks, with groups kept in their order, changes no verdict."""
        for seed in range(first, first + CHUNK):
            document = flat(seed)
            new = list(range(document["world_size"]))
            random.Random(seed).shuffle(new)
            assert outcome(document, model) == outcome(moved(document, new), model), seed

    def test_groups_and_labels_may_be_renamed(self, model, first):
        """Consistent new names of groups, handles and labels change no verdict."""
        for seed in range(first, first + CHUNK):
            document = flat(seed)
            renamed = shifted(document, 0, "renamed_")
            for action in everything(renamed):
                if "label" in action:
                    action["label"] = "other " + action["label"]
            assert outcome(document, model) == outcome(renamed, model), seed

    def test_an_independent_replica_changes_nothing(self, model, first):
        """A second copy beside a plan has the verdict of the plan."""
        for seed in range(first, first + CHUNK, 2):
            document = flat(seed)
            if not creates(document):
                assert outcome(document, model) == outcome(joined(document, document), model), seed

    def test_a_union_is_safe_when_both_parts_are(self, model, first):
        """Two independent plans together are safe if and only if both are."""
        for seed in range(first, first + CHUNK, 2):
            left, right = flat(seed), flat(seed + 1)
            if creates(left) or creates(right):
                continue
            parts = {outcome(left, model), outcome(right, model)}
            if "UNKNOWN" not in parts:
                assert (outcome(joined(left, right), model) == "SAFE") == (parts == {"SAFE"}), seed

    def test_a_barrier_at_a_consistent_cut_keeps_a_safe_plan_safe(self, model, first):
        """A world barrier at the start of a safe plan, at its end, or at any cut through which no
        match reaches leaves it safe.
        """
        inner = 0
        for seed in range(first, first + CHUNK):
            document = flat(seed)
            if outcome(document, model) != "SAFE":
                continue
            lengths = {r: len(p["actions"]) for r, p in document["ranks"].items()}
            cuts = [dict.fromkeys(lengths, 0)]
            if not renames_or_leaves(document):
                cuts += [lengths, consistent_cut(document, seed)]
            for cut in cuts:
                inner += 0 < sum(cut.values()) < sum(lengths.values())
                changed = copy.deepcopy(document)
                changed["groups"]["all"] = {"ranks": list(range(document["world_size"]))}
                for rank, program in changed["ranks"].items():
                    program["actions"].insert(cut[rank], {"op": "barrier", "group": "all"})
                assert outcome(changed, model) == "SAFE", (seed, cut)
        assert inner > 2

    def test_an_iteration_may_be_repeated(self, model, first):
        """A safe plan whose handles are all waited for is safe twice in a row."""
        for seed in range(first, first + CHUNK):
            document = flat(seed)
            verdict = planguard.check(document, model=model)
            loose = {"drop", "exit", "destroy", "new_group", "event_record", "event_wait"}
            if not verdict.safe or any(f.code in {"PG301", "PG210"} for f in verdict.findings):
                continue
            if any(map(leaves_open, document["ranks"].values())):
                continue
            actions = list(everything(document))
            if any(a["op"] in loose or (a.get("async") and "work" not in a) for a in actions):
                continue
            twice = copy.deepcopy(document)
            for program in twice["ranks"].values():
                body = program["actions"]
                again = [{k: v for k, v in a.items() if k != "id"} for a in copy.deepcopy(body)]
                if any("deps" in action for action in again):
                    break
                program["actions"] = body + again
            else:
                assert outcome(twice, model) == "SAFE", seed


@pytest.mark.parametrize("first", seeds(CI, CHUNK))
def test_buffering_never_makes_a_safe_plan_unsafe(first):
    """What completes with every send synchronous completes with any buffering."""
    for seed in range(first, first + CHUNK):
        document = flat(seed)
        if outcome(document, "mpi-sync") == "SAFE":
            assert outcome(document, "mpi-eager") == "SAFE", seed


@pytest.mark.parametrize("first", seeds(CI, CHUNK))
def test_one_queue_is_the_strictest_launch_order(first):
    """A plan safe under free launch order is safe with one queue; one stuck there may be free."""
    for seed in range(first, first + CHUNK):
        document = flat(seed)
        free, serial = outcome(document, "nccl"), outcome(document, "nccl-serialized")
        assert (free == "SAFE") == (serial == "SAFE"), seed
        if free == "DEADLOCK":
            assert serial in {"DEADLOCK", "MISMATCH"}, seed


@pytest.mark.parametrize("seed", seeds(60))
def test_time_may_be_reversed_under_rendezvous(seed):
    """Matched blocking sends and receives, played backwards with sides swapped, judge alike."""
    rng = random.Random(seed)
    programs = {rank: [] for rank in range(3)}
    for _ in range(rng.randrange(2, 7)):
        src, dst = rng.sample(range(3), 2)
        programs[src].insert(rng.randrange(len(programs[src]) + 1), ("send", dst))
        programs[dst].insert(rng.randrange(len(programs[dst]) + 1), ("recv", src))
    turned = {"send": "recv", "recv": "send"}
    forward = {r: list(p) for r, p in programs.items()}
    backward = {r: [(turned[op], peer) for op, peer in reversed(p)] for r, p in programs.items()}
    verdicts = [
        outcome(
            {
                "schema": "planguard.plan/1",
                "world_size": 3,
                "ranks": {
                    str(r): {"actions": [{"op": op, "peer": peer, "bytes": 4} for op, peer in p]}
                    for r, p in side.items()
                },
            },
            "mpi-sync",
        )
        for side in (forward, backward)
    ]
    assert verdicts[0] == verdicts[1]
