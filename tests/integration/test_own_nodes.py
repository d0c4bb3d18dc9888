"""What one node has and another one has not decides nothing unseen: packages, databases, locks.

Each question is asked three times: its answer decides what is issued, which is undecided with the
line, or unsafe where the ranks differ here already; it is agreed on first; it is only shown.
"""

# ruff: noqa: D103, PTH102, PTH107, PTH110, PTH114, PTH119, PTH123, SIM115, FURB192 - programs as people write them
from __future__ import annotations

import concurrent.futures
import configparser
import contextlib
import fcntl
import gc
import getpass
import importlib
import importlib.metadata
import importlib.util
import json
import multiprocessing
import os
import pathlib
import pickle
import platform
import queue
import select
import shelve
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
import tomllib
from multiprocessing.connection import wait as wait_of

import pytest

from planguard.verdict import Outcome

torch = pytest.importorskip("torch")
dist = pytest.importorskip("torch.distributed")

from planguard.capture import precheck  # noqa: E402 - torch must be there

pytestmark = [pytest.mark.processes, pytest.mark.wheel, pytest.mark.timeout(300)]

ORDER = list({"text", "image", "audio", "video"})
try:
    import a_package_that_nobody_has  # noqa: F401 - whether it is there counts

    HAS_PACKAGE = True
except ImportError:
    HAS_PACKAGE = False


