"""Plans with fused buffers by brute force: every order of readiness of every rank, played through.

Shares nothing with the library. A plan is a flat document: one list of actions per rank, blocks
``unordered`` with actions, chains and further such blocks inside, fused buffers over groups with
explicit ranks. Every way in which the ranks can run becomes a plan without buffers, which the
enumerator decides. Of ``threads`` one may have members: what it submits leaves in it, and a wait in
another thread is played for what left before they began. Members, and waits for them, in any other
construct are not played.

Above 400 lines: what each policy does, played once, and what ranks may agree on beforehand.
"""

from __future__ import annotations

import copy
import itertools
import json
from typing import TYPE_CHECKING, Any

from oracle.enumerator import Effort, combine, enumerate_plan
from oracle.program import OracleUnsupported

if TYPE_CHECKING:
    from collections.abc import Iterator

Item = dict[str, Any]
Layout = tuple[tuple[str, ...], ...]
"""Members of the buckets that an order holds, one after the other."""
WAITS = ("wait", "test", "drop")
UNPLAYED = {"choice": "branches", "threads": "threads", "repeat": "body"}


def outcome_of(plan: Item, model: str) -> str:
    """Return the outcome over all orders of readiness, and all that ranks may agree on.

    Raises:
        OracleUnsupported: It depends on what the plan does not say of an agreed order.
    """
    found = {
        combine([
            ending
            for fixed in executions
            for ending in enumerate_plan(fixed, model, Effort(verify=0)).endings
        ], 0).outcome
        for executions in readings(plan)
    }  # fmt: skip
    if len(found) > 1:
        raise OracleUnsupported("an agreed order that the plan does not state")
    return found.pop()


def every_execution(plan: Item) -> list[Item]:
    """Return the plans without buffers that a plan can become, each once."""
    found = [fixed for executions in readings(plan) for fixed in executions]
    return list({json.dumps(fixed): fixed for fixed in found}.values())


def readings(plan: Item) -> list[list[Item]]:
    """Return the plans without buffers, by what a plan may mean by an order that rank 0 sends.

    One reading holds every order that the first rank of a group may send. Where the plan does not
    state which these are, each is a reading of its own.
    """
    members = {name for spec in plan.get("fusion", ()) for name in spec["members"]}
    programs = [marked(program, members) for program in identified(plan, members)]
    for program in programs:
        refuse_unplayed(program, members)
    sent: list[list[Layout]] = []
    is_stated = True
    for spec in plan.get("fusion", ()):
        layouts, stated = sent_by_first(plan, spec)
        is_stated &= stated or len(layouts) == 1
        sent.append(layouts)
    ways = [executions_of(plan, programs, chosen) for chosen in itertools.product(*sent)]
    return [[fixed for way in ways for fixed in way]] if is_stated else ways


def identified(plan: Item, members: set[str]) -> list[list[Item]]:
    """Return the programs of all ranks with the implicit labels of calls in blocks.

    Raises:
        OracleUnsupported: An unlabeled call may change places; whose round it is is open.
    """
    count = range(plan["world_size"])
    programs = [plan["ranks"][str(rank)]["actions"] for rank in count]
    found = copy.deepcopy(programs)
    for program in found:
        for number, block in enumerate(outermost(program)):
            calls = [one for one in every_action(block["body"]) if "bytes" in one or "count" in one]
            for at, one in enumerate(calls):
                group = one.get("group", "world")
                beside = [other for other in calls if other.get("group", "world") == group]
                if "label" in one or one.get("id") in members or len(beside) < 2:
                    continue
                ranks = count if group == "world" else plan["groups"][group].get("ranks")
                is_one = ranks and all(programs[rank] == programs[ranks[0]] for rank in ranks)
                if not is_one or "peer" in one or one["op"] == "batch":
                    raise OracleUnsupported("an unlabeled call that may change places")
                one["label"] = f"implicit {number} {at}"
    return found


