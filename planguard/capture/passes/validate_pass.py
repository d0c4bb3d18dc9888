"""Translation validation: a pass may move, bucket or fuse communication, and must keep its meaning.

One rank's graph is compared before and after (``pass_rules``); then the graphs of all ranks after
the pass are checked together as a plan, because an order that is fine alone hangs when another rank
chose a different one (pytorch#150074, pytorch#189454).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from planguard.arguments import COUNT, MAPPING, MESH, NAME, WHOLE, arguments
from planguard.capture.passes.pass_rules import Comparison, Violation, compare
from planguard.capture.passes.sides import read_side
from planguard.capture.planner import fx_planner
from planguard.errors import PlanError, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planguard.verdict import Verdict

Others = Literal["same", "before"]
UNKNOWN_SIZE = "unknown-size"
"""The entry of the ledger for a size that only the run knows."""


@dataclass(frozen=True)
class PassVerdict:
    """What a pass did to the communication of a program.

    Attributes:
        name: Name of the pass.
        violations: What it did not keep; empty when it kept everything.
        verdict: Verdict on the graphs of all ranks after the pass; None when the graphs of the
            other ranks cannot be known from this one.
        before: Verdict on the graphs before it; None likewise.
        fused: Fused collectives with their members, by rank.
        reordered: Groups whose collectives changed order, by rank.
        notes: What was assumed, one sentence each.
        moved: Communications that another group of the same ranks, or an equivalent operation, does
            now, that repeat another one (recomputation), or that are gone because another one does
            the same, by rank and node, and what each was. They are allowed because all ranks agree
            on them, were checked together and are SAFE, or would be if sizes that only the run
            knows agree, as a note says then.
        split: Collectives that became several, with the names of these, by rank.
    """

    name: str
    violations: tuple[Violation, ...]
    verdict: Verdict | None
    before: Verdict | None
    fused: Mapping[int, Mapping[str, tuple[str, ...]]]
    reordered: Mapping[int, Mapping[str, str]]
    notes: tuple[str, ...] = ()
    moved: Mapping[int, Mapping[str, str]] = field(default_factory=dict)
    split: Mapping[int, Mapping[str, tuple[str, ...]]] = field(default_factory=dict)

    @property
    def valid(self) -> bool:
        """True when nothing was violated and the program of all ranks is not unsafe."""
        return not self.violations

    @property
    def complete(self) -> bool:
        """True when the graphs of all ranks were checked together and decided."""
        return self.verdict is not None and not self.verdict.unknown

    def __bool__(self) -> bool:
        raise TypeError("a PassVerdict is not a bool; use .valid and .complete")

    def __str__(self) -> str:
        head = "valid" if self.valid else f"{len(self.violations)} violations"
        whole = "not checked together" if self.verdict is None else self.verdict.outcome.value
        lines = [f"pass {self.name}: {head}; all ranks: {whole}"]
        lines += [f"  {violation}" for violation in self.violations]
        return "\n".join(lines + [f"  note: {note}" for note in self.notes])


@arguments(groups=MAPPING, world_size=COUNT, mesh=MESH, model=NAME, rank=WHOLE, name=NAME)
def validate_pass(  # noqa: PLR0913 - independent facts about the job, by keyword
    before: Any,
    after: Any,
    *,
    groups: Mapping[str, Any] | None = None,
    world_size: int | None = None,
    mesh: Mapping[str, int] | Sequence[tuple[str, int]] | None = None,
    rank: int | None = None,
    others: Others = "same",
    model: str | None = None,
    name: str = "pass",
) -> PassVerdict:
    """Compare graphs before and after a pass.

    Args:
        before: The graph of this rank, or ``{rank: graph}`` for all ranks. A graph is a
            GraphModule, an ExportedProgram or an ``FxProgram``; snapshot it before the pass
            (``copy.deepcopy`` or ``snapshot``), since passes work in place.
        after: The same after the pass.
        groups: Group table, name to ranks, for graphs that bring none; by default that of this
            process.
        world_size: Number of ranks; by default the largest group.
        mesh: Device mesh, to derive the groups of other ranks from one rank's graph.
        rank: The rank of a single graph; by default that of this process, else 0.
        others: For a single graph: the other ranks run the ``same`` pass with the same result
            (SPMD), or still run ``before``, which also makes a change of order a violation.
        model: Execution model of the check.
        name: Name of the pass, for the report.

    Raises:
        PlanError: If a graph cannot be read.
        UsageError: If before and after do not cover the same ranks.
    """
    if others not in ("same", "before"):
        raise UsageError(f"others is {others!r}", hint='"same" or "before"')
    own = _this_rank() if rank is None else rank
    old, new = _programs(before, own, groups), _programs(after, own, groups)
    if old.keys() != new.keys():
        raise UsageError(
            f"before covers ranks {sorted(old)}, after covers {sorted(new)}",
            hint="pass the graphs of the same ranks",
        )
    sides = {r: (read_side(old[r]), read_side(new[r])) for r in sorted(old)}
    found = {r: compare(first, second, r) for r, (first, second) in sides.items()}
    world = world_size or _world(old)
    if max(old, default=0) >= world:
        raise UsageError(
            f"rank {max(old)} of a world of {world} does not exist",
            hint="give world_size, or the rank that the graph is of",
        )
    job = _Job(old, new, world, tuple(_pairs(mesh)), others, model, found)
    return job.verdict(name)


def snapshot(graph: Any) -> Any:
    """Return an immutable copy of a graph, to be given to ``validate_pass`` as ``before``."""
    return fx_planner().convert.convert_graph(graph)


class _Job:
    """Puts the ranks together: checks before and after as plans, and collects what was found."""

    def __init__(
        self,
        old: dict[int, Any],
        new: dict[int, Any],
        world: int,
        mesh: tuple[tuple[str, int], ...],
        others: Others,
        model: str | None,
        found: dict[int, Comparison],
    ) -> None:
        self.old = old
        self.new = new
        self.world = world
        self.mesh = mesh
        self.others = others
        self.model = model
        self.found = found
        self.notes: list[str] = []

    def verdict(self, name: str) -> PassVerdict:
        """Decide."""
        violations = [v for comparison in self.found.values() for v in comparison.violations]
        before = self._check(self.old, self.old)
        after = self._check(self.new, self.old if self.others == "before" else self.new)
        violations += self._order_violations()
        wrong = self._move_violations(after)
        violations += wrong
        moved = {r: {n: m.message for n, m in c.moved.items()} for r, c in self.found.items()}
        if wrong:
            moved = {}
        if after is not None and after.unsafe:
            if before is not None and before.unsafe:
                self.notes.append(f"the program was {before.outcome.value} before the pass already")
            else:
                violations.append(_unsafe(after))
        return PassVerdict(
            name,
            tuple(violations),
            after,
            before,
            {rank: c.fused for rank, c in self.found.items() if c.fused},
            {rank: c.reordered for rank, c in self.found.items() if c.reordered},
            tuple(dict.fromkeys(self.notes)),
            {rank: nodes for rank, nodes in moved.items() if nodes},
            {rank: c.split for rank, c in self.found.items() if c.split},
        )

    def _move_violations(self, after: Verdict | None) -> list[Violation]:
        """Judge what moved, was repeated or shared: all ranks must agree, and be SAFE.

        That they agree is more than that they match: two calls of one size may have changed places.
        """
        keys = {r: {m.key for m in c.moved.values()} for r, c in self.found.items()}
        found = [
            Violation(
                move.kind, f"{move.message}, but not on rank {other}", rank,
                move.talk.node, move.talk.source,
            )
            for rank, comparison in self.found.items()
            for move in comparison.moved.values()
            for other in move.talk.group[0]
            if other in keys and move.key not in keys[other]
        ]  # fmt: skip
        if found or (after is not None and after.safe):
            return found
        if after is not None and _safe_but_for_sizes(after):
            if any(comparison.moved for comparison in self.found.values()):
                sizes = [one.message for one in after.approximations if one.used]
                more = f"; and {len(sizes) - 2} more" if len(sizes) > 2 else ""
                self.notes.append(
                    "what moved is allowed if sizes agree that only the run knows: "
                    f"{'; '.join(sizes[:2])}{more}"
                )
            return []
        if after is None:
            why = "the ranks were not checked together"
        elif after.unknown:
            why = f"the ranks together are not decided: {'; '.join(map(str, after.reasons[:2]))}"
        else:
            why = f"the ranks together are {after.outcome.value}"
        return [
            Violation(
                move.kind, f"{move.message}, and {why}", rank,
                move.talk.node, move.talk.source,
            )
            for rank, comparison in self.found.items()
            for move in comparison.moved.values()
        ]  # fmt: skip

    def _order_violations(self) -> list[Violation]:
        """Judge a changed order where the other ranks are not there to agree to it."""
        if len(self.new) == self.world:
            return []
        found = []
        for rank, comparison in self.found.items():
            for group, node in comparison.reordered.items():
                message = f"{node} changed its place among the collectives of {group}"
                if self.others == "before":
                    found.append(Violation("order", message, rank, node))
                else:
                    self.notes.append(f"{message}; every rank is taken to do the same")
        return found

    def _check(self, known: dict[int, Any], rest: dict[int, Any]) -> Verdict | None:
        """Check the given ranks together with the others, derived from ``rest``."""
        from planguard.engine import check_plan
        from planguard.options import CheckOptions
        from planguard.plan.building.builder import PlanBuilder

        planner = fx_planner()
        try:
            bundle = self._bundle(known, rest)
            plan = planner.emit.emit(bundle, PlanBuilder, compute="none", model=self.model)
            return check_plan(plan, CheckOptions(model=self.model))
        except PlanError as error:
            if len(known) == self.world:
                raise
            self.notes.append(f"the ranks were not checked together: {error.message}")
            return None

    def _bundle(self, known: dict[int, Any], rest: dict[int, Any]) -> Any:
        planner = fx_planner()
        missing = [rank for rank in range(self.world) if rank not in known]
        first = min(known)
        if rest is known or not missing:
            like = dict.fromkeys(missing, first)
            return planner.FxBundle(self.world, known, like=like, mesh=self.mesh)
        origin = planner.FxBundle(self.world, rest, mesh=self.mesh)
        derived = {rank: planner.groups.substituted(origin, first, rank) for rank in missing}
        return planner.FxBundle(self.world, {**derived, **known}, mesh=self.mesh)


def _safe_but_for_sizes(verdict: Verdict) -> bool:
    """Tell whether a verdict is UNKNOWN for one reason: sizes that no graph can show.

    Experts exchange as many tokens as the router of a batch says. Such a program is never SAFE,
    before a pass as after it; its order and its groups are decided all the same.
    """
    used = [one for one in verdict.approximations if one.used]
    only = verdict.unknown and bool(used) and len(used) == len(verdict.reasons)
    return only and not verdict.errors and all(one.kind == UNKNOWN_SIZE for one in used)


def _unsafe(verdict: Verdict) -> Violation:
    finding = next(iter(verdict.errors), None)
    text = f"{finding.code} {finding.message}" if finding is not None else verdict.outcome.value
    place = finding.primary if finding is not None else None
    source = place.source if place is not None else None
    return Violation(
        "unsafe",
        f"the ranks together are {verdict.outcome.value}: {text}",
        place.rank if place is not None else None,
        (place.id or "") if place is not None else "",
        (source.file, source.line, source.function) if source is not None else None,
    )


def _programs(value: Any, rank: int, groups: Mapping[str, Any] | None) -> dict[int, Any]:
    planner = fx_planner()
    several = value if isinstance(value, Mapping) else {rank: value}
    found = {}
    for key, item in several.items():
        program = item if isinstance(item, planner.FxProgram) else planner.FxProgram(item)
        if not program.groups:
            program = replace(program, groups=groups if groups is not None else _table())
        found[int(key)] = planner.convert.convert_program(program)
    return found


def _table() -> dict[str, Any]:
    import torch.distributed as dist

    from planguard.capture.passes.fx import fx

    if not dist.is_initialized():
        raise UsageError(
            "the graphs bring no group table and this process has no process groups",
            hint='pass groups={"0": [0, 1, ...]}',
        )
    return fx.group_table()


def _this_rank() -> int:
    import torch.distributed as dist

    if not (dist.is_available() and dist.is_initialized()):
        return 0
    return int(dist.get_rank())


def _world(programs: Mapping[int, Any]) -> int:
    ranks = [r for p in programs.values() for g in p.groups.values() for r in g.ranks]
    return int(max([*ranks, *programs])) + 1


def _pairs(
    mesh: Mapping[str, int] | Sequence[tuple[str, int]] | None,
) -> list[tuple[str, int]]:
    items = mesh.items() if isinstance(mesh, Mapping) else mesh or ()
    return [(str(name), int(size)) for name, size in items]
