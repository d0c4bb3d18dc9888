from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest
import torch
from torch import nn

import planguard
import planguard.capture
from planguard.errors import UsageError

# torch warns about its own internals while it traces; that is not what is tested here.
pytestmark = [pytest.mark.wheel, pytest.mark.filterwarnings("ignore"), pytest.mark.timeout(300)]

ROOT = Path(__file__).resolve().parents[2]
SAMPLES = ROOT / "tests" / "samples" / "fx"


def all_reduced(x):
    """Reduce over the world by a functional collective."""
    import torch.distributed as dist
    import torch.distributed._functional_collectives as funcol

    return funcol.all_reduce(x * 2, "sum", dist.group.WORLD) + 1


def by_rank(x):
    """Issue one more collective on rank 0."""
    import torch.distributed as dist

    y = all_reduced(x)
    return all_reduced(y) if dist.get_rank() == 0 else y


def plain(x):
    """Use torch.distributed itself."""
    import torch.distributed as dist

    dist.all_reduce(x)
    return x


def ops(bundle, rank=0):
    """Return the communicating operations of one rank's plan."""
    document = json.loads(planguard.load(bundle, planner="fx").source)
    row = next(row for key, row in document["ranks"].items() if key.split("-")[0] == str(rank))
    return [a["op"] for a in row["actions"] if a["op"] not in ("compute", "wait")]


X = torch.ones(4, 4)


@pytest.mark.parametrize("tracer", ["aot", "make_fx", "export"])
def test_every_tracer_sees_the_collective(tracer):
    """AOTAutograd, make_fx and torch.export give graphs of the same communication."""
    bundle = planguard.capture.fx(all_reduced, (X,), 2, tracer=tracer)
    assert ops(bundle) == ["all_reduce"]
    assert planguard.check(bundle).safe
    document = json.loads(planguard.load(bundle).source)
    issue = next(a for a in document["ranks"]["0"]["actions"] if a["op"] == "all_reduce")
    assert issue["src"][0] == __file__
    assert issue["src"][2] == "all_reduced"


def test_forward_and_backward_are_captured_and_joined():
    """A module whose loss is differentiated brings its backward collectives along."""

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(4, 4)

        def forward(self, x):
            return all_reduced(self.linear(x))

    bundle = planguard.capture.fx(Model(), (X,), 2)
    assert [graph.phase for graph in bundle.programs[0].graphs] == ["forward", "backward"]
    assert ops(bundle) == ["all_reduce", "all_reduce"]
    assert planguard.check(bundle).safe


def test_plain_calls_are_rewritten_by_the_compiler_and_kept_by_make_fx():
    """torch.compile turns dist.all_reduce into a functional collective; make_fx keeps c10d."""
    assert ops(planguard.capture.fx(plain, (X,), 2)) == ["all_reduce"]
    bundle = planguard.capture.fx(plain, (X,), 2, tracer="make_fx")
    assert ops(bundle) == ["all_reduce"]
    kinds = [a.kind for a in planguard.load(bundle).approximations]
    assert kinds == ["reduce-op-unknown"]  # the graph holds the operation as an opaque object


def test_code_that_asks_for_its_rank_is_traced_on_every_rank():
    """A branch on the rank makes the ranks differ, and the difference is found."""
    bundle = planguard.capture.fx(by_rank, (X,), 4)
    assert sorted(bundle.programs) == [0, 1, 2, 3]
    assert planguard.check(bundle).outcome is planguard.Outcome.DEADLOCK


def test_each_class_of_alike_ranks_is_traced_once_and_sampled():
    """In a ring of 8, the inner ranks share one trace; the ledger says how many were traced."""
    bundle = planguard.capture.fx(all_reduced, (X,), 8)
    assert sorted(bundle.programs) == [0, 1, 6, 7]
    assert bundle.like == dict.fromkeys((2, 3, 4, 5), 1)
    verdict = planguard.check(bundle)
    assert verdict.safe
    assert "4 of 8 ranks were captured" in verdict.approximations[-1].message