def uneven(plan: Item) -> set[str]:
    """Return the labels of members that have other sizes on two ranks."""
    members = {name for spec in plan.get("fusion", ()) for name in spec["members"]}
    sizes: dict[str, set[int]] = {}
    for program in plan["ranks"].values():
        for one in every_action(program["actions"]):
            if one.get("id") in members:
                sizes.setdefault(one.get("label", one["id"]), set()).add(one.get("bytes", -1))
    return {name for name, found in sizes.items() if len(found) > 1}


def outermost(items: list[Any]) -> Iterator[Item]:
    """Yield the blocks of open order that stand in no other one."""
    for item in items:
        if isinstance(item, list):
            yield from outermost(item)
        elif item["op"] == "unordered":
            yield item
        else:
            yield from outermost(item.get(UNPLAYED.get(item["op"], ""), []))


def sent_by_first(plan: Item, spec: Item) -> tuple[list[Layout], bool]:
    """Return the sequences of buckets that the first rank of a group may send to the others.

    They are those that it could flush itself, by the policy of the buffer; whether the plan states
    which: not for a wait that may end a bucket, and not for what several buffers of a pool hold at
    the end, or what one holds then that the rank never waits for: it may be sent or not.
    """
    if spec.get("coordination") != "rank0-broadcast":
        return [()], True
    group = spec.get("group", "world")
    leader = 0 if group == "world" else plan["groups"][group]["ranks"][0]
    program = marked(plan["ranks"][str(leader)]["actions"], set(spec["members"]))
    items = {one["id"]: one for one in every_action(program) if one.get("id") in spec["members"]}
    declared = [name for name in spec["members"] if name in items]
    count = spec.get("buffers", 1)
    lists = [declared[k::count] for k in range(count) if declared[k::count]]
    cap = spec.get("cap_bytes", sum(items[name]["bytes"] for name in declared))
    if spec.get("membership", "fill") == "fixed":
        packed = [filled(names, items, cap) for names in lists]
        every = [bucket for buckets in packed for bucket in buckets]
        if spec.get("launch") == "ordered":
            every.sort(key=lambda bucket: spec["members"].index(bucket[-1]))
            return [tuple(every)], True
        last = [buckets[-1] for buckets in packed] if spec.get("drain") == "ordered" else []
        free = [bucket for bucket in every if bucket not in last]
        found = []
        for order in orders(program):
            came = [one["id"] for one in every_action(order) if one.get("id") in items]
            done = sorted(free, key=lambda bucket: max(came.index(name) for name in bucket))
            found.append(tuple(done + last))
        return list(dict.fromkeys(found)), True
    found, is_stated = [], len(lists) < 2
    waits = [one for one in every_action(program) if one["op"] == "wait"]
    named = {name for one in waits for name in Play.list(one)}
    waited = {
        name for name, one in items.items() if one.get("work") in named or not one.get("async")
    }
    for order, flushes in itertools.product(orders(program), (False, True)):
        inside: list[tuple[str, ...]] = [()] * len(lists)
        left: list[tuple[str, ...]] = []
        begun: set[str] = set()
        works = {items[name].get("work"): name for name in items}
        # A wait in a thread beside the members counts where it is written: it may be anywhere.
        for one in every_action(order):
            asked: set[str] = set()
            if one.get("id") in items:
                begun.add(one["id"])
                at = next(at for at, names in enumerate(lists) if one["id"] in names)
                full = filled([*inside[at], one["id"]], items, cap)
                left += full[:-1]
                inside[at] = full[-1]
                asked = set() if one.get("async") else {one["id"]}
            elif one["op"] == "wait":
                asked = {works[name] for name in Play.list(one) if name in works} & begun
            if asked and begun != items.keys():
                is_stated = False
                for at, bucket in enumerate(inside):
                    if flushes and asked & set(bucket):
                        left.append(bucket)
                        inside[at] = ()
        for rest in itertools.permutations([bucket for bucket in inside if bucket]):
            kept = [bucket for bucket in rest if waited & set(bucket)]
            is_stated &= len(kept) == len(rest)
            for last in (rest, kept):
                sent = (*left, *last)
                found.append(tuple(in_declared_order(bucket, declared) for bucket in sent))
    return list(dict.fromkeys(found)), is_stated


