"""StableHLO text, as ``lowered.as_text()`` writes it, to the same ``Module`` as HLO.

Regions become computations that see the values around them. Collectives that a partitioner has
still to place are not in such a text; the module says so in ``sharded``.

Above 400 lines: one parser, whose states are shared by statements, regions and attributes.
"""

from __future__ import annotations

import bisect
import re
from dataclasses import dataclass, field
from itertools import repeat, zip_longest

from .mlir_ops import convert, is_replicated, read_types, sharding_of, tuple_of
from .model import Computation, Instruction, Module, Shape, fail
from .text import Unbalanced, closing, marks, split

_STATEMENT = re.compile(
    r"(?P<results>%[\w$.\-]+(?::\d+)?(?:\s*,\s*%[\w$.\-]+(?::\d+)?)*\s*=\s*)?"
    r'(?P<quote>"?)(?P<op>[A-Za-z_][\w.$]*)(?P=quote)'
)
_BLOCK = re.compile(r"\^[\w$.]+\s*(?=[(:])")
_FUNCTION = re.compile(r"(?:public |private |nested )?@(\"[^\"]*\"|[\w$.\-]+)\s*\(")
_OPERAND = re.compile(r"%([\w$.\-]+(?:#\d+)?)")
_COUNT = re.compile(r"(?:mhlo|stablehlo)\.num_(partitions|replicas)\s*=\s*(\d{1,9})")
_RETURNS = frozenset({"return", "func.return", "stablehlo.return", "sdy.return", "mhlo.return"})
_CALLS = frozenset({"func.call", "call"})
_LOCAL = frozenset({"stablehlo.constant", "sdy.manual_computation", "sdy.constant"}) | _CALLS
_EACH = frozenset(
    f"stablehlo.{op}"
    for op in (
        "abs", "add", "and", "atan2", "cbrt", "ceil", "compare", "convert", "cosine", "divide",
        "exponential", "exponential_minus_one", "floor", "is_finite", "log", "log_plus_one",
        "logistic", "maximum", "minimum", "multiply", "negate", "not", "or", "power", "remainder",
        "round_nearest_afz", "round_nearest_even", "rsqrt", "sign", "sine", "sqrt", "subtract",
        "tan", "tanh", "xor",
    )
)  # fmt: skip
"""Operations on elements at one place of arrays of one shape (StableHLO's specification). Where all
operands lie alike the partitioner runs them on each device's part (``HandleElementwise`` of XLA's
``spmd_partitioner.cc``), and the result lies so, too."""
_HINT = "give the text of lowered.as_text(), unchanged"
MAX_DEVICES = 1 << 20


Layouts = tuple[tuple[str, ...], tuple[str, ...]]
"""Shardings of arguments and results, in Shardy's words without spaces; empty where not said."""


def read_mlir(text: str, file: str, layouts: Layouts = ((), ())) -> Module:
    """Read StableHLO text.

    Args:
        text: The module.
        file: Its name.
        layouts: How the program is called, where its own function does not say.

    Raises:
        PlanError: It is malformed; the message names the line.
    """
    reader = _Reader(text, file, layouts)
    try:
        return reader.module()
    except (Unbalanced, ValueError, IndexError, RecursionError) as error:
        fail(file, reader.line, f"cannot be read: {error}", hint=_HINT)


@dataclass
class _Region:
    """A computation under construction."""

    name: str
    inner: bool
    instructions: list[Instruction] = field(default_factory=list)
    names: set[str] = field(default_factory=set)
    root: str | None = None

    def add(self, instruction: Instruction) -> None:
        if instruction.name in self.names:
            raise ValueError(f"%{instruction.name} is defined twice")
        self.names.add(instruction.name)
        self.instructions.append(instruction)


def _bare(line: str) -> str:
    """Return a line without its comment, and nothing of a line that says where source stood.

    By ``find``: a search for a pattern starts anew at each of a million slashes.
    """
    if line.lstrip().startswith("#loc"):
        return ""
    comment = line.find("//", line.rfind('"') + 1)
    return line if comment < 0 else line[:comment]


