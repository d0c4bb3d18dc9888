"""The flat form: one explicit program per rank, and nothing else to know.

No templates, families, relative peers or loops; sizes are ``count`` and ``dtype``, or ``bytes``;
``{i}`` is substituted. The certificate checker reads only this form, so this expansion is the one
step it trusts; it is tested against the expansion of the kernels.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET

from planguard.plan.actions import Kind
from planguard.plan.content import has_kind
from planguard.plan.defects import refusal
from planguard.plan.writing.unrolled import Unrolled
from planguard.plan.writing.writer import plan_lines

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from planguard.plan.groups import ProcessGroup
    from planguard.plan.plan import Plan

INNER = ("body", "threads", "branches")
"""Fields that hold actions in actions."""
MAX_FLAT_ACTIONS = 5_000_000
"""Actions beyond which a flat form is refused: it would take gigabytes."""


def flatten(plan: Plan) -> dict[str, Any]:
    """Return the flat form of a plan as a ``planguard.plan/1`` object.

    Raises:
        PlanError: More than ``MAX_FLAT_ACTIONS`` actions.
    """
    flattener = Flattener(plan)
    ranks = {str(rank): {"actions": flattener.program(rank)} for rank in range(plan.world_size)}
    return {**flattener.head(), "ranks": ranks}


def flat_lines(plan: Plan) -> Iterator[bytes]:
    """Yield the text of the flat form, one action per line, rank by rank.

    Raises:
        PlanError: More than ``MAX_FLAT_ACTIONS`` actions.
    """
    flattener = Flattener(plan)
    ranks = ((str(rank), flattener.program(rank)) for rank in range(plan.world_size))
    return plan_lines(flattener.head(), None, ranks)


def named(actions: list[Any], numbers: Iterator[int]) -> list[Any]:
    """Return actions in which every uniform choice has a name, by its number among all choices."""
    out: list[Any] = []
    for item in actions:
        if isinstance(item, list):
            out.append(named(item, numbers))
            continue
        number = next(numbers) if item["op"] == "choice" else 0
        changes: dict[str, Any] = {
            field: named(item[field], numbers) for field in INNER if field in item
        }
        if item["op"] == "choice" and item.get("uniform") and "name" not in item:
            changes["name"] = f"choice {number} of program 0"
        out.append(item | changes if changes else item)
    return out


class Flattener:
    """Flattens the ranks of one plan; the loops of a program are unrolled once.

    Args:
        plan: The plan.
        actions: By program, the actions to flatten, if some of a plan without loops do.

    Raises:
        PlanError: More than ``MAX_FLAT_ACTIONS`` actions.
    """

    def __init__(self, plan: Plan, actions: Sequence[Sequence[Any]] | None = None) -> None:
        if plan.actions > MAX_FLAT_ACTIONS:
            raise refusal(
                f"the flat form has {plan.actions} actions, more than {MAX_FLAT_ACTIONS}",
                file=plan.file,
                value=plan.actions,
                hint="flatten a smaller plan: fewer ranks or fewer iterations",
            )
        self._plan = plan
        tensors = {} if plan.document.tensors is UNSET else plan.document.tensors
        if actions is None:
            actions = [program.actions for program in plan.code.programs]
        self._unrolled = [Unrolled(mine, tensors) for mine in actions]
        self._names: dict[tuple[str, int], str] = {}
        self._families = {group.name for group in plan.groups if group.is_family}
        is_shared = len(set(plan.code.rank_program)) == 1
        self._is_one_choice = is_shared and has_kind(plan, Kind.CHOICE_BEGIN)

    def program(self, rank: int) -> list[Any]:
        """Return the actions of a rank.

        A uniform choice without a name is one for all ranks if they share one program. Written rank
        by rank that is no longer said by itself, so it gets a name.
        """
        actions = self._resolve(self._unrolled[self._plan.code.rank_program[rank]].actions, rank)
        return named(actions, itertools.count()) if self._is_one_choice else actions

    def _resolve(self, actions: list[Any], rank: int) -> list[Any]:
        return [self._resolve_one(action, rank) for action in actions]

    def _resolve_one(self, action: Any, rank: int) -> Any:
        """Return an action with group and peer of one rank; shared when nothing depends on it."""
        if isinstance(action, list):
            return self._resolve(action, rank)
        changes: dict[str, Any] = {}
        group, peer = action.get("group"), action.get("peer")
        if group in self._families:
            changes["group"] = self._instance(group, 0 if action["op"] == "new_group" else rank)
        if isinstance(peer, dict):
            changes["peer"] = self._peer(peer, rank)
        for field in INNER:
            if field in action:
                changes[field] = self._resolve(action[field], rank)
        if action["op"] == "batch":
            changes["ops"] = self._resolve(action["ops"], rank)
        return action | changes if changes else action

    def _instance(self, family: str, rank: int) -> str:
        found = self._names.get((family, rank))
        if found is None:
            found = self._names[family, rank] = self._plan.group_name(family, rank)
        return found

    def _peer(self, peer: dict[str, Any], rank: int) -> int:
        mesh = self._plan.mesh
        wrap = bool(peer.get("wrap", False))
        for name, delta in peer.items():
            if name != "wrap" and mesh is not None:
                moved = mesh.shift(rank, mesh.names.index(name), delta, wrap=wrap)
                rank = -1 if moved is None else moved
        return rank

    def head(self) -> dict[str, Any]:
        """Return every top-level field but the programs."""
        plan = self._plan
        bare = msgspec.structs.replace(plan.document, templates=UNSET, ranks={})
        head: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(bare))
        for field in ("templates", "ranks", "groups", "fusion"):
            head.pop(field, None)
        groups: dict[str, Any] = {}
        for group in plan.groups:
            groups |= self._instances(group)
        declared = {} if plan.document.groups is UNSET else plan.document.groups
        if "world" not in declared:
            groups.pop("world")
        if groups:
            head["groups"] = groups
        if plan.fusion:
            head["fusion"] = [entry for _, entry in self.fused()]
        return head

    def members(self) -> dict[str, list[int]]:
        """Return the ranks of every group, by the names of the flat form; ``world`` is the last."""
        found: dict[str, list[int]] = {}
        for group in self._plan.groups:
            found |= {name: spec["ranks"] for name, spec in self._instances(group).items()}
        found["world"] = found.pop("world")
        return found

    def names(self, rank: int) -> dict[str, str]:
        """Return by family the name of the group that a rank means by it."""
        return {family: self._instance(family, rank) for family in self._families}

    def fused(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield every fused buffer with its number in the plan, one for each group of a family."""
        for number, buffer in enumerate(self._plan.fusion):
            for entry in self._fused(buffer):
                yield number, entry

    def _instances(self, group: ProcessGroup) -> dict[str, Any]:
        """Return the explicit groups that a group stands for."""
        plan = self._plan
        extra = {"backend": group.backend} if group.backend else {}
        if plan.mesh is None or not group.is_family:
            created = {} if group.created is None else {"created": group.created}
            return {group.name: {"ranks": list(group.ranks), **extra, **created}}
        offsets = plan.mesh.family_offsets(group.mesh_dims)
        instances = {}
        for base in range(plan.world_size):
            if plan.mesh.family_base(base, group.mesh_dims) == base:
                ranks = [base + offset for offset in offsets]
                instances[self._instance(group.name, base)] = {"ranks": ranks, **extra}
        return instances

    def _fused(self, buffer: Any) -> Iterator[dict[str, Any]]:
        """Yield a fused buffer for every instance of its group, with the unrolled members."""
        plain: dict[str, Any] = msgspec.to_builtins(buffer)
        members: dict[str, None] = {}
        for unrolled in self._unrolled:
            for member in buffer.members:
                members |= dict.fromkeys(unrolled.flat_ids.get(member, ()))
        plain["members"] = list(members)
        if buffer.group is UNSET or buffer.group not in self._families:
            yield plain
            return
        for name in self._instances(self._plan.group(buffer.group)):
            yield {**plain, "id": f"{buffer.id}@{name}", "group": name}
