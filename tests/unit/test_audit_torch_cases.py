"""What torch tests of its own analyzer of Flight Recorder dumps, as facts that PlanGuard must meet.

The cases are those of ``test/distributed/flight_recorder`` (``test_fr_analysis.py``,
``test_loader.py``) of torch 2.13, told here in this project's words: two ranks, one default group.
"""

from __future__ import annotations

import gc
import pickle

import pytest
from audit_dumps import entry, write

import planguard as pg

WORLD = 2


def call(op, sizes, out=None, *, number=0, seq=1, state="completed", types=("Float", "Float")):
    """One entry of a dump: shapes of one input and one output."""
    more = {"input_sizes": [sizes], "output_sizes": [out or sizes]}
    more |= {"input_dtypes": [types[0]], "output_dtypes": [types[1]]}
    return entry(op, number=number, seq=seq, state=state, **more)


def audit(tmp_path, *ranks, groups=None):
    """Audit dumps of ranks, each a list of entries."""
    for rank, entries in enumerate(ranks):
        own = {name: members for name, members in (groups or {}).items() if rank in members}
        write(tmp_path, rank, entries, groups=own, world=len(ranks))
    return pg.audit(tmp_path)


def errors(verdict):
    """Codes of what is stated as an error."""
    return [f.code for f in verdict.errors]


def launch(op, number, *members):
    """Entries of one launch of several calls, which share a number, and the entry that ends it."""
    rows = [call(*one, number=number + n) for n, one in enumerate(members)]
    return [*rows, call(op, [], number=number + len(rows))]


def test_equal_calls_match(tmp_path):
    """One all_reduce of both ranks, and one in a group of each alone."""
    ranks = [
        [
            call("all_reduce", [4, 4]),
            entry("all_reduce", number=1, seq=1, group=f"own{rank}"),
        ]
        for rank in range(WORLD)
    ]
    assert errors(audit(tmp_path, *ranks, groups={"own0": [0], "own1": [1]})) == []


def test_coalesced_all_reduces_match(tmp_path):
    """`allreduce_coalesced` is an all_reduce."""
    assert errors(audit(tmp_path, *[[call("allreduce_coalesced", [4, 4])]] * WORLD)) == []


@pytest.mark.parametrize(
    ("op", "end"),
    [
        ("broadcast", "coalesced"),
        ("_broadcast_oop", "ALLGATHER_coalesced"),
        ("_reduce_oop", "REDUCE_SCATTER_coalesced"),
    ],
)
def test_a_launch_of_equal_calls_matches(op, end, tmp_path):
    """Two calls of one launch share a number on both ranks and match one by one."""
    rows = launch(end, 0, (op, [4, 4]), (op, [4, 4]))
    assert errors(audit(tmp_path, rows, rows)) == []


def test_a_launch_whose_second_call_differs_is_a_mismatch(tmp_path):
    """An uneven all_gather whose parts have other sizes on the other rank."""
    rows = [
        launch("ALLGATHER_coalesced", 0, ("_broadcast_oop", [4, 4]), ("_broadcast_oop", size))
        for size in ([5, 5], [4, 4])
    ]
    assert errors(audit(tmp_path, *rows)) == ["PG202"]


def test_a_rank_without_a_share_joins_no_launch(tmp_path):
    """An uneven reduce_scatter whose share of rank 0 is empty: rank 0 makes no call, all ended."""
    first = call("all_reduce", [4, 4])
    more = [
        call("_reduce_oop", [4, 4], number=1, seq=2),
        call("_reduce_oop", [4, 4], number=2, seq=2),
        call("REDUCE_SCATTER_coalesced", [], number=3, seq=2),
    ]
    assert errors(audit(tmp_path, [first], [first, *more])) == []


def test_another_operation_is_a_mismatch(tmp_path):
    """all_reduce against all_gather."""
    ranks = [[call(op, [4, 4], state="scheduled")] for op in ("all_reduce", "all_gather")]
    assert errors(audit(tmp_path, *ranks)) == ["PG201"]


