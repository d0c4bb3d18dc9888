"""Measure from artifact to verdict: each adapter at three sizes, beside plain parsing of the bytes.

    python benchmarks/artifacts.py                    # the table
    python benchmarks/artifacts.py --only fx xla      # some adapters
    python benchmarks/artifacts.py --only fx --profile    # where the time of the largest goes

An artifact is a sample of the adapter grown to a size: more layers, steps, chunks or ranks, written
as the planner writes them. *Plain parsing* is what Python has for the same bytes: json.loads,
ElementTree, csv, ast.parse, protobuf's own decoder; HLO and StableHLO have no parser in Python, so
theirs is one regular expression over each line. A row is the least of several turns of both, one
after the other in one process, in processor time; ``load`` makes the plan, ``check`` decides it.
*Floor* is the plan itself: its own text read, compiled and checked, with no adapter before it. An
adapter that took no time would be there.
"""

from __future__ import annotations

import argparse
import ast
import copy
import cProfile
import csv
import io
import json
import pstats
import re
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

import planguard
from planguard.garbage import no_collection
from planguard.plan.format import read_trusted, write

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SAMPLES = Path(__file__).resolve().parents[1] / "tests" / "samples"
SIZES = (1, 8, 64)
GOAL = 5.0
"""Times plain parsing, of the largest artifact of each adapter."""

Files = dict[str, bytes]


def document(name: str) -> Any:
    """Return a JSON sample."""
    return json.loads((SAMPLES / name).read_bytes())


def packed(value: Any) -> bytes:
    """Return a document's bytes, as compact as dumps of planners are."""
    return json.dumps(value).encode()


# --- growing samples -----------------------------------------------------------------------------


def alpa(times: int) -> Files:
    """Steps of 1F1B on four meshes one after the other, each with buffers of its own."""
    made = document("alpa/1f1b-4x2.alpa.json")
    known = {number for inputs in made["inputs"].values() for number in inputs}
    most = 1 + max(known | set(_buffers(made["instructions"])))

    def renamed(row: dict[str, Any], step: int) -> dict[str, Any]:
        ids = {
            key: [one if one in known else one + step * most for one in row[key]]
            for key in ("in", "out")
            if key in row
        }
        if row["op"] == "FREE":  # what the steps share lives on
            ids["in"] = [one for one in ids["in"] if one not in known]
        return {**row, **ids}

    for worker, rows in made["instructions"].items():
        steps = [renamed(row, step) for step in range(times) for row in rows]
        made["instructions"][worker] = [row for row in steps if row["op"] != "FREE" or row["in"]]
    return {"grown.alpa.json": packed(made)}


def _buffers(instructions: dict[str, Any]) -> Iterator[int]:
    for rows in instructions.values():
        for row in rows:
            yield from (*row.get("in", ()), *row.get("out", ()))


def chakra(times: int) -> Files:
    """Steps of a hybrid of four ranks: the nodes again, each step behind the one before."""
    schema = chakra_schema()
    made = {}
    for path in sorted((SAMPLES / "chakra" / "hybrid").iterdir()):
        data = path.read_bytes()
        if path.suffix != ".et":
            made[path.name] = data
            continue
        head, *nodes = delimited(data)
        parsed = [schema.FromString(node) for node in nodes]
        width = 1 + max(node.id for node in parsed)
        used = {dep for node in parsed for dep in node.data_deps}
        ends = [node.id for node in parsed if node.id not in used]
        out = [head]
        for step in range(times):
            for node in parsed:
                grown = schema()
                grown.CopyFrom(node)
                grown.id = node.id + step * width
                del grown.data_deps[:]
                grown.data_deps.extend(dep + step * width for dep in node.data_deps)
                if not node.data_deps and step:
                    grown.data_deps.extend((step - 1) * width + end for end in ends)
                out.append(grown.SerializeToString())
        made[path.name] = b"".join(_varint(len(one)) + one for one in out)
    return made


def delimited(data: bytes) -> Iterator[bytes]:
    """Yield the messages of a Chakra file."""
    place = 0
    while place < len(data):
        length = shift = 0
        while True:
            byte = data[place]
            length |= (byte & 127) << shift
            place, shift = place + 1, shift + 7
            if byte < 128:
                break
        yield data[place : place + length]
        place += length


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


