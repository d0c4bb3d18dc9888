"""Where a running program decides on a tensor's value: another run may take the other branch.

Values are real in a recorded run and stay untouched. The place that reads one is looked at once:
the truth value of a tensor is a decision, and so is a number that is compared or tested where it is
read, or where the variable that holds it is.
"""

from __future__ import annotations

import dis
import sys
from typing import TYPE_CHECKING, Any

from planguard.capture.values.agreed import is_agreed, watch_agreed
from planguard.sources import is_library, package_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import CodeType

KIND = "data-dependent-branch"
AGREED, IN_LIBRARY = "agreed-branch", "data-dependent-branch-in-library"
_DECIDES = ("COMPARE_OP", "CONTAINS_OP", "IS_OP", "POP_JUMP", "TO_BOOL", "UNARY_NOT", "JUMP_IF")
_ENDS = ("POP_TOP", "RETURN", "RAISE", "YIELD")
_STORES = ("STORE_FAST", "STORE_NAME", "STORE_GLOBAL", "STORE_DEREF")


def watch_reads(
    replace: Callable[[Any, str, Any], None], note: Callable[[str, str, str], None]
) -> None:
    """Report where the program decides on values of tensors.

    A value that all ranks share, because a collective of all of them gave it (``agreed``), makes
    them decide alike: such a place is told as a fact of the run and is no warning.

    Args:
        replace: Called with owner, name and the new method.
        note: Called once per place with kind, message and direction of a ledger entry.
    """
    import torch

    codes: dict[tuple[int, int], CodeType] = {}  # kept, so that no identity is used again
    said: dict[tuple[int, int], int] = {}  # what was said of a place; OWN where nothing is to be

    def look(frame: Any, key: tuple[int, int], *, always: bool) -> int:
        """Take a place that is new; one that decides nothing is never looked at again."""
        codes[key] = code = frame.f_code
        is_told = not is_library(code.co_filename) and (always or decides(code, frame.f_lasti))
        said[key] = NOTHING if is_told else OWN
        return said[key]

    def wrap(name: str, *, always: bool) -> None:
        original = getattr(torch.Tensor, name)

        def read(tensor: Any, *args: Any) -> Any:
            frame = sys._getframe(1)  # noqa: SLF001 - the interpreter has no public way
            key = id(frame.f_code), frame.f_lasti
            known = said.get(key)
            if known is None:
                known = look(frame, key, always=always)
            if known != OWN:
                how = SHARED if is_agreed(tensor) else OWN
                if known != how:
                    said[key] = how
                    note(*_entry(frame.f_code, frame.f_lineno, how))
            return original(tensor, *args)

        read.__name__ = name
        replace(torch.Tensor, name, read)

    wrap("__bool__", always=True)
    wrap("item", always=False)
    wrap("tolist", always=False)
    watch_agreed(replace)


NOTHING, SHARED, OWN = range(3)


def _entry(code: CodeType, line: int, how: int) -> tuple[str, str, str]:
    where = f"{code.co_filename}:{line}"
    if how == SHARED:
        said = f"all ranks decide on a value that they share at {where}"
        return AGREED, f"{said}; the log holds the branch that this run took", "exact"
    kind = IN_LIBRARY if package_of(code.co_filename) else KIND
    said = f"the program decides on a tensor's value at {where}"
    return kind, f"{said}; the log holds the branch that this run took", "exact"


def folded(notes: Iterable[tuple[str, str, str]]) -> list[tuple[str, str, str]]:
    """Return ledger entries with the decisions inside of installed packages in one.

    They are as real as the program's own, but there are many in every trainer, and nobody who runs
    one can change them: one line says how many there are, whose, and where the first one is.
    """
    found, places = [], dict[str, str]()
    for kind, message, direction in notes:
        if kind != IN_LIBRARY:
            found.append((kind, message, direction))
            continue
        where = message.partition(" at ")[2].rpartition(";")[0]
        places.setdefault(where, package_of(where))
    if places:
        names = ", ".join(sorted(set(places.values())))
        more = f" and {len(places) - 1} more places" if len(places) > 1 else ""
        said = (
            f"libraries ({names}) decide on a tensor's value at {next(iter(places))}{more}; the "
            "log holds the branches that this run took"
        )
        found.append((KIND, said, "exact"))
    return found


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
