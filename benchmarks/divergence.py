"""Programs whose ranks decide for themselves: what ``precheck`` and ``dryrun --stub`` say of each.

    python benchmarks/divergence.py FOLDER [--door precheck|stub|any|one] [--only NAME ...]
    python benchmarks/divergence.py FOLDER --repairs [--patched FOLDER]

FOLDER has ``programs/*.py`` and ``truth.json``: for assignments of samples to ranks, how real gloo
processes ended. Every row is played with the sample of each rank. A row that ended must be SAFE,
and one that did not must be told; UNKNOWN is counted, with its reasons. A ``UsageError`` that names
what a rank raised tells it, too.

``--door any`` asks for any samples: ``precheck(WORLD, samples=SAMPLES).run(job)``, one row a
program, which must be unsafe if and only if the program DIVERGES. It also counts how often the line
of the decision, ``BY``, is the one that the finding names as the decision, and how often it is
among the lines that the finding names at all (the branches behind it, the calls that differ).

``--door one`` gives each program only the first of its samples. What it says of the others comes
from the batch as a source; a bug must be unsafe or UNKNOWN, and how many are unsafe is counted.

``--repairs`` asks for a patch of each program that diverges, and counts those that are proved, with
what they say of numbers. ``--patched FOLDER`` writes the patched programs there, to be run really.
"""

from __future__ import annotations

import argparse
import collections
import copy
import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

TIMEOUT = 60.0


@dataclass(frozen=True)
class Row:
    """One assignment of samples to ranks: what is true, and what was said."""

    program: str
    samples: tuple[int, ...]
    truth: str
    said: str
    reason: str
    seconds: float
    by: str = ""

    @property
    def kind(self) -> str:
        """Name what the answer is worth."""
        if self.said == "UNKNOWN":
            return "unknown"
        if self.truth == "ends":
            return "right" if self.said == "SAFE" else "wrong alarm"
        return "wrong SAFE" if self.said == "SAFE" else "right"


def load(path: Path) -> Any:
    """Import a program."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    for other in path.parent.glob("*.py"):  # what they test is no question of this program
        sys.modules.pop(other.stem, None)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def by_precheck(path: Path, samples: list[int]) -> tuple[str, str]:
    """Return the outcome and, where it is undecided, why."""
    import torch.distributed as dist

    from planguard import UnsafePlanError
    from planguard.capture import precheck
    from planguard.errors import UsageError

    module = load(path)
    given = [copy.deepcopy(module.SAMPLES[one]) for one in samples]
    check = precheck(module.WORLD, ranks="all", model="gloo", timeout=TIMEOUT)
    try:
        verdict = check.run(lambda: module.job(given[dist.get_rank()]))
    except UnsafePlanError as error:
        verdict = error.verdict
    except UsageError as error:
        return "RAISED", error.message
    if verdict.safe and verdict.errors:
        return "ERROR", verdict.errors[0].message
    return verdict.outcome.value, "; ".join(verdict.reasons)


_SCRIPT = """\
import copy, importlib.util
import torch.distributed as dist
spec = importlib.util.spec_from_file_location({name!r}, {file!r})
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
given = [copy.deepcopy(module.SAMPLES[one]) for one in {samples!r}]
dist.init_process_group("gloo")
module.job(given[dist.get_rank()])
"""


def by_stub(path: Path, samples: list[int]) -> tuple[str, str]:
    """Play the same as a script, by the command, in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "job.py"
        script.write_text(_SCRIPT.format(name=path.stem, file=str(path), samples=samples))
        words = ["dryrun", "--stub", "--model", "gloo", "-o", folder + "/run", "--", "torchrun"]
        words += ["--nproc-per-node", str(len(samples)), str(script)]
        done = subprocess.run(
            [sys.executable, "-m", "planguard", *words],
            capture_output=True, text=True, timeout=10 * TIMEOUT, check=False,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )  # fmt: skip
    said = {0: "SAFE", 1: "UNSAFE", 2: "RAISED", 3: "UNKNOWN"}.get(done.returncode, "CRASH")
    open_ = [line for line in (done.stdout + done.stderr).splitlines() if "open:" in line]
    return said, "; ".join(open_) or (done.stderr[-300:] if said == "CRASH" else "")


def by_any(path: Path, *, only_one: bool = False) -> Row:
    """Decide a program for any of its samples on any rank, or from the first of them alone."""
    from planguard import UnsafePlanError
    from planguard.capture import precheck
    from planguard.errors import UsageError

    module = load(path)
    given = module.SAMPLES[:1] if only_one else module.SAMPLES
    options = {"model": "gloo", "timeout": TIMEOUT, "vary": only_one}
    check = precheck(module.WORLD, samples=given, **options)
    start = time.perf_counter()
    notes: list[str] = []
    try:
        verdict = check.run(module.job)
    except UnsafePlanError as error:
        verdict = error.verdict
        notes = [note for finding in verdict.findings for note in finding.notes]
        said, reason = verdict.outcome.value, "; ".join(verdict.reasons)
    except UsageError as error:
        said, reason, notes = "RAISED", error.message, [*error.message.splitlines(), error.hint]
    else:
        said, reason = verdict.outcome.value, "; ".join(verdict.reasons)
    seconds = time.perf_counter() - start
    truth = "diverges" if module.DIVERGES else "ends"
    row = Row(path.stem, (), truth, said, reason, seconds)
    return replace(row, by=named(path, module.BY, notes)) if module.DIVERGES else row


