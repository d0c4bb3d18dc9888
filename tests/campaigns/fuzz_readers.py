"""Coverage-guided fuzzing of everything that reads a file: bad bytes end in one clear error.

    python tests/campaigns/fuzz_readers.py                        # every reader, 20 s each
    python tests/campaigns/fuzz_readers.py --seconds 3600 plan    # one of them, an hour
    python tests/campaigns/fuzz_readers.py --list
    python tests/campaigns/fuzz_readers.py --check-limits         # are the limits enforced?
    python tests/campaigns/fuzz_readers.py --sum                  # all runs so far, for each reader

Needs atheris (``pip install atheris``). Each reader runs in a process of its own, from the samples
of the repository, half of the inputs changed byte by byte, half in their structure: values of a
JSON document or of a pickle, tokens of a text. A finding is an exception other than PlanError and
UsageError, 10 s for one input, or 1 GiB of memory; it ends the reader's run, and the input is kept
in results/fuzz/READER. Inputs that reached something new are kept there too, and the next run goes
on from them with another seed, so that an hour may be made of several runs; remove them after a
change of the reader.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import pickle
import random
import re
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fuzz_ledger import FORMATS, LEDGER, RESULTS, line, runs, total
from fuzz_seeds import seeds_of

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).resolve().parents[2]
SAMPLES = ROOT / "tests" / "samples"
DUMPS = ROOT / "tests" / "corpus" / "dumps"
LARGEST = 60_000
"""Bytes of a seed: larger samples make every run slow and find nothing more."""
SECONDS_AN_INPUT = 10
MEBIBYTES = 1024
TOKEN = re.compile(r"\w+|\s+|[^\w\s]")
HOSTILE = (
    None, True, -1, 0, 2**31, 2**63, 2**64, 1.5, "", "x" * 300, "<script>", "\u202e", "../..", [],
    {}, [[[]]], {"": 0}, "world", "all_reduce", "all",
)  # fmt: skip


@dataclass(frozen=True)
class Reader:
    """What is fuzzed: the reader, its samples, and the name its file must have."""

    read: Callable[[Path], object]
    seeds: tuple[str, ...]
    file: str
    beside: str = ""
    """A folder whose other files stand beside the changed one."""


def load(planner: str | None = None, *, whole: bool = False) -> Callable[[Path], object]:
    """A reader of plans; ``whole`` gives the adapter the folder instead of the file."""

    def read(path: Path) -> object:
        import planguard

        return planguard.load(path.parent if whole else path, planner=planner)

    return read


def dump(name: str) -> Callable[[Path], object]:
    """A reader of recordings, by the function that reads the bytes."""

    def read(path: Path) -> object:
        from importlib import import_module

        module, _, function = name.partition(":")
        found = getattr(import_module(f"planguard.audit.readers.{module}"), function)
        return found(path.read_bytes(), str(path))

    return read


def run_log(path: Path) -> object:
    """The log of a recorded run."""
    from planguard.capture.run.reading import recording_of_run

    return recording_of_run(path)


def shim_log(path: Path) -> object:
    """The log of the NCCL interposer."""
    from planguard.capture.nccl.preload import read_logs

    return read_logs([path])


def mpi_log(path: Path) -> object:
    """The log of one rank of an MPI program, beside that of another rank, as a plan."""
    from fuzz_seeds import mpi_logs

    import planguard
    from planguard.capture.mpi.reading import read_mpi

    other = path.parent / "other.pglog"
    if not other.exists():
        other.write_bytes(list(mpi_logs())[1])
    return planguard.load(read_mpi([path, other]).document)


def packed(path: Path) -> object:
    """What decompresses inputs."""
    from planguard.audit.readers.blocks import blocks

    return sum(map(len, blocks(path)))


def sieved(path: Path) -> object:
    """The sieve of large logs, block by block, and the readers of what it keeps."""
    from planguard.audit.readers.sieve import Sieve
    from planguard.audit.readers.texts import read_text

    data, sieve = path.read_bytes(), Sieve(limit=4096)
    sieve.feed(data[at : at + 61] for at in range(0, len(data), 61))
    return read_text(sieve.kept(), str(path))


def snapshot(path: Path) -> object:
    """Snapshots of torch's allocator."""
    from planguard.audit.readers.snapshot import read_snapshot

    return read_snapshot(path.read_bytes(), str(path), "s")


