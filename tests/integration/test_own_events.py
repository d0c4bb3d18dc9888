"""What happens to one rank alone, and who comes first there, decides nothing unseen.

Each pair is a program that hangs where one rank gets a signal, runs out of memory, is refused by a
server, waits too long or is done in another order, and one that agrees first. Here nothing of it
happens.
"""

# ruff: noqa: D103 - programs as people write them
from __future__ import annotations

import asyncio
import concurrent.futures
import os
import queue
import signal
import socket
import sys
import threading
import time
import urllib.error
import urllib.request
from datetime import timedelta
from multiprocessing.pool import ThreadPool

import pytest

torch = pytest.importorskip("torch")
dist = pytest.importorskip("torch.distributed")

from planguard.capture import precheck  # noqa: E402 - torch must be there

pytestmark = pytest.mark.wheel


def decide(job):
    """Play a job on two ranks and give its verdict."""
    return precheck(2, model="gloo", on_unsafe="return", timeout=60.0).run(job)


def step():
    dist.all_reduce(torch.ones(3))


def any_of(flag):
    """Tell whether a rank says so."""
    count = torch.tensor(int(flag))
    dist.all_reduce(count, op=dist.ReduceOp.MAX)
    return bool(count)


def itself(flag):
    return flag


# --- what happens to one rank --------------------------------------------------------------------


def on_signal(agree):
    seen = []
    signal.signal(signal.SIGUSR1, lambda *_: seen.append(1))
    for _ in range(3):
        step()
        if agree(bool(seen)):
            dist.barrier()
            return


def without_memory(agree):
    model = torch.nn.Linear(2, 2)
    for _ in range(2):
        is_over = False
        try:
            loss = model(torch.ones(1, 2)).sum()
        except torch.cuda.OutOfMemoryError:
            is_over = True
        if agree(is_over):
            continue
        loss.backward()
        step()


def without_memory_as_before(agree):
    model = torch.nn.Linear(2, 2)
    is_over = False
    try:
        model(torch.ones(1, 2)).sum().backward()
    except RuntimeError as error:
        if "out of memory" not in str(error):
            raise
        is_over = True
    if not agree(is_over):
        step()


def refused(agree):
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        try:
            socket.create_connection(server.getsockname(), timeout=5).close()
            is_up = True
        except OSError:
            is_up = False
    if agree(not is_up):
        step()


def answered(agree):
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        try:
            url = f"http://127.0.0.1:{nobody.getsockname()[1]}/health"
            is_up = urllib.request.urlopen(url, timeout=5).status == 200
        except urllib.error.URLError:
            is_up = False
    if agree(is_up):
        step()


# --- who comes first -----------------------------------------------------------------------------

PARTS = [2, 3, 4]


def done(agree):
    pool = concurrent.futures.ThreadPoolExecutor(1)
    saved = pool.submit(int)
    time.sleep(0.05)
    if agree(not saved.done()):
        step()
    pool.shutdown()


def alive(agree):
    thread = threading.Thread(target=int)
    thread.start()
    time.sleep(0.05)
    if agree(thread.is_alive()):
        step()
    thread.join()


def happened(agree):
    stop = threading.Event()
    timer = threading.Timer(3600, stop.set)
    timer.daemon = True
    timer.start()
    for _ in range(2):
        if agree(stop.is_set()):
            break
        step()
    timer.cancel()


def taken(agree):
    given = queue.Queue()
    threading.Thread(target=given.put, args=(1,)).start()
    try:
        given.get(timeout=5)
        is_empty = False
    except queue.Empty:
        is_empty = True
    if not agree(is_empty):
        step()


def in_time(agree):
    async def work():
        await asyncio.sleep(0)

    async def main():
        try:
            await asyncio.wait_for(work(), timeout=5)
        except TimeoutError:
            return False
        return True

    if not agree(not asyncio.run(main())):
        step()


def later():
    return dist.all_reduce(torch.ones(2), async_op=True)


def completed(agree):
    work = later()
    if agree(not work.is_completed()):
        step()
    work.wait()


def future_done(agree):
    work = later()
    if agree(not work.get_future().done()):
        step()
    work.wait()


def waited_for_long(agree):
    is_over = False
    try:
        later().wait(timedelta(seconds=5))
    except RuntimeError:
        is_over = True
    if not agree(is_over):
        step()


def ran_down(agree):
    seen = []
    timer = threading.Timer(60, seen.append, (1,))
    timer.start()
    for _ in range(3):
        step()
        if agree(bool(seen)):
            break
    timer.cancel()


def called_later(agree):
    async def main():
        seen = []
        asyncio.get_running_loop().call_later(60, seen.append, 1)
        for _ in range(3):
            step()
            if agree(bool(seen)):
                break

    asyncio.run(main())


