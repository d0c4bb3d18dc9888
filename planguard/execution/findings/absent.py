"""Who is missing in a match that never completes, and what the plan says of them instead."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planguard.execution.findings.edges import own_place
from planguard.execution.findings.locate import group_name, locate
from planguard.execution.findings.members import MEMBER, members_of
from planguard.execution.findings.stuck import place_of
from planguard.execution.issued import issued
from planguard.plan.actions import KIND_MASK, SEND_KINDS, Kind, is_collective
from planguard.words import plural, rank_set, shown

if TYPE_CHECKING:
    from collections.abc import Callable

    from planguard.execution.findings.members import Match
    from planguard.execution.findings.stuck import Orphan
    from planguard.execution.running.executor import Execution
    from planguard.verdict import Location

CREATION = ("init", "pair-init")


def absent_ranks(execution: Execution, orphan: Orphan) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the ranks that never arrive, and those of them that have left.

    A rank is missing when it never issues its side, ends before it, or takes it along when it
    leaves. A rank that would come, but is stuck elsewhere itself, is not.
    """
    match = orphan.match
    if match.type in {"token", "dead"}:
        return (), ()
    waiting = {place.rank for place in orphan.waiting}
    others = [rank for rank in match.ranks if rank not in waiting]
    exited = tuple(rank for rank in others if _exit(execution, rank) is not None)
    if match.type in CREATION:
        never = [rank for rank in others if not _uses(execution, match, rank)]
    else:
        never = [
            member.rank
            for member in members_of(execution, match)
            if member.entry is None and member.rank not in waiting
        ]
    missing = tuple(sorted({*never, *exited}))
    return missing or tuple(others), exited


def _exit(execution: Execution, rank: int) -> int | None:
    """Return the entry of the first `exit` of a rank, or None if it has none."""
    columns = execution.columns
    part = bytes(columns.op[columns.rank_off[rank] : columns.rank_off[rank + 1]])
    entry = part.find(int(Kind.EXIT))
    return None if entry < 0 else entry


def _uses(execution: Execution, match: Match, rank: int) -> bool:
    """Tell whether a rank ever uses the communicator that is being created."""
    return _last(execution, rank, _touches(execution, match, rank)) is not None


def _touches(execution: Execution, match: Match, rank: int) -> Callable[[int], bool]:
    """Return the test of a column position: is this a call of the match's communicator?"""
    columns = execution.columns
    peer = next((other for other in match.ranks if other != rank), rank)

    def is_call(at: int) -> bool:
        kind, arg = columns.op[at] & KIND_MASK, columns.arg[at]
        if is_collective(kind) or kind == Kind.INIT:
            return (
                match.type not in {"pair", "pair-init"} and columns.slot_ginst[arg] == match.ginst
            )
        if kind not in SEND_KINDS and kind != Kind.RECV:
            return False
        is_member = bool(columns.op[at] & MEMBER)
        if match.type == "init":
            return is_member and columns.chan_ginst[arg] == match.ginst
        ends = {columns.chan_src[arg], columns.chan_dst[arg]}
        here = columns.chan_ginst[arg] == match.ginst and ends == {rank, peer}
        if match.type == "pair-init":
            return here and not is_member
        return match.type == "pair" and here and (kind in SEND_KINDS) is (rank == match.ranks[0])

    return is_call


def _last(execution: Execution, rank: int, is_call: Callable[[int], bool]) -> int | None:
    own = issued(execution.columns, rank)
    return next((at - own.start for at in reversed(own) if is_call(at)), None)


def last_place(execution: Execution, match: Match, rank: int) -> Location | None:
    """Return where a missing rank was last seen: as it left, at such a call, or at its end."""
    own = issued(execution.columns, rank)
    # In a block of open order the `exit` is no end of what is issued, so it is looked for itself.
    entry = _exit(execution, rank)
    if entry is None:
        entry = _last(execution, rank, _touches(execution, match, rank))
    if entry is None:
        entry = len(own) - 1
    return None if entry < 0 else locate(execution, place_of(execution, rank, entry))


# --- counts and tags -----------------------------------------------------------------------------


