"""Which rank runs which program: one program for all, or several side by side."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from planguard.errors import PlanError
from planguard.files.heads import HEAD, head_of

from ..common.reading import load_json, starts_with_schema
from .reading import is_jax_object, looks_like_program, looks_like_shardy, read_object
from .steps import Doubt

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..common.reading import At
    from .model import Module

SCHEMA = "planguard.xla/1"
MPMD = "planguard.mpmd/1"
"""Schema of a manifest with an order of programs for each device, read by ``mpmd``."""
MAX_WORLD = 1 << 16


@dataclass(frozen=True)
class Program:
    """A program and where it runs.

    Attributes:
        module: The program.
        devices: Rank of every logical device of the program.
        ranks: The ranks among them that really run it.
    """

    module: Module
    devices: tuple[int, ...]
    ranks: tuple[int, ...]


def is_program_set(obj: object) -> bool:
    """Recognize an input: a program, a manifest, or a map from ranks to programs."""
    if isinstance(obj, str | Path):
        head = head_of(obj)
        return (
            looks_like_program(head)
            or looks_like_shardy(head)
            or any(starts_with_schema(obj, schema) for schema in (SCHEMA, MPMD))
        )
    if isinstance(obj, bytes | bytearray):
        head = bytes(obj[:HEAD])
        return looks_like_program(head) or looks_like_shardy(head)
    if isinstance(obj, Mapping):
        return bool(obj) and all(
            not isinstance(part, Mapping) and is_program_set(part) for part in obj.values()
        )
    return is_jax_object(obj)


def read_programs(obj: object) -> tuple[list[Program], int]:
    """Read an input and return its programs and the number of ranks.

    Raises:
        PlanError: A program is malformed, or ranks are missing or named twice.
    """
    if isinstance(obj, Mapping):
        parts = [(str(key), read_object(part), None) for key, part in obj.items()]
        return _placed(parts, None, "programs")
    if isinstance(obj, str | Path) and starts_with_schema(obj, SCHEMA):
        return _manifest(load_json(Path(obj)), Path(obj).parent)
    module = read_object(obj)
    _bounded(module.devices, module.file)
    everyone = tuple(range(module.devices))
    return [Program(module, everyone, everyone)], module.devices


def _manifest(top: At, folder: Path) -> tuple[list[Program], int]:
    found = top.fields("schema", "world_size", "programs", "name")
    if "programs" not in found:
        top.fail("'programs' is missing", hint="a list of {file, ranks, devices}")
    world = found["world_size"].integer(1, MAX_WORLD) if "world_size" in found else None
    parts: list[tuple[str, Module, tuple[int, ...] | None]] = []
    for at in found["programs"].each():
        entry = at.fields("file", "ranks", "devices")
        for name in ("file", "ranks"):
            if name not in entry:
                at.fail(f"{name!r} is missing", hint="a program needs its file and its ranks")
        name = entry["file"].text()
        if Path(name).is_absolute() or ".." in Path(name).parts:
            entry["file"].fail("a file beside the manifest is expected")
        devices = None
        if "devices" in entry:
            devices = selected(entry["devices"].text(), entry["devices"].path)
        parts.append((entry["ranks"].text(), read_object(folder / name), devices))
    return _placed(parts, world, top.file or "manifest")


def _placed(
    parts: Sequence[tuple[str, Module, tuple[int, ...] | None]], world: int | None, file: str
) -> tuple[list[Program], int]:
    if not parts:
        raise PlanError("there is no program", file=file)
    chosen = [selected(key, file) for key, _, _ in parts]
    named = [rank for ranks in chosen for rank in ranks]
    size = world or max(named) + 1
    _bounded(size, file)
    if sorted(named) != list(range(size)):
        missing = sorted(set(range(size)) - set(named))
        what = f"ranks {missing[:6]} have no program" if missing else "a rank has two programs"
        hint = "every rank runs exactly one program"
        raise PlanError(what, file=file, path="programs", value=named[:12], hint=hint)
    programs = [
        Program(module, _devices(module, ranks, devices, size), ranks)
        for (_, module, devices), ranks in zip(parts, chosen, strict=True)
    ]
    return programs, size


def _devices(
    module: Module, ranks: tuple[int, ...], devices: tuple[int, ...] | None, world: int
) -> tuple[int, ...]:
    """Return the rank of every logical device.

    A program with as many devices as the world spans it, as in a job of several processes; one
    with as many as it has ranks has them to itself.
    """
    if devices is None:
        devices = tuple(range(world)) if module.devices == world else ranks
    good = len(set(devices)) == len(devices) == module.devices
    if not good or not set(ranks) <= set(devices) or max(devices) >= world:
        raise PlanError(
            f"the program has {module.devices} devices, which do not fit its ranks",
            file=module.file,
            path="devices",
            value=devices,
            hint="devices names the rank of every logical device, in order",
        )
    return devices


def _bounded(world: int, file: str) -> None:
    if world > MAX_WORLD:
        raise PlanError(f"more than {MAX_WORLD} devices", file=file, path="line 1", value=world)


def selected(text: str, place: str) -> tuple[int, ...]:
    """Read ranks such as ``3``, ``0-3``, ``0,4``.

    Raises:
        PlanError: The text names no ranks.
    """
    ranks: list[int] = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()) or len(part) > 20:
            hint = "for example 3, 0-3 or 0,4"
            raise PlanError("ranks are expected", path=place, value=text, hint=hint)
        low, high = int(first), int(last or first)
        if high - low >= MAX_WORLD or high >= MAX_WORLD:
            raise PlanError(f"more than {MAX_WORLD} ranks", path=place, value=text)
        ranks += range(low, high + 1)
    if not ranks or len(set(ranks)) != len(ranks):
        raise PlanError("ranks are expected, each once", path=place, value=text)
    return tuple(ranks)


def program_doubts(modules: Sequence[Module], *, apart: bool) -> list[Doubt]:
    """Return what programs leave open.

    Args:
        modules: The programs.
        apart: Whether devices that meet in a collective may run different ones.
    """
    doubts = []
    loose = [module for module in modules if not module.scheduled]
    if loose and apart:
        message = (
            f"{loose[0].file} is not scheduled: the order of the text may not be the order run"
        )
        doubts.append(Doubt("not-scheduled", message))
    elif loose:
        message = "not scheduled: every device is taken to run the order of the text, or one other"
        doubts.append(Doubt("not-scheduled", message, "exact"))
    return doubts + [
        Doubt("not-partitioned", module.sharded) for module in modules if module.sharded
    ]
