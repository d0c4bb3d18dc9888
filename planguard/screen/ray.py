"""Screening on a Ray cluster: one Ray task per chunk."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planguard.errors import MissingPackageError
from planguard.screen.executors import Futures

if TYPE_CHECKING:
    from concurrent.futures import Future


def ray_executor(address: str | None, jobs: int | None) -> Futures:
    """Return an executor on a Ray cluster; one is started on this machine if there is none.

    Args:
        address: Address of the cluster, as ``ray.init`` takes it.
        jobs: Cores of a cluster that is started here.

    Raises:
        MissingPackageError: Ray is not installed.
    """
    try:
        import ray
    except ImportError:
        raise MissingPackageError("ray", "the executor ray") from None
    if not ray.is_initialized():
        given = {"address": address} if address else {"num_cpus": jobs}
        ray.init(include_dashboard=False, log_to_driver=False, **given)
    cores = int(ray.cluster_resources().get("CPU", 1))
    return Futures(_Pool(ray), jobs or cores)


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
