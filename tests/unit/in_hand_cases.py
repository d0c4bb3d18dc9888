"""Artifacts of hung jobs, written by their public formats, each with the truth it was written from.

A label says what may be concluded: ``accept`` names classes and ranks as ``benchmarks/in_hand.py``
knows them. Of a case with no ``accept`` nothing can be determined: an audit may hint, and must not
state. No value here was taken from what PlanGuard says of it.
"""

# ruff: noqa: E501  a line of a log is as long as it is

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@dataclass(frozen=True)
class Case:
    """One artifact.

    Attributes:
        cause: What happened.
        files: Name and content of each file.
        accept: Classes, and sets of ranks, that may be stated of it.
        certain: A statement of it may be certain: all that could contradict is there.
    """

    cause: str
    files: Callable[[], dict[str, str | bytes]]
    accept: tuple[tuple[str, tuple[int, ...]], ...] = ()

    @property
    def label(self) -> dict[str, Any]:
        """The label as ``benchmarks/in_hand.py`` takes it."""
        return {
            "id": self.cause,
            "determinable": bool(self.accept),
            "cause": self.cause,
            "accept": [{"class": name, "ranks": [list(ranks)]} for name, ranks in self.accept],
        }

    def write(self, folder: Path) -> None:
        """Write the files."""
        for name, content in self.files().items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.encode() if isinstance(content, str) else content)


def work(seq: int, op: str = "ALLREDUCE", numel: int | None = 1024, out: int | None = None) -> str:
    """A work as every version writes it; before 2.1 without sizes."""
    sizes = "" if numel is None else f"NumelIn={numel}, NumelOut={numel if out is None else out}, "
    return f"WorkNCCL(SeqNum={seq}, OpType={op}, {sizes}Timeout(ms)=600000)"


def caught(place: int, what: str) -> str:
    """The watchdog's first line."""
    return (
        f"[Rank {place}] Watchdog caught collective operation timeout: {what} "
        f"ran for {600000 + 7 * place} milliseconds before timing out."
    )


def at(version: str, rank: int, line: int, text: str) -> str:
    """A line of ProcessGroupNCCL.cpp with the prefix of a version."""
    file = f"ProcessGroupNCCL.cpp:{line}"
    if version < "2.2":
        return f"[E {file}] {text}"
    if version < "2.4":
        return f"[rank{rank}]:[E {file}] {text}"
    return f"[rank{rank}]:[E1119 10:04:1{rank % 10}.{588000000 + rank} {file}] {text}"


def behind(pg: str, at_work: int, enqueued: int, completed: int) -> str:
    """The status line of 2.6 and later."""
    return (
        f"{pg}  failure detected by watchdog at work sequence id: {at_work} PG status: "
        f"last enqueued work: {enqueued}, last completed work: {completed}"
    )


def signaled(pg: str, by: str, enqueued: int, completed: int) -> str:
    """The only line of a rank that has nothing pending."""
    return (
        f"{pg} Received a dump signal due to a collective timeout from {by} and we will try our "
        f"best to dump the debug info. Last enqueued NCCL work: {enqueued}, last completed NCCL "
        f"work: {completed}.This is most likely caused by incorrect usages of collectives, e.g., "
        "wrong sizes used across ranks, the order of collectives is not same for all ranks."
    )


NOISE = "[2026-11-19 09:50:12] iteration 120/ 5000 | elapsed time per iteration (ms): 812.0 |"


def lines(*rows: str) -> str:
    """Rows as a file."""
    return "\n".join(rows) + "\n"


def slurm_21() -> dict[str, str | bytes]:
    """Torch 2.1 by slurm, one rank silent."""
    rows = [f"{r}: {NOISE}" for r in range(4)]
    rows += [f"{r}: " + at("2.1", r, 474, caught(r, work(88))) for r in (1, 0, 3)]
    rows += [
        f"{r}: " + at("2.1", r, 488, "To avoid data inconsistency, we are taking the entire "
                      "process down.")
        for r in (1, 0, 3)
    ]  # fmt: skip
    rows.append("srun: error: node-a: task 1: Aborted (core dumped)")
    return {"slurm-771234.out": lines(*rows)}


def kind_20() -> dict[str, str | bytes]:
    """Torch 2.0, another kind."""
    rows = [
        at("2.0", r, 455, caught(r, work(12, "BROADCAST" if r == 1 else "ALLREDUCE", None)))
        for r in range(4)
    ]
    return {"nohup.out": lines(NOISE, *rows)}


