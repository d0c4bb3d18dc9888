"""Host threads under the NCCL models where a call blocks its host: a host lane for each thread.

A rank's calls are launched in one order, whatever thread makes them; each queue of the device holds
its launches in that order. What blocks is a host: the first use of a communicator, a barrier, a
host synchronization. It holds up its own thread alone. So the orders of launches are listed
(`threads_orders`), and one run with these lanes decides each:

```
host, thread 0    fork>  init?  [b0>] launch(a0)  sync  [..>] launch(a1)  >join
host, thread 1    fork>  launch(b0)  ...                                  >join
stream            launch(b0)> b0   launch(a0)> a0  ...     in the order of launches
```

* ``launch(a)`` is a token: the host arrives at it once it calls, the device waits for it.
* ``[b0>]`` is a gate: ``b0`` was launched before. Where a run ends with a host at a gate, nothing
  but the order that was asked for keeps that thread back, so no execution ends like it.
* A communicator is made before the call that needs it takes its place among the launches, since
  torch enqueues a kernel only then (``ProcessGroupNCCL::collective``, torch 2.13.0).

All of it are AND-waits, so a run ends in one state (theorem 1; docs/explanation/threads.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from planguard.execution.findings.reason import UndecidedError
from planguard.kernels import current
from planguard.kernels.twin_rules import (
    ARRIVE,
    AWAIT,
    LaneKind,
    Why,
)
from planguard.plan.actions import NONE
from planguard.reordering.lanes import OwnLanes, actions_of
from planguard.reordering.threads.lanes import (
    Call,
    Homes,
    ThreadKernels,
    Tokens,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planguard.execution.project import Projection


@dataclass(frozen=True)
class DeviceThreadKernels(ThreadKernels):
    """Kernels that give every thread of a rank a host lane of its own, for models of devices."""

    def _lanes(self, columns: Any, *rest: Any) -> Any:
        """Return the lanes, with a host lane of its own for every thread."""
        lanes = current().lower(columns, *rest, threads=True)
        return lanes if lanes.overflow else _Hosts(lanes, columns, self.calls).lanes()

    def projected(self, projection: Projection) -> DeviceThreadKernels:
        """Return the kernels of a plan cut down to some of its actions."""
        return DeviceThreadKernels(super().projected(projection).calls)


class _Hosts:
    """Writes the host lanes of one lowered plan, and lets its launches wait for them."""

    def __init__(self, base: Any, columns: Any, calls: Sequence[Sequence[Call]]) -> None:
        self.base, self.columns, self.calls = base, columns, calls
        self.out = OwnLanes(base)
        self.out.need.extend(base.need)

    def lanes(self) -> OwnLanes:
        """Return the lanes of all ranks: their hosts, then what their devices do."""
        base = self.base
        own: dict[int, list[int]] = {}
        for lane, rank in enumerate(base.lane_rank):
            own.setdefault(rank, []).append(lane)
        for rank in range(self.columns.world_size):
            self._rank(rank, own.get(rank, []))
        self.out.lane_off.append(len(self.out.code))
        return self.out

    def _words(self, lane: int) -> range:
        return range(self.base.lane_off[lane], self.base.lane_off[lane + 1])

    def _rank(self, rank: int, lanes: list[int]) -> None:
        base = self.base
        actions = actions_of(self.columns, rank)
        device = [lane for lane in lanes if base.lane_kind[lane] != LaneKind.HOST]
        hosts = [lane for lane in lanes if base.lane_kind[lane] == LaneKind.HOST]
        blocking: dict[int, list[int]] = {}
        for lane in hosts:
            for at in self._words(lane):
                blocking.setdefault(actions[base.origin[at]], []).append(at)
        launched = {
            actions[base.origin[at]]
            for lane in device
            for at in self._words(lane)
            if base.origin[at] != NONE
        }
        # How many lanes and instructions wait for a token does not matter: one arrival opens it.
        launch = {action: self.out.token(rank, 1) for action in sorted(launched)}
        # The first lane of a rank is its program, which findings start from.
        for lane in device[:1]:
            self._device(rank, lane, actions, launch)
        self._host_lanes(rank, actions, blocking, launch)
        for lane in device[1:]:
            self._device(rank, lane, actions, launch)

    def _device(self, rank: int, lane: int, actions: list[int], launch: dict[int, int]) -> None:
        base, known = self.base, None
        self.out.open(rank, base.lane_kind[lane])
        for at in self._words(lane):
            entry = base.origin[at]
            action = None if entry == NONE else actions[entry]
            if action is not None and action != known:
                self.out.put(launch[action], AWAIT)
            known = action
            self.out.copy(at)

    def _host_lanes(
        self,
        rank: int,
        actions: list[int],
        blocking: dict[int, list[int]],
        launch: dict[int, int],
    ) -> None:
        calls = self.calls[rank]
        self.rank = rank
        homes = Homes()
        for action in sorted(set(actions)):
            homes.put(calls[action].home, action)
        tokens = Tokens(self.out, rank, calls, homes)
        for home, program in homes.items():
            self.out.hosts.setdefault(rank, {})[home] = len(self.out.lane_rank)
            self.out.open(rank, LaneKind.HOST)
            tokens.begin(home)
            for action in program:
                if action < 0:
                    tokens.fork(-1 - action)
                else:
                    self._call(action, blocking.get(action, []), tokens, launch)
            tokens.end(home)

    def _call(self, action: int, words: list[int], tokens: Tokens, launch: dict[int, int]) -> None:
        """Write one call: what is created for it, its turn, its launch, and what it waits for."""
        base = self.base
        is_last = self.calls[self.rank][action].is_last
        created = [at for at in words if base.why[at] == Why.INIT]
        others = [at for at in words if base.why[at] != Why.INIT]
        if is_last and created and (others or action in launch):
            raise UndecidedError("a call that creates a communicator, in which an exit cuts it off")
        put = self.out.arrive_only if is_last else self.out.copy_all
        tokens.call(action)
        put(created)
        tokens.turn(action)
        tokens.made(action)  # its handle is there once its communicator is
        if action in launch:
            self.out.put(launch[action], ARRIVE)
        put(others)
