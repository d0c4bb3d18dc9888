from __future__ import annotations

import functools
import re
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch import fx

import planguard
from planguard import Outcome
from planguard.capture import (
    assert_same_placements,
    guarded_passes,
    validate_pass,
    validate_pipeline,
)
from planguard.capture.play.processes import run_ranks
from planguard.errors import PlanGuardError, UsageError

pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.timeout(300)]

C = torch.ops._c10d_functional
WAIT = C.wait_tensor.default
PAIR = {"0": [0, 1]}
RANKS = (0, 1)
FRAME = '  File "model.py", line 7, in forward\n    return gather(self.weight)\n'


def step(*, parameters=2):
    """Gather each parameter twice, as a step that reads it twice does, and add everything up."""
    graph = fx.Graph()

    def valued(node, rows=4):
        node.meta["val"] = torch.empty(rows, 4, device="meta")
        return node

    inputs = [valued(graph.placeholder(f"w{i}")) for i in range(parameters)]
    total = None
    for value in [one for one in inputs for _ in range(2)]:
        gather = valued(graph.call_function(C.all_gather_into_tensor.default, (value, 2, "0")), 8)
        gather.meta["stack_trace"] = FRAME
        full = valued(graph.call_function(WAIT, (gather,)), 8)
        add = torch.ops.aten.add.Tensor
        total = full if total is None else valued(graph.call_function(add, (total, full)), 8)
    graph.output((total,))
    return fx.GraphModule(torch.nn.Module(), graph)


def gathers(module):
    """Return the gathers of a graph in order."""
    return [n for n in module.graph.nodes if n.target is C.all_gather_into_tensor.default]


def keep(module, _=None):
    """Change nothing."""
    return module


def share(module, _=None):
    """Keep one of the gathers of every parameter."""
    first = {}
    for gather in gathers(module):
        kept = first.setdefault(gather.args[0], gather)
        if kept is not gather:
            wait = next(iter(gather.users))
            wait.replace_all_uses_with(next(iter(kept.users)))
            module.graph.erase_node(wait)
            module.graph.erase_node(gather)
    return module


def swap(module, _=None):
    """Gather the second parameter in front of the first."""
    first, *_, last = gathers(module)
    first.prepend(last)
    return module


def swap_on_rank_1(module, _=None):
    """Do so on rank 1 alone."""
    return swap(module) if dist.get_rank() else module


def fail(module, _=None):
    """Spoil the graph and raise."""
    for gather in gathers(module)[:1]:
        gather.args = (gather.args[0], 2, "7")
    raise RuntimeError("no GPU\nhere")


def of(*passes):
    """Return what ``validate_pipeline`` calls on every rank."""
    return lambda _: (step(), list(passes))


def kinds(verdict):
    """Return the kinds of violation, each once, in order."""
    return list(dict.fromkeys(violation.kind for violation in verdict.violations))


def test_a_pipeline_names_the_pass_the_node_and_its_stack():
    """Three passes of which the second orders gathers by the rank: it is named, with the node that
    moved and the frames that torch.fx kept; the passes around it are valid.
    """
    report = validate_pipeline(of(share, swap_on_rank_1, keep), 2)
    assert [verdict.name for verdict in report.passes] == ["share", "swap_on_rank_1", "keep"]
    assert [verdict.valid for verdict in report.passes] == [True, False, True]
    assert kinds(report.passes[1]) == ["unsafe"]
    assert not report.valid
    text = str(report)
    assert "pass swap_on_rank_1: 1 violations; all ranks: MISMATCH" in text
    assert re.search(r"unsafe: rank \d: .*\(model.py:7\)", text)


def test_passes_that_all_ranks_make_alike_are_valid_and_complete():
    """Sharing equal gathers and another order on all ranks: nothing is violated."""
    report = validate_pipeline(of(share, swap), 2)
    assert report.valid
    assert report.complete
    assert (
        report.passes[0]
        .moved[0]["all_gather_into_tensor_default_1"]
        .endswith("is gone; all_gather_into_tensor_default does the same")
    )


