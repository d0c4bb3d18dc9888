"""Which calls of a thread hold up its host under the NCCL models, and what two threads create."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planguard.plan.vocabulary import HOST, MESSAGES, takes_round
from planguard.reordering.branches.assignments import leaves

if TYPE_CHECKING:
    from collections.abc import Iterator

    from planguard.semantics.model import ExecutionModel


Communicator = tuple[Any, ...]
"""A group, and the two ranks of a pair that has a communicator of its own in it."""


def holds_up(flat: dict[str, Any], model: ExecutionModel) -> bool:
    """Tell whether a call in some thread may block its host.

    Args:
        flat: The annotated flat plan.
        model: A model of devices, where other calls go on at once.
    """
    for rank, body in flat["ranks"].items():
        before = set[Communicator]()
        for item in body["actions"]:
            for threads in threads_of([item]):
                calls = [fields for thread in threads for fields in leaves(thread)]
                if any(fields["op"] in HOST for fields in calls):
                    return True
                if {c for fields in calls for c in made_by(fields, int(rank), model)} - before:
                    return True
            for fields in leaves([item]):
                before |= made_by(fields, int(rank), model)
    return False


def made_twice(flat: dict[str, Any], model: ExecutionModel) -> Communicator | None:
    """Return a communicator that two threads may be the first to use, if there is one.

    Which of them creates it, and what the other one does meanwhile, is not stated by torch:
    ``ProcessGroupNCCL::initNCCLComm`` (torch 2.13.0) looks it up and makes it without one lock
    around both.
    """
    for rank, body in flat["ranks"].items():
        before = set[Communicator]()
        for item in body["actions"]:
            for threads in threads_of([item], inner=True):
                seen = set[Communicator]()
                for thread in threads:
                    own = {
                        c for fields in leaves(thread) for c in made_by(fields, int(rank), model)
                    } - before
                    if seen & own:
                        return min(seen & own)
                    seen |= own
            for fields in leaves([item]):
                before |= made_by(fields, int(rank), model)
    return None


def made_by(fields: dict[str, Any], rank: int, model: ExecutionModel) -> set[Communicator]:
    """Return the communicators that exist after an action: it makes those that do not yet."""
    if not model.lazy_init and fields["op"] != "init":
        return set()
    batched = fields["op"] == "batch"
    found: set[Communicator] = set()
    for part in fields["ops"] if batched else [fields]:
        group = part.get("group", fields.get("group", "world"))
        pair = model.pair_comm and not batched and isinstance(part.get("peer"), int)
        if part["op"] in MESSAGES and pair:
            found.add((group, *sorted((rank, int(part["peer"])))))
        elif takes_round(part["op"]) or part["op"] in MESSAGES | {"init"}:
            found.add((group,))
    return found


def threads_of(items: Any, *, inner: bool = False) -> Iterator[list[Any]]:
    """Yield the threads of every `threads` block, at any depth of `unordered`.

    Args:
        items: Annotated actions and blocks.
        inner: Blocks inside threads, too.
    """
    for item in items:
        if isinstance(item, list):
            yield from threads_of(item, inner=inner)
        elif item["op"] == "threads":
            yield item["threads"]
            if inner:
                yield from threads_of(item["threads"], inner=True)
        elif item["op"] == "unordered":
            yield from threads_of(item["body"], inner=inner)
