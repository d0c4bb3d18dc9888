"""Text of Shardy's ``mpmd`` dialect, behind its export: one function that says what runs where.

``@main`` has a topology (meshes by name) and a list of ``mpmd.fragment_call`` and
``mpmd.transfer``; the fragments are functions beside it, on arrays of all devices. Each mesh runs
its part of the list from the top. The format is that of docs/mpmd/mpmd_dialect.md, ``dialect.cc``
and the tests of openxla/shardy at commit a0277a8. It lists no devices, so meshes are laid over the
ranks in the order of the topology.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .mlir import read_mlir
from .model import ELEMENT_TYPES, Shape, fail
from .mpmd import Bundle, Entry
from .steps import Doubt, Part
from .text import Unbalanced, closing, split

if TYPE_CHECKING:
    from .mlir import Layouts
    from .model import Module

_ALIAS = re.compile(r"^[ \t]*([!#][\w$.\-]+)\s*=\s*(.*)$", re.MULTILINE)
_TOPOLOGY = re.compile(r"topology\"?\s*=\s*#(?:mpmd|sdy)\.topology<")
_MESH = re.compile(r'"([^"]+)"\s*:\s*<')
_AXIS = re.compile(r'"([^"]+)"\s*=\s*(\d{1,9})')
_FUNCTION = re.compile(r"func\.func\s+(?:public |private |nested )?@(\"[^\"]*\"|[\w$.\-]+)")
_OP = re.compile(r"%[\w$.\-]+(?::\d+)?(?:\s*,\s*%[\w$.\-]+(?::\d+)?)*\s*=\s*(?P<op>\"?[\w.]+)|"
                 r"(?P<bare>(?:func\.)?return)\b|^\s*(?P<alone>\"?[A-Za-z_]\w*\.[\w.]+)",
                 re.MULTILINE)  # fmt: skip
"""A statement: with results, the end, or alone. A quote before it is MLIR's generic form."""
_CALL = re.compile(r'mpmd\.fragment_call<\s*mesh\s*=\s*"([^"]+)".*?>\s*@("[^"]*"|[\w$.\-]+)\s*\(')
_TRANSFER = re.compile(r"mpmd\.transfer\s*(?:\{.*?\}\s*)?(%[\w$.\-]+(?:#\d+)?)\s*(?:\{.*?\}\s*)?:")
_TENSOR = re.compile(r"tensor<((?:\d+x)*)([a-zA-Z]\w*)>")
_OPENS = re.compile(r"attributes\s*(?=\{)|\{|\(")
_EXPORT = "give the module behind mpmd-export-pipeline, with fragments as functions"
_DTYPES = {f"i{bits}": f"s{bits}" for bits in (4, 8, 16, 32, 64)} | {"i1": "pred"} | {
    f"ui{bits}": f"u{bits}" for bits in (8, 16, 32, 64)
}  # fmt: skip


@dataclass(frozen=True)
class _Array:
    """A mesh tensor: its mesh, its sharding as text, and the part that one device has."""

    mesh: str
    sharding: str
    part: Part


def read_shardy(text: str, file: str) -> tuple[Bundle, list[Doubt]]:
    """Read a module of the dialect.

    Returns:
        The programs with an order for each device, and what the text leaves open.

    Raises:
        PlanError: It is malformed, or not exported; the message has the line.
    """
    reader = _Reader(text, file)
    try:
        return reader.read()
    except (Unbalanced, ValueError, IndexError, RecursionError) as error:
        fail(file, reader.line, f"cannot be read: {error}", hint=_EXPORT)


