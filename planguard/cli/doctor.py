"""``planguard doctor``: which kernels are in use, what is installed, what is missing.

Nothing heavy is imported: versions come from package metadata, and torch is asked for its backends
only with ``--probe``, in a process of its own.
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from planguard.errors import shorten

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

Level = Literal["ok", "note", "problem"]

OTHER_GROUPS = ("planguard.reporters", "planguard.executors")
_REQUIRED = ("numpy", "networkx", "z3-solver", "msgspec", "rich")
_OPTIONAL = {
    "torch": "for replay, capture and schedules in memory: install the build of torch you want",
    "hypothesis": "for the plan strategies of planguard.testing: pip install 'planguard[test]'",
}
_PROBE = """
import torch.distributed as d
print(*(name for name in ("gloo", "nccl", "mpi", "ucc") if getattr(d, f"is_{name}_available")()))
"""
_PROBE_SECONDS = 120


@dataclass(frozen=True)
class Line:
    """One thing that was looked at.

    Attributes:
        section: ``tool``, ``kernels``, ``packages``, ``backends`` or ``plug-ins``.
        subject: What was looked at.
        level: ``ok``, ``note`` (works without it) or ``problem`` (something will fail).
        text: What was found.
        hint: How to get what is missing; empty when nothing is.
    """

    section: str
    subject: str
    level: Level
    text: str
    hint: str = ""


_EPILOG = """\
examples:
  planguard doctor                  what is installed, what is missing
  planguard doctor --probe          ask torch for its backends, too
  planguard doctor --format json    for machines

exit codes:
  0 complete   1 something that is needed is missing
"""


class Doctor:
    """Report the state of the installation."""

    name = "doctor"
    help = "Say which kernels are in use, what is installed, what is missing and how to get it."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the arguments of ``planguard doctor``."""
        parser.epilog = _EPILOG
        parser.add_argument("--format", choices=("text", "json"), default="text")
        parser.add_argument(
            "--probe",
            action="store_true",
            help="import torch in a process and ask for its backends",
        )

    def run(self, args: argparse.Namespace) -> int:
        """Print the report; exit code 1 when something that is needed is missing or broken."""
        lines = list(examine(probe=args.probe))
        print(_as_json(lines) if args.format == "json" else _as_text(lines))
        return 1 if any(line.level == "problem" for line in lines) else 0


def examine(*, probe: bool = False) -> Iterator[Line]:
    """Look at the installation, section by section.

    Args:
        probe: Also import torch in a subprocess and ask which backends it was built with.
    """
    yield from _tool()
    yield from _kernels()
    yield from _packages()
    yield from _backends(probe=probe)
    yield from _plug_ins()


def _tool() -> Iterator[Line]:
    from planguard import __version__

    yield Line("tool", "planguard", "ok", __version__)
    yield Line("tool", "Python", "ok", f"{platform.python_version()}, {platform.platform()}")


def _kernels() -> Iterator[Line]:
    try:
        from planguard import kernels
    except ImportError as error:
        reason = shorten(f"{type(error).__name__}: {error}", 200)
        yield Line("kernels", "kernels", "problem", reason, "reinstall planguard")
        return
    reason = kernels.describe().get("reason", "")
    if kernels.IMPLEMENTATION == "native":
        yield Line("kernels", "native", "ok", reason or "planguard._native")
        return
    yield Line(
        "kernels",
        "python",
        "note",
        f"the Python twin is in use: same answers, far slower ({shorten(reason, 200)})",
        "install a C++17 compiler, unset PLANGUARD_PURE and PLANGUARD_KERNELS, remove the build/ "
        "folder of the checkout, install planguard again",
    )


def _packages() -> Iterator[Line]:
    for name in _REQUIRED:
        version = _version(name)
        if version is None:
            yield Line("packages", name, "problem", "missing", f"pip install {name}")
        else:
            yield Line("packages", name, "ok", version)
    for name, why in _OPTIONAL.items():
        version = _version(name)
        yield Line(
            "packages", name, "note" if version is None else "ok", version or "not installed",
            why if version is None else "",
        )  # fmt: skip


def _backends(*, probe: bool) -> Iterator[Line]:
    torch = _version("torch")
    if torch is None:
        text = "none: torch is not installed; checking needs none, replaying does"
        yield Line("backends", "torch.distributed", "note", text, _OPTIONAL["torch"])
    elif probe:
        yield _probe()
    else:
        likely = "gloo" if torch.endswith("+cpu") else "gloo, and nccl where the build has it"
        text = f"{likely} (judged by the version {torch}; --probe asks torch)"
        yield Line("backends", "torch.distributed", "ok", text)


def _probe() -> Line:
    import subprocess

    try:
        done = subprocess.run(  # noqa: S603 - the command is a constant
            [sys.executable, "-c", _PROBE],
            capture_output=True, text=True, timeout=_PROBE_SECONDS, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        text = f"importing torch took more than {_PROBE_SECONDS} s"
        return Line("backends", "torch.distributed", "problem", text, "reinstall torch")
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        return Line(
            "backends", "torch.distributed", "problem", shorten(last, 200), "reinstall torch"
        )
    return Line("backends", "torch.distributed", "ok", ", ".join(done.stdout.split()) or "none")


def _plug_ins() -> Iterator[Line]:
    from planguard import operations, registry

    broken = {problem.entry: problem.reason for problem in registry.problems()}
    for entry in registry.entries():
        yield _plug_in("planners", entry.name, entry.target, broken.pop(entry, None))
    for entry, why in broken.items():  # what a second one of the same name would have been
        yield _plug_in("planners", entry.name, entry.target, why)
    if os.environ.get(registry.NO_PLUGINS, "") not in {"", "0"}:
        yield Line("plug-ins", "third parties", "note", f"turned off by {registry.NO_PLUGINS}")
        return
    wrong = {(problem.name, problem.target): problem.reason for problem in operations.problems()}
    for point in operations.entry_points():
        reason = wrong.get((point.name, point.value))
        yield _plug_in("operations", point.name, point.value, reason)
    for group in OTHER_GROUPS:
        for point in sorted(importlib.metadata.entry_points(group=group), key=lambda p: p.name):
            reason = None
            try:
                point.load()
            except Exception as error:  # noqa: BLE001 - a plug-in may fail in any way
                reason = f"{type(error).__name__}: {error}"
            yield _plug_in(group.rpartition(".")[2], point.name, point.value, reason)


def _plug_in(kind: str, name: str, target: str, reason: str | None) -> Line:
    subject = f"{kind}: {shorten(name)}"
    if reason is None:
        return Line("plug-ins", subject, "ok", shorten(target))
    hint = f"fix or uninstall the package that provides {shorten(target)}"
    return Line("plug-ins", subject, "problem", shorten(reason, 200), hint)


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _as_text(lines: list[Line]) -> str:
    width = max(len(line.subject) for line in lines)
    marks = {"ok": " ", "note": "-", "problem": "!"}
    rows: list[str] = []
    section = ""
    for line in lines:
        if line.section != section:
            section = line.section
            rows.append(section)
        rows.append(f" {marks[line.level]} {line.subject:<{width}}  {line.text}")
        if line.hint:
            rows.append(f"   {'':<{width}}  -> {line.hint}")
    problems = sum(line.level == "problem" for line in lines)
    rows.append(f"{problems} problem{'' if problems == 1 else 's'}")
    return "\n".join(rows)


def _as_json(lines: list[Line]) -> str:
    import json
    from dataclasses import asdict

    return json.dumps([asdict(line) for line in lines], indent=1)
