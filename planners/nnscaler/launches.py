"""When gradient buckets are launched and waited for: inside a backward, or at ``sync_grads``."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from . import prims
from .model import Comm, Label, Wait, Where, Window
from .reducers import Bucket, build_buckets

if TYPE_CHECKING:
    from .rank import Rank
    from .tape import Undone


@dataclass
class _State:
    """A bucket during a step: how many gradients are there, and the handle once it is launched."""

    bucket: Bucket
    ready: int = 0
    work: str | None = None


class Launches:
    """The reducers of one rank."""

    def __init__(self, rank: Rank) -> None:
        self._rank = rank
        self._states: dict[str, list[_State]] = {}

    def start(self) -> None:
        """Build the buckets, and create the groups that ZeRO needs.

        Raises:
            PlanError: A reducer is malformed.
        """
        rank = self._rank
        built = build_buckets(rank.module, rank.program.rank)
        for name, buckets in built.items():
            self._states[name] = [_State(bucket) for bucket in buckets]
            for ranks in dict.fromkeys(r for b in buckets for r in (b.shard, b.cross) if r):
                rank.create(ranks, rank.module.reducers[name].where)

    def zero_grad(self) -> None:
        """Forget the gradients of the last step."""
        for state in self._all():
            state.ready, state.work = 0, None

    def _all(self) -> list[_State]:
        return [state for states in self._states.values() for state in states]

    def backward(self, happened: list[Undone], number: int, where: Where) -> None:
        """Write what happens during a backward.

        Raises:
            Raises: nnScaler finds gradients accumulated under an asynchronous reducer.
        """
        any_order = self._rank.options.reducer_order == "any"
        windowed: list[Comm] = []
        chain: list[Comm] = []
        for moment in happened:
            if moment.comm is not None:
                comm = _of_call(moment.comm, number)
                if any_order:
                    chain.append(comm)
                else:
                    self._rank.issue(comm, [])
            for launched in self._complete(moment.params, where):
                if any_order:
                    windowed.append(launched)
                else:
                    self._rank.issue(launched, [])
        self._window(windowed, chain, where)

    def _window(self, windowed: list[Comm], chain: list[Comm], where: Where) -> None:
        if len(windowed) + bool(chain) < 2:
            for comm in (*chain, *windowed):
                self._rank.issue(comm, [])
            return
        for comm in (*chain, *windowed):
            self._rank.check(comm)
            if comm.ranks:
                self._rank.create(comm.ranks, comm.where)
        self._rank.program.steps.append(Window(tuple(windowed), tuple(chain), where))

    def _complete(self, params: tuple[str, ...], where: Where) -> list[Comm]:
        """Run the gradient hooks of parameters; returns what they launch."""
        if self._rank.skip_reducer or not params:
            return []
        launched: list[Comm] = []
        for state in self._all():
            mine = [name for name in params if name in state.bucket.params]
            if not mine or not state.bucket.asynchronous:
                continue
            state.ready += len(mine)
            if state.ready > len(state.bucket.params):
                raise prims.Raises(
                    "RuntimeError: Detected gradient accumulation with asynchronous Reducer.",
                    where[1],
                )
            if state.ready == len(state.bucket.params):
                state.work = self._rank.new_handle()
                launched += state.bucket.launch(where, state.work)
        return launched

    def synchronize(self, name: str, where: Where) -> None:
        """Run ``sync_grads`` of a reducer: launch what is synchronous, wait for the rest.

        Raises:
            Raises: A bucket was never launched, or the reducer does not exist.
        """
        rank = self._rank
        if name not in self._states:
            error = f"AttributeError: 'GenModel' object has no attribute {name!r}"
            raise prims.Raises(error, where[1])
        if rank.skip_reducer:
            return
        for state in self._states[name]:
            if not state.bucket.asynchronous:
                for comm in state.bucket.launch(where, None):
                    rank.issue(comm, [])
            elif state.work is None:
                # Bucket.sync_grads asserts that the hook has launched it.
                raise prims.Raises("AssertionError: self._async_handle is not None", where[1])
            else:
                rank.program.steps.append(Wait((state.work,), where))

    def gather_params(self) -> None:
        """Gather updated parameters after the optimizer's step, with ZeRO."""
        for name, states in self._states.items():
            where = self._rank.module.reducers[name].where
            for state in states:
                if state.bucket.zero:
                    self._rank.issue(state.bucket.gather(where), [])


def _of_call(comm: Comm, number: int) -> Comm:
    """Let a dual belong to the backward that issues it."""
    stem = comm.label.stem if comm.label is not None else ""
    return replace(comm, label=Label(stem, number), phase="B")
