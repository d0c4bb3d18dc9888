"""What calls of a ``ProgramBuilder`` return: handles, and blocks for a ``with``."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from planguard.plan.defects import refusal

if TYPE_CHECKING:
    from types import TracebackType

    from planguard.errors import PlanError
    from planguard.plan.building.appending import Appender

Line = tuple[str, int]
"""A file and a line of the author."""
_OWN = "planguard."
_HERE = tuple(
    f"planguard.{part}" for part in ("plan.", "arguments", "api", "garbage", "guard.", "loading")
)
"""What an author's call goes through on its way to a builder; in what else of ours adapters are."""


def author(depth: int) -> Line | None:
    """Return the line that called, ``depth`` calls above; None in PlanGuard's own adapters.

    What an adapter writes has the place in the planner's output as its source; the adapter's line
    would say nothing to who reads it.
    """
    frame = sys._getframe(depth + 1)  # noqa: SLF001 - the cheap way to one frame
    if frame.f_globals.get("__name__", "").startswith(_OWN):
        return None
    return frame.f_code.co_filename, frame.f_lineno


def frame_of(depth: int) -> tuple[str, int, str]:
    """Return file, line and function that called, ``depth`` calls above who asks."""
    frame = sys._getframe(depth + 2)  # noqa: SLF001 - as above
    return frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name


def caller() -> Line | None:
    """Return the line that called into PlanGuard, as ``author`` does; not for every action."""
    frame = sys._getframe(1)  # noqa: SLF001 - as above
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(_HERE):
        frame = frame.f_back
    if frame.f_globals.get("__name__", "").startswith(_OWN):
        return None
    return frame.f_code.co_filename, frame.f_lineno


def placed(error: PlanError, line: Line | None) -> PlanError:
    """Return an error that says which line of the author is meant."""
    if line is not None and error.file is None:
        error.file = f"{line[0]}:{line[1]}"
    return error


class Handle:
    """The handle of an asynchronous call; ``wait``, ``test`` and ``drop`` take it.

    The plan names a handle only where something refers to it, so the name is made at that moment.
    """

    __slots__ = ("_block", "_index", "_inside", "_program", "name")

    def __init__(
        self, program: Appender, block: list[Any], name: str | None, inside: str | None
    ) -> None:
        self._program = program
        self._inside = inside
        self.name = name
        self.settle(block)

    def settle(self, block: list[Any]) -> None:
        """Say that the call is the last action of a block so far."""
        self._block = block
        self._index = len(block) - 1

    def __repr__(self) -> str:
        return f"<handle {self.name or 'without a name yet'} of {self._program.path}>"

    def named_in(self, program: Appender) -> str:
        """Return the name, for a use in a program.

        Raises:
            PlanError: The handle is of another program, or of a member of a batch.
        """
        if program is not self._program:
            raise refusal(
                "the handle belongs to another program",
                path=program.path,
                value=self._program.path,
                hint="a rank waits for its own calls",
            )
        if self.name is None:
            if self._inside == "batch":
                raise refusal(
                    "a member of a batch has no handle of its own",
                    path=program.path,
                    hint='wait for the batch: with p.batch(work="b") as b: ...; p.wait(b)',
                )
            if self._index < 0:
                hint = "wait below its `with`"
                raise refusal("the call has not ended yet", path=program.path, hint=hint)
            self.name = program.name_handle(self._block, self._index)
        return self.name


class Block:
    """A block of actions for a ``with``; without one it is an error, not an empty block."""

    __slots__ = ("_fields", "handle", "items", "line", "op", "program")

    def __init__(
        self, program: Appender, op: str, fields: dict[str, Any] | None, line: Line | None
    ) -> None:
        self.program = program
        self.op = op
        self.line = line
        self.items: list[Any] = []
        self._fields = fields
        given = fields or {}
        self.handle: Handle | None = None
        if given.get("work") is not None or given.get("async_") or given.get("async_op"):
            self.handle = Handle(program, [], given.get("work"), None)

    def __enter__(self) -> Handle | None:
        return self.program.enter(self)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.program.leave(self, self._fields, failed=kind is not None)

    def not_entered(self) -> PlanError:
        """Return the error of a block that was made and never entered."""
        return placed(
            refusal(
                f"{self.op}() without `with`: its block would be lost",
                path=self.program.path,
                hint=f"with p.{self.op}(...): and the actions of the block indented below it",
            ),
            self.line,
        )

    def still_open(self) -> PlanError:
        """Return the error of a block whose ``with`` has not ended."""
        return placed(
            refusal(
                f"the block of {self.op}() is still open: its actions are not in the plan yet",
                path=self.program.path,
                hint="call build() after the `with` has ended",
            ),
            self.line,
        )
