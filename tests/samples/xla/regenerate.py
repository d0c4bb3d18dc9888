"""Write the programs of this folder with jax and XLA themselves, without any accelerator.

    python tests/samples/xla/regenerate.py [--tpu] [NAME ...]
    python tests/samples/xla/regenerate.py --run NAME

Needs ``pip install jax`` (made with 0.10.2). The CPU backend plays eight devices. ``--tpu`` also
writes the programs that XLA's TPU compiler schedules for a v5e of eight chips, with asynchronous
collectives; it needs ``pip install libtpu`` and no TPU, because nothing is run.
"""

from __future__ import annotations

import argparse
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
DEVICES = 8
RING = [(i, (i + 1) % 4) for i in range(4)]


def mlp(s: Any) -> Any:
    """Training step, data x tensor parallel; the partitioner places the collectives."""
    import jax
    import jax.numpy as jnp

    def step(params: Any, x: Any, y: Any) -> Any:
        def loss(params: Any) -> Any:
            return jnp.mean((jnp.tanh(x @ params[0]) @ params[1] - y) ** 2)

        value, grads = jax.value_and_grad(loss)(params)
        return value, jax.tree.map(lambda p, g: p - 0.1 * g, params, grads)

    weights = (s((16, 32), None, "tp"), s((32, 16), "tp", None))
    return jax.jit(step).lower(weights, s((8, 16), "dp", None), s((8, 16), "dp", None))


def fsdp(s: Any) -> Any:
    """Three layers whose weights are sharded over all devices and gathered where needed."""
    import jax
    import jax.numpy as jnp

    def step(weights: Any, x: Any) -> Any:
        def loss(weights: Any) -> Any:
            h = x
            for w in weights:
                h = jnp.tanh(h @ w)
            return (h * h).sum()

        grads = jax.grad(loss)(weights)
        return [w - 0.1 * g for w, g in zip(weights, grads, strict=True)]

    weights = [s((32, 32), ("dp", "tp"), None)] * 3
    shardings = [w.sharding for w in weights]
    return jax.jit(step, out_shardings=shardings).lower(weights, s((64, 32), ("dp", "tp"), None))


def collectives(s: Any) -> Any:
    """Every collective of jax.lax in one shard_map."""
    from jax import lax

    def body(x: Any) -> Any:
        parts = [
            lax.psum(x, "tp"),
            lax.all_gather(x, "dp"),
            lax.psum_scatter(x, "tp", tiled=True),
            lax.all_to_all(x, "tp", 0, 0, tiled=True),
            lax.ppermute(x, "tp", RING),
            lax.pmax(x, ("dp", "tp")),
        ]
        return sum(part.sum() for part in parts)[None]

    return _shard_map(s, body, ("dp", "tp"), (("dp", "tp"),))


def ring(s: Any) -> Any:
    """Ring attention in shape: a permute in a loop of four passes, then a sum."""
    import jax.numpy as jnp
    from jax import lax

    def body(x: Any) -> Any:
        def turn(carry: Any, _: Any) -> Any:
            keys, total = carry
            total = total + jnp.tanh(x @ keys.T).sum()
            return (lax.ppermute(keys, "tp", RING), total), None

        (_, total), _ = lax.scan(turn, (x, jnp.zeros(())), None, length=4)
        return lax.psum(total, "tp")[None]

    return _shard_map(s, body, ("dp", "tp"), ("dp",))


def pipeline(s: Any) -> Any:
    """Four stages and their gradients: microbatches move on by permutes inside a scan."""
    import jax
    import jax.numpy as jnp
    from jax import lax

    def body(w: Any, x: Any) -> Any:
        stage = lax.axis_index("tp")

        def run(w: Any) -> Any:
            def tick(state: Any, t: Any) -> Any:
                fed = jnp.where(stage == 0, x[jnp.minimum(t, 3)], state)
                out = jnp.tanh(fed @ w)
                return lax.ppermute(out, "tp", [(0, 1), (1, 2), (2, 3)]), out

            _, outs = lax.scan(tick, jnp.zeros_like(x[0]), jnp.arange(7))
            return jnp.where(stage == 3, (outs[3:] ** 2).sum(), 0.0)

        return lax.psum(jax.grad(run)(w), "dp")

    mapped = jax.shard_map(
        body, mesh=s.mesh, in_specs=(s.p("tp", None), s.p(None, "dp", None)),
        out_specs=s.p("tp", None), check_vma=False,
    )  # fmt: skip
    return jax.jit(mapped).lower(s((32, 8), "tp", None), s((4, 8, 8), None, "dp", None))


def moe(s: Any) -> Any:
    """Expert parallelism: tokens go to their experts and come back."""
    import jax.numpy as jnp
    from jax import lax

    def body(x: Any) -> Any:
        sent = lax.all_to_all(x, "tp", 0, 0, tiled=True)
        back = lax.all_to_all(jnp.tanh(sent) * 2, "tp", 0, 0, tiled=True)
        return back + lax.pmean(x, "dp")

    return _shard_map(s, body, ("dp", "tp"), ("dp", "tp"))


