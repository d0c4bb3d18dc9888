"""Logs of recorded ranks to a plan, with the ranks nobody played filled in by symmetry."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from planguard.capture.planner import fx_planner

if TYPE_CHECKING:
    from collections.abc import Mapping

    from planguard.capture.fake_world import Mesh
    from planguard.capture.session import Session
    from planguard.plan.plan import Plan


@dataclass(frozen=True)
class RankLog:
    """The log of one rank as plain data (see ``Recorder``), and where it asked for its rank."""

    rank: int
    actions: list[dict[str, Any]]
    groups: dict[str, list[int]]
    notes: list[tuple[str, str, str]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    reads: list[str] = field(default_factory=list)

    def to_json(self) -> bytes:
        """Write the log for another process."""
        return json.dumps(asdict(self)).encode()


def log_of(session: Session) -> RankLog:
    """Take the log of a session."""
    recorder = session.recorder
    return RankLog(
        session.rank,
        recorder.actions,
        recorder.groups,
        recorder.notes,
        recorder.problems,
        session.reads,
    )


def read_log(data: bytes) -> RankLog:
    """Read what ``RankLog.to_json`` wrote."""
    values = json.loads(data)
    values["notes"] = [tuple(note) for note in values["notes"]]
    return RankLog(**values)


def signature(log: RankLog, world_size: int, mesh: Mesh) -> str | None:
    """Return what alike ranks share: actions with groups by their place in the mesh.

    None when the log cannot stand for another rank: it names peers, has uneven splits, reads its
    rank, or uses a group that is no group of the mesh.
    """
    if log.problems or log.reads:
        return None
    places = _places(log, world_size, mesh)
    if places is None:
        return None
    rows = []
    for action in log.actions:
        row = {**action, "group": places.get(str(action.get("group")))}
        if "root" in action:
            row["root"] = log.groups[action["group"]].index(action["root"])
        rows.append(row)
    return json.dumps(rows)


def _places(log: RankLog, world_size: int, mesh: Mesh) -> dict[str, str] | None:
    grid = fx_planner().groups.Mesh(mesh or (("world", world_size),))
    found = {}
    for action in log.actions:
        key = action.get("group")
        if key is None or key in found:
            continue
        ranks = tuple(log.groups[key])
        varying = grid.family(log.rank, ranks) if log.rank in ranks else None
        if varying is None:
            return None
        found[key] = f"{varying}{key.partition('#')[2]}"
    return found


def build_plan(
    logs: Mapping[int, RankLog],
    like: Mapping[int, int],
    world_size: int,
    mesh: Mesh,
    *,
    name: str | None,
    model: str | None,
    tool: str = "planguard.precheck",
) -> Plan:
    """Build the plan of a job from the logs of its ranks.

    Raises:
        PlanError: If the logs do not make a plan.
    """
    from planguard.plan.builder import PlanBuilder

    builder = PlanBuilder(
        world_size,
        name=name,
        mesh=list(mesh) or None,
        model=model,
        producer=(tool, "1"),
    )
    names = _declare(builder, logs, like, world_size, mesh)
    for rank in range(world_size):
        origin = like.get(rank, rank)
        program = builder.program(rank)
        for action in logs[origin].actions:
            program.add(**_placed(action, logs[origin], names[rank]))
    _ledger(builder, logs, like, world_size)
    return builder.build()


Names = dict[str, tuple[str, list[int]]]


def _declare(
    builder: Any,
    logs: Mapping[int, RankLog],
    like: Mapping[int, int],
    world_size: int,
    mesh: Mesh,
) -> dict[int, Names]:
    """Declare every group once; return, per rank, the plan's name and ranks of each log's group."""
    grid = fx_planner().groups.Mesh(mesh or (("world", world_size),))
    declared: dict[str, str] = {",".join(map(str, range(world_size))): "world"}
    found: dict[int, Names] = {}
    for rank in range(world_size):
        log = logs[like.get(rank, rank)]
        for key, members in log.groups.items():
            ranks = members
            if rank != log.rank and log.rank in members:
                varying = grid.family(log.rank, tuple(members))
                ranks = list(grid.members(rank, varying or ()))
            text, suffix = ",".join(map(str, ranks)), "".join(key.partition("#")[1:])
            own = text + suffix
            if own not in declared:
                declared[own] = builder.group(f"[{text}]{suffix}", ranks)
            found.setdefault(rank, {})[key] = (declared[own], ranks)
    return found


def _placed(action: Mapping[str, Any], log: RankLog, names: Names) -> dict[str, Any]:
    fields = {**action}
    if "group" in fields:
        fields["group"], ranks = names[action["group"]]
        if "root" in fields:
            fields["root"] = ranks[log.groups[action["group"]].index(action["root"])]
    if fields["op"] == "batch":
        members = [{**member, "group": names[member["group"]][0]} for member in fields["ops"]]
        fields["ops"] = members
    return fields


def _ledger(
    builder: Any, logs: Mapping[int, RankLog], like: Mapping[int, int], world_size: int
) -> None:
    seen = set()
    for log in logs.values():
        for note in log.notes:
            if note not in seen:
                seen.add(note)
                builder.approximate(*note, scope="plan")
    message = "plain calls carry no identity; rounds of one shape are told apart by position only"
    builder.approximate("no-labels", message, "exact", scope="plan")
    if like:
        traced = ", ".join(map(str, sorted(logs)[:8]))
        message = (
            f"{len(logs)} of {world_size} ranks were played (ranks {traced}{_more(len(logs))}); "
            "the others are taken to behave like them on their own groups"
        )
        builder.approximate("spmd-substitution", message, "exact", scope="plan")


def _more(count: int) -> str:
    return ", ..." if count > 8 else ""
