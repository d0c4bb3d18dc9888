"""Write the samples of this folder: ``python tests/samples/megatron/regenerate.py [NAME...]``.

Needs torch 2.13.0 on a CPU and megatron-core 0.16.1 (``pip install --no-deps megatron-core``).
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER.parents[2] / "planners" / "megatron"))

UNBATCHED = {"batch_p2p_comm": False}
OVERLAP = {"batch_p2p_comm": False, "overlap_p2p_comm": True}
VARIABLE = {"variable_seq_lengths": True, "moe_token_dispatcher_type": "alltoall"}
JOBS: dict[str, dict[str, Any]] = {
    "1f1b-pp4-batched": {"pipeline": 4, "microbatches": 6},
    "1f1b-pp4-even-odd": {"pipeline": 4, "microbatches": 6, **UNBATCHED},
    "1f1b-pp4-ring": {"pipeline": 4, "microbatches": 6, "use_ring_exchange_p2p": True},
    "1f1b-pp2-world-group": {"pipeline": 2, "microbatches": 4, **UNBATCHED},
    "1f1b-pp2dp2": {"pipeline": 2, "data": 2, "microbatches": 3, "gradients": True, **UNBATCHED},
    "1f1b-pp4-variable": {"pipeline": 4, "microbatches": 6, **UNBATCHED, **VARIABLE},
    "1f1b-pp4-variable-batched": {"pipeline": 4, "microbatches": 6, **VARIABLE},
    "forward-pp3": {"pipeline": 3, "microbatches": 4, "forward_only": True},
    "interleaved-pp4-batched": {"pipeline": 4, "virtual": 2, "microbatches": 8},
    "interleaved-pp4-overlap": {"pipeline": 4, "virtual": 2, "microbatches": 8, **OVERLAP},
    "interleaved-pp2-overlap": {"pipeline": 2, "virtual": 2, "microbatches": 4, **OVERLAP},
    "interleaved-pp2-batched": {"pipeline": 2, "virtual": 2, "microbatches": 4},
    "interleaved-pp2-variable": {"pipeline": 2, "virtual": 2, "microbatches": 4, **VARIABLE},
    "no-pipelining": {"pipeline": 1, "data": 2, "microbatches": 3, "gradients": True},
}  # fmt: skip


def main() -> None:
    """Write the samples that are named, or all."""
    warnings.simplefilter("ignore")
    import recorder  # type: ignore[import-not-found]

    for name in sys.argv[1:] or JOBS:
        recorder.record(str(FOLDER / f"{name}.megatron.json"), **JOBS[name])


if __name__ == "__main__":
    main()
