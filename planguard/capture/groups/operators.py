"""The operator that a recorded call belongs to, and what the order of gradients may be.

An operator is a module of the model. In the forward pass its frames are on the call stack, so no
hook is put into the user's modules; in the backward pass autograd says which parameter's gradient
is ready. Calls that hooks on gradients issue come as autograd makes the gradients ready: program
order is no order there. What remains is the data flow: the gradients of one operator come after
those of the operators whose backward pass it needs (the algorithmic dependency of dl2).
"""

from __future__ import annotations

import gc
import json
import weakref
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

from planguard.sources import is_library

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import CodeType, FrameType

NODES = 500_000
"""Nodes of a backward graph that are walked; beyond, no dependency is taken as known."""


@dataclass
class Window:
    """One backward pass.

    Attributes:
        roots: Nodes that it starts from.
        feeds: Node of every parameter whose hook communicated, by operator.
        items: First and last hook call, 0 without one.
    """

    roots: list[Any]
    feeds: dict[str, list[Any]] = field(default_factory=dict)
    items: list[int] = field(default_factory=lambda: [0, 0])


class Operators:
    """Tells where calls stand; one per recorder.

    Attributes:
        windows: Backward passes that are under way, innermost last.
    """

    def __init__(self) -> None:
        from torch import nn

        self.windows: list[Window] = []
        self._forward = nn.Module._call_impl.__code__  # noqa: SLF001 - its frames hold the module
        self._names: dict[int, tuple[Any, str]] = {}
        self._owners: dict[int, tuple[Any, str, str]] = {}
        self._codes: dict[int, tuple[CodeType, bool]] = {}
        self._items = 0
        self._last: tuple[int, int] | None = None

    def place(self, frame: FrameType | None, count: int | None) -> str | None:
        """Return the operator of a call as JSON ``[operator, phase, label, item]``.

        Args:
            frame: The caller's frame.
            count: Elements of the call. A hook that sends more or less than its gradient fills a
                buffer, and has no label.
        """
        node = current_node() if self.windows else None
        if node is not None:
            return self._backward(node, frame, count)
        modules = self._modules(frame)
        if not modules:
            return None
        return _known(self._name(modules), "forward")

    def begin(self, tensors: Any) -> None:
        """Say that a backward pass begins."""
        given = [tensors] if hasattr(tensors, "grad_fn") else tensors
        roots = [tensor.grad_fn for tensor in given if getattr(tensor, "grad_fn", None) is not None]
        self.windows.append(Window(roots))
        self._last = None

    def arrived(self, parameter: Any) -> tuple[str, str]:
        """Take a parameter whose gradient is ready; return its name and that of its operator."""
        name, operator = self._owner(parameter)
        node = current_node()
        if self.windows and node is not None and getattr(node, "variable", None) is parameter:
            feeds = self.windows[-1].feeds.setdefault(operator, [])
            if not any(known is node for known in feeds):
                feeds.append(node)
        return name, operator

    def end(self) -> str | None:
        """End the innermost backward pass; return its hook calls and what orders them, as JSON."""
        window = self.windows.pop()
        self._last = None
        if not window.items[0] or (window.items[0] == window.items[1] and len(window.feeds) < 2):
            return None
        return json.dumps([*window.items, _dependencies(window)])

    def _backward(self, node: Any, frame: FrameType | None, count: int | None) -> str | None:
        parameter = getattr(node, "variable", None)
        if parameter is None:
            modules = self._modules(frame)
            return _known(self._name(modules), "backward") if modules else None
        name, operator = self._owner(parameter)
        outermost = self._callback(frame)
        if outermost is None:
            return _known(operator, "backward")
        window = self.windows[-1]
        key = (id(node), id(outermost.f_code))
        if key != self._last:
            self._last = key
            self._items += 1
            window.items = [window.items[0] or self._items, self._items]
        whole = count == parameter.numel() and bool(name)
        if whole:
            feeds = window.feeds.setdefault(operator, [])
            if not any(known is node for known in feeds):
                feeds.append(node)
        return json.dumps([operator, "backward", name if whole else None, self._items])

    def _modules(self, frame: FrameType | None) -> list[Any]:
        """Return the modules on the stack, outermost first."""
        forward = self._forward
        found: list[Any] = []
        while frame is not None:
            if frame.f_code is forward:
                found.append(frame.f_locals["self"])
            frame = frame.f_back
        return found[::-1]

    def _callback(self, frame: FrameType | None) -> FrameType | None:
        """Return the frame that autograd called, None when it is a library's own."""
        outermost, is_user = frame, False
        while frame is not None and frame.f_code.co_name != "_engine_run_backward":
            code = frame.f_code
            own = self._codes.get(id(code))
            if own is None:
                own = self._codes[id(code)] = code, not is_library(code.co_filename)
            is_user = is_user or own[1]
            outermost, frame = frame, frame.f_back
        return outermost if is_user else None

    def _name(self, modules: list[Any]) -> str:
        known = self._names.get(id(modules[-1]))
        if known is None or known[0]() is not modules[-1]:
            for name, module in modules[0].named_modules():
                self._names[id(module)] = weakref.ref(module), name or type(module).__name__
            inner = modules[-1]  # a module that its caller does not hold as a part
            self._names.setdefault(id(inner), (weakref.ref(inner), type(inner).__name__))
            known = self._names[id(inner)]
        return known[1]

    def _owner(self, parameter: Any) -> tuple[str, str]:
        """Return the names of a parameter and of its operator; empty when no module holds it."""
        known = self._owners.get(id(parameter))
        if known is None or known[0]() is not parameter:
            self._find_owners()
            known = self._owners.get(id(parameter))
            if known is None or known[0]() is not parameter:
                known = (weakref.ref(parameter), "", f"parameter {tuple(parameter.shape)}")
                self._owners[id(parameter)] = known
        return known[1], known[2]

    def _find_owners(self) -> None:
        """Name the parameters of all modules there are, by the outermost module that holds them."""
        from torch import nn

        alive = [one for one in gc.get_objects() if issubclass(type(one), nn.Module)]
        inner = {id(child) for module in alive for child in module.children()}
        for module in alive:
            if id(module) in inner:
                continue
            for name, parameter in module.named_parameters():
                operator = name.rpartition(".")[0] or type(module).__name__
                self._owners[id(parameter)] = weakref.ref(parameter), name, operator


