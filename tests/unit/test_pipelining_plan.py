"""The pipelining adapter: what the plan of a schedule contains."""

from __future__ import annotations

import itertools
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest
from planguard.planners.pipelining import PipeliningOptions, RunLog, adapter, from_run_log
from planguard.planners.pipelining.steps import Compute, Message, Transfer, Wait, Where

from planguard.errors import PlanError, UsageError
from planguard.plan.building.builder import PlanBuilder

ROOT = Path(__file__).resolve().parents[2]
SAMPLES = ROOT / "tests" / "samples" / "pipelining"

TWO_STAGES = "0F0,0SEND_F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0\n"


def programs(source, **options) -> list[list[dict]]:
    """Give the actions of every program of the plan, as they stand in a plan file."""
    given = source.encode() if isinstance(source, str) else source
    return actions(adapter.adapt(given, PlanBuilder, **options))


def actions(plan) -> list[list[dict]]:
    """Give the actions of every program of a plan."""
    document = msgspec.json.decode(plan.source)
    return [use["actions"] for use in document["ranks"].values()]


def brief(program: list[dict]) -> list[str]:
    """Give each action as operation and name."""
    return [f"{a['op']} {a.get('id') or a.get('work', '')}".strip() for a in program]


def ledger(source, **options) -> dict[str, str]:
    """Give kind and direction of every entry of the plan's ledger."""
    given = source.encode() if isinstance(source, str) else source
    plan = adapter.adapt(given, PlanBuilder, **options)
    return {entry.kind: entry.direction for entry in plan.approximations}


def test_steps_are_what_torch_runs() -> None:
    """A receive is posted at its cell and waited for by its consumer; a send is waited for at the
    end of the step.
    """
    first, second = programs(TWO_STAGES)
    assert brief(first) == [
        "compute 0F0",
        "isend 0SEND_F0",
        "irecv 0RECV_B0",
        "wait 0RECV_B0",
        "compute 0B0",
        "wait 0SEND_F0",
    ]
    assert brief(second) == [
        "irecv 1RECV_F0",
        "wait 1RECV_F0",
        "compute 1F0",
        "compute 1B0",
        "isend 1SEND_B0",
        "wait 1SEND_B0",
    ]


def test_several_sends_are_waited_for_the_latest_first() -> None:
    """At the end of the step torch pops the sends from the end of its list."""
    first, _ = programs("0F0,0SEND_F0,0F1,0SEND_F1\n1RECV_F0,1F0,1RECV_F1,1F1\n")
    assert first[-1]["work"] == ["0SEND_F1", "0SEND_F0"]


def test_sends_can_be_waited_for_at_once() -> None:
    """send_wait="at-once" makes every send a rendezvous in program order."""
    first, _ = programs(TWO_STAGES, send_wait="at-once")
    assert brief(first)[1:3] == ["isend 0SEND_F0", "wait 0SEND_F0"]
    assert brief(first)[-1] == "compute 0B0"


def test_both_ends_of_a_message_carry_one_label() -> None:
    """Labels name direction, producing stage and microbatch, and pair every send with one receive
    on all samples of torch.
    """
    for path in sorted(SAMPLES.glob("*.csv")):
        sends, receives = {}, {}
        for rank, program in enumerate(programs(path)):
            for action in program:
                side = {"isend": sends, "irecv": receives}.get(action["op"])
                if side is not None:
                    assert action["label"] not in side
                    ends = (rank, action["peer"])
                    side[action["label"]] = ends if action["op"] == "isend" else ends[::-1]
        assert sends == receives
        assert sends
    assert {"F0.0", "B1.0"} == {
        a["label"] for program in programs(TWO_STAGES) for a in program if "label" in a
    }