def filled(names: list[str], items: dict[str, Item], cap: int) -> list[tuple[str, ...]]:
    """Fill a buffer in an order; what does not fit begins the next bucket."""
    buckets: list[tuple[str, ...]] = []
    for name in names:
        held = sum(items[other]["bytes"] for other in buckets[-1]) if buckets else 0
        if not buckets or held + items[name]["bytes"] > cap:
            buckets.append(())
        buckets[-1] = (*buckets[-1], name)
    return buckets


def in_declared_order(bucket: tuple[str, ...], declared: list[str]) -> tuple[str, ...]:
    """Return members as a flush holds them."""
    return tuple(sorted(bucket, key=declared.index))


def executions_of(plan: Item, programs: list[list[Item]], sent: tuple[Layout, ...]) -> list[Item]:
    """Return the plans without buffers that a plan can become, once what rank 0 sends is known."""
    ways = []
    for rank, program in enumerate(programs):
        found: dict[str, tuple[list[Item], Item]] = {}
        for order in orders(program):
            played = Play(plan, rank, sent).run(order)
            found[json.dumps(played)] = played
        ways.append(list(found.values()))
    plans = []
    for chosen in itertools.product(*ways):
        groups = {**plan.get("groups", {})}
        for _, more in chosen:
            groups |= more
        ranks = {str(rank): {"actions": actions} for rank, (actions, _) in enumerate(chosen)}
        plans.append({"schema": plan["schema"], "world_size": plan["world_size"],
                      "groups": groups, "ranks": ranks})  # fmt: skip
    return plans


def with_coordinators(plan: Item) -> Iterator[Item]:
    """Yield a plan as Horovod runs it, once for every order in which members may be launched.

    Every rank has a second one that stands for its background thread. The host reports a member to
    it and goes on; the thread waits for the reports, launches what all ranks report on the
    communicator of the coordinator, where calls meet by position, and says when each has ended. The
    order there is one for all ranks. It is that of the last reports, so it is never one that is
    stuck where another one is not.

    Args:
        plan: Its buffers are all negotiated; its members are in no blocks.
    """
    count = plan["world_size"]
    programs = [plan["ranks"][str(rank)]["actions"] for rank in range(count)]
    homes = {name for spec in plan["fusion"] for name in spec["members"]}
    tags = {name: 2 * at for at, name in enumerate(sorted(homes))}
    calls = [list(every_action(items)) for items in programs]
    shared = homes.intersection(*({one.get("id") for one in items} for items in calls))
    groups = {"coordinator": {"ranks": list(range(count, 2 * count))}}
    for turn in itertools.permutations(sorted(shared)):
        ranks = {}
        for rank, program in enumerate(programs):
            ranks[str(rank)] = {"actions": reporting(program, tags, count + rank)}
            items = {one["id"]: one for one in calls[rank] if one.get("id") in turn}
            thread = [one for name in turn for one in launching(items[name], tags[name], rank)]
            ranks[str(count + rank)] = {"actions": thread}
        yield {"schema": plan["schema"], "world_size": 2 * count,
               "groups": plan["groups"] | groups, "ranks": ranks}  # fmt: skip


def message(op: str, peer: int, tag: int) -> Item:
    """Return a message between a host and its background thread; a send holds up nobody."""
    item = {"op": op, "peer": peer, "tag": tag, "bytes": 1}
    return item if op == "recv" else item | {"async": True, "work": f"message {tag}"}


