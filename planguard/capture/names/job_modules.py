"""Which modules of the user's a step can get to, and what their statements are.

A process may have loaded hundreds of modules that the step has nothing to do with: those of a test
run, for instance. Those count that its functions, what these hold, and the classes of that come
from, and what those modules import, in turn. Where a module is named by a text that is computed, or
a step holds more objects than are looked at, that is said (``Reached.missed``).
"""

from __future__ import annotations

import ast
import builtins
import importlib.util
import linecache
import sys
import warnings
from collections import deque
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from types import FunctionType, MethodType, ModuleType
from typing import TYPE_CHECKING, Any

from planguard.sources import file_of, is_own, is_program

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_MOST_OBJECTS = 4096
"""Objects that are looked at, nearest first."""
_MOST_ELEMENTS = 64
_LEAVES = (str, bytes, int, float, complex, type(None))


@dataclass(frozen=True)
class Statements:
    """What of a module's source counts here.

    Attributes:
        lines: The lines that were read: a file that was written anew has others.
        imports: Names of modules that it may import, as they are stated: relative ones with dots.
        given: Statements that set names when the module is imported, with the class around them.
        asked: What the import evaluates or runs that may ask something: calls, loops, and the like.
        main: The same of what is run only where the module is the script.
        inside: The same of functions, by their first lines.
        computed: The lines that import a module whose name is computed.
    """

    lines: list[str]
    imports: tuple[str, ...]
    given: tuple[tuple[ast.stmt, str], ...]
    asked: tuple[ast.AST, ...] = ()
    main: tuple[ast.AST, ...] = ()
    inside: dict[int, tuple[ast.AST, ...]] = field(default_factory=dict)
    computed: tuple[int, ...] = ()


@dataclass(frozen=True)
class Reached:
    """The modules that a step gets to, and what of it was not looked at, in words."""

    modules: list[ModuleType]
    missed: list[str]


_READ: dict[str, Statements] = {}


def statements_of(module: ModuleType) -> Statements:
    """Return the statements of a module; its file is parsed once, and again where it changed."""
    file = file_of(module)
    linecache.checkcache(file)
    lines = linecache.getlines(file)
    known = _READ.get(file)
    if known is None or known.lines is not lines:
        known = _READ[file] = _read(lines)
    return known


def _read(lines: list[str]) -> Statements:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about escapes in the program's text
            root = ast.parse("".join(lines))
    except (SyntaxError, ValueError, RecursionError):
        return Statements(lines, (), ())
    given: list[tuple[ast.stmt, str]] = []
    kinds = (ast.Assign, ast.AnnAssign, ast.Try)
    for node in root.body:
        if isinstance(node, kinds):
            given.append((node, ""))
        elif isinstance(node, ast.ClassDef):
            given += ((inner, node.name) for inner in node.body if isinstance(inner, kinds))
    inside: dict[int, list[ast.AST]] = {}
    asked, main = list[ast.AST](), list[ast.AST]()
    for part in root.body:
        is_script = isinstance(part, ast.If) and "__name__" in ast.unparse(part.test)
        _sort(part, main if is_script else asked, inside, is_function=False)
    calls = [node for node in ast.walk(root) if isinstance(node, ast.Call) and _imports_by(node)]
    computed = tuple(node.lineno for node in calls if not _text_of(node))
    return Statements(
        lines,
        tuple(dict.fromkeys([*_imports(root), *filter(None, map(_text_of, calls))])),
        tuple(given),
        tuple(asked),
        tuple(main),
        {line: tuple(nodes) for line, nodes in inside.items()},
        computed,
    )


_ASKING = (
    ast.Call, ast.Subscript, ast.Compare, ast.Try, ast.For, ast.AsyncFor, ast.comprehension,
)  # fmt: skip


