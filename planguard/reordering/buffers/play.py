"""Play one rank in one order: what it issues when its members become ready like that.

This is the meaning of the policies. The rules of ``fusion_events`` only say when all orders give
the same; a plan in which they do not is played.

Above 400 lines: one player, of members and of all that stands beside them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from planguard.execution.findings.reason import UndecidedError
from planguard.plan.taking import Anew
from planguard.plan.vocabulary import HANDLES, ORDER_BLOCKS
from planguard.reordering.blocks import Block, Plain
from planguard.reordering.buffers.beside import FORK, JOIN, MAY_LEAVE, TWICE, Fork, Join, Side
from planguard.reordering.buffers.policies import Coordinated, make_policy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planguard.plan.taking import Taken
    from planguard.reordering.blocks import Leaf
    from planguard.reordering.buffers.beside import Streams
    from planguard.reordering.buffers.policies import Agreed, Policy
    from planguard.reordering.buffers.rank import FusedRank, Held
    from planguard.reordering.buffers.ranks import Ranks


_REFERRING = frozenset({"work", "deps", "x-after"})
"""Fields that can name a member or its handle; most calls have none of them."""
_STARTED = frozenset({"op", "async", "work", "group"})
"""Fields of a flush that follow from its members and its handle."""


class Cause(NamedTuple):
    """Why an action is issued inside a block of members.

    Attributes:
        element: The element whose turn it is.
        flush: The place of the buffer among those of the rank and the members that leave; None:
            the element itself.
    """

    element: int
    flush: tuple[int, tuple[int, ...]] | None = None


@dataclass
class Played:
    """The program of one rank in which every flush is one collective.

    Attributes:
        actions: Its actions.
        origins: The action of the plan that each issued one stands for.
        unflushed: Members that are never launched.
        stuck: Actions that wait for a member that is never launched.
        groups: Groups that the program needs beside those of the plan.
        flushes: Buffer, by its number on the rank, and members, by the actions of the plan, of
            every flush.
        causes: For every action, what lets it be issued; None where its place is fixed.
        widths: For every action, how many are issued with it: a block stands for what is in it.
        taken: The same program as actions of the plan and such that are made anew; None where it
            has been changed since.
    """

    actions: list[dict[str, Any]] = field(default_factory=list)
    origins: list[int] = field(default_factory=list)
    unflushed: list[Leaf] = field(default_factory=list)
    stuck: list[int] = field(default_factory=list)
    groups: dict[str, list[int]] = field(default_factory=dict)
    flushes: list[tuple[int, tuple[int, ...]]] = field(default_factory=list)
    causes: list[Cause | None] = field(default_factory=list)
    widths: list[int] = field(default_factory=list)
    taken: list[Taken] | None = field(default_factory=list)


class _Late:
    """Threads whose waits are known when the one beside them has ended.

    Attributes:
        part: Where they begin.
        fork: What was written there.
        left: Members that are to be submitted in the thread that is played.
        waited: What was waited for before.
        token: The name of the place behind the last submission.
        launched: Members that were launched before.
        last: The member that was submitted last.
    """

    def __init__(
        self,
        part: Fork,
        fork: dict[str, Any],
        members: frozenset[int],
        waited: Streams,
        token: str,
    ) -> None:
        self.part, self.fork, self.waited, self.token = part, fork, waited, token
        self.left = set(members)
        self.launched: set[tuple[int, int]] = set()
        self.last: tuple[int, int] | None = None


@dataclass(frozen=True)
class _Opened:
    """A thread that is played: what others wait for meanwhile, and their actions behind it."""

    mine: Streams
    places: list[int]
    late: _Late | None = None


def play(
    rank: FusedRank,
    order: Sequence[int],
    agreed: dict[str, Agreed],
    ranks: Ranks,
    *,
    streams: bool = True,
) -> Played:
    """Return what a rank issues.

    Args:
        rank: The rank.
        order: An order of its elements that its program admits.
        agreed: By coordinated buffer: what the ranks agreed on.
        ranks: All ranks of the plan.
        streams: Whether it matters which stream waits for a flush.

    Raises:
        UndecidedError: A member is used in a way that is not decided.
    """
    player = _Player(rank, agreed, ranks, streams=streams)
    player.run(order)
    return player.played


class _Player:
    def __init__(
        self, rank: FusedRank, agreed: dict[str, Agreed], ranks: Ranks, *, streams: bool
    ) -> None:
        self.streams = streams
        self.rank, self.ranks, self.played = rank, ranks, Played()
        self.agreed = agreed
        self.left = self._sizes_of_clusters()
        self.policies: list[Policy] = [make_policy(held, agreed) for held in rank.held]
        self.flush_of: dict[tuple[int, int], str] = {}
        self.member_of: dict[str, tuple[int, int]] = {}
        self.ids: set[str] = set()
        self.elements = {id(leaf) for leaf in rank.leaves}
        self.waited: Streams = {}
        self.forks: list[_Opened] = []
        self.handles = ranks.handles(rank.order.rank)
        self.turn: int | None = None
        self.count = 0
        for number, held in enumerate(rank.held):
            for at, leaf in enumerate(held.ready.leaves):
                self.ids.add(leaf.fields["id"])
                if "work" in leaf.fields:
                    self.member_of[leaf.fields["work"]] = number, at

    def run(self, order: Sequence[int]) -> None:
        """Issue part after part; inside parts with members, element after element."""
        for number, held in enumerate(self.rank.held):
            group = self._background(number)
            if group is not None and group not in self.played.groups:
                # The background makes its communicator by itself, and holds nobody up for it.
                self._create(number, group, self.ranks.members[held.buffer.group])
        went_on = self._parts(order)
        while self.forks:  # what stands beside a thread that is stuck goes on
            self._join()
        if not went_on:
            return
        for number, held in enumerate(self.rank.held):
            left = [at for at in range(len(held.elements)) if (number, at) not in self.flush_of]
            self.played.unflushed += [held.ready.leaves[at] for at in left]

    def _parts(self, order: Sequence[int]) -> bool:
        turn = iter(order)
        sizes: dict[int, int] = {}
        for place in self.rank.parts:
            sizes[place] = sizes.get(place, 0) + 1
        for number, (part, item) in enumerate(zip(self.rank.order.parts, self.rank.items,
                                                  strict=True)):  # fmt: skip
            if number in sizes:
                if not all(self._element(next(turn)) for _ in range(sizes[number])):
                    return False
            elif isinstance(part, Plain):
                self._plain(part.actions, item)
            elif isinstance(part, Block):
                self._block(part, item, number)
            elif isinstance(part, Fork):
                self._fork(part, number)
            elif isinstance(part, Join):
                self._join()
            elif not self._leaf(part, item):
                return False
        return True

    # --- beside members ----------------------------------------------------------------------

    def _block(self, part: Block, item: dict[str, Any], number: int) -> None:
        """Issue a block without members; waits for members in it are for their flushes."""
        if not any(self._named(leaf.fields) for leaf in part.leaves):
            self._check(part.leaves)
            self._add(item, part.leaves, self.rank.spans[number])
            return
        side = self._side(is_closed=True)
        left, mine = side.named(item, (leaf.action for leaf in part.leaves), self.waited)
        self.waited |= mine
        self._write(left[0], side.places)

    def _fork(self, part: Fork, number: int) -> None:
        """Begin a thread: the others are written, and what they wait for is known now.

        Where some wait for what is submitted in the thread it is known when that ends.
        """
        if number in self.rank.late:
            fork = {"op": FORK, "kept": part.kept, "before": [], "behind": []}
            self._write(fork, [])
            late = _Late(part, fork, self.rank.late[number], self.waited.copy(), f"~{number}")
            late.launched |= self.flush_of.keys()
            self.forks.append(_Opened({}, [], late))
            return
        side = self._side(is_closed=False)
        written: list[list[Any]] = []
        places: list[list[int]] = []
        mine: Streams = {}
        for threads, actions in (part.before, part.behind):
            # As one construct: each begins where the thread does.
            found, new = side.named({"op": "threads", "threads": threads}, iter(actions),
                                    self.waited)  # fmt: skip
            if not mine.keys().isdisjoint(new):
                raise UndecidedError(TWICE)
            mine |= new
            written.append(found[0]["threads"])
            places.append(side.places)
            side.places = []
        fork = {"op": FORK, "kept": part.kept, "before": written[0], "behind": written[1]}
        self._write(fork, places[0])
        self.forks.append(_Opened(mine, places[1]))

    def _join(self) -> None:
        opened = self.forks.pop()
        mine, places = opened.mine, opened.places
        if opened.late is not None:
            mine, places = self._behind(opened.late)
        self.waited |= mine
        self._write({"op": JOIN}, places)

    def _behind(self, late: _Late) -> tuple[Streams, list[int]]:
        """Write the threads beside one that has ended, whose waits come behind all it submitted."""
        if late.left:  # it is stuck in front of that
            raise UndecidedError(MAY_LEAVE)
        threads = [*late.part.before[0], *late.part.behind[0]]
        for thread in threads:
            self._refuse_earlier(thread, late, is_behind=False)
        side = self._side(is_closed=True)
        side.token = late.token
        actions = (*late.part.before[1], *late.part.behind[1])
        found, mine = side.named({"op": "threads", "threads": threads}, iter(actions), late.waited)
        if not (mine.keys() - late.waited.keys()).isdisjoint(
            self.waited.keys() - late.waited.keys()
        ):
            raise UndecidedError(TWICE)
        late.fork["behind"] = found[0]["threads"]
        return mine, side.places

    def _refuse_earlier(self, items: Sequence[Any], late: _Late, *, is_behind: bool) -> None:
        """Refuse a wait that may come before all members of the thread beside it are submitted.

        A wait comes behind what it names, so one that names the last of them is behind all.
        """
        for item in items:
            inner = [item] if isinstance(item, list) else item.get(ORDER_BLOCKS.get(item["op"], ""))
            if inner is not None:
                for entry in item if isinstance(item, list) else inner:
                    one = entry if isinstance(entry, list) else [entry]
                    self._refuse_earlier(one, late, is_behind=is_behind)
                continue
            named = {self.member_of[name] for name in self._named(item)}
            is_behind |= late.last in named
            if named - late.launched and not is_behind:
                raise UndecidedError(MAY_LEAVE)

    def _side(self, *, is_closed: bool) -> Side:
        apart = {handle for opened in self.forks for handle in opened.mine}
        return Side(self, apart, is_closed=is_closed)

    def forced(self, work: str, place: int) -> tuple[list[dict[str, Any]], list[int]]:
        """Return what a wait for a member that was not launched issues in front of it."""
        number, at = self.member_of[work]
        played = self.played
        played.taken = None
        begin = len(played.actions)
        for flush in self.policies[number].force(at):
            self._launch(number, flush)
        if (number, at) not in self.flush_of:
            self._never(number, place)
        issued, origins = played.actions[begin:], played.origins[-(len(played.actions) - begin) :]
        for row in (played.actions, played.widths, played.causes):
            del row[begin:]
        del played.origins[-len(issued) :]
        return issued, origins

    def _write(self, action: dict[str, Any], places: Sequence[int]) -> None:
        """Write what stands beside members, which is no longer what the plan has there."""
        self.played.taken = None
        self.played.actions.append(action)
        self.played.origins += places
        self._because(None, len(places))

    def _plain(self, actions: range, item: dict[str, Any]) -> None:
        """Issue actions in a row as they are."""
        played = self.played
        played.actions.append(item)
        played.origins += actions
        if played.taken is not None:
            played.taken.append(actions)
        played.widths += [1] * len(actions)
        played.causes += [None] * len(actions)

    # --- elements ----------------------------------------------------------------------------

    def _element(self, element: int) -> bool:
        """Issue one element; False when the rank gets no further."""
        self.turn = element
        went_on = self._issue(element)
        self.turn = None
        return went_on

    def _issue(self, element: int) -> bool:
        leaf = self.rank.leaves[element]
        if element not in self.rank.owner:
            fields = {key: value for key, value in leaf.fields.items() if key != "x-after"}
            return self._leaf(leaf, fields)
        number, at = self.rank.owner[element]
        for flush in self.policies[number].arrive(at):
            self._launch(number, flush)
        self._together(number)
        self._submitted(element, leaf)
        if leaf.fields.get("async"):
            return True
        return self._settle([(number, at)], leaf, {"op": "wait"}, [])

    def _submitted(self, element: int, leaf: Leaf) -> None:
        """Say where the last member of a thread is submitted that others wait for beside it."""
        for opened in self.forks:
            late = opened.late
            if late is None or element not in late.left:
                continue
            late.left.discard(element)
            if not late.left:
                late.last = self.rank.owner[element]
                token = {"op": "compute", "op_name": "submit", "id": late.token}
                self._write(token, [leaf.action])

    def _cluster(self, number: int) -> str | None:
        agreed = self.agreed.get(self.rank.held[number].buffer.id)
        return None if agreed is None or agreed.by_name else agreed.cluster

    def _sizes_of_clusters(self) -> dict[str, int]:
        left: dict[str, int] = {}
        for number, held in enumerate(self.rank.held):
            cluster = self._cluster(number)
            if cluster is not None:
                left[cluster] = left.get(cluster, 0) + len(held.elements)
        return left

    def _together(self, number: int) -> None:
        """Launch what is agreed for several buffers once the last of their members is ready."""
        cluster = self._cluster(number)
        if cluster is None:
            return
        self.left[cluster] -= 1
        if self.left[cluster]:
            return
        due = [
            (other, flush)
            for other, policy in enumerate(self.policies)
            if self._cluster(other) == cluster and isinstance(policy, Coordinated)
            for flush in policy.due()
        ]
        if due:
            self._stand(number, cluster)
        for other, flush in due:
            self._launch(other, flush)

    def _stand(self, number: int, cluster: str) -> None:
        """Let the host stand until all ranks have submitted, if it waits for the background.

        It does so where it waits for a member, but nothing comes between. What holds hosts up, and
        nothing else, is to make a communicator that nobody uses.
        """
        if self._background(number) is not None:
            members = self.ranks.members[self.rank.held[number].buffer.group]
            self._create(number, f"submitted: {cluster}", members)

    def _background(self, number: int) -> str | None:
        agreed = self.agreed.get(self.rank.held[number].buffer.id)
        return agreed.background if agreed is not None and agreed.buckets else None

    def _create(self, number: int, group: str, members: list[int]) -> None:
        leaf = self.rank.held[number].ready.leaves[0]
        self.played.groups[group] = members
        self.played.taken = None
        self._add({"op": "init", "group": group}, (leaf,))

    def _leaf(self, leaf: Leaf, item: dict[str, Any]) -> bool:
        names = self._named(item)
        if item["op"] in {"test", "drop"} and names:
            return True  # polling a flush, or forgetting it, blocks nothing
        if item["op"] == "wait" and names:
            if item.get("mode", "all") != "all":
                raise UndecidedError("a wait for one of several members of a fused buffer")
            others = [name for name in _works(item) if name not in self.member_of]
            return self._settle([self.member_of[name] for name in names], leaf, item, others)
        self._check((leaf,))
        self._add(item, (leaf,), range(leaf.action, leaf.action + 1))
        return True

    def _settle(
        self,
        wanted: list[tuple[int, int]],
        leaf: Leaf,
        item: dict[str, Any],
        others: list[str],
    ) -> bool:
        """Wait for the flushes of members, which launches what is left in a filled buffer."""
        names = list(others)
        for number, at in wanted:
            if (number, at) not in self.flush_of:
                for flush in self.policies[number].force(at):
                    self._launch(number, flush)
            if (number, at) not in self.flush_of:
                self._never(number, leaf.action)
                return False
            handle = self.flush_of[number, at]
            self._refuse_streams(handle, item)
            if any(handle in opened.mine for opened in self.forks):
                raise UndecidedError(TWICE)
            if handle not in self.waited and handle not in names:
                names.append(handle)
        self.waited |= dict.fromkeys(names, self._stream(item))
        if names:
            work = names if len(names) > 1 else names[0]
            kept = {key: value for key, value in item.items() if key not in {"work", "x-after"}}
            self._add({**kept, "work": work}, (leaf,), Anew(leaf.action, tuple(names)))
        return True

    def _stream(self, item: dict[str, Any]) -> str | None:
        return item.get("stream", "main") if self.streams else None

    def _refuse_streams(self, handle: str, item: dict[str, Any]) -> None:
        """Refuse a second wait for a flush on another stream: it is no wait that says nothing."""
        if self.waited.get(handle, self._stream(item)) != self._stream(item):
            raise UndecidedError("waits for members of one flush on two streams")

    def _never(self, number: int, place: int) -> None:
        """Write a wait that does not end: a receive in a group of its own that nobody sends to."""
        rank, buffer = self.rank.order.rank, self.rank.held[number].buffer
        others = [peer for peer in self.ranks.members[buffer.group] if peer != rank]
        if not others:
            raise UndecidedError(f"fused buffer {buffer.id} is waited for before it is complete")
        name = f"~{buffer.id}~{rank}"
        self.played.groups[name] = sorted((rank, others[0]))
        action = {"op": "recv", "peer": others[0], "group": name, "bytes": 1}
        self.played.stuck.append(place)
        self._write(action, [place])

    # --- writing -----------------------------------------------------------------------------

    def _launch(self, number: int, flush: tuple[int, ...]) -> None:
        held = self.rank.held[number]
        handle = self._handle(held)
        leaves = [held.ready.leaves[at] for at in flush]
        group = self.policies[number].group(flush)
        is_uneven = held.buffer.spec in self.ranks.uneven
        action = collective(held, flush, handle, with_sizes=is_uneven)
        if group is not None:
            self.played.groups[group] = self.ranks.members[held.buffer.group]
            action["group"] = group
        self.flush_of |= {(number, at): handle for at in flush}
        self.played.actions.append(action)
        self.played.origins.append(leaves[0].action)
        if self.played.taken is not None:
            said = {key: value for key, value in action.items() if key not in _STARTED}
            self.played.taken.append(Anew(leaves[0].action, (handle,), said))
        members = tuple(leaf.action for leaf in leaves)
        self.played.flushes.append((number, members))
        self._because((number, flush), 1)

    def _handle(self, held: Held) -> str:
        """Return a handle for a flush that no other call of the program has."""
        name = f"{self.ranks.name_of(held.buffer)}#{self.count}"
        self.count += 1
        while name in self.handles:
            name += "'"
        return name

    def _because(self, flush: tuple[int, tuple[int, ...]] | None, width: int) -> None:
        self.played.widths.append(width)
        self.played.causes.append(None if self.turn is None else Cause(self.turn, flush))

    def _add(
        self, item: dict[str, Any], leaves: tuple[Leaf, ...], taken: Taken | None = None
    ) -> None:
        self.played.actions.append(item)
        if self.played.taken is not None and taken is not None:
            self.played.taken.append(taken)
        self.played.origins += [leaf.action for leaf in leaves]
        self._because(None, len(leaves))

    def _named(self, item: dict[str, Any]) -> list[str]:
        return [name for name in _works(item) if name in self.member_of]

    def _check(self, leaves: tuple[Leaf, ...]) -> None:
        """Refuse everything but a plain wait, test or drop that names a member or its handle."""
        for leaf in leaves:
            if leaf.fields.keys().isdisjoint(_REFERRING):
                continue
            references = [*leaf.fields.get("deps", ()), *leaf.fields.get("x-after", ())]
            outside = references if id(leaf) not in self.elements else leaf.fields.get("deps", ())
            if self._named(leaf.fields) or self.ids & set(outside):
                op = leaf.fields["op"]
                raise UndecidedError(f"`{op}` refers to a member of a fused buffer")


def _works(item: dict[str, Any]) -> list[str]:
    if item["op"] not in HANDLES:
        return []
    work = item.get("work", [])
    return list(work) if isinstance(work, list) else [work]


def collective(
    held: Held, flush: tuple[int, ...], handle: str, *, with_sizes: bool = False
) -> dict[str, Any]:
    """Return the collective of one flush: sizes added, identities joined.

    Args:
        held: The buffer.
        flush: Its members that leave.
        handle: The handle of the collective.
        with_sizes: Say of each member how large it is: the sum does not tell.

    Raises:
        UndecidedError: Its members cannot travel as one.
    """
    members = [held.ready.leaves[at].fields for at in flush]
    for name in ("op", "dtype", "reduce_op"):
        if len({fields.get(name) for fields in members}) > 1:
            what = f"fused buffer {held.buffer.id} mixes members of several {name}s"
            raise UndecidedError(what)
    if len({"bytes" in fields for fields in members}) > 1:
        raise UndecidedError(f"fused buffer {held.buffer.id} mixes sizes in bytes and in elements")
    like = members[0]
    kept: dict[str, Any] = {
        name: like[name] for name in ("group", "dtype", "reduce_op") if name in like
    }
    size = "bytes" if "bytes" in like else "count"
    names: list[str] = [held.ready.name(at) for at in flush]
    if with_sizes:
        names = [
            f"{name} ({held.ready.sizes[at]} B)" for name, at in zip(names, flush, strict=True)
        ]
    label = repr(names) if any("+" in name for name in names) else "+".join(names)
    total = sum(fields[size] for fields in members)
    return {"op": like["op"], "async": True, "work": handle, "label": label, **kept, size: total}
