"""Write the descriptions of this folder: HiCCL's plans live in a process and have no file.

    python tests/samples/hiccl/regenerate.py

Compositions follow HiCCL's paper and its interface: multicasts and reductions with fences between
them, and a hierarchy, striping, a ring and a pipeline to factor them with.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent
MIB = 1 << 20
SAMPLES: dict[str, dict[str, Any]] = {
    "broadcast-2x4": {"levels": [2, 4], "collective": "broadcast", "bytes": MIB, "stripe": 4},
    "reduce-4x2-ring": {
        "levels": [4, 2], "collective": "reduce", "root": 3, "bytes": MIB, "ring": True,
        "stripe": 2, "pipeline": 4,
    },
    "all-gather-2x2x2": {"levels": [2, 2, 2], "collective": "all_gather", "bytes": MIB},
    "all-reduce-2x4": {
        "levels": [2, 4], "collective": "all_reduce", "bytes": MIB, "pipeline": 2, "ring": True,
    },
    "all-to-all-2x3": {"levels": [2, 3], "collective": "all_to_all", "bytes": 6144},
    "composed-2x2": {
        "levels": [2, 2],
        "compose": [
            {"op": "reduction", "root": 0, "ranks": [1, 2, 3], "bytes": 4096},
            "fence",
            {"op": "multicast", "root": 0, "ranks": [1, 2, 3], "bytes": 4096},
        ],
        "stripe": 2,
    },
}  # fmt: skip


def main() -> None:
    """Write every description."""
    for name, described in SAMPLES.items():
        document = {"schema": "planguard.hiccl/1", "name": name, **described}
        (FOLDER / f"{name}.hiccl.json").write_text(json.dumps(document, indent=1) + "\n")
        print(f"{name}.hiccl.json")


if __name__ == "__main__":
    main()
