"""What every communication operator of torch means, as a table: one row per operator.

The rows follow the schemas of torch 2.13 (``torch._C._get_schema``). Ranks in the functional
operators (``broadcast``'s ``src``, ``isend``'s ``dst``, ``irecv``'s ``src``) are ranks *of the
group* (measured on gloo), whatever the Python wrappers call them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .model import Arg, FxNode


@dataclass(frozen=True)
class Operation:
    """How one operator communicates.

    Attributes:
        op: Action in the plan.
        params: Names of the schema's parameters, in order.
        size: Whose tensors give the size: ``input``, ``output``, or ``into``.
        into: Parameter whose storage receives the result; None: a new tensor.
        coalesced: Takes and returns lists: one coalesced action.
        blocking: The operator returns only when the communication is done.
        copies: The input is cloned before the communication starts, so it is free at once.
        async_flag: Parameter that says whether the caller waits later (``c10d`` operators).
    """

    op: str
    params: tuple[str, ...]
    size: str = "input"
    into: str | None = None
    coalesced: bool = False
    blocking: bool = False
    copies: bool = False
    async_flag: bool = False


_REDUCE = ("input", "reduce_op", "group_name")
_GATHER = ("input", "group_size", "group_name")
_SCATTER = ("input", "reduce_op", "group_size", "group_name")
_EXCHANGE = ("input", "output_split_sizes", "input_split_sizes", "group_name")
_ROOTED = ("input", "root", "group_name")
_P2P = ("input", "peer", "tag", "group_name")
_BATCH = ("op_list", "peer_list", "tag_list", "input", "group_name")

_FUNCTIONAL = {
    "all_reduce": Operation("all_reduce", _REDUCE, copies=True),
    "all_reduce_": Operation("all_reduce", _REDUCE, into="input"),
    "all_reduce_coalesced": Operation("all_reduce", _REDUCE, coalesced=True, copies=True),
    "all_reduce_coalesced_": Operation("all_reduce", _REDUCE, coalesced=True, into="input"),
    "all_gather_into_tensor": Operation("all_gather_into_tensor", _GATHER),
    "all_gather_into_tensor_out": Operation("all_gather_into_tensor", _GATHER, into="out"),
    "all_gather_into_tensor_coalesced": Operation(
        "all_gather_into_tensor", _GATHER, coalesced=True
    ),
    "reduce_scatter_tensor": Operation("reduce_scatter_tensor", _SCATTER, size="output"),
    "reduce_scatter_tensor_out": Operation(
        "reduce_scatter_tensor", _SCATTER, size="output", into="out"
    ),
    "reduce_scatter_tensor_coalesced": Operation(
        "reduce_scatter_tensor", _SCATTER, size="output", coalesced=True
    ),
    "all_to_all_single": Operation("all_to_all_single", _EXCHANGE),
    "broadcast": Operation("broadcast", _ROOTED, copies=True),
    "broadcast_": Operation("broadcast", _ROOTED, into="input"),
    "isend": Operation("isend", _P2P),
    "irecv": Operation("irecv", _P2P, into="input"),
    "batch_p2p_ops": Operation("batch", _BATCH, into="input"),
}
_C10D = {
    "allreduce_": Operation(
        "all_reduce",
        ("input", "group_name", "reduce_op", "sparse_indices", "async_op"),
        into="input",
        async_flag=True,
    ),
    "_allgather_base_": Operation(
        "all_gather_into_tensor",
        ("out", "input", "group_name", "async_op"),
        into="out",
        async_flag=True,
    ),
    "_reduce_scatter_base_": Operation(
        "reduce_scatter_tensor",
        ("out", "input", "group_name", "reduce_op", "async_op"),
        size="into",
        into="out",
        async_flag=True,
    ),
    "broadcast_": Operation(
        "broadcast",
        ("input", "group_name", "root", "root_tensor", "async_op"),
        into="input",
        async_flag=True,
    ),
    "barrier": Operation(
        "barrier", ("input", "group_name", "device_ids", "async_op"), async_flag=True
    ),
    "send": Operation("send", ("input", "group_name", "peer", "tag"), async_flag=True),
    "recv_": Operation(
        "recv", ("input", "group_name", "peer", "tag"), into="input", async_flag=True
    ),
}

OPERATIONS: dict[str, Operation] = {
    **{f"_c10d_functional.{name}": row for name, row in _FUNCTIONAL.items()},
    **{
        f"_c10d_functional_autograd.{name}": _FUNCTIONAL[name]
        for name in ("all_gather_into_tensor", "reduce_scatter_tensor", "all_to_all_single")
    },
    **{f"c10d.{name}": row for name, row in _C10D.items()},
    "_dtensor.shard_dim_alltoall": Operation(
        "all_to_all_single", ("input", "gather_dim", "shard_dim", "group_name"), blocking=True
    ),
}
"""Every operator that is understood, by name without overload."""

PYTHON = "python:"
"""Prefix of targets that are plain Python functions or modules of the user."""

WAITS = frozenset({"_c10d_functional.wait_tensor", "c10d_functional.wait_tensor"})
IDENTITIES = frozenset({"_c10d_functional._wrap_tensor_autograd"})
VIEWS = frozenset(
    f"aten.{name}"
    for name in (
        "_unsafe_view",
        "alias",
        "as_strided",
        "chunk",
        "detach",
        "expand",
        "narrow",
        "permute",
        "select",
        "slice",
        "split",
        "split_with_sizes",
        "squeeze",
        "t",
        "transpose",
        "unbind",
        "unsqueeze",
        "view",
    )
)
NAMESPACES = frozenset(
    {
        "_c10d_functional",
        "_c10d_functional_autograd",
        "c10d",
        "c10d_functional",
        "_dtensor",
        "symm_mem",
        "torchcomms",
        "torchcomm",
    }
)
"""Libraries whose operators communicate."""
_LOCAL = frozenset({"c10d.check_for_nan", "symm_mem.memset32_"})
_GROUP_PARAMETERS = ("group_name", "process_group", "group", "pg")
_GROUPLESS = ("aten", "prims", "_operator", "math", "builtins")
"""Libraries that take no process group as a positional argument."""


@dataclass(frozen=True, slots=True)
class Nature:
    """What operator and target say of a node, whatever its arguments are.

    Attributes:
        base: Name of the operator without its overload.
        operation: How it communicates, None if it does not.
        waits: Whether it waits for the collective behind its argument.
        views: Whether the result shares the storage of the first tensor argument, as by its name.
        in_place: Whether it writes its first tensor argument, as by its name.
        hidden: Whether it communicates in a way no row describes; None if that is up to the
            arguments.
        groupless: Whether a positional argument is no process group.
    """

    base: str
    operation: Operation | None
    waits: bool
    views: bool
    in_place: bool
    hidden: bool | None
    groupless: bool


@lru_cache(maxsize=4096)
def nature(op: str, target: str) -> Nature:
    """Return what is known of the nodes of one target: a job has many nodes of few targets."""
    base, is_call = base_name(target), op == "call_function"
    space = base.split(".")[0]
    is_aten = is_call and base.startswith("aten.")
    hidden = None if is_call else False
    if is_call and (base in OPERATIONS or base in WAITS or base in IDENTITIES or base in _LOCAL):
        hidden = False
    elif is_call and (space in NAMESPACES or target.startswith("torch.distributed")):
        hidden = True
    waits = is_call and base in WAITS
    return Nature(
        base,
        operation=OPERATIONS.get(base) if is_call else None,
        waits=waits,
        views=waits or base in VIEWS or base in IDENTITIES,
        in_place=is_aten and base.endswith("_") and not base.endswith("__"),
        hidden=True if target.startswith(PYTHON) else hidden,
        groupless=space in _GROUPLESS,
    )


@lru_cache(maxsize=4096)
def base_name(target: str) -> str:
    """Strip the overload of an operator name: ``aten.add.Tensor`` is ``aten.add``."""
    parts = target.split(".")
    return ".".join(parts[:2]) if len(parts) == 3 else target


def is_wait(node: FxNode) -> bool:
    """Tell whether a node waits for the collective behind its argument."""
    return nature(node.op, node.target).waits


def find_operation(node: FxNode) -> Operation | None:
    """Return the row of a communication node, None for every other node."""
    return nature(node.op, node.target).operation


def argument(node: FxNode, operation: Operation, name: str) -> Arg:
    """Return one argument by its schema name, None when it was left out."""
    if name in node.kwargs:
        return node.kwargs[name]
    place = operation.params.index(name) if name in operation.params else len(node.args)
    return node.args[place] if place < len(node.args) else None


def group_argument(node: FxNode) -> tuple[int | str, str] | None:
    """Return where a node names its process group, and the name."""
    operation = find_operation(node)
    if operation is None:
        return None
    if isinstance(node.kwargs.get("group_name"), str):
        return "group_name", str(node.kwargs["group_name"])
    place = operation.params.index("group_name")
    name = node.args[place] if place < len(node.args) else None
    return (place, name) if isinstance(name, str) else None


def is_unknown_communication(node: FxNode, group_names: frozenset[str]) -> bool:
    """Tell whether a node communicates in a way no row describes.

    That is an operator of a communication namespace, one of any other library that is handed the
    name of a process group, or Python code that a graph cannot look into: such a node must never be
    taken for computation.
    """
    kind = nature(node.op, node.target)
    if kind.hidden is not None:
        return kind.hidden
    keys = node.kwargs
    if keys and any(key in keys and keys[key] is not None for key in _GROUP_PARAMETERS):
        return True
    if kind.groupless:
        return False
    return any(isinstance(arg, str) and arg in group_names for arg in node.args)
