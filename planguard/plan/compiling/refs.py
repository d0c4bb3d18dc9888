"""Communication references: which group, which peer, which tag."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from planguard.plan.actions import PeerMode, RefType
from planguard.plan.defects import Defect, nearest
from planguard.plan.groups import WORLD

if TYPE_CHECKING:
    from planguard.plan.groups import Mesh
    from planguard.plan.nodes import Node, PointToPoint

ANY_TAG = -1


class Refs:
    """Interned references, ``REF_WORDS`` signed words each."""

    def __init__(self, world_size: int, group_ids: dict[str, int], mesh: Mesh | None) -> None:
        self.words = array("i")
        self._ids: dict[tuple[int, ...], int] = {}
        self._groups = group_ids
        self._mesh = mesh
        self._world_size = world_size

    def group_index(self, node: Any) -> int:
        """Return the index of the group an action names; ``world`` when it names none.

        Raises:
            Defect: Unknown group.
        """
        name = WORLD if node.group is UNSET else node.group
        index = self._groups.get(name)
        if index is None:
            hint = nearest(name, self._groups) or f"declare it under groups, or use {WORLD}"
            raise Defect(node, "group", "unknown group", value=name, hint=hint)
        return index

    def group(self, node: Any) -> int:
        """Return the reference of a collective's group."""
        return self._intern((RefType.GROUP, self.group_index(node), 0, 0, 0, 0))

    def point_to_point(self, node: PointToPoint, side: int) -> int:
        """Return the reference of a send, receive or probe.

        Raises:
            Defect: Unknown group, peer out of range, or a wildcard where none is allowed.
        """
        group = self.group_index(node)
        mode, peer_a, peer_b = self._peer(node, side)
        return self._intern((side, group, mode, peer_a, peer_b, _tag(node, side)))

    def _peer(self, node: PointToPoint, side: int) -> tuple[int, int, int]:
        peer = node.peer
        if isinstance(peer, dict):
            return self._relative(node, peer)
        if isinstance(peer, str):
            if side == RefType.SEND:
                hint = "only recv, irecv and probe take any source"
                raise Defect(node, "peer", "a send needs one peer", value=peer, hint=hint)
            return PeerMode.ANY, 0, 0
        self.check_rank(node, "peer", peer, "PG402")
        return PeerMode.ABSOLUTE, peer, 0

    def check_rank(self, node: Node, field: str, rank: int, code: str) -> None:
        """Check that a field names a rank of the world.

        Raises:
            Defect: It does not.
        """
        if rank >= self._world_size:
            message = f"{field} is outside 0..{self._world_size - 1}"
            hint = f"{field} is a global rank, also inside a group"
            raise Defect(node, field, message, code=code, value=rank, hint=hint)

    def _relative(self, node: PointToPoint, peer: dict[str, int | bool]) -> tuple[int, int, int]:
        wrap, steps = peer.get("wrap", False), {k: v for k, v in peer.items() if k != "wrap"}
        if not isinstance(wrap, bool):
            raise Defect(node, "peer", "wrap is true or false", value=wrap)
        for name, delta in steps.items():
            self._check_step(node, name, delta)
        moving = [(name, int(delta)) for name, delta in steps.items() if delta]
        if len(moving) > 1:
            hint = "write one explicit peer per rank, or use a mesh with one dimension for both"
            raise Defect(
                node, "peer", "a peer that moves along two mesh dimensions is not supported",
                code="PG902", value=peer, hint=hint,
            )  # fmt: skip
        if not steps:
            hint = 'for example {"pp": 1}'
            raise Defect(node, "peer", "a relative peer names a mesh dimension", hint=hint)
        name, delta = moving[0] if moving else (next(iter(steps)), 0)
        dim = self._mesh.names.index(name) if self._mesh else 0
        return PeerMode.RELATIVE, dim, delta * 2 + wrap

    def _check_step(self, node: Node, name: str, delta: object) -> None:
        if self._mesh is None:
            hint = 'declare "mesh", or name a global rank'
            raise Defect(node, "peer", "a relative peer needs a mesh", code="PG411", hint=hint)
        if name not in self._mesh.names:
            hint = nearest(name, self._mesh.names) or f"dimensions: {', '.join(self._mesh.names)}"
            message = "unknown mesh dimension"
            raise Defect(node, "peer", message, code="PG411", value=name, hint=hint)
        if isinstance(delta, bool):
            message = "a step along a mesh dimension is an integer"
            raise Defect(node, "peer", message, value=delta, hint='for example {"pp": 1}')

    def _intern(self, words: tuple[int, ...]) -> int:
        found = self._ids.get(words)
        if found is None:
            found = self._ids[words] = len(self._ids)
            self.words.extend(words)
        return found


def _tag(node: PointToPoint, side: int) -> int:
    if node.tag is UNSET:
        return 0
    if node.tag != "any":
        return int(node.tag)
    if side == RefType.SEND:
        hint = "only recv, irecv and probe take any tag"
        raise Defect(node, "tag", "a send needs one tag", value="any", hint=hint)
    return ANY_TAG
