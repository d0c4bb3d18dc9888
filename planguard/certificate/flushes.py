"""What ranks with fused buffers can issue: standard library only, no engine.

Members of a fused buffer become ready in an order that the program leaves open, and leave together.
This file follows every order of every rank, by the policy that the plan states, and yields the
plans without buffers that come out: docs/explanation/fused-buffers.md says what the fields mean.
Bounded: ``LIMIT`` states of one rank, and what ``cases.py`` says of combinations.

A negotiated buffer has a communicator that nobody else uses (ADR 0036). Where its members are not
ready as a whole and settled before anything else, each is a call of a group of its own: it waits
for the same member on the other ranks and for nothing else, under models whose groups do not hold
each other up.
"""

from __future__ import annotations

import json
from typing import Any

from planguard.certificate.agreement import Call, OutsideError, RejectedError, calls_of, extent
from planguard.certificate.blocks import Block
from planguard.certificate.buffers import Buffer
from planguard.certificate.checker import PAIR, ROUND

LIMIT = 20_000
"""Most states of one rank: what is issued, and how."""
APART = {"gloo", "mpi-sync", "mpi-eager"}  # groups that never hold each other up
QUEUES = {"nccl", "nccl-eager", "nccl-serialized"}  # a wait for a collective holds no host up
STAND = {"barrier", "destroy", "exit", "host_sync", "init", "new_group"}
"""Calls in which a host may stand, while others wait for a member that it has not submitted."""
SAME = ("op", "group", "dtype", "reduce_op")
Event = tuple[Any, ...]
"""A flush (buffer, members), a call (``call``, part, place), a wait (``wait``, part, place)."""


