"""Receives that may take more than one message, and what they compete for.

Once every receive has got its message a plan is a fixed plan: pairs that met get a tag of their
own, which no other operation has. Before that, every competing operation has a tag of its own, so
that the kernels match none of them, and a search decides who meets whom.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from planguard.plan.fixed import AT, written
from planguard.plan.vocabulary import HANDLES, RECEIVES, SENDS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from planguard.plan.fixed import FixedPlan

ANY = "any"
TAG = 1 << 20
"""Tags of competing operations count from here."""

_SAID = ("bytes", "count", "dtype", "tensor", "label")


@dataclass(frozen=True)
class Message:
    """One send, receive or probe that competes with others of its kind.

    Attributes:
        number: Position among all of them; grows along every rank.
        rank: Its rank.
        at: Position in the rank's list of actions.
        member: Position in the batch at ``at``, or None.
        kind: ``send``, ``recv`` or ``probe``.
        group: Concrete group.
        peer: The other rank, or None for any.
        tag: Tag, or None for any.
        said: What the plan says of the data: two sides that differ may disagree.
    """

    number: int
    rank: int
    at: int
    member: int | None
    kind: str
    group: str
    peer: int | None
    tag: int | None
    said: tuple[Any, ...]

    @property
    def home(self) -> tuple[str, int]:
        """The group and the rank that receives, among whose messages it competes."""
        return self.group, (self.peer or 0) if self.kind == "send" else self.rank


def accepts(receive: Message, send: Message) -> bool:
    """Tell whether a receive or a probe may take the message of a send."""
    return (
        receive.home == send.home
        and receive.peer in {None, send.rank}
        and receive.tag in {None, send.tag}
    )


def is_wild(message: Message) -> bool:
    """Tell whether more than one message may be taken, or none (a probe)."""
    return message.kind != "send" and (
        message.kind == "probe" or message.peer is None or message.tag is None
    )


@dataclass(frozen=True)
class Meeting:
    """Who met whom.

    Attributes:
        pairs: Number of a receive or probe to the number of the send it took or saw.
        buffered: Rank, position and member of sends that finished with nobody there.
        waited: ``(rank, position)`` of a wait for one of several, to the handle that was there.
    """

    pairs: dict[int, int]
    buffered: frozenset[tuple[int, int, int | None]] = frozenset()
    waited: dict[tuple[int, int], str] = field(default_factory=dict)


class Messages:
    """The competing operations of a flat plan, and the fixed plans they lead to.

    Args:
        flat: The annotated flat plan, without blocks.
    """

    def __init__(self, flat: dict[str, Any]) -> None:
        self.flat = flat
        self.programs: dict[str, list[Any]] = {
            rank: body["actions"] for rank, body in flat["ranks"].items()
        }
        every = list(self._every())
        homes = {message.home for message in every if is_wild(message)}
        kept = [message for message in every if message.home in homes]
        self.all = [replace(message, number=number) for number, message in enumerate(kept)]
        self.groups = flat.get("groups", {})

    def members(self, group: str) -> list[int]:
        """Return the ranks of a group."""
        return list(self.groups[group]["ranks"]) if group in self.groups else self.ranks()

    def ranks(self) -> list[int]:
        """Return all ranks."""
        return sorted(map(int, self.programs))

    def _every(self) -> Iterator[Message]:
        for rank in sorted(self.programs, key=int):
            for at, action in enumerate(self.programs[rank]):
                inner = action["ops"] if action["op"] == "batch" else [action]
                for member, fields in enumerate(inner):
                    if fields["op"] in SENDS | RECEIVES | {"probe"}:
                        place = member if action["op"] == "batch" else None
                        yield _message(int(rank), at, place, fields)

    def separated(self) -> FixedPlan:
        """Return the plan in which no competing operation meets another."""
        return self._rewritten(
            {m.number: TAG + m.number for m in self.all}, Meeting({}), apart=True
        )

    def settled(self, meeting: Meeting, guesses: dict[int, int] | None = None) -> FixedPlan:
        """Return the fixed plan in which everybody met as said.

        Args:
            meeting: Who met whom.
            guesses: Receives that did not happen, to the sends whose message they would wait for.
        """
        receives = {**(guesses or {}), **meeting.pairs}
        tags = self._tags(receives, meeting)
        return self._rewritten(tags, meeting, apart=False, partners=receives)

    def _tags(self, receives: dict[int, int], meeting: Meeting) -> dict[int, int]:
        """Return the tag of every operation: its channel's if order alone says who meets whom."""
        probes = {number for number in receives if self.all[number].kind == "probe"}
        own = {message.number: TAG + message.number for message in self.all}
        own |= {send: TAG + receive for receive, send in receives.items() if receive not in probes}
        own |= {probe: own[receives[probe]] for probe in probes}
        named = {send: self.all[send].tag or 0 for send in self._sends()}
        named |= {receive: named[send] for receive, send in receives.items()}
        for key, channel in self._channels(receives, meeting).items():
            if self._in_order(channel, receives):
                own |= {number: named.get(number, key[-1]) for number in channel}
        return own

    def _sends(self) -> Iterator[int]:
        return (message.number for message in self.all if message.kind == "send")

    def _channels(
        self, receives: dict[int, int], meeting: Meeting
    ) -> dict[tuple[Any, ...], list[int]]:
        """Return the operations of every channel, as if receives named whom they wait for."""
        found: dict[tuple[Any, ...], list[int]] = {}
        for message in self.all:
            if message.kind == "probe" and message.number not in receives:
                continue
            send = message.number if message.kind == "send" else receives.get(message.number)
            source, tag = (
                (self._source(message, None, meeting), message.tag)
                if send is None
                else (self.all[send].rank, self.all[send].tag)
            )
            found.setdefault((*message.home, source, tag or 0), []).append(message.number)
        return found

    def _in_order(self, channel: list[int], receives: dict[int, int]) -> bool:
        """Tell whether the k-th receive of a channel waits for its k-th send, probes included."""
        sends = [number for number in channel if self.all[number].kind == "send"]
        place = 0
        for number in channel:
            if self.all[number].kind != "send":
                expected = sends[place] if place < len(sends) else None
                if receives.get(number) != expected:
                    return False
                place += self.all[number].kind == "recv"
        return True

    def _rewritten(
        self,
        tags: dict[int, int],
        meeting: Meeting,
        *,
        apart: bool,
        partners: dict[int, int] | None = None,
    ) -> FixedPlan:
        changes: dict[tuple[int, int, int | None], dict[str, Any]] = {}
        for message in self.all:
            fields: dict[str, Any] = {"tag": tags[message.number]}
            if message.kind != "send":
                sender = (partners or {}).get(message.number)
                fields["peer"] = self._source(message, sender, meeting)
                # A probe in vain is a receive in vain, and the kernels match only the latter.
                if message.kind == "probe" and (apart or sender is None):
                    fields["op"] = "recv"
            changes[message.rank, message.at, message.member] = fields
        for place in meeting.buffered:
            changes[place] = {**changes.get(place, {}), "mode": "buffered"}
        ranks = {
            rank: self._program(int(rank), actions, changes, meeting, apart=apart)
            for rank, actions in self.programs.items()
        }
        return written(self.flat, ranks)

    def _source(self, message: Message, sender: int | None, meeting: Meeting) -> int:
        """Return whom a receive names: who sent, or whom it might go on to wait for."""
        if sender is not None:
            return self.all[sender].rank
        if message.peer is not None:
            return message.peer
        sources = [
            self.all[send].rank
            for receive, send in sorted(meeting.pairs.items(), key=lambda p: self._agrees(*p))
            if self.all[receive].home == message.home and receive < message.number
        ]
        others = (rank for rank in self.members(message.group) if rank != message.rank)
        return next(iter(sources), next(others))

    def _agrees(self, receive: int, send: int) -> bool:
        return self.all[receive].said == self.all[send].said

    def _program(
        self,
        rank: int,
        actions: list[Any],
        changes: dict[tuple[int, int, int | None], dict[str, Any]],
        meeting: Meeting,
        *,
        apart: bool,
    ) -> list[Any]:
        out: list[Any] = []
        started = started_by(actions)
        for at, action in enumerate(actions):
            changed = {**action, **changes.get((rank, at, None), {})}
            if action["op"] == "batch":
                inner = enumerate(action["ops"])
                changed["ops"] = [{**part, **changes.get((rank, at, m), {})} for m, part in inner]
            if at in started.values():
                changed["id"] = id_of(actions, at)
            if not is_choice_wait(action):
                out.append(changed)
                continue
            passed = meeting.waited.get((rank, at), action["work"][0])
            names = action["work"] if apart else [passed]
            out += [look_at(actions, at, name, started, apart=apart) for name in names]
        return out


