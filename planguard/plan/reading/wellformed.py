"""The door: static rules of a whole plan. What is refused here never reaches the engine.

References:
    docs/reference/plan-format.md lists the rules and their codes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from planguard.options import MODEL_NAMES
from planguard.plan.actions import MEMBER, Kind
from planguard.plan.code import WORDS
from planguard.plan.defects import Defect, nearest, refusal, unknown_model
from planguard.plan.nodes import MAX_INT
from planguard.plan.pointers import find_node, render, step
from planguard.plan.reading.lifecycle import check_groups, check_handles
from planguard.plan.reading.membership import Membership
from planguard.plan.vocabulary import FUSIBLE

if TYPE_CHECKING:
    from planguard.errors import PlanError
    from planguard.plan.code import Program
    from planguard.plan.compiling.compile import Compiled
    from planguard.plan.document import Document, FusionSpec
    from planguard.plan.limits import Limits


def check(document: Document, compiled: Compiled, limits: Limits, file: str | None) -> None:
    """Check a compiled document.

    Raises:
        PlanError: The first defect found, with its place and code.
    """
    _check_model(document, file)
    _check_length(compiled, limits, file)
    _check_created(document, file)
    membership = Membership(compiled.code, compiled.mesh, compiled.groups)
    checked: set[int] = set()
    for index, program in enumerate(compiled.code.programs):
        try:
            if id(program.code) not in checked:  # several may share one list of words
                check_program(program, compiled)
                checked.add(id(program.code))
            membership.check(index, compiled.ranges[index])
        except Defect as defect:
            raise at(program, defect, file) from None
    check_fusion(document, compiled, file)
    _check_topology(document, file)
    _check_approximations(document, compiled, file)


def check_program(program: Program, compiled: Compiled) -> None:
    """Check what depends on the order of a program: the lives of its handles and groups.

    Raises:
        Defect: The first defect found.
    """
    check_handles(program, compiled.code.aux)
    check_groups(program, compiled.code.refs)
    _check_creation_order(program, compiled)


def at(program: Program, defect: Defect, file: str | None) -> PlanError:
    """Return the error of a defect in a program."""
    node = program.origins.get(id(defect.node), defect.node)
    return defect.at(program.steps + find_node(program.actions, node), file)


def _check_model(document: Document, file: str | None) -> None:
    model = document.model
    if model is not UNSET and model not in MODEL_NAMES:
        raise unknown_model(model, "$.model", file)


def _check_length(compiled: Compiled, limits: Limits, file: str | None) -> None:
    total = 0
    for program, ranges in zip(compiled.code.programs, compiled.ranges, strict=True):
        if program.length > limits.rank_actions:
            raise refusal(
                f"more than {limits.rank_actions} actions on a rank, loops unrolled",
                file=file,
                path=render(program.steps),
                value=min(program.length, MAX_INT),
                hint="check fewer iterations of the loops, or raise Limits.rank_actions",
            )
        total += program.length * max(1, sum(len(ranks) for ranks in ranges))
        if total > limits.actions:
            raise refusal(
                f"more than {limits.actions} actions, loops unrolled",
                file=file,
                path=step("$.templates", program.name) if program.steps[0] == "templates" else "$",
                value=min(total, MAX_INT),
                hint="check the loop counts, or raise Limits.actions",
            )


def _check_created(document: Document, file: str | None) -> None:
    """Check that no two groups claim the same place in the order of creation."""
    places: dict[int, str] = {}
    for name, spec in ({} if document.groups is UNSET else document.groups).items():
        if spec.created is UNSET:
            continue
        other = places.setdefault(spec.created, name)
        if other != name:
            raise refusal(
                f"group {other} was created at the same position",
                code="PG406",
                file=file,
                path=step("$.groups", name) + ".created",
                value=spec.created,
                hint="created is a world-wide order: every group has its own position",
            )


def _check_creation_order(program: Program, compiled: Compiled) -> None:
    """Check that a program calls ``new_group`` in the order that ``created`` states."""
    words = program.code
    if Kind.NEW_GROUP not in set(words[::WORDS]):
        return
    last: tuple[int, str] | None = None
    for place, op in enumerate(words[::WORDS]):
        if op & (MEMBER - 1) != Kind.NEW_GROUP:
            continue
        group = compiled.groups[words[place * WORDS + 1]]
        if group.created is None:
            continue
        if last is not None and group.created < last[0]:
            message = f"created before group {last[1]} by the groups' order, after it here"
            raise Defect(
                program.nodes[place],
                "group",
                message,
                code="PG406",
                value=group.name,
                hint="all ranks create groups in the same order, members or not",
            )
        last = group.created, group.name


def check_fusion(document: Document, compiled: Compiled, file: str | None) -> None:
    """Check that the members of fused buffers are there, once, and can be merged.

    Raises:
        PlanError: The first defect found.
    """
    if document.fusion is UNSET:
        return
    names = {group.name for group in compiled.groups}
    ids: set[str] = set()
    members: dict[tuple[object, str], str] = {}
    homes: dict[str, set[str]] = {}
    for index, buffer in enumerate(document.fusion):
        path = f"$.fusion[{index}]"
        if buffer.id in ids:
            hint = "give every fused buffer its own id"
            raise refusal("id used twice", file=file, path=f"{path}.id", value=buffer.id, hint=hint)
        ids.add(buffer.id)
        for member in buffer.members:
            homes.setdefault(member, set()).add(_group_of(buffer))
        if buffer.group is not UNSET and buffer.group not in names:
            hint = nearest(buffer.group, names) or "declare it under groups"
            raise refusal(
                "unknown group", file=file, path=f"{path}.group", value=buffer.group, hint=hint
            )
        _check_fused_members(buffer, path, compiled, members, file)
    for index, buffer in enumerate(document.fusion):
        _check_fused_groups(buffer, f"$.fusion[{index}]", compiled, homes, file)


def _check_fused_members(
    buffer: FusionSpec,
    path: str,
    compiled: Compiled,
    members: dict[tuple[object, str], str],
    file: str | None,
) -> None:
    for place, member in enumerate(buffer.members):
        where = f"{path}.members[{place}]"
        other = members.setdefault((buffer.group, member), f"{buffer.id}[{place}]")
        if other != f"{buffer.id}[{place}]":
            message = f"already the member {other} of a fused buffer of this group"
            hint = "an action is in one fused buffer"
            raise refusal(message, file=file, path=where, value=member, hint=hint)
        actions = [p.ids[member] for p in compiled.code.programs if member in p.ids]
        if not actions:
            known = {name for p in compiled.code.programs for name in p.ids}
            hint = nearest(member, known) or "members are ids of actions"
            message = "no action has this id"
            raise refusal(message, file=file, path=where, value=member, hint=hint)
        for action in actions:
            if action.__struct_config__.tag not in FUSIBLE:
                hint = f"members are {', '.join(sorted(FUSIBLE))}"
                value = action.__struct_config__.tag
                message = "a fused buffer merges reductions only"
                raise refusal(message, file=file, path=where, value=value, hint=hint)


def _check_fused_groups(
    buffer: FusionSpec,
    path: str,
    compiled: Compiled,
    homes: dict[str, set[str]],
    file: str | None,
) -> None:
    """Check that members are called on the group of their buffer.

    Ranks of several groups may use one name, each in the buffer of its own group. A call on a group
    that no buffer with its name is of would be left out of all of them without a word.
    """
    mine = _group_of(buffer)
    for place, member in enumerate(buffer.members):
        called = {_group_of(p.ids[member]) for p in compiled.code.programs if member in p.ids}
        wrong = sorted(called - homes[member])
        if wrong:
            raise refusal(
                f"called on group {wrong[0]}, while the fused buffer is of group {mine}",
                file=file,
                path=f"{path}.members[{place}]",
                value=member,
                hint=f'say "group": "{wrong[0]}" in the buffer, or call the member on {mine}',
            )


def _group_of(spec: Any) -> str:
    """Return the name of the group of an action or of a fused buffer."""
    return "world" if spec.group is UNSET else str(spec.group)


def _check_topology(document: Document, file: str | None) -> None:
    topology = document.topology
    if topology is UNSET:
        return
    hint = f"ranks are 0..{document.world_size - 1}"
    seen: set[int] = set()
    for index, place in enumerate(topology.ranks or ()):
        path = f"$.topology.ranks[{index}].rank"
        if place.rank >= document.world_size or place.rank in seen:
            message = "rank outside the world or placed twice"
            raise refusal(message, file=file, path=path, value=place.rank, hint=hint)
        seen.add(place.rank)
    for index, link in enumerate(topology.links or ()):
        if max(link.src, link.dst) >= document.world_size:
            path = f"$.topology.links[{index}]"
            raise refusal("rank outside the world", file=file, path=path, hint=hint)


def _check_approximations(document: Document, compiled: Compiled, file: str | None) -> None:
    programs, of_rank = compiled.code.programs, compiled.code.rank_program
    for index, entry in enumerate(document.approximations or ()):
        for place, (rank, action) in enumerate(entry.actions or ()):
            if rank >= document.world_size or action >= programs[of_rank[rank]].length:
                path = f"$.approximations[{index}].actions[{place}]"
                message = "there is no such rank or action"
                hint = "pairs of a global rank and an action index, loops unrolled"
                raise refusal(message, file=file, path=path, value=(rank, action), hint=hint)
