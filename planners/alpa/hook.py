"""Write what Alpa intends to run as JSON: for use inside Alpa, without PlanGuard.

Copy this file next to your training script (it needs Python 3.7 and nothing else) and call
``install`` before the first call of a function with ``PipeshardParallel``::

    import hook
    hook.install("plan.alpa.json")

or ``dump(config, mesh_group, "plan.alpa.json")`` with a ``PipeshardConfig`` of your own. The texts
of the stages, with the collectives inside each mesh, are those that Alpa's partitioner leaves and
sends to the workers. What XLA makes of them there, ``executable.get_hlo_text()``, can be given as
``hlo_texts``.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

SCHEMA = "planguard.alpa/1"
_FLAGS = (
    "resharding_mode", "eagerly_create_communicators", "enable_overlapping",
    "pipeline_use_signal_send_recv",
)  # fmt: skip


def install(path: str) -> None:
    """Make Alpa write every pipeline plan that it compiles to a file, before it runs."""
    from alpa.pipeline_parallel import runtime_emitter  # type: ignore[import-not-found]

    emitter = runtime_emitter.PipelineInstEmitter
    compile_plan = emitter.compile

    def compile_and_dump(self: Any) -> Any:
        config = compile_plan(self)
        dump(config, self.mesh_group, path)
        return config

    emitter.compile = compile_and_dump


def dump(config: Any, mesh_group: Any, path: str, hlo_texts: Any = None) -> None:
    """Write a ``PipeshardConfig`` as JSON."""
    # Aside first: what is there is a whole file or the one before. This file stands alone.
    beside = Path(f"{path}.tmp")
    beside.write_text(json.dumps(describe(config, mesh_group, hlo_texts)), encoding="utf-8")
    beside.replace(path)


def describe(config: Any, mesh_group: Any, hlo_texts: Any = None) -> dict[str, Any]:
    """Return a ``PipeshardConfig`` as plain dicts and lists."""
    meshes, names, ranks = _meshes(mesh_group)
    tasks, numbers = _tasks(config.resharding_tasks, names, ranks)
    instructions = {
        names[worker]: [_instruction(i, names[worker], numbers) for i in listed]
        for worker, listed in config.instruction_lists.items()
    }
    return {
        "schema": SCHEMA,
        "alpa": _version(),
        "config": _flags(),
        "meshes": meshes,
        "inputs": _inputs(config, mesh_group, names),
        "instructions": instructions,
        "tasks": tasks,
        "stages": _stages(config, hlo_texts),
    }


def _version() -> str:
    try:
        from alpa.version import __version__  # type: ignore[import-not-found]
    except ImportError:
        return "unknown"
    return str(__version__)


def _flags() -> dict[str, Any]:
    from alpa.global_env import global_config  # type: ignore[import-not-found]

    return {name: getattr(global_config, name) for name in _FLAGS}


def _meshes(mesh_group: Any) -> tuple[list[dict[str, Any]], dict[Any, str], dict[str, int]]:
    """Number all devices: in the order of meshes, hosts and devices."""
    meshes: list[dict[str, Any]] = []
    names: dict[Any, str] = {}
    ranks: dict[str, int] = {}
    for number, mesh in enumerate(mesh_group):
        hosts = []
        width = mesh.num_devices_per_host
        for host, worker in enumerate(mesh.workers):
            devices = mesh.device_strs[host * width : (host + 1) * width]
            for device in devices:
                ranks[device] = len(ranks)
            names[worker] = f"m{number}h{host}"
            hosts.append({"worker": names[worker], "devices": [ranks[d] for d in devices]})
        meshes.append({"id": number, "hosts": hosts})
    return meshes, names, ranks


def _tasks(
    resharding: Any, names: dict[Any, str], ranks: dict[str, int]
) -> tuple[dict[str, Any], dict[tuple[str, str, int], int]]:
    """Describe every resharding task; also return the number behind each worker's task uuid."""
    tasks: dict[str, Any] = {}
    numbers: dict[tuple[str, str, int], int] = {}
    for number, task in enumerate(resharding):
        found = {
            "src_mesh": task.src_mesh.mesh_id,
            "dst_mesh": task.dst_mesh.mesh_id,
            "shape": [int(d) for d in task.task_spec.aval.shape],
            "dtype": str(task.task_spec.aval.dtype),
        }
        if hasattr(task, "send_worker_task_ids"):
            found.update(_messages(task, names, ranks))
            for kind, ids in (
                ("SEND", task.send_worker_task_ids),
                ("RECV", task.recv_worker_task_ids),
            ):
                numbers.update({(names[w], kind, uuid): number for w, uuid in ids.items()})
        else:
            found.update(_broadcasts(task, ranks))
            ids = task.broadcast_worker_task_ids
            numbers.update({(names[w], "BROADCAST", uuid): number for w, uuid in ids.items()})
        tasks[str(number)] = found
    return tasks, numbers


