"""nnScaler's policies, schedulers, reducers and ZeRO: the code that ``parallelize`` generates."""

from __future__ import annotations

import atexit
import contextlib
import importlib
import itertools
import multiprocessing
import os
import shutil
import sys
import tempfile
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import planguard

from .cases import TORCH_MODELS, Case, RefusedError

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[3]
SECONDS = 120.0
"""Time that generating one plan may take."""
SCHEDULERS = ("1f1b", "1f1b_interleaved", "1f1b_plus", "gpipe", "chimera_direct", "infer_pipe")
REDUCERS: dict[str, dict[str, Any]] = {
    "": {},
    "buckets": {"reducer_bucket_cap_mb": 0.002},
    "async": {"use_async_reducer": True},
    "async buckets": {"use_async_reducer": True, "reducer_bucket_cap_mb": 0.002},
}
ZERO: dict[str, dict[str, Any]] = {
    "": {},
    "zero": {"use_zero": True},
    "zero in 2 groups": {"use_zero": True, "zero_ngroups": 2},
    "zero scatter": {"use_zero": True, "zero_use_reduce_scatter": True},
}
Setting = tuple[str, str, str, int, int, dict[str, Any], bool]
"""Kind, model, policy, devices of the plan, ranks, fields of ``ComputeConfig``, recomputation."""


def parallel(*, quick: bool) -> Iterator[Setting]:
    """Yield plans without a pipeline."""
    sizes = ((1, 4), (2, 4)) if quick else ((1, 2), (1, 4), (2, 2), (2, 4), (4, 4), (2, 8))
    for model, policy, (devices, ranks), (reducer, r), (zero, z), whole, folding, redo in (
        itertools.product(
            ("mlp",) if quick else ("mlp", "gpt1"), ("tp", "dp", "data"), sizes, REDUCERS.items(),
            ZERO.items(), (True, False), (False, True), (False, True),
        )
    ):  # fmt: skip
        if (policy == "dp") != (devices == 1) or (not whole and "async" in reducer):
            continue
        said = [policy, reducer, zero, "" if whole else "not end to end", "recompute" * redo]
        fields = {"use_end2end": whole, "constant_folding": folding, **r, **z}
        yield ", ".join(filter(None, said)), model, policy, devices, ranks, fields, redo


