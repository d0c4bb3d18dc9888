"""Communication that no process group sees: never a bare SAFE, on real processes and played."""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
import itertools
import os
import shutil
import subprocess
import sys
import time
import types
from datetime import timedelta

import pytest

import planguard

torch = pytest.importorskip("torch")
dist = pytest.importorskip("torch.distributed")

from planguard.capture import precheck  # noqa: E402 - torch must be there
from planguard.capture.elsewhere import (  # noqa: E402 - same
    _LIBRARIES,
    CALL_BACK,
    called_back,
)

pytestmark = [pytest.mark.processes, pytest.mark.wheel]

JOB = """
import sys
from datetime import timedelta

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
dist.all_reduce(torch.ones(4))
what, file = sys.argv[1:]
if what == "rpc":
    import torch.distributed.rpc as rpc

    options = rpc.TensorPipeRpcBackendOptions(init_method=f"file://{file}", rpc_timeout=30)
    rpc.init_rpc(f"w{rank}", rank=rank, world_size=2, rpc_backend_options=options)
    rpc.rpc_sync(f"w{1 - rank}", torch.add, args=(torch.ones(2), 1))
    rpc.shutdown()
if what == "backend":
    store = dist.FileStore(file, 2)
    group = dist.ProcessGroupGloo(store, rank, 2, timedelta(seconds=30))
    group.allreduce([torch.ones(2)]).wait()
if what == "import":
    __import__(file)
if what == "store":
    store = dist.distributed_c10d._get_default_store()
    if rank == 0:
        store.set("ready", "1")
    store.wait(["ready"])
dist.barrier()
"""
WORDS = {"rpc": "remote calls (rpc)", "backend": "ProcessGroupGloo", "store": "a store (a key)"}
PLAYED = {"rpc": 3, "backend": 3, "store": 0}
"""The keys of the default store are played, so that they are seen."""


def dryrun(folder, *words):
    """Run the command on a job of two ranks."""
    (folder / "job.py").write_text(JOB)
    command = [sys.executable, "-m", "planguard", "dryrun", "--model", "gloo", *words]
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"},
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    return done.returncode, " ".join((done.stdout + done.stderr).split())


@pytest.mark.parametrize("what", WORDS)
def test_a_recorded_run_says_what_it_did_not_see(tmp_path, what):
    """Real gloo processes: UNKNOWN with the line, and the witnesses claim no more than they saw."""
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    code, said = dryrun(
        tmp_path, "--witness", "-o", "run", "--", *launch, "job.py", what, str(tmp_path / "met")
    )
    assert code == 3, said
    assert WORDS[what] in said
    assert "job.py:" in said
    assert "and no other" not in said


REMOTE = """
import sys

import torch
import torch.distributed as dist
import torch.distributed.rpc as rpc
import torch.multiprocessing as mp

def rank(number, file, more):
    options = rpc.TensorPipeRpcBackendOptions(init_method=f"file://{file}", rpc_timeout=30)
    rpc.init_rpc(f"w{number}", rank=number, world_size=2, rpc_backend_options=options)
    rpc.rpc_sync(f"w{1 - number}", torch.add, args=(torch.ones(2), 1))
    if torch.ones(2).sum().item() > number:
        number = int(number)
    if number < more:
        dist.init_process_group("gloo", init_method=f"file://{file}g", rank=number, world_size=more)
        dist.all_reduce(torch.ones(2))
        dist.destroy_process_group()
    rpc.shutdown()

if __name__ == "__main__":
    mp.start_processes(rank, (sys.argv[1], int(sys.argv[2])), nprocs=2, start_method="fork")
"""


@pytest.mark.parametrize(("grouped", "actions"), [(0, 0), (1, 1), (2, 2)])
def test_remote_calls_without_or_before_a_group_are_said(tmp_path, grouped, actions):
    """Real processes whose remote calls come first: none, one or both of them make a process group
    then. The plan is that of the group, UNKNOWN for the line of init_rpc; no log is left over.
    """
    (tmp_path / "remote.py").write_text(REMOTE)
    job = [sys.executable, "remote.py", str(tmp_path / "met"), str(grouped)]
    code, said = dryrun(tmp_path, "-o", "run", "--", *job)
    assert code == 3, said
    assert "remote calls (rpc) at" in said
    assert "remote.py:11" in said
    assert "PG110" in said  # a value that was read before the group
    assert "adapter" not in said
    names = sorted(path.name.partition("-")[0] for path in tmp_path.glob("run/*.pgrun"))
    assert names == ["beside"] * (2 - grouped) + [f"rank{number}" for number in range(grouped)]
    plan = planguard.load(tmp_path / "run")
    assert (plan.world_size, plan.actions) == (grouped or 2, actions)


@pytest.mark.parametrize("what", WORDS)
def test_a_stubbed_run_says_what_it_did_not_see(tmp_path, what):
    """The same job, its ranks played."""
    launch = ["torchrun", "--nproc-per-node=2"]
    code, said = dryrun(
        tmp_path, "--stub", "-o", "run", "--", *launch, "job.py", what, str(tmp_path / "met")
    )
    assert code == PLAYED[what], said
    assert (WORDS[what] in said) == bool(code)


