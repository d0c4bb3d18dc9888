"""Programs that hang on real gloo processes, each with the small change that heals it.

Every program is a function of the rank, the groups and ``bug``; a line that is at fault carries a
comment ``<- mark``. ``record.py`` runs them with the Flight Recorder on and keeps the dumps;
``test_audit_gloo.py`` asks the audit which rank and which line it was.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass
class Program:
    """One program and what an audit of its dumps has to say.

    Attributes:
        run: The program.
        world: Number of ranks.
        code: Code of the first error finding.
        ranks: Ranks that it must name.
        says: What its text must contain; ``@mark`` stands for the line with that mark.
        groups: Members of the groups that are made before, by name.
        plan: Program per rank of the plan that hangs, where the audit needs one.
        healed: The plan of the healed program; ``plan`` if None.
        stacks: The audit is given the stacks of the ranks.
    """

    run: Callable[..., None]
    world: int
    code: str
    ranks: tuple[int, ...]
    says: tuple[str, ...] = ()
    groups: dict[str, list[int]] = field(default_factory=dict)
    plan: dict[int, list[dict[str, Any]]] | None = None
    healed: dict[int, list[dict[str, Any]]] | None = None
    stacks: bool = False


PROGRAMS: dict[str, Program] = {}


def program(world: int, code: str, ranks: tuple[int, ...], says: tuple[str, ...] = (), **more: Any):
    """Register a program under the name of its function."""

    def keep(run: Callable[..., None]) -> Callable[..., None]:
        PROGRAMS[run.__name__] = Program(run, world, code, ranks, says, **more)
        return run

    return keep


def pair(op: str, peer: int, count: int = 4) -> dict[str, Any]:
    """A planned send or receive."""
    return {"op": op, "peer": peer, "count": count, "dtype": "f32"}


def reduce(group: str) -> dict[str, Any]:
    """A planned all_reduce."""
    return {"op": "all_reduce", "group": group, "count": 4, "dtype": "f32"}


BARRIER = {"op": "barrier"}


def ones(count: int = 4) -> torch.Tensor:
    """A tensor to communicate."""
    return torch.ones(count)


def idle() -> None:
    """A rank that does something else for longer than anybody looks."""
    time.sleep(60)


# --- a rank that does not come -------------------------------------------------------------------


@program(3, "PG007", (2,), ("rank 2 never reached all_reduce #2", "@last"))
def missing_all_reduce(rank, groups, bug):
    """Rank 2 computes forever while the others reduce."""
    dist.all_reduce(ones())  # <- last
    if bug and rank == 2:
        idle()
    dist.all_reduce(ones())


@program(4, "PG009", (3,), ("rank 3 never reached barrier #3",))
def missing_barrier(rank, groups, bug):
    """Rank 3 leaves the loop one barrier early."""
    for step in range(3):
        if bug and rank == 3 and step == 2:
            break
        dist.barrier()


@program(4, "PG007", (3,), ("all_gather #1",))
def missing_all_gather(rank, groups, bug):
    """Rank 3 never gathers."""
    if bug and rank == 3:
        idle()
    dist.all_gather([ones() for _ in range(4)], ones())


@program(4, "PG007", (3,), ("gather #2",))
def missing_gather(rank, groups, bug):
    """A gather whose root waits for one sender."""
    dist.barrier()
    if bug and rank == 3:
        idle()
    dist.gather(ones(), [ones() for _ in range(4)] if rank == 0 else None, dst=0)


@program(2, "PG007", (1,), ("broadcast #2",))
def missing_broadcast_root(rank, groups, bug):
    """The root of a broadcast stays away."""
    dist.barrier()
    if bug and rank == 1:
        idle()
    dist.broadcast(ones(), src=1)


@program(2, "PG007", (1,), ("scatter #2",))
def missing_scatter_root(rank, groups, bug):
    """The root of a scatter stays away."""
    dist.barrier()
    if bug and rank == 1:
        idle()
    dist.scatter(ones(), [ones(), ones()] if rank == 1 else None, src=1)


@program(2, "PG007", (0,), ("all_to_all #2",))
def missing_all_to_all(rank, groups, bug):
    """An all-to-all that one side never starts."""
    dist.barrier()
    if bug and rank == 0:
        idle()
    dist.all_to_all_single(ones(), ones())


@program(4, "PG007", (1,), ("group 1", "blocked behind them"), groups={"a": [0, 1], "b": [0, 2, 3]})
def missing_behind_another_group(rank, groups, bug):
    """Rank 1 is missing on one group; ranks 2 and 3 wait on another for the rank it holds up."""
    if rank in (0, 1):
        dist.all_reduce(ones(), group=groups["a"])
    if rank in (0, 2, 3):
        dist.all_reduce(ones(), group=groups["b"])
    if bug and rank == 1:
        idle()
    if rank in (0, 1):
        dist.all_reduce(ones(), group=groups["a"])
    if rank in (0, 2, 3):
        dist.all_reduce(ones(), group=groups["b"])


@program(3, "PG007", (0,), ("@early",))
def early_return_of_one_rank(rank, groups, bug):
    """Rank 0 stops on a condition that only it sees."""
    for step in range(4):
        dist.all_reduce(ones())  # <- early
        if bug and rank == 0 and step == 1:
            idle()


@program(3, "PG007", (1,), ("reduce_scatter", "@scatter"))
def missing_reduce_scatter(rank, groups, bug):
    """A reduce_scatter, which gloo writes down as an all_reduce, waits for rank 1."""
    dist.barrier()
    if bug and rank == 1:
        idle()
    dist.reduce_scatter_tensor(ones(1), ones(3))  # <- scatter


# --- a call left out or added in the middle --------------------------------------------------------


@program(3, "PG007", (1,), ("rank 1 left out all_reduce", "@skip"))
def skipped_in_the_middle(rank, groups, bug):
    """Rank 1 skips one all_reduce; its later ones meet the wrong rounds, the last one waits."""
    dist.all_reduce(ones())
    if not (bug and rank == 1):
        dist.all_reduce(ones())  # <- skip
    dist.all_reduce(ones())
    dist.all_reduce(ones())


@program(3, "PG007", (2,), ("rank 2 alone calls all_reduce", "@extra"))
def added_in_the_middle(rank, groups, bug):
    """Rank 2 logs a metric that nobody else reduces (netket PR 2275)."""
    dist.all_reduce(ones())
    if bug and rank == 2:
        dist.all_reduce(ones())  # <- extra
    dist.all_reduce(ones())
    dist.all_reduce(ones())


@program(3, "PG201", (1,), ("rank 1 left out broadcast", "@skip"))
def skipped_before_another_kind(rank, groups, bug):
    """Rank 1 skips a broadcast, so its all_reduce meets the others' broadcast."""
    dist.all_reduce(ones())
    if not (bug and rank == 1):
        dist.broadcast(ones(), src=0)  # <- skip
    dist.all_reduce(ones())
    dist.barrier()


