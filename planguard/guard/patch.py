"""Edited plans without reading a whole plan again: one program is compiled, the others are kept.

The tables that programs share are made once per base plan, by compiling its programs as the reader
does; an edit adds to them. The door is the reader's: the same functions check the new program.
"""

from __future__ import annotations

from array import array
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET

from planguard.errors import UsageError
from planguard.plan.code import Program
from planguard.plan.compiling.compile import Compiled
from planguard.plan.compiling.emit import emit_program
from planguard.plan.compiling.emitter import Tables
from planguard.plan.compiling.refs import Refs
from planguard.plan.compiling.signing import Signing
from planguard.plan.compiling.tables import Labels, Names, Pool, Signatures, Sizes
from planguard.plan.defects import Defect, refusal
from planguard.plan.nodes import Action
from planguard.plan.pointers import find_node
from planguard.plan.reading.lifecycle import check_groups, check_handles
from planguard.plan.reading.membership import Membership
from planguard.plan.reading.wellformed import at
from planguard.plan.writing.unrolled import Unrolled
from planguard.records import converted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planguard.guard.edits import Change
    from planguard.plan.code import CompiledPlan
    from planguard.plan.plan import Plan


_EMPTY = Program("", ("ranks",), [], array("I"), [], 0, 0, ())


