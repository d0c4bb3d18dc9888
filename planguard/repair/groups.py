"""Candidates that move some calls of a group to a group of their own, on all ranks at once."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from planguard.plan.vocabulary import LIFETIME, MESSAGES, ROUNDS, SENDS
from planguard.repair.proposal import Proposal, add

if TYPE_CHECKING:
    from collections.abc import Iterator

    from planguard.plan.pointers import Steps
    from planguard.repair.document import PlanText

Key = tuple[str, str]
"""Group, and what the calls have in common in words."""


def separated(text: PlanText, core: frozenset[Steps] | None = None) -> Iterator[Proposal]:
    """Yield a separate group for every label, kind of collective, tag and direction of a group.

    Args:
        text: The plan.
        core: Only for calls that one of these places makes.
    """
    actions = list(_actions(text))
    if any(action["op"] in LIFETIME for _, action in actions):
        return  # the group would have to be created somewhere as well
    groups = text.document.get("groups", {})
    if any("created" in spec for spec in groups.values()):
        return
    users: dict[Key, list[tuple[Steps, dict[str, Any]]]] = defaultdict(list)
    total: dict[str, int] = defaultdict(int)
    for place, action in actions:
        if action["op"] not in ROUNDS | MESSAGES:
            continue
        group = action.get("group", "world")
        total[group] += 1
        for what in _shared(action):
            users[group, what].append((place, action))
    for (group, what), some in users.items():
        is_near = core is None or any(place in core for place, _ in some)
        if is_near and len(some) < total[group]:
            yield _moved(text, group, what, [place for place, _ in some])


def _actions(text: PlanText) -> Iterator[tuple[Steps, dict[str, Any]]]:
    """Yield every action; a batch as a whole, since its members share one group."""
    for part in text.parts:
        for at, item in enumerate(part.items):
            if isinstance(item, dict):
                yield part.at(at), item


def _shared(action: dict[str, Any]) -> Iterator[str]:
    if "label" in action:
        yield f"the calls labeled {action['label']}"
    if action["op"] in ROUNDS:
        yield f"{action['op']}"
        return
    if "tag" in action:
        yield f"the transfers with tag {action['tag']}"
    ways = ("up", "down") if action["op"] in SENDS else ("down", "up")
    peer = action["peer"]
    if isinstance(peer, dict):
        delta = next((value for key, value in peer.items() if key != "wrap"), 0)
        yield f"the transfers {ways[0] if delta > 0 else ways[1]} the mesh"


def _moved(text: PlanText, group: str, what: str, places: list[Steps]) -> Proposal:
    groups = text.document.get("groups", {})
    name = next(f"{group}_{n}" for n in range(2, len(groups) + 4) if f"{group}_{n}" not in groups)
    spec = dict(groups.get(group, {"ranks": list(range(text.plan.world_size))}))
    edits = [add(*place, "group", value=name) for place in places]
    if "groups" not in text.document:
        edits.insert(0, add("groups", value={name: spec}))
    else:
        edits.insert(0, add("groups", name, value=spec))
    said = f"use a separate group {name} for {what} on {group}"
    return Proposal(
        "group",
        tuple(edits),
        frozenset(places),
        said.replace("{", "{{").replace("}", "}}"),
        (),
        len(places),
    )
