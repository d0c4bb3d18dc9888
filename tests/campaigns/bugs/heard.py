"""Ranks that may hang: forked, heard for a while, and ended."""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from typing import TYPE_CHECKING, Any

import torch
import torch.multiprocessing as mp

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@contextlib.contextmanager
def last_words(rank: int, said: Any) -> Iterator[None]:
    """Say what the block raises if it is a communication's error, then end this process.

    Args:
        rank: The rank that speaks.
        said: The queue that the parent listens to.
    """
    try:
        yield
    except RuntimeError as error:
        said.put((rank, f"RuntimeError: {str(error).rpartition(']')[2].strip()[:90]}"))
    while said.qsize():  # the queue is empty once the parent has read it
        time.sleep(0.01)
    time.sleep(1)
    os._exit(0)


def hear(
    title: str, be_rank: Callable[..., None], world: int, seconds: float, *given: object
) -> None:
    """Run ``be_rank(rank, *given, store, said)`` in a process per rank; print what each said.

    Args:
        title: What is run, for the line before.
        be_rank: Puts ``(rank, text)`` into the queue ``said``; ``store`` is a file to meet at.
        world: Number of ranks.
        seconds: All are killed then.
        given: What every rank is told.
    """
    torch.set_num_threads(1)  # a forked rank must not enter the parent's pool of threads
    context = mp.get_context("fork")
    said: Any = context.Queue()
    seen: dict[int, list[str]] = {rank: [] for rank in range(world)}

    def listen() -> None:
        while not said.empty():
            rank, text = said.get()
            seen[rank].append(text)

    with tempfile.TemporaryDirectory() as folder:
        told = (*given, f"{folder}/store", said)
        ranks = [context.Process(target=be_rank, args=(rank, *told)) for rank in range(world)]
        for one in ranks:
            one.start()
        end = time.monotonic() + seconds
        while any(one.is_alive() for one in ranks) and time.monotonic() < end:
            listen()
            time.sleep(0.05)
        listen()
        for one in ranks:
            one.kill()
            one.join()
    print(f"torch {torch.__version__}, {title}")
    for rank, lines in seen.items():
        print(f"  rank {rank}: {'; '.join(lines) or 'died'}", flush=True)
