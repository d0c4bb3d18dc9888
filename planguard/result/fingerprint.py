"""The fingerprint of a finding, by which baselines recognize it."""

from __future__ import annotations

import json
import sys
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_LEAN = "_sha2" if sys.version_info >= (3, 12) else "_sha256"
try:
    # As ``random`` of the standard library: hashlib loads OpenSSL, which takes longer than all the
    # hashes of a result. Other interpreters than CPython have hashlib alone.
    _sha256 = import_module(_LEAN).sha256
except ImportError:
    _sha256 = import_module("hashlib").sha256


def fingerprint(code: str, cycle_classes: Sequence[str | int], ops: Sequence[str]) -> str:
    """Return a hash that survives changed action numbers and rank permutations inside a class.

    Args:
        code: Finding code.
        cycle_classes: SPMD class of every rank on the cycle, in its order, so that a permutation of
            equal ranks changes nothing; without a cycle, the classes of the ranks involved.
        ops: Operation name at each of these places. Where a cycle starts does not matter.

    Returns:
        ``pg1:`` and 16 hexadecimal digits.
    """
    if len(cycle_classes) == len(ops):
        places = [[str(name), op] for name, op in zip(cycle_classes, ops, strict=True)]
        key: list[object] = [code, _least_rotation(places)]
    else:
        key = [code, sorted(map(str, cycle_classes)), sorted(ops)]
    text = json.dumps(key, separators=(",", ":"))
    return f"pg1:{_sha256(text.encode()).hexdigest()[:16]}"


def _least_rotation(places: list[list[str]]) -> list[list[str]]:
    """Return the lexicographically least rotation (Booth): linear, for cycles of thousands."""
    length = len(places)
    first, second, same = 0, 1, 0
    while first < length and second < length and same < length:
        left, right = places[(first + same) % length], places[(second + same) % length]
        if left == right:
            same += 1
            continue
        if left > right:
            first += same + 1
        else:
            second += same + 1
        second += first == second
        same = 0
    start = min(first, second)
    return places[start:] + places[:start]
