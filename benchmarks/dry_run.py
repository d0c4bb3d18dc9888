"""What a dry run costs: steps of five models with their work left out, and two large jobs.

    python benchmarks/dry_run.py models [NAME...]     needs transformers 5; random weights
    python benchmarks/dry_run.py jobs                 64 and 512 ranks by representatives

``models``: processor time of the second step (forward and backward) of each model, one thread,
each setting in a process of its own: for real, under ``stub_compute`` (real storage, works with
DDP), and with fake tensors. ``built`` is what it takes to make the model; RSS is the most the
process had resident.

``jobs``: wall clock and processor time of ``planguard dryrun --stub``, and the most memory its
processes had together (proportional set size, sampled every 0.2 s).
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

EXAMPLES = Path(__file__).resolve().parents[1] / "examples" / "dryrun"
LIMIT = float(os.environ.get("DRY_RUN_LIMIT", "240"))
"""Seconds a setting may take."""
SETTINGS = ("real", "stub", "fake")


def mlp() -> tuple[Any, Callable[[Any], Any]]:
    """Return 16 layers of 1024, batch 8."""
    import torch
    from torch import nn

    layers = [part for _ in range(16) for part in (nn.Linear(1024, 1024), nn.ReLU())]
    return nn.Sequential(*layers), lambda model: model(torch.randn(8, 1024)).sum()


def gpt2() -> tuple[Any, Callable[[Any], Any]]:
    """Return 6 layers of GPT-2, batch 8 of 512 tokens."""
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    model = GPT2LMHeadModel(GPT2Config(n_layer=6, use_cache=False))
    return model, lambda m: _loss(m, torch.randint(0, 50257, (8, 512)))


def mbart() -> tuple[Any, Callable[[Any], Any]]:
    """Return an mBART of 2 and 2 layers of 128, batch 8 of 512 tokens."""
    import torch
    from transformers import MBartConfig, MBartForConditionalGeneration

    config = MBartConfig(
        vocab_size=50265, d_model=128, encoder_layers=2, decoder_layers=2, use_cache=False,
        encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=512,
        decoder_ffn_dim=512,
    )  # fmt: skip
    model = MBartForConditionalGeneration(config)
    return model, lambda m: _loss(m, torch.randint(5, 50000, (8, 512)))


def swin() -> tuple[Any, Callable[[Any], Any]]:
    """Return Swin-T, batch 8."""
    import torch
    from transformers import SwinConfig, SwinForImageClassification

    model = SwinForImageClassification(SwinConfig())
    return model, lambda m: m(pixel_values=torch.randn(8, 3, 224, 224)).logits.sum()


def esmfold() -> tuple[Any, Callable[[Any], Any]]:
    """Return the triangular blocks of an ESMFold trunk: 2 of 48, a sequence of 64."""
    import torch
    from torch import nn
    from transformers.models.esm.configuration_esm import TrunkConfig
    from transformers.models.esm.modeling_esmfold import EsmFoldTriangularSelfAttentionBlock

    config = TrunkConfig()
    blocks = nn.ModuleList([EsmFoldTriangularSelfAttentionBlock(config) for _ in range(2)])

    def step(model: Any) -> Any:
        sequence = torch.randn(1, 64, config.sequence_state_dim)
        pairs = torch.randn(1, 64, 64, config.pairwise_state_dim)
        for block in model:
            sequence, pairs = block(sequence, pairs)
        return sequence.sum() + pairs.sum()

    return blocks, step


MODELS = {
    "mlp": ("MLP 16x1024, batch 8", mlp),
    "gpt2": ("GPT-2, 6 layers, batch 8, s512", gpt2),
    "mbart": ("mBART-like 2+2, d128, batch 8, s512", mbart),
    "swin": ("Swin-T, batch 8", swin),
    "esmfold": ("ESMFold trunk, 2 blocks, s64", esmfold),
}


def _loss(model: Any, tokens: Any) -> Any:
    return model(input_ids=tokens, labels=tokens).loss


def measure(name: str, setting: str) -> dict[str, float]:
    """Return seconds to build, of the second step, and MiB, in this process."""
    import torch

    from planguard.capture.play.compute_stub import stub_compute

    torch.set_num_threads(1)
    if setting == "fake":
        from torch._subclasses.fake_tensor import FakeTensorMode

        mode: Any = FakeTensorMode()
    else:
        mode = stub_compute() if setting == "stub" else nullcontext()
    begin = time.process_time()
    with mode:
        model, step = MODELS[name][1]()
        model.train()
        built = time.process_time() - begin
        for _ in range(2):
            model.zero_grad()
            begin = time.process_time()
            step(model).backward()
            seconds = time.process_time() - begin
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"built": built, "step": seconds, "rss": most}


def models(names: list[str]) -> None:
    """Print the table of models."""
    print(f"{'model':<38} {'setting':<8} {'built s':>8} {'step s':>9} {'real/this':>9} {'MiB':>6}")
    for name in names or MODELS:
        real = None
        for setting in SETTINGS:
            command = [sys.executable, __file__, "measure", name, setting]
            try:
                done = subprocess.run(
                    command, capture_output=True, text=True, timeout=LIMIT, check=False
                )
            except subprocess.TimeoutExpired:
                print(f"{MODELS[name][0]:<38} {setting:<8} not finished in {LIMIT:g} s", flush=True)
                continue
            if done.returncode:
                last = done.stderr.strip().splitlines()[-1][:80]
                print(f"{MODELS[name][0]:<38} {setting:<8} {last}", flush=True)
                continue
            found = json.loads(done.stdout.splitlines()[-1])
            real = found["step"] if setting == "real" else real
            ratio = f"{real / found['step']:9.1f}" if real else f"{'-':>9}"
            print(
                f"{MODELS[name][0]:<38} {setting:<8} {found['built']:8.2f} {found['step']:9.3f} "
                f"{ratio} {found['rss']:6.0f}",
                flush=True,
            )


JOBS = {
    "FSDP2 x TP8, 64 ranks": (
        ["--mesh", "dp=8,tp=8"],
        ["--nnodes", "8", "--nproc-per-node", "8"],
        ["sharded_tensor_parallel.py", "8", "8", "8", "1024"],
    ),
    "1F1B of 8 stages x DDP 64, 512 ranks": (
        ["--mesh", "dp=64,pp=8"],
        ["--nnodes", "64", "--nproc-per-node", "8"],
        ["replicated_pipeline.py", "64", "8", "16", "256"],
    ),
}


def jobs() -> None:
    """Print the table of jobs."""
    print(f"{'job':<38} {'wall s':>7} {'cpu s':>7} {'MiB':>6}  coverage; verdict")
    for name, (options, nodes, script) in JOBS.items():
        with tempfile.TemporaryDirectory() as folder:
            job = ["torchrun", *nodes, str(EXAMPLES / script[0]), *script[1:]]
            words = ["dryrun", "--stub", "--samples", "1", *options, "-o", f"{folder}/run"]
            command = [sys.executable, "-m", "planguard", *words, "--", *job]
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            begin = time.perf_counter()
            process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
            )
            most = 0.0
            while process.poll() is None:
                most = max(most, _memory(process.pid))
                time.sleep(0.2)
            wall = time.perf_counter() - begin
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            said = process.stdout.read().splitlines() if process.stdout else []
            kept = [line for line in said if line.startswith(("covered", "verdict"))]
            print(f"{name:<38} {wall:7.1f} {cpu:7.1f} {most:6.0f}  {'; '.join(kept)}", flush=True)


def _memory(root: int) -> float:
    """Return the MiB that a process and its descendants have, shared pages counted once."""
    total, todo = 0, [root]
    while todo:
        pid = todo.pop()
        place = Path(f"/proc/{pid}")
        try:
            todo += map(int, (place / f"task/{pid}/children").read_text().split())
            for line in (place / "smaps_rollup").read_text().splitlines():
                total += int(line.split()[1]) if line.startswith("Pss:") else 0
        except OSError:
            continue  # it has ended
    return total / 1024


def main() -> None:
    """Run what the command line names."""
    what, names = (sys.argv[1:2] or [""])[0], sys.argv[2:]
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    if what == "measure":
        print(json.dumps(measure(*names)))
    elif what == "jobs":
        jobs()
    elif what == "models":
        models(names)
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
