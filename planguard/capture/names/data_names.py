"""What a call moves, in the words of the program: ``grads['user']``, a parameter's name.

Two calls of one operation and one size that change places on one rank are the same communication to
whoever looks at sizes only; on gloo and NCCL they mix two tensors in silence (SEMANTICS, R6). The
program tells them apart: by the key of a container, by the name that stands beside the tensor in a
loop, by the name of a parameter or a bucket, else by the words of the argument itself. That is the
identity here. It is taken for a label only where all members of a group name the same data equally
often (``agreed``): a rank that sends a stand-in instead, as right programs do, has another name for
it, and position decides there as before.
"""

from __future__ import annotations

import ast
import gc
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from planguard.capture.names.source import call_of, tree_of, value_of
from planguard.plan.vocabulary import OPERATIONS
from planguard.sources import is_library

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from types import FrameType

DATA = "x-data"
"""Of a recorded action: the name of what it moves."""

_PLAIN = (str, int, bytes)
_MOST = 80  # characters of a name
_WRAPPERS = 4  # functions of the program around a call of torch that are looked through
_OF_TENSORS = ("grad", "data")


def data_name(frame: FrameType | None) -> str | None:
    """Name the data of the communication whose call a frame is in, None where nothing tells.

    Args:
        frame: The innermost frame of the program itself, in a call of torch or of a wrapper of it.
    """
    call = None if frame is None else call_of(frame)
    if frame is None or call is None:
        return None
    name = getattr(call.func, "attr", getattr(call.func, "id", ""))
    known = OPERATIONS.get(name)
    if known is None or known.given is None:
        # Something of a library that communicates: named by the whole call.
        return ast.unparse(_Keys(frame).visit(_copy(call)))[:_MOST]
    place, keyword = known.given
    given = next((one.value for one in call.keywords if one.arg == keyword), None)
    if given is None and place < len(call.args):
        given = call.args[place]
    if given is None or isinstance(given, ast.Starred):
        return None
    return _name(given, frame, _WRAPPERS)


def _name(given: ast.expr, frame: FrameType, wrappers: int) -> str:
    """Name an expression of a frame, from what tells most to what tells least."""
    keys = _Keys(frame)
    text = ast.unparse(keys.visit(_copy(given)))
    if keys.found:
        return text[:_MOST]
    found = _parameter(given, frame) or _beside(given, frame)
    if found is None and wrappers:
        found = _from_caller(given, frame, wrappers - 1)
    return found or text[:_MOST]


def _from_caller(given: ast.expr, frame: FrameType, wrappers: int) -> str | None:
    """Name an argument of a wrapper by what its caller gave for it."""
    code, caller = frame.f_code, frame.f_back
    arguments = code.co_varnames[: code.co_argcount]
    if not isinstance(given, ast.Name) or given.id not in arguments or caller is None:
        return None
    call = call_of(caller)
    if call is None or is_library(caller.f_code.co_filename):
        return None
    keyword = next((one.value for one in call.keywords if one.arg == given.id), None)
    if keyword is not None:
        return _name(keyword, caller, wrappers)
    bound = isinstance(call.func, ast.Attribute) and arguments[0] in ("self", "cls")
    place = arguments.index(given.id) - bound
    if not 0 <= place < len(call.args) or any(isinstance(a, ast.Starred) for a in call.args):
        return None
    return _name(call.args[place], caller, wrappers)


def _copy(node: ast.expr) -> ast.expr:
    return ast.parse(ast.unparse(node), mode="eval").body


class _Keys(ast.NodeTransformer):
    """Puts the values of names and attributes into the keys of an expression."""

    def __init__(self, frame: FrameType) -> None:
        self.frame = frame
        self.found = 0

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        """Take what stands in brackets; slices of one tensor are keys as well."""
        node.value = self.visit(node.value)
        inner = _Values(self.frame)
        node.slice = inner.visit(node.slice)
        self.found += inner.known and not inner.unknown
        return node


