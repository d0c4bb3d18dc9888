"""Plans of Hetu-Galvatron's strategies: against its own runtime, and what one edit does."""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from pathlib import Path

import pytest

import planguard
from planguard import registry
from planguard.errors import PlanError, UsageError
from planguard.testing import check_adapter

TESTS = Path(__file__).resolve().parents[1]

from oracle.enumerator import Effort, enumerate_plan  # noqa: E402
from oracle.mutate import mutate  # noqa: E402

registry.find("galvatron")  # mounts planguard.planners where it is not installed

from planguard.planners.galvatron import adapter  # noqa: E402

FOLDER = TESTS / "samples" / "galvatron"
SAMPLES = sorted(path.name for path in FOLDER.glob("galvatron_config_*.json"))
RECORDED = TESTS / "corpus" / "traces" / "galvatron-runtime.json"
RUNTIME = json.loads(RECORDED.read_text())
CASES = RUNTIME["cases"]
NAMES = {"embed": "embedding", "dec": "layer", "norm": "norm", "cls": "head"}
SMALL = json.loads((FOLDER / "small.galvatron.json").read_text())
SMALL.pop("world_size")


def loaded(strategy, **options):
    """Return the plan of a strategy."""
    return planguard.load(strategy, planner="galvatron", **{"world_size": 4, **options})


def of_case(name):
    """Return the plan of a recorded case, with the sizes that it was recorded with."""
    case = CASES[name]
    sizes = {key: RUNTIME[key] for key in ("seq_length", "hidden_size")}
    return loaded(case["strategy"], world_size=case["world_size"], **sizes)


def module_of(word):
    """Return the adapter's name of a module of the recording: dec3 is layer 2."""
    kind, at = re.fullmatch(r"([a-z]+)(\d+)", word).groups()
    return f"layer {int(at) - 1}" if kind == "dec" else NAMES[kind]


def recorded_words(calls):
    """Return what the runtime called: gathers of parameters apart, groups of one rank left out."""
    words, parameters = [], []
    for call in calls:
        kind, *rest = call.split(" ", 1)
        if kind in {"wait", "sync"}:
            words.append(kind)
        elif kind == "batch":
            parts = re.findall(r"(isend>|irecv<)(\d+) \[([\d, ]+)\]", rest[0])
            words.append(("batch", [(op, int(peer), volume(shape)) for op, peer, shape in parts]))
        elif kind in {"forward", "backward"}:
            words.append((kind, module_of(rest[0])))
        elif kind == "all_gather":
            ranks, shape = re.findall(r"\[([\d, ]+)\]", rest[0])
            words.append((kind, numbers(ranks), volume(shape)))
        else:
            name, ranks = re.fullmatch(r"(\w+) \[([\d, ]+)\]", rest[0]).groups()
            what = name if name == "norms" else module_of(name)
            if len(numbers(ranks)) > 1:
                into = parameters if kind == "parameters" else words
                into.append((kind, what, numbers(ranks)))
    return words, parameters


def numbers(text):
    """Return the integers of a list."""
    return [int(word) for word in text.split(",")]


def volume(text):
    """Return the product of the integers of a list."""
    product = 1
    for size in numbers(text):
        product *= size
    return product


def planned_words(plan, rank):
    """Return the actions of a rank in the words of the recording."""
    document = json.loads(plan.source)
    groups = {name: group["ranks"] for name, group in document.get("groups", {}).items()}
    words, parameters = [], []
    for action in document["ranks"][str(rank)]["actions"]:
        op, label = action["op"], action.get("label", "")
        if op == "host_sync":
            words.append("sync")
        elif op == "wait":
            words.append("wait")
        elif op == "batch":
            arrow = {"isend": "isend>", "irecv": "irecv<"}
            parts = [(arrow[part["op"]], part["peer"], part["count"]) for part in action["ops"]]
            words.append(("batch", parts))
        elif op == "compute":
            step, _, module = action["op_name"].partition(": ")
            words.append(("forward" if step[0] == "F" else "backward", module))
        elif label.startswith("parameters of "):
            module = label.removeprefix("parameters of ").partition(",")[0]
            parameters.append(("parameters", module, groups[action["group"]]))
        elif op == "all_gather_into_tensor":
            words.append(("all_gather", groups[action["group"]], action["count"]))
        else:
            what, _, module = label.partition(" of ")
            short = {"all_reduce": "all_reduce", "reduce_scatter_tensor": "reduce_scatter"}[op]
            ranks = groups[action["group"]]
            words.append((short, "norms" if what == "norms" else module, ranks))
    return words, parameters


@pytest.mark.parametrize("name", CASES)
def test_a_rank_calls_what_the_runtime_called(name):
    """Messages, gathers, reductions and steps of every rank, in order, with groups and sizes."""
    plan = of_case(name)
    for rank, own in enumerate(CASES[name]["ranks"]):
        assert planned_words(plan, rank)[0] == recorded_words(own["calls"])[0], rank