def size_22() -> dict[str, str | bytes]:
    """Torch 2.2, another size."""
    return {
        f"rank{r}.err": lines(
            NOISE,
            at("2.2", r, 523, caught(r, work(31, numel=2048 if r == 0 else 1024))),
            at("2.2", r, 537, f"[Rank {r}] Some NCCL operations have failed or timed out. Due to "
               "the asynchronous nature of CUDA kernels, subsequent GPU operations might run on "
               "corrupted/incomplete data."),
        )
        for r in range(4)
    }  # fmt: skip


def first_call_23() -> dict[str, str | bytes]:
    """Torch 2.3, first call, number never set."""
    rows = []
    for r in range(4):
        rows.append(at("2.3", r, 563, caught(r, work(1))))
        rows.append(
            at("2.3", r, 1537, f"[PG 0 Rank {r}] Timeout at NCCL work: 1, last enqueued NCCL work:"
               " 1, last completed NCCL work: 93459313471793.")
        )  # fmt: skip
    return {"train.log": lines(*rows)}


def k8s_24() -> dict[str, str | bytes]:
    """Torch 2.4 in Kubernetes, lines in parts."""
    rows = []
    for r in range(8):
        pg = f"[PG 0 (default_pg) Rank {r}]"
        if r == 5:
            rows.append(at("2.4", r, 1682, f"{pg} Observed flight recorder dump signal from "
                           "another rank via TCPStore."))  # fmt: skip
            rows.append(at("2.4", r, 1746, signaled(pg, " rank 0", 700, 700)))
            continue
        rows.append(at("2.4", r, 607, caught(r, work(701))))
        rows.append(
            at("2.4", r, 1664, f"{pg} Exception (either an error or timeout) detected by watchdog "
               "at work: 701, last enqueued NCCL work: 702, last completed NCCL work: 700.")
        )  # fmt: skip
    stamp = "2026-11-19T10:04:11.123456789Z stderr"
    out = []
    for row in rows:
        out += (
            [f"{stamp} P {row[:150]}", f"{stamp} F {row[150:]}"]
            if len(row) > 260
            else [f"{stamp} F {row}"]
        )
    return {"pod-0.log": lines(*out)}


def subgroup_25() -> dict[str, str | bytes]:
    """Torch 2.5, places of a subgroup."""
    rows = []
    for r in range(8, 12):
        place = r - 8
        pg = f"[PG ID 2 PG GUID 37(TENSOR_MODEL_PARALLEL_GROUP) Rank {place}]"
        if r == 10:
            world = "[PG ID 0 PG GUID 0(default_pg) Rank 10]"
            rows.append(at("2.5", r, 1858, signaled(world, " rank 8", 50, 50)))
            continue
        rows.append(at("2.5", r, 616, caught(place, work(100))))
        rows.append(
            at("2.5", r, 1785, f"{pg} Exception (either an error or timeout) detected by watchdog "
               "at work: 100, last enqueued NCCL work: 100, last completed NCCL work: 99.")
        )  # fmt: skip
    return {"node1.log": lines(*rows)}


def desync_26() -> dict[str, str | bytes]:
    """Torch 2.6, desync report behind torchrun's prefix."""
    rows = []
    for r in (0, 1, 3):
        pg = f"[PG ID 0 PG GUID 0(default_pg) Rank {r}]"
        rows.append(at("2.6", r, 629, caught(r, work(315))))
        rows.append(at("2.6", r, 2168, behind(pg, 315, 315, 314)))
    rows.append(at("2.6", 0, 1937, "Rank 0"))
    rows += [
        "\t - [0] Timeout at collective: ALLREDUCE, #315",
        "\t - To our best knowledge, the lagging/dead/mismatched ranks that caused the desync are:",
        "\t   - [2] finished collective #182, but didn't join collective #183 (count from 1)",
        "\t - Snapshot of ranks' latest states:",
        "\t   #182 finished ranks:",
        "\t     [2] finished ALLREDUCE",
        "\t   #315 started ranks:",
        "\t     [0, 1, 3] started ALLREDUCE",
    ]
    return {"torchrun.log": lines(*(f"[default0]:{row}" for row in rows))}


def stuck_watchdog() -> dict[str, str | bytes]:
    """A watchdog that is stuck itself."""
    pg = "[PG ID 0 PG GUID 0(default_pg) Rank 1]"
    text = (
        f"{pg} ProcessGroupNCCL's watchdog got stuck for 600 seconds without making progress in "
        "monitoring enqueued collectives. This typically indicates a NCCL/CUDA API (e.g., "
        "CudaEventDestroy) hang blocking the watchdog, and could be triggered by another thread "
        "holding the GIL inside a CUDA api"
    )
    ending = f"{pg} {pg} Terminating the process after attempting to dump debug info, due to "
    return {
        "train.log": lines(
            NOISE,
            at("2.7", 1, 1628, text),
            at("2.7", 1, 1664, "Could not acquire GIL within 300 ms on exit, possible GIL induced "
               "hang"),
            at("2.7", 1, 1700, ending + "ProcessGroupNCCL watchdog hang."),
        )
    }  # fmt: skip


