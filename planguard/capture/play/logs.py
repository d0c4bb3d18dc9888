"""Logs of recorded ranks to a plan, with the ranks nobody played filled in by symmetry.

Above 400 lines: what is copied to a rank that nobody played, what is kept of one that was, and what
the ledger says of either are decided together, call by call.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from planguard.capture.names.data_names import DATA
from planguard.capture.names.set_orders import TURN
from planguard.capture.names.thread_orders import THREAD
from planguard.capture.planner import fx_planner
from planguard.capture.play.called import CUT
from planguard.capture.play.labels import labelled
from planguard.capture.play.quiet_ends import why_empty
from planguard.capture.play.sure import doubtful_from
from planguard.capture.values.values import KIND as MADE_UP
from planguard.execution.findings.undecided import ENDED_EARLY, UNSEEN
from planguard.plan.flatten import INNER
from planguard.words import name_ranks

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from planguard.capture.play.fake_world import Mesh
    from planguard.capture.play.quiet_ends import Said
    from planguard.capture.play.session import Session
    from planguard.plan.plan import Plan


@dataclass(frozen=True)
class RankLog:
    """The log of one rank as plain data (see ``Recorder``), and where it asked for its rank.

    Attributes:
        end: How the body ended on this rank: empty for a return, else the exception in one line.
        trace: The frames of that exception.
        store_races: Readings of the store beside which another rank changed what was read.
        store_reads: Readings on which this rank decided: the place, and the key.
        imported: Modules that the body was the first to import, and that take long.
        parsed: Files that this rank was the first to parse.
        waits: Places where one of its threads waited for another otherwise than by a join.
        passes: Walks over loaders of declared length (see ``loaders.Pass``).
        sites: What it asked of its own machine and process, and where (``own_answers``).
        files: The program's, where it asked for the time, or read from a tensor.
        said: A fingerprint of all that it said to the other ranks and to the store, in order.
        hidden: What else may have told it something of them (``hidden``); empty for nothing.
        readings: Fingerprints of what it read from tensors, by line (``own_values``).
        sure: Actions in front of the first reading of a made-up value; None for all.
        is_cut: What this rank did behind its last action is not in the log.
        left_at: Where it was when it was called back; empty for a rank that came to its end.
        ended: How and where it ended by itself; empty for an exception.
        printed: The last line that it printed.
        devices: Places where it asked for a device and was told of none (``devices``).
    """

    rank: int
    actions: list[dict[str, Any]]
    groups: dict[str, list[int]]
    notes: list[tuple[str, str, str]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    reads: list[str] = field(default_factory=list)
    end: str = ""
    trace: str = ""
    imported: list[str] = field(default_factory=list)
    store_races: list[str] = field(default_factory=list)
    store_reads: dict[str, list[str]] = field(default_factory=dict)
    waits: list[str] = field(default_factory=list)
    passes: list[dict[str, Any]] = field(default_factory=list)
    sites: list[list[str]] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    said: str = ""
    hidden: str = ""
    parsed: list[str] = field(default_factory=list)
    readings: dict[str, list[int]] = field(default_factory=dict)
    seeds: list[list[str]] = field(default_factory=list)
    backends: list[list[str]] = field(default_factory=list)
    sure: int | None = None
    is_cut: bool = False
    left_at: str = ""
    ended: str = ""
    printed: str = ""
    devices: list[str] = field(default_factory=list)

    def to_json(self) -> bytes:
        """Write the log for another process."""
        return json.dumps(asdict(self)).encode()


def log_of(
    session: Session,
    said: Said,
    *,
    end: str,
    trace: str,
    imported: list[str],
    parsed: list[str],
    devices: list[str],
) -> RankLog:
    """Take the log of a session, and what its program said last."""
    recorder = session.recorder
    return RankLog(
        session.rank,
        recorder.actions,
        recorder.groups,
        recorder.notes,
        recorder.problems,
        session.reads,
        end,
        trace,
        imported,
        sorted(recorder.store_races),
        recorder.store_reads,
        recorder.threads.waits,
        [asdict(one) for one in recorder.passes],
        [list(site) for site in session.answers.sites],
        session.answers.files(session.readings.seen),
        session.mailbox.said,
        recorder.hidden,
        parsed,
        dict(session.readings.seen),
        [list(one) for one in session.answers.dice.seeds],
        session.named,
        recorder.sure,
        left_at=recorder.left_at,
        ended=said.at,
        printed=said.line,
        devices=devices,
    )


def doubt_races(logs: Mapping[int, RankLog]) -> None:
    """Say where a rank decides on a key of the store that ranks change in no fixed order."""
    raced = {reading for log in logs.values() for reading in log.store_races}
    for log in logs.values():
        for reading in sorted(raced & log.store_reads.keys()):
            place, key = log.store_reads[reading]
            message = (
                f"rank {log.rank} decides at {place} on the key {key!r} of the store while other "
                "ranks change it, in no order of their own: another run may decide otherwise"
            )
            for direction in ("under", "over"):
                if ("store-order", message, direction) not in log.notes:
                    log.notes.append(("store-order", message, direction))


def read_log(data: bytes) -> RankLog:
    """Read what ``RankLog.to_json`` wrote."""
    values = json.loads(data)
    values["notes"] = [tuple(note) for note in values["notes"]]
    return RankLog(**values)


def relative_signature(log: RankLog, world_size: int, mesh: Mesh) -> str | None:
    """Return what ranks of one equivalence class share, whatever they read.

    Operations, sizes, groups by their place in the mesh, peers by their distance on every
    dimension, roots by their place in the group; not the lines of the program. None when the log
    uses a group that is no group of the mesh.
    """
    grid = fx_planner().groups.Mesh(mesh or (("world", world_size),))
    places = _places(log, world_size, mesh, others=True)
    if places is None:
        return None
    rows = [_relative(action, log, places, grid) for action in log.actions]
    return json.dumps(rows, sort_keys=True)


_OF_THIS_RANK = ("src", "ns", "phase", DATA, TURN, THREAD)


def _relative(action: Mapping[str, Any], log: RankLog, places: Any, grid: Any) -> dict[str, Any]:
    row = {name: value for name, value in action.items() if name not in _OF_THIS_RANK}
    if "group" in row and row["op"] != "new_group":  # every rank makes it, by the same list
        row["group"] = places[action["group"]]
    if "root" in row:
        row["root"] = log.groups[action["group"]].index(action["root"])
    if isinstance(row.get("peer"), int):
        row["peer"] = _distance(grid, log.rank, row["peer"])
    if "ops" in row and row["op"] == "batch":
        row["ops"] = [_relative(member, log, places, grid) for member in row["ops"]]
    return row


def _distance(grid: Any, rank: int, peer: int) -> list[int]:
    """Return how far a peer is away on every dimension, around the end."""
    pairs = zip(grid.coordinates(rank), grid.coordinates(peer), grid.dims, strict=True)
    return [(there - here) % size for here, there, (_, size) in pairs]


def _moved(grid: Any, peer: int, rank: int, target: int) -> int:
    """Return the rank that is to ``target`` what ``peer`` is to ``rank``."""
    steps = zip(_distance(grid, rank, peer), grid.coordinates(target), grid.dims, strict=True)
    found = 0
    for step, here, (_, size) in steps:
        found = found * size + (here + step) % size
    return found


def _places(
    log: RankLog, world_size: int, mesh: Mesh, *, others: bool = False
) -> dict[str, str] | None:
    """Return the place of every group in the mesh; with ``others``, only of those it calls on."""
    grid = fx_planner().groups.Mesh(mesh or (("world", world_size),))
    found = {}
    batches = [action["ops"] for action in log.actions if action["op"] == "batch" and others]
    for action in [*log.actions, *(member for members in batches for member in members)]:
        key = action.get("group")
        if key is None or key in found or (others and action["op"] == "new_group"):
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
    fusion: Sequence[tuple[str, list[str]]] = (),
) -> Plan:
    """Build the plan of a job from the logs of its ranks.

    Args:
        logs: Logs by rank.
        like: The rank that stands for each one that was not played.
        world_size: Number of ranks.
        mesh: Dimensions of the job.
        name: Name of the plan.
        model: Execution model.
        tool: What made the logs.
        fusion: Buffers, each sent when all its members are ready.

    Raises:
        PlanError: If the logs do not make a plan.
    """
    from planguard.plan.building.builder import PlanBuilder

    builder = PlanBuilder(
        world_size,
        name=name,
        mesh=list(mesh) or None,
        model=model,
        producer=(tool, "1"),
    )
    names = _declare(builder, logs, like, world_size, mesh)
    actions, notes = labelled(logs)
    for rank in range(world_size):
        origin = like.get(rank, rank)
        program = builder.program(rank)
        grid = fx_planner().groups.Mesh(mesh or (("world", world_size),))
        for action in actions[origin]:
            fields = _placed(action, logs[origin], names[rank])
            program.add(**(fields if rank == origin else _translated(fields, grid, origin, rank)))
    for one, members in fusion:
        builder.fusion(one, members, membership="fixed", launch="when-ready")
    _ledger(builder, logs, like, world_size, doubtful_from(logs, actions, world_size))
    is_elsewhere = any(note[0] == UNSEEN for log in logs.values() for note in log.notes)
    if not is_elsewhere and (why := why_empty(logs)):
        builder.approximate(ENDED_EARLY, why, "under", scope="plan")
    ends = _ends([rank for rank, log in logs.items() if log.is_cut], actions)
    if ends:
        message = f"the log of {name_ranks(dict(ends))} ends early: what comes after is not known"
        message += _behind(actions, ends)
        builder.approximate("cut-short", message, "under", ends, scope="onward")
    for note in notes:
        builder.approximate(*note, scope="plan")
    return builder.build()


def _ends(
    cut: Sequence[int], actions: Mapping[int, Sequence[Mapping[str, Any]]]
) -> list[tuple[int, int]]:
    """Return the last action of ranks whose logs end early, where blocks do not hide its place."""
    return [
        (rank, len(actions[rank]) - 1)
        for rank in cut
        if actions[rank] and not any(name in one for one in actions[rank] for name in INNER)
    ]


def _behind(
    actions: Mapping[int, Sequence[Mapping[str, Any]]], ends: Sequence[tuple[int, int]]
) -> str:
    """Say of each rank behind which call its log ends, ranks of one line together."""
    places: dict[str, list[int]] = {}
    for rank, last in ends:
        src = actions[rank][last].get("src")
        if src:
            said = f"{actions[rank][last]['op']} at {src[0]}:{src[1]}"
            places.setdefault(said, []).append(rank)
    told = [f"{name_ranks(ranks)} behind {said}" for said, ranks in places.items()]
    return f" ({'; '.join(told)})" if told else ""


Names = dict[str, tuple[str, list[int]]]
_MADE = "made:"
"""In front of the key of a group where it is made: every rank makes all groups by one list."""


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
            suffix = "".join(key.partition("#")[1:])
            for use, listed in ((key, ranks), (_MADE + key, members)):
                text = ",".join(map(str, listed))
                own = text + suffix
                if own not in declared:
                    declared[own] = builder.group(f"[{text}]{suffix}", listed)
                found.setdefault(rank, {})[use] = (declared[own], listed)
    return found


def _placed(action: Mapping[str, Any], log: RankLog, names: Names) -> dict[str, Any]:
    fields = {**action}
    for inner in ("body", "threads"):
        if inner in fields:
            fields[inner] = [_inside(one, log, names) for one in fields[inner]]
    if fields["op"] == "new_group":
        fields["group"], _ = names[_MADE + action["group"]]
    elif "group" in fields:
        fields["group"], ranks = names[action["group"]]
        if "root" in fields:
            fields["root"] = ranks[log.groups[action["group"]].index(action["root"])]
    if fields["op"] == "batch":
        members = [{**member, "group": names[member["group"]][0]} for member in fields["ops"]]
        fields["ops"] = members
    return fields


def _translated(fields: dict[str, Any], grid: Any, origin: int, rank: int) -> dict[str, Any]:
    """Name the peers of a rank that was not played: as far away as its representative's."""
    if isinstance(fields.get("peer"), int):
        fields["peer"] = _moved(grid, fields["peer"], origin, rank)
    if fields["op"] == "batch":
        fields["ops"] = [_translated(dict(one), grid, origin, rank) for one in fields["ops"]]
    return fields


