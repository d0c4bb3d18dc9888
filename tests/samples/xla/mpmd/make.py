"""Make the programs and manifests of this folder with jax, and run the right one.

    python tests/samples/xla/mpmd/make.py

Two stages of two devices each (four devices of one CPU): a weight split over the devices of each
stage, two microbatches, 1F1B. The programs are compiled by XLA; the manifests are written here. The
schedule of ``1f1b.mpmd.json`` is run with ``jax.device_put`` between the stages, and its gradients
are compared with those of one program.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=4"

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

HERE = Path(__file__).resolve().parent
BATCH, WIDTH, CHUNKS = 4, 8, 2
MESHES = {"first": "0-1", "second": "2-3"}
SPLIT, WHOLE = PartitionSpec(None, "x"), PartitionSpec()
ACTIVATION = {"shape": [BATCH, WIDTH], "dtype": "f32"}


def meshes() -> list[Mesh]:
    """Return the mesh of each stage."""
    devices = np.array(jax.devices())
    return [Mesh(devices[:2], ("x",)), Mesh(devices[2:], ("x",))]


def layer(weight: jax.Array, value: jax.Array) -> jax.Array:
    """One layer: each device has half of the columns, all have the result."""
    return jax.lax.all_gather(jnp.tanh(value @ weight), "x", axis=1, tiled=True)


def loss(weight: jax.Array, value: jax.Array) -> jax.Array:
    """The last layer and its loss, alike on both devices."""
    return jnp.sum(jax.lax.pmean(layer(weight, value) ** 2, "x"))


def programs() -> dict[str, object]:
    """Return the jitted programs: forward, last stage, backward."""
    first, second = meshes()

    def on(mesh, function, inputs, outputs):
        mapped = jax.shard_map(
            function, mesh=mesh, in_specs=inputs, out_specs=outputs, check_vma=False
        )
        return jax.jit(mapped)

    def last(weight, value):
        gradients = jax.grad(loss, argnums=(0, 1))(weight, value)
        return gradients[0] / 2, jax.lax.psum(gradients[1], "x") / 2

    def backward(weight, value, gradient):
        return jax.vjp(layer, weight, value)[1](gradient)[0] / 2

    return {
        "forward": on(first, layer, (SPLIT, WHOLE), WHOLE),
        "last": on(second, last, (SPLIT, WHOLE), (SPLIT, WHOLE)),
        "backward": on(first, backward, (SPLIT, WHOLE, WHOLE), SPLIT),
    }


def order(*, crossed: bool = False) -> dict[str, list[dict[str, object]]]:
    """Return 1F1B of two stages.

    The second stage receives the next activation before it sends a gradient. ``crossed``: it sends
    first, as the first stage does, and nobody waits for a send before the end.
    """
    later = {"async": True} if crossed else {}
    first: list[dict[str, object]] = []
    second: list[dict[str, object]] = []
    for chunk in range(CHUNKS):
        sent = {"send": f"activation.{chunk}", "to": "second", **ACTIVATION, **later}
        first += [{"run": "forward", "as": f"F0.{chunk}"}, sent]
        receive = {"recv": f"activation.{chunk}", "from": "first", **ACTIVATION}
        second.insert(len(second) - (0 if crossed or not chunk else 1), receive)
        second += [{"run": "last", "as": f"FB1.{chunk}"},
                   {"send": f"gradient.{chunk}", "to": "first", **ACTIVATION, **later}]  # fmt: skip
    for chunk in range(CHUNKS):
        first += [{"recv": f"gradient.{chunk}", "from": "second", **ACTIVATION},
                  {"run": "backward", "as": f"B0.{chunk}"}]  # fmt: skip
    if crossed:
        first += [{"wait": f"activation.{chunk}"} for chunk in range(CHUNKS)]
        second += [{"wait": f"gradient.{chunk}"} for chunk in range(CHUNKS)]
    return {"first": first, "second": second}


def swapped() -> dict[str, list[dict[str, object]]]:
    """The second stage receives the microbatches in the other order."""
    lines = order()
    receives = [at for at, line in enumerate(lines["second"]) if "recv" in line]
    a, b = receives
    lines["second"][a], lines["second"][b] = lines["second"][b], lines["second"][a]
    return lines


def other_program() -> dict[str, list[dict[str, object]]]:
    """Rank 1 runs the backward program where rank 0 runs the forward."""
    lines = order()
    lines["1"] = [
        {**line, "run": "backward"} if line.get("as") == "F0.1" else line for line in lines["first"]
    ]
    return lines


def forgotten() -> dict[str, list[dict[str, object]]]:
    """The second stage does not send the last gradient."""
    lines = order()
    lines["second"] = [line for line in lines["second"] if "gradient.1" not in line.values()]
    return lines


def manifest(lines: dict[str, list[dict[str, object]]], communicators: str = "pair") -> str:
    """Return a manifest."""
    files = {name: f"{name}.hlo" for name in ("forward", "last", "backward")}
    head = {"schema": "planguard.mpmd/1", "meshes": MESHES, "communicators": communicators,
            "programs": files}  # fmt: skip
    rows = [
        f'  "{key}": [\n   ' + ",\n   ".join(map(json.dumps, some)) + "]"
        for key, some in lines.items()
    ]
    return json.dumps(head)[:-1] + ',\n "order": {\n' + ",\n".join(rows) + "}}\n"


def played(compiled: dict[str, object]) -> list[jax.Array]:
    """Run the lists of the right manifest, device_put for every message; return the gradients."""
    stages = dict(zip(MESHES, meshes(), strict=True))
    key = jax.random.PRNGKey(0)
    weights = {name: jax.random.normal(jax.random.fold_in(key, n), (WIDTH, WIDTH)) / 4
               for n, name in enumerate(MESHES)}  # fmt: skip
    placed = {name: jax.device_put(weights[name], NamedSharding(mesh, SPLIT))
              for name, mesh in stages.items()}  # fmt: skip
    inputs = [jax.random.normal(jax.random.fold_in(key, 9 + n), (BATCH, WIDTH))
              for n in range(CHUNKS)]  # fmt: skip
    value, wire, got = {}, {}, {"first": 0.0, "second": 0.0}
    lines, at = order(), dict.fromkeys(MESHES, 0)
    while any(at[name] < len(lines[name]) for name in MESHES):
        for name, mesh in stages.items():
            while at[name] < len(lines[name]):
                line = lines[name][at[name]]
                if "recv" in line and line["recv"] not in wire:
                    break
                at[name] += 1
                chunk = int(str(line.get("as", line.get("send", "0"))).rpartition(".")[2] or 0)
                if "send" in line:
                    wire[line["send"]] = value[line["send"]]
                elif "recv" in line:
                    whole = NamedSharding(mesh, WHOLE)
                    value[name, line["recv"]] = jax.device_put(wire[line["recv"]], whole)
                elif line.get("run") == "forward":
                    given = jax.device_put(inputs[chunk], NamedSharding(mesh, WHOLE))
                    value["in", chunk] = given
                    value[f"activation.{chunk}"] = compiled["forward"](placed[name], given)
                elif line.get("run") == "last":
                    given = value[name, f"activation.{chunk}"]
                    gradient, value[f"gradient.{chunk}"] = compiled["last"](placed[name], given)
                    got[name] = got[name] + gradient
                elif line.get("run") == "backward":
                    back = value[name, f"gradient.{chunk}"]
                    got[name] = got[name] + compiled["backward"](
                        placed[name], value["in", chunk], back
                    )

    def whole(first, second):
        return sum(jnp.sum(jnp.tanh(jnp.tanh(x @ first) @ second) ** 2) for x in inputs)

    wanted = jax.grad(whole, argnums=(0, 1))(weights["first"], weights["second"])
    for name, reference in zip(MESHES, wanted, strict=True):
        print(name, "largest difference", float(jnp.abs(got[name] - reference).max()),
              "of", float(jnp.abs(reference).max()))  # fmt: skip
    return [got[name] for name in MESHES]


def main() -> None:
    """Write the files and run the right schedule."""
    jitted = programs()
    value = jnp.zeros((BATCH, WIDTH))
    weight = jnp.zeros((WIDTH, WIDTH))
    given = {"forward": (weight, value), "last": (weight, value),
             "backward": (weight, value, value)}  # fmt: skip
    for name, function in jitted.items():
        text = function.lower(*given[name]).compile().as_text()
        (HERE / f"{name}.hlo").write_text(text.replace(str(HERE) + "/", ""))
    for name, text in {
        "1f1b": manifest(order()), "crossed": manifest(order(crossed=True)),
        "crossed-directional": manifest(order(crossed=True), "direction"),
        "swapped": manifest(swapped()), "other-program": manifest(other_program()),
        "forgotten": manifest(forgotten()),
    }.items():  # fmt: skip
        (HERE / f"{name}.mpmd.json").write_text(text)
    played(jitted)


if __name__ == "__main__":
    main()
