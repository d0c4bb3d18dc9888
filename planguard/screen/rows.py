"""Row and Skeleton: what is kept of a trial, and of the trials that communicate alike."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


OUTCOMES = ("SAFE", "DEADLOCK", "MISMATCH", "POTENTIAL_DEADLOCK", "UNKNOWN")


@dataclass(frozen=True)
class Row:
    """One trial and its answer.

    Attributes:
        name: Name of the trial.
        outcome: SAFE, DEADLOCK, MISMATCH, POTENTIAL_DEADLOCK or UNKNOWN.
        code: Code of the deciding finding, or "".
        codes: Codes of all findings, sorted.
        skeleton: Digest of the communication skeleton; "" where the plan could not be read.
        reason: Why there is no answer; "" if there is one.
        end: "" as a rule; "refused", "lost" or "crashed" where the plan itself has no answer.
        params: Parameters of the trial.
        input_sha: Hash of the input.
    """

    name: str
    outcome: str
    code: str
    codes: tuple[str, ...]
    skeleton: str
    reason: str
    end: str
    params: Mapping[str, Any] = field(default_factory=dict)
    input_sha: str = ""

    @property
    def is_unsafe(self) -> bool:
        """Whether the trial must not run."""
        return self.outcome not in {"SAFE", "UNKNOWN"}


@dataclass(frozen=True)
class Skeleton:
    """What trials that communicate alike have in common.

    Attributes:
        digest: Hash of the communication signature.
        outcome: Its outcome.
        code: Code of the deciding finding, or "".
        codes: Codes of all findings, sorted.
        message: What the deciding finding says of the first trial, or why there is no answer.
        first: Name of the first trial that has it.
        ranks: World size.
        actions: Actions of all ranks.
        end: As of ``Row``.
    """

    digest: str
    outcome: str
    code: str
    codes: tuple[str, ...]
    message: str
    first: str
    ranks: int
    actions: int
    end: str = ""
