"""The vocabulary of torch pipelining schedules: one action, and the text of one cell.

``<stage><TYPE><microbatch>`` such as ``0F3`` or ``2SEND_B1``; ``UNSHARD``, ``RESHARD`` and
``REDUCE_GRAD`` carry no microbatch; ``(0F3;3B1)OVERLAP_F_B`` runs several computations as one.
torch parses a cell with ``re.match``, so it reads ``0F3junk`` as ``0F3``; here a cell matches as a
whole or is refused.
"""

from __future__ import annotations

import re
from enum import StrEnum
from functools import lru_cache

import msgspec

SHARED = 1 << 16
"""Actions whose text and needs are kept: the schedules of an experiment share them.

A schedule is walked from its begin several times. One with more actions than are kept finds none of
them again, so the number is above that of the largest schedules (8 stages of 1,024 microbatches).
"""


class Kind(StrEnum):
    """What an action does; the values are torch's spellings."""

    F = "F"
    B = "B"
    I = "I"  # noqa: E741 - torch's name for the backward of the inputs
    W = "W"
    UNSHARD = "UNSHARD"
    RESHARD = "RESHARD"
    REDUCE_GRAD = "REDUCE_GRAD"
    SEND_F = "SEND_F"
    RECV_F = "RECV_F"
    SEND_B = "SEND_B"
    RECV_B = "RECV_B"
    OVERLAP_F_B = "OVERLAP_F_B"

    __hash__ = str.__hash__  # an enum's own is a call of Python, and actions are keys everywhere


_KINDS = {str(kind): kind for kind in Kind}
COMPUTE = frozenset({Kind.F, Kind.B, Kind.I, Kind.W})
TRANSFER = frozenset({Kind.SEND_F, Kind.RECV_F, Kind.SEND_B, Kind.RECV_B})
SHARDING = frozenset({Kind.UNSHARD, Kind.RESHARD, Kind.REDUCE_GRAD})

_DIGITS = 9
"""More digits than this cannot be a stage or a microbatch; the bound also keeps int() cheap."""
_NUMBER = "0|[1-9][0-9]*"
"""ASCII digits without leading zeros: one action has one text."""
_CELL = re.compile(
    rf"({_NUMBER})"
    r"(UNSHARD|RESHARD|REDUCE_GRAD|SEND_F|RECV_F|SEND_B|RECV_B|F|B|I|W)"
    rf"({_NUMBER}|)"
)
_OVERLAP = re.compile(r"\(([^()]*)\)OVERLAP_F_B")


class Action(msgspec.Struct, frozen=True, cache_hash=True):
    """One action of a schedule.

    Attributes:
        kind: What it does.
        stage: Pipeline stage, or -1 for ``OVERLAP_F_B``, whose parts carry the stages.
        mb: Microbatch, or None where the kind has none.
        parts: The computations of an ``OVERLAP_F_B``, in the order torch runs them.
    """

    kind: Kind
    stage: int
    mb: int | None = None
    parts: tuple[Action, ...] = ()

    def __str__(self) -> str:
        return _text(self)

    @property
    def leaves(self) -> tuple[Action, ...]:
        """The action itself, or the parts of an ``OVERLAP_F_B``."""
        return self.parts if self.kind is Kind.OVERLAP_F_B else (self,)

    @property
    def computes(self) -> bool:
        """True for F, B, I, W and ``OVERLAP_F_B``."""
        return self.kind in COMPUTE or self.kind is Kind.OVERLAP_F_B


@lru_cache(maxsize=SHARED)
def _text(action: Action) -> str:
    if action.kind is Kind.OVERLAP_F_B:
        return f"({';'.join(map(str, action.parts))}){action.kind}"
    return f"{action.stage}{action.kind}{'' if action.mb is None else action.mb}"


@lru_cache(maxsize=SHARED)
def parse_cell(text: str) -> Action | None:
    """Read one cell; None for a bubble (an empty cell).

    Raises:
        ValueError: The text is not an action; the message says what is wrong with it.
    """
    text = text.strip(" \t")
    if not text:
        return None
    overlap = _OVERLAP.fullmatch(text)
    if overlap is None:
        return _parse_single(text)
    parts = tuple(_parse_single(part.strip(" \t")) for part in overlap[1].split(";"))
    return checked(Action(Kind.OVERLAP_F_B, -1, None, parts))


def checked(action: Action) -> Action:
    """Return the action, or refuse a combination of fields that torch cannot run.

    Raises:
        ValueError: A microbatch is missing or superfluous, or an overlap has no or wrong parts.
    """
    if action.kind is Kind.OVERLAP_F_B:
        if not action.parts:
            raise ValueError("OVERLAP_F_B has no parts")
        if any(part.kind not in COMPUTE for part in action.parts):
            raise ValueError("the parts of OVERLAP_F_B must be F, B, I or W")
        return action
    if action.parts:
        raise ValueError(f"{action.kind.value} cannot have parts")
    if action.kind in SHARDING and action.mb is not None:
        raise ValueError(f"{action.kind.value} takes no microbatch")
    if action.kind not in SHARDING and action.mb is None:
        raise ValueError(f"{action.kind.value} needs a microbatch")
    if max(action.stage, action.mb or 0) >= 10**_DIGITS:
        raise ValueError("stage or microbatch number too large")
    if action.stage < 0 or (action.mb or 0) < 0:
        raise ValueError("stage and microbatch must not be negative")
    return action


def _parse_single(text: str) -> Action:
    match = _CELL.fullmatch(text)
    if match is None:
        raise ValueError(_why_not(text))
    stage, kind, mb = match.groups()
    if max(len(stage), len(mb)) > _DIGITS:
        raise ValueError("stage or microbatch number too large")
    return checked(Action(_KINDS[kind], int(stage), int(mb) if mb else None))


def _why_not(text: str) -> str:
    prefix = _CELL.match(text)
    if prefix is not None and prefix.end() < len(text):
        return f"trailing text after {prefix[0]}"
    return "not an action"
