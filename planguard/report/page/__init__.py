"""The report page: one self-contained HTML file of a plan, its verdict and its modeled run."""

from __future__ import annotations

from dataclasses import dataclass, replace
from html import escape
from typing import TYPE_CHECKING, Any

from planguard.arguments import FLAG, PLAN, arguments
from planguard.words import clean

if TYPE_CHECKING:
    from pathlib import Path

    from planguard.plan.plan import Plan
    from planguard.report.page.columns import Columns
    from planguard.report.page.spans import Row
    from planguard.simulate.matrix import Matrix
    from planguard.simulate.schedule import Schedule
    from planguard.simulate.traffic import Traffic
    from planguard.verdict import Verdict

CAP = 5_000_000
"""Most bytes of a page; above it one rank per class of equal ranks is drawn."""
SIMULATED = 1_500_000
"""Most actions that are simulated for the timeline."""


@dataclass(frozen=True)
class Page:
    """A report page.

    Attributes:
        data: The file, UTF-8.
    """

    data: bytes

    def save(self, path: str | Path) -> None:
        """Write the file."""
        from planguard.files import write

        write(path, self.data)

    def _repr_html_(self) -> str:
        """Return an isolated frame: no origin, no way out, the page's own policy inside."""
        return (
            '<iframe sandbox="allow-scripts" width="100%" height="760" style="border:0" '
            f'title="PlanGuard report" srcdoc="{escape(self.data.decode(), quote=True)}"></iframe>'
        )


def page(
    plan: Plan,
    verdict: Verdict,
    *,
    repaired: Plan | None = None,
    model: str | None = None,
    algorithm: str = "ring",
    run: Schedule | None = None,
    moved: Traffic | None = None,
) -> Page:
    """Draw a plan and its verdict as one HTML file; equal inputs give equal bytes.

    Args:
        plan: The plan.
        verdict: What a check said of it.
        repaired: The plan with its repair applied; read from the verdict's repair if None.
        model: Execution model of the timeline; that of the verdict if None.
        algorithm: How collectives are taken apart: ``ring``, ``tree``, ``pairwise``, ``direct``.
        run: Measured times of the plan; modeled ones if None.
        moved: What the plan moves under ``algorithm``; counted if None.

    Raises:
        PlanError: The plan cannot be expanded.
    """
    from planguard.report.page.html import assemble
    from planguard.simulate.traffic import traffic

    if repaired is None:
        repaired = _repaired(plan, verdict)
    chosen = model or (verdict.model if verdict.model != "all" else None)
    run = run or run_of(plan, chosen, verdict)
    after = None if repaired is None else run_of(repaired, chosen, verdict)
    moved = moved or traffic(plan, algorithm)
    data = b""
    whole = [("all", True)] if run is not None and run.tracks else []
    for drawn, is_inside in (*whole, ("all", False), ("classes", False), ("none", False)):
        seen = run if run is None or is_inside else replace(run, tracks={})
        data = assemble(_packed(plan, verdict, seen, after, moved, drawn))
        if len(data) <= CAP:
            break
    return Page(data)


@arguments(plan=PLAN)
def page_of(verdict: Verdict, plan: Plan | None = None) -> Page:
    """Return the page of a verdict; without a plan its file is read again.

    Raises:
        UsageError: No plan is given and the file is not there or has changed.
    """
    return page(_plan_of(verdict, plan), verdict)


@arguments(plan=PLAN, by_node=FLAG)
def matrix_of(
    verdict: Verdict,
    plan: Plan | None = None,
    algorithm: str = "ring",
    *,
    by_node: bool = False,
    **wanted: str,
) -> Matrix:
    """Return the matrix of a verdict's plan; without a plan its file is read again.

    Raises:
        UsageError: No plan is given and the file is not there or has changed; the algorithm or a
            kind of traffic is not known, or there are too many ranks for a cell each.
    """
    from planguard.simulate import matrix as matrices
    from planguard.simulate.traffic import traffic

    chosen = _plan_of(verdict, plan)
    moved, title = traffic(chosen, algorithm), ", ".join(map(str, wanted.values())) or "all traffic"
    if by_node:
        return matrices.by_node(moved, chosen, title=title, **wanted)
    return matrices.matrix(moved, title=title, **wanted)


def _plan_of(verdict: Verdict, plan: Plan | None) -> Plan:
    from pathlib import Path

    from planguard.errors import UsageError
    from planguard.plan.format import read

    file = verdict.plan.file
    if plan is None and file is not None and Path(file).suffix in {".json", ".gz"}:
        found = read(file) if Path(file).is_file() else None
        plan = found if found is not None and found.sha256 == verdict.plan.sha256 else None
    if plan is None:
        raise UsageError(
            "the plan of this verdict is not at hand", hint="give it: verdict.report(plan)"
        )
    return plan


