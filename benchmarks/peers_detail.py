"""What TORCH_DISTRIBUTED_DEBUG=DETAIL says of a plan, on real gloo processes, in limited time."""

from __future__ import annotations

import hashlib
import json
import os
import time
from typing import TYPE_CHECKING

from peers_rules import NotApplicable

if TYPE_CHECKING:
    from pathlib import Path

VARIABLE = "TORCH_DISTRIBUTED_DEBUG"


class Detail:
    """Plays plans until the time is over; what was played before is read from the results.

    Args:
        results: one line per plan; a plan or a timeout that changed is played again.
        minutes: all plays together; the last one may end some seconds later.
        timeout: seconds without progress after which a play is a hang.
    """

    def __init__(self, results: Path, minutes: float, timeout: float) -> None:
        self.results, self.timeout = results, timeout
        self.until = time.monotonic() + 60 * minutes
        lines = results.read_text().splitlines() if results.exists() else []
        self.known = {line["key"]: line for line in map(json.loads, lines)}

    def ask(self, name: str, path: Path) -> dict:
        """Give the line of a plan: ``seen`` is ``error`` (diagnosed), ``hang`` or ``ends``.

        Raises:
            NotApplicable: it cannot be played, or no time is left.
        """
        digest = hashlib.sha256(path.read_bytes()).hexdigest()[:16]
        key = f"{name} {digest} {self.timeout:g}"
        if key not in self.known:
            if time.monotonic() > self.until:
                raise NotApplicable("no time is left")
            started = time.monotonic()
            seen, why = played(path, self.timeout)
            seconds = time.monotonic() - started
            line = {"key": key, "seen": seen, "why": why, "seconds": seconds}
            self.known[key] = line
            self.results.parent.mkdir(exist_ok=True)
            with self.results.open("a") as file:
                file.write(json.dumps(line) + "\n")
        if not self.known[key]["seen"]:
            raise NotApplicable(self.known[key]["why"])
        return self.known[key]


def played(path: Path, timeout: float) -> tuple[str, str]:
    """Play a plan, and give what was seen and what a rank or the player said; nothing, and why."""
    import planguard

    before = os.environ.get(VARIABLE)
    os.environ[VARIABLE] = "DETAIL"
    try:
        seen = planguard.replay(planguard.load(path), timeout=timeout)
    except planguard.PlanGuardError as error:
        return "", str(error)[:200]
    finally:
        del os.environ[VARIABLE]
        if before is not None:
            os.environ[VARIABLE] = before
    if not seen.ranks:
        return "", seen.reason[:200]
    states = {rank.state for rank in seen.ranks}
    said = next((r.error for r in seen.ranks if r.state in {"error", "signal"}), "")
    if states & {"error", "signal"}:
        return "error", said[:200]
    return ("hang" if states & {"stuck", "late"} else "ends"), ""
