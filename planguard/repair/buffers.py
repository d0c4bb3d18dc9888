"""Candidates that change the policy of a fused buffer: launch, drain, membership, cap."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from planguard.plan.vocabulary import bytes_of
from planguard.repair.proposal import Proposal, add

if TYPE_CHECKING:
    from collections.abc import Iterator

    from planguard.repair.document import PlanText

DEFAULTS = {
    "launch": "when-ready", "drain": "free", "membership": "fill", "coordination": "none",
}  # fmt: skip
"""What holds where a buffer does not say it: the least coordinated policy."""
POLICIES: tuple[tuple[str, dict[str, str], str], ...] = (
    ("launch", {"launch": "ordered"}, "launch the buckets of fused buffer {} in order"),
    ("launch", {"drain": "ordered"}, "flush what is left in fused buffer {} in order"),
    ("launch", {"launch": "ordered", "drain": "ordered"}, "launch and flush {} in order"),
    ("bucket", {"membership": "fixed"}, "fix which members of {} share a bucket"),
    (
        "bucket",
        {"membership": "fixed", "launch": "ordered", "drain": "ordered"},
        "fix which members of {} share a bucket, and launch the buckets in order",
    ),
    (
        "bucket",
        {"coordination": "negotiated"},
        "let the ranks agree on the flushes of {}, on a communicator of their own",
    ),
    ("bucket", {"coordination": "rank0-broadcast"}, "let rank 0 order the flushes of {}"),
)


def policies(text: PlanText) -> Iterator[Proposal]:
    """Yield every change of the policy of a fused buffer, and larger caps."""
    buffers = text.document.get("fusion", ())
    sizes = _sizes(text) if buffers else {}
    for at, buffer in enumerate(buffers):
        name = _plain(str(buffer["id"]))
        for kind, wanted, words in POLICIES:
            changes = {
                field: value
                for field, value in wanted.items()
                if buffer.get(field, DEFAULTS[field]) != value
            }
            if len(changes) == len(wanted):
                yield _changed(at, changes, kind, words.format(name))
        for span, cap in enumerate(_caps(buffer, sizes), 1):
            said = f"raise the cap of fused buffer {name} to {cap:,} bytes"
            yield _changed(at, {"cap_bytes": cap}, "bucket", said, span)


def _plain(name: str) -> str:
    return name.replace("{", "{{").replace("}", "}}")


def _caps(buffer: dict[str, Any], sizes: dict[str, int]) -> list[int]:
    """Return caps that hold one more member each, up to all in one bucket."""
    cap, members = buffer.get("cap_bytes"), buffer["members"]
    if cap is None or not all(member in sizes for member in members):
        return []
    totals = list(itertools.accumulate(sizes[member] for member in members))
    return [total for total in totals if total > cap]


def _sizes(text: PlanText) -> dict[str, int]:
    """Return the bytes of every action that has an id."""
    tensors = text.document.get("tensors", {})
    found: dict[str, int] = {}
    for part in text.parts:
        for item in part.items:
            if isinstance(item, dict) and "id" in item:
                size = bytes_of(item, tensors)
                if size is not None:
                    found[item["id"]] = max(size, found.get(item["id"], 0))
    return found


def _changed(at: int, changes: dict[str, Any], kind: str, said: str, span: int = 1) -> Proposal:
    edits = tuple(add("fusion", at, field, value=value) for field, value in changes.items())
    return Proposal(kind, edits, frozenset((("fusion", at),)), said, (), span + len(edits) - 1)
