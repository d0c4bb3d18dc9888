"""Run samples really, with nnScaler's runtime on gloo, and write down what they communicate.

    python tests/samples/nnscaler/record.py --source nnscaler [NAME ...]

Needs what ``regenerate.py`` needs. Each rank is a process on localhost; ``torch.cuda`` answers for
the CPU. The calls of one training step (and of gathering the parameters, with ZeRO) go to
``recorded/<name>.json``: per rank ``[operation, ranks of the group, peer or root, elements of the
tensor that counts, asynchronous]``, or the exception that ended the rank.
"""

from __future__ import annotations

import argparse
import functools
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

HERE = Path(__file__).resolve().parent
NAMES = (
    "mlp-tp4", "mlp-tp2dp2", "mlp-tp2dp2-async-reducer", "mlp-dp4", "mlp-dp4-zero2",
    "mlp-dp4-zero-scatter", "mlp-pp4-1f1b", "mlp-pp4-gpipe", "mlp-pp2v2dp2-interleaved",
    "mlp-pp2dp2-async-reducer", "mlp-pp2tp2dp2", "gpt1-tp2dp2", "gpt-data4", "gpt-pp4",
    "llama-tp4", "llama-pp2-1f1b", "vision-tp2", "mixture-tp4", "translator-data2",
    "wide-autodist2", "wide-autodist2-zero", "big-autodist4",
)  # fmt: skip
PATIENCE = 15.0
"""Seconds that a rank may take before it counts as stuck."""

_COUNTED = {
    "all_reduce": 0, "broadcast": 0, "send": 0, "recv": 0, "isend": 0, "irecv": 0, "all_gather": 1,
    "reduce_scatter": 0, "reduce_scatter_tensor": 0, "all_gather_into_tensor": 1,
    "all_to_all_single": 1, "all_to_all": 1, "reduce": 0,
}  # fmt: skip
"""Place of the tensor whose size the plan states."""


