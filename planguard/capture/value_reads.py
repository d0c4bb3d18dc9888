"""Where a running program decides on a tensor's value: another run may take the other branch.

Values are real in a recorded run and stay untouched. The place that reads one is looked at once:
the truth value of a tensor is a decision, and so is a number that is compared or tested where it is
read, or where the variable that holds it is.
"""

from __future__ import annotations

import dis
import sys
from typing import TYPE_CHECKING, Any

from planguard.sources import is_library

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType

KIND = "data-dependent-branch"
_DECIDES = ("COMPARE_OP", "CONTAINS_OP", "IS_OP", "POP_JUMP", "TO_BOOL", "UNARY_NOT", "JUMP_IF")
_ENDS = ("POP_TOP", "RETURN", "RAISE", "YIELD")
_STORES = ("STORE_FAST", "STORE_NAME", "STORE_GLOBAL", "STORE_DEREF")


def watch_reads(
    replace: Callable[[Any, str, Any], None], note: Callable[[str, str, str], None]
) -> None:
    """Report where the program decides on values of tensors.

    Args:
        replace: Called with owner, name and the new method.
        note: Called once per place with kind, message and direction of a ledger entry.
    """
    import torch

    seen: dict[tuple[int, int], CodeType] = {}

    def wrap(name: str, *, always: bool) -> None:
        original = getattr(torch.Tensor, name)

        def read(tensor: Any, *args: Any) -> Any:
            frame = sys._getframe(1)  # noqa: SLF001 - the interpreter has no public way
            key = id(frame.f_code), frame.f_lasti
            if key not in seen:
                seen[key] = code = frame.f_code  # kept, so that its identity is not used again
                if not is_library(code.co_filename) and (always or decides(code, frame.f_lasti)):
                    note(KIND, _message(code, frame.f_lineno), "exact")
            return original(tensor, *args)

        read.__name__ = name
        replace(torch.Tensor, name, read)

    wrap("__bool__", always=True)
    wrap("item", always=False)
    wrap("tolist", always=False)


def _message(code: CodeType, line: int) -> str:
    return (
        f"the program decides on a tensor's value at {code.co_filename}:{line}; the log holds the "
        "branch that this run took"
    )


def decides(code: CodeType, at: int) -> bool:
    """Tell whether a value that the instruction at an offset made is compared or tested."""
    steps = list(dis.get_instructions(code))
    # A call of a Python function stands at its last cache entry, behind the instruction.
    place = sum(step.offset <= at for step in steps)
    found = _fate(steps, place)
    if not found:
        return found == ""
    loads = (n for n, step in enumerate(steps) if "LOAD" in step.opname and step.argval == found)
    return any(_fate(steps, n + 1) == "" for n in loads)


def _fate(steps: list[dis.Instruction], place: int) -> str | None:
    """Return "" for a decision, the name of a variable that holds the value, or None."""
    for step in steps[place:]:
        if step.opname.startswith(_DECIDES) or "JUMP_IF" in step.opname:
            return ""
        if step.opname in _STORES:
            return str(step.argval)
        if step.opname.startswith(_ENDS):
            return None
    return None