def test_chosen_ranks_stand_for_the_others():
    """ranks=[...] traces those; ranks="all" substitutes nothing."""
    assert sorted(planguard.capture.fx(all_reduced, (X,), 4, ranks=[0]).programs) == [0]
    assert sorted(planguard.capture.fx(all_reduced, (X,), 4, ranks="all").like) == []


def test_groups_of_a_mesh_have_their_own_names_on_every_rank():
    """The table holds the groups of the rank's own process: names and members differ by rank."""

    def over_tp(x):
        import torch.distributed._functional_collectives as funcol

        return funcol.all_reduce(x, "sum", over_tp.group)

    def prepare(fn, mesh):
        fn.group = mesh["tp"].get_group()
        return fn

    bundle = planguard.capture.fx(
        over_tp, (X,), 4, mesh={"dp": 2, "tp": 2}, prepare=prepare, tracer="make_fx", ranks="all"
    )
    tables = [bundle.programs[rank].groups for rank in range(4)]
    tp = [next(g for g in table.values() if g.desc == "mesh_tp") for table in tables]
    assert [group.ranks for group in tp] == [(0, 1), (0, 1), (2, 3), (2, 3)]
    assert tp[0].name == tp[1].name != tp[2].name
    assert planguard.check(bundle).safe


def test_a_capture_is_written_and_read_back(tmp_path):
    """dump writes planguard.fx/1, load reads it, and the plan is the same."""
    bundle = planguard.capture.fx(all_reduced, (X,), 2)
    path = tmp_path / "model.fx.json.gz"
    planguard.capture.fx.dump(bundle, path)
    again = planguard.capture.fx.load(path)
    assert planguard.load(again).document == planguard.load(bundle).document


def test_a_spawned_process_captures_what_can_be_pickled():
    """start="spawn" works for functions of a module, where a fork is not possible."""
    bundle = planguard.capture.fx(torch.relu, (X,), 2, tracer="make_fx", start="spawn", ranks="all")
    assert len(bundle.programs) == 2


def test_what_a_rank_raises_reaches_the_caller():
    """A failing trace is a usage error that names the rank and shows its frames."""

    def broken(_):
        raise ValueError("no such layer")

    with pytest.raises(UsageError, match="rank 0 could not be captured: ValueError: no such layer"):
        planguard.capture.fx(broken, (X,), 2, tracer="make_fx")


def test_a_rank_that_hangs_is_ended():
    """The time limit holds per rank, and the process is gone afterwards."""
    import time

    def sleeps(_):
        time.sleep(60)

    with pytest.raises(UsageError, match="did not finish within 2 s"):
        planguard.capture.fx(sleeps, (X,), 2, tracer="make_fx", timeout=2)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mesh": {"tp": 3}}, "has 3 ranks, the world has 2"),
        ({"tracer": "jit"}, "no tracer is called 'jit'"),
        ({"ranks": "some"}, r"^fx\(ranks=...\): 'some' is neither"),
        ({"ranks": [2]}, "not ranks of a world of 2"),
        ({"trcer": "aot"}, "no option 'trcer'"),
        ({"start": "thread"}, "cannot start processes by 'thread'"),
    ],
)
def test_wrong_options_are_usage_errors(options, message):
    """Every wrong option is named before or while the first rank starts."""
    with pytest.raises(UsageError, match=message):
        planguard.capture.fx(all_reduced, (X,), 2, **options)


def test_nothing_is_left_behind():
    """The caller's process has no process group and the environment it had."""
    import os

    import torch.distributed as dist

    before = dict(os.environ)
    planguard.capture.fx(all_reduced, (X,), 2)
    assert not dist.is_initialized()
    assert dict(os.environ) == before


@pytest.mark.slow
@pytest.mark.parametrize("name", ["tp-mlp", "sp-mlp", "dp-tp", "fsdp", "moe", "ring-attention"])
def test_the_samples_are_what_torch_makes_today(name):
    """Capturing a sample's model again gives the committed dump, byte for byte."""
    if torch.__version__.split("+")[0] != "2.13.0":
        pytest.skip("the dumps come from torch 2.13.0; another version names nodes its own way")
    path = SAMPLES / "regenerate.py"
    spec = importlib.util.spec_from_file_location("fx_regenerate", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.main(["--check", name]) == 0