def fingerprint(seq: int, op: str, shape: str = "[256]") -> str:
    """What DETAIL prints of a call."""
    return (
        f"CollectiveFingerPrint(SequenceNumber={seq}, OpType={op}, TensorShape={shape}, "
        "TensorDtypes=Float, TensorDeviceTypes=TensorOptions(dtype=float (default), device=cpu, "
        "layout=Strided (default), requires_grad=false (default), pinned_memory=false (default), "
        "memory_format=(nullopt)))"
    )


def detail_kind() -> dict[str, str | bytes]:
    """DETAIL, interleaved."""
    rows = []
    for r in range(4):
        mine, other = ("BROADCAST", "ALLREDUCE") if r == 3 else ("ALLREDUCE", "BROADCAST")
        rows += [
            f"[rank{r}]: Traceback (most recent call last):",
            f'[rank{r}]:   File "/job/train.py", line 88, in <module>',
            f"[rank{r}]:     step(model)",
            (
                f"[rank{r}]: RuntimeError: Detected mismatch between collectives on ranks. Rank {r} is "
                f"running collective: {fingerprint(5, mine)}, but Rank {0 if r == 3 else 3} is running "
                f"collective: {fingerprint(5, other)}.Collectives differ in the following aspects: "
                f"\t Op type: {mine}vs {other}"
            ),
        ]
    # Interleaved: the lines of the ranks by turns.
    return {"all.log": lines(*(rows[k * 4 + n] for n in range(4) for k in range(4)))}


def barrier_late() -> dict[str, str | bytes]:
    """Monitored barrier, two late."""
    first = "[Rank 0]: Ranks 1, 3 failed to pass monitoredBarrier in 3000 ms"
    other = (
        "Rank 2 successfully reached monitoredBarrier, but received errors while waiting for "
        "send/recv from rank 0. Please check rank 0 logs for faulty rank.\n Original exception: "
        "\n[/x/third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:81] Timed out waiting "
        "3000ms for recv operation to complete"
    )
    return {
        "r0.err": lines("[rank0]:[E1119 10:04:11.000000001 ProcessGroupGloo.cpp:67] " + first,
                        "[rank0]: RuntimeError: " + first),
        "r2.err": lines("[rank2]: RuntimeError: " + other),
    }  # fmt: skip


def gloo_killed() -> dict[str, str | bytes]:
    """Gloo, a rank was killed."""
    rows = []
    for r in (0, 1, 3):
        rows += [
            f"[rank{r}]: Traceback (most recent call last):",
            f'[rank{r}]:   File "/job/train.py", line 41, in <module>',
            f"[rank{r}]:     dist.all_reduce(loss)",
            (
                f'[rank{r}]:   File "/venv/lib/python3.11/site-packages/torch/distributed/'
                'c10d_logger.py", line 83, in wrapper'
            ),
            f"[rank{r}]:     return func(*args, **kwargs)",
            (
                f'[rank{r}]:   File "/venv/lib/python3.11/site-packages/torch/distributed/'
                'distributed_c10d.py", line 3253, in all_reduce'
            ),
            f"[rank{r}]:     work.wait()",
            (
                f"[rank{r}]: RuntimeError: [/x/third_party/gloo/gloo/transport/tcp/pair.cc:553] "
                "Connection closed by peer [192.0.2.7]:41234. This is typically caused by a remote "
                "worker crashing. Check the logs for other workers for more information."
            ),
        ]
    rows += [
        (
            "E1119 10:05:12.100000 3999 torch/distributed/elastic/multiprocessing/api.py:1002] failed "
            "(exitcode: -9) local_rank: 2 (pid: 4002) of binary: /venv/bin/python"
        ),
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ",
        "============================================================",
        "train.py FAILED",
        "------------------------------------------------------------",
        "Failures:",
        "  <NO_OTHER_FAILURES>",
        "------------------------------------------------------------",
        "Root Cause (first observed failure):",
        "[0]:",
        "  time      : 2026-11-19_10:05:12",
        "  host      : node-a",
        "  rank      : 2 (local_rank: 2)",
        "  exitcode  : -9 (pid: 4002)",
        "  error_file: <N/A>",
        "  traceback : Signal 9 (SIGKILL) received by PID 4002",
    ]
    return {"job.log": lines(*rows)}


