"""Why a plan, or a part of it, was not decided: a kind that decides, and words that only tell.

Code and advice follow from the kind, in the one table below; nothing reads them out of the words.
The words may hold names of the plan, which say anything.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace
from typing import NamedTuple


class _Row(NamedTuple):
    """What is said where a reason of this kind is the last word."""

    code: str
    help: str


class Kind(enum.Enum):
    """What stood in the way of an answer."""

    TIME = "time"
    """The budget is used up."""
    COUNT = "count"
    """There are more cases than are tried without a budget."""
    BRANCHES = "branches"
    """There are more combinations of branches than any budget covers."""
    MEMORY = "memory"
    """The solver has no memory left."""
    SOLVER = "solver"
    """The process of the solver ended."""
    CONSTRUCT = "construct"
    """Something in the plan that no route covers."""
    INVALID = "invalid"
    """Some order or branch is no valid program."""
    IDENTITY = "identity"
    """The plan does not say which of its calls belong together."""
    SENDER = "sender"
    """The plan does not say whose message is received, and the model has no such receive."""


_MORE_TIME = "give the check more time: --budget 10s"
_PAGE = "the page of this code says what is decided, and under which models"
TABLE = {
    Kind.TIME: _Row("PG903", _MORE_TIME),
    Kind.COUNT: _Row(
        "PG903",
        "go beyond this limit with a budget: --budget 60s; or fix in the plan what the program "
        "leaves no choice in",
    ),
    Kind.BRANCHES: _Row(
        "PG903",
        "more time does not help; name one `choice` for what is taken together, or give both "
        "branches the same communication",
    ),
    Kind.MEMORY: _Row(
        "PG903",
        "more time does not help; give the solver more memory: --solver-memory 16384",
    ),
    Kind.SOLVER: _Row(
        "PG903",
        "see whether the machine ended the solver for its memory; --solver-memory 1024 keeps it "
        "smaller",
    ),
    Kind.CONSTRUCT: _Row("PG902", _PAGE),
    Kind.INVALID: _Row("PG902", _PAGE),
    Kind.IDENTITY: _Row(
        "PG904", "give the calls labels, the same on all ranks for what belongs together"
    ),
    Kind.SENDER: _Row("PG904", "name the sender and the tag in the plan"),
}
"""Kind of a reason -> finding code and advice."""

LIMITS = frozenset({Kind.TIME, Kind.BRANCHES, Kind.MEMORY, Kind.SOLVER})
"""Kinds that name a limit: what they are put beside does not move it."""


@dataclass(frozen=True)
class Reason:
    """One reason.

    Attributes:
        kind: What stood in the way; it decides code and advice.
        detail: The reason in words, without a full stop.
    """

    kind: Kind
    detail: str

    def __str__(self) -> str:
        """Return the words."""
        return self.detail

    @property
    def code(self) -> str:
        """The finding code."""
        return TABLE[self.kind].code

    @property
    def help(self) -> str:
        """What moves it."""
        return TABLE[self.kind].help

    @property
    def message(self) -> str:
        """The sentence of the finding."""
        return f"not decided: {self.detail}"

    def about(self, what: str) -> Reason:
        """Return the reason with what it is about in front."""
        return replace(self, detail=f"{what}: {self.detail}")

    def then(self, other: Reason) -> Reason:
        """Return this reason and another limit that was met after it."""
        kind = self.kind if self.kind in LIMITS else other.kind
        return Reason(kind, f"{self.detail}; {other.detail}")


class UndecidedError(Exception):
    """A route gives up.

    Attributes:
        reason: Why.
    """

    def __init__(self, reason: Reason | str) -> None:
        """Take a reason; words alone are about a construct that no route covers."""
        self.reason = construct(reason) if isinstance(reason, str) else reason
        super().__init__(self.reason.detail)


def out_of_time(detail: str) -> Reason:
    """Return that the budget ended; ``detail`` goes on behind ``budget exhausted``."""
    return Reason(Kind.TIME, f"budget exhausted{detail}")


def too_many(detail: str) -> Reason:
    """Return that there are more cases than are tried without a budget."""
    return Reason(Kind.COUNT, detail)


def construct(detail: str) -> Reason:
    """Return that no route covers something of the plan."""
    return Reason(Kind.CONSTRUCT, detail)
