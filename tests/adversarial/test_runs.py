"""Long runs of one character in front of, inside and behind every input: no reader hangs."""

from __future__ import annotations

import gzip
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import planguard as pg
from planguard import registry

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]
SAMPLES = [
    "examples/head-to-head.plan.json",
    "tests/samples/alpa/lazy-3x2.alpa.json",
    "tests/samples/ddp/mlp.ddp.json",
    "tests/samples/deepspeed/pp2-train.deepspeed.json",
    "tests/samples/fsdp/mlp.fsdp.json",
    "tests/samples/fx/tp-mlp.fx.json",
    "tests/samples/hiccl/broadcast-2x4.hiccl.json",
    "tests/samples/horovod/mlp.horovod.json",
    "tests/samples/megatron/no-pipelining.megatron.json",
    "tests/samples/msccl/allgather-ring-4.xml",
    "tests/samples/mscclpp/port-put-2.json",
    "tests/samples/pipelining/gpipe-compute-only-2x4.csv",
    "tests/samples/xla/ring.mlir",
    "tests/samples/xla/collectives.hlo",
]
"""One input of every format that is text."""
PIECES = [
    b"/*", b'"\\', b'\\"', b"{}", b"[[", b"<!--", b"<!-- -->", b"<?xml ?>", b"()", b"//", b"%a",
    b"x=", b"= ", b", ", b'"a"', b"\n ", b"\r\n", b"1x", b"tensor<", b"dense<", b'a="b" ',
    b'"":', b"->", b"\n#", b"\n//", b"0,", b"module ", b'"schema" ', b"1F0,", b"#loc ",
]  # fmt: skip
SECONDS = 20
"""What one input may take, on a busy machine; a quadratic reader takes minutes."""


class SlowError(BaseException):
    """The time of an input is over; no reader catches it."""


@contextmanager
def within(seconds: float, what: object) -> Iterator[None]:
    """End what takes longer."""

    def over(*_: object) -> None:
        raise SlowError(what)

    before = signal.signal(signal.SIGALRM, over)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def runs(length: int) -> Iterator[tuple[bytes, bytes]]:
    """Yield every byte and every piece, with a run of it."""
    for piece in [*(bytes([code]) for code in range(256)), *PIECES]:
        yield piece, (piece * (length // len(piece) + 1))[:length]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
def test_no_sniffer_hangs_on_a_run(packed: bool, tmp_path: Path) -> None:
    """Two MiB of any byte, plain or packed into a few hundred bytes: every adapter says at once
    whether it is its input.
    """
    registry.problems()
    for piece, run in runs(2 << 20):
        for name in ("x.json", "x.xml"):
            path = tmp_path / name
            path.write_bytes(gzip.compress(run, 1) if packed else run)
            with within(SECONDS, piece):
                registry.recognize(str(path))
        if not packed:
            with within(SECONDS, piece):
                registry.recognize(run)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: Path(sample).name)
def test_no_reader_hangs_on_a_run(
    sample: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """64 KiB of any byte before, inside, between two lines of and behind a good input: it is read
    or refused, in time that grows as the input does.

    A single byte takes one of the four places, another one in each sample; ``--slow`` takes all.
    """
    good = (ROOT / sample).read_bytes()
    path = tmp_path / Path(sample).name
    lines = [place + 1 for place, code in enumerate(good) if code == ord("\n")]
    cuts = sorted({0, len(good) // 2, lines[len(lines) // 2] if lines else 1, len(good)})
    takes_all = request.config.getoption("--slow")
    for number, (piece, run) in enumerate(runs(1 << 16), SAMPLES.index(sample)):
        one = number % len(cuts)
        for cut in cuts if takes_all or len(piece) > 1 else cuts[one : one + 1]:
            path.write_bytes(good[:cut] + run + good[cut:])
            with within(SECONDS, (piece, cut)), suppress(pg.PlanGuardError):
                pg.load(str(path))


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
def test_a_plan_behind_blanks_is_decided(packed: bool, tmp_path: Path) -> None:
    """A valid plan after 2 MiB of blanks is read and decided in seconds, also from a gzip file."""
    good = b" " * (2 << 20) + (ROOT / "examples/head-to-head.plan.json").read_bytes()
    path = tmp_path / ("x.plan.json.gz" if packed else "x.plan.json")
    path.write_bytes(gzip.compress(good) if packed else good)
    with within(SECONDS, "blanks"):
        assert pg.check(str(path)).outcome.value == "DEADLOCK"


def test_xml_is_recognized_behind_a_declaration_and_comments() -> None:
    """The sniffer of MSCCL sees through blanks, a declaration and comments, and through no more."""
    msccl = registry.find("msccl")
    for head in (
        b"",
        b"  \n",
        b'<?xml version="1.0"?>\n',
        b"<!-- a --><!-- b\n -->\n",
        b"\xef\xbb\xbf",
    ):
        assert msccl.sniff(head + b'<algo name="x">'), head
    for text in (
        b"<algorithm>",
        b"<!-- <algo x -->",
        b"<!--",
        b"<?xml",
        b"",
        b"x <algo a",
        b"<algo",
    ):
        assert not msccl.sniff(text), text


@pytest.mark.skipif(signal.getsignal(signal.SIGINT) is signal.SIG_IGN, reason="SIGINT is ignored")
def test_ctrl_c_ends_the_reading_of_a_hostile_input(tmp_path: Path) -> None:
    """Ctrl-C in the middle of a long text ends the command with 130 within seconds."""
    good = (ROOT / "tests/samples/xla/ring.mlir").read_bytes()
    path = tmp_path / "ring.mlir"
    path.write_bytes(good[:1520] + b"{}" * (8 << 20) + good[1520:])
    process = subprocess.Popen(
        [sys.executable, "-m", "planguard", "check", str(path)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    time.sleep(4)
    process.send_signal(signal.SIGINT)
    started = time.monotonic()
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (130, "interrupted\n")
    assert time.monotonic() - started < 20
