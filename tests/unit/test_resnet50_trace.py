"""A traced step of ResNet-50 on four gloo ranks, with one all_reduce that does not belong there."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
from test_report_page import unpacked

from planguard.audit.readers.kineto import read_kineto
from planguard.cli import main

ODD = (256 << 20) * 2 * 3 // 4  # what a ring of four moves over each link


@pytest.fixture(scope="module")
def document(root, tmp_path_factory):
    """The page's data of the stored trace."""
    out = tmp_path_factory.mktemp("resnet50") / "page.html"
    folder = root / "tests" / "corpus" / "traces" / "resnet50-odd"
    assert main(["report", str(folder), "-o", str(out)]) == 0
    return unpacked(SimpleNamespace(data=out.read_bytes()))


def test_the_odd_operator_has_the_largest_bandwidth_and_duration(document):
    """All operators of the step are drawn; on all four links the odd call's bytes are the most and
    took the longest, and on three had the largest bandwidth, as in the second case study of Visual
    Diagnostics; on the fourth a short call was measured faster.
    """
    strategy = document["strategy"]
    assert (len(strategy["nodes"]), len(strategy["edges"])) == (1401, 1400)
    links = document["topology"]["links"]
    assert len(links) == 4
    fastest = []
    for link in links:
        seen = link["measured"]
        assert link["sizes"][4] == ODD
        assert link["sizes"][3] < ODD / 5
        assert seen["times"][4] > 5 * seen["times"][3]
        fastest.append(
            seen["times"][4] == pytest.approx(ODD / seen["bandwidths"][4] * 1e6, rel=0.01)
        )
    assert sum(fastest) == 3


def traced(calls, runs, ran=100.0):
    """Return the calls of a trace with these dispatcher calls and runs of gloo: (name, n, type)."""
    events = [
        {"name": f"c10d::{name}", "cat": "cpu_op", "ts": 1.0 + at, "args": {
            "Concrete Inputs": ["", "", "0"], "Input Dims": [[[n]], [], []],
            "Input type": ["TensorList", "", "Scalar"]}}
        for at, (name, n, _) in enumerate(calls)
    ] + [
        {"name": f"gloo:{name}", "cat": "user_annotation", "ts": ran - at, "args": {
            "Input Dims": [[n]], "Input type": [kind]}}
        for at, (name, n, kind) in enumerate(runs)
    ]  # fmt: skip
    info = {"backend": "gloo", "rank": 0, "world_size": 2}
    data = json.dumps({"traceEvents": events, "distributedInfo": info}).encode()
    return [(call.count, call.dtype) for call in read_kineto(data, "rank0.json").track.calls]


def test_types_of_calls_come_from_the_runs_that_fit_alone():
    """A run names the type that its call leaves out, in whatever order threads ran; where runs of
    as many elements differ in type, or one run is missing, the type stays unknown.
    """
    two = [("allreduce_", 8, ""), ("allreduce_", 6, "")]
    runs = [("all_reduce", 8, "float"), ("all_reduce", 6, "long int")]
    assert traced(two, runs) == [(8, "f32"), (6, "i64")]
    same = [("allreduce_", 8, ""), ("broadcast_", 8, ""), ("allreduce_", 8, "")]
    mixed = [("all_reduce", 8, "float"), ("all_reduce", 8, "int"), ("broadcast", 8, "int")]
    assert traced(same, mixed) == [(8, None), (8, "i32")]
    assert traced(two, runs[:1]) == [(8, "f32"), (6, None)]


def test_a_run_before_every_call_is_another_calls():
    """A window that cuts off the start of one call and the run of another has one of each: the type
    of the first is none of the second's.
    """
    assert traced([("allreduce_", 8, "")], [("all_reduce", 8, "int")], ran=-50.0) == [(8, None)]