def _messages(task: Any, names: dict[Any, str], ranks: dict[str, int]) -> dict[str, Any]:
    """Describe the messages of a task as each host sends and receives them, in its order."""
    group = task.collective_group
    by_place = {place: ranks[device] for device, place in group.device_str_to_rank_map.items()}
    place_of = {worker: number for number, worker in enumerate(group.mesh_workers)}
    send: dict[str, Any] = {}
    recv: dict[str, Any] = {}
    for worker, specs in task.sender_tasks.items():
        own = place_of[worker]
        send[names[worker]] = [
            {
                "src": by_place[own, spec.device_id],
                "dst": by_place[spec.tile_spec.rank, spec.tile_spec.gpu_idx],
                "slice": _slices(spec.tile_spec.offset),
            }
            for spec in specs
        ]
    for worker, specs in task.receiver_tasks.items():
        own = place_of[worker]
        recv[names[worker]] = [
            {
                "src": by_place[tile.rank, tile.gpu_idx],
                "dst": by_place[own, spec.device_id],
                "slice": _slices(tile.offset),
            }
            for spec in specs
            for tile in spec.tile_specs
        ]
    described: dict[str, Any] = {"mode": "sendrecv", "send": send, "recv": recv}
    described["allgather"] = _allgather(task, ranks) if task.is_local_allgather_task else None
    return described


def _allgather(task: Any, ranks: dict[str, int]) -> dict[str, Any]:
    """Describe the gather inside the receiving mesh: who holds the same tile in the end."""
    spec = task.task_spec
    array = type(spec.dst)(
        device_mesh=spec.dst.device_mesh, aval=spec.aval, sharding_spec=spec.final_dst_spec
    )
    groups = [[ranks[d] for d in tile.replica_device_strs] for tile in array.tiles.flatten()]
    parts = [int(tile.tile_size) for tile in spec.dst.tiles.flatten()]
    return {"groups": groups, "count": parts[0]}


def _broadcasts(task: Any, ranks: dict[str, int]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for specs in task.broadcast_tasks.values():
        for key, spec in specs.items():
            devices = [ranks[device] for device in spec.comm_key.split("$")]
            if 0 in spec.devices_global_rank:
                found[str(key)] = {"ranks": devices, "slice": _slices(spec.tensor_slices[0])}
    return {"mode": "broadcast", "broadcasts": list(found.values())}


def _slices(slices: Any) -> list[list[int]]:
    return [[int(s.start), int(s.stop)] for s in slices]


def _instruction(
    instruction: Any, worker: str, numbers: dict[tuple[str, str, int], int]
) -> dict[str, Any]:
    op = instruction.opcode.name
    found: dict[str, Any] = {"op": op}
    if instruction.task_uuid is not None:
        uuid = int(instruction.task_uuid)
        found["task"] = numbers.get((worker, op, uuid), uuid)
    for key, uuids in (("in", instruction.input_uuids), ("out", instruction.output_uuids)):
        if uuids is not None and len(uuids):
            found[key] = [int(uuid) for uuid in uuids]
    opaques = instruction.opaques or {}
    if op == "RUN" and opaques.get("kwargs", {}).get("skip_grad_sync"):
        found["skip_grad_sync"] = True
    if op == "RECV" and opaques.get("allgather_uuid") is not None:
        found["allgather_uuid"] = int(opaques["allgather_uuid"])
    if instruction.info:
        found["info"] = str(instruction.info)
    return found


def _inputs(config: Any, mesh_group: Any, names: dict[Any, str]) -> dict[str, list[int]]:
    lists = config.input_config.input_local_uuid_lists
    return {
        names[worker]: [int(uuid) for uuid in lists[number]]
        for number, mesh in enumerate(mesh_group)
        for worker in mesh.workers
    }


def _stages(config: Any, hlo_texts: Any) -> dict[str, Any]:
    # ``PartialGradWorkerExecutableConfig``: the partitioned module that a worker is to compile.
    modules = {
        int(one.exec_uuid): getattr(one, "hlo", None)
        for listed in config.executable_configs.values()
        for one in listed
    }
    stages: dict[str, Any] = {}
    for number, uuid in enumerate(config.executable_uuids):
        mesh = next(iter(config.schedule.stage_placement(number)))
        stage = stages[str(int(uuid))] = {"mesh": int(mesh)}
        module = modules.get(int(uuid))
        if hlo_texts is not None:
            stage["hlo"] = hlo_texts[number]
        elif module is not None:
            stage["hlo"] = module.to_string()
    return stages