def chakra_schema() -> Any:
    """Return protobuf's class for a node, with the fields that the adapter looks at."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    file = descriptor_pb2.FileDescriptorProto(name="et.proto", package="et", syntax="proto2")
    kinds = descriptor_pb2.FieldDescriptorProto
    fields: dict[str, list[tuple[str, int, Any, bool]]] = {
        "Attribute": [
            ("name", 1, kinds.TYPE_STRING, False), ("int32_val", 7, kinds.TYPE_INT32, False),
            ("int64_val", 9, kinds.TYPE_INT64, False), ("uint32_val", 11, kinds.TYPE_UINT32, False),
            ("uint64_val", 13, kinds.TYPE_UINT64, False), ("bool_val", 27, kinds.TYPE_BOOL, False),
            ("string_val", 29, kinds.TYPE_STRING, False),
        ],
        "Node": [
            ("id", 1, kinds.TYPE_UINT64, False), ("name", 2, kinds.TYPE_STRING, False),
            ("type", 3, kinds.TYPE_INT32, False), ("ctrl_deps", 4, kinds.TYPE_UINT64, True),
            ("data_deps", 5, kinds.TYPE_UINT64, True), ("attr", 10, kinds.TYPE_MESSAGE, True),
        ],
    }  # fmt: skip
    for name, rows in fields.items():
        message = file.message_type.add(name=name)
        for field, number, kind, is_list in rows:
            label = kinds.LABEL_REPEATED if is_list else kinds.LABEL_OPTIONAL
            made = message.field.add(name=field, number=number, type=kind, label=label)
            made.options.packed = is_list and kind == kinds.TYPE_UINT64
            if kind == kinds.TYPE_MESSAGE:
                made.type_name = ".et.Attribute"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("et.Node"))


def module(name: str) -> Callable[[int], Files]:
    """Grow the description of a module: its parameters again, under other names."""

    def grow(times: int) -> Files:
        made = document(f"{name}/mlp.{name}.json")
        rows = made["parameters"]
        made["parameters"] = [
            {**row, "name": f"{copy}.{row['name']}"} for copy in range(times) for row in rows
        ]
        made["world_size"] = 8
        return {f"grown.{name}.json": packed(made)}

    return grow


def deepspeed(times: int) -> Files:
    """The training step of four stages, again and again."""
    made = document("deepspeed/pp4-train.deepspeed.json")
    made["commands"] = [rows * times for rows in made["commands"]]
    return {"grown.deepspeed.json": packed(made)}


def fx(times: int) -> Files:
    """As many tensor-parallel layers, each with its backward, one behind the other."""
    made = document("fx/tp-mlp.fx.json")
    for graphs in made["programs"].values():
        for graph in graphs:
            rows, outputs = graph["nodes"], []
            grown = []
            for layer in range(times):
                text = json.dumps([row for row in rows if row.get("op") != "output"])
                grown += json.loads(re.sub(r'("(?:name|ref)": ")', rf"\g<1>L{layer}_", text))
                end = json.dumps([row["args"] for row in rows if row.get("op") == "output"])
                outputs += json.loads(re.sub(r'("ref": ")', rf"\g<1>L{layer}_", end))[0][0]
            grown.append({"name": "output", "op": "output", "args": [outputs]})
            graph["nodes"] = grown
    return {"grown.fx.json": packed(made)}


def hiccl(times: int) -> Files:
    """An all_reduce over more nodes; the description hardly grows."""
    made = document("hiccl/all-reduce-2x4.hiccl.json") | {"levels": [2 * times, 8]}
    return {"grown.hiccl.json": packed(made)}


def megatron(times: int) -> Files:
    """The recorded step of four stages, again and again, with handles of its own each time."""
    made = document("megatron/1f1b-pp4-variable.megatron.json")
    for at, rows in enumerate(made["ranks"]):
        most = 1 + max((number for row in rows for number in _works(row)), default=0)
        made["ranks"][at] = [_later(row, step * most) for step in range(times) for row in rows]
    return {"grown.megatron.json": packed(made)}


def _works(row: dict[str, Any]) -> Iterator[int]:
    for one in (row, *row.get("ops", ())):
        works = one.get("work", ())
        yield from works if isinstance(works, list) else [works] if works != () else []


def _later(row: dict[str, Any], by: int) -> dict[str, Any]:
    made = copy.deepcopy(row)
    for one in (made, *made.get("ops", ())):
        if isinstance(one.get("work"), list):
            one["work"] = [work + by for work in one["work"]]
        elif "work" in one:
            one["work"] += by
    return made


def msccl(times: int) -> Files:
    """A ring all_reduce of eight GPUs, on more channels."""
    ranks = 8
    lines = [
        (
            f'<algo name="ring" proto="LL128" nchannels="{times}" nchunksperloop="{ranks * times}" '
            f'ngpus="{ranks}" coll="allreduce" inplace="1">'
        )
    ]
    for rank in range(ranks):
        lines.append(f'  <gpu id="{rank}" i_chunks="{ranks * times}" o_chunks="0" s_chunks="0">')
        for channel in range(times):
            lines.append(
                f'    <tb id="{channel}" send="{(rank + 1) % ranks}" recv="{(rank - 1) % ranks}" '
                f'chan="{channel}">'
            )
            kinds = ["s", *["rrs"] * (ranks - 2), "rrcs", *["rcs"] * (ranks - 2), "r"]
            for step, kind in enumerate(kinds):
                place = (rank - step) % ranks + channel * ranks
                lines.append(
                    f'      <step s="{step}" type="{kind}" srcbuf="i" srcoff="{place}" '
                    f'dstbuf="i" dstoff="{place}" cnt="1" depid="-1" deps="-1" hasdep="0"/>'
                )
            lines.append("    </tb>")
        lines.append("  </gpu>")
    return {"grown.xml": "\n".join([*lines, "</algo>\n"]).encode()}


def mscclpp(times: int) -> Files:
    """The operations of each thread block, again and again."""
    made = document("mscclpp/allreduce-2.json")
    for gpu in made["gpus"]:
        for block in gpu["threadblocks"]:
            block["ops"] *= times
    return {"grown.json": packed(made)}


def nnscaler(times: int) -> Files:
    """The generated step of four stages, again and again, as a loop over samples unrolls it."""
    made = {}
    for path in sorted((SAMPLES / "nnscaler" / "mlp-pp4-1f1b").glob("gencode*.py")):
        lines = path.read_text().splitlines(keepends=True)
        begin = next(at for at, line in enumerate(lines) if line.startswith("def _train_step"))
        first = next(at for at in range(begin, len(lines)) if "model.zero_grad" in lines[at]) + 1
        last = next(at for at in range(first, len(lines)) if lines[at].startswith("    return"))
        lines[first:last] = lines[first:last] * times
        made[path.name] = "".join(lines).encode()
    return made


def pipelining(times: int) -> Files:
    """1F1B of eight stages with its messages, of more microbatches."""
    sys.path.insert(0, str(Path(__file__).parent))
    from screen_files import rows

    text = "\n".join(",".join(row) for row in rows(8, 16 * times, "1f1b", fault=False)) + "\n"
    return {"grown.csv": text.encode()}


LAYER = """  %gather.{n} = f32[4096,512]{{1,0}} all-gather(%weight.{n}), channel_id={c}, \
replica_groups=[{tp},{dp}]<=[{dp},{tp}]T(1,0), dimensions={{0}}, use_global_device_ids=true, \
metadata={{op_name="jit(step)/jvp()/dot_general" stack_frame_id=5}}
  %dot.{n} = f32[8,512]{{1,0}} dot(%act.{n}, %gather.{n}), lhs_contracting_dims={{1}}, \