def reporting(
    program: list[Item], tags: dict[str, int], thread: int, known: dict[Any, str] | None = None
) -> list[Item]:
    """Return a program that reports its members, and waits for word of them."""
    mine = {one["work"]: one["id"] for one in every_action(program) if one.get("id") in tags}
    member_of: dict[Any, str] = mine if known is None else known
    out: list[Item] = []
    for item in program:
        if item["op"] == "threads":
            threads = [reporting(inner, tags, thread, member_of) for inner in item["threads"]]
            out.append({**item, "threads": threads})
            continue
        name = item["id"] if item.get("id") in tags else member_of.get(item.get("work"))
        if name is None:
            out.append(item)
        elif item["op"] == "wait":
            out.append(message("recv", thread, tags[name] + 1))
        else:
            out.append(message("isend", thread, tags[name]))
    return out


def launching(member: Item, tag: int, host: int) -> list[Item]:
    """Return what a background thread does for a member."""
    kept = {key: value for key, value in member.items() if key not in {"id", "async", "work"}}
    done = kept | {"group": "coordinator"}
    return [message("recv", host, tag), done, message("isend", host, tag + 1)]


PLAYED = "x-played"
"""Field of ``threads``: the number of the one thread that has members."""


def marked(program: list[Any], members: set[str]) -> list[Any]:
    """Return a program in which ``threads`` say which of them has members, if one has."""
    out: list[Any] = []
    for item in program:
        out.append(item)
        if item["op"] == "threads":
            threads = item["threads"]
            mine = [
                at for at, thread in enumerate(threads)
                if any(one.get("id") in members for one in every_action(thread))
            ]  # fmt: skip
            if len(mine) == 1:
                inner = [marked(t, members) if at in mine else t for at, t in enumerate(threads)]
                out[-1] = {**item, "threads": inner, PLAYED: mine[0]}
    return out


def refuse_unplayed(program: list[Item], members: set[str]) -> None:
    """Refuse members, and waits for them, inside a construct that is only handed on.

    Raises:
        OracleUnsupported: There is one: it would be left out of its buffer without a word.
    """
    works = {one["work"] for one in every_action(program) if one.get("id") in members
             and isinstance(one.get("work"), str)}  # fmt: skip
    for item in program:
        if item["op"] == "threads":
            others = list(item["threads"])
            if PLAYED in item:
                refuse_unplayed(others.pop(item[PLAYED]), members)
            refuse_within(others, members, works, "threads")
        else:
            for inner in every_action([item]):
                refuse_within(inner.get(UNPLAYED.get(inner["op"], ""), []), members, works,
                              inner["op"])  # fmt: skip


def refuse_within(items: list[Any], members: set[str], works: set[str], name: str) -> None:
    """Refuse members in actions that are handed on, and waits for them but in threads."""
    for inner in every_action(items):
        work = inner.get("work", [])
        named = {work} if isinstance(work, str) else set(work)
        is_wait = inner["op"] in WAITS and named & works and name != "threads"
        if inner.get("id") in members or is_wait:
            raise OracleUnsupported(f"a member of a fused buffer in {name}")


def every_action(items: list[Any]) -> Iterator[Item]:
    """Yield all actions and blocks, however deep they stand."""
    for item in items:
        if isinstance(item, list):
            yield from every_action(item)
        else:
            yield item
            yield from every_action(item.get({**UNPLAYED, "unordered": "body"}.get(item["op"]), []))


def orders(program: list[Item]) -> Iterator[list[Item]]:
    """Yield a program with its blocks in every order that chains and `after` admit."""
    choices = []
    for item in program:
        if PLAYED in item:
            threads, mine = item["threads"], item[PLAYED]
            inside = list(orders(threads[mine]))
            choices.append([
                [{**item, "threads": [*threads[:mine], one, *threads[mine + 1 :]]}]
                for one in inside
            ])  # fmt: skip
            continue
        if item["op"] == "threads":
            choices.append([[item]])
            continue
        found: list[tuple[Item, frozenset[int]]] = []
        chain([item], frozenset(), found)
        choices.append([[found[at][0] for at in order] for order in extensions(found, [])])
    for parts in itertools.product(*choices):
        yield [item for part in parts for item in part]


