"""The user's source beside what an audit says: the lines at call sites, and the plans kept there.

Recorded paths are those of another machine, so a file is found by the end of its path. Nothing of
the repository is run, and nothing outside of it is opened but the logs of runs that were recorded
beside it: a recorded path is never followed, it is only compared with the names of files that lie
in the folder.
"""

from __future__ import annotations

import ast
import os
import shlex
import stat
from collections import Counter
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from planguard.audit.repo_plans import said_of_plans
from planguard.errors import UsageError, shorten
from planguard.sources import SITES
from planguard.words import clean, cut

if TYPE_CHECKING:
    from collections.abc import Iterator

    from planguard.recording import Recording
    from planguard.verdict import Finding, Location, Source, Verdict

MAX_FILES = 200_000
MAX_BYTES = 4 << 20
MAX_PLACES = 4
MAX_BRANCHES = 3
ONLY_READ = "which side of a branch a rank took is not recorded: weak"
MAX_PLAYED = 16
"""Most ranks of a script that one machine is asked to play: each is a process."""
FEW = 8
"""Ranks that stand for more of them."""
_LEFT_OUT = SITES | {"__pycache__", "node_modules", "build", "dist"}
_PLANS = (".plan.json", ".csv")
_RUN = ".pgrun"
MAX_BESIDE = 1000
"""Entries beside the repository that are looked at for recorded runs."""


class Repo:
    """Files of a folder by name, read when they are asked for.

    Args:
        root: The folder.

    Raises:
        UsageError: No such folder.
    """

    def __init__(self, root: str) -> None:
        self.root = Path(root)
        if not self.root.is_dir():
            raise UsageError(f"--repo {shorten(root)}: no such folder")
        self.names: dict[str, list[Path]] = {}
        self.plans: list[Path] = []
        self.runs: list[Path] = []
        self._texts: dict[Path, list[str]] = {}
        self._trees: dict[Path, ast.Module | None] = {}
        for path in self._walk():
            if path.suffix == ".py":
                self.names.setdefault(path.name, []).append(path)
            elif path.name.endswith(_PLANS):
                self.plans.append(path)
            elif path.suffix == _RUN and path.parent not in self.runs:
                self.runs.append(path.parent)
        self.runs += _beside(self.root)

    def _walk(self) -> Iterator[Path]:
        count = 0
        for root, folders, names in os.walk(self.root):
            folders[:] = sorted(f for f in folders if f[:1] != "." and f not in _LEFT_OUT)
            for name in sorted(names):
                count += 1
                if count > MAX_FILES:
                    return
                path = Path(root) / name
                # A link may lead out of the folder.
                if stat.S_ISREG(path.lstat().st_mode):
                    yield path

    def find(self, recorded: str) -> tuple[Path | None, str]:
        """Return the file that a recorded path means, or why there is none."""
        parts = [part for part in recorded.replace("\\", "/").split("/") if part]
        near = self.names.get(parts[-1], []) if parts else []
        if not near:
            return None, "is not in the repository"
        shared = {path: _shared(path.relative_to(self.root).parts, parts) for path in near}
        most = max(shared.values())
        best = [path for path, count in shared.items() if count == most]
        if len(best) > 1:
            return None, f"may be any of {len(best)} files of the repository"
        return best[0], ""

    def lines(self, path: Path) -> list[str]:
        """Return the lines of a file; none of one that is too large to be source."""
        if path not in self._texts:
            try:
                data = b"" if path.stat().st_size > MAX_BYTES else path.read_bytes()
            except OSError:
                data = b""
            self._texts[path] = data.decode("utf-8", errors="replace").splitlines()
        return self._texts[path]

    def shown(self, source: Source) -> list[str]:
        """Return the line of a call site and the branches it stands under, as notes say them."""
        number = source.line or 0
        name = f"{clean(source.file.rpartition('/')[2])}:{number}"
        path, why = self.find(source.file)
        if path is None:
            return [f"{name} {why}"]
        lines = self.lines(path)
        inside = path.relative_to(self.root).as_posix()
        if not 0 < number <= len(lines):
            return [f"{clean(inside)} has no line {number}: it is of another version"]
        name_there = (source.function or "").rpartition(".")[2]
        around = self.functions(path, number)
        if name_there.isidentifier() and around is not None and name_there not in around:
            where = f"line {number} of {clean(inside)} is not in {clean(name_there)}()"
            return [f"{where}: it is of another version"]
        said = [f"{clean(inside)}:{number}: {_line(lines, number)}"]
        branches = self.branches(path, number)
        said += [f"only {branch}" for branch in branches]
        if branches:
            said.append(ONLY_READ)
        return said

    def _tree(self, path: Path) -> ast.Module | None:
        if path not in self._trees:
            try:
                self._trees[path] = ast.parse("\n".join(self.lines(path)))
            except (SyntaxError, ValueError, RecursionError, MemoryError):
                self._trees[path] = None
        return self._trees[path]

    def functions(self, path: Path, line: int) -> set[str] | None:
        """Return the names of the functions around a line; None of a file that does not parse."""
        tree = self._tree(path)
        if tree is None:
            return None
        return {
            node.name
            for node in ast.walk(tree)
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
            and min([node.lineno, *(one.lineno for one in node.decorator_list)]) <= line
            and line <= (node.end_lineno or 0)
        }

    def branches(self, path: Path, line: int) -> list[str]:
        """Return the conditions under which a line is reached, the innermost first."""
        tree = self._tree(path)
        if tree is None:
            return []
        lines, found = self.lines(path), list[tuple[int, str]]()
        for node in ast.walk(tree):
            if not isinstance(node, ast.If | ast.While):
                continue
            for side, body in (("if", node.body), ("unless", node.orelse)):
                if body and body[0].lineno <= line <= (body[-1].end_lineno or 0):
                    text = _line(lines, node.lineno).removesuffix(":")
                    found.append((node.lineno, f"{side} `{text}` (line {node.lineno})"))
        return [text for _, text in sorted(found, reverse=True)[:MAX_BRANCHES]]