@program(
    3, "PG201", (0,), ("rank 0 calls all_gather where ranks 1 and 2 call all_reduce", "@rank0")
)
def rank0_only_collective(rank, groups, bug):
    """A collective inside `if rank == 0` (transformers issue 17478)."""
    dist.all_reduce(ones())
    if bug and rank == 0:
        dist.all_gather([ones() for _ in range(3)], ones())  # <- rank0
    dist.all_reduce(ones())
    dist.barrier()


@program(2, "PG201", (0, 1), ("@uneven",))
def uneven_batches(rank, groups, bug):
    """Rank 1 has one batch less than rank 0 (Join would heal it)."""
    for _ in range(4 if bug and rank == 0 else 3):
        dist.all_reduce(ones())  # <- uneven
    dist.barrier()


# --- kinds, sizes, types ---------------------------------------------------------------------------


@program(3, "PG201", (2,), ("rank 2 calls barrier where ranks 0 and 1 call all_reduce", "@kind"))
def kind_all_reduce_barrier(rank, groups, bug):
    """Rank 2 is at the barrier while the others reduce."""
    dist.all_reduce(ones())
    if bug and rank == 2:
        dist.barrier()  # <- kind
    else:
        dist.all_reduce(ones())


@program(3, "PG201", (1,), ("rank 1 calls all_gather",))
def kind_broadcast_all_gather(rank, groups, bug):
    """Rank 1 gathers what the others broadcast."""
    if bug and rank == 1:
        dist.all_gather([ones() for _ in range(3)], ones())
    else:
        dist.broadcast(ones(), src=0)


