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

    Args:
        nodes: Nodes by name, in topological order.

    Returns:
        The number of every node. A node that is random, that writes or whose storage is written
        in place, or that the graph cannot show, has a number of its own.
    """
    planner = fx_planner()
    written = _written(nodes)
    numbers: dict[str, int] = {}
    known: dict[Any, int] = {}
    for name, node in nodes.items():
        base = planner.operations.base_name(node.target)
        first = next(node.inputs(), "")
        if base in _IDENTITIES and first in numbers and name not in written:
            numbers[name] = numbers[first]
            continue
        alone = (
            node.op != "call_function"
            or name in written
            or bool(planner.storage.mutated(node) and not planner.operations.is_wait(node))
            or _is_random(base, node)
        )
        parts = (node.args, tuple(node.kwargs.items()))
        key = name if alone else (node.target, _numbered(parts, numbers))
        numbers[name] = known.setdefault(key, len(known))
    return numbers


def _is_random(base: str, node: Any) -> bool:
    """Tell whether an operator may draw numbers; attention does where it drops out."""
    if "attention" in base:
        rate = node.kwargs.get("dropout_p", 0.0)
        return rate != 0.0 or any(isinstance(arg, float) and arg != 0.0 for arg in node.args)
    return _RANDOM.search(base) is not None


def _written(nodes: Mapping[str, Any]) -> frozenset[str]:
    """Return the nodes that share storage with something that is written in place."""
    planner = fx_planner()
    storage = planner.storage.Storage()
    targets: set[str] = set()
    for node in nodes.values():
        storage.bind(node)
        if not planner.operations.is_wait(node):
            targets.update(planner.storage.mutated(node))
    leaves = planner.storage.leaves
    roots = {leaf for name in targets for leaf in leaves(storage.root(name))}
    return frozenset(name for name in nodes if roots.intersection(leaves(storage.root(name))))


def _numbered(arg: Any, numbers: Mapping[str, int]) -> Any:
    planner = fx_planner()
    if isinstance(arg, planner.model.Ref):
        return ("value", numbers.get(arg.node, arg.node))
    if isinstance(arg, tuple):
        return tuple(_numbered(item, numbers) for item in arg)
    # 1, 1.0 and True are equal to Python and not to an operator; unhashable text stays text
    return (type(arg).__name__, arg if isinstance(arg, str | int | float | bool) else repr(arg))


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
