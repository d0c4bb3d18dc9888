"""Write the samples of this folder: ``python tests/samples/deepspeed/regenerate.py [JOB...]``.

Runs ``record.py`` for every job: a real DeepSpeed engine on gloo dumps what it intends with the
hook, then its calls of one batch are recorded. Needs deepspeed 0.18.2 and torch 2.13.0 on a CPU
(``pip install --no-deps deepspeed==0.18.2`` and hjson, msgpack, py-cpuinfo, einops, pydantic).
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from record import JOBS

FOLDER = Path(__file__).resolve().parent
TIMEOUT_S = 180


def main() -> None:
    """Write the jobs that are named, or all."""
    for name in sys.argv[1:] or JOBS:
        command = [sys.executable, str(FOLDER / "record.py"), name, str(FOLDER)]
        subprocess.run(command, check=True, timeout=TIMEOUT_S)


if __name__ == "__main__":
    main()