def test_precheck_names_the_line_and_the_library(tmp_path):
    """A store of the program's own, and a library that communicates by itself."""

    def store():
        keys = dist.FileStore(str(tmp_path / "keys"), 2)
        keys.set(str(dist.get_rank()), "1")
        keys.wait(["0", "1"])
        dist.barrier()

    def library():
        sys.modules["mpi4py.MPI"] = types.ModuleType("mpi4py.MPI")
        dist.barrier()

    for job, words in ((store, "test_elsewhere.py:"), (library, "mpi4py")):
        verdict = precheck(2, model="gloo", on_unsafe="return").run(job)
        assert verdict.unknown
        assert words in " ".join(verdict.reasons)
    assert "mpi4py.MPI" not in sys.modules


def test_ranks_that_meet_elsewhere_alone_have_not_ended_early(tmp_path):
    """Nothing but a store of the program's own: the line is the reason, and the advice is not to
    let the program go on.
    """

    def job():
        keys = dist.FileStore(str(tmp_path / "keys"), 2)
        keys.set(str(dist.get_rank()), "1")
        keys.wait(["0", "1"])

    verdict = precheck(2, model="gloo", on_unsafe="return").run(job)
    assert verdict.unknown
    said = " ".join(verdict.reasons)
    assert "a store (a key) at" in said
    assert "ended by itself" not in said
    assert "not decided here" in verdict.findings[0].help


@pytest.mark.parametrize(("module", "library"), sorted(_LIBRARIES.items()))
def test_a_library_of_its_own_communicators_is_named_played(monkeypatch, module, library):
    """An empty module stands for each library: its name in ``sys.modules`` is all that is asked."""

    def job():
        monkeypatch.setitem(sys.modules, module, types.ModuleType(module))
        dist.barrier()

    verdict = precheck(2, model="gloo", on_unsafe="return").run(job)
    assert verdict.unknown
    assert f"by {library}, which the process has loaded" in " ".join(verdict.reasons)
    entries = [one for one in verdict.approximations if one.kind == "unseen-communication"]
    assert [(one.direction, one.used) for one in entries] == [("under", True)]


@pytest.mark.parametrize("module", ["mpi4py", "ray", "ray.util", "nvshmem", "cupy", "horovod"])
def test_a_library_that_has_no_communicator_is_not(monkeypatch, module):
    """Ray or CuPy may be loaded for other things: the module that communicates is asked for."""

    def job():
        monkeypatch.setitem(sys.modules, module, types.ModuleType(module))
        dist.barrier()

    assert precheck(2, model="gloo", on_unsafe="return").run(job).safe


@pytest.mark.parametrize("module", ["mpi4py.MPI", "ray.util.collective", "nvshmem.core"])
def test_a_recorded_run_names_the_library(tmp_path, module):
    """Real gloo processes that import a stand-in of the library: UNKNOWN, and no bare SAFE."""
    place = tmp_path
    for name in module.split(".")[:-1]:
        place = place / name
        place.mkdir()
        (place / "__init__.py").write_text("")
    (place / f"{module.rpartition('.')[2]}.py").write_text("")
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    code, said = dryrun(tmp_path, "-o", "run", "--", *launch, "job.py", "import", module)
    assert code == 3, said
    assert "verdict: UNKNOWN" in said
    assert f"by {_LIBRARIES[module]}, which the process has loaded" in said


@pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="needs ray")
def test_the_collectives_of_ray_are_named():
    """The library itself, imported by a played rank."""

    def job():
        import ray.util.collective

        assert ray.util.collective.allreduce
        dist.barrier()

    verdict = precheck(2, model="gloo", on_unsafe="return").run(job)
    assert verdict.unknown
    assert "by Ray's collectives, which the process has loaded" in " ".join(verdict.reasons)


def remote(rounds, file, *, ends_by_barrier):
    """Return a job with remote calls at its end, and as many rounds as each rank is told."""

    def job():
        from torch.distributed import rpc

        rank = dist.get_rank()
        options = rpc.TensorPipeRpcBackendOptions(init_method=f"file://{file}", rpc_timeout=30)
        rpc.init_rpc(f"w{rank}", rank=rank, world_size=2, rpc_backend_options=options)
        for _ in range(rounds[rank]):
            dist.all_reduce(torch.ones(2))
        if ends_by_barrier or rank == 0:
            dist.barrier()
        rpc.shutdown()

    return job


@pytest.mark.filterwarnings("ignore:You are using a Backend")
def test_a_rank_that_waits_in_remote_calls_is_called_back(tmp_path):
    """Rank 1 waits there for rank 0, which waits for its all_reduce: they disagree in a call."""
    check = precheck(2, model="gloo", on_unsafe="return", timeout=8)
    verdict = check.run(remote([4, 3], tmp_path / "met", ends_by_barrier=True))
    assert verdict.unsafe
    assert verdict.findings[0].code == "PG201"
    entries = [a for a in verdict.approximations if "it waited in them" in a.message]
    assert {one.direction for one in entries} == {"under", "over"}
    assert all("test_elsewhere.py:" in one.message for one in entries)


