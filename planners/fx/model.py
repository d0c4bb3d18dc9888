"""The graphs of one job as plain data: nodes, group tables, one program per rank. No torch here.

Both ways in, live GraphModules and JSON dumps, end in these classes, so that everything behind them
sees one form and a dump can be read where torch is not installed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence


class Ref(Struct, frozen=True, gc=False):
    """An argument that is the value of another node."""

    node: str


class Sym(Struct, frozen=True, gc=False):
    """A symbolic integer. ``hint`` is the value seen while tracing, None when there is none."""

    expr: str
    hint: int | None = None


class Opaque(Struct, frozen=True, gc=False):
    """An argument of another kind, kept as text only."""

    text: str


Arg: TypeAlias = "Ref | Sym | Opaque | int | float | str | tuple[Arg, ...] | None"


class TensorMeta(Struct, frozen=True, gc=False):
    """Shape and torch dtype name (``float32``) of one tensor; dimensions may be symbolic."""

    shape: tuple[int | Sym, ...]
    dtype: str


Val: TypeAlias = "TensorMeta | Sym | int | tuple[Val, ...] | None"


class _Used:
    """``FxNode.used``: ``cached_property`` without its lock, which costs more than the search."""

    def __get__(self, node: Any, owner: type | None = None) -> Any:
        if node is None:
            return self
        found: list[str] = []
        _collect(node.args, found)
        if node.kwargs:
            _collect(node.kwargs.values(), found)
        made = node.__dict__["used"] = tuple(found)
        return made


class FxNode(Struct, frozen=True, dict=True):
    """One node of a graph; a record of msgspec, for a job has very many of them.

    Attributes:
        name: Unique in its graph.
        op: ``placeholder``, ``get_attr``, ``call_function``, ``call_method``, ``call_module`` or
            ``output``.
        target: Operator name such as ``_c10d_functional.all_reduce.default``.
        args: Positional arguments.
        kwargs: Keyword arguments.
        val: What the node returns: a tensor, a (symbolic) integer, or a tuple of such.
        source: ``(file, line, function)`` in the user's code.
        fqn: Parameter behind a placeholder or ``get_attr``.
        fqns: On the output node: the parameter whose gradient each output is, or None.
        view: Whether the result shares the storage of the first tensor argument.
        mutates: Names of the nodes whose storage the node writes.
    """

    name: str
    op: str
    target: str = ""
    args: tuple[Arg, ...] = ()
    kwargs: dict[str, Arg] = {}
    val: Val = None
    source: tuple[str, int | None, str | None] | None = None
    fqn: str | None = None
    fqns: tuple[str | None, ...] = ()
    view: bool = False
    mutates: tuple[str, ...] = ()

    def inputs(self) -> Iterator[str]:
        """Yield the names of the nodes among the arguments, in order, with repetitions."""
        return iter(self.used)

    used: ClassVar[Any] = _Used()
    """The names, looked for once: ranks share their nodes, and every step asks for them."""


@dataclass(frozen=True)
class FxGraph:
    """One graph in topological order, which is the order of issue."""

    nodes: tuple[FxNode, ...]
    phase: str = "forward"
    subgraphs: Mapping[str, FxGraph] = field(default_factory=dict)

    @cached_property
    def flat(self) -> dict[str, tuple[FxNode, ...]]:
        """What ``flatten`` made of this graph, by prefix: ranks share their graphs."""
        return {}

    @cached_property
    def texts(self) -> frozenset[str]:
        """Every text among the arguments of its nodes, and of those of its subgraphs.

        Whatever a node names a group by is one of them.
        """
        found: set[str] = set()
        for node in self.nodes:
            for arg in (*node.args, *node.kwargs.values()) if node.kwargs else node.args:
                if arg.__class__ is str or arg.__class__ is tuple:
                    found.update(texts(arg))
        return frozenset(found.union(*(graph.texts for graph in self.subgraphs.values())))


@dataclass(frozen=True)
class FxGroup:
    """One process group as one rank sees it.

    Attributes:
        ranks: Global ranks in group order.
        name: The name of the group in that process; members must agree on it.
        desc: What made it, for example ``mesh_tp``.
    """

    ranks: tuple[int, ...]
    name: str
    desc: str = ""


@dataclass(frozen=True)
class FxProgram:
    """What one rank runs: its forward graphs, then its backward graphs, and its process groups.

    Attributes:
        forward: A GraphModule, an ExportedProgram, an ``FxGraph``, or a sequence of them in order.
        backward: The same; None when there is no backward pass. Values are joined by name: a
            placeholder of a later graph is the output of an earlier one with that name.
        groups: Group table: name to global ranks in group order (``FxGroup`` also accepted).
        inputs: Names of the graph inputs by position (parameters by their qualified name), for
            graphs whose own metadata does not say.
    """

    forward: Any
    backward: Any = None
    groups: Mapping[str, Any] = field(default_factory=dict)
    inputs: Sequence[str | None] = ()


@dataclass(frozen=True)
class RankProgram:
    """A program as plain data: graphs in the order they run, groups by the name the graphs use."""

    graphs: tuple[FxGraph, ...]
    groups: Mapping[str, FxGroup]


@dataclass(frozen=True)
class FxBundle:
    """The graphs of a whole job.

    Attributes:
        world_size: Number of ranks.
        programs: Program of every rank that was captured.
        like: For a rank without a graph of its own: the rank whose program it runs (SPMD).
        mesh: Device mesh as ``(name, size)`` pairs, last dimension fastest.
        name: Name of the job.
        producer: Tool and version that captured it.
        notes: What the capture could not see, one sentence each as ``(kind, message, direction)``.
        file: Name of the dump it came from.
    """

    world_size: int
    programs: Mapping[int, RankProgram]
    like: Mapping[int, int] = field(default_factory=dict)
    mesh: tuple[tuple[str, int], ...] = ()
    name: str | None = None
    producer: tuple[str, str] | None = None
    notes: tuple[tuple[str, str, str], ...] = ()
    file: str | None = None


def refs(value: Arg) -> list[str]:
    """Return the node names inside an argument, in order."""
    found: list[str] = []
    _collect((value,), found)
    return found


def _collect(args: Iterable[Arg], found: list[str]) -> None:
    for arg in args:
        if arg.__class__ is Ref:
            found.append(arg.node)
        elif arg.__class__ is tuple:
            _collect(arg, found)


def texts(value: Arg) -> list[str]:
    """Return the texts inside an argument."""
    if isinstance(value, str):
        return [value]
    if not isinstance(value, tuple):
        return []
    return [text for item in value if item.__class__ is not Ref for text in texts(item)]
