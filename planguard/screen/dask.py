"""Screening on a Dask cluster, through the ``concurrent.futures`` face of its client."""

from __future__ import annotations

from typing import Any

from planguard.errors import MissingPackageError, UsageError, shorten
from planguard.screen.executors import Futures


def dask_executor(client: Any, jobs: int | None) -> Futures:
    """Return an executor on a Dask cluster; one is started on this machine if none is named.

    Args:
        client: A ``distributed.Client``, the address of a scheduler, or None.
        jobs: Worker processes of a cluster that is started here.

    Raises:
        MissingPackageError: Dask's ``distributed`` is not installed.
        UsageError: The scheduler is not reached.
    """
    try:
        from distributed import Client
    except ImportError:
        raise MissingPackageError("distributed", "the executor dask") from None
    if client is None:
        client = Client(n_workers=jobs, threads_per_worker=1, dashboard_address=None)
    elif isinstance(client, str):
        try:
            client = Client(client)
        except (OSError, ValueError) as error:
            what = shorten(f"Dask's scheduler is not reached: {error}", 300)
            raise UsageError(what, hint="dask:tcp://HOST:PORT, as dask scheduler says it") from None
    cores = sum(client.ncores().values())

    def is_alive() -> bool:  # a client whose scheduler died tries for a while, and closes
        return client.status in {"running", "connecting"}

    return Futures(client.get_executor(pure=False), jobs or cores or 1, is_alive=is_alive)
