"""Negotiated buffers on devices by brute force: every place at which background threads launch.

Shares nothing with the library. A member that the host issues is submitted to the background thread
of its rank. A coordinator picks members that all ranks of the group have submitted, one after the
other; each background thread launches them in that order, at any time after the pick. A host stands
still at a wait for a member until its own thread has launched it. What each rank issues in the
end, host and thread together, is a plan without buffers, which the enumerator decides.

A call that creates a communicator, by `init` or, where that is lazy, by its first use, holds its
host up until the hosts of all members are at it; the thread goes on meanwhile. So it stands in
the plan where it is over, behind what the thread launched till then. The communicator of the
threads is made in the background and holds nobody up: there it is made first of all.
"""

from __future__ import annotations

import itertools
import json
from dataclasses import dataclass
from typing import Any

from oracle.enumerator import Effort, combine, enumerate_plan
from oracle.flushes import every_action, orders
from oracle.models import MODELS as RULES
from oracle.program import COLLECTIVES, POINT_TO_POINT, REGISTERED, OracleUnsupported

Item = dict[str, Any]
Issued = tuple[tuple[str, ...], ...]
"""What each rank issues, one after the other, as JSON."""
Communicator = tuple[str, tuple[int, ...]]
"""Its name, and the ranks that have to be there when it is created."""
MODELS = ("nccl", "nccl-eager", "nccl-serialized", "nccl-lazy")
PLANS, STATES, ORDERS = 60, 20_000, 64
HOST_BLOCKS = ("host_sync", "barrier", "new_group", "destroy", "exit", "test", "drop", "probe")
UNPLAYED = ("choice", "threads", "repeat", "batch", "coalesced", "event_record", "event_wait")


@dataclass(frozen=True)
class Step:
    """One action of a host.

    Attributes:
        text: what is issued, as JSON; empty for a member, which is submitted only.
        submits: name of the member that this is, or empty.
        needs: names of the members that have to be launched here before.
        creates: the communicator that this creates, if it is the first here to use it.
    """

    text: str
    submits: str = ""
    needs: frozenset[str] = frozenset()
    creates: Communicator | None = None


def outcome_of(plan: Item, model: str, plans: int = PLANS, states: int = STATES) -> str:
    """Return the outcome over all executions.

    Raises:
        OracleUnsupported: There are too many of them, or the plan is not one that is played.
    """
    if model not in MODELS:
        raise OracleUnsupported(f"launches by a background thread under {model}")
    return combine([
        ending
        for fixed in every_launch(plan, model, plans, states)
        for ending in enumerate_plan(fixed, model, Effort(verify=0)).endings
    ], 0).outcome  # fmt: skip


def every_launch(plan: Item, model: str, plans: int = PLANS, states: int = STATES) -> list[Item]:
    """Return the plans without buffers that a plan can become, each once.

    Raises:
        OracleUnsupported: There are too many of them, or the plan is not one that is played.
    """
    group, members = negotiation(plan)
    count = plan["world_size"]
    world = list(range(count))
    ranks = world if group == "world" else plan["groups"][group]["ranks"]
    ways = []
    for rank in world:
        program = plan["ranks"][str(rank)]["actions"]
        refuse_unplayed(program, members, is_member=rank in ranks)
        some = list(itertools.islice(orders(program), ORDERS + 1))
        hosts = [Host(order, members, Users(plan, rank, model)) for order in some]
        ways.append(list({host.steps: host for host in hosts}.values()))
    number = 1
    for way in ways:
        number *= len(way)
    if number > ORDERS or any(len(way) > ORDERS for way in ways):
        raise OracleUnsupported("too many orders of the hosts")
    found: set[Issued] = set()
    left = states
    for hosts_of in itertools.product(*ways):
        game = Game(hosts_of, ranks, plans, left)
        found |= game.issued()
        left -= len(game.known)
        if len(found) > plans:
            raise OracleUnsupported("too many plans")
    groups = {**plan.get("groups", {}), "~bg": {"ranks": ranks}}
    for rank in world:
        groups[f"nobody {rank}"] = {"ranks": sorted([rank, (rank + 1) % count])}
    return [
        {"schema": plan["schema"], "world_size": count, "groups": groups,
         "ranks": {str(rank): {"actions": written(issued[rank], model)} for rank in world}}
        for issued in sorted(found)
    ]  # fmt: skip


