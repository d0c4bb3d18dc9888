"""Batches over several communicators under the NCCL models (ADR 0030)."""

from __future__ import annotations

import pytest

import planguard as pg
from planguard.execution.running.executor import execute
from planguard.execution.running.expand import expand
from planguard.kernels import python
from planguard.options import MODEL_NAMES
from planguard.semantics.model import find_model, lenient, strict

A = {"op": "all_reduce", "group": "A", "bytes": 4}
B = {"op": "all_reduce", "group": "B", "bytes": 4}


def plan(*programs, **groups):
    """A plan of one program per rank over given groups."""
    return {
        "schema": "planguard.plan/1",
        "world_size": len(programs),
        "groups": {
            name: {"ranks": ranks} for name, ranks in (groups or {"A": [0, 1], "B": [0, 1]}).items()
        },
        "ranks": {str(rank): {"actions": program} for rank, program in enumerate(programs)},
    }


def batch(*ops):
    """One group call."""
    return {"op": "batch", "ops": list(ops)}


CROSSED = plan([batch(A, B)], [batch(B, A)])
SINGLE = plan([batch(A, B)], [dict(B), dict(A)])
RING = plan(
    *(
        [
            batch(
                {"op": "isend", "peer": (r + 1) % 3, "group": f"p{r}", "bytes": 4},
                {"op": "irecv", "peer": (r - 1) % 3, "group": f"p{(r - 1) % 3}", "bytes": 4},
            )
        ]
        for r in range(3)
    ),
    p0=[0, 1],
    p1=[1, 2],
    p2=[2, 0],
)

BUSY = plan([dict(B), dict(A), dict(A)], [{**A, "async": True, "work": "h"}, batch(B, A)])
"""The kernel of B in the batch does not stand behind that of A."""
DOCUMENTS = {"crossed": CROSSED, "single": SINGLE, "ring": RING, "busy": BUSY}


@pytest.mark.parametrize("document", DOCUMENTS.values(), ids=DOCUMENTS)
@pytest.mark.parametrize(
    ("model", "outcome"),
    [
        ("nccl", "POTENTIAL_DEADLOCK"),
        ("nccl-eager", "POTENTIAL_DEADLOCK"),
        ("nccl-serialized", "DEADLOCK"),
    ],
)
def test_opposite_orders_of_communicators_may_hang(document, model, outcome):
    """NCCL wants one order in a group call, across communicators too."""
    assert pg.check(document, model=model).outcome.value == outcome


@pytest.mark.parametrize("model", [m for m in MODEL_NAMES if m.startswith("nccl")])
def test_one_order_is_safe(model):
    """The same order everywhere, and any order on one communicator, stay SAFE."""
    assert pg.check(plan([batch(A, B)], [batch(A, B)]), model=model).safe
    exchange = [
        [batch({"op": "isend", "peer": p, "bytes": 4}, {"op": "irecv", "peer": p, "bytes": 4})]
        for p in (1, 0)
    ]
    assert pg.check(plan(*exchange), model=model).safe


def test_the_order_of_a_batch_is_nothing_to_gloo():
    """Without a device a batch is a loop of asynchronous calls."""
    assert pg.check(CROSSED, model="gloo").safe


@pytest.mark.parametrize("document", DOCUMENTS.values(), ids=DOCUMENTS)
@pytest.mark.parametrize("model", MODEL_NAMES)
def test_both_implementations_lower_it_alike(document, model):
    """The native kernels and their twin agree on batches over several communicators."""
    loaded, rules = pg.load(document), find_model(model)
    for end in (strict(rules), lenient(rules, 4096)):
        runs = [
            execute(
                loaded,
                expand(loaded, implementation=chosen),
                rules,
                end,
                origins=True,
                implementation=chosen,
            )
            for chosen in (None, python)
        ]
        assert len({tuple(run.lanes.code) for run in runs}) == 1
        assert len({tuple(run.state.pc) for run in runs}) == 1
