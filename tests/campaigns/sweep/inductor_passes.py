"""Inductor's passes over graphs with communication, and their options."""

from __future__ import annotations

import contextlib
import itertools
import random
from functools import partial
from typing import TYPE_CHECKING, Any
from unittest import mock

import torch.distributed as dist

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SMALL = 0.0015
"""A cap of buckets, in MiB, under which two or three of the weights fit."""


def post_grad(graph: Any, _: str, **settings: Any) -> None:
    """Run all of Inductor's passes behind AOTAutograd with these settings."""
    from torch._guards import detect_fake_mode
    from torch._inductor import config
    from torch._inductor.fx_passes.post_grad import post_grad_passes
    from torch._inductor.virtualized import V

    values = [node.meta["val"] for node in graph.graph.nodes if "val" in node.meta]
    with config.patch(settings), V.set_fake_mode(detect_fake_mode(values)):
        post_grad_passes(graph, is_inference=False)


def overlap(graph: Any, phase: str, *, speed: Any = None, costs: Any = None, **named: Any) -> None:
    """Run overlap scheduling on a device of a given speed (Tflop/s, a function of the rank)."""
    rank = dist.get_rank()
    options = {"enable_overlap_scheduling": True, "compute_estimator": "analytical", **named}
    if costs is not None:
        options["custom_runtime_estimation"] = partial(costs, rank)
    with _device(1e-4 if speed is None else speed(rank)) as stack:
        if options["compute_estimator"] == "benchmark":
            stack.enter_context(_no_cache())
        post_grad(graph, phase, **{f"aten_distributed_optimizations.{name}": value
                                   for name, value in options.items()})  # fmt: skip


@contextlib.contextmanager
def _device(tera: float) -> Iterator[contextlib.ExitStack]:
    """Let the cost models see a device of this speed (Tflop/s): they ask a GPU for it."""
    known = {"get_gpu_dram_gbps": lambda *_: 10.0, "get_device_tflops": lambda *_: tera}
    with contextlib.ExitStack() as stack:
        for module in ("torch.utils._runtime_estimation", "torch._inductor.utils"):
            stack.enter_context(mock.patch.multiple(module, **known))
        yield stack


def _no_cache() -> Any:
    """Let no rank take what another measured from the cache on disk."""
    from torch._inductor.fx_passes import overlap_scheduling

    return mock.patch.object(overlap_scheduling, "get_cached_node_time", return_value=None)


def own_costs(rank: int, node: Any, _: Any, *, collectives: bool) -> float | None:
    """Estimate a node as this rank happens to, in ms; collectives only if asked."""
    if not collectives and "c10d" in str(node.target):
        return None
    return random.Random(f"{rank} {node.name}").uniform(0.001, 1.0)


def manual(graph: Any, _: str, *, mode: str | None) -> None:
    """Run overlap scheduling by modules, a bucket for every second layer."""
    from torch._inductor.fx_passes.overlap_manual_scheduling import manual_overlap_bucketing

    with _device(1e-4):
        manual_overlap_bucketing(graph, [["0", "1"], "2", "3"], insert_overlap_deps=False,
                                 bucket_mode=mode)  # fmt: skip


def _passes() -> dict[str, Callable[[Any, str], None]]:
    found: dict[str, Callable[[Any, str], None]] = {"default": post_grad}
    caps = {"": None, ", small buckets": lambda _: SMALL}
    for (said, cap), mode in itertools.product(
        caps.items(), ("default", "custom_ops", "custom_ops_multidtype", "coalesced")
    ):
        both: dict[str, Any] = {}
        for what, which in itertools.product(("gathers", "scatters"), ("all", "only_fsdp")):
            option = {"gathers": "bucket_all_gathers", "scatters": "bucket_reduce_scatters"}[what]
            given = {f"{option}_fx": which, f"{option}_fx_bucket_size_determinator": cap,
                     f"{option}_bucket_mode": mode}  # fmt: skip
            both |= given
            if cap is None:
                found[f"bucket {what} {which}, {mode}"] = partial(post_grad, **given)
        found[f"bucket both, {mode}{said}"] = partial(post_grad, **both)
    for said, cap in caps.items():
        found[f"bucket reduces{said}"] = partial(
            post_grad, bucket_all_reduces_fx="all",
            bucket_all_reduces_fx_bucket_size_determinator=cap,
        )  # fmt: skip
    found["dedup scatters"] = partial(post_grad, dedup_reduce_scatters=True)
    name = "aten_distributed_optimizations.allow_comms_decompositions"
    found["decompose"] = partial(post_grad, **{name: True})
    for passes in (("fuse_ddp_with_concat_op",), ("fuse_ddp_with_coalesced_op",),
                   ("schedule_comm_wait",), ("fuse_ddp_with_concat_op", "schedule_comm_wait"),
                   ("fuse_ddp_with_coalesced_op", "schedule_comm_wait")):  # fmt: skip
        found[f"ddp: {' + '.join(passes)}"] = partial(
            post_grad, _fuse_ddp_communication=True, _fuse_ddp_communication_passes=list(passes)
        )
    found["micro-pipeline tp"] = partial(post_grad, _micro_pipeline_tp=True)
    name = "aten_distributed_optimizations"
    found["low contention"] = partial(post_grad, **{
        f"{name}.enable_low_contention_collectives": True,
        f"{name}.low_contention_skip_overlap_check": True,
        f"{name}.low_contention_min_bytes_per_rank": 0,
    })  # fmt: skip
    for mode in (None, "custom_ops", "coalesced"):
        found[f"manual overlap, {mode}"] = partial(manual, mode=mode)
    return {**found, **_overlaps()}


