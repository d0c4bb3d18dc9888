"""What one rank is doing, as the guard of another rank sees it: calls, counts, where it stands."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any

from planguard.plan.vocabulary import MESSAGES
from planguard.sources import is_torch_elsewhere


@dataclass(frozen=True)
class Call:
    """One communication call of one rank.

    Attributes:
        number: 0-based number among the calls of the rank.
        op: Operation in torch spelling.
        group: Name of the group.
        ranks: Global ranks of its members, in order.
        peer: Global rank of the other side of a send or receive, None for any source.
        tag: Tag of a send or receive.
        position: 1-based place: the round of a collective on its group, the message of a channel.
        where: ``file:line`` of the call.
    """

    number: int
    op: str
    group: str
    ranks: tuple[int, ...]
    peer: int | None = None
    tag: int = 0
    position: int = 0
    where: str = ""

    def text(self) -> str:
        """Return the call in one line."""
        if self.op in MESSAGES:
            arrow = "->" if self.op == "send" else "<-"
            whom = "any rank" if self.peer is None else f"rank {self.peer}"
            return f"{self.op} {arrow} {whom}"
        if not self.position:
            return f"{self.op} on {self.group}"
        return f"{self.op} on {self.group} (round {self.position - 1})"


@dataclass(frozen=True)
class RankState:
    """What a rank publishes.

    Attributes:
        rank: Global rank.
        epoch: Number of this publication.
        issued: How many calls it has issued.
        counts: Rounds issued by group, messages by channel: ``"group"``, ``"group>dst#tag"``,
            ``"group<src#tag"``.
        current: The call it waits in, or None when it computes.
        since_s: Seconds in it.
        is_certain: The wait was seen; else it was concluded from a stack that does not move.
        stack: Its Python stack, innermost frame first.
        native: Native frames below it, innermost first, where they can be seen.
        has_ended: It left the job.
        detail: For example the polling of a handle.
    """

    rank: int
    epoch: int = 0
    issued: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    current: Call | None = None
    since_s: float = 0.0
    is_certain: bool = True
    stack: tuple[str, ...] = ()
    native: tuple[str, ...] = ()
    has_ended: bool = False
    detail: str = ""

    @property
    def stands_in_torch(self) -> bool:
        """Whether its innermost Python frame is torch's own: what it waits for is below that."""
        return bool(self.stack) and is_torch_elsewhere(self.stack[0])

    def to_bytes(self) -> bytes:
        """Return the state as JSON."""
        return json.dumps(asdict(self), separators=(",", ":")).encode()

    @staticmethod
    def from_bytes(data: bytes) -> RankState:
        """Read a state.

        Raises:
            ValueError: It is not one.
        """
        try:
            fields: dict[str, Any] = json.loads(data)
            current = fields.pop("current")
            if current is not None:
                current = Call(**{**current, "ranks": tuple(current["ranks"])})
            frames = {name: tuple(fields[name]) for name in ("stack", "native")}
            return RankState(**{**fields, **frames}, current=current)
        except (TypeError, KeyError) as error:
            raise ValueError("not the state of a rank") from error

    def same_place(self, other: RankState) -> bool:
        """Whether the rank has not moved between two readings."""
        mine = None if self.current is None else self.current.number
        theirs = None if other.current is None else other.current.number
        return self.issued == other.issued and mine == theirs and self.has_ended == other.has_ended


def channel(group: str, side: str, peer: int | None, tag: int) -> str:
    """Return the key of a channel in ``RankState.counts``; ``side`` is ``>`` or ``<``."""
    return f"{group}{side}{'any' if peer is None else peer}#{tag}"