def test_a_pass_that_raises_stops_or_is_left_out():
    """What a pass did before it raised is undone, and the next pass is judged without it."""
    with pytest.raises(UsageError, match="pass fail raised RuntimeError: no GPU"):
        validate_pipeline(of(fail), 2)
    report = validate_pipeline(of(fail, swap), 2, on_failure="skip")
    assert report.failed == (("fail", "rank 0: RuntimeError: no GPU"),
                             ("fail", "rank 1: RuntimeError: no GPU"))  # fmt: skip
    assert report.valid
    assert not report.complete


def test_ranks_with_other_passes_are_refused():
    """The passes of a pipeline are compared one by one, so they have to be the same."""
    with pytest.raises(UsageError, match="rank 1 runs other passes than rank 0"):
        validate_pipeline(lambda _: (step(), [keep, swap][: 1 + dist.get_rank()]), 2)


@pytest.mark.parametrize("given", [{"on_failure": "ignore"}, {"ranks": [2]}, {"ranks": []}])
def test_options_that_cannot_be_are_refused(given):
    """An option that is none is an error, not taken for another."""
    with pytest.raises(UsageError):
        validate_pipeline(of(keep), 2, **given)


def test_guarded_passes_stop_at_the_pass_that_broke_something():
    """A running rank: the pass that loses a gather raises when it has run, with its own name,
    behind ``functools.partial`` as well; with ``record`` all passes run.
    """

    def lose(module, _, *, which):
        gather = gathers(module)[which]
        wait = next(iter(gather.users))
        wait.replace_all_uses_with(gather.args[0])
        for node in (wait, gather):  # whatever else of torch was imported calls a wait dead or not
            module.graph.erase_node(node)
        return module

    passes = [keep, functools.partial(lose, which=-1), swap]
    options = {"groups": PAIR, "world_size": 2}
    first, second, _ = guarded_passes(passes, **options)
    module = second.__name__ == "lose" and first(step(), ())
    with pytest.raises(PlanGuardError, match=r"pass lose: \d violations") as caught:
        second(module, ())
    assert "lost-collective: rank 0" in str(caught.value)
    verdicts = []
    module = step()
    for one in guarded_passes(passes, on_violation="record", verdicts=verdicts, **options):
        module = one(module, ())
    assert [verdict.valid for verdict in verdicts] == [True, False, True]


def both(change, other=None):
    """Judge a change of the graphs of two ranks; of rank 1 another, if given."""
    before = {rank: step() for rank in RANKS}
    after = {0: change(step()), 1: (other or change)(step())}
    return validate_pass(before, after, groups=PAIR)


def again(module, value=None, *, target=WAIT):
    """Gather the last parameter once more at the end, or what ``value`` makes of it."""
    last = gathers(module)[-1]
    output = next(n for n in module.graph.nodes if n.op == "output")
    weight = [n for n in module.graph.nodes if n.op == "placeholder"][-1]
    with module.graph.inserting_before(output):
        source = weight if value is None else value(module.graph, weight)
        source.meta.setdefault("val", torch.empty(4, 4, device="meta"))
        new = module.graph.call_function(last.target, (source, 2, "0"))
        new.meta["val"] = torch.empty(8, 4, device="meta")
        wait = module.graph.call_function(target, (new,))
        wait.meta["val"] = torch.empty(8, 4, device="meta")
    output.args = ((*output.args[0], wait),)
    return module


def test_a_recomputed_collective_is_no_new_one():
    """Activation checkpointing gathers again: allowed if all ranks do, and listed."""
    verdict = both(again)
    assert verdict.valid
    (said,) = verdict.moved[0].values()
    assert said.startswith("all_gather_into_tensor of 64 bytes on group 0 [0,1] all_gather_into_")
    assert said.endswith("tensor_default_4 repeats all_gather_into_tensor_default_2")
    assert kinds(both(again, keep)) == ["new-collective", "unsafe"]
    one = validate_pass(step(), again(step()), groups=PAIR, rank=0, others="before")
    assert "new-collective" in kinds(one)