def _beside(root: Path) -> list[Path]:
    """Return the folders beside a repository that hold the logs of a recorded run."""
    home = root.resolve()
    found = []
    try:
        near = sorted(islice(home.parent.iterdir(), MAX_BESIDE))
    except OSError:
        return []
    for folder in near:
        if folder == home or folder.is_symlink() or not folder.is_dir():
            continue
        try:
            if any(stat.S_ISREG(log.lstat().st_mode) for log in folder.glob(f"*{_RUN}")):
                found.append(folder)
        except OSError:
            continue
    return found


def _line(lines: list[str], number: int) -> str:
    return clean(cut(lines[number - 1].strip(), 90))


def _shared(own: tuple[str, ...], recorded: list[str]) -> int:
    """Return how many components the ends of two paths have in common."""
    count = 0
    for mine, theirs in zip(reversed(own), reversed(recorded), strict=False):
        if mine != theirs:
            break
        count += 1
    return count


def with_sources(verdict: Verdict, root: str, recording: Recording) -> Verdict:
    """Return a verdict whose findings show the source at their call sites, and what plans say.

    Args:
        verdict: What an audit said.
        root: The repository.
        recording: What it was said of.

    Raises:
        UsageError: No such folder.
    """
    repo = Repo(root)
    stood = [r.stack[0] for _, r in sorted(recording.ranks.items()) if r.stack and r.inside]
    findings = [_with_lines(one, repo, stood) for one in verdict.findings]
    told = [n for n, one in enumerate(findings) if one.code.startswith(("PG0", "PG2", "PG50"))]
    if told:
        notes = (*said_of_plans(repo, verdict, recording), *_to_play(repo, recording))
        first = findings[told[0]]
        findings[told[0]] = replace(first, notes=(*first.notes, *notes))
    return replace(verdict, findings=tuple(findings))


def _to_play(repo: Repo, recording: Recording) -> list[str]:
    """Return the command that plays the script of the job, where the repository has it.

    An audit does not play it by itself: that runs the user's code, with its data and for minutes,
    where whoever audits asked what files say.
    """
    outer = Counter(
        stack[-1].file
        for record in recording.ranks.values()
        for stack in (record.stack, *(call.stack for call in record.track.calls))
        if stack and stack[-1].function == "<module>"
    )
    found = (repo.find(file)[0] for file, _ in outer.most_common(MAX_PLACES))
    script = next((path for path in found if path is not None), None)
    if script is None:
        return []
    ranks = recording.world_size if recording.world_size <= MAX_PLAYED else FEW
    command = f"planguard precheck {clean(shlex.quote(str(script)))} --ranks {ranks}"
    fewer = (
        ""
        if ranks == recording.world_size
        else f"; a hang that needs all {recording.world_size:,} ranks is not in it"
    )
    said = "says whether the plan of the script has this hang, and which branch decides it"
    return [f"next: {command} {said}; it runs the script here, with what you put behind --{fewer}"]


def _with_lines(one: Finding, repo: Repo, stood: list[Source]) -> Finding:
    places: list[Location | None] = [one.primary, *one.related_actions]
    sources = dict.fromkeys(at.source for at in places if at is not None and at.source is not None)
    if one.code == "PG202" and places == [None]:
        sources = dict.fromkeys(stood)  # gloo ends a rank of which no call was recorded
    notes = [
        f"source: {text}" for source in list(sources)[:MAX_PLACES] for text in repo.shown(source)
    ]
    return replace(one, notes=(*one.notes, *notes)) if notes else one