class Rank:
    """What one rank can issue.

    Args:
        flat: A flat plan without branches.
        rank: The rank.
        of_rank: The members of every rank, by buffer and id.
    """

    def __init__(self, flat: Call, rank: int, of_rank: list[list[dict[str, Call]]]) -> None:
        self.rank, self.buffers = rank, list[Buffer]()
        groups = flat.get("groups", {})
        for number, spec in enumerate(flat["fusion"]):
            group = spec.get("group", "world")
            first = 0 if group == "world" else groups[group]["ranks"][0]
            self.buffers.append(Buffer(spec, of_rank[rank][number], of_rank[first][number]))
        self.home = {name: b for b, one in enumerate(self.buffers) for name in one.mine}
        calls = {name: call for one in self.buffers for name, call in one.mine.items()}
        self.name_of = {call["work"]: name for name, call in calls.items() if "work" in call}
        if len(calls) != sum(len(one.mine) for one in self.buffers):
            raise OutsideError(f"rank {rank}: a member of two fused buffers")
        started = (c for c in calls_of(flat["ranks"][str(rank)]["actions"]) if "work" in c)
        works = [str(c["work"]) for c in started if c["op"] not in {"wait", "test", "drop"}]
        if any(works.count(work) > 1 for work in self.name_of):
            raise OutsideError(f"rank {rank}: a handle of a member that is bound twice")
        self.parts = [self._part(item) for item in flat["ranks"][str(rank)]["actions"]]
        self.calls = calls
        self.is_agreed = any(one.agreed != "none" for one in self.buffers if one.mine)
        if self.is_agreed:
            self._check_alone()

    def _part(self, item: Call) -> Block | Call:
        """Take apart a block that has to do with members; leave the others as they are."""
        if not any(self._concerns(call) for call in calls_of(item)):
            return item
        if any(call["op"] in {"threads", "choice"} for call in calls_of(item)):
            raise OutsideError(f"rank {self.rank}: members of a fused buffer in a thread")
        return Block(0, item)

    def _concerns(self, call: Call) -> bool:
        is_member = call.get("id") in self.home
        return is_member or bool(self.names(call)) or bool(self.home.keys() & call.get("deps", []))

    def names(self, call: Call) -> list[str]:
        """Return the members that a wait, test or drop is about."""
        works = call.get("work", []) if call["op"] in {"wait", "test", "drop"} else []
        every = [works] if isinstance(works, str) else works
        return [self.name_of[work] for work in every if work in self.name_of]

    def _check_alone(self) -> None:
        """Refuse an agreed buffer unless it is ready as a whole, then settled, and nothing beside.

        Then all orders that ranks can agree on come to the same: each rank launches the same calls
        in the same order, and waits for them afterwards.
        """
        names, waited = set[str](), set[str]()
        here = [one for one in self.buffers if one.mine]
        kinds = {(one.agreed, one.spec.get("group", "world")) for one in here}
        if len(here) > 1 and (len(kinds) > 1 or here[0].agreed != "negotiated"):
            raise OutsideError(f"rank {self.rank}: an agreed buffer beside one of another kind")
        for part in self.parts:
            inner = part.calls if isinstance(part, Block) else list(calls_of(part))
            waits = {one for call in inner if call["op"] == "wait" for one in self.names(call)}
            mine = [call for call in inner if call.get("id") in self.home]
            if (waits and names != self.home.keys()) or not all(c.get("async") for c in mine):
                raise OutsideError(f"rank {self.rank}: an agreed buffer that is waited for early")
            names |= {call["id"] for call in mine}
            others = [c for c in inner if c["op"] in PAIR | ROUND | {"batch", "init", "new_group"}]
            if len(others) > len(mine) and names - waited:
                raise OutsideError(f"rank {self.rank}: communication beside an agreed buffer")
            waited |= waits

    def programs(self) -> list[list[Call]]:
        """Return every program without buffers that the rank can issue.

        Raises:
            RejectedError: In some order a member is waited for that never leaves.
            OutsideError: There are too many, or something is not covered.
        """
        found = {(): None}
        for at, part in enumerate(self.parts):
            found = {event: None for state in found for event in self._after(at, part, state)}
            if len(found) > LIMIT:
                raise OutsideError(f"more than {LIMIT:,} ways to flush on rank {self.rank}")
        return [self._written(events) for events in found]

    def _after(self, at: int, part: Block | Call, begin: tuple[Event, ...]) -> list[Any]:
        """Return what can have been issued after a part, given what was before it."""
        if not isinstance(part, Block):
            return [(*begin, ("call", at, 0))]
        if self.is_agreed:  # whatever is ready first: all leave once everything is ready
            for mask, place in enumerate(part.order):
                issued = sum(1 << one for one in part.order[:mask])
                begin = self._step([at, part, issued, place], begin)
            return [begin]
        before = [0] * len(part.calls)
        for first, above in enumerate(part.above):
            for later in range(len(part.calls)):
                before[later] |= (above >> later & 1) << first
        seen, todo, ends = {(0, begin)}, [(0, begin)], list[Any]()
        while todo:
            mask, events = todo.pop()
            if mask + 1 == 1 << len(part.calls):
                ends.append(events)
            for place in range(len(part.calls)):
                if mask >> place & 1 or before[place] & ~mask:
                    continue
                ready = [at, part, mask, place]
                state = mask | 1 << place, self._step(ready, events)
                if state not in seen:
                    seen.add(state)
                    todo.append(state)
            if len(seen) > LIMIT:
                raise OutsideError(f"more than {LIMIT:,} ways to flush on rank {self.rank}")
        return ends

    def _step(self, ready: list[Any], events: tuple[Event, ...]) -> tuple[Event, ...]:
        """Return what is issued once one more call of a block is."""
        at, part, mask, place = ready
        call = part.calls[place]
        name, names = call.get("id"), self.names(call)
        sent = {one for event in events if event[0] == "flush" for one in event[2]}
        if name in self.home:
            came = self._came(at, part, mask) | {name}
            buffer = self.buffers[self.home[name]]
            due = {self.home[name]: buffer.due(name, came & buffer.mine.keys(), sent)}
            if self.is_agreed:
                every = {at: one.due("", came & one.mine.keys(), sent)
                         for at, one in enumerate(self.buffers)}  # fmt: skip
                due = every if came == self.home.keys() else {}
            leaving = ((at, together) for at, several in due.items() for together in several)
            events += tuple(("flush", *one) for one in leaving)
            return events if call.get("async") else self._wait([name], (at, place), ready, events)
        if names and call["op"] == "wait":
            if call.get("mode", "all") != "all" and isinstance(call["work"], list):
                raise OutsideError(f"rank {self.rank}: a wait for one of several members")
            return self._wait(names, (at, place), ready, events)
        if self.home.keys() & call.get("deps", []):
            raise OutsideError(f"rank {self.rank}: a computation that depends on a member")
        if names and isinstance(call["work"], list) and len(names) < len(call["work"]):
            raise OutsideError(f"rank {self.rank}: members and others in one `{call['op']}`")
        return events if names else (*events, ("call", at, place))

    def _came(self, at: int, part: Block, mask: int) -> set[str]:
        issued = [call for place, call in enumerate(part.calls) if mask >> place & 1]
        for earlier in self.parts[:at]:
            issued += earlier.calls if isinstance(earlier, Block) else []
        return {call["id"] for call in issued if call.get("id") in self.home}

    def _wait(
        self, names: list[str], where: tuple[int, int], ready: list[Any], events: tuple[Event, ...]
    ) -> tuple[Event, ...]:
        at, part, mask, place = ready
        came = self._came(at, part, mask | 1 << place)
        for name in names:
            sent = {one for event in events if event[0] == "flush" for one in event[2]}
            buffer = self.buffers[self.home[name]]
            if name not in sent and name in came and buffer.fills:
                held = buffer.inside(name, came & buffer.mine.keys(), sent)
                events += (("flush", self.home[name], held),)
            elif name not in sent:
                raise RejectedError(f"rank {self.rank} may wait for {name}, which never leaves")
        return (*events, ("wait", *where))

    def _written(self, events: tuple[Event, ...]) -> list[Call]:
        """Write a program: every flush one collective, every wait one for flushes."""
        out, handle, waited = list[Call](), dict[str, str](), set[str]()
        for what, one, two in events:
            if what == "flush":
                work = f"flush {len(handle)}"
                handle |= dict.fromkeys(two, work)
                out.append({**self._merged(one, two), "async": True, "work": work})
                continue
            part = self.parts[one]
            call = part.calls[two] if isinstance(part, Block) else part
            if not isinstance(part, Block):
                out.append(call)
            elif what == "call":
                out.append({key: value for key, value in call.items() if key != "after"})
            else:
                works = call.get("work", []) if call["op"] == "wait" else call["id"]
                every = [works] if isinstance(works, str) else works
                needs = [handle.get(self.name_of.get(work, work), work) for work in every]
                left = [work for work in dict.fromkeys(needs) if work not in waited]
                waited |= {work for work in left if work in handle.values()}
                out += [{"op": "wait", "work": left}] if left else []
        return out

    def _merged(self, number: int, names: tuple[str, ...]) -> Call:
        """Return members as one collective: sizes added, identities joined."""
        calls = [self.calls[name] for name in names]
        for call in calls:
            same = all(call.get(field) == calls[0].get(field) for field in SAME)
            if not same or "stream" in call or ("bytes" in call) != ("bytes" in calls[0]):
                raise OutsideError(f"rank {self.rank}: members that cannot travel as one")
        unlabeled = {"label" in call for call in self.calls.values()}
        if len(unlabeled) > 1 or (unlabeled == {False} and len(self.buffers) > 1):
            raise OutsideError(f"rank {self.rank}: which members belong together is not known")
        said = [call.get("label", name) for call, name in zip(calls, names, strict=True)]
        # Of several its layout, too: equal sums may hide members of other sizes.
        sizes = [extent(call)[0] for call in calls]
        pairs = list(zip(said, sizes, strict=True))
        label = said[0] if len(said) == 1 else json.dumps(pairs)
        kept = {field: calls[0][field] for field in SAME if field in calls[0]}
        size = "bytes" if "bytes" in calls[0] else "count"
        return {**kept, "label": label, size: sum(call[size] for call in calls)}


