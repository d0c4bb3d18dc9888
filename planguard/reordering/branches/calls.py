"""What an action of a branch does, as far as the clauses need it: who meets, and who waits.

The reading is that of the execution that makes the least progress: no send is buffered unless it
says so, a device has one queue and a process one worker, and the host waits for what it launches
there. What completes so completes in every execution, so a reading without a stuck state proves
SAFE (docs/explanation/choices.md).
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from planguard.plan.actions import Kind
from planguard.plan.vocabulary import BLOCKING, DEVICE, MESSAGES, ROUNDS, SENDS, bytes_of
from planguard.reordering.branches.assignments import leaves
from planguard.reordering.orders.weak_words import creates
from planguard.semantics.model import Degree, Family

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from planguard.semantics.model import ExecutionModel

IDLE = DEVICE - {"compute"}
"""What holds nobody up where the host waits for all that it launches, or there is no device."""
HANDLES = frozenset({"wait", "test"})
_AGREE = (
    "kind", "bytes", "count", "dtype", "shape", "tensor", "root", "reduce_op", "label", "in_splits",
    "out_splits", "ops",
)  # fmt: skip

Slot = tuple[Any, ...]
"""A communicator or a channel: whatever counts its calls by itself."""


class UnfitError(Exception):
    """The clauses do not cover something; the message says what."""


@dataclass(frozen=True)
class Call:
    """One communication of a rank.

    Attributes:
        slot: What counts it.
        member: Its place there: a rank of a communicator; 0 sends and 1 receives on a channel.
        needs: The members that have to arrive before it completes.
        said: What the others must agree on, as a hashable value.
    """

    slot: Slot
    member: int
    needs: tuple[int, ...]
    said: tuple[Any, ...]


@dataclass(frozen=True)
class Step:
    """What one action does.

    Attributes:
        launches: Calls that arrive together; the next arrive when those before are complete
            if ``waits``.
        waits: Whether its rank stands until its calls are complete.
        starts: The handle it starts.
        ends: The handles it waits for.
        uses: The handles it only looks at.
    """

    launches: tuple[tuple[Call, ...], ...] = ()
    waits: bool = False
    starts: str | None = None
    ends: tuple[str, ...] = ()
    uses: tuple[str, ...] = ()


@dataclass
class Reader:
    """Reads the actions of a flat plan under one model.

    Attributes:
        groups: Ranks of every group.
        model: The execution model.
    """

    groups: dict[str, list[int]]
    model: ExecutionModel

    def step(self, rank: int, action: dict[str, Any]) -> Step:
        """Return what an action does.

        Raises:
            UnfitError: The clauses do not cover it.
        """
        name = action["op"]
        if name in HANDLES:
            return self._handles(action)
        device = self.model.family is Family.DEVICE
        if name == "init":
            return self._creation(rank, action.get("group", "world"))
        if name in IDLE or (name == "compute" and (device or not action.get("deps"))):
            return Step()
        if name not in MESSAGES | ROUNDS | {"batch"}:
            raise UnfitError(f"`{name}`")
        inner = action["ops"] if name == "batch" else [action]
        calls = tuple(self._call(rank, part, in_batch=name == "batch") for part in inner)
        queued = self.model.family is not Family.HOST
        is_async = self._is_async(action)
        together = device or not queued
        return Step(
            (calls,) if together else tuple((call,) for call in calls),
            waits=queued or not is_async or self._first_meets(action),
            starts=action.get("work") if is_async else None,
        )

    def _creation(self, rank: int, group: str) -> Step:
        """Return the rendezvous of a creation; `check_creations` saw to it that each is a first."""
        others = tuple(member for member in self.groups[group] if member != rank)
        return Step(((Call(("init", group), rank, others, ()),),), waits=True)

    def _first_meets(self, action: dict[str, Any]) -> bool:
        """Whether the host meets the others before an asynchronous collective."""
        return self.model.pre_barrier and action["op"] in ROUNDS

    def _handles(self, action: dict[str, Any]) -> Step:
        works = action["work"]
        names = (works,) if isinstance(works, str) else tuple(works)
        if action["op"] == "test":
            return Step(uses=names)
        if len(names) > 1 and action.get("mode", "all") != "all":
            raise UnfitError("a wait for any or some of several handles")
        return Step(ends=names)

    @staticmethod
    def _is_async(action: dict[str, Any]) -> bool:
        if action["op"] == "batch":
            return "work" in action
        return bool(action.get("async", action["op"] in BLOCKING))

    def _call(self, rank: int, fields: dict[str, Any], *, in_batch: bool) -> Call:
        name, group = fields["op"], fields.get("group", "world")
        lazy = self.model.lazy_init
        if name in MESSAGES:
            if lazy and in_batch:
                raise UnfitError("a batch that may create the communicator of its group")
            return self._pair(rank, fields, group)
        if name not in ROUNDS or (in_batch and self.model.pre_barrier):
            raise UnfitError(f"`{name}` in a batch")
        members = self.groups[group]
        needs = self._needs(rank, fields, members)
        if lazy and len(needs) < len(members) - 1:
            raise UnfitError(f"`{name}` that may create its communicator")
        return Call(("round", group), rank, needs, self._said(fields))

    def _pair(self, rank: int, fields: dict[str, Any], group: str) -> Call:
        peer, tag = fields["peer"], fields.get("tag", 0)
        if "any" in (peer, tag):
            raise UnfitError("a message from anybody or with any tag")
        if peer == rank:
            raise UnfitError("a message of a rank to itself")
        sends = fields["op"] in SENDS
        src, dst = (rank, peer) if sends else (peer, rank)
        slot = ("pair", group, src, dst, tag if self.model.use_tags else 0)
        buffered = self.model.send_modes and fields.get("mode") == "buffered"
        needs = () if sends and buffered else (int(sends),)
        return Call(slot, int(not sends), needs, self._said(fields, pair=True))

    def _said(self, fields: dict[str, Any], *, pair: bool = False) -> tuple[Any, ...]:
        """Return what a call says; two that say the same agree, others may or may not."""
        kind = "" if pair else fields["op"]
        found = [(name, repr(fields[name])) for name in _AGREE if name in fields]
        if self.model.sync_is_a_kind and not pair:
            found.append(("async", repr(bool(fields.get("async")))))
        if {"in_splits", "out_splits"} & fields.keys():
            found.append(("of", repr(id(fields))))  # whether they fit depends on the rank
        return (kind, *found)

    def _needs(self, rank: int, fields: dict[str, Any], members: list[int]) -> tuple[int, ...]:
        others = tuple(member for member in members if member != rank)
        if self.model.pre_barrier or fields["op"] == "coalesced":
            return others
        kind = Kind[fields["op"].upper()]
        if kind in self.model.empty_alone and _moves_nothing(fields):
            return ()
        degree = self.model.degree.get(kind, Degree.ALL)
        if degree is Degree.ALL:
            return others
        root = fields.get("root", members[0])
        if degree is Degree.FLAT:
            return others if rank == root else (root,)
        return tuple(_relatives(rank, root, members))


def reader_of(flat: dict[str, Any], model: ExecutionModel) -> Reader:
    """Return the reader of a flat plan under a model."""
    groups = {name: list(group["ranks"]) for name, group in flat.get("groups", {}).items()}
    groups.setdefault("world", list(range(len(flat["ranks"]))))
    return Reader(groups, model)


def check_creations(flat: dict[str, Any], reader: Reader) -> None:
    """Refuse creations that may be no rendezvous of all members: only the first of each is one.

    It is where it stands outside all branches and blocks, before any other of its communicator.
    Where a first use creates, every member has to create before, or a creation may meet a use.

    Raises:
        UnfitError: There is a creation of which that is not known.
    """
    lazy = reader.model.lazy_init
    made: dict[str, set[int]] = {}
    for rank, body in flat["ranks"].items():
        used: set[str] = set()
        for item in body["actions"]:
            if not isinstance(item, list) and item["op"] == "init":
                group = item.get("group", "world")
                if group in used or int(rank) in made.get(group, ()):
                    raise UnfitError("an `init` of a communicator that may exist already")
                made.setdefault(group, set()).add(int(rank))
                continue
            for leaf in leaves([item]):
                if leaf["op"] == "init":
                    raise UnfitError("an `init` in a branch or a block")
                used |= {key[0] for key in creates(leaf, lazy=lazy) if len(key) == 1}
    for group, ranks in made.items():
        if lazy and not ranks >= {*reader.groups[group]}:
            raise UnfitError("an `init` that may meet the first use of another rank")


def meetings(programs: Mapping[int, Iterable[Any]], reader: Reader) -> set[frozenset[Any]]:
    """Return the pairs of what calls say that differ and meet in fixed programs.

    Raises:
        UnfitError: The clauses do not cover something.
    """
    met: dict[tuple[Slot, int], set[Any]] = {}
    for rank, actions in programs.items():
        counts: dict[Slot, int] = {}
        for action in actions:
            for call in (c for launch in reader.step(rank, action).launches for c in launch):
                number = counts[call.slot] = counts.get(call.slot, 0) + 1
                met.setdefault((call.slot, number), set()).add(call.said)
    pairs = (itertools.combinations(said, 2) for said in met.values() if len(said) > 1)
    return {frozenset(pair) for found in pairs for pair in found}


def _moves_nothing(fields: dict[str, Any]) -> bool:
    return bytes_of(fields) == 0


def _relatives(rank: int, root: int, members: list[int]) -> Iterable[int]:
    """Yield who has to be there for a member of gloo's binomial broadcast tree to go on.

    The way up to the root, since a parent sends on what it got, and those right below.
    """
    size, first = len(members), members.index(root)
    own = (members.index(rank) - first) % size
    above = [own % (1 << bit) for bit in range(own.bit_length())]
    below = [own | 1 << bit for bit in range(own.bit_length(), size.bit_length())]
    for other in (*above, *below):
        if other < size:
            yield members[(other + first) % size]