@pytest.mark.parametrize("name", CASES)
def test_parameters_are_gathered_as_often_and_over_the_same_ranks(name):
    """FSDP asks for some parameters earlier (the ledger says so), never more or less often."""
    plan = of_case(name)
    for rank, own in enumerate(CASES[name]["ranks"]):
        found, wanted = planned_words(plan, rank)[1], recorded_words(own["calls"])[1]
        assert Counter(map(str, found)) == Counter(map(str, wanted)), rank


@pytest.mark.parametrize("name", CASES)
def test_what_the_runtime_called_is_safe(name):
    """Strategies that the runtime completes are SAFE, for the enumerator too."""
    plan = of_case(name)
    for model in ("nccl", "nccl-lazy", "gloo"):
        assert planguard.check(plan, model=model).outcome.value == "SAFE"


@pytest.mark.parametrize("name", SAMPLES)
def test_real_strategies_are_decided(name):
    """Every strategy of the repository is SAFE."""
    nodes, gpus = re.search(r"_(\d+)nodes_(\d+)gpus_per_node", name).groups()
    path = FOLDER / name
    verdict = planguard.check(planguard.load(path, world_size=int(nodes) * int(gpus)), model="nccl")
    assert verdict.outcome.value == "SAFE"


def test_the_adapter_keeps_its_contract():
    """check_adapter accepts the adapter, damaged strategies included."""
    path = FOLDER / "small.galvatron.json"
    assert check_adapter(adapter, path, variants=25).refused > 0


DISAGREE = {
    "other tensor parallel sizes": {"tp_sizes_enc": "2,2,2"},
    "a boundary elsewhere": {"pp_division": "2,1"},
    "more chunks": {"chunks": 4},
    "no whole shards": {"dp_types_enc": "0,0,0"},
    "another schedule": {"pipeline_type": "gpipe"},
    "reductions instead of shards": {"default_dp_type": "ddp"},
    "Ulysses": {"use_sp": "0,1,1"},
    "another vocabulary": {"vtp": 2},
}


HARMLESS = {
    ("no whole shards", 0),  # its stage has no such layer
    ("Ulysses", 0),
    ("another schedule", 0),  # two microbatches on the first of two stages: the same messages
}


@pytest.mark.parametrize("what", DISAGREE)
@pytest.mark.parametrize("rank", [0, 3])
def test_a_rank_with_another_strategy_is_not_safe(what, rank):
    """One rank reads another file: found, or as harmless as the enumerator says."""
    plan = loaded(SMALL, rank_options={rank: DISAGREE[what]})
    outcome = planguard.check(plan, model="nccl").outcome.value
    truth = enumerate_plan(json.loads(plan.source), "nccl", Effort(verify=0)).outcome
    assert outcome == truth
    assert (outcome == "SAFE") is ((what, rank) in HARMLESS)


def test_disagreement_about_recomputation_is_unknown():
    """What a layer calls again in backward is not in the plan, so SAFE would be too much."""
    plan = loaded(SMALL, rank_options={1: {"checkpoint": "1,0,0"}})
    assert planguard.check(plan, model="nccl").outcome.value == "UNKNOWN"
    everywhere = loaded({**SMALL, "checkpoint": "1,0,0"})
    assert planguard.check(everywhere, model="nccl").outcome.value == "SAFE"


def test_microbatches_of_another_size_are_not_safe():
    """A rank with a larger batch sends larger messages, whether sizes are told or not."""
    own = {1: {"global_bsz": SMALL["global_bsz"] * 2, "chunks": SMALL["chunks"]}}
    unsized = planguard.check(loaded(SMALL, rank_options=own), model="nccl")
    assert unsized.outcome.value == "UNKNOWN"
    assert {e.kind: e.direction for e in unsized.approximations}["no-sizes"] == "under"
    sizes = {"seq_length": 8, "hidden_size": 4}
    assert planguard.check(loaded(SMALL, rank_options=own, **sizes), model="nccl").unsafe


def test_a_field_that_one_rank_reads_and_the_runtime_does_not_is_in_the_ledger():
    """``embed_sdp`` of a single rank changes nothing, and is told."""
    plan = loaded(SMALL, rank_options={1: {"embed_sdp": 1}})
    assert "unread" in {entry.kind for entry in planguard.check(plan, model="nccl").approximations}
    with pytest.raises(UsageError):
        loaded(SMALL, rank_options={1: {"embed_sdp": 2}})


@pytest.mark.parametrize(
    "ranks", [{"1": {"chunks": 4}, 1: {}}, {"01": {"chunks": 4}, "1": {}}, {"²": {}}]
)
def test_options_of_a_rank_are_given_once(ranks):
    """Two spellings of one rank: neither is dropped; digits that are no number are refused."""
    with pytest.raises(UsageError, match="rank_options"):
        loaded(SMALL, rank_options=ranks)