@program(3, "PG201", (0,), ("rank 0 calls scatter",))
def kind_gather_scatter(rank, groups, bug):
    """Rank 0 scatters what the others gather."""
    if bug and rank == 0:
        dist.scatter(ones(), [ones() for _ in range(3)], src=0)
    else:
        dist.gather(ones(), [ones() for _ in range(3)] if rank == 0 else None, dst=0)


@program(3, "PG201", (2,), ("rank 2 calls all_to_all",))
def kind_reduce_scatter_all_to_all(rank, groups, bug):
    """Rank 2 exchanges while the others reduce and scatter (PR 72843 of pytorch)."""
    dist.barrier()
    if bug and rank == 2:
        dist.all_to_all_single(ones(3), ones(3))
    else:
        dist.reduce_scatter_tensor(ones(1), ones(3))


@program(2, "PG201", (0, 1), ("neither side is blamed",))
def swapped_kinds_one_group(rank, groups, bug):
    """all_reduce then broadcast on rank 0, the other way round on rank 1."""
    calls = [lambda: dist.all_reduce(ones()), lambda: dist.broadcast(ones(), src=0)]
    for call in reversed(calls) if bug and rank == 1 else calls:
        call()


@program(3, "PG202", (2,), ("sizes differ in all_reduce, round 2",))
def size_of_one_rank(rank, groups, bug):
    """Rank 2 has an uneven last shard (pytorch issue 97191); gloo waits for bytes that never come."""
    dist.all_reduce(ones())
    dist.all_reduce(ones(1 if bug and rank == 2 else 2))


# --- cycles through several groups -----------------------------------------------------------------


@program(
    2,
    "PG004",
    (0, 1),
    ("rank 0 waits in all_reduce #1", "rank 1 waits in all_reduce #1"),
    groups={"a": [0, 1], "b": [0, 1]},
)
def two_groups_crossed(rank, groups, bug):
    """Two groups over the same ranks, used in opposite orders."""
    for name in ("b", "a") if bug and rank == 1 else ("a", "b"):
        dist.all_reduce(ones(), group=groups[name])


@program(
    3,
    "PG004",
    (0, 1, 2),
    ("cross-communicator deadlock",),
    groups={"ab": [0, 1], "bc": [1, 2], "ca": [0, 2]},
)
def triangle_of_groups(rank, groups, bug):
    """Three groups around a triangle, each rank starting with its own."""
    order = {0: ("ab", "ca"), 1: ("bc", "ab"), 2: ("ca", "bc")}[rank]
    if not bug:
        order = tuple(name for name in ("ab", "bc", "ca") if name in order)
    dist.barrier()
    for name in order:
        dist.all_reduce(ones(), group=groups[name])


@program(
    4,
    "PG004",
    (1, 2),
    ("ranks 0 and 3", "rank 2 departs from the plan"),
    groups={"low": [0, 1, 2], "high": [1, 2, 3]},
    plan={
        0: [reduce("low")],
        1: [reduce("low"), reduce("high")],
        2: [reduce("low"), reduce("high")],
        3: [reduce("high")],
    },
)
def overlapping_groups(rank, groups, bug):
    """Ranks 1 and 2 share two groups and disagree about the order; 0 and 3 wait behind them."""
    mine = [name for name in ("low", "high") if rank in ([0, 1, 2] if name == "low" else [1, 2, 3])]
    if bug and rank == 2:
        mine.reverse()
    for name in mine:
        dist.all_reduce(ones(), group=groups[name])


@program(
    3,
    "PG004",
    (0, 1),
    ("cross-communicator deadlock",),
    groups={"pair": [0, 1]},
    plan={
        0: [reduce("world"), reduce("pair")],
        1: [reduce("world"), reduce("pair")],
        2: [reduce("world")],
    },
)
def world_against_subgroup(rank, groups, bug):
    """Rank 0 enters the world first, rank 1 the pair (torchrec PR 4149)."""
    steps = ["world", "pair"] if rank != 1 or not bug else ["pair", "world"]
    for step in steps:
        if step == "world":
            dist.all_reduce(ones())
        elif rank < 2:
            dist.all_reduce(ones(), group=groups["pair"])


