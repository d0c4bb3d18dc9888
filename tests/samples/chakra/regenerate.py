"""Write the workloads of this folder in Chakra's format, with its own schema and writer.

    git clone https://github.com/mlcommons/chakra
    pip install grpcio-tools protobuf
    python -m grpc_tools.protoc -I chakra/schema/protobuf --python_out=chakra/schema/protobuf et_def.proto
    python tests/samples/chakra/regenerate.py --chakra chakra [NAME ...]

Made with Chakra's commit 21585d8 and protobuf 7. Like its ``generator.py``, this makes the graphs of
small training steps node by node; the attributes are those that its feeder hands to a simulator.
"""  # noqa: E501 - commands stay on one line

from __future__ import annotations

import argparse
import importlib.util
import json
import shutil
import sys
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent
ALL_REDUCE, ALL_GATHER, ALL_TO_ALL, REDUCE_SCATTER, BARRIER = 0, 2, 6, 7, 9


class Graph:
    """The nodes of one rank, in the order of their ids."""

    def __init__(self, schema: Any) -> None:
        self.schema = schema
        self.nodes: list[Any] = []

    def add(self, name: str, kind: str, deps: list[int], **attributes: Any) -> int:
        """Append a node and return its id."""
        node = self.schema.Node(id=len(self.nodes), name=name, type=getattr(self.schema, kind))
        node.data_deps.extend(deps)
        node.attr.append(self.schema.AttributeProto(name="is_cpu_op", bool_val=False))
        for key, value in attributes.items():
            field = {"string_val": value} if isinstance(value, str) else {"int64_val": value}
            node.attr.append(self.schema.AttributeProto(name=key, **field))
        self.nodes.append(node)
        return int(node.id)

    def compute(self, name: str, deps: list[int]) -> int:
        """Append a computation."""
        return self.add(name, "COMP_NODE", deps)

    def collective(self, name: str, deps: list[int], comm_type: int, size: int, pg: str) -> int:
        """Append a collective of a process group."""
        group = {"pg_name": pg} if pg else {}
        return self.add(name, "COMM_COLL_NODE", deps, comm_type=comm_type, comm_size=size, **group)

    def message(self, kind: str, deps: list[int], src: int, dst: int, tag: int) -> int:
        """Append a send or a receive."""
        return self.add(
            f"{kind} {src}>{dst}", f"COMM_{kind}_NODE", deps,
            comm_size=4096, comm_src=src, comm_dst=dst, comm_tag=tag,
        )  # fmt: skip


def data_parallel(graph: Graph, rank: int) -> None:
    """Overlap the backward of a layer with the all-reduce of the one behind it."""
    del rank
    before = graph.compute("forward", [])
    reduced: list[int] = []
    for layer in reversed(range(4)):
        before = graph.compute(f"backward {layer}", [before])
        deps = [before, *reduced[-1:]]
        reduced.append(graph.collective(f"grad {layer}", deps, ALL_REDUCE, 1 << 20, ""))
    graph.compute("optimizer", reduced)


def sharded(graph: Graph, rank: int) -> None:
    """Gather the parameters of each layer, then scatter its gradients."""
    del rank
    before: list[int] = []
    for layer in range(3):
        gathered = graph.collective(f"weights {layer}", before, ALL_GATHER, 1 << 18, "")
        before = [graph.compute(f"forward {layer}", [gathered, *before])]
    for layer in reversed(range(3)):
        grad = graph.compute(f"backward {layer}", before)
        before = [graph.collective(f"grads {layer}", [grad], REDUCE_SCATTER, 1 << 18, "")]


def pipeline(graph: Graph, rank: int, stages: int = 4, microbatches: int = 3) -> None:
    """Run GPipe: all forwards, then all backwards."""
    last: list[int] = []
    received: dict[str, list[int]] = {"forward": [], "backward": []}
    sent: dict[str, list[int]] = {"forward": [], "backward": []}
    for phase, step in (("forward", 1), ("backward", -1)):
        for number in range(microbatches):
            inputs = list(last)
            if 0 <= rank - step < stages:
                deps = received[phase][-1:]
                received[phase].append(graph.message("RECV", deps, rank - step, rank, 0))
                inputs += received[phase][-1:]
            last = [graph.compute(f"{phase} {number}", inputs)]
            if 0 <= rank + step < stages:
                deps = [*last, *sent[phase][-1:]]
                sent[phase].append(graph.message("SEND", deps, rank, rank + step, 0))


def hybrid(graph: Graph, rank: int) -> None:
    """Reduce activations over tensor groups and gradients over data groups, on 2 x 2 ranks."""
    before: list[int] = []
    for layer in range(3):
        out = graph.compute(f"forward {layer}", before)
        before = [graph.collective(f"act {layer}", [out], ALL_REDUCE, 4096, f"tp{rank // 2}")]
    grads: list[int] = []
    for layer in reversed(range(3)):
        out = graph.compute(f"backward {layer}", before)
        before = [graph.collective(f"d-act {layer}", [out], ALL_REDUCE, 4096, f"tp{rank // 2}")]
        deps = [out, *grads[-1:]]
        grads.append(graph.collective(f"grad {layer}", deps, ALL_REDUCE, 8192, f"dp{rank % 2}"))


def experts(graph: Graph, rank: int) -> None:
    """Exchange tokens with the experts and back, twice, with a barrier at the end."""
    del rank
    before: list[int] = []
    for layer in range(2):
        for way in ("dispatch", "combine"):
            out = graph.compute(f"{way} input {layer}", before)
            before = [graph.collective(f"{way} {layer}", [out], ALL_TO_ALL, 1 << 16, "")]
    graph.collective("end", before, BARRIER, 0, "")


def unordered(graph: Graph, rank: int) -> None:
    """Leave open which of two all-reduces comes first."""
    del rank
    for name in ("grad a", "grad b"):
        out = graph.compute(f"backward {name}", [])
        graph.collective(name, [out], ALL_REDUCE, 4096, "")


SAMPLES = {
    "data-parallel": (4, data_parallel),
    "sharded": (2, sharded),
    "pipeline": (4, pipeline),
    "hybrid": (4, hybrid),
    "experts": (3, experts),
    "unordered": (2, unordered),
}
COMM_GROUPS = {"hybrid": {"tp0": [0, 1], "tp1": [2, 3], "dp0": [0, 2], "dp1": [1, 3]}}


def write(name: str, schema: Any, encode: Any) -> Path:
    """Write the files of a workload."""
    ranks, build = SAMPLES[name]
    folder = FOLDER / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for rank in range(ranks):
        graph = Graph(schema)
        build(graph, rank)
        with (folder / f"{name}.{rank}.et").open("wb") as file:
            encode(file, schema.GlobalMetadata(version="0.0.4"))
            for node in graph.nodes:
                encode(file, node)
    if name in COMM_GROUPS:
        (folder / "comm_groups.json").write_text(json.dumps(COMM_GROUPS[name]) + "\n")
    return folder


def load(path: Path) -> Any:
    """Import a file of the checkout."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        sys.exit(f"{path} is missing")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main() -> None:
    """Write the workloads that the command line names, or all."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--chakra", type=Path, required=True, help="checkout of chakra")
    parser.add_argument("names", nargs="*", help=f"of {', '.join(SAMPLES)}")
    given = parser.parse_args()
    schema = load(given.chakra / "schema" / "protobuf" / "et_def_pb2.py")
    encode = load(given.chakra / "src" / "third_party" / "utils" / "protolib.py").encodeMessage
    for name in given.names or SAMPLES:
        print(write(name, schema, encode).name)


if __name__ == "__main__":
    main()