def stages(s: Any) -> Any:
    """A branch on the device index whose groups stay inside the branch: right."""
    from jax import lax

    def body(x: Any) -> Any:
        early = lax.axis_index("tp") < 2
        return lax.cond(early, lambda v: lax.psum(v, "dp"), lambda v: lax.pmax(v, "dp") * 2, x)

    return _shard_map(s, body, ("dp", "tp"), ("dp", "tp"))


def divided(s: Any) -> Any:
    """A branch on the device index whose groups cross it: members call different collectives."""
    from jax import lax

    def body(x: Any) -> Any:
        first = lax.axis_index("dp") == 0
        return lax.cond(
            first, lambda v: lax.all_gather(v, "dp", tiled=True)[:8], lambda v: lax.psum(v, "dp"), x
        )

    return _shard_map(s, body, ("dp", "tp"), ("dp", "tp"))


def skipped(s: Any) -> Any:
    """One data-parallel half takes a branch that leaves the sum out."""
    from jax import lax

    def body(x: Any) -> Any:
        first = lax.axis_index("dp") == 0
        return lax.cond(first, lambda v: lax.psum(v, "dp"), lambda v: v * 2, x)

    return _shard_map(s, body, ("dp", "tp"), ("dp", "tp"))


def data_dependent(s: Any) -> Any:
    """A branch on the device's own data around a collective: no compiler can know."""
    from jax import lax

    def body(x: Any) -> Any:
        return lax.cond(x.sum() > 0, lambda v: lax.psum(v, "dp"), lambda v: v * 2, x)

    return _shard_map(s, body, ("dp", "tp"), ("dp", "tp"))


def agreed(s: Any) -> Any:
    """The same branch on a value that all devices have summed: every device takes the same one."""
    from jax import lax

    def body(x: Any) -> Any:
        total = lax.psum(x.sum(), ("dp", "tp"))
        return lax.cond(total > 0, lambda v: lax.psum(v, "dp"), lambda v: v * 2, x)

    return _shard_map(s, body, ("dp", "tp"), ("dp", "tp"))


def layers(s: Any) -> Any:
    """Three sharded layers, large enough for the TPU compiler to overlap their gathers."""
    import jax
    import jax.numpy as jnp

    def forward(x: Any, weights: Any) -> Any:
        for w in weights:
            x = jnp.tanh(x @ w)
        return x

    return jax.jit(forward).lower(s((1024, 1024), "dp", "tp"), [s((1024, 1024), "dp", "tp")] * 3)


PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "mlp": mlp, "fsdp": fsdp, "collectives": collectives, "ring": ring, "pipeline": pipeline,
    "moe": moe, "stages": stages, "divided": divided, "skipped": skipped,
    "data-dependent": data_dependent, "agreed": agreed,
}  # fmt: skip
TPU_PROGRAMS = {"tpu-layers": layers, "tpu-ring": ring, "tpu-mlp": mlp}
STABLEHLO = ("collectives", "ring", "stages", "skipped", "pipeline", "mlp")


def manual(s: Any) -> dict[str, Any]:
    """Return programs of ``shard_map`` whose branches and loops depend on what devices are given.

    Those of ``same`` hang on no device; of ``differs``, on data that no text says to be equal.
    """
    import jax
    import jax.numpy as jnp
    from jax import lax

    cut, whole, both = s.p("dp", "tp"), s.p(None), s.p(("dp", "tp"))

    def shard_map(body: Any, *into: Any, out: Any = cut) -> Any:
        return jax.shard_map(body, mesh=s.mesh, in_specs=into, out_specs=out, check_vma=False)

    def branch(x: Any, flag: Any) -> Any:
        return lax.cond(flag[0] > 0, lambda v: lax.psum(v, "dp"), lambda v: v * 2, x)

    def count(x: Any, n: Any) -> Any:
        return lax.fori_loop(0, n[0], lambda _, v: lax.psum(v, "dp"), x)

    def until(axes: Any) -> Any:
        def body(x: Any) -> Any:
            return lax.while_loop(
                lambda v: lax.psum(v.sum(), axes) > 1.0, lambda v: lax.psum(v, "tp") * 0.1, x
            )

        return shard_map(body, cut)

    def local(x: Any) -> Any:
        return lax.while_loop(lambda v: v.sum() > 1.0, lambda v: lax.psum(v, "dp") * 0.1, x)

    def carried(x: Any, n: Any) -> Any:
        def again(state: Any) -> Any:
            return state[1].sum(), lax.psum(state[1], "dp")

        return lax.while_loop(lambda state: state[0] > 0, again, (n[0], x))[1]

    def claimed(x: Any) -> Any:
        flag = shard_map(lambda v: v.sum(keepdims=True)[0], cut, out=whole)(x)
        return shard_map(branch, cut, whole)(x, flag)

    def gathered(x: Any) -> Any:
        parts = shard_map(lambda v: v.sum(keepdims=True)[0], cut, out=both)(x)
        return shard_map(branch, cut, both)(x, parts)

    def table(x: Any) -> Any:
        return shard_map(branch, cut, both)(x, jnp.array([0, 1] * 4))

    def constant(x: Any) -> Any:
        return shard_map(branch, cut, both)(x, jnp.array([1] * 8))

    x, free = s((16, 16), "dp", "tp"), jax.ShapeDtypeStruct((16, 16), "float32")
    one, two = s((1,), None), s((2,), "dp")
    whole_number = jax.ShapeDtypeStruct((1,), "int32", sharding=one.sharding)
    cut_number = jax.ShapeDtypeStruct((2,), "int32", sharding=two.sharding)
    part = jax.shard_map(
        lambda v: lax.psum(v, "dp"), mesh=s.mesh, in_specs=s.p("dp"), out_specs=s.p(),
        axis_names={"dp"}, check_vma=False,
    )  # fmt: skip
    programs = {
        "same-branch": (shard_map(branch, cut, whole), x, one),
        "same-branch-free": (
            shard_map(branch, cut, whole),
            free,
            jax.ShapeDtypeStruct((1,), "int32"),
        ),
        "same-branch-constant": (constant, x),
        "same-count": (shard_map(count, cut, whole), x, whole_number),
        "same-until": (until(("dp", "tp")), x),
        "differs-branch": (shard_map(branch, cut, s.p("dp")), x, two),
        "differs-branch-table": (table, x),
        "differs-branch-claimed": (claimed, x),
        "differs-branch-parts": (gathered, x),
        "differs-count": (shard_map(count, cut, s.p("dp")), x, cut_number),
        "differs-until": (until("dp"), x),
        "differs-until-local": (shard_map(local, cut), x),
        "differs-carried": (shard_map(carried, cut, whole), x, one),
        "differs-part": (part, x),
    }
    return {name: jax.jit(f).lower(*inputs) for name, (f, *inputs) in programs.items()}


