"""Every family of MPI calls, really run: right programs are SAFE, and their twins are found."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from mpi_jobs import LIBRARIES, Interposed

from planguard.verdict import Outcome

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.wheel


@pytest.fixture(scope="module", params=LIBRARIES, ids=lambda library: library.name)
def mpi(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Interposed:
    """An MPI library with the interposer that was compiled for it."""
    library = request.param
    if not library.is_here():
        pytest.skip(f"{library.tool('mpicxx')} is not installed")
    return Interposed.made(library, tmp_path_factory.mktemp("interposer"))


RIGHT = {
    "nonblocking": """
      MPI_Iallreduce(b, d, 4, MPI_INT, MPI_SUM, c, &q[0]);
      MPI_Ibcast(b, 4, MPI_DOUBLE, 1, c, &q[1]);
      MPI_Ibarrier(c, &q[2]);
      MPI_Ialltoallv(b, one, at, MPI_INT, d, one, at, MPI_INT, c, &q[3]);
      MPI_Waitall(4, q, MPI_STATUSES_IGNORE);
      MPI_Iallgather(b, 2, MPI_INT, d, 2, MPI_INT, c, q); MPI_Wait(q, &s);""",
    "counts": """
      MPI_Allgatherv(b, up[r], MPI_INT, d, up, upat, MPI_INT, c);
      MPI_Gatherv(b, up[r], MPI_FLOAT, d, up, upat, MPI_FLOAT, 1, c);
      MPI_Scatterv(b, up, upat, MPI_DOUBLE, d, up[r], MPI_DOUBLE, 2, c);
      for (i = 0; i < n; i++) one[i] = (i + 1) * (r + 1), at[i] = 16 * i, up[i] = one[i];
      MPI_Alltoallv(b, one, at, MPI_INT, d, up, at, MPI_INT, c);
      for (i = 0; i < n; i++) one[i] = i + 1;
      MPI_Reduce_scatter(b, d, one, MPI_INT, MPI_MAX, c);
      MPI_Reduce_scatter_block(b, d, 5, MPI_INT, MPI_BAND, c);
      MPI_Gather(MPI_IN_PLACE, 0, MPI_INT, d, 2, MPI_INT, 0, MPI_COMM_SELF);""",
    "persistent": """
      MPI_Send_init(b, 8, MPI_INT, (r + 1) % n, 3, c, &q[0]);
      MPI_Recv_init(d, 8, MPI_INT, (r + n - 1) % n, 3, c, &q[1]);
      for (i = 0; i < 3; i++) { MPI_Startall(2, q); MPI_Waitall(2, q, MPI_STATUSES_IGNORE); }
      MPI_Request_free(&q[0]); MPI_Request_free(&q[1]);""",
    "probed": """
      if (r) MPI_Send(b, r, MPI_INT, 0, r, c);
      else for (i = 1; i < n; i++) {
        MPI_Message m; MPI_Mprobe(i, i, c, &m, &s); MPI_Get_count(&s, MPI_INT, &k);
        MPI_Mrecv(d, k, MPI_INT, &m, &s); }""",
    "communicators": """
      int dims[2] = {2, 2}, wraps[2] = {1, 1}, kept[2] = {1, 0}; MPI_Comm cart, row; MPI_Group g, h;
      MPI_Cart_create(c, 2, dims, wraps, 0, &cart); MPI_Cart_sub(cart, kept, &row);
      MPI_Allreduce(b, d, 3, MPI_LONG, MPI_MIN, row);
      MPI_Comm_split_type(c, MPI_COMM_TYPE_SHARED, r, MPI_INFO_NULL, &made);
      MPI_Barrier(made);
      MPI_Comm_group(c, &g); MPI_Group_incl(g, 2, at, &h);
      if (r < 2) { MPI_Comm_create_group(c, h, 5, &made); MPI_Bcast(b, 9, MPI_CHAR, 1, made); }""",
    "own-operation": """
      MPI_Op_create(own, 1, &o); MPI_Allreduce(b, d, 4, MPI_INT, o, c);
      MPI_Reduce(b, d, 4, MPI_INT, o, 1, c);""",
    "exchange": """
      MPI_Sendrecv_replace(b, 9, MPI_INT, (r + 1) % n, 4, (r + n - 1) % n, 4, c, &s);
      MPI_Sendrecv(b, 3, MPI_INT, r + 1 < n ? r + 1 : MPI_PROC_NULL, 1, d, 3, MPI_INT,
                   r ? r - 1 : MPI_PROC_NULL, 1, c, &s);
      MPI_Scan(b, d, 2, MPI_INT, MPI_SUM, c); MPI_Exscan(b, d, 2, MPI_INT, MPI_SUM, c);""",
    "larger-receive": """
      if (r == 0) MPI_Send(b, 4, MPI_INT, 1, 0, c);
      if (r == 1) MPI_Recv(d, 100, MPI_INT, 0, 0, c, &s);""",
    "any-tag": """
      MPI_Bcast(b, 4, MPI_INT, 1, c);
      if (r) { MPI_Send(b, 1, MPI_INT, 0, r, c); MPI_Send(b, 2, MPI_INT, 0, 9, c); }
      if (!r) for (i = 1; i < n; i++) for (k = 1; k < 3; k++) {
        MPI_Message m; MPI_Mprobe(i, MPI_ANY_TAG, c, &m, &s);
        MPI_Mrecv(d, k, MPI_INT, &m, &s); }""",
    "asked-for-threads-and-used-none": "MPI_Query_thread(&i); MPI_Barrier(c);",
    "one-sided": """
      MPI_Win w; char *p; MPI_Win_allocate(64, 1, MPI_INFO_NULL, c, &p, &w);
      MPI_Win_fence(0, w); MPI_Put(d, 4, MPI_INT, (r + 1) % n, 0, 4, MPI_INT, w);
      MPI_Accumulate(d, 4, MPI_INT, 0, 4, 4, MPI_INT, MPI_SUM, w); MPI_Win_fence(0, w);
      MPI_Win_free(&w); MPI_Win_create(b, 64, 1, MPI_INFO_NULL, c, &w); MPI_Win_free(&w);""",
    "to-itself": """
      MPI_Irecv(d, 4, MPI_INT, r, 0, c, q); MPI_Isend(b, 4, MPI_INT, r, 0, c, q + 1);
      MPI_Irecv(d, 4, MPI_INT, (r + 1) % n, 0, c, q + 2);
      MPI_Send(b, 4, MPI_INT, (r + n - 1) % n, 0, c);
      MPI_Waitall(3, q, MPI_STATUSES_IGNORE);
      MPI_Sendrecv(b, 3, MPI_INT, r, 1, d, 3, MPI_INT, r, 1, c, &s);
      for (i = 0, q[0] = MPI_REQUEST_NULL; !i;) MPI_Test(q, &i, &s);""",
    "nothing-of-another-type": """
      if (r == 0) { MPI_Send(0, 0, MPI_INT, 1, 0, c); MPI_Send(b, 2, MPI_DOUBLE, 1, 1, c); }
      if (r == 1) MPI_Recv(d, 9, MPI_CHAR, 0, 0, c, &s), MPI_Recv(d, 2, MPI_DOUBLE, 0, 1, c, &s);
      MPI_Bcast(b, 0, r ? MPI_INT : MPI_DOUBLE, 0, c);
      for (i = 0; i < n; i++) one[i] = i;
      MPI_Gatherv(b, r, r ? MPI_DOUBLE : MPI_CHAR, d, one, at, MPI_DOUBLE, 2, c);
      MPI_Allgatherv(b, r, MPI_INT, d, one, at, MPI_INT, c);""",
    "derived-type": """
      MPI_Datatype pair; MPI_Type_contiguous(2, MPI_INT, &pair); MPI_Type_commit(&pair);
      if (r) MPI_Bcast(b, 4, MPI_INT, 0, c); else MPI_Bcast(b, 2, pair, 0, c);
      if (r) MPI_Gatherv(b, 2 * r, MPI_INT, 0, 0, 0, MPI_INT, 0, c);
      else MPI_Gatherv(b, 0, MPI_INT, d, at, upat, pair, 0, c);""",
}


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_program_is_safe(mpi: Interposed, tmp_path: Path, name: str) -> None:
    """Four ranks; the program ends by itself too."""
    verdict = mpi.verdict(RIGHT[name], tmp_path, 4)
    assert verdict.outcome is Outcome.SAFE, verdict.to_json()


WRONG = {
    # name: (program, codes of which one is found, seconds)
    "nonblocking-meets-blocking": (
        "if (r) MPI_Barrier(c); else { MPI_Ibarrier(c, q); MPI_Wait(q, &s); }", {"PG201"}, 4,
    ),
    "root": ("MPI_Ibcast(b, 4, MPI_INT, r % 2, c, q); MPI_Wait(q, &s);", {"PG205"}, 4),
    "operation": ("MPI_Allreduce(b, d, 4, MPI_INT, r ? MPI_MAX : MPI_SUM, c);", {"PG204"}, 4),
    "element-type": (
        "if (r) MPI_Bcast(b, 2, MPI_DOUBLE, 0, c); else MPI_Bcast(b, 4, MPI_INT, 0, c);",
        {"PG203"}, 4,
    ),
    "counts-differ": (
        "k = up[r]; up[0] += r == 2; MPI_Allgatherv(b, k, MPI_INT, d, up, at, MPI_INT, c);",
        {"PG206"}, 4,
    ),
    "form-with-counts-and-without": (
        """if (r) MPI_Allgather(b, 1, MPI_INT, d, 1, MPI_INT, c);
           else MPI_Allgatherv(b, 1, MPI_INT, d, one, at, MPI_INT, c);""",
        {"PG212"}, 4,
    ),
    "own-operation-and-sum": (
        "MPI_Op_create(own, 1, &o); MPI_Allreduce(b, d, 4, MPI_INT, r ? o : MPI_SUM, c);",
        {"PG212"}, 4,
    ),
    "persistent-received-first": (
        """MPI_Recv_init(d, 8, MPI_INT, (r + 1) % n, 3, c, q); MPI_Start(q); MPI_Wait(q, &s);
           MPI_Send(b, 8, MPI_INT, (r + n - 1) % n, 3, c);""",
        {"PG210"}, 4,
    ),
    "fence-that-one-rank-leaves-out": (
        """MPI_Win w; MPI_Win_create(b, 64, 1, MPI_INFO_NULL, c, &w); MPI_Win_fence(0, w);
           if (r) MPI_Put(d, 4, MPI_INT, 0, 0, 4, MPI_INT, w); if (r) MPI_Win_fence(0, w);
           MPI_Win_free(&w);""",
        {"PG212"}, 4,
    ),
    "probe-of-nothing": (
        """if (r) MPI_Recv(d, 1, MPI_INT, 0, 1, c, &s);
           else { MPI_Probe(1, 7, c, &s); MPI_Send(b, 1, MPI_INT, 1, 1, c); }""",
        {"PG209"}, 4,
    ),
    "wait-for-one-of-none": (
        """if (r == 0) {
             for (i = 0; i < 2; i++) MPI_Irecv(b, 1, MPI_INT, 1, i, c, q + i);
             MPI_Waitany(2, q, &i, &s); MPI_Send(b, 1, MPI_INT, 1, 3, c);
           } else { MPI_Recv(d, 1, MPI_INT, 0, 3, c, &s); MPI_Send(b, 1, MPI_INT, 0, 1, c); }""",
        {"PG209"}, 4,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_its_twin_is_found(mpi: Interposed, tmp_path: Path, name: str) -> None:
    """What a plan says of it is what MPI says of it."""
    body, codes, limit = WRONG[name]
    verdict = mpi.verdict(body, tmp_path, 4 if name == "counts-differ" else 2, limit)
    assert codes & {finding.code for finding in verdict.findings}, verdict.to_json()
    assert verdict.outcome in {Outcome.DEADLOCK, Outcome.MISMATCH}


OPEN = {
    "polled": """
      if (r) MPI_Send(b, 4, MPI_INT, 0, 0, c); else {
        MPI_Irecv(d, 4, MPI_INT, 1, 0, c, q);
        for (i = 0; !i;) MPI_Test(q, &i, &s); }""",
    "polled-all": """
      MPI_Irecv(d, 4, MPI_INT, 1 - r, 0, c, q); MPI_Isend(b, 4, MPI_INT, 1 - r, 0, c, q + 1);
      for (i = 0; !i;) MPI_Testall(2, q, &i, MPI_STATUSES_IGNORE);""",
    "waited-for-one-by-one": """
      MPI_Irecv(d, 4, MPI_INT, 1 - r, 0, c, q); MPI_Isend(b, 4, MPI_INT, 1 - r, 0, c, q + 1);
      MPI_Waitany(2, q, &i, &s); MPI_Waitany(2, q, &i, &s);""",
    "two-own-operations": """
      MPI_Op_create(r ? own : other, 1, &o); MPI_Allreduce(b, d, 4, MPI_INT, o, c);""",
    "two-types-in-one-call": "MPI_Gather(b, 1, MPI_INT, d, 4, MPI_CHAR, 0, c);",
    "to-itself-by-a-buffer": """
      MPI_Send(b, 4, MPI_INT, r, 0, c); MPI_Recv(d, 4, MPI_INT, r, 0, c, &s);""",
    "received-inside-a-probe": """
      if (r) { MPI_Send(b, 1, MPI_INT, 0, 5, c); MPI_Send(b, 2, MPI_INT, 0, 5, c); } else {
        MPI_Message m; MPI_Mprobe(1, 5, c, &m, &s); MPI_Recv(d, 2, MPI_INT, 1, 5, c, &s);
        MPI_Mrecv(d, 1, MPI_INT, &m, &s); }""",
    "any-source": """
      if (r) MPI_Send(b, 1, MPI_INT, 0, 0, c);
      else MPI_Recv(d, 1, MPI_INT, MPI_ANY_SOURCE, 0, c, &s);""",
    "threads": """
      pthread_t t; pthread_create(&t, 0, in_a_thread, &r); pthread_join(t, 0); MPI_Barrier(c);""",
    "not-wrapped": """
      int dims[1] = {2}, wraps[1] = {1}; MPI_Comm cart;
      MPI_Cart_create(c, 1, dims, wraps, 0, &cart);
      MPI_Neighbor_allgather(b, 1, MPI_INT, d, 1, MPI_INT, cart);""",
    "one-sided-without-the-last-fence": """
      MPI_Win w; MPI_Win_create(b, 64, 1, MPI_INFO_NULL, c, &w); MPI_Win_fence(0, w);
      if (r) MPI_Put(d, 4, MPI_INT, 0, 0, 4, MPI_INT, w); MPI_Win_free(&w);""",
    "one-sided-with-locks": """
      MPI_Win w; MPI_Win_create(b, 8, 1, MPI_INFO_NULL, c, &w);
      MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, w); MPI_Win_unlock(0, w); MPI_Win_free(&w);""",
}


@pytest.mark.parametrize("name", OPEN)
def test_what_may_go_another_way_is_never_a_bare_safe(
    mpi: Interposed, tmp_path: Path, name: str
) -> None:
    """They run through, and the answer says what it did not see."""
    verdict = mpi.verdict(OPEN[name], tmp_path, limit=10)
    assert verdict.outcome is Outcome.UNKNOWN, verdict.to_json()
    assert any(entry.direction == "under" for entry in verdict.approximations)
