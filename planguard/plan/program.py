"""ProgramBuilder: the actions of one rank program or template, appended in order."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from planguard.plan import nodes as n
from planguard.plan.defects import nearest, refusal
from planguard.plan.operations import find, trouble_with

if TYPE_CHECKING:
    from collections.abc import Iterator

    from planguard.errors import PlanError

    Peer = int | str | dict[str, int | bool]

_CLASSES = n.OP_CLASSES
_RENAMED = {"async": "async_", "async_op": "async_"}


class ProgramBuilder:
    """A rank program under construction; ``PlanBuilder`` makes them.

    Every method appends one action and takes the optional fields of the plan format as keywords:
    ``label``, ``id``, ``stream``, ``src=(file, line, function)``, a size as ``bytes`` or ``count``
    and ``dtype`` or ``tensor`` or ``shape`` and ``dtype``, and so on. None means absent. Types and
    rules are checked once, by ``PlanBuilder.build``.
    """

    def __init__(self, path: str) -> None:
        self.actions: list[Any] = []
        self._block = self.actions
        self._path = path

    def __len__(self) -> int:
        return len(self.actions)

    def add(self, op: str, **fields: Any) -> None:
        """Append an action by operation name; ``async_`` or ``async_op`` stand for ``async``.

        Raises:
            PlanError: Unknown operation, unknown field or missing field.
        """
        try:
            self._block.append(_CLASSES[op](**fields))
        except (KeyError, TypeError):
            self._block.append(self._make(op, fields))
            return
        if None in fields.values():
            self._block[-1] = self._make(op, fields)

    def _make(self, op: str, fields: dict[str, Any]) -> n.Node:
        """Make an action from fields that need care: renamed, absent or wrong."""
        cls = _CLASSES.get(op) or find(op)
        if cls is None:
            hint = trouble_with(op) or nearest(op, _CLASSES)
            raise refusal("unknown operation", path=self._path, value=op, hint=hint)
        given = {_RENAMED.get(k, k): v for k, v in fields.items() if v is not None}
        try:
            return cls(**given)
        except TypeError as error:
            raise self._field_error(op, cls, given, error) from None

    def _field_error(
        self, op: str, cls: type[n.Node], given: dict[str, Any], error: TypeError
    ) -> PlanError:
        unknown = next((name for name in given if name not in cls.__struct_fields__), None)
        if unknown is None:
            return refusal(f"{op}: {error}", path=self._path)
        hint = nearest(unknown, cls.__struct_encode_fields__)
        message = f"{op} has no field {unknown!r}"
        return refusal(message, code="PG906", path=self._path, value=unknown, hint=hint)

    # --- point to point ----------------------------------------------------------------------

    def send(self, peer: Peer, **fields: Any) -> None:
        """Append a blocking send to a global rank, or to a step such as ``{"pp": 1}``."""
        self.add("send", peer=peer, **fields)

    def recv(self, peer: Peer = "any", **fields: Any) -> None:
        """Append a blocking receive; ``any`` takes any source."""
        self.add("recv", peer=peer, **fields)

    def isend(self, peer: Peer, **fields: Any) -> None:
        """Append a send that returns the handle named by ``work``."""
        self.add("isend", peer=peer, **fields)

    def irecv(self, peer: Peer = "any", **fields: Any) -> None:
        """Append a receive that returns the handle named by ``work``."""
        self.add("irecv", peer=peer, **fields)

    def probe(self, peer: Peer = "any", **fields: Any) -> None:
        """Append an MPI probe."""
        self.add("probe", peer=peer, **fields)

    # --- collectives -------------------------------------------------------------------------

    def all_reduce(self, group: str = "world", **fields: Any) -> None:
        """Append an all_reduce."""
        self.add("all_reduce", group=group, **fields)

    def all_gather(self, group: str = "world", **fields: Any) -> None:
        """Append an all_gather; its size is the input of one rank."""
        self.add("all_gather", group=group, **fields)

    def all_gather_into_tensor(self, group: str = "world", **fields: Any) -> None:
        """Append an all_gather_into_tensor; its size is the input of one rank."""
        self.add("all_gather_into_tensor", group=group, **fields)

    def reduce_scatter(self, group: str = "world", **fields: Any) -> None:
        """Append a reduce_scatter; its size is the output of one rank."""
        self.add("reduce_scatter", group=group, **fields)

    def reduce_scatter_tensor(self, group: str = "world", **fields: Any) -> None:
        """Append a reduce_scatter_tensor; its size is the output of one rank."""
        self.add("reduce_scatter_tensor", group=group, **fields)

    def broadcast(self, root: int, group: str = "world", **fields: Any) -> None:
        """Append a broadcast from a global rank."""
        self.add("broadcast", root=root, group=group, **fields)

    def reduce(self, root: int, group: str = "world", **fields: Any) -> None:
        """Append a reduce to a global rank."""
        self.add("reduce", root=root, group=group, **fields)

    def gather(self, root: int, group: str = "world", **fields: Any) -> None:
        """Append a gather to a global rank."""
        self.add("gather", root=root, group=group, **fields)

    def scatter(self, root: int, group: str = "world", **fields: Any) -> None:
        """Append a scatter from a global rank; its size is what each rank gets."""
        self.add("scatter", root=root, group=group, **fields)

    def all_to_all(self, group: str = "world", **fields: Any) -> None:
        """Append an all_to_all."""
        self.add("all_to_all", group=group, **fields)

    def all_to_all_single(self, group: str = "world", **fields: Any) -> None:
        """Append an all_to_all_single; ``in_splits`` and ``out_splits`` if it is uneven."""
        self.add("all_to_all_single", group=group, **fields)

    def barrier(self, group: str = "world", **fields: Any) -> None:
        """Append a barrier."""
        self.add("barrier", group=group, **fields)

    # --- handles, computation, streams, groups -----------------------------------------------

    def wait(self, work: str | list[str], mode: str | None = None, **fields: Any) -> None:
        """Append a wait for one handle or several (``mode``: all, any, some)."""
        if mode is not None:
            fields["mode"] = mode
        self.add("wait", work=work, **fields)

    def test(self, work: str, **fields: Any) -> None:
        """Append a poll of a handle."""
        self.add("test", work=work, **fields)

    def drop(self, work: str, **fields: Any) -> None:
        """Append the death of a handle that nobody waited for."""
        self.add("drop", work=work, **fields)

    def compute(self, op_name: str, deps: list[str] | None = None, **fields: Any) -> None:
        """Append a computation that depends on the actions with the ids ``deps``."""
        if deps:
            fields["deps"] = deps
        self.add("compute", op_name=op_name, **fields)

    def h2d(self, **fields: Any) -> None:
        """Append a copy from the host to this rank's device."""
        self.add("h2d", **fields)

    def d2h(self, **fields: Any) -> None:
        """Append a copy from this rank's device to the host."""
        self.add("d2h", **fields)

    def d2d(self, peer: int | None = None, **fields: Any) -> None:
        """Append a copy on this rank's device, or to the device of ``peer``."""
        self.add("d2d", peer=peer, **fields)

    def host_sync(self, stream: str | None = None, **fields: Any) -> None:
        """Append a host wait for one stream, or for everything."""
        if stream is not None:
            fields["stream"] = stream
        self.add("host_sync", **fields)

    def event_record(self, event: str, **fields: Any) -> None:
        """Append the recording of an event on ``stream``."""
        self.add("event_record", event=event, **fields)

    def event_wait(self, event: str, **fields: Any) -> None:
        """Append a wait of ``stream`` for an event."""
        self.add("event_wait", event=event, **fields)

    def init(self, group: str = "world", **fields: Any) -> None:
        """Append the creation of a communicator."""
        self.add("init", group=group, **fields)

    def new_group(self, group: str, **fields: Any) -> None:
        """Append the torch call ``new_group``."""
        self.add("new_group", group=group, **fields)

    def destroy(self, group: str = "world", **fields: Any) -> None:
        """Append the end of a group on this rank."""
        self.add("destroy", group=group, **fields)

    def exit(self, **fields: Any) -> None:
        """Append the end of the rank."""
        self.add("exit", **fields)

    # --- blocks ------------------------------------------------------------------------------

    @contextmanager
    def _inside(self) -> Iterator[list[Any]]:
        outer, self._block = self._block, []
        try:
            yield self._block
        finally:
            self._block = outer

    @contextmanager
    def batch(self, work: str | None = None, **fields: Any) -> Iterator[None]:
        """Collect sends, receives and collectives into one launch."""
        with self._inside() as ops:
            yield
        self.add("batch", ops=ops, work=work, **fields)

    @contextmanager
    def coalesced(self, kind: str, group: str = "world", **fields: Any) -> Iterator[None]:
        """Collect ``part`` calls into one coalesced collective."""
        with self._inside() as parts:
            yield
        self.add("coalesced", kind=kind, group=group, ops=parts, **fields)

    def part(self, **fields: Any) -> None:
        """Append one tensor of a coalesced collective."""
        self._block.append(n.Part(**{k: v for k, v in fields.items() if v is not None}))

    @contextmanager
    def repeat(self, times: int, **fields: Any) -> Iterator[None]:
        """Collect the body of a loop; ``{i}`` in labels and ids is the iteration."""
        with self._inside() as body:
            yield
        self.add("repeat", times=times, body=body, **fields)

    @contextmanager
    def unordered(self, **fields: Any) -> Iterator[None]:
        """Collect items that may be issued in any order that ``after`` allows."""
        with self._inside() as body:
            yield
        self.add("unordered", body=body, **fields)

    @contextmanager
    def chain(self) -> Iterator[None]:
        """Collect items of an ``unordered`` block that keep their order."""
        with self._inside() as items:
            yield
        self._block.append(items)

    @contextmanager
    def threads(self, **fields: Any) -> Iterator[None]:
        """Collect ``thread`` blocks that run interleaved."""
        with self._inside() as threads:
            yield
        self.add("threads", threads=threads, **fields)

    thread = chain

    @contextmanager
    def choice(self, name: str, *, uniform: bool = False, **fields: Any) -> Iterator[None]:
        """Collect the ``branch`` blocks of a data-dependent branch."""
        with self._inside() as branches:
            yield
        self.add("choice", name=name, uniform=uniform, branches=branches, **fields)

    branch = chain
