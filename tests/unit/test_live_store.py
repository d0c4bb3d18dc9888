"""The store of a live guard, where the job's own store outlives a start of the job."""

from __future__ import annotations

import itertools
import threading

import pytest

pytest.importorskip("torch")

from torch.distributed import HashStore, distributed_c10d

from planguard.live import watch


@pytest.mark.timeout(60)
def test_a_guard_of_a_job_that_was_started_anew_finds_its_own_store(monkeypatch):
    """torchrun keeps the job's store for the next attempt, with the port of the guard before: the
    ranks of the second attempt meet on the port that rank 0 tells now, and not on the old one.
    """
    job = HashStore()
    monkeypatch.setattr(distributed_c10d, "_get_default_store", lambda: job)
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    made = {}
    for attempt in ("0", "1"):
        monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", attempt)
        monkeypatch.setattr(watch, "_guards", itertools.repeat(0))  # new processes

        def other():
            made["other"] = watch._own_store(1)

        thread = threading.Thread(target=other)  # comes before rank 0, as ranks do
        thread.start()
        made["first"] = watch._own_store(0)
        thread.join(timeout=30)
        made["first"].set("said", attempt)
        assert made["other"].get("said") == attempt.encode()
        assert made["other"].port == made["first"].port
        made.clear()  # the store of that attempt has gone
