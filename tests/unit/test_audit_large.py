"""Inputs of any size and packing: sieved logs, gzip, zstd, standard input, hostile bytes."""

from __future__ import annotations

import gzip
import io
import subprocess
import sys

import pytest
from test_audit_logs import behind, errors

import planguard as pg
from planguard.audit.readers import blocks, files
from planguard.audit.readers.sieve import LONGEST, Sieve

FILLER = "[2026-11-19 10:05:00] iteration 12/ 5000 | loss: 0.651593 | lr: 0.000100\n"
TOLD = "\n".join(behind()) + "\n"


@pytest.fixture
def small(monkeypatch):
    """Texts are sieved from 64 KiB on, in blocks of 4 KiB."""
    monkeypatch.setattr(files, "LARGE", 1 << 16)
    monkeypatch.setattr(blocks, "BLOCK", 1 << 12)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("where", ["start", "middle", "end"])
def test_a_large_log_gives_the_answer_of_its_telling_lines(where, tmp_path):
    """Wherever the telling lines stand in a large log, the answer is theirs."""
    filler = FILLER * 3000
    text = {"start": TOLD + filler, "end": filler + TOLD, "middle": filler + TOLD + filler}[where]
    (tmp_path / "train.log").write_text(text, encoding="utf-8")
    verdict = pg.audit(tmp_path)
    assert errors(verdict) == [("PG007", (2,))]
    assert any("lines were read" in note.message for note in verdict.approximations)


@pytest.mark.usefixtures("small")
def test_tracebacks_are_kept_whole(tmp_path):
    """Frames and the error behind them belong to the headline of a traceback."""
    trace = (
        "Traceback (most recent call last):\n"
        '  File "/w/train.py", line 30, in step\n    loss.backward()\n'
        "ZeroDivisionError: division by zero\n"
    )
    text = FILLER * 2000 + "".join(f"[rank1]: {row}\n" for row in trace.splitlines())
    (tmp_path / "train.log").write_text(text, encoding="utf-8")
    found = pg.audit(tmp_path).findings[0]
    assert found.code == "PG506"
    assert "ZeroDivisionError" in found.message


def test_what_does_not_fit_makes_the_answer_unsure():
    """Of more telling lines than are kept the first and the last are, and that is said."""
    sieve = Sieve(limit=10_000)
    rows = [b"[rank0]: line %06d\n" % number for number in range(5000)]
    sieve.feed([b"".join(rows)[place : place + 777] for place in range(0, 5000 * 22, 777)])
    kept = sieve.kept()
    assert sieve.cut > 0
    assert kept.startswith(rows[0])
    assert kept.endswith(rows[-1])
    assert len(kept) < 20_000


def test_a_line_without_an_end_is_cut_and_the_next_one_is_read():
    """One line of many blocks takes no memory, and what follows it is kept."""
    sieve = Sieve()
    sieve.feed([b"[rank0]: ", *[b"x" * 4096] * 500, b"\n[rank1]: after\n"])
    kept = sieve.kept()
    assert len(kept) < 2 * LONGEST
    assert kept.endswith(b"[rank1]: after\n")


def packed_zstd(data):
    """Bytes compressed with zstd."""
    return pytest.importorskip("zstandard").ZstdCompressor().compress(data)


PACKERS = {
    "gz": gzip.compress,
    "gz-two-members": lambda data: gzip.compress(data[:200]) + gzip.compress(data[200:]),
    "zst": packed_zstd,
}


@pytest.mark.parametrize("packer", sorted(PACKERS))
def test_packed_logs_are_read(packer, tmp_path):
    """gzip, also several members, and zstd are recognized by their first bytes."""
    (tmp_path / "train.log.packed").write_bytes(PACKERS[packer](TOLD.encode()))
    assert errors(pg.audit(tmp_path)) == [("PG007", (2,))]


