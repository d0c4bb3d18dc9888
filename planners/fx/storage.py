"""Which nodes share storage, and which collectives are still in flight on it.

``wait_tensor`` finds its collective through the storage of its argument, so a view, an element of a
list or an alias of the result waits for it just as well. torch keeps a list of pending works per
storage and empties it at the wait: waiting twice, or on a tensor nothing is pending on, is a no-op
(measured on gloo).
"""

from __future__ import annotations

from typing import TypeAlias

from .flatten import TUPLE
from .model import Arg, FxNode, Ref, refs
from .operations import is_wait, nature

Root: TypeAlias = "str | tuple[Root, ...]"

GETITEM = "_operator.getitem"
_GIVEN = frozenset({TUPLE, GETITEM})
"""Targets whose result is what they are given, or a part of it."""


def is_view(node: FxNode) -> bool:
    """Tell whether the result shares the storage of the first tensor argument."""
    return node.view or nature(node.op, node.target).views


def mutated(node: FxNode) -> tuple[str, ...]:
    """Return the nodes whose storage a node writes; by its name where no schema was recorded."""
    if node.mutates or not nature(node.op, node.target).in_place:
        return node.mutates
    return tuple(refs(node.args))[:1]


class Storage:
    """The storage root of every value, and the works pending on each root."""

    def __init__(self) -> None:
        self.roots: dict[str, Root] = {}
        self.pending: dict[str, list[str]] = {}
        self._waited: set[str] = set()
        self._readers: set[tuple[str, str]] = set()

    def root(self, name: str) -> Root:
        """Return the root of a node; a node that was never bound is its own."""
        return self.roots.get(name, name)

    def of(self, arg: Arg) -> Root:
        """Return the root of an argument (a tuple for lists), or an empty tuple for constants."""
        if isinstance(arg, Ref):
            return self.root(arg.node)
        return tuple(self.of(item) for item in arg) if isinstance(arg, tuple) else ()

    def bind(self, node: FxNode) -> None:
        """Give a node that does not communicate its root."""
        if node.name in self.roots:
            return
        kind = nature(node.op, node.target)
        own = node.target in _GIVEN or kind.in_place or kind.views
        if not own and not node.mutates and not node.view:  # most nodes
            self.roots[node.name] = node.name
            return
        written = mutated(node)
        if node.target == TUPLE:
            self.roots[node.name] = self.of(node.args[0]) if node.args else ()
        elif node.target == GETITEM and node.args:
            self.roots[node.name] = self._element(node)
        elif written and not is_wait(node):
            self.roots[node.name] = self.root(written[0])
        elif is_view(node):
            self.roots[node.name] = self.root(node.used[0]) if node.used else node.name
        else:
            self.roots[node.name] = node.name

    def _element(self, node: FxNode) -> Root:
        whole = self.of(node.args[0])
        index = node.args[1] if len(node.args) > 1 else None
        if isinstance(whole, tuple):
            if isinstance(index, int) and -len(whole) <= index < len(whole):
                return whole[index]
            return node.name
        return whole  # one part of a split; parts of an unknown list stay together

    def issue(self, work: str, roots: Root, *, reads_only: bool = False) -> None:
        """Record that a work is pending on every leaf of ``roots``; a send only reads its input."""
        for root in leaves(roots):
            self.pending.setdefault(root, []).append(work)
            if reads_only:
                self._readers.add((root, work))

    def writers(self, root: str) -> list[str]:
        """Return the works that have yet to write ``root``."""
        return [
            work
            for work in self.pending.get(root, ())
            if work not in self._waited and (root, work) not in self._readers
        ]

    def wait(self, roots: Root) -> list[str]:
        """Take the works pending on ``roots`` that nobody has waited for, in issue order."""
        found: list[str] = []
        for root in leaves(roots):
            for work in self.pending.pop(root, []):
                if work not in self._waited:
                    self._waited.add(work)
                    found.append(work)
        return found

    def unwaited(self) -> list[str]:
        """Return the works nobody has waited for."""
        works = {work for pending in self.pending.values() for work in pending}
        return sorted(works - self._waited)

    def in_flight(self, roots: Root) -> list[str]:
        """Return the roots among ``roots`` that a pending work still writes or reads."""
        return [
            root
            for root in leaves(roots)
            if any(work not in self._waited for work in self.pending.get(root, ()))
        ]


def leaves(root: Root) -> list[str]:
    """Return the storages inside a root."""
    return [root] if isinstance(root, str) else [leaf for item in root for leaf in leaves(item)]