def nccl_info_missing() -> dict[str, str | bytes]:
    """NCCL INFO, hexadecimal counts."""
    rows = []
    for r in range(4):
        head = f"[2026-11-19 10:00:0{r}] node-a:410{r}:420{r} [{r}] NCCL INFO "
        rows.append(
            head + f"ncclCommInitRank comm 0x55{r}0 rank {r} nranks 4 cudaDev {r} nvmlDev {r} "
            f"busId {r}1000 commId 0x9f3e7a - Init COMPLETE"
        )
    for number in range(0x20 + 1):
        for r in range(4):
            if r == 2 and number == 0x20:
                continue
            head = f"[2026-11-19 10:00:0{r}] node-a:410{r}:420{r} [{r}] NCCL INFO "
            rows.append(
                head + f"AllReduce: opCount {number:x} sendbuff 0x7f00 recvbuff 0x7f00 count 4096 "
                f"datatype 7 op 0 root 0 comm 0x55{r}0 [nranks=4] stream 0x88{r}"
            )
    return {"nccl.log": lines(*rows)}


def nccl_warn() -> dict[str, str | bytes]:
    """NCCL WARN around a rank."""
    return {
        "job.log": lines(
            NOISE,
            "",
            "node-b:9912:9990 [3] enqueue.cc:50 NCCL WARN Mismatched collective detected, please "
            "check your collective calls at and around rank 39. You can use NCCL_DEBUG=INFO and "
            "NCCL_DEBUG_SUBSYS=COLL to see the collective logs",
            "",
            "node-b:9912:9990 [3] socket.cc:540 NCCL WARN socketProgress: Connection closed by "
            "remote peer node-a<41234>",
        )
    }


RAS_HEAD = """NCCL version 2.27.5 compiled with CUDA 12.9
CUDA runtime version 12090, driver version 12090

Job summary
===========

  Nodes  Processes         GPUs  Processes     GPUs
(total)   per node  per process    (total)  (total)
      1          8            1          8        8

Communicators... (0.00s)
=============

Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors
    #  in group  per comm  per node  per comm  in group
    0         1         1         8         8         8   RUNNING  MISMATCH

Errors
======

Warnings
========

"""


def ras_ahead() -> dict[str, str | bytes]:
    """RAS, the smaller set is ahead."""
    return {
        "ras.txt": RAS_HEAD
        + lines(
            "#0-0 (27a079b828ff1a75) MISMATCH",
            "  Communicator ranks have different AllReduce operation counts",
            "  6 ranks have launched up to operation 6649",
            "  2 ranks have launched up to operation 6650",
            "  Rank 3 -- GPU 3 managed by process 483073 on node 192.0.2.12",
            "  Rank 4 -- GPU 4 managed by process 483074 on node 192.0.2.12",
        )
    }


def ras_json_twice() -> dict[str, str | bytes]:
    """RAS as JSON, twice, one packed."""
    counts = {"Broadcast": 1, "Reduce": 0, "AllGather": 0, "ReduceScatter": 0}
    state = {"init_state": 0, "async_error": 0, "finalize_called": False, "destroy_flag": False,
             "abort_flag": False}  # fmt: skip
    ranks = [
        {"rank": r, "host": "192.0.2.12", "pid": 4000 + r, "cuda_dev": r, "status": state,
         "collective_counts": {**counts, "AllReduce": 899 if r == 6 else 900}}
        for r in range(8)
    ]  # fmt: skip
    report = {
        "nccl_version": "2.28.7",
        "communicators": [
            {"hash": "0x27a079b828ff1a75", "secondary_hash": "0x1", "size": 8, "ranks_count": 8,
             "missing_ranks_count": 0, "ranks": ranks, "missing_ranks": []}
        ],
    }  # fmt: skip
    text = json.dumps(report, indent=1)
    return {"ras-1.json": text, "ras-2.json.gz": gzip.compress(text.encode())}


def xla_rendezvous() -> dict[str, str | bytes]:
    """XLA, one of eight threads."""
    return {
        "xla.log": lines(
            "E1119 10:04:11.402311  412311 rendezvous.cc:63] This thread has been waiting for "
            "5000ms for and may be stuck: `first call to collective operation 17; "
            "run_id=1231` `: Expected 8 threads to join the rendezvous, but only 7 of them arrived "
            "on time.",
        )
    }


