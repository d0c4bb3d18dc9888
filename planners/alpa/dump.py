"""The JSON dump ``planguard.alpa/1`` to records; every defect is a PlanError with its path."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any, Literal

from msgspec import Meta, Struct

from ..common.reading import At, load_json, records
from .model import Dump, Gather, Host, Instruction, Piece, Stage, Task

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SCHEMA = "planguard.alpa/1"
OPS = ("RUN", "SEND", "RECV", "BROADCAST", "FREE")
_MODES = {"SEND": "sendrecv", "RECV": "sendrecv", "BROADCAST": "broadcast"}
"""The mode of the task that an instruction carries out."""
_DTYPES = {
    "float64": ("f64", 8), "float32": ("f32", 4), "float16": ("f16", 2), "bfloat16": ("bf16", 2),
    "int64": ("i64", 8), "int32": ("i32", 4), "int16": ("i16", 2), "int8": ("i8", 1),
    "uint8": ("u8", 1), "bool": ("bool", 1), "uint32": (None, 4), "uint64": (None, 8),
}  # fmt: skip
_MAX_DEVICES = 1 << 16
_FLAGS = (
    "resharding_mode", "eagerly_create_communicators", "enable_overlapping",
    "pipeline_use_signal_send_recv",
)  # fmt: skip


def read_dump(obj: Path | dict[str, Any]) -> Dump:
    """Read a dump from a file, or one that is parsed already.

    Raises:
        PlanError: It is malformed; the message has the JSON path, the value and a hint.
    """
    top = At(obj) if isinstance(obj, dict) else load_json(obj)
    found = top.fields(
        "schema", "alpa", "config", "meshes", "inputs", "instructions", "tasks", "stages"
    )
    for name in ("alpa", "meshes", "instructions"):
        if name not in found:
            top.fail(f"{name!r} is missing", hint="docs/planners/alpa.md lists the fields")
    if "schema" in found and found["schema"].text() != SCHEMA:
        found["schema"].fail(f"expected {SCHEMA!r}")
    hosts = _hosts(found["meshes"])
    tasks = _tasks(found["tasks"], hosts) if "tasks" in found else {}
    stages = _stages(found["stages"]) if "stages" in found else None
    workers = {host.worker for host in hosts}
    flags = found["config"].fields(*_FLAGS) if "config" in found else {}
    return Dump(
        file=top.file or "alpa.json",
        version=found["alpa"].text(100),
        hosts=hosts,
        programs=_programs(found["instructions"], workers, tasks),
        tasks=tasks,
        stages=stages,
        inputs=_inputs(found["inputs"], workers) if "inputs" in found else None,
        lazy=_flag(flags, "eagerly_create_communicators", default=True) is False,
        overlapping=_flag(flags, "enable_overlapping"),
        signals=_flag(flags, "pipeline_use_signal_send_recv"),
        meshes=_mesh_devices(hosts),
    )


def _flag(flags: dict[str, At], name: str, *, default: bool = False) -> bool:
    return flags[name].flag() if name in flags else default


def _hosts(at: At) -> tuple[Host, ...]:
    hosts: list[Host] = []
    for mesh in at.each():
        fields = _required(mesh, "id", "hosts")
        number = fields["id"].integer(high=_MAX_DEVICES)
        for host in fields["hosts"].each():
            own = _required(host, "worker", "devices")
            devices = tuple(own["devices"].integers(high=_MAX_DEVICES))
            hosts.append(Host(own["worker"].text(200), number, devices))
    names = [host.worker for host in hosts]
    if len(set(names)) != len(names):
        at.fail("a worker is named twice", hint="every host of every mesh has a name of its own")
    ranks = sorted(rank for host in hosts for rank in host.devices)
    if not ranks or ranks != list(range(len(ranks))):
        hint = "number the devices of all hosts 0, 1, 2, ..., each once"
        at.fail("the devices are not numbered from 0 without gaps", hint=hint)
    return tuple(hosts)


def _mesh_devices(hosts: tuple[Host, ...]) -> dict[int, tuple[int, ...]]:
    meshes: dict[int, tuple[int, ...]] = {}
    for host in hosts:
        meshes[host.mesh] = (*meshes.get(host.mesh, ()), *host.devices)
    return meshes


def _required(at: At, *names: str, optional: tuple[str, ...] = ()) -> dict[str, At]:
    fields = at.fields(*names, *optional)
    for name in names:
        if name not in fields:
            at.fail(f"{name!r} is missing")
    return fields


def _inputs(at: At, workers: set[str]) -> dict[str, frozenset[int]]:
    found = {}
    for worker, listed in at.items():
        if worker not in workers:
            listed.fail("a worker is not in the meshes", hint=_known(workers))
        found[worker] = frozenset(_uuids(listed))
    return found


def _known(names: set[str]) -> str:
    return f"known: {', '.join(sorted(names)[:8])}"


def _programs(
    at: At, workers: set[str], tasks: dict[str, Task]
) -> dict[str, tuple[Instruction, ...]]:
    programs = {}
    for worker, listed in at.items():
        if worker not in workers:
            listed.fail("a worker is not in the meshes", hint=_known(workers))
        programs[worker] = _instructions(listed, tasks) or tuple(
            _instruction(item, listed.path, number, tasks)
            for number, item in enumerate(listed.each())
        )
    missing = workers - programs.keys()
    if missing:
        at.fail(f"worker {min(missing)} has no instructions", hint="dump the lists of all workers")
    return programs


Uuid = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Uuids = tuple[Uuid | list[Uuid], ...]


class Row(Struct, forbid_unknown_fields=True, gc=False, rename={"inputs": "in", "outputs": "out"}):
    """An instruction as it stands in a dump, for those in which nothing is wrong."""

    op: Literal["RUN", "SEND", "RECV", "BROADCAST", "FREE"]
    task: str | Uuid | None = None
    inputs: Uuids = ()
    outputs: Uuids = ()
    info: Annotated[str, Meta(max_length=200)] = ""
    set_empty_buffer: Any = None
    allgather_uuid: Uuid | None = None
    skip_grad_sync: bool = False


def _instructions(at: At, tasks: dict[str, Task]) -> tuple[Instruction, ...] | None:
    """Return the instructions of a worker, as ``_instruction`` reads them one by one.

    Returns:
        The instructions; None where it would refuse one.
    """
    found, path = [], at.path
    for number, row in enumerate(records(at, Row) or ()):
        task = ""
        if row.op != "FREE":
            if row.task is None:
                return None
            task = str(row.task)
            if row.op != "RUN" and (task not in tasks or tasks[task].mode != _MODES[row.op]):
                return None
        inputs, outputs = row.inputs, row.outputs
        found.append(
            Instruction(
                row.op, path, number, task, _flat(inputs) if inputs else (),
                _flat(outputs) if outputs else (), row.info, row.allgather_uuid is not None,
                row.skip_grad_sync,
            )
        )  # fmt: skip
    return tuple(found)


def _flat(uuids: Uuids) -> tuple[int, ...]:
    if list not in map(type, uuids):
        return uuids  # type: ignore[return-value]
    inner = [some if isinstance(some, list) else [some] for some in uuids]
    return tuple([uuid for some in inner for uuid in some])


def _instruction(at: At, path: str, number: int, tasks: dict[str, Task]) -> Instruction:
    fields = at.fields(
        "op", "task", "in", "out", "info", "set_empty_buffer", "allgather_uuid", "skip_grad_sync"
    )
    if "op" not in fields:
        at.fail("'op' is missing", hint=f"one of {', '.join(OPS)}")
    op = fields["op"].text(20)
    if op not in OPS:
        fields["op"].fail("unknown operation", hint=f"one of {', '.join(OPS)}")
    task = ""
    if op != "FREE":
        if "task" not in fields:
            at.fail(f"{op} without a task")
        value = fields["task"].value
        task = value if isinstance(value, str) else str(fields["task"].integer())
    if op in {"SEND", "RECV", "BROADCAST"}:
        _check_task(fields["task"], op, task, tasks)
    return Instruction(
        op=op,
        path=path,
        number=number,
        task=task,
        inputs=_uuids(fields["in"]) if "in" in fields else (),
        outputs=_uuids(fields["out"]) if "out" in fields else (),
        info=fields["info"].text(200) if "info" in fields else "",
        gathers=_gathers(fields),
        skips_sync=_flag(fields, "skip_grad_sync"),
    )


def _check_task(at: At, op: str, task: str, tasks: dict[str, Task]) -> None:
    if task not in tasks:
        at.fail("no such resharding task", hint=_known(set(tasks)))
    if tasks[task].mode != _MODES[op]:
        at.fail(f"{op} of a task whose mode is {tasks[task].mode}", hint=f"expected {_MODES[op]}")


def _gathers(fields: dict[str, At]) -> bool:
    at = fields.get("allgather_uuid")
    if at is None or at.value is None:
        return False
    at.integer()
    return True


def _uuids(at: At) -> tuple[int, ...]:
    """Read uuids: a list of numbers, or of lists of them."""
    found: list[int] = []
    for item in at.each():
        if isinstance(item.value, list):
            found += item.integers()
        else:
            found.append(item.integer())
    return tuple(found)


def _tasks(at: At, hosts: tuple[Host, ...]) -> dict[str, Task]:
    owner = {rank: host for host in hosts for rank in host.devices}
    return {name: _task(name, item, owner) for name, item in at.items()}


def _task(name: str, at: At, owner: dict[int, Host]) -> Task:
    fields = _required(
        at, "mode",
        optional=(
            "src_mesh", "dst_mesh", "shape", "dtype", "p2p", "send", "recv", "order", "allgather",
            "broadcasts",
        ),
    )  # fmt: skip
    dtype, width = _dtype(fields.get("dtype"))
    mode = fields["mode"].text(20)
    sent: tuple[Piece, ...]
    if mode == "broadcast":
        if "broadcasts" not in fields:
            at.fail("'broadcasts' is missing")
        sent = received = tuple(_broadcast(b, owner, width) for b in fields["broadcasts"].each())
    elif mode == "sendrecv":
        sent, received = _messages(at, fields, owner, width)
    else:
        fields["mode"].fail("unknown mode", hint="sendrecv or broadcast")
    gather = fields.get("allgather")
    has_gather = gather is not None and gather.value is not None
    return Task(
        name, mode, sent, received,
        _gather(gather, owner, width) if gather is not None and has_gather else None, dtype,
    )  # fmt: skip


def _dtype(at: At | None) -> tuple[str | None, int | None]:
    if at is None:
        return None, None
    if at.text(40) not in _DTYPES:
        at.fail("unknown type", hint=f"one of {', '.join(_DTYPES)}")
    return _DTYPES[at.text(40)]


def _messages(
    at: At, fields: dict[str, At], owner: dict[int, Host], width: int | None
) -> tuple[tuple[Piece, ...], tuple[Piece, ...]]:
    """Read the messages of both sides: one list, or what each worker sends and receives."""
    if "p2p" in fields:
        if "send" in fields or "recv" in fields:
            at.fail("'p2p' stands beside 'send' or 'recv'", hint="give one list, or one per side")
        both = tuple(_message(item, owner, width) for item in fields["p2p"].each())
        return both, both
    if "send" not in fields or "recv" not in fields:
        at.fail("the messages are missing", hint="'p2p', or 'send' and 'recv' per worker")
    sides = []
    for side, end in (("send", 0), ("recv", 1)):
        pieces = [
            _message(item, owner, width, (worker, end))
            for worker, listed in fields[side].items()
            for item in listed.each()
        ]
        sides.append(tuple(pieces))
    return sides[0], sides[1]


def _message(
    at: At, owner: dict[int, Host], width: int | None, side: tuple[str, int] | None = None
) -> Piece:
    fields = _required(at, "src", "dst", optional=("slice", "bytes"))
    ranks = tuple(_rank(fields[name], owner) for name in ("src", "dst"))
    if ranks[0] == ranks[1]:
        at.fail("a device sends to itself", code="PG010")
    if side is not None and owner[ranks[side[1]]].worker != side[0]:
        hint = f"worker {side[0]} has other devices"
        at.fail("a message of another worker's device", hint=hint)
    return Piece(ranks, _bytes(fields, width))


def _broadcast(at: At, owner: dict[int, Host], width: int | None) -> Piece:
    fields = _required(at, "ranks", optional=("slice", "bytes"))
    ranks = tuple(_rank(item, owner) for item in fields["ranks"].each())
    if len(set(ranks)) != len(ranks) or not ranks:
        fields["ranks"].fail("ranks are expected, each once", code="PG409")
    return Piece(ranks, _bytes(fields, width))


def _rank(at: At, owner: dict[int, Host]) -> int:
    rank = at.integer()
    if rank not in owner:
        at.fail("no such device", code="PG402", hint=f"devices are 0..{len(owner) - 1}")
    return rank


def _bytes(fields: dict[str, At], width: int | None) -> int | None:
    if "bytes" in fields:
        return fields["bytes"].integer()
    if "slice" not in fields or width is None:
        return None
    sides = list(_sides(fields["slice"]))
    size = math.prod(sides) * width
    if size >= 1 << 63:
        fields["slice"].fail("a message is larger than 2**63 bytes")
    return size


def _sides(at: At) -> Iterator[int]:
    for pair in at.each():
        ends = pair.integers()
        if len(ends) != 2 or ends[0] > ends[1]:
            pair.fail("a slice [start, stop] is expected")
        yield ends[1] - ends[0]


def _gather(at: At, owner: dict[int, Host], width: int | None) -> Gather:
    fields = _required(at, "groups", optional=("count", "bytes"))
    groups = []
    for group in fields["groups"].each():
        ranks = tuple(_rank(item, owner) for item in group.each())
        if len(set(ranks)) != len(ranks) or not ranks:
            group.fail("ranks are expected, each once", code="PG409")
        groups.append(ranks)
    listed = [rank for group in groups for rank in group]
    if len(set(listed)) != len(listed):
        fields["groups"].fail("a rank is in two groups", code="PG409")
    size = None
    if "bytes" in fields:
        size = fields["bytes"].integer()
    elif "count" in fields and width is not None:
        size = fields["count"].integer(high=(1 << 62) // width) * width
    return Gather(tuple(groups), size)


def _stages(at: At) -> dict[str, Stage]:
    stages = {}
    for name, item in at.items():
        fields = item.fields("mesh", "hlo", "grad_sync_channels")
        channels = fields.get("grad_sync_channels")
        stages[name] = Stage(
            mesh=fields["mesh"].integer() if "mesh" in fields else None,
            hlo=fields["hlo"].text(1 << 28) if "hlo" in fields else "",
            sync_channels=frozenset(str(c.integer()) for c in channels.each())
            if channels is not None
            else frozenset(),
        )
    return stages
