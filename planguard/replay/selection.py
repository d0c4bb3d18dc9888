"""Which ranks and actions of the plan a replay plays, and as which processes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from planguard.errors import ReplayError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from planguard.verdict import Witness

Action = dict[str, Any]
MOST_PROCESSES = 64
POINT_TO_POINT = frozenset({"send", "recv", "isend", "irecv"})
COLLECTIVES = frozenset(
    {
        "all_reduce",
        "all_gather",
        "all_gather_into_tensor",
        "reduce_scatter",
        "reduce_scatter_tensor",
        "broadcast",
        "reduce",
        "gather",
        "scatter",
        "all_to_all",
        "all_to_all_single",
        "barrier",
        "coalesced",
        "init",
    }
)
PASSED_OVER = frozenset({"compute", "host_sync", "event_record", "event_wait", "h2d", "d2h", "d2d"})
HANDLES = frozenset({"wait", "test", "drop"})
PLAYED = (
    POINT_TO_POINT | COLLECTIVES | PASSED_OVER | HANDLES | {"batch", "new_group", "destroy", "exit"}
)
REASONS = {
    "scan": "scan exists only under MPI",
    "exscan": "exscan exists only under MPI",
    "probe": "probe exists only under MPI",
    "threads": "host threads are interleaved at run time",
    "choice": "a branch is taken at run time",
}


@dataclass(frozen=True)
class Selection:
    """The part of a plan that is played.

    Attributes:
        ranks: Plan rank of every process; process numbers are the positions.
        programs: Per process, the kept actions with their index in the plan's rank program.
        groups: Group name to member processes, in group order; only groups that are used.
        created_first: Groups created by every process before the first action.
        idle: Plan ranks that only complete a group and issue nothing.
        folded: Number of silent group members left out to keep the number of processes small.
    """

    ranks: tuple[int, ...]
    programs: tuple[tuple[tuple[int, Action], ...], ...]
    groups: Mapping[str, tuple[int, ...]]
    created_first: tuple[str, ...]
    idle: tuple[int, ...]
    folded: int


def flat_actions(body: list[Any]) -> Iterator[Action]:
    """Yield the actions of a program as they are counted: items of a block in order of writing."""
    for item in body:
        if isinstance(item, list):
            yield from flat_actions(item)
        elif item["op"] == "unordered":
            yield from flat_actions(item["body"])
        else:
            yield item


def rank_programs(plan: Mapping[str, Any]) -> dict[int, list[Action]]:
    """Return the program of every rank of a flat plan.

    Raises:
        ReplayError: The plan is not flat.
    """
    programs: dict[int, list[Action]] = {}
    for selector, body in plan["ranks"].items():
        if not selector.isdecimal() or "actions" not in body:
            raise ReplayError(
                f"ranks.{selector}: a replay needs one explicit program per rank",
                hint="flatten the plan first: planguard convert --flat",
            )
        programs[int(selector)] = list(flat_actions(body["actions"]))
    return programs


def inner(action: Action) -> Iterator[Action]:
    """Yield the communications of an action: itself, or the members of a batch."""
    if action["op"] == "batch":
        yield from action["ops"]
    else:
        yield action


def obstacles(
    programs: Mapping[int, list[tuple[int, Action]]], plan: Mapping[str, Any]
) -> list[str]:
    """Say why these actions cannot be played on gloo; an empty list when they can."""
    found: dict[str, None] = {}
    if plan.get("fusion"):
        found["fused buffers are filled and flushed at run time"] = None
    for kept in programs.values():
        for _, action in kept:
            for op in (action, *inner(action)):
                reason = obstacle(op)
                if reason:
                    found[reason] = None
    return list(found)


def obstacle(action: Action) -> str | None:
    """Say why one action cannot be played on gloo."""
    op = action["op"]
    if op not in PLAYED:
        return REASONS.get(op, f"{op} has no counterpart in torch.distributed")
    if op in POINT_TO_POINT and action.get("tag") == "any":
        return "gloo cannot receive with any tag"
    if op == "wait" and action.get("mode", "all") != "all":
        return "torch cannot wait for any or some of several handles"
    return None


def members_of(plan: Mapping[str, Any], name: str) -> list[int]:
    """Return the global ranks of a group, in group order."""
    if name == "world" and name not in plan.get("groups", {}):
        return list(range(plan["world_size"]))
    group = plan.get("groups", {}).get(name)
    if group is None or "ranks" not in group:
        raise ReplayError(
            f"groups.{name}: a replay needs the list of its ranks",
            hint="flatten the plan first: planguard convert --flat",
        )
    return list(group["ranks"])


def keep(plan: Mapping[str, Any], witness: Witness | None) -> dict[int, list[tuple[int, Action]]]:
    """Return the actions to play per rank: those of a witness, or all when it lists none.

    Inside an unordered block the witness's steps give the order, else the order of writing.

    Raises:
        ReplayError: The witness names an action that the plan does not have.
    """
    programs = rank_programs(plan)
    if witness is None or not witness.actions:
        return {rank: list(enumerate(program)) for rank, program in sorted(programs.items())}
    kept: dict[int, list[tuple[int, Action]]] = {}
    issued = [(step.rank, step.action) for step in witness.steps if step.event == "issue"]
    order = {pair: place for place, pair in reversed(list(enumerate(issued)))}
    pairs = sorted(set(witness.actions))
    if set(pairs) <= set(order):
        pairs.sort(key=lambda pair: (pair[0], order[pair]))
    for rank, action in pairs:
        if action >= len(programs.get(rank, [])):
            raise ReplayError(
                f"the witness names action {action} of rank {rank}, which the plan does not have",
                hint="is it a witness of this plan?",
            )
        kept.setdefault(rank, []).append((action, programs[rank][action]))
    return kept


def used_groups(
    kept: Mapping[int, list[tuple[int, Action]]],
) -> tuple[dict[str, bool], set[int]]:
    """Return the groups in use (with True: by a collective) and all point-to-point peers."""
    groups: dict[str, bool] = {}
    peers: set[int] = set()
    for program in kept.values():
        for _, action in program:
            for op in inner(action):
                if op["op"] in POINT_TO_POINT:
                    groups.setdefault(op.get("group", "world"), False)
                    if isinstance(op.get("peer"), int):
                        peers.add(op["peer"])
                elif op["op"] in COLLECTIVES | {"new_group", "destroy"}:
                    name = op.get("group", "world")
                    groups[name] = groups.get(name, False) or op["op"] in COLLECTIVES
                    if isinstance(op.get("root"), int):
                        peers.add(op["root"])
    return groups, peers


def complete(
    plan: Mapping[str, Any], kept: Mapping[int, list[tuple[int, Action]]], limit: int
) -> tuple[set[int], int]:
    """Add the ranks without actions that groups and peers need; also count those left out.

    A member that never comes is as good as two of them, so that beyond ``limit`` processes only one
    silent member per group is started.
    """
    groups, peers = used_groups(kept)
    base = set(kept) | peers
    absent = {
        name: [rank for rank in members_of(plan, name) if rank not in base]
        for name, collective in groups.items()
        if collective
    }
    everyone = base.union(*absent.values())
    if len(everyone) <= limit:
        return everyone, 0
    chosen: set[int] = set()
    for ranks in absent.values():
        if ranks and not chosen.intersection(ranks):
            chosen.add(ranks[0])
    return base | chosen, len(everyone) - len(base | chosen)


def select(
    plan: Mapping[str, Any],
    witness: Witness | None = None,
    limit: int = MOST_PROCESSES,
) -> Selection:
    """Choose ranks, actions and groups of a replay and number the processes.

    Args:
        plan: A flat plan.
        witness: Its actions are kept; None keeps the whole plan.
        limit: Most processes to start.

    Raises:
        ReplayError: The plan is not flat, does not fit the witness, or needs too many processes.
    """
    kept = keep(plan, witness)
    everyone, folded = complete(plan, kept, limit)
    if len(everyone) > limit:
        raise ReplayError(
            f"the replay needs {len(everyone)} processes, more than {limit}",
            hint="replay a witness of the plan, which needs only the ranks it names",
        )
    ranks = tuple(sorted(everyone))
    process = {rank: number for number, rank in enumerate(ranks)}
    _refuse_outsiders(plan, kept)
    used, _ = used_groups(kept)
    names = [name for name in creation_order(plan) if name in used]
    groups = {"world": tuple(process[r] for r in members_of(plan, "world") if r in process)}
    for name in names:
        groups[name] = tuple(process[r] for r in members_of(plan, name) if r in process)
    by_action = {
        action["group"] for p in kept.values() for _, action in p if action["op"] == "new_group"
    }
    return Selection(
        ranks,
        tuple(tuple(kept.get(rank, ())) for rank in ranks),
        groups,
        tuple(name for name in names if name not in by_action),
        tuple(rank for rank in ranks if not kept.get(rank)),
        folded,
    )


def _refuse_outsiders(
    plan: Mapping[str, Any], kept: Mapping[int, list[tuple[int, Action]]]
) -> None:
    """Refuse calls on groups that the rank is not in; torch would ignore them with a warning."""
    for rank, program in kept.items():
        for at, action in program:
            for op in inner(action):
                name = op.get("group", "world")
                if op["op"] in POINT_TO_POINT | COLLECTIVES and rank not in members_of(plan, name):
                    raise ReplayError(
                        f"ranks.{rank}.actions[{at}]: {op['op']} on group {name}, which does not "
                        f"contain rank {rank}",
                        hint="check the plan first: planguard check",
                    )


def creation_order(plan: Mapping[str, Any]) -> list[str]:
    """Return the groups other than ``world``: by their ``created`` position, then as listed."""
    groups = {name: group for name, group in plan.get("groups", {}).items() if name != "world"}
    return sorted(groups, key=lambda name: groups[name].get("created", len(groups)))
