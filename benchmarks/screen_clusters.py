"""Screening on clusters: how it grows with workers, and what a hundred of them would do.

    python benchmarks/screen_clusters.py                            # Dask and Ray, 1 to 4 workers
    python benchmarks/screen_clusters.py --python OTHER/bin/python  # workers of another environment
    python benchmarks/screen_clusters.py --asleep                   # the driver alone: 1 to 32

Workers are started by hand, with ``dask worker`` and ``ray start``, in a folder of their own, from
this environment or from the one that ``--python`` names, which has a wheel of PlanGuard. Trials are
planner files of ``screen_files.py``, named relative to a folder that the workers are not in. Every
run is compared with the rows that this machine makes: same bytes.

Workers that compute share the cores of this machine, so more of them than cores show nothing.
``--asleep`` has workers that sleep ``w`` for each trial and answer from a table: 32 of them need no
core, while the driver and Dask's scheduler do all that they do otherwise. It says

* the processor time of the driver and of the scheduler for a trial, at every number of workers:
  other work on the machine does not change it, and its reciprocal bounds the throughput;
* trials a second by the clock, beside a model that is not fitted to them: windows grow as a
  screening grows them, and a window of ``W`` trials in chunks of ``c`` ends after
  ``ceil(ceil(W / c) / n) c w + W (u + s)``, where ``u`` and ``s`` are the processor time of the
  driver and of the scheduler. Nothing of it overlaps, so it is on the safe side.

With ``w`` of 50 ms the driver is nearly idle, so that 1 to 32 workers check the first part. The
second is what a hundred workers of 5 ms meet.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
import screen_files

SLEEP = 0.05
"""Seconds that a sleeping worker takes for a trial."""
FILE = 0.005
"""Seconds that a planner file takes."""
SIZES = (1, 2, 4, 8, 16, 32)
EACH = 64
"""Trials for every sleeping worker, as far as there are as many."""


def free_port():
    """A port that nobody listens on."""
    import socket

    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


@contextlib.contextmanager
def processes():
    """Start processes in sessions of their own; end them, with all they started."""
    started = []

    def start(command, folder, **extra):
        with Path(os.devnull).open("w") as nowhere:
            one = subprocess.Popen(
                list(map(str, command)), cwd=folder, stdout=nowhere, stderr=nowhere,
                env={**os.environ, **extra},
            )  # fmt: skip
        started.append(one)
        return one

    try:
        yield start
    finally:
        for one in started:
            with contextlib.suppress(psutil.Error):
                below = psutil.Process(one.pid).children(recursive=True)
                for process in [*below, one]:
                    with contextlib.suppress(psutil.Error):
                        process.kill()
            one.wait()


@contextlib.contextmanager
def dask(python, folder, workers, threads=1):
    """A scheduler and workers, each a process; yields a client."""
    from distributed import Client

    address = f"tcp://127.0.0.1:{free_port()}"
    module, port = [python, "-m"], address.rpartition(":")[2]
    with processes() as start:
        start([*module, "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", port,
               "--no-dashboard"], folder)  # fmt: skip
        for _ in range(workers):
            start([*module, "distributed.cli.dask_worker", address, "--nthreads", threads,
                   "--no-dashboard", "--no-nanny"], folder)  # fmt: skip
        with Client(address, timeout=60) as client:
            client.wait_for_workers(workers)
            yield client


@contextlib.contextmanager
def ray_cluster(python, folder, workers):
    """A head with so many cores; yields the address."""
    port = free_port()
    # Its sockets have names of 107 letters at most.
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="r") as short, processes() as start:
        start([python, "-m", "ray.scripts.scripts", "start", "--head", "--block", "--port", port,
               "--num-cpus", workers, "--include-dashboard=false", "--disable-usage-stats",
               "--temp-dir", short, "--object-store-memory", 200 << 20],
              folder, RAY_AUTH_MODE="disabled")  # fmt: skip
        yield f"127.0.0.1:{port}"


def connected(address):
    """Connect to a head of Ray, which takes some seconds to start."""
    import ray

    for left in reversed(range(60)):
        try:
            ray.init(address=address, log_to_driver=False, configure_logging=False)
        except (OSError, RuntimeError, ValueError):
            if not left:
                raise
            time.sleep(1)
        else:
            return


def rows_of(given, executor, **settings):
    """Screen; the rows, wall seconds, and processor seconds of this process."""
    import planguard as pg

    began, used = time.perf_counter(), time.process_time()
    rows = list(pg.screen(given, executor=executor, **settings).rows())
    return rows, time.perf_counter() - began, time.process_time() - used


def grows(kind, python, folder, given, expected):
    """Screen with 1, 2 and 4 workers; print a row of each."""
    for workers in (1, 2, 4):
        if kind == "dask":
            with dask(python, folder, workers) as client:
                rows_of(given, client)  # workers start their own processes at the first chunk
                rows, wall, used = rows_of(given, client)
        else:
            import ray

            with ray_cluster(python, folder, workers) as address:
                connected(address)
                rows_of(given, "ray")
                rows, wall, used = rows_of(given, "ray")
                ray.shutdown()
        same = "same rows" if rows == expected else "OTHER ROWS"
        print(
            f"{kind:<6}{workers:3} workers {wall:7.2f} s {len(rows) / wall:7.0f}/s   driver "
            f"{used / len(rows) * 1000:5.2f} ms a trial   {same}",
            flush=True,
        )


class Asleep:
    """A pool of Dask workers that sleep instead of deciding."""

    def __init__(self, client, seconds):
        self._pool, self._seconds = client.get_executor(pure=False), seconds

    def submit(self, function, data):
        """Submit the sleep that a chunk stands for."""
        del function
        return self._pool.submit(sleep, data, self._seconds)


class Instant:
    """An executor that answers at once."""

    def run(self, tasks):
        """Yield the answers."""
        return iter(table(tasks))

    def close(self):
        """Do nothing."""


def table(tasks):
    """The same answer for every task."""
    from planguard.screen.tasks import Answer

    return [Answer(t.id, "SAFE", skeleton="0" * 64, ranks=2, actions=8) for t in tasks]


def sleep(data, seconds):
    """Sleep as long as a chunk would take, and answer from a table."""
    from planguard.screen.remote import answered

    def answers(tasks):
        time.sleep(seconds * len(tasks))
        return table(tasks)

    return answered(data, answers)


def scheduler_of(process):
    """The process of the scheduler that was started here."""
    return next(p for p in process.children(recursive=True)
                if any("dask_scheduler" in part for part in p.cmdline()))  # fmt: skip


def asleep(folder, given):
    """Measure sleeping workers at several sizes beside the model, and say what bounds a hundred."""
    from planguard.screen.executors import Futures

    _, _, used = rows_of(given, Instant())
    print(f"driver without a cluster {used / len(given) * 1000:.2f} ms of processor time a trial")
    print("  workers   driver, ms   scheduler, ms   measured, /s   model, /s   measured / model")
    drivers, schedulers = [], []
    for workers in SIZES:
        some = given[: EACH * workers]
        with dask(sys.executable, folder, 1, threads=workers) as client:
            rows_of(given[:64], Futures(Asleep(client, 0), workers))
            scheduler = scheduler_of(psutil.Process())
            before = sum(scheduler.cpu_times()[:2])
            _, wall, used = rows_of(some, Futures(Asleep(client, SLEEP), workers))
            drivers.append(used / len(some))
            schedulers.append((sum(scheduler.cpu_times()[:2]) - before) / len(some))
        told, got = model(len(some), workers, drivers[-1] + schedulers[-1], SLEEP), len(some) / wall
        print(
            f"{workers:9}{drivers[-1] * 1000:13.2f}{schedulers[-1] * 1000:16.2f}{got:15.1f}"
            f"{told:12.1f}{got / told:19.2f}",
            flush=True,
        )
    driver, scheduler = drivers[-1], schedulers[-1]
    bound = min(1 / driver, 1 / scheduler)
    print(f"at most {bound:.0f} trials a second, whatever the number of workers")
    told = model(1_000_000, 100, driver + scheduler, FILE)
    print(
        f"100 workers of {FILE * 1000:.0f} ms: {told:.0f}/s by the model, {1e6 / told / 60:.0f} min"
    )


def model(trials, workers, serial, worker):
    """Trials a second: windows of a screening, one after the other."""
    from planguard.screen.executors import CHUNK
    from planguard.screen.screening import LARGEST, SMALLEST, WINDOW_SECONDS

    size, left, spent = SMALLEST, trials, 0.0
    while left:
        window = min(size, left)
        chunk = max(1, min(CHUNK, window // (4 * workers)))
        rounds = math.ceil(math.ceil(window / chunk) / workers)
        took = rounds * chunk * worker + window * serial
        left, spent = left - window, spent + took
        size = min(2 * size, LARGEST) if took < WINDOW_SECONDS else size
        size = max(SMALLEST, size // 2) if took > 2 * WINDOW_SECONDS else size
    return trials / spent


def main():
    """Run what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=2_048)
    parser.add_argument("--python", default=sys.executable, help="of the workers' environment")
    parser.add_argument("--only", choices=("dask", "ray"))
    parser.add_argument("--asleep", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        here, other = Path(name, "here"), Path(name, "other")
        other.mkdir()
        screen_files.write(here / "trials", args.trials)
        os.chdir(here)
        given = sorted(map(str, Path("trials").rglob("schedule.csv")))
        if args.asleep:
            asleep(other, given)
            return
        expected, wall, _ = rows_of(given, "processes", jobs=1)
        print(f"one local worker {wall:7.2f} s {len(given) / wall:7.0f}/s", flush=True)
        print(f"workers of {args.python}: another folder", flush=True)
        for kind in ("dask", "ray"):
            if args.only in {None, kind}:
                grows(kind, args.python, other, given, expected)


if __name__ == "__main__":
    main()