def chain(
    items: list[Any], before: frozenset[int], found: list[tuple[Item, frozenset[int]]]
) -> frozenset[int]:
    """Append actions that follow each other, with what precedes each; return what ends them."""
    for item in items:
        if item["op"] != "unordered":
            plain = {key: value for key, value in item.items() if key != "after"}
            found.append((plain, before))
            before = frozenset({len(found) - 1})
            continue
        ids: dict[str, int] = {}
        ends = before
        for entry in item["body"]:
            one = entry if isinstance(entry, list) else [entry]
            if any(inner["op"] in UNPLAYED for inner in every_action(one)):
                raise OracleUnsupported("other constructs in a block beside fused buffers")
            names = [] if isinstance(entry, list) else entry.get("after", [])
            first = len(found)
            ends |= chain(one, before | {ids[name] for name in names}, found)
            if len(found) == first + 1 and "id" in found[first][0]:
                ids[found[first][0]["id"]] = first
        before = ends
    return before


def extensions(found: list[tuple[Item, frozenset[int]]], done: list[int]) -> Iterator[list[int]]:
    """Yield the orders in which everything comes after what precedes it."""
    if len(done) == len(found):
        yield done
    for at in range(len(found)):
        if at not in done and found[at][1] <= set(done):
            yield from extensions(found, [*done, at])


