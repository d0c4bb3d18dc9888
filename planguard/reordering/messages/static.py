"""Receives from anybody that have no choice: named before any search.

Join a receive and a send of one receiver and group if the receive may take that message. What is
not joined, directly or over others, never competes. In a part of that graph

* with one receive and one send, the two meet each other or nobody;
* whose sends are all of one rank and tag, and whose receives all ask alike, the k-th receive takes
  the k-th message: messages of one sender do not overtake each other, and receives that ask alike
  are served as they were posted.

In both cases naming sender and tag changes no execution. Probes keep their part as it is: they see
a message that another takes.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from planguard.plan.fixed import AT
from planguard.plan.vocabulary import is_async
from planguard.reordering.branches.assignments import leaves
from planguard.reordering.messages.wildcards import (
    ANY,
    Message,
    Messages,
    accepts,
    is_choice_wait,
    is_wild,
)

if TYPE_CHECKING:
    from planguard.plan.plan import Plan


def named(flat: dict[str, Any]) -> dict[str, Any]:
    """Return a flat plan in which receives without a choice name their sender and tag."""
    found: dict[tuple[int, int, int | None], Message] = {}
    for part in _parts(Messages(flat).all):
        sends = [message for message in part if message.kind == "send"]
        receives = [message for message in part if message.kind == "recv"]
        if len(sends) + len(receives) < len(part) or not sends:
            continue
        one_channel = len({(send.rank, send.tag) for send in sends}) == 1
        alike = len({(receive.peer, receive.tag) for receive in receives}) == 1
        if one_channel and alike:
            found |= {(r.rank, r.at, r.member): sends[0] for r in receives if is_wild(r)}
    if not found:
        return flat
    ranks = {
        rank: {
            **body,
            "actions": [_action(a, int(rank), at, found) for at, a in enumerate(body["actions"])],
        }
        for rank, body in flat["ranks"].items()
    }
    return {**flat, "ranks": ranks}


def has_choice(flat: dict[str, Any]) -> bool:
    """Tell whether messages still compete, or a wait is for one of several."""
    if any(is_wild(message) for message in Messages(flat).all):
        return True
    return any(is_choice_wait(a) for body in flat["ranks"].values() for a in body["actions"])


def _action(
    action: dict[str, Any], rank: int, at: int, found: dict[tuple[int, int, int | None], Message]
) -> dict[str, Any]:
    if action["op"] == "batch":
        parts = [
            _named(part, found.get((rank, at, place))) for place, part in enumerate(action["ops"])
        ]
        return {**action, "ops": parts}
    return _named(action, found.get((rank, at, None)))


def _named(fields: dict[str, Any], send: Message | None) -> dict[str, Any]:
    return fields if send is None else {**fields, "peer": send.rank, "tag": send.tag}


def _parts(messages: list[Message]) -> list[list[Message]]:
    """Return what competes with each other, directly or over others."""
    by_home: dict[tuple[str, int], list[Message]] = {}
    for message in messages:
        by_home.setdefault(message.home, []).append(message)
    parts = []
    for mine in by_home.values():
        sends = [message for message in mine if message.kind == "send"]
        takers = [message for message in mine if message.kind != "send"]
        left = {message.number: message for message in mine}
        joined = _joined(takers, sends)
        while left:
            _, first = left.popitem()
            part, todo = [first], [first.number]
            while todo:
                for number in joined.get(todo.pop(), ()):
                    if number in left:
                        part.append(left.pop(number))
                        todo.append(number)
            parts.append(part)
    return parts


def _joined(takers: list[Message], sends: list[Message]) -> dict[int, list[int]]:
    joined: dict[int, list[int]] = {}
    for taker in takers:
        for send in sends:
            if accepts(taker, send):
                joined.setdefault(taker.number, []).append(send.number)
                joined.setdefault(send.number, []).append(taker.number)
    return joined


def renames(flat: dict[str, Any], plan: Plan) -> bool:
    """Tell whether ``new_group`` may give one communicator other names, or one name several.

    A communicator is its members and the place of its creation among those of a rank. Names tell
    them apart where every member creates a group once, all of them at one place, and uses it only
    behind that. A family of groups is created under the name of its first.
    """
    groups = flat.get("groups", {})
    families = {plan.group_name(one.name, 0): one.name for one in plan.groups if one.is_family}
    made: dict[str, dict[int, int]] = {}
    for rank, body in flat["ranks"].items():
        place = 0
        used: set[str] = set()
        for action in body["actions"]:
            for part in action["ops"] if action["op"] == "batch" else [action]:
                if part["op"] != "new_group":
                    used.add(part.get("group", "world"))
                    continue
                name = part["group"]
                if name in families:
                    name = plan.group_name(families[name], int(rank))
                mine = made.setdefault(name, {})
                if name not in groups or int(rank) in mine or name in used:
                    return True
                mine[int(rank)] = place
                place += 1
    for name, places in made.items():
        members = groups[name]["ranks"]
        if len({places.get(rank) for rank in members}) > 1 or places.get(members[0]) is None:
            return True
    return False


def alive(flat: dict[str, Any]) -> dict[str, Any]:
    """Return the plan without what stands behind an exit: nobody ever issues it."""
    ranks = {}
    for rank, body in flat["ranks"].items():
        ops = [action["op"] for action in body["actions"]]
        end = ops.index("exit") + 1 if "exit" in ops else len(ops)
        ranks[rank] = {**body, "actions": body["actions"][:end]}
    return {**flat, "ranks": ranks}


def untagged(flat: dict[str, Any]) -> dict[str, Any]:
    """Return a plan whose tags mean nothing: "any tag" is no choice then."""
    return {
        **flat,
        "ranks": {
            rank: {**body, "actions": [without_any_tag(action) for action in body["actions"]]}
            for rank, body in flat["ranks"].items()
        },
    }


def without_any_tag(action: dict[str, Any]) -> dict[str, Any]:
    """Return an action that names a tag, where tags mean nothing."""
    if action["op"] == "batch":
        return {**action, "ops": [without_any_tag(part) for part in action["ops"]]}
    return {**action, "tag": 0} if action.get("tag") == ANY else action


def without_modes(flat: dict[str, Any]) -> dict[str, Any]:
    """Return the plan without send modes, which only MPI itself knows."""
    ranks = {
        rank: {"actions": [plain(action) for action in body["actions"]]}
        for rank, body in flat["ranks"].items()
    }
    return {**flat, "ranks": ranks}


def plain(action: dict[str, Any]) -> dict[str, Any]:
    """Return an action without send modes, which ProcessGroupMPI does not know."""
    kept = {key: value for key, value in action.items() if key != "mode" or action["op"] == "wait"}
    if action["op"] == "batch":
        kept["ops"] = [plain(part) for part in action["ops"]]
    return kept


def may_lose(body: dict[str, Any]) -> bool:
    """Whether a rank may leave while something is in flight that it did not stand in.

    What its program waited for has ended. Where an exit stands in a block, what came before it
    depends on the order.
    """
    flying: Counter[Any] = Counter()
    for item in body["actions"]:
        if item["op"] == "exit":
            return flying.total() > 0
        inner = list(leaves([item]))
        for fields in inner:
            if _starts(fields):
                flying[fields.get("work", fields[AT])] += 1
            elif fields["op"] == "wait" and not is_choice_wait(fields):
                work = fields["work"]
                flying.subtract([work] if isinstance(work, str) else work)
        if any(fields["op"] == "exit" for fields in inner):
            return any(_starts(fields) for fields in leaves(body["actions"]))
    return False


def _starts(fields: dict[str, Any]) -> bool:
    """Tell whether a call goes on without its host."""
    return is_async(fields) or (fields["op"] == "batch" and "work" in fields)
