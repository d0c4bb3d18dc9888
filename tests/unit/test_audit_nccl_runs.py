"""Logs of NCCL of several runs in one file, and of processes that share no communicator."""

from __future__ import annotations

import itertools

import pytest

import planguard as pg


class Run:
    """The lines of one run: ranks of one host, with numbers of processes from some number on."""

    def __init__(self, identity, pid, *, size=3, heap="a", host="h", boots=False, bus="1b000"):
        self.identity, self.pid, self.size, self.heap = identity, pid, size, heap
        self.host, self.boots, self.bus = host, boots, bus

    def head(self, rank):
        """Return what stands in front of every line of a rank."""
        pid = self.pid if self.host == "pod" else self.pid + rank
        host = f"pod-{rank}" if self.host == "pod" else self.host
        return f"{host}:{pid}:{pid} [{rank}] NCCL INFO "

    def made(self, rank, states=("START", "COMPLETE"), *, identity=None, size=None, place=None):
        """Return the creation of a communicator."""
        rows = [f"{self.head(rank)}Bootstrap : Using eth0:10.0.0.1<0>"] if self.boots else []
        comm = f"0x{self.heap}{rank}" + ("f" if identity else "")
        return rows + [
            f"{self.head(rank)}ncclCommInitRankConfig comm {comm} rank "
            f"{rank if place is None else place} nranks {size or self.size} cudaDev {rank} nvmlDev "
            f"{rank} busId {self.bus} commId {identity or self.identity} - Init {state}"
            for state in states
        ]

    def calls(self, rank, count, *, op="AllReduce", sub=False, first=0):
        """Return so many calls of a rank."""
        comm = f"0x{self.heap}{rank}" + ("f" if sub else "")
        return [
            f"{self.head(rank)}{op}: opCount {n:x} sendbuff 0x1 recvbuff 0x1 count 8 datatype 7 "
            f"op 0 root 0 comm {comm} [nranks={2 if sub else self.size}] stream 0x1"
            for n in range(first, count)
        ]

    def rows(self, counts):
        """Return the creation and the calls of all ranks, their lines mixed as they come."""
        own = [self.made(r) + self.calls(r, count) for r, count in enumerate(counts)]
        mixed = itertools.zip_longest(*own)
        return [row for several in mixed for row in several if row is not None]


def found(tmp_path, rows, **more):
    """Return the codes and ranks of what is said to be stuck, and the verdict."""
    for name, own in ({"nccl.log": rows} | more).items():
        if own:
            (tmp_path / name).write_text("\n".join(own) + "\n")
    verdict = pg.audit(tmp_path)
    stuck = [f for f in verdict.findings if f.code.startswith(("PG0", "PG2", "PG50"))]
    return [(f.code, f.ranks) for f in stuck if f.code != "PG502"], verdict


SECOND = {
    "other processes": {"pid": 200, "heap": "b"},
    "other processes at the same place": {"pid": 200, "heap": "a"},
    "the same numbers, which boot again": {"pid": 100, "heap": "b", "boots": True},
    "the same numbers, the same place": {"pid": 100, "heap": "a"},
    "the same numbers, another place": {"pid": 100, "heap": "b"},
}


@pytest.mark.parametrize("second", sorted(SECOND))
@pytest.mark.parametrize(
    ("one", "two", "said"),
    [
        ((9, 9, 9), (5, 4, 5), [("PG007", (1,))]),
        ((9, 9, 7), (5, 5, 5), []),
        ((9, 9, 7), (5, 4, 5), [("PG007", (1,))]),
        ((4, 4, 4), (9, 9, 9), []),
    ],
)
def test_of_two_runs_in_one_file_the_last_counts(second, one, two, said, tmp_path):
    """A healthy run and one that hung, in either order: nothing of both is compared."""
    more = SECOND[second]
    first = Run("0xfeed", 100, boots=more.get("boots", False))
    rows = first.rows(one) + Run("0xbeef", **more).rows(two)
    stuck, verdict = found(tmp_path, rows)
    assert stuck == said
    assert not verdict.safe
    assert "holds logs of NCCL of several runs: the last is read" in str(verdict.approximations)


def test_one_run_is_one_run(tmp_path):
    """Its ranks print line by line in turn; one boots once and creates a group of all again."""
    run = Run("0xfeed", 100, boots=True)
    rows = run.rows((5, 4, 5))
    stuck, verdict = found(tmp_path, rows)
    assert stuck == [("PG007", (1,))]
    assert "several runs" not in str(verdict.approximations)