def horovod_stall() -> dict[str, str | bytes]:
    """Horovod under Open MPI."""
    rows = [
        (
            "[2026-11-19 10:04:11.232: W /tmp/horovod/common/stall_inspector.cc:107] One or more "
            "tensors were submitted to be reduced, gathered or broadcasted by subset of ranks and are "
            "waiting for remainder of ranks for more than 60 seconds. This may indicate that different "
            "ranks are trying to submit different tensors or that only subset of ranks is submitting "
            "tensors, which will cause deadlock. "
        ),
        "Missing ranks:",
        "2: [DistributedOptimizer_Allreduce/grad_a, DistributedOptimizer_Allreduce/grad_b]",
    ]
    return {"mpirun.log": lines(*(f"[1,0]<stderr>:{row}" for row in rows))}


def hccl_notify() -> dict[str, str | bytes]:
    """HCCL, all wait for one."""
    rows = []
    for r in (0, 1, 2):
        rows += [
            (
                f"[ERROR] 2026-11-19-15:09:34 (PID:296{r}, Device:{r}, RankID:{r}) ERR00100 PTA call "
                "acl api failed."
            ),
            (
                "EI0002: [PID: 296] 2026-11-19-15:09:34.000.001 Communication_Error_Timeout: The wait "
                "execution of the Notify register times out. Reason: The Notify register has not "
                "received the Notify record from remote rank: [3]. base information: [streamID:[9], "
                "taskID[12], taskType[Notify Wait], tag[AllReduce_hccl_world_group], AlgType(level "
                "0-1-2):[fullmesh-null-ring].] task information: [notify id:[0x1]]. group information: "
                f"[group:[hccl_world_group], user define information[Unspecified], rankSize[4], "
                f"rankId[{r}]]"
            ),
        ]
    return {"npu.log": lines(*rows)}


def rccl_kind() -> dict[str, str | bytes]:
    """RCCL, another kind."""
    rows = ["node-a:10:10 [0] NCCL INFO RCCL version 2.22.3+hip6.4"]
    for r in range(3):
        head = f"node-a:1{r}:2{r} [{r}] NCCL INFO "
        rows.append(
            head + f"ncclCommInitRank comm 0x7{r} rank {r} nranks 3 cudaDev {r} nvmlDev {r} busId "
            f"{r}000 commId 0xabc1 - Init COMPLETE"
        )
    for number in range(6):
        for r in range(3):
            name = "Broadcast" if r == 1 and number == 5 else "AllReduce"
            rows.append(
                f"node-a:1{r}:2{r} [{r}] NCCL INFO {name}: opCount {number:x} sendbuff 0x1 "
                f"recvbuff 0x1 count 77 datatype 7 op 0 root 0 comm 0x7{r} [nranks=3] stream 0x2"
            )
    return {"rccl.log": lines(*rows)}


def mpi_abort() -> dict[str, str | bytes]:
    """MPI_Abort of Open MPI."""
    return {
        "mpi.out": lines(
            "step 100 ok",
            "--------------------------------------------------------------------------",
            "MPI_ABORT was invoked on rank 2 in communicator MPI_COMM_WORLD",
            "with errorcode 1.",
            "",
            "NOTE: invoking MPI_ABORT causes Open MPI to kill all MPI processes.",
            "You may or may not see output from other processes, depending on",
            "exactly when Open MPI kills them.",
            "--------------------------------------------------------------------------",
        )
    }


def pyspy(pid: int, *frames: str, python: str = "3.11.7") -> str:
    """A plain dump."""
    return lines(
        f"Process {pid}: /opt/conda/bin/python train.py",
        f"Python v{python} (/opt/conda/bin/python3.11)",
        "",
        f'Thread {pid} (idle): "MainThread"',
        *(f"    {frame}" for frame in frames),
        f'Thread {pid + 9} (idle): "Thread-1"',
        "    wait (threading.py:324)",
        "    run (tqdm/_monitor.py:60)",
        "    _bootstrap (threading.py:1002)",
    )


REDUCING = (
    "all_reduce (torch/distributed/distributed_c10d.py:3252)",
    "_exception_logger.<locals>.wrapper (torch/distributed/c10d_logger.py:83)",
    "sync_grads (train.py:30)",
    "<module> (train.py:160)",
)


def pyspy_tp() -> dict[str, str | bytes]:
    """Py-spy, files named by place."""
    loading = (
        "recv (multiprocessing/connection.py:250)",
        "_next_data (torch/utils/data/dataloader.py:1448)",
        "__next__ (torch/utils/data/dataloader.py:708)",
        "next_batch (data.py:12)",
        "<module> (train.py:155)",
    )
    return {f"TP{r}.txt": pyspy(800 + r, *(loading if r == 3 else REDUCING)) for r in range(4)}