class Settings:
    """What a class computes when its module is imported."""

    modes = tuple({"text", "image", "audio", "video"})


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path, monkeypatch):
    """A folder of each test's own, with a file of settings and an empty database."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config.json").write_text('{"lr": 1}')
    with contextlib.closing(sqlite3.connect("steps.db")) as database:
        database.execute("create table done (name text, step int)")
        database.commit()
    monkeypatch.setenv("HOSTNAME", "node0")


def decide(job):
    """Play a job on two ranks and give its verdict."""
    return precheck(2, model="gloo", on_unsafe="return", timeout=60.0).run(job)


def imported():
    try:
        import colorsys as found
    except ImportError:
        found = None
    return found is None


def missing():
    try:
        from a_package_that_nobody_has import fused
    except Exception:  # noqa: BLE001 - as programs have it
        fused = None
    return fused is not None


def imported_by_name():
    try:
        importlib.import_module("a_package_that_nobody_has")
    except ModuleNotFoundError:
        return False
    return True


def version():
    try:
        return importlib.metadata.version("a-package-that-nobody-has") > ""
    except importlib.metadata.PackageNotFoundError:
        return False


def asked(query, *, one=True):
    with contextlib.closing(sqlite3.connect("steps.db")) as database:
        found = database.cursor().execute(query)
        return found.fetchone() if one else [name for (name,) in found]


def claimed(make):
    try:
        make()
    except OSError:
        return False
    return True


def locked():
    with open("lock", "w") as file:
        return not claimed(lambda: fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB))


def state():
    try:
        with open("state.json") as file:
            return json.load(file)["step"] > 0
    except FileNotFoundError:
        return False


def number():
    try:
        return int(pathlib.Path("last.txt").read_text()) > 10
    except FileNotFoundError:
        return False


def pickled():
    try:
        with open("state.pkl", "rb") as file:
            return pickle.load(file)["epoch"] > 0  # noqa: S301 - a file of this test
    except (FileNotFoundError, EOFError):
        return False


def checkpoint():
    try:
        return torch.load("last.pt")["iteration"] > 0
    except FileNotFoundError:
        return False


def settings():
    parser = configparser.ConfigParser()
    return parser.read("job.ini") != []


def option():
    parser = configparser.ConfigParser()
    parser.read("site.ini")
    return parser.has_option("train", "evaluate")


def table():
    found = {}
    with contextlib.suppress(FileNotFoundError), open("site.toml", "rb") as file:
        found = tomllib.load(file)
    return found.get("evaluate", 0) > 0


def many_steps():
    steps = 1
    with contextlib.suppress(FileNotFoundError), open("steps.json") as file:
        steps = json.load(file)["steps"]
    return steps


def put():
    given = multiprocessing.get_context("fork").Queue()
    given.put(1)
    given.get(timeout=60)
    given.put(2)
    try:
        return given.get(timeout=60) != 2
    except queue.Empty:
        return True


def polled():
    ours, theirs = multiprocessing.Pipe()
    theirs.send(1)
    return not ours.poll(60)


def late_in(found, is_there):
    """Whether what a thread brings after a while is there already."""
    worker = threading.Thread(target=lambda: (time.sleep(0.5), found.put(1)))
    worker.start()
    try:
        return is_there(found)
    except queue.Empty:
        return False
    finally:
        worker.join()


def late_in_a_pipe(is_there):
    ours, theirs = multiprocessing.Pipe()
    worker = threading.Thread(target=lambda: (time.sleep(0.5), theirs.send(1)))
    worker.start()
    found = bool(is_there(ours))
    worker.join()
    return found


def written():
    process = subprocess.Popen(["echo", "8"], stdout=subprocess.PIPE, text=True)
    return int(process.communicate()[0]) > 8


def piped():
    with subprocess.Popen(["echo", "8"], stdout=subprocess.PIPE, text=True) as process:
        return int(process.stdout.read()) > 8


def first_of_two():
    order = []
    threads = [threading.Thread(target=order.append, args=(n,)) for n in range(2)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    return order[0] == 1


def first_in_a_queue():
    found = queue.Queue()
    for n in range(2):
        threading.Thread(target=found.put, args=(n,)).start()
    return found.get() == 1


def first_of_a_pool():
    order = []
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for n in range(2):
            pool.submit(order.append, n)
    return order[0] == 1


def late():
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        return len(concurrent.futures.wait([pool.submit(int)], timeout=60).not_done) > 0


def busy():
    lock = threading.Lock()
    return not lock.acquire(blocking=False)


def alike():
    one = os.path.exists("one.pt")
    other = os.path.exists("other.pt")
    return one != other


ASKED = {
    "two files that are alike": alike,
    "find_spec": lambda: importlib.util.find_spec("colorsys") is None,
    "find_spec of nothing": lambda: importlib.util.find_spec("a_package_of_nobody") is not None,
    "import": imported,
    "import of nothing": missing,
    "import_module": imported_by_name,
    "version": lambda: importlib.metadata.version("torch") < "1",
    "version of nothing": version,
    "which": lambda: shutil.which("a-compiler-that-nobody-has") is not None,
    "imported before": lambda: HAS_PACKAGE,
    "a list of a set": lambda: ORDER[0] == sorted(ORDER)[0],
    "a class's tuple of a set": lambda: Settings.modes[0] == sorted(Settings.modes)[0],
    "mkdtemp": lambda: os.path.basename(tempfile.mkdtemp())[3] < "1",
    "NamedTemporaryFile": lambda: "zzz" in tempfile.NamedTemporaryFile().name,
    "isatty": lambda: os.isatty(0),
    "terminal": lambda: shutil.get_terminal_size().columns > 300,
    "count": lambda: asked("select count(*) from done")[0] > 0,
    "a row": lambda: asked("select step from done") is not None,
    "rows": lambda: "resume" in asked("select name from done", one=False),
    "get_count": lambda: gc.get_count()[0] > 10**6,
    "threads": lambda: threading.active_count() > 300,
    "device": lambda: torch.cuda.memory_reserved() > 10 * 2**30,
    "release": lambda: platform.release().startswith("4."),
    "user": lambda: getpass.getuser() == "trainer",
    "address": lambda: socket.gethostbyname("localhost").startswith("10."),
    "HOSTNAME": lambda: os.environ.get("HOSTNAME") == "node1",
    "processors of the node": lambda: int(os.environ.get("SLURM_CPUS_ON_NODE", "8")) > 64,
    "number of the node": lambda: int(os.environ.get("BATCH_NODE_ID", "0")) == 3,
    "visible devices": lambda: len(os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")) > 4,
    "mkdir": lambda: not claimed(lambda: os.mkdir(f"lock-{os.environ['RANK']}-{os.getpid()}")),
    "O_EXCL": lambda: not claimed(lambda: os.open(f"l-{os.getpid()}", os.O_CREAT | os.O_EXCL)),
    "flock": locked,
    "remove": lambda: claimed(lambda: os.remove("stale.pt")),
    "copy": lambda: claimed(lambda: shutil.copy("a.pt", "b.pt")),
    "islink": lambda: os.path.islink("latest"),
    "json": state,
    "a number": number,
    "pickle": pickled,
    "torch.load": checkpoint,
    "configparser": settings,
    "an option": option,
    "TOML": table,
    "a queue of processes": put,
    "poll": polled,
    "cpu capability": lambda: torch.backends.cpu.get_cpu_capability() == "AVX10",
    "not yet in a queue": lambda: late_in(queue.Queue(), lambda one: not one.empty()),
    "size of a queue": lambda: late_in(queue.Queue(), lambda one: one.qsize() > 0),
    "not yet taken": lambda: late_in(queue.Queue(), lambda one: one.get_nowait() == 1),
    "taken in time": lambda: late_in(queue.Queue(), lambda one: one.get(timeout=0.01) == 1),
    "simple queue": lambda: late_in(queue.SimpleQueue(), lambda one: not one.empty()),
    "simple queue, taken": lambda: late_in(queue.SimpleQueue(), lambda one: one.get_nowait() == 1),
    "not yet in a pipe": lambda: late_in_a_pipe(lambda one: one.poll()),
    "wait of connections": lambda: late_in_a_pipe(lambda one: wait_of([one], 0.01)),
    "select": lambda: late_in_a_pipe(lambda one: select.select([one], [], [], 0)[0]),
    "communicate": written,
    "stdout": piped,
    "wait of a process": lambda: subprocess.Popen(["true"]).wait() != 0,
    "threads in turn": first_of_two,
    "threads and a queue": first_in_a_queue,
    "a pool in turn": first_of_a_pool,
    "wait": late,
    "acquire": busy,
}


def act(flag):
    if flag:
        dist.barrier()
    dist.all_reduce(torch.ones(1))


@pytest.mark.parametrize("name", ASKED)
def test_what_a_node_has_is_its_own(name):
    """Undecided with the line; or unsafe where two ranks differ as they are."""
    verdict = decide(lambda: act(ASKED[name]()))
    said = [one.message for one in verdict.approximations if one.kind == "own-answers"]
    assert verdict.unsafe or (
        verdict.outcome is Outcome.UNKNOWN
        and any("test_own_nodes.py:" in one and "depends on" in one for one in said)
    )


TWINS = [
    "find_spec", "import", "import of nothing", "imported before", "a list of a set", "mkdtemp",
    "a row", "rows", "mkdir", "flock", "json", "pickle", "torch.load", "configparser",
    "an option", "a queue of processes", "not yet in a queue", "not yet taken", "select",
    "threads and a queue", "a pool in turn",
]  # fmt: skip
"""One of each kind whose other answers are few."""


def agreed(name):
    flag = [bool(ASKED[name]())]
    dist.broadcast_object_list(flag, src=0)
    act(flag[0])


@pytest.mark.parametrize("name", TWINS)
def test_what_is_agreed_on_is_right(name):
    assert decide(lambda: agreed(name)).outcome is Outcome.SAFE


def walks_as_far_as_a_file_says():
    steps = [many_steps()]
    dist.broadcast_object_list(steps, src=0)
    for _ in range(steps[0]):
        dist.all_reduce(torch.ones(1))


def test_a_loop_of_all_ranks_over_a_large_number_of_a_file_ends(monkeypatch):
    """Where it is not through in time, a file that is not here holds a small number."""
    monkeypatch.setattr("planguard.capture.play.odd_plays._HELD_FOR", 1.0)
    assert decide(walks_as_far_as_a_file_says).outcome is Outcome.SAFE


def test_a_shelf_of_the_node_is_not_decided(tmp_path):
    """``dbm`` and ``shelve`` read keys that no play can change: UNKNOWN with the line."""

    def job():
        with shelve.open(str(tmp_path / f"cache-{os.environ['RANK']}")) as cache:  # noqa: S301 - of this test
            act("stats" in cache)

    verdict = decide(job)
    assert verdict.outcome is Outcome.UNKNOWN
    assert any("test_own_nodes.py:" in one.message for one in verdict.approximations)


def shown(name):
    print(name, ASKED[name](), file=sys.stderr)
    act(False)


@pytest.mark.parametrize("name", TWINS[::4])
def test_what_is_only_shown_is_right(name):
    assert decide(lambda: shown(name)).outcome is Outcome.SAFE


def ends_by_a_signal():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    print(os.path.exists("one.pt"), file=sys.stderr)
    for _ in range(3):
        dist.all_reduce(torch.ones(1))


def test_what_ends_the_job_does_not_hide_what_else_is_asked():
    assert decide(ends_by_a_signal).outcome is Outcome.SAFE


IMPORTED = """\
MODES = list({"text", "image", "audio", "video"})
"""
COMPILED = """\
import sys
from modes import MODES
scope = {}
exec(compile(open("modes.py").read(), "modes.py", "exec"), scope)
sys.exit(scope["MODES"] == MODES)
"""
STEP = """\
import torch
import torch.distributed as dist
from modes import MODES
from planguard.capture import precheck


