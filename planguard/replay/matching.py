"""Which data every action must receive: partners by label, else by position on their channel.

The rules are those of torch.distributed on gloo: the k-th receive of a channel (group, source,
destination, tag) gets the k-th send, and the k-th collective of a group meets the k-th of every
other member. Labels say what the plan means; where both sides have one, they decide what must
arrive.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Op = dict[str, Any]
NOBODY = 0


def annotate(programs: Sequence[Sequence[Op]], groups: Mapping[str, tuple[int, ...]]) -> None:
    """Add ``expect`` (and ``met`` where it differs) to every operation that receives data.

    Args:
        programs: Operations of every process, batch members included, in issue order.
        groups: Members of every group as process numbers.
    """
    _point_to_point(programs)
    for name, members in groups.items():
        rounds = {
            process: [
                op
                for op in programs[process]
                if op["op"] not in ("send", "recv") and op.get("group") == name
            ]
            for process in members
        }
        for process in members:
            _collectives(rounds, process, members)


def _point_to_point(programs: Sequence[Sequence[Op]]) -> None:
    sends: dict[tuple[Any, ...], list[Op]] = defaultdict(list)
    recvs: dict[tuple[Any, ...], list[Op]] = defaultdict(list)
    # A receive from anyone may take any of the messages, so that positions say nothing any more.
    wild: set[tuple[Any, ...]] = set()
    for process, program in enumerate(programs):
        for op in program:
            if op["op"] == "send":
                sends[op["group"], process, op["peer"], op.get("tag", 0)].append(op)
            elif op["op"] == "recv":
                op["expect"] = None
                if op["peer"] is None:
                    wild.add((op["group"], process, op.get("tag", 0)))
                else:
                    recvs[op["group"], op["peer"], process, op.get("tag", 0)].append(op)
    for channel, waiting in recvs.items():
        group, _, receiver, tag = channel
        for place, op in enumerate(waiting):
            if (group, receiver, tag) in wild and "label" not in op:
                continue
            partner = _partner(op, place, waiting, sends[channel])
            if partner is not None:
                op["expect"] = partner


def _collectives(rounds: Mapping[int, list[Op]], process: int, members: Sequence[int]) -> None:
    mine = rounds[process]
    for place, op in enumerate(mine):
        met = [
            rounds[m][place].get("serial", NOBODY) if place < len(rounds[m]) else NOBODY
            for m in members
        ]
        expect = [_partner(op, place, mine, rounds[m]) or NOBODY for m in members]
        _set_round(op, expect, met)


def _set_round(op: Op, expect: list[int], met: list[int], offset: int = 0) -> None:
    op["expect"] = [serial + offset if serial else NOBODY for serial in expect]
    if met != expect:
        op["met"] = [serial + offset if serial else NOBODY for serial in met]
    for member in op.get("ops", ()):
        _set_round(member, expect, met, member["serial"] - op["serial"])


def _partner(op: Op, place: int, mine: Sequence[Op], theirs: Sequence[Op]) -> int | None:
    """Return the serial of the operation that ``op`` means on the other side, None if none."""
    label = op.get("label")
    if label is not None:
        before = Counter(o.get("label") for o in mine[:place])[label]
        named = [o for o in theirs if o.get("label") == label]
        if before < len(named):
            return int(named[before].get("serial", NOBODY))
    if place >= len(theirs):
        return None
    other = theirs[place]
    if label is not None and other.get("label") is not None:
        return NOBODY
    return int(other.get("serial", NOBODY))


def drops_first(programs: Sequence[Sequence[Op]]) -> None:
    """Hold back the partner of every dropped message until the handle is gone, where that can be.

    A handle that dies before its match poisons the pair; after it, nothing happens. ``after`` on an
    operation names the process and how many of its actions are to end first; it gives way when
    nothing moves, so that it never makes a hang of its own.
    """
    for process, program in enumerate(programs):
        started: dict[str, Op] = {}
        for number, op in enumerate(program):
            if op["op"] != "drop":
                if isinstance(op.get("work"), str):
                    started[op["work"]] = op
                continue
            for name in op["works"]:
                for message in _messages(started.get(name, {})):
                    for other in _meets(programs, process, message):
                        other.setdefault("after", []).append((process, number + 1))


def leave_after_creation(programs: Sequence[Sequence[Op]]) -> None:
    """Let a process leave only when the others have made the groups that it has made.

    A connection that is closed while it is being made fails the call; the plan says that the rank
    was there.
    """
    created = [[n for n, op in enumerate(p) if op["op"] == "new_group"] for p in programs]
    for process, program in enumerate(programs):
        for number, op in enumerate(program):
            made = sum(1 for at in created[process] if at < number)
            if op["op"] == "exit" and made:
                op["after"] = [
                    (other, places[made - 1] + 1)
                    for other, places in enumerate(created)
                    if other != process and len(places) >= made
                ]


def _messages(op: Op) -> list[Op]:
    return [one for one in op.get("ops", (op,)) if one.get("op") in ("send", "recv")]


def _meets(programs: Sequence[Sequence[Op]], process: int, message: Op) -> list[Op]:
    """Return the action with the message at the same position of the channel on the other side."""
    peer = message["peer"]
    if peer is None:
        return []
    other = "recv" if message["op"] == "send" else "send"

    def channel(program: Sequence[Op], kind: str, peer: int) -> list[tuple[Op, Op]]:
        key = kind, peer, message["group"], message.get("tag", 0)
        return [
            (op, one)
            for op in program
            for one in _messages(op)
            if (one["op"], one["peer"], one["group"], one.get("tag", 0)) == key
        ]

    mine = channel(programs[process], message["op"], peer)
    place = next(number for number, (_, one) in enumerate(mine) if one is message)
    return [op for op, _ in channel(programs[peer], other, process)[place : place + 1]]


def take_from_anyone(programs: Sequence[Sequence[Op]]) -> None:
    """Let receives take from anyone, and hold back the senders that are not the ones meant.

    Until here such a receive names its sender (``x-anyone`` marks it) and tags keep messages apart
    (``x-tag`` is the plan's); from here on both are as in the plan.
    """
    meant: dict[int, tuple[int, int]] = {}
    for process, program in enumerate(programs):
        for number, op in enumerate(program):
            for one in _messages(op):
                if one["op"] == "recv":
                    for sent in _meets(programs, process, one):
                        meant[id(sent)] = process, number
    for process, program in enumerate(programs):
        for number, op in enumerate(program):
            for one in _messages(op):
                if one.get("x-anyone"):
                    _hold_back(programs, (process, number), one, meant)
    for program in programs:
        for op in program:
            for one in _messages(op):
                if one.pop("x-anyone", False):
                    one["peer"], one["expect"] = None, None
                if "x-tag" in one:
                    one["tag"] = one.pop("x-tag")


def _hold_back(
    programs: Sequence[Sequence[Op]],
    place: tuple[int, int],
    receive: Op,
    meant: Mapping[int, tuple[int, int]],
) -> None:
    """Hold back the sends that a receive could take in place of the one it is meant to take."""
    process, number = place
    end = _end_of(programs[process], number)
    for other, program in enumerate(programs):
        for op in program if other != process else ():
            competes = any(
                (one["op"], one["peer"], one["group"], one.get("x-tag", one.get("tag", 0)))
                == ("send", process, receive["group"], receive.get("x-tag", 0))
                for one in _messages(op)
            )
            taker = meant.get(id(op))
            if competes and (taker is None or (taker[0] == process and taker[1] > number)):
                op.setdefault("after", []).append((process, end))


def _end_of(program: Sequence[Op], number: int) -> int:
    """Return how many actions have ended when a receive is over: up to its wait, if it has one."""
    name = program[number].get("work")
    for at in range(number + 1, len(program)):
        if name is not None and name in program[at].get("works", ()):
            return at + 1
    return number + 1
