"""The JSON dump ``planguard.deepspeed/1`` to a job; every defect is a PlanError with its path."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ..common.module import ITEM_BYTES
from ..common.reading import At, load_json
from .model import BUFFER_COMMANDS, PLAIN_COMMANDS, Command, Job, Module, Tensor, Tied, Zero

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = "planguard.deepspeed/1"
MAX_STAGES = 1 << 12
MAX_RANKS = 1 << 16
_COMMAND = re.compile(r"([A-Za-z]{1,40})\((?:(?:buffer_id=)?(\d{1,9}))?\)")
_REQUIRED = ("schema", "stages", "commands")
_FLAGS = ("first_batch", "dynamic_shape", "startup", "loss")
_FIELDS = (
    *_REQUIRED, "deepspeed", "schedule", "micro_batches", "data_parallel", "model_parallel",
    "partitioned", "transport", *_FLAGS, "boundaries", "parameters", "tied", "zero", "modules",
    "orders",
)  # fmt: skip


def read_dump(obj: Path | dict[str, Any]) -> Job:
    """Read a dump from a file, or one that is parsed already.

    Raises:
        PlanError: It is malformed; the message has the JSON path, the value and a hint.
    """
    top = At(obj) if isinstance(obj, dict) else load_json(obj)
    found = required(top, *_REQUIRED, optional=_FIELDS)
    if found["schema"].text() != SCHEMA:
        found["schema"].fail(f"expected {SCHEMA!r}")
    stages = found["stages"].integer(1, MAX_STAGES)
    data, model = (_size(found, name) for name in ("data_parallel", "model_parallel"))
    if stages * data * model > MAX_RANKS:
        top.fail(f"more than {MAX_RANKS} ranks")
    zero = _zero(found["zero"], stages) if "zero" in found else Zero()
    if "micro_batches" in found:  # the commands say them; it is kept for people
        found["micro_batches"].integer(1)
    orders = _orders(found.get("orders"), stages * data * model)
    if orders and zero.stage == 0:
        hint = "without ZeRO gradients are reduced in the order of parameters"
        found["orders"].fail("orders of ranks decide nothing at ZeRO stage 0", hint=hint)
    split = required(found["partitioned"], optional=("activations", "gradients")) if (
        "partitioned" in found
    ) else {}  # fmt: skip
    return Job(
        file=top.file or "deepspeed.json",
        version=found["deepspeed"].text(100) if "deepspeed" in found else "unknown",
        schedule=found["schedule"].text(100) if "schedule" in found else "schedule",
        commands=_commands(found["commands"], stages),
        data=data,
        model=model,
        boundaries=_lists(found.get("boundaries"), stages - 1),
        parameters=_lists(found.get("parameters"), stages, named=True),
        modules=_modules(found.get("modules")),
        orders=orders,
        tied=tuple(_tied(item, stages) for item in found["tied"].each()) if "tied" in found else (),
        zero=zero,
        split_activations=model > 1 and _flag(split, "activations"),
        split_gradients=model > 1 and _flag(split, "gradients"),
        broadcasts=_broadcasts(found.get("transport")),
        first_batch=_flag(found, "first_batch", default=True),
        dynamic_shape=_flag(found, "dynamic_shape"),
        startup=_flag(found, "startup"),
        loss=_flag(found, "loss", default=True),
    )


def required(at: At, *names: str, optional: tuple[str, ...] = ()) -> dict[str, At]:
    """Return the fields of an object, some of which must be there."""
    fields = at.fields(*dict.fromkeys((*names, *optional)))
    for name in names:
        if name not in fields:
            at.fail(f"{name!r} is missing", hint="docs/planners/deepspeed.md lists the fields")
    return fields


def _size(found: dict[str, At], name: str) -> int:
    return found[name].integer(1, MAX_RANKS) if name in found else 1


def _flag(found: dict[str, At], name: str, *, default: bool = False) -> bool:
    return found[name].flag() if name in found else default


def _broadcasts(at: At | None) -> bool:
    if at is not None and at.text(20) not in {"send_recv", "broadcast"}:
        at.fail("unknown transport", hint="send_recv or broadcast")
    return at is not None and at.value == "broadcast"


def _commands(at: At, stages: int) -> tuple[tuple[Command, ...], ...]:
    known: dict[object, tuple[str, int]] = {}
    listed = tuple(
        tuple(_command(item, known) for step in stage.each() for item in step.each())
        for stage in at.each()
    )
    if len(listed) != stages:
        at.fail(f"{len(listed)} lists for {stages} stages", hint="dump the commands of all stages")
    return listed


def _command(at: At, known: dict[object, tuple[str, int]]) -> Command:
    """Return a command; a schedule says few of them, and says them often."""
    given = at.value
    if given.__class__ is str and given in known:
        return Command(*known[given], at.path)
    text = at.text(100)
    found = _COMMAND.fullmatch(text)
    if found is None:
        at.fail("not a command", hint="for example ForwardPass(buffer_id=0)")
    command = checked(at, found.group(1), found.group(2))
    known[text] = command.name, command.buffer
    return command


def checked(at: At, name: str, buffer: str | int | None) -> Command:
    """Return a command whose name and buffer fit each other."""
    known = (*BUFFER_COMMANDS, *PLAIN_COMMANDS)
    if name not in known:
        at.fail("unknown command", hint=f"one of {', '.join(known)}")
    if (name in BUFFER_COMMANDS) != (buffer is not None):
        rule = "takes a buffer" if name in BUFFER_COMMANDS else "takes no buffer"
        at.fail(f"{name} {rule}")
    return Command(name, -1 if buffer is None else int(buffer), at.path)


def _lists(
    at: At | None, stages: int, *, named: bool = False
) -> tuple[tuple[Tensor, ...], ...] | None:
    if at is None:
        return None
    found = tuple(tuple(_tensor(t, named=named) for t in one.each()) for one in at.each())
    if len(found) != stages:
        at.fail(f"{len(found)} lists, expected {stages}", hint="one per stage, or per boundary")
    return found


def _tensor(at: At, *, named: bool) -> Tensor:
    fields = required(at, *(("name",) if named else ()), "shape", "dtype")
    shape = tuple(fields["shape"].integers(0, 1 << 48))
    dtype = fields["dtype"].text(40)
    if dtype not in ITEM_BYTES:
        fields["dtype"].fail("unknown type", hint=f"one of {', '.join(ITEM_BYTES)}")
    tensor = Tensor(fields["name"].text(1_000) if named else "", shape, dtype)
    if tensor.count > 1 << 56:
        fields["shape"].fail("a tensor of that size does not exist")
    return tensor


def _tied(at: At, stages: int) -> Tied:
    fields = required(at, "key", "stages", "parameters")
    held = tuple(fields["stages"].integers(0, stages - 1))
    if list(held) != sorted(set(held)) or not held:
        fields["stages"].fail("stages are listed once each, in order")
    parameters = tuple(_tensor(t, named=True) for t in fields["parameters"].each())
    return Tied(fields["key"].text(200), held, parameters)


def _zero(at: At, stages: int) -> Zero:
    fields = required(at, "stage", optional=("reduce_bucket_size", "overlap_comm"))
    number = fields["stage"].integer(0, 3)
    if number > 1 and stages > 1:
        hint = "DeepSpeed refuses it: ZeRO-2 and ZeRO-3 are incompatible with pipeline parallelism"
        fields["stage"].fail(f"ZeRO-{number} with {stages} stages", hint=hint)
    bucket = fields.get("reduce_bucket_size")
    size = Zero.reduce_bucket if bucket is None else bucket.integer(1)
    return Zero(number, size, _flag(fields, "overlap_comm"))


def _modules(at: At | None) -> tuple[Module, ...]:
    if at is None:
        return ()
    found = []
    for item in at.each():
        fields = required(item, "name", "parameters")
        parameters = tuple(_tensor(t, named=True) for t in fields["parameters"].each())
        found.append(Module(fields["name"].text(1_000), parameters))
    if len({module.name for module in found}) != len(found):
        at.fail("a module is listed twice")
    return tuple(found)


def _orders(at: At | None, ranks: int) -> dict[int, tuple[str, ...]]:
    found: dict[int, tuple[str, ...]] = {}
    for key, names in at.items() if at is not None else ():
        if not key.isdecimal() or int(key) >= ranks:
            names.fail("not a rank of this job", hint=f"ranks are 0 to {ranks - 1}")
        found[int(key)] = tuple(name.text(1_000) for name in names.each())
    return found
