"""Run a generated script with a hard limit and make sure that nothing of it stays behind."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from planguard.errors import MissingPackageError, ReplayError, UsageError

# Importing torch and connecting the groups happens before the clock of the replay starts.
STARTUP = 180.0
GRACE = 5.0


def run_script(text: str, *, timeout: float, delay_seed: int | None = None) -> dict[str, Any]:
    """Run a generated script once and return what it observed.

    The script starts its ranks itself and stops them; if it cannot, its whole process group is
    killed.

    Args:
        text: Source of the script.
        timeout: Seconds without progress of any rank after which the run counts as stuck.
        delay_seed: Seed of random delays before the actions.

    Returns:
        ``seconds`` and ``ranks``: one state per process, as ``State`` in the script.

    Raises:
        MissingPackageError: There is no torch.
        ReplayError: The script did not start, or did not report in time.
    """
    require_torch()
    ceiling = 30.0 + 6 * timeout
    with tempfile.TemporaryDirectory(prefix="planguard-replay-") as name:
        folder = Path(name)
        script, result, log = folder / "replay.py", folder / "result.json", folder / "log"
        script.write_text(text, encoding="utf-8")
        command = [sys.executable, str(script), "--leash", "--result", str(result)]
        command += ["--timeout", str(timeout), "--ceiling", str(ceiling)]
        if delay_seed is not None:
            command += ["--delay-seed", str(delay_seed)]
        with log.open("wb") as output:
            _run(command, output.fileno(), name, STARTUP + ceiling)
        if not result.exists():
            raise ReplayError(
                f"the replay script did not finish: {_tail(log)}",
                hint="is torch with gloo installed? `python -c 'import torch.distributed'`",
            )
        return dict(json.loads(result.read_text(encoding="utf-8")))


def require_torch() -> None:
    """Refuse a replay where there is no torch, before a process is started that would not find it.

    Raises:
        MissingPackageError: torch is not installed.
    """
    if find_spec("torch") is None:
        raise MissingPackageError("torch", "a replay")


def require_gpus(number: int) -> None:
    """Refuse nccl where there are fewer GPUs than ranks: two ranks cannot share one.

    Args:
        number: Ranks to be played.

    Raises:
        MissingPackageError: There is no torch.
        UsageError: There are too few GPUs.
    """
    require_torch()
    import torch

    found = torch.cuda.device_count()
    if found < number:
        raise UsageError(
            f"backend nccl needs one GPU for each of the {number} ranks; this machine has {found}",
            hint="replay on gloo, which needs none, or on a machine with more GPUs",
        )


def _run(command: list[str], output: int, folder: str, limit: float) -> None:
    """Run a command in a session of its own and clear it away however this function ends."""
    environment = {**os.environ, "TMPDIR": folder}
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=output,
        stderr=output,
        cwd=folder,
        env=environment,
        start_new_session=True,
    )
    try:
        process.wait(timeout=limit)
    except subprocess.TimeoutExpired:
        raise ReplayError(
            f"the replay script did not report within {limit:.0f} s",
            hint="replay with a smaller plan or on an idle machine",
        ) from None
    finally:
        _clear(process)


def _clear(process: subprocess.Popen[bytes]) -> None:
    """End the script and its ranks: ask by closing its leash, then kill the process group."""
    if process.stdin is not None:
        process.stdin.close()
    try:
        process.wait(timeout=GRACE)
    except subprocess.TimeoutExpired:
        pass
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _tail(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return lines[-1] if lines else "it printed nothing"
