"""Write the execution plans of this folder with MSCCL++'s own language, without its library.

    git clone https://github.com/microsoft/mscclpp
    pip install sortedcontainers
    python tests/samples/mscclpp/regenerate.py --mscclpp mscclpp [NAME ...]

Made with MSCCL++ 0.9.0 (commit 1f5f065). Every file is what a script of
``python/mscclpp/language/tests`` prints, on one line. The language is pure Python, so an empty
package ``mscclpp`` around its folder is enough.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
SAMPLES = {
    "allgather-packets-4": ("single_node/allgather_pkt_rppkt.py", "--num_gpus", "4"),
    "allgather-switch-4": ("single_node/allgather_nvls_zero_copy_pkt.py", "--num_gpus", "4"),
    "allgather-groups-2": ("single_node/allgather_tbg.py",),
    "allreduce-2": ("single_node/allreduce.py", "--num_gpus", "2"),
    "allreduce-packets-4": ("single_node/allreduce_pkt.py", "--num_gpus", "4"),
    "allreduce-pipeline-2": ("single_node/allreduce_pipeline.py",),
    "alltoall-pipeline-3": ("single_node/alltoall/alltoall_pipeline.py", "--num_gpus", "3"),
    "port-put-2": ("unit_tests/put/put_with_signal_and_flush_test.py",),
    "signal-wait-fuse-2": ("unit_tests/signal_wait/signal_wait_fuse_test.py",),
}
"""Sample to script and arguments. The last one hangs: it waits on channels nobody signals."""


def write(name: str, language: Path) -> Path:
    """Run the script of a sample and write what it prints."""
    script, *arguments = SAMPLES[name]
    if script.startswith("single_node"):
        arguments += ["--name", name]
    with tempfile.TemporaryDirectory() as folder:
        package = Path(folder) / "mscclpp"
        shutil.copytree(language, package / "language")
        (package / "__init__.py").touch()
        done = subprocess.run(
            [sys.executable, str(language / "tests" / script), *arguments],
            env=os.environ | {"PYTHONPATH": folder, "PYTHONHASHSEED": "0"},
            capture_output=True, text=True, timeout=120, check=True,
        )  # fmt: skip
    program = json.loads(done.stdout[done.stdout.index("{") :])
    path = FOLDER / f"{name}.json"
    path.write_text(json.dumps(program) + "\n")
    return path


def main() -> None:
    """Write the samples that the command line names, or all."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--mscclpp", type=Path, required=True, help="checkout of mscclpp")
    parser.add_argument("names", nargs="*", help=f"of {', '.join(SAMPLES)}")
    given = parser.parse_args()
    language = given.mscclpp.resolve() / "python" / "mscclpp" / "language"
    for name in given.names or SAMPLES:
        print(write(name, language).name)


if __name__ == "__main__":
    main()