@pytest.mark.parametrize("is_first_used", [True, False])
def test_a_second_group_of_all_is_no_later_run(is_first_used, tmp_path):
    """One process may be in two communicators of its largest size: what it did in both counts."""
    run = Run("0xfeed", 100)
    rows = run.rows((4, 4, 4) if is_first_used else (5, 4, 5))
    for rank in range(3):
        rows += run.made(rank, identity="0xd00d")
    if is_first_used:
        for rank in range(3):
            own = run.calls(rank, 3, sub=True) + run.calls(rank, 5 if rank != 1 else 4, first=4)
            rows += [row.replace("nranks=2", "nranks=3") for row in own]
        rows += [run.calls(rank, 1, first=0)[0] for rank in range(3)]
    stuck, verdict = found(tmp_path, rows)
    assert stuck == [("PG007", (1,))]
    assert "several runs" not in str(verdict.approximations)


@pytest.mark.parametrize("step", ["Bootstrap : Using eth0:10.0.0.1<0>", "cudaDriverVersion 12020"])
@pytest.mark.parametrize(("first", "then", "said"), [
    ((2, 2, 2), (5, 4, 5), [("PG007", (1,))]),
    ((3, 2, 3), (5, 4, 5), [("PG007", (1,))]),
    ((2, 2, 2), (5, 5, 5), []),
])  # fmt: skip
def test_a_default_group_that_is_used_at_first_only_is_no_earlier_run(
    step, first, then, said, tmp_path
):
    """A process that printed how it started, once, goes on with another communicator of all."""
    run = Run("0xfeed", 100)
    rows = [f"{run.head(rank)}{step}" for rank in range(3)] + run.rows(first)
    for rank in range(3):
        rows += run.made(rank, identity="0xd00d")
        own = run.calls(rank, then[rank], sub=True)
        rows += [row.replace("nranks=2", "nranks=3") for row in own]
    stuck, verdict = found(tmp_path, rows)
    assert stuck[: len(said)] == said
    assert bool(stuck) == bool(said)
    assert "several runs" not in str(verdict.approximations)
    assert verdict.stats.actions == sum(first) + sum(then)
    again = Run("0xbeef", 100, heap="b")
    rows += [f"{again.head(rank)}{step}" for rank in range(3)] + again.rows((6, 6, 5))
    stuck, verdict = found(tmp_path, rows)
    assert stuck == [("PG007", (2,))]
    assert "several runs" in str(verdict.approximations)


def test_both_steps_of_a_start_are_one_start(tmp_path):
    """Rank 0 boots first and loads its driver then, the others the other way round."""
    run, rows = Run("0xfeed", 100), []
    for rank in range(3):
        steps = ["cudaDriverVersion 12020", "Bootstrap: Using eth0:10.0.0.1<0>"]
        rows += [f"{run.head(rank)}{step}" for step in steps[:: 1 if rank else -1]]
    stuck, verdict = found(tmp_path, rows + run.rows((5, 4, 5)))
    assert stuck == [("PG007", (1,))]
    assert "several runs" not in str(verdict.approximations)


@pytest.mark.parametrize("is_later", [True, False])
def test_a_creation_that_did_not_end_is_of_its_run(is_later, tmp_path):
    """Rank 2 did not come to the creation of the second run; of a first one that is over nothing
    is said.
    """
    one, two = Run("0xfeed", 100), Run("0xbeef", 200, heap="b")
    open_ = [row for rank in range(2) for row in (one, two)[is_later].made(rank, ("START",))]
    whole = (two, one)[is_later].rows((5, 5, 5))
    stuck, _ = found(tmp_path, [*whole, *open_] if is_later else [*open_, *whole])
    assert stuck == ([("PG501", ())] if is_later else [])


def test_ranks_whose_devices_changed_their_order_are_those_of_the_last_run(tmp_path):
    """Rank 0 of the second run runs where rank 2 of the first one did."""
    one, two = Run("0xfeed", 100), Run("0xbeef", 200, heap="b")
    rows = one.rows((9, 9, 9))
    for device, place in ((2, 0), (1, 1), (0, 2)):
        rows += two.made(device, place=place) + two.calls(device, 4 if place == 0 else 5)
    assert found(tmp_path, rows)[0] == [("PG007", (0,))]


