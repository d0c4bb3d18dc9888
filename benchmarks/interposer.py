"""What the NCCL interposer costs a call, over a stand-in for libnccl that returns at once.

    python benchmarks/interposer.py
    python benchmarks/interposer.py --calls 5000000

The gate is 200 ns a call (RELIABILITY row 15). Three processes take turns: without the interposer,
with it but no log, and with a log large enough for every call; the least of the turns counts. What
a call writes is two records of 64 bytes, so 128 bytes at the bandwidth of the memory are the limit.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import tempfile
from pathlib import Path

SOURCES = Path(__file__).resolve().parents[1] / "native" / "preload"
TURNS = 5


def build(folder: Path) -> None:
    """Compile the interposer, the stand-in and the job as the tests and the package do."""
    shared = ["-shared", "-fPIC", "-fvisibility=hidden"]
    names = ("log", "communicators", "communication", "lifecycle")
    library = str(folder / "libnccl.so.2")
    for words in (
        [*shared, *(str(SOURCES / f"{name}.cpp") for name in names), "-ldl", "-lpthread", "-o",
         str(folder / "interposer.so")],
        [*shared, "-Wl,-soname,libnccl.so.2", str(SOURCES / "tests" / "fake_nccl.cpp"), "-o",
         library],
        [str(SOURCES / "tests" / "job.cpp"), library, f"-Wl,-rpath,{folder}", "-ldl", "-o",
         str(folder / "job")],
    ):  # fmt: skip
        subprocess.run(["g++", "-std=c++17", "-O2", *words], check=True)


def once(folder: Path, calls: int, settings: dict[str, str]) -> float:
    """Run the job once and return nanoseconds per call."""
    command = [str(folder / "job"), "0", "1", f"time:{calls}"]
    with tempfile.TemporaryDirectory() as log:
        more = {name: value.replace("LOG", log) for name, value in settings.items()}
        said = subprocess.run(
            command, env=os.environ | more, check=True, capture_output=True, text=True, timeout=300
        ).stdout
    found = re.search(r"([\d.]+) ns per call", said)
    assert found is not None, said
    return float(found[1])


def main() -> None:
    """Print a line for each setting."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--calls", type=int, default=1_000_000)
    calls = parser.parse_args().calls
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        build(folder)
        loaded = {"LD_PRELOAD": str(folder / "interposer.so")}
        records = {"PLANGUARD_PRELOAD_RECORDS": str(2 * calls + 100)}
        settings: dict[str, dict[str, str]] = {
            "no interposer": {},
            "interposer, no log": loaded,
            "interposer, log": loaded | records | {"PLANGUARD_PRELOAD_LOG": "LOG"},
        }
        turns = [
            {what: once(folder, calls, s) for what, s in settings.items()} for _ in range(TURNS)
        ]
        for what in settings:
            taken = sorted(turn[what] for turn in turns)
            print(
                f"{what:20} {taken[0]:7.1f} ns a call at least, {taken[len(taken) // 2]:.1f} median"
            )


if __name__ == "__main__":
    main()
