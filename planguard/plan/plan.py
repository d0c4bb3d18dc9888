"""Plan: one frozen, symbolic parallelization plan, as read from a file or built in memory."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from msgspec import UNSET, UnsetType

from planguard.arguments import PATH, arguments
from planguard.errors import UsageError, shorten
from planguard.plan.actions import KIND_MASK, Kind
from planguard.plan.code import WORDS
from planguard.plan.defects import refusal
from planguard.plan.describe import describe
from planguard.plan.layout import Layout
from planguard.plan.limits import DEFAULT_LIMITS, Limits
from planguard.plan.nodes import op_name
from planguard.plan.pointers import line_of, render, walk
from planguard.plan.views import ActionView
from planguard.verdict import Approximation, Location, Source

if TYPE_CHECKING:
    from collections.abc import Callable
    from os import PathLike

    from planguard.plan.code import CompiledPlan, Program
    from planguard.plan.compiling.compile import Compiled
    from planguard.plan.document import Document, FusionSpec
    from planguard.plan.groups import Mesh, ProcessGroup
    from planguard.plan.nodes import PointToPoint
    from planguard.plan.pointers import Steps

_GROUPS_SHOWN = 12
"""Most groups that an error names."""
_FEW = 4
"""Programs from which on the ranks of all are counted at once, not those of each by itself."""
WALKED_AFTER = 8
"""Actions of a program that are looked up one by one; then the places of all are noted."""


@dataclass(frozen=True)
class Plan:
    """A plan that was checked at the door. Make one with ``PlanBuilder`` or ``load``.

    Attributes:
        document: The plan as records, exactly as it was given.
        file: Name of the file it came from, or None.
        source: The bytes it was read from, compressed as they were.
        limits: The limits it was read under.
    """

    document: Document
    compiled: Compiled = field(repr=False)
    file: str | None = None
    source: bytes = field(default=b"", repr=False)
    limits: Limits = DEFAULT_LIMITS

    def __reduce__(self) -> tuple[Callable[..., Plan], tuple[object, ...]]:
        # A pickled plan is its text, read and checked again on the other side: smaller than the
        # words, and nothing of it is taken on trust.
        # A plan made of rows has none yet.
        from planguard.plan.format import read, write

        return read, (self.source or write(self), self.file, self.limits)

    def __repr__(self) -> str:
        return f"Plan({self.name or self.file or ''!r}, {self.world_size} ranks)"

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
    def kinds(self) -> frozenset[int]:
        """Kinds of the instructions of all programs."""
        programs = self.code.programs
        return frozenset(op & KIND_MASK for one in programs for op in set(one.code[::WORDS]))

    # --- as a file ----------------------------------------------------------------------------

    def to_json(self) -> dict[str, Any]:
        """Return the plan as the object that a plan file holds, exactly as it was given."""
        from planguard.plan.format import decompress, write

        text = decompress(self.source, self.file, self.limits) if self.source else write(self)
        return dict(json.loads(text))

    @arguments(path=PATH)
    def save(self, path: str | PathLike[str]) -> None:
        """Write the plan as a plan file, compressed if the name ends in ``.gz``.

        What stands at the path is replaced; the file is whole or not there.

        Raises:
            UsageError: The path is a folder, or its folder does not exist.
            OSError: It cannot be written.
        """
        from planguard.files import write_packed
        from planguard.plan.format import decompress, write

        text = decompress(self.source, self.file, self.limits) if self.source else write(self)
        write_packed(path, [text])

    # --- single actions ----------------------------------------------------------------------

    def program(self, rank: int) -> Program:
        """Return the program of a rank."""
        return self.code.programs[self._index(rank)]

    def _index(self, rank: int) -> int:
        """Return the program of a rank, as a place in the table of programs.

        Raises:
            UsageError: The plan has no such rank.
        """
        try:
            if rank >= 0:
                return self.code.rank_program[rank]
        except (TypeError, IndexError, OverflowError):
            pass
        hint = f"ranks are 0..{self.world_size - 1}"
        raise UsageError(f"the plan has no rank {shorten(rank)}", hint=hint)

    def layout(self, rank: int) -> Layout:
        """Return where the actions of the program of a rank are."""
        index = self._index(rank)
        found = self._layouts.get(index)
        if found is None:
            found = self._layouts[index] = Layout(self.code.programs[index])
        return found

    @cached_property
    def _layouts(self) -> dict[int, Layout]:
        return {}

    def _steps(self, index: int, instruction: int) -> Steps:
        """Return the place of an instruction; a program that is asked often is walked once."""
        program = self.code.programs[index]
        asked = self._asked[index] = self._asked.get(index, 0) + 1
        if asked < WALKED_AFTER:
            return program.steps_of(instruction)
        known = self._places.get(index)
        if known is None:
            known = self._places[index] = {}
            for steps, found in walk(program.actions):
                known.setdefault(id(found), steps)
        node = program.nodes[instruction]
        return program.steps + known.get(id(program.origins.get(id(node), node)), ())

    @cached_property
    def _asked(self) -> dict[int, int]:
        return {}

    @cached_property
    def _places(self) -> dict[int, dict[int, Steps]]:
        return {}

    def length(self, rank: int) -> int:
        """Return the number of actions of a rank, ``repeat`` unrolled and a batch counted once.

        Raises:
            UsageError: The plan has no such rank.
        """
        return self.program(rank).length

    @cached_property
    def actions(self) -> int:
        """Number of actions of all ranks."""
        counts, programs = self.code.rank_program, self.code.programs
        if len(programs) < _FEW:
            return sum(one.length * counts.count(index) for index, one in enumerate(programs))
        return sum(programs[index].length * times for index, times in Counter(counts).items())

    def action_at(self, rank: int, index: int, member: int | None = None) -> ActionView:
        """Return a view of one action.

        Args:
            rank: Global rank.
            index: Action index, as in ``Location.action``.
            member: Index inside a batch.

        Raises:
            UsageError: There is no such rank, action or member.
        """
        layout, program = self.layout(rank), self.program(rank)
        instruction, iterations = layout.find(index)
        if member is not None:
            members = layout.members(instruction)
            try:
                instruction = members[member]
            except (TypeError, IndexError):
                hint = f"a batch of {len(members)}" if members else "the action is no batch"
                raise UsageError(f"no member {shorten(member)}", hint=hint) from None
        node = program.nodes[instruction]
        steps = self._steps(self.code.rank_program[rank], instruction)
        return ActionView(
            rank=rank,
            index=index,
            member=member,
            op=op_name(node),
            kind=Kind(program.code[instruction * WORDS] & KIND_MASK),
            action=node,
            instruction=instruction,
            iterations=iterations,
            id=_substitute(node.id, iterations),
            label=_substitute(node.label, iterations),
            src=None
            if node.src is UNSET
            else Source(node.src.file, node.src.line, node.src.function),
            steps=steps,
            pointer=render(steps),
        )

    def describe_action(self, rank: int, index: int, member: int | None = None) -> str:
        """Return an action in one line: ``send -> 6  act_s1_s2  4.00 MiB f16``.

        Raises:
            UsageError: There is no such rank, action or member.
        """
        return describe(self, self.action_at(rank, index, member))

    def location(self, rank: int, index: int, member: int | None = None) -> Location:
        """Return the place of an action as findings name it.

        A place is told once: the runs of one check, and the edges of one cycle, name the same ones.

        Raises:
            UsageError: There is no such rank, action or member.
        """
        try:
            found = self._locations.get((rank, index, member))
        except TypeError:  # a list, for one: said as of any other that is no place
            found = None
        if found is None:
            view = self.action_at(rank, index, member)
            found = self._locations[rank, index, member] = Location(
                rank=rank,
                action=index,
                id=view.id,
                source=view.src,
                text=describe(self, view),
                pointer=view.pointer,
                op=view.op,
                member=member,
            )
        return found

    @cached_property
    def _locations(self) -> dict[tuple[int, int, int | None], Location]:
        return {}

    def line_of(self, rank: int, index: int, member: int | None = None) -> int | None:
        """Return the 1-based line of an action in the plan file; None without a file."""
        if self.file is None:
            return None
        return line_of(self.text, self.action_at(rank, index, member).steps)

    @property
    def text(self) -> bytes:
        """The JSON text the plan was read from, decompressed."""
        from planguard.plan.format import decompress

        return decompress(self.source, self.file)

    def peer(self, rank: int, action: PointToPoint) -> int | None:
        """Return the global rank that a send or receive of ``rank`` names; None for any source.

        Raises:
            PlanError: The peer is off the mesh.
        """
        if action.peer == "any":
            return None
        if not isinstance(action.peer, dict) or self.mesh is None:
            return int(action.peer)  # type: ignore[arg-type]
        wrap = bool(action.peer.get("wrap", False))
        peer: int | None = rank
        for name, delta in action.peer.items():
            if name != "wrap" and peer is not None:
                peer = self.mesh.shift(peer, self.mesh.names.index(name), int(delta), wrap=wrap)
        if peer is None:
            hint = "give the ranks at the edge another template, or wrap"
            raise refusal("peer is off the mesh", code="PG402", value=action.peer, hint=hint)
        return peer

    def group(self, name: str) -> ProcessGroup:
        """Return a group by name.

        Raises:
            UsageError: There is no such group.
        """
        try:
            return self._groups_by_name[name]
        except (KeyError, TypeError):
            known = ", ".join(list(self._groups_by_name)[:_GROUPS_SHOWN])
            raise UsageError(
                f"there is no group {shorten(repr(name))}", hint=f"groups: {known}"
            ) from None

    @cached_property
    def _groups_by_name(self) -> dict[str, ProcessGroup]:
        return {group.name: group for group in self.groups}

    def group_name(self, name: str, rank: int) -> str:
        """Return the name of the group that ``rank`` means: ``tp4`` is instance 4 of family tp."""
        group = self.group(name)
        if self.mesh is None or not group.is_family:
            return name
        number = self.mesh.family_instance(rank, group.mesh_dims)
        # Instance 10 of dp and instance 0 of dp1 are two groups.
        instance = f"{name}'{number}" if name in self._prefixes else f"{name}{number}"
        while instance in self._groups_by_name:  # a group may be called tp4 itself
            instance += "'"
        return instance

    @cached_property
    def _prefixes(self) -> frozenset[str]:
        """Families whose name and a number may be the name of an instance of another family."""
        names = [group.name for group in self.groups if group.is_family]
        return frozenset(
            one
            for one in names
            for other in names
            if other != one and other.startswith(one) and other.removeprefix(one).isdigit()
        )

    @cached_property
    def sha256(self) -> str:
        """Hash of the bytes the plan was read from."""
        import hashlib

        return hashlib.sha256(self.source).hexdigest()


def _substitute(text: str | UnsetType, iterations: tuple[int, ...]) -> str | None:
    if isinstance(text, UnsetType):
        return None
    return text.replace("{i}", str(iterations[-1])) if iterations else text
