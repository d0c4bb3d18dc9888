"""Ax behind the gate: an unsafe trial is abandoned untrained, and another is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planguard.errors import MissingPackageError
from planguard.screen.gate import Gate

if TYPE_CHECKING:
    from collections.abc import Callable

    from planguard.screen.gate import Decision

MOST_BLOCKED = 100
"""Unsafe trials in a row after which no more are asked for."""


class Screened:
    """A client of Ax whose ``get_next_trials`` gives trials that may run.

    An unsafe trial is marked abandoned: Ax does not suggest it again, and learns no value of it.

    Args:
        client: A configured ``ax.api.client.Client``.
        to_plan: Makes a plan from the parameters of a trial.
        options: Keywords of ``planguard.screen.gate.Gate``.

    Attributes:
        client: The client.
        blocked: Why a trial may not run, by its index.

    Raises:
        MissingPackageError: Ax is not installed.
    """

    def __init__(
        self, client: Any, to_plan: Callable[[dict[str, Any]], Any], **options: Any
    ) -> None:
        try:
            from ax.exceptions.core import AxError
        except ImportError:
            raise MissingPackageError("ax", "a screened client") from None
        self.client = client
        self.blocked: dict[int, Decision] = {}
        self._gate = Gate(to_plan, **options)
        self._ended = AxError

    def get_next_trials(self, max_trials: int, **given: Any) -> dict[int, dict[str, Any]]:
        """Return trials that may run, by index, as ``Client.get_next_trials`` does.

        Fewer than ``max_trials`` where Ax has no more, or where ``MOST_BLOCKED`` in a row were
        unsafe: is any configuration of this space safe?

        Raises:
            AxError: Ax can suggest none.
        """
        found: dict[int, dict[str, Any]] = {}
        misses = 0
        while len(found) < max_trials and misses < MOST_BLOCKED:
            try:
                asked = self.client.get_next_trials(max_trials - len(found), **given)
            except self._ended:
                if found:
                    break
                raise
            if not asked:
                break
            for index, params in asked.items():
                decision = self._gate(dict(params))
                if decision.runs:
                    found[index] = params
                    misses = 0
                    continue
                self.client.mark_trial_abandoned(index)
                self.blocked[index] = decision
                misses += 1
        return found
