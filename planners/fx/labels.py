"""The logical identity of the data of a collective: a parameter, its gradient, or the producer.

A label lets the checker see that two collectives of one shape changed places. It must never
make two that belong together look different, so a label is used only where every member of
the group uses it equally often.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias

from .model import FxNode, Ref, refs
from .operations import argument, base_name, find_operation, is_wait, nature
from .storage import GETITEM, is_view, mutated

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from .translate import Draft, RankDraft

_MOVES = frozenset(
    {
        GETITEM,
        "planguard.tuple",
        "bucketing._pre_bucket_all_gather",
        "bucketing._pre_bucket_reduce_scatter",
        "aten._to_copy",
        "aten.cat",
        "aten.clone",
        "aten.constant_pad_nd",
        "aten.contiguous",
        "aten.stack",
        "prims.convert_element_type",
    }
)
_COPIES = frozenset({"aten.copy_", "aten._foreach_copy_"})
_SCALES = frozenset({"aten.div", "aten.mul"})
_PARTS = frozenset({"aten.split", "aten.split_with_sizes", "aten.chunk", "aten.unbind"})
_BUFFERS = frozenset({"aten.empty", "aten.new_empty", "aten.zeros", "aten.new_zeros"})
_LIMIT = 160


Names = tuple[str, ...]


class Provenance:
    """Follows data through views, casts, copies and concatenations of one rank's graphs.

    One pass over the nodes in order. A buffer's content is what was written into it so far, so what
    a collective sends is recorded when the pass reaches it.

    Attributes:
        nodes: Nodes by name, in order.
        sent: For every communication, the nodes whose values it sends, moved but not computed on,
            in the order in which they lie in what is sent.
        gradients: For every communication, the parameters whose gradients it carries, in the order
            in which they lie in its result.
        labels: What ``label_of`` returned, by communication: ranks share their nodes.
    """

    def __init__(self, nodes: Mapping[str, FxNode]) -> None:
        self.nodes = nodes
        self.sent: dict[str, Names] = {}
        self.labels: dict[str, tuple[str | None, str | None]] = {}
        self._sources: dict[str, Names] = {}
        self._buffer: dict[str, str] = {}  # node -> the allocation whose storage it shares
        self._content: dict[str, Names] = {}  # allocation -> what was written into it
        for name, node in nodes.items():
            if node.mutates or node.view or not _computes(node.op, node.target):
                self._step(node)
            else:
                self._sources[name] = (name,)
        self.gradients = self._gradients()

    def parameters(self, talk: str) -> list[str]:
        """Return the parameters a communication sends, in order; empty if it sends other data."""
        found = [self.nodes[name].fqn for name in self.sent.get(talk, ())]
        return list(dict.fromkeys(fqn for fqn in found if fqn)) if all(found) else []

    def _value(self, name: str) -> Names:
        """Return where the value of a node comes from, as far as the pass has got."""
        content = self._content.get(self._buffer.get(name, ""))
        return content or self._sources.get(name, ())

    def _step(self, node: FxNode) -> None:
        kind, targets = nature(node.op, node.target), mutated(node)
        base, own = kind.base, (node.name,)
        if kind.operation is not None:
            self.sent[node.name] = _union(*(self._value(n) for n in self._inputs(node)))
            self._sources[node.name] = own
            self._write(targets, own, replace=True)
        elif base in _BUFFERS:
            self._buffer[node.name] = node.name
            self._sources[node.name] = own
        elif targets and not kind.waits:
            put = self._moved(node, targets) or own if base in _COPIES else own
            self._write(targets, put, replace=False)
            self._sources[node.name] = put  # of a part; the whole is the buffer's content
        elif base in _MOVES or kind.views or node.view:
            self._sources[node.name] = self._moved(node, targets) or own
            first = node.used[0] if node.used else None
            if first in self._buffer and (kind.views or node.view):
                self._buffer[node.name] = self._buffer[first]
        else:
            self._sources[node.name] = own

    def _moved(self, node: FxNode, targets: tuple[str, ...]) -> Names:
        """Return where the values come from that a node takes and does not write."""
        used = node.used
        if len(used) == 1 and not targets:
            return self._value(used[0])
        return _union(*(self._value(name) for name in used if name not in targets))

    def _inputs(self, node: FxNode) -> list[str]:
        operation = find_operation(node)
        return [] if operation is None else list(refs(argument(node, operation, "input")))

    def _write(self, targets: Iterable[str], values: Names, *, replace: bool) -> None:
        for name in targets:
            buffer = self._buffer.get(name)
            if buffer is not None:
                old = () if replace else self._content.get(buffer, ())
                self._content[buffer] = _union(old, values)

    def _gradients(self) -> dict[str, list[str]]:
        """Map collectives to the parameters whose gradients they carry to the outputs."""
        found: dict[str, dict[str, tuple[int, ...]]] = {}
        for node in self.nodes.values():
            if node.op != "output" or not any(node.fqns):
                continue
            values = node.args[0] if node.args and isinstance(node.args[0], tuple) else node.args
            for value, fqn in zip(values, node.fqns, strict=False):
                if fqn is not None and isinstance(value, Ref):
                    for name, place in self._carriers(value.node).items():
                        found.setdefault(name, {}).setdefault(fqn, place)
        return {
            name: sorted(places, key=lambda fqn: (places[fqn], fqn))
            for name, places in found.items()
        }

    def _carriers(self, name: str) -> dict[str, tuple[int, ...]]:
        """Return the collectives that a value comes from, and its place in the result of each."""
        todo: list[tuple[str, tuple[int, ...]]] = [(name, ())]
        done, found = set(), {}
        while todo:
            current, place = todo.pop()
            node = self.nodes.get(current)
            if node is None or current in done:
                continue
            done.add(current)
            base = base_name(node.target)
            if find_operation(node) is not None:
                found[current] = place
            elif base == GETITEM:
                todo += [(one, (*self._index(node), *place)) for one in node.inputs()]
            elif base in _MOVES or base in _SCALES or is_view(node) or is_wait(node):
                todo += [(one, place) for one in node.inputs()]
        return found

    def _index(self, node: FxNode) -> tuple[int, ...]:
        """Return which part of a split or of a coalesced collective an element is."""
        source = self.nodes.get(next(node.inputs(), ""))
        known = source is not None and (
            base_name(source.target) in _PARTS or find_operation(source) is not None
        )
        index = node.args[1] if known and len(node.args) > 1 else None
        return (index,) if isinstance(index, int) else ()


@lru_cache(maxsize=4096)
def _computes(op: str, target: str) -> bool:
    """Tell whether nodes of a target make new values, and do nothing else to what they take."""
    kind = nature(op, target)
    follows = kind.base in _BUFFERS or kind.base in _MOVES or kind.views or kind.waits
    return kind.operation is None and not kind.in_place and not follows


def _union(*values: Names) -> Names:
    """Join names in order, each once."""
    return tuple(dict.fromkeys(name for names in values for name in names))


def label_of(draft: Draft, provenance: Provenance) -> tuple[str | None, str | None]:
    """Return the label of a collective, None for point-to-point and for barriers; and its kind.

    In order of preference: the gradient it carries, the parameter it moves, the nodes that produced
    its input. Labels of the same pieces in another order are of one kind: members that agree on the
    pieces of a buffer, and not on the order, mix them up.
    """
    talk = draft.communication
    if talk is None or not talk.inputs or talk.fields["op"] in _PAIRWISE:
        return None, None
    names = [f"{fqn}.grad" for fqn in provenance.gradients.get(talk.node, ())]
    names = names or provenance.parameters(talk.node)
    names = names or sorted(provenance.sent.get(talk.node, ()))
    kind = _joined(sorted(names))
    return (kind if talk.fields["op"].startswith("all_to_all") else _joined(names)), kind


def assign_labels(ranks: Mapping[int, RankDraft], keys: Mapping[int, Mapping[str, object]]) -> int:
    """Write labels into the drafts of all ranks; return how many collectives stay without one.

    Args:
        ranks: Drafts by rank.
        keys: For every rank, the identity of each group name of its graphs.
    """
    proposed: dict[object, dict[int, list[Proposal]]] = {}
    known: dict[tuple[int, ...], Provenance] = {}  # ranks of one program have the same nodes
    for rank, program in ranks.items():
        nodes = tuple(map(id, program.nodes.values()))
        provenance = known.get(nodes) or Provenance(program.nodes)
        known[nodes] = provenance
        for draft in program.drafts:
            if draft.communication is None or draft.communication.fields["op"] in _PAIRWISE:
                continue
            group = keys[rank][draft.communication.group]
            rows = proposed.setdefault(group, {}).setdefault(rank, [])
            node = draft.communication.node
            if node not in provenance.labels:
                provenance.labels[node] = label_of(draft, provenance)
            rows.append((draft, *provenance.labels[node]))
    return sum(_settle(rows) for rows in proposed.values())


_PAIRWISE = frozenset({"isend", "irecv", "send", "recv", "batch", "barrier"})


Proposal: TypeAlias = "tuple[Draft, str | None, str | None]"
"""A collective, the label that its rank gives it, and the kind that members must share."""


def _settle(members: Mapping[int, list[Proposal]]) -> int:
    """Keep the labels whose kind every member of a group uses equally often; number repetitions."""
    counts = [Counter(kind for _, _, kind in rows) for rows in members.values()]
    shared = {
        kind
        for kind in counts[0]
        if kind is not None and all(count[kind] == counts[0][kind] for count in counts)
    }
    left = 0
    for rows in members.values():
        seen: Counter[str] = Counter()
        for draft, label, kind in rows:
            if label is None or kind is None or kind not in shared:
                left += 1
                continue
            seen[kind] += 1
            draft.fields["label"] = label if seen[kind] == 1 else f"{label}#{seen[kind]}"
    return left


def _joined(names: list[str]) -> str | None:
    text = "+".join(names)
    if len(text) > _LIMIT:
        digest = hashlib.sha256(text.encode()).hexdigest()[:12]
        text = f"{names[0]}+{len(names) - 1} more ({digest})"
    return text or None
