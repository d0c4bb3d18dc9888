"""Document to CompiledPlan: groups, selectors and programs, each distinct program once."""

from __future__ import annotations

from array import array
from math import prod
from typing import TYPE_CHECKING

from msgspec import UNSET, Struct, structs

from planguard.plan.actions import NONE
from planguard.plan.code import CompiledPlan
from planguard.plan.compiling.emit import emit_program
from planguard.plan.compiling.emitter import Tables
from planguard.plan.compiling.refs import Refs
from planguard.plan.compiling.signing import Signing
from planguard.plan.compiling.tables import Labels, Names, Pool, Signatures, Sizes
from planguard.plan.defects import Defect, nearest, refusal
from planguard.plan.groups import WORLD, Mesh, ProcessGroup
from planguard.plan.nodes import MAX_INT
from planguard.plan.pointers import find_node, step
from planguard.plan.selectors import SelectorError, parse

if TYPE_CHECKING:
    from planguard.plan.code import Program
    from planguard.plan.document import Document, GroupSpec
    from planguard.plan.limits import Limits
    from planguard.plan.nodes import Action
    from planguard.plan.pointers import Steps


class Compiled(Struct, frozen=True):
    """A compiled document and what its checks need besides the words.

    Attributes:
        code: The words.
        mesh: The mesh, or None.
        groups: Groups by index; 0 is ``world``.
        ranges: The ranks of every program, as ranges.
    """

    code: CompiledPlan
    mesh: Mesh | None
    groups: tuple[ProcessGroup, ...]
    ranges: tuple[tuple[range, ...], ...]


def compile_document(document: Document, limits: Limits, file: str | None) -> Compiled:
    """Compile a document.

    Raises:
        PlanError: Any defect of groups, selectors or actions, with its place.
    """
    if document.world_size > limits.world_size:
        raise refusal(
            f"more than {limits.world_size} ranks",
            file=file,
            path="$.world_size",
            value=document.world_size,
            hint="raise Limits.world_size",
        )
    mesh = _mesh(document, file)
    groups = _groups(document, mesh, file)
    programs = _Programs(document, mesh, groups, limits, file)
    code = programs.code()
    return Compiled(code, mesh, groups, tuple(map(tuple, programs.ranges)))


def _mesh(document: Document, file: str | None) -> Mesh | None:
    if document.mesh is UNSET:
        return None
    dims = document.mesh.dims
    names = [name for name, _ in dims]
    size = min(prod(length for _, length in dims), MAX_INT)
    message = ""
    if not dims or size != document.world_size:
        message = f"the mesh has {size if dims else 0} ranks, the world {document.world_size}"
    elif len(set(names)) < len(names):
        message = "a mesh dimension is named twice"
    elif len(names) > 31:
        message = "more than 31 mesh dimensions"
    elif "wrap" in names or any(set("=,") & set(name) for name in names):
        message = "a mesh dimension cannot be named wrap, nor hold = or ,"
    if message:
        raise refusal(
            message,
            code="PG411",
            file=file,
            path="$.mesh.dims",
            value=dims,
            hint="the product of the sizes is world_size, and every name occurs once",
        )
    return Mesh.of(dims)


def _groups(document: Document, mesh: Mesh | None, file: str | None) -> tuple[ProcessGroup, ...]:
    world = ProcessGroup(WORLD, range(document.world_size))
    groups = {WORLD: world}
    for name, spec in ({} if document.groups is UNSET else document.groups).items():
        path = step("$.groups", name)
        group = _group(name, spec, document.world_size, mesh, file, path)
        if name == WORLD and (group.is_family or list(group.ranks) != list(world.ranks)):
            hint = "choose another name"
            message = "world always exists and holds all ranks in order"
            raise refusal(message, code="PG409", file=file, path=path, hint=hint)
        groups[name] = group
    return tuple(groups.values())


def _group(
    name: str, spec: GroupSpec, world_size: int, mesh: Mesh | None, file: str | None, path: str
) -> ProcessGroup:
    def refuse(message: str, field: str, code: str, value: object = None, hint: str = "") -> None:
        where = f"{path}.{field}" if field else path
        hint = hint or _GROUP_HINT
        raise refusal(message, code=code, file=file, path=where, value=value, hint=hint)

    backend = None if spec.backend is UNSET else spec.backend
    created = None if spec.created is UNSET else spec.created
    if (spec.ranks is UNSET) == (spec.mesh_dims is UNSET):
        refuse("a group has either ranks or mesh_dims", "", "PG901")
    if spec.mesh_dims is not UNSET:
        if mesh is None:
            refuse("a family of groups needs a mesh", "mesh_dims", "PG411")
        elif not spec.mesh_dims or len(set(spec.mesh_dims)) < len(spec.mesh_dims):
            refuse("mesh_dims is empty or names a dimension twice", "mesh_dims", "PG409")
        else:
            for dim in spec.mesh_dims:
                if dim not in mesh.names:
                    hint = nearest(dim, mesh.names)
                    refuse("unknown mesh dimension", "mesh_dims", "PG411", dim, hint)
            dims = tuple(sorted(mesh.names.index(dim) for dim in spec.mesh_dims))
            return ProcessGroup(name, (), dims, backend, created)
    ranks = () if spec.ranks is UNSET else spec.ranks
    if not ranks:
        refuse("a group needs at least one rank", "ranks", "PG409")
    if max(ranks) >= world_size:
        refuse(f"rank outside 0..{world_size - 1}", "ranks", "PG402", max(ranks))
    if len(set(ranks)) < len(ranks):
        refuse("a rank is listed twice", "ranks", "PG409", ranks)
    return ProcessGroup(name, tuple(ranks), (), backend, created)


