"""Write a standalone torch.distributed script that plays a plan, or a witness of it, on gloo.

The script needs the standard library and torch, nothing of PlanGuard: it can be mailed to someone.
Its code is that of ``planguard.replay.script``; its data are made here.
"""

from __future__ import annotations

import ast
import importlib.resources
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from planguard.errors import ReplayError, shorten
from planguard.replay.flat import obstacles, rank_programs
from planguard.replay.selection import MOST_PROCESSES, keep, select
from planguard.replay.translation import Translation
from planguard.semantics.gloo import GLOO_DETAIL

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from planguard.replay.flat import Action
    from planguard.replay.matching import Op
    from planguard.replay.selection import Selection
    from planguard.verdict import Witness

PARTS = ("payload", "moves", "actions", "states", "watch")
NOQA = re.compile(r"  # noqa.*$", re.MULTILINE)


@dataclass(frozen=True)
class Script:
    """A generated script.

    Attributes:
        text: Python source.
        ranks: Plan rank of every process.
        notes: What the replay does differently from the plan, in sentences.
    """

    text: str
    ranks: tuple[int, ...]
    notes: tuple[str, ...]


def write_script(
    plan: Mapping[str, Any],
    witness: Witness | None = None,
    limit: int = MOST_PROCESSES,
    *,
    places: Sequence[Sequence[int]] | None = None,
    backend: str = "gloo",
    model: str | None = None,
) -> Script:
    """Return the script that plays a flat plan, or only what a witness keeps of it.

    Args:
        plan: A flat plan (``planguard.plan/1`` without templates, families and repeats).
        witness: Its ``actions`` are played; its ``blocked`` are the prediction.
        limit: Most processes to start.
        places: Per rank, how the plan as written numbers its actions; None when it is this one.
        backend: Backend of torch.distributed: ``gloo`` or ``nccl``.
        model: Execution model of the verdict: under gloo-detail torch itself compares the calls.

    Raises:
        ReplayError: The plan is not flat, does not fit the witness, or cannot be played.
    """
    reasons = obstacles(keep(plan, witness), plan, backend)
    if reasons:
        raise ReplayError(
            f"{backend} cannot play this plan: {'; '.join(reasons)}",
            hint="replay a plan or a witness without these actions",
        )
    selection = select(plan, witness, limit)
    translation = Translation(plan, selection, places)
    notes = translation.notes()
    debug = "DETAIL" if model == GLOO_DETAIL.name and backend == "gloo" else "OFF"
    shown = _Shown(plan, witness, selection, translation.programs, notes, places, backend, debug)
    return Script(shown.text(), selection.ranks, notes)


