"""Four gloo processes: trace a job, let a pass change its graphs, write them down, run them.

Every rank traces with ``aot_autograd`` and Inductor's decompositions and keeps the graphs with the
tensors that they were called with. A setting is applied to copies; what comes out is a dump of the
rank's program and, run on the same tensors, the numbers of the unchanged graphs, others, an error,
or nothing for as long as the parent waits.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import json
import multiprocessing
import os
import tempfile
import time
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist

from . import inductor_models as models
from .inductor_passes import PASSES

if TYPE_CHECKING:
    from collections.abc import Iterator

PATIENCE, START = 8.0, 90.0
"""Seconds that a setting may take, and those until a job is traced."""


@dataclass
class Played:
    """What the ranks said of one setting.

    Attributes:
        dumps: The changed program by rank, as ``planguard.fx/1`` of one rank.
        refused: What the pass raised, by rank.
        ran: How running the changed graphs ended, by rank; a rank that is missing hangs.
    """

    dumps: dict[int, Any] = field(default_factory=dict)
    refused: dict[int, str] = field(default_factory=dict)
    ran: dict[int, str] = field(default_factory=dict)

    @property
    def outcome(self) -> str:
        """Say in a few words how the run ended."""
        if len(self.ran) < models.WORLD:
            return f"hangs, ranks {[r for r in range(models.WORLD) if r not in self.ran]}"
        ends = sorted(set(self.ran.values()))
        return "; ".join(ends)


class Traced:
    """The graphs of this rank, with the tensors they were called with and what they returned."""

    def __init__(self, name: str) -> None:
        from planguard.capture.planner import fx_planner

        self.planner, self.graphs = fx_planner(), []
        self.module, self.inputs = models.MODELS[name], None

    def trace(self) -> None:
        """Run the job once under torch.compile, forward and backward."""
        from torch.distributed.device_mesh import init_device_mesh

        dims, make = self.module
        mesh = init_device_mesh("cpu", tuple(dims.values()), mesh_dim_names=tuple(dims))
        torch.manual_seed(0)
        job = torch.compile(make(mesh), backend=self._backend, fullgraph=True)
        result = job(models.batch())
        if result.requires_grad:
            result.float().sum().backward()

    def _backend(self, module: Any, example: Any) -> Any:
        from functorch.compile import make_boxed_func
        from torch._dynamo.backends.common import aot_autograd
        from torch._inductor.decomposition import select_decomp_table

        names = self.planner.convert.input_names(module)

        def keep(phase: str) -> Any:
            def compiler(graph: Any, _: Any) -> Any:
                entry = [phase, names, copy.deepcopy(graph), None, None]
                self.graphs.append(entry)

                def call(*given: Any) -> Any:
                    entry[3] = [_cloned(one) for one in given]
                    result = graph.forward(*given)
                    entry[4] = [_cloned(one) for one in result]
                    return result

                return make_boxed_func(call)

            return compiler

        return aot_autograd(fw_compiler=keep("forward"), bw_compiler=keep("backward"),
                            decompositions=select_decomp_table())(module, example)  # fmt: skip

    def changed(self, name: str) -> list[Any]:
        """Apply a pass to copies of all graphs."""
        new = []
        for phase, _, graph, _, _ in self.graphs:
            module = copy.deepcopy(graph)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                PASSES[name](module, phase)
            module.graph.lint()
            module.recompile()
            new.append(module)
        return new

    def dump(self, new: list[Any]) -> Any:
        """Return the changed program of this rank as a dump."""
        from planguard.capture.passes.fx import fx

        planner, rank = self.planner, dist.get_rank()
        phases: dict[str, list[Any]] = {"forward": [], "backward": []}
        for (phase, names, *_), module in zip(self.graphs, new, strict=True):
            phases[phase].append(
                planner.convert.convert_graph(module, phase=phase, inputs=names, sort=True)
            )
        program = planner.FxProgram(phases["forward"], phases["backward"] or None,
                                    groups=fx.group_table())  # fmt: skip
        converted = planner.convert.convert_program(program)
        like = {r: rank for r in range(models.WORLD) if r != rank}
        bundle = planner.FxBundle(models.WORLD, {rank: converted}, like=like,
                                  producer=("torch", str(torch.__version__)))  # fmt: skip
        return json.loads(planner.dump.dump_text(bundle))

    def run(self, new: list[Any]) -> str:
        """Run the changed graphs on the tensors of the unchanged ones."""
        same = True
        with torch.no_grad():
            for (*_, given, wanted), module in zip(self.graphs, new, strict=True):
                got = module.forward(*[_cloned(one) for one in given])
                same &= all(_close(a, b) for a, b in zip(got, wanted, strict=True))
        return "ended" if same else "ended with other numbers"


def _cloned(value: Any) -> Any:
    return value.detach().clone() if isinstance(value, torch.Tensor) else value


def _close(a: Any, b: Any) -> bool:
    if not isinstance(a, torch.Tensor):
        return bool(a == b)
    return a.shape == b.shape and torch.allclose(a.float(), b.float(), rtol=1e-2, atol=1e-3)


def be_rank(rank: int, name: str, todo: list[str], store: str, pipe: Any) -> None:
    """Play one rank; never returns."""
    code = 1
    with (
        contextlib.suppress(BrokenPipeError),
        Path(os.devnull).open("w") as null,
    ):
        os.dup2(null.fileno(), 2)
        torch.set_num_threads(1)
        dist.init_process_group("gloo", store=dist.FileStore(store, models.WORLD), rank=rank,
                                world_size=models.WORLD)  # fmt: skip
        code = _play(Traced(name), todo, pipe)
    os._exit(code)


def _play(job: Traced, todo: list[str], pipe: Any) -> int:
    try:
        job.trace()
    except Exception as error:  # noqa: BLE001 - whatever stops the job is what we want to know
        pipe.send(("failed", "", f"{type(error).__name__}: {str(error)[:300]}"))
        return 1
    pipe.send(("traced", "", ""))
    for setting in todo:
        try:
            new = job.changed(setting)
            pipe.send(("plan", setting, job.dump(new)))
        except Exception as error:  # noqa: BLE001 - see above
            new = []
            pipe.send(("refused", setting, f"{type(error).__name__}: {str(error)[:200]}"))
        answers: list[Any] = [None] * models.WORLD
        dist.all_gather_object(answers, bool(new))
        if not all(answers):
            pipe.send(("ran", setting, "not run"))
            continue
        try:
            pipe.send(("ran", setting, job.run(new)))
        except Exception as error:  # noqa: BLE001 - see above
            pipe.send(("ran", setting, f"{type(error).__name__}: {str(error)[:100]}"))
            time.sleep(2 * PATIENCE)  # as a job would hang for the others
    return 0


def play(name: str, settings: list[str]) -> Iterator[tuple[str, Played]]:
    """Play a job under every setting; after one that hangs, with new processes.

    Raises:
        RuntimeError: If the job itself cannot be traced.
    """
    _warm()
    todo = list(settings)
    while todo:
        for setting, played in _once(name, list(todo)):
            todo.remove(setting)
            yield setting, played


@functools.cache
def _warm() -> None:
    """Import and initialize here what every forked rank needs, once."""
    import torch._dynamo.backends.common
    import torch._inductor.fx_passes.overlap_scheduling
    import torch.distributed.tensor.parallel
    from torch._inductor.fx_passes import post_grad

    torch.set_num_threads(1)  # a forked rank must not enter the parent's pool of threads
    post_grad.lazy_init()


def _once(name: str, todo: list[str]) -> Iterator[tuple[str, Played]]:
    context = multiprocessing.get_context("fork")
    with tempfile.TemporaryDirectory() as folder:
        ranks = []
        for rank in range(models.WORLD):
            ours, theirs = context.Pipe()
            given = (rank, name, todo, f"{folder}/store", theirs)
            ranks.append((context.Process(target=be_rank, args=given), ours))
            ranks[-1][0].start()
        try:
            _listen_traced(name, [pipe for _, pipe in ranks])
            for setting in todo:
                played = _listen(setting, [pipe for _, pipe in ranks])
                yield setting, played
                if played.outcome.startswith("hangs") or "Error" in played.outcome:
                    return
        finally:
            for process, _ in ranks:
                process.kill()
                process.join()


def _listen_traced(name: str, pipes: list[Any]) -> None:
    end = time.monotonic() + START
    for rank, pipe in enumerate(pipes):
        if not pipe.poll(max(0.0, end - time.monotonic())):
            raise RuntimeError(f"{name}: rank {rank} is not traced after {START:.0f} s")
        kind, _, text = pipe.recv()
        if kind != "traced":
            raise RuntimeError(f"{name}: rank {rank}: {text}")


def _listen(setting: str, pipes: list[Any]) -> Played:
    """Take what the ranks say of one setting until all have run, or patience ends."""
    played, end = Played(), time.monotonic() + PATIENCE
    while len(played.ran) < len(pipes) and time.monotonic() < end:
        for rank, pipe in enumerate(pipes):
            while rank not in played.ran and pipe.poll(0.01):
                try:
                    kind, said, what = pipe.recv()
                except EOFError:
                    kind, said, what = "ran", setting, "Error: the process died"
                assert said == setting, (said, setting)
                {"plan": played.dumps, "refused": played.refused, "ran": played.ran}[kind][rank] = (
                    what
                )
                end = max(end, time.monotonic() + PATIENCE / 2)
    return played