def test_computations_keep_their_data_dependencies() -> None:
    """F depends on its receive or on the local stage before, B and I on F and on their receive or
    the local stage after, W on I.
    """
    rows = "0F0,0SEND_F0,3RECV_F0,3F0,3I0,3SEND_B0,0RECV_B0,3W0,0I0,0W0\n"
    rows += "1RECV_F0,1F0,2F0,2SEND_F0,2RECV_B0,2B0,1B0,1SEND_B0\n"
    deps = {
        action["id"]: action.get("deps", [])
        for program in programs(rows)
        for action in program
        if action["op"] == "compute"
    }
    assert deps == {
        "0F0": [],
        "3F0": ["3RECV_F0"],
        "3I0": ["3F0"],
        "3W0": ["3I0"],
        "0I0": ["0F0", "0RECV_B0"],
        "0W0": ["0I0"],
        "1F0": ["1RECV_F0"],
        "2F0": ["1F0"],
        "2B0": ["2F0", "2RECV_B0"],
        "1B0": ["1F0", "2B0"],
    }


def test_every_action_names_row_and_cell() -> None:
    """The source of an action is the file, the row counted from 1 and the cell with its text."""
    path = SAMPLES / "dualpipev-2x4.csv"
    for row, program in enumerate(programs(path), 1):
        for action in program:
            file, line, note = action["src"]
            assert (file, line) == (str(path), row)
            assert note.startswith("cell ") or note == "end of the step"
    overlapped = [a for p in programs(path) for a in p if "OVERLAP_F_B" in a["src"][2]]
    assert {a["op"] for a in overlapped} == {"compute", "wait"}


def test_overlapped_computations_run_in_torch_order() -> None:
    """The parts of OVERLAP_F_B wait for their inputs and run in turn; the ledger says so."""
    rows = "0F0,0SEND_F0,0F1,0RECV_B0,(0F2;0B0)OVERLAP_F_B\n1RECV_F0,1F0,1B0,1SEND_B0\n"
    first, _ = programs(rows)
    assert brief(first)[4:7] == ["compute 0F2", "wait 0RECV_B0", "compute 0B0"]
    assert ledger(rows)["overlap-in-order"] == "exact"


def test_lowerings_differ_only_in_batches() -> None:
    """unbatched has no batch, batched puts every message into one, and mixed, torch's default,
    batches a list only if it has both directions: never in an order of single actions.
    """
    alone, default = programs(TWO_STAGES, lowering="unbatched"), programs(TWO_STAGES)
    assert alone == default
    for program in programs(TWO_STAGES, lowering="batched"):
        batches = [action for action in program if action["op"] == "batch"]
        assert len(batches) == 2
        assert all(len(batch["ops"]) == 1 and batch["work"] for batch in batches)
        assert not any("work" in op for batch in batches for op in batch["ops"])
        assert not any(action["op"] in ("isend", "irecv") for action in program)


def test_sizes_per_boundary_and_tensor() -> None:
    """Sizes may be given per boundary, per tensor and separately for gradients; a boundary of
    several tensors has one labeled message for each.
    """
    first, _ = programs(TWO_STAGES, bytes={0: [64, 8]}, grad_bytes=32)
    messages = {a["label"]: a["bytes"] for a in first if a["op"] in ("isend", "irecv")}
    assert messages == {"F0.0#0": 64, "F0.0#1": 8, "B1.0": 32}
    assert first[-1]["work"] == ["0SEND_F0#0", "0SEND_F0#1"]
    with pytest.raises(UsageError, match="stages 0 and 1"):
        programs(TWO_STAGES, bytes={1: 64})


def test_without_sizes_no_size_is_claimed() -> None:
    """Where the caller gives no bytes, the actions have none."""
    assert not any("bytes" in a for program in programs(TWO_STAGES) for a in program)


def test_unsharded_stages_are_local_and_the_ledger_says_so() -> None:
    """Without the option shards, UNSHARD, RESHARD and REDUCE_GRAD are computations."""
    rows = "0UNSHARD,0F0,0B0,0REDUCE_GRAD,0RESHARD\n"
    assert [a["op"] for a in programs(rows)[0]] == ["compute"] * 5
    assert ledger(rows) == {"lowered": "exact", "unsharded": "exact"}


