"""Whose model is unlike those of most ranks, where DDP says that they differ."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from planguard.audit.readers.models import SIZES
from planguard.audit.readers.part import SILENT, UNREAD, Part
from planguard.words import name_ranks

if TYPE_CHECKING:
    from collections.abc import Sequence

FEWEST = 3
"""Ranks of which something is known: of two nobody is the odd one."""
MOST_AGREE = (
    "DDP's ranks are places in its group, and that most ranks have the right model is assumed"
)


def join_models(parts: Sequence[Part]) -> list[Part]:
    """Return the parts, the error given to those ranks whose models are unlike those of most."""
    told = {rank: said for part in parts for rank, said in part.models.items()}
    if not told:
        return list(parts)
    odd = _by_number({rank: said for rank, said in told.items() if not said.startswith(SIZES)})
    here = {p.rank for p in parts if p.rank is not None and p.kind not in (SILENT, UNREAD)}
    odd |= _by_sizes({r: said for r, said in told.items() if said.startswith(SIZES)}, here | {0})
    kept = list(parts)
    for rank, why in odd.items():
        own = [part for part in parts if part.rank == rank and part.kind == "stderr"]
        if not own:
            own = [Part("stderr", next(p.file for p in parts if p.models), rank=rank)]
            kept += own
        if not any(part.crash for part in own):
            own[0].crash, own[0].has_ended, own[0].inside = why, True, None
            own[0].doubt = own[0].doubt or MOST_AGREE
    return kept


def _by_number(told: dict[int, str]) -> dict[int, str]:
    """Return the ranks whose number of parameters is not that of most, with what to say."""
    if len(told) < FEWEST:
        return {}
    usual, count = Counter(told.values()).most_common(1)[0]
    if 2 * count <= len(told):
        return {}
    others = name_ranks(sorted(rank for rank, said in told.items() if said == usual))
    return {
        rank: f"its model has {said}, those of {others} have {usual} (DDP)"
        for rank, said in told.items()
        if said != usual
    }


def _by_sizes(told: dict[int, str], here: set[int]) -> dict[int, str]:
    """Return the ranks whose sizes are not those of most: who says nothing agrees with rank 0."""
    quiet = here - set(told)
    if len(here | set(told)) < FEWEST or len(set(told.values())) != 1:
        return {}
    what = next(iter(told.values()))
    if len(told) < len(quiet):
        others = name_ranks(sorted(quiet))
        return dict.fromkeys(told, f"its model has {what}, those of {others} do not (DDP)")
    if len(told) > len(quiet):
        others = name_ranks(sorted(told))
        return dict.fromkeys(quiet, f"its model does not have {what}, those of {others} do (DDP)")
    return {}
