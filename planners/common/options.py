"""Options of an adapter: only names that exist, and one way to say that a value is impossible."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import Any

from planguard.errors import UsageError

_SHOWN = 80

Checked = Callable[[Mapping[str, object], str], dict[str, Any]]
"""Options as given and whose they are (``""`` or `` of rank 3``) to options that are possible."""


def known_options(
    adapter: str, given: Mapping[str, object], known: type | Sequence[str], where: str = ""
) -> dict[str, Any]:
    """Return the options that were given, if all of them exist.

    Args:
        adapter: Name of the adapter.
        given: Name to value.
        known: The dataclass of the options, or their names.
        where: Whose options these are, for the message.

    Raises:
        UsageError: An option does not exist; the hint names the nearest one that does.
    """
    names = [entry.name for entry in fields(known)] if isinstance(known, type) else known
    for name in given:
        if name not in names:
            near = difflib.get_close_matches(name, names)
            raise UsageError(
                f"the {adapter} adapter has no option {name!r}{where}",
                hint=f"did you mean {near[0]!r}?" if near else f"options: {', '.join(names)}",
            )
    return dict(given)


def wrong(adapter: str, name: str, value: object, hint: str) -> UsageError:
    """Return the error about an option whose value is not possible."""
    text = repr(value)
    shown = text if len(text) < _SHOWN else text[: _SHOWN - 3] + "..."
    return UsageError(f"option {name} of the {adapter} adapter is {shown}", hint=f"give {hint}")


def options_of_ranks(
    adapter: str, ranks: object, world_size: int, checked: Checked
) -> dict[int, dict[str, Any]]:
    """Return the options that differ from rank to rank, by rank.

    Args:
        adapter: Name of the adapter.
        ranks: A map from rank, a number or its digits, to options; None for no such rank.
        world_size: Number of ranks.
        checked: Checks the options of one rank.

    Raises:
        UsageError: Not such a map, a rank outside the world, or what ``checked`` raises.
    """
    if not isinstance(ranks or {}, Mapping):
        raise wrong(adapter, "rank_options", ranks, "a map from rank to options")
    found = {}
    for rank, own in dict(ranks or {}).items():  # type: ignore[call-overload]
        number = int(rank) if isinstance(rank, str) and rank.isdecimal() else rank
        if not is_integer(number, 0, world_size - 1) or not isinstance(own, Mapping):
            hint = f"ranks from 0 to {world_size - 1}"
            raise wrong(adapter, "rank_options", {rank: own}, hint)
        if number in found:  # 3 and "3" are one rank: the options of one of them would be lost
            raise wrong(adapter, "rank_options", {rank: own}, f"the options of rank {number} once")
        found[number] = checked(own, f" of rank {number}")
    return found


def is_integer(value: object, low: int | None = None, high: int | None = None) -> bool:
    """Tell whether a value is an integer, no boolean, within bounds."""
    if isinstance(value, bool) or not isinstance(value, int):
        return False
    return (low is None or low <= value) and (high is None or value <= high)


def is_list(value: object) -> bool:
    """Tell whether a value is a sequence other than text."""
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def is_names(value: object) -> bool:
    """Tell whether a value is a tuple of strings."""
    return isinstance(value, tuple) and all(isinstance(item, str) for item in value)