@pytest.mark.filterwarnings("ignore:You are using a Backend")
def test_what_such_a_rank_did_not_issue_may_come_yet(tmp_path):
    """Rank 1 issues no barrier before its remote calls; what it does behind them nobody knows."""
    check = precheck(2, model="gloo", on_unsafe="return", timeout=8)
    verdict = check.run(remote([3, 3], tmp_path / "met", ends_by_barrier=False))
    assert verdict.unknown
    assert "it waited in them until its time was over" in " ".join(verdict.reasons)


def test_a_rank_that_computes_too_long_is_called_back():
    """What it would issue nobody knows, so that nothing is decided; the line is named."""

    def job():
        if dist.get_rank() == 1:
            time.sleep(60)
        dist.barrier()

    verdict = precheck(2, model="gloo", on_unsafe="return", timeout=4).run(job)
    assert verdict.unknown
    said = " ".join(verdict.reasons)
    assert "rank 1 did not finish within 4 s: it was at" in said
    assert "test_elsewhere.py:" in said


def test_a_rank_that_is_busy_is_called_back_a_little_later():
    """In the middle of a message nothing is raised, and asking again is no recursion."""
    busy = iter([True] * 3)

    def work():
        end = time.monotonic() + 60
        while time.monotonic() < end:
            pass

    left: list[str] = []
    made = called_back(
        pytest.fail, lambda: EOFError("left"), left.append, lambda: next(busy, False)
    )
    with made:
        os.kill(os.getpid(), CALL_BACK)
        with pytest.raises(EOFError, match="left"):
            work()
    assert next(busy, None) is None
    assert "test_elsewhere.py:" in left[0]


def test_what_such_a_rank_had_issued_is_told():
    """It disagreed before it began to compute: that no time mends."""

    def job():
        if dist.get_rank() == 1:
            dist.all_reduce(torch.ones(8))
            time.sleep(60)
        dist.all_reduce(torch.ones(4))

    verdict = precheck(2, model="gloo", on_unsafe="return", timeout=4).run(job)
    assert verdict.unsafe
    assert verdict.findings[0].code in {"PG202", "PG203"}


def test_a_rank_in_native_code_is_an_error():
    """Native code that does not return cannot be called back."""

    def job():
        if dist.get_rank() == 1:
            sum(itertools.repeat(1, 10**11))
        dist.barrier()

    with pytest.raises(planguard.UsageError, match="rank 1 did not finish within 4 s"):
        precheck(2, model="gloo", on_unsafe="return", timeout=4).run(job)


FAKE_MPI = """
static int ready = 0;
int MPI_Init(void *a, void *b) { ready = 1; return 0; }
int MPI_Initialized(int *flag) { *flag = ready; return 0; }
"""


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_a_native_library_is_said_once_it_communicates(tmp_path):
    """An MPI that nobody initialized says nothing; else it is named without any Python module."""
    for name in ("libmpi.so.40", "libucp.so.0"):
        (tmp_path / "mpi.c").write_text(FAKE_MPI)
        command = ["cc", "-shared", "-fPIC", "-o", str(tmp_path / name), str(tmp_path / "mpi.c")]
        subprocess.run(command, check=True, timeout=60)

    def job(library, init):
        def body():
            loaded = ctypes.CDLL(str(tmp_path / library))
            if init:
                loaded.MPI_Init(None, None)
            dist.barrier()

        return precheck(2, model="gloo", on_unsafe="return").run(body)

    assert job("libmpi.so.40", init=False).safe
    for library, init, name in (("libmpi.so.40", True, "MPI"), ("libucp.so.0", False, "UCX")):
        verdict = job(library, init=init)
        assert verdict.unknown
        assert f"by {name}, which the process has loaded" in " ".join(verdict.reasons)


def test_symmetric_memory_is_said():
    """Ranks that meet in symmetric memory read each other's: no process group sees it."""

    def job():
        kind = torch._C._distributed_c10d._SymmetricMemory
        with contextlib.suppress(RuntimeError, TypeError):  # no device has it here
            kind.rendezvous(torch.ones(4), "0")
        dist.barrier()

    verdict = precheck(2, model="gloo", on_unsafe="return").run(job)
    assert verdict.unknown
    assert "symmetric memory at" in " ".join(verdict.reasons)


def test_what_torch_makes_for_the_program_is_seen():
    """Groups of the job, their backends and keys are torch's affair: nothing is said of them."""

    def job():
        dist.new_group([0, 1], backend="gloo", timeout=timedelta(seconds=30))
        dist.monitored_barrier(timeout=timedelta(seconds=30))
        store = dist.distributed_c10d._get_default_store()
        dist.PrefixStore("own", store).set(f"k{dist.get_rank()}", "1")
        dist.barrier()
        dist.PrefixStore("own", store).wait(["k0", "k1"])

    verdict = precheck(2, model="gloo", on_unsafe="return").run(job)
    assert verdict.safe, verdict.reasons
    assert not [one for one in verdict.approximations if one.kind == "unseen-communication"]
    assert type(dist.Store.wait).__name__ == "instancemethod"
