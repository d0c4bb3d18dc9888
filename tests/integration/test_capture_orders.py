"""Orders that each rank has of its own: what is compared is what the program calls its data."""

from __future__ import annotations

import asyncio
import functools
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor, as_completed, wait
from multiprocessing.pool import ThreadPool

import pytest

from planguard.verdict import Outcome

torch = pytest.importorskip("torch")
dist = pytest.importorskip("torch.distributed")

from planguard.capture import precheck  # noqa: E402 - torch must be there

pytestmark = pytest.mark.wheel


def outcome(job, world=2, model="gloo", **options):
    """Play a job on all ranks and give its verdict."""
    options = {"ranks": "all", "model": model, "on_unsafe": "return", "timeout": 60.0, **options}
    check = precheck(world_size=world, **options)
    return check.run(job)


def grads(*names, count=4):
    """Tensors of one size under names."""
    return {name: torch.full((count,), 1.0) for name in names}


def test_equal_calls_in_another_order_mix_two_tensors():
    """One rank reduces the tables the other way round: PG212, and the finding names them."""

    def job():
        tables = grads("user", "item")
        for name in ("user", "item") if dist.get_rank() == 0 else ("item", "user"):
            dist.all_reduce(tables[name])

    verdict = outcome(job)
    assert verdict.outcome is Outcome.MISMATCH
    assert verdict.findings[0].code == "PG212"
    assert "tables['user']" in str(verdict.findings[0])


def test_one_order_of_names_is_right():
    """Sorted names, from containers that were filled in another order."""

    def job():
        names = ["a", "b"] if dist.get_rank() == 0 else ["b", "a"]
        tables = grads(*names)
        for name in sorted(tables):
            dist.all_reduce(tables[name])

    assert outcome(job).outcome is Outcome.SAFE


def test_a_stand_in_has_another_name_and_is_right():
    """A rank without data reduces zeros in its place: position decides, as it does on gloo."""

    def job():
        tables = grads("loss", "count")
        if dist.get_rank() == 0:
            dist.all_reduce(tables["loss"])
        else:
            dist.all_reduce(torch.zeros(4))
        dist.all_reduce(tables["count"])

    assert outcome(job).outcome is Outcome.SAFE


def test_variables_in_another_order():
    """Two calls with plain variables, swapped on one rank."""

    def job():
        loss, total = torch.ones(1), torch.ones(1)
        if dist.get_rank() == 0:
            dist.all_reduce(loss)
            dist.all_reduce(total)
        else:
            dist.all_reduce(total)
            dist.all_reduce(loss)

    assert outcome(job).outcome is Outcome.MISMATCH


def test_parameters_in_another_order():
    """Gradients of one shape, walked backwards on one rank."""

    def job():
        model = torch.nn.Sequential(*[torch.nn.Linear(4, 4, bias=False) for _ in range(3)])
        parameters = list(model.parameters())
        if dist.get_rank():
            parameters.reverse()
        for p in parameters:
            dist.all_reduce(p.data)

    verdict = outcome(job)
    assert verdict.outcome is Outcome.MISMATCH
    assert "0.weight.data" in str(verdict.findings[0])


def test_a_loop_over_a_set_has_every_order():
    """Strings are hashed with a seed of the process: each rank has an order of its own."""

    def job():
        tables = grads("w", "b", "g")
        for name in {"w", "b", "g"}:  # noqa: PLC0208 - the set is what is tested
            dist.all_reduce(tables[name])

    verdict = outcome(job)
    assert verdict.unsafe
    assert any(note.kind == "set-order" for note in verdict.approximations)


def test_a_loop_over_a_sorted_set_is_right():
    """sorted() gives every rank one order."""

    def job():
        tables = grads("w", "b", "g")
        for name in sorted(set(tables)):
            dist.all_reduce(tables[name])

    assert outcome(job).outcome is Outcome.SAFE


def test_the_order_of_a_set_that_does_not_matter():
    """A set with one element that communicates, and sets of numbers, leave nothing open."""

    def job():
        for name in {"w"}:  # noqa: PLC0208 - the set is what is tested
            dist.all_reduce(grads("w")[name])
        tables = [torch.ones(4), torch.ones(8)]
        for place in {0, 1}:  # noqa: PLC0208 - the set is what is tested
            dist.all_reduce(tables[place])

    assert outcome(job).outcome is Outcome.SAFE


def ddp(hook):
    """One step of DDP with two buckets of one size and a communication hook."""

    def job():
        # A megabyte and a half each, and two steps: in the first all is one bucket.
        layers = [torch.nn.Linear(600, 600, bias=False) for _ in range(2)]
        model = torch.nn.parallel.DistributedDataParallel(
            torch.nn.Sequential(*layers), bucket_cap_mb=1
        )
        model.register_comm_hook([], hook)
        for _ in range(2):
            model(torch.ones(2, 600)).sum().backward()

    return job


