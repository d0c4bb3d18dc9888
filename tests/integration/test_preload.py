"""The NCCL interposer in front of a stand-in libnccl: real processes, real LD_PRELOAD."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import planguard
from planguard.capture.nccl.preload import read_logs
from planguard.capture.nccl.preload_log import HEADER_BYTES, read_log
from planguard.errors import PlanError, UsageError
from planguard.recording import Progress

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "native" / "preload"


@pytest.fixture
def job(built, tmp_path):
    """Start a rank under the interposer."""

    def start(rank, size, *tokens, **more):
        environment = os.environ | {
            "LD_PRELOAD": str(built / "libplanguard_preload.so"),
            "PLANGUARD_PRELOAD_LOG": str(tmp_path),
            "PLANGUARD_PRELOAD_RECORDS": "4096",
            "RANK": str(rank),
            "WORLD_SIZE": str(size),
            **more,
        }
        command = [str(built / "job"), str(rank), str(size), *tokens]
        return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)

    return start


def finish(*processes):
    """Wait for the end of every process and give their outputs."""
    out = [process.communicate(timeout=30)[0] for process in processes]
    assert all(process.returncode == 0 for process in processes), out
    return out


def seen(recording, rank):
    """Give the calls of a rank in words."""
    return [one.call.text() for one in recording.ranks[rank].actions if one.call.op != "init"]


def test_every_call_is_recorded_before_and_after(job, tmp_path):
    """Collectives, sends and receives appear with group, size, root and peer of global ranks."""
    tokens = ["ar:4", "rs:2", "ag:3", "a2a:5", "bc:6:1", "rd:7:0"]
    finish(job(0, 2, *tokens, "s:1:8"), job(1, 2, *tokens, "r:0:8"))
    recording = read_logs([tmp_path])
    common = [
        "all_reduce  16 B f32", "reduce_scatter  8 B f32", "all_gather  12 B f32",
        "all_to_all  40 B f32", "broadcast  root 1  24 B f32", "reduce  root 0  28 B f32",
    ]  # fmt: skip
    assert seen(recording, 0) == [*common, "send -> 1  32 B f32"]
    assert seen(recording, 1) == [*common, "recv <- 0  32 B f32"]
    assert recording.is_complete
    assert planguard.check(recording.to_plan(), model="nccl").outcome.value == "SAFE"


def test_a_call_that_never_returns_is_the_one_that_shows(job, tmp_path):
    """A process that hangs inside a call and is killed leaves that call as issued, not returned."""
    process = job(0, 1, "ar:4", "ar:666", "ar:5")
    deadline = time.monotonic() + 20
    logs = []
    while time.monotonic() < deadline:
        logs = list(tmp_path.glob("*.pglog"))
        if logs and any(e.count == 666 for e in read_log(logs[0]).entries):
            break
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=10)
    actions = read_logs([tmp_path]).ranks[0].actions
    assert [(a.call.count, a.progress) for a in actions if a.call.op == "all_reduce"] == [
        (4, Progress.UNKNOWN), (666, Progress.ISSUED),
    ]  # fmt: skip


@pytest.mark.timeout(900)  # 200 kills with --slow
def test_every_committed_record_survives_a_kill_at_a_random_point(job, tmp_path, request):
    """SIGKILL loses nothing that was committed: the calls in a log are a prefix of the program.

    Few kills come before the first record, or when the log is full.
    """
    rng, inside = random.Random(7), 0
    trials = 200 if request.config.getoption("--slow") else 5
    for trial in range(trials):
        folder = tmp_path / str(trial)
        folder.mkdir()
        process = job(
            0, 1, "time:50000000",
            PLANGUARD_PRELOAD_LOG=str(folder), PLANGUARD_PRELOAD_RECORDS="500000",
        )  # fmt: skip
        while not list(folder.glob("*.pglog")) and process.poll() is None:
            time.sleep(0.001)
        time.sleep(rng.uniform(0.001, 0.05))
        process.kill()
        process.communicate(timeout=10)
        log = read_log(next(folder.glob("*.pglog")))
        inside += 10 < len(log.entries) < 500_000
        assert log.torn <= 1
        calls = [e for e in log.entries if e.op == 1]
        assert [e.phase for e in calls] == [n % 2 for n in range(len(calls))]
        shutil.rmtree(folder)
    print(f"{inside} of {trials} kills while records were written")
    assert inside >= trials // 2


def test_a_log_that_is_full_is_incomplete(job, tmp_path):
    """What does not fit is counted; the recording has a gap and is no plan."""
    finish(job(0, 1, *["ar:1"] * 20, PLANGUARD_PRELOAD_RECORDS="10"))
    recording = read_logs([tmp_path])
    assert [gap.code for gap in recording.gaps] == ["PG912"]
    with pytest.raises(PlanError, match="INCOMPLETE"):
        recording.to_plan()


def test_a_library_that_only_its_user_sees_is_found(built, tmp_path):
    """Python loads torch, and with it libnccl, RTLD_LOCAL: dlsym(RTLD_NEXT) does not see it. The
    calls arrive there all the same, and are recorded.
    """
    code = (
        "import ctypes, os, sys; job = ctypes.CDLL(sys.argv[1], mode=os.RTLD_LOCAL); "
        "words = [b'job', b'0', b'1', b'ar:4', b'a2a:5']; "
        "sys.exit(job.main(len(words), (ctypes.c_char_p * len(words))(*words)))"
    )
    environment = os.environ | {
        "LD_PRELOAD": str(built / "libplanguard_preload.so"),
        "PLANGUARD_PRELOAD_LOG": str(tmp_path / "not" / "there" / "yet"),
        "RANK": "0",
        "WORLD_SIZE": "1",
    }
    ran = subprocess.run(
        [sys.executable, "-c", code, str(built / "libjob.so")],
        env=environment, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (ran.returncode, ran.stderr) == (0, "")
    recording = read_logs([tmp_path / "not" / "there" / "yet"])
    assert seen(recording, 0) == ["all_reduce  16 B f32", "all_to_all  20 B f32"]


REAL = [one for one in os.environ.get("PLANGUARD_REAL_NCCL", "").split(os.pathsep) if one]


@pytest.mark.skipif(not REAL, reason="PLANGUARD_REAL_NCCL names no libnccl.so.2, or several")
@pytest.mark.parametrize("real", REAL)
def test_the_real_library_answers_behind_the_interposer(built, tmp_path, real):
    """NVIDIA's libnccl, loaded RTLD_LOCAL behind another library as torch's is, gives its unique id
    and its version: neither needs a GPU. What this machine cannot do is answered as without us.
    """
    nccl = Path(real)
    source = tmp_path / "user.cpp"
    source.write_text(
        'extern "C" { int ncclGetUniqueId(void*); int ncclGroupStart(); int ncclGroupEnd();\n'
        "int ask(void* id) { ncclGroupStart(); ncclGroupEnd(); return ncclGetUniqueId(id); } }\n"
    )
    user = tmp_path / "libuser.so"
    command = ["g++", "-shared", "-fPIC", "-o", user, source, nccl, f"-Wl,-rpath,{nccl.parent}"]
    subprocess.run(command, check=True, timeout=60)
    code = (
        "import ctypes, os, sys; user = ctypes.CDLL(sys.argv[1], mode=os.RTLD_LOCAL); "
        "id = ctypes.create_string_buffer(128); print(user.ask(id), any(id.raw))"
    )
    environment = os.environ | {
        "LD_PRELOAD": str(built / "libplanguard_preload.so"),
        "PLANGUARD_PRELOAD_LOG": str(tmp_path),
        "NCCL_SOCKET_IFNAME": "lo",
    }
    ran = subprocess.run(
        [sys.executable, "-c", code, str(user)],
        env=environment, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (ran.stdout, "is in no library" in ran.stderr) == ("0 True\n", False)


def test_calls_of_a_simulated_group_are_not_communication(job, tmp_path):
    """ncclGroupSimulateEnd estimates a group and launches nothing; the calls after it count."""
    finish(job(0, 2, "gs", "ar:4", "s:1:8", "gsim", "ar:2"), job(1, 2, "ar:2"))
    recording = read_logs([tmp_path])
    assert seen(recording, 0) == seen(recording, 1) == ["all_reduce  8 B f32"]
    assert planguard.check(recording.to_plan(), model="nccl").outcome.value == "SAFE"


@pytest.mark.parametrize("how", ["split", "nsplit", "gsplit"])
def test_members_of_a_split_share_its_identity(job, tmp_path, how):
    """The child of a split is one group for all its members, with global ranks; also where NCCL
    writes its handle only later: a nonblocking split, or one inside a group.
    """
    finish(*(job(rank, 4, f"{how}:{rank % 2}", "ar:3", "up", "ar:9") for rank in range(4)))
    recording = read_logs([tmp_path])
    children = {g.ranks for name, g in recording.groups.items() if name != "world"}
    assert children == {(0, 2), (1, 3)}
    assert seen(recording, 0)[-1] == "all_reduce  36 B f32"


def test_stub_mode_contacts_nobody(job, tmp_path):
    """One rank of eight runs alone and learns its rank and size; a split is told or refused."""
    places = tmp_path / "splits.txt"
    places.write_text("0 1 2 4\n")
    out = finish(
        job(
            5, 8, "ar:4", "split:1", "ar:2",
            PLANGUARD_PRELOAD_STUB="1", PLANGUARD_PRELOAD_SPLITS=str(places),
        )
    )  # fmt: skip
    assert out == ["split 2 of 4\ndone\n"]
    recording = read_logs([tmp_path])
    assert recording.world_size == 8
    assert [gap.code for gap in recording.gaps] == ["PG911"]
    refused = job(5, 8, "split:1", PLANGUARD_PRELOAD_STUB="1")
    refused.communicate(timeout=30)
    assert refused.returncode == 45


def test_calls_of_one_launch_stay_together(job, tmp_path):
    """Sends and receives between ncclGroupStart and ncclGroupEnd are one batch."""
    finish(*(job(r, 2, "gs", f"s:{1 - r}:4", f"r:{1 - r}:4", "ge", "ar:1") for r in range(2)))
    recording = read_logs([tmp_path])
    batches = [one.batch for one in recording.ranks[0].actions if one.call.op != "init"]
    assert batches == [1, 1, None]


def test_a_forked_process_has_a_log_of_its_own(job, tmp_path):
    """The mapping is shared with a child, so a child opens its own file."""
    finish(job(0, 1, "ar:4", "fork"))
    logs = [read_log(path) for path in tmp_path.glob("*.pglog")]
    assert sorted(e.count for log in logs for e in log.entries if e.op == 1 and not e.phase) == [
        4,
        5,
    ]
    assert len(logs) == 2


def test_a_file_that_is_no_log_is_refused(tmp_path):
    """Foreign bytes, other versions and cut files are one clear error each."""
    with pytest.raises(UsageError, match="no log"):
        read_logs([tmp_path])
    with pytest.raises(UsageError, match=r"no such file or folder: .*absent"):
        read_logs([tmp_path, tmp_path / "absent"])
    file = tmp_path / "nccl-1.pglog"
    file.write_bytes(b"\0" * 5000)
    with pytest.raises(PlanError, match="not a log"):
        read_log(file)
    file.write_bytes(b"PGNCCL1\0" + (9).to_bytes(4, "little") + b"\0" * HEADER_BYTES)
    with pytest.raises(PlanError, match="unknown version"):
        read_log(file)
    head = b"PGNCCL1\0" + (1).to_bytes(4, "little") + (64).to_bytes(4, "little")
    file.write_bytes(head + (10**9).to_bytes(8, "little") + b"\0" * HEADER_BYTES)
    with pytest.raises(PlanError, match="cut short"):
        read_log(file)


@pytest.mark.parametrize("version", ["4", "5", "6"])
def test_the_profiler_plugin_tells_what_completed(built, tmp_path, version):
    """Through every version of the interface: names, sizes, peers, and which kernels ended."""
    for rank in range(2):
        command = [
            str(built / "profiler_host"), str(built / "libnccl-profiler-planguard.so"),
            version, str(rank),
        ]  # fmt: skip
        environment = os.environ | {"PLANGUARD_PRELOAD_LOG": str(tmp_path)}
        subprocess.run(command, check=True, env=environment, timeout=30, capture_output=True)
    recording = read_logs([tmp_path])
    assert recording.kinds == ("nccl-profiler",)
    assert seen(recording, 0) == [
        "all_reduce  4.00 KiB f32", "send -> 1  128 B bf16", "broadcast  root 0  2.00 KiB f32",
    ]  # fmt: skip
    assert [one.progress for one in recording.ranks[1].actions] == [
        Progress.COMPLETED, Progress.COMPLETED, Progress.STARTED,
    ]  # fmt: skip
    assert recording.ranks[1].pending == (2,)


# --- against the header of a release -------------------------------------------------------------

sys.path.insert(0, str(SOURCES))
from prototypes import prototypes, read_table  # noqa: E402


def exported():
    """Give the shapes of what the interposer exports, macros expanded by the compiler."""
    text = ""
    for source in ("communication.cpp", "lifecycle.cpp"):
        command = ["g++", "-std=c++17", "-E", "-P", str(SOURCES / source)]
        text += subprocess.run(
            command, check=True, capture_output=True, text=True, timeout=60
        ).stdout
    text = text[text.index("namespace planguard") :]
    return prototypes(text)


def test_the_interposer_covers_the_header_of_the_release():
    """Every communication and communicator function of nccl.h 2.32.3 is exported with its
    parameters.
    """
    declared, offered = read_table(), exported()
    assert len(declared) == 53
    assert {name: offered.get(name) for name in declared} == declared


def test_nothing_but_nccl_names_is_exported(built):
    """The library adds no other name to the processes it is loaded into."""
    command = ["nm", "-D", "--defined-only", str(built / "libplanguard_preload.so")]
    lines = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout
    names = {line.split()[-1] for line in lines.splitlines() if " T " in line}
    assert names
    assert all(name.startswith("nccl") for name in names)


def test_both_libraries_are_installed_beside_the_kernels():
    """A native install brings the interposer and the plugin; without it, one clear error."""
    from planguard import kernels
    from planguard.capture.nccl import preload

    if kernels.IMPLEMENTATION == "native":
        assert preload.library().exists()
        assert preload.profiler().exists()
        assert preload.environment("logs", stub=True)["LD_PRELOAD"] == str(preload.library())
    else:
        with pytest.raises(UsageError, match="was not built"):
            preload.library()
