"""A pipeline of passes, run for every rank of a job, each pass judged on the graphs of all ranks.

A planner of graphs is a list of passes. When the last graph is wrong, the author wants to know
which pass made it so.
"""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from planguard.arguments import CALLABLE, COUNT, DURATION, MESH, NAME, RANKS, arguments, one_of
from planguard.capture.passes.fx import fx
from planguard.capture.passes.validate_pass import PassVerdict, validate_pass
from planguard.capture.planner import fx_planner
from planguard.capture.play.fake_world import fake_world, make_mesh, read_mesh, refuse_real_group
from planguard.capture.play.processes import run_ranks
from planguard.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


@dataclass(frozen=True)
class PipelineReport:
    """What the passes of a pipeline did to the communication of a job.

    Attributes:
        passes: The verdict of every pass that was run, in order; of one that changed nothing about
            communication, too.
        failed: Passes that raised instead of returning a graph, with the rank and the error. The
            pipeline went on with the graph as it was before such a pass.
        stacks: The stack that torch.fx kept of a node, by rank and node, for nodes that a violation
            names.
    """

    passes: tuple[PassVerdict, ...]
    failed: tuple[tuple[str, str], ...] = ()
    stacks: Mapping[tuple[int | None, str], str] = field(default_factory=dict)

    @property
    def broken(self) -> list[PassVerdict]:
        """The passes that did not keep what they must."""
        return [verdict for verdict in self.passes if not verdict.valid]

    @property
    def valid(self) -> bool:
        """True when no pass violated anything. Passes that failed were not judged."""
        return not self.broken

    @property
    def complete(self) -> bool:
        """True when every pass ran, and the ranks were checked together and decided after each."""
        return not self.failed and all(verdict.complete for verdict in self.passes)

    def __bool__(self) -> bool:
        raise TypeError("a PipelineReport is not a bool; use .valid and .complete")

    def __str__(self) -> str:
        lines = [f"{len(self.passes)} passes, {len(self.broken)} broke communication"]
        for verdict in self.passes:
            lines += [str(verdict)]
            for violation in verdict.violations:
                stack = self.stacks.get((violation.rank, violation.node), "")
                lines += [f"    {line}" for line in stack.splitlines() if line.strip()]
        return "\n".join(lines + [f"pass {name}: not judged: {why}" for name, why in self.failed])


@arguments(
    build=CALLABLE, world_size=COUNT, mesh=MESH, ranks=RANKS, model=NAME, timeout=DURATION,
    start=one_of("fork", "spawn"), jobs=COUNT,
)  # fmt: skip
def validate_pipeline(  # noqa: PLR0913 - independent facts about the job, by keyword
    build: Callable[[Any], tuple[Any, ...]],
    world_size: int,
    *,
    mesh: Mapping[str, int] | Sequence[tuple[str, int]] | None = None,
    ranks: Literal["all"] | Sequence[int] = "all",
    on_failure: Literal["raise", "skip"] = "raise",
    model: str | None = None,
    timeout: float = 600.0,
    start: str = "fork",
    jobs: int | None = None,
) -> PipelineReport:
    """Run a pipeline of passes for every rank of a job, and judge each pass on all ranks together.

    Every rank is a process of this machine with torch's fake process group; nothing is
    communicated and no device is needed.

    Args:
        build: Called in the process of every rank, with the mesh. Returns the graph, the passes
            and, if there are any, the example inputs: ``(graph, passes)`` or
            ``(graph, passes, inputs)``. A pass is called as ``graph = pass_(graph, inputs)``, or
            without inputs where there are none; what returns None worked in place.
        world_size: Number of ranks.
        mesh: Device mesh, ``{"dp": 2, "tp": 4}``, outermost first.
        ranks: The ranks to run. With fewer than all, the others are taken to do the same on their
            own groups, which the mesh gives.
        on_failure: A pass that raises: stop, or go on without it and list it in ``failed``.
        model: Execution model of the check.
        timeout: Seconds a rank may take.
        start: ``fork``, or ``spawn`` after CUDA was used.
        jobs: Processes at a time; by default one per CPU.

    Raises:
        UsageError: If a rank cannot build its graph, a pass raises, or the ranks do not run the
            same passes.
        PlanError: If a graph cannot be read.
    """
    if on_failure not in ("raise", "skip"):
        raise UsageError(f"on_failure is {on_failure!r}", hint='"raise" or "skip"')
    refuse_real_group()
    dims = read_mesh(mesh, world_size)
    chosen = list(range(world_size)) if ranks == "all" else sorted({int(rank) for rank in ranks})
    if not chosen or chosen[0] < 0 or chosen[-1] >= world_size:
        raise UsageError(f"ranks {chosen} are not ranks of a world of {world_size}")
    runner = _Rank(build, world_size, dims, skip=on_failure == "skip")
    answers = run_ranks(chosen, runner.trail, timeout=timeout, start=start, jobs=jobs)
    trails = {rank: _read(answer, rank) for rank, answer in answers.items()}
    return _judged(trails, world_size, dims, model)


def pass_name(one: Callable[..., Any]) -> str:
    """Return the name of a pass: that of the function, also behind ``functools.partial``."""
    while isinstance(one, functools.partial):
        one = one.func
    return str(getattr(one, "__name__", type(one).__name__))


@dataclass
class _Step:
    """One pass of one rank: its name, the graph behind it if it changed, or why it failed."""

    name: str
    dump: str | None = None
    failure: str = ""
    stacks: dict[str, str] = field(default_factory=dict)


