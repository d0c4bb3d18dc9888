"""Turn steps into a plan: the only module here that talks to ``PlanBuilder``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .actions import Kind
from .steps import Compute, Message, Shard, Step, Transfer, Wait, Where

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planguard.plan.building.builder import PlanBuilder
    from planguard.plan.building.program import ProgramBuilder
    from planguard.plan.plan import Plan

    from .options import PipeliningOptions

_VOTE_BYTES = 4
"""The vote of the first step is one int32."""


@dataclass(frozen=True)
class Note:
    """One entry for the ledger: how far the plan can be trusted to be what will run.

    Attributes:
        kind: Short name.
        message: The statement.
        direction: ``exact``, ``over`` or ``under``, as in the ledger of a plan.
    """

    kind: str
    message: str
    direction: str


def emit(
    rows: Sequence[Sequence[Step]],
    *,
    builder: type[PlanBuilder],
    options: PipeliningOptions,
    source: str,
    producer: str | tuple[str, str],
    notes: Sequence[Note],
) -> Plan:
    """Build the plan of one pipeline, replicated ``options.shards`` times."""
    ranks, shards = len(rows), options.shards
    mesh = [("pp", ranks), ("dp", shards)] if shards > 1 else None
    plan = builder(
        ranks * shards, name=options.name or Path(source).stem, mesh=mesh, producer=producer
    )
    if mesh is None:
        plan.group("pp", ranks=list(range(ranks)))
    else:
        plan.group("pp", mesh_dims=["pp"])
        for group in sorted({_shard_group(step, options) for row in rows for step in row} - {""}):
            plan.group(group, mesh_dims=["dp"])
    for rank, row in enumerate(rows):
        program = plan.program(f"pp={rank}" if mesh else [rank])
        _Writer(program, rank, options, source, relative=mesh is not None).write(row)
    for note in notes:
        plan.approximate(note.kind, note.message, direction=note.direction, scope="plan")
    return plan.build()


def _shard_group(step: Step, options: PipeliningOptions) -> str:
    if not isinstance(step, Shard) or step.kind is Kind.RESHARD:
        return ""
    return "dp" if options.shard_group == "shared" else f"dp{step.stage}"


class _Writer:
    """Writes the steps of one pipeline rank into its program.

    A computation depends on earlier computations and on the messages it consumes. A message inside
    a batch has no completion of its own, so there the wait for the batch stands for it.
    """

    def __init__(
        self,
        program: ProgramBuilder,
        rank: int,
        options: PipeliningOptions,
        source: str,
        *,
        relative: bool,
    ) -> None:
        self._program = program
        self._rank = rank
        self._options = options
        self._source = source
        self._relative = relative
        self._works: dict[str, list[str]] = {}
        self._ids: dict[str, list[str]] = {}
        self._out: list[dict[str, Any]] = []
        self._known: dict[tuple[int, str], tuple[int | None, ...]] = {}

    def write(self, row: Sequence[Step]) -> None:
        """Write all steps in order."""
        for step in row:
            if isinstance(step, Transfer):
                self._transfer(step)
            elif isinstance(step, Wait):
                self._wait(step)
            elif isinstance(step, Compute):
                self._compute(step)
            else:
                self._shard(step)
        self._program.extend(self._out)

    def _transfer(self, step: Transfer) -> None:
        if self._batches(step):
            members = [one for message in step.messages for one in self._message(message, step)]
            self._out.append({"op": "batch", "work": step.handle, "ops": members})
            self._works[step.handle] = [step.handle]
            return
        works = self._works[step.handle] = []
        for message in step.messages:
            tensors = self._message(message, step)
            names = self._ids[message.name] = [one["id"] for one in tensors]
            works += names
            for one, name in zip(tensors, names, strict=True):
                one["work"] = name
            self._out += tensors

    def _batches(self, step: Transfer) -> bool:
        lowering = self._options.lowering
        if lowering != "batched" and (lowering != "mixed" or len(step.messages) == 1):
            return False
        if any(message.direction == "vote" for message in step.messages):
            return False
        return lowering == "batched" or len({message.send for message in step.messages}) == 2

    def _message(self, message: Message, step: Transfer) -> list[dict[str, Any]]:
        """Return the transfers of a message, one for every tensor."""
        sizes = self._sizes(message)
        common: dict[str, Any] = {
            "op": "isend" if message.send else "irecv",
            "peer": self._peer(message.peer),
            "tag": 0,
            "group": "pp",
            "stage": message.stage,
            "phase": message.direction,
            "src": self._src(step.where),
        }
        if message.mb is not None:
            common["mb"] = message.mb
        name, label = message.name, message.label
        out = []
        for index, size in enumerate(sizes):
            tensor = f"#{index}" if len(sizes) > 1 else ""
            one = {**common, "id": name + tensor, "label": label + tensor}
            if size is not None:
                one["bytes"] = size
            out.append(one)
        return out

    def _sizes(self, message: Message) -> tuple[int | None, ...]:
        if message.direction == "vote":
            return (_VOTE_BYTES,)
        key = message.boundary, message.direction
        sizes = self._known.get(key)
        if sizes is None:
            sizes = self._known[key] = self._options.tensors(*key)
        return sizes

    def _peer(self, peer: int) -> int | dict[str, int]:
        return {"pp": peer - self._rank} if self._relative else peer

    def _wait(self, step: Wait) -> None:
        works = [work for handle in step.handles for work in self._works.pop(handle)]
        if works:
            work = works[0] if len(works) == 1 else works
            self._out.append({"op": "wait", "work": work, "src": self._src(step.where)})

    def _compute(self, step: Compute) -> None:
        self._ids[step.name] = [step.name]
        one = {
            "op": "compute",
            "op_name": step.kind,
            "id": step.name,
            "stage": step.stage,
            "mb": step.mb,
            "phase": "F" if step.kind == "F" else "B",
            "src": self._src(step.where),
        }
        deps = [dep for name in step.deps for dep in self._ids.get(name, ())]
        if deps:
            one["deps"] = deps
        self._out.append(one)

    def _shard(self, step: Shard) -> None:
        common: dict[str, Any] = {
            "id": step.name,
            "stage": step.stage,
            "src": self._src(step.where),
        }
        group = _shard_group(step, self._options)
        if self._options.shards == 1 or not group:
            self._works[step.name] = []
            self._out.append({"op": "compute", "op_name": step.kind.value, **common})
            return
        common |= {"group": group, "label": step.name}
        size = self._options.shard_bytes(step.stage)
        if size is not None:
            common["bytes"] = size
        if step.kind is Kind.UNSHARD:
            self._works[step.name] = [step.name]
            common |= {"op": "all_gather_into_tensor", "async": True, "work": step.name}
        elif self._options.reduce_grad == "all_reduce":
            common |= {"op": "all_reduce", "reduce_op": "avg"}
        else:
            common |= {"op": "reduce_scatter_tensor", "reduce_op": "avg"}
        self._out.append(common)

    def _src(self, where: Where) -> tuple[str, int, str]:
        return (self._source, where.row, where.note)
