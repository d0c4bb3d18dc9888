"""A process group that communicates nothing and records everything.

It is a Python subclass of torch's ``ProcessGroup``, so it sees what Python patches miss: the C++
reducer of DDP, FSDP2, DTensor and the functional collectives all end here. Results are made up from
the rank's own data, as if every rank had the same.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from planguard.capture.groups.recorder import Issued, Recorder, call_site, size
from planguard.capture.names.data_names import DATA
from planguard.semantics.gloo import MONITORED, MONITORED_RANKS

if TYPE_CHECKING:
    from collections.abc import Sequence

BACKEND = "planguard"


def _nothing(*, soft: bool = False) -> None:
    """Fetch nothing: what a call brings was made up when it was issued."""


@cache
def stub_work_class() -> Any:
    """Return the work handle: done at once, and it tells the recorder who waits."""
    import torch
    from torch.distributed import Work

    class StubWork(Work):  # type: ignore[misc]  # torch is Any here
        def __init__(self, recorder: Recorder, issued: Issued, result: list[Any]) -> None:
            super().__init__()
            self.recorder = recorder
            self.issued = issued
            self.future: Any = torch.futures.Future()
            self.future.set_result(result)
            self.arrive: Any = _nothing
            self.sender: Any = -1

        def _source_rank(self) -> Any:
            return self.sender

        def wait(self, timeout: Any = None) -> bool:
            self.recorder.wait(self.issued)
            self.arrive()
            return True

        def get_future(self) -> Any:
            # The reducer of DDP waits through the future, before backward returns.
            self.recorder.wait_unseen(self.issued)
            self.recorder.futures[self.future] = self.issued
            self.arrive(soft=True)
            return self.future

        def is_completed(self) -> bool:
            self.arrive(soft=True)
            return True

        def is_success(self) -> bool:
            return True

        def __del__(self) -> None:
            self.recorder.drop(self.issued)

    return StubWork


@cache
def stub_group_class() -> Any:
    """Return the process group class; made at the first call, since torch must be imported."""
    import torch
    import torch.distributed as dist

    class StubGroup(_Collectives, dist.ProcessGroup):  # type: ignore[misc]  # torch is Any here
        def __init__(self, recorder: Recorder, ranks: list[int], key: str) -> None:
            super().__init__(ranks.index(recorder.rank), len(ranks))
            self.recorder = recorder
            self.members = ranks
            self.key = key
            self.no_grad = torch.no_grad
            self._name = ""
            self._desc = ""

        def getBackendName(self) -> str:  # noqa: N802 - torch's name
            return BACKEND

        def getRank(self) -> int:  # noqa: N802 - torch's name
            return self.members.index(self.recorder.rank)

        def getSize(self) -> int:  # noqa: N802 - torch's name
            return len(self.members)

        def _set_group_name(self, name: str) -> None:
            self._name = name
            super()._set_group_name(name)

        @property
        def _device_types(self) -> list[Any]:
            return [torch.device("cpu")]

        @property
        def pg_name(self) -> str:
            return self._name

        @property
        def group_name(self) -> str:
            return self._name

        def __repr__(self) -> str:
            return f"StubGroup({self.members})"

    return StubGroup


class _Collectives:
    """Every method of ``ProcessGroup`` that communicates, under its names of torch 2.11 to 2.14."""

    recorder: Recorder
    members: list[int]
    key: str
    no_grad: Any

    # --- collectives -------------------------------------------------------------------------

    def allreduce(self, tensors: Any, opts: Any = None, **_: Any) -> Any:
        """Leave the tensors as they are: the average of equal ones."""
        tensors = _list(tensors)
        return self._issue("all_reduce", tensors, tensors, reduce_op=_reduce_op(opts))

    def allreduce_coalesced(self, tensors: Any, opts: Any = None, **_: Any) -> Any:
        """Like ``allreduce``, for a list in one launch."""
        return self._coalesced("all_reduce", tensors, tensors, reduce_op=_reduce_op(opts))

    def broadcast(self, tensors: Any, opts: Any = None, *_: Any, **__: Any) -> Any:
        """Leave the tensors as they are."""
        tensors = _list(tensors)
        return self._issue("broadcast", tensors, tensors, root=self._root(opts))

    def reduce(self, tensors: Any, opts: Any = None, *rest: Any, **_: Any) -> Any:
        """Leave the tensors as they are."""
        tensors = _list(tensors)
        reduce_op = _reduce_op(rest[0] if rest else opts)
        return self._issue("reduce", tensors, tensors, root=self._root(opts), reduce_op=reduce_op)

    def allgather(self, outputs: Any, inputs: Any, opts: Any = None, **_: Any) -> Any:
        """Copy the own tensor into every place."""
        inputs = _list(inputs)
        lists = outputs if outputs and isinstance(outputs[0], (list, tuple)) else [outputs]
        for places, tensor in zip(lists, inputs, strict=True):
            for place in places:
                self._fill(place, tensor)
        flat = [place for places in lists for place in places]
        return self._issue("all_gather", inputs, flat)

    def allgather_coalesced(self, outputs: Any, inputs: Any, opts: Any = None, **_: Any) -> Any:
        """Like ``allgather``, for a list in one launch; one list of outputs for every rank.

        Plans have one name for gathers in one launch; their parts are compared size by size.
        """
        inputs = _list(inputs)
        for places in outputs:
            for place, tensor in zip(places, inputs, strict=True):
                self._fill(place, tensor)
        flat = [place for places in outputs for place in places]
        return self._coalesced("all_gather_into_tensor", inputs, flat)

    def all_gather_single(self, output: Any, tensor: Any, opts: Any = None, **_: Any) -> Any:
        """Repeat the own tensor."""
        self._repeat(output, tensor)
        return self._issue("all_gather_into_tensor", [tensor], [output])

    def all_gather_single_coalesced(
        self, outputs: Any, inputs: Any, opts: Any = None, **_: Any
    ) -> Any:
        """Like ``all_gather_single``, for a list in one launch."""
        for output, tensor in zip(outputs, inputs, strict=True):
            self._repeat(output, tensor)
        return self._coalesced("all_gather_into_tensor", inputs, outputs)

    def reduce_scatter(self, outputs: Any, inputs: Any, opts: Any = None, **_: Any) -> Any:
        """Keep the own part."""
        outputs = _list(outputs)
        lists = inputs if inputs and isinstance(inputs[0], (list, tuple)) else [inputs]
        for output, parts in zip(outputs, lists, strict=True):
            self._fill(output, parts[self._place()])
        return self._issue("reduce_scatter", outputs, outputs, reduce_op=_reduce_op(opts))

    def reduce_scatter_single(self, output: Any, tensor: Any, opts: Any = None, **_: Any) -> Any:
        """Keep the own part."""
        self._own_part(output, tensor)
        reduce_op = _reduce_op(opts)
        return self._issue("reduce_scatter_tensor", [output], [output], reduce_op=reduce_op)

    def reduce_scatter_single_coalesced(
        self, outputs: Any, inputs: Any, opts: Any = None, **_: Any
    ) -> Any:
        """Like ``reduce_scatter_single``, for a list in one launch."""
        for output, tensor in zip(outputs, inputs, strict=True):
            self._own_part(output, tensor)
        reduce_op = _reduce_op(opts)
        return self._coalesced("reduce_scatter_tensor", outputs, outputs, reduce_op=reduce_op)

    def gather(self, outputs: Any, inputs: Any, opts: Any = None, *_: Any, **__: Any) -> Any:
        """Repeat the own tensor at the root."""
        inputs = _list(inputs)
        for places in outputs or []:
            for place in _list(places):
                self._fill(place, inputs[0])
        return self._issue("gather", inputs, inputs, root=self._root(opts))

    def gather_single(self, output: Any, tensor: Any, opts: Any = None, **_: Any) -> Any:
        """Repeat the own tensor at the root; new in torch 2.14."""
        if output is not None and output.numel():
            self._repeat(output, tensor)
        return self._issue("gather", [tensor], [tensor], root=self._root(opts))

    def scatter(self, outputs: Any, inputs: Any, opts: Any = None, *_: Any, **__: Any) -> Any:
        """Keep the own part at the root; elsewhere leave the output as it is."""
        outputs = _list(outputs)
        for parts in inputs or []:
            self._fill(outputs[0], _list(parts)[self._place()])
        return self._issue("scatter", outputs, outputs, root=self._root(opts))

    def all_to_all_single(
        self, output: Any, tensor: Any, out_splits: Any, in_splits: Any, opts: Any = None, **_: Any
    ) -> Any:
        """Copy the own tensor where the sizes allow it."""
        self._fill(output, tensor)
        splits = {}
        for name, rows, whole in (
            ("in_splits", in_splits, tensor),
            ("out_splits", out_splits, output),
        ):
            row = whole.numel() // whole.shape[0] if whole.dim() and whole.shape[0] else 1
            if rows is not None and len(rows):  # an array of numpy has no truth value
                splits[name] = [int(part) * row for part in rows]
        uneven = any(len(set(parts)) > 1 for parts in splits.values())
        if uneven:
            self._dependent("an all_to_all with uneven splits")
        return self._issue("all_to_all_single", [tensor], [output], **splits)

    def alltoall(self, outputs: Any, inputs: Any, opts: Any = None, **_: Any) -> Any:
        """Copy the own tensors where the sizes allow it."""
        for output, tensor in zip(outputs, inputs, strict=True):
            self._fill(output, tensor)
        splits = {
            "in_splits": [tensor.numel() for tensor in inputs],
            "out_splits": [tensor.numel() for tensor in outputs],
        }
        if any(len(set(parts)) > 1 for parts in splits.values()):
            self._dependent("an all_to_all with uneven splits")
        return self._issue("all_to_all", list(inputs), list(outputs), **splits)

    def _note_monitored(self) -> None:
        """Say that the next barrier is a monitored one, where its members count it differently."""
        if len(self.members) >= MONITORED_RANKS:
            site = call_site()
            at = f" at {site[0]}:{site[1]}" if site else ""
            self.recorder.note(
                MONITORED,
                f"monitored_barrier{at} counts more calls on its first rank than on the others: "
                "with TORCH_DISTRIBUTED_DEBUG=DETAIL the next collective of the group fails",
                "under",
            )

    def barrier(self, opts: Any = None, **_: Any) -> Any:
        """Record a barrier."""
        return self._work(self.recorder.issue("barrier", self.key, {}), [])

    # --- point to point ----------------------------------------------------------------------

    def send(self, tensors: Any, peer: int, tag: int = 0) -> Any:
        """Record a send; the wait tells whether it was a blocking one."""
        return self._pair("isend", tensors, peer, tag)

    def recv(self, tensors: Any, peer: int, tag: int = 0) -> Any:
        """Record a receive of zeros."""
        self._zero(tensors)
        return self._pair("irecv", tensors, peer, tag)

    def recv_anysource(self, tensors: Any, tag: int = 0) -> Any:
        """Record a receive from anyone."""
        self._zero(tensors)
        fields = {"peer": "any", "tag": tag, **size(tensors[0])}
        return self._work(self.recorder.issue("irecv", self.key, fields), list(tensors))

    def _pair(self, op: str, tensors: Any, peer: int, tag: int) -> Any:
        self._dependent(f"a {op} to or from rank {self.members[peer]}")
        fields = {"peer": self.members[peer], "tag": tag, **size(tensors[0])}
        return self._work(self.recorder.issue(op, self.key, fields), list(tensors))

    # --- coalescing by the caller ------------------------------------------------------------

    def _start_coalescing(self, device: Any) -> None:
        self.recorder.batch = []

    def _end_coalescing(self, device: Any) -> Any:
        members = list(self.recorder.batch or [])
        self.recorder.end_batch()
        first = members[0] if members else Issued({"op": "nothing"}, "", waited=True)
        return self._work(first, [])

    # --- shared ------------------------------------------------------------------------------

    def _issue(self, op: str, sized: Sequence[Any], result: Sequence[Any], **fields: Any) -> Any:
        if len(sized) == 1:
            fields.update(size(sized[0]))
        else:
            fields["bytes"] = sum(tensor.numel() * tensor.element_size() for tensor in sized)
        data = self.recorder.data(sized)
        if data is not None:
            fields[DATA] = data
        return self._work(self.recorder.issue(op, self.key, fields), list(result))

    def _coalesced(self, kind: str, sized: Any, result: Any, **fields: Any) -> Any:
        if len(sized) == 1:  # the functional collectives send every single tensor this way
            return self._issue(kind, list(sized), list(result), **fields)
        fields.update({"kind": kind, "ops": [size(tensor) for tensor in sized]})
        return self._work(self.recorder.issue("coalesced", self.key, fields), list(result))

    def _work(self, issued: Issued, result: list[Any]) -> Any:
        return stub_work_class()(self.recorder, issued, result)

    def _root(self, opts: Any) -> int:
        place = opts if isinstance(opts, int) else int(getattr(opts, "rootRank", 0))
        return self.members[place]

    def _place(self) -> int:
        return self.members.index(self.recorder.rank)

    def _dependent(self, what: str) -> None:
        if what not in self.recorder.problems:
            self.recorder.problems.append(what)

    def _fill(self, target: Any, tensor: Any) -> None:
        with self.no_grad():
            if target.shape == tensor.shape:
                target.copy_(tensor)
            elif target.numel() == tensor.numel():
                target.copy_(tensor.reshape(target.shape))
            else:
                target.zero_()

    def _repeat(self, output: Any, tensor: Any) -> None:
        with self.no_grad():
            parts = len(self.members)
            if output.numel() == tensor.numel() * parts:
                output.copy_(tensor.reshape(-1).repeat(parts).reshape(output.shape))

    def _own_part(self, output: Any, tensor: Any) -> None:
        with self.no_grad():
            flat = tensor.reshape(-1)
            count = output.numel()
            start = self._place() * count
            output.copy_(flat[start : start + count].reshape(output.shape))

    def _zero(self, tensors: Any) -> None:
        with self.no_grad():
            for tensor in tensors:
                tensor.zero_()

    gather_into_tensor = gather_single
    _allgather_base = all_gather_single
    allgather_into_tensor_coalesced = all_gather_single_coalesced
    _reduce_scatter_base = reduce_scatter_single
    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced
    alltoall_base = all_to_all_single


def _list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _reduce_op(opts: Any) -> str:
    """Name the reduction: from options, from a ReduceOp, or torch's default."""
    op = getattr(opts, "reduceOp", opts)
    for name, one in _reductions():
        if op == one:
            return name
    return "premul_sum" if "PREMUL" in str(op) else "sum"


@cache
def _reductions() -> tuple[tuple[str, Any], ...]:
    """Return the names of reductions, and what torch has for them."""
    import torch.distributed as dist

    names = ("sum", "avg", "product", "min", "max", "band", "bor", "bxor", "premul_sum")
    return tuple((name, getattr(dist.ReduceOp, name.upper(), None)) for name in names)