rhs_contracting_dims={{0}}, metadata={{op_name="jit(step)/jvp()/dot_general" stack_frame_id=5}}
  %sum.{n} = f32[8,512]{{1,0}} all-reduce(%dot.{n}), channel_id={d}, \
replica_groups=[{dp},{tp}]<=[{all}], use_global_device_ids=true, to_apply=%add, \
metadata={{op_name="jit(step)/jvp()/dot_general" stack_frame_id=6}}
  %act.{m} = f32[8,512]{{1,0}} tanh(%sum.{n}), metadata={{op_name="jit(step)/jvp()/tanh"}}
"""


def hlo(times: int, devices: int = 4096) -> Files:
    """A partitioned step of 4,096 devices: gathered weights and summed activations a layer."""
    layers, tp = 8 * times, 8
    weights = "".join(f", weight.{n}: f32[512,512]" for n in range(layers))
    lines = [
        (
            f"HloModule jit_step, is_scheduled=true, num_partitions={devices}\n\n"
            "%add (x: f32[], y: f32[]) -> f32[] {\n  %x = f32[] parameter(0)\n"
            "  %y = f32[] parameter(1)\n  ROOT %sum = f32[] add(%x, %y)\n}\n\n"
            f"ENTRY %main.0_spmd (act.0: f32[8,512]{weights}) -> f32[8,512] {{\n"
            '  %act.0 = f32[8,512]{1,0} parameter(0), metadata={op_name="x"}\n'
        )
    ]
    lines += [
        f"  %weight.{n} = f32[512,512]{{1,0}} parameter({n + 1}), "
        f'metadata={{op_name="weights[{n}]"}}\n'
        for n in range(layers)
    ]
    sizes = {"tp": tp, "dp": devices // tp, "all": devices}
    lines += [LAYER.format(n=n, m=n + 1, c=2 * n + 1, d=2 * n + 2, **sizes) for n in range(layers)]
    lines.append(f"  ROOT %copy = f32[8,512]{{1,0}} copy(%act.{layers})\n}}\n")
    return {"grown.hlo": "".join(lines).encode()}


# --- plain parsing -------------------------------------------------------------------------------


def as_json(files: Files) -> None:
    """Parse JSON."""
    for data in files.values():
        json.loads(data)


def as_xml(files: Files) -> None:
    """Parse XML."""
    for data in files.values():
        ET.fromstring(data)  # noqa: S314 - made here


def as_csv(files: Files) -> None:
    """Read CSV."""
    for data in files.values():
        list(csv.reader(io.StringIO(data.decode())))


def as_python(files: Files) -> None:
    """Parse Python."""
    for data in files.values():
        ast.parse(data)


def as_protobuf(files: Files) -> None:
    """Decode the messages of each file with protobuf."""
    schema = chakra_schema()
    for name, data in files.items():
        if name.endswith(".et"):
            _, *nodes = delimited(data)
            for node in nodes:
                schema.FromString(node)


INSTRUCTION = re.compile(r"\s*(?:ROOT )?(%[\w.-]+) = (\(.*?\)|\S+) ([\w-]+)\((.*?)\)(.*)")


def as_lines(files: Files) -> None:
    """Match each line of HLO."""
    for data in files.values():
        for line in data.decode().splitlines():
            INSTRUCTION.match(line)


@dataclass(frozen=True)
class Kind:
    """How an adapter's artifacts grow, and what Python parses them with."""

    grow: Callable[[int], Files]
    parse: Callable[[Files], None]
    parser: str
    sizes: tuple[int, int, int] = SIZES