def pipelines(*, quick: bool) -> Iterator[Setting]:
    """Yield pipelines."""
    shapes = ((2, 2, 2, 4), (4, 4, 4, 4)) if quick else (
        (2, 2, 2, 2), (2, 2, 2, 4), (3, 3, 3, 3), (4, 4, 4, 4), (4, 2, 2, 2), (4, 2, 4, 4),
        (4, 2, 2, 4), (2, 2, 4, 4), (2, 2, 4, 8),
    )  # fmt: skip
    for model, scheduler, (stages, size, devices, ranks), times, (reducer, r), (zero, z), redo in (
        itertools.product(
            ("mlp",) if quick else ("mlp", "gpt"), SCHEDULERS, shapes, (1, 2, 3),
            REDUCERS.items(), ZERO.items(), (False, True),
        )
    ):  # fmt: skip
        if (reducer or zero) and ranks == devices:
            continue
        pas = {"pipeline_nmicros": times * max(1, stages // 2), "pipeline_nstages": stages,
               "pp_size": size, "pipeline_scheduler": scheduler}  # fmt: skip
        fields = {"pas_config": pas, "inference_only": scheduler == "infer_pipe", **r, **z}
        said = [scheduler, "data parallel" * (ranks > devices), reducer, zero, "recompute" * redo]
        yield ", ".join(filter(None, said)), model, "hybrid", devices, ranks, fields, redo


@cache
def prepared(source: Path) -> tuple[Path, Any]:
    """Make a copy of nnScaler that runs here, and import it once for all forked children."""
    sys.path.insert(0, str(ROOT / "tests" / "samples" / "nnscaler"))
    import regenerate  # type: ignore[import-not-found]

    folder = Path(tempfile.mkdtemp(prefix="nnscaler-sweep-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)  # forked children leave by _exit
    regenerate.prepare(source, folder)
    os.environ |= {"TRACE_STRATEGY": "cpu", "NNSCALER_ASYNC_COMM": "0"}
    sys.path.insert(0, str(folder))
    import torch

    torch.set_num_threads(1)
    torch.cuda.current_device = lambda: 0
    for name in ("nnscaler.parallel", "nnscaler.policies"):
        importlib.import_module(name)
    return folder, importlib.import_module("models")


def generate(source: Path, setting: Setting, out: str, pipe: Any) -> None:
    """Let nnScaler parallelize a model, in a process of its own; never returns."""
    _, models = prepared(source)
    said = ""
    with Path(os.devnull).open("w") as null:
        os.dup2(null.fileno(), 1)
        os.dup2(null.fileno(), 2)
        try:
            _parallelize(models, setting, out)
        except BaseException as error:  # noqa: BLE001 - whatever it raises is its refusal
            while (error.__cause__ or error.__context__) is not None:
                error = error.__cause__ or error.__context__  # type: ignore[assignment]
            said = f"{type(error).__name__}: {str(error)[:160]}"
    pipe.send(said)
    os._exit(0)


def _parallelize(models: Any, setting: Setting, out: str) -> None:
    import torch
    from nnscaler import parallel as nn
    from nnscaler import policies
    from nnscaler.flags import CompileFlag
    from nnscaler.graph.graph import IRFwOperation

    CompileFlag.trace_strategy = "cpu"
    torch.manual_seed(0)
    _, kind, name, devices, ranks, fields, redo = setting
    made, sample = {"mlp": (models.MLP, models.mlp_sample), "gpt": (models.GPT, models.gpt_sample),
                    "gpt1": (lambda: models.GPT(1), models.gpt_sample)}[kind]  # fmt: skip
    given = {"use_end2end": True, "trace_strategy": "cpu", **fields}
    config = nn.ComputeConfig(devices, ranks, **given)

    def policy(graph: Any, cfg: Any) -> Any:
        if redo:  # before the policy, whose pieces keep the mark
            nodes = graph.select(ntype=IRFwOperation)[1:-2]
            half = len(nodes) // 2 if name == "hybrid" else len(nodes)
            for part in (nodes[:half], nodes[half:]):
                if part and not (name == "hybrid" and cfg.pas_config["pipeline_nstages"] > 2):
                    graph.recompute(part)
        return getattr(policies, f"pas_{name}")(graph, cfg)

    nn.parallelize(made(), {"data": sample()}, policy, config, gen_savedir=out, load_module=False,
                   reuse="override")  # fmt: skip


def made(source: Path, setting: Setting) -> Any:
    """Generate the code of a setting and read it."""
    _, models = prepared(source)
    context = multiprocessing.get_context("fork")
    with tempfile.TemporaryDirectory() as out:
        ours, theirs = context.Pipe()
        child = context.Process(target=generate, args=(source, setting, out, theirs))
        child.start()
        theirs.close()
        said = "no answer"
        with contextlib.suppress(EOFError):
            said = ours.recv() if ours.poll(SECONDS) else f"not done after {SECONDS:.0f} s"
        child.kill()
        child.join()
        if said:
            raise RefusedError(said)
        inputs = models.MLP_INPUTS if setting[1] == "mlp" else models.GPT_INPUTS
        step = "infer" if setting[5].get("inference_only") else "train"
        return planguard.load(out, planner="nnscaler", inputs=inputs, step=step)


def cases(*, quick: bool, source: Path) -> Iterator[Case]:
    """Yield every plan without a pipeline, then every pipeline."""
    for setting in itertools.chain(parallel(quick=quick), pipelines(quick=quick)):
        kind, model, _, devices, ranks, fields, _ = setting
        shown = {"model": model, "plan_ngpus": devices, "runtime_ngpus": ranks,
                 **fields.get("pas_config", {})}  # fmt: skip
        if fields.get("constant_folding"):
            shown["constant_folding"] = True
        text = " ".join(f"{name}={value}" for name, value in shown.items())
        yield Case(kind, text, partial(made, source, setting), TORCH_MODELS)


def version() -> str:
    """Name the planner and its version."""
    return "nnScaler 0.8 at revision 1585c15"