def some_done(agree):
    async def main():
        tasks = [asyncio.create_task(asyncio.sleep(s, s)) for s in (0.0, 0.2)]
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        return len(done)

    if agree(asyncio.run(main()) == 2):
        step()


PAIRS = [
    ran_down, called_later, some_done, completed, future_done, waited_for_long,
    on_signal, without_memory, without_memory_as_before, refused, answered, done, alive, happened,
    taken, in_time,
]  # fmt: skip


@pytest.mark.parametrize("job", PAIRS, ids=lambda job: job.__name__)
def test_what_happens_to_one_rank_alone_is_played(job):
    """UNKNOWN with the line where the rank decides alone, SAFE where the ranks agree on it."""
    verdict = decide(lambda: job(itself))
    assert verdict.outcome.name == "UNKNOWN"
    said = [one.message for one in verdict.approximations if one.kind == "own-answers"]
    assert "test_own_events.py:" in said[0]
    assert decide(lambda: job(any_of)).safe


def watched(end):
    for _ in range(3):
        timer = threading.Timer(60, end)
        timer.start()
        step()
        step()
        timer.cancel()


def killed():
    watched(lambda: os.kill(os.getpid(), signal.SIGKILL))


def left():
    watched(lambda: os._exit(1))


def complained():
    watched(lambda: sys.exit("too late"))  # ends its thread


def beaten():
    beats = []
    timer = threading.Timer(60, beats.append, (1,))
    timer.start()
    for _ in range(3):
        step()
    timer.cancel()


@pytest.mark.parametrize("job", [killed, left, complained, beaten], ids=lambda job: job.__name__)
def test_a_timer_that_ends_the_job_or_decides_nothing_is_right(job):
    """A watchdog kills its process; a heartbeat notes what nobody acts on."""
    assert decide(job).safe


def polled():
    work = later()
    while not work.is_completed():
        time.sleep(0.001)
    work.wait()
    step()


def test_a_loop_that_polls_until_a_call_ended_is_right():
    """It ends where the rank is told once that the call has not."""
    assert decide(polled).safe


def by_completion():
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for one in concurrent.futures.as_completed([pool.submit(int, n) for n in PARTS]):
            dist.all_reduce(torch.ones(one.result()))


def by_order():
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for one in [pool.submit(int, n) for n in PARTS]:
            dist.all_reduce(torch.ones(one.result()))


def by_pool():
    with ThreadPool(2) as pool:
        for size in pool.imap_unordered(int, PARTS):
            dist.all_reduce(torch.ones(size))


def by_pool_in_order():
    with ThreadPool(2) as pool:
        for size in pool.imap(int, PARTS):
            dist.all_reduce(torch.ones(size))


def by_fastest():
    costs = {}
    for size in PARTS:
        start = time.perf_counter()
        sum(range(size))
        costs[size] = time.perf_counter() - start
    dist.all_reduce(torch.ones(min(costs, key=costs.get)))


def by_fastest_of_rank_0():
    costs = {}
    for size in PARTS:
        start = time.perf_counter()
        sum(range(size))
        costs[size] = time.perf_counter() - start
    best = [min(costs, key=costs.get)]
    dist.broadcast_object_list(best, 0)
    dist.all_reduce(torch.ones(best[0]))


@pytest.mark.parametrize(
    ("wrong", "right"),
    [(by_completion, by_order), (by_pool, by_pool_in_order), (by_fastest, by_fastest_of_rank_0)],
    ids=lambda job: job.__name__,
)
def test_the_order_in_which_work_ends_is_every_ranks_own(wrong, right):
    """What is done first, or was fastest, is another one on each rank."""
    assert decide(wrong).outcome.name in ("UNKNOWN", "MISMATCH")
    assert decide(right).safe


def ended_by_a_signal():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    for _ in range(3):
        step()


def waits_for_all():
    """A worker that looks whether it is to end, which the main thread says."""
    stop, work = threading.Event(), queue.Queue()

    def run():
        while not stop.is_set():
            try:
                work.get(timeout=0.01)
            except queue.Empty:
                continue

    thread = threading.Thread(target=run)
    thread.start()
    work.put(1)
    step()
    stop.set()
    thread.join()


@pytest.mark.parametrize("job", [ended_by_a_signal, waits_for_all], ids=lambda job: job.__name__)
def test_an_end_of_the_job_and_a_worker_are_no_divergence(job):
    """A handler that ends the process ends the job; what workers ask decides no call."""
    assert decide(job).safe


def saves_in_a_handler():
    signal.signal(signal.SIGTERM, lambda *_: dist.barrier())
    for _ in range(3):
        step()


def test_a_handler_that_communicates_is_found():
    """A signal comes to ranks between different calls."""
    verdict = decide(saves_in_a_handler)
    assert verdict.outcome.name == "UNKNOWN"
    assert any("whether a signal arrives" in one.message for one in verdict.approximations)