def send(buffer):
    """Reduce a bucket."""
    work = dist.all_reduce(buffer, async_op=True)
    return work.get_future().then(lambda done: done.value()[0])


def in_order(_, bucket):
    """Send every bucket when it comes."""
    return send(bucket.buffer())


def held(state, bucket):
    """On rank 1 the first bucket waits for the second, and is sent behind it."""
    if dist.get_rank() == 0 or (bucket.is_last() and not state):
        return send(bucket.buffer())
    if not state:
        state += [bucket.buffer(), torch.futures.Future()]
        return state[1]
    future = send(bucket.buffer())
    first, waiting = state
    state.clear()
    waiting.set_result(send(first).wait())
    return future


def test_a_hook_that_changes_the_order_of_buckets_mixes_them():
    """Buckets of one size are known by their number, whoever holds them."""
    verdict = outcome(ddp(held))
    assert verdict.outcome is Outcome.MISMATCH
    assert "bucket" in str(verdict.findings[0])
    assert outcome(ddp(in_order)).outcome is Outcome.SAFE


def test_two_threads_on_one_group_have_no_order():
    """A thread that saves meets its peers on the group that training uses."""

    def job():
        state, grad = grads("state", "grad").values()

        def save():
            dist.all_reduce(state)

        thread = threading.Thread(target=save)
        thread.start()
        time.sleep(0.05)
        dist.all_reduce(grad)
        thread.join()

    verdict = outcome(job)
    assert verdict.unsafe, str(verdict)


def test_a_thread_with_a_group_of_its_own_is_right():
    """The usual fix: the saving thread has its own group."""

    def job():
        own = dist.new_group([0, 1])
        state, grad = grads("state", "grad").values()

        def save():
            dist.all_reduce(state, group=own)

        thread = threading.Thread(target=save)
        thread.start()
        dist.all_reduce(grad)
        thread.join()

    assert outcome(job).outcome is Outcome.SAFE


def test_a_thread_that_is_joined_before_has_an_order():
    """Start and join around the thread's call: nothing runs side by side."""

    def job():
        state, grad = grads("state", "grad").values()
        thread = threading.Thread(target=lambda: dist.all_reduce(state))
        thread.start()
        thread.join()
        dist.all_reduce(grad)

    assert outcome(job).outcome is Outcome.SAFE


def test_threads_that_take_turns_are_never_called_unsafe():
    """An event orders them; they are interleaved all the same, so a finding would be a guess."""

    def job():
        turn = threading.Event()
        state, grad = grads("state", "grad").values()

        def save():
            turn.wait()
            dist.all_reduce(state)

        thread = threading.Thread(target=save)
        thread.start()
        dist.all_reduce(grad)
        turn.set()
        thread.join()

    assert not outcome(job, allow_unknown=True).unsafe


def reduce(count, group=None):
    """A call that is known by its size."""
    dist.all_reduce(torch.ones(count), group=group)


def known_to_end():
    """Each way to know that a task has ended, and a call behind each."""
    with ThreadPoolExecutor(1) as pool:
        pool.submit(reduce, 1).result()
        reduce(2)
        pool.submit(reduce, 1).exception()
        reduce(2)
        wait([pool.submit(reduce, 1)])
        reduce(2)
        for _ in as_completed([pool.submit(reduce, 1)]):
            reduce(2)
        list(pool.map(reduce, [1, 3]))
        reduce(2)
        task = pool.submit(reduce, 1)
        while not task.done():
            time.sleep(0.001)
        reduce(2)
        pool.submit(reduce, 1)
    reduce(2)


def awaited():
    """A task that a coroutine waits for."""

    async def main():
        await asyncio.to_thread(reduce, 1)
        reduce(2)

    asyncio.run(main())


def polled():
    """A thread that is asked whether it still runs."""
    thread = threading.Thread(target=reduce, args=(1,))
    thread.start()
    while thread.is_alive():
        time.sleep(0.001)
    reduce(2)


def tasks_in_order():
    """Tasks of one thread come in their order, beside calls on another group."""
    own = dist.new_group([0, 1])
    with ThreadPoolExecutor(1) as pool:
        tasks = [pool.submit(reduce, count, own) for count in (1, 2, 3)]
        reduce(4)
        wait(tasks)
        reduce(5, own)


def beside():
    """A task and the main thread on one group."""
    with ThreadPoolExecutor(1) as pool:
        task = pool.submit(reduce, 1)
        reduce(2)
        task.result()


def too_early():
    """A wait that may be over before the task is."""
    with ThreadPoolExecutor(1) as pool:
        wait([pool.submit(reduce, 1)], timeout=0.0001)
        reduce(2)


