"""What stands in texts that tell of a hang: by it a text is recognized, and a large one is sieved.

Every reader of texts looks for one of these; a new reader adds its own here.
"""

from __future__ import annotations

import re

TELLING = (
    b"NCCL INFO", b"Watchdog caught", b"last enqueued ", b"Detected mismatch between collectives",
    b"onitoredBarrier", b"monitored_barrier", b"ChildFailedError", b"Fatal Python error",
    b"EnforceNotMet", b"failed (exitcode", b"srun: error", b"have launched up to operation",
    b"Communicators...", b"remainder of ranks for more than", b"EI0002: ",
    b"to join the rendezvous", b"joined the rendezvous", b"to avoid infinite hangs",
    b"MPI_ABORT was invoked", b"called MPI_Abort", b"noticed that process rank",
    b"KILLED BY SIGNAL", b"The first process to do so was", b"first observed failure",
    b"(most recent call last)", b"(most recent call first)", b"OutOfMemoryError: ",
    b"Barrier timed out. Id:", b"stopped sending heartbeats", b" heartbeat timeout. ",
    b"DDP expects same model", b"of the same param in process 0",
    b"NCCL WARN Cuda failure", b"NCCL WARN HIP failure",
    b"CUDA out of memory", b"out of memory. Tried to allocate", b"'std::bad_alloc'",
)  # fmt: skip
"""One of them makes a text one that an audit reads."""
BESIDE = (
    b"[rank", b"ProcessGroup", b"Last enqueued ", b"lagging", b" ranks:", b"unstuck!", b"RankID:",
    b"may be stuck", b" RUNNING AT ", b'File "', b"Process ", b"Thread ", b"[Rank ",
    b"CollectiveFingerPrint", b" worker group", b"/task:", b"reached the barrier",
    b"Setting OMP_NUM_THREADS", b"elastic_operator", b"nitializing distributed", b"*** STEP ",
    b"WORLD INFO DICT", b"distributed init (rank", b"NCCL version ", b"store_based_barrier_key",
)  # fmt: skip
"""What readers look for as well, once a text is one of theirs."""
STARTS = (
    b"(most recent call", b"Communicators...", b"Job summary", b"remainder of ranks for more than",
    b"Process ", b"Thread ", b" ranks:", b"first observed failure", b"The first process to do so",
    b"=== Rank ", b"stack trace of the failed", b"Stack trace of the failed",
    b"Barrier timed out. Id:", b"stopped sending heartbeats",
)  # fmt: skip
"""Headlines: what follows them belongs to them."""
_OTHER = re.compile(
    rb"ProcessGroup[A-Z]\w*\.cpp|been waiting for [^\n]{0,400}may be stuck|"
    rb"^[^\n]{0,60}?(?:Process \d+: |Current thread 0x)|"
    rb"^[^\n]{0,60}?Thread (?:0x)?[0-9a-fA-F]+ \(",
    re.MULTILINE,
)


def tells(data: bytes) -> bool:
    """Tell whether a text holds anything that an audit reads."""
    return any(mark in data for mark in TELLING) or _OTHER.search(data) is not None
