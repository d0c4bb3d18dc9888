"""Defect: a rule broken by one action, before its place in the file is known."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planguard.errors import PlanError, shorten
from planguard.options import MODEL_NAMES
from planguard.plan.pointers import render

if TYPE_CHECKING:
    from collections.abc import Iterable

    from planguard.plan.nodes import Node
    from planguard.plan.pointers import Steps


MESSAGE_LENGTH = 600
PATH_LENGTH = 300


class Defect(Exception):  # noqa: N818 - never seen by a caller; becomes a PlanError with a path
    """A rule that an action breaks.

    Finding the JSON path of an action means walking its program, so it is done only here, when a
    plan is refused, and not for every action of every plan.
    """

    def __init__(
        self,
        node: Node,
        field: str,
        message: str,
        *,
        code: str = "PG901",
        value: object = None,
        hint: str = "",
    ) -> None:
        super().__init__(message)
        self.node = node
        self.field = field
        self.code = code
        self.message = message
        self.value = value
        self.hint = hint

    def at(self, steps: Steps, file: str | None) -> PlanError:
        """Return the error to raise, once the place of the action is known."""
        path = render(steps)
        return refusal(
            self.message,
            code=self.code,
            file=file,
            path=f"{path}.{self.field}" if self.field else path,
            value=self.value,
            hint=self.hint,
        )


def refusal(
    message: str,
    *,
    code: str = "PG901",
    file: str | None = None,
    path: str = "$",
    value: object = None,
    hint: str = "",
) -> PlanError:
    """Return a ``PlanError`` whose text is short and printable, whatever names the plan uses."""
    return PlanError(
        shorten(message, MESSAGE_LENGTH),
        code=code,
        file=file,
        path=shorten(path, PATH_LENGTH),
        value=value,
        hint=shorten(hint, MESSAGE_LENGTH),
    )


def unknown_model(name: object, path: str, file: str | None = None, *more: str) -> PlanError:
    """Return the error about an execution model that there is not; PG907.

    Args:
        name: What was asked for.
        path: Where it was asked for.
        file: In which file.
        more: Other words that may stand there.
    """
    near = nearest(name, [*MODEL_NAMES, *more]) if isinstance(name, str) else ""
    return refusal(
        "unknown execution model",
        code="PG907",
        file=file,
        path=path,
        value=name,
        hint=f"{near} known models: {', '.join([*MODEL_NAMES, *more])}".lstrip(),
    )


def nearest(name: str, known: Iterable[str]) -> str:
    """Return ``did you mean 'x'?`` for the closest known name, or an empty string."""
    import difflib

    close = difflib.get_close_matches(name[:100], list(known), n=1, cutoff=0.6)
    return f"did you mean {close[0]!r}?" if close else ""
