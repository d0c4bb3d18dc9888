"""ExecutionTrace files of torch's ``ExecutionTraceObserver`` (schema 1.x, chakra 0.0.4)."""

from __future__ import annotations

import re
from typing import Any

from msgspec import Struct, field

from planguard.audit.readers.c10d import Dispatch, Dispatches, groups_of
from planguard.audit.readers.part import Part
from planguard.audit.readers.safe import decode_json
from planguard.errors import PlanError

INIT = "## process_group:init ##"
PARAMS = "record_param_comms"


class _Values(Struct, gc=False):
    values: list[Any] = field(default_factory=list)
    shapes: list[Any] = field(default_factory=list)
    types: list[Any] = field(default_factory=list)


class _Attribute(Struct, gc=False):
    name: str = ""
    value: Any = None


class _Node(Struct, gc=False):
    id: int = 0
    name: str = ""
    inputs: _Values = field(default_factory=_Values)
    attrs: list[_Attribute] = field(default_factory=list)


class _Trace(Struct, gc=False):
    schema: str = ""
    nodes: list[_Node] = field(default_factory=list)


def read_execution_trace(data: bytes, file: str) -> Part:
    """Return the communications of an execution trace, in the order of their nodes.

    Raises:
        PlanError: Not such a trace, or of a schema that is not supported (PG913).
    """
    trace: _Trace = decode_json(data, _Trace, file)
    if not re.match(r"1\.", trace.schema):
        raise PlanError(
            "schema of the execution trace is not supported",
            code="PG913",
            file=file,
            path="$.schema",
            value=trace.schema,
            hint="supported: 1.x",
        )
    part = Part("execution-trace", file, version=trace.schema[:80])
    nodes = sorted(trace.nodes, key=lambda node: node.id)
    for node in nodes:
        if node.name == INIT:
            _groups(part, node, file)
    dispatches = Dispatches(part)
    if any(node.name == PARAMS for node in nodes):
        for node in nodes:
            if node.name == PARAMS:
                _params(dispatches, node)
        return part
    for node in nodes:
        if node.name.startswith("c10d::"):
            inputs = node.inputs
            name = node.name.removeprefix("c10d::")
            dispatches.add(
                Dispatch(name, inputs.values, inputs.shapes, inputs.types, number=node.id)
            )
    if any(node.name.startswith("gloo:") for node in nodes):
        part.backend = "gloo"
    return part


def _groups(part: Part, node: _Node, file: str) -> None:
    """Read the groups, which stand as JSON text in the values of one node."""
    for value in node.inputs.values:
        if isinstance(value, str) and value.startswith("["):
            config = decode_json(value.encode(), list[dict[str, Any]], file)
            part.groups |= groups_of(config, None)
    world = part.groups.get("world")
    if world is not None and world.size:
        part.world_size = world.size


def _params(dispatches: Dispatches, node: _Node) -> None:
    """Append a call that NCCL describes in full, from the attributes of its node."""
    about = {one.name: one.value for one in node.attrs}
    dispatches.add_described(
        Dispatch(str(about.get("collective_name") or ""), [], [], [], number=node.id),
        str(about.get("pg_name", "0"))[:200],
        (about.get("in_msg_nelems"), about.get("out_msg_nelems")),
        (about.get("dst_rank"), about.get("src_rank")),
        str(about.get("dtype", "")),
    )
