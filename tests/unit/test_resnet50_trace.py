"""A traced step of ResNet-50 on four gloo ranks, with one all_reduce that does not belong there."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from types import SimpleNamespace

import pytest
from test_report_page import unpacked

from planguard.audit.joining.assemble import assemble
from planguard.audit.readers.files import collect
from planguard.audit.readers.flows import Flows
from planguard.audit.readers.kineto import read_kineto
from planguard.audit.readers.reading import read_input
from planguard.audit.readers.times import times_of
from planguard.cli import main
from planguard.report.page.graph import EDGES

ODD = (256 << 20) * 2 * 3 // 4  # what a ring of four moves over each link


@pytest.fixture(scope="module")
def document(root, tmp_path_factory):
    """The page's data of the stored trace."""
    out = tmp_path_factory.mktemp("resnet50") / "page.html"
    folder = root / "tests" / "corpus" / "traces" / "resnet50-odd"
    assert main(["report", str(folder), "-o", str(out)]) == 0
    return unpacked(SimpleNamespace(data=out.read_bytes()))


def test_the_odd_operator_has_the_largest_bandwidth_and_duration(document):
    """All operators of the step are drawn; on each of the four links the odd call's bytes are the
    most, took the longest and had the largest bandwidth, as in the second case study of Visual
    Diagnostics.
    """
    assert len(document["strategy"]["nodes"]) == 1401
    links = document["topology"]["links"]
    assert len(links) == 4
    for link in links:
        seen = link["measured"]
        assert link["sizes"][4] == ODD
        assert link["sizes"][3] < ODD / 5
        assert seen["times"][4] > 2 * seen["times"][3]
        assert seen["times"][4] == pytest.approx(ODD / seen["bandwidths"][4] * 1e6, rel=0.01)


def edges_of(folder, rank):
    """The data edges of a rank's step, as names of operators, in the order of their readers."""
    trace = gzip.decompress((folder / f"rank{rank}.json.gz").read_bytes())
    tensors = gzip.decompress((folder / f"rank{rank}.et.json.gz").read_bytes())
    times = times_of("kineto", trace, "rank.json")
    flows = Flows(tensors, "rank.et.json").of(times.nested)
    names = dict.fromkeys(times.records.values(), "call")
    names |= {work.record: work.name for work in times.work}
    writer = {name: number for number, flow in flows.items() for name in flow.writes}
    return [
        (names[writer[name]], names[number])
        for number, flow in sorted(flows.items())
        for name in flow.reads
        if name in writer
    ]


def test_the_step_has_edges_of_data(document):
    """Nodes and edges of the step beside the paper's 1,120 and 1,629: 1,401 operators, 2,159 edges
    of data and 14 of order alone, for operators that read nothing that the step made.
    """
    kinds = Counter(EDGES[kind] for _, _, kind, _ in document["strategy"]["edges"])
    order = kinds.pop("control")
    assert (len(document["strategy"]["nodes"]), sum(kinds.values()), order) == (1401, 2159, 14)
    assert set(kinds) == {"data", "activation", "gradient", "optimizer"}


def test_every_rank_has_the_same_edges(root):
    """Ranks run one program, so the data between its operators is the same: 2,212 tensors read, in
    one order, whatever addresses each rank used again.
    """
    folder = root / "tests" / "corpus" / "traces" / "resnet50-odd"
    first = edges_of(folder, 0)
    assert len(first) == 2212
    assert all(edges_of(folder, rank) == first for rank in (1, 2, 3))


def test_the_edges_of_the_forward_pass_are_those_of_the_network(root):
    """Between the layers of the network the trace has the edges of its symbolic graph, and no
    others: torch.fx says them without running it.
    """
    fx = pytest.importorskip("torch.fx")
    from resnet50_trace import resnet50

    net = resnet50()
    kinds = {
        "Conv2d": "conv2d", "BatchNorm2d": "batch_norm", "ReLU": "relu", "MaxPool2d": "max_pool2d",
        "AdaptiveAvgPool2d": "adaptive_avg_pool2d", "Flatten": "flatten", "Linear": "linear",
        "Bottleneck": "", "relu": "relu", "add": "add",
    }  # fmt: skip

    def kind(node):
        if node.op == "call_module":
            return kinds[type(net.get_submodule(node.target)).__name__]
        return kinds.get(getattr(node.target, "__name__", ""), "")

    graph = fx.symbolic_trace(net).graph
    told = Counter(
        (f"aten::{kind(one)}", f"aten::{kind(node)}")
        for node in graph.nodes
        for one in node.all_input_nodes
        if kind(one) and kind(node)
    )
    layers = {name for edge in told for name in edge}
    folder = root / "tests" / "corpus" / "traces" / "resnet50-odd"
    seen = Counter(edge for edge in edges_of(folder, 0) if set(edge) <= layers)
    assert sum(told.values()) > 180
    assert seen == told


def test_every_gradient_goes_to_its_parameter(root):
    """161 parameters: what accumulates a gradient writes its part of a bucket, all_reduce reads the
    whole bucket, and what comes back from it is copied to the gradient that the optimizer reads.
    """
    folder = root / "tests" / "corpus" / "traces" / "resnet50-odd"
    seen = Counter(edges_of(folder, 0))
    copied = "torch.distributed.ddp.reducer::copy_bucket_to_grad"
    assert seen["torch::autograd::AccumulateGrad", "call"] == 161
    assert seen["call", copied] == 161
    assert seen[copied, "aten::add_"] == 161


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


def test_of_both_traces_of_a_rank_the_profile_is_audited(root):
    """An ExecutionTrace beside a Kineto trace of its rank is no second recording of it."""
    folder = root / "tests" / "corpus" / "traces" / "resnet50-odd"
    parts = [part for one in collect([str(folder)], None) for part in read_input(one)]
    found = assemble(parts)
    assert {part.kind for part in parts} == {"kineto", "execution-trace"}
    assert found.recording.kinds == ("kineto",)
    assert len(found.recording.ranks) == 4
