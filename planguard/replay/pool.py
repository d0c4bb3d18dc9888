"""Many replays, several at a time, from one process that has imported torch.

Importing torch takes seconds, a replay of a small plan a fraction of one. The server of a pool
imports torch once; every script runs in a fork of it, with the same watcher and the same hard
limits as a script of its own.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import types
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, Self

from planguard.errors import ReplayError
from planguard.replay.launch import require_torch

if TYPE_CHECKING:
    from collections.abc import Sequence

STARTUP = 120.0
GRACE = 5.0


@dataclass(frozen=True)
class Job:
    """One script to run.

    Attributes:
        text: Source of the script.
        timeout: Seconds without progress of any rank after which the run counts as stuck.
        delay_seed: Seed of random delays before the actions; None for none.
    """

    text: str
    timeout: float
    delay_seed: int | None = None


class Pool:
    """A server that runs generated scripts; use it as a context manager.

    Args:
        parallel: Scripts that run at the same time.
    """

    def __init__(self, parallel: int = 4) -> None:
        self.parallel = parallel
        self._server: subprocess.Popen[str] | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def __enter__(self) -> Self:
        """Start the server.

        Raises:
            MissingPackageError: There is no torch.
        """
        require_torch()
        self._folder = tempfile.TemporaryDirectory(prefix="planguard-pool-")
        self._server = subprocess.Popen(
            [sys.executable, "-m", "planguard.replay.pool", str(self.parallel)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=self._folder.name,
            env={**os.environ, "TMPDIR": self._folder.name},
            text=True,
            start_new_session=True,
        )
        return self

    def __exit__(self, *_: object) -> None:
        """Stop the server and whatever it still runs."""
        assert self._server is not None  # noqa: S101  set on entry
        assert self._folder is not None  # noqa: S101  set on entry
        for stream in (self._server.stdin, self._server.stdout):
            if stream is not None:
                stream.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._server.wait(GRACE)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._server.pid, signal.SIGKILL)
        self._server.wait()
        self._folder.cleanup()

    def run(self, jobs: Sequence[Job]) -> list[dict[str, Any]]:
        """Run scripts and return what each observed, in the same order (see ``run_script``).

        Raises:
            ReplayError: The server ended, or a script did not report.
        """
        assert self._server is not None  # noqa: S101  set on entry
        assert self._server.stdin is not None  # noqa: S101  a pipe
        assert self._server.stdout is not None  # noqa: S101  a pipe
        request = [[job.text, job.timeout, job.delay_seed] for job in jobs]
        try:
            self._server.stdin.write(json.dumps(request) + "\n")
            self._server.stdin.flush()
            answer = self._server.stdout.readline()
        except BrokenPipeError:
            answer = ""
        if not answer:
            raise ReplayError(
                "the pool of replays ended",
                hint="is torch with gloo installed? `python -c 'import torch.distributed'`",
            )
        results: list[dict[str, Any]] = json.loads(answer)
        for result in results:
            if "ranks" not in result:
                raise ReplayError(f"the replay script did not finish: {result.get('error', '')}")
        return results


# --- the server ----------------------------------------------------------------------------------


@dataclass
class _Running:
    number: int
    pid: int
    folder: tempfile.TemporaryDirectory[str]
    leash: int
    end: int
    limit: float


class _Server:
    def __init__(self, parallel: int) -> None:
        self.parallel = parallel
        self.selector = selectors.DefaultSelector()
        self.running: list[_Running] = []

    def serve(self, request: list[list[Any]]) -> list[dict[str, Any]]:
        results: list[dict[str, Any]] = [{} for _ in request]
        waiting = list(enumerate(request))[::-1]
        while waiting or self.running:
            while waiting and len(self.running) < self.parallel:
                number, job = waiting.pop()
                self.start(number, *job)
            self.selector.select(0.5)
            for one in list(self.running):
                ended, _ = os.waitpid(one.pid, os.WNOHANG)
                if not ended and time.monotonic() < one.limit:
                    continue
                results[one.number] = self.finish(one, ended=bool(ended))
        return results

    def start(self, number: int, text: str, timeout: float, seed: int | None) -> None:
        folder = tempfile.TemporaryDirectory(prefix="job-")
        held, leash = os.pipe()
        end, ending = os.pipe()
        pid = os.fork()
        if pid == 0:
            for fd in (leash, end, *(one.leash for one in self.running)):
                os.close(fd)
            _be_script(text, timeout, seed, Path(folder.name), held)
        os.close(held)
        os.close(ending)
        limit = time.monotonic() + STARTUP + 30 + 8 * timeout
        self.running.append(_Running(number, pid, folder, leash, end, limit))
        self.selector.register(end, selectors.EVENT_READ)

    def finish(self, one: _Running, *, ended: bool) -> dict[str, Any]:
        self.running.remove(one)
        self.selector.unregister(one.end)
        os.close(one.leash)
        os.close(one.end)
        if not ended:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(one.pid, signal.SIGKILL)
            os.waitpid(one.pid, 0)
        folder = Path(one.folder.name)
        result = folder / "result.json"
        found: dict[str, Any] = {"error": _last_line(folder / "log")}
        if result.exists():
            found = json.loads(result.read_text(encoding="utf-8"))
        one.folder.cleanup()
        return found


def _be_script(text: str, timeout: float, seed: int | None, folder: Path, held: int) -> NoReturn:
    """Run one script in a forked process, as ``python replay.py`` would; never returns."""
    code = 1
    try:
        os.setpgid(0, 0)
        os.dup2(held, 0)
        with (folder / "log").open("wb") as log:
            os.dup2(log.fileno(), 1)
            os.dup2(log.fileno(), 2)
        ceiling = 30.0 + 6 * timeout
        arguments = ["replay.py", "--leash", "--result", str(folder / "result.json")]
        arguments += ["--timeout", str(timeout), "--ceiling", str(ceiling)]
        sys.argv = arguments + ([] if seed is None else ["--delay-seed", str(seed)])
        tempfile.tempdir = str(folder)
        module = types.ModuleType("__main__")
        sys.modules["__main__"] = module  # dataclasses look their module up by name
        exec(compile(text, "replay.py", "exec"), module.__dict__)  # noqa: S102  written by us
    except SystemExit as leaving:
        code = leaving.code if isinstance(leaving.code, int) else 1
    except BaseException:  # noqa: BLE001 - the last line of the log says what it was
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _last_line(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").split("\n") if log.exists() else []
    return next((line for line in reversed(lines) if line.strip()), "it printed nothing")


def main() -> int:
    """Serve requests from standard input until it closes."""
    import torch
    import torch.distributed

    torch.set_num_threads(1)
    server = _Server(int(sys.argv[1]))
    for line in sys.stdin:
        sys.stdout.write(json.dumps(server.serve(json.loads(line))) + "\n")
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