class _Reader:
    def __init__(self, text: str, file: str, layouts: Layouts) -> None:
        self._layouts = layouts
        self._text = "\n".join(map(_bare, text.split("\n")))
        self._file = file
        self._newlines = [match.start() for match in re.finditer("\n", self._text)]
        self._computations: dict[str, Computation] = {}
        self._global: dict[str, list[str]] = {}  # by function: what a partitioner has to act on
        self._called: dict[str, set[str]] = {}  # by function: those called on arrays of all devices
        self._scopes: list[_Region] = []
        self._shardings: dict[str, str] = {}
        self._free: set[str] = set()  # inputs of the program whose sharding follows from their use
        self._wanted: list[str] = []  # shardings of the results of the function; empty where open
        # What a manual computation takes apart is one array of all devices, and so are the inputs.
        replicas = re.search(r"num_replicas\s*=\s*(\d{1,9})", self._text.partition("func.func")[0])
        self._is_global = "sdy.manual_computation" in self._text and (
            replicas is None or replicas[1] == "1"
        )
        self._axes = {
            name
            for mesh in re.findall(r"sdy\.mesh\s+@[\w$]+\s*=\s*<\[(.*?)\]", self._text)
            for name, size in re.findall(r'"([^"]+)"\s*=\s*(\d+)', mesh)
            if size != "1"
        }
        self._manual = 0
        self.line = 1

    def module(self) -> Module:
        opened = self._text.index("{", self._body_start())
        end = closing(self._text, opened)
        name = re.match(r"\s*module\s*@([\w$.\-]+)", self._text)
        for start, statement in self._statements(opened + 1, end):
            if statement.startswith("func.func"):
                self._function(start, statement)
        if "main" not in self._computations:
            fail(self._file, self.line, "there is no function @main", hint="is the text cut short?")
        counts = {kind: int(n) for kind, n in _COUNT.findall(self._text[:opened])}
        if any(not 1 <= n <= MAX_DEVICES for n in counts.values()):
            fail(self._file, 1, "not a number of devices", value=counts)
        return Module(
            name=name[1] if name else "module",
            file=self._file,
            computations=self._checked(),
            entry="main",
            replicas=counts.get("replicas", 1),
            partitions=counts.get("partitions", 1),
            scheduled=False,
            sharded=self._sharded(counts.get("partitions", 1)),
        )

    def _body_start(self) -> int:
        """Return where the body of the module may begin: behind its attributes."""
        start = re.match(r'\s*(?:module|"builtin\.module")\b\s*(?:@[\w$.\-]+)?', self._text)
        if start is None:
            raise ValueError("a module is expected")
        attributes = re.compile(r"\s*attributes\s*(?=\{)").match(self._text, start.end())
        return start.end() if attributes is None else closing(self._text, attributes.end()) + 1

    def _checked(self) -> dict[str, Computation]:
        for computation in self._computations.values():
            for instruction in computation.instructions:
                for name in instruction.calls:
                    if name not in self._computations:
                        message = "a function is not in the text"
                        fail(self._file, instruction.line, message, value=name)
        return self._computations

    def _sharded(self, partitions: int) -> str:
        """Say what a partitioner has to act on in the program and the functions that it calls."""
        reached = ["main"]
        for name in reached:
            reached += sorted(self._called.get(name, set()) - {*reached})
        found = {what for name in reached for what in self._global.get(name, ())}
        if partitions == 1 or not found:
            return ""
        return (
            f"{', '.join(sorted(found)[:4])}: a partitioner has still to place "
            "collectives; check the compiled program"
        )

    # --- statements ----------------------------------------------------------------------------

    def _statements(self, start: int, end: int) -> list[tuple[int, str]]:
        """Split a region into statements: they end where a line ends outside of brackets."""
        found: list[tuple[int, str]] = []
        text, begin, depth = self._text[:end], start, 0
        stops = [
            (at, 1 if mark in "({[" else -1) for at, mark, _ in marks(text, start) if mark != ","
        ]
        ends = self._newlines[bisect.bisect_left(self._newlines, start) :]
        place = 0
        for newline in (min(at, end) for at in [*ends, end]):
            while place < len(stops) and stops[place][0] < newline:
                depth += stops[place][1]
                place += 1
            if depth == 0:
                statement = text[begin:newline]
                if statement.strip():
                    found.append(self._joined(found, begin, statement))
                begin = newline + 1
            if newline == end:
                break
        return found

    def _joined(self, found: list[tuple[int, str]], begin: int, statement: str) -> tuple[int, str]:
        """Return a statement, with the one before it if that is the head of a loop."""
        start = begin + len(statement) - len(statement.lstrip())
        if statement.lstrip().startswith("cond") and found and "while(" in found[-1][1]:
            start, _ = found.pop()
        return start, self._text[start : begin + len(statement)].rstrip()

    def _at(self, offset: int) -> int:
        self.line = bisect.bisect_left(self._newlines, offset) + 1
        return self.line

    def _function(self, start: int, statement: str) -> None:
        line = self._at(start)
        match = _FUNCTION.search(statement)
        if match is None:
            fail(self._file, line, "a function is expected", value=statement[:60], hint=_HINT)
        name, opened = match[1].strip('"'), match.end() - 1
        if name in self._computations:
            fail(self._file, line, "a function of this name exists", value=name)
        closed = closing(statement, opened)
        body = self._last_region(statement, closed)
        region = _Region(name, inner=False)
        for part in split(statement[opened + 1 : closed], angles=True):
            self._argument(region, part, line)
        into, out = self._layouts if name == "main" else ((), ())
        if into and len(into) != len(region.instructions):
            fail(self._file, line, "a call has another number of arrays", value=name)
        own = _result_shardings(statement[closed + 1 : body[0]])
        self._wanted = [one or given for one, given in zip_longest(own, out, fillvalue="")]
        self._shardings = {
            i.name: i.attrs.get("sdy", "") or given
            for i, given in zip(region.instructions, into or repeat(""), strict=False)
        }
        # Only of the program's own inputs: what a function is called with is sharded already.
        free = {one for one, sharding in self._shardings.items() if not sharding}
        self._free = free if name == "main" else set()
        self._fill(region, self._text.index(statement[body[0] : body[1]], start), body)

    @staticmethod
    def _last_region(statement: str, after: int) -> tuple[int, int]:
        """Return where the body of a function begins and ends: its last braces."""
        last = None
        for position, mark, depth in marks(statement, after + 1):
            if mark == "{" and depth == 0:
                last = position
        if last is None:
            raise ValueError("a function without a body")
        return last, closing(statement, last) + 1

    def _argument(self, region: _Region, text: str, line: int) -> None:
        name, _, rest = text.partition(":")
        shape = read_types(rest.split("{")[0])
        attrs = sharding_of(rest)
        if region.name == "main" and self._is_global:
            attrs["global"] = "true"
        number = str(len(region.instructions))
        found = Instruction(
            name.strip().lstrip("%"), "parameter", shape[0], (), attrs, (), number, line
        )
        region.add(found)

    def _fill(self, region: _Region, offset: int, span: tuple[int, int]) -> None:
        """Read the statements between the braces at ``offset`` into a region."""
        self._scopes.append(region)
        end = offset + span[1] - span[0] - 1
        for start, statement in self._statements(offset + 1, end):
            self._statement(region, start, statement)
        self._scopes.pop()
        if not region.instructions:
            region.add(Instruction("empty", "tuple", Shape("tuple"), line=self.line))
        self._computations[region.name] = Computation(
            region.name, tuple(region.instructions), region.root, region.inner
        )

    def _statement(self, region: _Region, start: int, statement: str) -> None:
        line = self._at(start)
        block = _BLOCK.match(statement)
        if block is not None:
            rest = statement[block.end() :]
            if rest.startswith("("):
                for part in split(rest[1 : closing(rest, 0)], angles=True):
                    self._argument(region, part, line)
            return
        match = _STATEMENT.match(statement)
        if match is None:
            fail(self._file, line, "an operation is expected", value=statement[:60], hint=_HINT)
        op = match["op"]
        regions, bare = self._regions(statement, match.end())
        operands = [self._used(region, name, line) for name in self._operand_names(op, bare)]
        if op in _RETURNS:
            self._return(region, operands, line)
            return
        results = [
            part.strip().lstrip("%") for part in (match["results"] or "").rstrip("= ").split(",")
        ]
        self._note(op, bare, operands, results)
        self._operation(region, op, results, bare, operands, regions, start, line)

    @staticmethod
    def _operand_names(op: str, bare: str) -> list[str]:
        if op.endswith(".while"):
            pairs = split(bare[1 : closing(bare, 0)])
            return [pair.partition("=")[2].strip().lstrip("%") for pair in pairs]
        head = re.split(r"\s:\s", bare, maxsplit=1)[0]
        if "manual_axes=" in head:  # behind them come the arguments of the region
            head = head[: head.index(")") + 1]
        return _OPERAND.findall(head)

    def _regions(self, statement: str, after: int) -> tuple[list[tuple[int, int]], str]:
        """Return the spans of the regions of a statement, and the statement without them."""
        spans: list[tuple[int, int]] = []
        for position, mark, _ in marks(statement, after):
            inside = bool(spans) and position < spans[-1][1]
            if mark == "{" and not inside and "\n" in statement[position:]:
                end = closing(statement, position) + 1
                if "\n" in statement[position:end] and statement[position - 1] != "<":
                    spans.append((position, end))
        bare = statement[after:]
        for begin, end in reversed(spans):
            bare = bare[: begin - after] + " " + bare[end - after :]
        return spans, bare

    def _used(self, region: _Region, name: str, line: int) -> str:
        base, mark, index = name.partition("#")
        if not any(base in scope.names for scope in self._scopes):
            fail(self._file, line, "a value is not defined yet", value=f"%{base}")
        if mark and name not in region.names:
            shape = self._shape(base)
            if shape.dtype != "tuple" or int(index) >= len(shape.parts):
                fail(self._file, line, "a value has no such part", value=f"%{name}")
            part = shape.parts[int(index)]
            region.add(
                Instruction(name, "get-tuple-element", part, (base,), {"index": index}, line=line)
            )
        return name

    def _shape(self, name: str) -> Shape:
        for scope in reversed(self._scopes):
            for instruction in reversed(scope.instructions):
                if instruction.name == name:
                    return instruction.shape
        return Shape("token")

    def _return(self, region: _Region, operands: list[str], line: int) -> None:
        if region is self._scopes[0]:
            for name, wanted in zip(operands, self._wanted, strict=False):
                if wanted and self._moves(name, wanted):
                    self._partitioned("a result is sharded otherwise than what makes it")
        if len(operands) == 1 and not region.name.endswith("/body"):
            region.root = operands[0]
            return
        shape = tuple_of([self._shape(name) for name in operands])
        region.add(Instruction("return", "tuple", shape, tuple(operands), line=line))
        region.root = "return"

    def _note(self, op: str, bare: str, operands: list[str], results: list[str]) -> None:
        """Note what a partitioner would have to act on: work outside of manual computations."""
        if self._manual:
            return
        if op == "sdy.manual_computation":
            wanted = re.search(r"in_shardings=\[(.*?)\]\s+out_shardings", bare)
            parts = split(wanted[1], angles=True) if wanted else []
            for name, part in zip(operands, parts, strict=True):
                self._placed(name, part.replace(" ", ""))
            axes = re.search(r"manual_axes=\{([^}]*)\}", bare)
            if self._axes - set(re.findall(r'"([^"]+)"', axes[1] if axes else "")):
                self._partitioned("a computation is manual over a part of the mesh")
        elif op in _CALLS:
            names = re.findall(r"@([\w$.\-]+)", bare)
            self._called.setdefault(self._scopes[0].name, set()).update(names[:1])
        elif op in _EACH and (layout := self._layout(operands)):
            self._shardings[results[0]] = layout
        elif op not in _LOCAL:
            self._partitioned(op)

    def _partitioned(self, what: str) -> None:
        self._global.setdefault(self._scopes[0].name, []).append(what)

    def _layout(self, operands: list[str]) -> str:
        """Return the sharding that operands share; empty where they do not, or it is open."""
        given = {self._shardings.get(name, "") for name in operands if not self._is_constant(name)}
        shared = given.pop() if len(given) == 1 else ""
        return "" if "?" in shared else shared

    def _placed(self, name: str, wanted: str) -> None:
        """Note an operand that a partitioner has to move to where a computation wants it.

        An input without a sharding takes that of its use.
        """
        if name in self._free:
            self._free.discard(name)
            self._shardings[name] = wanted
        if self._moves(name, wanted):
            self._partitioned("an input is sharded otherwise than its computation wants")

    def _moves(self, name: str, wanted: str) -> bool:
        """Tell whether a value has to move to be sharded so: what every device has is there."""
        given = self._shardings.get(name)
        if given is None:
            return not self._is_constant(name)
        return given != wanted and not is_replicated(given)

    def _is_constant(self, name: str) -> bool:
        return any(
            instruction.name == name and instruction.opcode == "constant"
            for scope in self._scopes
            for instruction in scope.instructions
        )

    def _operation(
        self, region: _Region, op: str, results: list[str], bare: str, operands: list[str],
        spans: list[tuple[int, int]], start: int, line: int,
    ) -> None:  # fmt: skip
        shapes = read_types(bare, whole=op.endswith(".while"))
        count = sum(int(name.partition(":")[2] or 1) for name in results if name)
        shape = shapes[0] if count <= 1 and shapes else tuple_of(shapes)
        name = results[0].partition(":")[0] or f"{op.rpartition('.')[2]}.{line}"
        calls = []
        self._manual += op == "sdy.manual_computation"
        for number, span in enumerate(spans):
            part = ("condition", "body")[number] if op.endswith(".while") else str(number)
            inner = _Region(f"{region.name}/{name}/{part}", inner=True)
            if op.endswith(".while"):
                self._loop_arguments(inner, bare, shapes, line)
            elif op == "sdy.manual_computation":
                for text in _manual_arguments(bare):
                    self._argument(inner, text, line)
            self._fill(inner, start + span[0], span)
            calls.append(inner.name)
        self._manual -= op == "sdy.manual_computation"
        found = convert(name, op, shape, bare, operands, calls, line)
        region.add(found)
        if op == "sdy.manual_computation":
            self._produced(name, bare)
        for index, extra in enumerate(results[1:], 1):
            piece = {"index": str(index)}
            region.add(
                Instruction(extra, "get-tuple-element", shapes[index], (name,), piece, line=line)
            )

    def _produced(self, name: str, bare: str) -> None:
        """Keep the shardings of the results of a manual computation."""
        wanted = re.search(r"out_shardings=\[(.*?)\]\s+manual_axes", bare)
        parts = split(wanted[1], angles=True) if wanted else []
        for index, part in enumerate(parts):
            self._shardings[f"{name}#{index}"] = part.replace(" ", "")
        if len(parts) == 1:
            self._shardings[name] = parts[0].replace(" ", "")

    def _loop_arguments(self, inner: _Region, bare: str, shapes: list[Shape], line: int) -> None:
        inside = bare[bare.index("(") :]
        names = [
            pair.partition("=")[0].strip().lstrip("%")
            for pair in split(inside[1 : closing(inside, 0)])
        ]
        for number, (name, shape) in enumerate(zip(names, shapes, strict=True)):
            inner.add(Instruction(name, "parameter", shape, (), {}, (), str(number), line))


def _result_shardings(head: str) -> list[str]:
    """Return the sharding of each result of a function, from behind its arguments."""
    opened = head.find("(", head.find("->")) if "->" in head else -1
    if opened < 0:
        return []
    listed = split(head[opened + 1 : closing(head, opened)], angles=True)
    return [sharding_of(one).get("sdy", "") for one in listed]


def _manual_arguments(bare: str) -> list[str]:
    """Return the arguments of the region of a manual computation: ``%arg1: tensor<8x4xf32>``."""
    axes = re.search(r"manual_axes=\{[^}]*\}\s*\(", bare)
    if axes is None:
        raise ValueError("a manual computation without axes")
    opened = axes.end() - 1
    return split(bare[opened + 1 : closing(bare, opened)], angles=True)