@program(2, "PG004", (0, 1), ("cross-communicator deadlock",), groups={"a": [0, 1], "b": [0, 1]})
def async_waits_crossed(rank, groups, bug):
    """Asynchronous calls help nothing when each is waited for before the next is issued."""
    for name in ("b", "a") if bug and rank == 1 else ("a", "b"):
        dist.all_reduce(ones(), group=groups[name], async_op=True).wait()


# --- sends and receives, which gloo's recorder does not write down ----------------------------------


@program(
    2,
    "PG001",
    (0, 1),
    ("ranks 0 and 1 wait in send() for each other", "stand just there"),
    plan={r: [BARRIER, pair("send", 1 - r), pair("recv", 1 - r)] for r in (0, 1)},
    healed={
        0: [BARRIER, pair("send", 1), pair("recv", 1)],
        1: [BARRIER, pair("recv", 0), pair("send", 0)],
    },
)
def head_to_head_send(rank, groups, bug):
    """Both ranks send before they receive (nccl issue 479)."""
    dist.barrier()
    if rank == 0 or bug:
        dist.send(ones(), 1 - rank)
        dist.recv(ones(), 1 - rank)
    else:
        dist.recv(ones(), 1 - rank)
        dist.send(ones(), 1 - rank)


@program(
    3,
    "PG001",
    (0, 1, 2),
    ("wait in send()",),
    plan={r: [BARRIER, pair("send", (r + 1) % 3), pair("recv", (r - 1) % 3)] for r in range(3)},
    healed={
        0: [BARRIER, pair("recv", 2), pair("send", 1)],
        1: [BARRIER, pair("send", 2), pair("recv", 0)],
        2: [BARRIER, pair("send", 0), pair("recv", 1)],
    },
)
def ring_of_sends(rank, groups, bug):
    """A ring in which everybody sends first (Megatron-LM issue 5100)."""
    dist.barrier()
    if rank == 0 and not bug:
        dist.recv(ones(), 2)
        dist.send(ones(), 1)
    else:
        dist.send(ones(), (rank + 1) % 3)
        dist.recv(ones(), (rank - 1) % 3)


@program(
    2,
    "PG003",
    (0, 1),
    ("hybrid deadlock",),
    plan={0: [BARRIER, pair("recv", 1), BARRIER], 1: [BARRIER, BARRIER, pair("send", 0)]},
    healed={0: [BARRIER, pair("recv", 1), BARRIER], 1: [BARRIER, pair("send", 0), BARRIER]},
)
def receive_before_barrier(rank, groups, bug):
    """Rank 0 receives before a barrier that rank 1 enters before it sends."""
    dist.barrier()
    if rank == 0:
        dist.recv(ones(), 1)
        dist.barrier()
    elif bug:
        dist.barrier()
        dist.send(ones(), 0)
    else:
        dist.send(ones(), 0)
        dist.barrier()


@program(2, "PG009", (0,), ("rank 0 never reached barrier #2", "inside recv"), stacks=True)
def receive_nobody_sends(rank, groups, bug):
    """Rank 1 forgets the send that rank 0 receives, and goes on to the barrier."""
    dist.barrier()
    if rank == 0:
        dist.recv(ones(), 1)
    elif not bug:
        dist.send(ones(), 0)
    dist.barrier()


@program(
    2,
    "PG009",
    (0,),
    ("next for rank 0: send -> 1", "rank 1 departs from the plan", "recv <- 0"),
    plan={0: [BARRIER, pair("send", 1), BARRIER], 1: [BARRIER, pair("recv", 0), BARRIER]},
)
def forgotten_receive(rank, groups, bug):
    """The plan has rank 1 receive; the program does not."""
    dist.barrier()
    if rank == 0:
        dist.send(ones(), 1)
    elif not bug:
        dist.recv(ones(), 0)
    dist.barrier()


@program(2, "PG501", (0, 1), ("point-to-point calls", "@first"), stacks=True)
def stacks_of_head_to_head(rank, groups, bug):
    """Two sends that meet, seen only in the stacks."""
    dist.barrier()
    if bug:
        dist.send(ones(), 1 - rank)  # <- first
