"""Screening on clusters: how it grows with workers, and what a hundred of them would do.

    python benchmarks/screen_clusters.py                            # Dask and Ray, 1 to 4 workers
    python benchmarks/screen_clusters.py --python OTHER/bin/python  # workers of another environment
    python benchmarks/screen_clusters.py --asleep                   # the driver alone: 4, 16, 64

Workers are started by hand, with ``dask worker`` and ``ray start``, in a folder of their own, from
this environment or from the one that ``--python`` names, which has a wheel of PlanGuard. Trials are
planner files of ``screen_files.py``, named relative to a folder that the workers are not in. Every
run is compared with the rows that this machine makes: same bytes.

Workers that compute share the cores of this machine, so more of them than cores show nothing.
``--asleep`` has workers that sleep ``w`` for each trial and answer from a table: as many as one
likes, on two cores, while the driver and Dask's scheduler do all that they do otherwise. That is
where a model is checked, at three sizes, before it is asked about a hundred. It has, beside ``w``:

* ``u``: seconds of the driver for a trial while no worker is busy: an executor that answers at
  once, without a cluster;
* ``a + q / c``: seconds for a trial in chunks of ``c``, where workers do not sleep: of the driver
  and the scheduler together, from one worker (``c`` = 32) and from 64 (``c`` = 8).

A window of ``W`` trials takes ``u W + max((a + q / c - u) W, w W / n) + w c`` with ``n`` workers:
the driver sends and receives while they work, and the last chunk ends later than the others, by its
own length at most. All of it is by the clock, in one run, so that other work disturbs both sides.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
import screen_files

WINDOW = 2048
"""Trials of a window, once a screening has warmed up (``planguard.screen.screening.LARGEST``)."""
SLEEP = 0.005
"""Seconds that a sleeping worker takes for a trial: what a planner file takes."""


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


def least(given, executor, times=2):
    """Wall seconds a trial, the least of several."""
    return min(rows_of(given, executor())[1] for _ in range(times)) / len(given)


def asleep(folder, given, sizes):
    """Measure sleeping workers at several sizes beside the model, and ask it about a hundred."""
    from planguard.screen.executors import Futures

    alone = least(given, Instant)
    free, measured = {}, {}
    for workers in (1, *sizes):
        with dask(sys.executable, folder, 1, threads=workers) as client:
            rows_of(given[:200], Futures(Asleep(client, 0), workers))
            free[workers] = least(given, lambda: Futures(Asleep(client, 0), workers))  # noqa: B023
            if workers > 1:
                busy = lambda: Futures(Asleep(client, SLEEP), workers)  # noqa: B023, E731
                measured[workers] = least(given, busy, times=1 if workers < 8 else 2)
    first, last = chunk_of(1), chunk_of(sizes[-1])
    each = (free[sizes[-1]] - free[1]) / (1 / last - 1 / first)
    base = free[1] - each / first
    print(
        f"driver alone {alone * 1000:.2f} ms a trial; with a cluster {base * 1000:.2f} ms and "
        f"{each * 1000:.2f} ms a chunk; worker {SLEEP * 1000:.1f} ms"
    )
    print("  workers   predicted, /s   measured, /s   measured / predicted")
    for workers in sizes:
        told, got = model(workers, alone, base, each), 1 / measured[workers]
        print(f"{workers:9}{told:16.0f}{got:15.0f}{got / told:23.2f}", flush=True)
    told = model(100, alone, base, each)
    print(f"{100:9}{told:16.0f}{'-':>15}    a million in {1e6 / told / 60:.0f} min")


def chunk_of(workers):
    """Trials that travel together."""
    from planguard.screen.executors import CHUNK

    return max(1, min(CHUNK, WINDOW // (4 * workers)))


def model(workers, alone, base, each, worker=SLEEP):
    """Trials a second with so many workers."""
    chunk = chunk_of(workers)
    sending = max(0.0, base + each / chunk - alone) * WINDOW
    return WINDOW / (alone * WINDOW + max(sending, worker * WINDOW / workers) + worker * chunk)


def main():
    """Run what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=1_000)
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
            asleep(other, given, (4, 16, 64))
            return
        expected, wall, _ = rows_of(given, "processes", jobs=1)
        print(f"one local worker {wall:7.2f} s {len(given) / wall:7.0f}/s", flush=True)
        print(f"workers of {args.python}: another folder", flush=True)
        for kind in ("dask", "ray"):
            if args.only in {None, kind}:
                grows(kind, args.python, other, given, expected)


if __name__ == "__main__":
    main()
