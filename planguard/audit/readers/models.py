"""What DDP says of models that differ, when it is made on them.

Formats: ``verify_params_across_processes`` of torch's ``reducer.cpp`` (1.8 to 2.14). Each rank
compares the number of its parameters with that of all and names the first rank that differs; then
their sizes with those of rank 0, which says nothing itself. A number of 0 is what is left of a
comparison that was aborted: somebody was late, and no model differs.
"""

from __future__ import annotations

import re

_COUNT = re.compile(
    r"DDP expects same model across all ranks, but Rank (?P<rank>\d{1,7}) has (?P<own>\d{1,12}) "
    r"params, while rank (?P<other>\d{1,7}) has inconsistent (?P<theirs>\d{1,12}) params"
)
_SIZES = re.compile(
    r"\[(?P<rank>\d{1,7})\]: (?P<what>params\[\d{1,9}\] in this process with sizes "
    r"\[[\d, ]{0,200}\]) appears not to match sizes of the same param in process 0"
)
SIZES = "params["
"""How what is told of sizes begins, against rank 0; else it is a number."""


def compared(text: str) -> tuple[int, dict[int, str]] | None:
    """Return who speaks in a line, and what it says of the models of ranks, itself included."""
    if (said := _COUNT.search(text)) is not None:
        own = int(said["rank"])
        if not int(said["own"]) or not int(said["theirs"]):
            return own, {}
        told = {own: said["own"], int(said["other"]): said["theirs"]}
        return own, {rank: f"{count} params" for rank, count in told.items()}
    if (said := _SIZES.search(text)) is not None:
        return int(said["rank"]), {int(said["rank"]): said["what"].replace(" in this process", "")}
    return None
