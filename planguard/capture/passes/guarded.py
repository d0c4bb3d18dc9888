"""The passes of a running rank, wrapped so that each is judged when it has run.

What a registry of passes holds goes in and comes out: callables from graph to graph.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from planguard.arguments import APPENDED, CALLABLES, COUNT, DURATION, MAPPING, MESH, NAME, arguments
from planguard.capture.passes import asked
from planguard.capture.passes.fx import fx
from planguard.capture.passes.pipeline import PipelineReport, pass_name, stacks_of
from planguard.capture.passes.sides import read_side
from planguard.capture.passes.validate_pass import PassVerdict, validate_pass
from planguard.capture.planner import fx_planner
from planguard.errors import PlanGuardError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


@arguments(
    passes=CALLABLES, groups=MAPPING, world_size=COUNT, mesh=MESH, model=NAME, patience=DURATION,
    verdicts=APPENDED,
)  # fmt: skip
def guarded_passes(  # noqa: PLR0913 - independent facts about the job, by keyword
    passes: Sequence[Callable[..., Any]],
    *,
    on_violation: Literal["raise", "record"] = "raise",
    groups: Mapping[str, Any] | None = None,
    world_size: int | None = None,
    mesh: Mapping[str, int] | Sequence[tuple[str, int]] | None = None,
    others: Literal["same", "before", "ask"] = "same",
    model: str | None = None,
    patience: float = asked.SECONDS,
    verdicts: list[PassVerdict] | None = None,
) -> list[Callable[..., Any]]:
    """Wrap the passes of a running rank so that each is judged when it has run.

    Takes and returns what a registry of passes holds: callables whose first argument is the graph
    and which return the graph, or None when they work in place.

    Args:
        passes: The pipeline, in order. ``functools.partial`` objects keep their name.
        on_violation: Raise at the pass that broke communication, or only record its verdict.
        groups: Group table; by default that of this process.
        world_size: Number of ranks; by default the largest group.
        mesh: Device mesh, to derive the groups of the other ranks.
        others: What the other ranks run, as for ``validate_pass``. With ``ask``, the ranks compare
            the order and the data of their collectives after the last pass, by the store they met
            at; all of them have to run guarded passes, as often.
        model: Execution model of the check.
        patience: Seconds to wait for another rank.
        verdicts: A list to put the verdicts into.

    Raises:
        UsageError: If an option is none of these, or there is nobody to ask.
    """
    if on_violation not in ("raise", "record"):
        raise UsageError(f"on_violation is {on_violation!r}", hint='"raise" or "record"')
    if others not in ("same", "before", "ask"):
        raise UsageError(f"others is {others!r}", hint='"same", "before" or "ask"')
    if others == "ask":
        asked.needs_ranks()
    watch = _Watch(
        {
            "groups": groups,
            "world_size": world_size,
            "mesh": mesh,
            "others": "same" if others == "ask" else others,
            "model": model,
        },
        strict=on_violation == "raise",
        verdicts=[] if verdicts is None else verdicts,
    )
    wrapped = [watch.around(one) for one in passes]
    if others == "ask" and wrapped:
        wrapped[-1] = watch.asking(wrapped[-1], patience)
    return wrapped


class _Watch:
    """Judges the passes of one rank, each when it has run."""

    def __init__(
        self, options: dict[str, Any], *, strict: bool, verdicts: list[PassVerdict]
    ) -> None:
        self.options = options
        self.strict = strict
        self.verdicts = verdicts

    def around(self, one: Callable[..., Any]) -> Callable[..., Any]:
        name = pass_name(one)

        def guarded(graph: Any, *args: Any, **kwargs: Any) -> Any:
            # Groups that the pass makes are in the table only after it.
            before = self._program(graph)
            result = one(graph, *args, **kwargs)
            after = graph if result is None else result
            verdict = validate_pass(before, self._program(after), name=name, **self.options)
            self._take(verdict, after)
            return result

        guarded.__name__ = guarded.__qualname__ = name
        return guarded

    def asking(self, last: Callable[..., Any], patience: float) -> Callable[..., Any]:
        def guarded(graph: Any, *args: Any, **kwargs: Any) -> Any:
            result = last(graph, *args, **kwargs)
            after = graph if result is None else result
            order, left = graph_order(self._program(after))
            violations, silent = asked.ask(order, patience)
            notes = [f"ranks {silent} ran no such passes in {patience:g} s"] if silent else []
            notes += [f"not compared between ranks: {', '.join(left)}"] if left else []
            empty: dict[int, Any] = {}
            self._take(
                PassVerdict(
                    f"{last.__name__}, all ranks", tuple(violations), None, None, empty, empty,
                    tuple(notes),
                ),
                after,
            )  # fmt: skip
            return result

        guarded.__name__ = guarded.__qualname__ = last.__name__
        return guarded

    def _program(self, graph: Any) -> Any:
        """Copy a graph as plain data, since passes work in place."""
        planner = fx_planner()
        groups = self.options["groups"] or fx.group_table()
        return planner.FxProgram(planner.convert.convert_graph(graph), groups=groups)

    def _take(self, verdict: PassVerdict, graph: Any) -> None:
        self.verdicts.append(verdict)
        if verdict.violations and self.strict:
            wanted = {violation.node for violation in verdict.violations}
            rank = verdict.violations[0].rank
            stacks = {(rank, name): text for name, text in stacks_of(graph, wanted).items()}
            raise PlanGuardError(
                f"a pass broke communication:\n{PipelineReport((verdict,), (), stacks)}",
                hint="turn the pass off, or wrap with on_violation='record' and look at verdicts",
            )


def graph_order(program: Any) -> tuple[asked.Order, list[str]]:
    """Return the collectives of an ``FxProgram`` by the ranks of their group, and what is left out.

    A collective is named by the data that it sends, in the order in which they lie in it, so that
    two of one size that changed places differ.
    """
    planner = fx_planner()
    converted = planner.convert.convert_program(program)
    draft = planner.translate.translate(converted, compute="none")
    sent = planner.labels.Provenance(draft.nodes).sent
    found: asked.Order = {}
    left = []
    for talk in read_side(converted).talks:
        if not talk.is_collective:
            left.append(talk.node)
            continue
        ranks = ",".join(map(str, talk.group[0]))
        size = str(talk.bytes) if talk.op in asked.SIZED and talk.bytes is not None else ""
        data = "+".join(sent.get(talk.node, ())) or talk.node
        found.setdefault(ranks, []).append(asked.Call(talk.op, f"{talk.op} of {data}", size))
    return found, left