def step():
    if MODES[0] == sorted(MODES)[0]:
        dist.all_reduce(torch.ones(1))
    dist.barrier()


if __name__ == "__main__":
    print(precheck(world_size=2).run(step).outcome.value)
"""


def test_a_module_read_from_bytecode_is_asked_again(tmp_path):
    """There a set of constants has other collisions than where the source is compiled again, so
    its list comes in another order than the statement gives here: it was taken for a name that has
    been set anew since, and its order for that of all ranks.
    """
    for name, text in (("modes", IMPORTED), ("compiled", COMPILED), ("step", STEP)):
        (tmp_path / f"{name}.py").write_text(text)
    told = {**os.environ, "PYTHONPATH": str(tmp_path)}
    told.pop("PYTHONDONTWRITEBYTECODE", None)

    def run(seed, name):
        return subprocess.run(
            [sys.executable, f"{name}.py"],
            env=told | {"PYTHONHASHSEED": str(seed)},
            cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120,
        )  # fmt: skip

    assert run(1, "compiled").returncode in {0, 1}  # it writes the bytecode
    seeds = [seed for seed in range(100) if run(seed, "compiled").returncode == 0]
    assert seeds
    for seed in seeds[:2]:
        done = run(seed, "step")  # it raises, with the report: one rank's list begins otherwise
        assert "SAFE" not in done.stdout
        assert "all_reduce" in done.stderr
        assert "verdict: MISMATCH" in done.stderr