def test_shards_make_unshard_and_reduce_grad_collectives() -> None:
    """With shards, UNSHARD is an asynchronous all_gather that the first computation of the stage
    waits for, REDUCE_GRAD a reduction, both over the replicas of the rank.
    """
    rows = "0UNSHARD,0F0,0SEND_F0,0RECV_B0,0B0,0REDUCE_GRAD,0RESHARD\n"
    rows += "1UNSHARD,1RECV_F0,1F0,1B0,1SEND_B0,1REDUCE_GRAD,1RESHARD\n"
    plan = adapter.adapt(rows.encode(), PlanBuilder, shards=4, param_bytes={0: 10, 1: 20})
    assert plan.world_size == 8
    first, second = actions(plan)
    assert brief(first)[:3] == ["all_gather_into_tensor 0UNSHARD", "wait 0UNSHARD", "compute 0F0"]
    gather, reduction = first[0], next(a for a in first if a["op"] == "reduce_scatter_tensor")
    assert (gather["group"], gather["async"], gather["bytes"]) == ("dp", True, 10)
    assert (reduction["group"], reduction["bytes"]) == ("dp", 10)
    assert second[0]["bytes"] == 20
    assert next(a for a in first if a["op"] == "isend")["peer"] == {"pp": 1}
    assert "unsharded" not in ledger(rows, shards=4)
    groups = {a.get("group") for p in programs(rows, shards=2, shard_group="stage") for a in p}
    assert {"dp0", "dp1"} <= groups
    reduce_ops = {a["op"] for p in programs(rows, shards=2, reduce_grad="all_reduce") for a in p}
    assert "all_reduce" in reduce_ops


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ("0F0,0B0,0UNSHARD,0RESHARD,0REDUCE_GRAD", "0F0 runs while stage 0 is sharded"),
        ("0UNSHARD,0UNSHARD,0F0,0B0", "unsharded twice"),
        ("0UNSHARD,0RESHARD,0F0,0B0", "no computation has used it"),
        ("0UNSHARD,0F0,0B0,0RESHARD,0UNSHARD", "no computation waits for the unshard of stage 0"),
    ],
)
def test_sharding_that_torch_refuses_is_refused(row: str, words: str) -> None:
    """With shards, the states of a stage are checked as torch checks them in the step."""
    with pytest.raises(PlanError, match=words):
        programs(row + "\n", shards=2)


def test_first_step_starts_with_the_vote() -> None:
    """first_step puts torch's vote before the order: up the stages, then down, blocking."""
    path = SAMPLES / "zbv-2x4.csv"
    first, second = programs(path, first_step=True)
    vote = lambda program: [a["label"] for a in program if a.get("phase") == "vote"]  # noqa: E731
    assert vote(first) == ["vote.F0", "vote.F2", "vote.B3", "vote.B1"]
    assert vote(second) == ["vote.F0", "vote.F2", "vote.B3", "vote.B1"]
    plain, _ = programs(path)
    assert first[8:] == plain


def test_deferred_receives_are_those_of_torch() -> None:
    """Option defer_recv turns torch's default order into torch's deferred order."""
    for name in ("interleaved1f1b", "interleavedzb", "zbv", "dualpipev", "loopedbfs", "gpipe"):
        late = programs(SAMPLES / f"{name}-4x8.csv", defer_recv=True)
        want = programs(SAMPLES / f"{name}-deferred-4x8.csv")
        assert [brief(p) for p in late] == [brief(p) for p in want]


def test_compute_only_form_gives_the_plan_of_the_other_form() -> None:
    """A compute-only schedule lowers to the very actions of torch's own lowering."""
    for path in sorted(SAMPLES.glob("*-compute-only-*.csv")):
        lowered, given = programs(path), programs(Path(str(path).replace("-compute-only", "")))
        assert [brief(p) for p in lowered] == [brief(p) for p in given]
        assert ledger(path)["lowered"] == "exact"


