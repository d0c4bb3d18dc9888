"""Write the lists that JaxPP's compiler makes of a schedule, with the programs of its tasks.

    PYTHONPATH=CHECKOUT/src python tests/samples/xla/mpmd/jaxpp/record.py COMMIT

Needs a checkout of NVIDIA/jaxpp (Apache-2.0) and jax 0.9.2, no GPU: the compiler runs,
``scalarize`` makes the list of each stage, XLA compiles each task for the two CPU devices of its
stage. Nothing is sent: JaxPP sends by NCCL only. A send of several arrays becomes a line for each.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=4"

import jax
import jax.numpy as jnp
import jaxpp.api as jaxpp
import numpy as np
from jax.extend import core as jcore
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxpp import core

HERE = Path(__file__).resolve().parent
STAGES, WIDTH, CHUNKS, BATCH = 2, 8, 4, 2
DTYPES = {"float32": "f32", "int32": "s32"}
SCHEDULES = {
    "std-1f1b": (jaxpp.Std1F1B(STAGES), STAGES),
    "eager-1f1b": (jaxpp.Eager1F1B(STAGES), STAGES),
    "interleaved-1f1b": (jaxpp.Interleaved1F1B(num_stages=STAGES * 2, mpmd_dim=STAGES), STAGES * 2),
    "zero-bubble": (jaxpp.ZeroBubble(STAGES), STAGES),
}


def lists(mesh: jaxpp.MpmdMesh, schedule: object, layers: int) -> list[object]:
    """Return the equations of each stage."""
    split = NamedSharding(mesh.lowering_mesh(), PartitionSpec(None, "x"))

    def loss(weights, value):
        for weight in weights:
            value = jaxpp.mark_stage_end(jnp.tanh(value @ weight))
        return jnp.sum(value**2)

    def step(weights, batch):
        def one(chunk):
            return jax.value_and_grad(loss)(weights, chunk)

        value, gradients = jaxpp.treduce(one, batch, schedule=schedule)
        return value, jax.tree.map(lambda w, g: w - 0.1 * g, weights, gradients)

    whole = NamedSharding(mesh.lowering_mesh(), PartitionSpec())
    jitted = jaxpp.mpmd_jit_with_loop(
        step, mpmd_mesh=mesh, in_shardings=([split] * layers, whole),
        out_shardings=(whole, [split] * layers),
    )  # fmt: skip
    weights = [jnp.ones((WIDTH, WIDTH))] * layers
    compiled = jitted.compile(weights, jnp.ones((CHUNKS, BATCH, WIDTH)))
    return core.scalarize(compiled.closed_jaxpr, mesh)


def hashable(closed: object) -> object:
    """Return a program whose inner calls can be traced again: their lists become tuples."""
    equations = []
    for equation in closed.eqns:
        changed = {
            key: hashable(value) if isinstance(value, jcore.ClosedJaxpr)
            else tuple(value) if isinstance(value, list) else value
            for key, value in equation.params.items()
        }  # fmt: skip
        equations.append(equation.replace(params=changed))
    return closed.replace(jaxpr=closed.jaxpr.replace(eqns=equations))


def program(equation: object) -> str:
    """Return what XLA makes of a task."""
    call = hashable(equation.params["call_jaxpr"])
    function = jax.jit(
        jcore.jaxpr_as_fun(call),
        in_shardings=tuple(equation.params["in_shardings"]),
        out_shardings=list(equation.params["out_shardings"]),
    )
    given = [jax.ShapeDtypeStruct(aval.shape, aval.dtype) for aval in call.in_avals]
    return function.lower(*given).compile().as_text()


def lines(stage: object, name: str, texts: dict[str, str]) -> list[dict[str, object]]:
    """Return the lines of one stage; texts of programs are added."""
    found, sent = [], {}
    for equation in stage.eqns:
        kind = equation.primitive.name
        if kind == "task":
            task = equation.params["task_name"]
            text = program(equation)
            task = next((t for t, known in texts.items() if known == text), f"{name}.{task}")
            while texts.setdefault(task, text) != text:
                task += "x"
            chunk = equation.params.get("call_counter")
            run = equation.params["task_name"] + ("" if chunk is None else f".{chunk}")
            found.append({"run": task, "as": run})
        elif kind in {"send", "recv"}:
            arrays = equation.invars if kind == "send" else equation.outvars
            pairs = zip(arrays, equation.params["shardings"], strict=True)
            for number, (array, (other, sharding)) in enumerate(pairs):
                value = f"t{equation.params['id']}.{number}"
                line = {kind: value, "to" if kind == "send" else "from": f"stage{other}",
                        "shape": list(sharding.shard_shape(array.aval.shape)),
                        "dtype": DTYPES[array.aval.dtype.name]}  # fmt: skip
                if kind == "send":
                    line["async"] = True
                    sent.setdefault(array, []).append(value)
                found.append(line)
        elif kind == "send_done":
            for array in equation.invars:
                found += [{"wait": value} for value in sent.pop(array, ())]
        elif kind != "delete":
            raise ValueError(f"{kind} is not known")
    found += [{"wait": value} for values in sent.values() for value in values]
    return found


def main() -> None:
    """Record all schedules."""
    devices = np.array(jax.devices()).reshape(STAGES, 2)
    mesh = jaxpp.MpmdMesh(Mesh(devices, ("stage", "x")), "stage")
    for name, (schedule, layers) in SCHEDULES.items():
        core.send_recv_id = __import__("itertools").count()
        texts: dict[str, str] = {}
        order = {f"stage{at}": lines(stage, name, texts)
                 for at, stage in enumerate(lists(mesh, schedule, layers))}  # fmt: skip
        head = {"schema": "planguard.mpmd/1", "name": f"jaxpp {name}", "x-source": sys.argv[1],
                "meshes": {"stage0": "0-1", "stage1": "2-3"},
                "programs": {task: f"{task}.hlo" for task in texts}}  # fmt: skip
        rows = [f'  "{key}": [\n   ' + ",\n   ".join(map(json.dumps, some)) + "]"
                for key, some in order.items()]  # fmt: skip
        text = json.dumps(head)[:-1] + ',\n "order": {\n' + ",\n".join(rows) + "}}\n"
        (HERE / f"{name}.mpmd.json").write_text(text)
        for task, hlo in texts.items():
            (HERE / f"{task}.hlo").write_text(hlo.replace(str(HERE) + "/", ""))


if __name__ == "__main__":
    main()
