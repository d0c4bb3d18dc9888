"""Ranks ask each other for the order of collectives that their compilers chose.

Every rank compiles for itself. A pass that decides by what only its rank knows (the size of its
batch, its peak of memory, a measured time) may order collectives in another way there, and nothing
says so: the job hangs, or goes on with another layer's data. Before code is made, every rank puts
the order of its graph into the store that the ranks met at, and reads that of the others. A store
is no collective, so ranks that compile different numbers of graphs do not hang in it. The n-th
graph with communication is compared with the n-th of the other ranks.
"""

from __future__ import annotations

import itertools
import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from planguard.arguments import DURATION, MAPPING, RANKS, arguments
from planguard.capture.passes.pass_rules import Violation
from planguard.errors import PlanGuardError, UsageError
from planguard.plan.vocabulary import BOTH_SPLITS, EVERYONE, OPERATIONS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

SECONDS = 300.0
"""How long a rank waits for the others to compile the same graph."""
SIZED = frozenset(
    name for name in EVERYONE if OPERATIONS[name].agree and OPERATIONS[name].splits != BOTH_SPLITS
)
"""Collectives whose result has one size on all ranks."""
_GRAPHS = itertools.count()
_PLACEMENTS = itertools.count()
_SHOWN = 8


class Call(NamedTuple):
    """One collective of a graph, as ranks can compare it.

    Attributes:
        op: The operation.
        origin: Name of the graph node it comes from: the n-th of its kind in the program, so the
            same on ranks that run the same layers, whatever else they compute.
        size: Elements of its result, where ranks have to agree; else empty.
    """

    op: str
    origin: str
    size: str

    def __str__(self) -> str:
        return f"{self.origin or self.op}{f' of {self.size} elements' if self.size else ''}"


Order = dict[str, list[Call]]
"""Calls in order, by the ranks of their group."""


def disagreements(orders: Mapping[int, Order], rank: int) -> Iterator[Violation]:
    """Compare the order of a rank with those of the members of its groups.

    Args:
        orders: The order of every rank.
        rank: The rank that asks.

    Yields:
        The first difference on every group, as a violation of kind ``order``.
    """
    groups = dict.fromkeys(group for order in orders.values() for group in order)
    for ranks in groups:
        members = [int(one) for one in ranks.split(",")]
        if rank not in members:
            continue
        mine = orders[rank].get(ranks, [])
        for other in (member for member in members if member in orders):
            theirs = orders[other].get(ranks, [])
            found = next(
                (
                    (place, own, its)
                    for place, (own, its) in enumerate(itertools.zip_longest(mine, theirs))
                    if own != its
                ),
                None,
            )
            if found is not None:
                place, own, its = found
                message = (
                    f"call {place} on the group of ranks [{ranks}] is {own or 'missing'} here "
                    f"and {its or 'missing'} on rank {other}"
                )
                yield Violation("order", message, rank, own.origin if own else "")
                break


def ask(order: Order, seconds: float = SECONDS) -> tuple[list[Violation], list[int]]:
    """Tell the other ranks this rank's order, and compare it with theirs.

    Args:
        order: This rank's order of one graph.
        seconds: How long to wait for another rank.

    Returns:
        What differs, and the ranks that did not answer in time.
    """
    others = {int(one) for ranks in order for one in ranks.split(",")}
    rank, said, silent = _exchange(f"order/{next(_GRAPHS)}", order, others, seconds)
    orders = {rank: order}
    for other, theirs in said.items():
        orders[other] = {ranks: [Call(*one) for one in calls] for ranks, calls in theirs.items()}
    return list(disagreements(orders, rank)), silent


