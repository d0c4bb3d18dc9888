"""The logical identity of the data of a collective: a parameter, its gradient, or the producer.

A label lets the checker see that two collectives of one shape changed places. It must never
make two that belong together look different, so a label is used only where every member of
the group uses it equally often.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from typing import TYPE_CHECKING

from .model import FxNode, Ref, refs
from .operations import base_name, find_operation, is_wait
from .storage import GETITEM, is_view, mutated

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from .translate import Draft, RankDraft

_MOVES = frozenset(
    {
        GETITEM,
        "planguard.tuple",
        "aten._to_copy",
        "aten.cat",
        "aten.clone",
        "aten.constant_pad_nd",
        "aten.contiguous",
        "aten.stack",
        "prims.convert_element_type",
    }
)
_SCALES = frozenset({"aten.div", "aten.mul"})
_BUFFERS = frozenset({"aten.empty", "aten.new_empty", "aten.zeros", "aten.new_zeros"})
_LIMIT = 160


class Provenance:
    """Follows data through views, casts, copies and concatenations of one rank's graphs."""

    def __init__(self, nodes: Mapping[str, FxNode]) -> None:
        self.nodes = nodes
        self.writers: dict[str, list[FxNode]] = {}
        for node in nodes.values():
            for name in mutated(node):
                self.writers.setdefault(self.buffer(name), []).append(node)
        self.gradients = self._gradients()

    def buffer(self, name: str) -> str:
        """Return the node that owns the storage of ``name``, as far as views tell."""
        node = self.nodes.get(name)
        while node is not None and (is_view(node) or mutated(node)):
            first = next(node.inputs(), None)
            if first is None or first not in self.nodes:
                break
            node = self.nodes[first]
        return node.name if node is not None else name

    def sources(self, name: str, seen: frozenset[str] = frozenset()) -> frozenset[str]:
        """Return the nodes whose values reach ``name`` by data movement alone."""
        node = self.nodes.get(name)
        if node is None or name in seen:
            return frozenset()
        seen |= {name}
        base = base_name(node.target)
        if base == "aten.copy_" and len(node.args) > 1 and isinstance(node.args[1], Ref):
            return self.sources(node.args[1].node, seen)
        if base in _BUFFERS:
            written = [self._written(writer, seen) for writer in self.writers.get(name, [])]
            return frozenset().union(*written) or frozenset({name})
        if not (base in _MOVES or is_view(node)):
            return frozenset({name})
        found = [self.sources(used, seen) for used in node.inputs()]
        return frozenset().union(*found) or frozenset({name})

    def _written(self, writer: FxNode, seen: frozenset[str]) -> frozenset[str]:
        """Return what a write into a buffer put there; a collective's result is its own source."""
        if find_operation(writer) is not None:
            return frozenset()
        targets = set(mutated(writer))
        values = [name for name in writer.inputs() if name not in targets]
        return frozenset().union(*(self.sources(name, seen) for name in values))

    def parameters(self, names: Iterable[str]) -> list[str]:
        """Return the parameters that make up ``names``, sorted; empty when anything else does."""
        found: set[str] = set()
        for source in sorted({s for name in names for s in self.sources(name)}):
            fqn = self.nodes[source].fqn if source in self.nodes else None
            if fqn is None:
                return []
            found.add(fqn)
        return sorted(found)

    def _gradients(self) -> dict[str, list[str]]:
        """Map collectives to the parameters whose gradients they carry to the outputs."""
        found: dict[str, set[str]] = {}
        for node in self.nodes.values():
            if node.op != "output" or not any(node.fqns):
                continue
            values = node.args[0] if node.args and isinstance(node.args[0], tuple) else node.args
            for value, fqn in zip(values, node.fqns, strict=False):
                if fqn is not None and isinstance(value, Ref):
                    for name in self._carriers(value.node):
                        found.setdefault(name, set()).add(fqn)
        return {name: sorted(fqns) for name, fqns in found.items()}

    def _carriers(self, name: str) -> set[str]:
        todo, done, found = [name], set(), set()
        while todo:
            node = self.nodes.get(todo.pop())
            if node is None or node.name in done:
                continue
            done.add(node.name)
            base = base_name(node.target)
            if find_operation(node) is not None:
                found.add(node.name)
            elif base in _MOVES or base in _SCALES or is_view(node) or is_wait(node):
                todo += list(node.inputs())
        return found


def label_of(draft: Draft, provenance: Provenance) -> str | None:
    """Return the label of a collective, None for point-to-point and for barriers.

    In order of preference: the gradient it carries, the parameter it moves, the nodes that produced
    its input.
    """
    talk = draft.communication
    if talk is None or not talk.inputs or talk.fields["op"] in ("isend", "irecv", "batch"):
        return None
    if talk.fields["op"] in ("send", "recv", "barrier"):
        return None
    gradients = provenance.gradients.get(talk.node)
    if gradients:
        return _joined([f"{fqn}.grad" for fqn in gradients])
    parameters = provenance.parameters(talk.inputs)
    return _joined(parameters or sorted({s for n in talk.inputs for s in provenance.sources(n)}))


def assign_labels(ranks: Mapping[int, RankDraft], keys: Mapping[int, Mapping[str, object]]) -> int:
    """Write labels into the drafts of all ranks; return how many collectives stay without one.

    Args:
        ranks: Drafts by rank.
        keys: For every rank, the identity of each group name of its graphs.
    """
    proposed: dict[object, dict[int, list[tuple[Draft, str | None]]]] = {}
    for rank, program in ranks.items():
        provenance = Provenance(program.nodes)
        for draft in program.drafts:
            if draft.communication is None or draft.communication.fields["op"] in _PAIRWISE:
                continue
            group = keys[rank][draft.communication.group]
            rows = proposed.setdefault(group, {}).setdefault(rank, [])
            rows.append((draft, label_of(draft, provenance)))
    return sum(_settle(rows) for rows in proposed.values())


_PAIRWISE = frozenset({"isend", "irecv", "send", "recv", "batch", "barrier"})


def _settle(members: Mapping[int, list[tuple[Draft, str | None]]]) -> int:
    """Keep the labels that every member of a group uses equally often; number repetitions."""
    counts = [Counter(label for _, label in rows) for rows in members.values()]
    shared = {
        label
        for label in counts[0]
        if label is not None and all(count[label] == counts[0][label] for count in counts)
    }
    left = 0
    for rows in members.values():
        seen: Counter[str] = Counter()
        for draft, label in rows:
            if label is None or label not in shared:
                left += 1
                continue
            seen[label] += 1
            draft.fields["label"] = label if seen[label] == 1 else f"{label}#{seen[label]}"
    return left


def _joined(names: list[str]) -> str | None:
    text = "+".join(names)
    if len(text) > _LIMIT:
        digest = hashlib.sha256(text.encode()).hexdigest()[:12]
        text = f"{names[0]}+{len(names) - 1} more ({digest})"
    return text or None


def producer_names(draft: Draft) -> tuple[str, ...]:
    """Return the nodes whose tensors a draft sends."""
    return draft.communication.inputs if draft.communication is not None else ()


__all__ = ["Provenance", "assign_labels", "label_of", "producer_names", "refs"]
