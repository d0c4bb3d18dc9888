"""Collectives that do again what another one does: recomputed ones, and copies that a pass removes.

Activation checkpointing gathers a second time what it did not keep, and cleaning up keeps one of
several equal gathers. Neither changes what the program computes, if it is the same value: the same
operations on the same inputs, of which nothing is random and nothing written in place.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from planguard.capture.planner import fx_planner

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_RANDOM = re.compile(
    r"rand|rng|dropout|bernoulli|normal|multinomial|uniform|exponential|philox|rrelu|poisson|cauchy"
    r"|geometric"
)
"""Operators whose results differ from call to call."""
_IDENTITIES = frozenset({"aten.alias", "aten.detach"})


def values_of(nodes: Mapping[str, Any]) -> dict[str, int]:
    """Number the values of a graph: nodes with one number compute the same.

    What is written in place changes what later nodes read: a node reads a value and what has been
    written into its storage so far. So temporaries that are computed in place twice are equal, and
    a parameter before and after it is written is not.

    Args:
        nodes: Nodes by name, in topological order.

    Returns:
        The number of every node. A node that is random, or that the graph cannot show, has a number
        of its own.
    """
    planner = fx_planner()
    seen = _Values(planner, planner.storage.Storage())
    for name, node in nodes.items():
        seen.step(name, node)
    return seen.numbers


class _Values:
    """The numbers of the nodes so far, and what has been written into each storage."""

    def __init__(self, planner: Any, storage: Any) -> None:
        self.planner = planner
        self.storage = storage
        self.numbers: dict[str, int] = {}
        self._known: dict[Any, int] = {}
        self._written: dict[str, int] = {}

    def step(self, name: str, node: Any) -> None:
        self.storage.bind(node)
        base = self.planner.operations.base_name(node.target)
        first = next(node.inputs(), "")
        if base in _IDENTITIES and first in self.numbers:
            self.numbers[name] = self.numbers[first]
            return
        alone = node.op != "call_function" or _is_random(base, node)
        parts = (node.args, tuple(node.kwargs.items()))
        key = name if alone else (node.target, self._read(parts))
        self.numbers[name] = self._known.setdefault(key, len(self._known))
        if not self.planner.operations.is_wait(node):
            for target in self.planner.storage.mutated(node):
                for leaf in self._leaves(target):
                    self._written[leaf] = self.numbers[name]

    def _leaves(self, name: str) -> list[str]:
        return list(self.planner.storage.leaves(self.storage.root(name)))

    def _read(self, arg: Any) -> Any:
        if isinstance(arg, self.planner.model.Ref):
            written = tuple(self._written.get(leaf) for leaf in self._leaves(arg.node))
            return ("value", self.numbers.get(arg.node, arg.node), written)
        if isinstance(arg, tuple):
            return tuple(self._read(item) for item in arg)
        # 1, 1.0 and True are equal to Python and not to an operator; unhashable text stays text
        return (type(arg).__name__, arg if isinstance(arg, str | int | float | bool) else repr(arg))


def _is_random(base: str, node: Any) -> bool:
    """Tell whether an operator may draw numbers; attention does where it drops out."""
    if "attention" in base:
        rate = node.kwargs.get("dropout_p", 0.0)
        return rate != 0.0 or any(isinstance(arg, float) and arg != 0.0 for arg in node.args)
    return _RANDOM.search(base) is not None


def repeats(talks: Mapping[str, Any], values: Mapping[str, int]) -> Iterator[tuple[str, str]]:
    """Find communications that do what an earlier one of the same graph does.

    Args:
        talks: Communications by node, in order.
        values: Their values, as ``values_of`` numbers them.

    Yields:
        The later and the first of them.
    """
    first: dict[int, str] = {}
    for name, talk in talks.items():
        if not talk.is_collective or talk.ordered or name not in values:
            continue
        other = first.setdefault(values[name], name)
        if other != name:
            yield name, other