@dataclass
class _Rank:
    """Runs the pipeline of one rank in a process of its own. Picklable when ``build`` is."""

    build: Callable[[Any], tuple[Any, ...]]
    world_size: int
    mesh: tuple[tuple[str, int], ...]
    skip: bool

    def trail(self, rank: int) -> bytes:
        """Return the graph before the first pass and behind every pass, as JSON."""
        import torch

        torch.set_num_threads(1)  # a forked child must not enter the parent's thread pool
        with fake_world(rank, self.world_size):
            graph, passes, *inputs = self.build(make_mesh(self.mesh))
            text = self._dump(graph, rank)
            steps = [_Step("", text, "", _talk_stacks(graph))]
            for one in passes:
                graph, step = self._apply(graph, one, inputs)
                behind = text if step.failure else self._dump(graph, rank)
                if behind != text:
                    step.dump, step.stacks = behind, _talk_stacks(graph)
                text = behind
                steps.append(step)
        return json.dumps([vars(step) for step in steps]).encode()

    def _apply(self, graph: Any, one: Callable[..., Any], inputs: list[Any]) -> tuple[Any, _Step]:
        step = _Step(pass_name(one))
        kept = _copied(graph) if self.skip else graph
        try:
            result = one(graph, *inputs)
        except Exception as error:
            if not self.skip:
                raise UsageError(
                    f"pass {step.name} raised {type(error).__name__}: {error}",
                    hint="on_failure='skip' goes on without it",
                ) from error
            step.failure = (
                f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
            )
            return kept, step
        return (graph if result is None else result), step

    def _dump(self, graph: Any, rank: int) -> str:
        planner = fx_planner()
        program = planner.FxProgram(graph, groups=fx.group_table())
        bundle = planner.FxBundle(
            self.world_size,
            {rank: planner.convert.convert_program(program)},
            like=dict.fromkeys((r for r in range(self.world_size) if r != rank), rank),
        )
        return str(planner.dump.dump_text(bundle))


def stacks_of(graph: Any, wanted: set[str]) -> dict[str, str]:
    """Return the stacks that torch.fx kept of some nodes of a GraphModule, innermost frame last."""
    nodes = getattr(getattr(graph, "graph", None), "nodes", ())
    return {
        node.name: str(node.meta["stack_trace"])
        for node in nodes
        if node.name in wanted and node.meta.get("stack_trace")
    }


def _copied(graph: Any) -> Any:
    """Copy a GraphModule without its tensors, so that a pass that fails leaves one as it was."""
    import torch

    if not isinstance(graph, torch.fx.GraphModule):
        return graph
    copied = torch.fx.Graph()
    values: dict[Any, Any] = {}
    output = copied.graph_copy(graph.graph, values, return_output_node=True)
    if output is not None:
        result, node = output
        copied.output(result).meta = dict(node.meta)
    for old, new in values.items():
        new.meta = dict(old.meta)
    return torch.fx.GraphModule(graph, copied)


def _talk_stacks(graph: Any) -> dict[str, str]:
    operations = fx_planner().operations
    nodes = getattr(getattr(graph, "graph", None), "nodes", ())
    wanted = {
        node.name for node in nodes
        if str(node.target).split(".", maxsplit=1)[0] in operations.NAMESPACES
    }  # fmt: skip
    return stacks_of(graph, wanted)


@dataclass
class _Trail:
    """The passes of one rank, and its program before them and behind each."""

    names: list[str]
    programs: list[Any]
    failures: list[str]
    stacks: dict[str, str]


def _read(answer: bytes, rank: int) -> _Trail:
    planner = fx_planner()
    steps = json.loads(answer)
    programs: list[Any] = []
    stacks: dict[str, str] = {}
    for step in steps:
        if step["dump"] is None:
            programs.append(programs[-1])
            continue
        bundle = planner.read_bundle(json.loads(step["dump"]), name=f"rank {rank}")
        program = bundle.programs[rank]
        programs.append(planner.FxProgram(program.graphs, groups=program.groups))
        stacks.update(step["stacks"])
    passes = steps[1:]
    return _Trail(
        [step["name"] for step in passes], programs, [step["failure"] for step in passes], stacks
    )


def _judged(
    trails: Mapping[int, _Trail],
    world_size: int,
    mesh: tuple[tuple[str, int], ...],
    model: str | None,
) -> PipelineReport:
    first = trails[min(trails)]
    for rank, trail in trails.items():
        if trail.names != first.names:
            raise UsageError(
                f"rank {rank} runs other passes than rank {min(trails)}: "
                f"{trail.names} and {first.names}",
                hint="build returns the same passes on all ranks",
            )
    passes: list[PassVerdict] = []
    failed: list[tuple[str, str]] = []
    for place, name in enumerate(first.names):
        failed += [
            (name, f"rank {rank}: {trail.failures[place]}")
            for rank, trail in sorted(trails.items())
            if trail.failures[place]
        ]
        if all(trail.failures[place] for trail in trails.values()):
            continue
        last = passes[-1] if passes else None
        if last is not None and all(
            t.programs[place] is t.programs[place + 1] for t in trails.values()
        ):
            passes.append(PassVerdict(name, (), last.verdict, last.verdict, {}, {}))
            continue
        before = {rank: trail.programs[place] for rank, trail in trails.items()}
        after = {rank: trail.programs[place + 1] for rank, trail in trails.items()}
        passes.append(
            validate_pass(before, after, name=name, world_size=world_size, mesh=mesh, model=model)
        )
    stacks = {
        (rank, node): text for rank, trail in trails.items() for node, text in trail.stacks.items()
    }
    named = {(v.rank, v.node) for verdict in passes for v in verdict.violations}
    return PipelineReport(
        tuple(passes), tuple(failed), {key: text for key, text in stacks.items() if key in named}
    )