def _inside(item: Any, log: RankLog, names: Names) -> Any:
    """Place an item of a block: an action, or a chain of them."""
    if isinstance(item, list):
        return [_inside(one, log, names) for one in item]
    placed = _placed(item, log, names)
    return {"async" if name == "async_" else name: value for name, value in placed.items()}


def _ledger(
    builder: Any,
    logs: Mapping[int, RankLog],
    like: Mapping[int, int],
    world_size: int,
    doubtful: Sequence[tuple[int, int]],
) -> None:
    seen = set()
    for log in logs.values():
        for note in log.notes:
            if note in seen:
                continue
            seen.add(note)
            if note[0] == MADE_UP and note[2] == "over" and doubtful:
                builder.approximate(*note, doubtful, scope="onward")
            elif note[0] in (UNSEEN, CUT) and note[2] == "over":
                # What it would do behind that is not known; what it issued, it issued.
                builder.approximate(*note, scope="onward")
            else:
                builder.approximate(*note, scope="plan")
    message = "plain calls carry no identity; rounds of one shape are told apart by position only"
    builder.approximate("no-labels", message, "exact", scope="plan")
    message = (
        "what installed packages ask of clocks, hosts, files and random states, what the "
        "environment says, and what was computed before the job, is taken to be the same on every "
        "rank"
    )
    builder.approximate("own-order", message, "exact", scope="plan")
    if like:
        traced = ", ".join(map(str, sorted(logs)[:8]))
        message = (
            f"{len(logs)} of {world_size} ranks were played (ranks {traced}{_more(len(logs))}); "
            "the others are taken to behave like them on their own groups"
        )
        builder.approximate("spmd-substitution", message, "exact", scope="plan")


def _more(count: int) -> str:
    return ", ..." if count > 8 else ""