def test_files_of_ranks_with_two_runs_each(tmp_path):
    """Each rank appends to its own file; rank 1 wrote nothing in the second run: no word of it."""
    files = {}
    for rank in range(3):
        one, two = Run("0xfeed", 100), Run("0xbeef", 200, heap="b")
        files[f"rank{rank}.log"] = one.made(rank) + one.calls(rank, 3)
        if rank != 1:
            files[f"rank{rank}.log"] += two.made(rank) + two.calls(rank, 7)
    stuck, verdict = found(tmp_path, [], **files)
    assert ("PG007", (1,)) not in stuck
    assert "the logs of rank 1 are of an earlier run" in str(verdict.findings)


def test_logs_without_a_common_communicator_are_not_compared_for_certain(tmp_path):
    """Rank 1's file is of another run, and nothing shows which run is the later one."""
    files = {}
    for rank in range(3):
        run = Run("0xfeed", 100) if rank != 1 else Run("0xbeef", 200, heap="b")
        files[f"rank{rank}.log"] = run.made(rank) + run.calls(rank, 5 if rank == 1 else 7)
    _, verdict = found(tmp_path, [], **files)
    assert not verdict.errors
    assert "they may be of several runs" in str(verdict.findings)


@pytest.mark.parametrize("host", ["h", "g"])
def test_parts_of_a_job_without_a_communicator_of_all_are_doubtful(host, tmp_path):
    """Two pairs of one job, or two runs of a pair: the log does not say which."""
    one = Run("0xfeed", 100, size=2)
    two = Run("0xbeef", 200, size=2, heap="b", host=host, bus="2c000")
    _, verdict = found(tmp_path, one.rows((5, 4)) + two.rows((5, 5)))
    assert not verdict.errors
    assert not verdict.safe
    assert "without a common communicator" in str(verdict.findings)


def test_places_in_the_largest_communicator_are_no_ranks_of_the_job(tmp_path):
    """Pairs that overlap: no communicator has all processes, and what is said is a hint."""
    run = Run("0x1", 100, size=2)
    rows = []
    for rank in range(4):
        rows += run.made(rank, identity=f"0xa{rank // 2}", size=2, place=rank % 2)
        rows += run.calls(rank, 4 if rank == 1 else 5, sub=True)
        rows += [
            row.replace(f"0xa{rank}f", f"0xb{rank}f")
            for row in run.made(rank, identity=f"0xb{rank % 2}", size=2, place=rank // 2)
        ]
    _, verdict = found(tmp_path, rows)
    assert not verdict.errors
    assert "ranks are places in the largest" in str(verdict.findings)


def test_splits_without_an_identity_are_told_apart_by_their_parents(tmp_path):
    """NCCL 2.23 prints parent, count and color of a split: two pairs are two communicators."""
    run = Run("0xfeed", 100, size=4)
    rows = []
    for rank in range(4):
        rows += run.made(rank) + run.calls(rank, 2)
        for state in ("START", "COMPLETE"):
            rows.append(
                f"{run.head(rank)}ncclCommSplit comm 0xa{rank}f rank {rank % 2} nranks 2 cudaDev "
                f"{rank} nvmlDev {rank} busId 1b000 parent 0xa{rank} splitCount 1 color "
                f"{rank // 2} key {rank}- Init {state}"
            )
        rows += run.calls(rank, {0: 6, 1: 6, 2: 9, 3: 8}[rank], sub=True)
    assert found(tmp_path, rows)[0] == [("PG007", (3,))]


def test_calls_on_a_pointer_that_no_line_names_are_not_compared(tmp_path):
    """The log lacks how two pairs were created: their calls belong to groups that are not known."""
    run = Run("0xfeed", 100, size=4)
    rows = []
    for rank in range(4):
        rows += run.made(rank) + run.calls(rank, 2)
        rows += run.calls(rank, 6 if rank < 2 else 9, sub=True)
    stuck, verdict = found(tmp_path, rows)
    assert not [one for one in stuck if one[0] != "PG501"]
    assert not verdict.safe


def test_a_last_run_of_which_no_rank_is_known_says_nothing(tmp_path):
    """The one that created its communicator made no call, and the other created none."""
    one, two = Run("0xfeed", 100), Run("0xbeef", 200, heap="b")
    stuck, verdict = found(tmp_path, [*one.rows((5, 4, 5)), *two.made(0), *two.calls(1, 4)])
    assert not stuck
    assert not verdict.safe