@pytest.mark.parametrize(
    ("value", "right"),
    [
        (lambda graph, w: graph.call_function(torch.ops.aten.detach.default, (w,)), True),
        (lambda graph, w: graph.call_function(torch.ops.aten.rand_like.default, (w,)), False),
        (lambda graph, w: graph.call_function(torch.ops.aten.mul.Tensor, (w, 2)), False),
        (lambda graph, w: graph.call_function(torch.ops.aten.mul_.Tensor, (w, 2)), False),
    ],
)
def test_only_the_same_value_is_a_repetition(value, right):
    """An alias is the same value. A random one, another one, and one that was written in place
    since are not: the pass communicates something new.
    """
    verdict = both(functools.partial(again, value=value))
    assert verdict.valid is right
    assert right or "new-collective" in kinds(verdict)


def test_what_is_computed_in_place_twice_is_one_value():
    """A temporary that is written in place, as norms do, and computed again: the same value. With a
    write more it is another one.
    """

    def scaled(graph, w, times=1):
        value = graph.call_function(torch.ops.aten.mul.Tensor, (w, 2))
        for _ in range(times):
            graph.call_function(torch.ops.aten.add_.Scalar, (value, 1))
        return value

    def before():
        return again(step(), scaled)

    def judged(times):
        graphs = {rank: before() for rank in RANKS}
        changed = {rank: again(before(), lambda g, w: scaled(g, w, times)) for rank in RANKS}
        return validate_pass(graphs, changed, groups=PAIR)

    assert "_5 repeats all_gather_into_tensor_default_4" in next(iter(judged(1).moved[0].values()))
    assert judged(1).valid
    assert kinds(judged(2)) == ["new-collective"]


def test_a_shared_collective_is_lost_where_others_keep_theirs():
    """One rank alone keeps one of two equal gathers: lost, and the ranks do not match."""
    assert both(share).valid
    assert kinds(both(share, keep)) == ["lost-collective", "unsafe"]


def test_a_repetition_that_is_used_before_its_wait_is_told():
    """The rules for waits hold for repeated collectives, too."""
    verdict = both(functools.partial(again, target=torch.ops.aten.neg.default))
    assert "use-before-wait" in kinds(verdict)


def test_the_joint_graphs_of_autoparallel_are_safe():
    """Four ranks that solved for themselves and found the same: a sample that AutoParallel made."""
    sample = Path(__file__).resolve().parents[1] / "samples" / "autoparallel" / "mlp.fx.json"
    assert planguard.check(sample).outcome is Outcome.SAFE


def ask(rank, folder, chosen):
    """Be one of two gloo processes that compare placements; return what was said."""
    store = dist.FileStore(f"{folder}/store", 2)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=2)
    try:
        assert_same_placements(chosen[rank], patience=60)
    except PlanGuardError as error:
        return str(error).encode()
    return b"same"


@pytest.mark.processes
def test_ranks_that_solved_for_other_placements_are_stopped(tmp_path):
    """Placements are compared by name and as text; both ranks say what differs."""
    same = {"w1": "S(0)R", "w2": "S(1)R"}
    for place, other, wanted in [
        ("a", same, b"same"),
        ("b", {**same, "w2": "RR"}, b"w2: S(1)R on rank 0, RR on rank 1"),
        ("c", {"w1": "S(0)R"}, b"w2: S(1)R on rank 0, nothing on rank 1"),
    ]:
        folder = tmp_path / place
        folder.mkdir()
        task = functools.partial(ask, folder=folder, chosen=[same, other])
        answers = run_ranks(RANKS, task, timeout=120, jobs=2)
        assert wanted in answers[0]
        assert (answers[1] == b"same") is (wanted == b"same")


def routed(*, parameters=2):
    """Return the step with an exchange in front whose sizes only the run knows."""
    module = step(parameters=parameters)
    first = next(n for n in module.graph.nodes if n.op == "placeholder")
    with module.graph.inserting_before(gathers(module)[0]):
        counts = module.graph.call_function(torch.ops.aten.histc.default, (first, 2))
        parts = [
            module.graph.call_function(
                torch.ops.aten._local_scalar_dense.default,
                (module.graph.call_function(torch.ops.aten.select.int, (counts, 0, at)),),
            )
            for at in RANKS
        ]
        sent = module.graph.call_function(C.all_to_all_single.default, (first, parts, parts, "0"))
        module.graph.call_function(WAIT, (sent,))
    return module