def pyspy_native() -> dict[str, str | bytes]:
    """Py-spy with native frames."""
    barrier = (
        "pthread_cond_wait (libc.so.6)",
        "c10d::ops::barrier (libtorch_cpu.so)",
        "barrier (torch/distributed/distributed_c10d.py:5021)",
        "_exception_logger.<locals>.wrapper (torch/distributed/c10d_logger.py:83)",
        "save (ckpt.py:50)",
        "<module> (train.py:170)",
        "0x7fc0a86a3f16 (libc.so.6)",
    )
    saving = (
        "__write_nocancel (libc.so.6)",
        "_save (torch/serialization.py:1000)",
        "save (torch/serialization.py:900)",
        "save (ckpt.py:44)",
        "<module> (train.py:170)",
        "0x7fc0a86a3f16 (libc.so.6)",
    )
    return {
        f"pyspy-native-rank{r}.txt": pyspy(900 + r, *(saving if r == 0 else barrier))
        for r in range(4)
    }


def debug_server() -> dict[str, str | bytes]:
    """Debug server, one worker silent."""
    rows = ["PARTIAL DATA: 3/4 workers responded", "  Rank 2: connection refused", ""]
    for r in (0, 1, 3):
        rows += [
            f"=== Rank {r}: http://node-a:2500{r} ===",
            "Thread 0x00007fc0a8e6eb81 [pt_autograd_0] (most recent call first):",
            "  <no Python frame>",
            "",
            "Current thread 0x00007fc0a8e6eb80 (most recent call first):",
            (
                '  File "/venv/site-packages/torch/distributed/distributed_c10d.py", line 3252 in '
                "all_reduce"
            ),
            '  File "/venv/site-packages/torch/distributed/c10d_logger.py", line 83 in wrapper',
            '  File "/job/train.py", line 30 in sync_grads',
            '  File "/job/train.py", line 160 in <module>',
            "",
        ]
    rows += ["=== Rank 2: http://node-a:25002 ===", "Error: 503"]
    return {"stacks_20261119_100411.txt": lines(*rows)}


def pyspy_json() -> dict[str, str | bytes]:
    """Py-spy as JSON, another call."""

    def thread(pid: int, name: str, line: int, place: int) -> dict[str, Any]:
        here = "torch/distributed/distributed_c10d.py"
        frames = [
            {"name": name, "filename": f"/v/{here}", "short_filename": here, "line": line,
             "locals": None},
            {"name": "step", "filename": "/job/train.py", "short_filename": "train.py",
             "line": place, "locals": None},
        ]  # fmt: skip
        return {"pid": pid, "thread_id": pid, "thread_name": "MainThread", "os_thread_id": pid,
                "active": False, "owns_gil": False, "frames": frames,
                "process_info": None}  # fmt: skip

    return {
        f"stack-rank-{r}.json": json.dumps(
            [thread(70 + r, "barrier", 5021, 61) if r == 2
             else thread(70 + r, "all_gather_into_tensor", 4100, 64)]
        )
        for r in range(4)
    }  # fmt: skip


def sglang() -> dict[str, str | bytes]:
    """SGLang in docker."""
    idle = (
        "recv_pyobj (zmq/sugar/socket.py:989)",
        "recv_requests (sglang/srt/managers/scheduler.py:1010)",
        "event_loop_overlap (sglang/srt/managers/scheduler.py:650)",
        "run_scheduler_process (sglang/srt/managers/scheduler.py:2700)",
        "<module> (<string>:1)",
    )
    gather = (
        "broadcast (torch/distributed/distributed_c10d.py:2800)",
        "wrapper (torch/distributed/c10d_logger.py:81)",
        "broadcast_pyobj (sglang/srt/utils.py:1100)",
        "recv_requests (sglang/srt/managers/scheduler.py:1020)",
        "event_loop_overlap (sglang/srt/managers/scheduler.py:650)",
        "run_scheduler_process (sglang/srt/managers/scheduler.py:2700)",
        "<module> (<string>:1)",
    )
    rows = []
    for r in range(4):
        rows.append(f"[2026-11-19 11:25:58 TP{r}] Pyspy dump for PID {310 + r}:")
        rows += pyspy(310 + r, *(idle if r == 0 else gather)).splitlines()
    return {"docker.log": lines(*(f"sglang-1  | {row}" for row in rows))}


def zstd_28() -> dict[str, str | bytes]:
    """Torch 2.8, packed with zstd."""
    import zstandard

    rows = []
    for r in range(3):
        pg = f"[PG ID 0 PG GUID 0(default_pg) Rank {r}]"
        if r == 1:
            rows.append(at("2.8", r, 1746, signaled(pg, " rank 2", 44, 44)))
            continue
        rows.append(at("2.8", r, 655, caught(r, work(45, "_ALLGATHER_BASE", 512, 1536))))
        rows.append(at("2.8", r, 2271, behind(pg, 45, 45, 44)))
    return {"train.log.zst": zstandard.ZstdCompressor().compress(lines(*rows).encode())}


