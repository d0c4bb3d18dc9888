"""The MPI family: wait blocks the host; small sends and rooted collectives may finish early.

Measured with MPICH 4.0.2 (threshold between 8 and 16 KiB) and Open MPI 4.1.4 (about 4 KB).
"""

from __future__ import annotations

from planguard.semantics.model import (
    ROOTED_EARLY,
    ROOTED_FLAT,
    ExecutionModel,
    Family,
    NewGroup,
)

_MISMATCH = (
    "MPI, measured: differing kinds hang; sent > received is an error, sent < received is accepted"
)

MPI_EAGER = ExecutionModel(
    name="mpi-eager",
    sync_is_a_kind=True,
    family=Family.HOST,
    eager=True,
    send_modes=True,
    short_ok=True,
    kind_slots=True,
    new_group=NewGroup.MEMBERS,
    degree=dict(ROOTED_FLAT),
    early_degree=dict(ROOTED_EARLY),
    mismatch=_MISMATCH,
)
MPI_SYNC = ExecutionModel(
    name="mpi-sync",
    sync_is_a_kind=True,
    family=Family.HOST,
    send_modes=True,
    short_ok=True,
    kind_slots=True,
    new_group=NewGroup.MEMBERS,
    degree=dict(ROOTED_FLAT),
    mismatch=_MISMATCH,
)
MPI_PG = ExecutionModel(
    name="mpi-pg",
    family=Family.WORKER,
    eager=True,
    kind_slots=True,
    new_group=NewGroup.MEMBERS,
    degree=dict(ROOTED_FLAT),
    early_degree=dict(ROOTED_EARLY),
    mismatch=_MISMATCH,
)

MODELS = (MPI_EAGER, MPI_SYNC, MPI_PG)
