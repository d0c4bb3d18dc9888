"""A few values of what a call moves: two calls of one shape are told apart by them, as in dl2.

Shape, element type and the elements at 32 fixed places make a short name. A name counts only where
it says something: at least three of those elements differ. So counters and flags, which ranks hold
in any order by chance, never name a call. The places are spread by the golden section, so that they
are not all in one column of a matrix: gradients behind a ReLU are zero in most of some columns.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

PLACES = 32
LEAST_DIFFERENT = 3
GOLDEN = 0.6180339887498949


def name_of(tensors: Sequence[Any]) -> str | None:
    """Return the short name of what tensors hold; None when a few elements do not tell it.

    Reading an element of a tensor on a device waits for the device.
    """
    rows: list[Any] = []
    different: set[Any] = set()
    for tensor in tensors:
        flat = tensor.detach().reshape(-1)
        count = flat.numel()
        places = _places(count)
        found = flat[places].tolist() if places else []
        different.update(found)
        rows.append([str(tensor.dtype), list(tensor.shape), list(map(repr, found))])
    if len(different) < LEAST_DIFFERENT:
        return None
    return hashlib.blake2b(json.dumps(rows).encode(), digest_size=6).hexdigest()


@lru_cache(maxsize=4096)
def _places(count: int) -> list[int]:
    """Return the places of a tensor of ``count`` elements: all of a small one."""
    if count <= PLACES:
        return list(range(count))
    return sorted({0, count - 1, *(int(at * GOLDEN % 1 * count) for at in range(1, PLACES - 1))})


def agreed_names(names: Mapping[int, Sequence[tuple[int, str | None]]]) -> dict[int, str]:
    """Return what names of values tell apart, by the identity of the action.

    A name counts that all members hold equally often: replicated tensors and the results of
    reductions have such names, gradients of different samples do not. The calls of these names have
    to be the same ones of the group on all members, in any order::

        rank 0:   A   B   own          A and B changed places
        rank 1:   B   A   own'

        rank 0:   A   own   own        an old A that is reduced later on rank 1 says nothing
        rank 1:   own'   A   own'

    Args:
        names: Identity of the action and name, None for no name, of the calls of a group in their
            order, by rank of all its members.
    """
    counts = [Counter(name for _, name in rows if name is not None) for rows in names.values()]
    if len(counts) < 2:
        return {}
    shared = {name for name, often in counts[0].items() if all(c[name] == often for c in counts)}
    places = {
        tuple(at for at, (_, name) in enumerate(rows) if name in shared) for rows in names.values()
    }
    if len(places) != 1:
        return {}
    found: dict[int, str] = {}
    for rows in names.values():
        seen: Counter[str] = Counter()
        for action, name in rows:
            if name is None or name not in shared:
                continue
            seen[name] += 1
            again = f" ({seen[name]})" if seen[name] > 1 else ""
            found[action] = f"values {name}{again}"
    return found