def written(issued: tuple[str, ...], model: str) -> list[Item]:
    """Return what a rank issues, behind the creation of what its thread launches on, if lazy.

    In the end all threads have launched the same, so all members have that creation or none has.
    """
    actions: list[Item] = [json.loads(text) for text in issued]
    if RULES[model].lazy and any(one.get("group") == "~bg" for one in actions):
        return [{"op": "init", "group": "~bg"}, *actions]
    return actions


def negotiation(plan: Item) -> tuple[str, set[str]]:
    """Return the group that negotiates, and the ids of the members.

    Raises:
        OracleUnsupported: There are other buffers, or several groups.
    """
    specs = plan.get("fusion", [])
    if any(spec.get("coordination") != "negotiated" for spec in specs):
        raise OracleUnsupported("buffers that are not negotiated")
    groups = {spec.get("group", "world") for spec in specs}
    if len(groups) != 1:
        raise OracleUnsupported("not one group that negotiates")
    return groups.pop(), {name for spec in specs for name in spec["members"]}


def refuse_unplayed(program: list[Item], members: set[str], *, is_member: bool) -> None:
    """Refuse what may hold up a host otherwise, and members that are not plain.

    Raises:
        OracleUnsupported: There is one.
    """
    for item in every_action(program):
        op = item["op"]
        if op in HOST_BLOCKS or op in UNPLAYED or "stream" in item or "deps" in item:
            raise OracleUnsupported(f"{op} beside a background thread")
        if item.get("mode", "all") != "all":
            raise OracleUnsupported("a wait for one of several")
        if item.get("id") in members and not (
            is_member and bool(item.get("async")) == ("work" in item)
        ):
            raise OracleUnsupported("a member that nobody can wait for, or of no member")


@dataclass(frozen=True)
class Users:
    """Tells which communicator an action of a rank has to have."""

    plan: Item
    rank: int
    model: str

    def communicator(self, item: Item) -> Communicator | None:
        """Return what an action creates if nobody has before it, if it creates anything.

        Raises:
            OracleUnsupported: It is not written whose it is.
        """
        rules, op = RULES[self.model], item["op"]
        is_message = op in POINT_TO_POINT
        is_call = is_message or op in COLLECTIVES or op in REGISTERED
        if op != "init" and not (rules.lazy and is_call):
            return None
        name = item.get("group", "world")
        if is_message and rules.pairs:
            if not isinstance(item["peer"], int):
                raise OracleUnsupported("a message of nobody in particular")
            low, high = sorted((self.rank, item["peer"]))
            return f"{name}/{low}:{high}", (low, high)
        if name == "world":
            return name, tuple(range(self.plan["world_size"]))
        ranks = self.plan["groups"].get(name, {}).get("ranks")
        if ranks is None:
            raise OracleUnsupported("a group whose ranks are not written")
        return name, tuple(ranks)


class Host:
    """One order in which a host goes through its program.

    Attributes:
        launches: what the thread issues for each member, by name.
        steps: what the host does, one after the other.
        arrives: at which step it is when it first needs a communicator, by name.
    """

    def __init__(self, order: list[Item], members: set[str], users: Users) -> None:
        self.launches: dict[str, str] = {}
        self.arrives: dict[str, int] = {}
        name_of: dict[str, str] = {}
        steps = []
        for item in order:
            if item.get("id") in members:
                name = item.get("label", item["id"])
                handle = item.get("work", f"at once: {name}")
                name_of[handle] = name
                kept = {k: v for k, v in item.items() if k not in {"id", "group", "label"}}
                kept |= {"async": True, "work": handle}
                self.launches[name] = json.dumps(kept | {"group": "~bg", "label": name})
                steps.append(Step("", name))
                if "work" not in item:  # waited for where it is submitted
                    waits = json.dumps({"op": "wait", "work": handle})
                    steps.append(Step(waits, "", frozenset({name})))
                continue
            needs: frozenset[str] = frozenset()
            if item["op"] == "wait":
                work = [item["work"]] if isinstance(item["work"], str) else item["work"]
                needs = frozenset(name_of[handle] for handle in work if handle in name_of)
            kept = {key: value for key, value in item.items() if key != "id"}
            creates = users.communicator(item)
            if creates is not None and self.arrives.setdefault(creates[0], len(steps)) < len(steps):
                creates = None
            steps.append(Step(json.dumps(kept), "", needs, creates))
        self.steps = tuple(steps)


