"""The adapter: graphs of all ranks in, one plan out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from planguard.errors import PlanError, UsageError

from ..common.options import is_integer, is_list, wrong
from ..common.reading import starts_with_schema
from .convert import convert_program, is_graph
from .dump import SCHEMA, read_bundle
from .emit import emit
from .model import FxBundle, FxProgram, RankProgram

if TYPE_CHECKING:
    from planguard.plan.building.builder import PlanBuilder
    from planguard.plan.plan import Plan

_COMPUTE = ("fold", "all", "none")


@dataclass(frozen=True, kw_only=True)
class FxOptions:
    """Options of the adapter.

    Attributes:
        world_size: Number of ranks; by default the largest group plus one, or the dump's own.
        mesh: Device mesh as ``[(name, size), ...]``, for ranks without a graph of their own.
        spmd: Ranks without a graph run the graph of the nearest smaller captured rank.
        compute: ``fold`` one compute action between two communications, ``all`` nodes, or ``none``.
        name: Name of the plan.
        model: Execution model the plan asks for.
    """

    world_size: int | None = None
    mesh: tuple[tuple[str, int], ...] = ()
    spmd: bool = False
    compute: str = "fold"
    name: str | None = None
    model: str | None = None


class FxAdapter:
    """Reads torch.fx graphs with functional collectives.

    Takes ``{rank: FxProgram}`` (or ``{rank: GraphModule}`` with ``groups`` in the program), an
    ``FxBundle`` from a capture, one ``FxProgram`` with ``spmd=True``, or a JSON dump
    ``planguard.fx/1`` as path or parsed object.
    """

    name = "fx"

    def sniff(self, obj: object) -> bool:
        """Recognize an input without running it."""
        if isinstance(obj, (FxBundle, FxProgram)):
            return True
        if isinstance(obj, Mapping):
            if obj.get("schema") == SCHEMA:
                return True
            values = list(obj.values())
            return bool(values) and all(isinstance(v, FxProgram) or is_graph(v) for v in values)
        if isinstance(obj, (str, Path)):
            return starts_with_schema(obj, SCHEMA)
        return is_graph(obj)

    def adapt(self, obj: object, builder: type[PlanBuilder], **options: object) -> Plan:
        """Turn graphs into a plan.

        Args:
            obj: Any of the input forms above.
            builder: The ``PlanBuilder`` class.
            options: See ``FxOptions``.

        Raises:
            PlanError: If a graph is malformed, a group is unknown, or ranks are missing; the
                message names the node.
            UsageError: If an option does not exist.
        """
        chosen = _options(options)
        bundle = self.bundle(obj, chosen)
        return emit(bundle, builder, compute=chosen.compute, model=chosen.model)

    def bundle(self, obj: object, options: FxOptions | None = None) -> FxBundle:
        """Read any input form as plain data.

        Raises:
            PlanError: As ``adapt``.
        """
        chosen = options or FxOptions()
        if isinstance(obj, FxBundle):
            return _overridden(obj, chosen)
        if isinstance(obj, (str, Path)):
            return _overridden(read_bundle(obj), chosen)
        if isinstance(obj, Mapping) and "schema" in obj:
            return _overridden(read_bundle(obj), chosen)
        if isinstance(obj, Mapping):
            return _from_programs(obj, chosen)
        program = obj if isinstance(obj, FxProgram) else FxProgram(obj)
        return _from_programs({0: program}, chosen)


def _options(options: Mapping[str, object]) -> FxOptions:
    known = FxOptions.__dataclass_fields__
    for key in options:
        if key not in known:
            raise UsageError(
                f"the fx adapter has no option {key!r}", hint=f"known: {', '.join(known)}"
            )
    values: dict[str, Any] = dict(options)
    if values.get("mesh"):
        values["mesh"] = _mesh(values["mesh"])
    if values.get("compute", "fold") not in _COMPUTE:
        raise UsageError(f"compute is {values['compute']!r}", hint=f"one of {', '.join(_COMPUTE)}")
    return FxOptions(**values)


def _mesh(given: Any) -> tuple[tuple[str, int], ...]:
    rows = list(given.items()) if isinstance(given, Mapping) else given
    if not is_list(rows) or not all(is_list(row) and len(row) == 2 for row in rows):
        raise wrong("fx", "mesh", given, 'dimensions and their sizes, [["dp", 2], ["tp", 4]]')
    for dim, size in rows:
        if not (isinstance(dim, str) and is_integer(size, 1)):
            raise wrong("fx", "mesh", given, "names and sizes from 1")
    return tuple((dim, size) for dim, size in rows)


def _overridden(bundle: FxBundle, options: FxOptions) -> FxBundle:
    if options.world_size not in (None, bundle.world_size):
        raise UsageError(
            f"world_size is {options.world_size}, the graphs are of a world of {bundle.world_size}"
        )
    return replace(bundle, name=options.name or bundle.name, mesh=options.mesh or bundle.mesh)


def _from_programs(programs: Mapping[Any, Any], options: FxOptions) -> FxBundle:
    converted: dict[int, RankProgram] = {}
    for rank, value in programs.items():
        if isinstance(rank, bool) or not isinstance(rank, int) or rank < 0:
            raise PlanError("ranks are non-negative integers", value=rank, path="programs")
        program = value if isinstance(value, FxProgram) else FxProgram(value)
        converted[rank] = convert_program(program)
    world = options.world_size or _world(converted)
    outside = [rank for rank in converted if rank >= world]
    if outside:
        raise PlanError(
            f"rank {outside[0]} is outside the world of {world}", code="PG402", path="programs"
        )
    return FxBundle(
        world_size=world,
        programs=converted,
        like=_like(converted, world, spmd=options.spmd),
        mesh=options.mesh,
        name=options.name,
        producer=("torch.fx", ""),
    )


def _world(programs: Mapping[int, RankProgram]) -> int:
    ranks = [
        rank for program in programs.values() for g in program.groups.values() for rank in g.ranks
    ]
    return max([*ranks, *programs], default=0) + 1


def _like(programs: Mapping[int, RankProgram], world: int, *, spmd: bool) -> dict[int, int]:
    missing = [rank for rank in range(world) if rank not in programs]
    if not missing:
        return {}
    if not spmd:
        _refuse(missing, world)
    captured = sorted(programs)
    return {
        rank: max((known for known in captured if known < rank), default=captured[0])
        for rank in missing
    }


def _refuse(missing: list[int], world: int) -> NoReturn:
    shown = ", ".join(map(str, missing[:6])) + (", ..." if len(missing) > 6 else "")
    raise PlanError(
        f"{len(missing)} of {world} ranks have no graph: {shown}",
        path="programs",
        hint="pass the graph of every rank, or spmd=True if they all run the same one",
    )


adapter = FxAdapter()
"""The instance behind the entry point ``fx``."""