def _sort(
    node: ast.AST, into: list[ast.AST], inside: dict[int, list[ast.AST]], *, is_function: bool
) -> None:
    """Put what may ask something to the import, or to the function that it stands in."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not is_function:
        for one in node.decorator_list:
            called = ast.Call(one, [], [])
            into.append(ast.copy_location(called, one))
        for inner in (*node.decorator_list, node.args):
            _sort(inner, into, inside, is_function=False)
        first = min(one.lineno for one in (node, *node.decorator_list))
        own = inside.setdefault(first, [])
        for part in node.body:
            _sort(part, own, inside, is_function=True)
        return
    if isinstance(node, _ASKING):
        into.append(node)
    for child in ast.iter_child_nodes(node):
        _sort(child, into, inside, is_function=is_function)


def _imports_by(node: ast.Call) -> bool:
    """Tell whether a call imports a module that a text names."""
    name = getattr(node.func, "attr", getattr(node.func, "id", ""))
    return name in ("import_module", "__import__", "spec_from_file_location", "run_path")


def _text_of(node: ast.Call) -> str:
    value = node.args[0].value if node.args and isinstance(node.args[0], ast.Constant) else None
    is_plain = getattr(node.func, "attr", getattr(node.func, "id", "")) in (
        "import_module", "__import__",
    )  # fmt: skip
    return value if isinstance(value, str) and is_plain else ""


def _imports(root: ast.Module) -> Iterator[str]:
    for node in ast.walk(root):
        if isinstance(node, ast.Import):
            yield from (one.name for one in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = "." * node.level + (node.module or "")
            yield base
            joint = "" if base.endswith(".") else "."
            yield from (f"{base}{joint}{one.name}" for one in node.names)


def reached(roots: Iterable[Any]) -> Reached:
    """Return the loaded modules of the user's own that some objects can get to.

    Args:
        roots: Functions, and what they are called with; modules.
    """
    found: dict[str, ModuleType] = {}
    missed: list[str] = []
    waiting = deque(_modules(roots, missed))
    while waiting:
        module = waiting.popleft()
        if module.__name__ in found:
            continue
        found[module.__name__] = module
        package = getattr(module, "__package__", None) or ""
        read = statements_of(module)
        missed += (f"a module of a computed name ({file_of(module)}:{n})" for n in read.computed)
        for stated in read.imports:
            waiting.extend(_program(name) for name in _named(stated, package) if _program(name))
    return Reached(list(found.values()), missed)


def value_of_name(node: ast.expr, known: dict[str, Any]) -> Any:
    """Return what a name, or a name of a module or a class, is; None where that is computed."""
    if isinstance(node, ast.Name):
        return known.get(node.id, getattr(builtins, node.id, None))
    if isinstance(node, ast.Attribute):
        owner = value_of_name(node.value, known)
        return getattr(owner, node.attr, None) if isinstance(owner, ModuleType | type) else None
    return None


def _named(stated: str, package: str) -> list[str]:
    """Return the modules that an import names: each package on the way is imported, too."""
    try:
        name = importlib.util.resolve_name(stated, package or None)
    except ImportError:
        return []
    parts = name.split(".")
    return [".".join(parts[:end]) for end in range(1, len(parts) + 1)]


def _program(name: object) -> Any:
    """Return a loaded module, if it is the user's; else None."""
    module = sys.modules.get(name) if isinstance(name, str) else None
    is_one = isinstance(module, ModuleType) and is_program(file_of(module))
    return module if is_one else None


def _modules(roots: Iterable[Any], missed: list[str]) -> list[ModuleType]:
    """Return where the code of some objects, and of what they hold, was written."""
    found: dict[str, ModuleType] = {}
    seen: dict[int, Any] = {}
    waiting = deque(roots)
    while waiting and len(seen) < _MOST_OBJECTS:
        value = waiting.popleft()
        if isinstance(value, _LEAVES) or id(value) in seen:
            continue
        seen[id(value)] = value
        name: object = None
        if isinstance(value, FunctionType):
            name = value.__globals__.get("__name__")
        elif isinstance(value, type):
            name = value.__module__
        elif isinstance(value, ModuleType):
            name = value.__name__
        module = _program(name)
        if module is not None:
            found[module.__name__] = module
        waiting.extend(_inside(value))
    if any(not isinstance(one, _LEAVES) and id(one) not in seen for one in waiting):
        missed.append(f"objects of the step behind the first {_MOST_OBJECTS}")
    return list(found.values())


def _inside(value: Any) -> Iterator[Any]:
    """Return what an object holds that may run, or hold such."""
    if isinstance(value, FunctionType):
        for cell in value.__closure__ or ():
            try:
                yield cell.cell_contents
            except ValueError:  # not filled yet
                continue
        yield from value.__defaults__ or ()
        yield from (value.__kwdefaults__ or {}).values()
        yield vars(value).get("__wrapped__")
    elif isinstance(value, MethodType):
        yield from (value.__self__, value.__func__)
    elif isinstance(value, partial):
        yield from (value.func, value.args, value.keywords)
    elif isinstance(value, dict):
        yield from islice(list(value.values()), _MOST_ELEMENTS)
    elif isinstance(value, list | tuple | set | frozenset):
        yield from islice(value, _MOST_ELEMENTS)
    elif isinstance(value, type):
        yield from value.__bases__
    elif not isinstance(value, ModuleType):
        kind = type(value)
        yield kind
        held = getattr(value, "__dict__", None)
        file = file_of(sys.modules.get(kind.__module__))
        # ``_modules``: one of torch's, which holds those of the program.
        if isinstance(held, dict) and ("_modules" in held or is_program(file) or is_own(file)):
            yield from list(held.values())