@pytest.mark.parametrize("sizes", [([5, 4], [5, 4]), ([5, 4], [4, 4]), ([4, 4], [5, 4])])
def test_another_size_is_a_mismatch(sizes, tmp_path):
    """Other inputs, outputs, or both than those of the other rank."""
    usual = call("all_reduce", [4, 4], [4, 4], state="scheduled")
    assert errors(audit(tmp_path, [usual], [call("all_reduce", *sizes, state="scheduled")])) == [
        "PG202"
    ]


def test_an_all_reduce_whose_output_is_not_its_input_in_size_is_wrong(tmp_path):
    """Both ranks say the same, and no all_reduce has these sizes."""
    rows = [call("all_reduce", [4, 4], [5, 4], state="scheduled")]
    assert errors(audit(tmp_path, rows, rows)) == ["PG202"]


def test_another_type_of_the_output_is_a_mismatch(tmp_path):
    """Float against half in what comes out."""
    ranks = [[call("all_reduce", [4, 4], types=("Float", out))] for out in ("Float", "Half")]
    assert errors(audit(tmp_path, *ranks)) == ["PG203"]


def test_who_has_ended_and_who_has_not_is_told(tmp_path):
    """One rank's all_reduce is done, the other's is only scheduled: undecided, nobody missing."""
    ranks = [[call("all_reduce", [4, 4], state=state)] for state in ("scheduled", "completed")]
    verdict = audit(tmp_path, *ranks)
    assert verdict.unknown
    assert "PG502" in {f.code for f in verdict.findings}
    assert errors(verdict) == []


def test_an_all_to_all_is_not_judged_by_its_sizes(tmp_path):
    """Splits of one rank are not those of another: nothing is claimed."""
    rows = [call("all_to_all", [4, 4])]
    assert errors(audit(tmp_path, rows, rows)) == []


@pytest.mark.parametrize("out", [[[]], [[4, 4]]])
def test_only_the_root_of_a_gather_has_outputs(out, tmp_path):
    """The root lists one output per member, the others none or their own."""
    root = entry("gather", number=0, seq=1, input_sizes=[[4, 4]], output_sizes=[[4, 4], [4, 4]])
    other = entry("gather", number=0, seq=1, input_sizes=[[4, 4]], output_sizes=out)
    assert errors(audit(tmp_path, [root], [other])) == []


SIZED = [
    ("broadcast", 1), ("reduce", 1), ("all_reduce", 1), ("scatter", 1), ("gather", 1),
    ("_all_gather_base", 2), ("all_gather", 2), ("all_gather_into_tensor_coalesced", 2),
    ("_reduce_scatter_base", 0.5), ("reduce_scatter", 0.5), ("all_to_all", 1), ("barrier", 1),
    ("reduce_scatter_tensor_coalesced", 0.5),
]  # fmt: skip


@pytest.mark.parametrize(("op", "factor"), SIZED)
def test_every_collective_matches_itself(op, factor, tmp_path):
    """Whatever both ranks call alike is no mismatch."""
    rows = [call(op, [4, 4], [int(16 * factor)] if factor != 1 else [4, 4], state="scheduled")]
    assert errors(audit(tmp_path, rows, rows)) == []


@pytest.mark.parametrize("backend", ["nccl", "ncclx", "gloo", "xccl", "unknown_backend"])
def test_entries_of_every_backend_are_read(backend, tmp_path):
    """Torch's analyzer knows four backends and raises for others; here a name is a name."""
    row = call("all_reduce", [4, 4]) | {
        "profiling_name": f"{backend}:all_reduce", "retired": True, "op_id": 1
    }  # fmt: skip
    assert errors(audit(tmp_path, [row], [row])) == []


@pytest.mark.parametrize("was_enabled", [True, False])
@pytest.mark.parametrize("is_good", [True, False])
def test_the_garbage_collector_is_left_as_it_was(was_enabled, is_good, tmp_path):
    """Whether reading works or fails, and whether the collector ran before or not."""
    data = pickle.dumps({"version": "2.8", "entries": [], "pg_config": {}}, 2)
    (tmp_path / "rank_0").write_bytes(data if is_good else b"\x80\x02nonsense")
    (gc.enable if was_enabled else gc.disable)()
    try:
        if is_good:
            pg.audit(tmp_path)
        else:
            with pytest.raises(pg.PlanError):
                pg.audit(tmp_path / "rank_0")
        assert gc.isenabled() is was_enabled
    finally:
        gc.enable()
