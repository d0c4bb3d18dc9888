"""Several programs of one job and the order in which each device runs them: ``planguard.mpmd/1``.

A schedule of an MPMD compiler (JaxPP, Shardy's ``mpmd``) is a list for each mesh: programs, and
arrays that are sent to and received from another mesh. Device i of a mesh sends to device i of the
other, as JaxPP does; each pair has one communicator, or one for each direction.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from planguard.errors import PlanError

from ..common.reading import load_json
from .collectives import Translator
from .model import ELEMENT_TYPES, Shape
from .programs import MAX_WORLD, program_doubts, selected
from .reach import Reach
from .reading import read_object
from .steps import Doubt, Message, Origin, Part, Plain, Trace, Wait, renamed
from .walk import Walker

if TYPE_CHECKING:
    from ..common.reading import At
    from .model import Module
    from .options import XlaOptions
    from .steps import Step

COMMUNICATORS = ("pair", "direction")
MAX_STEPS = 1 << 20
_NAME = re.compile(r"[\w.\-]{1,200}")
_KINDS = ("run", "send", "recv", "wait")
UNSIZED = Part(None, None)


@dataclass(frozen=True)
class Entry:
    """One line of a device's order.

    Attributes:
        kind: ``run``, ``send``, ``recv`` or ``wait``.
        name: Program, or array.
        other: Mesh at the other end of a message.
        run: Name of a run; empty for the program's own.
        part: What one device sends.
        is_async: Whether a message is waited for by a line of its own.
        path: Where it stands.
        line: The line of the text, where it has lines.
    """

    kind: str
    name: str
    other: str = ""
    run: str = ""
    part: Part = UNSIZED
    is_async: bool = False
    path: str = ""
    line: int = 0


@dataclass(frozen=True)
class Bundle:
    """A manifest with its programs.

    Attributes:
        file: The manifest.
        name: Name of the job.
        meshes: Ranks of every mesh, in the order of its logical devices.
        modules: Programs by name.
        orders: What each rank does.
        directional: Whether each direction of a pair has a communicator of its own.
    """

    file: str
    name: str
    meshes: dict[str, tuple[int, ...]]
    modules: dict[str, Module]
    orders: dict[int, tuple[Entry, ...]]
    directional: bool

    @property
    def files(self) -> list[str]:
        """The manifest, then the programs, as ``Origin.program`` numbers them."""
        return [self.file, *(module.file for module in self.modules.values())]


def read_bundle(path: Path) -> Bundle:
    """Read a manifest and the programs beside it.

    Raises:
        PlanError: It is malformed; the message has the place.
    """
    top = load_json(path)
    found = top.fields("schema", "name", "meshes", "programs", "order", "communicators")
    for name in ("meshes", "programs", "order"):
        if name not in found:
            top.fail(f"{name!r} is missing", hint="docs/planners/xla-mpmd.md has the format")
    meshes = _meshes(found["meshes"])
    modules = {}
    for name, at in found["programs"].items():
        _named(name, at)
        file = Path(at.text())
        if file.is_absolute() or ".." in file.parts:
            at.fail("a file beside the manifest is expected")
        modules[name] = read_object(path.parent / file)
    way = found["communicators"].text(20) if "communicators" in found else "pair"
    if way not in COMMUNICATORS:
        found["communicators"].fail("unknown value", hint=f"one of {', '.join(COMMUNICATORS)}")
    return Bundle(
        file=top.file or "bundle.mpmd.json",
        name=found["name"].text(1_000) if "name" in found else path.name.partition(".")[0],
        meshes=meshes,
        modules=modules,
        orders=_orders(found["order"], meshes, modules),
        directional=way == "direction",
    )


def _named(name: str, at: At) -> None:
    if not _NAME.fullmatch(name):
        at.fail("expected a name of letters, digits, dots and dashes")


def _meshes(at: At) -> dict[str, tuple[int, ...]]:
    found: dict[str, tuple[int, ...]] = {}
    for name, listed in at.items():
        _named(name, listed)
        found[name] = selected(listed.text(), listed.path)
    ranks = sorted(rank for mesh in found.values() for rank in mesh)
    if not ranks or ranks != list(range(len(ranks))) or len(ranks) > MAX_WORLD:
        at.fail(
            "every rank from 0 on is in one mesh", hint='such as {"first": "0-1", "second": "2-3"}'
        )
    return found


def _orders(
    at: At, meshes: dict[str, tuple[int, ...]], modules: dict[str, Module]
) -> dict[int, tuple[Entry, ...]]:
    """Return each rank's lines: those of its mesh, or its own."""
    found: dict[int, tuple[Entry, ...]] = {}
    own: dict[int, tuple[Entry, ...]] = {}
    for key, listed in at.items():
        entries = tuple(_entry(line, meshes, modules) for line in listed.each())
        ranks = meshes.get(key) or selected(key, listed.path)
        into = found if key in meshes else own
        for rank in ranks:
            if rank in into or rank >= sum(map(len, meshes.values())):
                listed.fail("a rank that does not exist, or has two orders", hint=f"rank {rank}")
            into[rank] = entries
    for name, mesh in meshes.items():
        if missing := [rank for rank in mesh if rank not in found and rank not in own]:
            at.fail(f"ranks {missing[:6]} of mesh {name!r} have no order")
    return found | own


