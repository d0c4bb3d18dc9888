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
        out: list[Any] = []
        for node in actions:
            if isinstance(node, list):
                out.append(self._block(node, iteration))
            elif isinstance(node, n.Repeat):
                for inner in range(node.times):
                    self._spend(node)
                    out += self._block(node.body, inner)
            else:
                out.append(self._copy(node, iteration))
        return out

    def _spend(self, node: Any) -> None:
        self._left -= 1
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
        for field in ("body", "ops", "threads", "branches"):
            inner = getattr(node, field, UNSET)
            if inner is not UNSET and not isinstance(node, n.Coalesced):
                changes[field] = self._block(inner, iteration)
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
