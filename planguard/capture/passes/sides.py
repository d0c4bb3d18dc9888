"""One version of a rank's program, reduced to its communications: what a pass is compared by."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from planguard.capture.passes.repeats import repeats, values_of
from planguard.capture.planner import fx_planner
from planguard.plan.vocabulary import MESSAGES, SPELLINGS, bytes_of

if TYPE_CHECKING:
    from collections.abc import Mapping

_PAIRWISE = MESSAGES | {"batch"}


@dataclass(frozen=True)
class Talk:
    """One communication of a graph, reduced to what a pass must keep."""

    node: str
    op: str
    group: tuple[tuple[int, ...], str]
    signature: tuple[Any, ...]
    bytes: int | None
    atoms: tuple[str, ...]
    source: tuple[str, int | None, str | None] | None

    @property
    def family(self) -> tuple[Any, ...]:
        """What members of one fused collective have in common; their groups have equal members."""
        return (SPELLINGS.get(self.op, self.op), self.group[0], *self.signature)

    @property
    def is_collective(self) -> bool:
        """Whether all members of its group make the same call."""
        return self.op not in _PAIRWISE and self.op != "unknown"

    @property
    def ordered(self) -> bool:
        """Whether nothing may move across it: it has an effect that the graph does not show."""
        return self.op in _PAIRWISE or self.op in ("barrier", "unknown")


@dataclass
class Side:
    """One version of a rank's program.

    Attributes:
        talks: Its communications in order.
        flow: How works flow.
        equals: Collectives that do what an earlier one of this version does, and which.
        values: The value of every node as a number; equal numbers are equal values.
    """

    talks: list[Talk]
    flow: Any
    equals: dict[str, str] = field(default_factory=dict)
    values: dict[str, int] = field(default_factory=dict)


def read_side(program: Any) -> Side:
    """Reduce a rank program to its communications and the flow of its works.

    Raises:
        PlanError: If a communication node is malformed.
    """
    planner = fx_planner()
    draft = planner.translate.translate(program, compute="none")
    provenance = planner.labels.Provenance(draft.nodes)
    names = frozenset(program.groups)
    talks = {
        item.node: _talk(item, draft.nodes, provenance, program.groups, planner)
        for item in planner.groups.flat(draft.drafts)
        if item.communication is not None
    }
    for name, node in draft.nodes.items():
        if planner.operations.is_unknown_communication(node, names):
            talks[name] = Talk(name, "unknown", ((), node.target), (None,), None, (), node.source)
    ordered = [talks[name] for name in draft.nodes if name in talks]
    values = values_of(draft.nodes)
    equals = dict(repeats({talk.node: talk for talk in ordered}, values))
    return Side(ordered, planner.hazards.flow(program), equals, values)


def _talk(item: Any, nodes: Mapping[str, Any], provenance: Any, groups: Any, planner: Any) -> Talk:
    talk, fields = item.communication, item.communication.fields
    op = fields.get("kind", fields["op"])
    atoms = sorted(_atom(name, nodes, planner) for name in provenance.sent.get(talk.node, ()))
    signature = (
        fields.get("reduce_op"),
        talk.root,
        fields.get("peer"),
        fields.get("tag"),
        tuple(fields.get("in_splits", ())),
        tuple(fields.get("out_splits", ())),
    )
    group = groups[talk.group]
    return Talk(
        talk.node,
        op,
        (group.ranks, group.name),
        signature,
        _bytes(fields),
        tuple(atoms),
        nodes[talk.node].source,
    )


def _atom(name: str, nodes: Mapping[str, Any], planner: Any) -> str:
    """Name a piece of data; the result of a collective by its kind, since fusing renames it."""
    operation = planner.operations.find_operation(nodes[name]) if name in nodes else None
    return name if operation is None else f"<{operation.op}>"


def _bytes(fields: Mapping[str, Any]) -> int | None:
    if "ops" in fields:
        parts = [_bytes(part) for part in fields["ops"]]
        return None if any(part is None for part in parts) else sum(p or 0 for p in parts)
    return bytes_of(fields)