def is_choice_wait(action: dict[str, Any]) -> bool:
    """Tell whether an action waits for any or some of several handles."""
    work = action.get("work")
    several = isinstance(work, list) and len(work) > 1
    return action["op"] == "wait" and several and action.get("mode", "all") != "all"


def started_by(actions: list[Any]) -> dict[tuple[int, str], int]:
    """Return where the handles of every wait for one of several were started."""
    latest: dict[str, int] = {}
    found: dict[tuple[int, str], int] = {}
    for at, action in enumerate(actions):
        if is_choice_wait(action):
            found |= {(at, name): latest[name] for name in action["work"] if name in latest}
        elif isinstance(action.get("work"), str) and action["op"] not in HANDLES:
            latest[action["work"]] = at
    return found


def id_of(actions: list[Any], at: int) -> str:
    """Return the id of an action, or one made of its position."""
    return str(actions[at].get("id", f"~{at}"))


def look_at(
    actions: list[Any],
    at: int,
    name: str,
    started: dict[tuple[int, str], int],
    *,
    apart: bool,
) -> dict[str, Any]:
    """Return an action that waits for one handle of several and leaves it usable."""
    action = actions[at]
    if not apart and not _used_again(actions, at, name):
        return {"op": "wait", "work": name, AT: action[AT]}
    return {"op": "compute", "deps": [id_of(actions, started[at, name])], AT: action[AT]}


def _used_again(actions: list[Any], at: int, name: str) -> bool:
    for action in actions[at + 1 :]:
        work = action.get("work")
        if name == work or (isinstance(work, list) and name in work):
            return action["op"] in HANDLES
    return False


def _message(rank: int, at: int, member: int | None, fields: dict[str, Any]) -> Message:
    kind = fields["op"]
    kind = "send" if kind in SENDS else "recv" if kind in RECEIVES else kind
    peer, tag = fields.get("peer"), fields.get("tag", 0)
    return Message(
        number=-1,
        rank=rank,
        at=at,
        member=member,
        kind=kind,
        group=fields.get("group", "world"),
        peer=None if peer == ANY else peer,
        tag=None if tag == ANY else tag,
        said=tuple(fields.get(name) for name in _SAID),
    )
