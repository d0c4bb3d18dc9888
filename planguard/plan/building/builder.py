"""PlanBuilder: the way for a program to make a plan; the same checks as for a file."""

from __future__ import annotations

import operator
import re
from typing import TYPE_CHECKING, Any, SupportsIndex

import msgspec
from msgspec import UNSET

from planguard.arguments import LIMITS, arguments
from planguard.errors import PlanError
from planguard.plan import document as d
from planguard.plan.building.appending import encoded, field_error
from planguard.plan.building.blocks import caller, placed
from planguard.plan.building.program import ProgramBuilder
from planguard.plan.defects import refusal
from planguard.plan.dtypes import dtype_name
from planguard.plan.format import read_made
from planguard.plan.limits import DEFAULT_LIMITS
from planguard.plan.pointers import step
from planguard.plan.reading.strict import parse_slowly
from planguard.records import decoder_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from planguard.plan.building.blocks import Line
    from planguard.plan.limits import Limits
    from planguard.plan.plan import Plan


class PlanBuilder:
    """Builds a plan action by action.

    Example:
        >>> builder = PlanBuilder(2, name="head-to-head")
        >>> for rank in range(2):
        ...     program = builder.program(rank)
        ...     program.send(1 - rank, count=1, dtype="f32")
        ...     program.recv(1 - rank, count=1, dtype="f32")
        >>> builder.build().length(0)
        2

    Args:
        world_size: Number of ranks.
        name: Name of the plan.
        mesh: Mesh dimensions, outermost first: ``[("pp", 4), ("tp", 2)]``.
        model: Default execution model.
        producer: The tool that makes the plan, and optionally its version.
        lines: Give every action that has no ``src`` the file, line and function that made it, so
            that findings name the planner's own code.
    """

    def __init__(
        self,
        world_size: int,
        *,
        name: str | None = None,
        mesh: Sequence[tuple[str, int]] | None = None,
        model: str | None = None,
        producer: str | tuple[str, str] | None = None,
        lines: bool = False,
    ) -> None:
        self.world_size = world_size
        self._lines = lines
        self._places: dict[str, Line] = {}
        self._top: dict[str, Any] = {"name": name, "model": model}
        if mesh is not None:
            self._top["mesh"] = d.MeshSpec(dims=listed(mesh))
        if producer is not None:
            said = listed(producer)
            tool, version = said if isinstance(said, list) and len(said) == 2 else (said, UNSET)
            self._top["producer"] = d.ProducerSpec(tool=tool, version=version)
        top = {key: value for key, value in self._top.items() if value is not None}
        self._declare({"world_size": world_size, **top}, "$")
        self._groups: dict[str, d.GroupSpec] = {}
        self._templates: dict[str, ProgramBuilder] = {}
        self._programs: dict[str, ProgramBuilder] = {}
        self._uses: dict[str, str] = {}
        self._tensors: dict[str, d.TensorSpec] = {}
        self._fusion: list[d.FusionSpec] = []
        self._approximations: list[d.ApproximationSpec] = []

    def group(
        self,
        name: str,
        ranks: Iterable[int] | None = None,
        *,
        mesh_dims: Sequence[str] | None = None,
        backend: str | None = None,
        created: int | None = None,
    ) -> str:
        """Declare a process group, or a family of groups, and return its name.

        Args:
            name: What actions call it.
            ranks: Its ranks, in order.
            mesh_dims: Instead of ranks: one group for every setting of the other dimensions.
            backend: ``nccl``, ``gloo`` or ``mpi``.
            created: Its place in the order of creation.

        Raises:
            PlanError: The name is taken (PG409), or dimensions are given as ranks or as text.
        """
        path = _named("$.groups", name)
        _refuse_names(name, ranks, mesh_dims)
        if name in self._groups:
            hint = "choose another name, or declare it once"
            raise refused("group declared twice", code="PG409", path=path, value=name, hint=hint)
        made = d.GroupSpec(
            ranks=UNSET if ranks is None else listed(ranks),
            mesh_dims=UNSET if mesh_dims is None else listed(mesh_dims),
            backend=UNSET if backend is None else backend,  # type: ignore[arg-type]
            created=UNSET if created is None else created,
        )
        self._declare({"groups": {name: made}}, path)
        self._groups[name] = made
        return name

    def template(self, name: str) -> ProgramBuilder:
        """Return the template of this name, new at the first call."""
        path = _named("$.templates", name)
        if name not in self._templates:
            self._declare({}, path)
            self._templates[name] = ProgramBuilder(path, lines=self._lines)
        return self._templates[name]

    def program(self, ranks: int | str | Iterable[int]) -> ProgramBuilder:
        """Return the program of a rank, of some ranks or of a selector, new at the first call."""
        selector = _selector(ranks)
        if selector not in self._programs:
            path = step("$.ranks", selector)
            self._declare({}, path)
            self._programs[selector] = ProgramBuilder(path, lines=self._lines)
        return self._programs[selector]

    def use(self, ranks: int | str | Iterable[int], template: str) -> None:
        """Let some ranks run a template.

        Raises:
            PlanError: The same selector was given a template before.
        """
        selector = _selector(ranks)
        path = step("$.ranks", selector)
        _named("$.templates", template)
        if selector in self._uses:
            hint = "every rank runs one template or one program"
            raise refused("selector used twice", path=path, value=selector, hint=hint)
        self._declare({}, path)
        self._uses[selector] = template

    def tensor(
        self, name: str, shape: Sequence[int], dtype: str, strategy: Sequence[int] | None = None
    ) -> str:
        """Declare a tensor that actions may name, and return its name.

        Raises:
            PlanError: The shape, the element type or the strategy is none, or the name has another
                one: actions that name it would have changed.
        """
        path = _named("$.tensors", name)
        try:
            made = d.TensorSpec(
                shape=listed(shape),
                dtype=dtype_name(dtype),  # type: ignore[arg-type]
                strategy=UNSET if strategy is None else listed(strategy),
            )
        except PlanError as error:
            raise placed(error, caller()) from None
        if self._tensors.get(name, made) != made:
            hint = "choose another name"
            raise refused("tensor declared twice, differently", path=path, value=name, hint=hint)
        self._declare({"tensors": {name: made}}, path)
        self._tensors[name] = made
        return name

    def fusion(self, id: str, members: Iterable[str], **fields: Any) -> None:
        """Declare a fused buffer over the actions with the ids ``members``.

        Raises:
            PlanError: There is no such field, or a value that it cannot have.
        """
        given = {name: value for name, value in fields.items() if value is not None}
        given |= {"id": id, "members": listed(members)}
        path = f"$.fusion[{len(self._fusion)}]"
        try:
            made = d.FusionSpec(**given)
        except TypeError as error:
            raise placed(
                field_error("fusion", d.FusionSpec, given, error, path), caller()
            ) from None
        self._declare({"fusion": [made]}, path)
        self._fusion.append(made)

    def approximate(
        self,
        kind: str,
        message: str,
        direction: str = "exact",
        actions: Iterable[tuple[int, int]] = (),
        scope: str = "actions",
    ) -> None:
        """Record what the plan says too much (``over``), too little (``under``) or just notes.

        Args:
            kind: Short name, for example ``dynamic-shape``.
            message: One sentence.
            direction: ``over`` admits executions that may not exist, ``under`` leaves some out.
            actions: ``(rank, action index)`` it touches.
            scope: ``plan`` when it touches everything, ``onward`` what begins with its actions.

        Raises:
            PlanError: A direction, a scope or an action that cannot be.
        """
        touched = listed(actions)
        made = d.ApproximationSpec(
            kind=kind,
            message=message,
            direction=direction,  # type: ignore[arg-type]
            scope=scope,  # type: ignore[arg-type]
            actions=UNSET if touched == [] else touched,
        )
        path = f"$.approximations[{len(self._approximations)}]"
        self._declare({"approximations": [made]}, path)
        self._approximations.append(made)

    def topology(self, ranks: Iterable[Any] = (), links: Iterable[Any] = ()) -> None:
        """Say where ranks run and which links join them, as objects of the plan format.

        Raises:
            PlanError: One is no such object.
        """
        made = {"ranks": listed(ranks), "links": listed(links)}
        self._declare({"topology": made}, "$.topology")
        self._top["topology"] = made

    def _declare(self, fields: dict[str, Any], path: str) -> None:
        """Check at the call what stands outside of programs, and note the author's line.

        What PlanGuard's own adapters declare is checked by ``build`` alone, as their actions are.

        Raises:
            PlanError: A field has not the type or range of the format; the words are the reader's.
        """
        line = caller()
        if line is None:
            return
        if fields:
            alone = {"schema": d.SCHEMA, "world_size": 1, "ranks": {"0": {"actions": []}}}
            try:
                data = encoded(alone | fields, path)
                try:
                    decoder_of(d.Document).decode(data)
                except (msgspec.DecodeError, UnicodeDecodeError):
                    parse_slowly(data, None)
            except PlanError as error:
                if path.endswith("]"):  # alone it is the first of its list
                    error.path = path + error.path.partition("]")[2]
                raise placed(error, line) from None
        self._places[path] = line

    @arguments(limits=LIMITS)
    def build(self, limits: Limits = DEFAULT_LIMITS) -> Plan:
        """Check everything and return the plan.

        Raises:
            PlanError: What the reader would refuse in a file, it refuses here.
        """
        programs = [*self._templates.values(), *self._programs.values()]
        for program in programs:
            program.finish()
        both = self._uses.keys() & self._programs.keys()
        if both:
            path = step("$.ranks", min(both))
            hint = "every rank runs one template or one program"
            message = "selector has a template and a program"
            error = refusal(message, path=path, value=min(both), hint=hint)
            raise placed(error, self._places.get(path))
        uses: dict[str, Any] = {s: {"template": name} for s, name in self._uses.items()}
        plan = {
            "schema": d.SCHEMA,
            "world_size": self.world_size,
            **{name: value for name, value in self._top.items() if value is not None},
            "approximations": self._approximations,
            "tensors": self._tensors,
            "groups": self._groups,
            "fusion": self._fusion,
            "templates": {name: program.actions for name, program in self._templates.items()},
        }
        plan = {name: value for name, value in plan.items() if value}
        try:
            head = encoded(plan | {"ranks": uses})
            made = {s: encoded(program.actions) for s, program in self._programs.items()}
            ranks = {s: {"actions": msgspec.Raw(text)} for s, text in made.items()}
            return read_made(head, made, encoded(plan | {"ranks": uses | ranks}), limits)
        except PlanError as error:
            line = _line_of(error.path, programs) or self._declared_at(error.path) or caller()
            raise placed(error, line) from None

    def _declared_at(self, path: str) -> Line | None:
        """Return the author's line of the innermost declaration around a path, if there is one."""
        around = [one for one in self._places if path.startswith(one) and _ends(one, path)]
        inner = max(around, key=len, default="$")
        # What is said of the plan as a whole (a rank without a program) is no fault of its head.
        is_head = inner == "$" and path.removeprefix("$.").partition(".")[0] not in _HEAD
        return None if is_head else self._places.get(inner)


