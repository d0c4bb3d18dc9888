"""Plan: one frozen, symbolic parallelization plan, as read from a file or built in memory."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from msgspec import UNSET

from planguard.verdict import Approximation

if TYPE_CHECKING:
    from planguard.plan.code import CompiledPlan
    from planguard.plan.compile import Compiled
    from planguard.plan.document import Document, FusionSpec
    from planguard.plan.groups import Mesh, ProcessGroup


@dataclass(frozen=True)
class Plan:
    """A plan that was checked at the door. Make one with ``PlanBuilder`` or ``load``.

    Attributes:
        document: The plan as records, exactly as it was given.
        file: Name of the file it came from, or None.
        source: The bytes it was read from, compressed as they were.
    """

    document: Document
    compiled: Compiled = field(repr=False)
    file: str | None = None
    source: bytes = field(default=b"", repr=False)

    @property
    def code(self) -> CompiledPlan:
        """The plan as instruction words, for the kernels."""
        return self.compiled.code

    @property
    def world_size(self) -> int:
        """Number of ranks."""
        return self.document.world_size

    @property
    def name(self) -> str | None:
        """Name of the plan, if it has one."""
        return None if self.document.name is UNSET else self.document.name

    @property
    def model(self) -> str | None:
        """Execution model the plan asks for, if any."""
        return None if self.document.model is UNSET else self.document.model

    @property
    def planner(self) -> str | None:
        """Tool that wrote the plan, if it says so."""
        return None if self.document.producer is UNSET else self.document.producer.tool

    @property
    def mesh(self) -> Mesh | None:
        """The device mesh, if any."""
        return self.compiled.mesh

    @property
    def groups(self) -> tuple[ProcessGroup, ...]:
        """Groups by index; group 0 is ``world``."""
        return self.compiled.groups

    @property
    def fusion(self) -> tuple[FusionSpec, ...]:
        """Fused buffers."""
        return () if self.document.fusion is UNSET else tuple(self.document.fusion)

    @cached_property
    def approximations(self) -> tuple[Approximation, ...]:
        """The ledger of the tool that made the plan."""
        specs = () if self.document.approximations is UNSET else self.document.approximations
        return tuple(
            Approximation(
                kind=spec.kind,
                message=spec.message,
                direction="exact" if spec.direction is UNSET else spec.direction,
                actions=() if spec.actions is UNSET else tuple(spec.actions),
                scope="actions" if spec.scope is UNSET else spec.scope,
            )
            for spec in specs
        )

    @cached_property
    def sha256(self) -> str:
        """Hash of the bytes the plan was read from."""
        import hashlib

        return hashlib.sha256(self.source).hexdigest()