class Patcher:
    """Makes edited plans of one base plan."""

    def __init__(self, plan: Plan) -> None:
        self.base = plan
        document = plan.document
        self._signatures = Signatures()
        tensors = {} if document.tensors is UNSET else document.tensors
        group_ids = {group.name: index for index, group in enumerate(plan.groups)}
        self._tables = Tables(
            refs=Refs(plan.world_size, group_ids, plan.mesh),
            signing=Signing(Sizes(tensors), self._signatures, plan.world_size),
            labels=Labels(plan.limits.actions),
            streams=Names("main"),
            aux=Pool(),
            group_ids=group_ids,
            limits=plan.limits,
            fused=frozenset(member for buffer in plan.fusion for member in buffer.members),
            memo={},
        )
        self._programs = tuple(
            emit_program(self._tables, program.name, program.steps, program.actions)
            for program in plan.code.programs
        )
        self._flat: dict[int, list[Any]] = {}

    def actions(self, rank: int) -> list[Any]:
        """Return the actions of a rank of the base as JSON values, loops unrolled."""
        index = self.base.code.rank_program[rank]
        if index not in self._flat:
            document = self.base.document
            tensors = {} if document.tensors is UNSET else document.tensors
            program = self.base.code.programs[index]
            self._flat[index] = Unrolled(program.actions, tensors).actions
        return self._flat[index]

    def edited_actions(self, changes: Sequence[Change]) -> dict[int, list[Any]]:
        """Return the actions of every rank that changes, edits applied in order.

        Raises:
            UsageError: An edit is outside the program of its rank.
        """
        edited: dict[int, list[Any]] = {}
        for change in changes:
            if not 0 <= change.rank < self.base.world_size:
                hint = f"ranks are 0..{self.base.world_size - 1}"
                raise UsageError(f"no rank {change.rank}", hint=hint)
            before = edited.get(change.rank)
            before = self.actions(change.rank) if before is None else before
            named = [action for action in change.actions if isinstance(action, int)]
            inside = 0 <= change.start <= change.stop <= len(before)
            if not inside or any(not 0 <= action < len(before) for action in named):
                hint = f"rank {change.rank} has {len(before)} actions"
                raise UsageError(f"an edit outside the program: {change}", hint=hint)
            new = [before[a] if isinstance(a, int) else a for a in change.actions]
            edited[change.rank] = [*before[: change.start], *new, *before[change.stop :]]
        return edited

    def patch(self, changes: Sequence[Change]) -> tuple[Plan, tuple[Program, ...]]:
        """Return the edited plan, for the engine, and its new programs.

        The plan has no text of its own. A program that no rank runs any more makes room for the new
        one.

        Raises:
            PlanError: What the reader refuses in a file.
            UsageError: An edit is outside the program of its rank.
        """
        base = self.base
        programs, owners = list(self._programs), array("I", base.code.rank_program)
        ranges = [*base.compiled.ranges]
        places = []
        for rank, actions in self.edited_actions(changes).items():
            program, place = self._compile(rank, actions), owners[rank]
            if owners.count(place) == 1:
                programs[place], ranges[place] = program, (range(rank, rank + 1),)
            else:
                place = owners[rank] = len(programs)
                programs.append(program)
                ranges.append((range(rank, rank + 1),))
            places.append(place)
        code = self._code(tuple(programs), owners)
        for place in places:
            self._check(code, place, ranges[place])
        compiled = Compiled(code, base.compiled.mesh, base.compiled.groups, tuple(ranges))
        plan = replace(base, compiled=compiled, file=None, source=b"")
        return plan, tuple(programs[place] for place in places)

    def fresh(self, rank: int, actions: list[dict[str, Any]]) -> Plan | None:
        """Return a plan in which one rank does some new actions and the others nothing.

        None where the actions have to be read together with the program around them.

        Args:
            rank: Global rank.
            actions: New actions of an edit.

        Raises:
            PlanError: What the reader refuses in a file.
        """
        named = ("work", "id", "after", "deps", "event", "stream", "reads", "writes")
        if any(name in action for action in actions for name in named):
            return None
        program = self._compile(rank, actions)
        owners = array("I", [1]) * self.base.world_size
        owners[rank] = 0
        code = self._code((program, _EMPTY), owners)
        self._check(code, 0, (range(rank, rank + 1),))
        return replace(self.base, compiled=msgspec.structs.replace(self.base.compiled, code=code))

    def document(self, changes: Sequence[Change]) -> dict[str, Any]:
        """Return the edited plan as a ``planguard.plan/1`` object; only edited ranks are unrolled.

        Raises:
            UsageError: An edit is outside the program of its rank.
        """
        edited = self.edited_actions(changes)
        document: dict[str, Any] = msgspec.to_builtins(self.base.document)
        ranks: dict[str, Any] = {}
        runs: dict[int, list[int]] = {}
        for rank, index in enumerate(self.base.code.rank_program):
            if rank not in edited:
                runs.setdefault(index, []).append(rank)
        for index, members in runs.items():
            program = self.base.code.programs[index]
            use: dict[str, Any] = {"template": program.name}
            if program.steps[0] != "templates":
                use = {"actions": document["ranks"][program.steps[1]]["actions"]}
            ranks[_selector(members)] = use
        ranks |= {str(rank): {"actions": actions} for rank, actions in edited.items()}
        return document | {"ranks": ranks}

    def _compile(self, rank: int, actions: list[Any]) -> Program:
        steps = ("ranks", str(rank), "actions")
        try:
            nodes = converted(actions, list[Action])
        except (msgspec.ValidationError, UnicodeEncodeError) as error:
            raise refusal(str(error), path=f"$.ranks.{rank}.actions") from None
        try:
            return emit_program(self._tables, str(rank), steps, nodes)
        except Defect as defect:
            raise defect.at(steps + find_node(nodes, defect.node), None) from None

    def _check(self, code: CompiledPlan, index: int, ranges: tuple[range, ...]) -> None:
        program = code.programs[index]
        membership = Membership(code, self.base.mesh, self.base.groups)
        try:
            check_handles(program, code.aux)
            check_groups(program, code.refs)
            membership.check(index, ranges)
        except Defect as defect:
            raise at(program, defect, None) from None

    def _code(self, programs: tuple[Program, ...], owners: array[int]) -> CompiledPlan:
        tables, signatures = self._tables, self._signatures
        return msgspec.structs.replace(
            self.base.code,
            refs=tables.refs.words,
            programs=programs,
            rank_program=owners,
            sig_kind=signatures.kind,
            sig_bytes=signatures.bytes,
            sig_dtype=signatures.dtype,
            sig_redop=signatures.redop,
            sig_root=signatures.root,
            sig_layout=signatures.layout,
            sig_splits=signatures.split,
            signatures=tuple(signatures.objects),
            layouts=tuple(signatures.layouts),
            splits=tuple(signatures.splits),
            label_names=tuple(tables.labels.names),
            label_lists=tables.labels.lists,
            label_pool=tables.labels.pool,
            aux=tables.aux.words,
            streams=tuple(tables.streams.ids),
        )


def _selector(ranks: list[int]) -> str:
    """Return sorted ranks as a selector: ``0-3,8``."""
    parts: list[list[int]] = []
    for rank in ranks:
        if parts and rank == parts[-1][1] + 1:
            parts[-1][1] = rank
        else:
            parts.append([rank, rank])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in parts)
