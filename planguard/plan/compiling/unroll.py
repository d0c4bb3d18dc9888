"""Unrolling, for the rare program that refers to one iteration of a loop from outside that loop.

Slots hold the latest action with an id. ``deps: ["f.3"]`` after a loop over ``f.{i}``, or
``deps: ["f.{i}"]`` in another loop, name an earlier iteration; such a program is unrolled first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET

from planguard.plan import nodes as n
from planguard.plan.defects import Defect
from planguard.plan.pointers import children

if TYPE_CHECKING:
    from collections.abc import Sequence


class NeedsUnrollingError(Exception):
    """A reference that slots cannot express."""


class Unroller:
    """Copies a program with its loops unrolled.

    Attributes:
        origins: Identity of every copied action to the action it was copied from.
        actions: The unrolled program. It keeps the copies alive, which the identities rely on.
    """

    def __init__(self, actions: Sequence[n.Action], limit: int) -> None:
        self.origins: dict[int, n.Action] = {}
        self._left = limit
        self.actions: list[Any] = self._block(actions, None)

    def _block(self, actions: Sequence[Any], iteration: int | None) -> list[Any]:
        return [
            self._block(node, iteration) if isinstance(node, list) else self._copy(node, iteration)
            for node in actions
        ]

    def _unrolled(self, node: n.Repeat) -> list[Any]:
        self._spend(node, node.times)
        out: list[Any] = []
        for iteration in range(node.times):
            out += self._block(node.body, iteration)
        return out

    def _spend(self, node: Any, actions: int = 1) -> None:
        self._left -= actions
        if self._left < 0:
            raise Defect(
                node,
                "",
                "ids refer into single iterations of a loop that is too long to unroll",
                code="PG902",
                hint="refer to ids of the same iteration, or raise Limits.unroll",
            )

    def _copy(self, node: Any, iteration: int | None) -> Any:
        self._spend(node)
        changes: dict[str, Any] = {}
        if iteration is not None:
            changes = _substituted(node, str(iteration))
        if isinstance(node, n.Repeat):
            # Once around: what names the loop, or counts it as one item of a block, still does.
            changes |= {"times": 1, "body": self._unrolled(node)}
        else:
            changes |= {name: self._block(inner, iteration) for name, inner in children(node)}
        if not changes:
            return node
        copy = msgspec.structs.replace(node, **changes)
        self.origins[id(copy)] = node
        return copy


def _substituted(node: Any, text: str) -> dict[str, Any]:
    changes: dict[str, Any] = {}
    for field in ("id", "label", "deps", "after"):
        value = getattr(node, field, UNSET)
        if isinstance(value, str):
            if "{i}" in value:
                changes[field] = value.replace("{i}", text)
        elif value is not UNSET and any("{i}" in name for name in value):
            changes[field] = [name.replace("{i}", text) for name in value]
    return changes
