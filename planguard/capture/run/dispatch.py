"""The second witness: torch's dispatcher tells what is communicated, beside the process group.

It reads the operators ``c10d::*`` and ``_c10d_functional::*`` and shares no code with the reading
of the process group's arguments, so the two accounts of one run check each other.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from planguard.capture.groups.modes import infra_mode
from planguard.capture.groups.recorder import DTYPES
from planguard.capture.run.log import Kind
from planguard.recording.observed import SAME_OPERATION

if TYPE_CHECKING:
    from planguard.capture.run.log import RunLog
    from planguard.capture.run.recorder import RunRecorder

OPERATORS = {
    "allreduce_": ("all_reduce", "tensors"),
    "allreduce_coalesced_": ("all_reduce", "tensors"),
    "broadcast_": ("broadcast", "tensors"),
    "reduce_": ("reduce", "tensors"),
    "allgather_": ("all_gather", "input_tensors"),
    "_allgather_base_": ("all_gather_into_tensor", "input_tensor"),
    "allgather_into_tensor_coalesced_": ("all_gather_into_tensor", "inputs"),
    "reduce_scatter_": ("reduce_scatter", "output_tensors"),
    "_reduce_scatter_base_": ("reduce_scatter_tensor", "output_tensor"),
    "reduce_scatter_tensor_coalesced_": ("reduce_scatter_tensor", "outputs"),
    "gather_": ("gather", "input_tensors"),
    "gather_into_tensor_": ("gather", "input_tensor"),
    "scatter_": ("scatter", "output_tensors"),
    "alltoall_": ("all_to_all", "input_tensors"),
    "alltoall_base_": ("all_to_all_single", "input"),
    "barrier": ("barrier", ""),
    "monitored_barrier_": ("barrier", ""),
    "send": ("isend", "tensors"),
    "recv_": ("irecv", "tensors"),
    "recv_any_source_": ("irecv", "tensors"),
}
"""Operators of ``c10d``: operation, and the argument whose size counts."""
FUNCTIONAL = {
    "all_reduce": ("all_reduce", "input"),
    "all_reduce_": ("all_reduce", "input"),
    "all_reduce_coalesced": ("all_reduce", "inputs"),
    "all_reduce_coalesced_": ("all_reduce", "inputs"),
    "all_gather_into_tensor": ("all_gather_into_tensor", "input"),
    "all_gather_into_tensor_out": ("all_gather_into_tensor", "input"),
    "all_gather_into_tensor_coalesced": ("all_gather_into_tensor", "inputs"),
    "reduce_scatter_tensor": ("reduce_scatter_tensor", "input"),
    "reduce_scatter_tensor_out": ("reduce_scatter_tensor", "input"),
    "reduce_scatter_tensor_coalesced": ("reduce_scatter_tensor", "inputs"),
    "all_to_all_single": ("all_to_all_single", "input"),
    "broadcast": ("broadcast", "input"),
    "broadcast_": ("broadcast", "input"),
    "isend": ("isend", "tensor"),
    "irecv": ("irecv", "tensor"),
}
"""Operators of ``_c10d_functional``."""
_SPACES = {"c10d": OPERATORS, "_c10d_functional": FUNCTIONAL}


def witness_mode(recorder: RunRecorder) -> Any:
    """Return the mode that writes every communication operator into the recorder's log."""

    class Witness(infra_mode()):  # type: ignore[misc]  # torch is Any here
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            # Wrappers such as DTensor issue the operators that count when they have unwrapped.
            if any(kind.__name__ in ("DTensor", "AsyncCollectiveTensor") for kind in types):
                return NotImplemented
            table = _SPACES.get(func.namespace)
            if table is not None:
                _note(recorder, table, func, args, kwargs or {})
            return func(*args, **(kwargs or {}))

    return Witness()


def _note(
    recorder: RunRecorder, table: dict[str, tuple[str, str]], func: Any, args: Any, options: Any
) -> None:
    name = func._schema.name.partition("::")[2]  # noqa: SLF001 - torch has no public way
    names = [one.name for one in func._schema.arguments]  # noqa: SLF001 - torch has no public way
    given = dict(zip(names, args, strict=False)) | options
    if name == "batch_p2p_ops":
        for op, tensor in zip(given["op_list"], given["tensors"], strict=True):
            fields = _size([tensor], 1)
            recorder.witness(op, _group(recorder, given), fields)
        return
    if name not in table:
        return
    op, sized = table[name]
    tensors = given.get(sized, [])
    tensors = list(tensors) if isinstance(tensors, (list, tuple)) else [tensors]
    # The functional reduce_scatter has no output yet: its share of the input is as large.
    parts = given["group_size"] if op.startswith("reduce_scatter") and "group_size" in given else 1
    recorder.witness(op, _group(recorder, given), _size(tensors, parts))


def _group(recorder: RunRecorder, given: dict[str, Any]) -> str:
    """Return the key of the group that an operator names: by handle or by name."""
    import torch
    import torch.distributed as dist

    found: Any = given.get("process_group", given.get("group_name"))
    if isinstance(found, torch.ScriptObject):
        found = dist.ProcessGroup.unbox(found)
    name = found if isinstance(found, str) else found.group_name
    return recorder.names.get(name, f"?{name}")


def _size(tensors: list[Any], parts: int) -> dict[str, Any]:
    dtypes = {DTYPES.get(str(tensor.dtype)) for tensor in tensors}
    if len(dtypes) == 1 and None not in dtypes:
        count = sum(tensor.numel() for tensor in tensors) // parts
        return {"count": count, "dtype": dtypes.pop()}
    return {"bytes": sum(t.numel() * t.element_size() for t in tensors) // parts}


@dataclass(frozen=True)
class Agreement:
    """What the two witnesses of one rank say.

    Attributes:
        rank: Global rank.
        both: Calls that both wrote down.
        group_only: Calls, with their number, that only the process group saw.
        dispatch_only: Calls, with their number, that only the dispatcher saw.
    """

    rank: int
    both: int
    group_only: dict[tuple[Any, ...], int]
    dispatch_only: dict[tuple[Any, ...], int]

    @property
    def is_full(self) -> bool:
        """True when both tell the same."""
        return not self.group_only and not self.dispatch_only


def agreement(log: RunLog) -> Agreement:
    """Compare the two accounts of a log by operation, group and bytes."""
    seen = {kind: Counter[tuple[Any, ...]]() for kind in (Kind.CALL, Kind.WITNESS)}
    for entry in log.entries:
        if entry.kind in seen and entry.fields is not None:
            seen[entry.kind][_key(entry.fields)] += 1
    group, dispatch = seen[Kind.CALL], seen[Kind.WITNESS]
    return Agreement(
        log.rank,
        (group & dispatch).total(),
        dict(group - dispatch),
        dict(dispatch - group),
    )


def _key(fields: dict[str, Any]) -> tuple[Any, ...]:
    from planguard.plan.actions import ITEM_BYTES

    parts = fields.get("ops", [fields])
    size = sum(
        part["count"] * ITEM_BYTES[part["dtype"]] if "dtype" in part else part.get("bytes", 0)
        for part in parts
    )
    op = fields.get("kind", fields["op"])
    return SAME_OPERATION.get(op, op), fields["group"], size
