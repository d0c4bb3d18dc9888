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
from .operations import argument, base_name, find_operation, is_wait
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
_COPIES = frozenset({"aten.copy_", "aten._foreach_copy_"})
_SCALES = frozenset({"aten.div", "aten.mul"})
_BUFFERS = frozenset({"aten.empty", "aten.new_empty", "aten.zeros", "aten.new_zeros"})
_LIMIT = 160


class Provenance:
    """Follows data through views, casts, copies and concatenations of one rank's graphs.

    One pass over the nodes in order. A buffer's content is what was written into it so far, so what
    a collective sends is recorded when the pass reaches it.

    Attributes:
        nodes: Nodes by name, in order.
        sent: For every communication, the nodes whose values it sends, moved but not computed on.
        gradients: For every communication, the parameters whose gradients it carries.
    """

    def __init__(self, nodes: Mapping[str, FxNode]) -> None:
        self.nodes = nodes
        self.sent: dict[str, frozenset[str]] = {}
        self._sources: dict[str, frozenset[str]] = {}
        self._buffer: dict[str, str] = {}  # node -> the allocation whose storage it shares
        self._content: dict[str, frozenset[str]] = {}  # allocation -> what was written into it
        for node in nodes.values():
            self._step(node)
        self.gradients = self._gradients()

    def parameters(self, talk: str) -> list[str]:
        """Return the parameters a communication sends, sorted; empty if it sends anything else."""
        found = [self.nodes[name].fqn for name in self.sent.get(talk, ())]
        return sorted({fqn for fqn in found if fqn}) if all(found) else []

    def _value(self, name: str) -> frozenset[str]:
        """Return where the value of a node comes from, as far as the pass has got."""
        content = self._content.get(self._buffer.get(name, ""))
        return content or self._sources.get(name, frozenset())

    def _step(self, node: FxNode) -> None:
        base = base_name(node.target)
        targets = mutated(node)
        own = frozenset({node.name})
        values = [self._value(name) for name in node.inputs() if name not in targets]
        moved: frozenset[str] = frozenset().union(*values)
        if find_operation(node) is not None:
            self.sent[node.name] = frozenset().union(*(self._value(n) for n in self._inputs(node)))
            self._sources[node.name] = own
            self._write(targets, own, replace=True)
        elif base in _BUFFERS:
            self._buffer[node.name] = node.name
            self._sources[node.name] = own
        elif targets and not is_wait(node):
            put = moved if base in _COPIES and moved else own
            self._write(targets, put, replace=False)
            self._sources[node.name] = put  # of a part; the whole is the buffer's content
        elif base in _MOVES or is_view(node):
            self._sources[node.name] = moved or own
            first = next(node.inputs(), None)
            if is_view(node) and first in self._buffer:
                self._buffer[node.name] = self._buffer[first]
        else:
            self._sources[node.name] = own

    def _inputs(self, node: FxNode) -> list[str]:
        operation = find_operation(node)
        return [] if operation is None else list(refs(argument(node, operation, "input")))

    def _write(self, targets: Iterable[str], values: frozenset[str], *, replace: bool) -> None:
        for name in targets:
            buffer = self._buffer.get(name)
            if buffer is not None:
                old = frozenset() if replace else self._content.get(buffer, frozenset())
                self._content[buffer] = old | values

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
    return _joined(provenance.parameters(talk.node) or sorted(provenance.sent.get(talk.node, ())))


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