def paste_27() -> dict[str, str | bytes]:
    """Torch 2.7, broken by a paste."""
    rows = []
    for r in range(4):
        pg = f"[PG ID 0 PG GUID 0(default_pg) Rank {r}]"
        if r == 0:
            rows.append(at("2.7", r, 1746, signaled(pg, " rank 1", 9, 9)))
            continue
        rows.append(at("2.7", r, 632, caught(r, work(10))))
        rows.append(at("2.7", r, 2271, behind(pg, 10, 11, 9)))
    broken = [row[i : i + 100] for row in rows for i in range(0, len(row), 100)]
    return {"pasted.txt": lines(*broken)}


def ray_folded() -> dict[str, str | bytes]:
    """Ray, folded lines."""
    rows = [
        "\x1b[36m(TrainWorker pid=4001)\x1b[0m "
        + at("2.6", 0, 629, caught(0, work(70)))
        + "\x1b[32m [repeated 6x across cluster] (Ray deduplicates logs by default.)\x1b[0m",
        "\x1b[36m(TrainWorker pid=4001)\x1b[0m "
        + at("2.6", 0, 2168, behind("[PG ID 0 PG GUID 0(default_pg) Rank 0]", 70, 70, 69)),
    ]
    return {"driver.log": lines(*rows)}


def root_cause_only() -> dict[str, str | bytes]:
    """Torchrun's summary alone."""
    return {
        "err.txt": lines(
            "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ",
            "train.py FAILED",
            "Failures:",
            "[1]:",
            "  time      : 2026-11-19_10:05:13",
            "  rank      : 3 (local_rank: 3)",
            "  exitcode  : -15 (pid: 4003)",
            "  traceback : Signal 15 (SIGTERM) received by PID 4003",
            "Root Cause (first observed failure):",
            "[0]:",
            "  time      : 2026-11-19_10:05:12",
            "  rank      : 1 (local_rank: 1)",
            "  exitcode  : -6 (pid: 4001)",
            "  traceback : Signal 6 (SIGABRT) received by PID 4001",
        )
    }


def all_equal_214() -> dict[str, str | bytes]:
    """Torch 2.9, all in one call."""
    rows = []
    for r in range(4):
        pg = f"[PG ID 0 PG GUID 0(default_pg) Rank {r}]"
        rows.append(
            NOISE + at("2.9", r, 757, caught(r, work(500, "_REDUCE_SCATTER_BASE", 4096, 1024)))
        )
        rows.append(at("2.9", r, 2395, behind(pg, 500, 503, 499)))
    return {"node0.log": "\ufeff" + "\r\n".join(rows) + "\r\n"}


def two_groups() -> dict[str, str | bytes]:
    """Numbers of two groups do not compare: SeqNum 7 of one, 7 of the other."""
    rows = []
    for r, (guid, place, op) in enumerate(
        [(11, 0, "ALLREDUCE"), (11, 1, "ALLREDUCE"), (12, 0, "BROADCAST"), (12, 1, "BROADCAST")]
    ):
        pg = f"[PG ID 1 PG GUID {guid}(mesh_dp) Rank {place}]"
        rows.append(at("2.7", r, 632, caught(place, work(7, op))))
        rows.append(at("2.7", r, 2271, behind(pg, 7, 7, 6)))
    return {"train.log": lines(*rows)}


def unnumbered_110() -> dict[str, str | bytes]:
    """Torch 1.10: the line has no number, no size and no group; rank 2 calls something else."""
    rows = []
    for r in range(4):
        op = "BROADCAST" if r == 2 else "ALLREDUCE"
        rows.append(at("1.10", r, 566, caught(r, f"WorkNCCL(OpType={op}, Timeout(ms)=600000)")))
    return {"node0.log": lines(*rows)}


def desync_never() -> dict[str, str | bytes]:
    """Torch 2.7, a desync report on a rank that wrote none of its own."""
    rows = [at("2.7", 0, 632, caught(0, work(1)))]
    rows.append(at("2.7", 0, 1937, "[PG ID 0 PG GUID 0(default_pg) Rank 0] "))
    rows += [
        "\t - [0] Timeout at collective: ALLREDUCE, #1",
        "\t - To our best knowledge, ranks [3] are the lagging ranks that caused this timeout. They never joined any collectives",
        "\t - Snapshot of ranks' latest states:",
        "\t   #1 started ranks:",
        "\t     [0, 1, 2] started ALLREDUCE",
    ]
    return {"train.log": lines(*rows)}


