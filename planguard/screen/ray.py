"""Screening on a Ray cluster: one Ray task per chunk."""

from __future__ import annotations

import socket
import threading
import time
from typing import TYPE_CHECKING, Any

from planguard.errors import MissingPackageError, UsageError, shorten
from planguard.screen.executors import Futures

if TYPE_CHECKING:
    from concurrent.futures import Future

CONNECT_SECONDS = 3.0
"""How long the head of a cluster may take to accept a connection."""
ATTEMPTS = 3
"""Connections in a row that the head may refuse before it is taken for dead."""
LEAVE_SECONDS = 10.0
"""How long leaving a cluster may take."""


def ray_executor(address: str | None, jobs: int | None) -> Futures:
    """Return an executor on a Ray cluster; one is started on this machine if there is none.

    Args:
        address: Address of the cluster, as ``ray.init`` takes it.
        jobs: Cores of a cluster that is started here.

    Raises:
        MissingPackageError: Ray is not installed.
        UsageError: Ray does not reach the cluster.
    """
    try:
        import ray
    except ImportError:
        raise MissingPackageError("ray", "the executor ray") from None
    if not ray.is_initialized():
        given = {"address": address} if address else {"num_cpus": jobs}
        try:
            ray.init(include_dashboard=False, log_to_driver=False, **given)
        except (OSError, RuntimeError, ValueError) as error:
            what = shorten(f"Ray cannot be started or reached: {error}", 300)
            hint = "ray:ADDRESS, as ray.init takes it; RAY_AUTH_MODE=token where it wants a token"
            raise UsageError(what, hint=hint) from None
    cores = int(ray.cluster_resources().get("CPU", 1))
    named = (address or "").partition("://")[2]  # a Ray client knows no other address
    head = named or str(ray.get_runtime_context().gcs_address)

    def leave() -> None:
        # Ray ends this process when its head has been away for a minute; from there it may wait
        # for ever, too.
        thread = threading.Thread(target=ray.shutdown, daemon=True)
        thread.start()
        thread.join(LEAVE_SECONDS)

    return Futures(_Pool(ray), jobs or cores, is_alive=lambda: is_reachable(head), leave=leave)


def is_reachable(address: str) -> bool:
    """Whether something accepts connections at ``host:port``."""
    host, _, port = address.rpartition(":")
    for attempt in range(ATTEMPTS):
        time.sleep(attempt)
        try:
            with socket.create_connection((host.strip("[]"), int(port)), CONNECT_SECONDS):
                return True
        except OSError:
            continue
    return False


class _Pool:
    """``submit`` in the form of ``concurrent.futures``."""

    def __init__(self, ray: Any) -> None:
        self._ray = ray
        self._remote: dict[Any, Any] = {}

    def submit(self, function: Any, data: bytes) -> Future[bytes]:
        if function not in self._remote:
            # Lost chunks are submitted again by Futures, which counts them.
            self._remote[function] = self._ray.remote(max_retries=0)(function)
        future: Future[bytes] = self._remote[function].remote(data).future()
        return future
