"""The numbers of records in the log of an MPI program (native/preload/mpi_records.h): stored."""

from __future__ import annotations

from planguard.plan.vocabulary import MPI_LOGGED, REDUCING

MODES = (None, "synchronous", "buffered", "ready")
SENDS = {100: 0, 101: 1, 102: 2, 103: 3}
ISENDS = {105: 0, 106: 1, 107: 2, 108: 3}
RECV, IRECV, WAIT = 104, 109, 110
FORMS = {
    160: ("all_gather", "MPI_Allgatherv"), 161: ("gather", "MPI_Gatherv"),
    162: ("scatter", "MPI_Scatterv"), 163: ("all_to_all", "MPI_Alltoallv"),
    164: ("all_to_all", "MPI_Alltoallw"), 165: ("reduce_scatter", "MPI_Reduce_scatter"),
    166: ("reduce_scatter", "MPI_Reduce_scatter_block"),
}  # fmt: skip
ROUNDS = {**dict(enumerate(MPI_LOGGED, 120)), **{at: op for at, (op, _) in FORMS.items()}}
MAKING = {
    130: "MPI_Comm_split", 131: "MPI_Comm_dup", 132: "MPI_Comm_create", 133: "MPI_Finalize",
    134: "MPI_Comm_split_type", 135: "MPI_Comm_create_group", 136: "MPI_Cart_create",
    137: "MPI_Cart_sub", 138: "MPI_Comm_dup_with_info", 139: "MPI_Win_create",
    140: "MPI_Win_allocate", 141: "MPI_Win_allocate_shared", 142: "MPI_Win_create_dynamic",
    143: "MPI_Win_free", 144: "MPI_Win_fence",
}  # fmt: skip
FINALIZE, NOT_FOLLOWED, POLLED, COUNTS, MEMBER, WAIT_ANY = 133, 150, 151, 152, 153, 154
TESTED, FREED, PROBE, MPROBE, LOOSE, INFO = 155, 156, 157, 158, 159, 50
WINDOWS = range(139, 145)
ANY, ANY_TAG, OWN_OP = -2, 0xFFFFFFFF, 200
DTYPES = dict(enumerate(("i8", "u8", "i16", "i32", "i64", "f32", "f64", "bool")))
REDUCES = {at for at, op in ROUNDS.items() if op in REDUCING}
REDUCE_OPS = dict(enumerate((
    "sum", "product", "max", "min", "land", "band", "lor", "bor", "lxor", "bxor",
    "minloc", "maxloc",
)))  # fmt: skip