def any_of_two():
    """The first of two tasks has ended, which need not be the one that communicates."""
    with ThreadPoolExecutor(2) as pool:
        next(as_completed([pool.submit(time.sleep, 0.01), pool.submit(reduce, 1)]))
        reduce(2)


def two_threads():
    """Two tasks of two threads on one group."""
    with ThreadPoolExecutor(2) as pool:
        pool.submit(reduce, 1)
        pool.submit(reduce, 2)


def crossed():
    """A pool of one thread is given the same tasks in another order."""
    groups = [dist.new_group([0, 1]) for _ in range(2)]
    with ThreadPoolExecutor(1) as pool:
        for group in groups if dist.get_rank() else groups[::-1]:
            pool.submit(reduce, 1, group)


@pytest.mark.parametrize("job", [known_to_end, awaited, polled, tasks_in_order])
def test_a_task_ends_where_somebody_knows_that_it_has(job):
    """Calls behind that come behind those of the task."""
    assert outcome(job).outcome is Outcome.SAFE


@pytest.mark.parametrize("job", [beside, too_early, any_of_two, two_threads, crossed])
def test_a_task_is_a_thread_from_submit_to_its_end(job):
    """Its calls and those of others come in any order; one thread keeps that of its tasks."""
    assert outcome(job).unsafe


def test_more_tasks_than_threads_are_not_decided():
    """Each rank's two threads wait in calls that the other rank has not begun."""

    def job():
        groups = [dist.new_group([0, 1]) for _ in range(4)]
        order = groups if dist.get_rank() else [*groups[2:], *groups[:2]]
        with ThreadPoolExecutor(2) as pool:
            for group in order:
                pool.submit(reduce, 1, group)

    assert outcome(job, allow_unknown=True).outcome is Outcome.UNKNOWN


def taken(threads):
    """Threads that take their work from one queue, the first of them all of it here."""
    work = queue.Queue()

    def take():
        while count := work.get():
            reduce(count)

    workers = [threading.Thread(target=take) for _ in range(threads)]
    for worker in workers:
        worker.start()
        time.sleep(0.02)
    for count in (1, 2, *[0] * threads):
        work.put(count)
    for worker in workers:
        worker.join()


def pooled(threads):
    """Two tasks of a pool of the other kind, one behind the other."""
    with ThreadPool(threads) as pool:
        pool.apply(reduce, (1,))
        pool.apply(reduce, (2,))


@pytest.mark.parametrize("job", [taken, pooled])
def test_which_thread_takes_what_from_a_queue_is_luck(job):
    """It is another one on each rank, and what one took is no order; one thread alone keeps it."""
    assert outcome(functools.partial(job, 2), allow_unknown=True).outcome is Outcome.UNKNOWN
    assert outcome(functools.partial(job, 1), allow_unknown=True).outcome is Outcome.SAFE


def test_a_callback_of_a_task_is_not_waited_for_with_it():
    """Who reads the result may go on before the callback has run; the end of the pool waits for
    it, and a callback that is added to what has ended runs at once.
    """

    def job(first):
        with ThreadPoolExecutor(1) as pool:
            task = pool.submit(time.sleep, 0.02)
            if first == "ended":
                task.result()
                time.sleep(0.02)
            task.add_done_callback(lambda _: reduce(1))
            task.result()
            if first == "read":
                reduce(2)
        reduce(3)

    for first, expected in (("read", "UNKNOWN"), ("left", "SAFE"), ("ended", "SAFE")):
        found = outcome(functools.partial(job, first), allow_unknown=True)
        assert found.outcome.name == expected, first


PAUSED = """\
import threading, time
import torch
import torch.distributed as dist
from planguard.capture import precheck
from planguard.capture.play import mailroom

mailroom._PATIENCE = 0.6


def job():
    other = 1 - dist.get_rank()

    def receive():
        dist.recv(torch.zeros(1), src=other)

    thread = threading.Thread(target=receive)
    thread.start()
    print("both wait", flush=True)
    time.sleep(0.4)
    dist.send(torch.ones(1), dst=other)
    thread.join()


check = precheck(2, ranks="all", model="gloo", on_unsafe="return", timeout=60.0)
print(check.run(job).outcome.name, flush=True)
"""


def test_a_machine_that_stands_still_is_no_silence(tmp_path):
    """All processes are stopped for longer than a room is patient: no rank is taken to be stuck."""
    (tmp_path / "paused.py").write_text(PAUSED)
    command = [sys.executable, "-W", "ignore", "paused.py"]
    with subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as job:
        assert job.stdout.readline() == "both wait\n"
        time.sleep(0.1)  # until the threads wait as well
        os.killpg(job.pid, signal.SIGSTOP)
        time.sleep(1.5)
        os.killpg(job.pid, signal.SIGCONT)
        rest = job.communicate(timeout=60)[0].split()
    assert rest[-1] == "SAFE"
