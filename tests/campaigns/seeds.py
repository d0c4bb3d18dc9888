"""Run the tests behind every row of docs/seeds.md, and write the page.

    python tests/campaigns/seeds.py                    # all rows, and the page
    python tests/campaigns/seeds.py --only "table 3"   # the rows, or tests, whose name has these
    python tests/campaigns/seeds.py --open             # the rows whose tests have not all passed
    python tests/campaigns/seeds.py --write            # the page alone, from the stored results
    python tests/campaigns/seeds.py --check            # is the page what --write would give?

The rows and the head of the page are data/seeds.toml; what their tests gave is stored in
data/seeds.json, with the day, the state of the source and the machine of each. What a row shows is
the docstring of its tests. Ends with 1 if a row that says W has a test that did not pass, or, with
``--check``, if the page differs; interrupted, with 130, and what finished parts gave is stored.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import json
import os
import platform
import signal
import subprocess
import sys
import time
import tomllib
from collections import Counter
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from xml.etree import ElementTree as ET

from planguard.words import plural

ROOT = Path(__file__).resolve().parents[2]
ROWS = Path(__file__).parent / "data" / "seeds.toml"
RESULTS = ROWS.with_suffix(".json")
PAGE = ROOT / "docs" / "seeds.md"
SYSTEMS = ("dl2", "Intel Trace Collector", "ComScribe", "Visual Diagnostics")
STATES = {"W": "works", "w": "works for a part", "N": "needs a GPU or NCCL"}
PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"


@dataclass(frozen=True)
class Row:
    """A capability or claim of one of the papers.

    Attributes:
        system: Which paper.
        capability: What it can do, or says.
        state: A key of ``STATES``.
        tests: Node ids of the tests that show it here, without parameters.
        short: What falls short, or what the test does not say.
    """

    system: str
    capability: str
    state: str
    tests: tuple[str, ...]
    short: str = ""


def data() -> dict[str, Any]:
    """Return the head of the page and its rows, as they are written down."""
    return tomllib.loads(ROWS.read_text(encoding="utf-8"))


def rows() -> list[Row]:
    """Return all rows, in the order of the page."""
    return [Row(**{**one, "tests": tuple(one["tests"])}) for one in data()["row"]]


def results() -> dict[str, dict[str, Any]]:
    """Return what each test gave when it last ran, by node id."""
    return dict(json.loads(RESULTS.read_text(encoding="utf-8"))) if RESULTS.exists() else {}


# --- running -------------------------------------------------------------------------------------


def groups(tests: list[str]) -> list[list[str]]:
    """Return tests by folder, each for one process of pytest."""
    found: dict[str, list[str]] = {}
    for test in dict.fromkeys(tests):
        found.setdefault(test.rsplit("/", 1)[0], []).append(test)
    return list(found.values())


def run(tests: list[str]) -> dict[str, dict[str, Any]]:
    """Run tests in one process and return what each gave.

    Raises:
        KeyboardInterrupt: Interrupted; the process has ended.
    """
    with TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [
            *(sys.executable, "-m", "pytest", "--slow", "-v", "-p", "no:cacheprovider"),
            "--timeout=600",  # a busy machine is no failing row
            *("-o", "junit_family=xunit1", f"--junitxml={report}", *tests),
        ]
        # A session of its own, so that what tests started is ended with them.
        process = subprocess.Popen(command, cwd=ROOT, start_new_session=True)
        try:
            process.wait()
        except KeyboardInterrupt:
            _end(process)
            raise
        return read_report(report.read_bytes() if report.exists() else b"<none/>", tests)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Interrupt pytest, wait until it has cleaned up, and end what it left behind."""
    process.send_signal(signal.SIGINT)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout=10)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def read_report(report: bytes, tests: list[str]) -> dict[str, dict[str, Any]]:
    """Return what each test gave, from pytest's report; one that is not in it has failed."""
    cases: dict[str, list[ET.Element]] = {test: [] for test in tests}
    for case in ET.fromstring(report).iter("testcase"):  # noqa: S314 - pytest wrote it
        name = f"{case.get('file')}::{str(case.get('name')).partition('[')[0]}"
        cases.setdefault(name, []).append(case)
    about = {"day": time.strftime("%Y-%m-%d"), "revision": revision(), "on": machine()}
    return {test: _outcome(cases[test]) | about for test in tests}


