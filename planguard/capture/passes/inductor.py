"""Checks every Inductor pass that moves, buckets or fuses communication, while it compiles.

Inductor runs its own passes behind the last of its custom-pass hooks, so the hooks alone miss the
ones that matter. ``inductor_guard`` therefore stands where Inductor itself observes its graph
passes (``GraphTransformObserver``) and, for the scheduler, between fusion and code generation.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from planguard.arguments import COUNT, DURATION, MAPPING, MESH, NAME, arguments
from planguard.capture.passes import asked
from planguard.capture.passes.pass_rules import Violation, compare
from planguard.capture.passes.scheduler import kernels_of, scheduler_side
from planguard.capture.passes.validate_pass import PassVerdict, validate_pass
from planguard.capture.planner import fx_planner
from planguard.capture.play.processes import start_autograd
from planguard.errors import PlanGuardError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence


@dataclass
class GuardReport:
    """What the guard saw.

    Attributes:
        passes: Verdict of every pass that changed communication, in order.
        watched: How many passes over graphs with communication were looked at.
        skipped: Passes that could not be checked, with the reason.
    """

    passes: list[PassVerdict] = field(default_factory=list)
    watched: int = 0
    skipped: list[tuple[str, str]] = field(default_factory=list)

    @property
    def broken(self) -> list[PassVerdict]:
        """The passes that did not keep what they must."""
        return [verdict for verdict in self.passes if not verdict.valid]

    def __str__(self) -> str:
        lines = [f"{self.watched} passes watched, {len(self.passes)} changed communication"]
        lines += [str(verdict) for verdict in self.passes]
        return "\n".join(lines + [f"{name}: not checked: {why}" for name, why in self.skipped])


@arguments(groups=MAPPING, world_size=COUNT, mesh=MESH, model=NAME, patience=DURATION)
@contextmanager
def inductor_guard(
    *,
    on_violation: Literal["raise", "record"] = "raise",
    groups: Mapping[str, Any] | None = None,
    world_size: int | None = None,
    mesh: Mapping[str, int] | Sequence[tuple[str, int]] | None = None,
    others: Literal["same", "before", "ask"] = "same",
    model: str | None = None,
    patience: float = asked.SECONDS,
) -> Iterator[GuardReport]:
    """Check the passes of everything ``torch.compile`` compiles in the block.

    Compile caches are off inside: a cached graph runs no pass.

    Args:
        on_violation: ``raise`` at the end of the block, or only ``record``.
        groups: Group table; by default that of this process.
        world_size: Number of ranks; by default the largest group.
        mesh: Device mesh, to derive the groups of the other ranks.
        others: See ``validate_pass``. With ``ask`` the ranks compare the orders that they are
            about to make code from, by the store of their process group; every rank has to be in
            such a block. A difference is raised at once, since the code would hang.
        model: Execution model of the check.
        patience: Seconds to wait for another rank's order.

    Yields:
        The report, filled while the block runs.

    Raises:
        PlanGuardError: If a pass broke communication and ``on_violation`` is ``raise``.
        UsageError: If an option is none of these, or there is nobody to ask.
    """
    if on_violation not in ("raise", "record"):
        raise UsageError(f"on_violation is {on_violation!r}", hint='"raise" or "record"')
    if others not in ("same", "before", "ask"):
        raise UsageError(f"others is {others!r}", hint='"same", "before" or "ask"')
    if others == "ask":
        asked.needs_ranks()
    options = {
        "groups": groups,
        "world_size": world_size,
        "mesh": mesh,
        "others": "same" if others == "ask" else others,
        "model": model,
    }
    guard = _Guard(GuardReport(), options)
    if others == "ask":
        guard.patience, guard.at_once = patience, on_violation == "raise"
    start_autograd()  # what compiles in the block does so under FakeTensorMode
    with ExitStack() as stack:
        stack.enter_context(_no_caches())
        stack.enter_context(guard.graph_passes())
        stack.enter_context(guard.scheduler_passes())
        yield guard.report
    if guard.report.broken and on_violation == "raise":
        raise _broke(guard.report.broken)


def _broke(broken: Sequence[PassVerdict]) -> PlanGuardError:
    text = "\n".join(str(verdict) for verdict in broken)
    return PlanGuardError(
        f"a compiler pass broke communication:\n{text}",
        hint="turn the pass off, or compile with on_violation='record' to look at the report",
    )


@contextmanager
def _no_caches() -> Iterator[None]:
    from torch._functorch import config as functorch
    from torch._inductor import config as inductor

    with inductor.patch(fx_graph_cache=False, fx_graph_remote_cache=False):  # noqa: SIM117
        with functorch.patch(enable_autograd_cache=False):
            yield


class _Guard:
    """Watches passes and fills the report. A failure of its own never stops a compilation."""

    def __init__(self, report: GuardReport, options: dict[str, Any]) -> None:
        self.report = report
        self.options = options
        self.patience: float | None = None
        self.at_once = False

    @contextmanager
    def graph_passes(self) -> Iterator[None]:
        """Look at every graph pass before and after it runs."""
        from torch.fx.passes.graph_transform_observer import GraphTransformObserver

        originals = {
            name: getattr(GraphTransformObserver, name)
            for name in ("apply_graph_pass", "apply_gm_pass")
        }
        for name, original in originals.items():
            setattr(GraphTransformObserver, name, self._around(original))
        try:
            yield
        finally:
            for name, original in originals.items():
                setattr(GraphTransformObserver, name, original)

    def _around(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def apply(observer: Any, pass_fn: Any) -> Any:
            before = self._snapshot(observer.gm, observer.passname)
            result = original(observer, pass_fn)
            if before is not None:
                self._compare_graphs(before, observer.gm, observer.passname)
            return result

        return apply

    def _snapshot(self, module: Any, name: str) -> Any:
        """Copy a graph that communicates; None for every other graph."""
        try:
            if not any(_communicates(node) for node in module.graph.nodes):
                return None
            self.report.watched += 1
            return fx_planner().convert.convert_graph(module, sort=True)
        except Exception as error:  # noqa: BLE001 - see the class
            self._skip(name, error)
            return None

    def _compare_graphs(self, before: Any, module: Any, name: str) -> None:
        try:
            after = fx_planner().convert.convert_graph(module, sort=True)
            if _untouched(before, after):
                return
            verdict = validate_pass(before, after, name=name, **self.options)
        except Exception as error:  # noqa: BLE001 - see the class
            self._skip(name, error)
            return
        self.report.passes.append(verdict)

    @contextmanager
    def scheduler_passes(self) -> Iterator[None]:
        """Compare the order of the scheduler after fusion with the one code is made from."""
        from torch._inductor import config
        from torch._inductor.scheduler import Scheduler

        user = config._post_fusion_custom_pass  # noqa: SLF001 - Inductor's own hook
        original: Any = Scheduler.codegen
        latest: list[Any] = []

        def after_fusion(nodes: list[Any]) -> list[Any]:
            nodes = user(nodes) if user is not None else nodes
            latest[:] = [self._scheduled(nodes)]
            return nodes

        def codegen(scheduler: Any) -> Any:
            if latest and latest[0] is not None:
                self._compare_schedules(latest.pop(), scheduler.nodes)
                if self.patience is not None:
                    self._ask(scheduler.nodes, self.patience)
            return original(scheduler)

        Scheduler.codegen = codegen
        try:
            with config.patch(_post_fusion_custom_pass=after_fusion):
                yield
        finally:
            Scheduler.codegen = original

    def _scheduled(self, nodes: list[Any]) -> Any:
        try:
            side = scheduler_side(nodes)
        except Exception as error:  # noqa: BLE001 - see the class
            self._skip("scheduler", error)
            return None
        self.report.watched += bool(side.talks)
        return side if side.talks else None

    def _compare_schedules(self, before: Any, nodes: list[Any]) -> None:
        try:
            after = scheduler_side(nodes)
            if [t.node for t in before.talks] == [t.node for t in after.talks] and (
                before.flow.hazards == after.flow.hazards
            ):
                return
            found = compare(before, after, None)
        except Exception as error:  # noqa: BLE001 - see the class
            self._skip("scheduler", error)
            return
        moved = {
            node: f"{node} changed its place among the collectives of {group}"
            for group, node in found.reordered.items()
        }
        violations, notes = list(found.violations), []
        if self.options["others"] == "before":
            violations += [Violation("order", text, None, node) for node, text in moved.items()]
        elif self.patience is None:
            notes = [f"{text}; every rank is taken to do the same" for text in moved.values()]
        self.report.passes.append(
            PassVerdict("scheduler", tuple(violations), None, None, {}, {}, tuple(notes))
        )

    def _ask(self, nodes: list[Any], patience: float) -> None:
        """Compare the order that code is made from with that of the other ranks."""
        name = "scheduler, all ranks"
        try:
            talks = scheduler_side(nodes).talks
            violations, silent = asked.ask(asked.order_of(talks, kernels_of(nodes)), patience)
        except Exception as error:  # noqa: BLE001 - see the class
            self._skip(name, error)
            return
        left = [talk.node for talk in talks if not talk.is_collective]
        if left:
            self.report.skipped.append((name, f"messages or unknown calls: {', '.join(left)}"))
        if silent:
            late = f"ranks {silent} compiled no such graph in {patience:g} s"
            self.report.skipped.append((name, late))
        if violations:
            verdict = PassVerdict(name, tuple(violations), None, None, {}, {})
            self.report.passes.append(verdict)
            if self.at_once:
                raise _broke([verdict])

    def _skip(self, name: str, error: Exception) -> None:
        self.report.skipped.append((name, f"{type(error).__name__}: {error}"))


def _communicates(node: Any) -> bool:
    space = str(node.target).split(".", maxsplit=1)[0]
    return node.op == "call_function" and space in fx_planner().operations.NAMESPACES


def _untouched(before: Any, after: Any) -> bool:
    """Tell whether a pass kept every communication and its place among the nodes that stayed."""
    names = fx_planner().operations.NAMESPACES

    def talks(graph: Any) -> list[tuple[str, str]]:
        return [
            (node.name, node.target)
            for node in graph.nodes
            if node.target.split(".", maxsplit=1)[0] in names
        ]

    if talks(before) != talks(after):
        return False
    old, new = [node.name for node in before.nodes], [node.name for node in after.nodes]
    stayed = set(old).intersection(new)
    return [name for name in old if name in stayed] == [name for name in new if name in stayed]