def _packed(
    plan: Plan,
    verdict: Verdict,
    found: Schedule | None,
    after: Schedule | None,
    moved: Traffic,
    drawn: str,
) -> str:
    from planguard import __version__
    from planguard.report.page.columns import Columns, Names
    from planguard.report.page.graph import strategy
    from planguard.report.page.headline import headline
    from planguard.report.page.inside import inside
    from planguard.report.page.links import topology
    from planguard.report.page.queues import queues
    from planguard.report.page.said import said
    from planguard.report.page.spans import SpanTable, rows
    from planguard.report.page.traffic import matrices

    columns, names = Columns(), Names()
    told = said(verdict, plan, found)
    absent = (told["cause"] or {}).get("who", []) if (told["cause"] or {}).get("missing") else []
    every = rows(found, absent) if found is not None else _stated(plan)
    kept = every if drawn == "all" else _representatives(every)
    table = SpanTable(plan, names)
    shown = None if found is None or drawn == "none" else found
    head: dict[str, Any] = {
        "title": clean(plan.name or (plan.file or "plan").rsplit("/", 1)[-1]),
        "version": __version__,
        "world": plan.world_size,
        "verdict": told,
        "numbers": headline(every, found, moved, plan, is_unsafe=verdict.unsafe),
        "traffic": matrices(plan, columns, moved, found),
        "strategy": strategy(plan, every, found),
        "topology": topology(plan, moved.algorithm, found),
        "queues": queues(plan, found),
        "left": {
            "drawn": "folded" if found and found.stands and drawn == "all" else drawn,
            "ranks": len(kept),
            "actions": plan.actions,
        },
        "time": timed(shown, kept, table, columns, ""),
        "inside": None,
        "repaired": None,
    }
    if shown is not None and shown.tracks:
        head["inside"] = inside(shown, columns, names)
    if after is not None and found is not None and drawn == "all":
        other = SpanTable(after.plan, names)
        head["repaired"] = timed(after, rows(after), other, columns, "repaired.")
    head["names"] = names.texts
    return columns.packed(_local(head, _folders(plan, verdict)))


def _folders(plan: Plan, verdict: Verdict) -> tuple[str, ...]:
    """Return the folders of absolute paths that a verdict names: they say who wrote the page."""
    from pathlib import PurePath

    files = {plan.file}
    for finding in verdict.findings:
        edges = [place for e in finding.cycle for place in (e.at, e.waits_for, e.behind)]
        places = [finding.primary, *finding.related_actions, *edges]
        files |= {p.source.file for p in places if p is not None and p.source is not None}
    found = {str(PurePath(f).parent) for f in files if f and PurePath(f).is_absolute()}
    return tuple(sorted(f"{folder}/" for folder in found - {"/"}))


def _local(value: Any, folders: tuple[str, ...]) -> Any:
    """Return a document without these folders."""
    if isinstance(value, str):
        for folder in folders:
            value = value.replace(folder, "")
        return value
    if isinstance(value, list):
        return [_local(item, folders) for item in value]
    if isinstance(value, dict):
        return {key: _local(item, folders) for key, item in value.items()}
    return value


def timed(
    found: Schedule | None, kept: list[Row], table: Any, columns: Columns, prefix: str
) -> dict[str, Any] | None:
    """Return the head of a timeline, its columns written under a prefix; None without times."""
    from planguard.report.page.path import write_path
    from planguard.report.page.spans import devices, tree
    from planguard.report.page.steps import steps
    from planguard.simulate.critical import critical

    if found is None:
        return None
    tick = table.write(found, kept, columns, prefix)
    return {
        "steps": steps(found, kept),
        "tick": tick,
        "path": write_path(critical(found), tick, columns, prefix),
        "makespan": found.makespan,
        "model": found.model,
        "basis": found.basis,
        "complete": found.complete,
        "notes": [clean(note) for note in found.notes],
        "ranks": list(devices(table.plan, kept, found)),
        "tree": tree(kept),
        "operations": table.operations,
    }


def run_of(plan: Plan, model: str | None, verdict: Verdict) -> Schedule | None:
    """Return the run to draw: the stuck one where a deadlock is only possible."""
    from planguard.simulate.folded import folded
    from planguard.simulate.schedule import schedule
    from planguard.verdict import Outcome

    if plan.actions > SIMULATED and folded(plan) is None:
        return None
    found = schedule(plan, model)
    if found.complete and verdict.outcome is Outcome.POTENTIAL_DEADLOCK:
        return schedule(plan, model, worst=True)
    return found


def _stated(plan: Plan) -> list[Row]:
    """Return rows without spans, one class per program: what a plan too long to run still shows."""
    from planguard.report.page.spans import Row, stages_of

    program = plan.code.rank_program
    return [Row(r, stages_of(plan, r), (), program[r]) for r in range(plan.world_size)]


def _representatives(every: list[Row]) -> list[Row]:
    first: dict[int, Row] = {}
    for row in every:
        first.setdefault(row.alike, row)
    return list(first.values())


def _repaired(plan: Plan, verdict: Verdict) -> Plan | None:
    """Return the plan with the verified repair of its verdict, if there is one."""
    from planguard.plan.format import read
    from planguard.repair.patch import apply_text

    for finding in verdict.findings:
        for fix in finding.fixes:
            if fix.applicability == "verified" and fix.edits:
                return read(apply_text(plan.text, fix.edits), file=plan.file, limits=plan.limits)
    return None