@cache
def _known(operator: str, phase: str) -> str:
    return json.dumps([operator, phase])


def current_node() -> Any:
    """Return the node of the backward graph that this thread works on, or None."""
    return _asking()()


@cache
def _asking() -> Any:
    import torch

    return torch._C._current_autograd_node  # noqa: SLF001 - torch has no public way


def _dependencies(window: Window) -> list[tuple[str, str]]:
    """Return pairs of operators of which the first one's gradients come before the second's.

    An operator comes first when a node that computes one of its gradients lies before one that
    computes one of the other's, and never the other way round.
    """
    names = list(window.feeds)
    order = _topological(window.roots)
    if order is None:
        return []
    computing = _computing(order, window.feeds)
    before: dict[Any, int] = {}  # bits of the operators that have a node before this one
    needs = [0] * len(names)
    for node in order:
        mine, own = before.get(node, 0), computing.get(node, 0)
        for n in range(own.bit_length()):
            if own >> n & 1:
                needs[n] |= mine
        for following in _next(node):
            before[following] = before.get(following, 0) | mine | own
    closed = _closure(needs)
    return [
        (names[a], names[b])
        for b, mask in enumerate(closed)
        for a in range(len(names))
        if a != b and mask >> a & 1 and not closed[a] >> b & 1
    ]


def _computing(order: list[Any], feeds: dict[str, list[Any]]) -> dict[Any, int]:
    """Return, as bits by node, the operators whose gradients a node computes.

    Between a gradient and the node that computes it stand nodes of one input: transposes, views
    and conversions of the parameter.
    """
    parents: dict[Any, list[Any]] = {}
    for node in order:
        for following in _next(node):
            parents.setdefault(following, []).append(node)
    found: dict[Any, int] = {}
    for number, nodes in enumerate(feeds.values()):
        todo = [parent for node in nodes for parent in parents.get(node, ())]
        while todo:
            node = todo.pop()
            if found.get(node, 0) >> number & 1:
                continue
            if len(node.next_functions) > 1:
                found[node] = found.get(node, 0) | 1 << number
            else:
                todo += parents.get(node, ())
    return found


def _next(node: Any) -> Iterable[Any]:
    return (following for following, _ in node.next_functions if following is not None)


def _topological(roots: list[Any]) -> list[Any] | None:
    """Return the nodes of a backward graph, causes first; None when there are too many."""
    coming: dict[Any, int] = dict.fromkeys(roots, 0)
    todo = list(coming)
    while todo:
        for following in _next(todo.pop()):
            if following not in coming:
                coming[following] = 0
                todo.append(following)
            coming[following] += 1
        if len(coming) > NODES:
            return None
    ready = [node for node, count in coming.items() if not count]
    order = []
    while ready:
        node = ready.pop()
        order.append(node)
        for following in _next(node):
            coming[following] -= 1
            if not coming[following]:
                ready.append(following)
    return order


def _closure(needs: list[int]) -> list[int]:
    closed = list(needs)
    changed = True
    while changed:
        changed = False
        for n, mask in enumerate(closed):
            more = mask
            for m in range(len(closed)):
                if mask >> m & 1:
                    more |= closed[m]
            if more != mask:
                closed[n] = more
                changed = True
    return closed
