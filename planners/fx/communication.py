"""One communication node to the fields of its action: size, group, reduction, peers, splits."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from planguard.errors import PlanError

from .model import Arg, FxGroup, FxNode, Sym, TensorMeta, refs
from .operations import Operation, argument, find_operation, group_argument
from .sizes import NOTHING_KNOWN, Size, splits, tensor_size, values_of
from .storage import Root, Storage, leaves

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class Note:
    """An entry for the ledger: kind, one sentence, direction, the action and the node it is about.

    The node is named where what stands in the graphs of other ranks may settle it (``exchanged``).
    """

    kind: str
    message: str
    direction: str
    action: int = 0
    node: str = ""


@dataclass
class Communication:
    """What one node communicates.

    Attributes:
        fields: Fields of the action but its group.
        group: The group as the graph names it.
        node: Name of the node.
        inputs: Nodes whose tensors are sent, for the label.
        result: Storage of the result.
        input_roots: Storage of the input.
        blocking: Whether the node itself waits.
        wait_on_input: Whether waiting for the input waits for this, too (``isend``).
        root: Root of a rooted collective, as a rank of the group.
        rank_dependent: Why the action cannot stand for another rank's, empty when it can.
        notes: Entries for the ledger.
        sizes: Of its tensors, and of splits that are not numbers.
    """

    fields: dict[str, Any]
    group: str
    node: str
    inputs: tuple[str, ...] = ()
    result: Root = ()
    input_roots: Root = ()
    blocking: bool = False
    wait_on_input: bool = False
    root: int | None = None
    rank_dependent: str = ""
    notes: list[Note] = field(default_factory=list)
    sizes: list[Size] = field(default_factory=list)


def build(
    node: FxNode, nodes: Mapping[str, FxNode], groups: Mapping[str, FxGroup], storage: Storage
) -> Communication:
    """Read a communication node.

    Args:
        node: The node; ``find_operation`` knows it.
        nodes: Nodes by name, for the shapes of arguments.
        groups: Group table of the rank.
        storage: Storage roots so far.

    Raises:
        PlanError: If the node has no usable group, or its arguments do not fit its schema.
    """
    operation = find_operation(node)
    place = group_argument(node)
    if operation is None or place is None:
        raise _error(node, "has no process group", "the group argument must be a group name")
    name = place[1]
    if name not in groups:
        raise _error(
            node,
            f"names process group {name!r}, which is not in the group table",
            "dump the table of the same process: planguard.capture.fx.group_table()",
            code="PG914",
        )
    return _Builder(node, operation, nodes, groups[name], storage, name).run()


def _error(node: FxNode, message: str, hint: str = "", code: str = "PG901") -> PlanError:
    file = f" ({node.source[0]}:{node.source[1]})" if node.source else ""
    return PlanError(
        f"node {node.name!r}{file} {message}",
        code=code,
        path=f"node {node.name}",
        value=node.target,
        hint=hint,
    )


class _Builder:
    """Reads the arguments of one node; split by what kinds of operators share."""

    def __init__(
        self,
        node: FxNode,
        operation: Operation,
        nodes: Mapping[str, FxNode],
        group: FxGroup,
        storage: Storage,
        name: str,
    ) -> None:
        self.node = node
        self.operation = operation
        self.nodes = nodes
        self.group = group
        self.storage = storage
        self.out = Communication({"op": operation.op}, name, node.name)

    def run(self) -> Communication:
        sent = self._argument("input")
        self.out.inputs = tuple(refs(sent))
        self.out.input_roots = self.storage.of(sent)
        self._reduce_op()
        if self.operation.op == "batch":
            self._batch(sent)
        elif self.operation.coalesced:
            self._coalesced()
        elif self.operation.op != "barrier":
            self._single()
        self._result(sent)
        self._blocking()
        self._buffers()
        return self.out

    def _argument(self, name: str) -> Arg:
        return argument(self.node, self.operation, name)

    def _single(self) -> None:
        size = next(iter(self._sizes()), NOTHING_KNOWN)
        self._size_notes(size)
        self.out.fields.update(size.fields())
        if "root" in self.operation.params:
            self.out.root = self._member("root")
        if "peer" in self.operation.params:
            self.out.fields["peer"] = self.group.ranks[self._member("peer")]
            tag = self._argument("tag")
            self.out.fields["tag"] = tag if isinstance(tag, int) else 0
            self.out.rank_dependent = "it names a peer"
        if self.operation.op == "all_to_all_single":
            self._splits()

    def _coalesced(self) -> None:
        sizes = self._sizes()
        for size in sizes:
            self._size_notes(size)
        if not sizes:
            raise _error(self.node, "coalesces an empty list of tensors")
        members = [size.fields() for size in sizes]
        self.out.fields.update({"op": "coalesced", "kind": self.operation.op, "ops": members})

    def _batch(self, sent: Arg) -> None:
        lists = [self._argument(name) for name in ("op_list", "peer_list", "tag_list")]
        tensors = [tensor_size(value) for value in values_of(sent, self.nodes)]
        rows = [item if isinstance(item, tuple) else () for item in lists]
        if not tensors or {len(row) for row in rows} != {len(tensors)}:
            raise _error(self.node, "has lists of different lengths")
        ops = []
        for kind, peer, tag, size in zip(*rows, tensors, strict=True):
            if kind not in ("isend", "irecv") or not isinstance(tag, int):
                raise _error(self.node, f"batches {kind!r}, which is neither isend nor irecv")
            self._size_notes(size)
            peer_rank = self.group.ranks[self._in_group(peer, "peer")]
            ops.append({"op": kind, "peer": peer_rank, "tag": tag, **size.fields()})
        self.out.fields["ops"] = ops
        self.out.rank_dependent = "it names peers"

    def _sizes(self) -> list[Size]:
        value = self.node.val
        own = [tensor_size(item) for item in (value if isinstance(value, tuple) else (value,))]
        if self.operation.size == "output":
            sizes = own
        else:
            name = "input" if self.operation.size == "input" else str(self.operation.into)
            values = values_of(self._argument(name), self.nodes)
            sizes = [tensor_size(value) for value in values]
        if all(size.count is not None for size in sizes) or len(own) != len(sizes):
            return sizes
        return [self._derived(size, mine) for size, mine in zip(sizes, own, strict=True)]

    def _derived(self, size: Size, own: Size) -> Size:
        """Fall back on the node's own value where the input's is not recorded."""
        if size.count is not None or own.count is None or size.unknown != NOTHING_KNOWN.unknown:
            return size
        gathers = self.operation.op == "all_gather_into_tensor"
        return own.divided(len(self.group.ranks)) if gathers else own

    def _size_notes(self, size: Size) -> None:
        name = self.node.name
        self.out.sizes.append(size)
        if size.symbols:
            text = ", ".join(dict.fromkeys(size.symbols))
            message = f"the size of {name} is symbolic ({text}); its traced value is used"
            self.out.notes.append(Note("dynamic-shape", message, "under", node=name))
        if size.unknown:
            text = ", ".join(dict.fromkeys(size.unknown))
            message = f"the size of {name} is not known before it runs ({text})"
            self.out.notes.append(Note("unknown-size", message, "under", node=name))

    def _reduce_op(self) -> None:
        if "reduce_op" not in self.operation.params:
            return
        value = self._argument("reduce_op")
        if isinstance(value, str) and value != "unknown":
            self.out.fields["reduce_op"] = value.lower()
        else:
            message = f"the reduce operation of {self.node.name} is not in the graph"
            self.out.notes.append(Note("reduce-op-unknown", message, "under"))

    def _member(self, name: str) -> int:
        return self._in_group(self._argument(name), name)

    def _in_group(self, value: Arg, name: str) -> int:
        size = len(self.group.ranks)
        if not isinstance(value, int) or isinstance(value, bool):
            raise _error(self.node, f"has {name} {value!r}, which is not a rank")
        if not 0 <= value < size:
            raise _error(
                self.node,
                f"has {name} {value} in a group of {size}: the operator takes ranks of the group, "
                "not global ranks",
                "torch's own isend and irecv pass global ranks on to it for sub-groups",
                code="PG404" if name == "root" else "PG403",
            )
        return value

    def _splits(self) -> None:
        size = len(self.group.ranks)
        value = next(iter(values_of(self._argument("input"), self.nodes)), None)
        shape = value.shape if isinstance(value, TensorMeta) else ()
        dims = [dim.hint or 0 if isinstance(dim, Sym) else dim for dim in shape]
        row = math.prod(dims[1:]) if dims else 1
        is_known = True
        if "input_split_sizes" not in self.operation.params:  # shard_dim_alltoall: equal shards
            return
        for key, name in (("in_splits", "input_split_sizes"), ("out_splits", "output_split_sizes")):
            found, unknown = splits(self._argument(name), self.nodes, row)
            self._size_notes(Size(None, "", (), tuple(unknown)))
            if found is None:
                is_known = False
                continue
            if len(found) != size:
                raise _error(
                    self.node, f"has {len(found)} {name} in a group of {size}", code="PG206"
                )
            self.out.fields[key] = found
            if len(set(found)) > 1:
                self.out.rank_dependent = "its split sizes are uneven"
        if not is_known:  # splits that are left out would be even, and be compared
            for key in ("count", "dtype", "bytes", "in_splits", "out_splits"):
                self.out.fields.pop(key, None)

    def _result(self, sent: Arg) -> None:
        name = self.node.name
        into = self.operation.into
        if into is not None:
            self.out.result = self.storage.of(sent if into == "input" else self._argument(into))
            if self.operation.async_flag and self.operation.op != "recv":
                self.out.result = (self.out.result, f"{name}.work")
        elif self.operation.coalesced:
            count = len(leaves(self.out.input_roots))
            self.out.result = tuple(f"{name}[{place}]" for place in range(count))
        else:
            self.out.result = name
        self.out.wait_on_input = self.operation.op == "isend"

    def _blocking(self) -> None:
        self.out.blocking = self.operation.blocking
        if not self.operation.async_flag:
            return
        self.out.blocking = True
        if self._argument("async_op") is not False:
            message = (
                f"where the caller waits for {self.node.name} is not in the graph; it is taken to "
                "wait at once"
            )
            self.out.notes.append(Note("wait-not-traced", message, "over"))

    def _buffers(self) -> None:
        writes = sorted(set(leaves(self.out.result)))
        reads = [] if self.operation.copies else sorted(set(leaves(self.out.input_roots)))
        if self.operation.op in ("isend", "send"):
            writes = []
        self.out.fields.update(
            {key: names for key, names in (("reads", reads), ("writes", writes)) if names}
        )