KINDS = {
    "alpa": Kind(alpa, as_json, "json.loads", (1, 16, 256)),
    "chakra": Kind(chakra, as_protobuf, "protobuf", (1, 16, 256)),
    "ddp": Kind(module("ddp"), as_json, "json.loads", (1, 32, 1024)),
    "deepspeed": Kind(deepspeed, as_json, "json.loads"),
    "fsdp": Kind(module("fsdp"), as_json, "json.loads", (1, 32, 1024)),
    "fx": Kind(fx, as_json, "json.loads"),
    "hiccl": Kind(hiccl, as_json, "json.loads", (1, 4, 16)),
    "horovod": Kind(module("horovod"), as_json, "json.loads", (1, 32, 1024)),
    "megatron": Kind(megatron, as_json, "json.loads"),
    "msccl": Kind(msccl, as_xml, "ElementTree"),
    "mscclpp": Kind(mscclpp, as_json, "json.loads"),
    "nnscaler": Kind(nnscaler, as_python, "ast.parse"),
    "pipelining": Kind(pipelining, as_csv, "csv"),
    "xla": Kind(hlo, as_lines, "a regular expression"),
}


# --- measuring -----------------------------------------------------------------------------------


@dataclass
class Row:
    """What one artifact took, in seconds of processor time."""

    name: str
    size: int
    ranks: int
    actions: int
    outcome: str
    parse: float
    load: float
    check: float
    plan: float

    @property
    def floor(self) -> float:
        """What the plan alone takes to its verdict, in times of plain parsing."""
        return (self.plan + self.check) / self.parse

    @property
    def times(self) -> float:
        """From artifact to verdict, in times of plain parsing."""
        return (self.load + self.check) / self.parse


