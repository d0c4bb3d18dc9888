"""Rooted collectives that a rank may leave before all are there, call by call.

Under the MPI models that finish early, the strict end of the range waits for all members; at the
lenient end (`semantics.mpi`)

```
who only sends, at most the eager size    waits for nobody
the root, else                            waits for all
another member                            waits for the root alone: of any size, since no member
                                          needs the data of another one
```

Where runs are confluent the two ends decide (`execution.decide`). Where they are not, each rank may
leave each call early or not: a rank that goes on sooner may bring about another order or meeting.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planguard.kernels.twin_issue import INWARD
from planguard.plan.actions import KIND_MASK, NONE
from planguard.semantics.model import UNLIMITED

if TYPE_CHECKING:
    from planguard.plan.plan import Plan
    from planguard.semantics.model import ExecutionModel

Leavers = dict[tuple[int, int], int | None]
"""Rank and entry of a call, to the rank that it needs at least (the root), or to nobody."""


def leavers(plan: Plan, columns: Any, model: ExecutionModel, limit: int) -> Leavers:
    """Return the calls that a rank may leave before all members are there.

    Args:
        plan: The plan.
        columns: Its columns.
        model: The execution model; only some let rooted collectives finish early.
        limit: Bytes that finish early.
    """
    found: Leavers = {}
    kinds, code = model.early_degree or {}, plan.code
    for rank in range(columns.world_size if kinds else 0):
        begin = columns.rank_off[rank]
        for at in range(begin, columns.rank_off[rank + 1]):
            kind, sig = columns.op[at] & KIND_MASK, columns.sig[at]
            if kind not in kinds:
                continue
            ginst = columns.slot_ginst[columns.arg[at]]
            members = columns.slot_rank[columns.ginst_off[ginst] : columns.ginst_off[ginst + 1]]
            root = members[0] if code.sig_root[sig] == NONE else code.sig_root[sig]
            size = code.sig_bytes[sig]
            only_sends = (rank == root) != (kind in INWARD)
            if len(members) > 1 and only_sends and (size <= limit or size == UNLIMITED):
                found[rank, at - begin] = None
            elif len(members) > 2 and rank != root:
                found[rank, at - begin] = root
    return found
