"""Candidates that post neighboring sends and receives as one batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planguard.plan.vocabulary import MESSAGES
from planguard.repair.dependence import conflict, forwards, works
from planguard.repair.proposal import Proposal, put, remove

if TYPE_CHECKING:
    from collections.abc import Iterator

    from planguard.repair.document import Block
    from planguard.verdict import Edit

LONGEST = 16
"""Most members of a proposed batch."""


def batches(block: Block, around: range | None = None) -> Iterator[Proposal]:
    """Yield every run of two or more transfers as one batch.

    Args:
        block: The list.
        around: Indices that the members have; the whole list if None.
    """
    items = block.items
    places = range(len(items)) if around is None else around
    for first in places:
        for last in range(first + 1, min(places.stop, first + LONGEST)):
            if not all(_fits(items[last], items[at]) for at in range(first, last)):
                break
            found = _batched(block, first, last)
            if found is not None:
                yield found


def _members(item: Any) -> list[dict[str, Any]]:
    return list(item["ops"]) if item["op"] == "batch" else [item]


def _fits(item: Any, before: Any) -> bool:
    """Tell whether two actions may be members of one batch; neither may need the other."""
    if not all(isinstance(one, dict) and _is_transfer(one) for one in (before, item)):
        return False
    if conflict(before, item) or forwards(before, item):
        return False
    pair = (before, item)
    groups = {part.get("group", "world") for one in pair for part in _members(one)}
    return len(groups) == 1 and len({one.get("stream") for one in pair}) == 1


def _is_transfer(item: dict[str, Any]) -> bool:
    if item["op"] == "batch":
        return all(part["op"] in MESSAGES for part in item["ops"])
    return item["op"] in MESSAGES and not {"after", "id"} & item.keys()


def _batched(block: Block, first: int, last: int) -> Proposal | None:
    """Return some items as one batch; None if a handle of theirs is not waited here."""
    run = block.items[first : last + 1]
    batch: dict[str, Any] = {
        "op": "batch",
        "ops": [p for one in run for p in map(_inner, _members(one))],
    }
    if "stream" in run[0]:
        batch["stream"] = run[0]["stream"]
    handles = [name for one in run for name in works(one)]
    waits = waits_of(block.items, last + 1, handles)
    if waits is None:
        return None
    is_late = all("work" in one for one in run)
    kept = waits[0] if is_late and waits else None
    if is_late:
        if kept is None:
            return None  # never waited: nothing says when the batch has to be complete
        batch["work"] = kept[1]
    edits = dropped(block, waits, None if kept is None else kept[1])
    edits += [remove(*block.at(at)) for at in range(last, first, -1)]
    edits.append(put(*block.at(first), value=batch))
    places = tuple(block.at(at) for at in range(first, last + 1))
    names = ", ".join(f"{{{n}}}" for n in range(len(places) - 1)) + f" and {{{len(places) - 1}}}"
    text = f"post {names} as one batch"
    return Proposal("batch", tuple(edits), frozenset(places), text, places, last - first)


def _inner(part: dict[str, Any]) -> dict[str, Any]:
    op = part["op"] if part["op"].startswith("i") else "i" + part["op"]
    kept = {key: value for key, value in part.items() if key not in {"work", "stream", "op"}}
    return {"op": op, **kept}


def waits_of(items: list[Any], start: int, handles: list[str]) -> list[tuple[int, str]] | None:
    """Return where each handle is waited, in order; None if that is not in this list, all at once.

    A handle may only be waited here: in another list, or polled, it is left alone.
    """
    open_handles, found = set(handles), []
    for at in range(start, len(items)):
        item = items[at]
        if isinstance(item, dict) and "work" in item:
            shared = [name for name in works(item) if name in open_handles]
            if shared and (item["op"] != "wait" or item.get("mode", "all") != "all"):
                return None
            found += [(at, name) for name in shared]
            open_handles -= set(shared)
    return None if open_handles else found


def dropped(block: Block, waits: list[tuple[int, str]], kept: str | None) -> list[Edit]:
    """Return the edits that take handles out of their waits, the last wait first."""
    edits: list[Edit] = []
    for at in sorted({at for at, _ in waits}, reverse=True):
        gone = {name for place, name in waits if place == at and name != kept}
        left = [name for name in works(block.items[at]) if name not in gone]
        if len(left) == len(works(block.items[at])):
            continue
        if left:
            work = left[0] if len(left) == 1 else left
            edits.append(put(*block.at(at), "work", value=work))
        else:
            edits.append(remove(*block.at(at)))
    return edits