def certificate(path: Path) -> object:
    """The checkers of certificates: whatever the shape, they accept, reject or say malformed."""
    from planguard.certificate.__main__ import MALFORMED
    from planguard.certificate.agreement import RejectedError
    from planguard.certificate.format import digest, encode
    from planguard.certificate.verify import verify

    with contextlib.suppress(RejectedError, *MALFORMED):
        both = json.loads(path.read_bytes())
        plan = json.dumps(both["plan"]).encode()
        return verify(plan, encode(both["proof"] | {"plan_sha256": digest(plan)}))
    return None


def samples(planner: str, pattern: str) -> tuple[str, ...]:
    """Sample files of an adapter."""
    return tuple(str(path) for path in sorted((SAMPLES / planner).glob(pattern)))


def readers() -> dict[str, Reader]:
    """Every reader by name."""
    found = {
        name: Reader(load(name), samples(name, f"*.{suffix}"), f"input.{suffix}")
        for name, suffix in (
            ("alpa", "alpa.json"), ("ddp", "ddp.json"), ("deepspeed", "deepspeed.json"),
            ("fsdp", "fsdp.json"), ("fx", "fx.json"), ("galvatron", "galvatron.json"),
            ("hiccl", "hiccl.json"),
            ("horovod", "horovod.json"), ("megatron", "megatron.json"), ("mscclpp", "json"),
            ("msccl", "xml"), ("pipelining", "csv"),
        )
    }  # fmt: skip
    plans = tuple(str(path) for path in sorted((ROOT / "tests" / "corpus").rglob("*.plan.json")))
    found["plan"] = Reader(load(), plans, "input.plan.json")
    found["xla"] = Reader(load("xla"), samples("xla", "*.hlo"), "input.hlo")
    found["mlir"] = Reader(load("xla"), samples("xla", "*.mlir"), "input.mlir")
    folder = str(SAMPLES / "chakra" / "hybrid")
    seeds = samples("chakra", "*/*.0.et")
    found["chakra"] = Reader(load("chakra", whole=True), seeds, "hybrid.0.et", folder)
    folder = str(SAMPLES / "nnscaler" / "mlp-dp4")
    seeds = samples("nnscaler", "*/gencode0.py")
    found["nnscaler"] = Reader(load("nnscaler", whole=True), seeds, "gencode0.py", folder)
    zips = tuple(str(path) for path in sorted(DUMPS.glob("*.zip")))
    for name, function in (
        ("flight-recorder", "flight_recorder:read_flight_recorder"),
        ("kineto", "kineto:read_kineto"),
        ("execution-trace", "execution_trace:read_execution_trace"),
        ("nccl-log", "nccl_log:read_nccl_log"),
        ("own-log", "own_log:read_own_log"),
        ("stacks", "stacks:read_json_stacks"),
        ("text", "texts:read_text"),
        ("ras", "ras:read_ras_json"),
        ("clog", "clog:read_clog"),
        ("chakra-trace", "chakra:read_chakra"),
    ):
        found[name] = Reader(dump(function), zips, "input")
    found["packed"] = Reader(packed, (), "input")
    found["sieve"] = Reader(sieved, (), "input")
    found["snapshot"] = Reader(snapshot, (), "input.pickle")
    found["run-log"] = Reader(run_log, (), "input.pgrun")
    found["shim-log"] = Reader(shim_log, (), "input.pglog")
    found["mpi-log"] = Reader(mpi_log, (), "input.pglog")
    found["certificate"] = Reader(certificate, (), "input")
    return found


