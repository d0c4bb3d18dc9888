"""What one rank of a DDP job issues, in order.

The order is that of torch 2.13: ``DistributedDataParallel._pre_forward`` and the C++ ``Reducer``
(torch/csrc/distributed/c10d/reducer.cpp); tests/integration/test_ddp_gloo.py holds it against real
processes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planguard.errors import PlanError

from ..common.module import joined, plan_size
from .buckets import assign

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..common.calls import Row
    from ..common.module import ModuleInfo, Source, TensorInfo
    from .buckets import Bucket
    from .options import DdpOptions

BROADCAST_BYTES = 250 << 20
"""Size of the buffers that parameters and buffers are broadcast in."""
_IN_FLIGHT = 2
_HOOK_DTYPES = {"fp16_compress": "float16", "bf16_compress": "bfloat16"}


def rank_rows(module: ModuleInfo, options: DdpOptions, leader: DdpOptions) -> list[Row]:
    """Return what a rank issues, as a plan file has it.

    Args:
        module: The module, alike on all ranks.
        options: The options of this rank.
        leader: The options of rank 0, whose order of buckets all ranks adopt when they rebuild.

    Raises:
        PlanError: An option names a parameter that the module does not have.
    """
    return _Rank(module, options, leader).rows()


class _Rank:
    """Walks through the iterations of one rank."""

    def __init__(self, module: ModuleInfo, options: DdpOptions, leader: DdpOptions) -> None:
        self.module, self.options, self.leader = module, options, leader
        self.parameters = module.trainable
        self.names = [parameter.name for parameter in self.parameters]
        self.counts = [parameter.count for parameter in self.parameters]
        self.place = {name: at for at, name in enumerate(self.names)}
        self.reduced: dict[Bucket, tuple[str, Row]] = {}
        self.out: list[Row] = []
        self.works = 0
        first = assign(self.parameters, options.first_limits)
        self.buckets: tuple[Bucket, ...] = tuple(reversed(first))
        self.must_rebuild = False
        self.has_rebuilt = False
        self.synced = 0
        self.sync_buffers = True

    def rows(self) -> list[Row]:
        if self.options.init:
            self._constructor()
        for step in range(self.options.steps):
            self._forward(step)
            if not self._backward(step):
                break
        return self.out

    # --- construction ------------------------------------------------------------------------

    def _constructor(self) -> None:
        """Compare the number of parameters, then their shapes; send the state of rank 0."""
        if not self.parameters or not self.options.init_sync:
            return
        src = self.parameters[0].src
        dims = sum(2 * len(parameter.shape) for parameter in self.parameters)
        self._add("all_gather", "ddp: number of parameters", "int64", 1, src)
        self._add("broadcast", "ddp: shapes and strides", "int64", dims, src, root=0)
        buffers = self.module.buffers if self.options.broadcast_buffers else ()
        self._broadcast_coalesced("initial state", (*self.module.parameters, *buffers))

    def _broadcast_coalesced(self, what: str, tensors: Sequence[TensorInfo]) -> None:
        """Broadcast tensors in flat buffers, at most two of them under way."""
        flying: list[str] = []
        for number, bucket in enumerate(assign(tensors, [BROADCAST_BYTES])):
            inside = [tensors[at] for at in bucket]
            work = self._work()
            label = f"{what} {number}: {joined([tensor.name for tensor in inside])}"
            count = sum(tensor.count for tensor in inside)
            fields = {"root": 0, "async": True, "work": work}
            self._add("broadcast", label, inside[0].dtype, count, inside[0].src, **fields)
            flying.append(work)
            if len(flying) >= _IN_FLIGHT:
                self.out.append(_wait(flying.pop(0)))
        self.out += map(_wait, flying)

    # --- one iteration -----------------------------------------------------------------------

    def _forward(self, step: int) -> None:
        if self.must_rebuild:
            self._rebuild(step)
        if self.sync_buffers and self.options.broadcast_buffers and self.module.buffers:
            self._broadcast_coalesced(f"iter{step} buffers", self.module.buffers)
        self.out.append(_compute(f"iter{step} forward", "forward"))
        self.sync_buffers = step not in self.options.no_sync

    def _rebuild(self, step: int) -> None:
        """Adopt the buckets of rank 0: indices and their number, then the sizes of the buckets."""
        ready = _readiness(self.parameters, self.place, self.leader)
        self.buckets = assign(self.parameters, self.leader.rebuild_limits, ready)
        src, count = self.parameters[0].src, len(self.parameters)
        label = f"iter{step} rebuild"
        self._add("broadcast", f"{label}: indices", "int32", count + 1, src, root=0)
        self._add("broadcast", f"{label}: sizes", "int32", len(self.buckets), src, root=0)
        self.must_rebuild, self.has_rebuilt = False, True

    def _backward(self, step: int) -> bool:
        """Issue the buckets of an iteration; False when the rank goes no further."""
        options = self.options
        if step in options.no_sync or not self.parameters:
            self.out.append(_compute(f"iter{step} backward", "backward"))
            return True
        self.synced += 1
        missing = {self._index(name, "unused") for name in options.unused}
        finds = options.find_unused_parameters or options.static_graph
        if step == options.steps - 1 and options.branches and not finds:
            self.out += self._choices(step, missing, list(options.branches))
            return False
        calls, whole = self._reduction(step, set() if finds else missing)
        self.out += calls
        learning = options.static_graph and self.synced == 1
        if options.rebuilds and not self.has_rebuilt and not learning:
            self.must_rebuild = True
        return whole

    def _choices(self, step: int, missing: set[int], names: list[str]) -> list[Row]:
        """Return the last iteration once for every way through the branches of the module."""
        if not names:
            return self._reduction(step, missing)[0]
        branches = self.options.branches or {}
        only_here = {self._index(name, f"branches.{names[0]}") for name in branches[names[0]]}
        sides = [missing, missing | only_here]
        branched = [self._choices(step, side, names[1:]) for side in sides]
        fields = {"name": names[0], "uniform": self.options.uniform, "branches": branched}
        return [{"op": "choice", **fields}]

    def _reduction(self, step: int, missing: set[int]) -> tuple[list[Row], bool]:
        """Return the calls of one backward pass and whether all buckets were launched.

        Buckets start in the order of their index. One that lacks a gradient never starts, and none
        behind it; the pass then returns without waiting, and the next one raises.
        """
        options = self.options
        learning = options.static_graph and self.synced == 1
        whole = next((at for at, bucket in enumerate(self.buckets) if missing & set(bucket)), None)
        launched = self.buckets[:whole]
        works: list[str] = []
        used_map = self._used_map(step, works) if learning else []
        computes = [
            _compute(f"iter{step} backward {at}", "backward") for at in range(len(launched))
        ]
        silent = options.comm_hook == "noop"
        reductions = [] if silent else [self._reduce(step, bucket, works) for bucket in launched]
        if learning:
            calls = [*computes, *used_map, *reductions]
        elif silent:
            calls = computes
        elif options.launch == "any":
            calls = [*computes, {"op": "unordered", "body": reductions}]
        else:
            calls = [row for pair in zip(computes, reductions, strict=True) for row in pair]
        if options.find_unused_parameters and not options.static_graph and whole is None:
            calls += self._used_map(step, works)
        if whole is None and not silent:
            calls += map(_wait, works)
        return calls, whole is None

    def _reduce(self, step: int, bucket: Bucket, works: list[str]) -> Row:
        self.works += 1
        work = f"w{self.works}"
        works.append(work)
        found = self.reduced.get(bucket)
        if found is None:  # one for all steps
            dtype, src = self.parameters[bucket[0]].dtype, self.parameters[bucket[0]].src
            dtype = _HOOK_DTYPES.get(self.options.comm_hook, dtype)
            row: Row = {"op": "all_reduce", "src": src, "label": "", "phase": "backward"}
            row |= plan_size(dtype, sum([self.counts[at] for at in bucket]))
            row |= {"group": "world", "async": True, "work": ""}
            found = self.reduced[bucket] = joined([self.names[at] for at in bucket]), row
        return {**found[1], "label": f"iter{step} grad: {found[0]}", "work": work}

    def _used_map(self, step: int, works: list[str]) -> list[Row]:
        """Return the reduction of the map that says which parameters were used."""
        works.append(self._work())
        src, size = self.parameters[0].src, plan_size("int32", len(self.parameters))
        row: Row = {"op": "all_reduce", "src": src, "label": f"iter{step} used parameters"}
        row |= {"phase": "backward", **size, "group": "world", "async": True, "work": works[-1]}
        return [row]

    # --- shared ------------------------------------------------------------------------------

    def _add(self, op: str, label: str, dtype: str, count: int, src: Source, **fields: Any) -> None:
        size = plan_size(dtype, count)
        self.out.append({"op": op, "src": src, "label": label, **size, "group": "world", **fields})

    def _work(self) -> str:
        self.works += 1
        return f"w{self.works}"

    def _index(self, name: str, option: str) -> int:
        return _place(name, self.place, option, self.module.file)


def _compute(what: str, phase: str) -> Row:
    return {"op": "compute", "phase": phase, "op_name": what}


def _wait(work: str) -> Row:
    return {"op": "wait", "work": work}


def _readiness(
    parameters: Sequence[TensorInfo], place: dict[str, int], options: DdpOptions
) -> list[int]:
    """Return parameters in the order in which their gradients become ready; unused ones first."""
    unused = [place[name] for name in options.unused if name in place]
    told = [_place(name, place, "ready_order", None) for name in options.ready_order]
    order = list(dict.fromkeys([*unused, *told, *reversed(range(len(parameters)))]))
    if options.ready_order and len(set(told) | set(unused)) != len(parameters):
        missing = next(p.name for at, p in enumerate(parameters) if at not in {*told, *unused})
        hint = "name every parameter that gets a gradient once"
        raise PlanError(
            "the order of readiness leaves out a parameter", path="$.options.ready_order",
            value=missing, hint=hint,
        )  # fmt: skip
    return order


def _place(name: str, place: dict[str, int], option: str, file: str | None) -> int:
    if name not in place:
        raise PlanError(
            "the module has no trainable parameter of that name",
            file=file,
            path=f"$.options.{option}",
            value=name,
            hint=f"for example {next(iter(place), 'none: it has no trainable parameters')}",
        )
    return place[name]