def least(turns: int, *work: Callable[[], Any]) -> list[float]:
    """Return the least processor time of each of several works, done by turns."""
    best = [float("inf")] * len(work)
    for _ in range(turns):
        for at, one in enumerate(work):
            start = time.process_time()
            one()
            best[at] = min(best[at], time.process_time() - start)
    return best


def measure(name: str, size: int, turns: int) -> Row:
    """Grow, write, and measure one artifact."""
    kind = KINDS[name]
    files = kind.grow(size)
    with tempfile.TemporaryDirectory() as folder:
        path = written(Path(folder), files)
        plan = planguard.load(path)
        verdict = planguard.check(plan, model="gloo")
        # A loaded plan is decided afresh; what a check left in it would be measured otherwise.
        made: list[Any] = []

        def load() -> None:
            made.append(planguard.load(path))

        def check() -> None:
            planguard.check(made.pop(), model="gloo")

        text = plan.source or write(plan)

        def read() -> None:
            with no_collection():  # as ``planguard.load``
                read_trusted(text, plan.limits)

        works = (lambda: kind.parse(files), load, check, read)
        parse, load_, check_, read_ = least(turns, *works)
    total = sum(map(len, files.values()))
    return Row(
        name,
        total,
        plan.world_size,
        plan.actions,
        verdict.outcome.value,
        parse,
        load_,
        check_,
        read_,
    )


def written(folder: Path, files: Files) -> Path:
    """Write an artifact, and return its file, or the folder of several."""
    for name, data in files.items():
        (folder / name).write_bytes(data)
    return folder / next(iter(files)) if len(files) == 1 else folder


def line(row: Row) -> str:
    """Return a row of the table."""
    whole = row.load + row.check
    return (
        f"| {row.name} | {row.size / 1e6:.3f} | {row.ranks:,} | {row.actions:,} | {row.outcome} | "
        f"{row.parse * 1e3:.1f} | {row.load * 1e3:.1f} | {row.check * 1e3:.1f} | "
        f"{row.size / 1e6 / whole:.2f} | {row.actions / whole:,.0f} | {row.times:.1f} | "
        f"{row.floor:.1f} |"
    )


HEADER = """\
| adapter | MB | ranks | actions | `gloo` | plain, ms | load, ms | check, ms | MB/s | actions/s \
| times plain | floor |
|---|---|---|---|---|---|---|---|---|---|---|---|"""


def profiled(name: str, size: int) -> None:
    """Print where the time of one artifact goes."""
    files = KINDS[name].grow(size)
    with tempfile.TemporaryDirectory() as folder:
        path = written(Path(folder), files)
        planguard.check(path, model="gloo")
        profile = cProfile.Profile()
        profile.runcall(planguard.check, path, model="gloo")
    pstats.Stats(profile).sort_stats("tottime").print_stats(25)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--only", nargs="+", default=list(KINDS), choices=list(KINDS))
    parser.add_argument("--turns", type=int, default=5, help="measurements of each, the least")
    parser.add_argument("--profile", action="store_true", help="of the largest artifact")
    parser.add_argument("--sizes", type=int, default=3, help="how many of the three")
    given = parser.parse_args()
    if given.profile:
        for name in given.only:
            profiled(name, KINDS[name].sizes[given.sizes - 1])
        return
    print(HEADER)
    for name in given.only:
        rows = [measure(name, size, given.turns) for size in KINDS[name].sizes[: given.sizes]]
        print("\n".join(map(line, rows)), flush=True)


if __name__ == "__main__":
    main()
