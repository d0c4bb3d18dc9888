"""Programs of jax, read after every pass of XLA that leaves a collective in them."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import planguard

from .cases import Case

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).resolve().parents[3]
UNSAFE = ("divided", "skipped", "data-dependent")
"""Samples that are written to hang or to mismatch."""
COLLECTIVE = re.compile(
    r" (all-reduce|all-gather|reduce-scatter|all-to-all|collective-permute|collective-broadcast)"
    r"(-start)?\("
)


def bodies() -> dict[str, Callable[[Any], Any]]:
    """Return further programs: what one device of a mesh of 2 x 4 computes."""
    import jax
    from jax import lax

    size = 4
    ring = [(i, (i + 1) % size) for i in range(size)]

    def scanned(x: Any) -> Any:
        def step(carry: Any, _: Any) -> Any:
            return lax.ppermute(carry, "tp", ring) + lax.psum(carry, "dp"), None

        return lax.scan(step, x, None, length=5)[0]

    return {
        "chain": lambda x: lax.ppermute(x, "tp", ring[:-1]),
        "reversed": lambda x: lax.ppermute(x, "tp", [(b, a) for a, b in ring]),
        "both ways": lambda x: (
            lax.ppermute(x, "tp", ring) + lax.ppermute(x, "tp", [(b, a) for a, b in ring])
        ),
        "one partner": lambda x: lax.ppermute(x, "tp", [(0, 3)]),
        "two rings": lambda x: lax.ppermute(lax.ppermute(x, "tp", ring), "dp", [(0, 1), (1, 0)]),
        "scatter and gather": lambda x: lax.all_gather(
            lax.psum_scatter(x, "tp", tiled=True), "tp", tiled=True
        ),
        "all to all": lambda x: lax.all_to_all(x, "tp", 0, 1, tiled=True),
        "scanned": scanned,
        "sums": lambda x: lax.psum(x, "dp") + lax.psum(x, "tp") + lax.psum(x, ("dp", "tp")),
        "largest": lambda x: lax.pmax(x, "tp") - lax.pmin(x, "dp"),
        "gradient": jax.grad(lambda x: (lax.all_gather(x, "tp") ** 2).sum()),
        "while": lambda x: lax.while_loop(
            lambda s: s[0] < 3, lambda s: (s[0] + 1, lax.ppermute(s[1], "tp", ring)), (0, x)
        )[1],
    }


def compiled(folder: Path) -> Iterator[str]:
    """Compile every program into a folder of its own, and yield its name."""
    flags = (
        "--xla_force_host_platform_device_count=8 --xla_dump_hlo_as_text "
        f"--xla_dump_to={folder} --xla_dump_hlo_pass_re=.*"
    )
    os.environ |= {"XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}
    path = ROOT / "tests" / "samples" / "xla" / "regenerate.py"
    spec = importlib.util.spec_from_file_location("samples_of_xla", path)
    assert spec is not None
    assert spec.loader is not None
    samples = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = samples
    spec.loader.exec_module(samples)
    import jax

    shapes = samples.Shapes(jax.devices())
    for name, make in samples.PROGRAMS.items():
        if name not in UNSAFE:
            make(shapes).compile()
            yield name
    for name, body in bodies().items():
        axes = (("dp", "tp"), None)
        mapped = jax.shard_map(
            body, mesh=shapes.mesh, in_specs=shapes.p(*axes), out_specs=shapes.p(*axes),
            check_vma=False,
        )  # fmt: skip
        jax.jit(mapped).lower(shapes((32, 16), *axes)).compile()
        yield name


def cases(*, quick: bool) -> Iterator[Case]:
    """Yield every text of every program that has a collective, once for each content."""
    folder = Path(tempfile.mkdtemp())
    seen: set[Path] = set()
    known: set[str] = set()
    for name in compiled(folder):
        for path in sorted(set(folder.glob("*.txt")) - seen):
            seen.add(path)
            text = path.read_text(encoding="utf-8", errors="replace")
            key = hashlib.sha256(text.encode()).hexdigest()
            if not text.startswith("HloModule") or not COLLECTIVE.search(text) or key in known:
                continue
            known.add(key)
            if quick and "after_optimizations" not in path.name:
                continue
            load = partial(planguard.load, path, planner="xla")
            yield Case(name, path.name.partition(".")[2], load, ("nccl", "nccl-lazy"))


def version() -> str:
    """Name the planner and its version."""
    import jax

    return f"jax {jax.__version__}"
