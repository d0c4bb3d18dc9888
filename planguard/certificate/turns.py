"""Where threads of a process take turns at MPI (ADR 0031): what no certificate covers.

Under `mpi-pg` a certificate follows a process as one host that calls MPI and whose collectives do
not hold it up. That is a proof where no two threads of a process want MPI at one time: the host,
and a worker for each group. The test is a plain one, so that it can be read: a rank that starts
collectives without waiting at once, or has threads, and that calls MPI for anything else than the
collectives of one group, is left out.
"""

from __future__ import annotations

from planguard.certificate.agreement import PAIR, Call, OutsideError, calls_of

BLOCKS = {"unordered", "threads", "choice", "repeat", "batch"}
LOCAL = {"wait", "test", "drop", "compute", "host_sync", "event_record", "event_wait", "exit"}
LOCAL |= {"destroy", "h2d", "d2h", "d2d"}


def without_turns(flat: Call) -> None:
    """Refuse a plan in which two threads of a rank may want MPI at one time.

    Raises:
        OutsideError: There is such a rank.
    """
    for rank, body in flat["ranks"].items():
        groups, others, behind = set[str](), False, False
        for call in calls_of(body["actions"]):
            name = call["op"]
            behind |= name == "threads" or _is_behind(call)
            if name in PAIR | {"probe", "init", "new_group"}:
                others = True
            elif name not in BLOCKS | LOCAL:
                groups.add(call.get("group", "world"))
        if behind and (others or len(groups) > 1):
            raise OutsideError(
                f"rank {rank}: under mpi-pg two of its threads may want MPI at one time"
            )


def _is_behind(call: Call) -> bool:
    """Whether a call leaves collectives to a worker while the host goes on."""
    inner = [part["op"] for part in call["ops"]] if call["op"] == "batch" else []
    is_async = bool(call.get("async")) and call["op"] not in PAIR
    return is_async or any(name not in PAIR for name in inner)