def _entry(at: At, meshes: dict[str, tuple[int, ...]], modules: dict[str, Module]) -> Entry:
    found = at.fields("run", "as", "send", "to", "recv", "from", "wait", "shape", "dtype", "async")
    kinds = [kind for kind in _KINDS if kind in found]
    if len(kinds) != 1:
        at.fail("a line is one of run, send, recv and wait")
    kind = kinds[0]
    name = found[kind].text(200)
    _named(name, found[kind])
    allowed = {
        "run": {"as"}, "send": {"to", "shape", "dtype", "async"},
        "recv": {"from", "shape", "dtype", "async"}, "wait": set(),
    }[kind]  # fmt: skip
    for field in found.keys() - allowed - {kind}:
        found[field].fail(f"{kind} has no {field!r}")
    if kind == "run":
        if name not in modules:
            found[kind].fail("no such program", hint=f"known: {', '.join(modules)}")
        run = found["as"].text(200) if "as" in found else ""
        if run:
            _named(run, found["as"])
        return Entry(kind, name, run=run, path=at.path)
    if kind == "wait":
        return Entry(kind, name, path=at.path)
    end = "to" if kind == "send" else "from"
    if end not in found:
        at.fail(f"{end!r} is missing", hint="the mesh at the other end")
    other = found[end].text(200)
    if other not in meshes:
        found[end].fail("no such mesh", hint=f"known: {', '.join(meshes)}")
    is_async = found["async"].flag() if "async" in found else False
    return Entry(kind, name, other, part=_part(at, found), is_async=is_async, path=at.path)


def _part(at: At, found: dict[str, At]) -> Part:
    if ("shape" in found) != ("dtype" in found):
        at.fail("'shape' and 'dtype' are given together")
    if "shape" not in found:
        return UNSIZED
    dtype = found["dtype"].text(40)
    if dtype not in ELEMENT_TYPES:
        found["dtype"].fail("unknown element type", hint="HLO's spelling, such as f32 or bf16")
    shape = Shape(dtype, tuple(found["shape"].integers(0, 1 << 40)))
    if (shape.bytes() or 0) >= 1 << 63:
        found["shape"].fail("an array of 2^63 bytes or more")
    return Part(shape.bytes(), shape.plan_dtype())


def trace_bundle(bundle: Bundle, options: XlaOptions) -> dict[int, Trace]:
    """Walk every program for every rank that runs it, in the order of the rank.

    Raises:
        PlanError: A program does not fit its mesh, a message its ends, or a wait has no start.
    """
    numbers = {name: number for number, name in enumerate(bundle.modules, 1)}
    reaches = {name: Reach(module, options) for name, module in bundle.modules.items()}
    walked: dict[tuple[str, int], Trace] = {}
    traces: dict[int, Trace] = {}
    for mesh in bundle.meshes.values():
        for device, rank in enumerate(mesh):
            device_of = _Device(bundle, rank, device, mesh)
            for entry in bundle.orders[rank]:
                if entry.kind != "run":
                    device_of.message(entry)
                    continue
                key = entry.name, rank
                if key not in walked:
                    module = bundle.modules[entry.name]
                    device_of.check(module, entry)
                    translator = Translator(module, numbers[entry.name], mesh)
                    walked[key] = Walker(translator, reaches[entry.name], options, device).run()
                device_of.run(entry, walked[key])
            traces[rank] = device_of.finished()
    return traces