def judged(*passes):
    """Judge what a pass of each rank makes of the step with experts, all ranks together."""
    before = {rank: routed() for rank in RANKS}
    after = {rank: one(routed()) for rank, one in zip(RANKS, passes, strict=True)}
    return validate_pass(before, after, groups=PAIR)


def test_moves_in_a_program_that_only_sizes_leave_undecided_are_allowed():
    """The ranks together are UNKNOWN, before the pass as after it; what all of them moved is
    allowed, the note names the sizes, and the verdict is not complete.
    """
    verdict = judged(share, share)
    assert verdict.valid
    assert not verdict.complete
    assert verdict.moved[0]
    (note,) = (note for note in verdict.notes if "only the run knows" in note)
    assert "all_to_all_single" in note


def test_a_program_with_unknown_sizes_allows_no_move_of_one_rank():
    """What one rank shares and the other keeps is lost there, whatever the sizes are."""
    verdict = judged(share, keep)
    assert not verdict.valid
    assert "lost-collective" in kinds(verdict)


def test_a_program_with_unknown_sizes_and_another_doubt_allows_no_move():
    """Where more than sizes is unknown, here what an operator does, no move is allowed."""

    def strange(module):
        with module.graph.inserting_before(gathers(module)[0]):
            module.graph.call_function(torch.ops.c10d.monitored_barrier_.default, ())
        return module

    before = {rank: strange(routed()) for rank in RANKS}
    after = {rank: share(strange(routed())) for rank in RANKS}
    verdict = validate_pass(before, after, groups=PAIR)
    assert not verdict.valid
    assert any("not decided" in violation.message for violation in verdict.violations)


def guarded_rank(rank, folder, passes, patience):
    """Be one of two gloo processes that run guarded passes and ask; return what was said."""
    store = dist.FileStore(f"{folder}/store", 2)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=2)
    verdicts = []
    try:
        own = guarded_passes(
            passes[rank], others="ask", groups=PAIR, patience=patience, verdicts=verdicts
        )
        module = step()
        for one in own:
            one(module)
    except PlanGuardError as error:
        return f"{[verdict.name for verdict in verdicts]} {error}".encode()
    notes = [note for verdict in verdicts for note in verdict.notes]
    return f"{[verdict.name for verdict in verdicts]} {notes}".encode()


@pytest.mark.processes
@pytest.mark.parametrize(
    ("passes", "patience", "wanted"),
    [
        ([[share, keep], [share, keep]], 60, "['share', 'keep', 'keep, all ranks'] []"),
        ([[keep, swap], [keep, swap]], 60, "'swap, all ranks'] ["),
        ([[keep], [swap]], 60, "call 0 on the group of ranks [0,1] is"),
        ([[keep], []], 2, "ranks [1] ran no such passes in 2 s"),
    ],
    ids=["alike", "another order on all", "another order on one", "no passes on one"],
)
def test_guarded_passes_ask_the_other_ranks_after_the_last_pass(passes, patience, wanted, tmp_path):
    """Ranks whose last graphs agree go on; where one orders its gathers otherwise, both are
    stopped, with the place of the call; a rank that runs no guarded passes is named and waited for
    only as long as was said.
    """
    task = functools.partial(guarded_rank, folder=tmp_path, passes=passes, patience=patience)
    answers = run_ranks(RANKS, task, timeout=120, jobs=2)
    assert wanted in answers[0].decode()
    stopped = [b"broke communication" in answer for answer in answers.values()]
    assert stopped == [passes == [[keep], [swap]]] * 2


def test_passes_cannot_ask_without_a_process_group():
    """It is refused when the passes are wrapped, not when the last of them has run."""
    with pytest.raises(UsageError, match="no process group"):
        guarded_passes([keep], others="ask")