def test_norms_of_the_last_stage_are_not_summed_with_1f1b():
    """pipedream_flush sets last_batch only where a stage cools down, and the last one does not.

    So the gradients of its norms are never summed over its tensor parallel ranks, as the recording
    of the runtime shows; gpipe sums them.
    """
    summed = {}
    for name in ("1f1b", "gpipe"):
        calls = [call for rank in CASES[name]["ranks"][4:] for call in rank["calls"]]
        summed[name] = any(call.startswith("all_reduce norms") for call in calls)
    assert summed == {"1f1b": False, "gpipe": True}


BROKEN = {
    "no 'chunks'": ({"chunks": None}, "'chunks' is missing"),
    "a short list": ({"dp_types_enc": "0,1"}, "tp_sizes_enc has 3 layers"),
    "no numbers": ({"tp_sizes_enc": "1,x,2"}, "numbers with commas"),
    "a size that does not divide": ({"tp_sizes_enc": "1,3,2"}, "asks for 3 ranks"),
    "stages that do not divide": ({"pp_deg": 3}, "cannot be divided"),
    "a division of other layers": ({"pp_division": "1,1"}, "sum to 3 layers"),
    "an uneven batch": ({"global_bsz": 7}, "not a multiple"),
    "an uneven microbatch": ({"vtp": 2, "global_bsz": 6}, "a microbatch of 3 samples"),
    "distant ranks": ({"tp_consecutive_flags": "1,0,1"}, "not neighbors"),
    "experts": ({"ep_sizes_enc": "1,2,1"}, "expert parallelism"),
    "an unknown schedule": ({"pipeline_type": "zb"}, "unknown value"),
    "no schedule": ({"pipeline_type": None}, "'pipeline_type' is missing"),
    "no sharding": ({"default_dp_type": None}, "'default_dp_type' is missing"),
    "a field of later": ({"foo": 1}, "unknown field 'foo'"),
    "another world": ({"world_size": 8}, "option world_size says 4"),
}


@pytest.mark.parametrize("what", BROKEN)
def test_what_the_runtime_would_refuse_is_refused(what):
    """A PlanError with the place, never a plan."""
    edit, message = BROKEN[what]
    strategy = {key: value for key, value in {**SMALL, **edit}.items() if value is not None}
    with pytest.raises(PlanError, match=message):
        loaded(strategy)


def test_what_the_file_does_not_say_has_to_be_told():
    """No world size, a wrong number of layers, half of the sizes: each says what to give."""
    with pytest.raises(PlanError, match="does not say for how many ranks"):
        planguard.load(SMALL, planner="galvatron")
    with pytest.raises(PlanError, match="at most 8388608 are read"):
        loaded({**SMALL, "global_bsz": 1 << 30, "chunks": 1 << 20}, world_size=32)
    with pytest.raises(PlanError, match="3 layers, the model 4"):
        loaded(SMALL, layers=4)
    for options in ({"seq_length": 8}, {"world_size": 0}, {"rank_options": {9: {}}},
                    {"rank_options": {1: {"nodes": 2}}}, {"mixed_precision": "f8"},
                    {"rank_options": {1: {"chunks": 0}}}):  # fmt: skip
        with pytest.raises(UsageError):
            loaded(SMALL, **options)


def test_a_strategy_is_found_by_its_content(tmp_path):
    """No schema, no suffix of its own: the fields say whose it is."""
    path = tmp_path / "best.json"
    path.write_text(json.dumps({**SMALL, "world_size": 4}))
    assert registry.recognize(str(path)).name == "galvatron"
    assert planguard.check(path, model="nccl").outcome.value == "SAFE"
    assert planguard.load({**SMALL, "world_size": 4}).world_size == 4


@pytest.mark.parametrize("seed", range(12))
def test_a_broken_plan_is_judged_as_the_enumerator_judges_it(seed):
    """One random edit of a plan that was SAFE: the same answer as the enumerator's."""
    document = json.loads(loaded(SMALL, seq_length=8, hidden_size=4).source)
    edited = mutate(document, random.Random(seed))
    truth = enumerate_plan(edited, "nccl-serialized", Effort(verify=0)).outcome
    assert planguard.check(edited, model="nccl-serialized").outcome.value == truth


def test_random_edits_break_the_plan_both_ways():
    """The edits of the test above are not all harmless: some hang, some mismatch."""
    document = json.loads(loaded(SMALL, seq_length=8, hidden_size=4).source)
    edited = [mutate(document, random.Random(seed)) for seed in range(12)]
    outcomes = {planguard.check(one, model="nccl-serialized").outcome.value for one in edited}
    assert {"DEADLOCK", "MISMATCH"} <= outcomes
