"""ProgramBuilder: a method for every operation of the plan format."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Unpack, cast

from planguard.plan.building.appending import Appender

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planguard.plan.building.blocks import Block, Handle
    from planguard.plan.building.fields import (
        ActionFields,
        CoalescedFields,
        CollectiveFields,
        ComputeFields,
        CopyFields,
        MessageFields,
        PartFields,
        Peer,
        PlainFields,
        RecvFields,
        SendFields,
    )


class ProgramBuilder(Appender):
    """A rank program under construction; ``PlanBuilder`` makes them.

    Every method appends one action and takes the optional fields of the plan format as keywords
    (``planguard.plan.building.fields``): ``label``, ``id``, ``stream``, ``src=(file, line,
    function)``, a size as ``bytes`` or ``count`` and ``dtype`` or ``tensor`` or ``shape`` and
    ``dtype``, and so on. None means absent. Names, types and ranges are checked at the call; what
    needs the whole plan is checked by ``PlanBuilder.build``, whose error names the line of the
    call.

    ``isend``, ``irecv`` and asynchronous collectives return their handle:

        >>> from planguard import PlanBuilder
        >>> p = PlanBuilder(2).program(0)
        >>> w = p.isend(1, bytes=4)
        >>> p.wait(w)

    Blocks (``batch``, ``coalesced``, ``repeat``, ``unordered``, ``threads``, ``choice``, and
    ``chain``, ``thread``, ``branch`` inside them) are written with ``with``; anything else is an
    error.
    """

    # --- point to point ----------------------------------------------------------------------

    def send(self, peer: Peer, **fields: Unpack[SendFields]) -> None:
        """Append a blocking send to a global rank, or to a step such as ``{"pp": 1}``."""
        self._append("send", {"peer": peer, **fields})

    def recv(self, peer: Peer = "any", **fields: Unpack[RecvFields]) -> None:
        """Append a blocking receive; ``any`` takes any source."""
        self._append("recv", {"peer": peer, **fields})

    def isend(self, peer: Peer, **fields: Unpack[SendFields]) -> Handle:
        """Append a send that returns the handle named by ``work``."""
        return cast("Handle", self._append("isend", {"peer": peer, **fields}))

    def irecv(self, peer: Peer = "any", **fields: Unpack[RecvFields]) -> Handle:
        """Append a receive that returns the handle named by ``work``."""
        return cast("Handle", self._append("irecv", {"peer": peer, **fields}))

    def probe(self, peer: Peer = "any", **fields: Unpack[MessageFields]) -> None:
        """Append an MPI probe."""
        self._append("probe", {"peer": peer, **fields})

    # --- collectives -------------------------------------------------------------------------

    def all_reduce(self, group: str = "world", **fields: Unpack[CollectiveFields]) -> Handle | None:
        """Append an all_reduce."""
        return self._append("all_reduce", {"group": group, **fields})

    def all_gather(self, group: str = "world", **fields: Unpack[CollectiveFields]) -> Handle | None:
        """Append an all_gather; its size is the input of one rank."""
        return self._append("all_gather", {"group": group, **fields})

    def all_gather_into_tensor(
        self, group: str = "world", **fields: Unpack[CollectiveFields]
    ) -> Handle | None:
        """Append an all_gather_into_tensor; its size is the input of one rank."""
        return self._append("all_gather_into_tensor", {"group": group, **fields})

    def reduce_scatter(
        self, group: str = "world", **fields: Unpack[CollectiveFields]
    ) -> Handle | None:
        """Append a reduce_scatter; its size is the output of one rank."""
        return self._append("reduce_scatter", {"group": group, **fields})

    def reduce_scatter_tensor(
        self, group: str = "world", **fields: Unpack[CollectiveFields]
    ) -> Handle | None:
        """Append a reduce_scatter_tensor; its size is the output of one rank."""
        return self._append("reduce_scatter_tensor", {"group": group, **fields})

    def broadcast(
        self, root: int, group: str = "world", **fields: Unpack[CollectiveFields]
    ) -> Handle | None:
        """Append a broadcast from a global rank."""
        return self._append("broadcast", {"root": root, "group": group, **fields})

    def reduce(
        self, root: int, group: str = "world", **fields: Unpack[CollectiveFields]
    ) -> Handle | None:
        """Append a reduce to a global rank."""
        return self._append("reduce", {"root": root, "group": group, **fields})

    def gather(
        self, root: int, group: str = "world", **fields: Unpack[CollectiveFields]
    ) -> Handle | None:
        """Append a gather to a global rank."""
        return self._append("gather", {"root": root, "group": group, **fields})

    def scatter(
        self, root: int, group: str = "world", **fields: Unpack[CollectiveFields]
    ) -> Handle | None:
        """Append a scatter from a global rank; its size is what each rank gets."""
        return self._append("scatter", {"root": root, "group": group, **fields})

    def all_to_all(self, group: str = "world", **fields: Unpack[CollectiveFields]) -> Handle | None:
        """Append an all_to_all."""
        return self._append("all_to_all", {"group": group, **fields})

    def all_to_all_single(
        self, group: str = "world", **fields: Unpack[CollectiveFields]
    ) -> Handle | None:
        """Append an all_to_all_single; ``in_splits`` and ``out_splits`` if it is uneven."""
        return self._append("all_to_all_single", {"group": group, **fields})

    def barrier(self, group: str = "world", **fields: Unpack[CollectiveFields]) -> Handle | None:
        """Append a barrier."""
        return self._append("barrier", {"group": group, **fields})

    # --- handles, computation, streams, groups -----------------------------------------------

    def wait(
        self,
        work: Handle | str | Sequence[Handle | str] | None,
        mode: Literal["all", "any", "some"] | None = None,
        **fields: Unpack[ActionFields],
    ) -> None:
        """Append a wait for one handle or several (``mode``: all, any, some).

        Raises:
            PlanError: A handle is of another program, or there is none: the call was synchronous.
        """
        named = self._names(work)
        self._append("wait", {"work": named, "mode": mode, **fields})

    def test(self, work: Handle | str, **fields: Unpack[ActionFields]) -> None:
        """Append a poll of a handle."""
        named = self._names(work)
        self._append("test", {"work": named, **fields})

    def drop(self, work: Handle | str, **fields: Unpack[ActionFields]) -> None:
        """Append the death of a handle that nobody waited for."""
        named = self._names(work)
        self._append("drop", {"work": named, **fields})

    def compute(
        self, op_name: str, deps: list[str] | None = None, **fields: Unpack[ComputeFields]
    ) -> None:
        """Append a computation that depends on the actions with the ids ``deps``."""
        self._append(
            "compute", {"op_name": op_name, "deps": None if deps in ([], ()) else deps, **fields}
        )

    def h2d(self, **fields: Unpack[CopyFields]) -> None:
        """Append a copy from the host to this rank's device."""
        self._append("h2d", dict(fields))

    def d2h(self, **fields: Unpack[CopyFields]) -> None:
        """Append a copy from this rank's device to the host."""
        self._append("d2h", dict(fields))

    def d2d(self, peer: int | None = None, **fields: Unpack[CopyFields]) -> None:
        """Append a copy on this rank's device, or to the device of ``peer``."""
        self._append("d2d", {"peer": peer, **fields})

    def host_sync(self, stream: str | None = None, **fields: Unpack[PlainFields]) -> None:
        """Append a host wait for one stream, or for everything."""
        self._append("host_sync", {"stream": stream, **fields})

    def event_record(self, event: str, **fields: Unpack[ActionFields]) -> None:
        """Append the recording of an event on ``stream``."""
        self._append("event_record", {"event": event, **fields})

    def event_wait(self, event: str, **fields: Unpack[ActionFields]) -> None:
        """Append a wait of ``stream`` for an event."""
        self._append("event_wait", {"event": event, **fields})

    def init(self, group: str = "world", **fields: Unpack[ActionFields]) -> None:
        """Append the creation of a communicator."""
        self._append("init", {"group": group, **fields})

    def new_group(self, group: str, **fields: Unpack[ActionFields]) -> None:
        """Append the torch call ``new_group``."""
        self._append("new_group", {"group": group, **fields})

    def destroy(self, group: str = "world", **fields: Unpack[ActionFields]) -> None:
        """Append the end of a group on this rank."""
        self._append("destroy", {"group": group, **fields})

    def exit(self, **fields: Unpack[ActionFields]) -> None:
        """Append the end of the rank."""
        self._append("exit", dict(fields))

    # --- blocks ------------------------------------------------------------------------------

    def batch(self, work: str | None = None, **fields: Unpack[ActionFields]) -> Block:
        """Collect sends, receives and collectives into one launch.

        ``with p.batch(work="b") as b:`` gives the handle; without ``work`` it is waited at once.
        """
        return self._new_block("batch", {"work": work, **fields})

    def coalesced(
        self, kind: str, group: str = "world", **fields: Unpack[CoalescedFields]
    ) -> Block:
        """Collect ``part`` calls into one coalesced collective."""
        return self._new_block("coalesced", {"kind": kind, "group": group, **fields})

    def part(self, **fields: Unpack[PartFields]) -> None:
        """Append one tensor of a coalesced collective."""
        self._add_part(dict(fields))

    def repeat(self, times: int, **fields: Unpack[ActionFields]) -> Block:
        """Collect the body of a loop; ``{i}`` in labels and ids is the iteration."""
        return self._new_block("repeat", {"times": times, **fields})

    def unordered(self, **fields: Unpack[ActionFields]) -> Block:
        """Collect items that may be issued in any order that ``after`` allows."""
        return self._new_block("unordered", dict(fields))

    def chain(self) -> Block:
        """Collect items of an ``unordered`` block that keep their order."""
        return self._new_block("chain", None)

    def threads(self, **fields: Unpack[ActionFields]) -> Block:
        """Collect ``thread`` blocks that run interleaved."""
        return self._new_block("threads", dict(fields))

    def thread(self) -> Block:
        """Collect the actions of one thread of ``threads``."""
        return self._new_block("thread", None)

    def choice(self, name: str, *, uniform: bool = False, **fields: Unpack[ActionFields]) -> Block:
        """Collect the ``branch`` blocks of a data-dependent branch."""
        return self._new_block("choice", {"name": name, "uniform": uniform, **fields})

    def branch(self) -> Block:
        """Collect the actions of one branch of a ``choice``."""
        return self._new_block("branch", None)
