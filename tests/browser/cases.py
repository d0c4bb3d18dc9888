"""Plans that the pictures are judged by: the figures of ComScribe and Visual Diagnostics."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

SCHEMA = "planguard.plan/1"

Document = dict[str, Any]


def resnet18(steps: int = 2, ranks: int = 16) -> Document:
    """ResNet-18 under DDP from the shapes of its layers alone (1000 classes, float32), as the
    figure of ComScribe has it: buckets all-reduced, buffers broadcast before every forward, and
    a batch copied to every device.
    """
    import planguard

    file = {
        "schema": "planguard.ddp/1",
        "world_size": ranks,
        "module": "ResNet-18",
        "parameters": _tensors(_resnet18_parameters(), "float32"),
        "buffers": _tensors(_resnet18_buffers(), "float32"),
        "options": {"steps": steps},
    }
    with TemporaryDirectory() as folder:
        path = Path(folder) / "resnet18.ddp.json"
        path.write_text(json.dumps(file))
        document = json.loads(planguard.load(path, planner="ddp").source)
    for use in document["ranks"].values():
        use["actions"] = list(_with_batches(use["actions"]))
    document["name"] = "ResNet-18, DDP, 16 ranks"
    return document


def _tensors(shapes: dict[str, list[int]], dtype: str) -> list[Document]:
    return [{"name": name, "shape": shape, "dtype": dtype} for name, shape in shapes.items()]


def _blocks() -> list[tuple[str, int, int, int]]:
    """Return name, inputs, channels and size of the input kernel of the eight basic blocks."""
    found, inputs = [], 64
    for layer, channels in enumerate((64, 128, 256, 512), 1):
        for block in range(2):
            found.append((f"layer{layer}.{block}", inputs, channels, block))
            inputs = channels
    return found


def _resnet18_parameters() -> dict[str, list[int]]:
    shapes = {"conv1.weight": [64, 3, 7, 7], "bn1.weight": [64], "bn1.bias": [64]}
    for name, inputs, channels, _ in _blocks():
        shapes[f"{name}.conv1.weight"] = [channels, inputs, 3, 3]
        shapes |= {f"{name}.bn1.{part}": [channels] for part in ("weight", "bias")}
        shapes[f"{name}.conv2.weight"] = [channels, channels, 3, 3]
        shapes |= {f"{name}.bn2.{part}": [channels] for part in ("weight", "bias")}
        if inputs != channels:
            shapes[f"{name}.downsample.0.weight"] = [channels, inputs, 1, 1]
            shapes |= {f"{name}.downsample.1.{p}": [channels] for p in ("weight", "bias")}
    return {**shapes, "fc.weight": [1000, 512], "fc.bias": [1000]}


def _resnet18_buffers() -> dict[str, list[int]]:
    norms = {name[:-7]: shape for name, shape in _resnet18_parameters().items()
             if name.endswith(".weight") and len(shape) == 1}  # fmt: skip
    return {f"{n}.{p}": s for n, s in norms.items() for p in ("running_mean", "running_var")}


def _with_batches(actions: list[Document]) -> Any:
    seen: set[str] = set()
    for action in actions:
        name = str(action.get("op_name", ""))
        if action["op"] == "compute" and "forward" in name.lower() and name not in seen:
            yield {"op": "h2d", "shape": [32, 3, 224, 224], "dtype": "f32"}
        yield action


def pangu(layers: int = 6) -> Document:
    """A strategy of PanGu-alpha's kind on 16 devices of one stage: its table of 40000 x 2560 is
    not cut (case study 1 of Visual Diagnostics).
    """
    step: list[Document] = [
        {
            "op": "compute", "id": "embed", "op_name": "Gather",
            "ns": "word_embedding-VocabEmbedding", "phase": "forward",
            "reads": ["word_embedding", "tokens"], "writes": ["hidden"], "flops": 1e9,
            "bytes": 420_000_000,
        },
    ]  # fmt: skip
    for layer in range(layers):
        space = f"blocks/{layer}"
        for name, part, weight, flops in (
            ("MatMul", "attention/qkv", "qkv", 3.1e13),
            ("Softmax", "attention/softmax", "", 2e11),
            ("MatMul", "attention/out", "qkv", 1e13),
            ("MatMul", "mlp/up", "up", 4e13),
            ("Gelu", "mlp/gelu", "", 1e10),
            ("MatMul", "mlp/down", "up", 4e13),
        ):
            step.append(
                {
                    "op": "compute", "op_name": name, "ns": f"{space}/{part}", "phase": "forward",
                    "reads": ["hidden", weight] if weight else ["hidden"], "writes": ["hidden"],
                    "flops": flops, "bytes": 335_000_000,
                }
            )  # fmt: skip
            if part.endswith(("out", "down")):
                step.append({"op": "all_reduce", "group": "mp", "count": 20_971_520,
                             "dtype": "f16", "ns": f"{space}/{part}"})  # fmt: skip
    step.append({"op": "all_reduce", "group": "dp", "count": 13_107_200, "dtype": "f16"})
    return {
        "schema": SCHEMA,
        "name": "PanGu-alpha 13B, 16 devices, one stage",
        "world_size": 16,
        "mesh": {"dims": [["dp", 8], ["mp", 2]]},
        "groups": {"dp": {"mesh_dims": ["dp"]}, "mp": {"mesh_dims": ["mp"]}},
        "tensors": {
            "word_embedding": {"shape": [40000, 2560], "dtype": "f32", "strategy": [1, 1]},
            "tokens": {"shape": [64, 1024], "dtype": "i32", "strategy": [8, 1]},
            "hidden": {"shape": [65536, 2560], "dtype": "f16", "strategy": [8, 1]},
            "qkv": {"shape": [2560, 7680], "dtype": "f16", "strategy": [1, 2]},
            "up": {"shape": [2560, 10240], "dtype": "f16", "strategy": [1, 2]},
        },
        "topology": {"ranks": [{"rank": r, "node": r // 8, "device": r % 8} for r in range(16)]},
        "templates": {"step": step},
        "ranks": {"0-15": {"template": "step"}},
    }


def resnet50(batches: int = 4) -> Document:
    """ResNet-50 on four devices: two stages of two, four minibatches. The links of stage 1 carry
    more than those of stage 0 at equal bandwidth, link 2-0 is the fastest, the FLOPs of stage 1
    are 10 % above those of stage 0 (case study 2).
    """
    act = {"op": "compute", "stage": 0}
    flops = {0: 9.5e12, 1: 10.5e12}
    gradient = {0: 34_000_000, 1: 68_200_000}
    ranks: dict[str, Document] = {}
    for rank in range(4):
        stage, peer = rank // 2, (rank + 2) % 4
        actions: list[Document] = []
        for mb in range(batches):
            work = {**act, "stage": stage, "mb": mb, "flops": flops[stage], "bytes": 60_000_000}
            message = {"bytes": 12_845_056, "mb": mb}
            if stage:
                actions.append({"op": "recv", "peer": peer, **message, "phase": "forward"})
            else:
                actions.append({"op": "h2d", "shape": [16, 3, 224, 224], "dtype": "f32"})
            for name in ("Conv2D", "BatchNorm", "ReLU"):
                share = {"Conv2D": 0.9, "BatchNorm": 0.07, "ReLU": 0.03}[name]
                space = f"layer{2 * stage + 1}/{name}"
                actions.append({**work, "op_name": name, "phase": "forward", "ns": space,
                                "flops": work["flops"] * share})  # fmt: skip
            if not stage:
                actions.append({"op": "send", "peer": peer, **message, "phase": "forward"})
        for mb in range(batches):
            work = {**act, "stage": stage, "mb": mb, "flops": 2 * flops[stage], "phase": "backward",
                    "op_name": "Conv2DBackward", "bytes": 90_000_000,
                    "ns": f"layer{2 * stage + 1}/Conv2D"}  # fmt: skip
            message = {"bytes": 12_845_056, "mb": mb, "phase": "backward"}
            if not stage:
                actions.append({"op": "recv", "peer": peer, **message})
            actions.append(work)
            if stage:
                actions.append({"op": "send", "peer": peer, **message})
        actions.append({"op": "all_reduce", "group": f"stage{stage}", "bytes": gradient[stage],
                        "phase": "optimizer"})  # fmt: skip
        ranks[str(rank)] = {"actions": actions}
    pairs = [(0, 1), (2, 3), (0, 2), (1, 3)]
    return {
        "schema": SCHEMA,
        "name": "ResNet-50, two stages on four devices",
        "world_size": 4,
        "groups": {"stage0": {"ranks": [0, 1]}, "stage1": {"ranks": [2, 3]}},
        "topology": {
            "ranks": [{"rank": r, "node": 0, "device": r} for r in range(4)],
            "links": [
                {"src": a, "dst": b, "type": "NVLink x2" if (a, b) == (0, 2) else "NVLink",
                 "bandwidth": 3e11 if (a, b) == (0, 2) else 1.5e11, "latency_us": 3}
                for a, b in pairs
            ],
        },
        "ranks": ranks,
    }  # fmt: skip


def pipeline(kind: str = "1f1b", stages: int = 4, batches: int = 8) -> Document:
    """A pipeline schedule as torch runs it, with modeled durations: ``1f1b``, ``gpipe``, ``zbv``
    (two chunks per rank, weight gradients apart), or ``stuck``: one rank swaps two computations.
    """
    import planguard

    rows = [_row(kind, stage, stages, batches) for stage in range(stages)]
    if kind == "stuck":
        rows[1][2], rows[1][4] = rows[1][4], rows[1][2]
    text = "\n".join(",".join(row) for row in rows)
    document: Document = json.loads(planguard.load(text.encode(), planner="pipelining").source)
    times = {"F": 100, "I": 100, "W": 100, "B": 200}
    for use in document["ranks"].values():
        for action in use["actions"]:
            if action["op"] == "compute" and action.get("op_name") in times:
                action["duration_us"] = times[action["op_name"]]
                action["flops"] = 1e10 * times[action["op_name"]]
            elif action["op"] in {"isend", "irecv"}:
                action["bytes"] = 8 << 20
    document["name"] = f"{kind.upper()}, {stages} ranks, {batches} microbatches"
    return document


def _row(kind: str, stage: int, stages: int, batches: int) -> list[str]:
    warm = batches if kind == "gpipe" else min(batches, stages - stage)
    row = [f"{stage}F{mb}" for mb in range(warm)]
    for mb in range(batches):
        row.append(f"{stage}B{mb}")
        if mb + warm < batches:
            row.append(f"{stage}F{mb + warm}")
    return row


def dense(ranks: int = 16, actions: int = 5000) -> Document:
    """Many ranks, many actions: the size that the page is measured with."""
    body: list[Document] = []
    for at in range(actions):
        if at % 16 == 15:
            body.append({"op": "all_reduce", "bytes": 1 << 20, "label": f"grad {at // 16}"})
        else:
            body.append({"op": "compute", "op_name": ("MatMul", "Add", "Norm", "Gelu")[at % 4],
                         "duration_us": 20 + at * 7 % 53, "flops": 1e9 * (1 + at % 5),
                         "phase": "forward" if at < actions // 3 else "backward"})  # fmt: skip
    return {
        "schema": SCHEMA,
        "name": f"{ranks} ranks x {actions:,} actions",
        "world_size": ranks,
        "templates": {"step": body},
        "ranks": {f"0-{ranks - 1}": {"template": "step"}},
    }


HOSTILE = (
    "<script>globalThis.pwned = 1</script>",
    "</script><img src=x onerror='globalThis.pwned = 2'>",
    "javascript:globalThis.pwned=3",
    "\x1b[31mred\x1b[0m\x07",
    "\u202egnp.exe\u202c\u2066",
    '"><svg onload=globalThis.pwned=4>',
    "@@SCRIPT@@",
)


def hostile() -> Document:
    """Every name of a plan is an attack: on the page, on a terminal, on the reader's eye."""
    a, b, c, d, e, f, g = HOSTILE
    compute = {"op": "compute", "op_name": a, "ns": f"{b}/{e}", "phase": c, "stage": 0, "mb": 0,
               "writes": [f], "reads": [b], "src": [b, 7, a]}  # fmt: skip
    send = {"op": "send", "count": 4, "dtype": "f32", "label": d, "group": b, "src": [f, 1, g]}
    recv = {"op": "recv", "count": 4, "dtype": "f32", "label": e, "group": b}
    return {
        "schema": SCHEMA,
        "name": a + b + e,
        "world_size": 2,
        "producer": {"tool": b},
        "groups": {b: {"ranks": [0, 1]}},
        "tensors": {
            b: {"shape": [8, 8], "dtype": "f32", "strategy": [2, 1]},
            f: {"shape": [8], "dtype": "f32"},
        },
        "topology": {
            "ranks": [{"rank": r, "node": r, "device": 0} for r in range(2)],
            "links": [{"src": 0, "dst": 1, "type": b}],
        },
        "ranks": {
            str(r): {"actions": [{**compute}, {**send, "peer": 1 - r}, {**recv, "peer": 1 - r}]}
            for r in range(2)
        },
    }