def balance(execution: Execution, match: Match, rank: int, missing: tuple[int, ...]) -> list[str]:
    """Return the counts that show what is missing: calls of a group, messages of a pair."""
    if match.type in {"round", "edge"} and missing:
        return _calls(execution, match, rank, missing)
    if match.type != "pair":
        return []
    src, dst = match.ranks
    by_group = _messages(execution, match)
    surplus = {ginst: sent - received for ginst, (sent, received) in by_group.items()}
    mine = surplus[match.ginst or 0]
    if not mine:
        return []
    sent, received = by_group[match.ginst or 0]
    group = shown(group_name(execution, match.ginst))
    messages = plural(sent, "message")
    said = [f"on {group}, rank {src} sends {messages} to rank {dst}, which receives {received:,}"]
    elsewhere = [ginst for ginst, extra in surplus.items() if extra * mine < 0]
    if elsewhere:
        # The usual cause: both sides exist, on different groups.
        does = f"rank {dst} receives" if mine > 0 else f"rank {src} sends"
        said.append(f"{does} on {shown(group_name(execution, elsewhere[0]))} instead")
    return said


def _calls(execution: Execution, match: Match, rank: int, missing: tuple[int, ...]) -> list[str]:
    columns = execution.columns
    first, end = columns.ginst_off[match.ginst], columns.ginst_off[(match.ginst or 0) + 1]
    counts = dict(zip(columns.slot_rank[first:end], columns.slot_count[first:end], strict=True))
    fewest = min(counts[absent] for absent in missing)
    few = [absent for absent in missing if counts[absent] == fewest]
    if fewest >= counts[rank]:
        return []
    who = f"rank {few[0]} makes" if len(few) == 1 else f"ranks {rank_set(few)} make"
    group = shown(group_name(execution, match.ginst))
    return [f"on {group}, {who} {plural(fewest, 'call')}, rank {rank} makes {counts[rank]:,}"]


def _messages(execution: Execution, match: Match) -> dict[int, tuple[int, int]]:
    """Return messages sent and received by sender and receiver of a pair, by group instance."""
    columns = execution.columns
    counts: dict[int, tuple[int, int]] = {match.ginst or 0: (0, 0)}
    for channel in _channels(execution, match):
        ginst = columns.chan_ginst[channel]
        sent, received = counts.get(ginst, (0, 0))
        counts[ginst] = (
            sent + columns.send_count[channel],
            received + columns.recv_count[channel],
        )
    return counts


def _channels(execution: Execution, match: Match) -> list[int]:
    columns = execution.columns
    return [
        channel
        for channel in range(len(columns.chan_src))
        if (columns.chan_src[channel], columns.chan_dst[channel]) == match.ranks
    ]


def other_tag(execution: Execution, match: Match) -> str | None:
    """Return how the tags of an otherwise matching pair differ, or None if they do not."""
    if not execution.model.use_tags:
        return None
    columns = execution.columns
    extra: dict[bool, list[int]] = {True: [], False: []}
    for channel in _channels(execution, match):
        if columns.chan_ginst[channel] != match.ginst:
            continue
        surplus = columns.send_count[channel] - columns.recv_count[channel]
        if surplus:
            extra[surplus > 0].append(columns.chan_tag[channel])
    if not extra[True] or not extra[False]:
        return None
    src, dst = match.ranks
    return (
        f"rank {src} sends with tag {_tags(extra[True])}, "
        f"rank {dst} receives with tag {_tags(extra[False])}"
    )


def _tags(tags: list[int]) -> str:
    return ", ".join(map(str, sorted(tags)[:4]))


def is_split(execution: Execution, orphan: Orphan, rank: int, missing: tuple[int, ...]) -> bool:
    """Tell whether a missing rank does exchange messages with ``rank``, but not in the same way.

    With communicators of pairs, a batch uses that of its group and a single call that of the pair.
    """
    match = orphan.match
    if not execution.model.pair_comm or match.type not in {"pair", "pair-init", "init"}:
        return False
    batched = _is_batched(execution, match, rank)
    if batched is None:
        return False
    columns = execution.columns
    for other in missing[:1]:
        for at in issued(columns, other):
            kind, arg = columns.op[at] & KIND_MASK, columns.arg[at]
            if kind not in SEND_KINDS and kind != Kind.RECV:
                continue
            ends = {columns.chan_src[arg], columns.chan_dst[arg]}
            if ends == {rank, other} and bool(columns.op[at] & MEMBER) is not batched:
                return True
    return False


def _is_batched(execution: Execution, match: Match, rank: int) -> bool | None:
    """Tell whether the waiting side is inside a batch; None when it has no side."""
    if match.type == "pair-init":
        return False
    if match.type == "init":
        return True
    place = own_place(execution, match, rank)
    if place is None:
        return None
    columns = execution.columns
    return bool(columns.op[columns.rank_off[rank] + place.entry] & MEMBER)