class _Values(ast.NodeTransformer):
    """Puts plain values in the place of names."""

    def __init__(self, frame: FrameType) -> None:
        self.frame = frame
        self.known = 0
        self.unknown = 0

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        """Count a key that stands there as it is."""
        self.known += 1
        return node

    def visit_Name(self, node: ast.Name) -> ast.AST:
        """Replace a name by its value."""
        return self._put(node)

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        """Replace a plain attribute by its value."""
        return self._put(node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """Leave a call: its value would have to be computed."""
        self.unknown += 1
        return node

    def _put(self, node: ast.expr) -> ast.AST:
        value = value_of(node, self.frame)
        if type(value) in _PLAIN or type(value) is tuple:
            self.known += 1
            return ast.Constant(value)
        self.unknown += 1
        return node


def _beside(given: ast.expr, frame: FrameType) -> str | None:
    """Name a variable of a loop by a plain one beside it: ``for name, grad in grads.items()``."""
    tree = tree_of(frame.f_code.co_filename)
    call = call_of(frame)
    base = _base(given)
    if tree is None or call is None or base is None:
        return None
    for loop in tree.loops(call):
        names = [node.id for node in ast.walk(loop.target) if isinstance(node, ast.Name)]
        if base not in names:
            continue
        for other in names:
            value = frame.f_locals.get(other)
            # A number beside it is mostly a position, which every order has alike.
            if other != base and type(value) is str:
                return f"{ast.unparse(given)} of {value!r}"[:_MOST]
    return None


def _base(node: ast.expr) -> str | None:
    """Return the name that an expression begins with."""
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Call):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else None


def _parameter(given: ast.expr, frame: FrameType) -> str | None:
    """Name a parameter of a module, or its gradient."""
    suffix = ""
    while isinstance(given, ast.Attribute) and given.attr in _OF_TENSORS:
        suffix, given = f".{given.attr}{suffix}", given.value
    value = value_of(given, frame)
    if type(value).__name__ != "Parameter":
        return None
    name = _parameter_names(value)
    return None if name is None else f"{name}{suffix}"[:_MOST]


_names: dict[int, tuple[Any, str]] = {}


def _parameter_names(parameter: Any) -> str | None:
    """Return the name of a parameter in the outermost module that has it."""
    known = _names.get(id(parameter))
    if known is None or known[0] is not parameter:
        _learn_names()
        known = _names.get(id(parameter))
    return known[1] if known is not None and known[0] is parameter else None


def _learn_names() -> None:
    """Find the modules of this process; one that is part of another has no name of its own."""
    import torch

    # The type is asked, not the object: that of a proxy may answer with code of its own.
    modules = [one for one in gc.get_objects() if issubclass(type(one), torch.nn.Module)]
    parts = {id(child) for one in modules for child in one.children()}
    roots = [one for one in modules if id(one) not in parts]
    _names.clear()
    for root in roots:
        for name, parameter in root.named_parameters():
            _names.setdefault(id(parameter), (parameter, name))


class Buckets:
    """Buckets of DDP, as communication hooks get them: known by number, not by who holds them.

    A hook may keep a bucket and send it later, under any name. Its storage says which one it is.
    """

    def __init__(self) -> None:
        self._numbers: dict[int, int] = {}

    def name(self, tensors: Sequence[Any]) -> str | None:
        """Name what is sent, if it lies in the storage of a bucket."""
        if not self._numbers or len(tensors) != 1:
            return None
        number = self._numbers.get(tensors[0].untyped_storage().data_ptr())
        return None if number is None else f"bucket {number}"

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Note every bucket that a hook looks into."""
        import torch.distributed as dist

        kind: Any = getattr(dist, "GradBucket", None)
        if kind is None:  # torch was built without DDP
            yield
            return
        original = kind.buffer

        def buffer(bucket: Any) -> Any:
            tensor = original(bucket)
            self._numbers[tensor.untyped_storage().data_ptr()] = bucket.index()
            return tensor

        kind.buffer = buffer
        try:
            yield
        finally:
            kind.buffer = original


def agreed(named: Mapping[int, Sequence[str | None]], members: Iterable[int]) -> frozenset[str]:
    """Return the names by which the calls of a group can be compared.

    Args:
        named: For every rank the names of its calls on the group, None where a call has none.
        members: Ranks of the group.

    Returns:
        Every name, if each member has the same ones equally often and a name for every call; else
        none: a call without a name, or a stand-in, may be the partner of any.
    """
    counts = [Counter(named.get(rank, ())) for rank in members]
    if not counts or any(one != counts[0] or None in one for one in counts):
        return frozenset()
    return frozenset(name for name in counts[0] if name is not None)
