"""Write the samples of this folder: ``python tests/samples/horovod/regenerate.py``.

Needs torch (made with 2.13.0); nothing is run. Horovod is not needed either: the two timelines are
written here event by event, as Horovod 0.28's ``timeline.cc`` does.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from planguard import registry

registry.find("horovod")  # mounts planguard.planners where it is not installed

from planguard.planners.horovod import dump  # noqa: E402

FOLDER = Path(__file__).parent
TENSORS = {"conv.weight": [64, 3, 7, 7], "fc.weight": [10, 64], "fc.bias": [10]}


def timeline(steps: list[dict[str, list[int]]]) -> list[dict[str, Any]]:
    """Return the events of steps, each a map from tensor to the ranks that report it."""
    events: list[dict[str, Any]] = []
    pids = {name: pid for pid, name in enumerate(TENSORS, 1)}
    for name, pid in pids.items():
        events.append({"name": "process_name", "ph": "M", "pid": pid, "args": {"name": name}})
        order = {"name": "process_sort_index", "ph": "M", "pid": pid, "args": {"sort_index": pid}}
        events.append(order)
    for step in steps:
        for name, ranks in step.items():
            at: dict[str, Any] = {"ts": 100 * len(events), "pid": pids[name]}
            events.append({"ph": "B", "name": "NEGOTIATE_ALLREDUCE", **at})
            events += [{"ph": "X", "name": str(rank), **at, "dur": 0} for rank in ranks]
            if len(ranks) < 4:
                continue
            shape = {"dtype": "float32", "shape": str(TENSORS[name])}
            events.append({"ph": "E", **at})
            events.append({"ph": "B", "name": "ALLREDUCE", **at})
            events.append({"ph": "B", "name": "MEMCPY_IN_FUSION_BUFFER", **at})
            events.append({"ph": "E", **at})
            events.append({"ph": "E", **at, "args": shape})
    return events


def main() -> None:
    """Write all samples."""
    from torch import nn

    mlp = nn.Sequential(*[nn.Linear(256, 256) for _ in range(4)])
    layer = nn.TransformerEncoderLayer(64, 4, dim_feedforward=256, batch_first=True)
    encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    half = nn.Sequential(nn.Linear(64, 64), nn.Linear(64, 64).half(), nn.BatchNorm1d(64))
    dump(mlp, FOLDER / "mlp.horovod.json", world_size=4, steps=2)
    dump(encoder, FOLDER / "encoder.horovod.json", world_size=8, fusion_threshold=1 << 18)
    dump(half, FOLDER / "two-dtypes.horovod.json", world_size=3)
    dump(mlp, FOLDER / "fp16.horovod.json", world_size=2, compression="fp16", fusion_threshold=0)
    every = {name: [2, 0, 1, 3] for name in TENSORS}
    stalled = {**every, "fc.bias": [0, 2, 3]}
    for name, steps in (("timeline", [every, every]), ("stalled", [every, stalled])):
        lines = ",\n".join(json.dumps(event) for event in timeline(steps))
        (FOLDER / f"{name}.json").write_text(f"[\n{lines}]\n", encoding="utf-8")


if __name__ == "__main__":
    main()
