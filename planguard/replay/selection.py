"""Which ranks and actions of the plan a replay plays, and as which processes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from planguard.errors import ReplayError
from planguard.plan.vocabulary import LIFETIME, MESSAGES
from planguard.replay.flat import (
    COLLECTIVES,
    collectives_on,
    creation_order,
    inner,
    members_of,
    rank_programs,
    reorderable_ranks,
    started,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from planguard.replay.flat import Action
    from planguard.verdict import Witness

MOST_PROCESSES = 64


@dataclass(frozen=True)
class Selection:
    """The part of a plan that is played.

    Attributes:
        ranks: Plan rank of every process; process numbers are the positions.
        programs: Per process, the kept actions with their index in the plan's rank program.
        groups: Group name to member processes, in group order; only groups that are used.
        seats: Group name to the places these members have in the plan's group.
        sizes: Group name to the size of the plan's group.
        created_first: Groups created by every process before the first action.
        idle: Plan ranks that only complete a group and issue nothing.
        folded: Number of group members left out, since the replay does not need them.
    """

    ranks: tuple[int, ...]
    programs: tuple[tuple[tuple[int, Action], ...], ...]
    groups: Mapping[str, tuple[int, ...]]
    seats: Mapping[str, tuple[int, ...]]
    sizes: Mapping[str, int]
    created_first: tuple[str, ...]
    idle: tuple[int, ...]
    folded: int


def keep(plan: Mapping[str, Any], witness: Witness | None) -> dict[int, list[tuple[int, Action]]]:
    """Return the actions to play per rank: those of a witness, or all when it lists none.

    Inside an unordered block the witness's steps give the order, else the order of writing. A
    witness that is stuck in new_group plays the whole plan.

    Raises:
        ReplayError: The witness names an action that the plan does not have.
    """
    programs = rank_programs(plan)
    if witness is None or not witness.actions or creates_groups(programs, witness):
        return {rank: list(enumerate(program)) for rank, program in sorted(programs.items())}
    kept: dict[int, list[tuple[int, Action]]] = {}
    issued = [s for s in witness.steps if s.event == "issue"] or list(witness.steps)
    first: dict[tuple[int, int], int] = {}
    for place, step in enumerate(issued):
        first.setdefault((step.rank, step.action), place)
    reordered = reorderable_ranks(plan)

    def turn(pair: tuple[int, int]) -> tuple[int, int, int]:
        """Order by rank; then as the program has it, or as the witness issues it."""
        rank, action = pair
        return rank, first.get(pair, len(issued)) if rank in reordered else 0, action

    for rank, action in sorted(set(witness.actions), key=turn):
        if action >= len(programs.get(rank, [])):
            raise ReplayError(
                f"the witness names action {action} of rank {rank}, which the plan does not have",
                hint="is it a witness of this plan?",
            )
        kept.setdefault(rank, []).append((action, programs[rank][action]))
    return kept


def creates_groups(programs: Mapping[int, list[Action]], witness: Witness) -> bool:
    """Say whether a witness is stuck in new_group, which counts the calls of all ranks."""
    return any(
        action < len(programs.get(rank, [])) and programs[rank][action]["op"] == "new_group"
        for rank, action in witness.blocked
    )


def used_groups(
    kept: Mapping[int, list[tuple[int, Action]]],
) -> tuple[dict[str, bool], set[int]]:
    """Return the groups in use (with True: by a collective) and all point-to-point peers."""
    groups: dict[str, bool] = {}
    peers: set[int] = set()
    for program in kept.values():
        for _, action in program:
            for op in inner(action):
                if op["op"] in MESSAGES:
                    groups.setdefault(op.get("group", "world"), False)
                    if isinstance(op.get("peer"), int):
                        peers.add(op["peer"])
                elif op["op"] in COLLECTIVES | LIFETIME:
                    name = op.get("group", "world")
                    groups[name] = groups.get(name, False) or op["op"] in COLLECTIVES
                    if isinstance(op.get("root"), int):
                        peers.add(op["root"])
    return groups, peers


def complete(
    plan: Mapping[str, Any],
    kept: Mapping[int, list[tuple[int, Action]]],
    witness: Witness | None,
    limit: int,
) -> tuple[set[int], int]:
    """Add the ranks without actions that groups and peers need; also count those left out.

    The groups of a witness shrink to the ranks that it names: what is stuck must be stuck through
    them, not for lack of members that were left out. Only where all of them wait in one collective,
    the one who never comes is started too. A schedule without prediction keeps all members, and
    beyond ``limit`` processes one silent member per group: one that never comes is as good as two.
    """
    groups, peers = used_groups(kept)
    base = set(kept) | peers
    absent = {
        name: [rank for rank in members_of(plan, name) if rank not in base]
        for name, collective in groups.items()
        if collective
    }
    everyone = base.union(*absent.values())
    predicted = witness is not None and bool(witness.blocked or witness.end == "mismatch")
    if len(everyone) <= limit and not predicted:
        return everyone, 0
    blocked = set(witness.blocked) if witness is not None else set()
    silent: set[int] = set()
    for name, ranks in absent.items():
        needed = not predicted or all_wait_together(kept, name, blocked)
        if ranks and needed and not silent.intersection(ranks):
            silent.add(quietest(plan, name, ranks))
    return base | silent, len(everyone) - len(base | silent)


def all_wait_together(
    kept: Mapping[int, list[tuple[int, Action]]], name: str, blocked: set[tuple[int, int]]
) -> bool:
    """Say whether all kept members of a group wait in one and the same of its collectives."""
    rounds: dict[int, list[int]] = {}
    stuck = set(blocked)
    for rank, program in kept.items():
        rounds[rank] = [at for at, action in program for _ in collectives_on(action, name)]
        actions = dict(program)
        for at in (at for r, at in blocked if r == rank and at in actions):
            stuck |= {(rank, start) for start in started(program, actions[at])}
    members = [rank for rank in rounds if rounds[rank]]
    return any(
        all(len(rounds[m]) > place and (m, rounds[m][place]) in stuck for m in members)
        for rank in members
        for place, at in enumerate(rounds[rank])
        if (rank, at) in stuck
    )


def quietest(plan: Mapping[str, Any], name: str, ranks: list[int]) -> int:
    """Return the member that enters the group least often: most likely the one who is missing."""
    programs = rank_programs(plan)
    return min(
        ranks,
        key=lambda rank: sum(1 for action in programs[rank] for _ in collectives_on(action, name)),
    )


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
    everyone, folded = complete(plan, kept, witness, limit)
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
    members = {name: members_of(plan, name) for name in ["world", *names]}
    seats = {
        name: tuple(seat for seat, rank in enumerate(ranks_of) if rank in process)
        for name, ranks_of in members.items()
    }
    by_action = {
        action["group"] for p in kept.values() for _, action in p if action["op"] == "new_group"
    }
    return Selection(
        ranks,
        tuple(tuple(kept.get(rank, ())) for rank in ranks),
        {name: tuple(process[members[name][seat]] for seat in seats[name]) for name in members},
        seats,
        {name: len(ranks_of) for name, ranks_of in members.items()},
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
                if op["op"] in MESSAGES | COLLECTIVES and rank not in members_of(plan, name):
                    raise ReplayError(
                        f"ranks.{rank}.actions[{at}]: {op['op']} on group {name}, which does not "
                        f"contain rank {rank}",
                        hint="check the plan first: planguard check",
                    )
