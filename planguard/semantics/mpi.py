"""The MPI family: wait blocks the host; small sends and rooted collectives may finish early.

Measured with MPICH 4.0.2 (threshold between 8 and 16 KiB) and Open MPI 4.1.4 (about 4 KB).

A gather or scatter goes down or up a tree whose shape depends on library and size, so a member may
need any other, the root or not. Measured with MPICH 5.0.2 and Open MPI 5.0.11, four ranks: without
rank 2, rank 3 never gets its part of a scatter by rank 0 (MPICH); a gather of 4 MB to rank 0 holds
up rank 2 without rank 3 (MPICH) and rank 3 without rank 1 (Open MPI). Hence the strict end of the
range waits for all, as for broadcast and reduce, and only the lenient end for the root alone.

Under torch, messages are posted by the host where they are called, collectives run in a worker
thread of their group, and every call of MPI is made under one lock (``execution.one_lock``; ADR
0031).

Under torch, ``new_group`` returns at once on a rank that is no member (torch 2.13,
``_new_process_group_helper``), and members call ``MPI_Barrier`` and ``MPI_Comm_create`` on the
communicator of the world (``ProcessGroupMPI::createProcessGroupMPI``), which every rank has to
enter. So the k-th creation in which a rank is a member waits for the k-th of every other: a proper
subset hangs, unless the rest of the world makes groups of its own at that moment (read, not run).
"""

from __future__ import annotations

from planguard.semantics.model import ROOTED_EARLY, ExecutionModel, Family, NewGroup, OwnMessages

_MISMATCH = (
    "MPI, measured: differing kinds hang; sent > received is an error, sent < received is accepted"
)

MPI_EAGER = ExecutionModel(
    name="mpi-eager",
    own_messages=OwnMessages.ALL,
    sync_is_a_kind=True,
    family=Family.HOST,
    is_mpi=True,
    eager=True,
    send_modes=True,
    short_ok=True,
    kind_slots=True,
    new_group=NewGroup.MEMBERS,
    early_degree=dict(ROOTED_EARLY),
    mismatch=_MISMATCH,
)
MPI_SYNC = ExecutionModel(
    name="mpi-sync",
    own_messages=OwnMessages.ALL,
    sync_is_a_kind=True,
    family=Family.HOST,
    is_mpi=True,
    send_modes=True,
    short_ok=True,
    kind_slots=True,
    new_group=NewGroup.MEMBERS,
    mismatch=_MISMATCH,
)
MPI_PG = ExecutionModel(
    name="mpi-pg",
    family=Family.HOST,
    is_mpi=True,
    one_lock=True,
    own_messages=OwnMessages.ASYNCHRONOUS,
    eager=True,
    kind_slots=True,
    new_group=NewGroup.ENTERING,
    early_degree=dict(ROOTED_EARLY),
    mismatch=_MISMATCH,
)

MODELS = (MPI_EAGER, MPI_SYNC, MPI_PG)
