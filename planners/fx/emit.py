"""Drafts of all ranks to the plan: groups settled, labels assigned, ledger written."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from .elements import Elements
from .exchanged import exchanged
from .groups import (
    GroupKey,
    Mesh,
    PlanGroups,
    alike,
    flat,
    follower_keys,
    keys_of_rank,
    refuse_dependent,
)
from .labels import assign_labels
from .symbolic import settle, settled
from .translate import Draft, RankDraft, translate_all

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from planguard.plan.building.builder import PlanBuilder
    from planguard.plan.building.program import ProgramBuilder
    from planguard.plan.nodes import Node
    from planguard.plan.plan import Plan

    from .model import FxBundle


def emit(
    bundle: FxBundle,
    builder_class: type[PlanBuilder],
    *,
    compute: str = "fold",
    model: str | None = None,
) -> Plan:
    """Build the plan of a bundle.

    Raises:
        PlanError: If a graph is malformed or ranks cannot be substituted.
    """
    emitter = _Emitter(bundle, _new_builder(builder_class, bundle, model), compute, model)
    emitter.run()
    return emitter.builder.build()


def _new_builder(
    builder_class: type[PlanBuilder], bundle: FxBundle, model: str | None
) -> PlanBuilder:
    return builder_class(
        bundle.world_size,
        name=bundle.name,
        mesh=list(bundle.mesh) or None,
        model=model,
        producer=bundle.producer,
    )


class _Emitter:
    """Holds what all steps share: drafts and group keys per rank, names of groups."""

    def __init__(
        self, bundle: FxBundle, builder: PlanBuilder, compute: str, model: str | None
    ) -> None:
        self.bundle = bundle
        self.model = model
        self.builder = builder
        self.drafts: dict[int, RankDraft] = translate_all(bundle.programs, compute=compute)
        self.keys: dict[int, dict[str, GroupKey]] = {}
        self.groups = PlanGroups(bundle.world_size)
        self.written: dict[tuple[int, tuple[tuple[str, GroupKey], ...]], list[Any]] = {}
        self.made: dict[tuple[int, str, int, str | None], Node] = {}
        self.agreed: list[tuple[int, int]] = []
        self.origin = {rank: bundle.like.get(rank, rank) for rank in range(bundle.world_size)}

    def run(self) -> None:
        for rank, draft in self.drafts.items():
            table = self.bundle.programs[rank].groups
            self.keys[rank] = keys_of_rank(rank, table, draft, self.bundle.world_size)
        unlabeled = assign_labels(self.drafts, self.keys)
        self._compare_sizes()
        self._refuse_dependent()
        families = self._families() if self.bundle.like else None
        if families is not None:
            self._templates(families)
        else:
            for rank, origin in sorted(self.bundle.like.items()):
                self.keys[rank] = follower_keys(origin, rank, self.keys[origin], self.bundle)
            self._declare_groups()
            for rank in range(self.bundle.world_size):
                self._program(self.builder.program(rank), rank)
        self._ledger(unlabeled)

    def _compare_sizes(self) -> None:
        """Take back that sizes are unknown where the members of a round agree on them."""
        if not any(note.node for draft in self.drafts.values() for note in draft.notes):
            return
        keys: dict[int, Mapping[str, GroupKey]] = dict(self.keys)
        for rank, origin in self.bundle.like.items():
            keys[rank] = follower_keys(origin, rank, self.keys[origin], self.bundle)
        elements = Elements(self.drafts, keys, self.origin)
        for rank, agreed in exchanged(elements).items():
            draft = self.drafts[rank]
            self.agreed += sorted(
                {(rank, note.action) for note in draft.notes if note.node in agreed}
            )
            draft.notes = [note for note in draft.notes if note.node not in agreed]
        settle(self.drafts, settled(elements))

    def _refuse_dependent(self) -> None:
        for origin in set(self.bundle.like.values()):
            follower = min(r for r, o in self.bundle.like.items() if o == origin)
            refuse_dependent(self.drafts[origin], origin, follower)

    def _families(self) -> dict[int, dict[str, tuple[str, ...]]] | None:
        """Return the mesh dimensions of every group, None when one is no group of the mesh."""
        mesh = Mesh(self.bundle.mesh or (("world", self.bundle.world_size),))
        found: dict[int, dict[str, tuple[str, ...]]] = {}
        for rank, keys in self.keys.items():
            for name, key in keys.items():
                varying = mesh.family(rank, key.ranks)
                if not varying or (self._rooted(rank, name) and len(varying) < len(mesh.dims)):
                    return None
                dims = tuple(mesh.dims[place][0] for place in varying)
                found.setdefault(rank, {})[name] = dims
        return found

    def _rooted(self, rank: int, name: str) -> bool:
        talks = (draft.communication for draft in flat(self.drafts[rank].drafts))
        return any(t is not None and t.group == name and t.root is not None for t in talks)

    def _templates(self, families: Mapping[int, Mapping[str, tuple[str, ...]]]) -> None:
        """Write one program per captured rank, with groups as families of the mesh."""
        if not self.bundle.mesh:
            self.builder = self._with_mesh((("world", self.bundle.world_size),))
        declared: dict[tuple[tuple[str, ...], str, int], str] = {}
        for rank, groups in families.items():
            table = self.bundle.programs[rank].groups
            for name, dims in groups.items():
                group = table[name]
                place = alike(table, group).index(name)
                identity = (dims, group.desc, place)
                if identity not in declared:
                    declared[identity] = self._family(dims, group.desc, place)
                self.groups.names[self.keys[rank][name]] = declared[identity]
        for rank in self.drafts:
            ranks = [r for r, origin in self.origin.items() if origin == rank]
            self._program(self.builder.program(ranks), rank)

    def _family(self, dims: tuple[str, ...], desc: str, place: int) -> str:
        whole = len(dims) == max(len(self.bundle.mesh), 1)
        if whole and (desc == "default_pg" or not desc) and place == 0:
            return "world"
        stem = "+".join(dims) if place == 0 else f"{'+'.join(dims)}#{place}"
        name = stem if stem not in self.groups.taken else f"{stem} ({desc})"
        self.groups.taken.add(name)
        return self.builder.group(name, mesh_dims=list(dims))

    def _with_mesh(self, mesh: tuple[tuple[str, int], ...]) -> PlanBuilder:
        return _new_builder(type(self.builder), replace(self.bundle, mesh=mesh), self.model)

    def _declare_groups(self) -> None:
        for rank in range(self.bundle.world_size):
            table = self.bundle.programs[self.origin[rank]].groups
            for name, key in self.keys[rank].items():
                if key not in self.groups.names:
                    plan_name = self.groups.name(key, table[name].desc)
                    if plan_name != "world":
                        self.builder.group(plan_name, key.ranks)

    def _program(self, program: ProgramBuilder, rank: int) -> None:
        drafts = self.drafts[self.origin[rank]].drafts
        key = id(drafts), tuple(self.keys[rank].items())
        if key in self.written:  # by a rank that does the same
            program.extend(self.written[key])
            return
        for draft in drafts:
            self._add(program, draft, rank)
        self.written[key] = program.actions

    def _add(self, program: ProgramBuilder, draft: Draft, rank: int) -> None:
        if not draft.branches:
            program.extend((self._action(program, draft, rank),))
            return
        fields = self._fields(draft, rank)
        name, uniform = fields.pop("name"), fields.pop("uniform")
        del fields["op"]
        with program.choice(name, uniform=uniform, **fields):
            for branch in draft.branches:
                with program.branch():
                    for inner in branch:
                        self._add(program, inner, rank)

    def _action(self, program: ProgramBuilder, draft: Draft, rank: int) -> Node:
        """Return an action; ranks that run one graph differ in group, root and label."""
        talk, key = draft.communication, (id(draft), "", 0, None)
        if talk is not None:
            group = self.keys[rank][talk.group]
            root = 0 if talk.root is None else group.ranks[talk.root]
            key = id(talk), self.groups.names[group], root, draft.fields.get("label")
        found = self.made.get(key)
        if found is None:
            found = self.made[key] = program.action(**self._fields(draft, rank))
        return found

    def _fields(self, draft: Draft, rank: int) -> dict[str, Any]:
        talk = draft.communication
        if talk is None:
            return dict(draft.fields)
        key = self.keys[rank][talk.group]
        name = self.groups.names[key]
        fields = {**draft.fields}
        if fields["op"] == "batch":
            fields["ops"] = [{**op, "group": name} for op in fields["ops"]]
        else:
            fields["group"] = name
        if talk.root is not None:
            fields["root"] = key.ranks[talk.root]
        return fields

    def _ledger(self, unlabeled: int) -> None:
        for kind, message, direction in self.bundle.notes:
            self.builder.approximate(kind, message, direction, scope="plan")
        for (kind, message, direction), actions in self._notes().items():
            plan_wide = direction == "under"
            self.builder.approximate(
                kind, message, direction, actions, scope="plan" if plan_wide else "actions"
            )
        if self.agreed:
            message = (
                f"{len(self.agreed)} exchanges have sizes that only the run knows; each member "
                "expects what the others send, computed alike from counts that they exchange. That "
                "the splits add up to the rows they split is left to the program"
            )
            self.builder.approximate("equal-sizes", message, "exact", self.agreed, scope="plan")
        if unlabeled:
            message = (
                f"{unlabeled} collectives have no label that all members share; their rounds are "
                "told apart by position only"
            )
            self.builder.approximate("no-labels", message, "exact", scope="plan")
        if self.bundle.like:
            self.builder.approximate(
                "spmd-substitution", self._substitution(), "exact", scope="plan"
            )

    def _notes(self) -> Mapping[tuple[str, str, str], list[tuple[int, int]]]:
        found: dict[tuple[str, str, str], list[tuple[int, int]]] = {}
        for rank, draft in self.drafts.items():
            for note in draft.notes:
                key = (note.kind, note.message, note.direction)
                found.setdefault(key, []).append((rank, note.action))
        return found

    def _substitution(self) -> str:
        seen = _listed(self.drafts)
        return (
            f"{len(self.drafts)} of {self.bundle.world_size} ranks were captured ({seen}); the "
            "others are taken to run the same graphs on their own groups"
        )


def _listed(ranks: Iterable[int]) -> str:
    found = sorted(ranks)
    shown = ", ".join(map(str, found[:8]))
    return (
        f"rank {shown}" if len(found) == 1 else f"ranks {shown}{', ...' if len(found) > 8 else ''}"
    )