def _outcome(cases: list[ET.Element]) -> dict[str, Any]:
    """Return what the cases of one test gave together."""
    counts: Counter[str] = Counter()
    reasons: list[str] = []
    for case in cases:
        bad = next(
            (case.find(kind) for kind in ("failure", "error") if case.find(kind) is not None), None
        )
        skip = case.find("skipped")
        counts[FAILED if bad is not None else PASSED if skip is None else SKIPPED] += 1
        reasons += [str(one.get("message")) for one in (bad, skip) if one is not None]
    outcome = FAILED if counts[FAILED] or not cases else SKIPPED if not counts[PASSED] else PASSED
    return {
        "outcome": outcome,
        "counts": {kind: counts[kind] for kind in (PASSED, FAILED, SKIPPED) if counts[kind]},
        "reason": " ".join("; ".join(dict.fromkeys(reasons)).split())[:200],
        "seconds": round(sum(float(case.get("time") or 0) for case in cases), 1),
    }


def revision() -> str:
    """Return the state of the source, as git names it; "" outside of a checkout."""
    command = ["git", "describe", "--always", "--dirty=+changes", "--exclude=*"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip()


def machine() -> str:
    """Return what the tests run on, without what names a machine."""
    torch = metadata.version("torch").partition("+")[0]
    return (
        f"CPython {platform.python_version()}, torch {torch}, {platform.system()} on "
        f"{platform.machine()}, {os.cpu_count()} cores, no GPU"
    )


# --- the page ------------------------------------------------------------------------------------


def claim(test: str) -> str:
    """Return the docstring of a test.

    Raises:
        LookupError: There is no such test, or it claims nothing.
    """
    file, _, name = test.partition("::")
    for node in ast.walk(ast.parse((ROOT / file).read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef) and node.name == name:
            said = " ".join((ast.get_docstring(node) or "").split())
            if said:
                return said.replace("``", "`").replace("|", "\\|")
    raise LookupError(test)


def page(every: list[Row], stored: dict[str, dict[str, Any]]) -> str:
    """Return the page's text."""
    parts = [data()["head"], _when(every, stored)]
    for system in SYSTEMS:
        parts.append(f"## {system}\n")
        parts.append(
            "| capability or claim | | shows | by | what falls short |\n|---|---|---|---|---|"
        )
        parts += [_line(row, stored) for row in every if row.system == system]
        parts.append("")
    return "\n".join(parts)


def _when(every: list[Row], stored: dict[str, dict[str, Any]]) -> str:
    """Return what was run when, and on what."""
    tests = list(dict.fromkeys(test for row in every for test in row.tests))
    ran: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for one in (stored[test] for test in tests if test in stored):
        ran.setdefault((one["day"], one["revision"], one["on"]), []).append(one)
    lines = []
    for (day, at, on), own in sorted(ran.items()):
        counts = Counter(one["outcome"] for one in own)
        said = ", ".join(
            f"{counts[kind]} {kind}" for kind in (PASSED, FAILED, SKIPPED) if counts[kind]
        )
        seconds = sum(one["seconds"] for one in own)
        lines.append(
            f"* {day}, at {at or 'an unknown revision'}, {on}: {plural(len(own), 'test')}, {said}, "
            f"{seconds:,.0f} s."
        )
    states = Counter(row.state for row in every)
    total = ", ".join(f"{states[state]} {state}" for state in STATES if states[state])
    return "\n".join([f"{len(every)} rows: {total}. Run on\n", *lines, ""])


def _line(row: Row, stored: dict[str, dict[str, Any]]) -> str:
    """Return the row as a line of its table."""
    shows = " ".join(claim(test) for test in row.tests)
    by = "<br>".join(f"`{test}` {_ran(stored.get(test))}" for test in row.tests)
    return f"| {row.capability} | {row.state} | {shows} | {by} | {row.short} |"


def _ran(one: dict[str, Any] | None) -> str:
    if one is None:
        return "not run"
    counts = one["counts"]
    many = ", ".join(f"{count} {kind}" for kind, count in counts.items())
    said = many if sum(counts.values()) > 1 else one["outcome"]
    why = f" ({one['reason']})" if one["reason"] else ""
    return f"{said}{why}, {one['seconds']:g} s".replace("|", "\\|")


def broken(every: list[Row], stored: dict[str, dict[str, Any]]) -> list[str]:
    """Return what is wrong with rows: one that says W and does not, one that does not say why."""
    found = []
    for row in every:
        if row.state not in STATES or row.system not in SYSTEMS:
            found.append(f"{row.capability}: no such state or system")
        if row.state == "W" and not row.tests:
            found.append(f"{row.capability}: W without a test")
        if row.state != "W" and not row.short:
            found.append(f"{row.capability}: {row.state} without what falls short")
        for test in row.tests if row.state == "W" else ():
            outcome = stored[test]["outcome"] if test in stored else "not run"
            if outcome != PASSED:
                found.append(f"{row.capability}: W, but {test} {outcome}")
    return found


# --- the command ---------------------------------------------------------------------------------


def main(arguments: list[str] | None = None) -> int:
    """Run, store, write; or write, or check alone."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument(
        "--only", nargs="+", metavar="WORDS", help="rows whose name has these words"
    )
    parser.add_argument("--open", action="store_true", help="rows whose tests have not all passed")
    parser.add_argument("--write", action="store_true", help="write the page, run nothing")
    parser.add_argument("--check", action="store_true", help="compare the page, run nothing")
    asked = parser.parse_args(arguments)
    every, stored = rows(), results()
    is_whole = True
    if not (asked.write or asked.check):
        chosen = [row for row in every if _is_asked(row, asked, stored)]
        if not chosen:
            parser.error("no such row; the names are the first column of docs/seeds.md")
        is_whole = _run_all(chosen, stored)
        _summary(chosen, stored)
    text = page(every, stored)
    if asked.check:
        is_same = PAGE.read_text(encoding="utf-8") == text
        print(
            "docs/seeds.md is as it would be written"
            if is_same
            else "docs/seeds.md differs: --write"
        )
        return 0 if is_same and not broken(every, stored) else 1
    PAGE.write_text(text, encoding="utf-8")
    wrong = broken(every, stored)
    print("\n".join([f"wrote {PAGE.name}", *wrong]))
    return (1 if wrong else 0) if is_whole else 130


def _is_asked(row: Row, asked: argparse.Namespace, stored: dict[str, dict[str, Any]]) -> bool:
    names = (row.capability, *row.tests)
    if asked.only and not any(words in name for words in asked.only for name in names):
        return False
    passed = all(stored.get(test, {}).get("outcome") == PASSED for test in row.tests)
    return not (asked.open and passed)


def _run_all(chosen: list[Row], stored: dict[str, dict[str, Any]]) -> bool:
    """Run the tests of rows; after each process what it gave is stored. Whether all were run."""
    parts = groups([test for row in chosen for test in row.tests])
    for number, tests in enumerate(parts, 1):
        print(
            f"\n== {number} of {len(parts)}: {len(tests)} tests of {tests[0].rsplit('/', 1)[0]}",
            flush=True,
        )
        try:
            stored |= run(tests)
        except KeyboardInterrupt:
            print("\ninterrupted: nothing of this part is stored")
            return False
        known = {test: stored[test] for row in rows() for test in row.tests if test in stored}
        RESULTS.write_text(json.dumps(known, indent=1) + "\n", encoding="utf-8")
    return True


def _summary(chosen: list[Row], stored: dict[str, dict[str, Any]]) -> None:
    print()
    for row in chosen:
        ran = "; ".join(_ran(stored.get(test)) for test in row.tests)
        print(f"{row.state}  {row.capability:58.58}  {ran or 'no test'}")


if __name__ == "__main__":
    sys.exit(main())
