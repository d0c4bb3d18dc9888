"""From match numbers back to actions: who meets in a match, and as which of its actions."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from planguard.execution.issued import issued
from planguard.plan.actions import KIND_MASK, SEND_KINDS, Kind, is_collective
from planguard.plan.vocabulary import CREATIONS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from planguard.execution.running.executor import Execution

MEMBER = 64
NONE = 0xFFFFFFFF


@dataclass(frozen=True)
class Member:
    """One side of a match: entry ``entry`` of ``rank``; None when the rank never issues it."""

    rank: int
    entry: int | None


@dataclass(frozen=True)
class Match:
    """What meets in one match.

    Attributes:
        type: pair, round, edge, init, pair-init, new_group, token, probe, dead.
        ginst: Group instance, or None.
        position: Round or position on the channel.
        ranks: ``(src, dst)`` of a pair or an edge; members otherwise, in group order.
        number: The match it belongs to (an edge belongs to its round).
    """

    type: str
    ginst: int | None
    position: int
    ranks: tuple[int, ...]
    number: int


_EXT_TYPES = {1: "edge", 2: "init", 3: "new_group", 4: "token", 5: "probe", 6: "dead"}


def describe_match(execution: Execution, match: int) -> Match:
    """Return what meets in ``match``."""
    lanes = execution.lanes
    if match >= lanes.ext_base:
        return _describe_ext(execution, match)
    if match < lanes.p2p_base:
        comm = bisect_right(lanes.comm_base, match) - 1
        ginst = lanes.comm_ginst[comm]
        return Match(
            "round", ginst, match - lanes.comm_base[comm], group_ranks(execution, ginst), match
        )
    cls = bisect_right(lanes.class_base, match) - 1
    channel = lanes.class_chan[cls % len(lanes.class_chan)]
    columns = execution.columns
    ranks = (columns.chan_src[channel], columns.chan_dst[channel])
    return Match("pair", columns.chan_ginst[channel], match - lanes.class_base[cls], ranks, match)


def _describe_ext(execution: Execution, match: int) -> Match:
    word, b, c, d = execution.lanes.ext(match)
    kind, detail = _EXT_TYPES[word >> 24], word & 0xFFFFFF
    columns = execution.columns
    if kind == "edge":
        around = describe_match(execution, b)
        return Match("edge", around.ginst, around.position, (around.ranks[c], around.ranks[d]), b)
    if kind == "init" and detail:
        return Match("pair-init", b, 0, (c, d), match)
    if kind in CREATIONS and not detail:
        ginst = execution.lanes.comm_ginst[b]
        return Match(kind, ginst, 0, group_ranks(execution, ginst), match)
    if kind == "new_group":
        return Match(kind, 0, b, tuple(range(columns.world_size)), match)
    if kind == "probe":
        return describe_match(execution, b)
    return Match(kind, None, 0, (b,), match)


def group_ranks(execution: Execution, ginst: int) -> tuple[int, ...]:
    """Return the members of a group instance in group order."""
    columns = execution.columns
    return tuple(columns.slot_rank[columns.ginst_off[ginst] : columns.ginst_off[ginst + 1]])


def members_of(execution: Execution, match: Match) -> tuple[Member, ...]:
    """Return the actions that form a pair or a round, absent ones with entry None."""
    if match.type in {"round", "edge"}:
        round_ = describe_match(execution, match.number)
        return tuple(Member(rank, round_entry(execution, rank, round_)) for rank in round_.ranks)
    if match.type == "pair":
        src, dst = match.ranks
        return (
            Member(src, _pair_entry(execution, match, src, send=True)),
            Member(dst, _pair_entry(execution, match, dst, send=False)),
        )
    return tuple(Member(rank, None) for rank in match.ranks)


def round_entry(execution: Execution, rank: int, round_: Match) -> int | None:
    """Return the entry with which ``rank`` takes part in a round, or None."""
    comm = bisect_right(execution.lanes.comm_base, round_.number) - 1
    rest = _calls(execution, rank, comm)
    return _nth(execution, (rank, comm, "call"), round_.position, rest)


def _nth(
    execution: Execution, key: tuple[int, int, str], place: int, entries: Iterator[int]
) -> int | None:
    """Return one of a sequence of entries, or None behind its end.

    What was looked up on the way is kept: an all_to_all with uneven sizes asks for every one of its
    rounds, and a channel for every one of its messages.
    """
    found, rest = execution.entries_found.setdefault(key, (array("I"), entries))
    found.extend(islice(rest, max(0, place + 1 - len(found))))
    return found[place] if place < len(found) else None


def _calls(execution: Execution, rank: int, comm: int) -> Iterator[int]:
    """Entries of ``rank`` on communicator ``comm``, in issue order."""
    columns = execution.columns
    ginst = execution.lanes.comm_ginst[comm]
    wanted = _creation(execution, rank, comm) if columns.has_new_group else None
    start = columns.rank_off[rank]
    op, arg, slot_ginst = columns.op, columns.arg, columns.slot_ginst
    for at in issued(columns, rank):
        if not is_collective(op[at] & KIND_MASK):
            continue
        if wanted is None:
            if slot_ginst[arg[at]] == ginst:
                yield at - start
        elif at in wanted:
            yield at - start


def _creation(execution: Execution, rank: int, comm: int) -> set[int]:
    """Positions of ``rank``'s collectives on one created communicator (new_group counters)."""
    from planguard.execution.findings.created import collectives_by_comm

    return collectives_by_comm(execution, rank).get(comm, set())


def _pair_entry(execution: Execution, match: Match, rank: int, *, send: bool) -> int | None:
    cls = bisect_right(execution.lanes.class_base, match.number) - 1
    rest = _messages(execution, match, rank, send=send)
    return _nth(execution, (rank, cls, "send" if send else "recv"), match.position, rest)


def _messages(execution: Execution, match: Match, rank: int, *, send: bool) -> Iterator[int]:
    """Entries with which ``rank`` takes part in the pairs of a class, in issue order."""
    columns, lanes = execution.columns, execution.lanes
    cls = bisect_right(lanes.class_base, match.number) - 1
    copies = len(lanes.class_base) // max(1, len(lanes.class_chan))
    batched = None if copies < 2 else cls >= len(lanes.class_chan)
    channels = _channels(execution, match)
    start = columns.rank_off[rank]
    op, arg = columns.op, columns.arg
    for at in issued(columns, rank):
        kind = op[at] & KIND_MASK
        if (kind not in SEND_KINDS) if send else (kind != Kind.RECV):
            continue
        if arg[at] not in channels:
            continue
        if batched is None or bool(op[at] & MEMBER) is batched:
            yield at - start


def _channels(execution: Execution, match: Match) -> set[int]:
    """Channels of one class: the same ends, and the same tag where tags count."""
    columns = execution.columns
    cls = bisect_right(execution.lanes.class_base, match.number) - 1
    channel = execution.lanes.class_chan[cls % len(execution.lanes.class_chan)]
    ends = (columns.chan_ginst[channel], columns.chan_src[channel], columns.chan_dst[channel])
    same = execution.channels_between.get(ends, [])
    if not execution.model.use_tags:
        return set(same)
    return {other for other in same if columns.chan_tag[other] == columns.chan_tag[channel]}