class _Device:
    """What one device does, line by line."""

    def __init__(self, bundle: Bundle, rank: int, device: int, mesh: tuple[int, ...]) -> None:
        self._bundle, self._rank, self._device, self._mesh = bundle, rank, device, mesh
        self._trace = Trace()
        self._runs: dict[str, int] = {}
        self._started: dict[str, str] = {}
        self._count = 0

    def check(self, module: Module, entry: Entry) -> None:
        """Refuse a program that is not for this mesh."""
        if module.devices != len(self._mesh):
            self._fail(
                entry, f"the program has {module.devices} devices, its mesh {len(self._mesh)}"
            )

    def run(self, entry: Entry, trace: Trace) -> None:
        """Append what a program does, under the name of this run."""
        number = self._runs.get(entry.name, 0)
        self._runs[entry.name] = number + 1
        run = entry.run or f"{entry.name}.{number}"
        origin = Origin(0, entry.path, "", entry.line)
        self._add(Plain(origin, "compute", (("op_name", run),)))
        for step in trace.steps:
            self._add(renamed(step, run))
        self._trace.doubts |= trace.doubts
        self._trace.undecided += trace.undecided

    def message(self, entry: Entry) -> None:
        """Append a message, or the wait for one."""
        if entry.kind == "wait":
            handle = self._started.pop(entry.name, None)
            if handle is None:
                self._fail(entry, f"nothing that is waited for is called {entry.name!r}")
            self._add(Wait(Origin(0, entry.path, "", entry.line), handle))
            return
        other = self._bundle.meshes[entry.other]
        if len(other) != len(self._mesh) or other == self._mesh:
            self._fail(
                entry,
                f"from {len(self._mesh)} devices to {len(other)}"
                if other != self._mesh
                else "a mesh sends to itself",
                "an array travels between two meshes of as many devices, part by part",
            )
        peer, sends = other[self._device], entry.kind == "send"
        way = f"{self._rank}>{peer}" if sends else f"{peer}>{self._rank}"
        self._count += 1
        handle = f"{entry.kind} {entry.name} {self._count}"
        origin = Origin(0, entry.name, "", entry.line, place=entry.path)
        domain = tuple(sorted((self._rank, peer)))
        pipeline = f" {way}" if self._bundle.directional else ""
        self._add(
            Message(
                origin, domain, pipeline, entry.part, peer, sends, handle,
                blocking=not entry.is_async, stream=way,
            )
        )  # fmt: skip
        if entry.is_async:
            if entry.name in self._started:
                self._fail(entry, f"{entry.name!r} is under way already")
            self._started[entry.name] = handle

    def finished(self) -> Trace:
        """Return the trace."""
        if self._started:
            names = ", ".join(sorted(self._started)[:6])
            self._trace.doubt("not-waited", f"rank {self._rank} never waits for {names}", "exact")
        return self._trace

    def _add(self, step: Step) -> None:
        if len(self._trace.steps) >= MAX_STEPS:
            raise PlanError(f"a device has more than {MAX_STEPS} steps", file=self._bundle.file)
        self._trace.steps.append(step)

    def _fail(self, entry: Entry, message: str, hint: str = "") -> NoReturn:
        raise PlanError(
            message, file=self._bundle.file, path=entry.path, value=entry.name, hint=hint
        )


def bundle_doubts(bundle: Bundle) -> list[Doubt]:
    """Return what the manifest and its programs leave open."""
    apart = any(len({bundle.orders[rank] for rank in mesh}) > 1 for mesh in bundle.meshes.values())
    doubts = [
        Doubt(
            "mpmd-order",
            "each device runs its list from the top; arrays travel part by part, device i of a "
            "mesh to device i of the other",
            "exact",
        )
    ]
    sized = [e.part.bytes is not None for o in bundle.orders.values() for e in o if e.other]
    if not all(sized):
        doubts.append(Doubt("no-sizes", "some arrays that travel have no shape", "exact"))
    return doubts + program_doubts(list(bundle.modules.values()), apart=apart)