@arguments(placements=MAPPING, ranks=RANKS, patience=DURATION)
def assert_same_placements(
    placements: Mapping[Any, Any],
    *,
    ranks: Sequence[int] | None = None,
    patience: float = SECONDS,
) -> None:
    """Refuse a placement that another rank did not choose, before anything is made from it.

    A planner that solves for itself on every rank finds the same placement only if costs, limits,
    the order of its variables and the solver are the same there. The placements are compared as
    text, through the store that the ranks met at. Every rank of ``ranks`` has to call this.

    Args:
        placements: What was chosen for each node or parameter, by name: what AutoParallel's
            ``optimize_placement`` returns, or ``{"layer.weight": "S(0)R"}``.
        ranks: The ranks that have to agree; by default all.
        patience: Seconds to wait for another rank.

    Raises:
        PlanGuardError: If a rank chose something else, has other names, or does not answer.
        UsageError: If no process group is initialized.
    """
    needs_ranks()
    import torch.distributed as dist

    own = {str(name): str(value) for name, value in placements.items()}
    everyone = set(range(dist.get_world_size()) if ranks is None else ranks)
    rank, said, silent = _exchange(f"placements/{next(_PLACEMENTS)}", own, everyone, patience)
    found = [line for other in sorted(said) for line in unlike(own, said[other], rank, other)]
    found += [f"rank {other} did not answer in {patience:g} s" for other in silent]
    if found:
        more = f"\nand {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
        raise PlanGuardError(
            "ranks chose different placements:\n" + "\n".join(found[:_SHOWN]) + more,
            hint="solve on one rank and broadcast the solution",
        )


def unlike(
    own: Mapping[str, str], theirs: Mapping[str, str], rank: int, other: int
) -> Iterator[str]:
    """Yield a line for each name that two ranks placed differently, or only one of them has."""
    for name in dict.fromkeys([*own, *theirs]):
        if own.get(name) != theirs.get(name):
            here, there = own.get(name, "nothing"), theirs.get(name, "nothing")
            yield f"{name}: {here} on rank {rank}, {there} on rank {other}"


def _exchange(
    topic: str, payload: Any, others: set[int], seconds: float
) -> tuple[int, dict[int, Any], list[int]]:
    """Put a payload into the store and read those of other ranks; who is silent is listed."""
    import torch.distributed as dist

    rank, store = dist.get_rank(), dist.distributed_c10d._get_default_store()  # noqa: SLF001
    key = f"planguard/{topic}"
    store.set(f"{key}/{rank}", json.dumps(payload))
    said, silent = {}, []
    for other in sorted(others - {rank}):
        try:
            store.wait([f"{key}/{other}"], timedelta(seconds=seconds))
        except (RuntimeError, ValueError):  # DistStoreError, whatever the store
            silent.append(other)
            continue
        said[other] = json.loads(store.get(f"{key}/{other}"))
    return rank, said, silent


def order_of(talks: Sequence[Any], kernels: Mapping[str, Any]) -> Order:
    """Return the collectives of a graph by the ranks of their group.

    Sends and receives differ between ranks, and what is unknown has no group: neither is compared.

    Args:
        talks: Communications in order, as ``scheduler_side`` gives them.
        kernels: The kernel of each, by name.
    """
    import torch.distributed as dist

    found: Order = {}
    for talk in talks:
        if not talk.is_collective:
            continue
        group = dist.distributed_c10d._resolve_process_group(talk.group[1])  # noqa: SLF001
        ranks = ",".join(map(str, dist.get_process_group_ranks(group)))
        kernel = kernels[talk.node]  # has an operator: what has none is no communication
        size = _elements(kernel) if talk.op in SIZED else ""
        found.setdefault(ranks, []).append(Call(talk.op, _origin(kernel), size))
    return found


def _origin(kernel: Any) -> str:
    """Return the name of the graph node that a kernel comes from, if it is a collective."""
    names = [one.name for one in getattr(kernel, "origins", None) or () if one.op != "placeholder"]
    # Inductor reduces in place; what was traced is the operator without the underscore.
    wanted = str(getattr(kernel, "op_overload", "")).split(".")[1].rstrip("_")
    return next((name for name in sorted(names) if wanted in name), "")


def _elements(kernel: Any) -> str:
    try:
        return str(kernel.get_numel())
    except (AttributeError, NotImplementedError):
        return ""


def needs_ranks() -> None:
    """Refuse to ask where there is nobody to ask.

    Raises:
        UsageError: If no process group is initialized.
    """
    import torch.distributed as dist

    if not dist.is_initialized():
        raise UsageError(
            "others is 'ask', and there is no process group", hint="initialize it first"
        )