_GROUP_HINT = 'for example {"ranks": [0, 1]}, or {"mesh_dims": ["tp"]} on a mesh with tp'


class _Programs:
    """Compiles templates and explicit programs, and gives every rank one of them."""

    def __init__(
        self,
        document: Document,
        mesh: Mesh | None,
        groups: tuple[ProcessGroup, ...],
        limits: Limits,
        file: str | None,
    ) -> None:
        self._document, self._mesh, self._groups, self._file = document, mesh, groups, file
        world_size = document.world_size
        group_ids = {group.name: index for index, group in enumerate(groups)}
        sizes = Sizes({} if document.tensors is UNSET else document.tensors)
        self._signatures = Signatures()
        fusion = [] if document.fusion is UNSET else document.fusion
        self._tables = Tables(
            refs=Refs(world_size, group_ids, mesh),
            signing=Signing(sizes, self._signatures, world_size),
            labels=Labels(limits.actions),
            streams=Names("main"),
            aux=Pool(),
            group_ids=group_ids,
            limits=limits,
            fused=frozenset(member for buffer in fusion for member in buffer.members),
            memo={},
        )
        self.programs: list[Program] = []
        self.ranges: list[list[range]] = []
        self._templates: dict[str, int] = {}
        self._of_list: dict[int, Program] = {}
        templates = {} if document.templates is UNSET else document.templates
        for name, actions in templates.items():
            self._templates[name] = self._compile(name, ("templates", name), actions)
        self.rank_program = array("I", [NONE]) * world_size
        for selector in document.ranks:
            self._assign(selector)
        self._check_all_selected()

    def _compile(self, name: str, steps: Steps, actions: list[Action]) -> int:
        program = self._of_list.get(id(actions))
        if program is None:
            try:
                program = emit_program(self._tables, name, steps, actions)
            except Defect as defect:
                place = steps + find_node(actions, defect.node)
                raise defect.at(place, self._file) from None
            self._of_list[id(actions)] = program
        else:  # what names mean is the same all over the plan, so the words are, too
            program = structs.replace(program, name=name, steps=steps)
        self.programs.append(program)
        self.ranges.append([])
        return len(self.programs) - 1

    def _assign(self, selector: str) -> None:
        path = step("$.ranks", selector)
        try:
            ranges = parse(selector, self._document.world_size, self._mesh)
        except SelectorError as error:
            hint = 'selectors: "3", "0-3", "0-15:4", "0,4,8", "pp=1-2,tp=0"'
            raise refusal(
                str(error), code=error.code, file=self._file, path=path, value=selector, hint=hint
            ) from None
        program = self._program(selector, path)
        self.ranges[program].extend(ranges)
        for ranks in ranges:
            place = slice(ranks.start, ranks.stop, ranks.step)
            free = self.rank_program[place]
            if free.count(NONE) < len(ranks):
                taken = next(r for r, p in zip(ranks, free, strict=True) if p != NONE)
                message = f"rank {taken} is selected twice"
                hint = "every rank is selected exactly once"
                raise refusal(message, file=self._file, path=path, value=selector, hint=hint)
            self.rank_program[place] = array("I", [program]) * len(ranks)

    def _program(self, selector: str, path: str) -> int:
        use = self._document.ranks[selector]
        if (use.template is UNSET) == (use.actions is UNSET):
            hint = 'an empty program is {"actions": []}'
            message = "give either template or actions"
            raise refusal(message, file=self._file, path=path, hint=hint)
        if use.actions is not UNSET:
            return self._compile(selector, ("ranks", selector, "actions"), use.actions)
        name = "" if use.template is UNSET else use.template
        if name not in self._templates:
            hint = nearest(name, self._templates) or "declare it under templates"
            raise refusal(
                "unknown template", file=self._file, path=f"{path}.template", value=name, hint=hint
            )
        return self._templates[name]

    def _check_all_selected(self) -> None:
        if NONE in self.rank_program:
            missing = self.rank_program.index(NONE)
            hint = f'add "{missing}": {{"actions": []}} if the rank does nothing'
            message = f"rank {missing} is selected by no selector"
            raise refusal(message, file=self._file, path="$.ranks", value=missing, hint=hint)

    def code(self) -> CompiledPlan:
        """Return the tables as one CompiledPlan."""
        tables, signatures, mesh = self._tables, self._signatures, self._mesh
        offsets, members, masks = array("I", [0]), array("I"), array("I")
        for group in self._groups:
            members.extend(group.ranks)
            offsets.append(len(members))
            masks.append(sum(1 << dim for dim in group.mesh_dims))
        return CompiledPlan(
            world_size=self._document.world_size,
            mesh_sizes=array("I", mesh.sizes if mesh else ()),
            group_names=tuple(group.name for group in self._groups),
            group_kind=array("B", [int(group.is_family) for group in self._groups]),
            group_off=offsets,
            group_members=members,
            group_mask=masks,
            refs=tables.refs.words,
            programs=tuple(self.programs),
            rank_program=self.rank_program,
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
