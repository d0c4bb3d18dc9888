"""Reading registered operations: built-in ones stand in for them while a plan is decoded.

The typed decoder is made once, of the operations of the format. All collectives have the same
fields, so that a record of any of them checks the fields of a registered operation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import asdict

from planguard.plan.compiling.operations import BUILT_IN, find
from planguard.plan.nodes import OP_CLASSES

if TYPE_CHECKING:
    from planguard.plan.document import Document
    from planguard.plan.pointers import Steps

_STAND_IN = "all_to_all_single"
_INNER = ("body", "ops", "threads", "branches")


class StandIns:
    """The registered operations of a plan that is not decoded yet, and their places."""

    def __init__(self, plan: Any) -> None:
        """Replace, in place, the registered operations of a plan by their stand-in."""
        self._found: list[tuple[Steps, dict[str, Any], str]] = []
        self._unknown: set[str] = set()
        stack = _programs(plan)
        while stack:
            steps, actions = stack.pop()
            for index, item in enumerate(actions):
                here = (*steps, index)
                if isinstance(item, list):
                    stack.append((here, item))
                elif isinstance(item, dict):
                    self._look_at(here, item)
                    inner = [(name, item.get(name)) for name in _INNER]
                    stack += [((*here, name), x) for name, x in inner if isinstance(x, list)]

    def _look_at(self, steps: Steps, action: dict[str, Any]) -> None:
        op = action.get("op")
        if not isinstance(op, str) or op in BUILT_IN or op in self._unknown:
            return
        if find(op) is None:
            self._unknown.add(op)
            return
        action["op"] = _STAND_IN
        self._found.append((steps, action, op))

    def take_back(self) -> None:
        """Undo the replacement, so that messages name the operation that is in the file."""
        for _, action, op in self._found:
            action["op"] = op

    def replace(self, document: Document) -> None:
        """Put the registered operations into the decoded plan, where their stand-ins are."""
        for steps, _, op in self._found:
            place: Any = document
            for step in steps[:-1]:
                by_key = isinstance(place, dict | list)
                place = place[step] if by_key else getattr(place, str(step))
            place[steps[-1]] = OP_CLASSES[op](**asdict(place[steps[-1]]))


def _programs(plan: Any) -> list[tuple[Steps, list[Any]]]:
    """Return the lists of actions of a plan that may be malformed, with their places."""
    found: list[tuple[Steps, Any]] = []
    if isinstance(plan, dict):
        templates, ranks = plan.get("templates"), plan.get("ranks")
        if isinstance(templates, dict):
            found += [(("templates", name), actions) for name, actions in templates.items()]
        if isinstance(ranks, dict):
            uses = [(name, use) for name, use in ranks.items() if isinstance(use, dict)]
            found += [(("ranks", name, "actions"), use.get("actions")) for name, use in uses]
    return [(steps, actions) for steps, actions in found if isinstance(actions, list)]