@pytest.mark.parametrize("packer", ["gz", "zst"])
def test_a_bomb_is_refused_before_it_fills_anything(packer, tmp_path):
    """A few kilobytes that become a gigabyte end in one clear error."""
    bomb = PACKERS[packer](b"\0" * (64 << 20))
    (tmp_path / "a.log").write_bytes(bomb)
    with pytest.raises(pg.PlanError, match="compressed bytes become more than"):
        pg.audit(tmp_path / "a.log")


def test_without_the_package_zstd_is_one_clear_error(monkeypatch, tmp_path):
    """The error says what to install, or how to decompress."""
    monkeypatch.setitem(sys.modules, "zstandard", None)
    (tmp_path / "a.zst").write_bytes(b"\x28\xb5\x2f\xfd" + bytes(20))
    with pytest.raises(pg.PlanError, match="zstandard") as caught:
        pg.audit(tmp_path / "a.zst")
    assert "zstd -dc" in (caught.value.hint or "")


def test_standard_input_is_read(tmp_path):
    """`planguard audit -` reads a pipe."""
    done = subprocess.run(
        [sys.executable, "-m", "planguard", "audit", "-", "--format", "concise"],
        input=TOLD.encode(), capture_output=True, timeout=120, check=False, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 1
    assert b"error[PG007] rank 2 never reached" in done.stdout


HOSTILE = {
    "escapes": "\x1b]0;owned\x07\x1b[2J\x1b[31m[rank0]: Watchdog caught \x1b[8m\x9b1m hidden\n",
    "paths": "[rank0]: Process ../../../etc/passwd: $(touch pwned) `touch pwned`\n",
    "bidi": "[rank0]: \u202e\u2066 Watchdog caught collective operation timeout\n",
    "glued": "[rank0]:" * 20_000 + "\n",
    "deep": "(" * 50_000 + "Watchdog caught" + ")" * 50_000 + "\n",
    "nul": "Watchdog caught\0\0 work sequence id: 9\n",
    "format": "{0.__class__} %s %n [rank999999999999]: Watchdog caught\n",
}


@pytest.mark.parametrize("name", sorted(HOSTILE))
def test_hostile_logs_print_no_escape_and_run_nothing(name, tmp_path):
    """Whatever a log holds, what is printed has no control character, and no file appears."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "job.log").write_text(HOSTILE[name] + TOLD, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "planguard", "audit", "in"],
        capture_output=True, timeout=120, check=False, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode in (0, 1, 3), done.stderr
    shown = (done.stdout + done.stderr).decode()
    assert all(c.isprintable() or c == "\n" for c in shown)
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


def test_a_stream_that_gives_single_bytes_is_recognized():
    """A pipe may give the first bytes of an archive one by one."""
    data = gzip.compress(TOLD.encode())
    parts = blocks._plain(iter([bytes([b]) for b in data]), "-")
    assert b"".join(parts) == TOLD.encode()
    assert b"".join(blocks._stream(io.BytesIO(data))) == data


@pytest.mark.parametrize(
    "text",
    [
        '{"communicators": [{"hash": "a", "size": 1, "ranks": ["../.."]}]}',
        '{"communicators": [{"size": "big"}]}',
        '{"communicators": [{"size": 2, "ranks": [{"rank": 5}]}]}',
    ],
)
def test_a_report_of_ras_with_values_of_other_types_is_one_clear_error(text, tmp_path):
    """Found by fuzzing: a rank that is a text ended in a traceback."""
    (tmp_path / "ras.json").write_text(text)
    with pytest.raises(pg.PlanError):
        pg.audit(tmp_path / "ras.json")


@pytest.mark.parametrize(
    "frame", ['{"name": "f", "locals": 3}', '{"name": 3}', '{"line": "x"}', "7", '{"locals": [1]}']
)
def test_json_stacks_with_values_of_other_types_are_one_clear_error(frame, tmp_path):
    """Found by fuzzing: locals that are a number ended in a traceback."""
    text = f'[{{"pid": 1, "thread_name": "MainThread", "thread_id": 1, "frames": [{frame}]}}]'
    (tmp_path / "stack.rank0.json").write_text(text)
    with pytest.raises(pg.PlanError):
        pg.audit(tmp_path / "stack.rank0.json")