def named(path: Path, line: int, notes: list[str]) -> str:
    """Tell whether notes name a line of a program as the decision, or at all."""
    place = re.compile(re.escape(path.name) + r":(\d+)")
    # Where every rank raises, nothing parts: the line that raises is the one that is named.
    decisions = [note for note in notes if note.startswith("decided at ")]
    decisions += [note.partition("raised at ")[2] for note in notes if "raised at " in note]
    if any(int(found[1]) == line for note in decisions if (found := place.search(note))):
        return "decision"
    every = {int(found) for note in notes for found in place.findall(note)}
    return "named" if line in every else f"not named, but {sorted(every)}"


def times_only(path: Path) -> bool:
    """Tell whether the samples of a program change only when it does something."""
    return bool(getattr(load(path), "TIMING", False))


def repairs(folder: Path, only: list[str], patched: Path | None) -> int:
    """Ask for a proved patch of every program that diverges; return how many have none."""
    from planguard.capture import precheck
    from planguard.errors import UsageError

    found = collections.Counter()
    for path in sorted((folder / "programs").glob("*.py")):
        module = load(path)
        if not module.DIVERGES or (only and not any(part in path.stem for part in only)):
            continue
        start = time.perf_counter()
        check = precheck(
            module.WORLD, samples=module.SAMPLES, model="gloo", timeout=TIMEOUT,
            on_unsafe="return", fix=True,
        )  # fmt: skip
        try:
            said = check.run(module.job).outcome.value
        except UsageError as error:
            said = f"RAISED {error.message.splitlines()[0][:80]}"
        seconds = time.perf_counter() - start
        patch = check.patch
        found["programs"] += 1
        found["patched"] += patch is not None
        if patch is None:
            print(f"{path.stem:34s} {seconds:5.1f} s no patch: {said}")
            continue
        numbers = patch.repair.text.rpartition("; ")[2]
        found["same numbers"] += "the same numbers" in numbers
        found["other numbers, said"] += "OTHER NUMBERS" in numbers
        print(f"{path.stem:34s} {seconds:5.1f} s {patch.repair.kind}: {patch.repair.text}")
        if patched is not None:
            patched.mkdir(parents=True, exist_ok=True)
            text = re.sub(r"^DIVERGES = .*$", "DIVERGES = False", patch.after, flags=re.MULTILINE)
            text = re.sub(r"^BY = .*$", "BY = None", text, flags=re.MULTILINE)
            (patched / f"{path.stem}_patched.py").write_text(text)
    print(", ".join(f"{count} {name}" for name, count in found.items()))
    return found["programs"] - found["patched"]


DOORS = {"precheck": by_precheck, "stub": by_stub}


def measure(folder: Path, door: str, only: list[str]) -> Iterator[list[Row]]:
    """Play every row of the truth of a folder; give those of one program when it is through."""
    truth = json.loads((folder / "truth.json").read_text())
    for name, program in sorted(truth.items()):
        if only and not any(part in name for part in only):
            continue
        path = folder / "programs" / f"{name}.py"
        if door in ("any", "one"):
            yield [by_any(path, only_one=door == "one")]
            continue
        # Where a sample changes only when something happens, a bug may end as well: as the
        # clocks will. No verdict but unsafe is right for it.
        timed = program["diverges"] and times_only(path)
        found = []
        for run in program["runs"]:
            start = time.perf_counter()
            said, reason = DOORS[door](path, run["samples"])
            seconds = time.perf_counter() - start
            outcome = "ends or not, by the clock" if timed else run["outcome"]
            found.append(Row(name, tuple(run["samples"]), outcome, said, reason, seconds))
        yield found


def tell(its: list[Row], *, verbose: bool) -> None:
    """Print one line of a program, and its rows that are not right."""
    kinds = collections.Counter(row.kind for row in its)
    times = sorted(row.seconds for row in its)
    said = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
    print(f"{its[0].program:34s} {said:40s} median {times[len(times) // 2]:.2f} s")
    for row in its:
        if verbose or row.kind != "right" or row.by.startswith("not"):
            words = f"{row.truth}: {row.said} {row.reason[:300]}"
            print(f"    {row.samples or ''} {words} BY {row.by or '-'}")
    sys.stdout.flush()  # whoever ends this early, or waits for it, has what was found


def report(rows: list[Row]) -> None:
    """Print the sums."""
    kinds = collections.Counter(row.kind for row in rows)
    times = sorted(row.seconds for row in rows)
    share = 100 * kinds["unknown"] / max(1, len(rows))
    print(
        f"{len(rows)} runs: {kinds['right']} right, {kinds['wrong SAFE']} wrong SAFE, "
        f"{kinds['wrong alarm']} wrong alarms, {kinds['unknown']} UNKNOWN ({share:.1f} %); "
        f"seconds: median {times[len(times) // 2]:.2f}, most {times[-1]:.2f}"
    )
    bugs = collections.Counter(row.kind for row in rows if row.truth == "diverges")
    if bugs:
        print(f"of {sum(bugs.values())} programs that diverge: {bugs['right']} found")
    told = [row for row in rows if row.by]
    if told:
        kinds = collections.Counter(row.by.partition(",")[0] for row in told)
        print(
            f"line of the decision, of {len(told)} programs that diverge: named as the decision "
            f"{kinds['decision']}, among the lines named {kinds['decision'] + kinds['named']}"
        )


def main() -> int:
    """Measure; 1 if anything is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--door", choices=sorted([*DOORS, "any", "one"]), default="precheck")
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--repairs", action="store_true")
    parser.add_argument("--patched", type=Path)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    if args.repairs:
        repairs(args.folder.resolve(), args.only, args.patched)
        return 0
    rows: list[Row] = []
    for its in measure(args.folder.resolve(), args.door, args.only):
        tell(its, verbose=args.verbose)
        rows += its
    report(rows)
    return 1 if any(row.kind.startswith("wrong") for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
