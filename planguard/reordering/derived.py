"""Plans that executions of a plan lead to, read like any other plan."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planguard.errors import OrderError, PlanError
from planguard.plan.format import read

if TYPE_CHECKING:
    from planguard.plan.plan import Plan


def derived(document: dict[str, Any]) -> Plan:
    """Return the plan of one order, assignment or flush of another plan.

    What the door finds wrong with it is wrong in that execution only: a handle, for example, that
    one of two branches waits for and the actions behind it wait for again.

    Raises:
        OrderError: The program is no valid plan.
    """
    try:
        return read(document)
    except PlanError as error:
        raise OrderError(
            error.message, code=error.code, path=error.path, value=error.value, hint=error.hint
        ) from error