def planted() -> dict[str, Reader]:
    """Readers that break a limit or raise, to see that it is noticed."""

    def slow(path: Path) -> object:
        end = time.monotonic() + 3 * SECONDS_AN_INPUT
        while path.stat().st_size and time.monotonic() < end:
            pass
        return None

    def stuck(path: Path) -> object:
        tower: tuple[object, ...] = ()
        for _ in range(64 if path.stat().st_size else 0):
            tower = (tower, tower)
        return hash(tower)  # one instruction of the interpreter that no handler of it can end

    def large(path: Path) -> object:
        return b"x" * (2 * MEBIBYTES << 20) if path.stat().st_size else None

    def raising(path: Path) -> object:
        return {}[path.stat().st_size]

    made = {"slow": slow, "stuck": stuck, "large": large, "raising": raising}
    return {"planted-" + name: Reader(read, (), "input") for name, read in made.items()}


def fuzz(name: str, folder: str, seconds: int) -> None:
    """Fuzz one reader in this process; never returns."""
    import atheris

    # An editable install imports by a loader of its own, which cannot be instrumented.
    sys.meta_path[:] = [finder for finder in sys.meta_path if "Redirecting" not in repr(finder)]
    reader = (readers() | planted())[name]
    if reader.beside:
        for other in Path(reader.beside).iterdir():
            if other.name != reader.file:
                (Path(folder) / other.name).write_bytes(other.read_bytes())
    with atheris.instrument_imports(include=["planguard"]):
        import planguard  # noqa: F401
        from planguard.errors import PlanError, UsageError

        path = Path(folder) / reader.file
        seeds = Path(folder) / "seeds"
        seeds.mkdir()
        for number, data in enumerate(seeds_of(name, reader.seeds)):
            if len(data) <= LARGEST:
                (seeds / str(number)).write_bytes(data)
                path.write_bytes(data)  # what a reader imports late is instrumented too
                _quietly(reader, path, (PlanError, UsageError))

    for data in (b"1.5", b"{}", b"<", b"\x80"):  # what recognizes a file is loaded with the first
        path.write_bytes(data)
        _quietly(reader, path, (PlanError, UsageError))

    def one(data: bytes) -> None:
        path.write_bytes(data)
        with contextlib.suppress(PlanError, UsageError):
            reader.read(path)
        # The engine looks at the memory once a second, the system at every page.
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
        if peak > MEBIBYTES:
            raise MemoryError(f"{peak} MiB are more than {MEBIBYTES}")

    kept, corpus = RESULTS / name, RESULTS / name / "corpus"
    corpus.mkdir(parents=True, exist_ok=True)
    number = 1 + sum(row["reader"] == name for row in runs())
    settings = [f"-max_total_time={seconds}", f"-timeout={SECONDS_AN_INPUT}", f"-seed={number}"]
    settings += [f"-rss_limit_mb={MEBIBYTES}"]
    settings += [f"-artifact_prefix={kept}/", f"-max_len={LARGEST}", "-print_final_stats=1"]
    atheris.Setup(["fuzz", *settings, str(corpus), str(seeds)], one, custom_mutator=mutated)
    atheris.Fuzz()


def _quietly(reader: Reader, path: Path, known: tuple[type[Exception], ...]) -> None:
    with contextlib.suppress(*known):
        reader.read(path)


def mutated(data: bytes, limit: int, seed: int) -> bytes:
    """Change an input: its bytes, or every second time its structure."""
    import atheris

    rng = random.Random(seed)
    if rng.random() < 0.5:
        changed = _restructured(data, rng)
        if changed is not None and len(changed) <= limit:
            return changed
    return bytes(atheris.Mutate(data, limit))


def _restructured(data: bytes, rng: random.Random) -> bytes | None:
    """Change a JSON value, a value of a pickle, or tokens of a text; None if it is none of them."""
    from planguard.audit.readers.safe import load_pickle
    from planguard.errors import PlanError

    try:
        return json.dumps(_inside(json.loads(data), rng)).encode()
    except (ValueError, RecursionError):
        pass
    try:
        if data[:1] == b"\x80":
            return pickle.dumps(_inside(load_pickle(data, ""), rng), rng.randrange(6))
        return _tokens(data.decode(), rng).encode() if data else None
    except (ValueError, PlanError, RecursionError, pickle.PicklingError):
        return None