def test_ranks_that_wait_for_each_other_are_a_plan_not_an_error() -> None:
    """A compute-only order that torch refuses to lower, because one rank runs a backward before a
    forward that the other needs, becomes a plan in which both wait.
    """
    rows = "0F0,0B0,0F1,0B1\n1F0,1F1,1B0,1B1\n"
    first, second = programs(rows)
    assert brief(first).index("wait 0RECV_B0") < brief(first).index("isend 0SEND_F1")
    assert brief(second).index("wait 1RECV_F1") < brief(second).index("isend 1SEND_B0")
    plan = adapter.adapt(rows.encode(), PlanBuilder)
    note = next(entry for entry in plan.approximations if entry.kind == "not-lowerable")
    assert "0B0 (row 1, cell 2)" in note.message
    assert "1F1 (row 2, cell 2)" in note.message


def test_transfers_without_computations_are_an_under_approximation() -> None:
    """An order of sends and receives alone hides deadlocks through data: the ledger entry spoils
    a proof.
    """
    assert ledger("0SEND_F0\n1RECV_F0\n")["no-computation"] == "under"


def test_orders_in_memory_equal_their_files() -> None:
    """A dict of texts, and schedule objects that carry the order, give the plan of the CSV."""
    path = SAMPLES / "dualpipev-2x4.csv"
    rows = [line.split(",") for line in path.read_text().splitlines()]
    want = [brief(p) for p in programs(path)]
    order = dict(enumerate(rows))
    assert [brief(p) for p in programs(order)] == want
    carrier = SimpleNamespace(pipeline_order_with_comms=order)
    assert [brief(p) for p in programs(carrier)] == want
    assert programs(carrier)[0][0]["src"][0] == "SimpleNamespace.pipeline_order_with_comms"
    with pytest.raises(PlanError, match="without gaps"):
        programs({0: ["0F0"], 2: ["1F0"]})
    with pytest.raises(PlanError, match="row 1, cell 2"):
        programs({0: ["0F0", 7]})


def test_functions_of_the_user_and_fsdp_modules_spoil_a_proof() -> None:
    """A schedule object with registered functions, or with FSDP stages and no option shards, gets
    an under-approximation.
    """

    class FSDPModule: ...

    stage = SimpleNamespace(stage_index=0, submod=type("Wrapped", (FSDPModule,), {})())
    schedule = SimpleNamespace(
        pipeline_order_with_comms={0: ["0UNSHARD", "0F0", "0B0", "0REDUCE_GRAD", "0RESHARD"]},
        _comp_type_to_function_map={"OVERLAP_F_B": print},
        _stages=[stage],
    )
    entries = ledger(schedule)
    assert entries["custom-function"] == "under"
    assert entries["fsdp-left-out"] == "under"
    assert "fsdp-left-out" not in ledger(schedule, shards=2)


def run_log() -> RunLog:
    """A run in which both ranks issue a send and a receive as one list, as 1F1B does."""
    rows = []
    for rank in range(2):
        where = Where(rank + 1, "call")
        send = Message("S", True, "FB"[rank], rank, 1 - rank, 1 - rank, 0)
        recv = Message("R", False, "BF"[rank], rank, 1 - rank, 1 - rank, 0)
        rows.append(
            (
                Compute(f"{rank}F0", "F", rank, 0, (), where),
                Transfer("p2p1", (send, recv), where),
                Wait(("p2p1",), where),
                Compute(f"{rank}B0", "B", rank, 0, (f"{rank}F0", "R"), where),
            )
        )
    return RunLog("Hand", tuple(rows))


@pytest.mark.parametrize(
    ("lowering", "ops"),
    [
        ("mixed", ["compute", "batch", "wait", "compute"]),
        ("batched", ["compute", "batch", "wait", "compute"]),
        ("unbatched", ["compute", "isend", "irecv", "wait", "compute"]),
    ],
)
def test_lists_of_a_recorded_run_follow_the_lowering(lowering: str, ops: list[str]) -> None:
    """A list with sends and receives is a batch, unless the lowering says to split it."""
    assert adapter.sniff(run_log())
    for program in actions(from_run_log(run_log(), PlanBuilder, lowering=lowering)):
        assert [action["op"] for action in program] == ops