def _overlaps() -> dict[str, Callable[[Any, str], None]]:
    options: dict[str, dict[str, Any]] = {
        "": {},
        "no deps": {"insert_overlap_deps": False},
        "near": {"max_compute_pre_fetch": 1},
        "nearest": {"max_coll_distance": 1},
        "little in flight": {"max_in_flight_gb": 1e-7},
        "little memory": {"max_memory_increase_gb": 1e-7, "max_memory_increase_ratio": 0.0},
        "long compute": {"compute_overlap_multipler": 100.0},
        "short compute": {"compute_overlap_multipler": 0.01},
        "no fusion regions": {"enable_fusion_regions": False},
        "no pre-buckets": {"pre_bucketing_fsdp_collectives": False},
        "small pre-buckets": {"pre_bucketing_fsdp_collectives_bucket_cap_mb": SMALL},
        "order first": {"prioritize_bucketing_during_scheduling": False},
        "exposed first": {"bucket_exposed_first": True},
        "exposed as they come": {"bucket_exposed_first": False},
        "internode only": {"bucket_only_internode_comms": True},
        "custom ops": {"bucket_mode": "custom_ops"},
        "multidtype": {"bucket_mode": "custom_ops_multidtype"},
        "coalesced": {"bucket_mode": "coalesced"},
    }
    ranks: dict[str, dict[str, Any]] = {
        "devices of other speeds": {"speed": lambda rank: 10.0 ** (rank - 6)},
        "own costs": {"costs": partial(own_costs, collectives=True)},
        "own costs of compute, aligned": {
            "costs": partial(own_costs, collectives=False), "compute_estimator": "benchmark"},
        "own costs, aligned": {
            "costs": partial(own_costs, collectives=True), "compute_estimator": "benchmark"},
    }  # fmt: skip
    found: dict[str, Callable[[Any, str], None]] = {}
    for bucketing in (False, True):
        base: dict[str, Any] = {"collective_bucketing": bucketing}
        kind = f"overlap{' and bucket' if bucketing else ''}"
        for said, given in options.items():
            if said and not bucketing and said != "no deps":
                continue
            found[f"{kind}{', ' * bool(said)}{said}"] = partial(overlap, **{**base, **given})
        for said, given in ranks.items():
            for pre in (True, False):
                rest = {"pre_bucketing_fsdp_collectives": pre}
                title = f"{kind}, {said}{'' if pre else ', no pre-buckets'}"
                found[title] = partial(overlap, **{**base, **given, **rest})
    return found


PASSES = _passes()
"""Name of a setting to a function that changes a graph in place, given the phase it is of."""

RELEVANT = {
    "ddp": ("default", "bucket reduces", "ddp", "overlap", "manual", "low"),
    "fsdp": ("default", "bucket", "dedup", "overlap", "manual", "low"),
    "tp": ("default", "bucket both", "bucket reduces", "overlap", "micro", "low"),
    "muon": ("default", "decompose", "bucket both", "overlap"),
    "messages": ("default", "bucket gathers", "bucket both"),
}
"""First word of a job to how settings begin that touch what it communicates."""


def settings_for(job: str) -> list[str]:
    """Return the settings that are worth trying on a job."""
    kind = next(word for word in RELEVANT if job.startswith(word))
    few = ("overlap", "overlap and bucket") if kind == "messages" else ()  # most of these hang
    return [name for name in PASSES if name.startswith(RELEVANT[kind]) or name in few]