def members(flat: Call, rank: int) -> list[dict[str, Call]]:
    """Return the members that a rank issues, by buffer and id.

    Raises:
        OutsideError: One of them is not a call of the group of its buffer.
    """
    calls = [c for c in calls_of(flat["ranks"][str(rank)]["actions"]) if "id" in c]
    groups, found = flat.get("groups", {}), list[dict[str, Call]]()
    for spec in flat["fusion"]:
        name, names = spec.get("group", "world"), set(spec["members"])
        is_in = name == "world" or rank in groups[name]["ranks"]
        found.append({c["id"]: c for c in calls if c["id"] in names} if is_in else {})
        if any(call.get("group", "world") != name for call in found[-1].values()):
            raise OutsideError(f"rank {rank}: a member of another group than its fused buffer")
    return found


def without_fusion(flat: Call, model: str) -> tuple[Call, list[list[list[Call]]]]:
    """Return a plan without its buffers, and for every rank the programs that it can issue.

    Raises:
        RejectedError: In some order a member is waited for that never leaves.
        OutsideError: There are too many, or something is not covered.
    """
    _check_groups(flat)
    agreed = [one for one in flat["fusion"] if one.get("coordination") == "negotiated"]
    if agreed and (model in QUEUES or model == "nccl-lazy"):
        _refuse_standing(flat, agreed, model)
    if model not in APART or not agreed:
        return flat, programs(flat)
    own = _apart(flat, by_name=False)
    try:
        return own, programs(own)
    except OutsideError:
        pass
    named = _apart(flat, by_name=True)
    return named, programs(named)


def _check_groups(flat: Call) -> None:
    """Check that every call with the name of a member is on the group of a buffer that has it.

    Raises:
        OutsideError: One is not: no buffer would account for it.
    """
    homes = {(one.get("group", "world"), name) for one in flat["fusion"] for name in one["members"]}
    names = {name for _, name in homes}
    for rank, use in flat["ranks"].items():
        for call in calls_of(use["actions"]):
            if call.get("id") in names and (call.get("group", "world"), call["id"]) not in homes:
                raise OutsideError(f"rank {rank}: a member of another group than its fused buffer")