def _tokens(text: str, rng: random.Random) -> str:
    """Change tokens of a text: leave out, repeat, swap, nest, or put a hostile value in."""
    tokens = TOKEN.findall(text) or [text]
    at, other = rng.randrange(len(tokens)), rng.randrange(len(tokens))
    end = min(len(tokens), at + rng.choice([1, 2, 8, 64]))
    what = rng.randrange(5)
    if what == 0:
        del tokens[at:end]
    elif what == 1:
        tokens[other:other] = tokens[at:end]
    elif what == 2:
        tokens[at], tokens[other] = tokens[other], tokens[at]
    elif what == 3:
        tokens[at] = tokens[at] * rng.choice([2, 100, 3000])
    else:
        tokens[at] = str(rng.choice(HOSTILE))
    return "".join(tokens)


def _inside(value: Any, rng: random.Random) -> Any:
    """Change one place of a JSON value, chosen from the top down."""
    if not isinstance(value, dict | list) or not value or rng.random() < 0.1:
        return rng.choice(HOSTILE)
    key = rng.choice(list(value) if isinstance(value, dict) else range(len(value)))
    what = rng.random()
    if what < 0.1:
        kept = value.pop(key)
        if isinstance(value, dict):
            value[rng.choice([str(key) + "x", "", "op", "ranks"])] = kept
    elif what < 0.2 and isinstance(value, list):
        value.insert(rng.randrange(len(value)), value[key])
    else:
        value[key] = _inside(value[key], rng)
    return value


def main() -> None:
    """Fuzz the readers one after another, and say what each found."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("readers", nargs="*", metavar="READER")
    parser.add_argument("--seconds", type=int, default=20, help="for each reader")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--check-limits", action="store_true", help="plant readers that break them")
    parser.add_argument("--sum", action="store_true", help="all runs so far, for each reader")
    parser.add_argument("--inside", metavar="FOLDER", help=argparse.SUPPRESS)
    args = parser.parse_args()
    known = readers()
    if args.list:
        print("\n".join(known))
        return
    if args.sum:
        print(total(runs()))
        return
    if args.inside:
        fuzz(args.readers[0], args.inside, args.seconds)
    if args.check_limits:
        noticed = [report(name, 60) for name in planted()]
        sys.exit(int(not all(noticed)))
    assert sorted(known) == sorted(name for names in FORMATS.values() for name in names)
    unknown = set(args.readers) - set(known)
    if unknown:
        parser.error(f"no reader {min(unknown)}; --list names them")
    found = [report(name, args.seconds) for name in args.readers or known]
    sys.exit(int(any(found)))


def report(name: str, seconds: int) -> bool:
    """Fuzz one reader in a process of its own and print a line; True if it found something."""
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, __file__, name, "--inside", folder, "--seconds", str(seconds)]
        try:
            done = subprocess.run(
                command, text=True, timeout=seconds * 2 + 300, check=False, cwd=ROOT,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                env=os.environ | {"PYTHONPATH": str(ROOT)},
            )  # fmt: skip
            said, code = done.stdout, done.returncode
        except (
            subprocess.TimeoutExpired
        ) as late:  # neither its own time nor that of an input ended it
            said, code = bytes(late.stdout or b"").decode(errors="replace"), -1
    row = {
        "reader": name,
        "seconds": round(time.monotonic() - begin),
        "inputs": int(([0, *re.findall(r"number_of_executed_units:\s*(\d+)", said)])[-1]),
        "branches": int(([0, *re.findall(r"cov: (\d+)", said)])[-1]),
        "MiB": int(([0, *re.findall(r"peak_rss_mb:\s*(\d+)", said)])[-1]),
        "slowest": int(([0, *re.findall(r"slowest_unit_time_sec:\s*(\d+)", said)])[-1]),
        "found": code != 0 or "number_of_executed_units" not in said,
    }
    if not name.startswith("planted"):
        LEDGER.parent.mkdir(parents=True, exist_ok=True)
        with LEDGER.open("a") as stream:
            stream.write(json.dumps(row) + "\n")
    print(line(row), flush=True)
    if row["found"]:
        print("\n".join(said.splitlines()[-40:]))
    return bool(row["found"])


if __name__ == "__main__":
    main()