class Play:
    """One rank that issues its actions in a given order."""

    def __init__(self, plan: Item, rank: int, sent: tuple[Layout, ...]) -> None:
        self.plan, self.rank = plan, rank
        self.out: list[Item] = []
        self.groups: Item = {}
        self.handles: dict[str, str] = {}
        self.done: dict[str, str] = {}
        self.waited: set[str] = set()
        self.beside: set[str] = set()
        self.works: dict[str, str] = {}
        self.uneven = uneven(plan)
        specs = zip(plan.get("fusion", ()), sent, strict=True)
        self.buffers = [Buffer(plan, spec, self, layout) for spec, layout in specs]

    def run(self, order: list[Item]) -> tuple[list[Item], Item]:
        """Return the actions issued and the groups that they need."""
        mine = {item["id"]: item for item in every_action(order) if "id" in item}
        for buffer in self.buffers:
            buffer.begin(mine)
        self.go(order)
        return self.out, self.groups

    def go(self, order: list[Item]) -> bool:
        """Issue actions; False if one of them never ends."""
        for item in order:
            if item["op"] not in WAITS and isinstance(item.get("work"), str):
                self.works[item["work"]] = item.get("id", "")  # a name may be bound again
            buffer = next((b for b in self.buffers if item.get("id") in b.members), None)
            if buffer is not None:
                buffer.ready(item)
                if not item.get("async") and not self.wait_for([item["id"]], []):
                    return False
            elif item["op"] == "threads":
                if not self.fork(item):
                    return False
            elif item["op"] in WAITS and self.names(item):
                names = [self.works[name] for name in self.names(item)]
                rest = [name for name in self.list(item) if name not in self.names(item)]
                if item["op"] == "wait" and not self.wait_for(names, rest):
                    return False
            else:
                self.out.append(item)
        return True

    def fork(self, item: Item) -> bool:
        """Issue threads: those without members as they are, the other one action by action."""
        threads = list(item["threads"])
        if PLAYED in item and self.waits_late(item):
            return self.fork_late(item)
        waited: set[str] = set()
        is_closed = PLAYED not in item
        for at, thread in enumerate(threads):
            if at != item.get(PLAYED):
                threads[at], mine = self.aside(thread, self.waited, is_closed=is_closed)
                if mine & (waited | self.beside):
                    raise OracleUnsupported("two threads wait for one flush")
                waited |= mine
        went_on = True
        if PLAYED in item:
            outer, self.out = self.out, []
            before = self.beside
            self.beside = before | waited
            went_on = self.go(threads[item[PLAYED]])
            self.beside = before
            threads[item[PLAYED]], self.out = self.out, outer
        self.waited |= waited
        kept = {key: value for key, value in item.items() if key != PLAYED}
        self.out.append({**kept, "threads": threads})
        return went_on

    def submitted(self, thread: list[Item]) -> list[str]:
        """Return the members that a thread submits, in order."""
        members = {name for buffer in self.buffers for name in buffer.members}
        return [one["id"] for one in every_action(thread) if one.get("id") in members]

    def waits_late(self, item: Item) -> bool:
        """Tell whether a thread waits for what the one beside it submits."""
        mine = item["threads"][item[PLAYED]]
        names = set(self.submitted(mine))
        works = {
            one["work"] for one in every_action(mine) if one.get("id") in names and "work" in one
        }
        others = [t for at, t in enumerate(item["threads"]) if at != item[PLAYED]]
        return any(
            one["op"] in WAITS and works & set(self.list(one)) for one in every_action(others)
        )

    def fork_late(self, item: Item) -> bool:
        """Issue the thread with members first: a wait beside it comes behind what it names.

        One that names the last member comes behind all, when nothing is submitted any more; what it
        makes leave does so there, behind the last submission.

        Raises:
            OracleUnsupported: A wait may come before the last member, or the thread is stuck.
        """
        threads = list(item["threads"])
        at = item[PLAYED]
        before, names = set(self.waited), self.submitted(threads[at])
        known = set(self.done)
        outer, self.out = self.out, []
        if not self.go_marked(threads[at], names[-1]):
            raise OracleUnsupported("a thread that is stuck beside others that wait for it")
        threads[at], self.out = self.out, outer
        inside = self.waited - before
        waited: set[str] = set()
        for number, thread in enumerate(threads):
            if number == at:
                continue
            self.refuse_early(thread, names, known)
            threads[number], mine = self.aside(thread, before, is_closed=True)
            if mine & (waited | inside | self.beside):
                raise OracleUnsupported("two threads wait for one flush")
            waited |= mine
            for one in every_action(threads[number]):
                if one.get("work", "").__class__ is str and str(one.get("work")).startswith(
                    "flush"
                ):
                    one["after"] = [f"last {names[-1]}"]
        self.waited |= waited
        kept = {key: value for key, value in item.items() if key != PLAYED}
        self.out.append({**kept, "threads": threads})
        return True

    def go_marked(self, thread: list[Item], last: str) -> bool:
        """Issue a thread, with a mark behind the submission of a member."""
        place = next(at for at, one in enumerate(thread)
                     if any(inner.get("id") == last for inner in every_action([one])))  # fmt: skip
        if thread[place].get("id") != last:
            raise OracleUnsupported("the last member in a thread of a thread")
        if not self.go(thread[: place + 1]):
            return False
        self.out.append({"op": "compute", "op_name": "mark", "id": f"last {last}"})
        return self.go(thread[place + 1 :])

    def refuse_early(self, thread: list[Item], names: list[str], known: set[str]) -> None:
        """Refuse waits for members that may come before the last of them."""
        is_behind = False
        for one in thread:
            inner = list(every_action([one]))
            waits = [{self.works[w] for w in self.names(i)} for i in inner if i["op"] in WAITS]
            if one["op"] == "wait":
                is_behind |= any(names[-1] in wait for wait in waits)
            if not is_behind and any(wait - known for wait in waits):
                raise OracleUnsupported("a thread waits for what may leave later")

    def aside(
        self, thread: list[Item], done: set[str], *, is_closed: bool
    ) -> tuple[list[Item], set[str]]:
        """Return what another thread does, and the flushes that it waits for.

        A wait is for what left before. Where nobody submits meanwhile it may be what makes a buffer
        leave, in this thread, or have no end.

        Raises:
            OracleUnsupported: It waits for what may leave later, or twice for one flush.
        """
        out: list[Item] = []
        mine = set[str]()
        for item in thread:
            if item["op"] in UNPLAYED or item["op"] == "unordered":
                name = {**UNPLAYED, "unordered": "body"}[item["op"]]
                entries: list[Any] = []
                inner = set[str]()
                for one in item[name]:
                    is_chain = isinstance(one, list)
                    left, new = self.aside(
                        one if is_chain else [one], done | mine,
                        is_closed=is_closed and item["op"] == "threads",
                    )  # fmt: skip
                    if new & inner or (new and item["op"] in {"choice", "repeat"}):
                        raise OracleUnsupported("two waits for one flush in any order")
                    inner |= new
                    entries += [left] if is_chain else left
                mine |= inner
                out.append({**item, name: entries})
            elif item["op"] not in WAITS or not self.names(item):
                out.append(item)
            elif item["op"] != "wait":
                raise OracleUnsupported("a thread polls a flush")
            else:
                issued, new = self.waited_aside(item, done | mine, is_closed=is_closed)
                out += issued
                mine |= new
        return out, mine

    def waited_aside(
        self, item: Item, done: set[str], *, is_closed: bool
    ) -> tuple[list[Item], set[str]]:
        """Return what a wait for members is in another thread, and the flushes it is for."""
        outer, self.out = self.out, []
        new = set[str]()
        for name in [self.works[work] for work in self.names(item)]:
            buffer = next(b for b in self.buffers if name in b.members)
            if name not in self.done:
                if not is_closed:
                    raise OracleUnsupported("a thread waits for what may leave later")
                buffer.waited(name)
            if name not in self.done:
                self.block(buffer)
                issued, self.out = self.out, outer
                return issued, new
            if self.done[name] in self.beside:
                raise OracleUnsupported("two threads wait for one flush")
            new |= {self.done[name]} - done
        issued, self.out = self.out, outer
        rest = [work for work in self.list(item) if work not in self.names(item)]
        work = [*rest, *sorted(new)]
        return [*issued, *([{**item, "work": work}] if work else [])], new

    @staticmethod
    def list(item: Item) -> list[str]:
        work = item["work"]
        return work if isinstance(work, list) else [work]

    def names(self, item: Item) -> list[str]:
        """Return the handles of members that a wait names."""
        members = {name for buffer in self.buffers for name in buffer.members}
        return [name for name in self.list(item) if self.works.get(name) in members]

    def wait_for(self, ids: list[str], rest: list[str]) -> bool:
        """Wait for members; False if one of them is never sent."""
        handles = list(rest)
        for name in ids:
            buffer = next(b for b in self.buffers if name in b.members)
            if name not in self.done:
                buffer.waited(name)
            if name not in self.done:
                self.block(buffer)
                return False
            if self.done[name] in self.beside:
                raise OracleUnsupported("two threads wait for one flush")
            if self.done[name] not in self.waited:
                handles.append(self.done[name])
                self.waited.add(self.done[name])
        handles = list(dict.fromkeys(handles))
        if handles:
            self.out.append({"op": "wait", "work": handles})
        return True

    def block(self, buffer: Buffer) -> None:
        peer = next(rank for rank in buffer.ranks if rank != self.rank)
        name = f"nobody {self.rank}"
        self.groups[name] = {"ranks": sorted([peer, self.rank])}
        self.out.append({"op": "recv", "peer": peer, "group": name, "bytes": 1})

    def send(self, items: list[Item], group: str) -> None:
        """Issue members as one collective."""
        handle = f"flush{len(self.done)}"
        for item in items:
            self.done[item["id"]] = handle
        action = {"op": items[0]["op"], "async": True, "work": handle, "group": group}
        # A list of tensors with its layout, like that of a coalesced call.
        action["label"] = " ".join(
            f"{item['label']}:{item['bytes']}" if item["label"] in self.uneven else item["label"]
            for item in items
        )
        action["bytes"] = sum(item["bytes"] for item in items)
        self.out.append(action)