_HEAD = ("world_size", "name", "model", "mesh", "producer")


def _ends(one: str, path: str) -> bool:
    return path[len(one) : len(one) + 1] in ("", ".", "[")


def _named(path: str, name: object) -> str:
    """Return the path of something with a name.

    Raises:
        PlanError: The name is no text.
    """
    if not isinstance(name, str):
        raise refused("a name is a text", path=path, value=name, hint="give a str")
    return step(path, name)


def refused(message: str, **said: Any) -> PlanError:
    """Return a refusal that names the author's line."""
    return placed(refusal(message, **said), caller())


def listed(values: Any) -> Any:
    """Return what may be gone through as a list; the check of the format refuses anything else."""
    if isinstance(values, str | bytes | dict) or not hasattr(values, "__iter__"):
        return values
    return list(values)


def _line_of(path: str, programs: list[ProgramBuilder]) -> Line | None:
    """Return the author's line of the innermost action that a path leads to, if it is known."""
    for program in programs:
        rest = path.removeprefix(program.path)
        if rest != path and rest[:1] in (".", "["):
            break
    else:
        return None
    here: Any = program.actions
    found: Line | None = None
    for name, number in re.findall(r"\.(\w+)|\[(\d+)\]", rest):
        if isinstance(here, list):
            if number and int(number) < len(here):
                here = here[int(number)]
                found = program.line_of(here) or found
            elif name != "actions":
                break
        elif name in ("body", "ops", "threads", "branches"):
            here = getattr(here, name, None)
        else:
            break
    return found


