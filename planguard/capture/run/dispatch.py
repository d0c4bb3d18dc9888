"""The second witness: torch's dispatcher tells what is communicated, beside the process group.

It reads the operators ``c10d::*`` and ``_c10d_functional::*`` and shares no code with the reading
of the process group's arguments, so the two accounts of one run check each other.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from planguard.capture.groups.modes import infra_mode
from planguard.capture.run.log import Kind
from planguard.plan.dtypes import of_tensor
from planguard.plan.vocabulary import C10D, FUNCTIONAL, SPELLINGS, STARTED, bytes_of

if TYPE_CHECKING:
    from planguard.capture.run.log import RunLog
    from planguard.capture.run.recorder import RunRecorder

_SPACES = {"c10d": C10D, "_c10d_functional": FUNCTIONAL}


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
    op = STARTED.get(op, op)
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
    dtypes = {of_tensor(tensor) for tensor in tensors}
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
    size = sum(bytes_of(part) or 0 for part in fields.get("ops", [fields]))
    op = fields.get("kind", fields["op"])
    return SPELLINGS.get(op, op), fields["group"], size