def detail_barrier() -> dict[str, str | bytes]:
    """DETAIL of torch 2.4 on one rank: the other one stands in a barrier, and is called REDUCE."""
    own = (
        "CollectiveFingerPrint(SequenceNumber=101, OpType=ALLGATHER, TensorShape=[1], TensorDtypes="
        "Long, TensorDeviceTypes=TensorOptions(dtype=float (default), device=cuda, layout=Strided "
        "(default), requires_grad=false (default), pinned_memory=false (default), memory_format="
        "(nullopt)))"
    )
    text = (
        "[rank7]: RuntimeError: Detected mismatch between collectives on ranks. Rank 7 is running "
        f"collective: {own}, but Rank 1 is running collective: CollectiveFingerPrint("
        "SequenceNumber=0OpType=REDUCE).Collectives differ in the following aspects: \t Sequence "
        "number: 101vs 0  Op type: ALLGATHERvs REDUCE"
    )
    return {"err.txt": lines(text)}


CASES: dict[str, Case] = {
    "torch 1.10, no number, another kind": Case("kind", unnumbered_110, (("drift", (2,)),)),
    "torch 2.7, a desync report on who never joined": Case(
        "missing", desync_never, (("missing", (3,)),)
    ),
    "DETAIL, a barrier that is called REDUCE": Case("kind", detail_barrier, (("kind", (1, 7)),)),
    "torch 2.1 by slurm, one rank silent": Case("missing", slurm_21, (("missing", (2,)),)),
    "torch 2.0, another kind": Case("kind", kind_20, (("kind", (1,)), ("drift", (1,)))),
    "torch 2.2, another size": Case("size", size_22, (("size", (0,)),)),
    "torch 2.3, first call, number never set": Case("transport", first_call_23),
    "torch 2.4 in Kubernetes, lines in parts": Case(
        "missing", k8s_24, (("missing", (5,)), ("drift", (5,)))
    ),
    "torch 2.5, places of a subgroup": Case("missing", subgroup_25, (("missing", (10,)),)),
    "torch 2.6, desync report behind torchrun's prefix": Case(
        "missing", desync_26, (("missing", (2,)), ("drift", (2,)))
    ),
    "a watchdog that is stuck itself": Case("threads", stuck_watchdog),
    "DETAIL, interleaved": Case("kind", detail_kind, (("kind", (3,)), ("drift", (3,)))),
    "monitored barrier, two late": Case("missing", barrier_late, (("missing", (1, 3)),)),
    "gloo, a rank was killed": Case("crash", gloo_killed, (("crash", (2,)), ("missing", (2,)))),
    "NCCL INFO, hexadecimal counts": Case(
        "missing", nccl_info_missing, (("missing", (2,)), ("drift", (2,)))
    ),
    "NCCL WARN around a rank": Case("mismatch", nccl_warn),
    "RAS, the smaller set is ahead": Case("running", ras_ahead),
    "RAS as JSON, twice, one packed": Case(
        "missing", ras_json_twice, (("missing", (6,)), ("drift", (6,)))
    ),
    "XLA, one of eight threads": Case("missing", xla_rendezvous),
    "Horovod under Open MPI": Case("missing", horovod_stall, (("missing", (2,)),)),
    "HCCL, all wait for one": Case("missing", hccl_notify, (("missing", (3,)),)),
    "RCCL, another kind": Case("kind", rccl_kind, (("kind", (1,)), ("drift", (1,)))),
    "MPI_Abort of Open MPI": Case("crash", mpi_abort, (("crash", (2,)),)),
    "py-spy, files named by place": Case("missing", pyspy_tp, (("missing", (3,)),)),
    "py-spy with native frames": Case("missing", pyspy_native, (("missing", (0,)),)),
    "debug server, one worker silent": Case("missing", debug_server, (("missing", (2,)),)),
    "py-spy as JSON, another call": Case(
        "kind", pyspy_json, (("kind", (2,)), ("drift", (2,)), ("missing", (2,)))
    ),
    "SGLang in docker": Case("missing", sglang, (("missing", (0,)), ("kind", (0,)))),
    "torch 2.8, packed with zstd": Case("missing", zstd_28, (("missing", (1,)), ("drift", (1,)))),
    "torch 2.7, broken by a paste": Case("missing", paste_27, (("missing", (0,)), ("drift", (0,)))),
    "Ray, folded lines": Case("unknown", ray_folded),
    "torchrun's summary alone": Case("unknown", root_cause_only),
    "torch 2.9, all in one call": Case("transport", all_equal_214),
    "torch 2.7, numbers of two groups": Case("unknown", two_groups),
}
