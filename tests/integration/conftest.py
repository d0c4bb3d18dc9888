"""Builds the interposer and declares an option of the tests with real processes."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

SOURCES = Path(__file__).resolve().parents[2] / "native" / "preload"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare --litmus-all."""
    parser.addoption(
        "--litmus-all",
        action="store_true",
        help="run all litmus programs and 500 random plans on real gloo processes",
    )


def compile_(output, *arguments):
    """Compile with the C++ compiler that the project needs anyway."""
    command = ["g++", "-std=c++17", "-O2", "-o", str(output), *map(str, arguments)]
    subprocess.run(command, check=True, timeout=120)


@pytest.fixture(scope="session")
def built(tmp_path_factory):
    """Build the NCCL interposer, the stand-in for libnccl and the job that calls it."""
    folder = tmp_path_factory.mktemp("preload")
    shared = ["-shared", "-fPIC", "-fvisibility=hidden"]
    log = SOURCES / "log.cpp"
    interposer = [
        log,
        *(SOURCES / f"{name}.cpp" for name in ("communicators", "communication", "lifecycle")),
    ]
    compile_(folder / "libplanguard_preload.so", *shared, *interposer, "-ldl", "-lpthread")
    profiler = [log, SOURCES / "profiler.cpp"]
    compile_(folder / "libnccl-profiler-planguard.so", *shared, *profiler, "-lpthread")
    compile_(folder / "profiler_host", SOURCES / "tests" / "profiler_host.cpp", "-ldl")
    compile_(
        folder / "libnccl.so.2", *shared, "-Wl,-soname,libnccl.so.2",
        SOURCES / "tests" / "fake_nccl.cpp",
    )  # fmt: skip
    compile_(
        folder / "libjob.so", "-shared", "-fPIC", SOURCES / "tests" / "job.cpp",
        folder / "libnccl.so.2", f"-Wl,-rpath,{folder}", "-ldl",
    )  # fmt: skip
    compile_(
        folder / "job", SOURCES / "tests" / "job.cpp", folder / "libnccl.so.2",
        f"-Wl,-rpath,{folder}", "-ldl",
    )  # fmt: skip
    return folder
