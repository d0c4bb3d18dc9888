"""Sequence numbers of a group in open order, under `gloo-detail`: standard library only.

The fingerprints of DETAIL hold how many calls a member made on the group before a collective;
``agreement`` compares them in a fixed order.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from planguard.certificate.agreement import PAIR, OutsideError, calls_of
from planguard.certificate.checker import ROUND


def fixed_numbers(body: Any, model: str) -> None:
    """Refuse blocks whose order decides how many messages come before a collective.

    The fingerprints of DETAIL hold that number.

    Raises:
        OutsideError: A block has messages and collectives of one group.
    """
    blocks = [
        one for one in body if model == "gloo-detail" and one["op"] in {"unordered", "threads"}
    ]
    for block in blocks:
        groups = defaultdict[str, set[bool]](set)
        for call in calls_of(block):
            if call["op"] in PAIR or call["op"] in ROUND:
                groups[call.get("group", "world")].add(call["op"] in PAIR)
        if any(len(both) > 1 for both in groups.values()):
            raise OutsideError("messages and collectives of one group in one block")
