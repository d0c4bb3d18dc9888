"""One rank while its program is written: handles, groups, and the checks of every communication."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from . import prims
from .model import Comm, Drop, NewGroup, Program, Ranks, Wait, Where
from .values import Tensor

if TYPE_CHECKING:
    from .module import RankModule
    from .options import NnScalerOptions


@dataclass
class Rank:
    """The state of one rank.

    Attributes:
        module: Its generated code.
        world_size: Number of ranks.
        options: Of the adapter.
        program: What is written.
        skip_reducer: nnScaler's flag of that name.
    """

    module: RankModule
    world_size: int
    options: NnScalerOptions
    program: Program
    skip_reducer: bool = False
    created: set[Ranks] = field(default_factory=set)
    handles: int = 0
    cache: dict[str, Tensor] = field(default_factory=dict)

    def site(self, where: Where) -> prims.Site:
        """Return where a primitive is called."""
        return prims.Site(self.program.rank, where, self.new_handle)

    def new_handle(self) -> str:
        """Return the name of a new handle."""
        self.handles += 1
        return f"h{self.handles}"

    def parameter(self, name: str) -> Tensor | None:
        """Return a parameter or buffer of the module."""
        spec = self.module.parameters.get(name)
        if spec is None:
            return None
        if name not in self.cache:
            trained = spec.trained
            self.cache[name] = Tensor(
                spec.shape, spec.dtype, grad=trained, param=name if trained else ""
            )
        return self.cache[name]

    def issue(self, comm: Comm, reads: list[Tensor]) -> int:
        """Append a communication, and the creation of its group if nobody has created it."""
        self.check(comm)
        if comm.ranks:
            self.create(comm.ranks, comm.where)
        touched = tuple(tensor.buffer for tensor in reads if tensor.buffer)
        self.program.steps.append(replace(comm, reads=touched))
        return len(self.program.steps) - 1

    def forget(self, works: tuple[str, ...], where: Where) -> None:
        """Let handles die."""
        self.program.steps.append(Drop(works, where))

    def check(self, comm: Comm) -> None:
        """Refuse ranks outside of the world and groups without this rank.

        Raises:
            PlanError: With the line of the call.
        """
        rank, source = self.program.rank, self.module.source
        named = [*comm.ranks, *(r for r in (comm.peer, comm.root) if r is not None)]
        outside = [other for other in named if not 0 <= other < self.world_size]
        if outside:
            source.fail(
                at_line(comm.where[1]), f"{comm.op} names a rank outside of the world of "
                f"{self.world_size}", value=outside[0], code="PG402",
                hint="are files of ranks missing, or were they generated for another world size?",
            )  # fmt: skip
        if comm.ranks and rank not in comm.ranks:
            source.fail(
                at_line(comm.where[1]), f"rank {rank} calls {comm.op} on a group of which it is no "
                "member", value=list(comm.ranks), code="PG401",
            )  # fmt: skip
        if comm.root is not None and comm.root not in comm.ranks:
            source.fail(
                at_line(comm.where[1]), "the root is no member of the group", value=comm.root,
                code="PG403",
            )  # fmt: skip

    def create(self, ranks: Ranks, where: Where) -> None:
        """Call ``get_group``: it creates a group at its first use, the world never."""
        if len(ranks) == self.world_size or ranks in self.created:
            return
        self.created.add(ranks)
        if self.options.init:
            self.program.steps.append(NewGroup(ranks, where))

    def synchronize(self, values: list[object], where: Where) -> None:
        """Wait for what is in flight under these tensors (``Executor.sync_tensors``)."""
        for value in values:
            if isinstance(value, Tensor) and value.pending:
                self.program.steps.append(Wait(tuple(value.pending), where))
                value.pending, value.buffer = [], ""


def at_line(line: int) -> ast.AST:
    """Return something that stands for a node of which only the line is known."""
    return ast.Pass(lineno=line, col_offset=0)
