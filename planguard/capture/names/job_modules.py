"""Which modules of the user's a step can get to, and what their statements are.

A process may have loaded hundreds of modules that the step has nothing to do with: those of a test
run, for instance. Those count that its functions, what these hold, and the classes of that come
from, and what those modules import, in turn. What a module is asked for by a text (``importlib``)
is not among them.
"""

from __future__ import annotations

import ast
import importlib.util
import linecache
import sys
import warnings
from collections import deque
from dataclasses import dataclass
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
    """

    lines: list[str]
    imports: tuple[str, ...]
    given: tuple[tuple[ast.stmt, str], ...]


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
    return Statements(lines, tuple(dict.fromkeys(_imports(root))), tuple(given))


def _imports(root: ast.Module) -> Iterator[str]:
    for node in ast.walk(root):
        if isinstance(node, ast.Import):
            yield from (one.name for one in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = "." * node.level + (node.module or "")
            yield base
            joint = "" if base.endswith(".") else "."
            yield from (f"{base}{joint}{one.name}" for one in node.names)


def reached(roots: Iterable[Any]) -> list[ModuleType]:
    """Return the loaded modules of the user's own that some objects can get to.

    Args:
        roots: Functions, and what they are called with; modules.
    """
    found: dict[str, ModuleType] = {}
    waiting = deque(_modules(roots))
    while waiting:
        module = waiting.popleft()
        if module.__name__ in found:
            continue
        found[module.__name__] = module
        package = getattr(module, "__package__", None) or ""
        for stated in statements_of(module).imports:
            waiting.extend(_program(name) for name in _named(stated, package) if _program(name))
    return list(found.values())


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


def _modules(roots: Iterable[Any]) -> list[ModuleType]:
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
