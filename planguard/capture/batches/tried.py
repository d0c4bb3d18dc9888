"""Batches that are tried beside the samples of a step, and how a play with them ended."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from planguard.capture.batches.sampled import Supply
from planguard.capture.play.loaders import copied

if TYPE_CHECKING:
    from planguard.capture.batches.likes import Like
    from planguard.verdict import Verdict


@dataclass(frozen=True)
class Batch:
    """A batch that ranks get: a sample, or like one."""

    value: Any
    words: str
    parts: tuple[Any, ...] = ()
    is_made_up: bool = True


@dataclass(frozen=True)
class Ended:
    """How one play ended.

    Attributes:
        verdict: What was decided; None where a rank raised.
        raised: What it raised.
        is_meant: What raised is a statement of the program's that raises: it ends the job.
        is_silent: No rank communicates.
        is_new: A test went a new way.
    """

    verdict: Verdict | None
    raised: str
    is_meant: bool
    is_silent: bool
    is_new: bool

    @property
    def is_unsafe(self) -> bool:
        """The ranks do not agree."""
        return self.verdict is not None and self.verdict.unsafe

    @property
    def is_open(self) -> bool:
        """It was not decided."""
        return self.verdict is not None and self.verdict.unknown and not self.is_silent


def joined_like(origin: Batch, like: Like) -> Batch:
    """Return a batch that is like another one but for one more thing."""
    joint = " and " if origin.is_made_up else ", but "
    return Batch(like.value, f"{origin.words}{joint}{like.words}", like.parts)


def supply_of_batches(batches: list[Batch]) -> Supply:
    """Return the supply of some batches, any of which any rank may get."""

    def say(number: int, _: int) -> str:
        one = batches[number]
        return f"a made-up batch: {one.words}" if one.is_made_up else one.words

    return Supply(lambda number, _: copied(batches[number].value), say)