def rank_process(name: str, folder: Path, rank: int, world: int) -> None:
    """Run one rank of a sample."""
    import torch
    import torch.distributed as dist

    torch.cuda.current_device = lambda: "cpu"
    torch.cuda.set_device = torch.cuda.synchronize = torch.cuda.empty_cache = lambda *_: None
    torch.cuda.default_stream = lambda *_: None
    softmax = torch.softmax  # nnScaler passes it an argument of torch.nn.functional.softmax
    torch.softmax = lambda x, dim, dtype=None, _stacklevel=3: softmax(x, dim, dtype=dtype)
    os.environ |= {"LOCAL_WORLD_SIZE": str(world), "LOCAL_RANK": str(rank), "GROUP_RANK": "0"}
    os.environ |= {"RANK": str(rank), "WORLD_SIZE": str(world), "TORCHELASTIC_RUN_ID": name}
    store = f"file://{folder}/store-{name}"
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=world)
    sys.path[:0] = [str(folder), str(HERE)]
    import models
    import nnscaler.parallel  # noqa: F401 - the generated code uses it
    import regenerate

    target = folder / f"{name}-{rank}.json"
    calls = _record(dist, target)
    torch.manual_seed(0)
    path = next((folder / "out" / name).rglob(f"gencode{rank}.py"))
    spec = importlib.util.spec_from_file_location(f"gencode{rank}", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    module.GenModel._train_step = module._train_step
    _write(target, ["stuck"])  # creating groups may be where it gets stuck
    model = module.GenModel().train()
    calls.clear()
    try:
        kind = regenerate.SAMPLES[name][0]
        model.train_step(
            [models.sample(kind) for _ in range(module.GenModel.nmicros_per_scheduler_step)]
        )
        model.gather_params()
        _write(target, ["done", *calls])
    except Exception as error:  # noqa: BLE001 - whatever ends the rank is what we want to know
        _write(target, [f"{type(error).__name__}: {error}", *calls])
        time.sleep(2 * PATIENCE)  # a rank that raised and is still alive leaves the others waiting
    os._exit(0)


def _record(dist: Any, target: Path) -> list[list[Any]]:
    calls: list[list[Any]] = []

    def wrapped(op: str, real: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(real)
        def call(*args: Any, **kwargs: Any) -> Any:
            group = kwargs.get("group")
            tensor = args[_COUNTED[op]]
            count = (
                sum(part.numel() for part in tensor) if isinstance(tensor, list) else tensor.numel()
            )
            other = (
                args[1] if op in {"send", "recv", "isend", "irecv", "broadcast", "reduce"} else None
            )
            ranks = dist.get_process_group_ranks(group or dist.group.WORLD)
            message = op in {"send", "recv", "isend", "irecv"}
            calls.append(
                [op, None if message else sorted(ranks), other, count,
                 bool(kwargs.get("async_op")) or op[0] == "i"]
            )  # fmt: skip
            _write(target, ["stuck", *calls])  # in case this call never returns
            return real(*args, **kwargs)

        return call

    for op in _COUNTED:
        setattr(dist, op, wrapped(op, getattr(dist, op)))
    return calls


def _write(target: Path, found: list[Any]) -> None:
    """Write at once: another process reads this while the job runs."""
    beside = target.with_suffix(".new")
    beside.write_text(json.dumps(found))
    beside.replace(target)


def run(name: str, folder: Path) -> dict[str, Any]:
    """Run all ranks of a sample and return what each did."""
    world = len(list((folder / "out" / name).rglob("gencode*.py")))
    command = [sys.executable, __file__, "--rank"]
    ranks = [
        subprocess.Popen(
            [*command, name, str(folder), str(rank), str(world)],
            stdout=subprocess.DEVNULL, stderr=(folder / f"{name}-{rank}.log").open("w"),
        )
        for rank in range(world)
    ]  # fmt: skip
    results = [folder / f"{name}-{rank}.json" for rank in range(world)]
    deadline, found = time.monotonic() + 100, _read(results)
    started = False
    while time.monotonic() < deadline:
        found = _read(results)
        ends = [calls[0] for calls in found.values()]
        if "stuck" not in ends and "never started" not in ends:
            break
        if "never started" not in ends and not started:
            started, deadline = True, time.monotonic() + PATIENCE
        if any(process.poll() for process in ranks):
            break  # a rank ended before its step
        time.sleep(0.2)
    for process in ranks:
        process.kill()
        process.wait()
    return found


def _read(results: list[Path]) -> dict[str, Any]:
    return {
        str(rank): json.loads(path.read_text()) if path.exists() else ["never started"]
        for rank, path in enumerate(results)
    }


def main() -> None:
    """Record the samples that are named, or all."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(NAMES))
    parser.add_argument("--source", type=Path)
    parser.add_argument("--mutations", action="store_true", help="the names are those of mutations")
    parser.add_argument("--rank", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.rank:
        name, folder, rank, world = options.rank
        rank_process(name, Path(folder), int(rank), int(world))
    sys.path.insert(0, str(HERE))
    import mutations
    import regenerate

    (HERE / "recorded").mkdir(exist_ok=True)
    known = mutations.MUTATIONS if options.mutations else dict.fromkeys(NAMES)
    with tempfile.TemporaryDirectory() as base:
        regenerate.prepare(options.source, Path(base))
        for name in options.names or known:
            with tempfile.TemporaryDirectory() as place:
                folder = Path(place)
                (folder / "nnscaler").symlink_to(Path(base) / "nnscaler")
                record(name, known[name], folder, regenerate.__file__)


def record(name: str, mutation: Any, folder: Path, script: str) -> None:
    """Generate one sample, apply a mutation if there is one, run it and keep what it did."""
    sample = name if mutation is None else mutation.sample
    command = [sys.executable, script, "--generate", sample, str(folder)]
    subprocess.run(command, check=True, cwd=folder, capture_output=True)
    if mutation is not None:
        mutation.apply(folder / "out")
    found = run(sample, folder)
    rows = ",\n".join(f' "{rank}": {json.dumps(calls)}' for rank, calls in found.items())
    title = name if mutation is None else f"mutation-{name}"
    (HERE / "recorded" / f"{title}.json").write_text(f"{{\n{rows}\n}}\n")
    print(title, {rank: calls[0][:90] for rank, calls in found.items()}, flush=True)
    for rank, calls in found.items():
        if calls[0] == "never started":
            print((folder / f"{sample}-{rank}.log").read_text()[-600:])


if __name__ == "__main__":
    main()
