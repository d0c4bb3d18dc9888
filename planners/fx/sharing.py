"""Rank programs that differ only in the names of their groups are one program in a dump."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from .model import (
    Arg,
    FxBundle,
    FxGraph,
    FxGroup,
    FxNode,
    RankProgram,
)
from .operations import group_argument

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from ..common.reading import At


def shared_programs(
    bundle: FxBundle,
) -> tuple[dict[str, tuple[FxGraph, ...]], dict[str, Any]]:
    """Return the distinct programs by name and the rows of the ``ranks`` table.

    Two ranks share a program when their graphs are equal after renaming groups by first use.
    """
    programs: dict[str, tuple[FxGraph, ...]] = {}
    names: dict[str, tuple[str, list[str]]] = {}
    rows: dict[str, Any] = {}
    for rank in sorted(bundle.programs):
        program = bundle.programs[rank]
        canonical, order = canonical_graphs(program)
        key = _hashable(canonical)
        if key not in names:
            names[key] = (f"p{len(programs)}", order)
            programs[names[key][0]] = program.graphs
        name, spelling = names[key]
        rows[str(rank)] = {"program": name, "groups": _table(program, order, spelling)}
    for rank, origin in sorted(bundle.like.items()):
        rows[str(rank)] = {"like": origin}
    return programs, rows


def canonical_graphs(program: RankProgram) -> tuple[tuple[FxGraph, ...], list[str]]:
    """Rename the groups of a program to ``@0``, ``@1`` by first use; return the old names too."""
    order: list[str] = []

    def rename(node: FxNode) -> FxNode:
        place = group_argument(node)
        if place is None:
            return node
        key, name = place
        if name not in order:
            order.append(name)
        alias = f"@{order.index(name)}"
        if isinstance(key, str):
            return replace(node, kwargs={**node.kwargs, key: alias})
        args: list[Arg] = list(node.args)
        args[key] = alias
        return replace(node, args=tuple(args))

    def walk(graph: FxGraph) -> FxGraph:
        nodes = tuple(rename(node) for node in graph.nodes)
        return FxGraph(nodes, graph.phase, {k: walk(g) for k, g in graph.subgraphs.items()})

    return tuple(walk(graph) for graph in program.graphs), order


def _hashable(graphs: tuple[FxGraph, ...]) -> str:
    return repr([_plain(graph) for graph in graphs])


def _plain(graph: FxGraph) -> Any:
    return (graph.phase, graph.nodes, sorted((k, _plain(g)) for k, g in graph.subgraphs.items()))


def _table(program: RankProgram, order: list[str], spelling: list[str]) -> dict[str, Any]:
    written = dict(zip(order, spelling, strict=True))
    rows: dict[str, Any] = {}
    for key, group in program.groups.items():
        shared = written.get(key, key)
        if shared in rows or (key not in written and shared in spelling):
            continue  # an unused group whose own name another group of the program already has
        row: dict[str, Any] = {"ranks": list(group.ranks)}
        if group.name != shared:
            row["name"] = group.name
        if group.desc:
            row["desc"] = group.desc
        rows[shared] = row
    return rows


def expand_ranks(
    table: At,
    graphs: Mapping[str, tuple[FxGraph, ...]],
    world: int,
    read_groups: Callable[[At, int], dict[str, FxGroup]],
) -> tuple[dict[int, RankProgram], dict[int, int]]:
    """Read the ``ranks`` table: programs per rank, and the ranks that run another rank's program.

    Raises:
        PlanError: If a rank is missing, selected twice, or copies a rank without a program.
    """
    programs: dict[int, RankProgram] = {}
    like: dict[int, At] = {}
    for key, row in table.items():
        found = row.fields("program", "groups", "like")
        for rank in _selected(key, row, world):
            if rank in programs or rank in like:
                row.fail(f"rank {rank} is selected twice")
            if "like" in found:
                like[rank] = found["like"]
                continue
            if "program" not in found:
                row.fail("a rank has a program, or is like another rank")
            name = found["program"].text()
            if name not in graphs:
                found["program"].fail(f"no program is called {name!r}")
            groups = read_groups(found["groups"], world) if "groups" in found else {}
            programs[rank] = RankProgram(graphs[name], groups)
    missing = [r for r in range(world) if r not in programs and r not in like]
    if missing:
        table.fail(f"rank {missing[0]} has no program", hint='use {"like": R} for SPMD ranks')
    origins = {}
    for rank, at in like.items():
        origins[rank] = at.integer(0, world - 1)
        if origins[rank] not in programs:
            at.fail(f"rank {origins[rank]} has no program of its own")
    return programs, origins


def _selected(key: str, row: At, world: int) -> Iterator[int]:
    for part in key.split(","):
        first, dash, last = part.partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            row.fail(f"{key!r} does not select ranks", hint="write 3, 0-3 or 0,4,8")
        for rank in range(int(first), int(last if dash else first) + 1):
            if rank >= world:
                row.fail(f"rank {rank} is outside the world of {world}", code="PG402")
            yield rank


def signature(program: RankProgram) -> str:
    """Return a text that two ranks share when they run the same graphs on alike groups."""
    canonical, order = canonical_graphs(program)
    sizes = [len(program.groups[name].ranks) if name in program.groups else 0 for name in order]
    return json.dumps([_hashable(canonical), sizes])