def _refuse_names(name: str, ranks: object, mesh_dims: object) -> None:
    """Refuse dimensions of the mesh where ranks stand, and a name where a list of names does."""
    named = [ranks] if isinstance(ranks, str) else ranks if isinstance(ranks, list | tuple) else ()
    dims = [one for one in named if isinstance(one, str)]
    if isinstance(mesh_dims, str):
        dims = [mesh_dims]
    if dims:
        hint = f"a family over dimensions of the mesh is group({name!r}, mesh_dims={dims!r})"
        message = "a group has a list of ranks, or of dimensions"
        raise refused(message, path=step("$.groups", name), value=dims[0], hint=hint)


def _selector(ranks: int | str | Iterable[int]) -> str:
    if isinstance(ranks, str):
        return ranks
    if isinstance(ranks, int | SupportsIndex):  # the second is slow to ask
        return str(operator.index(ranks))
    try:
        return ",".join(_intervals(sorted(operator.index(rank) for rank in ranks)))
    except TypeError:
        hint = 'a rank, a list of ranks, or a selector: "3", "0-3", "0,4,8", "pp=0,tp=1"'
        raise refused("not a choice of ranks", path="$.ranks", value=ranks, hint=hint) from None


def _intervals(ranks: list[int]) -> list[str]:
    """Return sorted ranks as intervals: ``0-3``, ``8``."""
    parts: list[list[int]] = []
    for rank in ranks:
        if parts and rank == parts[-1][1] + 1:
            parts[-1][1] = rank
        else:
            parts.append([rank, rank])
    return [str(a) if a == b else f"{a}-{b}" for a, b in parts]
