"""What to change, read off the calls of a stuck set (the hints of the Intel Trace Collector)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planguard.plan.vocabulary import MESSAGES

if TYPE_CHECKING:
    from planguard.live.analysis import Stuck, Wait
    from planguard.live.state import Call

MAX_PARTNERS = 4
"""Partners of one call that a hint names."""


def hints(stuck: Stuck) -> tuple[str, ...]:
    """Return hints for a stuck set, the most likely one first."""
    calls = {wait.rank: wait.call for wait in stuck.waits}
    found: list[str] = []
    sends = [wait for wait in stuck.waits if wait.call.op == "send"]
    if len(sends) > 1 and len(sends) == len(stuck.waits):
        found.append(
            "all of these ranks send: make one side receive first, or post the operations together "
            "with batch_isend_irecv"
        )
    kinds = {wait.call.op in MESSAGES for wait in stuck.waits}
    if len(kinds) == 2:
        found.append(
            "some ranks are in a collective and others in a send or receive: put them in one order "
            "on all ranks, or make the send or receive non-blocking"
        )
    groups = {wait.call.group for wait in stuck.waits if wait.call.op not in MESSAGES}
    if len(groups) > 1:
        found.append(
            "ranks enter collectives of several groups in different orders: choose one order, or "
            "make one of them non-blocking with async_op=True"
        )
    for wait in stuck.waits:
        found += _of(wait, calls)
    return tuple(dict.fromkeys(found))


def _of(wait: Wait, calls: dict[int, Call]) -> list[str]:
    if wait.disagree:
        told = "; ".join(
            f"rank {rank} in {call.text()}{f' at {call.where}' if call.where else ''}"
            for rank, call in wait.partners[:MAX_PARTNERS]
        )
        said = f" ({told})" if told else ""
        return [
            (
                f"rank {wait.rank}: everybody has come to this {wait.call.op}{said}, so the calls "
                "do not fit: compare kind, sizes and element types"
            )
        ]
    found = [
        f"rank {gone} ended without its part of {wait.call.text()} of rank {wait.rank}"
        for gone in wait.ended
    ]
    if wait.call.op in MESSAGES and not wait.ended:
        others = [r for r in wait.missing if r in calls]
        found += [
            f"rank {wait.rank} waits for rank {other}, which is in {calls[other].text()}: was the "
            "message meant for another rank?"
            for other in others
            if calls[other].op == wait.call.op
        ]
    return found
