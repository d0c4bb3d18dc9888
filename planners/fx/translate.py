"""One rank's graphs to the actions of its program, in topological order, which is issue order.

A collective is issued by its node and waited for by ``wait_tensor``; what lies between is compute.
Values cross from one graph to the next by name: AOTAutograd names a placeholder of the backward
graph after the forward node it saves, which may be a collective still in flight.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from .communication import Communication, Note, build
from .flatten import CHOICE, LOOP, TUPLE, RegionNode, flatten, graph_prefix
from .model import Sym
from .operations import is_unknown_communication, nature
from .storage import GETITEM, Root, Storage, is_view, leaves, mutated

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from .model import FxGraph, FxGroup, FxNode, RankProgram

_FREE = frozenset({TUPLE, GETITEM, "aten.sym_size.int", "aten.sym_numel.default", "_operator.mul"})


@dataclass
class Draft:
    """One action before its group and label are settled.

    Attributes:
        fields: Fields of the action, ``op`` included, ``group`` as the graph spells it.
        node: Name of the node it comes from.
        communication: What it communicates, None for compute and waits.
        branches: Drafts of every branch of a choice.
    """

    fields: dict[str, Any]
    node: str
    communication: Communication | None = None
    branches: tuple[list[Draft], ...] = ()

    @property
    def has_label(self) -> bool:
        """Whether it gets a label, which is of one rank, or something in it does."""
        return self.communication is not None or bool(self.branches)

    def copy(self) -> Draft:
        """Return a draft that may get another label."""
        branches = tuple([one.copy() for one in branch] for branch in self.branches)
        return Draft(dict(self.fields), self.node, self.communication, branches)


@dataclass
class RankDraft:
    """The program of one rank.

    Attributes:
        drafts: Actions in order.
        notes: For the ledger.
        nodes: Nodes by unique name, in order.
        origins: For an input of a later graph: the node of an earlier one that it is.
        roots: Storage of every node.
        symbols: The first node of each value that only the run knows, by the part of its name that
            says which graph it is in, and by expression.
    """

    drafts: list[Draft] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    nodes: dict[str, FxNode] = field(default_factory=dict)
    origins: dict[str, str] = field(default_factory=dict)
    roots: dict[str, Root] = field(default_factory=dict)
    symbols: dict[tuple[str, str], str] = field(default_factory=dict)

    def copy(self) -> RankDraft:
        """Return the program of another rank: its labels and notes are its own, the rest is not."""
        drafts = [draft.copy() if draft.has_label else draft for draft in self.drafts]
        return replace(self, drafts=drafts, notes=[*self.notes])


def translate_all(
    programs: Mapping[int, RankProgram], *, compute: str = "fold"
) -> dict[int, RankDraft]:
    """Translate the graphs of every rank; ranks that run the same ones share the work.

    Ranks whose groups are the same share their drafts, too: whatever is settled of them later is.
    What is made of a graph depends on the groups that it may name, by their names and sizes only,
    but for the peers of messages, which are ranks.

    Raises:
        PlanError: If a communication node is malformed; the message names it.
    """
    found: dict[int, RankDraft] = {}
    shared: dict[tuple[object, ...], RankDraft] = {}
    same: dict[tuple[object, ...], RankDraft] = {}
    for rank, program in programs.items():
        named: frozenset[str] = frozenset().union(*(graph.texts for graph in program.graphs))
        groups = sorted((name, one) for name, one in program.groups.items() if name in named)
        graphs = tuple(map(id, program.graphs))
        sizes = graphs, tuple((name, len(group.ranks)) for name, group in groups)
        spelled = graphs, tuple((name, group.ranks, group.name) for name, group in groups)
        if spelled in same:
            found[rank] = replace(same[spelled], notes=[*same[spelled].notes])
        elif sizes in shared:
            found[rank] = same[spelled] = shared[sizes].copy()
        else:
            found[rank] = same[spelled] = translate(program, compute=compute)
            if not _names_peers(found[rank].drafts):
                shared[sizes] = found[rank]
    return found


def _names_peers(drafts: list[Draft]) -> bool:
    return any(
        (draft.communication is not None and bool(draft.communication.rank_dependent))
        or any(map(_names_peers, draft.branches))
        for draft in drafts
    )


def translate(program: RankProgram, *, compute: str = "fold") -> RankDraft:
    """Translate the graphs of one rank.

    Args:
        program: Graphs and group table.
        compute: ``fold`` merges the nodes between two communications into one compute action,
            ``all`` keeps every node, ``none`` leaves computation out.

    Raises:
        PlanError: If a communication node is malformed; the message names it.
    """
    return _Translator(program.groups, compute).run(program.graphs)


class _Translator:
    """State of one pass over the graphs of a rank: storage, works in flight, the compute run."""

    def __init__(self, groups: Mapping[str, FxGroup], compute: str) -> None:
        self.groups = groups
        self.group_names = frozenset(groups)
        self.compute = compute
        self.storage = Storage()
        self.out = RankDraft()
        self.owners: dict[str, frozenset[str]] = {}
        self.unsettled: list[str] = []  # nodes whose owner is the run of compute that is open
        self.places: dict[str, int] = {}
        self.run_of_compute: list[FxNode] = []
        self.ids: set[str] = set()
        self.kept: dict[str, str] = {}  # what earlier graphs return: name as written -> unique name

    def run(self, graphs: tuple[FxGraph, ...]) -> RankDraft:
        for place, graph in enumerate(graphs):
            self._graph(graph, graph_prefix(graphs, place))
        self._flush()
        self._wait_for_outputs()
        self.out.roots = self.storage.roots
        return self.out

    def _graph(self, graph: FxGraph, prefix: str) -> None:
        outputs: list[str] = []
        for node in flatten(graph, prefix):
            self.out.nodes[node.name] = node
            if isinstance(node.val, Sym):
                place = node.name.rpartition(".")[0], node.val.expr
                self.out.symbols.setdefault(place, node.name)
            if node.op == "placeholder":
                self._placeholder(node, prefix)
            elif node.op == "output":
                outputs += node.used
            else:
                self._step(node)
        self.kept.update({name.removeprefix(prefix): name for name in outputs})

    def _placeholder(self, node: FxNode, prefix: str) -> None:
        origin = self.kept.get(node.name.removeprefix(prefix))
        if origin is None:
            self.storage.bind(node)
            return
        self.out.origins[node.name] = origin
        self.storage.roots[node.name] = self.storage.root(origin)
        self._own(node.name, self.owners.get(origin, frozenset()))

    def _step(self, node: FxNode) -> None:
        kind = nature(node.op, node.target)
        if kind.operation is not None:
            self._communicate(node)
        elif kind.waits:
            self._wait(node)
        elif node.target in (CHOICE, LOOP):
            self._region(node)
        elif is_unknown_communication(node, self.group_names):
            self._unknown(
                node, f"{node.target} is a communication operator PlanGuard does not know"
            )
        else:
            self._compute(node)

    def _communicate(self, node: FxNode) -> None:
        self._flush()
        built = build(node, self.out.nodes, self.groups, self.storage)
        action_id = self._unique(node.name)
        fields = {**built.fields, "id": action_id}
        work = not built.blocking
        if work:
            fields["work"] = action_id
            if built.fields["op"] not in ("isend", "irecv", "batch"):
                fields["async_"] = True
        self.storage.roots[node.name] = built.result
        if work:
            self.storage.issue(action_id, built.result)
            if built.wait_on_input:
                self.storage.issue(action_id, built.input_roots, reads_only=True)
        self._emit(fields, node, built)
        for note in built.notes:
            self._note(note.kind, note.message, note.direction, note.node)

    def _wait(self, node: FxNode) -> None:
        roots = self.storage.of(node.args[0]) if node.args else ()
        if self.storage.in_flight(roots):
            self._flush()  # what was computed so far ran in front of this wait
        works = self.storage.wait(roots)
        self.storage.bind(node)
        if works:
            fields = {"op": "wait", "work": works[0] if len(works) == 1 else works}
            self._emit({**fields, "id": self._unique(node.name)}, node, None)
            return
        self._own(node.name, self._owners(node))
        origin = next(iter(leaves(roots)), "")
        if self.out.nodes.get(origin, node).op == "placeholder":
            self._note(
                "wait-on-input",
                f"{node.name} waits for {origin}, an input: a collective issued before these "
                "graphs is not in the plan",
                "under",
            )

    def _region(self, node: FxNode) -> None:
        """A conditional becomes a choice; a loop with communication inside is not read."""
        regions = node.regions if isinstance(node, RegionNode) else ()
        branches = tuple(self._branch(node, region) for region in regions)
        drafts = [draft for branch in branches for draft in branch]
        if all(draft.communication is None for draft in drafts):
            self._compute(node)
        elif node.target == LOOP:
            self._unknown(
                node, "communication is repeated a number of times the graph does not say"
            )
        elif any(draft.branches for draft in drafts):
            self._unknown(node, "a choice inside a choice is not read")
        else:
            self._flush()
            self.storage.bind(node)
            fields = {"op": "choice", "name": node.name, "uniform": False}
            self._emit({**fields, "id": self._unique(node.name)}, node, None, branches)

    def _branch(self, node: FxNode, region: FxGraph) -> list[Draft]:
        inner = _Translator(self.groups, self.compute)
        inner.ids = self.ids
        out = inner.run((region,))
        if inner.storage.unwaited():
            self._note(
                "wait-across-branch",
                f"a collective issued in a branch of {node.name} is not waited for in it",
                "under",
            )
        for note in out.notes:
            self._note(note.kind, note.message, note.direction)
        return out.drafts

    def _unknown(self, node: FxNode, why: str) -> None:
        self._flush()
        self.storage.bind(node)
        fields = {"op": "compute", "op_name": node.target, "id": self._unique(node.name)}
        self._emit(fields, node, None)
        self._note("unsupported-op", f"node {node.name}: {why}", "under")

    def _compute(self, node: FxNode) -> None:
        self.storage.bind(node)
        if node.op == "get_attr" or is_view(node) or node.target in _FREE:
            self._own(node.name, self._owners(node))
            return
        self.run_of_compute.append(node)
        self._own(node.name, _SOMEBODY)
        if self.compute == "all":
            self._flush()

    def _flush(self) -> None:
        """Turn the run of compute nodes since the last communication into one action."""
        run, self.run_of_compute = self.run_of_compute, []
        if not run:
            return
        names = {name for node in run for name in node.used}
        owners = [self.owners[name] for name in names if name in self.owners]
        deps = _NOBODY.union(*owners) - {_PENDING}
        if self.compute == "none" and not self._touches(run):
            self._settle(run, deps)
            return
        fields: dict[str, Any] = {"op": "compute", "op_name": _summary(run)}
        fields["id"] = self._unique(run[0].name)
        if deps:
            fields["deps"] = sorted(deps, key=self._order)
        reads = self._roots_in_flight(name for node in run for name in node.used)
        writes = self._roots_in_flight(name for node in run for name in mutated(node))
        fields.update(
            {key: names for key, names in (("reads", reads), ("writes", writes)) if names}
        )
        self._settle(run, frozenset({fields["id"]}))
        self._append(Draft(_with_source(fields, run[0]), run[0].name))

    def _settle(self, run: list[FxNode], owner: frozenset[str]) -> None:
        for name in self.unsettled:
            if _PENDING in self.owners[name]:
                self.owners[name] = (self.owners[name] - {_PENDING}) | owner
        self.unsettled.clear()

    def _own(self, name: str, owners: frozenset[str]) -> None:
        self.owners[name] = owners
        if _PENDING in owners:
            self.unsettled.append(name)

    def _touches(self, run: list[FxNode]) -> bool:
        return bool(self._roots_in_flight(name for node in run for name in node.used))

    def _roots_in_flight(self, names: Iterator[str]) -> list[str]:
        if not self.storage.pending:
            return []
        found = (root for name in names for root in self.storage.in_flight(self.storage.root(name)))
        return sorted(set(found))

    def _owners(self, node: FxNode) -> frozenset[str]:
        owners, used = self.owners, node.used
        if len(used) == 1:
            return owners.get(used[0], _NOBODY)
        return _NOBODY.union(*[owners[name] for name in used if name in owners])

    def _order(self, action_id: str) -> int:
        return self.places[action_id]

    def _wait_for_outputs(self) -> None:
        """The caller holds what the last graph returns: its pending works end with the program."""
        for name in self.kept.values():
            works = self.storage.wait(self.storage.root(name))
            if not works:
                continue
            fields = {"op": "wait", "work": works[0] if len(works) == 1 else works}
            self._emit({**fields, "id": self._unique(f"{name}.caller")}, self.out.nodes[name], None)
            self._note(
                "wait-by-caller",
                f"{name} is returned while in flight; the caller is taken to wait at the end",
                "exact",
            )

    def _emit(
        self,
        fields: dict[str, Any],
        node: FxNode,
        communication: Communication | None,
        branches: tuple[list[Draft], ...] = (),
    ) -> None:
        # A collective in flight is no dependency: only its wait makes anybody wait.
        flying = communication is not None and not communication.blocking
        self.owners[node.name] = frozenset() if flying else frozenset({fields["id"]})
        self._append(Draft(_with_source(fields, node), node.name, communication, branches))

    def _append(self, draft: Draft) -> None:
        self.places[draft.fields["id"]] = len(self.out.drafts)
        self.out.drafts.append(draft)

    def _unique(self, name: str) -> str:
        while name in self.ids:
            name += "'"
        self.ids.add(name)
        return name

    def _note(self, kind: str, message: str, direction: str, node: str = "") -> None:
        place = max(len(self.out.drafts) - 1, 0)
        self.out.notes.append(Note(kind, message, direction, place, node))


_PENDING = "\0pending"
_NOBODY: frozenset[str] = frozenset()
_SOMEBODY = frozenset({_PENDING})


def _summary(run: list[FxNode]) -> str:
    names = [node.target.split(".")[1] if "." in node.target else node.target for node in run]
    return names[0] if len(names) == 1 else f"{names[0]} .. {names[-1]} ({len(names)} nodes)"


def _with_source(fields: dict[str, Any], node: FxNode) -> dict[str, Any]:
    if node.source is not None and node.source[1] is not None:
        file, line, function = node.source
        fields["src"] = [file, line, function or ""]
    return fields
