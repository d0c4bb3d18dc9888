"""One rank of a flat plan on real gloo: every action becomes the torch call of its name."""

from __future__ import annotations

import os
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from oracle.program import COLLECTIVES, POINT_TO_POINT, Action, OracleUnsupported, Program

if TYPE_CHECKING:
    from collections.abc import Callable

# Longer than any observation, so that a hang shows as one and not as an error of the library.
TIMEOUT = timedelta(minutes=10)
DTYPES = {
    "f64": torch.float64,
    "f32": torch.float32,
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "i64": torch.int64,
    "i32": torch.int32,
    "i16": torch.int16,
    "i8": torch.int8,
    "u8": torch.uint8,
    "bool": torch.bool,
}
REDUCE_OPS = {
    None: dist.ReduceOp.SUM,
    "sum": dist.ReduceOp.SUM,
    "max": dist.ReduceOp.MAX,
    "min": dist.ReduceOp.MIN,
    "product": dist.ReduceOp.PRODUCT,
    "prod": dist.ReduceOp.PRODUCT,
}
NOTHING_ON_GLOO = frozenset({"compute", "host_sync", "event_record", "event_wait"})


class Rank:
    """Runs one rank's actions and reports each start and end.

    Args:
        report: called with `start` or `end` and the index of the action.
    """

    def __init__(self, program: Program, rank: int, report: Callable[[str, int], None]) -> None:
        self.program = program
        self.rank = rank
        self.report = report
        self.groups: dict[str, Any] = {"world": dist.group.WORLD}
        self.meetings: dict[str, Any] = {}
        self.works: dict[int, list[Any]] = {}
        self.tensors: list[torch.Tensor] = []

    def set_up(self) -> None:
        """Create the groups that no action creates, on all ranks in the same order."""
        actions = [action for rank in self.program.ranks for action in rank]
        made = {action.group for action in actions if action.kind == "new_group"}
        meeting = {action.group for action in actions if action.kind == "init"}
        for name, members in self.program.groups.items():
            if name != "world" and name not in made:
                self.groups[name] = dist.new_group(list(members), timeout=TIMEOUT)
        for name in sorted(meeting):
            members = self.program.groups[name]
            self.meetings[name] = dist.new_group(list(members), timeout=TIMEOUT)
        dist.barrier()

    def run(self) -> None:
        """Run the rank's actions in order."""
        for action in self.program.ranks[self.rank]:
            self.report("start", action.index)
            self._act(action)
            self.report("end", action.index)

    def _act(self, action: Action) -> None:
        if action.kind in COLLECTIVES or action.kind in POINT_TO_POINT:
            self._launch(action, [self._call(action)])
        elif action.kind == "batch":
            operations = [self._batched(part) for part in action.parts]
            self._launch(action, dist.batch_isend_irecv(operations))
        elif action.kind == "wait":
            for target in action.targets:
                for work in self.works.pop(target):
                    work.wait()
        elif action.kind == "test":
            for target in action.targets:
                for work in self.works[target]:
                    work.is_completed()
        elif action.kind == "drop":
            for target in action.targets:
                del self.works[target]
        elif action.kind not in NOTHING_ON_GLOO:
            self._group_action(action)

    def _group_action(self, action: Action) -> None:
        if action.kind == "new_group":
            members = list(self.program.groups[action.group])
            local = not self._all_create(action.group)
            self.groups[action.group] = dist.new_group(
                members, timeout=TIMEOUT, use_local_synchronization=local
            )
        elif action.kind == "init":
            dist.barrier(self.meetings[action.group])
        elif action.kind == "destroy":
            dist.destroy_process_group(self.groups[action.group])
        elif action.kind == "exit":
            os._exit(0)
        else:
            raise OracleUnsupported(f"{action.kind} on gloo")

    def _all_create(self, group: str) -> bool:
        """Tell whether every rank of the world calls `new_group`, members or not."""
        return all(
            any(action.kind == "new_group" and action.group == group for action in rank)
            for rank in self.program.ranks
        )

    def _launch(self, action: Action, works: list[Any]) -> None:
        works = [work for work in works if work is not None]
        if action.sync:
            for work in works:
                work.wait()
        else:
            self.works[action.index] = works

    def _tensor(self, action: Action, share: int = 1) -> torch.Tensor:
        """Make a tensor of the action's size, or of one of `share` equal parts of it."""
        size = action.size
        if size.count is not None and size.dtype is not None:
            tensor = torch.ones(max(size.count // share, 0), dtype=DTYPES[size.dtype])
        else:
            tensor = torch.ones((size.bytes or 0) // share, dtype=torch.uint8)
        self.tensors.append(tensor)
        return tensor

    def _batched(self, action: Action) -> dist.P2POp:
        call = dist.isend if action.kind in {"send", "isend"} else dist.irecv
        group = self.groups[action.group]
        return dist.P2POp(call, self._tensor(action), action.peer, group, action.tag)

    def _call(self, action: Action) -> Any:
        group = self.groups[action.group]
        if action.kind in POINT_TO_POINT:
            peer = None if action.peer == "any" else action.peer
            call = getattr(dist, action.kind)
            work = call(self._tensor(action), peer, group=group, tag=action.tag)
            return None if action.sync else work
        later = {"group": group, "async_op": not action.sync}
        if action.kind == "barrier":
            return dist.barrier(**later)
        if action.coalesced:
            return self._coalesced(action, later)
        return getattr(self, f"_{action.kind}")(action, later)

    def _coalesced(self, action: Action, later: dict[str, Any]) -> Any:
        if action.kind == "all_reduce":
            tensors = [self._tensor(part) for part in action.parts]
            return dist.all_reduce_coalesced(tensors, REDUCE_OPS[action.reduce_op], **later)
        manager = dist.distributed_c10d._coalescing_manager(later["group"], async_ops=True)
        with manager as works:
            for part in action.parts:
                getattr(self, f"_{part.kind}")(part, {"group": later["group"], "async_op": False})
        return works

    def _all_reduce(self, action: Action, later: dict[str, Any]) -> Any:
        return dist.all_reduce(self._tensor(action), REDUCE_OPS[action.reduce_op], **later)

    def _broadcast(self, action: Action, later: dict[str, Any]) -> Any:
        return dist.broadcast(self._tensor(action), action.root, **later)

    def _reduce(self, action: Action, later: dict[str, Any]) -> Any:
        op = REDUCE_OPS[action.reduce_op]
        return dist.reduce(self._tensor(action), action.root, op, **later)

    def _several(self, action: Action, share: int = 1) -> list[torch.Tensor]:
        return [self._tensor(action, share) for _ in self.program.groups[action.group]]

    def _all_gather(self, action: Action, later: dict[str, Any]) -> Any:
        return dist.all_gather(self._several(action), self._tensor(action), **later)

    def _all_gather_into_tensor(self, action: Action, later: dict[str, Any]) -> Any:
        output = torch.cat(self._several(action))
        return dist.all_gather_into_tensor(output, self._tensor(action), **later)

    def _reduce_scatter(self, action: Action, later: dict[str, Any]) -> Any:
        op = REDUCE_OPS[action.reduce_op]
        return dist.reduce_scatter(self._tensor(action), self._several(action), op, **later)

    def _reduce_scatter_tensor(self, action: Action, later: dict[str, Any]) -> Any:
        source = torch.cat(self._several(action))
        op = REDUCE_OPS[action.reduce_op]
        return dist.reduce_scatter_tensor(self._tensor(action), source, op, **later)

    def _gather(self, action: Action, later: dict[str, Any]) -> Any:
        parts = self._several(action) if self.rank == action.root else None
        return dist.gather(self._tensor(action), parts, action.root, **later)

    def _scatter(self, action: Action, later: dict[str, Any]) -> Any:
        parts = self._several(action) if self.rank == action.root else None
        return dist.scatter(self._tensor(action), parts, action.root, **later)

    def _all_to_all(self, action: Action, later: dict[str, Any]) -> Any:
        share = len(self.program.groups[action.group])
        return dist.all_to_all(self._several(action, share), self._several(action, share), **later)

    def _all_to_all_single(self, action: Action, later: dict[str, Any]) -> Any:
        if action.in_splits is None or action.out_splits is None:
            return dist.all_to_all_single(self._tensor(action), self._tensor(action), **later)
        dtype = DTYPES[action.size.dtype or "u8"]
        source = torch.ones(sum(action.in_splits), dtype=dtype)
        output = torch.ones(sum(action.out_splits), dtype=dtype)
        self.tensors += [source, output]
        return dist.all_to_all_single(
            output, source, list(action.out_splits), list(action.in_splits), **later
        )
