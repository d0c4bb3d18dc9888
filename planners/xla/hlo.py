"""HLO text, as ``compiled.as_text()`` and ``--xla_dump_to`` write it, to a ``Module``."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from .model import Computation, Instruction, Module, Shape, fail
from .shapes import read_shape
from .text import Unbalanced, closing, depth_change, split, unquoted, without_comments

_TABLES = ("FileNames", "FunctionNames", "FileLocations", "StackFrames")
_NAME = r"%?([A-Za-z_][\w.\-]*)"
_HEADER = re.compile(rf"(ENTRY\s+)?{_NAME}\s*(\(.*\)\s*->\s*.*?)?\s*\{{$")
_ASSIGNED = re.compile(rf"(ROOT\s+)?{_NAME}\s*=\s*")
_OPCODE = re.compile(r"\s*([a-z][a-z0-9\-]*)\(")
_CALLING = ("to_apply", "calls", "body", "condition", "true_computation", "false_computation")
_VERBATIM = frozenset({"constant", "parameter", "iota"})
_MAX_JOINED = 20_000
_MAX_DEVICES = 1 << 20


def read_hlo(text: str, file: str) -> Module:
    """Read HLO text.

    Raises:
        PlanError: It is malformed; the message names the line.
    """
    reader = _Reader(file)
    lines = enumerate(text.splitlines(), 1)
    for number, raw in lines:
        line = without_comments(raw).strip()
        joined = 0
        while (reader.inside or line.startswith("HloModule")) and _open(line):
            more = next(lines, None)
            joined += 1
            if more is None or joined > _MAX_JOINED:
                fail(file, number, "a bracket is never closed", hint="is the text cut short?")
            line += " " + without_comments(more[1]).strip()
        reader.line(number, line)
    return reader.module()


def _open(line: str) -> bool:
    return not line.endswith("{") and depth_change(line) > 0


@dataclass
class _Reader:
    """Collects the parts of a module while its lines go by."""

    file: str
    inside: bool = False
    name: str = ""
    header: dict[str, str] = field(default_factory=dict)
    computations: dict[str, Computation] = field(default_factory=dict)
    entry: str | None = None
    table: str = ""
    tables: dict[str, dict[int, str]] = field(default_factory=dict)
    current: str = ""
    is_entry: bool = False
    instructions: list[Instruction] = field(default_factory=list)
    seen: set[str] = field(default_factory=set)
    root: str | None = None
    last: int = 0

    def line(self, number: int, line: str) -> None:
        """Take one line, comments removed."""
        self.last = number
        try:
            self._line(number, line)
        except Unbalanced as error:
            fail(self.file, number, f"brackets do not match: {error}", value=line)
        except ValueError as error:
            fail(self.file, number, f"cannot be read: {error}", value=line, hint=_HINT)

    def _line(self, number: int, line: str) -> None:
        if not line or line.startswith("//"):
            return
        if line.startswith("HloModule") and not self.inside:
            self._module(number, line)
        elif self.inside and line[0] == "}":
            self._close(number)
        elif self.inside:
            self._instruction(number, line)
        elif line in _TABLES:
            self.table = line
        elif self.table and line[0].isdigit():
            key, _, value = line.partition(" ")
            self.tables.setdefault(self.table, {})[int(key)] = value
        else:
            self._open_computation(number, line)

    def _module(self, number: int, line: str) -> None:
        if self.name:
            fail(self.file, number, "a second module begins", hint="one module per file")
        first, *rest = split(line[len("HloModule") :])
        self.name = first
        self.header = dict(_attributes(rest))

    def _open_computation(self, number: int, line: str) -> None:
        match = _HEADER.match(line)
        if match is None or not self.name:
            what = "a computation is expected" if self.name else "no HloModule line comes first"
            fail(self.file, number, what, value=line, hint=_HINT)
        self.current, self.is_entry = match[2], bool(match[1])
        if self.current in self.computations:
            fail(self.file, number, "a computation of this name exists", value=self.current)
        self.inside, self.root, self.table = True, None, ""
        self.instructions, self.seen = [], set()

    def _close(self, number: int) -> None:
        if not self.instructions:
            fail(self.file, number, "a computation without instructions", value=self.current)
        root = self.root or self.instructions[-1].name
        self.computations[self.current] = Computation(self.current, tuple(self.instructions), root)
        if self.is_entry:
            if self.entry is not None:
                fail(self.file, number, "a second ENTRY", value=self.current)
            self.entry = self.current
        self.inside = False

    def _instruction(self, number: int, line: str) -> None:
        instruction, is_root = read_instruction(line, number)
        if instruction.name in self.seen:
            fail(self.file, number, "an instruction of this name exists", value=instruction.name)
        missing = [name for name in instruction.operands if name not in self.seen]
        if missing:
            hint = "instructions stand after their operands"
            fail(self.file, number, "an operand is not defined yet", value=missing[0], hint=hint)
        self.seen.add(instruction.name)
        self.instructions.append(instruction)
        if is_root:
            self.root = instruction.name

    def module(self) -> Module:
        """Return the module after the last line."""
        if self.inside or self.entry is None:
            what = "a computation is never closed" if self.inside else "there is no ENTRY"
            fail(self.file, self.last, what, hint="is the text cut short?")
        for computation in self.computations.values():
            for instruction in computation.instructions:
                for name in instruction.calls:
                    if name not in self.computations:
                        hint = "the whole module is needed"
                        message = "a computation is not in the text"
                        fail(self.file, instruction.line, message, value=name, hint=hint)
        is_scheduled = self.header.get("is_scheduled") == "true"
        return Module(
            name=self.name,
            file=self.file,
            computations=self.computations,
            entry=self.entry,
            replicas=self._count("replica_count"),
            partitions=self._count("num_partitions"),
            scheduled=is_scheduled,
            places=_places(self.tables),
            sharded=_sharded(
                self.computations,
                self._count("num_partitions"),
                is_done=is_scheduled and self.entry.endswith("_spmd"),
            ),
        )

    def _count(self, name: str) -> int:
        text = self.header.get(name, "1")
        if not text.isdigit() or not 1 <= int(text[:9]) <= _MAX_DEVICES or len(text) > 9:
            fail(self.file, 1, f"{name} is not a number of devices", value=text)
        return int(text)


_FULL_SHAPES = ("SPMDFullToShardShape", "SPMDShardToFullShape", "Sharding")
_HINT = "give the text of compiled.as_text() or of --xla_dump_hlo_as_text, unchanged"


def read_instruction(line: str, number: int) -> tuple[Instruction, bool]:
    """Read one instruction and whether it is the root.

    Raises:
        ValueError: It is none.
    """
    match = _ASSIGNED.match(line)
    if match is None:
        raise ValueError("an instruction is expected")
    shape, at = read_shape(line, match.end())
    opcode = _OPCODE.match(line, at)
    if opcode is None:
        raise ValueError("an operation is expected behind the shape")
    opened = opcode.end() - 1
    closed = closing(line, opened)
    inner = line[opened + 1 : closed].strip()
    rest = line[closed + 1 :].strip()
    if rest and rest[0] != ",":
        raise ValueError("a comma is expected behind the operands")
    attrs = dict(_attributes(split(rest[1:])))
    return _made(match[2], opcode[1], shape, inner, attrs, number), bool(match[1])


def _made(
    name: str, opcode: str, shape: Shape, inner: str, attrs: dict[str, str], number: int
) -> Instruction:
    verbatim = opcode in _VERBATIM
    operands = () if verbatim else tuple(_operand(part) for part in split(inner))
    calls = [attrs[key].lstrip("%") for key in _CALLING if key in attrs]
    if "branch_computations" in attrs:
        calls += [part.lstrip("%") for part in split(attrs["branch_computations"].strip("{}"))]
    if "called_computations" in attrs:
        calls += [part.lstrip("%") for part in split(attrs["called_computations"].strip("{}"))]
    return Instruction(
        name, opcode, shape, operands, attrs, tuple(calls), inner if verbatim else "", number
    )


def _operand(text: str) -> str:
    """Return the name of an operand, before which its shape may stand."""
    return text.rsplit(" ", 1)[-1].lstrip("%")


def _attributes(parts: list[str]) -> list[tuple[str, str]]:
    found = []
    for part in parts:
        key, equals, value = part.partition("=")
        if not equals and part:
            value = "true"
        if part:
            found.append((key.strip(), value.strip()))
    return found


def _sharded(computations: dict[str, Computation], partitions: int, *, is_done: bool) -> str:
    """Say what shows that the partitioner has not run; empty if nothing does.

    It takes shardings off all instructions but parameters, and the calls that lead from the
    shapes of all devices to those of one (``SPMDFullToShardShape``) out of the text. Later passes
    copy a parameter with its sharding, so that one counts only where the partitioner's name for
    what it made (``main_spmd``) is missing, or the schedule, which is made last (``is_done``).
    """
    if partitions == 1:
        return ""
    for computation in computations.values():
        for instruction in computation.instructions:
            attrs = instruction.attrs
            target = attrs.get("custom_call_target", "").strip('"')
            tiled = (
                not is_done
                and instruction.opcode != "parameter"
                and "devices=" in attrs.get("sharding", "")
            )
            wished = "xla.sdy.sharding=" in attrs.get("frontend_attributes", "")
            if tiled or wished or target in _FULL_SHAPES or target.startswith("xla.sdy."):
                return (
                    f"{instruction.name}: a partitioner has still to place collectives; "
                    "check the compiled program"
                )
    return ""


def _places(tables: dict[str, dict[int, str]]) -> dict[int, tuple[str, int, str]]:
    """Resolve the tables of stack frames: frame number to file, line and function."""
    places = {}
    for frame, text in tables.get("StackFrames", {}).items():
        where = _fields(
            tables.get("FileLocations", {}).get(_fields(text).get("file_location_id", 0), "")
        )
        file = tables.get("FileNames", {}).get(where.get("file_name_id", 0))
        function = tables.get("FunctionNames", {}).get(where.get("function_name_id", 0), "")
        if file is not None:
            places[frame] = (unquoted(file), where.get("line", 0), unquoted(function))
    return places


def _fields(text: str) -> dict[str, int]:
    return {key: int(value) for key, value in re.findall(r"(\w+)=(\d{1,9})\b", text)}
