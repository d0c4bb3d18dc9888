"""A few values of what a call moves: two calls of one shape are told apart by them, as in dl2.

Shape, element type and the elements at nine fixed places make a short name. A name counts only
where it says something: at least three of those elements differ. So counters and flags, which ranks
hold in any order by chance, never name a call.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

PLACES = 9
LEAST_DIFFERENT = 3


def name_of(tensors: Sequence[Any]) -> str | None:
    """Return the short name of what tensors hold; None when a few elements do not tell it.

    Reading an element of a tensor on a device waits for the device.
    """
    rows: list[Any] = []
    different: set[Any] = set()
    for tensor in tensors:
        flat = tensor.detach().reshape(-1)
        count = flat.numel()
        places = sorted({at * (count - 1) // (PLACES - 1) for at in range(PLACES)}) if count else []
        found = flat[places].tolist() if places else []
        different.update(found)
        rows.append([str(tensor.dtype), list(tensor.shape), list(map(repr, found))])
    if len(different) < LEAST_DIFFERENT:
        return None
    return hashlib.blake2b(json.dumps(rows).encode(), digest_size=6).hexdigest()


def agreed_names(names: Mapping[int, Sequence[tuple[int, str]]]) -> dict[int, str]:
    """Return what names of values tell apart, by the identity of the action.

    Args:
        names: Identity of the action and name, of the calls of a group, by rank of all its members.

    Returns:
        Nothing unless all members hold the same values equally often: gradients of different data
        do not, replicated tensors and the results of reductions do.
    """
    counts = [Counter(name for _, name in rows) for rows in names.values()]
    if len(counts) < 2 or not counts[0] or any(count != counts[0] for count in counts):
        return {}
    found: dict[int, str] = {}
    for rows in names.values():
        seen: Counter[str] = Counter()
        for action, name in rows:
            seen[name] += 1
            again = f" ({seen[name]})" if seen[name] > 1 else ""
            found[action] = f"values {name}{again}"
    return found