class Buffer:
    """A fused buffer on one rank, as docs/explanation/fused-buffers.md describes it."""

    def __init__(self, plan: Item, spec: Item, play: Play, sent: Layout) -> None:
        self.play, self.spec, self.plan, self.agreed_on = play, spec, plan, sent
        self.group = spec.get("group", "world")
        world = list(range(plan["world_size"]))
        self.ranks = world if self.group == "world" else plan["groups"][self.group]["ranks"]
        self.members = spec["members"]
        self.fills = spec.get("membership", "fill") == "fill"
        self.agreed = spec.get("coordination", "none")
        self.cap = spec.get("cap_bytes")

    def begin(self, mine: dict[str, Item]) -> None:
        """Lay out what is known before anything is ready."""
        self.mine = mine
        self.here = [name for name in self.members if name in mine]
        count = self.spec.get("buffers", 1)
        self.lists = [self.here[k::count] for k in range(count) if self.here[k::count]]
        self.inside: list[list[str]] = [[] for _ in self.lists]
        self.came: set[str] = set()
        self.sent = 0
        self.buckets = [filled(names, mine, self.most(mine)) for names in self.lists]

    def most(self, items: dict[str, Item]) -> int:
        """Return the capacity, all members together where there is no limit."""
        return sum(items[n]["bytes"] for n in self.here) if self.cap is None else self.cap

    def ready(self, item: Item) -> None:
        """Take a member that became ready."""
        name = item["id"]
        self.came.add(name)
        if self.agreed == "negotiated":  # leaves when all have it: matched by its name alone
            group = f"{name} of {self.group}"
            self.play.groups[group] = {"ranks": self.ranks}
            self.play.send([item], group)
        elif self.agreed == "none" and self.fills:
            inside = next(i for i, names in zip(self.inside, self.lists, strict=True)
                          if name in names)  # fmt: skip
            cap = sum(self.mine[n]["bytes"] for n in next(x for x in self.lists if name in x))
            cap = cap if self.cap is None else self.cap
            if inside and sum(self.mine[n]["bytes"] for n in inside) + item["bytes"] > cap:
                self.flush(inside)
            inside.append(name)
        else:
            self.launch()

    def waited(self, name: str) -> None:
        """Give a filled buffer away because something in it is waited for."""
        for inside in self.inside:
            if name in inside:
                self.flush(inside)

    def flush(self, inside: list[str]) -> None:
        names = sorted(inside, key=self.members.index)
        inside.clear()
        self.play.send([self.mine[name] for name in names], self.group)

    def launch(self) -> None:
        """Send the fixed buckets whose time has come."""
        every = [bucket for buckets in self.buckets for bucket in buckets]
        every.sort(key=lambda bucket: self.members.index(bucket[-1]))
        if self.agreed == "rank0-broadcast":
            every = list(self.agreed_on)
        if self.agreed != "none" or self.spec.get("launch") == "ordered":
            while self.sent < len(every) and self.came >= set(every[self.sent]):
                self.sent += 1
                self.flush(list(every[self.sent - 1]))
            return
        last = []
        if self.spec.get("drain") == "ordered":
            last = [buckets[-1] for buckets in self.buckets]
        for bucket in [b for buckets in self.buckets for b in buckets if b not in last]:
            if self.came >= set(bucket) and bucket[0] not in self.play.done:
                self.flush(list(bucket))
        if self.came == set(self.here):
            for bucket in last:
                self.flush(list(bucket))