def _refuse_standing(flat: Call, agreed: list[Call], model: str) -> None:
    """Refuse hosts that stand somewhere else than at their members.

    A host that waits for a member stands until all ranks have submitted it; a case in which that is
    a wait of the device says the same only where no host stands elsewhere.

    Raises:
        OutsideError: One may: in a call, or at the first use of a communicator.
    """
    every = (call for use in flat["ranks"].values() for call in calls_of(use["actions"]))
    groups = {one.get("group", "world") for one in agreed}
    if model not in QUEUES or len(groups) > 1 or any(call["op"] in STAND for call in every):
        raise OutsideError("a negotiated buffer where hosts may stand elsewhere")


def _apart(flat: Call, *, by_name: bool) -> Call:
    """Give every negotiated buffer a group that nobody else uses, or every member of it one.

    Raises:
        OutsideError: A member, known by its label, is not one of all ranks that negotiate.
    """
    world = list(range(len(flat["ranks"])))
    groups, fusion = {"world": {"ranks": world}, **flat.get("groups", {})}, list[Call]()
    own = dict[tuple[str, str], str]()
    for spec in flat["fusion"]:
        of = spec.get("group", "world")
        if spec.get("coordination", "none") != "negotiated":
            fusion.append(spec)
            continue
        own |= {(of, member): _unused(groups, f"{of}, negotiated") for member in spec["members"]}
        fusion += [] if by_name else [{**spec, "group": _unused(groups, f"{of}, negotiated")}]
    made = dict[str, set[int]]()
    ranks_of = dict[str, list[int]]()

    def moved(item: Any, rank: int) -> Any:
        if isinstance(item, list):
            return [moved(one, rank) for one in item]
        inner = {key: moved(item[key], rank) for key in ("body", "threads") if key in item}
        of = item.get("group", "world")
        group = own.get((of, item.get("id", "")))
        if group is None or rank not in groups[of]["ranks"]:
            return {**item, **inner}
        if by_name:
            group = _unused(groups, f"{group} {item.get('label', item['id'])}")
            made.setdefault(group, set()).add(rank)
        ranks_of[group] = groups[of]["ranks"]
        return {**item, **inner, "group": group}

    ranks = {
        rank: {**use, "actions": moved(use["actions"], int(rank))}
        for rank, use in flat["ranks"].items()
    }
    if any(len(found) < len(ranks_of[group]) for group, found in made.items()):
        raise OutsideError("an agreed buffer with other members on other ranks")
    every = {name: {"ranks": members} for name, members in ranks_of.items()}
    return {**flat, "groups": flat.get("groups", {}) | every, "fusion": fusion, "ranks": ranks}


def _unused(groups: Call, name: str) -> str:
    while name in groups:
        name += "'"
    return name


def _in_front(flat: Call, rank: int, group: str) -> int:
    """Return how often a rank calls a group before it issues the first negotiated member on it."""
    fusion = (one for one in flat["fusion"] if one.get("coordination") == "negotiated")
    own = {name for one in fusion if one.get("group", "world") == group for name in one["members"]}
    count = 0
    for item in flat["ranks"][str(rank)]["actions"]:
        calls = [c for c in calls_of(item) if c.get("group", "world") == group]
        if any(call.get("id") in own for call in calls):
            break
        count += sum(call["op"] in ROUND for call in calls)
    return count


def programs(flat: Call) -> list[list[list[Call]]]:
    """Return for every rank the programs without buffers that it can issue.

    Raises:
        RejectedError: In some order a member is waited for that never leaves.
        OutsideError: There are too many, or something is not covered.
    """
    ranks = range(len(flat["ranks"]))
    of_rank = [members(flat, rank) for rank in ranks]
    for number, spec in enumerate(flat["fusion"]):
        group = flat.get("groups", {}).get(spec.get("group", "world"), {"ranks": ranks})["ranks"]
        sets = {frozenset(of_rank[rank][number]) for rank in group}
        if spec.get("coordination", "none") != "none" and len(sets) > 1:
            raise OutsideError("an agreed buffer with other members on other ranks")
        if spec.get("coordination") == "negotiated":  # by position as on a communicator of its own
            fronts = {_in_front(flat, rank, spec.get("group", "world")) for rank in group}
            if len(fronts) > 1:
                raise OutsideError("the group of a negotiated buffer is called in front of it")
    return [Rank(flat, rank, of_rank).programs() for rank in ranks]