State = tuple[tuple[int, ...], tuple[str, ...], tuple[int, ...]]
"""How far each host is, what was picked, how much of it each rank has launched."""


class Game:
    """All that can happen once the order of every host is fixed."""

    def __init__(self, hosts: tuple[Host, ...], ranks: list[int], plans: int, states: int) -> None:
        self.hosts, self.ranks, self.plans, self.states = hosts, ranks, plans, states
        self.known: dict[State, frozenset[Issued]] = {}

    def issued(self) -> frozenset[Issued]:
        """Return all that the ranks may issue from the beginning to the end."""
        none = (0,) * len(self.hosts)
        return self.rest((none, (), none))

    def rest(self, state: State) -> frozenset[Issued]:
        """Return all that the ranks may issue from a state on."""
        if state in self.known:
            return self.known[state]
        if len(self.known) >= self.states:
            raise OracleUnsupported("too many states")
        moves = self.moves(state)
        found: set[Issued] = set()
        for rank, text, after in moves:
            for more in self.rest(after):
                if text:
                    found.add((*more[:rank], (text, *more[rank]), *more[rank + 1 :]))
                else:
                    found.add(more)
        if not moves:
            found.add(tuple(self.end(rank, at) for rank, at in enumerate(state[0])))
        if len(found) > self.plans:
            raise OracleUnsupported("too many plans")
        self.known[state] = frozenset(found)
        return self.known[state]

    def moves(self, state: State) -> list[tuple[int, str, State]]:
        """Return what may happen next: of which rank, what it issues, and where that leads."""
        at, picks, launched = state
        found = []
        for rank, host in enumerate(self.hosts):
            if at[rank] < len(host.steps):
                step = host.steps[at[rank]]
                if step.needs <= set(picks[: launched[rank]]) and self.is_met(step, at):
                    found.append((rank, step.text, (raised(at, rank), picks, launched)))
        ready = [self.submitted(rank, at[rank]) for rank in self.ranks]
        agreed = sorted(set.intersection(*ready) - set(picks))
        found += [(0, "", (at, (*picks, name), launched)) for name in agreed]
        for rank in self.ranks:
            if launched[rank] < len(picks):
                text = self.hosts[rank].launches[picks[launched[rank]]]
                found.append((rank, text, (at, picks, raised(launched, rank))))
        return found

    def is_met(self, step: Step, at: tuple[int, ...]) -> bool:
        """Tell whether the hosts of all members have come to what a step creates."""
        name, ranks = step.creates or ("", ())
        came = [self.hosts[rank].arrives.get(name) for rank in ranks]
        pairs = zip(ranks, came, strict=True)
        return all(first is not None and first <= at[rank] for rank, first in pairs)

    def submitted(self, rank: int, at: int) -> set[str]:
        """Return what a rank has submitted."""
        return {step.submits for step in self.hosts[rank].steps[:at]} - {""}

    def end(self, rank: int, at: int) -> tuple[str, ...]:
        """Return a meeting of hosts that nobody comes to, if a host has not come to its end.

        It is no call of the device, which might be held up, or mixed up, by another one.
        """
        if at == len(self.hosts[rank].steps):
            return ()
        return (json.dumps({"op": "init", "group": f"nobody {rank}"}),)


def raised(numbers: tuple[int, ...], rank: int) -> tuple[int, ...]:
    """Return numbers with one of them raised by one."""
    return (*numbers[:rank], numbers[rank] + 1, *numbers[rank + 1 :])