@dataclass(frozen=True)
class _Shown:
    """What a script says and plays."""

    plan: Mapping[str, Any]
    witness: Witness | None
    selection: Selection
    programs: list[list[Op]]
    notes: tuple[str, ...]
    places: Sequence[Sequence[int]] | None
    backend: str
    debug: str

    @property
    def title(self) -> str:
        """Name of the plan and of the witness, fit for a docstring."""
        name = shorten(self.plan.get("name") or "a plan", 60).replace('"', "'").replace("\\", "/")
        return f"{name}, witness {self.witness.id}" if self.witness is not None else name

    @property
    def predicted(self) -> list[tuple[int, int]]:
        """Rank and action, as the plan numbers it, of every rank that is to get stuck."""
        blocked = self.witness.blocked if self.witness is not None else ()
        return [
            (rank, at if self.places is None else self.places[rank][at]) for rank, at in blocked
        ]

    def text(self) -> str:
        """Return the script."""
        imports, bodies = _sources()
        head = [
            "#!/usr/bin/env python3",
            *self._docstring(),
            "",
            "from __future__ import annotations",
        ]
        kinds = ["Op = dict[str, Any]", ""]
        return "\n".join([*head, "", *imports, "", *kinds, *self._data(), *bodies])

    def _docstring(self) -> list[str]:
        """Return the head of the script: what it is, how to run it, who plays whom."""
        ranks = self.selection.ranks
        lines = [
            f'"""Replay of {self.title} on torch.distributed with the {self.backend} backend.',
            "",
            "Written by PlanGuard. It needs Python 3.11 and torch, starts one process per rank",
            "on this machine, and ends by itself:",
            "",
            "    python THIS_FILE --timeout 10",
            "",
        ]
        if self.predicted:
            stuck = ", ".join(f"r{rank}#{action}" for rank, action in self.predicted[:16])
            lines += [
                f"Expected to get stuck: {stuck} (rank and index of the action in its program)."
            ]
        lines += [f"Process {p} plays rank {rank}." for p, rank in enumerate(ranks[:64])]
        return [*lines, *self.notes, '"""']

    def _data(self) -> list[str]:
        """Return the plan as Python data, one action per line."""
        groups = self.selection.groups.items()
        drain = self.witness is not None and self.witness.end == "mismatch"
        lines = [
            f"TITLE: str = {self.title!r}",
            "# Backend of torch.distributed.",
            f"BACKEND: str = {self.backend!r}",
            "# TORCH_DISTRIBUTED_DEBUG: with DETAIL torch compares the calls of all ranks.",
            f"DEBUG: str = {self.debug!r}",
            "# Process p plays rank RANKS[p] of the plan.",
            f"RANKS: list[int] = {list(self.selection.ranks)!r}",
            "# Members of every process group, as process numbers in group order.",
            "GROUPS: dict[str, list[int]] = {",
            *(f"    {name!r}: {list(members)!r}," for name, members in groups),
            "}",
            "# Groups that every process creates before the first action, in this order.",
            f"CREATED_FIRST: list[str] = {list(self.selection.created_first)!r}",
            "# (rank, action) pairs in which PlanGuard expects the run to be stuck.",
            f"PREDICTED: list[tuple[int, int]] = {self.predicted!r}",
            "# Look at the data of what is still under way at the end of a program.",
            f"DRAIN: bool = {drain}",
            "# One list per process. at: index of the action in what is played; place: its index",
            "# in the plan, if that is another; nbytes: size played here; serial: the number its",
            "# data carry; expect: serial of the data that must arrive; after: what others finish",
            "# first, if they can.",
            "PROGRAMS: list[list[Op]] = [",
        ]
        all_actions = rank_programs(self.plan)
        for process, program in enumerate(self.programs):
            rank = self.selection.ranks[process]
            lines.append(f"    [  # process {process}: rank {rank}")
            for op in program:
                source = "" if op["op"] == "threads" else _source(all_actions[rank][op["at"]])
                lines.append(f"        {_literal(op)},{source}")
            lines.append("    ],")
        return [*lines, "]", ""]


def _literal(op: Op) -> str:
    """Return an operation as Python source, members of a batch on lines of their own."""
    fields = []
    for name, value in op.items():
        text = repr(value)
        if name == "ops":
            members = "".join(f"            {_literal(member)},\n" for member in value)
            text = f"[\n{members}        ]"
        fields.append(f"{name!r}: {text}")
    return f"{{{', '.join(fields)}}}"


def _source(action: Action) -> str:
    """Return the planner's location of an action as a comment."""
    src = action.get("src")
    return f"  # {shorten(src[0], 60)}:{src[1]}" if isinstance(src, list) and len(src) > 1 else ""


def _sources() -> tuple[list[str], list[str]]:
    """Return the import lines and the bodies of the parts of a script."""
    plain: set[str] = set()
    names: dict[str, set[str]] = {}
    bodies = []
    folder = importlib.resources.files("planguard.replay.script")
    for part in PARTS:
        source = (folder / f"{part}.py").read_text(encoding="utf-8")
        last = 0
        tree = ast.parse(source)
        about = [f"# {line}".rstrip() for line in (ast.get_docstring(tree) or "").splitlines()]
        for node in _import_section(tree):
            last = max(last, node.end_lineno or 0)
            if isinstance(node, ast.Import):
                plain.add(ast.unparse(node))
            elif isinstance(node, ast.ImportFrom):
                names.setdefault(node.module or "", set()).update(n.name for n in node.names)
        body = NOQA.sub("", "\n".join(source.splitlines()[last:])).strip("\n")
        bodies += ["", f"# {f'---- {part} ':-<98}", *about, "", body, ""]
    chosen = [
        f"from {module} import {', '.join(sorted(found - {'TYPE_CHECKING'}))}"
        for module, found in sorted(names.items())
        if module != "__future__" and not module.startswith("planguard")
    ]
    ours = sorted(line for line in plain if "torch" not in line)
    return [*ours, *chosen, "", *sorted(plain - set(ours))], bodies


def _import_section(tree: ast.Module) -> Iterator[ast.stmt]:
    """Yield the imports of a part, those for annotations included: the script imports them all."""
    for node in tree.body:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            yield node
        elif isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            yield from (
                stmt for stmt in node.body if isinstance(stmt, (ast.Import, ast.ImportFrom))
            )
