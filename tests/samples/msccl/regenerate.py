"""Write the algorithms of this folder with MSCCL's own compiler.

    git clone https://github.com/microsoft/msccl-tools
    pip install lxml humanfriendly tabulate argcomplete igraph z3-solver networkx matplotlib
    python tests/samples/msccl/regenerate.py --msccl-tools msccl-tools [NAME ...]

Made with msccl-tools 2.3.0 (commit 030a750). Every file is what a script of ``examples/mscclang``
prints; the compiler has checked that the chunks end up where the collective wants them.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
SAMPLES = {
    "allreduce-ring-4": ("allreduce_a100_ring.py", "4", "1", "1"),
    "allreduce-allpairs-4": ("allreduce_a100_allpairs.py", "4", "1", "--protocol", "LL"),
    "allreduce-halving-4": ("allreduce_recursive_doubling_halving.py", "4", "1"),
    "allgather-ring-4": ("allgather_ring.py", "4", "2", "1"),
    "allgather-doubling-4": ("allgather_recursive_doubling.py", "4", "1"),
    "alltoall-two-step-2x2": ("alltoall_a100_two_step.py", "2", "2"),
    "hierarchical-2x2": (
        "hierarchical_allreduce.py", "2", "2", "1", "--schedule", "auto",
    ),
    "hierarchical-8x2": (
        "hierarchical_allreduce.py", "8", "2", "1", "--schedule", "manual",
    ),
    "found/alltonext-forward-2": ("alltonext_forward.py", "2", "1"),
    "found/alltonext-forward-3": ("alltonext_forward.py", "3", "1"),
}  # fmt: skip
"""Sample to script and arguments; gpus per node, nodes and instances of the hierarchical ones.
``found``: compiled wrongly (three nodes), and the same for two (docs/bugs-found.md)."""


def write(name: str, tools: Path) -> Path:
    """Run the script of a sample and write what it prints."""
    script, *arguments = SAMPLES[name]
    environment = os.environ | {"PYTHONPATH": str(tools), "PYTHONHASHSEED": "0"}
    done = subprocess.run(
        [sys.executable, str(tools / "examples" / "mscclang" / script), *arguments],
        env=environment, capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    if "<algo" not in done.stdout:
        sys.exit(f"{script} printed no algorithm: {done.stdout[:200]!r}")
    lines = done.stdout.splitlines()
    begin = next(at for at, line in enumerate(lines) if line.startswith("<algo"))
    end = lines.index("</algo>")
    path = FOLDER / f"{name}.xml"
    path.write_text("\n".join(lines[begin : end + 1]) + "\n")
    return path


def main() -> None:
    """Write the samples that the command line names, or all."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--msccl-tools", type=Path, required=True, help="checkout of msccl-tools")
    parser.add_argument("names", nargs="*", help=f"of {', '.join(SAMPLES)}")
    given = parser.parse_args()
    for name in given.names or SAMPLES:
        print(write(name, given.msccl_tools.resolve()).name)


if __name__ == "__main__":
    main()