def test_fsdp_gathers_inside_a_recorded_run_are_missing_and_the_ledger_says_so() -> None:
    """Without UNSHARD, FSDP gathers in its own hooks, which a recording does not show."""
    plan = from_run_log(run_log(), PlanBuilder, shards=2)
    assert plan.world_size == 4
    assert [(e.kind, e.direction) for e in plan.approximations] == [("fsdp-hooks", "under")]


def test_options_of_orders_do_not_apply_to_recorded_runs() -> None:
    """An option that changes an order is refused for a recorded run."""
    for option in ({"defer_recv": True}, {"send_wait": "at-once"}, {"first_step": True}):
        with pytest.raises(UsageError, match="does not apply"):
            from_run_log(run_log(), PlanBuilder, **option)


@pytest.mark.parametrize(
    ("options", "hint"),
    [
        ({"lowring": "mixed"}, "lowering"),
        ({"lowering": "fused"}, "mixed, unbatched, batched"),
        ({"shards": 0}, "positive"),
        ({"shards": True}, "positive"),
        ({"bytes": -1}, "bytes"),
        ({"bytes": [1, 1 << 63]}, "bytes"),
        ({"bytes": []}, "bytes"),
        ({"bytes": "64"}, "bytes"),
        ({"microbatches": 1.5}, "positive"),
    ],
)
def test_wrong_options_are_usage_errors(options: dict, hint: str) -> None:
    """An option that does not exist or has an impossible value is a usage error with a hint."""
    with pytest.raises(UsageError) as caught:
        programs(TWO_STAGES, **options)
    assert hint in caught.value.hint


def test_eval_runs_no_gradients() -> None:
    """With `forward_only` nothing goes back and nothing is reduced; parameters are still gathered
    for the backward that returns at once.
    """
    rows = "0UNSHARD,0F0,0SEND_F0,0RECV_B0,0B0,0REDUCE_GRAD,0RESHARD\n"
    rows += "1UNSHARD,1RECV_F0,1F0,1B0,1SEND_B0,1REDUCE_GRAD,1RESHARD\n"
    first, second = programs(rows, shards=2, forward_only=True)
    said = [f"{a['op']} {a.get('label', '')}".strip() for a in (*first, *second)]
    assert not [one for one in said if "B0" in one or "reduce" in one]
    assert sum(one.startswith("all_gather") for one in said) == 2
    assert sum(one.startswith(("isend", "irecv")) for one in said) == 2


def test_every_option_reaches_the_plan() -> None:
    """No option is without effect on a plan."""
    rows = "0UNSHARD,0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1,0REDUCE_GRAD,0RESHARD\n"
    rows += "1UNSHARD,1RECV_F0,1RECV_F1,1F0,1F1,1B0,1SEND_B0,1B1,1SEND_B1,1REDUCE_GRAD,1RESHARD\n"
    base = {"shards": 2}
    changes = {
        "lowering": "batched", "send_wait": "at-once", "bytes": 8, "grad_bytes": 8, "shards": 3,
        "shard_group": "stage", "reduce_grad": "all_reduce", "param_bytes": 8, "defer_recv": True,
        "first_step": True, "forward_only": True, "name": "other",
    }  # fmt: skip
    checks_only = {"form", "microbatches"}
    assert set(changes) | checks_only == set(PipeliningOptions.__dataclass_fields__)
    plans = [adapter.adapt(rows.encode(), PlanBuilder, **(base | {k: v})).source
             for k, v in changes.items()]  # fmt: skip
    plans.append(adapter.adapt(rows.encode(), PlanBuilder, **base).source)
    assert all(a != b for a, b in itertools.combinations(plans, 2))