class _Reader:
    def __init__(self, text: str, file: str) -> None:
        plain = "\n".join(_uncommented(line) for line in text.split("\n"))
        self._file, self._text = file, _expanded(plain)
        self._axes: dict[str, dict[str, int]] = {}
        self._orders: dict[str, list[Entry]] = {}
        self._modules: dict[str, Module] = {}
        self._functions: dict[str, tuple[int, int]] = {}
        self._names: dict[str, list[Layouts]] = {}
        self._doubts: dict[str, Doubt] = {}
        self.line = 1

    def read(self) -> tuple[Bundle, list[Doubt]]:
        body = 0, 0
        for match in _FUNCTION.finditer(self._text):
            start, end = self._body(match.end())
            name = match[1].strip('"')
            if name in self._functions:
                fail(self._file, self._at(match.start()), f"there are two functions @{name}")
            self._functions[name] = (match.start(), end)
            if match[1] == "main":
                self._topology(self._text[match.start() : start])
                body = start, end
        if "main" not in self._functions or not self._axes:
            fail(self._file, 1, "there is no function @main with a topology", hint=_EXPORT)
        self._main(*body)
        meshes, first = {}, 0
        for name, axes in self._axes.items():
            size = math.prod(axes.values())
            meshes[name] = tuple(range(first, first + size))
            first += size
        orders = {rank: tuple(self._orders[name]) for name, mesh in meshes.items() for rank in mesh}
        bundle = Bundle(self._file, self._name(), meshes, self._modules, orders, directional=False)
        return bundle, list(self._doubts.values())

    def _name(self) -> str:
        named = re.search(r"\bmodule\s+@([\w$.\-]+)", self._text)
        return named[1] if named else "mpmd"

    def _at(self, place: int) -> int:
        return self._text.count("\n", 0, place) + 1

    def _body(self, place: int) -> tuple[int, int]:
        """Return where the body of a function begins and ends, behind its attributes."""
        while match := _OPENS.search(self._text, place):
            if match[0] == "{":
                return match.end(), closing(self._text, match.start())
            place = closing(self._text, match.end() - (1 if match[0] == "(" else 0)) + 1
        raise ValueError("a function without a body")

    def _topology(self, head: str) -> None:
        found = _TOPOLOGY.search(head)
        if found is None:
            return
        inside = head[found.end() : closing(head, found.end() - 1, angles=True)]
        for match in _MESH.finditer(inside):
            axes = inside[match.end() : closing(inside, match.end() - 1, angles=True)]
            if match[1] in self._axes:
                fail(self._file, self._at(0), f"the topology has two meshes {match[1]!r}")
            self._axes[match[1]] = {name: int(size) for name, size in _AXIS.findall(axes)}
        self._orders = {name: [] for name in self._axes}

    # --- the list --------------------------------------------------------------------------------

    def _main(self, start: int, end: int) -> None:
        statements = list(_OP.finditer(self._text, start, end))
        for at, match in enumerate(statements):
            self.line = self._at(match.start())
            stop = statements[at + 1].start() if at + 1 < len(statements) else end
            statement = self._text[match.start() : stop]
            op = match["op"] or match["alone"] or "return"
            if op == "mpmd.fragment_call":
                self._call(statement)
            elif op == "mpmd.transfer":
                self._transfer(statement)
            elif op not in {"return", "func.return"}:
                what = f"{op[1:]} in the generic form" if op.startswith('"') else op
                fail(self._file, self.line, f"{what} is not read", value=what, hint=_EXPORT)

    def _call(self, statement: str) -> None:
        match = _CALL.search(statement)
        if match is None or match[1] not in self._axes:
            fail(self._file, self.line, "a fragment call of a mesh that is not in the topology")
        mesh, callee = match[1], match[2].strip('"')
        layouts = self._layouts(statement[match.end() - 1 :])
        # On arrays that lie otherwise, the same fragment is another program.
        known = self._names.setdefault(f"{callee}@{mesh}", [])
        if layouts not in known:
            known.append(layouts)
        number = known.index(layouts)
        name = f"{callee}@{mesh}{f'.{number}' if number else ''}"
        if name not in self._modules:
            self._modules[name] = self._fragment(callee, mesh, layouts)
        run = f"{callee}.{sum(e.name == name for e in self._orders[mesh])}"
        self._orders[mesh].append(
            Entry("run", name, run=run, path=f"line {self.line}", line=self.line)
        )

    def _layouts(self, call: str) -> Layouts:
        """Return the shardings of what a fragment is called with and gives."""
        types = call[closing(call, 0) + 1 :].partition(":")[2].partition("->")
        into, out = (self._types(one.strip()) for one in (types[0], types[2]))
        return into, out

    def _types(self, text: str) -> tuple[str, ...]:
        inside = text[1 : closing(text, 0)] if text.startswith("(") else text
        arrays = [self._array(one) for one in split(inside, angles=True)] if inside else []
        return tuple(one.sharding.removeprefix("sharding=").replace(" ", "") for one in arrays)

    def _fragment(self, callee: str, mesh: str, layouts: Layouts) -> Module:
        """Return a fragment as a program of its own, on the lines that it stands on."""
        if callee not in self._functions:
            fail(self._file, self.line, f"there is no function @{callee}", hint=_EXPORT)
        start, end = self._functions[callee]
        opened, _ = self._body(_FUNCTION.match(self._text, start).end())  # type: ignore[union-attr]
        head = self._text[start : opened - 1]
        cut = re.search(r"\battributes\s*\{", head)
        head, rest = (head[: cut.start()], head[cut.start() :]) if cut else (head, "")
        rest = "\n" * (rest.count("\n") + head[len(head.rstrip()) :].count("\n"))
        head = _FUNCTION.sub("func.func public @main", head.rstrip(), count=1)
        size = math.prod(self._axes[mesh].values())
        meshes = " ".join(re.findall(r"^\s*(sdy\.mesh\s+@[^\n]*)$", self._text, re.MULTILINE))
        first = f"module @{re.sub(r'[^0-9A-Za-z_.]', '_', callee)} attributes "
        first += f"{{mhlo.num_partitions = {size} : i32}} {{ {meshes}"
        lines = "\n" * (self._at(start) - 1)
        text = f"{first}{lines}{head} {{{rest}{self._text[opened:end]}}}\n}}\n"
        return read_mlir(text, self._file, layouts)

    def _transfer(self, statement: str) -> None:
        match = _TRANSFER.search(statement)
        colon = match.end() if match else -1
        source, arrow, target = statement[colon:].partition("->")
        if match is None or not arrow:
            fail(self._file, self.line, "a transfer without its types")
        before, after = self._array(source), self._array(target)
        if before.mesh == after.mesh:
            if before.sharding != after.sharding:
                self._unknown_layout()
            return
        sizes = [list(self._axes[one.mesh].values()) for one in (before, after)]
        is_open = "?" in before.sharding  # left to the compiler
        if sizes[0] != sizes[1] or before.sharding != after.sharding or is_open:
            self._unknown_layout()
            return
        place, value = f"line {self.line}", f"{match[1][1:].replace('#', '.')}.{self.line}"
        send = Entry("send", value, after.mesh, part=before.part, path=place, line=self.line)
        receive = Entry("recv", value, before.mesh, part=after.part, path=place, line=self.line)
        self._orders[before.mesh].append(send)
        self._orders[after.mesh].append(receive)

    def _unknown_layout(self) -> None:
        self._doubt(
            "transfer-layout",
            f"line {self.line}: an array changes its layout on its way; which devices send which "
            "parts is up to the runtime",
        )

    def _doubt(self, kind: str, message: str) -> None:
        self._doubts.setdefault(kind, Doubt(kind, message))

    def _array(self, text: str) -> _Array:
        """Read ``!mpmd.mesh_tensor<"m1", tensor<4x8xf32>, sharding=<@mesh, [{"x"}, {?}]>>``."""
        opened = text.index("!mpmd.mesh_tensor<") + len("!mpmd.mesh_tensor")
        inside = text[opened + 1 : closing(text, opened, angles=True)]
        parts = [part.strip() for part in split(inside, angles=True)]
        mesh = parts[0].strip('"')
        tensor = _TENSOR.fullmatch(parts[1]) if len(parts) > 1 else None
        if mesh not in self._axes or tensor is None:
            fail(self._file, self.line, "not the type of an array on a mesh", value=inside[:80])
        dims = [int(size) for size in tensor[1].split("x") if size]
        dtype = _DTYPES.get(tensor[2], tensor[2].lower())
        sharding = next((part for part in parts[2:] if part.startswith("sharding=")), "")
        listed = re.findall(r"\{([^{}]*)\}", sharding[sharding.find("[") :] if sharding else "")
        for at, axes in enumerate(listed[: len(dims)]):
            for axis in re.findall(r'"([^"]+)"(?!:)', axes):
                dims[at] = -(-dims[at] // self._axes[mesh].get(axis, 1))
        if dtype not in ELEMENT_TYPES:
            return _Array(mesh, sharding, Part(None, None))
        shape = Shape(dtype, tuple(dims))
        return _Array(mesh, sharding, Part(shape.bytes(), shape.plan_dtype()))


def _uncommented(line: str) -> str:
    comment = line.find("//")
    return line if comment < 0 or line.count('"', 0, comment) % 2 else line[:comment]


def _expanded(text: str) -> str:
    """Return a text whose aliases of types and attributes are written out; lines stay."""
    aliases = {name: value.strip() for name, value in _ALIAS.findall(text)}
    text = _ALIAS.sub("", text) if aliases else text
    for _ in range(8):  # an alias may name another
        before = text
        text = re.sub(r"[!#][\w$\-]+(?:\.[\w$\-]+)*", lambda m: aliases.get(m[0], m[0]), text)
        if text == before or len(text) > 1 << 28:
            break
    return text
