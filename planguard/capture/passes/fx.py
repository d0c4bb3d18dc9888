"""Capture the graphs of a module or function for all ranks, without devices and without a job.

Every rank is traced in a process of its own on torch's fake process group: collectives return at
once and communicate nothing, so one machine without a GPU plays a world of any size.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from planguard.arguments import CALLABLE, COUNT, MESH, PATH, RANKS, a, arguments
from planguard.capture.passes.trace import trace
from planguard.capture.planner import fx_planner
from planguard.capture.play.classes import first_ranks, rank_classes, settle
from planguard.capture.play.fake_world import (
    Mesh,
    fake_world,
    make_mesh,
    read_mesh,
    refuse_real_group,
)
from planguard.capture.play.imports import warm
from planguard.capture.play.processes import run_ranks, start_autograd
from planguard.capture.play.rank_reads import rank_mentions, rank_reads
from planguard.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

SAMPLES = 1
"""Further ranks per class that are traced to check that the class behaves alike."""


BUNDLE = a("FxBundle", "planguard.capture.fx(...) gives one")


class FxCapture:
    """Captures graphs: call it, or use ``dump``, ``load`` and ``group_table``.

    Example::

        bundle = planguard.capture.fx(model, (x,), 8, mesh={"dp": 2, "tp": 4}, prepare=shard)
        planguard.check(bundle)
    """

    @arguments(world_size=COUNT, mesh=MESH, ranks=RANKS, prepare=CALLABLE)
    def __call__(
        self,
        fn_or_module: Any,
        inputs: Sequence[Any] | Callable[..., Sequence[Any]] = (),
        world_size: int = 1,
        *,
        mesh: Mapping[str, int] | Sequence[tuple[str, int]] | None = None,
        ranks: str | Sequence[int] | None = None,
        prepare: Callable[[Any, Any], Any] | None = None,
        **options: Any,
    ) -> Any:
        """Trace a module or function for every rank.

        Args:
            fn_or_module: What to trace; or, with ``prepare``, what it starts from.
            inputs: Positional arguments, or a function of the mesh that makes them.
            world_size: Number of ranks.
            mesh: Device mesh, ``{"dp": 2, "tp": 4}``, outermost first.
            ranks: None traces one rank of each class and a sample, or every rank when the code
                asks for its rank; ``"all"`` traces every rank; a list traces those, and the others
                run the program of the nearest smaller one (SPMD).
            prepare: Called as ``prepare(fn_or_module, mesh)`` in the process of each rank, where
                the process group exists; returns what to trace. Shard the model here.
            options: ``tracer`` (``aot``, ``make_fx``, ``export``), ``loss`` (function of the
                output, for the backward pass), ``fullgraph``, ``dynamic``, ``tracing_mode``,
                ``name``, ``timeout`` (seconds per rank, 300), ``start`` (``fork``, ``spawn``),
                ``jobs``.

        Returns:
            An ``FxBundle``, which ``planguard.check`` takes.

        Raises:
            UsageError: If the mesh does not tile the world, or a rank cannot be traced.
        """
        job = _Job(fn_or_module, inputs, world_size, read_mesh(mesh, world_size), prepare, options)
        return job.run(ranks)

    @arguments(bundle=BUNDLE, path=PATH)
    def dump(self, bundle: Any, path: str | Path) -> None:
        """Write captured graphs as ``planguard.fx/1``; gzipped when the name ends in ``.gz``."""
        fx_planner().write_bundle(bundle, path)

    @arguments(path=PATH)
    def load(self, path: str | Path) -> Any:
        """Read a dump back.

        Raises:
            PlanError: If it is not a well-formed dump.
        """
        return fx_planner().read_bundle(path)

    def group_table(self) -> dict[str, Any]:
        """Return the process groups of this process by name, for graphs captured by other means."""
        import torch.distributed as dist
        from torch.distributed.distributed_c10d import _world

        group = fx_planner().FxGroup
        return {
            str(name): group(
                tuple(dist.get_process_group_ranks(pg)), str(name), str(pg.group_desc or "")
            )
            for pg, name in _world.pg_names.items()
        }


_IMPORTS = (
    ("torch.testing._internal.distributed.fake_pg", "torch.distributed.tensor.parallel"),
    (
        "torch.testing._internal.distributed.fake_pg",
        "torch.distributed.tensor.parallel",
        "torch._dynamo.backends.common",
        "functorch.compile",
    ),
)
_OPTIONS = frozenset(
    {
        "tracer",
        "loss",
        "fullgraph",
        "dynamic",
        "tracing_mode",
        "name",
        "timeout",
        "start",
        "jobs",
    }
)


class _Job:
    """One capture: what to trace, and where. Picklable when its parts are, for ``spawn``."""

    def __init__(
        self,
        target: Any,
        inputs: Any,
        world_size: int,
        mesh: Mesh,
        prepare: Callable[[Any, Any], Any] | None,
        options: dict[str, Any],
    ) -> None:
        unknown = sorted(set(options) - _OPTIONS)
        if unknown:
            raise UsageError(
                f"capture.fx has no option {unknown[0]!r}",
                hint=f"known: {', '.join(sorted(_OPTIONS))}",
            )
        self.target = target
        self.inputs = inputs
        self.world_size = world_size
        self.mesh = mesh
        self.prepare = prepare
        self.options = options

    def run(self, ranks: str | Sequence[int] | None) -> Any:
        """Trace the ranks and put the bundle together."""
        refuse_real_group()
        warm(*_IMPORTS[self.options.get("tracer", "aot") == "aot"])
        start_autograd()
        bundle_class = fx_planner().FxBundle
        traced, like = self._traced(ranks)
        versions = {traced[rank][1] for rank in traced}
        return bundle_class(
            world_size=self.world_size,
            programs={rank: program for rank, (program, _, _) in sorted(traced.items())},
            like=like,
            mesh=self.mesh,
            name=self.options.get("name"),
            producer=("torch", versions.pop()),
        )

    def _traced(self, ranks: str | Sequence[int] | None) -> tuple[dict[int, Any], dict[int, int]]:
        everyone = range(self.world_size)
        if ranks == "all":
            return self._trace(list(everyone)), {}
        if isinstance(ranks, str):
            raise UsageError(f"ranks is {ranks!r}", hint='None, "all" or a list of ranks')
        if ranks is not None:
            chosen = sorted(set(ranks))
            if not chosen or chosen[0] < 0 or chosen[-1] >= self.world_size:
                raise UsageError(f"ranks {chosen} are not ranks of a world of {self.world_size}")
            like = {
                rank: max((r for r in chosen if r < rank), default=chosen[0])
                for rank in everyone
                if rank not in chosen
            }
            return self._trace(chosen), like
        return self._by_class()

    def _by_class(self) -> tuple[dict[int, Any], dict[int, int]]:
        """Trace rank 0; all ranks when it asked for its rank, else one rank of each class."""
        everyone = range(self.world_size)
        traced = self._trace([0])
        if traced[0][2]:
            return {**traced, **self._trace(list(everyone)[1:])}, {}
        classes = rank_classes(self.world_size, self.mesh)
        traced.update(self._trace([rank for rank in first_ranks(classes, SAMPLES) if rank]))
        if any(reads for _, _, reads in traced.values()):
            return {**traced, **self._trace([r for r in everyone if r not in traced])}, {}
        signature = fx_planner().sharing.signature
        like = settle(classes, traced, self._trace, lambda entry: signature(entry[0]))
        return traced, like

    def _trace(self, ranks: list[int]) -> dict[int, Any]:
        """Trace ranks in their processes: program, torch version, places that read the rank."""
        import json

        planner = fx_planner()
        timeout = float(self.options.get("timeout", 300.0))
        answers = run_ranks(
            ranks,
            self.trace_rank,
            timeout=timeout,
            start=self.options.get("start", "fork"),
            jobs=self.options.get("jobs"),
        )
        found = {}
        for rank, answer in answers.items():
            payload = json.loads(answer)
            bundle = planner.read_bundle(payload["dump"], name=f"capture of rank {rank}")
            found[rank] = (bundle.programs[rank], bundle.producer[1], payload["reads"])
        return found

    def trace_rank(self, rank: int) -> bytes:
        """Trace one rank in this process and return its dump as JSON."""
        import json

        import torch

        planner = fx_planner()
        torch.set_num_threads(1)  # a forked child must not enter the parent's thread pool
        with fake_world(rank, self.world_size):
            mesh = make_mesh(self.mesh)
            with rank_reads() as reads:
                target = self.target if self.prepare is None else self.prepare(self.target, mesh)
                inputs = self.inputs(mesh) if callable(self.inputs) else self.inputs
            reads += rank_mentions(target)
            program = trace(
                target,
                inputs,
                tracer=self.options.get("tracer", "aot"),
                loss=self.options.get("loss"),
                options=self.options,
            )
            program = replace(program, groups=fx.group_table())
            converted = planner.convert.convert_program(program)
        bundle = planner.FxBundle(
            self.world_size,
            {rank: converted},
            like=dict.fromkeys((r for r in range(self.world_size) if r != rank), rank),
            producer=("torch", str(torch.__version__)),
        )
        dump = json.loads(planner.dump.dump_text(bundle))
        return json.dumps({"dump": dump, "reads": reads}).encode()


fx = FxCapture()
"""The capture: ``planguard.capture.fx(...)``."""