class Shapes:
    """Makes sharded arguments over a mesh of 2 x 4 devices, named dp and tp."""

    def __init__(self, devices: Any) -> None:
        import numpy as np
        from jax.sharding import AxisType, Mesh

        grid = np.array(devices).reshape(2, 4)
        self.mesh = Mesh(grid, ("dp", "tp"), axis_types=(AxisType.Auto,) * 2)

    def p(self, *axes: Any) -> Any:
        """Return a partition."""
        from jax.sharding import PartitionSpec

        return PartitionSpec(*axes)

    def __call__(self, shape: tuple[int, ...], *axes: Any) -> Any:
        """Return an argument."""
        import jax
        from jax.sharding import NamedSharding

        sharding = NamedSharding(self.mesh, self.p(*axes))
        return jax.ShapeDtypeStruct(shape, "float32", sharding=sharding)


def _shard_map(s: Shapes, body: Any, into: tuple[Any, ...], out: tuple[Any, ...]) -> Any:
    import jax

    mapped = jax.shard_map(
        body, mesh=s.mesh, in_specs=s.p(*into), out_specs=s.p(*out), check_vma=False
    )
    return jax.jit(mapped).lower(s((16, 16), *into))


def portable(text: str) -> str:
    """Return a text without paths of this machine and without what no reader needs."""
    text = text.replace(str(ROOT) + "/", "")
    return re.sub(r', "?mxu_\w+"?=[^,}]*', "", text)


def write(name: str, lowered: Any, *, stablehlo: bool) -> None:
    """Write the scheduled HLO of a program, and its StableHLO if wanted."""
    (HERE / f"{name}.hlo").write_text(portable(lowered.compile().as_text()))
    if stablehlo:
        (HERE / f"{name}.mlir").write_text(portable(lowered.as_text()))


def run(lowered: Any) -> None:
    """Run a program of one argument; the second half of the devices gets negative numbers."""
    import jax
    import numpy as np

    compiled = lowered.compile()
    data = np.ones((16, 16), np.float32)
    data[8:] = -1
    result = compiled(jax.device_put(data, compiled.input_shardings[0][0]))
    print("ran to its end, sum", float(np.asarray(result).sum()))


def main() -> None:
    """Write what is named, or everything."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tpu", action="store_true")
    parser.add_argument("--run", metavar="NAME")
    parser.add_argument("names", nargs="*")
    arguments = parser.parse_args()
    limit = "--xla_cpu_collective_call_terminate_timeout_seconds=12"
    os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={DEVICES} {limit}"
    os.environ["JAX_PLATFORMS"] = "cpu"
    os.environ.setdefault("TPU_SKIP_MDS_QUERY", "1")
    import jax

    shapes = Shapes(jax.devices())
    if arguments.run:
        run(PROGRAMS[arguments.run](shapes))
        return
    for name in arguments.names or PROGRAMS:
        write(name, PROGRAMS[name](shapes), stablehlo=name in STABLEHLO)
    if not arguments.names:
        for name, lowered in manual(shapes).items():
            (HERE / "manual" / f"{name}.mlir").write_text(portable(lowered.as_text()))
    if arguments.tpu:
        from jax.experimental import topologies

        chips = topologies.get_topology_desc(platform="tpu", topology_name="v5e:2x4").devices
        shapes = Shapes(chips)
        for name, make in TPU_PROGRAMS.items():
            write(name, make(shapes), stablehlo=False)


if __name__ == "__main__":
    main()
